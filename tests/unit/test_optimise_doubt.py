"""Trials for another structure, once the one that is believed promises nothing more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mercer
from mercer.kernels import parse
from mercer.optimise.doubt import DoubtPolicy, fill_valley, find_valley, is_spent, promises_nothing
from mercer.optimise.models import LearnedModel, StructureModel, Target
from mercer.optimise.proposal import AcquisitionPolicy, Proposal, ProposalTask
from mercer.optimise.space import read_space

POLICY = DoubtPolicy()
DOUBTED = "the structure is doubted"


def compute(x: np.ndarray) -> float:
    """Two waves in each input: many valleys, and the best one near (0.3, 0.6)."""
    return float(np.cos(15.0 * (x[0] - 0.3 + np.pi / 15.0)) + np.cos(12.0 * (x[1] - 0.6 + np.pi / 12.0)) + 0.2 * x[0])


def spend(acquisition: str = "auto", kernel: str = "auto") -> mercer.Optimizer:
    """Return a study that knows a sum well, and whose last trials gained nothing."""
    optimizer = mercer.Optimizer([(0, 1)] * 2, kernel=kernel, random_state=0, acquisition=acquisition)
    low = np.array([[0.299, 0.6]])
    X = np.vstack([np.random.default_rng(0).uniform(size=(30, 2)), low, np.random.default_rng(1).uniform(size=(20, 2))])
    optimizer.tell(X, [compute(x) for x in X])
    return optimizer


@given(st.integers(1, 20), st.integers(0, 30), st.floats(0.0, 10.0))
def test_trials_are_spent_when_a_stretch_of_them_gained_nothing_that_counts(
    inputs: int, more: int, gain: float
) -> None:
    first = np.random.default_rng(0).normal(size=POLICY.first)
    stretch = max(POLICY.fewest, POLICY.patience * inputs)
    last = np.full(stretch + more, first.min())
    last[-1] -= gain * POLICY.counts * first.std()
    assert is_spent(np.append(first, last), inputs, POLICY) == (gain <= 1.0 + 1e-9) or abs(gain - 1.0) < 1e-9
    assert not is_spent(np.append(first, last[: stretch - 1]), inputs, POLICY)


def pose(count: int = 12) -> tuple[ProposalTask, Target]:
    X = np.random.default_rng(0).uniform(size=(count, 2))
    y = np.array([compute(x) for x in X])
    model = StructureModel(((0,), (1,))).update(X, y, np.random.default_rng(0))
    known = model.draw(X, y, None)
    best = int(np.argmin(y))
    value = float(known.predict(X[best : best + 1]).mean[0])
    space = read_space([(0, 1)] * 2)
    return ProposalTask(known, space, X[best], value, np.random.default_rng(0), AcquisitionPolicy()), model.target


def test_a_proposal_promises_something_where_it_is_better_or_not_known() -> None:
    task, target = pose()
    row, best = np.array([0.5, 0.5]), task.best_value
    assert promises_nothing(task, Proposal(row, "bound", best, 1e-5), target, 1e-4)
    assert promises_nothing(task, Proposal(row, "bound", best + 5.0, 0.0), target, 1e-4)
    assert not promises_nothing(task, Proposal(row, "bound", best - 0.1, 1e-5), target, 1e-4)
    assert not promises_nothing(task, Proposal(row, "bound", best + 0.1, 1.0), target, 1e-4)


@given(st.integers(0, 1000))
def test_the_valley_of_the_best_is_where_nearest_better_trials_lead(seed: int) -> None:
    """Two valleys of one input, far from each other: every trial of the first is inside, none of the second."""
    rng = np.random.default_rng(seed)
    x = np.sort(np.concatenate([rng.uniform(0.0, 0.3, 15), rng.uniform(0.7, 1.0, 15)]))
    y = np.where(x < 0.5, (x - 0.15) ** 2 - 1.0, (x - 0.85) ** 2)
    alike = np.exp(-np.abs(x[:, None] - x) / 0.4)
    np.testing.assert_array_equal(find_valley(alike, y, 0.4), x < 0.5)
    assert find_valley(alike, y, 0.0).all()
    assert find_valley(alike, y, 1.1).tolist() == (y == y.min()).tolist()


def test_a_filled_valley_is_no_longer_the_best() -> None:
    rng = np.random.default_rng(0)
    X = np.vstack([rng.uniform(size=(15, 2)), 0.25 + 0.05 * rng.standard_normal((15, 2))])
    y = -np.exp(-40.0 * ((X - 0.25) ** 2).sum(axis=1)) - 0.5 * np.exp(-40.0 * ((X - 0.75) ** 2).sum(axis=1))
    model = StructureModel(((0,), (1,))).update(X, y, rng)
    filled = fill_valley(model, X, y, POLICY)
    assert filled is not None
    assert (filled >= y).all()
    assert (filled == y).sum() >= POLICY.outside
    assert np.abs(X[np.argmin(filled)] - 0.25).max() > 0.1
    assert fill_valley(model, X, y, replace(POLICY, alike=0.0)) is None
    assert fill_valley(LearnedModel(((0,), (1,)), parse("SE")), X, y, POLICY) is None


def test_a_joint_surrogate_has_one_kernel_on_all_inputs() -> None:
    X = np.random.default_rng(0).uniform(size=(25, 3))
    y = np.sin(6.0 * X[:, 0]) + X[:, 1] + X[:, 2] ** 2
    model = StructureModel(((0,), (1,), (2,))).update(X, y, np.random.default_rng(0))
    assert len(model.partitions[0][0]) == 3
    belief = model.join(X, y)
    joint = belief.draw(X, y, None)
    assert [part.inputs for part in joint.parts] == [(0, 1, 2)]
    np.testing.assert_allclose(joint.predict(X).mean, belief.target.forward(y), atol=0.1)
    far = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    assert (joint.predict(far).variance > model.draw(X, y, None).predict(far).variance).all()


def test_every_second_trial_doubts_a_structure_that_promises_nothing() -> None:
    optimizer, whys = spend(), []
    for _ in range(6):
        x = optimizer.ask()
        whys.append(optimizer.suggestions_[0].why == DOUBTED)
        if whys[-1]:
            assert "because the structure is doubted" in optimizer.suggestions_[0].reason
        optimizer.tell(x, compute(x))
    assert whys == [index % 2 == 1 for index in range(6)]


@pytest.mark.parametrize(("acquisition", "kernel"), [("bound", "auto"), ("auto", "SE(0) + SE(1)")])
def test_what_was_asked_for_is_not_doubted(acquisition: str, kernel: str) -> None:
    optimizer = spend(acquisition, kernel)
    optimizer.ask(2)
    assert all(each.why != DOUBTED for each in optimizer.suggestions_)


def test_a_structure_has_its_turn_again_after_a_gain() -> None:
    optimizer = spend()
    optimizer.tell([0.31, 0.61], -4.0)
    optimizer.ask(2)
    assert all(each.why != DOUBTED for each in optimizer.suggestions_)


def test_a_saved_study_goes_on_doubting(tmp_path: Path) -> None:
    optimizer = spend()
    optimizer.ask(2)
    assert [each.why for each in optimizer.suggestions_].count(DOUBTED) == 1
    optimizer.save(tmp_path / "study")
    again = mercer.load(tmp_path / "study")
    assert [each.reason for each in again.suggestions_] == [each.reason for each in optimizer.suggestions_]
    np.testing.assert_array_equal(again.ask(2), optimizer.ask(2))
