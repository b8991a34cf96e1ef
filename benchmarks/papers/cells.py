"""Experiments of the papers that no other benchmark has: each cell is one fit or one check.

    python -m benchmarks.papers.cells --data FOLDER --cells 'i1/*' 'bbb/yacht/*' [--jobs 16] [--minutes 4] [--fresh]
    python -m benchmarks.papers.cells --data FOLDER --cells 'sm/*' --device cuda --out FILE
    python -m benchmarks.papers.cells --merge FILE          # what was measured elsewhere, into papers.json

Cells run in the order of the patterns, and each is kept as it ends. What was measured is not measured again unless it
is older than `--older`, or with `--fresh`, so a run can be stopped and continued. Nothing is chosen by looking at test
rows. Results: benchmarks/results/papers.json; every cell has its date, machine and state of the code.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from joblib import Parallel, delayed, parallel_config
from sklearn.model_selection import train_test_split

import mercer
from benchmarks.discovery import scores
from benchmarks.kfo import CLASSES, TABLES, TIMED, WAVES, class_rows, filled, numbers_of, wave
from benchmarks.machine import NEVER, circumstances, is_kept, read_dates
from benchmarks.nkn_start import FIRST_LOSSES, authors_mixture, authors_primitives, first_loss
from benchmarks.papers import figures
from benchmarks.papers.published import KREIN_TABLES
from benchmarks.splits import nkn_rows, pca_split
from mercer.learners.margin import PAPER_COSTS, cross_validate, make_folds, split_gram

RESULTS = Path(__file__).parents[1] / "results"
KEPT = RESULTS / "papers.json"
SEED = 0
SEEDS = range(5)
SPLITS = range(5)  # of ten: baselines and variants
COMPONENTS = (1, 2, 3, 4)
NKN_TABLES = ("yacht", "boston", "energy", "concrete", "wine", "kin8nm", "naval", "power_plant")
PRINTED_TABLES = NKN_TABLES[:5]  # that 20,000 steps are taken on: the larger ones would take days
# rows that kernels are compared on, where ten folds times seven costs on all of them would take days
COMPARED_ROWS = {"phoneme": 1000}
SERIES = (
    "01-airline", "02-solar", "03-mauna", "04-wheat", "05-temperature", "06-internet", "07-call-centre", "08-radio",
    "09-gas-production", "10-sulphuric", "11-unemployment", "12-births", "13-wages",
)  # fmt: skip

Found = dict[str, Any]
Cells = dict[str, Callable[[], Found]]


# ------------------------------------------------------------------------------------------------------------- NKN


def table_rows(folder: Path, name: str, split: int | None) -> tuple[Any, Any, Any, Any]:
    """Return inputs and target of the training and of the test rows; no split: the PCA split."""
    table = pd.read_csv(folder / "regression" / f"{name}.csv")
    out = nkn_rows(folder, name, None if split is None else split + 1)
    X, y = table.iloc[:, :-1].to_numpy(dtype=float), table.iloc[:, -1].to_numpy(dtype=float)
    return X[~out], y[~out], X[out], y[out]


def bayes_by_backprop(folder: Path, name: str, split: int) -> Found:
    from benchmarks.bayes_by_backprop import BayesByBackprop

    X, y, Z, t = table_rows(folder, name, split)
    return BayesByBackprop(seed=SEED).fit(X, y).score(Z, t)


def printed_network(folder: Path, name: str, split: int | None, device: str, authors: bool = False) -> Found:
    """NKN as printed (one start, 20,000 steps of Adam): one random split, or the PCA split.

    `authors`: from the lengthscales that their code begins with.
    """
    X, y, Z, t = table_rows(folder, name, split)
    learner = mercer.NeuralKernelNetwork.paper(primitives=authors_primitives(X) if authors else None)
    model = mercer.GPRegressor(learner, device=device, random_state=SEED).fit(X, y)
    return {"log_evidence": model.log_evidence_, "device": device, **scores(model, Z, t)}


def nested_network(folder: Path, name: str, lengthscales: Any) -> Found:
    """The network on the PCA split again inside the training rows, which the authors' code has for validation."""
    X, y, _, _ = table_rows(folder, name, None)
    out = pca_split(X)
    learner = mercer.NeuralKernelNetwork(lengthscales=lengthscales)
    model = mercer.GPRegressor(learner, random_state=SEED).fit(X[~out], y[~out])
    return {"loo": model.loo_, **scores(model, X[out], y[out])}


def default_mixture(X: Any, y: Any, components: int) -> str:
    return f"SM{components}"


def authors_start(X: Any, y: Any, components: int) -> str:
    return authors_mixture(X, y, components, SEED)


def mixture(folder: Path, name: str, split: int) -> Found:
    """SM with four components, begun as the authors' code does: one random split."""
    X, y, Z, t = table_rows(folder, name, split)
    model = mercer.GPRegressor(authors_start(X, y, 4), random_state=SEED).fit(X, y)
    return {"log_evidence": model.log_evidence_, **scores(model, Z, t)}


def validated_mixture(folder: Path, name: str, kernel: Callable[[Any, Any, int], str], device: str) -> Found:
    """The SM kernel of NKN Table 2: one to four components, chosen on a PCA split of the training rows."""
    X, y, Z, t = table_rows(folder, name, None)
    out = pca_split(X)

    def fit(rows: Any, target: Any, components: int) -> mercer.GPRegressor:
        model = mercer.GPRegressor(kernel(rows, target, components), device=device, random_state=SEED)
        return model.fit(rows, target)

    errors = {}
    for count in COMPONENTS:
        model = fit(X[~out], y[~out], count)
        errors[count] = float(np.sqrt(np.mean((model.predict(X[out]) - y[out]) ** 2)))
    best = min(errors, key=lambda count: errors[count])
    model = fit(X, y, best)
    return {"components": best, "validation_rmse": errors, "device": device, **scores(model, Z, t)}


# ------------------------------------------------------------------------------------------------------------- KFO


def printed_classes(folder: Path, name: str, split: int, **changes: Any) -> Found:
    """KFO for classes as printed (T = 20), or with `definite` changed: the test error of one split."""
    train, test, labels, truth = class_rows(folder, name, split)
    learner = mercer.KernelFunctional.paper(classes=True, **changes)
    rows = COMPARED_ROWS.get(name)
    if rows is not None and learner.class_policy is not None:
        learner = replace(learner, class_policy=replace(learner.class_policy, compared_rows=rows))
    # ten folds times seven costs for every kernel: a fifth of the time would go into looking at the same numbers again
    with sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
        model = mercer.KernelSVC(learner, random_state=SEED).fit(train, labels)
    found = {"error": float(np.mean(model.predict(test) != truth)), "cv": model.error_, "C": model.C_}
    found["kernel"] = model.kernel_.text(digits=3)
    return found | ({} if rows is None else {"compared_rows": rows})


def scaled_split(folder: Path, name: str, split: int) -> tuple[Any, Any, Any, Any]:
    """Return the rows of KFO's regression: everything between 0 and 1, as in the paper's code."""
    rows = filled(numbers_of(folder / "regression" / f"{name}.csv"))
    rows = (rows - rows.min(axis=0)) / np.where(np.ptp(rows, axis=0) > 0, np.ptp(rows, axis=0), 1.0)
    return tuple(train_test_split(rows[:, :-1], rows[:, -1], test_size=0.2, random_state=split))


def printed_regression(folder: Path, name: str, split: int, **changes: Any) -> Found:
    """KFO for regression as printed (T = 20, alpha clipped), or with `definite` changed: one split."""
    X, Z, y, t = scaled_split(folder, name, split)
    model = mercer.GPRegressor(mercer.KernelFunctional.paper(**changes), random_state=SEED).fit(X, y)
    rmse = float(np.sqrt(np.mean((model.predict(Z) - t) ** 2)))
    return {"nll": -float(model.log_density(Z, t).sum()), "rmse": rmse, "log_evidence": model.log_evidence_}


def printed_wave(name: str, seed: int) -> Found:
    """KFO as printed (T = 20) on a wave with a stretch held out: its log evidence, and its error there."""
    X, y, Z, truth = wave(name, seed)
    model = mercer.GPRegressor(mercer.KernelFunctional.paper(), random_state=SEED).fit(X, y)
    rmse = float(np.sqrt(np.mean((model.predict(Z) - truth) ** 2)))
    return {"log_evidence": model.log_evidence_, "rmse": rmse, "kernel": model.kernel_.text(digits=3)}


def functional_kernel(folder: Path, name: str, split: int, kind: Any, device: str) -> Found:
    from benchmarks.functional_kernels import FunctionalKernel

    X, Z, y, t = scaled_split(folder, name, split)
    model = FunctionalKernel(kind, seed=SEED, device=device).fit(X, y)
    return {"nll": -float(model.log_density(Z, t).sum()), "device": device}


def runtime_shares(folder: Path, name: str) -> Found:
    """KFO Table 3: S = T = 5; the share of the time in the objective (10-fold C-SVMs) and in all else."""
    train, _, labels, _ = class_rows(folder, name, 0)
    _, codes = np.unique(labels, return_inverse=True)
    folds, spent = make_folds(codes, SEED, most=10), [0.0]

    def objective(gram: Any) -> float:
        began = time.process_time()
        found = cross_validate(split_gram(gram, folds), codes, folds, PAPER_COSTS)
        spent[0] += time.process_time() - began
        return -found.error

    began = time.process_time()
    learner = mercer.KernelFunctional.paper(classes=True, subspaces=5, iterations=5, objective=objective)
    mercer.KernelSVC(learner, random_state=SEED).fit(train, labels)
    total = time.process_time() - began
    return {"evaluation": spent[0] / total, "optimisation": 1.0 - spent[0] / total, "cpu_seconds": total}


# ---------------------------------------------------------------------------------------- CKS and change surfaces


def printed_search(folder: Path, name: str, device: str) -> Found:
    """CKS as printed on the first 90 % of a series, the rest forecast by the winner alone."""
    table = pd.read_csv(folder / "timeseries" / f"{name}.csv")
    train, test = table[table["extrap_9010"] == "train"], table[table["extrap_9010"] == "test"]
    model = mercer.GPRegressor(mercer.GrammarSearch.paper(), device=device, random_state=SEED)
    model.fit(train[["x"]], train["y"])
    kept = {"kernel": model.kernel_.text(digits=3), "bic": model.bic_, "candidates": len(model.candidates_)}
    kept["device"] = device
    return kept | scores(model, test[["x"]], test["y"].to_numpy())


def printed_surface(folder: Path, settings: str, seed: int) -> Found:
    """Algorithm 2 as printed, or Mercer's own settings, on the surface over two columns whose truth is known."""
    plane = pd.read_csv(folder / "change" / "synth_changesurface_2d.csv").iloc[::4]
    learner = mercer.ChangeSurface.paper() if settings == "printed" else mercer.ChangeSurface()
    X = plane[["x1", "x2"]]
    model = mercer.GPRegressor(learner, random_state=seed).fit(X, plane["y"])
    if model.change_ is None:
        return {"error": None, "log_evidence": model.log_evidence_, "rows": len(plane)}
    shares = model.change_.shares(X.to_numpy())
    errors = [float(np.mean(np.abs(shares[:, regime] - plane["true_s"]))) for regime in (0, 1)]
    return {"error": min(errors), "log_evidence": model.log_evidence_, "rows": len(plane)}


# ------------------------------------------------------------------------------------------------------------- all


def all_cells(folder: Path, device: str = "cpu") -> Cells:
    """Return every cell: name -> call without arguments; `device`: of mixtures, searches and functional kernels."""
    cells: Cells = {
        "kernels": figures.printed_kernels,
        "features": figures.printed_features,
        "figure-6": figures.figure_6,
        "example-1": figures.example_1,
    }
    for seed in SEEDS:
        cells[f"i1/{seed}"] = partial(figures.judge_line, seed)
        cells[f"i3/{seed}"] = partial(figures.judge_units, seed)
        for settings in ("printed", "default"):
            cells[f"surface/{settings}/{seed}"] = partial(printed_surface, folder, settings, seed)
    for name in SERIES:
        cells[f"cks/{name}"] = partial(printed_search, folder, name, device)
    for name in TIMED:
        cells[f"shares/{name}"] = partial(runtime_shares, folder, name)
    for name in NKN_TABLES:
        cells[f"sm/{name}"] = partial(validated_mixture, folder, name, default_mixture, device)
    for name in FIRST_LOSSES:
        cells[f"first-loss/{name}"] = partial(first_loss, folder, name)
        cells[f"sm-start/{name}"] = partial(validated_mixture, folder, name, authors_start, device)
    for name in PRINTED_TABLES:
        cells[f"nkn-printed-pca/{name}"] = partial(printed_network, folder, name, None, device)
        for lengthscales in ("range", "distances"):
            cells[f"nkn-nested/{name}/{lengthscales}"] = partial(nested_network, folder, name, lengthscales)
        cells[f"nkn-start-pca/{name}"] = partial(printed_network, folder, name, None, device, authors=True)
    for split in SPLITS:
        for name in NKN_TABLES:
            cells[f"bbb/{name}/{split}"] = partial(bayes_by_backprop, folder, name, split)
        for name in PRINTED_TABLES:
            cells[f"nkn-printed/{name}/{split}"] = partial(printed_network, folder, name, split, device)
            cells[f"sm4-start/{name}/{split}"] = partial(mixture, folder, name, split)
        for name in TABLES:
            for kind in ("shared", "separate"):
                cells[f"fkl-{kind}/{name}/{split}"] = partial(functional_kernel, folder, name, split, kind, device)
            for definite in ("clip", "flip"):
                call = partial(printed_regression, folder, name, split, definite=definite)
                cells[f"alpha-{definite}/{name}/{split}"] = call
        for name in WAVES:
            cells[f"waves/{name}/{split}"] = partial(printed_wave, name, split)
        for name in CLASSES:
            cells[f"classes/{name}/{split}"] = partial(printed_classes, folder, name, split)
            call = partial(printed_classes, folder, name, split, definite="clip")
            cells[f"classes-alpha-clip/{name}/{split}"] = call
        for name in KREIN_TABLES:
            for repair in ("flip", "shift"):
                call = partial(printed_classes, folder, name, split, definite=f"spectrum-{repair}")
                cells[f"classes-{repair}/{name}/{split}"] = call
    return cells


@dataclass(frozen=True)
class Limits:
    """How many cells run at a time, after how many minutes none begins, and how old a measurement may be."""

    jobs: int = 1
    minutes: float = float("inf")
    older: str = ""  # what was measured before this date, or that of its kind, is measured again


UNLIMITED = Limits()


def keep(path: Path, name: str, found: Found) -> None:
    """Add a cell to the file as it is now, in one go: another process may have written to it."""
    kept = json.loads(path.read_text()) if path.exists() else {"results": {}}
    kept["results"][name] = found
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}")
    beside.write_text(json.dumps(kept, indent=1) + "\n")
    beside.replace(path)


def measure(name: str, call: Callable[[], Found], until: float) -> tuple[str, Found | None]:
    """Run one cell; return what it found with its circumstances, why it failed, or None where time is over."""
    if time.time() > until:
        return name, None
    warnings.simplefilter("ignore")
    began, worked = time.perf_counter(), time.process_time()
    try:
        found = call()
    except Exception as error:  # one of many: the others are worth having
        return name, {"failed": f"{type(error).__name__}: {error}"[:300]}
    return name, found | {
        "seconds": time.perf_counter() - began,
        "cpu": time.process_time() - worked,
        **circumstances(),
    }


def choose(cells: Cells, patterns: list[str]) -> list[str]:
    """Return the names that fit a pattern, in the order of the patterns; one that fits none is refused."""
    chosen: dict[str, None] = {}
    for pattern in patterns:
        fitting = fnmatch.filter(cells, pattern)
        if not fitting:
            kinds = ", ".join(sorted({name.split("/")[0] for name in cells}))
            raise SystemExit(f"no cell fits {pattern}; there are {kinds}")
        chosen |= dict.fromkeys(fitting)
    return list(chosen)


def run(patterns: list[str], folder: Path, path: Path, limits: Limits = UNLIMITED, device: str = "cpu") -> int:
    """Run the cells that fit a pattern and are not there yet; return how many could not be run, or had no time."""
    until, left = time.time() + 60.0 * limits.minutes, 0
    kept = json.loads(path.read_text())["results"] if path.exists() else {}
    known = {name for name, found in kept.items() if is_kept(found, limits.older, name)}
    cells = all_cells(folder, device)
    chosen = choose(cells, patterns)
    calls = [delayed(measure)(name, cells[name], until) for name in chosen if name not in known]
    with parallel_config("loky", n_jobs=limits.jobs, inner_max_num_threads=1 if limits.jobs > 1 else None):
        for name, found in Parallel(return_as="generator_unordered", batch_size=1)(calls):
            if found is None or "failed" in found:
                left += 1
            else:
                keep(path, name, found)
            if found is not None:
                print(name, json.dumps(found)[:240], flush=True)
    return left


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--cells", nargs="+", default=[], help="names, or patterns such as 'bbb/yacht/*'")
    parser.add_argument("--device", default="cpu", help="of mixtures, searches and functional kernels: cpu or cuda")
    parser.add_argument("--merge", type=Path, help="add the cells of another file to --out, and run nothing")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time, one thread each")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no cell after so many")
    parser.add_argument("--out", type=Path, default=KEPT)
    parser.add_argument("--older", type=read_dates, default="", help="measure again what was measured before this date")
    parser.add_argument("--fresh", action="store_true", help="measure again what was measured")
    arguments = parser.parse_args()
    if arguments.merge:
        if not arguments.merge.is_file():
            parser.error(f"there is no file {arguments.merge} to merge")
        for name, found in json.loads(arguments.merge.read_text())["results"].items():
            keep(arguments.out, name, found)
        return
    if not arguments.cells:
        parser.error("give --cells, such as --cells 'i1/*'")
    older = NEVER if arguments.fresh else arguments.older
    limits = Limits(arguments.jobs, arguments.minutes, older)
    left = run(arguments.cells, arguments.data, arguments.out, limits, arguments.device)
    if left:
        cells = "1 cell is" if left == 1 else f"{left} cells are"
        raise SystemExit(f"{cells} left, also those that failed; the same command goes on")


if __name__ == "__main__":
    main()
