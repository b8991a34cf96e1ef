"""Many rows: intervals on all of them tell which candidates could still win (SKC, Kim & Teh 2018; METHODS 4).

The exact score of a candidate (BIC = -2 log p + p log N) at the values it has reached lies between two ends: `best`,
from the upper bound on its log evidence, and `worst`, from the lower one. The incumbent is the candidate with the least
worst end: it is certain of that. A candidate whose best end is behind it cannot be better at its values, and is
dropped; its `Verdict` says behind whom.

How many inducing points a candidate gets depends on its values: as many as its lower bound needs to lose little, at
most those of the engine. With too few of them the bound would prefer other values, and judge the kernel by those.
Screening rounds are cheap: a few steps on some of the rows, from what fewer of them suggested; whatever rows the values
come from, the interval at these values is that of all rows. What repeats in many rows may not show in a few: where
values that fewer rows suggested would drop nearly all candidates, they are judged with their old parts as the parent
has them, from all rows. Those that remain are fitted to all rows, the most certain first, which raises the incumbent's
score for the others; fitted candidates that overlap it then get more points.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from mercer.compute.backend import NUMBA
from mercer.compute.program import Program
from mercer.fitting.minimise import Work, is_past, minimise
from mercer.fitting.problem import Fit, FitOptions, Problem, Run, prepare
from mercer.inference.bounds import DEFAULT as BOUNDS
from mercer.inference.bounds import BoundPolicy, Interval, interval
from mercer.inference.contract import Data, Engine
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.inference.vfe import CANDIDATES, FixedVFE
from mercer.kernels.algebra import structure
from mercer.kernels.domains import Array
from mercer.kernels.parameters import layout
from mercer.learners.contract import Candidate, Verdict, WholeData, draw_some, draw_with_neighbours
from mercer.learners.criteria import Criterion
from mercer.learners.racing import Task, advance
from mercer.learners.trials import Attempt
from mercer.linalg.threads import one_thread

WORTH_A_DEVICE = 1_000_000  # numbers of Kfu: with fewer, handing work to a GPU takes longer than the work
REASONS = {
    "separated": "left behind: the whole interval of its score is behind what candidate {by} is certain of",
    "places": "set aside: it may be better than candidate {by}, but others were certain of more and took the places",
}


class Stage(NamedTuple):
    """Steps of the optimiser with the same inducing points, on at most this many rows.

    Points are chosen for shorter lengthscales, by that factor: points that are enough for a smooth kernel would hold
    it there, as any rougher one would need more of them.
    """

    steps: int
    rows: int | None = None  # None: all of them
    rougher: float = 0.25


class Screening(NamedTuple):
    """A round of looking at all candidates, and how far behind the incumbent one must be that may gain by more steps.

    Values that a thousand rows suggest are behind the best for all N rows, by about N / 1000 in score for each
    parameter. That is little beside these margins, and the steps cost a tenth; intervals are always from all rows.
    """

    stages: tuple[Stage, ...]
    margin: float  # in score for each row
    least_margin: float


@dataclass(frozen=True)
class IntervalPolicy:
    """How closely a candidate's score is bracketed on all rows before it is dropped."""

    screening: tuple[Screening, ...] = (
        Screening((Stage(4, 1000),), 0.06, 150.0),
        Screening((Stage(8, 3000),), 0.01, 40.0),
    )
    screening_points: int = 256  # inducing points of a screening round: enough to tell scores apart by its margin
    screening_rows: int = 2000  # rows that inducing points are chosen from, before the last choice for a fit
    screening_loss: float = 0.03  # share of the margin that the lower bound may lose there
    slots: int = 75  # candidates that are screened again
    fit: tuple[Stage, ...] = (Stage(8, 4000), Stage(20, None, 0.5))  # of those that are fitted to all rows
    refit: tuple[Stage, ...] = (Stage(20, None, 0.5),)  # of what was fitted before
    fit_starts: int = 2  # of a candidate that begin a fit; the better one goes on after the first stage
    near_rows: int = 1000  # of an exact fit before those stages: no points to need, and little behind on all rows
    near_steps: int = 40
    near_width: float = 0.01  # nats for each row: an interval that is wider says that its points are not enough
    near_points: int = 1000  # inducing points, where the engine predicts with as many, of what was so fitted
    fit_gap: float = 0.5  # nats that the lower bound may lose while parameters move; halving it doubles the points
    final_gap: float = 0.1  # the same for candidates whose intervals overlap the incumbent's
    fit_margin: float = 40.0  # score that one may be behind which is not fitted yet
    round: int = 8  # candidates that are fitted before the incumbent is looked at again
    rounds: int = 3
    finalists: int = 4  # candidates whose intervals are narrowed at the end, where they overlap
    # What the lower bound may lose where an interval is worked out: one pass over the rows is quick with more points,
    # and an upper bound without products is of use only where tr(K - Q) is a small share of the noise of a single row.
    bracket_gap: float = 0.003
    product_gap: float = 0.05  # nats that an upper bound may miss before another product with all pairs is worth it
    narrow: float = 0.5  # nats: an interval that is narrower says as much as a number

    def closest(self, whole: WholeData) -> Effort:
        """Return the most that is worth doing for one candidate."""
        few = whole.data.count <= BOUNDS.pairs_rows
        return Effort(self.final_gap, self.refit, 10 if few else None, fit=True, traces=few)


class Effort(NamedTuple):
    """How hard to work on a candidate."""

    gap: float  # nats that its bound may lose while parameters move
    stages: tuple[Stage, ...]
    products: int | None  # steps of conjugate gradients; None: no product with the matrix of all pairs at all
    fit: bool = False  # conclude it as a fit
    most_points: int | None = None  # inducing points, where not all that the engine may have
    traces: bool = False  # bound the determinant closely too
    near: int = 0  # rows of an exact fit before the stages; none: it begins with them


class ScoreInterval(NamedTuple):
    """Between what the exact score lies; smaller is better."""

    best: float
    worst: float

    def overlaps(self, score: float) -> bool:
        """Tell whether it may be better than a score that another is certain of."""
        return self.best < score


class Drop(NamedTuple):
    """Why a candidate went no further: `by` is a number in the level, None the best kernel before it."""

    kind: Literal["separated", "places"]
    by: int | None
    score: float  # that the other was certain of


# ------------------------------------------------------------------------------------------------------ one candidate


def bracket(task: Task, attempt: Attempt, whole: WholeData, effort: Effort, policy: IntervalPolicy) -> Attempt:
    """Fit a candidate further on all rows and bracket its log evidence.

    A fit begins from several of its starts; until then the best one stands for the candidate, the others wait.
    """
    started = time.perf_counter()
    with one_thread():
        problem = prepare(task.expression, whole.data, whole.engine, task.options, task.peaks)
        points, until = [problem.clip(run.point) for run in attempt.runs], task.options.until
        chosen, stands = points[: policy.fit_starts if effort.fit else 1], list[Stand]()
        settled = False
        if effort.near:
            near = fit_exactly(problem, chosen, whole, effort, policy, until)
            stands.append(_stand_at(problem, near, whole, effort, policy))
            close = stands[0].found.width < policy.near_width * whole.data.count
            chosen, settled = [near.point] if close else chosen, close and is_rough(len(stands[0].engine.Z), whole)
        # with too few inducing points for a rough kernel steps lead to a smoother one, which is worse
        if not settled and not (stands and is_past(until)):
            run = move(problem, chosen, whole, effort, policy, until)
            stands.append(_stand_at(problem, run, whole, effort, policy))
        if effort.fit and not is_past(until):
            unmoved = replace(stands[-1].run, point=points[0])
            stands.append(_stand_at(problem, unmoved, whole, effort, policy))
        run, found, engine = max(stands, key=lambda stand: stand.found.lower)
        best = replace(run, value=-found.lower, rows=whole.data.count)
        fit = None
        if effort.fit:
            held = replace(problem, engine=engine)
            fit = replace(held.conclude([best], best.point, attempt.screened), log_evidence=-best.value)
    seconds, waiting = attempt.seconds + time.perf_counter() - started, () if effort.fit else attempt.runs[1:]
    return Attempt((best, *waiting), attempt.screened, seconds, fit, found, len(engine.Z))


def is_rough(points: int, whole: WholeData) -> bool:
    """Tell whether a kernel has more inducing points than its parameters can be moved with."""
    return points > whole.engine.inducing


class Stand(NamedTuple):
    """Where a fit stands, and between what its log evidence lies there."""

    run: Run
    found: Interval
    engine: FixedVFE


def _stand_at(problem: Problem, run: Run, whole: WholeData, effort: Effort, policy: IntervalPolicy) -> Stand:
    return Stand(run, *_bracket_at(problem, run, whole, effort, policy))


def fit_exactly(
    problem: Problem, points: Sequence[Array], whole: WholeData, effort: Effort, policy: IntervalPolicy,
    until: float | None,
) -> Run:  # fmt: skip
    """Return the best of some starts after an exact fit to some of the rows."""
    rows = draw_with_neighbours(whole.data, effort.near, 0)
    runs = minimise(replace(problem, engine=Exact(), data=rows), points, policy.near_steps, until=until)
    best = min(runs, key=lambda run: run.value)
    # there are few steps; that it takes no more of them is no failure to converge
    return replace(best, converged=True, rows=whole.data.count, trail=None)


def bracket_inherited(
    task: Task, attempt: Attempt, whole: WholeData, effort: Effort, policy: IntervalPolicy
) -> Attempt:
    """Bracket a candidate with the values of its parent, from all rows, and those of its new part.

    Where it could win by these they come first; what fewer rows suggested stays as another start.
    """
    started = time.perf_counter()
    assert task.noise is not None
    assert attempt.interval is not None
    with one_thread():
        problem = prepare(task.expression, whole.data, whole.engine, task.options, task.peaks)
        values = problem.starts.inherit(problem.split(attempt.runs[0].point)[0])
        run = replace(attempt.runs[0], point=problem.point(values, Gaussian(task.noise)))
        _, found, engine = _stand_at(problem, run, whole, effort, policy)
    seconds = attempt.seconds + time.perf_counter() - started
    if not found.upper > attempt.interval.upper:
        return replace(attempt, seconds=seconds)
    best = replace(run, value=-found.lower)
    return Attempt((best, *attempt.runs), attempt.screened, seconds, None, found, len(engine.Z))


def _bracket_at(
    problem: Problem, run: Run, whole: WholeData, effort: Effort, policy: IntervalPolicy
) -> tuple[Interval, FixedVFE]:
    """Return between what the log evidence lies where a run stands, on all rows, and the engine with the points."""
    program, (values, likelihood) = problem.program, problem.split(run.point)
    noise = likelihood.noise
    candidates = CANDIDATES if effort.fit else policy.screening_rows
    most = effort.most_points
    if effort.near and whole.engine.predicting is not None:
        most = max(whole.engine.inducing, min(whole.engine.predicting, policy.near_points))
    engine = choose_points(program, values, noise, whole, policy.bracket_gap, most, candidates)
    bounds = BoundPolicy(effort.products, policy.product_gap, effort.traces)
    return interval(program, values, noise, whole.data, engine.Z, bounds, engine.sweep), engine


def move(
    problem: Problem, points: Sequence[Array], whole: WholeData, effort: Effort, policy: IntervalPolicy,
    until: float | None = None,
) -> Run:  # fmt: skip
    """Go through the stages of an effort, as far as time allows; after the first the best start goes on alone."""
    runs = [Run(point, 0.0, "", True, 0, whole.data.count) for point in points]
    for stage in effort.stages:
        rows, reached = draw_some(whole.data, stage.rows, 0), list[Run]()
        for run in runs:
            if is_past(until) and (reached or run.out_of_time):
                break
            values, likelihood = problem.split(run.point)
            for slot in problem.layout.slots:
                if slot.spec.name == "lengthscale" and slot.fitted:
                    values[slot.where] *= stage.rougher
            most, noise = effort.most_points, likelihood.noise
            engine = choose_points(problem.program, values, noise, whole, effort.gap, most, policy.screening_rows)
            if rows.count * len(engine.Z) < WORTH_A_DEVICE:
                engine = engine.on(NUMBA)
            held = replace(problem, engine=engine, data=rows)
            found = minimise(held, [run.point], stage.steps, until=until)[0]
            # a stage ends after a few steps; that there are few of them is no failure to converge
            reached.append(replace(found, converged=True))
        runs = [min(reached, key=lambda run: run.value)] if reached else runs
    return runs[0]


def choose_points(
    program: Program, values: Array, noise: float, whole: WholeData, gap: float, most: int | None, candidates: int
) -> FixedVFE:
    """Return the engine with as few points as lose no more than that, as far as some of the rows can tell."""
    most = min(max(whole.engine.inducing, whole.engine.predicting or 0), most or whole.engine.inducing)
    spare = 2.0 * gap * noise / whole.data.count  # the bound loses tr(K - Q) / (2 noise)
    return replace(whole.engine, inducing=most, joint=False).sparing(program, values, whole.data, spare, candidates)


# ---------------------------------------------------------------------------------------------------------- one level


class Beginning(NamedTuple):
    """How candidates begin: on a sample of the rows."""

    data: Data
    engine: Engine
    iterations: int
    starts: int


Go = Callable[[int, Work, Callable[..., Attempt]], Iterator[tuple[int, Attempt]]]  # (rung, work, function)


@dataclass
class IntervalRace:
    """One level of a search on many rows; `run` leaves attempts and drops.

    `before` is the score that the best kernel so far is certain of; `go` does work, here or elsewhere.
    """

    tasks: Sequence[Task]
    whole: WholeData
    criterion: Criterion
    before: float
    race: bool
    go: Go
    policy: IntervalPolicy = IntervalPolicy()
    attempts: list[Attempt | None] = field(default_factory=list)
    drops: dict[int, Drop] = field(default_factory=dict)
    expected: list[float] = field(default_factory=list)  # scores, from the sample that candidates begin on
    rung: int = 0

    def run(self, beginning: Beginning) -> None:
        """Begin on a sample, screen on all rows, fit those that could win, narrow overlaps."""
        policy, rows = self.policy, self.whole.data.count
        many = rows > BOUNDS.pairs_rows
        self.attempts = [None] * len(self.tasks)
        self._climb({i: (task, None, *beginning, False) for i, task in enumerate(self.tasks)}, advance)
        self.expected = [self._expect(i) for i in range(len(self.tasks))]
        for screening in policy.screening if self.race else ():
            self._screen(screening, max(screening.least_margin, screening.margin * rows), many)
        for _ in range(1 if many else policy.rounds):
            chosen = self._by_promise()[: policy.round if self.race else None]
            if chosen:
                effort = Effort(policy.fit_gap, policy.fit, None if many else 1, fit=True, near=policy.near_rows)
                self._bracket(chosen, effort, bracket)
                self._drop_separated(policy.fit_margin)
        self._drop_separated(0.0)
        self.drop(self._waiting())
        self._narrow()

    def conclude_best(self, beginning: Beginning) -> None:
        """Where time ended before any fit to all rows: conclude the best of those that have begun, on its sample."""
        begun = {i: attempt for i, attempt in enumerate(self.attempts) if attempt is not None}
        if not begun or any(attempt.fit is not None for attempt in begun.values()):
            return
        best = min(begun, key=lambda i: (self.ends(i).worst, begun[i].runs[0].value, i))
        data, engine, iterations, _ = beginning
        self.attempts[best] = advance(self.tasks[best], begun[best], data, engine, iterations, 1, True)

    def ends(self, number: int) -> ScoreInterval:
        """Return between what the score of a candidate lies; nothing is known before its first round."""
        attempt = self.attempts[number]
        if attempt is None or attempt.interval is None:
            return ScoreInterval(-math.inf, math.inf)
        found, count = attempt.interval, layout(self.tasks[number].expression).n_free + 1
        rows = self.whole.data.count
        return ScoreInterval(*(self.criterion.score(end, count, rows) for end in (found.upper, found.lower)))

    def incumbent(self) -> tuple[float, int | None]:
        """Return the least worst end, and whose it is: None where it is the best kernel before."""
        worst = [self.ends(i).worst for i in range(len(self.tasks))]
        first = int(np.argmin(worst)) if worst else 0
        return (worst[first], first) if worst and worst[first] < self.before else (self.before, None)

    def could_be_separated(self, number: int, margin: float) -> bool:
        """Tell whether a narrower interval could drop it: not if it is certain of enough, whatever else."""
        ends = self.ends(number)
        return not ends.worst - ends.best < 2.0 * self.policy.narrow and not ends.worst < self.incumbent()[0] + margin

    def _screen(self, screening: Screening, margin: float, many: bool) -> None:
        policy = self.policy
        gap = max(policy.fit_gap, policy.screening_loss * margin)
        closer = Effort(gap, (), None if many else 0, most_points=policy.screening_points)
        self._bracket(self._waiting(), closer._replace(stages=screening.stages, products=None), bracket)
        behind = self._find_separated(margin)
        if not many:
            unclear = [i for i in self._waiting() if i not in behind and self.could_be_separated(i, margin)]
            self._bracket(unclear, closer, bracket)
            behind = self._find_separated(margin)
        if len(self._waiting()) - len(behind) < policy.round:  # rather the values are to blame than nearly all kernels
            self._bracket([i for i in behind if self.tasks[i].noise is not None], closer, bracket_inherited)
        self._drop_separated(margin)
        self.drop(self._by_promise()[policy.slots :])

    def _climb(self, work: Work, function: Callable[..., Attempt]) -> None:
        self.rung += 1
        for i, reached in self.go(self.rung - 1, work, function):
            self.attempts[i] = reached

    def _bracket(self, numbers: Sequence[int], effort: Effort, how: Callable[..., Attempt]) -> None:
        self._climb({i: (self.tasks[i], self.attempts[i], self.whole, effort, self.policy) for i in numbers}, how)

    def _find_separated(self, margin: float) -> list[int]:
        """Return whose best end is behind the incumbent; of those that only took a few steps, by a margin."""
        score, by = self.incumbent()
        allowed = [margin if attempt is not None and attempt.fit is None else 0.0 for attempt in self.attempts]
        running = [i for i in range(len(self.tasks)) if self.race and i != by and i not in self.drops]
        return [i for i in running if not self.ends(i).overlaps(score + allowed[i])]

    def _drop_separated(self, margin: float) -> None:
        """Drop those that cannot be better than the incumbent."""
        score, by = self.incumbent()
        self.drops.update({i: Drop("separated", by, score) for i in self._find_separated(margin)})

    def drop(self, numbers: Sequence[int]) -> None:
        """Drop those that have no slot; one that is behind the incumbent, by less than a margin, for that reason."""
        score, by = self.incumbent()
        for i in numbers:
            self.drops[i] = Drop("places" if self.ends(i).overlaps(score) else "separated", by, score)

    def _waiting(self) -> list[int]:
        """Return those that are still in and were not fitted to all rows."""
        return [i for i, a in enumerate(self.attempts) if i not in self.drops and a is not None and a.fit is None]

    def _by_promise(self) -> list[int]:
        """Return those that wait: in turn the one that is certain of most, and the one that a sample expects most of.

        A rough kernel is certain of little, as it needs more inducing points than screening has; exact inference on a
        sample needs none.
        """
        certain = sorted(self._waiting(), key=lambda i: (self.ends(i).worst, i))
        expected = sorted(certain, key=lambda i: (self.expected[i], i))
        return list(dict.fromkeys(i for pair in zip(certain, expected, strict=True) for i in pair))

    def _expect(self, number: int) -> float:
        """Return the score that a candidate would have, had all rows as much evidence each as those of its sample."""
        attempt, rows = self.attempts[number], self.whole.data.count
        if attempt is None:
            return math.inf
        run, count = attempt.runs[0], layout(self.tasks[number].expression).n_free + 1
        return self.criterion.score(-run.value * rows / run.rows, count, rows)

    def _narrow(self) -> None:
        """Carry on fitted candidates that overlap the incumbent, with more inducing points, and the incumbent."""
        score, holder = self.incumbent()
        fits = {i: a.fit for i, a in enumerate(self.attempts) if i not in self.drops and a is not None}
        fitted = [i for i, fit in fits.items() if fit is not None and fit.status != "failed" and not self._is_rough(i)]
        close = [i for i in fitted if i != holder and self.ends(i).overlaps(score)]
        rivals = sorted(close, key=lambda i: (self.ends(i).best, i))[: self.policy.finalists]
        if rivals:
            both = rivals if holder is None or self._is_rough(holder) else [holder, *rivals]
            self._bracket(both, self.policy.closest(self.whole), bracket)
            self._drop_separated(0.0)

    def _is_rough(self, number: int) -> bool:
        attempt = self.attempts[number]
        return attempt is not None and is_rough(attempt.inducing or 0, self.whole)


# ---------------------------------------------------------------------------------------------- rows of the table


def with_verdict(candidate: Candidate, attempt: Attempt | None, drop: Drop, by: int) -> Candidate:
    """Return the row with the reason why it went no further; what a fit said of itself stays.

    So does a better row of the same kernel from an earlier step: the drop is about another interval.
    """
    if attempt is None or candidate.interval is not attempt.interval:
        return candidate
    message = candidate.message if candidate.fit is not None else REASONS[drop.kind].format(by=by)
    return replace(candidate, message=message, verdict=Verdict(drop.kind, by, drop.score))


def sharpen(
    candidate: Candidate, whole: WholeData, policy: IntervalPolicy, seed: int,
    go: Callable[[Work, Callable[..., Attempt]], Iterator[tuple[int, Attempt]]], score: Callable[[Fit], float],
) -> Candidate:  # fmt: skip
    """Return the row of a finished candidate with a closer interval, where more inducing points give one."""
    fit, known = candidate.fit, candidate.interval
    if fit is None or known is None or known.width < policy.narrow:
        return candidate
    if (candidate.inducing or 0) >= whole.engine.inducing:
        return candidate
    task = Task(fit.expression, structure(fit.expression).text(), fit.noise, False, {}, {}, FitOptions(seed=seed))
    point = np.append(layout(fit.expression).to_free(fit.values), math.log(fit.noise))
    attempt = Attempt((Run(point, -fit.log_evidence, "", True, 0, 0),), fit.evaluations, 0.0)
    for _, reached in go({0: (task, attempt, whole, policy.closest(whole), policy)}, bracket):
        better, found = reached.fit, reached.interval
        if better is not None and better.status != "failed" and found and found.lower > candidate.log_evidence:
            candidate = replace(
                candidate, expression=better.expression, log_evidence=found.lower, score=score(better),
                status=better.status, message=better.message, seconds=candidate.seconds + reached.seconds, fit=better,
                interval=found, inducing=reached.inducing,
            )  # fmt: skip
    return candidate
