"""Column names: text, stripped, unique; and how messages list and suggest them."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence

import pandas as pd

from mercer.errors import InputError

SHOWN_AT_MOST = 12


def quote(names: Iterable[str]) -> str:
    """'a', 'b' and so on; a long list is cut and says so."""
    return list_names(repr(name) for name in names)


def list_names(names: Iterable[str]) -> str:
    """The same without quotation marks."""
    every = list(names)
    shown = ", ".join(every[:SHOWN_AT_MOST])
    hidden = len(every) - SHOWN_AT_MOST
    return f"{shown} and {hidden} more" if hidden > 0 else shown


def pluralise(number: int, singular: str, plural: str | None = None) -> str:
    """'1 entry' or '3 entries'."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def suggest(name: str, known: Sequence[str]) -> str:
    """A leading-space sentence " Did you mean 'month'?", or nothing when no known name is close."""
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), list(by_lower_case), n=3, cutoff=0.6)
    if not close:
        return ""
    return f" Did you mean {' or '.join(repr(by_lower_case[match]) for match in close)}?"


def refuse_unknown_target(target: str, names: Sequence[str]) -> None:
    """Raise where a table has no column of the target's name."""
    if target not in names:
        raise InputError(
            f"There is no target column '{target}'; the columns are {quote(names) or 'none'}.{suggest(target, names)}",
            about="target",
        )


def clean_names(names: Iterable[object], source: str) -> list[str]:
    """The names as stripped text; two columns of one name are an error. `source` starts the message."""
    cleaned = [str(name).strip() for name in names]
    repeated = sorted(name for name, count in Counter(cleaned).items() if count > 1)
    if repeated:
        raise InputError(
            f"{source} has more than one column named {quote(repeated)}. Column names must differ: rename the "
            "extra ones. (If the first line of your file is data, add a line of column names above it.)"
        )
    return cleaned


def clean_columns(frame: pd.DataFrame, source: str = "The table") -> pd.DataFrame:
    """The same table under its clean names; anything but a pandas table is an error."""
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"{source} must be a pandas DataFrame with named columns, not {type(frame).__name__}.")
    return frame.set_axis(clean_names(frame.columns, source), axis=1)
