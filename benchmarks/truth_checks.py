"""Whether a claim is true: a table of rules by kind, each a small function of a case and a claim.

A rule returns a `Verdict`: true, false, or not judged and why. `RULES` has an entry for every kind; a kind without one
stops the benchmark (`UnknownKind`), so that nothing new goes unjudged. To add a kind, write a function and enter it
with `@rule_for("kind")`. Rules are written against the truth of `truth_data.py` and the JSON document that users get.

Numbers are compared with what could be known: a tolerance of a stated share, and four standard errors of a regression
on the true form. What is about the search or the fit itself is only checked for consistency ("about itself").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from pandas.api.types import is_numeric_dtype

from benchmarks.truth_case import (
    ABSENCE,
    CHANCE,
    FALSE,
    INTERVAL,
    ITSELF,
    PLAIN,
    SMALLEST,
    TEST,
    TRUE,
    UNJUDGED,
    Case,
    Verdict,
    positions,
)
from benchmarks.truth_data import InputTruth
from benchmarks.truth_kernels import Leaf, UnknownKind, wave_period
from benchmarks.truth_power import find_unnamed

Claim = dict[str, Any]
Rule = Callable[[Case, Claim], "Verdict | list[Verdict]"]

NOTHING = 0.002  # of the variance: an input with less does nothing
NEAR_PLACE = 0.02  # of the range: what is near a place
TINY = 0.005  # of the variance: a component with less is not judged
RELATIVE = 0.25  # by how much a slope or a size may be off beside its standard error
ERRORS = 4.0  # standard errors
DRIFTING = 0.5  # of the range: a pattern that is said to change faster is said to drift
WALKING = 0.2  # of the range: a rough function with a longer lengthscale is said to be a random walk
GROWING = 2.0  # from one end to the other: a larger ratio is said to grow
DESCRIBED = 0.05  # a kernel with less weight does not predict, and must not be described
SURE = 0.99  # a probability above it is not said
CLEAR, DOUBTFUL = 0.01, 0.05  # p-values from which on nothing was found, and from which on there is no doubt
STRAIGHT = 0.01  # of the variance: a slow part that is off a line by less is a line


RULES: dict[str, Rule] = {}


def rule_for(*kinds: str) -> Callable[[Rule], Rule]:
    """Enter a function as the rule of some kinds of claims."""

    def enter(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return enter


def judge(case: Case, claim: Claim, place: int = -1) -> list[Verdict]:
    """Judge one claim, which may say several things; its kind must have a rule."""
    if claim["kind"] not in RULES:
        raise UnknownKind(f"there is no rule for claims of the kind '{claim['kind']}': enter one with `rule_for`")
    found = RULES[claim["kind"]](case, claim)
    text = case.sentence(place) if place >= 0 else ""
    return [replace(each, statement=text) for each in (found if isinstance(found, list) else [found])]


def judge_all(case: Case) -> list[Verdict]:
    """Judge every claim of an explanation."""
    return [found for place, claim in enumerate(case.claims) for found in judge(case, claim, place)]


def verdict(claim: Claim, holds: bool, why: str, sort: str = PLAIN, level: float | None = None) -> Verdict:
    return Verdict(claim["kind"], sort, TRUE if holds else FALSE, why, level=level)


def unjudged(claim: Claim, why: str, sort: str = PLAIN) -> Verdict:
    return Verdict(claim["kind"], sort, UNJUDGED, why)


# ------------------------------------------------------------------------------------------------- the whole, the noise


@rule_for("components")
def judge_components(case: Case, claim: Claim) -> Verdict:
    """ "Two components make up value; 13 % of its variance is noise.": there is structure, and the noise is right."""
    truth = case.truth
    if truth.noise_share is None:
        return unjudged(claim, "the truth is not known")
    if truth.signal_share < NOTHING and not truth.effects:
        return verdict(claim, False, "there is nothing but noise")
    if not claim["value"].get("known", True):
        return verdict(claim, True, "there is structure; the noise is said not to be known")
    said, true = float(claim["value"]["noise_share"]), min(truth.noise_share, 1.0)
    allowed = SMALLEST + ERRORS * true * float(np.sqrt(2.0 / truth.rows))
    core = true if truth.noise_core is None else true * (truth.noise_core / case.noise) ** 2
    if not claim["value"].get("pure", True):  # "noise or what the model has not found": no less than the noise
        return verdict(claim, said >= core - allowed, f"noise is {true:.1%} of the variance")
    return verdict(claim, core - allowed <= said <= true + allowed, f"noise is {true:.1%} of the variance")


@rule_for("noise alone")
def judge_noise_alone(case: Case, claim: Claim) -> Verdict:
    truth = case.truth
    if truth.noise_share is None:
        return unjudged(claim, "the truth is not known", ABSENCE)
    share = max([0.0, *(effect.share for effect in truth.effects)])
    return verdict(claim, share < SMALLEST, f"the largest effect is {share:.1%} of the variance", ABSENCE)


@rule_for("too few rows")
def judge_too_few(case: Case, claim: Claim) -> Verdict:
    value = claim["value"]
    few = value["rows"] == len(case.known.frame) and value["rows"] < 10 * value["parameters"]
    return verdict(claim, few, f"{len(case.known.frame)} rows", ITSELF)


@rule_for("noise", "unexplained")
def judge_noise(case: Case, claim: Claim) -> Verdict:
    """The standard deviation of the noise, with or without rows that stand out."""
    if case.truth.noise_std is None:
        return unjudged(claim, "the truth is not known")
    if case.disclaimed:
        return unjudged(claim, "disclaimed")
    allowed = np.exp(0.1 + ERRORS / np.sqrt(2.0 * case.truth.rows))
    low, high = sorted([case.noise, case.noise if case.truth.noise_core is None else case.truth.noise_core])
    said = float(claim["value"])
    most = np.inf if claim["kind"] == "unexplained" else high * allowed  # the noise, or more than it
    return verdict(claim, low / allowed <= said <= most, f"the noise has a standard deviation of {high:.4g}")


@rule_for("noise not known")
def judge_noise_not_known(case: Case, claim: Claim) -> Verdict:
    return unjudged(claim, "said not to be known")


@rule_for("held-out error", "left-out error")
def judge_held_out(case: Case, claim: Claim) -> Verdict:
    """The error of the average can be computed; no model errs less than the noise itself does."""
    value, rows = claim["value"], len(case.values)
    average = float(np.abs(case.values - case.values.mean()).mean())
    if abs(value["error_of_average"] / average - 1.0) > 0.05 + 2.0 / rows:
        return verdict(claim, False, f"the mean error of the average is {average:.4g}")
    if case.truth.signal:
        least = float(np.abs(case.values - np.array(case.truth.signal)).mean())
        if value["error"] < least * (1.0 - 0.05 - ERRORS * 0.76 / np.sqrt(rows)):
            return verdict(claim, False, f"the mean absolute noise alone is {least:.4g}")
    unseen, predicted = case.known.unseen, case.record.get("unseen")
    if case.truth.column is None and predicted and len(unseen) >= 30:
        errors = np.abs(unseen[case.known.target].to_numpy(dtype=float) - np.array(predicted["mean"]))
        typical, se = float(errors.mean()), float(errors.std()) * np.sqrt(1.0 / len(errors) + 1.0 / rows)
        near = abs(value["error"] - typical) <= 0.15 * typical + ERRORS * se
        return verdict(claim, near, f"the mean error on {len(errors)} rows never seen is {typical:.4g}")
    return verdict(claim, True, f"the mean error of the average is {average:.4g}")


# ----------------------------------------------------------------------------------------------------------- components


@rule_for("component")
def judge_component(case: Case, claim: Claim) -> Verdict:
    """Say whether what a summand of the kernel is said to be is there: a period, a line, a curve, an interaction."""
    if case.disclaimed:
        return unjudged(claim, "disclaimed")
    if not case.truth.known:
        return unjudged(claim, "the truth is not known")
    component = case.component(claim)
    share = 1.0 if component is None else float(component["share"])
    if share < TINY:
        return unjudged(claim, f"less than {TINY:.1%} of the variance")
    leaves = case.leaves(claim["value"]["kernel"])
    own = judge_series_part if case.truth.kind == "series" else judge_table_part
    found, p = own(case, claim, leaves, share), claim["value"].get("p_value")
    if found.outcome == FALSE and p is not None and p >= CLEAR:
        return unjudged(claim, "said that it may be chance")
    return found


def judge_series_part(case: Case, claim: Claim, leaves: list[Leaf], share: float) -> Verdict:
    roles = [leaf.role for leaf in leaves]
    if "wave" in roles or "mixture" in roles:
        return judge_wave(case, claim, leaves)
    if roles == ["noise"]:
        return verdict(claim, True, "noise")
    if roles == ["constant"]:
        jump = (claim["value"].get("seen") or {}).get("jump")
        if jump is not None:
            return verdict(claim, *find_level_change(case, float(jump["at"]), case.unit, share))
        return verdict(claim, True, "a level")
    signal = case.truth.signal_share
    if share > signal + 0.1 + ERRORS * np.sqrt(2.0 / case.truth.rows):
        return verdict(
            claim, False, f"it is said to be {share:.0%} of the variance; all that is not noise is {signal:.0%}"
        )
    if roles == ["line"]:
        return judge_line(case, claim)
    return judge_slow(case, claim, leaves, share)


def find_level_change(case: Case, at: float, unit: str | None, share: float) -> tuple[bool, str]:
    """Say whether the level changes near a place; of next to nothing anything may be said."""
    said, levels = case.in_true_unit(at, unit), [each.at for each in case.truth.changes if each.kind == "level"]
    near = any(abs(place - said) <= max(2.0 * case.truth.step, NEAR_PLACE * case.truth.span) for place in levels)
    there = ", ".join(f"{place:.4g}" for place in levels) or "none"
    return near or share < SMALLEST, f"the level changes at: {there}; said is {said:.4g}"


def judge_line(case: Case, claim: Claim) -> Verdict:
    slope = claim["value"]["slope"]
    return unjudged(claim, "no slope is said") if slope is None else judge_slope(case, claim, slope, case.unit)


@rule_for("trend")
def judge_trend(case: Case, claim: Claim) -> Verdict:
    """A slope along a column of numbers or dates; of a category, the difference to the others."""
    if case.disclaimed:
        return unjudged(claim, "disclaimed")
    if not case.truth.known:
        return unjudged(claim, "the truth is not known")
    if case.truth.kind == "series":
        return judge_slope(case, claim, float(claim["value"]), claim["unit"])
    return judge_input_slope(case, claim, claim["subject"], float(claim["value"]))


def judge_slope(case: Case, claim: Claim, said: float, unit: str | None) -> Verdict:
    """Compare with the straight part of the truth; where nothing is straight, with the line through its slow part."""
    truth = case.truth
    said = said / case.in_true_unit(1.0, unit)
    at = positions(case)
    slow = np.array(truth.slow)
    line = float(np.polyfit(at, slow, 1)[0]) if len(at) == len(slow) else float(truth.slope or 0.0)
    possible = [line] if truth.curve != "none" or truth.changes else [float(truth.slope or 0.0)]
    if truth.slope and possible == [line]:
        possible.append(truth.slope)
    error = case.noise / (float(at.std()) * np.sqrt(truth.rows) or 1.0)
    season = np.sqrt(sum(each.share for each in truth.seasons)) * case.spread  # a few cycles lean to one side
    error += season / (float(at.std()) * np.sqrt(truth.rows) or 1.0)
    holds = any(abs(said - true) <= RELATIVE * abs(true) + ERRORS * error for true in possible)
    return verdict(claim, holds, f"the slope is {possible[0]:.4g} per unit ({truth.unit}), said is {said:.4g}")


def judge_wave(case: Case, claim: Claim, leaves: list[Leaf]) -> Verdict:
    """A period must be there; where it is said to drift or to grow, it must."""
    truth = case.truth
    there = ", ".join(f"{season.period:g}" for season in truth.seasons) or "none"
    for leaf in leaves:
        if leaf.role == "mixture":
            return unjudged(claim, "a mixture of waves")
        period = wave_period(leaf) if leaf.role == "wave" else None
        if period is None:
            if leaf.role == "wave":
                raise UnknownKind(f"a wave without a period: {claim['value']['kernel']}")
            continue
        period = case.in_true_unit(period, case.unit)
        season = case.season_said(period, case.said_between(claim))
        if season is None:
            return verdict(claim, False, f"periods ({truth.unit}): {there}; said is {period:.4g}")
        changed = judge_modulation(case, leaves, season.drifts, season.grows)
        if changed:
            return verdict(claim, False, f"the season of {season.period:g} {changed}")
    return verdict(claim, True, f"periods: {there}")


def judge_modulation(case: Case, leaves: list[Leaf], drifts: bool, grows: bool) -> str:
    """Say what is wrong with the factors of a wave: nothing, or that it neither drifts nor grows."""
    span = case.truth.span
    for leaf in leaves:
        length = leaf.number("lengthscale")
        fades = leaf.role == "fading" and length is not None and not (drifts or grows)
        if fades and case.in_true_unit(length or 0.0, case.unit) < DRIFTING * span:
            return "does not drift"
        if leaf.role == "line" and not (drifts or grows):
            zero = leaf.number("offset")
            if zero is None:
                continue
            low = 0.0 if case.unit is not None and abs(zero) < 1000 else case.truth.first  # dates count from the first
            high = low + span / case.in_true_unit(1.0, case.unit)
            ends = sorted([abs(low - zero), abs(high - zero)])
            if low < zero < high or ends[1] > GROWING * ends[0]:
                return "does not grow"
    return ""


def judge_slow(case: Case, claim: Claim, leaves: list[Leaf], share: float) -> Verdict:
    """A curve: false where it is called a random walk, or a line whose slope changes, and is not."""
    truth, span = case.truth, case.truth.span
    bent = bend(case)
    longest = max((case.in_true_unit(leaf.number("lengthscale") or 0.0, case.unit) for leaf in leaves), default=0.0)
    wanders = {leaf.symbol for leaf in leaves} == {"M12"} and longest >= WALKING * span
    if wanders and truth.curve != "walk" and share >= SMALLEST:
        return verdict(claim, False, "nothing wanders like a random walk")
    roles = {leaf.role for leaf in leaves}
    lengths = [leaf.number("lengthscale") for leaf in leaves if leaf.role == "fading"]
    fast = any(length is not None and case.in_true_unit(length, case.unit) < span for length in lengths)
    if "line" in roles and fast and bent is not None and bent < STRAIGHT and not truth.seasons and share >= SMALLEST:
        return verdict(claim, False, "the trend is a straight line: its slope does not change")
    if roles == {"line"} and bent is not None and bent < STRAIGHT and share >= SMALLEST:
        return verdict(claim, False, "the trend is a straight line, no polynomial")
    if truth.signal_share < NOTHING:
        return verdict(claim, False, "there is nothing but noise")
    return verdict(claim, True, f"all that is not noise is {truth.signal_share:.0%} of the variance")


def bend(case: Case) -> float | None:
    """Return the share of the variance by which the slow part of a series is off its line."""
    at, slow = positions(case), np.array(case.truth.slow)
    if len(at) != len(slow) or len(at) < 3:
        return None
    left = slow - np.polyval(np.polyfit(at, slow, 1), at)
    return float(left.var()) / case.spread**2


def judge_table_part(case: Case, claim: Claim, leaves: list[Leaf], share: float) -> Verdict:
    """A function of inputs that do nothing is false; so is a product of what only adds up."""
    truth, names = case.truth, case.columns_of(leaves)
    idle = {case.table_name(case.encoded[d]) for d in claim["value"].get("joint", {}).get("idle", ())}
    acting = names - idle
    shares = {each.name: each.share for each in truth.inputs}
    if acting and all(shares.get(name, 0.0) < NOTHING for name in acting):
        return verdict(claim, share < 0.01, f"{', '.join(sorted(acting))}: no effect in truth; said is {share:.1%}")
    for leaf in leaves:
        period = wave_period(leaf) if leaf.role == "wave" else None
        true = next((each.period for each in truth.inputs if each.name in leaf.columns), None)
        if period is not None and (true is None or abs(period / true - 1.0) > 0.2):
            return verdict(claim, False, f"nothing repeats along {', '.join(leaf.columns)} with period {period:.4g}")
    groups = {tuple(sorted(case.columns_of([leaf]))) for leaf in leaves if leaf.columns}
    joined = {name for group in groups for name in group} - idle
    if len(groups) > 1 and len(joined) > 1 and not claim["value"].get("joint", {}).get("add_up"):
        return judge_joined(case, claim, joined, share)
    if [leaf.role for leaf in leaves] == ["line"] and claim["value"]["slope"] is not None:
        return judge_input_slope(case, claim, leaves[0].columns[0], float(claim["value"]["slope"]))
    return verdict(claim, True, f"shares: {say_shares(case, acting)}")


def say_shares(case: Case, names: set[str]) -> str:
    return ", ".join(f"{each.name} {each.share:.0%}" for each in case.truth.inputs if each.name in names)


def find_input(case: Case, name: str) -> InputTruth | None:
    return next((each for each in case.truth.inputs if each.name == name), None)


def judge_input_slope(case: Case, claim: Claim, encoded: str, said: float) -> Verdict:
    """Compare with the line through the true effect, or the difference between a category and the others."""
    name = case.table_name(encoded)
    found = find_input(case, name)
    if found is None:
        return unjudged(claim, f"'{name}' is no input of the table")
    column = case.known.frame[name]
    if encoded != name:
        level, mean = encoded.split("=", 1)[1], dict(zip(map(str, found.places), found.means, strict=True))
        own = column.astype(str)
        others = [mean[each] for each in own if each != level]
        true = mean[level] - float(np.mean(others))
        error = case.error(1.0) / max(1e-9, float((own == level).std()))
    else:
        at = column.to_numpy(dtype=float)
        true = float(np.polyfit(at, np.interp(at, found.places, found.means), 1)[0])
        error = case.error(1.0) / (float(at.std()) or 1.0)
    rest = case.spread * np.sqrt(max(0.0, 1.0 - found.share) / case.truth.rows)  # what others do leans to one side
    error += rest / max(1e-9, float((own == level).std()) if encoded != name else float(at.std()))
    holds = abs(said - true) <= RELATIVE * abs(true) + ERRORS * error
    return verdict(claim, holds, f"along {encoded} the slope is {true:.4g}, said is {said:.4g}")


def judge_joined(case: Case, claim: Claim, names: set[str], share: float) -> Verdict:
    true = [" and ".join(pair) for pair, _ in case.truth.interactions]
    holds = any(set(pair) <= names for pair, _ in case.truth.interactions) or share < 0.01
    return verdict(claim, holds, f"acting together: {', '.join(true) or 'none'}")


@rule_for("continuation")
def judge_continuation(case: Case, claim: Claim) -> Verdict:
    """It follows from the component, which is judged; the forecasts are judged by what came."""
    return unjudged(claim, "follows from the component; forecasts are judged by what came")


@rule_for("removed error")
def judge_removed(case: Case, claim: Claim) -> Verdict:
    return verdict(claim, -1.0 <= claim["value"] <= 1.0, "a share of an error", ITSELF)


# --------------------------------------------------------------------------------------------------------------- inputs


@rule_for("effect")
def judge_effect(case: Case, claim: Claim) -> Verdict | list[Verdict]:
    """The direction, the size and the ends of an effect, the other inputs being typical."""
    value, found = claim["value"], find_input(case, claim["value"]["column"])
    if found is None:
        return unjudged(claim, "the truth is not known")
    direction, size = value["direction"], float(value["size"])
    if direction in ("not in the model", "not clear"):
        return unjudged(claim, "said not to be known")
    if direction == "left out":
        return verdict(claim, found.share >= NOTHING, f"{found.name} has {found.share:.1%} of the variance")
    if direction == "hardly matters":  # an absence is claimed whatever was said of the rest
        return verdict(claim, found.share < SMALLEST, f"{found.name} has {found.share:.1%} of the variance", ABSENCE)
    if case.disclaimed:
        return unjudged(claim, "disclaimed")
    error = ERRORS * case.error(6.0) + 0.05 * case.spread
    why = f"{found.name}: share {found.share:.1%}, size {found.size:.4g}, said is {size:.4g} ({direction})"
    if direction == "depends on others":
        sure = claim["certainty"]
        holds = any(found.name in names for names, _ in case.truth.interactions)
        return verdict(claim, holds, why, PLAIN if sure is None or sure > SURE else CHANCE, sure)
    low, high = value.get("low"), value.get("high")
    if low is not None and high - low > 2.0 * RELATIVE * size and not value.get("levels"):  # the interval is said
        interval = verdict(claim, low <= found.size <= high, f"{why}, {low:.4g} to {high:.4g}", INTERVAL, 0.95)
        course = found.size < error or judge_direction(found, value, error)
        return [interval, verdict(claim, course, f"{why}; {describe_course(found)}")]
    if abs(size - found.size) > RELATIVE * found.size + error:
        return verdict(claim, False, why)
    if found.size < error:
        return verdict(claim, True, why)
    return verdict(claim, judge_direction(found, value, error), f"{why}; {describe_course(found)}")


def describe_course(found: InputTruth) -> str:
    low, high = int(np.argmin(found.means)), int(np.argmax(found.means))
    return f"lowest at {found.places[low]}, highest at {found.places[high]}"


def judge_direction(found: InputTruth, value: dict[str, Any], error: float) -> bool:
    """Whether the course is right: what goes the other way is small, and the ends are nearly the extremes."""
    means = np.array(found.means)
    if value["direction"] in ("rises", "falls"):
        course = means if value["direction"] == "rises" else -means
        back = float(np.max(np.maximum.accumulate(course) - course))
        return back <= 0.15 * found.size + error
    steps = np.diff(means)
    if value["direction"] == "goes up and down" and (np.all(steps >= 0) or np.all(steps <= 0)):
        return False
    allowed = 0.15 * found.size + error
    lowest, highest = (mean_at(found, value[end]) for end in ("lowest_at", "highest_at"))
    if lowest is None or highest is None:
        return False
    return bool(lowest <= means.min() + allowed and highest >= means.max() - allowed)


def mean_at(found: InputTruth, place: str) -> float | None:
    """Return the true mean at a place as it is written."""
    if isinstance(found.places[0], str):
        return dict(zip(found.places, found.means, strict=True)).get(place)
    try:
        return float(np.interp(float(place.replace(",", "")), found.places, found.means))
    except ValueError:
        return None


@rule_for("interaction")
def judge_interaction(case: Case, claim: Claim) -> Verdict:
    """ "The effects of a, b and c depend on each other": each of them does so with another of them."""
    if case.disclaimed or not case.truth.known:
        return unjudged(claim, "disclaimed" if case.disclaimed else "the truth is not known")
    names, true = set(claim["value"]), case.truth.interactions
    met = {name for pair, _ in true if set(pair) <= names for name in pair}
    said = [" and ".join(pair) for pair, _ in true]
    sure = claim["certainty"] is None or claim["certainty"] > SURE
    why = f"acting together: {', '.join(said) or 'none'}"
    return verdict(claim, met == names, why, PLAIN if sure else CHANCE, claim["certainty"])


@rule_for("no interaction")
def judge_no_interaction(case: Case, claim: Claim) -> Verdict:
    if not case.truth.known:
        return unjudged(claim, "the truth is not known", ABSENCE)
    largest = max(case.truth.interactions, key=lambda each: each[1], default=(("none",), 0.0))
    why = f"{' and '.join(largest[0])} together have {largest[1]:.1%} of the variance"
    return verdict(claim, largest[1] < SMALLEST, why, ABSENCE)


@rule_for("absent", "not found")
def judge_absence(case: Case, claim: Claim) -> Verdict:
    """An absence may be claimed of what has less than 5 % of the variance."""
    truth, what = case.truth, claim["value"]["what"]
    if not truth.known:
        return unjudged(claim, "the truth is not known", ABSENCE)
    if what == "effect":
        found = find_input(case, claim["value"]["column"])
        share = 0.0 if found is None else found.share
        return verdict(claim, share < SMALLEST, f"it has {share:.1%} of the variance", ABSENCE)
    if truth.kind != "series":
        return unjudged(claim, f"no truth about a {what} along an input of a table", ABSENCE)
    if what == "period":
        share = max([0.0, *(season.share for season in truth.seasons)])
        return verdict(claim, share < SMALLEST, f"seasons have {share:.1%} of the variance", ABSENCE)
    if what != "trend":
        raise UnknownKind(f"there is no rule for the absence of '{what}'")
    if truth.trend_share < SMALLEST and (truth.curve != "none" or truth.changes):
        return unjudged(claim, "a curve or a change, of which a line is a part", ABSENCE)
    return verdict(
        claim, truth.trend_share < SMALLEST, f"the trend has {truth.trend_share:.1%} of the variance", ABSENCE
    )


# ------------------------------------------------------------------------------------------------------------ left over


@rule_for("autocorrelation of errors", "period in errors", "shape of errors", "spread of errors")
def judge_check(case: Case, claim: Claim) -> Verdict:
    """A finding is a test, whose false alarms are counted; that nothing was found must be true of the errors."""
    p, kind, truth = float(claim["value"]["check"]["p_value"]), claim["kind"], case.truth
    if not truth.known:
        return unjudged(claim, "the truth is not known", TEST)
    left, missed = case.left or 0.0, case.missed or 0.0
    why = f"noise: {truth.noise}; {left:.1%} of the variance is left over, {missed:.1%} missed"
    if p < CLEAR:
        unnamed = [f"{effect.kind} {effect.subject}" for effect in find_unnamed(case)[1]]
        unnamed += ["a rhythm that no component has"] * bool(case.of_kind("rhythm"))  # judged by itself
        unnamed += ["a season that does not repeat"] * bool(truth.unsteady and not case.says_unsteady)
        found = truth.noise != "normal" or missed >= 0.01 or bool(unnamed)
        return verdict(claim, found, f"{why}; not named: {', '.join(unnamed) or 'nothing'}", TEST, CLEAR)
    if p < DOUBTFUL:  # "may": neither is said
        return unjudged(claim, "a doubt")
    if claim["value"].get("enough") is False:
        return unjudged(claim, "said that so few rows cannot tell")
    if kind == "shape of errors" and truth.unusual:
        return verdict(claim, False, f"{len(truth.unusual)} rows are 8 standard deviations off")
    if kind in ("autocorrelation of errors", "period in errors") and left >= SMALLEST:
        return verdict(claim, False, why)
    return verdict(claim, True, why)


@rule_for("band of errors")
def judge_band(case: Case, claim: Claim) -> Verdict:
    check, rows = claim["value"]["check"], claim["value"]["rows"]
    return verdict(claim, abs(check["place"] / rows - check["statistic"]) < 1e-6, "a count", ITSELF)


# --------------------------------------------------------------------------------------------------------------- beyond


@rule_for("forecast")
def judge_forecast(case: Case, claim: Claim) -> Verdict:
    """What came, at the place that is meant, must lie in the band, in 95 of 100 cases."""
    value, unseen = claim["value"], case.known.unseen
    if value["low"] > value["mean"] or value["mean"] > value["high"]:
        return verdict(claim, False, "the mean is outside its band")
    row = unseen_row(case, float(value["distance"]), claim["unit"])
    if row is None:
        return unjudged(claim, "it is not known what came there", INTERVAL)
    came = float(unseen[case.known.target].iloc[row])
    return verdict(claim, value["low"] <= came <= value["high"], f"{came:.4g} came", INTERVAL, claim["certainty"])


def unseen_row(case: Case, distance: float, unit: str | None) -> int | None:
    """Return the row that lies at a distance beyond the data; None where there is none."""
    truth, beyond = case.truth, distances_beyond(case)
    if not len(beyond):
        return None
    off = np.abs(beyond - case.in_true_unit(distance, unit))
    row = int(np.argmin(off))
    return row if off[row] <= 0.4 * truth.step else None


def distances_beyond(case: Case) -> np.ndarray:
    """Return how far beyond the data the rows to come are, in the unit of the truth."""
    truth, unseen = case.truth, case.known.unseen
    if truth.column is None or not len(unseen):
        return np.empty(0)
    if truth.known or not is_numeric_dtype(unseen[truth.column]):
        return truth.step * (1.0 + np.arange(len(unseen)))  # whole steps: months are alike
    return unseen[truth.column].to_numpy(dtype=float) - truth.last


@rule_for("horizon")
def judge_horizon(case: Case, claim: Claim) -> Verdict:
    """The band must be narrower than the spread of the data before the horizon and as wide after it, at the rows."""
    predicted, steps = case.record.get("unseen"), distances_beyond(case)
    if not predicted or not len(steps):
        return unjudged(claim, "no rows to come are known")
    if claim["value"].get("below"):
        return unjudged(claim, "it is about the lower end")
    if claim["value"].get("mixed"):
        return unjudged(claim, "said to differ from place to place")
    std, distance = np.array(predicted["std"]), claim["value"]["distance"]
    end = np.inf if distance is None else case.in_true_unit(float(distance), claim["unit"])
    early = claim["value"].get("first")  # said to be as wide in places from there on
    begin = end if early is None else case.in_true_unit(float(early), claim["unit"])
    before, after = steps < 0.99 * begin, steps >= max(1.1 * end, steps[0])
    wide = np.flatnonzero(std > 1.05 * case.spread)
    first = f"first at {steps[wide[0]]:.4g}" if len(wide) else f"nowhere up to {steps[-1]:.4g}"
    holds = not (std[before] > 1.05 * case.spread).any()
    holds = holds and (not after.any() or float(np.mean(std[after] >= 0.95 * case.spread)) > 0.5)
    return verdict(claim, holds, f"the band is as wide as the spread {first}")


@rule_for("random walk")
def judge_random_walk(case: Case, claim: Claim) -> Verdict:
    if not case.truth.known or case.disclaimed:
        return unjudged(claim, "disclaimed" if case.disclaimed else "the truth is not known")
    return verdict(claim, case.truth.curve == "walk", f"the slow part is: {case.truth.curve}")


# -------------------------------------------------------------------------------------------------------------- changes


@rule_for("crossing")
def judge_crossing(case: Case, claim: Claim) -> Verdict:
    """A 95 % interval for where one regime gives way to the next."""
    if not case.truth.changes:
        return verdict(claim, not case.truth.known, "nothing changes") if case.truth.known else unjudged(claim, "real")
    low, high = (case.in_true_unit(float(claim["value"][end]), claim["unit"]) for end in ("low", "high"))
    places = [change.at for change in case.truth.changes]
    half = case.truth.step  # between two rows nothing is known
    inside = any(low - half <= place <= high + half for place in places)
    return verdict(claim, inside, f"changes at {places}", INTERVAL, claim["certainty"])


@rule_for("surface", "regime", "more regimes", "learned regimes")
def judge_regimes(case: Case, claim: Claim) -> Verdict:
    return unjudged(claim, "regimes are not searched for by default")


# --------------------------------------------------------------------------------------------------------- about itself


@rule_for("averaging")
def judge_averaging(case: Case, claim: Claim) -> Verdict:
    """The kernel that is described must have a part in what is predicted, within the data and beyond."""
    within, beyond = claim["value"]["weights"], claim["value"]["weights_beyond"]
    if claim["value"].get("alone") is False:  # then the words are about the average
        return verdict(claim, all(abs(sum(each) - 1.0) < 0.02 for each in (within, beyond)), "weights", ITSELF)
    least = min(within[0], beyond[0] if case.truth.column is not None else within[0])
    adds_up = all(abs(sum(weights) - 1.0) < 0.02 for weights in (within, beyond))
    return verdict(
        claim, adds_up and least >= DESCRIBED, f"the kernel that is described has {within[0]:.1%}, {beyond[0]:.1%}"
    )


@rule_for("fit", "given structure", "meaning of intervals", "intervals", "searched structure")
def judge_itself(case: Case, claim: Claim) -> Verdict:
    value = claim["value"]
    story = value.get("story") if isinstance(value, dict) else None
    if story:
        return verdict(claim, story["finished"] + story["failed"] <= story["tried"], "a count", ITSELF)
    return verdict(claim, True, "about the fit", ITSELF)
