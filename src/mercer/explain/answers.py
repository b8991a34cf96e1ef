"""What an analyst asks first: how much a year, how high the season and when, what comes next, what is unusual.

All of it is about what predicts, an average included: every kernel answers by itself, and the answers are weighed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mercer.explain.checks import correlations
from mercer.explain.claims import MAD, WITHIN_95, Claim, ClaimEvidence
from mercer.explain.gathering import (
    Curves,
    GatheredComponent,
    MemberPart,
    classify,
    covariance_of,
    is_growing,
    list_waves,
    mean_of,
    thin,
)
from mercer.explain.subject import KernelPart, PredictingKernel, Subject, average
from mercer.explain.wording import Column
from mercer.explain.words import LIKELY
from mercer.fitting.calendar import DAYS
from mercer.kernels.domains import Array
from mercer.kernels.expression import sum_of
from mercer.linalg.factor import Failure, factorise

DRAWS = 400  # of a season's curve: enough for a 95 % interval
FEWEST_FOR_RATE = 5  # rows
MOST_LAGS = 20  # that errors are compared over
MOST_SLANT = 0.1  # of the variance of a season: the share of a line, were there two and a half cycles of a sine
MOST_AVERAGED, SHIFTS = 60, 8  # places whose cycles are averaged; values in a cycle
MOST_WIDER = 4.0  # times: of a variance; more means that the noise is not known
MISSED = 3.0  # standard errors: a line left in the errors is one that the model has not
UNUSUAL = 0.01  # the chance that any row at all is called unusual where none is
MAY_BE_UNUSUAL = 0.2  # the same of the one that is said to come nearest to it
# Times: with bands that are too narrow by more nothing can be seen; rows that are left for each number of the kernels.
MUCH_TOO_NARROW, ROWS_FOR_UNUSUAL = 2.0, 5.0
FREEDOM = 30  # degrees of freedom: real errors have somewhat heavier tails
MOST_NAMED = 5  # unusual rows
MOST_PLACES = 400  # in a cycle
SURE = 0.9  # of the probability: months are named until they have as much
MOST_MONTHS = 3


@dataclass(frozen=True)
class Rate:
    """How much the target rises for one `per` along a column on average over the data, with a 95 % interval.

    The least-squares slope over the rows of all that is not a season; `slope` and its ends are for one unit of the
    column, of which `per` has `units`.
    """

    column: str
    slope: float
    low: float
    high: float
    per: str | None
    units: float
    beside_others: bool = False  # there are other inputs, which are held where they are

    @property
    def clear(self) -> bool:
        """Whether it is known to rise, or to fall."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Season:
    """A pattern that repeats: how high it is in the last cycle of the data, and where its top and bottom are.

    `top` and `bottom` are named as a calendar does (July) where it can, the most probable first, until `top_certainty`
    and `bottom_certainty` of the probability are reached. `p_value` is that of waves with the period in pure noise.
    `between` are the periods of several components that cannot be told from one pattern that changes as it goes.
    """

    column: str
    period: float
    rhythm: str | None
    swing: float
    low: float
    high: float
    top: tuple[str, ...]
    bottom: tuple[str, ...]
    top_certainty: float
    bottom_certainty: float
    growing: bool
    p_value: float
    between: tuple[float, float] | None = None


@dataclass(frozen=True)
class UnusualRow:
    """A row that stands out: its error, when it is left out, in units of the band, and how likely that is by chance.

    `p_value` is corrected for the number of rows (Bonferroni).
    """

    row: int
    at: str
    observed: float
    expected: float
    error: float
    p_value: float


@dataclass(frozen=True)
class UnusualRows:
    """The rows that stand out, the most unusual first, out of how many there are.

    `doubtful` is the nearest to it where none does, and it may not be by chance; `enough`: there are rows to see one.
    """

    rows: tuple[UnusualRow, ...]
    count: int
    checked: int
    column: str | None
    doubtful: UnusualRow | None = None
    enough: bool = True


@dataclass(frozen=True)
class Answer:
    """A question in a word, and the answer as a sentence."""

    question: str
    sentence: str


# ---------------------------------------------------------------------------------------------------------------- rates


def find_rate(subject: Subject) -> Claim | None:
    """Claim how much the target rises on average along the only input, or the only one of dates, the others held.

    None where there is none, where most kernels join it with another input, where there are too few rows or none left
    to tell noise by, or where what the model leaves over, or calls a season, rises or falls itself. The variance c'Cc
    holds if the kernel is right; c'y of what is left over says how well the slope is known in any case: n_e of n errors
    are independent, n / n_e = 1 + 2 sum_k r_k while these are positive.
    """
    place = subject.order_column
    if place is None or len(subject.data.y) < FEWEST_FOR_RATE or np.ptp(subject.data.X[:, place]) <= 0:
        return None
    if subject.freedom < count_numbers(subject):
        return None
    chosen, column = thin(len(subject.data.X)), subject.columns[place]
    rows, line = subject.data.X[chosen], Line.through(subject.in_user_units(place)[chosen])
    least = subject.noise_variance * line.own_variance * _count_repeats(subject)
    found, weights = list[tuple[float, float]](), list[float]()
    for kernel in subject.heard:
        slopes = _find_slopes(subject, kernel, place, rows, line)
        if slopes is not None:
            found.append((slopes[0], max(least, slopes[1])))
            weights.append(kernel.within)
    if sum(weights) < LIKELY * sum(kernel.within for kernel in subject.heard):
        return None
    means, variances = np.array(found).T
    known = average(np.array(weights)[:, None], means[:, None], variances[:, None])
    slope, reach = float(known.mean[0]), find_reach(subject, float(known.variance[0]))
    fitted = subject.level + subject.units.y_scale * subject.mean_at(rows)
    missed = abs(float(line.slopes @ (subject.targets[chosen] - fitted)))  # the slope of what the model leaves over
    if missed > MISSED * math.sqrt(subject.noise_variance * line.own_variance):
        return None
    per, units = choose_per(column)
    rate = Rate(column.name, slope, slope - reach, slope + reach, per, units, subject.only_column is None)
    evidence = ClaimEvidence(rows=len(subject.data.y))
    return Claim("rate", subject.target, rate, column.unit, certainty=0.95, evidence=evidence)


@dataclass(frozen=True, eq=False)
class Line:
    """A least-squares line over places: c'f is the slope of values f there, with c = x / x'x of centred places x."""

    places: Array
    centred: Array
    slopes: Array

    @classmethod
    def through(cls, places: Array) -> Line:
        """Return that of all places."""
        centred = places - places.mean()
        return cls(places, centred, centred / float(centred @ centred))

    @property
    def own_variance(self) -> float:
        """The variance of the slope of independent values of variance one: c'c."""
        return float(self.slopes @ self.slopes)


def find_reach(subject: Subject, variance: float) -> float:
    """Return the half-width of a 95 % interval whose variance rests on a noise that was fitted.

    With v = n - tr K A^-1 - k rows left (`Subject.freedom`, less the k numbers of the kernel), the noise is larger by
    (v + k) / v than the likelihood has it, and a difference over it has Student's t distribution.
    """
    from scipy.stats import t

    left = max(1.0, subject.freedom - count_numbers(subject))
    return float(t.ppf(0.975, left)) * math.sqrt(max(variance, 0.0) * max(1.0, min(subject.freedom / left, MOST_WIDER)))


def count_numbers(subject: Subject) -> float:
    """Return how many numbers the kernels have, by their weights."""
    weights = np.array([each.within for each in subject.heard])
    return float(weights @ [len(each.values) for each in subject.heard] / max(weights.sum(), 1e-12))


def _find_slopes(
    subject: Subject, kernel: PredictingKernel, place: int, rows: Array, line: Line
) -> tuple[float, float] | None:
    """Return the slope of all that is no season in a kernel along a column, and its variance.

    None where a season is partly a line, or where a part joins the column with others.
    """
    name = subject.columns[place].table_name
    kinds = [(part, kind) for part in kernel.parts if name in (kind := classify(subject, kernel, part)).columns]
    if any(kind.columns != (name,) for _, kind in kinds):
        return None
    kept = [part for part, kind in kinds if kind.name not in ("season", "constant", "noise")]
    slope = variance = 0.0
    if kept:
        part = kept[0] if len(kept) == 1 else subject.part_of(sum_of([each.scaled for each in kept]))
        slope = float(line.slopes @ mean_of(subject, kernel, part, rows))
        variance = float(line.slopes @ covariance_of(subject, kernel, part, rows) @ line.slopes)
    for part, kind in kinds:
        if kind.name == "season" and kind.period is not None:
            own, spread, left = _average_cycles(subject, kernel, (place, part), kind.period, line)
            if _is_slanted(left, line):
                return None
            slope, variance = slope + own, variance + spread
    return slope, variance


def _average_cycles(
    subject: Subject, kernel: PredictingKernel, along: tuple[int, KernelPart], period: float, line: Line
) -> tuple[float, float, Array]:
    """Return the slope of a season averaged over a cycle around each place, its variance, and what is left of it.

    LIN * PER holds a line beside a season that grows, as PER has a mean: sum_j f(x + d_j) / J has the line alone.
    """
    place, part = along
    few = thin(len(line.places), MOST_AVERAGED)
    short = Line.through(line.places[few])
    shifts = period * ((np.arange(SHIFTS) + 0.5) / SHIFTS - 0.5)
    moved = subject.rows_along(place, (short.places[None, :] + shifts[:, None]).ravel())
    cycle = mean_of(subject, kernel, part, moved).reshape(SHIFTS, -1).mean(axis=0)
    weights = np.tile(short.slopes, SHIFTS) / SHIFTS
    spread = float(weights @ covariance_of(subject, kernel, part, moved) @ weights)
    season = mean_of(subject, kernel, part, subject.rows_along(place, line.places))
    left = season - np.interp(line.places, *sort_by(short.places, cycle))
    return float(short.slopes @ cycle), max(spread, 0.0), left


def sort_by(places: Array, values: Array) -> tuple[Array, Array]:
    """Return both in the order of the places."""
    order = np.argsort(places, kind="stable")
    return places[order], values[order]


def _count_repeats(subject: Subject) -> float:
    """Return how many errors say what one independent error would: 1 + 2 sum_k r_k over the first positive r_k."""
    errors = subject.one_step_errors[1]
    if len(errors) < FEWEST_FOR_RATE or not np.ptp(errors) > 0:
        return 1.0
    total = 1.0
    for own in correlations(errors, max(1, min(MOST_LAGS, len(errors) // 5))):
        if own <= WITHIN_95 / math.sqrt(len(errors)):
            break
        total += 2.0 * float(own)
    return total


def _is_slanted(season: Array, line: Line) -> bool:
    """Whether a season is partly a line: a period that is slightly off can follow a trend through its cycle."""
    return float(np.var(float(line.slopes @ season) * line.centred)) > MOST_SLANT * float(np.var(season))


def choose_per(column: Column) -> tuple[str | None, float]:
    """Return a stretch of time that a rate is given for, and how many units of the column it has.

    A year where the data are of that length, else a day of shorter ones, else a unit of the column.
    """
    if column.unit not in DAYS or column.span is None:
        return None, 1.0
    days = column.span * DAYS[column.unit]
    for per, length in (("year", 365.25), ("day", 1.0)):
        if days >= length and DAYS[column.unit] <= length:
            months = {"months": 12.0, "years": 1.0}.get(column.unit) if per == "year" else None
            return per, months or length / DAYS[column.unit]
    return column.unit.removesuffix("s"), 1.0


# -------------------------------------------------------------------------------------------------------------- seasons


def find_seasons(curves: Curves) -> list[Claim]:
    """Claim the height of every season that is likely there, and when it is highest and lowest."""
    subject, found = curves.subject, []
    for group in curves.season_groups:
        component = curves.join_seasons(group)
        place = curves.column_of(component)
        if place is None:
            continue
        season = _describe_season(curves, component, group, place)
        if season is not None:
            places = tuple(curves.components.index(each) for each in group)
            evidence = ClaimEvidence(components=places, p_value=season.p_value, rows=len(subject.data.y))
            unit = subject.columns[place].unit
            found.append(Claim("season", subject.target, season, unit, component.certainty, evidence))
    return sorted(found, key=lambda claim: -claim.value.swing)


def _describe_season(
    curves: Curves, component: GatheredComponent, group: Sequence[GatheredComponent], place: int
) -> Season | None:
    """Look at the last cycle of the data, at their own spacing, under curves drawn from the kernels with the season.

    group : the components that the season is made of. place : the column that it goes along.
    """
    subject, period, column = curves.subject, component.kind.period, curves.subject.columns[place]
    step, last = subject.step_along(place), float(subject.in_user_units(place).max())
    if period is None or step <= 0:
        return None
    count = max(2, round(period / step))
    back = np.arange(float(min(count, MOST_PLACES)))[::-1] * max(1.0, count / MOST_PLACES)
    places = last - step * back  # as the data are spaced: 12.02 months are twelve of them
    rows = subject.rows_along(place, places)
    drawn = [_draw(subject, each, rows) for each in component.members if each.of.within > 0]
    known = np.hstack([each for each in drawn if each is not None]) if any(d is not None for d in drawn) else None
    if known is None:
        return None
    mean = curves.at(component, rows).mean / max(component.certainty, 1e-12)
    contrast = np.zeros(len(rows))
    contrast[int(np.argmax(mean))], contrast[int(np.argmin(mean))] = 1.0, -1.0
    labels = [name_place(column, period, float(at)) for at in places]
    top, top_sure = _name_most(labels, known.argmax(axis=0), int(np.argmax(mean)))
    bottom, bottom_sure = _name_most(labels, known.argmin(axis=0), int(np.argmin(mean)))
    least = [_know_pattern(subject, each.part, (place, period), places, contrast) for each in component.members]
    swing, reach = float(np.ptp(mean)), _find_swing_reach(subject, component, rows, contrast, least)
    low, high = swing - reach, swing + reach
    return Season(
        column.name, period, column.rhythm(period), swing, max(low, 0.0), high, top, bottom,
        top_sure, bottom_sure, len(group) == 1 and is_growing(curves, component),
        min(curves.test_season(each) or 0.0 for each in group), curves.find_between(group[0]),
    )  # fmt: skip


def _find_swing_reach(
    subject: Subject, component: GatheredComponent, rows: Array, contrast: Array, least: Sequence[float]
) -> float:
    """Return the half-width of the 95 % interval of c'f, the top of a season less its bottom.

    least : for each kernel with the season, the variance that is no smaller whatever its lengthscales.
    """
    members = [(each, known) for each, known in zip(component.members, least, strict=True) if each.of.within > 0]
    means = [float(contrast @ mean_of(subject, each.of, each.part, rows)) for each, _ in members]
    own = [float(contrast @ covariance_of(subject, each.of, each.part, rows) @ contrast) for each, _ in members]
    spreads = np.maximum(own, [known for _, known in members])
    weights = np.array([[each.of.within] for each, _ in members])
    found = average(weights, np.array(means)[:, None], spreads[:, None])
    return find_reach(subject, float(found.variance[0]))


def _know_pattern(
    subject: Subject, part: KernelPart, season: tuple[int, float], places: Array, contrast: Array
) -> float:
    """Return the variance of c'f by a regression on waves, and on waves that grow where the kernel has them grow.

    A lengthscale that was fitted rules overtones out, and a factor LIN how much a season grows, as if they were known:
    s2 c'W (H'H)^-1 W'c, with the waves H at the rows and W at the places, is how well the rows say it in any case.

    season : the column that it goes along, and its period.
    """
    place, period = season
    at, step = subject.in_user_units(place), subject.step_along(place)
    waves, there = (list_waves(each, len(at), period, step) for each in (at, places))
    if not all(leaf.spec.stationary for leaf in part.kernel.leaves()):
        middle, half = float(at.mean()), float(np.ptp(at)) / 2.0
        waves, there = (
            np.hstack([own, own * ((each - middle) / half)[:, None]]) for own, each in ((waves, at), (there, places))
        )
    weights = contrast @ there
    known = float(weights @ np.linalg.pinv(waves.T @ waves) @ weights)
    return subject.noise_variance * _count_repeats(subject) * known


def _draw(subject: Subject, member: MemberPart, rows: Array) -> Array | None:
    """Draw curves of what a kernel has of a season (rows x draws), as many as its weight asks for."""
    count = max(1, round(DRAWS * member.of.within))
    factor = factorise(covariance_of(subject, member.of, member.part, rows).copy)
    mean = mean_of(subject, member.of, member.part, rows)[:, None]
    if isinstance(factor, Failure):
        return np.repeat(mean, count, axis=1)
    return np.asarray(mean + factor.multiply(np.random.default_rng(0).standard_normal((len(rows), count))))


def _name_most(labels: Sequence[str], drawn: Array, best: int) -> tuple[tuple[str, ...], float]:
    """Return the most probable places, that of the mean first, until they are sure enough or too many."""
    chances: dict[str, float] = {}
    for place in drawn:
        chances[labels[place]] = chances.get(labels[place], 0.0) + 1.0 / len(drawn)
    names = [labels[best], *sorted((n for n in chances if n != labels[best]), key=lambda n: -chances[n])]
    named, sure = list[str](), 0.0
    for name in names[:MOST_MONTHS]:
        named.append(name)
        sure += chances.get(name, 0.0)
        if sure >= SURE:
            break
    return tuple(named), sure


MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
          "November", "December")  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def name_place(column: Column, period: float, value: float) -> str:
    """Name a place in a cycle as a calendar does: the month of a year, the day of a week, the hour of a day."""
    rhythm = column.rhythm(period)
    if column.moment is None or rhythm not in ("yearly", "weekly", "daily"):
        return column.at(value)
    moment = column.moment(value)
    if rhythm == "yearly":
        return MONTHS[int(moment.astype("datetime64[M]").astype(int) % 12)]
    if rhythm == "weekly":
        return WEEKDAYS[int((moment.astype("datetime64[D]").astype(int) + 3) % 7)]  # 1970-01-01 was a Thursday
    return f"{int(moment.astype('datetime64[h]').astype(int) % 24)}:00"


# --------------------------------------------------------------------------------------------------------- unusual rows


def find_unusual(subject: Subject, jumps: Sequence[float] = ()) -> Claim:
    """Claim which rows stand out: by their left-out error in units of its band, corrected for their number.

    jumps : places from which on the level is another one; the rows on both sides of them are as it is.
    """
    from scipy.stats import t

    left, scale = subject.left_out, subject.units.y_scale
    errors = (subject.data.y - left.mean) / np.sqrt(left.variance)
    narrow = max(1.0, MAD * float(np.median(np.abs(errors))))
    errors = errors / narrow  # bands that are too narrow make no outliers
    chances = np.minimum(1.0, 2.0 * t.sf(np.abs(errors), min(FREEDOM, max(1, len(errors) - 1))) * len(errors))
    along = subject.order_column
    places, step = (None, 0.0) if along is None else (subject.in_user_units(along), subject.step_along(along))
    near = np.zeros(len(errors), dtype=bool)
    if places is not None:
        for jump in jumps:
            near |= np.abs(places - jump + step / 2.0) < 2.0 * step
    ranked = [int(i) for i in np.argsort(-np.abs(errors)) if not near[i]]
    order = [row for row in ranked if chances[row] < UNUSUAL]

    def describe(row: int) -> UnusualRow:
        at = f"row {row + 1}"
        if along is not None and places is not None:
            at = subject.columns[along].at(float(places[row]), step)
        expected = subject.level + scale * float(left.mean[row])
        numbers = float(subject.targets[row]), expected, float(errors[row]), float(chances[row])
        return UnusualRow(row, at, *numbers)

    name = None if along is None else subject.columns[along].name
    doubtful = describe(ranked[0]) if ranked and not order and chances[ranked[0]] < MAY_BE_UNUSUAL else None
    enough = narrow < MUCH_TOO_NARROW and subject.freedom >= ROWS_FOR_UNUSUAL * count_numbers(subject)
    found = tuple(describe(row) for row in order[:MOST_NAMED])
    value = UnusualRows(found, len(order), len(errors), name, doubtful, enough)
    return Claim(
        "unusual rows", subject.target, value, certainty=1.0 - UNUSUAL, evidence=ClaimEvidence(rows=len(errors))
    )
