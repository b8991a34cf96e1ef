"""Racing: most of the cost of a search lies in candidates that cannot win, so all of them run a few steps, the
promising some more, and only those that could still win run to the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mercer.inference.contract import Data

MANY = 450  # rows
SAMPLE = 300  # of them
SMALL_SAMPLE = 150  # for a crowd
CROWD = 300  # candidates
PLACES = (None, CROWD // 2, CROWD // 4, CROWD // 15, None, None)  # for a crowd on many rows, lap by lap
GROWN = 2  # starts of each of them at first: those at the parent's optimum; a kernel of many parts begun afresh is slow
EVERYBODY = float("inf")  # a margin


@dataclass(frozen=True)
class Lap:
    """How far candidates run, how many of their starts, and who may run."""

    iterations: int  # in all, since they began on these rows
    starts: int
    margin: float  # by how much a score may be behind the best of the lap before
    at_least: int  # this many run in any case
    sample: int | None = None  # where there are many rows, run on this many of them
    at_most: int | None = None  # of those within the margin so many of the best


def is_large_crowd(candidates: int, rows: int) -> bool:
    """Tell whether there are hundreds of candidates on many rows, as several columns make them."""
    return candidates > CROWD and rows > MANY


def laps(race: bool, max_iterations: int, candidates: int, rows: int, finish: int = 3) -> tuple[Lap, ...]:
    """Return the laps of a race, of which `finish` at least reach the end; without racing everybody does.

    Several input columns make a crowd, most of which can be told from the winners on very few rows. A sample says
    little about what is left when most is explained: those not far behind on it run a few steps on all rows. In a crowd
    on many rows hundreds are level there, each with a part more that is of no use: only the first of them go on.
    """
    many, crowd = rows > MANY, candidates > CROWD
    first: tuple[Lap, ...] = (Lap(6, 99, EVERYBODY, 0, SAMPLE),)
    if crowd:
        first = (Lap(6, GROWN if many else 99, EVERYBODY, 0, SMALL_SAMPLE), Lap(6, 3, 150.0, CROWD // 4, SAMPLE))
    course = (
        *first,
        Lap(21, 2, 60.0, 15, SAMPLE),
        *((Lap(8, 2, 30.0, 10),) if many else ()),
        Lap(48 if many else 61, 2, 12.0, 2 * finish),
        Lap(max_iterations, 1, 4.0, finish),
    )
    if is_large_crowd(candidates, rows):
        course = tuple(replace(lap, at_most=most) for lap, most in zip(course, PLACES, strict=True))
    return course if race else tuple(replace(lap, margin=EVERYBODY, at_most=None) for lap in course)


def to_the_end(max_iterations: int) -> tuple[Lap, ...]:
    """Return the one lap of those few that everything grows from: all of their starts run to the end at once."""
    return (Lap(max_iterations, 99, EVERYBODY, 0),)


def sample(data: Data, count: int, seed: int) -> Data:
    """Return a random sample of the rows, in their order, where there are many; all of them otherwise.

    The first laps only have to tell who could win; the cost of a lap grows with the cube of the rows.
    """
    if data.count <= MANY:
        return data
    rows = np.sort(np.random.default_rng(seed).choice(data.count, count, replace=False))
    return data.take(rows)


def runners(scores: Sequence[float], lap: Lap) -> list[int]:
    """Return who runs the lap, given everybody's score so far (smaller is better)."""
    order = np.argsort(scores, kind="stable")
    if not len(order):
        return []
    limit = scores[order[0]] + lap.margin
    close = [int(i) for rank, i in enumerate(order) if rank < lap.at_least or scores[i] <= limit]
    return sorted(close[: lap.at_most])
