"""Input columns: their entries as numbers or texts, and the three kinds (numbers, dates, categories) of a column.

A kind is recognised in training data, and turns the entries of any table into float64 columns.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mercer.errors import DataWarning, InputError
from mercer.tables.dates import (
    ELAPSED_UNITS,
    Dates,
    Moments,
    Timeline,
    choose_timeline,
    parse_dates,
    timeline_from_json,
    to_dates,
)
from mercer.tables.decisions import Decision, describe
from mercer.tables.kinds import LEAVE_OUT, MISSING, KindOptions, Texts, WrittenColumn, read_kind
from mercer.tables.names import list_names, pluralise, quote
from mercer.tables.numerals import find_numerals

MISSING_MARKS = ("nan", "nat", "<na>")  # what pandas makes of a gap when it turns a column into text
READABLE_TYPES = (str, numbers.Real, decimal.Decimal, datetime.date, np.datetime64, np.bool_, pd.Period, pd.Interval)
CLOCKS = ("wall", "utc")
MOST_LEVELS = 50
# From this many rows on, a column where most entries differ is a name or an identifier, not a category.
ROWS_FOR_IDENTIFIERS = 20
MOST_OFFSET = 24 * 60  # minutes of a time zone from UTC
AS_WRITTEN = KindOptions(digits=False)  # who gives 2019 or 20190301 as a number to Python means a number


@dataclass(frozen=True)
class NumberColumn:
    """A column that is used as it is."""

    kind: ClassVar[str] = "number"
    units: ClassVar[tuple[None, ...]] = (None,)  # unknown
    name: str

    @property
    def encoded_names(self) -> tuple[str, ...]:
        return (self.name,)

    def encode(self, column: pd.Series) -> NDArray[np.float64]:
        """One column of finite numbers, or an `InputError` naming the row."""
        advice = "Mercer learned this column as numbers; correct the entry, or leave it empty if it is unknown."
        return to_finite_numbers(column, advice)[:, np.newaxis]

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name}


@dataclass(frozen=True)
class DateColumn:
    """A column of dates, counted in the unit of its timeline. See `Dates` for the two clocks.

    `offset` is what the clock "utc" is ahead of UTC in minutes, so that dates are shown by the clock of the data.
    """

    kind: ClassVar[str] = "date"
    name: str
    timeline: Timeline
    clock: str
    day_first: bool
    offset: int = 0

    @property
    def encoded_names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def units(self) -> tuple[str | None, ...]:
        return (self.timeline.unit,)

    def moments(self, column: pd.Series) -> Moments:
        """The dates of a table's column by this column's clock, missing ones as NaT; a text that is no date raises."""
        if holds_dates(column):
            return self._by_clock(to_dates(column))
        if holds_numbers(column) and column.notna().any():
            raise InputError(
                f"Column '{self.name}' holds numbers such as {column.dropna().iloc[0]}, but Mercer learned it as "
                f"dates. Write the dates in full, as {self.timeline.text(0.0)!r}."
            )
        texts = to_texts(column)
        moments = self._by_clock(parse_dates(texts, self.day_first))
        order = "day" if self.day_first else "month"
        advice = f"Write dates as 1949-01-31; dates like 01/02/1950 are read {order} first in this column."
        refuse_unreadable(self.name, texts, np.isnat(moments) & (texts != MISSING), "date", advice)
        return moments

    def _by_clock(self, dates: Dates) -> Moments:
        return dates.universal + np.timedelta64(self.offset, "m") if self.clock == "utc" else dates.wall

    def encode(self, column: pd.Series) -> NDArray[np.float64]:
        """One column of time since the origin, or an `InputError` naming the row."""
        moments = self.moments(column)
        refuse_missing(self.name, np.isnat(moments))
        return self.timeline.numbers(moments)[:, np.newaxis]

    def to_json(self) -> dict[str, Any]:
        plain = {"kind": self.kind, "name": self.name, "clock": self.clock, "day_first": self.day_first}
        return plain | {"offset_minutes": self.offset} | self.timeline.to_json()


class Categories(ABC):
    """A column of categories: its levels in order, and how they become encoded columns."""

    kind: ClassVar[str]
    name: str
    levels: tuple[str, ...]

    @property
    @abstractmethod
    def encoded_names(self) -> tuple[str, ...]:
        """The names of the encoded columns."""

    @property
    def units(self) -> tuple[str | None, ...]:
        return (None,) * len(self.encoded_names)

    @abstractmethod
    def encode(self, column: pd.Series) -> NDArray[np.float64]:
        """The encoded columns of the rows."""

    @abstractmethod
    def places(self, encoded: NDArray[np.float64]) -> NDArray[np.intp]:
        """The place among the levels of each row, from its encoded columns."""

    @abstractmethod
    def sweep(self) -> NDArray[np.float64]:
        """The encoded columns of one row for each level."""

    def find(self, column: pd.Series) -> tuple[Texts, NDArray[np.intp]]:
        """The entries as texts, and their places among the levels, -1 for an unknown one."""
        texts = to_texts(column)
        refuse_missing(self.name, texts == MISSING)
        return texts, np.asarray(pd.Index(self.levels).get_indexer(pd.Index(texts, dtype=object)), dtype=np.intp)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "levels": list(self.levels)}


@dataclass(frozen=True)
class CategoryColumn(Categories):
    """A column of categories as one encoded column of codes: 0 for the first level, 1 for the next, and so on."""

    kind: ClassVar[str] = "codes"
    name: str
    levels: tuple[str, ...]

    @property
    def encoded_names(self) -> tuple[str, ...]:
        return (self.name,)

    def encode(self, column: pd.Series) -> NDArray[np.float64]:
        """A column of codes. A level that is not known gets a code of its own, and a warning names it."""
        texts, places = self.find(column)
        new = list(dict.fromkeys(texts[places < 0]))
        if new:
            what = f"the category {new[0]!r} was" if len(new) == 1 else f"the categories {quote(new[:5])} were"
            warnings.warn(
                f"column '{self.name}': {what} not in the data that Mercer learned from (known are "
                f"{quote(self.levels)}). Rows with a new category are predicted like the average of the others, with a "
                "wider band",
                DataWarning,
                stacklevel=2,
            )
        codes = {text: len(self.levels) + number for number, text in enumerate(new)}
        found = [codes[text] if place < 0 else place for text, place in zip(texts, places, strict=True)]
        return np.array(found, dtype=np.float64)[:, np.newaxis]

    def places(self, encoded: NDArray[np.float64]) -> NDArray[np.intp]:
        return np.rint(encoded[:, 0]).astype(np.intp)

    def sweep(self) -> NDArray[np.float64]:
        return np.arange(len(self.levels), dtype=np.float64)[:, np.newaxis]


@dataclass(frozen=True)
class OneHotColumn(Categories):
    """A column of categories as one encoded column of zeros and ones for each level.

    For learners without a place for a kernel of categories, and in files of version 0.1.
    """

    kind: ClassVar[str] = "category"
    name: str
    levels: tuple[str, ...]

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """One for each level, as region=east."""
        return tuple(f"{self.name}={level}" for level in self.levels)

    def encode(self, column: pd.Series) -> NDArray[np.float64]:
        """A column of zeros and ones for each level; an unknown level is an `InputError`."""
        texts, places = self.find(column)
        if np.any(places < 0):
            row = int(np.flatnonzero(places < 0)[0])
            raise InputError(
                f"Column '{self.name}', data row {row + 1}: the category {texts[row]!r} was not in the data that "
                f"Mercer learned from. Known are {quote(self.levels)}. "
                "Correct the entry, drop the row, or learn again with it."
            )
        return np.asarray(self.sweep()[places])

    def places(self, encoded: NDArray[np.float64]) -> NDArray[np.intp]:
        return np.asarray(encoded.argmax(axis=1), dtype=np.intp)

    def sweep(self) -> NDArray[np.float64]:
        return np.eye(len(self.levels))


Column = NumberColumn | DateColumn | CategoryColumn | OneHotColumn


def column_from_json(plain: Any) -> Column:
    """Rebuild a column; anything unexpected is a ValueError, TypeError or KeyError."""
    if not isinstance(plain, dict) or not isinstance(plain["name"], str):
        raise TypeError(f"a column must be an object with a name, not {plain!r}")
    name, kind = plain["name"], plain["kind"]
    if kind == "number":
        return NumberColumn(name)
    if kind == "date":
        clock, day_first = plain["clock"], plain["day_first"]
        if clock not in CLOCKS or not isinstance(day_first, bool):
            raise ValueError(f"column '{name}' has a clock or day order that is not known: {clock!r}, {day_first!r}")
        offset = plain.get("offset_minutes", 0)
        if type(offset) is not int or abs(offset) > MOST_OFFSET:
            raise ValueError(f"column '{name}' has an offset from UTC that cannot be: {offset!r}")
        return DateColumn(name, timeline_from_json(plain), clock, day_first, offset)
    if kind in (CategoryColumn.kind, OneHotColumn.kind):
        levels = plain["levels"]
        if not isinstance(levels, list) or not levels or not all(isinstance(level, str) for level in levels):
            raise ValueError(f"column '{name}' must list its levels as texts")
        if len(set(levels)) < len(levels):
            raise ValueError(f"column '{name}' lists a level twice")
        return (CategoryColumn if kind == CategoryColumn.kind else OneHotColumn)(name, tuple(levels))
    raise ValueError(f"unknown kind of column {kind!r}")


Recognition = tuple[Column, tuple[str, ...]]


def recognise(column: pd.Series) -> Recognition:
    """The kind of a column of training data, learned from its entries that are not missing."""
    name = str(column.name)
    empty = InputError(f"Column '{name}' is empty. Fill it in, or {LEAVE_OUT}.", about="inputs")
    if column.isna().all():
        raise empty
    if holds_numbers(column):
        return NumberColumn(name), _note_numbers(name, column)
    if holds_dates(column):
        return _recognise_dates(name, to_dates(column), day_first=False)
    if column.dtype.kind in "mc":
        word = "durations" if column.dtype.kind == "m" else "complex numbers"
        raise InputError(f"Column '{name}' holds {word}. Convert it to plain numbers, or {LEAVE_OUT}.", about="inputs")
    texts = to_texts(column)
    present = texts != MISSING
    if not present.any():
        raise empty
    if isinstance(column.dtype, pd.CategoricalDtype):
        return _recognise_categories(name, texts)
    found = read_kind(WrittenColumn.of(name, texts, set()), AS_WRITTEN, None, None)
    notes = tuple(map(describe, found.decisions))
    if found.kind == "number":
        return NumberColumn(name), (describe(Decision("numbers", columns=(name,))), *notes)
    if found.dates is not None:
        recognised, first = _recognise_dates(name, found.dates, found.day_first)
        return recognised, (*first, *notes)
    return _recognise_categories(name, texts)


def _note_numbers(name: str, column: pd.Series) -> tuple[str, ...]:
    if pd.api.types.is_bool_dtype(column.dtype):
        return (f"column '{name}' holds true and false, which became 1 and 0",)
    numbers = to_numbers(column)
    numbers = numbers[~np.isnan(numbers)]
    # 20240131 is a date to its author; read as a number, the years are far apart and the months are not.
    if np.all((numbers >= 1800_01_01) & (numbers <= 2200_12_31) & (numbers == np.floor(numbers))):
        months, days = numbers // 100 % 100, numbers % 100
        if np.all((months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)):
            example = f"{numbers[0]:.0f}"
            return (
                f"column '{name}' was read as plain numbers such as {example}; if these are dates, "
                f"write them as {example[:4]}-{example[4:6]}-{example[6:]}",
            )
    return ()


def _recognise_dates(name: str, dates: Dates, day_first: bool) -> Recognition:
    clock, offset, timeline = "wall", 0, choose_timeline(dates.wall)
    zoned = not np.array_equal(dates.wall, dates.universal, equal_nan=True)
    if zoned and timeline.unit in ELAPSED_UNITS and timeline.unit not in ("days", "weeks"):
        ahead = (dates.wall - dates.universal)[~np.isnat(dates.wall)]
        offsets, counts = np.unique(ahead, return_counts=True)
        offset = int(offsets[counts.argmax()] / np.timedelta64(1, "m"))  # the clock that most rows go by
        clock, timeline = "utc", choose_timeline(dates.universal + np.timedelta64(offset, "m"))
    zone = f" UTC{offset // 60:+03d}:{offset % 60:02d}" if offset else " UTC"
    since = timeline.text(0.0) + (zone if clock == "utc" else "")
    note = f"column '{name}' holds dates and is measured in {timeline.unit} since {since}"
    return DateColumn(name, timeline, clock, day_first, offset), (note,)


def _recognise_categories(name: str, texts: Texts) -> Recognition:
    present = texts[texts != MISSING]
    levels = tuple(sorted(set(present)))
    mostly_different = len(present) >= ROWS_FOR_IDENTIFIERS and 2 * len(levels) > len(present)
    if len(levels) > MOST_LEVELS or mostly_different:
        raise InputError(
            f"Column '{name}' holds text with {len(levels)} different values in {len(present)} rows, such as "
            f"{present[0]!r}: too many for categories. To go on, {LEAVE_OUT}, or convert it to numbers "
            "(dates must look like 1949-01-31 or 31 Jan 1949, numbers like 1234.5).",
            about="inputs",
        )
    column = CategoryColumn(name, levels)
    found = pluralise(len(levels), "category", "categories")
    return column, (f"column '{name}' has {found}: {list_names(levels)}",)


def holds_numbers(column: pd.Series) -> bool:
    """True for integers, floats and true/false, the nullable kinds included."""
    return pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(column.dtype)


def holds_dates(column: pd.Series) -> bool:
    """True for columns of a pandas datetime or period type."""
    kind = column.dtype
    return isinstance(kind, pd.DatetimeTZDtype | pd.PeriodDtype) or (isinstance(kind, np.dtype) and kind.kind == "M")


def to_numbers(column: pd.Series) -> NDArray[np.float64]:
    """The entries of a column that `holds_numbers`, missing ones as NaN."""
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def to_texts(column: pd.Series) -> Texts:
    """Every entry as stripped text, missing ones as the empty text."""
    values = column.astype(object).to_numpy()
    missing = column.isna().to_numpy()
    present = values[~missing]
    for kind in set(map(type, present)):
        if not issubclass(kind, READABLE_TYPES):
            row = next(row for row, value in enumerate(values) if type(value) is kind)
            raise InputError(
                f"Column '{column.name}', data row {row + 1}: an entry of type {kind.__name__} is neither a number, "
                f"a date nor a text. Convert the column, or {LEAVE_OUT}.",
                about="inputs",
            )
    if present.size and all(isinstance(value, bool | np.bool_) for value in present):
        present = present.astype(int)  # true/false with gaps arrives as objects
    texts = np.full(len(values), MISSING, dtype=object)
    # A category 1 that met a gap on its way here is 1.0 now; it is the same category.
    whole = (int(v) if isinstance(v, float | np.floating) and float(v).is_integer() else v for v in present)
    texts[~missing] = [str(value).strip() for value in whole]
    texts[[text.lower() in MISSING_MARKS for text in texts]] = MISSING
    return texts


def parse_numbers(texts: Texts) -> NDArray[np.float64]:
    """Each text as a number, all of them written in one way; NaN where it is missing or is no number."""
    places, distinct = pd.factorize(texts)
    numerals = find_numerals([str(text) for text in distinct])
    if not numerals.styles:  # no way of writing fits all: the plainest is taken
        return np.asarray(pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce"), dtype=np.float64)
    return numerals.read(numerals.styles[0])[places]


def to_finite_numbers(column: pd.Series, advice: str) -> NDArray[np.float64]:
    """The entries as numbers, none of them missing or infinite; `advice` ends the message about a text among them."""
    if holds_numbers(column):
        values = to_numbers(column)
        missing = np.isnan(values)
    else:
        texts = to_texts(column)
        values, missing = parse_numbers(texts), texts == MISSING
        refuse_unreadable(column.name, texts, np.isnan(values) & ~missing, "number", advice)
    refuse_missing(column.name, missing, np.isinf(values))
    return values


def refuse_unreadable(name: object, texts: Texts, unreadable: NDArray[np.bool_], wanted: str, advice: str) -> None:
    """Raise for the first text that is not what its column holds; `wanted` is "number" or "date"."""
    if not unreadable.any():
        return
    row = int(np.flatnonzero(unreadable)[0])
    others = int(unreadable.sum()) - 1
    more = f" ({pluralise(others, 'more such entry', 'more such entries')} below)" if others else ""
    raise InputError(f"Column '{name}', data row {row + 1}: {texts[row]!r} is not a {wanted}{more}. {advice}")


def refuse_missing(name: object, missing: NDArray[np.bool_], infinite: NDArray[np.bool_] | None = None) -> None:
    """Raise when an entry is missing or infinite, naming the column, how many, and the first data row."""
    for wrong, word in ((missing, "missing"), (infinite, "infinite")):
        if wrong is not None and wrong.any():
            count, row = int(wrong.sum()), int(np.flatnonzero(wrong)[0]) + 1
            where = f"in data row {row}" if count == 1 else f"the first in data row {row}"
            raise InputError(
                f"Column '{name}' has {pluralise(count, f'{word} entry', f'{word} entries')}, {where}. "
                "Drop the rows concerned or fill the entries in."
            )
