"""Racing: who runs how far, on which rows, and who goes on."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from mercer.fitting.problem import FitOptions, Memory, Run
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.kernels import bind, parse
from mercer.learners.contract import Context, Step
from mercer.learners.grammar import GrammarSearch, Search, SearchPolicy
from mercer.learners.growth import Child
from mercer.learners.racing import RacePolicy, Rung, Task, advance, promote, rank
from mercer.learners.trials import Attempt
from tests.unit.test_grammar import learned, season

RACE = RacePolicy()


def test_a_crowd_is_thinned_out_on_few_rows_first():
    few, crowd = RACE.rungs(True, 200, 50, RACE.many_rows + 1), RACE.rungs(True, 200, 1000, RACE.many_rows + 1)
    assert crowd[0].sample is not None
    assert few[0].sample is not None
    assert crowd[0].sample < few[0].sample
    assert crowd[-2:] == few[-2:]
    assert RACE.rungs(True, 200, 1000, RACE.many_rows)[-3:] == RACE.rungs(True, 200, 50, RACE.many_rows)[-3:]
    assert RACE.rungs(True, 200, 50, RACE.many_rows, finish=4)[-1].at_least == 4


def test_the_first_rung_of_a_series_has_a_part_of_its_rows() -> None:
    assert RACE.rungs(True, 200, 50, RACE.sample - 1, series=True)[0].sample is None
    assert [rung.sample for rung in RACE.rungs(True, 200, 50, 360, series=True)] == [240, 240, *[None] * 4]
    assert RACE.rungs(True, 200, 50, 360)[0].sample is None
    assert RACE.rungs(True, 200, 50, 1000, series=True)[0].sample == 500


def test_of_a_crowd_on_many_rows_only_some_go_on():
    crowd = RACE.rungs(True, 200, 1000, RACE.many_rows + 1)
    assert [rung.at_most is None for rung in crowd] == [True, False, False, False, False, True, True]
    assert crowd[0].starts == 2
    assert all(
        rung.at_most is None
        for rung in RACE.rungs(False, 200, 1000, RACE.many_rows + 1) + RACE.rungs(True, 200, 50, RACE.many_rows + 1)
    )


@pytest.mark.parametrize("large_level", [8, 300])
def test_in_a_large_level_a_deeper_kernel_must_be_better_than_by_chance(large_level: int) -> None:
    data = season()
    race = RacePolicy(many_rows=data.count - 1, sample=data.count, small_sample=data.count, large_level=large_level)
    search = Search(GrammarSearch(), Context(data, Exact(), [0], policies=(race,)))
    usual = SearchPolicy().improvement
    assert search.needed_gain(8) == usual
    assert search.needed_gain(9) == (2.0 * math.log(9) if large_level == 8 else usual)


@pytest.mark.parametrize("improvement", [2.0, 1e9])
def test_a_deeper_kernel_that_gains_too_little_does_not_win(improvement: float) -> None:
    policies = (SearchPolicy(improvement=improvement),)
    context = Context(season(), Exact(), [0], policies=policies)
    found = GrammarSearch(max_depth=1, bases=("SE", "PER", "LIN"), average=False).learn(context)
    assert len(list(found.fit.expression.leaves())) == (1 if improvement == 1e9 else 2)


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
    assert len(found.candidates) > SearchPolicy().bases
    assert SearchPolicy().first_parents <= len(finished) < len(found.candidates)
    assert found.fit.expression.leaves().__next__().columns == (3,)


def test_who_is_promoted():
    assert promote([5.0, 0.0, 100.0, 9.0], Rung(1, 1, margin=6.0, at_least=0)) == [0, 1]
    assert promote([5.0, 0.0, 100.0, 9.0], Rung(1, 1, margin=1.0, at_least=3)) == [0, 1, 3]
    assert promote([], Rung(1, 1, 1.0, 1)) == []
    assert promote([5.0, 0.0, 100.0, 4.0], Rung(1, 1, margin=6.0, at_least=0, at_most=2)) == [1, 3]


def test_who_is_behind_goes_on_where_it_may_still_gain_as_much():
    rung = Rung(1, 1, margin=40.0, at_least=0, close=6.0)
    assert promote([0.0, 5.0, 20.0, 20.0, 100.0], rung, [0.0, 0.0, 10.0, 15.0, 1e3]) == [0, 1, 3]
    assert promote([0.0, 5.0, 20.0, 50.0], rung, [math.inf] * 4) == [0, 1, 2]  # nobody knows: the margin decides


def run_that_promises(promise: float, rows: int = 10) -> Run:
    memory = Memory(4.0, np.zeros(1), np.eye(1), 1.0, 3, 0, promise)
    return Run(np.zeros(1), 4.0, "", False, 1, rows, memory=memory)


def test_what_a_candidate_may_be_behind_is_what_several_steps_promise():
    context = Context(Data(np.arange(60.0)[:, None], np.zeros(60)), Exact(), [0])
    attempt = Attempt((run_that_promises(3.0, rows=30),), 0, 0.0)
    assert Search(GrammarSearch(score="bic"), context).hope(attempt) == RACE.steps_ahead * 2.0 * 3.0 * 60 / 30


def test_what_a_start_may_still_gain_counts_for_its_kernel():
    runs = Run(np.zeros(1), 1.0, "", True, 1, 10), run_that_promises(7.0)
    assert Attempt(runs[:1], 0, 0.0).hope == 0.0
    assert Attempt(runs, 0, 0.0).hope == 7.0 - 3.0
    assert Attempt((*runs, replace(runs[1], memory=None)), 0, 0.0).hope == math.inf
    for promise, kept in ((4.0, 2), (1.0, 1)):
        trimmed = Rung(1, 2, math.inf, 0, close=2.0).trim(Attempt((runs[0], run_that_promises(promise)), 0, 0.0))
        assert trimmed is not None
        assert len(trimmed.runs) == kept


def test_without_racing_candidates_run_the_same_rungs_and_nobody_is_left_behind():
    raced, unraced = RACE.rungs(True, 50, 10, RACE.many_rows + 1), RACE.rungs(False, 50, 10, RACE.many_rows + 1)
    assert [(rung.iterations, rung.starts, rung.sample) for rung in raced] == [
        (rung.iterations, rung.starts, rung.sample) for rung in unraced
    ]
    assert all(promote([0.0, 1e9], rung) == [0, 1] for rung in unraced)
    assert promote([0.0, 1e9, 2e9, 3e9], raced[-1]) == [0, 1, 2]


def test_who_falls_behind_on_a_sample_is_looked_at_on_all_rows():
    course = RACE.rungs(True, 200, 50, RACE.many_rows + 1)
    assert [rung.sample is None for rung in course] == [False] * 4 + [True] * 3
    assert course[4].margin > course[5].margin
    assert course[4].close > course[3].close


def test_who_is_within_the_margin_goes_ten_steps_whatever_it_promises():
    course = RACE.rungs(True, 200, 50, 300)
    long = next(rung for rung in course if rung.iterations == 10)
    assert promote([0.0, 1.0, 2.0, 3.0, 4.0, 7.9, 8.1], long, [0.0] * 7) == [0, 1, 2, 3, 4, 5]
    assert promote([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.9], course[3], [0.0] * 8) == [0, 1, 2, 3, 4, 5, 6]


def test_a_start_of_each_kind_stays_in_the_race():
    runs = [Run(np.zeros(1), value, "", False, 1, 10, afresh) for value, afresh in ((3, False), (1, False), (5, True))]
    assert [run.value for run in rank(runs)] == [1, 5, 3]
    assert [run.value for run in rank(runs[:2])] == [1, 3]


def test_many_rows_are_sampled_in_order():
    data = Data(np.arange(1000.0)[:, None], np.arange(1000.0))
    some = RACE.draw(data, 300, seed=3)
    assert len(some.y) < 500
    assert np.all(np.diff(some.y) > 0)
    assert RACE.draw(season(), 300, 3).count == 60


def test_racing_ends_where_the_whole_search_does():
    raced = learned(season(), max_depth=2, average=False)
    whole = learned(season(), max_depth=2, average=False, race=False)
    assert raced.fit.log_evidence == pytest.approx(whole.fit.log_evidence, abs=0.5)
    assert any(c.status == "raced out" for c in raced.candidates)


def test_a_start_far_behind_the_best_of_its_kernel_ends() -> None:
    runs = tuple(Run(np.zeros(1), value, "", False, 1, 10) for value in (-5.0, 14.0, 16.0))
    rung = Rung(5, 3, math.inf, 0, starts_margin=20.0)
    kept = rung.trim(Attempt(runs, 0, 0.0))
    assert kept is not None
    assert [run.value for run in kept.runs] == [-5.0, 14.0]
    assert rung.trim(None) is None


def test_a_kernel_of_many_parts_is_not_begun_afresh() -> None:
    few, many = parse("SE(0) + LIN(0)"), parse("SE(0) + LIN(0) + PER(0) + M12(0)")
    search = Search(GrammarSearch(), Context(season(), Exact(), [0]))
    tasks = [search._enter(Child(k, k, Step("add", k)), None, {}).task for k in (few, many)]
    assert [task.afresh for task in tasks] == [True, False]
