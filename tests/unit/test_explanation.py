"""The explanation: right numbers, plain data, JSON and text."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mercer
from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.explain import Explanation, Subject
from mercer.explain.claims import Claim, ClaimEvidence
from mercer.explain.components import find_horizon, forecast, held_out_parts, part_horizon, rank_contributions
from mercer.explain.gathering import gather
from mercer.explain.search import Suspects, find_absences, gain_over_noise, tell_story, winner_of
from mercer.explain.subject import subject_of
from mercer.explain.words import SENTENCES, Narrator, say
from mercer.kernels import Expression, parse
from mercer.kernels.parameters import bind, to_scaled_units, values_of
from mercer.learners.contract import Candidate, Step

pytestmark = pytest.mark.filterwarnings("ignore::mercer.MercerWarning")

MONTHS = pd.DataFrame({"month": pd.date_range("2000-01-01", periods=60, freq="MS")})
COUNT = np.arange(60.0)
SALES = pd.Series(
    3.0 * COUNT + 20 * np.sin(2 * np.pi * COUNT / 12) + np.random.default_rng(0).normal(0, 2, 60) + 100, name="sales"
)


@pytest.fixture(scope="module")
def given() -> mercer.GPRegressor:
    return mercer.GPRegressor("LIN + CPER", random_state=0, restarts=2).fit(MONTHS, SALES)


@pytest.fixture(scope="module")
def searched() -> mercer.GPRegressor:
    search = mercer.GrammarSearch(bases=("SE", "PER", "LIN"), max_depth=2, restarts=2)
    return mercer.GPRegressor(search, random_state=0).fit(MONTHS, SALES)


@pytest.fixture(scope="module")
def table() -> mercer.GPRegressor:
    rng = np.random.default_rng(3)
    X = pd.DataFrame({
        "heat": rng.uniform(0, 30, 60), "shop": rng.choice(["north", "south", "east"], 60), "wind": rng.normal(size=60),
        "price": rng.uniform(1, 2, 60),
    })  # fmt: skip
    y = np.sin(X["heat"] / 4) * X["price"] + 2.0 * (X["shop"] == "south") - X["price"] + rng.normal(0, 0.05, 60)
    kernel = "SE(heat)*SE(price) + CAT(shop) + LIN(price)"
    return mercer.GPRegressor(kernel, random_state=0, restarts=2).fit(X, y.rename("energy"))


# ---------------------------------------------------------------------------------------------------------- the numbers


def test_components_are_ordered_by_the_held_out_error_they_remove(given: mercer.GPRegressor) -> None:
    explanation = given.explain()
    removed = [component.removed for component in explanation.components]
    assert [component.title for component in explanation.components] == [
        "Linear trend", "Yearly pattern",
    ]  # fmt: skip
    assert removed[0] > removed[1] > 0
    held_out = explanation.held_out
    assert sum(removed) == pytest.approx(1 - held_out.error / held_out.error_of_average)
    assert held_out.error_of_average == pytest.approx(np.abs(SALES - SALES.mean()).mean(), rel=0.05)
    assert 1.0 < held_out.error < 3.0


def test_the_held_out_error_does_not_depend_on_who_carries_the_level() -> None:
    """A period with a very long lengthscale is a large constant and a small wave."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(0, 10, 80), rng.uniform(0, 5, 80)])
    y = 5 * np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(80)
    kernel = "PER(0, variance=3e4, period=6.28, lengthscale=20) + SE(1, variance=2e3, lengthscale=20)"
    model = mercer.GPRegressor(kernel, restarts=1, max_iterations=1, noise=0.09).fit(X, y)
    subject = subject_of(model.fitted_)
    left_out = subject.posterior.leave_one_out().mean
    error = model.fitted_.units.y_scale * np.abs(subject.data.y - left_out).mean()
    assert rank_contributions(subject).errors[-1] == pytest.approx(error, rel=0.1)


def test_held_out_components_add_up_to_predictions_without_the_row(given: mercer.GPRegressor) -> None:
    subject = subject_of(given.fitted_)
    left_out = subject.posterior.leave_one_out().mean
    parts, level = held_out_parts(subject, 60)
    np.testing.assert_allclose(parts.sum(axis=0) + level, left_out, atol=1e-8)
    assert rank_contributions(subject).order in ((0, 1), (1, 0))


def test_shares_bands_and_slope(given: mercer.GPRegressor) -> None:
    explanation = given.explain()
    parts = given.decompose()
    for component in explanation.components:
        part = parts[component.position]
        np.testing.assert_allclose(component.mean, part.mean - part.mean.mean(), rtol=1e-5, atol=1e-4)
        ends = min(component.std), max(component.std)
        assert (component.std_low, component.std_high) == pytest.approx(ends, rel=1e-5)
    shares = [component.share for component in explanation.components]
    assert sum(shares) + explanation.noise_share == pytest.approx(1.0)
    assert shares == pytest.approx([0.93, 0.07], abs=0.05)
    assert explanation.components[0].sentence.startswith("A linear function of month, rising by 3.0")
    assert explanation.noise_std == pytest.approx(math.sqrt(given.noise_))
    assert explanation.level == pytest.approx(sum(part.mean.mean() for part in parts))


def test_one_step_errors_are_those_of_predicting_from_the_rows_before(given: mercer.GPRegressor) -> None:
    order = np.random.default_rng(1).permutation(60)
    shuffled = mercer.GPRegressor("LIN + CPER", random_state=0, restarts=2).fit(MONTHS.iloc[order], SALES.iloc[order])
    subject = subject_of(shuffled.fitted_)
    rows, errors = subject.one_step_errors
    np.testing.assert_array_equal(order[rows], np.arange(60))
    X, y = subject.data.X[rows], subject.data.y[rows] - subject.posterior.level.mean
    gram = fused.gram(compile_program(subject.kernel), values_of(subject.kernel), X) + subject.noise * np.eye(60)
    weights = np.linalg.solve(gram[:20, :20], gram[:20, 20])
    deviation = math.sqrt(gram[20, 20] - weights @ gram[:20, 20])
    assert errors[20] == pytest.approx((y[20] - weights @ y[:20]) / deviation, rel=1e-6)


def fixed_model(kernel: str) -> mercer.GPRegressor:
    x = np.linspace(0, 10, 40)
    return mercer.GPRegressor(kernel, noise=0.01, restarts=1, random_state=0).fit(x[:, None], np.sin(x))


@pytest.mark.parametrize(
    ("kernel", "low", "high"),
    [
        ("SE(0, variance=fixed(1), lengthscale=fixed(1))", 1.0, 1.8),
        ("SE(0, variance=fixed(1), lengthscale=fixed(4))", 4.0, 9.0),
        ("WN(0, variance=fixed(1))", 0.0, 0.1),
        ("PER(0, variance=fixed(1), period=fixed(6.28), lengthscale=fixed(1))", math.inf, math.inf),
        ("LIN(0, variance=fixed(1), offset=fixed(5))", math.inf, math.inf),
    ],
)
def test_how_far_a_component_is_known(kernel: str, low: float, high: float) -> None:
    subject = subject_of(fixed_model(kernel).fitted_)
    horizon = part_horizon(subject, gather(subject)[0].members[0])
    assert low <= (math.inf if horizon is None else horizon) <= high


def test_how_far_the_whole_is_known() -> None:
    short = subject_of(fixed_model("SE(0, variance=fixed(1), lengthscale=fixed(1))").fitted_)
    horizon = find_horizon(short, 0).distance
    assert 0.5 < horizon < 2.5
    _, std = short.predict(short.rows_along(0, np.array([10 + horizon])))
    assert std[0] == pytest.approx(np.std(short.targets), rel=0.2)
    endless = subject_of(fixed_model("PER(0, variance=fixed(1), period=fixed(6.2832), lengthscale=fixed(3))").fitted_)
    assert find_horizon(endless, 0).distance is None


def test_forecasts_are_those_of_the_model(given: mercer.GPRegressor) -> None:
    explanation = given.explain()
    months = ["2005-01", "2005-02", "2005-03", "2005-06", "2005-12"]
    assert [shown.at for shown in explanation.extrapolation.forecasts] == months
    new = pd.DataFrame({"month": pd.to_datetime([f"{month}-01" for month in months])})
    mean, std = given.predict(new, return_std=True)
    for shown, m, s in zip(explanation.extrapolation.forecasts, mean, std, strict=True):
        assert shown.mean == pytest.approx(m)
        assert shown.high - shown.low == pytest.approx(2 * 1.959964 * s)
    assert [each.distance for each in forecast(subject_of(given.fitted_), 0)] == pytest.approx([1, 2, 3, 6, 12])


# --------------------------------------------------------------------------------------------------- structure or noise


def test_noise_alone_has_no_structure() -> None:
    rng = np.random.default_rng(5)
    noise = pd.Series(rng.normal(7, 2, 50), name="y")
    search = mercer.GrammarSearch(max_depth=1, restarts=2)
    explanation = mercer.GPRegressor(search, random_state=0).fit(pd.DataFrame({"x": np.arange(50.0)}), noise).explain()
    assert not explanation.structure.found
    assert explanation.structure.sentence.startswith("No structure found so far: noise around 6.35")
    assert explanation.structure.sentence in " ".join(str(explanation).split())


def test_gain_over_noise_is_a_difference_of_bics(given: mercer.GPRegressor) -> None:
    y = SALES.to_numpy()
    alone = -2 * (-0.5 * 60 * np.log(2 * np.pi * y.var()) - 30) + np.log(60)
    gain = gain_over_noise(subject_of(given.fitted_), given.bic_, noise_is_fitted=True)
    assert gain == pytest.approx(alone - given.bic_)
    assert given.explain().structure.found


def test_too_few_rows() -> None:
    model = mercer.GPRegressor("SE", random_state=0).fit(np.arange(3.0)[:, None], np.array([1.0, 2.0, 5.0]))
    explanation = model.explain()
    assert not explanation.structure.found
    assert "No structure can be learned from 3 rows: 3 numbers were fitted to them" in explanation.structure.sentence
    assert explanation.checks == ()


@pytest.mark.parametrize("rows", [3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("kernel", ["LIN", "SE*PER", "SE*PER + LIN"])
def test_the_words_on_a_few_rows_do_not_contradict_each_other(rows: int, kernel: str) -> None:
    x = np.arange(float(rows))
    model = mercer.GPRegressor(kernel, random_state=0, restarts=1).fit(x[:, None], np.sin(x) + x)
    explanation = model.explain()
    guess = "is a guess" in explanation.to_text(1000)
    assert guess == (rows < 2 * model.n_parameters_)
    assert not (guess and explanation.structure.found)
    found = explanation.structure.found
    assert ("of the error on rows that were left out" in explanation.to_text(1000)) == found
    assert (explanation.held_out is not None) == found


# ----------------------------------------------------------------------------------------------------------- the search


def candidate(kernel: str, log_evidence: float, depth: int = 0, parent: int | None = None, **more: object) -> Candidate:
    plain: dict = {
        "step": Step("base", words=kernel),
        "parameters": 3,
        "status": "converged",
        "message": "",
        "seconds": 0.1,
        "fit": None,
    }
    score = -2 * log_evidence + 3 * math.log(60)
    plain |= {"depth": depth, "parent": parent, "log_evidence": log_evidence, "score": score} | more
    return Candidate(expression=bind(parse(kernel), 1), **plain)


def about(model: mercer.GPRegressor, kernel: Expression) -> Subject:
    """The subject of a model as if another kernel had been fitted."""
    subject = subject_of(model.fitted_)
    return replace(subject, fitted=kernel, kernel=to_scaled_units(kernel, subject.units))


def winner(kernel: Expression) -> Candidate:
    return candidate(kernel.text(), -100.0)


def test_what_was_not_found(given: mercer.GPRegressor) -> None:
    kernel = bind(parse("SE(0, variance=1, lengthscale=5)"), 1)
    subject = about(given, kernel)
    lost = [winner(kernel), candidate("SE(0) + LIN(0)", -104.0, 1, 0), candidate("SE(0) * PER(0)", -120.0, 1, 0)]
    found = find_absences(subject, lost)
    assert [(claim.value.what, claim.subject) for claim in found] == [("trend", "month"), ("period", "month")]
    assert found[0].value.behind == pytest.approx(8.0)
    assert [claim.kind for claim in found] == ["absent", "absent"]
    assert found[0].certainty == pytest.approx(1 / (1 + math.exp(-4.0)))
    assert found[0].evidence.best_with - found[0].evidence.best_without == pytest.approx(8.0)
    close = [winner(kernel), candidate("SE(0) + LIN(0)", -102.0, 1, 0), candidate("SE(0) * PER(0)", -120.0, 1, 0)]
    assert [claim.value.what for claim in find_absences(subject, close)] == ["period"]
    unfair = [winner(kernel), candidate("LIN(0)", -150.0), candidate("PER(0)", -150.0)]
    assert find_absences(subject, unfair) == []


def test_an_absence_is_claimed_only_where_every_candidate_with_it_was_finished(given: mercer.GPRegressor) -> None:
    kernel = bind(parse("SE(0, variance=1, lengthscale=5)"), 1)
    subject = about(given, kernel)
    lost = [winner(kernel), candidate("SE(0) * PER(0)", -120.0, 1, 0), candidate("PER(0)", -150.0)]
    (claim,) = find_absences(subject, lost)
    assert (claim.kind, claim.evidence.all_finished) == ("absent", True)
    assert say(claim, subject.vocabulary) == "No period: kernels with one lost by at least 40.0 in BIC."
    assert find_absences(subject, [*lost[:2], replace(lost[2], status="raced out")]) == []
    with pytest.raises(ValueError, match="cannot be claimed absent"):
        replace(claim, evidence=ClaimEvidence(all_finished=False))


def test_what_the_curve_or_the_errors_show_is_not_denied(given: mercer.GPRegressor) -> None:
    kernel = bind(parse("SE(0, variance=1, lengthscale=5)"), 1)
    lost = [winner(kernel), candidate("SE(0) + LIN(0)", -150.0, 1, 0), candidate("SE(0) * PER(0)", -150.0, 1, 0)]

    def denied(suspects: Suspects) -> list[str]:
        return [claim.value.what for claim in find_absences(about(given, kernel), lost, suspects)]

    assert denied(Suspects()) == ["trend", "period"]
    assert denied(Suspects(trend=True)) == ["period"]
    assert denied(Suspects(period=True)) == ["trend"]


@pytest.mark.parametrize("kernel", ["SE(0, variance=1, lengthscale=80)", "LIN(0)*SE(0, variance=1, lengthscale=80)"])
def test_no_trend_is_not_claimed_where_a_component_may_be_one(given: mercer.GPRegressor, kernel: str) -> None:
    expression = bind(parse(kernel), 1)
    lost = [winner(expression), candidate("SE(0) + LIN(0)", -150.0, 1, 0)]
    assert find_absences(about(given, expression), lost) == []


def test_the_way_to_the_winner_and_those_that_came_close(given: mercer.GPRegressor) -> None:
    kernel = bind(parse("SE(0, lengthscale=2) + LIN(0)"), 1)
    candidates = [
        candidate("SE(0)", -120.0),
        candidate("LIN(0)", -130.0),
        candidate(kernel.text(), -100.0, 1, 0),
        candidate("SE(0) * LIN(0)", -110.0, 1, 0, status="raced out"),
        candidate("SE(0) * SE(0)", -math.inf, 1, 0, status="failed", message="no"),
    ]
    assert winner_of(candidates, kernel) == 2
    subject = about(given, kernel)
    told = tell_story(subject, candidates, "BIC", Narrator(subject.vocabulary))
    assert (told.tried, told.finished, told.failed) == (5, 3, 1)
    assert [step.kernel for step in told.path] == ["SE", "SE + LIN"]
    assert [(step.beat, round(step.by, 6)) for step in told.path] == [("LIN", 20.0), ("SE * LIN", 20.0)]
    assert [runner.kernel for runner in told.runners_up] == ["SE", "LIN"]
    assert told.runners_up[0].behind == pytest.approx(40.0)
    assert tell_story(subject, (), "BIC", Narrator(subject.vocabulary)) is None


def test_a_search_is_told_and_averaging_mentioned(searched: mercer.GPRegressor) -> None:
    explanation = searched.explain()
    assert explanation.search.tried == len(searched.candidates_)
    assert explanation.search.path[-1].kernel == explanation.expression
    assert explanation.outcome.found_by.startswith("A search over sums and products of SE, PER and LIN found")
    assert sum(explanation.averaging.weights) == pytest.approx(1.0)
    assert len(explanation.averaging.kernels) == len(explanation.averaging.weights)


def test_a_loaded_model_explains_itself_alike(searched: mercer.GPRegressor, tmp_path: Path) -> None:
    searched.save(tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    assert len(again.candidates_) == len(searched.candidates_)
    assert again.explain().to_text() == searched.explain().to_text()
    assert again.explain().search == searched.explain().search


# ------------------------------------------------------------------------------------------------------- several inputs


def test_effects_and_interactions(table: mercer.GPRegressor) -> None:
    explanation = table.explain()
    by_name = {effect.column: effect for effect in explanation.effects}
    assert set(by_name) == {"heat", "shop", "wind", "price"}
    assert by_name["wind"].direction == "hardly matters"
    assert by_name["shop"].direction == "differs"
    assert by_name["shop"].highest_at == "south"
    assert by_name["shop"].size == pytest.approx(2.0, abs=0.2)
    assert by_name["heat"].direction == "goes up and down"
    sizes = [effect.size for effect in explanation.effects]
    assert sizes == sorted(sizes, reverse=True)
    assert explanation.interactions == ("The effects of heat and price depend on each other.",)
    assert explanation.extrapolation is None
    assert [check.name for check in explanation.checks] == ["shape", "spread", "band", "inputs"]
    text = " ".join(str(explanation).split())
    assert "The input wind hardly matters." in text
    assert "energy by shop: south is" in text


def test_an_input_that_a_search_had_no_time_for(table: mercer.GPRegressor) -> None:
    early = copy.copy(table)
    early.fitted_ = replace(table.fitted_, stopped="time")
    told = {effect.column: effect.sentence for effect in early.explain().effects}
    assert told["wind"] == "The input wind hardly matters."  # because the errors do not go with it
    assert told["shop"] == {effect.column: effect.sentence for effect in table.explain().effects}["shop"]


def test_effects_that_add_up() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (40, 2))
    explanation = mercer.GPRegressor("LIN(0) + LIN(1)", random_state=0).fit(X, X[:, 0] - 2 * X[:, 1]).explain()
    assert [effect.direction for effect in explanation.effects] == ["falls", "rises"]
    assert [effect.column for effect in explanation.effects] == ["column 1", "column 0"]
    assert explanation.interactions == ("Every input acts by itself: their effects add up.",)
    assert explanation.kernel.startswith("LIN(0, variance=")
    assert "of column 0" in explanation.components[0].sentence + explanation.components[1].sentence


# ----------------------------------------------------------------------------------------------------------- the claims


def test_what_is_said_is_claimed_first(given: mercer.GPRegressor) -> None:
    explanation, subject = given.explain(), subject_of(given.fitted_)
    by_kind = {claim.kind: claim for claim in explanation.claims}
    said = [say(claim, subject.vocabulary) for claim in explanation.claims if claim.kind in SENTENCES]
    assert explanation.structure.sentence in said
    assert {component.sentence for component in explanation.components} <= set(said)
    assert {check.sentence for check in explanation.checks} <= set(said)
    assert explanation.outcome.found_by in said
    assert by_kind["trend"].subject == "month"
    assert by_kind["trend"].value == pytest.approx(3.0, abs=0.05)
    assert by_kind["trend"].unit == "months"
    assert by_kind["components"].certainty == pytest.approx(1.0)
    document = json.loads(json.dumps(explanation.to_json(), allow_nan=False))
    assert [claim["kind"] for claim in document["claims"]] == [claim.kind for claim in explanation.claims]


def test_a_claim_without_words_is_refused() -> None:
    with pytest.raises(mercer.errors.InputError, match="no words for claims of the kind 'weather'"):
        Narrator(None).say(Claim("weather", "rain", evidence=ClaimEvidence()))


# ----------------------------------------------------------------------------------------------------------- the output


def test_json_has_json_types_only(searched: mercer.GPRegressor) -> None:
    document = searched.explain().to_json()
    again = json.loads(json.dumps(document, allow_nan=False))
    assert again == document
    assert (again["format"], again["version"]) == ("mercer-explanation", 1)
    assert len(again["components"][0]["mean"]) == 60
    assert again["structure"]["found"] is True


def test_text_is_wrapped_and_complete(given: mercer.GPRegressor) -> None:
    explanation = given.explain()
    assert isinstance(explanation, Explanation)
    text = explanation.to_text(width=60)
    assert max(map(len, text.splitlines())) <= 60
    flat = " ".join(text.split())
    for words in (
        "sales explained by month, from 60 rows",
        "Two components make up sales;",
        "A linear function of month, rising by 3.0",
        "of the error on rows that were left out.",
        "Noise of standard deviation",
        "trend Over the data sales rises by 36.2 a year on average (95 % between 35.",
        "season Yearly pattern: ",
        "highest in April, lowest in October.",
        "next 2005-01:",
        "The forecast of sales for 2005-12 is",
        "structure LIN + CPER",
        f"log evidence {given.log_evidence_:.2f}, BIC {given.bic_:.2f} (6 parameters)",
        "The structure LIN + CPER was given; its parameters were fitted from 2 starts.",
    ):
        assert words in flat, words
    assert len(repr(explanation)) < 8000  # without the bands


@pytest.mark.filterwarnings("ignore:column")
def test_a_column_that_never_changes_explains_nothing() -> None:
    x = np.arange(20.0)
    model = mercer.GPRegressor("SE", restarts=1, random_state=0)
    table = pd.DataFrame({"height": x, "room": 3.0})
    assert model.fit(table, np.sin(x)).explain().headline == "the target explained by height, from 20 rows"
    assert "room" in model.fit(table[["room"]], np.sin(x)).explain().headline
