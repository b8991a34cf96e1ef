"""Times of a series <-> places counted in steps: which kind of step it is, and which dates come next."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mercer.errors import InputError
from mercer.kernels.domains import Array
from mercer.tables.columns import DateColumn, recognise
from mercer.tables.dates import Dates, Moments, Timeline, choose_timeline, parse_dates, to_dates

Steps = NDArray[np.int64]  # how far times to come lie ahead

# Steps of dates: the unit of the timeline, how many of it make a step, the kind, and steps in its usual season.
KINDS = (
    ("months", 1.0, "month", 12),
    ("months", 3.0, "quarter", 4),
    ("months", 12.0, "year", 1),
    ("years", 1.0, "year", 1),
    ("weeks", 1.0, "week", 52),
    ("days", 7.0, "week", 52),
    ("days", 1.0, "day", 7),
    ("hours", 1.0, "hour", 24),
)
DAY = 1440  # minutes: a season of steps below an hour that divide it
DIGITS = 10  # of a number of months or weeks: fewer would move a moment, more would keep errors of the last digit
FEW = 6  # whole numbers that are all months by chance are hardly more
WEEKS_TO_SEE = 3  # before a weekday that never occurred is one that never does
TINY = 1e-9  # of a step: rounding
NEAR = 0.1  # of a step: dates may stray so far from even ones


@dataclass(frozen=True, eq=False)
class Times:
    """Times as numbers; of dates with their timeline, and with the offset of their clock (see `Calendar`)."""

    numbers: Array
    timeline: Timeline | None = None
    offset: int | None = None


@dataclass(frozen=True, eq=False)
class Calendar:
    """How the times of a series are counted; without a timeline they are plain numbers.

    Hours and less that were given with offsets from UTC are counted in elapsed time, and shown by the clock of the last
    row, which is `offset` minutes ahead of UTC: forecasts go on from there.
    """

    timeline: Timeline | None
    step: float  # in the unit of the timeline
    first: float  # the first time, in that unit
    kind: str
    season: int  # steps in the usual season of that kind
    even: bool
    offset: int | None = None
    midnights: bool = False  # all times are, and so are those to come: last working days of months are no even steps
    closed: tuple[int, ...] = ()  # weekdays that days never are, Monday 0: the steps to come pass over them too

    def ahead(self, place: float, count: int) -> Steps:
        """Return how many steps lie from a place to each of the next times: 1, 2, and 5 where weekends are closed."""
        if not self.closed:
            return np.arange(1, count + 1, dtype=np.int64)
        steps = np.arange(1, 7 * (math.ceil(count / (7 - len(self.closed))) + 1) + 1, dtype=np.int64)
        weekdays = pd.DatetimeIndex(self.times(np.asarray(place + steps, dtype=float))).day_of_week
        return steps[~np.isin(weekdays, self.closed)][:count]

    def times(self, places: Array) -> pd.Index:
        """Return dates, or numbers, at places counted in steps from the first."""
        numbers = self.first + self.step * places
        if self.timeline is not None:
            found = pd.DatetimeIndex(self.timeline.moments(np.round(numbers, DIGITS)), name="ds")
            return found.round("D") if self.midnights else found
        whole = np.rint(numbers)
        exact = whole.astype(np.int64) if np.allclose(numbers, whole, atol=1e-9) else numbers
        return pd.Index(exact, name="ds")

    @property
    def words(self) -> str:
        """The typical step in words."""
        unit = "" if self.timeline is None else f" {self.timeline.unit}"
        return self.kind if self.kind != "none" else f"{self.step:g}{unit}"


def read_times(index: Any, name: str, offset: int | None = None) -> Times:
    """Return the times of a series as numbers, and how they are counted where they are dates.

    An offset is the clock to show times by that have offsets of their own; None: that of the last.
    """
    column = pd.Series(index)
    if isinstance(column.dtype, pd.PeriodDtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        dates = to_dates(column)
    elif pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
        numbers = column.to_numpy(dtype=float)
        if not np.all(np.isfinite(numbers)):
            raise InputError(f"{name}: a time is missing or not finite; leave such rows out")
        return Times(numbers)
    else:
        dates = parse_dates(column.astype(str).to_numpy(dtype=object), day_first=False)
    if np.isnat(dates.wall).any():
        wrong = column[np.isnat(dates.wall)].iloc[0]
        raise InputError(f"{name}: {wrong!r:.60} is no date; write dates as 2024-01-31 (or 2024-01), or give numbers")
    moments, offset = _choose_clock(column, dates, offset)
    timeline = choose_timeline(moments)
    return Times(timeline.numbers(moments), timeline, offset)


def _choose_clock(column: pd.Series, dates: Dates, offset: int | None) -> tuple[Moments, int | None]:
    """Return moments as written, or by one clock all year where tables count such a column in elapsed time."""
    if np.array_equal(dates.wall, dates.universal):
        return dates.wall, None
    if offset is None:
        kind, _ = recognise(column.rename("time"))
        if not (isinstance(kind, DateColumn) and kind.clock == "utc"):
            return dates.wall, None
        last = int(np.argmax(dates.universal))
        offset = int((dates.wall[last] - dates.universal[last]) / np.timedelta64(1, "m"))
    return dates.universal + np.timedelta64(offset, "m"), offset


def make_calendar(times: Times) -> Calendar:
    """Find the typical step of times in order, and what kind it is."""
    numbers, timeline = times.numbers, times.timeline
    gaps = np.diff(numbers)
    step = float(np.median(gaps)) if len(gaps) else 1.0
    kind, season = "none", 1
    if timeline is not None:
        for unit, size, name, usual in KINDS:
            if timeline.unit == unit and abs(step - size) < NEAR * size:
                step, kind, season = size, name, usual
    if timeline is not None and timeline.unit == "minutes" and abs(DAY / step - round(DAY / step)) < TINY:
        season = round(DAY / step)
    places = (numbers - numbers[0]) / step
    even = bool(np.all(np.abs(places - np.rint(places)) < NEAR))
    found = Calendar(timeline, step, float(numbers[0]), kind, season, even, times.offset)
    if timeline is None:
        return found
    moments = timeline.moments(np.round(numbers, DIGITS))
    closed = find_closed(moments) if kind == "day" and places[-1] >= 7 * WEEKS_TO_SEE else ()
    return replace(found, midnights=are_midnights(moments), closed=closed)


def find_closed(moments: Moments) -> tuple[int, ...]:
    """Return the weekdays that never occur, Monday 0."""
    there = set(pd.DatetimeIndex(moments).day_of_week)
    return tuple(day for day in range(7) if day not in there)


def are_midnights(moments: Moments) -> bool:
    """Tell whether dates have no time of the day."""
    return bool(np.all(moments == moments.astype("datetime64[D]")))


def find_digits(times: pd.Series) -> str | None:
    """Return the first of times that are numbers and may be meant as dates: 202401 or 20240131; None where none are."""
    if not pd.api.types.is_integer_dtype(times.dtype) or not len(times):
        return None
    values = times.to_numpy(dtype=np.int64)
    for months, days in ((values, np.ones_like(values)), (values // 100, values % 100)):
        years, month = months // 100, months % 100
        within = (years >= 1900) & (years <= 2100) & (month >= 1) & (month <= 12) & (days >= 1) & (days <= 31)
        if np.all(within) and len(np.unique(values)) >= FEW:
            return str(values[0])
    return None


def show(moment: Any) -> str:
    """Write a date or a number."""
    return str(moment)[:19].removesuffix(" 00:00:00").removesuffix("T00:00:00")
