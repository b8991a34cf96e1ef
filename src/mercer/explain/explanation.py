"""What was learned, as plain data: the one thing that the terminal, a JSON file and the report are written from."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from mercer.explain import wording, words
from mercer.explain.answers import Answer, Rate, Season, UnusualRows, find_rate, find_seasons, find_unusual
from mercer.explain.changes import ChangeExplanation, change_in
from mercer.explain.checks import (
    SEEN_OF_ANY_SHAPE,
    ResidualCheck,
    can_see,
    can_tell_noise,
    check_residuals,
    find_dependences,
)
from mercer.explain.claims import Claim, ClaimEvidence, Composition, Size, Spread, certainty_of, plain
from mercer.explain.components import (
    NEXT,
    ComponentExplanation,
    Contributions,
    Extrapolation,
    InputEffect,
    explain_components,
    extrapolate,
    find_effects,
    find_horizon,
    find_interactions,
    forecast,
    rank_contributions,
)
from mercer.explain.functionals import FunctionalExplanation, explain_functionals
from mercer.explain.gathering import Curves
from mercer.explain.jumps import LevelJump, find_jumps
from mercer.explain.networks import NetworkExplanation, explain_networks
from mercer.explain.partitions import PartitionExplanation, explain_partitions
from mercer.explain.rhythms import Rhythm, find_rhythms
from mercer.explain.search import (
    CLEAR,
    ChosenLearner,
    NotFound,
    Story,
    Suspects,
    claim_origin,
    find_absences,
    find_gain,
    has_many_numbers,
    score_name,
    tell_choice,
    tell_story,
)
from mercer.explain.subject import Subject, structure_text, subject_of
from mercer.explain.words import Narrator
from mercer.fitting.problem import AtBound
from mercer.kernels.blend import Blend, Surface, is_jump
from mercer.kernels.expression import Base, Expression, contains, find_all
from mercer.kernels.functional import Functional
from mercer.kernels.network import Network
from mercer.kernels.parameters import layout, to_data_units
from mercer.learners.partition_sampler import PartitionSampler
from mercer.model.fitted import Fitted

LONGEST_KERNEL = 600  # characters on a terminal
PATTERNS = ("autocorrelation", "period", "inputs")  # checks that find what the model has not: then not all is noise
MOVING = ("rises", "falls", "goes up and down", "changes", "differs")
ROWS_FOR_A_NUMBER = 2  # fewer rows for each number that was fitted, and any model fits them
# Rows left for each number, or a curve passes nearly through all of them: of nine rows, with three numbers, a standard
# deviation is known to a quarter of itself.
NUMBERS_OF_NOISE = 3
VERY_CLEAR = 3 * CLEAR  # in BIC: one search in many finds as much in noise as is called clear
MANY_FOR_A_NUMBER = 10  # with as many a model that passes through all of them was not made to
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

    Of a network, or of a change surface of many features that was given, whose weights BIC would count one by one:
    twice the gain in log density of rows left out, less the price of the other parameters.
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
class Averaging:
    """Predictions come from several kernels: their weights within the data and beyond it, the chosen one first.

    `alone`: that one has nearly all the weight, and is described as if it predicted alone.
    """

    weights: tuple[float, ...]
    weights_beyond: tuple[float, ...]
    kernels: tuple[str, ...] = ()
    alone: bool = False
    sentence: str = ""


@dataclass(frozen=True)
class Scores:
    """How good the fit is: log evidence and leave-one-out for the target in its own units, BIC smaller is better."""

    log_evidence: float
    bic: float
    leave_one_out: float
    parameters: int
    bound: bool = False  # of a sparse engine, which is certain of this much: the exact log evidence may be larger


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
    noise_sentence: str
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
    partition: PartitionExplanation | None = None
    remarks: tuple[str, ...] = ()  # the sentences of claims that were added
    chosen: ChosenLearner | None = None  # where the learner was left to Mercer
    rate: Rate | None = None
    seasons: tuple[Season, ...] = ()
    unusual: UnusualRows | None = None
    answers: tuple[Answer, ...] = ()  # what is asked first
    claims: tuple[Claim, ...] = field(default=(), repr=False)  # all that is said, as data

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        """Return the explanation for a notebook."""
        from mercer.explain.notebook import explanation_to_html

        return explanation_to_html(self)

    @property
    def headline(self) -> str:
        """What was modelled."""
        inputs = wording.name_columns([wording.Column(name) for name in self.table_columns])
        return f"{self.target} explained by {inputs}, from {wording.write_count(self.rows, 'row')}"

    @property
    def main_components(self) -> tuple[ComponentExplanation, ...]:
        """The components that are described at length."""
        return tuple(component for component in self.components if not component.minor)

    @property
    def minor_sentence(self) -> str:
        """One line about the components that are too small to matter; empty where there are none."""
        titles = [
            component.title[:1].lower() + component.title[1:]
            for component in self.components
            if component.minor and not component.noise
        ]
        count = wording.write_count(len(titles), "component")
        return f"And {count} too small to matter within the data: {wording.first_few(titles)}." if titles else ""

    def to_json(self) -> dict[str, Any]:
        """Return JSON types only; a number that is not finite becomes null."""
        return {"format": "mercer-explanation", "version": 1, **plain(self)}

    def to_text(self, width: int = 88) -> str:
        """Return the explanation for a terminal of that width."""
        lines = [*wording.wrap(self.headline, "", width), ""]
        asked = ""
        for answer in self.answers:
            label = "" if answer.question == asked else answer.question
            lines += wording.wrap(answer.sentence, f"{label:<10}", width)
            asked = answer.question
        lines += [""] if self.answers else []
        lines += [*wording.wrap(self.structure.sentence, "", width), ""]
        for component in self.main_components:
            text = " ".join(filter(None, [component.sentence, component.removed_sentence]))
            lines += wording.wrap(text, f"{wording.percent(component.share):>7}  ", width)
        lines += wording.wrap(self.noise_sentence, f"{wording.percent(self.noise_share):>7}  ", width)
        lines += wording.wrap(self.minor_sentence, "         ", width)
        lines += [*wording.wrap(words.SHARES, "         ", width), ""]
        for label, text in self._paragraphs():
            lines += wording.wrap(text, f"{label:<10}", width)
        return "\n".join(lines)

    def _paragraphs(self) -> list[tuple[str, str]]:
        """Return labels with what they stand before; a label is written once for several sentences."""
        about_inputs = [*(effect.sentence for effect in self.effects), *self.interactions]
        found = [("" if place else "inputs", sentence) for place, sentence in enumerate(about_inputs)]
        if self.partition is not None:
            found += [("" if place else "together", text) for place, text in enumerate(self.partition.sentences)]
        for network in self.networks:
            sentences = (network.sentence, network.polynomial_sentence, network.largest)
            found.append(("network", " ".join(sentences).strip()))
        if self.change is not None:
            found += [("" if place else "change", text) for place, text in enumerate(self.change.sentences)]
        found += [("shape", functional.sentence) for functional in self.functionals]
        if self.extrapolation is not None:
            last = [forecast.sentence for forecast in self.extrapolation.forecasts[-1:]]
            found.append(("beyond", " ".join([*last, self.extrapolation.sentence]).strip()))
        found.append(("left over", self.residual_sentence))
        if self.not_found_sentences:
            found.append(("not found", " ".join(self.not_found_sentences)))
        found += [("found", sentence) for sentence in self.remarks]
        if self.averaging is not None:
            found.append(("averaging", self.averaging.sentence))
        if self.search is not None and self.search.intervals is not None:
            found.append(("intervals", f"{self.search.intervals.meaning} {self.search.intervals.sentence}"))
        cut = " ... (cut here; --json shows all of it)"
        found += [
            ("structure", self.expression),
            ("kernel", textwrap.shorten(self.kernel, LONGEST_KERNEL, placeholder=cut)),
            ("scores", words.scores_phrase(self.scores)),
            *([] if self.chosen is None else [("chosen", self.chosen.sentence)]),
            ("fit", f"{self.outcome.found_by} {self.outcome.sentence}"),
        ]
        return found + [("note", note) for note in self.notes]


def explain(fitted: Fitted, finders: Sequence[Finder] = ()) -> Explanation:
    """Explain a fit at the rows it was learned from; `finders` add claims of their own."""
    subject = subject_of(fitted)
    kernel, narrator, curves = subject.fitted, Narrator(subject.vocabulary), Curves(subject)
    gain = find_gain(subject, fitted)
    guess = _is_guess(subject, fitted, gain)
    found = gain >= CLEAR and not guess
    ranking = rank_contributions(subject) if found and subject.alone else None  # else "it removes 90 %" would mislead
    components = explain_components(curves, ranking, narrator)
    noise_std = math.sqrt(subject.noise_variance)
    dependences, denies = find_dependences(subject), can_see(subject, seen=SEEN_OF_ANY_SHAPE)
    checks = check_residuals(subject, dependences, narrator)
    pure = all(check.clear or check.doubtful for check in checks if check.name in PATTERNS)
    enough = subject.freedom >= NUMBERS_OF_NOISE * fitted.scores.parameters and can_tell_noise(subject)
    known = enough or has_many_numbers(kernel)
    noise_kind = ("noise" if pure else "unexplained") if known else "noise not known"
    noise_sentence = narrator.say(Claim(noise_kind, subject.target, noise_std))
    answers = _answer_first(curves, found, checks, narrator)
    story = tell_story(subject, fitted.candidates, score_name(fitted), narrator)
    missed = {name for each in dependences if not each.clear for name in each.columns}
    absent = [] if guess else find_absences(subject, fitted.candidates, _suspect(answers, checks, missed))
    narrator.claims += absent
    extrapolation, along = None, subject.only_column
    if along is not None and not guess:
        beyond = find_horizon(subject, along), forecast(subject, along)
        extrapolation = extrapolate(subject, components, subject.columns[along], *beyond, narrator, found)
    change = change_in(fitted) if _has_regimes(kernel) or fitted.origin.given is not None else None
    narrator.claims += () if change is None else change.claims
    noise_share = min(1.0, noise_std**2 / subject.variance)
    likely = sum(not each.minor and each.likely for each in components)
    composition = Composition(max(1, likely), noise_share, pure, known)
    unfinished = bool(fitted.stopped) or fitted.status in ("stopped", "interrupted")
    reasons = (("cut short", unfinished), ("pattern", not all(check.clear for check in checks)),
               ("few rows", not can_see(subject, noise_share=1.0)))  # fmt: skip
    doubts, too_many = tuple(doubt for doubt, holds in reasons if holds), fitted.scores.parameters if guess else None
    claimed = _claim_structure(subject, composition, gain, too_many, doubts)
    structure = Structure(found, gain, narrator.say(claimed))
    plan = fitted.origin.plan
    networks = explain_networks(subject, narrator) if contains(kernel, Network) else ()
    held_out = _compare_held_out(subject, ranking, narrator) if found else None
    claimed_effects = find_effects(subject, missed, denies, finished=not fitted.stopped)
    effects = tuple(narrator.complete(claim) for claim in claimed_effects if found or not matters(claim.value))
    sampled = isinstance(fitted.origin.kernel, PartitionSampler)
    partition = explain_partitions(fitted, subject, found, narrator) if sampled else None
    suspicious = any(len(each.columns) > 1 and not each.clear for each in dependences)
    joined = find_interactions(subject, suspicious, denies) if partition is None and found else []
    listed = _list_answers(answers, extrapolation, (held_out, checks), effects, narrator)
    if checks and denies and all(check.clear for check in checks):
        narrator.claims.append(Claim("nothing left over", subject.target))
    return Explanation(
        target=subject.target,
        rows=subject.data.count,
        table_columns=tuple(subject.table_columns or dict.fromkeys(column.table_name for column in subject.columns)),
        inputs=tuple(InputSummary(each.name, each.unit, *each.ends) for each in subject.columns),
        structure=structure,
        expression=structure_text(kernel, subject.names, len(subject.columns)),
        kernel=subject.whole.text,
        kernel_exact=subject.whole.exact,
        components=components,
        networks=networks,
        level=curves.level,
        noise_std=noise_std,
        noise_share=composition.noise_share,
        noise_sentence=noise_sentence,
        held_out=held_out,
        effects=effects,
        interactions=tuple(narrator.say(claim) for claim in joined),
        extrapolation=extrapolation,
        checks=checks,
        residual_sentence=words.residual_sentence(checks, denies),
        not_found=tuple(claim.value for claim in absent),
        not_found_sentences=tuple(words.absence_sentences(absent, len(subject.table_columns))),
        averaging=_average(subject, fitted, narrator),
        search=story,
        scores=_copy_scores(fitted),
        outcome=_end(subject, fitted, story, narrator),
        notes=fitted.notes,
        change=None if change is None else change.explanation,
        functionals=_explain_shapes(subject, narrator),
        partition=partition,
        chosen=None if plan is None else tell_choice(plan, narrator, fitted.seconds),
        remarks=tuple(narrator.say(claim) for find in finders for claim in find(subject)),
        rate=answers.rate,
        seasons=answers.seasons,
        unusual=answers.unusual,
        answers=listed,
        claims=tuple(narrator.claims),
    )


def _has_regimes(kernel: Expression) -> bool:
    """Whether something changes beside the level: a jump that a search has found is told as one."""
    return any(not is_jump(each) for each in find_all(kernel, Blend))


@dataclass(frozen=True)
class _First:
    """What is answered first, with the sentences."""

    rate: Rate | None = None
    seasons: tuple[Season, ...] = ()
    rhythms: tuple[Rhythm, ...] = ()
    unusual: UnusualRows | None = None
    sentences: tuple[Answer, ...] = ()
    jumps: tuple[LevelJump, ...] = ()


def _answer_first(curves: Curves, found: bool, checks: Sequence[ResidualCheck], narrator: Narrator) -> _First:
    """Answer what an analyst asks first, where there is any structure."""
    if not found:
        return _First()
    subject = curves.subject
    pattern = any(not each.clear and not each.doubtful for each in checks if each.name in PATTERNS)
    jumps = find_jumps(curves)
    rate = None if pattern or jumps else find_rate(subject)  # a line through a jump is no trend
    seasons, unusual = find_seasons(curves), find_unusual(subject, [claim.value.at for claim in jumps])
    said = [] if rate is None else [Answer("trend", narrator.say(rate))]
    said += [Answer("change", narrator.say(claim)) for claim in jumps]
    rhythms = find_rhythms(curves)
    said += [Answer("season", narrator.say(claim)) for claim in (*seasons, *rhythms)]
    said.append(Answer("unusual", narrator.say(unusual)))
    value, named = None if rate is None else rate.value, tuple(claim.value for claim in rhythms)
    found_jumps = tuple(claim.value for claim in jumps)
    return _First(value, tuple(claim.value for claim in seasons), named, unusual.value, tuple(said), found_jumps)


def _suspect(answers: _First, checks: Sequence[ResidualCheck], missed: Collection[str]) -> Suspects:
    """Return what may not be denied, whatever the search says."""
    trend = answers.rate is not None and answers.rate.clear
    rhythm = any(check.name == "period" and not check.clear for check in checks)
    return Suspects(trend, rhythm or bool(answers.seasons or answers.rhythms), frozenset(missed))


def _list_answers(
    first: _First,
    extrapolation: Extrapolation | None,
    judged: tuple[HeldOut | None, Sequence[ResidualCheck]],
    effects: Sequence[InputEffect],
    narrator: Narrator,
) -> tuple[Answer, ...]:
    """Put what is asked first into order: trend, season, inputs, next values, how certain, what is unusual."""
    said = [answer for answer in first.sentences if answer.question != "unusual"]
    held_out, checks = judged
    largest = [(each.column, each.size if each.direction in MOVING else None) for each in effects if matters(each)]
    if largest and first.sentences:
        said.append(Answer("inputs", narrator.say(Claim("what matters most", narrator.target, tuple(largest)))))
    if extrapolation is not None and first.sentences:
        claim = Claim("next values", extrapolation.column, extrapolation.forecasts[:NEXT], certainty=0.95)
        said.append(Answer("next", narrator.say(claim)))
    if held_out is not None:
        band = [check.sentence for check in checks if check.name == "band"]
        said.append(Answer("certain", " ".join([held_out.sentence, *band])))
    return (*said, *(answer for answer in first.sentences if answer.question == "unusual"))


def matters(effect: InputEffect) -> bool:
    """Whether an input is said to do something, by itself or with others."""
    return effect.direction in (*MOVING, "depends on others")


def _is_guess(subject: Subject, fitted: Fitted, gain: float) -> bool:
    """Whether there are so few rows for each number that was fitted that any model fits them.

    Or not many, and the curve passes through all of them: unless it gains very much, the rows cannot tell its numbers
    from noise. Many numbers of a network, or of a surface of many features, say the same.
    """
    rows, numbers = subject.data.count, fitted.scores.parameters
    if rows >= MANY_FOR_A_NUMBER * numbers or has_many_numbers(subject.fitted):
        return False
    return rows < ROWS_FOR_A_NUMBER * numbers or (subject.freedom < numbers and gain < VERY_CLEAR)


def _claim_structure(
    subject: Subject, composition: Composition, gain: float, too_many: int | None, doubts: tuple[str, ...]
) -> Claim:
    """Claim what was found, or that it is noise alone, or that `too_many` numbers were fitted to so few rows.

    That it is noise alone cannot be said of a fit that was cut short, or whose errors show a pattern, nor where there
    are too few rows to see what is small (`doubts`), nor where the model is the better one, if not clearly.
    """
    rows = ClaimEvidence(rows=subject.data.count)
    if too_many is not None:
        return Claim("too few rows", subject.target, Size(subject.data.count, too_many), evidence=rows)
    if gain >= CLEAR:
        return Claim("components", subject.target, composition, certainty=certainty_of(gain), evidence=rows)
    spread = Spread(subject.level, math.sqrt(subject.variance), doubts or ("not settled",))
    if doubts or gain > 0:
        return Claim("nothing found yet", subject.target, spread, evidence=rows)
    return Claim("noise alone", subject.target, spread, certainty=certainty_of(-gain), evidence=rows)


def _explain_shapes(subject: Subject, narrator: Narrator) -> tuple[FunctionalExplanation, ...]:
    kernel = subject.fitted
    shaped = contains(kernel, Functional)
    return explain_functionals(kernel, subject.columns, subject.names, narrator) if shaped else ()


def _copy_scores(fitted: Fitted) -> Scores:
    own = fitted.scores
    return Scores(own.log_evidence, own.bic, own.leave_one_out, own.parameters, fitted.choice.engine.is_bound)


def _compare_held_out(subject: Subject, ranking: Contributions | None, narrator: Narrator) -> HeldOut:
    """Compare errors on rows left out with those of the average: in folds, or one by one where kernels are averaged."""
    evidence = ClaimEvidence(rows=subject.data.count)
    if ranking is not None:
        errors, kind = HeldOut(ranking.folds, ranking.errors[0], ranking.errors[-1]), "held-out error"
    else:
        y, count = subject.data.y, len(subject.data.y)
        alone = np.abs(y - y.mean()).mean() * count / max(1, count - 1)
        own, scale = np.abs(y - subject.left_out.mean).mean(), subject.units.y_scale
        errors, kind = HeldOut(count, float(scale * alone), float(scale * own)), "left-out error"
    held_out: HeldOut = narrator.complete(Claim(kind, subject.target, errors, evidence=evidence))
    return held_out


def _average(subject: Subject, fitted: Fitted, narrator: Narrator) -> Averaging | None:
    members = fitted.mixture.members
    if len(members) < 2:
        return None
    within = tuple(member.within for member in members)
    beyond = within if fitted.mixture.column is None else tuple(member.beyond for member in members)
    texts = tuple(
        structure_text(to_data_units(each.kernel, subject.units), subject.names, len(subject.columns))
        for each in members
    )
    value = Averaging(within, beyond, texts, subject.alone)
    averaging: Averaging = narrator.complete(Claim("averaging", subject.target, value))
    return averaging


def _end(subject: Subject, fitted: Fitted, story: Story | None, narrator: Narrator) -> Outcome:
    ending = Ending(fitted.message, name_bounds(subject.fitted, fitted.at_bounds) if fitted.at_bounds else ())
    sentence = narrator.say(Claim("fit", fitted.status, ending))
    found_by = narrator.say(claim_origin(subject, fitted, story))
    return Outcome(found_by, fitted.status, fitted.message, fitted.scores.jitter, sentence)


@lru_cache
def name_bounds(kernel: Expression, reached: tuple[AtBound, ...]) -> tuple[Bound, ...]:
    """Find the parameters of a kernel that have reached a bound."""
    owners, named = list(kernel.owners()), {path: Bound(path, side) for path, side in reached}
    for slot in layout(kernel).slots:
        owner = owners[slot.leaf]
        for place in range(slot.size):
            path = slot.path if slot.size == 1 else f"{slot.path}[{place}]"
            own = place if slot.size > 1 and slot.spec.name != "weights" and place < len(owner.columns) else None
            if path in named and isinstance(owner, Base | Surface):
                named[path] = Bound(slot.spec.name, named[path].side, owner.symbol, owner.columns, own)
    return tuple(named.values())
