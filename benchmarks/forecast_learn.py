"""Learn priors from the training parts of M1, M3 and Tourism: `python -m benchmarks.forecast_learn --help`.

Without options it writes the file that comes with the package, learned from all three. `--without M3` learns from the
other two, for the figures on M3. No test part is read.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.forecast_data import COLLECTIONS, SEASONS, STEPS, draw, read_data
from mercer.forecast.experience import Experience, Priors, from_json, to_json
from mercer.forecast.learning import LearningPolicy, learn_bands, learn_experience
from mercer.forecast.model import Series

HORIZONS = {"monthly": 18, "quarterly": 8, "yearly": 6, "other": 8}
PACKAGED = Path(__file__).parents[1] / "src/mercer/forecast/experience.json"


def priors_without(collection: str) -> Path:
    """Return the file of priors that were learned from the other collections."""
    return Path(__file__).parent / f"results/experience-without-{collection}.json"


def as_series(values: np.ndarray, season: int) -> Series:
    """Return evenly spaced values as a series without known causes."""
    return Series(np.arange(len(values)) / season, values, np.empty((len(values), 0)), float(season))


def learn(runs: Path, without: str | None, kinds: list[str], each: int, known: Path, bands: bool) -> Priors:
    """Learn from `each` series of every collection and kind; what is in the file `known` is kept for other kinds.

    bands : the priors in that file are kept for all kinds, and only weights and bands learned.
    """
    data, steps, sources = read_data(runs), dict[str, Experience](), list[str]()
    if known.exists():
        old = from_json(known.read_text())
        steps, sources = dict(old.steps), list(old.sources)
    for kind in kinds:
        many = []
        sources = [each for each in sources if f" {kind}: " not in each]
        for collection in COLLECTIONS:
            if collection != without and (collection, kind) in data:
                drawn = draw(data[collection, kind], each, seed=1)
                many += [as_series(entry.train, SEASONS[kind]) for entry in drawn]
                sources.append(f"{collection} {kind}: training parts of {len(drawn)} series drawn at random (seed 1)")
        name = STEPS[kind] if SEASONS[kind] > 1 or kind == "yearly" else f"{STEPS[kind]} without season"
        if len(many) >= 5:
            if bands:
                steps[name] = learn_bands(many, steps[name], HORIZONS[kind], LearningPolicy())
            else:
                steps[name] = learn_experience(many, HORIZONS[kind])
            print(without, kind, len(many), steps[name].widening, steps[name].growth, steps[name].freedom, flush=True)
    return Priors(steps, tuple(dict.fromkeys(sources)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("benchmarks/forecast-runs"), help="where series.json is")
    parser.add_argument("--without", choices=COLLECTIONS, default=None)
    parser.add_argument("--kinds", default="yearly,quarterly,monthly,other")
    parser.add_argument("--each", type=int, default=16, help="series of each collection and kind")
    parser.add_argument("--bands", action="store_true", help="keep the priors in the file, learn weights and bands")
    parser.add_argument("--out", type=Path, default=None)
    given = parser.parse_args()
    out = given.out or (PACKAGED if given.without is None else priors_without(given.without))
    found = learn(given.runs, given.without, given.kinds.split(","), given.each, out, given.bands)
    out.write_text(to_json(found))
    print(out)


if __name__ == "__main__":
    main()
