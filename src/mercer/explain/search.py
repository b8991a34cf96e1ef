"""The story of a search: how many kernels were tried, which led to the winner, which came close, what was not found."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape

import numpy as np

from mercer.explain.claims import Claim, ClaimEvidence, PartitionsTried, certainty_of
from mercer.explain.subject import Subject, structure_text
from mercer.explain.words import Narrator
from mercer.kernels.algebra import structure
from mercer.kernels.blend import FEATURES, Blend, Surface
from mercer.kernels.expression import Base, Expression, Product, contains, find_all
from mercer.kernels.functional import Functional
from mercer.kernels.layers import Linear
from mercer.kernels.network import Network
from mercer.kernels.parameters import layout
from mercer.learners.contract import Candidate, DataFacts, Plan
from mercer.learners.criteria import BIC, CRITERIA, EVIDENCE, bic, penalty
from mercer.learners.judging import AUTO
from mercer.learners.kfo import KernelFunctional
from mercer.learners.partition_sampler import PartitionSampler
from mercer.model.fitted import Fitted

CLEAR = 6.0  # a difference in BIC that is strong evidence (Kass and Raftery 1995)
FEWEST_FOR_LINE = 6  # rows: through fewer a line passes too easily
UNFINISHED = ("raced out", "not finished")
RUNNERS_UP = 10
ROWS_TO_LEAVE_OUT = 4  # fewer have no spread to compare with


@dataclass(frozen=True)
class PathStep:
    """A kernel on the way to the winner, and the best of those that it beat at its depth."""

    depth: int
    kernel: str
    score: float  # its worse end, where there is an interval
    beat: str | None
    by: float | None  # compares worse ends
    interval: tuple[float, float] | None = None
    start: str = ""  # how it came about, where it came from no other: "base", "every column", "each column"


@dataclass(frozen=True)
class RunnerUp:
    """A kernel that lost, and by how much; where there are intervals, between what its score lies."""

    kernel: str
    behind: float
    depth: int
    status: str
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Intervals:
    """What a search by intervals can say: the winner's, how many may be as good, how many were given up and why."""

    log_evidence: tuple[float, float]  # of the winner, lower end first
    score: tuple[float, float]
    inducing: int | None
    undecided: int
    separated: int
    set_aside: int
    meaning: str = ""
    sentence: str = ""


@dataclass(frozen=True)
class Story:
    """What a search did; `score` names what it went by (smaller is better)."""

    score: str
    tried: int
    finished: int
    failed: int
    path: tuple[PathStep, ...]
    runners_up: tuple[RunnerUp, ...]
    intervals: Intervals | None = None


@dataclass(frozen=True)
class NotFound:
    """Something that the evidence is clearly against: "trend", "period" or "effect" of a column."""

    what: str
    column: str
    behind: float  # by how much the best kernel with it lost, in BIC


@dataclass(frozen=True)
class Suspects:
    """What errors and curves show, whatever the search says: a rise or fall, a rhythm, inputs that errors go with."""

    trend: bool = False
    period: bool = False
    effects: frozenset[str] = frozenset()


NO_SUSPECTS = Suspects()


@dataclass(frozen=True)
class Searched:
    """A search over sums and products of base kernels."""

    story: Story | None
    bases: tuple[str, ...]


@dataclass(frozen=True)
class RegimesTried:
    """How many kernels were fitted with change surfaces, of how many regimes at most, and what they are compared by."""

    kernels: int
    most: int
    places: bool  # of change points, which count as two parameters each
    under_priors: bool = False  # by the evidence under the priors; else by BIC


@dataclass(frozen=True)
class ChosenLearner:
    """Which learner was chosen by the data, by which rule, and how many seconds it may take, or took."""

    learner: str
    reason: str
    seconds: float | None
    facts: DataFacts
    took: float | None = None
    sentence: str = ""

    def __str__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        """Return the sentence for a notebook."""
        return f"<p>{escape(self.sentence)}</p>"


def tell_choice(plan: Plan, narrator: Narrator, took: float | None = None) -> ChosenLearner:
    """Return which learner was chosen, with its sentence; before the work it has not taken any time."""
    chosen = ChosenLearner(plan.learner, plan.reason, plan.seconds, plan.facts, took)
    described: ChosenLearner = narrator.complete(Claim("chosen learner", narrator.target, chosen))
    return described


def score_name(fitted: Fitted) -> str:
    """Return the name of what a learner chose by."""
    if isinstance(fitted.origin.kernel, PartitionSampler):
        return "-2 log posterior"
    settings = fitted.origin.learner_settings
    named = next((each.criterion for each in fitted.candidates if each.criterion), None)
    name = named or settings.get("score", settings.get("selection", "bic"))
    if name == "evidence":
        return "-2 log evidence"
    if name == AUTO:  # by another one the candidates say it
        return BIC.label
    return CRITERIA[name].label if name in CRITERIA else "score"


def claim_origin(subject: Subject, fitted: Fitted, story: Story | None) -> Claim:
    """Claim how the model came about."""
    kernel, origin, score = subject.fitted, fitted.origin, score_name(fitted)
    bases = tuple(origin.learner_settings.get("bases", ()))
    if bases and any(column.levels for column in subject.columns):
        bases = tuple(dict.fromkeys([*bases, "CAT"]))
    if origin.distilled_from is not None:
        return Claim("distilled network", origin.distilled_from, story)
    if origin.given is not None:
        return Claim("given structure", origin.given, origin.options["restarts"])
    if any(candidate.step.kind == "regimes" for candidate in fitted.candidates):
        most = max(candidate.depth for candidate in fitted.candidates) + 1
        places = any(blend.surface.kind == "CP" for blend in find_all(kernel, Blend))
        averaged = any(candidate.criterion == EVIDENCE.name for candidate in fitted.candidates)
        regimes = RegimesTried(len(fitted.candidates), most, places, averaged)
        return Claim("learned regimes", subject.target, regimes)
    if isinstance(origin.kernel, PartitionSampler):
        families, tried = tuple(origin.kernel.families), len(fitted.candidates)
        return Claim("sampled partitions", score, PartitionsTried(tried, tried, families, None))
    if isinstance(origin.kernel, KernelFunctional) or (contains(kernel, Functional) and not bases):
        return Claim("kernel functional", score, story)
    if contains(kernel, Network):
        return Claim("trained network", score, story)
    return Claim("searched structure", score, Searched(story, bases))


def winner_of(candidates: Sequence[Candidate], kernel: Expression) -> int | None:
    """Return the number of the candidate that was chosen (`kernel` in the user's units, as the candidates are)."""
    return next((number for number, each in enumerate(candidates) if each.expression == kernel), None)


def path_to(candidates: Sequence[Candidate], winner: int) -> list[int]:
    """Return the numbers of the candidates that led to the winner, the first one first."""
    path = [winner]
    while (parent := candidates[path[-1]].parent) is not None and parent not in path:
        path.append(parent)
    return path[::-1]


def tell_story(subject: Subject, candidates: Sequence[Candidate], score: str, narrator: Narrator) -> Story | None:
    """Describe what a search did; None where there was none."""
    kernel = subject.fitted
    winner = winner_of(candidates, kernel)
    if winner is None:
        return None
    best, columns, is_network = candidates[winner].score, len(subject.columns), contains(kernel, Network)

    def text(candidate: Candidate) -> str:
        if contains(candidate.expression, Functional):
            inside = next(find_all(candidate.expression, Functional)).inside  # its weights would fill the page
            return f"KF({structure_text(inside, subject.names, columns)}), {candidate.step}"
        if is_network and structure(candidate.expression) == structure(kernel):
            return candidate.step.text()  # starts of one network: which of them, not what they all are
        return structure_text(candidate.expression, subject.names, columns)

    others = [c for number, c in enumerate(candidates) if number != winner and math.isfinite(c.score)]
    runners = sorted((c for c in others if c.status not in UNFINISHED), key=lambda c: c.score)[:RUNNERS_UP]

    def step(number: int) -> PathStep:
        own = candidates[number]
        others = [c for c in candidates if c.depth == own.depth and c is not own and own.score <= c.score < math.inf]
        second = min(others, key=lambda c: c.score, default=None)
        beat, by = (None, None) if second is None else (text(second), second.score - own.score)
        start = own.step.kind if own.parent is None else ""
        return PathStep(own.depth, text(own), own.score, beat, by, _ends(own), start)

    return Story(
        score=score,
        tried=len(candidates),
        finished=sum(c.status not in (*UNFINISHED, "failed") for c in candidates),
        failed=sum(c.status == "failed" for c in candidates),
        path=tuple(step(number) for number in path_to(candidates, winner)),
        runners_up=tuple(RunnerUp(text(c), c.score - best, c.depth, c.status, _ends(c)) for c in runners),
        intervals=_intervals(candidates, winner, subject.data.count, score, narrator),
    )


def _ends(candidate: Candidate) -> tuple[float, float] | None:
    return None if candidate.interval is None else candidate.scores


def _intervals(
    candidates: Sequence[Candidate], winner: int, rows: int, score: str, narrator: Narrator
) -> Intervals | None:
    best = candidates[winner]
    if best.interval is None:
        return None
    finished = [c for c in candidates if c is not best and c.interval is not None and c.status not in UNFINISHED]
    kinds = [c.verdict.kind for c in candidates if c.verdict is not None]
    found = Intervals(
        log_evidence=(best.interval.lower, best.interval.upper),
        score=best.scores,
        inducing=best.inducing,
        undecided=sum(c.scores[0] < best.scores[1] and c.status != "failed" for c in finished),
        separated=kinds.count("separated"),
        set_aside=kinds.count("places"),
    )
    meaning = narrator.say(Claim("meaning of intervals", score, evidence=ClaimEvidence(rows=rows)))
    return replace(found, meaning=meaning, sentence=narrator.say(Claim("intervals", score, found)))


def find_gain(subject: Subject, fitted: Fitted) -> float:
    """Return by how much the model beats noise alone, on the scale of BIC (of -2 log evidence)."""
    if contains(subject.fitted, Network):  # BIC counts all its weights, of which few matter: rows left out judge it
        return left_out_gain_over_noise(subject, fitted.scores.leave_one_out)
    winner = winner_of(fitted.candidates, subject.fitted)
    own = fitted.scores.bic
    if winner is not None and fitted.candidates[winner].criterion == EVIDENCE.name:
        own = fitted.candidates[winner].score  # BIC would count every number that the priors hold
    elif any(True for _ in _many_featured(subject.fitted)):  # the same where the kernel was given, without priors
        return left_out_gain_over_noise(subject, fitted.scores.leave_one_out)
    return max(gain_over_noise(subject, own, fitted.origin.noise_is_fitted), gain_of_line(subject))


def gain_of_line(subject: Subject) -> float:
    """Return by how much a straight line along the only input beats noise alone, on the scale of BIC.

    On a few rows a search doubts what a regression shows clearly: n log(s2 / s2 of what the line leaves) - log n.
    """
    place, n, y = subject.only_column, subject.data.count, subject.targets - subject.targets.mean()
    if place is None or n < FEWEST_FOR_LINE:
        return -math.inf
    x = subject.in_user_units(place) - subject.in_user_units(place).mean()
    whole, explained = float(y @ y), float(x @ y) ** 2 / float(x @ x)
    return n * math.log(whole / max(whole - explained, 1e-12 * whole)) - math.log(n)


def has_many_numbers(kernel: Expression) -> bool:
    """Tell whether most numbers of a kernel are weights of a network or of a surface, of which few matter."""
    return contains(kernel, Network) or any(True for _ in _many_featured(kernel))


def _many_featured(kernel: Expression) -> Iterator[Surface]:
    return (own.surface for own in find_all(kernel, Blend) if own.surface.kind in FEATURES)


def gain_over_noise(subject: Subject, own: float, noise_is_fitted: bool) -> float:
    """Return by how much the `own` BIC beats that of noise alone, N(level, s2 I) (positive: structure pays)."""
    n = subject.data.count
    variance = float(subject.targets.var())
    alone = -0.5 * n * (math.log(2 * math.pi * variance) + 1.0)
    return bic(alone, 1 if noise_is_fitted else 0, n) - own


def left_out_gain_over_noise(subject: Subject, leave_one_out: float) -> float:
    """Return twice by how much rows left out are predicted better (in log density) than by mean and spread alone.

    For networks and for surfaces of many features: rows left out judge the weights, of which there are many that matter
    little; the parameters of the primitives, or of the kernels of the regimes, have their price as in BIC.
    """
    y = subject.targets - float(subject.targets.mean())
    n = len(y)
    if n < ROWS_TO_LEAVE_OUT:
        return -math.inf
    others = (float(y.sum()) - y) / (n - 1)
    spread = (float((y**2).sum()) - y**2) / (n - 1) - others**2
    spread = np.maximum(spread, 1e-12 * float(y.var())) * n / (n - 1)  # the mean is not known exactly either
    alone = -0.5 * float(np.sum(np.log(2 * math.pi * spread) + (y - others) ** 2 / spread))
    left = {*map(id, _many_featured(subject.kernel))}
    priced = [not isinstance(owner, Linear) and id(owner) not in left for owner in subject.kernel.owners()]
    slots = [slot for slot in layout(subject.kernel).slots if slot.fitted and priced[slot.leaf]]
    own = sum(slot.spec.domain.free_size(slot.size) for slot in slots)
    return 2.0 * (leave_one_out - alone) - penalty(own, n)


def find_absences(subject: Subject, candidates: Sequence[Candidate], suspects: Suspects = NO_SUSPECTS) -> list[Claim]:
    """Claim what the evidence is clearly against.

    A claim of absence needs a fair comparison: the kernel found must have been tried with the thing in question added;
    every kernel tried that has it must have been finished and lost by more than `CLEAR`; none that predicts may have
    it; and neither the errors nor the curve itself (`suspects`) may show it.
    """
    kernel, rows = subject.fitted, subject.data.count
    winner = winner_of(candidates, kernel)
    if winner is None:
        return []
    best = bic(candidates[winner].log_evidence, candidates[winner].parameters, rows)
    rivals = [c for number, c in enumerate(candidates) if number != winner and c.status != "failed"]
    predicting = [kernel, *(part.kernel for each in subject.heard[1:] for part in each.parts)]

    def judge(what: str, column: str, has: Callable[[Expression], bool]) -> list[Claim]:
        having = [candidate for candidate in rivals if has(candidate.expression)]
        if not any(candidate.parent == winner for candidate in having) or any(map(has, predicting)):
            return []
        if not all(_is_decided(candidate) for candidate in having):
            return []
        # The better end of the BIC, where it has an interval: what a kernel is denied must be certain.
        ends = [c.log_evidence if c.interval is None else c.interval.upper for c in having]
        closest = min([bic(end, c.parameters, rows) for end, c in zip(ends, having, strict=True)])
        if closest - best <= CLEAR:
            return []
        evidence = ClaimEvidence(searched=True, best_with=closest, best_without=best, all_finished=True)
        found = NotFound(what, column, closest - best)
        return [Claim("absent", column, found, certainty=certainty_of(found.behind), evidence=evidence)]

    claims: list[Claim] = []
    used = {d for each in predicting for leaf in each.leaves() for d in leaf.columns}
    for name, places in subject.table_columns.items():
        column, place = subject.columns[places[0]], places[0]
        if not used.intersection(places):
            claims += [] if name in suspects.effects else judge("effect", name, partial(_looks_at, places=set(places)))
        elif not column.is_category:
            if not (suspects.trend or _may_pass_for_a_trend(subject, place)):
                claims += judge("trend", name, partial(_has_trend, place=place))
            if not suspects.period:
                claims += judge("period", name, partial(_has_wave, place=place))
    return claims


def _is_decided(candidate: Candidate) -> bool:
    """Whether a candidate was fitted to the end, or its whole interval was worse than another's."""
    separated = candidate.verdict is not None and candidate.verdict.kind == "separated"
    return candidate.status not in UNFINISHED or separated


def _looks_at(kernel: Expression, places: set[int]) -> bool:
    return any(places.intersection(leaf.columns) for leaf in kernel.leaves())


def _has_wave(kernel: Expression, place: int) -> bool:
    return any(leaf.spec.words.role == "wave" and place in leaf.columns for leaf in kernel.leaves())


def _has_trend(kernel: Expression, place: int) -> bool:
    """Say whether a summand is a line or a polynomial in the column."""
    if isinstance(kernel, Base):
        return kernel.spec.words.role == "trend" and kernel.columns == (place,)
    found = [_has_trend(child, place) for child in kernel.children]
    if not isinstance(kernel, Product):
        return any(found)
    constant = [isinstance(each, Base) and each.spec.words.role == "constant" for each in kernel.children]
    return any(found) and all(trend or flat for trend, flat in zip(found, constant, strict=True))


def _may_pass_for_a_trend(subject: Subject, place: int) -> bool:
    """Say whether a component could look like a trend: a line that changes, or a curve too slow to bend much."""
    span = subject.columns[place].span
    for part in [part for each in subject.heard for part in each.parts]:
        leaves = [leaf for leaf in part.kernel.leaves() if place in leaf.columns]
        if not leaves or any([leaf.spec.words.role == "wave" for leaf in leaves]):
            slow = [leaf.parameter("period").values for leaf in leaves if leaf.spec.has("period")]
            if any([values is not None and span is not None and max(values) > span for values in slow]):
                return True
            continue
        lengths = [leaf.lengthscales() for leaf in leaves if leaf.spec.words.role == "fading"]
        shortest = min([min(values) for values in lengths if values], default=math.inf)
        if span is None or shortest > span:
            return True
    return False
