"""A Gaussian process over kernels, or over any points with a metric, and where to look next (KFO 3.2, appendix A.1).

    k(K1, K2) = s^2 exp(-|K1 - K2|^2 / 2 l^2)                                                    (KFO 6)
    u(K) = mean + sqrt(beta_t) std,   beta_t = 2 log(t^(2 + n/2) pi^2 / 3 delta)                 (KFO 2 and 3.2)

n is the number of kernels observed so far, t the step. All observations stay in it, also those of earlier subspaces.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtr

from mercer.kernels.domains import Array
from mercer.linalg.factor import Factor, Failure, factorise

Acquisition = Literal["ucb", "ei"]

DELTA = 0.1
LENGTHS = np.geomspace(0.1, 10.0, 13)  # of the median distance between observations
NOISES = (1e-6, 1e-3, 1e-2, 1e-1, 0.5)  # shares of the variance of the observations


def printed_beta(step: int, observed: int, delta: float = DELTA) -> float:
    """Return beta_t as the paper prints it, 2 log(t^(2 + n/2) pi^2 / 3 delta), without overflow."""
    return 2.0 * ((2.0 + observed / 2.0) * math.log(max(step, 1)) + math.log(math.pi**2 / (3.0 * delta)))


@dataclass(frozen=True, eq=False)
class Surrogate:
    """Posterior of the objective over points (rows), after its lengthscale and noise were chosen by evidence."""

    points: Array
    metric: Array
    length: float
    noise: float
    factor: Factor
    weights: Array
    level: float
    spread: float

    def predict(self, points: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation of the objective (without noise)."""
        cross = np.exp(-_squares(points, self.points, self.metric) / (2.0 * self.length**2))
        half = self.factor.half_solve(cross.T)
        variance = np.maximum(1.0 - np.einsum("ij,ij->j", half, half), 1e-12)
        return self.level + self.spread * (cross @ self.weights), self.spread * np.sqrt(variance)


def _squares(left: Array, right: Array, metric: Array) -> Array:
    root = np.sqrt(metric)
    difference = (left * root)[:, None, :] - (right * root)[None, :, :]
    return np.asarray((difference**2).sum(axis=2))


def surrogate(points: Array, values: Array, metric: Array) -> Surrogate:
    """Fit the process to what was observed; the lengthscale and the noise maximise the evidence on a small grid."""
    level, spread = float(values.mean()), float(values.std()) or 1.0
    target = (values - level) / spread
    squares = _squares(points, points, metric)
    typical = math.sqrt(float(np.median(squares[squares > 0]))) if (squares > 0).any() else 1.0
    best: tuple[float, float, float, Factor] | None = None
    for length in LENGTHS * typical:
        matrix = np.exp(-squares / (2.0 * length**2))
        for noise in NOISES:
            factor = factorise(matrix.copy, noise)
            if isinstance(factor, Failure):
                continue
            fit = -0.5 * float(target @ factor.solve(target)) - 0.5 * factor.log_determinant()
            if best is None or fit > best[0]:
                best = (fit, float(length), noise, factor)
    assert best is not None, "a Gram matrix with half its variance as noise can be factorised"
    _, length, noise, factor = best
    return Surrogate(points, metric, length, noise, factor, factor.solve(target), level, spread)


def acquired(model: Surrogate, points: Array, best: float, step: int, kind: Acquisition) -> Array:
    """Return how much each point is worth looking at."""
    mean, std = model.predict(points)
    if kind == "ucb":
        return np.asarray(mean + math.sqrt(printed_beta(step, len(model.points))) * std)
    z = (mean - best) / std
    return np.asarray((mean - best) * ndtr(z) + std * np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi))


def possible_gain(model: Surrogate, points: Array, best: float) -> float:
    """Return by how much the best of the points may exceed the best observation: mean + 2 std, the simple regret."""
    mean, std = model.predict(points)
    return float((mean + 2.0 * std).max()) - best
