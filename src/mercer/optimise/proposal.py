"""What a proposal is made for, how it is looked for, and what it is: the words that all acquisitions share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mercer.kernels.domains import Array
from mercer.optimise.space import Space
from mercer.optimise.surrogate import FunctionModel

Method = Literal["bounds by group", "samples by group", "bound", "sample", "expected improvement", "random"]
Why = Literal[
    "groups are small", "a group is large", "constraints tie groups", "nothing is uncertain", "not separable",
    "the structure is doubted",
]  # fmt: skip


@dataclass(frozen=True)
class AcquisitionPolicy:
    """How an acquisition is optimised."""

    most_inputs: int = 3  # of a group that is searched on its own
    grid: int = 300  # points of one input
    candidates: int = 600  # for each input of a group of several
    rounds: int = 8  # random steps around the best candidates, each round half as wide
    points: int = 20  # around each of them
    beta: float = 1.0  # mean of the exponential
    near: float = 0.03  # of a row tried: nearer proposals gain digits only, and beta is widened ...
    polish: float = 0.25  # ... but for this share of trials, which are for the digits
    widening: float = 2.0
    widenings: int = 5
    sampled: int = 400  # places of a group, or rows, at which a function is drawn jointly: their cube is affordable
    betas: tuple[float, ...] = (0.0, 1.0, 2.0)  # bounds around whose least places a drawn function is looked at finely
    starts: int = 8  # of the gradient ascent
    iterations: int = 100
    screened: int = 500  # random rows from which they are taken
    around: int = 5  # best trials around which more are drawn
    tried_again: float = 1e-7  # rows nearer than this, in every column, are the same trial


@dataclass(frozen=True, eq=False)
class Proposal:
    """A row to try, how it was found, and what is expected of it (units of the surrogate)."""

    row: Array
    method: Method
    mean: float
    spread: float
    why: Why | None = None  # that method; None: it needs no reason


@dataclass(frozen=True, eq=False)
class ProposalTask:
    """What a proposal is made for."""

    surrogate: FunctionModel
    space: Space
    best: Array  # the row of the incumbent
    best_value: float  # of the surrogate there
    rng: np.random.Generator
    policy: AcquisitionPolicy

    @property
    def tried_rows(self) -> Array:
        """The rows that were tried."""
        return self.surrogate.data.X

    def distance(self, row: Array) -> float:
        """Return how far a row is from the nearest one tried, by the column that differs most."""
        return float(np.abs(self.tried_rows - row).max(axis=1).min())

    def is_new(self, row: Array) -> bool:
        """Tell whether a row has not been tried."""
        return self.distance(row) > self.policy.tried_again

    def best_rows(self, count: int) -> Array:
        """Return the best rows tried."""
        return np.asarray(self.tried_rows[np.argsort(self.surrogate.data.y)[:count]])

    def expect(self, row: Array, method: Method, why: Why | None = None) -> Proposal:
        """Return the proposal of a row, with what is expected of it."""
        found = self.surrogate.predict(row[None])
        return Proposal(row, method, float(found.mean[0]), math.sqrt(max(0.0, float(found.variance[0]))), why)
