"""Contractions of rectangles and diagonals = finite differences = parts of the square contraction."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from mercer.compute import fused
from mercer.compute.fused import contract_cross, contract_diagonal
from mercer.compute.program import Program, compile_program
from mercer.kernels import CPER, LIN, PER, REGISTRY, RQ, SE, C, Expression, bind
from mercer.kernels.parameters import values_of
from tests.agree.slow_reference import difference, slow_gram
from tests.strategies import base_kernels, deep_kernels, inputs, networks

Array = NDArray[np.float64]
SEASONAL = bind(
    SE(0, variance=1.3, lengthscale=2) * PER(0, variance=1, period=1.5, lengthscale=0.8)
    + LIN(0, variance=0.2, offset=1) * RQ(0, variance=1, lengthscale=1.5, alpha=0.6)
    + C(0.5),
    1,
)


def ready(expression: Expression) -> tuple[Program, Array]:
    return compile_program(expression), values_of(expression)


def slopes(function: Callable[[Array], float], point: Array) -> Array:
    def at(i: int, step: float) -> float:
        moved = point.copy()
        moved[i] += step
        return float(function(moved))

    steps = 1e-4 * np.maximum(np.abs(point), 0.05)
    return np.array([difference(partial(at, i), step) for i, step in enumerate(steps)])


def check_contractions(expression: Expression, X: Array, Z: Array) -> None:
    program, values = ready(expression)
    rng = np.random.default_rng(len(X))
    B, b, left, right = (rng.normal(size=s) for s in ((len(X), len(Z)), len(X), len(X), len(Z)))
    largest = np.abs(slow_gram(expression, np.vstack([X, Z]))).max() + 1e-3
    found, _ = contract_cross(program, values, X, Z, B)
    expected = slopes(lambda v: (B * fused.cross(program, v, X, Z)).sum(), values)
    assert_allclose(found, expected, rtol=1e-5, atol=1e-7 * largest * B.size)
    whole, _ = contract_cross(program, values, X, Z, B + np.outer(left, right))
    assert_allclose(contract_cross(program, values, X, Z, B, (left, right))[0], whole, rtol=1e-9, atol=1e-10 * largest)
    found = contract_diagonal(program, values, X, b)
    expected = slopes(lambda v: b @ fused.diagonal(program, v, X), values)
    assert_allclose(found, expected, rtol=1e-5, atol=1e-7 * largest * len(X))


@pytest.mark.parametrize("symbol", sorted(REGISTRY))
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_contractions_of_base_kernels(symbol: str, data: st.DataObject) -> None:
    check_contractions(data.draw(base_kernels(symbol=symbol)), data.draw(inputs()), data.draw(inputs()))


@settings(max_examples=20, deadline=None)
@given(expression=deep_kernels(), X=inputs(), Z=inputs())
def test_contractions_of_deep_kernels(expression: Expression, X: Array, Z: Array) -> None:
    check_contractions(expression, X, Z)


def test_contractions_of_points_that_are_many_periods_apart() -> None:
    """Fifteen periods: the slope by the period is zero, and the fifth derivative 10^12 times the kernel."""
    wave = bind(CPER(0, variance=4, period=0.34375, lengthscale=0.28125), 1)
    check_contractions(wave, np.array([[-2.25]]), np.array([[2.90625]]))


@settings(max_examples=15, deadline=None)
@given(expression=networks(exp=False), X=inputs(), Z=inputs())
def test_contractions_of_networks(expression: Expression, X: Array, Z: Array) -> None:
    check_contractions(expression, X, Z)


@pytest.mark.parametrize(("rows", "points"), [(1, 1), (7, 256), (299, 257), (300, 513), (611, 3)])
def test_a_rectangle_is_a_part_of_a_square(rows: int, points: int) -> None:
    """Around the edges of blocks and parts: the square contraction with a matrix that is zero outside the rectangle."""
    rng = np.random.default_rng(0)
    X, Z = rng.uniform(0, 6, (rows, 1)), rng.uniform(0, 6, (points, 1))
    program, values = ready(SEASONAL)
    B, b = rng.normal(size=(rows, points)), rng.normal(size=rows)
    matrix = np.zeros((rows + points, rows + points))
    matrix[rows:, :rows] = 0.5 * B.T
    matrix[np.arange(rows), np.arange(rows)] = b
    at = fused.points(np.vstack([X, Z]))
    expected = fused.contract(program, values, at, matrix, np.zeros(rows + points))
    found = contract_cross(program, values, X, Z, B)[0] + contract_diagonal(program, values, X, b)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_no_rows_and_no_points_contract_to_nothing() -> None:
    program, values = ready(SEASONAL)
    none, some = np.empty((0, 1)), np.ones((2, 1))
    for X, Z in ((none, some), (some, none), (none, none)):
        assert not contract_cross(program, values, X, Z, np.empty((len(X), len(Z))))[0].any()
    assert not contract_diagonal(program, values, none, np.empty(0)).any()


def test_the_number_of_threads_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    X, Z, B = rng.uniform(0, 6, (700, 1)), rng.uniform(0, 6, (300, 1)), rng.normal(size=(700, 300))
    found = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads):
            found.append(contract_cross(*ready(SEASONAL), X, Z, B)[0] + contract_diagonal(*ready(SEASONAL), X, B[:, 0]))
    assert_array_equal(found[1], found[0])
    assert_array_equal(found[2], found[0])
