"""How far beyond the data the model knows anything: of each component, and of the whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer.explain.subject import Part, Subject
from mercer.kernels.domains import Array

FARTHEST = 10.0  # times the range of the data
FORGOTTEN = 0.9  # of the width that a band would have without data
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


def part_horizon(subject: Subject, part: Part) -> float | None:
    """Return how far beyond the data a summand on one column is known; None: farther than anyone should look.

    Known means that its band is narrower than `FORGOTTEN` times what it would be without data. Looks in the direction
    of larger values; nothing changes in the other one for any kernel but LIN.
    """
    (column,) = part.columns
    distances = _distances(subject, column)
    rows = subject.rows_along(column, _end(subject, column) + distances)
    prior = subject.prior_variance(part, rows)
    known = subject.part_at(part, rows).variance < FORGOTTEN**2 * prior
    return _first_unknown(distances, known)


def whole_horizon(subject: Subject, column: int) -> float | None:
    """Return how far beyond the data the band of new observations is narrower than the spread of the data themselves.

    For dates to the future, for other numbers in both directions.
    """
    distances = _distances(subject, column)
    found = []
    for values in _beyond(subject, column, distances):
        _, std = subject.predict(subject.rows_along(column, values))
        found.append(_first_unknown(distances, std < float(np.std(subject.observed))))
    known = [distance for distance in found if distance is not None]
    return min(known, default=None)


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


def _first_unknown(distances: Array, known: NDArray[np.bool_]) -> float | None:
    unknown = np.flatnonzero(~known)
    if not len(unknown):
        return None
    return 0.0 if unknown[0] == 0 else float(distances[unknown[0]])
