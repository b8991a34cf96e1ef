"""Where to try next (METHODS 10).

With an additive posterior f = sum of f_g(x_g) the lower confidence bound m_g - beta s_g is minimised group by group, in
one to three dimensions each, so that one trial explores every group. beta is drawn anew for every trial, exponentially:
mostly small, sometimes large (a randomised bound; Berk et al. 2020). Without such parts the logarithm of the expected
improvement (Ament et al. 2023) is maximised over all inputs by its gradient, from many starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import log_ndtr, ndtr

from mercer.fitting.minimise import ONE_THREAD_BELOW
from mercer.kernels.domains import Array
from mercer.linalg.threads import one_thread
from mercer.optimise.space import Space
from mercer.optimise.surrogate import FunctionModel, Part

LOG_ROOT_2_PI = 0.5 * math.log(2.0 * math.pi)
SMALLEST_SPREAD = 1e-7  # of a standardised function: below, its value counts as known
Method = Literal["bounds by group", "expected improvement", "random"]


@dataclass(frozen=True)
class AcquisitionPolicy:
    """How an acquisition is optimised."""

    most_inputs: int = 3  # of a group that is searched on its own
    grid: int = 300  # points of one input
    candidates: int = 600  # for each input of a group of several
    rounds: int = 8  # random steps around the best candidates, each round half as wide
    points: int = 20  # around each of them
    beta: float = 1.0  # mean of the exponential
    near: float = 0.03  # of a row tried: nearer proposals gain digits only, and beta is widened ...
    polish: float = 0.25  # ... but for this share of trials, which are for the digits
    widening: float = 2.0
    widenings: int = 5
    starts: int = 8  # of the gradient ascent
    iterations: int = 100
    screened: int = 500  # random rows from which they are taken
    around: int = 5  # best trials around which more are drawn
    tried_again: float = 1e-7  # rows nearer than this, in every column, are the same trial


@dataclass(frozen=True, eq=False)
class Proposal:
    """A row to try, how it was found, and what is expected of it (units of the surrogate)."""

    row: Array
    method: Method
    mean: float
    spread: float


@dataclass(frozen=True, eq=False)
class ProposalTask:
    """What a proposal is made for."""

    surrogate: FunctionModel
    space: Space
    best: Array  # the row of the incumbent
    best_value: float  # of the surrogate there
    rng: np.random.Generator
    policy: AcquisitionPolicy

    @property
    def tried(self) -> Array:
        """The rows that were tried."""
        return self.surrogate.data.X

    def distance(self, row: Array) -> float:
        """Return how far a row is from the nearest one tried, by the column that differs most."""
        return float(np.abs(self.tried - row).max(axis=1).min())

    def is_new(self, row: Array) -> bool:
        """Tell whether a row has not been tried."""
        return self.distance(row) > self.policy.tried_again

    def best_rows(self, count: int) -> Array:
        """Return the best rows tried."""
        return np.asarray(self.tried[np.argsort(self.surrogate.data.y)[:count]])


def propose(task: ProposalTask) -> Proposal:
    """Return the next row to try."""
    with one_thread(when=len(task.tried) < ONE_THREAD_BELOW):
        return _propose(task)


def _propose(task: ProposalTask) -> Proposal:
    policy, parts = task.policy, task.surrogate.parts
    small = parts and max(len(part.inputs) for part in parts) <= policy.most_inputs
    if small and task.space.constraints is None:
        beta = float(task.rng.exponential(policy.beta))
        least = policy.tried_again if task.rng.uniform() < policy.polish else policy.near
        scans = [scan_group(task, part) for part in parts]
        first = bound_by_group(task, scans, beta)
        row = first if task.distance(first) > least else _widen(task, scans, beta, least)
        if row is not None:
            return _expect(task, row, "bounds by group")
        # Nothing is uncertain: half of the trials gain digits, the others find out whether the surrogate is right.
        if task.is_new(first) and task.rng.uniform() < 0.5:
            return _expect(task, first, "bounds by group")
    row = improve_expected(task)
    if task.is_new(row):
        return _expect(task, row, "expected improvement")
    return _choose_new(task, row)


def _choose_new(task: ProposalTask, known: Array) -> Proposal:
    """Return a row that is new: of few the one with the largest expected improvement; where none is, the known one."""
    listed = task.space.list_rows()
    drawn = task.space.sample(200, task.rng) if listed is None else listed
    new = np.array([row for row in drawn if task.is_new(row)])
    if not len(new):
        return _expect(task, known, "expected improvement")
    return _expect(task, new[0 if listed is None else int(np.argmax(_value_of(task)(new)))], "random")


def _expect(task: ProposalTask, row: Array, method: Method) -> Proposal:
    found = task.surrogate.predict(row[None])
    return Proposal(row, method, float(found.mean[0]), math.sqrt(max(0.0, float(found.variance[0]))))


# ---------------------------------------------------------------------------------------------------- group by group


@dataclass(frozen=True, eq=False)
class GroupScan:
    """Places of one group with the mean and the spread of its part there: where the search for any bound begins."""

    part: Part
    places: Array
    mean: Array
    spread: Array
    width: float  # of the first steps around the best of them
    rounds: int  # of such steps; none where these are all places


def scan_group(task: ProposalTask, part: Part) -> GroupScan:
    """Look at all levels of a group, at a grid, or at random places; and at those of the best trials."""
    policy, columns = task.policy, list(part.columns)
    one = len(part.inputs) == 1
    levels = task.space.levels(part.inputs[0]) if one else None
    if levels is not None:
        return GroupScan(part, levels, *_predict_places(task, part, levels), 0.0, 0)
    if one:
        places, width, rounds = np.linspace(0.0, 1.0, policy.grid)[:, None], 0.5 / policy.grid, 2
    else:
        places = task.rng.uniform(size=(policy.candidates * len(columns), len(columns)))
        width, rounds = 0.1, policy.rounds
    places = _snap(task, columns, np.concatenate([places, task.best_rows(50)[:, columns]]))
    return GroupScan(part, places, *_predict_places(task, part, places), width, rounds)


def _predict_places(task: ProposalTask, part: Part, places: Array) -> tuple[Array, Array]:
    """Return mean and spread of a part; the other inputs are those of the best row."""
    found = task.surrogate.predict_part(part, _fill(task, list(part.columns), places))
    return found.mean, np.sqrt(found.variance)


def bound_by_group(task: ProposalTask, scans: Sequence[GroupScan], beta: float) -> Array:
    """Return the row whose groups each have their least m_g - beta s_g; inputs of no group stay at the best row."""
    row = task.best.copy()
    for scan in scans:
        row[list(scan.part.columns)] = _lowest_bound(task, scan, beta)
    return np.asarray(task.space.snap(row[None])[0])


def _lowest_bound(task: ProposalTask, scan: GroupScan, beta: float) -> Array:
    """Return the columns of a group at its least bound: the best places of the scan, then steps around them."""
    columns, places, width = list(scan.part.columns), scan.places, scan.width
    values = scan.mean - beta * scan.spread
    for _ in range(scan.rounds):
        top = places[np.argsort(values)[:8]]
        steps = np.repeat(top, task.policy.points, axis=0)
        steps = _snap(task, columns, steps + width * task.rng.standard_normal(steps.shape))
        places, width = np.concatenate([top, steps]), 0.5 * width
        mean, spread = _predict_places(task, scan.part, places)
        values = mean - beta * spread
    return np.asarray(places[np.argmin(values)])


def _widen(task: ProposalTask, scans: Sequence[GroupScan], beta: float, least: float) -> Array | None:
    """Return the row of the least wider bound that is so far from all tried; None where that of the widest is not.

    By bisection: where all is known the widest says so at once.
    """
    policy = task.policy
    betas = [max(beta, policy.beta) * policy.widening**k for k in range(1, policy.widenings + 1)]
    found, low, high = None, 0, len(betas) - 1
    place = high
    while low <= high:
        row = bound_by_group(task, scans, betas[place])
        if task.distance(row) > least:
            found, high = row, place - 1
        elif found is None:
            return None
        else:
            low = place + 1
        place = (low + high) // 2
    return found


def _fill(task: ProposalTask, columns: list[int], places: Array) -> Array:
    rows = np.tile(task.best, (len(places), 1))
    rows[:, columns] = places
    return rows


def _snap(task: ProposalTask, columns: list[int], places: Array) -> Array:
    return np.asarray(task.space.snap(_fill(task, columns, places))[:, columns])


# ----------------------------------------------------------------------------------------------- expected improvement


def log_expected_improvement(mean: Array, spread: Array, best: float) -> Array:
    """Return log E[max(best - f, 0)] = log s + log(phi(u) + u Phi(u)), u = (best - m) / s, for any u."""
    u = (best - mean) / spread
    result = np.empty_like(u)
    near = u > -1.0
    result[near] = np.log(np.exp(-0.5 * u[near] ** 2 - LOG_ROOT_2_PI) + u[near] * ndtr(u[near]))
    far = u[~near]
    ratio = np.abs(far) * np.exp(log_ndtr(far) + 0.5 * far**2 + LOG_ROOT_2_PI)  # |u| Phi / phi, just below 1
    tail = np.where(far < -1e3, -2.0 * np.log(np.abs(far)), np.log1p(-np.minimum(ratio, 1.0 - 1e-15)))
    result[~near] = -0.5 * far**2 - LOG_ROOT_2_PI + tail
    return np.asarray(result + np.log(spread))


def improve_expected(task: ProposalTask) -> Array:
    """Return the row with the largest expected improvement found."""
    rows, space = _screen(task), task.space
    if space.constraints is not None:
        return _climb_inside(task, rows)
    values = _value_of(task)(rows)
    order = np.argsort(-values)
    half = task.policy.starts // 2
    chosen = [*order[:half], *task.rng.choice(order[:100], size=task.policy.starts - half, replace=False)]
    climbed = _climb(task, rows[chosen])
    finished = np.concatenate([space.snap(climbed), rows[order[:1]]])
    row = finished[int(np.argmax(_value_of(task)(finished)))]
    return _try_levels(task, row)


def _value_of(task: ProposalTask) -> Callable[[Array], Array]:
    def value(rows: Array) -> Array:
        found = task.surrogate.predict(rows)
        spread = np.sqrt(np.maximum(found.variance, SMALLEST_SPREAD**2))
        return log_expected_improvement(found.mean, spread, task.best_value)

    return value


def _screen(task: ProposalTask) -> Array:
    """Draw rows: everywhere, around the best trials in some inputs, and very near them."""
    rng, policy, space = task.rng, task.policy, task.space
    best = task.best_rows(policy.around)
    wide = np.repeat(best, 60, axis=0)
    some = rng.uniform(size=wide.shape) < max(0.3, 2.0 / space.width)
    near = np.repeat(best, 20, axis=0)
    drawn = np.concatenate([
        wide + 0.1 * some * rng.standard_normal(wide.shape),
        near + 1e-3 * rng.standard_normal(near.shape),
    ])  # fmt: skip
    drawn = space.snap(drawn)
    return np.concatenate([space.sample(policy.screened, rng), drawn[space.satisfies(drawn)]])


def _climb(task: ProposalTask, starts: Array) -> Array:
    """Ascend from all starts at once: they share no variable, so one L-BFGS-B of their sum serves them all."""
    from scipy.optimize import minimize

    def loss(point: Array) -> tuple[float, Array]:
        rows = point.reshape(starts.shape)
        found, by_mean, by_variance = task.surrogate.predict_slopes(rows)
        spread = np.sqrt(np.maximum(found.variance, SMALLEST_SPREAD**2))
        values = log_expected_improvement(found.mean, spread, task.best_value)
        u = (task.best_value - found.mean) / spread
        toward_mean = -np.exp(log_ndtr(u) - values)
        toward_spread = np.exp(-0.5 * u**2 - LOG_ROOT_2_PI - values)
        slope = toward_mean[:, None] * by_mean + (0.5 * toward_spread / spread)[:, None] * by_variance
        return -float(values.sum()), -slope.ravel()

    limits = {"maxiter": task.policy.iterations, "maxcor": 20}
    result = minimize(
        loss, starts.ravel(), jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * starts.size, options=limits
    )
    return np.asarray(result.x).reshape(starts.shape)


def _try_levels(task: ProposalTask, row: Array) -> Array:
    """Try all levels of each discrete input in turn, the rest as it is."""
    value = _value_of(task)
    for i, columns in enumerate(task.space.columns):
        levels = task.space.levels(i)
        if levels is not None:
            rows = np.tile(row, (len(levels), 1))
            rows[:, list(columns)] = levels
            row = rows[int(np.argmax(value(rows)))]
    return row


def _climb_inside(task: ProposalTask, rows: Array) -> Array:
    """Take random steps around the best rows that satisfy the constraints, each round half as wide."""
    value, space, width = _value_of(task), task.space, 0.2
    values = value(rows)
    for _ in range(2 * task.policy.rounds):
        top = rows[np.argsort(-values)[: task.policy.starts]]
        steps = np.repeat(top, task.policy.points, axis=0)
        steps = space.snap(steps + width * task.rng.standard_normal(steps.shape))
        rows = np.concatenate([top, steps[space.satisfies(steps)]])
        values, width = value(rows), 0.7 * width
    return np.asarray(rows[int(np.argmax(values))])
