"""Every line of "bad input" at the level of Python: an error (or a warning and a result) that names the column."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from numpy.typing import NDArray

import mercer
from mercer import GPRegressor
from mercer.errors import DataWarning, InputError
from mercer.inference import choose as choosing
from mercer.kernels import PER, SE

Array = NDArray[np.float64]


def series(n: int = 30) -> tuple[Array, Array]:
    x = np.arange(n, dtype=float)
    return x[:, None], np.sin(x / 2) + 0.1 * np.cos(31 * x)


def table(n: int = 30) -> tuple[pd.DataFrame, pd.Series]:
    X, y = series(n)
    return pd.DataFrame({"height": X[:, 0], "width": np.cos(X[:, 0])}), pd.Series(y, name="weight")


def model(kernel: Any = "SE", **options: Any) -> GPRegressor:
    return GPRegressor(kernel, **({"restarts": 1, "random_state": 0} | options))


def refused(X: Any, y: Any, *words: str, estimator: GPRegressor | None = None) -> str:
    """Fitting raises an error of the user's kind whose message holds all the words."""
    with pytest.raises((mercer.InputError, ValueError)) as caught:
        (estimator or model()).fit(X, y)
    message = str(caught.value)
    for word in words:
        assert word in message, message
    return message


# --------------------------------------------------------------------------------------------------- rows and shapes


def test_no_rows() -> None:
    refused(np.empty((0, 2)), np.empty(0), "0 sample")
    refused(pd.DataFrame({"when": pd.to_datetime([]), "x": []}), [], "no rows")


def test_no_columns() -> None:
    refused(np.empty((5, 0)), np.arange(5.0), "0 feature")


def test_one_row() -> None:
    message = refused(np.ones((1, 2)), [1.0])
    assert "at least 2" in message or "1 sample" in message
    assert "more data" in message


def test_numbers_of_rows_that_differ() -> None:
    X, y = series()
    refused(X, y[:-1], "30", "29")
    with pytest.raises(ValueError, match=r"2D|2-D|dimension"):
        model().fit(X[:, 0], y)
    refused(X, np.column_stack([y, y]))


def test_tables_that_are_none() -> None:
    X, y = series()
    for wrong in ("abc", 3.0, None, {"a": [1.0, 2.0]}):
        refused(wrong, y, "X must be a table or an array", repr(wrong))
    refused(["a", "b"], [1.0, 2.0], "rows and columns")
    refused(pd.DataFrame(), y, "no columns")
    fitted = model().fit(X, y)
    for wrong in ("a", None):
        with pytest.raises(mercer.InputError, match="X must be a table or an array"):
            fitted.predict(wrong)
    with pytest.raises(mercer.InputError, match="n_samples must be a whole number"):
        fitted.sample_y(X, n_samples="a")
    with pytest.raises(mercer.InputError, match="random_state must be"):
        fitted.sample_y(X, random_state="a")


def test_columns_of_one_name() -> None:
    X, y = table()
    twice = X.set_axis(["height", "height"], axis=1)
    refused(twice, y, "2 columns", "'height'", "a name of its own")
    refused(twice.assign(day=pd.date_range("2001-01-01", periods=30)), y, "2 columns", "'height'")
    with pytest.raises(mercer.InputError, match="2 columns of X are called 'height'"):
        model().fit(X, y).predict(twice)


def test_a_target_that_is_one_thing() -> None:
    X, y = series()
    for wrong in ("abc", 3.0):
        refused(X, wrong, "y must hold one value for each of the 30 rows", repr(wrong))
        with pytest.raises(mercer.InputError, match="y must hold one value for each of the 30 rows"):
            model().fit(X, y).log_density(X, wrong)


def test_missing_target() -> None:
    X, _ = series()
    refused(X, None, "y")


def test_more_columns_than_rows_is_fine() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 15))
    assert np.isfinite(model("SE + LIN").fit(X, X[:, 0]).predict(X)).all()


def test_too_many_rows_say_how_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "available_memory", lambda: 10_000)
    X, y = series(60)
    with pytest.raises(mercer.TooLargeError, match=r"60 rows.*72 kB.*10 kB.*22 rows"):
        model(inference=mercer.Exact()).fit(X, y)
    sparse = model().fit(X, y)
    assert isinstance(sparse.inference_.engine, mercer.VFE)
    assert "so much memory is not free" in sparse.inference_.reason


# ------------------------------------------------------------------------------------------------ what a column holds


def test_text_among_numbers_of_an_array() -> None:
    X = np.array([[1.0, 2.0], [2.0, "high"], [3.0, 4.0]], dtype=object)
    refused(X, [1.0, 2.0, 3.0], "'1'", "'high'", "row 2")
    refused(np.array([["1", "2"], ["3", "tall"]]), [1.0, 2.0], "'1'", "'tall'")


def test_text_among_numbers_of_a_table() -> None:
    X, y = table()
    mixed = X.astype({"width": object})
    mixed.loc[4, "width"] = "wide"
    refused(mixed, y, "'width'", "'wide'", "5")


def test_text_when_predicting() -> None:
    X, y = table()
    fitted = model().fit(X, y)
    bad = X.astype({"width": object})
    bad.loc[2, "width"] = "wide"
    with pytest.raises((mercer.InputError, ValueError), match=r"width.*'wide'|'wide'.*width"):
        fitted.predict(bad)


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_holes_in_the_inputs(value: float, word: str) -> None:
    X, y = table()
    X.loc[[3, 7], "width"] = value
    for given, name in ((X, "'width'"), (X.to_numpy(), "'1'")):
        message = refused(given, y, word, name, "row 4", "drop")
        assert "2 such" in message
    fitted = model().fit(*table())
    with pytest.raises(mercer.InputError, match="'width'"):
        fitted.predict(X)


def test_holes_in_a_table_with_dates() -> None:
    X, y = table()
    X["when"] = pd.date_range("2001-01-01", periods=30)
    X.loc[3, "width"] = np.nan
    refused(X, y, "'width'", "4")
    X["width"] = 1.0 * X["height"]
    X.loc[5, "when"] = pd.NaT
    refused(X, y, "'when'", "6")


def test_nan_in_the_target_is_dropped_and_counted() -> None:
    X, y = table()
    y[[2, 5, 9]] = np.nan
    with pytest.warns(mercer.DataWarning, match="3 of 30 rows"):
        found = model().fit(X, y)
    assert len(found.leave_one_out()[0]) == 27
    assert found.predict(X).shape == (30,)
    with pytest.warns(mercer.DataWarning), pytest.raises(mercer.InputError, match="at least 2"):
        model().fit(X, np.where(np.arange(30) == 0, 1.0, np.nan))


def test_infinity_in_the_target() -> None:
    X, y = table()
    y[4] = np.inf
    refused(X, y, "y", "infinity", "row 5", "drop")


def test_text_in_the_target() -> None:
    X, _ = table()
    message = refused(X, ["heavy"] * 30, "target", "'heavy'")
    assert "numbers" in message
    assert np.isfinite(model().fit(X, [str(i % 7) for i in range(30)]).predict(X)).all()


def test_dates_in_the_target() -> None:
    X, _ = table()
    refused(X, pd.Series(pd.date_range("2001-01-01", periods=30)), "target", "numbers", "2001-01-01")


def test_entries_missing_in_a_nullable_target_are_dropped() -> None:
    X, _ = table()
    for y in (pd.Series([None, *range(29)], dtype="Int64"), [None, *range(29)]):
        with pytest.warns(mercer.DataWarning, match="1 of 30 rows"):
            model().fit(X, y)


def test_complex_numbers() -> None:
    X, y = series()
    refused(X + 1j, y, "omplex")
    refused(X, y + 1j, "omplex")


def test_constant_target() -> None:
    X, _ = table()
    refused(X, np.full(30, 7.5), "7.5", "30 rows", "nothing to learn")


def test_constant_column_is_ignored_with_a_warning() -> None:
    X, y = table()
    X["colour"] = 3.0
    with pytest.warns(mercer.DataWarning, match="'colour'"):
        found = model("SE + LIN").fit(X, y)
    assert {leaf.dims for leaf in found.kernel_.leaves()} == {(0, 1)}
    moved = X.assign(colour=99.0)
    np.testing.assert_allclose(found.predict(moved), found.predict(X))


def test_all_columns_constant() -> None:
    with pytest.warns(mercer.DataWarning, match="never change"):
        found = model().fit(np.ones((10, 2)), np.arange(10.0))
    assert found.predict(np.ones((1, 2)))[0] == pytest.approx(4.5, abs=0.1)


# ------------------------------------------------------------------------------------------------- order, gaps, sizes


def test_duplicated_rows_unsorted_time_and_gaps_are_taken_as_they_are() -> None:
    x = np.array([5.0, 1, 2, 2, 2, 9, 30, 31, 0, 7, 7, 100])
    with warnings.catch_warnings():
        warnings.simplefilter("error", mercer.DataWarning)
        found = model("SE + LIN").fit(x[:, None], np.sin(x) + 0.01 * np.arange(12))
    assert np.isfinite(found.predict(x[:, None])).all()
    days = pd.to_datetime(["2001-03-01", "2001-01-01", "2001-01-01", "2001-02-11", "2004-07-01", "2001-01-02"])
    found = model("SE").fit(pd.DataFrame({"day": days}), np.array([1.0, 2, 3, 4, 5, 6]))
    assert np.isfinite(found.predict(pd.DataFrame({"day": days}))).all()


def test_identical_rows_without_noise_are_mended() -> None:
    x = np.repeat(np.arange(8.0), 2)[:, None]
    found = model("SE", noise=0.0).fit(x, np.sin(x[:, 0]))
    assert found.jitter_ > 0
    assert np.isfinite(found.predict(x)).all()


@pytest.mark.parametrize("size", [1e12, 1e-12, 1e100, 1e-100])
def test_very_large_and_very_small_values(size: float) -> None:
    X, y = series()
    found = model("SE*PER + LIN").fit(X * size, y * size)
    assert np.isfinite(found.predict(X * size) / size).all()


def test_values_beyond_any_scaling() -> None:
    X, y = series()
    with np.errstate(all="ignore"):
        refused(X, y * 1e308, "too large")
        refused(X * 1e306, y, "unit")


# ----------------------------------------------------------------------------------------------- kernels and options


@pytest.mark.parametrize(
    ("text", "position"), [("SE +", 4), ("SE ** PER", 4), ("SE(0", 4), ("SEX", 0), ("", 0), ("SE + + ", 5)]
)
def test_a_kernel_that_does_not_parse_points_at_the_character(text: str, position: int) -> None:
    X, y = series()
    with pytest.raises(mercer.KernelSyntaxError) as caught:
        model(text).fit(X, y)
    assert caught.value.position == position
    if text:
        assert f"  {text}\n  {' ' * position}^" in str(caught.value)


def test_a_learner_whose_name_is_mistyped() -> None:
    with pytest.raises(mercer.KernelSyntaxError, match=r"no base kernel 'serach'.*other names are 'auto', 'search'"):
        model("serach").fit(*series())
    with pytest.raises(mercer.KernelSyntaxError, match=r"no base kernel 'rbff'.*other names are 'kfo', .*'rbf'"):
        mercer.KernelSVC("rbff").fit(*series())


def test_a_kernel_on_a_dimension_that_does_not_exist() -> None:
    X, y = series()
    refused(X, y, "dimension 3", "only 0", estimator=model("SE(3)"))
    refused(*table(), "'depth'", "height, width", estimator=model("SE(depth)"))
    refused(X, y, "'depth'", estimator=model("SE(depth)"))


def test_a_kernel_that_is_no_kernel() -> None:
    X, y = series()
    refused(X, y, "SE*PER", "42", estimator=model(42))
    with pytest.raises(mercer.KernelError, match="greater than zero"):
        PER(0, period=-1)
    with pytest.raises(mercer.KernelError, match=r"'width' is not a parameter of SE; it has variance, lengthscale"):
        mercer.parse("SE(width=3)")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"restarts": 0}, ["restarts", "at least 1", "0"]),
        ({"restarts": 2.5}, ["restarts", "2.5"]),
        ({"restarts": True}, ["restarts", "at least 1", "True"]),
        ({"max_iterations": True}, ["max_iterations", "at least 1", "True"]),
        ({"noise": True}, ["noise", "variance", "True"]),
        ({"random_state": "a"}, ["random_state must be", "whole number", "'a'"]),
        ({"random_state": -1}, ["random_state must be", "-1"]),
        ({"device": "xpu"}, ["no device 'xpu'", "'cpu'"]),
        ({"max_iterations": -3}, ["max_iterations", "-3"]),
        ({"priors": "strong"}, ["priors", "'weak'", "'strong'"]),
        ({"noise": -1.0}, ["noise", "-1.0"]),
        ({"noise": float("nan")}, ["noise", "nan"]),
        ({"noise": "loud"}, ["noise", "'loud'"]),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], words: list[str]) -> None:
    X, y = series()
    refused(X, y, *words, estimator=model(**options))


def test_lengthscales_for_another_number_of_columns() -> None:
    refused(*table(), "lengthscale", "2", "3", estimator=model(SE(lengthscale=[1.0, 2.0, 3.0])))


def test_predicting_before_fitting_and_with_other_columns() -> None:
    X, y = table()
    with pytest.raises(ValueError, match="not fitted"):
        model().predict(X)
    fitted = model().fit(X, y)
    with pytest.raises(ValueError, match="feature"):
        fitted.predict(X[["height"]])
    with pytest.raises(ValueError, match=r"2 features|feature names"):
        fitted.predict(np.ones((3, 5)))


def test_a_fit_that_stops_early_warns() -> None:
    X, y = series()
    with pytest.warns(mercer.FitWarning, match=r"more iterations \(max_iterations\)") as seen:
        model("SE*PER + RQ", max_iterations=1).fit(X, y)
    assert seen[0].filename == __file__  # where the user called


def test_a_fit_that_cannot_succeed_says_what_to_try() -> None:
    X, y = series()
    with pytest.raises(mercer.NumericalError, match="another kernel or a larger noise"):
        model("SE(variance=fixed(1e308)) * SE(variance=fixed(1e308))").fit(X, y)


@pytest.mark.parametrize("jobs", [0, 1.5, "2", True])
@pytest.mark.parametrize("kernel", ["SE", "search"])
def test_a_number_of_jobs_that_is_none(jobs: Any, kernel: str) -> None:
    refused(*series(), "n_jobs must be", repr(jobs), estimator=model(kernel, n_jobs=jobs))


def test_masked_targets_are_left_out_and_masked_inputs_refused():
    x = np.arange(12.0)[:, None]
    y = np.ma.masked_array(np.sin(x[:, 0]), mask=np.arange(12) == 3)
    with pytest.warns(DataWarning, match="1 of 12 rows have no target"):
        model = GPRegressor("SE", restarts=1, random_state=0).fit(x, y)
    assert len(model.fitted_.training.y) == 11
    with pytest.raises(InputError, match="masked array with 1 masked entries"):
        GPRegressor("SE").fit(np.ma.masked_array(x, mask=x == 3), np.sin(x[:, 0]))


# ------------------------------------------------------------------------------------- containers and extreme numbers


def test_matrices_that_are_not_dense_numbers() -> None:
    X, y = series()
    refused(scipy.sparse.csr_matrix(X), y, "sparse", "X.toarray()")
    refused(X, scipy.sparse.csr_matrix(y), "sparse", "y.toarray()")
    refused(X + 1j, y, "Complex data not supported", "real")
    refused(X, y + 1j, "Complex data not supported")
    refused(torch.tensor(X, requires_grad=True), y, "gradients", "X.detach()")
    refused(X, torch.tensor(y, requires_grad=True), "gradients", "y.detach()")
    refused(torch.tensor(X, dtype=torch.bfloat16), y, "bfloat16", "X.double()")
    for wrong in (torch.tensor(X, requires_grad=True), scipy.sparse.csr_matrix(X), X[:, :, None]):
        with pytest.raises(InputError):
            model().fit(X, y).predict(wrong)
    with pytest.raises(InputError, match=r"X\.detach"):
        SE(variance=1, lengthscale=1)(torch.tensor(X, requires_grad=True))


def test_sparse_columns_are_read_as_they_are() -> None:
    X, y = series()
    thin = pd.DataFrame({"x": pd.arrays.SparseArray(X[:, 0])})
    fitted = model().fit(thin, pd.Series(pd.arrays.SparseArray(y)))
    np.testing.assert_allclose(fitted.predict(thin), model().fit(X, y).predict(X))


def test_whole_numbers_beyond_any_float() -> None:
    for kind in (list, lambda rows: np.array(rows, dtype=object)):
        refused(kind([[10**400], [3], [4]]), [1.0, 2.0, 3.0], "column '0', row 1", "too large")
    refused([[1.0], [2.0], [3.0]], [1.0, 10**400, 3.0], "row 2", "numbers")
    with pytest.raises(InputError, match="numbers"):
        mercer.log_evidence("SE(variance=1, lengthscale=1)", [[10**400]], [1.0], noise=0.1)


@pytest.mark.parametrize("size", [1e-310, 1e-300, 1e-150, 1e150, 1e300])
def test_numbers_whose_squares_are_none(size: float) -> None:
    X, y = series()
    refused(X * size, y, "column '0' varies by", "too large or too small", "unit", "multiplied by")
    refused(X, y * size, "the target varies by", "too large or too small", "unit")
    with pytest.raises(InputError, match="too large or too small"):
        mercer.GridRegressor("SE").fit(y * size)


@pytest.mark.parametrize("size", [1e-310, 1e-300, 1e300])
def test_linear_kernels_of_classes_whose_variance_is_none(size: float) -> None:
    X, y = series()
    with pytest.raises(InputError, match="too large or too small"):
        mercer.KernelSVC("LIN").fit(X * size, y > 0)


@pytest.mark.parametrize("kernel", ["LIN", "PER", "RQ", "M32", "SE*LIN"])
def test_a_prediction_that_is_no_number_is_refused(kernel: str) -> None:
    X, y = table()
    fitted = model(kernel).fit(X, y)
    far = X.iloc[:4].copy()
    far.loc[2, "width"] = 1e308
    for ask in (fitted.predict, fitted.decompose, fitted.sample_y, lambda rows: fitted.log_density(rows, y[:4])):
        with pytest.raises(InputError, match=r"row 3 is no number, and so for 1 of 4 rows: column 'width' is 1e\+308"):
            ask(far)
    with pytest.raises(InputError, match="row 3 is no number"):
        fitted.predict(far, return_cov=True)
    assert np.isfinite(fitted.predict(far.drop(index=2))).all()


def test_classes_and_grids_that_are_no_numbers_far_away() -> None:
    X, y = series()
    classifier = mercer.KernelSVC("M32", random_state=0).fit(X, y > 0)
    with pytest.raises(InputError, match="row 1 is no number"):
        classifier.predict([[1e308]])
    grid = mercer.GridRegressor("LIN", restarts=1, random_state=0).fit(y)
    with pytest.raises(InputError, match=r"the prediction at 1e\+308 is no number"):
        grid.predict([np.array([1.0, 1e308])], return_std=True)


def test_a_kernel_that_is_no_number_somewhere() -> None:
    with pytest.raises(InputError, match="features of row 1 are no numbers"):
        mercer.FeatureMap("SE(variance=1, lengthscale=0.001)", count=4).fit([[1.0]]).transform([[1e308]])
    with pytest.raises(InputError, match="values that are no numbers"):
        mercer.parse("LIN(variance=1, offset=0)")([[1e200], [2.0]])


def test_classes_of_different_kinds() -> None:
    X, _ = series(4)
    found = mercer.KernelSVC("rbf").fit(X, np.array(["a", 1.0, "a", 1.0], dtype=object))
    assert list(found.classes_) == ["1.0", "a"]


def test_one_class_is_named_as_it_was_written() -> None:
    X, _ = series()
    with pytest.raises(InputError, match=r"only one class \('0'\)"):
        mercer.KernelSVC("rbf").fit(X, np.zeros(30, dtype=int))
