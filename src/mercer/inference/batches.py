"""Exact log evidence and gradient of many candidates at once, on CPU or CUDA: of one structure, or of several.

    log p(y) = -y' A^-1 y / 2 - log|A| / 2 - N log(2 pi) / 2,    A = K + noise I                             (METHODS 2)
    d log p / d theta = sum_ij W_ij dK_ij / d theta,             W = (a a' - A^-1) / 2,  a = A^-1 y

The kernel matrices of all candidates are written into one (B, N, N) tensor, those of different structures together
(`forest.py`), which is factorised and inverted in one batch; each structure's gradient follows from its part of the
adjoint. A candidate that cannot be factorised is a row with `failed` set, never an exception: a search must not die of
one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mercer.compute.accelerator import TorchBackend
from mercer.compute.forest import Forest, can_merge, forward, plant, reverse
from mercer.compute.program import Program
from mercer.compute.torch_backend import contract, gram
from mercer.compute.torch_leaves import Pairs
from mercer.inference.contract import Data, Evidence
from mercer.kernels.domains import Array
from mercer.linalg.device import factorise_batch, invert_batch

# N x N matrices alive at a time for each candidate: A, its factor, its inverse, and the workspace of the solver.
MATRICES = 5
# Numbers alive for each pair of points. For each node: its value, its adjoint, and temporaries of leaves and terms. For
# each column: both sides, their difference and its square, and these once more as the leaves select columns.
BUFFERS = 5
SIDES = 8


class BatchedEvidence(NamedTuple):
    """One row for each candidate; the gradients are None where they were not asked for."""

    value: Tensor  # (B,) log evidence, -inf where failed
    gradient: Tensor | None  # (B, P) by the kernel's values, 0 where failed
    noise_gradient: Tensor | None  # (B,) by the noise variance, 0 where failed
    jitter: Tensor  # (B,) what was added to the diagonal to factorise it, in the units of the kernel
    failed: Tensor  # (B,) whether no jitter was enough, or a number was not finite


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
    """Return the log evidence of every row of `values` (B, P) and `noise` (B,), with gradients if asked.

    With `free_level` the target is a constant plus the process, and each candidate has its most likely constant.
    The batch is cut so that its matrices take at most `memory` bytes: by default half of what the device has free.
    """
    at_a_time = max(1, (memory or TorchBackend(str(X.device)).batch_memory) // (8 * MATRICES * len(X) ** 2))
    parts = []
    for some, own_noise in zip(torch.split(values, at_a_time), torch.split(noise, at_a_time), strict=True):
        by_values = partial(contract, program, some, X) if gradient else None
        parts.append(solve_batch(gram(program, some, X, lower_only=True), own_noise, y, free_level, by_values))
    if len(parts) == 1:
        return parts[0]
    columns = zip(*parts, strict=True)
    return BatchedEvidence(*(None if column[0] is None else torch.cat(column) for column in columns))  # type: ignore


def solve_batch(
    K: Tensor, noise: Tensor, y: Tensor, free_level: bool, contract_by: Callable[[Tensor], Tensor] | None
) -> BatchedEvidence:
    """Return the evidence given the lower triangles of kernel matrices (B, N, N), which are overwritten.

    `contract_by` takes W (B, N, N) to the gradient by the kernels' values (B, P); None: no gradients.
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
    if contract_by is not None:
        solution = torch.linalg.solve_triangular(factor.mT, whitened, upper=True)
        weights = invert_batch(factor)
        del factor
        weights.baddbmm_(solution, solution.mT, beta=-0.5, alpha=0.5)
        by_noise = weights.diagonal(dim1=1, dim2=2).sum(1)
        by_values = contract_by(weights)
        failed |= ~(torch.isfinite(by_noise) & torch.isfinite(by_values).all(1))
        by_noise, by_values = by_noise.masked_fill(failed, 0.0), by_values.masked_fill(failed[:, None], 0.0)
    return BatchedEvidence(value.masked_fill(failed, -math.inf), by_values, by_noise, jitter, failed)


class Candidates(NamedTuple):
    """Candidates of one structure: their values (b, P) and noise variances (b,)."""

    program: Program
    values: Array
    noise: Array


@dataclass
class LevelEvidence:
    """Evaluates candidates on one set of rows; keeps on the device what depends on the rows alone."""

    data: Data
    backend: TorchBackend
    memory: int | None = None  # bytes for the matrices of a batch; None: half of what the device has free
    _planted: dict[tuple[tuple[int, int], ...], tuple[Forest, Sequence[Program]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.X, self.y = self.backend.send(self.data.X), self.backend.send(self.data.y)
        below = torch.tril_indices(len(self.X), len(self.X), device=self.backend.where)
        self.left, self.right = below.unbind(0)

    @torch.no_grad()
    def __call__(self, parts: Sequence[Candidates], gradient: bool = True) -> list[list[Evidence]]:
        found: list[list[Evidence]] = [[] for _ in parts]
        alone = [i for i, part in enumerate(parts) if not can_merge(part.program)]
        for i in alone:
            program, values, noise = parts[i]
            batch = batched_log_evidence(
                program, self.backend.send(values), self.backend.send(noise), self.X, self.y,
                gradient=gradient, memory=self.memory, free_level=self.data.free_level,
            )  # fmt: skip
            found[i] = _rows(batch, [program.n_values] * len(noise))
        memory = self.memory or self.backend.batch_memory
        for chunk in _chunks(parts, set(alone), max(1, memory // (8 * MATRICES * len(self.X) ** 2))):
            owners = [(i, part.program.n_values) for i, part in chunk for _ in part.noise]
            batch = self._evidence([part for _, part in chunk], gradient, memory)
            for (i, _), row in zip(owners, _rows(batch, [width for _, width in owners]), strict=True):
                found[i].append(row)
        return found

    def _evidence(self, parts: Sequence[Candidates], gradient: bool, memory: int) -> BatchedEvidence:
        width = 1 + max(part.program.n_values for part in parts)
        values = np.ones((sum(len(part.noise) for part in parts), width))
        first = 0
        for part in parts:
            values[first : first + len(part.noise), : part.program.n_values] = part.values
            first += len(part.noise)
        noise = self.backend.send(np.concatenate([part.noise for part in parts]))
        # a new forest, or the last one: most steps are taken by the same candidates as the step before
        key = tuple((id(part.program), len(part.noise)) for part in parts)  # hashing programs would take as long
        if key not in self._planted:
            forest = plant([(part.program, len(part.noise)) for part in parts], width, self.backend.where)
            self._planted.clear()
            self._planted[key] = forest, [part.program for part in parts]  # kept: their ids stay theirs
        return self._solve(self._planted[key][0], self.backend.send(values), noise, gradient, memory)

    def _solve(self, forest: Forest, values: Tensor, noise: Tensor, gradient: bool, memory: int) -> BatchedEvidence:
        numbers = BUFFERS * forest.nodes + SIDES * self.X.shape[1]
        block = max(1, min(len(self.left), memory // (2 * 8 * numbers)))
        K, nodes = values.new_zeros(len(values), len(self.X), len(self.X)), None
        for some, pairs in self._pairs(block):
            nodes = forward(forest, values, pairs)
            K[:, self.left[some], self.right[some]] = nodes[forest.roots]
        kept = nodes if block == len(self.left) else None  # in one block: not to be worked out again

        def contract_by(weights: Tensor) -> Tensor:
            total = torch.zeros_like(values)
            for some, pairs in self._pairs(block):
                twice = 2.0 - (self.left[some] == self.right[some]).to(weights.dtype)  # for the mirror images
                chosen = weights[:, self.left[some], self.right[some]].mul_(twice)
                nodes = forward(forest, values, pairs) if kept is None else kept
                total += reverse(forest, values, pairs, nodes, chosen)
            return total

        return solve_batch(K, noise, self.y, self.data.free_level, contract_by if gradient else None)

    def _pairs(self, block: int) -> Iterator[tuple[slice, Pairs]]:
        columns = self.X.T
        for first in range(0, len(self.left), block):
            some = slice(first, first + block)
            yield some, Pairs(columns[:, self.left[some]], columns[:, self.right[some]])


def _chunks(parts: Sequence[Candidates], left_out: set[int], size: int) -> Iterator[list[tuple[int, Candidates]]]:
    """Yield the parts, numbered, in chunks of at most `size` candidates; a part may be cut."""
    chunk: list[tuple[int, Candidates]] = []
    room = size
    for i, part in enumerate(parts):
        first = 0
        while i not in left_out and first < len(part.noise):
            some = slice(first, first + room)
            chunk.append((i, Candidates(part.program, part.values[some], part.noise[some])))
            room -= len(chunk[-1][1].noise)
            first = some.stop
            if room == 0:
                yield chunk
                chunk, room = [], size
    if chunk:
        yield chunk


def _rows(batch: BatchedEvidence, widths: Sequence[int]) -> list[Evidence]:
    """Return the candidates of a batch one by one, failures with their reason; `widths`: how many values each has."""
    value, failed, jitter = (t.cpu().numpy() for t in (batch.value, batch.failed, batch.jitter))
    gradient = None if batch.gradient is None else batch.gradient.cpu().numpy()
    by_noise = None if batch.noise_gradient is None else batch.noise_gradient.cpu().numpy()
    return [
        Evidence(-np.inf, failure="the covariance matrix could not be factorised")
        if failed[i]
        else Evidence(
            float(value[i]),
            None if gradient is None else gradient[i, :width],
            None if by_noise is None else float(by_noise[i]),
            jitter=float(jitter[i]),
        )
        for i, width in enumerate(widths)
    ]
