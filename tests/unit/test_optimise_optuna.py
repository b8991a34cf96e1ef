"""The sampler for Optuna: kinds of parameters, directions, failed and pruned trials, parallel ones."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mercer

optuna = pytest.importorskip("optuna")
from mercer.integrations.optuna import MercerSampler, StudyParameter  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.ERROR)


def objective(trial: Any) -> float:
    x = trial.suggest_float("x", -2.0, 2.0)
    rate = trial.suggest_float("rate", 1e-3, 1.0, log=True)
    half = trial.suggest_float("half", 0.0, 3.0, step=0.5)
    count = trial.suggest_int("count", 2, 10, step=2)
    power = trial.suggest_int("power", 1, 64, log=True)
    kind = trial.suggest_categorical("kind", ["a", None, 3, True])
    trial.suggest_float("still", 1.0, 1.0)
    assert half * 2 == int(half * 2)
    assert isinstance(count, int)
    assert count % 2 == 0
    assert isinstance(power, int)
    if trial.number % 3 == 0:
        trial.suggest_float("sometimes", 0.0, 1.0)
    return (x - 0.5) ** 2 + (rate - 0.1) ** 2 + abs(half - 1) + (count - 4) ** 2 / 10 + (kind is not None) + power / 64


def test_all_kinds_of_parameters_and_a_better_result_than_the_first_trials() -> None:
    sampler = MercerSampler(seed=0)
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=18)
    values = [trial.value for trial in study.trials]
    assert min(values[10:]) < min(values[:10])
    assert sampler.optimizer_ is not None
    assert len(sampler.optimizer_.trials_) == 17  # the last one has not been told
    assert "lowest value so far" in str(sampler.optimizer_.explain())


def test_what_is_said_is_in_the_units_of_the_study() -> None:
    space = {"n": optuna.distributions.IntDistribution(100, 500, step=100),
             "s": optuna.distributions.FloatDistribution(0.5, 1.0, step=0.25)}  # fmt: skip
    sampler = MercerSampler(seed=0)
    study = optuna.create_study(sampler=sampler)
    for n, s in ((100, 1.0), (300, 0.75), (500, 0.5)):
        value = abs(n - 300) + s
        study.add_trial(optuna.trial.create_trial(params={"n": n, "s": s}, distributions=space, value=value))
    study.ask(space)
    assert sampler.optimizer_.best_.x == {"n": 300, "s": 0.75} == study.best_params
    assert "n = 300, s = 0.75" in str(sampler.optimizer_.explain())
    assert type(sampler.optimizer_.best_.x["n"]) is int


def test_a_study_with_steps_is_saved(tmp_path: Path) -> None:
    steps = StudyParameter("s", optuna.distributions.FloatDistribution(0.5, 1.0, step=0.25)).input
    optimizer = mercer.Optimizer({"s": steps}, random_state=0)
    optimizer.tell({"s": 0.75}, 1.0)
    optimizer.save(tmp_path / "study.mercer")
    again = mercer.load(tmp_path / "study.mercer")
    assert again.space == optimizer.space
    assert {again.ask()["s"] for _ in range(20)} == {0.5, 0.75, 1.0}


def test_the_sampler_is_reached_by_one_line() -> None:
    lines = (
        "import sys, mercer; assert 'optuna' not in sys.modules; mercer.integrations; "
        "assert 'optuna' not in sys.modules; print(mercer.integrations.optuna.MercerSampler.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "MercerSampler", done.stderr


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_the_direction_of_the_study_is_honoured(direction: str) -> None:
    sign = 1.0 if direction == "minimize" else -1.0
    study = optuna.create_study(direction=direction, sampler=MercerSampler(seed=1))
    study.optimize(lambda trial: sign * (trial.suggest_float("x", 0, 1) - 0.3) ** 2, n_trials=16)
    assert abs(study.best_params["x"] - 0.3) < 0.02


def test_failed_and_pruned_trials_are_told() -> None:
    def sometimes(trial: Any) -> float:
        x = trial.suggest_float("x", 0, 1)
        if trial.number == 2:
            raise ValueError
        trial.report(9.0 if trial.number == 3 else -9.0, 0)
        if trial.number in (3, 4):
            raise optuna.TrialPruned
        return x

    sampler = MercerSampler(seed=0)
    study = optuna.create_study(sampler=sampler)
    study.optimize(sometimes, n_trials=7, catch=(ValueError,))
    told = [value for _, value in sampler.optimizer_.trials_]
    assert told[2] is None  # failed
    assert told[3] == 9.0  # pruned, and worse than the others
    assert told[4] is None  # pruned, with a value that is better than any: of another kind


def test_trials_that_run_at_the_same_time_are_different() -> None:
    sampler = MercerSampler("SE", seed=0)
    study = optuna.create_study(sampler=sampler)
    space = {"x": optuna.distributions.FloatDistribution(0, 1)}
    for k in range(11):
        x = k / 10
        study.add_trial(optuna.trial.create_trial(params={"x": x}, distributions=space, value=(x - 0.45) ** 2))
    running = [study.ask(space) for _ in range(3)]
    assert len({round(trial.params["x"], 6) for trial in running}) == 3
    assert len(sampler.optimizer_.suggestions_) == 3
    for trial in running:
        study.tell(trial, 1.0)


def test_a_study_goes_on_with_a_new_sampler() -> None:
    first = optuna.create_study(sampler=MercerSampler(seed=0))
    first.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=4)
    again = optuna.create_study(sampler=MercerSampler(seed=0))
    again.add_trials(first.trials)
    again.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    values = [trial.value for trial in again.trials]
    assert len(set(values)) == 6


def test_several_values_are_refused() -> None:
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=MercerSampler(seed=0))
    with pytest.raises(mercer.InputError, match="this study has 2"):
        study.ask({"x": optuna.distributions.FloatDistribution(0, 1)})


def test_choices_without_names_are_numbered() -> None:
    choices = ((1, 2), (3, 4))
    with pytest.warns(UserWarning, match="not supported|should be|must be|Choices"):
        parameter = StudyParameter("layers", optuna.distributions.CategoricalDistribution(choices))
    assert parameter.labels == ("choice 0", "choice 1")
    assert parameter.to_value(parameter.to_input((3, 4))) == (3, 4)


def test_a_sampler_is_pickled_and_reseeded() -> None:
    sampler = pickle.loads(pickle.dumps(MercerSampler(seed=0)))
    sampler.reseed_rng()
    assert sampler.seed != 0
    optuna.create_study(sampler=sampler).optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)


def test_without_optuna_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, "mercer.integrations.optuna")
    with pytest.raises(ImportError, match="pip install optuna"):
        importlib.import_module("mercer.integrations.optuna")
