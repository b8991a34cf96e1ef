"""Where to try next, over all inputs jointly: a criterion of mean and spread is maximised, or a function drawn.

The expected improvement is maximised by its logarithm (Ament et al. 2023), by its gradient, from many starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import log_ndtr, ndtr

from mercer.kernels.domains import Array
from mercer.optimise.proposal import ProposalTask

LOG_ROOT_2_PI = 0.5 * math.log(2.0 * math.pi)
SMALLEST_SPREAD = 1e-7  # of a standardised function: below, its value counts as known
# Of mean and spread: its values, and their slopes by the mean and by the spread.
Criterion = Callable[[Array, Array], tuple[Array, Array, Array]]


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


def expect_improvement(best: float) -> Criterion:
    """Return the logarithm of the expected improvement on a value."""

    def measure(mean: Array, spread: Array) -> tuple[Array, Array, Array]:
        values, u = log_expected_improvement(mean, spread, best), (best - mean) / spread
        return values, -np.exp(log_ndtr(u) - values), np.exp(-0.5 * u**2 - LOG_ROOT_2_PI - values)

    return measure


def bound_below(beta: float) -> Criterion:
    """Return minus the lower confidence bound, beta s - m."""

    def measure(mean: Array, spread: Array) -> tuple[Array, Array, Array]:
        return beta * spread - mean, np.full_like(mean, -1.0), np.full_like(mean, beta)

    return measure


def maximise(task: ProposalTask, criterion: Criterion) -> Array:
    """Return the row with the largest value found of a criterion, over all inputs jointly."""
    rows, space = screen(task), task.space
    if space.constraints is not None:
        return _climb_inside(task, criterion, rows)
    values = value_rows(task, criterion, rows)
    order = np.argsort(-values)
    half = task.policy.starts // 2
    chosen = [*order[:half], *task.rng.choice(order[:100], size=task.policy.starts - half, replace=False)]
    climbed = _climb(task, criterion, rows[chosen])
    finished = np.concatenate([space.snap(climbed), rows[order[:1]]])
    row = finished[int(np.argmax(value_rows(task, criterion, finished)))]
    return _try_levels(task, criterion, row)


def sample_jointly(task: ProposalTask) -> Array:
    """Return, of rows that are allowed, that where one function drawn from the posterior is least."""
    rows = screen(task)
    found, most = task.surrogate.predict(rows), max(task.policy.betas)
    kept = rows[np.argsort(found.mean - most * np.sqrt(found.variance))[: task.policy.sampled]]
    drawn = task.surrogate.sample(kept, 1, task.rng)
    return np.asarray(kept[0 if drawn is None else int(np.argmin(drawn[:, 0]))])


def value_rows(task: ProposalTask, criterion: Criterion, rows: Array) -> Array:
    """Return a criterion at rows."""
    found = task.surrogate.predict(rows)
    return criterion(found.mean, np.sqrt(np.maximum(found.variance, SMALLEST_SPREAD**2)))[0]


def screen(task: ProposalTask) -> Array:
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
    return np.concatenate([space.sample(policy.screened, rng), space.legalise(drawn)])


def _climb(task: ProposalTask, criterion: Criterion, starts: Array) -> Array:
    """Ascend from all starts at once: they share no variable, so one L-BFGS-B of their sum serves them all."""
    from scipy.optimize import minimize

    def loss(point: Array) -> tuple[float, Array]:
        rows = point.reshape(starts.shape)
        found, by_mean, by_variance = task.surrogate.predict_slopes(rows)
        spread = np.sqrt(np.maximum(found.variance, SMALLEST_SPREAD**2))
        values, toward_mean, toward_spread = criterion(found.mean, spread)
        slope = toward_mean[:, None] * by_mean + (0.5 * toward_spread / spread)[:, None] * by_variance
        return -float(values.sum()), -slope.ravel()

    limits = {"maxiter": task.policy.iterations, "maxcor": 20}
    result = minimize(
        loss, starts.ravel(), jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * starts.size, options=limits
    )
    return np.asarray(result.x).reshape(starts.shape)


def _try_levels(task: ProposalTask, criterion: Criterion, row: Array) -> Array:
    """Try all levels of each discrete input in turn, the rest as it is."""
    for i, columns in enumerate(task.space.columns):
        levels = task.space.levels(i)
        if levels is not None:
            rows = np.tile(row, (len(levels), 1))
            rows[:, list(columns)] = levels
            row = rows[int(np.argmax(value_rows(task, criterion, rows)))]
    return row


def _climb_inside(task: ProposalTask, criterion: Criterion, rows: Array) -> Array:
    """Take random steps around the best rows that satisfy the constraints, each round half as wide."""
    space, width = task.space, 0.2
    values = value_rows(task, criterion, rows)
    for _ in range(2 * task.policy.rounds):
        top = rows[np.argsort(-values)[: task.policy.starts]]
        steps = np.repeat(top, task.policy.points, axis=0)
        rows = np.concatenate([top, space.legalise(steps + width * task.rng.standard_normal(steps.shape))])
        values, width = value_rows(task, criterion, rows), 0.7 * width
    return np.asarray(rows[int(np.argmax(values))])
