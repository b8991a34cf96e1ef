"""The space of kernels, the surrogate, the search in subspaces, and what `KernelFunctional` refuses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import nnls

import mercer
from mercer import KernelFunctional
from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.errors import InputError
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.kernels import parse
from mercer.kernels.expression import contains, find_all
from mercer.kernels.functional import Functional, count_dimensions
from mercer.kernels.parameters import bind, layout, values_of
from mercer.learners.bayesian import (
    ObjectiveValue,
    SubspacePlan,
    choose_steadiest,
    evaluate_safely,
    find_best,
    find_steadiest,
    fit_surrogate,
    search_subspaces,
    tune,
    ucb_weight,
)
from mercer.learners.contract import Context
from mercer.learners.kernel_space import (
    LADDER,
    LARGE_GRID,
    add_series,
    build_space,
    choose_grid,
    expand_in_powers,
    hyperkernel,
    make_bands,
)
from mercer.learners.kfo import FunctionalPolicy
from mercer.learners.kfo_fitter import rounding_variance

GRID = np.append(np.linspace(0.0, 0.95, 39), 1.0)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9, 0.97])
def test_the_series_is_the_hyperkernel(rate: float) -> None:
    u = np.linspace(0.0, 1.0, 301)
    exact = (1 - rate) / (1 - rate * np.outer(u, GRID))
    np.testing.assert_allclose(hyperkernel(u, GRID, rate), exact)
    weights = expand_in_powers(GRID, rate)
    assert weights.min() >= 0
    found = (u[:, None] ** np.array(LADDER)) @ weights
    assert np.abs(found - exact).max() / exact.max() < 2e-5


def test_coordinates_alpha_and_distances_are_those_of_the_paper() -> None:
    space = build_space(GRID, 0.7)
    matrix = hyperkernel(GRID, GRID, 0.7)
    rng = np.random.default_rng(0)
    one, two = space.draw(rng), space.draw(rng)
    difference = space.alpha(one) - space.alpha(two)
    assert math.isclose(difference @ matrix @ difference, ((one - two) ** 2).sum(), rel_tol=1e-6)  # KFO 20
    apart = space.on_grid(one) - space.on_grid(two)
    by_l2 = (space.metric("l2") * (one - two) ** 2).sum()
    assert math.isclose(apart @ apart, by_l2, rel_tol=1e-9)  # KFO 21
    np.testing.assert_allclose(space.coordinates(space.on_grid(one)), one, rtol=1e-8)
    np.testing.assert_allclose(matrix @ space.alpha(one), space.on_grid(one), rtol=1e-5, atol=1e-8)  # posterior mean


def test_a_kernel_of_the_space_is_its_series() -> None:
    """K = sum_i alpha_i kappa(., c_i), less the constant, as one functional."""
    space = build_space(GRID, 0.6)
    beta = space.coordinates(np.sqrt(GRID))
    powers, weights = space.series(beta, "spectrum")
    u = np.linspace(0.01, 1.0, 50)
    kernel = hyperkernel(u, GRID, 0.6) @ space.alpha(beta)
    found = (u[:, None] ** np.array(powers)) @ np.array(weights)
    slope, level = np.polyfit(found, kernel, 1)
    assert np.abs(slope * found + level - kernel).max() < 1e-3 * np.ptp(kernel)


def test_routes_to_a_definite_kernel() -> None:
    space, rng = build_space(GRID, 0.8), np.random.default_rng(1)
    for _ in range(10):
        beta = space.draw(rng)
        for route in ("clip", "flip", "series"):
            powers, weights = space.series(beta, route)
            assert min(weights) > 0
            assert 0 not in powers
            assert math.isclose(sum(weights), 1.0, abs_tol=1e-6)
    signs = [min(space.series(space.draw(rng), "spectrum")[1]) for _ in range(10)]
    assert min(signs) < 0


@pytest.mark.parametrize("inside", ["SE(0)", "SE(0, 1, 2)", "PER(0)", "SE(0) * PER(1)"])
@pytest.mark.parametrize("degree", [4, 6])
def test_bands_of_frequencies_are_kernels_at_any_lengthscale(inside: str, degree: int) -> None:
    kernel, rng = bind(parse(inside), 3), np.random.default_rng(2)
    dimensions = count_dimensions(kernel)
    assert dimensions == {"SE(0)": 1, "SE(0, 1, 2)": 3, "PER(0)": 2, "SE(0) * PER(1)": 3}[inside]
    for powers, weights in make_bands(degree, dimensions):
        band = Functional(kernel, powers, weights)
        assert band.definite
        assert math.isclose(sum(weights), 1.0, rel_tol=1e-6)
        assert len(weights) == 1 or min(weights) < 0
        for size in (2.0, 8.0, 40.0):
            free = rng.normal(math.log(size), 0.3, layout(band).n_free)
            values = layout(band).from_free(free, values_of(band))
            gram = fused.gram(compile_program(band), values, rng.normal(size=(50, 3)))
            assert np.linalg.eigvalsh(gram)[0] > -1e-7 * gram[0, 0]


def test_what_makes_no_kernel_is_seen() -> None:
    assert not Functional(bind(parse("SE(0)"), 1), (1, 2), (2.0, -1.0)).definite  # its high frequencies are below zero
    assert Functional(bind(parse("SE(0)"), 1), (1, 2), (-0.5, 1.0)).definite
    assert not Functional(bind(parse("SE(0, 1)"), 2), (1, 2), (-0.6, 1.0)).definite  # one column would bear -0.7
    assert not Functional(bind(parse("M32(0)"), 1), (1, 2), (-0.5, 1.0)).definite  # not known
    assert not Functional(bind(parse("SE(0)"), 1), (0, 1), (-0.1, 1.0)).definite


def test_bands_make_up_a_power() -> None:
    """u^(M/j) is a sum of bands, so that a search can begin with it."""
    bands = make_bands(6, 2)
    u = np.linspace(0.5, 1.0, 60)
    basis = np.column_stack([(u[:, None] ** np.array(powers)) @ np.array(weights) for powers, weights in bands])
    for j in range(1, 7):
        sizes, left = nnls(basis, u ** (60 // j))
        assert left < 1e-6
        powers, weights = add_series(bands, sizes)
        np.testing.assert_allclose((u[:, None] ** np.array(powers)) @ np.array(weights), u ** (60 // j), atol=1e-5)


def test_a_functional_with_a_sharp_end_of_its_spectrum_is_found() -> None:
    """Waves of all frequencies up to one: a series without weights below zero does no better than SE itself."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 10, 80)
    waves = [rng.normal() * np.cos(2 * np.pi * f * x + rng.uniform(0, 6)) for f in np.linspace(0.1, 1.0, 25)]
    y = np.sum(waves, axis=0) + 0.05 * rng.normal(size=80)
    found = []
    for bands in (0, 6):
        policy = FunctionalPolicy(bands=bands)
        learner = KernelFunctional("se-harmonic", subspaces=1, iterations=1, tuning=0, policy=policy)
        found.append(mercer.GPRegressor(learner, random_state=0).fit(x[:, None], y))
    assert found[1].log_evidence_ > found[0].log_evidence_ + 2
    (functional,) = find_all(found[1].kernel_, Functional)
    assert min(functional.weights) < 0
    assert functional.definite
    assert "the functional" in found[1].notes_[0]


def test_a_changing_pattern_begins_with_one_that_repeats() -> None:
    """A period that SE*PER alone misses is found by way of PER, and the functional is one of what repeats."""
    x = np.linspace(-15, 15, 121)
    y = np.sinc(x + 10) + np.sinc(x) + np.sinc(x - 10) + 0.03 * np.random.default_rng(5).normal(size=121)
    learner = KernelFunctional(subspaces=0)
    model = mercer.GPRegressor(learner, random_state=0).fit(x[:, None], y)
    assert [leaf.symbol for leaf in model.kernel_.leaves()] == ["SE", "PER"]
    assert math.isclose(list(model.kernel_.leaves())[1].value("period"), 10.0, rel_tol=0.02)


def test_a_large_grid_is_decomposed_by_random_projections() -> None:
    large = np.linspace(0.0, 1.0, LARGE_GRID + 100)
    quick = build_space(large, 0.7, components=5)
    exact = np.linalg.eigvalsh(hyperkernel(large, large, 0.7))[::-1][:5]
    np.testing.assert_allclose(quick.eigenvalues, exact, rtol=1e-6)


def test_after_the_start_the_grid_costs_nothing() -> None:
    """The grid and its rate are used when a space is made and never again; a kernel has as many powers on any grid."""
    lengths = []
    for size in (40, 400):
        space = build_space(np.linspace(0.0, 1.0, size), 0.7, components=6)
        without_grid, rng = replace(space, grid=np.full(0, np.nan), rate=math.nan), np.random.default_rng(0)
        for _ in range(20):
            beta = space.draw(rng)
            powers, weights = without_grid.series(beta, "series")
            assert (powers, weights) == space.series(beta, "series")
            lengths.append(len(powers))
    assert max(lengths) < len(LADDER)


def test_printed_beta() -> None:
    assert math.isclose(ucb_weight(3, 4, 0.1), 2 * math.log(3 ** (2 + 4 / 2) * math.pi**2 / 0.3))
    assert math.isfinite(ucb_weight(1000, 10**6))


def test_the_surrogate_interpolates_and_knows_what_it_does_not_know() -> None:
    points = np.linspace(0, 1, 8)[:, None]
    values = np.sin(5 * points[:, 0])
    model = fit_surrogate(points, values, np.ones(1))
    mean, std = model.predict(points)
    np.testing.assert_allclose(mean, values, atol=0.05)
    _, far = model.predict(np.array([[10.0]]))
    assert far[0] > 5 * std.max()
    for kind in ("ucb", "ei"):
        worth = model.acquire(np.linspace(0, 1, 101)[:, None], values.max(), 2, kind)
        assert np.isfinite(worth).all()
        assert worth.max() > worth.min()
    assert model.possible_gain(points, 100.0) < 0


def target_of(space, wanted):
    def evaluate(beta, subspace, step):
        return ObjectiveValue(-float(((beta / np.linalg.norm(beta) - wanted / np.linalg.norm(wanted)) ** 2).sum()))

    return evaluate


@pytest.mark.parametrize("acquisition", ["ucb", "ei"])
@pytest.mark.parametrize("directions", [1, 2])
def test_the_search_comes_closer_than_its_seed(acquisition, directions) -> None:
    space, rng = build_space(GRID, 0.8), np.random.default_rng(3)
    wanted = space.draw(rng)
    plan = SubspacePlan(4, 8, directions, acquisition)
    found = search_subspaces(space, target_of(space, wanted), plan, rng, [space.coordinates(GRID)])
    assert len(found) == 1 + 4 * (4 + 8)
    assert max(o.outcome.value for o in found) > found[0].outcome.value
    again = search_subspaces(space, target_of(space, wanted), plan, np.random.default_rng(9), [space.coordinates(GRID)])
    same = search_subspaces(space, target_of(space, wanted), plan, np.random.default_rng(9), [space.coordinates(GRID)])
    assert [o.outcome.value for o in again] == [o.outcome.value for o in same]
    assert choose_steadiest(space, found, plan) is not None


def test_every_observation_stays_in_the_surrogate() -> None:
    """Also those of earlier subspaces; GP-UCB is given how many there are."""
    space = build_space(GRID, 0.8)
    wanted = space.draw(np.random.default_rng(0))
    plan, rng = SubspacePlan(3, 4), np.random.default_rng(1)
    found = search_subspaces(space, target_of(space, wanted), plan, rng, [space.first])
    chosen = [(o.step, o.observed) for o in found if o.observed]
    assert chosen == [(t + 1, 5 + 8 * s + t) for s in range(3) for t in range(4)]


def test_points_that_fail_are_marked_and_avoided() -> None:
    space = build_space(GRID, 0.8)

    def evaluate(beta, subspace, step):
        def objective():
            if beta[0] > 0:
                raise ValueError("no")
            return float("nan") if beta[1] > 1.5 else -float(beta @ beta)

        return evaluate_safely(objective)

    found = search_subspaces(space, evaluate, SubspacePlan(3, 5), np.random.default_rng(0))
    bad = [o for o in found if not o.outcome.good]
    assert any("ValueError: no" in o.outcome.problem for o in bad)
    assert len(bad) < len(found)

    def fail(beta, *_):
        return evaluate_safely(lambda: math.nan)

    everything_fails = search_subspaces(space, fail, SubspacePlan(1, 2), np.random.default_rng(0))
    assert all(o.outcome.problem == "the objective gave nan" for o in everything_fails)
    assert choose_steadiest(space, everything_fails, SubspacePlan()) is None


def test_the_regret_rule_ends_a_subspace_early() -> None:
    space = build_space(GRID, 0.8)

    def hill(beta, subspace, step):
        return ObjectiveValue(-float(((beta - 1.0) ** 2).sum()))

    plans = (SubspacePlan(2, 12, stop=stop) for stop in ("budget", "regret"))
    full, early = (search_subspaces(space, hill, plan, np.random.default_rng(0)) for plan in plans)
    assert len(full) == 2 * 16
    assert len(early) < len(full)


def test_tuning_finds_the_top_of_a_hill() -> None:
    rng = np.random.default_rng(0)
    tried = tune(lambda p: ObjectiveValue(-float(((p - 0.3) ** 2).sum())), 2, 20, rng, [np.array([0.9, 0.9])])
    _, value = find_best(tried)
    assert value > -0.02
    assert np.abs(find_steadiest(tried) - 0.3).max() < 0.25
    assert find_best([(np.ones(1), ObjectiveValue(-math.inf, "bad"))])[1] == -math.inf


def test_grids() -> None:
    grid = choose_grid(np.random.default_rng(0).random(500), 20)
    assert len(grid) == 20
    assert grid[-1] == 1.0
    assert (np.diff(grid) >= 0).all()
    with pytest.raises(InputError):
        choose_grid(grid, 1)
    with pytest.raises(InputError):
        build_space(grid, 1.0)


def test_rounding_of_a_target_in_steps() -> None:
    assert math.isclose(rounding_variance(np.array([0.0, 1.0] * 10)), 1 / 12)
    assert rounding_variance(np.random.default_rng(0).normal(size=50)) == 0.0


def wiggle(rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (rows, 2))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=rows)


QUICK = {"subspaces": 2, "iterations": 2, "tuning": 1}


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"hyperkernel": "matern-harmonic", "definite": "clip"}, {"objective": "loo", "definite": "flip"},
        {"objective": "cv", "ard": False}, {"form": "product", "hyperkernel": "se-harmonic"}, {"plus": "LIN"},
        {"objective": lambda gram: -float(np.linalg.cond(gram + 0.1 * np.eye(len(gram))))},
        {"stop": "regret", "acquisition": "ei", "distance": "l2", "directions": 2},
    ],
    ids=["auto", "clip", "loo flip", "cv tied", "product", "plus", "own", "regret ei l2"],
)  # fmt: skip
def test_learning_for_a_gaussian_process(changes) -> None:
    X, y = wiggle()
    model = mercer.GPRegressor(KernelFunctional(**{**QUICK, **changes}), random_state=0).fit(X, y)
    assert model.score(X, y) > 0.8
    assert any(contains(c.expression, Functional) and str(c.step).startswith("subspace") for c in model.candidates_)
    assert contains(model.kernel_, Functional) or any(" itself" in note for note in model.notes_)
    assert len(model.candidates_) > 5
    if "plus" not in changes and not callable(changes.get("objective")):
        best = min(c.score for c in model.candidates_)
        assert math.isfinite(best)
    if changes.get("ard") is False:
        lengths = np.array(next(model.kernel_.leaves()).value("lengthscale")) / X.std(axis=0)
        assert math.isclose(lengths[0], lengths[1], rel_tol=1e-9)


def test_same_seed_same_kernel_and_a_column_that_repeats() -> None:
    x = np.linspace(0, 12, 90)[:, None]
    y = np.abs((x[:, 0] % 1.5) - 0.75) + 0.02 * np.random.default_rng(0).normal(size=90)
    learner = KernelFunctional(**QUICK)
    one, two = (mercer.GPRegressor(learner, random_state=3).fit(x, y) for _ in range(2))
    assert str(one.kernel_) == str(two.kernel_)
    assert "PER" in str(one.kernel_)
    assert np.abs(one.predict(x + 1.5) - one.predict(x)).mean() < 0.1


def test_an_objective_that_fails_everywhere_is_an_error_and_time_ends_a_search() -> None:
    X, y = wiggle(30)
    with pytest.raises(mercer.MercerError):
        mercer.GPRegressor(KernelFunctional(objective=lambda gram: 1 / 0), random_state=0).fit(X, y)
    model = mercer.GPRegressor(KernelFunctional(time_budget=1e-9), random_state=0).fit(X, y)
    assert model.stopped_ == "time"
    assert len(model.candidates_) == 1


def test_an_objective_is_asked_once_for_each_kernel_and_may_fail_at_any_time() -> None:
    X, y = wiggle(40)
    calls = []

    def fickle(gram: np.ndarray) -> float:
        calls.append(1)
        if len(calls) % 3 == 0:
            raise ValueError("not now")
        return -float(np.linalg.cond(gram + 0.1 * np.eye(len(gram))))

    model = mercer.GPRegressor(KernelFunctional(objective=fickle, **QUICK), random_state=0).fit(X, y)
    failed = [c for c in model.candidates_ if c.status == "failed"]
    assert failed
    assert all("not now" in c.message for c in failed)
    assert len(calls) <= len(model.candidates_) + 3  # and once for each of the last few, on all rows
    steps = [str(c.step) for c in model.candidates_]
    assert steps.count("subspace 2, at random") == 4
    assert "subspace 2, step 2" in steps
    assert "subspace 1, step 3" not in steps


@pytest.mark.parametrize(
    "wrong",
    [
        {"hyperkernel": "gaussian"}, {"definite": "hope"}, {"subspaces": -1}, {"iterations": 1.5}, {"directions": 0},
        {"grid": 1}, {"components": 100}, {"objective": "accuracy"}, {"stop": "never"}, {"time_budget": 0},
        {"definite": "spectrum"}, {"plus": "NOT"}, {"form": "sum"}, {"hyperkernel": "own"}, {"hyperkernel": max},
        {"hyperkernel": max, "form": "product"}, {"ard": "zzz"}, {"average": "zzz"},
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_mean_nothing(wrong) -> None:
    X, y = wiggle(20)
    with pytest.raises(InputError):
        KernelFunctional(**wrong).learn(Context(Data(X, y), Exact(), [0, 1]))
