"""One door to a Cholesky factorisation: right results, jitter said, failures as values."""

from __future__ import annotations

from threading import Barrier, Thread

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from mercer.linalg.factor import LADDER, Factor, Failure, factorise
from mercer.linalg.threads import blas_threads, one_thread

Array = NDArray[np.float64]


def positive_definite(n: int) -> Array:
    root = np.random.default_rng(n).normal(size=(n, n))
    return root @ root.T + n * np.eye(n)


def lower_only(matrix: Array) -> Array:
    return np.where(np.tri(len(matrix), dtype=bool), matrix, np.nan)


def factor_of(matrix: Array, diagonal: float | Array = 0.0) -> Factor:
    found = factorise(lambda: lower_only(matrix), diagonal)
    assert isinstance(found, Factor)
    return found


@pytest.mark.parametrize("n", [1, 2, 17, 130])
def test_every_operation_equals_numpy_and_reads_the_lower_triangle_only(n: int) -> None:
    A = positive_definite(n)
    factor, L = factor_of(A), np.linalg.cholesky(A)
    right = np.random.default_rng(0).normal(size=(n, 3))
    assert factor.jitter == 0
    assert_allclose(np.tril(factor.lower), L, rtol=1e-9, atol=1e-12)
    assert_allclose(factor.log_determinant(), np.linalg.slogdet(A)[1], rtol=1e-12)
    assert_allclose(factor.solve(right), np.linalg.solve(A, right), rtol=1e-9, atol=1e-12)
    assert_allclose(factor.solve(right[:, 0]), np.linalg.solve(A, right[:, 0]), rtol=1e-9, atol=1e-12)
    assert_allclose(factor.half_solve(right), np.linalg.solve(L, right), rtol=1e-9, atol=1e-12)
    assert_allclose(factor.half_solve(right[:, 0]), np.linalg.solve(L, right[:, 0]), rtol=1e-9, atol=1e-12)
    assert_allclose(factor.multiply(right), L @ right, rtol=1e-9, atol=1e-12)
    assert_allclose(np.tril(factor.into_inverse()), np.tril(np.linalg.inv(A)), rtol=1e-9, atol=1e-12)


def test_right_hand_sides_are_not_overwritten() -> None:
    factor, right = factor_of(positive_definite(5)), np.ones((5, 2))
    for given in (np.ascontiguousarray(right), np.asfortranarray(right)):
        for use in (factor.solve, factor.half_solve, factor.multiply):
            use(given)
        assert_allclose(given, right, rtol=0, atol=0)


def test_the_matrix_is_overwritten_not_copied() -> None:
    matrix = positive_definite(6)
    factor = factorise(lambda: matrix)
    assert isinstance(factor, Factor)
    assert np.shares_memory(factor.lower, matrix)
    assert np.shares_memory(factor.into_inverse(), matrix)


def test_a_diagonal_is_added_as_a_number_or_one_for_each_row() -> None:
    A = positive_definite(4)
    assert_allclose(factor_of(A, 0.5).log_determinant(), np.linalg.slogdet(A + 0.5 * np.eye(4))[1])
    rows = np.array([0.1, 0.2, 0.3, 0.4])
    assert_allclose(factor_of(A, rows).log_determinant(), np.linalg.slogdet(A + np.diag(rows))[1])


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_jitter_climbs_the_ladder_and_is_relative_to_the_diagonal(scale: float) -> None:
    singular = scale * np.ones((8, 8))
    calls = []

    def build() -> Array:
        calls.append(1)
        return singular.copy()

    factor = factorise(build)
    assert isinstance(factor, Factor)
    assert factor.jitter == pytest.approx(scale * LADDER[1])
    assert len(calls) == 2
    assert_allclose(np.tril(factor.lower) @ np.tril(factor.lower).T, singular + factor.jitter * np.eye(8), rtol=1e-9)


def test_slightly_indefinite_takes_a_higher_rung() -> None:
    matrix = np.diag([1.0, 1.0, 1.0, -1e-9])
    factor = factorise(matrix.copy)
    assert isinstance(factor, Factor)
    assert factor.jitter == pytest.approx(LADDER[2] * matrix.trace() / 4)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("matrix", "word"),
    [
        (np.diag([1.0, -1.0]), "positive definite"),
        (np.array([[1.0, 0.0], [np.nan, 1.0]]), "positive definite"),
        (np.diag([1.0, np.nan]), "undefined"),
        (np.diag([1.0, np.inf]), "infinite"),
        (np.diag([1.7e308, 1.7e308]), "infinite"),  # the sum is
        (-np.eye(3), "positive definite"),
    ],
)
def test_failures_are_values_with_a_reason(matrix: Array, word: str) -> None:
    found = factorise(matrix.copy)
    assert isinstance(found, Failure)
    assert word in found.reason


def test_a_small_factorisation_leaves_the_number_of_threads_as_it_was() -> None:
    with threadpool_limits(2):
        factor = factor_of(positive_definite(5))
        factor.solve(np.ones(5))
        assert blas_threads() == 2


def test_blocks_on_one_thread_may_nest_and_overlap() -> None:
    meet, seen = Barrier(2), []

    def overlapping(leave_first: bool) -> None:
        with one_thread(), one_thread(when=True), one_thread(when=False):
            meet.wait()
            seen.append(blas_threads())
            if not leave_first:
                meet.wait()
        if leave_first:
            seen.append(blas_threads())  # the other one is still inside
            meet.wait()

    with threadpool_limits(2):
        threads = [Thread(target=overlapping, args=(first,)) for first in (True, False)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == [1, 1, 1]
        assert blas_threads() == 2
