"""The leaves of the fused CPU path: each base kernel over a block of pairs, forward and in reverse.

A block is one left point i against m right points j0 .. j0+m-1. Points are stored column by column (x[d, i]). `forward`
functions fill a row with the leaf's value (or logarithm, where its record has a log form); `reverse` functions take a
row `bar` of sensitivities and add to `sums` what the gradient needs; `finish` turns those sums into a gradient by
parameters once, after all pairs.
"""

from __future__ import annotations

import math

import numpy as np

from mercer.compute import vector_math as vm
from mercer.compute.compiling import jit
from mercer.compute.leaves import NUMBA, BuiltIn

# Codes of the leaves in a tape; those up to ENVELOPE are radial.
SE, RQ, M12, M32, M52, ENVELOPE, PER, CPER, LIN, COS, WN, SIN, SUMI, GATE, CAT, ECAT, RW, IRW, IOU = range(19)

SMALL_Q = 0.05  # below it exp(q (cos t - 1)) is close to one, and what it lacks of one is computed for itself
SQRT3, SQRT5 = math.sqrt(3.0), math.sqrt(5.0)
TWO_PI = 2.0 * math.pi


# ------------------------------------------------------------------------------------- radial kernels: SE, RQ, Matern


@jit
def squared_distance(out, m, dims, coef, xa, i, xb, j0):
    """out = sum_d coef_d (x_d - x'_d)^2."""
    c, x = coef[0], xa[dims[0], i]
    if len(dims) % 2 == 1:
        first = xb[dims[0], j0 : j0 + m]  # a view of its own: indices that start at zero are read as whole vectors
        for l in range(m):
            t = x - first[l]
            out[l] = c * (t * t)
    else:
        for l in range(m):
            out[l] = 0.0
    for k in range(len(dims) % 2, len(dims), 2):  # two columns at a time: half the reading and writing of `out`
        x, y, c, b = xa[dims[k], i], xa[dims[k + 1], i], coef[k], coef[k + 1]
        one, two = xb[dims[k], j0 : j0 + m], xb[dims[k + 1], j0 : j0 + m]
        for l in range(m):
            t = x - one[l]
            u = y - two[l]
            out[l] += c * (t * t) + b * (u * u)


@jit
def radial_forward(kind, out, m, dims, coef, xa, i, xb, j0):
    """Logarithm of a radial kernel; coef holds one scale per dimension, then alpha for RQ."""
    squared_distance(out, m, dims, coef, xa, i, xb, j0)
    if kind == SE or kind == ENVELOPE:
        for l in range(m):
            out[l] = -out[l]
    elif kind == RQ:
        alpha = coef[len(dims)]
        for l in range(m):
            out[l] = -alpha * vm.log1p(out[l])
    elif kind == M12:
        for l in range(m):
            out[l] = -math.sqrt(out[l])
    elif kind == M32:
        for l in range(m):
            u = SQRT3 * math.sqrt(out[l])
            out[l] = vm.log1p(u) - u
    elif kind == M52:
        for l in range(m):
            u = SQRT5 * math.sqrt(out[l])
            out[l] = vm.log1p(u + u * u / 3.0) - u


@jit
def radial_slope(kind, bar, work, m, dims, coef, sums, xa, i, xb, j0):
    """work = bar h, where d log k / d l_d = h (x_d - x'_d)^2 / l_d^3; RQ adds the gradient by alpha to its sum."""
    if kind == SE or kind == ENVELOPE:
        for l in range(m):
            work[l] = bar[l]
    else:
        squared_distance(work, m, dims, coef, xa, i, xb, j0)
        if kind == RQ:
            total = 0.0
            for l in range(m):
                z = work[l]
                share = 1.0 / (1.0 + z)
                total += bar[l] * (z * share - vm.log1p(z))
                work[l] = bar[l] * share
            sums[len(dims)] += total
        elif kind == M12:
            for l in range(m):
                q = work[l]
                work[l] = bar[l] / math.sqrt(q) if q > 0.0 else 0.0
        elif kind == M32:
            for l in range(m):
                work[l] = 3.0 * bar[l] / (1.0 + SQRT3 * math.sqrt(work[l]))
        elif kind == M52:
            for l in range(m):
                u = SQRT5 * math.sqrt(work[l])
                work[l] = (5.0 / 3.0) * bar[l] * (1.0 + u) / (1.0 + u + u * u / 3.0)


@jit
def radial_reverse(kind, bar, work, m, dims, coef, sums, xa, i, xb, j0):
    """sums_d += sum bar h (x_d - x'_d)^2 with h as above."""
    radial_slope(kind, bar, work, m, dims, coef, sums, xa, i, xb, j0)
    for k in range(0, len(dims) - 1, 2):  # two columns at a time: half the reading of `work`
        x, y = xa[dims[k], i], xa[dims[k + 1], i]
        one, two = xb[dims[k], j0 : j0 + m], xb[dims[k + 1], j0 : j0 + m]
        total, other = 0.0, 0.0
        for l in range(m):
            t = x - one[l]
            u = y - two[l]
            total += work[l] * (t * t)
            other += work[l] * (u * u)
        sums[k] += total
        sums[k + 1] += other
    if len(dims) % 2 == 1:
        k = len(dims) - 1
        x, one = xa[dims[k], i], xb[dims[k], j0 : j0 + m]
        total = 0.0
        for l in range(m):
            t = x - one[l]
            total += work[l] * (t * t)
        sums[k] += total


# ------------------------------------------------------------------------- LIN, white noise, categories and gates


@jit
def lin_forward(out, m, dims, coef, xa, i, xb, j0):
    """sum_d w_d (x_d - c_d)(x'_d - c_d); coef: offsets, then weights."""
    count = len(dims)
    for k in range(count):
        d, c = dims[k], coef[k]
        slope = coef[count + k] * (xa[d, i] - c)
        other = xb[d, j0 : j0 + m]
        if k == 0:
            for l in range(m):
                out[l] = slope * (other[l] - c)
        else:
            for l in range(m):
                out[l] += slope * (other[l] - c)


@jit
def lin_reverse(bar, m, dims, coef, sums, xa, i, xb, j0):
    """sums: by offsets, then by weights."""
    count = len(dims)
    for k in range(count):
        d, c, w = dims[k], coef[k], coef[count + k]
        left, other = xa[d, i] - c, xb[d, j0 : j0 + m]
        total, moment = 0.0, 0.0
        for l in range(m):
            total += bar[l]
            moment += bar[l] * (other[l] - c)
        sums[k] -= w * (left * total + moment)
        sums[count + k] += left * moment


@jit
def noise_forward(out, m, dims, xa, i, xb, j0):
    """One where the points agree on every dimension, else zero."""
    for l in range(m):
        out[l] = 1.0
    for k in range(len(dims)):
        d, x = dims[k], xa[dims[k], i]
        for l in range(m):
            out[l] = out[l] if xb[d, j0 + l] == x else 0.0


@jit
def cat_forward(out, m, d, coef, xa, i, xb, j0):
    """One where the points agree, else the correlation."""
    x, rho, other = xa[d, i], coef[0], xb[d, j0 : j0 + m]
    for l in range(m):
        out[l] = 1.0 if other[l] == x else rho


@jit
def cat_reverse(bar, m, d, sums, xa, i, xb, j0):
    """sums: over the pairs that do not agree."""
    x, other, total = xa[d, i], xb[d, j0 : j0 + m], 0.0
    for l in range(m):
        total += 0.0 if other[l] == x else bar[l]
    sums[0] += total


@jit
def ecat_forward(out, m, d, xa, ta, i, xb, tb, j0, row):
    """-(u - u')^2 / 2; rows of the tables: places u, and numbers of the categories, -1 for one that is not known.

    Each value that is not known has a dimension of its own, in which it lies at a distance of one from all others.
    """
    x, u, n = xa[d, i], ta[row, i], ta[row + 1, i]
    for l in range(m):
        t = u - tb[row, j0 + l]
        apart = (1.0 if n < 0.0 else 0.0) + (1.0 if tb[row + 1, j0 + l] < 0.0 else 0.0)
        out[l] = 0.0 if xb[d, j0 + l] == x else -0.5 * (t * t + apart)


@jit
def ecat_reverse(bar, m, sums, ta, i, tb, j0, row):
    """sums: by the places of all categories but the first."""
    u, n, total = ta[row, i], int(ta[row + 1, i]), 0.0
    for l in range(m):
        slope = bar[l] * (u - tb[row, j0 + l])
        total -= slope
        other = int(tb[row + 1, j0 + l])
        if other > 0:
            sums[other - 1] += slope
    if n > 0:
        sums[n - 1] += total


@jit
def gate_forward(out, m, ta, i, tb, j0, row):
    """s(x) s(x'); the table holds s at the points."""
    share = ta[row, i]
    other = tb[row, j0 : j0 + m]
    for l in range(m):
        out[l] = share * other[l]


@jit
def gate_reverse(bar, m, ta, i, tb, j0, row, left, right):
    """Sensitivities by s at the points, left of the pair and right; surfaces.py carries them to the parameters."""
    share, total = ta[row, i], 0.0
    other, target = tb[row, j0 : j0 + m], right[j0 : j0 + m]
    for l in range(m):
        total += bar[l] * other[l]
        target[l] += bar[l] * share
    left[i] += total


# ------------------------------------------------------------------------------------------ walks: RW, IRW and IOU
#
# On one column, with a = x - o and b = x' - o. Of IOU, with F(t) = l^2 h(|t| / l) and h(u) = exp(-u) - 1 + u:
# k = F(a) + F(b) - F(a - b), because F'' = exp(-|t| / l) is the covariance of the slopes. With E(u) = 1 - exp(-u), and
# without terms that cancel: on one side of o, m the nearer of both and d between them, l^2 (2 h(m / l) + E(m / l)
# E(d / l)); on different sides -l^2 E(|a| / l) E(|b| / l).


@jit
def damp(u):
    """h(u) = exp(-u) - 1 + u for u >= 0; near zero by its series, which loses no digits."""
    if u > 0.5:
        return math.exp(-u) - 1.0 + u
    p = 1.0
    for k in range(16, 2, -1):
        p = 1.0 - u / k * p
    return 0.5 * u * u * p


@jit
def damped_by_length(u):
    """2 h(u) - u h'(u), which l times is dF/dl: the sum over k >= 3 of (-1)^(k-1) (k - 2) u^k / k!."""
    if u > 0.5:
        return 2.0 * (math.exp(-u) - 1.0 + u) + u * (math.exp(-u) - 1.0)
    total, term = 0.0, 0.5 * u * u  # u^k / k! with its sign, k = 2 first
    for k in range(3, 18):
        term *= -u / k
        total -= (k - 2) * term
    return total


@jit
def rise_by_length(u):
    """E(u) - u exp(-u), which is -l dE/dl: the sum over k >= 2 of (-1)^k (k - 1) u^k / k!."""
    if u > 0.5:
        return 1.0 - (1.0 + u) * math.exp(-u)
    total, term = 0.0, -u  # u^k / k! with its sign, k = 1 first
    for k in range(2, 18):
        term *= -u / k
        total += (k - 1) * term
    return total


@jit
def walk_forward(kind, out, m, coef, xa, i, xb, j0, d):
    """coef: the origin, and the lengthscale of IOU."""
    origin, scale = coef[0], coef[1]
    a, other = xa[d, i] - origin, xb[d, j0 : j0 + m]
    if kind == RW:
        for l in range(m):
            b = other[l] - origin
            out[l] = 0.5 * (abs(a) + abs(b) - abs(a - b))
    elif kind == IRW:
        for l in range(m):
            b = other[l] - origin
            least, most = min(abs(a), abs(b)), max(abs(a), abs(b))
            out[l] = least * least * (3.0 * most - least) / 6.0 if a * b > 0.0 else 0.0
    else:
        for l in range(m):
            b = other[l] - origin
            least, most = min(abs(a), abs(b)) / scale, max(abs(a), abs(b)) / scale
            if a * b > 0.0:
                out[l] = scale * scale * (2.0 * damp(least) + math.expm1(-least) * math.expm1(least - most))
            else:
                out[l] = -scale * scale * math.expm1(-least) * math.expm1(-most)


@jit
def walk_slope(kind, a, b, scale):
    """dk/db."""
    if kind == RW:
        return 0.5 * (np.sign(b) + np.sign(a - b))
    near, far = abs(a), abs(b)
    if kind == IRW:
        if a * b <= 0.0:
            return 0.0
        return np.sign(b) * (near * far - 0.5 * b * b if far < near else 0.5 * a * a)
    if a * b <= 0.0:
        return -scale * np.sign(a) * math.exp(-far / scale) * math.expm1(-near / scale)
    if far <= near:
        return -scale * np.sign(b) * (math.expm1(-far / scale) + math.expm1((far - near) / scale))
    return -scale * np.sign(b) * math.exp((near - far) / scale) * math.expm1(-near / scale)


@jit
def walk_by_length(a, b, scale):
    """dk/dl of IOU."""
    least, most = min(abs(a), abs(b)) / scale, max(abs(a), abs(b)) / scale
    if a * b > 0.0:
        apart = most - least
        both = math.expm1(-apart) * rise_by_length(least) + math.expm1(-least) * rise_by_length(apart)
        return scale * (2.0 * damped_by_length(least) - both)
    return scale * (math.expm1(-most) * rise_by_length(least) + math.expm1(-least) * rise_by_length(most))


@jit
def walk_reverse(kind, bar, m, coef, sums, xa, i, xb, j0, d):
    """sums: by the origin, then by the lengthscale of IOU."""
    origin, scale = coef[0], coef[1]
    a, other = xa[d, i] - origin, xb[d, j0 : j0 + m]
    total = 0.0
    for l in range(m):
        b = other[l] - origin
        total -= bar[l] * (walk_slope(kind, a, b, scale) + walk_slope(kind, b, a, scale))
    sums[0] += total
    if kind == IOU:
        total = 0.0
        for l in range(m):
            total += bar[l] * walk_by_length(a, other[l] - origin, scale)
        sums[1] += total


# ------------------------------------------------------------------------- waves: PER, CPER, COS, SIN and SUMI
#
# They use cos(a - b) = cos a cos b + sin a sin b with tables of cos and sin at the points, so that no pair costs a
# trigonometric function.


@jit
def per_forward(out, m, coef, ta, i, tb, j0, row):
    """-sum_d (1 - cos t_d) / l_d^2; rows of the tables: cos and sin of 2 pi x / p for each dimension."""
    for l in range(m):
        out[l] = 0.0
    for k in range(len(coef)):
        c, s, q = ta[row + 2 * k, i], ta[row + 2 * k + 1, i], coef[k]
        for l in range(m):
            out[l] += q * (c * tb[row + 2 * k, j0 + l] + s * tb[row + 2 * k + 1, j0 + l] - 1.0)


@jit
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


@jit
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


@jit
def cper_falls(out, m, q, ta, i, tb, j0, row):
    """exp(q (cos t - 1)) - 1. The choice stays outside the loops, so that they run in vector registers."""
    c, s = ta[row, i], ta[row + 1, i]
    if q < SMALL_Q:
        for l in range(m):
            out[l] = exp_less_one(q * (c * tb[row, j0 + l] + s * tb[row + 1, j0 + l] - 1.0))
    else:
        for l in range(m):
            out[l] = vm.exp(q * (c * tb[row, j0 + l] + s * tb[row + 1, j0 + l] - 1.0)) - 1.0


@jit
def cper_forward(out, m, coef, ta, i, tb, j0, row):
    """(exp(q (cos t - 1)) - I0e) / (1 - I0e); coef: q, 1 - I0e(q), I1e(q) - I0e(q), 2 pi / p."""
    cper_falls(out, m, coef[0], ta, i, tb, j0, row)
    room = coef[1]
    for l in range(m):
        out[l] = 1.0 + out[l] / room


@jit
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


@jit
def wave_forward(out, m, a, b, tb, j0, row):
    """a cos t' + b sin t', t' the phases on the right; cos(t - t') has a = cos t and b = sin t of that on the left."""
    for l in range(m):
        out[l] = a * tb[row, j0 + l] + b * tb[row + 1, j0 + l]


@jit
def wave_reverse(bar, m, dims, sums, xa, i, xb, a, b, tb, j0, row):
    """sums_d += sum bar (a cos t' + b sin t') (x_d - x'_d), a and b those of the slope."""
    for k in range(len(dims)):
        d, x = dims[k], xa[dims[k], i]
        total = 0.0
        for l in range(m):
            total += bar[l] * (a * tb[row, j0 + l] + b * tb[row + 1, j0 + l]) * (x - xb[d, j0 + l])
        sums[k] += total


@jit
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


# --------------------------------------------------------------------------------- from parameters, and back to them


# How many coefficients and sums each needs on d columns, and rows of the table: cos and sin, or the shares of a regime.
NUMBA |= {
    "SE": BuiltIn(SE, lambda d: d),
    "RQ": BuiltIn(RQ, lambda d: d + 1),
    "M12": BuiltIn(M12, lambda d: d),
    "M32": BuiltIn(M32, lambda d: d),
    "M52": BuiltIn(M52, lambda d: d),
    "ENVELOPE": BuiltIn(ENVELOPE, lambda d: d),
    "PER": BuiltIn(PER, lambda d: 2 * d, lambda d: 2 * d),
    "CPER": BuiltIn(CPER, lambda d: 4, lambda d: 2),
    "LIN": BuiltIn(LIN, lambda d: 2 * d),
    "COS": BuiltIn(COS, lambda d: d, lambda d: 2),
    "WN": BuiltIn(WN, lambda d: 0),
    "SIN": BuiltIn(SIN, lambda d: d, lambda d: 2),
    "SUMI": BuiltIn(SUMI, lambda d: 2 * d, lambda d: 2),
    "CAT": BuiltIn(CAT, lambda d: 1),
    "ECAT": BuiltIn(ECAT, lambda count: count, lambda count: 2),
    "GATE": BuiltIn(GATE, lambda d: 0, lambda d: 1),
    "RW": BuiltIn(RW, lambda d: 2),
    "IRW": BuiltIn(IRW, lambda d: 2),
    "IOU": BuiltIn(IOU, lambda d: 2),
}


@jit
def coefficients(kind, count, first, second, values, coef):
    """Fill the coefficients of a leaf from the values vector (CPER's Bessel functions are put in by the caller)."""
    for k in range(count):
        v = values[first + k]
        if kind == SE:
            coef[k] = 0.5 / (v * v)
        elif kind == ENVELOPE:
            coef[k] = 0.5 * TWO_PI * TWO_PI * v * v
        elif kind == RQ:
            coef[k] = 0.5 / (values[second] * v * v)
        elif kind == M12 or kind == M32 or kind == M52:
            coef[k] = 1.0 / (v * v)
        elif kind == PER:
            coef[k] = 1.0 / (values[second + k] * values[second + k])
            coef[count + k] = TWO_PI / v
        elif kind == CPER:
            coef[3] = TWO_PI / v
        elif kind == LIN:
            coef[k] = v
            coef[count + k] = values[second + k]
        elif kind == COS or kind == SIN:
            coef[k] = TWO_PI * v
        elif kind == CAT:
            coef[k] = v
        elif kind == SUMI:
            coef[k] = values[second + k]
            coef[count + k] = TWO_PI * v
        elif kind == RW or kind == IRW:
            coef[0], coef[1] = v, 1.0
        elif kind == IOU:
            coef[0], coef[1] = values[second], v
    if kind == RQ:
        coef[count] = values[second]


@jit
def fill_table(kind, dims, first, second, values, x, origin, table, row):
    """Fill cos and sin of the phases of the points; phases are measured from `origin` to keep them small."""
    n = x.shape[1]
    if kind == ECAT:  # second: the number of places
        for i in range(n):
            code = x[dims[0], i]
            known = 0.0 <= code <= second and code == math.floor(code)
            table[row, i] = values[first + int(code) - 1] if known and code > 0.0 else 0.0
            table[row + 1, i] = code if known else -1.0
        return
    if kind == COS or kind == SIN or kind == SUMI:
        for i in range(n):
            phase = 0.0
            for k in range(len(dims)):
                start = values[second + k] if kind == SUMI else origin[dims[k]]
                phase += values[first + k] * (x[dims[k], i] - start)
            table[row, i] = math.cos(TWO_PI * phase)
            table[row + 1, i] = math.sin(TWO_PI * phase)
        return
    for k in range(len(dims)):
        for i in range(n):
            phase = TWO_PI * (x[dims[k], i] - origin[dims[k]]) / values[first + k]
            table[row + 2 * k, i] = math.cos(phase)
            table[row + 2 * k + 1, i] = math.sin(phase)


@jit
def finish(kind, count, first, second, values, coef, sums, gradient):
    """Add a leaf's sums over all pairs to the gradient by values."""
    for k in range(count):
        v = values[first + k]
        if kind == SE or kind == RQ or kind == M12 or kind == M32 or kind == M52:
            gradient[first + k] += sums[k] / (v * v * v)
        elif kind == ENVELOPE:
            gradient[first + k] -= TWO_PI * TWO_PI * v * sums[k]
        elif kind == PER:
            width = values[second + k]
            gradient[second + k] += 2.0 * sums[k] / (width * width * width)
            gradient[first + k] += TWO_PI * sums[count + k] / (v * v * width * width)
        elif kind == CPER:
            width = values[second]
            gradient[second] -= 2.0 * sums[0] / (width * width * width)
            gradient[first] += TWO_PI * sums[1] * coef[0] / (v * v * coef[1])
        elif kind == LIN:
            gradient[first + k] += sums[k]
            gradient[second + k] += sums[count + k]
        elif kind == CAT:
            gradient[first + k] += sums[k]
        elif kind == COS:
            gradient[first + k] -= TWO_PI * sums[k]
        elif kind == SIN:
            gradient[first + k] += TWO_PI * sums[k]
        elif kind == SUMI:
            gradient[first + k] -= TWO_PI * sums[k]
            gradient[second + k] += TWO_PI * v * sums[count + k]
        elif kind == RW or kind == IRW:
            gradient[first] += sums[0]
        elif kind == IOU:
            gradient[second] += sums[0]
            gradient[first] += sums[1]
    if kind == ECAT:
        for k in range(second):
            gradient[first + k] += sums[k]
    if kind == RQ:
        gradient[second] += sums[count]
