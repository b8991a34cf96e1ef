"""Dates: texts -> moments, by a fixed list of forms, and moments <-> numbers, by a unit and an origin.

A general date parser guesses, and would take a category named "may" or "sun" for a date. Here a text is a date only in
one of the forms below, and 01/02/1950 is read in one order for the whole column.

Months and years follow the calendar, so that the first of every month is a whole number; a plain count of days would
make a yearly rhythm in monthly data look uneven.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from mercer.errors import InputError
from mercer.tables.decisions import Decision

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
SHOWN_TO: dict[str, Any] = {"years": "Y", "months": "M", "weeks": "D", "days": "D", "hours": "m", "minutes": "m"}
ORIGIN_FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}", re.ASCII)
FURTHEST_DAYS = 365.25 * 100_000
# English, German, French, Spanish and Italian names, and how they are cut short; a point may follow.
MONTH_NAMES = (
    ("jan", "january", "januar", "jänner", "janv", "janvier", "ene", "enero", "gen", "gennaio"),
    ("feb", "february", "februar", "fév", "févr", "février", "febrero", "febbraio"),
    ("mar", "march", "mär", "märz", "mrz", "mars", "marzo"),
    ("apr", "april", "avr", "avril", "abr", "abril", "aprile"),
    ("may", "mai", "mayo", "mag", "maggio"),
    ("jun", "june", "juni", "juin", "junio", "giu", "giugno"),
    ("jul", "july", "juli", "juil", "juillet", "julio", "lug", "luglio"),
    ("aug", "august", "août", "ago", "agosto"),
    ("sep", "sept", "september", "septembre", "septiembre", "set", "settembre"),
    ("oct", "october", "okt", "oktober", "octobre", "octubre", "ott", "ottobre"),
    ("nov", "november", "novembre", "noviembre"),
    ("dec", "december", "dez", "dezember", "déc", "décembre", "dic", "diciembre", "dicembre"),
)
MONTHS = {name: month for month, names in enumerate(MONTH_NAMES, start=1) for name in names}
_NAME = rf"(?P<name>{'|'.join(sorted(MONTHS, key=len, reverse=True))})\.?"
_YEAR = r"(?P<year>\d{4})"
_SHORT = r"(?P<short>\d{2})"
_DAY = r"(?P<day>\d{1,2})"
# Names of zones that mean one thing wherever they stand: minutes from UTC. CST and IST mean several.
ZONES = {
    "z": 0, "utc": 0, "gmt": 0, "wet": 0, "cet": 60, "mez": 60, "bst": 60, "west": 60, "cest": 120, "mesz": 120,
    "eet": 120, "eest": 180, "est": -300, "edt": -240, "cdt": -300, "mst": -420, "mdt": -360, "pst": -480, "pdt": -420,
}  # fmt: skip
_OFFSET = rf"(?:\s*(?P<offset>(?:UTC|GMT)?[+-]\d{{2}}(?::?\d{{2}})?|{'|'.join(ZONES)}))?"
_CLOCK = r"(?P<hour>\d{1,2})[:h](?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
_TIME = rf"(?:(?:T|:|,?\s+){_CLOCK}(?:\s*(?P<half>[ap])\.?m\.?|\s*uhr)?{_OFFSET})?"
_WEEK = r"(?:KW|CW|WK|week|woche|W)"
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
        rf"Q(?P<quarter>[1-4])[-/\s]?{_YEAR}",  # Q1 1949
        rf"(?P<first>\d{{1,2}})(?P<mark>[-/.])(?P<then>\d{{1,2}})(?P=mark){_SHORT}{_TIME}",  # 01/02/50
        rf"{_NAME}(?:[-/]|\s?')\s*{_SHORT}",  # Jan-49
        rf"{_DAY}[-/\s]{_NAME}[-/\s]{_SHORT}{_TIME}",  # 31-Jan-49
        rf"{_YEAR}[-/\s]?{_WEEK}\s?(?P<week>\d{{1,2}})(?:-?(?P<weekday>[1-7]))?",  # 1949-W05: its Monday
        rf"{_WEEK}\.?\s?(?P<week>\d{{1,2}})[-/,\s]\s*{_YEAR}",  # W05 1949, KW 5/1949
        rf"{_YEAR}M(?P<month>\d{{2}})",  # 1949M01
        rf"(?P<quarter>[1-4])Q[-/\s]?{_YEAR}",  # 1Q1949
        rf"(?P<quarter>[1-4])Q[-/\s']?{_SHORT}",  # 1Q49
        rf"Q(?P<quarter>[1-4])[-/\s']{_SHORT}",  # Q1 49, Q1'49
        rf"{_YEAR}年(?P<month>\d{{1,2}})月(?:{_DAY}日)?",  # 1949年1月31日
        rf"{_YEAR}(?P<month>\d\d)(?P<day>\d\d)[T\s](?P<hour>\d\d):?(?P<minute>\d\d)(?::?(?P<second>\d\d))?{_OFFSET}",
        rf"{_NAME}\s+{_DAY}\s+{_CLOCK}{_OFFSET}\s+{_YEAR}",  # Jan 31 12:30:00 1949
        rf"{_YEAR}[-/\s]?[HS](?P<semester>[12])",  # 1949H1
        rf"[HS](?P<semester>[12])[-/\s]?{_YEAR}",  # H1 1949
        rf"FY[-\s]?{_YEAR}",  # FY1949
    )
)
# What stands around a date and tells nothing: the day of the week, the place that a zone is named after.
AROUND = re.compile(
    r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?"
    r"|(?:mo|di|mi|do|fr|sa|so)|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch|sonnabend"
    r"|(?:lun|mar|mer|jeu|ven|sam|dim)(?:\.|di)|mercredi|vendredi|samedi|dimanche)[.,]{0,2}\s+(?=\S+.*\d{2})"
    r"|\s*\[[a-z]+(?:/[a-z_]+)+\]$"
)
SEASON = re.compile(r"(\d{4})\s?[-/–]\s?(\d{2}|\d{4})", re.ASCII)
LEAST_SEASONS = 3  # different ones: two such months are hardly 13 months apart in a series
# Years of two digits begin in the years before this one, as in spreadsheets, and as late as they can.
FIRST_FUTURE, LAST_FUTURE = 2030, 2079
ORDERED_FROM = 5  # different dates: that many are hardly in order by chance
EVEN = 3.0  # steps are even when none is more times longer or shorter than usual: weekends, a missing month


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
        month, start, length = _split_months(shifted)
        whole = (month - self.origin.astype("datetime64[M]")) / np.timedelta64(1, "M")
        return np.asarray((whole + (shifted - start) / length) / MONTHS_IN[self.unit], dtype=np.float64)

    def moments(self, numbers: ArrayLike) -> Moments:
        """Decode numbers into datetime64[us]; a number that is not finite becomes a missing moment (NaT)."""
        values = np.asarray(numbers, dtype=np.float64)
        finite = np.isfinite(values)
        usable = np.where(finite, values, 0.0)
        months, elapsed = MONTHS_IN.get(self.unit, 0), ELAPSED_UNITS.get(self.unit, DAY)
        if np.any(np.abs(usable) * (30.44 * months or float(elapsed / DAY)) > FURTHEST_DAYS):
            raise InputError(
                f"A number of {self.unit} is too large to be a date: {usable.flat[np.abs(usable).argmax()]:g}."
            )
        if months:
            whole = np.floor(usable * months)
            month = self.origin.astype("datetime64[M]") + whole.astype(np.int64).astype("timedelta64[M]")
            _, starts, length = _split_months(month)
            microseconds = (usable * months - whole) * (length / MICROSECOND)
        else:
            starts, microseconds = np.asarray(self.origin), usable * float(elapsed / MICROSECOND)
        step = ROUNDED_TO.get(self.unit, ROUNDED_OTHERWISE)
        after = (np.rint(microseconds / step).astype(np.int64) * step).astype("timedelta64[us]")
        return np.where(finite, starts + after + self.anchor, np.datetime64("NaT", "us"))

    def text(self, number: float) -> str:
        """The date of a number, as precise as the unit: 1956-03 for months, 1956-03-02 for days."""
        if not np.isfinite(number):
            return "no date"
        # 86.99999999999 is 87 after a round trip through scaling, and must not name the month before.
        moment = self.moments([round(float(number), 9)])[0]
        return str(np.datetime_as_string(moment, unit=SHOWN_TO.get(self.unit, "s"))).replace("T", " ")

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a model file."""
        anchor = int(self.anchor / MICROSECOND)
        return {"unit": self.unit, "origin": str(self.origin), "anchor_microseconds": anchor}


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
    """Pick the largest unit that the median gap of the distinct moments fills, with room for jitter.

    Missing moments are passed over; a single one counts in days.
    """
    distinct = np.unique(moments[~np.isnat(moments)]).astype("datetime64[us]")
    gap = float(np.median(np.diff(distinct) / DAY)) if distinct.size > 1 else 1.0
    common_day = _find_common_day(distinct)
    # Four-weekly data have gaps of 28 days as February has; only the place in the month tells them apart.
    if gap < 29 and not (gap >= 27.5 and common_day is not None):
        unit = next((unit for unit, length in ELAPSED_UNITS.items() if gap >= 0.9 * (length / DAY)), "seconds")
        return Timeline(unit, distinct[0], 0 * MICROSECOND)
    anchor = 0 * MICROSECOND if common_day is None else common_day
    origin = (distinct[0] - anchor).astype("datetime64[M]").astype("datetime64[us]")
    return Timeline("years" if gap >= 350 else "months", origin, anchor)


def _find_common_day(distinct: Moments) -> np.timedelta64 | None:
    """The time since the start of the month, if all moments share it; negative when counted from the end."""
    _, start, length = _split_months(distinct)
    after_start = distinct - start
    before_end = length - after_start
    if np.all(before_end == before_end[0]) and before_end[0] <= DAY:
        return np.timedelta64(-before_end[0])
    if np.all(after_start == after_start[0]) and after_start[0] < 28 * DAY:
        return np.timedelta64(after_start[0])
    return None


def _split_months(moments: Moments) -> tuple[Moments, Moments, NDArray[np.timedelta64]]:
    """For each moment: its month, the month's first microsecond, and the month's length."""
    month = moments.astype("datetime64[M]")
    start = month.astype("datetime64[us]")
    length = (month + np.timedelta64(1, "M")).astype("datetime64[us]") - start
    return month, start, length


@dataclass(frozen=True)
class Dates:
    """A column of moments by two clocks: `wall` as written, `universal` in UTC.

    They differ only where a time zone was given. Days and longer units count by the wall clock (midnight
    is midnight all year), shorter ones by UTC, which has no hour that happens twice.
    """

    wall: Moments
    universal: Moments


@dataclass(frozen=True)
class DayOrder:
    """Whether 01/02/1950 is the first of February; `matters` where dates of the column are written so."""

    day_first: bool
    matters: bool


def to_dates(column: pd.Series) -> Dates:
    """The moments of a column of a datetime or period type."""
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    wall, universal = column, column
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        wall, universal = column.dt.tz_localize(None), column.dt.tz_convert("UTC").dt.tz_localize(None)
    return Dates(wall.to_numpy(dtype="datetime64[us]"), universal.to_numpy(dtype="datetime64[us]"))


def parse_dates(texts: NDArray[np.object_], day_first: bool, first_year: int | None = None) -> Dates:
    """Parse each text; one that is no date becomes a missing moment (NaT).

    Years of two digits are from `first_year` on; None: as they all fit together best.
    """
    codes, different = pd.factorize(texts)
    distinct: list[str] = list(different)
    first = choose_first_year(distinct) if first_year is None else first_year
    parsed: list[tuple[datetime | None, timedelta]]
    parsed = [(datetime(year, 1, 1), timedelta(0)) for year in read_seasons(distinct)]
    parsed = parsed or [parse_date(text, day_first, first) for text in distinct]
    wall = np.array([moment for moment, _ in parsed], dtype="datetime64[us]")
    universal = np.array([moment and moment - offset for moment, offset in parsed], dtype="datetime64[us]")
    return Dates(wall[codes], universal[codes])


def read_seasons(texts: Sequence[str]) -> list[int]:
    """Return the first years of seasons such as 2011/12 or 2011/2012; none where one text is no season.

    A few such texts alone may be months: 2011/12 is December.
    """
    matches = [SEASON.fullmatch(text) for text in texts]
    years = [int(m[1]) for m in matches if m and 1 <= int(m[1]) < MAXYEAR and m[2] == str(int(m[1]) + 1)[-len(m[2]) :]]
    unlike = any(m and int(m[2]) > 12 for m in matches)
    return years if len(years) == len(matches) and (len(years) >= LEAST_SEASONS or unlike) else []


def choose_first_year(texts: Sequence[str]) -> int:
    """Return the first year of those that years of two digits stand for, so that the dates lie close together.

    The years go round: behind 99 comes 00. They begin after the widest gap, in this century or in the last one.
    """
    matches = (_match(text) for text in texts)
    shorts = sorted({int(match["short"]) for match in matches if match and "short" in match.groupdict()})
    if not shorts:
        return FIRST_FUTURE - 100
    gaps = [(after - before, after) for before, after in zip([shorts[-1] - 100, *shorts], shorts, strict=False)]
    start = max(gaps)[1]
    last = start + max((short - start) % 100 for short in shorts)
    return start + (2000 if 2000 + start < FIRST_FUTURE and 2000 + last <= LAST_FUTURE else 1900)


def choose_day_order(
    name: str, texts: Sequence[str], day_first: bool | None = None, usual: bool | None = None
) -> DayOrder:
    """Decide the order of day and month in texts like 01/02/1950 from the whole column, in the order of its rows.

    A field above 12 decides; then dots, which go with the day first; then even steps; then rows in order of time.
    `day_first` is the user's word for it, `usual` what holds where nothing decides; without one, it is refused.
    """
    distinct = list(dict.fromkeys(texts))
    matches = [match for text in distinct if (match := _match(text)) and "first" in match.groupdict()]
    if not matches:
        return DayOrder(day_first=False, matters=False)
    first, then = ([int(match[field]) for match in matches] for field in ("first", "then"))
    order = day_first
    if order is None and max(first) > 12 and max(then) > 12:
        examples = (next(m.group() for m in matches if int(m[field]) > 12) for field in ("first", "then"))
        raise InputError(
            f"Column '{name}' holds dates with the day first and dates with the month first: {' and '.join(examples)}. "
            "Write them in one way, best as 1949-01-31.",
            about="kinds",
        )
    if order is None and max(first) > 12:
        order = True
    if order is None and (max(then) > 12 or first == then):
        order = False
    if order is None and all(match["mark"] == "." for match in matches):
        order = True
    _refuse_years_first(name, matches, order)
    if order is None:
        ways = [parse_dates(np.array(distinct, dtype=object), way).wall for way in (True, False)]
        for settles in (_is_even, _is_ordered):
            found = [settles(way) for way in ways]
            if order is None and sum(found) == 1:
                order = found[0]
        order = usual if order is None else order
    if order is None:
        example = matches[0].group()
        raise InputError(
            f"Column '{name}' does not tell whether the day or the month comes first in {example}. Say --day-first or "
            "--month-first (in Python, convert the column with pandas.to_datetime), or write dates as 1949-01-31.",
            about="day_first",
        )
    return DayOrder(order, matters=first != then)


def _refuse_years_first(name: str, matches: Sequence[re.Match[str]], order: bool | None) -> None:
    """Refuse 19/03/01 for 1 March 2019, which other orders can read too, and wrongly."""
    if any("short" not in match.groupdict() for match in matches):
        return
    turned = [f"20{m['first']:0>2}-{m['then']}-{m['short']}" for m in matches]
    year_first = parse_dates(np.array(turned, dtype=object), False).wall
    texts = np.array([match.group() for match in matches], dtype=object)
    ways = [parse_dates(texts, way).wall for way in (True, False) if order in (None, way)]
    if _is_ordered(year_first) and not any(_is_ordered(way) for way in ways):
        raise InputError(
            f"Column '{name}' holds dates such as {texts[0]} in which the year seems to come first. "
            "Write years with four digits."
        )


def _is_even(moments: Moments) -> bool:
    """Tell whether all texts are dates, about equally far apart."""
    if np.isnat(moments).any() or len(moments) < 3:
        return False
    gaps = np.diff(np.unique(choose_timeline(moments).numbers(moments)))
    usual = np.median(gaps) if gaps.size else 0.0
    return bool(usual and gaps.max() <= EVEN * usual and gaps.min() >= usual / EVEN)


def _is_ordered(moments: Moments) -> bool:
    if np.isnat(moments).any() or len(moments) < ORDERED_FROM:
        return False
    steps = np.diff(moments) > np.timedelta64(0, "us")
    return bool(steps.all() or not steps.any())


def list_date_decisions(name: str, texts: Sequence[str], order: DayOrder, moments: Moments) -> list[Decision]:
    """Return what was decided about a column of dates."""
    found = []
    if read_seasons(texts):
        return [Decision("seasons", texts[0], (name,))]
    if order.matters:
        found.append(Decision("day order", "day" if order.day_first else "month", (name,)))
    if any(match["short"] for text in texts if (match := _match(text)) and "short" in match.groupdict()):
        years = moments[~np.isnat(moments)].astype("datetime64[Y]").astype(int) + 1970
        found.append(Decision("two-digit years", " to ".join(map(str, sorted({years.min(), years.max()}))), (name,)))
    return found


def _match(text: str) -> re.Match[str] | None:
    small = text.lower()  # the patterns ignore the case of ASCII letters only
    bare = AROUND.sub("", small)
    for one in (small,) if bare == small else (small, bare):
        if match := next((match for form in FORMS if (match := form.fullmatch(one))), None):
            return match
    return None


def show_fields(text: str) -> tuple[int, int] | None:
    """Return the two fields of 13/03/2019 of which one is the day; None of other texts."""
    match = _match(text)
    return (int(match["first"]), int(match["then"])) if match and "first" in match.groupdict() else None


def has_zone(text: str) -> bool:
    """Tell whether a date says how far it is from UTC."""
    match = _match(text)
    return match is not None and bool(match.groupdict().get("offset"))


def parse_date(text: str, day_first: bool, first_year: int = FIRST_FUTURE - 100) -> tuple[datetime | None, timedelta]:
    """One text as (wall clock time, offset from UTC); (None, zero) when it has none of the known forms.

    Years of two digits are the hundred from `first_year` on.
    """
    match = _match(text)
    try:
        return (None, timedelta(0)) if match is None else _build_moment(match.groupdict(), day_first, first_year)
    except (ValueError, OverflowError):  # 31 February
        return None, timedelta(0)


def _build_moment(parts: dict[str, Any], day_first: bool, first_year: int) -> tuple[datetime, timedelta]:
    day, month = parts.get("day"), parts.get("month")
    if "first" in parts:
        day, month = (parts["first"], parts["then"]) if day_first else (parts["then"], parts["first"])
    if "name" in parts:
        month = MONTHS[parts["name"].lower()]
    if "quarter" in parts:
        month = 3 * int(parts["quarter"]) - 2
    if "semester" in parts:
        month = 6 * int(parts["semester"]) - 5
    if "week" in parts:
        monday = datetime.fromisocalendar(int(parts["year"]), int(parts["week"]), int(parts.get("weekday") or 1))
        return monday, timedelta(0)
    year = int(parts["year"]) if "year" in parts else first_year + (int(parts["short"]) - first_year) % 100
    hour, minute, second = (int(parts.get(name) or 0) for name in ("hour", "minute", "second"))
    if half := parts.get("half"):
        if not 1 <= hour <= 12:
            raise ValueError("no such hour on a twelve-hour clock")
        hour = hour % 12 + (12 if half.lower() == "p" else 0)
    microsecond = int((parts.get("fraction") or "").ljust(6, "0")[:6])
    midnight = (hour, minute, second, microsecond) == (24, 0, 0, 0)  # at the end of the day
    moment = datetime(year, int(month or 1), int(day or 1), 0 if midnight else hour, minute, second, microsecond)
    moment += timedelta(days=midnight)
    zone = parts.get("offset") or ""
    offset = timedelta(minutes=ZONES.get(zone.lower(), 0))
    zone = zone.lower().removeprefix("utc").removeprefix("gmt")
    if zone.startswith(("+", "-")):
        digits = zone[1:].replace(":", "").ljust(4, "0")
        offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:])) * (-1 if zone[0] == "-" else 1)
    _ = moment - offset  # the first hours of year 1 may have no UTC time
    return moment, offset
