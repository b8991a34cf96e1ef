"""The three kinds of input column: numbers, dates, categories. Each turns its entries into float64 columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mercer.errors import InputError
from mercer.tables.cells import (
    MISSING,
    finite_numbers,
    holds_dates,
    holds_numbers,
    refuse_missing,
    refuse_unreadable,
    texts_of,
)
from mercer.tables.dates import dates_of, parse_dates
from mercer.tables.timeline import Moments, Timeline, timeline_from_json
from mercer.tables.wording import quoted

CLOCKS = ("wall", "utc")


@dataclass(frozen=True)
class NumberColumn:
    """A column that is used as it is."""

    kind: ClassVar[str] = "number"
    name: str

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """The one encoded column."""
        return (self.name,)

    @property
    def units(self) -> tuple[str | None, ...]:
        """Unknown."""
        return (None,)

    def encode(self, column: pd.Series) -> NDArray[np.float64]:
        """One column of finite numbers, or an `InputError` naming the row."""
        advice = "Mercer learned this column as numbers; correct the entry, or leave it empty if it is unknown."
        return finite_numbers(column, advice)[:, np.newaxis]

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a model file."""
        return {"kind": self.kind, "name": self.name}


@dataclass(frozen=True)
class DateColumn:
    """A column of dates, counted in the unit of its timeline. See `Dates` for the two clocks."""

    kind: ClassVar[str] = "date"
    name: str
    timeline: Timeline
    clock: str
    day_first: bool

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """The one encoded column."""
        return (self.name,)

    @property
    def units(self) -> tuple[str | None, ...]:
        """The unit of the timeline."""
        return (self.timeline.unit,)

    def moments(self, column: pd.Series) -> Moments:
        """The dates of a table's column by this column's clock, missing ones as NaT; a text that is no date raises."""
        if holds_dates(column):
            return dates_of(column).by(self.clock)
        if holds_numbers(column) and column.notna().any():
            raise InputError(
                f"Column '{self.name}' holds numbers such as {column.dropna().iloc[0]}, but Mercer learned it as "
                f"dates. Write the dates in full, as {self.timeline.text(0.0)!r}."
            )
        texts = texts_of(column)
        moments = parse_dates(texts, self.day_first).by(self.clock)
        order = "day" if self.day_first else "month"
        advice = f"Write dates as 1949-01-31; dates like 01/02/1950 are read {order} first in this column."
        refuse_unreadable(self.name, texts, np.isnat(moments) & (texts != MISSING), "date", advice)
        return moments

    def encode(self, column: pd.Series) -> NDArray[np.float64]:
        """One column of time since the origin, or an `InputError` naming the row."""
        moments = self.moments(column)
        refuse_missing(self.name, np.isnat(moments))
        return self.timeline.numbers(moments)[:, np.newaxis]

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a model file."""
        plain = {"kind": self.kind, "name": self.name, "clock": self.clock, "day_first": self.day_first}
        return plain | self.timeline.to_json()


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories: one encoded column of zeros and ones for each level."""

    kind: ClassVar[str] = "category"
    name: str
    levels: tuple[str, ...]

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """One for each level, as region=east."""
        return tuple(f"{self.name}={level}" for level in self.levels)

    @property
    def units(self) -> tuple[str | None, ...]:
        """None for each level."""
        return (None,) * len(self.levels)

    def encode(self, column: pd.Series) -> NDArray[np.float64]:
        """A column of zeros and ones for each level; an unknown level is an `InputError`."""
        texts = texts_of(column)
        refuse_missing(self.name, texts == MISSING)
        positions = pd.Index(self.levels).get_indexer(pd.Index(texts, dtype=object))
        if np.any(positions < 0):
            row = int(np.flatnonzero(positions < 0)[0])
            raise InputError(
                f"Column '{self.name}', data row {row + 1}: the category {texts[row]!r} was not in the data that "
                f"Mercer learned from. Known are {quoted(self.levels)}. "
                "Correct the entry, drop the row, or learn again with it."
            )
        encoded = np.zeros((len(texts), len(self.levels)))
        encoded[np.arange(len(texts)), positions] = 1.0
        return encoded

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a model file."""
        return {"kind": self.kind, "name": self.name, "levels": list(self.levels)}


Column = NumberColumn | DateColumn | CategoryColumn


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
        return DateColumn(name, timeline_from_json(plain), clock, day_first)
    if kind == "category":
        levels = plain["levels"]
        if not isinstance(levels, list) or not levels or not all(isinstance(level, str) for level in levels):
            raise ValueError(f"column '{name}' must list its levels as texts")
        if len(set(levels)) < len(levels):
            raise ValueError(f"column '{name}' lists a level twice")
        return CategoryColumn(name, tuple(levels))
    raise ValueError(f"unknown kind of column {kind!r}")
