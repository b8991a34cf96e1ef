"""Data sets like those in which a false or useless sentence was seen, each with what must hold for it exactly.

The rules of `truth_checks.py` judge them like any other set; `EXPECTED` adds what was wrong there. Together they are
part of the quick mode. One sentence has no set here: "its error was 0.890 of their variance" comes from filling grids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from benchmarks.truth_case import FALSE, PLAIN, TRUE, Case, Verdict
from benchmarks.truth_data import (
    CLOCKS,
    FRESH,
    Array,
    Change,
    Entry,
    Generator,
    InputTruth,
    KnownSet,
    Season,
    SeriesPlan,
    TablePart,
    Truth,
    category_part,
    curve_part,
    line_part,
    make_series,
    make_table,
    product_part,
    scaled_columns,
)
from benchmarks.truth_power import find_unnamed, named_parts

FAMILY = "seen"
Expectation = Callable[[Case], Iterator[tuple[bool, str]]]
Maker = Callable[[str, Generator], KnownSet]


# ------------------------------------------------------------------------------------------------------- what must hold


def trend_is_not_denied(case: Case) -> Iterator[tuple[bool, str]]:
    denied = [each for each in case.of_kind("absent", "not found") if each["value"]["what"] == "trend"]
    yield not denied, f"there is a trend of {case.truth.slope:.4g} per unit"


def nothing_is_unnamed(case: Case) -> Iterator[tuple[bool, str]]:
    unnamed = [f"{each.kind} {each.subject} ({each.share:.0%})" for each in find_unnamed(case)[1]]
    yield not unnamed, f"not named: {', '.join(unnamed) or 'nothing'}"


def noise_is_small(case: Case) -> Iterator[tuple[bool, str]]:
    said, true = float(case.explanation["noise_std"]), case.noise
    yield said <= 1.5 * true, f"noise of {said:.3g} is said, {true:.3g} is true"


def horizon_is_beyond_the_first_row(case: Case) -> Iterator[tuple[bool, str]]:
    for claim in case.of_kind("horizon"):
        std = (case.record.get("unseen") or {"std": [np.nan]})["std"][0]
        near = claim["value"]["distance"] != 0 or std >= 0.95 * case.spread
        yield near, f"at the first step the band is {std:.3g}, the spread of the data {case.spread:.3g}"


def described_kernels_predict(case: Case) -> Iterator[tuple[bool, str]]:
    for claim in case.of_kind("averaging"):
        least = min(claim["value"]["weights"][0], claim["value"]["weights_beyond"][0])
        if claim["value"].get("alone") is False:  # the average is described
            least = 1.0
        yield least >= 0.1, f"what is described has a weight of {least:.1%}"


def only_true_periods(case: Case) -> Iterator[tuple[bool, str]]:
    true = [season.period for season in case.truth.seasons]
    for part in named_parts(case):
        for said in part.periods:
            yield case.season_of(said) is not None, f"a period of {said:.4g} is said; there are {true}"


def times_are_those_of_the_file(case: Case) -> Iterator[tuple[bool, str]]:
    first = str(case.known.frame[case.truth.column].iloc[0])
    said = str(case.explanation["inputs"][0]["low"])
    yield first[11:16] in said, f"the file begins at {first}, said is {said}"


def columns_are_not_alike(case: Case) -> Iterator[tuple[bool, str]]:
    relevance = case.explanation["relevance"]
    costs = ", ".join(f"{each.name} {each.share:.2f}" for each in case.truth.inputs)
    alike = bool(relevance) and relevance[0]["share"] * len(relevance) < 1.3
    yield not alike, f"mixing up costs: {costs}"


def constant_is_not_named(case: Case) -> Iterator[tuple[bool, str]]:
    named = set(case.explanation["table_columns"]) & set(case.truth.constant)
    yield not named, f"constant: {', '.join(case.truth.constant)}"


def shares_stay_below_one(case: Case) -> Iterator[tuple[bool, str]]:
    shares = [float(each["share"]) for each in case.explanation["components"]] + [
        float(case.explanation["noise_share"])
    ]
    yield sum(shares) <= 1.05, " + ".join(f"{100 * share:.1f}" for share in shares)


def unit_is_hours(case: Case) -> Iterator[tuple[bool, str]]:
    yield case.unit == "hours", f"the unit is {case.unit}"


def no_doubtful_ticks(case: Case) -> Iterator[tuple[bool, str]]:
    for check in case.explanation["checks"]:
        yield not (check["clear"] and check["p_value"] < 0.05), f"{check['name']}: p = {check['p_value']:.2g}"


def noise_is_not_explained(case: Case) -> Iterator[tuple[bool, str]]:
    said, true = float(case.explanation["noise_std"]), case.noise
    yield said >= true / 1.5, f"noise of {said:.3g} is said, {true:.3g} is true"


def interaction_is_found(case: Case) -> Iterator[tuple[bool, str]]:
    yield not case.of_kind("no interaction"), "temp and speed act together"


# -------------------------------------------------------------------------------------------------------- the data sets


def trend_and_none(name: str, rng: Generator) -> KnownSet:
    """A rise of about one per month with a season that grows, as airline passengers have."""
    plan = SeriesPlan(144, CLOCKS["months"], trend=0.8, seasons=(Season(12.0, 0.17, 3, grows=True),))
    return make_series(name, FAMILY, plan, rng)


def trend_unfinished(name: str, rng: Generator) -> KnownSet:
    """Two years of days that rise by a little each, with a week and a year in them: many candidates, much to fit."""
    seasons = (Season(7.0, 0.25, 2), Season(365.25, 0.25, 2))
    return make_series(name, FAMILY, SeriesPlan(730, CLOCKS["days"], trend=0.45, seasons=seasons), rng)


def largest_effect_left_out(name: str, rng: Generator) -> KnownSet:
    """Ten columns, of which feed has the largest effect, together with speed; 1 % noise."""
    names = ["temp", "speed", "ph", "feed", "load", "depth", "width", "age", "flow", "dose"]
    frame, units = scaled_columns(rng, names, 800 + FRESH)
    parts = [
        line_part("feed", units["feed"], 0.35), product_part(("feed", "speed"), units, 0.2),
        curve_part("temp", units["temp"], 0.2, "wave"), curve_part("ph", units["ph"], 0.14, "square"),
        curve_part("load", units["load"], 0.1, "saturation"),
    ]  # fmt: skip
    return make_table(name, FAMILY, frame, 800, parts, rng)


def band_between_months(name: str, rng: Generator) -> KnownSet:
    """A season of months with many harmonics: known at the months, and nowhere between them."""
    plan = SeriesPlan(68, CLOCKS["months"], trend=0.3, seasons=(Season(12.0, 0.65, 6),))
    return make_series(name, FAMILY, plan, rng)


def weight_beyond(name: str, rng: Generator) -> KnownSet:
    """A short series that many kernels fit alike within the data, and continue differently."""
    plan = SeriesPlan(60, CLOCKS["months"], trend=0.4, walk=0.3, seasons=(Season(12.0, 0.2),))
    return make_series(name, FAMILY, plan, rng)


def counts_period(name: str, rng: Generator) -> KnownSet:
    """Monthly counts with a year in them."""
    return make_series(
        name, FAMILY, SeriesPlan(120, CLOCKS["months"], seasons=(Season(12.0, 1.0, 2),), counts=True), rng
    )


def period_minutes(name: str, rng: Generator) -> KnownSet:
    """A rhythm of 377 minutes, every ten minutes."""
    plan = SeriesPlan(300, CLOCKS["minutes"], seasons=(Season(377.0, 0.7, 2),))
    return make_series(name, FAMILY, plan, rng)


def jump(name: str, rng: Generator) -> KnownSet:
    """A jump of the level and nothing else."""
    return make_series(name, FAMILY, SeriesPlan(150, CLOCKS["days"], changes=(Change(0.5, "level", 0.95),)), rng)


def zone(name: str, rng: Generator) -> KnownSet:
    """Hourly readings at ten fifty-one, two hours before Greenwich."""
    plan = SeriesPlan(120, CLOCKS["hours"], trend=0.3, seasons=(Season(24.0, 0.6),))
    known = make_series(name, FAMILY, plan, rng)
    times = pd.date_range("2024-05-06 10:51", periods=1 + len(known.frame) + len(known.unseen), freq="h")
    texts = [f"{moment:%Y-%m-%dT%H:%M:%S}+02:00" for moment in times]
    seen, unseen = known.frame.assign(time=texts[:120]), known.unseen.assign(time=texts[120 : 120 + len(known.unseen)])
    (season,) = known.truth.seasons  # whose hours were those of a clock that began at midnight
    top, bottom = (f"{(int(str(each).split(':')[0]) + 10) % 24}:00" for each in (season.top, season.bottom))
    truth = replace(known.truth, seasons=(replace(season, top=top, bottom=bottom),))
    return replace(known, frame=seen, unseen=unseen, truth=truth)


def columns_alike(name: str, rng: Generator) -> KnownSet:
    """Classes that depend on two of five columns."""
    names = ["temp", "speed", "ph", "feed", "load"]
    frame, units = scaled_columns(rng, names, 2300)
    z = np.column_stack([(frame[n].to_numpy() - units[n][0]) / units[n][1] for n in names])
    score = 3.0 * (z[:, 0] + 0.7 * z[:, 0] * z[:, 1])
    drawn = rng.random(len(z)) < 1.0 / (1.0 + np.exp(-score))
    costs = []
    for place in range(5):
        mixed = z.copy()
        mixed[:, place] = rng.permutation(mixed[:, place])
        moved = (mixed[:, 0] + 0.7 * mixed[:, 0] * mixed[:, 1]) > 0
        costs.append(float(np.mean(moved != drawn) - np.mean((score > 0) != drawn)) if place < 2 else 0.0)
    inputs = tuple(InputTruth(n, max(cost, 0.0), (), (0.0,)) for n, cost in zip(names, costs, strict=True))
    whole = frame.assign(**{"class": np.where(drawn, "yes", "no")})
    truth = Truth("classes", "class", 300, inputs=inputs)
    return KnownSet(name, FAMILY, whole.iloc[:300].reset_index(drop=True), "class", truth, whole.iloc[300:], True)


def constant_column(name: str, rng: Generator) -> KnownSet:
    """A column that never changes beside the dates."""
    plan = SeriesPlan(96, CLOCKS["months"], trend=0.4, seasons=(Season(12.0, 0.4),))
    known = make_series(name, FAMILY, plan, rng)
    frames = [each.rename(columns={"month": "Datum"}).assign(Größe=7.5) for each in (known.frame, known.unseen)]
    truth = replace(known.truth, column="Datum", constant=("Größe",))
    return replace(known, frame=frames[0], unseen=frames[1], truth=truth)


def tick(name: str, rng: Generator) -> KnownSet:
    """Errors that are not quite a bell curve."""
    plan = SeriesPlan(200, CLOCKS["days"], trend=0.5, seasons=(Season(7.0, 0.2),))
    known = make_series(name, FAMILY, plan, rng)
    signal = np.array(known.truth.signal)
    noise = rng.standard_t(7, len(signal))
    noise *= (known.truth.noise_std or 1.0) / np.sqrt(np.mean(noise**2))
    frame = known.frame.assign(value=signal + noise)
    share = float(np.mean(noise**2) / frame["value"].var(ddof=0))
    return replace(known, frame=frame, truth=replace(known.truth, noise="heavy", noise_share=share))


def shares(name: str, rng: Generator) -> KnownSet:
    """A trend and a walk, whose fitted parts may cancel."""
    return make_series(name, FAMILY, SeriesPlan(160, CLOCKS["months"], trend=0.5, walk=0.48), rng)


def hours(name: str, rng: Generator) -> KnownSet:
    """Hourly readings, a few of them a minute late."""
    known = make_series(name, FAMILY, SeriesPlan(240, CLOCKS["hours"], trend=0.2, seasons=(Season(24.0, 0.6, 2),)), rng)
    late = pd.to_timedelta(np.where(np.arange(len(known.frame)) % 40 == 20, 1, 0), unit="min")
    return replace(known, frame=known.frame.assign(time=known.frame["time"] + late))


def category_left_out(name: str, rng: Generator) -> KnownSet:
    """240 rows, three numbers and a category with effects 0, 1 and 3; temp and speed act together; noise of 0.7."""
    frame, units = scaled_columns(rng, ["temp", "speed", "ph"], 240 + FRESH)
    frame = frame.assign(operator=rng.choice(["Ada", "Ben", "Cem"], len(frame)))

    def both(rows: pd.DataFrame) -> Array:
        t, s = ((rows[n].to_numpy() - units[n][0]) / units[n][1] for n in ("temp", "speed"))
        return np.asarray(np.sin(1.5 * t) * np.exp(-((s - 0.5) ** 2)))

    parts = [
        TablePart(("temp", "speed"), both, 0.35), curve_part("ph", units["ph"], 0.25, "square"),
        category_part("operator", {"Ada": 0.0, "Ben": 1.0, "Cem": 3.0}, 0.3),
    ]  # fmt: skip
    return make_table(name, FAMILY, frame, 240, parts, rng)


def digits(name: str, rng: Generator) -> KnownSet:
    """150 rows of pure noise beside numbers written to four digits: on so fine a grid any period fits something."""
    frame = pd.DataFrame({each: np.round(rng.normal(size=150 + FRESH), 4) for each in ("dose", "load", "flow", "age")})
    frame = frame.assign(site=rng.choice(["north", "south"], len(frame)))
    return make_table(name, FAMILY, frame, 150, [], rng)


SEEN: dict[str, tuple[Maker, tuple[Expectation, ...]]] = {
    "seen-trend-and-none": (trend_and_none, (trend_is_not_denied, nothing_is_unnamed)),
    "seen-trend-unfinished": (trend_unfinished, (trend_is_not_denied,)),
    "seen-largest-effect-left-out": (largest_effect_left_out, (nothing_is_unnamed, noise_is_small)),
    "seen-band-between-months": (band_between_months, (horizon_is_beyond_the_first_row,)),
    "seen-weight-beyond": (weight_beyond, (described_kernels_predict,)),
    "seen-counts-period": (counts_period, (only_true_periods, nothing_is_unnamed)),
    "seen-period-minutes": (period_minutes, (only_true_periods, nothing_is_unnamed)),
    "seen-jump": (jump, (only_true_periods,)),
    "seen-zone": (zone, (times_are_those_of_the_file,)),
    "seen-columns-alike": (columns_alike, (columns_are_not_alike,)),
    "seen-constant-column": (constant_column, (constant_is_not_named,)),
    "seen-tick": (tick, (no_doubtful_ticks,)),
    "seen-shares": (shares, (shares_stay_below_one,)),
    "seen-hours": (hours, (unit_is_hours,)),
    "seen-digits": (digits, (noise_is_not_explained,)),
    "seen-category-left-out": (category_left_out, (nothing_is_unnamed, noise_is_small, interaction_is_found)),
}


def list_seen() -> list[Entry]:
    """Return the sets, in order."""
    return [Entry(name, FAMILY, 0) for name in SEEN]


def make_seen(entry: Entry) -> KnownSet:
    """Make a set; the seed is its name."""
    return SEEN[entry.name][0](entry.name, np.random.default_rng(list(entry.name.encode())))


def judge_expectations(case: Case) -> list[Verdict]:
    """Judge what was once wrong with a set like this; nothing of other sets."""
    _, expectations = SEEN.get(case.known.name, (None, ()))
    found = []
    for expectation in expectations:
        kind = f"seen: {expectation.__name__.replace('_', ' ')}"
        for holds, why in expectation(case):
            found.append(Verdict(kind, PLAIN, TRUE if holds else FALSE, why))
    return found
