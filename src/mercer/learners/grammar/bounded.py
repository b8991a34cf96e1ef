"""Many rows: intervals on all of them tell which candidates could still win (SKC, Kim & Teh 2018; METHODS 4).

The exact score of a candidate (BIC = -2 log p + p log N) at the values it has reached lies between two ends: `best`,
from the upper bound on its log evidence, and `worst`, from the lower one. The `bar` is the least worst end of all: that
candidate is certain of it. Whoever's best end is behind the bar cannot be better at its values, and is left behind; the
verdict says behind whom, and what the bar was.

How many inducing points a candidate gets depends on its values: as many as its lower bound needs to lose little, at
most those of the engine. With too few of them the bound would prefer other values, and judge the kernel by those. First
looks are cheap (a few steps from what a sample of the rows suggested). Those that remain are fitted to all rows, the
most certain first, which raises the bar for the others; fitted candidates that overlap the bar then get more points.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from mercer.evaluate.program import Program
from mercer.fitting.optimise import Fit, FitOptions, Problem, Run, concluded, optimise, prepare
from mercer.inference.bounds import PAIRS_ROWS, Interval, interval
from mercer.inference.contract import Data, Engine
from mercer.inference.sparse import model_of, solve
from mercer.inference.vfe import FixedVFE
from mercer.kernels.algebra import structure
from mercer.kernels.domains import Array
from mercer.kernels.parameters import Layout, layout
from mercer.learners.contract import Candidate, Verdict, Whole
from mercer.learners.grammar.race import SAMPLE, Lap
from mercer.learners.grammar.worker import State, Task
from mercer.linalg.factor import Failure
from mercer.linalg.threads import one_thread

FEWEST = 64  # inducing points; doubled until the bound loses little
LITTLE, LESS = 2.0, 0.1  # what the lower bound may lose, in log evidence: at first, and where intervals overlap
ROUND = 8  # candidates that are fitted to all rows before the bar is looked at again
ROUNDS = 3
STARTS = 2  # of a candidate that are fitted to all rows
FINALISTS = 4  # whose intervals are made narrower, where they overlap
STEPS = (8, 20)  # of the optimiser in a fit to all rows, inducing points being chosen anew before each leg
ROUGHER = 0.25  # of the lengthscales: what points are chosen for, where lengthscales may become shorter
# Looks at all rows before that: steps, and how far behind the bar a candidate must be then that may still gain by more
# of them, in score for each row and at least.
LOOKS = (((4,), 0.06, 150.0), ((8,), 0.01, 40.0))
LOOSE = 0.03  # of the margin: what a bound may lose then
ENOUGH = 256  # inducing points for a look, where the engine has more
MARGIN = 40.0  # after those
LOOKED_AT = 2000  # rows that tell how many inducing points are needed
NARROW = 0.5  # of log evidence: an interval that is narrower says as much as a number
BEGINNING = Lap(20, 99, math.inf, 0, SAMPLE)  # where nobody is raced
SHARPENING = 1000  # the place in a journal of a closer look at the best, behind all laps
REASONS = {
    "separated": "left behind: the whole interval of its score is behind what candidate {by} is certain of",
    "places": "set aside: it may be better than candidate {by}, but others were certain of more and took the places",
}


class Effort(NamedTuple):
    """How hard to look at a candidate: what its bound may lose, legs of the optimiser, steps of conjugate gradients."""

    loss: float
    legs: tuple[int, ...]  # steps, points being chosen anew before each
    products: int | None  # None: an upper bound without any product with the matrix of all pairs
    fit: bool = False  # conclude it as a fit
    most: int | None = None  # inducing points, where not all that the engine may have


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


def ends_of(found: Interval, parameters: int, price: float) -> Ends:
    """Return between what the score lies, given what a parameter costs."""
    return Ends(-2.0 * found.upper + parameters * price, -2.0 * found.lower + parameters * price)


def judged(task: Task, state: State, whole: Whole, effort: Effort) -> State:
    """Carry a candidate on, on all rows, and say between what its log evidence lies.

    A fit begins from all starts that are left; until then the best one stands for the candidate, the others wait.
    """
    started = time.perf_counter()
    with one_thread():
        problem = prepare(task.expression, whole.data, whole.engine, task.options, task.peaks)
        points = [np.clip(run.point, problem.bounds[:, 0], problem.bounds[:, 1]) for run in state.runs]
        runs = [_moved(problem, point, whole, effort) for point in points[: STARTS if effort.fit else 1]]
        runs.sort(key=lambda run: run.value)
        values, noise = problem.objective.split(runs[0].point)
        engine = holding(problem.objective.program, values, noise, whole, effort.loss, effort.most)
        found = interval(problem.objective.program, values, noise, whole.data, engine.Z, steps=effort.products)
        best = replace(runs[0], value=-found.lower)
        fit = _fit(problem, engine, best, state.screened) if effort.fit else None
    seconds, waiting = state.seconds + time.perf_counter() - started, () if effort.fit else state.runs[1:]
    return State((best, *waiting), state.screened, seconds, fit, found, len(engine.Z))


def _moved(problem: Problem, point: Array, whole: Whole, effort: Effort) -> Run:
    """Take steps on all rows, with inducing points for a rougher kernel than where they begin.

    Points that are enough for a smooth kernel would hold it there: any rougher one would need more of them.
    """
    run = Run(point, 0.0, "", True, 0, whole.data.count)
    program, shape = problem.objective.program, problem.objective.layout
    for steps in effort.legs:
        values, noise = problem.objective.split(run.point)
        engine = holding(program, _rougher(shape, values), noise, whole, effort.loss, effort.most)
        fixed = replace(problem, objective=replace(problem.objective, engine=engine))
        # a leg ends after a few steps; that there are few of them is no failure to converge
        run = replace(optimise(fixed, run.point, steps), converged=True)
    return run


def _rougher(shape: Layout, values: Array) -> Array:
    result = values.copy()
    for slot in shape.slots:
        if slot.spec.name == "lengthscale" and slot.fitted:
            result[slot.where] *= ROUGHER
    return result


def holding(
    program: Program, values: Array, noise: float, whole: Whole, loss: float, at_most: int | None = None
) -> FixedVFE:
    """Return the engine with as few points as lose no more than that, as far as some of the rows can tell."""
    data, count = whole.data, FEWEST
    most = min(whole.engine.inducing, at_most or whole.engine.inducing)
    some = data if data.count <= LOOKED_AT else data.take(np.linspace(0, data.count - 1, LOOKED_AT).astype(int))
    while True:
        count = min(count, most)
        engine = replace(whole.engine, inducing=count, joint=False).holding(program, values, data)
        if count == most or len(engine.Z) < count:
            return engine
        found = solve(model_of(program, values, noise, some, engine.Z), some, None)
        if not isinstance(found, Failure) and 0.5 * found.trace * data.count / some.count <= loss:
            return engine
        count *= 2


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
    price: float
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
        many = rows > PAIRS_ROWS
        for steps, share, least in LOOKS if self.race else ():
            margin = max(least, share * rows)
            loss = max(LITTLE, LOOSE * margin)
            self._look(self._waiting(), Effort(loss, (1,) if many else steps, None, most=ENOUGH), margin)
            if not many:
                self._look([i for i in self._waiting() if self._is_wide(i)], Effort(loss, (), 0, most=ENOUGH), margin)
        for _ in range(1 if many else ROUNDS):
            chosen = sorted(self._waiting(), key=lambda i: (self.ends(i).worst, i))[: ROUND if self.race else None]
            if chosen:
                self._look(chosen, Effort(LITTLE, STEPS, None if many else 1, fit=True), MARGIN)
        self._rule(0.0)
        self._set_aside(self._waiting())
        self._narrow(None if many else 10)

    def _is_wide(self, number: int) -> bool:
        ends = self.ends(number)
        return not ends.worst - ends.best < 2.0 * NARROW

    def ends(self, number: int) -> Ends:
        """Return between what the score of a candidate lies; nothing is known before its first look."""
        state = self.states[number]
        if state is None or state.interval is None:
            return Ends(-math.inf, math.inf)
        return ends_of(state.interval, layout(self.tasks[number].expression).n_free + 1, self.price)

    def bar(self) -> tuple[float, int | None]:
        """Return the least worst end, and whose it is."""
        worst = [self.ends(i).worst for i in range(len(self.tasks))]
        first = int(np.argmin(worst)) if worst else 0
        return (worst[first], first) if worst and worst[first] < self.before else (self.before, None)

    def _lap(self, work: dict[int, tuple[Any, ...]], function: Callable[..., State]) -> None:
        self.laps += 1
        for i, reached in self.go(self.laps - 1, work, function):
            self.states[i] = reached

    def _look(self, numbers: Sequence[int], effort: Effort, margin: float = 0.0) -> None:
        """Judge candidates, then leave behind those that cannot be better than the bar."""
        self._lap({i: (self.tasks[i], self.states[i], self.whole, effort) for i in numbers}, judged)
        self._rule(margin)

    def _rule(self, margin: float) -> None:
        """Leave those behind whose best end is behind the bar; those that only took a few steps by a margin."""
        bar, by = self.bar()
        for i, state in enumerate(self.states):
            allowed = margin if state is not None and state.fit is None else 0.0
            if self.race and i != by and i not in self.rulings and not self.ends(i).overlaps(bar + allowed):
                self.rulings[i] = Ruling("separated", by, bar)

    def _waiting(self) -> list[int]:
        """Return who is still in and was not fitted to all rows."""
        return [i for i, s in enumerate(self.states) if i not in self.rulings and s is not None and s.fit is None]

    def _fitted(self) -> list[int]:
        fits = {i: s.fit for i, s in enumerate(self.states) if i not in self.rulings and s is not None}
        return [i for i, fit in fits.items() if fit is not None and fit.status != "failed"]

    def _set_aside(self, numbers: Sequence[int]) -> None:
        bar, by = self.bar()
        for i in numbers:
            self.rulings[i] = Ruling("places", by, bar)

    def _narrow(self, products: int | None) -> None:
        """Carry on fitted candidates that overlap the bar, with more inducing points, and whoever holds it."""
        _, holder = self.bar()
        rivals = sorted((i for i in self._fitted() if i != holder), key=lambda i: (self.ends(i).best, i))[:FINALISTS]
        if rivals:
            both = rivals if holder is None else [holder, *rivals]
            self._look(both, Effort(LESS, STEPS, products, fit=True))


# ---------------------------------------------------------------------------------------------- rows of the table


def left_behind(candidate: Candidate, ruling: Ruling, by: int) -> Candidate:
    """Return the row with the reason why it went no further; what a fit said of itself stays."""
    message = candidate.message if candidate.fit is not None else REASONS[ruling.kind].format(by=by)
    return replace(candidate, message=message, verdict=Verdict(ruling.kind, by, ruling.bar))


def loose(candidate: Candidate, whole: Whole) -> bool:
    """Tell whether more inducing points could narrow the interval."""
    wide = candidate.interval is not None and not candidate.interval.width < NARROW
    return wide and (candidate.inducing or 0) < whole.engine.inducing


def closely(whole: Whole) -> Effort:
    """Return the most that is worth doing for one candidate."""
    return Effort(LESS, STEPS, None if whole.data.count > PAIRS_ROWS else 10, fit=True)


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
