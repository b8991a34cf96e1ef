"""The papers' ways of holding rows out, each refused where it cannot hold for the rows given."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer.errors import InputError

Array = np.ndarray[Any, Any]

PART = 15  # the lowest and the highest fifteenth are tested (NKN 5.2.2)


def pca_split(X: Array, part: int = PART) -> Array:
    """Return which rows are tested: the lowest n // part and the highest ceil(n / part) along the first component.

    The inputs are not scaled, as in the authors' code.
    """
    if X.ndim != 2:
        advice = "make it a table of one column, X[:, None]" if X.ndim == 1 else "give rows and columns"
        raise InputError(f"a PCA split needs a table with columns, and was given shape {X.shape}: {advice}")
    if not np.isfinite(X).all():
        raise InputError(
            f"a PCA split needs a table of numbers without gaps, and was given shape {X.shape} with "
            f"{int((~np.isfinite(X)).sum())} that are missing or infinite: leave out or fill those rows"
        )
    if part < 2:
        raise InputError(f"part={part}: the lowest and the highest 1/part of the rows are tested, so give 2 or more")
    count = len(X)
    if count < 2 * part:
        fits = count // 2
        smaller = f"a part of 1/{fits}, as pca_split(X, part={fits}), or {2 * part} rows or more"
        advice = smaller if fits > 1 else f"{2 * part} rows or more"
        raise InputError(
            f"a PCA split tests the lowest and the highest 1/{part} of the rows, and {count} rows are too few to have "
            f"two at each end: give {advice}"
        )
    centred = X - X.mean(axis=0)
    if not np.ptp(X, axis=0).any():
        raise InputError(f"the {count} rows are all the same: they have no first principal component to split along")
    along = centred @ np.linalg.svd(centred, full_matrices=False)[2][0]
    order = np.argsort(along, kind="stable")
    tested = np.zeros(count, dtype=bool)
    tested[order[: count // part]] = tested[order[count - math.ceil(count / part) :]] = True
    return tested
