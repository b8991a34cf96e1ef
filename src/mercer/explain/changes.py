"""Where behaviour changes: the surface with its uncertainty, the places where one regime gives way to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from mercer.compute.surfaces import shares, values_in
from mercer.explain import wording
from mercer.explain.claims import Claim, certainty_of
from mercer.explain.phrases import phrase, where_phrase
from mercer.explain.subject import Subject, subject_of
from mercer.explain.wording import Vocabulary, name_columns
from mercer.explain.words import say, words_for
from mercer.fitting.starts import WEIGHT
from mercer.fitting.uncertainty import Profile, profile, slice_draws
from mercer.inference.exact import Exact
from mercer.kernels.algebra import components
from mercer.kernels.blend import Blend, Surface
from mercer.kernels.domains import Array
from mercer.kernels.expression import contains, find_all
from mercer.kernels.parameters import layout, to_data_units, values_of, with_values
from mercer.learners.contract import Candidate
from mercer.learners.criteria import EVIDENCE, bic
from mercer.learners.regimes import weigh_regimes
from mercer.model.fitted import Fitted

NINE = float(2 * np.log(9.0))  # a logistic function goes from a tenth to nine tenths over this many widths
MOST_ROWS = 500  # that the uncertainty is worked out with; more are sampled
FINE = 2001  # places along one column at which crossings are looked for
MESH = 120  # places along each of two columns
SHARP = 0.01  # of the range of the data: a change over less is sharp
BARELY, CLEARLY = 2.0, 10.0  # differences of BIC
VARYING = {  # the parameters of a kind of surface whose uncertainty is worked out
    "CP": ("location",), "CW": ("start", "duration"), "linear": ("slope", "bias"), "rks": ("amplitude",),
    "gp": ("weights",),
}  # fmt: skip


@dataclass(frozen=True)
class Crossing:
    """Where one regime gives way to the next along a column: s = 0.5, with a 95 % interval."""

    column: str
    at: float
    low: float
    high: float
    width: float  # over which the share goes from a tenth to nine tenths
    before: int
    after: int
    shown: str
    shown_low: str
    shown_high: str


@dataclass(frozen=True)
class Regime:
    """One regime: its kernel, in words too, where it holds, and the rows where it holds most with their average."""

    number: int
    rows: int
    average: float | None
    where: str
    words: str
    kernel: str


@dataclass(frozen=True)
class RegimeEvidence:
    """How well this many regimes fit: the smaller score is better.

    It is the BIC, averaged over the kernels that were tried with this number of regimes; `bic` and the other fields are
    of the best of them. The place of a change point counts as two parameters in BIC (Zhang and Siegmund 2007), its
    width as none where the change takes place between two neighbouring rows, and where kernels are looked for the
    choice of one among M costs 2 log M: so it differs from `bic_`. Where priors hold the many numbers of a surface, the
    evidence averaged over the priors decides.
    """

    regimes: int
    log_evidence: float
    bic: float
    parameters: int
    score: float  # what numbers of regimes are compared by
    log_evidence_under_priors: float | None = None


@dataclass(frozen=True)
class ChangeExplanation:
    """A change surface in plain data and words."""

    surface: str
    columns: tuple[str, ...]
    regimes: tuple[Regime, ...]
    crossings: tuple[Crossing, ...]
    evidence: tuple[RegimeEvidence, ...]
    preferred: int | None
    sentences: tuple[str, ...]

    @property
    def under_priors(self) -> bool:
        """Whether numbers of regimes are compared by their evidence under priors; else by BIC."""
        return any(one.log_evidence_under_priors is not None for one in self.evidence)


@dataclass(frozen=True, eq=False)
class Change:
    """A change surface: in plain data, and as functions of places."""

    explanation: ChangeExplanation
    claims: tuple[Claim, ...]
    surface: Surface  # in the units of the data
    draws: tuple[Surface, ...]  # from its posterior, for the uncertainty
    weights: Array
    ends: tuple[tuple[float, float], ...]  # of the data along each of its columns
    encode: Callable[[Any], Array] | None = None  # a table, with its dates and categories, -> numbers

    @property
    def told(self) -> ChangeExplanation:
        """The explanation, by the name that it had in version 0.1."""
        return self.explanation

    @property
    def regimes(self) -> tuple[Regime, ...]:
        """The regimes in order."""
        return self.explanation.regimes

    @property
    def crossings(self) -> tuple[Crossing, ...]:
        """Where regimes give way to each other, along one column."""
        return self.explanation.crossings

    @property
    def evidence(self) -> tuple[RegimeEvidence, ...]:
        """For each number of regimes that was fitted."""
        return self.explanation.evidence

    @property
    def preferred(self) -> int | None:
        """The number of regimes with the best score (`RegimeEvidence`); None where only one number was fitted."""
        return self.explanation.preferred

    def __str__(self) -> str:
        return " ".join(self.explanation.sentences)

    def shares(self, X: Any) -> Array:
        """Return how much each regime holds at the rows, (rows, regimes); they add up to one.

        The rows are a table like the one that was learned from, or its columns as numbers.
        """
        return shares(self.surface, values_in(self.surface), self._numbers(X)).T

    def _numbers(self, X: Any) -> Array:
        if self.encode is not None and hasattr(X, "columns"):
            return self.encode(X)
        return np.asarray(X, dtype=np.float64)

    def shares_std(self, X: Any) -> Array:
        """Return the standard deviation of the shares, (rows, regimes)."""
        rows = self._numbers(X)
        drawn = np.array([shares(each, values_in(each), rows).T for each in self.draws])
        mean = np.tensordot(self.weights, drawn, axes=1)
        return np.asarray(np.sqrt(np.tensordot(self.weights, (drawn - mean) ** 2, axes=1)))

    def level_set(self, regime: int = 1, level: float = 0.5) -> list[Array]:
        """Return where the share of a regime (counted from 0) is 0.5: places on one column, curves on two.

        One array for each connected piece, (points, columns of the surface).
        """
        if len(self.ends) == 1:
            x = np.linspace(*self.ends[0], FINE)
            share = shares(self.surface, values_in(self.surface), _rows(self.surface, x))[regime]
            return [np.array([[place]]) for place in _find_passes(x, share, level)]
        if len(self.ends) != 2:
            raise ValueError(f"a level set is drawn on one or two columns, not on {len(self.ends)}: see `shares`")
        from contourpy import contour_generator  # matplotlib's own

        x, y, values = self.mesh(regime)
        return [np.asarray(line) for line in contour_generator(x, y, values).lines(level)]

    def mesh(self, regime: int = 1, steps: int = MESH) -> tuple[Array, Array, Array]:
        """Return places along both columns and the share of a regime at all pairs, (second column, first column)."""
        x, y = (np.linspace(low, high, steps) for low, high in self.ends)
        grid = np.zeros((steps * steps, 1 + max(self.surface.columns)))
        first, second = np.meshgrid(x, y)
        grid[:, self.surface.columns[0]], grid[:, self.surface.columns[1]] = first.ravel(), second.ravel()
        return x, y, self.shares(grid)[:, regime].reshape(steps, steps)


_CHANGES: WeakKeyDictionary[Fitted, Change] = WeakKeyDictionary()  # its uncertainty takes a while to work out


def change_in(fitted: Fitted) -> Change | None:
    """Return where behaviour changes: at the outermost change surface; None without one."""
    if not contains(fitted.kernel, Blend):
        return None
    if fitted not in _CHANGES:
        _CHANGES[fitted] = change_of(subject_of(fitted), fitted.candidates)
    return _CHANGES[fitted]


def change_of(subject: Subject, candidates: Sequence[Candidate]) -> Change:
    """Work out the change: where it is, what holds before and after, and whether the data ask for it."""
    own, scaled = next(find_all(subject.fitted, Blend)), next(find_all(subject.kernel, Blend))
    surface, columns = own.surface, subject.columns
    X = np.asarray(subject.data.X * np.array(subject.units.scale) + np.array(subject.units.shift))
    ends = tuple((float(X[:, c].min()), float(X[:, c].max())) for c in surface.columns)
    draws, weights, found = _uncertain(subject, scaled)
    crossings = _crossings(subject, surface, ends[0], draws, found) if len(ends) == 1 else ()
    holds = np.argmax(shares(surface, values_in(surface), X), axis=0)
    regimes = []
    for number, part in enumerate(own.parts):
        rows = np.flatnonzero(holds == number)
        average = float(subject.targets[rows].mean()) if len(rows) else None
        text, words = "0", "nothing that varies"
        if part is not None:
            text, words = (
                part.text(4, subject.names),
                ", plus ".join(phrase(term, columns) for term in components(part)),
            )
        regimes.append(Regime(number + 1, len(rows), average, where_phrase(surface, number, columns), words, text))
    evidence = _evidence(candidates, subject.data.count)
    preferred = min(evidence, key=lambda e: e.score).regimes if len(evidence) > 1 else None
    on = [columns[c] for c in surface.columns]
    claims = [Claim("crossing", each.column, each, on[0].unit, certainty=0.95) for each in crossings]
    if not crossings:
        claims.append(Claim("surface", name_columns(on), tuple(regime.rows for regime in regimes)))
    claims += [Claim("regime", subject.target, regime) for regime in regimes]
    for fewer, more in pairwise(evidence):
        certainty = certainty_of(abs(fewer.score - more.score))
        claims.append(Claim("more regimes", subject.target, (fewer, more), certainty=certainty))
    explanation = ChangeExplanation(
        surface=surface.kind,
        columns=tuple(column.name for column in on),
        regimes=tuple(regimes),
        crossings=crossings,
        evidence=evidence,
        preferred=preferred,
        sentences=tuple(say(claim, subject.vocabulary) for claim in claims),
    )
    return Change(explanation, tuple(claims), surface, draws, weights, ends)


def _evidence(candidates: Sequence[Candidate], rows: int) -> tuple[RegimeEvidence, ...]:
    """Return the best of each number of regimes that a learner of change surfaces tried."""
    best: dict[int, Candidate] = {}
    for candidate in candidates:
        step, known = candidate.step, best.get(candidate.step.number)
        usable = step.kind == "regimes" and step.rows is None and np.isfinite(candidate.score)
        if usable and (known is None or candidate.score < known.score):
            best[step.number] = candidate
    found, scores = [], weigh_regimes(candidates)
    for number, one in sorted(best.items()):
        own, averaged = one.score, None
        if one.criterion == EVIDENCE.name:
            own, averaged = bic(one.log_evidence, one.parameters, rows), -0.5 * one.score
        found.append(RegimeEvidence(number, one.log_evidence, own, one.parameters, scores[number], averaged))
    return tuple(found)


def _uncertain(subject: Subject, scaled: Blend) -> tuple[tuple[Surface, ...], Array, dict[str, list[Profile]]]:
    """Return surfaces from the posterior with their weights, and the profiles of places on one column.

    Of a change point or window the places vary, each by itself; of another surface its weights (of a linear one slopes
    and biases), while its waves or bumps stay as they are.
    """
    own, data, kernel, noise = scaled.surface, subject.data, subject.kernel, subject.noise
    if data.count > MOST_ROWS:
        data = data.take(np.sort(np.random.default_rng(0).choice(data.count, MOST_ROWS, replace=False)))
    found: dict[str, list[Profile]] = {}
    drawn: list[Array] = []
    weights: list[float] = []
    places: list[int] = []
    sizes: list[float] = []
    number = next(number for number, owner in enumerate(kernel.owners()) if owner is own)
    for slot in layout(kernel).slots:
        name = slot.spec.name
        if slot.leaf != number or name not in VARYING[own.kind] or not slot.fitted:
            continue
        fitted = range(slot.offset, slot.offset + slot.size)  # places in the vector of values
        if own.kind in ("CP", "CW"):
            stops = data.X[:, own.columns[0]] if name != "duration" else None
            for place in fitted:
                one = profile(kernel, noise, data, Exact(), place, stops)
                found.setdefault(name, []).append(one)
                drawn += list(one.values)
                weights += list(one.weights)
        else:
            places += fitted
            size = float(np.sqrt(np.mean(np.square(own.parameter(name).values or ()))))
            sizes += [max(WEIGHT, size)] * slot.size
    if places:
        drawn = list(slice_draws(kernel, noise, data, Exact(), places, np.array(sizes)))
    drawn = drawn or [values_of(kernel)]  # nothing of it was fitted
    total = np.array(weights) if weights else np.ones(len(drawn))
    units = subject.units
    surfaces = [next(find_all(to_data_units(with_values(kernel, values), units), Blend)).surface for values in drawn]
    return tuple(surfaces), total / total.sum(), found


def _crossings(
    subject: Subject,
    surface: Surface,
    ends: tuple[float, float],
    draws: tuple[Surface, ...],
    found: dict[str, list[Profile]],
) -> tuple[Crossing, ...]:
    along = surface.columns[0]
    column, shift, scale = subject.columns[along], subject.units.shift[along], subject.units.scale[along]
    rows = np.unique(subject.in_user_units(along))

    def in_units(one: Profile) -> tuple[float, float]:
        low, high = one.interval()
        return low * scale + shift, high * scale + shift

    def crossing(at: float, low: float, high: float, width: float, before: int, after: int) -> Crossing:
        # Where between two rows a change lies the data cannot say: an interval reaches to the rows around it.
        low, high = min(low, at), max(high, at)
        below, above = rows[rows <= low], rows[rows >= high]
        low, high = float(below[-1]) if len(below) else low, float(above[0]) if len(above) else high
        shown = column.about(at), column.at(low), column.at(high)
        return Crossing(column.name, at, low, high, width, before, after, *shown)

    value = {p.name: p.values or () for p in surface.parameters}
    if surface.kind == "CP":
        intervals = [in_units(one) for one in found.get("location", [])] or [(x, x) for x in value["location"]]
        return tuple(
            crossing(at, *interval, NINE * width, k + 1, k + 2)
            for k, (at, width, interval) in enumerate(zip(value["location"], value["width"], intervals, strict=True))
        )
    if surface.kind == "CW":
        start, duration, width = value["start"][0], value["duration"][0], value["width"][0]
        begun = in_units(found["start"][0]) if "start" in found else (start, start)
        lasting = (duration, duration)
        if "duration" in found:
            low, high = found["duration"][0].interval()
            lasting = (low * scale, high * scale)
        end = crossing(start + duration, start + lasting[0], start + lasting[1], NINE * width, 2, 1)
        return crossing(start, *begun, NINE * width, 1, 2), end
    # A surface of any form: the nearest crossing of each draw gives the interval.
    x = np.linspace(*ends, FINE)
    s, *drawn = (shares(each, values_in(each), _rows(surface, x)) for each in (surface, *draws))
    leading = np.argmax(s, axis=0)
    result = []
    for place in np.flatnonzero(np.diff(leading)):
        before, after = int(leading[place]), int(leading[place + 1])
        at = float(0.5 * (x[place] + x[place + 1]))
        slope = abs(float((s[after, place + 1] - s[after, place]) / (x[1] - x[0])))
        crossed = [_find_passes(x, one[after], 0.5) for one in drawn]
        others = [float(near[np.argmin(np.abs(near - at))]) for near in crossed if len(near)]
        low, high = np.quantile(others, [0.025, 0.975]) if len(others) > len(drawn) // 2 else ends
        result.append(crossing(at, float(low), float(high), NINE / (4.0 * max(slope, 1e-300)), before + 1, after + 1))
    return tuple(result)


def _find_passes(x: Array, values: Array, level: float) -> Array:
    """Return the places where values pass a level."""
    above = values > level
    crossed = np.flatnonzero(above[1:] != above[:-1])
    return np.asarray(0.5 * (x[crossed] + x[crossed + 1]))


def _rows(surface: Surface, x: Array) -> Array:
    rows = np.zeros((len(x), 1 + max(surface.columns)))
    rows[:, surface.columns[0]] = x
    return rows


# --------------------------------------------------------------------------------------------------------------- words


@words_for("learned regimes")
def _say_learned_regimes(claim: Claim, _: Vocabulary) -> str:
    count, most = claim.value.kernels, claim.value.most
    kernels = f"{count} kernels" if count > 1 else "one kernel"
    compared = f"were fitted and compared by {'their evidence under the priors' if claim.value.under_priors else 'BIC'}"
    if most == 1:
        fitted = compared if count > 1 else "was fitted"
        return f"A change surface was sought and not reached: {kernels} with one regime {fitted}."
    price = ", in which the place of a change counts as two parameters" if claim.value.places else ""
    return f"A change surface was learned: {kernels} with 1 to {most} regimes {compared}{price}."


@words_for("crossing")
def _say_crossing(claim: Claim, vocabulary: Vocabulary) -> str:
    found, column = claim.value, vocabulary.column(claim.subject)
    sharp = found.width <= SHARP * (column.span or found.width)
    speed = "sharply" if sharp else f"over about {column.length(found.width)}"
    return (
        f"Along {found.column} regime {found.before} gives way to regime {found.after} at about {found.shown} (95 % "
        f"interval {found.shown_low} to {found.shown_high}), {speed}."
    )


@words_for("regime")
def _say_regime(claim: Claim, vocabulary: Vocabulary) -> str:
    found = claim.value
    average = found.average
    level = "" if average is None else f" (there {vocabulary.target} is {wording.number(average)} on average)"
    return f"Regime {found.number}, {found.where}{level}: {found.words}."


@words_for("more regimes")
def _say_more_regimes(claim: Claim, _: Vocabulary) -> str:
    """Compare a number of regimes with one fewer."""
    fewer, more = claim.value
    gain, one = fewer.score - more.score, f"{more.regimes} regimes against {fewer.regimes}"
    by = f"the BIC is {'larger' if gain <= 0 else 'smaller'} by {abs(gain):.1f}"
    if more.log_evidence_under_priors is not None:
        by = f"the log evidence under the priors is {'smaller' if gain <= 0 else 'larger'} by {abs(gain) / 2.0:.1f}"
    if gain <= 0:
        return f"The evidence does not ask for {one}: {by}."
    clearly = "clearly " if gain > CLEARLY else ""
    return f"The evidence {'barely ' if gain < BARELY else clearly}prefers {one}: {by}."
