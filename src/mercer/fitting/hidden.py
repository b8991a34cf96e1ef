"""How well does a kernel fill large holes? Hide boxes the size of the largest hole where values are known, and see.

The evidence judges short distances most, since there are so many pairs of neighbours; in the middle of a large hole
only what reaches far counts. So kernels are compared on the task itself, on cells that are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import find_objects, label

from mercer.fitting.optimise import Problem
from mercer.inference.contract import Data
from mercer.inference.grid import EXACT_WORK
from mercer.inference.grid_product import GridProblem, cells_of
from mercer.inference.lattice import Lattice
from mercer.kernels.domains import Array

BOXES = 4
TOLERANCE, STEPS = 0.01, 100


@dataclass(frozen=True, eq=False)
class Box:
    """Known cells that are hidden: the data without them, their numbers, and what they hold."""

    rest: Data
    cells: NDArray[np.intp]
    values: Array


def hidden_boxes(data: Data, part: Data) -> list[Box]:
    """Return boxes the size of the largest hole, spread over a part of the grid; none where no hole is large.

    A part too small for them is passed over for the whole.
    """
    lattice = data.lattice
    assert lattice is not None
    deep = cells_of(lattice, torch.device("cpu")).deep.numpy()
    if not len(deep):
        return []
    mask = np.zeros(lattice.size, dtype=bool)
    mask[lattice.holes[deep]] = True
    pieces, _ = label(mask.reshape(lattice.shape))
    sizes = np.bincount(pieces.ravel())
    sizes[0] = 0
    extent = find_objects(pieces)[int(np.argmax(sizes)) - 1]
    sides = [int(part.stop - part.start) for part in extent]
    for rows in (part, data):
        boxes = [box for corner in _corners(rows.lattice, sides) if (box := _box(rows, corner, sides)) is not None]
        if len(boxes) > 1:
            return boxes
    return []


def _corners(lattice: Lattice | None, sides: Sequence[int]) -> list[tuple[int, ...]]:
    """Return where boxes begin: of those in even steps the ones with most known cells, apart from each other."""
    if lattice is None or any(side > n - 2 for side, n in zip(sides, lattice.shape, strict=True)):
        return []
    seen = np.zeros(lattice.shape)
    seen.ravel()[lattice.cells] = 1.0
    steps = [
        np.unique(np.linspace(0, n - side, 6).round().astype(int)) for n, side in zip(lattice.shape, sides, strict=True)
    ]
    places = np.stack([g.ravel() for g in np.meshgrid(*steps, indexing="ij")], axis=1)
    known = np.array([seen[tuple(slice(c, c + s) for c, s in zip(p, sides, strict=True))].sum() for p in places])
    chosen: list[tuple[int, ...]] = []
    for number in np.argsort(-known, kind="stable"):
        place = places[number]
        near = any(np.all(np.abs(place - np.array(c)) < 0.5 * np.array(sides)) for c in chosen)
        if not near and known[number] > 0.5 * np.prod(sides):
            chosen.append(tuple(int(p) for p in place))
    return chosen[:BOXES]


def _box(data: Data, corner: Sequence[int], sides: Sequence[int]) -> Box | None:
    lattice = data.lattice
    assert lattice is not None
    inside = np.ones(data.count, dtype=bool)
    for place, low, side in zip(np.unravel_index(lattice.cells, lattice.shape), corner, sides, strict=True):
        inside &= (place >= low) & (place < low + side)
    rest = data.take(~inside)
    if rest.lattice is None or rest.lattice.shape != lattice.shape:  # a whole line would be gone
        return None
    return Box(rest, lattice.cells[inside], data.y[inside])


@torch.no_grad()
def error_in_boxes(problem: Problem, point: Array, boxes: Sequence[Box]) -> float:
    """Return the mean squared error of the means in the boxes, by the variance of what they hold."""
    values, noise = problem.objective.split(point)
    errors = []
    for box in boxes:
        grid = GridProblem.of(problem.objective.program, box.rest, problem.objective.engine.backend)
        whole = grid.whole(values, noise, TOLERANCE, EXACT_WORK, STEPS)
        if whole is None:
            return float("inf")
        solved = grid.solve(whole)
        filled = solved.completed.filled.flatten(1).cpu().numpy()[:, box.cells]
        mean = filled[0] - solved.level * filled[1] + solved.level if len(filled) > 1 else filled[0]
        errors.append(float(np.mean((mean - box.values) ** 2) / max(np.var(box.values), 1e-12)))
    return float(np.mean(errors))
