"""Moments in time <-> numbers: a unit, and the moment that is number zero.

Months and years follow the calendar, so that the first of every month is a whole number; a plain
count of days would make a yearly rhythm in monthly data look uneven.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.errors import InputError

Moments = NDArray[np.datetime64]

MICROSECOND = np.timedelta64(1, "us")
DAY = np.timedelta64(86_400_000_000, "us")
ELAPSED_UNITS = {
    "weeks": 7 * DAY,
    "days": DAY,
    "hours": np.timedelta64(3_600_000_000, "us"),
    "minutes": np.timedelta64(60_000_000, "us"),
    "seconds": np.timedelta64(1_000_000, "us"),
}
MONTHS_IN = {"years": 12, "months": 1}
UNITS = (*MONTHS_IN, *ELAPSED_UNITS)

# A float64 holds about 16 digits: rounding to these steps undoes the last digit's error and nothing else.
ROUNDED_TO = {"years": 1_000_000, "months": 1_000_000, "seconds": 1}
ROUNDED_OTHERWISE = 1_000
SHOWN_TO: dict[str, Any] = {
    "years": "Y",
    "months": "M",
    "weeks": "D",
    "days": "D",
    "hours": "m",
    "minutes": "m",
    "seconds": "s",
}
ORIGIN_FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}", re.ASCII)
FURTHEST_DAYS = 365.25 * 100_000


@dataclass(frozen=True)
class Timeline:
    """How moments become numbers: `(moment - anchor - origin) / unit`.

    `anchor` is zero, except for calendar units whose dates all fall on one day of the month (the 15th,
    the last): then it moves them to the first, so that they too are evenly spaced. `origin` is the
    first moment after that move; for calendar units, the start of its month.
    """

    unit: str
    origin: np.datetime64
    anchor: np.timedelta64

    def numbers(self, moments: Moments) -> NDArray[np.float64]:
        """Encode moments; a missing moment becomes NaN."""
        shifted: Any = moments.astype("datetime64[us]") - self.anchor  # Any: NumPy 2.4 types this as a timedelta
        if self.unit in ELAPSED_UNITS:
            return np.asarray((shifted - self.origin) / ELAPSED_UNITS[self.unit], dtype=np.float64)
        month, start, length = _months(shifted)
        whole = (month - self.origin.astype("datetime64[M]")) / np.timedelta64(1, "M")
        return np.asarray((whole + (shifted - start) / length) / MONTHS_IN[self.unit], dtype=np.float64)

    def moments(self, numbers: ArrayLike) -> Moments:
        """Decode numbers into datetime64[us]; a number that is not finite becomes a missing moment (NaT)."""
        values = np.asarray(numbers, dtype=np.float64)
        finite = np.isfinite(values)
        usable = np.where(finite, values, 0.0)
        if np.any(np.abs(usable) * self._days_in_unit() > FURTHEST_DAYS):
            raise InputError(
                f"A number of {self.unit} is too large to be a date: {usable.flat[np.abs(usable).argmax()]:g}."
            )
        decoded = self._calendar(usable) if self.unit in MONTHS_IN else self._elapsed(usable)
        return np.where(finite, decoded + self.anchor, np.datetime64("NaT", "us"))

    def text(self, number: float) -> str:
        """The date of a number, as precise as the unit: 1956-03 for months, 1956-03-02 for days."""
        if not np.isfinite(number):
            return "no date"
        # 86.99999999999 is 87 after a round trip through scaling, and must not name the month before.
        moment = self.moments([round(float(number), 9)])[0]
        return str(np.datetime_as_string(moment, unit=SHOWN_TO[self.unit])).replace("T", " ")

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a model file."""
        return {
            "unit": self.unit,
            "origin": str(self.origin),
            "anchor_microseconds": int(self.anchor / MICROSECOND),
        }

    def _days_in_unit(self) -> float:
        if self.unit in MONTHS_IN:
            return 30.44 * MONTHS_IN[self.unit]
        return float(ELAPSED_UNITS[self.unit] / DAY)

    def _calendar(self, values: NDArray[np.float64]) -> Moments:
        months = values * MONTHS_IN[self.unit]
        whole = np.floor(months)
        month = self.origin.astype("datetime64[M]") + whole.astype(np.int64).astype("timedelta64[M]")
        _, start, length = _months(month)
        return start + self._rounded((months - whole) * (length / MICROSECOND))

    def _elapsed(self, values: NDArray[np.float64]) -> Moments:
        return self.origin + self._rounded(values * float(ELAPSED_UNITS[self.unit] / MICROSECOND))

    def _rounded(self, microseconds: NDArray[np.float64]) -> NDArray[np.timedelta64]:
        step = ROUNDED_TO.get(self.unit, ROUNDED_OTHERWISE)
        return (np.rint(microseconds / step).astype(np.int64) * step).astype("timedelta64[us]")


def timeline_from_json(plain: dict[str, Any]) -> Timeline:
    """Rebuild a timeline; anything unexpected is a ValueError, TypeError or KeyError."""
    unit, origin, anchor = plain["unit"], plain["origin"], plain["anchor_microseconds"]
    if unit not in UNITS:
        raise ValueError(f"unknown unit {unit!r}; known are {', '.join(UNITS)}")
    # The form is checked first: NumPy would also take "now" for a date.
    if not isinstance(origin, str) or not ORIGIN_FORM.fullmatch(origin):
        raise ValueError(f"origin is no date: {origin!r}")
    if type(anchor) is not int or abs(anchor) > 31 * 86_400_000_000:
        raise ValueError(f"anchor_microseconds must be a whole number below 31 days: {anchor!r}")
    return Timeline(unit, np.datetime64(origin, "us"), np.timedelta64(anchor, "us"))


def choose_timeline(moments: Moments) -> Timeline:
    """Pick the unit from the median gap of the distinct moments (missing ones are passed over)."""
    distinct = np.unique(moments[~np.isnat(moments)]).astype("datetime64[us]")
    unit = choose_unit(distinct)
    if unit in ELAPSED_UNITS:
        return Timeline(unit, distinct[0], 0 * MICROSECOND)
    anchor = _common_place_in_month(distinct)
    anchor = 0 * MICROSECOND if anchor is None else anchor
    origin = (distinct[0] - anchor).astype("datetime64[M]").astype("datetime64[us]")
    return Timeline(unit, origin, anchor)


def choose_unit(distinct: Moments) -> str:
    """The largest unit that the median gap fills, with room for jitter; a single moment counts in days."""
    if distinct.size < 2:
        return "days"
    gap = float(np.median(np.diff(distinct) / DAY))
    # Four-weekly data have gaps of 28 days as February has; only the place in the month tells them apart.
    if gap >= 29 or (gap >= 27.5 and _common_place_in_month(distinct) is not None):
        return "years" if gap >= 350 else "months"
    return next((unit for unit, length in ELAPSED_UNITS.items() if gap >= 0.9 * (length / DAY)), "seconds")


def _common_place_in_month(distinct: Moments) -> np.timedelta64 | None:
    """The time since the start of the month, if all moments share it; negative when counted from the end."""
    _, start, length = _months(distinct)
    after_start = distinct - start
    before_end = length - after_start
    if np.all(before_end == before_end[0]) and before_end[0] <= DAY:
        return np.timedelta64(-before_end[0])
    if np.all(after_start == after_start[0]) and after_start[0] < 28 * DAY:
        return np.timedelta64(after_start[0])
    return None


def _months(moments: Moments) -> tuple[Moments, Moments, NDArray[np.timedelta64]]:
    """For each moment: its month, the month's first microsecond, and the month's length."""
    month = moments.astype("datetime64[M]")
    start = month.astype("datetime64[us]")
    length = (month + np.timedelta64(1, "M")).astype("datetime64[us]") - start
    return month, start, length
