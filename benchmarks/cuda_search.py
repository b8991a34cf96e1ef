"""The default search with every lap as one batch on a GPU, against the same search on the cores of the same machine.

Run by `python -m benchmarks.cuda --part search`. Needs scikit-learn, joblib and BoTorch too.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.datasets import AIRLINE_PASSENGERS
from mercer.kernels.algebra import structure

Array = NDArray[np.float64]

DEPTH = 2  # of the search on the long series: two cores take half a minute and more for each step


def airline() -> tuple[Array, Array]:
    passengers = np.array(AIRLINE_PASSENGERS, dtype=float).ravel()
    return np.arange(len(passengers), dtype=float)[:, None], passengers


def synthetic(rows: int) -> tuple[Array, Array]:
    """A trend, a slow wave, a season whose size grows, and noise; evenly spaced."""
    rng = np.random.default_rng(0)
    t = np.arange(rows, dtype=float)
    season = (1 + t / rows) * (np.sin(2 * np.pi * t / 25) + 0.4 * np.cos(4 * np.pi * t / 25))
    return t[:, None], 0.004 * t + 1.5 * np.sin(2 * np.pi * t / 430) + season + 0.3 * rng.standard_normal(rows)


def one_search(X: Array, y: Array, device: str, jobs: int, depth: int | None) -> tuple[float, Any]:
    """Return the seconds of a fit with the default search, without averaging, and the fitted model."""
    from mercer import GPRegressor, GrammarSearch

    search = GrammarSearch(max_depth=depth, average=False)
    started = time.perf_counter()
    model = GPRegressor(search, device=device, n_jobs=jobs, random_state=0).fit(X, y)
    return time.perf_counter() - started, model


def run(device: str, jobs: list[int], rows: int) -> None:
    """Print one line for each series and each way to run its search."""
    series: dict[str, tuple[Array, Array, int | None]] = {
        "airline, 144 rows": (*airline(), None),
        f"synthetic, {rows} rows": (*synthetic(rows), DEPTH),
    }
    ways = [(device, 1), *(("cpu", count) for count in sorted(jobs, reverse=True))]
    for on, count in [("cpu", 1), *ways]:  # compiles, loads CUDA's libraries, starts worker processes
        one_search(*(part[:40] for part in airline()), on, count, 1)
    print(f"protocol  default search without averaging, seed 0; the long series to depth {DEPTH}; one run each, warm\n")
    print(f"{'':24}{'':18}{'seconds':>9}{'kernels':>9}{'log evidence':>14}  winner")
    for title, (X, y, depth) in series.items():
        for on, count in ways:
            seconds, model = one_search(X, y, on, count, depth)
            way = f"cpu, n_jobs={count}" if on == "cpu" else on
            print(
                f"{title:24}{way:18}{seconds:9.1f}{len(model.candidates_):9}{model.log_evidence_:14.4f}"
                f"  {structure(model.kernel_).text()}",
                flush=True,
            )
