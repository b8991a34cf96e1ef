"""Sweeps over blocks of pairs: run the tape forward, or forward and in reverse, without an N x N temporary.

Each node owns a row of a small buffer (nodes x BLOCK); a block is one point against up to BLOCK others. Of a triangle
only pairs j <= i are visited. Functions take a range of rows, so that the caller can deal rows to threads.
"""

from __future__ import annotations

import numpy as np

from mercer.compute import fused_leaves as leaf
from mercer.compute import vector_math as vm
from mercer.compute.compiling import call, jit
from mercer.compute.fused_leaves import (
    CAT,
    COS,
    CPER,
    ECAT,
    ENVELOPE,
    GATE,
    IOU,
    LIN,
    PER,
    RQ,
    RW,
    SE,
    SIN,
    SUMI,
    WN,
)
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
TRIANGLE, RECTANGLE, DIAGONAL = range(3)  # pairs of points with those up to them, with all others, with themselves


@jit
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


@jit
def fill_waves(nodes, pool, values, x, origin, table):
    """Fill the tables of cos and sin at the points."""
    for n in range(len(nodes)):
        code = nodes[n, CODE]
        if code == PER or code == CPER or code == COS or code == SIN or code == SUMI or code == ECAT:
            dims = pool[nodes[n, START] : nodes[n, END]]
            leaf.fill_table(code, dims, nodes[n, FIRST], nodes[n, SECOND], values, x, origin, table, nodes[n, WAVE])


@jit
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
        leaf.wave_forward(out, m, ta[row, i], ta[row + 1, i], tb, j0, row)
    elif code == SIN:
        leaf.wave_forward(out, m, ta[row + 1, i], -ta[row, i], tb, j0, row)
    elif code == SUMI:
        leaf.wave_forward(out, m, ta[row, i], 0.0, tb, j0, row)
    elif code == LIN:
        leaf.lin_forward(out, m, dims, own, xa, i, xb, j0)
    elif code == GATE:
        leaf.gate_forward(out, m, ta, i, tb, j0, row)
    elif code == WN:
        leaf.noise_forward(out, m, dims, xa, i, xb, j0)
    elif code == CAT:
        leaf.cat_forward(out, m, dims[0], own, xa, i, xb, j0)
    elif code == ECAT:
        leaf.ecat_forward(out, m, dims[0], xa, ta, i, xb, tb, j0, row)
    elif RW <= code <= IOU:
        leaf.walk_forward(code, out, m, own, xa, i, xb, j0, dims[0])
    elif code <= ENVELOPE:
        leaf.radial_forward(code, out, m, dims, own, xa, i, xb, j0)
    elif code == EXTERNAL:
        size, sides = node[COUNT], (xa.ctypes.data, xa.shape[1], i, xb.ctypes.data, xb.shape[1], j0, len(xa))
        given = (out.ctypes.data, m, dims.ctypes.data, len(dims), own.ctypes.data, size)
        call(node[FORWARD], given + sides)
    else:  # cannot be: a tape has known codes only
        for l in range(m):
            out[l] = np.nan


@jit
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
        leaf.wave_reverse(bar, m, dims, add, xa, i, xb, ta[row + 1, i], -ta[row, i], tb, j0, row)
    elif code == SIN:
        leaf.wave_reverse(bar, m, dims, add, xa, i, xb, ta[row, i], ta[row + 1, i], tb, j0, row)
    elif code == SUMI:
        leaf.sumi_reverse(bar, m, dims, own, add, xa, ta, i, xb, tb, j0, row)
    elif code == LIN:
        leaf.lin_reverse(bar, m, dims, own, add, xa, i, xb, j0)
    elif code == GATE:
        leaf.gate_reverse(bar, m, ta, i, tb, j0, row, left[node[SECOND]], right[node[SECOND]])
    elif code == CAT:
        leaf.cat_reverse(bar, m, dims[0], add, xa, i, xb, j0)
    elif code == ECAT:
        leaf.ecat_reverse(bar, m, add, ta, i, tb, j0, row)
    elif RW <= code <= IOU:
        leaf.walk_reverse(code, bar, m, own, add, xa, i, xb, j0, dims[0])
    elif code <= ENVELOPE:
        leaf.radial_reverse(code, bar, work, m, dims, own, add, xa, i, xb, j0)
    elif code == EXTERNAL:
        size, sides = node[COUNT], (xa.ctypes.data, xa.shape[1], i, xb.ctypes.data, xb.shape[1], j0, len(xa))
        given = (bar.ctypes.data, m, dims.ctypes.data, len(dims), own.ctypes.data, size, add.ctypes.data)
        call(node[REVERSE], given + sides)


@jit
def leaf_points(node, pool, coef, xa, ta, i, xb, tb, j0, m, bar, work, moved):
    """Add to `moved` where one leaf says that the right-hand points z of a block should go; after its `leaf_reverse`.

    In `work` that left h of radial_slope, d log k / d z_d = h (x_d - z_d) / l_d^2, or exp(q (cos t - 1)) - 1 of CPER.
    With t = 2 pi (x - z) / p or 2 pi f.(x - z) it is d cos t / d z_d = sin t 2 pi f_d, f = 1 / p for PER and CPER.
    """
    code, row = node[CODE], node[WAVE]
    dims, own = pool[node[START] : node[END]], coef[node[PLACE] :]
    count = len(dims)
    if code == EXTERNAL:
        sides = (xa.ctypes.data, xa.shape[1], i, xb.ctypes.data, xb.shape[1], j0, len(xa))
        given = (bar.ctypes.data, m, dims.ctypes.data, count, own.ctypes.data, node[COUNT], moved.ctypes.data)
        call(node[POINTS], given + sides)
        return
    if code == WN or code == CAT or code == ECAT or code == GATE:
        return
    for k in range(count):
        x, other, out = xa[dims[k], i], xb[dims[k], j0 : j0 + m], moved[dims[k], j0 : j0 + m]
        if code <= ENVELOPE:
            scale = own[k]  # 1 / l^2, or half of it, or that divided by alpha
            if code == SE or code == ENVELOPE:
                scale *= 2.0
            elif code == RQ:
                scale *= 2.0 * own[count]
            for l in range(m):
                out[l] += scale * work[l] * (x - other[l])
        elif RW <= code <= IOU:
            for l in range(m):
                out[l] += bar[l] * leaf.walk_slope(code, x - own[0], other[l] - own[0], own[1])
        elif code == LIN:
            slope = own[count + k] * (x - own[k])
            for l in range(m):
                out[l] += slope * bar[l]
        else:
            at = row + 2 * k if code == PER else row
            c, s, cb, sb = ta[at, i], ta[at + 1, i], tb[at, j0 : j0 + m], tb[at + 1, j0 : j0 + m]
            if code == CPER:
                rate = own[0] * own[3] / own[1]
                for l in range(m):
                    out[l] += rate * bar[l] * (1.0 + work[l]) * (s * cb[l] - c * sb[l])
            elif code == PER or code == COS:
                rate = own[k] * own[count + k] if code == PER else own[k]
                for l in range(m):
                    out[l] += rate * bar[l] * (s * cb[l] - c * sb[l])
            elif code == SIN:
                for l in range(m):
                    out[l] -= own[k] * bar[l] * (c * cb[l] + s * sb[l])
            else:  # SUMI: cos of the phase of x times cos of the phase of z
                for l in range(m):
                    out[l] -= own[count + k] * bar[l] * c * sb[l]


@jit
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


@jit
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


@jit
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


@jit
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


@jit
def give(bar, child, shared, factor, other, m):
    """Hand factor * other down to a child: added where the child has several parents."""
    target = bar[child]
    if shared[child]:
        for l in range(m):
            target[l] += factor * other[l]
    else:
        for l in range(m):
            target[l] = factor * other[l]


@jit
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


@jit
def affine_reverse(start, end, edge_child, weight, buffer, bar, own, shared, sums, m):
    """Each child receives weight * bar; the weight's own sum is that of bar * child."""
    for e in range(start, end):
        child = buffer[edge_child[e]]
        total = 0.0
        for l in range(m):
            total += own[l] * child[l]
        sums[e] += total
        give(bar, edge_child[e], shared, weight[e], own, m)


@jit
def reverse(
    order, look_up, nodes, pool, edge_child, weight, coef, slot, lag_bar, at,
    xa, ta, i, xb, tb, j0, m, buffer, bar, shared, work, sums, edge_place, left, right, moved,
):  # fmt: skip
    """Run the nodes of `order` backwards, from sensitivities in `bar` to sums for the parameters.

    Those of the right-hand points are added to `moved` unless it is empty.
    """
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
            if len(moved) > 0:
                leaf_points(nodes[n], pool, coef, xa, ta, i, xb, tb, j0, m, own, work, moved)


@jit
def clear_shared(order, bar, shared, m):
    """Set the sensitivities of nodes with several parents to zero."""
    for n in order:
        if shared[n]:
            for l in range(m):
                bar[n, l] = 0.0


@jit
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


@jit
def ends_of(shape, i, count):
    """Return the first right-hand point of row i, and the one after the last."""
    if shape == TRIANGLE:
        return 0, i + 1
    if shape == DIAGONAL:
        return i, i + 1
    return 0, count


@jit
def fill_rows(first, last, shape, main, nodes, pool, edge_child, weight, coef, slot, lags, xa, ta, xb, tb, out):
    """Fill the rows first <= i < last of a matrix; that of a diagonal has one column."""
    buffer = np.empty((len(nodes), BLOCK))
    count = xb.shape[1]
    root = len(nodes) - 1
    for i in range(first, last):
        begin, end = ends_of(shape, i, count)
        for j0 in range(begin, end, BLOCK):
            m = min(BLOCK, end - j0)
            at = count - 1 - i + j0
            forward(main, True, nodes, pool, edge_child, weight, coef, slot, lags, at, xa, ta, i, xb, tb, j0, m, buffer)
            out[i, j0 - begin : j0 - begin + m] = buffer[root, :m]


@jit
def contract_rows(
    first, last, shape, main, nodes, pool, edge_child, weight, coef, slot, lags, xa, ta, xb, tb,
    matrix, left, right, shared, sums, edge_place, lag_bar, by_left, by_right, moved,
):  # fmt: skip
    """Add to `sums` the contraction of matrix + left right' with the derivatives of some rows.

    Of a triangle each pair below the diagonal stands for two. Tabled nodes add to `lag_bar`, gates to `by_left` and
    `by_right`; the derivatives by the right-hand points are added to `moved` unless it is empty.
    """
    buffer = np.empty((len(nodes), BLOCK))
    bar = np.empty((len(nodes), BLOCK))
    work = np.empty(BLOCK)
    count = xb.shape[1]
    root = len(nodes) - 1
    copies = 2.0 if shape == TRIANGLE else 1.0
    for i in range(first, last):
        own = left[i]
        begin, end = ends_of(shape, i, count)
        for j0 in range(begin, end, BLOCK):
            m = min(BLOCK, end - j0)
            at = count - 1 - i + j0
            forward(main, True, nodes, pool, edge_child, weight, coef, slot, lags, at, xa, ta, i, xb, tb, j0, m, buffer)
            clear_shared(main, bar, shared, m)
            for l in range(m):
                bar[root, l] = copies * (matrix[i, j0 - begin + l] + own * right[j0 + l])
            if shape == TRIANGLE and j0 + m == i + 1:
                bar[root, m - 1] *= 0.5
            reverse(
                main, True, nodes, pool, edge_child, weight, coef, slot, lag_bar, at,
                xa, ta, i, xb, tb, j0, m, buffer, bar, shared, work, sums, edge_place, by_left, by_right, moved,
            )  # fmt: skip


@jit
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
            x, table, 0, x, table, j0, m, buffer, bar, shared, work, sums, edge_place, none, none, none,
        )  # fmt: skip


@jit
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


@jit
def slope_rows(
    first, last, main, nodes, pool, edge_child, weight, coef, slot, lags, xa, ta, xb, tb,
    vector, shared, n_sums, edge_place, weight_start, weight_pool, constant, values, out,
):  # fmt: skip
    """Fill some rows of `out` with the derivatives of K v: every row is a contraction of its own."""
    buffer = np.empty((len(nodes), BLOCK))
    bar = np.empty((len(nodes), BLOCK))
    work = np.empty(BLOCK)
    sums = np.empty(n_sums)
    count = xb.shape[1]
    root = len(nodes) - 1
    none = lags[:0]
    for i in range(first, last):
        sums[:] = 0.0
        for j0 in range(0, count, BLOCK):
            m = min(BLOCK, count - j0)
            forward(main, False, nodes, pool, edge_child, weight, coef, slot, none, 0, xa, ta, i, xb, tb, j0, m, buffer)
            clear_shared(main, bar, shared, m)
            bar[root, :m] = vector[j0 : j0 + m]
            reverse(
                main, False, nodes, pool, edge_child, weight, coef, slot, none, 0,
                xa, ta, i, xb, tb, j0, m, buffer, bar, shared, work, sums, edge_place, none, none, none,
            )  # fmt: skip
        gradient_of_sums(nodes, weight_start, weight_pool, constant, values, coef, sums, edge_place, out[i])
