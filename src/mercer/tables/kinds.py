"""Columns of a file as they were written -> columns of numbers, dates and texts, with what was decided about each.

The kind is that of the whole column. A column that is mostly of one kind, with a few other entries, is refused at the
first of them: it is neither.
"""

from __future__ import annotations

import datetime
import numbers as numbers_module
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mercer.errors import InputError
from mercer.tables.dates import Dates, choose_day_order, has_zone, list_date_decisions, parse_dates, show_fields
from mercer.tables.decisions import Decision
from mercer.tables.names import pluralise, quote
from mercer.tables.numerals import (
    Numerals,
    choose_style,
    find_numerals,
    find_odd_ones,
    find_units,
    holds_codes,
    list_decisions,
    read_clock,
    take_off_unit,
)  # fmt: skip

Texts = NDArray[np.object_]

MISSING = ""
MOSTLY = 0.5  # of the entries: the others are slips then, not categories
KINDS = ("number", "date", "text")
LEAVE_OUT = "leave the column out (--exclude)"
MARKS = {
    "-", "--", "–", "—", ".", "..", "...", "?", "na", "n/a", "#n/a", "n.a.", "nan", "null", "nat", "<na>", "#div/0!",
    "#value!", "#ref!", "#num!", "#name?", "#null!",
}  # fmt: skip
MARKS_AMONG_NUMBERS = MARKS | {"none"}  # which may be a category of its own
YEARS = (1500, 2200)
YEARS_BY_NAME = (1000, 2999)  # in a column that is called year: growth rings, climate
YEAR_WORDS = {"year", "years", "yr", "yrs", "fy", "jahr", "jahre", "annee", "année", "ano", "año", "anno", "jaar", "år"}
DATE_WORDS = YEAR_WORDS | {"date", "day", "month", "period", "time", "when", "datum", "monat", "mois", "ym", "yyyymm"}
WEEK_WORDS = {"week", "weeks", "yearweek", "isoweek", "yyyyww", "kw", "woche", "kalenderwoche", "semaine"}
UNIX_WORDS = {"timestamp", "unix", "epoch"}
SERIAL_WORDS = {"date", "dates", "day", "when", "datum", "fecha", "data"}
SERIAL = (20_000, 60_000)  # days since 1899-12-30, as spreadsheets count them: the years 1954 to 2064
UNIX = (315_532_800, 2_524_608_000)  # the years 1980 to 2050
NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?", re.ASCII)
FEW_STORED = 3
FEW = 6  # whole numbers that are all months by chance are hardly more


@dataclass(frozen=True)
class KindOptions:
    """What the user says about columns; None: found out.

    `usual_day_first` decides where the dates do not, `point` that 1.234 is a decimal where nothing else tells, `digits`
    that 2019 and 20190301 may be dates.
    """

    decimal: str | None = None
    day_first: bool | None = None
    usual_day_first: bool | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()  # more texts that stand for a missing number
    numbers: tuple[str, ...] = ()  # columns that hold no dates made of digits
    first_year: int | None = None  # the first that a year of two digits stands for
    point: bool = True
    digits: bool = True


@dataclass(frozen=True)
class WrittenColumn:
    """The entries of a column by their distinct texts; numbers and dates that a workbook stores as such stand apart."""

    name: str
    texts: Texts  # distinct, none of them missing
    places: NDArray[np.intp]  # of each row's text; -1 where there is none
    numbers: NDArray[np.float64]  # stored as such; NaN elsewhere
    moments: NDArray[np.datetime64]
    marks: tuple[tuple[str, int], ...]  # texts that stand for a missing entry, and how many

    @classmethod
    def of(cls, name: str, entries: Iterable[Any], marks: set[str]) -> WrittenColumn:
        """Sort the entries: texts, numbers, moments, and what is missing."""
        values = list(entries)
        texts = np.full(len(values), MISSING, dtype=object)
        numbers = np.full(len(values), np.nan)
        moments = np.full(len(values), np.datetime64("NaT"), dtype="datetime64[us]")
        for row, entry in enumerate(values):
            if isinstance(entry, str):
                texts[row] = entry.strip()
            elif entry is None or (np.ndim(entry) == 0 and pd.isna(entry)):
                continue
            elif isinstance(entry, datetime.date | np.datetime64):
                moments[row] = np.datetime64(entry).astype("datetime64[us]")
            elif isinstance(entry, numbers_module.Real | np.number | np.bool_):
                numbers[row] = float(entry)
            elif isinstance(entry, datetime.timedelta):
                minutes, seconds = divmod(entry.total_seconds(), 60)
                texts[row] = f"{minutes // 60:.0f}:{minutes % 60:02.0f}:{seconds:09.6f}"
            else:
                texts[row] = str(entry).strip()
        places, distinct = pd.factorize(texts)
        absent = np.array([text == MISSING or text.lower() in marks for text in distinct], dtype=bool)
        counts = np.bincount(places, minlength=len(distinct))
        found = tuple((text, int(n)) for text, n, gone in zip(distinct, counts, absent, strict=True) if gone and text)
        renumbered = np.where(absent, -1, np.cumsum(~absent) - 1)
        return cls(name, distinct[~absent], renumbered[places], numbers, moments, found)

    @property
    def stored_count(self) -> int:
        """How many entries are stored as numbers or as dates."""
        return int((~np.isnan(self.numbers)).sum() + (~np.isnat(self.moments)).sum())

    @cached_property
    def numerals(self) -> Numerals:
        """The texts as numbers."""
        return find_numerals(list(self.texts))

    @property
    def rows(self) -> NDArray[np.intp]:
        """The rows that hold a text."""
        return np.flatnonzero(self.places >= 0)

    def spread(self, values: NDArray[Any], stored: NDArray[Any]) -> NDArray[Any]:
        """Return one value for each row from those of the distinct texts, and those that are stored as such."""
        out = stored.copy()
        out[self.rows] = values[self.places[self.rows]]
        return out

    def note_missing(self) -> list[Decision]:
        """Return which texts were taken for missing entries."""
        return [Decision("missing", repr(mark), (self.name,), count) for mark, count in self.marks]


@dataclass(frozen=True)
class ReadColumn:
    """A column as numbers, dates or texts, with what was decided; dates that were texts by both clocks."""

    kind: str
    values: Any
    decisions: tuple[Decision, ...] = ()
    dates: Dates | None = None
    day_first: bool = False


def type_columns(
    frame: pd.DataFrame, options: KindOptions, wanted: Iterable[str] | None = None
) -> tuple[pd.DataFrame, list[Decision]]:
    """Return the table with each wanted column as numbers, dates or texts, and what was decided."""
    kinds, said = options.kinds, {mark.lower() for mark in options.missing} | {""}
    names = [name for name in frame.columns if wanted is None or name in set(wanted)]
    typed: dict[str, pd.Series] = {}
    written: dict[str, WrittenColumn] = {}
    decisions: list[Decision] = []
    for name in names:
        column = frame[name]
        if isinstance(column.dtype, pd.CategoricalDtype) or column.dtype.kind in "mMc" or _has_zone(column):
            if kinds.get(name) == "text":
                texts = column.astype(str).str.removesuffix(" 00:00:00").astype(object)
                typed[name] = texts.where(column.notna(), None)
            elif column.dtype.kind == "m":
                typed[name] = column.dt.total_seconds() / 3600.0
                decisions.append(Decision("clock", columns=(name,)))
            continue
        if pd.api.types.is_numeric_dtype(column.dtype):
            digits = read_digits(name, column.to_numpy(dtype=np.float64, na_value=np.nan), options, kinds.get(name))
            if digits is not None:
                typed[name] = pd.Series(digits.values, index=frame.index)
                decisions += digits.decisions
            elif kinds.get(name) == "text":
                typed[name] = column.map(lambda entry: f"{entry:.15g}", na_action="ignore").astype(object)
            continue
        marks = said if kinds.get(name) == "text" else MARKS_AMONG_NUMBERS | said
        written[name] = WrittenColumn.of(name, column, marks)
    decimals = {one.numerals.styles[0].decimal for one in written.values() if _tells_decimal(one)}
    decimal = options.decimal or (decimals.pop() if len(decimals) == 1 else None)
    for name, one in written.items():
        found = read_kind(one, options, decimal, kinds.get(name))
        values = found.values
        if found.kind == "text" and not one.stored_count:  # among which "none" may be a category
            one = WrittenColumn.of(name, frame[name], said if kinds.get(name) == "text" else MARKS | said)
            values = _to_texts(one)
        flags = [decision for decision in found.decisions if decision.kind == "flags"]
        if flags and not np.isnan(values).any():  # as a file without gaps has them: they can be classes, too
            typed[name] = pd.Series(values.astype(bool), index=frame.index)
            decisions += [*(decision for decision in found.decisions if decision not in flags), *one.note_missing()]
            continue
        typed[name] = pd.Series(values, index=frame.index)
        decisions += [*found.decisions, *one.note_missing()]
    table = frame.assign(**typed)
    for name in names:
        if pd.api.types.is_numeric_dtype(table[name].dtype) and not pd.api.types.is_bool_dtype(table[name].dtype):
            table[name], more = take_out_marks(table[name], options.missing)
            decisions += more
    return table, decisions


def take_out_marks(column: pd.Series, said: Iterable[str]) -> tuple[pd.Series, list[Decision]]:
    """Return numbers without those that the user says stand for a missing entry; others that look so are named."""
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    decisions = []
    for mark in said:
        number = float(mark) if NUMBER.fullmatch(mark) else np.nan
        if (count := int(np.sum(values == number))) > 0:
            column = column.astype(np.float64).mask(values == number)
            decisions.append(Decision("missing", repr(mark), (str(column.name),), count))
    suspect = _find_mark(column.to_numpy(dtype=np.float64, na_value=np.nan))
    if suspect is not None:
        decisions.append(Decision("nines", *suspect[:1], (str(column.name),), suspect[1]))
    return column, decisions


def _find_mark(values: NDArray[np.float64]) -> tuple[str, int] | None:
    """Return -999 or the like that comes again and again, further from all other numbers than these from each other."""
    present = values[np.isfinite(values)]
    for end in (present.min(initial=0.0), present.max(initial=0.0)):
        others = present[present != end]
        count = len(present) - len(others)
        if count > 1 and len(others) > count and re.fullmatch(r"-?9{2,6}", f"{end:.0f}") and end == np.rint(end):
            with np.errstate(over="ignore"):
                far = np.abs(others - end).min() > np.ptp(others)
            if far:
                return f"{end:.0f}", count
    return None


def _has_zone(column: pd.Series) -> bool:
    return isinstance(column.dtype, pd.DatetimeTZDtype | pd.PeriodDtype | pd.IntervalDtype)


def _tells_decimal(column: WrittenColumn) -> bool:
    """Tell whether a column of numbers shows what its decimal mark is."""
    numerals = column.numerals
    marks = any(set(one.body) & {".", ","} for one in numerals.parts if one is not None)
    return bool(len(numerals.texts) and numerals.readable.all() and len(numerals.styles) == 1 and marks)


def read_kind(column: WrittenColumn, options: KindOptions, decimal: str | None, kind: str | None) -> ReadColumn:
    """Return the column as numbers, dates or texts; `kind` is the user's word for it, None: find out."""
    name, texts = column.name, list(column.texts)
    if not texts and not column.stored_count:
        return ReadColumn("number", np.full(len(column.places), np.nan))
    if kind == "text":
        return ReadColumn("text", _to_texts(column))
    code = holds_codes(texts) if texts and kind is None else ""
    if code:
        return ReadColumn("text", _to_texts(column), (Decision("codes", code, (name,)),))
    dated = not np.isnat(column.moments).all()
    no_number, no_date = ~column.numerals.readable, np.ones(len(texts), dtype=bool)
    if not dated and not no_number.any() and (column.numerals.styles or not texts):
        values, decisions = read_numbers(column, options, decimal)
        digits = None if decisions else read_digits(name, values, options, kind)
        if digits is not None:
            return digits
        if kind != "date":
            return ReadColumn("number", values, tuple(decisions))
    if np.isnan(column.numbers).all():
        order = choose_day_order(name, [texts[place] for place in column.places[column.rows]], options.day_first,
                                 options.usual_day_first)  # fmt: skip
        dates = parse_dates(column.texts, order.day_first, options.first_year)
        no_date = np.isnat(dates.wall)
        if not no_date.any() and kind != "number":
            wall, universal = (column.spread(clock, column.moments) for clock in (dates.wall, dates.universal))
            _refuse_half_converted(column)
            found = list_date_decisions(name, texts, order, dates.wall)
            return ReadColumn("date", _to_moments(column, dates), tuple(found), Dates(wall, universal), order.day_first)
    if texts and not dated and not no_number.any() and not column.numerals.styles and kind != "date":
        ways = quote(find_odd_ones(column.numerals))
        raise InputError(
            f"Column '{name}' writes numbers in more than one way, as {ways}. Write them in one way, or {LEAVE_OUT}.",
            about="kinds",
        )
    other = None if column.stored_count or kind == "date" else _read_otherwise(column, options, decimal)
    if other is not None:
        return other
    for unreadable, wanted, fits in (
        (no_number, "number", not dated),
        (no_date, "date", column.stored_count == 0 or dated),
    ):
        strange = int(np.isin(column.places, np.flatnonzero(unreadable)).sum())
        mostly = fits and strange and 1 - strange / (len(column.rows) + column.stored_count) > MOSTLY
        if kind == wanted or (kind is None and mostly):
            advice = f"The column is one of {wanted}s. Correct the entry, leave it empty, or {LEAVE_OUT}."
            if kind is None:
                advice = (
                    f"The other entries of this column are mostly {wanted}s. Correct the entry, leave it empty if it "
                    f"is unknown, {LEAVE_OUT}, or say --type {name}=text if these are categories."
                )
            _refuse(column, unreadable, wanted, advice)
    return ReadColumn("text", _to_texts(column))


def _read_otherwise(column: WrittenColumn, options: KindOptions, decimal: str | None) -> ReadColumn | None:
    """Return numbers that are written as true and false, as times of day, or with a unit; None where they are none."""
    name, texts = column.name, list(column.texts)
    if {text.lower() for text in texts} <= {"true", "false"}:
        flags = np.array([float(text.lower() == "true") for text in texts])
        return ReadColumn("number", column.spread(flags, column.numbers), (Decision("flags", columns=(name,)),))
    hours = read_clock(texts)
    if hours is not None:
        return ReadColumn("number", column.spread(hours, column.numbers), (Decision("clock", columns=(name,)),))
    numbers, unit = take_off_unit(texts)
    several = find_units(texts)
    if several:
        raise InputError(
            f"Column '{name}' holds amounts in several units, as {quote(several)}. Write all in one unit, {LEAVE_OUT}, "
            f"or say --type {name}=text if these are categories.",
            about="kinds",
        )
    if not unit:
        return None
    bare = replace(column, texts=np.array(numbers, dtype=object))
    if not bare.numerals.styles:
        return None
    values, decisions = read_numbers(bare, options, decimal)
    return ReadColumn("number", values, (Decision("unit", unit, (name,)), *decisions))


def read_numbers(
    column: WrittenColumn, options: KindOptions, decimal: str | None
) -> tuple[NDArray[np.float64], list[Decision]]:
    """Return a column of which every text is a number, and what was decided."""
    numerals = column.numerals
    if not numerals.styles:
        return column.numbers, []
    style = choose_style(column.name, numerals, column.places[column.rows], decimal, options.point)
    return column.spread(numerals.read(style), column.numbers), list_decisions(column.name, numerals, style)


def read_digits(name: str, values: NDArray[np.float64], options: KindOptions, kind: str | None) -> ReadColumn | None:
    """Return whole numbers that are dates: 20190301, 201903, or years; None where they are none."""
    present = values[~np.isnan(values)]
    if kind in ("number", "text") or not options.digits or (name in options.numbers and kind is None):
        return None
    words = {word.lower() for word in re.findall(r"[A-Z]?[a-zà-ÿ]+|[A-Z]+", name)}
    if not present.size or np.any(present != np.floor(present)):
        return _read_parts_of_days(name, values, bool(words & (SERIAL_WORDS - {"data"})) or kind == "date")
    written = Decision("dates from digits", f"{present[0]:.0f}", (name,))
    for digits, form in ((12, "%Y%m%d%H%M"), (14, "%Y%m%d%H%M%S")):
        if np.all((present >= YEARS[0] * 10 ** (digits - 4)) & (present < YEARS[1] * 10 ** (digits - 4))):
            moments = _parse_digits(values, form)
            if moments is not None:
                return ReadColumn("date", moments, (written,))
    if words & WEEK_WORDS and _within(present // 100) and np.all((present % 100 >= 1) & (present % 100 <= 53)):
        weeks = [f"{value // 100:.0f}-W{value % 100:02.0f}" if value == value else "" for value in values]
        moments = parse_dates(np.array(weeks, dtype=object), day_first=False).wall
        if not np.isnat(moments[~np.isnan(values)]).any():
            return ReadColumn("date", moments, (written,))
    years, months, days = present // 10_000, present // 100 % 100, present % 100
    if _within(years) and np.all((months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)):
        moments = _parse_digits(values, "%Y%m%d")
        if moments is not None:
            return ReadColumn("date", moments, (written,))
    distinct = np.unique(present)
    years, months = present // 100, present % 100
    said = bool(words & DATE_WORDS) or kind == "date"
    if _within(years) and np.all((months >= 1) & (months <= 12)):
        counted = np.unique(years * 12 + months)
        if said or (len(distinct) >= FEW and np.all(np.diff(counted) == 1)):
            return ReadColumn("date", _from_months(values // 100 * 12 + values % 100 - 1), (written,))
    for factor in (1, 1000):  # seconds or milliseconds since 1970
        if words & UNIX_WORDS and np.all((present >= UNIX[0] * factor) & (present <= UNIX[1] * factor)):
            seconds = pd.to_datetime(pd.Series(values / factor), unit="s", utc=True)
            return ReadColumn("date", seconds.array, (written,))
    by_days = bool(words & SERIAL_WORDS) or kind == "date"
    if by_days and np.all((present >= SERIAL[0]) & (present <= SERIAL[1])):
        moments = pd.to_datetime(pd.Series(values), unit="D", origin="1899-12-30").to_numpy("datetime64[us]")
        return ReadColumn("date", moments, (replace(written, kind="dates from day numbers"),))
    steps = np.diff(present)
    counts_up = len(present) >= FEW and bool(np.all(steps == 1)) and present[0] >= 1800 and present[-1] <= 2100
    called = bool(words & YEAR_WORDS) and _within(present, YEARS_BY_NAME)
    if called or (_within(present) and (kind == "date" or counts_up)):
        return ReadColumn("date", _from_months(values * 12), (Decision("years", columns=(name,)),))
    return None


def _parse_digits(values: NDArray[np.float64], form: str) -> NDArray[np.datetime64] | None:
    """Return whole numbers as dates of this form; None where one is none."""
    texts = np.array([f"{v:.0f}" if v == v else "" for v in values])
    moments = pd.to_datetime(pd.Series(texts), format=form, errors="coerce").to_numpy("datetime64[us]")
    return None if np.isnat(moments[texts != ""]).any() else moments


def _read_parts_of_days(name: str, values: NDArray[np.float64], named: bool) -> ReadColumn | None:
    """Return 43831.25, six o'clock as spreadsheets count days, where the column is named so and in order of time."""
    present = values[~np.isnan(values)]
    if not named or len(present) < FEW or not np.all((present >= SERIAL[0]) & (present <= SERIAL[1])):
        return None
    steps = np.diff(present)
    if not (np.all(steps > 0) or np.all(steps < 0)):
        return None
    moments = pd.to_datetime(pd.Series(values), unit="D", origin="1899-12-30").dt.round("s").to_numpy("datetime64[us]")
    return ReadColumn("date", moments, (Decision("dates from day numbers", f"{present[0]:.10g}", (name,)),))


def _within(years: NDArray[np.float64], ends: tuple[int, int] = YEARS) -> bool:
    return bool(np.all((years >= ends[0]) & (years <= ends[1])))


def _from_months(counts: NDArray[np.float64]) -> NDArray[np.datetime64]:
    """Return the first moments of months counted from year 0."""
    whole = np.where(np.isnan(counts), 0, counts - 1970 * 12).astype(np.int64)
    moments = whole.astype("datetime64[M]").astype("datetime64[us]")
    return np.where(np.isnan(counts), np.datetime64("NaT", "us"), moments)


def _to_moments(column: WrittenColumn, dates: Dates) -> NDArray[Any]:
    """Return moments; those with zones as pandas keeps them, or as ISO texts where summer time changes the zone."""
    offsets = np.unique(dates.wall - dates.universal)
    if not any(map(has_zone, column.texts)):
        return column.spread(dates.wall, column.moments)
    if len(offsets) > 1 or column.stored_count:
        return _to_texts(column)
    zone = datetime.timezone(offsets[0].astype("timedelta64[s]").item()) if offsets[0] else datetime.UTC
    universal = pd.Series(column.spread(dates.universal, column.moments))
    return universal.dt.tz_localize("UTC").dt.tz_convert(zone).array  # type: ignore[return-value]


def _refuse_half_converted(column: WrittenColumn) -> None:
    """Refuse 13/03/2019 as text beside dates with no day above 12: a spreadsheet program took days for months."""
    fields = [show_fields(text) for text in column.texts]
    stored = column.moments[~np.isnat(column.moments)]
    if not fields or len(stored) < FEW_STORED or any(found is None or max(found) <= 12 for found in fields):
        return
    days = (stored.astype("datetime64[D]") - stored.astype("datetime64[M]")).astype(int) + 1
    if days.max() <= 12:
        raise InputError(
            f"Column '{column.name}' holds dates, and texts such as {column.texts[0]}: opening the file, a spreadsheet "
            "program probably took days for months where it could, and left the rest as text. Open the original file "
            f"again and say there in which order day and month stand, or {LEAVE_OUT}.",
            about="kinds",
        )


def _to_texts(column: WrittenColumn) -> Texts:
    stored: Texts = np.full(len(column.places), None, dtype=object)
    for row in np.flatnonzero(~np.isnan(column.numbers)):
        stored[row] = f"{column.numbers[row]:.15g}"
    for row in np.flatnonzero(~np.isnat(column.moments)):
        stored[row] = str(column.moments[row].astype("datetime64[s]")).replace("T", " ")
    return column.spread(column.texts, stored)


def _refuse(column: WrittenColumn, unreadable: NDArray[np.bool_], wanted: str, advice: str) -> None:
    """Raise for the first row whose text is not what its column holds."""
    rows = np.flatnonzero(np.isin(column.places, np.flatnonzero(unreadable)))
    more = f" ({pluralise(len(rows) - 1, 'more such entry', 'more such entries')} below)" if len(rows) > 1 else ""
    if not len(rows):
        raise InputError(f"Column '{column.name}' holds entries that are not {wanted}s. {advice}", about="kinds")
    text = column.texts[column.places[rows[0]]]
    where = f"Column '{column.name}', data row {rows[0] + 1}"
    raise InputError(f"{where}: {text!r} is not a {wanted}{more}. {advice}", about="kinds")
