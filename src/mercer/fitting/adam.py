"""Adam (Kingma & Ba 2015) for many starts at once: the optimiser of the NKN paper, for comparison.

Plain gradient steps of about one size each: slow, thousands where a quasi-Newton method needs a hundred, and it stops
when told to, not where there is nothing more to gain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mercer.fitting.optimise import FAILED_VALUE, Problem, Run
from mercer.kernels.domains import Array

FORGET = (0.9, 0.999)  # shares kept of the mean slope and the mean squared slope at every step
SMALL = 1e-8

Losses = Callable[[Array], tuple[Array, Array]]  # points (S, P) -> values (S,) and slopes (S, P)


def adam(problem: Problem, points: Sequence[Array], steps: int, rate: float, losses: Losses | None = None) -> list[Run]:
    """Take so many steps from every point; each returns where it was lowest. The bounds of the search hold here too.

    `losses` gives values and slopes of all points, where they are not to be worked out one by one.
    """
    losses = losses or (lambda free: _one_by_one(problem, free))
    here = np.stack(points).astype(float)
    lowest, best = np.full(len(here), np.inf), here.copy()
    mean, square = np.zeros_like(here), np.zeros_like(here)
    for step in range(1, steps + 1):
        values, slopes = losses(here)
        better = values < lowest
        lowest[better], best[better] = values[better], here[better]
        mean = FORGET[0] * mean + (1 - FORGET[0]) * slopes
        square = FORGET[1] * square + (1 - FORGET[1]) * slopes**2
        direction = mean / (1 - FORGET[0] ** step) / (np.sqrt(square / (1 - FORGET[1] ** step)) + SMALL)
        here = np.clip(here - rate * direction, problem.bounds[:, 0], problem.bounds[:, 1])
    rows = problem.objective.data.count
    return [
        Run(point, min(float(value), FAILED_VALUE), f"{steps} steps of Adam", False, steps, rows)
        for point, value in zip(best, lowest, strict=True)
    ]


def _one_by_one(problem: Problem, points: Array) -> tuple[Array, Array]:
    pairs = [problem.objective(point) for point in points]
    return np.array([value for value, _ in pairs]), np.stack([slope for _, slope in pairs])
