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


def weekly() -> tuple[pd.DataFrame, pd.Series]:
    """A pattern of weekdays, each at a level of its own: rows at even steps show it in periods of 3.5 days as well."""
    rng = np.random.default_rng(3)
    days = pd.date_range("2022-03-01", periods=210)
    level = np.array([0.0, 4.0, -3.0, 1.0, 5.0, -4.0, 2.0])[days.to_numpy().astype("datetime64[D]").astype(int) % 7]
    return pd.DataFrame({"date": days}), pd.Series(level + rng.normal(0.0, 1.0, len(days)), name="visitors")


def test_a_season_of_the_calendar_is_no_number_to_find() -> None:
    rows, target = weekly()
    search = mercer.GrammarSearch(bases=["PER", "SE"], max_depth=1)
    model = mercer.GPRegressor(search, random_state=0).fit(rows, target)
    seasons = [leaf.parameter("period") for leaf in model.kernel_.leaves() if leaf.symbol == "PER"]
    assert seasons
    assert all(period.fixed and period.values == (pytest.approx(7.0),) for period in seasons)
    assert model.explain().seasons[0].rhythm == "weekly"
    free = mercer.GPRegressor("PER", random_state=0, restarts=4).fit(rows, target)
    assert model.bic_ < free.bic_


def test_numbers_have_no_calendar() -> None:
    rows, target = weekly()
    numbers = pd.DataFrame({"day": np.arange(len(rows), dtype=float)})
    search = mercer.GrammarSearch(bases=["PER", "SE"], max_depth=1)
    model = mercer.GPRegressor(search, random_state=0).fit(numbers, target)
    assert not any(p.fixed for leaf in model.kernel_.leaves() if leaf.symbol == "PER" for p in leaf.parameters)
