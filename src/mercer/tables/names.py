"""Column names: text, stripped, unique."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pandas as pd

from mercer.errors import InputError
from mercer.tables.wording import quoted


def clean_names(names: Iterable[object], source: str) -> list[str]:
    """The names as stripped text; two columns of one name are an error. `source` starts the message."""
    cleaned = [str(name).strip() for name in names]
    repeated = sorted(name for name, count in Counter(cleaned).items() if count > 1)
    if repeated:
        raise InputError(
            f"{source} has more than one column named {quoted(repeated)}. Column names must differ: rename the "
            "extra ones. (If the first line of your file is data, add a line of column names above it.)"
        )
    return cleaned


def with_clean_names(frame: pd.DataFrame, source: str = "The table") -> pd.DataFrame:
    """The same table under its clean names; anything but a pandas table is an error."""
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"{source} must be a pandas DataFrame with named columns, not {type(frame).__name__}.")
    return frame.set_axis(clean_names(frame.columns, source), axis=1)
