"""LAPACK without Python's lock: the same numbers as SciPy's wrappers, and other threads go on."""

from __future__ import annotations

import time
from threading import Event, Thread

import numpy as np
import pytest
from scipy.linalg import lapack

from mercer.linalg import unlocked
from mercer.linalg.threads import one_thread


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("n", [1, 3, 60])
def test_numbers_are_those_of_scipy(n: int, alone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if alone:  # where SciPy publishes no addresses
        for name in ("_potrf", "_potri", "_potrs"):
            monkeypatch.setattr(unlocked, name, None)
    root = np.random.default_rng(n).normal(size=(n, n))
    matrix = root @ root.T + n * np.eye(n)
    factor = unlocked.factorise_lower(matrix.copy())
    assert factor is not None
    known = lapack.dpotrf(matrix.T, lower=0, clean=0)[0].T
    assert np.array_equal(np.tril(factor), np.tril(known))
    for right in (root, root[:, 0], np.empty((n, 0))):
        expected = lapack.dpotrs(known.T, right, lower=0)[0].reshape(right.shape)
        assert np.array_equal(unlocked.solve_lower(factor, right), expected)
    inverse = lapack.dpotri(known.T, lower=0)[0].T
    assert np.array_equal(np.tril(unlocked.invert_lower(factor)), np.tril(inverse))
    assert unlocked.factorise_lower(-matrix) is None


def test_the_addresses_are_found_and_refused_where_the_numbers_are_others() -> None:
    assert unlocked._potrf is not None
    assert unlocked._find("dpotrf", 4) is None
    assert unlocked._find("spotrf", 5) is None
    assert unlocked._find("no such routine", 5) is None


def test_other_threads_go_on_while_a_matrix_is_factorised() -> None:
    n, ended, beats = 1500, Event(), 0
    matrix = np.eye(n) + 0.5 / n

    def beat() -> None:
        nonlocal beats
        while not ended.is_set():
            time.sleep(0.001)
            beats += 1

    other = Thread(target=beat)
    other.start()
    with one_thread():
        for _ in range(3):
            lower = matrix.copy()
            before = beats
            assert unlocked.factorise_lower(lower) is not None
            unlocked.invert_lower(lower)
            during = beats - before
            if during > 2:
                break
    ended.set()
    other.join()
    assert during > 2
