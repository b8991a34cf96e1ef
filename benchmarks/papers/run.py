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
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.machine import now, read_past
from benchmarks.papers import pictures
from benchmarks.papers.check import check
from benchmarks.papers.files import HERE, ROOT, BrokenFileError, Place, load
from benchmarks.papers.history import NOT_KNOWN, knows_age
from benchmarks.papers.page import keep_page
from benchmarks.papers.read import age, count_old, is_whole, lacks_picture, last_change_of, newest_date, state
from benchmarks.papers.row import DESCRIBED, Row
from benchmarks.papers.rows import ROWS

STOPPED = 130  # the exit code after Ctrl-C
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


def find_row(item: str, place: Place = HERE) -> Row:
    """Return the row of an item; one that does not exist ends with a list of those that do."""
    for row in ROWS:
        if row.item == item:
            return row
    raise SystemExit(f"there is no item {item!r}; there are:\n{overview(place)}")


def overview(place: Place = HERE) -> str:
    """Return all items with their state, and whether their age is known."""
    states = {row: ", ".join(filter(None, (state(row, place), age(row, place)))) for row in ROWS}
    lines = [f"  {row.item:20} {states[row]:34} {row.paper} {row.where}: {row.about}" for row in ROWS]
    return "\n".join([*lines, *([] if knows_age() else [NOT_KNOWN])])


def describe_left(row: Row, older: str = "", device: str = "cpu", place: Place = HERE) -> str:
    """Say how much of a row is missing or old, and where its cells are known how long they take."""
    from benchmarks.papers.tasks import MODULES, describe_tasks, find_tasks

    reason = f" or older than {older or 'the code'}" if older or knows_age() else ""
    if is_whole(row, older, place):
        return f"nothing is missing{reason}; OLDER=DATE measures again what was measured before"
    found = list[str]()
    tasks = list(find_tasks(row, older, place))
    old, count = count_old(row, older, place)
    if tasks and all(source.file.removesuffix(".json") in MODULES for source in row.sources):
        found.append(f"{len(tasks)} of its measurements, missing{reason}: {describe_tasks(tasks, device)}")
    elif old or state(row, place) != "measured":
        ages = f", {old} of {count} measurements older than {older or 'the code'}" if count else ""
        found.append(f"{state(row, place)}{ages}")
    if lacks_picture(row, place):
        found.append(f"the picture {row.picture}, missing or older than the numbers")
    return "; ".join(found)


def again(row: Row, module: str, older: str, place: Place = HERE) -> list[str]:
    """Return the option by which a command measures again what is older than a date, or than what it measures.

    Of the sources of a row some may be older than the code and others not: each has a date of its own.
    """
    sources = [each for each in row.sources if MEASURED_BY.get(each.file) == module]
    if not sources:
        return []
    dates = {each.cells: last_change_of(row, each, place) for each in sources}
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


def run(row: Row, data: str, jobs: int, device: str, older: str = "", place: Place = HERE) -> int:
    """Run what a row lacks, and write the page again, also after a stop; return the first exit code that is not 0."""
    if not row.commands:
        print(f"{row.item} has no command: {row.library or 'it is in the library'}")
        return 0
    from benchmarks.papers.data import check_data

    check_data(row, Path(data))
    print(f"{row.item}: {row.paper} {row.where}, {row.about}\nthe whole row from nothing: {row.time}", flush=True)
    if not (older or knows_age()):
        print(NOT_KNOWN, flush=True)
    print(f"what is left of it: {describe_left(row, older, device, place)}", flush=True)
    if is_whole(row, older, place):
        return 0
    code, drawn = 0, pictures.begin(row.picture, newest_date(row, place), place) if row.picture else 0
    try:
        for command in row.commands:
            given = shlex.split(command.format(data=shlex.quote(data), jobs=jobs, device=device))
            given += again(row, given[2], older, place)
            print("$", shlex.join(given), flush=True)
            ended = run_command([sys.executable, *given[1:]])
            code = code or ended
        if row.picture and not code:  # a stop before this leaves the picture to be drawn
            pictures.end(row.picture, drawn, place)
    finally:
        with ignore_stops():  # the page stays what the files say
            print("writing docs/papers.md again: some seconds", flush=True)
            load.cache_clear()
            keep_page(place)
    print(f"{row.item}: {describe_end(row, code, older, device, place)}")
    return code


def describe_end(row: Row, code: int, older: str, device: str = "cpu", place: Place = HERE) -> str:
    """Say what came of a run: whether a command failed, and what is left."""
    if code:
        return f"failed with exit code {code}, see above; mend that, and the same command goes on with what is left"
    left = "" if is_whole(row, older, place) else f", and left is {describe_left(row, older, device, place)}"
    if lacks_picture(row, place):  # some are drawn only while their numbers are measured
        left += f" (where the same command does not draw it: OLDER='{now().removesuffix(' UTC')}')"
    return f"{state(row, place)}{left}; see docs/papers.md#{row.item}"


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


def carry_out(given: argparse.Namespace, place: Place = HERE) -> int:
    """Do what was asked for, and return the exit code."""
    if given.item:
        row, data = find_row(given.item, place), str(given.data.expanduser().resolve())
        return run(row, data, given.jobs, given.device, given.older, place)
    if given.write:
        keep_page(place)
        if not knows_age():
            print(f"{NOT_KNOWN}: the page calls nothing old")
        return 0
    if given.check:
        return check(place)
    print(overview(place))
    return 0


def main(arguments: Sequence[str] | None = None, place: Place = HERE) -> None:
    given = read_arguments(arguments)
    try:
        raise SystemExit(carry_out(given, place))
    except BrokenFileError as error:
        raise SystemExit(str(error)) from None
    except KeyboardInterrupt:
        print("stopped: the same command goes on", flush=True)
        raise SystemExit(STOPPED) from None
