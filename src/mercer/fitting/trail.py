"""A run that stops and goes on later takes the steps that it would have taken without the stop.

An optimiser keeps its memory of the slopes to itself, and begun anew where it stopped it goes another way. Taken along
its old trail again, with every answer at hand, it gets its memory back for next to nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer.kernels.domains import Array


class Trail(NamedTuple):
    """What was evaluated on the way: with it a run goes on as if it had never stopped."""

    points: Array  # (E, P)
    values: Array  # (E,)
    slopes: Array  # (E, P)

    @property
    def start(self) -> Array:
        """Where the run began."""
        return np.asarray(self.points[0])

    @property
    def best(self) -> tuple[Array, float]:
        """The point with the least value, and that value."""
        least = int(np.argmin(self.values))
        return np.asarray(self.points[least]), float(self.values[least])


class Record:
    """Evaluations in the order in which an optimiser asks for them, those of an earlier trail first."""

    def __init__(self, trail: Trail | None) -> None:
        self._entries = [] if trail is None else list(zip(*trail, strict=True))
        self._asked = 0

    def known(self, point: Array) -> tuple[float, Array] | None:
        """Return what was evaluated at this step before, or None; what followed another point is forgotten."""
        if self._asked < len(self._entries):
            old, value, slope = self._entries[self._asked]
            if np.array_equal(old, point):
                self._asked += 1
                return value, slope.copy()
            del self._entries[self._asked :]
        return None

    def noted(self, point: Array, value: float, slope: Array) -> tuple[float, Array]:
        """Write a new evaluation down, and return it."""
        self._entries.append((point.copy(), value, slope.copy()))
        self._asked += 1
        return value, slope

    def trail(self) -> Trail:
        """Return what was evaluated so far."""
        points, values, slopes = zip(*self._entries, strict=True)
        return Trail(np.stack(points), np.array(values, dtype=float), np.stack(slopes))
