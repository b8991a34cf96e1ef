"""Inference on a grid, with holes: Kronecker structure instead of a matrix of all pairs (METHODS 7).

The kernel must be a product over columns, k(x, x') = k_1(x_1, x_1') ... k_D(x_D, x_D'), each factor any kernel of one
column. Nothing is stored but vectors over the grid and the n_d x n_d matrices of the factors; an evaluation takes
N sum(n_d) operations times a few, times the steps of conjugate gradients where cells are missing.

    log p(y) = -y' A_MM^-1 y / 2 - log|A_MM| / 2 - M log(2 pi) / 2

Exact where no cell is missing or few are (`exact_work`); otherwise the quadratic term is exact to the tolerance, and
the log-determinant is that of the grid's M largest eigenvalues scaled by M/N, or by Lanczos quadrature on request.
Gradients: everything is a function of the K_d, so each gradient is a contraction of an n_d x n_d matrix with dK_d.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from mercer.errors import NumericalError
from mercer.evaluate.program import Program
from mercer.inference.contract import LOG_2_PI, Data, Evidence
from mercer.inference.grid_posterior import GridPosterior
from mercer.inference.grid_problem import Problem
from mercer.inference.grid_solver import Curvature, Whole, between, by_eigenvalues, by_holes
from mercer.kernels.domains import Array

LogDeterminant = Literal["auto", "lanczos"]
EXACT_WORK = 2e8  # operations that the precision of the holes may take in an evaluation: a few hundredths of a second
POSTERIOR_WORK = 4e11  # and in a posterior, which is made once


@dataclass(frozen=True, eq=False)
class GridEvidence(Evidence):
    """Evidence with what conjugate gradients left over (relative), their steps, and how the determinant was found."""

    residual: float = 0.0
    iterations: int = 0
    log_determinant: str = "exact"


@dataclass(frozen=True)
class Grid:
    """The engine for rows on a grid.

    `tolerance` and `most_steps` end conjugate gradients; if they end early, the evidence is a bit too small.
    `log_determinant`: "auto" is exact where that is cheap and else the scaled eigenvalues; "lanczos" uses Lanczos
    quadrature there instead (unbiased, a few times slower). `device`: "cpu" or "cuda".
    """

    tolerance: float = 1e-4
    log_determinant: LogDeterminant = "auto"
    device: str = "cpu"
    seed: int = 0
    exact_work: float = EXACT_WORK
    most_steps: int = 200

    name = "grid"

    def holding(self, program: Program, values: Array, data: Data) -> Grid:
        """Return itself: nothing is chosen."""
        return self

    @torch.no_grad()
    def evidence(self, program: Program, values: Array, noise: float, data: Data, gradient: bool = True) -> Evidence:
        """Return the log evidence and, if asked, its gradient."""
        problem = Problem.of(program, data, torch.device(self.device))
        whole = problem.whole(values, noise, self.tolerance, self.exact_work, self.most_steps)
        if whole is None:
            return GridEvidence(-math.inf, failure="the kernel gave infinite or undefined values")
        solved = problem.solved(whole)
        curvature, how = self._log_determinant(whole)
        count = data.count
        value = -0.5 * (solved.quadratic + curvature.value + count * LOG_2_PI)
        if not math.isfinite(value):
            return GridEvidence(-math.inf, failure="the evidence overflowed", residual=solved.completed.residual)
        by_values = by_noise = None
        if gradient:
            pulled = between(solved.rotated, solved.rotated, whole.spectrum)
            weights = [0.5 * (p - c) for p, c in zip(pulled, curvature.factors, strict=True)]
            by_values = problem.contracted(values, weights, whole.spectrum)
            by_noise = 0.5 * (float((solved.rotated**2).sum()) - curvature.noise)
        return GridEvidence(
            value, by_values, by_noise, residual=solved.completed.residual, iterations=solved.completed.iterations,
            log_determinant=how,
        )  # fmt: skip

    def _log_determinant(self, whole: Whole) -> tuple[Curvature, str]:
        if not len(whole.cells.holes):
            return by_eigenvalues(whole), "exact"
        if whole.factor is not None:
            return by_holes(whole, self.seed), "exact"
        if self.log_determinant == "lanczos":
            return by_holes(whole, self.seed), "lanczos"
        return by_eigenvalues(whole), "eigenvalues"

    def posterior(self, program: Program, values: Array, noise: float, data: Data) -> GridPosterior:
        """Return the posterior; missing cells are solved for a hundred times more exactly than for the evidence."""
        problem = Problem.of(program, data, torch.device(self.device))
        whole = problem.whole(values, noise, self.tolerance / 100.0, POSTERIOR_WORK, 10 * self.most_steps)
        if whole is None:
            raise NumericalError("no posterior: the kernel gave infinite or undefined values; try another kernel")
        return GridPosterior(problem, whole, problem.solved(whole), values)
