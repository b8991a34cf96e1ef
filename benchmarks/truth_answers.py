"""Rules for what is said first, and of kernels that are averaged: rates, seasons, rows that stand out, components.

They are entered into the table of `truth_checks.py` when this file is imported. What has a probability goes to
calibration: it must hold as often as it says.
"""

from __future__ import annotations

import numpy as np

from benchmarks.truth_case import (
    ABSENCE,
    CHANCE,
    INTERVAL,
    ITSELF,
    PLAIN,
    SMALLEST,
    TEST,
    Case,
    Verdict,
    positions,
)
from benchmarks.truth_checks import (
    CLEAR,
    ERRORS,
    NOTHING,
    SURE,
    TINY,
    Claim,
    find_input,
    find_level_change,
    rule_for,
    unjudged,
    verdict,
)

LIKELY = 0.5  # a component with less weight is not said to be there
CALLED_UNUSUAL = 0.05  # the chance with which any row may be called unusual where none is


# -------------------------------------------------------------------------------------------------- averaged components


@rule_for("gathered component")
def judge_gathered(case: Case, claim: Claim) -> Verdict:
    """What kernels that are averaged have of one kind, and how sure it is that it is there."""
    if case.disclaimed or not case.truth.known:
        return unjudged(claim, "disclaimed" if case.disclaimed else "the truth is not known")
    component = case.component(claim)
    share = 1.0 if component is None else float(component["share"])
    if share < TINY:
        return unjudged(claim, f"less than {TINY:.1%} of the variance")
    holds, why = find_kind(case, claim, share)
    sure, p = float(claim["value"]["certainty"]), claim["value"].get("p_value")
    if holds is None or sure < LIKELY:
        return unjudged(claim, why if holds is None else "said only that some kernels have it", CHANCE)
    if not holds and p is not None and p >= CLEAR:
        return unjudged(claim, "said that it may be chance")
    return verdict(claim, holds, why, PLAIN if sure > SURE else CHANCE, sure)


def find_kind(case: Case, claim: Claim, share: float) -> tuple[bool | None, str]:
    """Say whether a kind of component is there in truth; None where that cannot be said."""
    truth, kind, columns = case.truth, claim["value"]["kind"]["name"], set(claim["value"]["kind"]["columns"])
    shares = {each.name: each.share for each in truth.inputs}
    if kind in ("noise", "constant"):
        return True, kind
    if kind in ("network", "learned function"):
        return None, f"a {kind}"
    if kind in ("effect", "effects"):
        acting = [name for name in columns if shares.get(name, 0.0) >= NOTHING]
        return bool(acting), f"shares: {', '.join(f'{name} {shares.get(name, 0.0):.0%}' for name in sorted(columns))}"
    if kind == "interaction":
        pairs = [" and ".join(pair) for pair, _ in truth.interactions]
        return any(
            set(pair) <= columns for pair, _ in truth.interactions
        ), f"acting together: {', '.join(pairs) or 'none'}"
    if truth.kind != "series":
        return find_kind_in_table(case, claim, columns)
    if kind == "season":
        return find_season(case, claim)
    if kind == "jump":
        return find_level_change(case, float(claim["value"]["jump"]["at"]), claim["unit"], share)
    return find_slow(case, kind, share)


def find_season(case: Case, claim: Claim) -> tuple[bool, str]:
    said = case.in_true_unit(float(claim["value"]["kind"]["period"]), claim["unit"])
    season = case.season_said(said, case.said_between(claim))
    there = ", ".join(f"{each.period:g}" for each in case.truth.seasons) or "none"
    if season is None:
        return False, f"periods ({case.truth.unit}): {there}; said is {said:.4g}"
    grown = claim["value"]["growing"] and not (season.grows or season.drifts)
    return not grown, f"the season of {season.period:g} {'does not grow' if grown else 'is there'}"


def find_slow(case: Case, kind: str, share: float) -> tuple[bool | None, str]:
    """A trend, a walk, or a variation of any length."""
    truth, slow, at = case.truth, np.array(case.truth.slow), positions(case)
    if kind == "random walk":
        return truth.curve == "walk" or share < SMALLEST, f"the slow part is: {truth.curve}"
    if kind == "trend":
        line = np.polyval(np.polyfit(at, slow, 1), at) if len(at) == len(slow) else np.zeros(1)
        straight = float(line.var()) / case.spread**2
        return straight >= NOTHING or share < 0.02, f"a line through the slow part has {straight:.1%} of the variance"
    allowed = truth.signal_share + 0.1 + ERRORS * float(np.sqrt(2.0 / truth.rows))
    there = truth.signal_share >= NOTHING and share <= allowed
    return there, f"all that is not noise is {truth.signal_share:.0%} of the variance; said is {share:.0%}"


def find_kind_in_table(case: Case, claim: Claim, columns: set[str]) -> tuple[bool | None, str]:
    """A trend, a season or a variation along an input of a table."""
    found = [each for each in case.truth.inputs if each.name in columns]
    acting = any(each.share >= NOTHING for each in found)
    why = ", ".join(f"{each.name} {each.share:.0%}" for each in found)
    period = claim["value"]["kind"]["period"]
    if period is None:
        return acting, f"shares: {why}"
    repeats = any(each.period is not None and abs(period / each.period - 1.0) < 0.2 for each in found)
    return repeats, f"nothing repeats with period {period:.4g} along {', '.join(sorted(columns))}"


@rule_for("gathered continuation")
def judge_gathered_continuation(case: Case, claim: Claim) -> Verdict:
    return unjudged(claim, "follows from the component; forecasts are judged by what came")


# ---------------------------------------------------------------------------------------------------------- asked first


@rule_for("rate")
def judge_rate(case: Case, claim: Claim) -> Verdict:
    """A 95 % interval for the slope of the line through all that is no season.

    What was made from a wave and does not repeat is no season either, unless it is said to be one.
    """
    slow, at = np.array(case.truth.slow), positions(case) if case.truth.column else np.empty(0)
    if not case.truth.known or len(slow) != len(at):
        return unjudged(claim, "the truth is not known", INTERVAL)
    if case.truth.unsteady and not case.says_unsteady:
        slow = slow + np.array(case.truth.unsteady)
    true = float(np.polyfit(at, slow, 1)[0]) * case.in_true_unit(1.0, claim["unit"])
    value = claim["value"]
    why = f"the slope is {true:.4g}, said is {value['slope']:.4g} ({value['low']:.4g} to {value['high']:.4g})"
    return verdict(claim, value["low"] <= true <= value["high"], why, INTERVAL, claim["certainty"])


@rule_for("season")
def judge_season(case: Case, claim: Claim) -> list[Verdict]:
    """The period; the height of the last cycle, as an interval; where its top and bottom are, as probabilities."""
    value = claim["value"]
    if not case.truth.known or case.truth.kind != "series":
        return [unjudged(claim, "the truth is not known")]
    said = case.in_true_unit(float(value["period"]), claim["unit"])
    between = case.said_between(claim)
    season, sure = case.season_said(said, between), float(claim["certainty"] or 1.0)
    sort = PLAIN if sure > SURE else CHANCE
    if season is None:
        there = ", ".join(f"{each.period:g}" for each in case.truth.seasons) or "none"
        if value["p_value"] >= CLEAR:
            return [unjudged(claim, "said that it may be chance", sort)]
        return [verdict(claim, False, f"periods ({case.truth.unit}): {there}; said is {said:.4g}", sort, sure)]
    found = [verdict(claim, True, f"a season of {season.period:g}", sort, sure)]
    if between is None and not case.same_period(said, season):
        return [*found, unjudged(claim, "a harmonic of a season", INTERVAL)]
    why = f"from bottom to top {season.swing:.4g}, said is {value['low']:.4g} to {value['high']:.4g}"
    found.append(verdict(claim, value["low"] <= season.swing <= value["high"], why, INTERVAL, 0.95))
    for end, name in (("top", season.top), ("bottom", season.bottom)):
        if name is not None and value["rhythm"]:
            sure = float(value[f"{end}_certainty"])
            holds = name in value[end]
            found.append(verdict(claim, holds, f"the {end} is {name}, said is {value[end]}", CHANCE, sure))
    if value["growing"] and not (season.grows or season.drifts):
        found.append(verdict(claim, False, f"the season of {season.period:g} does not grow"))
    return found


@rule_for("jump")
def judge_jump(case: Case, claim: Claim) -> list[Verdict]:
    """The level must change there, within two rows; its size is an interval."""
    if not case.truth.known or case.truth.kind != "series":
        return [unjudged(claim, "the truth is not known")]
    at, step = case.in_true_unit(float(claim["value"]["at"]), claim["unit"]), case.truth.step
    levels = [each for each in case.truth.changes if each.kind == "level"]
    there = ", ".join(f"{each.at:.4g}" for each in levels) or "none"
    between = [case.in_true_unit(float(each), claim["unit"]) for each in claim["value"].get("between") or ()]
    if between and levels:  # a 95 % interval for the place
        inside = any(between[0] - step <= each.at <= between[1] + step for each in levels)
        return [verdict(claim, inside, f"the level changes at: {there}; said is {between}", INTERVAL, 0.95)]
    if not any(abs(each.at - at) <= 2.0 * step for each in levels):
        return [verdict(claim, False, f"the level changes at: {there}; said is {at:.4g}")]
    slow, places = np.array(case.truth.slow), positions(case)
    size = float(slow[places > levels[0].at].mean() - slow[places <= levels[0].at].mean())
    inside = claim["value"]["low"] <= size <= claim["value"]["high"]
    found = verdict(claim, True, f"the level changes at {there}")
    return [found, verdict(claim, inside, f"by {size:.4g}", INTERVAL, 0.95)]


@rule_for("rhythm")
def judge_rhythm(case: Case, claim: Claim) -> Verdict:
    """A period that runs through the data, whatever the components are: there must be one."""
    if not case.truth.known or case.truth.kind != "series":
        return unjudged(claim, "the truth is not known")
    said = case.in_true_unit(float(claim["value"]["period"]), claim["unit"])
    there = ", ".join(f"{each.period:g}" for each in case.truth.seasons) or "none"
    return verdict(claim, case.season_of(said) is not None, f"periods ({case.truth.unit}): {there}; said is {said:.4g}")


@rule_for("next values")
def judge_next(case: Case, claim: Claim) -> Verdict:
    return unjudged(claim, "the same forecasts are judged one by one", INTERVAL)


@rule_for("forecast is made of")
def judge_makers(case: Case, claim: Claim) -> Verdict:
    """The weights in the forecast of the kernels with each component."""
    right = all(-1e-6 <= each["beyond"] <= 1.0 + 1e-6 for each in claim["value"])
    return verdict(claim, right, "weights", ITSELF)


@rule_for("unusual rows")
def judge_unusual(case: Case, claim: Claim) -> Verdict:
    """Rows that are said to stand out must; that none does is false where one does."""
    truth, value = case.truth, claim["value"]
    if not truth.known:
        return unjudged(claim, "the truth is not known", TEST)
    if not value["rows"] and (value.get("doubtful") or value.get("enough") is False):
        return unjudged(claim, "a doubt" if value.get("doubtful") else "said that so few rows cannot tell", ABSENCE)
    if not value["rows"]:
        return verdict(claim, not truth.unusual, f"{len(truth.unusual)} rows are 8 standard deviations off", ABSENCE)
    places = positions(case) if truth.column else np.arange(float(truth.rows))
    said = [float(places[each["row"]]) for each in value["rows"]]
    wrong = [at for at in said if not any(abs(at - odd) < 0.5 * truth.step for odd in truth.unusual)]
    why = f"{len(truth.unusual)} rows stand out; {len(wrong)} of those said do not"
    return verdict(claim, not wrong, why, TEST, CALLED_UNUSUAL)


# ------------------------------------------------------------------------------------------------------------ left over


@rule_for("errors depend")
def judge_dependence(case: Case, claim: Claim) -> Verdict:
    """A test at p < .01: true where something of the inputs that are named is missed."""
    names, missed = claim["value"]["columns"], case.missed
    inputs = [found for found in (find_input(case, name) for name in names) if found is not None]
    if not inputs or missed is None:
        return unjudged(claim, "the truth is not known", TEST)
    there = missed >= 0.005 and any(each.share >= NOTHING for each in inputs)
    why = f"{missed:.1%} of the variance is missed; {', '.join(f'{e.name} has {e.share:.0%}' for e in inputs)}"
    return verdict(claim, there, why, TEST, CLEAR)


@rule_for("what matters most")
def judge_largest(case: Case, claim: Claim) -> Verdict:
    """The input that is named first must have half of the largest share of the variance at least."""
    shares = [(name, find_input(case, name)) for name, _ in claim["value"]]
    known = [each.share for _, each in shares if each is not None]
    first = shares[0][1]
    if first is None or not known or not case.truth.known:
        return unjudged(claim, "the truth is not known")
    return verdict(claim, first.share >= 0.5 * max(known), f"{shares[0][0]} has {first.share:.0%} of the variance")


@rule_for("errors may depend", "nothing found yet")
def judge_doubt(case: Case, claim: Claim) -> Verdict:
    """A doubt, at a p-value between .01 and .05, says neither; nor does a search that has found nothing yet."""
    return unjudged(claim, "a doubt", TEST)


@rule_for("errors independent", "nothing left over")
def judge_clean(case: Case, claim: Claim) -> Verdict:
    """What is left over must hold less than 5 % of the variance that is no noise."""
    if case.left is None:
        return unjudged(claim, "the truth is not known", ABSENCE)
    why = f"{case.left:.1%} of the variance is left over and is no noise"
    return verdict(claim, case.left < SMALLEST, why, ABSENCE)
