"""Fitting to rows that are not all in memory: one pass to know them, a sample to learn from, sums over all to fit.

Up to KEPT rows the sample is all of them, and the fit is that of a table in memory.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.compute.backend import backend_for
from mercer.errors import DataWarning, InputError
from mercer.estimators import inputs
from mercer.estimators.inputs import Reading
from mercer.estimators.scanning import BLOCK, KEPT, Scan, scanned
from mercer.estimators.sources import ScaledSource, stream_of
from mercer.inference.choose import Choice, read_inference
from mercer.inference.vfe import VFE, is_sparse
from mercer.kernels.units import Units
from mercer.model.fitted import Columns, TrainingRows


def read_stream(estimator: Any, X: Any, y: Any) -> Reading:
    """Go once over `mercer.ParquetRows`, or a Dask collection and its target."""
    stream = stream_of(X, y)
    assert stream is not None
    engine = _engine(estimator.inference, estimator.device)
    scan = stream.summed(scanned, BLOCK)
    varying = _checked(scan, list(stream.names))
    total = stream.total()
    if total != scan.count:
        warnings.warn(
            f"{total - scan.count} of {total} rows have no target value (NaN) and were left out",
            DataWarning,
            stacklevel=3,
        )
    columns = Columns(len(stream.names), tuple(stream.names) if stream.named else None)
    inputs.name_columns(estimator, columns)
    matrix, target = np.ascontiguousarray(scan.rows[:, :-1]), scan.rows[:, -1].copy()
    units, level = _scaling(scan)
    rows = TrainingRows(matrix, target, units, level, columns, stream.target_name)
    if scan.count <= KEPT:
        return Reading(rows, varying)
    source = ScaledSource(stream, units, level, scan.count)
    note = f"the rows were read in parts; pictures and checks show {KEPT:,} of them, drawn at random"
    return Reading(replace(rows, source=source), varying, Choice(engine, _reason(engine, scan.count)), (note,))


def _engine(inference: Any, device: str) -> VFE:
    asked, _ = read_inference(inference)
    if asked is not None and not is_sparse(asked):
        raise InputError(
            f"rows that are read in parts need sparse inference, which works with sums over them: "
            f"inference='auto' or mercer.VFE(inducing=...), not {asked!r}"
        )
    return (asked or VFE()).on(backend_for(device))


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


def _scaling(scan: Scan) -> tuple[Units, float]:
    """Centre and scale to unit spread, as for a table in memory."""
    spread = np.where(scan.most > scan.least, np.sqrt(scan.squares / scan.count), 0.0)
    return inputs.units_from(scan.mean[:-1], spread[:-1], float(spread[-1])), float(scan.mean[-1])
