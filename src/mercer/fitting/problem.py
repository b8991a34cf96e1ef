"""The fit of one kernel structure to some rows, as a problem to minimise: points, bounds, priors; and what came of it.

A point is the free vector of the kernel followed, where the noise is fitted, by its logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from mercer.compute.program import Program, compile_program
from mercer.fitting.starts import NOISE, GaussianPrior, LearnedPrior, Starts, free_bounds, may_vanish, weak_prior
from mercer.inference.contract import Data, Engine, Evidence, Move
from mercer.inference.likelihood import Gaussian
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import Layout, layout, with_values

Status = Literal["converged", "at a bound", "stopped", "interrupted", "failed"]
ASIDE = 1e-6  # along a free number: how far to go for a slope of the kernel
FAILED_VALUE = 1e15  # what the line search sees where the evidence cannot be computed: it turns back


@dataclass(frozen=True)
class FitOptions:
    """How hard to try."""

    restarts: int = 6
    draws: int = 12  # for each start but the first: the best of them by evidence are kept
    max_iterations: int = 200
    priors: bool | LearnedPrior = False  # weak ones, or such as were learned
    noise: float | None = None  # a fixed noise variance (scaled units), or None to fit it
    tolerance: float = 1e-10  # a run ends when a step gains less than this share of the objective
    n_jobs: int | None = None
    seed: int = 0
    until: float | None = None  # by `time.time()`: runs end there, where they are; None: at their end


class AtBound(NamedTuple):
    """A parameter whose optimum lies at a bound of the search."""

    path: str  # "1:SE.lengthscale[0]" or "noise"
    side: Literal["lower", "upper"]

    def __str__(self) -> str:
        return f"{self.path} at its {self.side} bound"


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted kernel in scaled units, its noise variance, scores and how the fit ended."""

    expression: Expression
    noise: float
    log_evidence: float
    leave_one_out: float
    parameters: int  # fitted numbers, the noise among them
    jitter: float
    status: Status
    message: str
    evaluations: int
    values: Array
    at_bounds: tuple[AtBound, ...] = ()  # where the status is "at a bound"
    held: Engine | None = None  # with what it holds, where that was fitted too (inducing points that moved)
    rows: int = 0  # that its scores are from; 0: not known

    @property
    def likelihood(self) -> Gaussian:
        """The noise as a likelihood."""
        return Gaussian(self.noise)


class Trail(NamedTuple):
    """What an optimiser evaluated on its way: with it a run goes on as if it had never stopped."""

    points: Array  # (E, P)
    values: Array  # (E,)
    slopes: Array  # (E, P)

    @property
    def start(self) -> Array:
        """Where the run began."""
        return np.asarray(self.points[0])

    @property
    def best(self) -> tuple[Array, float]:
        """The point with the least value, and that value."""
        least = int(np.argmin(self.values))
        return np.asarray(self.points[least]), float(self.values[least])


class Memory(NamedTuple):
    """What a descent by curvature knows where it ran out of steps: with it, it goes on as if it had never stopped."""

    value: float  # of the objective there
    slope: Array
    curvature: Array
    radius: float  # of the next step
    since: int  # steps since the curvature was measured
    idle: int  # steps in a row that gained next to nothing
    promise: float  # what the next step is to gain, however long it is


class Evaluations:
    """Evaluations in the order in which an optimiser asks for them, those of an earlier trail first.

    An optimiser keeps its memory of the slopes to itself, and begun anew where it stopped it goes another way. Taken
    along its old trail again, with every answer at hand, it gets its memory back for next to nothing.
    """

    after_step: Any = None  # called after every iteration

    def __init__(self, trail: Trail | None = None) -> None:
        self._entries = [] if trail is None else list(zip(*trail, strict=True))
        self._asked = 0

    def find(self, point: Array) -> tuple[float, Array] | None:
        """Return what was evaluated at this step before, or None; what followed another point is forgotten."""
        if self._asked < len(self._entries):
            old, value, slope = self._entries[self._asked]
            if np.array_equal(old, point):
                self._asked += 1
                return value, slope.copy()
            del self._entries[self._asked :]
        return None

    def note(self, point: Array, value: float, slope: Array) -> tuple[float, Array]:
        """Write a new evaluation down, and return it."""
        self._entries.append((point.copy(), value, slope.copy()))
        self._asked += 1
        return value, slope

    def trail(self) -> Trail | None:
        """Return what was evaluated so far."""
        if not self._entries:
            return None
        points, values, slopes = zip(*self._entries, strict=True)
        return Trail(np.stack(points), np.array(values, dtype=float), np.stack(slopes))


@dataclass(frozen=True, eq=False)
class Run:
    """Where one start ended."""

    point: Array
    value: float  # of the objective, to be compared
    message: str
    converged: bool
    evaluations: int
    rows: int  # that it was optimised on
    afresh: bool = False  # begun with nothing of a parent's optimum
    trail: Trail | None = None
    out_of_time: bool = False  # the time was spent before it came to its end
    memory: Memory | None = None  # of a descent that may go on, on the same rows

    @property
    def hope(self) -> float:
        """What it may still gain: nothing at its end, what the next step promises, or infinite where nobody knows."""
        if self.converged:
            return 0.0
        return math.inf if self.memory is None else self.memory.promise


@dataclass(frozen=True, eq=False)
class Problem:
    """Minus the log evidence (less the log prior) as a function of a point, where it may go, and where to start."""

    expression: Expression
    engine: Engine
    program: Program
    layout: Layout
    data: Data
    known: Array  # values that are not fitted keep these
    noise: float | None  # a known noise variance; None: it is fitted
    prior: GaussianPrior | None
    bounds: Array
    starts: Starts
    tolerance: float

    def point(self, values: Array, likelihood: Gaussian) -> Array:
        """Return the point of kernel values and a likelihood, within the bounds."""
        free = self.layout.to_free(values)
        if self.noise is None:
            free = np.append(free, math.log(max(likelihood.noise, 1e-300)))
        return self.clip(free)

    def clip(self, point: Array) -> Array:
        """Return the nearest point within the bounds."""
        return np.clip(point, self.bounds[:, 0], self.bounds[:, 1])

    def split(self, point: Array) -> tuple[Array, Gaussian]:
        """Return the values vector and the likelihood at a point."""
        values = self.layout.from_free(point[: self.layout.n_free], self.known)
        return values, Gaussian(self.noise if self.noise is not None else math.exp(point[-1]))

    def evidence(self, point: Array, gradient: bool = False) -> Evidence:
        """Return the evidence at a point."""
        values, likelihood = self.split(point)
        return self.engine.evidence(self.program, values, likelihood, self.data, gradient)

    def information(self, point: Array) -> Array | None:
        """Return about how fast what is minimised bends at a point, a matrix that is never negative; None: not known.

        The engine's information in free numbers, by a small step along each, and what the prior adds.
        """
        values, likelihood = self.split(point)
        moves = []
        for number in range(self.layout.n_free):
            beside = point.copy()
            beside[number] += ASIDE if point[number] + ASIDE <= self.bounds[number, 1] else -ASIDE
            moves.append(Move(self.split(beside)[0], beside[number] - point[number]))
        found = self.engine.information(self.program, values, likelihood, self.data, moves)
        if found is None:
            return None
        found = found if self.noise is None else found[:-1, :-1]
        return found if self.prior is None else found + np.diag(self.prior.spread**-2.0)

    def loss(self, point: Array, record: Evaluations | None = None) -> tuple[float, Array]:
        """Return what is minimised and its gradient; a record spares what was evaluated before."""
        known = None if record is None else record.find(point)
        if known is not None:
            return known
        values, likelihood = self.split(point)
        evidence = self.engine.evidence(self.program, values, likelihood, self.data, True)
        found = self.grade(point, values, likelihood.noise, evidence)
        return found if record is None else record.note(point, *found)

    def grade(self, point: Array, values: Array, noise: float, evidence: Evidence) -> tuple[float, Array]:
        """Return what is minimised and its gradient, given the evidence at a point and what the point is split into."""
        if evidence.gradient is None or evidence.noise_gradient is None or not np.all(np.isfinite(evidence.gradient)):
            return FAILED_VALUE, np.zeros(len(point))
        gradient = self.layout.pullback(values, evidence.gradient)
        if self.noise is None:
            gradient = np.append(gradient, evidence.noise_gradient * noise)
        value = evidence.value
        if self.prior is not None:
            density, slope = self.prior.log_density(point)
            value, gradient = value + density, gradient + slope
        return -value, -gradient

    def conclude(self, runs: Sequence[Run], first: Array, screened: int, interrupted: bool = False) -> Fit:
        """Return the best of the runs as a fit with its status; `first` stands for it where there is none."""
        best = min(runs, key=lambda run: run.value) if runs else None
        failed = best is None or best.value >= FAILED_VALUE
        point = first if best is None or failed else best.point
        evidence = self.evidence(point, gradient=not failed)
        values, likelihood = self.split(point)
        at_bounds: tuple[AtBound, ...] = ()
        if best is None or failed:
            otherwise = "stopped before the first start was finished" if interrupted else "no start succeeded"
            message, evaluations = evidence.failure or otherwise, 0
            status: Status = "interrupted" if interrupted and evidence.failure is None else "failed"
        else:
            evaluations = screened + sum(run.evaluations for run in runs) + 1
            status, message, at_bounds = self._judge(best, interrupted)
        left_out = -math.inf if failed or evidence.leave_one_out is None else evidence.leave_one_out
        return Fit(
            with_values(self.expression, values), likelihood.noise, evidence.value, left_out, len(point),
            0.0 if failed else evidence.jitter, status, message, evaluations, values, at_bounds,
            rows=self.data.count,
        )  # fmt: skip

    def _judge(self, best: Run, interrupted: bool) -> tuple[Status, str, tuple[AtBound, ...]]:
        """Return how a run ended; a lower bound that stands for zero is none."""
        if interrupted:
            return "interrupted", "stopped on request; this is the best of the starts that were finished", ()
        if not best.converged:
            tried = f"not converged after {best.evaluations} evaluations"
            more = "time (time_budget)" if best.out_of_time else "iterations (max_iterations)"
            return "stopped", f"{tried}; allow more {more}", ()
        names, vanishing = [*self.layout.free_paths(), "noise"], [*may_vanish(self.layout), False]
        at_bounds = tuple(
            AtBound(names[i], "lower" if best.point[i] <= low else "upper")
            for i, (low, high) in enumerate(self.bounds)
            if (best.point[i] <= low and not vanishing[i]) or best.point[i] >= high
        )
        if at_bounds:
            text = "the optimum lies at a bound of the search: " + ", ".join(map(str, at_bounds))
            return "at a bound", text, at_bounds
        return "converged", "converged", ()


def prepare(
    expression: Expression, data: Data, engine: Engine, options: FitOptions, peaks: dict[int, Array] | None = None
) -> Problem:
    """Set up the fit of a bound expression; `peaks` gives periods to try for each column (default: those of y)."""
    shape = layout(expression)
    starts = Starts(expression, shape, data, peaks)
    low, high = free_bounds(expression, shape, starts.frame).T
    # With the values that were given: a period that the data do not show is fitted where it is asked for.
    free = shape.to_free(np.where(np.isnan(starts.known), 1.0, starts.known))
    given = ~np.isnan(shape.to_free(starts.known))
    low, high = np.where(given, np.minimum(low, free), low), np.where(given, np.maximum(high, free), high)
    bounds = np.column_stack([low, high])
    prior = weak_prior(expression, shape, starts.frame) if options.priors else None
    if prior is not None and isinstance(options.priors, LearnedPrior):
        prior = options.priors.complete(prior, shape.free_paths())
    if options.noise is None:
        bounds = np.vstack([bounds, np.log(NOISE)])
    elif prior is not None:
        prior = replace(prior, centre=prior.centre[:-1], spread=prior.spread[:-1])
    return Problem(
        expression, engine, compile_program(expression), shape, data, starts.draw(None), options.noise, prior, bounds,
        starts, options.tolerance,
    )  # fmt: skip
