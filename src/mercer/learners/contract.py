"""What every learner returns, so that everything after it is written once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from mercer.fitting.optimise import Fit
from mercer.inference.contract import Data, Engine
from mercer.kernels.expression import Expression


@dataclass(frozen=True, eq=False)
class Candidate:
    """One kernel that was tried: a row of the table of candidates."""

    expression: Expression
    depth: int
    step: str
    parent: int | None  # number of the candidate it was grown from
    log_evidence: float
    parameters: int
    score: float  # smaller is better
    status: str
    message: str
    seconds: float
    fit: Fit | None


@dataclass(frozen=True)
class Weights:
    """Weights of the members of an average: within the data, and beyond its ends along a column of time.

    The evidence judges how well a kernel fills gaps, a rolling origin how well it forecasts; each is trusted where it
    knows.
    """

    within: tuple[float, ...]
    beyond: tuple[float, ...]
    column: int | None = None  # None: there is no beyond


@dataclass(frozen=True, eq=False)
class Learned:
    """A structure with its fit (scaled units), and how it was found."""

    fit: Fit
    candidates: tuple[Candidate, ...]
    members: tuple[Fit, ...]  # to predict with: the winner first, alone or with others
    weights: Weights
    notes: tuple[str, ...] = ()


def learned_alone(fit: Fit) -> Learned:
    """Return what was learned where the structure was given."""
    return Learned(fit, (), (fit,), Weights((1.0,), (1.0,)))


@dataclass(frozen=True)
class SearchProgress:
    """What a person who waits wants to know."""

    depth: int
    lap: int
    done: int
    total: int
    best: Expression | None  # in scaled units
    score: float
    seconds: float
    seconds_left: float | None


Report = Callable[[SearchProgress], None]


class Learner(Protocol):
    """Finds a kernel for scaled data."""

    def learn(
        self, data: Data, engine: Engine, columns: list[int], seed: int, jobs: int | None, report: Report | None
    ) -> Learned:
        """Return the structure found and its fit; the same whatever the number of jobs."""

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain data."""
