"""What an optimiser says of noise, penalties and points that are not allowed; odd input; spaces with few points."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import LinearConstraint

import mercer
from mercer.optimise import words
from mercer.optimise.explanation import ExplainPolicy, judge_gain
from mercer.optimise.gain import expect_gain
from mercer.optimise.models import LearnedModel, Target, UpdatePolicy, measure_spread
from mercer.optimise.space import read_space
from tests.fuzz.disks import limited_files

NOISE = 0.3


@pytest.fixture(scope="module")
def noisy() -> mercer.Optimizer:
    """A bowl from 0 to 0.85 under noise of 0.3: the lowest values are luck."""
    rng = np.random.default_rng(0)
    optimizer = mercer.Optimizer([(0.0, 1.0)] * 2, "SE(0, 1)", random_state=0)
    rows = np.vstack([rng.uniform(size=(30, 2)), np.array([0.3, 0.6]) + 0.1 * rng.standard_normal((30, 2))])
    rows = np.clip(rows, 0.0, 1.0)
    noise = NOISE * rng.standard_normal(60)
    noise[50] = -4.0 * NOISE  # a late one, which makes a record
    optimizer.tell(rows, ((rows - [0.3, 0.6]) ** 2).sum(axis=1) + noise)
    optimizer.ask(2)
    return optimizer


def test_the_best_of_a_noisy_function_is_not_called_the_lowest_value(noisy: mercer.Optimizer) -> None:
    best, lowest = noisy.best_, min(y for _, y in noisy.trials_ if y is not None)
    assert best is not None
    assert best.y > lowest == best.better
    text = " ".join(noisy.explain().sentences)
    assert f"The lowest value so far is {words.show_score(best.y)}" not in text
    assert f"The best by the model is trial {best.number + 1}" in text
    assert f"The lowest value so far, {words.show_score(lowest)}, is put down to noise" in text


def test_noise_is_no_gain(noisy: mercer.Optimizer) -> None:
    """The function can gain 0.05 at most; the least of the values fell by half a unit."""
    gain = noisy.expected_gain_
    assert gain is not None
    assert gain < 0.2
    found = noisy.explain().gain
    assert found.verdict != "worth going on"


def test_suggestions_are_compared_with_what_the_best_is_without_noise(noisy: mercer.Optimizer) -> None:
    best = noisy.best_
    assert best is not None
    assert best.mean is not None
    for each in noisy.suggestions_:
        assert each.mean is not None
        assert each.purpose == ("improve" if each.mean < best.mean else "explore")


def branin(x: np.ndarray) -> float:
    a, b = x
    bowl = (b - 5.1 * a**2 / (4 * math.pi**2) + 5 * a / math.pi - 6) ** 2
    return float(bowl + 10 * (1 - 0.125 / math.pi) * math.cos(a) + 10)


def test_penalties_are_no_noise() -> None:
    optimizer = mercer.Optimizer([(-5, 10), (0, 15)], "SE(0, 1)", random_state=0)
    rows = np.random.default_rng(1).uniform([-5, 0], [10, 15], size=(25, 2))
    values = [1e6 if x[0] > 7 and x[1] > 7 else branin(x) for x in rows]
    assert max(values) == 1e6
    optimizer.tell(rows, values)
    best = optimizer.best_
    assert best is not None
    assert best.y == min(values)
    assert "noise" not in str(optimizer.explain())


def test_a_point_that_is_not_allowed_is_not_the_best() -> None:
    sides = LinearConstraint([[1, 1]], -np.inf, 0.5)
    optimizer = mercer.Optimizer([(0, 1)] * 2, random_state=0, constraints=sides)
    optimizer.tell([0.9, 0.9], -100.0)
    best = optimizer.best_
    assert best is not None
    assert not best.allowed
    assert "It is not allowed" in str(optimizer.explain())
    optimizer.tell([[0.1, 0.2], [1.5, -1.2]], [3.0, -200.0])
    best = optimizer.best_
    assert best is not None
    assert (best.y, best.allowed) == (3.0, True)
    assert "cannot be the best" in " ".join(optimizer.explain().sentences)


def test_a_point_that_is_not_allowed_sets_no_record() -> None:
    rng = np.random.default_rng(0)
    space, X = read_space([(0, 1)]), rng.uniform(size=(30, 1))
    model = LearnedModel(((0,),), mercer.parse("SE(0)"), expression=mercer.parse("SE(0, variance=1, lengthscale=0.2)"))
    y = np.linspace(1.0, 0.0, 30)
    gains = []
    for outside in (2.0, -1e4):
        X[3], y[3] = 1.2, outside
        gains.append(expect_gain(model, space, X, y, np.random.default_rng(0)) > 0.0)
    assert gains == [True, True]


# ------------------------------------------------------------------------------------------------------- odd functions


def change(x: Any) -> float:
    if isinstance(x, dict):
        return float(x.pop("a"))
    value = float(x[0])
    x[:] = -7.0
    return value


@pytest.mark.parametrize("bounds", [{"a": (0, 1)}, [(0, 1)]])
def test_a_function_may_change_what_it_is_given(bounds: Any) -> None:
    result = mercer.minimize(change, bounds, calls=3, random_state=0)
    points = [x["a"] if isinstance(x, dict) else x[0] for x in result.x_iters]
    assert points == list(result.func_vals)


def test_a_checkpoint_that_cannot_be_written_costs_no_evaluation(tmp_path: Path) -> None:
    seen: list[Any] = []
    with pytest.raises(mercer.InputError, match="cannot write"):
        mercer.minimize(lambda x: seen.append(x) or 0.0, [(0, 1)], checkpoint=tmp_path / "no" / "a")  # type: ignore[func-returns-value]
    assert not seen


def test_a_disk_that_fills_up_costs_the_checkpoint_and_not_the_evaluations(tmp_path: Path) -> None:
    with limited_files(700), pytest.warns(mercer.FitWarning, match=r"cannot write.*the run goes on"):
        result = mercer.minimize(lambda x: float(x[0]), [(0, 1)], calls=9, random_state=0, checkpoint=tmp_path / "a")
    assert result.nfev == 9
    kept = mercer.load(tmp_path / "a")
    assert [tuple(x) for x, _ in kept.trials_] == [tuple(x) for x in result.x_iters[: len(kept.trials_)]]


def test_a_callback_may_stop_as_in_scipy() -> None:
    def stop(state: Any) -> None:
        if state.done == 3:
            raise StopIteration

    result = mercer.minimize(lambda x: float(x[0]), [(0, 1)], calls=9, callback=stop)
    assert result.nfev == 3
    assert "callback" in result.message


# ----------------------------------------------------------------------------------------------- spaces with few points


def test_few_choices_are_each_tried_before_one_is_tried_again() -> None:
    letters = list("abcdefghij")
    result = mercer.minimize(lambda p: float(letters.index(p["c"])), {"c": letters}, calls=10, random_state=0)
    assert sorted(x["c"] for x in result.x_iters) == letters


def test_where_all_points_are_known_the_best_is_asked_for() -> None:
    bounds = {"n": mercer.Integer(1, 5)}
    result = mercer.minimize(lambda p: float((p["n"] - 3) ** 2), bounds, calls=13, random_state=0)
    assert {x["n"] for x in result.x_iters[:5]} == {1, 2, 3, 4, 5}
    assert [x["n"] for x in result.x_iters[10:]] == [3, 3, 3]


# --------------------------------------------------------------------------------------------------------- odd numbers


@pytest.mark.parametrize("value", [0.1, 0.003, 1e-4, 0.123456789012])
def test_a_number_on_a_logarithmic_scale_comes_back(value: float) -> None:
    optimizer = mercer.Optimizer({"r": mercer.Log(1e-4, 1.0)})
    optimizer.tell({"r": value}, 1.0)
    assert optimizer.trials_[0][0] == {"r": value}


def test_the_ends_of_a_wide_logarithmic_scale_come_back() -> None:
    space = read_space({"r": mercer.Log(1e-300, 1e300)})
    assert [space.decode(space.encode([{"r": r}])[0])["r"] for r in (1e-300, 1.0, 1e300)] == [1e-300, 1.0, 1e300]


@pytest.mark.parametrize("scale", [1e300, 1e-200])
def test_values_of_any_size(scale: float) -> None:
    values = scale * np.array([1.0, 2.0, 4.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert measure_spread(values) == pytest.approx(scale * np.std([1.0, 2.0, 4.0]), rel=1e-12)
        assert Target.of(values, "identity", UpdatePolicy()).forward(values).std() == pytest.approx(1.0)
        found = judge_gain(0.5 * scale, values, None, False, ExplainPolicy())
    assert "40 % of the spread" in words.tell_gain(found)


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda: mercer.Optimizer([(0, 1)], minimize="no"), "minimize must be True, or False"),  # type: ignore[arg-type]
        (lambda: mercer.Optimizer([(0, 1)]).tell(0.5, [3.0]), "needs a list of as many points, not 0.5"),
        (lambda: mercer.Optimizer([(0, 1)]).tell(([0.5] for _ in range(2)), [3.0]), "2 points and 1 values"),
        (lambda: mercer.Optimizer([(0, 1)] * 2).tell([0.5, 0.5], [[1.0], [2.0, 3.0]]), "one point and 2 values"),
        (lambda: mercer.Optimizer([(0, 1)] * 2).tell([0.5, 0.5], np.True_), "needs one number for y"),
        (lambda: mercer.minimize(abs, [(0, 1)], callback=5), "callback must be something that can be called"),  # type: ignore[arg-type]
        (lambda: mercer.minimize(abs, [(0, 1)], checkpoint=5), "checkpoint must be the path of a file"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_a_sentence(act: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(mercer.InputError, match=sentence):
        act()


def test_points_and_values_of_a_table() -> None:
    table = pd.DataFrame({"a": [0.25, 0.5], "c": ["x", "y"]}, index=[7, 8])
    optimizer = mercer.Optimizer({"a": (0.0, 1.0), "c": ["x", "y"]})
    optimizer.tell(table, pd.Series([1.0, 2.0], index=[7, 8]))
    assert optimizer.trials_ == [({"a": 0.25, "c": "x"}, 1.0), ({"a": 0.5, "c": "y"}, 2.0)]
    plain = mercer.Optimizer([(0.0, 1.0)] * 2)
    plain.tell(pd.DataFrame([[0.25, 0.5]]), [1.0])
    plain.tell((x for x in [[0.0, 1.0]]), [2.0])
    assert [list(x) for x, _ in plain.trials_] == [[0.25, 0.5], [0.0, 1.0]]


def test_a_value_may_be_an_array_of_one_and_may_be_missing() -> None:
    optimizer = mercer.Optimizer([(0.0, 1.0)] * 2)
    optimizer.tell([0.5, 0.5], [1.0])
    optimizer.tell(np.array([0.5, 0.5]), np.array([2.0]))
    optimizer.tell([[0.1, 0.2], [0.3, 0.4]], np.array([[3.0], [4.0]]))
    optimizer.tell([[0.1, 0.2], [0.3, 0.4]], pd.Series([5, None], dtype="Int64"))
    optimizer.tell([0.5, 0.5], 10**400)
    assert [value for _, value in optimizer.trials_] == [1.0, 2.0, 3.0, 4.0, 5.0, None, None]
    result = mercer.minimize(lambda x: (x - 0.3) ** 2, [(0, 1)], calls=3, random_state=0)
    assert result.func_vals == pytest.approx([(x[0] - 0.3) ** 2 for x in result.x_iters])
    with pytest.warns(mercer.FitWarning, match="the function returned '1.5', which is no number"):
        assert np.isnan(mercer.minimize(lambda _: "1.5", [(0, 1)], calls=1).fun)  # type: ignore[arg-type, return-value]


# --------------------------------------------------------------------------------------------------------------- words


def test_words_do_not_contradict_themselves() -> None:
    text = words.tell_gain(judge_gain(1e-4, np.array([-1.0, 1.0]), 1e-5, False, ExplainPolicy()))
    assert "Nothing" not in text
    assert "Hardly anything is left to gain" in text
    assert "little is known" not in words.PURPOSES["explore"]


def test_why_nothing_is_settled_is_said() -> None:
    optimizer = mercer.Optimizer({"a": (0.0, 1.0), "b": (0.0, 1.0)}, random_state=0)
    for a, b in np.random.default_rng(0).uniform(size=(11, 2)):
        optimizer.tell({"a": a, "b": b}, float(np.sin(6 * a) + b))
    assert "not settled yet: that takes 14 trials" in " ".join(optimizer.explain().sentences)
