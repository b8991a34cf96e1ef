"""Which column is to be predicted, and from which others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from mercer.errors import InputError
from mercer.tables.cells import (
    MISSING,
    finite_numbers,
    holds_dates,
    holds_numbers,
    parse_numbers,
    texts_of,
)
from mercer.tables.names import with_clean_names
from mercer.tables.recognise import MOSTLY
from mercer.tables.wording import quoted, suggestion

ROW = "row"


class Split(NamedTuple):
    """The input columns, the target as float64 numbers (NaN where missing), and sentences on what was made up."""

    inputs: pd.DataFrame
    target: pd.Series
    notes: tuple[str, ...]


def split_target(frame: pd.DataFrame, target: str, inputs: Sequence[str] | None = None) -> Split:
    """Part a table into inputs and target. Without `inputs`, every other column is an input.

    A table of the target alone gets an input column "row" that counts from 0, and a note that says so.
    """
    table = with_clean_names(frame)
    names = list(table.columns)
    if target not in names:
        raise InputError(
            f"There is no target column '{target}'; the columns are {quoted(names) or 'none'}."
            f"{suggestion(target, names)}"
        )
    if not len(table):
        raise InputError("The table has no rows. Check that it was read completely.")
    values = _target_numbers(table, target)
    chosen = [name for name in names if name != target] if inputs is None else _chosen(inputs, target, names)
    if chosen:
        return Split(table[chosen], values, ())
    row_numbers = pd.DataFrame({ROW: np.arange(len(table))}, index=table.index)
    note = (
        f"the table has no column besides the target '{target}', so the row number (from 0) is the input, named '{ROW}'"
    )
    return Split(row_numbers, values, (note,))


def split_classes(frame: pd.DataFrame, target: str, inputs: Sequence[str] | None = None) -> Split:
    """Part a table into inputs and classes, which may be text, booleans or numbers; missing ones are None."""
    table = with_clean_names(frame)
    names = list(table.columns)
    if target not in names:
        raise InputError(
            f"There is no target column '{target}'; the columns are {quoted(names) or 'none'}."
            f"{suggestion(target, names)}"
        )
    chosen = [name for name in names if name != target] if inputs is None else _chosen(inputs, target, names)
    if not chosen:
        raise InputError(f"The table has no column besides the target '{target}': there is nothing to tell classes by.")
    column = table[target]
    missing = column.isna() | (column.astype(object).map(str).str.strip() == MISSING)
    if column.dtype.kind in "biu":
        values = column
    elif column.dtype.kind == "f":
        broken = column.dropna()[column.dropna() != column.dropna().round()]
        if len(broken):
            raise InputError(
                f"The target column '{target}' holds numbers with fractions (such as {broken.iloc[0]:g}), not classes. "
                "Explain it as a number, or join its values to classes first."
            )
        values = column.astype(object).map(lambda v: v if v != v else int(v))
    else:
        values = column.astype(object).map(lambda value: str(value).strip())
    return Split(table[chosen], values.where(~missing, None) if missing.any() else values, ())


def _chosen(inputs: Sequence[str], target: str, names: list[str]) -> list[str]:
    chosen = [inputs] if isinstance(inputs, str) else list(inputs)
    available = [name for name in names if name != target]
    if target in chosen:
        raise InputError(
            f"The inputs name the target '{target}' itself. Remove it; it cannot be used to predict itself."
        )
    unknown = [name for name in chosen if name not in available]
    if unknown:
        raise InputError(
            f"There is no input column {quoted(unknown)}; available are {quoted(available) or 'none'}."
            f"{suggestion(unknown[0], available)}"
        )
    repeated = sorted({name for name in chosen if chosen.count(name) > 1})
    if repeated:
        raise InputError(f"The inputs name {quoted(repeated)} more than once. Name each column once.")
    if not chosen:
        raise InputError(
            f"The list of inputs is empty. Choose among {quoted(available) or 'none'}, "
            "or leave the option out to use them all."
        )
    return chosen


def _target_numbers(table: pd.DataFrame, target: str) -> pd.Series:
    column = table[target]
    if _share_of_numbers(column) < MOSTLY:
        numeric = [name for name in table.columns if _share_of_numbers(table[name]) == 1]
        raise InputError(
            f"The target column '{target}' does not hold numbers: its first entry is "
            f"{str(column.dropna().iloc[0])!r}. Columns of numbers: {quoted(numeric) or 'none'}."
        )
    advice = "The target must be a number in every row: correct the entry or drop the row."
    missing = column.isna() | (column.astype(object).map(str).str.strip() == MISSING)
    values = np.full(len(column), np.nan)
    values[~missing.to_numpy()] = finite_numbers(column[~missing], advice)
    return pd.Series(values, index=table.index, name=target)


def _share_of_numbers(column: pd.Series) -> float:
    """How many of the entries that are not missing are numbers."""
    if holds_numbers(column):
        return 1.0
    present = column.dropna()
    if holds_dates(column) or column.dtype.kind in "mc":
        return 0.0
    try:
        texts = texts_of(present)
    except InputError:
        return 0.0
    texts = texts[texts != MISSING]
    return float(np.mean(~np.isnan(parse_numbers(texts)))) if texts.size else 1.0
