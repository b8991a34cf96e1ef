"""The back end on PyTorch: batches of candidates, and one large matrix on a GPU.

The kernel is written into the matrix strip by strip, the factor takes its place, and gradients are contracted with
strips of the inverse: nothing else is as large. Where memory is short, strips and blocks are cut in two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from mercer.compute import torch_backend as kernels
from mercer.compute.backend import Backend, backend_for
from mercer.compute.program import Program
from mercer.errors import InputError
from mercer.kernels.domains import Array
from mercer.linalg.device import STRIP, DeviceFactor, factorise_on_device
from mercer.linalg.factor import Failure

# What the libraries under PyTorch say where memory is short, in errors of no type of their own.
SHORT = ("out of memory", "ALLOC_FAILED", "alloc failed")


def available_device(device: str) -> torch.device:
    """Return the device, or say why there is none."""
    try:
        wanted = torch.device(device)
    except (RuntimeError, TypeError):
        wanted = None
    if wanted is None or wanted.type not in ("cpu", "cuda"):
        raise InputError(f"there is no device {str(device)!r}: use 'cpu' or 'cuda'")
    if wanted.type == "cuda" and not torch.cuda.is_available():
        raise InputError(
            f"the device '{device}' was asked for, but PyTorch {torch.__version__} finds no CUDA device here: "
            "use device='cpu', or install a CUDA build of PyTorch on a machine with an NVIDIA GPU"
        )
    return wanted


@dataclass(frozen=True)
class TorchBackend(Backend):
    """PyTorch on a device of its own ("cuda", "cuda:1") or on the CPU ("cpu:0", for tests and comparisons)."""

    device: str
    strip: int = STRIP  # columns of the inverse to work on at a time

    batches = True
    block_numbers = 1 << 26  # half a gigabyte
    product_numbers: ClassVar[int] = 1 << 24  # of K at a time
    memory_of_cpu: ClassVar[int] = 1 << 31  # bytes for the matrices of a batch, where the device is the CPU

    def __post_init__(self) -> None:
        available_device(self.device)

    @cached_property
    def where(self) -> torch.device:
        return available_device(self.device)

    def prepare(self, data: Any) -> Tensor:
        return self.send(data.X)

    @torch.no_grad()
    def gram_lower(self, program: Program, values: Array, at: Tensor, out: Tensor | None = None) -> Tensor:
        matrix, first = at.new_empty(len(at), len(at)) if out is None else out, 0
        point = self.send(values)
        while first < len(at):
            last = min(len(at), first + max(1, kernels.PAIRS[at.device.type] // len(at)))
            matrix[first:last, :last] = kernels.cross(program, point, at[first:last], at[:last])
            first = last
        return matrix

    @torch.no_grad()
    def gram(self, program: Program, values: Array, X: Array) -> Tensor:
        return kernels.gram(program, self.send(values), self.send(X))

    @torch.no_grad()
    def cross(self, program: Program, values: Array, X: Any, Z: Any, out: Tensor | None = None) -> Tensor:
        found = kernels.cross(program, self.send(values), self.send(X), self.send(Z))
        return found if out is None else out.copy_(found)

    @torch.no_grad()
    def diagonal(self, program: Program, values: Array, X: Array) -> Tensor:
        return kernels.diagonal(program, self.send(values), self.send(X))

    def strips(self, program: Program, values: Array, X: Array) -> Iterator[tuple[int, Tensor]]:
        points, first, size = self.send(X), 0, max(1, self.product_numbers // len(X))
        while first < len(X):
            try:
                strip = self.cross(program, values, points[first : first + size], points)
            except RuntimeError as error:
                if not self.is_out_of_memory(error) or size == 1:
                    raise
                self.release_memory()
                size = (size + 1) // 2
            else:
                yield first, strip
                first += len(strip)

    @torch.no_grad()
    def times(self, program: Program, values: Array, X: Array, vector: Array) -> Array:
        right = self.send(vector)
        return self.fetch(torch.cat([strip @ right for _, strip in self.strips(program, values, X)]))

    def multiply(self, program: Program, values: Array, at: Tensor, vector: Array) -> Array:
        lower, right = self.gram_lower(program, values, at).tril_(), self.send(vector)
        return self.fetch(lower @ right + lower.mT @ right - lower.diagonal() * right)

    def contract(self, program: Program, values: Array, X: Array, weights: Tensor) -> Array:
        return self.fetch(kernels.contract(program, self.send(values), self.send(X), weights))

    @torch.no_grad()
    def contract_inverse(
        self, program: Program, values: Array, at: Tensor, factor: DeviceFactor, alpha: Array
    ) -> tuple[Array, Array]:
        point, right, diagonal = self.send(values), self.send(alpha), []
        total = torch.zeros_like(point)
        for columns, strip in factor.inverse_strips():
            diagonal.append(strip.diagonal().clone())
            strip.neg_().addr_(right[columns.start :], right[columns])  # twice W
            strip[: strip.shape[1]] *= 0.5  # the square on the diagonal has its mirror images in it
            total += kernels.contract_cross(program, point, at[columns.start :], at[columns], strip)
        return self.fetch(total), self.fetch(torch.cat(diagonal))

    @torch.no_grad()
    def contract_cross(
        self, program: Program, values: Array, X: Array, Z: Array, weights: Tensor, outer: tuple[Tensor, Array],
        moving: bool = False,
    ) -> tuple[Array, Array]:  # fmt: skip
        weights.addr_(*map(self.send, outer))
        point, left, right = self.send(values), self.send(X), self.send(Z)
        by_values = self.fetch(kernels.contract_cross(program, point, left, right, weights))
        if not moving:
            return by_values, np.zeros((0, 0))
        # by every z_j with PyTorch's own differentiation, some rows at a time
        total, size = torch.zeros_like(right), max(1, kernels.PAIRS[right.device.type] // len(right))
        for first in range(0, len(left), size):
            rows = slice(first, first + size)
            with torch.enable_grad():
                points = right.clone().requires_grad_()
                value = (kernels.cross(program, point, left[rows], points) * weights[rows]).sum()
            if value.requires_grad:  # white noise is the same everywhere
                total += torch.autograd.grad(value, points)[0]
        return by_values, self.fetch(total)

    def contract_diagonal(self, program: Program, values: Array, X: Array, vector: Tensor) -> Array:
        return self.fetch(kernels.contract_diagonal(program, self.send(values), self.send(X), vector))

    def factorise(self, build: Callable[[], Tensor], diagonal: float = 0.0) -> DeviceFactor | Failure:
        with torch.no_grad():
            return factorise_on_device(build, diagonal, self.strip)

    def whiten(self, cross: Tensor, inverse_root: Array, scale: float) -> Tensor:
        return cross.mul_(scale) @ self.send(np.tril(inverse_root)).mT

    def square(self, half: Tensor) -> Tensor:
        return half.mT @ half

    def product(self, left: Tensor, right: Array, scale: float, out: Tensor | None = None) -> Tensor:
        return (left @ self.send(right)).mul_(scale)

    def log(self, array: Tensor) -> Tensor:
        return array.log()

    def send(self, array: Any) -> Tensor:
        if isinstance(array, Tensor):
            return array.to(self.where)
        return torch.as_tensor(np.ascontiguousarray(array), dtype=torch.float64, device=self.where)

    def fetch(self, matrix: Tensor) -> Array:
        return np.asarray(matrix.cpu().numpy())

    def free_memory(self) -> int | None:
        if self.where.type != "cuda":
            return None
        free, _ = torch.cuda.mem_get_info(self.where)
        return int(free + torch.cuda.memory_reserved(self.where) - torch.cuda.memory_allocated(self.where))

    @property
    def batch_memory(self) -> int:
        """How many bytes the matrices of a batch may take: half of what the device has free."""
        free = self.free_memory()
        return self.memory_of_cpu if free is None else free // 2

    def is_out_of_memory(self, error: BaseException) -> bool:
        if isinstance(error, torch.cuda.OutOfMemoryError):
            return True
        return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SHORT)

    def release_memory(self) -> None:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def torch_backend(device: str | Backend) -> TorchBackend:
    """Return a back end that evaluates batches, or say that the one asked for does not."""
    backend = backend_for(device)
    if isinstance(backend, TorchBackend):
        return backend
    raise InputError(f"{backend} evaluates no batches: use device='cuda', or 'cpu:0' for PyTorch on the CPU")
