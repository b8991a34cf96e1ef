"""A space of kernels: the span of a harmonic hyperkernel on a grid of pairs (KFO 3.1, appendix A.2 and A.3).

    kappa(u, c) = (1 - h) / (1 - h u c) = (1 - h) sum_n (h u c)^n                              (KFO 3)

u and c are values of a kernel above zero, one at distance zero: with Matern 3/2 it is the paper's hyperkernel. A kernel
of the space is K = sum_i alpha_i kappa(., c_i) over a grid of pairs, alpha = E L^-1/2 beta (KFO 14), E and L being the
leading eigenvectors and eigenvalues of kappa's Gram matrix on the grid: beta are its coordinates, |beta| its norm.

As kappa is a power series in u, so is K. Each kappa(., c_i) is written once, when the space is made, as a sum of a few
powers of u with weights not below zero; from then on a kernel is a handful of weights, and what it costs to evaluate
does not depend on the grid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import nnls

from mercer.errors import InputError
from mercer.kernels.domains import Array

Definite = Literal["series", "clip", "flip", "spectrum", "spectrum-flip", "spectrum-shift"]
Distance = Literal["rkhs", "l2"]
SPECTRA = ("spectrum", "spectrum-flip", "spectrum-shift")  # at the Gram matrix: the kernel stays as it is
Series = tuple[tuple[int, ...], tuple[float, ...]]  # powers and weights

PLAIN: Series = ((1,), (1.0,))  # the kernel inside as it is

LADDER = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
AT = np.linspace(0.0, 1.0, 129)[1:]  # values of u where a series is fitted
LARGE_GRID = 500  # points from which only the leading eigenvectors are worked out, by random projections
SMALLEST_EIGENVALUE = 1e-6  # of the largest: what is smaller is rounding and makes alpha explode
MOST_COMPONENTS = 16
FAINT = 1e-5  # of the largest weight: powers with less are left out
RATES = (0.3, 0.6, 0.9)  # of the hyperkernel: tried before the others
RATE_LIMITS = (0.02, 0.98)
DIGITS = 8  # of the weights that are kept: they are constants of the kernel, and are printed


def hyperkernel(u: Array, c: Array, rate: float) -> Array:
    """Return kappa(u, c) for every pair of entries."""
    return (1.0 - rate) / (1.0 - rate * np.multiply.outer(u, c))


@dataclass(frozen=True, eq=False)
class KernelSpace:
    """The grid (values c of the kernel inside), E, L, the series of kappa(., c_i): powers x grid, and kappa(., 1)."""

    rate: float
    grid: Array
    vectors: Array
    eigenvalues: Array
    ladder: Array
    start: Array

    @property
    def dimensions(self) -> int:
        """How many coordinates a kernel has (N')."""
        return len(self.eigenvalues)

    @property
    def first(self) -> Array:
        """The coordinates of kappa(., no distance), which scores a space, and where its search begins."""
        return self.coordinates(self.start)

    def draw(self, rng: np.random.Generator) -> Array:
        """Return the coordinates of a kernel drawn from the Gaussian process with covariance kappa."""
        return rng.standard_normal(self.dimensions)

    def on_grid(self, beta: Array) -> Array:
        """Return the kernel at the grid, k = E L^1/2 beta."""
        return self.vectors @ (np.sqrt(self.eigenvalues) * beta)

    def alpha(self, beta: Array) -> Array:
        """Return the weights of kappa(., c_i): alpha = E L^-1/2 beta."""
        return self.vectors @ (beta / np.sqrt(self.eigenvalues))

    def coordinates(self, on_grid: Array) -> Array:
        """Return the coordinates of the kernel of the space nearest to these values on the grid."""
        return (self.vectors.T @ on_grid) / np.sqrt(self.eigenvalues)

    def metric(self, kind: Distance) -> Array:
        """Return what multiplies each squared difference of coordinates: one, or the eigenvalues (KFO 20, 21)."""
        return np.ones(self.dimensions) if kind == "rkhs" else self.eigenvalues

    def series(self, beta: Array, definite: Definite) -> Series | None:
        """Return powers and weights of the kernel, K(0) being one; None where nothing is left of it.

        clip, flip : alpha below zero becomes zero, or loses its sign: a kernel. series : weights of powers below zero
        become zero, which is a kernel too and changes less. SPECTRA : everything stays as it is (Krein).
        The power zero is left out: a constant is the level of a Gaussian process, and the bias of an SVM.
        """
        alpha = self.alpha(beta)
        if definite in ("clip", "flip"):
            alpha = np.maximum(alpha, 0.0) if definite == "clip" else np.abs(alpha)
        weights = self.ladder @ alpha
        weights[0] = 0.0
        if definite == "series":
            weights = np.maximum(weights, 0.0)
        size = float(np.abs(weights).max())
        if not (np.isfinite(size) and size > 0):
            return None
        weights = np.where(np.abs(weights) < FAINT * size, 0.0, weights)
        total = float(weights.sum())  # the weights add up to one where they can
        weights = weights / (total if total > 0.05 * np.abs(weights).sum() else np.abs(weights).sum())
        return make_series(LADDER, weights)


def make_series(powers: Sequence[int], weights: Array, least: float = 0.0) -> Series:
    """Return powers and weights, rounded as they are printed, and scaled again where some are not above `least`."""
    kept = np.abs(weights) > least
    scale = 1.0 if kept[weights != 0].all() else float(weights.sum() / weights[kept].sum())
    chosen = [(p, float(f"{w * scale:.{DIGITS}g}")) for p, w, keep in zip(powers, weights, kept, strict=True) if keep]
    return tuple(p for p, _ in chosen), tuple(w for _, w in chosen)


def build_space(grid: Array, rate: float, components: int | None = None, seed: int = 0) -> KernelSpace:
    """Work out everything that depends on the grid."""
    if not 0.0 < rate < 1.0:
        raise InputError(f"the rate of a harmonic hyperkernel lies between 0 and 1, not {rate!r}")
    matrix, count = hyperkernel(grid, grid, rate), min(components or MOST_COMPONENTS, len(grid))
    start = hyperkernel(grid, np.ones(1), rate)[:, 0]
    return KernelSpace(rate, grid, *decompose(matrix, count, seed), expand_in_powers(grid, rate), start)


def decompose(matrix: Array, count: int, seed: int = 0) -> tuple[Array, Array]:
    """Return the leading eigenvectors and eigenvalues of a hyperkernel's Gram matrix."""
    if len(matrix) <= LARGE_GRID:
        values, vectors = np.linalg.eigh(matrix)
        values, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
    else:
        from sklearn.utils.extmath import randomized_svd

        vectors, values, _ = randomized_svd(matrix, count, n_iter=4, random_state=seed)
    kept = values > SMALLEST_EIGENVALUE * values[0]
    return vectors[:, kept], values[kept]


def expand_in_powers(grid: Array, rate: float) -> Array:
    """Return kappa(., c) of every c as weights, none below zero, of the powers in `LADDER`: powers x grid."""
    basis = AT[:, None] ** np.array(LADDER)[None, :]
    return np.array([nnls(basis, hyperkernel(AT, np.array([c]), rate)[:, 0])[0] for c in grid]).T


def build_at(point: Array, grid: Array, components: int | None, seed: int) -> KernelSpace:
    """Return the space at a point of the tuning, whose one number is the rate."""
    return build_space(grid, float(np.clip(point[0], *RATE_LIMITS)), components, seed)


def choose_grid(units: Array, count: int) -> Array:
    """Return `count` values of the kernel inside: those of pairs of rows at even steps of rank, and one (no distance).

    `units` are the values of the kernel inside, without its variance, for many pairs of rows.
    """
    if count < 2:
        raise InputError(f"a grid has at least 2 pairs, not {count!r}")
    return np.append(np.quantile(units, np.linspace(0.0, 1.0, count - 1)), 1.0)


# --------------------------------------------------------------------------------------------- bands of frequencies


def make_bands(degree: int, dimensions: int) -> tuple[Series, ...]:
    """Return kernels, powers of a squared exponential with weights of either sign, that are bands of frequencies.

    In D dimensions u^p, u = exp(-r^2 / 2), has the spectral density p^(-D/2) exp(-t / p), t half the squared frequency,
    up to a factor. With powers M / j, j = 1 ... n, and z = exp(-t / M), 0 < z <= 1,

        sum_j a_j (M/j)^(D/2) u^(M/j)   has the density   sum_j a_j z^j,

    a polynomial. Bernstein's z^i (1 - z)^(n - i) are nowhere below zero, so each is a kernel (Bochner), and so are
    their sums, the powers u^(M/j) among them. A series without weights below zero adds up densities that are highest at
    frequency zero, and falls off more slowly than its lowest power alone; bands may do neither. The first has the
    highest frequencies, the last is u^(M/n).
    """
    multiple = math.lcm(*range(1, degree + 1))
    bands = []
    for i in range(1, degree + 1):
        powers = tuple(multiple // j for j in range(degree, i - 1, -1))
        terms = [(-1) ** (j - i) * math.comb(degree - i, j - i) for j in range(degree, i - 1, -1)]
        weights = np.array(terms) * np.array(powers) ** (dimensions / 2)
        bands.append((powers, tuple(float(w) for w in weights / weights.sum())))
    return tuple(bands)


def add_series(parts: Sequence[Series], sizes: Array, least: float = 0.0) -> Series:
    """Return sum_i sizes_i part_i, its weights adding up to one; parts of a size below `least` of them are left out."""
    sizes = np.where(sizes > least * sizes.sum(), sizes, 0.0)
    total: dict[int, float] = {}
    for (powers, weights), size in zip(parts, sizes / sizes.sum(), strict=True):
        if size > 0:
            total |= {p: total.get(p, 0.0) + size * w for p, w in zip(powers, weights, strict=True)}
    found = sorted(total)
    return make_series(found, np.array([total[p] for p in found]))
