"""Fitting to rows that are not all in memory: one pass to know them, a sample to learn from, sums over all to fit.

Up to KEPT rows the sample is all of them, and the fit is that of a table in memory.
"""

from __future__ import annotations

import math
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.errors import DataWarning, InputError
from mercer.estimators import inputs
from mercer.estimators.learning import chosen_engine, known_structure, learn_where_it_fits
from mercer.estimators.scanning import BLOCK, KEPT, Scan, scanned
from mercer.estimators.sources import ScaledSource, Stream, stream_of
from mercer.inference.choose import Choice, asked_engine
from mercer.inference.vfe import VFE, is_sparse
from mercer.kernels.units import Units

if TYPE_CHECKING:
    from mercer.estimators.regressor import GPRegressor


def fit_stream(model: GPRegressor, X: Any, y: Any, progress: Any) -> GPRegressor:
    """Fit an estimator to `mercer.ParquetRows`, or to a Dask collection and its target."""
    started = time.perf_counter()
    stream = stream_of(X, y)
    assert stream is not None
    engine = _engine(model)
    scan = stream.summed(scanned, BLOCK)
    names = list(stream.names)
    columns = _checked(scan, names)
    total = stream.total()
    if total != scan.count:
        warnings.warn(
            f"{total - scan.count} of {total} rows have no target value (NaN) and were left out",
            DataWarning,
            stacklevel=3,
        )
    _name_columns(model, stream)
    model._train = (np.ascontiguousarray(scan.rows[:, :-1]), scan.rows[:, -1].copy())
    model._units, model._level = _scaling(scan)
    if scan.count <= KEPT:
        model._source = None
        model.inference_ = chosen_engine(model, known_structure(model, names, columns))
    else:
        model._source = ScaledSource(stream, model._units, model._level, scan.count)
        model.inference_ = Choice(engine, _reason(engine, scan.count))
    learn_where_it_fits(model, names, columns, progress)
    model.target_name_ = stream.target_name
    if model._source is not None:
        note = f"the rows were read in parts; pictures and checks show {KEPT:,} of them, drawn at random"
        model.notes_ = (*model.notes_, note)
    model.fit_seconds_ = time.perf_counter() - started
    return model


def _engine(model: GPRegressor) -> VFE:
    asked = asked_engine(model.inference)
    if asked is not None and not is_sparse(asked):
        raise InputError(
            f"rows that are read in parts need sparse inference, which works with sums over them: "
            f"inference='auto' or mercer.VFE(inducing=...), not {asked!r}"
        )
    return (asked or VFE()).on(model.device)


def _reason(engine: VFE, rows: int) -> str:
    return (
        f"sparse variational inference with {engine.inducing:,} inducing points, by sums over the parts in which "
        f"{rows:,} rows are read"
    )


def _checked(scan: Scan, names: list[str]) -> list[int]:
    """Return the columns to learn from."""
    if scan.count < 2:
        raise InputError(f"n_samples={scan.count}: at least 2 rows with a target are needed to learn anything")
    if scan.least[-1] == scan.most[-1]:
        value = scan.least[-1]
        raise InputError(f"the target is the same ({value:g}) in all {scan.count} rows: there is nothing to learn")
    varying = inputs.varying_among(scan.least[:-1] < scan.most[:-1], names)
    return varying or list(range(len(names)))


def _name_columns(model: GPRegressor, stream: Stream) -> None:
    model.encoding_ = None
    model.n_features_in_ = len(stream.names)
    if stream.named:
        model.feature_names_in_ = np.array(list(stream.names), dtype=object)
    elif hasattr(model, "feature_names_in_"):
        del model.feature_names_in_


def _scaling(scan: Scan) -> tuple[Units, float]:
    """Centre and scale to unit spread, as for a table in memory."""
    spread = np.sqrt(scan.squares / scan.count)
    scale = np.where((spread > 0) & (scan.most > scan.least), spread, 1.0)
    if not (np.isfinite(scale).all() and np.isfinite(scan.mean).all() and math.isfinite(spread[-1]) and spread[-1] > 0):
        raise InputError(
            "the numbers are too large or too small to be scaled: change their unit (by a factor of 1000, say)"
        )
    shift = tuple(map(float, scan.mean[:-1]))
    return Units(shift, tuple(map(float, scale[:-1])), float(spread[-1])), float(scan.mean[-1])
