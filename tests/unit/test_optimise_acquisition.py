"""Ways to choose the next trial: what each looks for, group by group or jointly, and the reason that it gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint

import mercer
from mercer.inference.contract import Data
from mercer.inference.likelihood import Gaussian
from mercer.kernels import parse
from mercer.optimise.acquisition import ACQUISITIONS, _choose_new, find_acquisition
from mercer.optimise.groups import sample_by_group, scan_group
from mercer.optimise.joint import bound_below, expect_improvement, maximise, sample_jointly, value_rows
from mercer.optimise.proposal import AcquisitionPolicy, ProposalTask
from mercer.optimise.space import read_space
from mercer.optimise.surrogate import FunctionModel

SUM = "SE(0, lengthscale=0.2, variance=1) + SE(1, lengthscale=0.3, variance=1)"


def pose(text: str = SUM, count: int = 6, width: int = 2, constraints: LinearConstraint | None = None) -> ProposalTask:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(count, width))
    y = np.sin(7.0 * X[:, 0]) + np.cos(5.0 * X[:, 1])
    inputs = tuple((i,) for i in range(width))
    model = FunctionModel(parse(text), Gaussian(1e-4), Data(X, y), inputs)
    space = read_space([(0, 1)] * width, constraints)
    return ProposalTask(model, space, X[np.argmin(y)], float(y.min()), rng, AcquisitionPolicy())


@pytest.mark.parametrize("of_part", [False, True])
def test_samples_have_the_mean_and_covariance_of_the_posterior(of_part: bool) -> None:
    model = pose().surrogate
    rows = np.random.default_rng(1).uniform(size=(5, 2))
    drawn = model.sample(rows, 40_000, np.random.default_rng(2), model.parts[1] if of_part else None)
    whole = parse(SUM)
    part = parse("SE(1, lengthscale=0.3, variance=1)") if of_part else whole
    X = model.data.X
    solved = np.linalg.solve(whole(X) + 1e-4 * np.eye(len(X)), np.column_stack([model.data.y, part(X, rows)]))
    cross = part(rows, X)
    assert drawn is not None
    np.testing.assert_allclose(drawn.mean(axis=1), cross @ solved[:, 0], atol=0.03)
    np.testing.assert_allclose(np.cov(drawn), part(rows) - cross @ solved[:, 1:], atol=0.03)


def test_where_all_is_known_a_sample_by_group_is_least_at_the_minimum() -> None:
    task = pose(count=120)
    row = sample_by_group(task, [scan_group(task, part) for part in task.surrogate.parts])
    axis = np.linspace(0, 1, 101)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    assert task.surrogate.predict(row[None]).mean[0] < task.surrogate.predict(grid).mean.min() + 0.01


def test_samples_by_group_differ_where_little_is_known() -> None:
    task = pose(count=3)
    scans = [scan_group(task, part) for part in task.surrogate.parts]
    drawn = np.array([sample_by_group(task, scans) for _ in range(12)])
    assert (np.ptp(drawn, axis=0) > 0.2).all()


def test_a_joint_sample_is_allowed_and_likely_low() -> None:
    task = pose("SE(0, 1, lengthscale=0.3, variance=1)", 40, 2, LinearConstraint([[1.0, 1.0]], -np.inf, 0.9))
    rows = np.array([sample_jointly(task) for _ in range(5)])
    assert (rows.sum(axis=1) <= 0.9 + 1e-9).all()
    everywhere = task.surrogate.predict(task.space.sample(300, np.random.default_rng(3))).mean
    assert task.surrogate.predict(rows).mean.max() < np.quantile(everywhere, 0.1)


@given(st.floats(-3, 3), st.floats(0.05, 3), st.sampled_from([expect_improvement(0.3), bound_below(1.7)]))
def test_slopes_of_criteria(mean: float, spread: float, criterion: object) -> None:
    def value(m: float, s: float) -> float:
        return float(criterion(np.array([m]), np.array([s]))[0][0])  # type: ignore[operator]

    _, by_mean, by_spread = criterion(np.array([mean]), np.array([spread]))  # type: ignore[operator]
    step = 1e-6
    assert by_mean[0] == pytest.approx(
        (value(mean + step, spread) - value(mean - step, spread)) / 2e-6, rel=1e-4, abs=1e-8
    )
    assert by_spread[0] == pytest.approx(
        (value(mean, spread + step) - value(mean, spread - step)) / 2e-6, rel=1e-4, abs=1e-8
    )


@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_the_joint_bound_is_that_of_a_grid(beta: float) -> None:
    task = pose("SE(0, 1, lengthscale=0.3, variance=1)", 12)
    axis = np.linspace(0, 1, 101)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)

    def bound(rows: np.ndarray) -> np.ndarray:
        found = task.surrogate.predict(rows)
        return found.mean - beta * np.sqrt(found.variance)

    assert bound(maximise(task, bound_below(beta))[None])[0] <= bound(grid).min() + 1e-4


FOUR = "SE(0, 1, 2, 3, lengthscale=0.5, variance=1)"
TIE = LinearConstraint([[1.0, 1.0]], -np.inf, 1.5)
WAYS = [
    ("bound", pose(), "bounds by group", "groups are small"),
    ("thompson", pose(), "samples by group", "groups are small"),
    ("improvement", pose(), "expected improvement", "not separable"),
    ("auto", pose(), "bounds by group", "groups are small"),
    ("bound", pose(FOUR, 8, 4), "bound", "a group is large"),
    ("thompson", pose(FOUR, 8, 4), "sample", "a group is large"),
    ("auto", pose(FOUR, 8, 4), "expected improvement", "a group is large"),
    ("bound", pose(constraints=TIE), "bound", "constraints tie groups"),
    ("thompson", pose(constraints=TIE), "sample", "constraints tie groups"),
    ("auto", pose(constraints=TIE), "expected improvement", "constraints tie groups"),
]


@pytest.mark.parametrize(("name", "task", "method", "why"), WAYS)
def test_each_way_says_how_and_why(name: str, task: ProposalTask, method: str, why: str) -> None:
    found = ACQUISITIONS[name].propose(task)
    assert (found.method, found.why) == (method, why)
    assert task.is_new(found.row)
    assert task.space.allows(found.row).all()


def test_an_acquisition_that_there_is_not_is_a_sentence() -> None:
    for wrong in ("ucb", None, 3):
        with pytest.raises(mercer.InputError, match=r"'auto', 'improvement', 'thompson', 'bound', not"):
            find_acquisition(wrong)
    with pytest.raises(mercer.InputError, match="acquisition must be"):
        mercer.minimize(lambda x: x[0], [(0, 1)], calls=3, acquisition="ei")


def test_the_choice_is_kept_and_its_reason_can_be_read(tmp_path: Path) -> None:
    result = mercer.minimize(
        lambda x: float((x[0] - 0.3) ** 2 + x[1]), [(0, 1)] * 2, calls=12, random_state=0, acquisition="thompson"
    )
    optimizer = result.optimizer
    optimizer.ask()
    assert "function drawn" in optimizer.suggestions_[0].reason
    said = " ".join(str(optimizer.explain()).split())
    assert "(acquisition 'thompson'): the minimum of a function drawn" in said
    assert ", because the function is taken as a sum over groups of at most three inputs" in said
    plain = optimizer.explain().to_json()
    assert plain["acquisition"] == "thompson"
    assert plain["suggestions"][0]["why"] == "groups are small"
    optimizer.save(tmp_path / "study")
    again = mercer.load(tmp_path / "study")
    assert again.acquisition == "thompson"
    assert again.suggestions_[0].reason == optimizer.suggestions_[0].reason
    np.testing.assert_array_equal(again.ask(), optimizer.ask())


def test_trials_at_the_same_time_are_no_hopeless_places_once_nearly_all_is_known() -> None:
    """A sum that is known to a few digits: all places of a batch are near its minimum, and differ."""
    rows = np.random.default_rng(2).random((14, 2))
    values = (rows[:, 0] - 0.3) ** 2 + (rows[:, 1] - 0.6) ** 2
    optimizer = mercer.Optimizer([(0, 1)] * 2, random_state=0)
    optimizer.tell(np.vstack([rows, [[0.3, 0.6]]]), [*values, 0.0])
    optimizer.ask(6)
    assert all(each.mean is not None and each.mean < 0.05 * np.median(values) for each in optimizer.suggestions_)
    points = np.array([each.x for each in optimizer.suggestions_])
    assert len(np.unique(points, axis=0)) == 6


def test_where_a_proposal_has_been_tried_the_best_of_other_rows_is_proposed() -> None:
    task = pose(count=12)
    row = task.tried_rows[0]
    found = _choose_new(task, row)
    assert task.is_new(found.row)
    others = task.space.sample(20, np.random.default_rng(0))
    gains = value_rows(task, expect_improvement(task.best_value), np.vstack([found.row, others]))
    assert gains[0] == gains.max()
