"""Bounds instead of values: how tight they are, a search by intervals, and the engines below them.

    python -m benchmarks.scale --data FOLDER --part brackets [--only solar,mauna,concrete,power_plant]
    python -m benchmarks.scale --data FOLDER --part search [--jobs 2] [--device cuda] [--exact]
    python -m benchmarks.scale --data FOLDER --part defaults
    python -m benchmarks.scale --data FOLDER                 # all parts of this file and of benchmarks/scale_engine.py

A part is a function of the arguments that returns plain data with a "protocol"; PARTS is the table of them. Results:
benchmarks/results/scale.json and scale.md; what was measured for one data set is kept when another is measured.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import mercer
from benchmarks import scale_engine
from benchmarks.machine import describe, lines
from benchmarks.scale_report import write_report
from mercer.compute.program import compile_program
from mercer.inference.bounds import BoundPolicy, interval
from mercer.inference.vfe import VFEPosterior
from mercer.kernels.parameters import values_of

RESULTS = Path(__file__).parent / "results"
FILES = {
    "solar": "timeseries/02-solar.csv",
    "mauna": "timeseries/03-mauna.csv",
    "concrete": "regression/concrete.csv",
    "power_plant": "regression/power_plant.csv",
}
BRACKETS = ("solar", "mauna", "concrete")
BASES = ("SE", "PER", "LIN", "RQ")  # of the published searches
POINTS, DEPTH, SEED = 320, 3, 0


def standardised(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and target of a file, each column with mean zero and variance one."""
    table = pd.read_csv(folder / FILES[name])
    if name in ("solar", "mauna"):
        table = table[["x", "y"]]
    rows = table.to_numpy(dtype=float)
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    return rows[:, :-1], rows[:, -1]


def ends(model: mercer.GPRegressor) -> dict[str, Any]:
    """Return both ends of log evidence and of log p - p/2 log N, the fitted constant counted as a parameter."""
    lower, upper = model.evidence_interval()
    rows, parameters = len(model.y_train_), model.n_parameters_ + 1
    price = 0.5 * parameters * math.log(rows)
    return {
        "rows": rows,
        "parameters": parameters,
        "log_evidence": [lower, upper],
        "gap": (upper - lower) / min(abs(lower), abs(upper)),
        "gap_with_the_engines_points": gap_of(model),
        "bic": [lower - price, upper - price],
        "kernel": model.kernel_.text(digits=3),
        "noise": model.noise_,
    }


def gap_of(model: mercer.GPRegressor) -> float | None:
    """Return the gap with the engine's inducing points; `evidence_interval` takes more where that is wide."""
    data, member = model.fitted_.training.data, model.fitted_.mixture.members[0]
    if not isinstance(member.posterior, VFEPosterior):
        return None
    held = member.posterior.solution.model.Z
    program, values, close = compile_program(member.kernel), values_of(member.kernel), BoundPolicy(traces=True)
    found = interval(program, values, member.noise, data, held, close)
    shift = data.count * math.log(model.fitted_.units.y_scale)
    return found.width / min(abs(found.lower - shift), abs(found.upper - shift))


def bracket(folder: Path, name: str, jobs: int) -> dict[str, Any]:
    """Find a structure by exact search, fit it to the lower bound with 320 points, and bound its evidence."""
    X, y = standardised(folder, name)
    started, worked = time.perf_counter(), time.process_time()
    search = mercer.GrammarSearch(bases=BASES, max_depth=DEPTH if X.shape[1] > 1 else None, average=False)
    exact = mercer.GPRegressor(search, random_state=SEED, n_jobs=jobs, inference=mercer.Exact()).fit(X, y)
    found = mercer.GPRegressor(exact.kernel_, inference=mercer.VFE(inducing=POINTS), random_state=SEED).fit(X, y)
    return {
        **ends(found),
        "exact_log_evidence": exact.log_evidence_,
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - worked if jobs == 1 else None,
    }


def bracket_of_search(folder: Path, name: str, jobs: int) -> dict[str, Any]:
    """Fit what a search by intervals found (`--part search`) to the lower bound, and bound its evidence."""
    X, y = standardised(folder, name)
    kernel = json.loads((RESULTS / "scale.json").read_text())["search"]["cpu"]["kernel"]
    started = time.perf_counter()
    engine = mercer.VFE(inducing=POINTS)
    found = mercer.GPRegressor(kernel, inference=engine, random_state=SEED, n_jobs=jobs).fit(X, y)
    return {**ends(found), "seconds": time.perf_counter() - started}


def brackets(arguments: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Both ends for three data sets; `--only power_plant`, which is too large for exact search, after its search."""
    for name in [name for name in arguments.only.split(",") if name in FILES] or BRACKETS:
        measure = bracket if name in BRACKETS else bracket_of_search
        yield name, measure(Path(arguments.data), name, arguments.jobs)


def search(arguments: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """A search by intervals on power plant, three steps from the base kernels; `--exact`: scores on a sample."""
    X, y = standardised(Path(arguments.data), "power_plant")
    learner = mercer.GrammarSearch(bases=BASES, max_depth=DEPTH)
    engine: Any = "auto" if arguments.exact else mercer.VFE(inducing=POINTS)
    started, worked = time.perf_counter(), time.process_time()
    model = mercer.GPRegressor(
        learner, inference=engine, random_state=SEED, n_jobs=arguments.jobs, device=arguments.device
    )
    model.fit(X, y, progress=make_printer())
    seconds, cpu = time.perf_counter() - started, time.process_time() - worked
    reasons = Counter(c.verdict.kind for c in model.candidates_ if c.verdict is not None)
    yield (
        f"{arguments.device}{', exact' if arguments.exact else ''}{', one job' if arguments.jobs == 1 else ''}",
        {
            **ends(model),
            "seconds": seconds,
            "cpu_seconds": cpu if arguments.jobs == 1 else None,
            "jobs": arguments.jobs,
            "load": os.getloadavg()[0],
            "inference": model.inference_.reason,
            "candidates": len(model.candidates_),
            "left_behind": dict(reasons),
            "members": [member.within for member in model.fitted_.mixture.members],
        },
    )


def make_printer() -> Callable[[Any], None]:
    """Return a callback that prints a line for each rung."""
    seen: set[tuple[int, int]] = set()

    def report(state: Any) -> None:
        place = (state.depth, state.rung)
        if state.done == state.total and place not in seen:
            seen.add(place)
            best = "" if state.best is None else state.best.text(digits=3)
            where = f"step {state.depth}, rung {state.rung}"
            print(f"{state.seconds:7.0f} s  {where}: {state.total} kernels  {best}", flush=True)

    return report


def defaults(arguments: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """`mercer discover power_plant.csv --target PE`, nothing else said: what it names, and its BIC on scaled data."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "mercer", "discover", str(Path(arguments.data) / FILES["power_plant"])]
        started, worked = time.perf_counter(), sum(os.times()[2:4])
        subprocess.run([*command, "--target", "PE", "--out", folder], check=True)
        seconds, cpu = time.perf_counter() - started, sum(os.times()[2:4]) - worked
        yield "power_plant", {**read_answer(Path(folder)), "seconds": seconds, "cpu_seconds": cpu}


def read_answer(folder: Path) -> dict[str, Any]:
    """Return what `mercer discover` left in a folder: its first answer, its words for inputs, and its BIC."""
    said = json.loads((folder / "explanation.json").read_text())
    model = mercer.load(folder / "model.mercer")
    found, shift = ends(model), len(model.y_train_) * math.log(float(np.std(model.y_train_)))
    return {
        **found,
        "log_evidence": [end + shift for end in found["log_evidence"]],  # as if the target had been standardised
        "bic": [end + shift for end in found["bic"]],
        "load": os.getloadavg()[0],
        "chosen": said["chosen"]["sentence"],
        "answers": [answer["sentence"] for answer in said["answers"] if answer["question"] == "inputs"],
        "inputs": [effect["sentence"] for effect in said["effects"]] + said["interactions"],
        "held_out": said["held_out"]["sentence"],
    }


PARTS: dict[str, Callable[[argparse.Namespace], Any]] = {
    "brackets": brackets, "search": search, "defaults": defaults, **scale_engine.PARTS,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = [part for part in PARTS if part != "cuda"]
    parser.add_argument("--part", default=",".join(usual), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--exact", action="store_true", help="search: with the engine that is chosen for the device")
    scale_engine.add_arguments(parser)
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("--data: the folder with timeseries/ and regression/")
    file = RESULTS / "scale.json"
    for part in arguments.part.split(","):
        machine = describe()
        print("\n".join([f"part        {part}", *lines(machine), ""]), flush=True)
        found = PARTS[part](arguments)
        for name, result in [("", found)] if isinstance(found, dict) else found:
            done = json.loads(file.read_text()) if file.exists() else {}
            done.setdefault(part, {})[name] = {"machine": machine, **result}
            file.write_text(json.dumps(done, indent=1) + "\n")
            print(json.dumps({name: result}, indent=1), flush=True)
    print(write_report(json.loads(file.read_text()), RESULTS / "scale.md"))


if __name__ == "__main__":
    main()
