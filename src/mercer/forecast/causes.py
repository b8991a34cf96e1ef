"""Known causes as they are given -> a row for each value: by dates or labels where there are some, else in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mercer.errors import InputError
from mercer.forecast.calendar import show

KEYS = ("unique_id", "ds")


def match_rows(X: Any, y: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the causes with a row for each row of the frame that y became.

    Columns `ds` (and `unique_id`) of X say where its rows belong; else its index does, where that of y has the same
    labels. Without either, rows are taken in order.
    """
    table = pd.DataFrame(X)
    keys = [name for name in KEYS if name in table.columns and (name == "ds" or isinstance(y, pd.DataFrame))]
    if "ds" in keys:
        found = _match(table.drop(columns=keys), _label(table, keys), _label(frame, keys))
    elif isinstance(X, pd.DataFrame | pd.Series) and isinstance(y, pd.DataFrame | pd.Series):
        found = _match_by_index(table, to_labels(y.index), isinstance(y, pd.Series))
    else:
        found = table
    if len(found) != len(frame):
        raise InputError(f"X has {len(found)} rows and y {len(frame)}: give a row of causes for every value")
    found.columns = [str(name) for name in found.columns]
    if not found.columns.is_unique:
        twice = found.columns[found.columns.duplicated()][0]
        raise InputError(f"X has two columns {twice!r}: give each cause a name of its own")
    return found.reset_index(drop=True)


def date_rows(X: Any) -> pd.DataFrame:
    """Return causes to come with the dates of their index, where they have some, in the column `ds`."""
    table = pd.DataFrame(X)
    if "ds" in table.columns:
        return table.reset_index(drop=True)
    if isinstance(table.index, pd.MultiIndex) and "ds" in table.index.names:
        return table.reset_index([name for name in KEYS if name in table.index.names]).reset_index(drop=True)
    if isinstance(table.index, pd.DatetimeIndex | pd.PeriodIndex):
        return table.assign(ds=to_labels(table.index)).reset_index(drop=True)
    return table.reset_index(drop=True)


def to_labels(index: pd.Index) -> pd.Index:
    """Return an index with periods by their first moment."""
    return pd.DatetimeIndex(index.to_timestamp()) if isinstance(index, pd.PeriodIndex) else index


def _match_by_index(table: pd.DataFrame, labels: pd.Index, strict: bool) -> pd.DataFrame:
    own = to_labels(table.index)
    unlabelled = own.equals(pd.RangeIndex(len(labels)))  # as a table has that was made of an array
    if unlabelled or own.equals(labels) or not (own.is_unique and labels.is_unique):
        return table
    if labels.isin(own).all():
        return table.set_axis(own).loc[labels]
    if strict and not labels.equals(pd.RangeIndex(len(labels))):
        lacking = show(labels[~labels.isin(own)][0])
        raise InputError(f"X has no row for {lacking}, which y has: give both the same index")
    return table


def _match(causes: pd.DataFrame, own: pd.Index, wanted: pd.Index) -> pd.DataFrame:
    if not own.is_unique:
        raise InputError(f"X has two rows for {_name(own[own.duplicated()][0])}: keep one")
    places = own.get_indexer(wanted)
    if np.any(places < 0):
        raise InputError(f"X has no row for {_name(wanted[places < 0][0])}, which y has: give causes for every value")
    return causes.iloc[places]


def _label(table: pd.DataFrame, keys: list[str]) -> pd.Index:
    """Return what tells the rows apart, dates as moments whether they are written or not."""
    times = table["ds"]
    if isinstance(times.dtype, pd.PeriodDtype):
        times = times.dt.to_timestamp()
    elif not pd.api.types.is_numeric_dtype(times.dtype):
        times = pd.to_datetime(times.astype(str), errors="coerce", format="ISO8601").astype(object).fillna(times)
    found: pd.Index = pd.Index(times.to_numpy())
    if len(keys) == 1:
        return found
    return pd.MultiIndex.from_arrays([table["unique_id"].astype(str), times])


def _name(label: Any) -> str:
    return f"{show(label[1])} of series '{label[0]}'" if isinstance(label, tuple) else show(label)
