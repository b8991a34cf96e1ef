"""Inference with random features = dense formulas for the kernel phi(x).phi(z), and comes near exact inference."""

from __future__ import annotations

import time
import tracemalloc
from functools import lru_cache

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from mercer.compute.program import compile_program
from mercer.errors import InputError, NumericalError
from mercer.inference.contract import Data, Evidence
from mercer.inference.exact import Exact
from mercer.inference.features import FeaturesPosterior, RandomFeatures
from mercer.inference.likelihood import Gaussian
from mercer.kernels import CPER, LIN, M32, PER, RQ, SE, WN, C, Expression, bind, components
from mercer.kernels.algebra import described_components
from mercer.kernels.parameters import values_of

Array = NDArray[np.float64]
NOISE = 0.1
SEASONAL = bind(
    SE(0, variance=1.3, lengthscale=2) * PER(0, variance=1, period=1.5, lengthscale=0.8)
    + LIN(0, variance=0.2, offset=1) * RQ(0, variance=1, lengthscale=1.5, alpha=0.6)
    + C(0.5),
    1,
)
NOISY = bind(SEASONAL + (LIN(0, variance=0.05, offset=2) + C(0.2)) * WN(0, variance=1), 1)
PRODUCT = bind(
    (M32(0, variance=1, lengthscale=1) + LIN(0, variance=0.3, offset=2)) * CPER(0, variance=1, period=2, lengthscale=1),
    1,
)
KERNELS = [SEASONAL, NOISY, PRODUCT]
NEW = np.linspace(-0.5, 6.5, 9)[:, None]


def problem(n: int, free_level: bool = False) -> Data:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 6, n)
    return Data(x[:, None], np.sin(2 * np.pi * x / 1.5) + 0.3 * x + 0.2 * rng.normal(size=n) + 1, free_level)


def evidence_of(engine: RandomFeatures | Exact, kernel: Expression, data: Data, gradient: bool = True) -> Evidence:
    return engine.evidence(compile_program(kernel), values_of(kernel), Gaussian(NOISE), data, gradient)


def posterior_of(engine: RandomFeatures, kernel: Expression, data: Data) -> FeaturesPosterior:
    return engine.posterior(compile_program(kernel), values_of(kernel), Gaussian(NOISE), data)


# ----------------------------------------------------------------------- against dense matrices of the features


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("free_level", [False, True])
def test_everything_equals_dense_formulas_of_the_features(kernel: Expression, free_level: bool) -> None:
    data, engine = problem(50, free_level), RandomFeatures(40, block=7)
    posterior = posterior_of(engine, kernel, data)
    phi, new, white = (posterior.features.phi(data.X), posterior.features.phi(NEW), posterior.features.noise(NEW))
    A = phi @ phi.T + np.diag(NOISE + posterior.features.noise(data.X))
    inverse = np.linalg.inv(A)
    s = inverse.sum(axis=1) if free_level else np.zeros(50)
    variance = 1 / s.sum() if free_level else 0.0
    level = variance * s @ data.y
    alpha, cross = inverse @ (data.y - level), new @ phi.T
    found = evidence_of(engine, kernel, data)
    assert_allclose(found.value, multivariate_normal(np.full(50, level), A).logpdf(data.y), rtol=1e-10)
    assert found.value == evidence_of(engine, kernel, data, gradient=False).value
    assert_allclose([*posterior.level.mean, *posterior.level.variance], [level, variance], rtol=1e-8)
    unsure = float(free_level) - cross @ s
    covariance = new @ new.T - cross @ inverse @ cross.T + np.diag(white) + variance * np.outer(unsure, unsure)
    mean, joint = posterior.predict_joint(NEW)
    assert_allclose(mean, level + cross @ alpha, rtol=1e-8)
    assert_allclose(joint, covariance, rtol=1e-6, atol=1e-9)
    alone = posterior.predict(NEW)
    assert_allclose(alone.mean, mean)
    assert_allclose(alone.variance, np.diag(covariance), rtol=1e-6, atol=1e-9)
    P = inverse - variance * np.outer(s, s)
    left_out = posterior.leave_one_out()
    assert_allclose(left_out.mean, data.y - alpha / np.diag(P), rtol=1e-7)
    assert_allclose(left_out.variance, 1 / np.diag(P), rtol=1e-7)
    assert found.leave_one_out is not None
    score = multivariate_normal(left_out.mean, np.diag(left_out.variance)).logpdf(data.y)
    assert_allclose(found.leave_one_out, score, rtol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_gradient_of_held_draws_is_that_of_differences(kernel: Expression) -> None:
    data, program = problem(60, free_level=True), compile_program(kernel)
    engine = RandomFeatures(50).hold(program, values_of(kernel), data)
    values = values_of(kernel) * 1.07
    found = engine.evidence(program, values, Gaussian(NOISE), data)
    assert found.gradient is not None
    for place in range(len(values)):
        step = np.zeros(len(values))
        step[place] = 1e-5 * values[place]
        up, down = (
            engine.evidence(program, v, Gaussian(NOISE), data, False).value for v in (values + step, values - step)
        )
        assert_allclose(found.gradient[place], (up - down) / (2 * step[place]), rtol=2e-5, atol=1e-5)
    up, down = (engine.evidence(program, values, Gaussian(NOISE + s), data, False).value for s in (1e-6, -1e-6))
    assert found.noise_gradient is not None
    assert_allclose(found.noise_gradient, (up - down) / 2e-6, rtol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_size_of_a_block_does_not_matter(kernel: Expression) -> None:
    data = problem(80, free_level=True)
    one, other = (RandomFeatures(40, block=block) for block in (11, 1000))
    a, b = evidence_of(one, kernel, data), evidence_of(other, kernel, data)
    assert a.gradient is not None
    assert b.gradient is not None
    assert_allclose(a.value, b.value, rtol=1e-11)
    assert_allclose(a.gradient, b.gradient, rtol=1e-8, atol=1e-8)
    p, q = (posterior_of(engine, kernel, data) for engine in (one, other))
    assert_allclose(p.predict(data.X).mean, q.predict(data.X).mean, rtol=1e-9)
    assert_allclose(p.leave_one_out().variance, q.leave_one_out().variance, rtol=1e-9)


# ------------------------------------------------------------------------------------------ against exact inference


@lru_cache
def repeated(kernel: Expression, count: int) -> tuple[Array, Array, Array]:
    """Evidence, means and variances from several seeds."""
    data, found = problem(60, free_level=True), []
    for seed in range(10):
        engine = RandomFeatures(count, seed)
        predicted = posterior_of(engine, kernel, data).predict(NEW)
        found.append((evidence_of(engine, kernel, data, False).value, predicted.mean, predicted.variance))
    value, mean, variance = (np.array(each) for each in zip(*found, strict=True))
    return value, mean, variance


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_many_features_come_near_exact_inference(kernel: Expression) -> None:
    """The features are unbiased for K, but log p and the predictions are not linear in it: a bias of 1 / m is left."""
    data = problem(60, free_level=True)
    truth = evidence_of(Exact(), kernel, data, False).value
    exact = Exact().posterior(compile_program(kernel), values_of(kernel), Gaussian(NOISE), data).predict(NEW)
    few, many = repeated(kernel, 100), repeated(kernel, 1600)
    for place, expected in enumerate((np.array(truth), exact.mean, exact.variance)):
        error = np.sqrt(np.mean((many[place] - expected) ** 2))
        assert error < 0.4 * np.sqrt(np.mean((few[place] - expected) ** 2))
        spread = many[place].std(axis=0, ddof=1)
        assert np.all(np.abs(many[place].mean(axis=0) - expected) < 2 * spread + 1e-9)


def test_exact_features_give_exact_inference() -> None:
    kernel, data = bind(LIN(0, variance=0.7, offset=1) + C(0.5) + WN(0, variance=0.2), 1), problem(60, free_level=True)
    found, truth = evidence_of(RandomFeatures(20), kernel, data), evidence_of(Exact(), kernel, data)
    assert found.gradient is not None
    assert truth.gradient is not None
    assert_allclose(found.value, truth.value, rtol=1e-10)
    assert_allclose(found.gradient[truth.gradient != 0], truth.gradient[truth.gradient != 0], rtol=1e-5, atol=1e-6)
    assert_allclose(found.leave_one_out or 0, truth.leave_one_out or 0, rtol=1e-9)
    exact = Exact().posterior(compile_program(kernel), values_of(kernel), Gaussian(NOISE), data).predict(NEW)
    assert_allclose(posterior_of(RandomFeatures(20), kernel, data).predict(NEW).mean, exact.mean, rtol=1e-9)
    assert_allclose(posterior_of(RandomFeatures(20), kernel, data).predict(NEW).variance, exact.variance, rtol=1e-8)


# ------------------------------------------------------------------------------------------------- parts and samples


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_parts_add_up_and_have_the_posterior_of_their_columns(kernel: Expression) -> None:
    data = problem(60, free_level=True)
    posterior = posterior_of(RandomFeatures(200), kernel, data)
    parts = [posterior.predict_part(compile_program(p), values_of(p), NEW) for p in components(kernel)]
    whole = posterior.predict(NEW)
    assert_allclose(sum(part.mean for part in parts) + posterior.level.mean, whole.mean, rtol=1e-9)
    exact = Exact().posterior(compile_program(kernel), values_of(kernel), Gaussian(NOISE), data)
    for part, found in zip(components(kernel), parts, strict=True):
        near = exact.predict_part(compile_program(part), values_of(part), NEW)
        assert_allclose(found.mean, near.mean, atol=4 * np.sqrt(near.variance).max())
        assert np.all(found.variance > 0.2 * near.variance)
        assert np.all(found.variance < 5 * near.variance + 0.1)


def test_a_part_that_has_no_columns_is_predicted_from_its_covariances() -> None:
    kernel = bind(LIN(0, variance=0.5, offset=1) * PER(0, variance=1, period=1.5, lengthscale=2.5) + C(0.5), 1)
    data = problem(60, free_level=True)
    posterior = posterior_of(RandomFeatures(3000, block=13), kernel, data)
    exact = Exact().posterior(compile_program(kernel), values_of(kernel), Gaussian(NOISE), data)
    told = described_components(kernel)
    assert len(told) == 3
    for part in told:
        found, near = (p.predict_part(compile_program(part), values_of(part), NEW) for p in (posterior, exact))
        assert_allclose(found.mean, near.mean, atol=0.3 * np.sqrt(near.variance.max()) + 0.02)
        assert_allclose(found.variance, near.variance, rtol=0.5, atol=0.02)


def test_samples_have_the_mean_and_covariance_of_the_posterior() -> None:
    posterior = posterior_of(RandomFeatures(100, block=4), NOISY, problem(60, free_level=True))
    mean, covariance = posterior.predict_joint(NEW)
    draws = posterior.sample(NEW, 20_000, np.random.default_rng(1), 0.3)
    assert draws.shape == (9, 20_000)
    deviation = np.sqrt(np.diag(covariance) + 0.3)
    assert_allclose(draws.mean(axis=1), mean, atol=5 * deviation.max() / np.sqrt(20_000))
    found = np.cov(draws) / np.outer(deviation, deviation)
    assert_allclose(
        found, (covariance + 0.3 * np.eye(9)) / np.outer(deviation, deviation), atol=5 * np.sqrt(2 / 20_000)
    )


# ------------------------------------------------------------------------------------------- size, failure, repeating


def test_a_hundred_thousand_rows_take_seconds_and_little_memory() -> None:
    n, rng = 100_000, np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 6, n))
    data = Data(x[:, None], np.sin(2 * np.pi * x / 1.5) + 0.3 * x + 0.2 * rng.normal(size=n), True)
    engine = RandomFeatures(300)
    start = time.process_time()
    tracemalloc.start()
    posterior = posterior_of(engine, SEASONAL, data)
    predicted = posterior.predict(data.X)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.process_time() - start < 30
    assert used < 150e6  # phi alone would take 240 MB
    truth = np.sin(2 * np.pi * x / 1.5) + 0.3 * x
    assert np.sqrt(np.mean((predicted.mean - truth) ** 2)) < 0.03


def test_equal_engines_agree_and_other_seeds_do_not() -> None:
    data = problem(40)
    one, same, other = (evidence_of(RandomFeatures(40, seed), SEASONAL, data).value for seed in (0, 0, 1))
    assert one == same
    assert one != other


def test_held_draws_serve_their_own_program_only() -> None:
    data, program = problem(40), compile_program(SEASONAL)
    engine = RandomFeatures(40).hold(program, values_of(SEASONAL), data)
    assert evidence_of(engine, SEASONAL, data).value == evidence_of(RandomFeatures(40), SEASONAL, data).value
    assert evidence_of(engine, PRODUCT, data).value == evidence_of(RandomFeatures(40), PRODUCT, data).value


def test_failures_are_values_in_a_search_and_errors_afterwards() -> None:
    data, program, values = problem(20), compile_program(SEASONAL), values_of(SEASONAL)
    found = RandomFeatures(20).evidence(program, values, Gaussian(0.0), data)
    assert found.value == -np.inf
    assert "noise" in (found.failure or "")
    with pytest.raises(NumericalError, match="no posterior"):
        RandomFeatures(20).posterior(program, values, Gaussian(0.0), data)
    with pytest.raises(InputError, match="at least 1"):
        RandomFeatures(0)


@pytest.mark.parametrize("count", [0, -3, 2.5, "many", True, None])
def test_a_number_of_features_that_is_none(count: object) -> None:
    with pytest.raises(InputError, match="count is a number of random features, at least 1, not"):
        RandomFeatures(count=count)
