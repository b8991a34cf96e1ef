"""Where each parameter may go, read off the data: bounds for the optimiser, weak priors, and the frame for starts.

All in scaled units: inputs of about unit spread, target of unit variance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.fitting.periods import shortest_period, typical_gap
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
# Of change surfaces:
WIDEST = 0.25  # of the range: the width of a change (from a tenth to nine tenths it takes 4.4 times that)
STEEPEST = 0.1  # of the typical gap: a sharper change looks the same
LARGEST = 30.0  # of w(x): beyond it a share is 0 or 1 to rounding
FASTEST = 3.0  # waves of a surface over the range of the data
WEIGHT = 4.0  # spread of a feature's weight: some of them together take a share from 0 to 1
SPREAD = 2.0  # of weak priors


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
        return _surface_bounds(name, leaf, slot.size, low, span, gap)
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


def _surface_bounds(name: str, surface: Surface, size: int, low: Array, span: Array, gap: Array) -> Array:
    """Return low and high (size x 2) of a parameter's values."""
    repeats = size // len(span) if size % len(span) == 0 else 1
    if name in ("location", "start", "centres"):
        return np.tile(np.column_stack([low, low + span]), (repeats, 1))
    if name == "width":
        return np.tile(np.column_stack([STEEPEST * gap, WIDEST * span]), (repeats, 1))
    if name == "duration":
        return np.column_stack([gap, span])
    if name == "lengthscale":
        return np.column_stack([0.2 * span, 2.0 * span])
    if name in ("slope", "frequency"):
        fastest = np.tile((1.0 / (STEEPEST * gap)) if name == "slope" else FASTEST / span, repeats)
        return np.column_stack([-fastest, fastest])
    if name == "bias":  # it moves the surface across the data, wherever that lies
        most = LARGEST + float(np.max(np.maximum(np.abs(low), np.abs(low + span)) / (STEEPEST * gap)))
        return np.tile([-most, most], (size, 1))
    return np.tile([-LARGEST, LARGEST], (size, 1))


# ------------------------------------------------------------------------------------------------------------- priors
# Optional weak priors: a Gaussian on each free number, wide enough to matter only where the data say nothing. In scaled
# units: variances near one, lengthscales near a third of the range, noise near a tenth, each within a factor of about
# e^2 (one standard deviation). Weights of a network near one share of its inputs each: a layer of a hundred units says
# no more than one of ten.


@dataclass(frozen=True, eq=False)
class GaussianPrior:
    """log p(free) = -sum ((free - centre) / spread)^2 / 2, up to a constant; infinite spread: no opinion."""

    centre: Array
    spread: Array

    def log_density(self, free: Array) -> tuple[float, Array]:
        """Return the log density (up to a constant) and its gradient."""
        distance = (free - self.centre) / self.spread
        return -0.5 * float(distance @ distance), -distance / self.spread


def weak_prior(expression: Expression, layout: Layout, frame: Frame) -> GaussianPrior:
    """Build the weak prior on the free vector followed by the log noise."""
    leaves = list(expression.owners())
    centre: list[float] = []
    spread: list[float] = []
    for slot in layout.slots:
        count = slot.spec.domain.free_size(slot.size) if slot.fitted else 0
        if not count:
            continue
        owner = leaves[slot.leaf]
        columns = list(owner.columns)
        if isinstance(owner, Surface):
            own = _surface_prior(slot.spec.name, owner, count, np.array(frame.span)[columns])
            centre += own[0]
            spread += own[1]
        elif isinstance(slot.spec.domain, NonNegative):
            share = np.array([1.0 / max(1, len(leaves[slot.leaf].dims or ()))])
            centre += [float(slot.spec.domain.to_free(share)[0])] * count
            spread += [SPREAD] * count
        elif slot.spec.name in ("offset", "frequency"):  # a place, not a size: no opinion
            centre += [0.0] * count
            spread += [np.inf] * count
        elif slot.spec.unit == "length":
            factor = max(1, len(columns)) ** 0.5 / 3.0
            logs = [float(np.log(frame.span[d] * factor)) for d in columns]
            centre += logs if count == len(columns) else [float(np.mean(logs))]  # or one for all columns
            spread += [SPREAD] * count
        elif slot.spec.name == "bandwidth":
            repeats = count // len(columns)
            centre += [float(np.log(0.3 / frame.span[d])) for d in columns] * repeats
            spread += [SPREAD] * count
        else:
            centre += [0.0] * count
            spread += [SPREAD] * count
    return GaussianPrior(np.array([*centre, np.log(0.1)]), np.array([*spread, SPREAD]))


def _surface_prior(name: str, surface: Surface, count: int, span: Array) -> tuple[list[float], list[float]]:
    """Return centre and spread of a weak Gaussian prior on the free numbers of a parameter; infinite: no opinion."""
    repeats = count // len(span) if count % len(span) == 0 else 1
    if name in ("width", "duration", "lengthscale"):
        share = {"width": 0.02, "duration": 0.3, "lengthscale": 0.5}[name]
        return [float(np.log(share * s)) for s in span] * repeats, [2.0] * count
    if name in ("amplitude", "weights"):
        return [0.0] * count, [WEIGHT] * count
    if name == "frequency":  # that of Algorithm 2, from which it is drawn
        return [0.0] * count, [float(1.0 / (np.pi * s)) for s in span] * repeats
    return [0.0] * count, [np.inf] * count
