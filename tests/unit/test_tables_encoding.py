"""Columns to numbers: kinds, notes, and one message for every way to be wrong."""

import copy
import json
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer.datasets import airline
from mercer.errors import DataWarning, InputError
from mercer.tables import Encoding


def learned(**columns):
    frame = pd.DataFrame(columns)
    return Encoding.learn(frame), frame


def encoded(values):
    """Learn and apply one column; return the encoding and its matrix."""
    encoding, frame = learned(x=values)
    return encoding, encoding.apply(frame)


def refused(action, *words):
    with pytest.raises(InputError) as caught:
        action()
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, 3],
        [1.0, 2.0, 3.0],
        np.array([1, 2, 3], dtype=np.float32),
        pd.array([1, 2, 3], dtype="Int64"),
        pd.array([1, 2, 3], dtype="Float64"),
        pd.array([1, 2, 3], dtype="int64[pyarrow]"),
        ["1", " 2 ", "3e0"],
        [Decimal(1), Decimal(2), Decimal(3)],
        np.array([1, "2", 3.0], dtype=object),
    ],
)
def test_number_columns(values):
    encoding, matrix = encoded(values)
    assert matrix.dtype == np.float64
    assert matrix.tolist() == [[1], [2], [3]]
    assert encoding.names == ("x",)
    assert encoding.units == (None,)


@pytest.mark.parametrize(
    "values", [[True, False], pd.array([True, False], dtype="boolean"), np.array([True, False], dtype=object)]
)
def test_true_and_false_become_one_and_zero(values):
    assert encoded(values)[1].tolist() == [[1], [0]]


def test_bare_years_are_numbers():
    encoding, matrix = encoded(["1950", "1951"])
    assert matrix.tolist() == [[1950], [1951]]
    assert encoding.notes == ("column 'x': numbers written as text were read as numbers",)


def test_numbers_that_look_like_dates_get_a_hint():
    assert "2024-01-31" in encoded([20240131, 20240228])[0].notes[0]
    assert encoded([20240131, 20249999])[0].notes == ()


@pytest.mark.parametrize(
    "values",
    [
        pd.to_datetime(["1949-01-01", "1949-02-01", "1949-03-01"]),
        pd.to_datetime(["1949-01-01", "1949-02-01", "1949-03-01"]).tz_localize("Europe/Berlin"),
        pd.period_range("1949-01", periods=3, freq="M"),
        ["1949-01", "1949-02", "1949-03"],
        ["Jan 1949", "Feb 1949", "Mar 1949"],
        [date(1949, 1, 1), date(1949, 2, 1), date(1949, 3, 1)],
        np.array([datetime(1949, 1, 1), "1949-02-01", np.datetime64("1949-03-01")], dtype=object),
        pd.array([datetime(1949, 1, 1), datetime(1949, 2, 1), datetime(1949, 3, 1)], dtype="timestamp[us][pyarrow]"),
    ],
)
def test_date_columns(values):
    encoding, matrix = encoded(values)
    assert matrix.tolist() == [[0], [1], [2]]
    assert encoding.units == ("months",)
    assert encoding.notes == ("column 'x' holds dates and is measured in months since 1949-01",)
    assert encoding.describe_value("x", 86.0) == "1956-03"
    assert encoding.columns[0].timeline.moments([0, 12]).tolist() == [datetime(1949, 1, 1), datetime(1950, 1, 1)]


def test_the_order_of_day_and_month_is_told_and_kept():
    encoding, matrix = encoded(["01/02/1950", "01/03/1950", "01/13/1950"])
    assert matrix.tolist() == [[0], [1], [11]]
    assert "the month comes first" in encoding.notes[1]
    refused(lambda: encoding.apply(pd.DataFrame({"x": ["25/01/1950"]})), "'x'", "row 1", "'25/01/1950'", "month first")


def test_an_order_of_day_and_month_that_nothing_tells_is_refused():
    refused(lambda: encoded(["01/02/1950", "01/03/1950", "01/04/1950"]), "'x'", "--day-first", "pandas.to_datetime")


def test_numbers_in_other_ways_of_writing():
    encoding, matrix = encoded(["1.234,5", "12,25", "(3)"])
    assert matrix[:, 0].tolist() == [1234.5, 12.25, -3]
    assert any("decimal commas" in note for note in encoding.notes)
    assert encoding.apply(pd.DataFrame({"x": ["2.000,5"]})).tolist() == [[2000.5]]


def test_hours_across_daylight_saving_are_even():
    hours = pd.date_range("2024-10-26 22:00", periods=8, freq="h", tz="Europe/Berlin")
    encoding, matrix = encoded(hours)
    assert matrix[:, 0].tolist() == list(range(8))
    assert encoding.notes == ("column 'x' holds dates and is measured in hours since 2024-10-26 22:00 UTC+02:00",)
    as_text = pd.DataFrame({"x": [str(hour) for hour in hours]})
    np.testing.assert_array_equal(encoding.apply(as_text), matrix)


def test_days_across_daylight_saving_are_even():
    assert encoded(pd.date_range("2024-10-25", periods=5, tz="Europe/Berlin"))[1][:, 0].tolist() == list(range(5))


def test_new_tables_are_encoded_from_the_first_origin():
    encoding = Encoding.learn(airline()[["month"]])
    later = pd.DataFrame({"month": ["1961-01", "1948-12"], "extra": [None, None]})
    assert encoding.apply(later).tolist() == [[144], [-1]]


@pytest.mark.parametrize("dtype", ["object", "str", "category", "string"])
def test_category_columns(dtype):
    encoding, matrix = encoded(pd.Series(["west", "east", "north", "east "], dtype=dtype))
    assert encoding.names == ("x",)
    assert encoding.units == (None,)
    assert encoding.categories == {0: 3}
    assert encoding.columns[0].levels == ("east", "north", "west")
    assert matrix.tolist() == [[2], [0], [1], [0]]
    assert encoding.notes == ("column 'x' has 3 categories: east, north, west",)
    assert [encoding.describe_value("x", code) for code in (0.0, 2.0, 3.0)] == ["east", "west", "a new category"]


def test_categories_as_zeros_and_ones():
    frame = pd.DataFrame({"x": ["west", "east", "north", "east "]})
    encoding = Encoding.learn(frame, one_hot=True)
    assert encoding.names == ("x=east", "x=north", "x=west")
    assert encoding.units == (None, None, None)
    assert encoding.categories == {}
    assert encoding.apply(frame).tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0], [1, 0, 0]]
    assert encoding.describe_value("x=east", 1.0) == "1"
    assert Encoding.from_json(encoding.to_json()) == encoding
    refused(lambda: encoding.apply(pd.DataFrame({"x": ["east", "up"]})), "'x'", "row 2", "'up'", "'east', 'north'")


def test_pandas_categories_may_be_numbers_and_unused_ones_do_not_count():
    column = pd.Series(pd.Categorical([1, 2, 1], categories=[1, 2, 3]))
    encoding, _ = encoded(column)
    assert encoding.columns[0].levels == ("1", "2")
    assert encoding.apply(pd.DataFrame({"x": [2.0]})).tolist() == [[1]]


def test_category_names_that_sound_like_dates_stay_categories():
    assert encoded(["may", "june", "may", "june"])[0].columns[0].levels == ("june", "may")


def test_column_order_is_free_and_extra_columns_are_ignored():
    encoding, frame = learned(a=[1, 2], place=["u", "v"], when=["2020-01-01", "2020-01-02"])
    shuffled = frame.assign(other="z")[["other", "when", "place", "a"]]
    np.testing.assert_array_equal(encoding.apply(shuffled), encoding.apply(frame))
    assert encoding.names == ("a", "place", "when")
    assert encoding.units == (None, None, "days")


def test_the_index_does_not_matter_and_names_become_text():
    frame = pd.DataFrame({0: [1.0, 2.0], " b ": ["u", "v"]}, index=[7, 7])
    encoding = Encoding.learn(frame)
    assert encoding.names == ("0", "b")
    assert encoding.apply(frame).shape == (2, 2)
    assert encoding.apply(frame.iloc[:0]).shape == (0, 2)


@pytest.mark.parametrize(
    ("number", "text"),
    [(123456.0, "123500"), (0.00123456, "0.001235"), (12, "12"), (-1.5, "-1.5"), (0, "0"), (-0.0, "0"),
     (1e-7, "1e-07"), (1.23456e12, "1.235e+12"), (99999.0, "100000"), (float("nan"), "nan")],
)  # fmt: skip
def test_plain_numbers_are_shown_to_four_digits(number, text):
    assert learned(x=[1.0])[0].describe_value("x", number) == text


# --- what is refused while learning


def test_text_among_numbers():
    values = [str(number) for number in range(19)]
    values[4:4] = ["about 7"]
    refused(lambda: encoded(values), "'x'", "row 5", "'about 7'", "not a number")
    refused(lambda: encoded(["1", "2", "?", "4", None, "5", "6"]), "'x'", "row 3", "'?'")


def test_text_among_dates():
    refused(
        lambda: encoded(["1949-01-01", "1949-01-02", "1949-02-30", "1949-01-04", "1949-01-05"]), "row 3", "not a date"
    )


def test_mixed_text_is_a_category():
    assert encoded(["1", "a", "b", "2"])[0].columns[0].levels == ("1", "2", "a", "b")


@pytest.mark.parametrize("values", [[f"name {number}" for number in range(20)], [f"n{k % 51}" for k in range(500)]])
def test_too_many_categories(values):
    refused(lambda: encoded(values), "'x'", repr(values[0]), "leave the column out", "convert it to numbers")


def test_few_rows_may_all_differ():
    assert len(encoded([f"name {number}" for number in range(19)])[0].columns[0].levels) == 19
    assert len(encoded([f"name {number % 10}" for number in range(20)])[0].columns[0].levels) == 10


@pytest.mark.parametrize("values", [[None, None], [np.nan, np.nan], ["", "  "], [pd.NaT, pd.NaT]])
def test_empty_columns(values):
    refused(lambda: encoded(values), "'x'", "empty", "leave the column out")


@pytest.mark.parametrize(
    ("values", "word"),
    [
        (pd.to_timedelta([1, 2], unit="D"), "durations"),
        ([1 + 2j, 3j], "complex"),
        ([[1], [2]], "list"),
        ([b"a", b"b"], "bytes"),
    ],
)
def test_columns_of_other_things(values, word):
    refused(lambda: encoded(values), "'x'", word)


def test_tables_without_rows_or_columns_or_with_repeated_names():
    refused(lambda: Encoding.learn(pd.DataFrame({"x": []})), "no rows")
    refused(lambda: Encoding.learn(pd.DataFrame(index=[0, 1])), "no input column")
    refused(lambda: Encoding.learn(pd.DataFrame([[1, 2]], columns=["a", "a "])), "'a'", "rename")
    refused(lambda: Encoding.learn([[1, 2]]), "DataFrame", "list")
    twice = pd.DataFrame({"a=u": [1, 2], "a": ["u", "v"]})
    refused(lambda: Encoding.learn(twice, one_hot=True), "'a=u'")


# --- what is refused while applying


@pytest.mark.parametrize(
    "values",
    [
        [1.0, None, 3.0, None],
        pd.array([1, None, 3, None], dtype="Int64"),
        ["1", "", "3", None],
        ["east", None, "west", " "],
        ["1949-01", None, "1949-03", ""],
        pd.to_datetime(["1949-01-01", None, "1949-03-01", None]),
        pd.Categorical(["a", None, "b", None]),
        np.array([True, None, False, None], dtype=object),
    ],
)
def test_missing_entries(values):
    refused(lambda: encoded(values), "'x'", "2 missing entries", "first in data row 2", "Drop the rows", "fill")


def test_one_missing_and_infinite_entries():
    refused(lambda: encoded([1.0, np.nan]), "1 missing entry, in data row 2")
    refused(lambda: encoded([1.0, 2.0, -np.inf, np.inf]), "'x'", "2 infinite entries", "row 3")
    refused(lambda: encoded(["1", "inf"]), "'x'", "1 infinite entry", "row 2")


def test_missing_columns_are_named_with_a_suggestion():
    encoding, _ = learned(month=[1, 2], place=["u", "v"])
    refused(lambda: encoding.apply(pd.DataFrame({"Months": [1]})), "'month', 'place'", "has 'Months'", "Did you mean")


def test_unseen_levels():
    encoding, _ = learned(place=["u", "v"])
    with pytest.warns(DataWarning, match=r"'place'.*'w', 'z' were not in the data.*'u', 'v'"):
        found = encoding.apply(pd.DataFrame({"place": ["u", "w", "z", "w"]}))
    assert found.tolist() == [[0], [2], [3], [2]]


def test_columns_of_another_kind_than_learned():
    numbers, dates = learned(x=[1, 2])[0], learned(x=["1949-01", "1949-02"])[0]
    refused(lambda: numbers.apply(pd.DataFrame({"x": [1, "two"]})), "'x'", "row 2", "'two'", "learned")
    refused(lambda: numbers.apply(pd.DataFrame({"x": pd.to_datetime(["1949-01-01"])})), "'x'", "not a number")
    refused(lambda: dates.apply(pd.DataFrame({"x": [1949.5]})), "'x'", "1949.5", "dates")
    refused(lambda: dates.apply(pd.DataFrame({"x": ["1949-01", "soon"]})), "'x'", "row 2", "'soon'")
    refused(lambda: dates.apply(pd.DataFrame({"x": [np.nan]})), "'x'", "1 missing entry")


def test_unknown_names_in_questions():
    encoding, _ = learned(month=["1949-01", "1949-02"], size=[1, 2])
    refused(lambda: encoding.describe_value("mnth", 1.0), "'mnth'", "Did you mean 'month'?")


# --- JSON


def example():
    return learned(
        size=[1.5, 2.5, 3.0],
        when=pd.to_datetime(["1949-01-31", "1949-02-28", "1949-03-31"]),
        place=["u", "v", "ü"],
        hour=pd.date_range("2024-10-26 22:00", periods=3, freq="h", tz="Europe/Berlin"),
    )


def test_json_round_trip():
    encoding, frame = example()
    again = Encoding.from_json(json.loads(json.dumps(encoding.to_json())))
    assert again == encoding
    np.testing.assert_array_equal(again.apply(frame), encoding.apply(frame))


def test_bad_json_is_an_input_error():
    good = example()[0].to_json()

    def changed(path, value):
        plain = copy.deepcopy(good)
        place = plain
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        return plain

    bad = [None, [], "x", 3, {}, {**good, "version": 2}, {**good, "format": "other"}, {**good, "columns": []}]
    bad += [{key: value for key, value in good.items() if key != absent} for absent in good]
    bad += [changed(["notes"], [1]), changed(["columns"], {"a": 1}), changed(["columns", 0], "size")]
    bad += [changed(["columns", 0, "kind"], "python"), changed(["columns", 0, "name"], 5)]
    for field, values in {
        "unit": ["fortnights", None, []],
        "origin": ["now", "today", "NaT", "soon", 5, None, "1949-13-01T00:00:00.000000"],
        "anchor_microseconds": ["1", 1.5, True, 10**18],
        "clock": ["sun", None, {}],
        "day_first": [1, "yes", None],
    }.items():
        bad += [changed(["columns", 1, field], value) for value in values]
    bad += [changed(["columns", 2, "levels"], value) for value in ([], "uv", ["u", 1], ["u", "u"], None)]
    bad += [changed(["columns", 0, "name"], "when")]
    for plain in bad:
        with pytest.raises(InputError, match="damaged or of another version"):
            Encoding.from_json(plain)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, st.sampled_from(["format", "version", "columns", "notes"]), st.integers(0, 3), st.data())
def test_any_json_in_place_of_a_field_is_refused_or_equal(value, field, column, data):
    plain = example_json()
    if field == "columns":
        key = data.draw(st.sampled_from(sorted(plain["columns"][column])))
        plain["columns"][column][key] = value
    else:
        plain[field] = value
    try:
        again = Encoding.from_json(plain)
    except InputError:
        return
    assert Encoding.from_json(again.to_json()) == again


def example_json(memory={}):  # noqa: B006  # learned once for all examples
    if not memory:
        memory.update(example()[0].to_json())
    return copy.deepcopy(memory)


names = st.text("abc xyz=", min_size=1, max_size=5).map(lambda name: f"q{name}q")
columns = st.one_of(
    st.lists(st.floats(-1e12, 1e12), min_size=6, max_size=6),
    st.lists(st.integers(-1000, 1000), min_size=6, max_size=6),
    st.lists(st.sampled_from(["east", "west", "", "ü", "a b"]), min_size=6, max_size=6),
    st.lists(st.datetimes(datetime(1800, 1, 1), datetime(2200, 1, 1)), min_size=6, max_size=6),
    st.lists(st.dates(date(1800, 1, 1), date(2200, 1, 1)).map(str), min_size=6, max_size=6),
)


@settings(deadline=None)
@given(st.dictionaries(names, columns, min_size=1, max_size=4), st.randoms())
def test_any_table_is_encoded_alike_after_json_and_shuffling(table, random):
    frame = pd.DataFrame(table)
    try:
        encoding = Encoding.learn(frame)
        matrix = encoding.apply(frame)
    except InputError:
        assert frame.isin([""]).any().any()
        return
    assert matrix.shape == (6, len(encoding.names))
    assert len(encoding.units) == len(encoding.names)
    assert np.isfinite(matrix).all()
    shuffled = list(frame.columns)
    random.shuffle(shuffled)
    again = Encoding.from_json(json.loads(json.dumps(encoding.to_json())))
    assert again == encoding
    np.testing.assert_array_equal(again.apply(frame[shuffled]), matrix)


@given(st.lists(st.dates(date(1700, 1, 1), date(2300, 1, 1)), min_size=1, max_size=10))
def test_dates_come_back_from_their_numbers(dates):
    frame = pd.DataFrame({"when": [str(day) for day in dates]})
    encoding = Encoding.learn(frame)
    back = encoding.columns[0].timeline.moments(encoding.apply(frame)[:, 0])
    assert back.astype("datetime64[D]").tolist() == dates


def test_times_are_shown_by_the_clock_of_the_data():
    encoding, _ = learned(when=["2024-07-01T10:51:00+02:00", "2024-07-01T11:51:00+02:00"])
    again = Encoding.from_json(json.loads(json.dumps(encoding.to_json())))
    assert again.describe_value("when", 0.0) == "2024-07-01 10:51"
    assert again.columns[0].timeline.moments([1.0]).tolist() == [datetime(2024, 7, 1, 11, 51)]
    elsewhere = pd.DataFrame({"when": ["2024-07-01T08:51:00Z", "2024-07-01T10:51:00+01:00"]})
    assert again.apply(elsewhere)[:, 0].tolist() == [0.0, 1.0]
    bad = encoding.to_json()
    bad["columns"][0]["offset_minutes"] = 10_000
    refused(lambda: Encoding.from_json(bad), "offset")
