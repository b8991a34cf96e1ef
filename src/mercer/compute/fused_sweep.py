"""Sweeps over blocks of pairs: run the tape forward, or forward and in reverse, without an N x N temporary.

Each node owns a row of a small buffer (nodes x BLOCK); a block is one point against up to BLOCK others. Only pairs
j <= i are visited. Functions take a range of rows, so that the caller can deal rows to threads.
"""

from __future__ import annotations

import numpy as np

from mercer.compute import fused_leaves as leaf
from mercer.compute import vector_math as vm
from mercer.compute.compiling import call, compiled
from mercer.compute.fused_leaves import COS, CPER, ENVELOPE, GATE, LIN, PER, RQ, SE, SIN, SUMI, TWO_PI, WN
from mercer.compute.tape import (
    AFFINE,
    CODE,
    COUNT,
    END,
    EXP,
    EXTERNAL,
    FIRST,
    FORWARD,
    PLACE,
    POINTS,
    PRODUCT,
    REVERSE,
    SECOND,
    START,
    WAVE,
)

BLOCK = 256


@compiled
def prepare(nodes, pool, weight_start, weight_pool, constant, values, coef, weight):
    """Fill the coefficients of the leaves and the weights of the edges from the values vector."""
    for n in range(len(nodes)):
        if nodes[n, CODE] < EXTERNAL:
            place = nodes[n, PLACE]
            count = nodes[n, END] - nodes[n, START]
            leaf.coefficients(nodes[n, CODE], count, nodes[n, FIRST], nodes[n, SECOND], values, coef[place:])
    for e in range(len(weight)):
        weight[e] = constant[e]
        for k in range(weight_start[e], weight_start[e + 1]):
            weight[e] *= values[weight_pool[k]]


@compiled
def fill_waves(nodes, pool, values, x, origin, table):
    """Fill the tables of cos and sin at the points."""
    for n in range(len(nodes)):
        code = nodes[n, CODE]
        if code == PER or code == CPER or code == COS or code == SIN or code == SUMI:
            dims = pool[nodes[n, START] : nodes[n, END]]
            leaf.fill_table(code, dims, nodes[n, FIRST], nodes[n, SECOND], values, x, origin, table, nodes[n, WAVE])


@compiled
def leaf_forward(node, pool, coef, xa, ta, i, xb, tb, j0, m, out):
    """Run one leaf over a block."""
    code, row = node[CODE], node[WAVE]
    dims = pool[node[START] : node[END]]
    own = coef[node[PLACE] :]
    if code == PER:
        leaf.per_forward(out, m, own[: len(dims)], ta, i, tb, j0, row)
    elif code == CPER:
        leaf.cper_forward(out, m, own, ta, i, tb, j0, row)
    elif code == COS:
        leaf.cos_forward(out, m, ta, i, tb, j0, row)
    elif code == SIN:
        leaf.sin_forward(out, m, ta, i, tb, j0, row)
    elif code == SUMI:
        leaf.sumi_forward(out, m, ta, i, tb, j0, row)
    elif code == LIN:
        leaf.lin_forward(out, m, dims, own, xa, i, xb, j0)
    elif code == GATE:
        leaf.gate_forward(out, m, ta, i, tb, j0, row)
    elif code == WN:
        leaf.noise_forward(out, m, dims, xa, i, xb, j0)
    elif code <= ENVELOPE:
        leaf.radial_forward(code, out, m, dims, own, xa, i, xb, j0)
    elif code == EXTERNAL:
        size, sides = node[COUNT], (xa.ctypes.data, xa.shape[1], i, xb.ctypes.data, xb.shape[1], j0, len(xa))
        given = (out.ctypes.data, m, dims.ctypes.data, len(dims), own.ctypes.data, size)
        call(node[FORWARD], given + sides)
    else:  # cannot be: a tape has known codes only
        for l in range(m):
            out[l] = np.nan


@compiled
def leaf_reverse(node, pool, coef, xa, ta, i, xb, tb, j0, m, bar, work, sums, left, right):
    """Add one leaf's sums over a block; those of gates are by point, `left` and `right` of the pairs."""
    code, row = node[CODE], node[WAVE]
    dims = pool[node[START] : node[END]]
    own = coef[node[PLACE] :]
    add = sums[node[PLACE] :]
    if code == PER:
        leaf.per_reverse(bar, m, dims, add, xa, ta, i, xb, tb, j0, row)
    elif code == CPER:
        leaf.cper_reverse(bar, work, m, dims[0], own, add, xa, ta, i, xb, tb, j0, row)
    elif code == COS:
        leaf.cos_reverse(bar, m, dims, add, xa, ta, i, xb, tb, j0, row)
    elif code == SIN:
        leaf.sin_reverse(bar, m, dims, add, xa, ta, i, xb, tb, j0, row)
    elif code == SUMI:
        leaf.sumi_reverse(bar, m, dims, own, add, xa, ta, i, xb, tb, j0, row)
    elif code == LIN:
        leaf.lin_reverse(bar, m, dims, own, add, xa, i, xb, j0)
    elif code == GATE:
        leaf.gate_reverse(bar, m, ta, i, tb, j0, row, left[node[SECOND]], right[node[SECOND]])
    elif code <= ENVELOPE:
        leaf.radial_reverse(code, bar, work, m, dims, own, add, xa, i, xb, j0)
    elif code == EXTERNAL:
        size, sides = node[COUNT], (xa.ctypes.data, xa.shape[1], i, xb.ctypes.data, xb.shape[1], j0, len(xa))
        given = (bar.ctypes.data, m, dims.ctypes.data, len(dims), own.ctypes.data, size, add.ctypes.data)
        call(node[REVERSE], given + sides)


@compiled
def exp_forward(children, buffer, m, out):
    """out = exp(sum of the children); one if there are none."""
    if len(children) == 0:
        for l in range(m):
            out[l] = 1.0
    elif len(children) == 1:
        first = buffer[children[0]]
        for l in range(m):
            out[l] = vm.exp(first[l])
    else:
        first = buffer[children[0]]
        for l in range(m):
            out[l] = first[l]
        for k in range(1, len(children)):
            other = buffer[children[k]]
            for l in range(m):
                out[l] += other[l]
        for l in range(m):
            out[l] = vm.exp(out[l])


@compiled
def product_forward(children, skip, buffer, m, out):
    """out = product of the children, leaving out the one at position `skip` (-1: none)."""
    begun = False
    for k in range(len(children)):
        if k == skip:
            continue
        child = buffer[children[k]]
        if begun:
            for l in range(m):
                out[l] *= child[l]
        else:
            for l in range(m):
                out[l] = child[l]
            begun = True


@compiled
def affine_forward(start, end, edge_child, weight, buffer, m, out):
    """out = sum of weight * child over the edges."""
    for e in range(start, end):
        w = weight[e]
        child = buffer[edge_child[e]]
        if e == start:
            for l in range(m):
                out[l] = w * child[l]
        else:
            for l in range(m):
                out[l] += w * child[l]


@compiled
def forward(order, look_up, nodes, pool, edge_child, weight, coef, slot, lags, at, xa, ta, i, xb, tb, j0, m, buffer):
    """Run the nodes in `order` over a block; tabled nodes are looked up where `look_up`."""
    for n in order:
        out = buffer[n]
        code, start, end = nodes[n, CODE], nodes[n, START], nodes[n, END]
        if look_up and slot[n] >= 0:
            known = lags[slot[n]]
            for l in range(m):
                out[l] = known[at + l]
        elif code == EXP:
            exp_forward(pool[start:end], buffer, m, out)
        elif code == PRODUCT:
            product_forward(pool[start:end], -1, buffer, m, out)
        elif code == AFFINE:
            affine_forward(start, end, edge_child, weight, buffer, m, out)
        else:
            leaf_forward(nodes[n], pool, coef, xa, ta, i, xb, tb, j0, m, out)


@compiled
def give(bar, child, shared, factor, other, m):
    """Hand factor * other down to a child: added where the child has several parents."""
    target = bar[child]
    if shared[child]:
        for l in range(m):
            target[l] += factor * other[l]
    else:
        for l in range(m):
            target[l] = factor * other[l]


@compiled
def product_reverse(children, buffer, bar, own, shared, work, m):
    """Each factor receives bar times the product of the others."""
    for k in range(len(children)):
        if len(children) == 2:
            other = buffer[children[1 - k]]
            for l in range(m):
                work[l] = own[l] * other[l]
        else:
            product_forward(children, k, buffer, m, work)
            for l in range(m):
                work[l] *= own[l]
        give(bar, children[k], shared, 1.0, work, m)


@compiled
def affine_reverse(start, end, edge_child, weight, buffer, bar, own, shared, sums, m):
    """Each child receives weight * bar; the weight's own sum is that of bar * child."""
    for e in range(start, end):
        child = buffer[edge_child[e]]
        total = 0.0
        for l in range(m):
            total += own[l] * child[l]
        sums[e] += total
        give(bar, edge_child[e], shared, weight[e], own, m)


@compiled
def reverse(
    order, look_up, nodes, pool, edge_child, weight, coef, slot, lag_bar, at,
    xa, ta, i, xb, tb, j0, m, buffer, bar, shared, work, sums, edge_place, left, right,
):  # fmt: skip
    """Run the nodes of `order` backwards, from sensitivities in `bar` to sums for the parameters."""
    for k in range(len(order) - 1, -1, -1):
        n = order[k]
        own = bar[n]
        code, start, end = nodes[n, CODE], nodes[n, START], nodes[n, END]
        if look_up and slot[n] >= 0:
            target = lag_bar[slot[n]]
            for l in range(m):
                target[at + l] += own[l]
        elif code == EXP:
            out = buffer[n]
            for l in range(m):
                work[l] = own[l] * out[l]
            for c in range(start, end):
                give(bar, pool[c], shared, 1.0, work, m)
        elif code == PRODUCT:
            product_reverse(pool[start:end], buffer, bar, own, shared, work, m)
        elif code == AFFINE:
            affine_reverse(start, end, edge_child, weight, buffer, bar, own, shared, sums[edge_place:], m)
        else:
            leaf_reverse(nodes[n], pool, coef, xa, ta, i, xb, tb, j0, m, own, work, sums, left, right)


@compiled
def clear_shared(order, bar, shared, m):
    """Set the sensitivities of nodes with several parents to zero."""
    for n in order:
        if shared[n]:
            for l in range(m):
                bar[n, l] = 0.0


@compiled
def lag_tables(order, nodes, pool, edge_child, weight, coef, slot, x, table, lags):
    """Fill the tables of tabled nodes, reversed so that a row of the Gram reads them forwards."""
    buffer = np.empty((len(nodes), BLOCK))
    count = x.shape[1]
    none = lags[:0]
    for j0 in range(0, count, BLOCK):
        m = min(BLOCK, count - j0)
        forward(
            order, False, nodes, pool, edge_child, weight, coef, slot, none, 0, x, table, 0, x, table, j0, m, buffer
        )
        for n in order:
            if slot[n] >= 0:
                for l in range(m):
                    lags[slot[n], count - 1 - j0 - l] = buffer[n, l]


@compiled
def gram_rows(first, last, main, nodes, pool, edge_child, weight, coef, slot, lags, x, table, out):
    """Fill out[i, j] for j <= i and rows first <= i < last."""
    buffer = np.empty((len(nodes), BLOCK))
    count = x.shape[1]
    root = len(nodes) - 1
    for i in range(first, last):
        for j0 in range(0, i + 1, BLOCK):
            m = min(BLOCK, i + 1 - j0)
            at = count - 1 - i + j0
            forward(
                main, True, nodes, pool, edge_child, weight, coef, slot, lags, at, x, table, i, x, table, j0, m, buffer
            )
            out[i, j0 : j0 + m] = buffer[root, :m]


@compiled
def cross_rows(first, last, main, nodes, pool, edge_child, weight, coef, slot, lags, xa, ta, xb, tb, out):
    """Fill out[i, :] for rows first <= i < last of a rectangle."""
    buffer = np.empty((len(nodes), BLOCK))
    count = xb.shape[1]
    root = len(nodes) - 1
    for i in range(first, last):
        for j0 in range(0, count, BLOCK):
            m = min(BLOCK, count - j0)
            forward(main, False, nodes, pool, edge_child, weight, coef, slot, lags, 0, xa, ta, i, xb, tb, j0, m, buffer)
            out[i, j0 : j0 + m] = buffer[root, :m]


@compiled
def diagonal_entries(main, nodes, pool, edge_child, weight, coef, slot, lags, x, table, out):
    """Fill out[i] = k(x_i, x_i)."""
    buffer = np.empty((len(nodes), BLOCK))
    for i in range(x.shape[1]):
        forward(main, False, nodes, pool, edge_child, weight, coef, slot, lags, 0, x, table, i, x, table, i, 1, buffer)
        out[i] = buffer[len(nodes) - 1, 0]


@compiled
def contract_rows(
    first, last, main, nodes, pool, edge_child, weight, coef, slot, lags, x, table,
    matrix, vector, shared, sums, edge_place, lag_bar, by_point,
):  # fmt: skip
    """Add to `sums` the contraction of matrix - vector vector' with the derivatives of some rows.

    Tabled nodes add to `lag_bar`, gates to `by_point`.
    """
    buffer = np.empty((len(nodes), BLOCK))
    bar = np.empty((len(nodes), BLOCK))
    work = np.empty(BLOCK)
    count = x.shape[1]
    root = len(nodes) - 1
    for i in range(first, last):
        own = vector[i]
        for j0 in range(0, i + 1, BLOCK):
            m = min(BLOCK, i + 1 - j0)
            at = count - 1 - i + j0
            forward(
                main, True, nodes, pool, edge_child, weight, coef, slot, lags, at, x, table, i, x, table, j0, m, buffer
            )
            clear_shared(main, bar, shared, m)
            for l in range(m):  # each pair below the diagonal stands for two
                bar[root, l] = 2.0 * (matrix[i, j0 + l] - own * vector[j0 + l])
            if j0 + m == i + 1:
                bar[root, m - 1] *= 0.5
            reverse(
                main, True, nodes, pool, edge_child, weight, coef, slot, lag_bar, at,
                x, table, i, x, table, j0, m, buffer, bar, shared, work, sums, edge_place, by_point, by_point,
            )  # fmt: skip


@compiled
def contract_lags(lagged, nodes, pool, edge_child, weight, coef, slot, x, table, shared, sums, edge_place, lag_bar):
    """Carry the sensitivities gathered by lag through the tabled nodes: one row of pairs instead of all of them."""
    buffer = np.empty((len(nodes), BLOCK))
    bar = np.empty((len(nodes), BLOCK))
    work = np.empty(BLOCK)
    none = lag_bar[:0]
    count = x.shape[1]
    for j0 in range(0, count, BLOCK):
        m = min(BLOCK, count - j0)
        forward(
            lagged, False, nodes, pool, edge_child, weight, coef, slot, none, 0, x, table, 0, x, table, j0, m, buffer
        )
        clear_shared(lagged, bar, shared, m)
        for n in lagged:
            if slot[n] >= 0:
                for l in range(m):
                    bar[n, l] = lag_bar[slot[n], count - 1 - j0 - l]
        reverse(
            lagged, False, nodes, pool, edge_child, weight, coef, slot, none, 0,
            x, table, 0, x, table, j0, m, buffer, bar, shared, work, sums, edge_place, none, none,
        )  # fmt: skip


@compiled
def gradient_of_sums(nodes, weight_start, weight_pool, constant, values, coef, sums, edge_place, gradient):
    """Turn the sums over all pairs into a gradient by values."""
    for n in range(len(nodes)):
        if nodes[n, CODE] < EXTERNAL:
            place = nodes[n, PLACE]
            count = nodes[n, END] - nodes[n, START]
            leaf.finish(
                nodes[n, CODE], count, nodes[n, FIRST], nodes[n, SECOND], values, coef[place:], sums[place:], gradient
            )
    for e in range(len(constant)):
        for k in range(weight_start[e], weight_start[e + 1]):
            others = constant[e]  # not weight / value: a weight of a network may be zero
            for other in range(weight_start[e], weight_start[e + 1]):
                if other != k:
                    others *= values[weight_pool[other]]
            gradient[weight_pool[k]] += sums[edge_place + e] * others


# ------------------------------------------------------------------------------------------- rectangles and diagonals


@compiled
def cross_contract_rows(
    first, last, main, nodes, pool, edge_child, weight, coef, slot, none, xa, ta, xb, tb,
    matrix, left, right, shared, sums, edge_place, by_left, by_right,
):  # fmt: skip
    """Add to `sums` the contraction of matrix + left right' with the derivatives of some rows of a rectangle."""
    buffer = np.empty((len(nodes), BLOCK))
    bar = np.empty((len(nodes), BLOCK))
    work = np.empty(BLOCK)
    count = xb.shape[1]
    root = len(nodes) - 1
    for i in range(first, last):
        own = left[i]
        for j0 in range(0, count, BLOCK):
            m = min(BLOCK, count - j0)
            forward(main, False, nodes, pool, edge_child, weight, coef, slot, none, 0, xa, ta, i, xb, tb, j0, m, buffer)
            clear_shared(main, bar, shared, m)
            for l in range(m):
                bar[root, l] = matrix[i, j0 + l] + own * right[j0 + l]
            reverse(
                main, False, nodes, pool, edge_child, weight, coef, slot, none, 0,
                xa, ta, i, xb, tb, j0, m, buffer, bar, shared, work, sums, edge_place, by_left, by_right,
            )  # fmt: skip


@compiled
def diagonal_contract_rows(
    first, last, main, nodes, pool, edge_child, weight, coef, slot, none, x, table, vector, shared, sums, edge_place,
    by_point,
):  # fmt: skip
    """Add to `sums` the contraction of a vector with the derivatives of k(x_i, x_i) for some rows."""
    buffer = np.empty((len(nodes), BLOCK))
    bar = np.empty((len(nodes), BLOCK))
    work = np.empty(BLOCK)
    root = len(nodes) - 1
    for i in range(first, last):
        forward(main, False, nodes, pool, edge_child, weight, coef, slot, none, 0, x, table, i, x, table, i, 1, buffer)
        clear_shared(main, bar, shared, 1)
        bar[root, 0] = vector[i]
        reverse(
            main, False, nodes, pool, edge_child, weight, coef, slot, none, 0,
            x, table, i, x, table, i, 1, buffer, bar, shared, work, sums, edge_place, by_point, by_point,
        )  # fmt: skip


# ------------------------------------------------------------------------------- by the right-hand points of rectangles
#
# The tape runs backwards as in `reverse`; only what leaves do with their sensitivities is different. With u = x - z and
# h of radial_slope, d log k / d z_d = h u_d / l_d^2 for the radial kernels.


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
        leaf.cper_falls(work, m, coef[0], ta, i, tb, j0, row)
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
def reverse_points(
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
                give(bar, pool[c], shared, 1.0, work, m)
        elif code == PRODUCT:
            product_reverse(pool[start:end], buffer, bar, own, shared, work, m)
        elif code == AFFINE:
            affine_reverse(start, end, edge_child, weight, buffer, bar, own, shared, sums[edge_place:], m)
        else:
            leaf_points(nodes[n], pool, coef, values, xa, ta, i, xb, tb, j0, m, own, work, sums, moved)


@compiled
def points_rows(
    first, last, main, nodes, pool, edge_child, weight, coef, slot, none, values, xa, ta, xb, tb,
    matrix, left, right, shared, sums, edge_place, moved,
):  # fmt: skip
    """Add to `moved` the contraction of matrix + left right' with the derivatives by the right-hand points."""
    buffer = np.empty((len(nodes), BLOCK))
    bar = np.empty((len(nodes), BLOCK))
    work = np.empty(BLOCK)
    count = xb.shape[1]
    root = len(nodes) - 1
    for i in range(first, last):
        own = left[i]
        for j0 in range(0, count, BLOCK):
            m = min(BLOCK, count - j0)
            forward(main, False, nodes, pool, edge_child, weight, coef, slot, none, 0, xa, ta, i, xb, tb, j0, m, buffer)
            clear_shared(main, bar, shared, m)
            for l in range(m):
                bar[root, l] = matrix[i, j0 + l] + own * right[j0 + l]
            reverse_points(
                main, nodes, pool, edge_child, weight, coef, values,
                xa, ta, i, xb, tb, j0, m, buffer, bar, shared, work, sums, edge_place, moved,
            )  # fmt: skip
