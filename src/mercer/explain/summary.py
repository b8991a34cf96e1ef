"""What was learned, as plain data: the one thing that the terminal, a JSON file and a report are written from."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from mercer.explain import narrate
from mercer.explain.narrate import Column
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression

SHOWN_DIGITS = 4
NEGLIGIBLE = 0.0005  # a share of the variance below which the slope of a line is not worth telling


@dataclass(frozen=True)
class InputSummary:
    """An encoded input column; `low` and `high` are the ends of the data, written as a reader would."""

    name: str
    unit: str | None
    low: str | None
    high: str | None


@dataclass(frozen=True)
class ComponentSummary:
    """One summand of the kernel.

    `position` is its place in the canonical form; `share` the variance of its posterior mean over the training rows
    relative to that of the target; `std_low` and `std_high` the range of its posterior standard deviation there.
    """

    position: int
    kernel: str
    kernel_exact: str
    sentence: str
    share: float
    std_low: float
    std_high: float


@dataclass(frozen=True)
class Scores:
    """How good the fit is: log evidence and leave-one-out for the target in its own units, BIC smaller is better."""

    log_evidence: float
    bic: float
    leave_one_out: float
    parameters: int


@dataclass(frozen=True)
class Outcome:
    """How the model came about, how the fit ended, and what was added to the diagonal of the covariance."""

    found_by: str
    status: str
    message: str
    jitter: float


class Part(Protocol):
    """The posterior of one summand at the training rows; the constant level has no kernel."""

    @property
    def kernel(self) -> Expression | None: ...
    @property
    def mean(self) -> Array: ...
    @property
    def std(self) -> Array: ...


@dataclass(frozen=True)
class Summary:
    """A fitted model in plain data. `to_json` for machines, `to_text` for a terminal."""

    target: str
    rows: int
    table_columns: tuple[str, ...]
    inputs: tuple[InputSummary, ...]
    kernel: str
    kernel_exact: str
    components: tuple[ComponentSummary, ...]
    level: float
    noise_std: float
    noise_share: float
    scores: Scores
    outcome: Outcome
    status_sentence: str
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return JSON types only; a number that is not finite becomes null."""
        plain = _plain(asdict(self))
        assert isinstance(plain, dict)
        return {"format": "mercer-summary", "version": 1, **plain}

    def to_text(self, width: int = 88) -> str:
        """Return the explanation for a terminal of that width."""
        lines = [*_wrapped(narrate.headline(self.target, self.table_columns, self.rows), "", width), ""]
        shares = [(c.share, c.sentence) for c in self.components]
        for share, sentence in [*shares, (self.noise_share, narrate.noise_sentence(self.noise_std))]:
            lines += _wrapped(sentence, f"{narrate.percent(share):>7}  ", width)
        lines += _wrapped(narrate.shares_sentence(), "         ", width)
        lines += ["", *_wrapped(narrate.kernel_phrase(self.kernel), "kernel  ", width)]
        scores = self.scores
        lines += _wrapped(
            narrate.scores_phrase(scores.log_evidence, scores.bic, scores.leave_one_out, scores.parameters),
            "scores  ",
            width,
        )
        lines += _wrapped(f"{self.outcome.found_by} {self.status_sentence}", "fit     ", width)
        for note in self.notes:
            lines += _wrapped(note, "note    ", width)
        return "\n".join(lines)


def summarise(
    *,
    target: str,
    columns: Sequence[Column],
    kernel: Expression,
    parts: Sequence[Part],
    inputs: Array,
    observed: Array,
    noise_variance: float,
    scores: Scores,
    outcome: Outcome,
    table_columns: Sequence[str] | None = None,
    notes: Sequence[str] = (),
) -> Summary:
    """Put a fitted model into plain data.

    `columns` are the encoded columns that the kernel acts on, `table_columns` the names of those in the user's table
    (the same, unless there were categories).

    `kernel` and `parts` (in canonical order, then the level) are in the units of the data; `inputs` are the encoded
    training rows and `observed` their targets. The component that moves the fitted curve most comes first.
    """
    names = [column.name for column in columns]
    variance = float(np.var(observed)) or math.nan
    components = [
        _component(position, part.kernel, part, columns, inputs, variance)
        for position, part in enumerate(parts)
        if part.kernel is not None
    ]
    return Summary(
        target=target,
        rows=len(observed),
        table_columns=tuple(names if table_columns is None else table_columns),
        inputs=tuple(_input(column) for column in columns),
        kernel=kernel.text(SHOWN_DIGITS, names),
        kernel_exact=kernel.text(None, names),
        components=tuple(sorted(components, key=lambda component: -component.share)),
        level=math.fsum(float(part.mean[0]) for part in parts if part.kernel is None),
        noise_std=math.sqrt(noise_variance),
        noise_share=noise_variance / variance,
        scores=scores,
        outcome=outcome,
        status_sentence=narrate.status_sentence(outcome.status, outcome.message, kernel, names),
        notes=tuple(notes),
    )


def _component(
    position: int, kernel: Expression, part: Part, columns: Sequence[Column], inputs: Array, variance: float
) -> ComponentSummary:
    names = [column.name for column in columns]
    share = float(np.var(part.mean)) / variance
    slope = _slope(kernel, part.mean, inputs) if share >= NEGLIGIBLE else None
    return ComponentSummary(
        position=position,
        kernel=kernel.text(SHOWN_DIGITS, names),
        kernel_exact=kernel.text(None, names),
        sentence=narrate.sentence(kernel, columns, slope),
        share=share,
        std_low=float(np.min(part.std)),
        std_high=float(np.max(part.std)),
    )


def _slope(kernel: Expression, mean: Array, inputs: Array) -> float | None:
    """Return the slope of the posterior mean of a line in one column (it is a line exactly), else None."""
    if not isinstance(kernel, Base) or kernel.symbol != "LIN" or len(kernel.columns) != 1:
        return None
    column = inputs[:, kernel.columns[0]]
    low, high = int(np.argmin(column)), int(np.argmax(column))
    run = float(column[high] - column[low])
    return float(mean[high] - mean[low]) / run if run > 0 else None


def _input(column: Column) -> InputSummary:
    low, high = (None if end is None else column.at(end) for end in (column.low, column.high))
    return InputSummary(column.name, column.unit, low, high)


def _wrapped(text: str, label: str, width: int) -> list[str]:
    """Wrap text behind a label; following lines are indented to it."""
    return textwrap.wrap(
        text, max(width, 30), initial_indent=label, subsequent_indent=" " * len(label), break_on_hyphens=False
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
