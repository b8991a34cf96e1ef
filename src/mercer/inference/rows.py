"""Sums over rows as a map and a reduction: here, by joblib's workers, or wherever the rows are.

A block of rows is turned into its sums, and sums are added in the order of the blocks, so that the result does not
depend on who did which block. Every block is a pure function of its rows: what a worker took with it when it died is
worked out again, and no row is counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add

from mercer.inference.contract import Data, Sum
from mercer.kernels.domains import Array
from mercer.linalg.threads import one_thread

BLOCK_NUMBERS = 1_000_000  # numbers in one block of rows of Kfu
DEVICE_NUMBERS = 1 << 26  # on a GPU: half a gigabyte


@dataclass(frozen=True)
class Sweep:
    """How to go over the rows: so many at a time, by so many of joblib's jobs, on a device."""

    block: int | None = None
    jobs: int | None = None
    device: str = "cpu"

    def size(self, points: int) -> int:
        """Return how many rows to take at a time: a number fit for the inducing points unless one is given."""
        numbers = BLOCK_NUMBERS if self.device == "cpu" else DEVICE_NUMBERS
        return self.block or max(128, numbers // max(1, points))


def blocks(rows: int, points: int, block: int | None) -> Iterator[slice]:
    """Split the rows into blocks, of a size fit for the number of inducing points unless one is given."""
    return slices(rows, Sweep(block).size(points))


def slices(rows: int, size: int) -> Iterator[slice]:
    """Split the rows into blocks of a size."""
    return (slice(start, min(rows, start + size)) for start in range(0, rows, size))


def summed(data: Data, work: Callable[[Array, Array], Sum], size: int, jobs: int | None = None) -> Sum:
    """Return the sum of work(X, y) over all rows.

    Without `jobs` the blocks are worked on here, one after the other, unless a joblib back end was chosen around the
    call (`joblib.parallel_config`): then they go there.
    """
    if data.source is not None:
        return data.source.summed(work, size)
    from joblib import Parallel, delayed

    parts = slices(data.count, size)
    with one_thread(when=jobs not in (None, 1)):  # threads of joblib, not threads in threads
        pool = Parallel(n_jobs=jobs, prefer="threads", return_as="generator")
        total: Sum = reduce(add, pool(delayed(work)(data.X[rows], data.y[rows]) for rows in parts))
    return total
