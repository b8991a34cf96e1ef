"""PCA splits (NKN 5.2.2): which of several structures, or what average of them, predicts beyond its rows?

    python -m benchmarks.nkn_pca --data FOLDER --stage nested [--jobs 16] [--limit SECONDS]
    python -m benchmarks.nkn_pca --data FOLDER --stage test [--jobs 16] [--limit SECONDS]
    python -m benchmarks.nkn_pca --data FOLDER --stage report

Nested: the training rows of a split are ordered along the first principal component of their raw inputs. Ring 1 is the
lowest and the highest fifteenth of them, predicted from all others; ring 2 the next fifteenths, predicted from what
lies between; and so on. Rings are to training rows what the test rows are to all. What was chosen by rings 2, 3, ... is
judged on ring 1; what is used on the test rows is chosen by all rings. One file for each run: it can be stopped and
continued.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray

import mercer
from benchmarks.machine import describe
from benchmarks.splits import component, nkn_rows
from mercer.learners.averaging import ForecastErrors, stack_weights

Array = NDArray[np.float64]
RESULTS = Path(__file__).parent / "results"
TABLES = ("yacht", "energy", "boston", "concrete", "wine")
RINGS = (1, 2, 3)
ROWS = {"yacht": 308, "energy": 768, "boston": 506, "concrete": 1030, "wine": 1599}
SEED = 0


# ---------------------------------------------------------------------------------------------------------- structures


def _each(base: str, columns: int) -> str:
    return " + ".join(f"{base}({column})" for column in range(columns))


def _network(**settings: Any) -> Callable[[int], Any]:
    return lambda columns: mercer.NeuralKernelNetwork(**settings)


def _by_column(columns: int) -> Any:
    """One SE and one LIN for each column: products join columns only where the rows ask for it."""
    return mercer.NeuralKernelNetwork(primitives=f"{_each('SE', columns)} + {_each('LIN', columns)}")


def _joined(columns: int) -> Any:
    """The default primitives, and one SE for each column beside them."""
    return mercer.NeuralKernelNetwork(primitives=f"2*RQ + 2*SE + 2*LIN + {_each('SE', columns)}")


STRUCTURES: dict[str, Callable[[int], Any]] = {
    "nkn": _network(),
    "nkn, no priors": _network(priors=None),
    "nkn, small": _network(layers="Linear4-Product2-Linear1"),
    "nkn by column": _by_column,
    "nkn joined": _joined,
    "M52": lambda columns: "M52",
    "LIN + M52": lambda columns: "LIN + M52",
    "additive": lambda columns: f"{_each('SE', columns)} + SE",
    "additive + LIN": lambda columns: f"{_each('SE', columns)} + LIN + M52",
}


# -------------------------------------------------------------------------------------------------------------- splits


def ring(X: Array, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows to learn from and those of one ring; rows that tie are dealt at random."""
    along = component(X)
    order = np.lexsort((np.random.default_rng(SEED).permutation(len(X)), np.round(along / (1e-6 * np.ptp(along)))))
    low, high = len(X) // 15, math.ceil(len(X) / 15)
    inner = order[number * low : len(X) - number * high]
    outer = order[(number - 1) * low : len(X) - (number - 1) * high]
    return np.sort(inner), np.sort(np.setdiff1d(outer, inner))


@dataclass(frozen=True)
class Part:
    """Rows to learn from and to predict: a ring of the training rows, or the test rows (0)."""

    table: str
    number: int

    def rows(self, folder: Path) -> tuple[Array, Array, Array, Array]:
        rows = pd.read_csv(folder / "regression" / f"{self.table}.csv").to_numpy(dtype=float)
        out = nkn_rows(folder, self.table, None)
        train, test = rows[~out], rows[out]
        if self.number:
            inner, outer = ring(train[:, :-1], self.number)
            train, test = train[inner], train[outer]
        return train[:, :-1], train[:, -1], test[:, :-1], test[:, -1]

    def file(self, runs: Path, structure: str) -> Path:
        name = "".join(c if c.isalnum() else "-" for c in structure)
        return runs / f"{self.table}-{self.number}-{name}.json"


def run(part: Part, structure: str, folder: Path, runs: Path) -> str:
    """Fit one structure and keep what it predicts."""
    X, y, X_new, y_new = part.rows(folder)
    started, worked = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mercer.GPRegressor(STRUCTURES[structure](X.shape[1]), random_state=SEED).fit(X, y)
        mean, std = model.predict(X_new, return_std=True)
        density = model.log_density(X_new, y_new)
    found = {
        "table": part.table, "number": part.number, "structure": structure, "error": (y_new - mean).tolist(),
        "std": std.tolist(), "density": density.tolist(), "loo": model.loo_, "log_evidence": model.log_evidence_,
        "seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - worked, "machine": describe(),
    }  # fmt: skip
    part.file(runs, structure).write_text(json.dumps(found))
    return f"{part.table} {part.number} {structure}: {rmse(found):.4f}, {found['cpu_seconds']:.0f} s"


# -------------------------------------------------------------------------------------------------------------- choices


def rmse(found: dict[str, Any]) -> float:
    return float(np.sqrt(np.mean(np.square(found["error"]))))


def read(runs: Path, table: str, number: int) -> dict[str, dict[str, Any]]:
    found = {}
    for structure in STRUCTURES:
        file = Part(table, number).file(runs, structure)
        if file.exists():
            found[structure] = json.loads(file.read_text())
    return found


def by_error(parts: list[dict[str, dict[str, Any]]], among: list[str]) -> dict[str, float]:
    """Choose the structure with the smallest squared error over all rings."""
    loss = {s: np.mean([np.mean(np.square(part[s]["error"])) for part in parts]) for s in among}
    return {min(among, key=lambda s: loss[s]): 1.0}


def by_density(parts: list[dict[str, dict[str, Any]]], among: list[str]) -> dict[str, float]:
    """Weigh the structures so that their mixture has the largest density over all rings."""
    forecasts = [
        ForecastErrors(*(np.concatenate([np.array(part[s][key]) ** power for part in parts]) for key, power in _KEYS))
        for s in among
    ]
    return dict(zip(among, map(float, stack_weights(forecasts)), strict=True))


def by_least_squares(parts: list[dict[str, dict[str, Any]]], among: list[str]) -> dict[str, float]:
    """Weigh the structures (weights at least zero that add up to one) so that the squared error of their mean is least.

    Every ring counts alike, whatever its errors are (Wolpert 1992, Breiman 1996: stacked regressions).
    """
    from scipy.optimize import nnls

    stacked = []
    for part in parts:
        errors = np.array([part[s]["error"] for s in among]).T
        stacked.append(errors / np.sqrt(np.mean(np.min(errors**2, axis=1)) + np.median(np.mean(errors**2, axis=0))))
    errors = np.concatenate(stacked)
    # sum_i w_i e_i with sum w = 1: a heavy row of ones holds the sum
    heavy = 1e3 * np.sqrt(np.mean(errors**2)) * math.sqrt(len(errors))
    weights, _ = nnls(np.vstack([errors, np.full(len(among), heavy)]), np.append(np.zeros(len(errors)), heavy))
    return dict(zip(among, map(float, weights / weights.sum()), strict=True))


def equal(parts: list[dict[str, dict[str, Any]]], among: list[str]) -> dict[str, float]:
    """All structures count alike."""
    return {structure: 1.0 / len(among) for structure in among}


def default(parts: list[dict[str, dict[str, Any]]], among: list[str]) -> dict[str, float]:
    """The network with its defaults."""
    return {"nkn": 1.0}


_KEYS = (("error", 1), ("std", 2))
CHOICES = {"nkn": default, "least error": by_error, "density": by_density, "least squares": by_least_squares,
           "equal": equal}  # fmt: skip


def judge(part: dict[str, dict[str, Any]], weights: dict[str, float]) -> float:
    """Return the RMSE of the weighed mean of the predictions."""
    error = sum(weight * np.array(part[s]["error"]) for s, weight in weights.items())
    return float(np.sqrt(np.mean(np.square(error))))


def compare(runs: Path, table: str) -> tuple[list[str], list[dict[str, dict[str, Any]]]]:
    """Return the structures that all rings have been predicted with, and the rings."""
    rings = [read(runs, table, number) for number in RINGS]
    rings = [part for part in rings if part]
    among = [s for s in STRUCTURES if rings and all(s in part for part in rings)]
    return among, rings


def report(runs: Path) -> str:
    """Write the tables of rings, choices and, where there are any, test rows."""
    lines = ["# PCA splits: choices inside the training rows", "", (__doc__ or "").split("\n\n", 2)[2]]
    for table in TABLES:
        among, rings = compare(runs, table)
        if not among:
            continue
        lines += ["", f"## {table}", "", f"| RMSE | {' | '.join(f'ring {n}' for n in RINGS[: len(rings)])} |"]
        lines += ["|---" * (1 + len(rings)) + "|"]
        lines += [f"| {s} | {' | '.join(f'{rmse(part[s]):.3f}' for part in rings)} |" for s in among]
        lines += ["", "| choice | ring 1, chosen by the others | test | weights by all rings |", "|---|---|---|---|"]
        test = read(runs, table, 0)
        for name, choose in CHOICES.items():
            if choose is default and "nkn" not in among:
                continue
            ahead = f"{judge(rings[0], choose(rings[1:], among)):.3f}" if len(rings) > 1 else ""
            weights = {s: w for s, w in choose(rings, among).items() if w > 0.005}
            found = f"{judge(test, weights):.3f}" if set(weights) <= set(test) else ""
            named = ", ".join(f"{w:.2f} {s}" for s, w in sorted(weights.items(), key=lambda each: -each[1]))
            lines.append(f"| {name} | {ahead} | {found} | {named} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with regression/")
    parser.add_argument("--stage", choices=("nested", "test", "report"), default="nested")
    parser.add_argument("--only", default=",".join(TABLES))
    parser.add_argument("--structures", default=";".join(STRUCTURES))
    parser.add_argument("--choice", default="", help="of the test stage: which structures it needs; default: all")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds after which nothing new is begun")
    parser.add_argument("--runs", type=Path, default=RESULTS / "nkn-pca-runs", help="a file for each run")
    parser.add_argument("--report", type=Path, default=RESULTS / "nkn-pca.md")
    options = parser.parse_args()
    options.runs.mkdir(parents=True, exist_ok=True)
    os.environ.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
    started, work = time.time(), []
    for table in TABLES:
        structures = options.structures.split(";")
        if options.stage == "test" and options.choice:
            among, rings = compare(options.runs, table)
            structures = [s for s, w in CHOICES[options.choice](rings, among).items() if w > 0.005]
        for number in {"nested": RINGS, "test": (0,), "report": ()}[options.stage]:
            work += [(Part(table, number), s) for s in structures if table in options.only.split(",")]
    left = [(part, s) for part, s in work if not part.file(options.runs, s).exists()]
    left.sort(key=lambda each: (ROWS[each[0].table], each[0].number))  # the smallest table first: it is soon whole

    def one(part: Part, structure: str) -> None:
        if time.time() - started < options.limit:
            print(run(part, structure, options.data, options.runs), flush=True)

    Parallel(n_jobs=options.jobs)(delayed(one)(part, structure) for part, structure in left)
    remarks = RESULTS / "nkn-pca-remarks.md"  # written by hand after a run, kept apart so that a rerun keeps them
    options.report.write_text(report(options.runs) + ("\n" + remarks.read_text() if remarks.exists() else ""))


if __name__ == "__main__":
    main()
