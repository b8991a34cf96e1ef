"""Where each parameter may go, read off the data: bounds for the optimiser, and the frame for starts.

All in scaled units: inputs of about unit spread, target of unit variance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.fitting.periodogram import shortest_period, typical_gap
from mercer.fitting.surfaces import surface_bounds
from mercer.kernels.blend import Surface
from mercer.kernels.domains import Array, NonNegative, Simplex
from mercer.kernels.expression import Expression, Owner
from mercer.kernels.parameters import Layout, Slot

NOISE = (1e-8, 10.0)
VARIANCE = (1e-8, 1e4)
LOG_RATIO = 12.0
CYCLES = 1.5  # of a period that the data must show: with less it is no period, and PER only stands in for SE
# Of a network's weights and biases: the units are of order one. A weight at the lower end counts for nothing.
NETWORK_WEIGHT = (1e-6, 100.0)


@dataclass(frozen=True)
class Frame:
    """Typical gap, range, lower end and shortest period of each column."""

    gap: tuple[float, ...]
    span: tuple[float, ...]
    low: tuple[float, ...]
    shortest: tuple[float, ...]

    @staticmethod
    def of(X: Array) -> Frame:
        """Measure the columns."""
        columns = [X[:, d] for d in range(X.shape[1])]
        span = tuple(float(np.ptp(c)) or 1.0 for c in columns)
        gap = tuple(typical_gap(c) or s for c, s in zip(columns, span, strict=True))
        shortest = tuple(min(shortest_period(c) or s, s) for c, s in zip(columns, span, strict=True))
        return Frame(gap, span, tuple(float(c.min()) for c in columns), shortest)


def may_repeat(column: Array) -> bool:
    """Tell whether the values could show a period at all: some cycles of the shortest one that is worth looking for."""
    return 0.0 < CYCLES * shortest_period(column) <= float(np.ptp(column))


def value_bounds(slot: Slot, leaf: Owner, frame: Frame) -> Array:
    """Return low and high (size x 2) of a parameter's values; bounds of shares are on their log-ratios instead."""
    if isinstance(slot.spec.domain, NonNegative):
        return np.tile(NETWORK_WEIGHT, (slot.size, 1))
    columns = list(leaf.columns)
    gap, span, low = (np.array(a)[columns] for a in (frame.gap, frame.span, frame.low))
    name, unit = slot.spec.name, slot.spec.unit
    if isinstance(leaf, Surface):
        return surface_bounds(name, leaf, slot.size, low, span, gap)
    if name == "variance":
        return np.array([VARIANCE])
    if isinstance(slot.spec.domain, Simplex):
        return np.tile([-LOG_RATIO, LOG_RATIO], (slot.size - 1, 1))
    if name == "period":
        shortest = np.array(frame.shortest)[columns]
        return np.column_stack([shortest, np.maximum(span / CYCLES, 1.01 * shortest)])
    if unit == "length" and slot.size == 1:  # one for all columns
        return np.array([[0.1 * gap.min(), 100.0 * span.max()]])
    if unit == "length":
        return np.column_stack([0.1 * gap, 100.0 * span])
    if unit == "position":
        return np.column_stack([low - 5.0 * span, low + 6.0 * span])
    if unit == "frequency":
        repeats = slot.size // max(1, len(columns))
        if name == "bandwidth":
            return np.column_stack([np.tile(1e-3 / span, repeats), np.tile(1.0 / gap, repeats)])
        highest = np.tile(0.5 / gap, repeats)  # Nyquist: a faster wave looks slow at the rows and is wrong between them
        return np.column_stack([-highest, highest])
    return np.tile(slot.spec.limits, (slot.size, 1))


def may_vanish(layout: Layout) -> list[bool]:
    """Tell for each entry of the free vector whether its lower bound stands for zero.

    So do the weights of a network, and the width of a change: a sharp one.
    """
    return [
        isinstance(slot.spec.domain, NonNegative) or slot.spec.name == "width"
        for slot in layout.slots
        if slot.fitted
        for _ in range(slot.spec.domain.free_size(slot.size))
    ]


def free_bounds(expression: Expression, layout: Layout, frame: Frame) -> Array:
    """Return bounds (n_free x 2) on the free vector of a bound expression."""
    leaves = list(expression.owners())
    rows = [np.empty((0, 2))]
    for slot in layout.slots:
        if slot.fitted and slot.spec.domain.free_size(slot.size):
            bounds = value_bounds(slot, leaves[slot.leaf], frame)
            if not isinstance(slot.spec.domain, Simplex):
                bounds = np.column_stack([slot.spec.domain.to_free(bounds[:, k]) for k in (0, 1)])
            rows.append(bounds)
    return np.concatenate(rows)
