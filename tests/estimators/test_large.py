"""Many rows through the same calls: which engine, that it agrees with exact inference, what it says about itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.policies import regressor_with

import mercer
from mercer.compute.program import compile_program
from mercer.errors import InputError
from mercer.fitting.minimise import Clock, fit
from mercer.fitting.problem import Fit, FitOptions
from mercer.inference import choose as choose_module
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.inference.vfe import VFE
from mercer.kernels import bind, parse
from mercer.kernels.algebra import structure
from mercer.kernels.parameters import to_scaled_units, values_of
from mercer.learners.contract import Context, Learned, Weights
from mercer.learners.grammar import SearchPolicy
from mercer.learners.many_rows import AllRows, ManyRowsPolicy, fit_to_all

Regressor = regressor_with(ManyRowsPolicy(sample=120))


def rows(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (count, 2))
    return X, np.sin(X[:, 0]) + 0.2 * X[:, 1] + 0.1 * rng.normal(size=count)


@pytest.mark.parametrize("engine", [mercer.VFE(inducing=60), mercer.RandomFeatures(count=200)])
def test_large_engines_agree_with_exact_inference(engine: object) -> None:
    X, y = rows(400)
    new, _ = rows(50, seed=1)
    exact = Regressor("SE(0) + LIN(1)", random_state=0).fit(X, y)
    other = Regressor("SE(0) + LIN(1)", inference=engine, random_state=0).fit(X, y)
    mean, std = exact.predict(new, return_std=True)
    found, spread = other.predict(new, return_std=True)
    np.testing.assert_allclose(found, mean, atol=0.03)
    np.testing.assert_allclose(spread, std, rtol=0.1)
    assert other.log_evidence_ == pytest.approx(exact.log_evidence_, abs=3)
    assert other.loo_ == pytest.approx(exact.loo_, abs=3)
    assert "120 of the 400 rows" in other.notes_[0]


def test_many_rows_choose_the_sparse_engine_and_few_the_exact_one() -> None:
    policy = choose_module.ChoicePolicy(exact_rows=300)
    many = regressor_with(ManyRowsPolicy(sample=120), policy)("SE(0) + LIN(1)", random_state=0).fit(*rows(301))
    assert many.inference_.engine == mercer.VFE(predicting=500)
    assert "301 rows" in many.inference_.reason
    assert Regressor("LIN").fit(*rows(300)).inference_.engine == mercer.Exact()
    insisted = Regressor("LIN", inference=mercer.Exact()).fit(*rows(301))
    assert insisted.inference_.engine == mercer.Exact()
    assert not insisted.notes_


def test_more_inducing_points_than_rows_is_exact() -> None:
    model = Regressor("LIN", inference=mercer.VFE(inducing=500)).fit(*rows(60))
    assert model.inference_.engine == mercer.Exact()
    assert "60 rows are no more than 500" in model.inference_.reason


def test_a_network_gets_more_inducing_points_where_rows_are_not_too_many() -> None:
    assert choose_module.choose(9000).engine == mercer.VFE(inducing=500, predicting=2000)
    assert choose_module.choose(2400, learner_rows=2000).engine == mercer.VFE(800, joint=False, predicting=1600)
    many = choose_module.choose(9000, learner_rows=2000)
    assert many.engine == mercer.VFE(inducing=2000, joint=False, predicting=4000)
    assert "2000 inducing points (4,000 for predictions)" in many.reason
    assert choose_module.choose(40_000, learner_rows=2000).engine == mercer.VFE(inducing=500)
    assert choose_module.choose(4000, mercer.VFE(inducing=50), learner_rows=2000).engine == mercer.VFE(inducing=50)


def test_a_search_on_many_rows_tells_its_story() -> None:
    X, y = rows(250)
    policy = SearchPolicy(every_column=False, first_parents=1)
    search = mercer.GrammarSearch(bases=["SE", "LIN"], max_depth=1, policy=policy)
    model = Regressor(search, inference=mercer.VFE(inducing=25), random_state=0).fit(X, y)
    explanation = model.explain()
    assert explanation.search is not None
    assert explanation.search.path[-1].kernel == explanation.expression
    assert any("250 rows does not compute the exact evidence" in note for note in model.notes_)
    assert sum(member.within for member in model.fitted_.mixture.members) == pytest.approx(1)
    assert len(model.fitted_.mixture.members) <= ManyRowsPolicy().members


def test_a_network_on_many_rows() -> None:
    X, y = rows(300)
    network = mercer.NeuralKernelNetwork(primitives="SE + LIN", layers="Linear2-Linear1", restarts=2)
    model = Regressor(network, inference=mercer.VFE(inducing=50), random_state=0).fit(X, y)
    assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) < 0.2


def test_more_points_for_predictions_bring_them_nearer_to_exact_ones(tmp_path) -> None:
    X, y = rows(300)
    y = y + np.sin(8 * X[:, 0])  # too much for a few points
    models = [Regressor("SE(0, lengthscale=fixed(0.3)) + LIN(1)", inference=mercer.VFE(12, predicting=more),
                                 random_state=0).fit(X, y) for more in (None, 100)]  # fmt: skip
    few, many = models
    assert many.kernel_ == few.kernel_
    assert many.noise_ == few.noise_
    assert many.log_evidence_ > few.log_evidence_ + 10
    kernel, data = to_scaled_units(many.kernel_, many.fitted_.units), many.fitted_.training.data
    program, noise = compile_program(kernel), many.noise_ / many.fitted_.units.y_scale**2
    exact = Exact().posterior(program, values_of(kernel), Gaussian(noise), data).predict(data.X).mean
    missed = [np.abs(m.fitted_.mixture.members[0].posterior.predict(data.X).mean - exact).max() for m in models]
    assert missed[1] < 0.2 * missed[0]
    many.save(tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    assert again.inference == mercer.VFE(inducing=12, predicting=100)
    np.testing.assert_allclose(again.predict(X[:20]), many.predict(X[:20]), rtol=1e-7)


@pytest.mark.parametrize(("clock", "points"), [(Clock(), 40), (Clock(1e6), 40), (Clock(1e-9), 10)])
def test_a_time_budget_that_is_spent_predicts_by_the_points_of_the_fit(clock: Clock, points: int) -> None:
    X, y = rows(200)
    data = Data(X, y - y.mean())
    kernel, some = bind(parse("M12(0) + M12(1)"), 2), data.take(np.arange(200) < 60)
    found = fit(kernel, some, Exact(), FitOptions(max_iterations=20))
    scored = AllRows(data, mercer.VFE(10, predicting=40), FitOptions(), clock=clock).score(found)
    assert scored.held.Z.shape == (points, 2)
    assert scored.status != "failed"


def test_points_that_moved_stay_where_more_of_the_rows_are_worth_less() -> None:
    draw = np.random.default_rng(0)
    X = draw.uniform(0, 6, (600, 3))
    y = np.sin(3 * X[:, 0]) + np.sin(X.sum(axis=1)) + 0.05 * draw.normal(size=600)
    few, more = (
        Regressor("SE(0, 1, 2)", inference=mercer.VFE(20, predicting=count), random_state=0).fit(X, y)
        for count in (None, 22)
    )
    assert more.log_evidence_ >= few.log_evidence_
    assert np.std(more.predict(X) - y) < 1.05 * np.std(few.predict(X) - y)


@pytest.mark.parametrize(
    "engine",
    ["auto", mercer.Exact(), mercer.VFE(inducing=40), mercer.VFE(inducing=40, joint=False, predicting=80),
     mercer.RandomFeatures(count=100)],
)  # fmt: skip
def test_a_saved_model_predicts_the_same(engine: object, tmp_path) -> None:
    X, y = rows(200)
    model = Regressor("SE(0) + LIN(1)", inference=engine, random_state=0).fit(X, y)
    model.save(tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    assert again.inference == engine
    np.testing.assert_allclose(again.predict(X[:20]), model.predict(X[:20]), rtol=1e-7)


def test_known_noise_and_fixed_values_stay() -> None:
    X, y = rows(300)
    model = Regressor(
        "SE(0, lengthscale=fixed(2)) + LIN(1)", noise=0.01, inference=mercer.VFE(inducing=50), random_state=0
    ).fit(X, y)
    assert model.noise_ == pytest.approx(0.01)
    assert next(iter(model.kernel_.leaves())).value("lengthscale") == pytest.approx(2.0)


@pytest.mark.parametrize("wrong", ["sparse", 3, None, mercer.VFE])
def test_an_engine_that_is_none(wrong: object) -> None:
    with pytest.raises(InputError, match="inference must be 'auto'"):
        Regressor("SE", inference=wrong).fit(*rows(20))
    with pytest.raises(InputError, match="at least 1"):
        mercer.VFE(inducing=0)


@pytest.mark.parametrize("wrong", [0, True, 1.5, "all"])
def test_a_number_of_jobs_that_is_none(wrong: Any) -> None:
    with pytest.raises(InputError, match="n_jobs must be None or 1"):
        mercer.VFE(n_jobs=wrong)


@pytest.mark.parametrize("engine", [VFE(inducing=np.int64(40)), mercer.RandomFeatures(count=np.int64(40))])  # type: ignore[arg-type]
def test_integers_of_numpy_are_saved_and_told_as_numbers(engine: Any, tmp_path: Any) -> None:
    model = Regressor("SE(0)", inference=engine, restarts=1, random_state=0).fit(*rows(130))
    assert "int64" not in model.inference_.reason
    model.save(tmp_path / "model.mercer")
    assert mercer.load(tmp_path / "model.mercer").inference == engine


def test_a_device_that_is_none() -> None:
    with pytest.raises(InputError, match="there is no device 'None'"):
        Regressor("SE", device=None).fit(*rows(20))  # type: ignore[arg-type]


def test_ctrl_c_keeps_what_was_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(AllRows, "carry_on", interrupted)
    model = Regressor("SE(0) + LIN(1)", inference=mercer.VFE(inducing=40), random_state=0).fit(*rows(200))
    assert model.status_ == "interrupted"
    assert model.stopped_ == "request"
    assert np.isfinite(model.log_evidence_)


def test_points_that_moved_are_saved_with_the_model(tmp_path) -> None:
    X, y = rows(300)
    for joint in (True, False):
        engine = mercer.VFE(inducing=8, joint=joint)
        model = Regressor("SE(0) + LIN(1)", inference=engine, restarts=1, random_state=0).fit(X, y)
        model.save(tmp_path / "model.mercer")
        again = mercer.load(tmp_path / "model.mercer")
        assert again.inference == engine
        np.testing.assert_allclose(again.predict(X[:20]), model.predict(X[:20]), rtol=1e-7)
        if joint:
            moved = model.fitted_.mixture.members[0].posterior.solution.model.Z
            assert not any((point == model.fitted_.training.data.X).all(axis=1).any() for point in moved)
            best = model.log_evidence_
    assert best > model.log_evidence_  # few points that may move are worth more than few that may not


def test_a_fit_of_many_rows_does_not_end_at_nothing_but_noise() -> None:
    """Few points in several dimensions: what they miss is taken for noise, and that must not be all that is left."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (600, 5))
    y = np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + np.sin(X[:, 2] + X[:, 3]) + 0.05 * rng.normal(size=600)
    for joint in (True, False):
        engine = mercer.VFE(inducing=40, joint=joint)
        model = Regressor("SE", inference=engine, restarts=2, random_state=0).fit(X, y)
        assert model.noise_ < 0.8 * np.var(y)


@pytest.mark.parametrize("engine", [VFE(inducing=40), Exact()])
def test_of_several_kernels_the_leaders_go_on_after_one_round(engine: VFE | Exact) -> None:
    X, y = rows(200)
    data, options = Data(X, y, free_level=True), FitOptions(restarts=2)
    sample = data.take(np.arange(80))
    texts = ("LIN(0)", "SE(0) + LIN(1)")
    fits = {i: fit(bind(parse(text), 2), sample, Exact(), options) for i, text in enumerate(texts)}
    seen: list[tuple[str, int]] = []

    class Noting(AllRows):
        def carry_on(self, fit: Fit, data: Data, *rest: Any) -> Fit:
            seen.append((structure(fit.expression).text(), data.count))
            return super().carry_on(fit, data, *rest)

    found = Noting(data, engine, options, ManyRowsPolicy(nearer=60)).fit(fits)
    assert list(found) == [1]  # a line does not follow a wave
    assert [text for text, _ in seen].count("LIN(0)") == 1
    assert [count for _, count in seen[:2]] == [60 if engine == Exact() else 200] * 2
    assert seen[-1][1] == 200
    assert found[1].log_evidence == pytest.approx(fit(found[1].expression, data, Exact(), options).log_evidence, abs=1)


def test_on_some_of_the_rows_a_parameter_has_its_share_of_the_price() -> None:
    """A part that gains little on some of the rows gains much on all of them: it is not left behind for its price."""
    X, y = rows(3000)
    data, options = Data(X, y, free_level=True), FitOptions(restarts=1)
    fits = {i: fit(bind(parse("SE(0)"), 2), data.take(np.arange(40)), Exact(), options) for i in range(2)}

    class Pretended(AllRows):
        def carry_on(self, fit: Fit, *_: Any) -> Fit:
            gains = fit is fits[1]
            return replace(fit, log_evidence=-100.0 + 5.0 * gains, parameters=3 + 6 * gains)  # worth 250 on all rows

        def finish(self, fit: Fit) -> Fit:
            return fit

        def score(self, fit: Fit) -> Fit:
            return fit

    assert list(Pretended(data, Exact(), options, ManyRowsPolicy(nearer=60)).fit(fits)) == [0, 1]


@pytest.mark.parametrize(("engine", "most"), [(VFE(inducing=40, joint=False), 3), (VFE(inducing=40), 30)])
def test_all_rounds_together_take_no_more_iterations_than_were_asked_for(engine: VFE, most: int) -> None:
    X, y = rows(200)
    data, options = Data(X, y, free_level=True), FitOptions(restarts=1, max_iterations=most)
    fits = {0: fit(bind(parse("SE(0) + LIN(1)"), 2), data.take(np.arange(80)), Exact(), options)}
    taken: list[int] = []

    class Counting(AllRows):
        def carry_on(self, fit: Fit, data: Data, engine: Any, steps: int, allowed: int) -> Fit:
            taken.append(min(steps, allowed))
            return super().carry_on(fit, data, engine, steps, allowed)

    Counting(data, engine, options, ManyRowsPolicy(iterations=10)).fit(fits)
    assert 0 < sum(taken) <= most


@pytest.mark.parametrize("settled", [False, True])
def test_a_winner_by_something_else_than_evidence_stays_the_winner(settled: bool) -> None:
    X, y = rows(200)
    data, options = Data(X, y, free_level=True), FitOptions(restarts=1)
    texts = ("LIN(0)", "SE(0) + LIN(1)")
    members = tuple(fit(bind(parse(text), 2), data.take(np.arange(80)), Exact(), options) for text in texts)
    weights = Weights((0.5, 0.5), (0.5, 0.5), (1.0, 1.0))
    learned = Learned(members[0], (), members, weights, settled=settled)
    found = fit_to_all(learned, AllRows(data, VFE(inducing=40), options))
    assert structure(found.fit.expression).text() == texts[0 if settled else 1]
    assert found.fit is found.members[0]
    assert ("overtook" in found.notes[0]) != settled


@pytest.mark.parametrize(
    ("settings", "settled"), [({}, False), ({"finalists": "forward"}, True), ({"score": "loo"}, True)]
)
def test_a_search_says_whether_its_winner_is_settled(settings: dict[str, Any], settled: bool) -> None:
    X, y = rows(60)
    search = mercer.GrammarSearch(bases=["SE", "LIN"], max_depth=0, restarts=1, **settings)
    assert search.learn(Context(Data(X[:, :1], y, free_level=True), Exact(), [0])).settled == settled


def test_where_memory_was_short_a_file_says_so_and_where_it_is_nothing_changes(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = rows(700)
    exact = Regressor("SE(0) + LIN(1)", restarts=1, random_state=0).fit(X, y)
    exact.save(tmp_path / "exact.mercer")
    with monkeypatch.context() as short:
        short.setattr(choose_module, "available_memory", lambda: 10**6)
        sparse = Regressor("SE(0) + LIN(1)", restarts=1, random_state=0).fit(X, y)
        assert "so much memory is not free" in sparse.inference_.reason
        with pytest.raises(InputError, match="too many for exact inference"):
            mercer.load(tmp_path / "exact.mercer")
    sparse.save(tmp_path / "sparse.mercer")
    again = mercer.load(tmp_path / "sparse.mercer")
    assert isinstance(again.inference_.engine, VFE)
    np.testing.assert_allclose(again.predict(X[:9]), sparse.predict(X[:9]), rtol=1e-7)


@pytest.mark.parametrize(
    ("settings", "told"),
    [({"inducing": 0}, "at least 1, not 0"), ({"inducing": 20, "predicting": 10}, "at least 20, not 10"),
     ({"joint": "no"}, "joint is True .* or False, not 'no'"), ({"n_jobs": 0}, "n_jobs must be")],
)  # fmt: skip
def test_settings_of_sparse_inference_that_mean_nothing(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        mercer.VFE(**settings)
