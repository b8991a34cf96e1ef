"""How many regimes? Sixty draws that have two, three, or no change at all.

    python -m benchmarks.surfaces_regimes [--seeds 0:20] [--kinds two,three,none] [--runs FOLDER] [--report FILE]

Every draw is one file in the folder of runs: what is there is not run again, so that it can be stopped and continued.
Results and protocol: benchmarks/results/regimes.md.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mercer
from benchmarks.machine import describe
from benchmarks.surfaces import evidence
from benchmarks.surfaces_report import preferred

Array = NDArray[np.float64]
RESULTS = Path(__file__).parent / "results"
KINDS = {"two": 2, "three": 3, "none": 1}  # regimes of the draws
ASKED = {"two": 19, "three": 15, "none": 19}  # of 20
ROWS = np.geomspace(60, 400, 20).round().astype(int)


@dataclass(frozen=True)
class Draw:
    """Rows, target, and where each regime holds."""

    kind: str
    seed: int
    border: str
    X: Array
    y: Array
    holds: NDArray[np.int64]


def draw(kind: str, seed: int) -> Draw:
    """Make one set of rows; rows, columns and the form of the border follow from the seed, so that all come up."""
    rng = np.random.default_rng([seed, KINDS[kind]])
    rows, columns = int(ROWS[3 * seed % 20]), 1 + seed % 3
    X = rng.uniform(0.0, 1.0, (rows, columns))
    if kind == "none":
        return Draw(kind, seed, "none", X, _smooth(X, rng, seed), np.zeros(rows, dtype=np.int64))
    border = "point" if columns == 1 else _BORDERS[seed // 3 % 4]
    holds = _regions(border, KINDS[kind], X, rng)
    gaps = rng.uniform(5.0, 10.0, KINDS[kind] - 1)  # noise has deviation one
    levels = rng.permutation(np.concatenate([[0.0], np.cumsum(gaps)]))
    y = levels[holds] + rng.normal(size=rows)
    if seed % 2:  # in every second draw something varies in each regime too, by as much as the noise
        own = np.array([_waves(X, rng, 0.5 * np.sqrt(columns)) for _ in levels])
        y = y + own[holds, np.arange(rows)]
    return Draw(kind, seed, border, X, y, holds)


_BORDERS = ("straight", "circle", "cells", "wave")


def _regions(border: str, regimes: int, X: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the regime of each row; each has about a quarter of the rows at least, of three about a fifth."""
    columns = X.shape[1]
    least = 0.25 if regimes == 2 else 0.2
    if border == "cells":  # straight borders that meet: which of some points is nearest
        while True:
            centres = rng.uniform(0.0, 1.0, (regimes, columns))
            holds = np.argmin(((X[:, None, :] - centres) ** 2).sum(axis=2), axis=1)
            if np.bincount(holds, minlength=regimes).min() >= least * len(X):
                return holds
    direction = rng.normal(size=columns)
    height = X @ direction / np.linalg.norm(direction)
    if border == "circle":
        height = np.linalg.norm(X - rng.uniform(0.2, 0.8, columns), axis=1)
    elif border == "wave":
        height = X[:, 0] + 0.15 * np.sin(2 * np.pi * (X[:, 1] + rng.uniform()))
    shares = rng.dirichlet(np.full(regimes, 3.0)) * (1.0 - regimes * least) + least
    return np.digitize(height, np.quantile(height, np.cumsum(shares)[:-1]))


def _smooth(X: Array, rng: np.random.Generator, seed: int) -> Array:
    """A draw from SE or Matern 5/2 by its spectrum, with a third to a tenth of it noise, in deviations."""
    length = rng.uniform(0.2, 0.6) * np.sqrt(X.shape[1])
    return rng.uniform(3.0, 10.0) * _waves(X, rng, length, 5.0 if seed % 2 else None) + rng.normal(size=len(X))


def _waves(X: Array, rng: np.random.Generator, length: float, freedom: float | None = None) -> Array:
    """A random function of unit variance (over draws): 400 waves with normal or Student frequencies."""
    frequencies = rng.normal(size=(400, X.shape[1])) / length
    if freedom is not None:
        frequencies /= np.sqrt(rng.chisquare(freedom, (400, 1)) / freedom)
    waves = np.cos(X @ frequencies.T + rng.uniform(0.0, 2 * np.pi, 400))
    return np.asarray(waves @ rng.normal(size=400) * np.sqrt(2.0 / 400))


def run(made: Draw, surface: str) -> dict[str, Any]:
    """Fit up to three regimes; the score of each number of them, and which is preferred."""
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner = mercer.ChangeSurface(regimes=3, surface=surface)  # type: ignore[arg-type]
        model = mercer.GPRegressor(learner, random_state=0).fit(made.X, made.y)
    scores = evidence(model)
    return {
        "kind": made.kind, "seed": made.seed, "rows": len(made.y), "columns": made.X.shape[1], "border": made.border,
        "surface": surface, "scores": scores, "preferred": preferred(scores),
        "seconds": round(time.perf_counter() - started, 1), "notes": list(model.notes_), "machine": describe(),
    }  # fmt: skip


def report(found: list[dict[str, Any]]) -> str:
    """Write the protocol and the tables."""
    lines = [PROTOCOL, "| draws | surface | right | asked | one column | several columns | seconds: median, most |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for surface, title in SURFACES.items():
        for kind in KINDS:
            own = [one for one in found if one["kind"] == kind and one["surface"] == surface]
            if own:
                seconds = [one["seconds"] for one in own]
                asked = f"{ASKED[kind]} of 20" if surface == "auto" else ""
                apart = [_count([one for one in own if (one["columns"] == 1) is single]) for single in (True, False)]
                cells = [_NAMES[kind], title, _count(own), asked, *apart]
                lines.append(f"| {' | '.join(cells)} | {np.median(seconds):.0f}, {max(seconds):.0f} |")
    lines += ["", "Every draw. The gain is that over one regime fewer, in log evidence: half that of scores.", ""]
    lines += ["| draws | seed | rows | columns | border | surface | gain of 2 | gain of 3 | preferred | s |"]
    lines += ["|---|---|---|---|---|---|---|---|---|---|"]
    for one in found:
        scores, wrong = one["scores"], "" if one["preferred"] == KINDS[one["kind"]] else " (wrong)"
        gains = [_gain(scores, count) for count in ("2", "3")]
        lines.append(
            f"| {_NAMES[one['kind']]} | {one['seed']} | {one['rows']} | {one['columns']} | {one['border']} | "
            f"{SURFACES[one['surface']]} | {gains[0]} | {gains[1]} | {one['preferred']}{wrong} | {one['seconds']} |"
        )
    machine = found[-1]["machine"]
    total = sum(one["seconds"] for one in found)
    end = f"{total:.0f} s on {machine['processor']}, {machine['usable cores']} cores, load {machine['load average']}"
    return "\n".join([*lines, "", f"{end}, {machine['date']}.", ""])


def _count(found: list[dict[str, Any]]) -> str:
    return f"{sum(one['preferred'] == KINDS[one['kind']] for one in found)} of {len(found)}"


def _gain(scores: dict[str, float], count: str) -> str:
    fewer = str(int(count) - 1)
    return f"{0.5 * (scores[fewer] - scores[count]):.1f}" if {count, fewer} <= set(scores) else ""


SURFACES = {"auto": "default", "rks": '`surface="rks"`'}
_NAMES = {"two": "two regimes", "three": "three regimes", "none": "no change"}
PROTOCOL = """# How many regimes?

`make bench-regimes`. `mercer.ChangeSurface(regimes=3)`, all else default, seed 0: which number of regimes has the best
score (`model.change_.preferred`)? Draws of seeds 0 to 19; the method was developed on seeds from 20 on.
60 to 400 rows, 1 to 3 columns, uniform in the unit cube.
Two and three regimes: levels 5 to 10 noise deviations apart; on several columns the border is straight, a circle, that
of cells around points (straight borders that meet), or a wave; each has a quarter of the rows at least, of three a
fifth. In every second draw a smooth function with the deviation of the noise varies in each regime. No change: draws
from SE and Matern 5/2 on all columns, lengthscales 0.2 to 0.6 times the root of the columns, 3 to 10 noise deviations.
On one column the default is change points (`CP`), judged by BIC, averaged over kernels; on several it is
`surface="rks"`, judged by the evidence under the priors. `--surface auto,rks` adds rks on one column.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:20", help="first:last, the last not among them")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--surface", default="auto", help="auto,rks: also rks on one column; elsewhere it is the same")
    parser.add_argument("--runs", type=Path, default=RESULTS / "regimes-runs", help="a file for each draw")
    parser.add_argument("--report", type=Path, default=RESULTS / "regimes.md")
    options = parser.parse_args()
    options.runs.mkdir(parents=True, exist_ok=True)
    found = []
    for surface in options.surface.split(","):
        for kind in options.kinds.split(","):
            for seed in range(*map(int, options.seeds.split(":"))):
                made, file = draw(kind, seed), options.runs / f"{kind}-{seed}-{surface}.json"
                if surface == "rks" and made.X.shape[1] > 1:
                    continue
                if not file.exists():
                    one = run(made, surface)
                    file.write_text(json.dumps(one))
                    print(kind, seed, len(made.y), made.X.shape[1], made.border, surface, one["preferred"],
                          one["scores"], one["seconds"], flush=True)  # fmt: skip
                found.append(json.loads(file.read_text()))
    options.report.write_text(report(found))


if __name__ == "__main__":
    main()
