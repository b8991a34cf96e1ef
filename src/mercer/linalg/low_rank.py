"""A matrix near another one: the sum of a few directions and noise, P = U U' + noise I (METHODS 9).

A kernel that is smooth beside the noise has few eigenvalues above it. P is then nearly the whole matrix, its inverse
and its determinant cost little, and iterations are left with what P misses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

NEGLIGIBLE = 1e-3  # of the noise: directions below it are left out


@dataclass(frozen=True, eq=False)
class LowRank:
    """P = W diag(values) W' + noise I; the columns of W (n, r) are orthonormal. Vectors are rows of a batch (b, n)."""

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

    @property
    def log_determinant(self) -> float:
        """log|P|."""
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

    def solve(self, vectors: Tensor) -> Tensor:
        """Return P^-1 v."""
        return vectors / self.noise - (vectors @ self.basis * self.excess) @ self.basis.mT

    def half(self, vectors: Tensor) -> Tensor:
        """Return P^-1/2 v."""
        change = (self.values + self.noise) ** -0.5 - self.noise**-0.5
        return vectors * self.noise**-0.5 + (vectors @ self.basis * change) @ self.basis.mT
