"""Which kind of column is this? The answer, and plain sentences on what was decided."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mercer.errors import InputError
from mercer.tables.cells import (
    LEAVE_OUT,
    MISSING,
    Texts,
    holds_dates,
    holds_numbers,
    numbers_of,
    parse_numbers,
    refuse_unreadable,
    texts_of,
)
from mercer.tables.columns import CategoryColumn, Column, DateColumn, NumberColumn
from mercer.tables.dates import Dates, DayOrder, dates_of, day_order, parse_dates
from mercer.tables.timeline import ELAPSED_UNITS, choose_timeline
from mercer.tables.wording import counted, listed

MOST_LEVELS = 50
# From so many rows on, a column where most entries differ is a name or an identifier, not a category.
ROWS_TO_TELL_IDENTIFIERS = 20
MOSTLY = 0.8

Recognised = tuple[Column, tuple[str, ...]]


def recognise(column: pd.Series) -> Recognised:
    """The kind of a column of training data, learned from its entries that are not missing."""
    name = str(column.name)
    if column.isna().all():
        raise InputError(f"Column '{name}' is empty. Fill it in, or {LEAVE_OUT}.")
    if holds_numbers(column):
        return NumberColumn(name), _notes_on_numbers(name, column)
    if holds_dates(column):
        return _date_column(name, dates_of(column), DayOrder(day_first=False, guessed=False))
    if column.dtype.kind in "mc":
        word = "durations" if column.dtype.kind == "m" else "complex numbers"
        raise InputError(f"Column '{name}' holds {word}. Convert it to plain numbers, or {LEAVE_OUT}.")
    texts = texts_of(column)
    if np.all(texts == MISSING):
        raise InputError(f"Column '{name}' is empty. Fill it in, or {LEAVE_OUT}.")
    if isinstance(column.dtype, pd.CategoricalDtype):
        return _category_column(name, texts)
    return _from_texts(name, texts)


def _from_texts(name: str, texts: Texts) -> Recognised:
    present = texts != MISSING
    no_number = present & np.isnan(parse_numbers(texts))
    if not no_number.any():
        return NumberColumn(name), (f"column '{name}' holds numbers written as text and was read as numbers",)
    order = day_order(list(texts[present]))
    dates = parse_dates(texts, order.day_first)
    no_date = present & np.isnat(dates.wall)
    if not no_date.any():
        return _date_column(name, dates, order)
    _refuse_mostly(name, texts, no_number, "number")
    _refuse_mostly(name, texts, no_date, "date")
    return _category_column(name, texts)


def _refuse_mostly(name: str, texts: Texts, unreadable: NDArray[np.bool_], wanted: str) -> None:
    """A few strange entries among numbers or dates are slips, not categories."""
    if 1 - unreadable.sum() / np.sum(texts != MISSING) >= MOSTLY:
        advice = (
            f"The other entries of this column are mostly {wanted}s. Correct the entry, leave it empty if it is "
            f"unknown, or {LEAVE_OUT}."
        )
        refuse_unreadable(name, texts, unreadable, wanted, advice)


def _notes_on_numbers(name: str, column: pd.Series) -> tuple[str, ...]:
    if pd.api.types.is_bool_dtype(column.dtype):
        return (f"column '{name}' holds true and false, which became 1 and 0",)
    numbers = numbers_of(column)
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


def _date_column(name: str, dates: Dates, order: DayOrder) -> Recognised:
    clock, timeline = "wall", choose_timeline(dates.wall)
    zoned = not np.array_equal(dates.wall, dates.universal, equal_nan=True)
    if zoned and timeline.unit in ELAPSED_UNITS and timeline.unit not in ("days", "weeks"):
        clock, timeline = "utc", choose_timeline(dates.universal)
    since = timeline.text(0.0) + (" UTC" if clock == "utc" else "")
    notes = [f"column '{name}' holds dates and is measured in {timeline.unit} since {since}"]
    if order.guessed:
        read, other = ("day", "month") if order.day_first else ("month", "day")
        notes.append(
            f"column '{name}' does not tell whether the day or the month comes first in its dates; they were read "
            f"{read} first (if the {other} comes first, write them as 1949-01-31)"
        )
    return DateColumn(name, timeline, clock, order.day_first), tuple(notes)


def _category_column(name: str, texts: Texts) -> Recognised:
    present = texts[texts != MISSING]
    levels = tuple(sorted(set(present)))
    mostly_different = len(present) >= ROWS_TO_TELL_IDENTIFIERS and 2 * len(levels) > len(present)
    if len(levels) > MOST_LEVELS or mostly_different:
        raise InputError(
            f"Column '{name}' holds text with {len(levels)} different values in {len(present)} rows, such as "
            f"{present[0]!r}: too many for categories. To go on, {LEAVE_OUT}, or convert it to numbers "
            "(dates must look like 1949-01-31 or 31 Jan 1949, numbers like 1234.5)."
        )
    column = CategoryColumn(name, levels)
    found = counted(len(levels), "category", "categories")
    return column, (f"column '{name}' has {found} and was one-hot encoded: {listed(column.encoded_names)}",)
