"""What the rows of docs/papers.md have in benchmarks/results: numbers, circumstances, what is missing and what is old.

Both the page and the runs read here, so that after a run both see the same.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.machine import CODE
from benchmarks.papers import pictures
from benchmarks.papers.files import HERE, Place, load
from benchmarks.papers.history import last_change
from benchmarks.papers.row import DESCRIBED, Reading, Row, Source
from benchmarks.papers.unchanged import same_commits

NOT_MEASURED = "not measured"
NOT_KEPT = "not kept"  # what stands in files of results for the state of the code of early measurements
DATE = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d)?")

Labels = tuple[str, ...]


# ------------------------------------------------------------------------------------------------------------- numbers


def find(data: Any, path: str) -> list[Any]:
    """Return everything at a path: keys with * patterns, [key=value&...] and [number] for lists, | between them."""
    return [value for _, value in walk(data, path)]


def walk(data: Any, path: str) -> list[tuple[Labels, Any]]:
    """Return everything at a path, each with its own keys, and its places in lists."""
    found: list[tuple[Labels, Any]] = [((), data)]
    for key in path.split("|"):
        found = [((*labels, label), each) for labels, one in found for label, each in _step(one, key)]
    return found


def _step(data: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(data, list) and key.startswith("["):
        inside = key[1:-1]
        if "=" not in inside:
            number = int(inside)
            if -len(data) <= number < len(data):
                yield f"[{number}]", data[number]
            return
        wanted = dict(part.split("=") for part in inside.split("&"))
        for place, each in enumerate(data):
            if all(fnmatch.fnmatchcase(str(each.get(name)), value) for name, value in wanted.items()):
                yield f"[{place}]", each
    elif isinstance(data, dict):
        if key in data:
            yield key, data[key]
        elif any(sign in key for sign in "*?["):
            yield from ((name, value) for name, value in data.items() if fnmatch.fnmatchcase(name, key))


def numbers_at(reading: Reading, place: Place = HERE) -> np.ndarray[Any, Any]:
    """Return the numbers that a figure is made of."""
    found = [value for value in find(load(reading.file, place), reading.path) if isinstance(value, int | float)]
    return np.array(found, dtype=float) * (100.0 if reading.statistic.startswith("percent") else 1.0)


def average(reading: Reading, place: Place = HERE) -> float:
    """Return their mean, or median."""
    numbers = numbers_at(reading, place)
    return float(np.median(numbers) if reading.statistic == "median" else numbers.mean())


# ------------------------------------------------------------------------------------------------------- circumstances


@dataclass(frozen=True)
class Measurement:
    """One measurement of a source, and what it was kept with; "" for what it was not."""

    file: str
    labels: Labels
    date: str
    machine: tuple[str, ...]
    code: str

    @property
    def name(self) -> str:
        return " ".join([self.file, *(label for label in self.labels if label != "results")])


def depth_of(source: Source) -> int:
    """Return how many keys lead to one measurement: those before its date, and before a description of the machine."""
    keys = source.date.split("|")
    while keys[-1] in ("date", DESCRIBED):
        keys.pop()
    return len(keys)


def measurements(source: Source, place: Place = HERE) -> list[Measurement]:
    """Return all measurements of a source."""
    depth = depth_of(source)

    def read_text(found: Any, path: str, line: str) -> str:
        return short_text(find(found, "|".join(path.split("|")[depth:])), line) if path else ""

    entries = walk(load(source.file, place), "|".join(source.date.split("|")[:depth]))
    return [
        Measurement(
            source.file,
            labels,
            read_date_of(find(found, "|".join(source.date.split("|")[depth:]))),
            tuple(read_text(found, path, "processor") for path in source.machine),
            read_text(found, source.code, CODE),
        )
        for labels, found in entries
    ]


def short_text(values: list[Any], line: str) -> str:
    """Return the first value as a short text; of a description in lines, the line that begins so; "" for none."""
    for value in values:
        lines = [each for each in value if each.startswith(line)] if isinstance(value, list) else [value]
        for each in lines:
            return "" if each is None else str(each).removeprefix(line).split(";")[0].strip()[:60]
    return ""


def read_date_of(values: list[Any]) -> str:
    """Return the date that stands in the first value, or in its lines; "" for none."""
    for value in values:
        found = DATE.search(" ".join(map(str, value)) if isinstance(value, list) else str(value))
        return found[0] if found is not None else ""
    return ""


def dates(source: Source, place: Place = HERE) -> list[str]:
    """Return the dates of a source, the earliest first."""
    return sorted(each.date for each in measurements(source, place) if each.date)


def count_without_code(sources: Sequence[Source], place: Place = HERE) -> int:
    """Return of how many measurements the state of the code was not kept."""
    return sum(each.code in ("", NOT_KEPT) for source in sources for each in measurements(source, place))


def read_codes(source: Source, place: Place = HERE) -> list[str]:
    """Return the state of the code of all measurements of a source that have it."""
    return [each.code for each in measurements(source, place) if each.code not in ("", NOT_KEPT)]


# ----------------------------------------------------------------------------------------------- what is there, and old


def last_change_of(row: Row, source: Source, place: Place = HERE) -> str:
    """Return when what a source measures last changed."""
    parts = source.parts or row.parts
    same = same_commits(source.file, source.alike or source.cells, place.unchanged) if parts else frozenset[str]()
    return last_change(parts, same=same) if parts else ""


def count_old(row: Row, older: str = "", place: Place = HERE) -> tuple[int, int]:
    """Return how many of a row's measurements are older than a date, or than what they measure, and of how many."""
    found = [
        (each.date, older or last_change_of(row, source, place))
        for source in row.sources
        for each in measurements(source, place)
    ]
    return sum(date < changed for date, changed in found), len(found)


def newest_date(row: Row, place: Place = HERE) -> str:
    """Return when the last of a row's measurements was made; "" where there is none."""
    return max((date for source in row.sources for date in dates(source, place)), default="")


def lacks_picture(row: Row, place: Place = HERE) -> bool:
    """Tell whether a row's picture is missing, or older than its numbers."""
    return bool(row.picture) and not pictures.is_drawn(row.picture, newest_date(row, place), place)


def is_whole(row: Row, older: str = "", place: Place = HERE) -> bool:
    """Tell whether nothing of a row is missing or old."""
    return state(row, place) == "measured" and not count_old(row, older, place)[0] and not lacks_picture(row, place)


def age(row: Row, place: Place = HERE) -> str:
    """Return "old" or "partly old"; "" where nothing is older than the code."""
    old, count = count_old(row, place=place)
    return "" if not old else "old" if old == count else "partly old"


def state(row: Row, place: Place = HERE) -> str:
    """Return whether a row is measured, in part or not at all; rows with nothing to measure are in the library."""
    if not row.figures:
        return "in the library"
    counts = [(len(numbers_at(f.mercer, place)), f.mercer.of) if f.mercer else (0, 1) for f in row.figures]
    if not any(count for count, _ in counts):
        return NOT_MEASURED
    whole = sum(count >= of for count, of in counts)
    return "measured" if whole == len(counts) else f"{whole} of {len(counts)} measured"
