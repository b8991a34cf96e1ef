"""The posterior on a grid with holes: on other grids at once, at single rows, at the missing cells.

With P_d = k_d(new, axis_d) Q_d and the rows of P = P_1 x ... x P_D in the basis of the eigenvectors (S those of A),

    mean = c + P a,    variance = k** - sum P^2 / S + t' B_HH^-1 t,   t = B_H. k(grid, *)

The first two terms are the answer as if no cell were missing; the last is what the holes take back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mercer.compute import fused
from mercer.compute.program import Program
from mercer.compute.separate import separated
from mercer.errors import KernelError, NumericalError, TooLargeError
from mercer.inference.contract import Prediction, left_out_score
from mercer.inference.grid_problem import Problem, Solved
from mercer.inference.grid_solver import BLOCK, Whole, sent
from mercer.inference.lattice import find_lattice
from mercer.kernels.domains import Array
from mercer.linalg.factor import Failure, factorise
from mercer.linalg.operators import along_axes, outer, spectrum

SAMPLES = 64  # draws to estimate variances from, where working them out would take too long
VARIANCE_WORK = 4e11  # operations that variances may take before they are estimated by draws
PROBES = 32  # draws to estimate what holes take from the precision of leaving one out
MOST_JOINT = 1e8  # numbers
MANY_ROWS, MOST_CELLS = 500, 4.0  # rows to predict that may be a grid; its cells for each of them


@dataclass(frozen=True, eq=False)
class GridPosterior:
    """f | y on a grid."""

    problem: Problem
    whole: Whole
    solved: Solved
    values: Array

    @property
    def jitter(self) -> float:
        """None: eigenvalues need no help."""
        return 0.0

    @property
    def level(self) -> Prediction:
        """The fitted constant and its variance."""
        return Prediction(np.array([self.solved.level]), np.array([self.solved.level_variance]))

    @property
    def residual(self) -> float:
        """What conjugate gradients left over, relative; zero where the holes were solved for exactly."""
        return self.solved.completed.residual

    # ------------------------------------------------------------------------------------------------- on other grids

    @torch.no_grad()
    def mean_on(self, axes: Sequence[Array]) -> Array:
        """Return the mean of f on the grid with these axes."""
        mean = along_axes(self._projections(axes), self.solved.rotated)[0]
        return np.asarray(mean.cpu().numpy()) + self.solved.level

    @torch.no_grad()
    def variance_on(self, axes: Sequence[Array], seed: int = 0) -> Array:
        """Return the variance of f on a grid; by `SAMPLES` draws where there are holes and many cells."""
        projections, cells, whole = self._projections(axes), self.whole.cells, self.whole
        count = int(np.prod([len(axis) for axis in axes]))
        steps = len(cells.holes) if whole.factor is not None else 100 * sum(cells.shape)
        if len(cells.holes) and count * (cells.size * sum(cells.shape) + steps * len(cells.holes)) > VARIANCE_WORK:
            mean = along_axes(projections, self.solved.rotated)
            total = torch.zeros_like(mean[0])
            for draws in self._draws(axes, SAMPLES, np.random.default_rng(seed)):
                total = total + ((draws - mean) ** 2).sum(0)
            return np.asarray((total / SAMPLES + self._level_part(projections)).cpu().numpy())
        diagonal = outer([self._diagonal(d, axis) for d, axis in enumerate(axes)])
        known = along_axes([p**2 for p in projections], 1.0 / whole.variances[None])[0]
        if len(cells.holes):
            places = np.stack([g.ravel() for g in np.meshgrid(*map(np.arange, diagonal.shape), indexing="ij")])
            rows = [p[torch.as_tensor(place, device=p.device)] for p, place in zip(projections, places, strict=True)]
            known = known - self._taken_back(rows).view(diagonal.shape)
        variance = (diagonal - known).clamp_min_(0.0) + self._level_part(projections)
        return np.asarray(variance.cpu().numpy())

    @torch.no_grad()
    def at_holes(self, seed: int = 0) -> Prediction:
        """Return mean and variance of f at the missing cells of the grid, in C order."""
        cells, whole = self.whole.cells, self.whole
        mean = self.mean_on(self.problem.lattice.axes).ravel()[self.problem.lattice.holes]
        if whole.factor is None:
            every = self.variance_on(self.problem.lattice.axes, seed)
            return Prediction(mean, every.ravel()[self.problem.lattice.holes])
        # the precision of y_H given y_M is B_HH
        variance = torch.cholesky_inverse(whole.factor).diagonal() - whole.noise
        extra = self._level_part(self._projections(self.problem.lattice.axes)).reshape(-1)[cells.holes]
        return Prediction(mean, np.asarray((variance.clamp_min(0.0) + extra).cpu().numpy()))

    @torch.no_grad()
    def draws_on(self, axes: Sequence[Array], count: int, rng: np.random.Generator) -> Array:
        """Draw f jointly on a grid (count x its shape), the level at its mean."""
        found = [draws.cpu().numpy() for draws in self._draws(axes, count, rng)]
        return np.concatenate(found) + self.solved.level

    def _draws(self, axes: Sequence[Array], count: int, rng: np.random.Generator) -> Iterator[Tensor]:
        """Yield draws of f less its level, some at a time, by Matheron's rule.

        A draw g of the prior on both grids, plus K*_M A_MM^-1 (y - g_M - noise).
        """
        old, new = self.problem.lattice.axes, [np.asarray(axis, dtype=np.float64) for axis in axes]
        joint = [np.unique(np.concatenate([a, b])) for a, b in zip(old, new, strict=True)]
        grams = [
            self.problem.gram(part, self.values, axis) for part, axis in zip(self.problem.parts, joint, strict=True)
        ]
        prior = spectrum(grams)
        root = prior.grid.sqrt_()
        projections, cells = self._projections(axes), self.whole.cells
        target = sent(self.problem.data.y, self.problem.device)
        step = max(1, BLOCK // root.numel())
        for first in range(0, count, step):
            some = min(step, count - first)
            z = sent(rng.standard_normal((some, *root.shape)), self.problem.device)
            draws = prior.back(z.mul_(root))
            noise = sent(rng.standard_normal((some, len(target))), self.problem.device) * self.whole.noise**0.5
            seen = cells.gather(_picked(draws, joint, old), cells.observed) + noise
            told = self.whole.completed(target - self.solved.level - seen)
            yield _picked(draws, joint, new) + along_axes(projections, told.rotated)

    # ------------------------------------------------------------------------------------------------- at single rows

    def predict(self, X: Array) -> Prediction:
        """Return mean and variance of f at each row; rows that form a grid themselves are predicted as one."""
        lattice = find_lattice(X, MOST_CELLS * len(X)) if len(X) > MANY_ROWS else None
        if lattice is not None:
            mean, variance = self.mean_on(lattice.axes), self.variance_on(lattice.axes)
            return Prediction(mean.ravel()[lattice.cells], variance.ravel()[lattice.cells])
        found = self._predicted(self.problem.parts, self.values, X, share=1.0)
        return Prediction(self.solved.level + found.mean, found.variance)

    def predict_part(self, program: Program, values: Array, X: Array) -> Prediction:
        """Return mean and variance of one summand."""
        parts = separated(program, X.shape[1])
        if parts is None:
            raise KernelError("a summand of a kernel on a grid must be a product of one kernel for each column")
        return self._predicted(parts, values, X, share=0.0)

    @torch.no_grad()
    def _predicted(self, parts: Sequence[Program], values: Array, X: Array, share: float) -> Prediction:
        mean, variance = np.empty(len(X)), np.empty(len(X))
        step = max(1, BLOCK // self.whole.cells.size)
        for first in range(0, len(X), step):
            some = slice(first, min(len(X), first + step))
            rows = self._rows(parts, values, X[some])
            product = _joined(rows)
            known = (product**2 / self.whole.variances.reshape(-1)).sum(1)
            if len(self.whole.cells.holes):
                known = known - self._taken_back(rows)
            diagonal = np.prod(
                [fused.diagonal(part, values, X[some, d : d + 1]) for d, part in enumerate(parts)], axis=0
            )
            mean[some] = (product @ self.solved.rotated[0].reshape(-1)).cpu().numpy()
            variance[some] = np.maximum(diagonal - known.cpu().numpy(), 0.0)
            if self.problem.data.free_level:
                pull = product @ self.solved.completed.rotated[1].reshape(-1)
                variance[some] += self.solved.level_variance * ((share - pull) ** 2).cpu().numpy()
        return Prediction(mean, variance)

    @torch.no_grad()
    def predict_joint(self, X: Array) -> tuple[Array, Array]:
        """Return mean and full covariance of f at the rows."""
        if len(X) * max(self.whole.cells.size, len(X)) > MOST_JOINT:
            raise TooLargeError(
                f"a joint prediction of {len(X):,} rows is too large beside a grid of {self.whole.cells.size:,} cells: "
                f"ask for at most {int(MOST_JOINT / self.whole.cells.size):,} rows"
            )
        rows = self._rows(self.problem.parts, self.values, X)
        product = _joined(rows)
        known = (product / self.whole.variances.reshape(-1)) @ product.mT
        if len(self.whole.cells.holes):
            t = self._at_holes(rows)
            known = known - t @ self.whole.solve_holes(t)[0].mT
        covariance = np.ones((len(X), len(X)))
        for d, part in enumerate(self.problem.parts):
            covariance *= fused.gram(part, self.values, X[:, d : d + 1])
        covariance -= known.cpu().numpy()
        mean = (product @ self.solved.rotated[0].reshape(-1)).cpu().numpy() + self.solved.level
        if self.problem.data.free_level:
            unsure = 1.0 - (product @ self.solved.completed.rotated[1].reshape(-1)).cpu().numpy()
            covariance += self.solved.level_variance * np.outer(unsure, unsure)
        return mean, 0.5 * (covariance + covariance.T)

    def sample(self, X: Array, count: int, rng: np.random.Generator, noise: float) -> Array:
        """Draw joint samples of f at the rows, plus independent noise of the given variance."""
        mean, covariance = self.predict_joint(X)
        factor = factorise(covariance.copy, noise)
        if isinstance(factor, Failure):
            raise NumericalError(f"no samples: {factor.reason}; ask for fewer or more distinct rows")
        return mean[:, None] + factor.multiply(rng.standard_normal((len(X), count)))

    @torch.no_grad()
    def left_out_score(self) -> float:
        """Return the sum of leave-one-out log densities."""
        return left_out_score(self.leave_one_out(), self.problem.data.y)

    def leave_one_out(self) -> Prediction:
        """Return mean and variance of y at each row given all the others, from the diagonal of A_MM^-1.

        It is that of B less that of B_MH B_HH^-1 B_HM, which is estimated by draws where there are many holes.
        """
        cells, whole = self.whole.cells, self.whole
        squares = [vectors**2 for vectors in whole.spectrum.vectors]
        precision = cells.gather(along_axes(squares, 1.0 / whole.variances[None]), cells.observed)[0]
        if len(cells.holes):
            precision = torch.maximum(precision - self._lost_precision(), 0.05 * precision)
        if self.problem.data.free_level:
            pull = whole.spectrum.back(self.solved.completed.rotated[1:])
            precision = precision - self.solved.level_variance * cells.gather(pull, cells.observed)[0] ** 2
        alpha = cells.gather(whole.spectrum.back(self.solved.rotated), cells.observed)[0].cpu().numpy()
        inverse = 1.0 / precision.cpu().numpy()
        return Prediction(self.problem.data.y - alpha * inverse, inverse)

    def _lost_precision(self) -> Tensor:
        cells, whole = self.whole.cells, self.whole
        if whole.factor is not None and len(cells.holes) * cells.size <= 4 * BLOCK:
            rows = whole.spectrum.back(whole.hole_rows(slice(None)).div_(whole.variances))
            half = torch.linalg.solve_triangular(whole.factor, cells.gather(rows, cells.observed), upper=False)
            return (half**2).sum(0)
        # if w is drawn from N(0, A), what is wrong in the holes when w_M is completed has the covariance B_HH^-1
        rng, total = np.random.default_rng(0), torch.zeros_like(cells.observed, dtype=torch.float64)
        for _ in range(PROBES):
            z = sent(rng.standard_normal((1, *cells.shape)), self.problem.device)
            drawn = whole.spectrum.back(z * whole.variances.sqrt())
            wrong = drawn - whole.completed(cells.gather(drawn, cells.observed)).filled
            images = whole.spectrum.back(whole.spectrum.into(wrong).div_(whole.variances))
            total += cells.gather(images, cells.observed)[0] ** 2
        return total / PROBES

    # -------------------------------------------------------------------------------------------------------- pieces

    def _projections(self, axes: Sequence[Array]) -> list[Tensor]:
        """P_d for every axis."""
        lattice, vectors = self.problem.lattice, self.whole.spectrum.vectors
        return [
            self.problem.cross(part, self.values, np.asarray(axis, dtype=np.float64), old) @ q
            for part, axis, old, q in zip(self.problem.parts, axes, lattice.axes, vectors, strict=True)
        ]

    def _diagonal(self, d: int, axis: Array) -> Tensor:
        part = self.problem.parts[d]
        return sent(fused.diagonal(part, self.values, np.asarray(axis, dtype=np.float64)[:, None]), self.problem.device)

    def _rows(self, parts: Sequence[Program], values: Array, X: Array) -> list[Tensor]:
        """P_d at single rows, (rows, n_d) each."""
        pairs = zip(parts, self.problem.lattice.axes, self.whole.spectrum.vectors, strict=True)
        return [self.problem.cross(part, values, X[:, d], axis) @ q for d, (part, axis, q) in enumerate(pairs)]

    def _at_holes(self, rows: Sequence[Tensor]) -> Tensor:
        """t = B_H. k(grid, *) for rows given by their P_d, (rows, H)."""
        return self.whole.into_holes(_joined(rows).view(-1, *self.whole.cells.shape) / self.whole.variances)

    def _taken_back(self, rows: Sequence[Tensor]) -> Tensor:
        """t' B_HH^-1 t for every row, some rows at a time."""
        found, step = [], max(1, BLOCK // self.whole.cells.size)
        for first in range(0, len(rows[0]), step):
            t = self._at_holes([row[first : first + step] for row in rows])
            found.append((t * self.whole.solve_holes(t)[0]).sum(1))
        return torch.cat(found)

    def _level_part(self, projections: Sequence[Tensor]) -> Tensor:
        """What the uncertainty of the level adds to variances on a grid."""
        if not self.problem.data.free_level:
            return projections[0].new_zeros([len(p) for p in projections])
        pull = along_axes(projections, self.solved.completed.rotated[1:])[0]
        return self.solved.level_variance * (1.0 - pull) ** 2


def _picked(grids: Tensor, joint: Sequence[Array], axes: Sequence[Array]) -> Tensor:
    """What grids over the joint axes hold at the coordinates of others."""
    for d, (whole, axis) in enumerate(zip(joint, axes, strict=True), 1):
        grids = grids.index_select(d, torch.as_tensor(np.searchsorted(whole, axis), device=grids.device))
    return grids


def _joined(rows: Sequence[Tensor]) -> Tensor:
    """The rows of P_1 x ... x P_D, (rows, N)."""
    grid = rows[0]
    for row in rows[1:]:
        grid = (grid[:, :, None] * row[:, None, :]).flatten(1)
    return grid
