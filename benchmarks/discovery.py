"""Kernel discovery on the 13 series of the Automatic Statistician, on kernels that are known, and on two tables.

    python -m benchmarks.discovery --data FOLDER [--part extrapolation,recovery,racing,...] [--only 01,03]
    python -m benchmarks.discovery --data FOLDER --merge FILE --out benchmarks/results/recovery.json  # from elsewhere

Default settings everywhere, no tuning for a series, the test part is never seen. A part that was finished for a series
is not run again unless it is older than `--older`, or with `--fresh`: a run can be stopped and continued. Results and
protocol: benchmarks/results/discovery.json and .md.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

import mercer
from benchmarks.known_kernels import draw, recovered, truths
from benchmarks.machine import NEVER, circumstances, describe, is_kept

RESULTS = Path(__file__).parent / "results"
SEED = 0


class Way(NamedTuple):
    """Where searches run."""

    jobs: int
    device: str


def search(way: Way, **settings: Any) -> mercer.GPRegressor:
    learner = mercer.GrammarSearch(**settings)
    return mercer.GPRegressor(kernel=learner, n_jobs=way.jobs, device=way.device, random_state=SEED)


def scores(model: mercer.GPRegressor, X: Any, y: np.ndarray) -> dict[str, float]:
    mean, std = model.predict(X, return_std=True)
    error = y - mean
    inside = np.abs(error) < 1.959964 * std
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "log_density": float(model.log_density(X, y).mean()),
        "inside_95": float(inside.sum()),
        "points": len(y),
    }


def series(path: Path, split: str, way: Way) -> dict[str, Any]:
    """One series: the averaged prediction (default) and the winner alone."""
    table = pd.read_csv(path)
    train, test = table[table[split] == "train"], table[table[split] == "test"]
    started = time.perf_counter()
    model = search(way).fit(train[["x"]], train["y"])
    seconds = time.perf_counter() - started
    alone = mercer.GPRegressor(str(model.kernel_), restarts=1, random_state=SEED, max_iterations=50)
    alone.fit(train[["x"]], train["y"])
    return {
        "seconds": seconds,
        "kernel": model.kernel_.text(digits=3),
        "log_evidence": model.log_evidence_,
        "bic": model.bic_,
        "candidates": len(model.candidates_),
        "average": scores(model, test[["x"]], test["y"].to_numpy()),
        "winner": scores(alone, test[["x"]], test["y"].to_numpy()),
    }


def racing(path: Path, race: bool, way: Way) -> dict[str, Any]:
    """The search with or without racing: seconds and log evidence."""
    table = pd.read_csv(path)
    train = table[table["extrap_9010"] == "train"]
    started = time.perf_counter()
    model = search(way, race=race, average=False).fit(train[["x"]], train["y"])
    return {
        "seconds": time.perf_counter() - started,
        "log_evidence": model.log_evidence_,
        "bic": model.bic_,
        "kernel": model.kernel_.text(digits=3),
    }


def recovery(truth: str, ratio: float, number: int, way: Way) -> dict[str, Any]:
    """Search on data drawn from a known kernel; compare structure and BIC with the true kernel, fitted."""
    X, y = draw(truth, ratio, rows=300, seed=number)
    model = search(way, average=False).fit(X, y)
    fitted = mercer.GPRegressor(truth, random_state=SEED, restarts=8).fit(X, y) if truth else None
    return {
        "found": model.kernel_.text(digits=3),
        "same_form": recovered(model.kernel_, truth),
        "bic": model.bic_,
        "bic_of_truth": fitted.bic_ if fitted is not None else None,
        "bic_of_noise": len(y) * math.log(2 * math.pi * math.e * y.var()) + math.log(len(y)),
    }


def tabular(folder: Path, name: str, split: int, way: Way, budget: float | None) -> dict[str, Any]:
    """One 90/10 split: the search, where asked for stopped after a time, against an ARD SE Gaussian process."""
    table = pd.read_csv(folder / "regression" / f"{name}.csv")
    splits = json.loads((folder / "regression" / "splits_nkn.json").read_text())[name]["random_test_rows"]
    held_out = np.isin(np.arange(len(table)), splits[str(split)])
    train, test = table[~held_out], table[held_out]
    columns, target = list(table.columns[:-1]), table.columns[-1]
    started = time.perf_counter()
    model = search(way, time_budget=budget).fit(train[columns], train[target])
    seconds = time.perf_counter() - started
    plain = mercer.GPRegressor("SE", random_state=SEED).fit(train[columns], train[target])
    y = test[target].to_numpy(dtype=float)
    return {
        "seconds": seconds,
        "budget": budget,
        "stopped": model.stopped_,
        "jobs": way.jobs,
        "candidates": len(model.candidates_),
        "kernel": model.kernel_.text(digits=3),
        "search": scores(model, test[columns], y),
        "ard_se": scores(plain, test[columns], y),
    }


def jobs_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what to run: name -> call without arguments."""
    folder, way = Path(arguments.data), Way(arguments.jobs, arguments.device)
    parts = arguments.part.split(",")
    files = sorted((folder / "timeseries").glob("*.csv"))
    if arguments.only:
        files = [f for f in files if f.name[:2] in arguments.only.split(",")]
    work: dict[str, Any] = {}
    for file in files:
        if "extrapolation" in parts:
            work[f"extrapolation/{file.stem}"] = lambda file=file: series(file, "extrap_9010", way)
        if "interpolation" in parts:
            work[f"interpolation/{file.stem}"] = lambda file=file: series(file, "interp_5050", way)
        if "racing" in parts:
            for name, race in (("raced", True), ("unraced", False)):
                work[f"racing/{file.stem}/{name}"] = lambda file=file, race=race: racing(file, race, way)
    if "recovery" in parts:
        for truth, ratio, number in truths():
            name = f"recovery/{truth or 'noise'}/{ratio:g}/{number}"
            work[name] = lambda t=truth, r=ratio, n=number: recovery(t, r, n, way)
    if "tabular" in parts:
        for name in ("concrete", "energy"):
            for split in (1, 2, 3):
                work[f"tabular/{name}/{split}"] = lambda n=name, s=split: tabular(folder, n, s, way, arguments.budget)
    return work


def _named(name: str, call: Callable[[], dict[str, Any]], until: float) -> tuple[str, dict[str, Any] | None]:
    """Return a result with its name; None where the time is over."""
    warnings.simplefilter("ignore")
    return name, None if time.time() > until else call() | circumstances()


def read(file: Path) -> dict[str, Any]:
    """Return the results of a file, each with its date; none where there is no file."""
    done: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"results": {}}
    for result in done["results"].values():  # as long as the file had one date for all
        result.setdefault("date", done.get("machine", {}).get("date", ""))
    return done


def write(done: dict[str, Any], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(done, indent=1) + "\n")


def run(done: dict[str, Any], work: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Carry out what is not there yet, or is older than it may be, and keep each result as it comes."""
    until = time.time() + 60.0 * arguments.minutes
    older = NEVER if arguments.fresh else arguments.older
    done["machine"] = describe()
    kept = done["results"]
    waiting = {name: call for name, call in work.items() if not (name in kept and is_kept(kept[name], older, name))}
    pool, left = Parallel(n_jobs=arguments.workers, return_as="generator_unordered", batch_size=1), 0
    for name, result in pool(delayed(_named)(name, call, until) for name, call in waiting.items()):
        if result is None:
            left += 1
            continue
        kept[name] = result
        write(done, arguments.out)
        print(name, json.dumps(result)[:300], flush=True)
    if left:
        print(f"{left} searches were not begun in time; the same command goes on with them", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="the folder with timeseries/ and regression/")
    parser.add_argument("--part", default="extrapolation,interpolation,recovery,tabular")
    parser.add_argument("--only", default="", help="numbers of series, such as 01,03")
    parser.add_argument("--jobs", type=int, default=2, help="kernels fitted at a time")
    parser.add_argument("--device", default="cpu", help="cuda: every lap of a search is one batch on the GPU")
    parser.add_argument("--workers", type=int, default=1, help="searches at a time (their seconds then say little)")
    parser.add_argument("--out", type=Path, default=RESULTS / "discovery.json")
    parser.add_argument("--reference", type=Path, help="published numbers; default: reference.json beside the data")
    parser.add_argument("--budget", type=float, default=None, help="seconds for the search on a table")
    parser.add_argument("--fresh", action="store_true", help="run again what was run; the rest of the file stays")
    parser.add_argument("--older", default="", help="run again what was run before this date")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no search after so many")
    parser.add_argument("--merge", type=Path, help="add what was measured elsewhere to --out, and run nothing")
    arguments = parser.parse_args()
    if arguments.merge and not arguments.merge.is_file():
        parser.error(f"there is no file {arguments.merge} to merge")
    reference = arguments.reference or Path(arguments.data).parent / "reference.json"
    done = read(arguments.out)
    if arguments.merge:
        brought = read(arguments.merge)
        done = {"machine": brought["machine"], "results": done["results"] | brought["results"]}
        write(done, arguments.out)
    else:
        run(done, jobs_of(arguments), arguments)
    from benchmarks.discovery_report import write_report

    if not reference.exists():
        print(f"no report: there is no {reference} with the published numbers (--reference)")
        return
    published = json.loads(reference.read_text())["automatic_statistician_13_series"]["raw"]
    print(write_report(done, published, arguments.out.with_suffix(".md")))


if __name__ == "__main__":
    main()
