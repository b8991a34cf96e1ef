"""Which columns and rows of a table can be learned from: identifiers, columns that never change and rows with missing
entries are left out, and said so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mercer.errors import InputError
from mercer.tables.columns import ROWS_FOR_IDENTIFIERS, refuse_missing
from mercer.tables.dates import parse_date
from mercer.tables.decisions import Decision
from mercer.tables.names import quote, suggest

IDENTIFIER_WORDS = {"id", "ids", "no", "nr", "num", "number", "nummer", "key", "uuid", "code", "serial", "index"}
LEAST_ROWS = 5  # fewer texts may all differ and be categories
LEAST_LEFT = 2


def exclude_columns(table: pd.DataFrame, target: str, exclude: Sequence[str]) -> tuple[pd.DataFrame, list[Decision]]:
    """Return the table without the columns that the user does not want."""
    names = list(table.columns)
    for name in exclude:
        if name not in names:
            raise InputError(
                f"--exclude: there is no column '{name}'; the columns are {quote(names)}.{suggest(name, names)}",
                about="inputs",
            )
    if target in exclude:
        raise InputError(
            f"--exclude names the target '{target}' itself. Remove it there, or choose another target.", about="inputs"
        )
    return table.drop(columns=list(exclude)), [Decision("excluded", columns=tuple(exclude))] if exclude else []


def select_columns(inputs: pd.DataFrame, chosen: bool) -> tuple[pd.DataFrame, list[Decision]]:
    """Leave out input columns that tell nothing; those that the user has `chosen` may be identifiers."""
    found: dict[str, list[str]] = {}
    for name in inputs.columns:
        column = inputs[name]
        kind = ""
        if find_missing(column).all():
            kind = "empty"
        elif column.nunique() == 1:
            kind = "constant"
        elif not chosen:
            kind = _judge(str(name), column)
        if kind:
            found.setdefault(kind, []).append(str(name))
    left = [name for name in inputs.columns if not any(name in names for names in found.values())]
    if not left and set(found) <= {"constant"}:
        return inputs, []  # the learner refuses them together
    if not left:
        raise InputError(
            f"No input column is left: {'; '.join(f'{quote(names)} {WHY[kind]}' for kind, names in found.items())}. "
            "Name columns with --inputs to use them all the same.",
            about="inputs",
        )
    return inputs[left], [Decision(kind, columns=tuple(names)) for kind, names in found.items()]


WHY = {
    "empty": "have no entries", "constant": "never change", "identifiers": "hold identifiers",
    "free text": "hold texts that hardly repeat",
}  # fmt: skip


def _judge(name: str, column: pd.Series) -> str:
    """Return "identifiers", "free text" or nothing."""
    present = column[~find_missing(column)]
    different, rows = present.nunique(), len(present)
    if rows < LEAST_ROWS:
        return ""
    if column.dtype == object or isinstance(column.dtype, pd.StringDtype):
        if parse_date(str(present.iloc[0]), day_first=True)[0] is not None or not isinstance(present.iloc[0], str):
            return ""
        hardly_repeat = rows >= ROWS_FOR_IDENTIFIERS and 2 * different > rows
        if different == rows:
            return "identifiers"
        return "free text" if hardly_repeat else ""
    if not pd.api.types.is_numeric_dtype(column.dtype) or different < rows:
        return ""
    values = present.to_numpy(dtype=np.float64)
    words = {word.lower() for word in re.findall(r"[A-Z]?[a-zà-ÿ]+|[A-Z]+", name)}
    steps = np.diff(values)
    ordered = bool(np.all(steps > 0) or np.all(steps < 0))
    whole = bool(np.all(values == np.floor(values)))
    # every whole number of a range once, in no order: rows were numbered, then sorted by something else
    shuffled = rows >= ROWS_FOR_IDENTIFIERS and np.ptp(values) == rows - 1
    return "identifiers" if whole and not ordered and (words & IDENTIFIER_WORDS or shuffled) else ""


def find_missing(column: pd.Series) -> NDArray[np.bool_]:
    """Tell which entries are missing: no value, or an empty text."""
    missing = column.isna().to_numpy(dtype=bool)
    if column.dtype == object or isinstance(column.dtype, pd.StringDtype):
        missing = missing | np.array([isinstance(entry, str) and not entry.strip() for entry in column], dtype=bool)
    return missing


def find_complete_rows(
    inputs: pd.DataFrame, refuse: bool = False, least: int = LEAST_LEFT
) -> tuple[NDArray[np.bool_], list[Decision]]:
    """Tell which rows have an entry in every column; with `refuse`, a row that has not is an error."""
    missing = {str(name): find_missing(inputs[name]) for name in inputs.columns}
    gaps = {name: absent for name, absent in missing.items() if absent.any()}
    complete = np.ones(len(inputs), dtype=bool)
    for name, absent in gaps.items():
        if refuse:
            refuse_missing(name, absent)
        complete &= ~absent
    if not gaps:
        return complete, []
    left = int(complete.sum())
    if left < min(least, len(inputs)):
        worst = max(gaps, key=lambda name: int(gaps[name].sum()))
        raise InputError(
            f"Only {left} of {len(inputs)} rows have an entry in every input column; '{worst}' has none in "
            f"{int(gaps[worst].sum())} of them. Leave it out with --exclude, or fill the entries in.",
            about="inputs",
        )
    return complete, [Decision("missing rows", str(len(inputs)), tuple(gaps), len(inputs) - left)]
