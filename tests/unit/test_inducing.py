"""Inducing points: the greedy choice against its slow definition, repeated rows, and when it stops."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from mercer.compute import fused
from mercer.compute.program import Program, compile_program
from mercer.inference.vfe import greedy
from mercer.kernels import LIN, PER, SE, WN, Expression, bind
from mercer.kernels.parameters import values_of

Array = NDArray[np.float64]
MIXED = bind(
    SE(0, variance=1, lengthscale=0.6) * LIN(1, variance=1, offset=0.3)
    + PER(1, variance=0.4, period=1.3, lengthscale=1)
    + LIN(0, variance=0.5, offset=0),
    2,
)


def ready(expression: Expression) -> tuple[Program, Array]:
    return compile_program(expression), values_of(expression)


def residuals(expression: Expression, X: Array, chosen: list[int]) -> Array:
    """k(x, x) - k(x, S) k(S, S)^-1 k(S, x), by dense algebra."""
    K = fused.gram(*ready(expression), X)
    if not chosen:
        return np.diag(K).copy()
    return np.diag(K) - np.einsum("is,si->i", K[:, chosen], np.linalg.solve(K[np.ix_(chosen, chosen)], K[chosen]))


def test_the_choice_is_the_slow_definition() -> None:
    X = np.random.default_rng(0).uniform(-2, 2, (60, 2))
    found = greedy(*ready(MIXED), X, 12)
    chosen: list[int] = []
    for row in found:
        left = residuals(MIXED, X, chosen)
        assert int(row) == int(np.argmax(left))
        chosen.append(int(row))
    assert len(chosen) == 12


def test_repeated_rows_do_no_harm() -> None:
    X = np.random.default_rng(0).uniform(-2, 2, (40, 2))
    thrice = np.repeat(X, 3, axis=0)
    assert_array_equal(thrice[greedy(*ready(MIXED), thrice, 15)], X[greedy(*ready(MIXED), X, 15)])
    rough = bind(SE(variance=1, lengthscale=[1e-3, 1e-3]), 2)  # every row stands alone
    found = greedy(*ready(rough), thrice, 500)
    assert len(found) == 40
    assert len(np.unique(thrice[found], axis=0)) == 40


@pytest.mark.parametrize("count", [20, 21, 1000])
def test_no_more_points_than_rows(count: int) -> None:
    X = np.arange(20.0)[:, None]
    found = greedy(*ready(bind(SE(0, variance=1, lengthscale=0.5), 1)), X, count)
    assert sorted(found) == list(range(20))


def test_it_stops_when_nothing_is_left_to_explain() -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (200, 1))
    assert len(greedy(*ready(bind(LIN(0, variance=1, offset=0), 1)), X, 50)) == 1
    smooth = greedy(*ready(bind(SE(0, variance=1, lengthscale=3), 1)), X, 200)
    assert 5 < len(smooth) < 30


@pytest.mark.parametrize("spare", [0.3, 0.05, 0.002])
def test_it_stops_when_so_little_is_left_on_average(spare: float) -> None:
    X = np.random.default_rng(0).uniform(-2, 2, (60, 2))
    all_of_them = greedy(*ready(MIXED), X, 60)
    found = greedy(*ready(MIXED), X, 60, spare=spare)
    assert_array_equal(found, all_of_them[: len(found)])
    assert residuals(MIXED, X, list(found)).mean() <= spare + 1e-9
    assert residuals(MIXED, X, list(found[:-1])).mean() > spare


def test_white_noise_is_left_out_of_account() -> None:
    X = np.random.default_rng(0).uniform(-2, 2, (60, 2))
    found = greedy(*ready(bind(MIXED + WN(0, variance=3), 2)), X, 12)
    assert_array_equal(found, greedy(*ready(MIXED), X, 12))
    assert len(greedy(*ready(bind(WN(0, variance=3), 2)), X, 12)) == 1


def test_many_rows_are_looked_at_in_part_and_the_seed_decides_which() -> None:
    X = np.random.default_rng(0).uniform(-2, 2, (500, 2))
    one, again, other = (greedy(*ready(MIXED), X, 10, seed=s, candidates=100) for s in (1, 1, 2))
    assert_array_equal(one, again)
    assert set(one) != set(other)
    assert len(set(one)) == 10
