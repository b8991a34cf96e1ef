"""How a target follows from the function f: a value that travels with the kernel's values.

An engine names the likelihoods that it can work with (`Engine.likelihoods`) and refuses others; to add one, write its
class here and an engine that names it. Engines that it does not concern stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from scipy.special import gammaln

from mercer.kernels.domains import Array

LOG_2_PI = math.log(2.0 * math.pi)


class Likelihood(Protocol):
    """p(y | f) for each row, given f there."""

    name: ClassVar[str]

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw a target for each value of the function."""


@dataclass(frozen=True)
class Gaussian:
    """y = f + noise: independent for each row, of one variance."""

    noise: float

    name: ClassVar[str] = "Gaussian"

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        return np.asarray(f + np.sqrt(self.noise) * rng.standard_normal(np.shape(f)))


GAUSSIAN_ONLY: tuple[type[Likelihood], ...] = (Gaussian,)


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
