"""Rows that are not in memory as a source of sums: Parquet files read block by block, or a Dask collection.

Both turn work on a block into its sum over all rows. Parquet is read here, on each pass. Dask's partitions are worked
on where they are: one task for each, then a tree of additions. A task is a function of its partition alone, so what a
dead worker held is worked out again by another, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, Protocol

import numpy as np

from mercer.errors import InputError
from mercer.inference.contract import Sum
from mercer.inference.sparse import slices
from mercer.kernels.domains import Array
from mercer.kernels.units import Units
from mercer.tables.parquet_rows import ParquetRows, finite_block


class Stream(Protocol):
    """Rows as they were given, in the user's units."""

    @property
    def names(self) -> Sequence[str]:
        """The columns."""

    @property
    def target_name(self) -> str | None:
        """The name of the target, if it has one."""

    @property
    def named(self) -> bool:
        """Whether the columns have names of their own."""

    def total(self) -> int:
        """Return how many rows there are, with a target and without."""

    def summed(self, work: Callable[[Array, Array], Sum], size: int) -> Sum:
        """Return the sum of work(X, y) over blocks of all rows with a target."""


@dataclass(frozen=True, eq=False)
class FileStream:
    """A Parquet stream."""

    rows: ParquetRows
    named: bool = True

    @property
    def names(self) -> Sequence[str]:
        """The columns."""
        return self.rows.names

    @property
    def target_name(self) -> str | None:
        """The name of the target."""
        return self.rows.target

    def total(self) -> int:
        """Return how many rows there are."""
        return self.rows.total

    def summed(self, work: Callable[[Array, Array], Sum], size: int) -> Sum:
        """Read the files once, in order."""
        total: Sum | None = None
        for X, y in self.rows.blocks(size):
            if len(y):
                part = work(X, y)
                total = part if total is None else add(total, part)
        return _something(total)


@dataclass(frozen=True, eq=False)
class DaskStream:
    """A Dask dataframe or array with its target; `parts` are pairs of delayed partitions."""

    parts: list[tuple[Any, Any]] = field(repr=False)
    names: Sequence[str]
    target_name: str | None
    named: bool
    held: Any = field(default=None, repr=False)  # a cluster forgets what nobody holds

    def total(self) -> int:
        """Return how many rows there are."""
        import dask

        return int(sum(dask.compute(*(dask.delayed(len)(y) for _, y in self.parts))))

    def summed(self, work: Callable[[Array, Array], Sum], size: int) -> Sum:
        """Send the work to the partitions and add up what comes back, pair by pair."""
        from dask import delayed

        sent = delayed(work, pure=False)  # in the graph once; scattered data would be lost with its worker
        one = delayed(_of_partition, pure=False)
        left = [one(X, y, sent, size, tuple(self.names), number) for number, (X, y) in enumerate(self.parts)]
        while len(left) > 1:
            left = [_joined(left[i : i + 2]) for i in range(0, len(left), 2)]
        total: Sum | None = left[0].compute()
        return _something(total)


def _joined(pair: list[Any]) -> Any:
    from dask import delayed

    return pair[0] if len(pair) == 1 else delayed(_added, pure=False)(*pair)


def _added(one: Sum | None, other: Sum | None) -> Sum | None:
    """Add two sums, either of which may be of no rows."""
    if one is None or other is None:
        return one if other is None else other
    total: Sum = add(one, other)
    return total


def _of_partition(
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


def _something(total: Sum | None) -> Sum:
    if total is None:
        raise InputError("there is no row with a target")
    return total


@dataclass(frozen=True, eq=False)
class ScaledSource:
    """A stream in the units of the fit."""

    stream: Stream
    units: Units
    level: float
    count: int

    def summed(self, work: Callable[[Array, Array], Sum], size: int) -> Sum:
        """Return the sum over all rows; they must still be as many as they were."""
        scaled = _Scaled(work, np.array(self.units.shift), np.array(self.units.scale), self.level, self.units.y_scale)
        rows, total = self.stream.summed(scaled, size).parts
        if rows != self.count:
            raise InputError(f"there were {self.count:,} rows and now there are {rows:,}: the data changed meanwhile")
        return total


@dataclass(frozen=True, eq=False)
class _Counted:
    """A sum with the number of rows in it."""

    parts: tuple[int, Any]

    def __add__(self, other: _Counted) -> _Counted:
        return _Counted((self.parts[0] + other.parts[0], self.parts[1] + other.parts[1]))


@dataclass(frozen=True, eq=False)
class _Scaled:
    """Work in scaled units, on rows in the user's."""

    work: Callable[[Array, Array], Any]
    shift: Array
    scale: Array
    level: float
    y_scale: float

    def __call__(self, X: Array, y: Array) -> _Counted:
        return _Counted((len(y), self.work((X - self.shift) / self.scale, (y - self.level) / self.y_scale)))


def is_dask(value: Any) -> bool:
    """Tell whether this is a collection of Dask."""
    return type(value).__module__.split(".")[0] in ("dask", "dask_expr")


def stream_of(X: Any, y: Any) -> Stream | None:
    """Return rows that are read or worked on in parts, None where X is an ordinary table."""
    if isinstance(X, ParquetRows):
        if y is not None:
            raise InputError("ParquetRows names its own target: call fit(rows) without y")
        return FileStream(X)
    if not is_dask(X):
        return None
    if not is_dask(y):
        raise InputError("X is a Dask collection: y must be one too, from the same partitions (say frame['y'])")
    return _dask_stream(X, y)


def _dask_stream(X: Any, y: Any) -> DaskStream:
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
    X, y = _persisted(X, y)
    left, right = list(_partitions(X)), list(_partitions(y))
    if len(left) != len(right):
        raise InputError(
            f"X has {len(left)} partitions and y {len(right)}: take both from one Dask collection, or repartition one"
        )
    name = getattr(y, "name", None) if framed else None
    parts = list(zip(left, right, strict=True))
    return DaskStream(parts, names, None if name is None else str(name), framed, (X, y))


def _partitions(collection: Any) -> Iterator[Any]:
    return iter(np.ravel(np.array(collection.to_delayed(), dtype=object)))


def _persisted(X: Any, y: Any) -> tuple[Any, Any]:
    """Keep the partitions on the workers of a cluster, where there is one: every evaluation goes over all of them."""
    try:
        from distributed import get_client

        get_client()
    except (ImportError, ValueError):
        return X, y
    import dask

    kept: tuple[Any, Any] = dask.persist(X, y)
    return kept
