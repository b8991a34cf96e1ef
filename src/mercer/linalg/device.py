"""A Cholesky factor of one large matrix on a device, in the memory of the matrix; and what it takes to be there.

cuSOLVER's routines return copies, and their inverse needs two more. Here the factor is made block column by block
column in place (left-looking; Golub & Van Loan 4.2), and columns of the inverse are solved for a strip at a time, which
takes as many operations as the whole inverse. So an N x N matrix and a few strips of it are all that there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from mercer.errors import InputError
from mercer.kernels.domains import Array
from mercer.linalg.factor import LADDER, Failure

# Columns of a strip: large enough for products to run at full speed, small enough for a strip to be a small part.
STRIP = 2048
# What the libraries under PyTorch say where memory is short, in errors of no type of their own.
SHORT = ("out of memory", "ALLOC_FAILED", "alloc failed")

Result = TypeVar("Result")


def available_device(device: str | torch.device) -> torch.device:
    """Return the device, or say why there is none."""
    try:
        wanted = torch.device(device)
    except (RuntimeError, TypeError):
        raise InputError(f"there is no device {str(device)!r}: use 'cpu' or 'cuda'") from None
    if wanted.type == "cuda" and not torch.cuda.is_available():
        raise InputError(
            f"the device '{device}' was asked for, but PyTorch {torch.__version__} finds no CUDA device here: "
            "use device='cpu', or install a CUDA build of PyTorch on a machine with an NVIDIA GPU"
        )
    return wanted


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that could be taken on a GPU now; None where the device is not one."""
    if device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error means that a device has too little memory."""
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SHORT)


def give_memory_back() -> None:
    """Return to the device what PyTorch keeps for later."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def unless_short(work: Callable[[], Result]) -> Result | None:
    """Return what the work gives; None where a device has too little memory for it."""
    try:
        return work()
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
    give_memory_back()
    return None


@dataclass(frozen=True, eq=False)
class DeviceFactor:
    """A = L L' with L in the lower triangle of `lower`, on a device; `jitter` is what was added to the diagonal of A.

    The same methods as `mercer.linalg.factor.Factor`, for arrays of the CPU.
    """

    lower: Tensor
    jitter: float
    strip: int = STRIP

    def log_determinant(self) -> float:
        """Return log |A|."""
        return 2.0 * float(self.lower.diagonal().log().sum())

    def solve(self, right: Array) -> Array:
        """Return A^-1 right."""
        solution = self.backward(self.forward(self._sent(right)))
        return np.asarray(solution.cpu().numpy()).reshape(right.shape)

    def half_solve(self, right: Array) -> Array:
        """Return L^-1 right."""
        return np.asarray(self.forward(self._sent(right)).cpu().numpy()).reshape(right.shape)

    def inverse_diagonal(self) -> Array:
        """Return the diagonal of A^-1."""
        parts = [strip.diagonal() for _, strip in self.inverse_strips()]
        return np.asarray(torch.cat(parts).cpu().numpy())

    def _sent(self, right: Array) -> Tensor:
        columns = right.reshape(len(right), -1)
        return torch.tensor(columns, dtype=self.lower.dtype, device=self.lower.device)

    def forward(self, right: Tensor, first: int = 0) -> Tensor:
        """Solve with L from row `first` on, in place."""
        for rows in _strips(first, len(self.lower), self.strip):
            here = slice(rows.start - first, rows.stop - first)
            right[here] -= self.lower[rows, first : rows.start] @ right[: here.start]
            right[here] = torch.linalg.solve_triangular(self.lower[rows, rows], right[here], upper=False)
        return right

    def backward(self, right: Tensor, first: int = 0) -> Tensor:
        """Solve with L' from row `first` on, in place."""
        for rows in reversed(list(_strips(first, len(self.lower), self.strip))):
            here = slice(rows.start - first, rows.stop - first)
            right[here] -= self.lower[rows.stop :, rows].mT @ right[here.stop :]
            right[here] = torch.linalg.solve_triangular(self.lower[rows, rows].mT, right[here], upper=True)
        return right

    def inverse_strips(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield columns of A^-1 strip by strip, each from its first row on the diagonal downwards."""
        for columns in _strips(0, len(self.lower), self.strip):
            right = self.lower.new_zeros(len(self.lower) - columns.start, columns.stop - columns.start)
            right.diagonal().fill_(1.0)
            yield columns, self.backward(self.forward(right, columns.start), columns.start)


def _strips(first: int, last: int, width: int) -> Iterator[slice]:
    return (slice(start, min(last, start + width)) for start in range(first, last, width))


def factorise_on_device(build: Callable[[], Tensor], noise: float, strip: int = STRIP) -> DeviceFactor | Failure:
    """Factorise build() + noise I in the memory of the matrix, of which the lower triangle is read.

    `build` is called again for each rung of the ladder of `mercer.linalg.factor`: the factor overwrites the matrix.
    """
    for rung in LADDER:
        matrix = build()
        scale = float(matrix.diagonal().mean())
        if not np.isfinite(scale):
            return Failure("the kernel gave infinite or undefined values")
        jitter = rung * abs(scale)
        matrix.diagonal().add_(noise + jitter)
        if _overwrite(matrix, strip) and _trustworthy(matrix.diagonal()):
            return DeviceFactor(matrix, jitter, strip)
        del matrix
    return Failure(f"the covariance matrix is not positive definite, even with {LADDER[-1]:g} of its diagonal added")


def _overwrite(matrix: Tensor, strip: int) -> bool:
    """Turn the lower triangle of a matrix into its Cholesky factor; False where it has none."""
    for columns in _strips(0, len(matrix), strip):
        known, below = slice(0, columns.start), slice(columns.stop, len(matrix))
        matrix[columns.start :, columns] -= matrix[columns.start :, known] @ matrix[columns, known].mT
        corner, info = torch.linalg.cholesky_ex(matrix[columns, columns])
        if int(info):
            return False
        matrix[columns, columns] = corner
        if below.start < below.stop:  # X L' = B
            matrix[below, columns] = torch.linalg.solve_triangular(
                corner.mT, matrix[below, columns], upper=True, left=False
            )
    return True


def _trustworthy(diagonal: Tensor) -> bool:
    """As in `mercer.linalg.factor`: the smallest pivot stands above rounding."""
    largest, smallest = float(diagonal.max()), float(diagonal.min())
    return bool(np.isfinite(largest) and smallest**2 > len(diagonal) * np.finfo(float).eps * largest**2)
