"""Many rows: intervals on all of them tell which candidates could still win (SKC, Kim & Teh 2018; METHODS 4).

The exact score of a candidate (BIC = -2 log p + p log N) at the values it has reached lies between two ends: `best`,
from the upper bound on its log evidence, and `worst`, from the lower one. The `bar` is the least worst end of all: that
candidate is certain of it. Whoever's best end is behind the bar cannot be better at its values, and is left behind; the
verdict says behind whom, and what the bar was.

How many inducing points a candidate gets depends on its values: as many as its lower bound needs to lose little, at
most those of the engine. With too few of them the bound would prefer other values, and judge the kernel by those. First
looks are cheap: a few steps on some of the rows, from what fewer of them suggested; whatever rows the values come from,
the interval at these values is that of all rows. What repeats in many rows may not show in a few: where values that
fewer rows suggested would leave nearly all candidates behind, they are judged with their old parts as the parent has
them, from all rows. Those that remain are fitted to all rows, the most certain first, which raises the bar for the
others; fitted candidates that overlap the bar then get more points.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from mercer.compute.backend import NUMBA
from mercer.compute.program import Program
from mercer.fitting.optimise import Fit, FitOptions, Problem, Run, concluded, optimise, prepare
from mercer.inference.bounds import DEFAULT as BOUNDS
from mercer.inference.bounds import BoundPolicy, Interval, interval
from mercer.inference.contract import Data, Engine
from mercer.inference.inducing import CANDIDATES
from mercer.inference.vfe import FixedVFE
from mercer.kernels.algebra import structure
from mercer.kernels.domains import Array
from mercer.kernels.parameters import Layout, layout
from mercer.learners.contract import Candidate, Verdict, Whole
from mercer.learners.criteria import Criterion
from mercer.learners.grammar.race import SAMPLE, Lap
from mercer.learners.grammar.worker import State, Task
from mercer.linalg.threads import one_thread

LITTLE, LESS = 0.5, 0.1  # what the lower bound may lose in steps, in log evidence: at first, where intervals overlap
ROUND = 8  # candidates that are fitted to all rows before the bar is looked at again
ROUNDS = 3
PLACES = 75  # candidates that are looked at more closely before that
STARTS = 2  # of a candidate that begin a fit to all rows; the better one goes on after the first leg
FINALISTS = 4  # whose intervals are made narrower, where they overlap
LOOSE = 0.03  # of the margin of a look: what a bound may lose then
ENOUGH = 256  # inducing points for a look, where the engine has more
MARGIN = 40.0  # after the looks
LOOKED_AT = 2000  # rows that inducing points are chosen from, before the last choice for a fit
# What the lower bound may lose where an interval is worked out: one pass over the rows is quick with more points, and
# an upper bound without products is of use only where tr(K - Q) is a small share of the noise of a single row.
CERTAIN = 0.003
NARROW = 0.5  # of log evidence: an interval that is narrower says as much as a number
WORTH_A_DEVICE = 1_000_000  # numbers of Kfu: with fewer, handing work to a GPU takes longer than the work
CLOSE = 0.05  # of log evidence: what an upper bound may miss before it is worth another product with all pairs
BEGINNING = Lap(20, 99, math.inf, 0, SAMPLE)  # where nobody is raced
SHARPENING = 1000  # the place in a journal of a closer look at the best, behind all laps
REASONS = {
    "separated": "left behind: the whole interval of its score is behind what candidate {by} is certain of",
    "places": "set aside: it may be better than candidate {by}, but others were certain of more and took the places",
}


class Leg(NamedTuple):
    """Steps of the optimiser with the same inducing points, on at most so many rows.

    Points are chosen for shorter lengthscales, by that factor: points that are enough for a smooth kernel would hold
    it there, as any rougher one would need more of them.
    """

    steps: int
    rows: int | None = None  # None: all of them
    rougher: float = 0.25


# Values that a thousand rows suggest are behind the best for all N rows, by about N / 1000 in score for each parameter.
# That is little beside the margins of the looks, and the steps cost a tenth; intervals are always from all rows.
FIT = (Leg(8, 4000), Leg(20, None, 0.5))
CLOSER = (Leg(20, None, 0.5),)  # for what was fitted before
# Looks at candidates before that: legs, and how far behind the bar a candidate must be then that may still gain by more
# steps, in score for each row and at least.
LOOKS = (((Leg(4, 1000),), 0.06, 150.0), ((Leg(8, 3000),), 0.01, 40.0))


class Effort(NamedTuple):
    """How hard to look at a candidate: what its bound may lose in the legs, the legs, steps of conjugate gradients."""

    loss: float
    legs: tuple[Leg, ...]
    products: int | None  # None: an upper bound without any product with the matrix of all pairs
    fit: bool = False  # conclude it as a fit
    most: int | None = None  # inducing points, where not all that the engine may have
    traces: bool = False  # bound the determinant closely too


class Ends(NamedTuple):
    """Between what the exact score lies; smaller is better."""

    best: float
    worst: float

    def overlaps(self, bar: float) -> bool:
        """Tell whether it may be better than what another is certain of."""
        return self.best < bar


class Ruling(NamedTuple):
    """Why a candidate went no further: `by` is a place in the level, None the best kernel before it."""

    kind: Literal["separated", "places"]
    by: int | None
    bar: float


def ends_of(found: Interval, parameters: int, criterion: Criterion, rows: int) -> Ends:
    """Return between what the score lies."""
    return Ends(*(criterion.score(end, parameters, rows) for end in (found.upper, found.lower)))


def judged(task: Task, state: State, whole: Whole, effort: Effort) -> State:
    """Carry a candidate on, on all rows, and say between what its log evidence lies.

    A fit begins from all starts that are left; until then the best one stands for the candidate, the others wait.
    """
    started = time.perf_counter()
    with one_thread():
        problem = prepare(task.expression, whole.data, whole.engine, task.options, task.peaks)
        points = [np.clip(run.point, problem.bounds[:, 0], problem.bounds[:, 1]) for run in state.runs]
        run = _moved(problem, points[: STARTS if effort.fit else 1], whole, effort)
        found, engine = _at(problem, run, whole, effort)
        if effort.fit:  # with too few inducing points for a rough kernel steps lead to a smoother one, which is worse
            unmoved = replace(run, point=points[0])
            before, others = _at(problem, unmoved, whole, effort)
            if before.lower > found.lower:
                run, found, engine = unmoved, before, others
        best = replace(run, value=-found.lower, rows=whole.data.count)
        fit = _fit(problem, engine, best, state.screened) if effort.fit else None
    seconds, waiting = state.seconds + time.perf_counter() - started, () if effort.fit else state.runs[1:]
    return State((best, *waiting), state.screened, seconds, fit, found, len(engine.Z))


def as_inherited(task: Task, state: State, whole: Whole, effort: Effort) -> State:
    """Judge a candidate with the values of its parent, from all rows, and those of its new part.

    Where it could win by these they come first; what fewer rows suggested stays as another start.
    """
    started = time.perf_counter()
    assert task.noise is not None
    assert state.interval is not None
    with one_thread():
        problem = prepare(task.expression, whole.data, whole.engine, task.options, task.peaks)
        values = problem.starts.inherited(problem.objective.split(state.runs[0].point)[0])
        point = np.append(problem.objective.layout.to_free(values), math.log(task.noise))
        run = replace(state.runs[0], point=np.clip(point, problem.bounds[:, 0], problem.bounds[:, 1]))
        found, engine = _at(problem, run, whole, effort)
    seconds = state.seconds + time.perf_counter() - started
    if not found.upper > state.interval.upper:
        return replace(state, seconds=seconds)
    best = replace(run, value=-found.lower)
    return State((best, *state.runs), state.screened, seconds, None, found, len(engine.Z))


def _at(problem: Problem, run: Run, whole: Whole, effort: Effort) -> tuple[Interval, FixedVFE]:
    """Return between what the log evidence lies where a run stands, on all rows, and the points that told."""
    program, (values, noise) = problem.objective.program, problem.objective.split(run.point)
    looked_at = CANDIDATES if effort.fit else LOOKED_AT
    engine = holding(program, values, noise, whole, CERTAIN, effort.most, looked_at)
    policy = BoundPolicy(effort.products, CLOSE, effort.traces)
    found = interval(program, values, noise, whole.data, engine.Z, policy, engine.sweep)
    return found, engine


def _moved(problem: Problem, points: Sequence[Array], whole: Whole, effort: Effort) -> Run:
    """Take the legs of an effort; after the first one the best of several starts goes on alone."""
    runs = [Run(point, 0.0, "", True, 0, whole.data.count) for point in points]
    for leg in effort.legs:
        rows = _some(whole.data, leg.rows)
        runs = [_along(problem, run, whole, rows, leg, effort) for run in runs]
        runs = [min(runs, key=lambda run: run.value)]
    return runs[0]


def _along(problem: Problem, run: Run, whole: Whole, rows: Data, leg: Leg, effort: Effort) -> Run:
    program, shape = problem.objective.program, problem.objective.layout
    values, noise = problem.objective.split(run.point)
    engine = holding(program, _rougher(shape, values, leg.rougher), noise, whole, effort.loss, effort.most)
    if rows.count * len(engine.Z) < WORTH_A_DEVICE:
        engine = engine.on(NUMBA)
    fixed = replace(problem, objective=replace(problem.objective, engine=engine, data=rows))
    # a leg ends after a few steps; that there are few of them is no failure to converge
    return replace(optimise(fixed, run.point, leg.steps), converged=True)


def _some(data: Data, count: int | None) -> Data:
    """Return so many of the rows, drawn at random, in their order."""
    if count is None or data.count <= count:
        return data
    return data.take(np.sort(np.random.default_rng(0).choice(data.count, count, replace=False)))


def _rougher(shape: Layout, values: Array, share: float) -> Array:
    result = values.copy()
    for slot in shape.slots:
        if slot.spec.name == "lengthscale" and slot.fitted:
            result[slot.where] *= share
    return result


def holding(
    program: Program, values: Array, noise: float, whole: Whole, loss: float, at_most: int | None = None,
    looked_at: int = LOOKED_AT,
) -> FixedVFE:  # fmt: skip
    """Return the engine with as few points as lose no more than that, as far as some of the rows can tell."""
    most = min(whole.engine.inducing, at_most or whole.engine.inducing)
    spare = 2.0 * loss * noise / whole.data.count  # the bound loses tr(K - Q) / (2 noise)
    return replace(whole.engine, inducing=most, joint=False).sparing(program, values, whole.data, spare, looked_at)


def _fit(problem: Problem, engine: FixedVFE, run: Run, screened: int) -> Fit:
    held = replace(problem, objective=replace(problem.objective, engine=engine))
    return replace(concluded(held, [run], run.point, screened), log_evidence=-run.value)


Runner = Callable[[int, dict[int, tuple[Any, ...]], Callable[..., State]], Iterator[tuple[int, State]]]


@dataclass
class Contest:
    """One level of a search on many rows; `run` leaves states and rulings.

    `before` is the bar that the best kernel so far has set; `go` runs work, here or elsewhere (lap, work, function).
    """

    tasks: Sequence[Task]
    whole: Whole
    criterion: Criterion
    before: float
    race: bool
    go: Runner
    states: list[State | None] = field(default_factory=list)
    rulings: dict[int, Ruling] = field(default_factory=dict)
    laps: int = 0

    def run(self, advance: Callable[..., State], beginning: tuple[Data, Engine, int, int]) -> None:
        """Begin on a sample (rows, engine, steps, starts), look at all rows, fit who could win, narrow overlaps."""
        self.states = [None] * len(self.tasks)
        self._lap({i: (task, None, *beginning, False) for i, task in enumerate(self.tasks)}, advance)
        rows = self.whole.data.count
        many = rows > BOUNDS.pairs_rows
        for legs, share, least in LOOKS if self.race else ():
            margin = max(least, share * rows)
            loss = max(LITTLE, LOOSE * margin)
            closer = Effort(loss, (), None if many else 0, most=ENOUGH)
            self._judge(self._waiting(), Effort(loss, legs, None, most=ENOUGH), judged)
            behind = self._separated(margin)
            if not many:
                unclear = [i for i in self._waiting() if i not in behind and self._could_be_separated(i, margin)]
                self._judge(unclear, closer, judged)
                behind = self._separated(margin)
            if len(self._waiting()) - len(behind) < ROUND:  # rather the values are to blame than nearly all kernels
                self._judge([i for i in behind if self.tasks[i].noise is not None], closer, as_inherited)
            self._rule(margin)
            self._set_aside(self._by_certainty()[PLACES:])
        for _ in range(1 if many else ROUNDS):
            chosen = self._by_certainty()[: ROUND if self.race else None]
            if chosen:
                self._look(chosen, Effort(LITTLE, FIT, None if many else 1, fit=True), MARGIN)
        self._rule(0.0)
        self._set_aside(self._waiting())
        self._narrow()

    def settle(self, advance: Callable[..., State], beginning: tuple[Data, Engine, int, int]) -> None:
        """Where time ended before any fit to all rows: conclude the best of those that have begun, on its sample."""
        begun = {i: state for i, state in enumerate(self.states) if state is not None}
        if not begun or any(state.fit is not None for state in begun.values()):
            return
        best = min(begun, key=lambda i: (self.ends(i).worst, begun[i].runs[0].value, i))
        data, engine, steps, _ = beginning
        self.states[best] = advance(self.tasks[best], begun[best], data, engine, steps, 1, True)

    def _could_be_separated(self, number: int, margin: float) -> bool:
        """Tell whether a narrower interval could leave it behind: not if it is certain of enough, whatever else."""
        ends = self.ends(number)
        return not ends.worst - ends.best < 2.0 * NARROW and not ends.worst < self.bar()[0] + margin

    def ends(self, number: int) -> Ends:
        """Return between what the score of a candidate lies; nothing is known before its first look."""
        state = self.states[number]
        if state is None or state.interval is None:
            return Ends(-math.inf, math.inf)
        return ends_of(
            state.interval, layout(self.tasks[number].expression).n_free + 1, self.criterion, self.whole.data.count
        )

    def bar(self) -> tuple[float, int | None]:
        """Return the least worst end, and whose it is."""
        worst = [self.ends(i).worst for i in range(len(self.tasks))]
        first = int(np.argmin(worst)) if worst else 0
        return (worst[first], first) if worst and worst[first] < self.before else (self.before, None)

    def _lap(self, work: dict[int, tuple[Any, ...]], function: Callable[..., State]) -> None:
        self.laps += 1
        for i, reached in self.go(self.laps - 1, work, function):
            self.states[i] = reached

    def _judge(self, numbers: Sequence[int], effort: Effort, how: Callable[..., State]) -> None:
        self._lap({i: (self.tasks[i], self.states[i], self.whole, effort) for i in numbers}, how)

    def _look(self, numbers: Sequence[int], effort: Effort, margin: float = 0.0) -> None:
        """Judge candidates, then leave behind those that cannot be better than the bar."""
        self._judge(numbers, effort, judged)
        self._rule(margin)

    def _separated(self, margin: float) -> list[int]:
        """Return whose best end is behind the bar; of those that only took a few steps, by a margin."""
        bar, by = self.bar()
        allowed = [margin if state is not None and state.fit is None else 0.0 for state in self.states]
        running = [i for i in range(len(self.tasks)) if self.race and i != by and i not in self.rulings]
        return [i for i in running if not self.ends(i).overlaps(bar + allowed[i])]

    def _rule(self, margin: float) -> None:
        """Leave behind who cannot be better than the bar."""
        bar, by = self.bar()
        self.rulings.update({i: Ruling("separated", by, bar) for i in self._separated(margin)})

    def _waiting(self) -> list[int]:
        """Return who is still in and was not fitted to all rows."""
        return [i for i, s in enumerate(self.states) if i not in self.rulings and s is not None and s.fit is None]

    def _by_certainty(self) -> list[int]:
        """Return who waits, first who is certain of most."""
        return sorted(self._waiting(), key=lambda i: (self.ends(i).worst, i))

    def _fitted(self) -> list[int]:
        fits = {i: s.fit for i, s in enumerate(self.states) if i not in self.rulings and s is not None}
        return [i for i, fit in fits.items() if fit is not None and fit.status != "failed"]

    def _set_aside(self, numbers: Sequence[int]) -> None:
        """Give up who has no place: whoever is behind the bar, by less than a margin, is so for that reason."""
        bar, by = self.bar()
        for i in numbers:
            self.rulings[i] = Ruling("places" if self.ends(i).overlaps(bar) else "separated", by, bar)

    def _narrow(self) -> None:
        """Carry on fitted candidates that overlap the bar, with more inducing points, and whoever holds it."""
        bar, holder = self.bar()
        close = [i for i in self._fitted() if i != holder and self.ends(i).overlaps(bar)]
        rivals = sorted(close, key=lambda i: (self.ends(i).best, i))[:FINALISTS]
        if rivals:
            both = rivals if holder is None else [holder, *rivals]
            self._look(both, closely(self.whole))


# ---------------------------------------------------------------------------------------------- rows of the table


def left_behind(candidate: Candidate, state: State | None, ruling: Ruling, by: int) -> Candidate:
    """Return the row with the reason why it went no further; what a fit said of itself stays.

    So does a better row of the same kernel from an earlier step: the ruling is about another interval.
    """
    if state is None or candidate.interval is not state.interval:
        return candidate
    message = candidate.message if candidate.fit is not None else REASONS[ruling.kind].format(by=by)
    return replace(candidate, message=message, verdict=Verdict(ruling.kind, by, ruling.bar))


def loose(candidate: Candidate, whole: Whole) -> bool:
    """Tell whether more inducing points could narrow the interval."""
    wide = candidate.interval is not None and not candidate.interval.width < NARROW
    return wide and (candidate.inducing or 0) < whole.engine.inducing


def closely(whole: Whole) -> Effort:
    """Return the most that is worth doing for one candidate."""
    few = whole.data.count <= BOUNDS.pairs_rows
    return Effort(LESS, CLOSER, 10 if few else None, fit=True, traces=few)


def again(fit: Fit, seed: int) -> tuple[Task, State]:
    """Return a finished kernel as one to be carried on from where it is."""
    task = Task(fit.expression, structure(fit.expression).text(), fit.noise, False, {}, {}, FitOptions(seed=seed))
    point = np.append(layout(fit.expression).to_free(fit.values), math.log(fit.noise))
    return task, State((Run(point, -fit.log_evidence, "", True, 0, 0),), fit.evaluations, 0.0)


def renewed(candidate: Candidate, reached: State, score: float) -> Candidate:
    """Return the row of a candidate after a closer look, unless that found nothing better."""
    fit, found = reached.fit, reached.interval
    if fit is None or found is None or not found.lower > candidate.log_evidence:
        return candidate
    return replace(
        candidate, expression=fit.expression, log_evidence=found.lower, score=score, status=fit.status,
        message=fit.message, seconds=candidate.seconds + reached.seconds, fit=fit, interval=found,
        inducing=reached.inducing,
    )  # fmt: skip
