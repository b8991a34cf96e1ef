"""What was learned, as plain data: the one thing that the terminal, a JSON file and the report are written from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from mercer.explain import wording, words
from mercer.explain.changes import ChangeExplanation, change_in
from mercer.explain.checks import ResidualCheck, check_residuals
from mercer.explain.claims import Claim, ClaimEvidence, Composition, Size, Spread, certainty_of, plain
from mercer.explain.components import (
    ComponentExplanation,
    Contributions,
    Forecast,
    Horizon,
    InputEffect,
    explain_components,
    find_effects,
    find_horizon,
    find_interactions,
    forecast,
    judge_joint,
    rank_contributions,
)
from mercer.explain.functionals import FunctionalExplanation, explain_functionals
from mercer.explain.networks import NetworkExplanation, explain_networks
from mercer.explain.phrases import contains, drifts
from mercer.explain.search import (
    CLEAR,
    NotFound,
    RegimesTried,
    Searched,
    Story,
    find_absences,
    gain_over_noise,
    left_out_gain_over_noise,
    tell_story,
)
from mercer.explain.subject import Subject, structure_text, subject_of
from mercer.explain.wording import Vocabulary
from mercer.explain.words import Narrator
from mercer.fitting.problem import AtBound
from mercer.kernels.blend import Blend, Surface
from mercer.kernels.expression import Base, Expression
from mercer.kernels.functional import Functional
from mercer.kernels.network import Network
from mercer.kernels.parameters import layout
from mercer.learners.criteria import CRITERIA
from mercer.model.fitted import Fitted

ROWS_FOR_A_NUMBER = 2  # fewer rows for each number that was fitted, and any model fits them
Finder = Callable[[Subject], Sequence[Claim]]  # of claims that are added to an explanation


@dataclass(frozen=True)
class InputSummary:
    """An encoded input column; `low` and `high` are the ends of the data, written as a reader would."""

    name: str
    unit: str | None
    low: str | None
    high: str | None


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
    sentence: str = ""


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
class Averaging:
    """Predictions come from several kernels: their weights within the data and beyond it, the explained one first."""

    weights: tuple[float, ...]
    weights_beyond: tuple[float, ...]
    sentence: str = ""


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
class Bound:
    """A parameter whose optimum lies at a bound: of a kernel on columns, of one of these by itself, or the noise."""

    parameter: str
    side: str
    symbol: str | None = None
    columns: tuple[int, ...] = ()
    place: int | None = None  # among the columns


@dataclass(frozen=True)
class Ending:
    """How a fit ended."""

    message: str
    bounds: tuple[Bound, ...] = ()


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
    remarks: tuple[str, ...] = ()  # the sentences of claims that were added
    claims: tuple[Claim, ...] = field(default=(), repr=False)  # all that is said, as data

    def __str__(self) -> str:
        return self.to_text()

    @property
    def headline(self) -> str:
        """What was modelled."""
        return words.headline(self.target, self.table_columns, self.rows)

    @property
    def main_components(self) -> tuple[ComponentExplanation, ...]:
        """The components that are described at length."""
        return tuple(component for component in self.components if not component.minor)

    @property
    def minor_sentence(self) -> str:
        """One line about the others; empty where there are none."""
        return words.minor_sentence([component.title for component in self.components if component.minor])

    def to_json(self) -> dict[str, Any]:
        """Return JSON types only; a number that is not finite becomes null."""
        return {"format": "mercer-explanation", "version": 1, **plain(self)}

    def to_text(self, width: int = 88) -> str:
        """Return the explanation for a terminal of that width."""
        lines = [*wording.wrap(self.headline, "", width), "", *wording.wrap(self.structure.sentence, "", width), ""]
        for component in self.main_components:
            text = " ".join(filter(None, [component.sentence, component.removed_sentence]))
            lines += wording.wrap(text, f"{wording.percent(component.share):>7}  ", width)
        noise = words.say(Claim("noise", self.target, self.noise_std), Vocabulary(self.target, ()))
        lines += wording.wrap(noise, f"{wording.percent(self.noise_share):>7}  ", width)
        lines += wording.wrap(self.minor_sentence, "         ", width)
        lines += [*wording.wrap(words.shares_sentence(), "         ", width), ""]
        for label, text in self._paragraphs():
            lines += wording.wrap(text, f"{label:<10}", width)
        return "\n".join(lines)

    def _paragraphs(self) -> list[tuple[str, str]]:
        about_inputs = [*(effect.sentence for effect in self.effects), *self.interactions]
        found = [("" if place else "inputs", sentence) for place, sentence in enumerate(about_inputs)]
        for network in self.networks:
            found.append(
                ("network", " ".join([network.sentence, network.polynomial_sentence, network.largest]).strip())
            )
        if self.change is not None:
            found += [("" if place else "change", text) for place, text in enumerate(self.change.sentences)]
        found += [("shape", functional.sentence) for functional in self.functionals]
        if self.extrapolation is not None:
            last = [forecast.sentence for forecast in self.extrapolation.forecasts[-1:]]
            found.append(("beyond", " ".join([*last, self.extrapolation.sentence])))
        found.append(("left over", self.residual_sentence))
        if self.not_found_sentences:
            found.append(("not found", " ".join(self.not_found_sentences)))
        found += [("found", sentence) for sentence in self.remarks]
        if self.averaging is not None:
            found.append(("averaging", self.averaging.sentence))
        if self.search is not None and self.search.intervals is not None:
            found.append(("intervals", f"{self.search.intervals.meaning} {self.search.intervals.sentence}"))
        found += [
            ("structure", self.expression),
            ("kernel", words.kernel_phrase(self.kernel)),
            ("scores", words.scores_phrase(self.scores)),
            ("fit", f"{self.outcome.found_by} {self.outcome.sentence}"),
        ]
        return found + [("note", note) for note in self.notes]


# ---------------------------------------------------------------------------------------- from a fit to its explanation


def explain(fitted: Fitted, finders: Sequence[Finder] = ()) -> Explanation:
    """Explain a fit at the rows it was learned from; `finders` add claims of their own."""
    subject = subject_of(fitted)
    kernel, narrator = subject.fitted, Narrator(subject.vocabulary)
    change = change_in(fitted) if contains(kernel, Blend) else None
    noise_std = math.sqrt(subject.noise) * subject.units.y_scale
    scores, is_network = fitted.scores, contains(kernel, Network)
    # So many numbers were fitted that they must fit; those of a network say much the same.
    guess = not is_network and subject.data.count < ROWS_FOR_A_NUMBER * scores.parameters
    if is_network:  # BIC counts all its weights, of which few matter: rows left out judge it
        gain = left_out_gain_over_noise(subject, scores.leave_one_out)
    else:
        gain = gain_over_noise(subject, scores.bic, fitted.origin.noise_is_fitted)
    found = gain >= CLEAR and not guess
    ranking = rank_contributions(subject) if found else None  # else "it removes 90 % of the error" would mislead
    joints = [judge_joint(subject, part) for part in subject.parts]
    components = explain_components(subject, joints, ranking, narrator)
    composition = Composition(sum(not each.minor for each in components), noise_std**2 / subject.variance)
    narrator.say(Claim("noise", subject.target, noise_std))
    checks = check_residuals(subject, narrator)
    story = tell_story(subject, fitted.candidates, score_name(fitted), narrator)
    absent = [] if guess else find_absences(subject, fitted.candidates)
    narrator.claims += absent
    extrapolation, along = None, subject.only_column
    if along is not None and not guess:
        horizon, forecasts = find_horizon(subject, along), forecast(subject, along)
        extrapolation = _extrapolate(subject, along, components, horizon, forecasts, narrator)
    if change is not None:
        narrator.claims += change.claims
    return Explanation(
        target=subject.target,
        rows=subject.data.count,
        table_columns=tuple(dict.fromkeys(column.table_name for column in subject.columns)),
        inputs=tuple(InputSummary(each.name, each.unit, *each.ends) for each in subject.columns),
        structure=Structure(
            found, gain, narrator.say(_claim_structure(subject, guess, gain, scores.parameters, composition))
        ),
        expression=structure_text(kernel, subject.names, len(subject.columns)),
        kernel=subject.whole.text,
        kernel_exact=subject.whole.exact,
        components=components,
        networks=explain_networks(subject, narrator) if is_network else (),
        level=subject.fitted_level,
        noise_std=noise_std,
        noise_share=composition.noise_share,
        held_out=None if ranking is None else narrator.complete(_claim_error(subject, ranking)),
        effects=tuple(narrator.complete(claim) for claim in find_effects(subject, finished=not fitted.stopped)),
        interactions=_interactions(subject, find_interactions(subject, joints), narrator),
        extrapolation=extrapolation,
        checks=checks,
        residual_sentence=words.residual_sentence(checks),
        not_found=tuple(claim.value for claim in absent),
        not_found_sentences=tuple(words.absence_sentences(absent, len(subject.table_columns))),
        averaging=_average(subject, fitted, narrator),
        search=story,
        scores=Scores(
            scores.log_evidence, scores.bic, scores.leave_one_out, scores.parameters, fitted.choice.engine.is_bound
        ),
        outcome=_end(subject, fitted, story, narrator),
        notes=fitted.notes,
        change=None if change is None else change.explanation,
        functionals=explain_functionals(kernel, subject.columns, subject.names, narrator)
        if contains(kernel, Functional)
        else (),
        remarks=tuple(narrator.say(claim) for find in finders for claim in find(subject)),
        claims=tuple(narrator.claims),
    )


def _claim_structure(subject: Subject, guess: bool, gain: float, parameters: int, found: Composition) -> Claim:
    evidence, target = ClaimEvidence(rows=subject.data.count), subject.target
    if guess:
        return Claim("too few rows", target, Size(subject.data.count, parameters), evidence=evidence)
    if gain >= CLEAR:
        return Claim("components", target, found, certainty=certainty_of(gain), evidence=evidence)
    spread = Spread(subject.level, math.sqrt(subject.variance))
    return Claim("noise alone", target, spread, certainty=certainty_of(-gain), evidence=evidence)


def _claim_error(subject: Subject, ranking: Contributions) -> Claim:
    found = HeldOut(ranking.folds, ranking.errors[0], ranking.errors[-1])
    return Claim("held-out error", subject.target, found, evidence=ClaimEvidence(rows=subject.data.count))


def _interactions(subject: Subject, joined: Sequence[tuple[str, ...]], narrator: Narrator) -> tuple[str, ...]:
    """Say which inputs act together; nothing where there is only one."""
    if len(subject.table_columns) < 2:
        return ()
    claims = [Claim("interaction", subject.target, names) for names in joined]
    return tuple(narrator.say(claim) for claim in claims or [Claim("no interaction", subject.target)])


def _extrapolate(
    subject: Subject,
    along: int,
    components: Sequence[ComponentExplanation],
    horizon: Horizon,
    forecasts: Sequence[Forecast],
    narrator: Narrator,
) -> Extrapolation:
    column = subject.columns[along]
    claims = [Claim("forecast", column.name, each, column.unit, certainty=0.95) for each in forecasts]
    shown = tuple(narrator.complete(claim) for claim in claims)
    sentences = [narrator.say(Claim("horizon", column.name, horizon, column.unit))]
    largest = subject.parts[max(components, key=lambda component: component.share).position].kernel
    if not (contains(largest, Network) or contains(largest, Functional)) and drifts(largest, subject.columns):
        sentences.append(narrator.say(Claim("random walk", column.name)))
    return Extrapolation(column.name, column.unit, horizon.distance, " ".join(sentences), shown)


def _average(subject: Subject, fitted: Fitted, narrator: Narrator) -> Averaging | None:
    members = fitted.mixture.members
    if len(members) < 2:
        return None
    within = tuple(member.within for member in members)
    beyond = within if fitted.mixture.column is None else tuple(member.beyond for member in members)
    averaging: Averaging = narrator.complete(Claim("averaging", subject.target, Averaging(within, beyond)))
    return averaging


def _end(subject: Subject, fitted: Fitted, story: Story | None, narrator: Narrator) -> Outcome:
    kernel, origin, score = subject.fitted, fitted.origin, score_name(fitted)
    bases = tuple(origin.learner_settings.get("bases", ()))
    if origin.distilled_from is not None:
        found_by = Claim("distilled network", origin.distilled_from, story)
    elif origin.given is not None:
        found_by = Claim("given structure", origin.given, origin.options["restarts"])
    elif any(candidate.step.kind == "regimes" for candidate in fitted.candidates):
        most = max(candidate.depth for candidate in fitted.candidates) + 1
        found_by = Claim("learned regimes", subject.target, RegimesTried(len(fitted.candidates), most))
    elif contains(kernel, Functional) and not bases:
        found_by = Claim("kernel functional", score, story)
    elif contains(kernel, Network):
        found_by = Claim("trained network", score, story)
    else:
        found_by = Claim("searched structure", score, Searched(story, bases))
    ending = Ending(fitted.message, name_bounds(kernel, fitted.at_bounds) if fitted.at_bounds else ())
    sentence = narrator.say(Claim("fit", fitted.status, ending))
    return Outcome(narrator.say(found_by), fitted.status, fitted.message, fitted.scores.jitter, sentence)


@lru_cache
def name_bounds(kernel: Expression, reached: tuple[AtBound, ...]) -> tuple[Bound, ...]:
    """Tell which parameters of a kernel bounds belong to."""
    owners, named = list(kernel.owners()), {path: Bound(path, side) for path, side in reached}
    for slot in layout(kernel).slots:
        owner = owners[slot.leaf]
        for place in range(slot.size):
            path = slot.path if slot.size == 1 else f"{slot.path}[{place}]"
            own = place if slot.size > 1 and slot.spec.name != "weights" and place < len(owner.columns) else None
            if path in named and isinstance(owner, Base | Surface):
                named[path] = Bound(slot.spec.name, named[path].side, owner.symbol, owner.columns, own)
    return tuple(named.values())


def score_name(fitted: Fitted) -> str:
    """Return the name of what a learner chose by."""
    settings = fitted.origin.learner_settings
    name = settings.get("score", settings.get("selection", "bic"))
    if name == "evidence":
        return "-2 log evidence"
    return CRITERIA[name].label if name in CRITERIA else "score"
