"""The one door to a Cholesky factorisation: stabilised by a ladder of jitter, and it says what it added.

Matrices are C-ordered with only the lower triangle in use; LAPACK sees their transpose (Fortran order, upper triangle),
so nothing is copied. Tensors go through `mercer.linalg.device`, up the same ladder; no other file factorises.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import blas

from mercer.kernels.domains import Array
from mercer.linalg.threads import SMALL, one_thread
from mercer.linalg.unlocked import factorise_lower, invert_lower, solve_lower

# Fractions of the mean of the diagonal, tried in turn; the first one is "nothing".
LADDER = (0.0, 1e-10, 1e-8, 1e-6)
# A fit asks for the same N x N numbers hundreds of times. Fresh memory costs a page fault for every 4 kB (at N = 500
# several times the kernel evaluation itself), so each thread keeps its last buffer, up to a size that nobody will miss:
# a matrix of 2,800 rows. Larger ones get huge pages, and are not worth keeping.
KEPT_BYTES = 64_000_000
_kept = threading.local()


@dataclass(frozen=True)
class Factor:
    """A = L L' with L in the lower triangle of `lower`; `jitter` is what was added to the diagonal of A."""

    lower: Array
    jitter: float

    def log_determinant(self) -> float:
        """Return log |A|."""
        return 2.0 * float(np.log(np.diagonal(self.lower)).sum())

    def solve(self, right: Array) -> Array:
        """Return A^-1 right for a vector or a matrix."""
        with one_thread(when=len(self.lower) < SMALL):
            return solve_lower(self.lower, right)

    def half_solve(self, right: Array) -> Array:
        """Return L^-1 right."""
        with one_thread(when=len(self.lower) < SMALL):
            if right.ndim == 1:
                return np.asarray(blas.dtrsv(self.lower.T, right, lower=0, trans=1))
            return np.asarray(blas.dtrsm(1.0, self.lower.T, np.asfortranarray(right), lower=0, trans_a=1))

    def multiply(self, right: Array) -> Array:
        """Return L right (for samples)."""
        with one_thread(when=len(self.lower) < SMALL):
            return np.asarray(blas.dtrmm(1.0, self.lower.T, np.asfortranarray(right), lower=0, trans_a=1))

    def inverse_diagonal(self) -> Array:
        """Return the diagonal of A^-1; the factor stays."""
        return np.diagonal(Factor(self.lower.copy(), 0.0).into_inverse()).copy()

    def into_inverse(self) -> Array:
        """Return A^-1 in the lower triangle, in the memory of the factor, which is lost."""
        with one_thread(when=len(self.lower) < SMALL):
            return invert_lower(self.lower)


@dataclass(frozen=True)
class Failure:
    """Why a matrix could not be factorised: a value, so that a search over bad candidates goes on."""

    reason: str


class Routines(NamedTuple):
    """What to factorise with, for a kind of matrix: a diagonal to write to, a factor in place (None: it has none)."""

    view: Callable[[Any], Any]
    overwrite: Callable[[Any], Any | None]
    make: Callable[[Any, float], Any]


def jitters(scale: Any, least: float = 0.0) -> Iterator[Any]:
    """Yield what to add to a diagonal whose mean is `scale`, in turn: the one ladder, from the rung `least` on."""
    return (rung * abs(scale) for rung in LADDER if rung >= least)


def _overwrite(matrix: Array) -> Array | None:
    with one_thread(when=len(matrix) < SMALL):
        return factorise_lower(matrix)


LAPACK = Routines(lambda matrix: np.einsum("ii->i", matrix), _overwrite, Factor)


def factorise(
    build: Callable[[], Any], diagonal: float | Array = 0.0, least: float = 0.0, by: Routines = LAPACK
) -> Any | Failure:
    """Factorise build() + diagonal * I. `build` is called again for each rung: the factor overwrites the matrix.

    `least`: the rung to begin with, where fewer are known not to be enough. Returns a `Factor`, or what `by` makes.
    """
    matrix: Any = build()
    with np.errstate(over="ignore", invalid="ignore"):  # a failure is returned instead
        scale = float(by.view(matrix).mean()) if len(matrix) else 1.0
    if not np.isfinite(scale):
        return Failure("the kernel gave infinite or undefined values")
    for jitter in jitters(scale, least):
        matrix = build() if matrix is None else matrix
        places = by.view(matrix)
        places += diagonal + jitter
        lower = by.overwrite(matrix)
        if lower is not None:  # and its pivots stand above rounding: below it potrf may succeed on noise
            pivots = by.view(lower)
            largest, smallest = float(pivots.max()), float(pivots.min())
            if np.isfinite(largest) and smallest**2 > len(pivots) * np.finfo(float).eps * largest**2:
                return by.make(lower, jitter)
        matrix = places = lower = pivots = None  # before the next one is built: there may be room for one
    return Failure(f"the covariance matrix is not positive definite, even with {LADDER[-1]:g} of its diagonal added")


def scratch(rows: int, columns: int) -> Array:
    """Return an uninitialised matrix that is the caller's until this thread asks for the next."""
    size = rows * columns
    if 8 * size > KEPT_BYTES:
        return np.empty((rows, columns))
    buffer: Array | None = getattr(_kept, "buffer", None)
    if buffer is None or buffer.size < size:
        buffer = _kept.buffer = np.empty(size)
    return buffer[:size].reshape(rows, columns)
