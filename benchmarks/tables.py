"""How many of 150 table files are read right: `python -m benchmarks.tables` (`make bench-tables`).

The files are those of `benchmarks.table_files`, whose values are known before they are written. A file is read right
when the names, every number, date and text, and the decisions that the notes tell are those that were meant; it may be
refused with an `InputError` that names what to do; anything else is read wrong.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import machine
from benchmarks.table_files import DATES, NUMBERS, REFUSED, KnownColumn, KnownTable, make_tables
from mercer.errors import InputError
from mercer.tables import Encoding, LoadedTable, ReadOptions, read
from mercer.tables.decisions import describe

RESULTS = Path(__file__).parent / "results" / "tables.md"
FORMS = ("numbers", "dates", "missing", "third", "layout", "file")
ADVICE = ("--", "save", "write", "correct", "add ", "convert")  # a refusal says what to do


def judge(table: KnownTable, folder: Path) -> tuple[str, str]:
    """Read one file; return "right", "refused" or "wrong", and why."""
    try:
        reading = open_table(table, folder)
        texts = [describe(decision) for decision in reading.decisions]
    except InputError as refusal:
        advised = any(word in str(refusal).lower() for word in ADVICE)
        return ("refused" if advised else "wrong"), str(refusal)
    if table.outcome == REFUSED:
        return "wrong", "read in one of two ways without a word"
    problems = compare(table, reading)
    if not all(texts):
        problems.append("a decision without a sentence")
    return ("wrong", "; ".join(problems)) if problems else ("right", "")


def open_table(table: KnownTable, folder: Path) -> LoadedTable:
    """Write the file and read it; or give it as standard input."""
    options = ReadOptions(**table.options)
    if not table.piped:
        file = folder / f"table-{table.number}{table.ending}"
        file.write_bytes(table.content)
        return read(file, options)
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(table.content))
    try:
        return read("-", options)
    finally:
        sys.stdin = before


def compare(table: KnownTable, reading: LoadedTable) -> list[str]:
    """Return what differs from what was meant."""
    names = [column.name for column in table.columns]
    if list(reading.frame.columns) != names:
        return [f"columns {list(reading.frame.columns)}, not {names}"]
    rows = len(table.columns[0].values)
    if len(reading.frame) != rows:
        return [f"{len(reading.frame)} rows, not {rows}"]
    problems = [problem for column in table.columns if (problem := compare_column(column, reading.frame[column.name]))]
    found = {decision.kind for decision in reading.decisions}
    if found != table.decisions:
        absent, more = sorted(table.decisions - found), sorted(found - table.decisions)
        problems.append(f"decisions: {absent} not made, {more} not asked for")
    return problems


def compare_column(known: KnownColumn, column: pd.Series) -> str:
    """Return what is wrong with a column, or nothing."""
    if known.kind == NUMBERS:
        if not pd.api.types.is_numeric_dtype(column.dtype):
            return f"'{known.name}' is no column of numbers ({column.dtype}, {column.iloc[0]!r})"
        values, meant = column.to_numpy(dtype=float), np.array(known.values)
        wrong = ~np.isclose(values, meant, rtol=1e-12, atol=0, equal_nan=True)
    elif known.kind == DATES:
        learned = Encoding.learn(column.to_frame()).columns[0]
        if learned.kind != "date":
            return f"'{known.name}' is no column of dates ({column.dtype}, {column.iloc[0]!r})"
        values, meant = read_moments(column), [moment.isoformat() for moment in known.values]
        wrong = np.array([one != other for one, other in zip(values, meant, strict=True)])
    else:
        values, meant = list(column), list(known.values)
        wrong = np.array([str(one) != other for one, other in zip(values, meant, strict=True)])
    if not wrong.any():
        return ""
    row = int(np.flatnonzero(wrong)[0])
    return f"'{known.name}', row {row + 1}: {values[row]!r}, not {meant[row]!r} ({wrong.sum()} such)"


def read_moments(column: pd.Series) -> list[str]:
    """Return dates as ISO texts with the zone that they have."""
    if column.dtype == object or isinstance(column.dtype, pd.StringDtype):
        return [pd.Timestamp(text).isoformat() for text in column]
    return [moment.isoformat() for moment in column]


def tabulate(outcomes: list[tuple[KnownTable, str, str]], seconds: float, described: dict[str, Any]) -> str:
    """Return the page of results."""
    counts = Counter(outcome for _, outcome, _ in outcomes)
    lines = [
        "# Tables as people keep them",
        "",
        f"`make bench-tables`: {len(outcomes)} files made by `benchmarks/table_files.py`, whose values are known",
        "before they are written. Every form of numbers, dates, missing entries, rows around the table and files comes",
        "equally often, in combinations by chance (one seed). Right: names, every value and every decision that the",
        "notes tell are those that were meant. Of the last four files two can be read in two ways and must be refused;",
        "the other two are the same with the option that says how.",
        "",
        "Asked: 148 of 150 read right, the rest refused with a sentence that says what to do, none read wrong. Read:",
        f"**{counts['right']} right, {counts['refused']} refused, {counts['wrong']} wrong**, in {seconds:.1f} s.",
        "",
        "```text",
        *machine.lines(described),
        "```",
        "",
    ]
    others = [(table, outcome, why) for table, outcome, why in outcomes if outcome != "right"]
    if others:
        lines += ["## Not read", "", "| file | numbers | dates | layout | container | outcome | why |"]
        lines.append("|" + "---|" * 7)
        for table, outcome, why in others:
            forms = " | ".join(_escape(table.forms[form]) for form in ("numbers", "dates", "layout", "file"))
            lines.append(f"| {table.number} | {forms} | {outcome} | {_escape(why)} |")
        lines.append("")
    lines += ["## By form", "", "| what | form | files | right |", "|---|---|---|---|"]
    for what in FORMS:
        for form in dict.fromkeys(table.forms[what] for table, _, _ in outcomes):
            those = [outcome for table, outcome, _ in outcomes if table.forms[what] == form]
            lines.append(f"| {what} | {_escape(form)} | {len(those)} | {those.count('right')} |")
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main() -> None:
    """Judge all files, print what is not right, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    described, started = machine.describe(), time.perf_counter()
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        for table in make_tables(asked.count, asked.seed):
            outcome, why = judge(table, Path(folder))
            outcomes.append((table, outcome, why))
            if outcome != "right":
                print(f"{table.number:4} {outcome}: {why}\n     {table.forms}")
    page = tabulate(outcomes, time.perf_counter() - started, described)
    asked.out.write_text(page, encoding="utf-8")
    print(Counter(outcome for _, outcome, _ in outcomes))


if __name__ == "__main__":
    main()
