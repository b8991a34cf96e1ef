"""Random walks, their integrals and damped trends: where they begin, how they go on, and what is said of them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer
from mercer.errors import KernelError
from mercer.kernels import IOU, IRW, LIN, RW, bind, layout, parse

WALKS = ("RW", "IRW", "IOU")
X = np.linspace(3.0, 9.0, 25)[:, None]


def test_the_origin_is_not_fitted_and_lies_at_the_first_row() -> None:
    y = np.cumsum(np.random.default_rng(0).normal(size=25))
    for symbol in WALKS:
        assert not any("origin" in path for path in layout(bind(parse(symbol), 1)).free_paths())
        model = mercer.GPRegressor(symbol, restarts=1, random_state=0).fit(X, y)
        (leaf,) = model.kernel_.leaves()
        assert_allclose(leaf.value("origin"), 3.0)
    model = mercer.GPRegressor("RW(0, origin=-2)", restarts=1, random_state=0).fit(X, y)
    assert_allclose(next(model.kernel_.leaves()).value("origin"), -2.0)


def test_a_walk_is_a_sum_of_steps() -> None:
    """RW: the covariance of cumulated independent steps; IRW: nearly that of their cumulated sums."""
    steps = np.tri(400) / 20.0  # 400 steps of variance 1/400 between 0 and 1
    t = np.arange(1, 401)[:, None] / 400.0
    assert_allclose(RW(variance=1, origin=0.0)(t), steps @ steps.T, rtol=1e-12)
    twice = np.tri(400) @ steps / 400.0
    assert_allclose(IRW(variance=1, origin=0.0)(t), twice @ twice.T, atol=2e-3)


def test_a_damped_trend_is_between_a_line_and_a_walk() -> None:
    t = np.linspace(-2, 5, 15)[:, None]
    line = LIN(variance=1, offset=0.0)(t)
    assert_allclose(IOU(variance=1, lengthscale=1e6, origin=0.0)(t), line, rtol=1e-4, atol=1e-4)
    walk = RW(variance=2e-3, origin=0.0)(t)
    assert_allclose(IOU(variance=1, lengthscale=1e-3, origin=0.0)(t), walk, atol=3e-6)


def test_beyond_the_data_a_walk_stays_a_slope_goes_on_and_fades() -> None:
    y = 2.0 * X[:, 0]
    ahead = np.array([[9.0], [10.0], [11.0], [30.0], [31.0]])
    steps = {}
    for symbol in WALKS:
        values = ", lengthscale=fixed(1)" if symbol == "IOU" else ""
        kernel = parse(f"{symbol}(0, variance=fixed(4), origin=3{values}) + C")
        model = mercer.GPRegressor(kernel, restarts=1, random_state=0, noise=1e-4).fit(X, y)
        steps[symbol] = np.diff(model.predict(ahead))[[0, 1, 3]]
    assert_allclose(steps["RW"], 0.0, atol=0.05)
    assert_allclose(steps["IRW"], 2.0, atol=0.05)
    assert steps["IOU"][0] > steps["IOU"][1] > steps["IOU"][2] >= 0.0


def test_words() -> None:
    y = np.cumsum(np.random.default_rng(1).normal(size=25))
    said = {s: str(mercer.GPRegressor(s, restarts=1, random_state=0).fit(X, y).explain()) for s in WALKS}
    said = {symbol: " ".join(text.split()) for symbol, text in said.items()}
    assert "that wanders like a random walk" in said["RW"]
    assert "whose slope wanders like a random walk" in said["IRW"]
    assert "whose slope wanders and fades over" in said["IOU"]


def test_random_features_refuse_them() -> None:
    for symbol in WALKS:
        length = ", lengthscale=1" if symbol == "IOU" else ""
        with pytest.raises(KernelError, match=f"{symbol} has no spectrum"):
            mercer.FeatureMap(f"{symbol}(0, variance=1, origin=0{length}) + SE(0, variance=1, lengthscale=1)").fit(X)
