"""The numerical core, which Numba compiles once on each machine: is it there, and make it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mercer.compute import fused_sweep
from mercer.compute.compiling import SOURCES
from mercer.compute.program import compile_program
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.kernels.parameters import bind, values_of
from mercer.kernels.text import parse


def core_is_compiled(cache: Path | None = None) -> bool:
    """Tell whether Numba's cache on disk holds the core as it is now. Cheap, and True where it cannot tell.

    `cache` is the folder with it; None: where Numba keeps it.
    """
    try:
        folder = Path(fused_sweep.fill_rows.stats.cache_path) if cache is None else cache
        return all(
            any(SOURCES.encode() in index.read_bytes() for index in folder.glob(f"*.{name}-*.nbi"))
            for name in ("fill_rows", "contract_rows")
        )
    except (AttributeError, OSError, TypeError):
        return True


def compile_core() -> None:
    """Run every sweep once, on three rows, so that it is compiled (about half a minute) or loaded."""
    kernel = bind(parse("SE(0, variance=1, lengthscale=1)"), 1)
    program, values, data = compile_program(kernel), values_of(kernel), Data(np.arange(3.0)[:, None], np.zeros(3))
    Exact().evidence(program, values, Gaussian(0.1), data)
    Exact().posterior(program, values, Gaussian(0.1), data).predict(data.X)
