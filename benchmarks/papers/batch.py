"""What docs/papers.md lacks or has of older code, measured on a machine with a GPU and many cores within some minutes.

    python -m benchmarks.papers.batch --plan FILE              # what that is, most wanted first; needs git
    python -m benchmarks.papers.batch --tasks FILE --data FOLDER --out FOLDER [--seconds 520] [--cpu 12] [--gpu 4]
    python -m benchmarks.papers.batch --merge FOLDER           # what it brought, into benchmarks/results

Processes that stay alive take one measurement after the other, the most wanted first, and none that is not expected to
end in time; each is kept as it ends, in papers.json, nkn.json and kfo.json of the folder. At the end of the time all
processes are ended, whatever they do: nothing kept is lost. Seconds are not measured here, where many share a machine.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
import traceback
from dataclasses import asdict
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from benchmarks import kfo, nkn
from benchmarks.machine import describe
from benchmarks.papers import cells
from benchmarks.papers.files import RESULTS
from benchmarks.papers.history import NOT_KNOWN, knows_age
from benchmarks.papers.rows import ROWS
from benchmarks.papers.tasks import MODULES, Task, find_tasks, kept_in, kfo_settings

TIMED = ("seconds", "shares", "speed")  # kinds of cells whose time is what counts


def choose_tasks(only: str) -> list[Task]:
    """Return each once: those that a row has, of older code, before those it has not; the quickest first."""
    tasks = (task for row in ROWS for task in find_tasks(row) if task.name.split("/")[0] not in TIMED)
    found = {(task.file, task.name): task for task in tasks if task.name.startswith(tuple(only.split(",")))}
    known = {file: kept_in(file) for file in MODULES}
    return sorted(found.values(), key=lambda task: (task.name not in known[task.file], task.seconds))


# ------------------------------------------------------------------------------------------------------------ running


def measure(task: Task, folder: Path) -> dict[str, Any]:
    """Carry out one measurement."""
    if task.file == "papers":
        call = cells.all_cells(folder, task.device)[task.name]
        return cells.measure(task.name, call, float("inf"))[1] or {"failed": "no time"}
    part, table, *split = task.name.split("/")
    if task.file == "kfo":
        call = kfo.jobs_of(kfo_settings(folder, part, table, split[0] if split else "0"), {})[task.name]
        return kfo.carried_out(task.name, call, float("inf"))[1] or {"failed": "no time"}
    *split, method = split
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
        cells.keep(out / "failed.json", task.name, found)
    elif task.file == "papers":
        cells.keep(out / "papers.json", task.name, found)
    elif task.file == "kfo":
        kfo.keep(out / "kfo.json", task.name, found, describe())
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
            cells.keep(RESULTS / "papers.json", name, found)
    brought = nkn.read(folder / "kfo.json")
    for name, found in brought["results"].items():
        kfo.keep(RESULTS / "kfo.json", name, found, brought["machines"][name.split("/")[0]])
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
    parser.add_argument("--plan", type=Path, help="write what there is to measure to a file, and measure nothing")
    parser.add_argument("--tasks", type=Path, help="a file that --plan has written")
    parser.add_argument("--only", default="", help="names that begin so, with commas between")
    parser.add_argument("--seconds", type=float, default=520.0)
    parser.add_argument("--cpu", type=int, default=12, help="processes without a GPU")
    parser.add_argument("--gpu", type=int, default=4, help="processes that share the GPU; 0: none")
    given = parser.parse_args()
    if given.merge:
        return merge(given.merge)
    if given.plan:
        if not knows_age():
            print(f"{NOT_KNOWN}; the plan has what is missing")
        tasks = choose_tasks(given.only)
        given.plan.write_text(json.dumps([asdict(task) for task in tasks], indent=1) + "\n")
        print("\n".join(f"{task.device:5} {task.seconds:5.0f} s  {task.file} {task.name}" for task in tasks))
        return None
    if not given.tasks or not given.data or not given.data.is_dir() or not given.out:
        parser.error("give --tasks, a file that --plan has written, --data, a folder that exists, and --out")
    tasks = [Task(**each) for each in json.loads(given.tasks.read_text())]
    if given.gpu:
        place, machine = nkn.here("cuda")
        nkn.keep(given.out / "nkn.json", lambda done: done["machines"].update({place: machine}))
    run(tasks, given.data, given.out, {"cuda": given.gpu, "cpu": given.cpu}, until + given.seconds)
    print(f"ended {until + given.seconds - time.time():.0f} s before the end; {len(tasks)} not begun", file=sys.stderr)


if __name__ == "__main__":
    main()
