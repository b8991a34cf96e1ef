"""Known causes of the steps to come -> a row for each step of each series, matched by date where dates are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mercer.errors import InputError
from mercer.forecast.calendar import read_times, show
from mercer.forecast.causes import date_rows
from mercer.forecast.public_holidays import list_days_of, mark_days
from mercer.forecast.reading import Named, Reading, read_cause
from mercer.kernels.domains import Array

NEAR = 0.25  # of a step: so far a date may lie from the step it is meant for


def read_future(X: Any, reading: Reading, horizon: int) -> list[Array] | None:
    """Return the known causes of the steps to come, series by series: those of X, then holidays."""
    given = read_given(X, reading, horizon)
    if reading.country is None or not reading.holidays:
        return given
    times = [pd.DatetimeIndex(coming_times(named, horizon)) for named in reading.many]
    days = list_days_of(reading.country, pd.DatetimeIndex(times[0].append(times[1:])))
    marks = [
        mark_days(reading.holidays, days, own, named.calendar.kind)
        for own, named in zip(times, reading.many, strict=True)
    ]
    return marks if given is None else [np.column_stack(pair) for pair in zip(given, marks, strict=True)]


def coming_times(named: Named, horizon: int) -> pd.Index:
    """Return the times of the next steps."""
    last = named.series.places[-1] * named.series.season
    return named.calendar.times(last + named.ahead(horizon))


def read_given(X: Any, reading: Reading, horizon: int) -> list[Array] | None:
    """Read a table of causes to come, by `ds` (and `unique_id`), or else in order."""
    causes = reading.given_causes
    if not causes:
        if X is not None:
            raise InputError("the series were fitted without known causes: leave X out, or give it to fit as well")
        return None
    if X is None:
        raise InputError(f"give X with the columns {', '.join(causes)} for the {horizon} steps to come")
    table = date_rows(X)
    table.columns = [str(column) for column in table.columns]
    needed = (*causes, *(["unique_id"] if reading.long and "ds" in table.columns else []))
    twice = table.columns[table.columns.duplicated()]
    if any(name in needed for name in twice):
        raise InputError(f"X has two columns {twice[0]!r}: keep one")
    missing = [name for name in needed if name not in table.columns]
    if missing:
        raise InputError(f"X lacks the column {missing[0]!r}, which the series were fitted with")
    values = np.column_stack([read_cause(table[name], f"column '{name}' of the future table") for name in causes])
    if "ds" not in table.columns:
        return _read_in_order(values, reading, horizon)
    if not reading.long:
        return [_read_by_date(table["ds"], values, reading.many[0], reading, horizon)]
    rows = table.groupby(table["unique_id"].astype(str)).indices
    found = []
    for named in reading.many:
        own = rows.get(named.name, np.empty(0, dtype=int))
        found.append(_read_by_date(table["ds"].iloc[own], values[own], named, reading, horizon))
    return found


def _read_in_order(values: Array, reading: Reading, horizon: int) -> list[Array]:
    rows = horizon * len(reading.many)
    if len(values) != rows:
        raise InputError(f"X has {len(values)} rows; {horizon} steps of {len(reading.many)} series need {rows}")
    found = [values[place * horizon : (place + 1) * horizon] for place in range(len(reading.many))]
    for named, own in zip(reading.many, found, strict=True):
        _check_known(own, named, reading)
    return found


def _read_by_date(dates: pd.Series, values: Array, named: Named, reading: Reading, horizon: int) -> Array:
    of = f" of series '{named.name}'" if named.name else ""
    last = named.series.places[-1] * named.series.season
    ahead = named.ahead(horizon)
    ends = named.calendar.times(last + np.array([0, *ahead]))
    if not len(dates):
        raise InputError(f"the future table has no rows{of}; it needs {horizon}, from {show(ends[1])}")
    steps = count_steps(dates, named, of) - last
    if (early := np.flatnonzero(steps < 1 - NEAR)).size:
        raise InputError(
            f"the future table has {show(dates.iloc[early[0]])}{of}, which is not after the end of the data, "
            f"{show(ends[0])}: give only the steps to come"
        )
    result = np.full((horizon, values.shape[1]), np.nan)
    taken = np.zeros(horizon, dtype=bool)
    order = {int(step): place for place, step in enumerate(ahead)}
    for step, row, date in zip(steps, values, dates, strict=True):
        place = order.get(round(float(step)))
        if abs(step - round(float(step))) > NEAR:
            raise InputError(
                f"the future table has {show(date)}{of}, which is no step of the data; the next is {show(ends[1])}"
            )
        if place is None:  # beyond the horizon, or a weekday that the data never have
            continue
        if taken[place]:
            raise InputError(f"the future table has two rows for {show(date)}{of}: keep one")
        result[place], taken[place] = row, True
    if not taken.all():
        lacking = ends[1 + int(np.argmin(taken))]
        raise InputError(f"the future table lacks {show(lacking)}{of}, one of the {horizon} steps to come")
    _check_known(result, named, reading)
    return result


def count_steps(dates: pd.Series, named: Named, of: str) -> Array:
    """Return dates as places counted in steps from the first row, as the series counts them."""
    own = named.calendar.timeline
    times = read_times(dates.to_numpy(), f"the future table{of}", named.calendar.offset)
    numbers, timeline = times.numbers, times.timeline
    if (own is None) != (timeline is None):
        given, wanted = ("numbers", "dates") if timeline is None else ("dates", "numbers")
        raise InputError(f"the times of the future table{of} are {given}, those of the data are {wanted}")
    if own is not None and timeline is not None:
        numbers = own.numbers(timeline.moments(numbers))
    return np.asarray((numbers - named.calendar.first) / named.calendar.step)


def _check_known(values: Array, named: Named, reading: Reading) -> None:
    lacking = np.argwhere(~np.isfinite(values))
    if len(lacking):
        step, column = lacking[0]
        of = f" of series '{named.name}'" if named.name else ""
        name = reading.causes[column]
        raise InputError(f"the future table lacks a value of {name!r} at step {step + 1}{of}: give one for every step")
