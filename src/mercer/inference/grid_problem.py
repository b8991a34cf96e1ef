"""A kernel on a grid: its factors, their decomposition, the solution for the target, gradients by the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mercer.compute.backend import NUMBA, Backend
from mercer.compute.program import Program
from mercer.compute.separate import separated
from mercer.errors import InputError, KernelError
from mercer.inference.contract import Data
from mercer.inference.grid_solver import Completed, Whole, cells_of, sent, tensor_device
from mercer.inference.lattice import Lattice
from mercer.kernels.domains import Array
from mercer.linalg.operators import Spectrum, spectrum


@dataclass(frozen=True, eq=False)
class Solved:
    """The target on the grid less its level c; `rotated` is a = B(y - c) in the basis of the eigenvectors."""

    completed: Completed
    rotated: Tensor
    quadratic: float
    level: float
    level_variance: float


@dataclass(frozen=True, eq=False)
class Problem:
    """A kernel taken apart by columns, on data that form a grid."""

    parts: tuple[Program, ...]
    data: Data
    lattice: Lattice
    backend: Backend = NUMBA

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return tensor_device(self.backend)

    @staticmethod
    def of(program: Program, data: Data, backend: Backend = NUMBA) -> Problem:
        """Check that both have the structure that is needed."""
        parts = separated(program, data.X.shape[1])
        if parts is None:
            raise KernelError(
                "on a grid the kernel must be a product of one kernel for each column, such as SE(0)*PER(1) or "
                "(SE(0) + LIN(0))*SE(1), or a sum of such products; RQ, M12, M32, M52, LIN, COS and SM on several "
                "columns at once, and sums inside products of several columns, are not"
            )
        return Problem(parts, data, lattice_of(data), backend)

    def grams(self, values: Array) -> list[Tensor]:
        """Return K_d for every column."""
        return [self.gram(part, values, axis) for part, axis in zip(self.parts, self.lattice.axes, strict=True)]

    def gram(self, part: Program, values: Array, axis: Array) -> Tensor:
        """Return one factor's Gram matrix."""
        return torch.as_tensor(self.backend.gram(part, values, axis[:, None]))

    def cross(self, part: Program, values: Array, X: Array, axis: Array) -> Tensor:
        """Return one factor between new coordinates and an axis."""
        return torch.as_tensor(self.backend.cross(part, values, X[:, None], axis[:, None]))

    def whole(self, values: Array, noise: float, tolerance: float, exact_work: float, steps: int) -> Whole | None:
        """Decompose the factors; None where they are not finite."""
        grams = self.grams(values)
        if not all(bool(torch.isfinite(gram).all()) for gram in grams):
            return None
        even = [is_toeplitz(gram) for gram in grams]
        return Whole(cells_of(self.lattice, self.device), spectrum(grams, even), noise, tolerance, exact_work, steps)

    def solved(self, whole: Whole) -> Solved:
        """Complete the grid and fit the level."""
        target = sent(self.data.y, self.device)
        right = torch.stack([target, torch.ones_like(target)]) if self.data.free_level else target[None]
        done = whole.completed(right)
        rotated, level, variance = done.rotated[:1], 0.0, 0.0
        grids = whole.spectrum.into(done.filled)
        if self.data.free_level:
            variance = 1.0 / float((grids[1] * done.rotated[1]).sum())
            level = variance * float((grids[0] * done.rotated[1]).sum())
            rotated = rotated - level * done.rotated[1:]
            grids = grids[:1] - level * grids[1:]
        return Solved(done, rotated, float((grids[:1] * rotated).sum()), level, variance)

    def contracted(self, values: Array, weights: Sequence[Tensor], basis: Spectrum) -> Array:
        """Return the gradient by the values from those by the factors (in the basis of their eigenvectors)."""
        matrices = [q @ weight @ q.mT for q, weight in zip(basis.vectors, weights, strict=True)]
        return self.contracted_parts(self.parts, values, matrices)

    def contracted_parts(self, parts: Sequence[Program], values: Array, weights: Sequence[Tensor]) -> Array:
        """Return the gradient by the values from those by the factors of some parts."""
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
