"""One pass over a stream before anything is learned: how many rows, their means and spreads, and a random sample."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from mercer.kernels.domains import Array

KEPT = 20_000  # rows of the sample: to learn from, to choose inducing points among, and to draw pictures of
BLOCK = 50_000  # rows read at a time


@dataclass(frozen=True, eq=False)
class Scan:
    """Sums over some rows of inputs and target (the last column); those of two sets of rows are added."""

    count: int
    mean: Array
    squares: Array  # sums of squared deviations from the mean
    least: Array
    most: Array
    keys: Array  # a random number for each row of the sample: the rows with the smallest are kept
    rows: Array

    def __add__(self, other: Scan) -> Scan:
        count = self.count + other.count
        apart = other.mean - self.mean
        keys, rows = np.concatenate([self.keys, other.keys]), np.concatenate([self.rows, other.rows])
        if len(keys) > KEPT:
            few = np.sort(np.argpartition(keys, KEPT)[:KEPT])  # in the order of the rows
            keys, rows = keys[few], rows[few]
        return Scan(
            count,
            self.mean + apart * (other.count / count),  # Chan, Golub & LeVeque 1979
            self.squares + other.squares + apart**2 * (self.count * other.count / count),
            np.minimum(self.least, other.least),
            np.maximum(self.most, other.most),
            keys,
            rows,
        )


def scanned(X: Array, y: Array) -> Scan:
    """Scan one block. Its random numbers follow from what is in it, so that a block done twice is the same twice."""
    table = np.column_stack([X, y])
    rng = np.random.default_rng([zlib.crc32(table.tobytes()), len(table)])
    mean = table.mean(axis=0)
    squares = ((table - mean) ** 2).sum(axis=0)
    keys = rng.random(len(table))
    few = np.sort(np.argpartition(keys, KEPT)[:KEPT]) if len(keys) > KEPT else slice(None)
    return Scan(len(table), mean, squares, table.min(axis=0), table.max(axis=0), keys[few], table[few])
