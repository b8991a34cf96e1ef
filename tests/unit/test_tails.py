"""Heavy tails: Student's t with a given variance, and when errors call for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, t

import mercer
from mercer.learners.averaging import inverse_freedom, student_log_density


@given(error=st.floats(-50, 50), variance=st.floats(1e-3, 1e3), freedom=st.floats(2.5, 100))
def test_the_density_is_students_with_the_variance_asked_for(error: float, variance: float, freedom: float):
    scale = np.sqrt(variance * (freedom - 2) / freedom)
    found = student_log_density(np.array([error]), np.array([variance]), 1 / freedom)
    np.testing.assert_allclose(found, t.logpdf(error, freedom, scale=scale), rtol=1e-9)
    assert t.var(freedom, scale=scale) == pytest.approx(variance)


def test_without_tails_it_is_a_gaussian():
    error, variance = np.array([0.3, -2.0]), np.array([1.0, 4.0])
    np.testing.assert_allclose(student_log_density(error, variance, 0.0), norm.logpdf(error, scale=np.sqrt(variance)))


@pytest.mark.parametrize(("freedom", "expected"), [(3.0, (3, 5)), (np.inf, (np.inf,))])
def test_tails_are_called_heavy_where_they_are(freedom: float, expected: tuple[float, ...]):
    rng = np.random.default_rng(0)
    errors = rng.standard_t(freedom, 2000) / np.sqrt(3.0) if np.isfinite(freedom) else rng.standard_normal(2000)
    inverse = inverse_freedom(lambda tails: float(student_log_density(errors, np.ones(2000), tails).sum()))
    assert (1 / inverse if inverse else np.inf) >= expected[0]
    assert (1 / inverse if inverse else np.inf) <= expected[-1]


def test_a_wrong_entry_is_not_called_impossible_after_others_were_seen():
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 10, (150, 1))
    y = np.sin(X[:, 0]) + 0.05 * rng.standard_normal(150)
    y[::15] += rng.choice([-1.0, 1.0], 10)
    model = mercer.GPRegressor("SE").fit(X, y)
    mean, std = model.predict([[5.0]], return_std=True)
    far = mean + 8 * std
    assert model.log_density([[5.0]], far)[0] > norm.logpdf(far, mean, std)[0] + 10
    # bands are what they were: only the shape of the density beyond them changed
    assert model.log_density([[5.0]], mean)[0] > norm.logpdf(mean, mean, std)[0]


def test_gaussian_errors_leave_the_density_gaussian():
    rng = np.random.default_rng(2)
    X = rng.uniform(0, 10, (120, 1))
    model = mercer.GPRegressor("SE").fit(X, np.sin(X[:, 0]) + 0.2 * rng.standard_normal(120))
    mean, std = model.predict([[5.0]], return_std=True)
    np.testing.assert_allclose(model.log_density([[5.0]], mean + std), norm.logpdf(mean + std, mean, std))
