"""What a search on a series begins with beside base kernels: a season that wanders, a jump of the level."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import mercer
from mercer.fitting.periods import find_step
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.kernels import LIN, SE
from mercer.kernels.algebra import structure
from mercer.kernels.blend import is_jump
from mercer.learners.averaging import ForecastErrors, weigh
from mercer.learners.contract import Context, Learned
from mercer.learners.growth import children, group_near, jump_of_level, usual_kernels
from mercer.learners.racing import RacePolicy

BASES = ("SE", "PER", "LIN", "RQ", "M12")


def scaled(y: np.ndarray) -> np.ndarray:
    return np.asarray((y - y.mean()) / y.std())


def wandering(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A season of 12 steps whose height and phase wander, and noise."""
    rng, x = np.random.default_rng(seed), np.arange(float(count))
    heights = [np.interp(x, np.linspace(0.0, count, 7), rng.normal(size=7)) for _ in range(2)]
    y = heights[0] * np.cos(2 * np.pi * x / 12) + heights[1] * np.sin(2 * np.pi * x / 12)
    return x, scaled(y + 0.2 * rng.normal(size=count))


# ------------------------------------------------------------------------------------------------- seasons that wander


def test_periods_are_one_season_where_a_few_cycles_are_between_them() -> None:
    assert group_near([25.96, 24.07, 22.63], 530.0) == [[22.63, 24.07, 25.96]]
    assert group_near([7.0, 30.4], 500.0) == [[7.0], [30.4]]
    assert group_near([12.0, 11.0], 2000.0) == [[11.0], [12.0]]  # 15 cycles apart
    assert group_near([], 100.0) == []


def test_a_season_of_near_periods_is_tried_as_one_that_changes_and_as_several() -> None:
    joined, apart = usual_kernels(BASES, 0, [11.5, 12.5], 240.0)
    assert structure(joined).text() == "LIN(0) + SE(0) + SE(0) * PER(0) + M12(0)"
    assert structure(apart).text() == "LIN(0) + SE(0) + PER(0) + PER(0) + M12(0)"
    (period,) = (leaf.parameter("period").values for leaf in joined.leaves() if leaf.symbol == "PER")
    assert period == pytest.approx((11.98,), abs=0.01)
    assert len(usual_kernels(BASES, 0, [7.0, 30.0], 240.0)) == 1


def test_a_long_search_begins_with_a_season_that_changes_beside_seasons_side_by_side() -> None:
    x, y = wandering(300, 3)
    few = (RacePolicy(many_rows=200, sample=150),)  # so that 300 rows are many
    data = Data(scaled(x)[:, None], y, free_level=True)
    search = mercer.GrammarSearch(("SE", "PER"), max_depth=3, average=False)
    learned = search.learn(Context(data, Exact(), [0], policies=few))
    usual = {structure(c.expression).text(): c.score for c in learned.candidates if c.step.kind == "usual parts"}
    (changing,) = (text for text in usual if "SE(0) * PER(0)" in text)
    (apart,) = usual.keys() - {changing}
    assert usual[changing] < usual[apart] - 10.0


# ------------------------------------------------------------------------------------------------- jumps of the level


X = np.arange(120.0)
NOISE = np.random.default_rng(0).normal(size=120)


@pytest.mark.parametrize("beside", [0.0, 0.02 * X], ids=["level", "line"])
def test_a_step_is_found_where_it_is(beside: Any) -> None:
    y = scaled(np.where(X < 70, 0.0, 2.0) + beside + 0.5 * NOISE)
    assert find_step(X, y) == pytest.approx(69.5, abs=1.0)
    assert find_step(X[::-1], y[::-1]) == pytest.approx(69.5, abs=1.0)


def test_a_step_is_found_beside_a_season() -> None:
    y = scaled(np.where(X < 70, 0.0, 1.0) + 3.0 * np.sin(2 * np.pi * X / 12) + 0.3 * NOISE)
    assert find_step(X, y, 12.0) == pytest.approx(69.5, abs=1.0)


@pytest.mark.parametrize(
    "y",
    [NOISE, 0.05 * X + NOISE, np.sin(X / 20), (X / 60 - 1) ** 2 + 0.1 * NOISE, np.maximum(X - 60, 0.0) + NOISE],
    ids=["noise", "line", "wave", "parabola", "bend"],
)
def test_what_is_smooth_has_no_step(y: np.ndarray) -> None:
    assert find_step(X, scaled(y)) is None


def test_few_rows_and_one_place_have_no_step() -> None:
    assert find_step(X[:15], np.where(X[:15] < 7, 0.0, 1.0)) is None
    assert find_step(np.zeros(40), NOISE[:40]) is None


@lru_cache(maxsize=1)
def jumping() -> Learned:
    y = scaled(np.where(X < 70, 0.0, 2.0) + np.sin(2 * np.pi * X / 12) + 0.3 * NOISE)
    data = Data(scaled(X)[:, None], y, free_level=True)
    return mercer.GrammarSearch(max_depth=1).learn(Context(data, Exact(), [0], policies=(RacePolicy(),)))


def test_a_search_finds_a_jump_beside_a_season() -> None:
    assert structure(jumping().fit.expression).text() == "CP(0, C, on=0) + PER(0)"
    assert [c.step.text() for c in jumping().candidates if is_jump(c.expression)] == ["a jump of the level"]


def test_a_jump_stays_what_it_is_unless_changes_are_asked_for() -> None:
    bases = (SE(0), LIN(0))
    grown = {structure(each.expression).text() for each in children(jump_of_level(0, 1.0), bases, "+*rj", "full")}
    assert grown == {"CP(0, C, on=0) + SE(0)", "CP(0, C, on=0) + LIN(0)"}
    assert len(list(children(jump_of_level(0, 1.0), bases, "+*rj|", "full"))) > len(grown)


def test_jumps_are_tried_only_where_they_are_allowed_and_where_there_is_one() -> None:
    def tried(y: np.ndarray, operators: str) -> bool:
        context = Context(Data(scaled(X)[:, None], scaled(y), free_level=True), Exact(), [0])
        learned = mercer.GrammarSearch(("SE",), operators, max_depth=0, average=False).learn(context)
        return any(candidate.step.kind == "jump" for candidate in learned.candidates)

    step = np.where(X < 70, 0.0, 2.0) + 0.5 * NOISE
    assert tried(step, "+*rj")
    assert not tried(step, "+*r")
    assert not tried(0.05 * X + NOISE, "+*rj")


def test_a_change_that_only_hindsight_knows_has_no_weight_in_a_forecast() -> None:
    """It forecasts well from before its place, which was fitted to what came: the evidence must speak for it."""
    plain = ForecastErrors(np.ones(20), np.ones(20))
    knows = ForecastErrors(np.zeros(20), np.full(20, 0.1), foreknown=True)
    assert weigh([0.0, 20.0], [plain, knows], 0).beyond == (1.0, 0.0)
    assert weigh([0.0, 1.0], [plain, knows], 0).beyond[1] > 0.5


def test_a_jump_that_the_kernels_have_is_told_with_its_size() -> None:
    y = 10.0 + np.where(X < 70, 0.0, 2.0) + 0.3 * NOISE
    model = mercer.GPRegressor(mercer.GrammarSearch(max_depth=1), random_state=0).fit(X[:, None], y)
    explanation = model.explain()
    (jump,) = (claim.value for claim in explanation.claims if claim.kind == "jump")
    assert (jump.at, jump.by_curve) == (70.0, False)
    assert jump.low < 2.0 < jump.high
    assert jump.high - jump.low < 0.4
    assert explanation.rate is None
    assert explanation.change is None
    assert explanation.components[0].title == "Jump near 70"
    assert not any("by a curve" in answer.sentence for answer in explanation.answers)
    mean, std = model.predict(X[:, None] + 120.0, return_std=True)
    assert mean == pytest.approx(np.full(120, 12.0), abs=0.2)
    assert std.max() < 0.5


def test_a_jump_in_much_noise_is_told_with_where_it_may_be() -> None:
    x = np.arange(240.0)
    y = np.where(x < 100, 0.0, 1.5) + np.random.default_rng(2).normal(size=240)
    model = mercer.GPRegressor("CP(0, C)", random_state=0).fit(x[:, None], y)
    (jump,) = (claim.value for claim in model.explain().claims if claim.kind == "jump")
    assert jump.between[0] < jump.between[1] - 2.0
    assert jump.between[0] <= 100.0 <= jump.between[1]
    assert jump.low < 1.5 < jump.high
    said = next(answer.sentence for answer in model.explain().answers if answer.question == "change")
    assert "somewhere between" in said
