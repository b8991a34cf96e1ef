"""From a fitted model to its explanation: every number is computed here or below, every word comes from the words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from mercer.explain import narrate, network_words, remarks
from mercer.explain.beyond import outlooks, part_horizon, whole_horizon
from mercer.explain.change_words import learned_sentence
from mercer.explain.changes import Change
from mercer.explain.checks import Check, residual_checks
from mercer.explain.contributions import Contributions, contributions
from mercer.explain.effects import effects, interactions, joint
from mercer.explain.explanation import (
    BAND_DIGITS,
    Averaging,
    ComponentExplanation,
    Explanation,
    Extrapolation,
    Forecast,
    HeldOut,
    InputEffect,
    InputSummary,
    NotFound,
    Outcome,
    ResidualCheck,
    Scores,
    Structure,
)
from mercer.explain.functionals import explain_functionals
from mercer.explain.networks import explain_networks
from mercer.explain.story import CLEAR, Story, absences, gain_over_noise, left_out_gain_over_noise, story
from mercer.explain.subject import Subject, structure_text
from mercer.explain.wording import Column
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression
from mercer.kernels.functional import has_functional
from mercer.kernels.network import has_network
from mercer.learners.contract import Candidate

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
            InputEffect(**asdict(effect), sentence=remarks.effect_sentence(effect, subject.target, origin.cut_short))
            for effect in effects(subject)
        ),
        interactions=tuple(remarks.interaction_sentences(interactions(subject, joints), inputs)),
        extrapolation=None if _is_guess(subject, origin) else _extrapolation(subject, components),
        checks=tuple(
            ResidualCheck(check.name, check.statistic, check.p_value, check.clear, sentence)
            for check, sentence in zip(checks, sentences, strict=True)
        ),
        residual_sentence=remarks.residual_sentence(checks, sentences),
        not_found=tuple(NotFound(absence.what, absence.column, absence.behind) for absence in missing),
        not_found_sentences=tuple(remarks.absence_sentences(missing, inputs)),
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
        return remarks.too_few_rows_sentence(subject.data.count, origin.scores.parameters)
    spread = float(np.std(subject.observed))
    if not found:
        return remarks.no_structure_sentence(subject.target, subject.level, spread or math.nan)
    share = subject.noise * subject.units.y_scale**2 / (spread**2 or math.nan)
    return remarks.structure_sentence(subject.target, sum(not each.minor for each in components), share)


# ---------------------------------------------------------------------------------------------------------- components


def _components(
    subject: Subject, variance: float, ranking: Contributions | None, joints: Sequence[narrate.Joint]
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
    subject: Subject, place: int, variance: float, removed: float | None, joint: narrate.Joint
) -> ComponentExplanation:
    part = subject.parts[place]
    found = subject.part_at(part, subject.data.X)
    std = np.sqrt(found.variance)
    share = float(np.var(found.mean)) / variance
    slope = _slope(subject, part.kernel, found.mean) if share >= NEGLIGIBLE else None
    horizon, continuation = None, ""
    if len(part.columns) == 1 and subject.columns[part.columns[0]].level is None:
        horizon = part_horizon(subject, part)
        continuation = narrate.continuation(part.kernel, subject.columns, horizon)
    return ComponentExplanation(
        position=place,
        title=narrate.title(part.kernel, subject.columns, len(subject.table_columns) < 2, joint),
        kernel=part.kernel.text(SHOWN_DIGITS, subject.names),
        kernel_exact=part.kernel.text(None, subject.names),
        sentence=narrate.sentence(part.kernel, subject.columns, slope, joint),
        share=share,
        removed=removed,
        removed_sentence=remarks.removed_sentence(removed),
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
    apart = narrate.distinct(named, kernels, subject.columns, shares)
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
    return HeldOut(ranking.folds, before, after, remarks.held_out_sentence(ranking.folds, before, after))


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
            remarks.outlook_sentence(outlook, column, subject.target),
        )
        for outlook in outlooks(subject, along)
    )  # fmt: skip
    told = remarks.trust_sentence(column, horizon)
    largest = subject.parts[max(components, key=lambda component: component.share).position]
    learned = has_network(largest.kernel) or has_functional(largest.kernel)
    if not learned and narrate.drifts(largest.kernel, subject.columns):
        told = f"{told} {remarks.walk_sentence()}"
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
        sentences.append(remarks.check_sentence(check, len(errors), column, step, worst))
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
    sentence = remarks.averaging_sentence(len(origin.weights), origin.weights[0], None if beyond is None else beyond[0])
    return Averaging(origin.weights, origin.weights if beyond is None else beyond, sentence)


def _outcome(subject: Subject, origin: Provenance, kernel: Expression, told: Story | None) -> Outcome:
    if origin.distilled_from is not None:
        found_by = network_words.distilled_sentence(told, origin.distilled_from)
    elif origin.given is not None:
        found_by = remarks.found_sentence(origin.given, origin.starts)
    elif any("regime" in candidate.step for candidate in origin.candidates):
        found_by = learned_sentence(origin.candidates)
    elif has_functional(kernel) and not origin.bases:
        found_by = remarks.functional_sentence(told)
    elif has_network(kernel):
        found_by = network_words.trained_sentence(told, origin.score)
    else:
        found_by = remarks.searched_sentence(told, origin.bases)
    names = [column.name for column in subject.columns]
    sentence = remarks.status_sentence(origin.status, origin.message, kernel, names)
    return Outcome(found_by, origin.status, origin.message, origin.jitter, sentence)
