"""From a network to an ordinary expression: the right structure, the right price, clear words where it cannot be."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

import mercer
from mercer.compute.fused import gram
from mercer.compute.program import compile_program
from mercer.errors import InputError, KernelError
from mercer.estimators import GPRegressor
from mercer.fitting.minimise import Progress
from mercer.inference.contract import Evidence
from mercer.inference.exact import Exact
from mercer.inference.vfe import VFE
from mercer.kernels import CP, LIN, NKN, PER, RQ, SE, fixed
from mercer.kernels.algebra import canonical_structure, components, split_mean, structure
from mercer.kernels.blend import Blend
from mercer.kernels.expression import contains, find_all
from mercer.kernels.network import Network
from mercer.kernels.parameters import bind, layout, values_of
from mercer.kernels.text import parse
from mercer.learners.contract import Context
from mercer.learners.distil import DistilPolicy, distil, expand, join, merge_factors, merge_terms, spread
from mercer.learners.simplify import centre, simplify

pytestmark = pytest.mark.filterwarnings("ignore::mercer.MercerWarning")

X = np.linspace(0.0, 10.0, 90)[:, None]
TRUTH = SE(0, variance=1.0, lengthscale=6.0) * PER(0, variance=1.0, period=2.0, lengthscale=1.0) + LIN(
    0, variance=0.3, offset=5.0
)


def hand_set() -> mercer.kernels.Network:
    """(SE) (PER) + (LIN) (1), and 0.001 of everything else."""
    primitives = [
        SE(0, variance=1.0, lengthscale=6.0),
        PER(0, variance=1.0, period=2.0, lengthscale=1.0),
        LIN(0, variance=1.0, offset=5.0),
        RQ(0, variance=1.0, lengthscale=3.0, alpha=1.0),
    ]
    first = np.full((4, 4), 1e-3)
    first[0, 0] = first[1, 1] = 1.0
    first[2, 2] = 0.3
    return NKN(
        primitives, "Linear4-Product2-Linear1",
        weights=[first.ravel(), [1.0, 1.0]], bias=[[1e-4, 1e-4, 1e-4, 1.0], [1e-3]],
    )  # fmt: skip


def drawn(kernel: mercer.kernels.Expression, seed: int = 1, noise: float = 0.05) -> np.ndarray:
    rng = np.random.default_rng(seed)
    covariance = gram(compile_program(kernel), values_of(kernel), X)
    root = np.linalg.cholesky(covariance + 1e-8 * np.eye(len(X)))
    return 3.0 + root @ rng.normal(size=len(X)) + noise * rng.normal(size=len(X))


@pytest.fixture(scope="module")
def model() -> GPRegressor:
    return GPRegressor(hand_set(), restarts=1, max_iterations=60, random_state=0).fit(X, drawn(TRUTH))


@pytest.fixture(scope="module")
def distilled(model: GPRegressor) -> GPRegressor:
    return model.distil()


# --------------------------------------------------------------------------------------------------------- the result


def test_recovers_the_structure(distilled: GPRegressor) -> None:
    assert canonical_structure(distilled.kernel_) == canonical_structure(bind(parse("SE*PER + LIN"), 1))
    period = next(leaf for leaf in distilled.kernel_.leaves() if leaf.symbol == "PER").parameter("period").values
    assert period is not None
    assert period[0] == pytest.approx(2.0, rel=0.02)


def test_is_as_good_as_the_network_and_smaller(model: GPRegressor, distilled: GPRegressor) -> None:
    assert distilled.log_evidence_ > model.log_evidence_ - 5.0
    assert distilled.bic_ < model.bic_
    assert distilled.n_parameters_ == 7  # one variance, a length, a period and its length; a slope and an offset; noise
    assert np.abs(distilled.predict(X) - model.predict(X)).max() < 0.2
    assert not contains(distilled.kernel_, Network)
    assert contains(model.kernel_, Network)  # the old model is as it was


def test_smallest_within_two_of_the_best(distilled: GPRegressor) -> None:
    tried = [c for c in distilled.candidates_ if not contains(c.expression, Network) and c.status != "raced out"]
    best = min(c.score for c in tried)
    assert distilled.bic_ <= best + DistilPolicy().close + 1e-6
    close = [c.parameters for c in tried if c.score <= best + DistilPolicy().close]
    assert distilled.n_parameters_ == min(close)


def test_the_table_of_candidates_tells_the_way(distilled: GPRegressor) -> None:
    first, *others = distilled.candidates_
    assert str(first.step) == "the network"
    assert contains(first.expression, Network)
    assert first.parent is None
    assert not any(contains(c.expression, Network) for c in others)
    assert all(c.parent is not None and distilled.candidates_[c.parent].depth == c.depth - 1 for c in others)
    winner = next(c for c in others if c.expression == distilled.kernel_)
    assert winner.score == pytest.approx(distilled.bic_, abs=1e-6)
    raced_out = [c for c in others if c.status == "raced out"]
    assert all(math.isfinite(c.score) for c in raced_out)


def test_explains_itself(model: GPRegressor, distilled: GPRegressor, tmp_path: Path) -> None:
    told = distilled.explain()
    assert told.networks == ()
    assert told.search is not None
    assert told.search.path[0].kernel.startswith("NKN(")
    assert told.outcome.found_by.startswith(
        "The structure was distilled from a network of 1 SE, 1 PER, 1 LIN and 1 RQ with the layers Linear4-Product2-"
    )
    (note,) = distilled.notes_
    assert f"{model.log_evidence_:.2f}" in note
    assert f"{distilled.loo_:.2f}" in note
    assert f"in {distilled.fit_seconds_:.1f} s" in note
    distilled.save(tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    assert str(again.explain()) == str(told)


def test_can_be_fitted_again(distilled: GPRegressor) -> None:
    from sklearn.base import clone

    again = clone(distilled).fit(X, drawn(TRUTH, seed=2))
    assert structure(again.kernel_) == structure(distilled.kernel_)
    assert again.distilled_from_ is None


# ------------------------------------------------------------------------------------------------------- being stopped


def test_progress_and_interruption(model: GPRegressor) -> None:
    seen: list[Progress] = []

    def stop(state: Progress) -> None:
        seen.append(state)
        if state.depth == 2:
            raise KeyboardInterrupt

    found = model.distil(progress=stop)
    assert [state.depth for state in seen] == [1, 2]
    assert found.stopped_ == "request"
    assert "stopped on request" in found.notes_[-1]
    assert found.candidates_[1].expression == found.kernel_


def test_time_budget(model: GPRegressor) -> None:
    found = model.distil(time_budget=1e-9)  # the first expression comes in any case: without it there is no answer
    assert found.stopped_ == "time"
    with pytest.raises(InputError, match="time_budget"):
        model.distil(time_budget=0)


def test_interrupted_before_the_first(model: GPRegressor) -> None:
    class Interrupted(Exact):
        def evidence(self, *arguments: object, **named: object) -> Evidence:
            raise KeyboardInterrupt

    fitted = model.fitted_
    with pytest.raises(KeyboardInterrupt):
        distil(fitted.as_fit(), Context(fitted.training.data, Interrupted(), [0]))


def test_fixed_noise_stays() -> None:
    fitted = GPRegressor(hand_set(), noise=0.01, restarts=1, max_iterations=10).fit(X, drawn(TRUTH))
    assert fitted.distil(time_budget=1e-9).noise_ == pytest.approx(0.01)


def test_scores_of_an_engine_that_is_not_exact() -> None:
    fitted = GPRegressor(hand_set(), inference=VFE(30), restarts=1, max_iterations=10).fit(X, drawn(TRUTH))
    short = fitted.distil(time_budget=1e-9)
    mean, std = short.leave_one_out()
    expected = norm.logpdf(drawn(TRUTH), mean, std).sum()
    assert short.loo_ == pytest.approx(expected, rel=1e-6)
    assert "inf" not in short.notes_[0]


# ---------------------------------------------------------------------------------------------------- what cannot be


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("SE + LIN", "nothing to distil"),
        ("NKN(SE + LIN, Linear2-Exp-Linear1)", "Exp"),
        ("NKN(SE + EXPI, Linear2-Product1-Linear1)", "complex"),
        ("NKN(SE + SUMI, Linear2-Product1-Linear1)", "SUMI"),
    ],
)
def test_refuses(kernel: str, message: str) -> None:
    fitted = GPRegressor(kernel, restarts=1, max_iterations=2).fit(X, drawn(TRUTH))
    with pytest.raises(KernelError, match=message):
        fitted.distil()


# ---------------------------------------------------------------------------------------------------------- the steps


def test_expanded_is_the_network() -> None:
    whole = gram(compile_program(bind(hand_set(), 1)), values_of(bind(hand_set(), 1)), X)
    parts = expand(bind(hand_set(), 1), X)
    assert len(parts) <= DistilPolicy().terms
    total = sum(gram(compile_program(part.kernel), values_of(part.kernel), X) for part in parts)
    # RQ^2 becomes a single RQ, which is nearly the same, and constants have no spread
    centred = (whole - total) - (whole - total).mean()
    assert np.abs(centred).max() < 1e-3 * np.abs(whole).max()
    assert sum(part.spread for part in parts) == pytest.approx(spread(whole), rel=0.02)
    assert [part.spread for part in parts] == sorted((part.spread for part in parts), reverse=True)


def test_expanded_beside_others() -> None:
    kernel = bind(hand_set() * PER(0, variance=2.0, period=3.0, lengthscale=1.0) + SE(0, variance=1, lengthscale=1), 1)
    parts = expand(kernel, X)
    assert any(structure(part.kernel) == bind(SE(), 1) for part in parts)
    assert all(len(components(part.kernel)) == 1 for part in parts)


def test_expanded_under_a_change() -> None:
    waves = PER(0, variance=2.0, period=3.0, lengthscale=1.0)
    kernel = bind(CP(hand_set(), waves, on=0, location=4.0, width=0.5), 1)
    parts = [part.kernel for part in expand(kernel, X)]
    assert not any(contains(part, Network) for part in parts)
    whole, total = (gram(compile_program(each), values_of(each), X) for each in (kernel, join(parts)))
    assert np.abs(whole - total).max() < 1e-3 * np.abs(whole).max()  # RQ^2 becomes a single RQ, nearly the same
    assert len(list(find_all(join(parts), Blend))) == 1  # all of them under a single surface


def test_a_network_that_gives_way_to_another_kernel() -> None:
    y = np.where(X[:, 0] < 5, np.sin(4 * X[:, 0]), 0.3 * X[:, 0]) + 0.05 * np.random.default_rng(0).normal(size=len(X))
    kernel = "CP(NKN(SE + PER + LIN, Linear2-Product1-Linear1), SE)"
    fitted = GPRegressor(kernel, restarts=3, max_iterations=60, random_state=0).fit(X, y)
    short = fitted.distil()
    assert short.bic_ < fitted.bic_
    assert [blend.surface.kind for blend in find_all(short.kernel_, Blend)] == ["CP"]
    assert not contains(short.kernel_, Network)


def test_powers_of_a_periodic_kernel_merge_exactly() -> None:
    per = PER(0, variance=1.0, period=2.0, lengthscale=1.0)
    merged = merge_factors(per * per)
    expected = PER(0, variance=1.0, period=2.0, lengthscale=2.0**-0.5)
    assert structure(merged) == structure(expected)
    assert values_of(merged) == pytest.approx(values_of(expected))


def test_alike_summands_merge() -> None:
    kernel = NKN(
        [SE(0, variance=1.0, lengthscale=length) for length in (1.0, 1.1, 9.0)], "Linear1", weights=[1.0], bias=[0.0]
    )
    parts = expand(bind(kernel, 1), X)
    merged = merge_terms(parts)
    assert len(merged) == 2
    assert sum(part.spread for part in merged) == pytest.approx(sum(part.spread for part in parts))


def test_simplifications() -> None:
    kernel = bind(
        SE(0, variance=1, lengthscale=1) * PER(0, variance=1, period=1, lengthscale=1)
        + LIN(0, variance=1, offset=0) * PER(0, variance=1, period=1, lengthscale=1)
        + RQ(0, variance=1, lengthscale=1, alpha=1),
        1,
    )
    found = {structure(simpler).text(): str(step) for simpler, step in simplify(kernel, X)}
    assert found["RQ(0) + PER(0) * (SE(0) + LIN(0))"] == "one PER(0) for two"
    assert {"- RQ(0)", "/ SE(0)", "/ PER(0)", "RQ(0) -> SE"} <= set(found.values())
    assert all(layout(simpler).n_free < layout(kernel).n_free for simpler, _ in simplify(kernel, X))


@pytest.mark.parametrize(("period", "held"), [(12.47, 12.0), (11.9, 12.0), (6.02, 12.0), (4.01, 12.0), (9.0, None)])
def test_a_period_near_one_of_the_calendar_may_be_held_there(period: float, held: float | None) -> None:
    kernel = bind(SE(0, variance=1, lengthscale=1) * PER(0, variance=1, period=period, lengthscale=1), 1)
    found = [simpler for simpler, step in simplify(kernel, X, {0: (1.0, 12.0)}) if step.kind == "calendar"]
    leaves = [leaf for simpler in found for leaf in simpler.leaves() if leaf.symbol == "PER"]
    assert [(leaf.parameter("period").values, leaf.parameter("period").fixed) for leaf in leaves] == (
        [] if held is None else [((held,), True)]
    )
    assert all(layout(simpler).n_free == layout(kernel).n_free - 1 for simpler in found)
    for simpler in found:  # what is held stays, and is not offered again
        assert not [step for _, step in simplify(simpler, X, {0: (1.0, 12.0)}) if step.kind == "calendar"]
    assert not [step for _, step in simplify(kernel, X, {1: (12.0,)}) if step.kind == "calendar"]


def test_a_season_without_its_mean() -> None:
    wave = PER(0, variance=2.0, period=3.0, lengthscale=1.3)
    constant, centred = split_mean(wave)
    places = np.linspace(0.0, 5.0, 7)[:, None]
    np.testing.assert_allclose(bind(wave, 1)(places), bind(constant + centred, 1)(places), atol=1e-12)
    held = PER(0, variance=1, period=fixed(3), lengthscale=1)
    ((simpler, step),) = centre(bind(SE(0, variance=1, lengthscale=1) * held, 1), {0: (3.0,)})
    assert str(step) == "PER(0) -> CPER(0)"
    (leaf,) = (leaf for leaf in simpler.leaves() if leaf.symbol == "CPER")
    assert leaf.parameter("period").fixed
    assert split_mean(SE(0, variance=1, lengthscale=1)) is None
    both = [next(iter(simpler.leaves())).parameter("period") for simpler, _ in centre(bind(wave, 1), {0: (3.1,)})]
    assert [(period.values, period.fixed) for period in both] == [((3.0,), False), ((3.1,), True)]


def test_simpler_on_fewer_columns() -> None:
    rows = np.random.default_rng(0).uniform(size=(30, 3))
    kernel = SE(0, 1, 2, variance=1, lengthscale=[1.0, 50.0, 80.0])
    found = {structure(simpler).text() for simpler, _ in simplify(kernel, rows)}
    assert found == {"SE(0)", "SE(0, 1)"}
    many = SE(*range(8), variance=1, lengthscale=[1.0, *(10.0 * 2.0**place for place in range(7))])
    wide = np.random.default_rng(0).uniform(size=(30, 8))
    kept = sorted(len(next(iter(simpler.leaves())).columns) for simpler, _ in simplify(many, wide))
    assert kept == [1, 2, 3, 5, 7]  # of seven that look idle all, all but 1, 2 and 4, or one is left out
    line = LIN(0, 1, variance=2.0, offset=[0.0, 1.0], weights=[0.75, 0.25])
    ((simpler, _),) = simplify(line, rows)
    assert simpler == LIN(0, variance=1.5, offset=0.0, weights=1.0)
