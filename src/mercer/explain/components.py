"""What components and inputs do: worth on rows left out, how far they are known beyond the data, effects.

Their worth, as in the Automatic Statistician: rows are left out in folds (parameters stay), every component is
predicted there from the other rows, and components are added one by one, each time the one that takes most off the
mean absolute error. Each counts without its mean over the rows it is predicted from, and beside the mean of their
targets: components can hand a constant back and forth, differently in every fold, which would hide what they do.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from mercer.compute import fused
from mercer.errors import NumericalError
from mercer.explain import phrases
from mercer.explain.answers import find_reach
from mercer.explain.categories import LevelEffect, measure_levels, rows_by_level
from mercer.explain.checks import SEEN
from mercer.explain.claims import WITHIN_95, Claim, ClaimEvidence, round_all
from mercer.explain.factors import Joint, correlation, drifts, read_factors
from mercer.explain.gathering import (
    ComponentKind,
    Curves,
    GatheredComponent,
    LikelyKind,
    MemberPart,
    gather,
    is_growing,
    is_noise,
    judge_joint,
    name_joined,
    share_out,
)
from mercer.explain.phrases import Jump, Seen
from mercer.explain.subject import HEARD, Subject, summand_mean
from mercer.explain.wording import Column
from mercer.explain.words import CHANCE, FARTHEST, LIKELY, Narrator, gathered_title
from mercer.inference.contract import Prediction
from mercer.inference.likelihood import Gaussian
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression, Sum, contains
from mercer.kernels.functional import Functional
from mercer.kernels.network import Network

BAND_DIGITS = 6
NEGLIGIBLE = 0.0005  # a share of the variance (error) below which a slope (a component) is not worth naming
MINOR = 0.001  # a share of the variance below which a component that removes no error is too small to matter
FOLDS = 10
FEW_FOLDS, MANY_ROWS = 3, 1000  # beyond this many rows ten factorisations would be felt
FORGOTTEN = 0.9  # of the width that a band would have without data
NEAR = 0.5  # of the spread of the data: a mean that close to their average says no more than it
FORECAST_AT = (0.05, 0.1, 0.2)  # shares of the range
MOVED = 0.1  # of the weight: kernels with a component have so much more or less of it beyond the data than within
MAY_JUMP = ("random walk", "variation", "short-lived variation", "slow change")  # kinds whose curve may be a jump
FEWEST_FOR_JUMP, JUMP_OF_SWING, JUMP_OF_WAYS = 20, 0.6, 0.4  # rows; of the swing, and of all steps together
NEXT = 3  # values that are always forecast
MOST_BETWEEN = 100  # steps that are looked at one by one
NOT_SINUSOIDAL = 0.05  # of the variance of a wave: less beside its first harmonic, and it is a sine
AVERAGE = 0.1  # of its swing over the data: what is nearer to its average has returned to it
NEARLY_WHOLE = 0.02  # of a period that a calendar has a name for: a fitted one is a little off it
NEARLY_ALWAYS = 0.9  # of the places from where on a band is called wide
EVERY_STEP = 120  # first steps beyond the data that are all looked at: a season is wide and narrow within a cycle
AT_REST = 0.05  # of its swing over the data: a component that moves less beyond them stays where it is
STEPS = 41
MOST_EXCHANGED = 500  # rows that say how much an input matters
LOST_IN_NOISE = 0.1  # of its variance: what inputs do together and is less may be the wiggles of a fit
TWICE = 2.0  # standard deviations of a difference: a move that is smaller is none
FOUR_TIMES, LEAST_TURN = 4.0, 0.15  # a turn is sought at all places and needs more; of the whole: a smaller is none
MOSTLY_WITH_OTHERS = 0.25  # of the variance that goes with an input: with less by itself, it acts with others
HARDLY = 0.05  # of the standard deviation of the target: smaller effects are not worth a direction


@dataclass(frozen=True)
class ComponentFacts:
    """One summand of the kernel, in the user's units: how its columns go together, and the slope of a line."""

    kernel: Expression
    joint: Joint | None = None  # None: judged by the kernel alone
    slope: float | None = None
    horizon: float | None = None  # how far beyond the data it is known; None: without end
    seen: Seen | None = None  # what its curve shows; None: judged by the kernel alone
    rest: float | None = None  # where it stays beyond the data, less its average over them; None: it moves on
    p_value: float | None = None  # of a season in pure noise
    between: tuple[float, float] | None = None  # periods of seasons that cannot be told from one that changes


@dataclass(frozen=True)
class ContinuedFacts:
    """What a component of an average does beyond the data, by the kernel with most weight there."""

    kernel: Expression
    horizon: float | None
    weight: float
    rest: float | None


@dataclass(frozen=True)
class GatheredFacts:
    """What the kernels of an average have of one kind: how sure it is, and the lengths over which it varies."""

    kind: ComponentKind
    certainty: float
    certainty_beyond: float
    lengths: tuple[float, float] | None = None  # the shortest and the longest of kernels that have a say
    growing: bool = False  # the swings of a season
    jump: Jump | None = None  # most of what it does
    likely: LikelyKind | None = None  # what it is most probably, where kernels differ about that
    p_value: float | None = None  # of a season in pure noise
    between: tuple[float, float] | None = None  # periods of seasons that cannot be told from one that changes


@dataclass(frozen=True)
class ComponentExplanation:
    """One component of what predicts: a summand of the kernel, or of an average all summands of one kind.

    `position` is its place in `gather`; `share` that of the variance of the target, shares and noise adding up to one;
    `certainty` how sure it is that it is there, `certainty_beyond` the weight of the kernels with it in a forecast;
    `removed` the share of the held-out error that goes when it is added to those listed before it; `mean` and `std`
    its posterior at the training rows, centred over them; `horizon` how far beyond the data anything is known of it
    (None: without end, or not said because it looks at several columns). A `minor` one is too small to matter within
    the data; they come last.
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
    certainty: float = 1.0
    certainty_beyond: float = 1.0
    p_value: float | None = None  # of a season in pure noise
    noise: bool = False  # rows have nothing of it in common: it is counted as noise

    @property
    def likely(self) -> bool:
        """Whether it is more likely there than not, and no chance."""
        return self.certainty >= LIKELY and (self.p_value is None or self.p_value < CHANCE)


def explain_components(
    curves: Curves, ranking: Contributions | None, narrator: Narrator
) -> tuple[ComponentExplanation, ...]:
    """Explain every component, the one that removes most held-out error first, `minor` ones last."""
    subject, removed = curves.subject, dict[int, float]()
    if ranking is not None and ranking.errors[0] > 0:
        steps = -np.diff(ranking.errors) / ranking.errors[0]
        removed = dict(zip(ranking.order, map(float, steps), strict=True))
    at_rows = [curves.at_rows(component) for component in curves.components]
    noise = subject.noise_variance / subject.variance
    noisy = [is_noise(subject, component) for component in curves.components]
    means = [each.mean * (not own) for each, own in zip(at_rows, noisy, strict=True)]
    shares = share_out(means, subject.targets, noise)
    found = []
    for place, component in enumerate(curves.components):
        unheard = max(component.certainty, component.certainty_beyond) < HEARD
        if (component.kind.name == "constant" or unheard or noisy[place]) and not subject.alone:
            continue  # a centred constant is nothing: all of it is in the level; noise is said once
        if subject.alone:
            titles = _describe_summand(curves, place, shares[place], at_rows[place], narrator)
        else:
            titles = _describe_gathered(curves, place, narrator)
        removed_sentence, own = "", removed.get(place)
        if own is not None:
            about = ClaimEvidence(components=(place,))
            removed_sentence = narrator.say(Claim("removed error", subject.target, own, evidence=about))
        std, part = np.sqrt(at_rows[place].variance), component.members[0].part
        unlikely = component.certainty < HEARD  # only beyond the data some kernels have it
        small = (own is not None and own < NEGLIGIBLE) or (own is None and not subject.alone)
        found.append(
            ComponentExplanation(
                position=place, title=titles.title, kernel=part.text, kernel_exact=part.exact,
                sentence=titles.sentence, share=shares[place], removed=own, removed_sentence=removed_sentence,
                horizon=titles.horizon, continuation=titles.continuation, std_low=float(np.min(std)),
                std_high=float(np.max(std)), minor=noisy[place] or unlikely or (shares[place] < MINOR and small),
                mean=round_all(at_rows[place].mean, BAND_DIGITS), std=round_all(std, BAND_DIGITS),
                certainty=component.certainty, certainty_beyond=component.certainty_beyond,
                p_value=curves.test_season(component), noise=noisy[place],
            )
        )  # fmt: skip
    order = sorted(range(len(found)), key=lambda place: -found[place].share) if ranking is None else ranking.order
    kernels = [curves.components[each.position].members[0].part.kernel for each in found]
    own_shares = [each.share for each in found]
    titles_of = phrases.distinct([each.title for each in found], kernels, subject.columns, own_shares)
    named = [replace(found[place], title=titles_of[place]) for place in order]
    if all(component.minor for component in named):
        return tuple(replace(component, minor=False) for component in named)
    return tuple(sorted(named, key=lambda component: component.minor))


@dataclass(frozen=True)
class _Described:
    title: str
    sentence: str
    horizon: float | None
    continuation: str


def _describe_summand(curves: Curves, place: int, share: float, at_rows: Prediction, narrator: Narrator) -> _Described:
    """Put a summand of the only kernel into words."""
    subject, component = curves.subject, curves.components[place]
    joint = judge_joint(subject, component.members[0].of, component.members[0].part)
    part, columns, about = component.members[0].part, subject.columns, ClaimEvidence(components=(place,))
    column = columns[part.columns[0]] if len(part.columns) == 1 else None
    is_line = isinstance(part.kernel, Base) and part.kernel.spec.words.role == "trend"
    slope, continuation, horizon = None, "", None
    if column is not None and is_line and share >= NEGLIGIBLE:  # then its posterior mean is a line exactly
        places = subject.in_user_units(part.columns[0])
        low, high = int(np.argmin(places)), int(np.argmax(places))
        if places[high] > places[low]:
            slope = float(at_rows.mean[high] - at_rows.mean[low]) / float(places[high] - places[low])
            narrator.claims.append(Claim("trend", column.name, slope, column.unit, evidence=about))
    seen = _look(curves, component, at_rows.mean)
    stated = _tell_period(part.kernel, component.kind.period)
    if column is not None and not column.is_category:
        horizon = part_horizon(subject, component.members[0])
        stays = _find_rest(curves, component)
        facts = ComponentFacts(stated, joint, slope, horizon, seen, stays)
        continuation = narrator.say(Claim("continuation", column.name, facts, column.unit, evidence=about))
    between = curves.find_between(component)
    facts = ComponentFacts(stated, joint, slope, seen=seen, p_value=curves.test_season(component), between=between)
    sentence = narrator.say(Claim("component", subject.target, facts, evidence=about))
    title = phrases.title(stated, columns, len(subject.table_columns) < 2, joint)
    if seen.idle_period is not None:
        title = "Curve"
    if seen.noise:
        title = "Noise from row to row"
    if seen.jump is not None and column is not None:
        title = f"Jump near {column.at(seen.jump.at)}"
    return _Described(title, sentence, horizon, continuation)


def _tell_period(kernel: Expression, period: float | None) -> Expression:
    """Return a kernel for words: a pattern that repeats within its period has the shorter one."""

    def shorten(leaf: Base) -> Expression:
        values = leaf.parameter("period").values if leaf.spec.has("period") else None
        if period is None or values is None or len(values) != 1 or round(values[0] / period) < 2:
            return leaf
        whole = abs(values[0] / period - round(values[0] / period)) < NEARLY_WHOLE
        return leaf.with_parameter(replace(leaf.parameter("period"), values=(period,))) if whole else leaf

    return kernel.map_leaves(shorten)


def _look(curves: Curves, component: GatheredComponent, mean: Array) -> Seen:
    """Find what the curve of a component shows, whatever its kernel could be."""
    if component.kind.name == "season":
        return Seen(_is_sinusoidal(curves.subject, component, mean), is_growing(curves, component))
    if is_noise(curves.subject, component):
        return Seen(sinusoidal=False, noise=True)
    jump, idle = _find_jump(curves.subject, component, mean), component.kind.idle_period
    return Seen(sinusoidal=False, jump=jump, idle_period=idle)


def _find_jump(subject: Subject, component: GatheredComponent, mean: Array) -> Jump | None:
    """Return where a component jumps: one step between neighbours is most of its swing, and much of all its ways."""
    if subject.only_column is None or component.columns != (subject.only_column,):
        return None
    jumps = component.kind.name == "jump"
    if not jumps and (component.kind.name not in MAY_JUMP or len(mean) < FEWEST_FOR_JUMP):
        return None
    order = np.argsort(subject.in_user_units(subject.only_column), kind="stable")
    places, steps = subject.in_user_units(subject.only_column)[order], np.diff(mean[order])
    largest = int(np.argmax(np.abs(steps)))
    size = abs(float(steps[largest]))
    if jumps:  # over a few rows
        return Jump(float(places[largest + 1]), float(steps.sum()))
    if size < JUMP_OF_SWING * float(np.ptp(mean)) or size < JUMP_OF_WAYS * float(np.abs(steps).sum()):
        return None
    return Jump(float(places[largest + 1]), float(steps[largest]))


def _is_sinusoidal(subject: Subject, component: GatheredComponent, mean: Array) -> bool:
    """Say whether a season is a sine: a wide PER may still hold a jump, if the data ask for one."""
    if component.kind.period is None or len(component.columns) != 1:
        return False
    phase = 2.0 * np.pi * subject.in_user_units(component.columns[0]) / component.kind.period
    waves = np.column_stack([np.cos(phase), np.sin(phase), np.ones(len(phase))])
    left = mean - waves @ np.linalg.lstsq(waves, mean, rcond=None)[0]
    return float(np.var(left)) < NOT_SINUSOIDAL * float(np.var(mean))


def _find_rest(curves: Curves, component: GatheredComponent) -> float | None:
    """Return where a component stays beyond the data, zero where that is its average; None where it moves on."""
    subject, (place,) = curves.subject, component.columns
    values, swing = subject.in_user_units(place), float(np.ptp(curves.at_rows(component).mean))
    ahead = curves.at(component, subject.rows_along(place, values.max() + np.linspace(0.2, 1.0, 9) * np.ptp(values)))
    if swing <= 0 or float(np.ptp(ahead.mean)) > AT_REST * swing:
        return None
    rest = float(ahead.mean.mean())
    return rest if abs(rest) > AVERAGE * swing else 0.0


def _describe_gathered(curves: Curves, place: int, narrator: Narrator) -> _Described:
    """Put what the kernels of an average have of one kind into words."""
    subject, component = curves.subject, curves.components[place]
    kind, continuation, horizon = component.kind, "", None
    growing = kind.name == "season" and is_growing(curves, component)
    lengths = _measure(subject, component)
    jump = _find_jump(subject, component, curves.at_rows(component).mean)
    sure = component.certainty, component.certainty_beyond
    chance, between = curves.test_season(component), curves.find_between(component)
    facts = GatheredFacts(kind, *sure, lengths, growing, jump, component.likely, chance, between)
    unit = subject.columns[component.columns[0]].unit if len(component.columns) == 1 else None
    evidence = ClaimEvidence(components=(place,))
    claim = Claim("gathered component", subject.target, facts, unit, certainty=component.certainty, evidence=evidence)
    sentence, title = narrator.say(claim), gathered_title(facts, subject.vocabulary)
    if subject.only_column is not None and component.columns == (subject.only_column,):
        ahead = max(component.members, key=lambda each: each.of.beyond)
        horizon = part_horizon(subject, ahead)
        term = ahead.part.kernel.children[0] if isinstance(ahead.part.kernel, Sum) else ahead.part.kernel
        beyond = component.certainty_beyond
        continued = ContinuedFacts(term, horizon, beyond, _find_rest(curves, component))
        name = subject.columns[subject.only_column].name
        said = Claim("gathered continuation", name, continued, unit, certainty=beyond, evidence=evidence)
        continuation = narrator.say(said)
    return _Described(title, sentence, horizon, continuation)


def _measure(subject: Subject, component: GatheredComponent) -> tuple[float, float] | None:
    """Return between what the lengths over which a component varies lie."""
    lengths = []
    for each in component.members:
        factors = read_factors(each.part.kernel, subject.columns) if each.of.within >= HEARD else []
        found = [f.lengths[0] for f in factors if f.role == "fading" and f.lengths and len(f.on) == 1]
        lengths += [min(found)] if found else []
    return (min(lengths), max(lengths)) if lengths else None


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
            mean = summand_mean(posterior, part.program, part.values, np.vstack([X[out], X[~out]]))
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
class MakerOfForecast:
    """A component with the weights of the kernels that have it, within the data and in a forecast."""

    title: str
    within: float
    beyond: float


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
    mixed: bool = False  # there is none, and yet the band is as wide in places
    first: float | None = None  # where it is as wide in places already, before it stays so


def extrapolate(
    subject: Subject,
    components: Sequence[ComponentExplanation],
    column: Column,
    horizon: Horizon,
    found: Sequence[Forecast],
    narrator: Narrator,
    structure: bool = True,
) -> Extrapolation:
    """Say what comes beyond the data along the only input, and how far that can be trusted.

    structure : whether any was found; of noise there is no pattern that goes on, and no distance to which it does.
    """
    claims = [Claim("forecast", column.name, each, column.unit, certainty=0.95) for each in found]
    forecasts = tuple(narrator.complete(claim) for claim in claims)
    if not structure:
        return Extrapolation(column.name, column.unit, horizon.distance, "", forecasts)
    sentence = narrator.say(Claim("horizon", column.name, horizon, column.unit))
    makers = [MakerOfForecast(each.title, each.certainty, each.certainty_beyond) for each in components]
    if any(abs(each.within - each.beyond) > MOVED for each in makers):
        makers = sorted([each for each in makers if each.beyond >= HEARD], key=lambda each: -each.beyond)
        sentence += " " + narrator.say(Claim("forecast is made of", column.name, tuple(makers)))
    if components and _wanders(subject, components):
        sentence += " " + narrator.say(Claim("random walk", column.name))
    return Extrapolation(column.name, column.unit, horizon.distance, sentence, forecasts)


def _wanders(subject: Subject, components: Sequence[ComponentExplanation]) -> bool:
    """Say whether the largest component drifts like a random walk in the kernels that make the forecast.

    A season whose shape drifts does not: its level stays where it is.
    """
    main = max(components, key=lambda each: each.share)
    largest, weight = gather(subject)[main.position], 0.0
    if largest.kind.name == "season":
        return False
    if _find_jump(subject, largest, np.array(main.mean)) is not None:
        return False
    for each in largest.members:
        kernel = each.part.kernel
        if not (contains(kernel, Network) or contains(kernel, Functional)) and drifts(kernel, subject.columns):
            weight += each.of.beyond
    return weight > 0.5


def part_horizon(subject: Subject, member: MemberPart) -> float | None:
    """Return how far beyond the data a summand on one column is known; None: farther than anyone should look.

    Known means that its band is narrower than `FORGOTTEN` times what it would be without data. Looks in the direction
    of larger values; nothing changes in the other one for any kernel but LIN. A wave is known again after a gap in its
    cycle: what counts is from where on nothing is known.
    """
    part, posterior = member.part, member.of.posterior
    (column,) = part.columns
    distances = _distances(subject, column)
    rows = subject.rows_along(column, float(subject.in_user_units(column).max()) + distances)
    limit = FORGOTTEN**2 * fused.diagonal(part.program, part.values, rows)
    variance = posterior.predict_part(part.program, part.values, rows).variance
    known = variance < limit
    level = float(posterior.level.variance[0])
    if not known[0] and variance[0] - level < limit[0]:
        # All that is not known is a constant, which the level may have as well: where would the summand be known if it
        # were known exactly at the last row, and nowhere else?
        left = [[correlation(leaf, 0, float(d)) for leaf in part.kernel.leaves()] for d in distances]
        known = np.array([1 - math.prod(c for c in each if c is not None) ** 2 < FORGOTTEN**2 for each in left])
    if known[-1]:
        return None
    last = np.flatnonzero(known)
    return float(distances[last[-1] + 1]) if len(last) else 0.0


def find_horizon(subject: Subject, column: int) -> Horizon:
    """Return how far beyond the data the band of new observations is narrower than the spread of the data themselves.

    From there on it is mostly as wide. Looked at in whole steps of the data, where a user would ask, not between them.
    For dates to the future, for other numbers in both directions: the nearer one counts. Zero: not even one step.
    """
    distances, places, step = _distances(subject, column), subject.in_user_units(column), subject.step_along(column)
    average, spread = float(np.mean(subject.data.y)), float(np.std(subject.data.y))  # scaled
    sides, found, mixed = [(float(places.max()), 1.0)], list[Horizon](), False
    if subject.columns[column].unit is None:
        sides.append((float(places.min()), -1.0))
    for end, sign in sides:

        def look(at: Array, end: float = end, sign: float = sign) -> Prediction:
            return subject.mixture.predict(subject.rows_along(column, end + sign * at), include_noise=True)

        wide = np.sqrt(look(distances).variance) >= spread
        lasting = [place for place in np.flatnonzero(wide) if stays_wide(wide[place:])]
        mixed = mixed or bool(wide.any())
        if not lasting:
            continue
        narrow = np.arange(lasting[0])
        between = distances[:1]
        if len(narrow):  # all the steps between the last that is narrow and the next one that was looked at
            first, last = distances[narrow[-1]], distances[narrow[-1] + 1]
            many = round((last - first) / step)
            between = first + step * np.unique(np.round(np.linspace(1, many, min(many, MOST_BETWEEN))))
        ahead = look(between)
        late = np.flatnonzero(np.sqrt(ahead.variance) < spread)
        nearest = min(int(late[-1]) + 1 if len(late) else 0, len(between) - 1)
        returns = abs(float(ahead.mean[nearest]) - average) < NEAR * spread
        before = np.flatnonzero(wide[: lasting[0]])
        early = float(distances[before[0]]) if len(before) else None
        found.append(Horizon(float(between[nearest]) if len(narrow) else 0.0, returns, sign < 0, first=early))
    return min(found, key=lambda each: each.distance or 0.0, default=Horizon(None, False, mixed=mixed))


def stays_wide(wide: NDArray[np.bool_]) -> bool:
    """Whether a band stays wide from its first place on: nearly always, as a cycle may narrow it again."""
    return bool(np.all(np.cumsum(wide) >= NEARLY_ALWAYS * np.arange(1, len(wide) + 1)))


def forecast(subject: Subject, column: int) -> list[Forecast]:
    """Predict the next values, at the spacing of the data, and some farther ones, in whole steps too."""
    values = np.unique(subject.in_user_units(column))
    span, step = float(values[-1] - values[0]), subject.step_along(column)
    later = [max(1, round(share * span / step)) for share in FORECAST_AT]
    distances = step * np.unique([*range(1, NEXT + 1), *later])
    ahead = subject.mixture.predict(subject.rows_along(column, values[-1] + distances), include_noise=True)
    mean = subject.level + subject.units.y_scale * ahead.mean
    reach = WITHIN_95 * subject.units.y_scale * np.sqrt(ahead.variance)
    found = []
    for d, m, r in zip(distances, mean, reach, strict=True):
        at = subject.columns[column].at(float(values[-1] + d), step)
        found.append(Forecast(at, float(d), float(m), float(m - r), float(m + r)))
    return found


def _distances(subject: Subject, column: int) -> Array:
    """Return distances beyond the data in whole steps of them: the first ones all, then ever farther apart."""
    step, span = subject.step_along(column), float(np.ptp(subject.in_user_units(column)))
    if step <= 0:
        return np.zeros(1)
    far = max(1.0, FARTHEST * span / step)
    return step * np.union1d(np.arange(1.0, min(far, EVERY_STEP) + 1.0), np.round(np.geomspace(1.0, far, 80)))


# --------------------------------------------------------------------------------------------------------------- inputs


@dataclass(frozen=True)
class InputEffect:
    """How the mean moves along one column of the table, the others at their median or most common category.

    `direction` is "rises", "falls", "goes up and down", "changes" (it may turn), "differs" (categories), "depends on
    others" (it hardly moves there, but elsewhere), "not clear" (all of it is within its band), "hardly matters", "not
    in the model" (and too few rows to say more) or "left out" (but errors go with it); the places of the lowest and
    highest mean are written as a reader would. `share` is that of the variance that goes with it, alone or with others.
    """

    column: str
    size: float
    direction: str
    lowest_at: str
    highest_at: str
    sentence: str = ""
    levels: tuple[LevelEffect, ...] = ()  # of categories, averaged over the rows, the largest first
    share: float = 0.0
    low: float | None = None  # the ends of a 95 % interval for the size
    high: float | None = None


def find_effects(subject: Subject, missed: Collection[str], can_see: bool, finished: bool) -> list[Claim]:
    """Claim the effect of every input that varies, what matters most first; none of a single one that is a curve.

    That an input hardly matters needs errors that do not go with it (`missed` are those that they do go with), and rows
    enough to see that (`can_see`). `finished`: there was time to look for all of them.
    """
    found, several = [], subject.only_column is None
    joined = weigh_joined(subject) if several else {}
    for name, places in subject.table_columns.items() if several else ():
        with_others = joined.get(name, 0.0) >= LIKELY
        category = subject.columns[places[0]].is_category
        labels, rows = _rows_of_input(subject, places)
        mean, covariance = subject.mixture.predict_joint(rows, include_noise=False)
        mean, covariance = subject.units.y_scale * mean, subject.units.y_scale**2 * covariance
        share, size = share_of_input(subject, places), float(np.ptp(mean))
        if size < HARDLY * float(np.std(subject.targets)):
            idle = "left out" if name in missed else "hardly matters" if can_see else "not in the model"
            direction = idle if share < HARDLY**2 else "depends on others" if with_others else "not clear"
        elif category:
            direction = "differs"
        elif with_others and _share_alone(subject, places[0]) < MOSTLY_WITH_OTHERS * share:
            direction = "depends on others"
        else:
            direction = find_direction(mean, covariance)
        low, high = int(np.argmin(mean)), int(np.argmax(mean))
        levels = measure_levels(subject, places) if category else ()
        reach = find_reach(subject, float(covariance[low, low] + covariance[high, high] - 2.0 * covariance[low, high]))
        known = (max(0.0, size - reach), size + reach)
        found.append(InputEffect(name, size, direction, labels[low], labels[high], "", levels, share, *known))
    evidence = ClaimEvidence(all_finished=finished, rows=subject.data.count)
    found.sort(key=lambda effect: -effect.share)
    sure = {effect.column: 0.95 if effect.levels else None for effect in found}  # of the bands of categories
    sure |= {effect.column: joined[effect.column] for effect in found if effect.direction == "depends on others"}
    return [Claim("effect", each.column, each, certainty=sure[each.column], evidence=evidence) for each in found]


def _rows_of_input(subject: Subject, places: Sequence[int]) -> tuple[list[str], Array]:
    """Return places along an input as a reader would write them, and rows there, the other inputs being typical."""
    column = subject.columns[places[0]]
    if column.is_category:
        labels, encoded = rows_by_level(subject, places)
        rows = np.tile(subject.typical_row(), (len(labels), 1))
        rows[:, list(places)] = encoded
        return labels, rows
    values = subject.in_user_units(places[0])
    grid = np.linspace(values.min(), values.max(), STEPS)
    return [column.at(float(value)) for value in grid], subject.rows_along(places[0], grid)


def find_direction(mean: Array, covariance: Array) -> str:
    """Say whether a curve with a joint band rises, falls or goes up and down, or that this is not clear.

    Its largest rise and its largest fall count where they exceed two standard deviations of the difference of their
    ends. A turn is the largest of all that go the other way, and must be a fair part of the whole: if it exceeds four,
    the curve goes up and down; if it exceeds two, it is not denied either, and the curve just "changes".
    """
    moves = []
    for course in (mean, -mean):
        rises = course - np.minimum.accumulate(course)
        end = int(np.argmax(rises))
        start = int(np.argmin(course[: end + 1]))
        spread = covariance[start, start] + covariance[end, end] - 2.0 * covariance[start, end]
        moves.append((float(rises[end]), math.sqrt(max(float(spread), 0.0))))
    (more, spread), (less, spread_of_turn) = sorted(moves, reverse=True)
    if more <= TWICE * spread:
        return "not clear"
    if less > max(TWICE * spread_of_turn, LEAST_TURN * more):
        return "goes up and down" if less > FOUR_TIMES * spread_of_turn else "changes"
    return "rises" if moves[0] >= moves[1] else "falls"


def _share_alone(subject: Subject, place: int) -> float:
    """Return the share of the variance that an input has where the others are typical, at the values of the rows.

    At all of them, or many: between a few places along two years a weekly pattern is not seen.
    """
    values = subject.in_user_units(place)[:: max(1, len(subject.data.X) // MOST_EXCHANGED)]
    own = subject.units.y_scale * subject.mean_at(subject.rows_along(place, values))
    return float(np.var(own) / np.var(subject.targets))


def share_of_input(subject: Subject, places: Sequence[int]) -> float:
    """Return the share of the variance that goes with an input, alone or with others: its total Sobol index.

    Half the mean square by which the mean moves when rows get each other's values of the input, over the variance.
    """
    rows = subject.data.X[:: max(1, len(subject.data.X) // MOST_EXCHANGED)]
    exchanged = rows.copy()
    exchanged[:, list(places)] = np.roll(rows[:, list(places)], len(rows) // 2, axis=0)
    moved = subject.mean_at(exchanged) - subject.mean_at(rows)
    return float(0.5 * np.mean((subject.units.y_scale * moved) ** 2) / np.var(subject.targets))


def weigh_joined(subject: Subject) -> dict[str, float]:
    """Return of every input that kernels join with others the weight of these kernels."""
    found, total = dict[str, float](), sum(kernel.within for kernel in subject.heard)
    for kernel in subject.heard:
        joined = [name_joined(subject, part, judge_joint(subject, kernel, part)) for part in kernel.parts]
        for name in {name for names in joined if len(names) > 1 for name in names}:
            found[name] = found.get(name, 0.0) + kernel.within / total
    return found


def find_interactions(subject: Subject, suspicious: bool, can_see: bool) -> list[Claim]:
    """Claim which inputs act together, or that none do; nothing where there is only one.

    Where kernels are averaged, how sure it is that inputs act together is the sum of the weights of the kernels that
    join them. That none do needs errors that do not go with products of inputs (else `suspicious`), and rows enough to
    see that; and what the kernels do with inputs together must be lost in the noise.
    """
    if len(subject.table_columns) < 2:
        return []
    found: dict[tuple[str, ...], float] = {}
    most = 0.0
    for kernel in subject.heard:
        joints = [judge_joint(subject, kernel, part) for part in kernel.parts]
        most = max([most, *(joint.together for joint in joints)])
        joined = [name_joined(subject, part, joint) for part, joint in zip(kernel.parts, joints, strict=True)]
        for names in dict.fromkeys(names for names in joined if len(names) > 1):
            found[names] = found.get(names, 0.0) + kernel.within
    total = sum(kernel.within for kernel in subject.heard)
    likely = {names: weight / total for names, weight in found.items() if weight > total / 2}
    if likely:
        return [Claim("interaction", subject.target, names, certainty=sure) for names, sure in likely.items()]
    noise = subject.noise_variance
    large = most > max(LOST_IN_NOISE * noise, SEEN / subject.data.count * noise, MINOR * subject.variance)
    if found or suspicious or not can_see or large:
        return []
    return [Claim("no interaction", subject.target, evidence=ClaimEvidence(rows=subject.data.count))]
