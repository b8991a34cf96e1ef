"""Compositional kernel search (CKS) and the Automatic Statistician's grammar (METHODS 3).

The best kernel is grown step by step until the score no longer improves. At each depth the kernels one step away from
the best so far (`growth.py`) are raced (`racing.py`). A candidate that fails numerically is a row with a reason, never
the end of the search; Ctrl-C and the end of the time budget return the best so far.

On several columns there are two lines of growth: one from the base kernels on one column, and one from kernels on every
column at once, which come first (`every_column.py`). The better of their best kernels wins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from joblib import effective_n_jobs

from mercer.compute.program import compile_program
from mercer.errors import InputError
from mercer.fitting.minimise import ONE_THREAD_BELOW, Clock, OutOfTimeError, Work
from mercer.fitting.periods import find_step, in_turn, periods, seasons
from mercer.fitting.problem import FAILED_VALUE, FitOptions
from mercer.fitting.starts import may_repeat
from mercer.inference.contract import Data
from mercer.kernels.algebra import canonical, canonical_structure, structure
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression, build_base, product_of
from mercer.kernels.leaf import REGISTRY
from mercer.kernels.parameters import layout
from mercer.learners.averaging import ForecastErrors, forecast, weigh
from mercer.learners.contract import (
    Candidate,
    Context,
    Learned,
    Learner,
    Step,
    Weights,
    WholeData,
    change_settings,
    read_time_budget,
)
from mercer.learners.criteria import BIC, criterion
from mercer.learners.every_column import EveryColumnPolicy, find_on, kernel_on_each_column, kernels_on_every_column
from mercer.learners.experience import read_priors, to_plain
from mercer.learners.finalists import choose_finalists, find_carried, fit_to_all, leave_out_negligible, run_all
from mercer.learners.growth import (
    LEFT_BEHIND,
    Child,
    Entry,
    Grammar,
    GrowthLine,
    Level,
    base_kernels,
    check_operators,
    children,
    has_periods,
    inherit,
    jump_of_level,
    leave_behind,
    usual_kernels,
)
from mercer.learners.intervals import Beginning, IntervalPolicy, IntervalRace, sharpen, with_verdict
from mercer.learners.judging import AUTO, appoint
from mercer.learners.racing import ALL_STARTS, RacePolicy, Rung, Task, advance, promote, seed_for, time_evaluation
from mercer.learners.simplify import centre, simplify
from mercer.learners.trials import Attempt, Journal, Trials, fingerprint
from mercer.linalg.threads import one_thread

SHARPENING = 1000  # the rung, in a journal, of a closer bracket of the best: behind all others
STAGES_BEFORE_GROWTH = 5_000
EVERY_COLUMN = 10_000  # added to the stages, in a journal, of what grows from kernels on every column
USUAL_PARTS = 20_000  # the same of what grows from the usual parts of a series
SAMPLE = 100_000  # added to the stages, in a journal, of a search on a sample that comes before one on all rows
CARRIED = 50_000  # the stage, in a journal, at which its best kernels are fitted to all rows
# What may change when a search goes on from its checkpoint.
ANY_TIME = ("n_jobs", "time_budget", "checkpoint", "average", "finalists")


@dataclass(frozen=True)
class SearchPolicy:
    """What a search tries, and when it believes that something is better."""

    peaks: int = 4  # periods of what is not explained yet that a new part is tried with
    draws: int = 8  # for each start: one for every peak, and some at random
    first_parents: int = 4  # base kernels that the first step starts from: the best alone may stand in for two
    first_starts: int = 2  # kernels on every column that their first step starts from, for the same reason
    bases: int = 20  # base kernels that are all fitted to the end; more, on several columns, are raced
    seasons: int = 3  # among the usual parts of a series: each costs three numbers, and is dropped where it is none
    sample_share: float = 0.6  # of a time budget, for a search on a sample before the one on all rows
    carried: int = 4  # of its best kernels that are fitted to all rows, beside those that led to the best
    carried_steps: int = 20  # of those fits: the optimum on a sample is near
    improvement: float = 2.0  # score that a deeper kernel must gain: less is "not worth a bare mention"
    for_luck: float = 2.0  # times log K, that the best of a large level of K must gain: one of K is ahead by chance
    every_column: bool = True  # begin with kernels on every column, where there are several
    simplify: bool = True  # try kernels without a part of the best, which may have become idle
    interval_iterations: int = 20  # of candidates on the sample, where intervals decide and nobody is raced
    finalists: int = 10  # kernels to average, beside the best of every depth
    least_weight: float = 1e-3  # of a finalist on several columns: less changes no prediction, and costs a matrix
    prior_rows: int = 100  # of a series up to which experience judges: with more its forecasts were worse than by BIC
    rows_to_forecast: int = 40  # fewer give origins with nothing to learn from
    timing_rows: int = 1000  # at most, on which an evaluation is timed
    # What a time budget is to leave room for. Evaluations: one that is under way when time ends, the last of a fit, the
    # posteriors of the finalists. Seconds: none, but a caller who has work of its own in the same budget needs some.
    evaluations_after: float = 3.0
    seconds_after: float = 0.0
    most_after: float = 0.6  # of the budget, for both
    forecast_share: float = 0.15  # of the budget, for forecasts of the finalists where there are any


@dataclass(frozen=True)
class GrammarSearch(Learner):
    """Compositional kernel search (Automatic Statistician, CKS).

    Parameters
    ----------
    bases : symbols of the base kernels to build from, on columns of numbers and dates; categories have CAT.
    operators : "+" adds, "*" multiplies, "r" replaces a base kernel; "j" begins with a jump of the level too, where a
        series looks like that: CP(0, C); "|" (on request) changes: CP, CW.
    grammar : "full" applies them to every subexpression, "cks" to the whole kernel only (replacement everywhere).
    score : "auto" (default) is "evidence" on few rows of a series, else "bic". "evidence": -2 log evidence averaged
        over the priors (Laplace), and what a rare structure costs; or "bic", "aic", "loo" (leave one out), or
        "heldout": a fifth of the rows, drawn at random, judges kernels fitted to the others by -2 N times its mean log
        density; the chosen are then fitted to all N rows.
    priors : "experience" (default) is what other series have taught, for series (one column); or what
        `mercer.learn_priors` returned; or None. By "evidence" they hold the parameters; without any, weak ones do.
    max_depth : how many steps from a base kernel; None: until the score no longer improves.
    time_budget : seconds after which the best so far is returned.
    restarts : starting points for each candidate.
    race : leave candidates that cannot win behind (much faster).
    n_jobs : candidates fitted at the same time, through joblib. The result does not depend on it.
    checkpoint : a folder; the same call with the same folder goes on where an earlier one was cut off.
    average : predict with the finalists, not with the winner alone: weighted by exp(-score / 2) within the data, and
        beyond it, where there is one input column, by how well they forecast from earlier origins. Components and
        words stay the winner's.
    finalists : how the winner is chosen among the best by score. "score": the best score. "forward": the best forecast
        from earlier origins (rolling origin on the one input column), for those who want to extrapolate.
    buffer : how many kernels that may be better the search also grows, where a score is an interval (many rows).
    policy : what is tried, and what counts as better; None: that of the estimator, or the defaults.
    """

    bases: Sequence[str] = ("SE", "PER", "LIN", "RQ", "M12")
    operators: str = "+*rj"
    grammar: Grammar = "full"
    score: str = "auto"
    max_depth: int | None = None
    time_budget: float | None = None
    restarts: int = 3
    race: bool = True
    n_jobs: int | None = None
    checkpoint: str | Path | None = None
    average: bool = True
    finalists: Literal["score", "forward"] = "score"
    max_iterations: int = 200
    buffer: int = 1
    policy: SearchPolicy | None = None
    priors: Any = "experience"

    makes_batches = True
    takes_categories = True
    policy_kinds = (("policy", SearchPolicy),)
    letters = (("T", "max_depth"), ("B", "bases"))

    @classmethod
    def paper(cls, **changes: Any) -> GrammarSearch:
        """Return Algorithm 1 of compositional kernel search as printed (SKC, appendix A), with your changes.

        Base kernels SE, LIN, PER and RQ on every column; from the one best kernel k all k + B and k * B and every
        replacement of a base kernel in k; all fitted to the end; again until BIC no longer decreases. The winner
        predicts alone.

        Different from the paper on purpose: kernels that are equal as functions are fitted once, a product has one
        variance, PER is left out on a column with too few values to show a period, columns and target are standardised,
        and the level of the target is fitted with the kernel. The appendix names no optimiser: it is a quasi-Newton
        method of at most 200 steps from four starts, eight for a base kernel alone. Of more rows than exact inference
        takes (3,000 without a GPU) intervals on all rows stand in for the BIC.
        """
        policy = SearchPolicy(first_parents=1, improvement=0.0, for_luck=0.0, every_column=False, simplify=False)
        bases = ("SE", "LIN", "PER", "RQ")
        how: dict[str, Any] = {"score": "bic", "priors": None, "race": False, "average": False, "buffer": 0}
        return change_settings(cls(bases, "+*r", grammar="cks", restarts=4, policy=policy, **how), changes)

    def learn(self, context: Context) -> Learned:
        """Search on scaled data, with intervals on all rows in place of scores where these are too many."""
        self.check()
        search = Search(self, context)
        search.run()
        if search.trials.best is None:
            raise search.trials.failure("the search found no kernel")
        return search.conclude()

    @property
    def by_intervals(self) -> bool:
        """A score has bounds where the evidence has."""
        return self.score == AUTO or criterion(self.score).by_evidence

    @property
    def seconds_allowed(self) -> float | None:
        """The time budget."""
        return read_time_budget(self.time_budget)

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        folder = None if self.checkpoint is None else str(self.checkpoint)
        given = self.priors if isinstance(self.priors, str) else read_priors(self.priors)
        priors = given if given is None or isinstance(given, str) else to_plain(given)
        return {**super().describe(), "bases": list(self.bases), "checkpoint": folder, "priors": priors}

    def check(self) -> None:
        """Refuse settings that mean nothing before anything is fitted."""
        if self.score != AUTO:
            criterion(self.score)
        read_priors(self.priors)
        self.check_choices(grammar=("full", "cks"), finalists=("score", "forward"))
        if isinstance(self.bases, str) or not isinstance(self.bases, Sequence):
            raise InputError(f"bases must be a list of base kernels such as ['SE', 'PER'], not {self.bases!r}")
        read_time_budget(self.time_budget)
        self.check_counts(restarts=1, max_iterations=1, buffer=0, max_depth=0, optional=("max_depth",))
        self.check_flags("race", "average")
        if self.checkpoint is not None and not isinstance(self.checkpoint, str | Path):
            raise InputError(f"checkpoint must be the path of a folder, not {self.checkpoint!r}")
        self.check_policies()
        check_operators(self.operators)


class Search:
    """One run of the search; `run` fills `trials`, `conclude` chooses among the finalists.

    `data` are the rows to learn from; where some are held out, `held_out` judges what was learned. Where `data` are a
    sample of too many rows for exact inference, `whole` are all of them, and intervals on those decide. `shown` are
    rows that are looked at for periods, where these are more. `stages` is added to the stages in the journal.
    """

    def __init__(self, settings: GrammarSearch, context: Context, shown: Data | None = None, stages: int = 0) -> None:
        self.settings, self.context, self.stages = settings, context, stages
        self.policy, self.racing = settings.policy or context.policy(SearchPolicy), context.policy(RacePolicy)
        self.judge = appoint(context, settings.score, settings.priors, self.policy.prior_rows)
        self.criterion, self.data, self.held_out = self.judge.criterion, self.judge.data, self.judge.held_out
        self.engine, self.columns, self.seed, self.whole = context.engine, context.columns, context.seed, context.whole
        self.shown = self.data if shown is None else shown
        jobs, clock = context.count_jobs(settings.n_jobs), Clock(settings.time_budget)
        journal = self._open_journal()
        self.trials = Trials(context.report, clock, jobs, backend=context.backend, journal=journal)
        self.rows, self.share = self.judge.rows, self.judge.share
        # columns of numbers, which kernels on every column join, and what stands for each of the others beside these
        self.number_columns = [column for column in self.columns if column not in context.categories]
        self.labels = [build_base("CAT", column) for column in self.columns if column in context.categories]
        self.kept = 0.0  # seconds of a time budget for what comes after the search
        self.grown: set[int] = set()  # numbers of the candidates that were parents
        self.numbers: dict[Expression, int] = {}  # of the candidates, by canonical structure
        self.samples: dict[int, Data] = {}  # of the rows, by size: preparing them for the kernels takes time

    @property
    def forecast_column(self) -> int | None:
        """The one column that forecasts go along, where there are rows enough for them."""
        alone = len(self.columns) == 1 and not self.context.categories
        return self.columns[0] if alone and self.context.data.count >= self.policy.rows_to_forecast else None

    @cached_property
    def own(self) -> dict[int, Array]:
        """Periods of the target, by column: those that are clear, then all others."""
        clear, found, most = self.seasons, self._periods(self.shown.y), self.policy.peaks
        both = {c: [*clear[c], *found.get(c, ())] for c in self.number_columns}
        return {column: np.array(list(dict.fromkeys(each))[:most]) for column, each in both.items() if each}

    @cached_property
    def seasons(self) -> dict[int, list[float]]:
        """Periods of patterns that repeat clearly, by column of numbers."""
        X, y = self.shown.X, self.shown.y
        return {column: seasons(X[:, column], y, self.policy.seasons).tolist() for column in self._columns_in_time()}

    @cached_property
    def _jumps(self) -> list[Child]:
        """A jump of the level among the first candidates, where the rows of a series look like that."""
        if len(self.columns) > 1 or self.context.categories or "j" not in self.settings.operators:
            return []
        (column,) = self.columns
        known = self.seasons[column] if "PER" in self.settings.bases else []  # else nobody has looked for them
        place = find_step(self.shown.X[:, column], self.shown.y, next(iter(known), None))
        if place is None:
            return []
        jump = jump_of_level(column, place)
        return [Child(jump, canonical_structure(jump), Step("jump", structure(jump)))]

    def _columns_in_time(self) -> Iterator[int]:
        """Yield the columns of numbers as long as there is time to look at them, once there is a kernel to return."""
        for column in self.number_columns:
            if self.trials.best is not None:
                self.trials.clock.check()
            yield column

    def _open_journal(self) -> Journal | None:
        folder, whole = self.settings.checkpoint, self.whole
        if folder is None:
            return None
        settings = {name: value for name, value in self.settings.describe().items() if name not in ANY_TIME}
        if whole is not None:
            settings["inducing"] = whole.engine.inducing
        return Journal(folder, fingerprint(self.context.data if whole is None else whole.data, settings, self.seed))

    def run(self) -> None:
        """Search until nothing improves, or until it is stopped."""
        trials = self.trials
        all_bases = base_kernels(self.settings.bases, self.columns, self.context.categories)
        # no period along a column with too few values to show one, such as a yes or no
        periodic = {b for b in all_bases if any(p.name == "period" for p in b.specs)}
        bases = [b for b in all_bases if b not in periodic or may_repeat(self.data.X[:, b.columns[0]])] or all_bases
        alone = [base for base in bases if not base.spec.coded]
        several, line = GrowthLine(EVERY_COLUMN), GrowthLine()
        lines = [(line, bases)]
        with trials.stopping():
            self._keep_time()
            if len(self.columns) > 1 and self.policy.every_column:
                lines = [(several, [*bases, *self._begin_with_every_column(several)]), (line, bases)]
            most = self.settings.max_depth if self.settings.max_depth is not None else 1000
            begun = self._begin_with_sample(line) if self._begins_with_sample else -1
            if self.shown is not self.data:
                self._begin_with_usual_parts(GrowthLine(USUAL_PARTS), bases, most)
            for depth in range(min(1, most), 1 + most):
                if depth <= begun:
                    continue
                for each, usable in lines:
                    if each is line and depth <= 1:
                        first = [Child(base, base, Step("base", base)) for base in alone]
                        self.race(line, 0, 0, [(child, None) for child in (*first, *self._jumps)])
                    if depth > 0 and not each.ended:
                        self._grow(each, depth, usable)
                if all(each.ended for each, _ in lines):
                    break
        self._note_end(line, len(alone))

    def _keep_time(self) -> None:
        """Keep a part of the time budget for what comes after the search, by the time that an evaluation takes."""
        clock = self.trials.clock
        if clock.budget is None:
            return
        policy, share = self.policy, self.context.kept_share * clock.budget
        kernel = build_base("SE", *self.number_columns) if self.number_columns else self.labels[0]
        seconds = time_evaluation(kernel, self.data, self.engine, policy.timing_rows)
        after = policy.seconds_after + policy.evaluations_after * seconds
        self.kept = share + min(after, policy.most_after * (clock.budget - share))
        looks_ahead = self.settings.average and self.forecast_column is not None
        ahead = policy.forecast_share * (clock.budget - self.kept) if looks_ahead else 0.0
        self.trials.clock = replace(clock, reserve=self.kept + ahead)

    @property
    def _begins_with_sample(self) -> bool:
        """Whether a whole search on a sample comes first: on a series, where there are many rows to score by."""
        series = len(self.columns) == 1 and not self.context.categories and self.whole is None
        many = self.data.count > self.racing.many_rows
        return series and many and self.settings.race and self.criterion.by_evidence and self.held_out is None

    def _begin_with_sample(self, line: GrowthLine) -> int:
        """Search on a sample of the rows, then fit the best kernels to all of them; return how deep they are.

        A search on some hundred rows takes seconds, and finds what is strong: seasons, a trend. Periods are still
        looked for in all rows. What is weak is left to the levels that follow, on all rows.
        """
        trials, left = self.trials, self.trials.clock.seconds_left
        budget = None if left is None else self.policy.sample_share * left
        settings = replace(self.settings, time_budget=budget, checkpoint=None, score=self.criterion.name)
        sample = replace(self.context, data=self._sample(self.racing.sample), kept_share=0.0)
        first = Search(settings, sample, self.data, SAMPLE)
        first.trials.journal = trials.journal
        first.run()
        if first.trials.stopped == "request":
            trials.candidates[:] = first.trials.candidates
            raise KeyboardInterrupt
        carried = find_carried(first.trials, self.policy.carried)
        self._note_sampled(line, first)
        entries, work = [], {}
        for place, candidate in enumerate(carried):
            fit, key = candidate.full_fit, canonical_structure(candidate.expression)
            options = FitOptions(1, max_iterations=self.settings.max_iterations, until=trials.clock.until)
            task = Task(fit.expression, key.text(), fit.noise, False, {}, {}, options)
            entries.append(Entry(Child(fit.expression, key, candidate.step), None, task))
            work[place] = (task, None, self.data, self.engine, self.policy.carried_steps, 1, True)
        for place, reached in trials.run(advance, work, stage=self.stages + CARRIED, batched=True):
            self._add(line, entries[place], reached, carried[place].depth, False, 0.0)
        return 0 if line.best is None else trials.candidates[line.best].depth

    def _begin_with_usual_parts(self, line: GrowthLine, bases: Sequence[Base], most: int) -> None:
        """Fit what most series consist of, leave out what does not pay, and grow from there to the end.

        A line, a smooth curve, the seasons that all rows show and what is short-lived: a kernel that a search from base
        kernels reaches after some levels. What that search finds otherwise comes after.
        """
        X, column = self.shown.X, self.columns[0]
        more = [child.expression for child in self._jumps]
        span = float(np.ptp(X[:, column]))
        kernels = usual_kernels(self.settings.bases, column, self.seasons[column], span, more)
        kernels = [kernel for kernel in kernels if len(list(kernel.leaves())) <= most + 1]
        depth = max((len(list(kernel.leaves())) for kernel in kernels), default=1) - 1
        if depth < 1 or "+" not in self.settings.operators:
            return
        usual = [Child(each, canonical_structure(each), Step("usual parts", structure(each))) for each in kernels]
        rungs = self.racing.rungs_of_few(self.settings.max_iterations)
        self.race(line, depth, line.first, [(child, None) for child in usual], rungs)
        for turn in range(depth):
            before = line.best
            if before is None:
                return
            rungs = self.racing.rungs_of_simpler(self.settings.max_iterations)
            self.race(line, depth, line.first + 1 + turn, self.find_simpler(before), rungs)
            if line.best == before:
                break
        for level in range(depth + 1, 1 + most):
            self._grow(line, level, bases)
            if line.ended:
                break

    def _note_sampled(self, line: GrowthLine, first: Search) -> None:
        """Write down what a search on a sample tried, as kernels left behind, with the scores they would come to."""
        for candidate in first.trials.candidates:
            evidence = candidate.log_evidence * self.rows / first.rows
            score = self.criterion.score(evidence, candidate.parameters, self.rows)
            line.members.add(self.trials.add(leave_behind(candidate, evidence, score), leads=False))
        self.numbers.update(first.numbers)

    def _begin_with_every_column(self, line: GrowthLine) -> list[Base]:
        """Fit kernels on all columns at once: the first alone, and from its lengthscales the others; return them.

        Then columns that do not matter are left out of the best, as long as that pays.
        """
        policy, symbols = self.context.policy(EveryColumnPolicy), self.settings.bases
        rungs = policy.rungs(self.data.count, self.racing.many_rows, self.settings.max_iterations)
        kernels, stage = kernels_on_every_column(symbols, self.number_columns), line.first

        def enter(part: Expression, kind: str) -> tuple[Child, int | None]:
            whole = canonical(part) if kind == "each column" else product_of([part, *self.labels])
            return Child(whole, canonical_structure(whole), Step(kind, structure(whole))), None

        if kernels:
            self.race(line, 0, stage, [enter(kernels[0], "every column")], rungs)
        fitted = None if line.best is None else self.trials.candidates[line.best].full_fit.expression
        old = None if fitted is None else find_on(fitted, self.number_columns)
        others = [enter(kernel if old is None else inherit(old, kernel), "every column") for kernel in kernels[1:]]
        added = kernel_on_each_column(symbols, self.number_columns, self.labels)
        if added is not None:
            others.append(enter(added, "each column"))
        self.race(line, 0, stage + 1, others, rungs)
        if self.whole is None and (parts := self._find_parts_of_dates()):
            beside = [c for c in self.number_columns if c not in {part.columns[0] for part in parts}]
            seasonal = kernel_on_each_column(symbols, beside, [*parts, *self.labels])
            self.race(line, 0, stage + 2, [] if seasonal is None else [enter(seasonal, "each column")], rungs)
        for step in range(len(self.columns) if self.whole is None else 0):  # by intervals each takes long: at the end
            best = line.best
            if best is None or self.settings.max_depth == 0:
                break
            self.race(line, 1, stage + 3 + step, self.find_simpler(best), rungs)
            if line.best == best:
                break
        return [kernel for kernel in kernels if kernel.spec.radial]

    def _find_parts_of_dates(self) -> list[Base]:
        """Return a line, a curve and seasons along every column of dates that shows seasons clearly."""
        parts = list[Base]()
        for column in self.context.rhythms:
            if own := self.seasons.get(column):
                waves = [build_base("PER", column, period=period) for period in own]
                parts += [build_base("LIN", column), build_base("SE", column), *waves]
        return [part for part in parts if part.symbol in self.settings.bases]

    def _grow(self, line: GrowthLine, depth: int, bases: Sequence[Base]) -> None:
        """Take one step from the best kernel of a line; where none is better, the line has ended."""
        before = line.best
        if before is None:
            line.ended = True
            return
        self.race(line, depth, self._stage(line, depth), self._children(line, depth, bases))
        if line.best == before:
            score = self.trials.candidates[before].score
            self.race(line, depth, -self._stage(line, depth), self.find_simpler(before))
            line.ended = not self.trials.candidates[line.best].score < score

    @staticmethod
    def _stage(line: GrowthLine, depth: int) -> int:
        """Return under which the journal keeps a level; a line on every column has a few before it grows."""
        return depth if line.first == 0 else line.first + STAGES_BEFORE_GROWTH + depth

    def _note_end(self, line: GrowthLine, count: int) -> None:
        """Say that the search was stopped, and how little there is to choose from where that is so."""
        trials = self.trials
        fitted = line.members.intersection(trials.find_finished())
        if trials.stopped == "time" and len(fitted) <= count and not any(c.depth > 0 for c in trials.candidates):
            what = f"only {len(fitted)} of the {count} base kernels" if len(fitted) < count else "only the base kernels"
            if len(self.columns) > 1:
                on_one = f" and {len(fitted)} of the {count} base kernels on one column" if fitted else ""
                what = f"only kernels on every column at once{on_one}"
            trials.notes.append(
                f"the time budget of {self.settings.time_budget:g} s was too short to search: {what} could be "
                "fitted, and this is the best of them; allow more"
            )
        else:
            trials.note_stop("search", "kernel")

    # --------------------------------------------------------------------------------------------------- what to try

    def _children(self, line: GrowthLine, depth: int, bases: Sequence[Base]) -> list[tuple[Child, int | None]]:
        """Return everything one step away from the best kernel of a line that was not fitted to the end yet."""
        parents = self._parents(line, depth)
        self.grown.update(parents)
        new: dict[Expression, tuple[Child, int | None]] = {}
        for parent in parents:
            kernel = self.trials.candidates[parent].full_fit.expression
            for child in children(kernel, bases, self.settings.operators, self.settings.grammar):
                number = self.numbers.get(child.key)  # one that was only raced may come from a better start
                if child.key not in new and (number is None or self.trials.candidates[number].fit is None):
                    new[child.key] = child, parent
        known = self.judge.known
        if known is not None:  # what occurs more often comes first: a search may be stopped
            return sorted(new.values(), key=lambda entry: -known.step.log_frequency(entry[0].expression))
        return list(new.values())

    def _parents(self, line: GrowthLine, depth: int) -> list[int]:
        """Return what to grow from: the best, and in a search by intervals what may be better than the best.

        The first step starts from several base kernels: the best of them alone is often one that stands in for two.
        """
        candidates, best = self.trials.candidates, line.best
        assert best is not None
        finished = [i for i in self.trials.find_finished() if i in line.members]
        if depth == 1 and line.first == 0:
            return sorted(finished, key=lambda i: candidates[i].score)[: self.policy.first_parents]
        if depth == 1:  # a rough kernel on every column may stand in for a smooth one and something rough
            starts = sorted((i for i in finished if candidates[i].depth == 0), key=lambda i: candidates[i].score)
            return list(dict.fromkeys([best, *starts[: self.policy.first_starts]]))
        score = candidates[best].score
        others = [i for i in finished if i not in self.grown and i != best and candidates[i].scores[0] < score]
        others.sort(key=lambda i: candidates[i].scores[0])
        return [best, *others[: self.settings.buffer]] if self.whole is not None else [best]

    def find_simpler(self, best: int) -> list[tuple[Child, int | None]]:
        """Return the best kernel without parts that may have become idle.

        A part can outlive its use: a lengthscale far beyond the data is a constant, an RQ with a large alpha an SE.
        Such kernels are a few; one that was tried before is carried on from where the best kernel stands.
        """
        if not self.policy.simplify:
            return []
        kernel = self.trials.candidates[best].full_fit.expression
        allowed = {*self.settings.bases, "C", "CAT", "ECAT"}  # a constant is what is left of a factor taken out
        found = simplify(kernel, self.data.X)
        if not self.judge.by_priors:  # they know the seasons, and no centred kernels
            rhythms = self.context.rhythms
            allowed |= {REGISTRY[symbol].centred for symbol in self.settings.bases}
            found = chain(simplify(kernel, self.data.X, rhythms), centre(kernel, rhythms))
        return [
            (Child(expression, canonical_structure(expression), step), best)
            for expression, step in found
            if allowed.issuperset(leaf.symbol for leaf in expression.leaves())
        ]

    def _enter(self, child: Child, parent: int | None, unexplained: dict[int, Array]) -> Entry:
        """Return a kernel with how to fit it, given the periods that its parent leaves over."""
        key = child.key.text()
        starts = self.settings.restarts * (2 if parent is None else 1)  # everything grows from the base kernels
        options = FitOptions(
            starts, draws=self.policy.draws, max_iterations=self.settings.max_iterations, tolerance=1e-9,
            seed=seed_for(self.seed, key), until=self.trials.clock.until, priors=self.judge.priors_of(child.expression),
        )  # fmt: skip
        grown_from = None if parent is None else self.trials.candidates[parent].full_fit
        own = self.own if has_periods(child.expression) else {}
        parts = len(list(child.expression.leaves()))
        afresh = parts <= self.racing.afresh_parts or not self.settings.race
        replaced, peaks, noise = False, own, None
        if grown_from is not None:
            noise = grown_from.noise
            replaced = parts <= len(list(grown_from.expression.leaves()))
            if not replaced:  # a parent without periods may follow them closely, and then leaves nothing of them over
                both, nothing = {**unexplained, **own}, np.empty(0)
                most = self.policy.peaks + 1
                peaks = {c: in_turn(unexplained.get(c, nothing), own.get(c, nothing))[:most] for c in both}
        return Entry(child, parent, Task(child.expression, key, noise, replaced, peaks, own, options, afresh))

    def _periods(self, y: Array) -> dict[int, Array]:
        found = {column: periods(self.shown.X[:, column], y, self.policy.peaks) for column in self._columns_in_time()}
        return {column: peaks for column, peaks in found.items() if len(peaks)}

    def _find_unexplained(self, parent: int) -> dict[int, Array]:
        """Periods of what a kernel cannot predict of a row from the others, in units of what it says about that."""
        fit = self.trials.candidates[parent].full_fit
        with one_thread(when=self.shown.count < ONE_THREAD_BELOW):
            posterior = self.engine.posterior(compile_program(fit.expression), fit.values, fit.likelihood, self.data)
            if self.shown is not self.data:  # from the sample to all rows; what it predicts of itself is a small part
                found = posterior.predict(self.shown.X)
                error, variance = self.shown.y - found.mean, found.variance + fit.noise
            else:
                left = posterior.leave_one_out()
                error, variance = self.data.y - left.mean, left.variance
        return self._periods(error / np.sqrt(variance))

    # ------------------------------------------------------------------------------------------------------ one level

    def race(self, line: GrowthLine, depth: int, stage: int, level: Level, rungs: Sequence[Rung] = ()) -> None:
        """Race candidates, each with the number of its parent; those that ran to the end compete for the best.

        `stage` tells the levels of one search apart in its journal; `rungs`: others than those for its size.
        """
        peaks: dict[int, dict[int, Array]] = {}
        entries: list[Entry] = []
        for child, parent in level:
            left: dict[int, Array] = {}
            if parent is not None and has_periods(child.expression):
                if parent not in peaks:
                    peaks[parent] = self._find_unexplained(parent)
                left = peaks[parent]
            entries.append(self._enter(child, parent, left))
        few, rows = depth == 0 and len(level) <= self.policy.bases, self.data.count
        race, limit = self.settings.race, self.settings.max_iterations
        if self.whole is not None:
            self._race_by_intervals(self.whole, line, depth, stage, entries, race and not few)
            return
        finish = self.policy.first_parents if depth == 0 else 3
        if not rungs:
            rungs = self.racing.rungs(race, limit, len(level), rows, finish, self.forecast_column is not None)
            if few:  # everything grows from them: none is left behind
                rungs = self.racing.rungs_of_few(limit)
        attempts: list[Attempt | None] = [None] * len(level)
        running = list(range(len(level)))
        try:
            for number, rung in enumerate(rungs):
                so_far = [self.judge.score_so_far(entries[i].task.expression, attempts[i]) for i in running]
                hopes = [self.hope(attempts[i]) for i in running]
                promoted = promote(so_far, rung, hopes)
                running = [running[i] for i in promoted]
                effort = (rung.iterations, rung.starts, number == len(rungs) - 1)
                data = self.data if rung.sample is None else self._sample(rung.sample)
                work = {i: (entries[i].task, rung.trim(attempts[i]), data, self.engine, *effort) for i in running}
                for i, reached in self.trials.run(advance, work, depth, number, self.stages + stage, batched=True):
                    attempts[i] = reached
        except (KeyboardInterrupt, OutOfTimeError):
            begun = [i for i, attempt in enumerate(attempts) if attempt is not None]
            if begun and self.trials.best is None and not any(a.fit for a in attempts if a is not None):
                best = min(begun, key=lambda i: self.judge.score_so_far(entries[i].task.expression, attempts[i]))
                attempts[best] = advance(entries[best].task, attempts[best], self.data, self.engine, 1, 1, True)
            raise
        finally:  # whatever was finished counts, also when the search is interrupted here
            unfinished, needed = set(running), self.needed_gain(len(level))
            for number, (entry, attempt) in enumerate(zip(entries, attempts, strict=True)):
                if attempt is not None:
                    self._add(line, entry, attempt, depth, number in unfinished, needed)

    def hope(self, attempt: Attempt | None) -> float:
        """Return what the score of a candidate may still gain, on all rows."""
        if attempt is None:
            return math.inf
        return self.racing.steps_ahead * 2.0 * attempt.hope * self.rows / attempt.runs[0].rows

    def _race_by_intervals(
        self, whole: WholeData, line: GrowthLine, depth: int, stage: int, entries: Sequence[Entry], race: bool
    ) -> None:
        """Let intervals on all rows tell who could win, against the best so far, known as closely as can be."""
        policy = self.context.policy(IntervalPolicy)

        def go(rung: int, work: Work, function: Callable[..., Attempt]) -> Iterator[tuple[int, Attempt]]:
            # several processes keep one GPU busier than one: only what begins on a sample is one batch
            return self.trials.run(function, work, depth, rung, stage, batched=function is advance)

        before, old = line.best, None if line.best is None else self.trials.candidates[line.best]
        if before is not None and old is not None:  # the next ones are compared with it, and start from it
            go_closer = partial(go, SHARPENING)
            old = self.trials.candidates[before] = sharpen(old, whole, policy, self.seed, go_closer, self.judge.score)
        score = math.inf if old is None else old.score
        contest = IntervalRace([e.task for e in entries], whole, self.criterion, score, race, go, policy)
        rung = Rung(self.policy.interval_iterations, ALL_STARTS, math.inf, 0)
        if race:
            rung = self.racing.rungs(True, self.settings.max_iterations, len(entries), self.data.count)[0]
            rung = replace(rung, iterations=self.racing.first_steps)
        sample = self.data
        if self.data.count > self.racing.many_rows:
            sample = self._sample(rung.sample or self.racing.sample)
        beginning = Beginning(sample, self.engine, rung.iterations, rung.starts)
        try:
            contest.run(beginning)
        except (KeyboardInterrupt, OutOfTimeError):
            if self.trials.best is None:
                contest.conclude_best(beginning)
            raise
        finally:  # whatever was finished counts, also when the search is interrupted here
            needed = self.needed_gain(len(entries))
            numbers = {
                i: self._add(line, entry, attempt, depth, i not in contest.drops, needed)
                for i, (entry, attempt) in enumerate(zip(entries, contest.attempts, strict=True))
                if attempt is not None
            }
            for i, drop in contest.drops.items():
                by = before if drop.by is None else numbers[drop.by]
                if by is not None and by != numbers[i]:
                    row = self.trials.candidates[numbers[i]]
                    self.trials.candidates[numbers[i]] = with_verdict(row, contest.attempts[i], drop, by)

    def _sample(self, count: int) -> Data:
        """The rows of the first rungs."""
        if count not in self.samples:
            self.samples[count] = self.racing.draw(self.data, count, self.seed)
        return self.samples[count]

    def needed_gain(self, candidates: int) -> float:
        """Return the score that a deeper kernel must gain.

        Of a large level of K candidates the best is ahead by chance: the largest of K gains that mean nothing grows as
        2 log K.
        """
        if not self.racing.is_large(candidates, self.data.count):
            return self.policy.improvement
        return max(self.policy.improvement, self.policy.for_luck * math.log(candidates))

    def _add(self, line: GrowthLine, entry: Entry, attempt: Attempt, depth: int, running: bool, needed: float) -> int:
        """Write a candidate down and return its number; of one tried before, the better fit in its old place."""
        trials, fit, task = self.trials, attempt.fit, entry.task
        if fit is None:
            # what it raced by is no score where the score is another one
            score = self.judge.score_so_far(task.expression, attempt) if self.criterion.by_evidence else math.inf
            parameters = layout(task.expression).n_free + 1
            status, message = "raced out", LEFT_BEHIND
            if running:
                status, message = "not finished", "the search was stopped before its fit was finished"
            if attempt.runs[0].value >= FAILED_VALUE:
                status, message, score = "failed", "the covariance matrix could not be factorised", math.inf
        else:
            score = self.judge.score(fit)
            parameters, status, message = fit.parameters, fit.status, fit.message
        found = Candidate(
            fit.expression if fit is not None else entry.child.expression, depth, entry.child.step, entry.parent,
            self.judge.expect(attempt), parameters, score, status, message, attempt.seconds, fit,
            attempt.interval, attempt.inducing, criterion=self.judge.criterion_to_tell(self.settings.score),
        )  # fmt: skip
        number = self.numbers.setdefault(entry.child.key, len(trials.candidates))
        if number == len(trials.candidates):
            trials.add(found, leads=False)
        else:
            old = trials.candidates[number]
            if (fit is None, score) < (old.fit is None, old.score):  # a finished fit is never given up
                found = replace(found, depth=old.depth, step=old.step, parent=old.parent)
                trials.candidates[number] = replace(found, seconds=old.seconds + found.seconds)
        line.members.add(number)
        leader = None if line.best is None else trials.candidates[line.best]
        deeper = leader is not None and leader.depth < depth and leader.parameters < parameters
        gain = needed / self.share if deeper else 0.0
        if fit is not None and (leader is None or score < leader.score - gain):
            line.best = number
            if trials.incumbent is None or score < trials.incumbent.score:
                trials.best = number
        return number

    # -------------------------------------------------------------------------------------------------- the finalists

    def conclude(self) -> Learned:
        """Return the winner and, to average, the finalists with their weights."""
        settings, trials, data = self.settings, self.trials, self.context.data
        ranked = choose_finalists(trials, self.policy.finalists)
        column, forward = self.forecast_column, settings.finalists == "forward"
        if forward and column is None:
            raise InputError(
                f"finalists='forward' needs one input column to go along and at least {self.policy.rows_to_forecast} "
                f"rows; there are {len(self.columns)} columns and {data.count} rows"
            )
        if self.held_out is not None:
            ranked = fit_to_all(ranked, trials, data, self.engine, settings.max_iterations, self.held_out.count)
        forecasts: list[ForecastErrors] | None = None
        if column is not None and (settings.average or forward):
            try:
                ranked, forecasts = self._forecast(ranked, column)
            except KeyboardInterrupt:
                trials.stopped = "request"
                trials.notes.append(
                    "the finalists' forecasts were stopped on request, so the kernels are weighed without them"
                )
        if forward and forecasts is not None:
            first = int(np.argmax([f.score for f in forecasts]))
            order = [first, *(i for i in range(len(ranked)) if i != first)]
            ranked, forecasts = [ranked[i] for i in order], [forecasts[i] for i in order]
        weights = Weights()
        if settings.average:
            if column is None:
                ranked = leave_out_negligible(ranked, self.share, self.policy.least_weight)
            weights = weigh([self.share * c.score for c in ranked], forecasts, column)
        fits = [c.fit for c in (ranked if settings.average else ranked[:1]) if c.fit is not None]
        return trials.conclude(fits[0], fits, weights, settled=forward or self.criterion is not BIC)

    def _forecast(self, ranked: list[Candidate], column: int) -> tuple[list[Candidate], list[ForecastErrors] | None]:
        """Forecast with the finalists: with all, or with as many of the best as there is time for."""
        trials, found, longest = self.trials, list[ForecastErrors](), 0.0
        clock = replace(trials.clock, reserve=self.kept)
        size = len(ranked) if clock.budget is None else effective_n_jobs(trials.jobs)
        while len(found) < len(ranked) and (clock.seconds_left is None or clock.seconds_left > longest):
            some, started = [c.full_fit for c in ranked[len(found) : len(found) + size]], clock.seconds
            how = [(self.judge.priors_of(fit.expression), False, clock.until) for fit in some]
            work = [(fit, self.context.data, self.engine, column, *each) for fit, each in zip(some, how, strict=True)]
            found += run_all(forecast, work, trials)
            longest = clock.seconds - started
        if not found and len(ranked) > 1:
            trials.notes.append("there was no time for forecasts of the finalists: the kernels are weighed without")
        return (ranked[: len(found)], found) if found else (ranked, None)
