"""The papers, row by row: docs/papers.md from benchmarks/papers_rows.py and benchmarks/results, its check, its runs.

    python -m benchmarks.papers                        # what there is, and how old
    python -m benchmarks.papers --item nkn-table-1 --data FOLDER [--jobs 8] [--device cuda]
    python -m benchmarks.papers --write                # docs/papers.md from what is there
    python -m benchmarks.papers --check                # rows without a file, numbers that differ, what lacks or is old

A run measures what is missing or older than the code. It says how long it takes, can be stopped, and goes on where it
was with the same command.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import functools
import importlib.util
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import CODE, read_date
from benchmarks.papers_age import last_change
from benchmarks.papers_code import keep_commits, name_codes, read_commits
from benchmarks.papers_row import DESCRIBED, PAPERS, Figure, Reading, Row, Source
from benchmarks.papers_rows import ROWS
from benchmarks.papers_unchanged import same_commits

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "papers.md"
NOT_MEASURED = "not measured"
NOT_KEPT = "not kept"  # what stands in files of results for the state of the code of early measurements
STOPPED = 130  # the exit code after Ctrl-C
OLD = re.compile(r" \*\*[^*]*lder than the code\*\* \([^)]*\)\.| \((?:partly )?old\)")
MEASURED_BY = {  # the modules that leave out what is as young as --older says, by the file that they write
    "papers.json": "benchmarks.paper_cells",
    "nkn.json": "benchmarks.nkn",
    "kfo.json": "benchmarks.kfo",
    "discovery.json": "benchmarks.discovery",
    "recovery.json": "benchmarks.discovery",
    "optimise.json": "benchmarks.optimise",
    "surfaces.json": "benchmarks.surfaces",
    "textures.json": "benchmarks.textures",
}
SIGNS = {"lower": 1.0, "higher": -1.0}  # of a gain
CORES = {"cores": " cores"}  # what a path that ends so counts
DATE = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d)?")
FOLDERS = ("timeseries", "regression", "classification", "change", "textures")  # in the data folder
# parts of benchmarks that make their data: the folder that they are given is not read
MAKES_DATA = re.compile(r"benchmarks\.(?:discovery|kfo|nkn) .*--part (?:recovery|linear|synthetic|figure1)\b")

INTRODUCTION = """# The papers, row by row

Every algorithm, table, figure and named kernel of the papers that Mercer is built on: what the paper reports, what
Mercer gets, and why it differs where it does. `make paper ITEM=nkn-table-1 DATA=FOLDER` measures what a row lacks, or
has of older code (`OLDER=2027-01-01`: all that is older than that). It says how long that takes, can be stopped, and
goes on where it was. `make paper` alone lists the rows. DATA is the folder described in
[benchmarks](../benchmarks/README.md).

Settings as printed have a name: `GrammarSearch.paper()`, `NeuralKernelNetwork.paper()`, `KernelFunctional.paper()` and
`ChangeSurface.paper()`. Their docstrings name the sections and every deviation.

Numbers of Mercer come from files in [benchmarks/results](../benchmarks/results) and from nowhere else: this page is
written by `python -m benchmarks.papers --write`, and a test compares it with the files. With each row stand the dates,
the machines and the commits with the code that it was measured with; a hash alone is code that no commit has, and
"recorded by" names the commit that brought a measurement whose code was not kept. **Older than the code** says that the
part of Mercer it measures does something else since, by git: comments, code that only moved, and changes before and
after which a cell of the row is the same to the last digit ([unchanged.json](../benchmarks/results/unchanged.json)) do
not count. Behind a number made of several, such as splits, stands of how many; a dash is not measured. "a picture": the
paper prints no number.
"""


# ------------------------------------------------------------------------------------------------------------- reading


@functools.cache
def load(file: str) -> Any:
    """Return a file of results; None where there is none."""
    path = RESULTS / file
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def find(data: Any, path: str) -> list[Any]:
    """Return everything at a path: keys with * patterns, [key=value&...] and [number] for lists, | between them."""
    found = [data]
    for key in path.split("|"):
        found = [each for one in found for each in _step(one, key)]
    return found


def _step(data: Any, key: str) -> Iterator[Any]:
    if isinstance(data, list) and key.startswith("["):
        inside = key[1:-1]
        if "=" not in inside:
            number = int(inside)
            if -len(data) <= number < len(data):
                yield data[number]
            return
        wanted = dict(part.split("=") for part in inside.split("&"))
        for each in data:
            if all(fnmatch.fnmatchcase(str(each.get(name)), value) for name, value in wanted.items()):
                yield each
    elif isinstance(data, dict):
        if key in data:
            yield data[key]
        elif any(sign in key for sign in "*?"):
            yield from (value for name, value in data.items() if fnmatch.fnmatchcase(name, key))


def numbers_at(reading: Reading) -> np.ndarray[Any, Any]:
    """Return the numbers that a figure is made of."""
    found = [value for value in find(load(reading.file), reading.path) if isinstance(value, int | float)]
    return np.array(found, dtype=float) * (100.0 if reading.statistic.startswith("percent") else 1.0)


def average(reading: Reading) -> float:
    """Return their mean, or median."""
    numbers = numbers_at(reading)
    return float(np.median(numbers) if reading.statistic == "median" else numbers.mean())


def read(reading: Reading) -> str:
    """Return a number as the page shows it, with how many it was made of where these are several; "" for none."""
    numbers = numbers_at(reading)
    if not len(numbers):
        return ""
    text = show(average(reading), reading.digits)
    if "±" in reading.statistic and len(numbers) > 1:
        spread = float(numbers.std())
        spread = spread / math.sqrt(len(numbers)) if reading.statistic.endswith("se") else spread
        text += f" ± {show(spread, reading.digits)}"
    if len(numbers) < reading.of:
        return f"{text} ({len(numbers)} of {reading.of})"
    return text if len(numbers) == 1 else f"{text} ({len(numbers)})"


def show(number: float, digits: int) -> str:
    """Return a number with some decimals; one that would vanish with its order of magnitude."""
    if number != 0 and abs(number) < 0.5 * 10**-digits:
        return f"{number:.0e}"
    return f"{number:,.{min(digits, 1) if abs(number) >= 1000 else digits}f}"


def texts(source: Source, path: str, line: str = "processor") -> list[str]:
    """Return the values at a path of a source as short texts; of descriptions in lines, the line that begins so."""
    found = []
    for value in find(load(source.file), path) if path else []:
        lines = [each for each in value if each.startswith(line)] if isinstance(value, list) else [value]
        found += [str(each).removeprefix(line).split(";")[0].strip()[:60] for each in lines[:1]]
    return found


def dates(source: Source) -> list[str]:
    """Return the dates of a source, the earliest first; that of the whole file where its results have none."""
    values = find(load(source.file), source.date) or find(load(source.file), "machine|date")
    found = [DATE.search(" ".join(value) if isinstance(value, list) else str(value)) for value in values]
    return sorted(each[0] for each in found if each is not None)


def last_change_of(row: Row, source: Source) -> str:
    """Return when what a source measures last changed."""
    parts = source.parts or row.parts
    return last_change(parts, same=same_commits(source.file, source.alike or source.cells)) if parts else ""


def count_old(row: Row, older: str = "") -> tuple[int, int]:
    """Return how many of a row's measurements are older than a date, or than what they measure, and of how many."""
    found = [(date, older or last_change_of(row, source)) for source in row.sources for date in dates(source)]
    return sum(date < changed for date, changed in found), len(found)


def is_whole(row: Row, older: str = "") -> bool:
    """Tell whether nothing of a row is missing or old."""
    return state(row) == "measured" and not count_old(row, older)[0]


def age(row: Row) -> str:
    """Return "old" or "partly old"; "" where nothing is older than the code."""
    old, count = count_old(row)
    return "" if not old else "old" if old == count else "partly old"


def state(row: Row) -> str:
    """Return whether a row is measured, in part or not at all; rows with nothing to measure are in the library."""
    if not row.figures:
        return "in the library"
    counts = [(len(numbers_at(f.mercer)), f.mercer.of) if f.mercer else (0, 1) for f in row.figures]
    if not any(count for count, _ in counts):
        return NOT_MEASURED
    whole = sum(count >= of for count, of in counts)
    return "measured" if whole == len(counts) else f"{whole} of {len(counts)} measured"


def find_lacks(row: Row) -> list[str]:
    """Return what a row lacks: measurements, their state of the code, or that they are younger than the code."""
    complete = state(row) in ("measured", "in the library")
    without = count_without_code(row.sources)
    count = sum(len(dates(source)) for source in row.sources)
    return [
        *([] if complete else [state(row)]),
        *([age(row)] if age(row) else []),
        *([f"code not kept of {without} of {count} measurements"] if without else []),
    ]


# ------------------------------------------------------------------------------------------------------------ the page


def write_page() -> str:
    """Return the page."""
    lines = [INTRODUCTION, "## Overview", "", "| item | paper | what | state |", "|---|---|---|---|"]
    for row in ROWS:
        old = f" ({age(row)})" if age(row) else ""
        about = row.about.replace("|", "\\|")
        lines.append(f"| [{row.item}](#{row.item}) | {row.paper}, {row.where} | {about} | {state(row)}{old} |")
    for paper, title in PAPERS.items():
        lines += ["", f"## {title}"]
        for row in (row for row in ROWS if row.paper == paper):
            lines += ["", f"### {row.item}", "", *write_row(row)]
    return "\n".join(lines) + "\n"


def keep_page() -> None:
    """Write the page to its file in one go, and before it the commits of what was measured."""
    keep_commits(code for row in ROWS for source in row.sources for code in read_codes(source))
    beside = PAGE.with_suffix(f".{os.getpid()}")
    beside.write_text(write_page(), encoding="utf-8")
    beside.replace(PAGE)


def write_row(row: Row) -> list[str]:
    """Return a row as lines of Markdown."""
    lines = [f"{row.paper}, {row.where}: {row.about}." + (f" {row.library}." if row.library else "")]
    if row.figures:
        lines += ["", "| | paper | Mercer |", "|---|---|---|"]
        lines += [f"| {figure.what} | {printed(figure)} | {shown(figure)} |" for figure in row.figures]
        counted = [compare(row, *each) for each in row.compared if state(row) != NOT_MEASURED]
        lines += ["", *(f"- {each}" for each in counted), *([""] if counted else []), circumstances(row)]
    if row.commands:
        lines += ["", f"`make paper ITEM={row.item}`: {row.time}."]
    if row.remark or row.picture:
        picture = f"Picture: [{row.picture}](../benchmarks/results/{row.picture})." if row.picture else ""
        lines += ["", f"{row.remark} {picture}".strip()]
    return lines


def shown(figure: Figure) -> str:
    """Return Mercer's number; a dash where there is none."""
    return (read(figure.mercer) if figure.mercer is not None else "") or "-"


def printed(figure: Figure) -> str:
    """Return the paper's number, with that of the authors' logs where its decimals leave nothing."""
    return figure.paper if figure.logged is None else f"{figure.paper} ({figure.logged:.8f} in the authors' logs)"


def compare(row: Row, ending: str, better: str) -> str:
    """Return how often Mercer's number is better than the printed one, to the decimals that are printed.

    A printed zero cannot be beaten to its decimals: the number of the authors' logs takes its place where there is one.
    """
    measured, won, equal = 0, list[str](), list[str]()
    figures = [figure for figure in row.figures if figure.what.endswith(ending) and figure.paper]
    for figure in figures:
        if figure.mercer is None or not len(numbers_at(figure.mercer)):
            continue
        paper, ours = figure.paper.split()[0], average(figure.mercer)
        theirs, decimals = float(paper), len(paper.partition(".")[2])
        gain = (theirs - round(ours, decimals) if figure.logged is None else figure.logged - ours) * SIGNS[better]
        measured += 1
        name = figure.what.removesuffix(ending).rstrip(", ")
        if gain > 0:
            won.append(name if figure.logged is None else f"{name} by the authors' logs")
        elif gain == 0 and theirs == 0:
            equal.append(name)
    names = f" ({', '.join(won)})" if won else ""
    same = f"; {', '.join(equal)}: {0:.3f} as printed" if equal else ""
    part, whole = ("", "") if measured == len(figures) else (" measured", f", {len(figures)} in all")
    return f"{ending.strip(', ')} {better} than the paper's: {len(won)} of {measured}{part}{names}{same}{whole}"


def circumstances(row: Row) -> str:
    """Return when, where and with which code a row was measured: by file, whatever number of sources it holds."""
    found = []
    for file in dict.fromkeys(source.file for source in row.sources):
        sources = [source for source in row.sources if source.file == file and dates(source)]
        days = sorted(day for source in sources for day in dates(source))
        if not days:
            continue
        when = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
        where = ", ".join(
            " and ".join(join_texts(sources, paths)) + CORES.get(paths[0][-5:], "")
            for paths in zip(*(source.machine for source in sources), strict=True)
        )
        codes = [code for source in sources for code in read_codes(source)]
        code = name_codes(codes, read_commits()) or "code not kept"
        without = count_without_code(sources) if codes else 0
        code += f" (of {without} of {len(days)} measurements not kept)" if without else ""
        found.append(f"[{file}](../benchmarks/results/{file}) {when} UTC, {where}, {code}")
    if not found:
        return f"Mercer: {NOT_MEASURED}."
    old, count = count_old(row)
    share = f"{old} of {count} measurements are older" if 0 < old < count else "Older"
    changed = max(last_change_of(row, source) for source in row.sources)
    note = f" **{share} than the code** ({changed[:10]})." if old else ""
    return f"Mercer: {'; '.join(found)}.{note}"


def count_without_code(sources: Sequence[Source]) -> int:
    """Return of how many measurements the state of the code was not kept."""
    return sum(len(dates(source)) - len(read_codes(source)) for source in sources)


def read_codes(source: Source) -> list[str]:
    """Return the state of the code of all measurements of a source that have it."""
    return [text for text in texts(source, source.code, CODE) if text != NOT_KEPT]


def join_texts(sources: Sequence[Source], paths: Sequence[str]) -> list[str]:
    """Return the different values at the paths of some sources, in order."""
    return list(dict.fromkeys(text for each in zip(sources, paths, strict=True) for text in texts(*each)))


# ----------------------------------------------------------------------------------------------------------- the check


def problems(page: Path = PAGE) -> list[str]:
    """Return what is wrong with the rows and the page; that a result is old is said there and is no problem."""
    found = []
    items = [row.item for row in ROWS]
    found += [f"{item}: twice" for item in sorted({item for item in items if items.count(item) > 1})]
    for row in ROWS:
        found += [f"{row.item}: {problem}" for problem in row_problems(row)]
    if not page.exists():
        return [*found, f"{page.name} is not there: python -m benchmarks.papers --write"]
    kept, made = (OLD.sub("", text).splitlines() for text in (page.read_text(encoding="utf-8"), write_page()))
    differing = [(a, b) for a, b in zip(kept, made, strict=False) if a != b]
    if differing or len(kept) != len(made):
        first = differing[0] if differing else (f"{len(kept)} lines", f"{len(made)} lines")
        found.append(
            f"{page.name} differs from the files, at first {first[0]!r:.90}, by them "
            f"{first[1]!r:.90}: python -m benchmarks.papers --write"
        )
    return found


def row_problems(row: Row) -> Iterator[str]:
    """Yield what is wrong with one row."""
    if row.paper not in PAPERS:
        yield f"there is no paper {row.paper}"
    if not row.figures and not row.library:
        yield "neither a number nor where it is in the library"
    if row.figures and not (row.commands and row.time and row.sources and row.parts):
        yield "figures, but no command, time, source or part of the package"
    for name in sorted({f.mercer.file for f in row.figures if f.mercer} | {s.file for s in row.sources}):
        if load(name) is None:
            yield f"benchmarks/results/{name} does not exist"
    if state(row) not in (NOT_MEASURED, "in the library") and not any(map(dates, row.sources)):
        yield "numbers without a date"
    for part in row.parts:
        if not (ROOT / part).exists():
            yield f"it measures {part}, which does not exist"
    for command in row.commands:
        module = shlex.split(command)[2]
        if importlib.util.find_spec(module) is None:
            yield f"there is no {module}"


# ------------------------------------------------------------------------------------------------------------- running


def find_row(item: str) -> Row:
    """Return the row of an item; one that does not exist ends with a list of those that do."""
    for row in ROWS:
        if row.item == item:
            return row
    raise SystemExit(f"there is no item {item!r}; there are:\n{overview()}")


def overview() -> str:
    """Return all items with their state."""
    return "\n".join(
        f"  {row.item:20} {', '.join(filter(None, (state(row), age(row)))):34} {row.paper} {row.where}: {row.about}"
        for row in ROWS
    )


def describe_left(row: Row, older: str = "") -> str:
    """Say how much of a row is missing or old, and where its cells are known how long they take."""
    from benchmarks.papers_tasks import MODULES, find_tasks

    reason = older or "the code"
    if is_whole(row, older):
        return f"nothing is missing or older than {reason}; OLDER=DATE measures again what was measured before"
    if any(source.file.removesuffix(".json") not in MODULES for source in row.sources):
        old, count = count_old(row, older)
        return f"{state(row)}, {old} of {count} measurements older than {reason}"
    tasks = list(find_tasks(row, older))
    minutes = math.ceil(sum(task.seconds for task in tasks) / 60.0)
    time = f"about {minutes} minute{'' if minutes == 1 else 's'} of one core"
    return f"{len(tasks)} of its measurements, missing or older than {reason}: {time}, likely less"


def again(row: Row, module: str, older: str) -> list[str]:
    """Return the option by which a command measures again what is older than a date, or than what it measures.

    Of the sources of a row some may be older than the code and others not: each has a date of its own.
    """
    sources = [each for each in row.sources if MEASURED_BY.get(each.file) == module]
    if not sources:
        return []
    dates = {each.cells: last_change_of(row, each) for each in sources}
    # measurements whose machine is described beside them are not asked for one by one
    of_all = max(dates.values()) if DESCRIBED in dates else ",".join(f"{kind}={date}" for kind, date in dates.items())
    return ["--older", older or of_all]


def check_data(row: Row, data: Path) -> None:
    """Refuse a folder that lacks what the commands of a row read in it, or beside it."""
    needed = list[Path]()
    if any("{data}" in command and not MAKES_DATA.search(command) for command in row.commands):
        needed += [data / name for name in FOLDERS] if data.is_dir() else [data]
    if any("benchmarks.nkn " in command for command in row.commands):
        needed.append(data.parent / "reference.json")  # published numbers, for the report at the end
    missing = ", ".join(str(path) for path in needed if not path.exists())
    if missing:
        folders = "/, ".join(FOLDERS)
        raise SystemExit(
            f"{row.item} needs data, and there is no {missing}: give DATA=FOLDER, a folder with {folders}/ in it and "
            "reference.json beside it"
        )


def run_command(command: list[str]) -> int:
    """Run a command and return its exit code; Ctrl-C ends it with all that it had begun."""
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    try:
        return process.wait()
    except KeyboardInterrupt:
        with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        raise


@contextlib.contextmanager
def ignore_stops() -> Iterator[None]:
    """Let Ctrl-C do nothing for a while, also in what is begun meanwhile."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def run(row: Row, data: str, jobs: int, device: str, older: str = "") -> int:
    """Run what a row lacks, and write the page again, also after a stop; return the first exit code that is not 0."""
    if not row.commands:
        print(f"{row.item} has no command: {row.library or 'it is in the library'}")
        return 0
    check_data(row, Path(data))
    print(f"{row.item}: {row.paper} {row.where}, {row.about}\nthe whole row from nothing: {row.time}", flush=True)
    print(f"what is left of it: {describe_left(row, older)}", flush=True)
    if is_whole(row, older):
        return 0
    code = 0
    try:
        for command in row.commands:
            given = shlex.split(command.format(data=shlex.quote(data), jobs=jobs, device=device))
            given += again(row, given[2], older)
            print("$", shlex.join(given), flush=True)
            ended = run_command([sys.executable, *given[1:]])
            code = code or ended
    finally:
        with ignore_stops():  # the page stays what the files say
            print("writing docs/papers.md again: some seconds", flush=True)
            load.cache_clear()
            keep_page()
    print(f"{row.item}: {describe_end(row, code, older)}")
    return code


def describe_end(row: Row, code: int, older: str) -> str:
    """Say what came of a run: whether a command failed, and what is left."""
    if code:
        return f"failed with exit code {code}, see above; mend that, and the same command goes on with what is left"
    left = "" if is_whole(row, older) else f", and left is {describe_left(row, older)}"
    return f"{state(row)}{left}; see docs/papers.md#{row.item}"


def read_count(text: str) -> int:
    """Return a number from 1 on, for argparse; anything else is refused."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes: give 1 or more, such as 2")
    return int(text)


def read_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options that were given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--item", default="", help="what to run; without it, a list")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of benchmarks/README.md")
    parser.add_argument("--jobs", type=read_count, default=1)
    parser.add_argument("--device", default="cpu", help="of the large tables: cpu or cuda")
    older = "measure again what is older than this date, such as 2026-11-18, not than the code"
    parser.add_argument("--older", type=read_date, default="", help=older)
    parser.add_argument("--write", action="store_true", help="write docs/papers.md")
    parser.add_argument("--check", action="store_true")
    return parser.parse_args(arguments)


def carry_out(given: argparse.Namespace) -> int:
    """Do what was asked for, and return the exit code."""
    if given.item:
        return run(find_row(given.item), str(given.data.expanduser().resolve()), given.jobs, given.device, given.older)
    if given.write:
        keep_page()
        return 0
    if given.check:
        found = problems()
        print("\n".join([*found, *(f"{row.item}: {', '.join(lacks)}" for row in ROWS if (lacks := find_lacks(row)))]))
        return 1 if found else 0
    print(overview())
    return 0


def main(arguments: Sequence[str] | None = None) -> None:
    given = read_arguments(arguments)
    try:
        raise SystemExit(carry_out(given))
    except KeyboardInterrupt:
        print("stopped: the same command goes on", flush=True)
        raise SystemExit(STOPPED) from None


if __name__ == "__main__":
    main()
