"""Exact inference = SciPy's normal density, textbook formulas with dense matrices, and refits without each row."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from mercer.compute.program import Program, compile_program
from mercer.errors import NumericalError
from mercer.inference.contract import Data, Evidence
from mercer.inference.exact import Exact, ExactPosterior
from mercer.inference.likelihood import Gaussian
from mercer.kernels import LIN, PER, RQ, SE, WN, C, Expression, bind, components
from mercer.kernels.parameters import values_of
from tests.agree.slow_reference import difference, slow_gram
from tests.strategies import deep_kernels, inputs

Array = NDArray[np.float64]
ENGINE = Exact()
SEASONAL = bind(
    SE(0, variance=1.3, lengthscale=2) * PER(0, variance=1, period=1.5, lengthscale=0.8)
    + LIN(0, variance=0.2, offset=1) * RQ(0, variance=1, lengthscale=1.5, alpha=0.6)
    + C(0.5),
    1,
)


def problem(n: int, even: bool = False, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    x = np.linspace(0, 6, n) if even else rng.uniform(0, 6, n)
    return Data(x[:, None], np.sin(2 * np.pi * x / 1.5) + 0.3 * x + 0.2 * rng.normal(size=n))


def evidence_of(expression: Expression, noise: float, data: Data, gradient: bool = True) -> Evidence:
    return ENGINE.evidence(compile_program(expression), values_of(expression), Gaussian(noise), data, gradient)


def posterior_of(expression: Expression, noise: float, data: Data) -> ExactPosterior:
    return ENGINE.posterior(compile_program(expression), values_of(expression), Gaussian(noise), data)


def gradient_of(evidence: Evidence) -> Array:
    assert evidence.gradient is not None
    assert evidence.noise_gradient is not None
    return np.append(evidence.gradient, evidence.noise_gradient)


# ---------------------------------------------------------------------------------------------- evidence and gradient


@settings(max_examples=40, deadline=None)
@given(expression=deep_kernels(), X=inputs(min_rows=1))
def test_evidence_of_deep_kernels_equals_scipy(expression: Expression, X: Array) -> None:
    y, K = np.cos(np.arange(len(X))), slow_gram(expression, X)
    noise = 0.1 * float(np.mean(np.diag(K))) + 0.01
    found = evidence_of(expression, noise, Data(X, y))
    expected = multivariate_normal(np.zeros(len(X)), K + noise * np.eye(len(X)), allow_singular=True).logpdf(y)
    assert_allclose(found.value, expected, rtol=1e-8, atol=1e-8)
    assert found.jitter == 0
    assert found.failure is None
    assert evidence_of(expression, noise, Data(X, y), gradient=False).value == found.value


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("n", [40, 310])
def test_evidence_equals_scipy_to_ten_digits(n: int, even: bool) -> None:
    data = problem(n, even)
    K = slow_gram(SEASONAL, data.X) if n < 100 else dense_seasonal(data.X)
    expected = multivariate_normal(np.zeros(n), K + 0.1 * np.eye(n)).logpdf(data.y)
    assert_allclose(evidence_of(SEASONAL, 0.1, data).value, expected, rtol=1e-10)


def dense_seasonal(X: Array) -> Array:
    d, x = X - X.T, X - 1
    smooth = 1.3 * np.exp(-0.5 * d**2 / 4 - 2 * np.sin(np.pi * d / 1.5) ** 2 / 0.64)
    return np.asarray(smooth + 0.2 * x * x.T * (1 + d**2 / (2 * 0.6 * 1.5**2)) ** -0.6 + 0.5)


@settings(max_examples=25, deadline=None)
@given(expression=deep_kernels(), X=inputs(min_rows=2))
def test_gradient_of_deep_kernels_equals_differences(expression: Expression, X: Array) -> None:
    data = Data(X, np.cos(np.arange(len(X))))
    program, values = compile_program(expression), values_of(expression)
    noise = 0.2 * float(np.mean(np.diag(slow_gram(expression, X)))) + 0.05
    found = gradient_of(ENGINE.evidence(program, values, Gaussian(noise), data))
    point = np.append(values, noise)

    def at(i: int, step: float) -> float:
        moved = point.copy()
        moved[i] += step
        return ENGINE.evidence(program, moved[:-1], Gaussian(moved[-1]), data, False).value

    for i in range(len(point)):
        step = 1e-4 * max(abs(point[i]), 0.05)
        slope = difference(partial(at, i), step)
        assert_allclose(found[i], slope, rtol=1e-5, atol=1e-6 * (1 + np.abs(found).max()))


def test_gradient_does_not_depend_on_the_path_taken() -> None:
    """Evenly spaced rows go through tables by lag; the same rows in another order do not."""
    data = problem(60, even=True)
    order = np.random.default_rng(1).permutation(60)
    shuffled = Data(data.X[order], data.y[order])
    one, other = evidence_of(SEASONAL, 0.1, data), evidence_of(SEASONAL, 0.1, shuffled)
    assert_allclose(one.value, other.value, rtol=1e-11)
    assert_allclose(gradient_of(one), gradient_of(other), rtol=1e-8, atol=1e-9)
    assert one.leave_one_out == pytest.approx(other.leave_one_out, rel=1e-9)


# ------------------------------------------------------------------------------------------------------ leave one out


@settings(max_examples=10, deadline=None)
@given(expression=deep_kernels(), X=inputs(min_rows=3), seed=st.integers(0, 99))
def test_leave_one_out_equals_a_refit_without_each_row(expression: Expression, X: Array, seed: int) -> None:
    y = np.random.default_rng(seed).normal(size=len(X))
    noise = 0.1 * float(np.mean(np.diag(slow_gram(expression, X)))) + 0.05
    check_leave_one_out(expression, noise, Data(X, y))


def test_leave_one_out_of_a_series() -> None:
    check_leave_one_out(SEASONAL, 0.1, problem(25, even=True))


def check_leave_one_out(expression: Expression, noise: float, data: Data) -> None:
    left = posterior_of(expression, noise, data).leave_one_out()
    total = 0.0
    for i in range(data.count):
        rest = np.arange(data.count) != i
        alone = posterior_of(expression, noise, Data(data.X[rest], data.y[rest])).predict(data.X[i : i + 1])
        variance = alone.variance[0] + noise
        size = np.abs(data.y).max()
        assert_allclose(left.mean[i], alone.mean[0], rtol=1e-7, atol=1e-8 * size)
        assert_allclose(left.variance[i], variance, rtol=1e-7)
        total += -0.5 * (np.log(2 * np.pi * variance) + (data.y[i] - alone.mean[0]) ** 2 / variance)
    assert evidence_of(expression, noise, data).leave_one_out == pytest.approx(total, rel=1e-7, abs=1e-7)


# --------------------------------------------------------------------------------------------------------- prediction


@settings(max_examples=25, deadline=None)
@given(expression=deep_kernels(), X=inputs(min_rows=2), Z=inputs())
def test_posterior_equals_the_textbook(expression: Expression, X: Array, Z: Array) -> None:
    y, K = np.sin(np.arange(len(X))), slow_gram(expression, X)
    noise = 0.1 * float(np.mean(np.diag(K))) + 0.05
    A, cross, prior = K + noise * np.eye(len(X)), slow_gram(expression, Z, X), slow_gram(expression, Z)
    mean, covariance = cross @ np.linalg.solve(A, y), prior - cross @ np.linalg.solve(A, cross.T)
    size = np.abs(prior).max() + np.abs(K).max()
    posterior = posterior_of(expression, noise, Data(X, y))
    found = posterior.predict(Z)
    assert_allclose(found.mean, mean, rtol=1e-8, atol=1e-9 * (1 + np.abs(mean).max()))
    assert_allclose(found.variance, np.diag(covariance), rtol=1e-7, atol=1e-9 * size)
    joint_mean, joint = posterior.predict_joint(Z)
    assert_allclose(joint_mean, found.mean, rtol=1e-9, atol=1e-9)
    assert_allclose(joint, covariance, rtol=1e-7, atol=1e-9 * size)
    assert_allclose(joint, joint.T, rtol=0, atol=0)


def test_prediction_in_blocks_of_rows_equals_one_block() -> None:
    data = problem(30)
    rows = np.linspace(-1, 8, 70_000)[:, None]  # 70,000 x 30 numbers do not fit in one block
    posterior = posterior_of(SEASONAL, 0.1, data)
    whole = posterior.predict(rows)
    some = np.array([0, 1, 40_000, 66_665, 66_666, 66_667, 69_999])
    alone = posterior.predict(rows[some])
    assert_allclose(whole.mean[some], alone.mean, rtol=1e-11)
    assert_allclose(whole.variance[some], alone.variance, rtol=1e-11)


@settings(max_examples=25, deadline=None)
@given(expression=deep_kernels(), X=inputs(min_rows=2), Z=inputs())
def test_components_add_up(expression: Expression, X: Array, Z: Array) -> None:
    data = Data(X, np.sin(np.arange(len(X))))
    noise = 0.1 * float(np.mean(np.diag(slow_gram(expression, X)))) + 0.05
    posterior = posterior_of(expression, noise, data)
    parts = [posterior.predict_part(compile_program(k), values_of(k), Z) for k in components(expression)]
    whole = posterior.predict(Z).mean
    size = np.sum([np.abs(part.mean) for part in parts], axis=0).max() + 1
    assert_allclose(sum(part.mean for part in parts), whole, rtol=0, atol=1e-9 * size)
    assert all((part.variance >= 0).all() for part in parts)


def test_the_variance_of_a_part_is_the_textbooks() -> None:
    data, Z = problem(20), np.linspace(0, 9, 7)[:, None]
    posterior = posterior_of(SEASONAL, 0.1, data)
    A = slow_gram(SEASONAL, data.X) + 0.1 * np.eye(20)
    for term in components(SEASONAL):
        cross = slow_gram(term, Z, data.X)
        expected = np.diag(slow_gram(term, Z)) - np.sum(cross * np.linalg.solve(A, cross.T).T, axis=1)
        found = posterior.predict_part(compile_program(term), values_of(term), Z)
        assert_allclose(found.variance, expected, rtol=1e-8)
        assert_allclose(found.mean, cross @ np.linalg.solve(A, data.y), rtol=1e-8, atol=1e-10)


def test_a_posterior_outlives_later_evaluations() -> None:
    """The evidence works in memory that is kept for the next time; a posterior must own its factor."""
    data, Z = problem(30), np.linspace(0, 9, 7)[:, None]
    posterior = posterior_of(SEASONAL, 0.1, data)
    before = posterior.predict(Z)
    first = evidence_of(SEASONAL, 0.1, data)
    gradient = gradient_of(first).copy()
    for noise in (0.5, 2.0):
        evidence_of(SEASONAL, noise, data)
    after = posterior.predict(Z)
    assert_allclose(after.mean, before.mean, rtol=0, atol=0)
    assert_allclose(after.variance, before.variance, rtol=0, atol=0)
    assert_allclose(gradient_of(first), gradient, rtol=0, atol=0)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_samples_have_the_right_mean_and_covariance(noise: float) -> None:
    data, Z = problem(15), np.array([[0.5], [1.1], [3.0], [8.0], [8.1]])
    posterior = posterior_of(SEASONAL, 0.1, data)
    mean, covariance = posterior.predict_joint(Z)
    covariance = covariance + noise * np.eye(len(Z))
    count = 20_000
    samples = posterior.sample(Z, count, np.random.default_rng(0), noise)
    assert samples.shape == (5, count)
    deviation = np.sqrt(np.diag(covariance))
    assert_allclose(samples.mean(axis=1), mean, atol=4 * deviation.max() / count**0.5)
    error = np.abs(np.cov(samples) - covariance) / np.outer(deviation, deviation)
    assert error.max() < 5 / count**0.5
    again = posterior.sample(Z, count, np.random.default_rng(0), noise)
    assert_allclose(again, samples, rtol=0, atol=0)


# ----------------------------------------------------------------------------------------------- jitter and failures


def test_a_singular_matrix_is_mended_and_the_mending_reported() -> None:
    X = np.repeat(np.arange(6.0), 3)[:, None]
    data = Data(X, np.sin(X[:, 0]))
    expression = bind(SE(0, variance=2, lengthscale=1), 1)
    found = evidence_of(expression, 0.0, data)
    assert found.failure is None
    assert found.jitter == pytest.approx(2e-10, rel=1e-6)
    posterior = posterior_of(expression, 0.0, data)
    assert posterior.jitter == found.jitter
    assert_allclose(posterior.predict(X).mean, data.y, atol=1e-6)
    assert evidence_of(expression, 0.01, data).jitter == 0


def test_samples_at_repeated_rows_are_possible_without_noise() -> None:
    posterior = posterior_of(SEASONAL, 0.1, problem(15))
    samples = posterior.sample(np.array([[1.0], [1.0], [2.0]]), 3, np.random.default_rng(0), 0.0)
    assert_allclose(samples[0], samples[1], atol=1e-3)


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
        ([1.0, 1.0], np.nan),
        ([1.0, 1.0], -5.0),
        ([1.0, 1.0], np.inf),
    ],
)
def test_a_kernel_that_cannot_be_used_is_a_value_not_an_exception(values: list[float], noise: float) -> None:
    program, data = compile_program(bind(SE(0), 1)), problem(20)
    for gradient in (True, False):
        found = ENGINE.evidence(program, np.array(values), Gaussian(noise), data, gradient)
        if found.failure is None:  # whoever has an answer must have a whole one
            assert np.isfinite(found.value)
            assert not gradient or np.isfinite(gradient_of(found)).all()
        else:
            assert found.value == -np.inf
            assert found.gradient is None
            assert len(found.failure.split()) > 2


def test_hopeless_noise_says_why_and_the_posterior_raises() -> None:
    program, data = compile_program(bind(SE(0), 1)), problem(20)
    found = ENGINE.evidence(program, np.array([1.0, 1.0]), Gaussian(-5.0), data)
    assert found.failure is not None
    assert "not positive definite" in found.failure
    with pytest.raises(NumericalError, match="larger noise"):
        ENGINE.posterior(program, np.array([1.0, 1.0]), Gaussian(-5.0), data)


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
def test_an_overflowing_target_is_a_failure() -> None:
    data = problem(20)
    found = evidence_of(SEASONAL, 0.1, Data(data.X, 1e200 * data.y))
    assert found.failure is not None
    assert found.value == -np.inf


@settings(max_examples=15, deadline=None)
@given(expression=deep_kernels(1), scale=st.sampled_from([1e-12, 1e-6, 1e6, 1e12]))
def test_units_of_the_inputs_do_not_matter(expression: Expression, scale: float) -> None:
    """Rows very far apart or very close: a number, or a failure, but never an exception."""
    data = Data(scale * np.arange(5.0)[:, None], np.cos(np.arange(5)))
    found = evidence_of(expression, 0.1, data)
    assume(found.failure is None)
    assert np.isfinite(gradient_of(found)).all()


# ------------------------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize("expression", [SEASONAL, bind(SE(variance=1, lengthscale=1) + WN(variance=0.1), 1)])
def test_evidence_needs_little_more_than_one_matrix(expression: Expression) -> None:
    n = 1500
    data = problem(n)
    program, values = compile_program(expression), values_of(expression)
    ENGINE.evidence(program, values, Gaussian(0.1), Data(data.X[:50], data.y[:50]))
    assert peak_matrices(program, values, data) < 1.2


def peak_matrices(program: Program, values: Array, data: Data) -> float:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        ENGINE.evidence(program, values, Gaussian(0.1), data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (peak - before) / (8 * data.count**2)
