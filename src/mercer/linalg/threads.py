"""One knob for all threads: the number that SciPy's BLAS would use now.

Users set it as they always do (OMP_NUM_THREADS, OPENBLAS_NUM_THREADS, `threadpoolctl.threadpool_limits`); the fused
path follows, so that the two pools never ask for more cores than were granted.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import scipy.linalg.lapack  # noqa: F401  (its BLAS must be loaded before it can be found)
from threadpoolctl import ThreadpoolController


@lru_cache(maxsize=1)
def _scipy_blas() -> Any | None:
    controllers = [c for c in ThreadpoolController().lib_controllers if c.user_api == "blas"]
    preferred = [c for c in controllers if "scipy" in c.filepath] or controllers
    return preferred[0] if preferred else None


def blas_threads() -> int:
    """Return how many threads SciPy's BLAS is set to use."""
    blas = _scipy_blas()
    return 1 if blas is None else max(1, int(blas.num_threads or 1))
