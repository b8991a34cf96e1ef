"""A run in several goes takes the steps of a run without stops, and evaluates nothing twice."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mercer.fitting.minimise import minimise, starting_points
from mercer.fitting.periods import in_turn
from mercer.fitting.problem import Evaluations, FitOptions, Problem, Run, Trail, prepare
from mercer.inference.contract import Data, Evidence
from mercer.inference.exact import Exact
from mercer.kernels import PER, SE, bind
from mercer.learners.trials import Attempt, Journal


class Counting(Exact):
    """Exact inference that counts."""

    asked = 0

    def evidence(self, *arguments: object) -> Evidence:
        """Count, and answer."""
        type(self).asked += 1
        return super().evidence(*arguments)  # type: ignore[arg-type]


@pytest.fixture
def problem() -> Problem:
    X = np.linspace(0.0, 1.0, 60)[:, None]
    y = np.sin(20.0 * X[:, 0]) + X[:, 0] + 0.1 * np.random.default_rng(0).normal(size=60)
    Counting.asked = 0
    return prepare(bind(SE() * PER() + SE(), 1), Data(X, y), Counting(), FitOptions())


def optimise(problem: Problem, start: np.ndarray, iterations: int, trail: Trail | None = None) -> Run:
    return minimise(problem, [start], iterations, [Evaluations(trail)])[0]


def test_rungs_end_where_one_run_does(problem: Problem) -> None:
    (start, *_), _ = starting_points(problem, FitOptions(restarts=1))
    at_once = optimise(problem, start, 60)
    needed, Counting.asked = Counting.asked, 0
    run = optimise(problem, start, 5)
    for iterations in (9, 25, 60):
        run = optimise(problem, start, iterations, run.trail)
    assert_array_equal(run.point, at_once.point)
    assert run.value == at_once.value
    assert run.evaluations == at_once.evaluations
    assert Counting.asked == needed


def test_a_run_begun_anew_where_it_stopped_goes_another_way(problem: Problem) -> None:
    (start, *_), _ = starting_points(problem, FitOptions(restarts=1))
    first = optimise(problem, start, 5)
    assert optimise(problem, first.point, 4).value != optimise(problem, start, 9, first.trail).value


def test_a_trail_that_leads_elsewhere_is_given_up() -> None:
    trail = Trail(np.array([[0.0], [1.0], [2.0]]), np.array([5.0, 4.0, 3.0]), np.zeros((3, 1)))
    record = Evaluations(trail)
    assert record.find(np.array([0.0]))[0] == 5.0  # type: ignore[index]
    assert record.find(np.array([1.5])) is None
    record.note(np.array([1.5]), 3.5, np.ones(1))
    assert record.find(np.array([2.0])) is None
    assert_array_equal(record.trail().points, [[0.0], [1.5]])
    assert record.trail().best[1] == 3.5


def test_a_journal_keeps_trails_to_the_last_bit(problem: Problem, tmp_path: object) -> None:
    (start, *_), _ = starting_points(problem, FitOptions(restarts=1))
    run = optimise(problem, start, 5)
    Journal(str(tmp_path), "x").put((1, 0, "SE"), Attempt((run,), 0, 0.0))
    read = Journal(str(tmp_path), "x").find({0: (1, 0, "SE")})[0]
    assert read.runs[0].trail is not None
    for kept, old in zip(read.runs[0].trail, run.trail or (), strict=True):
        assert_array_equal(kept, old)


def test_periods_in_turn() -> None:
    assert in_turn(np.array([1.0, 2.0, 3.0]), np.array([9.0, 1.0])).tolist() == [1.0, 9.0, 2.0, 3.0]
    assert in_turn(np.empty(0), np.array([9.0])).tolist() == [9.0]
