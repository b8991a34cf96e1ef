"""A table -> inputs and target; its input columns -> a matrix of numbers, and those numbers as text and dates again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mercer.errors import InputError
from mercer.tables.columns import (
    MOST_LEVELS,
    CategoryColumn,
    Column,
    DateColumn,
    OneHotColumn,
    column_from_json,
    holds_dates,
    holds_numbers,
    parse_numbers,
    recognise,
    to_finite_numbers,
    to_texts,
)
from mercer.tables.dates import Moments
from mercer.tables.kinds import MISSING, MOSTLY
from mercer.tables.names import clean_columns, quote, refuse_unknown_target, suggest

FORMAT = "mercer-encoding"
VERSION = 1
ROW = "row"
# A gap counts as a whole number of steps within this share of a step (month ends at noon, daylight saving).
TOLERANCE = 0.15


@dataclass(frozen=True)
class Encoding:
    """What was learned about the input columns of a table, so that later tables are encoded alike.

    Numbers stay as they are, dates become time since the first date, categories become codes from 0 on, or columns of
    zeros and ones. `notes` says in plain sentences what was done.
    """

    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.columns:
            raise InputError("There is no input column to encode. Give at least one.")
        repeated = [name for name, count in Counter(self.names).items() if count > 1]
        if repeated:
            raise InputError(f"Two encoded columns would be called {quote(repeated)}. Rename a column of the table.")

    @classmethod
    def learn(cls, frame: pd.DataFrame, one_hot: bool = False) -> Encoding:
        """Recognise the kind of every column. Missing entries are passed over here; `apply` refuses them.

        one_hot : categories become columns of zeros and ones, one for each, and not one column of codes.
        """
        table = clean_columns(frame)
        if not len(table):
            raise InputError("The table has no rows to learn from. Check that it was read completely.")
        recognised = [recognise(table[name]) for name in table.columns]
        columns = tuple(
            OneHotColumn(column.name, column.levels) if one_hot and isinstance(column, CategoryColumn) else column
            for column, _ in recognised
        )
        return cls(columns, tuple(note for _, notes in recognised for note in notes))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the encoded columns."""
        return tuple(name for column in self.columns for name in column.encoded_names)

    @property
    def categories(self) -> dict[int, int]:
        """The numbers of the encoded columns that hold codes of categories, each with how many there are."""
        encoded = [column for column in self.columns for _ in column.encoded_names]
        return {place: len(own.levels) for place, own in enumerate(encoded) if isinstance(own, CategoryColumn)}

    @property
    def units(self) -> tuple[str | None, ...]:
        """The unit of each encoded column: "months" and the like for dates, None for others."""
        return tuple(unit for column in self.columns for unit in column.units)

    def apply(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """The table as a float64 matrix. The order of its columns is free, extra ones are ignored."""
        table = clean_columns(frame)
        absent = [column.name for column in self.columns if column.name not in table.columns]
        if absent:
            raise InputError(
                f"The table has no column {quote(absent)}; it has {quote(table.columns) or 'none at all'}."
                f"{suggest(absent[0], list(table.columns))} Add it, or rename the column that holds it."
            )
        return np.hstack([column.encode(table[column.name]) for column in self.columns])

    def read_day_first(self, names: Collection[str]) -> Encoding:
        """The same encoding, where dates of these columns are written with the day first."""
        return replace(
            self,
            columns=tuple(
                replace(column, day_first=True) if isinstance(column, DateColumn) and column.name in names else column
                for column in self.columns
            ),
        )

    def describe_value(self, name: str, number: float) -> str:
        """An encoded number as text: a date, a category, otherwise four significant digits.

        Without an exponent where a reader can do without.
        """
        column = next((column for column in self.columns if name in column.encoded_names), None)
        if column is None:
            raise InputError(
                f"There is no encoded column '{name}'; there are {quote(self.names)}.{suggest(name, self.names)}"
            )
        if isinstance(column, DateColumn):
            return column.timeline.text(number)
        if isinstance(column, CategoryColumn):
            place = round(number)
            return column.levels[place] if 0 <= place < len(column.levels) else "a new category"
        rounded = float(f"{number:.4g}")
        if 1e-4 <= abs(rounded) < 1e9:
            return np.format_float_positional(rounded, trim="-")
        return f"{abs(number) if number == 0 else number:.4g}"

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain JSON values, from which `from_json` rebuilds this encoding."""
        columns = [column.to_json() for column in self.columns]
        return {"format": FORMAT, "version": VERSION, "columns": columns, "notes": list(self.notes)}

    @classmethod
    def from_json(cls, plain: Any) -> Encoding:
        """Rebuild an encoding from `to_json`; anything else is an `InputError`."""
        try:
            if plain["format"] != FORMAT or plain["version"] != VERSION:
                raise ValueError(f"expected {FORMAT} version {VERSION}, not {plain['format']!r} {plain['version']!r}")
            columns, notes = plain["columns"], plain["notes"]
            if not isinstance(columns, list) or not isinstance(notes, list):
                raise TypeError("columns and notes must be lists")
            if not all(isinstance(note, str) for note in notes):
                raise TypeError("notes must be texts")
            return cls(tuple(column_from_json(column) for column in columns), tuple(notes))
        except KeyError as missing:
            reason = f"the field {missing} is missing"
        except (TypeError, ValueError, AttributeError, OverflowError) as problem:
            reason = str(problem)
        raise InputError(
            f"The stored description of the input columns is damaged or of another version: {reason}. "
            "Use the file that Mercer wrote, or learn the model again."
        )


def describe_gaps(frame: pd.DataFrame, encoding: Encoding) -> tuple[str, ...]:
    """One sentence for each column of dates with missing steps, and one if its rows are not in time order."""
    table = clean_columns(frame)
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


class Split(NamedTuple):
    """The input columns, the target as float64 numbers (NaN where missing), and sentences on what was made up."""

    inputs: pd.DataFrame
    target: pd.Series
    notes: tuple[str, ...]


def split_target(frame: pd.DataFrame, target: str, inputs: Sequence[str] | None = None) -> Split:
    """Part a table into inputs and target. Without `inputs`, every other column is an input.

    A table of the target alone gets an input column "row" that counts from 0, and a note that says so.
    """
    table = clean_columns(frame)
    refuse_unknown_target(target, list(table.columns))
    if not len(table):
        raise InputError("The table has no rows. Check that it was read completely.")
    column = table[target]
    if _share_of_numbers(column) < MOSTLY:
        numeric = [name for name in table.columns if _share_of_numbers(table[name]) == 1]
        repeats = column.nunique() <= min(MOST_LEVELS, column.count() / 2)
        classes = " Classes are learned by discover --task classification, in Python by KernelSVC." if repeats else ""
        raise InputError(
            f"The target column '{target}' does not hold numbers: its first entry is "
            f"{str(column.dropna().iloc[0])!r}. Columns of numbers: {quote(numeric) or 'none'}.{classes}",
            about="target",
        )
    missing = _find_missing(column)
    advice = "The target must be a number in every row: correct the entry or drop the row."
    values = pd.Series(np.nan, index=table.index, name=target)
    values[~missing.to_numpy()] = to_finite_numbers(column[~missing], advice)
    chosen = _choose_inputs(inputs, target, list(table.columns))
    if chosen:
        return Split(table[chosen], values, ())
    numbers = pd.DataFrame({ROW: np.arange(len(table))}, index=table.index)
    note = f"the table has no column besides the target '{target}', so the row number (from 0) is the input"
    return Split(numbers, values, (f"{note}, named '{ROW}'",))


def split_classes(frame: pd.DataFrame, target: str, inputs: Sequence[str] | None = None) -> Split:
    """Part a table into inputs and classes, which may be text, booleans or numbers; missing ones are None."""
    table = clean_columns(frame)
    refuse_unknown_target(target, list(table.columns))
    chosen = _choose_inputs(inputs, target, list(table.columns))
    if not chosen:
        raise InputError(f"The table has no column besides the target '{target}': there is nothing to tell classes by.")
    column = table[target]
    missing = _find_missing(column)
    if column.dtype.kind in "biu":
        values = column
    elif column.dtype.kind == "f":
        broken = column.dropna()[column.dropna() != column.dropna().round()]
        if len(broken):
            raise InputError(
                f"The target column '{target}' holds numbers with fractions (such as {broken.iloc[0]:g}), not classes. "
                "Explain it as a number, or join its values to classes first.",
                about="target",
            )
        values = column.astype(object).map(lambda v: v if v != v else int(v))
    else:
        values = column.astype(object).map(lambda value: str(value).strip())
    return Split(table[chosen], values.where(~missing, None) if missing.any() else values, ())


def _choose_inputs(inputs: Sequence[str] | None, target: str, names: list[str]) -> list[str]:
    available = [name for name in names if name != target]
    if inputs is None:
        return available
    chosen = [inputs] if isinstance(inputs, str) else list(inputs)
    if target in chosen:
        raise InputError(
            f"The inputs name the target '{target}' itself. Remove it; it cannot be used to predict itself.",
            about="inputs",
        )
    unknown = [name for name in chosen if name not in available]
    if unknown:
        raise InputError(
            f"There is no input column {quote(unknown)}; available are {quote(available) or 'none'}."
            f"{suggest(unknown[0], available)}",
            about="inputs",
        )
    repeated = sorted({name for name in chosen if chosen.count(name) > 1})
    if repeated:
        raise InputError(f"The inputs name {quote(repeated)} more than once. Name each column once.", about="inputs")
    if not chosen:
        raise InputError(
            f"The list of inputs is empty. Choose among {quote(available) or 'none'}, "
            "or leave the option out to use them all.",
            about="inputs",
        )
    return chosen


def _find_missing(column: pd.Series) -> pd.Series:
    return column.isna() | (column.astype(object).map(str).str.strip() == MISSING)


def _share_of_numbers(column: pd.Series) -> float:
    """How many of the entries that are not missing are numbers."""
    if holds_numbers(column):
        return 1.0
    present = column.dropna()
    if holds_dates(column) or column.dtype.kind in "mc":
        return 0.0
    try:
        texts = to_texts(present)
    except InputError:
        return 0.0
    texts = texts[texts != MISSING]
    return float(np.mean(~np.isnan(parse_numbers(texts)))) if texts.size else 1.0
