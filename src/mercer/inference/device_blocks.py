"""The work of sparse inference on one block of rows, on a GPU: sparse.py's and vfe.py's formulas with tensors.

A block goes to the device, its sums (m x m numbers) come back. A block that does not fit is cut in two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Generic

import numpy as np
import torch
from torch import Tensor

from mercer.compute.torch_backend import PAIRS, contract_cross, contract_diagonal, cross, diagonal
from mercer.inference.contract import Sum
from mercer.inference.sparse import Adjoint, Model, Sensitivity, Statistics
from mercer.kernels.domains import Array
from mercer.linalg.device import available_device, give_memory_back, is_out_of_memory

FEWEST = 256  # rows of a block that is still cut in two
PRODUCT_NUMBERS = 1 << 24  # of K0 at a time, in a product with all of it


@dataclass(frozen=True, eq=False)
class Halving(Generic[Sum]):
    """Work on a block; where the device has too little memory for it, on its halves."""

    work: Callable[[Array, Array], Sum]

    def __call__(self, X: Array, y: Array) -> Sum:
        try:
            return self.work(X, y)
        except RuntimeError as error:
            if not is_out_of_memory(error) or len(y) < 2 * FEWEST:
                raise
        give_memory_back()
        half = len(y) // 2
        total: Sum = self(X[:half], y[:half]) + self(X[half:], y[half:])  # type: ignore[operator]
        return total


def device_statistics(device: str, model: Model, inverse_root: Array, shift: float) -> Halving[Statistics]:
    """Return the work of the first pass."""
    return Halving(partial(_statistics, device, model, inverse_root, shift))


def device_sensitivity(device: str, model: Model, adjoint: Adjoint) -> Halving[Sensitivity]:
    """Return the work of the second pass."""
    return Halving(partial(_sensitivity, device, model, adjoint))


@dataclass(frozen=True, eq=False)
class _Block:
    """A block of rows on the device, with the diagonals of K0 and D."""

    X: Tensor
    Z: Tensor
    values: Tensor
    prior: Tensor
    noise: Tensor
    cross: Tensor  # Kfu


def _block(device: str, model: Model, X: Array) -> _Block:
    rows, Z, values = (sent(device, array) for array in (X, model.Z, model.values))
    prior = diagonal(model.smooth, values, rows)
    noise = torch.full_like(prior, model.noise)
    if model.has_white:
        noise = noise + (diagonal(model.whole, values, rows) - prior)
    return _Block(rows, Z, values, prior, noise, cross(model.smooth, values, rows, Z))


@torch.no_grad()
def _statistics(device: str, model: Model, inverse_root: Array, shift: float, X: Array, y: Array) -> Statistics:
    block = _block(device, model, X)
    root = block.noise.rsqrt()
    half = block.cross.mul_(root[:, None]) @ sent(device, np.tril(inverse_root)).mT  # V'
    target = (sent(device, y) - shift) * root
    return Statistics(
        count=len(y),
        log_noise=float(block.noise.log().sum()),
        prior=float((block.prior / block.noise).sum()),
        moments=fetched(torch.stack([target @ target, target @ root, root @ root])),
        gram=fetched(half.mT @ half),
        by_target=fetched(half.mT @ target),
        by_one=fetched(half.mT @ root),
    )


@torch.no_grad()
def _sensitivity(device: str, model: Model, adjoint: Adjoint, X: Array, y: Array) -> Sensitivity:
    block = _block(device, model, X)
    weights = sent(device, adjoint.weights)
    residual = (sent(device, y) - adjoint.level - block.cross @ weights) / block.noise  # a
    spread = block.cross @ sent(device, adjoint.spread)  # Kfu M
    by_values, by_noise = torch.zeros_like(block.values), 0.0
    if model.has_white:
        known = (spread * block.cross).sum(1)
        by_rows = 0.5 * (residual**2 - 1.0 / block.noise + (block.prior - known) / block.noise**2)
        by_noise = float(by_rows.sum())
        by_values += contract_diagonal(model.whole, block.values, block.X, by_rows)
        by_values -= contract_diagonal(model.smooth, block.values, block.X, by_rows)
    spread.div_(block.noise[:, None]).addr_(residual, weights)
    by_values += contract_cross(model.smooth, block.values, block.X, block.Z, spread)
    by_values -= contract_diagonal(model.smooth, block.values, block.X, 0.5 / block.noise)
    by_points = _by_points(model, block, spread) if adjoint.moving else np.zeros((0, 0))
    return Sensitivity(fetched(by_values), float(residual @ residual), by_noise, by_points)


def _by_points(model: Model, block: _Block, adjoint: Tensor) -> Array:
    """Return sum_i adjoint_ij d k(x_i, z_j) / d z_j, by PyTorch's own differentiation, some rows at a time."""
    total = torch.zeros_like(block.Z)
    size = max(1, PAIRS[block.Z.device.type] // len(block.Z))
    for first in range(0, len(block.X), size):
        rows = slice(first, first + size)
        with torch.enable_grad():
            Z = block.Z.clone().requires_grad_()
            told = (cross(model.smooth, block.values, block.X[rows], Z) * adjoint[rows]).sum()
        if told.requires_grad:  # white noise is the same everywhere
            total += torch.autograd.grad(told, Z)[0]
    return fetched(total)


@torch.no_grad()
def device_product(device: str, model: Model, X: Array, vector: Array) -> Array:
    """Return K0 v on the device, some rows of K0 at a time."""
    right = sent(device, vector)
    return fetched(torch.cat([strip @ right for _, strip in device_strips(device, model, X)]))


@torch.no_grad()
def device_strips(device: str, model: Model, X: Array) -> Iterator[tuple[int, Tensor]]:
    """Go over K0 on the device, some rows at a time; of a strip that does not fit, one half after the other."""
    points, values = sent(device, X), sent(device, model.values)
    first, size = 0, max(1, PRODUCT_NUMBERS // len(X))
    while first < len(X):
        try:
            strip = cross(model.smooth, values, points[first : first + size], points)
        except RuntimeError as error:
            if not is_out_of_memory(error) or size == 1:
                raise
            give_memory_back()
            size = (size + 1) // 2
        else:
            yield first, strip
            first += len(strip)


def sent(device: str, array: Array) -> Tensor:
    """Return an array as a tensor on the device."""
    return torch.as_tensor(np.ascontiguousarray(array), dtype=torch.float64, device=available_device(device))


def fetched(tensor: Tensor) -> Array:
    """Return a tensor as an array."""
    return np.asarray(tensor.cpu().numpy())
