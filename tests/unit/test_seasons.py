"""Seasons: patterns that repeat are found beside walks and beside each other; noise has none."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mercer.fitting.periods import seasons
from mercer.inference.contract import Data
from mercer.learners.racing import RacePolicy


def series(rows: int, seed: int, *periods: float, walk: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    time = np.arange(rows, dtype=float)
    y = 0.5 * rng.normal(size=rows) + walk * np.cumsum(rng.normal(size=rows)) + 3.0 * time / rows
    for period in periods:
        angle = 2.0 * np.pi * time / period
        y += 0.6 * np.sin(angle + rng.uniform(0, 6)) + 0.3 * np.cos(2.0 * angle)
    return time, y


@pytest.mark.parametrize("seed", range(2))
def test_seasons_are_found_beside_a_walk(seed: int) -> None:
    time, y = series(700, seed, 7.0, 30.0, walk=0.2)
    assert_allclose(np.sort(seasons(time, y, 2)), [7.0, 30.0], rtol=0.01)


def test_a_line_and_noise_have_none() -> None:
    assert [len(seasons(*series(300, seed), 3)) for seed in range(2)] == [0, 0]


def test_a_long_season_without_a_trend_is_found_beside_a_short_one() -> None:
    found = seasons(*series(600, 1, 7.0, 140.0), 3)  # an overtone may be among them
    assert_allclose([found[0], found.max()], [7.0, 140.0], rtol=0.03)


def test_the_order_of_rows_and_the_units_do_not_matter() -> None:
    time, y = series(300, 0, 12.0)
    shuffled = np.random.default_rng(1).permutation(len(y))
    expected = seasons(time, y, 2)
    assert len(expected)
    assert_allclose(seasons(time[shuffled] * 10.0, 5.0 * y[shuffled], 2), 10.0 * expected)


def test_few_rows_have_none() -> None:
    assert not len(seasons(*series(30, 0, 7.0), 3))


def test_samples_of_a_series_have_stretches_and_keep_their_order() -> None:
    time, y = series(2000, 0, 7.0)
    sample = RacePolicy().draw(Data(time[:, None], y), 300, seed=3)
    gaps = np.diff(sample.X[:, 0])
    assert sample.count == 300
    assert np.all(gaps > 0)
    assert np.mean(gaps == 1.0) > 0.45
    assert np.ptp(sample.X) > 1900
