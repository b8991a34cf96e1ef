"""Averaging kernels: weights by the evidence within the data, and by a rolling origin beyond it.

How well does a kernel forecast the next stretch of a series, refitted on what came before? The evidence chooses a good
interpolator, not always a good forecaster (METHODS 3). Each finalist is refitted on the first part of the rows, from
its optimum on, and predicts the stretch that follows; several origins, one score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp

from mercer.compute.program import compile_program
from mercer.errors import NumericalError
from mercer.fitting.newton import descend
from mercer.fitting.problem import Fit, FitOptions, Problem, prepare
from mercer.fitting.starts import LearnedPrior
from mercer.inference.contract import Data, Engine
from mercer.inference.likelihood import LOG_2_PI
from mercer.kernels.blend import Blend
from mercer.kernels.domains import Array
from mercer.kernels.expression import contains
from mercer.learners.contract import Weights, share_beyond
from mercer.linalg.threads import one_thread

Rows = NDArray[np.intp]

HORIZON = 1.0 / 9.0  # of the range: forecasting a tenth of the whole from the other nine
ORIGINS = 4
REFIT_ITERATIONS = 10  # from the optimum on all rows, which is near
LEAST = 10  # rows to refit on
HOPELESS = 1.0  # this much worse in mean log density than the best forecast: out
STRENGTH = 0.3  # rows that the prior counts for, for each finalist: neighbouring rows of a forecast say the same
WILD = 10.0  # a kernel is wild whose variance half-way between two rows is this many times that at them
UNLIKELY = 1e-3  # a weight by evidence below which a wild kernel is not forecast with
SOME = 0.1  # of all weight by evidence, that kernels with a change need together to be forecast with
WIDEST = 25.0  # bands five times as wide: more means that the kernel cannot forecast at all, and its weight says so


def begin_again(
    fit: Fit, data: Data, engine: Engine, priors: bool | LearnedPrior = False, known_noise: bool = False
) -> tuple[Problem, Array]:
    """Return the problem of fitting the kernel to other rows, and the old optimum as its start."""
    options = FitOptions(priors=priors, noise=fit.noise if known_noise else None)
    problem = prepare(fit.expression, data, engine, options)
    return problem, problem.point(fit.values, fit.likelihood)


def refit(fit: Fit, data: Data, engine: Engine, iterations: int) -> Fit:
    """Fit a finished kernel to other rows, from its optimum on, which is near the new one."""
    with one_thread():
        problem, start = begin_again(fit, data, engine)
        (run,) = descend(problem, [start], iterations)
        return problem.conclude([run], run.point, fit.evaluations)


@dataclass(frozen=True, eq=False)
class ForecastErrors:
    """Error and variance of one finalist at every row that some origin forecasts, and how far beyond that row is."""

    error: Array
    variance: Array
    beyond: Array | float = 1.0  # `share_beyond` of every row
    wild: bool = False  # sure of itself at the rows, and of nothing between them
    foreknown: bool = False  # with a change, whose place was fitted to all rows: no origin before it could know it

    @property
    def log_density(self) -> Array:
        """The log predictive density of every row."""
        return log_density(self.error, self.variance)

    @property
    def score(self) -> float:
        """Mean log density; larger is better."""
        return float(self.log_density.mean()) if len(self.error) else -math.inf

    @property
    def widening(self) -> float:
        """By how much variances beyond must grow for errors to be as large as the forecasts said: mean e^2 / v = 1."""

        def surprise(widening: float) -> float:
            return float(np.mean(self.error**2 / self._widen(widening)))

        if not len(self.error) or surprise(1.0) <= 1.0:
            return 1.0
        if surprise(WIDEST) >= 1.0:
            return WIDEST
        return float(brentq(lambda widening: surprise(widening) - 1.0, 1.0, WIDEST))

    def _widen(self, widening: float) -> Array:
        return self.variance * (1.0 + (widening - 1.0) * self.beyond)

    def widen(self) -> ForecastErrors:
        """Return the forecasts with variances that own up to their errors."""
        return replace(self, variance=self._widen(self.widening))


def stretches(column: Array, origins: int = ORIGINS, horizon: float = HORIZON) -> list[tuple[Rows, Rows]]:
    """Return (rows before, rows of the next stretch) for each origin, the latest origin first."""
    low, span = float(column.min()), float(np.ptp(column))
    parts = []
    for step in range(1, origins + 1):
        start = low + span * (1.0 - step * horizon)
        end = start + span * horizon
        before = np.flatnonzero(column <= start)
        after = np.flatnonzero((column > start) & (column <= end + 1e-9 * span))
        if len(before) >= LEAST and len(after):
            parts.append((before, after))
    return parts


def forecast(
    fit: Fit, data: Data, engine: Engine, column: int, priors: bool | LearnedPrior = False, known_noise: bool = False,
    until: float | None = None,
) -> ForecastErrors:  # fmt: skip
    """Refit at every origin, with weak or learned priors if asked, and predict the stretch that follows.

    known_noise : the noise of the fit was given, and stays. until : when parameters stop to move, by `time.time()`.
    """
    errors, variances, beyond, wild = [], [], [], False
    with one_thread():
        for before, after in stretches(data.X[:, column]):
            past, rows = data.take(before), data.X[after]
            ordered = rows[np.argsort(rows[:, column], kind="stable")]
            between = (ordered[1:] + ordered[:-1]) / 2.0
            problem, start = begin_again(fit, past, engine, priors, known_noise)
            (run,) = descend(problem, [start], REFIT_ITERATIONS, until=until)
            values, likelihood = problem.split(run.point)
            found = engine.posterior(problem.program, values, likelihood, past).predict(np.vstack([rows, between]))
            mean, variance = found.mean, found.variance + likelihood.noise
            count = len(rows)
            errors.append(data.y[after] - mean[:count])
            variances.append(variance[:count])
            if len(between):
                wild |= bool(np.median(variance[count:]) > WILD * np.median(variance[:count]))
            along = past.X[:, column]
            beyond.append(share_beyond(data.X[after, column] - along.max(), float(np.ptp(along))))
    if not errors:
        return ForecastErrors(np.empty(0), np.empty(0))
    foreknown = contains(fit.expression, Blend)
    return ForecastErrors(np.concatenate(errors), np.concatenate(variances), np.concatenate(beyond), wild, foreknown)


def forecast_tails(forecasts: list[ForecastErrors], weights: Array) -> float:
    """Return how heavy the tails of the errors of the weighed forecasts are (`inverse_freedom`).

    Some origins are foreseen well and others not at all: pooled, their errors are many small ones and a few large.
    """
    errors = np.array([f.error for f in forecasts])
    variances = np.array([f.variance for f in forecasts])

    def likelihood(inverse: float) -> float:
        return float(logsumexp(student_log_density(errors, variances, inverse), b=weights[:, None], axis=0).sum())

    return inverse_freedom(likelihood, clear=0.0)


def leave_out(fit: Fit, data: Data, engine: Engine) -> ForecastErrors | None:
    """Predict every row from the others; None where that cannot be computed."""
    try:
        with one_thread():
            posterior = engine.posterior(compile_program(fit.expression), fit.values, fit.likelihood, data)
            left = posterior.leave_one_out()
    except NumericalError:
        return None
    return ForecastErrors(data.y - left.mean, left.variance)


def stack_weights(
    forecasts: list[ForecastErrors], strength: float = STRENGTH, hopeless: float = HOPELESS, steps: int = 200
) -> Array:
    """Return the weights of a mixture of the finalists that forecasts best: maximises sum_t log sum_i w_i p_i(y_t).

    A Dirichlet prior with `strength` pseudo-counts for each finalist keeps weights off zero; solved by expectation
    maximisation (each step multiplies a weight by its mean responsibility). A finalist whose forecasts are `hopeless`
    beside the best ones gets nothing: the prior alone would let it widen a clean forecast.
    """
    scores = np.array([f.score for f in forecasts])
    pseudo = np.where(scores >= scores.max() - hopeless, strength, 0.0)
    density = np.array([f.log_density for f in forecasts])
    density = np.exp(np.maximum(density - density.max(axis=0), -50.0))
    weights = pseudo / pseudo.sum()
    for _ in range(steps):
        shares = weights[:, None] * density
        shares /= shares.sum(axis=0)
        weights = shares.sum(axis=1) + pseudo
        weights /= weights.sum()
    return np.asarray(weights)


def weigh(scores: Sequence[float], forecasts: list[ForecastErrors] | None, column: int | None) -> Weights:
    """Return the weights of kernels: exp(-score / 2) within the data, by forecasts (if there are any) beyond it."""
    within = np.exp(-0.5 * (np.array(scores) - min(scores)))
    within = within / within.sum()
    if forecasts is None or not len(forecasts[0].error):
        return Weights(tuple(map(float, within)), tuple(map(float, within)), (1.0,) * len(scores))
    # A period of a few steps can fit every row by chance, and swing between them: the evidence must speak for it.
    # A change that is known beforehand forecasts well whether it is one or not: the evidence must speak for that too.
    changes = sum(weight for f, weight in zip(forecasts, within, strict=True) if f.foreknown) > SOME
    trusted = [
        (not f.wild or weight > UNLIKELY) and (not f.foreknown or changes)
        for f, weight in zip(forecasts, within, strict=True)
    ]
    return weigh_forecasts(within, forecasts, column, trusted)


def weigh_forecasts(
    within: Array, forecasts: list[ForecastErrors], column: int | None, trusted: Sequence[bool] | None = None
) -> Weights:
    """Return the weights of kernels within the data and, by the forecasts of those that are trusted, beyond it."""
    widened, chosen = [f.widen() for f in forecasts], np.array(trusted or [True] * len(forecasts))
    beyond = np.zeros(len(forecasts))
    beyond[chosen] = stack_weights([f for f, good in zip(widened, chosen, strict=True) if good])
    tails, widening = forecast_tails(widened, beyond), tuple(f.widening for f in forecasts)
    return Weights(tuple(map(float, within)), tuple(map(float, beyond / beyond.sum())), widening, column, tails)


# ------------------------------------------------------------------------------------------------ densities of errors


def log_density(error: Array, variance: Array) -> Array:
    """Return log N(error | 0, variance)."""
    return -0.5 * (LOG_2_PI + np.log(variance) + error**2 / variance)


# Real data hold a wrong entry here and a rare event there, and a Gaussian that has not seen one calls it impossible.
# Errors are described by Student's t with the variance v that was predicted, so that bands and standard deviations stay
# what they are: with n degrees of freedom, its scale is sqrt(v (n - 2) / n), and the Gaussian is its limit.
FREEDOMS = (3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 30.0)  # degrees of freedom that are tried
CLEAR = 3.0  # by how much the log likelihood must grow for tails to be called heavy


def student_log_density(error: Array, variance: Array, inverse: Array | float) -> Array:
    """Return the log density of errors under Student's t of that variance; `inverse` of its degrees of freedom.

    log t = lgamma((n+1)/2) - lgamma(n/2) - log(pi (n-2) v)/2 - (n+1)/2 log(1 + e^2 / ((n-2) v)); Gaussian at 1/n = 0.
    """
    inverse = np.broadcast_to(np.asarray(inverse, dtype=np.float64), np.broadcast_shapes(error.shape, variance.shape))
    freedom = 1.0 / np.maximum(inverse, 1e-4)
    spread = (freedom - 2.0) * variance
    heavy = (
        gammaln((freedom + 1.0) / 2.0) - gammaln(freedom / 2.0) - 0.5 * np.log(math.pi * spread)
        - (freedom + 1.0) / 2.0 * np.log1p(error**2 / spread)
    )  # fmt: skip
    return np.where(inverse > 1e-4, heavy, log_density(error, variance))


def inverse_freedom(likelihood: Callable[[float], float], clear: float = CLEAR) -> float:
    """Return one over the degrees of freedom with the largest log likelihood; 0, a Gaussian, unless it is `clear`."""
    scores = {1.0 / freedom: likelihood(1.0 / freedom) for freedom in FREEDOMS}
    best = max(scores, key=lambda inverse: scores[inverse])
    return best if scores[best] > likelihood(0.0) + clear else 0.0
