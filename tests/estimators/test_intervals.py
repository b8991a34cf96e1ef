"""A search on more rows than exact inference can take: intervals decide, and every kernel left behind says why."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.policies import regressor_with

import mercer
from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.explain.search import winner_of
from mercer.fitting.problem import FitOptions, Run, prepare
from mercer.inference.bounds import Interval
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.kernels import Expression
from mercer.kernels.algebra import structure
from mercer.kernels.parameters import layout, to_scaled_units, values_of
from mercer.learners import intervals, many_rows
from mercer.learners.contract import Candidate, Step, Verdict, WholeData
from mercer.learners.criteria import Criterion
from mercer.learners.intervals import (
    Beginning,
    Drop,
    Effort,
    IntervalPolicy,
    IntervalRace,
    Stage,
    bracket,
    bracket_inherited,
)
from mercer.learners.many_rows import ManyRowsPolicy
from mercer.learners.racing import Task
from mercer.learners.trials import Attempt
from mercer.model.archive import candidates_from_plain, candidates_to_plain

pytestmark = pytest.mark.filterwarnings("ignore::mercer.MercerWarning")
BASES = ("SE", "LIN", "M12")
POLICY = IntervalPolicy()
FREE = Criterion("free", "no price", lambda parameters, rows: 0.0)
Regressor = regressor_with(ManyRowsPolicy(sample=100))


def rows(count: int = 160, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (count, 2))
    return X, np.sin(X[:, 0]) * (1 + 0.1 * X[:, 1]) + 0.2 * X[:, 1] + 0.1 * rng.normal(size=count)


@pytest.fixture(scope="module")
def model() -> mercer.GPRegressor:
    search = mercer.GrammarSearch(bases=BASES, max_depth=1, restarts=1)
    return Regressor(search, inference=mercer.VFE(inducing=40), random_state=0).fit(*rows())


def winner(model: mercer.GPRegressor) -> Candidate:
    number = winner_of(model.candidates_, model.kernel_)
    assert number is not None
    return model.candidates_[number]


def exact_log_evidence(model: mercer.GPRegressor, candidate: Candidate) -> float:
    """Of a candidate with all its values, on all rows, in the units of the data."""
    assert candidate.fit is None
    scaled = model.fitted_.training.data
    kernel = to_scaled_units(candidate.expression, model.fitted_.units)
    noise = model.noise_ / model.fitted_.units.y_scale**2
    found = Exact().evidence(compile_program(kernel), values_of(kernel), Gaussian(noise), scaled, gradient=False)
    return found.value - scaled.count * math.log(model.fitted_.units.y_scale)


def test_the_exact_evidence_of_the_winner_lies_in_its_interval(model: mercer.GPRegressor) -> None:
    best = winner(model)
    assert best.interval is not None
    exact = exact_log_evidence(model, best)
    assert best.interval.lower - 1e-6 <= exact <= best.interval.upper + 1e-6
    assert best.log_evidence == best.interval.lower == pytest.approx(model.log_evidence_, abs=1e-6)
    assert best.score == pytest.approx(model.bic_, abs=1e-6)


def test_the_winner_is_that_of_the_exact_search_or_the_exact_score_lies_in_its_interval(
    model: mercer.GPRegressor,
) -> None:
    exact = Regressor(model.kernel, random_state=0).fit(*rows())
    best = winner(model)
    same = structure(exact.kernel_) == structure(model.kernel_)
    assert same or best.scores[0] - 2.0 <= exact.bic_ <= best.scores[1] + 2.0


def test_every_candidate_has_an_interval_and_whoever_was_left_behind_says_behind_whom(
    model: mercer.GPRegressor,
) -> None:
    left = [c for c in model.candidates_ if c.status == "raced out"]
    assert left
    for candidate in model.candidates_:
        assert candidate.interval is not None
        assert candidate.interval.lower <= candidate.interval.upper
        assert candidate.scores[0] <= candidate.scores[1] == pytest.approx(candidate.score)
        if candidate.status == "raced out":
            assert candidate.verdict is not None
        if candidate.verdict is None:
            continue
        other = model.candidates_[candidate.verdict.by]
        assert other is not candidate
        assert other.score <= candidate.verdict.bar + 1e-6  # its certain end only became better since
        if candidate.verdict.kind == "separated":
            assert candidate.scores[0] >= candidate.verdict.bar
            assert candidate.scores[0] >= winner(model).score
        if candidate.status == "raced out":
            assert f"candidate {candidate.verdict.by}" in candidate.message


def test_no_candidate_is_certain_of_more_than_the_winner(model: mercer.GPRegressor) -> None:
    assert min(c.score for c in model.candidates_ if c.status != "raced out") >= winner(model).score - 2.0


def test_intervals_survive_files(model: mercer.GPRegressor, tmp_path) -> None:
    model.save(tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    for old, new in zip(model.candidates_, again.candidates_, strict=True):
        assert new.interval == old.interval
        assert new.verdict == old.verdict
        assert new.inducing == old.inducing
    plain = json.loads(json.dumps(candidates_to_plain(model.candidates_), allow_nan=False))
    assert candidates_from_plain(plain, 2)[3].interval == model.candidates_[3].interval


def test_the_explanation_says_what_an_interval_means(model: mercer.GPRegressor) -> None:
    explanation = model.explain()
    assert explanation.search is not None
    told = explanation.search.intervals
    assert told is not None
    assert "Sparse inference on 160 rows" in told.meaning
    assert "certain to lie in it" in told.meaning
    assert told.log_evidence[0] == pytest.approx(model.log_evidence_, abs=1e-6)
    assert told.separated + told.set_aside == sum(c.verdict is not None for c in model.candidates_)
    assert "certain to lie in it" in explanation.to_text(10_000)
    assert all(step.interval is not None for step in explanation.search.path)
    assert explanation.to_json()["search"]["intervals"]["undecided"] == told.undecided


def test_the_report_draws_them(model: mercer.GPRegressor, tmp_path) -> None:
    model.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "Every line is the interval of a kernel" in page
    assert "is certain to lie in it" in page


def test_a_search_goes_on_from_its_journal(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = mercer.GrammarSearch(bases=("SE", "LIN"), max_depth=1, checkpoint=tmp_path)
    engine = mercer.VFE(inducing=40)
    first = Regressor(search, inference=engine, random_state=0).fit(*rows(130))

    def never(*_: object) -> None:
        raise AssertionError("nothing is done twice")

    monkeypatch.setattr(intervals, "move", never)
    second = Regressor(search, inference=engine, random_state=0).fit(*rows(130))
    assert second.kernel_ == first.kernel_


def test_other_scores_are_searched_on_the_sample() -> None:
    search = mercer.GrammarSearch(bases=("SE", "LIN"), max_depth=0, score="loo")
    model = Regressor(search, inference=mercer.VFE(inducing=40), random_state=0).fit(*rows(130))
    assert all(c.interval is None for c in model.candidates_)
    assert any("learned from 100 of the 130 rows" in note for note in model.notes_)


def test_points_are_as_many_as_the_kernel_needs() -> None:
    X, y = rows(400)
    data = Data((X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std(), True)
    whole = WholeData(data, mercer.VFE(inducing=300))
    counts = []
    for lengthscale in (5.0, 0.05):
        kernel = mercer.kernels.bind(mercer.parse(f"SE(0, variance=1, lengthscale={lengthscale})"), 2)
        counts.append(
            len(intervals.choose_points(compile_program(kernel), values_of(kernel), 0.1, whole, 0.5, None, 2000).Z)
        )
    assert counts[0] < 64 <= counts[1] <= 300


def looked_at(effort: Effort, count: int = 300) -> tuple[Data, Task, Attempt]:
    """A kernel after a look, from where nothing fits."""
    X, y = rows(count)
    data = Data((X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std(), True)
    kernel = mercer.kernels.bind(mercer.parse("SE(0) * SE(1) + LIN(1)"), 2)
    task = Task(kernel, "it", None, False, {}, {}, FitOptions(seed=0))
    starts = np.zeros((2, layout(kernel).n_free + 1))
    starts[1, -1] = 1.0  # more noise
    runs = tuple(Run(start, 0.0, "", True, 0, 100) for start in starts)
    whole = WholeData(data, mercer.VFE(inducing=60))
    return data, task, bracket(task, Attempt(runs, 0, 0.0), whole, effort, POLICY)


@pytest.mark.parametrize("fit", [False, True])
def test_steps_on_some_rows_give_an_interval_on_all(fit: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    minimise = intervals.minimise

    def counted(problem, *rest, **more):
        counts.append(problem.data.count)
        return minimise(problem, *rest, **more)

    monkeypatch.setattr(intervals, "minimise", counted)
    legs = (Stage(6, 120), Stage(6)) if fit else (Stage(6, 120),)
    data, task, reached = looked_at(Effort(0.5, legs, 2, fit))
    assert counts == ([120, 120, 300] if fit else [120])  # of two starts one goes on after the first leg
    values = layout(task.expression).from_free(reached.runs[0].point[:-1], values_of(task.expression))
    noise = math.exp(reached.runs[0].point[-1])
    exact = Exact().evidence(compile_program(task.expression), values, Gaussian(noise), data, gradient=False).value
    assert reached.interval is not None
    assert reached.interval.lower - 1e-6 <= exact <= reached.interval.upper + 1e-6
    assert reached.interval.width < 1.0
    assert reached.runs[0].rows == 300
    assert (reached.fit is not None) == fit


def test_a_fit_that_few_points_lead_astray_stays_where_it_began() -> None:
    """A rough kernel with a third of the points that it needs: steps on its bound make it a smooth one."""
    rng = np.random.default_rng(0)
    x = rng.permutation(np.linspace(-1.7, 1.7, 300))
    rough = mercer.kernels.bind(mercer.parse("M12(0, variance=1, lengthscale=0.05)"), 1)
    program, values = compile_program(rough), values_of(rough)
    y = np.linalg.cholesky(fused.gram(program, values, x[:, None]) + 0.05 * np.eye(300)) @ rng.normal(size=300)
    data = Data(x[:, None], y, True)
    task = Task(rough, "it", 0.05, False, {}, {}, FitOptions(seed=0))
    truth = np.append(layout(rough).to_free(values), math.log(0.05))
    whole, state = WholeData(data, mercer.VFE(inducing=100)), Attempt((_run(truth),), 0, 0.0)
    effort, problem = Effort(0.5, (Stage(20),), 5, True), prepare(rough, data, whole.engine, task.options)
    moved = intervals.move(problem, [truth], whole, effort, POLICY)
    reached = bracket(task, state, whole, effort, POLICY)
    exact = [_exactly(rough, point, data) for point in (truth, moved.point, reached.runs[0].point)]
    assert exact[1] < exact[0] - 10
    assert exact[2] == exact[0]
    assert reached.fit is not None


def _run(point: np.ndarray) -> Run:
    return Run(point, 0.0, "", True, 0, 100)


def _exactly(kernel: Expression, point: np.ndarray, data: Data) -> float:
    values = layout(kernel).from_free(point[:-1], values_of(kernel))
    return Exact().evidence(compile_program(kernel), values, Gaussian(math.exp(point[-1])), data, gradient=False).value


@pytest.mark.parametrize("lengthscale", [30.0, 0.7])
def test_a_child_is_also_judged_with_what_its_parent_learned_from_all_rows(lengthscale: float) -> None:
    X, y = rows(300)
    data = Data((X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std(), True)
    child = mercer.kernels.bind(mercer.parse("SE(0, variance=1, lengthscale=0.5) + LIN(1)"), 2)
    task = Task(child, "it", 0.05, False, {}, {}, FitOptions(seed=0))
    few = layout(child).to_free(np.array([1.0, lengthscale, 0.05, 0.0, 1.0]))  # what a sample is to have suggested
    run = Run(np.append(few, math.log(0.05)), 0.0, "", True, 0, 100)
    effort, whole = Effort(0.5, (), 0), WholeData(data, mercer.VFE(inducing=100))
    before = bracket(task, Attempt((run,), 0, 0.0), whole, effort, POLICY)
    after = bracket_inherited(task, before, whole, effort, POLICY)
    assert before.interval is not None
    assert after.interval is not None
    if lengthscale == 0.7:  # better than what the parent has, and so it stays
        assert after.interval == before.interval
        return
    assert after.interval.lower > before.interval.upper
    values = layout(child).from_free(after.runs[0].point[:-1], values_of(child))
    assert values == pytest.approx([1.0, 0.5, 0.05, 0.0, 1.0])
    assert after.runs[1] is before.runs[0]
    exact = Exact().evidence(compile_program(child), values, Gaussian(0.05), data, gradient=False).value
    assert after.interval.lower - 1e-6 <= exact <= after.interval.upper + 1e-6


def test_no_interval_is_narrowed_that_could_not_leave_a_kernel_behind() -> None:
    data, task, reached = looked_at(Effort(0.5, (), None))

    def contest(*intervals: tuple[float, float]) -> IntervalRace:
        states = [replace(reached, interval=Interval(*both)) for both in intervals]
        whole = WholeData(data, mercer.VFE(inducing=60))
        return IntervalRace([task] * len(states), whole, FREE, math.inf, True, lambda *_: iter(()), POLICY, [*states])

    three = contest((-100.0, -99.9), (-104.0, -50.0), (-150.0, -50.0), (-150.0, -149.8))  # scores: times -2
    assert [three.could_be_separated(i, 40.0) for i in range(4)] == [False, False, True, False]


@pytest.mark.parametrize("overlapping", [0, 1, POLICY.round])
def test_where_nearly_all_would_be_left_behind_their_parents_values_judge(
    overlapping: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, task, reached = looked_at(Effort(0.5, (), None))
    again: list[Attempt] = []

    def judged(task, state, whole, effort, policy):
        close = int(task.key) < overlapping
        return replace(reached, interval=Interval(-90.0, 0.0) if close else Interval(-2000.0, -1990.0))

    def as_inherited(task, state, whole, effort, policy):
        again.append(state)
        return state

    def go(rung, work, function):
        return ((i, function(*arguments)) for i, arguments in work.items())

    monkeypatch.setattr(intervals, "bracket", judged)
    monkeypatch.setattr(intervals, "bracket_inherited", as_inherited)
    whole, child = WholeData(data, mercer.VFE(inducing=60)), replace(task, noise=0.1)
    contest = IntervalRace([replace(child, key=str(i)) for i in range(10)], whole, FREE, 100.0, True, go)
    monkeypatch.setattr(intervals, "advance", lambda *_: reached)
    contest.run(Beginning(data, Exact(), 1, 1))
    assert len(again) == (0 if overlapping == POLICY.round else 10 - overlapping)
    assert {i for i, drop in contest.drops.items() if drop.kind == "separated"} >= set(range(overlapping, 10))


def test_whoever_has_no_place_and_is_behind_the_bar_is_not_said_to_be_perhaps_better() -> None:
    data, task, reached = looked_at(Effort(0.5, (), None))
    ends = [(-10.0, -9.0), (-30.0, -5.0), (-30.0, -20.0)]
    states = [replace(reached, interval=Interval(*both)) for both in ends]
    whole = WholeData(data, mercer.VFE(inducing=60))
    contest = IntervalRace([task] * 3, whole, FREE, math.inf, True, lambda *_: iter(()), POLICY, [*states])
    contest.drop([1, 2])
    assert {i: (drop.kind, drop.by) for i, drop in contest.drops.items()} == {
        1: ("places", 0),
        2: ("separated", 0),
    }


def row_of(reached: Attempt, expression: Any, verdict: Verdict | None = None) -> Candidate:
    assert reached.interval is not None
    lower, found = reached.interval.lower, reached.interval
    return Candidate(
        expression, 1, Step("base", expression), None, lower, 5, -2.0 * lower, "converged", "", 0.0, reached.fit, found,
        60, verdict,
    )  # fmt: skip


def test_a_verdict_is_about_the_interval_that_the_row_shows() -> None:
    _, task, reached = looked_at(Effort(0.5, (), None))
    earlier = row_of(reached, task.expression)
    later = replace(reached, interval=Interval(-9e9, -8e9))  # the same kernel from a bad start, in a later step
    drop = Drop("separated", None, earlier.score + 10.0)
    assert intervals.with_verdict(earlier, later, drop, 0).verdict is None
    assert intervals.with_verdict(row_of(later, task.expression), later, drop, 0).verdict is not None


def test_a_kernel_that_gains_after_its_verdict_no_longer_has_it() -> None:
    data, task, reached = looked_at(Effort(0.5, (Stage(10),), 2, fit=True))
    assert reached.fit is not None
    gained, lost = (row_of(reached, task.expression, Verdict("separated", 0, -2.0 * reached.fit.log_evidence + by))
                    for by in (10.0, -10.0))  # fmt: skip
    engine = mercer.VFE(inducing=60)
    assert many_rows.narrow(gained, reached.fit, data, engine).verdict is None
    assert many_rows.narrow(lost, reached.fit, data, engine).verdict == lost.verdict


def test_base_kernels_that_do_not_overlap_are_not_fitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    efforts: list[Effort] = []
    judged = intervals.bracket

    def noted(task, state, whole, effort, policy):
        efforts.append(effort)
        return judged(task, state, whole, effort, policy)

    monkeypatch.setattr(intervals, "bracket", noted)
    search = mercer.GrammarSearch(bases=("SE", "LIN"), max_depth=0, restarts=1)
    Regressor(search, inference=mercer.VFE(inducing=40), random_state=0).fit(*rows(130))
    # each of them once, as they are far apart: two on each column, two on both, and one that adds the columns up
    assert len(efforts) == 7


def test_a_time_budget_that_ends_before_any_fit_to_all_rows_still_gives_a_kernel() -> None:
    search = mercer.GrammarSearch(bases=("SE", "LIN"), max_depth=2, restarts=1, time_budget=1e-9)
    model = Regressor(search, inference=mercer.VFE(inducing=40), random_state=0).fit(*rows(130))
    assert model.stopped_ == "time"
    assert any("too short to search" in note for note in model.notes_)
    lower, upper = model.evidence_interval()
    assert np.isfinite(lower)
    assert lower <= upper


def test_the_interval_of_a_fitted_model() -> None:
    X, y = rows(130)
    exact = Regressor("SE(0) + LIN(1)", random_state=0, restarts=1).fit(X, y)
    assert exact.evidence_interval() == (exact.log_evidence_, exact.log_evidence_)
    sparse = Regressor(exact.kernel_, noise=exact.noise_, inference=mercer.VFE(inducing=30), random_state=0)
    lower, upper = sparse.fit(X, y).evidence_interval()
    assert lower == pytest.approx(sparse.log_evidence_)
    assert lower <= exact.log_evidence_ + 1e-3
    assert lower <= upper <= lower + 1
    random = Regressor("SE(0)", inference=mercer.RandomFeatures(count=50), random_state=0, restarts=1)
    with pytest.raises(mercer.InputError, match="random features"):
        random.fit(X, y).evidence_interval()


def test_duplicated_rows_are_searched() -> None:
    X, y = rows(60)
    search = mercer.GrammarSearch(bases=("SE", "LIN"), max_depth=0, restarts=1)
    model = Regressor(search, inference=mercer.VFE(inducing=80), random_state=0)
    model.fit(np.repeat(X, 3, axis=0), np.repeat(y, 3))
    assert all(c.interval is not None and c.interval.lower <= c.interval.upper for c in model.candidates_)


def test_a_buffer_that_is_none() -> None:
    with pytest.raises(mercer.InputError, match="buffer must be a whole number of at least 0"):
        Regressor(mercer.GrammarSearch(buffer=-1)).fit(*rows(30))


def test_ctrl_c_in_a_search_by_intervals_keeps_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, original = [0], intervals.move

    def interrupted(*given: Any) -> object:
        calls[0] += not given[3].fit  # looks, of which there are none at the base kernels
        if calls[0] > 2:
            raise KeyboardInterrupt
        return original(*given)

    monkeypatch.setattr(intervals, "move", interrupted)
    search = mercer.GrammarSearch(bases=("SE", "LIN"), max_depth=2, restarts=1)
    model = Regressor(search, inference=mercer.VFE(inducing=40), random_state=0).fit(*rows(130))
    assert model.stopped_ == "request"
    assert np.isfinite(model.log_evidence_)
    assert any(c.status == "not finished" for c in model.candidates_)


def test_ctrl_c_while_intervals_are_narrowed_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(many_rows, "closest", interrupted)
    search = mercer.GrammarSearch(bases=("SE", "LIN"), max_depth=0, restarts=1)
    model = Regressor(search, inference=mercer.VFE(inducing=40), random_state=0).fit(*rows(130))
    assert model.stopped_ == "request"
    best = winner(model)
    assert best.interval is not None
    assert best.interval.lower - 1e-6 <= exact_log_evidence(model, best) <= best.interval.upper + 1e-6
    assert np.isfinite(best.interval.upper)
