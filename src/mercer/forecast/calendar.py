"""Times of a series <-> places counted in steps: which kind of step it is, and which dates come next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mercer.errors import InputError
from mercer.kernels.domains import Array
from mercer.tables.dates import Timeline, choose_timeline, parse_dates, to_dates

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
DIGITS = 10  # of a number of months or weeks: fewer would move a moment, more would keep errors of the last digit
NEAR = 0.1  # of a step: dates may stray so far from even ones


@dataclass(frozen=True, eq=False)
class Calendar:
    """How the times of a series are counted; without a timeline they are plain numbers."""

    timeline: Timeline | None
    step: float  # in the unit of the timeline
    first: float  # the first time, in that unit
    kind: str
    season: int  # steps in the usual season of that kind
    even: bool

    def times(self, places: Array) -> pd.Index:
        """Return dates, or numbers, at places counted in steps from the first."""
        numbers = self.first + self.step * places
        if self.timeline is not None:
            return pd.DatetimeIndex(self.timeline.moments(np.round(numbers, DIGITS)), name="ds")
        whole = np.rint(numbers)
        exact = whole.astype(np.int64) if np.allclose(numbers, whole, atol=1e-9) else numbers
        return pd.Index(exact, name="ds")

    @property
    def words(self) -> str:
        """The typical step in words."""
        unit = "" if self.timeline is None else f" {self.timeline.unit}"
        return self.kind if self.kind != "none" else f"{self.step:g}{unit}"


def read_times(index: Any, name: str) -> tuple[Array, Timeline | None]:
    """Return the times of a series as numbers, and how they are counted where they are dates."""
    column = pd.Series(index)
    if isinstance(column.dtype, pd.PeriodDtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        moments = to_dates(column).wall
    elif pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
        numbers = column.to_numpy(dtype=float)
        if not np.all(np.isfinite(numbers)):
            raise InputError(f"{name}: a time is missing or not finite; leave such rows out")
        return numbers, None
    else:
        moments = parse_dates(column.astype(str).to_numpy(dtype=object), day_first=False).wall
    if np.isnat(moments).any():
        wrong = column[np.isnat(moments)].iloc[0]
        raise InputError(f"{name}: {wrong!r:.60} is no date; write dates as 2024-01-31 (or 2024-01), or give numbers")
    timeline = choose_timeline(moments)
    return timeline.numbers(moments), timeline


def make_calendar(numbers: Array, timeline: Timeline | None) -> Calendar:
    """Find the typical step of times in order, and what kind it is."""
    gaps = np.diff(numbers)
    step = float(np.median(gaps)) if len(gaps) else 1.0
    kind, season = "none", 1
    if timeline is not None:
        for unit, size, name, usual in KINDS:
            if timeline.unit == unit and abs(step - size) < NEAR * size:
                step, kind, season = size, name, usual
    places = (numbers - numbers[0]) / step
    even = bool(np.all(np.abs(places - np.rint(places)) < NEAR))
    return Calendar(timeline, step, float(numbers[0]), kind, season, even)


def show(moment: Any) -> str:
    """Write a date or a number."""
    return str(moment)[:19].removesuffix(" 00:00:00").removesuffix("T00:00:00")
