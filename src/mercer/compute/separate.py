"""Take a program apart by columns: k(x, x') = k_0(x_0, x_0') k_1(x_1, x_1') ..., where it is such a product.

Every part is a program on one column (number 0 of its own input) that reads the same values vector, so gradients of
the parts add up. SE, PER, WN and the envelope of a spectral mixture on several columns are products of themselves on
one column each; RQ, Matern kernels, LIN and waves on several columns are not, nor are sums of kernels on different
columns: for those there is no answer (None).

A sum of such products, each perhaps with gates s_i(x) s_i(x') of a change surface, comes apart into its summands.

White noise inside a kernel, taken apart from the rest for sparse inference and for random features.

WN(x, x') is one where the points agree and zero elsewhere, so no number of inducing points can summarise it: left in
the kernel it would only raise tr(K - Q). But where no two rows agree, k = k0 + [x = x'] v(x) with k0 the kernel with
zero in place of WN and v(x) = k(x, x) - k0(x, x): v belongs to the noise of the row (exactly: nothing is approximated).
Where rows do agree on the columns of a WN, it correlates them, and that WN stays in the kernel: a looser bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mercer.compute.leaves import forget_with
from mercer.compute.program import Affine, LeafNode, Node, Program, Term, parts_of, renumber
from mercer.kernels.domains import Array

Columns = frozenset[tuple[int, ...]]


class _Tangled(Exception):
    """The kernel is not a product over columns."""


@dataclass
class _Part:
    """The nodes of one column, and what its product is made of."""

    nodes: list[Node] = field(default_factory=list)
    logs: list[int] = field(default_factory=list)
    factors: list[int] = field(default_factory=list)
    copied: dict[int, int] = field(default_factory=dict)


@forget_with
@lru_cache(maxsize=512)
def separate(program: Program, columns: int) -> tuple[Program, ...] | None:
    """Return one program for each column whose product is the kernel, or None; constants go to the first."""
    splitter = _Splitter(program, columns)
    try:
        splitter.split(len(program.nodes) - 1)
    except _Tangled:
        return None
    return splitter.programs()


class Summand(NamedTuple):
    """One product of a sum: the gates of change surfaces in it, and one program for each column."""

    gates: tuple[LeafNode, ...]
    parts: tuple[Program, ...]


@forget_with
@lru_cache(maxsize=512)
def summands(program: Program, columns: int) -> tuple[Summand, ...] | None:
    """Return the summands of a kernel that is a sum of products over columns, or None."""
    root = program.nodes[-1]
    if not isinstance(root, Affine):
        return None
    found = []
    for number, child in enumerate(root.children):
        splitter = _Splitter(program, columns, gated=True)
        splitter.weights += root.weights[number]
        splitter.constant *= root.multipliers[number]
        try:
            splitter.split(child)
        except _Tangled:
            return None
        found.append(Summand(tuple(splitter.gates), splitter.programs()))
    return tuple(found)


class _Splitter:
    def __init__(self, program: Program, columns: int, gated: bool = False) -> None:
        self.program, self.gated = program, gated
        self.gates: list[LeafNode] = []
        self.parts = [_Part() for _ in range(columns)]
        self.weights: list[int] = []
        self.constant = 1.0
        self.used: list[frozenset[int]] = []
        for node in program.nodes:
            if isinstance(node, LeafNode):
                self.used.append(frozenset(node.dims))
            else:
                self.used.append(frozenset().union(*(self.used[n] for n in parts_of(node))))

    def split(self, number: int, log: bool = False) -> None:
        """Deal the node (with `log`: its exponential) out to the columns."""
        node, used = self.program.nodes[number], self.used[number]
        if isinstance(node, Affine) and len(node.children) == 1 and not log:
            self.weights += node.weights[0]
            self.constant *= node.multipliers[0]
            self.split(node.children[0])
        elif isinstance(node, Term) and not log:
            for child in node.logs:
                self.split(child, log=True)
            for child in node.factors:
                self.split(child)
        elif isinstance(node, LeafNode) and node.surface is not None and self.gated and not log:
            self.gates.append(node)
        elif len(used) <= 1:
            part = self.parts[min(used, default=0)]
            (part.logs if log else part.factors).append(self.copy(part, number))
        elif isinstance(node, LeafNode) and node.flags.separable:
            for place, column in enumerate(node.dims):
                part = self.parts[column]
                part.nodes.append(LeafNode(node.kind, (0,), tuple(offset + place for offset in node.offsets)))
                (part.logs if log else part.factors).append(len(part.nodes) - 1)
        else:
            raise _Tangled

    def copy(self, part: _Part, number: int) -> int:
        """Copy a node and all below it into a part."""
        if number not in part.copied:
            node = self.program.nodes[number]
            new: Node
            if isinstance(node, LeafNode):
                if node.surface is not None:  # its surface knows the columns of the whole
                    raise _Tangled
                new = replace(node, dims=(0,) * len(node.dims))
            else:
                new = renumber(node, {n: self.copy(part, n) for n in parts_of(node)})
            part.nodes.append(new)
            part.copied[number] = len(part.nodes) - 1
        return part.copied[number]

    def programs(self) -> tuple[Program, ...]:
        result = []
        for number, part in enumerate(self.parts):
            last = len(part.nodes)
            weights, constant = (tuple(self.weights), self.constant) if number == 0 else ((), 1.0)
            nodes = (*part.nodes, Term(tuple(part.logs), tuple(part.factors)), Affine((last,), (weights,), (constant,)))
            result.append(Program(nodes, self.program.n_values, self.program.ties))
        return tuple(result)


# ------------------------------------------------------------------------------------------------------- white noise


def white_columns(program: Program) -> Columns:
    """Return the sets of columns on which the program has white noise."""
    return frozenset(leaf.dims for leaf in program.leaves if leaf.flags.white)


def find_untied(columns: Columns, X: Array) -> Columns:
    """Return those sets of columns on which no two rows agree."""
    found = set()
    for dims in columns:
        one_is_enough = any(len(np.unique(X[:, d])) == len(X) for d in dims)
        if one_is_enough or (len(dims) > 1 and len(np.unique(X[:, dims], axis=0)) == len(X)):
            found.add(dims)
    return frozenset(found)


@forget_with
@lru_cache(maxsize=4096)
def without_white(program: Program, columns: Columns | None = None) -> Program:
    """Return the program with zero in place of white noise on these sets of columns (all); the values vector stays.

    Where there is no such noise it is the program itself.
    """
    columns = white_columns(program) if columns is None else columns
    if not columns & white_columns(program):
        return program
    places = range(1, 1 + len(program.nodes))
    nodes: list[Node] = [Term((), ())]  # the constant one, from which zero is made
    for node in program.nodes:
        gone = isinstance(node, LeafNode) and node.flags.white and node.dims in columns
        nodes.append(Affine((0,), ((),), (0.0,)) if gone else renumber(node, places))
    return Program(tuple(nodes), program.n_values, program.ties)
