"""The checker of `benchmarks.truth`: it lets true explanations pass, and finds every false statement planted in one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from benchmarks.truth_case import (
    ABSENCE,
    CHANCE,
    FALSE,
    INTERVAL,
    PLAIN,
    TEST,
    TRUE,
    UNJUDGED,
    Case,
)
from benchmarks.truth_checks import judge, judge_all
from benchmarks.truth_data import (
    CLOCKS,
    DETECTABLE,
    Change,
    Entry,
    KnownSet,
    Season,
    SeriesPlan,
    list_known,
    make_known,
    make_series,
    p_value_of,
)
from benchmarks.truth_kernels import UnknownKind, read_leaves
from benchmarks.truth_power import find_unnamed
from benchmarks.truth_report import judge_record, write_report
from benchmarks.truth_seen import list_seen, make_seen
from benchmarks.truth_whole import cover, find_contradictions, judge_fields

NOTHING = {"components": [], "searched": False, "all_finished": None, "p_value": None, "rows": None}


def claim(kind: str, subject: str, value: Any, unit: str | None = None, **more: Any) -> dict[str, Any]:
    evidence = NOTHING | {"components": more.pop("components", [])}
    return {
        "kind": kind,
        "subject": subject,
        "value": value,
        "unit": unit,
        "certainty": None,
        "evidence": evidence,
    } | more


def component(place: int, share: float) -> dict[str, Any]:
    return {"position": place, "share": share, "minor": False, "continuation": "", "mean": []}


def check_of(name: str, p: float) -> dict[str, Any]:
    return {"check": {"name": name, "statistic": 0.1, "p_value": p, "place": 1.0}, "rows": 120, "at": None}


@pytest.fixture(scope="module")
def series() -> KnownSet:
    plan = SeriesPlan(120, CLOCKS["months"], trend=0.5, seasons=(Season(12.0, 0.4),))
    return make_series("planted", "trend-season", plan, np.random.default_rng(0))


def tell_series(known: KnownSet) -> dict[str, Any]:
    """Return a record in which everything that is said of a trend with a season is true."""
    truth = known.truth
    assert truth.slope is not None
    assert truth.noise_std is not None
    assert truth.noise_share is not None
    season = truth.seasons[0]
    kernels = ("LIN(0, variance=1.0, offset=3.0)", f"PER(0, variance=1.0, period={season.period}, lengthscale=1.0)")
    shares = (truth.trend_share, season.share)
    came = known.unseen["value"].to_numpy()
    spread, noise = float(known.values.std()), truth.noise_std
    claims = [claim("trend", "month", truth.slope, "months", components=[0])]
    for place, kernel in enumerate(kernels):
        facts = {"kernel": kernel, "joint": {"idle": [], "add_up": False}, "slope": (truth.slope, None)[place]}
        claims.append(claim("component", "value", facts, components=[place]))
    claims += [
        claim("noise", "value", noise),
        claim("components", "value", {"components": 2, "noise_share": truth.noise_share}, certainty=1.0),
        claim("autocorrelation of errors", "value", check_of("autocorrelation", 0.4)),
        claim("shape of errors", "value", check_of("shape", 0.6)),
        claim("forecast", "month", tell_forecast(6.0, came[5], noise), "months", certainty=0.95),
        claim("horizon", "month", {"distance": None, "returns": False, "below": False}, "months"),
        claim("averaging", "value", {"weights": [0.8, 0.2], "weights_beyond": [0.6, 0.4]}),
    ]
    explanation = {
        "claims": claims,
        "components": [component(place, share) for place, share in enumerate(shares)],
        "inputs": [{"name": "month", "unit": "months", "low": "1990-01", "high": "1999-12"}],
        "table_columns": ["month"],
        "noise_std": noise,
        "noise_share": (noise / spread) ** 2,
        "checks": [{"name": "shape", "p_value": 0.6, "clear": True, "sentence": "The errors look like a bell curve."}],
        "residual_sentence": "Nothing is left over.",
        "extrapolation": {"horizon": None, "forecasts": [tell_forecast(6.0, came[5], noise) | {"at": "2000-06"}]},
    }
    unseen = {"mean": list(came), "std": [noise] * len(came)}
    seen = {"mean": list(truth.signal), "std": [noise] * truth.rows}
    return {"explanation": explanation, "sentences": [], "seen": seen, "unseen": unseen}


def tell_forecast(distance: float, mean: float, noise: float) -> dict[str, Any]:
    return {"distance": distance, "mean": mean, "low": mean - 2 * noise, "high": mean + 2 * noise}


def outcomes(case: Case) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for verdict in (*judge_all(case), *judge_fields(case)):
        found.setdefault(verdict.kind, set()).add(verdict.outcome)
    return found


def test_a_true_explanation_of_a_series_passes(series: KnownSet) -> None:
    case = Case(series, tell_series(series))
    assert all(found == {TRUE} for found in outcomes(case).values()), outcomes(case)
    assert find_contradictions(case) == []
    there, unnamed = find_unnamed(case)
    assert {effect.kind for effect in there} == {"trend", "season"}
    assert unnamed == []
    assert cover(case) == (len(series.unseen), len(series.unseen))


def of_kind(record: dict[str, Any], kind: str, place: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = [each for each in record["explanation"]["claims"] if each["kind"] == kind][place]
    return found


def say_another_period(record: dict[str, Any]) -> None:
    of_kind(record, "component", 1)["value"]["kernel"] = "PER(0, variance=1.0, period=32.8, lengthscale=1.0)"


def say_twice_the_period(record: dict[str, Any]) -> None:
    of_kind(record, "component", 1)["value"]["kernel"] = "PER(0, variance=1.0, period=24.0, lengthscale=1.0)"


def say_it_drifts(record: dict[str, Any]) -> None:
    facts = of_kind(record, "component", 1)["value"]
    facts["kernel"] += " * SE(0, variance=1.0, lengthscale=20.0)"


def say_another_slope(record: dict[str, Any]) -> None:
    of_kind(record, "trend")["value"] *= -1.0


def say_half_the_noise(record: dict[str, Any]) -> None:
    of_kind(record, "noise")["value"] *= 0.4


def say_all_is_noise(record: dict[str, Any]) -> None:
    of_kind(record, "components")["value"]["noise_share"] = 0.74


def say_a_walk(record: dict[str, Any]) -> None:
    of_kind(record, "component")["value"] |= {"kernel": "M12(0, variance=1.0, lengthscale=400.0)", "slope": None}


def forecast_too_low(record: dict[str, Any]) -> None:
    value = of_kind(record, "forecast")["value"]
    value |= {"mean": value["low"] - 10.0, "low": value["low"] - 20.0, "high": value["low"] - 1e-6}


def say_right_after(record: dict[str, Any]) -> None:
    of_kind(record, "horizon")["value"]["distance"] = 0


def describe_who_does_not_predict(record: dict[str, Any]) -> None:
    of_kind(record, "averaging")["value"] |= {"weights": [0.24, 0.76], "weights_beyond": [0.009, 0.991]}


def say_no_trend(record: dict[str, Any]) -> None:
    value = {"what": "trend", "column": "month", "behind": 7.2}
    record["explanation"]["claims"].append(claim("absent", "month", value))


def say_no_period(record: dict[str, Any]) -> None:
    value = {"what": "period", "column": "month", "behind": 7.2}
    record["explanation"]["claims"].append(claim("not found", "month", value))


def say_noise_alone(record: dict[str, Any]) -> None:
    record["explanation"]["claims"].append(claim("noise alone", "value", {"level": 0.0, "std": 1.0}))


def say_a_random_walk(record: dict[str, Any]) -> None:
    record["explanation"]["claims"].append(claim("random walk", "month", None))


def miss_the_season(record: dict[str, Any]) -> None:
    at = np.arange(120)
    record["seen"]["mean"] = list(np.polyval(np.polyfit(at, record["seen"]["mean"], 1), at))


def share_too_much(record: dict[str, Any]) -> None:
    for each, share in zip(record["explanation"]["components"], (0.71, 0.44), strict=True):
        each["share"] = share


def use_another_unit(record: dict[str, Any]) -> None:
    record["explanation"]["inputs"][0]["unit"] = "minutes"


def tick_a_doubt(record: dict[str, Any]) -> None:
    record["explanation"]["checks"][0]["p_value"] = 0.013


def forget_the_horizon(record: dict[str, Any]) -> None:
    record["explanation"]["extrapolation"]["horizon"] = 0.5


PLANTED: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (say_another_period, "component"), (say_twice_the_period, "component"), (say_it_drifts, "component"),
    (say_another_slope, "trend"), (say_half_the_noise, "noise"), (say_all_is_noise, "components"),
    (say_a_walk, "component"), (forecast_too_low, "forecast"), (say_right_after, "horizon"),
    (describe_who_does_not_predict, "averaging"), (say_no_trend, "absent"), (say_no_period, "not found"),
    (say_noise_alone, "noise alone"), (say_a_random_walk, "random walk"), (miss_the_season, "field: nothing left over"),
    (miss_the_season, "autocorrelation of errors"), (share_too_much, "field: shares"),
    (use_another_unit, "field: unit"), (tick_a_doubt, "field: tick"),
    (forget_the_horizon, "field: forecast and horizon"),
]  # fmt: skip


@pytest.mark.parametrize(("plant", "kind"), PLANTED)
def test_planted_falsehoods_are_found(series: KnownSet, plant: Callable[[dict[str, Any]], None], kind: str) -> None:
    record = tell_series(series)
    plant(record)
    assert FALSE in outcomes(Case(series, record))[kind]


def test_contradictions_are_found(series: KnownSet) -> None:
    record = tell_series(series)
    say_no_trend(record)
    say_no_period(record)
    assert len(find_contradictions(Case(series, record))) == 2


def test_an_effect_that_is_not_named_is_counted(series: KnownSet) -> None:
    record = tell_series(series)
    record["explanation"]["claims"] = [each for each in record["explanation"]["claims"] if each["kind"] != "trend"]
    say_another_period(record)
    of_kind(record, "component")["value"]["kernel"] = "SE(0, variance=1.0, lengthscale=2.0)"
    assert {effect.kind for effect in find_unnamed(Case(series, record))[1]} == {"trend", "season"}


def test_a_kind_without_a_rule_stops_the_checker(series: KnownSet) -> None:
    case = Case(series, tell_series(series))
    with pytest.raises(UnknownKind, match="a new kind"):
        judge(case, claim("a new kind", "value", None))
    with pytest.raises(UnknownKind, match="XYZ"):
        judge(case, claim("component", "value", {"kernel": "XYZ(0)", "slope": None}))


def test_what_is_disclaimed_is_not_judged_but_counted(series: KnownSet) -> None:
    record = tell_series(series)
    say_noise_alone(record)
    found = outcomes(Case(series, record))
    assert found["component"] == {UNJUDGED}
    assert found["noise alone"] == {FALSE}


# --------------------------------------------------------------------------------------------------------------- tables


@pytest.fixture(scope="module")
def table() -> KnownSet:
    entries = [entry for entry in list_known() if entry.family == "table-interacting"]
    return next(known for known in map(make_known, entries) if len(known.truth.inputs) > 2)


def tell_table(known: KnownSet) -> dict[str, Any]:
    """Return a record in which everything that is said of a table is true."""
    truth, claims = known.truth, []
    together = {name for pair, _ in truth.interactions for name in pair}
    for each in truth.inputs:
        low, high = each.places[int(np.argmin(each.means))], each.places[int(np.argmax(each.means))]
        steps = np.diff(each.means)
        direction = "goes up and down"
        if np.all(steps >= 0) or np.all(steps <= 0):
            direction = "rises" if steps.sum() > 0 else "falls"
        if each.share < 0.001:
            direction = "hardly matters"
        elif each.size < 0.05 * known.values.std():
            direction = "depends on others" if each.name in together else "hardly matters"
        value = {"column": each.name, "size": each.size, "direction": direction}
        claims.append(claim("effect", each.name, value | {"lowest_at": str(low), "highest_at": str(high)}))
    claims += [claim("interaction", "value", list(pair)) for pair, _ in truth.interactions]
    explanation: dict[str, Any] = {
        "claims": claims, "components": [], "inputs": [{"name": each.name, "unit": None} for each in truth.inputs],
        "table_columns": [each.name for each in truth.inputs], "noise_std": truth.noise_std, "checks": [],
        "noise_share": (truth.noise_std or 0.0) ** 2 / known.values.var(), "extrapolation": None,
    }  # fmt: skip
    return {"explanation": explanation, "sentences": []}


@pytest.mark.parametrize(
    "family", ["table-linear", "table-curved", "table-interacting", "table-categories", "grid-added"]
)
def test_a_true_explanation_of_a_table_passes(family: str) -> None:
    for seed in range(6):
        known = make_known(Entry("told", family, seed))
        case = Case(known, tell_table(known))
        assert all(found == {TRUE} for found in outcomes(case).values()), (seed, outcomes(case))
        assert find_unnamed(case)[1] == []


def test_planted_falsehoods_in_a_table_are_found(table: KnownSet) -> None:
    true = tell_table(table)
    places = {each.name: place for place, each in enumerate(table.truth.inputs)}
    matters = max((each for each in table.truth.inputs if each.size > 0), key=lambda each: each.size)
    pair = set(table.truth.interactions[0][0])
    for field, value in (("size", 5.0 * matters.size), ("direction", "hardly matters")):
        record = copy.deepcopy(true)
        record["explanation"]["claims"][places[matters.name]]["value"][field] = value
        assert outcomes(Case(table, record))["effect"] >= {FALSE}
    record = copy.deepcopy(true)
    record["explanation"]["claims"] += [
        claim("no interaction", "value", None),
        claim("interaction", "value", sorted(set(places) - pair)[:1] + sorted(pair)[:1]),
    ]
    found = outcomes(Case(table, record))
    assert found["no interaction"] == {FALSE}
    assert FALSE in found["interaction"]


def test_the_wrong_category_is_found() -> None:
    known = make_known(Entry("told", "table-categories", 1))
    record = tell_table(known)
    site = next(each for each in record["explanation"]["claims"] if each["value"].get("column") == "site")
    site["value"] |= {"lowest_at": site["value"]["highest_at"], "highest_at": site["value"]["lowest_at"]}
    assert FALSE in outcomes(Case(known, record))["effect"]


def test_classes_are_judged_by_what_mixing_up_costs() -> None:
    known = make_known(Entry("told", "classes-ring", 0))
    labels = known.frame["class"].value_counts()
    idle = [each.name for each in known.truth.inputs if each.share == 0.0]
    acting = [each.name for each in known.truth.inputs if each.share > 0.0]
    said = {
        "classes": list(labels.index), "counts": [int(n) for n in labels], "error": known.truth.best_error,
        "error_of_most_common": 1.0 - labels.max() / labels.sum(),
        "relevance": [{"column": name, "share": 0.5} for name in acting] + [{"column": n, "share": 0.0} for n in idle],
    }  # fmt: skip
    assert {v.outcome for v in judge_fields(Case(known, {"explanation": said, "text": ""}))} == {TRUE}
    alike = {"explanation": said | {"claims": []}, "text": "inputs    All columns count about the\n same."}
    assert outcomes(Case(known, alike))["field: all columns alike"] == {FALSE}
    swapped = [{"column": each["column"], "share": 0.5 - each["share"]} for each in said["relevance"][::-1]]
    found = outcomes(Case(known, {"explanation": said | {"relevance": swapped, "claims": []}, "text": ""}))
    assert found["field: column counts"] == {FALSE}
    assert found["field: column is idle"] == {FALSE}


# ------------------------------------------------------------------------------------------------------------- the data


def test_the_catalogue_has_four_hundred_sets_of_all_kinds() -> None:
    entries = list_known()
    assert len({entry.name for entry in entries}) == 400
    first = make_known(entries[40])
    assert first.frame.equals(make_known(entries[40]).frame)


def test_shares_and_noise_are_what_they_say() -> None:
    for family in ("trend-season", "change", "counts", "outliers", "table-curved", "grid-interacting"):
        known = make_known(Entry("told", family, 3))
        left = known.values - np.array(known.truth.signal)
        assert np.sqrt(np.mean(left**2)) == pytest.approx(known.truth.noise_std)
        assert np.mean(left**2) / known.values.var() == pytest.approx(known.truth.noise_share)


def test_a_test_of_the_true_form_finds_what_is_there() -> None:
    rng = np.random.default_rng(0)
    x, other = rng.normal(size=200), rng.normal(size=200)
    assert p_value_of([x], [other], x + rng.normal(size=200)) < DETECTABLE
    p_values = [p_value_of([rng.normal(size=50)], [], rng.normal(size=50)) for _ in range(400)]
    assert 0.02 < np.mean(np.array(p_values) < 0.05) < 0.09


def test_the_place_of_a_change_is_judged_as_an_interval() -> None:
    plan = SeriesPlan(100, CLOCKS["days"], changes=(Change(0.5, "level", 0.8),))
    known = make_series("planted", "change", plan, np.random.default_rng(1))
    at = known.truth.changes[0].at
    inside = claim("crossing", "date", {"low": at - 2.0, "high": at + 2.0}, "days", certainty=0.95)
    outside = claim("crossing", "date", {"low": at + 5.0, "high": at + 9.0}, "days", certainty=0.95)
    found = [judge(Case(known, tell_nothing()), each)[0] for each in (inside, outside)]
    assert [each.outcome for each in found] == [TRUE, FALSE]
    assert found[0].sort == INTERVAL


def tell_nothing() -> dict[str, Any]:
    return {"explanation": {"claims": [], "components": [], "inputs": [{"name": "date", "unit": "days"}]}}


def test_kernels_are_read_from_their_text() -> None:
    text = 'LIN("site=a b", variance=1.0, offset=-2e-3) * SE(0, 2, variance=1.0, lengthscale=[1.5, inf])'
    line, smooth = read_leaves(text, ("x", "y", "z"))
    assert (line.symbol, line.columns, line.number("offset")) == ("LIN", ("site=a b",), -2e-3)
    assert smooth.columns == ("x", "z")
    assert smooth.numbers["lengthscale"] == (1.5, float("inf"))
    (week,) = read_leaves("CPER(0, variance=25.6, period=fixed(7.0), lengthscale=fixed([19.9]))", ("date",))
    assert (week.number("period"), week.number("lengthscale")) == (7.0, 19.9)
    before, after = read_leaves("CP(C(variance=2.0), (SE(0) + 3.0) * 2, on=[0], location=fixed(3.0))", ("date",))
    assert (before.role, after.columns) == ("constant", ("date",))
    assert [leaf.symbol for leaf in read_leaves("NKN(2*SE(0) + SM2, Linear4-Product2, weights1=[1, 2])", ("x",))] == [
        "SE", "SM2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["", "3.0", "SE(0", "SE(0) PER(0)", "SE(0) @ 2", "PER(0, period=fixed(7)", "PER(0, period=)", "SE(0))"]
)
def test_a_kernel_that_cannot_be_read_stops_the_benchmark(text: str) -> None:
    with pytest.raises(UnknownKind, match="cannot be read"):
        read_leaves(text, ("x",))


def test_a_season_of_a_fixed_period_is_named(series: KnownSet) -> None:
    record = tell_series(series)
    facts = of_kind(record, "component", 1)["value"]
    facts["kernel"] = "CPER(0, variance=1.0, period=fixed(12.0), lengthscale=1.0)"
    assert find_unnamed(Case(series, record))[1] == []
    facts["kernel"] = "CPER(0, variance=1.0)"
    with pytest.raises(UnknownKind, match="without a period"):
        judge_all(Case(series, record))


def test_a_pattern_that_drifts_within_its_cycles_does_not_repeat() -> None:
    """Of four cycles with seven knots each is another one: it must be named, as a variation of any kind."""
    fast, slow = (
        make_series(
            "planted", "drifting", SeriesPlan(rows, CLOCKS["months"], seasons=(Season(12.0, 0.9, drifts=True),)),
            np.random.default_rng(0),
        )
        for rows in (48, 600)
    )  # fmt: skip
    assert [effect.kind for effect in fast.truth.effects + slow.truth.effects] == ["variation", "season"]
    record = tell_series(fast)
    del record["explanation"]["claims"][:2]
    kernel = "SE(0, variance=1.0, lengthscale=4.0)"
    record["explanation"]["claims"][0]["value"] |= {"kernel": kernel, "slope": None}
    assert find_unnamed(Case(fast, record))[1] == []
    line = float(np.polyfit(np.arange(48.0), np.array(fast.truth.slow) + np.array(fast.truth.unsteady), 1)[0])
    low, high = sorted([0.9 * line, 1.1 * line])
    said = claim("rate", "value", {"column": "month", "slope": line, "low": low, "high": high}, "months")
    assert found_false(fast, said, record) == []


def test_the_report_lists_every_false_statement(series: KnownSet, tmp_path: Any) -> None:
    record = tell_series(series) | {
        "way": "by hand", "budget": 20.0, "state": "none", "seconds": 1.0, "processor_seconds": 1.0,
        "machine": {
            "date": "", "processor": "", "usable cores": 1, "cores": 1, "memory GB": 1, "system": "", "blas": [],
            "versions": {}, "python": "", "load average": 0,
        },
    }  # fmt: skip
    say_another_period(record)
    failed = replace(series, name="failed")
    judged = [judge_record(series, record), judge_record(failed, record | {"failed": "a reason"})]
    write_report(judged, tmp_path / "truth.md", "by hand")
    text = (tmp_path / "truth.md").read_text()
    assert "| planted |  | periods (months): 12; said is 32.8 |" in text
    assert "- failed: a reason" in text


# --------------------------------------------------------------------------------------------- what is asked first


def tell_season(known: KnownSet) -> dict[str, Any]:
    season = known.truth.seasons[0]
    return {
        "period": season.period, "rhythm": "yearly", "swing": season.swing, "low": 0.9 * season.swing,
        "high": 1.1 * season.swing, "top": [season.top], "bottom": [season.bottom], "top_certainty": 0.95,
        "bottom_certainty": 0.95, "growing": False, "p_value": 1e-9,
    }  # fmt: skip


def found_false(known: KnownSet, said: dict[str, Any], record: dict[str, Any] | None = None) -> list[str]:
    """Return the sorts of what is false in a claim."""
    case = Case(known, tell_series(known) if record is None else record)
    return [verdict.sort for verdict in judge(case, said) if verdict.outcome == FALSE]


def test_rates_are_intervals(series: KnownSet) -> None:
    slope = series.truth.slope
    assert slope is not None
    near, off = sorted([0.9 * slope, 1.1 * slope]), sorted([2.0 * slope, 3.0 * slope])
    for (low, high), expected in ((near, []), (off, [INTERVAL])):
        value = {"column": "month", "slope": slope, "low": low, "high": high}
        assert found_false(series, claim("rate", "value", value, "months", certainty=0.95)) == expected


def test_seasons_are_judged_by_height_place_and_period(series: KnownSet) -> None:
    true = tell_season(series)
    planted: list[tuple[dict[str, Any], list[str]]] = [
        ({}, []), ({"low": 2.0 * true["swing"], "high": 3.0 * true["swing"]}, [INTERVAL]),
        ({"top": ["Never"]}, [CHANCE]),
        ({"growing": True}, [PLAIN]), ({"period": 32.8}, [PLAIN]), ({"period": 32.8, "p_value": 0.2}, []),
    ]  # fmt: skip
    for wrong, expected in planted:
        assert found_false(series, claim("season", "value", true | wrong, "months")) == expected, wrong


def test_rows_that_stand_out() -> None:
    plan = SeriesPlan(120, CLOCKS["months"], trend=0.5, seasons=(Season(12.0, 0.4),), outliers=1)
    known = make_series("planted", "outliers", plan, np.random.default_rng(0))
    row = round(known.truth.unusual[0])
    told = tell_series(known)
    doubt = claim("unusual rows", "value", {"rows": [], "doubtful": {"row": row}, "enough": True})
    assert [found.outcome for found in judge(Case(known, told), doubt)] == [UNJUDGED]
    for rows, expected in (([], [ABSENCE]), ([{"row": row}], []), ([{"row": row + 3}], [TEST])):
        said = claim("unusual rows", "value", {"rows": rows, "count": len(rows), "checked": 120, "column": "month"})
        assert found_false(known, said, told) == expected
        told["explanation"]["claims"] = [said]
        unnamed = {effect.kind for effect in find_unnamed(Case(known, told))[1]}
        assert ("unusual" in unnamed) == (expected != [])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ({"name": "season", "columns": ["month"], "period": 12.0}, []),
        ({"name": "season", "columns": ["month"], "period": 17.0}, [CHANCE]),
        ({"name": "trend", "columns": ["month"], "period": None}, []),
        ({"name": "random walk", "columns": ["month"], "period": None}, [CHANCE]),
    ],
)
def test_components_of_an_average_are_probabilities(
    series: KnownSet, kind: dict[str, Any], expected: list[str]
) -> None:
    facts = {"kind": kind, "certainty": 0.7, "certainty_beyond": 0.7, "lengths": None, "growing": False}
    said = claim("gathered component", "value", facts, "months", certainty=0.7, components=[0])
    assert found_false(series, said) == expected


def test_what_is_left_over_is_judged(series: KnownSet) -> None:
    record = tell_series(series)
    said = claim("nothing left over", "value", None)
    assert found_false(series, said, record) == []
    miss_the_season(record)
    assert found_false(series, said, record) == [ABSENCE]


def test_contradictions_with_what_is_asked_first(series: KnownSet) -> None:
    record = tell_series(series)
    say_no_trend(record)
    of_kind(record, "trend")["kind"] = "removed error"
    of_kind(record, "component")["value"]["kernel"] = "SE(0, variance=1.0, lengthscale=900.0)"
    assert find_contradictions(Case(series, record)) == []
    value = {"column": "month", "slope": 1.0, "low": 0.5, "high": 1.5}
    record["explanation"]["claims"].append(claim("rate", "value", value, "months"))
    assert len(find_contradictions(Case(series, record))) == 1


def test_every_set_that_was_seen_can_be_made() -> None:
    for entry in list_seen():
        known = make_seen(entry)
        assert known.truth.rows == len(known.frame)
        if not known.classes:
            left = known.values - np.array(known.truth.signal)
            assert np.sqrt(np.mean(left**2)) == pytest.approx(known.truth.noise_std)


def test_a_horizon_is_held_against_forecasts_on_its_side(series: KnownSet) -> None:
    """One below the data says nothing of forecasts above them; "in places" leaves it open."""
    outcome = {}
    for said in ({"below": False}, {"below": True}, {"below": False, "first": 5.0}):
        record = tell_series(series)
        wide = tell_forecast(6.0, 0.0, 2.0 * float(series.values.std()))
        record["explanation"]["extrapolation"] = {"horizon": 60.0, "forecasts": [wide | {"at": "2000-06"}]}
        of_kind(record, "horizon")["value"] |= said
        found = [each.outcome for each in judge_fields(Case(series, record)) if "horizon" in each.kind]
        outcome[str(said)] = found
    assert list(outcome.values()) == [[FALSE], [], [TRUE]]


def test_a_doubt_says_neither(series: KnownSet) -> None:
    found = [judge(Case(series, tell_series(series)), claim("shape of errors", "value", check_of("shape", p)))[0]
             for p in (0.03, 0.3)]  # fmt: skip
    assert [each.outcome for each in found] == [UNJUDGED, TRUE]


def test_an_effect_whose_size_is_said_with_an_interval() -> None:
    known = make_known(Entry("told", "table-linear", 1))
    record = tell_table(known)
    said = next(each for each in record["explanation"]["claims"] if each["kind"] == "effect")
    size = said["value"]["size"]
    for low, high, expected in ((0.5, 1.5, []), (1.4, 2.2, [INTERVAL])):
        said["value"] |= {"low": low * size, "high": high * size}
        assert found_false(known, said, record) == expected
