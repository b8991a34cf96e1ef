"""One product of kernels on a grid with holes: its factors, the linear algebra, the posterior (METHODS 7).

A = K_1 x ... x K_D + noise I over all N cells is known by its eigenvalues and eigenvectors, and with it B = A^-1. The
M observed cells have the covariance A_MM, which has no such structure. Instead of leaving the holes H out, the grid is
completed by imaginary observations y_H, chosen so that they say nothing:

    a = B [y_M; y_H],  y_H such that a_H = 0:    B_HH y_H = -B_HM y_M    (then A_MM a_M = y_M, exactly)

which is what the imaginary observations with noise 1/eps of the literature become as eps -> 0. The y_H found are the
posterior mean of the missing cells. Also

    y_M' A_MM^-1 y_M = min over y_H of y' B y,    |A_MM| = |A| |B_HH|

so an inexact y_H bounds the evidence from below, and with few holes everything is exact by one small Cholesky factor.

B_HH is the precision of the holes given all else, nearly diagonal for single missing cells: conjugate gradients need 4
to 15 steps at 5 % missing where those on A_MM need 300 and more (150 x 150 cells, SE, Matern and SM kernels, noise 1e-4
to 0.1). In the middle of a large hole B_HH is the inverse of A_HH but for its edge, and A_HH is quick to multiply
with: it is the preconditioner there (9 to 90 steps, 300 without, Matern).

Predictions: with P_d = k_d(new, axis_d) Q_d and the rows of P = P_1 x ... x P_D in the basis of the eigenvectors (S
those of A),

    mean = c + P a,    variance = k** - sum P^2 / S + t' B_HH^-1 t,   t = B_H. k(grid, *)

The first two terms are the answer as if no cell were missing; the last is what the holes take back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce

import numpy as np
import torch
from torch import Tensor

from mercer.compute import fused
from mercer.compute.accelerator import TorchBackend
from mercer.compute.program import Program
from mercer.compute.separate import separate
from mercer.errors import KernelError, TooLargeError
from mercer.inference.contract import Data, Level, Part, Posterior, Prediction, Projection
from mercer.inference.grid import UNDEFINED, Grid, GridEvidence
from mercer.inference.lattice import Lattice, find_lattice
from mercer.inference.likelihood import LOG_2_PI
from mercer.kernels.domains import Array
from mercer.linalg.device import factorise_batch
from mercer.linalg.iterative import Apply, Solution, conjugate_gradients, lanczos_log_determinant
from mercer.linalg.operators import Kronecker, along_axes, is_toeplitz, outer, spectrum

MOST_EXACT = 6000  # holes whose precision matrix is factorised
BLOCK = 1 << 24  # numbers at a time
HOLE_STEPS = 25  # of Lanczos quadrature over holes
LEFT_OUT_PROBES = 32  # draws to estimate what holes take from the precision of leaving one out
MOST_JOINT = 1e8  # numbers
MANY_ROWS, MOST_CELLS = 500, 4.0  # rows to predict that may be a grid; its cells for each of them


@dataclass(frozen=True, eq=False)
class Block:
    """Some cells of a grid as seen from the smallest grid that holds them: the coordinates used along each axis."""

    used: tuple[Tensor, ...]
    places: tuple[Tensor, ...]  # of each cell among the used coordinates, along each axis

    @staticmethod
    def of(cells: Tensor, shape: tuple[int, ...]) -> Block:
        """Find the coordinates that the cells use."""
        pairs = [torch.unique(place, return_inverse=True) for place in torch.unravel_index(cells, shape)]
        return Block(tuple(rows for rows, _ in pairs), tuple(place for _, place in pairs))

    def spread(self, vectors: Tensor) -> Tensor:
        """Return small grids that hold the vectors (b, cells), zero elsewhere."""
        grids = vectors.new_zeros(len(vectors), *(len(rows) for rows in self.used))
        grids[(slice(None), *self.places)] = vectors  # type: ignore[index]
        return grids

    def gather(self, grids: Tensor) -> Tensor:
        return grids[(slice(None), *self.places)]  # type: ignore[index]


@dataclass(frozen=True, eq=False)
class Cells:
    """Which cells of a grid are observed, by number in C order; `deep`: which of the holes are in large ones."""

    shape: tuple[int, ...]
    observed: Tensor
    holes: Tensor
    deep: Tensor

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def exact_within(self, work: float) -> bool:
        """Tell whether the precision of the holes can be factorised in this many operations."""
        holes = len(self.holes)
        lines = max(map(len, self.hole_block.used)) if holes else 0
        return holes <= MOST_EXACT and holes * (holes**2 + self.size * lines) <= work

    @cached_property
    def hole_block(self) -> Block:
        """The holes, in the smallest grid."""
        return Block.of(self.holes, self.shape)

    @cached_property
    def deep_block(self) -> Block:
        return Block.of(self.holes[self.deep], self.shape)

    def spread(self, vectors: Tensor) -> Tensor:
        """Return grids (b, n_1, ..., n_D) that hold the vectors (b, M) at the observed cells and zero elsewhere."""
        grids = vectors.new_zeros(len(vectors), self.size)
        grids[:, self.observed] = vectors
        return grids.view(-1, *self.shape)

    def gather(self, grids: Tensor) -> Tensor:
        return grids.reshape(len(grids), -1)[:, self.observed]


@lru_cache(maxsize=2)
def cells_of(lattice: Lattice, device: torch.device) -> Cells:
    """Send what is known about a lattice to the device; the last ones are kept: a fit asks again and again."""
    numbers = (lattice.cells, lattice.holes, lattice.deep)
    return Cells(lattice.shape, *(torch.as_tensor(each, device=device) for each in numbers))


@dataclass(frozen=True, eq=False)
class Completed:
    """Values with imaginary ones in the holes (b, n_1, ..., n_D), and a = B y in the basis of the eigenvectors."""

    filled: Tensor
    rotated: Tensor
    residual: float  # the largest |B_HH y_H + B_HM y_M| / |B_HM y_M| of the batch
    iterations: int


@dataclass(frozen=True, eq=False)
class GridCovariance:
    """A = K + noise I over all cells, some of them holes; the engine says how closely these are solved for."""

    cells: Cells
    spectrum: Kronecker
    engine: Grid

    @cached_property
    def hole_vectors(self) -> list[Tensor]:
        """The rows of the eigenvectors that have holes."""
        rows = self.cells.hole_block.used
        return [vectors[used] for vectors, used in zip(self.spectrum.vectors, rows, strict=True)]

    def into_holes(self, rotated: Tensor) -> Tensor:
        """Return Q v at the holes, (b, H)."""
        return self.cells.hole_block.gather(along_axes(self.hole_vectors, rotated))

    def from_holes(self, vectors: Tensor) -> Tensor:
        """Return Q' E v for vectors (b, H) over the holes."""
        return along_axes([rows.mT for rows in self.hole_vectors], self.cells.hole_block.spread(vectors))

    def precision_of_holes(self, vectors: Tensor) -> Tensor:
        """Return B_HH v."""
        return self.into_holes(self.from_holes(vectors).div_(self.spectrum.variances))

    @cached_property
    def factor(self) -> Tensor | None:
        """The Cholesky factor of B_HH, where it costs little enough and needs no jitter."""
        holes, size = len(self.cells.holes), self.cells.size
        if not holes or not self.cells.exact_within(self.engine.exact_work):
            return None
        step = max(1, BLOCK // size)
        some = (slice(first, first + step) for first in range(0, holes, step))
        found = torch.cat([self.into_holes(self.hole_rows(part).div_(self.spectrum.variances)) for part in some])
        factor, jitter, failed = factorise_batch(found[None], found.new_zeros(1))
        return None if bool(failed[0]) or float(jitter[0]) > 0 else factor[0]

    def hole_rows(self, some: slice) -> Tensor:
        """Return Q' e_h for some of the holes, as grids: products of rows of the factors' eigenvectors."""
        places = self.cells.hole_block.places
        rows = [vectors[place[some]] for vectors, place in zip(self.hole_vectors, places, strict=True)]
        return _join(rows).view(len(rows[0]), *self.cells.shape)

    def precondition(self) -> Apply | None:
        """Return an approximate inverse of B_HH: A among the cells of large holes, a number for the others."""
        deep, block = self.cells.deep, self.cells.deep_block
        if not len(deep):
            return None
        pairs = zip(self.spectrum.values, self.spectrum.vectors, block.used, strict=True)
        grams = [(q[used] * v) @ q[used].mT for v, q, used in pairs]
        typical = float((1.0 / self.spectrum.variances).mean())  # of B's diagonal

        def apply(given: Tensor) -> Tensor:
            result, inner = given / typical, given[:, deep]
            known = block.gather(along_axes(grams, block.spread(inner)))
            result[:, deep] = known.add_(inner, alpha=self.spectrum.noise)
            return result

        return apply

    def solve_holes(self, right: Tensor) -> Solution:
        """Return B_HH^-1 right (b, H)."""
        if self.factor is not None:
            return Solution(torch.cholesky_solve(right.mT, self.factor).mT, 0.0, 0)
        return conjugate_gradients(
            self.precision_of_holes, right,
            precondition=self.precondition(), tolerance=self.engine.tolerance, most=self.engine.most_steps,
        )  # fmt: skip

    def complete(self, right: Tensor) -> Completed:
        """Complete the observed values (b, M)."""
        cells, spectrum = self.cells, self.spectrum
        grids = cells.spread(right)
        found = Solution(grids, 0.0, 0)
        if len(cells.holes):
            found = self.solve_holes(-self.into_holes(spectrum.into(grids).div_(self.spectrum.variances)))
            grids.view(len(grids), -1)[:, cells.holes] = found.x
        return Completed(grids, spectrum.into(grids).div_(self.spectrum.variances), found.residual, found.iterations)


# A log-determinant and its gradient: by each factor K_d in the basis of its eigenvectors, and by the noise.
Curvature = tuple[float, list[Tensor], float]


def by_eigenvalues(whole: GridCovariance) -> Curvature:
    """Approximate log|A_MM| by the sum of log(M/N lambda_i + noise) over the M largest eigenvalues of K (METHODS 7).

    Exact without holes, where M = N.
    """
    grid, count = whole.spectrum.grid, len(whole.cells.observed)
    share = count / whole.cells.size
    chosen = torch.ones_like(grid)
    if count < grid.numel():
        left_out = grid.flatten().topk(grid.numel() - count, largest=False).indices
        chosen.view(-1)[left_out] = 0.0
    variances = share * grid + whole.spectrum.noise
    value = float((chosen * torch.log(variances)).sum())
    weights = chosen / variances
    return value, by_factors(share * weights, whole.spectrum), float(weights.sum())


def by_holes(whole: GridCovariance) -> Curvature:
    """Return log|A| + log|B_HH| and its gradient: exact where B_HH is factorised, else by probes (unbiased)."""
    weights, engine = 1.0 / whole.spectrum.variances, whole.engine
    # tr(B_HH^-1 dB_HH) = -sum_k u_k' dA v_k with u_k = B E B_HH^-1 z_k, v_k = B E z_k; exactly, both = B E L^-T e_k
    if whole.factor is not None:
        log_holes = 2.0 * float(torch.log(whole.factor.diagonal()).sum())
        rows = whole.hole_rows(slice(None)).div_(whole.spectrum.variances).flatten(1)
        left = torch.linalg.solve_triangular(whole.factor, rows, upper=False).view(-1, *whole.cells.shape)
        right, count = left, 1
    else:
        signs = np.random.default_rng(engine.seed).integers(0, 2, (engine.policy.probes, len(whole.cells.holes)))
        probes = torch.as_tensor(signs * 2.0 - 1.0, device=weights.device)
        log_holes = lanczos_log_determinant(whole.precision_of_holes, probes, HOLE_STEPS).value
        both = torch.cat([whole.solve_holes(probes).x, probes])
        images = whole.from_holes(both).div_(whole.spectrum.variances)
        left, right, count = images[: len(probes)], images[len(probes) :], len(probes)
    pairs = zip(by_factors(weights, whole.spectrum), between(left, right, whole.spectrum), strict=True)
    factors = [factor - pulled / count for factor, pulled in pairs]
    by_noise = float(weights.sum()) - float((left * right).sum()) / count
    return whole.spectrum.log_determinant() + log_holes, factors, by_noise


def by_factors(weights: Tensor, spectrum: Kronecker) -> list[Tensor]:
    """Return, for every d, the gradient of sum(weights * eigenvalues of K) by K_d in its basis: a diagonal matrix."""
    grids = [weights * outer(spectrum.values, left_out=d) for d in range(weights.ndim)]
    return [torch.diag(grid.movedim(d, 0).reshape(grid.shape[d], -1).sum(1)) for d, grid in enumerate(grids)]


def between(left: Tensor, right: Tensor, spectrum: Kronecker) -> list[Tensor]:
    """Return, for every d, the gradient of sum_k u_k' K v_k by K_d; u, v and the result in the eigenvectors' basis."""
    result = []
    for d in range(len(spectrum.values)):
        u = left.movedim(d + 1, 0).flatten(1)
        v = (right * outer(spectrum.values, left_out=d)).movedim(d + 1, 0).flatten(1)
        product = u @ v.mT
        result.append(0.5 * (product + product.mT))
    return result


def send(array: Array, device: torch.device) -> Tensor:
    """Return an array as a float64 tensor on the device."""
    return torch.as_tensor(np.ascontiguousarray(array), dtype=torch.float64, device=device)


# ------------------------------------------------------------------------------------------- a kernel on the grid


@dataclass(frozen=True, eq=False)
class OnGrid:
    """A kernel on data that form a grid, and the engine with what it may cost."""

    program: Program
    data: Data
    lattice: Lattice
    engine: Grid

    @property
    def device(self) -> torch.device:
        """Where the tensors are: those of the CPU's own back end too."""
        backend = self.engine.backend
        return backend.where if isinstance(backend, TorchBackend) else torch.device("cpu")

    def grams(self, parts: Sequence[Program], values: Array, axes: Sequence[Array]) -> list[Tensor]:
        """Return the Gram matrix of one program for each axis."""
        backend = self.engine.backend
        pairs = zip(parts, axes, strict=True)
        return [torch.as_tensor(backend.gram(part, values, axis[:, None])) for part, axis in pairs]

    def contract(self, parts: Sequence[Program], values: Array, weights: Sequence[Tensor]) -> Array:
        """Return the gradient by the values from those by the factors."""
        total = np.zeros(len(values))
        for part, axis, matrix in zip(parts, self.lattice.axes, weights, strict=True):
            total += self.engine.backend.contract(part, values, axis[:, None], matrix)
        return total


@dataclass(frozen=True, eq=False)
class SolvedGrid:
    """The target on the grid less its level c; `rotated` is a = B(y - c) in the basis of the eigenvectors."""

    completed: Completed
    rotated: Tensor
    quadratic: float
    level: float
    level_variance: float


@dataclass(frozen=True, eq=False)
class GridProblem(OnGrid):
    """A kernel taken apart by columns."""

    parts: tuple[Program, ...]

    def covariance(self, values: Array, noise: float) -> GridCovariance | None:
        """Decompose the factors; None where they are not finite."""
        grams = self.grams(self.parts, values, self.lattice.axes)
        if not all(bool(torch.isfinite(gram).all()) for gram in grams):
            return None
        basis = spectrum(grams, [is_toeplitz(gram) for gram in grams], noise)
        return GridCovariance(cells_of(self.lattice, self.device), basis, self.engine)

    def solve(self, whole: GridCovariance) -> SolvedGrid:
        """Complete the grid and fit the level."""
        done = whole.complete(send(self.data.right_sides, self.device))
        rotated, level, variance = done.rotated[:1], 0.0, 0.0
        grids = whole.spectrum.into(done.filled)
        if self.data.free_level:
            variance = 1.0 / float((grids[1] * done.rotated[1]).sum())
            level = variance * float((grids[0] * done.rotated[1]).sum())
            rotated = rotated - level * done.rotated[1:]
            grids = grids[:1] - level * grids[1:]
        return SolvedGrid(done, rotated, float((grids[:1] * rotated).sum()), level, variance)

    @torch.no_grad()
    def evidence(self, values: Array, noise: float, gradient: bool) -> GridEvidence:
        """Return the log evidence, with its gradient if asked."""
        whole = self.covariance(values, noise)
        if whole is None:
            return GridEvidence(-math.inf, failure=UNDEFINED)
        solved, how, holes = self.solve(whole), "exact", len(whole.cells.holes) > 0
        if holes and whole.factor is None:
            how = "lanczos" if self.engine.log_determinant == "lanczos" else "eigenvalues"
        determinant, factors, slope = by_holes(whole) if holes and how != "eigenvalues" else by_eigenvalues(whole)
        value = -0.5 * (solved.quadratic + determinant + self.data.count * LOG_2_PI)
        residual, iterations = solved.completed.residual, solved.completed.iterations
        if not math.isfinite(value):
            return GridEvidence(-math.inf, failure="the evidence overflowed", residual=residual)
        by_values = by_noise = None
        if gradient:
            pulled = between(solved.rotated, solved.rotated, whole.spectrum)
            triples = zip(whole.spectrum.vectors, pulled, factors, strict=True)
            by_values = self.contract(self.parts, values, [q @ (0.5 * (p - c)) @ q.mT for q, p, c in triples])
            by_noise = 0.5 * (float((solved.rotated**2).sum()) - slope)
        return GridEvidence(value, by_values, by_noise, residual=residual, iterations=iterations, log_determinant=how)

    @torch.no_grad()
    def posterior(self, values: Array, noise: float) -> GridPosterior | None:
        """Return the posterior; None where the factors are not finite."""
        whole = self.covariance(values, noise)
        return None if whole is None else GridPosterior(self.data, self, whole, self.solve(whole), values)


# ------------------------------------------------------------------------------------------------------ posterior


@dataclass(frozen=True, eq=False)
class GridPosterior(Posterior):
    """f | y on a grid."""

    data: Data
    problem: GridProblem
    whole: GridCovariance
    solved: SolvedGrid
    values: Array

    @cached_property
    def fitted_level(self) -> Level:
        solved, pull = self.solved, np.zeros(self.data.count)
        if self.data.free_level:
            grids = self.whole.spectrum.back(solved.completed.rotated[1:])
            pull = np.asarray(self.whole.cells.gather(grids)[0].cpu().numpy())
        return Level(solved.level, solved.level_variance, pull)

    @property
    def rows_at_a_time(self) -> int:
        return max(1, BLOCK // self.whole.cells.size)

    # ------------------------------------------------------------------------------------------------- on other grids

    @torch.no_grad()
    def mean_on(self, axes: Sequence[Array]) -> Array:
        """Return the mean of f on the grid with these axes."""
        mean = along_axes(self._project_axes(self.problem.parts, self.values, axes), self.solved.rotated)[0]
        return np.asarray(mean.cpu().numpy()) + self.solved.level

    @torch.no_grad()
    def variance_on(self, axes: Sequence[Array], seed: int = 0) -> Array:
        """Return the variance of f on a grid; by draws where there are holes and many cells."""
        projections = self._project_axes(self.problem.parts, self.values, axes)
        cells, whole, policy = self.whole.cells, self.whole, self.problem.engine.policy
        shape = [len(axis) for axis in axes]
        steps = len(cells.holes) if whole.factor is not None else 100 * sum(cells.shape)
        work = math.prod(shape) * (cells.size * sum(cells.shape) + steps * len(cells.holes))
        if len(cells.holes) and work > policy.variance_work:
            mean, total = self.mean_on(axes), np.zeros(shape)
            for draws in self.draws_on(axes, policy.samples, np.random.default_rng(seed)):
                total += ((draws - mean) ** 2).sum(0)
            return np.asarray(total / policy.samples + self._level_part(projections).cpu().numpy())
        pairs = zip(self.problem.parts, axes, strict=True)
        diagonals = [fused.diagonal(part, self.values, np.asarray(axis, float)[:, None]) for part, axis in pairs]
        prior = outer([send(each, self.problem.device) for each in diagonals])
        known = along_axes([p**2 for p in projections], 1.0 / whole.spectrum.variances[None])[0]
        if len(cells.holes):
            places = np.indices(shape).reshape(len(shape), -1)
            rows = [p[torch.as_tensor(place, device=p.device)] for p, place in zip(projections, places, strict=True)]
            known = known - self._taken_back(rows).view(shape)
        return np.asarray(((prior - known).clamp_min_(0.0) + self._level_part(projections)).cpu().numpy())

    @torch.no_grad()
    def at_holes(self, seed: int = 0) -> Prediction:
        """Return mean and variance of f at the missing cells of the grid, in C order."""
        lattice, whole = self.problem.lattice, self.whole
        mean = self.mean_on(lattice.axes).ravel()[lattice.holes]
        if whole.factor is None:
            return Prediction(mean, self.variance_on(lattice.axes, seed).ravel()[lattice.holes])
        # the precision of y_H given y_M is B_HH
        variance = torch.cholesky_inverse(whole.factor).diagonal() - whole.spectrum.noise
        projections = self._project_axes(self.problem.parts, self.values, lattice.axes)
        extra = self._level_part(projections).reshape(-1)[whole.cells.holes]
        return Prediction(mean, np.asarray((variance.clamp_min(0.0) + extra).cpu().numpy()))

    @torch.no_grad()
    def draws_on(self, axes: Sequence[Array], count: int, rng: np.random.Generator) -> Iterator[Array]:
        """Yield joint draws of f on a grid (some at a time, by its shape), the level at its mean, by Matheron's rule.

        A draw g of the prior on both grids, plus K*_M A_MM^-1 (y - g_M - noise).
        """
        problem, whole, level = self.problem, self.whole, self.solved.level
        old, new = problem.lattice.axes, [np.asarray(axis, dtype=np.float64) for axis in axes]
        joint = [np.unique(np.concatenate([a, b])) for a, b in zip(old, new, strict=True)]
        prior = spectrum(problem.grams(problem.parts, self.values, joint))
        root = prior.grid.sqrt_()
        projections = self._project_axes(problem.parts, self.values, axes)
        target = send(self.data.y, problem.device)
        step = max(1, BLOCK // root.numel())
        for first in range(0, count, step):
            some = min(step, count - first)
            z = send(rng.standard_normal((some, *root.shape)), problem.device)
            draws = prior.back(z.mul_(root))
            noise = send(rng.standard_normal((some, len(target))), problem.device) * whole.spectrum.noise**0.5
            seen = whole.cells.gather(_pick(draws, joint, old)) + noise
            change = along_axes(projections, whole.complete(target - level - seen).rotated)
            yield (_pick(draws, joint, new) + change).cpu().numpy() + level

    # ------------------------------------------------------------------------------------------------- at single rows

    def predict(self, X: Array, part: Part = None) -> Prediction:
        """Return mean and variance of f at each row; rows that form a grid themselves are predicted as one."""
        lattice = find_lattice(X, MOST_CELLS * len(X)) if part is None and len(X) > MANY_ROWS else None
        if lattice is None:
            return super().predict(X, part)
        mean, variance = self.mean_on(lattice.axes), self.variance_on(lattice.axes)
        return Prediction(mean.ravel()[lattice.cells], variance.ravel()[lattice.cells])

    @torch.no_grad()
    def project(self, X: Array, part: Part = None, joint: bool = False) -> Projection:
        size, solved = self.whole.cells.size, self.solved
        if joint and len(X) * max(size, len(X)) > MOST_JOINT:
            raise TooLargeError(
                f"a joint prediction of {len(X):,} rows is too large beside a grid of {size:,} cells: "
                f"ask for at most {int(MOST_JOINT / size):,} rows"
            )
        program, values = part or (self.problem.program, self.values)
        parts = separate(program, X.shape[1])
        if parts is None:
            raise KernelError("a summand of a kernel on a grid must be a product of one kernel for each column")
        rows = self._project_axes(parts, values, X.T)
        product = _join(rows)
        scaled = product / self.whole.spectrum.variances.reshape(-1)
        known = scaled @ product.mT if joint else (scaled * product).sum(1)
        if len(self.whole.cells.holes):
            known = known - self._taken_back(rows, joint)
        variance = (fused.gram if joint else fused.diagonal)(program, values, X) - known.cpu().numpy()
        mean, pull = (product @ solved.rotated[0].reshape(-1)).cpu().numpy(), np.zeros(len(X))
        if self.data.free_level:
            pull = (product @ solved.completed.rotated[1].reshape(-1)).cpu().numpy()
        return Projection(mean, variance, pull)

    @torch.no_grad()
    def precision(self) -> tuple[Array, Array]:
        """Return both, from the diagonal of A_MM^-1.

        It is that of B less that of B_MH B_HH^-1 B_HM, which is estimated by draws where there are many holes.
        """
        cells, whole = self.whole.cells, self.whole
        squares = [vectors**2 for vectors in whole.spectrum.vectors]
        precision = cells.gather(along_axes(squares, 1.0 / whole.spectrum.variances[None]))[0]
        alpha = cells.gather(whole.spectrum.back(self.solved.rotated))[0]
        if not len(cells.holes):
            return alpha.cpu().numpy(), precision.cpu().numpy()
        if whole.factor is not None and len(cells.holes) * cells.size <= 4 * BLOCK:
            rows = whole.spectrum.back(whole.hole_rows(slice(None)).div_(whole.spectrum.variances))
            half = torch.linalg.solve_triangular(whole.factor, cells.gather(rows), upper=False)
            lost = torch.sum(half**2, 0)
        else:
            # if w is drawn from N(0, A), what is wrong in the holes when w_M is completed has the covariance B_HH^-1
            rng, lost = np.random.default_rng(0), torch.zeros_like(precision)
            for _ in range(LEFT_OUT_PROBES):
                z = send(rng.standard_normal((1, *cells.shape)), self.problem.device)
                drawn = whole.spectrum.back(z * whole.spectrum.variances.sqrt())
                wrong = drawn - whole.complete(cells.gather(drawn)).filled
                lost += cells.gather(whole.spectrum.solve(wrong))[0] ** 2 / LEFT_OUT_PROBES
        return alpha.cpu().numpy(), torch.maximum(precision - lost, 0.05 * precision).cpu().numpy()

    # -------------------------------------------------------------------------------------------------------- pieces

    def _project_axes(self, parts: Sequence[Program], values: Array, axes: Sequence[Array] | Array) -> list[Tensor]:
        """P_d for the coordinates along every axis: those of a grid, or of single rows."""
        backend, found = self.problem.engine.backend, []
        for part, axis, old, q in zip(parts, axes, self.problem.lattice.axes, self.whole.spectrum.vectors, strict=True):
            new = np.asarray(axis, dtype=np.float64)[:, None]
            found.append(torch.as_tensor(backend.cross(part, values, new, old[:, None])) @ q)
        return found

    def _taken_back(self, rows: Sequence[Tensor], joint: bool = False) -> Tensor:
        """t' B_HH^-1 t with t = B_H. k(grid, *) for every row, or pair of rows, given by P_d; some rows at a time."""
        found, whole = [], self.whole
        step = len(rows[0]) if joint else max(1, BLOCK // whole.cells.size)
        for first in range(0, len(rows[0]), step):
            grids = _join([row[first : first + step] for row in rows]).view(-1, *whole.cells.shape)
            t = whole.into_holes(grids / whole.spectrum.variances)
            solved = whole.solve_holes(t).x
            found.append(t @ solved.mT if joint else (t * solved).sum(1))
        return torch.cat(found)

    def _level_part(self, projections: Sequence[Tensor]) -> Tensor:
        """What the uncertainty of the level adds to variances on a grid."""
        if not self.data.free_level:
            return projections[0].new_zeros([len(p) for p in projections])
        pull = along_axes(projections, self.solved.completed.rotated[1:])[0]
        return self.solved.level_variance * (1.0 - pull) ** 2


def _pick(grids: Tensor, joint: Sequence[Array], axes: Sequence[Array]) -> Tensor:
    """What grids over the joint axes hold at the coordinates of others."""
    for d, (whole, axis) in enumerate(zip(joint, axes, strict=True), 1):
        grids = grids.index_select(d, torch.as_tensor(np.searchsorted(whole, axis), device=grids.device))
    return grids


def _join(rows: Sequence[Tensor]) -> Tensor:
    """The rows of P_1 x ... x P_D, (rows, N)."""
    return reduce(lambda grid, row: (grid[:, :, None] * row[:, None, :]).flatten(1), rows)
