"""Racing: who runs how far, on which rows, and who goes on."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from mercer.fitting.optimise import FitOptions, Run
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.kernels import bind, parse
from mercer.learners.contract import Context
from mercer.learners.grammar import search as search_module
from mercer.learners.grammar.grammar_search import GrammarSearch
from mercer.learners.grammar.race import MANY, Lap, laps, runners, sample
from mercer.learners.grammar.worker import Task, advance, ranked
from tests.unit.test_grammar import learned, season


def test_a_crowd_is_thinned_out_on_few_rows_first():
    few, crowd = laps(True, 200, 50, MANY), laps(True, 200, 1000, MANY)
    assert crowd[0].sample < few[0].sample
    assert crowd[-3:] == few[-3:]
    assert laps(True, 200, 50, MANY, finish=4)[-1].at_least == 4


def test_of_a_crowd_on_many_rows_only_some_go_on():
    crowd = laps(True, 200, 1000, MANY + 1)
    assert [lap.at_most is None for lap in crowd] == [True, False, False, False, True, True]
    assert crowd[0].starts == 2
    assert all(lap.at_most is None for lap in laps(False, 200, 1000, MANY + 1) + laps(True, 200, 50, MANY + 1))


def test_in_a_crowd_on_many_rows_a_deeper_kernel_must_be_better_than_by_chance(monkeypatch):
    monkeypatch.setattr(search_module, "is_large_crowd", lambda candidates, rows: candidates > 8)
    asked = []
    add = search_module.Search._add

    def noted(self, child, task, state, depth, *rest):
        asked.append((depth, self.improvement))
        return add(self, child, task, state, depth, *rest)

    monkeypatch.setattr(search_module.Search, "_add", noted)
    learned(season(), max_depth=1, bases=("SE", "PER", "LIN"))
    counts = [sum(depth == d for depth, _ in asked) for d in (0, 1)]
    assert counts[0] <= 8 < counts[1]
    assert {needed for depth, needed in asked if depth == 0} == {search_module.IMPROVEMENT}
    assert {needed for depth, needed in asked if depth == 1} == {2.0 * math.log(counts[1])}


def test_a_candidate_of_a_crowd_begins_at_its_parents_optimum_only():
    data, child = season(), bind(parse("SE(0, variance=1, lengthscale=0.5) + PER(0)"), 1)
    task = Task(child, "key", 0.1, False, {}, {}, FitOptions(restarts=4, draws=4))
    grown = advance(task, None, data, Exact(), 2, 2, False)
    both = advance(task, None, data, Exact(), 2, 99, False)
    assert [run.afresh for run in grown.runs] == [False, False]
    eager = replace(task, options=FitOptions(restarts=8, draws=4))
    assert len(advance(eager, None, data, Exact(), 2, 2, False).runs) == 2  # however many were asked for
    assert sorted(run.afresh for run in both.runs) == [False, False, True, True]


def test_many_base_kernels_are_raced_and_enough_of_them_finish():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    data = Data(X, np.sin(2 * X[:, 3]) + 0.1 * rng.normal(size=60))
    found = GrammarSearch(max_depth=0).learn(Context(data, Exact(), [0, 1, 2, 3, 4]))
    finished = [c for c in found.candidates if c.fit is not None]
    assert len(found.candidates) > search_module.BASES
    assert search_module.FIRST_PARENTS <= len(finished) < len(found.candidates)
    assert found.fit.expression.leaves().__next__().columns == (3,)


def test_who_runs_a_lap():
    assert runners([5.0, 0.0, 100.0, 9.0], Lap(1, 1, margin=6.0, at_least=0)) == [0, 1]
    assert runners([5.0, 0.0, 100.0, 9.0], Lap(1, 1, margin=1.0, at_least=3)) == [0, 1, 3]
    assert runners([], Lap(1, 1, 1.0, 1)) == []
    assert runners([5.0, 0.0, 100.0, 4.0], Lap(1, 1, margin=6.0, at_least=0, at_most=2)) == [1, 3]


def test_without_racing_candidates_run_the_same_laps_and_nobody_is_left_behind():
    raced, unraced = laps(True, 50, 10, MANY + 1), laps(False, 50, 10, MANY + 1)
    assert [(lap.iterations, lap.starts, lap.sample) for lap in raced] == [
        (lap.iterations, lap.starts, lap.sample) for lap in unraced
    ]
    assert all(runners([0.0, 1e9], lap) == [0, 1] for lap in unraced)
    assert runners([0.0, 1e9, 2e9, 3e9], raced[-1]) == [0, 1, 2]


def test_who_falls_behind_on_a_sample_is_looked_at_on_all_rows():
    course = laps(True, 200, 50, MANY + 1)
    assert [lap.sample is None for lap in course] == [False, False, True, True, True]
    assert course[2].margin > course[3].margin


def test_a_start_of_each_kind_stays_in_the_race():
    runs = [Run(np.zeros(1), value, "", False, 1, 10, afresh) for value, afresh in ((3, False), (1, False), (5, True))]
    assert [run.value for run in ranked(runs)] == [1, 5, 3]
    assert [run.value for run in ranked(runs[:2])] == [1, 3]


def test_many_rows_are_sampled_in_order():
    data = Data(np.arange(1000.0)[:, None], np.arange(1000.0))
    some = sample(data, 300, seed=3)
    assert len(some.y) < 500
    assert np.all(np.diff(some.y) > 0)
    assert sample(season(), 300, 3).count == 60


def test_racing_ends_where_the_whole_search_does():
    raced = learned(season(), max_depth=2, average=False)
    whole = learned(season(), max_depth=2, average=False, race=False)
    assert raced.fit.log_evidence == pytest.approx(whole.fit.log_evidence, abs=0.5)
    assert any(c.status == "raced out" for c in raced.candidates)
