"""Expression -> flat program: the one thing that a back end must run.

A program is a list of nodes in order of evaluation, the last one being the kernel. Every node is a number for each pair
of points. Strictly positive base kernels give their logarithm, so that a product of them costs one exponential:

    Leaf     a unit function of one pair, or its logarithm (see LOG_KINDS)
    Term     exp(sum of the log nodes) * product of the factor nodes; an empty Term is the constant one
    Affine   sum over children of weight * child; a weight is a product of entries of the values vector, and a constant

Parameters are read from the flat values vector of `mercer.kernels.parameters`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from mercer.compute.network_program import NetworkCompiler, Unit, pruned
from mercer.compute.nodes import LOG_KINDS, STATIONARY, Affine, Leaf, LeafKind, Node, Term
from mercer.compute.surfaces import sizes
from mercer.errors import KernelError
from mercer.kernels.base import NETWORK_ONLY
from mercer.kernels.blend import Blend, Surface
from mercer.kernels.expression import Base, Expression, Product, Sum
from mercer.kernels.functional import Functional
from mercer.kernels.network import Network


@dataclass(frozen=True)
class Program:
    """Nodes in order of evaluation (the last is the kernel) and the length of the values vector."""

    nodes: tuple[Node, ...]
    n_values: int

    @cached_property
    def dimensions(self) -> int:
        """The smallest number of columns that the program can run on."""
        return 1 + max((d for node in self.nodes if isinstance(node, Leaf) for d in node.dims), default=-1)

    @cached_property
    def stationary(self) -> bool:
        """Whether k(x, x') depends on x - x' alone."""
        return all(node.kind in STATIONARY for node in self.nodes if isinstance(node, Leaf))


@lru_cache(maxsize=4096)
def compile_program(expression: Expression) -> Program:
    """Compile a bound expression. Values do not matter, only structure and dimensions."""
    compiler = _Compiler()
    if isinstance(expression, Network):
        root = compiler.network(expression)
    else:
        root = compiler.affine(expression.terms if isinstance(expression, Sum) else (expression,))
    assert root == len(compiler.nodes) - 1
    return Program(tuple(pruned(compiler.nodes)), compiler.next_value)


@dataclass
class _Factors:
    """The parts of a product: where its variances are, and its log and plain nodes."""

    weights: list[int]
    logs: list[int]
    factors: list[int]


class _Compiler:
    """Walks the expression in leaf order, so that leaves meet their parameters in the order of the values vector."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.next_value = 0

    def add(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def affine(self, terms: tuple[Expression, ...]) -> int:
        children, weights = [], []
        for parts in (parts for term in terms for parts in self.summands(term)):
            alone = not parts.logs and len(parts.factors) == 1
            children.append(parts.factors[0] if alone else self.add(Term(tuple(parts.logs), tuple(parts.factors))))
            weights.append(tuple(parts.weights))
        return self.add(Affine(tuple(children), tuple(weights)))

    def summands(self, term: Expression) -> list[_Factors]:
        """One product, or that of each regime of a change surface with its gate."""
        if not isinstance(term, Blend):
            return [self.gather(term)]
        regimes = [(i, self.gather(part)) for i, part in enumerate(term.parts) if part is not None]
        gates = self.gates(term.surface, [i for i, _ in regimes])
        return [
            _Factors(parts.weights, parts.logs, [*parts.factors, gate])
            for (_, parts), gate in zip(regimes, gates, strict=True)
        ]

    def gates(self, surface: Surface, regimes: list[int]) -> list[int]:
        """Gates of some regimes; the surface's values follow those of the parts."""
        offsets = []
        for size in sizes(surface):
            offsets.append(self.next_value)
            self.next_value += size
        bare, columns = surface.without_values(), surface.columns
        return [self.add(Leaf(LeafKind.GATE, columns, tuple(offsets), bare, i)) for i in regimes]

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
        assert isinstance(expression, Base)
        if expression.symbol in NETWORK_ONLY:
            instead = "use COS, its real part" if expression.symbol == "EXPI" else "NKN(SUMI, Linear1) is one"
            raise KernelError(f"{expression.symbol} is a primitive of a network, not a kernel on its own: {instead}")
        return self.base(expression)

    def functional(self, functional: Functional) -> _Factors:
        """v sum_k w_k u^(p_k): u once, its powers as products of lower ones."""
        parts = self.gather(functional.inside)
        assert not parts.factors, "only kernels above zero are inside"
        power = {0: self.add(Term((), ())), 1: self.add(Term(tuple(parts.logs), ()))}

        def raised(p: int) -> int:
            if p not in power:
                power[p] = self.add(Term((), (raised(p // 2), raised(p - p // 2))))
            return power[p]

        children = tuple(raised(p) for p in functional.powers)
        return _Factors(parts.weights, [], [self.add(Affine(children, ((),) * len(children), functional.weights))])

    def network(self, network: Network) -> int:
        """Return the node of the last unit; weights and biases follow the parameters of the primitives."""
        primitives = [self.primitive(part) for part in network.primitives]
        layers = NetworkCompiler(self.add)
        (last,) = layers.units(primitives, network.layers, self.next_value)
        self.next_value += sum(linear.width * (linear.inputs + 1) for linear in network.linears)
        return last.real

    def primitive(self, expression: Expression) -> Unit:
        if isinstance(expression, Base) and expression.symbol == "EXPI":
            variance, columns = self.next_value, tuple(expression.columns)
            wave = (variance + 1,)
            self.next_value += 1 + len(columns)
            real, imaginary = (self.add(Leaf(kind, columns, wave)) for kind in (LeafKind.COS, LeafKind.SIN))
            return Unit(real, imaginary, (variance,))
        parts = self.base(expression) if isinstance(expression, Base) else self.gather(expression)
        alone = not parts.logs and len(parts.factors) == 1
        node = parts.factors[0] if alone else self.add(Term(tuple(parts.logs), tuple(parts.factors)))
        return Unit(node, None, tuple(parts.weights))

    def base(self, leaf: Base) -> _Factors:
        dims = tuple(leaf.columns)
        offset: dict[str, int] = {}
        for spec in leaf.spec.parameters:
            offset[spec.name] = self.next_value
            self.next_value += spec.size(len(dims), leaf.components)
        weights = [offset["variance"]]
        if leaf.symbol == "C":
            return _Factors(weights, [], [])
        if leaf.symbol == "SM":
            return _Factors(weights, [], [self.mixture(leaf, dims, offset)])
        if leaf.symbol == "CPER":  # on several dimensions: the product of one centred function on each
            places = [(offset["period"] + i, offset["lengthscale"] + i) for i in range(len(dims))]
            nodes = [self.add(Leaf(LeafKind.CPER, (d,), place)) for d, place in zip(dims, places, strict=True)]
            return _Factors(weights, [], nodes)
        kind = LeafKind[leaf.symbol]
        node = self.add(Leaf(kind, dims, tuple(offset[s.name] for s in leaf.spec.parameters if s.name != "variance")))
        return _Factors(weights, [node], []) if kind in LOG_KINDS else _Factors(weights, [], [node])

    def mixture(self, leaf: Base, dims: tuple[int, ...], offset: dict[str, int]) -> int:
        children, weights = [], []
        for component in range(leaf.components):
            step = component * len(dims)
            envelope = self.add(Leaf(LeafKind.ENVELOPE, dims, (offset["bandwidth"] + step,)))
            wave = self.add(Leaf(LeafKind.COS, dims, (offset["frequency"] + step,)))
            children.append(self.add(Term((envelope,), (wave,))))
            weights.append((offset["weights"] + component,))
        return self.add(Affine(tuple(children), tuple(weights)))


__all__ = ["LOG_KINDS", "Affine", "Leaf", "LeafKind", "Node", "Program", "Term", "compile_program"]
