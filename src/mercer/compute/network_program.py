"""A neural kernel network as nodes of a program.

Units are shared: each is computed once and read by every unit above it. A complex unit is a pair of nodes, the second
None where the imaginary part is zero; (a + ib)(c + id) = (ac - bd) + i (ad + bc). Nobody asks for the imaginary part of
the last unit, nor for what only it needs: `pruned` takes that out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mercer.compute.nodes import Affine, Leaf, Node, Term
from mercer.kernels.layers import Exponential, Layer, Linear, Multiply, Polynomial


@dataclass(frozen=True)
class Unit:
    """One unit: the nodes of its parts, and the values whose product multiplies both (a primitive's variance)."""

    real: int
    imaginary: int | None = None
    weights: tuple[int, ...] = ()


@dataclass(frozen=True)
class NetworkCompiler:
    """Adds the layers of a network to a program: `add` appends a node and returns its number."""

    add: Callable[[Node], int]

    def units(self, primitives: Sequence[Unit], layers: Sequence[Layer], first_value: int) -> list[Unit]:
        """Return the units of the last layer; `first_value` is the place of the first weight in the values vector."""
        units, one = list(primitives), self.add(Term((), ()))
        for number, layer in enumerate(layers):
            if isinstance(layer, Linear):
                last = number == len(layers) - 1
                units = [self.linear(units, layer, u, first_value, one, last) for u in range(layer.width)]
                first_value += layer.width * layer.inputs + layer.width
            elif isinstance(layer, Multiply):
                steps = range(0, len(units), layer.step)
                units = [self.product(units[start : start + layer.step]) for start in steps]
            elif isinstance(layer, Exponential):
                units = [Unit(self.add(Term((unit.real,), ()))) for unit in units]
            else:
                units = [self.polynomial(unit, layer, one) for unit in units]
        return units

    def linear(self, units: list[Unit], layer: Linear, row: int, first: int, one: int, last: bool) -> Unit:
        """sum_j w_j unit_j + bias."""
        places = [(first + row * layer.inputs + j, *unit.weights) for j, unit in enumerate(units)]
        bias = first + layer.width * layer.inputs + row
        parts = [(u.imaginary, p) for u, p in zip(units, places, strict=True) if u.imaginary is not None]
        imaginary = None
        if parts and not last:
            imaginary = self.add(Affine(tuple(node for node, _ in parts), tuple(p for _, p in parts)))
        real = self.add(Affine((*(u.real for u in units), one), (*places, (bias,))))
        return Unit(real, imaginary)

    def product(self, units: list[Unit]) -> Unit:
        """Real units in one product; complex ones two by two."""
        if len(units) == 1:
            return units[0]
        if all(unit.imaginary is None for unit in units):
            return Unit(self.add(Term((), tuple(unit.real for unit in units))))
        result = units[0]
        for unit in units[1:]:
            result = self.times(result, unit)
        return result

    def times(self, a: Unit, b: Unit) -> Unit:
        """(a + ib)(c + id)."""
        real = self.both(a.real, b.real)
        if a.imaginary is not None and b.imaginary is not None:
            real = self.add(Affine((real, self.both(a.imaginary, b.imaginary)), ((), ()), (1.0, -1.0)))
        crossed = [self.both(x, y) for x, y in ((a.real, b.imaginary), (a.imaginary, b.real)) if None not in (x, y)]
        if len(crossed) == 2:
            return Unit(real, self.add(Affine(tuple(crossed), ((), ()))))
        return Unit(real, crossed[0] if crossed else None)

    def both(self, a: int | None, b: int | None) -> int:
        assert a is not None
        assert b is not None
        return self.add(Term((), (a, b)))

    def polynomial(self, unit: Unit, layer: Polynomial, one: int) -> Unit:
        """c0 + c1 z + c2 z^2 + ...; only the powers that are there."""
        power, powers = unit, [(layer.coefficients[0], Unit(one))]
        for coefficient in layer.coefficients[1:]:
            if len(powers) > 1:
                power = self.times(power, unit)
            powers.append((coefficient, power))
        kept = [(c, p) for c, p in powers if c != 0.0] or [(0.0, Unit(one))]
        real = self.add(Affine(tuple(p.real for _, p in kept), ((),) * len(kept), tuple(c for c, _ in kept)))
        parts = [(c, p.imaginary) for c, p in kept if p.imaginary is not None]
        if not parts:
            return Unit(real)
        constants = tuple(c for c, _ in parts)
        return Unit(real, self.add(Affine(tuple(node for _, node in parts), ((),) * len(parts), constants)))


def pruned(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes that the last one needs, renumbered."""
    needed = [False] * len(nodes)
    needed[-1] = True
    for number in range(len(nodes) - 1, -1, -1):
        for part in _parts(nodes[number]) if needed[number] else ():
            needed[part] = True
    place: dict[int, int] = {}
    kept: list[Node] = []
    for number, node in enumerate(nodes):
        if needed[number]:
            place[number] = len(kept)
            kept.append(_renumbered(node, place))
    return kept


def _parts(node: Node) -> tuple[int, ...]:
    if isinstance(node, Leaf):
        return ()
    return node.logs + node.factors if isinstance(node, Term) else node.children


def _renumbered(node: Node, place: dict[int, int]) -> Node:
    if isinstance(node, Leaf):
        return node
    if isinstance(node, Term):
        return Term(tuple(place[n] for n in node.logs), tuple(place[n] for n in node.factors))
    return Affine(tuple(place[n] for n in node.children), node.weights, node.constants)
