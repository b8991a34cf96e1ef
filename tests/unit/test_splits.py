"""Ways of holding rows out: what a refusal tells to do, and how rows that tie fall."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.nkn_start import WIDTHS, authors_mixture, authors_network, draw_weights
from benchmarks.splits import nkn_rows, pca_split, quicksort_order
from hypothesis import given
from hypothesis import strategies as st

from mercer.errors import InputError
from mercer.kernels import parse


def test_a_row_of_numbers_is_no_table_to_split() -> None:
    column = np.arange(45.0)
    with pytest.raises(InputError, match=r"a table with columns.*shape \(45,\): .*X\[:, None\]") as said:
        pca_split(column)
    assert "missing" not in str(said.value)
    assert pca_split(column[:, None]).sum() == 6
    with pytest.raises(InputError, match=r"shape \(3, 15, 1\): give rows and columns"):
        pca_split(column.reshape(3, 15, 1))
    with pytest.raises(InputError, match=r"with 1 that are missing or infinite"):
        pca_split(np.append(column, np.nan)[:, None])


def test_what_is_no_table_of_numbers_is_refused_and_lists_are_taken(tmp_path: Path) -> None:
    rows = [[float(number), 0.0] for number in range(45)]
    assert list(np.flatnonzero(pca_split(rows))) == [0, 1, 2, 42, 43, 44]
    assert pca_split(pd.DataFrame(rows)).sum() == 6
    with pytest.raises(InputError, match="leave out columns of text"):
        pca_split([["a", "b"]] * 45)
    for part in (2, 2.5, 0):
        with pytest.raises(InputError, match=f"part={part}: .* give 3 or more"):
            pca_split(rows, part=part)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"5 rows are too few to have two at each end: give 30 rows or more"):
        pca_split(rows[:5])
    with pytest.raises(InputError, match=r"no table .*mice\.csv: give the data folder"):
        nkn_rows(tmp_path, "mice", None)


def test_rows_of_a_split_that_is_not_there_are_refused(tmp_path: Path) -> None:
    (tmp_path / "regression").mkdir()
    pd.DataFrame(np.arange(90.0).reshape(45, 2)).to_csv(tmp_path / "regression" / "mice.csv", index=False)
    assert nkn_rows(tmp_path, "mice", None).sum() == 6
    with pytest.raises(InputError, match="random splits 1 to 10, and no 11"):
        nkn_rows(tmp_path, "mice", 11)


@given(st.lists(st.integers(0, 5).map(float), max_size=120))
def test_quicksort_sorts_whatever_ties(values: list[float]) -> None:
    order = quicksort_order(values)
    assert sorted(order) == list(range(len(values)))
    assert [values[place] for place in order] == sorted(values)


def test_ties_fall_as_a_quicksort_leaves_them() -> None:
    # worked out by hand: up to 17 entries insertion sort keeps ties in their order; of 18 equal ones the median of
    # three is divided off first, which swaps the entries from both ends towards the middle
    assert quicksort_order([1.0] * 17) == list(range(17))
    order = quicksort_order([1.0] * 18)
    assert order[8] == 8
    assert order != list(range(18))
    assert quicksort_order([2.0, 1.0] * 8) == [*range(1, 16, 2), *range(0, 16, 2)]


def test_the_component_of_a_pca_split_points_to_the_row_farthest_out() -> None:
    # 31 rows: two are tested at the low end and three at the high one, which is where the last row lies
    X = np.append(np.arange(30.0), 90.0)[:, None]
    assert list(np.flatnonzero(pca_split(X))) == [0, 1, 28, 29, 30]
    assert list(np.flatnonzero(pca_split(-X))) == [0, 1, 28, 29, 30]


def test_the_authors_start_is_their_formula() -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    weights = draw_weights(rows=25, tested=5, columns=3)
    typical = np.median(np.abs(X[:, None] - X[None]).reshape(-1, 3), axis=0).astype(np.float32) * 3**0.5

    def value(x: np.ndarray, z: np.ndarray) -> float:
        far = [float(np.sum(((x - z) / (part * typical)) ** 2)) for part in (1 / 6, 2 / 3, 1 / 3)]
        units = np.array([x @ z, x @ z, np.exp(-far[0] / 2), np.exp(-far[1] / 2),
                          (1 + far[2] / 0.2) ** -0.1, 1 / (1 + far[2] / 2)])  # fmt: skip
        for number, layer in enumerate(weights):
            units = layer @ units + 0.01
            units = units if number == 2 else units[0::2] * units[1::2]
        return float(units[0])

    slow = [[value(x, z) for z in X] for x in X]
    np.testing.assert_allclose(authors_network(X, weights)(X), slow, rtol=1e-6)
    for (inputs, units), layer in zip(WIDTHS, weights, strict=True):
        assert layer.shape == (units, inputs)
        assert 1 / (2 * inputs) <= layer.min() <= layer.max() <= 3 / (2 * inputs)


def test_the_authors_mixture_is_a_sum_of_se_times_a_wave() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(12, 2)) * [1.0, 5.0], rng.normal(size=12)
    kernel = parse(authors_mixture(X, y, 3, seed=0))
    standardised = (X - X.mean(axis=0)) / X.std(axis=0)
    distances = np.abs(standardised[:, None] - standardised[None])
    length = np.median(distances.reshape(-1, 2), axis=0) * 2**0.5 * X.std(axis=0)
    waves, apart, slow = np.random.default_rng(0).normal(size=(3, 2)), X[:, None] - X[None], 0.0
    for part, wave in zip((2.0, 0.5, 1.0), waves, strict=True):
        scaled = apart / (part * length)
        slow = slow + y.var() / 3 * np.exp(-np.sum(scaled**2, axis=-1) / 2) * np.cos(scaled @ wave)
    np.testing.assert_allclose(kernel(X), slow, rtol=1e-5, atol=1e-9)
