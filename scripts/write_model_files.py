"""Write one small model file of each kind, with the predictions that it must give for ever.

    python scripts/write_model_files.py tests/fixtures/version-X.Y

Run it with the version of Mercer whose files are to be kept, before anything about files changes;
tests/estimators/test_old_files.py then reads the files of every version with every later one.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import mercer


def series(rows: int = 30) -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(float(rows))
    return x[:, None], 5 + np.sin(x / 2) + 0.05 * x + 0.1 * np.cos(97 * x)


def plane(rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.uniform(0.0, 20.0, rows), rng.uniform(0.0, 1.0, rows)])
    return X, np.sin(X[:, 0]) + 2.0 * X[:, 1] + 0.1 * rng.normal(size=rows)


def steady(rows: int = 20_010) -> pd.DataFrame:
    """More rows than are kept of a stream, of few kinds so that the file stays small."""
    kind = np.arange(rows) // (rows // 8 + 1)
    return pd.DataFrame({"a": kind * 0.5, "y": np.round(np.sin(kind * 0.5), 2) + 0.25 * (np.arange(rows) % 2)})


def step(rows: int = 40) -> tuple[np.ndarray, np.ndarray]:
    X, y = series(rows)
    return X, y + 6.0 * (X[:, 0] > rows / 2)


def flowers(rows: int = 45) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    labels = np.arange(rows) % 3
    centres = np.array([[0.0, 0.0], [2.0, 0.3], [0.5, 2.0]])
    return centres[labels] + 0.6 * rng.normal(size=(rows, 2)), np.array(["aster", "bellis", "cosmos"])[labels]


def mixed(rows: int = 36) -> tuple[pd.DataFrame, pd.Series]:
    when = pd.date_range("2001-01-01", periods=rows, freq="MS")
    table = pd.DataFrame({"when": when, "kind": ["a", "b", "c"] * (rows // 3), "size": np.cos(np.arange(rows))})
    target = pd.Series(np.sin(np.arange(rows) / 2) + (table["kind"] == "b") + 0.3 * table["size"], name="sales")
    return table, target


def picture(shape: tuple[int, int] = (7, 9)) -> np.ndarray:
    rng = np.random.default_rng(11)
    down, across = np.meshgrid(np.arange(shape[0]), np.arange(shape[1]), indexing="ij")
    values = np.sin(down / 2.0) + np.cos(across / 3.0) + 0.05 * rng.normal(size=shape)
    values[rng.uniform(size=shape) < 0.2] = np.nan
    return values


def models(folder: Path) -> dict[str, tuple[Any, Any]]:
    """Return for each kind a fitted model and the rows to predict at (None for a grid, which fills its own cells)."""

    def fit(kernel: Any, X: Any, y: Any, **settings: Any) -> mercer.GPRegressor:
        few = {"restarts": 1} if isinstance(kernel, str) else {}  # a learner has its own
        return mercer.GPRegressor(kernel, random_state=0, **few, **settings).fit(X, y)

    new, far = np.linspace(-3.0, 40.0, 9)[:, None], plane()[0][:9]
    rows = folder / "rows.parquet"
    steady().to_parquet(rows, index=False)
    network = mercer.NeuralKernelNetwork(
        primitives="SE + PER + LIN", layers="Linear4-Product2-Linear1", restarts=2, max_iterations=30
    )
    trained = fit(network, *series())
    table, sales = mixed()
    return {
        "exact": (fit("SE*PER + LIN", *series(), priors="weak"), new),
        "known-noise": (fit("SE + LIN(0, offset=fixed(2))", *series(), noise=0.01), new),
        "search": (fit(mercer.GrammarSearch(bases=["SE", "PER", "LIN"], max_depth=1, restarts=2), *series(48)), new),
        "table": (fit("SE(when) + SE(size) + LIN", table, sales), table.iloc[::4]),
        "network": (trained, new),
        "distilled": (trained.distil(), new),
        "change-point": (fit("CP(C, C) + SE", *step()), new),
        "change-surface": (fit(mercer.ChangeSurface(kernel="SE", draws=2, kernel_draws=2, max_iterations=20), *step()),
                           new),
        "plane-surface": (fit(mercer.ChangeSurface(features=3, draws=2, kernel_draws=2, max_iterations=10),
                              *(part[:60] for part in plane())), far),
        "functional": (fit(mercer.KernelFunctional(subspaces=1, iterations=3), *series()), new),
        "sparse": (fit("SE(0) + LIN(1)", *plane(), inference=mercer.VFE(inducing=12), max_iterations=20), far),
        "random-features": (fit("SE(0) + LIN(1)", *plane(), inference=mercer.RandomFeatures(count=30)), far),
        "stream": (fit("SE(a)", mercer.ParquetRows(str(rows), target="y"), None, inference=mercer.VFE(inducing=6)),
                   pd.DataFrame({"a": np.linspace(-1.0, 5.0, 9)})),
        "grid": (mercer.GridRegressor("SE", random_state=0, restarts=1).fit(picture()), None),
        "classes": (mercer.KernelSVC("M32", random_state=0).fit(*flowers()), flowers()[0][:9]),
        "functional-classes": (
            mercer.KernelSVC(mercer.KernelFunctional(subspaces=1, iterations=3), random_state=0).fit(*flowers()),
            flowers()[0][:9],
        ),
    }  # fmt: skip


def plain(rows: Any) -> Any:
    if isinstance(rows, pd.DataFrame):
        return {name: [str(v) if hasattr(v, "year") else v for v in rows[name].tolist()] for name in rows}
    return None if rows is None else rows.tolist()


def expected(model: Any, rows: Any) -> dict[str, Any]:
    """Return the predictions, and what else a file must bring back."""
    if isinstance(model, mercer.KernelSVC):
        return {
            "decision": model.decision_function(rows).tolist(),
            "classes": model.predict(rows).tolist(),
            "error": model.error_,
            "kernel": str(model.kernel_),
        }
    mean, std = model.fill(return_std=True) if rows is None else model.predict(rows, return_std=True)
    kept = {"log_evidence": model.log_evidence_, "bic": model.bic_, "noise": model.noise_, "kernel": str(model.kernel_)}
    if rows is not None:
        kept["candidates"] = len(model.candidates_)
    return {"mean": mean.tolist(), "std": std.tolist()} | kept


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    record: dict[str, Any] = {"version": mercer.__version__, "files": {}}
    with tempfile.TemporaryDirectory() as folder:
        for name, (model, rows) in models(Path(folder)).items():
            model.save(out / f"{name}.mercer")
            record["files"][name] = {"rows": plain(rows)} | expected(model, rows)
    (out / "expected.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
