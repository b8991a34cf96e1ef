"""The posterior of a sum of products on a grid: every variance takes a solution by conjugate gradients of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mercer.compute import fused
from mercer.compute.program import Program
from mercer.compute.separate import Summand, summands
from mercer.errors import KernelError, NumericalError
from mercer.inference.contract import Prediction, left_out_score
from mercer.inference.grid_solver import BLOCK, sent
from mercer.inference.grid_sum import SumOperator, SumProblem, gate_at
from mercer.kernels.domains import Array
from mercer.linalg.factor import Failure, factorise

EXACT_LEFT_OUT = 2000  # rows whose precisions are worked out one by one
PROBES = 64


@dataclass(frozen=True, eq=False)
class SumPosterior:
    """f | y for a sum of products; `alpha` and `pull` are A_MM^-1 (y - c) and A_MM^-1 1 at the rows."""

    problem: SumProblem
    operator: SumOperator
    values: Array
    alpha: Tensor
    pull: Tensor
    level_mean: float
    level_variance: float
    residual: float
    tolerance: float
    most: int

    @property
    def jitter(self) -> float:
        """Nothing is factorised."""
        return 0.0

    @property
    def level(self) -> Prediction:
        """The fitted constant and its variance."""
        return Prediction(np.array([self.level_mean]), np.array([self.level_variance]))

    def predict(self, X: Array) -> Prediction:
        """Return mean and variance of f at each row."""
        found = self._predicted(self.problem.summands, self.values, X, 1.0)
        return Prediction(self.level_mean + found.mean, found.variance)

    def predict_part(self, program: Program, values: Array, X: Array) -> Prediction:
        """Return mean and variance of one summand."""
        parts = summands(program, X.shape[1])
        if parts is None:
            raise KernelError("a summand of a kernel on a grid must be a product of one kernel for each column")
        return self._predicted(parts, values, X, 0.0)

    @torch.no_grad()
    def _predicted(self, parts: Sequence[Summand], values: Array, X: Array, share: float) -> Prediction:
        mean, variance = np.empty(len(X)), np.empty(len(X))
        step = max(1, BLOCK // (4 * self.operator.cells.size))
        for first in range(0, len(X), step):
            some = slice(first, min(len(X), first + step))
            cross = self._cross(parts, values, X[some])
            solved = self.operator.solve(cross, self.tolerance, self.most).x
            mean[some] = (cross @ self.alpha).cpu().numpy()
            variance[some] = _diagonal(parts, values, X[some]) - (cross * solved).sum(1).cpu().numpy()
            variance[some] = np.maximum(variance[some], 0.0)
            variance[some] += self.level_variance * ((share - cross @ self.pull) ** 2).cpu().numpy()
        return Prediction(mean, variance)

    @torch.no_grad()
    def predict_joint(self, X: Array) -> tuple[Array, Array]:
        """Return mean and full covariance of f at the rows."""
        cross = self._cross(self.problem.summands, self.values, X)
        solved = self.operator.solve(cross, self.tolerance, self.most).x
        covariance = _gram(self.problem.summands, self.values, X) - (cross @ solved.mT).cpu().numpy()
        unsure = 1.0 - (cross @ self.pull).cpu().numpy()
        covariance += self.level_variance * np.outer(unsure, unsure)
        return self.level_mean + (cross @ self.alpha).cpu().numpy(), 0.5 * (covariance + covariance.T)

    def sample(self, X: Array, count: int, rng: np.random.Generator, noise: float) -> Array:
        """Draw joint samples of f at the rows, plus independent noise of the given variance."""
        mean, covariance = self.predict_joint(X)
        factor = factorise(covariance.copy, noise)
        if isinstance(factor, Failure):
            raise NumericalError(f"no samples: {factor.reason}; ask for fewer or more distinct rows")
        return mean[:, None] + factor.multiply(rng.standard_normal((len(X), count)))

    @torch.no_grad()
    def leave_one_out(self) -> Prediction:
        """Return mean and variance of y at each row given all the others; precisions by probes where rows are many."""
        y, count = self.problem.data.y, len(self.problem.data.y)
        if count <= EXACT_LEFT_OUT:
            probes = torch.eye(count, dtype=torch.float64, device=self.alpha.device)
        else:
            signs = np.random.default_rng(0).integers(0, 2, (PROBES, count)).astype(np.float64)
            probes = sent(2.0 * signs - 1.0, self.alpha.device)
        step = max(1, BLOCK // (4 * self.operator.cells.size))
        total = torch.zeros(count, dtype=torch.float64, device=self.alpha.device)
        for first in range(0, len(probes), step):
            some = probes[first : first + step]
            solved, near = self.operator.solve(some, self.tolerance, self.most).x, self.operator.near
            if near is not None and count > EXACT_LEFT_OUT:  # the probes then only find what P misses
                solved = solved - near.solve(some)
            total += (some * solved).sum(0)
        if count > EXACT_LEFT_OUT:
            known = 0.0 if self.operator.near is None else self.operator.near.inverse_diagonal
            total = known + total / PROBES
        precision = total.cpu().numpy()
        prior = _diagonal(self.problem.summands, self.values, self.problem.data.X) + self.operator.noise
        precision = np.clip(precision, 1.0 / prior, 1.0 / self.operator.noise)
        precision = precision - self.level_variance * self.pull.cpu().numpy() ** 2
        return Prediction(y - self.alpha.cpu().numpy() / precision, 1.0 / precision)

    def left_out_score(self) -> float:
        """Return the sum of leave-one-out log densities."""
        return left_out_score(self.leave_one_out(), self.problem.data.y)

    def _cross(self, parts: Sequence[Summand], values: Array, X: Array) -> Tensor:
        """k(X, rows), (len(X), M)."""
        plain = self.problem.plain
        places = np.unravel_index(plain.lattice.cells, plain.lattice.shape)
        total = torch.zeros(len(X), len(self.alpha), dtype=torch.float64, device=plain.device)
        for summand in parts:
            product: Tensor | None = None
            for d, part in enumerate(summand.parts):
                lines = plain.cross(part, values, X[:, d], plain.lattice.axes[d])
                columns = lines[:, torch.as_tensor(places[d], device=plain.device)]
                product = columns if product is None else product.mul_(columns)
            assert product is not None
            here, there = (gate_at(summand.gates, values, rows) for rows in (X, self.problem.data.X))
            if here is not None and there is not None:
                product = product * sent(here, plain.device)[:, None] * sent(there, plain.device)
            total += product
        return total


def _diagonal(parts: Sequence[Summand], values: Array, X: Array) -> Array:
    total = np.zeros(len(X))
    for summand in parts:
        product = np.prod([fused.diagonal(p, values, X[:, d : d + 1]) for d, p in enumerate(summand.parts)], axis=0)
        gate = gate_at(summand.gates, values, X)
        total += product if gate is None else gate**2 * product
    return total


def _gram(parts: Sequence[Summand], values: Array, X: Array) -> Array:
    total = np.zeros((len(X), len(X)))
    for summand in parts:
        product = np.prod([fused.gram(p, values, X[:, d : d + 1]) for d, p in enumerate(summand.parts)], axis=0)
        gate = gate_at(summand.gates, values, X)
        total += product if gate is None else gate[:, None] * product * gate
    return total
