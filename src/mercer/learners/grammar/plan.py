"""What to search with, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mercer.compute.backend import NUMBA, Backend
from mercer.learners.criteria import Criterion
from mercer.learners.grammar.operators import Grammar


@dataclass(frozen=True)
class Plan:
    """What to search with: the settings of `GrammarSearch` that the loop needs."""

    bases: Sequence[str]
    operators: str
    grammar: Grammar
    criterion: Criterion
    max_depth: int | None
    time_budget: float | None
    restarts: int
    race: bool
    n_jobs: int
    max_iterations: int
    seed: int
    backend: Backend = NUMBA  # where laps run; all candidates of a lap are one batch, if it makes batches
    buffer: int = 1  # kernels besides the best that are grown from where intervals cannot tell which is best
