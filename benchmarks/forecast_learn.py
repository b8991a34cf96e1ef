"""Learn priors from the training parts of M1, M3 and Tourism: `python -m benchmarks.forecast_learn --help`.

Without options it writes the file that comes with the package, learned from all three. `--without M3` learns from the
other two, for the figures on M3; `--without each --jobs 16` learns everything. No test part is read.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from multiprocessing import Pool
from pathlib import Path

import numpy as np

from benchmarks.forecast_data import COLLECTIONS, SEASONS, STEPS, draw, read_data
from mercer.forecast.experience import Experience, Priors, from_json, to_json
from mercer.forecast.learning import LEAST_SERIES, LearningPolicy, learn_bands, learn_experience
from mercer.forecast.model import Series

BANDS = "weights and bands from"
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
    found = (
        learn_experience(many, horizons, archives=archives)
        if kept is None
        else learn_bands(many, kept, horizons, LearningPolicy(), archives)
    )
    shown = (found.widening, found.growth, found.settling, found.lean, found.freedom)
    print(without, kind, len(many), *(f"{number:.3f}" for number in shown), flush=True)
    return name_of(kind), sources, found


def name_of(kind: str) -> str:
    """Return what an experience calls a kind of series."""
    return STEPS[kind] if SEASONS[kind] > 1 or kind == "yearly" else f"{STEPS[kind]} without season"


def file_without(without: str | None) -> Path:
    """Return where what was learned without a collection is kept; without None: what comes with the package."""
    return PACKAGED if without is None else priors_without(without)


def learn(runs: Path, sets: Sequence[str | None], kinds: Sequence[str], each: int, bands: bool, jobs: int) -> None:
    """Learn some kinds for some files; what a file has of other kinds is kept."""
    known = {without: read_known(file_without(without)) for without in sets}
    work = [
        (runs, without, kind, each, known[without].steps[name_of(kind)] if bands else None)
        for kind in kinds
        for without in sets
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
    parser.add_argument("--without", choices=[*COLLECTIONS, "each"], help="a collection; each: all files there are")
    parser.add_argument("--kinds", default="monthly,quarterly,yearly,other")
    parser.add_argument("--each", type=int, default=60, help="series of each collection and kind")
    parser.add_argument("--bands", action="store_true", help="keep the priors in the file, learn weights and bands")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    sets = [*COLLECTIONS, None] if given.without == "each" else [given.without]
    learn(given.runs, sets, given.kinds.split(","), given.each, given.bands, given.jobs)


if __name__ == "__main__":
    main()
