"""Dates: from text to moments, from moments to numbers and back."""

from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercer.errors import InputError
from mercer.tables.dates import (
    UNITS,
    DayOrder,
    Timeline,
    choose_day_order,
    choose_timeline,
    parse_date,
    parse_dates,
    timeline_from_json,
    to_dates,
)

SECOND = timedelta(seconds=1)
moments = st.datetimes(datetime(1700, 1, 1), datetime(2300, 1, 1)).map(lambda moment: moment.replace(microsecond=0))
lists_of_moments = st.lists(moments, min_size=1, max_size=12, unique=True)


def as_array(dates):
    return np.array(dates, dtype="datetime64[us]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1949-01-31", datetime(1949, 1, 31)),
        ("1949-1-3", datetime(1949, 1, 3)),
        ("1949/01/31", datetime(1949, 1, 31)),
        ("1949-01", datetime(1949, 1, 1)),
        ("1949-01-31T12:30:15", datetime(1949, 1, 31, 12, 30, 15)),
        ("1949-01-31 12:30", datetime(1949, 1, 31, 12, 30)),
        ("1949-01-31 12:30:15.25", datetime(1949, 1, 31, 12, 30, 15, 250_000)),
        ("1949-01-31 12:30:15.123456789", datetime(1949, 1, 31, 12, 30, 15, 123_456)),
        ("1949-01-31T12:30:15Z", datetime(1949, 1, 31, 12, 30, 15)),
        ("Jan 1949", datetime(1949, 1, 1)),
        ("january 1949", datetime(1949, 1, 1)),
        ("Sept. 1949", datetime(1949, 9, 1)),
        ("Jan-1949", datetime(1949, 1, 1)),
        ("31 Jan 1949", datetime(1949, 1, 31)),
        ("31-JAN-1949", datetime(1949, 1, 31)),
        ("January 31, 1949", datetime(1949, 1, 31)),
        ("Jan 31st 1949 4:05 pm", datetime(1949, 1, 31, 16, 5)),
        ("1949 Mar", datetime(1949, 3, 1)),
        ("1949Q3", datetime(1949, 7, 1)),
        ("Q3/1949", datetime(1949, 7, 1)),
        ("3Q1949", datetime(1949, 7, 1)),
        ("3Q19", datetime(2019, 7, 1)),
        ("Q3 '19", None),
        ("Q3'19", datetime(2019, 7, 1)),
        ("5Q19", None),
        ("1949年3月", datetime(1949, 3, 1)),
        ("1949年3月31日", datetime(1949, 3, 31)),
        ("Q4 1949", datetime(1949, 10, 1)),
        ("03/1949", datetime(1949, 3, 1)),
        ("03/04/1950", datetime(1950, 3, 4)),
        ("3/4/1950 12:00 AM", datetime(1950, 3, 4)),
        ("Mar-19", datetime(2019, 3, 1)),
        ("Mar '69", datetime(1969, 3, 1)),
        ("03/04/68", datetime(1968, 3, 4)),
        ("03/04/29", datetime(2029, 3, 4)),
        ("01-Mar-19", datetime(2019, 3, 1)),
        ("2019-W07", datetime(2019, 2, 11)),
        ("2019-W07-3", datetime(2019, 2, 13)),
        ("2019M03", datetime(2019, 3, 1)),
    ],
)
def test_known_forms(text, expected):
    assert parse_date(text, day_first=False)[0] == expected


@pytest.mark.parametrize(
    "text",
    ["may", "mon", "1950", "1949-13", "1949-02-30", "13/13/1950", "2019-W54",
     "Mar 19", "0000-01-01", "1949-01-31 25:00", "",
     "12:30", "Jan", "x1949-01", "1949-01-31 13:00 pm", "1949/01-31", "٢٠٢٠-01-01", "0001-01-01T00:00+05:00"],
)  # fmt: skip
def test_other_texts_are_no_dates(text):
    assert parse_date(text, day_first=False)[0] is None


@pytest.mark.parametrize(
    ("texts", "order"),
    [
        (["01/02/1950", "13/02/1950"], DayOrder(day_first=True, matters=True)),
        (["01/02/1950", "02/13/1950"], DayOrder(day_first=False, matters=True)),
        (["01/02/50", "13/02/50"], DayOrder(day_first=True, matters=True)),
        (["01/01/1950", "02/02/1950"], DayOrder(day_first=False, matters=False)),
        (["01.02.1950", "03.04.1950"], DayOrder(day_first=True, matters=True)),
        (["1950-01-02", "Jan 1950"], DayOrder(day_first=False, matters=False)),
        # even steps: the firsts of months the one way are days of January the other
        ([f"01/{month:02}/{year}" for year in (1950, 1951) for month in range(1, 13)], DayOrder(True, matters=True)),
        ([f"{month:02}/01/{year}" for year in (1950, 1951) for month in range(1, 13)], DayOrder(False, matters=True)),
        # uneven, but in order of time the one way
        (["02/01/1950", "11/01/1950", "03/02/1950", "01/05/1950", "05/05/1950", "04/12/1950"], DayOrder(True, True)),
    ],
)
def test_the_whole_column_decides_the_order_of_day_and_month(texts, order):
    assert choose_day_order("when", texts) == order


@pytest.mark.parametrize("texts", [["01/02/1950", "03/04/1950"], [f"{day:02}/03/19" for day in range(1, 13)]])
def test_an_order_that_nothing_decides_is_refused_unless_it_is_given(texts):
    with pytest.raises(InputError, match=r"'when' does not tell .* Say --day-first or --month-first"):
        choose_day_order("when", texts)
    assert choose_day_order("when", texts, day_first=True) == DayOrder(day_first=True, matters=True)
    assert choose_day_order("when", texts, day_first=False) == DayOrder(day_first=False, matters=True)


def test_short_years_that_come_first_are_refused():
    days = [f"{moment:%y/%m/%d}" for moment in pd.date_range("2019-01-20", periods=40)]
    with pytest.raises(InputError, match=r"19/01/20 .* year seems to come first"):
        choose_day_order("when", days)


def test_offsets_give_two_clocks():
    dates = parse_dates(np.array(["2024-07-01T00:30+02:00", "2024-07-01 00:30", "", "x"], dtype=object), False)
    assert str(dates.wall[0]) == "2024-07-01T00:30:00.000000"
    assert str(dates.universal[0]) == "2024-06-30T22:30:00.000000"
    assert dates.wall[1] == dates.universal[1]
    assert np.isnat(dates.wall[2:]).all()


def test_periods_count_from_their_start():
    periods = pd.Series(pd.period_range("1949Q1", periods=2, freq="Q"))
    assert to_dates(periods).wall.tolist() == [datetime(1949, 1, 1), datetime(1949, 4, 1)]


@given(moments)
def test_iso_texts_are_read_back(moment):
    assert parse_date(moment.isoformat(), day_first=True) == (moment, timedelta(0))
    assert parse_date(str(moment), day_first=False) == (moment, timedelta(0))


@given(moments, st.booleans())
def test_slashed_texts_are_read_back(moment, day_first):
    form = "%d/%m/%Y" if day_first else "%m/%d/%Y"
    day = moment.replace(hour=0, minute=0, second=0)
    assert parse_date(day.strftime(form), day_first)[0] == day


@given(st.text(max_size=30))
def test_any_text_is_a_date_or_not(text):
    parse_date(text, day_first=False)


@pytest.mark.parametrize(
    ("frequency", "unit", "step"),
    [
        ("s", "seconds", 1),
        ("15s", "seconds", 15),
        ("min", "minutes", 1),
        ("30min", "minutes", 30),
        ("h", "hours", 1),
        ("8h", "hours", 8),
        ("D", "days", 1),
        ("B", "days", None),
        ("W", "weeks", 1),
        ("14D", "weeks", 2),
        ("28D", "weeks", 4),
        ("MS", "months", 1),
        ("ME", "months", 1),
        ("QS", "months", 3),
        ("QE", "months", 3),
        ("YS", "years", 1),
        ("YE", "years", 1),
        ("YS-JUL", "years", 1),
        ("5YS", "years", 5),
    ],
)
def test_the_unit_follows_the_median_gap_and_regular_dates_are_evenly_spaced(frequency, unit, step):
    dates = as_array(pd.date_range("1949-01-01", periods=60, freq=frequency))
    timeline = choose_timeline(dates)
    numbers = timeline.numbers(dates)
    assert timeline.unit == unit
    if step:
        assert numbers.tolist() == [step * position for position in range(60)]
    np.testing.assert_array_equal(timeline.moments(numbers), dates)


def test_monthly_dates_in_mid_month_at_noon_are_whole_numbers():
    dates = as_array([datetime(1949 + month // 12, month % 12 + 1, 15, 12) for month in range(40)])
    assert choose_timeline(dates).numbers(dates).tolist() == list(range(40))


def test_a_day_inside_a_month_is_its_share_of_the_month():
    timeline = choose_timeline(as_array(pd.date_range("1949-01-01", periods=24, freq="MS")))
    assert timeline.numbers(as_array(["1949-02-15"])).tolist() == [1 + 14 / 28]
    assert timeline.numbers(as_array(["1948-12-01"])).tolist() == [-1]


def test_missing_dates_do_not_count_and_one_date_counts_in_days():
    timeline = choose_timeline(as_array(["NaT", "1949-01-05", "1949-01-05"]))
    assert timeline.unit == "days"
    assert timeline.text(0) == "1949-01-05"
    assert np.isnan(timeline.numbers(as_array(["NaT"]))[0])


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        ("years", "1956"),
        ("months", "1956-03"),
        ("weeks", "1956-03-02"),
        ("days", "1956-03-02"),
        ("hours", "1956-03-02 14:05"),
        ("minutes", "1956-03-02 14:05"),
        ("seconds", "1956-03-02 14:05:07"),
    ],
)
def test_texts_are_as_precise_as_the_unit(unit, text):
    timeline = Timeline(unit, np.datetime64("1949-01-01", "us"), np.timedelta64(0, "us"))
    number = timeline.numbers(as_array(["1956-03-02T14:05:07"]))[0]
    assert timeline.text(number) == text


def test_noise_in_the_last_digits_does_not_change_the_text():
    timeline = Timeline("months", np.datetime64("1949-01-01", "us"), np.timedelta64(0, "us"))
    assert timeline.text(86 - 1e-11) == timeline.text(86 + 1e-11) == "1956-03"


def test_numbers_that_are_no_dates():
    timeline = Timeline("days", np.datetime64("1949-01-01", "us"), np.timedelta64(0, "us"))
    assert np.isnat(timeline.moments([np.nan, np.inf])).all()
    assert timeline.text(float("nan")) == "no date"
    with pytest.raises(InputError, match=r"too large.*1e\+30"):
        timeline.moments([0.0, 1e30])


@given(lists_of_moments)
def test_dates_to_numbers_to_dates_in_the_chosen_unit(dates):
    array = as_array(dates)
    timeline = choose_timeline(array)
    np.testing.assert_array_equal(timeline.moments(timeline.numbers(array)), array)
    assert timeline_from_json(timeline.to_json()) == timeline


@given(lists_of_moments, st.sampled_from(UNITS), st.timedeltas(timedelta(days=-1), timedelta(days=28)))
def test_dates_to_numbers_to_dates_in_every_unit_in_order(dates, unit, anchor):
    array = np.sort(as_array(dates))
    timeline = Timeline(unit, np.datetime64("1949-01-01", "us"), np.timedelta64(anchor // SECOND * 10**6, "us"))
    numbers = timeline.numbers(array)
    np.testing.assert_array_equal(timeline.moments(numbers), array)
    assert np.all(np.diff(numbers) > 0)


@given(moments)
def test_the_text_of_the_first_date_is_that_date(moment):
    timeline = choose_timeline(as_array([moment]))
    assert timeline.text(0.0) == moment.date().isoformat()
