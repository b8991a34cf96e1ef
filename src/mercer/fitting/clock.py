"""How long work has taken, how long it may take, and what is told to a person who waits for it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from mercer.kernels.expression import Expression


@dataclass(frozen=True)
class Progress:
    """How far a fit or a search is."""

    done: int
    total: int
    counted: Literal["kernels", "starts", "steps"]  # what `done` and `total` count
    best: Expression | None = None  # the best kernel so far, in scaled units
    score: float = math.inf  # of the best so far: smaller is better
    seconds: float = 0.0
    seconds_left: float | None = None  # of the time budget; None: there is none
    depth: int = 0  # steps of a search from a base kernel
    rung: int = 0  # of a race


Report = Callable[[Progress], None]


class OutOfTimeError(Exception):
    """The time budget is spent; whoever set it returns the best so far."""


@dataclass(frozen=True)
class Clock:
    """Measures time from when it was made, against a budget if there is one."""

    budget: float | None = None  # seconds
    started: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        """The time since the start."""
        return time.perf_counter() - self.started

    @property
    def seconds_left(self) -> float | None:
        """What is left of the budget."""
        return None if self.budget is None else max(0.0, self.budget - self.seconds)

    def check(self) -> None:
        """Raise `OutOfTimeError` once the budget is spent."""
        if self.budget is not None and self.seconds > self.budget:
            raise OutOfTimeError
