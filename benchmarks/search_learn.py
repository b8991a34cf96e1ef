"""Learn what a search takes from experience, from the training parts of M1, M3 and Tourism.

    python -m benchmarks.search_learn --runs FOLDER collect [--each 8]    # a search by BIC on each series
    python -m benchmarks.search_learn --runs FOLDER write                 # what they found, as one small file

`collect` writes a line for each series to FOLDER/searches.jsonl and goes on where it was cut off; `write` makes the
file that comes with the package. No test part is read, and none of the thirteen series of `benchmarks.discovery`.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.forecast_data import COLLECTIONS, SEASONS, STEPS, draw, read_data
from mercer.forecast.experience import packaged_priors
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.kernels.parameters import bind
from mercer.kernels.text import parse
from mercer.learners.contract import Context
from mercer.learners.experience import (
    NO_SEASON,
    Example,
    SearchPriors,
    StepExperience,
    learn_step,
    numbers_of_member,
)
from mercer.learners.experience import SEASONS as SEASON_STEPS
from mercer.learners.grammar import GrammarSearch

SEED = 1
MOST_ROWS = 144  # the last ones of each series: twelve years of months
PACKAGED = Path(__file__).parents[1] / "src/mercer/learners/experience.json"


def search_one(values: np.ndarray) -> dict[str, Any]:
    """Return the kernel that a search by BIC finds, for places and values of mean zero and variance one."""
    places = np.arange(len(values), dtype=float)
    X, y = (places - places.mean()) / places.std(), (values - values.mean()) / values.std()
    context = Context(Data(X[:, None], y, free_level=True), Exact(), [0])
    fit = GrammarSearch(score="bic", average=False, priors=None).learn(context).fit
    return {"kernel": fit.expression.text(), "noise": fit.noise, "gap": float(X[1] - X[0]), "span": float(np.ptp(X)),
            "low": float(X[0])}  # fmt: skip


def collect(runs: Path, each: int) -> None:
    """Search on `each` series of every collection and kind; those that were searched before are not again."""
    path = runs / "searches.jsonl"
    known = {json.loads(line)["name"] for line in path.read_text().splitlines()} if path.exists() else set()
    data = read_data(runs)
    work = [(c, k, e) for (c, k), many in data.items() if c in COLLECTIONS for e in draw(many, each, SEED)]
    for collection, kind, entry in work:
        name, values = f"{collection} {kind} {entry.name}", entry.train[-MOST_ROWS:]
        if name in known or np.ptp(values) == 0:
            continue
        found = {"name": name, "collection": collection, "kind": STEPS[kind], "season": SEASONS[kind],
                 "rows": len(values), **search_one(values)}  # fmt: skip
        with path.open("a") as file:
            file.write(json.dumps(found) + "\n")
        print(name, len(values), found["kernel"][:100], flush=True)


def complete(kind: str, found: StepExperience) -> StepExperience:
    """Add numbers that few kernels had from what forecasts learned, and the noise, which is fitted there with a prior.

    By maximum likelihood the noise beside a rough kernel is often zero, which says no more than that it is small.
    """
    name, season = ("year", 1) if kind == NO_SEASON else (kind, SEASON_STEPS[kind])
    numbers: dict[str, tuple[float, float]] = {}
    for member in packaged_priors().steps[name].members:
        if member.scale == "level":
            numbers = {**numbers_of_member(parse(member.kernel), member.prior, season), **numbers}
    noise = numbers["noise"]
    return replace(found, numbers={**numbers, **found.numbers, "noise": noise})


def write(runs: Path, least_rows: int) -> None:
    """Learn from the kernels found in series of enough rows for BIC to be right about their structure."""
    found = [json.loads(line) for line in (runs / "searches.jsonl").read_text().splitlines()]
    kinds: dict[str, list[Example]] = {}
    counts: Counter[str] = Counter()
    for each in found:
        if each["rows"] < least_rows:
            continue
        season = each["season"] * each["gap"] if each["season"] > 1 else 0.0
        kernel = bind(parse(each["kernel"]), 1)
        example = Example(kernel, each["noise"], each["gap"], each["low"], each["span"], season)
        kinds.setdefault(each["kind"] if season else NO_SEASON, []).append(example)
        counts[" ".join(each["name"].split()[:2])] += 1
    steps = {kind: complete(kind, learn_step(many)) for kind, many in sorted(kinds.items())}
    drawn = f"{least_rows} rows or more, drawn at random (seed {SEED}), the last {MOST_ROWS} rows of each"
    sources = tuple(f"{name}: training parts of {count} series of {drawn}" for name, count in sorted(counts.items()))
    sources += tuple(f"the noise, and numbers that few kernels had: {line}" for line in packaged_priors().sources)
    SearchPriors(steps, sources).save(PACKAGED)
    print(PACKAGED, {kind: len(many) for kind, many in kinds.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["collect", "write"])
    parser.add_argument("--runs", type=Path, default=Path("benchmarks/forecast-runs"), help="where series.json is")
    parser.add_argument("--each", type=int, default=8, help="series of each collection and kind")
    parser.add_argument("--least-rows", type=int, default=40, help="of a series that is learned from")
    given = parser.parse_args()
    if given.what == "collect":
        collect(given.runs, given.each)
    else:
        write(given.runs, given.least_rows)


if __name__ == "__main__":
    main()
