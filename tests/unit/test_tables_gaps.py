"""Sentences on missing steps and on the order of time."""

import numpy as np
import pandas as pd

from mercer.datasets import airline
from mercer.tables import Encoding, describe_gaps


def gaps_of(dates):
    frame = pd.DataFrame({"when": dates})
    return describe_gaps(frame, Encoding.learn(frame))


def test_nothing_to_say_about_a_whole_series():
    table = airline()
    assert describe_gaps(table, Encoding.learn(table)) == ()


def test_missing_months():
    table = airline()[["month"]].drop(index=[40, 41, 90])
    assert describe_gaps(table, Encoding.learn(table)) == (
        "column 'month': 3 of 144 expected months are missing, the first after 1952-04; "
        "that is fine, gaps need no filling",
    )


def test_one_missing_day():
    days = pd.date_range("2024-01-01", periods=10).delete(4)
    assert gaps_of(days) == (
        "column 'when': 1 of 10 expected days is missing, after 2024-01-04; that is fine, gaps need no filling",
    )


def test_missing_quarters_name_the_step():
    quarters = pd.date_range("1949-01-01", periods=12, freq="QS").delete([5, 8])
    assert "2 of 12 expected dates (one every 3 months) are missing, the first after 1950-01" in gaps_of(quarters)[0]


def test_weekends_are_not_missing_from_weekdays():
    weekdays = pd.date_range("2024-01-01", periods=30, freq="B")
    assert gaps_of(weekdays) == ()
    assert "1 of 30 expected weekdays is missing, after 2024-01-09" in gaps_of(weekdays.delete(7))[0]


def test_month_ends_and_last_weekdays_have_even_steps():
    assert gaps_of(pd.date_range("2020-01-31", periods=30, freq="ME")) == ()
    assert gaps_of(pd.date_range("2020-01-31", periods=30, freq="BME")) == ()


def test_uneven_dates_have_no_missing_steps():
    days = np.cumsum(np.random.default_rng(0).uniform(0.5, 3, size=40))
    assert gaps_of(pd.Timestamp("2024-01-01") + pd.to_timedelta(days, unit="D")) == ()


def test_rows_out_of_order_repeated_and_missing():
    table = airline()[["month"]]
    table = pd.concat([table, table]).sample(frac=1, random_state=0).reset_index(drop=True)
    encoding = Encoding.learn(table)
    order = ("column 'month': the rows are not in time order; that is fine, no sorting is needed",)
    assert describe_gaps(table, encoding) == order
    table.loc[3, "month"] = pd.NaT
    assert describe_gaps(table, encoding) == order


def test_columns_of_other_kinds_and_absent_ones_are_passed_over():
    encoding = Encoding.learn(pd.DataFrame({"x": [3, 1, 2], "when": ["1949-01", "1949-02", "1949-03"]}))
    assert describe_gaps(pd.DataFrame({"x": [3, 1, 2]}), encoding) == ()
