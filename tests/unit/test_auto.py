"""`kernel="auto"`: a learner for every table, with a reason, words for it, and a time that is kept."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.utils import estimator_checks

import mercer
from mercer.errors import InputError
from mercer.estimators.inputs import describe_plan
from mercer.explain.words import CHOSEN, REASONS
from mercer.fitting.minimise import Progress
from mercer.learners.auto import RULES, AutoKernel, AutoPolicy
from mercer.learners.contract import DataFacts
from mercer.model.fitted import LEARNERS

ROWS = 40


@pytest.fixture(scope="module")
def table() -> tuple[pd.DataFrame, pd.Series]:
    day = pd.date_range("2020-01-01", periods=ROWS, freq="MS")
    rng = np.random.default_rng(0)
    return pd.DataFrame({"day": day}), pd.Series(np.arange(ROWS) + rng.normal(size=ROWS), name="sales")


class Quick(mercer.GPRegressor):
    policies = (AutoPolicy(seconds=1.5),)


@pytest.fixture(scope="module")
def model(table: tuple[pd.DataFrame, pd.Series]) -> mercer.GPRegressor:
    return Quick("auto", random_state=0).fit(*table)


FACTS = st.builds(
    DataFacts,
    rows=st.integers(2, 10**7),
    columns=st.integers(1, 500),
    categories=st.integers(0, 3),
    dates=st.integers(0, 2),
    distinct=st.integers(0, 10**6),
    grid=st.sampled_from([(), (10, 10), (100, 200), (2, 3, 4)]),
    in_parts=st.booleans(),
    classes=st.sampled_from([0, 0, 2, 12]),
)


@given(FACTS, st.one_of(st.none(), st.floats(0.5, 1e5), st.just(math.inf)))
@settings(max_examples=60)
def test_every_table_has_a_learner_with_words_and_its_time(facts: DataFacts, budget: float | None) -> None:
    plan = AutoKernel(budget).choose(facts)
    assert plan.learner in LEARNERS
    assert type(plan.kernel) is LEARNERS[plan.learner]
    said = describe_plan(plan, "y").sentence
    assert said.endswith(".")
    assert "{" not in said
    if budget == math.inf:
        assert plan.seconds is None
        assert plan.kernel.seconds_allowed is None
    else:
        usual = AutoPolicy().seconds if facts.rows < AutoPolicy().many_rows else AutoPolicy().many_rows_seconds
        assert plan.seconds == (usual if budget is None else budget)
        assert 0 < plan.kernel.seconds_allowed <= plan.seconds


def test_every_rule_can_be_said() -> None:
    assert {rule.reason for rule in RULES} <= set(REASONS)
    assert {rule.learner for rule in RULES} <= set(CHOSEN)
    assert RULES[-1].holds(DataFacts(2, 1), None, AutoPolicy())


@pytest.mark.parametrize(
    ("facts", "seconds", "learner"),
    [
        (DataFacts(144, 1, dates=1), None, "search"),
        (DataFacts(5000, 1), None, "search"),
        (DataFacts(200, 4), None, "search"),
        (DataFacts(5000, 4), None, "nkn"),
        (DataFacts(5000, 4), 20.0, "search"),
        (DataFacts(5000, 4), math.inf, "search"),
        (DataFacts(5000, 12), None, "search"),
        (DataFacts(10**6, 4), None, "search"),
        (DataFacts(10**8, 4, in_parts=True), None, "search"),
        (DataFacts(300, 4, classes=3), None, "kfo"),
    ],
)
def test_what_is_chosen(facts: DataFacts, seconds: float | None, learner: str) -> None:
    assert AutoKernel(seconds).choose(facts).learner == learner


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (DataFacts(60, 1, categories=1), "with one input of categories and 60 rows a search sees which"),
        (DataFacts(60, 2, categories=2), "with 2 inputs of categories and 60 rows"),
        (DataFacts(60, 1, dates=1), "with one input of dates and 60 rows a search sees trends"),
        (DataFacts(60, 5, categories=2, dates=1), "with 5 inputs (1 of dates, 2 of categories) and 60 rows"),
        (DataFacts(600, 2, grid=(30, 20)), "with 2 inputs on a grid of 30 x 20 and 600 rows"),
        (DataFacts(5000, 4, categories=4), "with 4 inputs of categories and 5,000 rows a search"),
    ],
)
def test_the_reason_is_true_of_the_table(facts: DataFacts, said: str) -> None:
    assert said in describe_plan(AutoKernel().choose(facts), "y").sentence


def test_what_was_chosen_is_a_fact_and_a_sentence(model: mercer.GPRegressor) -> None:
    found = model.explain()
    assert found.chosen is not None
    assert found.chosen.facts == DataFacts(ROWS, 1, dates=1, distinct=ROWS)
    assert found.chosen.took == model.fit_seconds_
    assert found.chosen.sentence in " ".join(found.to_text(10_000).split())
    assert found.to_json()["chosen"]["facts"]["rows"] == ROWS
    assert [claim.kind for claim in found.claims].count("chosen learner") == 1


def test_a_file_keeps_the_choice(model: mercer.GPRegressor, tmp_path: Path) -> None:
    model.save(tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    assert again.explain().chosen == model.explain().chosen
    assert again.kernel == "auto"


def test_it_is_a_setting_like_any_other(model: mercer.GPRegressor, table: tuple[pd.DataFrame, pd.Series]) -> None:
    given = mercer.GPRegressor(AutoKernel(time_budget=5.0))
    assert clone(given).kernel == given.kernel
    assert given.set_params(kernel__time_budget=7.0).kernel.time_budget == 7.0
    assert clone(mercer.GPRegressor("auto")).get_params()["kernel"] == "auto"
    again = pickle.loads(pickle.dumps(mercer.GPRegressor("auto")))
    assert again.kernel == "auto"
    with pytest.raises(InputError, match=r"mercer\.AutoKernel\(time_budget=5\)"):
        mercer.GPRegressor("auto").set_params(kernel__time_budget=5)


@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_estimator_cloneable,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_set_params,
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_parameters_default_constructible,
        estimator_checks.check_estimators_pickle,
        estimator_checks.check_dict_unchanged,
    ],
)
def test_scikit_learn_takes_it_for_an_estimator(check: Callable[[str, object], None]) -> None:
    check("GPRegressor", mercer.GPRegressor(AutoKernel(time_budget=0.3), random_state=0))


def test_a_plan_says_it_before_and_learns_nothing(table: tuple[pd.DataFrame, pd.Series]) -> None:
    model, seen = Quick("auto", random_state=0), list[Progress]()
    plan = model.plan(*table)
    assert not hasattr(model, "fitted_")
    assert not hasattr(model, "n_features_in_")
    assert plan.seconds == 1.5
    assert "at most 1.5 seconds" in str(plan)
    assert str(plan) in plan._repr_html_()
    with pytest.raises(KeyboardInterrupt):
        model.fit(*table, progress=lambda state: seen.append(state) or stop())
    assert seen[0].announcement == plan.sentence


def stop() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("budget", [0, -1.0, math.nan, "a minute"])
def test_a_time_that_is_none_is_refused(table: tuple[pd.DataFrame, pd.Series], budget: object) -> None:
    with pytest.raises(InputError, match="time_budget must be a number of seconds greater than zero"):
        mercer.GPRegressor(AutoKernel(budget)).fit(*table)  # type: ignore[arg-type]


def test_a_plan_needs_something_to_choose(table: tuple[pd.DataFrame, pd.Series]) -> None:
    with pytest.raises(InputError, match="leaves nothing to choose"):
        mercer.GPRegressor("SE").plan(*table)


def test_classes_have_a_choice_too() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    model = mercer.KernelSVC(AutoKernel(time_budget=1.5), random_state=0).fit(X, (X[:, 0] > 0).astype(int))
    chosen = model.explain().chosen
    assert chosen is not None
    assert chosen.facts.classes == 2
    assert chosen.sentence in " ".join(model.explain().to_text(10_000).split())


def test_a_network_ends_when_its_time_does() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(120, 3))
    network = mercer.NeuralKernelNetwork(time_budget=0.05, restarts=4)
    model = mercer.GPRegressor(network, random_state=0).fit(X, np.sin(6 * X[:, 0]) + X[:, 1])
    assert model.stopped_ == "time"
    assert np.isfinite(model.predict(X)).all()
    assert any("time budget of 0.05 s" in note for note in model.notes_)
    with pytest.raises(InputError, match="time_budget"):
        mercer.GPRegressor(mercer.NeuralKernelNetwork(time_budget=-1)).fit(X, X[:, 0])


def test_a_search_with_little_time_weighs_without_forecasts(table: tuple[pd.DataFrame, pd.Series]) -> None:
    model = mercer.GPRegressor(mercer.GrammarSearch(time_budget=1e-3), random_state=0).fit(*table)
    assert model.stopped_ == "time"
    assert np.isfinite(model.predict(table[0])).all()
