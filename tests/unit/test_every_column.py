"""Searches on several columns begin with kernels on all of them, and end when their time does."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import first_answers
from benchmarks.machine import describe
from hypothesis import given, settings
from hypothesis import strategies as st

import mercer
from mercer.fitting.minimise import Clock, OutOfTimeError, fit, minimise
from mercer.fitting.problem import Evaluations, FitOptions, Problem, prepare
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.inference.vfe import VFE
from mercer.kernels import bind, parse
from mercer.kernels.algebra import structure
from mercer.learners.contract import (
    Context,
    Learned,
    draw_some,
    draw_with_neighbours,
    find_repeated,
    learned_alone,
)
from mercer.learners.every_column import EveryColumnPolicy, kernel_on_each_column, kernels_on_every_column
from mercer.learners.grammar import GrammarSearch, SearchPolicy
from mercer.learners.intervals import IntervalPolicy
from mercer.learners.many_rows import AllRows, ManyRowsPolicy, fit_to_all
from mercer.learners.racing import RacePolicy
from tests.policies import regressor_with

PAST = 0.0  # by time.time(): long ago


def made(rows: int = 60, columns: int = 3, seed: int = 0) -> Data:
    """Two columns that act together, one for a curve of its own, others for nothing."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.7, 1.7, size=(rows, columns))
    y = X[:, 0] * X[:, 1] + np.sin(2.0 * X[:, 2]) + 0.05 * rng.standard_normal(rows)
    return Data(X, (y - y.mean()) / y.std(), free_level=True)


def learned(data: Data, policies: tuple[Any, ...] = (), **settings: Any) -> Learned:
    context = Context(data, Exact(), list(range(data.X.shape[1])), policies=policies)
    return GrammarSearch(**{"bases": ("SE", "LIN"), "restarts": 1, "max_depth": 0, **settings}).learn(context)


def test_kernels_on_every_column_are_those_that_can_be() -> None:
    kernels = kernels_on_every_column(("PER", "LIN", "SE", "C", "M12"), [0, 2])
    assert [kernel.text() for kernel in kernels] == ["SE(0, 2)", "M12(0, 2)", "LIN(0, 2)"]
    added = kernel_on_each_column(("PER", "M12", "SE"), [0, 2])
    assert added is not None
    assert added.text() == "M12(0) + M12(2)"
    assert kernel_on_each_column(("PER", "LIN"), [0, 2]) is None


def test_a_search_on_several_columns_begins_with_all_of_them() -> None:
    found = learned(made())
    steps = [(c.step.kind, str(structure(c.expression))) for c in found.candidates]
    assert steps[:3] == [
        ("every column", "SE(0, 1, 2)"), ("every column", "LIN(0, 1, 2)"), ("each column", "SE(0) + SE(1) + SE(2)"),
    ]  # fmt: skip
    assert {kind for kind, _ in steps[3:]} == {"base"}
    assert found.candidates[0].step.text(["a", "b", "c"]) == "every column at once: SE(a, b, c)"
    assert str(structure(found.fit.expression)) == "SE(0, 1, 2)"  # nothing of one column comes near


def test_columns_that_do_not_matter_are_left_out_of_it() -> None:
    found = learned(made(columns=5), max_depth=1, operators="r")
    fewer = [c for c in found.candidates if c.step.kind == "fewer columns"]
    assert all(c.parent is not None and c.depth == 1 for c in fewer)
    best = min(fewer, key=lambda c: c.score)
    assert {d for leaf in best.expression.leaves() for d in leaf.columns} == {0, 1, 2}
    assert best.score < found.candidates[0].score


def test_a_weak_column_is_not_left_out_with_those_that_do_nothing() -> None:
    rng = np.random.default_rng(4)
    X = rng.uniform(-1.7, 1.7, size=(150, 9))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.2 * X[:, 2] + 0.4 * rng.standard_normal(150)
    found = learned(Data(X, (y - y.mean()) / y.std(), free_level=True), bases=("SE",), max_depth=1, operators="r")
    fewer = [c for c in found.candidates if c.step.kind == "fewer columns" and c.fit is not None]
    best = min(fewer, key=lambda c: c.score)
    assert str(structure(best.expression)) == "SE(0, 1, 2)"


def test_one_column_begins_as_ever() -> None:
    x = np.linspace(-1.7, 1.7, 40)
    found = learned(Data(x[:, None], np.sin(3.0 * x)))
    assert {c.step.kind for c in found.candidates} <= {"base", "jump"}


@pytest.mark.parametrize("rows", [60, 500])  # fewer and more than can be fitted at once
def test_a_search_stopped_at_once_has_the_kernel_on_every_column(rows: int) -> None:
    found = learned(made(rows), time_budget=1e-6)
    assert found.stopped == "time"
    assert [str(structure(c.expression)) for c in found.candidates] == ["SE(0, 1, 2)"]
    assert any("only kernels on every column at once could be fitted" in note for note in found.notes)
    assert found.fit.rows == rows


def test_the_first_rungs_are_on_some_of_many_rows() -> None:
    policy = EveryColumnPolicy()
    assert [rung.sample for rung in policy.rungs(400, 450, 200)] == [None]
    assert [rung.sample for rung in policy.rungs(900, 450, 200)] == [300, None]
    assert [rung.sample for rung in policy.rungs(3000, 450, 200)] == [300, 1000, None]
    few = (RacePolicy(many_rows=50, sample=30), EveryColumnPolicy(some=30, nearer=60))
    found = learned(made(200), few)
    assert found.fit.rows == 200
    assert str(structure(found.fit.expression)) == "SE(0, 1, 2)"


def test_what_grows_from_one_column_may_win() -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(-1.7, 1.7, size=(80, 4))
    y = np.sin(3.0 * X[:, 1]) + 0.05 * rng.standard_normal(80)
    found = learned(Data(X, (y - y.mean()) / y.std(), free_level=True))
    assert str(structure(found.fit.expression)) == "SE(1)"


def test_members_without_weight_are_left_out_on_several_columns() -> None:
    found = learned(made(), max_depth=0)
    assert min(found.weights.within) >= SearchPolicy().least_weight or len(found.members) == 1
    assert len(found.members) == len(found.weights.within) == len(found.weights.beyond)


# ---------------------------------------------------------------------------------------------------------------- time


def problem(rows: int = 40) -> Problem:
    return prepare(bind(parse("SE"), 3), made(rows), Exact(), FitOptions())


def test_a_run_ends_where_the_time_does_and_has_one_evaluation_at_least() -> None:
    task = problem()
    starts = [task.point(task.starts.draw(None), Gaussian(noise)) for noise in (0.1, 0.5)]
    runs = minimise(task, starts, 50, until=PAST)
    assert len(runs) == 1  # no other begins
    assert runs[0].out_of_time
    assert not runs[0].converged
    assert runs[0].value == pytest.approx(task.loss(starts[0])[0])
    later = minimise(task, starts, 50, until=time.time() + 1000.0)
    assert [run.out_of_time for run in later] == [False, False]
    assert [run.value for run in later] == [run.value for run in minimise(task, starts, 50)]


def test_a_run_that_is_resumed_without_time_stays_where_its_trail_was_best() -> None:
    task = problem()
    start = task.point(task.starts.draw(None), Gaussian(0.1))
    first = minimise(task, [start], 10)[0]
    again = minimise(task, [start], 50, [Evaluations(first.trail)], until=PAST)[0]
    assert again.out_of_time
    assert again.value == pytest.approx(first.value)


def test_a_fit_that_time_ended_says_so() -> None:
    found = fit(bind(parse("SE"), 3), made(), Exact(), FitOptions(restarts=3, until=PAST))
    assert found.status == "stopped"
    assert "allow more time" in found.message


def test_a_clock_keeps_a_reserve() -> None:
    clock = Clock(budget=100.0, reserve=99.0)
    clock.check()
    assert 0.0 < (clock.seconds_left or 0.0) <= 1.0
    assert clock.until is not None
    assert clock.until <= time.time() + 1.0
    with pytest.raises(OutOfTimeError):
        Clock(budget=100.0, started=clock.started - 2.0, reserve=99.0).check()


def test_a_budget_leaves_time_for_what_comes_after() -> None:
    """With a reserve that is nearly all of the budget the search ends at once, long before the budget does."""
    found = learned(made(), (SearchPolicy(seconds_after=1e6, most_after=1.0),), time_budget=1000.0)
    assert found.stopped == "time"
    assert any("1000 s" in note for note in found.notes)  # the user's number, whatever is kept of it


def test_what_time_ended_is_not_in_the_journal(tmp_path: Path) -> None:
    found = learned(made(), time_budget=1e-6, checkpoint=tmp_path)
    assert found.stopped == "time"
    lines = (tmp_path / "journal.jsonl").read_text().splitlines()
    assert len(lines) == 1  # its head
    whole = learned(made(), checkpoint=tmp_path)
    assert whole.stopped == ""
    assert whole.fit.status == "converged"


def test_fits_to_all_rows_end_with_the_budget() -> None:
    data, kernel = made(300), bind(parse("SE"), 3)
    few = fit(kernel, data.take(np.arange(60)), Exact(), FitOptions(restarts=1))
    options = FitOptions(max_iterations=100)
    short = fit_to_all(learned_alone(few), AllRows(data, VFE(inducing=20), options, clock=Clock(1e-9)))
    long = fit_to_all(learned_alone(few), AllRows(data, VFE(inducing=20), options))
    assert short.fit.rows == long.fit.rows == 300
    assert short.fit.evaluations < few.evaluations + 5
    assert long.fit.evaluations > few.evaluations + 10
    assert short.fit.status == "stopped"


def test_a_budget_on_many_rows_gives_a_kernel_on_every_column() -> None:
    data = made(200)
    regressor = regressor_with(ManyRowsPolicy(sample=60))
    search = mercer.GrammarSearch(bases=("SE",), restarts=1, time_budget=1e-6)
    model = regressor(search, inference=VFE(inducing=30), random_state=0).fit(data.X, data.y)
    assert model.stopped_ == "time"
    assert str(structure(model.kernel_)) == "SE(0, 1, 2)"


# ------------------------------------------------------------------------------------------------------------- samples


@given(st.integers(120, 400), st.integers(0, 5))
@settings(max_examples=15, deadline=None)
def test_half_of_a_sample_shares_values_where_a_column_repeats(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=3000), rng.integers(0, 300, size=3000)])
    data = Data(X, np.arange(3000.0))
    assert find_repeated(X) == 1
    found = draw_with_neighbours(data, count, seed)
    assert found.count == count
    assert len(np.unique(found.y)) == count  # no row twice
    assert (np.diff(found.y) > 0).all()  # in their order
    _, sizes = np.unique(found.X[:, 1], return_counts=True)
    assert sizes[sizes >= 5].sum() >= 0.4 * count
    alone = draw_some(data, count, seed)
    assert len(np.unique(found.X[:, 1])) < len(np.unique(alone.X[:, 1]))


def test_a_sample_without_values_that_repeat_is_drawn_at_random() -> None:
    rng = np.random.default_rng(0)
    plain = Data(np.column_stack([rng.normal(size=900), rng.integers(0, 3, size=900)]), rng.normal(size=900))
    assert find_repeated(plain.X) is None  # of few values any sample has many rows each
    assert (draw_with_neighbours(plain, 100, 7).y == draw_some(plain, 100, 7).y).all()
    assert draw_with_neighbours(plain, 900, 7) is plain


def test_what_rows_of_a_group_share_shows_in_a_search_on_many_rows() -> None:
    """A level of its own for each of 150 batches: of few rows drawn at random hardly two would share one."""
    rng = np.random.default_rng(0)
    batch, x = rng.integers(0, 150, size=1500), rng.uniform(-1.7, 1.7, size=1500)
    y = np.sin(2.0 * x) + rng.normal(size=150)[batch] + 0.1 * rng.standard_normal(1500)
    X = np.column_stack([x, rng.permutation(150)[batch] / 45.0])
    regressor = regressor_with(ManyRowsPolicy(sample=300), IntervalPolicy(near_rows=300))
    search = mercer.GrammarSearch(bases=("SE",), restarts=2, max_depth=0)
    model = regressor(search, inference=VFE(inducing=250), random_state=0).fit(X, y)
    assert model.noise_ < 0.05  # 0.01 is true; with the batches left to the noise it would be 1


# ---------------------------------------------------------------------------------------------------------- benchmarks


def test_the_tables_of_first_answers_are_as_they_are_said_to_be() -> None:
    assert len(first_answers.TABLES) == 12
    for table in first_answers.TABLES:
        assert 8 <= table.columns <= 12
        assert 300 <= table.rows <= 3000
        if table.function is not None:
            X, y, test, truth = table.load(Path())
            assert X.shape == (table.rows, table.columns)
            assert len(truth) == len(test) == first_answers.TEST_ROWS
            assert np.isfinite(y).all()


def test_the_report_of_first_answers_counts_what_is_worse(tmp_path: Path) -> None:
    table = first_answers.TABLES[5]
    for system, error in (("ard", 0.10), ("search", 0.11)):
        record = {"rows": 300, "columns": 10, "error": error, "seconds": 10.5, "kernel": "SE", "candidates": 3}
        place = first_answers.path_of(tmp_path, table, system, 10)
        place.write_text(json.dumps({**record, "machine": describe()}))
    text = first_answers.report(tmp_path, [table], [10, 30])
    assert "0 of 1" in text
    assert "1.100 (worse)" in text
    assert "Budget kept within a tenth: 1 of 1" in text
