"""The papers, row by row: docs/papers.md from rows.py and benchmarks/results, its check, its runs.

    python -m benchmarks.papers                        # what there is, and how old
    python -m benchmarks.papers --item nkn-table-1 --data FOLDER [--jobs 8] [--device cuda]
    python -m benchmarks.papers --write                # docs/papers.md from what is there
    python -m benchmarks.papers --check                # rows and numbers that are wrong; what lacks or is old

A run measures what is missing or older than the code. It says how long it takes, can be stopped, and goes on where it
was with the same command. The check ends with exit code 1 where something is wrong: a number without a date, a machine
or a state of the code, one that is not finite or was measured on a day to come, a file that is no JSON, a page that
differs from the files. What is old or not measured yet is printed, and the exit code stays 0.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.machine import now, read_past
from benchmarks.papers import pictures
from benchmarks.papers.check import find_broken_files, find_lacks, row_problems
from benchmarks.papers.code import keep_commits, name_codes, read_commits
from benchmarks.papers.files import ROOT, BrokenFileError, load
from benchmarks.papers.history import NOT_KNOWN, knows_age
from benchmarks.papers.read import (
    NOT_MEASURED,
    age,
    average,
    count_old,
    count_without_code,
    is_whole,
    lacks_picture,
    last_change_of,
    measurements,
    newest_date,
    numbers_at,
    read_codes,
    state,
)
from benchmarks.papers.row import DESCRIBED, PAPERS, Figure, Reading, Row
from benchmarks.papers.rows import ROWS

PAGE = ROOT / "docs" / "papers.md"
STOPPED = 130  # the exit code after Ctrl-C
OLD = re.compile(r" \*\*[^*]*lder than the code\*\* \([^)]*\)\.| \((?:partly )?old\)")
MEASURED_BY = {  # the modules that leave out what is as young as --older says, by the file that they write
    "papers.json": "benchmarks.papers.cells",
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

INTRODUCTION = """# The papers, row by row

Every algorithm, table, figure and named kernel of the papers that Mercer is built on: what the paper reports, what
Mercer gets, and why it differs where it does. `make paper ITEM=nkn-table-1 DATA=FOLDER` measures what a row lacks, or
has of older code; with `OLDER=2026-11-19` it measures again what was measured before that day. It says how long that
takes, can be stopped, and goes on where it was. `make paper` alone lists the rows. DATA is the folder described in
[benchmarks](../benchmarks/README.md#the-data-folder).

Settings as printed have a name: `GrammarSearch.paper()`, `NeuralKernelNetwork.paper()`, `KernelFunctional.paper()` and
`ChangeSurface.paper()`. Their docstrings name the sections and every deviation.

Numbers of Mercer come from files in [benchmarks/results](../benchmarks/results) and from nowhere else: this page is
written by `python -m benchmarks.papers --write`, and a test compares it with the files. With each row stand the dates,
the machines and the commits with the code that it was measured with. Where only a hash stands, the code was never
committed in that state; "recorded by" names the commit that brought a measurement whose code was not kept. **Older than
the code** says that the part of Mercer it measures does something else since, by git: comments, code that only moved,
and changes before and after which a cell of the row is the same to the last digit
([unchanged.json](../benchmarks/results/unchanged.json)) do not count. Behind a number made of several, such as splits,
stands of how many.

In the tables a dash is not measured. "a picture": the paper draws it, and prints no number. A blank in the column
"paper": the paper prints no number for it, as for all that Mercer adds of its own.

The main texts of CKS, of the Automatic Statistician, of SKC and of change surfaces were not at hand. Of these the page
has the appendices of SKC, the supplement of change surfaces, results in the authors' repository (CKS, the Automatic
Statistician), and what was taken down from the texts before.
"""


# ------------------------------------------------------------------------------------------------------------ the page


def read(reading: Reading) -> str:
    """Return a number as the page shows it, with how many it was made of where these are several; "" for none."""
    numbers = numbers_at(reading)
    if not len(numbers):
        return ""
    if reading.statistic == "year":
        text = f"{average(reading):.{reading.digits}f}"  # 1896.5, where other numbers from 1,000 on have a comma
    else:
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
    library = f" {row.library[0].upper()}{row.library[1:]}." if row.library else ""
    lines = [f"{row.paper}, {row.where}: {row.about}.{library}"]
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
        sources = [source for source in row.sources if source.file == file]
        measured = [each for source in sources for each in measurements(source)]
        days = sorted(each.date for each in measured if each.date)
        if not days:
            continue
        when = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
        where = ", ".join(
            " and ".join(filter(None, dict.fromkeys(texts))) + CORES.get(path[-5:], "")
            for path, *texts in zip(sources[0].machine, *(each.machine for each in measured), strict=True)
        )
        codes = [code for source in sources for code in read_codes(source)]
        code = name_codes(codes, read_commits()) or "code not kept"
        without = count_without_code(sources) if codes else 0
        code += f" (of {without} of {len(measured)} measurements not kept)" if without else ""
        found.append(f"[{file}](../benchmarks/results/{file}) {when} UTC, {where}, {code}")
    if not found:
        return f"Mercer: {NOT_MEASURED}."
    old, count = count_old(row)
    share = f"{old} of {count} measurements are older" if 0 < old < count else "Older"
    changed = max(last_change_of(row, source) for source in row.sources)
    note = f" **{share} than the code** ({changed[:10]})." if old else ""
    return f"Mercer: {'; '.join(found)}.{note}"


# ----------------------------------------------------------------------------------------------------------- the check


def cut_to_difference(one: str, other: str, before: int = 20, length: int = 80) -> tuple[str, str]:
    """Return two lines from shortly before the place where they differ."""
    same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, same - before)
    return one[start : start + length], other[start : start + length]


def problems(page: Path = PAGE) -> list[str]:
    """Return what is wrong with the rows and the page; that a result is old is said there and is no problem."""
    found = find_broken_files(ROWS)
    if found:
        return found
    items = [row.item for row in ROWS]
    found += [f"{item}: twice" for item in sorted({item for item in items if items.count(item) > 1})]
    for row in ROWS:
        found += [f"{row.item}: {problem}" for problem in row_problems(row)]
    if not page.exists():
        return [*found, f"{page.name} is not there: python -m benchmarks.papers --write"]
    kept, made = (OLD.sub("", text).splitlines() for text in (page.read_text(encoding="utf-8"), write_page()))
    differing = [(a, b) for a, b in zip(kept, made, strict=False) if a != b]
    if differing or len(kept) != len(made):
        first = cut_to_difference(*differing[0]) if differing else (f"{len(kept)} lines", f"{len(made)} lines")
        found.append(
            f"{page.name} differs from the files, at first {first[0]!r}, by them {first[1]!r}: "
            "python -m benchmarks.papers --write"
        )
    return found


# ------------------------------------------------------------------------------------------------------------- running


def find_row(item: str) -> Row:
    """Return the row of an item; one that does not exist ends with a list of those that do."""
    for row in ROWS:
        if row.item == item:
            return row
    raise SystemExit(f"there is no item {item!r}; there are:\n{overview()}")


def overview() -> str:
    """Return all items with their state, and whether their age is known."""
    lines = [
        f"  {row.item:20} {', '.join(filter(None, (state(row), age(row)))):34} {row.paper} {row.where}: {row.about}"
        for row in ROWS
    ]
    return "\n".join([*lines, *([] if knows_age() else [NOT_KNOWN])])


def describe_left(row: Row, older: str = "", device: str = "cpu") -> str:
    """Say how much of a row is missing or old, and where its cells are known how long they take."""
    from benchmarks.papers.tasks import MODULES, describe_tasks, find_tasks

    reason = f" or older than {older or 'the code'}" if older or knows_age() else ""
    if is_whole(row, older):
        return f"nothing is missing{reason}; OLDER=DATE measures again what was measured before"
    found = list[str]()
    tasks = list(find_tasks(row, older))
    old, count = count_old(row, older)
    if tasks and all(source.file.removesuffix(".json") in MODULES for source in row.sources):
        found.append(f"{len(tasks)} of its measurements, missing{reason}: {describe_tasks(tasks, device)}")
    elif old or state(row) != "measured":
        ages = f", {old} of {count} measurements older than {older or 'the code'}" if count else ""
        found.append(f"{state(row)}{ages}")
    if lacks_picture(row):
        found.append(f"the picture {row.picture}, missing or older than the numbers")
    return "; ".join(found)


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
    from benchmarks.papers.data import check_data

    check_data(row, Path(data))
    print(f"{row.item}: {row.paper} {row.where}, {row.about}\nthe whole row from nothing: {row.time}", flush=True)
    if not (older or knows_age()):
        print(NOT_KNOWN, flush=True)
    print(f"what is left of it: {describe_left(row, older, device)}", flush=True)
    if is_whole(row, older):
        return 0
    code, drawn = 0, pictures.begin(row.picture, newest_date(row)) if row.picture else 0
    try:
        for command in row.commands:
            given = shlex.split(command.format(data=shlex.quote(data), jobs=jobs, device=device))
            given += again(row, given[2], older)
            print("$", shlex.join(given), flush=True)
            ended = run_command([sys.executable, *given[1:]])
            code = code or ended
        if row.picture and not code:  # a stop before this leaves the picture to be drawn
            pictures.end(row.picture, drawn)
    finally:
        with ignore_stops():  # the page stays what the files say
            print("writing docs/papers.md again: some seconds", flush=True)
            load.cache_clear()
            keep_page()
    print(f"{row.item}: {describe_end(row, code, older, device)}")
    return code


def describe_end(row: Row, code: int, older: str, device: str = "cpu") -> str:
    """Say what came of a run: whether a command failed, and what is left."""
    if code:
        return f"failed with exit code {code}, see above; mend that, and the same command goes on with what is left"
    left = "" if is_whole(row, older) else f", and left is {describe_left(row, older, device)}"
    if lacks_picture(row):  # some are drawn only while their numbers are measured
        left += f" (where the same command does not draw it: OLDER='{now().removesuffix(' UTC')}')"
    return f"{state(row)}{left}; see docs/papers.md#{row.item}"


def read_count(text: str) -> int:
    """Return a number from 1 on, for argparse; anything else is refused."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes: give 1 or more, such as 2")
    return int(text)


def read_device(text: str) -> str:
    """Return cpu or cuda, for argparse; anything else is refused, and cuda where there is no GPU."""
    if text not in ("cpu", "cuda"):
        raise argparse.ArgumentTypeError(f"{text!r} is no device: give cpu or cuda")
    if text == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise argparse.ArgumentTypeError("there is no GPU here that PyTorch can use: give cpu, or leave it out")
    return text


def read_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options that were given."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m benchmarks.papers", description=__doc__, formatter_class=form)
    parser.add_argument("--item", default="", help="what to run; without it, a list")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of benchmarks/README.md")
    parser.add_argument("--jobs", type=read_count, default=1)
    parser.add_argument("--device", type=read_device, default="cpu", help="of the large tables: cpu or cuda")
    older = "measure again what was measured before this date, such as 2026-11-19, whatever the code"
    parser.add_argument("--older", type=read_past, default="", help=older)
    parser.add_argument("--write", action="store_true", help="write docs/papers.md")
    parser.add_argument("--check", action="store_true")
    return parser.parse_args(arguments)


def carry_out(given: argparse.Namespace) -> int:
    """Do what was asked for, and return the exit code."""
    if given.item:
        return run(find_row(given.item), str(given.data.expanduser().resolve()), given.jobs, given.device, given.older)
    if given.write:
        keep_page()
        if not knows_age():
            print(f"{NOT_KNOWN}: the page calls nothing old")
        return 0
    if given.check:
        return check()
    print(overview())
    return 0


def check() -> int:
    """Print what is wrong, and what is old or missing; return 1 where something is wrong."""
    found = problems()
    print("\n".join(found), end="\n" if found else "")
    if not find_broken_files(ROWS):
        print("\n".join(f"{row.item}: {', '.join(lacks)}" for row in ROWS if (lacks := find_lacks(row))))
    if not knows_age():
        print(NOT_KNOWN)
    return 1 if found else 0


def main(arguments: Sequence[str] | None = None) -> None:
    given = read_arguments(arguments)
    try:
        raise SystemExit(carry_out(given))
    except BrokenFileError as error:
        raise SystemExit(str(error)) from None
    except KeyboardInterrupt:
        print("stopped: the same command goes on", flush=True)
        raise SystemExit(STOPPED) from None
