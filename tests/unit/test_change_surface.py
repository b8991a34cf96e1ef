"""Learning change surfaces: where, between what, how sure, and what is told where there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mercer
from mercer import ChangeSurface, GPRegressor
from mercer.compute.program import compile_program
from mercer.datasets import nile
from mercer.errors import InputError
from mercer.fitting.minimise import minimise
from mercer.fitting.periods import change_places, group_levels, spread_rows
from mercer.fitting.problem import FitOptions, prepare
from mercer.fitting.uncertainty import average_evidence, profile, slice_draws
from mercer.inference.contract import Data, Evidence
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.kernels import bind, parse
from mercer.kernels.blend import Blend, surface
from mercer.kernels.expression import contains
from mercer.kernels.parameters import values_of
from mercer.learners.contract import Candidate, Context, Step
from mercer.learners.regimes import (
    RegimeForm,
    find_blend,
    join_surfaces,
    remove_regime,
    sharp_changes,
    simplify_regimes,
    weigh_regimes,
)
from mercer.learners.surface import SurfacePolicy
from mercer.report.html import report_html
from tests.policies import regressor_with

QUICK = {"draws": 4, "kernel_draws": 4, "restarts": 2}


@pytest.fixture(scope="module")
def flow() -> GPRegressor:
    table = nile()
    return GPRegressor(ChangeSurface(kernel="C", **QUICK), random_state=0).fit(table[["year"]], table["flow"])


@pytest.fixture(scope="module")
def steps() -> pd.DataFrame:
    """Two jumps of the level, after 30 and after 60 of 90 rows."""
    x = np.arange(90.0)
    y = np.where(x < 30, 0.0, np.where(x < 60, 4.0, 1.0)) + 0.4 * np.random.default_rng(0).normal(size=90)
    return pd.DataFrame({"x": x, "y": y})


def test_the_dam_is_found_with_an_interval_that_contains_it(flow: GPRegressor) -> None:
    change = flow.change_
    assert change is not None
    (crossing,) = change.crossings
    assert abs(crossing.at - 1898) < 2
    assert crossing.low < 1898.5 < crossing.high
    assert crossing.high - crossing.low < 12
    assert change.preferred == 2
    assert [e.regimes for e in change.evidence] == [1, 2]
    assert change.evidence[0].bic - change.evidence[1].bic > 10
    assert "clearly prefers 2 regimes" in str(change)


def test_shares_are_sure_far_from_the_change_and_not_beside_it(flow: GPRegressor) -> None:
    change = flow.change_
    assert change is not None
    X = nile()[["year"]].to_numpy()
    s, spread = change.shares(X), change.shares_std(X)
    assert s.shape == spread.shape == (100, 2)
    np.testing.assert_allclose(s.sum(axis=1), 1.0)
    assert s[0, 0] > 0.99
    assert s[-1, 1] > 0.99
    assert spread[0].max() < 0.02
    assert spread[27:29].max() > 0.1
    (place,) = change.level_set()
    assert abs(place[0, 0] - change.crossings[0].at) < 0.2


def test_the_explanation_tells_when(flow: GPRegressor) -> None:
    told = flow.explain()
    assert told.change is not None
    assert "until about 1898." in told.components[0].sentence  # years are told whole
    assert "regime 1 gives way to regime 2" in told.to_text()
    plain = told.to_json()["change"]
    assert plain["crossings"][0]["before"] == 1
    assert plain["preferred"] == 2
    ended = next(c for c in told.components if "until" in c.sentence)
    assert "has ended" in ended.continuation


def test_a_saved_model_still_knows(flow: GPRegressor, tmp_path: object) -> None:
    path = f"{tmp_path}/nile.mercer"
    flow.save(path)
    again = mercer.load(path)
    assert again.kernel_ == flow.kernel_
    assert again.change_ is not None
    assert flow.change_ is not None
    assert again.change_.crossings[0].at == flow.change_.crossings[0].at
    X = nile()[["year"]]
    np.testing.assert_allclose(again.predict(X), flow.predict(X), rtol=1e-6)


def test_three_regimes(steps: pd.DataFrame) -> None:
    model = GPRegressor(ChangeSurface(regimes=3, kernel="C", **QUICK), random_state=0).fit(steps[["x"]], steps["y"])
    assert model.change_ is not None
    first, second = model.change_.crossings
    assert abs(first.at - 29.5) <= 1
    assert abs(second.at - 59.5) <= 1
    assert model.change_.preferred == 3
    assert [regime.rows for regime in model.change_.regimes] == [30, 30, 30]


def test_a_season_that_fades_asks_for_no_change() -> None:
    """Stationary, but neither a season for ever nor smooth: one regime must be allowed to be that."""
    x = np.linspace(0, 1, 120)
    away = x[:, None] - x
    covariance = np.exp(-0.5 * (away / 0.5) ** 2 - 2 * np.sin(np.pi * away / 0.15) ** 2)
    rng = np.random.default_rng(2010)
    y = rng.multivariate_normal(np.zeros(120), covariance + 1e-9 * np.eye(120), method="eigh")
    y += np.sqrt(0.1) * rng.normal(size=120)
    model = GPRegressor(ChangeSurface(), random_state=0).fit(x[:, None], y)
    scores = {count: min(c.score for c in model.candidates_ if c.depth == count - 1) for count in (1, 2)}
    assert scores[1] < scores[2]


def test_a_constant_line_asks_for_no_change() -> None:
    rng = np.random.default_rng(1)
    x = np.arange(60.0)
    model = GPRegressor(ChangeSurface(kernel="SE", **QUICK), random_state=0)
    model.fit(x[:, None], np.sin(x / 4) + 0.2 * rng.normal(size=60))
    scores = {c.depth + 1: c.score for c in model.candidates_}
    assert scores[1] < scores[2]
    if contains(model.kernel_, Blend):
        assert any("do not support 2 regimes" in note for note in model.notes_)


def test_what_is_shared_stays(steps: pd.DataFrame) -> None:
    season = 1.5 * np.sin(2 * np.pi * steps["x"] / 6)
    learner = ChangeSurface(regimes=2, kernel="C", shared="PER", **QUICK)
    half = steps["x"] < 60
    model = GPRegressor(learner, random_state=0).fit(steps.loc[half, ["x"]], (steps["y"] + season)[half])
    assert model.change_ is not None
    assert abs(model.change_.crossings[0].at - 29.5) <= 1
    assert any(leaf.symbol == "PER" for leaf in model.kernel_.leaves())


def test_a_learner_for_each_regime() -> None:
    x = np.arange(80.0)
    rng = np.random.default_rng(0)
    y = np.where(x < 40, np.sin(2 * np.pi * x / 8), 4 + 0.1 * (x - 40)) + 0.1 * rng.normal(size=80)
    search = mercer.GrammarSearch(bases=("PER", "LIN"), max_depth=0, average=False, restarts=2)
    model = GPRegressor(ChangeSurface(kernel=search, **QUICK), random_state=0).fit(x[:, None], y)
    own = find_blend(model.kernel_)
    assert own is not None
    assert [next(part.leaves()).symbol for part in own.children] == ["PER", "LIN"]
    assert model.change_ is not None
    assert abs(model.change_.crossings[0].at - 40) < 2


@pytest.mark.parametrize("kind", ["linear", "rks", "gp"])
def test_a_surface_over_two_columns(kind: str) -> None:
    rng = np.random.default_rng(2)
    X = rng.uniform(0, 1, (120, 2))
    inside = X.sum(axis=1) > 1
    y = np.where(inside, 3.0 + np.sin(9 * X[:, 0]), 0.3 * X[:, 1]) + 0.1 * rng.normal(size=120)
    features = {"linear": None, "rks": 5, "gp": 16}[kind]
    learner = ChangeSurface(surface=kind, features=features, max_iterations=60)  # type: ignore[arg-type]
    model = GPRegressor(learner, random_state=0).fit(X, y)
    assert model.change_ is not None
    s = model.change_.shares(X)[:, 1]
    right = max(np.mean((s > 0.5) == inside), np.mean((s < 0.5) == inside))
    assert right > 0.85
    assert model.change_.crossings == ()
    assert model.change_.shares_std(X).shape == (120, 2)
    assert len(model.change_.level_set()) >= 1
    assert "parts the rows into 2 regimes" in str(model.change_)


def test_short_waves_in_one_regime_are_not_taken_for_noise() -> None:
    axes = np.linspace(0, 1, 24), np.linspace(0, 1, 20)
    X = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], 1)
    waves, smooth = np.sin(35 * X[:, 0]) * np.cos(30 * X[:, 1]), np.sin(5 * X[:, 0]) * np.cos(4 * X[:, 1])
    y = np.where(X[:, 0] + 0.2 * X[:, 1] > 0.6, waves, smooth) + 0.1 * np.random.default_rng(0).normal(size=len(X))
    learner = ChangeSurface(kernel="SE", surface="linear", **QUICK)
    model = GPRegressor(learner, random_state=0).fit(X, y)
    assert model.noise_**0.5 < 0.2
    own = find_blend(model.kernel_)
    assert own is not None
    lengths = [max(next(part.leaves()).parameter("lengthscale").values or ()) for part in own.children]
    assert lengths[1] < 0.15 < lengths[0]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"regimes": 1}, "regimes must be a whole number of at least 2"),
        ({"regimes": 9}, "too few for 9 regimes"),
        ({"surface": "wavy"}, "surface must be one of"),
        ({"kernel": ["SE", "SE", "SE"]}, "2 regimes and 3 kernels"),
        ({"kernel": 3}, "text, an expression or a learner"),
        ({"draws": 0}, "draws must be a whole number"),
        ({"columns": ["x"]}, "columns are numbers of columns"),
        ({"columns": []}, "columns are numbers of columns"),
        ({"columns": -1}, "columns are numbers of columns"),
        ({"shared": 3}, "shared is a kernel that holds everywhere"),
        ({"kernel": ["auto", "C"]}, "for all regimes at once"),
    ],
)
def test_what_cannot_be_is_told(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        GPRegressor(ChangeSurface(**settings)).fit(np.arange(40.0)[:, None], np.arange(40.0) % 7)  # type: ignore[arg-type]


def test_one_column_may_be_given_by_its_number() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([np.arange(40.0), rng.uniform(size=40)])
    learner = ChangeSurface(kernel="C", columns=0, **QUICK)
    model = GPRegressor(learner, random_state=0).fit(X, np.where(X[:, 0] < 20, 0.0, 3.0) + 0.3 * rng.normal(size=40))
    assert model.change_ is not None
    assert abs(model.change_.crossings[0].at - 19.5) <= 1
    assert learner.describe()["columns"] == [0]


def test_fewer_than_ten_rows_for_each_regime_are_refused() -> None:
    with pytest.raises(InputError, match="15 rows are too few for 2 regimes"):
        GPRegressor("surface").fit(np.arange(15.0)[:, None], np.arange(15.0) % 4)


def test_taking_a_regime_out_keeps_the_other_places() -> None:
    kernel = bind(parse("LIN + CP(SE, PER, C, location=[1, 2], width=[0.1, 0.2])"), 1)
    texts = [find_blend(remove_regime(kernel, gone)).text() for gone in range(3)]  # type: ignore[union-attr]
    assert texts == [
        "CP(PER(0), C, on=0, location=2.0, width=0.2)",
        "CP(SE(0), C, on=0, location=1.0, width=0.1)",
        "CP(SE(0), PER(0), on=0, location=1.0, width=0.1)",
    ]
    two = bind(parse("CP(SE, PER, location=1, width=0.1)"), 1)
    assert remove_regime(two, 0).text() == "PER(0)"
    rks = bind(parse("BLEND(rks1, SE, SE, C, amplitude=[1, 2], frequency=[3, 4], phase=[5, 6])"), 1)
    assert remove_regime(rks, 1).text() == ("BLEND(rks1, SE(0), C, on=0, amplitude=2.0, frequency=4.0, phase=6.0)")


def test_the_simplified_model_has_rbf_kernels_and_constants() -> None:
    kernel = bind(parse("PER + CP(SM4, C)"), 1)
    assert simplify_regimes(kernel).text() == "PER(0) + CP(SE(0), C, on=0)"
    form = RegimeForm((parse("SE"), parse("C")), None, "linear", None, (), (0,), 1)
    assert [e.text() for e in form.expressions(2, None)] == ["CP(SE(0), C, on=0)"]


def test_places_of_change_are_found_beside_a_season() -> None:
    x = np.arange(120.0)
    y = np.where(x < 70, 0.0, 1.0) + 3 * np.sin(2 * np.pi * x / 12)
    assert abs(change_places(x, y, np.array([12.0]))[0] - 69.5) <= 2
    rough = np.where(x < 40, np.sin(x / 10), 2 * np.random.default_rng(0).normal(size=120))
    assert np.min(np.abs(change_places(x, rough) - 39.5)) <= 3
    assert len(change_places(np.zeros(4), np.arange(4.0))) == 1


def test_spread_rows_cover_the_plane() -> None:
    corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.5, 0.5], [0.51, 0.5]])
    assert {tuple(row) for row in spread_rows(corners, 5)} >= {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_a_profile_is_the_posterior_of_a_place() -> None:
    """Against the evidence summed over a fine grid, all else held: with noise known nothing else is to be fitted."""
    x = np.linspace(-1, 1, 40)
    y = np.where(x < 0.2, -1.0, 1.0) + 0.3 * np.random.default_rng(0).normal(size=40)
    kernel = parse("CP(C(variance=fixed(1)), C(variance=fixed(1)), on=0, location=0.2, width=fixed(0.2))")
    data = Data(x[:, None], y)
    found = profile(bind(kernel, 1), 0.09, data, Exact(), place=2, stops=x)
    low, high = found.interval()
    assert found.weights.sum() == pytest.approx(1.0)
    assert low < 0.2 < high
    assert high - low < 0.8
    wide_low, wide_high = found.interval(0.999)
    assert wide_low < low < high < wide_high


def test_two_regimes_are_ordered_by_where_they_hold() -> None:
    rng = np.random.default_rng(4)
    X = rng.uniform(0, 1, (80, 2))
    y = np.where(X[:, 0] > 0.5, 2.0, 0.0) + 0.1 * rng.normal(size=80)
    learner = ChangeSurface(surface="linear", kernel="C", **QUICK)
    model = GPRegressor(learner, random_state=1).fit(X, y)
    own = find_blend(model.kernel_)
    assert isinstance(own, Blend)
    assert model.change_ is not None
    s = model.change_.shares(X)
    assert X[s[:, 0] > 0.5, 0].mean() < X[s[:, 1] > 0.5, 0].mean()


def test_a_regime_that_holds_nowhere_is_merged_and_told() -> None:
    x = np.arange(60.0)
    y = np.where(x < 30, 0.0, 3.0) + 0.3 * np.random.default_rng(0).normal(size=60)
    strict = regressor_with(SurfacePolicy(least_rows=25))  # so that one of three must be too small
    model = strict(ChangeSurface(regimes=3, kernel="C", **QUICK), random_state=0).fit(x[:, None], y)
    assert any("was merged with its neighbour" in note for note in model.notes_)
    own = find_blend(model.kernel_)
    assert own is not None
    assert len(own.parts) == 2


def test_many_rows_with_sparse_inference() -> None:
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 10, 200))
    y = np.where(x < 6, 0.0, 3.0) + 0.2 * rng.normal(size=200)
    learner = ChangeSurface(kernel="C", **QUICK)
    model = GPRegressor(learner, inference=mercer.VFE(inducing=20), random_state=0).fit(x[:, None], y)
    assert model.change_ is not None
    assert abs(model.change_.crossings[0].at - 6) < 0.1


def test_a_search_over_many_rows_ends_on_all_of_them() -> None:
    rng = np.random.default_rng(0)
    x = np.arange(90.0)
    y = np.where(x < 60, 0.0, 3.0) + 0.5 * rng.normal(size=90)
    small = regressor_with(SurfacePolicy(some_rows=60, alone=("C", "SE"), tried=("C", "LIN")))
    model = small(ChangeSurface(draws=3, kernel_draws=3, restarts=2), random_state=0).fit(x[:, None], y)
    assert model.change_ is not None
    assert model.change_.preferred == 2
    assert abs(model.change_.crossings[0].at - 59.5) <= 2
    assert any(str(candidate.step).startswith("on 60 rows: ") for candidate in model.candidates_)


@pytest.mark.parametrize("after", [5, 60, 200])
def test_ctrl_c_in_a_fit_stops_the_search_around_it(after: int) -> None:
    class Interrupted(Exact):
        def evidence(self, *arguments: Any, **named: Any) -> Evidence:
            calls.append(1)
            if len(calls) == after:
                raise KeyboardInterrupt
            return super().evidence(*arguments, **named)

    calls: list[int] = []
    table = nile()
    x, y = (np.asarray(table.iloc[:, i], dtype=float) for i in (0, 1))
    data = Data(((x - x.mean()) / x.std())[:, None], (y - y.mean()) / y.std(), True)
    try:
        found = ChangeSurface(kernel="SE", **QUICK).learn(Context(data, Interrupted(), [0]))
        assert found.stopped == "request"
    except KeyboardInterrupt:
        assert after == 5  # nothing was finished yet
    assert len(calls) < after + 5


def test_ctrl_c_gives_what_is_finished() -> None:
    table = nile()
    seen: list[int] = []

    def stop(state: object) -> None:
        seen.append(state.done)  # type: ignore[attr-defined]
        if state.done == 1:  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    model = GPRegressor(ChangeSurface(kernel="C", **QUICK), random_state=0)
    model.fit(table[["year"]], table["flow"], progress=stop)
    assert seen == [1]
    assert model.stopped_ == "request"
    assert model.change_ is None


def test_slice_draws_follow_the_posterior() -> None:
    """One weight: mean and spread against the posterior summed on a grid."""
    x = np.linspace(0, 1, 12)
    y = np.where(x < 0.5, 0.0, 1.0) + 0.3 * np.random.default_rng(0).normal(size=12)
    kernel = bind(parse("BLEND(linear, C(variance=1), 0, on=0, slope=-5, bias=2)"), 1)
    data, program, values = Data(x[:, None], y), compile_program(kernel), values_of(kernel)
    drawn = np.array([v[2] for v in slice_draws(kernel, 0.2, data, Exact(), [2], np.array([4.0]))])
    grid = np.linspace(-16, 16, 400)
    tried = [np.array([values[0], values[1], g]) for g in grid]
    heights = np.array([Exact().evidence(program, v, Gaussian(0.2), data, False).value for v in tried]) - grid**2 / 32
    weights = np.exp(heights - heights.max())
    weights /= weights.sum()
    mean = weights @ grid
    spread = np.sqrt(weights @ (grid - mean) ** 2)
    assert abs(drawn.mean() - mean) < spread
    assert 0.4 < drawn.std() / spread < 2.0


def test_the_evidence_averaged_over_priors_is_an_integral() -> None:
    """Variance, lengthscale and noise of SE under their priors: against a sum over a grid."""
    x = np.linspace(-1, 1, 60)
    data = Data(x[:, None], np.sin(4 * x) + 0.3 * np.random.default_rng(0).normal(size=60))
    problem = prepare(bind(parse("SE"), 1), data, Exact(), FitOptions(priors=True))
    assert problem.prior is not None
    (run,) = minimise(problem, [problem.point(problem.starts.typical(), Gaussian(0.1))], 200)
    axes = [np.linspace(at - reach, at + reach, 15) for at, reach in zip(run.point, (5.0, 1.2, 1.0), strict=True)]
    points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], 1)
    heights = np.array([-problem.loss(point)[0] for point in points])
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    normal = np.prod(problem.prior.spread) * (2 * np.pi) ** 1.5  # log_density leaves its constant out
    integral = np.log(np.exp(heights - heights.max()).sum() * cell / normal) + heights.max()
    assert average_evidence(problem, run.point) == pytest.approx(integral, abs=0.3)


def test_a_surface_of_many_numbers_is_not_judged_by_counting_them() -> None:
    """BIC denied a change that everybody sees: it counted 40 numbers, although priors hold them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (70, 2))
    y = np.where(X.sum(axis=1) > 1, 2.0, 0.0) + 0.2 * rng.normal(size=70)
    model = GPRegressor(ChangeSurface(**QUICK), random_state=0).fit(X, y)
    assert model.change_ is not None
    assert model.change_.preferred == 2
    one, two = model.change_.evidence
    assert one.bic < two.bic
    assert two.log_evidence_under_priors > one.log_evidence_under_priors + 10  # type: ignore[operator]
    assert not any("do not support" in note for note in model.notes_)
    assert "clearly prefers 2 regimes against 1: the log evidence under the priors is larger" in str(model.change_)
    assert "compared by their evidence under the priors" in str(model.explain())
    assert "log evidence under the priors</th>" in report_html(model.fitted_)


def test_a_smooth_field_asks_for_no_change() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (70, 2))
    model = GPRegressor(ChangeSurface(**QUICK), random_state=0)
    model.fit(X, np.sin(4 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=70))
    assert min(model.candidates_, key=lambda tried: tried.score).step.number == 1


def test_surfaces_are_joined_parameter_by_parameter() -> None:
    before = surface("rks", 2, features=1, on=(0,), amplitude=1.0, frequency=2.0, phase=3.0)
    added = surface("rks", 2, features=1, on=(0,), amplitude=4.0, frequency=5.0, phase=6.0)
    assert join_surfaces(before, added).tolist() == [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]


@pytest.mark.parametrize(("kind", "features"), [("rks", 6), ("gp", 9)])
def test_a_third_regime_is_found_by_parting_one_of_two(kind: Any, features: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (90, 2))
    level = np.digitize(X[:, 0] + 0.3 * X[:, 1], [0.4, 0.8])
    y = np.array([0.0, 4.0, 1.5])[level] + 0.15 * rng.normal(size=90)
    learner = ChangeSurface(regimes=3, surface=kind, features=features, **QUICK)
    model = GPRegressor(learner, random_state=0).fit(X, y)
    scores = {c.step.number: c.score for c in model.candidates_}
    assert scores[3] < scores[2] < scores[1]
    assert np.mean(group_levels(X, y, 3) == np.array([0, 2, 1])[level]) > 0.95


def test_values_of_kernels_are_in_the_units_of_the_data() -> None:
    x = np.arange(60.0)
    y = 5.0 * np.sin(2 * np.pi * x / 12) + np.where(x < 30, 0.0, 40.0) + np.random.default_rng(0).normal(size=60)
    learner = ChangeSurface(kernel="C", shared="PER(month, period=fixed(12))", max_iterations=20, **QUICK)
    model = GPRegressor(learner, random_state=0).fit(pd.DataFrame({"month": x}), y)
    (wave,) = [leaf for leaf in model.kernel_.leaves() if leaf.symbol == "PER"]
    assert wave.parameter("period").values == pytest.approx((12.0,))
    assert model.kernel is learner


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=4), st.floats(-50, 50))
def test_a_number_of_regimes_is_judged_by_all_its_kernels(scores: list[float], other: float) -> None:
    def tried(text: str, number: int, score: float) -> Candidate:
        step = Step("regimes", number=number)
        return Candidate(bind(parse(text), 1), 0, step, None, 0.0, 1, score, "converged", "", 0.0, None)

    kernels = [tried(text, 1, score) for text, score in zip(("SE", "LIN", "C", "M52"), scores, strict=False)]
    found = weigh_regimes([*kernels, tried("SE", 1, scores[0] + 1.0), tried("CP(C, C)", 2, other)])
    assert found[1] == pytest.approx(-2.0 * np.log(np.sum(np.exp(-0.5 * np.array(scores)))))
    assert found[2] == pytest.approx(other)
    assert found[1] <= min(scores) + 1e-9


def test_the_width_of_a_sharp_change_has_no_price() -> None:
    X = np.linspace(0, 1, 51)[:, None]
    for widths, sharp in (([0.001, 0.004], 2), ([0.001, 0.1], 1), ([0.05, 0.1], 0)):
        own = find_blend(bind(parse(f"CP(C, C, C, location=[0.3, 0.7], width={widths})"), 1))
        assert sharp_changes(own, X) == sharp
    assert sharp_changes(find_blend(bind(parse("SE"), 1)), X) == 0


def test_a_given_surface_of_many_numbers_is_told_from_noise() -> None:
    """BIC would count its 41 numbers: a change that everybody sees was said to be noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (90, 2))
    y = np.where(X.sum(axis=1) > 1, 1.0, 0.0) + 0.3 * rng.normal(size=90)
    model = GPRegressor("BLEND(rks, C, C)", random_state=0, restarts=2, max_iterations=60, priors="weak").fit(X, y)
    noise = GPRegressor("BLEND(rks, C, C)", random_state=0, restarts=2, max_iterations=60, priors="weak")
    assert model.explain().structure.found
    assert not noise.fit(X, rng.normal(size=90)).explain().structure.found
