"""What was learned, as plain data: the one thing that the terminal, a JSON file and the report are written from."""

from __future__ import annotations

import math
import textwrap
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from mercer.explain import remarks, wording
from mercer.explain.changes import ChangeExplanation
from mercer.explain.functionals import FunctionalExplanation
from mercer.explain.networks import NetworkExplanation
from mercer.explain.story import Story

BAND_DIGITS = 6
UNBROKEN = "\u00a0"  # the space between a number and its sign, where no line ends


@dataclass(frozen=True)
class InputSummary:
    """An encoded input column; `low` and `high` are the ends of the data, written as a reader would."""

    name: str
    unit: str | None
    low: str | None
    high: str | None


@dataclass(frozen=True)
class ComponentExplanation:
    """One summand of the kernel.

    `position` is its place in the canonical form; `share` the variance of its posterior mean over the training rows
    relative to that of the target; `removed` the share of the held-out error that goes when it is added to those
    listed before it; `mean` and `std` its posterior at the training rows; `horizon` how far beyond the data anything
    is known of it (None: without end, or not told because it looks at several columns). A `minor` one is too small to
    matter within the data; they come last.
    """

    position: int
    title: str
    kernel: str
    kernel_exact: str
    sentence: str
    share: float
    removed: float | None
    removed_sentence: str
    horizon: float | None
    continuation: str
    std_low: float
    std_high: float
    minor: bool
    mean: tuple[float, ...] = field(repr=False)
    std: tuple[float, ...] = field(repr=False)


@dataclass(frozen=True)
class Structure:
    """Whether anything but noise was found: `gain` is the BIC of noise alone less that of the model.

    Of a network, whose weights BIC would count one by one: twice the gain in log density of rows left out, less the
    price of its primitives' parameters.
    """

    found: bool
    gain: float
    sentence: str


@dataclass(frozen=True)
class HeldOut:
    """Mean absolute error on rows left out in folds: of the average alone, and of all components."""

    folds: int
    error_of_average: float
    error: float
    sentence: str


@dataclass(frozen=True)
class InputEffect:
    """What one column of the table does to the target, the others held; see `effects.Effect`."""

    column: str
    size: float
    direction: str
    lowest_at: str
    highest_at: str
    sentence: str


@dataclass(frozen=True)
class Forecast:
    """Mean and 95 % band of a new observation at a place beyond the data."""

    at: str
    distance: float
    mean: float
    low: float
    high: float
    sentence: str


@dataclass(frozen=True)
class Extrapolation:
    """Beyond the data along the only input: `horizon` is where a prediction says no more than the average would."""

    column: str
    unit: str | None
    horizon: float | None
    sentence: str
    forecasts: tuple[Forecast, ...]

    @property
    def finest(self) -> float:
        """The width of the narrowest band: how finely forecasts are written in a table."""
        return min((forecast.high - forecast.low for forecast in self.forecasts), default=0.0)


@dataclass(frozen=True)
class ResidualCheck:
    """One check of the one-step errors; `clear` means that nothing was found."""

    name: str
    statistic: float
    p_value: float
    clear: bool
    sentence: str


@dataclass(frozen=True)
class NotFound:
    """Something that the evidence speaks clearly against; `behind` is by how much it lost in BIC."""

    what: str
    column: str
    behind: float


@dataclass(frozen=True)
class Averaging:
    """Predictions come from several kernels: their weights within the data and beyond it, the explained one first."""

    weights: tuple[float, ...]
    weights_beyond: tuple[float, ...]
    sentence: str


@dataclass(frozen=True)
class Scores:
    """How good the fit is: log evidence and leave-one-out for the target in its own units, BIC smaller is better.

    `bound`: the log evidence is what a sparse engine is certain of; the exact one may be larger, and the BIC smaller.
    """

    log_evidence: float
    bic: float
    leave_one_out: float
    parameters: int
    bound: bool = False


@dataclass(frozen=True)
class Outcome:
    """How the model came about, how the fit ended, and what was added to the diagonal of the covariance."""

    found_by: str
    status: str
    message: str
    jitter: float
    sentence: str


@dataclass(frozen=True)
class Explanation:
    """A fitted model in plain data and plain words. `to_json` for machines, `to_text` (or print) for people.

    Components are ordered by how much error each removes on rows that were left out, `minor` ones last.
    """

    target: str
    rows: int
    table_columns: tuple[str, ...]
    inputs: tuple[InputSummary, ...]
    structure: Structure
    expression: str
    kernel: str
    kernel_exact: str
    components: tuple[ComponentExplanation, ...]
    networks: tuple[NetworkExplanation, ...]
    level: float
    noise_std: float
    noise_share: float
    held_out: HeldOut | None
    effects: tuple[InputEffect, ...]
    interactions: tuple[str, ...]
    extrapolation: Extrapolation | None
    checks: tuple[ResidualCheck, ...]
    residual_sentence: str
    not_found: tuple[NotFound, ...]
    not_found_sentences: tuple[str, ...]
    averaging: Averaging | None
    search: Story | None
    scores: Scores
    outcome: Outcome
    notes: tuple[str, ...]
    change: ChangeExplanation | None = None
    functionals: tuple[FunctionalExplanation, ...] = ()

    def __str__(self) -> str:
        return self.to_text()

    @property
    def headline(self) -> str:
        """What was modelled."""
        return remarks.headline(self.target, self.table_columns, self.rows)

    @property
    def main_components(self) -> tuple[ComponentExplanation, ...]:
        """The components that are told at length."""
        return tuple(component for component in self.components if not component.minor)

    @property
    def minor_sentence(self) -> str:
        """One line about the others; empty where there are none."""
        titles = [component.title for component in self.components if component.minor]
        return remarks.minor_sentence(titles) if titles else ""

    def to_json(self) -> dict[str, Any]:
        """Return JSON types only; a number that is not finite becomes null."""
        plain = _plain(asdict(self))
        assert isinstance(plain, dict)
        return {"format": "mercer-explanation", "version": 1, **plain}

    def to_text(self, width: int = 88) -> str:
        """Return the explanation for a terminal of that width."""
        lines = [*_wrapped(self.headline, "", width), "", *_wrapped(self.structure.sentence, "", width), ""]
        for component in self.main_components:
            told = " ".join(filter(None, [component.sentence, component.removed_sentence]))
            lines += _wrapped(told, f"{wording.percent(component.share):>7}  ", width)
        noise = remarks.noise_sentence(self.noise_std)
        lines += _wrapped(noise, f"{wording.percent(self.noise_share):>7}  ", width)
        lines += _wrapped(self.minor_sentence, "         ", width)
        lines += [*_wrapped(remarks.shares_sentence(), "         ", width), ""]
        for label, text in self._paragraphs():
            lines += _wrapped(text, f"{label:<10}", width)
        return "\n".join(lines)

    def _paragraphs(self) -> list[tuple[str, str]]:
        about_inputs = [*(effect.sentence for effect in self.effects), *self.interactions]
        told = [("" if place else "inputs", sentence) for place, sentence in enumerate(about_inputs)]
        for network in self.networks:
            told.append(("network", " ".join([network.sentence, network.polynomial_sentence, network.largest]).strip()))
        if self.change is not None:
            told += [("" if place else "change", text) for place, text in enumerate(self.change.sentences)]
        told += [("shape", functional.sentence) for functional in self.functionals]
        if self.extrapolation is not None:
            last = [forecast.sentence for forecast in self.extrapolation.forecasts[-1:]]
            told.append(("beyond", " ".join([*last, self.extrapolation.sentence])))
        told.append(("left over", self.residual_sentence))
        if self.not_found_sentences:
            told.append(("not found", " ".join(self.not_found_sentences)))
        if self.averaging is not None:
            told.append(("averaging", self.averaging.sentence))
        scores = self.scores
        if self.search is not None and self.search.intervals is not None:
            told.append(("intervals", f"{self.search.intervals.meaning} {self.search.intervals.sentence}"))
        told += [
            ("structure", self.expression),
            ("kernel", remarks.kernel_phrase(self.kernel)),
            (
                "scores",
                remarks.scores_phrase(
                    scores.log_evidence, scores.bic, scores.leave_one_out, scores.parameters, scores.bound
                ),
            ),
            ("fit", f"{self.outcome.found_by} {self.outcome.sentence}"),
        ]
        return told + [("note", note) for note in self.notes]


def _wrapped(text: str, label: str, width: int) -> list[str]:
    """Wrap text behind a label; following lines are indented to it."""
    whole = text.replace(" %", f"{UNBROKEN}%")
    lines = textwrap.wrap(
        whole, max(width, 30), initial_indent=label, subsequent_indent=" " * len(label), break_on_hyphens=False
    )
    return [line.replace(UNBROKEN, " ") for line in lines]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
