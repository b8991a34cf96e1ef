"""What a study keeps: the trials, the best of them, and the points that are still to be tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from mercer.kernels.domains import Array
from mercer.optimise.proposal import Method, Why

Purpose = Literal["first", "improve", "explore", "waiting"]
Way = Literal["one of the first", "all values are equal", "chosen elsewhere"] | Method


@dataclass(frozen=True, eq=False)
class Trial:
    """One point that was tried: its row in encoded units, and the value to be minimised (None: it failed)."""

    row: Array
    value: float | None
    note: str = ""


@dataclass(frozen=True, eq=False)
class Best:
    """The best point so far, its observed value, and what the surrogate expects there (None before it exists)."""

    x: Any
    y: float
    mean: float | None
    number: int  # of its trial, from 0
    noisy: bool = False  # then it is the best by the mean
    better: float | None = None  # a better value of another trial, which the model puts down to noise
    allowed: bool = True  # False: no trial with a value is within the bounds and the constraints


@dataclass(frozen=True, eq=False)
class Suggestion:
    """A point to try next, with what is expected of it and how it was chosen."""

    x: Any
    mean: float | None
    spread: float | None  # one standard deviation
    purpose: Purpose
    way: Way
    why: Why | None = None  # that way

    @property
    def reason(self) -> str:
        """How it was chosen and why so, in words."""
        from mercer.optimise import words

        return words.give_reason(self.way, self.why)


@dataclass(frozen=True, eq=False)
class Pending:
    """A suggestion whose value is not known yet, with its row in encoded units."""

    row: Array
    suggestion: Suggestion
