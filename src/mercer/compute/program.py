"""Expression -> flat program: the one thing that a back end must run.

A program is a list of nodes in order of evaluation, the last one being the kernel. Every node is a number for each pair
of points. Strictly positive base kernels give their logarithm, so that a product of them costs one exponential:

    LeafNode  a unit function of one pair, or its logarithm (`log_form` of its record)
    Term      exp(sum of the log nodes) * product of the factor nodes; an empty Term is the constant one
    Affine    sum over children of weight * child; a weight is a product of entries of the values vector, and a constant

Parameters are read from the flat values vector of `mercer.kernels.parameters`. Where one lengthscale stands for several
columns, the vector is made wider by one entry for each column, tied to the one value: then no back end need know. The
gradient by the wider vector is added up in the same way.

The units of a network are shared: each is computed once and read by every unit above it. A complex unit is a pair of
nodes, the second None where the imaginary part is zero; (a + ib)(c + id) = (ac - bd) + i (ad + bc). Nobody asks for the
imaginary part of the last unit, nor for what only it needs: `_prune` takes that out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import NamedTuple

import numpy as np

from mercer.compute.leaves import Kind, forget_with, kind_of
from mercer.errors import KernelError
from mercer.kernels.blend import Blend, Surface
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression, Product, Sum
from mercer.kernels.functional import Functional
from mercer.kernels.layers import Exponential, Linear, Multiply, Polynomial
from mercer.kernels.network import Network


@dataclass(frozen=True)
class LeafNode:
    """A unit function of one pair on some columns; `offsets` point at its parameter blocks in the values vector."""

    kind: str
    dims: tuple[int, ...]
    offsets: tuple[int, ...]
    surface: Surface | None = None  # of a gate, s_i(x) s_i(x'): without values, as those are in the values vector
    regime: int = 0
    count: int = 1  # components of one whose parameters have a value for each

    @property
    def flags(self) -> Kind:
        """What is known of this kind of leaf."""
        return kind_of(self.kind)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each parameter has."""
        if self.surface is not None:
            return self.surface.sizes
        return self.flags.sizes(len(self.dims) if self.count == 1 else self.count)


@dataclass(frozen=True)
class Term:
    """exp(sum of `logs`) times the product of `factors` (node numbers); a log is a leaf or the input of an Exp unit."""

    logs: tuple[int, ...]
    factors: tuple[int, ...]


@dataclass(frozen=True)
class Affine:
    """Weighted sum of `children` (node numbers); weights[i] lists the values whose product weighs children[i].

    `constants` multiply the weights; none: they are one.
    """

    children: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...]
    constants: tuple[float, ...] = ()

    @property
    def multipliers(self) -> tuple[float, ...]:
        """The constants, written out."""
        return self.constants or (1.0,) * len(self.children)

    @property
    def edges(self) -> Iterator[tuple[int, tuple[int, ...], float]]:
        """Each child with the places of the values that weigh it, and its constant."""
        return zip(self.children, self.weights, self.multipliers, strict=True)


Node = LeafNode | Term | Affine


class Tie(NamedTuple):
    """A further entry of the values vector: the entry at `source`, times `ratio`."""

    source: int
    ratio: float


def parts_of(node: Node) -> tuple[int, ...]:
    """Return the nodes that a node reads."""
    if isinstance(node, LeafNode):
        return ()
    return node.logs + node.factors if isinstance(node, Term) else node.children


def renumber(node: Node, place: Sequence[int] | dict[int, int]) -> Node:
    """Return a node that reads others at their new places."""
    if isinstance(node, LeafNode):
        return node
    if isinstance(node, Term):
        return Term(tuple(place[n] for n in node.logs), tuple(place[n] for n in node.factors))
    return Affine(tuple(place[n] for n in node.children), node.weights, node.constants)


@dataclass(frozen=True)
class Program:
    """Nodes in order of evaluation (the last is the kernel), the length of the values vector, its further entries."""

    nodes: tuple[Node, ...]
    n_values: int
    ties: tuple[Tie, ...] = ()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """What tapes are found by, at every evaluation: to go through all nodes each time takes longer than to look."""
        return hash((self.nodes, self.n_values, self.ties))

    @cached_property
    def columns(self) -> frozenset[int]:
        """The columns that some leaf reads."""
        return frozenset(d for leaf in self.leaves for d in leaf.dims)

    @cached_property
    def leaves(self) -> tuple[LeafNode, ...]:
        """The nodes that are leaves."""
        return tuple(node for node in self.nodes if isinstance(node, LeafNode))

    @cached_property
    def dimensions(self) -> int:
        """The smallest number of columns that the program can run on."""
        return 1 + max((d for leaf in self.leaves for d in leaf.dims), default=-1)

    @cached_property
    def stationary(self) -> bool:
        """Whether k(x, x') depends on x - x' alone."""
        return all(leaf.flags.stationary for leaf in self.leaves)

    def widen(self, values: Array) -> Array:
        """Return the values with the further entries."""
        values = np.ascontiguousarray(values, dtype=np.float64)
        return np.append(values, [ratio * values[source] for source, ratio in self.ties]) if self.ties else values

    def narrow(self, gradient: Array) -> Array:
        """Return the gradient by the values, given that by the values with the further entries."""
        result = gradient[: self.n_values]
        for (source, ratio), further in zip(self.ties, gradient[self.n_values :], strict=True):
            result[source] += ratio * further
        return result


@forget_with
@lru_cache(maxsize=4096)
def compile_program(expression: Expression) -> Program:
    """Compile a bound expression. Values do not matter, only structure and dimensions."""
    sizes = [s.size(len(o.dims or ()), o.components) for o in expression.owners() for s in o.specs]
    compiler = _TapeBuilder(sum(sizes))
    if isinstance(expression, Network):
        root = compiler.network(expression)
    else:
        root = compiler.affine(expression.terms if isinstance(expression, Sum) else (expression,))
    assert root == len(compiler.nodes) - 1
    assert compiler.next_value == compiler.n_values
    return Program(_prune(compiler.nodes), compiler.n_values, tuple(compiler.ties))


@dataclass
class _Factors:
    """The parts of a product: where its variances are, and its log and plain nodes."""

    weights: list[int]
    logs: list[int]
    factors: list[int]


@dataclass(frozen=True)
class _Unit:
    """One unit: the nodes of its parts, and the values whose product multiplies both (a primitive's variance)."""

    real: int
    imaginary: int | None = None
    weights: tuple[int, ...] = ()


class _TapeBuilder:
    """Walks the expression in leaf order, so that leaves meet their parameters in the order of the values vector."""

    def __init__(self, n_values: int) -> None:
        self.nodes: list[Node] = []
        self.ties: list[Tie] = []
        self.next_value, self.n_values = 0, n_values

    def add(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def node_of(self, parts: _Factors) -> int:
        """The node of a product."""
        alone = not parts.logs and len(parts.factors) == 1
        return parts.factors[0] if alone else self.add(Term(tuple(parts.logs), tuple(parts.factors)))

    def affine(self, terms: tuple[Expression, ...]) -> int:
        children, weights = [], []
        for parts in (parts for term in terms for parts in self.summands(term)):
            children.append(self.node_of(parts))
            weights.append(tuple(parts.weights))
        return self.add(Affine(tuple(children), tuple(weights)))

    def summands(self, term: Expression) -> list[_Factors]:
        """One product, or that of each regime of a change surface with its gate."""
        if not isinstance(term, Blend):
            return [self.gather(term)]
        regimes = [(i, self.gather(part)) for i, part in enumerate(term.parts) if part is not None]
        offsets = tuple(self.take(size) for size in term.surface.sizes)  # its values follow those of the parts
        bare, columns = term.surface.without_values(), term.surface.columns
        return [
            _Factors(parts.weights, parts.logs, [*parts.factors, self.add(LeafNode("GATE", columns, offsets, bare, i))])
            for i, parts in regimes
        ]

    def take(self, size: int) -> int:
        """Return the place of the next values, and go on behind them."""
        self.next_value += size
        return self.next_value - size

    def gather(self, expression: Expression) -> _Factors:
        if isinstance(expression, Sum):
            return _Factors([], [], [self.affine(expression.terms)])
        if isinstance(expression, Blend):
            return _Factors([], [], [self.affine((expression,))])
        if isinstance(expression, Product):
            parts = [self.gather(factor) for factor in expression.factors]
            return _Factors(
                [weight for part in parts for weight in part.weights],
                [node for part in parts for node in part.logs],
                [node for part in parts for node in part.factors],
            )
        if isinstance(expression, Network):
            return _Factors([], [], [self.network(expression)])
        if isinstance(expression, Functional):
            return self.functional(expression)
        if not isinstance(expression, Base):
            raise TypeError(f"unknown kind of kernel {type(expression).__name__}")
        if instead := expression.spec.outside_networks:
            raise KernelError(f"{expression.symbol} is a primitive of a network, not a kernel on its own: {instead}")
        return self.base(expression)

    def functional(self, functional: Functional) -> _Factors:
        """v sum_k w_k u^(p_k): u once, its powers as products of lower ones."""
        parts = self.gather(functional.inside)
        assert not parts.factors, "only kernels above zero are inside"
        power = {0: self.add(Term((), ())), 1: self.add(Term(tuple(parts.logs), ()))}

        def raise_to(p: int) -> int:
            if p not in power:
                power[p] = self.add(Term((), (raise_to(p // 2), raise_to(p - p // 2))))
            return power[p]

        children = tuple(raise_to(p) for p in functional.powers)
        return _Factors(parts.weights, [], [self.add(Affine(children, ((),) * len(children), functional.weights))])

    # -------------------------------------------------------------------------------------------------- base kernels

    def base(self, leaf: Base) -> _Factors:
        dims, spec = tuple(leaf.columns), leaf.spec
        places = [self.take(each.size(len(dims), leaf.components)) for each in leaf.specs]
        weights, offsets = [places[0]], tuple(places[1:])
        if spec.form == "constant":
            return _Factors(weights, [], [])
        if spec.form == "mixture":
            return _Factors(weights, [], [self.mixture(leaf, dims, offsets)])
        if spec.form == "per column":  # on several columns: the product of one function on each
            each = [(d, tuple(offset + i for offset in offsets)) for i, d in enumerate(dims)]
            return _Factors(weights, [], [self.add(LeafNode(leaf.symbol, (d,), place)) for d, place in each])
        if spec.form != "node":
            raise TypeError(f"unknown form {spec.form} of {leaf.symbol}")
        if leaf.isotropic:
            offsets = tuple(
                self.tie(offset, leaf.ratios or (1.0,) * len(dims)) if each.name == "lengthscale" else offset
                for offset, each in zip(offsets, leaf.specs[1:], strict=True)
            )
        node = self.add(LeafNode(leaf.symbol, dims, offsets, count=leaf.components))
        return _Factors(weights, [node], []) if spec.log_form else _Factors(weights, [], [node])

    def tie(self, source: int, ratios: Sequence[float]) -> int:
        """Return the place of further entries, one for each ratio, that are tied to one value."""
        self.ties += [Tie(source, ratio) for ratio in ratios]
        return self.n_values + len(self.ties) - len(ratios)

    def mixture(self, leaf: Base, dims: tuple[int, ...], offsets: tuple[int, ...]) -> int:
        shares, frequency, bandwidth = offsets
        children, weights = [], []
        for component in range(leaf.components):
            step = component * len(dims)
            envelope = self.add(LeafNode("ENVELOPE", dims, (bandwidth + step,)))
            wave = self.add(LeafNode("COS", dims, (frequency + step,)))
            children.append(self.add(Term((envelope,), (wave,))))
            weights.append((shares + component,))
        return self.add(Affine(tuple(children), tuple(weights)))

    # ------------------------------------------------------------------------------------------------------ networks

    def network(self, network: Network) -> int:
        """Return the node of the last unit; weights and biases follow the parameters of the primitives."""
        units, one = [self.primitive(part) for part in network.primitives], self.add(Term((), ()))
        for number, layer in enumerate(network.layers):
            if isinstance(layer, Linear):
                first = self.take(layer.width * (layer.inputs + 1))
                last = number == len(network.layers) - 1
                units = [self.linear(units, layer, row, first, one, last) for row in range(layer.width)]
            elif isinstance(layer, Multiply):
                steps = range(0, len(units), layer.step)
                units = [self.multiply(units[start : start + layer.step]) for start in steps]
            elif isinstance(layer, Exponential):
                units = [_Unit(self.add(Term((unit.real,), ()))) for unit in units]
            else:
                units = [self.polynomial(unit, layer, one) for unit in units]
        return units[0].real

    def primitive(self, expression: Expression) -> _Unit:
        if isinstance(expression, Base) and expression.spec.form == "complex":
            columns = tuple(expression.columns)
            variance, wave = self.take(1), (self.take(len(columns)),)
            real, imaginary = (self.add(LeafNode(kind, columns, wave)) for kind in ("COS", "SIN"))
            return _Unit(real, imaginary, (variance,))
        parts = self.base(expression) if isinstance(expression, Base) else self.gather(expression)
        return _Unit(self.node_of(parts), None, tuple(parts.weights))

    def combine(self, parts: Sequence[tuple[int | None, tuple[int, ...], float]]) -> int | None:
        """Return the sum of nodes (None: zero) times the values at some places and constants; None where it is zero."""
        children = tuple(node for node, _, _ in parts if node is not None)
        weights = tuple(places for node, places, _ in parts if node is not None)
        constants = tuple(constant for node, _, constant in parts if node is not None)
        plain = all(constant == 1.0 for constant in constants)
        if len(children) <= 1 and plain and not any(weights):
            return children[0] if children else None
        return self.add(Affine(children, weights, () if plain else constants))

    def linear(self, units: list[_Unit], layer: Linear, row: int, first: int, one: int, last: bool) -> _Unit:
        """sum_j w_j unit_j + bias."""
        places = [(first + row * layer.inputs + j, *unit.weights) for j, unit in enumerate(units)]
        bias = (first + layer.width * layer.inputs + row,)
        parts = [] if last else [(unit.imaginary, place, 1.0) for unit, place in zip(units, places, strict=True)]
        imaginary = self.combine(parts)
        real = self.add(Affine((*(unit.real for unit in units), one), (*places, bias)))
        return _Unit(real, imaginary)

    def multiply(self, units: list[_Unit]) -> _Unit:
        """Real units in one product; complex ones two by two."""
        if len(units) > 1 and all(unit.imaginary is None for unit in units):
            return _Unit(self.add(Term((), tuple(unit.real for unit in units))))
        return reduce(self.times, units)

    def times(self, a: _Unit, b: _Unit) -> _Unit:
        """(a + ib)(c + id)."""

        def product(x: int | None, y: int | None) -> int | None:
            return None if x is None or y is None else self.add(Term((), (x, y)))

        real = self.combine([(product(a.real, b.real), (), 1.0), (product(a.imaginary, b.imaginary), (), -1.0)])
        imaginary = self.combine([(product(a.real, b.imaginary), (), 1.0), (product(a.imaginary, b.real), (), 1.0)])
        assert real is not None
        return _Unit(real, imaginary)

    def polynomial(self, unit: _Unit, layer: Polynomial, one: int) -> _Unit:
        """c0 + c1 z + c2 z^2 + ...; only the powers that are there."""
        powers = [_Unit(one), unit]
        while len(powers) < len(layer.coefficients):
            powers.append(self.times(powers[-1], unit))
        kept = [(power, c) for power, c in zip(powers, layer.coefficients, strict=True) if c != 0.0]
        real = self.combine([(power.real, (), c) for power, c in kept])
        assert real is not None, "some coefficient is above zero"
        return _Unit(real, self.combine([(power.imaginary, (), c) for power, c in kept]))


def _prune(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return the nodes that the last one needs, renumbered."""
    needed = [False] * len(nodes)
    needed[-1] = True
    for number in range(len(nodes) - 1, -1, -1):
        for part in parts_of(nodes[number]) if needed[number] else ():
            needed[part] = True
    place: dict[int, int] = {}
    kept: list[Node] = []
    for number, node in enumerate(nodes):
        if needed[number]:
            place[number] = len(kept)
            kept.append(renumber(node, place))
    return tuple(kept)
