"""Periods that a calendar has a name for, and what a search makes of them along a column of dates."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import mercer
from mercer.fitting.calendar import rhythms_in


def test_months_and_years_are_those_of_the_calendar() -> None:
    assert rhythms_in("months")["yearly"] == 12.0
    assert rhythms_in("years")["quarterly"] == 0.25
    assert rhythms_in("hours")["daily"] == pytest.approx(24.0)
    assert rhythms_in("days")["yearly"] == 365.25
    assert rhythms_in(None) == {}


WEEKEND = (0.0, 0.0, 8.0, 8.0, 0.0, 0.0, 0.0)
TWICE = (0.0, 4.0, -3.0, 1.0, 5.0, -4.0, 2.0)  # up and down twice a week: a smooth wave of 3.5 days, seen at the days


def weekly(levels: tuple[float, ...] = WEEKEND) -> tuple[pd.DataFrame, pd.Series]:
    """A pattern of weekdays: rows at even steps show it in periods of 3.5 days as well."""
    rng = np.random.default_rng(3)
    days = pd.date_range("2022-03-01", periods=210)
    level = np.array(levels)[days.to_numpy().astype("datetime64[D]").astype(int) % 7]
    return pd.DataFrame({"date": days}), pd.Series(level + rng.normal(0.0, 1.0, len(days)), name="visitors")


def test_a_season_of_the_calendar_is_no_number_to_find() -> None:
    rows, target = weekly()
    search = mercer.GrammarSearch(bases=["PER", "SE"], max_depth=1)
    model = mercer.GPRegressor(search, random_state=0).fit(rows, target)
    seasons = [leaf.parameter("period") for leaf in model.kernel_.leaves() if leaf.symbol in ("PER", "CPER")]
    assert seasons
    assert all(period.fixed and period.values == (pytest.approx(7.0),) for period in seasons)
    assert model.explain().seasons[0].rhythm == "weekly"
    free = mercer.GPRegressor("PER", random_state=0, restarts=4).fit(rows, target)
    assert model.bic_ < free.bic_


def test_what_is_seen_again_after_a_week_is_called_weekly() -> None:
    model = mercer.GPRegressor("PER(0, period=fixed(3.5))", random_state=0).fit(*weekly(TWICE))
    (season,) = model.explain().seasons
    assert (season.rhythm, season.period) == ("weekly", 7.0)


def test_numbers_have_no_calendar() -> None:
    rows, target = weekly()
    numbers = pd.DataFrame({"day": np.arange(len(rows), dtype=float)})
    search = mercer.GrammarSearch(bases=["PER", "SE"], max_depth=1)
    model = mercer.GPRegressor(search, random_state=0).fit(numbers, target)
    assert not any(parameter.fixed for leaf in model.kernel_.leaves() for parameter in leaf.parameters)


def test_a_table_with_dates_begins_with_their_seasons() -> None:
    """A line, a yearly season and a category that add up: found as such, not as a product of all."""
    rng = np.random.default_rng(5)
    months = pd.date_range("2016-01-01", periods=84, freq="MS")
    promotion = rng.random(84) < 0.2
    season = 30.0 * np.sin(2.0 * np.pi * (months.month.to_numpy() - 4) / 12.0)
    sales = 200.0 + 1.5 * np.arange(84) + season + 25.0 * promotion + rng.normal(0.0, 8.0, 84)
    rows = pd.DataFrame({"month": months, "promotion": np.where(promotion, "yes", "no")})
    model = mercer.GPRegressor(mercer.GrammarSearch(max_depth=1), random_state=0).fit(rows, sales)
    explanation = model.explain()
    assert sorted(explanation.expression.split(" + ")) == ["CAT(promotion)", "CPER(month)", "LIN(month)"]
    rate, (season,) = explanation.rate, explanation.seasons
    assert rate.beside_others
    assert rate.low * rate.units < 18.0 < rate.high * rate.units
    assert (season.rhythm, season.top, season.bottom) == ("yearly", ("July",), ("January",))
    assert season.low < 60.0 < season.high
    assert "the other inputs aside, the target rises by" in explanation.answers[0].sentence
