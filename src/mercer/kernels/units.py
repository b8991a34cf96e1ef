"""Carry a kernel through a change of units of the inputs and the target, and back.

With z = (x - shift) / scale and t = y / y_scale, the kernel of y over x is  k(x, x') = y_scale^2 k_scaled(z, z').
Every parameter follows from its unit in its record; only LIN mixes units (its variance is y^2 / x^2), and a change
surface, whose biases and phases are counted from where x = 0.

One lengthscale for all columns is one in the units of the user, in which `isotropic=True` is written. Columns that are
scaled differently then have lengthscales l r_d in other units: still one free number l, with ratios r_d that follow
from the scales (their geometric mean is one) and go away on the way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import fill_held


@dataclass(frozen=True)
class Units:
    """Shift and scale of each input column, and the scale of the target."""

    shift: tuple[float, ...]
    scale: tuple[float, ...]
    y_scale: float = 1.0

    def of(self, columns: Sequence[int]) -> tuple[Array, Array]:
        """Return shift and scale of some columns."""
        chosen = list(columns)
        return np.array(self.shift)[chosen], np.array(self.scale)[chosen]

    def inverse(self) -> Units:
        """Return the units that undo these."""
        shift = tuple(-m / s for m, s in zip(self.shift, self.scale, strict=True))
        return Units(shift, tuple(1.0 / s for s in self.scale), 1.0 / self.y_scale)


def to_data_units(expression: Expression, units: Units) -> Expression:
    """Return the kernel over the data for a bound kernel over scaled inputs and target."""
    return fill_held(expression).convert(units).multiplied(units.y_scale**2)


def to_scaled_units(expression: Expression, units: Units) -> Expression:
    """Return the kernel over scaled inputs and target for a bound kernel over the data."""
    return to_data_units(expression, units.inverse())


def multiplied(expression: Expression, factor: float) -> Expression:
    """Return factor * expression without a new node: the factor goes into the variances that carry the scale."""
    return expression.multiplied(factor)
