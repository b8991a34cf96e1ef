"""Rolling origin: how well does a kernel forecast the next stretch of a series, refitted on what came before?

The evidence chooses a good interpolator, not always a good forecaster (METHODS 3). Here each finalist is refitted on
the first part of the rows, from its optimum on, and predicts the stretch that follows; several origins, one score.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer.evaluate.program import compile_program
from mercer.fitting.optimise import FAILED_VALUE, Fit, FitOptions, optimise, prepare
from mercer.inference.contract import Data, Engine
from mercer.kernels.domains import Array
from mercer.linalg.threads import one_thread

Rows = NDArray[np.intp]

HORIZON = 1.0 / 9.0  # of the range: forecasting a tenth of the whole from the other nine
ORIGINS = 4
REFIT_ITERATIONS = 40
LEAST = 10  # rows to refit on


@dataclass(frozen=True, eq=False)
class Forecasts:
    """Log predictive density and error of one finalist at every row that some origin forecasts."""

    log_density: Array
    error: Array

    @property
    def score(self) -> float:
        """Mean log density; larger is better."""
        return float(self.log_density.mean()) if len(self.log_density) else -math.inf


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


def forecast(fit: Fit, data: Data, engine: Engine, column: int) -> Forecasts:
    """Refit at every origin and predict the stretch that follows."""
    densities, errors = [], []
    with one_thread():
        for before, after in stretches(data.X[:, column]):
            past = Data(data.X[before], data.y[before])
            mean, variance = _predicted(fit, past, engine, data.X[after])
            error = data.y[after] - mean
            densities.append(-0.5 * (np.log(2 * math.pi * variance) + error**2 / variance))
            errors.append(error)
    if not densities:
        return Forecasts(np.empty(0), np.empty(0))
    return Forecasts(np.concatenate(densities), np.concatenate(errors))


def _predicted(fit: Fit, past: Data, engine: Engine, X: Array) -> tuple[Array, Array]:
    """Mean and variance (with noise) of a finalist refitted on the past; the past's own level is taken out first."""
    level = float(past.y.mean())
    centred = Data(past.X, past.y - level)
    problem = prepare(fit.expression, centred, engine, FitOptions())
    point = np.append(problem.objective.layout.to_free(fit.values), math.log(fit.noise))
    point = np.clip(point, problem.bounds[:, 0], problem.bounds[:, 1])
    run = optimise(problem, point, REFIT_ITERATIONS)
    values, noise = problem.objective.split(run.point if run.value < FAILED_VALUE else point)
    posterior = engine.posterior(compile_program(fit.expression), values, noise, centred)
    prediction = posterior.predict(X)
    return prediction.mean + level, prediction.variance + noise


def stacked_weights(forecasts: list[Forecasts], prior: Array, strength: float = 1.0, steps: int = 200) -> Array:
    """Return the weights of a mixture of the finalists that forecasts best: maximises sum_t log sum_i w_i p_i(y_t).

    A Dirichlet prior with mean `prior` and `strength` pseudo-counts for each finalist keeps weights off zero; solved by
    expectation maximisation (each step multiplies a weight by its mean responsibility).
    """
    density = np.array([f.log_density for f in forecasts])
    density = np.exp(np.maximum(density - density.max(axis=0), -50.0))
    weights = prior / prior.sum()
    pseudo = strength * len(prior) * prior / prior.sum()
    for _ in range(steps):
        shares = weights[:, None] * density
        shares /= shares.sum(axis=0)
        weights = shares.sum(axis=1) + pseudo
        weights /= weights.sum()
    return np.asarray(weights)
