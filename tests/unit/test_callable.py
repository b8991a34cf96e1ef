"""A kernel can be called: k(X), k(X, Z), k.diagonal(X); what it refuses is a sentence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import mercer
from mercer.errors import InputError, KernelError
from mercer.kernels import NKN, Expression, parse
from tests.agree.slow_reference import slow_gram
from tests.strategies import inputs, kernels

Array = NDArray[np.float64]


@settings(max_examples=40, deadline=None)
@given(kernel=kernels(), X=inputs())
def test_a_kernel_is_a_function_of_rows(kernel: Expression, X: Array) -> None:
    expected = slow_gram(kernel, X)
    size = np.abs(expected).max()
    assert_allclose(kernel(X), expected, rtol=1e-10, atol=1e-12 * size)
    assert_allclose(kernel.diagonal(X), np.diag(expected), rtol=1e-10, atol=1e-12 * size)
    assert_allclose(kernel(X, X), kernel(X))


@settings(max_examples=20, deadline=None)
@given(X=inputs(min_rows=2), Z=inputs())
def test_a_rectangle(X: Array, Z: Array) -> None:
    kernel = parse("SE(0, variance=2, lengthscale=1) * LIN(1, variance=1, offset=0.5) + C(variance=0.3)")
    assert_allclose(kernel(X, Z), slow_gram(kernel, X, Z), rtol=1e-10, atol=1e-12)


def test_white_noise_is_zero_between_two_different_arguments() -> None:
    X = np.array([[0.0], [1.0], [1.0]])
    kernel = parse("SE(0, variance=1, lengthscale=1) + WN(0, variance=0.5)")
    assert_allclose(np.diag(kernel(X)), 1.5)
    assert_allclose(kernel(X)[1, 2], 1.5)
    assert_allclose(kernel(X, X.copy()), parse("SE(0, variance=1, lengthscale=1)")(X))
    assert_allclose(kernel.diagonal(X), 1.5)


def test_a_kernel_without_dimensions_acts_on_all_columns() -> None:
    X = np.random.default_rng(0).normal(size=(4, 2))
    assert_allclose(parse("SE(variance=1, lengthscale=2)")(X), parse("SE(0, 1, variance=1, lengthscale=2)")(X))
    assert parse("SE(0, variance=1, lengthscale=2)")(X.tolist()).shape == (4, 4)


def test_tables_have_names_and_any_order_of_columns() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=5), "b": rng.normal(size=5)})
    kernel = parse("SE(b, variance=1, lengthscale=2) + LIN(a, variance=1, offset=0)")
    numbers = parse("SE(1, variance=1, lengthscale=2) + LIN(0, variance=1, offset=0)")
    assert_allclose(kernel(table), numbers(table.to_numpy()))
    assert_allclose(kernel(table, table[["b", "a"]].iloc[:2]), numbers(table.to_numpy(), table.to_numpy()[:2]))
    with pytest.raises(KernelError, match="no column names"):
        kernel(table.to_numpy())
    with pytest.raises(InputError, match="Z has no column b"):
        kernel(table, table[["a"]])


def test_networks_and_fitted_kernels_can_be_called() -> None:
    X = np.linspace(0, 1, 12)[:, None]
    network = NKN(
        "SE(0, lengthscale=1) + LIN(0, offset=0)", "Linear2-Product1-Linear1", weights=[1, 0.5], bias=[0.1, 0]
    )
    assert network(X).shape == (12, 12)
    model = mercer.GPRegressor("SE + LIN", restarts=1, random_state=0).fit(X, np.sin(3 * X[:, 0]))
    assert_allclose(np.diag(model.kernel_(X)), model.kernel_.diagonal(X))


@pytest.mark.parametrize(
    ("text", "X", "problem"),
    [
        ("SE(0) * PER(0, period=2)", [[1.0]], "has no value for SE.variance, SE.lengthscale, PER.lengthscale"),
        ("SE(0, lengthscale=1)", [[1.0]], "has no value for SE.variance: give one"),
        ("SE(3, variance=1, lengthscale=1)", [[1.0]], "acts on dimension 3, but the data has only 0"),
        ("C(variance=1)", [1.0, 2.0], "rows and columns"),
        ("C(variance=1)", [["a"]], "other cells, such as texts"),
        ("C(variance=1)", [[np.nan]], "missing or infinite"),
        ("EXPI(0, variance=1, frequency=1)", [[1.0]], "use COS"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(text: str, X: object, problem: str) -> None:
    with pytest.raises(mercer.MercerError) as caught:
        parse(text)(X)
    assert problem in str(caught.value)
    with pytest.raises(mercer.MercerError):
        parse(text).diagonal(X)


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        (np.array([["2020-01-01"], ["2020-01-02"]], dtype="datetime64[D]"), "other cells, such as texts or dates"),
        (np.array([["1"], ["2"]]), "other cells, such as texts or dates"),
        (np.array([["1"], [2]], dtype=object), "other cells, such as texts or dates"),
        (np.array([[1 + 2j], [2]]), "other cells, such as texts or dates"),
        (np.ma.masked_array([[1.0], [2.0]], [[True], [False]]), "masked cells"),
        (np.array([[1.0], [None]]), "missing or infinite"),
        ([[1.0], [2.0, 3.0]], "other cells"),
        (3.0, r"called with rows of numbers, as in kernel\(\[\[1.0\], \[2.0\]\]\).* is 3.0"),
        ("abc", r"called with rows of numbers.* is 'abc'"),
        ([1.0, 2.0], "as rows and columns, not in 1 dimensions"),
    ],
)
def test_both_arguments_are_rows_of_numbers(cells: object, problem: str) -> None:
    kernel, rows = parse("SE(0, variance=1, lengthscale=1)"), np.zeros((2, 1))
    for arguments, name in (((cells,), "X"), ((cells, rows), "X"), ((rows, cells), "Z")):
        with pytest.raises(InputError, match=problem) as caught:
            kernel(*arguments)
        assert f" {name} " in f"{caught.value} "
    assert_allclose(kernel(np.ma.masked_array(rows, False)), 1.0)
    assert_allclose(kernel(np.array([[1], [True]], dtype=object)), 1.0)


def test_a_table_and_an_array_are_not_compared_by_position() -> None:
    kernel, table = parse("SE(0, variance=1, lengthscale=1)"), pd.DataFrame({"a": [1.0, 2.0]})
    for arguments in ((table, table.to_numpy()), (table.to_numpy(), table)):
        with pytest.raises(InputError, match="one of X and Z is a table with named columns, the other not"):
            kernel(*arguments)


def test_columns_that_the_kernel_does_not_look_at_may_hold_anything() -> None:
    table = pd.DataFrame({"place": ["north", "south"], "heat": [1.0, 2.0], "gaps": [np.nan, 1.0]})
    kernel = parse("SE(heat, variance=1, lengthscale=1)")
    expected = parse("SE(0, variance=1, lengthscale=1)")(table[["heat"]].to_numpy())
    assert_allclose(kernel(table), expected)
    assert_allclose(kernel(table, table[["gaps", "heat", "place"]]), expected)
    assert_allclose(kernel.diagonal(table), 1.0)
    with pytest.raises(InputError, match="X has other cells"):
        parse("SE(variance=1, lengthscale=1)")(table)


def test_a_matrix_that_is_too_large_is_a_sentence() -> None:
    kernel, rows = parse("SE(0, variance=1, lengthscale=1)"), np.zeros((3_000_000, 1))
    for arguments in ((rows,), (rows, rows.copy())):
        with pytest.raises(
            mercer.TooLargeError, match=r"3,000,000 x 3,000,000 numbers takes 72,000 GB.*some rows at a"
        ):
            kernel(*arguments)


def test_both_arguments_have_the_same_columns() -> None:
    with pytest.raises(InputError, match="X has 2 columns and Z has 1"):
        parse("SE(0, variance=1, lengthscale=1)")(np.zeros((2, 2)), np.zeros((2, 1)))


def test_no_rows_give_an_empty_matrix() -> None:
    kernel = mercer.parse("SE(0, variance=1, lengthscale=1)")
    assert kernel(np.zeros((0, 1))).shape == (0, 0)
