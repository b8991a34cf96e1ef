"""Rows that lie on a grid: which axes it has, and which cell each row is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.domains import Array

MOST_MISSING = 0.3  # of the cells of a grid, for rows to be taken for one
DEEP = 2  # cells: a hole this far from every observation in all directions is large


@dataclass(frozen=True, eq=False)
class Lattice:
    """A grid: the coordinates along each axis, in order, and the number of the cell (C order) of every row."""

    axes: tuple[Array, ...]
    cells: NDArray[np.intp]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis) for axis in self.axes)

    @property
    def size(self) -> int:
        """Number of cells, holes counted."""
        return int(np.prod(self.shape))

    @property
    def mostly_holes(self) -> bool:
        """Whether more than half of the cells have no row."""
        return self.size > 2 * len(self.cells)

    @cached_property
    def holes(self) -> NDArray[np.intp]:
        """Numbers of the cells without a row."""
        empty = np.ones(self.size, dtype=bool)
        empty[self.cells] = False
        return np.flatnonzero(empty)

    @cached_property
    def deep(self) -> NDArray[np.intp]:
        """Which of the holes are in large ones."""
        from scipy.ndimage import binary_dilation, binary_erosion

        empty = np.zeros(self.size, dtype=bool)
        empty[self.holes] = True
        empty = empty.reshape(self.shape)
        core = binary_erosion(empty, iterations=DEEP, border_value=1) if len(self.holes) else empty
        if core.any():
            core = binary_dilation(core, iterations=DEEP) & empty
        return np.flatnonzero(core.ravel()[self.holes])


def find_lattice(X: Array, most_cells: float = np.inf) -> Lattice | None:
    """Return the grid that the rows lie on; None where two rows share a cell or it has more than `most_cells` cells.

    A row or plane of the grid without any value at all is no part of it: it is not needed to learn from the others.
    """
    axes, cells, size = [], np.zeros(len(X), dtype=np.intp), 1
    for column in X.T:
        axis, place = np.unique(column, return_inverse=True)
        size *= len(axis)
        if size > most_cells:
            return None
        axes.append(axis)
        cells = cells * len(axis) + place.ravel()
    if len(np.unique(cells)) < len(cells):
        return None
    return Lattice(tuple(axes), cells)
