"""Public holidays as known causes: which days make one, what they are called, what they do."""

from __future__ import annotations

import sys
from datetime import date

import numpy as np
import pandas as pd
import pytest

import mercer
from mercer.errors import InputError
from mercer.forecast.public_holidays import find_holidays, list_days, mark_days

YEARS = range(2021, 2025)
EASTER = {2021: date(2021, 4, 5), 2022: date(2022, 4, 18), 2023: date(2023, 4, 10), 2024: date(2024, 4, 1)}
DAYS = {
    **{date(year, 12, 24): frozenset({"Christmas Eve"}) for year in YEARS},
    **{date(year, 12, 25): frozenset({"Christmas Day"}) for year in YEARS},
    **{date(year, 12, 26): frozenset({"Second Day of Christmas"}) for year in YEARS},
    **{date(year - 1, 12, 31): frozenset({"New Year's Eve"}) for year in YEARS},
    **{date(year, 1, 1): frozenset({"New Year's Day"}) for year in YEARS},
    **{date(year, 10, 3): frozenset({"Unity Day"}) for year in YEARS},
    **{day: frozenset({"Easter Monday"}) for day in EASTER.values()},
}


def test_days_that_follow_each_other_are_one_holiday() -> None:
    times = pd.date_range("2021-01-01", "2023-12-31")
    found = find_holidays(DAYS, times, "day")
    labels = {each.label for each in found}
    assert labels == {"24 to 26 December", "31 December to 1 January", "3 October (Unity Day)", "Easter Monday"}
    marks = mark_days(found, DAYS, times, "day").sum(axis=0)
    counts = dict(zip([each.label for each in found], marks, strict=True))
    assert counts == {
        "24 to 26 December": 9,
        "31 December to 1 January": 6,
        "3 October (Unity Day)": 3,
        "Easter Monday": 3,
    }


def test_weeks_and_hours_have_the_holidays_of_their_days() -> None:
    weeks = pd.date_range("2022-01-03", periods=52, freq="W-MON")
    found = find_holidays(DAYS, weeks, "week")
    christmas = [each.label for each in found].index("24 to 26 December")
    assert mark_days(found, DAYS, weeks, "week")[:, christmas].tolist() == [0.0] * 50 + [1.0, 1.0]  # Saturday to Monday
    hours = pd.date_range("2023-10-02", periods=72, freq="h")
    (unity,) = find_holidays(DAYS, hours, "hour")
    assert mark_days([unity], DAYS, hours, "hour")[:, 0].sum() == 24


def test_months_have_no_holidays() -> None:
    with pytest.raises(InputError, match="in steps of month they are part of the season"):
        find_holidays(DAYS, pd.date_range("2021-01-01", periods=24, freq="MS"), "month")


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "holidays", None)
    with pytest.raises(InputError, match="pip install holidays"):
        mercer.Forecaster(holidays="DE").fit(pd.Series([1.0, 2.0], index=pd.date_range("2024-01-01", periods=2)))
    with pytest.raises(InputError, match="holidays need dates"):
        mercer.Forecaster(holidays="DE").fit([1.0, 2.0, 3.0])


# --------------------------------------------------------------------------------------------------- with the package


@pytest.mark.parametrize(
    ("country", "said"), [("DX", r"DE \(Germany\)"), ("Germny", r"DE \(Germany\)"), ("DE-XX", "there are DE-BB"),
                          ("DEE", r"DE \(Germany\)"), ("aut", r"near ones are AT \(Austria\)"),
                          ("??", "two letters")]
)  # fmt: skip
def test_a_country_that_does_not_exist_names_near_ones(country: str, said: str) -> None:
    pytest.importorskip("holidays")
    with pytest.raises(InputError, match=said):
        list_days(country, 2023, 2023)


def test_countries_may_be_written_in_small_letters() -> None:
    pytest.importorskip("holidays")
    assert list_days("de-by", 2023, 2023) == list_days("DE-BY", 2023, 2023)
    assert list_days("de", 2023, 2023) == list_days("DE", 2023, 2023)


def test_holidays_act_and_are_told(tmp_path_factory: pytest.TempPathFactory) -> None:
    pytest.importorskip("holidays")
    rng, times = np.random.default_rng(0), pd.date_range("2022-11-20", "2023-01-25")
    closed = np.isin(times.strftime("%m-%d"), ["12-24", "12-25", "12-26"])
    y = pd.Series(100 - 60 * closed + rng.normal(size=len(times)), index=times)
    model = mercer.Forecaster(holidays="DE", season=1).fit(y)
    found = model.predict(340)["mean"]
    assert found.loc["2023-12-24":"2023-12-26"].max() < 0.7 * found.loc["2023-12-23"]
    assert found.loc["2023-12-27"] > 0.9 * found.loc["2023-12-23"]
    effect = next(each for each in model.effects() if each.cause == "24 to 26 December")
    assert " % lower" in effect.sentence
    assert -0.7 < effect.low < effect.high < -0.4
    path = tmp_path_factory.mktemp("holidays") / "model.json"
    model.save(path)
    np.testing.assert_allclose(mercer.load(path).predict(340)["mean"], found, rtol=1e-6)
