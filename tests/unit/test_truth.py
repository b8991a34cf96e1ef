"""Sentences that were seen and false, each on small data where the truth is known: averages, inputs and classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import mercer
from mercer.explain.checks import (
    Check,
    Residual,
    bend,
    distance_dependence,
    find_dependences,
    linear_dependence,
)
from mercer.explain.claims import Claim
from mercer.explain.classes import ColumnCost, share_costs
from mercer.explain.components import find_direction
from mercer.explain.gathering import Curves, covariance_of, gather
from mercer.explain.subject import subject_of
from mercer.explain.wording import Vocabulary
from mercer.explain.words import NOTHING_LEFT, say
from mercer.learners.contract import Weights
from tests.unit.truth_models import COUNT, MONTHS, NOISE, TREND_AND_SEASON, averaged, fit, flat

pytestmark = pytest.mark.filterwarnings("ignore::mercer.MercerWarning")


# -------------------------------------------------------------------------------------------------- what predicts


UNEQUAL = Weights(within=(0.24, 0.76), beyond=(0.009, 0.991), widening=(1.0, 2.0), column=0)


SHORT_SEASON = "PER(0, period=fixed(12)) + PER(0, period=fixed(7))"


@pytest.fixture(scope="module")
def average() -> mercer.GPRegressor:
    """Of a kernel with two seasons, and one with a line and a season, which makes the forecast."""
    return averaged([SHORT_SEASON, "LIN + PER(0, period=fixed(12))"], UNEQUAL, TREND_AND_SEASON)


def test_the_words_are_about_the_average(average: mercer.GPRegressor) -> None:
    explanation, found = average.explain(), gather(subject_of(average.fitted_))
    by_kind = {(each.kind.name, each.kind.period and round(each.kind.period)): each for each in found}
    assert by_kind["season", 12].certainty == pytest.approx(1.0)
    assert by_kind["trend", None].certainty == pytest.approx(0.76)
    assert by_kind["trend", None].certainty_beyond == pytest.approx(0.991)
    assert explanation.averaging.weights_beyond == (0.009, 0.991)
    text = flat(average)
    assert "A straight trend along month. It is there with a probability of 76 %." in text
    assert "those of the winner" not in text
    assert "in the forecast the weights are:" in text
    claims = {claim.kind: claim for claim in explanation.claims}
    assert claims["gathered component"].certainty is not None
    fading = next(each for each in explanation.components if each.certainty_beyond < 0.1)
    assert "hardly have it: with a weight of 0.9 %" in fading.continuation


def test_kernels_that_differ_in_the_name_of_a_curve_have_one_component() -> None:
    """A line and a walk that follow the same data are not two things, each of them in doubt."""
    kernels = ["M12 + PER(0, period=12)", "LIN + PER(0, period=12)"]
    model = averaged(kernels, UNEQUAL, TREND_AND_SEASON)
    by_kind = {each.kind.name: each for each in gather(subject_of(model.fitted_))}
    assert sorted(by_kind) == ["season", "slow change"]
    assert by_kind["slow change"].certainty == pytest.approx(1.0)
    likely = by_kind["slow change"].likely
    assert (likely.name, likely.within, likely.beyond) == ("trend", pytest.approx(0.76), pytest.approx(0.991))
    text = "A slow change along month: most likely a straight trend (with a probability of 76 %, in the forecast "
    assert text in flat(model)


def test_effects_that_add_up_are_judged_once() -> None:
    """A kernel on all columns may hold a sum: then no component is called an interaction, in averages either."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(0, 1, (150, 3)), columns=["heat", "feed", "load"])
    y = 2.0 * X["heat"] + X["feed"] ** 2 - X["load"] + rng.normal(0, 0.05, 150)
    kernels = ["SE(heat, feed, load)", "SE(heat) + SE(feed) + SE(load)", "SE(heat) * SE(feed) * SE(load)"]
    model = averaged(kernels, Weights((0.4, 0.3, 0.3), (0.4, 0.3, 0.3), (1.0, 1.0, 1.0), None), y.to_numpy(), X)
    explanation = model.explain()
    found = gather(subject_of(model.fitted_))
    assert "interaction" not in {each.kind.name for each in found}
    assert "no interaction" in {claim.kind for claim in explanation.claims}
    for each in found:  # every kernel has the effect of every input, however it is written
        assert each.certainty == pytest.approx(1.0)
    own = fit(kernels[2], X, y).explain()
    assert "interaction" not in " ".join(each.sentence + each.title for each in own.components)
    joined = fit(kernels[2], X, y + 3.0 * (X["heat"] - 0.5) * (X["feed"] - 0.5)).explain()
    assert "interaction" in {claim.kind for claim in joined.claims}
    assert "interaction" in joined.components[0].sentence


def test_components_and_level_add_up_to_what_is_predicted(average: mercer.GPRegressor) -> None:
    curves = Curves(subject_of(average.fitted_))
    means = [curves.at_rows(component).mean for component in curves.components]
    expected = average.predict(MONTHS)
    np.testing.assert_allclose(curves.level + np.sum(means, axis=0), expected, atol=1e-8)
    for mean in means:
        assert mean.mean() == pytest.approx(0.0, abs=1e-9)


def test_a_band_of_an_average_is_that_of_the_mixture(average: mercer.GPRegressor) -> None:
    curves = Curves(subject_of(average.fitted_))
    trend = next(each for each in curves.components if each.kind.name == "trend")
    (member,) = trend.members
    found, own = curves.at_rows(trend), curves.mean_at_rows(member) - curves.middle(member)
    centring = np.eye(72) - 1.0 / 72
    covariance = covariance_of(curves.subject, member.of, member.part, curves.subject.data.X)
    variance = np.diagonal(centring @ covariance @ centring)
    np.testing.assert_allclose(found.mean, 0.76 * own, atol=1e-9)
    np.testing.assert_allclose(found.variance, 0.76 * (variance + own**2) - (0.76 * own) ** 2, rtol=1e-6, atol=1e-9)


def test_a_band_is_that_of_the_shape_alone() -> None:
    """A curve with a large variance and the level can hand a constant back and forth: that is not its shape."""
    model = fit("SE(0, variance=fixed(2000), lengthscale=fixed(150))", MONTHS, 0.2 * COUNT + 0.3 * NOISE, noise=0.1)
    (component,) = model.explain().components
    assert max(component.std) < 0.5
    assert model.decompose()[0].std.min() > 5.0


# ----------------------------------------------------------------------------------------------------- left over


def make_table(rows: int = 120) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(3)
    X = pd.DataFrame({name: rng.uniform(0, 1, rows) for name in ("heat", "feed", "idle")})
    return X, pd.Series(X["heat"] + 4.0 * np.abs(X["feed"] - 0.5) + rng.normal(0, 0.1, rows), name="yield")


def test_an_input_that_errors_go_with_is_named() -> None:
    X, y = make_table()
    model = fit("LIN(heat)", X, y)
    explanation, text = model.explain(), flat(model)
    assert NOTHING_LEFT not in text
    assert "The errors still go with feed" in explanation.residual_sentence
    told = {effect.column: effect for effect in explanation.effects}
    assert told["feed"].direction == "left out"
    assert "The input feed hardly matters" not in text
    assert told["idle"].direction in ("hardly matters", "not in the model")
    assert "nothing left over" not in [claim.kind for claim in explanation.claims]


def test_nothing_is_left_over_where_every_input_is_in_the_model() -> None:
    X, y = make_table()
    model = fit("LIN(heat) + SE(feed)", X, y)
    assert {each.columns for each in find_dependences(subject_of(model.fitted_)) if not each.clear} == set()
    assert "nothing left over" in [claim.kind for claim in model.explain().claims]
    told = {effect.column: effect.sentence for effect in model.explain().effects}
    assert told["idle"] == "The input idle hardly matters."


def test_few_rows_deny_nothing() -> None:
    X, y = make_table(16)
    noisy = y + np.random.default_rng(1).normal(0, 1, 16)
    explanation = fit("LIN(heat)", X, noisy).explain()
    assert "hardly matters" not in [effect.direction for effect in explanation.effects]
    assert "no interaction" not in [claim.kind for claim in explanation.claims]
    assert explanation.residual_sentence != NOTHING_LEFT


def test_effects_do_not_add_up_where_errors_go_with_a_product() -> None:
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.uniform(-1, 1, (150, 2)), columns=["heat", "speed"])
    y = X["heat"] + X["speed"] + 2.0 * X["heat"] * X["speed"] + rng.normal(0, 0.1, 150)
    explanation = fit("SE(heat) + SE(speed)", X, y).explain()
    assert explanation.interactions == ()
    assert "The errors still go with heat and speed together" in explanation.residual_sentence


def test_a_category_that_is_left_out_is_missed() -> None:
    rng = np.random.default_rng(5)
    X = pd.DataFrame({
        "temp": rng.uniform(0, 1, 150), "speed": rng.uniform(0, 1, 150), "operator": rng.choice(["a", "b", "c"], 150),
    })  # fmt: skip
    y = 4 * X["temp"] * X["speed"] + X["operator"].map({"a": 0.0, "b": 1.0, "c": 3.0}) + rng.normal(0, 0.3, 150)
    model = fit("SE(temp) * SE(speed)", X, y)
    text = flat(model)
    assert "Every input acts by itself" not in text
    assert NOTHING_LEFT not in text
    assert "The errors still go with operator" in text


def test_dependence_is_seen_by_both_measures() -> None:
    rng = np.random.default_rng(0)
    x, e = rng.uniform(-1, 1, 200), rng.normal(0, 0.3, 200)
    assert linear_dependence(x + e, x[:, None])[1] < 1e-6
    assert linear_dependence(x**2 + e, x[:, None])[1] > 0.01  # no line in it
    assert distance_dependence(x**2 + e, x[:, None], rng)[1] < 1e-4
    wave = np.sin(7.0 * np.argsort(np.argsort(x)) / len(x) * 1.3) + e
    assert linear_dependence(wave, bend(x[:, None]))[1] < 1e-3
    assert linear_dependence(e, bend(x[:, None]))[1] > 0.05
    assert distance_dependence(e, x[:, None], rng)[1] > 0.05
    chances = [distance_dependence(rng.normal(size=60), x[:60, None], rng)[1] for _ in range(20)]
    assert 0.2 < np.mean(chances) < 0.8  # a p-value of independent variables is uniform


def test_no_tick_beside_a_small_p_value() -> None:
    check = Check("shape", 0.1, 0.013)
    claim = Claim("shape of errors", "sales", Residual(check, 80))
    assert check.doubtful
    assert say(claim, Vocabulary("sales", ())) == "The errors may not follow a bell curve (p = 0.013)."


# --------------------------------------------------------------------------------------------------------- classes


def test_columns_count_the_same_only_where_shuffling_them_costs_the_same() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 2)), columns=["size", "colour"]).assign(fixed=1.0)
    y = pd.Series(np.where(X["size"] > 0, "large", "small"), name="kind")
    model = mercer.KernelSVC("rbf", random_state=0).fit(X, y)
    explanation = model.explain()
    assert explanation.costs[0].column == "size"
    shares = {each.column: each.share for each in explanation.relevance}
    assert shares == {"size": pytest.approx(1.0, abs=0.1), "colour": pytest.approx(0.0, abs=0.1)}
    assert explanation.relevance_sentence.startswith("What counts most: size; shuffled between rows left out, it puts ")
    assert "fixed" not in explanation.headline


def test_a_column_whose_cost_may_be_chance_is_neither_counted_nor_called_idle() -> None:
    costs = (ColumnCost("dose", 0.17, 0.05), ColumnCost("load", 0.03, 0.03), ColumnCost("speed", 0.0, 0.02))
    shares = share_costs(costs)
    assert [(each.column, each.share) for each in shares] == [("dose", 1.0), ("speed", 0.0)]
    model = mercer.KernelSVC("linear").fit([[0.0], [1.0], [2.0], [3.0]] * 5, [0, 0, 1, 1] * 5)
    sentence = replace(model.explain(), costs=costs, relevance=shares).relevance_sentence
    assert "Next to nothing comes from speed." in sentence
    assert sentence.endswith("These rows are too few to tell whether load counts.")


def test_no_column_is_said_to_count_that_costs_nothing_to_shuffle() -> None:
    """A machine knows its own rows by columns that mean nothing: costs are those of rows left out."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(90, 4)), columns=["width", "feed", "depth", "age"])
    y = pd.Series(np.where(X["width"] + rng.normal(0, 0.5, 90) > 0, "wide", "not"), name="kind")
    explanation = mercer.KernelSVC("rbf", random_state=0).fit(X, y).explain()
    counting = [each.column for each in explanation.relevance if each.share >= 0.1]
    assert counting == ["width"]
    both = pd.DataFrame({"one": X["width"], "other": X["width"]})
    assert mercer.KernelSVC("rbf", random_state=0).fit(both, y).explain().relevance_sentence


def test_one_class_is_named_as_a_person_would() -> None:
    with pytest.raises(mercer.errors.InputError, match=r"only one class \('0'\)"):
        mercer.KernelSVC(random_state=0).fit(np.arange(10.0)[:, None], np.zeros(10, dtype=int))


# ------------------------------------------------------------------------------------------ inputs of a table


def test_a_turn_within_its_band_is_none() -> None:
    """Beyond the last rows a curve goes back to its mean; how far it has turned is known only as well as its band."""
    rising = np.array([0.0, 1.0, 2.0, 3.0, 2.4])
    loose, tight = np.diag([0.01, 0.01, 0.01, 0.01, 0.25]), 1e-4 * np.eye(5)
    assert find_direction(rising, loose) == "rises"
    assert find_direction(-rising, loose) == "falls"
    assert find_direction(rising, tight) == "goes up and down"
    assert find_direction(np.array([0.0, 1.0, 2.0, 3.0, 2.9]), tight) == "rises"  # a small turn is none, either
    assert find_direction(rising, 9.0 * np.eye(5)) == "not clear"
    shared = 9.0 * np.ones((5, 5)) + tight  # what all places have in common says nothing about the shape
    assert find_direction(rising, shared) == "goes up and down"


def test_a_turn_that_is_hardly_clear_is_left_open() -> None:
    course = np.concatenate([np.linspace(0.3, 0.0, 12), np.linspace(0.0, 1.0, 30)])
    words = [find_direction(course, np.eye(42) * spread**2 / 2.0) for spread in (0.05, 0.1, 0.2, 2.0)]
    assert words == ["goes up and down", "changes", "rises", "not clear"]


def test_an_input_that_acts_with_another_has_no_direction_of_its_own() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1, 1, (120, 3)), columns=["heat", "feed", "load"])
    y = 4.0 * X["heat"] * X["feed"] + X["load"] + rng.normal(0, 0.1, 120)
    explanation = fit("SE(heat, feed, load)", X, y).explain()
    told = {effect.column: effect for effect in explanation.effects}
    assert [told[name].direction for name in ("heat", "feed", "load")] == ["depends on others"] * 2 + ["rises"]
    assert explanation.effects[-1].column == "load"  # though its own effect is the largest
    asked = {answer.question: answer.sentence for answer in explanation.answers}
    assert "(in a way that depends on other inputs), then" in asked["inputs"]
    (joined,) = (claim for claim in explanation.claims if claim.kind == "interaction")
    assert joined.value == ("heat", "feed")


def test_nothing_is_claimed_of_inputs_where_nothing_was_found() -> None:
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.uniform(0, 1, (80, 3)), columns=["heat", "feed", "load"])
    kernel = "SE(heat, feed, load, variance=fixed(0.5), lengthscale=fixed([0.1, 0.1, 0.1]))"
    explanation = fit(kernel, X, rng.normal(size=80), noise=0.5).explain()
    assert not explanation.structure.found
    assert {effect.direction for effect in explanation.effects} <= {"hardly matters", "not in the model", "not clear"}
    assert not explanation.interactions
