"""Where a parameter may live, and how it maps to an unconstrained ("free") number and back.

Each domain works on a whole block of values at once; `pullback` is the chain rule of `from_free`. A `ParameterSpec` is
all that is known of one parameter: its name, domain, shape and unit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[np.float64]
Shape = Literal["one", "per dimension", "per component", "per component and dimension"]
Unit = Literal["variance", "length", "frequency", "position", "none"]


class Domain(ABC):
    """A set of allowed values with a smooth one-to-one map from all of R^n."""

    def free_size(self, size: int) -> int:
        """Return how many free numbers describe `size` values."""
        return size

    @abstractmethod
    def contains(self, values: Array) -> bool:
        """Tell whether the values lie in the domain."""

    @abstractmethod
    def to_free(self, values: Array) -> Array:
        """Map values to free numbers."""

    @abstractmethod
    def from_free(self, free: Array) -> Array:
        """Map free numbers to values."""

    @abstractmethod
    def pullback(self, values: Array, gradient: Array) -> Array:
        """Turn a gradient by values into a gradient by free numbers."""

    @abstractmethod
    def describe(self) -> str:
        """Say in words what is allowed."""


@dataclass(frozen=True)
class Real(Domain):
    """Any finite number."""

    def contains(self, values: Array) -> bool:
        return bool(np.all(np.isfinite(values)))

    def to_free(self, values: Array) -> Array:
        return values

    def from_free(self, free: Array) -> Array:
        return free

    def pullback(self, values: Array, gradient: Array) -> Array:
        return gradient

    def describe(self) -> str:
        return "a finite number"


@dataclass(frozen=True)
class Positive(Domain):
    """Greater than zero; free = log(value)."""

    def contains(self, values: Array) -> bool:
        return bool(np.all(np.isfinite(values)) and np.all(values > 0))

    def to_free(self, values: Array) -> Array:
        return np.log(values)

    def from_free(self, free: Array) -> Array:
        return np.exp(free)

    def pullback(self, values: Array, gradient: Array) -> Array:
        return gradient * values

    def describe(self) -> str:
        return "a number greater than zero"


@dataclass(frozen=True)
class NonNegative(Domain):
    """Zero or greater; value = log(1 + exp(free)), the softplus of NKN 3.1. Zero itself is at free = -infinity."""

    def contains(self, values: Array) -> bool:
        return bool(np.all(np.isfinite(values)) and np.all(values >= 0))

    def to_free(self, values: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(values + np.log(-np.expm1(-values)))  # log(exp(v) - 1), without overflow

    def from_free(self, free: Array) -> Array:
        return np.asarray(np.logaddexp(0.0, free))

    def pullback(self, values: Array, gradient: Array) -> Array:
        return gradient * -np.expm1(-values)

    def describe(self) -> str:
        return "a number not below zero"


@dataclass(frozen=True)
class Share(Domain):
    """From zero to below one; free = log(value / (1 - value)). Zero itself is at free = -infinity."""

    def contains(self, values: Array) -> bool:
        return bool(np.all(values >= 0) and np.all(values < 1))

    def to_free(self, values: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(values) - np.log1p(-values))

    def from_free(self, free: Array) -> Array:
        return np.asarray(expit(free))

    def pullback(self, values: Array, gradient: Array) -> Array:
        return gradient * values * (1.0 - values)

    def describe(self) -> str:
        return "a number from 0 to below 1"


@dataclass(frozen=True)
class Simplex(Domain):
    """Positive and adding up to one; free = log-ratios to the last value, one number fewer."""

    def free_size(self, size: int) -> int:
        return size - 1

    def contains(self, values: Array) -> bool:
        return bool(np.all(np.isfinite(values)) and np.all(values > 0) and abs(values.sum() - 1.0) < 1e-9)

    def to_free(self, values: Array) -> Array:
        return np.asarray(np.log(values[:-1]) - np.log(values[-1]))

    def from_free(self, free: Array) -> Array:
        logits = np.append(free, 0.0)
        weights = np.exp(logits - logits.max())
        return np.asarray(weights / weights.sum())

    def pullback(self, values: Array, gradient: Array) -> Array:
        return (values * (gradient - values @ gradient))[:-1]

    def describe(self) -> str:
        return "numbers greater than zero that add up to one"


@dataclass(frozen=True)
class ParameterSpec:
    """Name, domain, shape and physical unit of one parameter.

    Starts, bounds and weak priors follow from the unit; those of a pure number (unit "none") from the last two fields.
    A parameter called "period" starts at peaks of the periodogram. One that is `anchored` is not fitted: it stays where
    it was given, or at the lowest value of its column among the rows.
    """

    name: str
    domain: Domain
    shape: Shape
    unit: Unit
    typical: tuple[float, float] = (0.4, 2.5)  # between these a pure number starts
    limits: tuple[float, float] = (0.15, 20.0)  # and between these it stays
    anchored: bool = False

    def size(self, dimensions: int, components: int) -> int:
        """Return how many values the parameter has on this many dimensions and components."""
        return {
            "one": 1,
            "per dimension": dimensions,
            "per component": components,
            "per component and dimension": components * dimensions,
        }[self.shape]


# From the values of each parameter (None: unset) and the scale of each column to changed values and a factor of the
# variance.
UnitRule = Callable[[Mapping[str, Array | None], Array], tuple[Mapping[str, Array], float]]


def line_in_other_units(values: Mapping[str, Array | None], scale: Array) -> tuple[Mapping[str, Array], float]:
    """v sum_d w_d (z_d - c_d)(z'_d - c_d) with z = (x - shift) / scale: the weights of LIN become w_d / scale_d^2.

    They add up to one again, and the variance takes the sum.
    """
    weights = values["weights"]
    relative = (np.full(len(scale), 1 / len(scale)) if weights is None else weights) / scale**2
    total = float(relative.sum())
    return {} if weights is None else {"weights": relative / total}, total


def walk_in_other_units(power: int) -> UnitRule:
    """v u(z, z') with z = (x - shift) / scale and u of degree `power` in each column: v takes 1 / scale^power."""

    def rule(values: Mapping[str, Array | None], scale: Array) -> tuple[Mapping[str, Array], float]:
        return {}, float(np.prod(scale ** float(-power)))

    return rule
