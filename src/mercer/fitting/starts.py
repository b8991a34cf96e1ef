"""Where a fit begins and how far it may go, read off the data: bounds, weak priors, and draws for every parameter.

All in scaled units: inputs of about unit spread, target of unit variance. Starts matter most (METHODS 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from weakref import WeakKeyDictionary

import numpy as np

from mercer.errors import KernelError
from mercer.fitting.periods import change_places, periods, shortest_period, spread_rows, typical_gap
from mercer.inference.contract import Data
from mercer.kernels.blend import Blend, Surface
from mercer.kernels.domains import Array, NonNegative, Share, Simplex
from mercer.kernels.expression import Base, Expression, Owner, Product
from mercer.kernels.layers import Linear
from mercer.kernels.network import Network
from mercer.kernels.parameters import Layout, Slot, values_of

PEAKS = 6  # periods of the target to try
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
WEIGHT = 16.0  # spread of a feature's weight: some of them together take a share from 0 to 1 between near rows
SPREAD = 2.0  # of weak priors
NEARLY_ALIKE = 0.9  # the correlation of categories that hardly change what they multiply
NEAR = 0.4  # what their places are multiplied by for the same


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


_frames: WeakKeyDictionary[Data, Frame] = WeakKeyDictionary()


def _frame_of(data: Data) -> Frame:
    """Return the frame of some rows, measured once for all kernels that are fitted to them."""
    found = _frames.get(data)
    if found is None:
        found = _frames[data] = Frame.of(data.X)
    return found


def may_repeat(column: Array) -> bool:
    """Tell whether the values could show a period at all: some cycles of the shortest one that is worth looking for."""
    return 0.0 < CYCLES * shortest_period(column) <= float(np.ptp(column))


def measure_columns(leaf: Owner, columns: list[int], frame: Frame) -> tuple[Array, Array, Array]:
    """Return typical gap, range and lower end of the columns of an owner.

    Where one lengthscale l serves all columns, that of column d is l r_d: gap and range are then in units of l.
    """
    gap, span, low = np.array([frame.gap, frame.span, frame.low])[:, columns]
    if isinstance(leaf, Base) and leaf.ratios:
        gap, span = gap / np.array(leaf.ratios), span / np.array(leaf.ratios)
    return gap, span, low


def value_bounds(slot: Slot, leaf: Owner, frame: Frame) -> Array:
    """Return low and high (size x 2) of a parameter's values; bounds of shares are on their log-ratios instead."""
    if isinstance(slot.spec.domain, NonNegative):
        return np.tile(NETWORK_WEIGHT, (slot.size, 1))
    columns = list(leaf.columns)
    gap, span, low = measure_columns(leaf, columns, frame)
    name, unit = slot.spec.name, slot.spec.unit
    if isinstance(leaf, Surface):
        return _surface_bounds(name, slot.size, low, span, gap)
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
    """Tell for each free number whether its lower bound is zero.

    Weights of a network, the width of a sharp change, the correlation of categories.
    """
    return [
        isinstance(slot.spec.domain, NonNegative | Share) or slot.spec.name == "width"
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


def _surface_bounds(name: str, size: int, low: Array, span: Array, gap: Array) -> Array:
    """Return low and high (size x 2) of a parameter's values."""
    steepest, fastest, inside = 1.0 / (STEEPEST * gap), FASTEST / span, (low, low + span)
    rules = {"location": inside, "start": inside, "centres": inside, "width": (STEEPEST * gap, WIDEST * span),
             "duration": (gap, span), "lengthscale": (0.2 * span, 2.0 * span), "slope": (-steepest, steepest),
             "frequency": (-fastest, fastest)}  # fmt: skip
    if name in rules:
        return np.tile(np.column_stack(rules[name]), (size // len(span) if size % len(span) == 0 else 1, 1))
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
        middle, width = [0.0] * count, [SPREAD] * count
        if isinstance(owner, Surface):
            middle, width = _surface_prior(slot.spec.name, count, np.array(frame.span)[columns])
        elif isinstance(slot.spec.domain, NonNegative):
            share = np.array([1.0 / max(1, len(owner.dims or ()))])
            middle = [float(slot.spec.domain.to_free(share)[0])] * count
        elif slot.spec.name in ("offset", "frequency"):  # a place, not a size: no opinion
            width = [np.inf] * count
        elif slot.spec.unit == "length":
            factor = max(1, len(columns)) ** 0.5 / 3.0
            logs = np.log(factor * measure_columns(owner, columns, frame)[1])
            middle = logs.tolist() if count == len(columns) else [float(logs.max())]  # one for all: the widest counts
        elif slot.spec.name == "bandwidth":
            middle = [float(np.log(0.3 / frame.span[d])) for d in columns] * (count // len(columns))
        centre += middle
        spread += width
    return GaussianPrior(np.array([*centre, np.log(0.1)]), np.array([*spread, SPREAD]))


@dataclass(frozen=True)
class LearnedPrior:
    """Centre and spread of free numbers as they were learned from other data, by path ("3:RW.variance", "noise")."""

    entries: tuple[tuple[str, float, float], ...]

    def complete(self, weak: GaussianPrior, paths: Sequence[str]) -> GaussianPrior:
        """Return the prior on the free vector followed by the log noise; the weak one where nothing was learned."""
        centre, spread = weak.centre.copy(), weak.spread.copy()
        places = {path: place for place, path in enumerate([*paths, "noise"])}
        for path, middle, width in self.entries:
            if path not in places:
                raise KernelError(
                    f"a prior was learned for {path}, which this kernel does not fit; it has {list(places)}"
                )
            centre[places[path]], spread[places[path]] = middle, width
        return GaussianPrior(centre, spread)


def _surface_prior(name: str, count: int, span: Array) -> tuple[list[float], list[float]]:
    """Return centre and spread of a weak Gaussian prior on the free numbers of a parameter; infinite: no opinion."""
    repeats = count // len(span) if count % len(span) == 0 else 1
    share = {"width": 0.02, "duration": 0.3, "lengthscale": 0.5}.get(name)
    if share is not None:
        return [float(np.log(share * s)) for s in span] * repeats, [2.0] * count
    if name in ("amplitude", "weights"):
        return [0.0] * count, [WEIGHT] * count
    if name == "frequency":  # that of Algorithm 2, from which it is drawn
        return [0.0] * count, [float(1.0 / (np.pi * s)) for s in span] * repeats
    return [0.0] * count, [np.inf] * count


# ------------------------------------------------------------------------------------------------------------- starts


class Starts:
    """Draws full values vectors and noise variances for a bound expression in scaled units."""

    def __init__(
        self, expression: Expression, layout: Layout, data: Data, peaks: dict[int, Array] | None = None
    ) -> None:
        self.expression, self.layout, self.data = expression, layout, data
        self.leaves = list(expression.owners())
        self.copies = _copies(expression) if any(isinstance(leaf, Linear) for leaf in self.leaves) else {}
        self.frame = _frame_of(data)
        self.known = values_of(expression, layout.held)
        for slot in layout.slots:  # zero is where a correlation was held in a kernel that this one was grown from
            if slot.fitted and isinstance(slot.spec.domain, Share) and not self.known[slot.where].all():
                self.known[slot.where] = np.nan
        self._peaks: dict[int, Array] = dict(peaks or {})
        self._places: dict[int, Array] = {}
        self._measured: dict[int, tuple[Array, Array, Array]] = {}
        self.lines = self._find_lines()

    def _measure(self, number: int) -> tuple[Array, Array, Array]:
        """Typical gap, range and lower end of the columns of an owner, measured once for all draws."""
        if number not in self._measured:
            leaf = self.leaves[number]
            self._measured[number] = measure_columns(leaf, list(leaf.columns), self.frame)
        return self._measured[number]

    @cached_property
    def _unset(self) -> list[Slot]:
        """The slots with a value to draw."""
        return [slot for slot in self.layout.slots if np.isnan(self.known[slot.where]).any()]

    @property
    def complete(self) -> bool:
        """Tell whether every value is given, so that there is nothing to draw."""
        return not np.isnan(self.known).any()

    @property
    def turns(self) -> int:
        """How many periods there are to try in turn; none where no period is looked for."""
        looked_for = [s for s in self.layout.slots if s.spec.name == "period" and np.isnan(self.known[s.where]).any()]
        return max((len(self._peaks_of(c)) for s in looked_for for c in self.leaves[s.leaf].columns), default=0)

    def typical(self, turn: int = 0) -> Array:
        """Return the one start that is tried first: middling values, the strongest period; or the next, and so on."""
        return self.draw(None, turn=turn)

    def neutral(self) -> Array:
        """Return the start at which the parts without values change the kernel least: faint terms, flat factors."""
        values = self.draw(None, compensate=False)
        for slot in self._unset:
            drawn = slot.leaf in self.copies or isinstance(self.leaves[slot.leaf], Surface)
            if drawn or slot.spec.anchored:
                continue  # a network's weights decide how much its primitives matter; a change has no neutral place
            _, span, low = self._measure(slot.leaf)
            if slot.leaf not in self.layout.held:
                if slot.spec.name == "variance":
                    values[slot.where] = 0.01
            elif slot.spec.unit == "position":
                values[slot.where] = low - 3.0 * span
            elif slot.spec.name == "lengthscale":
                longest = span if slot.size == len(span) else span.max()  # or one for all columns
                values[slot.where] = 3.0 * longest if slot.spec.unit == "length" else 5.0
            elif isinstance(slot.spec.domain, Share):
                values[slot.where] = NEARLY_ALIKE
            elif slot.spec.name == "places":
                values[slot.where] *= NEAR
        return self._compensate(values)

    def inherit(self, values: Array) -> Array:
        """Return the given values, of these those of the parts that had none."""
        return self._compensate(np.where(np.isnan(self.known), values, self.known))

    def draw(self, rng: np.random.Generator | None, compensate: bool = True, turn: int = 0) -> Array:
        """Return a random start, or the typical one."""
        values = self.known.copy()
        terms = max(1, sum(isinstance(leaf, Base) for leaf in self.leaves))
        for slot in self._unset:
            values[slot.where] = self._parameter(slot, self.leaves[slot.leaf], terms, rng, turn)
        return self._compensate(values) if compensate else values

    def _compensate(self, values: Array) -> Array:
        """Divide a product by the mean square of each new LIN factor in it, so that its size stays."""
        for lines, scaled in self.lines:
            share = 1.0
            for columns, offset, weights in lines:
                share *= float(np.mean((self.data.X[:, columns] - values[offset]) ** 2 @ values[weights])) or 1.0
            values[scaled] *= 1.0 / share
        return values

    def _find_lines(self) -> list[tuple[list[tuple[list[int], slice, slice]], list[int]]]:
        """For each product with new LIN factors: their columns, offsets and weights, and the values that scale it."""
        new = {s.leaf for s in self.layout.slots if s.spec.name == "offset" and np.isnan(self.known[s.where]).any()}
        new &= {n for n, each in enumerate(self.leaves) if isinstance(each, Base) and each.spec.words.role == "trend"}
        new &= self.layout.held
        where = {(slot.leaf, slot.spec.name): slot.where for slot in self.layout.slots}
        found: list[tuple[list[tuple[list[int], slice, slice]], list[int]]] = []
        todo: list[tuple[Expression, int]] = [(self.expression, 0)] if new else []
        while todo:  # nodes with the number of their first owner
            node, first = todo.pop()
            if isinstance(node, Base | Network):  # a network's weights are drawn for LIN as it is
                continue
            lines, number = [], first
            for child in node.children:
                if isinstance(node, Product) and isinstance(child, Base) and number in new:
                    lines.append((list(child.columns), where[number, "offset"], where[number, "weights"]))
                todo.append((child, number))
                number += len(list(child.owners()))
            if lines:
                found.append((lines, self._carriers(node, first)))
        return found

    def _carriers(self, node: Expression, first: int) -> list[int]:
        """Return the places of the values that carry the scale of a node, as `Expression.multiply_by` does."""
        places: list[int] = []
        todo = [(node, first)]
        while todo:
            node, first = todo.pop()
            if isinstance(node, Base | Network):
                last = first + len(list(node.owners())) - 1
                names = ("variance",) if isinstance(node, Base) else ("weights", "bias")
                for slot in self.layout.slots:
                    if slot.leaf == last and slot.spec.name in names:
                        places += range(slot.offset, slot.offset + slot.size)
                continue
            parts: list[tuple[bool, bool, int, Expression, int]] = []
            for child in node.children:
                parts.append((child.has_fixed_scale, not isinstance(child, Network), len(parts), child, first))
                first += len(list(child.owners()))
            chosen = [min(parts, key=itemgetter(0, 1, 2))] if isinstance(node, Product) else parts
            todo += [(child, start) for *_, child, start in chosen]
        return places

    def _parameter(self, slot: Slot, leaf: Owner, terms: int, rng: np.random.Generator | None, turn: int) -> Array:
        columns = list(leaf.columns)
        gap, span, low = self._measure(slot.leaf)
        name, unit, size = slot.spec.name, slot.spec.unit, slot.size
        if slot.spec.anchored:
            return low
        if isinstance(leaf, Surface):
            X, along = self.data.X[:, columns], columns[0]
            if along not in self._places:
                self._places[along] = change_places(X[:, 0], self.data.y, self._peaks_of(along))
            return _surface_start(name, leaf, X, self._places[along], span, gap, rng)
        rank, copies = self.copies.get(slot.leaf, (0, 1))
        if isinstance(slot.spec.domain, NonNegative):
            # around 1 / inputs, so that units of order one give units of order one; spread, so that units differ
            generator = np.random.default_rng(slot.offset) if rng is None else rng
            small, large = (0.2, 2.0) if rng is None else (0.05, 4.0)
            share = np.full(size, 1.0 / max(1, len(leaf.dims or ())))
            return _log_uniform(generator, small * share, large * share)
        if name == "variance":
            if slot.leaf in self.copies:  # of a primitive: the weights have the size
                return _log_uniform(rng, np.array([0.5]), np.array([2.0]))
            return _log_uniform(rng, np.array([0.1 / terms]), np.array([3.0 / terms]))
        if isinstance(slot.spec.domain, Simplex):
            return np.full(size, 1.0 / size) if rng is None else rng.dirichlet(np.full(size, 3.0))
        if name == "period":
            return self._periods(slot, columns, rng, turn)
        if name == "places":  # of categories: in a row, or anywhere
            return np.arange(1.0, size + 1) / size if rng is None else rng.standard_normal(size)
        if unit == "length":
            if len(columns) > 1:  # distances grow with the number of dimensions, and so must lengthscales
                low, high = 0.15 * span * len(columns) ** 0.5, 1.5 * span * len(columns) ** 0.5
            else:
                low, high = np.minimum(2.0 * gap, 0.05 * span), span
            if size < len(columns):  # one for all: usually that of the widest column, but any may be what matters
                low, high = (low.max() if rng is None else low.min()) * np.ones(1), high.max() * np.ones(1)
            return _log_uniform(rng, *_part(low, high, rank, copies))
        if unit == "position":
            middle = 0.5 if copies == 1 else rank / (copies - 1)  # copies from one end of the data to the other
            return low + span * (middle if rng is None else rng.uniform(-0.2, 1.2, size))
        if name == "frequency":
            return self._frequencies(slot, columns, rng)
        if name == "bandwidth":
            components = size // len(columns)
            return _log_uniform(rng, np.tile(0.05 / span, components), np.tile(1.0 / span, components))
        least, most = slot.spec.typical  # pure numbers: alpha, PER's lengthscale
        return _log_uniform(rng, *_part(np.full(size, least), np.full(size, most), rank, copies))

    def _peaks_of(self, column: int) -> Array:
        if column not in self._peaks:
            found = periods(self.data.X[:, column], self.data.y, PEAKS)
            fallback = np.array([self.frame.span[column] / k for k in (3.0, 10.0)])
            self._peaks[column] = found if len(found) else fallback
        return self._peaks[column]

    def _periods(self, slot: Slot, columns: list[int], rng: np.random.Generator | None, turn: int) -> Array:
        """The strongest peak for the first periodic leaf on a column, the next for the next; random ones otherwise."""
        rank, copies = self.copies.get(slot.leaf, (0, 1))
        before = [self.leaves[s.leaf] for s in self.layout.slots if s.spec.name == "period" and s.leaf < slot.leaf]
        found = []
        for column in columns:
            peaks = self._peaks_of(column)
            if rng is None:
                earlier = turn + sum(column in leaf.columns for leaf in before)
                found.append(peaks[earlier % len(peaks)])
                continue
            if copies > 1 and len(peaks) > 1:  # the copies in a network share the peaks among them
                peaks = peaks[rank % len(peaks) :: min(copies, len(peaks))]
            weights = 0.6 ** np.arange(len(peaks))
            peak = peaks[rng.choice(len(peaks), p=weights / weights.sum())]
            multiple = rng.choice([1.0, 2.0, 0.5], p=[0.8, 0.1, 0.1])
            low, high = self.frame.shortest[column], self.frame.span[column] / CYCLES
            found.append(np.clip(peak * multiple, min(low, high), high))
        return np.array(found)

    def _frequencies(self, slot: Slot, columns: list[int], rng: np.random.Generator | None) -> Array:
        """Peaks of the periodogram, one for each component, and a slow wave for the last."""
        rows = slot.size // len(columns)
        result = np.empty((rows, len(columns)))
        rank, _ = self.copies.get(slot.leaf, (0, 1))
        for k, column in enumerate(columns):
            peaks = 1.0 / self._peaks_of(column)
            for row in range(rows):
                chosen = peaks[(row + rank) % len(peaks)] if rng is None else rng.choice(peaks)
                slow = rows > 1 and row == rows - 1
                result[row, k] = 0.1 / self.frame.span[column] if slow else chosen
        return result.ravel()


def _copies(expression: Expression) -> dict[int, tuple[int, int]]:
    """Return, by number, the place of each base kernel in a network among those of the same kind and columns there."""
    result: dict[int, tuple[int, int]] = {}

    def visit(node: Expression, start: int) -> int:
        if isinstance(node, Network):
            alike: dict[object, list[int]] = {}
            for number, owner in enumerate(node.owners(), start):
                if isinstance(owner, Base):
                    alike.setdefault((owner.symbol, owner.dims), []).append(number)
            for numbers in alike.values():
                result.update({number: (rank, len(numbers)) for rank, number in enumerate(numbers)})
            return start + sum(1 for _ in node.owners())
        for child in node.children:
            start = visit(child, start)
        return start + isinstance(node, Base | Blend)

    visit(expression, 0)
    return result


def _part(low: Array, high: Array, rank: int, copies: int) -> tuple[Array, Array]:
    """The part of a range, on a log scale, that one of several copies has for itself."""
    if copies == 1:
        return low, high
    ratio = (high / low) ** (1.0 / copies)
    return low * ratio**rank, low * ratio ** (rank + 1)


def _log_uniform(rng: np.random.Generator | None, low: Array, high: Array, typical: float = 0.5) -> Array:
    position = typical if rng is None else rng.uniform(size=len(low))
    return np.asarray(low * (high / low) ** position)


def noise_start(rng: np.random.Generator | None) -> float:
    """Return a noise variance to begin with (the target has unit variance)."""
    return float(_log_uniform(rng, np.array([0.003]), np.array([0.5]))[0])


def _surface_start(
    name: str, surface: Surface, X: Array, places: Array, span: Array, gap: Array, rng: np.random.Generator | None
) -> Array:
    """Return a start for one parameter of a surface; None for `rng`: the typical one. Sizes as in the values vector."""
    size = next(s.size(len(span), surface.components) for s in surface.specs if s.name == name)
    draw = rng or np.random.default_rng(0)
    low = X.min(axis=0)
    if name == "location":  # as many places as there are changes; at random some of the time, so that none is missed
        if rng is not None and (len(places) < size or rng.random() < 0.3):
            return np.sort(low[0] + span[0] * rng.uniform(0.05, 0.95, size))
        if len(places) < size:
            return np.asarray(low[0] + span[0] * np.arange(1, size + 1) / (size + 1))
        weights = 0.6 ** np.arange(len(places))
        chosen = places[:size] if rng is None else rng.choice(places, size, replace=False, p=weights / weights.sum())
        return np.sort(chosen)
    if name == "start":
        return np.array([places.min() if rng is None else draw.choice(places)])
    if name == "duration":
        usual = np.ptp(places) if rng is None and len(places) > 1 else span[0] * draw.uniform(0.05, 0.6)
        return np.array([max(float(usual), 2.0 * float(gap[0]))])
    if name == "width":
        return np.tile(_log_uniform(rng, np.minimum(0.5 * gap, 0.01 * span), 0.1 * span, 0.3), size)
    if name == "slope":
        typical = np.tile(4.0 / span, size // len(span))
        return typical if rng is None else draw.normal(size=size) * (2.0 * typical)
    if name == "frequency":  # Herlands et al., Algorithm 2: N(0, Lambda^-1 / 4 pi^2), Lambda = (range / 2)^2
        return draw.normal(size=size) * np.tile(1.0 / (np.pi * span), size // len(span))
    if name == "phase":
        return draw.uniform(0.0, 2.0 * np.pi, size)
    if name == "amplitude":  # N(0, sigma_0 / m), sigma_0 the spread of the target: one
        return np.asarray(draw.normal(size=size) / np.sqrt(surface.features))
    if name == "centres":
        return np.tile(spread_rows(X, surface.features).ravel(), surface.regimes - 1)
    if name == "lengthscale":
        return span * (0.5 if rng is None else draw.uniform(0.35, 1.0))  # as smooth as those of Algorithm 2
    if name == "weights":  # so that a share reaches from near 0 to near 1
        return 2.0 * draw.normal(size=size)
    return draw.normal(size=size)  # bias
