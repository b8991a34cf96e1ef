"""Tables whose rows form a grid: recognised, fitted by grid inference, saved and loaded."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer
from mercer import GPRegressor
from mercer.estimators.learning import chosen_engine
from mercer.inference import choose
from mercer.kernels import bind, parse
from mercer.kernels.units import Units
from mercer.learners import large


def grid_rows(missing: int = 100) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = np.stack([g.ravel() for g in np.meshgrid(np.arange(40.0), np.linspace(0, 5, 25), indexing="ij")], 1)
    keep = rng.permutation(len(X))[missing:]
    y = np.sin(X[:, 0] / 6) * np.cos(X[:, 1]) + 0.1 * rng.normal(size=len(X))
    return X[keep], y[keep]


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "EXACT_ROWS", 500)
    monkeypatch.setattr(large, "SAMPLE", 150)


def test_rows_that_form_a_grid_are_recognised(tmp_path: Path) -> None:
    X, y = grid_rows()
    model = GPRegressor("SE", restarts=2, random_state=0).fit(X, y)
    assert model.inference_.engine.name == "grid"
    assert "900 rows form a grid of 40 x 25 but for 100 cells" in model.inference_.reason
    assert 0.005 < model.noise_ < 0.02
    new = np.array([[10.5, 1.0], [50.0, 2.0]])
    mean, std = model.predict(new, return_std=True)
    assert abs(mean[0] - np.sin(10.5 / 6) * np.cos(1.0)) < 0.1
    assert std[1] > 2 * std[0]
    model.save(tmp_path / "grid.mercer")
    again = mercer.load(tmp_path / "grid.mercer")
    assert again.inference_.reason == model.inference_.reason
    assert_allclose(again.predict(new), mean, atol=1e-8)
    parts = model.decompose(new)
    assert_allclose(sum(part.mean for part in parts), mean, atol=1e-8)


@pytest.mark.parametrize("kernel", ["SE(0) + SE(1)", "RQ", "search"])
def test_other_kernels_on_a_grid_are_left_to_sparse_inference(kernel: str) -> None:
    X, y = grid_rows()
    model = GPRegressor(kernel)
    model._train, model._source, model._units, model._level = (X, y), None, Units((0.0, 0.0), (1.0, 1.0)), 0.0
    given = None if kernel == "search" else bind(parse(kernel), 2)
    assert chosen_engine(model, given).engine.name == "vfe"


def test_a_grid_engine_can_be_insisted_on(tmp_path: Path) -> None:
    X, y = grid_rows()
    small = X[:, 0] < 8
    model = GPRegressor("SE", restarts=1, random_state=0, inference=mercer.Grid()).fit(X[small], y[small])
    exact = GPRegressor(str(model.kernel_), noise=model.noise_, restarts=1, max_iterations=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact.fit(X[small], y[small])
    assert_allclose(model.predict(X[:5]), exact.predict(X[:5]), atol=0.02)
    model.save(tmp_path / "m")
    assert mercer.load(tmp_path / "m").inference == mercer.Grid()
    with pytest.raises(mercer.InputError, match="do not form a grid"):
        GPRegressor("SE", inference=mercer.Grid()).fit(np.vstack([X[small], X[small][:1]]), np.append(y[small], 1.0))
