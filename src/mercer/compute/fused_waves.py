"""The waves among the leaves of the fused CPU path: PER, CPER, COS, SIN and SUMI (see fused_leaves.py).

They use cos(a - b) = cos a cos b + sin a sin b with tables of cos and sin at the points, so that no pair costs a
trigonometric function.
"""

from __future__ import annotations

from mercer.compute import vector_math as vm
from mercer.compute.compiling import compiled

SMALL_Q = 0.05  # below it exp(q (cos t - 1)) is close to one, and what it lacks of one is computed for itself


@compiled
def per_forward(out, m, coef, ta, i, tb, j0, row):
    """-sum_d (1 - cos t_d) / l_d^2; rows of the tables: cos and sin of 2 pi x / p for each dimension."""
    for l in range(m):
        out[l] = 0.0
    for k in range(len(coef)):
        c, s, q = ta[row + 2 * k, i], ta[row + 2 * k + 1, i], coef[k]
        for l in range(m):
            out[l] += q * (c * tb[row + 2 * k, j0 + l] + s * tb[row + 2 * k + 1, j0 + l] - 1.0)


@compiled
def per_reverse(bar, m, dims, sums, xa, ta, i, xb, tb, j0, row):
    """sums: first sum bar (1 - cos t_d), then sum bar sin t_d (x_d - x'_d)."""
    for k in range(len(dims)):
        d = dims[k]
        c, s, x = ta[row + 2 * k, i], ta[row + 2 * k + 1, i], xa[d, i]
        by_width, by_period = 0.0, 0.0
        for l in range(m):
            cb, sb = tb[row + 2 * k, j0 + l], tb[row + 2 * k + 1, j0 + l]
            by_width += bar[l] * (1.0 - (c * cb + s * sb))
            by_period += bar[l] * (s * cb - c * sb) * (x - xb[d, j0 + l])
        sums[k] += by_width
        sums[len(dims) + k] += by_period


@compiled
def exp_less_one(x):
    """exp(x) - 1 for -0.1 <= x <= 0 by its Taylor series, which loses no digits near zero."""
    p = 1.0 + x / 9.0
    p = 1.0 + x / 8.0 * p
    p = 1.0 + x / 7.0 * p
    p = 1.0 + x / 6.0 * p
    p = 1.0 + x / 5.0 * p
    p = 1.0 + x / 4.0 * p
    p = 1.0 + x / 3.0 * p
    p = 1.0 + x / 2.0 * p
    return x * p


@compiled
def cper_falls(out, m, q, ta, i, tb, j0, row):
    """exp(q (cos t - 1)) - 1. The choice stays outside the loops, so that they run in vector registers."""
    c, s = ta[row, i], ta[row + 1, i]
    if q < SMALL_Q:
        for l in range(m):
            out[l] = exp_less_one(q * (c * tb[row, j0 + l] + s * tb[row + 1, j0 + l] - 1.0))
    else:
        for l in range(m):
            out[l] = vm.exp(q * (c * tb[row, j0 + l] + s * tb[row + 1, j0 + l] - 1.0)) - 1.0


@compiled
def cper_forward(out, m, coef, ta, i, tb, j0, row):
    """(exp(q (cos t - 1)) - I0e) / (1 - I0e); coef: q, 1 - I0e(q), I1e(q) - I0e(q)."""
    cper_falls(out, m, coef[0], ta, i, tb, j0, row)
    room = coef[1]
    for l in range(m):
        out[l] = 1.0 + out[l] / room


@compiled
def cper_reverse(bar, work, m, d, coef, sums, xa, ta, i, xb, tb, j0, row):
    """sums: by q, then sum bar E sin t (x - x')."""
    cper_falls(work, m, coef[0], ta, i, tb, j0, row)
    c, s, room, slope = ta[row, i], ta[row + 1, i], coef[1], coef[2]
    x = xa[d, i]
    by_q, by_period = 0.0, 0.0
    for l in range(m):
        cb, sb, fall = tb[row, j0 + l], tb[row + 1, j0 + l], work[l]
        e = 1.0 + fall
        by_q += bar[l] * (e * (c * cb + s * sb - 1.0) + slope * (fall / room)) / room
        by_period += bar[l] * e * (s * cb - c * sb) * (x - xb[d, j0 + l])
    sums[0] += by_q
    sums[1] += by_period


@compiled
def cos_forward(out, m, ta, i, tb, j0, row):
    """cos of the difference of two phases."""
    c, s = ta[row, i], ta[row + 1, i]
    for l in range(m):
        out[l] = c * tb[row, j0 + l] + s * tb[row + 1, j0 + l]


@compiled
def cos_reverse(bar, m, dims, sums, xa, ta, i, xb, tb, j0, row):
    """sums_d += sum bar sin(phase) (x_d - x'_d)."""
    c, s = ta[row, i], ta[row + 1, i]
    for k in range(len(dims)):
        d, x = dims[k], xa[dims[k], i]
        total = 0.0
        for l in range(m):
            total += bar[l] * (s * tb[row, j0 + l] - c * tb[row + 1, j0 + l]) * (x - xb[d, j0 + l])
        sums[k] += total


@compiled
def sin_forward(out, m, ta, i, tb, j0, row):
    """sin of the difference of two phases."""
    c, s = ta[row, i], ta[row + 1, i]
    for l in range(m):
        out[l] = s * tb[row, j0 + l] - c * tb[row + 1, j0 + l]


@compiled
def sin_reverse(bar, m, dims, sums, xa, ta, i, xb, tb, j0, row):
    """sums_d += sum bar cos(phase) (x_d - x'_d)."""
    c, s = ta[row, i], ta[row + 1, i]
    for k in range(len(dims)):
        d, x = dims[k], xa[dims[k], i]
        total = 0.0
        for l in range(m):
            total += bar[l] * (c * tb[row, j0 + l] + s * tb[row + 1, j0 + l]) * (x - xb[d, j0 + l])
        sums[k] += total


@compiled
def sumi_forward(out, m, ta, i, tb, j0, row):
    """Product of the cosines of two phases."""
    c = ta[row, i]
    for l in range(m):
        out[l] = c * tb[row, j0 + l]


@compiled
def sumi_reverse(bar, m, dims, coef, sums, xa, ta, i, xb, tb, j0, row):
    """sums: sum bar (s c' (x_d - c_d) + c s' (x'_d - c_d)) by frequency, then sum bar (s c' + c s'); coef: offsets."""
    c, s = ta[row, i], ta[row + 1, i]
    for k in range(len(dims)):
        d, start = dims[k], coef[k]
        left = xa[d, i] - start
        by_frequency, by_offset = 0.0, 0.0
        for l in range(m):
            one, other = s * tb[row, j0 + l], c * tb[row + 1, j0 + l]
            by_frequency += bar[l] * (one * left + other * (xb[d, j0 + l] - start))
            by_offset += bar[l] * (one + other)
        sums[k] += by_frequency
        sums[len(dims) + k] += by_offset
