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
from functools import cached_property, lru_cache, partial, reduce

import numpy as np
import torch
from scipy.ndimage import binary_dilation, binary_erosion
from torch import Tensor

from mercer.compute import fused
from mercer.compute.accelerator import TorchBackend
from mercer.compute.backend import NUMBA, Backend
from mercer.compute.program import Program
from mercer.compute.separate import separated
from mercer.errors import InputError, KernelError, TooLargeError
from mercer.inference.contract import Data, Level, Posterior, Prediction, Project, Projection
from mercer.inference.lattice import Lattice, find_lattice
from mercer.kernels.domains import Array
from mercer.linalg.device import factorise_batch
from mercer.linalg.iterative import Apply, Estimate, conjugate_gradients, lanczos_log_determinant
from mercer.linalg.operators import Kronecker, along_axes, outer, spectrum


@dataclass(frozen=True)
class GridPolicy:
    """What inference on a grid may cost, and how closely it estimates what cannot be had exactly."""

    posterior_work: float = 4e11  # operations that the precision of holes may take in a posterior, which is made once
    variance_work: float = 4e11  # operations that variances may take before they are estimated by draws
    samples: int = 64  # draws to estimate variances from
    probes: int = 8  # vectors of Lanczos quadrature
    steps: int = 40  # of it, for sums of products
    near_steps: int = 15  # of it where a matrix of low rank is near
    most_rank: int = 1500  # of that matrix
    fft_from: int = 500  # cells along an axis: products with an even factor go by FFT


DEFAULT = GridPolicy()

DEEP = 2  # cells: a hole this far from every observation in all directions is large
MOST_STEPS = 1000
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

    def spread(self, vectors: Tensor, places: Tensor) -> Tensor:
        """Return grids (b, n_1, ..., n_D) that hold the vectors (b, m) at some cells and zero elsewhere."""
        grids = vectors.new_zeros(len(vectors), self.size)
        grids[:, places] = vectors
        return grids.view(-1, *self.shape)

    def gather(self, grids: Tensor, places: Tensor) -> Tensor:
        return grids.reshape(len(grids), -1)[:, places]


@lru_cache(maxsize=2)
def cells_of(lattice: Lattice, device: torch.device) -> Cells:
    """Send what is known about a lattice to the device; the last ones are kept: a fit asks again and again."""
    empty = np.zeros(lattice.size, dtype=bool)
    empty[lattice.holes] = True
    core = empty.reshape(lattice.shape)
    if empty.any():
        core = binary_erosion(core, iterations=DEEP, border_value=1)
        core = binary_dilation(core, iterations=DEEP) & empty.reshape(lattice.shape) if core.any() else core
    deep = np.flatnonzero(core.ravel()[lattice.holes])
    observed, holes, inner = (torch.as_tensor(a, device=device) for a in (lattice.cells, lattice.holes, deep))
    return Cells(lattice.shape, observed, holes, inner)


@dataclass(frozen=True, eq=False)
class Completed:
    """Values with imaginary ones in the holes (b, n_1, ..., n_D), and a = B y in the basis of the eigenvectors.

    `residual` is the largest |B_HH y_H + B_HM y_M| / |B_HM y_M| of the batch.
    """

    filled: Tensor
    rotated: Tensor
    residual: float
    iterations: int


@dataclass(frozen=True, eq=False)
class GridCovariance:
    """A = K + noise I over all cells, some of them holes.

    B_HH is factorised where that takes at most `exact_work` operations.
    """

    cells: Cells
    spectrum: Kronecker
    noise: float
    tolerance: float
    exact_work: float
    most_steps: int = MOST_STEPS
    probe_count: int = DEFAULT.probes

    @property
    def variances(self) -> Tensor:
        """The eigenvalues of A, on the grid."""
        return self.spectrum.variances

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
        return self.into_holes(self.from_holes(vectors).div_(self.variances))

    @cached_property
    def factor(self) -> Tensor | None:
        """The Cholesky factor of B_HH, where it costs little enough and needs no jitter."""
        holes, size = len(self.cells.holes), self.cells.size
        if not holes or not self.cells.exact_within(self.exact_work):
            return None
        step = max(1, BLOCK // size)
        some = (slice(first, first + step) for first in range(0, holes, step))
        found = torch.cat([self.into_holes(self.hole_rows(part).div_(self.variances)) for part in some])
        factor, jitter, failed = factorise_batch(found[None], found.new_zeros(1))
        return None if bool(failed[0]) or float(jitter[0]) > 0 else factor[0]

    def hole_rows(self, some: slice) -> Tensor:
        """Return Q' e_h for some of the holes, as grids: products of rows of the factors' eigenvectors."""
        places = self.cells.hole_block.places
        rows = [vectors[place[some]] for vectors, place in zip(self.hole_vectors, places, strict=True)]
        grid = rows[0]
        for row in rows[1:]:
            grid = grid[..., None] * row.view(len(row), *[1] * (grid.ndim - 1), -1)
        return grid

    @cached_property
    def typical_precision(self) -> float:
        """The mean of B's diagonal."""
        return float((1.0 / self.variances).mean())

    def precondition(self) -> Apply | None:
        """Return an approximate inverse of B_HH: A among the cells of large holes, a number for the others."""
        deep, block = self.cells.deep, self.cells.deep_block
        if not len(deep):
            return None
        values, vectors = self.spectrum.values, self.spectrum.vectors
        rows = [q[used] for q, used in zip(vectors, block.used, strict=True)]
        grams = [(q * v) @ q.mT for q, v in zip(rows, values, strict=True)]

        def apply(given: Tensor) -> Tensor:
            result = given / self.typical_precision
            inner = given[:, deep]
            result[:, deep] = block.gather(along_axes(grams, block.spread(inner))).add_(inner, alpha=self.noise)
            return result

        return apply

    def solve_holes(self, right: Tensor) -> tuple[Tensor, float, int]:
        """Return B_HH^-1 right (b, H) with the residual and the number of steps."""
        if self.factor is not None:
            return torch.cholesky_solve(right.mT, self.factor).mT, 0.0, 0
        found = conjugate_gradients(
            self.precision_of_holes, right,
            precondition=self.precondition(), tolerance=self.tolerance, most=self.most_steps,
        )  # fmt: skip
        return found.x, found.residual, found.iterations

    def complete(self, right: Tensor) -> Completed:
        """Complete the observed values (b, M)."""
        cells, spectrum = self.cells, self.spectrum
        grids = cells.spread(right, cells.observed)
        residual, iterations = 0.0, 0
        if len(cells.holes):
            pulled = self.into_holes(spectrum.into(grids).div_(self.variances))
            values, residual, iterations = self.solve_holes(-pulled)
            grids.view(len(grids), -1)[:, cells.holes] = values
        return Completed(grids, spectrum.into(grids).div_(self.variances), residual, iterations)

    def probes(self, seed: int) -> Tensor:
        """Return vectors of +1 and -1 over the holes, the same for the same seed."""
        signs = np.random.default_rng(seed).integers(0, 2, (self.probe_count, len(self.cells.holes))) * 2.0 - 1.0
        return torch.as_tensor(signs, device=self.variances.device)

    def log_determinant_of_holes(self, seed: int) -> Estimate:
        """Return log|B_HH|: exact where factorised, otherwise by Lanczos quadrature."""
        if self.factor is not None:
            return Estimate(2.0 * float(torch.log(self.factor.diagonal()).sum()), 0.0)
        return lanczos_log_determinant(self.precision_of_holes, self.probes(seed), HOLE_STEPS)


@dataclass(frozen=True, eq=False)
class Curvature:
    """A log-determinant and its gradient: by each factor K_d in the basis of its eigenvectors, and by the noise."""

    value: float
    factors: list[Tensor]
    noise: float


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
    variances = share * grid + whole.noise
    value = float((chosen * torch.log(variances)).sum())
    weights = chosen / variances
    return Curvature(value, by_factors(share * weights, whole.spectrum), float(weights.sum()))


def by_holes(whole: GridCovariance, seed: int) -> Curvature:
    """Return log|A| + log|B_HH| and its gradient: exact where B_HH is factorised, else by probes (unbiased)."""
    weights = 1.0 / whole.variances
    value = whole.spectrum.log_determinant() + whole.log_determinant_of_holes(seed).value
    # tr(B_HH^-1 dB_HH) = -sum_k u_k' dA v_k with u_k = B E B_HH^-1 z_k, v_k = B E z_k; exactly, both = B E L^-T e_k
    if whole.factor is not None:
        rows = whole.hole_rows(slice(None)).div_(whole.variances).flatten(1)
        left = torch.linalg.solve_triangular(whole.factor, rows, upper=False).view(-1, *whole.cells.shape)
        right, count = left, 1
    else:
        probes = whole.probes(seed)
        both = torch.cat([whole.solve_holes(probes)[0], probes])
        images = whole.from_holes(both).div_(whole.variances)
        left, right, count = images[: len(probes)], images[len(probes) :], len(probes)
    factors = by_factors(weights, whole.spectrum)
    for d, pulled in enumerate(between(left, right, whole.spectrum)):
        factors[d] = factors[d] - pulled / count
    return Curvature(value, factors, float(weights.sum()) - float((left * right).sum()) / count)


def by_factors(weights: Tensor, spectrum: Kronecker) -> list[Tensor]:
    """Return, for every d, the gradient of sum(weights * eigenvalues of K) by K_d in its basis: a diagonal matrix."""
    result = []
    for d in range(len(spectrum.values)):
        others = [torch.ones_like(v) if e == d else v for e, v in enumerate(spectrum.values)]
        axes = [axis for axis in range(weights.ndim) if axis != d]
        summed = weights * outer(others)
        result.append(torch.diag(summed.sum(axes) if axes else summed))
    return result


def between(left: Tensor, right: Tensor, spectrum: Kronecker) -> list[Tensor]:
    """Return, for every d, the gradient of sum_k u_k' K v_k by K_d; u, v and the result in the eigenvectors' basis."""
    result = []
    for d in range(len(spectrum.values)):
        others = [torch.ones_like(v) if e == d else v for e, v in enumerate(spectrum.values)]
        u = left.movedim(d + 1, 0).flatten(1)
        v = (right * outer(others)).movedim(d + 1, 0).flatten(1)
        product = u @ v.mT
        result.append(0.5 * (product + product.mT))
    return result


def sent(array: Array, device: torch.device) -> Tensor:
    """Return an array as a float64 tensor on the device."""
    return torch.as_tensor(np.ascontiguousarray(array), dtype=torch.float64, device=device)


def tensor_device(backend: Backend) -> torch.device:
    """Return where the tensors of a back end are; those of the CPU's own too."""
    return backend.where if isinstance(backend, TorchBackend) else torch.device("cpu")


# ------------------------------------------------------------------------------------------- a kernel on the grid


@dataclass(frozen=True, eq=False)
class SolvedGrid:
    """The target on the grid less its level c; `rotated` is a = B(y - c) in the basis of the eigenvectors."""

    completed: Completed
    rotated: Tensor
    quadratic: float
    level: float
    level_variance: float


@dataclass(frozen=True, eq=False)
class GridProblem:
    """A kernel taken apart by columns, on data that form a grid."""

    parts: tuple[Program, ...]
    data: Data
    lattice: Lattice
    backend: Backend = NUMBA

    @property
    def device(self) -> torch.device:
        return tensor_device(self.backend)

    @staticmethod
    def of(program: Program, data: Data, backend: Backend = NUMBA) -> GridProblem:
        """Check that both have the structure that is needed."""
        parts = separated(program, data.X.shape[1])
        if parts is None:
            raise KernelError(
                "on a grid the kernel must be a product of one kernel for each column, such as SE(0)*PER(1) or "
                "(SE(0) + LIN(0))*SE(1), or a sum of such products; RQ, M12, M32, M52, LIN, COS and SM on several "
                "columns at once, and sums inside products of several columns, are not"
            )
        return GridProblem(parts, data, lattice_of(data), backend)

    def grams(self, values: Array) -> list[Tensor]:
        return [self.gram(part, values, axis) for part, axis in zip(self.parts, self.lattice.axes, strict=True)]

    def gram(self, part: Program, values: Array, axis: Array) -> Tensor:
        return torch.as_tensor(self.backend.gram(part, values, axis[:, None]))

    def cross(self, part: Program, values: Array, X: Array, axis: Array) -> Tensor:
        return torch.as_tensor(self.backend.cross(part, values, X[:, None], axis[:, None]))

    def whole(
        self, values: Array, noise: float, tolerance: float, exact_work: float, steps: int
    ) -> GridCovariance | None:
        """Decompose the factors; None where they are not finite."""
        grams = self.grams(values)
        if not all(bool(torch.isfinite(gram).all()) for gram in grams):
            return None
        even = [is_toeplitz(gram) for gram in grams]
        return GridCovariance(
            cells_of(self.lattice, self.device), spectrum(grams, even, noise), noise, tolerance, exact_work, steps
        )

    def solve(self, whole: GridCovariance) -> SolvedGrid:
        """Complete the grid and fit the level."""
        target = sent(self.data.y, self.device)
        right = torch.stack([target, torch.ones_like(target)]) if self.data.free_level else target[None]
        done = whole.complete(right)
        rotated, level, variance = done.rotated[:1], 0.0, 0.0
        grids = whole.spectrum.into(done.filled)
        if self.data.free_level:
            variance = 1.0 / float((grids[1] * done.rotated[1]).sum())
            level = variance * float((grids[0] * done.rotated[1]).sum())
            rotated = rotated - level * done.rotated[1:]
            grids = grids[:1] - level * grids[1:]
        return SolvedGrid(done, rotated, float((grids[:1] * rotated).sum()), level, variance)

    def contract(self, values: Array, weights: Sequence[Tensor], basis: Kronecker) -> Array:
        """Return the gradient by the values from those by the factors (in the basis of their eigenvectors)."""
        matrices = [q @ weight @ q.mT for q, weight in zip(basis.vectors, weights, strict=True)]
        return self.contract_parts(self.parts, values, matrices)

    def contract_parts(self, parts: Sequence[Program], values: Array, weights: Sequence[Tensor]) -> Array:
        total = np.zeros(len(values))
        for part, axis, matrix in zip(parts, self.lattice.axes, weights, strict=True):
            total += self.backend.contract(part, values, axis[:, None], matrix)
        return total


def lattice_of(data: Data) -> Lattice:
    """Return the grid of the rows, or refuse them."""
    if data.lattice is None:
        raise InputError("the rows do not form a grid: two of them have the same inputs; use another inference")
    return data.lattice


def is_toeplitz(matrix: Tensor) -> bool:
    """Tell whether k depends on i - j alone: an even axis and a stationary factor. To rounding: phases have some."""
    n = len(matrix)
    if n < 3 or abs(float(matrix[0, 0] - matrix[-1, -1])) > 1e-13 * abs(float(matrix[0, 0])):
        return False
    return bool((matrix[1:, 1:] - matrix[:-1, :-1]).abs().max() <= 1e-12 * matrix[0, 0].abs())


# ------------------------------------------------------------------------------------------------------ posterior


@dataclass(frozen=True, eq=False)
class GridPosterior(Posterior):
    """f | y on a grid."""

    data: Data
    problem: GridProblem
    whole: GridCovariance
    solved: SolvedGrid
    values: Array
    policy: GridPolicy = DEFAULT

    @cached_property
    def fitted_level(self) -> Level:
        cells, solved, pull = self.whole.cells, self.solved, np.zeros(self.data.count)
        if self.data.free_level:
            grids = self.whole.spectrum.back(solved.completed.rotated[1:])
            pull = np.asarray(cells.gather(grids, cells.observed)[0].cpu().numpy())
        return Level(solved.level, solved.level_variance, pull)

    @property
    def rows_at_a_time(self) -> int:
        return max(1, BLOCK // self.whole.cells.size)

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
        """Return the variance of f on a grid; by draws where there are holes and many cells."""
        projections, cells, whole = self._projections(axes), self.whole.cells, self.whole
        count = int(np.prod([len(axis) for axis in axes]))
        steps = len(cells.holes) if whole.factor is not None else 100 * sum(cells.shape)
        if (
            len(cells.holes)
            and count * (cells.size * sum(cells.shape) + steps * len(cells.holes)) > self.policy.variance_work
        ):
            mean = along_axes(projections, self.solved.rotated)
            total = torch.zeros_like(mean[0])
            for draws in self._draws(axes, self.policy.samples, np.random.default_rng(seed)):
                total = total + ((draws - mean) ** 2).sum(0)
            return np.asarray((total / self.policy.samples + self._level_part(projections)).cpu().numpy())
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
            seen = cells.gather(_pick(draws, joint, old), cells.observed) + noise
            told = self.whole.complete(target - self.solved.level - seen)
            yield _pick(draws, joint, new) + along_axes(projections, told.rotated)

    # ------------------------------------------------------------------------------------------------- at single rows

    def predict(self, X: Array) -> Prediction:
        """Return mean and variance of f at each row; rows that form a grid themselves are predicted as one."""
        lattice = find_lattice(X, MOST_CELLS * len(X)) if len(X) > MANY_ROWS else None
        if lattice is None:
            return super().predict(X)
        mean, variance = self.mean_on(lattice.axes), self.variance_on(lattice.axes)
        return Prediction(mean.ravel()[lattice.cells], variance.ravel()[lattice.cells])

    def projector(self, program: Program | None, values: Array, columns: int) -> Project:
        if program is None:
            return partial(self._project, self.problem.parts, self.values)
        parts = separated(program, columns)
        if parts is None:
            raise KernelError("a summand of a kernel on a grid must be a product of one kernel for each column")
        return partial(self._project, parts, values)

    @torch.no_grad()
    def _project(self, parts: Sequence[Program], values: Array, X: Array) -> Projection:
        rows = self._rows(parts, values, X)
        product = _join(rows)
        known = (product**2 / self.whole.variances.reshape(-1)).sum(1)
        if len(self.whole.cells.holes):
            known = known - self._taken_back(rows)
        diagonal = np.prod([fused.diagonal(part, values, X[:, d : d + 1]) for d, part in enumerate(parts)], axis=0)
        return self._projection(product, diagonal - known.cpu().numpy())

    def _projection(self, product: Tensor, variance: Array) -> Projection:
        mean, pull = (product @ self.solved.rotated[0].reshape(-1)).cpu().numpy(), np.zeros(len(product))
        if self.data.free_level:
            pull = (product @ self.solved.completed.rotated[1].reshape(-1)).cpu().numpy()
        return Projection(mean, variance, pull)

    @torch.no_grad()
    def project_joint(self, X: Array) -> Projection:
        if len(X) * max(self.whole.cells.size, len(X)) > MOST_JOINT:
            raise TooLargeError(
                f"a joint prediction of {len(X):,} rows is too large beside a grid of {self.whole.cells.size:,} cells: "
                f"ask for at most {int(MOST_JOINT / self.whole.cells.size):,} rows"
            )
        rows = self._rows(self.problem.parts, self.values, X)
        product = _join(rows)
        known = (product / self.whole.variances.reshape(-1)) @ product.mT
        if len(self.whole.cells.holes):
            t = self._at_holes(rows)
            known = known - t @ self.whole.solve_holes(t)[0].mT
        covariance = np.ones((len(X), len(X)))
        for d, part in enumerate(self.problem.parts):
            covariance *= fused.gram(part, self.values, X[:, d : d + 1])
        return self._projection(product, covariance - known.cpu().numpy())

    @torch.no_grad()
    def precision(self) -> tuple[Array, Array]:
        """Return both, from the diagonal of A_MM^-1.

        It is that of B less that of B_MH B_HH^-1 B_HM, which is estimated by draws where there are many holes.
        """
        cells, whole = self.whole.cells, self.whole
        squares = [vectors**2 for vectors in whole.spectrum.vectors]
        precision = cells.gather(along_axes(squares, 1.0 / whole.variances[None]), cells.observed)[0]
        if len(cells.holes):
            precision = torch.maximum(precision - self._lost_precision(), 0.05 * precision)
        alpha = cells.gather(whole.spectrum.back(self.solved.rotated), cells.observed)[0]
        return alpha.cpu().numpy(), precision.cpu().numpy()

    def _lost_precision(self) -> Tensor:
        cells, whole = self.whole.cells, self.whole
        if whole.factor is not None and len(cells.holes) * cells.size <= 4 * BLOCK:
            rows = whole.spectrum.back(whole.hole_rows(slice(None)).div_(whole.variances))
            half = torch.linalg.solve_triangular(whole.factor, cells.gather(rows, cells.observed), upper=False)
            return torch.sum(half**2, 0)
        # if w is drawn from N(0, A), what is wrong in the holes when w_M is completed has the covariance B_HH^-1
        rng, total = np.random.default_rng(0), torch.zeros_like(cells.observed, dtype=torch.float64)
        for _ in range(LEFT_OUT_PROBES):
            z = sent(rng.standard_normal((1, *cells.shape)), self.problem.device)
            drawn = whole.spectrum.back(z * whole.variances.sqrt())
            wrong = drawn - whole.complete(cells.gather(drawn, cells.observed)).filled
            total += cells.gather(whole.spectrum.solve(wrong), cells.observed)[0] ** 2
        return total / LEFT_OUT_PROBES

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
        return self.whole.into_holes(_join(rows).view(-1, *self.whole.cells.shape) / self.whole.variances)

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


def _pick(grids: Tensor, joint: Sequence[Array], axes: Sequence[Array]) -> Tensor:
    """What grids over the joint axes hold at the coordinates of others."""
    for d, (whole, axis) in enumerate(zip(joint, axes, strict=True), 1):
        grids = grids.index_select(d, torch.as_tensor(np.searchsorted(whole, axis), device=grids.device))
    return grids


def _join(rows: Sequence[Tensor]) -> Tensor:
    """The rows of P_1 x ... x P_D, (rows, N)."""
    return reduce(lambda grid, row: (grid[:, :, None] * row[:, None, :]).flatten(1), rows)
