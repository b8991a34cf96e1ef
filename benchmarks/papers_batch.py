"""What docs/papers.md lacks, measured on a machine with a GPU and many cores within some minutes.

    python -m benchmarks.papers_batch --data FOLDER --out FOLDER [--seconds 520] [--cpu 12] [--gpu 4]
                                      [--older "2026-11-18 03:39"]    # networks measured before that, again
    python -m benchmarks.papers_batch --merge FOLDER           # what it brought, into benchmarks/results
    python -m benchmarks.papers_batch --list                   # what it would measure

Processes that stay alive take one measurement after the other, the most wanted first, and none that is not expected to
end in time; each is kept as it ends, in papers.json and nkn.json of the folder. What benchmarks/results has already is
not measured again. At the end of the time all processes are ended, whatever they do: nothing kept is lost.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from benchmarks import nkn, paper_cells
from benchmarks.kfo import CLASSES

RESULTS = Path(__file__).parent / "results"
LARGE = ("kin8nm", "power_plant", "naval")
SMALL_CLASSES = CLASSES[:9]
# seconds that one is expected to take, with all processes at work
FITS = {"kin8nm": 35.0, "power_plant": 35.0, "naval": 110.0}
CELLS = {"bbb": 45.0, "fkl-shared": 30.0, "fkl-separate": 30.0, "shares": 120.0, "alpha-clip": 90.0, "alpha-flip": 90.0,
         "classes": 100.0, "classes-alpha-clip": 100.0}  # fmt: skip
LARGE_CLASSES = {"credit": 330.0, "biodeg": 360.0, "contraceptive": 400.0, "car": 400.0}


@dataclass(frozen=True)
class Task:
    """One measurement: its file, its name there, where it runs, and the seconds it is expected to take."""

    file: str
    name: str
    device: str
    seconds: float


def first_tasks() -> list[Task]:
    """Return what is measured first, the most wanted at the head."""
    found = [Task("papers", f"sm/{table}", "cuda", 4.0 * FITS[table]) for table in reversed(LARGE)]
    found += [cell_task(f"fkl-{kind}/airfoil/{split}", "cuda") for split in range(5) for kind in ("shared", "separate")]
    for split in range(1, 11):  # the three tables grow together
        found += [Task("nkn", f"random/{table}/{split}/sm4", "cuda", FITS[table]) for table in LARGE]
    found += [cell_task(name) for name in ("shares/credit", "shares/sonar", "shares/glass")]
    found += [cell_task(f"bbb/{table}/{split}") for table in paper_cells.NKN_TABLES for split in range(5)]
    for table in ("yacht", "boston"):
        found += [cell_task(f"alpha-{way}/{table}/{split}") for split in range(5) for way in ("clip", "flip")]
    found += [cell_task(f"alpha-clip/airfoil/{split}", seconds=300.0) for split in range(5)]
    ways = ("classes", "classes-alpha-clip")
    found += [cell_task(f"{way}/{name}/{split}") for split in range(5) for way in ways for name in SMALL_CLASSES]
    return found


def large_tasks() -> list[Task]:
    """Return what takes long, and is measured where time is left."""
    found, ways = [], ("classes", "classes-alpha-clip")
    for split in range(5):
        found += [cell_task(f"{way}/{name}/{split}", seconds=s) for name, s in LARGE_CLASSES.items() for way in ways]
    return found


def cell_task(name: str, device: str = "cpu", seconds: float | None = None) -> Task:
    return Task("papers", name, device, seconds or CELLS[name.split("/")[0]])


def read_names(folder: Path, file: str) -> set[str]:
    """Return what a file of results has."""
    path = folder / f"{file}.json"
    return set(json.loads(path.read_text())["results"]) if path.exists() else set()


def choose_missing(tasks: Iterable[Task]) -> list[Task]:
    """Return those that benchmarks/results does not have."""
    known = {file: read_names(RESULTS, file) for file in ("papers", "nkn")}
    return [task for task in tasks if task.name not in known[task.file]]


def choose_old(before: str) -> list[Task]:
    """Return the networks on tables that were measured before a date: those of large tables, and the quickest first."""
    found = []
    for name, kept in nkn.read(RESULTS / "nkn.json")["results"].items():
        if name.split("/")[0] in ("random", "pca") and name.endswith("/nkn") and kept["date"] < before:
            large = name.split("/")[1] in LARGE
            seconds = 280.0 if large else 1.5 * (kept["cpu_seconds"] or 2.0 * kept["seconds"])
            found.append(Task("nkn", name, "cuda" if large else "cpu", seconds))
    return sorted(found, key=lambda task: task.seconds)


# ------------------------------------------------------------------------------------------------------------ running


def measure(task: Task, folder: Path) -> dict[str, Any]:
    """Carry out one measurement."""
    if task.file == "papers":
        call = paper_cells.all_cells(folder, task.device)[task.name]
        return paper_cells.measure(task.name, call, float("inf"))[1] or {"failed": "no time"}
    part, table, *split, method = task.name.split("/")
    settings = {"data": folder, "jobs": 1, "device": task.device, "kernel": "nkn", "methods": method, "only": table}
    bench = nkn.Bench(argparse.Namespace(**settings, splits="".join(split) or "1"))
    return nkn.table_work(bench, part)[task.name]()


def work(connection: Connection, folder: Path) -> None:
    """Measure what comes in, until nothing does."""
    import torch

    torch.set_num_threads(1)
    connection.send(None)  # ready
    while (task := connection.recv()) is not None:
        try:
            found = measure(task, folder)
        except Exception as error:  # one of many: the others are worth having
            found = {"failed": f"{type(error).__name__}: {error}", "where": traceback.format_exc()[-400:]}
        connection.send((task, found))


def keep(out: Path, task: Task, found: dict[str, Any]) -> None:
    """Keep a measurement, or why there is none."""
    if "failed" in found:
        paper_cells.keep(out / "failed.json", task.name, found)
    elif task.file == "papers":
        paper_cells.keep(out / "papers.json", task.name, found)
    else:
        nkn.keep(out / "nkn.json", lambda done: done["results"].update({task.name: found}))


def next_task(waiting: list[Task], device: str, left: float) -> Task | None:
    """Take the first task for a device that is expected to end in time."""
    for task in waiting:
        if task.device == device and task.seconds < left:
            waiting.remove(task)
            return task
    return None


def run(waiting: list[Task], folder: Path, out: Path, workers: dict[str, int], until: float) -> None:
    """Give tasks to processes until there are none or the time is over."""
    start = multiprocessing.get_context("spawn")
    pipes, processes = dict[Connection, str](), []
    for device, count in workers.items():
        for _ in range(count):
            ours, theirs = start.Pipe()
            process = start.Process(target=work, args=(theirs, folder), daemon=True)
            process.start()
            theirs.close()
            processes.append(process)
            pipes[ours] = device
    try:
        while pipes and time.time() < until:
            for pipe in wait(list(pipes), timeout=max(until - time.time(), 0.0)):
                assert isinstance(pipe, Connection)
                serve(pipe, pipes, waiting, out, until)
    finally:
        for process in processes:
            process.kill()


def serve(pipe: Connection, pipes: dict[Connection, str], waiting: list[Task], out: Path, until: float) -> None:
    """Keep what a process found, and give it the next task; one that has ended or has nothing left is let go."""
    try:
        answer = pipe.recv()
    except (EOFError, OSError):
        del pipes[pipe]
        return
    if answer is not None:
        task, found = answer
        keep(out, task, found)
        print(f"{until - time.time():4.0f} s left", task.name, json.dumps(found)[:160], flush=True)
    task = next_task(waiting, pipes[pipe], until - time.time())
    pipe.send(task)
    if task is None:
        del pipes[pipe]


def merge(folder: Path) -> None:
    """Add what was measured elsewhere to benchmarks/results."""
    if (folder / "papers.json").exists():
        for name, found in json.loads((folder / "papers.json").read_text())["results"].items():
            paper_cells.keep(RESULTS / "papers.json", name, found)
    there = nkn.read(folder / "nkn.json")

    def add(done: dict[str, Any]) -> None:
        done["machines"] |= there["machines"]
        done["results"] |= there["results"]

    nkn.keep(RESULTS / "nkn.json", add)


def main() -> None:
    until = time.time()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--merge", type=Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", default="", help="names that begin so, with commas between")
    parser.add_argument("--older", default="", help="networks on tables measured before this date are measured again")
    parser.add_argument("--seconds", type=float, default=520.0)
    parser.add_argument("--cpu", type=int, default=12, help="processes without a GPU")
    parser.add_argument("--gpu", type=int, default=4, help="processes that share the GPU; 0: none")
    given = parser.parse_args()
    if given.merge:
        return merge(given.merge)
    tasks = [*choose_missing(first_tasks()), *choose_old(given.older), *choose_missing(large_tasks())]
    tasks = [task for task in tasks if task.name.startswith(tuple(given.only.split(",")))]
    if given.list:
        print("\n".join(f"{task.device:5} {task.seconds:5.0f} s  {task.name}" for task in tasks))
        return None
    if not given.data or not given.data.is_dir() or not given.out:
        parser.error("give --data, a folder that exists, and --out")
    if given.gpu:
        place, machine = nkn.here("cuda")
        nkn.keep(given.out / "nkn.json", lambda done: done["machines"].update({place: machine}))
    run(tasks, given.data, given.out, {"cuda": given.gpu, "cpu": given.cpu}, until + given.seconds)
    print(f"ended {until + given.seconds - time.time():.0f} s before the end; {len(tasks)} not begun", file=sys.stderr)


if __name__ == "__main__":
    main()
