"""GPRegressor as a user meets it: units, tables, scikit-learn's tools, components, samples."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import GPRegressor
from mercer.kernels import LIN, PER, SE, C, Expression, fixed, parse, structure
from mercer.kernels.expression import Base

Array = NDArray[np.float64]


def series(n: int = 60, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    x = np.arange(n, dtype=float)
    return x[:, None], 50 + 10 * np.sin(2 * np.pi * x / 12) + 0.5 * x + rng.normal(size=n)


def model(kernel: Any = "SE*PER + LIN", **options: Any) -> GPRegressor:
    return GPRegressor(kernel, **({"restarts": 2, "random_state": 0} | options))


@pytest.fixture(scope="module")
def fitted() -> GPRegressor:
    return model().fit(*series())


def leaves(kernel: Expression) -> list[Base]:
    return list(kernel.leaves())


def values(kernel: Expression, leaf: int, name: str) -> Array:
    found = leaves(kernel)[leaf].parameter(name).values
    assert found is not None
    return np.array(found)


# ------------------------------------------------------------------------------------------------------- the promise


def test_what_the_readme_shows(fitted: GPRegressor) -> None:
    X, y = series()
    new = np.arange(60.0, 72.0)[:, None]
    mean, std = fitted.predict(new, return_std=True)
    truth = 50 + 10 * np.sin(2 * np.pi * new[:, 0] / 12) + 0.5 * new[:, 0]
    assert np.abs(mean - truth).max() < 4
    assert (std > 0.5).all()
    assert (std < 5).all()
    assert values(fitted.kernel_, 1, "period")[0] == pytest.approx(12, rel=0.02)
    assert fitted.noise_ == pytest.approx(1.0, rel=0.6)
    assert fitted.score(X, y) > 0.95
    assert fitted.n_features_in_ == 1
    assert fitted.status_ in ("converged", "at a bound")
    assert fitted.inference_.engine.name == "exact"
    for score in (fitted.log_evidence_, fitted.bic_, fitted.loo_):
        assert np.isfinite(score)


def test_scores_are_those_of_the_kernel_in_the_users_units(fitted: GPRegressor) -> None:
    X, y = series()
    direct = mercer.log_evidence(fitted.kernel_, X, y - fitted.decompose()[-1].mean[0], noise=fitted.noise_)
    assert fitted.log_evidence_ == pytest.approx(direct, rel=1e-8)
    assert fitted.bic_ == pytest.approx(-2 * direct + fitted.n_parameters_ * np.log(len(y)))
    mean, std = fitted.leave_one_out()
    assert fitted.loo_ == pytest.approx(np.sum(-0.5 * np.log(2 * np.pi * std**2) - 0.5 * ((y - mean) / std) ** 2))


@pytest.mark.parametrize(
    ("s", "m", "t", "c"), [(0.25, 16.0, 8.0, 0.0), (1e-3, 7.0, 1e4, -3e5), (40.0, -1e3, 1e-6, 2.0)]
)
def test_units_do_not_matter(fitted: GPRegressor, s: float, m: float, t: float, c: float) -> None:
    X, y = series()
    other = model().fit(X * s + m, y * t + c)
    new = np.linspace(-5, 80, 30)[:, None]
    (mean, std), (mean2, std2) = (g.predict(Z, return_std=True) for g, Z in ((fitted, new), (other, new * s + m)))
    assert_allclose((mean2 - c) / t, mean, rtol=1e-3, atol=0.02)
    assert_allclose(std2 / t, std, rtol=1e-3)
    assert_allclose(values(other.kernel_, 0, "lengthscale") / s, values(fitted.kernel_, 0, "lengthscale"), rtol=2e-2)
    assert_allclose(values(other.kernel_, 1, "period") / s, values(fitted.kernel_, 1, "period"), rtol=1e-4)
    assert_allclose(values(other.kernel_, 1, "lengthscale"), values(fitted.kernel_, 1, "lengthscale"), rtol=2e-2)
    assert_allclose(values(other.kernel_, 0, "variance") / t**2, values(fitted.kernel_, 0, "variance"), rtol=2e-2)
    assert other.noise_ / t**2 == pytest.approx(fitted.noise_, rel=2e-2)
    assert other.log_evidence_ + len(y) * np.log(t) == pytest.approx(fitted.log_evidence_, abs=1e-3)
    assert other.status_ == fitted.status_


def test_values_are_given_in_the_users_units() -> None:
    X, y = series()
    kernel = SE(0, variance=fixed(200.0), lengthscale=fixed(30.0)) * PER(0, period=fixed(12.0), lengthscale=1) + C(
        fixed(9.0)
    )
    found = model(kernel, noise=2.0).fit(X, y)
    assert_allclose(values(found.kernel_, 0, "variance"), 200.0)
    assert_allclose(values(found.kernel_, 0, "lengthscale"), 30.0)
    assert_allclose(values(found.kernel_, 1, "period"), 12.0)
    assert_allclose(values(found.kernel_, 2, "variance"), 9.0)
    assert found.noise_ == pytest.approx(2.0)


@pytest.mark.parametrize("size", [1e12, 1e-12])
def test_very_large_and_very_small_numbers(size: float) -> None:
    X, y = series(40)
    mean, std = model("SE*PER").fit(X * size, y * size).predict(X * size, return_std=True)
    assert np.abs(mean / size - y).max() < 5
    assert (std > 0).all()
    far = model("SE*PER").fit(X + 1e12, y + 1e12).predict(X + 1e12)
    assert np.abs(far - 1e12 - y).max() < 5


def test_more_columns_than_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 20))
    found = model("SE + LIN").fit(X, X[:, 0])
    assert np.isfinite(found.predict(X)).all()
    assert leaves(found.kernel_)[0].dims == tuple(range(20))


def test_duplicated_rows_with_contradicting_targets_are_noise() -> None:
    X, y = series(30)
    found = model("SE").fit(np.vstack([X, X]), np.concatenate([y + 1, y - 1]))
    assert found.noise_ > 0.3
    assert np.isfinite(found.predict(X)).all()


def test_the_order_of_rows_does_not_matter(fitted: GPRegressor) -> None:
    X, y = series()
    order = np.random.default_rng(0).permutation(len(y))
    other = model().fit(X[order], y[order])
    assert other.log_evidence_ == pytest.approx(fitted.log_evidence_, abs=1e-3)
    assert_allclose(other.predict(X), fitted.predict(X), atol=0.02)


# ---------------------------------------------------------------------------------------------- predicting in all forms


def test_noise_in_or_out_of_the_band(fitted: GPRegressor) -> None:
    new = np.linspace(0, 70, 9)[:, None]
    _, of_y = fitted.predict(new, return_std=True)
    _, of_f = fitted.predict(new, return_std=True, include_noise=False)
    assert_allclose(of_y**2 - of_f**2, fitted.noise_, rtol=1e-6)
    mean, covariance = fitted.predict(new, return_cov=True)
    assert_allclose(np.sqrt(np.diag(covariance)), of_y, rtol=1e-6)
    assert_allclose(mean, fitted.predict(new), rtol=1e-10)
    _, without = fitted.predict(new, return_cov=True, include_noise=False)
    assert_allclose(covariance - without, fitted.noise_ * np.eye(9), atol=1e-8)
    with pytest.raises(mercer.InputError, match="not both"):
        fitted.predict(new, return_std=True, return_cov=True)


@pytest.mark.filterwarnings("ignore::mercer.FitWarning")
@pytest.mark.parametrize("kernel", ["SE*PER + LIN", "(SE + C)*(PER + LIN)", "SE*(PER + LIN*(RQ + C)) + WN"])
def test_components_add_up_to_the_prediction(kernel: str) -> None:
    found = model(kernel, restarts=1, max_iterations=30).fit(*series())
    new = np.vstack([np.linspace(-10, 90, 25)[:, None], series()[0][:3]])
    parts = found.decompose(new)
    assert_allclose(sum(part.mean for part in parts), found.predict(new), rtol=1e-9)
    assert parts[-1].kernel is None
    level = found.fitted_.mixture.members[0].posterior.level
    assert_allclose(parts[-1].mean, found.fitted_.training.level + found.fitted_.units.y_scale * level.mean[0])
    assert_allclose(parts[-1].std, found.fitted_.units.y_scale * np.sqrt(level.variance[0]))
    assert all((part.std >= 0).all() and part.mean.shape == (28,) for part in parts)
    assert all(isinstance(part.kernel, Expression) for part in parts[:-1])


def test_kernels_of_the_components_add_up_to_the_kernel(fitted: GPRegressor) -> None:
    X, y = series()
    parts = [part.kernel for part in fitted.decompose(X) if part.kernel is not None]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    one, other = (mercer.log_evidence(k, X, y - y.mean(), noise=fitted.noise_) for k in (total, fitted.kernel_))
    assert one == pytest.approx(other, rel=1e-9)


def test_samples_are_joint_reproducible_and_around_the_mean(fitted: GPRegressor) -> None:
    new = np.linspace(60, 70, 5)[:, None]
    samples = fitted.sample_y(new, n_samples=4000, random_state=3)
    assert samples.shape == (5, 4000)
    assert_array_equal(samples, fitted.sample_y(new, n_samples=4000, random_state=3))
    assert not np.array_equal(samples, fitted.sample_y(new, n_samples=4000, random_state=4))
    mean, covariance = fitted.predict(new, return_cov=True)
    assert_allclose(samples.mean(axis=1), mean, atol=0.1 * np.sqrt(covariance.max()))
    assert_allclose(np.cov(samples), covariance, atol=0.15 * covariance.max())
    smooth = fitted.sample_y(new, n_samples=4000, random_state=3, include_noise=False)
    assert smooth.std() < samples.std()
    assert fitted.sample_y(new).shape == (5, 1)


def test_leave_one_out_has_a_row_for_each_training_row(fitted: GPRegressor) -> None:
    _, y = series()
    mean, std = fitted.leave_one_out()
    assert mean.shape == std.shape == (60,)
    assert np.mean(np.abs(y - mean) < 2 * std) > 0.85


# ------------------------------------------------------------------------------------------------------- scikit-learn


def test_pipeline() -> None:
    X, y = series()
    pipe = make_pipeline(StandardScaler(), model()).fit(X, y)
    assert pipe.score(X, y) > 0.95
    mean, std = pipe.predict(X[:3], return_std=True)
    assert mean.shape == std.shape == (3,)


def test_grid_search_over_kernel_texts_and_expressions() -> None:
    X, y = series()
    grid: list[Any] = ["C", "SE", SE(0) * PER(0, period=12.0) + LIN(0)]
    search = GridSearchCV(model(restarts=1, max_iterations=30), {"kernel": grid, "noise": [None, 1.0]}, cv=3)
    with pytest.warns(mercer.MercerWarning):
        search.fit(X, y)
    assert search.best_params_["kernel"] == grid[2]
    assert search.best_estimator_.predict(X[:2]).shape == (2,)


def test_cross_val_score_and_jobs() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 2))
    y = np.sin(5 * X[:, 0]) + X[:, 1]
    one, other = (cross_val_score(model("SE", n_jobs=jobs), X, y, cv=3) for jobs in (1, 2))
    assert one.min() > 0.95
    assert_array_equal(one, other)


def test_clone_keeps_parameters_and_forgets_the_fit(fitted: GPRegressor) -> None:
    kernel = SE(0) * PER(0, period=fixed(12.0))
    original = model(kernel, noise=0.5, priors="weak", n_jobs=2)
    copy = clone(original)
    assert copy.get_params() == original.get_params()
    assert copy.kernel == kernel
    assert not hasattr(clone(fitted), "kernel_")
    assert "SE" in repr(copy)


def test_the_same_random_state_gives_the_same_model() -> None:
    X, y = series(40)
    one, other = (model(random_state=5, n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    assert one.kernel_ == other.kernel_
    assert one.noise_ == other.noise_
    state = np.random.RandomState(0)
    assert np.isfinite(model(random_state=state).fit(X, y).predict(X)).all()


def test_a_second_fit_forgets_the_first() -> None:
    X, y = series(40)
    table = pd.DataFrame({"when": pd.date_range("2000-01-01", periods=40, freq="MS")})
    found = model().fit(table, y)
    assert found.encoding_ is not None
    found.fit(X, y)
    assert found.encoding_ is None
    assert not hasattr(found, "feature_names_in_")
    assert found.predict(X).shape == (40,)


def test_progress_is_reported() -> None:
    calls: list[Any] = []
    model(restarts=3).fit(*series(30), progress=calls.append)
    assert [(c.done, c.total) for c in calls] == [(1, 3), (2, 3), (3, 3)]


# --------------------------------------------------------------------------------------------------------- tables


def test_columns_by_name() -> None:
    X, y = series()
    table = pd.DataFrame({"junk": np.cos(X[:, 0] ** 2), "year": X[:, 0]})
    found = model("SE(year)*PER(year) + LIN(year)").fit(table, y)
    assert list(found.feature_names_in_) == ["junk", "year"]
    assert leaves(found.kernel_)[0].dims == (1,)
    assert list(found.column_names_) == ["junk", "year"]
    assert "SE(year" in found.kernel_.text(digits=3, names=list(found.column_names_))
    assert_allclose(
        found.predict(table), model("SE(1)*PER(1) + LIN(1)").fit(table.to_numpy(), y).predict(table.to_numpy())
    )
    with pytest.raises(ValueError, match="feature names"):
        found.predict(table[["year", "junk"]])


def test_a_date_column_is_measured_in_its_own_unit() -> None:
    X, y = series()
    table = pd.DataFrame({"month": pd.date_range("1949-01-01", periods=60, freq="MS")})
    found = model("SE*PER + LIN").fit(table, y)
    assert values(found.kernel_, 1, "period")[0] == pytest.approx(12, rel=0.02)
    assert found.encoding_ is not None
    assert found.encoding_.units == ("months",)
    ahead = pd.DataFrame({"month": pd.date_range("1954-01-01", periods=12, freq="MS")})
    assert_allclose(
        found.predict(ahead), model("SE*PER + LIN").fit(X, y).predict(np.arange(60.0, 72)[:, None]), atol=0.05
    )


def test_a_category_column_is_one_input() -> None:
    rng = np.random.default_rng(0)
    region = rng.choice(["north", "south", "west"], 60)
    table = pd.DataFrame({"x": rng.uniform(size=60), "region": region})
    y = np.sin(4 * table["x"]) + (region == "south") * 3.0 + 0.01 * rng.normal(size=60)
    found = model("SE").fit(table, y)
    assert list(found.column_names_) == ["x", "region"]
    assert structure(found.kernel_).text(names=found.column_names_) == "SE(x) * CAT(region)"
    assert found.notes_ == ("the kernel names no column of categories: SE was taken to mean SE(x) * CAT(region)",)
    assert found.n_features_in_ == 2
    assert found.score(table, y) > 0.98
    with pytest.warns(mercer.DataWarning, match=r"region.*'east' was not in the data"):
        mean, std = found.predict(pd.DataFrame({"x": [0.1], "region": ["east"]}), return_std=True)
    known, narrow = found.predict(pd.DataFrame({"x": [0.1] * 2, "region": ["north", "south"]}), return_std=True)
    assert known[0] < mean[0] < known[1]
    assert std[0] > 10 * narrow.max()


@pytest.mark.parametrize("kernel", ["SE(region)", "SE(x) + LIN(region)", "CP(SE(x), LIN(x), on=region)"])
def test_there_are_no_distances_between_categories(kernel: str) -> None:
    table = pd.DataFrame({"x": np.arange(20.0), "region": ["a", "b"] * 10})
    with pytest.raises(mercer.KernelError, match=r"'region', a column of categories.*use CAT\(region\)"):
        model(kernel).fit(table, np.arange(20.0))
    with pytest.raises(mercer.KernelError, match=r"one input.*CAT\(region\)"):
        model('SE("region=a")').fit(table, np.arange(20.0))


def test_a_mixed_table_needs_its_columns_again() -> None:
    table = pd.DataFrame({"x": np.arange(20.0), "kind": ["a", "b"] * 10})
    found = model("SE").fit(table, np.sin(table["x"]))
    with pytest.raises(ValueError, match="kind"):
        found.predict(table[["x"]])


def test_integer_bool_and_nullable_columns_are_numbers() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"i": np.arange(30), "b": np.arange(30) % 2 == 0, "n": pd.array(rng.integers(0, 9, 30), dtype="Int64")}
    )
    y = pd.Series(0.1 * np.arange(30) + (np.arange(30) % 2), name="target")
    found = model("SE").fit(table, y)
    assert found.n_features_in_ == 3
    assert np.isfinite(found.predict(table)).all()


def test_a_target_table_of_one_column_is_taken_with_a_word() -> None:
    X, y = series(30)
    with pytest.warns(UserWarning, match="1d array"):
        found = model("SE").fit(X, pd.DataFrame({"y": y}))
    assert found.predict(X).shape == (30,)


def test_kernels_as_text_or_object_are_the_same(fitted: GPRegressor) -> None:
    other = model(parse("SE*PER + LIN")).fit(*series())
    assert other.kernel_ == fitted.kernel_
    again = model(fitted.kernel_).fit(*series())
    assert again.log_evidence_ >= fitted.log_evidence_ - 1e-3


def test_importing_the_regressor_leaves_pytorch_and_pictures_alone() -> None:
    loaded = "{'torch', 'matplotlib', 'rich'} & set(sys.modules)"
    script = f"import sys, mercer; mercer.GPRegressor; sys.exit(bool({loaded}))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
