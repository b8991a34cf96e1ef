"""What was decided about a user's file, as data; and the sentence for each, with the option that decides otherwise."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from mercer.tables.names import pluralise, quote


@dataclass(frozen=True)
class Decision:
    """One decision: its kind, what was decided, the columns it holds for, and how many rows or entries there are."""

    kind: str
    value: str = ""
    columns: tuple[str, ...] = ()
    count: int = 0


def _was(decision: Decision) -> str:
    return "was" if decision.count == 1 else "were"


def _say_rows(decision: Decision, what: str, where: str) -> str:
    rows = pluralise(decision.count, f"row of {what}", f"rows of {what}")
    return f"{rows} {where} ({decision.value}) {_was(decision)} left out"


def _say_columns(decision: Decision) -> str:
    return f"column{'s' if len(decision.columns) > 1 else ''} {quote(decision.columns)}"


WORDS: dict[str, Callable[[Decision], str]] = {
    "encoding": lambda d: f"the file is not UTF-8 and was read as {d.value}",
    "separator": lambda d: f"fields are separated by {d.value}s",
    "sheet": lambda d: f"of {d.count} sheets {d.value!r} was read",
    "titles": lambda d: _say_rows(d, "text", "above the column names"),
    "comments": lambda d: _say_rows(d, "comment", "around the data"),
    "units": lambda d: _say_rows(d, "units", "below the column names"),
    "totals": lambda d: _say_rows(d, "totals", "among the data"),
    "footnotes": lambda d: _say_rows(d, "text", "below the data"),
    "repeated names": lambda d: _say_rows(d, "column names", "among the data"),
    "decimal": lambda d: f"decimal commas were read as decimal points (1,5 is 1.5) in {quote(d.columns)}",
    "thousands": lambda d: f"thousands are set apart by {d.value} in {quote(d.columns)}",
    "currency": lambda d: f"the currency {d.value} was taken off in {quote(d.columns)}",
    "per cent": lambda d: f"{_say_columns(d)}: numbers are in per cent, 5 % is 5",
    "unit": lambda d: f"the unit {d.value} was taken off in {quote(d.columns)}",
    "clock": lambda d: f"{_say_columns(d)}: times without a date were read as hours, 10:30 is 10.5",
    "flags": lambda d: f"{_say_columns(d)}: true and false were read as 1 and 0",
    "minus": lambda d: f"{d.value} was read as minus in {quote(d.columns)}",
    "missing": lambda d: (
        f"{pluralise(d.count, 'entry', 'entries')} {d.value} of {_say_columns(d)} {_was(d)} read as missing"
    ),
    "nines": lambda d: (
        f"{_say_columns(d)}: {d.value} stands {d.count} times, far from all other entries, and was read as a number"
    ),
    "numbers": lambda d: f"{_say_columns(d)}: numbers written as text were read as numbers",
    "day order": lambda d: f"{_say_columns(d)}: the {d.value} comes first in dates such as 01/02/2019",
    "two-digit years": lambda d: f"{_say_columns(d)}: years of two digits were read as {d.value}",
    "seasons": lambda d: f"{_say_columns(d)}: {d.value} was read as the year that begins it",
    "years": lambda d: f"{_say_columns(d)}: whole numbers were read as years",
    "dates from digits": lambda d: f"{_say_columns(d)}: whole numbers such as {d.value} were read as dates",
    "dates from day numbers": lambda d: (
        f"{_say_columns(d)}: numbers such as {d.value} were read as dates, counted in days as spreadsheets do"
    ),
    "codes": lambda d: f"{_say_columns(d)}: entries such as {d.value} with leading zeros are codes, not numbers",
    "row numbers": lambda d: "the first column has no name and holds row numbers; it was left out",
    "no name": lambda d: f"column {d.count} has no name and is called '{d.value}'",
    "names of numbers": lambda d: (
        f"the line of column names looks like data ({d.value}); if it is, add a line of column names above it"
    ),
    "blank lines": lambda d: (
        f"{pluralise(d.count, 'blank line')} (the first is line {d.value}) {_was(d)} skipped, "
        'not read as a missing value; write "" or NA for one'
    ),
    "identifiers": lambda d: f"{_say_columns(d)}: another entry in every row, without order: identifiers; left out",
    "free text": lambda d: f"{_say_columns(d)}: texts that hardly repeat; left out",
    "constant": lambda d: f"{_say_columns(d)}: entries never change and tell nothing; left out",
    "empty": lambda d: f"{_say_columns(d)}: no entries; left out",
    "excluded": lambda d: f"{_say_columns(d)}: left out, as asked for",
    "missing rows": lambda d: (
        f"{d.count} of {d.value} rows {'has' if d.count == 1 else 'have'} no entry in {quote(d.columns)} and "
        f"{_was(d)} left out"
    ),
}
OTHERWISE = {  # the option that decides otherwise, by kind, or by kind and value
    "encoding": "--encoding", "separator": "--separator", "sheet": "--sheet", "titles": "--header",
    "comments": "--keep-rows", "units": "--keep-rows", "totals": "--keep-rows", "footnotes": "--keep-rows",
    "repeated names": "--keep-rows", "decimal": "--decimal .", "identifiers": "--inputs", "free text": "--inputs",
    "missing rows": "--missing fail", "two-digit years": "--first-year",
    ("thousands", "points"): "--decimal .", ("thousands", "commas"): "--decimal ,",
    ("day order", "day"): "--month-first", ("day order", "month"): "--day-first",
}  # fmt: skip
OTHER_KIND = {  # or that names the kind of the column
    "thousands": "text", "currency": "text", "per cent": "text", "unit": "text", "clock": "text", "flags": "text",
    "minus": "text", "missing": "text", "years": "number", "seasons": "text", "dates from digits": "number",
    "codes": "number",
    "dates from day numbers": "number",
}  # fmt: skip


def describe(decision: Decision) -> str:
    """Return the decision in one sentence, with the option that decides otherwise."""
    kind, value = decision.kind, decision.value
    option = OTHERWISE.get((kind, value)) or OTHERWISE.get(kind, "")
    if not option and kind in OTHER_KIND:
        name = f"{decision.columns[0]}={OTHER_KIND[kind]}"
        option = f"--type {shlex.quote(name)}"
    if kind == "nines":
        option = f"--na {value}, if it stands for a missing entry"
    return WORDS[kind](decision) + (f" (otherwise: {option})" if option else "")


def gather(decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """Join decisions that differ only in the columns; counts add up."""
    found: dict[tuple[str, str], Decision] = {}
    for one in decisions:
        key = one.kind, one.value
        if key in found and one.columns:
            before = found[key]
            one = replace(before, columns=before.columns + one.columns, count=before.count + one.count)
        found[key] = one
    return tuple(found.values())
