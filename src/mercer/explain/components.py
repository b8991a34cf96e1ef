"""What components and inputs do: worth on rows left out, how far they are known beyond the data, effects.

Their worth, as in the Automatic Statistician: rows are left out in folds (parameters stay), every component is
predicted there from the other rows, and components are added one by one, each time the one that takes most off the
mean absolute error. Each counts without its mean over the rows it is predicted from, and beside the mean of their
targets: components can hand a constant back and forth, differently in every fold, which would hide what they do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mercer.compute import fused
from mercer.errors import NumericalError
from mercer.explain import phrases
from mercer.explain.categories import LevelEffect, measure_levels, rows_by_level
from mercer.explain.claims import WITHIN_95, Claim, ClaimEvidence, round_all
from mercer.explain.phrases import LITTLE, Joint, change, correlation, drifts, judge_by_rule
from mercer.explain.subject import KernelPart, Subject
from mercer.explain.wording import Column
from mercer.explain.words import FARTHEST, Narrator
from mercer.inference.likelihood import Gaussian
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression, contains
from mercer.kernels.functional import Functional
from mercer.kernels.network import Network

BAND_DIGITS = 6
NEGLIGIBLE = 0.0005  # a share of the variance (error) below which a slope (a component) is not worth naming
MINOR = 0.001  # a share of the variance below which a component that removes no error is too small to matter
FOLDS = 10
FEW_FOLDS, MANY_ROWS = 3, 3000  # beyond this many rows ten factorisations would be felt
FORGOTTEN = 0.9  # of the width that a band would have without data
NEAR = 0.5  # of the spread of the data: a mean that close to their average says no more than it
FORECAST_AT = (0.05, 0.1, 0.2)  # shares of the range
STEPS = 41
EXCHANGED = 24  # rows whose columns are exchanged with each other
NO_PART, TOGETHER = 0.01, 0.02  # of a component's variance: less is no effect of a column, no interaction
SMALL = 0.001  # of the variance of the target: what a smaller component joins is not worth a sentence
MOST_COLUMNS = 8  # exchanged; with more the kernel alone is looked at
MOST_EXCHANGED = 500  # rows that say how much an input matters
HARDLY = 0.05  # of the standard deviation of the target: smaller effects are not worth a direction


@dataclass(frozen=True)
class ComponentFacts:
    """One summand of the kernel, in the user's units: how its columns go together, and the slope of a line."""

    kernel: Expression
    joint: Joint | None = None  # None: judged by the kernel alone
    slope: float | None = None
    horizon: float | None = None  # how far beyond the data it is known; None: without end


@dataclass(frozen=True)
class ComponentExplanation:
    """One summand of the kernel.

    `position` is its place in the canonical form; `share` the variance of its posterior mean over the training rows
    relative to that of the target; `removed` the share of the held-out error that goes when it is added to those
    listed before it; `mean` and `std` its posterior at the training rows; `horizon` how far beyond the data anything
    is known of it (None: without end, or not said because it looks at several columns). A `minor` one is too small to
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


def explain_components(
    subject: Subject, joints: Sequence[Joint], ranking: Contributions | None, narrator: Narrator
) -> tuple[ComponentExplanation, ...]:
    """Explain every component, the one that removes most held-out error first, `minor` ones last."""
    removed: dict[int, float] = {}
    if ranking is not None and ranking.errors[0] > 0:
        steps = -np.diff(ranking.errors) / ranking.errors[0]
        removed = dict(zip(ranking.order, map(float, steps), strict=True))
    found = []
    for place, (part, joint) in enumerate(zip(subject.parts, joints, strict=True)):
        alone = len(part.columns) == 1 and not subject.columns[part.columns[0]].is_category
        horizon = part_horizon(subject, part) if alone else None
        found.append(_explain_component(subject, place, removed.get(place), joint, horizon, narrator))
    order = sorted(range(len(found)), key=lambda place: -found[place].share) if ranking is None else ranking.order
    kernels, shares = [part.kernel for part in subject.parts], [component.share for component in found]
    titles = phrases.distinct([component.title for component in found], kernels, subject.columns, shares)
    named = [replace(found[place], title=titles[place]) for place in order]
    if all(component.minor for component in named):
        return tuple(replace(component, minor=False) for component in named)
    return tuple(sorted(named, key=lambda component: component.minor))


def _explain_component(
    subject: Subject, place: int, removed: float | None, joint: Joint, horizon: float | None, narrator: Narrator
) -> ComponentExplanation:
    part, columns, about = subject.parts[place], subject.columns, ClaimEvidence(components=(place,))
    column = columns[part.columns[0]] if len(part.columns) == 1 else None
    at_rows = subject.part_at(part, subject.data.X)
    std = np.sqrt(at_rows.variance)
    share = float(np.var(at_rows.mean)) / subject.variance
    is_line = isinstance(part.kernel, Base) and part.kernel.spec.words.role == "trend"
    slope, continuation, removed_sentence = None, "", ""
    if column is not None and is_line and share >= NEGLIGIBLE:  # then its posterior mean is a line exactly
        places = subject.in_user_units(part.columns[0])
        low, high = int(np.argmin(places)), int(np.argmax(places))
        if places[high] > places[low]:
            slope = float(at_rows.mean[high] - at_rows.mean[low]) / float(places[high] - places[low])
            narrator.claims.append(Claim("trend", column.name, slope, column.unit, evidence=about))
    if column is not None and not column.is_category:
        facts = ComponentFacts(part.kernel, joint, slope, horizon)
        continuation = narrator.say(Claim("continuation", column.name, facts, column.unit, evidence=about))
    facts = ComponentFacts(part.kernel, joint, slope)
    sentence = narrator.say(Claim("component", subject.target, facts, evidence=about))
    if removed is not None:
        removed_sentence = narrator.say(Claim("removed error", subject.target, removed, evidence=about))
    return ComponentExplanation(
        position=place,
        title=phrases.title(part.kernel, columns, len(subject.table_columns) < 2, joint),
        kernel=part.text,
        kernel_exact=part.exact,
        sentence=sentence,
        share=share,
        removed=removed,
        removed_sentence=removed_sentence,
        horizon=horizon,
        continuation=continuation,
        std_low=float(np.min(std)),
        std_high=float(np.max(std)),
        minor=share < MINOR and removed is not None and removed < NEGLIGIBLE,
        mean=round_all(at_rows.mean, BAND_DIGITS),
        std=round_all(std, BAND_DIGITS),
    )


# -------------------------------------------------------------------------------------------------------- rows left out


@dataclass(frozen=True, eq=False)
class Contributions:
    """Components by number, best first, with the held-out error (user's units) before any and after each."""

    folds: int
    order: tuple[int, ...]
    errors: tuple[float, ...]  # one more than components


def rank_contributions(subject: Subject) -> Contributions | None:
    """Return the order by held-out error; None where it cannot be computed."""
    count = subject.data.count
    folds = min(count, FOLDS if count <= MANY_ROWS else FEW_FOLDS)
    try:
        means, level = held_out_parts(subject, folds)
    except NumericalError:
        return None
    left, order, rest = list(range(len(means))), list[int](), subject.data.y - level
    errors = [float(np.abs(rest).mean())]
    while left:
        after = [float(np.abs(rest - means[place]).mean()) for place in left]
        best = int(np.argmin(after))
        errors.append(after[best])
        rest = rest - means[left[best]]
        order.append(left.pop(best))
    return Contributions(folds, tuple(order), tuple([subject.units.y_scale * error for error in errors]))


def held_out_parts(subject: Subject, folds: int) -> tuple[Array, Array]:
    """Return every component's mean at every row, from a posterior without the row's fold (parts x rows, scaled).

    Each less its mean over the rows of that posterior; also the mean of their targets, for every row.
    """
    X, y = subject.data.X, subject.data.y
    fold = np.random.default_rng(0).permutation(len(y)) % folds
    means, level = np.empty((len(subject.parts), len(y))), np.empty(len(y))
    program, values = subject.whole.program, subject.whole.values
    for number in range(folds):
        out = fold == number
        posterior = subject.engine.posterior(program, values, Gaussian(subject.noise), subject.data.take(~out))
        level[out] = y[~out].mean()
        for place, part in enumerate(subject.parts):
            mean = posterior.predict_part(part.program, part.values, np.vstack([X[out], X[~out]])).mean
            means[place, out] = mean[: out.sum()] - mean[out.sum() :].mean()
    return means, level


# ------------------------------------------------------------------------------------------------------ beyond the data


@dataclass(frozen=True)
class Forecast:
    """Mean and 95 % band of a new observation at a distance beyond the data; `at` is the place."""

    at: str
    distance: float
    mean: float
    low: float
    high: float
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
class Horizon:
    """How far beyond the data the band is narrower than the spread of the data themselves (None: without end)."""

    distance: float | None
    returns: bool  # the mean has come back to their average there; that of a trend or a random walk has not
    below: bool = False  # at the lower end of the data, not at the upper one


def extrapolate(
    subject: Subject,
    components: Sequence[ComponentExplanation],
    column: Column,
    horizon: Horizon,
    found: Sequence[Forecast],
    narrator: Narrator,
) -> Extrapolation:
    """Say what comes beyond the data along the only input, and how far that can be trusted."""
    claims = [Claim("forecast", column.name, each, column.unit, certainty=0.95) for each in found]
    forecasts = tuple(narrator.complete(claim) for claim in claims)
    sentence = narrator.say(Claim("horizon", column.name, horizon, column.unit))
    largest = subject.parts[max(components, key=lambda component: component.share).position].kernel
    if not (contains(largest, Network) or contains(largest, Functional)) and drifts(largest, subject.columns):
        sentence += " " + narrator.say(Claim("random walk", column.name))
    return Extrapolation(column.name, column.unit, horizon.distance, sentence, forecasts)


def part_horizon(subject: Subject, part: KernelPart) -> float | None:
    """Return how far beyond the data a summand on one column is known; None: farther than anyone should look.

    Known means that its band is narrower than `FORGOTTEN` times what it would be without data. Looks in the direction
    of larger values; nothing changes in the other one for any kernel but LIN. A wave is known again after a gap in its
    cycle: what counts is from where on nothing is known.
    """
    (column,) = part.columns
    distances = _distances(subject, column)
    rows = subject.rows_along(column, float(subject.in_user_units(column).max()) + distances)
    scale = subject.units.y_scale**2
    limit = FORGOTTEN**2 * scale * fused.diagonal(part.program, part.values, rows)
    variance = subject.part_at(part, rows).variance
    known = variance < limit
    level = scale * float(subject.posterior.level.variance[0])
    if not known[0] and variance[0] - level < limit[0]:
        # All that is not known is a constant, which the level may have as well: where would the summand be known if it
        # were known exactly at the last row, and nowhere else?
        left = [[correlation(leaf, 0, float(d)) for leaf in part.kernel.leaves()] for d in distances]
        known = np.array([1 - math.prod(c for c in each if c is not None) ** 2 < FORGOTTEN**2 for each in left])
    if known[-1]:
        return None
    last = np.flatnonzero(known)
    return _no_step(subject, column, float(distances[last[-1] + 1])) if len(last) else 0.0


def find_horizon(subject: Subject, column: int) -> Horizon:
    """Return how far beyond the data the band of new observations is narrower than the spread of the data themselves.

    For dates to the future, for other numbers in both directions: the nearer one counts.
    """
    distances, places = _distances(subject, column), subject.in_user_units(column)
    average, spread = float(np.mean(subject.data.y)), float(np.std(subject.data.y))  # scaled
    beyond, found = [float(places.max()) + distances], []
    if subject.columns[column].unit is None:
        beyond.append(float(places.min()) - distances)
    for below, values in enumerate(beyond):
        ahead = subject.mixture.predict(subject.rows_along(column, values), include_noise=True)
        wide = np.flatnonzero(np.sqrt(ahead.variance) >= spread)
        if len(wide):
            returns = abs(float(ahead.mean[wide[0]]) - average) < NEAR * spread
            distance = _no_step(subject, column, float(distances[wide[0]]))
            found.append(Horizon(distance, returns, bool(below)))
    return min(found, key=lambda each: each.distance or 0.0, default=Horizon(None, False))


def forecast(subject: Subject, column: int) -> list[Forecast]:
    """Predict at some distances beyond the last row, in whole steps of the data."""
    values = np.unique(subject.in_user_units(column))
    span, step = float(values[-1] - values[0]), float(np.median(np.diff(values)))
    distances = np.unique([step * max(1, round(share * span / step)) for share in FORECAST_AT])
    ahead = subject.mixture.predict(subject.rows_along(column, values[-1] + distances), include_noise=True)
    mean = subject.level + subject.units.y_scale * ahead.mean
    reach = WITHIN_95 * subject.units.y_scale * np.sqrt(ahead.variance)
    found = []
    for d, m, r in zip(distances, mean, reach, strict=True):
        at = subject.columns[column].at(float(values[-1] + d))
        found.append(Forecast(at, float(d), float(m), float(m - r), float(m + r)))
    return found


def _distances(subject: Subject, column: int) -> Array:
    return np.concatenate([[0.0], np.geomspace(1e-3, FARTHEST, 80)]) * float(np.ptp(subject.in_user_units(column)))


def _no_step(subject: Subject, column: int, distance: float) -> float:
    """Return zero for less than one step of the data."""
    steps = np.diff(np.unique(subject.in_user_units(column)))
    return distance if distance >= float(np.median(steps)) else 0.0


# --------------------------------------------------------------------------------------------------------------- inputs


@dataclass(frozen=True)
class InputEffect:
    """How the mean moves along one column of the table, the others at their median or most common category.

    `direction` is "rises", "falls", "goes up and down", "differs" (categories), "depends on others" (it hardly moves
    there, but elsewhere) or "hardly matters"; the places of the lowest and highest mean are written as a reader would.
    """

    column: str
    size: float
    direction: str
    lowest_at: str
    highest_at: str
    sentence: str = ""
    levels: tuple[LevelEffect, ...] = ()  # of categories, averaged over the rows, the largest first


def find_effects(subject: Subject, finished: bool) -> list[Claim]:
    """Claim the effect of every input that varies, the largest first; none of a single one that is a curve.

    `finished`: there was time to look for all of them.
    """
    found = []
    for name, places in subject.table_columns.items() if subject.only_column is None else ():
        column = subject.columns[places[0]]
        levels: tuple[LevelEffect, ...] = ()
        if not column.is_category:
            values = subject.in_user_units(places[0])
            grid = np.linspace(values.min(), values.max(), STEPS)
            rows, labels = subject.rows_along(places[0], grid), [column.at(float(value)) for value in grid]
        else:
            labels, encoded = rows_by_level(subject, places)
            rows = np.tile(subject.typical_row(), (len(labels), 1))
            rows[:, list(places)] = encoded
            levels = measure_levels(subject, places)
        mean = subject.units.y_scale * subject.posterior.predict(rows).mean
        size, steps = float(np.ptp(mean)), np.diff(mean)
        if size < HARDLY * float(np.std(subject.targets)):
            matters = share_of_input(subject, places) >= HARDLY**2
            direction = "depends on others" if matters else "hardly matters"
        elif column.is_category:
            direction = "differs"
        elif np.all(steps >= -0.01 * size):
            direction = "rises"
        else:
            direction = "falls" if np.all(steps <= 0.01 * size) else "goes up and down"
        ends = labels[int(np.argmin(mean))], labels[int(np.argmax(mean))]
        found.append(InputEffect(name, size, direction, *ends, levels=levels))
    evidence = ClaimEvidence(all_finished=finished)
    found.sort(key=lambda effect: -effect.size)
    sure = {effect.column: 0.95 if effect.levels else None for effect in found}  # of the bands of categories
    return [Claim("effect", each.column, each, certainty=sure[each.column], evidence=evidence) for each in found]


def share_of_input(subject: Subject, places: Sequence[int]) -> float:
    """Return the share of the variance that goes with an input, alone or with others: its total Sobol index.

    Half the mean square by which the mean moves when rows get each other's values of the input, over the variance.
    """
    rows = subject.data.X[:: max(1, len(subject.data.X) // MOST_EXCHANGED)]
    exchanged = rows.copy()
    exchanged[:, list(places)] = np.roll(rows[:, list(places)], len(rows) // 2, axis=0)
    moved = subject.posterior.predict(exchanged).mean - subject.posterior.predict(rows).mean
    return float(0.5 * np.mean((subject.units.y_scale * moved) ** 2) / np.var(subject.targets))


def judge_joint(subject: Subject, part: KernelPart) -> Joint:
    """Find which columns of a component do nothing, and whether the effects of the others just add up.

    A product of kernels need not be an interaction: (a + u)(b + v) with u small beside a is a sum but for the term uv.
    So the mean of the component is looked at where each table column is exchanged between rows: how much of its
    variance has the column by itself, and how much together with the others?
    """
    sets: dict[str, list[int]] = {}
    for d in part.columns:
        sets.setdefault(subject.columns[d].table_name, []).append(d)
    if not 1 < len(sets) <= MOST_COLUMNS:
        return judge_by_rule(part.kernel, subject.columns)
    rows = subject.data.X[np.random.default_rng(0).permutation(subject.data.count)[:EXCHANGED]]
    count, idle, apart = len(rows), list[int](), list[int]()
    for own in sets.values():
        mixed = np.tile(rows, (count, 1))  # row i * count + j has `own` from row i, the other columns from row j
        mixed[:, own] = np.repeat(rows[:, own], count, axis=0)
        mean = subject.part_at(part, mixed).mean.reshape(count, count)
        total = float(mean.var()) or 1.0
        by_own, by_others = mean.mean(axis=1), mean.mean(axis=0)
        rest = mean - by_own[:, None] - by_others[None, :] + mean.mean()
        alone, together = float(by_own.var()) / total, float(rest.var()) / total
        if alone + together < NO_PART:
            idle += own
        apart += own if together < TOGETHER else []
    return Joint(frozenset(idle), len(apart) == len(part.columns), frozenset(apart))


def find_interactions(subject: Subject, joints: Sequence[Joint]) -> list[Claim]:
    """Claim which inputs act together, or that none do; nothing where there is only one.

    `joints` are those of the components. A linear kernel on several columns is a sum over them, and joins nothing; nor
    does a lengthscale far beyond the range of its column.
    """
    if len(subject.table_columns) < 2:
        return []
    found: list[tuple[str, ...]] = []
    for part, joint in zip(subject.parts, joints, strict=True):
        if joint.add_up or (isinstance(part.kernel, Base) and part.kernel.spec.words.role == "trend"):
            continue
        relevant: set[int] = set()
        for leaf in part.kernel.leaves():
            for place, d in enumerate(leaf.columns):
                if leaf.spec.words.role == "trend" or change(leaf, place, subject.columns[d]) >= LITTLE:
                    relevant.add(d)
        names = tuple(dict.fromkeys(subject.columns[d].table_name for d in sorted(relevant - joint.idle - joint.apart)))
        if len(names) < 2 or names in found:
            continue
        if float(np.var(subject.part_at(part, subject.data.X).mean)) >= SMALL * float(np.var(subject.targets)):
            found.append(names)
    claims = [Claim("interaction", subject.target, names) for names in found]
    return claims or [Claim("no interaction", subject.target)]
