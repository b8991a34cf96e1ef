"""Turns of phrase shared by the messages of this room."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

SHOWN_AT_MOST = 12


def quoted(names: Iterable[str]) -> str:
    """'a', 'b' and so on; a long list is cut and says so."""
    return listed(repr(name) for name in names)


def listed(names: Iterable[str]) -> str:
    """The same without quotation marks."""
    every = list(names)
    shown = ", ".join(every[:SHOWN_AT_MOST])
    hidden = len(every) - SHOWN_AT_MOST
    return f"{shown} and {hidden} more" if hidden > 0 else shown


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """'1 entry' or '3 entries'."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def suggestion(name: str, known: Sequence[str]) -> str:
    """A leading-space sentence " Did you mean 'month'?", or nothing when no known name is close."""
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), list(by_lower_case), n=3, cutoff=0.6)
    if not close:
        return ""
    return f" Did you mean {' or '.join(repr(by_lower_case[match]) for match in close)}?"
