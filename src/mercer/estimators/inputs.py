"""Checks on what the user gives: arrays or tables in, finite numbers out, or an error that names the column."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import validate_data

from mercer.errors import DataWarning, InputError
from mercer.kernels.domains import Array

if TYPE_CHECKING:
    from mercer.tables import Encoding


def is_streamed(X: Any) -> bool:
    """Tell whether X is read or worked on in parts: `mercer.ParquetRows`, or a collection of Dask."""
    return type(X).__name__ == "ParquetRows" or type(X).__module__.split(".")[0] in ("dask", "dask_expr")


def is_mixed_table(X: Any) -> bool:
    """Tell whether X is a pandas table with dates, categories or text: those columns are encoded as numbers."""
    dtypes = getattr(X, "dtypes", None)
    return hasattr(X, "columns") and dtypes is not None and any(d.kind not in "biuf" for d in dtypes)


def checked_inputs(estimator: Any, X: Any, *, reset: bool) -> Array:
    """Return X as a finite float64 matrix; a table with dates or categories goes through the estimator's encoding."""
    if is_mixed_table(X) or (not reset and estimator.encoding_ is not None and hasattr(X, "columns")):
        from mercer.tables import Encoding

        validate_data(estimator, X, reset=reset, skip_check_array=True)
        if reset:
            estimator.encoding_ = Encoding.learn(X)
        if estimator.encoding_ is not None:
            return np.asarray(estimator.encoding_.apply(X))
    elif reset:
        estimator.encoding_ = None
    try:
        matrix = validate_data(estimator, X, reset=reset, dtype=np.float64, ensure_all_finite=False)
    except ValueError as error:
        if "could not convert" in str(error):
            _refuse_text(X)
        raise
    _require_finite(matrix, column_names(estimator, matrix.shape[1]))
    return np.asarray(matrix)


def column_names(estimator: Any, count: int) -> list[str]:
    """Return the names of the columns as the kernel sees them."""
    if getattr(estimator, "encoding_", None) is not None:
        return list(estimator.encoding_.names)
    return [str(n) for n in getattr(estimator, "feature_names_in_", range(count))]


def encoding_of(estimator: Any) -> Encoding:
    """Return how a table becomes the matrix of a fitted estimator: its own encoding, or numbers as they are."""
    from mercer.tables import Encoding
    from mercer.tables.columns import NumberColumn

    if estimator.encoding_ is not None:
        return estimator.encoding_
    return Encoding(tuple(NumberColumn(name) for name in column_names(estimator, estimator.n_features_in_)))


def _refuse_text(X: Any) -> None:
    """Say where the first entry is that is not a number."""
    rows = np.asarray(X, dtype=object)
    names = getattr(X, "columns", range(rows.shape[1]))
    for column, name in enumerate(names):
        for row, entry in enumerate(rows[:, column]):
            try:
                float(entry)
            except (TypeError, ValueError):
                raise InputError(
                    f"column '{name}', row {row + 1}: {entry!r} is not a number; correct it, leave the column out, or "
                    "give a pandas table, whose columns of dates and categories are understood"
                ) from None


def _require_finite(matrix: Array, names: list[str]) -> None:
    bad = ~np.isfinite(matrix)
    if bad.any():
        column = int(np.flatnonzero(bad.any(axis=0))[0])
        rows = np.flatnonzero(bad[:, column])
        kind = "NaN" if np.isnan(matrix[rows[0], column]) else "infinity"
        raise InputError(
            f"Input X contains {kind} in column '{names[column]}' ({len(rows)} such entries, the first in row "
            f"{rows[0] + 1}); drop these rows or fill them in"
        )


def checked_target(y: Any, rows: int) -> Array:
    """Return y as a float64 vector, NaN allowed (those rows are dropped later), infinity not."""
    if y is None:
        raise InputError("This GPRegressor requires y to be passed, but the target y is None")
    target = column_or_1d(check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False), warn=True)
    if target.dtype.kind in "mM":
        raise InputError(f"the target must hold numbers, not dates or durations; its first entry is {target[0]}")
    if target.dtype.kind not in "biuf":
        try:
            target = target.astype(np.float64)
        except (TypeError, ValueError):
            raise InputError(f"the target must hold numbers; its first entry is {target[0]!r}") from None
    target = target.astype(np.float64)
    if len(target) != rows:
        raise InputError(f"X has {rows} rows and y has {len(target)}: they must agree")
    if np.isinf(target).any():
        row = int(np.flatnonzero(np.isinf(target))[0]) + 1
        raise InputError(f"Input y contains infinity (first in row {row}); drop these rows")
    return target


def without_missing_targets(X: Array, y: Array) -> tuple[Array, Array]:
    """Drop the rows whose target is NaN, and say how many."""
    missing = np.isnan(y)
    if missing.any():
        warnings.warn(
            f"{int(missing.sum())} of {len(y)} rows have no target value (NaN) and were left out",
            DataWarning,
            stacklevel=4,
        )
        X, y = X[~missing], y[~missing]
    if len(y) < 2:
        raise InputError(
            f"n_samples={len(y)}: at least 2 rows with a target are needed to learn anything; give more data"
        )
    return X, y


def varying_columns(X: Array, names: list[str]) -> list[int]:
    """Return the columns that vary, with a warning about those that do not."""
    return varying_among(np.ptp(X, axis=0) > 0, names)


def varying_among(varying: NDArray[np.bool_], names: list[str]) -> list[int]:
    """Return the columns that are said to vary, likewise."""
    if not varying.all():
        constant = ", ".join(f"'{names[d]}'" for d in np.flatnonzero(~varying))
        warnings.warn(
            f"column(s) {constant} never change and were ignored: they carry no information", DataWarning, stacklevel=4
        )
    return [int(d) for d in np.flatnonzero(varying)]
