"""Many calls at once: all results, and no words where somebody needs no more of them."""

from __future__ import annotations

import time
import warnings

import pytest

from mercer.fitting.minimise import run_parallel


def waited(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_result_is_handed_over(jobs: int) -> None:
    assert dict(run_parallel(waited, {i: (0.001 * i,) for i in range(5)}, jobs)) == {i: 0.001 * i for i in range(5)}


def test_to_stop_early_gives_no_warning_of_cancelled_work() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = run_parallel(waited, {i: (0.0 if i == 0 else 0.3,) for i in range(6)}, 2)
        assert next(results) == (0, 0.0)
        results.close()  # type: ignore[attr-defined]
