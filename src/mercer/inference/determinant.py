"""How far log |K0 + D| lies above log |Q + D|, for certain, by two traces (Bai & Golub 1997).

With A = K0 + D >= Q + D the difference is log |I + E|, E = (Q + D)^-1/2 (K0 - Q) (Q + D)^-1/2 >= 0. Of its N
eigenvalues e two sums are enough, t = tr E and s = tr E^2: for any x >= 0 the parabola through log(1 + e) at e = x,
with its slope there, and at one more point lies below it where that is 0, above it where that is no smaller than every
e (the third derivative of log(1 + e) is positive), and its sum over e needs only N, t and s. The best x gives

    (t^2 / s) log(1 + s / t) <= log |I + E| <= (N - w) log(1 + x) + w log(1 + b)

with b = sqrt(s) >= e, x = (b t - s) / (b N - t), w = (t - N x) / (b - x): quadrature by Gauss and Radau. With V and B
as in sparse.py, W = C^-1 V for B = C C', and G = D^-1/2 K0 D^-1/2 - V'V, as (Q + D)^-1 = D^-1/2 (I - W'W) D^-1/2,

    tr E = tr G - tr(W G W'),   tr E^2 = |G|^2 - 2 |G W'|^2 + |W G W'|^2      (sums of squares)

go over G in strips: 4 N^2 m multiplications and additions, O(N m) memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import blas

from mercer.compute import fused
from mercer.inference.contract import Data
from mercer.inference.rows import slices
from mercer.inference.sparse import EPSILON, Solution
from mercer.kernels.domains import Array

STRIP_NUMBERS = 4_000_000  # of G at a time: 32 MB


@dataclass(frozen=True)
class Spectrum:
    """What is known of the N eigenvalues of E: their sum and that of their squares, and how exactly."""

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


def spectrum(solution: Solution, data: Data, device: str = "cpu") -> Spectrum:
    """Return the two traces, by one pass over all pairs of rows."""
    model, X = solution.model, data.X
    root = 1.0 / np.sqrt(model.noises(X))
    half = np.ascontiguousarray(
        blas.dtrmm(1.0, solution.inverse_root.T, model.cross(X).T * root, lower=0, trans_a=1)
    )  # V
    inner = solution.inner.half_solve(half)  # W
    found = None if device == "cpu" else _on_device(device, solution, X, half, inner, root)
    if found is None:
        size = max(1, STRIP_NUMBERS // len(X))
        strips = ((rows.start, fused.cross(model.smooth, model.values, X[rows], X)) for rows in slices(len(X), size))
        with np.errstate(over="ignore", invalid="ignore"):  # squares that are too large are seen to be infinite
            found = _traces(strips, half, inner, root)
    total, squares, whole = found
    rounding = solution.sums.rounding
    return Spectrum(len(X), total, squares, rounding, len(X) * EPSILON * whole + 2.0 * rounding * abs(total))


def _on_device(
    device: str, solution: Solution, X: Array, half: Array, inner: Array, root: Array
) -> tuple[float, float, float] | None:
    """Return what `_traces` finds, worked out there; None where the device has too little memory."""
    from mercer.inference.device_blocks import device_strips, sent  # brings PyTorch with it
    from mercer.linalg.device import unless_short

    return unless_short(
        lambda: _traces(
            device_strips(device, solution.model, X), *(sent(device, array) for array in (half, inner, root))
        )
    )


def _traces(strips: Iterable[tuple[int, Any]], half: Any, inner: Any, root: Any) -> tuple[float, float, float]:
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
    return (
        total - float(both.diagonal().sum()),
        whole - 2.0 * by_inner + float((both * both).sum()),
        whole,
    )
