"""The next steps of a table that was explained: the forecast of its dates, or nothing."""

import numpy as np
import pandas as pd
import pytest

import mercer
from mercer.cli.learn import show_steps
from mercer.forecast.next_steps import foresee


def explain_dates(dates: list[str], values: np.ndarray) -> mercer.GPRegressor:
    table = pd.DataFrame({"day": dates})
    return mercer.GPRegressor("SE + LIN", restarts=1, random_state=0).fit(table, pd.Series(values, name="sales"))


def test_the_next_steps_are_those_of_the_forecaster():
    months = mercer.datasets.airline().tail(60)
    table = pd.DataFrame({"month": months["month"]}).reset_index(drop=True)
    model = mercer.GPRegressor("SE", restarts=1, random_state=0).fit(table, months["passengers"].reset_index(drop=True))
    steps = foresee(model.fitted_)
    index = pd.DatetimeIndex(months["month"])
    plain = mercer.Forecaster().fit(pd.Series(months["passengers"].to_numpy(dtype=float), index=index)).predict(12)
    np.testing.assert_allclose(steps.table["mean"], plain["mean"], rtol=1e-6)
    assert [row["when"] for row in steps.rows][:2] == ["January 1961", "February 1961"]
    assert "all 60 values" in steps.origin


@pytest.mark.parametrize("dates", [["2024-01-01", "2024-01-02"], ["2024-01-01"] * 3 + ["2024-01-02", "2024-01-03"]])
def test_few_dates_and_dates_that_come_twice_have_no_next_steps(dates):
    assert foresee(explain_dates(dates, np.arange(float(len(dates)))).fitted_) is None


def test_numbers_that_are_no_dates_have_no_next_steps():
    model = mercer.GPRegressor("SE", restarts=1, random_state=0).fit(np.arange(8.0)[:, None], np.arange(8.0) ** 2)
    assert foresee(model.fitted_) is None


def test_short_lines_show_the_outer_band_alone():
    dates = [f"2024-01-{day:02d}" for day in range(1, 13)]
    steps = foresee(explain_dates(dates, np.arange(12.0) % 3).fitted_)
    wide, narrow = show_steps(steps, 100), show_steps(steps, 60)
    assert "lower_50" in wide
    assert "lower_50" not in narrow
    assert "lower_95" in narrow
    assert max(map(len, narrow.splitlines())) <= 60
