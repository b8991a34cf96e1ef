"""Gradient contractions of rectangles and diagonals on the CPU: what sparse inference needs besides the square one.

    contract_cross      sum_ij (B_ij + left_i right_j) d k(x_i, z_j) / d values
    contract_diagonal   sum_i b_i d k(x_i, x_i) / d values

The same nodes run backwards as for a square Gram matrix (fused_sweep.reverse); rows are dealt to threads in a fixed
number of parts, so that the sums do not depend on how many threads there are.
"""

from __future__ import annotations

import numpy as np

from mercer.compute import fused
from mercer.compute import fused_sweep as sweep
from mercer.compute.compiling import compiled
from mercer.compute.fused_leaves import as_columns
from mercer.compute.program import Program
from mercer.kernels.domains import Array
from mercer.linalg.threads import SMALL


@compiled
def cross_contract_rows(  # type: ignore[no-untyped-def]
    first, last, main, nodes, pool, edge_child, weight, coef, slot, none, xa, ta, xb, tb,
    matrix, left, right, shared, sums, edge_place, by_left, by_right,
):  # fmt: skip
    """Add to `sums` the contraction of matrix + left right' with the derivatives of some rows of a rectangle."""
    buffer = np.empty((len(nodes), sweep.BLOCK))
    bar = np.empty((len(nodes), sweep.BLOCK))
    work = np.empty(sweep.BLOCK)
    count = xb.shape[1]
    root = len(nodes) - 1
    for i in range(first, last):
        own = left[i]
        for j0 in range(0, count, sweep.BLOCK):
            m = min(sweep.BLOCK, count - j0)
            sweep.forward(
                main, False, nodes, pool, edge_child, weight, coef, slot, none, 0, xa, ta, i, xb, tb, j0, m, buffer
            )
            sweep.clear_shared(main, bar, shared, m)
            for l in range(m):
                bar[root, l] = matrix[i, j0 + l] + own * right[j0 + l]
            sweep.reverse(
                main, False, nodes, pool, edge_child, weight, coef, slot, none, 0,
                xa, ta, i, xb, tb, j0, m, buffer, bar, shared, work, sums, edge_place, by_left, by_right,
            )  # fmt: skip


@compiled
def diagonal_contract_rows(  # type: ignore[no-untyped-def]
    first, last, main, nodes, pool, edge_child, weight, coef, slot, none, x, table, vector, shared, sums, edge_place,
    by_point,
):  # fmt: skip
    """Add to `sums` the contraction of a vector with the derivatives of k(x_i, x_i) for some rows."""
    buffer = np.empty((len(nodes), sweep.BLOCK))
    bar = np.empty((len(nodes), sweep.BLOCK))
    work = np.empty(sweep.BLOCK)
    root = len(nodes) - 1
    for i in range(first, last):
        sweep.forward(
            main, False, nodes, pool, edge_child, weight, coef, slot, none, 0, x, table, i, x, table, i, 1, buffer
        )
        sweep.clear_shared(main, bar, shared, 1)
        bar[root, 0] = vector[i]
        sweep.reverse(
            main, False, nodes, pool, edge_child, weight, coef, slot, none, 0,
            x, table, i, x, table, i, 1, buffer, bar, shared, work, sums, edge_place, by_point, by_point,
        )  # fmt: skip


def contract_cross(
    program: Program,
    values: Array,
    X: Array,
    Z: Array,
    matrix: Array,
    left: Array | None = None,
    right: Array | None = None,
) -> Array:
    """Return sum_ij (matrix + left right')_ij d k(x_i, z_j) / d values; without the vectors the matrix stands alone."""
    ready = fused._ready(program, values, even=False)
    ours, theirs = as_columns(np.asarray(X, dtype=np.float64)), as_columns(np.asarray(Z, dtype=np.float64))
    origin = theirs[:, 0].copy() if theirs.shape[1] else np.zeros(len(theirs))
    tables = fused._waves(ready, ours, origin), fused._waves(ready, theirs, origin)
    left = np.zeros(len(X)) if left is None else np.ascontiguousarray(left, dtype=np.float64)
    right = np.zeros(len(Z)) if right is None else np.ascontiguousarray(right, dtype=np.float64)
    matrix = np.ascontiguousarray(matrix, dtype=np.float64)
    edges, sums, none = _edges(len(X)), _sums(ready, len(X)), np.empty((0, 0))
    by_left, by_right = (np.zeros((len(sums), ready.tape.n_gates, side.shape[1])) for side in (ours, theirs))

    def task(part: int) -> None:
        cross_contract_rows(
            edges[part], edges[part + 1], ready.tape.main, *ready.arrays, none, ours, tables[0], theirs, tables[1],
            matrix, left, right, ready.tape.shared, sums[part], ready.tape.edge_place, by_left[part], by_right[part],
        )  # fmt: skip

    fused._run(task, len(sums))
    gradient = fused.by_values(ready, sums.sum(axis=0))
    fused.add_gates(ready, ours, by_left.sum(axis=0), gradient)
    fused.add_gates(ready, theirs, by_right.sum(axis=0), gradient)
    return program.narrow(gradient)


def contract_diagonal(program: Program, values: Array, X: Array, vector: Array) -> Array:
    """Return sum_i vector_i d k(x_i, x_i) / d values."""
    if program.stationary and len(X) > 1:
        return contract_diagonal(program, values, X[:1], np.array([np.sum(vector)]))
    ready = fused._ready(program, values, even=False)
    columns = as_columns(np.asarray(X, dtype=np.float64))
    table = fused._waves(ready, columns, columns[:, 0].copy() if len(X) else np.zeros(len(columns)))
    vector = np.ascontiguousarray(vector, dtype=np.float64)
    edges, sums, none = _edges(len(X)), _sums(ready, len(X)), np.empty((0, 0))
    by_point = np.zeros((len(sums), ready.tape.n_gates, len(X)))

    def task(part: int) -> None:
        diagonal_contract_rows(
            edges[part], edges[part + 1], ready.tape.main, *ready.arrays, none, columns, table,
            vector, ready.tape.shared, sums[part], ready.tape.edge_place, by_point[part],
        )  # fmt: skip

    fused._run(task, len(sums))
    gradient = fused.by_values(ready, sums.sum(axis=0))
    fused.add_gates(ready, columns, by_point.sum(axis=0), gradient)
    return program.narrow(gradient)


def _edges(rows: int) -> list[int]:
    """Split the rows into parts; the number of parts depends on nothing but the number of rows."""
    return [int(edge) for edge in np.linspace(0, rows, fused.PARTS + 1 if rows >= SMALL else 2)]


def _sums(ready: fused._Ready, rows: int) -> Array:
    return np.zeros((len(_edges(rows)) - 1, ready.tape.n_sums))
