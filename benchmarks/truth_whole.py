"""What only the whole of an explanation shows: its fields, contradictions, effects that it does not name, coverage.

Fields that stand beside the claims are judged as if they were claims, with a kind of their own ("field: ...").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.truth_case import ABSENCE, FALSE, ITSELF, PLAIN, SMALLEST, TRUE, Case, Verdict
from benchmarks.truth_power import described_parts, is_clear

IDLE = ("hardly matters", "not in the model")  # directions of an effect that is none
OVERLAP = 0.05  # shares may add up to this much more than the whole
COUNTS = 0.1  # a column of classes with this share is said to count
COSTS = 0.05  # of rows that go wrong when a column of classes is mixed up: less is next to nothing
DOUBTFUL = 0.05  # a p-value below it must not have a tick
ALIKE = "All columns count about the same."


# --------------------------------------------------------------------------------------------------------------- fields


def judge_fields(case: Case) -> list[Verdict]:
    """Judge what stands beside the claims."""
    checks = CLASS_FIELDS if case.known.classes else FIELDS
    return [found for check in checks for found in check(case)]


def field(kind: str, holds: bool, why: str, statement: str, sort: str = PLAIN) -> Verdict:
    return Verdict(f"field: {kind}", sort, TRUE if holds else FALSE, why, statement)


def shares_add_up(case: Case) -> Iterator[Verdict]:
    """ "71 + 44 + 1.9 = 117 %"."""
    shares = [float(each["share"]) for each in case.explanation["components"]]
    total = sum(shares) + float(case.explanation["noise_share"])
    said = " + ".join(f"{100 * share:.1f}" for share in [*shares, case.explanation["noise_share"]])
    yield field("shares", total <= 1.0 + OVERLAP, f"together {total:.0%} of the variance", f"{said} %")


def inputs_vary(case: Case) -> Iterator[Verdict]:
    """A column that is constant explains nothing."""
    named = [name for name in case.explanation["table_columns"] if name in case.truth.constant]
    yield field("inputs", not named, f"constant: {', '.join(case.truth.constant) or 'none'}", str(named or "all vary"))


def unit_is_right(case: Case) -> Iterator[Verdict]:
    """Lengths are said in the unit of the step."""
    if case.truth.kind == "series":
        accepted = {case.truth.unit, *(("hours",) if case.truth.unit == "minutes" else ())}
        yield field("unit", case.unit in accepted, f"the unit is {case.truth.unit}", f"the unit is {case.unit}", ITSELF)


def nothing_left(case: Case) -> Iterator[Verdict]:
    """ "Nothing is left over ...: what the model does not explain looks like pure noise"."""
    checks = case.explanation["checks"]
    if "answers" in case.explanation:  # since then it is a claim
        return
    if checks and all(check["clear"] for check in checks) and case.left is not None:
        why = f"{case.left:.1%} of the variance is left over and is no noise"
        yield field("nothing left over", case.left < SMALLEST, why, case.explanation["residual_sentence"], ABSENCE)


def ticks_are_clear(case: Case) -> Iterator[Verdict]:
    """No tick beside p = 0.013."""
    for check in case.explanation["checks"]:
        if check["clear"] and check["p_value"] < DOUBTFUL:
            yield field("tick", False, f"p = {check['p_value']:.2g}", check["sentence"], ITSELF)


def noise_agrees(case: Case) -> Iterator[Verdict]:
    """The noise is said as a standard deviation and as a share."""
    share = (float(case.explanation["noise_std"]) / case.spread) ** 2
    said = float(case.explanation["noise_share"])
    yield field(
        "noise share", abs(share - said) < 0.01 + 0.02 * share, f"its square is {share:.3g}", f"{said:.3g}", ITSELF
    )


def horizon_agrees(case: Case) -> Iterator[Verdict]:
    """A forecast beyond the horizon has a band as wide as the spread, one before it has not.

    Forecasts go to larger values: a horizon that is said to be on the other side has nothing to do with them, and from
    the place on where the band is said to be as wide "in places" it may be, or not.
    """
    found = case.explanation["extrapolation"]
    said = [claim["value"] for claim in case.of_kind("horizon")]
    if not found or not said or any(each.get("below") for each in said):
        return
    places = min((each["first"] for each in said if each.get("first") is not None), default=None)
    for forecast in found["forecasts"]:
        std = (forecast["high"] - forecast["low"]) / (2 * 1.959964)
        beyond = found["horizon"] is not None and forecast["distance"] > 1.1 * found["horizon"]
        in_places = places is not None and forecast["distance"] > 0.9 * places
        wrong = (beyond and std < 0.9 * case.spread) or (
            not beyond and not in_places and std > 1.1 * case.spread and _before(found, forecast)
        )
        yield field(
            "forecast and horizon", not wrong, f"std {std:.3g}, spread {case.spread:.3g}", str(forecast["at"]), ITSELF
        )


def _before(found: dict[str, Any], forecast: dict[str, Any]) -> bool:
    return found["horizon"] is None or forecast["distance"] < 0.9 * found["horizon"]


def ended_is_nothing(case: Case) -> Iterator[Verdict]:
    """What "plays no part beyond" the data must have come to nothing at their end."""
    for component in case.explanation["components"]:
        if "plays no part" in component["continuation"] and component["mean"]:
            last = abs(component["mean"][-1])
            yield field(
                "ended", last < 0.1 * case.spread, f"it is {last:.3g} at the last row", component["continuation"]
            )


FIELDS: list[Callable[[Case], Iterator[Verdict]]] = [
    shares_add_up, inputs_vary, unit_is_right, nothing_left, ticks_are_clear, noise_agrees, horizon_agrees,
    ended_is_nothing,
]  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- classes


def class_numbers(case: Case) -> Iterator[Verdict]:
    """Counts can be counted, errors compared with rows never seen."""
    said, labels = case.explanation, case.known.frame[case.known.target].astype(str)
    counts = {name: int((labels == name).sum()) for name in said["classes"]}
    yield field("class counts", list(counts.values()) == said["counts"], str(counts), str(said["counts"]), ITSELF)
    most = 1.0 - max(counts.values()) / len(labels)
    most_said = said["error_of_most_common"]
    yield field("class most common", abs(most - most_said) < 1e-6, f"{most:.3g}", f"{most_said:.3g}", ITSELF)
    unseen = case.record.get("unseen")
    if unseen and len(case.known.unseen):
        true = np.array(case.known.unseen[case.known.target].astype(str))
        error = float(np.mean(true != np.array(unseen["labels"])))
        allowed = 0.03 + 3.0 * np.sqrt(max(error, 0.02) * (1 - error) * (1 / len(labels) + 1 / len(true)))
        why, text = f"of {len(true)} rows never seen {error:.1%} go wrong", f"{said['error']:.1%} go wrong"
        yield field("class error", abs(error - said["error"]) <= allowed, why, text)


def class_columns(case: Case) -> Iterator[Verdict]:
    """Columns that count, and those that do not: compared with what mixing up each costs a perfect rule."""
    relevance, costs = case.explanation["relevance"], {each.name: each.share for each in case.truth.inputs}
    if not relevance or not case.truth.inputs:
        return
    why = ", ".join(f"{name} {cost:.2f}" for name, cost in costs.items())
    if ALIKE in " ".join(case.record["text"].split()):  # it follows from more than one field: what is shown counts
        alike = max(costs.values()) - min(costs.values()) < COSTS
        yield field("all columns alike", alike, f"mixing up costs: {why}", ALIKE)
        return
    for each in relevance:
        name, share, cost = each["column"], float(each["share"]), costs[each["column"]]
        text = f"{name} counts {share:.0%}"
        if share >= COUNTS:
            yield field("column counts", cost > 0.0, f"mixing up costs: {why}", text)
        elif share < 0.1 / len(relevance):
            yield field("column is idle", cost < COSTS, f"mixing up costs: {why}", text, ABSENCE)


CLASS_FIELDS: list[Callable[[Case], Iterator[Verdict]]] = [class_numbers, class_columns]


# ------------------------------------------------------------------------------------------------------- contradictions


def find_contradictions(case: Case) -> list[str]:
    """Return pairs of statements of one explanation of which only one can hold."""
    return [] if case.known.classes else [found for check in CONTRADICTIONS for found in check(case)]


def absent_and_there(case: Case) -> Iterator[str]:
    """ "No linear trend" beside "a linear function"; "No period" beside a period."""
    parts = [part for part in described_parts(case) if part.known]
    trends = {claim["subject"] for claim in case.of_kind("trend")}
    trends |= {claim["value"]["column"] for claim in case.of_kind("rate") if is_clear(claim)}
    there = {
        "trend": trends.union(*(part.columns for part in parts if part.straight and part.slow)),
        "period": set().union(*(part.columns for part in parts if part.periods)),
        "effect": {c["value"]["column"] for c in case.of_kind("effect") if c["value"]["direction"] not in IDLE},
    }
    for claim in case.of_kind("absent", "not found"):
        what, column = claim["value"]["what"], claim["value"]["column"]
        if column in there.get(what, ()):
            yield f"no {what} in {column}, and one"


def idle_and_acting(case: Case) -> Iterator[str]:
    """An input that hardly matters, beside a component of it that is large, or errors that go with it."""
    idle = {c["value"]["column"] for c in case.of_kind("effect") if c["value"]["direction"] == "hardly matters"}
    for part in described_parts(case):
        if len(part.columns) == 1 and part.columns <= idle and part.share >= SMALLEST:
            yield f"{', '.join(part.columns)} hardly matters, and has {part.share:.0%} of the variance"
    for claim in case.of_kind("errors depend"):
        if len(claim["value"]["columns"]) == 1 and set(claim["value"]["columns"]) <= idle:
            yield f"{claim['value']['columns'][0]} hardly matters, and errors go with it"


def apart_and_together(case: Case) -> Iterator[str]:
    """ "Every input acts by itself" beside a product of functions of different inputs."""
    if case.of_kind("no interaction"):
        for part in described_parts(case):
            if part.joined and part.known and part.share >= 0.001:
                yield f"every input acts by itself, and {', '.join(sorted(part.columns))} act together"


def clean_and_not(case: Case) -> Iterator[str]:
    """ "Nothing is left over" beside a check that found something."""
    found = [check["sentence"] for check in case.explanation["checks"] if not check["clear"]]
    if found and case.of_kind("nothing left over"):
        yield f"nothing is left over, and: {found[0]}"


def rising_and_falling(case: Case) -> Iterator[str]:
    """A rate and a line that go opposite ways, where the line is all there is."""
    slopes = [float(claim["value"]) for claim in case.of_kind("trend")]
    for claim in case.of_kind("rate"):
        if len(slopes) == 1 and is_clear(claim) and slopes[0] * claim["value"]["slope"] < 0:
            slow = [part for part in described_parts(case) if part.slow]
            if len(slow) == 1:
                yield f"a slope of {slopes[0]:.3g}, and {claim['value']['slope']:.3g} on average"


def counted_and_doubted(case: Case) -> Iterator[str]:
    """ "Four components make up value" beside three that are there with a probability of a few per cent."""
    likely = [part for part in described_parts(case) if part.known]
    for claim in case.of_kind("components"):
        if case.of_kind("gathered component") and claim["value"]["components"] > max(1, len(likely)):
            said = claim["value"]["components"]
            yield f"{said} components make it up, and {len(likely)} of them are more likely there than not"


def two_noises(case: Case) -> Iterator[str]:
    noises = [float(claim["value"]) for claim in case.of_kind("noise")]
    if noises and max(noises) > 1.01 * min(noises):
        yield f"noise of {noises}"


CONTRADICTIONS: list[Callable[[Case], Iterator[str]]] = [
    absent_and_there, idle_and_acting, apart_and_together, clean_and_not, rising_and_falling,
    counted_and_doubted, two_noises
]  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- coverage


def cover(case: Case) -> tuple[int, int] | None:
    """Return how many rows that were never seen lie inside their 95 % band, and how many there are."""
    predicted = case.record.get("unseen")
    if case.known.classes or not predicted:
        return None
    values = case.known.unseen[case.known.target].to_numpy(dtype=float)
    inside = np.abs(values - np.array(predicted["mean"])) <= 1.959964 * np.array(predicted["std"])
    return int(inside.sum()), len(inside)
