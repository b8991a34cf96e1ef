"""Learn priors from series: rounds of fits, and bands from forecasts of what was held back.

For each member, rounds of expectation-maximisation of a hierarchical model, by Laplace's approximation for each series:
the prior's centre is the median of the optima, its variance their spread plus their own uncertainty, both by medians. A
series without noise, or one that repeats exactly, has variances that are nearly zero, and would move a mean far. Then
the last steps of every series are held back. The members' weights and how bands grow with the horizon and with fewer
rows are those under which the values held back are most probable; how far middles lean is the error that most groups of
series share; widening and tails are those with which bands of 80 and 95 % hold so much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln, logsumexp, stdtr

from mercer.errors import InputError
from mercer.fitting.problem import Problem
from mercer.fitting.starts import LearnedPrior
from mercer.forecast.experience import (
    FARTHEST_RELATIVE,
    FEW_ROWS,
    Experience,
    Member,
    Priors,
    from_json,
    to_json,
)
from mercer.forecast.model import Series, build_kernel, find_optimum, fit_series, pose
from mercer.forecast.reading import read_series
from mercer.forecast.scales import scale_called
from mercer.kernels.domains import Array
from mercer.kernels.parameters import layout

SEASONAL = " + PER(0, period=fixed(1)) * SE(0)"
FADING = "C + LIN(0, offset=fixed(0)) + RW(0) + IOU(0){season}"
STEADY = "C + LIN(0, offset=fixed(0)) + RW(0){season}"  # the average slope goes on from the last level, as in Theta
WANDERING = "C + LIN(0, offset=fixed(0)) + RW(0) + IRW(0){season} + M12(0)"
RESTING = "C + RW(0) + IOU(0){season}"  # no slope lasts: what rises comes to rest
SEASONAL_TEXTS = ((FADING, "level"), (FADING, "root"), (FADING, "log"), (STEADY, "level"), (STEADY, "root"),
                  (STEADY, "log"), (WANDERING, "level"), (RESTING, "level"))  # fmt: skip
# Without a season none on the logarithm: short series that grow fast are many, and growth carried on there explodes.
PLAIN_TEXTS = ((FADING, "level"), (FADING, "root"), (STEADY, "level"), (STEADY, "root"), (WANDERING, "level"))
# Before anything is learned: the middle of the logarithm of each parameter, inputs in seasons, target of variance one.
# Spreads are wide enough for the rounds to move them: a factor of e in lengthscales, of e^1.5 in variances.
SEASON_BEGIN = {"C.variance": 0.0, "LIN.variance": -3.0, "RW.variance": -3.5, "IRW.variance": -4.5,
                "IOU.variance": -2.5, "IOU.lengthscale": 0.5, "PER.variance": -2.3, "PER.lengthscale": 0.0,
                "SE.lengthscale": 2.4, "M12.variance": -3.2, "M12.lengthscale": -0.8, "noise": -3.5}  # fmt: skip
STEP_BEGIN = {"C.variance": 0.3, "LIN.variance": -5.0, "RW.variance": -3.0, "IRW.variance": -6.0,
              "IOU.variance": -3.4, "IOU.lengthscale": 2.3, "M12.variance": -4.2, "M12.lengthscale": 1.0,
              "noise": -3.8}  # fmt: skip
HORIZONS = {"month": 18, "quarter": 8, "year": 6, "week": 13, "day": 14, "hour": 48, "none": 8}  # as in competitions
LEAST_SERIES = 5  # of a kind: fewer have no spread to speak of
NORMAL = 1.4826  # standard deviations in a median distance from the median, of a Gaussian
SETTLING = 0.5  # what theory expects of it; lengths and kinds of series go together, so an archive alone may mislead
# Log of how far members' weights lie from equal, by whether there is a season: with one, what fits densities best
# forecasts no better; without one, nearly equal weights took the farthest forecast from 4.8 to 5.3 deviations.
SHARES_APART = {True: 0.3, False: 1.0}
LEAST_FREEDOM = 2.5  # of Student's t: its variance is there from 2 on
FREEDOMS = (2.5, 2.75, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 12.0, 20.0, 60.0)  # tried: from heavy tails to a Gaussian
LEAN = 0.15  # deviations: how far middles are expected to lean before groups of series agree on more
LEAST_APART = 0.15  # deviations: groups whose errors agree better than this do so by chance
MOST_OF_GROUP = 20.0  # series that a group counts for, however many it has: what they share they show once
LEAST_GROUPS = 3  # that a lean is learned from: two agree too easily
FARTHEST = 4.0  # deviations: an error beyond is not more evidence of a lean
# Of log widening, growth, log freedom, settling and shrinkage.
BAND_BOUNDS = [(-2.0, 2.0), (-0.5, 0.5), (-2.0, 4.0), (-0.5, 1.5), (0.0, 0.5)]
CURVATURE = 1e-3  # step of the free numbers by which a curvature is taken from gradients


@dataclass(frozen=True)
class LearningPolicy:
    """How priors are learned."""

    rounds: int = 3  # after these, centres move by less than a fifth of their spread
    least_spread: float = 0.3  # no parameter is known better than to a third of itself
    origins: int = 3  # of forecasts from each series: from one alone bands are those of the year that came then
    least_rows: int = 8  # of a series whose end is held back
    seasons: float = 2.0  # that are left of a series whose end is held back
    most_rows: int = 144  # the last ones of each series: twelve years of months; a prior learns little from more


def compositions(seasonal: bool) -> list[Member]:
    """Return the members before anything is learned: trends that fade, go on or wander, on up to three scales.

    Those that differ more are worth more together: short-lived deviations (M12) go with the trend that wanders only. A
    trend that wanders on the logarithm is left out: its forecasts explode.
    """
    season, begin = (SEASONAL, SEASON_BEGIN) if seasonal else ("", STEP_BEGIN)
    members = []
    for text, scale in SEASONAL_TEXTS if seasonal else PLAIN_TEXTS:
        kernel = text.format(season=season)
        paths = [*layout(build_kernel(kernel, 0)).free_paths(), "noise"]
        entries = [(path, begin[path.split(":")[-1]], 1.0 if "length" in path else 1.5) for path in paths]
        members.append(Member(scale, kernel, LearnedPrior(tuple(entries))))
    return members


def learn_experience(
    many: Sequence[Series],
    horizon: int | Sequence[int],
    policy: LearningPolicy | None = None,
    archives: Sequence[int] | None = None,
) -> Experience:
    """Learn from series with the same kind of step, all with a season or all without; for the rest see learn_bands."""
    policy = policy or LearningPolicy()
    return learn_bands(many, learn_members(many, policy), horizon, policy, archives)


def learn_members(many: Sequence[Series], policy: LearningPolicy) -> Experience:
    """Learn the priors alone: members weigh the same, and bands are those of the fits."""
    last = [series.since(policy.most_rows) for series in many]
    members = [learn_member(last, member, policy) for member in compositions(last[0].season > 1)]
    return Experience(tuple(replace(member, weight=1 / len(members)) for member in members), series=len(many))


def learn_member(many: Sequence[Series], member: Member, policy: LearningPolicy) -> Member:
    """Return the member with the prior that its fits to all series agree with."""
    scale = scale_called(member.scale)
    able = [series for series in many if scale.allows(series.values)]
    starts: list[list[Array] | None] = [None] * len(able)  # from the second round on, where the fit before ended
    for _ in range(policy.rounds):
        points, spreads = [], []
        for place, series in enumerate(able):
            problem, _, _ = pose(series, member, scale)
            point = find_optimum(problem, starts[place])
            if point is not None:
                starts[place] = [point]
                points.append(point)
                spreads.append(_uncertainty(problem, point))
        if len(points) < 2:
            return member
        centre = np.median(points, axis=0)
        apart = NORMAL * np.median(np.abs(points - centre), axis=0)
        spread = np.maximum(np.sqrt(apart**2 + np.median(spreads, axis=0)), policy.least_spread)
        member = replace(member, prior=_with_numbers(member.prior, centre, spread))
    return member


def _with_numbers(prior: LearnedPrior, centre: Array, spread: Array) -> LearnedPrior:
    paths = [path for path, _, _ in prior.entries]
    return LearnedPrior(tuple(zip(paths, centre.tolist(), spread.tolist(), strict=True)))


def _uncertainty(problem: Problem, point: Array) -> Array:
    """Return the variance of each free number by Laplace's approximation, no larger than under the prior."""
    assert problem.prior is not None
    _, slope = problem.loss(point)
    rows = []
    for number in range(len(point)):
        beside = point.copy()
        beside[number] += CURVATURE if point[number] + CURVATURE <= problem.bounds[number, 1] else -CURVATURE
        rows.append((problem.loss(beside)[1] - slope) / (beside[number] - point[number]))
    curvature = 0.5 * (np.array(rows) + np.array(rows).T)
    least = 0.5 * float(np.min(problem.prior.spread)) ** -2.0 * 0.1
    eigenvalues, vectors = np.linalg.eigh(curvature)
    found = (vectors**2 / np.maximum(eigenvalues, least)).sum(axis=1)
    return np.asarray(np.minimum(found, problem.prior.spread**2))


# --------------------------------------------------------------------------------------------------------------- bands


@dataclass(frozen=True, eq=False)
class Held:
    """Forecasts of one series' last steps: of each member its weight by evidence, and where the values fell."""

    log_weights: Array  # (members,), by tempered evidence; -inf where the member does not serve
    away: Array  # (members, horizon): (value - middle) / deviation on the member's scale
    log_unit: Array  # (members, horizon): log of the slope of the scale over the deviation
    relative: Array  # (members, horizon): log of the deviation over the mean of a series above zero; NaN of others
    rows: int  # that were fitted
    group: tuple[int, int] = (0, 1)  # archive and origin: series of a group share what happened in the world then


def learn_bands(
    many: Sequence[Series],
    bare: Experience,
    horizon: int | Sequence[int],
    policy: LearningPolicy,
    archives: Sequence[int] | None = None,
) -> Experience:
    """Return the experience with weights, middles, widening and tails from what was held back.

    horizon : how many steps are held back, of each series its own or of all the same.
    archives : for each series a number of the collection it comes from; all from one without it.
    """
    held = hold_ends_back(many, bare, horizon, policy, archives)
    return bare if len(held) < 3 else fit_bands(held, bare, seasonal=many[0].season > 1)


def hold_ends_back(
    many: Sequence[Series],
    bare: Experience,
    horizon: int | Sequence[int],
    policy: LearningPolicy,
    archives: Sequence[int] | None = None,
) -> list[Held]:
    """Return the forecasts of the ends of all series from every origin that leaves enough rows, members alike."""
    bare = replace(bare, members=tuple(replace(member, weight=1.0) for member in bare.members))
    horizons = [horizon] * len(many) if isinstance(horizon, int) else horizon
    held = []
    for series, steps, archive in zip(many, horizons, archives or [0] * len(many), strict=True):
        last = series.since(policy.most_rows)
        for back in range(1, policy.origins + 1):
            count = len(last.values) - back * steps
            if count >= max(policy.least_rows, policy.seasons * series.season + 2 if series.season > 1 else 0):
                found = _hold_back(last.until(count + steps), count, bare)
                held.append(replace(found, group=(archive, back)))
    return held


def fit_bands(held: Sequence[Held], bare: Experience, seasonal: bool = False) -> Experience:
    """Return the experience under which what was held back is most probable, with bands that hold what they say."""
    steps = np.arange(1, max(each.away.shape[1] for each in held) + 1)
    by_evidence = np.array([each.log_weights for each in held])  # (series, members)
    away, unit, relative = (
        _pad([getattr(each, name) for each in held], len(steps)) for name in ("away", "log_unit", "relative")
    )
    typical = float(np.nanmedian(relative)) if np.any(np.isfinite(relative)) else 0.0  # its logarithm
    unusual = np.nan_to_num(np.clip(relative - typical, -FARTHEST_RELATIVE, FARTHEST_RELATIVE))
    fewer = np.log([[[1 + FEW_ROWS / each.rows]] for each in held])  # (series, 1, 1)
    groups = [np.array([each.group == group for each in held]) for group in sorted({each.group for each in held})]
    counts = sum(group * min(1.0, MOST_OF_GROUP / group.sum()) for group in groups)  # of each series

    def loss(numbers: Array) -> float:
        """Minus the log density of what was held back, under weak priors."""
        shares = np.concatenate([numbers[5:], [0.0]])
        wider = numbers[0] + numbers[1] * np.log(steps) + numbers[3] * fewer - numbers[4] * unusual
        weights = by_evidence + shares
        weights = weights - logsumexp(weights, axis=1, keepdims=True)
        density = _log_t(away / np.exp(wider), LEAST_FREEDOM + math.exp(numbers[2])) - wider + unit
        total = float(counts @ np.nanmean(logsumexp(weights[:, :, None] + density, axis=1), axis=1))
        bands = numbers[0] ** 2 + sum((each / 0.2) ** 2 for each in (numbers[1], numbers[3] - SETTLING, numbers[4]))
        return 0.5 * float(shares @ shares) / SHARES_APART[seasonal] ** 2 + 0.5 * float(bands) - total

    begin = np.zeros(5 + len(bare.members) - 1)
    begin[0], begin[2], begin[3] = 0.2, math.log(4.0), SETTLING
    found = minimize(loss, begin, method="L-BFGS-B", bounds=[*BAND_BOUNDS, *[(-3.0, 3.0)] * (len(begin) - 5)]).x
    shares = np.exp(np.concatenate([found[5:], [0.0]]))
    members = tuple(
        replace(member, weight=float(share)) for member, share in zip(bare.members, shares / shares.sum(), strict=True)
    )
    logs = by_evidence + np.log([member.weight for member in members])
    weights = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    lean = find_lean(weights, away, groups)
    likely = replace(bare, members=members, widening=1.0, growth=float(found[1]), settling=float(found[3]), lean=lean,
                     shrinkage=float(found[4]), typical=math.exp(typical))  # fmt: skip
    wider = np.array([likely.widen(steps, each.rows) for each in held])[:, None, :] * np.exp(-found[4] * unusual)
    return match_shares(likely, weights, (away - lean) / wider, groups)


def _pad(many: Sequence[Array], steps: int) -> Array:
    """Return (series, members, steps), with NaN beyond what was held back of a series."""
    return np.array([np.pad(each, ((0, 0), (0, steps - each.shape[1])), constant_values=np.nan) for each in many])


def find_lean(weights: Array, away: Array, groups: Sequence[Array]) -> float:
    """Return by how many deviations all middles were too low, as far as the groups of series agree on it.

    Every group says one error, its median: its series went through the same years. With K groups whose errors have the
    mean m and the variance v the lean is m K / (K + v / LEAN^2), the posterior mean under a Gaussian prior.
    """
    errors = np.nanmean(np.einsum("sm,smh->sh", weights, np.clip(away, -FARTHEST, FARTHEST)), axis=1)
    by_group = np.array([np.median(errors[group]) for group in groups])
    if len(by_group) < LEAST_GROUPS:
        return 0.0
    apart = max(float(by_group.var(ddof=1)), LEAST_APART**2)
    return float(by_group.mean()) * len(by_group) / (len(by_group) + apart / LEAN**2)


def match_shares(likely: Experience, weights: Array, away: Array, groups: Sequence[Array]) -> Experience:
    """Return the experience whose bands of 80 and of 95 % held so much of what was held back, groups counted alike.

    A few series that went astray decide the density of heavy tails, and with it how wide all bands are; how many values
    lie inside says the same of the others and is not moved by them. away : (series, members, steps) in deviations.
    """

    def inside(freedom: float, widening: float, level: float) -> float:
        narrow = math.sqrt((freedom - 2.0) / freedom)
        below = np.einsum("sm,smh->sh", weights, stdtr(freedom, away / (widening * narrow)))
        within = np.where(np.isnan(below), np.nan, np.abs(below - 0.5) < level / 2)
        return float(np.mean([np.nanmean(within[group]) for group in groups]))

    best = (math.inf, 1.0, 30.0)
    for freedom in FREEDOMS:
        low, high = math.exp(-2.0), math.exp(2.0)
        for _ in range(20):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if inside(freedom, middle, 0.8) < 0.8 else (low, middle)
        widening = math.sqrt(low * high)
        best = min(best, (abs(inside(freedom, widening, 0.95) - 0.95), widening, freedom))
    return replace(likely, widening=best[1], freedom=best[2])


def _hold_back(series: Series, count: int, bare: Experience) -> Held:
    """Fit to the first rows, and see where the others fall."""
    model = fit_series(series.until(count), bare)
    later = series.values[count:]
    inputs = series.inputs[count:]
    shape = (len(bare.members), len(later))
    logs, away, unit, relative = np.full(shape[0], -np.inf), np.zeros(shape), np.zeros(shape), np.full(shape, np.nan)
    known = series.values[:count]
    for fitted, weight in zip(model.members, model.weights, strict=True):
        place = bare.members.index(fitted.member)
        middle, deviation = fitted.predict(inputs)
        positive = np.maximum(later, 1e-12) if fitted.scale.positive else later
        logs[place] = math.log(max(weight, 1e-300))
        away[place] = (fitted.scale.forward(positive) - middle) / deviation
        unit[place] = fitted.scale.log_slope(positive) - np.log(deviation)
        if np.all(known > 0):
            relative[place] = np.log(fitted.scale.relative(deviation, float(known.mean())))
    return Held(logs, away, unit, relative, count)


def _log_t(away: Array, freedom: float) -> Array:
    """Log density of Student's t of variance one, up to the scale of its unit."""
    narrow = math.sqrt((freedom - 2.0) / freedom)
    constant = gammaln((freedom + 1) / 2) - gammaln(freedom / 2) - 0.5 * math.log(freedom * math.pi) - math.log(narrow)
    return np.asarray(constant - (freedom + 1) / 2 * np.log1p((away / narrow) ** 2 / freedom))


def learn_priors(tables: Any, horizons: Mapping[str, int] | None = None) -> Priors:
    """Learn from an archive of series what `Forecaster(priors=...)` takes.

    tables : one of what `Forecaster.fit` takes, or a list of them: tables with unique_id, ds and y, Series, arrays.
        They are grouped by the kind of their steps; some dozen of a kind are needed, and a few hundred are plenty.
    horizons : steps that are held back from the end of each series to learn the bands, by kind of step.
    """
    asked = {**HORIZONS, **(horizons or {})}
    groups: dict[str, list[Series]] = {}
    for table in tables if isinstance(tables, list | tuple) else [tables]:
        for named in read_series(table, None, None).many:
            kind, seasonal = named.calendar.kind, named.series.season > 1
            groups.setdefault(kind if seasonal or kind == "year" else f"{kind} without season", []).append(named.series)
    enough = {step: many for step, many in groups.items() if len(many) >= LEAST_SERIES}
    if not enough:
        counts = ", ".join(f"{len(many)} with steps of kind {step}" for step, many in groups.items()) or "none"
        raise InputError(f"priors are learned from {LEAST_SERIES} series of a kind or more; here are {counts}")
    steps = {step: learn_experience(many, asked[step.split()[0]]) for step, many in enough.items()}
    sources = tuple(f"{len(many)} series with steps of kind {step}" for step, many in enough.items())
    return from_json(to_json(Priors(steps, sources)))  # as a file keeps them, so that one forecasts the same
