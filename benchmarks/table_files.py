"""Table files whose values are known: the values come first, then the form in which they are written.

Nothing here asks Mercer what it would read. A `KnownTable` has the columns as they are meant, the file as bytes, and
what a reader has to decide on the way.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

NUMBERS, DATES, TEXTS = "numbers", "dates", "texts"
REFUSED = "refused"


@dataclass(frozen=True)
class KnownColumn:
    """What a column holds: floats (NaN: missing), datetimes (with their offset where the file has one), or texts."""

    name: str
    kind: str
    values: tuple[Any, ...]
    written: tuple[str, ...]


@dataclass(frozen=True)
class KnownTable:
    """A file, what is in it, and what has to be decided; `outcome` REFUSED: nobody can read it without an option."""

    number: int
    forms: dict[str, str]
    ending: str
    content: bytes
    columns: tuple[KnownColumn, ...]
    decisions: frozenset[str]
    options: dict[str, Any] = field(default_factory=dict)
    outcome: str = "read"
    piped: bool = False  # read from standard input


# ------------------------------------------------------------------------------------------------ numbers


@dataclass(frozen=True)
class NumberForm:
    """How amounts are written: `decimal` holds for the whole file."""

    name: str
    decimal: str
    write: Callable[[float], str]
    decisions: tuple[str, ...] = ()
    digits: int = 2
    low: float = 20.0
    high: float = 90_000.0
    negative: bool = False


def group(value: float, digits: int, mark: str, decimal: str) -> str:
    """Write 1234.5 as 1,234.50 with these two marks."""
    text = f"{value:,.{digits}f}"
    return text.replace(",", "\0").replace(".", decimal).replace("\0", mark)


def _accounting(value: float) -> str:
    return f"({-value:,.2f})" if value < 0 else f"{value:,.2f}"


NUMBER_FORMS = (
    NumberForm("1234.56", ".", lambda v: f"{v:.2f}"),
    NumberForm("1,234.56", ".", lambda v: group(v, 2, ",", "."), ("thousands",)),
    NumberForm("1.234,56", ",", lambda v: group(v, 2, ".", ","), ("thousands", "decimal")),
    NumberForm("1 234,56", ",", lambda v: group(v, 2, " ", ","), ("thousands", "decimal")),
    NumberForm("1(no-break)234,56", ",", lambda v: group(v, 2, "\u00a0", ","), ("thousands", "decimal")),
    NumberForm("1(narrow no-break)234,56", ",", lambda v: group(v, 2, "\u202f", ","), ("thousands", "decimal")),
    NumberForm("1'234.56", ".", lambda v: group(v, 2, "'", "."), ("thousands",)),
    NumberForm("1’234.56", ".", lambda v: group(v, 2, "’", "."), ("thousands",)),
    NumberForm("1234,56", ",", lambda v: f"{v:.2f}".replace(".", ","), ("decimal",)),
    NumberForm("$1,234.56", ".", lambda v: "$" + group(v, 2, ",", "."), ("thousands", "currency")),
    NumberForm("1.234,56 €", ",", lambda v: group(v, 2, ".", ",") + " €", ("thousands", "decimal", "currency")),
    NumberForm("CHF 1'234.56", ".", lambda v: "CHF " + group(v, 2, "'", "."), ("thousands", "currency")),
    NumberForm("-£1,234.56", ".", lambda v: ("-" if v < 0 else "") + "£" + group(abs(v), 2, ",", "."),
               ("thousands", "currency"), negative=True),
    NumberForm("12.5%", ".", lambda v: f"{v:.1f}%", ("per cent",), digits=1, high=99.0),
    NumberForm("12,5 %", ",", lambda v: f"{v:.1f} %".replace(".", ","), ("per cent", "decimal"), digits=1, high=99.0),
    NumberForm("(1,234.56)", ".", _accounting, ("thousands", "minus"), negative=True),
    NumberForm("−1,234.56", ".", lambda v: group(v, 2, ",", ".").replace("-", "−"), ("thousands", "minus"),
               negative=True),
    NumberForm("1,234 and 950", "", lambda v: f"{v:,.0f}", ("thousands",), digits=0, low=20, high=5000),
    NumberForm("1.234 beside 0,5", ",", lambda v: group(v, 0, ".", ","), ("thousands", "decimal"), digits=0, low=1000),
    NumberForm("1.234e+03", ".", lambda v: f"{v:.6e}"),
)  # fmt: skip


def draw_numbers(form: NumberForm, rows: int, rng: np.random.Generator) -> list[float]:
    """Draw amounts over the whole range of sizes, rounded to what is written; the first two show the form."""
    sizes = np.exp(rng.uniform(math.log(form.low), math.log(form.high), rows))
    sizes[0] = form.low * 1.7  # below a thousand, and
    sizes[1] = form.high * 0.7  # above it
    if form.negative:
        sizes[2::3] *= -1
    return [round(float(size), form.digits) for size in sizes]


# -------------------------------------------------------------------------------------------------- dates


@dataclass(frozen=True)
class DateForm:
    """How dates are written, and how far apart they are."""

    name: str
    moments: Callable[[int], list[dt.datetime]]
    write: Callable[[dt.datetime], str]
    decisions: tuple[str, ...] = ()
    whole_number: bool = False  # 2019 or 20190301: a program that stores types keeps an integer


def every(start: str, **step: float) -> Callable[[int], list[dt.datetime]]:
    """Equal steps of time."""
    first = dt.datetime.fromisoformat(start)
    return lambda rows: [first + i * dt.timedelta(**step) for i in range(rows)]


def months(start: str, step: int = 1) -> Callable[[int], list[dt.datetime]]:
    """The first days of every month, quarter or year."""
    first = dt.datetime.fromisoformat(start)

    def make(rows: int) -> list[dt.datetime]:
        counts = [first.month - 1 + i * step for i in range(rows)]
        return [first.replace(year=first.year + n // 12, month=n % 12 + 1) for n in counts]

    return make


def hours_across_summer_time(rows: int) -> list[dt.datetime]:
    """Hours in central Europe around the night of 27 October 2024, when +02:00 becomes +01:00."""
    change = dt.datetime(2024, 10, 27, 1, tzinfo=dt.UTC)
    moments = [dt.datetime(2024, 10, 26, 12, tzinfo=dt.UTC) + i * dt.timedelta(hours=1) for i in range(rows)]
    return [m.astimezone(dt.timezone(dt.timedelta(hours=2 if m < change else 1))) for m in moments]


def _plain(m: dt.datetime, form: str) -> str:
    """Write without leading zeros: 1.3.2019."""
    return form.format(d=m.day, m=m.month, y=m.year, yy=m.year % 100)


DATE_FORMS = (
    DateForm("2019-03-01", every("2019-01-20", days=1), lambda m: f"{m:%Y-%m-%d}"),
    DateForm("2019-03", months("2015-03-01"), lambda m: f"{m:%Y-%m}"),
    DateForm("Mar-19", months("2016-03-01"), lambda m: f"{m:%b-%y}", ("two-digit years",)),
    DateForm("March 2019", months("2016-03-01"), lambda m: f"{m:%B %Y}"),
    DateForm("01/03/19, day first", every("2019-01-20", days=1), lambda m: f"{m:%d/%m/%y}",
             ("day order", "two-digit years")),
    DateForm("03/01/19, month first", every("2019-01-20", days=1), lambda m: f"{m:%m/%d/%y}",
             ("day order", "two-digit years")),
    DateForm("01/03/2019, day first", every("2018-06-20", days=7), lambda m: f"{m:%d/%m/%Y}", ("day order",)),
    DateForm("3/1/2019, month first", every("2018-06-20", days=7), lambda m: _plain(m, "{m}/{d}/{y}"), ("day order",)),
    DateForm("01/03/2019, firsts of months", months("2016-03-01"), lambda m: f"{m:%d/%m/%Y}", ("day order",)),
    DateForm("03/01/19, firsts of months", months("2016-03-01"), lambda m: f"{m:%m/%d/%y}",
             ("day order", "two-digit years")),
    DateForm("1.3.2019", every("2019-01-20", days=1), lambda m: _plain(m, "{d}.{m}.{y}"), ("day order",)),
    DateForm("01.03.19", every("2019-01-20", days=2), lambda m: f"{m:%d.%m.%y}", ("day order", "two-digit years")),
    DateForm("01/03/2019 14:30", every("2019-03-01T00:30", hours=12), lambda m: f"{m:%d/%m/%Y %H:%M}", ("day order",)),
    DateForm("3/1/2019 2:30 PM", every("2019-03-01T00:30", hours=12), lambda m: f"{m:%m/%d/%Y %I:%M %p}",
             ("day order",)),
    DateForm("01-Mar-19", every("2019-01-20", days=1), lambda m: f"{m:%d-%b-%y}", ("two-digit years",)),
    DateForm("12 Jan 2020", every("2020-01-12", days=1), lambda m: f"{m:%d %b %Y}"),
    DateForm("Jan 12, 2020", every("2020-01-12", days=1), lambda m: f"{m:%b %d, %Y}"),
    DateForm("20190301", every("2019-01-20", days=1), lambda m: f"{m:%Y%m%d}", ("dates from digits",), True),
    DateForm("2019-W07", every("2018-12-31", days=7), lambda m: "{}-W{:02}".format(*m.isocalendar())),
    DateForm("2019Q3", months("2008-07-01", 3), lambda m: f"{m.year}Q{m.month // 3 + 1}"),
    DateForm("Q3 2019", months("2008-07-01", 3), lambda m: f"Q{m.month // 3 + 1} {m.year}"),
    DateForm("2019", months("1961-01-01", 12), lambda m: f"{m.year}", ("years",), True),
    DateForm("2019-03-01T10:51:00+02:00", every("2019-03-01T10:51+02:00", hours=1), lambda m: m.isoformat()),
    DateForm("2019-03-01 10:51+02:00, +01:00", hours_across_summer_time, lambda m: m.isoformat(" ", "minutes")),
    DateForm("2019-03-01T10:51:00Z", every("2019-03-01T10:51+00:00", minutes=10),
             lambda m: m.isoformat().replace("+00:00", "Z")),
)  # fmt: skip


# --------------------------------------------------------------------------------------- other columns, files

MISSING_MARKS = ((), ("-",), (".",), ("?",), ("NA",), ("n/a",), ("null",), ("",), ("-", "NA", "?", ""))
THIRD_COLUMNS = ("categories", "codes", "identifiers", "texts over two lines", "whole numbers")
LAYOUTS = (
    "plain", "plain", "title", "two titles and a blank line", "comments", "units", "total", "trailing separators",
    "rows of separators", "names twice", "blank lines", "footnote", "sep=", "title, units and total", "quoted",
)  # fmt: skip


@dataclass(frozen=True)
class Container:
    """Kind of file: delimited text with a separator and an encoding, or one that stores types."""

    name: str
    ending: str
    separator: str = ""
    encoding: str = ""
    decisions: tuple[str, ...] = ()
    line_end: str = "\n"
    piped: bool = False


CONTAINERS = (
    Container("comma, UTF-8", ".csv", ",", "utf-8"),
    Container("comma, UTF-8 with mark", ".csv", ",", "utf-8-sig", line_end="\r\n"),
    Container("comma, standard input", ".csv", ",", "utf-8", piped=True),
    Container("comma, UTF-16", ".csv", ",", "utf-16", ("encoding",)),
    Container("semicolon, UTF-8", ".csv", ";", "utf-8", ("separator",)),
    Container("semicolon, cp1252", ".csv", ";", "cp1252", ("separator", "encoding"), "\r\n"),
    Container("semicolon, UTF-16 without mark", ".csv", ";", "utf-16-le", ("separator", "encoding")),
    Container("tab, UTF-8", ".tsv", "\t", "utf-8", ("separator",)),
    Container("tab, UTF-16", ".txt", "\t", "utf-16", ("separator", "encoding"), "\r\n"),
    Container("pipe, UTF-8", ".txt", "|", "utf-8", ("separator",)),
    Container("pipe, cp1252, standard input", ".txt", "|", "cp1252", ("separator", "encoding"), piped=True),
    Container("workbook of texts", ".xlsx", decisions=("sheet",)),
    Container("workbook of values", ".xlsx", decisions=("sheet",)),
    Container("Parquet of texts", ".parquet"),
    Container("Parquet of values", ".parquet"),
)


def balance(options: Sequence[Any], count: int, rng: np.random.Generator) -> list[Any]:
    """Return `count` entries in which each option comes equally often, in an order by chance."""
    rounds = -(-count // len(options))
    return [options[i] for _ in range(rounds) for i in rng.permutation(len(options))][:count]


def make_tables(count: int = 150, seed: int = 20) -> list[KnownTable]:
    """Return the files; of the last four nobody can tell two how to read them, and two are those with an option."""
    rng = np.random.default_rng(seed)
    designed = count - 4
    factors = [
        balance(options, designed, rng)
        for options in (NUMBER_FORMS, DATE_FORMS, MISSING_MARKS, THIRD_COLUMNS, LAYOUTS, CONTAINERS)
    ]
    tables = [write_table(number, *forms, rng=rng) for number, forms in enumerate(zip(*factors, strict=True))]
    return tables + make_undecided(designed, rng)


def write_table(
    number: int,
    amounts: NumberForm,
    dates: DateForm,
    marks: tuple[str, ...],
    third: str,
    layout: str,
    container: Container,
    rng: np.random.Generator,
) -> KnownTable:
    """Draw values, and write them in these forms."""
    rows = int(rng.integers(32, 60))
    typed = container.name.endswith("of values")
    amount = draw_numbers(amounts, rows, rng)
    written = [amounts.write(value) for value in amount]
    for place in rng.choice(np.arange(3, rows), size=4, replace=False) if marks else ():
        mark = marks[int(rng.integers(len(marks)))]
        amount[place], written[place] = math.nan, mark
    moments = dates.moments(rows)
    rates = [round(float(value), 1) for value in rng.uniform(0, 40, rows)]
    rates[0] = 0.5
    if not amounts.decimal:  # the amounts are all there is to tell by
        rates = [float(round(rate) % 10) for rate in rates]
        rate_texts = [f"{rate:.0f}" for rate in rates]
    else:
        rate_texts = [f"{rate:.1f}".replace(".", amounts.decimal) for rate in rates]
    columns = [
        KnownColumn(
            "Jahr" if dates.name == "2019" else "when", DATES, tuple(moments), tuple(map(dates.write, moments))
        ),
        KnownColumn("Umsatz", NUMBERS, tuple(amount), tuple(written)),
        KnownColumn("rate, net" if layout == "quoted" else "rate", NUMBERS, tuple(rates), tuple(rate_texts)),
        make_third(third, rows, rng),
    ]
    decisions = {*dates.decisions, *container.decisions}
    absent = {mark for mark, value in zip(written, amount, strict=True) if math.isnan(value) and mark}
    if typed:
        if dates.whole_number and container.ending == ".parquet":
            decisions = {*dates.decisions}
        else:
            decisions = set(container.decisions)
    else:
        decisions |= {*amounts.decisions} | ({"missing"} if absent else set())
    if third == "codes":
        decisions.add("codes")
    forms = {
        "numbers": amounts.name, "dates": dates.name, "missing": " ".join(marks) or ("empty" if marks else "none"),
        "third": third, "layout": layout, "file": container.name,
    }  # fmt: skip
    if container.ending == ".parquet":
        forms["layout"] = "plain"
        content = write_parquet(columns, dates, typed)
    else:
        lines, more = lay_out(columns, layout, container, typed, rng)
        decisions |= more
        if container.ending == ".xlsx":
            content = write_workbook(lines)
        else:
            content, encoding = write_text(lines, layout, container)
            if encoding != container.encoding:
                forms["file"] += f" ({encoding} for its characters)"
                decisions.discard("encoding")
            elif encoding == "cp1252" and content.isascii():
                decisions.discard("encoding")
    return KnownTable(
        number, forms, container.ending, content, tuple(columns), frozenset(decisions), piped=container.piped
    )


def make_third(kind: str, rows: int, rng: np.random.Generator) -> KnownColumn:
    """Return a column of texts, codes, identifiers or whole numbers."""
    name, values = "Größe", [str(rng.choice(["Süd", "Nord", "West"])) for _ in range(rows)]
    if kind == "codes":
        name, values = "Größe code", [f"{int(rng.choice([12, 7, 130, 4501])):04}" for _ in range(rows)]
    elif kind == "identifiers":
        name, values = "Größe ID", [f"K-{code}" for code in rng.permutation(np.arange(1000, 1000 + rows))]
    elif kind == "texts over two lines":
        values = [f"{value}\nwing" for value in values]
    elif kind == "whole numbers":
        numbers = [float(value) for value in rng.integers(0, 500, rows)]
        return KnownColumn("Größe", NUMBERS, tuple(numbers), tuple(f"{value:.0f}" for value in numbers))
    return KnownColumn(name, TEXTS, tuple(values), tuple(values))


def lay_out(
    columns: Sequence[KnownColumn], layout: str, container: Container, typed: bool, rng: np.random.Generator
) -> tuple[list[list[Any]], set[str]]:
    """Return the rows of cells with what stands above, between and below them, and the decisions this asks for."""
    names = [column.name for column in columns]
    cells = [column.values if typed else column.written for column in columns]
    body: list[list[Any]] = [list(row) for row in zip(*cells, strict=True)]
    above: list[list[Any]] = []
    below: list[list[Any]] = []
    wanted: set[str] = set()
    if "title" in layout:
        above.append(["Umsatz je Filiale 2019"])
        wanted.add("titles")
    if layout == "two titles and a blank line":
        above += [["exported 2024-05-01, all shops" if container.separator != "," else "all shops"], []]
    if layout == "comments":
        above += [["# written by logger 7"], ["# channel 3"]]
        wanted.add("comments")
    if "units" in layout:
        body.insert(0, ["", "[EUR]", "%", ""])
        wanted.add("units")
    if "total" in layout:
        totals = [sum(v for v in column.values if v == v) if column.kind == NUMBERS else "" for column in columns]
        below.append(["Total", *(f"{t:.0f}" if t != "" and not typed else t for t in totals[1:])])
        wanted.add("totals")
    if layout == "trailing separators":
        body = [row + [""] * 2000 for row in body[:6]] + [row + [""] * 3 for row in body[6:]]
        names = names + [""] * 2000
    if layout == "rows of separators":
        below += [[""] * len(names) for _ in range(300)]
    if layout == "names twice":
        body.insert(len(body) // 2, list(names))
        wanted.add("repeated names")
    if layout == "blank lines":
        for place in (10, 20):
            body.insert(place, [])
    if layout == "footnote":
        below += [[], ["Source: own records"]]
        wanted.add("footnotes")
    return [*above, names, *body, *below], wanted


def write_text(lines: Sequence[Sequence[str]], layout: str, container: Container) -> tuple[bytes, str]:
    """Return delimited text, and its encoding: UTF-8 where that of the container lacks a character."""
    out = io.StringIO()
    quoting = csv.QUOTE_ALL if layout == "quoted" else csv.QUOTE_MINIMAL
    writer = csv.writer(out, delimiter=container.separator, lineterminator=container.line_end, quoting=quoting)
    if layout == "sep=":
        out.write(f"sep={container.separator}{container.line_end}")
    for cells in lines:
        if len(cells) == 1 and layout != "quoted":
            out.write(cells[0] + container.line_end)  # a title is typed in, not exported
        else:
            writer.writerow(cells)
    try:
        return out.getvalue().encode(container.encoding), container.encoding
    except UnicodeEncodeError:
        return out.getvalue().encode("utf-8"), "utf-8"


def write_workbook(lines: Sequence[Sequence[Any]]) -> bytes:
    """Return an Excel workbook; Excel has no zones, so that moments with one are texts in it."""
    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.active
    for cells in lines:
        sheet.append([_cell(value) for value in cells])
    book.create_sheet("notes").append(["nothing to see"])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.isoformat() if value.tzinfo else value
    return None if value == "" or value != value else value


def write_parquet(columns: Sequence[KnownColumn], dates: DateForm, typed: bool) -> bytes:
    """Return a Parquet file of texts, or of values of the right types."""
    import pandas as pd

    frame = pd.DataFrame({column.name: list(column.values if typed else column.written) for column in columns})
    if typed and dates.whole_number:
        frame[columns[0].name] = [int(text) for text in columns[0].written]
    if typed and dates.name.endswith("+01:00"):
        frame[columns[0].name] = pd.to_datetime(frame[columns[0].name], utc=True).dt.tz_convert("Europe/Berlin")
    out = io.BytesIO()
    frame.to_parquet(out)
    return out.getvalue()


def make_undecided(first: int, rng: np.random.Generator) -> list[KnownTable]:
    """Return two tables that can be read in two ways, each without and with the option that says how."""
    twelve = [dt.datetime(2019, 3, day) for day in range(1, 13)]  # 1 to 12 March, or the thirds of twelve months
    spend = [round(float(v), 2) for v in rng.uniform(100, 900, 12)]
    dated = (
        KnownColumn("when", DATES, tuple(twelve), tuple(f"{m:%d/%m/%y}" for m in twelve)),
        KnownColumn("spend", NUMBERS, tuple(spend), tuple(f"{v:.2f}" for v in spend)),
    )
    load = [round(float(v), 3) for v in rng.uniform(1, 900, 12)]
    weighed = (
        KnownColumn("day", NUMBERS, tuple(map(float, range(1, 13))), tuple(map(str, range(1, 13)))),
        KnownColumn("load", NUMBERS, tuple(load), tuple(f"{v:.3f}".replace(".", ",") for v in load)),
    )
    container = Container("semicolon, UTF-8", ".csv", ";", "utf-8")
    found = []
    for columns, options, kinds, form in (
        (dated, {"day_first": True}, ("day order", "two-digit years"), "01/03/19, undecided"),
        (weighed, {"decimal": ","}, ("decimal",), "1,234, undecided"),
    ):
        lines = [[c.name for c in columns], *(list(row) for row in zip(*(c.written for c in columns), strict=True))]
        content, _ = write_text(lines, "plain", container)
        forms = dict.fromkeys(("numbers", "dates"), form) | dict.fromkeys(("missing", "third"), "none")
        forms |= {"layout": "plain", "file": container.name}
        common = {"forms": forms, "ending": ".csv", "content": content, "columns": columns}
        place = first + len(found)
        found.append(KnownTable(place, decisions=frozenset(), outcome=REFUSED, **common))
        found.append(KnownTable(place + 1, decisions=frozenset({"separator", *kinds}), options=options, **common))
    return found
