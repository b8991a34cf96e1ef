"""Is the first answer a right one? Twelve tables of 8 to 12 columns; searches stopped after 10, 30 and 120 s.

    python -m benchmarks.first_answers --data FOLDER [--jobs 16] [--runs FOLDER] [--only NAME,NAME] [--seconds 10,30]
    python -m benchmarks.first_answers --report

Each table is divided once, at random: 300 to 3,000 rows to learn from, the others to judge by. `GrammarSearch` with a
time budget, all else by default, is compared with one SE on all columns (ARD) that is given the same seconds. That fit
is Mercer's own, from six starts as `GPRegressor("SE")` has them and, once more with as many seconds, from one start,
because six may not even begin in time; whichever has more evidence counts. Both stop between evaluations. The test
error is the root mean squared error in units of the spread of the test targets. Each run has one process on one core.

One run is one JSON file in `--runs`, so that the whole can be stopped and gone on with; `--report` only reads them.
Five tables are real ones (regression/ of the data folder); seven are made, from functions that are known.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# ruff: noqa: E402  (threads are counted when the libraries are imported)
for _pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_pool, "1")

import numpy as np
import pandas as pd

import mercer
from benchmarks.machine import describe, lines
from mercer.compute.program import compile_program
from mercer.fitting.minimise import fit
from mercer.fitting.problem import FitOptions
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.kernels import build_base, parse

RESULTS = Path(__file__).parent / "results"
SECONDS = (10, 30, 120)
ALLOWED = 1.02  # times the test error of ARD SE
LATE = 1.10  # times the budget
TEST_ROWS = 2000  # of made tables
Array = np.ndarray[Any, Any]
Function = Callable[[Array], Array]


@dataclass(frozen=True)
class Table:
    """A table: a file with its target last, or a function of columns that are uniform between 0 and 1."""

    name: str
    rows: int  # to learn from
    columns: int
    file: str | None = None
    left_out: tuple[str, ...] = ()
    function: Function | None = None
    noise: float = 0.1  # of the spread of the function

    def load(self, folder: Path) -> tuple[Array, Array, Array, Array]:
        """Return inputs and target to learn from, and those to judge by."""
        rng = np.random.default_rng(sum(map(ord, self.name)))
        if self.function is not None:
            X = rng.uniform(size=(self.rows + TEST_ROWS, self.columns))
            y = self.function(X)
            y = y + self.noise * y.std() * rng.standard_normal(len(y))
            order = np.arange(len(y))
        else:
            table = pd.read_csv(folder / "regression" / f"{self.file}.csv").drop(columns=list(self.left_out))
            X, y = table.iloc[:, :-1].to_numpy(float), table.iloc[:, -1].to_numpy(float)
            order = rng.permutation(len(y))
        train, test = order[: self.rows], order[self.rows : self.rows + TEST_ROWS]
        return X[train], y[train], X[test], y[test]


def add(X: Array) -> Array:
    return (
        np.sin(6 * X[:, 0]) + 2 * X[:, 1] ** 2 + np.exp(X[:, 2]) + np.abs(X[:, 3] - 0.5) + X[:, 4] + np.cos(9 * X[:, 5])
    )


def interact(X: Array) -> Array:
    return np.sin(4 * X[:, 0] * X[:, 1]) + 2 * X[:, 2] * X[:, 3] + np.cos(3 * (X[:, 4] - X[:, 5])) * X[:, 6]


def step(X: Array) -> Array:
    return np.floor(4 * X[:, 0]) + 2.0 * (X[:, 1] > 0.4) * (X[:, 2] > 0.6) + np.abs(np.sin(12 * X[:, 3])) + X[:, 4]


def ignore(X: Array) -> Array:
    return 3 * np.sin(5 * X[:, 2]) * X[:, 7] + 2 * X[:, 4] + np.square(X[:, 9] - 0.3)


def slope(X: Array) -> Array:
    return X @ np.linspace(-2.0, 2.0, X.shape[1]) + np.sin(7 * X[:, 0])


def friedman(X: Array) -> Array:
    return 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]


def borehole(X: Array) -> Array:
    """The flow of water through a borehole (Morris, Mitchell and Ylvisaker 1993), a ninth column without effect."""
    low = np.array([0.05, 100, 63070, 990, 63.1, 700, 1120, 9855])
    high = np.array([0.15, 50000, 115600, 1110, 116, 820, 1680, 12045])
    rw, r, tu, hu, tl, hl, length, kw = (low + X[:, :8] * (high - low)).T
    log = np.log(r / rw)
    return 2 * np.pi * tu * (hu - hl) / (log * (1 + 2 * length * tu / (log * rw**2 * kw) + tu / tl))


TABLES = (
    Table("concrete", 600, 8, "concrete"),
    Table("energy", 400, 8, "energy"),
    Table("wine", 1000, 11, "wine"),
    Table("kin8nm", 2000, 8, "kin8nm"),
    Table("boston", 300, 12, "boston", left_out=("CHAS",)),
    Table("adding", 300, 10, function=add),
    Table("interacting", 1000, 8, function=interact),
    Table("rough", 600, 8, function=step),
    Table("idle", 500, 12, function=ignore, noise=0.3),
    Table("linear", 300, 9, function=slope, noise=0.2),
    Table("friedman", 1500, 10, function=friedman),
    Table("borehole", 3000, 9, function=borehole, noise=0.02),
)


# ---------------------------------------------------------------------------------------------------------------- runs


def fit_ard(X: Array, y: Array, test: Array, seconds: float) -> dict[str, Any]:
    """Fit one SE with a lengthscale for each column, for that long, from six starts and from one."""
    shift, spread, level, size = X.mean(0), X.std(0), y.mean(), y.std()
    spread = np.where(spread > 0, spread, 1.0)
    data, engine = Data((X - shift) / spread, (y - level) / size, free_level=True), Exact()
    kernel, found, times = build_base("SE", *range(X.shape[1])), [], []
    for restarts in (6, 1):
        started = time.perf_counter()
        options = FitOptions(restarts, seed=0, until=time.time() + seconds)
        found.append(fit(kernel, data, engine, options))
        times.append(time.perf_counter() - started)
    best = max(found, key=lambda each: each.log_evidence)
    posterior = engine.posterior(compile_program(best.expression), best.values, best.likelihood, data)
    mean = level + size * posterior.predict((test - shift) / spread).mean
    starts = 6 if best is found[0] else 1
    return {"mean": mean, "seconds": max(times), "kernel": f"ARD SE, {starts} start(s), {best.evaluations} evaluations"}


def search(X: Array, y: Array, test: Array, seconds: float) -> dict[str, Any]:
    """Search for that long."""
    started = time.perf_counter()
    model = mercer.GPRegressor(mercer.GrammarSearch(time_budget=seconds), random_state=0).fit(X, y)
    took = time.perf_counter() - started
    kernel = mercer.kernels.structure(model.kernel_).text()
    return {
        "mean": model.predict(test), "seconds": took, "kernel": kernel, "stopped": model.stopped_,
        "candidates": len(model.candidates_), "bic": model.bic_,
    }  # fmt: skip


SYSTEMS = {"ard": fit_ard, "search": search}


def run(table: Table, system: str, seconds: int, data: Path, folder: Path) -> str:
    """Run one system on one table and write what came of it."""
    warnings.simplefilter("ignore")
    warm_up()
    X, y, test, truth = table.load(data)
    found = SYSTEMS[system](X, y, test, float(seconds))
    error = float(np.sqrt(np.mean((found.pop("mean") - truth) ** 2)) / truth.std())
    record = {"table": table.name, "rows": len(y), "columns": X.shape[1], "system": system, "budget": seconds,
              "error": error, **found, "machine": describe()}  # fmt: skip
    place = path_of(folder, table, system, seconds)
    partial = place.with_suffix(".part")
    partial.write_text(json.dumps(record, indent=1))
    partial.rename(place)
    return (
        f"{table.name:12s} {system:7s} {seconds:4d} s: error {error:.4f} in {found['seconds']:.1f} s, {found['kernel']}"
    )


def warm_up() -> None:
    """Load what is compiled: not part of any budget."""
    X = np.random.default_rng(0).normal(size=(20, 2))
    mercer.GPRegressor(parse("SE + LIN(0)*PER(1) + M12(0) + RQ"), restarts=1, max_iterations=2).fit(X, X[:, 0])


def path_of(folder: Path, table: Table, system: str, seconds: int) -> Path:
    """Return the file of a run."""
    return folder / f"{table.name}-{system}-{seconds}.json"


def run_all(tables: list[Table], seconds: list[int], data: Path, folder: Path, jobs: int) -> None:
    """Run what has no file yet, each in a process of its own, the longest first."""
    folder.mkdir(parents=True, exist_ok=True)
    todo = [
        (table, system, each)
        for each in sorted(seconds, reverse=True) for table in tables for system in SYSTEMS
        if not path_of(folder, table, system, each).exists()
    ]  # fmt: skip
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=1) as pool:
        waiting = [pool.submit(run, *each, data, folder) for each in todo]
        for done in as_completed(waiting):
            print(done.result(), flush=True)


# -------------------------------------------------------------------------------------------------------------- report


def rows_of(folder: Path, tables: list[Table], seconds: list[int]) -> Iterator[tuple[Table, int, dict[str, Any]]]:
    """Yield the runs of every table and budget that both systems have."""
    for table in tables:
        for each in seconds:
            paths = {system: path_of(folder, table, system, each) for system in SYSTEMS}
            if all(path.exists() for path in paths.values()):
                yield table, each, {system: json.loads(path.read_text()) for system, path in paths.items()}


def report(folder: Path, tables: list[Table], seconds: list[int]) -> str:
    """Return the results as Markdown."""
    found = list(rows_of(folder, tables, seconds))
    if not found:
        return "no runs\n"
    ratios = [runs["search"]["error"] / runs["ard"]["error"] for _, _, runs in found]
    late = [runs["search"]["seconds"] / each for _, each, runs in found]
    machine = found[0][2]["search"]["machine"]
    text = [
        "# First answers", "", __doc__.split("\n\n", 2)[2].strip(), "",
        "```text", *lines(machine), "```", "",
        f"Test error at most {ALLOWED} times that of ARD SE: {sum(r <= ALLOWED for r in ratios)} of {len(ratios)}. "
        f"Budget kept within a tenth: {sum(r <= LATE for r in late)} of {len(late)}.", "",
        "| table | rows | columns | seconds | ARD SE | search | ratio | took | kernels tried | kernel |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for (table, each, runs), ratio in zip(found, ratios, strict=True):
        ours, ard = runs["search"], runs["ard"]
        mark = "" if ratio <= ALLOWED else " (worse)"
        text.append(
            f"| {table.name} | {ours['rows']} | {ours['columns']} | {each} | {ard['error']:.4f} | "
            f"{ours['error']:.4f} | {ratio:.3f}{mark} | {ours['seconds']:.1f} | {ours['candidates']} | "
            f"`{ours['kernel']:.90}` |"
        )
    return "\n".join(text) + "\n"


def main() -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--runs", type=Path, default=RESULTS / "first-answers-runs")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", default=",".join(map(str, SECONDS)))
    parser.add_argument("--out", type=Path, default=RESULTS / "first-answers.md")
    parser.add_argument("--report", action="store_true", help="only write the report of the runs there are")
    given = parser.parse_args()
    chosen = [table for table in TABLES if not given.only or table.name in given.only.split(",")]
    seconds = [int(each) for each in given.seconds.split(",")]
    if not given.report:
        run_all(chosen, seconds, given.data, given.runs, given.jobs)
    text = report(given.runs, chosen, seconds)
    given.out.write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
