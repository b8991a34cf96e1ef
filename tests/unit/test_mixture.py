"""Averages of fitted kernels: density, samples on both sides of the end of the data, weights of bad forecasters."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, t

import mercer
from mercer.compute.program import compile_program
from mercer.errors import InputError
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.kernels import parse
from mercer.kernels.parameters import bind, values_of
from mercer.learners.averaging import ForecastErrors, forecast_tails, stack_weights
from mercer.model.fitted import KernelMixture, MixtureMember


def mixture(within: tuple[float, ...], beyond: tuple[float, ...], levels: tuple[float, ...]) -> KernelMixture:
    """Members that are sure of different levels, on rows from 0 to 1."""
    X = np.linspace(0.0, 1.0, 12)[:, None]
    kernel = bind(parse("SE(0, variance=0.01, lengthscale=5)"), 1)
    members = []
    for inner, outer, level in zip(within, beyond, levels, strict=True):
        data = Data(X, np.full(12, level), free_level=True)
        posterior = Exact().posterior(compile_program(kernel), values_of(kernel), Gaussian(1e-4), data)
        members.append(MixtureMember(kernel, 1e-4, inner, outer, 1.0, posterior))
    return KernelMixture(tuple(members), 0, (0.0, 1.0), tails_beyond=0.25)


def test_the_density_is_that_of_the_mixture_and_not_of_its_gaussian_summary():
    both = mixture((0.5, 0.5), (0.2, 0.8), (-1.0, 1.0))
    rows, y = np.array([[0.5], [1.5]]), np.array([1.0, -1.0])
    parts = [member.posterior.predict(rows) for member in both.members]
    weights = np.array([[0.5, 0.2], [0.5, 0.8]])
    scales = [np.sqrt(p.variance + 1e-4) for p in parts]
    # within: Gaussian, as nothing is known of errors; beyond: t of the same variance
    density = [[norm.pdf(y[0], p.mean[0], s[0]), t.pdf(y[1], 4, p.mean[1], s[1] / 2**0.5)]
               for p, s in zip(parts, scales, strict=True)]  # fmt: skip
    expected = np.log((weights * np.array(density)).sum(axis=0))
    np.testing.assert_allclose(both.log_density(rows, y), expected, rtol=1e-10)
    summary = both.predict(rows, include_noise=True)
    assert both.log_density(rows, y)[0] > norm.logpdf(y, summary.mean, np.sqrt(summary.variance))[0] + 1


def test_samples_follow_the_weights_on_both_sides_of_the_end():
    both = mixture((0.9, 0.1), (0.3, 0.7), (-1.0, 1.0))
    samples = both.sample(np.array([[0.5], [1.2]]), 4000, np.random.default_rng(0), include_noise=False)
    assert np.mean(samples[0] > 0) == pytest.approx(0.1, abs=0.02)
    assert np.mean(samples[1] > 0) == pytest.approx(0.7, abs=0.03)
    assert not np.any((samples[0] > 0) & (samples[1] < 0))  # one number chooses both: 0.9 and 0.3 overlap in order


def test_a_hopeless_forecaster_gets_no_weight():
    rng = np.random.default_rng(0)
    error, small = rng.normal(0, 0.1, 60), np.full(60, 0.01)
    clean, hopeless = ForecastErrors(error, small), ForecastErrors(10 * error, 100 * small)
    weights = stack_weights([clean, hopeless])
    assert weights.tolist() == [1.0, 0.0]
    close = stack_weights([clean, ForecastErrors(1.5 * error, 2 * small)])
    assert close[1] > 0


def test_log_density_is_in_the_units_of_the_target():
    x = np.linspace(0, 4, 40)[:, None]
    y = 50 + 30 * np.sin(2 * x[:, 0]) + np.random.default_rng(0).normal(0, 2, 40)
    model = mercer.GPRegressor("SE", random_state=0).fit(x, y)
    mean, std = model.predict(x, return_std=True)
    np.testing.assert_allclose(model.log_density(x, y), norm.logpdf(y, mean, std), rtol=1e-8)
    with pytest.raises(InputError, match="X has 40 rows and y has 3"):
        model.log_density(x, y[:3])


def test_tails_of_forecasts_come_from_their_errors():
    rng = np.random.default_rng(0)
    heavy = ForecastErrors(rng.standard_t(3.0, 400) / 3**0.5, np.ones(400))
    light = ForecastErrors(rng.standard_normal(400), np.ones(400))
    assert forecast_tails([heavy], np.ones(1)) > 0.15
    assert forecast_tails([light], np.ones(1)) < 0.1
