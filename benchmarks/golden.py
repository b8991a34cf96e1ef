"""A golden record: results of about twenty runs, to be compared before and after a change of the code.

    python -m benchmarks.golden --out before.json [--set short|whole] [--data FOLDER] [--only NAME,NAME]
    python -m benchmarks.golden --compare before.json [--out after.json] [--report golden.md]

Only public names are used, so that the same file runs on another version (PYTHONPATH=OTHER/src). Everything is seeded
and runs in one process on one core; no run has a time budget. The whole set needs the folder with timeseries/,
regression/, change/ and classification/ (benchmarks/README.md); runs whose files are not there are left out.

`--compare` prints a table and ends with 1 where the evidence or gradient of a kernel with given values differs by more
than 1e-8 relative, a file does not come back as it was written, a run is missing, or a winner is neither the same with
the same score (to 0.1) nor better in score.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# ruff: noqa: E402  (threads are counted when the libraries are imported)
for _pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_pool, "1")

import numpy as np
import pandas as pd

import mercer
from benchmarks.machine import describe
from mercer.kernels import KF, LIN, M32, NKN, SE, blend, structure, to_text

RESULTS = Path(__file__).parent / "results"
EXACT = 1e-8  # relative: numbers of kernels whose values are given
SAME_SCORE = 0.1  # by which the score of the same winner may be worse: what the end of an optimisation leaves open

Record = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One run of the record: what to call, whether the short set has it, and the file of the data folder it needs."""

    call: Callable[[Path], Record]
    short: bool = False
    needs: str | None = None


# ------------------------------------------------------------------------------------------------------------ data


def airline() -> tuple[pd.DataFrame, pd.Series]:
    table = mercer.datasets.airline()
    return table[["month"]], table["passengers"]


def nile() -> tuple[pd.DataFrame, pd.Series]:
    table = mercer.datasets.nile()
    return table[[table.columns[0]]], table[table.columns[1]]


def made_table(rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Four columns of which three matter, two of them together."""
    rng = np.random.default_rng(7)
    X = rng.uniform(-2.0, 2.0, size=(rows, 4))
    y = np.sin(2.0 * X[:, 0]) + 0.8 * X[:, 1] + 0.5 * X[:, 0] * X[:, 2] + 0.1 * rng.normal(size=rows)
    return X, y


def series(folder: Path, stem: str) -> tuple[pd.DataFrame, pd.Series]:
    table = pd.read_csv(folder / "timeseries" / f"{stem}.csv")
    return table[["x"]], table["y"]


def yacht(folder: Path, split: int) -> tuple[Any, Any, Any]:
    table = pd.read_csv(folder / "regression" / "yacht.csv")
    splits = json.loads((folder / "regression" / "splits_nkn.json").read_text())
    out = np.isin(np.arange(len(table)), splits["yacht"]["random_test_rows"][str(split)])
    inputs = table[list(table.columns[:-1])]
    return inputs[~out], table[table.columns[-1]][~out], inputs[out]


def many_rows(rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.uniform(0.0, 50.0, rows), rng.uniform(0.0, 1.0, rows)])
    return X, np.sin(X[:, 0]) + 2.0 * X[:, 1] + 0.1 * rng.normal(size=rows)


def holes(shape: tuple[int, int] = (24, 30)) -> np.ndarray:
    rng = np.random.default_rng(11)
    down, across = np.meshgrid(np.arange(shape[0]), np.arange(shape[1]), indexing="ij")
    picture = np.sin(down / 4.0) + np.cos(across / 3.0) + 0.05 * rng.normal(size=shape)
    picture[rng.uniform(size=shape) < 0.2] = np.nan
    return picture


def three_classes(rows: int = 90) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    labels = np.arange(rows) % 3
    centres = np.array([[0.0, 0.0], [2.0, 0.3], [0.5, 2.0]])
    return centres[labels] + 0.7 * rng.normal(size=(rows, 2)), labels


# --------------------------------------------------------------------------------------------------- what is recorded


def plain(values: Any) -> list[float]:
    return [float(value) for value in np.ravel(values)]


def spread(rows: Any, count: int = 7) -> Any:
    """Return some rows of a table, from the first to the last."""
    where = np.unique(np.linspace(0, len(rows) - 1, count).astype(int))
    return rows.iloc[where] if hasattr(rows, "iloc") else rows[where]


def winner(kernel: Any) -> str:
    """Return the structure: the weights of a functional are values, though they are part of its text."""
    return re.sub(r", weights=\[[^]]*\]", "", to_text(structure(kernel)))


def of_model(model: mercer.GPRegressor, rows: Any, score: float | None = None) -> Record:
    mean, std = model.predict(spread(rows), return_std=True)
    return {
        "winner": winner(model.kernel_),
        "score": model.bic_ if score is None else score,
        "log_evidence": model.log_evidence_,
        "bic": model.bic_,
        "loo": model.loo_,
        "noise": model.noise_,
        "candidates": len(model.candidates_),
        "mean": plain(mean),
        "std": plain(std),
    }


def fit(kernel: Any, X: Any, y: Any, **settings: Any) -> mercer.GPRegressor:
    return mercer.GPRegressor(kernel, random_state=0, n_jobs=1, **settings).fit(X, y)


# ------------------------------------------------------------------------------------------------------------- runs

PLAIN_KERNELS = {
    "SE": "SE(0, variance=1.3, lengthscale=0.3)",
    "PER*SE+LIN": "PER(0, variance=0.7, period=0.31, lengthscale=0.8)*SE(0, variance=1, lengthscale=1.1)"
    " + LIN(0, variance=0.4, offset=-0.2)",
    "RQ+M12+WN": "RQ(0, variance=0.9, lengthscale=0.4, alpha=0.7) + M12(0, variance=0.3, lengthscale=0.9)"
    " + WN(0, variance=0.05)",
    "M32*M52+C": "M32(0, variance=1.2, lengthscale=0.6)*M52(0, variance=1, lengthscale=1.4) + C(variance=0.5)",
    "CPER+COS": "CPER(0, variance=0.8, period=0.27, lengthscale=0.9) + COS(0, variance=0.2, frequency=2.1)",
    "SM2": "SM2(0, variance=1, weights=[0.4, 0.6], frequency=[1, 3], bandwidth=[0.2, 0.3])",
    "CP": "CP(SE(0, variance=1.3, lengthscale=0.3), PER(0, variance=0.5, period=0.4, lengthscale=0.8),"
    " on=0, location=0.2, width=0.1)",
    "CW": "CW(SE(0, variance=1.3, lengthscale=0.3), LIN(0, variance=0.5, offset=0.2),"
    " on=0, start=-0.3, duration=0.5, width=0.1)",
}


def given_kernels(folder: Path) -> Record:
    """Evidence and gradient of kernels with all their values, on one and on two columns."""
    y = airline()[1].to_numpy(dtype=float)
    y = (y - y.mean()) / y.std()
    x = np.linspace(-1.0, 1.0, len(y))
    twice = np.column_stack([x, np.cos(5.0 * x)])
    one = {
        **{name: mercer.parse(text) for name, text in PLAIN_KERNELS.items()},
        "NKN": NKN([SE(0, variance=1, lengthscale=0.3), LIN(0, variance=1, offset=0.1)], "Linear2-Product1-Linear1",
                   weights=[[0.5, 0.4, 0.3, 0.7], 1.0], bias=[[0.1, 0.2], 0.05]),
        "KF": KF(M32(0, variance=1.1, lengthscale=0.4), [1, 3], [0.4, 0.6]),
    }  # fmt: skip
    linear = blend([SE(0, variance=1, lengthscale=0.4), SE(1, variance=0.6, lengthscale=0.8)], "linear", on=[0, 1])
    text = to_text(linear).replace("on=[0, 1]", "on=[0, 1], slope=[1.5, -0.7], bias=0.2")
    two = {
        "ARD": mercer.parse("SE(0, 1, variance=1.1, lengthscale=[0.3, 0.9])*LIN(1, variance=1, offset=0.4)"),
        "BLEND": mercer.parse(text),
    }
    numbers: dict[str, list[float]] = {}
    for X, kernels in ((x, one), (twice, two)):
        for name, kernel in kernels.items():
            value, gradient = mercer.log_evidence(kernel, X, y, noise=0.02, gradient=True)
            numbers[name] = [value, *(number for path in gradient for number in plain(gradient[path]))]
    return {"exact": numbers}


def fitted_kernel(folder: Path) -> Record:
    X, y = airline()
    return of_model(fit("SE*PER + LIN", X, y, restarts=3), X)


def weak_priors(folder: Path) -> Record:
    X, y = made_table(120)
    return of_model(fit("SE(0) + LIN(1) + SE(0, 2)", X, y, restarts=2, priors="weak", noise=0.01), X)


def search_airline(folder: Path) -> Record:
    X, y = airline()
    return of_model(fit(mercer.GrammarSearch(), X, y), X)


def search_airline_short(folder: Path) -> Record:
    X, y = airline()
    return of_model(fit(mercer.GrammarSearch(bases=["SE", "PER", "LIN"], max_depth=1), X, y), X)


def search_solar(folder: Path) -> Record:
    X, y = series(folder, "02-solar")
    return of_model(fit(mercer.GrammarSearch(max_depth=1), X, y), X)


def search_wheat(folder: Path) -> Record:
    X, y = series(folder, "04-wheat")
    return of_model(fit(mercer.GrammarSearch(bases=["SE", "PER", "LIN", "M12"], max_depth=2), X, y), X)


def search_table(folder: Path) -> Record:
    X, y = made_table()
    return of_model(fit(mercer.GrammarSearch(bases=["SE", "LIN"], max_depth=2), X, y), X)


def search_changes(folder: Path) -> Record:
    X, y = nile()
    return of_model(fit(mercer.GrammarSearch(bases=["SE", "LIN"], operators="+|", max_depth=1), X, y), X)


def search_scores(folder: Path) -> Record:
    """The other criteria; the score recorded is the sum of the best scores."""
    X, y = nile()
    found = {s: fit(mercer.GrammarSearch(bases=["SE", "LIN", "M12"], score=s, max_depth=1), X, y)
             for s in ("aic", "loo", "heldout")}  # fmt: skip
    best = {name: min(c.score for c in model.candidates_) for name, model in found.items()}
    record = of_model(found["loo"], X, sum(best.values()))
    return record | {"winner": "; ".join(winner(m.kernel_) for m in found.values()), "scores": plain([*best.values()])}


def search_dates(folder: Path) -> Record:
    """Dates and categories, through the averaging of a search."""
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"when": pd.date_range("2001-01-01", periods=60, freq="MS"), "kind": ["a", "b", "c"] * 20})
    y = np.sin(np.arange(60) * 2 * np.pi / 12) + (table["kind"] == "b") + 0.1 * rng.normal(size=60)
    search = mercer.GrammarSearch(bases=["SE", "PER"], max_depth=1, restarts=2)
    return of_model(fit(search, table, y), table)


def search_intervals(folder: Path) -> Record:
    """Many rows: candidates are compared by intervals of their evidence."""
    X, y = many_rows(3500)
    search = mercer.GrammarSearch(bases=["SE", "LIN"], max_depth=1, restarts=2)
    return of_model(fit(search, X, y, inference=mercer.VFE(inducing=60)), X)


def network(restarts: int) -> mercer.NeuralKernelNetwork:
    return mercer.NeuralKernelNetwork(restarts=restarts, max_iterations=60)


def nkn_yacht(folder: Path, split: int) -> Record:
    X, y, held_out = yacht(folder, split)
    model = fit(network(3), X, y)
    return of_model(model, held_out, -2.0 * model.loo_)


def nkn_airline(folder: Path) -> Record:
    """A small network, and what it is distilled into."""
    X, y = airline()
    learner = mercer.NeuralKernelNetwork(
        primitives="2*SE + PER + LIN", layers="Linear4-Product2-Linear1", restarts=2, max_iterations=60
    )
    model = fit(learner, X, y)
    short = model.distil()
    record = of_model(short, X)
    return record | {"network": of_model(model, X, -2.0 * model.loo_)}


def surface_nile(folder: Path) -> Record:
    X, y = nile()
    model = fit(mercer.ChangeSurface(), X, y)
    return of_model(model, X) | {"crossings": plain([[c.at, c.low, c.high] for c in model.change_.crossings])}


def surface_plane(folder: Path) -> Record:
    table = pd.read_csv(folder / "change" / "synth_changesurface_2d.csv").iloc[::9]
    X = table[["x1", "x2"]]
    model = fit(mercer.ChangeSurface(features=5, draws=4, kernel_draws=4, max_iterations=60), X, table["y"])
    return of_model(model, X) | {"shares": plain(model.change_.shares(spread(X)))}


def kfo_regression(folder: Path) -> Record:
    X, y = nile()
    model = fit(mercer.KernelFunctional(subspaces=2, iterations=5), X, y)
    return of_model(model, X, -2.0 * model.log_evidence_)


def of_classes(model: mercer.KernelSVC, X: Any) -> Record:
    return {
        "winner": winner(model.kernel_),
        "score": model.error_,
        "C": model.C_,
        "candidates": len(model.candidates_),
        "mean": plain(model.decision_function(spread(X))),
        "classes": [str(label) for label in model.predict(spread(X))],
    }


def kfo_classes(folder: Path) -> Record:
    X, y = three_classes()
    settings = mercer.KernelFunctional(subspaces=2, iterations=4)
    return of_classes(mercer.KernelSVC(settings, random_state=0).fit(X, y), X)


def given_classes(folder: Path) -> Record:
    X, y = three_classes()
    return of_classes(mercer.KernelSVC("M32", random_state=0).fit(X, y), X)


def kfo_sonar(folder: Path) -> Record:
    table = pd.read_csv(folder / "classification" / "sonar.csv")
    X, y = table[list(table.columns[:-1])], table[table.columns[-1]]
    settings = mercer.KernelFunctional(subspaces=1, iterations=3, plus="SE + LIN")
    return of_classes(mercer.KernelSVC(settings, random_state=0).fit(X, y), X)


def grid_holes(folder: Path) -> Record:
    picture = holes()
    model = mercer.GridRegressor("SE", random_state=0, restarts=2).fit(picture)
    mean, std = model.fill(return_std=True)
    return {
        "winner": winner(model.kernel_),
        "score": model.bic_,
        "log_evidence": model.log_evidence_,
        "noise": model.noise_,
        "mean": plain(spread(mean.ravel())),
        "std": plain(spread(std.ravel())),
    }


def vfe_rows(folder: Path) -> Record:
    X, y = many_rows(5000)
    model = fit("SE(0) + LIN(1)", X, y, inference=mercer.VFE(inducing=100), restarts=2)
    return of_model(model, X) | {"interval": plain(model.evidence_interval())}


def vfe_bounds(folder: Path) -> Record:
    """All values given: the bound, the interval around the evidence, and the evidence itself."""
    X, y = many_rows(400)
    kernel = "SE(0, variance=fixed(0.8), lengthscale=fixed(1.5)) + LIN(1, variance=fixed(3), offset=fixed(0.1))"
    sparse = fit(kernel, X, y, inference=mercer.VFE(inducing=60, joint=False), noise=0.01, restarts=1)
    exact = fit(kernel, X, y, noise=0.01, restarts=1)
    return of_model(sparse, X) | {
        "exact": {
            "evidence": [exact.log_evidence_, exact.loo_],
            "bound": [sparse.log_evidence_],
            "interval": plain(sparse.evidence_interval()),
        },
    }


def random_features(folder: Path) -> Record:
    X, y = many_rows(800)
    return of_model(fit("SE(0) + LIN(1)", X, y, inference=mercer.RandomFeatures(count=80), restarts=1), X)


def files(folder: Path) -> Record:
    """A model file of each kind: predictions before and after, and what the file says again."""
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as place:
        here = Path(place)
        X, y = nile()
        Xm, ym = many_rows(600)
        rows = here / "rows.parquet"
        pd.DataFrame({"a": Xm[:, 0], "b": Xm[:, 1], "y": ym}).to_parquet(rows, index=False)
        classes, labels = three_classes(60)
        picture = holes((8, 9))
        made: dict[str, tuple[Any, Callable[[Any], Any]]] = {
            "exact": (fit("SE + LIN", X, y, restarts=1), lambda m: m.predict(X)),
            "search": (fit(mercer.GrammarSearch(bases=["SE", "LIN"], max_depth=1), X, y), lambda m: m.predict(X)),
            "network": (
                fit(mercer.NeuralKernelNetwork(primitives="SE + LIN", layers="Linear2-Product1-Linear1", restarts=1,
                                               max_iterations=20), X, y),
                lambda m: m.predict(X),
            ),
            "surface": (fit("CP(C, C)", X, y, restarts=1), lambda m: m.predict(X)),
            "functional": (fit(mercer.KernelFunctional(subspaces=1, iterations=2), X, y), lambda m: m.predict(X)),
            "sparse": (
                fit("SE(0) + LIN(1)", Xm, ym, inference=mercer.VFE(inducing=20), restarts=1),
                lambda m: m.predict(Xm),
            ),
            "stream": (
                fit("SE(a) + LIN(b)", mercer.ParquetRows(str(rows), target="y"), None,
                    inference=mercer.VFE(inducing=20), restarts=1),
                lambda m: m.predict(pd.DataFrame({"a": Xm[:, 0], "b": Xm[:, 1]})),
            ),
            "grid": (mercer.GridRegressor("SE", random_state=0, restarts=1).fit(picture), lambda m: m.fill()),
            "classes": (mercer.KernelSVC("M32", random_state=0).fit(classes, labels),
                        lambda m: m.decision_function(classes)),
        }  # fmt: skip
        for name, (model, predict) in made.items():
            file = here / f"{name}.mercer"
            model.save(file)
            before, after = np.ravel(predict(model)), np.ravel(predict(mercer.load(file)))
            if not np.allclose(after, before, rtol=EXACT, atol=EXACT * np.abs(before).max()):
                raise AssertionError(f"{name}: a loaded model predicts otherwise")
            found[name] = plain(spread(before))
    return {"mean": [number for numbers in found.values() for number in numbers]}


RUNS: dict[str, Run] = {
    "given kernels": Run(given_kernels, short=True),
    "fitted kernel": Run(fitted_kernel, short=True),
    "weak priors": Run(weak_priors, short=True),
    "search airline depth 1": Run(search_airline_short, short=True),
    "search airline": Run(search_airline),
    "search solar": Run(search_solar, needs="timeseries/02-solar.csv"),
    "search wheat": Run(search_wheat, needs="timeseries/04-wheat.csv"),
    "search table": Run(search_table),
    "search changes": Run(search_changes, short=True),
    "search scores": Run(search_scores),
    "search dates": Run(search_dates, short=True),
    "search intervals": Run(search_intervals),
    "nkn yacht 1": Run(lambda folder: nkn_yacht(folder, 1), needs="regression/yacht.csv"),
    "nkn yacht 2": Run(lambda folder: nkn_yacht(folder, 2), needs="regression/yacht.csv"),
    "nkn distilled": Run(nkn_airline),
    "surface nile": Run(surface_nile, short=True),
    "surface plane": Run(surface_plane, needs="change/synth_changesurface_2d.csv"),
    "kfo regression": Run(kfo_regression, short=True),
    "kfo classes": Run(kfo_classes, short=True),
    "kfo sonar": Run(kfo_sonar, needs="classification/sonar.csv"),
    "given classes": Run(given_classes, short=True),
    "grid with holes": Run(grid_holes, short=True),
    "vfe 5000 rows": Run(vfe_rows),
    "vfe bounds": Run(vfe_bounds, short=True),
    "random features": Run(random_features, short=True),
    "files": Run(files, short=True),
}


def measure(name: str, run: Run, folder: Path) -> Record:
    started, worked = time.perf_counter(), time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            record = run.call(folder)
    except Exception as error:
        record = {"failed": f"{type(error).__name__}: {error}"[:300]}
    record["seconds"] = round(time.perf_counter() - started, 2)
    record["cpu_seconds"] = round(time.process_time() - worked, 2)
    return record


# ---------------------------------------------------------------------------------------------------------- comparing


def relative(before: Any, after: Any) -> float:
    """Return the largest difference of two lists of numbers, relative to the largest number of the first."""
    one, two = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    if one.shape != two.shape:
        return float("inf")
    return float(np.abs(one - two).max(initial=0.0) / (np.abs(one).max(initial=0.0) or 1.0))


def compare(before: Record, after: Record) -> tuple[str, list[str]]:
    """Return a verdict on one run, and what is wrong with it."""
    if "failed" in after:
        return "failed", [after["failed"]]
    wrong, verdict = [], "same"
    for name, numbers in before.get("exact", {}).items():
        difference = relative(numbers, after.get("exact", {}).get(name, []))
        if difference > EXACT:
            wrong.append(f"{name}: differs by {difference:.1e}")
    if "winner" in before:
        gain = before["score"] - after["score"]  # smaller scores are better
        if before["winner"] == after["winner"]:
            verdict = "same" if abs(gain) <= SAME_SCORE else "better" if gain > 0 else "worse"
        else:
            verdict = "another, better" if gain > 0 else "another, worse"
        if verdict.endswith("worse"):
            wrong.append(f"{before['winner']} ({before['score']:.3f}) -> {after['winner']} ({after['score']:.3f})")
    return "wrong" if wrong and verdict == "same" else verdict, wrong


def number(record: Record, key: str) -> str:
    return f"{record[key]:.3f}" if key in record else ""


def table(before: Record, after: Record) -> tuple[str, list[str]]:
    """Return the comparison as a table in Markdown, and everything that is wrong."""
    lines = [
        "| run | score before | after | winner | prediction differs by | CPU seconds before | after |",
        "|---|---|---|---|---|---|---|",
    ]
    wrong: list[str] = []
    for name, old in before["runs"].items():
        new = after["runs"].get(name)
        if new is None:
            continue
        verdict, faults = compare(old, new)
        wrong += [f"{name}: {fault}" for fault in faults]
        moved = f"{relative(old['mean'], new['mean']):.1e}" if "mean" in old and "mean" in new else ""
        cells = (name, number(old, "score"), number(new, "score"), verdict, moved,
                 number(old, "cpu_seconds"), number(new, "cpu_seconds"))  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines), wrong


def write_report(path: Path, text: str, before: Record, after: Record, wrong: list[str]) -> None:
    verdict = "Nothing differs that must not." if not wrong else "Differences:\n\n" + "\n".join(f"- {w}" for w in wrong)
    path.write_text(
        "# Golden record: before and after\n\n"
        "Results of `python -m benchmarks.golden` on two versions of the code: what a run found, its score (smaller is "
        "better: BIC, twice a negative log score, or a share of errors), and by how much predictions at some rows "
        "differ, relative to the largest. Evidence and gradients of kernels with given values agree to 1e-8 relative, "
        "or the line says `wrong`.\n\n"
        f"Before: {before['machine']['processor']}; after: {after['machine']['processor']}. Seconds are of one core "
        f"of a machine that did other things too: they say little.\n\n{text}\n\n{verdict}\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder with timeseries/ etc.")
    parser.add_argument("--set", choices=("short", "whole"), default="whole")
    parser.add_argument("--only", default="", help="names of runs, with commas")
    parser.add_argument("--out", type=Path, help="write the results here")
    parser.add_argument("--compare", type=Path, help="results to compare with")
    parser.add_argument("--report", type=Path, help="write the comparison here, as Markdown")
    arguments = parser.parse_args()
    only = [name.strip() for name in arguments.only.split(",") if name.strip()]
    mercer.GPRegressor("SE", restarts=1, random_state=0).fit(np.arange(8.0)[:, None], np.arange(8.0) % 3)  # compile
    results: Record = {"machine": describe(), "version": mercer.__version__, "runs": {}}
    for name, run in RUNS.items():
        if name not in only if only else arguments.set == "short" and not run.short:
            continue
        if run.needs is not None and not (arguments.data / run.needs).exists():
            print(f"{name}: left out, there is no {arguments.data / run.needs}", flush=True)
            continue
        record = results["runs"][name] = measure(name, run, arguments.data)
        said = record.get("failed") or f"{record.get('winner', '')} {number(record, 'score')}"
        print(f"{name}: {record['cpu_seconds']:.1f} s {said}"[:200], flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(results, indent=1) + "\n")
    if not arguments.compare:
        return int(any("failed" in record for record in results["runs"].values()))
    before = json.loads(arguments.compare.read_text())
    text, wrong = table(before, results)
    print(text, *wrong, sep="\n")
    if arguments.report:
        write_report(arguments.report, text, before, results, wrong)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
