"""Matrices with structure: Kronecker products, Toeplitz factors, and bounds on eigenvalues of sums (METHODS 7 and 9).

A vector over a grid is a tensor of the grid's shape with one more axis in front for several vectors; K = K_1 x ... x
K_D acts on it axis by axis, N sum(n_d) operations for N cells. Everything runs on the device of its tensors.

Written by hand although `linear_operator` has Kronecker and Toeplitz operators: the same product takes it 1.1 (1000 x
1000 cells) to 1.3 times (224 x 224) as long, it has no operator for eigenvectors over a grid with holes, and what is
needed here is twenty lines. The tests hold the two against each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Protocol

import torch
from scipy.fft import next_fast_len
from torch import Tensor

NEGLIGIBLE = 1e-3  # of the noise: directions of a matrix of low rank below it are left out


def along_axes(factors: Sequence[Tensor], grid: Tensor) -> Tensor:
    """Return (F_1 x ... x F_D) applied to every grid of a batch (b, n_1, ..., n_D); factors may be rectangular."""
    count = len(factors)
    for axis, factor in enumerate(factors, 1):
        if axis == count:
            grid = grid @ factor.mT
        else:  # (b n_1 .. , n_d, rest): one product of matrices for each of the first
            shape = grid.shape
            flat = grid.reshape(math.prod(shape[:axis]), shape[axis], -1)
            grid = (factor @ flat).reshape(*shape[:axis], factor.shape[0], *shape[axis + 1 :])
    return grid


def outer(vectors: Sequence[Tensor], left_out: int | None = None) -> Tensor:
    """Return the grid of products v_1[i] v_2[j] ..., with ones in place of one of them, if asked."""
    parts = [torch.ones_like(v) if d == left_out else v for d, v in enumerate(vectors)]
    return reduce(lambda grid, vector: grid[..., None] * vector, parts)


class Operator(Protocol):
    """A positive definite matrix, known by what it does to a batch of vectors: nobody needs its entries."""

    def times(self, vectors: Tensor) -> Tensor: ...

    def solve(self, vectors: Tensor) -> Tensor: ...

    def log_determinant(self) -> float: ...


@dataclass(frozen=True, eq=False)
class Kronecker:
    """K_1 x ... x K_D + noise I by the eigenvalues (none below zero) and eigenvectors of the factors."""

    values: tuple[Tensor, ...]
    vectors: tuple[Tensor, ...]
    noise: float = 0.0

    @property
    def grid(self) -> Tensor:
        """The eigenvalues of the product, one for each cell, without the noise."""
        return outer(self.values)

    @cached_property
    def variances(self) -> Tensor:
        """The same, with the noise."""
        return self.grid + self.noise

    def times(self, vectors: Tensor) -> Tensor:
        return self.back(self.into(vectors).mul_(self.variances))

    def solve(self, vectors: Tensor) -> Tensor:
        return self.back(self.into(vectors).div_(self.variances))

    def log_determinant(self) -> float:
        return float(torch.log(self.variances).sum())

    def into(self, grid: Tensor) -> Tensor:
        """Return Q' v for every grid of a batch."""
        return along_axes([vectors.mT for vectors in self.vectors], grid)

    def back(self, grid: Tensor) -> Tensor:
        """Return Q v."""
        return along_axes(self.vectors, grid)


def spectrum(factors: Sequence[Tensor], even: Sequence[bool] | None = None, noise: float = 0.0) -> Kronecker:
    """Decompose every factor; those marked `even` are Toeplitz, and so symmetric about both diagonals."""
    flags = [False] * len(factors) if even is None else even
    pairs = [_centrosymmetric(f) if e else torch.linalg.eigh(f) for f, e in zip(factors, flags, strict=True)]
    values, vectors = zip(*pairs, strict=True)
    return Kronecker(tuple(v.clamp_min(0.0) for v in values), vectors, noise)


def is_toeplitz(matrix: Tensor) -> bool:
    """Tell whether k depends on i - j alone: an even axis and a stationary factor. To rounding: phases have some."""
    n = len(matrix)
    if n < 3 or abs(float(matrix[0, 0] - matrix[-1, -1])) > 1e-13 * abs(float(matrix[0, 0])):
        return False
    return bool((matrix[1:, 1:] - matrix[:-1, :-1]).abs().max() <= 1e-12 * matrix[0, 0].abs())


def _centrosymmetric(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues and vectors of a matrix equal to itself turned by half a turn, in a quarter of the time.

    Its eigenvectors are even or odd (Cantoni & Butler 1976): with A = [[P, R J], [J R', J P J]] the even ones are
    those of P + R, the odd ones those of P - R, half the size each; the middle row of an odd size belongs to the even.
    """
    n, half = len(matrix), len(matrix) // 2
    corner, mirror = matrix[:half, :half], matrix[:half, n - half :].flip(1)
    even, odd = corner + mirror, corner - mirror
    root = math.sqrt(0.5)
    if n % 2:
        middle = matrix[:half, half : half + 1] / root
        even = torch.cat([torch.cat([even, middle], 1), torch.cat([middle.mT, matrix[half, half].view(1, 1)], 1)])
    even_values, even_half = torch.linalg.eigh(even)
    odd_values, odd_half = torch.linalg.eigh(odd)
    above = root * even_half[:half]
    parts = [above, even_half[half:], above.flip(0)] if n % 2 else [above, above.flip(0)]
    rows = torch.zeros(n - 2 * half, half, dtype=matrix.dtype, device=matrix.device)
    odd_vectors = torch.cat([root * odd_half, rows, -root * odd_half.flip(0)])
    return torch.cat([even_values, odd_values]), torch.cat([torch.cat(parts), odd_vectors], 1)


@dataclass(frozen=True, eq=False)
class Toeplitz:
    """A symmetric Toeplitz matrix by its first column: products by FFT of a circulant matrix that contains it."""

    column: Tensor

    @property
    def length(self) -> int:
        """The smallest size at least 2n - 1 whose factors are 2, 3 and 5: an FFT of it is quick."""
        return int(next_fast_len(2 * len(self.column) - 1, real=True))

    def times(self, vectors: Tensor) -> Tensor:
        """Return T v along the last axis."""
        n, size = len(self.column), self.length
        ring = torch.zeros(size, dtype=self.column.dtype, device=self.column.device)
        ring[:n] = self.column
        ring[size - n + 1 :] = self.column[1:].flip(0)
        # a symmetric ring has a real transform
        found: Tensor = torch.fft.irfft(torch.fft.rfft(vectors, n=size) * torch.fft.rfft(ring).real, n=size)
        return found[..., :n]


@dataclass(frozen=True, eq=False)
class LowRank:
    """P = W diag(values) W' + noise I; the columns of W (n, r) are orthonormal. Vectors are rows of a batch (b, n).

    A kernel that is smooth beside the noise has few eigenvalues above it. P is then nearly the whole matrix, its
    inverse and its determinant cost little, and iterations are left with what P misses (METHODS 9).
    """

    basis: Tensor
    values: Tensor
    noise: float

    @staticmethod
    def of(columns: Tensor, noise: float) -> LowRank:
        """Take U U' + noise I apart, given U (n, r)."""
        values, vectors = torch.linalg.eigh(columns.mT @ columns)
        kept = values > max(NEGLIGIBLE * noise, 1e-13 * float(values[-1])) if len(values) else values > 0
        values = values[kept]
        return LowRank(columns @ (vectors[:, kept] / values.sqrt()), values, noise)

    def log_determinant(self) -> float:
        count, rank = self.basis.shape
        return float(torch.log(self.values + self.noise).sum()) + (count - rank) * math.log(self.noise)

    @property
    def excess(self) -> Tensor:
        """1 / noise less the eigenvalues of P^-1: P^-1 = I / noise - W diag(excess) W'."""
        return self.values / (self.noise * (self.values + self.noise))

    @property
    def inverse_diagonal(self) -> Tensor:
        """The diagonal of P^-1."""
        return 1.0 / self.noise - self.basis**2 @ self.excess

    def times(self, vectors: Tensor) -> Tensor:
        return vectors * self.noise + (vectors @ self.basis * self.values) @ self.basis.mT

    def solve(self, vectors: Tensor) -> Tensor:
        return vectors / self.noise - (vectors @ self.basis * self.excess) @ self.basis.mT

    def half(self, vectors: Tensor) -> Tensor:
        """Return P^-1/2 v."""
        change = (self.values + self.noise) ** -0.5 - self.noise**-0.5
        return torch.add(vectors * self.noise**-0.5, (vectors @ self.basis * change) @ self.basis.mT)


# ------------------------------------------------------------------------------------------ eigenvalues of sums (Weyl)


def weyl_sum(first: Tensor, second: Tensor, splits: int = 256) -> Tensor:
    """Return upper bounds, in falling order, on the eigenvalues of A + B from those of A and of B (in falling order).

    lambda_{i+j-1}(A + B) <= lambda_i(A) + lambda_j(B): the best split of each index. Beyond `splits` rows not all are
    tried but this many, spread out: still a bound.
    """
    return _best_split(first, second, torch.add, splits)


def weyl_product(scales: Tensor, values: Tensor, splits: int = 256) -> Tensor:
    """Return upper bounds on the eigenvalues of S K S: lambda_{i+j-1} <= lambda_i(S^2) lambda_j(K) (METHODS 9)."""
    return _best_split((scales**2).sort(descending=True).values, values, torch.mul, splits)


def _best_split(first: Tensor, second: Tensor, combine: Callable[[Tensor, Tensor], Tensor], splits: int) -> Tensor:
    n = len(first)
    bound = torch.full_like(first, math.inf)
    tried = range(n) if n <= splits else sorted({round(n ** (k / (splits - 1))) - 1 for k in range(splits)})
    for i in tried:  # first[i] with second[j] bounds index i + j
        here = torch.minimum(combine(first[i], second[: n - i]), combine(second[i], first[: n - i]))
        bound = torch.cat([bound[:i], torch.minimum(bound[i:], here)])
    return torch.cummin(bound, 0).values


def weyl_log_determinant(parts: Sequence[tuple[Tensor, Tensor]], noise: float | Tensor) -> Tensor:
    """Return an upper bound on log|sum_i S_i K_i S_i + noise I| from each (diagonal of S_i, eigenvalues of K_i).

    It can be differentiated by all of them.
    """
    bounds = [weyl_product(scales, values.sort(descending=True).values) for scales, values in parts]
    return torch.log(reduce(weyl_sum, bounds) + noise).sum()
