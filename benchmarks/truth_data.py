"""Data sets whose truth is known, for `benchmarks.truth`: made by code with seeds, each with a typed `Truth`.

A series or a table is a sum of parts, each with a share of the variance that is drawn first, and noise. What is true of
it is worked out here from the parts, and nothing of Mercer is used. 400 sets: 204 series of twelve families, 116 tables
of six, 40 of classes, 40 grids. `truth_seen.py` adds those in which false statements were once seen, `truth_real.py`
real ones, of which the truth is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]
Generator = np.random.Generator

AHEAD = 0.25  # of the rows: how many more are made, to compare forecasts with
FRESH = 400  # rows of a table that were never seen
STEPS = 41  # places at which the effect of an input is known
DETECTABLE = 1e-3  # an effect that a test of the true form finds at this p ought to be named
PAIRS = 120  # rows whose values are exchanged, to see what two inputs do together
OUTLIER = 8.0  # standard deviations of the noise
REPEATS = 0.5  # the correlation of each cycle with the next one below which a pattern that drifts does not repeat


@dataclass(frozen=True)
class Season:
    """A pattern that repeats; `shapes` is how many harmonics it has, `drifts` that it changes from year to year.

    One that drifts so fast that a cycle says little about the next does not repeat (`repeats`): it is there, and no
    analyst could know that it was made from a wave.
    `swing` is from the bottom to the top of the last cycle of the data, whose places a calendar calls `top` and
    `bottom` (None where it has no name for them).
    """

    period: float
    share: float
    shapes: int = 1
    drifts: bool = False
    grows: bool = False
    repeats: bool = True
    swing: float = 0.0
    top: str | None = None
    bottom: str | None = None


@dataclass(frozen=True)
class Change:
    """A jump of the level, or a bend of the trend, after a place on the column."""

    at: float
    kind: str  # "level" or "slope"
    share: float


@dataclass(frozen=True)
class InputTruth:
    """What one input of a table does: its share (alone and with others), and the mean along it, the others typical."""

    name: str
    share: float
    places: tuple[Any, ...]
    means: tuple[float, ...]
    period: float | None = None  # of a wave

    @property
    def size(self) -> float:
        """How much the mean moves along the input."""
        return max(self.means) - min(self.means)


@dataclass(frozen=True)
class Effect:
    """Something that is there, and the p-value of an F test that is given its true form."""

    kind: str  # trend, season, variation (a season that does not repeat), curve, change, input, interaction, unusual
    subject: str
    share: float
    p_value: float
    period: float | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Truth:
    """What is true of a data set; None where it is not known (real data) or does not apply."""

    kind: str  # series, table, grid, classes, real
    target: str
    rows: int
    column: str | None = None  # of a series
    unit: str | None = None  # that lengths on it are said in
    step: float = 1.0
    first: float = 0.0
    last: float = 0.0
    slope: float | None = None  # of the straight part, per unit
    trend_share: float = 0.0
    curve: str = "none"  # or smooth, walk
    curve_share: float = 0.0
    seasons: tuple[Season, ...] = ()
    changes: tuple[Change, ...] = ()
    noise_std: float | None = None
    noise_share: float | None = None
    noise: str = "normal"  # or outliers, counts
    noise_core: float | None = None  # the standard deviation without the rows that stand out
    unusual: tuple[float, ...] = ()  # places on the column (rows of a table) that stand out
    inputs: tuple[InputTruth, ...] = ()
    interactions: tuple[tuple[tuple[str, ...], float], ...] = ()
    constant: tuple[str, ...] = ()  # columns that do not vary
    effects: tuple[Effect, ...] = ()
    signal: tuple[float, ...] = field(default=(), repr=False)  # without noise, at the rows
    slow: tuple[float, ...] = field(default=(), repr=False)  # all of it but the seasons
    unsteady: tuple[float, ...] = field(default=(), repr=False)  # the seasons that do not repeat; empty: none
    best_error: float | None = None  # of classes: no rule errs less

    @property
    def known(self) -> bool:
        return self.kind != "real"

    @property
    def span(self) -> float:
        return self.last - self.first

    @property
    def signal_share(self) -> float:
        return 1.0 - (self.noise_share if self.noise_share is not None else 0.0)


@dataclass(frozen=True, eq=False)
class KnownSet:
    """A table to give to Mercer, with its truth; `unseen` rows come after a series, or are drawn as its own were."""

    name: str
    family: str
    frame: pd.DataFrame
    target: str
    truth: Truth
    unseen: pd.DataFrame
    classes: bool = False

    @property
    def values(self) -> Array:
        return self.frame[self.target].to_numpy(dtype=float)


# ------------------------------------------------------------------------------------------------------------ the tests


def p_value_of(columns: Sequence[Array], others: Sequence[Array], values: Array) -> float:
    """Return the p-value of the F test that regressors do nothing beside the others (and a constant)."""
    from scipy.stats import f as f_distribution

    def left(regressors: Sequence[Array]) -> tuple[float, int]:
        design = np.column_stack([np.ones(len(values)), *regressors])
        fitted, _, rank, _ = np.linalg.lstsq(design, values, rcond=None)
        return float(np.sum((values - design @ fitted) ** 2)), int(rank)

    (small, fewer), (large, more) = left(others), left([*others, *columns])
    freedom, extra = len(values) - more, more - fewer
    if freedom < 1 or extra < 1 or large <= 0:
        return 1.0 if extra < 1 else (0.0 if large <= 0 and small > 0 else 1.0)
    return float(f_distribution.sf((small - large) / extra / (large / freedom), extra, freedom))


# --------------------------------------------------------------------------------------------------------------- series


@dataclass(frozen=True)
class Clock:
    """How a series is dated: the unit of its lengths, the step in it, and the periods that are natural in it."""

    name: str
    unit: str | None
    step: float
    frequency: str | None
    periods: tuple[float, ...]


CLOCKS = {
    "months": Clock("month", "months", 1.0, "MS", (12.0,)),
    "quarters": Clock("quarter", "months", 3.0, "QS", (12.0,)),
    "weeks": Clock("week", "weeks", 1.0, "W-MON", (52.18,)),
    "days": Clock("date", "days", 1.0, "D", (7.0, 30.44)),
    "hours": Clock("time", "hours", 1.0, "h", (24.0, 168.0)),
    "minutes": Clock("time", "minutes", 10.0, "10min", (377.0, 1440.0)),
    "years": Clock("year", "years", 1.0, None, (11.0,)),
    "numbers": Clock("x", None, 0.5, None, (17.0,)),
}


LENGTHS = {"minutes": 1 / 1440, "hours": 1 / 24, "days": 1.0, "weeks": 7.0, "months": 30.4369, "years": 365.2425}


@dataclass(frozen=True)
class SeriesPlan:
    """What a series is made of, by shares of the variance; the rest is noise."""

    rows: int
    clock: Clock
    trend: float = 0.0
    curve: float = 0.0
    walk: float = 0.0
    seasons: tuple[Season, ...] = ()
    changes: tuple[Change, ...] = ()  # their `at` is a share of the rows
    outliers: int = 0
    missing: float = 0.0  # share of rows left out, half of them in one block
    counts: bool = False


def draw_rows(rng: Generator, low: int, high: int) -> int:
    return round(float(np.exp(rng.uniform(np.log(low), np.log(high)))))


def smooth_curve(rng: Generator, count: int, knots: int) -> Array:
    """Return a cubic spline through random heights."""
    from scipy.interpolate import CubicSpline

    places = np.linspace(0.0, 1.0, knots)
    return np.asarray(CubicSpline(places, rng.normal(size=knots))(np.linspace(0.0, 1.0, count)))


def season_curve(rng: Generator, at: Array, season: Season) -> Array:
    """Return a pattern with some harmonics, each of less weight than the one before; it may drift or grow."""
    total = np.zeros(len(at))
    for k in range(1, season.shapes + 1):
        angle, weights = 2 * np.pi * k * at / season.period, rng.normal(size=2) / k**1.5
        if k == 1:  # never nearly nothing
            weights = weights / np.linalg.norm(weights)
        if season.drifts:
            total += smooth_curve(rng, len(at), 7) * np.cos(angle) + smooth_curve(rng, len(at), 7) * np.sin(angle)
        else:
            total += weights[0] * np.cos(angle) + weights[1] * np.sin(angle)
    return total * np.linspace(0.4, 2.0, len(at)) if season.grows else total


def series_parts(rng: Generator, plan: SeriesPlan, at: Array) -> list[tuple[str, Any, Array]]:
    """Return the parts over all rows and those to come: kind, its season or change, values with the share wanted."""
    drawn: list[tuple[str, Any, Array, float]] = []
    if plan.trend:
        drawn.append(("trend", None, at * rng.choice([-1.0, 1.0]), plan.trend))
    if plan.curve:
        drawn.append(("curve", None, smooth_curve(rng, len(at), int(rng.integers(5, 9))), plan.curve))
    if plan.walk:
        drawn.append(("walk", None, np.cumsum(rng.normal(size=len(at))), plan.walk))
    drawn += [("season", season, season_curve(rng, at, season), season.share) for season in plan.seasons]
    for change in plan.changes:
        place = at[0] + change.at * (at[plan.rows - 1] - at[0])
        raw = np.maximum(at - place, 0.0) if change.kind == "slope" else (at > place).astype(float)
        drawn.append(("change", replace(change, at=float(place)), raw * rng.choice([-1.0, 1.0]), change.share))
    found = []
    for kind, what, raw, share in drawn:
        own = raw[: plan.rows]
        found.append((kind, what, (raw - own.mean()) / own.std() * np.sqrt(share)))
    return found


def make_series(name: str, family: str, plan: SeriesPlan, rng: Generator) -> KnownSet:
    """Make a series with rows to come, and say what is true of it."""
    rows = plan.rows
    count = rows + int(np.ceil(AHEAD * rows)) + 2
    first = float(rng.integers(1850, 1950)) if plan.clock.unit == "years" else 0.0
    at = first + plan.clock.step * np.arange(count)
    parts = series_parts(rng, plan, at)
    signal = np.sum([values for _, _, values in parts], axis=0) if parts else np.zeros(count)
    wanted = plan.trend + plan.curve + plan.walk + sum(each.share for each in (*plan.seasons, *plan.changes))
    level, scale = float(rng.normal() * 10 ** rng.uniform(0, 3)), float(10 ** rng.uniform(-1, 3))
    noise = rng.normal(size=count) * np.sqrt(max(1.0 - wanted, 0.0))
    odd = np.sort(rng.choice(rows, plan.outliers, replace=False))
    noise[odd] = OUTLIER * np.sqrt(max(1.0 - wanted, 0.0)) * rng.choice([-1.0, 1.0], plan.outliers)
    if plan.counts:  # a mean that the signal moves up and down, above zero
        level = float(rng.uniform(8.0, 60.0))
        scale = level * 0.9 / max(1e-9, float(np.abs(signal).max())) if parts else 0.0
        noise = (rng.poisson(level + scale * signal) - level - scale * signal) / (scale or 1.0)
        scale = scale or 1.0
    values = level + scale * (signal + noise)
    keep = np.ones(rows, dtype=bool)
    if plan.missing:
        block = int(plan.missing * rows / 2)
        begin = int(rng.integers(rows // 5, max(rows // 5 + 1, 4 * rows // 5 - block)))
        keep[begin : begin + block] = False
        keep[1:-1] &= rng.random(rows - 2) > plan.missing / 2
    frame = pd.DataFrame({plan.clock.name: show_dates(plan.clock, at), "value": values})
    seen = np.flatnonzero(keep)
    scaled = [(kind, what, scale * part) for kind, what, part in parts]
    truth = series_truth(plan, at, values, scaled, scale * noise, seen)
    odd_places = tuple(float(at[row]) for row in odd if keep[row])
    usual = np.setdiff1d(seen, odd)
    truth = replace(truth, unusual=odd_places, noise_core=scale * float(np.sqrt(np.mean(noise[usual] ** 2))))
    if odd_places:
        truth = replace(truth, effects=(*truth.effects, Effect("unusual", "rows", 0.0, 0.0)))
    return KnownSet(name, family, frame.iloc[seen].reset_index(drop=True), "value", truth, frame.iloc[rows:])


def show_dates(clock: Clock, at: Array) -> Any:
    if clock.frequency is None:
        return at.astype(int) if clock.unit == "years" else np.round(at, 6)
    return pd.date_range("1990-01-01", periods=len(at), freq=clock.frequency)


def series_truth(
    plan: SeriesPlan, at: Array, values: Array, parts: Sequence[tuple[str, Any, Array]], noise: Array, seen: Any
) -> Truth:
    """Work out shares, slope and tests from the parts at the rows that are seen."""
    variance = float(values[seen].var()) or 1.0

    def share(part: Array) -> float:
        return float(part[seen].var()) / variance

    parts = [
        (kind, mark_repeats(what, at, part, seen) if kind == "season" else what, part) for kind, what, part in parts
    ]
    own = [part[seen] for _, _, part in parts]
    effects = []
    for place, (kind, what, part) in enumerate(parts):
        p = p_value_of([own[place]], own[:place] + own[place + 1 :], values[seen])
        period = what.period if kind == "season" else None
        named = "variation" if kind == "season" and not what.repeats else {"walk": "curve"}.get(kind, kind)
        effects.append(Effect(named, plan.clock.name, share(part), p, period))
    slow = np.sum([part for kind, _, part in parts if kind != "season"] or [np.zeros(len(at))], axis=0)
    unsteady = [part[seen] for kind, what, part in parts if kind == "season" and not what.repeats]
    trend = next((part for kind, _, part in parts if kind == "trend"), None)
    curves = [(kind, share(part)) for kind, _, part in parts if kind in ("curve", "walk")]
    return Truth(
        kind="series",
        target="value",
        rows=len(seen),
        column=plan.clock.name,
        unit=plan.clock.unit,
        step=plan.clock.step,
        first=float(at[seen[0]]),
        last=float(at[seen[-1]]),
        slope=0.0 if trend is None else float((trend[-1] - trend[0]) / (at[-1] - at[0])),
        trend_share=0.0 if trend is None else share(trend),
        curve={"curve": "smooth", "walk": "walk"}[curves[0][0]] if curves else "none",
        curve_share=sum(each for _, each in curves),
        seasons=tuple(
            describe_season(replace(what, share=share(part)), plan.clock, part, int(seen[-1]))
            for kind, what, part in parts
            if kind == "season"
        ),
        changes=tuple(replace(what, share=share(part)) for kind, what, part in parts if kind == "change"),
        noise_std=float(np.sqrt(np.mean(noise[seen] ** 2))),
        noise_share=float(np.mean(noise[seen] ** 2)) / variance,
        noise="outliers" if plan.outliers else ("counts" if plan.counts else "normal"),
        effects=tuple(effects),
        signal=tuple((values - noise)[seen]),
        slow=tuple(slow[seen]),
        unsteady=tuple(np.sum(unsteady, axis=0)) if unsteady else (),
    )


def mark_repeats(season: Season, at: Array, part: Array, seen: Any) -> Season:
    """Say whether the cycles of a pattern are like the next ones: by the correlation of values a period apart."""
    inside = slice(int(seen[0]), int(seen[-1]) + 1)
    own, later = part[inside], np.interp(at[inside] + season.period, at[inside], part[inside], right=np.nan)
    own, later = own[~np.isnan(later)], later[~np.isnan(later)]
    size = float(np.sqrt(np.sum(own**2) * np.sum(later**2)))
    return replace(season, repeats=size <= 0 or float(own @ later) / size >= REPEATS)


def describe_season(season: Season, clock: Clock, part: Array, last: int) -> Season:
    """Add how high the last cycle is, and where a calendar would say that it is highest and lowest."""
    count = max(2, round(season.period / clock.step))
    cycle = np.arange(max(0, last - count + 1), last + 1)
    swing, high, low = float(np.ptp(part[cycle])), cycle[np.argmax(part[cycle])], cycle[np.argmin(part[cycle])]
    if clock.frequency is None:
        return replace(season, swing=swing)
    dates = pd.DatetimeIndex(show_dates(clock, np.arange(last + 1, dtype=float)))
    names = [name_date(dates[place], season.period * LENGTHS[clock.unit or ""]) for place in (high, low)]
    return replace(season, swing=swing, top=names[0], bottom=names[1])


def name_date(date: pd.Timestamp, days: float) -> str | None:
    """Return the month of a year, the day of a week, the hour of a day."""
    if abs(days / 365.25 - 1.0) < 0.02:
        return str(date.month_name())
    if abs(days / 7.0 - 1.0) < 0.02:
        return str(date.day_name())
    return f"{date.hour}:00" if abs(days - 1.0) < 0.02 else None


def plan_season(rng: Generator, clock: Clock, rows: int, share: float, **more: bool) -> tuple[Season, ...]:
    """Return a season that the rows show at least three times, natural where possible."""
    span = rows * clock.step
    usable = [period for period in clock.periods if 3 * period <= span and period >= 2 * clock.step]
    period = usable[0] if usable else max(4.0 * clock.step, round(span / float(rng.uniform(3.5, 6.0)), 1))
    shapes = int(rng.integers(1, 4)) if period >= 8 * clock.step else 1
    return (Season(period, share, shapes, **more),)


def plan_series(family: str, rng: Generator) -> SeriesPlan:
    """Draw what a series of a family is made of."""
    rows = draw_rows(rng, 20, 2000)
    clock = CLOCKS[str(rng.choice(list(CLOCKS)))]
    if rows > 700 and clock.name in ("month", "quarter", "year", "week"):  # no series has 2,000 years
        clock = CLOCKS[str(rng.choice(["days", "hours", "minutes"]))]
    noise = float(rng.choice([0.02, 0.1, 0.3, 0.6]))
    rest = 1.0 - noise
    split = float(rng.choice([0.04, 0.1, 0.3, 0.5, 0.7, 0.9]))
    if family == "noise":
        return SeriesPlan(rows, clock)
    if family == "trend":
        return SeriesPlan(rows, clock, trend=rest)
    if family == "season":
        return SeriesPlan(rows, clock, seasons=plan_season(rng, clock, rows, rest))
    if family == "trend-season":
        grows = bool(rng.random() < 0.3)
        return SeriesPlan(
            rows, clock, trend=rest * split, seasons=plan_season(rng, clock, rows, rest * (1 - split), grows=grows)
        )
    if family == "seasons":
        rows, clock = draw_rows(rng, 400, 2000), CLOCKS[str(rng.choice(["days", "hours", "minutes"]))]
        short, long = clock.periods if clock.unit != "minutes" else (370.0, 1440.0)
        first, second = Season(short, rest * split, 1), Season(long, rest * (1 - split), 2)
        return SeriesPlan(rows, clock, seasons=(first, second) if 3 * long < rows * clock.step else (first,))
    if family == "drifting":
        rows = max(rows, 60)
        return SeriesPlan(rows, clock, seasons=plan_season(rng, clock, rows, rest, drifts=True))
    if family == "change":
        kind, at = str(rng.choice(["level", "slope"])), float(rng.uniform(0.3, 0.7))
        seasons = plan_season(rng, clock, rows, rest * 0.3) if rng.random() < 0.4 else ()
        return SeriesPlan(rows, clock, seasons=seasons, changes=(Change(at, kind, rest * (0.7 if seasons else 1.0)),))
    if family == "outliers":
        plan = SeriesPlan(rows, clock, trend=rest * split, seasons=plan_season(rng, clock, rows, rest * (1 - split)))
        return replace(plan, outliers=1 + rows // 150)
    if family == "gaps":
        rows = max(rows, 40)
        plan = SeriesPlan(rows, clock, trend=rest * split, seasons=plan_season(rng, clock, rows, rest * (1 - split)))
        return replace(plan, missing=float(rng.uniform(0.1, 0.4)))
    if family == "counts":
        clock = CLOCKS[str(rng.choice(["months", "days", "weeks"]))] if rows <= 700 else CLOCKS["days"]
        trend = split if rng.random() < 0.5 else 0.0
        return SeriesPlan(rows, clock, trend=trend, seasons=plan_season(rng, clock, rows, 1 - trend), counts=True)
    if family == "curve":
        return SeriesPlan(rows, clock, curve=rest)
    return SeriesPlan(rows, clock, walk=rest)


SERIES = (
    "noise", "trend", "season", "trend-season", "seasons", "drifting", "change", "outliers", "gaps", "counts", "curve",
    "walk",
)  # fmt: skip


# --------------------------------------------------------------------------------------------------------------- tables


@dataclass(frozen=True, eq=False)
class TablePart:
    """A summand of the signal: the columns that it looks at, and its function of a table."""

    columns: tuple[str, ...]
    function: Callable[[pd.DataFrame], Array]
    share: float
    period: float | None = None


CURVES: dict[str, Callable[[Array], Array]] = {
    "square": lambda z: z**2,
    "wave": lambda z: np.sin(2.0 * z),
    "saturation": lambda z: np.tanh(1.5 * z),
    "exponential": lambda z: np.exp(0.8 * z),
    "kink": lambda z: np.maximum(z - 0.3, 0.0),
}
NAMES = ("temp", "speed", "ph", "feed", "load", "depth", "width", "age", "flow", "dose")


def draw_column(rng: Generator, count: int) -> Array:
    """Return numbers as a column of a table has them: uniform, normal or in steps; within 2.5 before scaling."""
    kind = rng.choice(["uniform", "normal", "whole"])
    z = rng.uniform(-1.73, 1.73, count)
    if kind == "normal":
        z = np.clip(rng.normal(size=count), -2.5, 2.5)
    elif kind == "whole":
        z = np.round(z * 6) / 6
    return z


def scaled_columns(
    rng: Generator, names: Sequence[str], count: int
) -> tuple[pd.DataFrame, dict[str, tuple[float, float]]]:
    """Return columns in units of their own, with the shift and the scale of each."""
    columns, units = {}, {}
    for name in names:
        shift, scale = float(np.round(rng.uniform(-50, 200), 1)), float(np.round(10 ** rng.uniform(-1, 2), 2))
        columns[name], units[name] = shift + scale * draw_column(rng, count), (shift, scale)
    return pd.DataFrame(columns), units


def line_part(name: str, unit: tuple[float, float], share: float, sign: float = 1.0) -> TablePart:
    return TablePart((name,), lambda rows: sign * (rows[name].to_numpy() - unit[0]) / unit[1], share)


def curve_part(name: str, unit: tuple[float, float], share: float, shape: str) -> TablePart:
    period = np.pi * unit[1] if shape == "wave" else None
    return TablePart((name,), lambda rows: CURVES[shape]((rows[name].to_numpy() - unit[0]) / unit[1]), share, period)


def product_part(names: tuple[str, str], units: dict[str, tuple[float, float]], share: float) -> TablePart:
    def both(rows: pd.DataFrame) -> Array:
        first, second = ((rows[name].to_numpy() - units[name][0]) / units[name][1] for name in names)
        return np.asarray(np.tanh(first) * second)

    return TablePart(names, both, share)


def category_part(name: str, heights: dict[str, float], share: float) -> TablePart:
    return TablePart((name,), lambda rows: rows[name].map(heights).to_numpy(dtype=float), share)


def category_slopes(
    name: str, other: str, unit: tuple[float, float], slopes: dict[str, float], share: float
) -> TablePart:
    def each(rows: pd.DataFrame) -> Array:
        return np.asarray(rows[name].map(slopes).to_numpy(dtype=float) * (rows[other].to_numpy() - unit[0]) / unit[1])

    return TablePart((name, other), each, share)


def make_table(
    name: str, family: str, frame: pd.DataFrame, rows: int, parts: Sequence[TablePart], rng: Generator
) -> KnownSet:
    """Add up the parts and noise over a table whose first `rows` are seen, and say what is true of it."""
    seen = frame.iloc[:rows]
    scale, level = float(10 ** rng.uniform(-1, 2)), float(np.round(rng.normal() * 100, 1))
    moments = [(float(np.mean(p.function(seen))), float(np.std(p.function(seen))) or 1.0) for p in parts]

    def each(table: pd.DataFrame) -> list[Array]:
        return [
            scale * np.sqrt(part.share) * (part.function(table) - mean) / std
            for part, (mean, std) in zip(parts, moments, strict=True)
        ]

    own = each(frame)
    signal = level + (np.sum(own, axis=0) if own else np.zeros(len(frame)))
    noise_share = max(1.0 - sum(part.share for part in parts), 0.0)
    noise = rng.normal(size=len(frame)) * scale * np.sqrt(noise_share)
    values = signal + noise
    truth = table_truth(seen, parts, each, values[:rows], noise[:rows], signal[:rows])
    whole = frame.assign(value=values)
    return KnownSet(name, family, whole.iloc[:rows].reset_index(drop=True), "value", truth, whole.iloc[rows:])


def table_truth(
    seen: pd.DataFrame, parts: Sequence[TablePart], each: Any, values: Array, noise: Array, signal: Array
) -> Truth:
    """Work out what every input does, alone and with others, and test it."""
    variance, own = float(values.var()) or 1.0, each(seen)
    inputs, effects, interactions = [], [], []
    pairs = [split_pair(part, seen) if len(part.columns) == 2 else (0.0, {}) for part in parts]
    goes_with: list[dict[str, float]] = [each_of for _, each_of in pairs]
    typical = {
        name: seen[name].mode().iloc[0] if is_category(seen[name]) else float(seen[name].median()) for name in seen
    }
    for name in seen:
        where = [place for place, part in enumerate(parts) if name in part.columns]
        share = sum(float(own[place].var()) * goes_with[place].get(str(name), 1.0) for place in where) / variance
        places = sorted(seen[name].unique()) if is_category(seen[name]) else list(
            np.linspace(float(seen[name].min()), float(seen[name].max()), STEPS)
        )  # fmt: skip
        along = pd.DataFrame({other: [value] * len(places) for other, value in typical.items()}).assign(
            **{name: places}
        )
        means = np.sum(each(along), axis=0) if parts else np.zeros(len(places))
        period = next((parts[place].period for place in where), None)
        inputs.append(InputTruth(str(name), share, tuple(places), tuple(float(mean) for mean in means), period))
        if where:
            rest = [part for place, part in enumerate(own) if place not in where]
            p = p_value_of([own[place] for place in where], rest, values)
            effects.append(Effect("input", str(name), share, p))
    for place, part in enumerate(parts):
        if len(part.columns) > 1:
            share = float(own[place].var()) * pairs[place][0] / variance
            p = p_value_of([own[place]], own[:place] + own[place + 1 :], values)
            interactions.append((part.columns, share))
            effects.append(Effect("interaction", " and ".join(part.columns), share, p, names=part.columns))
    return Truth(
        kind="table",
        target="value",
        rows=len(seen),
        noise_std=float(np.sqrt(np.mean(noise**2))),
        noise_share=float(np.mean(noise**2)) / variance,
        inputs=tuple(inputs),
        interactions=tuple(interactions),
        constant=tuple(str(name) for name in seen if seen[name].nunique() == 1),
        effects=tuple(effects),
        signal=tuple(signal),
    )


def split_pair(part: TablePart, seen: pd.DataFrame) -> tuple[float, dict[str, float]]:
    """Return what of the variance of a part of two inputs they have only together, and what goes with each.

    The second is the total Sobol index: all but what the other has by itself. Rows get each other's values.
    """
    rows = seen.iloc[np.linspace(0, len(seen) - 1, min(len(seen), PAIRS)).astype(int)]
    count, (first, second) = len(rows), part.columns
    mixed = pd.DataFrame(
        {first: np.repeat(rows[first].to_numpy(), count), second: np.tile(rows[second].to_numpy(), count)}
    )
    values = part.function(mixed).reshape(count, count)
    total, by_first, by_second = float(values.var()) or 1.0, values.mean(axis=1), values.mean(axis=0)
    alone = {first: float(by_first.var()) / total, second: float(by_second.var()) / total}
    return 1.0 - sum(alone.values()), {first: 1.0 - alone[second], second: 1.0 - alone[first]}


def is_category(column: pd.Series) -> bool:
    return not pd.api.types.is_numeric_dtype(column)


def draw_shares(rng: Generator, count: int, total: float) -> list[float]:
    """Split a share into parts, none of them tiny."""
    weights = rng.dirichlet(np.ones(count)) * 0.8 + 0.2 / count
    return [float(total * weight) for weight in weights]


def build_table(name: str, family: str, rng: Generator) -> KnownSet:
    """Draw a table of a family: inputs that matter and inputs that do not."""
    rows, width = draw_rows(rng, 50, 3000), int(rng.integers(2, 7))
    names = [str(each) for each in rng.choice(NAMES, width, replace=False)]
    frame, units = scaled_columns(rng, names, rows + FRESH)
    rest = 1.0 - float(rng.choice([0.02, 0.1, 0.3, 0.6]))
    parts: list[TablePart] = []
    active = names[: max(1, int(rng.integers(1, width + 1)))]
    if family == "table-linear":
        shares = draw_shares(rng, len(active), rest)
        parts = [line_part(n, units[n], s, float(rng.choice([-1, 1]))) for n, s in zip(active, shares, strict=True)]
    elif family == "table-curved":
        shapes, shares = rng.choice(list(CURVES), len(active)), draw_shares(rng, len(active), rest)
        parts = [curve_part(n, units[n], s, str(c)) for n, s, c in zip(active, shares, shapes, strict=True)]
    elif family == "table-interacting":
        shares = draw_shares(rng, 1 + max(0, len(active) - 2), rest)
        parts = [product_part((names[0], names[1]), units, shares[0])]
        shapes = rng.choice(list(CURVES), len(active))
        for n, s, c in zip(active[2:], shares[1:], shapes[2:], strict=True):
            parts.append(curve_part(n, units[n], s, str(c)))
        if rng.random() < 0.5 and len(parts) == 1:  # a main effect beside it
            parts = [
                product_part((names[0], names[1]), units, rest / 2),
                line_part(names[0], units[names[0]], rest / 2),
            ]
    elif family == "table-categories":
        levels = ["north", "south", "east", "west", "centre"][: int(rng.integers(2, 6))]
        frame = frame.assign(site=rng.choice(levels, len(frame)))
        heights = {level: float(rng.normal()) for level in levels}
        heights[levels[0]] = min(heights.values()) - 1.0  # never all alike
        shares = draw_shares(rng, 1 + len(active), rest)
        shapes = rng.choice(list(CURVES), len(active))
        parts = [category_part("site", heights, shares[0])]
        if rng.random() < 0.3:
            slopes = {level: float((-1.0) ** place) for place, level in enumerate(levels)}
            parts = [category_slopes("site", active[0], units[active[0]], slopes, shares[0])]
        for n, s, c in zip(active, shares[1:], shapes, strict=True):
            parts.append(curve_part(n, units[n], s, str(c)))
    return make_table(name, family, frame, rows, parts, rng)


def build_grid(name: str, family: str, rng: Generator) -> KnownSet:
    """Rows that form a lattice of two inputs, with or without holes: added, or acting together."""
    sides = int(rng.integers(7, 41)), int(rng.integers(7, 41))
    first, second = np.linspace(0.0, 10.0, sides[0]), np.linspace(100.0, 200.0, sides[1])
    grid = pd.DataFrame([(a, b) for a in first for b in second], columns=["row", "depth"])
    order = rng.permutation(len(grid))
    keep = len(grid) - (int(0.1 * len(grid)) if family == "grid-holes" else 0)
    fresh = pd.DataFrame({"row": rng.uniform(0, 10, FRESH), "depth": rng.uniform(100, 200, FRESH)})
    frame = pd.concat([grid.iloc[order[:keep]], fresh], ignore_index=True)
    units = {"row": (5.0, 2.9), "depth": (150.0, 29.0)}
    rest = 1.0 - float(rng.choice([0.02, 0.1, 0.3]))
    shapes = [str(shape) for shape in rng.choice(list(CURVES), 2)]
    parts = [curve_part("row", units["row"], rest / 2, shapes[0])]
    if family == "grid-interacting":
        parts.append(product_part(("row", "depth"), units, rest / 2))
    else:
        parts.append(curve_part("depth", units["depth"], rest / 2, shapes[1]))
    known = make_table(name, family, frame, keep, parts, rng)
    return replace(known, truth=replace(known.truth, kind="grid"))


TABLES = {
    "table-linear": 20, "table-curved": 24, "table-interacting": 26, "table-categories": 30, "table-noise": 16
}  # fmt: skip
GRIDS = {"grid-added": 14, "grid-interacting": 14, "grid-holes": 12}


# -------------------------------------------------------------------------------------------------------------- classes


def build_classes(name: str, family: str, rng: Generator) -> KnownSet:
    """Classes drawn from known probabilities; some columns have nothing to do with them."""
    rows, width = draw_rows(rng, 60, 800), int(rng.integers(2, 6))
    names = [str(each) for each in rng.choice(NAMES, width, replace=False)]
    count = rows + 2000
    frame, units = scaled_columns(rng, names, count)
    z = np.column_stack([(frame[n].to_numpy() - units[n][0]) / units[n][1] for n in names])
    sharp = float(rng.choice([1.0, 3.0, 8.0]))

    def scores(z: Array) -> Array:
        if family == "classes-line":
            return sharp * np.column_stack([np.zeros(len(z)), z[:, 0]])
        if family == "classes-ring":
            return sharp * np.column_stack([np.zeros(len(z)), 2.0 - z[:, 0] ** 2 - z[:, 1] ** 2])
        if family == "classes-corners":
            return sharp * np.column_stack([np.zeros(len(z)), z[:, 0] * z[:, 1]])
        angles = 2 * np.pi * np.arange(3) / 3
        return sharp * (z[:, :1] * np.cos(angles) + z[:, 1:2] * np.sin(angles))

    active = 1 if family == "classes-line" else 2
    chances = np.exp(scores(z) - scores(z).max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    drawn = (chances.cumsum(axis=1) < rng.random((count, 1))).sum(axis=1)
    labels = np.array(["low", "high", "middle"])[drawn]
    best = float(np.mean(1.0 - chances.max(axis=1)))
    costs = []
    for place in range(width):
        mixed = z.copy()
        mixed[:, place] = rng.permutation(mixed[:, place])
        costs.append(float(np.mean(scores(mixed).argmax(axis=1) != drawn) - np.mean(scores(z).argmax(axis=1) != drawn)))
    inputs = tuple(InputTruth(n, costs[place] if place < active else 0.0, (), (0.0,)) for place, n in enumerate(names))
    truth = Truth("classes", "class", rows, inputs=inputs, best_error=best)
    whole = frame.assign(**{"class": labels})
    return KnownSet(name, family, whole.iloc[:rows].reset_index(drop=True), "class", truth, whole.iloc[rows:], True)


CLASSES = {"classes-line": 10, "classes-ring": 10, "classes-corners": 10, "classes-three": 10}


# -------------------------------------------------------------------------------------------------------- the catalogue


@dataclass(frozen=True)
class Entry:
    """One data set by its name; it is made when it is needed."""

    name: str
    family: str
    seed: int


PER_DRAW = 100  # numbers of a family that one draw may use


def list_known(draw: int = 0) -> list[Entry]:
    """Return 400 data sets, family by family; each draw has others."""
    counts = {**dict.fromkeys(SERIES, 17), **TABLES, **CLASSES, **GRIDS}
    first = PER_DRAW * draw
    return [
        Entry(f"{family}-{first + k:02d}", family, first + k) for family, many in counts.items() for k in range(many)
    ]


def make_known(entry: Entry) -> KnownSet:
    """Make a data set; the seed is its family and number."""
    rng = np.random.default_rng([entry.seed, *entry.family.encode()])
    if entry.family in SERIES:
        return make_series(entry.name, entry.family, plan_series(entry.family, rng), rng)
    if entry.family in CLASSES:
        return build_classes(entry.name, entry.family, rng)
    if entry.family in GRIDS:
        return build_grid(entry.name, entry.family, rng)
    if entry.family in TABLES:
        return build_table(entry.name, entry.family, rng)
    raise ValueError(f"there is no family of data sets '{entry.family}'")
