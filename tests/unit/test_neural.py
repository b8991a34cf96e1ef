"""The neural kernel network as a learner: what it finds, that its result depends on the seed alone, how it fails."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import mercer
from mercer.compute.backend import backend_for
from mercer.errors import InputError, KernelError, NumericalError, TooLargeError
from mercer.fitting.minimise import adam
from mercer.inference.contract import Data, Evidence
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.kernels import SE, Network, bind, layout, structure
from mercer.learners.contract import Context
from mercer.learners.nkn import (
    NetworkTask,
    NeuralKernelNetwork,
    TrainingPolicy,
    begin_at_distances,
    plan_rungs,
    typical_distances,
)

SMALL = {"primitives": "SE + PER + LIN", "layers": "Linear4-Product2-Linear1", "restarts": 3, "max_iterations": 60}


def season(rows: int = 60, seed: int = 0, free_level: bool = True) -> Data:
    rng = np.random.default_rng(seed)
    x = np.linspace(-1.7, 1.7, rows)
    y = np.sin(2 * math.pi * x / 0.5) + 0.6 * x + 0.1 * rng.standard_normal(rows)
    return Data(x[:, None], (y - y.mean()) / y.std(), free_level)


def surface(rows: int = 50, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 2))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(rows)
    return Data(X, (y - y.mean()) / y.std(), True)


def learned(data, engine=None, jobs=None, report=None, seed=0, device="cpu", noise=None, policies=(), **given):
    columns, backend = list(range(data.X.shape[1])), backend_for(device)
    context = Context(data, engine or Exact(), columns, seed, jobs, report, backend, noise, policies=policies)
    return NeuralKernelNetwork(**(SMALL | given)).learn(context)


# ---------------------------------------------------------------------------------------------------- what it finds


def test_a_season_and_a_trend_are_continued():
    data = season(80)
    known = data.X[:, 0] < 1.2
    found = learned(data.take(known), restarts=4, max_iterations=100)
    posterior = Exact().posterior(*_fitted(found.fit), data.take(known))
    error = posterior.predict(data.X[~known]).mean - data.y[~known]
    assert np.sqrt(np.mean(error**2)) < 0.25
    periods = [leaf.parameter("period").values[0] for leaf in found.fit.expression.leaves() if leaf.symbol == "PER"]
    assert any(abs(k * p - 0.5) < 0.02 for p in periods for k in (1, 2, 3))


def test_two_columns_of_which_each_does_its_own():
    data, new = surface(80), surface(40, seed=1)
    found = learned(data, primitives=None, restarts=2)
    error = Exact().posterior(*_fitted(found.fit), data).predict(new.X).mean - new.y
    assert np.sqrt(np.mean(error**2)) < 0.35
    assert {leaf.symbol for leaf in found.fit.expression.leaves()} == {"RQ", "SE", "LIN"}


def _fitted(fit):
    from mercer.compute.program import compile_program

    return compile_program(fit.expression), fit.values, Gaussian(fit.noise)


def test_the_winner_has_the_best_leave_one_out_score_of_those_at_their_end():
    found = learned(season())
    finished = [c for c in found.candidates if c.status not in ("raced out", "failed")]
    assert -2 * found.fit.leave_one_out == min(c.score for c in finished)
    assert len(found.candidates) == SMALL["restarts"]
    assert all(c.depth == 0 and c.parent is None and c.seconds > 0 for c in found.candidates)
    assert len(found.members) == len(found.weights.within) == len(finished)
    assert_allclose(sum(found.weights.within), 1.0)


def test_the_winner_by_evidence():
    found = learned(season(), selection="evidence", average=False)
    finished = [c for c in found.candidates if c.status != "raced out"]
    assert found.fit.log_evidence == max(c.log_evidence for c in finished)
    assert len(found.members) == 1


def test_beyond_the_data_the_weights_are_those_of_forecasts():
    found = learned(season(50))
    assert found.weights.column == 0
    assert_allclose(sum(found.weights.beyond), 1.0)
    assert all(wide >= 1.0 for wide in found.weights.widening)
    several = learned(surface(50), primitives="2*SE + LIN", max_iterations=45)
    assert several.weights.column is None


# ------------------------------------------------------------------------------------------------------ the networks


@pytest.mark.parametrize(("columns", "count"), [(1, 111), (3, 4 * 3 + 85)])
def test_the_networks_of_the_paper_have_its_parameter_counts(columns, count):
    network = NeuralKernelNetwork.paper().network(list(range(columns)))
    assert layout(network).n_free == count


def test_the_default_networks_stand_on_the_columns_that_vary():
    for settings in ({}, {"variances": True}):
        network = NeuralKernelNetwork(**settings).network([0, 2], 3)
        assert {leaf.dims for leaf in network.leaves()} == {(0, 2)}
        network = NeuralKernelNetwork(**settings).network([1], 3)
        assert [leaf.symbol for leaf in network.leaves()] == ["SE"] * 2 + ["PER"] * 2 + ["LIN"] * 2 + ["RQ"] * 2


def test_an_activation_follows_every_product():
    network = NeuralKernelNetwork(activation="Exp").network([0])
    assert network.architecture == "Linear8-Product4-Exp-Linear4-Product2-Exp-Linear1"
    found = learned(season(30), activation="Poly(0.0, 1.0, 0.5)", restarts=1, max_iterations=5)
    assert "Poly" in found.fit.expression.architecture


def test_a_complex_network_can_be_trained():
    found = learned(season(30), primitives="EXPI + SE", restarts=1, max_iterations=10)
    assert found.fit.expression.complex
    assert math.isfinite(found.fit.log_evidence)


# ------------------------------------------------------------------------------------------------------------ starts


def test_a_start_is_as_large_as_the_target_and_starts_differ():
    data = season()
    task = NetworkTask(NeuralKernelNetwork().network([0]), Exact())
    problem = task.problem(data)
    points = [task.first_point(problem, i) for i in range(4)]
    for point in points:
        values, likelihood = problem.split(point)
        from mercer.compute.fused import gram

        K = gram(problem.program, values, data.X)
        assert 0.3 < np.mean(np.diagonal(K)) - np.mean(K) < 3.0
        assert 0.001 < likelihood.noise < 1.0
    assert all(np.abs(points[0] - other).max() > 0.5 for other in points[1:])


@pytest.mark.filterwarnings("error")
def test_starts_at_the_distances_of_rows():
    data = surface(40)
    network = begin_at_distances(NeuralKernelNetwork().network([0, 1]), data.X)
    for number, column in enumerate(data.X.T):
        apart = np.median([abs(a - b) for a in column for b in column]) * 2**0.5
        first, second, *broad = [leaf.value("lengthscale")[number] for symbol in ("SE", "RQ")
                                 for leaf in network.leaves() if leaf.symbol == symbol]  # fmt: skip
        assert_allclose([first, second, *broad], [apart / 6, apart * 2 / 3, apart / 3, apart / 3])
    assert all(leaf.value("offset") is None for leaf in network.leaves() if leaf.symbol == "LIN")


def test_where_most_rows_share_a_value_a_unit_stands_in():
    X = np.column_stack([np.r_[np.zeros(30), np.ones(4)], np.arange(34.0), np.zeros(34)])
    network = begin_at_distances(NeuralKernelNetwork(primitives="SE").network([0, 1, 2]), X)
    assert_allclose(np.array(network.primitives[0].value("lengthscale"))[[0, 2]], 1 / 3)


def test_rows_that_are_all_alike_can_be_begun_at_their_distances():
    data = Data(np.zeros((20, 2)), np.random.default_rng(0).standard_normal(20), True)
    assert np.isfinite(learned(data, lengthscales="distances", primitives="2*SE + LIN").fit.log_evidence)


def test_periods_are_not_begun_at_distances():
    network = NeuralKernelNetwork(primitives="PER + LIN", layers="Linear4-Product2-Linear1").network([0, 1])
    assert begin_at_distances(network, surface().X) == network


def test_distances_of_many_rows_are_those_of_some():
    X = np.random.default_rng(0).standard_normal((5000, 2))
    assert_allclose(typical_distances(X), 0.954 * 2**0.5, rtol=0.05)  # the median of |N(0, 2)| is .954


def test_lengthscales_that_are_given_and_those_of_one_column_stay():
    primitives = ["SE(lengthscale=[2, 3])", "SE(0)", "PER(0)"]
    network = NeuralKernelNetwork(primitives=primitives).network([0, 1])
    assert begin_at_distances(network, surface().X) == network


def test_distances_change_the_start_and_are_kept_among_the_settings():
    given = {"primitives": "SE + LIN", "restarts": 1, "max_iterations": 3, "average": False}
    near, drawn = (learned(surface(), lengthscales=way, **given) for way in ("distances", "range"))
    assert near.fit.log_evidence != drawn.fit.log_evidence
    assert NeuralKernelNetwork(lengthscales="distances").describe()["lengthscales"] == "distances"


def test_starts_of_a_network_with_exp_are_not_lost_in_its_size():
    data = season()
    task = NetworkTask(NeuralKernelNetwork(activation="Exp").network([0]), Exact())
    problem = task.problem(data)
    for number in range(4):
        point = task.first_point(problem, number)
        assert problem.evidence(point).value > -3.0 * data.count  # noise alone: about -1.4


def test_many_rows_run_on_a_sample_first():
    policy, learner = TrainingPolicy(), NeuralKernelNetwork(max_iterations=300)
    many = plan_rungs(learner, policy.many_rows + 1, policy)
    assert [rung.starts for rung in plan_rungs(learner, 100, policy)] == [8, 4]
    assert [rung.starts for rung in many] == [8, 3]
    assert [rung.sample for rung in many] == [True, False]
    alone = [{"restarts": 1}, {"optimiser": "adam"}, {"max_iterations": policy.first_iterations}]
    assert [len(plan_rungs(replace(learner, **changes), 100, policy)) for changes in alone] == [1, 1, 1]


def test_the_first_rung_of_many_rows():
    found = learned(season(60), restarts=5, policies=(TrainingPolicy(many_rows=50, sample=40),))
    behind = [c for c in found.candidates if c.status == "raced out"]
    assert len(behind) == 3
    assert all(c.score == math.inf and math.isfinite(c.log_evidence) for c in behind)
    assert TrainingPolicy().sample < TrainingPolicy().many_rows


# -------------------------------------------------------------------------------------------------- always the same


def test_the_same_seed_gives_the_same_network_for_any_number_of_jobs():
    one, two = learned(season(40)), learned(season(40), jobs=2)
    # to rounding, and a network has flat directions in which rounding grows
    assert structure(one.fit.expression) == structure(two.fit.expression)
    assert one.fit.log_evidence == pytest.approx(two.fit.log_evidence, abs=0.5)
    np.testing.assert_allclose(one.weights.within, two.weights.within, atol=0.05)
    assert learned(season(40), seed=1).candidates[1].expression != one.candidates[1].expression


def test_all_starts_in_one_batch_find_what_they_find_one_by_one():
    pytest.importorskip("botorch")
    data = season(30)
    alone = learned(data, max_iterations=15, restarts=2)
    together = learned(data, max_iterations=15, restarts=2, device="cpu:0")
    for ours, theirs in zip(together.candidates, alone.candidates, strict=True):
        assert_allclose(ours.log_evidence, theirs.log_evidence, rtol=0.02, atol=0.5)


def test_adam_in_one_batch():
    pytest.importorskip("botorch")
    settings = {"optimiser": "adam", "max_iterations": 20, "restarts": 2, "learning_rate": 0.05}
    together = learned(season(30), device="cpu:0", **settings)
    alone = learned(season(30), **settings)
    assert_allclose(together.fit.log_evidence, alone.fit.log_evidence, rtol=1e-6)


def test_a_known_noise_stays_in_one_batch():
    pytest.importorskip("botorch")
    found = learned(season(30), device="cpu:0", noise=0.3, restarts=2, max_iterations=10)
    assert [fit.noise for fit in found.members] == [0.3] * len(found.members)


# ------------------------------------------------------------------------------------------------------------- Adam


def test_adam_goes_downhill_and_stays_within_the_bounds():
    task = NetworkTask(NeuralKernelNetwork(**SMALL).network([0]), Exact())
    problem = task.problem(season(40))
    point = task.first_point(problem, 0)
    run = adam(problem, [point], 60, 0.05)[0]
    assert run.value < problem.loss(point)[0] - 5
    assert (run.point >= problem.bounds[:, 0]).all()
    assert (run.point <= problem.bounds[:, 1]).all()
    assert_allclose(problem.loss(run.point)[0], run.value)


def test_the_way_of_the_paper():
    learner = NeuralKernelNetwork.paper(max_iterations=30, learning_rate=0.05)
    found = learner.learn(Context(season(30), Exact(), [0]))
    assert found.fit.parameters == 112  # and the noise
    assert len(found.candidates) == 1
    assert found.fit.status == "stopped"
    assert NeuralKernelNetwork.paper().describe()["optimiser"] == "adam"


# ---------------------------------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"restarts": 0}, "restarts must be a whole number of at least 1"),
        ({"restarts": 2.5}, "restarts must be a whole number"),
        ({"max_iterations": 0}, "max_iterations must be"),
        ({"selection": "bic"}, "selection must be 'loo' or 'evidence', not 'bic'"),
        ({"optimiser": "sgd"}, "optimiser must be 'lbfgs' or 'adam', not 'sgd'"),
        ({"lengthscales": "short"}, "lengthscales must be 'range' or 'distances', not 'short'"),
        ({"priors": "strong"}, "priors must be 'weak' or None, not 'strong'"),
        ({"learning_rate": 0}, "learning_rate must be a number between 0 and 1"),
        ({"layers": "Linear7-Product4-Linear1"}, "7 is not divisible by 4"),
        ({"layers": "Linear8-Product4"}, "add -Linear1"),
        ({"layers": None}, "cannot read the layers None"),
        ({"activation": "Tanh"}, "activation must be 'Exp', 'Poly(c0, c1, ...)' or None, not 'Tanh'"),
        ({"activation": "Linear3"}, "activation must be 'Exp'"),
        ({"activation": "Poly(0, 1)-Linear3"}, "activation must be 'Exp'"),
        ({"activation": 3}, "activation must be 'Exp'"),
        ({"activation": "Exp", "layers": "Linear4-Linear1"}, "Linear4-Linear1 has none"),
        ({"average": "no"}, "average must be True or False, not 'no'"),
        ({"complex": "yes"}, "complex must be True or False"),
        ({"primitives": 5}, "primitives are a text"),
        ({"primitives": "2*SE + FOO"}, "FOO"),
        ({"primitives": []}, "1 to 1000 primitive kernels"),
    ],
)
def test_settings_that_cannot_be_used_are_named(settings, said):
    with pytest.raises(InputError, match=re.escape(said)):
        learned(season(20), **settings)


def test_a_column_that_is_not_there():
    with pytest.raises(KernelError, match="dimension 3"):
        learned(season(20), primitives="SE(0) + SE(3)")


def test_too_many_rows_for_exact_inference_are_refused_with_advice():
    x = np.linspace(0, 1, 2001)
    with pytest.raises(TooLargeError, match=r"2,001 rows .* at most 2,000 rows.* leave inference='auto'"):
        mercer.GPRegressor(kernel="nkn", inference=mercer.Exact()).fit(x[:, None], np.sin(x))


def test_more_rows_than_can_be_trained_on_are_learned_from_a_sample():
    x = np.linspace(0, 1, 2001)
    learner = NeuralKernelNetwork(primitives="SE + LIN", layers="Linear1", restarts=1, max_iterations=10)
    model = mercer.GPRegressor(kernel=learner, random_state=0).fit(x[:, None], np.sin(9 * x))
    assert isinstance(model.inference_.engine, mercer.VFE)
    assert np.abs(model.predict(x[:, None]) - np.sin(9 * x)).max() < 0.05


def test_no_cuda_device_is_said_at_once():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(InputError, match="no CUDA device"):
        learned(season(20), device="cuda")


def test_a_start_that_fails_is_a_row_with_a_reason_and_all_failing_is_an_error():
    class Broken(Exact):
        def evidence(self, program, values, likelihood, data, gradient=True):
            return Evidence(-math.inf, failure="broken on purpose")

    with pytest.raises(NumericalError, match="broken on purpose"):
        NeuralKernelNetwork(**SMALL).learn(Context(season(20), Broken(), [0]))


@pytest.mark.parametrize("after", [1, 5, 6])
def test_ctrl_c_returns_the_best_so_far(after):
    seen = []

    def stop(state):
        seen.append(state)
        if len(seen) == after:
            raise KeyboardInterrupt

    small = TrainingPolicy(many_rows=30, sample=25)
    found = learned(season(40), report=stop, restarts=5, policies=(small,))  # two of the five go on
    assert found.stopped == "request"
    assert any("stopped on request" in note for note in found.notes)
    assert math.isfinite(found.fit.leave_one_out)
    assert len(found.candidates) == min(after, 5)
    assert any(c.status == "interrupted" for c in found.candidates)


def test_ctrl_c_before_anything_is_finished():
    class Interrupted(Exact):
        def evidence(self, *arguments, **named):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learned(season(20), Interrupted())


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_while_the_networks_are_weighed_keeps_the_best(jobs):
    class Interrupted(Exact):
        def posterior(self, *arguments):
            raise KeyboardInterrupt

    found = learned(season(30), Interrupted(), jobs=jobs, max_iterations=10)
    assert found.stopped == "request"
    assert len(found.members) == len(found.weights.within) == 1
    assert found.members[0] is found.fit
    assert any("weighing of the networks was stopped on request" in note for note in found.notes)


# ---------------------------------------------------------------------------------------------------- the estimator


@pytest.mark.parametrize("optimiser", ["lbfgs", "adam"])
def test_a_noise_that_is_known_stays(optimiser):
    data, rate = season(50), 0.05
    learner = NeuralKernelNetwork(
        **(SMALL | {"restarts": 2, "max_iterations": 45, "optimiser": optimiser, "learning_rate": rate})
    )
    model = mercer.GPRegressor(kernel=learner, noise=0.4, random_state=0).fit(data.X, 3.0 * data.y)
    assert_allclose(model.noise_, 0.4)
    assert_allclose([member.noise for member in model.fitted_.mixture.members], 0.4 / np.var(3.0 * data.y))
    fitted = mercer.GPRegressor(kernel=learner, random_state=0).fit(data.X, 3.0 * data.y)
    assert fitted.n_parameters_ == model.n_parameters_ + 1
    assert abs(fitted.noise_ - 0.4) > 0.05
    assert_allclose(model.distil(time_budget=1e-9).noise_, 0.4)


def test_values_of_primitives_are_in_the_units_of_the_data():
    months = np.arange(48.0)
    y = 500.0 + 40.0 * np.sin(2 * math.pi * months / 12.0)
    primitives = [mercer.kernels.PER(0, period=mercer.kernels.fixed(12.0)), "SE(0, lengthscale=fixed(30))"]
    learner = NeuralKernelNetwork(**(SMALL | {"primitives": primitives, "max_iterations": 20}))
    model = mercer.GPRegressor(kernel=learner, random_state=0).fit(months[:, None], y)
    wave, smooth = model.kernel_.leaves()
    assert_allclose(wave.parameter("period").values, 12.0)
    assert_allclose(smooth.parameter("lengthscale").values, 30.0)
    assert model.kernel is learner
    two = NeuralKernelNetwork(**(SMALL | {"primitives": "SE(0, lengthscale=fixed(7))", "layers": "Linear1"}))
    classes = mercer.KernelSVC(kernel=two, random_state=0).fit(months[:, None], np.where(y > 500.0, "high", "low"))
    (leaf,) = classes.kernel_.leaves()
    assert_allclose(leaf.parameter("lengthscale").values, 7.0)


def test_primitives_may_name_columns():
    data = surface(30)
    table = pd.DataFrame({"heat": 20.0 + 5.0 * data.X[:, 0], "load": data.X[:, 1]})
    learner = NeuralKernelNetwork(**(SMALL | {"primitives": "SE(load) + LIN(heat)", "max_iterations": 10}))
    model = mercer.GPRegressor(kernel=learner, random_state=0).fit(table, data.y)
    assert [leaf.dims for leaf in model.kernel_.leaves()] == [(1,), (0,)]
    with pytest.raises(KernelError, match="cold"):
        mercer.GPRegressor(kernel=replace(learner, primitives="SE(cold)")).fit(table, data.y)


@pytest.mark.parametrize("activation", [None, "Exp"])
def test_primitives_name_columns(activation):
    learner = NeuralKernelNetwork(
        primitives="SE(month) + LIN", layers="Linear2-Product2-Linear1", activation=activation
    )
    assert [p.columns for p in learner.network([0, 1], 2, ["day", "month"]).primitives] == [(1,), (0, 1)]


@pytest.mark.parametrize("kernel", ["search", "surface"])
def test_learners_that_fit_the_noise_say_so(kernel):
    data = season(20)
    with pytest.raises(InputError, match="fits the noise and cannot keep a known one: leave noise=None"):
        mercer.GPRegressor(kernel=kernel, noise=0.4).fit(data.X, data.y)


def test_a_trained_network_is_saved_with_its_settings_and_read_back(tmp_path: Path):
    data = season(40)
    learner = NeuralKernelNetwork(**(SMALL | {"primitives": [SE(0), SE(0, lengthscale=2.0) + SE(0)]}))
    model = mercer.GPRegressor(kernel=learner, random_state=0).fit(data.X, data.y)
    assert isinstance(model.kernel_, Network)
    assert len(model.kernel_.polynomial(top=3)) == 3
    model.save(tmp_path / "network.mercer")
    again = mercer.load(tmp_path / "network.mercer")
    assert_allclose(again.predict(data.X), model.predict(data.X), rtol=1e-6, atol=1e-8)
    assert again.kernel.describe() == learner.describe()
    assert again.kernel.network([0]) == learner.network([0])
    assert [c.status for c in again.candidates_] == [c.status for c in model.candidates_]
    json.dumps(learner.describe())
    assert bind(again.kernel_, 1) == model.kernel_


def test_progress_is_told():
    told = []
    learned(season(30), report=told.append)
    assert [(p.rung, p.done, p.total) for p in told] == [(0, 1, 3), (0, 2, 3), (0, 3, 3), (1, 1, 2), (1, 2, 2)]
    assert all(isinstance(p.best, Network) and math.isfinite(p.score) for p in told)
