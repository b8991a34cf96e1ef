"""Which effects are named: of those that a test of the true form finds, the ones that an explanation speaks of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.truth_case import Case, Leaf, wave_period
from benchmarks.truth_data import DETECTABLE, Effect

SLOW = 0.25  # of the range: a smooth function that varies over more names a trend


def described_parts(case: Case) -> Iterator[tuple[dict[str, Any], list[Leaf]]]:
    """Return the components that are described, with their base kernels."""
    for claim in case.of_kind("component"):
        component = case.component(claim)
        if component is None or not component["minor"]:
            yield claim, case.leaves(claim["value"]["kernel"])


def find_unnamed(case: Case) -> tuple[list[Effect], list[Effect]]:
    """Return the effects that a test of the true form finds, and those of them that are not named."""
    there = [effect for effect in case.truth.effects if effect.p_value < DETECTABLE]
    return there, [effect for effect in there if not NAMED[effect.kind](case, effect)]


def _parts(case: Case) -> list[list[Any]]:
    return [] if case.disclaimed else [leaves for _, leaves in described_parts(case)]


def names_trend(case: Case, effect: Effect) -> bool:
    """A line, or a function that is slow over the range of the data."""
    if case.disclaimed:
        return False
    if case.of_kind("trend"):
        return True
    for leaves in _parts(case):
        slow = [leaf for leaf in leaves if leaf.role == "fading"]
        lengths = [case.in_true_unit(leaf.number("lengthscale") or 0.0, case.unit) for leaf in slow]
        if any(leaf.role == "wave" for leaf in leaves):
            continue
        straight = any(leaf.role in ("line", "walk") for leaf in leaves)
        if straight or min(lengths, default=0.0) >= SLOW * case.truth.span:
            return True
    return False


def names_season(case: Case, effect: Effect) -> bool:
    for leaves in _parts(case):
        for leaf in leaves:
            period = wave_period(leaf) if leaf.role == "wave" else None
            if period is None or effect.period is None:
                continue
            season = case.season_of(case.in_true_unit(period, case.unit))
            if season is not None and season.period == effect.period:
                return True
    return False


def names_curve(case: Case, effect: Effect) -> bool:
    """Any component that does not repeat."""
    return any(not any(leaf.role == "wave" for leaf in leaves) for leaves in _parts(case))


def names_input(case: Case, effect: Effect) -> bool:
    if case.disclaimed:
        return False
    said = {c["value"]["column"]: c["value"]["direction"] for c in case.of_kind("effect")}
    if effect.subject in said:
        return said[effect.subject] != "hardly matters"
    return any(effect.subject in case.columns_of(leaves) for leaves in _parts(case))


def names_interaction(case: Case, effect: Effect) -> bool:
    return not case.disclaimed and any(set(effect.names) <= set(c["value"]) for c in case.of_kind("interaction"))


def names_unusual(case: Case, effect: Effect) -> bool:
    """A row that stands out is named by its place."""
    for claim in case.of_kind("shape of errors"):
        place = claim["value"].get("at")
        if place is not None and claim["value"]["check"]["p_value"] < 0.01:
            at = case.in_true_unit(float(place), case.unit)
            start = 0.0 if case.unit is None or abs(at) >= 1000 else case.truth.first
            return any(abs(at + start - odd) <= 0.6 * case.truth.step for odd in case.truth.unusual)
    return False


NAMED: dict[str, Callable[[Case, Effect], bool]] = {
    "trend": names_trend, "season": names_season, "curve": names_curve, "change": names_curve, "input": names_input,
    "interaction": names_interaction, "unusual": names_unusual,
}  # fmt: skip
