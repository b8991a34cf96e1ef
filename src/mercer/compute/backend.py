"""What runs the kernels: a back end turns a program and its values into matrices, products and contractions.

Engines are written once, against `Backend`. Matrices stay with the back end that made them (arrays of NumPy on the CPU,
tensors on a device); `send` and `fetch` are the doors. All the formulas of an engine that are neither kernel nor
linear algebra are plain arithmetic, which arrays and tensors have in common.

`backend_for` reads the user's word ("cpu", "cuda") once; from there on the back end itself is handed on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from scipy.linalg import blas

from mercer.compute import fused
from mercer.compute.program import Program
from mercer.errors import InputError
from mercer.kernels.domains import Array
from mercer.linalg.factor import Failure, factorise, scratch
from mercer.linalg.threads import SMALL, one_thread

Matrix = Any  # an array of NumPy or a tensor of PyTorch
Result = TypeVar("Result")


class FactorLike(Protocol):
    """A = L L', for arrays of the CPU, wherever L is; `half_solve` also takes what is there, and leaves it there."""

    jitter: float

    def log_determinant(self) -> float: ...

    def solve(self, right: Array) -> Array: ...

    def half_solve(self, right: Matrix) -> Matrix: ...

    def inverse_diagonal(self) -> Array: ...


class Backend(ABC):
    """A way to run kernels.

    batches : many candidates are evaluated at once: a level of a search, or all starts of a fit, is one batch.
    block_numbers : how many numbers of a rectangle of rows and inducing points to work on at a time.
    """

    device: str
    batches: ClassVar[bool] = False
    block_numbers: ClassVar[int]

    def __str__(self) -> str:
        return self.device

    # ---------------------------------------------------------------------------------------------------- kernels

    @abstractmethod
    def prepare(self, data: Any) -> Any:
        """Return the inputs `data.X` as `gram_lower` and `contract_inverse` want them; `data.at` is that of the CPU."""

    @abstractmethod
    def gram_lower(self, program: Program, values: Array, at: Any, out: Matrix | None = None) -> Matrix:
        """Return K with its lower triangle filled, in `out` if given."""

    @abstractmethod
    def gram(self, program: Program, values: Array, X: Array) -> Matrix:
        """Return K(X, X)."""

    @abstractmethod
    def cross(self, program: Program, values: Array, X: Matrix, Z: Matrix, out: Matrix | None = None) -> Matrix:
        """Return K(X, Z), in `out` if given."""

    @abstractmethod
    def diagonal(self, program: Program, values: Array, X: Matrix) -> Matrix:
        """Return k(x, x) for every row."""

    @abstractmethod
    def strips(self, program: Program, values: Array, X: Array) -> Iterator[tuple[int, Matrix]]:
        """Go over K(X, X), some rows at a time: yield (first row, strip)."""

    @abstractmethod
    def times(self, program: Program, values: Array, X: Array, vector: Array) -> Array:
        """Return K(X, X) v without forming the matrix."""

    @abstractmethod
    def multiply(self, program: Program, values: Array, at: Any, vector: Array) -> Array:
        """Return K v at inputs that were prepared: K is formed, as for a factorisation."""

    def slopes(self, program: Program, values: Array, at: Any, vector: Array) -> Array | None:
        """Return d (K v) / d values, N x values; None where moving the values one by one is no slower."""
        return None

    # -------------------------------------------------------------------------------------- gradients by the values

    @abstractmethod
    def contract(self, program: Program, values: Array, X: Array, weights: Matrix) -> Array:
        """Return sum_ij weights_ij dK_ij / dvalues for symmetric weights."""

    @abstractmethod
    def contract_inverse(
        self, program: Program, values: Array, at: Any, factor: Any, alpha: Array
    ) -> tuple[Array, Array]:
        """Return sum_ij (a a' - A^-1)_ij / 2 dK_ij / dvalues and the diagonal of A^-1; the factor of A is lost."""

    @abstractmethod
    def contract_cross(
        self, program: Program, values: Array, X: Array, Z: Array, weights: Matrix, outer: tuple[Matrix, Array],
        moving: bool = False,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Return sum_ij (weights + u v')_ij d k(x_i, z_j) / dvalues, outer = (u, v); if `moving`, also by every z_j.

        The weights are lost.
        """

    @abstractmethod
    def contract_diagonal(self, program: Program, values: Array, X: Array, vector: Matrix) -> Array:
        """Return sum_i vector_i d k(x_i, x_i) / dvalues."""

    # ----------------------------------------------------------------------------------------------- linear algebra

    @abstractmethod
    def factorise(self, build: Callable[[], Matrix], diagonal: float = 0.0) -> Any | Failure:
        """Return the factor of build() + diagonal I, in the memory of the matrix, or why there is none."""

    @abstractmethod
    def whiten(self, cross: Matrix, inverse_root: Array, scale: float) -> Matrix:
        """Return scale C L'^-1 in the memory of C (rows x m), given L^-1 in a lower triangle."""

    @abstractmethod
    def square(self, half: Matrix) -> Matrix:
        """Return V V' given V' (rows x m); its lower triangle counts."""

    @abstractmethod
    def product(self, left: Matrix, right: Matrix, scale: float, out: Matrix | None = None) -> Matrix:
        """Return scale L R for a symmetric R, in `out` if given."""

    @abstractmethod
    def log(self, array: Matrix) -> Matrix:
        """Return the logarithm of every number."""

    # ------------------------------------------------------------------------------------------------------- memory

    @abstractmethod
    def send(self, array: Array) -> Matrix:
        """Return an array as this back end works with it."""

    @abstractmethod
    def fetch(self, matrix: Matrix) -> Array:
        """Return a matrix as an array of the CPU."""

    def scratch(self, rows: int, columns: int) -> Matrix | None:
        """Return memory to be used again and again for a matrix; None: what is needed is made anew."""
        return None

    def free_memory(self) -> int | None:
        """Return the bytes that could be taken now; None where that is not this back end's business."""
        return None

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Tell whether an error means that this back end has too little memory."""
        return False

    def release_memory(self) -> None:  # noqa: B027
        """Give back what is kept for later; here nothing."""

    def attempt(self, work: Callable[[], Result]) -> Result | None:
        """Return what the work gives; None where this back end has too little memory for it."""
        try:
            return work()
        except RuntimeError as error:
            if not self.is_out_of_memory(error):
                raise
        self.release_memory()
        return None


@dataclass(frozen=True)
class NumbaBackend(Backend):
    """The CPU: kernels by compiled sweeps, no N x N temporaries; factors by LAPACK in the memory of the matrix."""

    strip_numbers: int = 4_000_000  # of K at a time: 32 MB
    product_numbers: int = 1_000_000  # of K in a product: what a cache holds

    device = "cpu"
    block_numbers = 1_000_000

    # compiled sweeps are called without a step between, and factorisations too: a fit makes hundreds of thousands
    gram_lower = staticmethod(fused.gram_lower)
    gram = staticmethod(fused.gram)
    cross = staticmethod(fused.cross)
    diagonal = staticmethod(fused.diagonal)
    contract_cross = staticmethod(fused.contract_cross)
    contract_diagonal = staticmethod(fused.contract_diagonal)
    contract_inverse = staticmethod(fused.contract_inverse)
    slopes = staticmethod(fused.slopes)
    factorise = staticmethod(factorise)
    scratch = staticmethod(scratch)
    prepare = staticmethod(attrgetter("at"))  # type: ignore[assignment]
    log = staticmethod(np.log)  # type: ignore[assignment]
    send = staticmethod(np.asarray)  # type: ignore[assignment]
    fetch = staticmethod(np.asarray)  # type: ignore[assignment]
    square = staticmethod(lambda half: blas.dsyrk(1.0, half.T, lower=0).T)

    def strips(self, program: Program, values: Array, X: Array) -> Iterator[tuple[int, Array]]:
        size = max(1, self.strip_numbers // len(X))
        for first in range(0, len(X), size):
            yield first, fused.cross(program, values, X[first : first + size], X)

    def times(self, program: Program, values: Array, X: Array, vector: Array) -> Array:
        out, first = np.zeros(len(X)), 0
        while first < len(X):  # K is symmetric: what lies right of the diagonal also stands below it
            last = min(len(X), first + max(1, self.product_numbers // (len(X) - first)))
            strip = fused.cross(program, values, X[first:last], X[first:])
            out[first:last] += strip @ vector[first:]
            out[last:] += vector[first:last] @ strip[:, last - first :]
            first = last
        return out

    def multiply(self, program: Program, values: Array, at: Any, vector: Array) -> Array:
        matrix = fused.gram_lower(program, values, at, scratch(len(vector), len(vector)))
        with one_thread(when=len(vector) < SMALL):
            return np.asarray(blas.dsymv(1.0, matrix.T, vector, lower=0))

    def contract(self, program: Program, values: Array, X: Array, weights: Matrix) -> Array:
        matrix = np.ascontiguousarray(np.asarray(weights))
        return fused.contract(program, values, fused.points(X), matrix, np.zeros(len(X)))

    def whiten(self, cross: Array, inverse_root: Array, scale: float) -> Array:
        with one_thread(when=cross.size < SMALL * SMALL):
            half = blas.dtrmm(scale, inverse_root.T, cross.T, lower=0, trans_a=1, overwrite_b=1)
        return np.asarray(half.T)

    def product(self, left: Array, right: Array, scale: float, out: Array | None = None) -> Array:
        out = np.empty_like(left) if out is None else out[: len(left)]
        with one_thread(when=left.size < SMALL * SMALL):
            return np.asarray(blas.dgemm(scale, right.T, left.T, beta=0.0, c=out.T, overwrite_c=1).T)


NUMBA = NumbaBackend()


def backend_for(device: str | Backend) -> Backend:
    """Return the back end for the user's word: "cpu", or one of PyTorch's such as "cuda"; or say why there is none."""
    if isinstance(device, Backend):
        return device
    if not isinstance(device, str):
        raise InputError(f"there is no device {str(device)!r}: use 'cpu' or 'cuda'")
    if device == NUMBA.device:
        return NUMBA
    from mercer.compute.accelerator import TorchBackend  # brings PyTorch with it

    return TorchBackend(device)
