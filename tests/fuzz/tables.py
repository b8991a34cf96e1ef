"""Tables on the command line: `mercer discover FILE --target y --kernel SE` on files with slips and worse."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from mercer.cli.main import execute
from tests.fuzz.judging import FindingError, Record, require_json

Rng = np.random.Generator
NAMES = ("x", "y", "date", "kind", r"$\frac{1}{0$", "$x$", "a" * 300, "", " ", "x", "ä", "😀", "x,1", 'q"q',
         "<b>", "{{x}}", "%d", "\\", "_x", "0", "SE", "a|b", "a\tb", "-", "x=1", "`", "&amp;")  # fmt: skip
CELLS = ("", "NA", "-", "?", "inf", "-inf", "nan", "1e308", "1e-308", "1e999", "1,5", "1.234,5", "$5", "5%", "(5)",
         "−5", "abc",
         "2001-01-01", "01/02/2003", "Mar-19", "2019Q3", "true", "#N/A", "9" * 40, "0x10", "1 000", "\0", "😀",
         '"', "=1+1")  # fmt: skip
SIZES = (1e-310, 1e-300, 1e-200, 1e-50, 1e-9, *[1.0] * 20, 1e9, 1e50, 1e120, 1e200, 1e308)


def run(record: Record, count: int, rng: Rng, folder: Path) -> None:
    """Judge this many tables."""
    for number in range(count):
        content, options, told = make_table(rng)
        file = folder / f"table{rng.choice(['.csv', '.csv', '.csv', '.txt', '.tsv'])}"
        file.write_bytes(content)
        arguments = ["discover", str(file), "--kernel", "SE", "--out", str(folder / "out"), *options]
        record.judge(number, f"{told} {options}", lambda arguments=arguments: discover(arguments))


def discover(arguments: list[str]) -> str:
    """Run the command; it ends with 0 or 2, and with sentences."""
    code, out, err = run_command([*arguments, "--json"])
    document = json.loads(out)
    if code == 0:
        require_json("the result", document)
        return "exit code 0"
    if code != 2 or not document["error"].strip() or "Traceback" in err + out:
        raise FindingError(f"exit code {code}: {document}")
    return "exit code 2"


def run_command(arguments: list[str]) -> tuple[int, str, str]:
    """Return the exit code of a command and what it said."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = execute(arguments)
    return code, out.getvalue(), err.getvalue()


def make_table(rng: Rng) -> tuple[bytes, list[str], str]:
    """Return the bytes of a file, options, and what it is."""
    kind = rng.random()
    if kind < 0.06:
        return bytes(rng.integers(0, 256, int(rng.integers(0, 400))).astype(np.uint8)), ["--target", "y"], "bytes"
    rows, columns = int(rng.choice([0, 1, 2, 3, 6, 15, 15, 30, 30])), int(rng.choice([1, 2, 2, 3, 5]))
    names = [str(rng.choice(NAMES)) if rng.random() < 0.25 else f"c{d}" for d in range(columns)]
    target = "y" if rng.random() < 0.9 else str(rng.choice(NAMES))
    names[int(rng.integers(0, columns))] = target
    parts = [make_column(rng, rows) for _ in names]
    separator = str(rng.choice([",", ",", ";", "\t", "|"]))
    quote = '"' if rng.random() < 0.5 else ""
    lines = [separator.join(_quote(name, separator) for name in names)]
    lines += [separator.join(f"{quote}{part[row]}{quote}" for part in parts) for row in range(rows)]
    for _ in range(int(rng.choice([*[0] * 7, 1, 2]))):
        place = int(rng.integers(0, len(lines) + 1))
        lines.insert(place, str(rng.choice(["", "# note", "Total,,,", separator * 9, "a", "1;2;3;4;5", '"open'])))
    text = str(rng.choice(["\n", "\r\n"])).join(lines)
    encoding = str(rng.choice(["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "cp1252"]))
    content = text.encode(encoding, errors="replace")
    if rng.random() < 0.05:
        content = content[: int(rng.integers(0, len(content) + 1))]
    return content, ["--target", target, *make_options(rng, names)], f"{rows} x {columns} {encoding} {names!r:.120}"


def _quote(name: str, separator: str) -> str:
    return '"' + name.replace('"', '""') + '"' if separator in name or '"' in name else name


def make_column(rng: Rng, rows: int) -> list[str]:
    """Return the cells of a column: numbers of one size, dates, categories, or anything; with slips."""
    kind = rng.random()
    size = float(rng.choice(SIZES))
    cells: list[Any]
    with np.errstate(over="ignore"):
        if kind < 0.6:
            cells = [f"{value:.6g}" for value in rng.normal(size=rows) * size]
        elif kind < 0.7:
            cells = [str(np.datetime64("2001-01-01") + int(day)) for day in np.arange(rows) * int(rng.integers(0, 40))]
        elif kind < 0.8:
            cells = [str(rng.choice(["a", "b", "c"])) for _ in range(rows)]
        elif kind < 0.97:
            cells = [str(int(value)) for value in rng.integers(0, 5, rows)]
        else:
            cells = [str(rng.choice(CELLS)) for _ in range(rows)]
    for _ in range(int(rng.choice([*[0] * 8, 1, 2])) if rows else 0):
        cells[int(rng.integers(0, rows))] = str(rng.choice(CELLS))
    return cells


def make_options(rng: Rng, names: list[str]) -> list[str]:
    """Return options, mostly none."""
    some: list[list[str]] = [
        ["--seed", "12345678901234567890"], ["--seed", "-1"], ["--inputs", names[0]], ["--exclude", names[0]],
        ["--missing", "fail"], ["--decimal", ","], ["--decimal", "x"], ["--day-first"], ["--type", "c0=date"],
        ["--type", "c0=number"], ["--type", "zz"], ["--header", "2"], ["--separator", "ab"], ["--encoding", "none"],
        ["--keep-rows"], ["--inputs", '"'], ["--sheet", "1"], ["--jobs", "0"], ["--task", "x"],
    ]  # fmt: skip
    return some[int(rng.integers(0, len(some)))] if rng.random() < 0.25 else []
