"""Change surfaces: known changes that are to be found again, changes of which the date is known, and none at all.

    python -m benchmarks.surfaces --data FOLDER [--part synthetic,real,measles,tcpd,steady,grid]

Default settings everywhere (`mercer.ChangeSurface()`) unless a row says otherwise. A
part that was finished is not run again unless it is older than `--older`, or with `--fresh`. Results and protocol:
benchmarks/results/surfaces.json, .md.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import mercer
from benchmarks.machine import NEVER, describe, is_kept
from benchmarks.surfaces_report import markdown, preferred
from mercer.learners.regimes import weigh_regimes

RESULTS = Path(__file__).parent / "results"
SEED = 0
MARGIN = 5  # rows by which a change may be missed in F1


def learned(X: Any, y: Any, **settings: Any) -> tuple[mercer.GPRegressor, float]:
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mercer.GPRegressor(mercer.ChangeSurface(**settings), random_state=SEED).fit(X, y)
    return model, time.perf_counter() - started


def crossings(model: mercer.GPRegressor) -> list[dict[str, float]]:
    change = model.change_
    if change is None:
        return []
    return [{"at": c.at, "low": c.low, "high": c.high, "width": c.width} for c in change.crossings]


def evidence(model: mercer.GPRegressor) -> dict[str, float]:
    """The score of each number of regimes, fitted to all rows."""
    return {str(count): score for count, score in sorted(weigh_regimes(model.candidates_).items())}


def summary(model: mercer.GPRegressor, seconds: float) -> dict[str, Any]:
    kernel = model.kernel_.text(digits=4)
    return {"kernel": kernel, "crossings": crossings(model), "bic": evidence(model), "seconds": round(seconds, 1)}


# ------------------------------------------------------------------------------------------------------- known truths


def synthetic(folder: Path) -> dict[str, Any]:
    """A change point on one column, and a surface over two: where, and between what."""
    line = pd.read_csv(folder / "change" / "synth_changepoint_1d.csv")
    truth = float(np.interp(0.5, line["true_s"], line["x"]))
    model, seconds = learned(line[["x"]], line["y"])
    found = summary(model, seconds)
    at = found["crossings"][0]["at"] if found["crossings"] else np.nan
    span = float(np.ptp(line["x"]))
    first = {**found, "true": truth, "off_percent_of_range": 100 * abs(at - truth) / span}

    plane = pd.read_csv(folder / "change" / "synth_changesurface_2d.csv")
    X = plane[["x1", "x2"]]
    model, seconds = learned(X, plane["y"])
    change = model.change_
    second = summary(model, seconds)
    if change is not None:
        shares = change.shares(X.to_numpy())
        errors = [float(np.mean(np.abs(shares[:, i] - plane["true_s"]))) for i in (0, 1)]
        late = int(np.argmin(errors))  # which regime the file's second one is
        second["mean_absolute_error_of_s"] = min(errors)
        second["lengthscales"] = [_lengths(model, regime) for regime in (1 - late, late)]
        second["lengthscales_of_true_f"] = [_true_lengths(plane, name) for name in ("true_f1", "true_f2")]
    return {"line": first, "plane": second}


def _lengths(model: mercer.GPRegressor, regime: int) -> list[float]:
    part = next(iter(model.kernel_.children[regime].leaves()))
    return [float(v) for v in part.parameter("lengthscale").values]


def _true_lengths(plane: pd.DataFrame, name: str) -> list[float]:
    """What SE finds in the function itself, at 400 rows with a little noise."""
    rows = plane.sample(400, random_state=SEED)
    y = rows[name] + 0.05 * np.random.default_rng(SEED).normal(size=len(rows))
    fitted = mercer.GPRegressor("SE", random_state=SEED).fit(rows[["x1", "x2"]], y)
    return [float(v) for v in fitted.kernel_.parameter("lengthscale").values]


# --------------------------------------------------------------------------------------------------------- known dates


def real(folder: Path) -> dict[str, Any]:
    """Nile, coal and seat belts: does the interval hold the known date, and how far off is the crossing?"""
    nile = pd.read_csv(folder / "change" / "nile.csv")
    coal = pd.read_csv(folder / "change" / "coal_disasters_annual.csv")
    belts = pd.read_csv(folder / "change" / "seatbelts.csv")
    cases = {
        "nile": (nile[["year"]], nile["volume"], 1898.0, 1898.0, 2.0, {}),
        "coal": (coal[["year"]], np.sqrt(coal["disasters"]), 1885.0, 1900.0, 8.0, {}),
        "seat belts": (belts[["time"]], belts["drivers"], 1983 + 1 / 12, 1983 + 1 / 12, 4 / 12, {}),
        # two changes are known: the oil crisis (early 1974) and the law of 31 January 1983
        "seat belts, 3": (belts[["time"]], belts["drivers"], 1983 + 1 / 12, 1983 + 1 / 12, 4 / 12, {"regimes": 3}),
    }
    result: dict[str, Any] = {}
    for name, (X, y, low, high, margin, settings) in cases.items():
        model, seconds = learned(X, y, **settings)
        found = summary(model, seconds)
        near = min(found["crossings"], key=lambda c: _off(c["at"], low, high), default=None)
        result[name] = {
            **found,
            "known": [low, high],
            "allowed": margin,
            "off": None if near is None else _off(near["at"], low, high),
            "interval_holds_it": near is not None and near["low"] <= high + 1e-6 and near["high"] >= low - 1e-6,
            "settings": settings,
        }
    return result


def _off(at: float, low: float, high: float) -> float:
    return max(low - at, at - high, 0.0)


def measles(folder: Path) -> dict[str, Any]:
    """US measles, log(1 + cases per 100,000 and year): the national decline, and a date for each state."""
    table = pd.read_csv(folder / "change" / "us_measles_state_year.csv").dropna(subset=["rate_per_100k"])
    table["log_rate"] = np.log1p(table["rate_per_100k"])
    cases = (table["rate_per_100k"] * table["population"]).groupby(table["year"]).sum()
    people = table.groupby("year")["population"].sum()
    national = pd.DataFrame({"log_rate": np.log1p(cases / people)}).reset_index()
    model, seconds = learned(national[["year"]], national["log_rate"])
    states: list[dict[str, Any]] = []
    for state, rows in table.groupby("state"):
        if len(rows) < 40:
            continue
        own, _ = learned(rows[["year"]], rows["log_rate"], kernel="C", draws=6, kernel_draws=4)
        found = crossings(own)
        if found:
            where = {"latitude": float(rows["latitude"].iloc[0]), "longitude": float(rows["longitude"].iloc[0])}
            states.append({"state": state, **where, **found[0]})
    draw_map(states, RESULTS / "surfaces-measles.png")
    return {"national": summary(model, seconds), "states": states}


def draw_map(states: list[dict[str, Any]], path: Path) -> None:
    """When each state changed, at its place."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    placed = [state for state in states if np.isfinite(state["latitude"])]
    figure = Figure(figsize=(8, 4.6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    years = [state["at"] for state in placed]
    dots = axes.scatter(
        [s["longitude"] for s in placed], [s["latitude"] for s in placed], c=years, cmap="cividis", s=150,
        vmin=np.quantile(years, 0.05), vmax=np.quantile(years, 0.95),
    )  # fmt: skip
    for state in placed:
        axes.annotate(
            f"{state['at']:.0f}", (state["longitude"], state["latitude"]), (0, 7), textcoords="offset points",
            ha="center", fontsize=6,
        )  # fmt: skip
    figure.colorbar(dots, label="year of the change", extend="both")
    axes.set(xlabel="longitude", ylabel="latitude", title="Measles: when the level of each state changed")
    figure.savefig(path)


# ------------------------------------------------------------------------------------------------- TCPD against PELT


def tcpd(folder: Path) -> dict[str, Any]:
    """F1 with a margin of 5 rows against the annotators' changes (van den Burg and Williams 2020): one change or none.

    Mercer: two regimes, and the change counts where they have the better score. ruptures: PELT with the model and
    penalty of its front page (rbf, 10), and the default model (l2) with the penalty 3 log n on the series of unit
    variance.
    """
    import ruptures

    annotations = json.loads((folder / "change" / "tcpd" / "annotations.json").read_text())
    result: dict[str, Any] = {}
    for name, marked in sorted(annotations.items()):
        path = folder / "change" / "tcpd" / f"{name}.csv"
        if not path.exists():
            continue
        table = pd.read_csv(path)
        table = table[["t", table.columns[-1]]].dropna()
        y = table.iloc[:, 1].to_numpy(dtype=float)
        y = (y - y.mean()) / y.std()
        model, seconds = learned(table[["t"]], y)
        scores = evidence(model)
        ours: list[int] = []
        if preferred(scores) == 2 and crossings(model):
            ours = [int((table["t"] < crossings(model)[0]["at"]).sum())]
        pelt = ruptures.Pelt(model="rbf").fit(y).predict(pen=10)[:-1]
        plain = ruptures.Pelt(model="l2").fit(y).predict(pen=3 * np.log(len(y)))[:-1]
        truth = list(marked.values())
        result[name] = {
            "rows": len(y), "found": ours, "pelt": pelt, "pelt_l2": plain, "seconds": round(seconds, 1),
            "f1": f1(truth, ours), "f1_pelt": f1(truth, pelt), "f1_pelt_l2": f1(truth, plain),
            "kernel": model.kernel_.text(digits=3), "bic": scores,
        }  # fmt: skip
    return result


def f1(annotators: list[list[int]], found: list[int]) -> float:
    """F1 of change points with several annotators; the first row counts as a change for everyone."""
    predicted = {0, *found}
    everyone = {0}.union(*map(set, annotators))
    precision = len(_matched(everyone, predicted)) / len(predicted)
    recalls = [len(_matched({0, *one}, predicted)) / len({0, *one}) for one in annotators]
    recall = float(np.mean(recalls))
    return 2 * precision * recall / (precision + recall)


def _matched(truth: set[int], predicted: set[int]) -> set[int]:
    """True changes that a prediction of its own lies near."""
    left, found = set(predicted), set()
    for place in sorted(truth):
        near = sorted((abs(place - other), other) for other in left if abs(place - other) <= MARGIN)
        if near:
            left.discard(near[0][1])
            found.add(place)
    return found


# ------------------------------------------------------------------------------------------------------------ no change


FIRST_KERNELS = (
    "SE(lengthscale=0.1, variance=1)",
    "M52(lengthscale=0.3, variance=1)",
    "PER(period=0.2, lengthscale=1, variance=1)",
    "RQ(lengthscale=0.1, alpha=1, variance=1)",
)
OTHER_KERNELS = (
    "M12(lengthscale=0.2, variance=1)",
    "M32(lengthscale=0.1, variance=1)",
    "SE(lengthscale=0.03, variance=1)",
    "SE(lengthscale=0.4, variance=1)",
    "SE(lengthscale=0.5, variance=1) * PER(period=0.15, lengthscale=1)",
    "C(variance=1)",
)
# Kernels and first seed of each set of draws; the criterion was settled on the first set, the others came after it.
STEADY = {
    "the draws it was settled on": (FIRST_KERNELS, 0),
    "the same kernels, new draws": (FIRST_KERNELS, 3000),
    "other kernels, new draws": (OTHER_KERNELS, 4000),
}


def steady(folder: Path) -> dict[str, Any]:
    """Sets of twenty draws from stationary processes, 120 rows, a tenth of noise: are two regimes preferred?"""
    return {
        name: [_steady_draw(mercer.parse(kernels[n % len(kernels)]), first + n) for n in range(20)]
        for name, (kernels, first) in STEADY.items()
    }


def _steady_draw(kernel: mercer.Expression, seed: int) -> dict[str, Any]:
    rng, x = np.random.default_rng(seed), np.linspace(0, 1, 120)
    y = draw_from(kernel, x, rng) + np.sqrt(0.1) * rng.normal(size=len(x))
    model, seconds = learned(x[:, None], y)
    scores = evidence(model)
    gain = scores.get("1", np.inf) - scores.get("2", np.inf)
    return {"kernel": str(kernel), "seed": seed, "gain": float(gain), "seconds": round(seconds, 1)}


def draw_from(kernel: mercer.Expression, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    from mercer.compute.fused import gram
    from mercer.compute.program import compile_program
    from mercer.kernels.parameters import bind, values_of

    bound = bind(kernel, 1)
    matrix = gram(compile_program(bound), values_of(bound), x[:, None])
    return rng.multivariate_normal(np.zeros(len(x)), matrix + 1e-9 * np.eye(len(x)), method="eigh")


PARTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "synthetic": synthetic,
    "real": real,
    "measles": measles,
    "tcpd": tcpd,
    "steady": steady,
}


def parts() -> dict[str, Callable[[Path], dict[str, Any]]]:
    """All parts: those on grids come from a file of their own."""
    try:
        from benchmarks import surfaces_grid
    except ImportError:
        return PARTS
    return PARTS | surfaces_grid.PARTS


def main() -> None:
    everything = parts()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with change/")
    parser.add_argument("--part", default=",".join(everything), help="some of " + ", ".join(everything))
    parser.add_argument("--fresh", action="store_true", help="run again what was finished")
    parser.add_argument("--older", default="", help="run again what was finished before this date")
    options = parser.parse_args()
    file = RESULTS / "surfaces.json"
    results: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    for name in options.part.split(","):
        older = NEVER if options.fresh else options.older
        if name in results and is_kept(results[name]["machine"], older, name):
            continue
        started = time.perf_counter()
        found = everything[name](options.data)
        seconds = round(time.perf_counter() - started, 1)
        results[name] = {"machine": describe(), "seconds": seconds, "results": found}
        file.write_text(json.dumps(results, indent=1))
        (RESULTS / "surfaces.md").write_text(markdown(results))
        print(f"{name}: {seconds:.0f} s", flush=True)
    print(markdown(results))


if __name__ == "__main__":
    main()
