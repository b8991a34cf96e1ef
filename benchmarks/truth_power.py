"""Which effects are named: of those that a test of the true form finds, the ones that an explanation speaks of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.truth_case import Case, positions
from benchmarks.truth_data import DETECTABLE, Effect
from benchmarks.truth_kernels import wave_period

SLOW = 0.25  # of the range: a smooth function that varies over more names a trend
LIKELY = 0.5  # what is less probable is not named
CHANCE = 0.01  # nor is what may be chance, by its own p-value
MOST_NAMED = 5  # rows that stand out


@dataclass(frozen=True)
class Part:
    """A component that is described: its columns, its periods, and whether it is a line or otherwise slow."""

    columns: frozenset[str]
    periods: tuple[float, ...] = ()
    straight: bool = False
    shortest: float = 0.0  # the shortest length over which it varies, in the unit of the truth
    joined: bool = False  # inputs act together in it
    share: float = 1.0
    known: bool = True  # more likely there than not

    @property
    def slow(self) -> bool:
        return not self.periods


def described_parts(case: Case) -> Iterator[Part]:
    """Return the components that are described: summands of a kernel, or what several kernels have of one kind."""
    for claim in case.of_kind("component", "gathered component"):
        component = case.component(claim)
        if component is None or not component["minor"]:
            share = 1.0 if component is None else float(component["share"])
            read = read_summand if claim["kind"] == "component" else read_gathered
            part, p = read(case, claim), claim["value"].get("p_value")
            yield replace(part, share=share, known=part.known and not (p is not None and p >= CHANCE))


def read_summand(case: Case, claim: dict[str, Any]) -> Part:
    """Read a component from its kernel."""
    leaves, joint = case.leaves(claim["value"]["kernel"]), claim["value"].get("joint") or {}
    periods = [wave_period(leaf) for leaf in leaves if leaf.role == "wave"]
    lengths = [leaf.number("lengthscale") or 0.0 for leaf in leaves if leaf.role == "fading"]
    groups = {tuple(sorted(case.columns_of([leaf]))) for leaf in leaves if leaf.columns}
    idle = {case.table_name(case.encoded[d]) for d in joint.get("idle", ())}
    names = case.columns_of(leaves) - idle
    return Part(
        columns=frozenset(names),
        periods=tuple(case.in_true_unit(period, case.unit) for period in periods if period is not None),
        straight=any(leaf.role in ("line", "walk") for leaf in leaves),
        shortest=case.in_true_unit(min(lengths, default=0.0), case.unit),
        joined=len(groups) > 1 and len(names) > 1 and not joint.get("add_up"),
    )


def read_gathered(case: Case, claim: dict[str, Any]) -> Part:
    """Read a component of an average from its kind."""
    kind, lengths = claim["value"]["kind"], claim["value"].get("lengths") or (0.0,)
    slow = kind["name"] in ("trend", "slow change", "random walk")
    return Part(
        columns=frozenset(kind["columns"]),
        periods=() if kind["period"] is None else (case.in_true_unit(float(kind["period"]), claim["unit"]),),
        straight=slow,
        shortest=case.in_true_unit(float(lengths[0]), claim["unit"]),
        joined=kind["name"] == "interaction",
        known=float(claim["value"]["certainty"]) >= LIKELY and kind["name"] not in ("noise", "constant"),
    )


def find_unnamed(case: Case) -> tuple[list[Effect], list[Effect]]:
    """Return the effects that a test of the true form finds, and those of them that are not named."""
    there = [effect for effect in case.truth.effects if effect.p_value < DETECTABLE]
    return there, [effect for effect in there if not NAMED[effect.kind](case, effect)]


def named_parts(case: Case) -> list[Part]:
    return [] if case.disclaimed else [part for part in described_parts(case) if part.known]


def names_trend(case: Case, effect: Effect) -> bool:
    """A line, a rate that is not zero, or a function that is slow over the range of the data."""
    if case.disclaimed:
        return False
    if case.of_kind("trend") or any(is_clear(claim) for claim in case.of_kind("rate")):
        return True
    slow = SLOW * case.truth.span
    return any(part.slow and (part.straight or part.shortest >= slow) for part in named_parts(case))


def is_clear(claim: dict[str, Any]) -> bool:
    """Whether the interval of a rate leaves zero out."""
    return bool(claim["value"]["low"] > 0 or claim["value"]["high"] < 0)


def names_season(case: Case, effect: Effect) -> bool:
    """A component that repeats, or a rhythm that is said to run through the data, with the period or a harmonic."""
    periods = [period for part in named_parts(case) for period in part.periods]
    said = [] if case.disclaimed else case.of_kind("rhythm")
    periods += [case.in_true_unit(float(each["value"]["period"]), each["unit"]) for each in said]
    seasons = [case.season_of(period) for period in periods]
    blurred = [] if case.disclaimed else [case.said_between(each) for each in case.of_kind("season")]
    seasons += [case.season_said(between[0], between) for between in blurred if between is not None]
    return any(season is not None and season.period == effect.period for season in seasons)


def names_variation(case: Case, effect: Effect) -> bool:
    """Any component, or the season that it was made as."""
    return bool(named_parts(case)) or names_season(case, effect)


def names_curve(case: Case, effect: Effect) -> bool:
    """Any component that does not repeat."""
    return any(part.slow for part in named_parts(case))


def names_input(case: Case, effect: Effect) -> bool:
    if case.disclaimed:
        return False
    said = {claim["value"]["column"]: claim["value"]["direction"] for claim in case.of_kind("effect")}
    if effect.subject in said:
        return said[effect.subject] not in ("hardly matters", "not in the model", "not clear")  # it must be told
    return any(effect.subject in part.columns for part in named_parts(case))


def names_interaction(case: Case, effect: Effect) -> bool:
    """Said as an interaction; or that errors still go with the two together."""
    together = [claim["value"] for claim in case.of_kind("interaction")]
    together += [claim["value"]["columns"] for claim in case.of_kind("errors depend")]
    return not case.disclaimed and any(set(effect.names) <= set(names) for names in together)


def names_unusual(case: Case, effect: Effect) -> bool:
    """Most of the rows that stand out are named, as far as rows are named at all."""
    places = positions(case)
    for claim in case.of_kind("unusual rows"):
        said = [float(places[each["row"]]) for each in claim["value"]["rows"]]
        right = sum(any(abs(at - odd) < 0.5 * case.truth.step for odd in case.truth.unusual) for at in said)
        return 2 * right > min(len(case.truth.unusual), MOST_NAMED)
    for claim in case.of_kind("shape of errors"):
        place = claim["value"].get("at")
        if place is not None and claim["value"]["check"]["p_value"] < 0.01:
            at = case.in_true_unit(float(place), case.unit)
            start = 0.0 if case.unit is None or abs(at) >= 1000 else case.truth.first
            return any(abs(at + start - odd) <= 0.6 * case.truth.step for odd in case.truth.unusual)
    return False


NAMED: dict[str, Callable[[Case, Effect], bool]] = {
    "trend": names_trend, "season": names_season, "variation": names_variation, "curve": names_curve,
    "change": names_curve, "input": names_input, "interaction": names_interaction, "unusual": names_unusual,
}  # fmt: skip
