"""The numbers of the picture that moves: they add up, are few, and cannot leave their place in the page."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from mercer.estimators import GPRegressor
from mercer.explain import explain
from mercer.report.html import report_html
from mercer.report.moving import MOST_INPUTS, MOST_PLACES, MOST_ROWS, gather_numbers, round_numbers
from mercer.report.view import View
from mercer.writing import json_for_script

pytestmark = pytest.mark.filterwarnings("ignore::mercer.MercerWarning")


def numbers_of(model: GPRegressor) -> dict:
    found = gather_numbers(View(model.fitted_), explain(model.fitted_))
    assert found is not None
    return found


def test_parts_and_base_add_up_to_the_mean(mixed: GPRegressor) -> None:
    """One kernel predicts: along every input the sum of its parts is the mean, to the digits that are shown."""
    curves = numbers_of(mixed)["curves"]
    assert {curve["name"] for curve in curves} == {"heat & <light>", "day"}
    for curve in curves:
        total = curve["base"] + np.sum([part["y"] for part in curve["parts"]], axis=0)
        np.testing.assert_allclose(total, curve["mean"], atol=1e-4 * np.ptp(curve["mean"]) + 1e-5)
        assert all(np.array(curve["reach"]) > 0)


def test_one_curve_goes_beyond_the_data(found: GPRegressor) -> None:
    told = numbers_of(found)
    (curve,) = told["curves"]
    assert curve["dates"]
    assert curve["unit"] == "months"  # a place is written as a month
    assert curve["last"] == max(curve["points"]["x"])
    assert curve["x"][-1] > curve["last"]
    assert curve["x"] == sorted(curve["x"])
    assert {part["part"] for part in curve["parts"]} == set(range(len(told["parts"])))


def test_many_rows_and_columns_are_few_numbers() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (MOST_ROWS + 50, MOST_INPUTS + 1))
    kernel = " + ".join(f"SE({column})" for column in range(MOST_INPUTS + 1))
    model = GPRegressor(kernel, restarts=1, max_iterations=2, random_state=0).fit(X[:50], X[:50].sum(axis=1))
    told = numbers_of(model)
    assert len(told["curves"]) == MOST_INPUTS
    assert all(len(curve["x"]) <= MOST_PLACES for curve in told["curves"])
    line = GPRegressor("SE", restarts=1, max_iterations=2, random_state=0).fit(X[:, :1], X[:, 0])
    (curve,) = numbers_of(line)["curves"]
    assert len(curve["points"]["x"]) == MOST_ROWS
    assert len(curve["x"]) == MOST_PLACES


def test_no_text_ends_the_script() -> None:
    text = json_for_script({"name": "</script><!-- & <b>"})
    assert not set("<>&").intersection(text)
    assert json.loads(text) == {"name": "</script><!-- & <b>"}
    assert round_numbers(np.array([1.23456789, np.nan, np.inf])) == [1.23457, None, None]


def test_the_page_holds_them(mixed: GPRegressor) -> None:
    page = report_html(mixed.fitted_)
    held = re.search(r'<script type="application/json" id="moving-numbers">(.*?)</script>', page, re.DOTALL)
    assert held is not None
    assert json.loads(held[1])["target"].startswith("energy")
    assert re.search(r'<div id="moving" hidden>', page)  # without scripts there is nothing to see of it
