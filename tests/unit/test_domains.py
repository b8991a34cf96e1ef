"""What each domain contains, and extreme free numbers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from mercer.kernels.domains import Domain, NonNegative, Positive, Real, Simplex


@pytest.mark.parametrize(
    ("domain", "inside", "outside"),
    [
        (Real(), [[0.0], [-1e300], [1.0, 2.0]], [[np.nan], [np.inf], [0.0, -np.inf]]),
        (Positive(), [[1e-300], [1e300], [1.0, 2.0]], [[0.0], [-1.0], [np.nan], [np.inf], [1.0, 0.0]]),
        (NonNegative(), [[0.0], [1e-300, 1e300]], [[-1e-300], [-1.0], [np.nan], [np.inf], [1.0, -3.0]]),
        (Simplex(), [[1.0], [0.5, 0.5], [0.1] * 10], [[0.5], [0.5, 0.6], [1.0, 0.0], [1.5, -0.5], [np.nan, 1.0]]),
    ],
    ids=["Real", "Positive", "NonNegative", "Simplex"],
)
def test_what_a_domain_contains(domain: Domain, inside: list[list[float]], outside: list[list[float]]) -> None:
    assert all(domain.contains(np.array(values)) for values in inside)
    assert not any(domain.contains(np.array(values)) for values in outside)
    assert domain.describe()


def test_known_maps() -> None:
    assert np.array_equal(Real().to_free(np.array([3.0])), [3.0])
    np.testing.assert_allclose(Positive().to_free(np.array([1.0, np.e])), [0.0, 1.0])
    np.testing.assert_allclose(NonNegative().to_free(np.array([np.log(2.0)])), [0.0], atol=1e-15)
    np.testing.assert_allclose(NonNegative().from_free(np.array([0.0])), [np.log(2.0)])
    np.testing.assert_allclose(Simplex().to_free(np.array([0.5, 0.25, 0.25])), [np.log(2), 0.0], atol=1e-15)
    np.testing.assert_allclose(Simplex().from_free(np.array([np.log(2), 0.0])), [0.5, 0.25, 0.25])


def test_a_single_weight_has_no_freedom() -> None:
    assert Simplex().free_size(1) == 0
    assert len(Simplex().to_free(np.array([1.0]))) == 0
    assert np.array_equal(Simplex().from_free(np.empty(0)), [1.0])
    assert len(Simplex().pullback(np.array([1.0]), np.array([2.0]))) == 0


def test_extreme_numbers_do_not_overflow() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(NonNegative().from_free(np.array([-1e4, 1e4])), [0.0, 1e4])
        np.testing.assert_allclose(Simplex().from_free(np.array([1e4, -1e4])), [1.0, 0.0, 0.0], atol=1e-300)
        extreme = np.array([1e-300, 1e-320, 1.0])
        np.testing.assert_allclose(Simplex().to_free(extreme), np.log(extreme[:2]), rtol=1e-12)
        np.testing.assert_allclose(Positive().from_free(Positive().to_free(np.array([1e-300, 1e300]))), [1e-300, 1e300])
