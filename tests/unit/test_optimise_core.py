"""Additive structures, surrogates and acquisitions of Bayesian optimisation, against slow references."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

import mercer
from mercer.inference.contract import Data
from mercer.inference.likelihood import Gaussian
from mercer.inference.vfe import holds_points
from mercer.kernels import parse
from mercer.learners.partition import (
    AdditiveStructure,
    StructureProblem,
    StructureSearch,
    combine,
    sort_groups,
    weigh_partitions,
)
from mercer.optimise.gain import expect_gain, extrapolate_record, see_gain
from mercer.optimise.groups import bound_by_group, scan_group
from mercer.optimise.joint import log_expected_improvement
from mercer.optimise.models import LearnedModel, StructureModel, Target, UpdatePolicy
from mercer.optimise.proposal import AcquisitionPolicy, ProposalTask
from mercer.optimise.space import read_space
from mercer.optimise.surrogate import ConditionPolicy, FunctionModel, choose_rows, extend

INPUTS = ((0,), (1, 2, 3), (4,))  # a number, a category of three choices, a number


def mixed_rows(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.uniform(size=(count, 5))
    rows[:, 1:4] = np.eye(3)[rng.integers(3, size=count)]
    return rows


def mixed_data(count: int = 30) -> Data:
    rows = mixed_rows(count)
    y = np.sin(5.0 * rows[:, 0]) + rows[:, 2] + rows[:, 4] ** 2
    return Data(rows, (y - y.mean()) / y.std(), free_level=True)


def model_of(text: str, data: Data, inputs: tuple[tuple[int, ...], ...], noise: float = 1e-3) -> FunctionModel:
    return FunctionModel(parse(text), Gaussian(noise), data, inputs)


# -------------------------------------------------------------------------------------------------------- structures


@pytest.mark.parametrize("groups", [((0,), (1,), (2,)), ((0, 1, 2),), ((0, 2), (1,))])
@pytest.mark.parametrize("family", ["SE", "M52"])
def test_the_slope_of_a_structures_score(groups: tuple[tuple[int, ...], ...], family: str) -> None:
    problem = StructureProblem(AdditiveStructure(groups, family), INPUTS, mixed_data())
    point = problem.centre + np.random.default_rng(1).normal(scale=0.3, size=len(problem.centre))
    value, slope = problem.loss(point)
    assert -value == pytest.approx(problem.score(point))
    step = 1e-5
    for k in range(len(point)):
        low, high = point.copy(), point.copy()
        low[k] -= step
        high[k] += step
        assert slope[k] == pytest.approx(
            (problem.loss(high)[0] - problem.loss(low)[0]) / (2 * step), rel=2e-4, abs=1e-5
        )


def test_a_group_that_pays_with_another_kernel_only_is_found() -> None:
    """Quartics, two of them joined by a tenth: with M52, which was the best so far, each input alone scores better."""
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(40, 3))
    Z = 10.0 * X - 5.0
    turned = np.array([Z[:, 0] + 0.1 * Z[:, 2], Z[:, 1], Z[:, 2] - 0.1 * Z[:, 0]])
    y = (turned**4 - 16.0 * turned**2 + 5.0 * turned).sum(axis=0)
    search = StructureSearch(((0,), (1,), (2,)), Data(X, (y - y.mean()) / y.std(), free_level=True))
    known = search.fit(AdditiveStructure(((0,), (1,), (2,)), "M52"))
    assert search.fit(AdditiveStructure(((0, 2), (1,)), "M52"), known).score < known.score
    assert search.update((known,), wide=False)[0].structure == AdditiveStructure(((0, 2), (1,)), "SE")


def test_structures_that_no_longer_count_are_not_fitted_again() -> None:
    search = StructureSearch(INPUTS, mixed_data())
    fits = [search.fit(AdditiveStructure(groups)) for groups in (((0,), (1,), (2,)), ((0, 1, 2),))]
    best, other = sorted(fits, key=lambda fit: -fit.score)
    assert len(search.refit((best, replace(other, score=best.score - 1.0)))) == 2
    assert len(search.refit((best, replace(other, score=best.score - 20.0)))) == 1


def test_moves_of_a_partition_reach_all_partitions_and_are_legal() -> None:
    start = AdditiveStructure(((0,), (1,), (2,), (3,)))
    seen, front = {start}, [start]
    while front:
        for each in front.pop().neighbours():
            assert sorted(i for group in each.groups for i in group) == [0, 1, 2, 3]
            assert each.groups == sort_groups(each.groups)
            if each not in seen:
                seen.add(each)
                front.append(each)
    assert len(seen) == 15  # the number of partitions of four things


def test_a_group_is_split_in_two_and_an_input_joins_a_single_one() -> None:
    """Without these moves a search ends at (a, b, c, d) where (a, b) + (c, d) is much better."""
    assert AdditiveStructure(((0, 1), (2, 3))) in set(AdditiveStructure(((0, 1, 2, 3),)).neighbours())
    assert AdditiveStructure(((0, 2), (1,))) in set(AdditiveStructure(((0, 1), (2,))).neighbours())


def test_moves_that_touch_different_groups_are_made_together() -> None:
    start = AdditiveStructure(((0,), (1,), (2,), (3,), (4,)))
    moves = [((0, 1), (2,), (3,), (4,)), ((0,), (1, 2), (3,), (4,)), ((0,), (1,), (2,), (3, 4))]
    assert combine([AdditiveStructure(groups) for groups in moves], start) == ((0, 1), (2,), (3, 4))


def test_a_carried_point_is_the_same_kernel_where_the_structure_is() -> None:
    search = StructureSearch(INPUTS, mixed_data())
    fitted = search.fit(AdditiveStructure(((0, 1), (2,))))
    again = fitted.carry(search.pose(fitted.structure))
    np.testing.assert_allclose(again, fitted.point, atol=1e-9)


def test_the_groups_of_a_sum_are_found() -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(120, 4))
    y = np.sin(6.0 * X[:, 0] * X[:, 1]) + np.cos(5.0 * X[:, 2]) + X[:, 3] ** 2
    data = Data(X, (y - y.mean()) / y.std(), free_level=True)
    fits = StructureSearch(tuple((i,) for i in range(4)), data).update(rng=rng)
    groups, probability = weigh_partitions(fits)[0]
    assert groups == ((0, 1), (2,), (3,))
    assert probability > 0.9


# --------------------------------------------------------------------------------------------------------- surrogates


@pytest.mark.parametrize("text", ["SE(0, 1, lengthscale=0.4, variance=1)", "M52(0, lengthscale=0.3, variance=2)"])
def test_slopes_of_mean_and_variance(text: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(25, 2))
    data = Data(X, np.sin(4.0 * X[:, 0]) + X[:, 1], free_level=True)
    model = model_of(text, data, ((0,), (1,)))
    rows, step = rng.uniform(size=(6, 2)), 1e-6
    found, by_mean, by_variance = model.predict_slopes(rows)
    np.testing.assert_allclose(found.mean, model.predict(rows).mean, rtol=1e-9)
    np.testing.assert_allclose(found.variance, model.predict(rows).variance, rtol=1e-6, atol=1e-10)
    for k in range(2):
        high, low = (model.predict(rows + sign * step * np.eye(2)[k]) for sign in (1.0, -1.0))
        np.testing.assert_allclose(by_mean[:, k], (high.mean - low.mean) / (2 * step), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(by_variance[:, k], (high.variance - low.variance) / (2 * step), rtol=1e-3, atol=1e-5)


def test_slopes_of_a_kernel_that_is_not_stationary() -> None:
    X = np.random.default_rng(0).uniform(size=(20, 1))
    model = model_of(
        "LIN(0, variance=1, offset=0.2) + SE(0, lengthscale=0.4, variance=1)", Data(X, X[:, 0] ** 2), ((0,),)
    )
    rows, step = np.array([[0.3], [0.8]]), 1e-5
    _, by_mean, by_variance = model.predict_slopes(rows)
    high, low = model.predict(rows + step), model.predict(rows - step)
    np.testing.assert_allclose(by_mean[:, 0], (high.mean - low.mean) / (2 * step), rtol=1e-4)
    np.testing.assert_allclose(by_variance[:, 0], (high.variance - low.variance) / (2 * step), rtol=1e-3, atol=1e-6)


def test_parts_are_the_summands_that_share_no_input() -> None:
    text = "SE(0, lengthscale=1, variance=1) + SE(2, lengthscale=1, variance=1) + SE(0, 1, lengthscale=1, variance=1)"
    X = np.random.default_rng(0).uniform(size=(10, 3))
    model = model_of(text, Data(X, X.sum(axis=1), free_level=True), ((0,), (1,), (2,)))
    assert sorted(part.inputs for part in model.parts) == [(0, 1), (2,)]
    means = sum(model.predict_part(part, X).mean for part in model.parts)
    np.testing.assert_allclose(means + model.posterior.fitted_level.mean, model.predict(X).mean, atol=1e-8)


def test_a_row_that_is_expected_does_not_change_the_mean() -> None:
    model = model_of(
        "SE(0, lengthscale=0.3, variance=1)", Data(np.array([[0.1], [0.6]]), np.array([0.0, 1.0])), ((0,),)
    )
    row = np.array([[0.4]])
    longer = extend(model, row, model.predict(row).mean)
    at = np.linspace(0, 1, 7)[:, None]
    np.testing.assert_allclose(longer.predict(at).mean, model.predict(at).mean, atol=1e-8)
    assert np.all(longer.predict(at).variance <= model.predict(at).variance + 1e-12)


# ------------------------------------------------------------------------------------------------------- acquisitions


@given(st.floats(-5, 5), st.floats(0.05, 3), st.floats(-3, 3))
def test_log_expected_improvement_is_the_integral(mean: float, spread: float, best: float) -> None:
    if (best - mean) / spread < -6:
        return  # quadrature has no digits left there; the tail has a test of its own
    integral = quad(lambda f: (best - f) * norm.pdf(f, mean, spread), mean - 12 * spread, best, epsabs=0, epsrel=1e-10)[
        0
    ]
    found = log_expected_improvement(np.array([mean]), np.array([spread]), best)[0]
    if integral > 0:
        assert found == pytest.approx(math.log(integral), abs=1e-6)


def test_log_expected_improvement_falls_far_out_as_it_should() -> None:
    u = -np.array([10.0, 50.0, 900.0, 1100.0, 1e5])
    found = log_expected_improvement(-u, np.ones(5), 0.0)
    expected = -0.5 * u**2 - 0.5 * math.log(2 * math.pi) - 2 * np.log(-u)  # phi(u) / u^2, the first term of its series
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    assert np.all(np.diff(found) < 0)


def test_bounds_by_group_are_the_bound_of_the_whole_grid() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(40, 2))
    y = np.sin(7.0 * X[:, 0]) + np.cos(5.0 * X[:, 1])
    model = model_of(
        "SE(0, lengthscale=0.2, variance=1) + SE(1, lengthscale=0.3, variance=1)",
        Data(X, y, free_level=True),
        ((0,), (1,)),
    )
    space = read_space([(0, 1), (0, 1)])
    task = ProposalTask(model, space, X[0], 0.0, rng, AcquisitionPolicy())
    row = bound_by_group(task, [scan_group(task, part) for part in model.parts], beta=0.0)
    axis = np.linspace(0, 1, 201)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    assert model.predict(row[None]).mean[0] <= model.predict(grid).mean.min() + 1e-4


def test_many_trials_are_conditioned_on_by_some_points_and_waiting_ones_are_among_them() -> None:
    data = mixed_data(60)
    text = "SE(0, lengthscale=0.3, variance=1) + SE(4, lengthscale=0.3, variance=1)"
    model = FunctionModel(
        parse(text), Gaussian(1e-3), data, INPUTS, policy=ConditionPolicy(exact_rows=50, inducing=12, candidates=40)
    )
    assert holds_points(model.engine)
    assert len(model.engine.Z) == 12
    more = extend(model, mixed_rows(2, seed=1), np.zeros(2))
    assert holds_points(more.engine)
    np.testing.assert_array_equal(more.engine.Z[-2:], mixed_rows(2, seed=1))


def test_many_trials_are_conditioned_on_where_the_kernel_has_any_constant_already() -> None:
    """A variance far above the noise leaves nothing but rounding of what the level would be read off."""
    kernel = parse(" + ".join(f"SE({i}, lengthscale=1.1, variance=1e5)" for i in range(10)))
    inputs = tuple((i,) for i in range(10))
    for seed in range(8):  # what is left may have any sign
        X = np.random.default_rng(seed).uniform(size=(1200, 10))
        y = (X**4 - X**2).sum(axis=1)
        data = Data(X, (y - y.mean()) / y.std(), free_level=True)
        model = FunctionModel(kernel, Gaussian(1e-8), data, inputs)
        assert holds_points(model.engine)
        np.testing.assert_allclose(model.predict(X).mean, data.y, atol=1e-2)


def test_the_search_of_a_new_study_with_many_trials_goes_on_with_the_next_ones() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(82, 3))
    y = np.sin(5.0 * X[:, 0] * X[:, 1]) + X[:, 2] ** 2
    first = StructureModel(((0,), (1,), (2,)), UpdatePolicy(patient=50, step_rows=(30, 40)))
    belief, stages = first, []
    for count in range(70, 82):
        belief = belief.update(X[:count], y[:count], rng)
        assert belief.plain is not None
        stages.append(belief.plain.stage)
        again = first.take_up(json.loads(json.dumps(belief.to_plain())))
        assert again.plain is not None
        assert again.plain.stage == belief.plain.stage
    assert stages[0] == 0
    assert {0, 1} < set(stages)
    assert stages[-1] is None
    assert belief.partitions[0][0] == ((0, 1), (2,))
    damaged = belief.to_plain()
    assert damaged is not None
    damaged["plain"]["stage"] = 2
    with pytest.raises(ValueError, match="no such stage"):
        first.take_up(damaged)


# ------------------------------------------------------------------------------------------------------------- scales


@given(st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=30, unique=True), st.sampled_from(["identity", "log"]))
def test_targets_come_back(values: list[float], scale: str) -> None:
    y = np.array(values)
    target = Target.of(y, scale, UpdatePolicy())  # type: ignore[arg-type]
    np.testing.assert_allclose(target.backward(target.forward(y)), y, rtol=1e-6, atol=1e-6 * np.ptp(y))
    beyond = y.min() - 0.5 * np.ptp(y)
    assert target.forward(np.array([beyond]))[0] < target.forward(y).min()
    assert target.backward(target.forward(np.array([beyond])))[0] == pytest.approx(beyond, rel=1e-6)


def test_the_best_rows_are_among_those_fitted_to() -> None:
    y = np.random.default_rng(0).normal(size=1000)
    rows = choose_rows(y, 100, np.random.default_rng(1))
    assert len(set(rows)) == 100
    assert set(np.argsort(y)[:50]) <= set(rows)


def test_the_logarithm_is_used_where_it_predicts_better() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 1))
    model = StructureModel(((0,),))
    steep, plain = np.exp(14.0 * (X[:, 0] - 0.3) ** 2), np.sin(6.0 * X[:, 0])
    chosen = []
    for y in (steep, plain):
        belief = model
        for count in range(12, 40, 4):
            belief = belief.update(X[:count], y[:count], np.random.default_rng(0))
        chosen.append(belief.chosen.target.scale)
    assert chosen == ["log", "identity"]


def test_structures_are_compared_on_some_rows_and_fitted_to_more() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(90, 2))
    policy = UpdatePolicy(searched_rows=30, fitted_rows=60)
    found = StructureModel(((0,), (1,)), policy).update(X, np.sin(6.0 * X[:, 0]) + X[:, 1], rng)
    assert found.plain is not None
    assert {fit.problem.data.count for fit in found.plain.fits} == {60}
    assert found.partitions[0][0] == ((0,), (1,))


def test_what_acts_together_is_said_of_the_values_as_they_are() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(20, 1))
    found = replace(StructureModel(((0,),)).update(X, np.sin(6.0 * X[:, 0]), rng), recent=(10.0,))
    assert found.target.scale == "log"
    assert found.on_values().target.scale == "identity"


# -------------------------------------------------------------------------------------------------------------- gains


@pytest.mark.parametrize("count", [20, 100, 400])
def test_a_record_that_falls_with_the_logarithm_goes_on_so(count: int) -> None:
    y = 3.0 - 2.0 * np.log(np.arange(1, count + 1))
    assert extrapolate_record(y) == pytest.approx(2.0 * math.log(1.0 + 100.0 / count))
    y[count // 3 :] = y.max()
    assert extrapolate_record(y) == 0.0


def test_a_model_that_saw_too_much_in_hindsight_is_believed_less() -> None:
    """The best fell by nothing since the first trial: what the model sees now counts for an eleventh."""
    rng = np.random.default_rng(0)
    space, X = read_space([(0, 1)] * 2), rng.uniform(size=(30, 2))
    y = np.append(0.0, 1.0 + rng.uniform(size=29))
    model = LearnedModel(((0,), (1,)), parse("SE(0, 1)"), expression=parse("SE(0, 1, variance=4, lengthscale=0.1)"))
    seen = see_gain(model, space, X, y, np.random.default_rng(0))
    assert seen > 0.0
    assert expect_gain(model, space, X, y, np.random.default_rng(0)) == pytest.approx(seen / 11.0)


# --------------------------------------------------------------------------------------------------------- all of it


def test_a_sum_of_six_inputs_is_minimised_and_its_groups_are_found() -> None:
    result = mercer.minimize(
        lambda x: float(np.sum(x**4 - 16.0 * x**2 + 5.0 * x) / 2.0), [(-4, 4)] * 6, calls=70, random_state=0
    )
    assert result.fun < 6 * -39.0
    assert result.optimizer.partitions_[0][0] == tuple((i,) for i in range(6))
    assert result.nfev == len(result.x_iters) == len(result.func_vals) == 70
    assert result.fun == min(result.func_vals)


def test_the_same_seed_gives_the_same_trials() -> None:
    runs = [
        mercer.minimize(lambda x: float(x[0] ** 2 + x[1]), [(-1, 1), (0, 1)], calls=16, random_state=4) for _ in "ab"
    ]
    np.testing.assert_array_equal(np.array(runs[0].x_iters), np.array(runs[1].x_iters))
