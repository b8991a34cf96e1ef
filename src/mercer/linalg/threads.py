"""One knob for all threads: the number that SciPy's BLAS would use now.

Users set it as they always do (OMP_NUM_THREADS, OPENBLAS_NUM_THREADS, `threadpoolctl.threadpool_limits`); the fused
path follows, so that the two pools never ask for more cores than were granted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from threading import Lock
from typing import Any

import scipy.linalg.lapack  # noqa: F401  (its BLAS must be loaded before it can be found)
from threadpoolctl import ThreadpoolController

# Below this many rows a second thread costs more than it saves. OpenBLAS deals out work from a few dozen rows on, and
# its threads wait for each other by spinning: on a busy machine 150 rows then take a second instead of a quarter of a
# millisecond.
SMALL = 300


class _Pause:
    """How many callers want one thread just now, and how many threads there were before the first of them came."""

    lock = Lock()
    callers = 0
    granted = 1


@lru_cache(maxsize=1)
def _scipy_blas() -> Any | None:
    controllers = [c for c in ThreadpoolController().lib_controllers if c.user_api == "blas"]
    # NumPy and PyTorch bring a BLAS of their own; the name of NumPy's file also says "scipy"
    preferred = [c for c in controllers if "numpy.libs" not in c.filepath and "mkl" not in c.filepath] or controllers
    return preferred[0] if preferred else None


def blas_threads() -> int:
    """Return how many threads SciPy's BLAS is set to use."""
    blas = _scipy_blas()
    return 1 if blas is None else max(1, int(blas.num_threads or 1))


_inside = threading.local()  # whether this thread is in such a block: one within it has nothing to do


@contextmanager
def _one_thread() -> Iterator[None]:
    blas = _scipy_blas()
    if blas is None:
        yield
        return
    with _Pause.lock:
        if not _Pause.callers:
            _Pause.granted = blas_threads()
            if _Pause.granted > 1:
                _set_threads(blas, 1)
        _Pause.callers += 1
    _inside.block = True
    try:
        yield
    finally:
        _inside.block = False
        with _Pause.lock:
            _Pause.callers -= 1
            if not _Pause.callers and _Pause.granted > 1:
                _set_threads(blas, _Pause.granted)


def one_thread(when: bool = True) -> AbstractContextManager[None]:
    """Keep SciPy's BLAS, and so the fused path, on one thread inside the block.

    The setting belongs to the process: blocks may nest, or overlap in several threads; the last one to leave restores.
    """
    return _one_thread() if when and not getattr(_inside, "block", False) else _NOTHING


_NOTHING = nullcontext()


@contextmanager
def one_torch_thread(when: bool = True) -> Iterator[None]:
    """Keep PyTorch on one thread inside the block: its threads wait for each other too."""
    import torch

    granted = torch.get_num_threads() if when else 1
    if granted == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(granted)


def _set_threads(blas: Any, count: int) -> None:
    """Set the number from any thread: of itself, newer threadpoolctl obeys only the first thread that ever set it."""
    getattr(blas, "_real_set_num_threads", blas.set_num_threads)(count)
