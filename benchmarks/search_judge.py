"""Is a search on few rows better by its evidence under experience than by BIC? Forecasts of M1, M3 and Tourism.

    python -m benchmarks.search_judge --runs FOLDER [--each 3] [--out benchmarks/results/search-experience.md]

Series that priors may have been learned from are left out. The last 150 rows of each training part are searched by both
scores, the official test part is forecast. The error is relative to that of the seasonal naive forecast (geometric
mean); the log density is that of values in units of the mean seasonal change (mean of all, none counted below -8).
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

import mercer
from benchmarks.forecast_data import COLLECTIONS, SEASONS, Entry, draw, read_data
from benchmarks.machine import describe
from benchmarks.machine import lines as machine_lines

SCORES = ("bic", "evidence")
LEARNED_FROM = 40  # of each collection and kind, drawn with seed 1: no more were ever learned from
MOST_ROWS = 150
LEAST = -8.0  # log density that counts: one wild forecast is not to decide all
GROUPS = {"up to 40 rows": (0, 40), "41 to 100 rows": (41, 100), "101 to 150 rows": (101, 150)}


class Result(NamedTuple):
    """One forecast: its error relative to the naive one, log density, share of values in the band, seconds, parts."""

    rows: int
    error: float
    density: float
    inside: float
    seconds: float
    parts: int


def judge(entry: Entry, season: int, score: str) -> Result:
    """Search on the training part by a score, and forecast the test part."""
    y = entry.train[-MOST_ROWS:]
    places, ahead = np.arange(len(y)) / season, (len(y) + np.arange(entry.horizon)) / season
    lag = season if len(y) > season else 1
    unit = float(np.mean(np.abs(y[lag:] - y[:-lag]))) or 1.0
    naive = float(np.mean(np.abs(entry.test - y[len(y) - lag + np.arange(entry.horizon) % lag])))
    started = time.process_time()
    model = mercer.GPRegressor(mercer.GrammarSearch(score=score), random_state=0).fit(places[:, None], y)
    seconds = time.process_time() - started
    mean, std = model.predict(ahead[:, None], return_std=True)
    error = float(np.mean(np.abs(entry.test - mean))) / max(naive, 0.05 * unit)
    density = float(np.mean(model.log_density(ahead[:, None], entry.test))) + float(np.log(unit))
    inside = float(np.mean(np.abs(entry.test - mean) < 1.959964 * std))
    return Result(len(y), error, density, inside, seconds, len(list(model.kernel_.leaves())))


def summarise(results: list[Result]) -> str:
    """Return a row of a table."""
    error = float(np.exp(np.mean([np.log(max(r.error, 0.01)) for r in results])))
    density = float(np.mean([max(r.density, LEAST) for r in results]))
    others = (float(np.mean([getattr(r, name) for r in results])) for name in ("inside", "seconds", "parts"))
    inside, seconds, parts = others
    return f"{error:.3f} | {density:.2f} | {inside:.2f} | {seconds:.1f} | {parts:.1f}"


def write(found: dict[str, list[Result]], path: Path, each: int) -> None:
    """Write the table."""
    head = "| series | score | error / naive | log density | inside 95 % | processor s | parts |"
    lines = ["# A search by experience", "", "```", *machine_lines(describe()), "```", ""]
    lines += [
        (__doc__ or "").split("\n\n")[-1].strip(),
        "",
        f"`--each {each}`",
        "",
        head,
        "|---|---|---|---|---|---|---|",
    ]
    for name, (low, high) in GROUPS.items():
        for score, results in found.items():
            chosen = [r for r in results if low <= r.rows <= high]
            if chosen:
                lines.append(f"| {name}: {len(chosen)} | {score} | {summarise(chosen)} |")
    path.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("benchmarks/forecast-runs"), help="where series.json is")
    parser.add_argument("--each", type=int, default=3, help="series of each collection and kind")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/search-experience.md")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    data, found = read_data(given.runs), {score: list[Result]() for score in SCORES}
    for kind in ("yearly", "quarterly", "monthly"):
        for collection in COLLECTIONS:
            known = {entry.name for entry in draw(data[collection, kind], LEARNED_FROM, seed=1)}
            others = [entry for entry in data[collection, kind] if entry.name not in known]
            for entry in draw(others, given.each, seed=2):
                for score in SCORES:
                    found[score].append(judge(entry, SEASONS[kind], score))
                    print(collection, kind, entry.name, score, found[score][-1], flush=True)
    write(found, given.out, given.each)


if __name__ == "__main__":
    main()
