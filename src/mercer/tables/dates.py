"""Texts -> dates, by a fixed list of forms.

A general date parser guesses, and would take a category named "may" or "sun" for a date. Here a text
is a date only in one of the forms below, and 01/02/1950 is read in one order for the whole column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mercer.tables.timeline import Moments

MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAME = (
    r"(?P<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_YEAR = r"(?P<year>\d{4})"
_DAY = r"(?P<day>\d{1,2})"
_TIME = (
    r"(?:(?:T|\s+)(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"(?:\s*(?P<half>[ap])\.?m\.?)?(?:\s*(?P<offset>Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?))?)?"
)
FORMS = tuple(
    re.compile(form, re.IGNORECASE | re.ASCII)
    for form in (
        rf"{_YEAR}(?P<mark>[-/.])(?P<month>\d{{1,2}})(?P=mark){_DAY}{_TIME}",  # 1949-01-31, 1949-01-31T12:30:00Z
        rf"{_YEAR}[-/](?P<month>\d{{1,2}})",  # 1949-01
        rf"(?P<first>\d{{1,2}})(?P<mark>[-/.])(?P<then>\d{{1,2}})(?P=mark){_YEAR}{_TIME}",  # 01/02/1950
        rf"(?P<month>\d{{1,2}})[-/]{_YEAR}",  # 01/1949
        rf"{_NAME}(?:[-,/]|\s)\s*{_YEAR}",  # Jan 1949
        rf"{_DAY}(?:st|nd|rd|th)?(?:[-./]|\s)\s*{_NAME}(?:[-,/]|\s)\s*{_YEAR}{_TIME}",  # 31 Jan 1949
        rf"{_NAME}\s+{_DAY}(?:st|nd|rd|th)?,?\s+{_YEAR}{_TIME}",  # January 31, 1949
        rf"{_YEAR}[-/\s]{_NAME}(?:[-/\s]{_DAY}{_TIME})?",  # 1949 Jan, 1949-Jan-31
        rf"{_YEAR}[-\s]?Q(?P<quarter>[1-4])",  # 1949Q1
        rf"Q(?P<quarter>[1-4])[-\s]?{_YEAR}",  # Q1 1949
    )
)
_TWO_FIELDS = FORMS[2]


@dataclass(frozen=True)
class Dates:
    """A column of moments by two clocks: `wall` as written, `universal` in UTC.

    They differ only where a time zone was given. Days and longer units count by the wall clock (midnight
    is midnight all year), shorter ones by UTC, which has no hour that happens twice.
    """

    wall: Moments
    universal: Moments

    def by(self, clock: str) -> Moments:
        """The moments by the clock named "wall" or "utc"."""
        return self.universal if clock == "utc" else self.wall


@dataclass(frozen=True)
class DayOrder:
    """Whether 01/02/1950 is the first of February; `guessed` when nothing in the column settles it."""

    day_first: bool
    guessed: bool


def dates_of(column: pd.Series) -> Dates:
    """The moments of a column of a datetime or period type."""
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    wall, universal = column, column
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        wall, universal = column.dt.tz_localize(None), column.dt.tz_convert("UTC").dt.tz_localize(None)
    return Dates(wall.to_numpy(dtype="datetime64[us]"), universal.to_numpy(dtype="datetime64[us]"))


def parse_dates(texts: NDArray[np.object_], day_first: bool) -> Dates:
    """Parse each text; one that is no date becomes a missing moment (NaT)."""
    codes, distinct = pd.factorize(texts)
    parsed = [parse_date(text, day_first) for text in distinct]
    wall = np.array([moment for moment, _ in parsed], dtype="datetime64[us]")
    universal = np.array([moment and moment - offset for moment, offset in parsed], dtype="datetime64[us]")
    return Dates(wall[codes], universal[codes])


def day_order(texts: Sequence[str]) -> DayOrder:
    """Decide the order of day and month in texts like 01/02/1950 from the whole column."""
    matches = [match for text in set(texts) if (match := _TWO_FIELDS.fullmatch(text))]
    first = {int(match["first"]) for match in matches}
    then = {int(match["then"]) for match in matches}
    if any(field > 12 for field in first):
        return DayOrder(day_first=True, guessed=False)
    if any(field > 12 for field in then) or all(int(match["first"]) == int(match["then"]) for match in matches):
        return DayOrder(day_first=False, guessed=False)
    # Countries that write dots put the day first. And the first days of many months, month first, would
    # be the first twelve days of January, year after year: nobody measures so.
    dotted = all(match["mark"] == "." for match in matches)
    firsts_of_months = len(first) == 1 and len(then) > 2 and len({match["year"] for match in matches}) > 1
    return DayOrder(day_first=dotted or firsts_of_months, guessed=True)


def parse_date(text: str, day_first: bool) -> tuple[datetime | None, timedelta]:
    """One text as (wall clock time, offset from UTC); (None, zero) when it has none of the known forms."""
    for form in FORMS:
        if match := form.fullmatch(text):
            try:
                return _moment(match.groupdict(), day_first)
            except (ValueError, OverflowError):  # 31 February
                break
    return None, timedelta(0)


def _moment(parts: dict[str, Any], day_first: bool) -> tuple[datetime, timedelta]:
    day, month = parts.get("day"), parts.get("month")
    if "first" in parts:
        day, month = (parts["first"], parts["then"]) if day_first else (parts["then"], parts["first"])
    if "name" in parts:
        month = MONTH_NAMES.index(parts["name"][:3].lower()) + 1
    if "quarter" in parts:
        month = 3 * int(parts["quarter"]) - 2
    hour = int(parts.get("hour") or 0)
    if half := parts.get("half"):
        if not 1 <= hour <= 12:
            raise ValueError("no such hour on a twelve-hour clock")
        hour = hour % 12 + (12 if half.lower() == "p" else 0)
    moment = datetime(
        int(parts["year"]),
        int(month),  # type: ignore[arg-type]  # every form has a month, a month name or a quarter
        int(day or 1),
        hour,
        int(parts.get("minute") or 0),
        int(parts.get("second") or 0),
        int((parts.get("fraction") or "").ljust(6, "0")[:6]),
    )
    offset = _offset(parts.get("offset"))
    _ = moment - offset  # the first hours of year 1 may have no UTC time
    return moment, offset


def _offset(text: str | None) -> timedelta:
    if not text or text[0] not in "+-":
        return timedelta(0)
    digits = text[1:].replace(":", "").ljust(4, "0")
    size = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return -size if text[0] == "-" else size
