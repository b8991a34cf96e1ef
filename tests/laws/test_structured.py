"""Kronecker, Toeplitz and centrosymmetric algebra = dense algebra; Weyl's bounds hold; iterations converge."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_operator.operators import KroneckerProductLinearOperator, ToeplitzLinearOperator, to_linear_operator
from numpy.testing import assert_allclose

from mercer.linalg.iterative import conjugate_gradients, lanczos_log_determinant
from mercer.linalg.operators import (
    LowRank,
    Operator,
    Toeplitz,
    along_axes,
    outer,
    spectrum,
    weyl_log_determinant,
    weyl_product,
    weyl_sum,
)

seeds = st.integers(0, 2**31 - 1)
shapes = st.lists(st.integers(1, 5), min_size=1, max_size=4)


def positive(rng: np.random.Generator, n: int, rank: int | None = None) -> torch.Tensor:
    half = rng.normal(size=(n, rank or n + 2))
    return torch.as_tensor(half @ half.T)


def dense(factors: list[torch.Tensor]) -> torch.Tensor:
    result = torch.ones(1, 1, dtype=torch.float64)
    for factor in factors:
        result = torch.kron(result, factor)
    return result


@given(shapes, shapes, seeds)
@settings(max_examples=40, deadline=None)
def test_along_axes_is_the_kronecker_product(inner: list[int], outside: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    inner, outside = inner[: len(outside)], outside[: len(inner)]
    factors = [torch.as_tensor(rng.normal(size=(m, n))) for m, n in zip(outside, inner, strict=True)]
    grids = torch.as_tensor(rng.normal(size=(3, *inner)))
    expected = grids.reshape(3, -1) @ dense(factors).mT
    assert_allclose(along_axes(factors, grids).reshape(3, -1), expected, atol=1e-10)
    if inner == outside and len(inner) > 1:
        operator = KroneckerProductLinearOperator(*map(to_linear_operator, factors))
        assert_allclose(along_axes(factors, grids).reshape(3, -1), (operator @ grids.reshape(3, -1).mT).mT, atol=1e-10)


@given(shapes, seeds)
@settings(max_examples=30, deadline=None)
def test_the_spectrum_rebuilds_the_matrix(shape: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    factors = [positive(rng, n) for n in shape]
    found = spectrum(factors)
    grids = torch.as_tensor(rng.normal(size=(2, *shape)))
    assert_allclose(found.back(found.into(grids)), grids, atol=1e-9)
    product = found.back(found.into(grids) * found.grid).reshape(2, -1)
    assert_allclose(product, grids.reshape(2, -1) @ dense(factors), rtol=1e-8, atol=1e-6)
    assert_allclose(found.grid, outer(found.values))


@given(st.integers(1, 40), seeds)
@settings(max_examples=40, deadline=None)
def test_even_factors_are_decomposed_in_halves(n: int, seed: int) -> None:
    lags = np.random.default_rng(seed).uniform(0.2, 3)
    column = np.exp(-np.arange(n) / lags) * np.cos(np.arange(n))
    matrix = torch.as_tensor(column[np.abs(np.subtract.outer(np.arange(n), np.arange(n)))])
    quick, slow = spectrum([matrix], [True]), spectrum([matrix])
    assert_allclose(quick.values[0].sort().values, slow.values[0], atol=1e-12)
    vectors = quick.vectors[0]
    assert_allclose(vectors.mT @ vectors, np.eye(n), atol=1e-12)
    assert_allclose((vectors * quick.values[0]) @ vectors.mT, matrix, atol=1e-12)


@given(st.integers(1, 60), seeds)
@settings(max_examples=40, deadline=None)
def test_toeplitz_products_by_fft(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    column, vectors = torch.as_tensor(rng.normal(size=n)), torch.as_tensor(rng.normal(size=(3, n)))
    expected = (ToeplitzLinearOperator(column) @ vectors.mT).mT if n > 1 else column * vectors
    assert Toeplitz(column).length >= 2 * n - 1
    assert_allclose(Toeplitz(column).times(vectors), expected, atol=1e-10)


@given(st.integers(1, 12), seeds, st.integers(2, 20))
@settings(max_examples=60, deadline=None)
def test_weyl_bounds_hold_and_are_sharp_for_commuting_constants(n: int, seed: int, splits: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = positive(rng, n, 1 + seed % n), positive(rng, n)
    falling = [torch.linalg.eigvalsh(matrix).flip(0) for matrix in (first, second, first + second)]
    assert (weyl_sum(*falling[:2], splits) >= falling[2] - 1e-9).all()
    scales = torch.as_tensor(rng.uniform(0, 1, n))
    true = torch.linalg.eigvalsh(scales[:, None] * second * scales).flip(0)
    assert (weyl_product(scales, falling[1], splits) >= true - 1e-9).all()
    half = torch.full((n,), 0.5, dtype=torch.float64)
    assert_allclose(weyl_product(half, falling[1]), 0.25 * falling[1], rtol=1e-12)


def test_the_weyl_log_determinant_of_a_change_surface() -> None:
    """K = S K_1 S + (1 - S) K_2 (1 - S): above the dense answer, and closer than Hadamard's bound by the diagonal."""
    x = torch.linspace(0, 1, 120, dtype=torch.float64)
    distance = (x[:, None] - x) ** 2
    s = torch.sigmoid(20 * (x - 0.4))
    kernels = [torch.exp(-distance / 2 / 0.1**2), 0.5 * torch.exp(-distance / 2 / 0.03**2)]
    noise = 0.01
    total = s[:, None] * kernels[0] * s + (1 - s)[:, None] * kernels[1] * (1 - s) + noise * torch.eye(120)
    exact = float(torch.linalg.slogdet(total)[1])
    parts = [(s, torch.linalg.eigvalsh(kernels[0])), (1 - s, torch.linalg.eigvalsh(kernels[1]))]
    bound = float(weyl_log_determinant(parts, noise))
    diagonal = float(torch.log(total.diagonal()).sum())
    assert exact <= bound <= exact + 0.4 * (diagonal - exact)


@given(st.integers(1, 25), seeds, st.booleans())
@settings(max_examples=40, deadline=None)
def test_conjugate_gradients_solve_and_tell_the_residual(n: int, seed: int, precondition: bool) -> None:
    rng = np.random.default_rng(seed)
    matrix = positive(rng, n) + torch.eye(n)
    right = torch.as_tensor(rng.normal(size=(3, n)))
    right[1] = 0.0
    rough = matrix.diagonal()
    found = conjugate_gradients(
        lambda v: v @ matrix, right, precondition=(lambda v: v / rough) if precondition else None, tolerance=1e-9
    )
    assert_allclose(found.x, torch.linalg.solve(matrix, right.mT).mT, atol=1e-6)
    left = torch.linalg.vector_norm(right - found.x @ matrix, dim=1)[[0, 2]] / torch.linalg.vector_norm(
        right[[0, 2]], dim=1
    )
    assert_allclose(found.residual, left.max(), atol=1e-9)
    again = conjugate_gradients(lambda v: v @ matrix, right, start=found.x, tolerance=1e-8)
    assert again.iterations == 0
    cut = conjugate_gradients(lambda v: v @ matrix, right, tolerance=0.0, most=2)
    assert cut.iterations == min(2, cut.iterations)


def test_lanczos_quadrature_estimates_log_determinants() -> None:
    rng = np.random.default_rng(0)
    matrix = positive(rng, 300, 450) / 100 + 0.1 * torch.eye(300)
    exact = float(torch.linalg.slogdet(matrix)[1])
    probes = torch.as_tensor(rng.integers(0, 2, (30, 300)) * 2.0 - 1.0)
    found = lanczos_log_determinant(lambda v: v @ matrix, probes, 40)
    assert abs(found.value - exact) < 4 * found.error
    assert found.error < 0.05 * 300


@given(st.integers(1, 8), seeds)
@settings(max_examples=25, deadline=None)
def test_lanczos_is_exact_with_all_signs_and_steps(n: int, seed: int) -> None:
    """The mean over every vector of signs is the trace; breakdowns (few distinct eigenvalues) do no harm."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(n, n)))[0]
    matrix = torch.as_tensor((basis * rng.integers(1, 3, n)) @ basis.T)
    signs = torch.as_tensor(np.array(np.meshgrid(*[[-1.0, 1.0]] * n)).reshape(n, -1).T.copy())
    found = lanczos_log_determinant(lambda v: v @ matrix, signs, n)
    assert_allclose(found.value, float(torch.linalg.slogdet(matrix)[1]), atol=1e-8)


# -------------------------------------------------------------------------------------------------------- operators


def _operators() -> list[tuple[Operator, np.ndarray, tuple[int, ...]]]:
    rng = np.random.default_rng(0)
    roots = [rng.normal(size=(n, n)) for n in (4, 3)]
    factors = [torch.tensor(root @ root.T) for root in roots]
    columns = torch.tensor(rng.normal(size=(12, 5)))
    whole = np.kron(*(factor.numpy() for factor in factors)) + 0.3 * np.eye(12)
    near = (columns @ columns.mT).numpy() + 0.3 * np.eye(12)
    return [(spectrum(factors, noise=0.3), whole, (4, 3)), (LowRank.of(columns, 0.3), near, (12,))]


@pytest.mark.parametrize(("operator", "matrix", "shape"), _operators(), ids=["Kronecker", "LowRank"])
def test_an_operator_is_its_matrix(operator: Operator, matrix: np.ndarray, shape: tuple[int, ...]) -> None:
    vectors = np.random.default_rng(1).normal(size=(2, 12))
    given = torch.tensor(vectors).view(2, *shape)
    assert_allclose(operator.times(given).reshape(2, 12).numpy(), vectors @ matrix, rtol=1e-9)
    assert_allclose(operator.solve(given).reshape(2, 12).numpy(), np.linalg.solve(matrix, vectors.T).T, rtol=1e-8)
    assert operator.log_determinant() == pytest.approx(np.linalg.slogdet(matrix)[1])
