"""What a study says about itself: facts, and sentences made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import mercer
from mercer.optimise import print_progress, words
from mercer.optimise.effects import VarianceShare, look_closely, measure_shares, predict_jointly
from mercer.optimise.explanation import ExplainPolicy, PartFact, drop_inputs, find_probability, judge_gain
from mercer.optimise.models import StructureModel
from mercer.optimise.proposal import Method, Why
from mercer.optimise.trials import Purpose

BOUNDS = {"a": (0.0, 1.0), "b": (0.0, 1.0), "c": ["red", "green"], "idle": (0.0, 1.0)}


def value(point: dict[str, Any]) -> float:
    return float(3.0 * np.sin(6.0 * point["a"]) + 4.0 * (point["b"] - 0.3) ** 2 + (0.8 if point["c"] == "red" else 0.0))


def told(count: int, **options: Any) -> mercer.Optimizer:
    optimizer = mercer.Optimizer(BOUNDS, random_state=0, **options)
    rng = np.random.default_rng(1)
    points = [optimizer.space.decode(row) for row in optimizer.space.sample(count, rng)]
    optimizer.tell(points, [value(point) for point in points])
    return optimizer


@pytest.fixture(scope="module")
def known() -> mercer.Optimizer:
    optimizer = told(40)
    optimizer.tell({"a": 1.5, "b": 0.5, "c": "red", "idle": 0.0}, None)
    optimizer.ask(2)
    return optimizer


def test_a_study_without_trials_says_so() -> None:
    text = str(mercer.Optimizer([(0, 1), (0, 1)]).explain())
    assert "no trial yet" in text
    assert "too early to say which inputs act together" in text


def test_few_trials_settle_nothing() -> None:
    found = told(12).explain()
    assert not found.settled
    assert "not settled yet" in str(found)
    assert " alone" not in str(found)
    assert found.gain.verdict in ("worth going on", "too early")


def test_facts_of_a_study_with_trials_enough(known: mercer.Optimizer) -> None:
    found = known.explain()
    assert (found.trials, found.failed) == (41, 1)
    assert found.best is not None
    assert found.best.y == min(y for _, y in known.trials_ if y is not None)
    assert sum(each.probability for each in found.partitions) == pytest.approx(1.0, abs=0.1)
    assert found.inputs[0].name == "a"
    assert found.inputs[0].share.low <= found.inputs[0].share.mean <= found.inputs[0].share.high
    assert sum(part.share.mean for part in found.parts) == pytest.approx(1.0, abs=0.01)
    assert len(found.suggestions) == 2
    assert all(each.purpose in ("improve", "explore") for each in found.suggestions)
    assert found.gain.expected is not None
    assert found.model is not None
    assert found.model.scale in ("identity", "log")
    text = str(found)
    for word in ("lowest value", "Next 2:", "1 trial failed", "lies outside its bounds", "expected"):
        assert word in text
    assert found.to_json()["best"]["trial"] == found.best.number + 1


def test_an_input_that_does_nothing_hardly_matters(known: mercer.Optimizer) -> None:
    hardly = [each.name for each in known.explain().inputs if each.hardly_matters]
    assert hardly == ["idle"]
    assert "idle hardly matters" in " ".join(known.explain().sentences)


def test_an_input_that_acts_alone_has_the_share_of_its_part(known: mercer.Optimizer) -> None:
    found = known.explain()
    shares = {each.name: each.share for each in found.inputs}
    alone = [part for part in found.parts if len(part.inputs) == 1]
    assert alone
    assert all(shares[part.inputs[0]] == part.share for part in alone)


def test_what_is_not_known_is_not_called_unimportant() -> None:
    assert not any(each.hardly_matters for each in told(10).explain().inputs)


def test_parts_add_up_to_the_whole(known: mercer.Optimizer) -> None:
    study = known._look("value")
    assert study.model is not None
    surrogate = look_closely(study.model, study.rows, study.values)
    rows = study.space.sample(7, np.random.default_rng(3))
    means, covariances = zip(*(predict_jointly(surrogate, part, rows) for part in surrogate.parts), strict=True)
    level = surrogate.posterior.fitted_level.mean
    np.testing.assert_allclose(np.sum(means, axis=0) + level, surrogate.predict(rows).mean, atol=1e-8)
    for part, covariance in zip(surrogate.parts, covariances, strict=True):
        np.testing.assert_allclose(
            np.diag(covariance), surrogate.predict_part(part, rows).variance, rtol=1e-5, atol=1e-9
        )
    shares = measure_shares(surrogate, study.space)
    assert set(shares.inputs) == {0, 1, 2, 3}


def test_probabilities_of_groups() -> None:
    partitions = [(((0, 1), (2,)), 0.6), (((0, 1, 2),), 0.3), (((0,), (1,), (2,)), 0.1)]
    assert find_probability((0, 1), partitions) == pytest.approx(0.9)
    assert find_probability((2,), partitions) == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("gain", "noise", "few", "verdict", "reason"),
    [
        (0.5, 0.1, False, "worth going on", "against the spread"),
        (0.005, 1e-4, False, "little left", "against the spread"),
        (0.5, 2.0, False, "little left", "against the noise"),
        (1e-4, 1e-5, False, "nothing to be expected", "against the spread"),
        (1e-4, 1e-5, True, "too early", "few trials"),
        (None, None, False, "too early", "no model"),
    ],
)
def test_whether_to_stop(gain: float | None, noise: float | None, few: bool, verdict: str, reason: str) -> None:
    values = np.array([-1.0, 1.0])  # a spread of one
    found = judge_gain(gain, values, noise, few, ExplainPolicy())
    assert (found.verdict, found.reason) == (verdict, reason)
    assert words.tell_gain(found).endswith(".")


def test_equal_values_leave_nothing_to_say() -> None:
    optimizer = mercer.Optimizer([(0, 1)], random_state=0)
    for place in range(12):
        optimizer.tell([place / 12], 3.0)
    optimizer.ask()
    found = optimizer.explain()
    assert found.gain.reason == "equal values"
    assert "all values are equal" in str(found)
    assert found.suggestions[0].reason == "at random: all values so far are equal"


@pytest.mark.parametrize("inputs", [1, 3])
def test_of_values_that_are_noise_nothing_is_claimed(inputs: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    optimizer = mercer.Optimizer([(0, 1)] * inputs, random_state=0)
    optimizer.tell(rng.random((30, inputs)), rng.standard_normal(30))
    found = optimizer.explain()
    assert not found.beyond_noise
    assert not found.settled
    assert (found.gain.verdict, found.gain.reason) == ("too early", "noise alone")
    text = str(found)
    assert "No effect of any input can be told from noise" in text
    assert "counts most" not in text
    assert "hardly" not in text
    optimizer.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "No effect of any input" in page
    assert "of the variance" not in page


def test_an_effect_under_noise_is_seen() -> None:
    rng = np.random.default_rng(7)
    rows = rng.random((30, 2))
    optimizer = mercer.Optimizer([(0, 1)] * 2, random_state=0)
    optimizer.tell(rows, np.sin(5.0 * rows[:, 0]) + 0.3 * rng.standard_normal(30))
    found = optimizer.explain()
    assert found.beyond_noise
    assert found.inputs[0].name == "x0"


def test_a_first_guess_is_not_called_settled_and_the_search_can_be_finished() -> None:
    rng = np.random.default_rng(0)
    rows = rng.random((1020, 3))
    optimizer = mercer.Optimizer([(0, 1)] * 3, random_state=0)
    optimizer.tell(rows, np.sin(6.0 * rows[:, 0] * rows[:, 1]) + rows[:, 2])
    found = optimizer.explain()
    assert found.searching
    assert not found.settled
    assert not any(each.hardly_matters for each in found.inputs)
    assert "not settled yet: the search goes on with the next trials" in " ".join(found.sentences)
    assert judge_gain(0.0, rows[:, 0], None, False, ExplainPolicy(), searching=True).reason == "first guess"
    optimizer.finish_search()
    found = optimizer.explain()
    assert not found.searching
    assert [each.inputs for each in found.groups] == [("x0", "x1"), ("x2",)]


def test_what_is_being_tried_has_no_number_among_the_next() -> None:
    optimizer = mercer.Optimizer([(0, 1)], random_state=0)
    optimizer.wait_for([0.25])
    optimizer.ask(2)
    said = words.tell_suggestions(optimizer.explain())
    assert [each.split(":")[0] for each in said] == ["Next 1", "Next 2", "Being tried already"]
    assert "x0 = 0.250" in said[-1]


def test_all_trials_failed() -> None:
    optimizer = mercer.Optimizer([(0, 1)], random_state=0)
    for place in range(12):
        optimizer.tell([place / 12], None)
    assert "no value yet (12 trials, 12 of them failed)" in str(optimizer.explain())
    assert len(optimizer.ask(2)) == 2


def test_a_kernel_that_was_given_claims_no_probability() -> None:
    found = told(15, kernel="SE(a) + SE(b)").explain()
    assert found.model is not None
    assert found.model.origin == "given"
    assert "By the kernel that was given" in str(found)
    assert {each.name: each.share.mean for each in found.inputs}["idle"] == 0.0


def test_every_way_and_purpose_has_words() -> None:
    assert set(get_args(Method)) <= set(words.REASONS)
    assert set(get_args(Why)) == set(words.WHYS)
    assert set(get_args(Purpose)) == set(words.PURPOSES)


def test_values_are_told_all_or_none() -> None:
    optimizer = told(2)
    points = [dict(optimizer.trials_[0][0]), {"a": 0.1, "b": 0.2, "c": "blue", "idle": 0.0}]
    with pytest.raises(mercer.InputError, match="'c' has no choice 'blue'"):
        optimizer.tell(points, [1.0, 2.0])
    assert len(optimizer.trials_) == 2


def test_a_text_instead_of_a_value_marks_a_failed_trial() -> None:
    optimizer = mercer.Optimizer({"a": (0.0, 1.0)}, random_state=0)
    optimizer.tell({"a": 0.5}, "broken")
    assert optimizer.trials_ == [({"a": 0.5}, None)]
    assert "Trial 1: its value, 'broken', is no number; the trial counts as failed." in str(optimizer.explain())


def test_settings_and_values_that_make_no_sense_are_a_sentence() -> None:
    optimizer = mercer.Optimizer({"a": (0.0, 1.0)})
    with pytest.raises(mercer.InputError, match="one point and 2 values"):
        optimizer.tell({"a": 0.5}, [1.0, 2.0])
    with pytest.raises(mercer.InputError, match="random_state must be a whole number"):
        mercer.Optimizer([(0, 1)], random_state="a")  # type: ignore[arg-type]
    with pytest.raises(mercer.InputError, match="function must be something that can be called"):
        mercer.minimize("f", [(0, 1)])  # type: ignore[arg-type]


def test_the_gain_is_no_less_than_a_suggestion_promises() -> None:
    rng = np.random.default_rng(1)
    optimizer = mercer.Optimizer([(0.0, 1.0)] * 2, random_state=0)
    for row in rng.uniform(size=(14, 2)):  # at random: the best is no better for the last half of them
        optimizer.tell(row, float(np.sum((row - 0.37) ** 2)))
    optimizer.ask()
    best, (next_one,) = optimizer.best_, optimizer.suggestions_
    assert best is not None
    assert next_one.mean is not None
    expected = optimizer.explain().gain.expected
    assert expected is not None
    assert expected >= best.y - next_one.mean > 0.0


def test_several_trials_at_once_do_not_decide_on_the_scale_alone() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(40, 1))
    model = StructureModel(((0,),)).update(X[:20], np.sin(9.0 * X[:20, 0]), rng)
    model = model.update(X[:30], np.append(np.sin(9.0 * X[:29, 0]), 50.0), rng)
    assert max(map(abs, model.recent)) <= model.policy.switch


def test_progress_is_printed_every_ten(capsys: pytest.CaptureFixture[str]) -> None:
    mercer.minimize(lambda x: float((x[0] - 0.3) ** 2), [(0, 1)], calls=12, random_state=0, callback=print_progress)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(";")[0] for line in lines] == ["10 of 12", "12 of 12"]
    assert "more to be expected" in lines[-1]


def test_failed_trials_are_avoided_and_spoil_nothing() -> None:
    optimizer = mercer.Optimizer([(0.0, 1.0), (0.0, 1.0)], "SE(0) + SE(1)", random_state=0)
    rng = np.random.default_rng(0)
    for x in rng.random((25, 2)):
        optimizer.tell(x, float((x[0] - 0.5) ** 2 + (x[1] - 0.5) ** 2))
    before = optimizer.explain().model
    for _ in range(3):
        optimizer.tell(optimizer.ask(), None)
    found = optimizer.explain()
    assert found.model == before
    assert found.failed == 3
    failed = np.array([x for x, value in optimizer.trials_ if value is None])
    assert np.abs(failed - failed.mean(axis=0)).max() > 0.02  # not the same place three times


def test_trials_at_the_same_time_teach_different_things() -> None:
    optimizer = mercer.Optimizer([(0.0, 1.0), (0.0, 1.0)], "SE(0) + SE(1)", random_state=0)
    for x in np.random.default_rng(0).random((12, 2)):
        optimizer.tell(x, float((x[0] - 0.5) ** 2 + (x[1] - 0.5) ** 2))
    points = np.array(optimizer.ask(4))
    apart = np.abs(points[:, None] - points[None]).max(axis=2)[np.triu_indices(4, 1)]
    assert apart.min() > 0.01


def test_inputs_that_hardly_matter_are_left_out_of_partitions() -> None:
    partitions = [(((0,), (1, 2)), 0.5), (((0, 2), (1,)), 0.3), (((0, 1), (2,)), 0.2)]
    assert drop_inputs(partitions, {2}) == [(((0,), (1,)), 0.8), (((0, 1),), 0.2)]
    assert drop_inputs(partitions, {0, 1, 2}) == [((), 1.0)]


@pytest.mark.parametrize(
    ("share", "told"),
    [
        (VarianceShare(0.83, 0.829, 0.831), "83 % of the variance"),
        (VarianceShare(0.83, 0.80, 0.86), "83 % of the variance (80 % to 86 % with 95 %)"),
        (VarianceShare(1e-4, 0.0, 3e-4), "under 0.1 % of the variance"),
    ],
)
def test_an_interval_is_shown_where_its_ends_differ(share: VarianceShare, told: str) -> None:
    assert words.tell_share(PartFact(("a",), share)) == told
