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


def test_one_month_has_one_forecast_in_the_table_and_in_the_sentences():
    months = mercer.datasets.airline().tail(60)
    table = pd.DataFrame({"month": months["month"]}).reset_index(drop=True)
    model = mercer.GPRegressor("SE", restarts=1, random_state=0).fit(table, months["passengers"].reset_index(drop=True))
    steps, said = foresee(model.fitted_).table, model.explain().extrapolation.forecasts
    by_month = steps.set_index(steps["ds"].dt.strftime("%Y-%m"))
    both = [each for each in said if each.at in by_month.index]
    assert len(both) >= 3
    for each in both:
        row = by_month.loc[each.at]
        assert (each.mean, each.low, each.high) == pytest.approx((row["mean"], row["lower_95"], row["upper_95"]))


def test_the_next_steps_are_named_as_a_calendar_does_and_are_predictions_of_the_model():
    dates = [f"2024-{month:02d}" for month in range(1, 13)]
    model = explain_dates(dates, np.arange(12.0) % 3)
    steps = foresee(model.fitted_)
    assert [row["when"] for row in steps.rows][:2] == ["January 2025", "February 2025"]
    mean, std = model.predict(pd.DataFrame({"day": steps.table["ds"].dt.strftime("%Y-%m")}), return_std=True)
    np.testing.assert_allclose(steps.table["mean"], mean)
    np.testing.assert_allclose(steps.table["upper_95"] - steps.table["mean"], 1.96 * std, rtol=1e-4)


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
