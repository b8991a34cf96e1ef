"""`mercer forecast`: the next steps of one series or many as a table; bad input is a message and exit code 2."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import Mercer, table


def sales(names: tuple[str, ...] = ("north",)) -> str:
    rng = np.random.default_rng(0)
    rows = ["store,month,sales\n"]
    for name in names:
        for place, month in enumerate(pd.date_range("2021-01-01", periods=30, freq="MS")):
            value = 50 + place + 8 * np.sin(place * np.pi / 6) + rng.normal()
            rows.append(f"{name},{month:%Y-%m},{value:.2f}\n")
    return "".join(rows)


def test_the_next_months_are_shown_and_written(mercer: Mercer, tmp_path: Path) -> None:
    name = table(tmp_path / "sales.csv", sales())
    result = mercer("forecast", name, "--target", "sales", "--horizon", "3", "--out", "next.csv")
    assert result.code == 0, result.err
    assert "The next 3 steps of sales" in result.out
    new = pd.read_csv("next.csv")
    assert list(new["ds"]) == ["2023-07-01", "2023-08-01", "2023-09-01"]
    assert {"mean", "lower_50", "upper_95"} <= set(new.columns)
    page = Path("next-report.html").read_text(encoding="utf-8")
    assert "What comes next in sales?" in page
    assert "September 2023" in page
    assert "function of month" in page  # the column of times as the user calls it
    assert Path("next-forecast.png").stat().st_size > 10_000


def test_many_series_by_id(mercer: Mercer, tmp_path: Path) -> None:
    name = table(tmp_path / "sales.csv", sales(("north", "south")) + "east,2021-01,5\n")
    result = mercer("forecast", name, "--target", "sales", "--horizon", "2", "--id", "store", "--out", "next.csv")
    assert result.code == 0, result.err
    assert "left out" in result.out
    new = pd.read_csv("next.csv")
    assert list(new["store"]) == ["north", "north", "south", "south"]
    assert "sales in 2 series" in Path("next-report.html").read_text(encoding="utf-8")
    findings = pd.read_csv("next-findings.csv")
    assert list(findings["store"]) == ["north", "south"]
    assert list(findings["mean"]) == list(new["mean"][1::2])
    assert "next-findings.csv" in result.out


def test_many_series_without_an_id_are_asked_about(mercer: Mercer, tmp_path: Path) -> None:
    name = table(tmp_path / "sales.csv", sales(("north", "south")))
    result = mercer("forecast", name, "--target", "sales", "--horizon", "2")
    assert result.code == 2
    assert "say --id store" in result.err
    twice = table(tmp_path / "twice.csv", "month,sales\n2021-01,1\n2021-01,2\n2021-02,3\n")
    result = mercer("forecast", twice, "--target", "sales", "--horizon", "2")
    assert "sales has two values for 2021-01-01" in result.err
    zero = table(tmp_path / "zero.csv", "month,sales\n2021-01,1\n2021-02,0\n2021-03,3\n")
    result = mercer("forecast", zero, "--target", "sales", "--horizon", "2", "--positive")
    assert "positive is for values above zero, and sales has 0" in result.err


def promoted() -> str:
    rng = np.random.default_rng(1)
    rows = ["month,promotion,sales\n"]
    for place, month in enumerate(pd.date_range("2021-01-01", periods=36, freq="MS")):
        there = int(place % 5 == 2)
        rows.append(f"{month:%Y-%m},{there},{100 + 30 * there + rng.normal():.2f}\n")
    return "".join(rows)


def test_known_causes_of_the_steps_to_come(mercer: Mercer, tmp_path: Path) -> None:
    name = table(tmp_path / "sales.csv", promoted())
    future = table(tmp_path / "future.csv", "month,promotion\n2024-02,1\n2024-01,0\n2024-03,0\n")  # in any order
    words = ("forecast", name, "--target", "sales", "--horizon", "3", "--causes", "promotion", "--season", "1")
    result = mercer(*words, "--future", future, "--out", "next.csv")
    assert result.code == 0, result.err
    assert "cause   promotion: " in result.out
    assert " % higher (95 % between " in result.out
    assert np.allclose(pd.read_csv("next.csv")["mean"], [100, 130, 100], atol=4)
    page = Path("next-report.html").read_text(encoding="utf-8")
    assert "What known causes do" in page
    assert ".fit(series, causes)" in page
    assert "levels=(50, 80, 95), X=coming)" in page


@pytest.mark.parametrize(
    ("future", "said"),
    [
        (None, "--causes needs their values of the steps to come"),
        ("month,price\n2024-01,0\n", "The future table lacks the column 'promotion'"),
        ("month,promotion\n2023-12,0\n2024-01,0\n", "has 2023-12-01, which is not after the end of the data"),
        ("month,promotion\n2024-02,0\n", "lacks 2024-01-01, one of the 2 steps to come"),
        ("month,promotion\n2024-01,0\n2024-01,1\n", "two rows for 2024-01-01"),
        ("month,promotion\n2024-01,0\n2024-02,\n", "lacks a value of 'promotion' at step 2"),
    ],
)
def test_a_future_table_that_does_not_fit(mercer: Mercer, tmp_path: Path, future: str | None, said: str) -> None:
    name = table(tmp_path / "sales.csv", promoted())
    options = [] if future is None else ["--future", table(tmp_path / "future.csv", future)]
    result = mercer("forecast", name, "--target", "sales", "--horizon", "2", "--causes", "promotion", *options)
    assert result.code == 2
    assert said in result.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--horizon", "0"], "the horizon is a number of steps"),
        (["--horizon", "-3"], "the horizon is a number of steps"),
        (["--horizon", "two"], "the horizon is a number of steps from 1 on, such as 12, not 'two'"),
        (["--horizon", "100000000"], "a number of steps from 1 to 100000, such as 12"),
        (["--horizon", "2", "--time", "store"], "Column 'store' holds 'north', which is no date"),
        (["--horizon", "2", "--id", "shop"], "There is no column 'shop'"),
        (["--horizon", "2", "--time", "sales"], "Column 'sales' is named as --target and as --time"),
        (["--horizon", "2", "--causes", "sales", "--future", "x.csv"], "'sales' is named as --target and as --causes"),
        (["--horizon", "2", "--season", "90"], "a season of 90 is longer than sales, which spans 30 steps"),
        (["--horizon", "2", "--out", "next.txt"], "must end in .csv or .parquet"),
    ],
)
def test_bad_input(mercer: Mercer, tmp_path: Path, options: list[str], said: str) -> None:
    name = table(tmp_path / "sales.csv", sales())
    result = mercer("forecast", name, "--target", "sales", *options)
    assert result.code == 2
    assert said in result.err
    assert "Value error" not in result.err


def test_two_values_for_a_date_are_refused_with_their_series(mercer: Mercer, tmp_path: Path) -> None:
    name = table(tmp_path / "sales.csv", sales(("north", "south")) + "south,2021-03,5\n")
    result = mercer("forecast", name, "--target", "sales", "--horizon", "2", "--id", "store")
    assert result.code == 2
    assert "series 'south' has two values for 2021-03-01: add them up" in result.err


def test_uneven_steps_are_said_with_the_one_that_is_used(mercer: Mercer, tmp_path: Path) -> None:
    days = ["01", "02", "03", "04", "05", "06", "07", "08"]
    rows = [f"2024-01-{day} {'09' if day == '04' else '00'}:00,{int(day)}\n" for day in days]
    name = table(tmp_path / "uneven.csv", "when,load\n" + "".join(rows))
    result = mercer("forecast", name, "--target", "load", "--horizon", "1")
    assert result.code == 0, result.err
    assert "note    the steps are not even; the typical one, " in result.out


def test_uneven_days_are_followed_by_whole_days(mercer: Mercer, tmp_path: Path) -> None:
    days = ["01-01", "01-04", "01-05", "01-13", "01-20", "02-02", "02-03", "02-20"]
    name = table(tmp_path / "uneven.csv", "day,load\n" + "".join(f"2020-{day},{n}\n" for n, day in enumerate(days)))
    result = mercer("forecast", name, "--target", "load", "--horizon", "1", "--json")
    assert json.loads(result.out)["rows"][0]["ds"] == "2020-02-27"


def test_bands_that_are_narrow_beside_their_level_are_told_apart(mercer: Mercer, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{day:%Y-%m-%d},{1e9 + rng.normal():.3f}\n" for day in pd.date_range("2024-01-01", periods=40)]
    name = table(tmp_path / "level.csv", "date,y\n" + "".join(rows))
    result = mercer("forecast", name, "--target", "y", "--horizon", "2")
    assert result.code == 0, result.err
    first = next(line for line in result.out.splitlines() if "2024-02-10" in line)
    assert first.split()[:2] == ["Sat", "2024-02-10"]  # days with their weekday
    numbers = [float(text) for text in first.split()[2:]]
    assert len(set(numbers)) == 7
    assert all(abs(number - 1e9) < 10 for number in numbers)
    assert "between 1e+09 and" not in result.out


def test_values_too_large_to_be_squared_are_named(mercer: Mercer, tmp_path: Path) -> None:
    rows = [f"{month:%Y-%m},{place}e300\n" for place, month in enumerate(pd.date_range("2020", periods=20, freq="MS"))]
    result = mercer(
        "forecast", table(tmp_path / "big.csv", "month,y\n" + "".join(rows)), "--target", "y", "--horizon", "2"
    )
    assert result.code == 2
    assert "y holds 1.9e+301: give such values in a larger unit" in result.err


def test_hours_are_shown_with_the_hour_and_series_by_the_name_of_their_column(mercer: Mercer, tmp_path: Path) -> None:
    hours = pd.date_range("2024-03-01", periods=24, freq="h")
    rows = "".join(f"{place},{hour:%Y-%m-%d %H:%M},{hour.hour}\n" for place in ("dam", "mill") for hour in hours)
    name = table(tmp_path / "load.csv", "place,time,load\n" + rows)
    result = mercer("forecast", name, "--target", "load", "--horizon", "1", "--id", "place")
    assert result.code == 0, result.err
    assert "Sat 2024-03-02 00:00:00" in result.out
    assert "place" in result.out
    assert "unique_id" not in result.out


def test_bands_below_zero_of_values_above_it_are_noted_with_the_option(mercer: Mercer, tmp_path: Path) -> None:
    rows = [f"{month:%Y-%m},{40 - place + 3 * (place % 2)}\n"
            for place, month in enumerate(pd.date_range("2021-01-01", periods=36, freq="MS"))]  # fmt: skip
    name = table(tmp_path / "tickets.csv", "month,tickets\n" + "".join(rows))
    words = ("forecast", name, "--target", "tickets", "--horizon", "12", "--json")
    found = json.loads(mercer(*words).out)
    lower = pd.DataFrame(found["rows"])[["lower_95", "lower_80", "lower_50"]]
    assert lower["lower_95"].min() < 0
    assert (lower.to_numpy() != 0).all()  # none stops at zero beside another that goes on
    assert any("say --positive" in note for note in found["notes"])
    found = json.loads(mercer(*words, "--positive").out)
    assert pd.DataFrame(found["rows"])["lower_95"].min() >= 0
    assert not any("--positive" in note for note in found["notes"])


def hours(first: str) -> tuple[str, pd.DatetimeIndex]:
    """Ten days of hours in Berlin, written with the offsets of summer and winter."""
    times = pd.date_range(first, periods=240, freq="h", tz="Europe/Berlin")
    values = 20 + 5 * np.sin(np.arange(240) * np.pi / 12) + 0.1 * np.random.default_rng(0).normal(size=240)
    rows = [f"{time.isoformat()},{value:.2f}\n" for time, value in zip(times, values, strict=True)]
    return "time,kwh\n" + "".join(rows), times


@pytest.mark.parametrize(
    ("first", "after"), [("2024-03-25", "2024-04-04 01:00:00"), ("2024-10-21", "2024-10-30 23:00:00")]
)
@pytest.mark.parametrize("option", [[], ["--time", "time"]])
def test_hours_across_a_clock_change_are_counted_as_they_pass(
    mercer: Mercer, tmp_path: Path, first: str, after: str, option: list[str]
) -> None:
    text, times = hours(first)
    name = table(tmp_path / "load.csv", text)
    result = mercer("forecast", name, "--target", "kwh", "--horizon", "24", "--json", *option)
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert not any("not even" in note for note in found["notes"])
    assert any("shown by the clock of the last row, UTC+0" in note for note in found["notes"])
    assert found["rows"][0]["ds"] == after  # by the clock of the last row
    assert pd.Timestamp(after) == times[-1].tz_localize(None) + pd.Timedelta(hours=1)
    ahead = 20 + 5 * np.sin(np.arange(240, 264) * np.pi / 12)
    assert np.allclose([row["mean"] for row in found["rows"]], ahead, atol=0.5)


def test_causes_to_come_across_a_clock_change_are_matched_by_elapsed_time(mercer: Mercer, tmp_path: Path) -> None:
    times = pd.date_range("2024-10-23", periods=96, freq="h", tz="Europe/Berlin")  # until midnight before the change
    coming = pd.date_range(times[-1] + pd.Timedelta(hours=1), periods=6, freq="h")
    causes = np.arange(102) % 5 == 2
    rows = [f"{time.isoformat()},{int(on)},{10 + 8 * on + 0.1 * (place % 3)}\n"
            for place, (time, on) in enumerate(zip(times, causes[:96], strict=True))]  # fmt: skip
    later = [f"{time.isoformat()},{int(on)}\n" for time, on in zip(coming, causes[96:], strict=True)]
    name = table(tmp_path / "load.csv", "time,on,kwh\n" + "".join(rows))
    future = table(tmp_path / "future.csv", "time,on\n" + "".join(later))
    words = ("forecast", name, "--target", "kwh", "--horizon", "6", "--time", "time", "--season", "1", "--json")
    result = mercer(*words, "--causes", "on", "--future", future)
    assert result.code == 0, result.err
    assert np.allclose([row["mean"] for row in json.loads(result.out)["rows"]], 10.1 + 8 * causes[96:], atol=0.5)


def test_rows_without_a_date_or_an_id_are_left_out_with_a_note(mercer: Mercer, tmp_path: Path) -> None:
    text = sales(("north", "south"))
    words = ("--target", "sales", "--horizon", "2", "--id", "store", "--json")
    whole = json.loads(mercer("forecast", table(tmp_path / "whole.csv", text), *words).out)
    name = table(tmp_path / "sales.csv", text + "north,,5\nsouth,,7\n,2023-07,9\n")
    result = mercer("forecast", name, *words)
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert "2 rows have no 'month' and are left out" in found["notes"]
    assert "1 row has no 'store' and is left out" in found["notes"]
    assert found["rows"] == whole["rows"]


def test_two_tables_in_one_folder_keep_their_own_pages(mercer: Mercer, tmp_path: Path) -> None:
    name = table(tmp_path / "sales.csv", sales())
    for horizon, out in (("2", "a.csv"), ("5", "b.csv")):
        assert mercer("forecast", name, "--target", "sales", "--horizon", horizon, "--out", out).code == 0
    pages = [Path(f"{stem}-report.html").read_text(encoding="utf-8") for stem in ("a", "b")]
    assert ["November 2023" in page for page in pages] == [False, True]
    assert Path("a-forecast.png").read_bytes() != Path("b-forecast.png").read_bytes()


@pytest.mark.parametrize("frequency", ["B", "D"])
def test_weekdays_that_the_data_never_have_are_noted(mercer: Mercer, tmp_path: Path, frequency: str) -> None:
    days = pd.date_range("2023-01-02", periods=40, freq=frequency)
    rows = [f"{day:%Y-%m-%d},{100 + place % 5}\n" for place, day in enumerate(days)]
    name = table(tmp_path / "days.csv", "date,y\n" + "".join(rows))
    result = mercer("forecast", name, "--target", "y", "--horizon", "7")
    assert result.code == 0, result.err
    assert ("Sat 2023" in result.out) == (frequency == "D")
    assert ("the data have no Saturdays and Sundays" in result.out) == (frequency == "B")
