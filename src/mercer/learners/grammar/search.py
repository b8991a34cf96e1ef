"""The search: grow the best kernel step by step until the score no longer improves (METHODS 3).

At each depth the children of the best kernel so far are raced (`race.py`). A candidate that fails numerically is a row
with a reason, never the end of the search; Ctrl-C and the end of the time budget return the best so far.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from mercer.compute.program import compile_program
from mercer.fitting.clock import Progress, Report
from mercer.fitting.optimise import FAILED_VALUE, Fit, FitOptions
from mercer.fitting.periodogram import in_turn, periods
from mercer.fitting.ranges import may_repeat
from mercer.inference.contract import Data, Engine
from mercer.inference.likelihood import Gaussian
from mercer.kernels.algebra import canonical_structure, structure
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression
from mercer.kernels.parameters import layout
from mercer.learners.contract import Candidate, Step, Stopped, Whole
from mercer.learners.grammar.bounded import (
    BEGINNING,
    SHARPENING,
    Contest,
    again,
    closely,
    judged,
    left_behind,
    loose,
    renewed,
)
from mercer.learners.grammar.journal import Journal
from mercer.learners.grammar.operators import Child, base_kernels, children
from mercer.learners.grammar.plan import Plan
from mercer.learners.grammar.race import SAMPLE, is_large_crowd, laps, runners, sample, to_the_end
from mercer.learners.grammar.worker import State, Task, advance, seed_for
from mercer.learners.parallel import in_parallel
from mercer.learners.simplify import simplifications

PEAKS = 4
DRAWS = 8  # for each start: one for every peak, and some at random
FIRST_PARENTS = 4  # base kernels that the first step starts from
BASES = 20  # base kernels that are all fitted to the end; more, on several columns, are raced
IMPROVEMENT = 2.0  # by how much a deeper kernel must beat the best, in score: less is "not worth a bare mention"
Level = Sequence[tuple[Child, int | None]]  # what to try at one depth, each with the number of its parent
Work = dict[int, tuple[Any, ...]]  # arguments of a function for each candidate of a level


class OutOfTimeError(Exception):
    """The time budget is spent; internal to the search."""


@dataclass
class Search:
    """One run of the search; `run` fills `candidates` and leaves the number of the best in `best`.

    `data` are the rows to learn from; where some are held out, `held_out` judges what was learned. Where `data` are a
    sample of too many rows for exact inference, `whole` are all of them, and intervals on those decide (bounded.py).
    """

    plan: Plan
    data: Data
    engine: Engine
    columns: list[int]
    journal: Journal
    report: Report | None
    held_out: Data | None = None
    whole: Whole | None = None
    grown: set[int] = field(default_factory=set)  # numbers of the candidates that were parents
    candidates: list[Candidate] = field(default_factory=list)
    numbers: dict[Expression, int] = field(default_factory=dict)  # of the candidates, by canonical structure
    samples: dict[int, Data] = field(default_factory=dict)  # of the rows, by size
    best: int | None = None
    improvement: float = IMPROVEMENT  # that the depth at hand asks for
    notes: list[str] = field(default_factory=list)
    stopped: Stopped = ""
    started: float = field(default_factory=time.perf_counter)

    def run(self) -> None:
        """Search until nothing improves, or until told to stop."""
        bases = self._bases()
        try:
            self._level(0, 0, [(Child(base, base, Step("base", base)), None) for base in bases])
            for depth in range(1, 1 + (self.plan.max_depth if self.plan.max_depth is not None else 1000)):
                if not self._grow(depth, bases) and not self._simplify(depth):
                    break
        except KeyboardInterrupt:
            self.stopped = "request"
            self.notes.append("the search was stopped on request; this is the best kernel found until then")
        except OutOfTimeError:
            self.stopped = "time"
            self.notes.append(self._out_of_time(len(bases)))

    def _out_of_time(self, bases: int) -> str:
        budget = f"the time budget of {self.plan.time_budget:g} s"
        finished = sum(c.fit is not None for c in self.candidates)
        if finished > bases or any(c.depth > 0 for c in self.candidates):
            return f"{budget} was spent before the search had ended; this is the best kernel found until then"
        fitted = f"only {finished} of the {bases} base kernels" if finished < bases else "only the base kernels"
        return f"{budget} was too short to search: {fitted} could be fitted, and this is the best of them; allow more"

    def _bases(self) -> Sequence[Base]:
        """Return what to build from; no period along a column with too few values to show one, such as a yes or no."""
        bases = base_kernels(self.plan.bases, self.columns)
        useful = [b for b in bases if "period" not in _names(b) or may_repeat(self.data.X[:, b.columns[0]])]
        return useful or bases

    def _grow(self, depth: int, bases: Sequence[Base]) -> bool:
        """Try everything one step away from the best kernel, and tell whether that found a better one."""
        if self.best is None:
            return False
        before, parents = self.best, self._parents(self.best, depth)
        self.grown.update(parents)
        new: list[tuple[Child, int | None]] = []
        for parent in parents:
            grown = children(self._fit(parent).expression, bases, self.plan.operators, self.plan.grammar)
            taken = {child.key for child, _ in new}
            new += [(child, parent) for child in grown if child.key not in taken and not self._finished(child.key)]
        self._level(depth, depth, new)
        return self.best != before

    def _parents(self, best: int, depth: int) -> list[int]:
        """Return what to grow from: the best, and in a search by intervals what may be better than the best.

        The first step starts from several base kernels: the best of them alone is often one that stands in for two.
        """
        finished = [i for i, c in enumerate(self.candidates) if c.fit is not None and math.isfinite(c.score)]
        if depth == 1:
            return sorted(finished, key=lambda i: self.candidates[i].score)[:FIRST_PARENTS]
        bar = self.candidates[best].score
        others = [i for i in finished if i not in self.grown and i != best and self.candidates[i].scores[0] < bar]
        others.sort(key=lambda i: self.candidates[i].scores[0])
        return [best, *others[: self.plan.buffer]] if self.whole is not None else [best]

    def _simplify(self, depth: int) -> bool:
        """Try the best kernel without parts that may have become idle, and tell whether one of these is better.

        A part can outlive its use: a lengthscale far beyond the data is a constant, an RQ with a large alpha an SE.
        Such kernels are a few; one that was tried before is carried on from where the best kernel stands.
        """
        if self.best is None:
            return False
        before = self.candidates[self.best].score
        allowed = {*self.plan.bases, "C"}  # a constant is what is left of a factor taken out
        new = [
            (Child(expression, canonical_structure(expression), step), self.best)
            for expression, step in simplifications(self._fit(self.best).expression, self.data.X)
            if allowed.issuperset(leaf.symbol for leaf in expression.leaves())
        ]
        self._level(depth, -depth, new)
        return self.candidates[self.best].score < before

    def _finished(self, key: Expression) -> bool:
        """Tell whether a structure was fitted to the end; one that was only raced may come from a better start."""
        return key in self.numbers and self.candidates[self.numbers[key]].fit is not None

    def _fit(self, number: int) -> Fit:
        fit = self.candidates[number].fit
        assert fit is not None
        return fit

    # ------------------------------------------------------------------------------------------------ one depth

    def _level(self, depth: int, stage: int, new: Level) -> None:
        """Race candidates, each with the number of its parent; those that ran to the end compete for the best.

        `stage` tells the levels of one search apart in its journal.
        """
        peaks = {parent: self._unexplained(parent) for parent in dict.fromkeys(parent for _, parent in new)}
        tasks = [self._task(child, parent, peaks[parent]) for child, parent in new]
        # of a crowd of K the best is ahead by chance: the largest of K gains that mean nothing grows as 2 log K
        crowd = is_large_crowd(len(new), self.data.count)
        self.improvement = 2.0 * math.log(len(new)) if crowd else IMPROVEMENT
        few = depth == 0 and len(new) <= BASES
        if self.whole is not None:
            self._contest(self.whole, depth, stage, new, tasks, self.plan.race and not few)
            return
        limit, finish = self.plan.max_iterations, FIRST_PARENTS if depth == 0 else 3
        course = to_the_end(limit) if few else laps(self.plan.race, limit, len(new), self.data.count, finish)
        states: list[State | None] = [None] * len(new)
        running = list(range(len(new)))
        try:
            for number, lap in enumerate(course):
                chosen = runners([self._provisional(tasks[i], states[i]) for i in running], lap)
                running = [running[i] for i in chosen]
                effort = (lap.iterations, lap.starts, number == len(course) - 1)
                data = self.data if lap.sample is None else self._sampled(lap.sample)
                work = {i: (tasks[i], states[i], data, self.engine, *effort) for i in running}
                for i, reached in self._advanced(depth, stage, number, work):
                    states[i] = reached
        finally:  # whatever was finished counts, also when the search is interrupted here
            unfinished = set(running)
            for number, ((child, parent), task, state) in enumerate(zip(new, tasks, states, strict=True)):
                if state is not None:
                    self._add(child, task, state, depth, parent, number in unfinished)

    def _contest(self, whole: Whole, depth: int, stage: int, new: Level, tasks: Sequence[Task], race: bool) -> None:
        """Let intervals on all rows tell who could win, against the best so far, known as closely as can be."""
        go = partial(self._advanced, depth, stage)
        self._sharpen(whole, go)
        before = self.best
        bar = math.inf if before is None else self.candidates[before].score
        contest = Contest(tasks, whole, self.plan.criterion, bar, race, go)
        lap = laps(True, self.plan.max_iterations, len(new), self.data.count)[0] if race else BEGINNING
        beginning = (self._sampled(lap.sample or SAMPLE), self.engine, lap.iterations, lap.starts)
        try:
            contest.run(advance, beginning)
        except OutOfTimeError:
            if before is None:
                contest.settle(advance, beginning)
            raise
        finally:  # whatever was finished counts, also when the search is interrupted here
            numbers = {
                i: self._add(child, task, state, depth, parent, i not in contest.rulings)
                for i, ((child, parent), task, state) in enumerate(zip(new, tasks, contest.states, strict=True))
                if state is not None
            }
            for i, ruling in contest.rulings.items():
                by = before if ruling.by is None else numbers[ruling.by]
                if by is not None and by != numbers[i]:
                    row = self.candidates[numbers[i]]
                    self.candidates[numbers[i]] = left_behind(row, contest.states[i], ruling, by)

    def _sharpen(self, whole: Whole, go: Callable[..., Iterator[tuple[int, State]]]) -> None:
        """Narrow the interval of the best kernel: it sets the bar for the next ones, and is where they start from."""
        if self.best is None or not loose(self.candidates[self.best], whole):
            return
        old = self.candidates[self.best]
        task, state = again(self._fit(self.best), self.plan.seed)
        for _, reached in go(SHARPENING, {0: (task, state, whole, closely(whole))}, judged):
            if reached.fit is not None and reached.fit.status != "failed":
                self.candidates[self.best] = renewed(old, reached, self._score(reached.fit))

    def _task(self, child: Child, parent: int | None, unexplained: dict[int, Array]) -> Task:
        key = child.key.text()
        options = FitOptions(
            restarts=self.plan.restarts * (2 if parent is None else 1),  # everything grows from the base kernels
            draws=DRAWS,
            max_iterations=self.plan.max_iterations,
            tolerance=1e-9,
            seed=seed_for(self.plan.seed, key),
        )
        if parent is None:
            return Task(child.expression, key, None, False, self.own, self.own, options)
        best = self._fit(parent)
        replaced = len(list(child.expression.leaves())) <= len(list(best.expression.leaves()))
        peaks = self.own if replaced else self._in_turn(unexplained)
        return Task(child.expression, key, best.noise, replaced, peaks, self.own, options)

    def _in_turn(self, unexplained: dict[int, Array]) -> dict[int, Array]:
        """Periods for a new part: what its parent leaves over, and those of the target, one of each in turn.

        A parent without periods may follow them with a short lengthscale; then it leaves nothing of them over.
        """
        nothing = np.empty(0)
        return {c: in_turn(unexplained.get(c, nothing), self.own.get(c, nothing)) for c in {**unexplained, **self.own}}

    def _sampled(self, count: int) -> Data:
        """The rows of the first laps; drawn once, as preparing them for the kernels takes time."""
        if count not in self.samples:
            self.samples[count] = sample(self.data, count, self.plan.seed)
        return self.samples[count]

    @cached_property
    def own(self) -> dict[int, Array]:
        """Periods of the target, by column."""
        return self._periods(self.data.y)

    def _periods(self, y: Array) -> dict[int, Array]:
        found = {column: periods(self.data.X[:, column], y, PEAKS) for column in self.columns}
        return {column: peaks for column, peaks in found.items() if len(peaks)}

    def _unexplained(self, parent: int | None) -> dict[int, Array]:
        """Periods of what a kernel cannot predict of a row from the others, in units of what it says about that."""
        if parent is None:
            return self.own
        fit = self._fit(parent)
        posterior = self.engine.posterior(compile_program(fit.expression), fit.values, Gaussian(fit.noise), self.data)
        left = posterior.leave_one_out()
        return self._periods((self.data.y - left.mean) / np.sqrt(left.variance))

    @property
    def rows(self) -> int:
        """All rows, those held out among them."""
        if self.whole is not None:
            return self.whole.data.count
        return self.data.count + (0 if self.held_out is None else self.held_out.count)

    @property
    def share(self) -> float:
        """The share of the rows that the score was measured on: scaled up to all, it says no more than they do."""
        return 1.0 if self.held_out is None else self.held_out.count / self.rows

    def _provisional(self, task: Task, state: State | None) -> float:
        """The score that a candidate would have if it ended here (BIC and AIC; the others race by AIC)."""
        if state is None:
            return 0.0
        count = layout(task.expression).n_free + 1
        return self.plan.criterion.while_racing.score(self._expected(state), count, self.rows)

    def _expected(self, state: State) -> float:
        """The log evidence so far; of a sample of the rows, what it would come to for all of them."""
        if state.interval is not None:
            return state.interval.lower
        return state.log_evidence * self.rows / state.runs[0].rows

    def _advanced(
        self, depth: int, stage: int, lap: int, work: Work, function: Callable[..., State] | None = None
    ) -> Iterator[tuple[int, State]]:
        """Yield every candidate's state after the lap: from the journal where it was done before."""
        keys = {i: (stage, lap, structure(arguments[0].expression).text()) for i, arguments in work.items()}
        done = {i: state for i, key in keys.items() if (state := self.journal.get(key)) is not None}
        yield from done.items()
        count, todo = len(done), {i: arguments for i, arguments in work.items() if i not in done}
        for i, state in self._run(todo, advance if function is None else function):
            self.journal.put(keys[i], state)
            count += 1
            self._tell(depth, lap, count, len(work))
            yield i, state
            budget = self.plan.time_budget
            if budget is not None and time.perf_counter() - self.started > budget:
                raise OutOfTimeError

    def _run(self, work: Work, function: Callable[..., State]) -> Iterator[tuple[int, State]]:
        if not self.plan.backend.batches or function is not advance:
            return in_parallel(function, work, self.plan.n_jobs)  # several processes keep one GPU busier than one
        from mercer.learners.grammar.batches import in_one_batch  # it loads PyTorch

        return in_one_batch(work, self.plan.backend)

    # ---------------------------------------------------------------------------------------------- bookkeeping

    def _add(self, child: Child, task: Task, state: State, depth: int, parent: int | None, still_running: bool) -> int:
        fit = state.fit
        if fit is None:
            # what it raced by is no score where the score is another one
            score = self._provisional(task, state) if self.plan.criterion.by_evidence else math.inf
            parameters = layout(task.expression).n_free + 1
            status, message = "raced out", "left behind in the race: it could not have won"
            if still_running:
                status, message = "not finished", "the search was stopped before its fit was finished"
            if state.runs[0].value >= FAILED_VALUE:
                status, message, score = "failed", "the covariance matrix could not be factorised", math.inf
        else:
            score = self._score(fit)
            parameters, status, message = fit.parameters, fit.status, fit.message
        found = Candidate(
            fit.expression if fit is not None else child.expression, depth, child.step, parent,
            self._expected(state), parameters, score, status, message, state.seconds, fit,
            state.interval, state.inducing,
        )  # fmt: skip
        number = self._row(child.key, found)
        leader = self.candidates[self.best] if self.best is not None else None
        needed = (
            self.improvement if leader is not None and leader.depth < depth and leader.parameters < parameters else 0.0
        )
        if fit is not None and (leader is None or score < leader.score - needed / self.share):
            self.best = number
        return number

    def _row(self, key: Expression, found: Candidate) -> int:
        """Write a candidate down and return its number; of one tried before, the better fit in its old place."""
        number = self.numbers.setdefault(key, len(self.candidates))
        if number == len(self.candidates):
            self.candidates.append(found)
            return number
        old = self.candidates[number]
        if (found.fit is None, found.score) < (old.fit is None, old.score):  # a finished fit is never given up
            seconds = old.seconds + found.seconds
            self.candidates[number] = replace(found, depth=old.depth, step=old.step, parent=old.parent, seconds=seconds)
        return number

    def _score(self, fit: Fit) -> float:
        if self.held_out is not None:
            return self.plan.criterion.score_held_out(fit, self.data, self.held_out, self.engine)
        return self.plan.criterion.score_fit(fit, self.rows)

    def _tell(self, depth: int, lap: int, done: int, total: int) -> None:
        if self.report is None:
            return
        best = self.candidates[self.best] if self.best is not None else None
        elapsed = time.perf_counter() - self.started
        left = None if self.plan.time_budget is None else max(0.0, self.plan.time_budget - elapsed)
        self.report(
            Progress(
                done, total, "kernels", best.expression if best is not None else None,
                best.score if best is not None else math.inf, elapsed, left, depth, lap,
            )
        )  # fmt: skip


def _names(base: Base) -> set[str]:
    return {parameter.name for parameter in base.specs}
