"""What is wrong with docs/papers.md and its rows, and what they lack.

Wrong is what a number cannot be shown with: no date, one that is still to come, no machine, no state of the code, a
number that is not finite, a file that is missing or broken. Old or not yet measured is no mistake.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import re
import shlex
from collections.abc import Iterable, Iterator

from benchmarks.machine import now, read_date
from benchmarks.papers.files import HERE, ROOT, BrokenFileError, Place, load
from benchmarks.papers.history import NOT_KNOWN, date_of_head, knows_age
from benchmarks.papers.page import write_page
from benchmarks.papers.read import (
    NOT_MEASURED,
    Measurement,
    age,
    count_without_code,
    depth_of,
    lacks_picture,
    measurements,
    state,
    walk,
)
from benchmarks.papers.row import PAPERS, Row
from benchmarks.papers.rows import ROWS

AGAIN = "take it out of the file, and make paper measures it again"
OLD = re.compile(r" \*\*[^*]*lder than the code\*\* \([^)]*\)\.| \((?:partly )?old\)")
OTHERS = ("codes.json", "unchanged.json", "pictures.json")  # files that no row names


def find_broken_files(rows: Iterable[Row], place: Place = HERE) -> list[str]:
    """Return which files are no JSON: of what else there is, nothing can be said then."""
    found = []
    for file in sorted({file for row in rows for file in files_of(row)} | set(OTHERS)):
        try:
            load(file, place)
        except BrokenFileError as error:
            found.append(str(error))
    return found


def files_of(row: Row) -> set[str]:
    """Return the files of results that a row names."""
    return {f.mercer.file for f in row.figures if f.mercer} | {source.file for source in row.sources}


def row_problems(row: Row, place: Place = HERE) -> Iterator[str]:
    """Yield what is wrong with one row."""
    if row.paper not in PAPERS:
        yield f"there is no paper {row.paper}"
    if not row.figures and not row.library:
        yield "neither a number nor where it is in the library"
    if row.figures and not (row.commands and row.time and row.sources and row.parts):
        yield "figures, but no command, time, source or part of the package"
    for name in sorted(files_of(row)):
        if load(name, place) is None:
            yield f"benchmarks/results/{name} does not exist"
    for part in row.parts:
        if not (ROOT / part).exists():
            yield f"it measures {part}, which does not exist"
    for command in row.commands:
        module = shlex.split(command)[2]
        if importlib.util.find_spec(module) is None:
            yield f"there is no {module}"
    yield from number_problems(row, place)
    for source in row.sources:
        for each in measurements(source, place):
            yield from proof_problems(each)


def number_problems(row: Row, place: Place = HERE) -> Iterator[str]:
    """Yield which numbers are not finite, and which are of no source, so that nothing says when they were measured."""
    for reading in (figure.mercer for figure in row.figures if figure.mercer):
        sources = [source for source in row.sources if source.file == reading.file]
        known = {each.labels for source in sources for each in measurements(source, place)}
        depths = {depth_of(source) for source in sources}
        for labels, number in walk(load(reading.file, place), reading.path):
            if not isinstance(number, int | float):
                continue
            name = " ".join([reading.file, *(label for label in labels if label != "results")])
            if not math.isfinite(number):
                yield f"{name} is {number}, no finite number: {AGAIN}"
            if not any(labels[:depth] in known for depth in depths):
                yield f"{name} is of no source of the row: nothing says when it was measured"


def proof_problems(found: Measurement) -> Iterator[str]:
    """Yield what a measurement lacks without which its number proves nothing."""
    missing = [
        *([] if is_date(found.date) else ["date"]),
        *([] if all(found.machine) else ["machine"]),
        *([] if found.code else ["state of the code"]),
    ]
    if missing:
        yield f"{found.name} has no {', no '.join(missing)}: {AGAIN}"
    elif found.date > latest()[: len(found.date)]:
        yield f"{found.name} has the date {found.date}, which is still to come: {AGAIN}"


def is_date(text: str) -> bool:
    """Tell whether a text is a date that there is."""
    try:
        return bool(read_date(text))
    except argparse.ArgumentTypeError:
        return False


def latest() -> str:
    """Return the time after which nothing can have been measured: now, or the newest commit if the clock is behind."""
    return max(now(), date_of_head())


def find_lacks(row: Row, place: Place = HERE) -> list[str]:
    """Return what a row lacks: measurements, or young ones, their state of the code, a picture of them."""
    measured = state(row, place) != NOT_MEASURED
    without = count_without_code(row.sources, place)
    count = sum(len(measurements(source, place)) for source in row.sources)
    return [
        *([] if state(row, place) in ("measured", "in the library") else [state(row, place)]),
        *([age(row, place)] if age(row, place) else []),
        *([f"code not kept of {without} of {count} measurements"] if without else []),
        *([f"{row.picture} older than the numbers"] if measured and lacks_picture(row, place) else []),
    ]


def cut_to_difference(one: str, other: str, before: int = 20, length: int = 80) -> tuple[str, str]:
    """Return two lines from shortly before the place where they differ."""
    same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, same - before)
    return one[start : start + length], other[start : start + length]


def problems(place: Place = HERE) -> list[str]:
    """Return what is wrong with the rows and the page; that a result is old is said there and is no problem."""
    found, page = find_broken_files(ROWS, place), place.page
    if found:
        return found
    items = [row.item for row in ROWS]
    found += [f"{item}: twice" for item in sorted({item for item in items if items.count(item) > 1})]
    for row in ROWS:
        found += [f"{row.item}: {problem}" for problem in row_problems(row, place)]
    if not page.exists():
        return [*found, f"{page.name} is not there: python -m benchmarks.papers --write"]
    kept, made = (OLD.sub("", text).splitlines() for text in (page.read_text(encoding="utf-8"), write_page(place)))
    differing = [(a, b) for a, b in zip(kept, made, strict=False) if a != b]
    if differing or len(kept) != len(made):
        first = cut_to_difference(*differing[0]) if differing else (f"{len(kept)} lines", f"{len(made)} lines")
        found.append(
            f"{page.name} differs from the files, at first {first[0]!r}, by them {first[1]!r}: "
            "python -m benchmarks.papers --write"
        )
    return found


def check(place: Place = HERE) -> int:
    """Print what is wrong, and what is old or missing; return 1 where something is wrong."""
    found = problems(place)
    print("\n".join(found), end="\n" if found else "")
    if not find_broken_files(ROWS, place):
        print("\n".join(f"{row.item}: {', '.join(lacks)}" for row in ROWS if (lacks := find_lacks(row, place))))
    if not knows_age():
        print(NOT_KNOWN)
    return 1 if found else 0
