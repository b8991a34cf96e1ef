"""How far beyond the data the model knows anything: of each component, and of the whole."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer.explain.drift import correlation
from mercer.explain.subject import Part, Subject
from mercer.kernels.domains import Array

FARTHEST = 10.0  # times the range of the data
FORGOTTEN = 0.9  # of the width that a band would have without data
NEAR = 0.5  # of the spread of the data: a mean that close to their average says no more than it
FORECAST_AT = (0.05, 0.1, 0.2)  # shares of the range
WITHIN_95 = 1.959964


@dataclass(frozen=True)
class Outlook:
    """What the model predicts at a distance beyond the data: the mean and the 95 % band of new observations."""

    distance: float
    at: float
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Horizon:
    """How far beyond the data the band is narrower than the spread of the data themselves (None: without end).

    `returns` says whether the mean has come back to their average there; a trend or a random walk does not.
    """

    distance: float | None
    returns: bool
    below: bool = False  # at the lower end of the data, not at the upper one


def part_horizon(subject: Subject, part: Part) -> float | None:
    """Return how far beyond the data a summand on one column is known; None: farther than anyone should look.

    Known means that its band is narrower than `FORGOTTEN` times what it would be without data. Looks in the direction
    of larger values; nothing changes in the other one for any kernel but LIN. A wave is known again after a gap in its
    cycle: what counts is from where on nothing is known.
    """
    (column,) = part.columns
    distances = _distances(subject, column)
    rows = subject.rows_along(column, _end(subject, column) + distances)
    prior = subject.prior_variance(part, rows)
    variance = subject.part_at(part, rows).variance
    known = variance < FORGOTTEN**2 * prior
    if not known[0] and variance[0] - _level_variance(subject) < FORGOTTEN**2 * prior[0]:
        known = _remembered(part, distances)  # all that is not known is a constant, which the level may have as well
    if known[-1]:
        return None
    last = np.flatnonzero(known)
    return _no_step(subject, column, float(distances[last[-1] + 1])) if len(last) else 0.0


def whole_horizon(subject: Subject, column: int) -> Horizon:
    """Return how far beyond the data the band of new observations is narrower than the spread of the data themselves.

    For dates to the future, for other numbers in both directions: the nearer one counts.
    """
    distances = _distances(subject, column)
    average, spread = float(np.mean(subject.observed)), float(np.std(subject.observed))
    found = []
    for below, values in enumerate(_beyond(subject, column, distances)):
        mean, std = subject.predict(subject.rows_along(column, values))
        wide = np.flatnonzero(std >= spread)
        if len(wide):
            returns = abs(float(mean[wide[0]]) - average) < NEAR * spread
            distance = _no_step(subject, column, float(distances[wide[0]]))
            found.append(Horizon(distance, returns, bool(below)))
    return min(found, key=lambda each: each.distance or 0.0, default=Horizon(None, False))


def outlooks(subject: Subject, column: int) -> list[Outlook]:
    """Return predictions at some distances beyond the last row, in whole steps of the data."""
    values = np.unique(subject.in_user_units(column))
    span, step = float(values[-1] - values[0]), float(np.median(np.diff(values)))
    distances = np.unique([step * max(1, round(share * span / step)) for share in FORECAST_AT])
    mean, std = subject.predict(subject.rows_along(column, values[-1] + distances))
    return [
        Outlook(float(d), float(values[-1] + d), float(m), float(m - WITHIN_95 * s), float(m + WITHIN_95 * s))
        for d, m, s in zip(distances, mean, std, strict=True)
    ]


def _end(subject: Subject, column: int) -> float:
    return float(subject.in_user_units(column).max())


def _beyond(subject: Subject, column: int, distances: Array) -> list[Array]:
    places = subject.in_user_units(column)
    after = float(places.max()) + distances
    return [after] if subject.columns[column].unit is not None else [after, float(places.min()) - distances]


def _distances(subject: Subject, column: int) -> Array:
    return np.concatenate([[0.0], np.geomspace(1e-3, FARTHEST, 80)]) * float(np.ptp(subject.in_user_units(column)))


def _level_variance(subject: Subject) -> float:
    return subject.units.y_scale**2 * float(subject.posterior.level.variance[0])


def _remembered(part: Part, distances: Array) -> NDArray[np.bool_]:
    """Tell where a summand would be known if it were known exactly at the last row, and nowhere else."""
    left = [[correlation(leaf, 0, float(d)) for leaf in part.kernel.leaves()] for d in distances]
    return np.array([1 - math.prod(c for c in each if c is not None) ** 2 < FORGOTTEN**2 for each in left])


def _no_step(subject: Subject, column: int, distance: float) -> float:
    """Return zero for less than one step of the data."""
    steps = np.diff(np.unique(subject.in_user_units(column)))
    return distance if distance >= float(np.median(steps)) else 0.0
