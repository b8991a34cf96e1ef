"""A Gaussian process seen through m inducing points: the sums over blocks of rows, and the system they lead to.

With K0 the kernel without its white noise, D = diag(noise + white noise of each row), Kuu = L L' (jitter reported):

    Q = Kfu Kuu^-1 Kuf,   V = L^-1 Kuf D^-1/2,   B = I + V V',   (Q + D)^-1 = D^-1 - D^-1/2 V' B^-1 V D^-1/2

Every block of rows adds to V V' and to V times the target and the constant one (`Statistics`, joined by +): one pass
over the rows, O(m^2 + block m) memory, or O(N m) where V is kept for the gradient. V rather than Kuf is summed: forming
Kuf Kfu first would square the condition of Kuu. What follows from the sums is small (`SparseSolution`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial, reduce
from operator import add
from typing import Any, cast

import numpy as np
from scipy.linalg import blas, lapack

from mercer.compute import fused
from mercer.compute.backend import NUMBA, Backend, Matrix
from mercer.compute.program import Program
from mercer.compute.separate import Columns, find_untied, white_columns, without_white
from mercer.inference.contract import Data, Sum
from mercer.inference.likelihood import LOG_2_PI
from mercer.kernels.domains import Array
from mercer.linalg.factor import LADDER, Factor, Failure, factorise
from mercer.linalg.threads import SMALL, one_thread

EPSILON = float(np.finfo(float).eps)
ROUNDING = 10.0  # times what a trace may be wrong by: Q is too large, for certain
FEWEST_ROWS = 256  # of a block that is still cut in two where memory is short


# ------------------------------------------------------------------------------------------------- sums over the rows


@dataclass(frozen=True)
class RowSweep:
    """How to go over the rows: this many at a time, by this many of joblib's jobs, with a back end.

    Sums over rows are a map and a reduction: here, by joblib's workers, or wherever the rows are. Every block is a pure
    function of its rows, and sums are added in the order of the blocks, so that the result does not depend on who did
    which block: what a worker took with it when it died is worked out again, and no row is counted twice.
    """

    block: int | None = None
    jobs: int | None = None
    backend: Backend = NUMBA

    def size(self, points: int) -> int:
        """Return how many rows to take at a time: a number fit for the inducing points unless one is given."""
        return self.block or max(128, self.backend.block_numbers // max(1, points))

    def add_up(self, data: Data, work: Callable[[Array, Array], Sum], points: int) -> Sum:
        """Return the sum of work(X, y) over all rows.

        Without `jobs` the blocks are worked on here, one after the other, unless a joblib back end was chosen around
        the call (`joblib.parallel_config`): then they go there. A block for which a device has too little memory is
        cut in two.
        """
        if self.backend.batches:
            work = cast(Callable[[Array, Array], Sum], partial(_halve, self.backend, work))
        if data.source is not None:
            return data.source.add_up(work, self.size(points))
        from joblib import Parallel, delayed

        parts = slices(data.count, self.size(points))
        with one_thread(when=self.jobs not in (None, 1)):  # threads of joblib, not threads in threads
            pool = Parallel(n_jobs=self.jobs, prefer="threads", return_as="generator")
            total: Sum = reduce(add, pool(delayed(work)(data.X[rows], data.y[rows]) for rows in parts))
        return total


def _halve(backend: Backend, work: Callable[[Array, Array], Any], X: Array, y: Array) -> Any:
    """Work on a block; where the back end has too little memory for it, on its halves."""
    try:
        return work(X, y)
    except RuntimeError as error:
        if not backend.is_out_of_memory(error) or len(y) < 2 * FEWEST_ROWS:
            raise
    backend.release_memory()
    half = len(y) // 2
    return _halve(backend, work, X[:half], y[:half]) + _halve(backend, work, X[half:], y[half:])


def slices(rows: int, size: int) -> Iterator[slice]:
    """Split the rows into blocks of a size."""
    return (slice(start, min(rows, start + size)) for start in range(0, rows, size))


# ------------------------------------------------------------------------------------------------------ one block


@dataclass(frozen=True, eq=False)
class Model:
    """A kernel with its values, the noise and the inducing points: what the work on one block needs to know."""

    whole: Program
    smooth: Program  # without the white noise that belongs to single rows
    white: Columns
    values: Array
    noise: float
    Z: Array
    backend: Backend = NUMBA

    @property
    def has_white(self) -> bool:
        """Tell whether rows have noise of their own besides `noise`."""
        return self.smooth is not self.whole

    def cross(self, X: Array, out: Array | None = None) -> Matrix:
        """Return Kfu for some rows."""
        return self.backend.cross(self.smooth, self.values, X, self.Z, out)

    def prior(self, X: Array) -> Matrix:
        """Return the diagonal of K0 for some rows."""
        return self.backend.diagonal(self.smooth, self.values, X)

    def noises(self, X: Array) -> Matrix:
        """Return the diagonal of D for some rows."""
        if not self.has_white:
            return self.backend.send(np.full(len(X), self.noise))
        return self.noise + (self.backend.diagonal(self.whole, self.values, X) - self.prior(X))

    def here(self) -> Model:
        """Return the model with the CPU's back end."""
        return self if self.backend is NUMBA else replace(self, backend=NUMBA)


def model_of(program: Program, values: Array, noise: float, data: Data, Z: Array, backend: Backend = NUMBA) -> Model:
    """Take the white noise of single rows out of the kernel."""
    white = white_columns(program)
    white = find_untied(white, data.X) if white else white  # of a source: those of its sample
    values = np.asarray(values, dtype=np.float64)
    return Model(program, without_white(program, white), white, values, float(noise), Z, backend)


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sums over some rows; those of two sets of rows are added. `gram` has its lower triangle only."""

    count: int
    log_noise: float  # log |D|
    prior: float  # tr(D^-1 K0)
    moments: Array  # y'D^-1 y, 1'D^-1 y, 1'D^-1 1
    gram: Array  # V V'
    by_target: Array  # V D^-1/2 y
    by_one: Array  # V D^-1/2 1

    @property
    def trace(self) -> float:
        """tr(D^-1 (K0 - Q))."""
        return self.prior - float(np.trace(self.gram))

    @property
    def rounding(self) -> float:
        """What the trace may be wrong by: it is a difference of two large numbers."""
        return len(self.gram) * EPSILON * self.prior

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def block_statistics(
    model: Model, inverse_root: Array, shift: float, X: Array, y: Array, out: Array | None = None
) -> Statistics:
    """Return the sums of one block of rows for the target less `shift`, given L^-1; `out` is filled with V'."""
    backend = model.backend
    X = backend.send(X)
    prior, noise = model.prior(X), model.noises(X)
    root = 1.0 / noise**0.5
    cross, scale = model.cross(X, out), 1.0 / math.sqrt(model.noise)
    if model.has_white:
        cross *= root[:, None]
        scale = 1.0
    half = backend.whiten(cross, inverse_root, scale)  # V'
    target = (backend.send(y) - shift) * root
    return Statistics(
        count=len(y),
        log_noise=float(backend.log(noise).sum()),
        prior=float((prior / noise).sum()),
        moments=np.array([float(target @ target), float(target @ root), float(root @ root)]),
        gram=backend.fetch(backend.square(half)),
        by_target=backend.fetch(half.T @ target),
        by_one=backend.fetch(half.T @ root),
    )


def back_solve(factor: Factor, right: Array) -> Array:
    """Return L'^-1 right."""
    with one_thread(when=len(factor.lower) < SMALL):
        if right.ndim == 1:
            return np.asarray(blas.dtrsv(factor.lower.T, right, lower=0, trans=0))
        return np.asarray(blas.dtrsm(1.0, factor.lower.T, np.asfortranarray(right), lower=0, trans_a=0))


def sandwich(inverse_root: Array, matrix: Array) -> Array:
    """Return L'^-1 S L^-1 for a symmetric matrix S."""
    with one_thread(when=len(matrix) < SMALL):
        left = blas.dtrmm(1.0, inverse_root.T, matrix.T, lower=0, trans_a=0)
        return np.asarray(blas.dtrmm(1.0, inverse_root.T, left.T, lower=0, trans_a=0))


def mirror(lower: Array) -> Array:
    """Return the symmetric matrix of which only the lower triangle was filled."""
    strict = np.tril(lower, -1)
    return strict + strict.T + np.diag(np.diagonal(lower))


@dataclass(frozen=True, eq=False)
class SparseSolution:
    """What the sums over all rows lead to.

    The level is profiled as in exact inference with Q + D in place of A: c = 1'(Q + D)^-1 y / 1'(Q + D)^-1 1, the
    variance of c is 1 / 1'(Q + D)^-1 1; both are zero where it is not free. With Phi = Kuf D^-1 Kfu, `weights` are
    g = (Kuu + Phi)^-1 Kuf D^-1 (y - c), so that K*u g is the mean of f less c, and `pull` h has 1 in place of y - c.
    """

    model: Model
    factor: Factor  # of Kuu = L L'
    inverse_root: Array  # L^-1: to multiply by it is as exact as solving with L, and a third faster
    inner: Factor  # of B
    sums: Statistics
    half_weights: Array  # L' g
    level: float
    level_variance: float
    fit: float  # (y - c)'(Q + D)^-1 (y - c)
    weights: Array
    pull: Array

    @property
    def jitter(self) -> float:
        """What was added to the diagonal of Kuu, and to that of L^-1 Phi L'^-1 + I in units of the noise."""
        return self.factor.jitter + self.model.noise * self.inner.jitter

    @property
    def log_determinant(self) -> float:
        """log |Q + D|."""
        return self.inner.log_determinant() + self.sums.log_noise

    @property
    def bound(self) -> float:
        """log N(y | c, Q + D) - tr(D^-1 (K0 - Q)) / 2 (Titsias 2009)."""
        return -0.5 * (self.sums.count * LOG_2_PI + self.log_determinant + self.fit + self.sums.trace)


def solve(
    model: Model, data: Data, sweep: RowSweep = RowSweep(),  # noqa: B008  (it is frozen)
    kept: Array | None = None, sums: Statistics | None = None,
) -> SparseSolution | Failure:  # fmt: skip
    """Go over the rows once, unless their sums are known, and solve for the level and the weights.

    `kept` (N x m) is filled with V'.
    """
    points = len(model.Z)
    if not (math.isfinite(model.noise) and model.noise > 0.0):
        return Failure("sparse inference needs noise above zero")
    if not points:
        return Failure("sparse inference needs at least one inducing point")
    shift = float(data.y.mean()) if data.free_level else 0.0
    for rung in LADDER if sums is None and data.source is None else LADDER[:1]:
        factor = factorise(lambda: _inducing_gram(model), least=rung)
        if isinstance(factor, Failure):
            return factor
        inverse_root = np.asarray(lapack.dtrtri(factor.lower.T, lower=0)[0].T)
        work = partial(block_statistics, model, inverse_root, shift)
        if sums is not None:
            found = sums
        elif kept is None:
            found = sweep.add_up(data, work, points)
        else:
            parts = slices(data.count, sweep.size(points))
            found = reduce(add, (work(data.X[rows], data.y[rows], kept[rows]) for rows in parts))
        if not (np.isfinite(found.moments).all() and np.isfinite(np.diagonal(found.gram)).all()):
            return Failure("the kernel gave infinite or undefined values, or the target overflowed")
        # Where Q is larger than K0, but for rounding, Kuu is nearly singular and the bound is none. Points that move
        # with the parameters would go where that makes the bound largest.
        if sums is not None or found.trace >= -ROUNDING * found.rounding:
            sums = found
            break
    else:
        return Failure("inducing points are too close together for this kernel and so little noise")
    inner, free = factorise(sums.gram.copy, 1.0), data.free_level
    if isinstance(inner, Failure):
        return inner
    both = inner.half_solve(np.stack([sums.by_target, sums.by_one]).T)  # B^-1/2 V D^-1/2 (y, 1)
    yy, y1, ones = sums.moments - (both.T @ both)[[0, 0, 1], [0, 1, 1]]
    # Where nothing but rounding is left of 1'(Q + D)^-1 1, the kernel has any constant already, and the mean serves.
    known = free and ones > ROUNDING * EPSILON * sums.moments[2]
    level, variance = (y1 / ones, 1.0 / ones) if known else (0.0, 0.0)
    half = back_solve(inner, both)
    weights, pull = back_solve(factor, half).T
    return SparseSolution(
        model, factor, inverse_root, inner, sums, half[:, 0] - level * half[:, 1], level=shift + level,
        level_variance=variance, fit=float(yy - level * y1), weights=weights - level * pull, pull=pull,
    )  # fmt: skip


def _inducing_gram(model: Model) -> Array:
    """Return Kuu, or one where the kernel is zero at all inducing points: Kuf is zero then, and Q too."""
    gram = fused.gram_lower(model.smooth, model.values, fused.points(model.Z))
    return gram if np.diagonal(gram).any() else np.eye(len(gram))
