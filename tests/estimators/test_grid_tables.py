"""Tables whose rows form a grid: recognised, fitted by grid inference, saved and loaded."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.policies import regressor_with

import mercer
from mercer import GPRegressor
from mercer.compute.backend import NUMBA
from mercer.compute.program import compile_program
from mercer.inference import choose
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.kernels import bind, parse
from mercer.kernels.parameters import to_scaled_units, values_of
from mercer.learners.many_rows import ManyRowsPolicy, draw_sample
from mercer.model.fitted import choose_engine, expression_or_learner

SMALL = ManyRowsPolicy(sample=150)
Regressor = regressor_with(SMALL)


def grid_rows(missing: int = 100) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = np.stack([g.ravel() for g in np.meshgrid(np.arange(40.0), np.linspace(0, 5, 25), indexing="ij")], 1)
    keep = rng.permutation(len(X))[missing:]
    y = np.sin(X[:, 0] / 6) * np.cos(X[:, 1]) + 0.1 * rng.normal(size=len(X))
    return X[keep], y[keep]


FEW = choose.ChoicePolicy(exact_rows=500)


def test_rows_that_form_a_grid_are_recognised(tmp_path: Path) -> None:
    X, y = grid_rows()
    model = regressor_with(SMALL, FEW)("SE", restarts=2, random_state=0).fit(X, y)
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
    given = None if kernel == "search" else bind(parse(kernel), 2)
    choice = choose_engine(expression_or_learner(kernel), None, NUMBA, Data(X, y, free_level=True), given, FEW)
    assert choice.engine.name == "vfe"


def test_a_grid_engine_can_be_insisted_on(tmp_path: Path) -> None:
    X, y = grid_rows()
    small = X[:, 0] < 8
    model = Regressor("SE", restarts=1, random_state=0, inference=mercer.Grid()).fit(X[small], y[small])
    exact = Regressor(str(model.kernel_), noise=model.noise_, restarts=1, max_iterations=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact.fit(X[small], y[small])
    assert_allclose(model.predict(X[:5]), exact.predict(X[:5]), atol=0.02)
    model.save(tmp_path / "m")
    assert mercer.load(tmp_path / "m").inference == mercer.Grid()
    with pytest.raises(mercer.InputError, match="do not form a grid"):
        Regressor("SE", inference=mercer.Grid()).fit(np.vstack([X[small], X[small][:1]]), np.append(y[small], 1.0))


def test_scattered_rows_are_no_grid() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 2)), rng.normal(size=50)
    model = mercer.GPRegressor("SE(0, 1)", restarts=1, random_state=0, inference=mercer.Grid()).fit(X, y)
    assert model.inference_.engine.name == "exact"
    assert "50 rows fill less than half of the 2,500 cells" in model.inference_.reason
    exact = mercer.GPRegressor("SE(0, 1)", restarts=1, random_state=0).fit(X, y)
    assert_allclose(model.log_evidence_, exact.log_evidence_, rtol=1e-6)
    with pytest.raises(mercer.InputError, match=r"50 rows fill hardly any.*Use inference=mercer\.Exact\(\)"):
        model.set_params(inference=mercer.Grid(exact_cells=40)).fit(X, y)


def wavy_and_smooth() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Smooth on one side of a slanted border, short waves on the other; 30 cells are missing."""
    rng = np.random.default_rng(0)
    axes = np.linspace(0, 1, 30), np.linspace(0, 1, 25)
    X = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], 1)
    late = X[:, 0] + 0.2 * X[:, 1] > 0.6
    waves = np.sin(35 * X[:, 0]) * np.cos(30 * X[:, 1])
    y = np.where(late, waves, np.sin(5 * X[:, 0]) * np.cos(4 * X[:, 1])) + 0.1 * rng.normal(size=len(X))
    keep = np.sort(rng.permutation(len(X))[30:])
    return X[keep], y[keep], late[keep]


def test_a_change_surface_is_learned_on_a_grid(tmp_path: Path) -> None:
    policy = choose.ChoicePolicy(exact_rows=500, grid=mercer.Grid(exact_cells=0))  # so that it iterates
    quick = regressor_with(ManyRowsPolicy(sample=300, rounds=1, iterations=5), policy)
    X, y, late = wavy_and_smooth()
    learner = mercer.ChangeSurface(surface="linear", draws=4, kernel_draws=4, restarts=2, max_iterations=60)
    model = quick(learner, random_state=0).fit(X, y)
    assert model.inference_.engine.name == "grid"
    assert "30 x 25 but for 30 cells, and the kernel is a change between products" in model.inference_.reason
    assert model.change_ is not None
    assert np.mean((model.change_.shares(X)[:, 1] > 0.5) == late) > 0.95
    assert 0.07 < model.noise_**0.5 < 0.13
    exact = Exact().posterior(*conditioned(model))
    mine = model.fitted_.mixture.members[0].posterior
    new = (np.random.default_rng(1).uniform(0, 1, (5, 2)) - model.fitted_.units.shift) / model.fitted_.units.scale
    for a, b in ((mine.predict(new), exact.predict(new)), (mine.leave_one_out(), exact.leave_one_out())):
        assert_allclose(a.mean, b.mean, atol=0.02)
        assert_allclose(a.variance, b.variance, rtol=0.05)
    model.save(tmp_path / "surface.mercer")
    again = mercer.load(tmp_path / "surface.mercer")
    assert again.inference_.reason == model.inference_.reason
    assert_allclose(again.predict(X[:20]), model.predict(X[:20]), atol=1e-4)


def conditioned(model: GPRegressor) -> tuple[object, np.ndarray, Gaussian, object]:
    kernel = to_scaled_units(model.kernel_, model.fitted_.units)
    return (
        compile_program(kernel),
        values_of(kernel),
        Gaussian(model.noise_ / model.fitted_.units.y_scale**2),
        model.fitted_.training.data,
    )


def test_half_of_a_sample_of_a_grid_are_neighbours() -> None:
    X, y = grid_rows(missing=0)
    rows = draw_sample(Data(X, y), 0, SMALL).X
    apart = np.abs(rows[:, None] - rows[None]) / [1.0, 5 / 24]
    beside = (apart.sum(2).round(6) == 1.0).sum(1)
    assert len(np.unique(rows, axis=0)) == 150
    assert np.mean(beside >= 2) > 0.4
    scattered = np.random.default_rng(0).uniform(size=(400, 2))
    assert len(draw_sample(Data(scattered, scattered[:, 0]), 0, SMALL).X) == 150


def test_settings_of_a_grid_engine_are_saved_and_checked() -> None:
    asked = mercer.Grid(tolerance=1e-5, log_determinant="weyl", seed=3, most_steps=50)
    assert choose.engine_from_plain(choose.engine_to_plain(asked)) == asked
    with pytest.raises(mercer.InputError, match="'auto', 'lanczos', 'weyl', not 'exact'"):
        mercer.Grid(log_determinant="exact")  # type: ignore[arg-type]
    with pytest.raises(mercer.InputError, match="tolerance must be a number between 0 and 1"):
        mercer.Grid(tolerance=0.0)
