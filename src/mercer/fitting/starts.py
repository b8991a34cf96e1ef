"""Where a fit begins: data-driven draws for every parameter that has no value yet (METHODS 3: starts matter most)."""

from __future__ import annotations

import numpy as np

from mercer.fitting.periodogram import periods
from mercer.fitting.ranges import CYCLES, Frame
from mercer.fitting.surfaces import change_places, surface_start
from mercer.inference.contract import Data
from mercer.kernels.blend import Blend, Surface
from mercer.kernels.domains import Array, NonNegative, Simplex
from mercer.kernels.expression import Base, Expression, Owner, Product
from mercer.kernels.network import Network
from mercer.kernels.parameters import Layout, Slot, held_variances, values_of, with_values
from mercer.kernels.units import multiplied

PEAKS = 6


class Starts:
    """Draws full values vectors and noise variances for a bound expression in scaled units."""

    def __init__(
        self, expression: Expression, layout: Layout, data: Data, peaks: dict[int, Array] | None = None
    ) -> None:
        self.expression, self.layout, self.data = expression, layout, data
        self.leaves = list(expression.owners())
        self.copies = _copies(expression)
        self.frame = Frame.of(data.X)
        self.known = values_of(expression)
        self._peaks: dict[int, Array] = dict(peaks or {})
        self._places: dict[int, Array] = {}

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
        return self._draw(None, turn=turn)

    def draw(self, rng: np.random.Generator) -> Array:
        """Return a random start."""
        return self._draw(rng)

    def neutral(self) -> Array:
        """Return the start at which the parts without values change the kernel least: faint terms, flat factors."""
        values = self._draw(None, compensate=False)
        factors = held_variances(self.expression)
        for slot in self.layout.slots:
            drawn = slot.leaf in self.copies or isinstance(self.leaves[slot.leaf], Surface)
            if not np.isnan(self.known[slot.where]).any() or drawn:
                continue  # a network's weights decide how much its primitives matter; a change has no neutral place
            columns = list(self.leaves[slot.leaf].columns)
            span, low = (np.array(a)[columns] for a in (self.frame.span, self.frame.low))
            if slot.leaf not in factors:
                if slot.spec.name == "variance":
                    values[slot.where] = 0.01
            elif slot.spec.unit == "position":
                values[slot.where] = low - 3.0 * span
            elif slot.spec.name == "lengthscale":
                longest = span if slot.size == len(span) else span.max()  # or one for all columns
                values[slot.where] = 3.0 * longest if slot.spec.unit == "length" else 5.0
        return self._compensated(values)

    def inherited(self, values: Array) -> Array:
        """Return the given values, of these those of the parts that had none."""
        return self._compensated(np.where(np.isnan(self.known), values, self.known))

    def _draw(self, rng: np.random.Generator | None, compensate: bool = True, turn: int = 0) -> Array:
        values = self.known.copy()
        terms = max(1, sum(isinstance(leaf, Base) for leaf in self.leaves))
        for slot in self.layout.slots:
            if np.isnan(values[slot.where]).any():
                leaf = self.leaves[slot.leaf]
                values[slot.where] = self._parameter(slot, leaf, terms, rng, turn)
        return self._compensated(values) if compensate else values

    def _compensated(self, values: Array) -> Array:
        """Divide a product by the mean square of each new LIN factor in it, so that its size stays."""
        lines = {n for n, each in enumerate(self.leaves) if isinstance(each, Base) and each.spec.words.role == "trend"}
        new = {s.leaf for s in self.layout.slots if s.spec.name == "offset" and np.isnan(self.known[s.where]).any()}
        new &= lines & held_variances(self.expression)
        if not new:
            return values
        numbered = iter(range(len(self.leaves)))

        def rescaled(node: Expression) -> Expression:
            if isinstance(node, Base):
                return node
            if isinstance(node, Network):  # its weights are drawn for LIN as it is; only the numbers are taken
                for _ in node.owners():
                    next(numbered)
                return node
            shares = 1.0
            parts = []
            for child in node.children:
                number = next(numbered) if isinstance(child, Base) else -1
                if isinstance(node, Product) and isinstance(child, Base) and number in new:
                    shares *= self._mean_square(child)
                parts.append(rescaled(child))
            if isinstance(node, Blend):
                next(numbered)  # its surface
            whole = node.with_children(parts)
            return multiplied(whole, 1.0 / shares) if shares != 1.0 else whole

        return values_of(rescaled(with_values(self.expression, values)))

    def _mean_square(self, leaf: Base) -> float:
        """Mean over the rows of LIN(x, x)."""
        columns = list(leaf.columns)
        offset, weights = (np.array(leaf.parameter(name).values) for name in ("offset", "weights"))
        return float(np.mean((self.data.X[:, columns] - offset) ** 2 @ weights)) or 1.0

    def _parameter(self, slot: Slot, leaf: Owner, terms: int, rng: np.random.Generator | None, turn: int) -> Array:
        columns = list(leaf.columns)
        span, gap, low = (np.array(a)[columns] for a in (self.frame.span, self.frame.gap, self.frame.low))
        name, unit, size = slot.spec.name, slot.spec.unit, slot.size
        if isinstance(leaf, Surface):
            return surface_start(name, leaf, self.data.X[:, columns], self._places_of(columns[0]), span, gap, rng)
        rank, copies = self.copies.get(slot.leaf, (0, 1))
        if isinstance(slot.spec.domain, NonNegative):
            return _network_weights(slot, len(leaf.dims or ()), rng)
        if name == "variance":
            if slot.leaf in self.copies:  # of a primitive: the weights have the size
                return _log_uniform(rng, np.array([0.5]), np.array([2.0]))
            return _log_uniform(rng, np.array([0.1 / terms]), np.array([3.0 / terms]))
        if isinstance(slot.spec.domain, Simplex):
            return np.full(size, 1.0 / size) if rng is None else rng.dirichlet(np.full(size, 3.0))
        if name == "period":
            return np.array([self._period(slot, column, rng, turn) for column in columns])
        if unit == "length":
            if len(columns) > 1:  # distances grow with the number of dimensions, and so must lengthscales
                low, high = 0.15 * span * len(columns) ** 0.5, 1.5 * span * len(columns) ** 0.5
            else:
                low, high = np.minimum(2.0 * gap, 0.05 * span), span
            if size < len(columns):  # one for all columns
                low, high = (np.exp(np.mean(np.log(end), keepdims=True)) for end in (low, high))
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
        pure = _part(np.full(size, least), np.full(size, most), rank, copies)
        return _log_uniform(rng, *pure)

    def _places_of(self, column: int) -> Array:
        if column not in self._places:
            along, y = self.data.X[:, column], self.data.y
            self._places[column] = change_places(along, y, self._peaks_of(column))
        return self._places[column]

    def _peaks_of(self, column: int) -> Array:
        if column not in self._peaks:
            found = periods(self.data.X[:, column], self.data.y, PEAKS)
            fallback = np.array([self.frame.span[column] / k for k in (3.0, 10.0)])
            self._peaks[column] = found if len(found) else fallback
        return self._peaks[column]

    def _period(self, slot: Slot, column: int, rng: np.random.Generator | None, turn: int) -> float:
        """The strongest peak for the first periodic leaf on a column, the next for the next; random ones otherwise."""
        peaks = self._peaks_of(column)
        rank, copies = self.copies.get(slot.leaf, (0, 1))
        if rng is None:
            earlier = sum(
                1 for s in self.layout.slots
                if s.spec.name == "period" and s.leaf < slot.leaf and column in list(self.leaves[s.leaf].columns)
            )  # fmt: skip
            return float(peaks[(earlier + turn) % len(peaks)])
        if copies > 1 and len(peaks) > 1:  # the copies in a network share the peaks among them
            peaks = peaks[rank % len(peaks) :: min(copies, len(peaks))]
        weights = 0.6 ** np.arange(len(peaks))
        peak = peaks[rng.choice(len(peaks), p=weights / weights.sum())]
        multiple = rng.choice([1.0, 2.0, 0.5], p=[0.8, 0.1, 0.1])
        low, high = self.frame.shortest[column], self.frame.span[column] / CYCLES
        return float(np.clip(peak * multiple, min(low, high), high))

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


def _network_weights(slot: Slot, inputs: int, rng: np.random.Generator | None) -> Array:
    """Weights around 1 / inputs, so that units of order one give units of order one; spread, so that units differ."""
    generator = np.random.default_rng(slot.offset) if rng is None else rng
    small, large = (0.2, 2.0) if rng is None else (0.05, 4.0)
    size = 1.0 / max(1, inputs)
    return _log_uniform(generator, np.full(slot.size, small * size), np.full(slot.size, large * size))


def _part(low: Array, high: Array, rank: int, copies: int) -> tuple[Array, Array]:
    """The part of a range, on a log scale, that one of several copies has for itself."""
    if copies == 1:
        return low, high
    ratio = (high / low) ** (1.0 / copies)
    return low * ratio**rank, low * ratio ** (rank + 1)


def _log_uniform(rng: np.random.Generator | None, low: Array, high: Array) -> Array:
    position = 0.5 if rng is None else rng.uniform(size=len(low))
    return np.asarray(low * (high / low) ** position)


def noise_start(rng: np.random.Generator | None) -> float:
    """Return a noise variance to begin with (the target has unit variance)."""
    return float(_log_uniform(rng, np.array([0.003]), np.array([0.5]))[0])
