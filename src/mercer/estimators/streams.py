"""Rows that are not all in memory: Parquet files read block by block, or a Dask collection.

One pass to know them (scales and a random sample), the sample to learn from, then sums over all rows to fit. Parquet is
read here, on each pass. Dask's partitions are worked on where they are: one task for each, then a tree of additions. A
task is a function of its partition alone, so what a dead worker held is worked out again by another, once.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from mercer.compute.backend import backend_for
from mercer.errors import DataWarning, InputError
from mercer.estimators.inputs import FitInput, check_variation, find_varying, is_dask, name_columns, units_from
from mercer.inference.choose import Choice, read_inference
from mercer.inference.contract import Sum
from mercer.inference.sparse import slices
from mercer.inference.vfe import VFE, is_sparse
from mercer.kernels.domains import Array
from mercer.kernels.parameters import Units
from mercer.model.fitted import Columns, TrainingRows
from mercer.tables.parquet_rows import ParquetRows, finite_block


@dataclass(frozen=True)
class StreamPolicy:
    """How a stream is read."""

    sample: int = 20_000  # rows to learn from, to choose inducing points among, and to draw pictures of
    block: int = 50_000  # rows read at a time: some ten megabytes


def read_stream(estimator: Any, X: Any, y: Any, policy: StreamPolicy) -> FitInput:
    """Go once over `mercer.ParquetRows`, or a Dask collection and its target."""
    asked = read_inference(estimator.inference)
    if asked is not None and not is_sparse(asked):
        raise InputError(
            f"rows that are read in parts need sparse inference, which works with sums over them: "
            f"inference='auto' or mercer.VFE(inducing=...), not {asked!r}"
        )
    engine = (asked or VFE()).on(backend_for(estimator.device))
    stream = open_stream(X, y)
    found = stream.add_up(partial(scan, most=policy.sample), policy.block)
    count, names = found.count, list(stream.names)
    check_variation(count, (found.least[-1], found.most[-1]))
    varying = find_varying(found.least[:-1] < found.most[:-1], names)
    missing = stream.total() - count
    if missing:
        note = f"{missing} of {missing + count} rows have no target value (NaN) and were left out"
        warnings.warn(note, DataWarning, stacklevel=3)
    columns = Columns(len(names), tuple(names) if stream.named else None)
    name_columns(estimator, columns)
    matrix, target = np.ascontiguousarray(found.rows[:, :-1]), found.rows[:, -1].copy()
    spread, varies = np.sqrt(found.squares / count), found.most > found.least
    units = units_from(found.mean[:-1], spread[:-1], varies[:-1], float(spread[-1])).with_squares()
    level = float(found.mean[-1])
    rows = TrainingRows(matrix, target, units, level, columns, stream.target_name)
    if count <= policy.sample:
        return FitInput(rows, varying)
    reason = (
        f"sparse variational inference with {engine.inducing:,} inducing points, by sums over the parts in which "
        f"{count:,} rows are read"
    )
    note = f"the rows were read in parts; pictures and checks show {policy.sample:,} of them, drawn at random"
    source = ScaledSource(stream, units, level, count)
    return FitInput(replace(rows, source=source), varying, Choice(engine, reason), (note,))


# ------------------------------------------------------------------------------------------------------- the first pass


@dataclass(frozen=True, eq=False)
class Scan:
    """Sums over some rows of inputs and target (the last column); those of two sets of rows are added."""

    count: int
    mean: Array
    squares: Array  # sums of squared deviations from the mean
    least: Array
    most: Array
    kept: int  # rows of the sample, at most
    keys: Array  # a random number for each row of the sample: the rows with the smallest are kept
    rows: Array

    def __add__(self, other: Scan) -> Scan:
        count = self.count + other.count
        apart = other.mean - self.mean
        keys, rows = np.concatenate([self.keys, other.keys]), np.concatenate([self.rows, other.rows])
        few = _smallest(keys, self.kept)
        return Scan(
            count,
            self.mean + apart * (other.count / count),  # Chan, Golub & LeVeque 1979
            self.squares + other.squares + apart**2 * (self.count * other.count / count),
            np.minimum(self.least, other.least),
            np.maximum(self.most, other.most),
            self.kept,
            keys[few],
            rows[few],
        )


def scan(X: Array, y: Array, most: int) -> Scan:
    """Scan one block. Its random numbers follow from what is in it, so that a block done twice is the same twice."""
    table = np.column_stack([X, y])
    rng = np.random.default_rng([zlib.crc32(table.tobytes()), len(table)])
    mean, keys = table.mean(axis=0), rng.random(len(table))
    squares = ((table - mean) ** 2).sum(axis=0)
    few = _smallest(keys, most)
    return Scan(len(table), mean, squares, table.min(axis=0), table.max(axis=0), most, keys[few], table[few])


def _smallest(keys: Array, count: int) -> Any:
    """Return where the smallest keys are, in the order of the rows."""
    return np.sort(np.argpartition(keys, count)[:count]) if len(keys) > count else slice(None)


# ------------------------------------------------------------------------------------------------------------- streams
# Rows as they were given, in the user's units; `named` where the columns have names of their own. `total` counts all
# rows, with a target and without; `add_up` is the sum of work(X, y) over blocks of those with one.


@dataclass(frozen=True, eq=False)
class FileStream:
    """Parquet files, read in order on each pass."""

    names: Sequence[str]
    target_name: str | None
    named: bool
    rows: ParquetRows

    def total(self) -> int:
        return self.rows.total

    def add_up(self, work: Callable[[Array, Array], Sum], size: int) -> Sum:
        total: Sum | None = None
        for X, y in self.rows.blocks(size):
            total = _add(total, work(X, y)) if len(y) else total
        return _require(total)


@dataclass(frozen=True, eq=False)
class DaskStream:
    """A Dask dataframe or array with its target; `parts` are pairs of delayed partitions."""

    names: Sequence[str]
    target_name: str | None
    named: bool
    parts: list[tuple[Any, Any]] = field(repr=False)
    held: Any = field(default=None, repr=False)  # a cluster forgets what nobody holds

    def total(self) -> int:
        import dask

        return int(sum(dask.compute(*(dask.delayed(len)(y) for _, y in self.parts))))

    def add_up(self, work: Callable[[Array, Array], Sum], size: int) -> Sum:
        """Send the work to the partitions and add up what comes back, pair by pair."""
        from dask import delayed

        sent = delayed(work, pure=False)  # in the graph once; scattered data would be lost with its worker
        one, join = delayed(_sum_partition, pure=False), delayed(_add, pure=False)
        left = [one(X, y, sent, size, tuple(self.names), number) for number, (X, y) in enumerate(self.parts)]
        while len(left) > 1:
            pairs = [left[i : i + 2] for i in range(0, len(left), 2)]
            left = [join(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
        total: Sum | None = left[0].compute()
        return _require(total)


def _add(one: Sum | None, other: Sum | None) -> Sum | None:
    """Add two sums, either of which may be of no rows."""
    if one is None or other is None:
        return one if other is None else other
    total: Sum = add(one, other)
    return total


def _sum_partition(
    X: Any, y: Any, work: Callable[[Array, Array], Sum], size: int, names: Sequence[str], number: int
) -> Sum | None:
    """Run on a worker: the sum over one partition, None where it has no rows."""
    if len(X) != len(y):
        raise InputError(
            f"partition {number + 1} of X has {len(X)} rows and that of y {len(y)}: take both from one Dask collection"
        )
    try:
        inputs, target = (np.asarray(part, dtype=np.float64) for part in (X, y))
    except (TypeError, ValueError):
        raise InputError(f"partition {number + 1} holds what is not a number: a stream takes numbers only") from None
    if hasattr(X, "columns") and tuple(map(str, X.columns)) != tuple(names):
        raise InputError(
            f"partition {number + 1} has the columns {', '.join(map(str, X.columns))} and not {', '.join(names)}: all "
            "partitions need the same columns"
        )
    if inputs.shape[1] != len(names):
        raise InputError(f"partition {number + 1} has {inputs.shape[1]} columns, not {len(names)}")
    inputs, target = finite_block(inputs, target.ravel(), names, f"partition {number + 1}", 0)
    if not len(target):
        return None
    total: Sum = reduce(add, (work(inputs[rows], target[rows]) for rows in slices(len(target), size)))
    return total


def _require(total: Sum | None) -> Sum:
    if total is None:
        raise InputError("there is no row with a target: check which column is the target")
    return total


@dataclass(frozen=True, eq=False)
class ScaledSource:
    """A stream in the units of the fit."""

    stream: FileStream | DaskStream
    units: Units
    level: float
    count: int

    def add_up(self, work: Callable[[Array, Array], Sum], size: int) -> Sum:
        """Return the sum over all rows; they must still be as many as they were."""
        found = self.stream.add_up(partial(_sum_scaled, work, self.units, self.level), size)
        if found.rows != self.count:
            note = f"there were {self.count:,} rows and now there are {found.rows:,}"
            raise InputError(f"{note}: the data changed while they were read; fit again")
        total: Sum = found.total
        return total


@dataclass(frozen=True, eq=False)
class CountedSum:
    """A sum with the number of rows in it."""

    rows: int
    total: Any

    def __add__(self, other: CountedSum) -> CountedSum:
        return CountedSum(self.rows + other.rows, self.total + other.total)


def _sum_scaled(work: Callable[[Array, Array], Any], units: Units, level: float, X: Array, y: Array) -> CountedSum:
    """Do work in scaled units, on rows in the user's."""
    scaled = (X - np.array(units.shift)) / np.array(units.scale)
    return CountedSum(len(y), work(scaled, (y - level) / units.y_scale))


def open_stream(X: Any, y: Any) -> FileStream | DaskStream:
    """Return rows that are read or worked on in parts."""
    if isinstance(X, ParquetRows):
        if y is not None:
            raise InputError("ParquetRows names its own target: call fit(rows) without y")
        return FileStream(X.names, X.target, True, X)
    if not is_dask(y):
        raise InputError("X is a Dask collection: y must be one too, from the same partitions (say frame['y'])")
    return _open_dask(X, y)


def _open_dask(X: Any, y: Any) -> DaskStream:
    framed = hasattr(X, "columns")
    if framed:
        names = [str(name) for name in X.columns]
        wrong = [name for name, kind in zip(names, X.dtypes, strict=True) if kind.kind not in "biuf"]
        if wrong:
            raise InputError(
                f"column(s) {', '.join(map(repr, wrong))} hold no numbers: a Dask dataframe is learned from number by "
                "number. Leave them out, turn them into numbers, or compute() the table"
            )
    else:
        if getattr(X, "ndim", 0) != 2:
            raise InputError("a Dask array X must have rows and columns")
        X, names = X.rechunk({1: -1}), [str(i) for i in range(X.shape[1])]
    try:  # keep the partitions on the workers of a cluster, where there is one: every evaluation goes over all of them
        from distributed import get_client

        get_client()
    except (ImportError, ValueError):
        pass
    else:
        import dask

        X, y = dask.persist(X, y)
    left, right = (list(np.ravel(np.array(part.to_delayed(), dtype=object))) for part in (X, y))
    if len(left) != len(right):
        raise InputError(
            f"X has {len(left)} partitions and y {len(right)}: take both from one Dask collection, or repartition one"
        )
    name = getattr(y, "name", None) if framed else None
    parts = list(zip(left, right, strict=True))
    return DaskStream(names, None if name is None else str(name), framed, parts, (X, y))
