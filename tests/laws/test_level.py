"""A constant fitted with everything else, against slow references."""

import numpy as np
import pytest

from mercer.compute.program import compile_program
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.kernels import bind, parse
from mercer.kernels.parameters import values_of

NOISE = 0.1
TEXTS = (
    "SE(0, variance=0.7, lengthscale=0.4)",
    "LIN(0, variance=1, offset=0.3) * PER(0, variance=1, period=0.9, lengthscale=1)",
    "RQ(0, variance=2, lengthscale=2, alpha=0.5) + LIN(0, variance=1, offset=0)",
)


def problem(text: str, level: float = 5.0, rows: int = 40) -> tuple[object, np.ndarray, Data]:
    rng = np.random.default_rng(3)
    X = np.sort(rng.uniform(-2, 2, (rows, 1)), axis=0)
    bound = bind(parse(text), 1)
    data = Data(X, level + np.sin(3 * X[:, 0]) + 0.3 * rng.standard_normal(rows), free_level=True)
    return compile_program(bound), values_of(bound), data


@pytest.mark.parametrize("text", TEXTS)
def test_the_level_is_the_most_likely_constant(text):
    program, values, data = problem(text)
    found = Exact().evidence(program, values, Gaussian(NOISE), data)
    level = float(Exact().posterior(program, values, Gaussian(NOISE), data).level.mean[0])

    def at(constant):
        return Exact().evidence(program, values, Gaussian(NOISE), Data(data.X, data.y - constant)).value

    assert found.value == pytest.approx(at(level), abs=1e-9)
    assert found.value > max(at(level - 0.01), at(level + 0.01))


@pytest.mark.parametrize("text", TEXTS)
def test_gradients_hold_at_the_level_that_moves_with_them(text):
    program, values, data = problem(text)
    found, step = Exact().evidence(program, values, Gaussian(NOISE), data), 1e-5
    for place in range(len(values)):
        change = np.zeros(len(values))
        change[place] = step
        up, down = (Exact().evidence(program, values + sign * change, Gaussian(NOISE), data).value for sign in (1, -1))
        assert found.gradient[place] == pytest.approx((up - down) / (2 * step), rel=1e-4, abs=1e-5)
    up, down = (Exact().evidence(program, values, Gaussian(NOISE + sign * step), data).value for sign in (1, -1))
    assert found.noise_gradient == pytest.approx((up - down) / (2 * step), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("text", TEXTS)
def test_predictions_are_those_of_a_very_wide_constant_kernel(text):
    program, values, data = problem(text)
    wide = bind(parse(text + " + C(variance=1e5)"), 1)
    reference = Exact().posterior(compile_program(wide), values_of(wide), Gaussian(NOISE), Data(data.X, data.y))
    posterior = Exact().posterior(program, values, Gaussian(NOISE), data)
    new = np.linspace(-3, 4, 30)[:, None]
    found, slow = posterior.predict(new), reference.predict(new)
    np.testing.assert_allclose(found.mean, slow.mean, atol=1e-3)
    np.testing.assert_allclose(found.variance, slow.variance, rtol=1e-3, atol=1e-4)
    part, slow_part = posterior.predict_part(program, values, new), reference.predict_part(program, values, new)
    np.testing.assert_allclose(part.variance, slow_part.variance, rtol=1e-3, atol=1e-4)
    mean, covariance = posterior.predict_joint(new)
    np.testing.assert_allclose(mean, found.mean)
    np.testing.assert_allclose(np.diagonal(covariance), found.variance, atol=1e-8)


def test_leaving_one_out_leaves_the_level_to_the_others():
    program, values, data = problem(TEXTS[0], rows=12)
    left = Exact().posterior(program, values, Gaussian(NOISE), data).leave_one_out()
    scores = []
    for row in range(data.count):
        others = np.arange(data.count) != row
        found = Exact().posterior(program, values, Gaussian(NOISE), data.take(others)).predict(data.X[[row]])
        assert left.mean[row] == pytest.approx(found.mean[0])
        assert left.variance[row] == pytest.approx(found.variance[0] + NOISE)
        error = data.y[row] - found.mean[0]
        scores.append(-0.5 * (np.log(2 * np.pi * left.variance[row]) + error**2 / left.variance[row]))
    assert Exact().evidence(program, values, Gaussian(NOISE), data).leave_one_out == pytest.approx(sum(scores))
