"""What `Forecaster.fit` is given -> series by name: values in order of time, places counted in steps, known causes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from mercer.errors import DataWarning, InputError
from mercer.forecast.calendar import Calendar, Steps, find_digits, make_calendar, read_times, show
from mercer.forecast.causes import match_rows, to_labels
from mercer.forecast.model import Series
from mercer.forecast.public_holidays import Holiday, find_holidays, list_days_of, mark_days
from mercer.kernels.domains import Array

LONG = ("unique_id", "ds", "y")
ALONE = ""  # the name of the only series where ids were not given
LARGEST = 1e150  # of values: squares of larger ones are not finite
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
NO_NUMBERS = {"datetime64": "dates", "datetime": "dates", "date": "dates", "period": "dates",
              "timedelta64": "durations", "timedelta": "durations", "complex": "complex numbers"}  # fmt: skip
MOST_ROWS = 1000  # the last ones of a series: time grows with their cube, and what lies further back says little
CYCLES = 1.5  # of its usual season that a series must show for it to be looked for unasked


@dataclass(frozen=True, eq=False)
class Named:
    """A series with its name, its calendar, and the centres and spreads of its known causes."""

    name: str
    series: Series
    calendar: Calendar
    centres: Array
    spreads: Array
    earlier: int = 0  # values before those that are used

    def ahead(self, count: int) -> Steps:
        """Return how many steps lie from the last value to each of the next."""
        return self.calendar.ahead(float(self.series.places[-1] * self.series.season), count)


@dataclass(frozen=True, eq=False)
class Reading:
    """All series, the names of known causes, and remarks."""

    many: tuple[Named, ...]
    causes: tuple[str, ...]
    notes: tuple[str, ...]
    long: bool  # ids were given
    country: str | None = None
    holidays: tuple[Holiday, ...] = ()  # of that country; the last of the causes
    target: str = "y"  # what messages call the only series

    def call(self, name: str) -> str:
        """Return what messages call a series."""
        return f"series '{name}'" if name else self.target

    @property
    def given_causes(self) -> tuple[str, ...]:
        """The causes that a table must have: all but the holidays."""
        return self.causes[: len(self.causes) - len(self.holidays)]


def read_series(y: Any, X: Any, season: int | None, country: str | None = None) -> Reading:
    """Read a Series, an array or a long frame; one row of X for each of y. Holidays of a country are causes as well."""
    frame, long = _as_frame(y)
    target = str(y.name) if isinstance(y, pd.Series) and y.name is not None else "y"
    causes: tuple[str, ...] = ()
    if X is not None:
        table = match_rows(X, y, frame)
        causes = tuple(table.columns)
        for name in causes:
            frame[f"cause {name}"] = read_cause(table[name], f"column '{name}'")
    holidays = () if country is None else _add_holidays(frame, country)
    causes = (*causes, *(each.label for each in holidays))
    many, left_out = [], []
    notes = _count("no unique_id", frame["unique_id"].isna())
    if causes:
        notes += _count("no value of a known cause", frame[[f"cause {each}" for each in causes]].isna().any(axis=1))
    if (digits := find_digits(frame["ds"])) is not None:
        notes.append(f"times such as {digits} were read as plain numbers; if these are dates, convert them with "
                     "pandas.to_datetime, or write them as 2024-01 or 2024-01-31")  # fmt: skip
    for key, rows in frame.groupby(_name_series(frame["unique_id"]), sort=False):
        name = str(key)
        found = _read_one(name, f"series '{name}'" if name else target, rows, causes, season)
        if found is None:
            left_out.append(name)
            continue
        many.append(found)
        if not found.calendar.even:
            of = f" of series {name}" if long else ""
            notes.append(f"the steps{of} are not even; the typical one, {found.calendar.words}, is used for what comes")
    notes += note_earlier(many)
    if left_out:
        notes.append(f"left out, because one value shows nothing of what comes: {list_some(left_out)}")
    notes += note_weekdays(many)
    if not many:
        raise InputError("there is no series with two values or more: a forecast needs some")
    for note in notes[:3]:
        warnings.warn(note, DataWarning, stacklevel=4)
    return Reading(tuple(many), causes, tuple(notes), long, country, holidays, target)


def open_all_days(reading: Reading) -> Reading:
    """Return the reading with every weekday among the steps to come."""
    many = tuple(replace(named, calendar=replace(named.calendar, closed=())) for named in reading.many)
    return replace(reading, many=many)


def _name_series(ids: pd.Series) -> pd.Series:
    """Return the names of series as texts, by which they are told apart; 1 and "1" are one."""
    return ids.astype(object).where(ids.isna(), ids.astype(str))


def keep_positive(reading: Reading) -> Reading:
    """Leave out series with values of zero or below, with a remark; where none is left, refuse."""
    kept = tuple(named for named in reading.many if np.all(named.series.values > 0))
    if len(kept) == len(reading.many):
        return reading
    others = [named for named in reading.many if named not in kept]
    if not kept:
        least = others[0].series.values.min()
        raise InputError(f"positive is for values above zero, and {reading.call(others[0].name)} has {least:g}")
    note = f"left out, because positive is for values above zero: {list_some([named.name for named in others])}"
    warnings.warn(note, DataWarning, stacklevel=4)
    return replace(reading, many=kept, notes=(*reading.notes, note))


def _add_holidays(frame: pd.DataFrame, country: str) -> tuple[Holiday, ...]:
    """Add a column for each holiday that the times have."""
    if not isinstance(country, str):
        raise InputError(f"holidays is a country such as 'DE', or None, not {country!r:.60}")
    read = read_times(frame["ds"].to_numpy(), "y")
    if read.timeline is None:
        raise InputError("holidays need dates, and the times of the data are numbers")
    times = pd.DatetimeIndex(read.timeline.moments(read.numbers))
    first = read.numbers[(frame["unique_id"] == frame["unique_id"].iloc[0]).to_numpy()]
    kind = make_calendar(replace(read, numbers=np.unique(first))).kind
    days = list_days_of(country, times)
    holidays = find_holidays(days, times, kind)
    for each, column in zip(holidays, mark_days(holidays, days, times, kind).T, strict=True):
        frame[f"cause {each.label}"] = column
    return holidays


def _as_frame(y: Any) -> tuple[pd.DataFrame, bool]:
    """Return a frame with unique_id, ds and y, and whether ids were given."""
    if isinstance(y, pd.DataFrame):
        missing = [column for column in LONG[1:] if column not in y.columns]
        if missing:
            there = ", ".join(map(str, y.columns[:8]))
            raise InputError(f"a table of series has the columns unique_id, ds and y; {missing} is missing, of {there}")
        long = LONG[0] in y.columns
        ids = y[LONG[0]].to_numpy() if long else [ALONE] * len(y)
        frame = pd.DataFrame({"unique_id": ids, "ds": y["ds"].to_numpy(), "y": y["y"].to_numpy()})
        if isinstance(y["ds"].dtype, pd.PeriodDtype):
            frame["ds"] = y["ds"].dt.to_timestamp().to_numpy()
        return frame, long
    if isinstance(y, pd.Series):
        if isinstance(y.index, pd.MultiIndex):
            names = ", ".join(str(name) for name in y.index.names)
            raise InputError(f"y has an index of several levels ({names}): give a table with unique_id, ds and y")
        return pd.DataFrame({"unique_id": ALONE, "ds": to_labels(y.index), "y": y.to_numpy()}), False
    masked = isinstance(y, np.ma.MaskedArray) and np.ma.is_masked(y)  # what is masked is missing
    values = np.ma.filled(y.astype(float), np.nan) if masked else np.asarray(y)
    if values.ndim != 1:
        raise InputError(f"y is one series: a list, an array of one dimension, a pandas Series or a table with the "
                         f"columns unique_id, ds and y; this has {values.ndim} dimensions")  # fmt: skip
    return pd.DataFrame({"unique_id": ALONE, "ds": np.arange(len(values)), "y": values}), False


def read_cause(column: pd.Series, name: str) -> Array:
    """Read a known cause; what is missing is NaN."""
    try:
        values = read_numbers(column, name)
    except InputError as error:
        raise InputError(f"{error}; write 1 where it is so and 0 where not, and give each category a column") from None
    if np.isinf(values).any():
        raise InputError(f"{name} holds a value that is not finite")
    return values


def read_numbers(column: pd.Series, name: str) -> Array:
    """Read a column of numbers."""
    if (word := NO_NUMBERS.get(pd.api.types.infer_dtype(column))) is not None:
        raise InputError(f"{name} must hold numbers; it holds {word}")
    try:
        return pd.to_numeric(column).to_numpy(dtype=float)
    except (ValueError, TypeError):
        wrong = column[column.notna() & pd.to_numeric(column, errors="coerce").isna()]
        shown = (wrong if len(wrong) else column).iloc[0]
        raise InputError(f"{name} must hold numbers; it holds {shown!r:.60}") from None


def _read_one(name: str, called: str, rows: pd.DataFrame, causes: Sequence[str], season: int | None) -> Named | None:
    values = read_numbers(rows["y"], called)
    known = np.column_stack([np.empty((len(rows), 0)), *(rows[f"cause {each}"].to_numpy() for each in causes)])
    there = ~np.isnan(values) & ~np.isnan(known).any(axis=1)  # a missing value is a missing step
    if np.isinf(values[there]).any():
        raise InputError(f"{called} holds a value that is not finite")
    if np.abs(values[there]).max(initial=0.0) > LARGEST:
        raise InputError(f"{called} holds {np.abs(values[there]).max():g}: give such values in a larger unit")
    if there.sum() < 2:
        return None
    read = read_times(rows["ds"].to_numpy()[there], called)
    times = read.numbers
    order = np.argsort(times, kind="stable")
    times, values, known = times[order], values[there][order], known[there][order]
    earlier = max(0, len(times) - MOST_ROWS)
    if (same := np.flatnonzero(np.diff(times) == 0)).size:
        shown = rows["ds"].to_numpy()[there][order][same[0]]
        raise InputError(f"{called} has two values for {show(shown)}: add them up or keep one")
    times, values, known = times[earlier:], values[earlier:], known[earlier:]
    calendar = make_calendar(replace(read, numbers=times))
    length = choose_season(season, calendar, times, called)
    places = (times - times[0]) / calendar.step / length
    centres, spreads = known.mean(axis=0), known.std(axis=0)
    spreads = np.where(spreads > 0, spreads, 1.0)
    series = Series(places, values, (known - centres) / spreads, float(length))
    return Named(name, series, calendar, centres, spreads, earlier)


def choose_season(asked: int | None, calendar: Calendar, times: Array, called: str) -> int:
    """Return the steps of a season: those asked for, or the usual ones where the series shows some of them."""
    steps = 1 + (times[-1] - times[0]) / calendar.step
    if asked is None:
        return calendar.season if steps >= CYCLES * calendar.season else 1
    if isinstance(asked, bool) or not isinstance(asked, int | np.integer) or asked < 1:
        raise InputError(f"season is a number of steps such as 12, or None, not {asked!r:.60}")
    if asked > steps:
        raise InputError(
            f"a season of {asked} is longer than {called}, which spans {steps:.0f} steps; give a shorter one, or 1"
        )
    return int(asked)


def note_earlier(many: Sequence[Named]) -> list[str]:
    """Say how many values of long series are not used."""
    counts = [named.earlier for named in many if named.earlier]
    if not counts:
        return []
    of = f"of {MOST_ROWS + counts[0]:,} values" if len(many) == 1 else f"values of {len(counts)} of {len(many)} series"
    last = f"the last {MOST_ROWS:,} {of} are used"
    return [f"{last}: what lies further back says little of what comes, and would take long"]


def note_weekdays(many: Sequence[Named]) -> list[str]:
    """Say which weekdays series of days never have, as what comes passes over them too."""
    lacking: dict[tuple[int, ...], int] = {}
    for closed in (named.calendar.closed for named in many if named.calendar.closed):
        lacking[closed] = lacking.get(closed, 0) + 1
    return [
        f"{'the data have' if len(many) == 1 else f'{count} of {len(many)} series have'} no "
        f"{' and '.join(f'{WEEKDAYS[day]}s' for day in closed)}; the steps to come have none either"
        for closed, count in lacking.items()
    ]


def _count(what: str, lacking: pd.Series) -> list[str]:
    """Say how many rows lack something and are left out; nothing where none does."""
    count = int(lacking.sum())
    if not count:
        return []
    return [f"1 row has {what} and is left out" if count == 1 else f"{count} rows have {what} and are left out"]


def list_some(names: Sequence[str], most: int = 5) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
