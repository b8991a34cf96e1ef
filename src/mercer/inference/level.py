"""Exact log evidence and gradient of many candidates of different structures at once, on CPU or CUDA.

The kernel matrices of all candidates are written into one (B, N, N) tensor (`forest.py`), which is factorised and
inverted in one batch; each structure's gradient follows from its part of the adjoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mercer.compute.forest import Forest, can_merge, forward, plant, reverse
from mercer.compute.program import Program
from mercer.compute.torch_leaves import Pairs
from mercer.inference.batched import MATRICES, BatchedEvidence, batched_log_evidence, default_memory, solved
from mercer.inference.contract import Data, Evidence
from mercer.kernels.domains import Array

# Numbers alive for each pair of points. For each node: its value, its adjoint, and temporaries of leaves and terms. For
# each column: both sides, their difference and its square, and these once more as the leaves select columns.
BUFFERS = 5
SIDES = 8


class Part(NamedTuple):
    """Candidates of one structure: their values (b, P) and noise variances (b,)."""

    program: Program
    values: Array
    noise: Array


@dataclass
class LevelEvidence:
    """Evaluates candidates on one set of rows; keeps on the device what depends on the rows alone."""

    data: Data
    device: torch.device
    memory: int | None = None  # bytes for the matrices of a batch; None: half of what the device has free
    _planted: dict[tuple[tuple[int, int], ...], tuple[Forest, Sequence[Program]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.X, self.y = self._sent(self.data.X), self._sent(self.data.y)
        below = torch.tril_indices(len(self.X), len(self.X), device=self.device)
        self.left, self.right = below.unbind(0)

    @torch.no_grad()
    def __call__(self, parts: Sequence[Part], gradient: bool = True) -> list[list[Evidence]]:
        """Return the evidence of every candidate of every part."""
        found: list[list[Evidence]] = [[] for _ in parts]
        alone = [i for i, part in enumerate(parts) if not can_merge(part.program)]
        for i in alone:
            program, values, noise = parts[i]
            batch = batched_log_evidence(
                program, self._sent(values), self._sent(noise), self.X, self.y,
                gradient=gradient, memory=self.memory, free_level=self.data.free_level,
            )  # fmt: skip
            found[i] = _rows(batch, [program.n_values] * len(noise))
        memory = self.memory or default_memory(self.device)
        for chunk in _chunks(parts, set(alone), max(1, memory // (8 * MATRICES * len(self.X) ** 2))):
            owners = [(i, part.program.n_values) for i, part in chunk for _ in part.noise]
            batch = self._evidence([part for _, part in chunk], gradient, memory)
            for (i, _), row in zip(owners, _rows(batch, [width for _, width in owners]), strict=True):
                found[i].append(row)
        return found

    def _evidence(self, parts: Sequence[Part], gradient: bool, memory: int) -> BatchedEvidence:
        width = 1 + max(part.program.n_values for part in parts)
        values = np.ones((sum(len(part.noise) for part in parts), width))
        first = 0
        for part in parts:
            values[first : first + len(part.noise), : part.program.n_values] = part.values
            first += len(part.noise)
        noise = self._sent(np.concatenate([part.noise for part in parts]))
        return self._solved(self._forest(parts, width), self._sent(values), noise, gradient, memory)

    def _forest(self, parts: Sequence[Part], width: int) -> Forest:
        """Plant one, or find the last one: most steps are taken by the same candidates as the step before."""
        key = tuple((id(part.program), len(part.noise)) for part in parts)  # hashing programs would take as long
        if key not in self._planted:
            forest = plant([(part.program, len(part.noise)) for part in parts], width, self.device)
            self._planted.clear()
            self._planted[key] = forest, [part.program for part in parts]  # kept: their ids stay theirs
        return self._planted[key][0]

    def _solved(self, forest: Forest, values: Tensor, noise: Tensor, gradient: bool, memory: int) -> BatchedEvidence:
        n = len(self.X)
        numbers = BUFFERS * forest.nodes + SIDES * self.X.shape[1]
        block = max(1, min(len(self.left), memory // (2 * 8 * numbers)))
        K = values.new_zeros(len(values), n, n)
        nodes = None
        for some, pairs in self._pairs(block):
            nodes = forward(forest, values, pairs)
            K[:, self.left[some], self.right[some]] = nodes[forest.roots]
        kept = nodes if block == len(self.left) else None  # in one block: not to be worked out again

        def contracted(weights: Tensor) -> Tensor:
            total = torch.zeros_like(values)
            for some, pairs in self._pairs(block):
                twice = 2.0 - (self.left[some] == self.right[some]).to(weights.dtype)  # for the mirror images
                chosen = weights[:, self.left[some], self.right[some]].mul_(twice)
                nodes = forward(forest, values, pairs) if kept is None else kept
                total += reverse(forest, values, pairs, nodes, chosen)
            return total

        return solved(K, noise, self.y, self.data.free_level, contracted if gradient else None)

    def _pairs(self, block: int) -> Iterator[tuple[slice, Pairs]]:
        columns = self.X.T
        for first in range(0, len(self.left), block):
            some = slice(first, first + block)
            yield some, Pairs(columns[:, self.left[some]], columns[:, self.right[some]])

    def _sent(self, array: Array) -> Tensor:
        return torch.as_tensor(array, dtype=torch.float64, device=self.device)


def _chunks(parts: Sequence[Part], left_out: set[int], size: int) -> Iterator[list[tuple[int, Part]]]:
    """Yield the parts, numbered, in chunks of at most `size` candidates; a part may be cut."""
    chunk: list[tuple[int, Part]] = []
    room = size
    for i, part in enumerate(parts):
        first = 0
        while i not in left_out and first < len(part.noise):
            some = slice(first, first + room)
            chunk.append((i, Part(part.program, part.values[some], part.noise[some])))
            room -= len(chunk[-1][1].noise)
            first = some.stop
            if room == 0:
                yield chunk
                chunk, room = [], size
    if chunk:
        yield chunk


def _rows(batch: BatchedEvidence, widths: Sequence[int]) -> list[Evidence]:
    """Return the candidates of a batch one by one, failures with their reason; `widths`: how many values each has."""
    value, failed, jitter = (_fetched(t) for t in (batch.value, batch.failed, batch.jitter))
    gradient = None if batch.gradient is None else _fetched(batch.gradient)
    by_noise = None if batch.noise_gradient is None else _fetched(batch.noise_gradient)
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


def _fetched(tensor: Tensor) -> Array:
    return np.asarray(tensor.cpu().numpy())
