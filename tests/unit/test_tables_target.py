"""Inputs and target."""

import numpy as np
import pandas as pd
import pytest

from mercer.datasets import airline
from mercer.errors import InputError
from mercer.tables import split_target


def refused(action, *words):
    with pytest.raises(InputError) as caught:
        action()
    for word in words:
        assert word in str(caught.value)


@pytest.fixture
def table():
    return pd.DataFrame({"month": ["1949-01", "1949-02"], "y": ["1.5", "2"], "place": ["u", "v"], "x": [1, 2]})


def test_all_other_columns_are_inputs(table):
    inputs, target, notes = split_target(table, "y")
    assert list(inputs.columns) == ["month", "place", "x"]
    assert target.dtype == np.float64
    assert target.name == "y"
    assert target.tolist() == [1.5, 2.0]
    assert notes == ()


def test_chosen_inputs_keep_their_order(table):
    assert list(split_target(table, "y", ["x", "month"]).inputs.columns) == ["x", "month"]
    assert list(split_target(table, "y", "month").inputs.columns) == ["month"]


@pytest.mark.parametrize("target", [[True, False], pd.array([1, 2], dtype="Int64"), np.array([1, 2.5], dtype=object)])
def test_targets_of_all_number_types(table, target):
    assert split_target(table.assign(y=target), "y").target.dtype == np.float64


def test_a_lone_column_gets_row_numbers_and_a_note():
    split = split_target(airline()[["passengers"]], "passengers")
    assert split.inputs["row"].tolist() == list(range(144))
    assert split.notes == (
        "the table has no column besides the target 'passengers', so the row number (from 0) is the input, named 'row'",
    )


def test_missing_target_lists_columns_and_suggests():
    refused(lambda: split_target(airline(), "Pasengers"), "'Pasengers'", "'month', 'passengers'", "mean 'passengers'?")


def test_target_that_is_not_numeric_lists_the_numeric_columns(table):
    refused(lambda: split_target(table, "place"), "'place'", "'u'", "'y', 'x'")
    refused(lambda: split_target(table, "month"), "'month'", "'1949-01'", "'y', 'x'")
    refused(lambda: split_target(airline(), "month"), "'month'", "1949-01-01", "'passengers'")
    refused(lambda: split_target(table[["place"]].assign(z=[[1], [2]]), "place"), "none")


def test_text_in_the_target_names_the_row():
    frame = pd.DataFrame({"x": range(6), "y": ["1", "2", "n/a?", "4", "5", "6"]})
    refused(lambda: split_target(frame, "y"), "'y'", "row 3", "'n/a?'")


def test_missing_targets_are_kept_as_nan_and_infinite_ones_name_the_row(table):
    assert np.isnan(split_target(table.assign(y=[1, None]), "y").target).tolist() == [False, True]
    refused(lambda: split_target(table.assign(y=[np.inf, 1]), "y"), "'y'", "1 infinite entry", "row 1")


def test_bad_inputs(table):
    refused(lambda: split_target(table, "y", ["x", "y"]), "'y' itself")
    refused(lambda: split_target(table, "y", ["x", "plaice"]), "'plaice'", "Did you mean 'place'?")
    refused(lambda: split_target(table, "y", ["x", "x"]), "'x' more than once")
    refused(lambda: split_target(table, "y", []), "empty", "'month', 'place', 'x'")


def test_tables_that_cannot_be_split():
    refused(lambda: split_target(pd.DataFrame({"y": []}), "y"), "no rows")
    refused(lambda: split_target(pd.DataFrame([[1, 2]], columns=["y", "y"]), "y"), "'y'", "rename")
    refused(lambda: split_target(np.zeros((2, 2)), "y"), "ndarray")
