"""Descent by curvature: the information is what its formula says, steps stay in their box, and descents go down."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from mercer.compute import fused
from mercer.compute.accelerator import TorchBackend
from mercer.compute.fused import gram
from mercer.fitting.minimise import minimise, starting_points
from mercer.fitting.newton import DescentPolicy, descend, solve_in_box
from mercer.fitting.problem import FitOptions, Problem, prepare
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.kernels import bind, parse

PAST = 1.0  # by `time.time()`


def season(free_level: bool = True, rows: int = 60) -> Data:
    rng = np.random.default_rng(0)
    x = np.linspace(-1.7, 1.7, rows)
    y = np.sin(2 * np.pi * x / 0.5) + 0.6 * x + 0.1 * rng.standard_normal(rows)
    return Data(x[:, None], (y - y.mean()) / y.std(), free_level)


def problem(text: str = "SE * PER + LIN", **options: object) -> Problem:
    return prepare(bind(parse(text), 1), season(), Exact(), FitOptions(**options))  # type: ignore[arg-type]


def slow_information(task: Problem, point: np.ndarray) -> np.ndarray:
    """v_i' A^-1 v_j / 2 with v_i = dA a by central differences and dense matrices."""
    data = task.data

    def covariance(at: np.ndarray) -> np.ndarray:
        values, likelihood = task.split(at)
        return gram(task.program, values, data.X) + likelihood.noise * np.eye(data.count)

    inverse, ones = np.linalg.inv(covariance(point)), np.ones(data.count)
    level = ones @ inverse @ data.y / (ones @ inverse @ ones)
    alpha = inverse @ (data.y - level)
    steps = 1e-5 * np.eye(len(point))
    along = np.stack([(covariance(point + step) - covariance(point - step)) @ alpha / 2e-5 for step in steps])
    return 0.5 * along @ inverse @ along.T


@pytest.mark.parametrize("engine", [Exact(), Exact(TorchBackend("cpu:0"))])
def test_information_is_what_its_formula_says(engine: Exact) -> None:
    task = prepare(bind(parse("SE * PER + LIN"), 1), season(), engine, FitOptions())
    (point, *_), _ = starting_points(task, FitOptions(restarts=1))
    assert_allclose(task.information(point), slow_information(task, point), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("text", ["(SE + PER) * LIN + RQ", "CPER * M12 + C + LIN", "RW + IRW + COS * SE"])
def test_uneven_rows_have_all_slopes_from_one_sweep(text: str) -> None:
    even = season()
    data = Data(np.sort(np.random.default_rng(1).uniform(-1.7, 1.7, even.count))[:, None], even.y, True)
    task = prepare(bind(parse(text), 1), data, Exact(), FitOptions())
    (point, *_), _ = starting_points(task, FitOptions(restarts=1))
    values, _ = task.split(point)
    found = fused.slopes(task.program, values, data.at, data.y)
    for number in range(len(values)):
        step = 1e-6 * max(1.0, abs(values[number])) * np.eye(len(values))[number]
        up, down = (gram(task.program, values + side * step, data.X) @ data.y for side in (1.0, -1.0))
        assert_allclose(found[:, number], (up - down) / (2.0 * step[number]), rtol=1e-4, atol=1e-4)
    assert_allclose(task.information(point), slow_information(task, point), rtol=1e-3, atol=1e-3)


def test_a_known_noise_has_no_row_and_a_prior_adds_to_the_diagonal() -> None:
    free, known, held = problem(), problem(noise=0.1), problem(priors=True)
    (point, *_), _ = starting_points(free, FitOptions(restarts=1))
    point[-1] = np.log(0.1)
    whole = free.information(point)
    assert whole is not None
    assert held.prior is not None
    assert_allclose(known.information(point[:-1]), whole[:-1, :-1], atol=1e-8)
    assert_allclose(held.information(point), whole + np.diag(held.prior.spread**-2.0), atol=1e-8)


@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_steps_stay_in_their_box_and_promise_something(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(size, size))
    curvature, slope = root @ root.T + 0.1 * np.eye(size), rng.normal(size=size)
    low, high = -rng.exponential(size=size), rng.exponential(size=size)
    low[0] = 0.0  # at its bound
    step = solve_in_box(slope, curvature, low, high)
    assert np.all(step >= low)
    assert np.all(step <= high)
    promised = -(slope @ step + 0.5 * step @ curvature @ step)
    movable = np.where(slope > 0, low, high) != 0.0
    assert promised > 0 if movable.any() else not step.any()
    far = np.full(size, 1e6)
    assert_allclose(solve_in_box(slope, curvature, -far, far), -np.linalg.solve(curvature, slope), atol=1e-8)


def test_it_ends_where_lbfgs_does_in_far_fewer_evaluations() -> None:
    task = problem()
    points, _ = starting_points(task, FitOptions(restarts=2))
    slow, quick = minimise(task, points, 200), descend(task, points, 50)
    assert min(run.value for run in quick) < min(run.value for run in slow) + 0.01
    assert sum(run.evaluations for run in quick) < 0.6 * sum(run.evaluations for run in slow)
    for run in quick:
        assert run.converged
        assert run.value == pytest.approx(task.loss(run.point)[0])
        assert np.all((run.point >= task.bounds[:, 0]) & (run.point <= task.bounds[:, 1]))


def test_more_steps_are_never_worse_and_it_goes_on_where_it_stopped() -> None:
    task = problem()
    points, _ = starting_points(task, FitOptions(restarts=1))
    values = [descend(task, points, steps)[0].value for steps in (0, 1, 3, 9)]
    assert values == sorted(values, reverse=True)
    (short,) = descend(task, points, 3)
    assert descend(task, [short.point], 20)[0].value <= short.value


def test_with_its_memory_it_goes_on_as_if_it_had_never_stopped() -> None:
    task = problem()
    points, _ = starting_points(task, FitOptions(restarts=2))
    whole = descend(task, points, 9)
    first = descend(task, points, 4)
    rest = descend(task, [run.point for run in first], 5, memories=[run.memory for run in first])
    for run, begun, ended in zip(whole, first, rest, strict=True):
        assert begun.memory is not None
        assert begun.hope > 0.0
        assert run.value == ended.value
        assert run.evaluations == begun.evaluations + ended.evaluations
        assert np.array_equal(run.point, ended.point)


def test_one_evaluation_comes_when_the_time_is_spent() -> None:
    task = problem()
    points, _ = starting_points(task, FitOptions(restarts=3))
    (run,) = descend(task, points, 50, until=PAST)
    assert run.out_of_time
    assert run.evaluations == 1


def test_kernels_of_many_numbers_are_left_to_lbfgs() -> None:
    task = problem("SE")
    points, _ = starting_points(task, FitOptions(restarts=1))
    (run,) = descend(task, points, 50, policy=DescentPolicy(most_numbers=2))
    assert run.trail is not None
