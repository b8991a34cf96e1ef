"""What to search with, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mercer.learners.grammar.operators import Grammar
from mercer.learners.grammar.scores import Score


@dataclass(frozen=True)
class Plan:
    """What to search with: the settings of `GrammarSearch` that the loop needs."""

    bases: Sequence[str]
    operators: str
    grammar: Grammar
    score: Score
    max_depth: int | None
    time_budget: float | None
    restarts: int
    race: bool
    n_jobs: int
    max_iterations: int
    seed: int
    device: str = "cpu"  # where laps run; elsewhere all candidates of a lap are one batch
    buffer: int = 1  # kernels besides the best that are grown from where intervals cannot tell which is best
