"""Run many calls, here or through joblib, and hand over results as they are ready."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any


def in_parallel(function: Callable[..., Any], work: dict[int, tuple[Any, ...]], jobs: int) -> Iterator[tuple[int, Any]]:
    """Yield (number, function(*arguments)) for every entry of `work`, in any order.

    More than one job goes through joblib, whose registered back ends (Dask, Ray) reach other machines.
    """
    if jobs == 1 or len(work) < 2:
        for number, arguments in work.items():
            yield number, function(*arguments)
        return
    from joblib import Parallel, delayed
    from joblib.parallel import get_active_backend

    backend, _ = get_active_backend()
    pool = Parallel(n_jobs=jobs, return_as="generator_unordered" if backend.supports_return_generator else "list")
    results = pool(delayed(_numbered)(function, number, arguments) for number, arguments in work.items())
    try:
        for result in results:  # noqa: UP028 (yield from would close it outside of what follows)
            yield result
    finally:
        if not isinstance(results, list):
            with warnings.catch_warnings():  # who stops early, for lack of time, knows that work is left undone
                warnings.filterwarnings("ignore", message=".* still being processed by the workers")
                results.close()


def _numbered(function: Callable[..., Any], number: int, arguments: tuple[Any, ...]) -> tuple[int, Any]:
    return number, function(*arguments)
