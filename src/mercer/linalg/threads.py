"""One knob for all threads: the number that SciPy's BLAS would use now.

Users set it as they always do (OMP_NUM_THREADS, OPENBLAS_NUM_THREADS, `threadpoolctl.threadpool_limits`); the fused
path follows, so that the two pools never ask for more cores than were granted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import scipy.linalg.lapack  # noqa: F401  (its BLAS must be loaded before it can be found)
from threadpoolctl import ThreadpoolController

_LOCK = threading.Lock()
_BEFORE: list[int] = []


@lru_cache(maxsize=1)
def _scipy_blas() -> Any | None:
    controllers = [c for c in ThreadpoolController().lib_controllers if c.user_api == "blas"]
    # NumPy brings a BLAS of its own, whose file name also says "scipy"
    preferred = [c for c in controllers if "numpy.libs" not in c.filepath and "mkl" not in c.filepath] or controllers
    return preferred[0] if preferred else None


def blas_threads() -> int:
    """Return how many threads SciPy's BLAS is set to use."""
    blas = _scipy_blas()
    return 1 if blas is None else max(1, int(blas.num_threads or 1))


@contextmanager
def one_thread(when: bool = True) -> Iterator[None]:
    """Keep SciPy's BLAS (and so the fused path) on one thread inside the block.

    For many small problems in a row two threads cost more than they give, and results must not depend on their number.
    The setting belongs to the process: blocks may nest, or overlap in several threads; the last one to leave restores.
    """
    blas = _scipy_blas() if when else None
    if blas is None:
        yield
        return
    with _LOCK:
        _BEFORE.append(blas.num_threads)
        blas.set_num_threads(1)
    try:
        yield
    finally:
        with _LOCK:
            last = _BEFORE.pop()  # the first to enter found the user's number, all others found one
            if not _BEFORE:
                blas.set_num_threads(last)
