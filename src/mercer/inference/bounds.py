"""Both ends of the exact log evidence at given values, for data too large for it (Kim & Teh 2018; METHODS 4).

With A = K0 + D (the exact covariance) and Q <= K0 the determinant and the quadratic term are bounded one by one.
Upper end of the latter: -y'A^-1 y / 2 = min_u (u'A u / 2 - u'y), so any u gives one. With a free level the exact value
is the largest over c of log N(y | c, A), so the bound must hold for every c at once:

    -(y - c 1)'A^-1 (y - c 1) / 2 <= u'A u / 2 - u'(y - c 1) = u'A u / 2 - u'y      for every u with u'1 = 0

whatever c is. Nothing is lost: the best u for the profiled level, A^-1 (y - c 1) with c = 1'A^-1 y / 1'A^-1 1, has
u'1 = 0.

u comes from conjugate gradients on A u = y preconditioned by Q + D (Woodbury), started at (Q + D)^-1 (y - c). With a
free level every preconditioned residual z is projected, z - s (1'z) / (1's) with s = (Q + D)^-1 1, which keeps u'1 = 0
(Gould, Hribar & Nocedal 2001). As A^-1 <= (Q + D)^-1, what u still misses is at most r'(Q + D)^-1 r / 2 (r'z / 2 where
z is projected): the iteration stops when that is small, and less that it is a lower end (Artemev, Burt & van der Wilk
2021). Without any u that is the one of vfe.py, -(y - c)'(Q + D)^-1 (y - c) / 2.

Every product A u visits all pairs of rows. A bound without one (Titsias 2014): with t = tr(D^-1/2 (K0 - Q) D^-1/2),

    K0 - Q <= t D,  so  A <= Q + (1 + t) D  and  -(y - c)'A^-1 (y - c) / 2 <= -(y - c)'(Q + (1 + t) D)^-1 (y - c) / 2

which needs only the sums over rows that the lower bound has already, scaled. It is good where t is small. Where it
agrees with the lower end no product is worth its time.

Determinant: log |Q + D| <= log |A| <= log |Q + D| + N log(1 + t / N), as the mean of logarithms is at most the
logarithm of the mean; closer by two traces (`Traces`), which a pass over all pairs of rows gives.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import blas

from mercer.compute.backend import NUMBA, Backend
from mercer.compute.program import Program
from mercer.inference.contract import Data
from mercer.inference.likelihood import LOG_2_PI
from mercer.inference.sparse import EPSILON, RowSweep, SparseSolution, back_solve, model_of, slices, solve
from mercer.inference.vfe import VFE, FixedVFE
from mercer.kernels.domains import Array
from mercer.linalg.factor import Failure, factorise


@dataclass(frozen=True)
class BoundPolicy:
    """How closely to bound the exact log evidence, and what that may cost."""

    steps: int | None = 20  # of conjugate gradients at most, each with one product K v; None: without any such product
    enough: float = 1e-3  # of log evidence: what the quadratic term may miss before the iteration stops
    traces: bool = False  # bound the determinant by two traces, where the interval is wide without
    narrow: float = 1.0  # of log evidence: an interval that is narrower needs no more points
    pairs_rows: int = 30_000  # with more rows a product with the matrix of all pairs takes too long: do without
    pairs_work: float = 1e11  # pairs of rows times inducing points, for the traces: some seconds
    finest: float = 5e10  # multiplications in a pass over the rows, where there are only a few: a second or so


DEFAULT = BoundPolicy()


@dataclass(frozen=True)
class Interval:
    """Where the exact log evidence lies."""

    lower: float
    upper: float

    @property
    def width(self) -> float:
        """How much is not known."""
        return self.upper - self.lower


def interval(
    program: Program, values: Array, noise: float, data: Data, Z: Array,
    policy: BoundPolicy = DEFAULT, sweep: RowSweep = RowSweep(),  # noqa: B008  (it is frozen)
) -> Interval:  # fmt: skip
    """Return both bounds on the exact log evidence; infinite where no number can be had."""
    solution = solve(model_of(program, values, noise, data, Z, sweep.backend), data, sweep)
    if isinstance(solution, Failure) or not math.isfinite(solution.bound):
        return Interval(-math.inf, math.inf)
    if solution.inner.jitter > 0.0:  # the determinant is then too large to bound from below
        return Interval(solution.bound, math.inf)
    quadratic = _bound_quadratic(solution, data, policy)
    # between what log |A| - log |Q + D| lies
    excess = Interval(0.0, data.count * math.log1p(max(0.0, solution.sums.trace) / data.count))
    wide = quadratic.width + 0.5 * excess.width > policy.narrow
    if policy.traces and wide and data.count**2 * len(Z) <= policy.pairs_work:
        traces = measure_traces(solution, data)
        if math.isfinite(traces.squares):
            excess = Interval(max(excess.lower, traces.least()), min(excess.upper, traces.most()))
    known = -0.5 * (data.count * LOG_2_PI + solution.log_determinant)
    lower = max(solution.bound, known + quadratic.lower - 0.5 * excess.upper)
    upper = known + quadratic.upper - 0.5 * excess.lower
    if not math.isfinite(upper):  # numbers too large to be squared
        return Interval(lower, math.inf)
    return Interval(lower, max(lower, upper))  # rounding, where both meet


def closest(
    program: Program, values: Array, noise: float, data: Data, held: FixedVFE, engine: VFE,
    policy: BoundPolicy = DEFAULT,
) -> tuple[Interval, int]:  # fmt: skip
    """Return as narrow an interval as a minute or so allows, and by how many inducing points.

    Those that an engine holds are few enough for hundreds of passes over the rows. Here there are a few: twice as many
    points each time, until the interval is narrow or a pass takes too long.
    """
    alone = data.count > policy.pairs_rows or data.source is not None
    policy = replace(policy, steps=None if alone else policy.steps, traces=not alone)
    found = Interval(-math.inf, math.inf)
    while True:
        closer = interval(program, values, noise, data, held.Z, policy, held.sweep)
        lower = max(found.lower, closer.lower)
        found = Interval(lower, max(lower, min(found.upper, closer.upper)))
        wanted = 2 * len(held.Z)
        too_long = data.source is not None or wanted > data.count or data.count * wanted**2 > policy.finest
        if too_long or not found.width > policy.narrow:
            return found, len(held.Z)
        finer = replace(engine, inducing=wanted, joint=False).hold(program, values, data)
        if len(finer.Z) <= len(held.Z):  # they say all that the rows have to say
            return found, len(held.Z)
        held = finer


def _bound_quadratic(solution: SparseSolution, data: Data, policy: BoundPolicy) -> Interval:
    """Return between what -(y - c)'A^-1 (y - c) / 2 lies."""
    found = Interval(-0.5 * solution.fit, _without_products(solution, data))
    if policy.steps is None or not found.width > policy.enough:
        return found
    closer = _minimise(solution, data, policy.steps, policy.enough)
    if not (math.isfinite(closer.lower) and math.isfinite(closer.upper)):
        return found
    return Interval(max(found.lower, closer.lower), min(found.upper, closer.upper))


def _without_products(solution: SparseSolution, data: Data) -> float:
    """Return -(y - c)'(Q + (1 + t) D)^-1 (y - c) / 2 with the best c, from the sums for Q + D divided by 1 + t."""
    sums = solution.sums
    scale = 1.0 + max(0.0, sums.trace) + sums.rounding
    inner = factorise(lambda: sums.gram / scale, 1.0)
    if isinstance(inner, Failure) or inner.jitter > 0.0:
        return 0.0  # the largest that the term can be
    both = inner.half_solve(np.stack([sums.by_target, sums.by_one]).T / scale)
    yy, y1, ones = sums.moments / scale - (both.T @ both)[[0, 0, 1], [0, 1, 1]]
    return -0.5 * float(yy - y1 * y1 / ones if data.free_level else yy)


def _minimise(solution: SparseSolution, data: Data, steps: int, enough: float) -> Interval:
    """Return between what the least value of u'A u / 2 - u'y lies, by conjugate gradients.

    Whatever they do, they reach one of its values, but for rounding: |k_ij| <= s_i s_j with s the root of A's diagonal,
    so what a step p adds to A u is wrong by no more than about eps s (s'|p|). Where the noise is tiny steps can be huge
    and cancel: `reach` is the sum of all s'|p|.
    """
    target = data.y - solution.level if data.free_level else data.y  # any constant may be taken out
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is not used
        system = _System(solution, data)
        guess = system.precondition(target)
        product = system.times(guess)
        residual, reach = target - product, float(system.spread @ abs(guess))
        direction = better = system.precondition(residual)
        left = float(residual @ better)
        for _ in range(steps):
            if not left > 2.0 * enough:
                break
            moved = system.times(direction)
            step = left / float(direction @ moved)
            guess, product, residual = guess + step * direction, product + step * moved, residual - step * moved
            reach += abs(step) * float(system.spread @ abs(direction))
            better = system.precondition(residual)
            left, before = float(residual @ better), left
            direction = better + (left / before) * direction
        value = float(0.5 * (guess @ product) - guess @ target)
        rounding = EPSILON * float(system.spread @ abs(guess)) * reach
        missed = system.norm(residual, better) + EPSILON * reach * system.stretch
    return Interval(value - rounding - 0.5 * missed**2, value + rounding)


class _System:
    """Products with A and with (Q + D)^-1, in blocks of rows; the latter with the level projected out if it is free."""

    def __init__(self, solution: SparseSolution, data: Data) -> None:
        self.solution, self.data, self.model = solution, data, solution.model.here()
        self.noises = np.asarray(self.model.noises(data.X))  # the diagonal of D
        self.spread = np.asarray(np.sqrt(self.model.prior(data.X) + self.noises))  # the root of the diagonal of A
        self.stretch = math.sqrt(float((self.spread**2 / self.noises).sum()))  # its norm in units of D^1/2
        if data.free_level:
            self.pull = self._less(solution.pull, np.ones(data.count))  # s = (Q + D)^-1 1

    def times(self, vector: Array) -> Array:
        """Return A v = K0 v + D v with O(block N) memory."""
        model = self.solution.model
        return model.backend.times(model.smooth, model.values, self.data.X, vector) + self.noises * vector

    def precondition(self, vector: Array) -> Array:
        """Return (Q + D)^-1 v, less s (1'(Q + D)^-1 v) / (1's) with a free level, so that its sum is zero."""
        right = self._gather(vector / self.noises)
        factor, inner = self.solution.factor, self.solution.inner
        solved = self._less(back_solve(factor, inner.solve(factor.half_solve(right))), vector)
        if self.data.free_level:
            solved -= self.pull * (solved.sum() / self.pull.sum())
            solved -= solved.mean()  # rounding
        return solved

    def norm(self, vector: Array, solved: Array) -> float:
        """Return what the root of v'(Q + D)^-1 v is at most, where z = `precondition(v)` may be wrong by rounding.

        With e = v - (Q + D) z it is h with h^2 = v'z + v'(Q + D)^-1 e <= v'z + h |D^-1/2 e|. With a free level the same
        holds for v less any constant, as 1'z = 0.
        """
        factor, right = self.solution.factor, self._gather(solved)
        wrong = self._less(back_solve(factor, factor.half_solve(right)), vector) - solved  # D^-1 e
        if self.data.free_level:
            wrong -= (wrong.sum() / (1.0 / self.noises).sum()) / self.noises
        length = math.sqrt(float(wrong @ (wrong * self.noises)))
        return 0.5 * (length + math.sqrt(max(0.0, length**2 + 4.0 * float(vector @ solved))))

    def _gather(self, vector: Array) -> Array:
        """Return Kuf v."""
        model, right = self.model, np.zeros(len(self.model.Z))
        for rows in slices(self.data.count, RowSweep().size(len(model.Z))):
            right += vector[rows] @ model.cross(self.data.X[rows])
        return right

    def _less(self, weights: Array, vector: Array) -> Array:
        """Return D^-1 (v - Kfu w)."""
        model, X, out = self.model, self.data.X, np.empty(self.data.count)
        for rows in slices(self.data.count, RowSweep().size(len(model.Z))):
            out[rows] = (vector[rows] - model.cross(X[rows]) @ weights) / self.noises[rows]
        return out


# ------------------------------------------------------------------------------------------- the determinant, closely


@dataclass(frozen=True)
class Traces:
    """How far log |K0 + D| lies above log |Q + D|, for certain, by two traces (Bai & Golub 1997).

    With A = K0 + D >= Q + D the difference is log |I + E|, E = (Q + D)^-1/2 (K0 - Q) (Q + D)^-1/2 >= 0. Of its N
    eigenvalues e two sums are enough, t = tr E and s = tr E^2: for any x >= 0 the parabola through log(1 + e) at e = x,
    with its slope there, and at one more point lies below it where that is 0, above it where that is no smaller than
    every e (the third derivative of log(1 + e) is positive), and its sum over e needs only N, t and s. The best x gives

        (t^2 / s) log(1 + s / t) <= log |I + E| <= (N - w) log(1 + x) + w log(1 + b)

    with b = sqrt(s) >= e, x = (b t - s) / (b N - t), w = (t - N x) / (b - x): quadrature by Gauss and Radau. With V
    and B as in sparse.py, W = C^-1 V for B = C C', and G = D^-1/2 K0 D^-1/2 - V'V, as
    (Q + D)^-1 = D^-1/2 (I - W'W) D^-1/2,

        tr E = tr G - tr(W G W'),   tr E^2 = |G|^2 - 2 |G W'|^2 + |W G W'|^2      (sums of squares)

    go over G in strips: 4 N^2 m multiplications and additions, O(N m) memory.
    """

    count: int
    total: float  # t
    squares: float  # s
    rounding: float  # of t
    rounding_of_squares: float

    def least(self) -> float:
        """Return what log |I + E| is at least."""
        t, s = self.total - self.rounding, self.squares + self.rounding_of_squares
        return t * t / s * math.log1p(s / t) if min(t, s) > 0.0 else 0.0

    def most(self) -> float:
        """Return what log |I + E| is at most."""
        N, t, b = self.count, self.total + self.rounding, math.sqrt(max(0.0, self.squares) + self.rounding_of_squares)
        if not (t > 0.0 and b > 0.0):
            return 0.0
        # no sum of squares is smaller than that of N equal numbers, or larger than b t
        s = min(max(self.squares - self.rounding_of_squares, t * t / N), b * t)
        x = max(0.0, (b * t - s) / (b * N - t)) if b * N > t else t / N
        w = (t - N * x) / (b - x) if b > x else 0.0
        return min(N * math.log1p(t / N), (N - w) * math.log1p(x) + w * math.log1p(b))


def measure_traces(solution: SparseSolution, data: Data) -> Traces:
    """Return the two traces, by one pass over all pairs of rows; on the CPU where a device has too little memory."""
    model, X, backend = solution.model.here(), data.X, solution.model.backend
    root = 1.0 / np.sqrt(model.noises(X))
    crossed = model.cross(X).T * root
    half = np.ascontiguousarray(blas.dtrmm(1.0, solution.inverse_root.T, crossed, lower=0, trans_a=1))  # V
    inner = solution.inner.half_solve(half)  # W

    def add_traces(backend: Backend) -> tuple[float, float, float]:
        strips = backend.strips(model.smooth, model.values, X)
        return _add_traces(strips, *(backend.send(array) for array in (half, inner, root)))

    with np.errstate(over="ignore", invalid="ignore"):  # squares that are too large are seen to be infinite
        total, squares, whole = backend.attempt(lambda: add_traces(backend)) or add_traces(NUMBA)
    rounding = solution.sums.rounding
    return Traces(len(X), total, squares, rounding, len(X) * EPSILON * whole + 2.0 * rounding * abs(total))


def _add_traces(strips: Iterable[tuple[int, Any]], half: Any, inner: Any, root: Any) -> tuple[float, float, float]:
    """Return tr E, tr E^2 and |G|^2 from strips of rows of K0, all of them arrays of NumPy or of PyTorch."""
    total = whole = by_inner = 0.0
    both: Any = 0.0  # W G W'
    for first, strip in strips:
        rows = slice(first, first + len(strip))
        strip *= root[rows, None] * root
        strip -= half[:, rows].T @ half
        total += float(strip[:, rows].diagonal().sum())
        whole += float((strip * strip).sum())
        across = strip @ inner.T
        by_inner += float((across * across).sum())
        both = both + inner[:, rows] @ across
    return total - float(both.diagonal().sum()), whole - 2.0 * by_inner + float((both * both).sum()), whole
