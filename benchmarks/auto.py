"""Which learner has the lowest error on new rows in a given time, by rows and columns? The reasons of `AutoPolicy`.

    python -m benchmarks.auto --runs FOLDER [--seconds 20] [--only NAME,NAME] [--systems search,nkn]
    python -m benchmarks.auto --runs FOLDER --report

Made tables whose functions are known; each learner has the same seconds of one core's work, and is judged by the root
mean squared error of new rows in units of the spread of the function. One run is one JSON file in `--runs`, so that the
whole can be stopped and gone on with; `--report` reads them and writes results/auto.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# ruff: noqa: E402  (threads are counted when the libraries are imported)
for _pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_pool, "1")

# Seconds of the processor: on a machine with other work, those of a clock would say what the others did. Everything
# runs in this process, and clocks are read from these two functions, which therefore come before Mercer.
_begun, _worked = time.time(), time.process_time()
time.perf_counter, time.time = time.process_time, lambda: _begun + time.process_time() - _worked

import numpy as np

import mercer
from benchmarks.first_answers import warm_up
from benchmarks.machine import describe, lines

RESULTS = Path(__file__).parent / "results"
TEST_ROWS = 1000
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Table:
    """A function of columns that are uniform between 0 and 1, with noise of a tenth of its spread."""

    name: str
    rows: int
    columns: int
    function: Callable[[Array], Array]
    noise: float = 0.1
    grid: bool = False

    def make(self) -> tuple[Array, Array, Array, Array]:
        """Return inputs and target to learn from, and inputs and values of the function to judge by."""
        rng = np.random.default_rng(sum(map(ord, self.name)))
        X = rng.uniform(size=(self.rows, self.columns))
        if self.grid:
            axis = np.linspace(0.0, 1.0, round(self.rows ** (1.0 / self.columns)))
            X = np.stack([part.ravel() for part in np.meshgrid(*[axis] * self.columns)], axis=1)
        test = rng.uniform(size=(TEST_ROWS, self.columns))
        clean, truth = self.function(X), self.function(test)
        return X, clean + self.noise * clean.std() * rng.standard_normal(len(X)), test, truth


def season(X: Array) -> Array:
    """Rise with a rhythm that grows; the last column counts most."""
    t = X[:, 0]
    return 3 * t + (0.5 + t) * np.sin(2 * np.pi * 12 * t) + 0.7 * np.exp(-(((t - 0.6) / 0.08) ** 2))


def mixed(X: Array) -> Array:
    """Sum of curves, and a product."""
    return np.sin(5 * X[:, 0]) + 2 * X[:, 1] * X[:, 2] + np.abs(X[:, 3] - 0.4) * 3


def friedman(X: Array) -> Array:
    """Friedman's function of five columns; others have no effect."""
    return 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]


def entwined(X: Array) -> Array:
    """Products of three columns: no sum of curves comes near."""
    parts = [np.sin(4 * X[:, i] * X[:, i + 1] + X[:, i + 2]) for i in range(0, X.shape[1] - 2, 2)]
    return np.sum(parts, axis=0) + np.cos(3 * (X[:, 0] - X[:, -1])) * X[:, 1]


def hills(X: Array) -> Array:
    """A landscape over two columns."""
    return np.sin(7 * X[:, 0]) * np.cos(5 * X[:, 1]) + X[:, 0] + 0.3 * np.sin(20 * X[:, 1])


TABLES = (
    *(Table(f"season-{n}", n, 1, season) for n in (30, 150, 600, 2500, 6000)),
    *(Table(f"mixed4-{n}", n, 4, mixed) for n in (40, 150, 600, 2500, 6000)),
    *(Table(f"friedman10-{n}", n, 10, friedman) for n in (60, 150, 600, 2500, 6000)),
    *(Table(f"entwined5-{n}", n, 5, entwined) for n in (60, 150, 600, 2500)),
    *(Table(f"friedman25-{n}", n, 25, friedman) for n in (150, 600, 2500)),
    *(Table(f"hills-grid-{n}", n, 2, hills, 0.3, grid=True) for n in (900, 4900, 14400)),
)


def search(seconds: float) -> Any:
    return mercer.GrammarSearch(time_budget=seconds)


def rings(X: Array) -> Array:
    """Rings around the middle of the first two columns."""
    return np.floor(7 * np.hypot(X[:, 0] - 0.5, X[:, 1] - 0.5)) % 3


def corners(X: Array) -> Array:
    """Which of three slopes is steepest, of five columns."""
    return np.argmax(np.stack([X[:, 0] * X[:, 1], X[:, 2] ** 2, 0.6 * X[:, 3] + 0.2 * X[:, 4]]), axis=0).astype(float)


CLASS_TABLES = (
    *(Table(f"rings2-{n}", n, 2, rings) for n in (100, 500, 2000)),
    *(Table(f"corners8-{n}", n, 8, corners) for n in (100, 500, 2000, 4000)),
)
CLASS_SYSTEMS: dict[str, Callable[[float], Any]] = {
    "class-rbf": lambda seconds: "rbf",
    "class-mkl": lambda seconds: "mkl",
    "class-kfo": lambda seconds: mercer.KernelFunctional(time_budget=seconds),
    "class-auto": lambda seconds: mercer.AutoKernel(time_budget=seconds),
}


def run_classes(table: Table, system: str, seconds: float, place: Path) -> str:
    """Learn classes, of which a twentieth are wrong, by one system."""
    rng = np.random.default_rng(sum(map(ord, table.name)))
    X, test = rng.uniform(size=(table.rows, table.columns)), rng.uniform(size=(TEST_ROWS, table.columns))
    y = np.where(rng.uniform(size=len(X)) < 0.05, rng.integers(0, 3, len(X)), table.function(X)).astype(int)
    started = time.perf_counter()
    model = mercer.KernelSVC(CLASS_SYSTEMS[system](seconds), random_state=0).fit(X, y)
    took = time.perf_counter() - started
    error = float(np.mean(model.predict(test) != table.function(test)))
    record = {"table": table.name, "rows": table.rows, "columns": table.columns, "system": system, "budget": seconds,
              "error": error, "seconds": took, "machine": describe()}  # fmt: skip
    place.write_text(json.dumps(record, indent=1))
    return f"{table.name:16s} {system:9s} error {error:.4f} in {took:.1f} s"


SYSTEMS: dict[str, Callable[[float], Any]] = {
    "se": lambda seconds: "SE",
    "search": search,
    "nkn": lambda seconds: mercer.NeuralKernelNetwork(time_budget=seconds),
    "partition": lambda seconds: mercer.PartitionSampler(time_budget=seconds),
    "auto": lambda seconds: mercer.AutoKernel(time_budget=seconds),
}


def run(table: Table, system: str, seconds: float, place: Path) -> str:
    """Learn a table by one system, and write what came of it."""
    X, y, test, truth = table.make()
    started = time.perf_counter()
    model = mercer.GPRegressor(SYSTEMS[system](seconds), random_state=0).fit(X, y)
    took = time.perf_counter() - started
    mean, std = model.predict(test, return_std=True, include_noise=False)
    error = float(np.sqrt(np.mean((mean - truth) ** 2)) / truth.std())
    record = {
        "table": table.name, "rows": table.rows, "columns": table.columns, "system": system, "budget": seconds,
        "error": error, "covered": float(np.mean(np.abs(mean - truth) < 1.96 * std)), "seconds": took,
        "stopped": model.stopped_, "engine": type(model.inference_.engine).__name__,
        "kernel": mercer.kernels.structure(model.kernel_).text()[:200], "machine": describe(),
    }  # fmt: skip
    place.write_text(json.dumps(record, indent=1))
    return f"{table.name:16s} {system:9s} error {error:.4f} in {took:.1f} s {record['kernel'][:80]}"


def report(folder: Path) -> str:
    """Return a table: the error of each learner on each made table, the lowest in bold."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    budgets = sorted({one["budget"] for one in found})
    systems_of = {False: (SYSTEMS, TABLES), True: (CLASS_SYSTEMS, CLASS_TABLES)}
    text = [
        "# Which learner for which table", "",
        "`python -m benchmarks.auto`: error on new rows (root mean square, in units of the function's spread), seconds",
        "of one core's work in brackets; the lowest in bold, and all within 5 % of it. A learner that had nothing left",
        "to try ended earlier. `make bench-auto SECONDS=120 JOBS=14` measures all with the time of `AutoPolicy`.", "",
    ]  # fmt: skip
    for budget, classes in itertools.product(budgets, (False, True)):
        known, tables = systems_of[classes]
        systems = [name for name in known if any(o["system"] == name and o["budget"] == budget for o in found)]
        if not systems:
            continue
        what = ", classes: share misclassified" if classes else ""
        text += [f"## {budget:g} s{what}", "", f"| table | rows | columns | {' | '.join(systems)} |"]
        text.append("|---|---|---|" + "---|" * len(systems))
        for table in tables:
            own = {o["system"]: o for o in found if o["table"] == table.name and o["budget"] == budget}
            if not own:
                continue
            best = min(one["error"] for one in own.values())
            cells = []
            for name in systems:
                one = own.get(name)
                if one is None:
                    cells.append("")
                    continue
                mark = "**" if one["error"] <= 1.05 * best else ""
                cells.append(f"{mark}{one['error']:.3f}{mark} ({one['seconds']:.0f})")
            text.append(f"| {table.name} | {table.rows:,} | {table.columns} | {' | '.join(cells)} |")
        text.append("")
    return "\n".join([*text, *lines(found[0]["machine"])]) + "\n"


def list_work(given: argparse.Namespace) -> list[tuple[Table, str, Path]]:
    """Return the runs that are asked for and not done yet."""
    work = []
    for table, system in itertools.product((*TABLES, *CLASS_TABLES), given.systems.split(",")):
        place = given.runs / f"{table.name}-{system}-{given.seconds:g}.json"
        wanted = not given.only or table.name in given.only.split(",")
        idle = system == "partition" and (table.columns == 1 or table.grid)
        if (system in CLASS_SYSTEMS) == (table in CLASS_TABLES) and wanted and not idle and not place.exists():
            work.append((table, system, place))
    return work


def run_one(name: str, system: str, seconds: float, place: Path) -> str:
    """Run one of them, in a process that may have done others."""
    warnings.simplefilter("ignore")
    warm_up()
    table = next(table for table in (*TABLES, *CLASS_TABLES) if table.name == name)
    return (run_classes if system in CLASS_SYSTEMS else run)(table, system, seconds, place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--systems", default=",".join(name for name in (*SYSTEMS, *CLASS_SYSTEMS) if name != "se"))
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, each in a process of its own")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds after which no other run begins")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    if given.report:
        (RESULTS / "auto.md").write_text(report(given.runs))
        return
    given.runs.mkdir(parents=True, exist_ok=True)
    work, started = list_work(given), time.perf_counter()
    if given.jobs == 1:
        for table, system, place in work:
            if time.perf_counter() - started < given.limit:
                print(run_one(table.name, system, given.seconds, place), flush=True)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.jobs, mp_context=spawn) as pool:
        tasks = [pool.submit(run_one, table.name, system, given.seconds, place) for table, system, place in work]
        for task in as_completed(tasks):
            print(task.result(), flush=True)


if __name__ == "__main__":
    main()
