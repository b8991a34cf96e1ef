"""What each component is worth on rows that the model has not seen, and the order that follows from it.

As in the Automatic Statistician: rows are left out in folds (parameters stay), every component is predicted there from
the other rows, and components are added one by one, each time the one that takes most off the mean absolute error. Each
counts without its mean over the rows it is predicted from, and beside the mean of their targets: components can hand a
constant back and forth, differently in every fold, which would hide what they do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.compute.program import compile_program
from mercer.errors import NumericalError
from mercer.explain.subject import Subject
from mercer.inference.likelihood import Gaussian
from mercer.kernels.domains import Array
from mercer.kernels.parameters import values_of

FOLDS = 10
FEW_FOLDS, MANY_ROWS = 3, 3000  # beyond so many rows ten factorisations would be felt


@dataclass(frozen=True, eq=False)
class Contributions:
    """Components by number, best first, with the held-out error (user's units) before any and after each."""

    folds: int
    order: tuple[int, ...]
    errors: tuple[float, ...]  # one more than components


def contributions(subject: Subject) -> Contributions | None:
    """Return the order by held-out error; None where it cannot be computed."""
    count = subject.data.count
    folds = min(count, FOLDS if count <= MANY_ROWS else FEW_FOLDS)
    try:
        means, level = held_out_parts(subject, folds)
    except NumericalError:
        return None
    order, errors = _greedy(means, subject.data.y - level)
    return Contributions(folds, tuple(order), tuple(subject.units.y_scale * error for error in errors))


def held_out_parts(subject: Subject, folds: int) -> tuple[Array, Array]:
    """Return every component's mean at every row, from a posterior without the row's fold (parts x rows, scaled).

    Each less its mean over the rows of that posterior; also the mean of their targets, for every row.
    """
    X, y = subject.data.X, subject.data.y
    fold = np.random.default_rng(0).permutation(len(y)) % folds
    means, level = np.empty((len(subject.parts), len(y))), np.empty(len(y))
    program, values = compile_program(subject.kernel), values_of(subject.kernel)
    for number in range(folds):
        out = fold == number
        posterior = subject.engine.posterior(program, values, Gaussian(subject.noise), subject.data.take(~out))
        level[out] = y[~out].mean()
        for place, part in enumerate(subject.parts):
            mean = posterior.predict_part(part.program, part.values, np.vstack([X[out], X[~out]])).mean
            means[place, out] = mean[: out.sum()] - mean[out.sum() :].mean()
    return means, level


def _greedy(means: Array, y: Array) -> tuple[list[int], list[float]]:
    left, order, rest = list(range(len(means))), list[int](), y.copy()
    errors = [float(np.abs(y).mean())]
    while left:
        after = [float(np.abs(rest - means[place]).mean()) for place in left]
        best = int(np.argmin(after))
        errors.append(after[best])
        rest = rest - means[left[best]]
        order.append(left.pop(best))
    return order, errors
