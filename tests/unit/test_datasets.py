"""The data sets that travel with Mercer."""

import subprocess
import sys

import pandas as pd

from mercer.datasets import airline, nile


def test_airline_holds_the_well_known_numbers():
    table = airline()
    assert list(table.columns) == ["month", "passengers"]
    assert len(table) == 144
    assert table["passengers"].sum() == 40363
    assert table["passengers"].tolist()[:12] == [112, 118, 132, 129, 121, 135, 148, 148, 136, 119, 104, 118]
    assert table["passengers"].tolist()[-12:] == [417, 391, 419, 461, 472, 535, 622, 606, 508, 461, 390, 432]


def test_airline_months_are_dates_without_gaps():
    months = airline()["month"]
    assert pd.api.types.is_datetime64_dtype(months.dtype)
    assert months.iloc[0] == pd.Timestamp("1949-01-01")
    assert months.iloc[-1] == pd.Timestamp("1960-12-01")
    assert (months.dt.day == 1).all()
    assert months.is_monotonic_increasing
    assert months.is_unique


def test_nile_holds_the_well_known_numbers():
    table = nile()
    assert list(table.columns) == ["year", "flow"]
    assert (table["year"].iloc[0], table["year"].iloc[-1]) == (1871, 1970)
    assert table["flow"].sum() == 91935
    assert table["flow"].tolist()[27:30] == [1100, 774, 840]


def test_each_call_returns_a_fresh_table():
    table = airline()
    table["passengers"] = 0
    assert airline()["passengers"].sum() == 40363


def test_importing_the_room_does_not_import_pandas():
    script = "import sys, mercer.datasets; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
