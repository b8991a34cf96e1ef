"""Bounds as they are written on the command line, and bounds of a table's column where none are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from mercer.errors import InputError
from mercer.optimise.space import KINDS, Category, Input, Integer, Log, Range, input_from_plain
from mercer.tables.columns import CategoryColumn, DateColumn, holds_numbers, parse_numbers, recognise, to_texts
from mercer.tables.names import quote, suggest


def read_bounds_text(text: str) -> tuple[str, tuple[float, float] | Input | list[Any]]:
    """Read the bounds of one input as written on the command line, such as temperature=20:90 or solvent=a,b,c."""
    name, equals, written = (part.strip() for part in text.partition("="))
    advice = "Write name=low:high, name=low:high:integer, name=low:high:log, or name=a,b,c for categories."
    if not equals or not name or not written:
        raise InputError(f"The bounds {text!r} are not complete. {advice}")
    parts = [part.strip() for part in written.split(":")]
    if "," in written:
        pair = len(parts) == 2 or (len(parts) == 3 and parts[2].lower() in KINDS)
        if pair and all(_is_number_text(part.replace(",", ".")) for part in parts[:2]):
            raise InputError(f"The bounds {text!r} hold a comma. Write decimals with a point: {text.replace(',', '.')}")
        return name, list(_check_texts(name, [choice.strip() for choice in written.split(",")]).choices)
    if len(parts) not in (2, 3):
        raise InputError(f"The bounds {text!r} of '{name}' are not a range. {advice}")
    for part in parts[:2]:
        if not _is_number_text(part):
            raise InputError(f"The bounds {text!r} of '{name}' hold {part!r}, which is not a number. {advice}")
    low, high = float(parts[0]), float(parts[1])
    if len(parts) == 2:
        Range(low, high).check(name)
        return name, (low, high)
    kind = parts[2].lower()
    if kind not in (Integer.kind, Log.kind):
        raise InputError(
            f"The bounds {text!r} of '{name}' end in {parts[2]!r}, which is neither integer nor log."
            f"{suggest(kind, (Integer.kind, Log.kind)) or ' ' + advice}"
        )
    return name, input_from_plain(name, {"kind": kind, "low": low, "high": high})


def _is_number_text(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_texts(name: str, texts: list[str]) -> Category:
    """The choices of a category; texts that are all numbers are numbers, as they are in a table."""
    if "" in texts:
        raise InputError(f"The choices of '{name}' hold an empty one: {','.join(texts)}. Remove the extra comma.")
    if all(_is_number_text(text) for text in texts):
        numbers = [float(text) for text in texts]
        return Category(tuple(int(number) if number.is_integer() else number for number in numbers)).check(name)
    return Category(tuple(texts)).check(name)


def range_of_column(name: str, values: ArrayLike) -> tuple[tuple[float, float] | list[Any], str]:
    """Return the range of a table's column (or its distinct texts) as bounds, and a note that says so."""
    series = values.rename(name) if isinstance(values, pd.Series) else pd.Series(values, name=name)
    column, _ = recognise(series)
    advice = f"give --bounds {name}="
    if isinstance(column, DateColumn):
        raise InputError(
            f"Column '{name}' holds dates, which cannot be an input here. Leave it out (--exclude {name})."
        )
    if isinstance(column, CategoryColumn) or pd.api.types.is_bool_dtype(series.dtype):
        choices = list(column.levels) if isinstance(column, CategoryColumn) else sorted(set(series.dropna().tolist()))
        _refuse_constant(name, choices)
        return choices, f"column '{name}' has no bounds: its values {quote(map(str, choices))} are the choices"
    numbers = series.to_numpy(np.float64, na_value=np.nan) if holds_numbers(series) else parse_numbers(to_texts(series))
    numbers = numbers[~np.isnan(numbers)]
    low, high = float(numbers.min()), float(numbers.max())
    _refuse_constant(name, [low, high] if low < high else [low])
    Range(low, high).check(name)
    note = f"column '{name}' has no bounds: its range, {low:g} to {high:g}, is searched ({advice}low:high for another"
    if np.all(numbers == np.round(numbers)):
        note += f", or --bounds {name}={low:g}:{high:g}:integer for whole numbers only"
    return (low, high), note + ")"


def _refuse_constant(name: str, found: Sequence[Any]) -> None:
    if len(found) < 2:
        bounds = "a,b with all the choices" if isinstance(found[0], str) else "low:high"
        raise InputError(
            f"Column '{name}' has only one value, {found[0]}, and no bounds. "
            f"Give --bounds {name}={bounds}, or leave the column out (--exclude {name})."
        )
