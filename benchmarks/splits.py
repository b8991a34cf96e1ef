"""The papers' ways of holding rows out, each refused where it cannot hold for the rows given."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mercer.errors import InputError

Array = np.ndarray[Any, Any]

PART = 15  # the lowest and the highest fifteenth are tested (NKN 5.2.2)
LARGEST_PCA = 2000  # rows up to which the authors' logs show which rows their PCA split tests (`nkn_start`)
SHORT = 16  # entries that quicksort leaves to insertion sort


def nkn_rows(folder: Path, name: str, split: int | None) -> Array:
    """Return which rows of a table NKN's random split (1 to 10) tests, or its PCA split (None).

    The rows of the PCA split are found here where the authors' logs confirm them. Of the larger tables the data
    folder's list is taken: by the same rule one row each of kin8nm and power plant would be another, of naval none.
    """
    import pandas as pd

    file = folder / "regression" / f"{name}.csv"
    if not file.is_file():
        raise InputError(f"there is no table {file}: give the data folder described in benchmarks/README.md")
    if split is not None and not 1 <= split <= 10:
        raise InputError(f"there are random splits 1 to 10, and no {split}")
    table = pd.read_csv(file)
    if split is None and len(table) <= LARGEST_PCA:
        return pca_split(table.iloc[:, :-1].to_numpy(dtype=float))
    stored = json.loads((folder / "regression" / "splits_nkn.json").read_text())[name]
    low_and_high = stored["pca_test_rows_low"] + stored["pca_test_rows_high"]
    rows = low_and_high if split is None else stored["random_test_rows"][str(split)]
    return np.isin(np.arange(len(table)), rows)


def pca_split(X: ArrayLike, part: int = PART) -> Array:
    """Return which rows are tested: the lowest n // part and the highest ceil(n / part) along the first component.

    As in the authors' code: the inputs are not scaled, the component points to where the row farthest from the middle
    lies (PCA of scikit-learn in 2018), and rows that tie stand as `quicksort_order` leaves them.
    """
    X = _numbers(X)
    if part < 3 or int(part) != part:
        raise InputError(
            f"part={part}: the lowest and the highest 1/part of the rows are tested: give 3 or more, whole"
        )
    count = len(X)
    if count < 2 * part:
        fits = count // 2
        smaller = f"a part of 1/{fits}, as pca_split(X, part={fits}), or {2 * part} rows or more"
        advice = smaller if fits > 2 else f"{2 * part} rows or more"
        raise InputError(
            f"a PCA split tests the lowest and the highest 1/{part} of the rows, and {count} rows are too few to have "
            f"two at each end: give {advice}"
        )
    if not np.ptp(X, axis=0).any():
        raise InputError(f"the {count} rows are all the same: they have no first principal component to split along")
    along = component(X)
    order = quicksort_order((along * np.sign(along[np.argmax(np.abs(along))])).tolist())
    tested = np.zeros(count, dtype=bool)
    tested[order[: count // part]] = tested[order[count - math.ceil(count / part) :]] = True
    return tested


def _numbers(X: ArrayLike) -> Array:
    """Return a table as numbers, or refuse it."""
    try:
        table = np.asarray(X, dtype=float)
    except (TypeError, ValueError):
        raise InputError("a PCA split needs a table of numbers: leave out columns of text, or code them") from None
    if table.ndim != 2:
        advice = "make it a table of one column, X[:, None]" if table.ndim == 1 else "give rows and columns"
        raise InputError(f"a PCA split needs a table with columns, and was given shape {table.shape}: {advice}")
    if not np.isfinite(table).all():
        raise InputError(
            f"a PCA split needs a table of numbers without gaps, and was given shape {table.shape} with "
            f"{int((~np.isfinite(table)).sum())} that are missing or infinite: leave out or fill those rows"
        )
    return table


def component(X: Array) -> Array:
    """Return the rows along their first principal component, of raw inputs; which way it points is not defined."""
    centred = X - X.mean(axis=0)
    return np.asarray(centred @ np.linalg.svd(centred, full_matrices=False)[2][0])


def quicksort_order(values: list[float]) -> list[int]:
    """Return the order of the values, ties as NumPy of 2018 left them: quicksort on the median of three.

    Of the values that tie at a border of a split, it decides which are tested; sorts of today decide otherwise.
    Short stretches are sorted by insertion, and the shorter side of every division comes first.
    """
    order = list(range(len(values)))
    waiting = [(0, len(order) - 1)]
    while waiting:
        low, high = waiting.pop()
        while high - low > SHORT:
            middle = _divide(order, values, low, high)
            below, above = (low, middle - 1), (middle + 1, high)
            shorter, longer = (below, above) if middle - low < high - middle else (above, below)
            waiting.append(longer)
            low, high = shorter
        for place in range(low + 1, high + 1):
            entry = order[place]
            while place > low and values[entry] < values[order[place - 1]]:
                order[place] = order[place - 1]
                place -= 1
            order[place] = entry
    return order


def _divide(order: list[int], values: list[float], low: int, high: int) -> int:
    """Move what is smaller than a pivot below it and what is larger above it; return where the pivot stands."""

    def swap(first: int, second: int) -> None:
        order[first], order[second] = order[second], order[first]

    middle = low + (high - low) // 2
    for first, second in ((low, middle), (middle, high), (low, middle)):
        if values[order[second]] < values[order[first]]:
            swap(first, second)
    pivot, left, right = values[order[middle]], low, high - 1
    swap(middle, right)
    while True:
        left += 1
        while values[order[left]] < pivot:
            left += 1
        right -= 1
        while pivot < values[order[right]]:
            right -= 1
        if left >= right:
            break
        swap(left, right)
    swap(left, high - 1)
    return left
