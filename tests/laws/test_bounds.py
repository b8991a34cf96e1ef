"""Lower bound <= exact log evidence <= upper bound, for any kernel, values, data and inducing points."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mercer.compute.backend import NumbaBackend
from mercer.compute.program import compile_program
from mercer.inference.bounds import DEFAULT, BoundPolicy, Interval, Traces, closest, interval, measure_traces
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.inference.sparse import RowSweep, model_of, solve
from mercer.inference.vfe import VFE, FixedVFE, greedy
from mercer.kernels import LIN, PER, SE, WN, Expression, bind
from mercer.kernels.parameters import values_of
from mercer.linalg.factor import Failure
from tests.strategies import deep_kernels, inputs, networks

Array = NDArray[np.float64]
LIN_VARIANCE = 0.4
LEVELS = pytest.mark.parametrize("free_level", [False, True])
TREND = bind(
    SE(0, variance=1, lengthscale=0.5) + LIN(0, variance=0.3, offset=1) * PER(0, variance=1, period=2, lengthscale=1), 1
)


def check(expression: Expression, noise: float, data: Data, Z: Array, steps: int | None) -> None:
    program, values = compile_program(expression), values_of(expression)
    exact = Exact().evidence(program, values, Gaussian(noise), data, gradient=False)
    assert exact.jitter == 0
    lower = FixedVFE(Z).evidence(program, values, Gaussian(noise), data, gradient=False).value
    slack = 1e-7 * (1 + abs(exact.value))
    wide = interval(program, values, noise, data, Z, BoundPolicy(steps))
    close = interval(program, values, noise, data, Z, BoundPolicy(steps, traces=True))
    for found in (wide, close):
        assert lower <= found.lower <= exact.value + slack
        assert exact.value <= found.upper + slack
    assert close.lower >= wide.lower - slack
    assert close.upper <= wide.upper + slack


@settings(max_examples=60, deadline=None)
@given(
    expression=st.one_of(deep_kernels(), networks(exp=False)),
    X=inputs(min_rows=2),
    Z=inputs(),
    noise=st.sampled_from([0.01, 0.1, 1.0, 30.0]),
    free_level=st.booleans(),
    steps=st.none() | st.integers(0, 4),
    seed=st.integers(0, 9),
)
def test_the_exact_evidence_lies_between(
    expression: Expression, X: Array, Z: Array, noise: float, free_level: bool, steps: int | None, seed: int
) -> None:
    y = np.random.default_rng(seed).normal(size=len(X)) + 3 * seed
    scale = float(np.mean(np.diag(_gram(expression, X)))) + 1.0
    check(expression, noise * scale, Data(X, y, free_level), Z, steps)


def _gram(expression: Expression, X: Array) -> Array:
    from mercer.compute import fused

    return fused.gram(compile_program(expression), values_of(expression), X)


def trend(rows: int, free_level: bool) -> Data:
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 6, rows)
    return Data(x[:, None], np.sin(3 * x) + 0.3 * rng.normal(size=rows) + 40 * free_level, free_level)


@LEVELS
def test_the_interval_closes_as_points_are_added(free_level: bool) -> None:
    data, values = trend(120, free_level), values_of(TREND)
    program = compile_program(TREND)
    exact = Exact().evidence(program, values, Gaussian(0.1), data, gradient=False).value
    widths = []
    order = greedy(program, values, data.X, 120)
    for count in (1, 5, 15, 40, len(order)):
        found = interval(program, values, 0.1, data, data.X[order[:count]], BoundPolicy(60, 1e-9))
        assert found.lower <= exact + 1e-6 <= found.upper + 2e-6
        widths.append(found.width)
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 10
    assert widths[-1] < 1e-4


@LEVELS
def test_steps_only_help(free_level: bool) -> None:
    data, program, values = trend(120, free_level), compile_program(TREND), values_of(TREND)
    Z = data.X[:6]
    uppers = [interval(program, values, 0.1, data, Z, BoundPolicy(steps, 0.0)).upper for steps in range(12)]
    assert all(later <= earlier + 1e-8 for earlier, later in pairwise(uppers))
    assert uppers[-1] < uppers[0] - 1


@LEVELS
def test_the_bound_without_products_is_tight_where_the_points_are_enough(free_level: bool) -> None:
    data, program, values = trend(120, free_level), compile_program(TREND), values_of(TREND)
    order = greedy(program, values, data.X, 120)
    exact = Exact().evidence(program, values, Gaussian(0.1), data, gradient=False).value
    loose, tight = (
        interval(program, values, 0.1, data, data.X[order[:m]], BoundPolicy(None)).upper for m in (5, len(order))
    )
    assert exact - 1e-6 <= tight <= exact + 1e-3
    assert loose > exact + 1


@LEVELS
def test_points_that_are_the_same_row_many_times_do_no_harm(free_level: bool) -> None:
    data, program, values = trend(120, free_level), compile_program(TREND), values_of(TREND)
    once = interval(program, values, 0.1, data, data.X[:20])
    often = interval(program, values, 0.1, data, np.vstack([data.X[:20], data.X[:20], data.X[:1]]))
    exact = Exact().evidence(program, values, Gaussian(0.1), data, gradient=False).value
    assert often.lower <= exact <= often.upper
    assert often.lower == pytest.approx(once.lower, abs=1e-2)
    assert often.upper == pytest.approx(once.upper, abs=1e-2)


@LEVELS
def test_many_steps_reach_the_exact_quadratic_term(free_level: bool) -> None:
    """What is left of the gap is the determinant alone."""
    data, program, values = trend(60, free_level), compile_program(TREND), values_of(TREND)
    Z = data.X[:6]
    K, Kfu, Kuu = (_gram(TREND, data.X), *_cross(data.X, Z))
    A, smaller = K + 0.1 * np.eye(60), Kfu @ np.linalg.solve(Kuu, Kfu.T) + 0.1 * np.eye(60)
    exact = Exact().evidence(program, values, Gaussian(0.1), data, gradient=False).value
    expected = exact + 0.5 * (np.linalg.slogdet(A)[1] - np.linalg.slogdet(smaller)[1])
    assert interval(program, values, 0.1, data, Z, BoundPolicy(200, 1e-10)).upper == pytest.approx(expected, abs=1e-6)


def _cross(X: Array, Z: Array) -> tuple[Array, Array]:
    whole = _gram(TREND, np.vstack([X, Z]))
    return whole[: len(X), len(X) :], whole[len(X) :, len(X) :]


@LEVELS
def test_the_bounds_hold_with_noise_of_single_rows(free_level: bool) -> None:
    expression = bind(SE(0, variance=1, lengthscale=0.5) + LIN(0, variance=0.3, offset=1) * WN(0, variance=1), 1)
    data = trend(80, free_level)
    check(expression, 0.1, data, data.X[:12], 5)


def test_enough_is_kept() -> None:
    data, program, values = trend(120, False), compile_program(TREND), values_of(TREND)
    Z = data.X[:20]
    rough, fine = (interval(program, values, 0.1, data, Z, BoundPolicy(500, enough)).upper for enough in (0.5, 1e-10))
    assert fine <= rough <= fine + 0.5


def test_no_number_is_an_infinite_interval() -> None:
    data, program = trend(20, False), compile_program(TREND)
    found = interval(program, values_of(TREND), 0.0, data, data.X[:5])
    assert found == Interval(-math.inf, math.inf)


@pytest.mark.filterwarnings("error")
def test_traces_too_large_to_be_squared_are_done_without() -> None:
    data = trend(30, True)
    expression = bind(SE(0, variance=1e200, lengthscale=0.1), 1)
    given = compile_program(expression), values_of(expression), 0.1, data, data.X[:3]
    wide, close = (interval(*given, BoundPolicy(None, traces=traces)) for traces in (False, True))
    assert wide.upper > wide.lower + 100
    assert close == wide


@pytest.mark.parametrize("numbers", [1, 200, 1500])
def test_strips_of_the_matrix_of_all_pairs_add_up(numbers: int) -> None:
    rng = np.random.default_rng(0)
    data = Data(rng.uniform(-3, 3, (50, 1)), rng.normal(size=50), True)
    given = compile_program(TREND), values_of(TREND), 0.1, data, data.X[:3]
    whole = interval(*given, BoundPolicy(6))
    sweep = RowSweep(backend=NumbaBackend(product_numbers=numbers))
    assert interval(*given, BoundPolicy(6), sweep).upper == pytest.approx(whole.upper, rel=1e-9)
    assert whole.upper < interval(*given, BoundPolicy(None)).upper  # by products, then


def test_a_wide_interval_is_narrowed_by_more_points_than_the_engine_has() -> None:
    rng = np.random.default_rng(0)
    data = Data(np.sort(rng.uniform(0, 10, (400, 1)), axis=0), rng.normal(size=400))
    expression = bind(SE(0, variance=1, lengthscale=0.3), 1)
    program, values = compile_program(expression), values_of(expression)
    engine = VFE(inducing=10)
    held = engine.hold(program, values, data)
    wide = interval(program, values, 0.1, data, held.Z, BoundPolicy(traces=True))
    narrow, points = closest(program, values, 0.1, data, held, engine)
    exact = Exact().evidence(program, values, Gaussian(0.1), data, gradient=False).value
    assert wide.width > 100
    assert points in (40, 80, 160)
    assert narrow.width < DEFAULT.narrow
    assert narrow.lower - 1e-6 <= exact <= narrow.upper + 1e-6
    quick = BoundPolicy(finest=1.0)  # where a pass takes long, the engine's points have to do
    assert closest(program, values, 0.1, data, held, engine, quick) == (wide, 10)


@given(
    eigenvalues=st.lists(st.floats(0, 1) | st.floats(0, 1e4) | st.just(0.0), min_size=1, max_size=30),
    rounding=st.sampled_from([0.0, 1e-9]),
)
def test_two_traces_bound_a_determinant(eigenvalues: list[float], rounding: float) -> None:
    e = np.array(eigenvalues)
    found = Traces(len(e), float(e.sum()), float((e**2).sum()), rounding, rounding)
    exact = float(np.log1p(e).sum())
    slack = 1e-9 * (1 + exact) + len(e) * rounding
    assert found.least() <= exact + slack
    assert exact <= found.most() + slack
    assert found.most() <= float(e.sum()) + slack  # no worse than the trace alone


@pytest.mark.parametrize("equal", [0.0, 1e-3, 7.0])
def test_of_equal_eigenvalues_two_traces_tell_all(equal: float) -> None:
    found = Traces(12, 12 * equal, 12 * equal**2, 0.0, 0.0)
    assert found.least() == pytest.approx(12 * math.log1p(equal))
    assert found.most() == pytest.approx(12 * math.log1p(equal))


@pytest.mark.parametrize("numbers", [1, 999, 10**6])
@pytest.mark.parametrize("white", [False, True])
def test_the_traces_are_those_of_the_matrix(numbers: int, white: bool) -> None:
    data = trend(60, True)
    Z = data.X[:6]
    K, (Kfu, Kuu) = _gram(TREND, data.X), _cross(data.X, Z)
    D = 0.1 * np.eye(60) + (np.diag(LIN_VARIANCE * (data.X[:, 0] - 1) ** 2) if white else 0.0)
    smaller = Kfu @ np.linalg.solve(Kuu, Kfu.T)
    E = np.linalg.solve(smaller + D, K - smaller)
    expression = bind(TREND + LIN(0, variance=LIN_VARIANCE, offset=1) * WN(0, variance=1), 1) if white else TREND
    model = model_of(
        compile_program(expression), values_of(expression), 0.1, data, Z, NumbaBackend(strip_numbers=numbers)
    )
    solution = solve(model, data)
    assert not isinstance(solution, Failure)
    found = measure_traces(solution, data)
    assert found.total == pytest.approx(np.trace(E), rel=1e-7)
    assert found.squares == pytest.approx(np.trace(E @ E), rel=1e-7)
    assert found.least() < np.linalg.slogdet(np.eye(60) + E)[1] < found.most()


@LEVELS
def test_traces_and_steps_close_most_of_the_gap(free_level: bool) -> None:
    data, program, values = trend(200, free_level), compile_program(TREND), values_of(TREND)
    Z = data.X[greedy(program, values, data.X, 12)]
    wide, close = (interval(program, values, 0.1, data, Z, BoundPolicy(traces=traces)) for traces in (False, True))
    assert close.width < 0.4 * wide.width


def _precisely(lengthscale: float, variance: float, noise: float, x: Array, seed: int) -> tuple[Array, float]:
    """Return a draw from a process with a squared exponential kernel, and its log evidence, in long double."""
    one = np.longdouble(1)
    gap = (x[:, None] - x) / (one * lengthscale)
    lower = variance * np.exp(-gap * gap / 2) + noise * one * np.eye(len(x))
    for j in range(len(x)):  # no library factorises long doubles
        lower[j:, j] /= np.sqrt(lower[j, j])
        lower[j + 1 :, j + 1 :] -= np.outer(lower[j + 1 :, j], lower[j + 1 :, j])
    lower = np.tril(lower)
    y = (lower @ np.random.default_rng(seed).normal(size=len(x))).astype(np.float64)
    left = y * one
    for j in range(len(x)):
        left[j] /= lower[j, j]
        left[j + 1 :] -= lower[j + 1 :, j] * left[j]
    value = -0.5 * (left @ left + len(x) * np.log(2 * one * np.pi)) - np.log(np.diagonal(lower)).sum()
    return y, float(value)


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="long doubles are no longer than doubles here")
@pytest.mark.parametrize("steps", [1, 5, 60])
@pytest.mark.parametrize("noise", [1e-9, 1e-8, 1e-6, 1e-2])
@pytest.mark.parametrize("variance", [1.0, 1e4])
def test_the_bounds_hold_where_rounding_is_all_that_is_left(variance: float, noise: float, steps: int) -> None:
    """With tiny noise the steps of conjugate gradients are huge and cancel, and what they miss is badly known."""
    x = np.sort(np.random.default_rng(5).uniform(0, 6, 120))
    for lengthscale in (0.3, 1.0, 10.0):
        y, exact = _precisely(lengthscale, variance, noise, x, 5)
        expression = bind(SE(0, variance=variance, lengthscale=lengthscale), 1)
        program, values = compile_program(expression), values_of(expression)
        for points in (5, 120):
            Z = x[greedy(program, values, x[:, None], points)][:, None]
            found = interval(program, values, noise, Data(x[:, None], y), Z, BoundPolicy(steps, traces=True))
            slack = 1e-7 * (1.0 + abs(exact))
            assert found.lower <= exact + slack
            assert exact <= found.upper + slack


def test_points_in_clusters_do_not_make_the_lower_bound_larger_than_what_it_bounds() -> None:
    """With little noise tr(D^-1 (K0 - Q)) is a difference of numbers so large that a wrong Q shows.

    Points that move went there for its sake.
    """
    x = np.linspace(-1.73, 1.73, 400)
    expression = bind(SE(0, variance=88.4, lengthscale=0.674), 1)
    program, values = compile_program(expression), values_of(expression)
    data = Data(x[:, None], 1.4 * np.sin(5.2 * x) + 1e-4 * np.random.default_rng(0).normal(size=400))
    Z = np.array([
        -1.32042572, 2.13581587, 0.79460516, -0.66994806, 2.93797539, -1.74388815, -0.6638908, 0.79728168, -0.74240427,
        -1.38421174, 0.77770132, -0.69659286, -1.09488006, 1.98690259, 2.11696883, -2.71154615, -0.33305872,
    ])  # fmt: skip
    exact = Exact().evidence(program, values, Gaussian(1e-8), data, gradient=False)
    assert exact.jitter == 0
    found = FixedVFE(Z[:, None]).evidence(program, values, Gaussian(1e-8), data)
    assert found.value <= exact.value + 1.0
    assert math.isfinite(found.value)
    assert found.jitter > 0.0
