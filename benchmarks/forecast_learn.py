"""Learn priors from the training parts of M1, M3 and Tourism: `python -m benchmarks.forecast_learn --all`.

`--all` writes the file that comes with the package, learned from all three collections, and one for the figures on each
collection, learned from the other two: first the priors, then weights and bands from more series. `--without M3` writes
one of these files, `--bands` keeps the priors that are in it. Fits to series with their ends held back are kept in
--runs, so that weights and bands are learned again within seconds. No test part is read.
"""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Sequence
from multiprocessing import Pool
from pathlib import Path

import numpy as np

from benchmarks.forecast_data import COLLECTIONS, SEASONS, STEPS, draw, read_data
from mercer.forecast.experience import Experience, Priors, from_json, to_json
from mercer.forecast.learning import LEAST_SERIES, Held, LearningPolicy, fit_bands, hold_ends_back, learn_members
from mercer.forecast.model import Series

BANDS = "weights and bands from"
PRIOR_SERIES = {"monthly": 16, "quarterly": 50, "yearly": 100, "other": 14}  # of each collection: months take longest
BAND_SERIES = {"monthly": 60, "quarterly": 100, "yearly": 150, "other": 40}
PACKAGED = Path(__file__).parents[1] / "src/mercer/forecast/experience.json"


def priors_without(collection: str) -> Path:
    """Return the file of priors that were learned from the other collections."""
    return Path(__file__).parent / f"results/experience-without-{collection}.json"


def as_series(values: np.ndarray, season: int) -> Series:
    """Return evenly spaced values as a series without known causes."""
    return Series(np.arange(len(values)) / season, values, np.empty((len(values), 0)), float(season))


def learn_kind(work: tuple[Path, str | None, str, int, Experience | None]) -> tuple[str, list[str], Experience | None]:
    """Learn one kind of step from `each` series of every collection but one; return its name and its sources as well.

    Where an experience is given its priors are kept, and only weights and bands learned.
    """
    runs, without, kind, each, kept = work
    data, many, horizons, archives, sources = read_data(runs), [], [], [], []
    for number, collection in enumerate(COLLECTIONS):
        if collection != without and (collection, kind) in data:
            drawn = draw(data[collection, kind], each, seed=1)
            many += [as_series(entry.train, SEASONS[kind]) for entry in drawn]
            horizons += [entry.horizon for entry in drawn]  # as in the competition; its values are not read
            archives += [number] * len(drawn)
            what = "training parts" if kept is None else f"{BANDS} training parts"
            sources.append(f"{collection} {kind}: {what} of {len(drawn)} series drawn at random (seed 1)")
    if len(many) < LEAST_SERIES:
        return name_of(kind), [], None
    if kept is None:
        found = learn_members(many, LearningPolicy())  # weights and bands come from more series
    else:
        path = runs / f"ends-without-{without}-{kind}-{each}.pickle"
        found = fit_bands(keep_ends(path, many, kept, horizons, archives), kept, seasonal=SEASONS[kind] > 1)
    shown = (found.widening, found.growth, found.settling, found.lean, found.freedom, found.shrinkage, found.typical)
    print(without, kind, len(many), *(f"{number:.3f}" for number in shown), flush=True)
    return name_of(kind), sources, found


def keep_ends(
    path: Path, many: Sequence[Series], kept: Experience, horizons: Sequence[int], archives: Sequence[int]
) -> list[Held]:
    """Return the forecasts of what was held back; those of an earlier call where it had the same priors."""
    priors = [(member.scale, member.kernel, member.prior) for member in kept.members]
    if path.exists():
        known = pickle.loads(path.read_bytes())
        if known["priors"] == priors:
            return list(known["ends"])
    ends = hold_ends_back(many, kept, horizons, LearningPolicy(), archives)
    path.write_bytes(pickle.dumps({"priors": priors, "ends": ends}))
    return ends


def name_of(kind: str) -> str:
    """Return what an experience calls a kind of series."""
    return STEPS[kind] if SEASONS[kind] > 1 or kind == "yearly" else f"{STEPS[kind]} without season"


def file_without(without: str | None) -> Path:
    """Return where what was learned without a collection is kept; without None: what comes with the package."""
    return PACKAGED if without is None else priors_without(without)


def learn(
    runs: Path, sets: Sequence[str | None], kinds: Sequence[str], each: int | None, bands: bool, jobs: int
) -> None:
    """Learn some kinds for some files; what a file has of other kinds is kept."""
    known = {without: read_known(file_without(without)) for without in sets}
    counts = BAND_SERIES if bands else PRIOR_SERIES
    work = [
        (runs, without, kind, each or counts[kind], known[without].steps[name_of(kind)] if bands else None)
        for kind in kinds
        for without in sets
        if not bands or name_of(kind) in known[without].steps
    ]
    with Pool(jobs) as pool:
        found = pool.map(learn_kind, work, chunksize=1)
    for without, old in known.items():
        steps, sources = dict(old.steps), list(old.sources)
        for (_, own, kind, _, _), (name, learned_from, experience) in zip(work, found, strict=True):
            if own == without and experience is not None:
                steps[name] = experience
                again = f" {kind}: {BANDS}" if bands else f" {kind}: "  # what is said anew
                sources = [line for line in sources if again not in line] + learned_from
        file_without(without).write_text(to_json(Priors(steps, tuple(sources))))
        print(file_without(without))


def read_known(path: Path) -> Priors:
    """Return what is in a file; nothing where there is none."""
    return from_json(path.read_text()) if path.exists() else Priors({})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("benchmarks/forecast-runs"), help="where series.json is")
    parser.add_argument("--all", action="store_true", help="all files there are: the priors, then weights and bands")
    parser.add_argument("--without", choices=COLLECTIONS, help="the file for one collection; without it the package's")
    parser.add_argument("--kinds", default="monthly,quarterly,yearly,other")
    parser.add_argument("--each", type=int, help="series of each collection and kind; by kind without it")
    parser.add_argument("--bands", action="store_true", help="keep the priors in the files, learn weights and bands")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    sets = [*COLLECTIONS, None] if given.all else [given.without]
    for bands in (True,) if given.bands else (False, True):
        learn(given.runs, sets, given.kinds.split(","), given.each, bands, given.jobs)


if __name__ == "__main__":
    main()
