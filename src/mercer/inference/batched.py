"""Exact log evidence and gradient of many candidates of one structure at once, on CPU or CUDA.

    log p(y) = -y' A^-1 y / 2 - log|A| / 2 - N log(2 pi) / 2,    A = K + noise I                             (METHODS 2)
    d log p / d theta = sum_ij W_ij dK_ij / d theta,             W = (a a' - A^-1) / 2,  a = A^-1 y

A candidate that cannot be factorised is a row with `failed` set, never an exception: a search must not die of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mercer.compute.program import Program
from mercer.compute.torch_backend import contract, gram
from mercer.linalg.batched import factorise_batch, inverse_of

# N x N matrices alive at a time for each candidate: A, its factor, its inverse, and the workspace of the solver.
MATRICES = 5
MEMORY_CPU = 1 << 31


@dataclass(frozen=True)
class BatchedEvidence:
    """One row for each candidate; the gradients are None where they were not asked for.

    value           (B,)    log evidence, -inf where failed
    gradient        (B, P)  by the kernel's values, 0 where failed
    noise_gradient  (B,)    by the noise variance, 0 where failed
    jitter          (B,)    what was added to the diagonal to factorise it, in the units of the kernel
    failed          (B,)    whether no jitter was enough, or a number was not finite
    """

    value: Tensor
    gradient: Tensor | None
    noise_gradient: Tensor | None
    jitter: Tensor
    failed: Tensor


@torch.no_grad()
def batched_log_evidence(
    program: Program,
    values: Tensor,
    noise: Tensor,
    X: Tensor,
    y: Tensor,
    *,
    gradient: bool = True,
    memory: int | None = None,
    free_level: bool = False,
) -> BatchedEvidence:
    """Return the log evidence of every row of `values` (B, P) and `noise` (B,), with gradients unless told otherwise.

    With `free_level` the target is a constant plus the process, and each candidate has its most likely constant.
    The batch is cut so that its matrices take at most `memory` bytes: by default half of what the device has free.
    """
    at_a_time = max(1, (memory or default_memory(X.device)) // (8 * MATRICES * len(X) ** 2))
    parts = [
        _evidence(program, some_values, some_noise, X, y, gradient, free_level)
        for some_values, some_noise in zip(values.split(at_a_time), noise.split(at_a_time), strict=True)
    ]
    if len(parts) == 1:
        return parts[0]
    return BatchedEvidence(
        torch.cat([part.value for part in parts]),
        _joined([part.gradient for part in parts]),
        _joined([part.noise_gradient for part in parts]),
        torch.cat([part.jitter for part in parts]),
        torch.cat([part.failed for part in parts]),
    )


def _evidence(
    program: Program, values: Tensor, noise: Tensor, X: Tensor, y: Tensor, gradient: bool, free_level: bool
) -> BatchedEvidence:
    contracted = (lambda weights: contract(program, values, X, weights)) if gradient else None
    return solved(gram(program, values, X, lower_only=True), noise, y, free_level, contracted)


def solved(
    K: Tensor, noise: Tensor, y: Tensor, free_level: bool, contracted: Callable[[Tensor], Tensor] | None
) -> BatchedEvidence:
    """Return the evidence given the lower triangles of kernel matrices (B, N, N), which are overwritten.

    `contracted` takes W (B, N, N) to the gradient by the kernels' values (B, P); None: no gradients.
    """
    factor, jitter, failed = factorise_batch(K, noise)
    whitened = torch.linalg.solve_triangular(factor, y[None, :, None], upper=False)
    if free_level:  # c = 1' A^-1 y / 1' A^-1 1; being at its optimum it adds nothing to the gradient
        ones = torch.linalg.solve_triangular(factor, torch.ones_like(y)[None, :, None], upper=False)
        whitened = whitened - (ones * whitened).sum(1, keepdim=True) / ones.square().sum(1, keepdim=True) * ones
    log_determinant = 2 * factor.diagonal(dim1=1, dim2=2).log().sum(1)
    value = -0.5 * (whitened.square().sum((1, 2)) + log_determinant + len(y) * math.log(2 * math.pi))
    failed |= ~torch.isfinite(value)
    by_values = by_noise = None
    if contracted is not None:
        solution = torch.linalg.solve_triangular(factor.mT, whitened, upper=True)
        weights = inverse_of(factor)
        del factor
        weights.baddbmm_(solution, solution.mT, beta=-0.5, alpha=0.5)
        by_noise = weights.diagonal(dim1=1, dim2=2).sum(1)
        by_values = contracted(weights)
        failed |= ~(torch.isfinite(by_noise) & torch.isfinite(by_values).all(1))
        by_noise, by_values = by_noise.masked_fill(failed, 0.0), by_values.masked_fill(failed[:, None], 0.0)
    return BatchedEvidence(value.masked_fill(failed, -math.inf), by_values, by_noise, jitter, failed)


def default_memory(device: torch.device) -> int:
    """Return how many bytes the matrices of a batch may take: half of what the device has free."""
    if device.type != "cuda":
        return MEMORY_CPU
    free, _ = torch.cuda.mem_get_info(device)
    kept_by_torch = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return (free + kept_by_torch) // 2


def _joined(parts: list[Tensor | None]) -> Tensor | None:
    tensors = [part for part in parts if part is not None]
    return torch.cat(tensors) if tensors else None
