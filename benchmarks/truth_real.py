"""Thirty real data sets for `benchmarks.truth`, of which the truth is not known: what needs no truth is judged.

Twelve travel with scikit-learn and Mercer; the others are in a folder with `timeseries/` and `regression/`
(benchmarks/README.md). Of a series the last sixth, of a table a fifth of the rows drawn at random is held back.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.truth_data import Entry, KnownSet, Truth

MOST_ROWS = 800  # of a table
SERIES_FILES = (
    "02-solar", "03-mauna", "04-wheat", "05-temperature", "06-internet", "07-call-centre", "08-radio",
    "09-gas-production", "10-sulphuric", "11-unemployment", "12-births", "13-wages",
)  # fmt: skip
TABLE_FILES = ("auto", "boston", "concrete", "energy", "yacht", "power_plant")


def load_bundle(name: str, target: str | None = None, columns: int | None = None) -> pd.DataFrame:
    """Return a table that travels with scikit-learn; `target` is one of its columns, else its own."""
    from sklearn import datasets

    frame: pd.DataFrame = getattr(datasets, f"load_{name}")(as_frame=True).frame
    names = {each: str(each).replace(" (cm)", "").replace("/", " per ") for each in frame}
    frame = frame.rename(columns=names)
    if columns is not None:
        frame = frame[[*list(frame.columns[:columns]), "target"]]
    if target is not None and target != "target":
        frame = frame.drop(columns="target", errors="ignore")
    return frame


def load_digits() -> pd.DataFrame:
    """Threes and eights: of the 64 pixels some never vary."""
    frame = load_bundle("digits")
    return frame[frame["target"].isin([3, 8])]


def load_package(name: str) -> pd.DataFrame:
    from mercer import datasets

    frame: pd.DataFrame = getattr(datasets, name)()
    return frame


BUNDLED: dict[str, tuple[Callable[[], pd.DataFrame], str, str]] = {
    "airline": (lambda: load_package("airline"), "passengers", "series"),
    "nile": (lambda: load_package("nile"), "flow", "series"),
    "diabetes": (lambda: load_bundle("diabetes"), "target", "table"),
    "linnerud-weight": (lambda: load_bundle("linnerud", "Weight"), "Weight", "table"),
    "linnerud-pulse": (lambda: load_bundle("linnerud", "Pulse"), "Pulse", "table"),
    "iris-petals": (lambda: load_bundle("iris", "petal width"), "petal width", "table"),
    "wine-alcohol": (lambda: load_bundle("wine", "alcohol"), "alcohol", "table"),
    "wine-colour": (lambda: load_bundle("wine", "color_intensity"), "color_intensity", "table"),
    "iris": (lambda: load_bundle("iris"), "target", "classes"),
    "wine": (lambda: load_bundle("wine"), "target", "classes"),
    "cancer": (lambda: load_bundle("breast_cancer", columns=10), "target", "classes"),
    "digits": (load_digits, "target", "classes"),
}


def list_real(data: Path | None) -> list[Entry]:
    """Return the bundled ones, and those of the folder where one is given."""
    names = [(f"real-{name}", f"real-{kind}") for name, (_, _, kind) in BUNDLED.items()]
    if data is not None:
        names += [(f"real-{name}", "real-series") for name in SERIES_FILES]
        names += [(f"real-{name}", "real-table") for name in TABLE_FILES]
    return [Entry(name, family, 0) for name, family in names]


def make_real(entry: Entry, data: Path | None) -> KnownSet:
    """Read a data set, hold some rows back, and say the little that is known of it."""
    name, kind = entry.name.removeprefix("real-"), entry.family.removeprefix("real-")
    if name in BUNDLED:
        load, target, _ = BUNDLED[name]
        frame = load()
    elif data is None:
        raise ValueError(f"'{entry.name}' needs a folder: give --data")
    elif kind == "series":
        frame, target = pd.read_csv(data / "timeseries" / f"{name}.csv")[["x", "y"]], "y"
    else:
        frame = pd.read_csv(data / "regression" / f"{name}.csv").dropna()
        target = str(frame.columns[-1])
    return hold_back(entry, frame.reset_index(drop=True), target, kind)


def hold_back(entry: Entry, frame: pd.DataFrame, target: str, kind: str) -> KnownSet:
    if kind == "series":
        seen, unseen = frame.iloc[: len(frame) * 5 // 6], frame.iloc[len(frame) * 5 // 6 :]
    else:
        order = np.random.default_rng(0).permutation(len(frame))[: MOST_ROWS * 5 // 4]
        seen, unseen = frame.iloc[order[: len(order) * 4 // 5]], frame.iloc[order[len(order) * 4 // 5 :]]
    seen = seen.reset_index(drop=True)
    constant = tuple(str(name) for name in seen if seen[name].nunique() == 1)
    known: dict[str, Any] = {"constant": constant}
    if kind == "series":
        column = str(frame.columns[0])
        known |= {"column": column} | describe_places(seen[column])
    truth = Truth("real", target, len(seen), **known)
    return KnownSet(entry.name, entry.family, seen, target, truth, unseen, kind == "classes")


def describe_places(column: pd.Series) -> dict[str, Any]:
    if np.issubdtype(column.dtype, np.datetime64):
        return {"unit": "months", "step": 1.0, "first": 0.0, "last": float(len(column) - 1)}
    at = column.to_numpy(dtype=float)
    step = float(np.median(np.diff(at)))
    unit = "years" if str(column.name) == "year" else None
    return {"unit": unit, "step": step, "first": float(at[0]), "last": float(at[-1])}
