"""Standard Bayesian optimisation in a box (KFO, algorithm 2): how the hyperkernel's own numbers are tuned."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from mercer.kernels.domains import Array
from mercer.learners.functional.search import Outcome
from mercer.learners.functional.surrogate import Acquisition, acquired, surrogate

CANDIDATES = 512
RATES = (0.3, 0.6, 0.9)  # of the hyperkernel: tried before the others
RATE_LIMITS = (0.02, 0.98)


def tuned(
    evaluate: Callable[[Array], Outcome], dimensions: int, steps: int, rng: np.random.Generator,
    first: Sequence[Array] = (), acquisition: Acquisition = "ei",
) -> list[tuple[Array, Outcome]]:  # fmt: skip
    """Return the points of (0, 1]^dimensions that were tried with what came of them, `first` before the others."""
    tried = [(point, evaluate(point)) for point in map(np.asarray, first)]
    for step in range(1, steps + 1):
        candidates = 1.0 - rng.random((CANDIDATES, dimensions))  # (0, 1]
        good = [o.value for _, o in tried if o.good]
        if len(good) < 2:
            chosen = candidates[0]
        else:
            worst = min(good) - float(np.std(good))
            values = np.array([o.value if o.good else worst for _, o in tried])
            model = surrogate(np.array([p for p, _ in tried]), values, np.ones(dimensions))
            chosen = candidates[int(np.argmax(acquired(model, candidates, max(good), step, acquisition)))]
        tried.append((chosen, evaluate(chosen)))
    return tried


def best_of(tried: Sequence[tuple[Array, Outcome]]) -> tuple[Array, float]:
    """Return the best point and its value; minus infinity where none could be evaluated."""
    good = [(o.value, i) for i, (_, o) in enumerate(tried) if o.good]
    if not good:
        return tried[0][0], -math.inf
    value, place = max(good, key=lambda pair: (pair[0], -pair[1]))
    return tried[place][0], value


def steadiest_of(tried: Sequence[tuple[Array, Outcome]]) -> Array:
    """Return the point with the best expected value under the surrogate: of noisy values the best is often luck."""
    good = [(p, o.value) for p, o in tried if o.good]
    if not good:
        return tried[0][0]
    points, values = np.array([p for p, _ in good]), np.array([v for _, v in good])
    if len(good) < 3:
        return np.asarray(points[int(np.argmax(values))])
    mean, _ = surrogate(points, values, np.ones(points.shape[1])).predict(points)
    return np.asarray(points[int(np.argmax(mean))])
