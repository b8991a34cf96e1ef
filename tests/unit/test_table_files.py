"""The files of the benchmark of tables, a short form of it: every fifth; and single forms that it does not have."""

from __future__ import annotations

import datetime as dt
import io
import re
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.table_files import make_tables
from benchmarks.tables import judge

import mercer.tables
from mercer.cli.predict import read_like
from mercer.errors import InputError
from mercer.tables import Encoding, ReadOptions, read
from mercer.tables.decisions import OTHER_KIND, OTHERWISE, WORDS, describe


@cache
def tables():
    return make_tables()


@pytest.mark.parametrize("number", [*range(0, 146, 5), *range(146, 150)])
def test_a_file_is_read_right_or_refused(number, tmp_path):
    table = tables()[number]
    outcome, why = judge(table, tmp_path)
    assert outcome == ("right" if table.outcome == "read" else "refused"), (table.forms, why)


@pytest.mark.parametrize("form", ["numbers", "dates", "missing", "third"])
def test_every_form_of_the_benchmark_comes_about_equally_often(form):
    counts = pd.Series([table.forms[form] for table in tables()[:-4]]).value_counts()
    assert counts.max() - counts.min() <= 1


@pytest.fixture
def reading(tmp_path: Path):
    """Read a text, or bytes, as a file."""

    def run(content, name="table.csv", **options):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read(file, ReadOptions(**options))

    return run


def notes(found):
    return " | ".join(describe(decision) for decision in found.decisions)


REVERSED = {
    "separator": ("a;b\n1;2\n", {"separator": ","}),
    "titles": ("Report\na,b\n1,2\n3,4\n", {"header": 1}),
    "comments": ("a,b\n1,2\n# gap\n3,4\n", {"keep_rows": True}),
    "units": ("a,b\nkg,%\n1,2\n3,4\n", {"keep_rows": True}),
    "totals": ("a,b\n1,2\n3,4\nTotal,6\n", {"keep_rows": True}),
    "footnotes": ("a,b\n1,2\n3,4\nSource: us\n", {"keep_rows": True}),
    "repeated names": ("a,b\n1,2\na,b\n3,4\n", {"keep_rows": True}),
    "decimal": ("a;b\n1,500;2\n0,250;3\n1,250;3\n", {"kinds": (("a", "text"),)}),
    "thousands": ("a;b\n1.234;2\n950;3\n", {"decimal": "."}),
    "currency": ("a,b\n$5,2\n$6,3\n", {"kinds": (("a", "text"),)}),
    "per cent": ("a,b\n5%,2\n6%,3\n", {"kinds": (("a", "text"),)}),
    "unit": ("a,b\n5 kg,2\n6 kg,3\n", {"kinds": (("a", "text"),)}),
    "clock": ("a,b\n5:10,2\n6:20,3\n", {"kinds": (("a", "text"),)}),
    "flags": ("a;b\ntrue;0,5\nfalse;0,6\n-;0,7\n", {"kinds": (("a", "text"),)}),
    "minus": ("a,b\n(5),2\n6,3\n", {"kinds": (("a", "text"),)}),
    "missing": ("a,b\n-,2\n6,3\n", {"kinds": (("a", "text"),)}),
    "years": ("year,b\n1990,2\n1991,3\n", {"kinds": (("year", "number"),)}),
    "dates from digits": ("a,b\n20190301,2\n20190302,3\n", {"kinds": (("a", "number"),)}),
    "dates from day numbers": ("date,b\n43831,2\n43832,3\n", {"kinds": (("date", "number"),)}),
    "row numbers": (",b\n0,2.5\n1,3.5\n2,7\n", {"kinds": (("column 1", "number"),)}),
    "seasons": ("a,b\n2018/19,2\n2019/20,3\n", {"kinds": (("a", "text"),)}),
    "nines": ("a,b\n" + "-999,1\n5,2\n6,1\n" * 3, {"missing": ("-999",)}),
    "codes": ("a,b\n007,2\n008,3\n", {"kinds": (("a", "number"),)}),
}


@pytest.mark.parametrize("kind", REVERSED)
def test_every_decision_can_be_reversed(reading, kind):
    text, options = REVERSED[kind]
    found = [decision for decision in reading(text).decisions if decision.kind == kind]
    assert len(found) == 1
    option = {"kinds": "type", "missing": "na"}.get(word := next(iter(options)), word.replace("_", "-"))
    assert f"--{option}" in describe(found[0]) or kind == "decimal"
    again = None
    with suppress(InputError):  # who asks for rows of totals is told that they are no numbers
        again = reading(text, **options)
    assert again is None or kind not in {decision.kind for decision in again.decisions}


def test_every_decision_has_words_and_every_option_a_decision():
    source = Path(mercer.tables.__file__).parent
    made = {kind for file in source.glob("*.py") for kind in re.findall(r'Decision\(\s*"([^"]+)"', file.read_text())}
    assert made - set(WORDS) == set()
    assert {kind if isinstance(kind, str) else kind[0] for kind in (*OTHERWISE, *OTHER_KIND)} <= set(WORDS)


def test_a_mark_is_thousands_or_decimal_by_the_rest_of_the_column_or_file(reading):
    assert reading("x;y\n998;1\n999;2\n1,000;3\n1,001;4\n").frame.x.tolist() == [998, 999, 1000, 1001]  # even steps
    assert reading("x;y\n1234;1\n1,234;2\n").frame.x.tolist() == [1234, 1.234]  # who writes 1234
    assert reading("x;y\n0,123;1\n1,234;2\n").frame.x.tolist() == [0.123, 1.234]  # no thousands begin with 0
    assert reading("x;y\n1.234;1,5\n2.345;2,5\n").frame.x.tolist() == [1234, 2345]  # the other column
    assert reading("x,y\n1.234,1\n2.345,2\n").frame.x.tolist() == [1.234, 2.345]  # as all programs write
    with pytest.raises(InputError, match=r"'x' does not tell whether 1\.234 means 1234 or 1\.234.*--decimal"):
        reading("x;y\n1.234;1\n2.345;2\n")
    assert reading("x;y\n1.234;1\n2.345;2\n", decimal=",").frame.x.tolist() == [1234, 2345]
    assert reading("x;y\n1.234;1\n2.345;2\n", decimal=".").frame.x.tolist() == [1.234, 2.345]


def test_columns_that_are_not_used_may_be_undecided(reading):
    found = reading("x;y\n1.234;1\n2.345;2\n", columns=("y",))
    assert found.frame.x.tolist() == ["1.234", "2.345"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x,y\n$5,1\n€6,2\n", ["'x'", "several currencies", "--exclude"]),
        ("x,y\n5%,1\n0.06,2\n", ["'x'", "per cent", "one way"]),
        ("x,y\n5%,1\n6%,2\n7%,3\n8%,4\nnone so far,5\n", ["'x'", "row 5", "'none so far'"]),
        ("when,y\n19/01/20,1\n19/01/21,2\n19/02/05,3\n19/03/01,4\n19/03/02,5\n", ["'when'", "year", "four digits"]),
    ],
)
def test_what_is_mixed_is_refused(reading, text, words):
    with pytest.raises(InputError) as caught:
        reading(text)
    assert all(word in str(caught.value) for word in words), caught.value


def test_years_and_digits_are_dates_where_they_must_be(reading):
    found = reading("year,rpm,month,x\n1990,1500,199001,20\n1991,1600,199002,30\n1993,1500,199003,10\n")
    assert found.frame.year.dt.year.tolist() == [1990, 1991, 1993]
    assert found.frame.rpm.tolist() == [1500, 1600, 1500]
    assert found.frame.month.dt.month.tolist() == [1, 2, 3]
    assert "--type year=number" in notes(found)
    assert reading("year,x\n1990,1\n1991,3\n", kinds=(("year", "number"),)).frame.year.tolist() == [1990, 1991]
    assert reading("n,x\n1990,1\n1991,3\n", kinds=(("n", "date"),)).frame.n.dt.year.tolist() == [1990, 1991]


def test_codes_stay_texts_unless_asked_for(reading):
    text = "zip,x\n01069,1\n80331,2\n"
    found = reading(text)
    assert found.frame.zip.tolist() == ["01069", "80331"]
    assert "leading zeros" in notes(found)
    assert reading(text, kinds=(("zip", "number"),)).frame.zip.tolist() == [1069, 80331]


def test_a_minus_may_be_a_category_and_none_is_one(reading):
    found = reading("test,dose,x\n-,none,1\n+,low,2\n+,high,3\n-,none,4\n", kinds=(("test", "text"),))
    assert found.frame.test.tolist() == ["-", "+", "+", "-"]
    assert found.frame.dose.tolist() == ["none", "low", "high", "none"]


@pytest.mark.parametrize(
    ("entries", "values", "said"),
    [
        (["5 kg", "6 kg", "7.5 kg"], [5, 6, 7.5], "the unit kg"),
        (["10:00", "10:15", "26:30:36"], [10, 10.25, 26.51], "as hours"),
        (["true", "FALSE", ""], [1, 0, np.nan], "1 and 0"),
        (["$(20.00)", "$ 5", "(3) €"], None, "several currencies"),
        (["1,23,456", "12,34,567", "950"], [123456, 1234567, 950], "thousands"),
        (["5-", "6", "7"], [-5, 6, 7], "minus"),
        (["5*", "6", "7"], None, "--type x=text"),
        (["<0.1", "6", "7"], None, "'<0.1' is not a number"),
    ],
)
def test_numbers_in_rarer_forms(reading, entries, values, said):
    text = "x;y\n" + "".join(f"{entry};1\n" for entry in entries)
    if values is None:
        with pytest.raises(InputError, match=re.escape(said)):
            reading(text)
        return
    found = reading(text)
    np.testing.assert_allclose(found.frame.x.to_numpy(float), values)
    assert said in notes(found)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["Mär-19", "Mai-19", "Okt-19"], ["2019-03-01", "2019-05-01", "2019-10-01"]),
        (["1 août 2019", "2 août 2019"], ["2019-08-01", "2019-08-02"]),
        (["12 Dic 2019", "13 Dic 2019"], ["2019-12-12", "2019-12-13"]),
    ],
)
def test_months_in_other_languages(reading, texts, expected):
    frame = reading("when;y\n" + "".join(f"{text};1\n" for text in texts)).frame
    assert [str(moment.date()) for moment in frame.when] == expected


def test_seconds_since_1970(reading):
    frame = reading("timestamp,y\n1546300800,5\n1546304400,6\n").frame
    assert str(frame.timestamp[1]) == "2019-01-01 01:00:00+00:00"


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ('name,note\nanna,"a;b"\nbob,"c;d"\n', ["name", "note"], 2),
        ("country;2019;2020\nA;1,5;2,5\nB;2,5;3,5\n", ["country", "2019", "2020"], 2),
        ("Report, made in May\nmonth,value\n2019-01,5\n2019-02,6\n2019-03,9\n", ["month", "value"], 3),
        ("Station:,Berlin\nfrom:,2019\n\nday,temp,rain\n1,5.5,1\n2,6.5,0\n3,6.0,3\n", ["day", "temp", "rain"], 3),
        ("month;y\n2019-01;5\n2019-02;6\n2019-03;7\n\n* provisional; may change\nSource: x; y\n", ["month", "y"], 3),
        ("a,b\n1,2\n# gap\n3,4\n", ["a", "b"], 2),
        ("rank,b\n#1,2\n#2,4\n#3,5\n", ["rank", "b"], 3),
    ],
)
def test_separators_names_and_rows_around_them(reading, text, names, rows):
    frame = reading(text).frame
    assert list(frame.columns) == names
    assert len(frame) == rows


def test_names_on_two_lines_are_refused(reading):
    with pytest.raises(InputError, match=r"columns 2, 4 have no name.*--header"):
        reading("Sales,,Costs,\n2019,2020,2019,2020\n1,2,3,4\n5,6,7,8\n")


def test_zones_are_kept(reading):
    found = reading("when,x\n2024-07-01T10:51:00+02:00,1\n2024-07-01T11:51:00+02:00,2\n").frame
    assert str(found.when[0]) == "2024-07-01 10:51:00+02:00"


def test_rows_around_the_data_can_be_kept(reading):
    text = "Sales\n\nmonth,y\n,[EUR]\n" + "".join(f"2019-0{i},{i}\n" for i in range(1, 7)) + "Total,21\n"
    assert len(reading(text).frame) == 6
    assert "'Sales'" in notes(reading(text))
    with pytest.raises(InputError, match=r"'Total'|'\[EUR\]'"):
        reading(text, keep_rows=True)
    with pytest.raises(InputError, match="--header: line 90"):
        reading(text, header=90)
    assert list(reading("a,b\nx,y\n1,2\n3,4\n", header=2).frame.columns) == ["x", "y"]


def test_numbers_in_two_ways_are_refused(reading):
    with pytest.raises(InputError, match=r"'x' writes numbers in more than one way, as '1,5', '2\.25'"):
        reading("x;y\n1,5;1\n2.25;2\n")


def test_words_among_texts_are_no_totals(reading):
    assert len(reading("rating,y\n" + "good,1\naverage,2\nbad,3\n" * 4).frame) == 12
    assert len(reading("shop,y\nnorth,1\nsouth,2\nTotal,3\n").frame) == 2
    assert len(reading("n,shop,y\n1,north,1\n2,south,2\n,Total,3\n").frame) == 2


@pytest.mark.parametrize(
    ("name", "options"), [("a.csv", {"sheet": "2"}), ("a.xlsx", {"encoding": "utf-8"}), ("a.parquet", {"header": 2})]
)
def test_options_of_no_use_are_refused(reading, name, options):
    with pytest.raises(InputError, match="of no use"):
        reading("x,y\n1,2\n", name, **options)


def test_the_target_is_no_date(reading):
    assert reading("x,year\n1,1990\n2,1991\n", numbers=("year",)).frame.year.tolist() == [1990, 1991]


def test_total_is_a_category_where_it_comes_often(reading):
    assert len(reading("kind,y\n" + "Total,1\nPart,2\n" * 6).frame) == 12


def test_names_behind_a_comment_sign(reading):
    assert list(reading("# made by a logger\n# t,v\n0,1\n1,2\n").frame.columns) == ["t", "v"]


def test_one_column_of_decimal_commas(reading):
    assert reading("y\n1,5\n2,25\n3,5\n").frame.y.tolist() == [1.5, 2.25, 3.5]


def test_encodings_by_the_users_word(reading):
    text = "größe,y\nä,1\nö,2\n"
    assert reading(text.encode("cp850"), encoding="cp850").frame.iloc[0, 0] == "ä"
    with pytest.raises(InputError, match="--encoding: there is no encoding 'x'"):
        reading(text, encoding="x")
    with pytest.raises(InputError, match="is not utf-8: byte 2"):
        reading(text.encode("cp1252"), encoding="utf-8")


@pytest.mark.parametrize(
    "options", [{"separator": "ab"}, {"decimal": ";"}, {"kinds": (("x", "colour"),)}, {"kinds": (("z", "text"),)}]
)
def test_options_that_cannot_be(reading, options):
    with pytest.raises(InputError, match="--"):
        reading("x,y\n1,2\n3,4\n", **options)


def workbook(**sheets):
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def test_sheets_by_name_and_number(reading):
    content = workbook(first=[["a"], [1], [2]], second=[["b"], [3.5], [4.5]])
    assert list(reading(content, "t.xlsx").frame.columns) == ["a"]
    for sheet in ("second", "2"):
        assert reading(content, "t.xlsx", sheet=sheet).frame.b.tolist() == [3.5, 4.5]
    with pytest.raises(InputError, match=r"--sheet: .* 'first', 'second'"):
        reading(content, "t.xlsx", sheet="third")


def test_workbooks_that_cannot_be_read(reading):
    with pytest.raises(InputError, match="no stored result"):
        reading(workbook(first=[["a", "b"], [1, "=A2*2"], [None, "=A3*2"]]), "t.xlsx")
    whole = workbook(first=[["a", "b"], [1, 2]])
    with pytest.raises(InputError, match="password"):
        reading(b"\xd0\xcf\x11\xe0" + bytes(500), "t.xlsx")
    for content in (b"PK\x03\x04", whole[: len(whole) // 2], b"nonsense"):
        with pytest.raises(InputError, match="workbook"):
            reading(content, "t.xlsx")
    with pytest.raises(InputError, match="empty"):
        reading(workbook(first=[]), "t.xlsx")


def test_a_workbook_of_numbers_and_texts(reading):
    content = workbook(
        first=[["Report"], [], ["n", "x", "flag"], [1, "1.234,5", True], [2, 3.25, False], [3, "-", True]]
    )
    frame = reading(content, "t.xlsx").frame
    assert frame.n.tolist() == [1, 2, 3]
    assert frame.x.iloc[:2].tolist() == [1234.5, 3.25]
    assert np.isnan(frame.x.iloc[2])
    assert frame.flag.tolist() == [1, 0, 1]


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x,y\n1,2\n3,4\n")))
    assert read("-").frame.y.tolist() == [2, 4]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(InputError, match="Standard input is empty"):
        read("-")


def months(form, start, count):
    moments = pd.date_range(start, periods=count, freq="MS")
    return [moment.strftime(form) for moment in moments], [str(moment.date()) for moment in moments]


@pytest.mark.parametrize(
    ("start", "count", "said"),
    [
        ("1949-01-01", 144, "1949 to 1960"),  # the airline passengers, as a spreadsheet shows them
        ("1960-01-01", 240, "1960 to 1979"),
        ("1998-01-01", 60, "1998 to 2002"),
        ("2026-01-01", 240, "2026 to 2045"),
    ],
)
def test_years_of_two_digits_lie_close_together(reading, start, count, said):
    written, expected = months("%b-%y", start, count)
    text = "when,y\n" + "".join(f"{one},{place}.5\n" for place, one in enumerate(written))
    found = reading(text)
    assert [str(moment.date()) for moment in found.frame.when] == expected
    assert f"years of two digits were read as {said} (otherwise: --first-year)" in notes(found)
    moved = reading(text, first_year=int(start[:4]) + 100).frame
    assert moved.when.dt.year.iloc[0] == int(start[:4]) + 100


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["Fri 01/03/2019", "Wed 13/03/2019"], ["2019-03-01", "2019-03-13"]),
        (["Friday, 1 March 2019", "Saturday, 2 March 2019"], ["2019-03-01", "2019-03-02"]),
        (["20190301T0930Z", "20190301T1030Z"], ["2019-03-01 09:30Z", "2019-03-01 10:30Z"]),
        (["01.03.2019 23:00", "01.03.2019 24:00"], ["2019-03-01 23:00", "2019-03-02 00:00"]),
        (["01.03.2019 9h30", "01.03.2019 10:30 Uhr"], ["2019-03-01 09:30", "2019-03-01 10:30"]),
        (["2019-03-01 09:30 CET", "2019-03-01 10:30 CET"], ["2019-03-01 09:30+01:00", "2019-03-01 10:30+01:00"]),
        (["2019-03-01T09:30:00+01:00[Europe/Berlin]"], ["2019-03-01 09:30+01:00"]),
        (["Fri Mar 01 2019 09:30:00 GMT+0100"], ["2019-03-01 09:30+01:00"]),
        (["Fri Mar  1 09:30:00 2019"], ["2019-03-01 09:30"]),
        (["01/Mar/2019:09:30:00 +0100"], ["2019-03-01 09:30+01:00"]),
        (["W07 2019", "W08 2019"], ["2019-02-11", "2019-02-18"]),
        (["KW7/2019", "KW8/2019"], ["2019-02-11", "2019-02-18"]),
        (["H1 2019", "H2 2019"], ["2019-01-01", "2019-07-01"]),
        (["FY2019", "FY2020"], ["2019-01-01", "2020-01-01"]),
        (["2001/02", "2002/03", "2003/04"], ["2001-01-01", "2002-01-01", "2003-01-01"]),
        (["2018-19", "2019-20"], ["2018-01-01", "2019-01-01"]),
        (["2018/2019", "2019/2020"], ["2018-01-01", "2019-01-01"]),
        (["2001/02", "2001/03", "2001/04"], ["2001-02-01", "2001-03-01", "2001-04-01"]),
        (["201903010930", "201903011030"], ["2019-03-01 09:30", "2019-03-01 10:30"]),
        (["20190301093000", "20190301103000"], ["2019-03-01 09:30", "2019-03-01 10:30"]),
        (["1er mars 2019", "2 mars 2019"], ["2019-03-01", "2019-03-02"]),
        (["mar. 2019", "avr. 2019"], ["2019-03-01", "2019-04-01"]),
    ],
)
def test_dates_in_rarer_forms(reading, texts, expected):
    frame = reading("when;y\n" + "".join(f"{text};{place}.5\n" for place, text in enumerate(texts))).frame
    assert list(frame.when) == [pd.Timestamp(moment) for moment in expected]


@pytest.mark.parametrize(
    ("name", "entries", "expected"),
    [
        ("week", ["201951", "201952", "202001"], ["2019-12-16", "2019-12-23", "2019-12-30"]),
        ("Date", [f"{43831 + hour / 24:.10f}" for hour in range(6)], [f"2020-01-01 0{hour}:00" for hour in range(6)]),
    ],
)
def test_numbers_that_are_dates_by_the_name_of_their_column(reading, name, entries, expected):
    found = reading(f"{name},y\n" + "".join(f"{entry},1.5\n" for entry in entries))
    assert list(found.frame[name]) == [pd.Timestamp(moment) for moment in expected]
    assert f"--type {name}=number" in notes(found)


@pytest.mark.parametrize(
    ("entries", "values"),
    [
        (["15.-", "20.-", "25.50"], [15, 20, 25.5]),
        (["15,- €", "20,- €", "25,50 €"], [15, 20, 25.5]),
        (["1:30 PM", "12:00 AM", "12:15 PM"], [13.5, 0, 12.25]),
        (["1.5D-03", "2.5D+01", "3"], [0.0015, 25, 3]),
    ],
)
def test_numbers_of_shops_clocks_and_old_programs(reading, entries, values):
    frame = reading("x;y\n" + "".join(f"{entry};1\n" for entry in entries)).frame
    np.testing.assert_allclose(frame.x.to_numpy(float), values)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("w,y\n5 kg,1\n800 g,2\n2 kg,3\n", ["several units", "'5 kg', '800 g'", "--type w=text"]),
        ("w,y\n950,1\n1.2k,2\n2.5M,3\n", ["several units"]),
        ("d,y\n01/13/2020,1\n14/01/2020,2\n", ["'d'", "14/01/2020 and 01/13/2020"]),
        ("日付,売上\n2020年3月1日,5\n".encode("shift_jis"), ["neither UTF-8 nor Windows-1252", "--encoding shift_jis"]),
    ],
)
def test_what_would_be_read_wrong_is_refused(reading, text, words):
    with pytest.raises(InputError) as caught:
        reading(text)
    assert all(word in str(caught.value) for word in words), caught.value


def test_lists_in_cells_are_texts(tmp_path):
    pd.DataFrame({"x": [[1, 2], [3]], "y": [1.5, 2.5]}).to_parquet(tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet").frame.y.tolist() == [1.5, 2.5]


@pytest.mark.parametrize("text", ['[{"a": 1}, {"a": 2}]', "\n<!DOCTYPE html><table><tr><td>1</td></tr></table>"])
def test_files_of_other_kinds_are_named(reading, text):
    with pytest.raises(InputError, match=r"looks like (JSON|a web page)"):
        reading(text)


def test_durations_are_hours(reading, tmp_path):
    hours = [dt.timedelta(hours=30, minutes=15), dt.timedelta(minutes=30), dt.time(4, 30)]
    frame = reading(workbook(first=[["t", "y"], *([one, 1.5] for one in hours)]), "t.xlsx").frame
    assert frame.t.tolist() == [30.25, 0.5, 4.5]
    pd.DataFrame({"t": pd.to_timedelta(["30:15:00", "0:30:00"]), "y": [1, 2]}).to_parquet(tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet").frame.t.tolist() == [30.25, 0.5]


def test_dates_that_a_spreadsheet_program_half_converted_are_refused(reading):
    day = pd.Timestamp(2019, 1, 1)
    # of 01/03/2019 to 20/03/2019 the first twelve became January 3rd to December 3rd
    dates = [day.replace(month=n, day=3) if n <= 12 else f"{n}/03/2019" for n in range(1, 21)]
    with pytest.raises(InputError, match="took days for months"):
        reading(workbook(first=[["d", "y"], *([one, 1.5] for one in dates)]), "t.xlsx")


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("month passengers\n1 112\n2 118\n3 132\n4 129\n", {"month": [1, 2, 3, 4], "passengers": [112, 118, 132, 129]}),
        ("  x      y\n 1.5   -2.25\n12.5   10.75\n", {"x": [1.5, 12.5], "y": [-2.25, 10.75]}),
        ("total sales\n1 034\n2 118\n3 132\n", {"total sales": [1034, 2118, 3132]}),  # thousands
    ],
)
def test_fields_between_spaces(reading, text, columns):
    found = reading(text, "table.txt")
    assert {name: column.tolist() for name, column in found.frame.items()} == columns
    assert len(columns) == 1 or "fields are separated by spaces (otherwise: --separator)" in notes(found)


def test_totals_of_parts_are_left_out(reading):
    text = "region,sales\nnorth,1\nnorth,2\nnorth Total,3\nsouth,4\nsouth,5\nsouth Total,9\nGrand Total,12\n"
    assert reading(text).frame.sales.tolist() == [1, 2, 4, 5]
    assert len(reading("kind,sales\nnorth,1\nTotal loss,2\nsouth,3\n").frame) == 3  # no total of a loss
    assert len(reading("kind,sales\n" + "social,1\nsocial media,2\n" * 3).frame) == 6  # media is no sum here
    assert len(reading("kind,sales\n" + "fat,1\nfat total,2\n" * 3).frame) == 6  # it comes again and again: a category


def test_marks_of_missing_entries_by_the_users_word(reading):
    text = "t,temp,kind\n" + "".join(f"{n},{-999 if n % 5 == 0 else 20 + n},{'abx'[n % 3]}\n" for n in range(20))
    found = reading(text)
    assert "-999 stands 4 times" in notes(found)
    assert "--na -999" in notes(found)
    again = reading(text, missing=("-999", "x"))
    assert again.frame.temp.isna().sum() == 4
    assert again.frame.kind.isna().sum() == 6
    assert "-999 stands" not in notes(again)
    assert "-999" not in notes(reading("t,y\n" + "".join(f"{n},{-100 * n}.5\n" for n in range(20))))


@pytest.mark.parametrize("text", ["2020-01-01,12.5,3\n2020-01-02,13.5,4\n", "north,12.5\nsouth,13.5\n"])
def test_a_line_of_data_in_place_of_names_is_questioned(reading, text):
    assert "looks like data" in notes(reading(text))


@pytest.mark.parametrize(("origin", "year"), [("1949-01-01", 1953), ("2049-01-01", 2053), ("2019-01-01", 2053)])
def test_years_of_two_digits_in_a_new_table_are_near_those_of_the_model(tmp_path, origin, year):
    encoding = Encoding.learn(pd.DataFrame({"when": pd.date_range(origin, periods=24, freq="MS")}))
    (tmp_path / "new.csv").write_text("when\nJan-53\nFeb-53\n")
    frame = read(tmp_path / "new.csv", read_like(encoding, ReadOptions())).frame
    assert frame.when.dt.year.tolist() == [year, year]
