"""What is foreseen: at every time to come a mixture of Student's t distributions, each on its member's scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtr, stdtrit

from mercer.forecast.scales import Scale
from mercer.kernels.domains import Array

HALVINGS = 60  # of the interval between the quantiles of the members: to the last digit


@dataclass(frozen=True, eq=False)
class Part:
    """One member's forecast: middle and standard deviation on its scale at every time, and its weight."""

    scale: Scale
    middle: Array
    deviation: Array
    weight: float


@dataclass(frozen=True, eq=False)
class Mixture:
    """The weighted forecasts of all members; `freedom` of Student's t, scaled to the standard deviation.

    What the members foresee below `floor` comes as the floor: a count that would be negative is zero.
    """

    parts: tuple[Part, ...]
    freedom: float
    floor: float = -math.inf

    def below(self, values: Array) -> Array:
        """Return the probability that an observation lies below values (... x times)."""
        narrow = np.sqrt((self.freedom - 2.0) / self.freedom)  # t with f degrees has the variance f / (f - 2)
        total = np.zeros(np.shape(values))
        for part in self.parts:
            with np.errstate(over="ignore"):
                away = (part.scale.forward(values) - part.middle) / (part.deviation * narrow)
            total = total + part.weight * stdtr(self.freedom, np.maximum(away, -1e9))
        return np.where(np.asarray(values) < self.floor, 0.0, total)

    def quantiles(self, shares: Sequence[float]) -> Array:
        """Return the values below which an observation lies with these probabilities (shares x times)."""
        asked = np.asarray(shares, dtype=float)[:, None]
        away = np.sqrt((self.freedom - 2.0) / self.freedom) * stdtrit(self.freedom, asked)
        alone = [part.scale.backward(part.middle + part.deviation * away) for part in self.parts]
        low, high = np.min(alone, axis=0), np.max(alone, axis=0)  # a quantile of all lies among those of the members
        free = replace(self, floor=-math.inf)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            under = free.below(middle) < asked
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        return np.asarray(np.maximum(0.5 * (low + high), self.floor))
