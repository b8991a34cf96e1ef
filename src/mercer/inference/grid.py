"""Inference on a grid, with holes: Kronecker structure instead of a matrix of all pairs (METHODS 7).

The kernel must be a product over columns, k(x, x') = k_1(x_1, x_1') ... k_D(x_D, x_D'), each factor any kernel of one
column, or a sum of such products, with change surfaces or without (grid_sum.py; what follows is about one product).
Nothing is stored but vectors over the grid and the n_d x n_d matrices of the factors; an evaluation takes N sum(n_d)
operations times a few, times the steps of conjugate gradients where cells are missing.

    log p(y) = -y' A_MM^-1 y / 2 - log|A_MM| / 2 - M log(2 pi) / 2

Exact where no cell is missing or few are (`exact_work`); otherwise the quadratic term is exact to the tolerance, and
the log-determinant is that of the grid's M largest eigenvalues scaled by M/N, or by Lanczos quadrature on request.
Gradients: everything is a function of the K_d, so each gradient is a contraction of an n_d x n_d matrix with dK_d.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import ClassVar, Literal, get_args

import numpy as np
import torch

from mercer.compute.backend import NUMBA, Backend
from mercer.compute.program import Program
from mercer.compute.separate import separated, summands
from mercer.errors import InputError, NumericalError
from mercer.inference.contract import Data, Engine, Evidence, Level, Posterior
from mercer.inference.exact import Exact
from mercer.inference.grid_product import (
    Curvature,
    GridCovariance,
    GridPolicy,
    GridPosterior,
    GridProblem,
    between,
    by_eigenvalues,
    by_holes,
    lattice_of,
    sent,
)
from mercer.inference.grid_sum import SumOperator, SumPosterior, SumProblem, by_lanczos, by_weyl, slopes_between
from mercer.inference.likelihood import LOG_2_PI, Gaussian, Likelihood
from mercer.kernels.domains import Array
from mercer.linalg.threads import one_torch_thread

LogDeterminant = Literal["auto", "lanczos", "weyl"]
EXACT_WORK = 2e7  # operations that the precision of holes may take in an evaluation; gradients take ten times that
FEW_CELLS = 3000  # with fewer a second thread gains little, and on a busy machine loses much
UNDEFINED = "the kernel gave infinite or undefined values"


@dataclass(frozen=True, eq=False)
class GridEvidence(Evidence):
    """Evidence with what conjugate gradients left over (relative), their steps, and how the determinant was found."""

    residual: float = 0.0
    iterations: int = 0
    log_determinant: str = "exact"


@dataclass(frozen=True)
class Grid(Engine):
    """The engine for rows on a grid.

    `tolerance` and `most_steps` end conjugate gradients; if they end early, the evidence is a bit too small.
    `log_determinant`: "auto" is exact where that is cheap and else the scaled eigenvalues; "lanczos" uses Lanczos
    quadrature there instead (unbiased, a few times slower). For sums "auto" is exact with few cells and else "lanczos",
    and "weyl" is a bound.
    `device`: "cpu" or "cuda".
    """

    tolerance: float = 1e-4
    log_determinant: LogDeterminant = "auto"
    device: str | Backend = field(default=NUMBA, repr=False)
    seed: int = 0
    exact_work: float = EXACT_WORK
    most_steps: int = 200
    policy: GridPolicy = field(default_factory=GridPolicy, repr=False)
    exact_cells: int = 2000  # of a sum of products up to which it is left to exact inference, if nothing else is asked

    name = "grid"
    accelerated = True
    saved: ClassVar = {
        "tolerance": float, "log_determinant": str, "seed": int, "exact_work": float, "most_steps": int,
        "exact_cells": int,
    }  # fmt: skip

    def __post_init__(self) -> None:
        if self.log_determinant not in get_args(LogDeterminant):
            known = ", ".join(map(repr, get_args(LogDeterminant)))
            raise InputError(f"log_determinant must be one of {known}, not {self.log_determinant!r}")
        if not 0.0 < self.tolerance < 1.0:
            raise InputError(f"tolerance must lie between 0 and 1, not {self.tolerance!r}")

    def evidence(
        self, program: Program, values: Array, likelihood: Likelihood, data: Data, gradient: bool = True
    ) -> Evidence:
        with torch.no_grad(), one_torch_thread(when=data.count < FEW_CELLS):
            return self._evidence(program, values, self.noise_of(likelihood), data, gradient)

    def _evidence(self, program: Program, values: Array, noise: float, data: Data, gradient: bool) -> Evidence:
        terms = self.sum_of_products(program, data)
        if terms is not None and self._leaves_to_exact(data):
            found = Exact().evidence(program, values, Gaussian(noise), data, gradient)
            return GridEvidence(**{each.name: getattr(found, each.name) for each in fields(found)})
        if terms is not None:
            return self._evidence_of_sum(terms, values, noise, gradient)
        problem = GridProblem.of(program, data, self.backend)
        whole = problem.whole(values, noise, self.tolerance, self.exact_work, self.most_steps)
        if whole is None:
            return GridEvidence(-math.inf, failure=UNDEFINED)
        solved = problem.solve(whole)
        curvature, how = self._log_determinant(whole)
        value = -0.5 * (solved.quadratic + curvature.value + data.count * LOG_2_PI)
        if not math.isfinite(value):
            return GridEvidence(-math.inf, failure="the evidence overflowed", residual=solved.completed.residual)
        by_values = by_noise = None
        if gradient:
            pulled = between(solved.rotated, solved.rotated, whole.spectrum)
            weights = [0.5 * (p - c) for p, c in zip(pulled, curvature.factors, strict=True)]
            by_values = problem.contract(values, weights, whole.spectrum)
            by_noise = 0.5 * (float((solved.rotated**2).sum()) - curvature.noise)
        return GridEvidence(
            value, by_values, by_noise, residual=solved.completed.residual, iterations=solved.completed.iterations,
            log_determinant=how,
        )  # fmt: skip

    def sum_of_products(self, program: Program, data: Data) -> SumProblem | None:
        """Take apart a sum of products; None where the kernel is one product."""
        columns = data.X.shape[1]
        if separated(program, columns) is not None or (parts := summands(program, columns)) is None:
            return None
        return SumProblem(parts, GridProblem(parts[0].parts, data, lattice_of(data), self.backend), data, self.policy)

    def _leaves_to_exact(self, data: Data) -> bool:
        """Whether a sum has so few cells that a matrix of all pairs of them is quicker than iterating."""
        return self.log_determinant == "auto" and not self.backend.batches and data.count <= self.exact_cells

    def _evidence_of_sum(self, problem: SumProblem, values: Array, noise: float, gradient: bool) -> Evidence:
        operator = problem.operator(values, noise)
        if operator is None:
            return GridEvidence(-math.inf, failure=UNDEFINED)
        posterior = self._solve_sum(problem, operator, values, self.tolerance, self.most_steps)
        data, alpha = problem.data, posterior.alpha[None]
        target = sent(data.y, problem.plain.device) - posterior.constant.mean
        if self.log_determinant == "weyl":
            determinant, slopes = by_weyl(operator)
        else:
            determinant, slopes = by_lanczos(operator, self.tolerance, self.most_steps, self.seed)
        # y'A^-1 y as 2 a'y - a'A a: right to second order where conjugate gradients ended early
        quadratic = float(2.0 * (target @ posterior.alpha) - (alpha * operator.times(alpha)).sum())
        value = -0.5 * (quadratic + determinant + data.count * LOG_2_PI)
        how = "weyl" if self.log_determinant == "weyl" else "lanczos"
        if not math.isfinite(value):
            return GridEvidence(-math.inf, failure="the evidence overflowed", residual=posterior.residual)
        by_values = by_noise = None
        if gradient:
            total = slopes_between(operator, alpha, alpha).plus(slopes, -1.0)
            by_values, by_noise = 0.5 * problem.contract(values, total), 0.5 * total.noise
        return GridEvidence(value, by_values, by_noise, residual=posterior.residual, log_determinant=how)

    def _solve_sum(
        self, problem: SumProblem, operator: SumOperator, values: Array, tolerance: float, most: int
    ) -> SumPosterior:
        data, target = problem.data, sent(problem.data.y, problem.plain.device)
        right = torch.stack([target, torch.ones_like(target)]) if data.free_level else target[None]
        found = operator.solve(right, tolerance, most)
        alpha, level = found.x[0], Level(0.0, 0.0, np.zeros(data.count))
        if data.free_level:
            pull = found.x[1]
            variance = 1.0 / float(pull.sum())
            level = Level(variance * float(pull @ target), variance, pull.cpu().numpy())
            alpha = alpha - level.mean * pull
        return SumPosterior(data, problem, operator, values, alpha, level, found.residual, tolerance, most)

    def _log_determinant(self, whole: GridCovariance) -> tuple[Curvature, str]:
        if not len(whole.cells.holes):
            return by_eigenvalues(whole), "exact"
        if whole.factor is not None:
            return by_holes(whole, self.seed), "exact"
        if self.log_determinant == "lanczos":
            return by_holes(whole, self.seed), "lanczos"
        return by_eigenvalues(whole), "eigenvalues"

    def posterior(self, program: Program, values: Array, likelihood: Likelihood, data: Data) -> Posterior:
        """Return the posterior, solved for a hundred times more exactly than for the evidence."""
        noise = self.noise_of(likelihood)
        with torch.no_grad(), one_torch_thread(when=data.count < FEW_CELLS):
            found = self._posterior(program, values, noise, data)
        if found is None:
            raise NumericalError(f"no posterior: {UNDEFINED}; try another kernel")
        return found

    def _posterior(self, program: Program, values: Array, noise: float, data: Data) -> Posterior | None:
        tolerance, most = self.tolerance / 100.0, 10 * self.most_steps
        terms = self.sum_of_products(program, data)
        if terms is not None and self._leaves_to_exact(data):
            return Exact().posterior(program, values, Gaussian(noise), data)
        if terms is not None:
            operator = terms.operator(values, noise)
            return None if operator is None else self._solve_sum(terms, operator, values, tolerance, most)
        problem = GridProblem.of(program, data, self.backend)
        whole = problem.whole(values, noise, tolerance, self.policy.posterior_work, most)
        return None if whole is None else GridPosterior(data, problem, whole, problem.solve(whole), values, self.policy)
