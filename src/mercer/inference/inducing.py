"""Where to put inducing points: the rows that the others say least about, one after the other.

Greedy choice by conditional variance (Burt, Rasmussen & van der Wilk 2020, 4.2.2) is Cholesky with pivoting: the row
chosen next has the largest k(x, x) - k(x, S) k(S, S)^-1 k(S, x), S being the rows chosen before. It makes the trace
tr(K - Q) small, which is what the variational bound loses.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer.compute import fused
from mercer.compute.program import Program
from mercer.compute.separate import without_white
from mercer.kernels.domains import Array

CANDIDATES = 20_000  # above this many rows a random subset of them is looked at
NEGLIGIBLE = 1e-10  # of the largest variance: what is left is rounding, and more points would only harm


def greedy(
    program: Program,
    values: Array,
    X: Array,
    count: int,
    *,
    seed: int = 0,
    candidates: int = CANDIDATES,
    negligible: float = NEGLIGIBLE,
    spare: float = 0.0,
) -> NDArray[np.int64]:
    """Return the numbers of at most `count` rows, no two of them alike, in the order in which they were chosen.

    Fewer are returned where the residual variance everywhere falls below `negligible` times the largest variance, or
    where its mean falls to `spare`: what points leave over is known after each of them, so that none need be tried in
    vain. White noise inside the kernel is left out of account. O(N m^2) time and O(N m) memory for N candidates.
    """
    smooth = without_white(program)
    rows = _candidates(X, seed, candidates)
    chosen = _pivots(smooth, values, X[rows], max(1, min(count, len(rows))), negligible, spare)
    return rows[chosen]


def _candidates(X: Array, seed: int, most: int) -> NDArray[np.int64]:
    """Return the numbers of distinct rows, in order; of a random subset of the rows if there are too many."""
    rows = np.arange(len(X))
    if len(X) > most:
        rows = np.sort(np.random.default_rng(seed).choice(len(X), most, replace=False))
    _, first = np.unique(X[rows], axis=0, return_index=True)
    return rows[np.sort(first)]


def _pivots(program: Program, values: Array, X: Array, count: int, negligible: float, spare: float) -> list[int]:
    """Return the pivots of Cholesky's factorisation of the Gram matrix of the rows."""
    left = fused.diagonal(program, values, X)  # residual variances
    least = negligible * float(np.max(left))
    lower = np.empty((count, len(X)))  # lower[t] is column t of the factor
    chosen: list[int] = []
    for t in range(count):
        pivot = int(np.argmax(left))
        if not left[pivot] > least and chosen:
            break
        column = fused.cross(program, values, X[pivot : pivot + 1], X)[0]  # k is symmetric; one long row is faster
        column -= lower[:t, pivot] @ lower[:t]
        chosen.append(pivot)
        if not left[pivot] > 0.0:  # a kernel that is zero everywhere: any row will do
            break
        lower[t] = column / np.sqrt(left[pivot])
        left -= lower[t] ** 2
        left[pivot] = 0.0
        if left.mean() <= spare:
            break
    return chosen
