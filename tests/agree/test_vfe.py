"""Sparse inference = the dense formulas; = exact inference where Z = X; its gradient = finite differences."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy.stats import multivariate_normal
from threadpoolctl import threadpool_limits

from mercer.compute.program import Program, compile_program
from mercer.errors import NumericalError
from mercer.inference.contract import Data, Evidence
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.inference.vfe import FixedVFE
from mercer.kernels import LIN, M32, PER, REGISTRY, RQ, SE, WN, C, Expression, bind, components, parse
from mercer.kernels.parameters import values_of
from tests.agree.slow_reference import slow_gram
from tests.agree.test_fused_cross import slopes
from tests.strategies import base_kernels, deep_kernels, inputs

Array = NDArray[np.float64]
LEVELS = pytest.mark.parametrize("free_level", [False, True])
SEASONAL = bind(
    SE(0, variance=1.3, lengthscale=2) * PER(0, variance=1, period=1.5, lengthscale=0.8)
    + LIN(0, variance=0.2, offset=1) * RQ(0, variance=1, lengthscale=1.5, alpha=0.6)
    + C(0.5),
    1,
)
NOISY = bind(
    SE(0, variance=1, lengthscale=1) + LIN(0, variance=0.2, offset=1) * WN(0, variance=0.3) + WN(0, variance=0.2), 1
)
NETWORK = bind(parse("NKN(SE + PER + LIN + RQ + WN, Linear4-Product2-Linear2-Product1-Linear1)"), 1)


def problem(n: int = 30, free_level: bool = False, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 6, n)
    y = np.sin(2 * np.pi * x / 1.5) + 0.3 * x + 0.2 * rng.normal(size=n) + (7 if free_level else 0)
    return Data(x[:, None], y, free_level)


def ready(expression: Expression) -> tuple[Program, Array]:
    return compile_program(expression), values_of(expression)


def network_values(expression: Expression) -> Array:
    values = values_of(expression)
    return np.where(np.isnan(values), np.random.default_rng(0).uniform(0.3, 1, len(values)), values)


# ------------------------------------------------------------------------------------------------------------- value


def dense_bound(K: Array, Kfu: Array, Kuu: Array, noise: Array, y: Array, free_level: bool) -> float:
    Q = Kfu @ np.linalg.solve(Kuu, Kfu.T)
    A = Q + np.diag(noise)
    level = 0.0
    if free_level:
        pull = np.linalg.solve(A, np.ones(len(y)))
        level = pull @ y / pull.sum()
    fit = multivariate_normal(np.full(len(y), level), A).logpdf(y)
    return float(fit - 0.5 * (np.diag(K - Q) / noise).sum())


@LEVELS
def test_the_value_is_the_dense_formula(free_level: bool) -> None:
    data, Z = problem(free_level=free_level), np.linspace(0, 6, 7)[:, None]
    K, Kfu, Kuu = slow_gram(SEASONAL, data.X), slow_gram(SEASONAL, data.X, Z), slow_gram(SEASONAL, Z)
    expected = dense_bound(K, Kfu, Kuu, np.full(30, 0.1), data.y, free_level)
    found = FixedVFE(Z).evidence(*ready(SEASONAL), Gaussian(0.1), data)
    assert_allclose(found.value, expected, rtol=1e-9)
    assert FixedVFE(Z).evidence(*ready(SEASONAL), Gaussian(0.1), data, gradient=False).value == found.value
    assert found.jitter == 0
    assert found.leave_one_out is None
    assert found.value < Exact().evidence(*ready(SEASONAL), Gaussian(0.1), data, gradient=False).value


@LEVELS
def test_white_noise_is_noise_of_its_row(free_level: bool) -> None:
    """Also where it depends on the row, and though Z are rows of X, whose white noise would be told otherwise."""
    data = problem(free_level=free_level)
    Z = data.X[:7]
    smooth = bind(SE(0, variance=1, lengthscale=1), 1)
    K, Kfu, Kuu = slow_gram(smooth, data.X), slow_gram(smooth, data.X, Z), slow_gram(smooth, Z)
    noise = 0.1 + 0.2 * (data.X[:, 0] - 1) ** 2 * 0.3 + 0.2
    found = FixedVFE(Z).evidence(*ready(NOISY), Gaussian(0.1), data)
    assert_allclose(found.value, dense_bound(K, Kfu, Kuu, noise, data.y, free_level), rtol=1e-9)
    exact = Exact().evidence(*ready(NOISY), Gaussian(0.1), data)
    assert_allclose(FixedVFE(data.X).evidence(*ready(NOISY), Gaussian(0.1), data).value, exact.value, rtol=1e-7)


def test_white_noise_and_noise_are_one_thing() -> None:
    data, Z = problem(), np.linspace(0, 6, 7)[:, None]
    white = bind(SE(0, variance=1, lengthscale=1) + WN(0, variance=0.3), 1)
    one = FixedVFE(Z).evidence(*ready(bind(SE(0, variance=1, lengthscale=1), 1)), Gaussian(0.4), data)
    other = FixedVFE(Z).evidence(*ready(white), Gaussian(0.1), data)
    assert_allclose(other.value, one.value, rtol=1e-11)
    assert one.gradient is not None
    assert other.gradient is not None
    expected = np.append(one.gradient, one.noise_gradient)
    assert_allclose(other.gradient, expected, rtol=1e-8)
    assert_allclose(other.noise_gradient, expected[-1], rtol=1e-8)


def test_white_noise_that_rows_share_stays_in_the_kernel() -> None:
    x = np.repeat(np.arange(8.0), 2)
    data = Data(x[:, None], np.sin(x) + 0.1 * np.arange(16))
    expression = bind(SE(0, variance=1, lengthscale=1) + WN(0, variance=0.5), 1)
    exact = Exact().evidence(*ready(expression), Gaussian(0.1), data)
    assert_allclose(
        FixedVFE(data.X[::2]).evidence(*ready(expression), Gaussian(0.1), data).value, exact.value, rtol=1e-8
    )
    assert FixedVFE(data.X[:6:2]).evidence(*ready(expression), Gaussian(0.1), data).value < exact.value


def test_a_kernel_of_nothing_but_white_noise() -> None:
    data = problem()
    found = FixedVFE(data.X[:3]).evidence(*ready(bind(WN(0, variance=0.5), 1)), Gaussian(0.2), data)
    exact = Exact().evidence(*ready(bind(WN(0, variance=0.5), 1)), Gaussian(0.2), data)
    assert_allclose(found.value, exact.value, rtol=1e-12)
    assert_allclose(found.noise_gradient, exact.noise_gradient, rtol=1e-10)
    assert_allclose(found.gradient, exact.gradient, rtol=1e-10)


@settings(max_examples=30, deadline=None)
@given(expression=deep_kernels(), X=inputs(min_rows=2), free_level=st.booleans())
def test_all_rows_as_inducing_points_give_exact_inference(expression: Expression, X: Array, free_level: bool) -> None:
    X = np.unique(X, axis=0)
    noise = 0.1 * float(np.mean(np.diag(slow_gram(expression, X)))) + 0.01
    data = Data(X, np.cos(np.arange(len(X))), free_level and len(X) > 1)
    found, exact = (engine.evidence(*ready(expression), Gaussian(noise), data) for engine in (FixedVFE(X), Exact()))
    assert found.failure is None
    assert_allclose(found.value, exact.value, rtol=1e-6, atol=1e-6)
    size = 1 + np.abs(exact.gradient).max(initial=0)
    assert_allclose(found.gradient, exact.gradient, rtol=1e-4, atol=1e-4 * size)
    assert_allclose(found.noise_gradient, exact.noise_gradient, rtol=1e-4, atol=1e-4 * size)


# ---------------------------------------------------------------------------------------------------------- gradient


def check_gradient(program: Program, values: Array, noise: float, data: Data, Z: Array) -> None:
    found = FixedVFE(Z).evidence(program, values, Gaussian(noise), data)
    assert found.failure is None

    jitters = {found.jitter > 0}

    def value(point: Array) -> float:
        evidence = FixedVFE(Z).evidence(program, point[:-1], Gaussian(point[-1]), data, False)
        jitters.add(evidence.jitter > 0)
        return evidence.value

    expected = slopes(value, np.append(values, noise))
    if len(jitters) > 1:  # across a jitter that comes or goes there is no gradient
        assume(False)
    total = np.append(found.gradient, found.noise_gradient)
    assert_allclose(total, expected, rtol=1e-5, atol=2e-6 * (1 + np.abs(total).max()))


def spread(dimensions: int, rows: int = 12) -> tuple[Array, Array]:
    """Rows, and inducing points that are far apart: differences need more digits of the value than gradients do."""
    rng = np.random.default_rng(dimensions)
    points = np.stack([rng.permutation([-2.137, 0.219, 1.871]) for _ in range(dimensions)]).T
    return rng.uniform(-2, 2, (rows, dimensions)), points


def well_conditioned(expression: Expression, Z: Array) -> bool:
    """Differences of the value have digits enough, and no jitter moves with the values."""
    return bool(np.linalg.cond(slow_gram(expression, Z)) < 1e6)


@pytest.mark.parametrize("symbol", sorted(REGISTRY))
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_gradients_of_base_kernels(symbol: str, data: st.DataObject) -> None:
    expression = data.draw(base_kernels(symbol=symbol))
    X, Z = spread(3)
    noise = 0.1 * float(np.mean(np.diag(slow_gram(expression, X)))) + 0.05
    rows = Data(X, np.cos(np.arange(12)), data.draw(st.booleans()))
    check_gradient(*ready(expression), noise, rows, Z if well_conditioned(expression, Z) else Z[:1])


@settings(max_examples=20, deadline=None)
@given(expression=deep_kernels(), free_level=st.booleans())
def test_gradients_of_sums_and_products(expression: Expression, free_level: bool) -> None:
    X, Z = spread(3)
    noise = 0.1 * float(np.mean(np.diag(slow_gram(expression, X)))) + 0.05
    assume(well_conditioned(expression, Z))
    check_gradient(*ready(expression), noise, Data(X, np.cos(np.arange(12)), free_level), Z)


@LEVELS
def test_gradients_of_a_network(free_level: bool) -> None:
    check_gradient(compile_program(NETWORK), network_values(NETWORK), 0.1, problem(40, free_level), spread(1)[1] + 2)


@LEVELS
def test_gradients_with_noise_that_differs_by_row(free_level: bool) -> None:
    check_gradient(*ready(NOISY), 0.1, problem(free_level=free_level), np.linspace(0, 6, 5)[:, None])


# ----------------------------------------------------------------------------------------- blocks, threads and memory


def both(found: Evidence) -> Array:
    assert found.gradient is not None
    assert found.noise_gradient is not None
    return np.concatenate([[found.value, found.noise_gradient], found.gradient])


@LEVELS
@pytest.mark.parametrize("expression", [SEASONAL, NOISY])
def test_the_size_of_blocks_does_not_matter(expression: Expression, free_level: bool) -> None:
    data, Z = problem(100, free_level), np.linspace(0, 6, 9)[:, None]
    whole = FixedVFE(Z).evidence(*ready(expression), Gaussian(0.1), data)
    for block in (1, 7, 99, 100):
        found = FixedVFE(Z, block).evidence(*ready(expression), Gaussian(0.1), data)
        assert_allclose(both(found), both(whole), rtol=1e-8, atol=1e-8)
        one, other = (e.posterior(*ready(expression), Gaussian(0.1), data) for e in (FixedVFE(Z, block), FixedVFE(Z)))
        assert_allclose(one.predict(data.X).variance, other.predict(data.X).variance, rtol=1e-8)
        assert_allclose(one.leave_one_out().mean, other.leave_one_out().mean, rtol=1e-8)


def test_the_number_of_threads_does_not_matter() -> None:
    data, Z = problem(2000), np.linspace(0, 6, 20)[:, None]
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(both(FixedVFE(Z).evidence(*ready(SEASONAL), Gaussian(0.1), data)))
    assert_allclose(found[1], found[0], rtol=1e-8)


def test_memory_stays_far_below_a_matrix_of_all_rows() -> None:
    rows, points = 30_000, 100
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (rows, 2))
    data, engine = Data(X, X[:, 0]), FixedVFE(X[:points])
    program, values = ready(bind(M32(variance=1, lengthscale=[0.5, 0.5]), 2))
    few = data.take(np.arange(10 * points))
    engine.evidence(program, values, Gaussian(0.1), few)  # what is compiled here the first time is not counted
    engine.posterior(program, values, Gaussian(0.1), few).predict(X[:10])
    tracemalloc.start()
    try:
        engine.evidence(program, values, Gaussian(0.1), data)
        _, peak = tracemalloc.get_traced_memory()
        engine.posterior(program, values, Gaussian(0.1), data).predict(X)
        _, later = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 0.02 * 8 * rows**2
    assert later < 0.02 * 8 * rows**2


# --------------------------------------------------------------------------------------------------------- posterior


@LEVELS
def test_the_posterior_is_exact_where_all_rows_are_inducing_points(free_level: bool) -> None:
    data, new = problem(30, free_level), np.linspace(-1, 8, 11)[:, None]
    found = FixedVFE(data.X).posterior(*ready(SEASONAL), Gaussian(0.1), data)
    exact = Exact().posterior(*ready(SEASONAL), Gaussian(0.1), data)
    close = {"rtol": 1e-5, "atol": 1e-5}
    for one, other in [
        (found.predict(new), exact.predict(new)),
        (found.level, exact.level),
        (found.leave_one_out(), exact.leave_one_out()),
        *((p.predict_part(*ready(k), new) for p in (found, exact)) for k in components(SEASONAL)),
    ]:
        assert_allclose(one.mean, other.mean, **close)
        assert_allclose(one.variance, other.variance, **close)
    for one, other in zip(found.predict_joint(new), exact.predict_joint(new), strict=True):
        assert_allclose(one, other, **close)


@LEVELS
def test_the_posterior_is_the_textbooks(free_level: bool) -> None:
    """mean c + K*u g, covariance K** - Q** + K*u (Kuu + Phi)^-1 Ku*, and what the level adds."""
    data, Z, new = problem(free_level=free_level), np.linspace(0, 6, 7)[:, None], np.linspace(-1, 8, 5)[:, None]
    Kfu, Kuu, Ksu = (slow_gram(SEASONAL, X, Z) for X in (data.X, Z, new))
    A = Kfu @ np.linalg.solve(Kuu, Kfu.T) + 0.1 * np.eye(30)
    Qsf = Ksu @ np.linalg.solve(Kuu, Kfu.T)
    pull = np.linalg.solve(A, np.ones(30))
    level = pull @ data.y / pull.sum() if free_level else 0.0
    mean = level + Qsf @ np.linalg.solve(A, data.y - level)
    covariance = slow_gram(SEASONAL, new) - Qsf @ np.linalg.solve(A, Qsf.T)
    if free_level:
        covariance += np.outer(1 - Qsf @ pull, 1 - Qsf @ pull) / pull.sum()
    posterior = FixedVFE(Z).posterior(*ready(SEASONAL), Gaussian(0.1), data)
    found, joint = posterior.predict(new), posterior.predict_joint(new)
    assert_allclose(found.mean, mean, rtol=1e-8)
    assert_allclose(found.variance, np.diag(covariance), rtol=1e-8)
    assert_allclose(joint[0], mean, rtol=1e-8)
    assert_allclose(joint[1], covariance, rtol=1e-7, atol=1e-9)
    parts = [posterior.predict_part(*ready(k), new).mean for k in components(SEASONAL)]
    assert_allclose(level + np.sum(parts, axis=0), mean, rtol=1e-9)
    precision = np.linalg.inv(A) - (np.outer(pull, pull) / pull.sum() if free_level else 0)
    left = posterior.leave_one_out()
    assert_allclose(left.variance, 1 / np.diag(precision), rtol=1e-7)
    assert_allclose(left.mean, data.y - (precision @ data.y) / np.diag(precision), rtol=1e-7, atol=1e-9)


def test_white_noise_is_in_the_variance_of_f_and_not_in_its_mean() -> None:
    data, Z, new = problem(), np.linspace(0, 6, 9)[:, None], np.linspace(-1, 8, 5)[:, None]
    smooth = bind(SE(0, variance=1, lengthscale=1), 1)
    white = bind(SE(0, variance=1, lengthscale=1) + WN(0, variance=0.3), 1)
    plain = FixedVFE(Z).posterior(*ready(smooth), Gaussian(0.4), data)
    posterior = FixedVFE(Z).posterior(*ready(white), Gaussian(0.1), data)
    assert_allclose(posterior.predict(new).mean, plain.predict(new).mean, rtol=1e-9)
    assert_allclose(posterior.predict(new).variance, plain.predict(new).variance + 0.3, rtol=1e-9)
    alone = posterior.predict_part(*ready(bind(WN(0, variance=0.3), 1)), new)
    assert_allclose(alone.mean, 0, atol=0)
    assert_allclose(alone.variance, 0.3)
    part = posterior.predict_part(*ready(smooth), new)
    assert_allclose(part.variance, plain.predict(new).variance, rtol=1e-9)


def test_samples_have_the_right_mean_and_covariance() -> None:
    data, Z, new = problem(15), np.linspace(0, 6, 7)[:, None], np.array([[0.5], [1.1], [8.0]])
    posterior = FixedVFE(Z).posterior(*ready(SEASONAL), Gaussian(0.1), data)
    mean, covariance = posterior.predict_joint(new)
    samples = posterior.sample(new, 20_000, np.random.default_rng(0), 0.3)
    deviation = np.sqrt(np.diag(covariance) + 0.3)
    assert_allclose(samples.mean(axis=1), mean, atol=4 * deviation.max() / 20_000**0.5)
    error = np.abs(np.cov(samples) - covariance - 0.3 * np.eye(3)) / np.outer(deviation, deviation)
    assert error.max() < 5 / 20_000**0.5


# ---------------------------------------------------------------------------------------------- jitter and failures


def test_repeated_inducing_points_are_mended_and_the_mending_reported() -> None:
    data, Z = problem(), np.linspace(0, 6, 7)[:, None]
    once, twice = (FixedVFE(z).evidence(*ready(SEASONAL), Gaussian(0.1), data) for z in (Z, np.vstack([Z, Z])))
    assert once.jitter == 0
    assert 0 < twice.jitter < 1e-8
    assert_allclose(twice.value, once.value, rtol=1e-6)
    assert FixedVFE(np.vstack([Z, Z])).posterior(*ready(SEASONAL), Gaussian(0.1), data).jitter == twice.jitter


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize(
    ("values", "noise"),
    [
        ([np.nan, 1.0], 0.1),
        ([1.0, np.nan], 0.1),
        ([np.inf, 1.0], 0.1),
        ([1.0, 0.0], 0.1),
        ([1e308, 1.0], 0.1),
        ([-1.0, 1.0], 0.1),
        ([1.0, 1.0], 0.0),
        ([1.0, 1.0], np.nan),
        ([1.0, 1.0], -5.0),
        ([1.0, 1.0], np.inf),
        ([1.0, 1.0], 1e-300),
    ],
)
def test_a_kernel_that_cannot_be_used_is_a_value_not_an_exception(values: list[float], noise: float) -> None:
    program, data = compile_program(bind(SE(0), 1)), problem(20)
    for gradient in (True, False):
        found = FixedVFE(data.X[:5]).evidence(program, np.array(values), Gaussian(noise), data, gradient)
        if found.failure is None:  # whoever has an answer must have a whole one
            assert np.isfinite(found.value)
            assert not gradient or np.isfinite(both(found)).all()
        else:
            assert found.value == -np.inf
            assert found.gradient is None
            assert len(found.failure.split()) > 2


def test_no_noise_says_why_and_the_posterior_raises() -> None:
    data = problem(20)
    found = FixedVFE(data.X[:5]).evidence(*ready(SEASONAL), Gaussian(0.0), data)
    assert found.failure is not None
    assert "noise above zero" in found.failure
    nowhere = FixedVFE(data.X[:0]).evidence(*ready(SEASONAL), Gaussian(0.1), data)
    assert nowhere.failure is not None
    assert "inducing point" in nowhere.failure
    with pytest.raises(NumericalError, match="larger noise"):
        FixedVFE(data.X[:5]).posterior(*ready(SEASONAL), Gaussian(0.0), data)


# ---------------------------------------------------------------------------------------- inducing points that move


@pytest.mark.parametrize("expression", [SEASONAL, NOISY, NETWORK])
@pytest.mark.parametrize("block", [None, 7])
def test_the_gradient_by_inducing_points(expression: Expression, block: int | None) -> None:
    data, Z = problem(25, free_level=True), np.array([[0.3], [1.7], [3.1], [4.6], [5.8]])
    program, values = compile_program(expression), network_values(expression)
    found = FixedVFE(Z, block, moving=True).evidence(program, values, Gaussian(0.1), data)
    assert found.by_points is not None

    def value(moved: Array) -> float:
        return FixedVFE(moved.reshape(Z.shape)).evidence(program, values, Gaussian(0.1), data, gradient=False).value

    assert_allclose(found.by_points.ravel(), slopes(value, Z.ravel()), rtol=2e-5, atol=1e-5)
    still = FixedVFE(Z, block).evidence(program, values, Gaussian(0.1), data)
    assert still.by_points is None
    assert_allclose(found.gradient, still.gradient, rtol=1e-9)


def test_points_that_move_make_the_bound_tighter() -> None:
    from mercer.fitting.minimise import minimise
    from mercer.fitting.problem import FitOptions, prepare
    from mercer.learners.many_rows import minimise_jointly

    data, Z = problem(80, free_level=True), np.linspace(0, 6, 6)[:, None]
    engine = FixedVFE(Z)
    task = prepare(bind(SE(0), 1), data, engine, FitOptions())
    point = task.point(np.array([1.0, 0.5]), Gaussian(0.2))
    (still,) = minimise(task, [point], 30)
    run, moved = minimise_jointly(task, engine, point, 30)
    assert run.value < still.value - 0.5
    values, likelihood = task.split(run.point)
    assert_allclose(moved.evidence(task.program, values, likelihood, data).value, -run.value, rtol=1e-9)
