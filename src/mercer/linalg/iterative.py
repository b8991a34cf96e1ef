"""Solutions and log-determinants from products with a matrix alone: conjugate gradients, Lanczos quadrature.

Vectors are the rows of a batch (b, n). Written by hand: `linear_operator.utils.linear_cg` stops by the mean over the
vectors and keeps its residual to itself; here every vector stops for itself and the residual comes back with the
solution. Its Lanczos quadrature is tied to its own operators and settings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Apply = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Solution:
    """A x = b solved approximately: `residual` is the largest |b - A x| / |b| of the batch."""

    x: Tensor
    residual: float
    iterations: int


@torch.no_grad()
def conjugate_gradients(
    apply: Apply,
    right: Tensor,
    *,
    precondition: Apply | None = None,
    start: Tensor | None = None,
    tolerance: float = 1e-6,
    most: int = 1000,
) -> Solution:
    """Solve A x = b for every row of `right`, A positive definite, until |b - A x| <= tolerance |b|."""
    size = torch.linalg.vector_norm(right, dim=1)
    size = torch.where(size > 0, size, torch.ones_like(size))
    x = torch.zeros_like(right) if start is None else start.clone()
    rest = right.clone() if start is None else right - apply(x)
    shaped = rest if precondition is None else precondition(rest)
    direction = shaped.clone()
    power = (rest * shaped).sum(1)
    error = torch.linalg.vector_norm(rest, dim=1) / size
    done = 0
    while done < most and bool((error > tolerance).any()):
        image = apply(direction)
        curvature = (direction * image).sum(1)
        active = (error > tolerance) & (curvature > 0)
        if not bool(active.any()):
            break
        step = torch.where(active, power / torch.where(curvature > 0, curvature, 1.0), 0.0)
        x.addcmul_(step[:, None], direction)
        rest.addcmul_(step[:, None], image, value=-1.0)
        shaped = rest if precondition is None else precondition(rest)
        renewed = (rest * shaped).sum(1)
        direction = shaped + (renewed / torch.where(power > 0, power, 1.0))[:, None] * direction
        power = renewed
        error = torch.linalg.vector_norm(rest, dim=1) / size
        done += 1
    return Solution(x, float(error.max()) if len(error) else 0.0, done)


@dataclass(frozen=True)
class Estimate:
    """A number found by random probes, and its standard error."""

    value: float
    error: float


@torch.no_grad()
def lanczos_log_determinant(apply: Apply, probes: Tensor, steps: int = 30) -> Estimate:
    """Estimate log|A| by stochastic Lanczos quadrature (Ubaru, Chen & Saad 2017) from probes of +1 and -1, (b, n).

    z' log(A) z = n sum_k tau_k^2 log(theta_k), with theta the eigenvalues of the Lanczos matrix of z and tau the first
    entries of its eigenvectors; the mean over z is the trace of log(A).
    """
    diagonal, beside = lanczos(apply, probes, min(steps, probes.shape[1]))
    matrix = torch.diag_embed(diagonal) + torch.diag_embed(beside, 1) + torch.diag_embed(beside, -1)
    theta, vectors = torch.linalg.eigh(matrix)
    floor = torch.finfo(theta.dtype).eps * theta.amax(1, keepdim=True)
    # entries after a breakdown are zero, and so are the first entries of their eigenvectors
    each = probes.shape[1] * (vectors[:, 0] ** 2 * torch.log(torch.maximum(theta, floor))).sum(1)
    error = float(each.std() / len(each) ** 0.5) if len(each) > 1 else float("inf")
    return Estimate(float(each.mean()), error)


@torch.no_grad()
def lanczos(apply: Apply, start: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Return the diagonals (b, steps) and off-diagonals (b, steps - 1) of the Lanczos matrices of the rows.

    Vectors are kept and made orthogonal again at every step: without it large eigenvalues are found twice.
    """
    vector = start / torch.linalg.vector_norm(start, dim=1, keepdim=True)
    kept = [vector]
    diagonal, beside = [], []
    for step in range(steps):
        image = apply(kept[-1])
        diagonal.append((image * kept[-1]).sum(1))
        if step == steps - 1:
            break
        basis = torch.stack(kept, 1)
        for _ in range(2):  # once is not enough (Parlett)
            image = image - torch.einsum("bk,bkn->bn", torch.einsum("bkn,bn->bk", basis, image), basis)
        norm = torch.linalg.vector_norm(image, dim=1)
        alive = norm > 1e-12 * diagonal[0].abs()
        beside.append(torch.where(alive, norm, 0.0))
        kept.append(torch.where(alive[:, None], image / torch.where(alive, norm, 1.0)[:, None], 0.0))
    rows = start.new_zeros(len(start), 0)
    return torch.stack(diagonal, 1), torch.stack(beside, 1) if beside else rows
