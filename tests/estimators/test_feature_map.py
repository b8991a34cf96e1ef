"""`FeatureMap`: unbiased features of a kernel as a transformer of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer
from mercer.errors import InputError, KernelError
from mercer.kernels import parse


@parametrize_with_checks([mercer.FeatureMap("SE(variance=1, lengthscale=1)", count=20, random_state=0)])
def test_conventions_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize(
    "text",
    [
        "SE(0, 1, variance=2, lengthscale=[1, 0.5])",
        "M32(0, variance=1, lengthscale=1)*LIN(1, variance=1, offset=0) + PER(0, variance=1, period=2, lengthscale=1)",
        "RQ(0, 1, isotropic=True, variance=1, lengthscale=0.8, alpha=1.5)",
    ],
)
def test_products_of_features_are_unbiased(text: str) -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (6, 2))
    products = []
    for seed in range(300):
        phi = mercer.FeatureMap(text, count=60, random_state=seed).fit_transform(X)
        products.append(phi @ phi.T)
    truth = parse(text)(X)
    error = np.std(products, axis=0) / np.sqrt(len(products)) + 1e-12
    assert np.max(np.abs(np.mean(products, axis=0) - truth) / error) < 4.5


def test_it_is_a_transformer() -> None:
    X = np.random.default_rng(0).uniform(-2, 2, (80, 1))
    y = np.sin(3 * X[:, 0])
    feature_map = mercer.FeatureMap("SE(0, variance=1, lengthscale=0.5)", count=101, random_state=3)
    phi = feature_map.fit_transform(X)
    assert phi.shape == (80, 100)  # waves take two columns each
    assert list(feature_map.get_feature_names_out()[:2]) == ["featuremap0", "featuremap1"]
    assert_array_equal(clone(feature_map).fit(X).transform(X[:3]), feature_map.transform(X[:3]))
    assert make_pipeline(feature_map, Ridge(1e-3)).fit(X, y).score(X, y) > 0.99
    exact = mercer.FeatureMap("LIN(0, variance=2, offset=0.5)").fit_transform(X)
    assert_allclose(exact @ exact.T, parse("LIN(0, variance=2, offset=0.5)")(X))


def test_tables_fitted_kernels_and_white_noise() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=30), "b": rng.normal(size=30)})
    kernel = parse("SE(b, variance=1, lengthscale=2)")
    feature_map = mercer.FeatureMap(kernel, random_state=0).fit(table)
    assert list(feature_map.feature_names_in_) == ["a", "b"]
    with_noise = mercer.FeatureMap(kernel + parse("WN(b, variance=3)"), random_state=0).fit(table)
    phi = with_noise.transform(table)
    assert_allclose((phi**2).sum(axis=1), 1.0)
    model = mercer.GPRegressor("SE", restarts=1, random_state=0).fit(table, table["a"] ** 2)
    assert mercer.FeatureMap(model.kernel_, count=40).fit_transform(table).shape == (30, 40)


def test_what_cannot_be_done_is_a_sentence() -> None:
    X = np.zeros((3, 1))
    with pytest.raises(KernelError, match=r"SE.variance, SE.lengthscale: give one"):
        mercer.FeatureMap("SE").fit(X)
    with pytest.raises(KernelError, match="must be a text such as"):
        mercer.FeatureMap(3).fit(X)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="count must be a whole number"):
        mercer.FeatureMap("SE(variance=1, lengthscale=1)", count=0).fit(X)
    with pytest.raises(KernelError, match="no random features for networks of complex units"):
        mercer.FeatureMap(
            "NKN(2*EXPI(0, frequency=1), Linear2-Product1-Linear1, weights1=1, bias1=0, weights2=1, bias2=0)"
        ).fit(X)
