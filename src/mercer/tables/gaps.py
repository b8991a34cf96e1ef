"""Sentences on what is missing or out of order in columns of dates. None of it is a fault: they reassure."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mercer.tables.columns import DateColumn
from mercer.tables.encoding import Encoding
from mercer.tables.names import with_clean_names
from mercer.tables.timeline import Moments

# A gap counts as a whole number of steps within this share of a step (month ends at noon, daylight saving).
TOLERANCE = 0.15


def describe_gaps(frame: pd.DataFrame, encoding: Encoding) -> tuple[str, ...]:
    """One sentence for each column of dates with missing steps, and one if its rows are not in time order."""
    table = with_clean_names(frame)
    sentences: list[str] = []
    for column in encoding.columns:
        if not isinstance(column, DateColumn) or column.name not in table.columns:
            continue
        moments = column.moments(table[column.name])
        moments = moments[~np.isnat(moments)]
        sentences += _missing_steps(column, moments)
        if np.any(np.diff(moments) < np.timedelta64(0, "us")):
            sentences.append(
                f"column '{column.name}': the rows are not in time order; that is fine, no sorting is needed"
            )
    return tuple(sentences)


def _missing_steps(column: DateColumn, moments: Moments) -> list[str]:
    distinct = np.unique(moments)
    if distinct.size < 3:
        return []
    unit = column.timeline.unit
    gaps = np.diff(column.timeline.numbers(distinct))
    step = float(np.median(gaps))
    expected_name = unit
    if unit == "days" and abs(step - 1) < TOLERANCE and np.is_busday(distinct.astype("datetime64[D]")).all():
        days = distinct.astype("datetime64[D]")
        steps: NDArray[np.int64] = np.busday_count(days[:-1], days[1:])
        expected_name = "weekdays"
    else:
        steps = np.rint(gaps / step).astype(np.int64)
        if np.any(np.abs(gaps / step - steps) > TOLERANCE) or np.any(steps < 1):
            return []  # no even steps, so nothing can be missing
        if abs(step - 1) > TOLERANCE:
            expected_name = f"dates (one every {step:.3g} {unit})"
    missing = int(np.sum(steps - 1))
    if missing < 1:
        return []
    expected = int(np.sum(steps)) + 1
    last_before = distinct[int(np.flatnonzero(steps > 1)[0])]
    number = float(column.timeline.numbers(np.array([last_before]))[0])
    verb, first = ("is", "") if missing == 1 else ("are", "the first ")
    return [
        f"column '{column.name}': {missing} of {expected} expected {expected_name} {verb} missing, "
        f"{first}after {column.timeline.text(number)}; that is fine, gaps need no filling"
    ]
