"""The gradient of a rectangle by its right-hand points on the CPU: what moving inducing points needs.

    contract_points     sum_i (B_ij + left_i right_j) d k(x_i, z_j) / d z_j,   for every j and column

The tape runs backwards as in fused_sweep.reverse; only what leaves do with their sensitivities is different. With
u = x - z and h of fused_leaves.radial_slope, d log k / d z_d = h u_d / l_d^2 for the radial kernels.
"""

from __future__ import annotations

import numpy as np

from mercer.compute import fused
from mercer.compute import fused_leaves as leaf
from mercer.compute import fused_sweep as sweep
from mercer.compute import fused_waves as wave
from mercer.compute.compiling import call, compiled
from mercer.compute.fused_leaves import COS, CPER, ENVELOPE, LIN, PER, RQ, SE, SIN, SUMI, TWO_PI, as_columns
from mercer.compute.leaves import Compiled, compiled_functions
from mercer.compute.program import Program
from mercer.compute.tape import (
    AFFINE,
    CODE,
    COUNT,
    END,
    EXP,
    EXTERNAL,
    FIRST,
    PLACE,
    POINTS,
    PRODUCT,
    START,
    WAVE,
)  # fmt: skip
from mercer.kernels.domains import Array
from mercer.linalg.threads import SMALL


@compiled
def radial_points(kind, bar, work, m, dims, coef, sums, xa, i, xb, j0, moved):
    """moved_d += bar h (x_d - z_d) / l_d^2."""
    leaf.radial_slope(kind, bar, work, m, dims, coef, sums, xa, i, xb, j0)
    for k in range(len(dims)):
        scale = coef[k]  # 1 / l^2, or half of it, or that divided by alpha
        if kind == SE or kind == ENVELOPE:
            scale *= 2.0
        elif kind == RQ:
            scale *= 2.0 * coef[len(dims)]
        x, other, out = xa[dims[k], i], xb[dims[k], j0 : j0 + m], moved[dims[k], j0 : j0 + m]
        for l in range(m):
            out[l] += scale * work[l] * (x - other[l])


@compiled
def wave_points(code, bar, work, m, dims, coef, values, first, ta, i, tb, j0, row, moved):
    """With t = 2 pi (x - z) / p or 2 pi f.(x - z): d cos t / d z_d = sin t 2 pi f_d, f = 1 / p for PER and CPER."""
    if code == CPER:
        wave.cper_falls(work, m, coef[0], ta, i, tb, j0, row)
    for k in range(len(dims)):
        at = row + 2 * k if code == PER else row
        c, s, rate = ta[at, i], ta[at + 1, i], TWO_PI * values[first + k]
        cb, sb, out = tb[at, j0 : j0 + m], tb[at + 1, j0 : j0 + m], moved[dims[k], j0 : j0 + m]
        if code == PER:
            rate = coef[k] * TWO_PI / values[first + k]
            for l in range(m):
                out[l] += rate * bar[l] * (s * cb[l] - c * sb[l])
        elif code == CPER:
            rate = coef[0] * TWO_PI / (values[first] * coef[1])
            for l in range(m):
                out[l] += rate * bar[l] * (1.0 + work[l]) * (s * cb[l] - c * sb[l])
        elif code == COS:
            for l in range(m):
                out[l] += rate * bar[l] * (s * cb[l] - c * sb[l])
        elif code == SIN:
            for l in range(m):
                out[l] -= rate * bar[l] * (c * cb[l] + s * sb[l])
        elif code == SUMI:  # cos of the phase of x times cos of the phase of z
            for l in range(m):
                out[l] -= rate * bar[l] * c * sb[l]


@compiled
def leaf_points(node, pool, coef, values, xa, ta, i, xb, tb, j0, m, bar, work, sums, moved):
    """Add what one leaf has to say about where the right-hand points of a block should go."""
    code = node[CODE]
    dims, own = pool[node[START] : node[END]], coef[node[PLACE] :]
    if code == PER or code == CPER or code == COS or code == SIN or code == SUMI:
        wave_points(code, bar, work, m, dims, own, values, node[FIRST], ta, i, tb, j0, node[WAVE], moved)
    elif code == LIN:
        for k in range(len(dims)):
            slope, out = own[len(dims) + k] * (xa[dims[k], i] - own[k]), moved[dims[k], j0 : j0 + m]
            for l in range(m):
                out[l] += slope * bar[l]
    elif code <= ENVELOPE:
        radial_points(code, bar, work, m, dims, own, sums[node[PLACE] :], xa, i, xb, j0, moved)
    elif code == EXTERNAL:
        sides = (xa.ctypes.data, xa.shape[1], i, xb.ctypes.data, xb.shape[1], j0, len(xa))
        given = (bar.ctypes.data, m, dims.ctypes.data, len(dims), own.ctypes.data, node[COUNT], moved.ctypes.data)
        call(node[POINTS], given + sides)


@compiled
def reverse_points(  # type: ignore[no-untyped-def]
    order, nodes, pool, edge_child, weight, coef, values,
    xa, ta, i, xb, tb, j0, m, buffer, bar, shared, work, sums, edge_place, moved,
):  # fmt: skip
    """Run the nodes backwards, from sensitivities in `bar` to those of the right-hand points."""
    for k in range(len(order) - 1, -1, -1):
        n = order[k]
        own = bar[n]
        code, start, end = nodes[n, CODE], nodes[n, START], nodes[n, END]
        if code == EXP:
            out = buffer[n]
            for l in range(m):
                work[l] = own[l] * out[l]
            for c in range(start, end):
                sweep.give(bar, pool[c], shared, 1.0, work, m)
        elif code == PRODUCT:
            sweep.product_reverse(pool[start:end], buffer, bar, own, shared, work, m)
        elif code == AFFINE:
            sweep.affine_reverse(start, end, edge_child, weight, buffer, bar, own, shared, sums[edge_place:], m)
        else:
            leaf_points(nodes[n], pool, coef, values, xa, ta, i, xb, tb, j0, m, own, work, sums, moved)


@compiled
def points_rows(  # type: ignore[no-untyped-def]
    first, last, main, nodes, pool, edge_child, weight, coef, slot, none, values, xa, ta, xb, tb,
    matrix, left, right, shared, sums, edge_place, moved,
):  # fmt: skip
    """Add to `moved` the contraction of matrix + left right' with the derivatives by the right-hand points."""
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
            reverse_points(
                main, nodes, pool, edge_child, weight, coef, values,
                xa, ta, i, xb, tb, j0, m, buffer, bar, shared, work, sums, edge_place, moved,
            )  # fmt: skip


def can_move(program: Program) -> bool:
    """Tell whether the gradient is known: that of a change surface by its inputs is not."""
    functions = [compiled_functions(leaf.kind) for leaf in program.leaves]
    known = all(each.points is not None for each in functions if isinstance(each, Compiled))
    return known and all(leaf.surface is None for leaf in program.leaves)


def contract_points(
    program: Program,
    values: Array,
    X: Array,
    Z: Array,
    matrix: Array,
    left: Array | None = None,
    right: Array | None = None,
) -> Array:
    """Return sum_i (matrix + left right')_ij d k(x_i, z_j) / d z_j, m x D."""
    ready = fused._ready(program, values, even=False)
    ours, theirs = as_columns(np.asarray(X, dtype=np.float64)), as_columns(np.asarray(Z, dtype=np.float64))
    origin = theirs[:, 0].copy() if theirs.shape[1] else np.zeros(len(theirs))
    tables = fused._waves(ready, ours, origin), fused._waves(ready, theirs, origin)
    left = np.zeros(len(X)) if left is None else np.ascontiguousarray(left, dtype=np.float64)
    right = np.zeros(len(Z)) if right is None else np.ascontiguousarray(right, dtype=np.float64)
    matrix = np.ascontiguousarray(matrix, dtype=np.float64)
    edges = [int(edge) for edge in np.linspace(0, len(X), fused.PARTS + 1 if len(X) >= SMALL else 2)]
    moved, none = np.zeros((len(edges) - 1, *theirs.shape)), np.empty((0, 0))

    def task(part: int) -> None:
        points_rows(
            edges[part], edges[part + 1], ready.tape.main, *ready.arrays, none, ready.values,
            ours, tables[0], theirs, tables[1], matrix, left, right, ready.tape.shared,
            np.zeros(ready.tape.n_sums), ready.tape.edge_place, moved[part],
        )  # fmt: skip

    fused._run(task, len(edges) - 1)
    return np.ascontiguousarray(moved.sum(axis=0).T)
