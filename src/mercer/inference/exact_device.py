"""Exact inference on a GPU for as many rows as one N x N matrix fits there.

The formulas are those of exact.py. The kernel is written into the matrix strip by strip, the factor takes its place,
and the gradient is contracted with strips of the inverse: nothing else is as large.

    d log p / d theta = sum_ij W_ij dK_ij / d theta,   W = (a a' - A^-1) / 2

with the strip's square on the diagonal counted once and what is below it twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mercer.compute.program import Program
from mercer.compute.torch_backend import PAIRS, contract_cross, cross
from mercer.errors import NumericalError
from mercer.inference.contract import LOG_2_PI, Data, Evidence, log_density
from mercer.inference.exact import ExactPosterior, solved
from mercer.kernels.domains import Array
from mercer.linalg.device import STRIP, DeviceFactor, available_device, factorise_on_device
from mercer.linalg.factor import Failure


@torch.no_grad()
def evidence_on(where: Where, program: Program, values: Array, noise: float, data: Data, gradient: bool) -> Evidence:
    """Return the log evidence and, if asked, its gradient and the leave-one-out score."""
    X, point = where.sent(data.X), where.sent(values)
    factor = where.factor(program, point, noise, X)
    if isinstance(factor, Failure):
        return Evidence(-math.inf, failure=factor.reason)
    alpha, level = solved(factor, data)
    value = -0.5 * (float(data.y @ alpha) + factor.log_determinant() + data.count * LOG_2_PI)
    if not math.isfinite(value):
        return Evidence(-math.inf, failure="the evidence overflowed")
    if not gradient:
        return Evidence(value, jitter=factor.jitter)
    by_values, precision = _gradient(program, point, X, factor, where.sent(alpha))
    by_noise = -0.5 * float(precision.sum() - alpha @ alpha)
    if not (math.isfinite(by_noise) and np.isfinite(by_values).all()):
        return Evidence(-math.inf, failure="the gradient of the evidence overflowed")
    precision = precision - level.variance * level.pull**2
    left_out = float(log_density(alpha / precision, 1.0 / precision).sum())
    return Evidence(value, by_values, by_noise, left_out, factor.jitter)


@torch.no_grad()
def posterior_on(where: Where, program: Program, values: Array, noise: float, data: Data) -> ExactPosterior:
    """Return the posterior, keeping the factor on the device."""
    factor = where.factor(program, where.sent(values), noise, where.sent(data.X))
    if isinstance(factor, Failure):
        raise NumericalError(f"no posterior: {factor.reason}; try a larger noise or another kernel")
    return ExactPosterior(program, values, data, factor, *solved(factor, data))


@dataclass(frozen=True)
class Where:
    """A device, and how many columns of a matrix to work on at a time there."""

    device: str
    strip: int = STRIP

    def sent(self, array: Array) -> Tensor:
        """Return an array as a tensor on the device."""
        return torch.as_tensor(np.asarray(array), dtype=torch.float64, device=available_device(self.device))

    def factor(self, program: Program, values: Tensor, noise: float, X: Tensor) -> DeviceFactor | Failure:
        """Factorise the kernel matrix plus noise."""
        return factorise_on_device(lambda: _filled(program, values, X), noise, self.strip)


def _filled(program: Program, values: Tensor, X: Tensor) -> Tensor:
    """Return the lower triangle of the kernel matrix."""
    matrix, first = X.new_empty(len(X), len(X)), 0
    while first < len(X):
        last = min(len(X), first + max(1, PAIRS[X.device.type] // len(X)))
        matrix[first:last, :last] = cross(program, values, X[first:last], X[:last])
        first = last
    return matrix


def _gradient(program: Program, values: Tensor, X: Tensor, factor: DeviceFactor, alpha: Tensor) -> tuple[Array, Array]:
    """Return the gradient by values, and the diagonal of A^-1."""
    total, diagonal = torch.zeros_like(values), []
    for columns, strip in factor.inverse_strips():
        diagonal.append(strip.diagonal().clone())
        strip.neg_().addr_(alpha[columns.start :], alpha[columns])  # twice W
        strip[: strip.shape[1]] *= 0.5  # the square on the diagonal has its mirror images in it
        total += contract_cross(program, values, X[columns.start :], X[columns], strip)
    return total.cpu().numpy(), torch.cat(diagonal).cpu().numpy()
