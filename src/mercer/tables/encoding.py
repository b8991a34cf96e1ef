"""How the named columns of a table become a matrix of numbers, and how its numbers are shown again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from mercer.errors import InputError
from mercer.tables.columns import Column, DateColumn, column_from_json
from mercer.tables.names import with_clean_names
from mercer.tables.recognise import recognise
from mercer.tables.timeline import Moments
from mercer.tables.wording import quoted, suggestion

FORMAT = "mercer-encoding"
VERSION = 1


@dataclass(frozen=True)
class Encoding:
    """What was learned about the input columns of a table, so that later tables are encoded alike.

    Numbers stay as they are, dates become time since the first date, categories become columns of zeros
    and ones. `notes` says in plain sentences what was done.
    """

    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.columns:
            raise InputError("There is no input column to encode. Give at least one.")
        repeated = [name for name, count in Counter(self.names).items() if count > 1]
        if repeated:
            raise InputError(f"Two encoded columns would be called {quoted(repeated)}. Rename a column of the table.")

    @classmethod
    def learn(cls, frame: pd.DataFrame) -> Encoding:
        """Recognise the kind of every column. Missing entries are passed over here; `apply` refuses them."""
        table = with_clean_names(frame)
        if not len(table):
            raise InputError("The table has no rows to learn from. Check that it was read completely.")
        recognised = [recognise(table[name]) for name in table.columns]
        return cls(tuple(column for column, _ in recognised), tuple(note for _, notes in recognised for note in notes))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the encoded columns."""
        return tuple(name for column in self.columns for name in column.encoded_names)

    @property
    def units(self) -> tuple[str | None, ...]:
        """The unit of each encoded column: "months" and the like for dates, None for others."""
        return tuple(unit for column in self.columns for unit in column.units)

    def apply(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """The table as a float64 matrix. The order of its columns is free, extra ones are ignored."""
        table = with_clean_names(frame)
        absent = [column.name for column in self.columns if column.name not in table.columns]
        if absent:
            raise InputError(
                f"The table has no column {quoted(absent)}; it has {quoted(table.columns) or 'none at all'}."
                f"{suggestion(absent[0], list(table.columns))} Add it, or rename the column that holds it."
            )
        return np.hstack([column.encode(table[column.name]) for column in self.columns])

    def describe_value(self, name: str, number: float) -> str:
        """An encoded number as text: a date for a date column, otherwise four significant digits."""
        column = self._column(name)
        if isinstance(column, DateColumn):
            return column.timeline.text(number)
        return four_digits(number)

    def inverse_dates(self, name: str, numbers: ArrayLike) -> Moments:
        """The dates (datetime64) that encoded numbers of a date column stand for, as a plot's axis needs them."""
        column = self._column(name)
        if not isinstance(column, DateColumn):
            dated = [each.name for each in self.columns if isinstance(each, DateColumn)]
            raise InputError(f"Column '{name}' does not hold dates. Columns of dates: {quoted(dated) or 'none'}.")
        return column.timeline.moments(numbers)

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain JSON values, from which `from_json` rebuilds this encoding."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "columns": [column.to_json() for column in self.columns],
            "notes": list(self.notes),
        }

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

    def _column(self, name: str) -> Column:
        for column in self.columns:
            if name in column.encoded_names:
                return column
        raise InputError(
            f"There is no encoded column '{name}'; there are {quoted(self.names)}.{suggestion(name, self.names)}"
        )


def four_digits(number: float) -> str:
    """A number to four significant digits, without an exponent where a reader can do without."""
    if not np.isfinite(number) or number == 0:
        return f"{abs(number):g}" if number == 0 else f"{number:g}"
    rounded = float(f"{number:.4g}")
    if 1e-4 <= abs(rounded) < 1e9:
        return np.format_float_positional(rounded, trim="-")
    return f"{number:.4g}"
