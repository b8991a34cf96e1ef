"""The PyTorch back end = the slow reference; its sweep = autograd = finite differences; a batch = one by one."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from mercer.compute import torch_backend
from mercer.compute.program import Affine, LeafNode, Program, Term, compile_program
from mercer.kernels import CPER, M12, M32, M52, REGISTRY, SE, WN, Expression, bind
from mercer.kernels.parameters import values_of
from tests.agree.slow_reference import difference, slow_gram
from tests.strategies import base_kernels, deep_kernels, inputs

few = settings(max_examples=30, deadline=None)


def tensor(array: NDArray[np.float64] | list[float]) -> torch.Tensor:
    return torch.as_tensor(np.asarray(array), dtype=torch.float64)


def assert_close(actual: torch.Tensor | NDArray[np.float64], expected: NDArray[np.float64]) -> None:
    """To 1e-10 of each entry, or 1e-12 of the largest where a sum of large numbers comes out near zero."""
    scale = float(np.max(np.abs(expected), initial=0.0))
    assert_allclose(np.asarray(actual), expected, rtol=1e-10, atol=1e-12 * scale)


def check_values(expression: Expression, X: NDArray[np.float64], Z: NDArray[np.float64]) -> None:
    program, values = compile_program(expression), tensor(values_of(expression))
    expected = slow_gram(expression, X)
    assert_close(torch_backend.gram(program, values, tensor(X)), expected)
    assert_close(torch_backend.diagonal(program, values, tensor(X)), np.diag(expected))
    assert_close(torch_backend.cross(program, values, tensor(X), tensor(Z)), slow_gram(expression, X, Z))


def by_autograd(program: Program, values: torch.Tensor, X: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    leaf = values.clone().requires_grad_(True)
    total = (weights * torch_backend.gram(program, leaf, X)).sum()
    (gradient,) = torch.autograd.grad(total, leaf, allow_unused=True)
    return torch.zeros_like(values) if gradient is None else gradient


def check_gradient(expression: Expression, X: NDArray[np.float64]) -> None:
    program, values, points = compile_program(expression), tensor(values_of(expression)), tensor(X)
    weights = torch.randn(len(X), len(X), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    weights = weights + weights.T
    found = torch_backend.contract(program, values, points, weights)
    expected = by_autograd(program, values, points, weights)
    size = weights.abs().sum() * torch_backend.gram(program, values, points).abs().max()
    assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * float(size))

    def at(i: int, step: float) -> float:
        moved = values.clone()
        moved[i] += step
        return float((weights * torch_backend.gram(program, moved, points)).sum())

    for i in range(len(values)):
        step = 1e-4 * float(values[i].abs().clamp_min(0.1))
        assert_allclose(float(found[i]), difference(partial(at, i), step), rtol=1e-5, atol=1e-8 * float(size))


@pytest.mark.parametrize("symbol", sorted(REGISTRY))
@few
@given(data=st.data())
def test_base_kernels_equal_the_slow_reference(symbol: str, data: st.DataObject) -> None:
    check_values(data.draw(base_kernels(symbol=symbol)), data.draw(inputs()), data.draw(inputs()))


@few
@given(expression=deep_kernels(), X=inputs(), Z=inputs())
def test_deep_kernels_equal_the_slow_reference(
    expression: Expression, X: NDArray[np.float64], Z: NDArray[np.float64]
) -> None:
    check_values(expression, X, Z)


@pytest.mark.parametrize("symbol", sorted(REGISTRY))
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_gradients_of_base_kernels(symbol: str, data: st.DataObject) -> None:
    check_gradient(data.draw(base_kernels(symbol=symbol)), data.draw(inputs()))


@settings(max_examples=20, deadline=None)
@given(expression=deep_kernels(), X=inputs())
def test_gradients_of_deep_kernels(expression: Expression, X: NDArray[np.float64]) -> None:
    check_gradient(expression, X)


@pytest.mark.parametrize("block", [1, 7, 40, 1 << 20])
@settings(max_examples=5, deadline=None)
@given(expression=deep_kernels(), X=inputs(min_rows=5, max_rows=11), seed=st.integers(0, 99))
def test_a_batch_equals_one_by_one_however_it_is_cut(
    block: int, expression: Expression, X: NDArray[np.float64], seed: int
) -> None:
    program, points = compile_program(expression), tensor(X)
    random = torch.Generator().manual_seed(seed)
    batch = tensor(values_of(expression)) * (1 + torch.rand(5, program.n_values, dtype=torch.float64, generator=random))
    weights = torch.randn(5, len(X), len(X), dtype=torch.float64, generator=random)
    weights = weights + weights.mT
    singles = [torch_backend.gram(program, row, points) for row in batch]
    gradients = [torch_backend.contract(program, row, points, w) for row, w in zip(batch, weights, strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(torch_backend.BLOCK, "cpu", block)
        assert_close(torch_backend.gram(program, batch, points), torch.stack(singles).numpy())
        assert_close(torch_backend.cross(program, batch, points, points[:3]), torch.stack(singles)[..., :3].numpy())
        lower = torch_backend.gram(program, batch, points, lower_only=True)
        assert_close(lower.tril(), torch.stack(singles).tril().numpy())
        found = torch_backend.contract(program, batch, points, weights)
    assert_allclose(found, torch.stack(gradients), rtol=1e-9, atol=1e-10 * float(found.abs().max()))


@pytest.mark.parametrize("lengthscale", [0.05, 0.3, 1.0, 3.0, 100.0, 1e4])
def test_centred_periodic_from_sharp_to_nearly_a_cosine(lengthscale: float) -> None:
    expression = bind(CPER(0, variance=1.0, period=1.5, lengthscale=lengthscale), 1)
    X = np.array([0.0, 0.07, 0.3, 0.8, 1.1, 1.93, 2.6, 3.17, 4.0])[:, None]
    check_values(expression, X, X[:2])
    check_gradient(expression, X)


def test_centred_periodic_has_mean_zero_over_a_period() -> None:
    program = compile_program(bind(CPER(0, variance=2.0, period=3.0, lengthscale=0.4), 1))
    period = torch.arange(600, dtype=torch.float64)[:, None] / 200
    row = torch_backend.cross(program, tensor([2.0, 3.0, 0.4]), period[:1], period)
    assert abs(float(row.mean())) < 1e-12


@pytest.mark.parametrize("matern", [M12, M32, M52])
def test_equal_points_give_finite_gradients(matern: type) -> None:
    expression = bind(matern(0, 1, variance=1.0, lengthscale=0.5), 2)
    X = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.5]])
    program, values = compile_program(expression), tensor(values_of(expression))
    weights = torch.ones(3, 3, dtype=torch.float64)
    assert torch.isfinite(torch_backend.contract(program, values, tensor(X), weights)).all()
    assert torch.isfinite(by_autograd(program, values, tensor(X), weights)).all()


def test_white_noise_looks_at_its_own_columns() -> None:
    expression = bind(WN(1, variance=3.0) + SE(0, variance=1e-3, lengthscale=1.0), 2)
    check_values(expression, np.array([[0.0, 1.0], [5.0, 1.0], [0.0, 2.0]]), np.array([[9.0, 2.0]]))


def test_nodes_with_several_uses_add_up() -> None:
    """A network reuses its primitives: (a + 2 k)^2 with k = exp(SE) * cos, written as a program by hand."""
    nodes = (
        LeafNode("SE", (0,), (0,)),
        LeafNode("COS", (0,), (1,)),
        Term((0,), (1,)),
        Term((), ()),
        Affine((2, 3, 2), ((2,), (3, 3), ())),
        Term((), (4, 4, 2)),
        Affine((5, 4), ((2, 3), ())),
    )
    program = Program(nodes, 4)
    values = tensor([[0.7, 0.3, 2.0, 1.5], [1.1, -0.2, 0.5, 0.4]])
    X = torch.linspace(0, 3, 7, dtype=torch.float64)[:, None]
    d = X - X.T
    k = torch.exp(-0.5 * d**2 / 0.49) * torch.cos(2 * math.pi * 0.3 * d)
    inner = 3 * k + 1.5**2
    assert_close(torch_backend.gram(program, values, X)[0], (3 * inner**2 * k + inner).numpy())
    weights = torch.cos(torch.arange(49, dtype=torch.float64)).view(7, 7)
    weights = weights + weights.T
    found = torch_backend.contract(program, values, X, weights)
    assert_allclose(found, by_autograd(program, values, X, weights), rtol=1e-10)
