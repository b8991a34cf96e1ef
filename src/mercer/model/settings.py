"""What the `kernel` of an estimator may be: a text, an expression, a learner or its name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mercer.compute.program import compile_program
from mercer.errors import InputError, KernelError
from mercer.inference.bounds import Interval
from mercer.inference.choose import Choice, asked_engine, choose, choose_grid
from mercer.inference.contract import Data
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import bind
from mercer.kernels.text import parse
from mercer.learners.contract import Candidate, Learner, Verdict, read_step
from mercer.learners.grammar import GrammarSearch
from mercer.learners.kfo import KernelFunctional
from mercer.learners.nkn import NeuralKernelNetwork
from mercer.learners.surface import ChangeSurface

LEARNERS: dict[str, type[Any]] = {
    "search": GrammarSearch,
    "nkn": NeuralKernelNetwork,
    "surface": ChangeSurface,
    "kfo": KernelFunctional,
}


def expression_or_learner(kernel: Any) -> Expression | Learner:
    """Return what the user means by `kernel`."""
    if isinstance(kernel, str):
        return LEARNERS[kernel]() if kernel in LEARNERS else parse(kernel)
    if isinstance(kernel, Expression):
        return kernel
    if not isinstance(kernel, Learner):
        raise KernelError(
            f"kernel must be a text such as 'SE*PER + LIN', an expression, or a learner "
            f"({', '.join(map(repr, LEARNERS))} or an object of one), not {kernel!r}"
        )
    return kernel


def choose_engine(
    kernel: Expression | Learner, inference: Any, device: str, data: Data, structure: Expression | None
) -> Choice:
    """Choose the engine; a `structure` that is known beforehand may be one for grids."""
    asked = asked_engine(inference)
    if asked is None and structure is not None and device == "cpu":
        found = choose_grid(compile_program(structure), data)
        if found is not None:
            return found
    most = kernel.most_rows if isinstance(kernel, Learner) else None
    return choose(len(data.y), asked, device=device, learner_rows=most)


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


# What is kept of a candidate besides its kernel and its scores.
KEPT = ("depth", "parent", "parameters", "status", "message", "seconds")


def candidates_to_plain(candidates: Sequence[Candidate], names: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return every kernel that was tried as JSON data: with names for people, without for a file.

    A score that is not finite becomes null.
    """
    return [
        {
            "kernel": candidate.expression.text(names=names),
            "score": _finite_or_none(candidate.score),
            "log_evidence": _finite_or_none(candidate.log_evidence),
            **{name: getattr(candidate, name) for name in KEPT},
            "step": candidate.step.to_plain() if names is None else candidate.step.text(names),
            **_interval_to_plain(candidate),
        }
        for candidate in candidates
    ]


def candidates_from_plain(rows: Sequence[Any], columns: int) -> tuple[Candidate, ...]:
    """Read candidates back (kernels with column numbers), checking what later code relies on."""
    candidates = []
    for number, row in enumerate(rows):
        parent = row["parent"]
        if parent is not None and not 0 <= int(parent) < number:
            raise InputError(f"candidate {number} comes before its parent")
        candidates.append(
            Candidate(
                expression=bind(parse(row["kernel"]), columns),
                depth=int(row["depth"]),
                step=read_step(row["step"]),
                parent=None if parent is None else int(parent),
                log_evidence=-math.inf if row["log_evidence"] is None else float(row["log_evidence"]),
                parameters=int(row["parameters"]),
                score=math.inf if row["score"] is None else float(row["score"]),
                status=str(row["status"]),
                message=str(row["message"]),
                seconds=float(row["seconds"]),
                fit=None,
                **_interval_from_plain(row),
            )
        )
    return tuple(candidates)


def _interval_to_plain(candidate: Candidate) -> dict[str, Any]:
    """Return between what log evidence and score lie, and behind which interval the candidate was left; or nothing."""
    bounds, verdict = candidate.interval, candidate.verdict
    if bounds is None:
        return {}
    reason = None if verdict is None else {"kind": verdict.kind, "by": verdict.by, "bar": _finite_or_none(verdict.bar)}
    return {
        "log_evidence_interval": [_finite_or_none(bounds.lower), _finite_or_none(bounds.upper)],
        "score_interval": [_finite_or_none(end) for end in candidate.scores],
        "inducing": candidate.inducing,
        "left_behind": reason,
    }


def _interval_from_plain(row: Any) -> dict[str, Any]:
    if "log_evidence_interval" not in row:
        return {}
    lower, upper = row["log_evidence_interval"]
    reason, inducing = row["left_behind"], row["inducing"]
    if reason is not None and reason["kind"] not in ("separated", "places"):
        raise InputError(f"a candidate was left behind for an unknown reason {reason['kind']!r}")
    return {
        "interval": Interval(-math.inf if lower is None else float(lower), math.inf if upper is None else float(upper)),
        "inducing": None if inducing is None else int(inducing),
        "verdict": None if reason is None else Verdict(reason["kind"], int(reason["by"]), _number(reason["bar"])),
    }


def _number(value: Any) -> float:
    return math.inf if value is None else float(value)


def _finite_or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
