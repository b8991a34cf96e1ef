"""What varies fast in one regime only is easily taken for noise: starts in which it is not.

On several columns a fit begins with lengthscales that suit rows far apart. Where one regime varies over the distance of
neighbours, every such start ends with that regime flat and its variation in the noise, and no small step leads away.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from mercer.fitting.optimise import Problem
from mercer.kernels.blend import Surface
from mercer.kernels.domains import Array

NEIGHBOURS = (1.0, 2.0, 4.0)  # distances between neighbours that lengthscales are set to
LESS_NOISE = 0.1  # of what it was


def quicker(problem: Problem, point: Array) -> Array | None:
    """Return the best point with one leaf of several columns made fast, as variable as the noise was; None without."""
    points = list(_points(problem, point))
    if not points:
        return None
    heights = [problem.objective.evidence(point, gradient=False).value for point in points]
    return points[int(np.argmax(heights))]


def _points(problem: Problem, point: Array) -> Iterator[Array]:
    objective, starts = problem.objective, problem.starts
    values, noise = objective.split(point)
    if objective.fixed_noise is not None:
        return
    for number, leaf in enumerate(starts.leaves):
        own = {slot.spec.name: slot for slot in objective.layout.slots if slot.leaf == number and slot.fitted}
        if isinstance(leaf, Surface) or len(leaf.columns) < 2 or not {"lengthscale", "variance"} <= set(own):
            continue
        span = np.array(starts.frame.span)[list(leaf.columns)]
        near = span * objective.data.count ** (-1.0 / len(leaf.columns))
        for distances in NEIGHBOURS:
            changed = values.copy()
            changed[own["lengthscale"].where] = distances * near
            changed[own["variance"].where] = np.maximum(values[own["variance"].where], noise)
            free = np.append(objective.layout.to_free(changed), math.log(LESS_NOISE * noise))
            yield np.clip(free, problem.bounds[:, 0], problem.bounds[:, 1])
