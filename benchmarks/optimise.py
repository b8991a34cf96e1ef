"""Bayesian optimisation: Mercer, the NKN paper's variants, BoTorch, Optuna and random search on the same functions.

    python -m benchmarks.optimise [--functions styblinski,branin] [--methods mercer,botorch] [--runs 0-4] [--calls 200]
                                  [--jobs 16] [--minutes 9] [--out FOLDER]
    python -m benchmarks.optimise --ask          # the time of one ask at 200, 2,000, 4,000 points (short: --points 60)
    python -m benchmarks.optimise --table        # only the table

Run k has seed k for everything: the ten random points that all methods are given first, what a method draws, and a
function that is random. Every run is one file in the folder, written while it goes on; a run that was stopped, by hand
or by `--minutes`, goes on from its file (where a method keeps numbers of its own, perhaps another way than it would
have gone), and one that is complete is not run again. Methods and functions are taken in the order given, the first
run of all before the second. Each run has one thread, `--jobs` of them run at a time.
Results and protocol: benchmarks/results/optimise.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.machine import describe, is_kept, lines
from benchmarks.optimise_functions import FIRST, FUNCTIONS, make_function
from benchmarks.optimise_methods import CALLS, METHODS, RUNS, Method, find_missing, suits

RESULTS = Path(__file__).parent / "results"
LOOK = 100  # evaluations after which the expected further gain is noted
SAVE_SECONDS = 20.0
MANY = "200,2000,4000"  # points at which one ask is timed; the others than Mercer only at the first number
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class Job(NamedTuple):
    """One run of a method on a function."""

    function: str
    method: str
    run: int
    calls: int

    @property
    def name(self) -> str:
        return f"{self.function}/{self.method}/{self.run}"

    @property
    def file(self) -> str:
        return f"{self.name.replace('/', '--')}.json"


def plan(methods: list[str], functions: list[str], runs: str, calls: int) -> list[Job]:
    """Return what to run, in order: the first run of everything, then the second."""
    jobs = []
    for run in parse_runs(runs):
        for method in methods:
            most = RUNS.get(method, 5) if runs == "usual" else run + 1
            jobs += [
                Job(function, method, run, min(calls, CALLS.get(method, calls)))
                for function in functions
                if run < most and suits(method, function)
            ]
    return jobs


def parse_runs(text: str) -> list[int]:
    """Read 5 (the first five), 0-4, or 0,3."""
    if text == "usual":
        return list(range(10))
    if text.isdigit():
        return list(range(int(text)))
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def read(path: Path) -> dict[str, Any] | None:
    """Return what a file holds, or None where there is none that can be read."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found


def write(record: dict[str, Any], path: Path) -> None:
    """Replace the file in one go: a run that is stopped while writing loses nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}.part")
    beside.write_text(json.dumps(record), encoding="utf-8")
    os.replace(beside, path)


def is_complete(job: Job, folder: Path) -> bool:
    """Tell whether a run has all its evaluations."""
    record = read(folder / job.file)
    return record is not None and len(record["values"]) >= job.calls


def choose(jobs: list[Job], folder: Path, older: str) -> list[Job]:
    """Return the runs that no summary holds, or only one from before a date; files as old give way to new ones."""
    from benchmarks.optimise_report import read_runs

    for path in folder.glob("*--*--*.json"):
        record = read(path)
        if record is not None and not is_kept(record["machine"], older, path.stem.replace("--", "/")):
            path.unlink()
    summaries = read_runs(folder, RESULTS / "optimise.json").all()
    dates = {f"{s['function']}/{s['method']}/{s['run']}": s["machine"][0].removeprefix("date") for s in summaries}
    return [
        job for job in jobs if job.name not in dates or not is_kept({"date": dates[job.name].strip()}, older, job.name)
    ]


def carry_out(job: Job, folder: Path, until: float = float("inf")) -> dict[str, Any]:
    """Run a job from its file, or from the beginning; stop in time, with the file written."""
    warnings.simplefilter("ignore")
    path, function = folder / job.file, make_function(job.function, job.run)
    record = read(path) or {
        "function": job.function, "method": job.method, "run": job.run, "points": [], "values": [], "ask": [],
        "tell": [], "evaluate": 0.0, "facts": {},
    }  # fmt: skip
    record |= {"calls": job.calls, "machine": describe()}
    method = METHODS[job.method](function, job.run)
    for point, value in zip(record["points"], record["values"], strict=True):
        method.tell(point, value)
    if record["values"]:
        method.resume(record["facts"])
    waiting, saved = function.first_points(job.run)[len(record["values"]) :], time.time()
    while len(record["values"]) < job.calls and time.time() < until:
        began = time.perf_counter()
        point = waiting.pop(0) if waiting else method.ask()
        asked = time.perf_counter()
        if len(record["values"]) == LOOK:  # just asked, so what it expects is up to date
            record["facts at look"] = method.facts()
        paused = time.perf_counter()
        value = function.evaluate(point)
        evaluated = time.perf_counter()
        method.tell(point, value)
        record["points"].append(point)
        record["values"].append(value)
        record["ask"].append(round(asked - began, 5))
        record["tell"].append(round(time.perf_counter() - evaluated, 5))
        record["evaluate"] += evaluated - paused
        if time.time() > saved + SAVE_SECONDS:
            record["facts"], saved = method.facts(), time.time()
            write(record, path)
    record["facts"] = method.facts()
    if len(record["values"]) >= job.calls:
        record["words"] = describe_words(method)
        record["groups"] = function.groups
    write(record, path)
    return record


def describe_words(method: Method) -> str:
    """Return what a method says about the function, where it says something."""
    words = getattr(method, "words", None)
    try:
        return words()[:4000] if words is not None else ""
    except Exception as error:  # the figures of the run are worth having without it
        return f"{type(error).__name__}: {error}"


def try_job(job: Job, folder: Path, until: float) -> tuple[Job, str]:
    """Return a job with how it went."""
    if time.time() > until:
        return job, "no time"
    began = time.time()
    try:
        record = carry_out(job, folder, until)
    except Exception as error:  # one run of hundreds: the others are worth having
        where = traceback.extract_tb(error.__traceback__)[-1]
        return job, f"failed: {type(error).__name__}: {error} ({where.name}, line {where.lineno})"[:400]
    done, seconds = len(record["values"]), time.time() - began
    state = "done" if done >= job.calls else f"stopped after {done}"
    return job, f"{state}, best {min(record['values'], default=math.nan):.5g}, {seconds:.0f} s"


def run_all(jobs: list[Job], folder: Path, workers: int, until: float) -> Iterator[tuple[Job, str]]:
    """Yield jobs as they end."""
    if workers == 1:
        yield from (try_job(job, folder, until) for job in jobs)
        return
    from joblib import Parallel, delayed, parallel_config

    with parallel_config("loky", n_jobs=workers, inner_max_num_threads=1):
        calls = (delayed(try_job)(job, folder, until) for job in jobs)
        yield from Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="all")(calls)


def time_asks(methods: list[str], folder: Path, counts: list[int], repeats: int = 5) -> dict[str, Any]:
    """Tell random points of the ten-dimensional function to every method, and time some asks of each in turn."""
    function = make_function("styblinski", 0)
    found: dict[str, Any] = {"machine": describe(), "seconds": {}}
    for count in counts:
        rng, begun = np.random.default_rng(0), {}
        for name in methods:
            if count == counts[0] or name.startswith("mercer"):
                begun[name] = METHODS[name](function, 0)
        for shares in rng.random((count, len(function.inputs))):
            point = function.draw(shares)
            for method in begun.values():
                method.tell(point, function.evaluate(point))
        seconds: dict[str, list[float]] = {name: [] for name in begun}
        for _ in range(repeats):
            for name, method in begun.items():
                started = time.perf_counter()
                point = method.ask()
                method.tell(point, function.evaluate(point))
                seconds[name].append(round(time.perf_counter() - started, 4))
        found["seconds"][str(count)] = seconds
        for name, each in seconds.items():
            print(f"{count} points: {name} {statistics.median(each):.3f} s (first {each[0]:.3f} s)", flush=True)
    write(found, folder / "ask.json")
    return found


def parse_arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default=",".join(METHODS), help="in this order; some of %(default)s")
    parser.add_argument("--functions", default=",".join(FUNCTIONS), help="in this order; some of %(default)s")
    parser.add_argument(
        "--runs", default="usual", help="5 (the first five), 0-4 or 0,3; usual: 10 of Mercer, 5 of others"
    )
    parser.add_argument("--calls", type=int, default=200, help="evaluations, the ten random ones included")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, one thread each")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after this many; call again to go on")
    parser.add_argument("--out", type=Path, default=RESULTS / "optimise-runs", help="the folder of the runs")
    parser.add_argument("--older", default="", help="run only what has no summary, or one from before this date")
    parser.add_argument("--ask", action="store_true", help="time one ask at 200, 2,000 and 4,000 points")
    parser.add_argument("--points", default=MANY, help="how many points --ask tells first, Mercer alone at all but one")
    parser.add_argument("--table", action="store_true", help="run nothing; write the table from the files")
    arguments = parser.parse_args(given)
    for option, known in (("methods", METHODS), ("functions", FUNCTIONS)):
        chosen = [name for name in getattr(arguments, option).split(",") if name]
        unknown = [name for name in chosen if name not in known]
        if unknown:
            parser.error(f"--{option} has no {', '.join(unknown)}; there are {', '.join(known)}")
        setattr(arguments, option, chosen)
    if arguments.calls <= FIRST:
        parser.error(f"--calls must be more than {FIRST}, the random points")
    return arguments


def main(given: list[str] | None = None) -> None:
    until = time.time()
    arguments = parse_arguments(given)
    until += 60.0 * arguments.minutes
    print(__doc__.split("\n\n")[2].strip(), *lines(describe()), sep="\n", flush=True)
    missing = {name: find_missing(name) for name in arguments.methods}
    for name, reason in missing.items():
        if reason is not None and not arguments.table:
            print(f"without {name}: {reason}", flush=True)
    methods, failed, left = [name for name in arguments.methods if missing[name] is None], 0, 0
    if arguments.ask:
        counts = [int(text) for text in arguments.points.split(",")]
        time_asks([name for name in methods if name in ("mercer", "botorch", "optuna-gp")], arguments.out, counts)
    elif not arguments.table:
        for name in THREADS:
            os.environ.setdefault(name, "1")
        jobs = plan(methods, arguments.functions, arguments.runs, arguments.calls)
        jobs = choose(jobs, arguments.out, arguments.older) if arguments.older else jobs
        waiting = [job for job in jobs if not is_complete(job, arguments.out)]
        print(f"{len(jobs)} runs, {len(waiting)} of them to do", flush=True)
        for job, outcome in run_all(waiting, arguments.out, arguments.jobs, until):
            failed += outcome.startswith("failed")
            left += outcome.startswith(("no time", "stopped"))
            if outcome != "no time":
                print(job.function, job.method, job.run, outcome, flush=True)
    from benchmarks.optimise_report import write_report

    usual = arguments.out == RESULTS / "optimise-runs"
    write_report(arguments.out, RESULTS / "optimise.md" if usual or arguments.table else arguments.out / "optimise.md")
    if failed or left:
        raise SystemExit(f"{failed} runs failed, {left} are not complete; the same command goes on with them")


if __name__ == "__main__":
    main()
