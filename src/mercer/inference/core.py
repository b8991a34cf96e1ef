"""The numerical core, which Numba compiles once on each machine: is it there, and make it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mercer.compute import fused, fused_sweep
from mercer.compute.compiling import SOURCES
from mercer.compute.program import compile_program
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.kernels.parameters import bind, values_of
from mercer.kernels.text import parse

SWEEPS = ("fill_rows", "contract_rows", "lag_tables", "contract_lags", "slope_rows")  # what is compiled, largest first


def core_is_compiled(cache: Path | None = None) -> bool:
    """Tell whether Numba's cache on disk holds the core as it is now. Cheap, and True where it cannot tell.

    `cache` is the folder with it; None: where Numba keeps it.
    """
    try:
        folder = Path(fused_sweep.fill_rows.stats.cache_path) if cache is None else cache
        return all(
            any(SOURCES.encode() in index.read_bytes() for index in folder.glob(f"*.{name}-*.nbi"))
            for name in SWEEPS
        )
    except (AttributeError, OSError, TypeError):
        return True


def compile_core() -> None:
    """Run every sweep once, on three rows, so that it is compiled (about half a minute) or loaded."""
    kernel = bind(parse("PER(0, variance=1, period=3, lengthscale=1) + C(variance=1)"), 1)
    program, values = compile_program(kernel), values_of(kernel)
    for places in ([0.0, 1.0, 2.0], [0.0, 1.0, 3.0]):  # tables of lags where steps are even, and slopes where not
        data = Data(np.array(places)[:, None], np.zeros(3))
        Exact().evidence(program, values, Gaussian(0.1), data)
        fused.slopes(program, values, fused.points(data.X), data.y)
    Exact().posterior(program, values, Gaussian(0.1), data).predict(data.X)
