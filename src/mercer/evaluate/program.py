"""Expression -> flat program: the one thing that a back end must run.

A program is a list of nodes in order of evaluation, the last one being the kernel. Every node is a number for each pair
of points. Strictly positive base kernels give their logarithm, so that a product of them costs one exponential:

    Leaf     a unit function of one pair, or its logarithm (see LOG_KINDS)
    Term     exp(sum of the log nodes) * product of the factor nodes; an empty Term is the constant one
    Affine   sum over children of weight * child; a weight is a product of entries of the values vector

Parameters are read from the flat values vector of `mercer.kernels.parameters`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache

from mercer.kernels.expression import Base, Expression, Product, Sum


class LeafKind(IntEnum):
    """What a leaf computes; `offsets` of the leaf point at the parameters named here, in this order."""

    SE = 0  # log: -sum d^2 / 2 l^2; lengthscale
    RQ = 1  # log: -a log1p(sum d^2 / 2 a l^2); lengthscale, alpha
    M12 = 2  # log: -r; lengthscale
    M32 = 3  # log: -sqrt3 r + log1p(sqrt3 r); lengthscale
    M52 = 4  # log: -sqrt5 r + log(1 + sqrt5 r + 5 r^2 / 3); lengthscale
    ENVELOPE = 5  # log: -2 pi^2 sum b^2 d^2; bandwidth (the fading of one component of SM)
    PER = 6  # log: -sum (1 - cos(2 pi d / p)) / l^2; period, lengthscale
    CPER = 7  # (exp(q (cos t - 1)) - I0e(q)) / (1 - I0e(q)), t = 2 pi d / p, q = 1 / l^2; period, lengthscale
    LIN = 8  # sum w (x - c)(x' - c); offset, weights
    COS = 9  # cos(2 pi f.d); frequency
    WN = 10  # [d = 0]


LOG_KINDS = frozenset(
    {LeafKind.SE, LeafKind.RQ, LeafKind.M12, LeafKind.M32, LeafKind.M52, LeafKind.ENVELOPE, LeafKind.PER}
)


@dataclass(frozen=True)
class Leaf:
    """A unit function of one pair on some columns; `offsets` point at its parameter blocks in the values vector."""

    kind: LeafKind
    dims: tuple[int, ...]
    offsets: tuple[int, ...]


@dataclass(frozen=True)
class Term:
    """exp(sum of `logs`) times the product of `factors` (node numbers)."""

    logs: tuple[int, ...]
    factors: tuple[int, ...]


@dataclass(frozen=True)
class Affine:
    """Weighted sum of `children` (node numbers); weights[i] lists the values whose product weighs children[i]."""

    children: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...]


Node = Leaf | Term | Affine


@dataclass(frozen=True)
class Program:
    """Nodes in order of evaluation (the last is the kernel) and the length of the values vector."""

    nodes: tuple[Node, ...]
    n_values: int

    @cached_property
    def dimensions(self) -> int:
        """The smallest number of columns that the program can run on."""
        return 1 + max((d for node in self.nodes if isinstance(node, Leaf) for d in node.dims), default=-1)


@lru_cache(maxsize=4096)
def compile_program(expression: Expression) -> Program:
    """Compile a bound expression. Values do not matter, only structure and dimensions."""
    compiler = _Compiler()
    root = compiler.affine(expression.terms if isinstance(expression, Sum) else (expression,))
    assert root == len(compiler.nodes) - 1
    return Program(tuple(compiler.nodes), compiler.next_value)


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
        for term in terms:
            parts = self.gather(term)
            alone = not parts.logs and len(parts.factors) == 1
            children.append(parts.factors[0] if alone else self.add(Term(tuple(parts.logs), tuple(parts.factors))))
            weights.append(tuple(parts.weights))
        return self.add(Affine(tuple(children), tuple(weights)))

    def gather(self, expression: Expression) -> _Factors:
        if isinstance(expression, Sum):
            return _Factors([], [], [self.affine(expression.terms)])
        if isinstance(expression, Product):
            parts = [self.gather(factor) for factor in expression.factors]
            return _Factors(
                [weight for part in parts for weight in part.weights],
                [node for part in parts for node in part.logs],
                [node for part in parts for node in part.factors],
            )
        assert isinstance(expression, Base)
        return self.base(expression)

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
