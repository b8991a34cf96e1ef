"""What the `kernel` of an estimator may be: a text, an expression, a learner or its name."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from mercer.errors import KernelError
from mercer.kernels.expression import Expression
from mercer.kernels.text import parse
from mercer.kernels.units import Units, to_data_units
from mercer.learners.contract import Candidate, Learner
from mercer.learners.grammar.grammar_search import GrammarSearch

LEARNERS = {"search": GrammarSearch}


def expression_or_learner(kernel: Any) -> Expression | Learner:
    """Return what the user means by `kernel`."""
    if isinstance(kernel, str):
        return LEARNERS[kernel]() if kernel in LEARNERS else parse(kernel)
    if isinstance(kernel, Expression):
        return kernel
    if isinstance(kernel, type) or not hasattr(kernel, "learn"):
        raise KernelError(
            f"kernel must be a text such as 'SE*PER + LIN', an expression, or a learner "
            f"({', '.join(map(repr, LEARNERS))} or an object of one), not {kernel!r}"
        )
    learner: Learner = kernel
    return learner


def to_plain(kernel: Any) -> Any:
    """Return the `kernel` of an estimator as JSON data: a text, or the name and settings of a learner."""
    for name, learner in LEARNERS.items():
        if isinstance(kernel, learner):
            return {"learner": name, "settings": kernel.describe()}
    return str(kernel)


def from_plain(data: Any) -> str | Learner:
    """Read `to_plain` back, checking it."""
    if isinstance(data, str):
        expression_or_learner(data)
        return data
    return LEARNERS[data["learner"]](**data["settings"])


def in_data_units(candidate: Candidate, units: Units, rows: int) -> Candidate:
    """Return a candidate with its kernel and scores as for the target in its own units."""
    shift = rows * math.log(units.y_scale)
    return replace(
        candidate,
        expression=to_data_units(candidate.expression, units),
        log_evidence=candidate.log_evidence - shift,
        score=candidate.score + 2.0 * shift,
        fit=None,
    )
