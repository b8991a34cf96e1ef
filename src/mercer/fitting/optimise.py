"""Fit the parameters of a fixed structure: several starts, quasi-Newton on the free vector, a status always comes back.

The same seed gives the same result whatever the number of jobs: every start is drawn before any is run, each is
optimised on its own, and ties are broken by the order of the starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from mercer.compute.program import Program, compile_program
from mercer.fitting.clock import Clock, Progress, Report
from mercer.fitting.priors import GaussianPrior, weak_prior
from mercer.fitting.ranges import NOISE, free_bounds, may_vanish
from mercer.fitting.starts import Starts, noise_start
from mercer.fitting.trail import Record, Trail
from mercer.inference.contract import Data, Engine, Evidence
from mercer.inference.likelihood import Gaussian
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import Layout, layout, with_values
from mercer.linalg.threads import one_thread

Status = Literal["converged", "at a bound", "stopped", "interrupted", "failed"]

DRAWS_PER_START = 12
ONE_THREAD_BELOW = 1000  # rows of a fit: below, a second BLAS thread gains little and on a busy machine loses much
CORRECTIONS = 20  # steps that L-BFGS-B remembers
FLAT = 1e-4  # a run ends where no slope of the objective is steeper
FAILED_VALUE = 1e15  # what the line search sees where the evidence cannot be computed: it turns back


@dataclass(frozen=True)
class FitOptions:
    """How hard to try."""

    restarts: int = 6
    draws: int = DRAWS_PER_START  # for each start but the first: the best of them by evidence are kept
    max_iterations: int = 200
    priors: bool = False
    noise: float | None = None  # a fixed noise variance (scaled units), or None to fit it
    tolerance: float = 1e-10  # a run ends when a step gains less than this share of the objective
    n_jobs: int | None = None
    seed: int = 0


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


@dataclass(frozen=True, eq=False)
class Objective:
    """Minus the log evidence (less the log prior) as a function of the free vector followed by log noise."""

    engine: Engine
    program: Program
    layout: Layout
    data: Data
    known: Array
    fixed_noise: float | None
    prior: GaussianPrior | None

    def split(self, point: Array) -> tuple[Array, float]:
        """Return the values vector and the noise variance at a point."""
        values = self.layout.from_free(point[: self.layout.n_free], self.known)
        return values, self.fixed_noise if self.fixed_noise is not None else math.exp(point[-1])

    def evidence(self, point: Array, gradient: bool) -> Evidence:
        """Return the evidence at a point."""
        values, noise = self.split(point)
        return self.engine.evidence(self.program, values, Gaussian(noise), self.data, gradient)

    def loss(self, point: Array, values: Array, noise: float, evidence: Evidence) -> tuple[float, Array]:
        """Return what is minimised and its gradient, given the evidence at a point and what the point is split into."""
        if evidence.gradient is None or evidence.noise_gradient is None or not np.all(np.isfinite(evidence.gradient)):
            return FAILED_VALUE, np.zeros(len(point))
        gradient = self.layout.pullback(values, evidence.gradient)
        if self.fixed_noise is None:
            gradient = np.append(gradient, evidence.noise_gradient * noise)
        value = evidence.value
        if self.prior is not None:
            density, slope = self.prior.log_density(point)
            value, gradient = value + density, gradient + slope
        return -value, -gradient

    def __call__(self, point: Array) -> tuple[float, Array]:
        values, noise = self.split(point)
        return self.loss(
            point, values, noise, self.engine.evidence(self.program, values, Gaussian(noise), self.data, True)
        )


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


def fit(expression: Expression, data: Data, engine: Engine, options: FitOptions, progress: Report | None = None) -> Fit:
    """Fit a bound expression (scaled units); values given in it are where every start begins."""
    with one_thread(when=data.count < ONE_THREAD_BELOW):
        problem = prepare(expression, data, engine, options)
        points, screened = starting_points(problem, options)
        runs, interrupted = _run_all(problem, points, options, progress)
        return concluded(problem, runs, points[0], screened, interrupted)


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything that fitting one expression needs: the objective, the bounds of its free vector, where to start."""

    expression: Expression
    objective: Objective
    bounds: Array
    starts: Starts
    tolerance: float


Screen = Callable[[Problem, Sequence[Array]], Sequence[float]]  # the log evidence at every point


def prepare(
    expression: Expression, data: Data, engine: Engine, options: FitOptions, peaks: dict[int, Array] | None = None
) -> Problem:
    """Set up the fit of a bound expression; `peaks` gives periods to try for each column (default: those of y)."""
    program, shape = compile_program(expression), layout(expression)
    starts = Starts(expression, shape, data, peaks)
    bounds = _including(free_bounds(expression, shape, starts.frame), shape, starts.known)
    prior = weak_prior(expression, shape, starts.frame) if options.priors else None
    if options.noise is None:
        bounds = np.vstack([bounds, np.log(NOISE)])
    elif prior is not None:
        prior = GaussianPrior(prior.centre[:-1], prior.spread[:-1])
    objective = Objective(engine, program, shape, data, starts.typical(), options.noise, prior)
    return Problem(expression, objective, bounds, starts, options.tolerance)


def _including(bounds: Array, shape: Layout, known: Array) -> Array:
    """Widen bounds to the values that were given: whoever asks for a period that the data do not show shall have it."""
    given = np.where(np.isnan(known), 1.0, known)
    free, told = shape.to_free(given), ~np.isnan(shape.to_free(known))
    low, high = bounds.T
    return np.column_stack([np.where(told, np.minimum(low, free), low), np.where(told, np.maximum(high, free), high)])


def concluded(problem: Problem, runs: Sequence[Run], first: Array, screened: int, interrupted: bool = False) -> Fit:
    """Return the best of the runs as a fit with its status."""
    best = min(runs, key=lambda run: run.value) if runs else None
    if best is None or best.value >= FAILED_VALUE:
        return _failed(problem, first, interrupted)
    return _finished(problem, best, screened + sum(run.evaluations for run in runs), interrupted)


def starting_points(
    problem: Problem,
    options: FitOptions,
    noise: float | None = None,
    screen: Screen | None = None,
    neutral: bool = True,
) -> tuple[list[Array], int]:
    """Draw many starts, keep the typical one and the best of the others by evidence; also return how many were tried.

    The first draws try one period after the other with everything else typical, so that none is missed by chance.

    `noise` is the noise variance of a kernel that this one grew from: the first start is then the one nearest to it,
    unless `neutral` is False.
    `screen` gives the log evidence of every point, where they are not to be worked out one by one.
    """
    rng = np.random.default_rng(options.seed)
    objective, starts, bounds = problem.objective, problem.starts, problem.bounds
    fitted_noise = options.noise is None

    def point(values: Array, noise: float) -> Array:
        free = objective.layout.to_free(values)
        return np.clip(np.append(free, math.log(noise)) if fitted_noise else free, bounds[:, 0], bounds[:, 1])

    nearest = noise is not None and neutral
    first = point(starts.neutral() if nearest else starts.typical(), noise_start(None) if noise is None else noise)
    wanted = max(1, options.restarts) - 1
    if wanted == 0 or (starts.complete and not fitted_noise):
        return [first], 0
    in_turn = [starts.typical(turn) for turn in range(starts.turns)]
    drawn = [point(values, noise_start(None) if noise is None else noise) for values in in_turn]
    at_random = range(max(wanted * options.draws - len(in_turn), wanted * options.draws // 2))
    drawn += [point(starts.draw(rng), noise_start(rng) if noise is None else noise) for _ in at_random]
    drawn = [p for p in drawn if not np.array_equal(p, first)]
    if not drawn:
        return [first], 0
    scores = screen(problem, drawn) if screen else [objective.evidence(p, gradient=False).value for p in drawn]
    order = np.argsort([-s for s in scores], kind="stable")
    return [first, *(drawn[i] for i in order[:wanted])], len(drawn)


def _run_all(
    problem: Problem, points: list[Array], options: FitOptions, progress: Report | None
) -> tuple[list[Run], bool]:
    """Optimise from every point; Ctrl-C keeps what is finished."""
    jobs = options.n_jobs or 1
    if jobs != 1 and len(points) > 1:
        from joblib import Parallel, delayed

        # Threads by default: the work is in compiled code that releases Python's lock; a registered back end is used.
        runs = Parallel(n_jobs=jobs, prefer="threads")(
            delayed(optimise)(problem, point, options.max_iterations) for point in points
        )
        return list(runs), False
    runs, best, clock = [], math.inf, Clock()
    for done, point in enumerate(points):
        try:
            run = optimise(problem, point, options.max_iterations)
            runs.append(run)
            best = min(best, run.value)
            if progress is not None:
                progress(Progress(done + 1, len(points), "starts", score=2.0 * best, seconds=clock.seconds))
        except KeyboardInterrupt:
            return runs, True
    return runs, False


def optimise(problem: Problem, point: Array, max_iterations: int, trail: Trail | None = None) -> Run:
    """Run L-BFGS-B from one point; a trail of that run spares what it has evaluated before.

    The optimiser keeps its memory to itself. Taken along its old trail again, which costs next to nothing, it has it.
    """
    from scipy.optimize import minimize

    objective, bounds = problem.objective, problem.bounds
    if len(point) == 0:
        value, _ = objective(point)
        return Run(point, value, "nothing to fit", True, 1, objective.data.count)
    record = Record(trail)

    def recorded(where: Array) -> tuple[float, Array]:
        known = record.known(where)
        return known if known is not None else record.noted(where, *objective(where))

    result = minimize(
        recorded, point, jac=True, method="L-BFGS-B", bounds=bounds,
        options={"maxiter": max_iterations, "maxcor": CORRECTIONS, "ftol": problem.tolerance, "gtol": FLAT},
    )  # fmt: skip
    return ended(problem, np.asarray(result.x), float(result.fun), result, record.trail())


def with_settled_noise(problem: Problem, point: Array) -> Array:
    """Return the point with its noise doubled as long as that helps; the noise must be the last entry.

    A bound from few inducing points takes what they miss for noise. From a point of exact inference its slope towards
    a kernel of nothing but noise is steep, and a quasi-Newton step follows it to the end; with enough noise it is not.
    """
    best, most = point, problem.bounds[-1, 1]
    value = problem.objective.evidence(best, gradient=False).value
    while best[-1] < most:
        trial = best.copy()
        trial[-1] = min(most, best[-1] + math.log(2.0))
        found = problem.objective.evidence(trial, gradient=False).value
        if not found > value:
            break
        best, value = trial, found
    return best


def ended(problem: Problem, point: Array, value: float, result: Any, trail: Trail | None = None) -> Run:
    """Return the run that an optimiser's result (SciPy's or BoTorch's) tells of."""
    # scipy reports an abnormal line search where no progress is possible at machine precision: good enough if it moved
    converged = bool(result.success) or "ABNORMAL" in str(result.message)
    rows = problem.objective.data.count
    return Run(point, value, str(result.message), converged, int(result.nfev), rows, trail=trail)


def _failed(problem: Problem, point: Array, interrupted: bool) -> Fit:
    objective, expression = problem.objective, problem.expression
    evidence = objective.evidence(point, gradient=False)
    values, noise = objective.split(point)
    otherwise = "stopped before the first start was finished" if interrupted else "no start succeeded"
    reason = evidence.failure or otherwise
    status: Status = "interrupted" if interrupted and evidence.failure is None else "failed"
    return Fit(
        with_values(expression, values), noise, evidence.value, -math.inf, len(point), 0.0, status, reason, 0, values
    )


def _finished(problem: Problem, best: Run, evaluations: int, interrupted: bool) -> Fit:
    objective = problem.objective
    evidence = objective.evidence(best.point, gradient=True)
    values, noise = objective.split(best.point)
    at_bounds = _find_bounds(problem, best.point)
    status, message = _status(best, at_bounds, interrupted)
    return Fit(
        expression=with_values(problem.expression, values),
        noise=noise,
        log_evidence=evidence.value,
        leave_one_out=evidence.leave_one_out if evidence.leave_one_out is not None else -math.inf,
        parameters=len(best.point),
        jitter=evidence.jitter,
        status=status,
        message=message,
        evaluations=evaluations + 1,
        values=values,
        at_bounds=at_bounds if status == "at a bound" else (),
    )


def _find_bounds(problem: Problem, point: Array) -> tuple[AtBound, ...]:
    """Return the parameters that stand at a bound; a lower one that stands for zero is none."""
    names = [*problem.objective.layout.free_paths(), "noise"]
    vanishing = [*may_vanish(problem.objective.layout), False]
    return tuple(
        AtBound(names[i], "lower" if point[i] <= low else "upper")
        for i, (low, high) in enumerate(problem.bounds)
        if (point[i] <= low and not vanishing[i]) or point[i] >= high
    )


def _status(best: Run, at_bounds: Sequence[AtBound], interrupted: bool) -> tuple[Status, str]:
    if interrupted:
        return "interrupted", "stopped on request; this is the best of the starts that were finished"
    if not best.converged:
        return "stopped", f"not converged after {best.evaluations} evaluations; allow more iterations"
    if at_bounds:
        return "at a bound", "the optimum lies at a bound of the search: " + ", ".join(map(str, at_bounds))
    return "converged", "converged"
