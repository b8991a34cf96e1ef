"""On what scale a series is modelled: as it is, by its square root, or by its logarithm (positive values only).

A density of g(y) becomes one of y by the factor g'(y): with it the evidences of the same values on different scales can
be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mercer.errors import InputError
from mercer.kernels.domains import Array


@dataclass(frozen=True, eq=False)
class Scale:
    """A rising function of the target, its inverse, and the logarithm of its slope."""

    name: str
    forward: Callable[[Array], Array]
    backward: Callable[[Array], Array]
    log_slope: Callable[[Array], Array]
    positive: bool  # for series above zero only

    def allows(self, values: Array) -> bool:
        """Tell whether the values can be modelled on this scale."""
        return not self.positive or bool(np.all(values > 0))

    def relative(self, deviation: Array, level: float) -> Array:
        """Return what share of the level, which is above zero, a deviation on this scale is."""
        return np.asarray(deviation / (level * np.exp(self.log_slope(np.array(level)))))


def _as_it_is(values: Array) -> Array:
    return values


def _root(values: Array) -> Array:
    """The square root with the sign of the value: what falls through zero goes on, and does not pile up there."""
    return np.asarray(np.sign(values) * np.sqrt(np.abs(values)))


def _logarithm(values: Array) -> Array:
    """The logarithm; below every number that occurs for what is not above zero."""
    return np.where(values > 0, np.log(np.maximum(values, 1e-300)), -math.inf)


def _square(values: Array) -> Array:
    """The inverse of the root: the square with the sign of the value."""
    return np.asarray(values * np.abs(values))


def _root_slope(values: Array) -> Array:
    """Log of 1 / (2 sqrt y)."""
    return np.asarray(-np.log(2.0 * np.sqrt(values)))


def _log_slope(values: Array) -> Array:
    """Log of 1 / y."""
    return np.asarray(-np.log(values))


SCALES = {
    scale.name: scale
    for scale in (
        Scale("level", _as_it_is, _as_it_is, np.zeros_like, positive=False),
        Scale("root", _root, _square, _root_slope, positive=True),
        Scale("log", _logarithm, np.exp, _log_slope, positive=True),
    )
}


def scale_called(name: str) -> Scale:
    """Return a scale by its name."""
    if name not in SCALES:
        raise InputError(f"there is no scale {name!r}; there are {', '.join(SCALES)}")
    return SCALES[name]
