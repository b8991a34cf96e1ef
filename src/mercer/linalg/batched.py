"""Cholesky factors of many matrices at once, on CPU or CUDA: the same ladder of jitter as `mercer.linalg.factor`."""

from __future__ import annotations

import torch
from torch import Tensor

from mercer.linalg.factor import LADDER

# Rows beyond which cholesky_inverse is the faster on CUDA.
LARGE = 4096


def factorise_batch(K: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return Cholesky factors of K + noise I, the jitter that each took, and which failed (their factors mean nothing).

    The rungs of the ladder are those of `mercer.linalg.factor`; only what failed climbs. K is overwritten.
    """
    diagonal = K.diagonal(dim1=1, dim2=2)
    scale = diagonal.mean(1).abs()
    diagonal.add_(noise[:, None])
    factor, info = torch.linalg.cholesky_ex(K)
    jitter, failed = torch.zeros_like(scale), info != 0
    for rung in LADDER[1:]:
        (rows,) = torch.nonzero(failed, as_tuple=True)
        if not len(rows):
            break
        added = rung * scale[rows]
        shifted = K[rows]
        shifted.diagonal(dim1=1, dim2=2).add_(added[:, None])
        new_factor, info = torch.linalg.cholesky_ex(shifted)
        mended = info == 0
        factor[rows[mended]] = new_factor[mended]
        jitter[rows[mended]] = added[mended]
        failed[rows[mended]] = False
    return factor, jitter, failed


def inverse_of(factor: Tensor) -> Tensor:
    """Return A^-1 for each Cholesky factor of A."""
    if not factor.is_cuda or factor.shape[1] > LARGE:
        return torch.cholesky_inverse(factor)
    # A^-1 = L^-T L^-1 by two calls: for 256 matrices of 512 rows on an H200 6 ms, where cholesky_inverse takes 14 to 16
    identity = torch.eye(factor.shape[1], dtype=factor.dtype, device=factor.device).expand_as(factor)
    half = torch.linalg.solve_triangular(factor, identity, upper=False)
    return half.mT @ half
