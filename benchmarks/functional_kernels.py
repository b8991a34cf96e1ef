"""Functional kernel learning (FKL, Benton et al. 2019): the baseline of KFO's Table 2.

A Gaussian process on the log spectral density g(w) of a stationary kernel of one column:

    g(w) = -2 (pi l w)^2 + (a draw with a Matern 3/2 kernel),    k(t) = sum_i c_i exp(g(w_i)) cos(2 pi w_i t) / k(0)

with the trapezoid rule's c_i; on several columns the product of one such kernel for each. "separate": every column has
a lengthscale l and a draw of its own; "shared": one lengthscale for all, and a draw for each. Hyperparameters (l, the
variance and the noise) by Adam on the evidence, the draws by elliptical slice sampling (Murray et al. 2010), in turn.
Predictions are a mixture over the last draws. Written from the paper; the authors' code was not used.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import torch

Array = np.ndarray[Any, Any]
Tensor = torch.Tensor

FREQUENCIES = 80
HIGHEST = 8.0  # cycles within the range of a column
DISTANCES = 256  # at which k is worked out; between them it is a straight line
SMOOTH = 1.5  # lengthscale of the draws, in cycles
ROUNDS = 60
ADAM_STEPS = 4  # of each round
RATE = 0.05
KEPT = 10  # draws of the last rounds that predict
JITTER = 1e-6


class FunctionalKernel:
    """FKL on columns that lie between 0 and 1; the target is standardised inside."""

    def __init__(
        self,
        kind: Literal["shared", "separate"] = "shared",
        rounds: int = ROUNDS,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.kind, self.rounds, self.device = kind, rounds, device
        self.rng = np.random.default_rng(seed)
        w = np.linspace(0.0, HIGHEST, FREQUENCIES)
        near = math.sqrt(3.0) * np.abs(w[:, None] - w[None, :]) / SMOOTH
        covariance = (1.0 + near) * np.exp(-near) + JITTER * np.eye(len(w))
        self.root = self._tensor(np.linalg.cholesky(covariance))
        self.w = self._tensor(w)
        steps = np.full(len(w), w[1])
        steps[[0, -1]] *= 0.5
        self.table = self._tensor(steps[:, None] * np.cos(2.0 * np.pi * np.outer(w, np.linspace(0, 1, DISTANCES))))

    def fit(self, X: Array, y: Array) -> FunctionalKernel:
        """Learn from rows; `X` within [0, 1]."""
        self.X, self.level, self.spread = X, float(y.mean()), float(y.std()) or 1.0
        self.target = self._tensor((y - self.level) / self.spread)
        first, second = np.triu_indices(len(X), 1)
        self.pairs = self._tensor(first), self._tensor(second)
        self.places = self._places(X[first] - X[second])
        columns = X.shape[1]
        self.z = self._tensor(self.rng.standard_normal((columns, FREQUENCIES)) * 0.1)
        lengths = 1 if self.kind == "shared" else columns
        self.free = self._tensor(np.array([math.log(0.4)] * lengths + [0.0, math.log(0.05)]))
        self.free.requires_grad_()
        optimiser, self.kept = torch.optim.Adam([self.free], lr=RATE), []
        for number in range(self.rounds):
            for _ in range(ADAM_STEPS):
                optimiser.zero_grad()
                (-self._log_evidence(self.z)).backward()
                optimiser.step()
                with torch.no_grad():
                    self.free.clamp_(-7.0, 3.0)
            with torch.no_grad():
                self.z = self._slice()
            if number >= self.rounds - KEPT:
                self.kept.append((self.z.clone(), self.free.detach().clone()))
        return self

    def log_density(self, X: Array, y: Array) -> Array:
        """Return the log density of each row not seen, in the units of the target."""
        with torch.no_grad():
            logs = np.array([self._predictive(z, free, X, y) for z, free in self.kept])
        top = logs.max(axis=0)
        return np.asarray(top + np.log(np.exp(logs - top).mean(axis=0)))

    def _predictive(self, z: Tensor, free: Tensor, X: Array, y: Array) -> Array:
        lines, variance, noise = self._kernels(z, free)
        root = torch.linalg.cholesky(self._gram(lines, variance, noise))
        across = variance * _product(lines, self._places(X[:, None, :] - self.X[None, :, :]))
        solved = torch.linalg.solve_triangular(root, across.T, upper=False)
        mean = solved.T @ torch.linalg.solve_triangular(root, self.target[:, None], upper=False)[:, 0]
        spread = (variance - (solved**2).sum(dim=0)).clamp_min(0.0) + noise
        error = self._tensor((y - self.level) / self.spread) - mean
        logs = -0.5 * (error**2 / spread + torch.log(2.0 * math.pi * spread)) - math.log(self.spread)
        return np.asarray(logs.cpu().numpy())

    def _kernels(self, z: Tensor, free: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return k at even distances for every column (rows), the variance and the noise."""
        lengths = free[:-2].exp()[:, None]
        log_density = -2.0 * (math.pi * lengths * self.w[None, :]) ** 2 + z @ self.root.T
        lines = (log_density - log_density.max(dim=1, keepdim=True).values).exp() @ self.table
        return lines / lines[:, :1], free[-2].exp(), free[-1].exp()

    def _gram(self, lines: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
        above = torch.zeros((len(self.target), len(self.target)), dtype=lines.dtype, device=lines.device)
        above[self.pairs] = variance * _product(lines, self.places)
        # straight lines between distances are no exact kernel: a little more on the diagonal
        diagonal = (variance + noise + 1e-4 * variance) * torch.eye(len(above), dtype=lines.dtype, device=lines.device)
        return above + above.T + diagonal

    def _log_evidence(self, z: Tensor) -> Tensor:
        lines, variance, noise = self._kernels(z, self.free)
        root, failed = torch.linalg.cholesky_ex(self._gram(lines, variance, noise))
        if int(failed):
            return -1e10 * self.free.sum() ** 0
        solved = torch.linalg.solve_triangular(root, self.target[:, None], upper=False)
        return -0.5 * (solved**2).sum() - root.diagonal().log().sum() - 0.5 * len(solved) * math.log(2.0 * math.pi)

    def _slice(self) -> Tensor:
        """Return the next draws by elliptical slice sampling: the prior of z is standard normal."""
        other = self._tensor(self.rng.standard_normal(self.z.shape))
        bar = float(self._log_evidence(self.z)) + math.log(self.rng.random())
        angle = self.rng.uniform(0.0, 2.0 * math.pi)
        low, high = angle - 2.0 * math.pi, angle
        while high - low > 1e-6:
            found = self.z * math.cos(angle) + other * math.sin(angle)
            if float(self._log_evidence(found)) > bar:
                return found
            low, high = (angle, high) if angle < 0 else (low, angle)
            angle = self.rng.uniform(low, high)
        return self.z

    def _places(self, differences: Array) -> list[tuple[Tensor, Tensor]]:
        """Return for every column (the last axis) between which distances pairs lie, and how far from the first."""
        found = []
        for column in range(differences.shape[-1]):
            at = np.clip(np.abs(differences[..., column]), 0.0, 1.0) * (DISTANCES - 1)
            first = np.minimum(at.astype(np.int64), DISTANCES - 2)
            found.append((self._tensor(first), self._tensor(at - first)))
        return found

    def _tensor(self, values: Array) -> Tensor:
        return torch.tensor(values, device=self.device)


def _product(lines: Tensor, places: list[tuple[Tensor, Tensor]]) -> Tensor:
    result: Tensor | None = None
    for line, (first, beyond) in zip(lines, places, strict=True):
        factor = line[first] + beyond * (line[1:] - line[:-1])[first]
        result = factor if result is None else result * factor
    assert result is not None
    return result
