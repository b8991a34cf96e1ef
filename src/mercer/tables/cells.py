"""The entries of one column: as numbers, or as stripped texts."""

from __future__ import annotations

import datetime
import decimal
import numbers

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mercer.errors import InputError
from mercer.tables.names import pluralise

Texts = NDArray[np.object_]

MISSING = ""
MISSING_MARKS = ("nan", "nat", "<na>")  # what pandas makes of a gap when it turns a column into text
READABLE_TYPES = (str, numbers.Real, decimal.Decimal, datetime.date, np.datetime64, np.bool_, pd.Period, pd.Interval)
LEAVE_OUT = "leave the column out with the inputs option"


def holds_numbers(column: pd.Series) -> bool:
    """True for integers, floats and true/false, the nullable kinds included."""
    return pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(column.dtype)


def holds_dates(column: pd.Series) -> bool:
    """True for columns of a pandas datetime or period type."""
    kind = column.dtype
    return isinstance(kind, pd.DatetimeTZDtype | pd.PeriodDtype) or (isinstance(kind, np.dtype) and kind.kind == "M")


def to_numbers(column: pd.Series) -> NDArray[np.float64]:
    """The entries of a column that `holds_numbers`, missing ones as NaN."""
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def to_texts(column: pd.Series) -> Texts:
    """Every entry as stripped text, missing ones as the empty text."""
    values = column.astype(object).to_numpy()
    missing = column.isna().to_numpy()
    present = values[~missing]
    for kind in set(map(type, present)):
        if not issubclass(kind, READABLE_TYPES):
            row = next(row for row, value in enumerate(values) if type(value) is kind)
            raise InputError(
                f"Column '{column.name}', data row {row + 1}: an entry of type {kind.__name__} is neither a number, "
                f"a date nor a text. Convert the column, or {LEAVE_OUT}."
            )
    if present.size and all(isinstance(value, bool | np.bool_) for value in present):
        present = present.astype(int)  # true/false with gaps arrives as objects
    texts = np.full(len(values), MISSING, dtype=object)
    texts[~missing] = [_text(value) for value in present]
    return texts


def parse_numbers(texts: Texts) -> NDArray[np.float64]:
    """Each text as a number; NaN where it is missing or is no number."""
    return np.asarray(pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce"), dtype=np.float64)


def to_finite_numbers(column: pd.Series, advice: str) -> NDArray[np.float64]:
    """The entries as numbers, none of them missing or infinite; `advice` ends the message about a text among them."""
    if holds_numbers(column):
        values = to_numbers(column)
        missing = np.isnan(values)
    else:
        texts = to_texts(column)
        values, missing = parse_numbers(texts), texts == MISSING
        refuse_unreadable(column.name, texts, np.isnan(values) & ~missing, "number", advice)
    refuse_missing(column.name, missing, np.isinf(values))
    return values


def refuse_unreadable(name: object, texts: Texts, unreadable: NDArray[np.bool_], wanted: str, advice: str) -> None:
    """Raise for the first text that is not what its column holds; `wanted` is "number" or "date"."""
    if not unreadable.any():
        return
    row = int(np.flatnonzero(unreadable)[0])
    others = int(unreadable.sum()) - 1
    more = f" ({pluralise(others, 'more such entry', 'more such entries')} below)" if others else ""
    raise InputError(f"Column '{name}', data row {row + 1}: {texts[row]!r} is not a {wanted}{more}. {advice}")


def refuse_missing(name: object, missing: NDArray[np.bool_], infinite: NDArray[np.bool_] | None = None) -> None:
    """Raise when an entry is missing or infinite, naming the column, how many, and the first data row."""
    for wrong, word in ((missing, "missing"), (infinite, "infinite")):
        if wrong is not None and wrong.any():
            count, row = int(wrong.sum()), int(np.flatnonzero(wrong)[0]) + 1
            where = f"in data row {row}" if count == 1 else f"the first in data row {row}"
            raise InputError(
                f"Column '{name}' has {pluralise(count, f'{word} entry', f'{word} entries')}, {where}. "
                "Drop the rows concerned or fill the entries in."
            )


def _text(value: object) -> str:
    # A category 1 that met a gap on its way here is 1.0 now; it is the same category.
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    text = str(value).strip()
    return MISSING if text.lower() in MISSING_MARKS else text
