"""White noise inside a kernel, taken apart from the rest for sparse inference and for random features.

WN(x, x') is one where the points agree and zero elsewhere, so no number of inducing points can summarise it: left in
the kernel it would only raise tr(K - Q). But where no two rows agree, k = k0 + [x = x'] v(x) with k0 the kernel with
zero in place of WN and v(x) = k(x, x) - k0(x, x): v belongs to the noise of the row (exactly: nothing is approximated).
Where rows do agree on the columns of a WN, it correlates them, and that WN stays in the kernel: a looser bound.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from mercer.compute.leaves import forget_with
from mercer.compute.program import Affine, LeafNode, Node, Program, Term, renumber
from mercer.kernels.domains import Array

Columns = frozenset[tuple[int, ...]]


def white_columns(program: Program) -> Columns:
    """Return the sets of columns on which the program has white noise."""
    return frozenset(leaf.dims for leaf in program.leaves if leaf.flags.white)


def untied(columns: Columns, X: Array) -> Columns:
    """Return those sets of columns on which no two rows agree."""
    return frozenset(dims for dims in columns if _all_differ(X, dims))


def _all_differ(X: Array, dims: tuple[int, ...]) -> bool:
    if any(len(np.unique(X[:, d])) == len(X) for d in dims):
        return True
    return len(dims) > 1 and len(np.unique(X[:, dims], axis=0)) == len(X)


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
