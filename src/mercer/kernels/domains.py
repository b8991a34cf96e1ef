"""Where a parameter may live, and how it maps to an unconstrained ("free") number and back.

Each domain works on a whole block of values at once; `pullback` is the chain rule of `from_free`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[np.float64]


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
class Between(Domain):
    """Strictly between two numbers; free = logit of the relative position."""

    low: float
    high: float

    def contains(self, values: Array) -> bool:
        return bool(np.all((values > self.low) & (values < self.high)))

    def to_free(self, values: Array) -> Array:
        share = (values - self.low) / (self.high - self.low)
        return np.log(share) - np.log1p(-share)

    def from_free(self, free: Array) -> Array:
        return np.asarray(self.low + (self.high - self.low) * expit(free))

    def pullback(self, values: Array, gradient: Array) -> Array:
        return gradient * (values - self.low) * (self.high - values) / (self.high - self.low)

    def describe(self) -> str:
        return f"a number between {self.low:g} and {self.high:g}"


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
