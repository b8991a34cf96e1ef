"""The page of a forecast: one series with its table and sentences; many with what stands out in them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import mercer
from mercer.errors import InputError
from mercer.explain.answers import Season
from mercer.forecast.findings import choose_unusual
from mercer.forecast.page import Forecasts, write_picture
from mercer.forecast.words import show_surprise, tell_change, tell_swing


@pytest.fixture(scope="module")
def shops() -> mercer.Forecaster:
    """Three shops by quarter: one rises, one had an odd value, one is calm; names that HTML must escape."""
    rng = np.random.default_rng(0)
    dates = pd.date_range("2015-01-01", periods=24, freq="QS")
    values = {"calm": 50 + rng.normal(size=24), "<odd>": 50 + rng.normal(size=24), "rises": 50 + 4.0 * np.arange(24)}
    values["<odd>"][10] = 90.0
    values["rises"] = values["rises"] + rng.normal(size=24)
    frames = [pd.DataFrame({"unique_id": name, "ds": dates, "y": y}) for name, y in values.items()]
    return mercer.Forecaster(season=1).fit(pd.concat(frames))


def test_one_series_has_a_picture_a_table_and_sentences(forecast_page: Path) -> None:
    text = forecast_page.read_text(encoding="utf-8")
    for said in ("What comes next in passengers?", "January 1955", "95 % between", "Yearly pattern", "a year before"):
        assert said in text.replace("\u00a0", " ")
    assert text.count("<svg") == 2  # wide and narrow
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text
    assert "<script" not in text


def test_many_series_are_ordered_by_what_stands_out(shops: mercer.Forecaster, tmp_path: Path) -> None:
    forecasts = Forecasts.of(shops, 4, target="sales")
    findings = forecasts.findings()
    assert [findings[place].name for place in choose_unusual(findings, 2)] == ["rises", "<odd>"]
    odd = next(each for each in findings if each.name == "<odd>").surprise
    assert odd.place == 10
    assert odd.deviations > 3.5
    assert abs(odd.expected - 50.0) < 5.0
    shops.report(tmp_path / "many.html", 4, target="sales")
    text = (tmp_path / "many.html").read_text(encoding="utf-8")
    assert "&lt;odd&gt;" in text
    assert "<odd>" not in text
    assert "sales in 3 series" in text
    write_picture(forecasts, tmp_path / "many.png", findings)
    assert Image.open(tmp_path / "many.png").width == 1200


def test_what_is_usual_is_not_called_unusual(shops: mercer.Forecaster, tmp_path: Path) -> None:
    shops.report(tmp_path / "many.html", 4)
    assert "What is unusual" in (tmp_path / "many.html").read_text(encoding="utf-8")
    rng = np.random.default_rng(3)
    dates = pd.date_range("2020-01-01", periods=30, freq="MS")
    frames = [pd.DataFrame({"unique_id": name, "ds": dates, "y": 50 + rng.uniform(size=30)}) for name in "abc"]
    calm = mercer.Forecaster(season=1).fit(pd.concat(frames))
    calm.report(tmp_path / "calm.html", 4)
    text = (tmp_path / "calm.html").read_text(encoding="utf-8")
    assert "What is unusual" not in text
    assert "Nothing is unusual" in text


def test_progress_says_how_many_series_are_fitted() -> None:
    frames = [pd.DataFrame({"unique_id": name, "ds": range(6), "y": np.arange(6.0)}) for name in "abc"]
    said: list[tuple[int, int]] = []
    mercer.Forecaster().fit(pd.concat(frames), progress=lambda done, all_: said.append((done, all_)))
    assert said == [(1, 3), (2, 3), (3, 3)]


def test_a_place_that_cannot_be_written_is_a_sentence(shops: mercer.Forecaster, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        shops.report(tmp_path / "nowhere" / "page.html")


@pytest.mark.parametrize(
    ("start", "frequency", "said"),
    [
        ("2023-07-03", "D", "Monday 3 July 2023"),
        ("2023-07-01", "MS", "July 2023"),
        ("2023-07-01", "QS", "quarter 3 of 2023"),
        ("2023-01-01", "YS", "2023"),
        ("2023-07-03", "W-MON", "week of 3 July 2023"),
        ("2023-07-03 14:00", "h", "Monday 3 July 2023, 14:00"),
    ],
)
def test_times_are_written_as_their_step_asks_for(start: str, frequency: str, said: str) -> None:
    from mercer.forecast.reading import read_series
    from mercer.forecast.words import tell_time

    dates = pd.date_range(start, periods=8, freq=frequency)
    calendar = read_series(pd.Series(np.arange(8.0), index=dates), None, None).many[0].calendar
    assert tell_time(dates[0], calendar) == said


def test_changes_of_next_to_nothing_are_no_zero_per_cent() -> None:
    noise = np.random.default_rng(1).normal(size=24)
    for values, said in ((1e9 + noise, " 0."), (np.full(24, 5.0), " as high as the last value.")):
        model = mercer.Forecaster().fit(pd.Series(values))
        forecasts = Forecasts.of(model, 3)
        (found,) = forecasts.findings()
        sentence = tell_change(forecasts.outlooks[0], found.change, "y")
        assert said in sentence
        assert "%" not in sentence
    assert show_surprise(forecasts.outlooks[0], found.surprise).endswith(": 0.0 sd")


def test_weekdays_are_said_with_on() -> None:
    season = Season("ds", 7.0, "weekly", 0.2, 0.1, 0.3, ("Saturday",), ("Sunday",), 1.0, 1.0, False, 0.0)
    assert "highest on Saturday, lowest on Sunday." in tell_swing(season, "visits")
    assert "highest in July" in tell_swing(replace(season, rhythm="yearly", top=("July",)), "visits")
