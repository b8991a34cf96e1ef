"""What was learned, as plain data: the one thing that the terminal, a JSON file and the report are written from."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from mercer.explain import phrases, wording, words
from mercer.explain.changes import Change, ChangeExplanation
from mercer.explain.checks import Check, residual_checks
from mercer.explain.components import (
    Contributions,
    contributions,
    effects,
    interactions,
    joint,
    outlooks,
    part_horizon,
    whole_horizon,
)
from mercer.explain.factors import Joint, drifts
from mercer.explain.functionals import FunctionalExplanation, explain_functionals
from mercer.explain.networks import NetworkExplanation, explain_networks
from mercer.explain.search import CLEAR, Story, absences, gain_over_noise, left_out_gain_over_noise, story
from mercer.explain.subject import Subject, structure_text
from mercer.explain.wording import Column
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression
from mercer.kernels.functional import has_functional
from mercer.kernels.network import has_network
from mercer.learners.contract import Candidate

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
        return words.headline(self.target, self.table_columns, self.rows)

    @property
    def main_components(self) -> tuple[ComponentExplanation, ...]:
        """The components that are told at length."""
        return tuple(component for component in self.components if not component.minor)

    @property
    def minor_sentence(self) -> str:
        """One line about the others; empty where there are none."""
        titles = [component.title for component in self.components if component.minor]
        return words.minor_sentence(titles) if titles else ""

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
        noise = words.noise_sentence(self.noise_std)
        lines += _wrapped(noise, f"{wording.percent(self.noise_share):>7}  ", width)
        lines += _wrapped(self.minor_sentence, "         ", width)
        lines += [*_wrapped(words.shares_sentence(), "         ", width), ""]
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
            ("kernel", words.kernel_phrase(self.kernel)),
            (
                "scores",
                words.scores_phrase(
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


# --------------------------------------------------------------------------------------------------- finding it all out


SHOWN_DIGITS = 4
NEGLIGIBLE = 0.0005  # a share of the variance (error) below which a slope (a component) is not worth telling
MINOR = 0.001  # a share of the variance below which a component that removes no error is too small to matter
ROWS_FOR_A_NUMBER = 2  # fewer rows for each number that was fitted, and any model fits them
EVEN = 0.01  # of a step: how far rows may be off and still count as evenly spaced


@dataclass(frozen=True)
class Provenance:
    """How the model came about: `given` is the user's structure, or `bases` what a search built from.

    `distilled_from` says what network the kernel was distilled from.
    """

    scores: Scores
    status: str
    message: str
    jitter: float
    noise_is_fitted: bool = True
    given: str | None = None
    distilled_from: str | None = None
    starts: int = 1
    bases: tuple[str, ...] = ()
    score: str = "BIC"
    candidates: tuple[Candidate, ...] = ()
    weights: tuple[float, ...] = (1.0,)
    weights_beyond: tuple[float, ...] | None = None
    notes: tuple[str, ...] = ()
    cut_short: bool = False  # the fit or the search, by its time budget or by Ctrl-C


def explain(subject: Subject, origin: Provenance, change: Change | None = None) -> Explanation:
    """Explain a fitted model; `change` is its change surface, where it has one."""
    kernel = subject.fitted
    observed = subject.observed
    variance = float(np.var(observed)) or math.nan
    noise_variance = subject.noise * subject.units.y_scale**2
    gain = _gain(subject, origin)
    found = gain >= CLEAR and not _is_guess(subject, origin)
    ranking = contributions(subject) if found else None  # else "it removes 90 % of the error" would mislead
    joints = [joint(subject, part) for part in subject.parts]
    components = _components(subject, variance, ranking, joints)
    structure = Structure(found, gain, _structure_sentence(subject, origin, found, components))
    inputs = len(subject.table_columns)
    checks, sentences = _checks(subject)
    told = story(subject, origin.candidates, kernel, origin.score)
    missing = [] if _is_guess(subject, origin) else absences(subject, origin.candidates, kernel)
    return Explanation(
        target=subject.target,
        rows=subject.data.count,
        table_columns=tuple(dict.fromkeys(column.table_name for column in subject.columns)),
        inputs=tuple(_input(column) for column in subject.columns),
        structure=structure,
        expression=structure_text(kernel, subject.names, len(subject.columns)),
        kernel=kernel.text(SHOWN_DIGITS, subject.names),
        kernel_exact=kernel.text(None, subject.names),
        components=components,
        networks=explain_networks(subject),
        level=subject.fitted_level,
        noise_std=math.sqrt(noise_variance),
        noise_share=noise_variance / variance,
        held_out=_held_out(ranking),
        effects=tuple(
            InputEffect(**asdict(effect), sentence=words.effect_sentence(effect, subject.target, origin.cut_short))
            for effect in effects(subject)
        ),
        interactions=tuple(words.interaction_sentences(interactions(subject, joints), inputs)),
        extrapolation=None if _is_guess(subject, origin) else _extrapolation(subject, components),
        checks=tuple(
            ResidualCheck(check.name, check.statistic, check.p_value, check.clear, sentence)
            for check, sentence in zip(checks, sentences, strict=True)
        ),
        residual_sentence=words.residual_sentence(checks, sentences),
        not_found=tuple(NotFound(absence.what, absence.column, absence.behind) for absence in missing),
        not_found_sentences=tuple(words.absence_sentences(missing, inputs)),
        averaging=_averaging(origin),
        search=told,
        scores=origin.scores,
        outcome=_outcome(subject, origin, kernel, told),
        notes=origin.notes,
        change=None if change is None else change.told,
        functionals=explain_functionals(kernel, subject.columns, subject.names),
    )  # fmt: skip


def _is_guess(subject: Subject, origin: Provenance) -> bool:
    """Tell whether so many numbers were fitted that they must fit; those of a network say much the same."""
    return not has_network(subject.kernel) and subject.data.count < ROWS_FOR_A_NUMBER * origin.scores.parameters


def _gain(subject: Subject, origin: Provenance) -> float:
    if has_network(subject.kernel):  # BIC counts all its weights, of which few matter: rows left out judge it
        return left_out_gain_over_noise(subject, origin.scores.leave_one_out)
    return gain_over_noise(subject, origin.scores.bic, origin.noise_is_fitted)


def _structure_sentence(
    subject: Subject, origin: Provenance, found: bool, components: Sequence[ComponentExplanation]
) -> str:
    if _is_guess(subject, origin):
        return words.too_few_rows_sentence(subject.data.count, origin.scores.parameters)
    spread = float(np.std(subject.observed))
    if not found:
        return words.no_structure_sentence(subject.target, subject.level, spread or math.nan)
    share = subject.noise * subject.units.y_scale**2 / (spread**2 or math.nan)
    return words.structure_sentence(subject.target, sum(not each.minor for each in components), share)


# ---------------------------------------------------------------------------------------------------------- components


def _components(
    subject: Subject, variance: float, ranking: Contributions | None, joints: Sequence[Joint]
) -> tuple[ComponentExplanation, ...]:
    removed: dict[int, float] = {}
    if ranking is not None and ranking.errors[0] > 0:
        steps = -np.diff(ranking.errors) / ranking.errors[0]
        removed = dict(zip(ranking.order, map(float, steps), strict=True))
    told = [_component(subject, place, variance, removed.get(place), joints[place]) for place in range(len(joints))]
    order = sorted(range(len(told)), key=lambda place: -told[place].share) if ranking is None else ranking.order
    told = _with_distinct_titles(subject, told)
    main = [told[place] for place in order if not told[place].minor]
    if not main:
        return tuple(replace(told[place], minor=False) for place in order)
    return (*main, *(told[place] for place in order if told[place].minor))


def _component(
    subject: Subject, place: int, variance: float, removed: float | None, joint: Joint
) -> ComponentExplanation:
    part = subject.parts[place]
    found = subject.part_at(part, subject.data.X)
    std = np.sqrt(found.variance)
    share = float(np.var(found.mean)) / variance
    slope = _slope(subject, part.kernel, found.mean) if share >= NEGLIGIBLE else None
    horizon, continuation = None, ""
    if len(part.columns) == 1 and subject.columns[part.columns[0]].level is None:
        horizon = part_horizon(subject, part)
        continuation = phrases.continuation(part.kernel, subject.columns, horizon)
    return ComponentExplanation(
        position=place,
        title=phrases.title(part.kernel, subject.columns, len(subject.table_columns) < 2, joint),
        kernel=part.kernel.text(SHOWN_DIGITS, subject.names),
        kernel_exact=part.kernel.text(None, subject.names),
        sentence=phrases.sentence(part.kernel, subject.columns, slope, joint),
        share=share,
        removed=removed,
        removed_sentence=words.removed_sentence(removed),
        horizon=horizon,
        continuation=continuation,
        std_low=float(np.min(std)),
        std_high=float(np.max(std)),
        minor=share < MINOR and removed is not None and removed < NEGLIGIBLE,
        mean=_rounded(found.mean),
        std=_rounded(std),
    )


def _with_distinct_titles(subject: Subject, told: list[ComponentExplanation]) -> list[ComponentExplanation]:
    named = [component.title for component in told]
    kernels, shares = [part.kernel for part in subject.parts], [component.share for component in told]
    apart = phrases.distinct(named, kernels, subject.columns, shares)
    return [replace(component, title=title) for component, title in zip(told, apart, strict=True)]


def _rounded(values: Array) -> tuple[float, ...]:
    return tuple(float(f"{value:.{BAND_DIGITS}g}") for value in values)


def _slope(subject: Subject, kernel: Expression, mean: Array) -> float | None:
    """Return the slope of the posterior mean of a line in one column (it is a line exactly), else None."""
    if not isinstance(kernel, Base) or kernel.symbol != "LIN" or len(kernel.columns) != 1:
        return None
    column = subject.in_user_units(kernel.columns[0])
    low, high = int(np.argmin(column)), int(np.argmax(column))
    run = float(column[high] - column[low])
    return float(mean[high] - mean[low]) / run if run > 0 else None


def _held_out(ranking: Contributions | None) -> HeldOut | None:
    if ranking is None:
        return None
    before, after = ranking.errors[0], ranking.errors[-1]
    return HeldOut(ranking.folds, before, after, words.held_out_sentence(ranking.folds, before, after))


def _input(column: Column) -> InputSummary:
    low, high = (None if end is None else column.at(end) for end in (column.low, column.high))
    return InputSummary(column.name, column.unit, low, high)


# ------------------------------------------------------------------------------------------------ beyond and left over


def _extrapolation(subject: Subject, components: Sequence[ComponentExplanation]) -> Extrapolation | None:
    along = subject.only_column
    if along is None:
        return None
    column = subject.columns[along]
    horizon = whole_horizon(subject, along)
    forecasts = tuple(
        Forecast(
            column.at(outlook.at), outlook.distance, outlook.mean, outlook.low, outlook.high,
            words.outlook_sentence(outlook, column, subject.target),
        )
        for outlook in outlooks(subject, along)
    )  # fmt: skip
    told = words.trust_sentence(column, horizon)
    largest = subject.parts[max(components, key=lambda component: component.share).position]
    learned = has_network(largest.kernel) or has_functional(largest.kernel)
    if not learned and drifts(largest.kernel, subject.columns):
        told = f"{told} {words.walk_sentence()}"
    return Extrapolation(column.name, column.unit, horizon.distance, told, forecasts)


def _checks(subject: Subject) -> tuple[tuple[Check, ...], list[str]]:
    order, errors = subject.one_step_errors()
    along = subject.order_column
    at = None if along is None else subject.in_user_units(along)[order]
    fitted = subject.posterior.predict(subject.data.X).mean[order]
    checks = residual_checks(errors, at, fitted)
    column = None if along is None else subject.columns[along]
    step = None if at is None else _even_step(at)
    sentences = []
    for check in checks:
        worst = None
        if check.name == "shape" and column is not None and at is not None:
            worst = f"{column.name} {column.at(float(at[int(check.place or 0)]))}"
        sentences.append(words.check_sentence(check, len(errors), column, step, worst))
    return checks, sentences


def _even_step(at: Array) -> float | None:
    steps = np.diff(at)
    step = float(np.median(steps)) if len(steps) else 0.0
    return step if step > 0 and np.all(np.abs(steps - step) <= EVEN * step) else None


# --------------------------------------------------------------------------------------------------- how it came about


def _averaging(origin: Provenance) -> Averaging | None:
    if len(origin.weights) < 2:
        return None
    beyond = origin.weights_beyond
    sentence = words.averaging_sentence(len(origin.weights), origin.weights[0], None if beyond is None else beyond[0])
    return Averaging(origin.weights, origin.weights if beyond is None else beyond, sentence)


def _outcome(subject: Subject, origin: Provenance, kernel: Expression, told: Story | None) -> Outcome:
    if origin.distilled_from is not None:
        found_by = words.distilled_sentence(told, origin.distilled_from)
    elif origin.given is not None:
        found_by = words.found_sentence(origin.given, origin.starts)
    elif any(candidate.step.kind == "regimes" for candidate in origin.candidates):
        found_by = words.learned_sentence(origin.candidates)
    elif has_functional(kernel) and not origin.bases:
        found_by = words.functional_sentence(told)
    elif has_network(kernel):
        found_by = words.network_trained_sentence(told, origin.score)
    else:
        found_by = words.searched_sentence(told, origin.bases)
    names = [column.name for column in subject.columns]
    sentence = words.status_sentence(origin.status, origin.message, kernel, names)
    return Outcome(found_by, origin.status, origin.message, origin.jitter, sentence)
