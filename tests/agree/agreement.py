"""Do both back ends agree with the slow reference, and how far apart are two arrays?"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from mercer.compute import fused, torch_backend
from mercer.compute.program import compile_program
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import values_of
from tests.agree.slow_reference import slow_gram

Rows = NDArray[np.float64]


def relative(one: Rows, other: Rows) -> float:
    return float(np.max(np.abs(one - other)) / (np.max(np.abs(other)) + 1e-300))


def assert_back_ends_agree(kernel: Expression, X: Rows, Z: Rows) -> Rows:
    """Compare Gram, cross-Gram and diagonal of both back ends with the slow reference; return its Gram matrix."""
    program, values = compile_program(kernel), values_of(kernel)
    tensors = [torch.from_numpy(a) for a in (values, X, Z)]
    gram, cross = slow_gram(kernel, X), slow_gram(kernel, X, Z)
    tolerance = {"rtol": 1e-9, "atol": 1e-10 * max(1.0, float(np.abs(gram).max()), float(np.abs(cross).max()))}
    np.testing.assert_allclose(fused.gram(program, values, X), gram, **tolerance)
    np.testing.assert_allclose(fused.cross(program, values, X, Z), cross, **tolerance)
    np.testing.assert_allclose(fused.diagonal(program, values, X), np.diag(gram), **tolerance)
    np.testing.assert_allclose(torch_backend.gram(program, *tensors[:2]), gram, **tolerance)
    np.testing.assert_allclose(torch_backend.cross(program, *tensors), cross, **tolerance)
    np.testing.assert_allclose(torch_backend.diagonal(program, *tensors[:2]), np.diag(gram), **tolerance)
    return gram
