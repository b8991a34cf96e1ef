"""Columns of categories as one input: the kernel CAT, its algebra, what a search finds, and what is said of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import mercer
from mercer.compute.leaves import spectrum_of
from mercer.explain.categories import correlate_pairs
from mercer.explain.subject import subject_of
from mercer.fitting.starts import Starts
from mercer.inference.contract import Data
from mercer.kernels import CAT, ECAT, KF, M32, SE, C, bind, canonical, from_json, layout, parse, structure, to_json
from mercer.kernels.domains import Share
from mercer.learners.grammar import SearchPolicy
from mercer.learners.growth import base_kernels, children
from tests.agree.slow_reference import slow_gram
from tests.strategies import numbers

EFFECTS = {"a": 0.0, "b": 1.0, "c": 3.0}
NOISE = 0.7


def plant(rows: int, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Three numbers, two of which interact, and an operator."""
    rng = np.random.default_rng(seed)
    temp, speed, ph = rng.uniform(20, 80, rows), rng.uniform(1, 5, rows), rng.uniform(5, 9, rows)
    operator = rng.choice(list(EFFECTS), rows)
    y = 2 * np.sin((temp - 50) / 15) * np.cos((speed - 3) / 1.2) + 1.5 * np.sin(1.5 * (ph - 7))
    y += np.array([EFFECTS[each] for each in operator]) + NOISE * rng.standard_normal(rows)
    return pd.DataFrame({"temp": temp, "speed": speed, "ph": ph, "operator": operator}), pd.Series(y, name="yield")


# ---------------------------------------------------------------------------------------------------------- the kernel


@given(st.integers(2, 9), numbers(0, 0.984375))
@settings(max_examples=25, deadline=None)
def test_it_is_a_kernel_for_any_number_of_categories(count: int, correlation: float) -> None:
    codes = np.arange(float(count))[:, None]
    gram = CAT(0, variance=2.0, correlation=correlation)(codes)
    assert_allclose(gram, 2 * (correlation + (1 - correlation) * np.eye(count)), rtol=1e-15)
    assert np.linalg.eigvalsh(gram)[0] >= 2 * (1 - correlation) - 1e-12


@pytest.mark.parametrize("correlation", [-0.1, 1.0, 2.0])
def test_a_correlation_is_a_share(correlation: float) -> None:
    with pytest.raises(mercer.KernelError, match="'correlation' must be a number from 0 to below 1"):
        CAT(0, correlation=correlation)


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=4))
def test_a_share_and_its_free_number(free: list[float]) -> None:
    domain, at = Share(), np.array(free)
    values = domain.from_free(at)
    assert domain.contains(values)
    assert_allclose(domain.to_free(values), at, atol=1e-6)
    step = 1e-6
    slope = (domain.from_free(at + step) - domain.from_free(at - step)) / (2 * step)
    assert_allclose(domain.pullback(values, np.ones(len(at))), slope, atol=1e-8)


def test_products_and_sums_of_categories_are_one() -> None:
    one, two = CAT(0, variance=2, correlation=0.5), CAT(0, variance=3, correlation=0.25)
    assert canonical(one * two) == CAT(0, variance=6, correlation=0.125)
    assert canonical(one + two) == CAT(0, variance=5, correlation=0.35)
    assert canonical(CAT(0) + CAT(1)) == CAT(0) + CAT(1)
    assert canonical(SE(1) * CAT(0) + SE(1) * CAT(0)) == CAT(0) * SE(1) + CAT(0) * SE(1)
    codes = np.array([[0.0], [1.0], [1.0], [2.0]])
    for kernel in (one * two, one + two):
        assert_allclose(canonical(kernel)(codes), kernel(codes), rtol=1e-14)


def test_the_correlation_counts_only_where_it_can_be_told() -> None:
    """Of a summand of its own it is a constant, which the level has too."""
    assert layout(bind(CAT(0), 1)).free_paths() == ("0:CAT.variance",)
    assert layout(bind(SE(0) + CAT(1), 2)).n_free == 3
    assert layout(bind(SE(0) * CAT(1), 2)).free_paths() == ("0:SE.variance", "0:SE.lengthscale", "1:CAT.correlation")
    assert layout(bind((SE(0) + C()) * CAT(1), 2)).free_paths()[-1] == "2:CAT.correlation"


def test_a_held_correlation_of_zero_is_no_place_to_start() -> None:
    X = np.column_stack([np.linspace(0, 1, 12), np.arange(12.0) % 3])
    kernel = bind(SE(0, variance=1, lengthscale=1) * CAT(1, variance=1, correlation=0.0), 2)
    starts = Starts(kernel, layout(kernel), Data(X, X[:, 0]))
    assert np.isnan(starts.known[3:]).any()
    assert starts.typical()[-1] == pytest.approx(0.4)
    assert starts.neutral()[-1] == pytest.approx(0.9)


# ----------------------------------------------------------------------------------------------- categories at places


def test_places_give_each_pair_its_correlation() -> None:
    kernel = ECAT(0, components=2, variance=2.0, places=[0.5, -1.5])
    gram = kernel(np.arange(3.0)[:, None]) / 2
    at = np.array([0.0, 0.5, -1.5])
    assert_allclose(gram, np.exp(-0.5 * (at[:, None] - at[None]) ** 2), rtol=1e-14)
    assert kernel.text() == "ECAT2(0, variance=2.0, places=[0.5, -1.5])"
    assert parse(kernel.text()) == kernel == from_json(to_json(kernel))


@given(st.lists(numbers(-3, 3), min_size=1, max_size=4), st.lists(numbers(-2, 6), min_size=1, max_size=7))
@settings(max_examples=25, deadline=None)
def test_places_give_a_kernel_also_for_values_that_are_no_codes(places: list[float], values: list[float]) -> None:
    kernel = ECAT(0, components=len(places), variance=1.0, places=places)
    X = np.array([*values, 0.0, 1.0, float(len(places) + 1)])[:, None]
    assert_allclose(kernel(X), slow_gram(kernel, X), rtol=1e-13)
    assert np.linalg.eigvalsh(kernel(X))[0] > -1e-12


def test_places_need_codes() -> None:
    X, y = plant(30)
    cases = {"ECAT3(operator)": "has 3: write ECAT2", "ECAT2(temp)": "does not hold categories"}
    for text, problem in cases.items():
        with pytest.raises(mercer.KernelError, match=problem):
            mercer.GPRegressor(f"SE(ph)*{text}", restarts=1).fit(X, y)
    with pytest.raises(mercer.KernelError, match="does not hold categories here"):
        mercer.GridRegressor("ECAT2").fit(np.arange(12.0).reshape(3, 4))
    with pytest.raises(mercer.KernelError, match="one column of categories, not on 2"):
        parse("ECAT2(a, b)")


def test_a_search_finds_that_some_categories_are_more_alike_than_others() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.uniform(0, 10, 150), "kind": rng.choice(list("abcd"), 150)})
    one, two = np.sin(X["x"]), np.cos(1.3 * X["x"])
    y = pd.Series(np.where(X["kind"].isin(["a", "c"]), one, two) + 0.1 * rng.normal(size=150), name="y")
    search = mercer.GrammarSearch(bases=["SE"], max_depth=2, restarts=2, average=False)
    model = mercer.GPRegressor(search, random_state=0).fit(X, y)
    assert structure(model.kernel_).text(names=model.column_names_) in (
        "ECAT3(kind) * SE(x)", "SE(x) * ECAT3(kind)",
    )  # fmt: skip
    leaf = next(leaf for leaf in model.kernel_.leaves() if leaf.symbol == "ECAT")
    pairs = {pair.categories: pair.correlation for pair in correlate_pairs(leaf)}
    assert min(pairs[0, 2], pairs[1, 3]) > 0.9
    assert max(pairs[0, 1], pairs[0, 3], pairs[1, 2], pairs[2, 3]) < 0.5
    (component,) = model.explain().components
    assert "different for each kind (most alike are " in component.sentence


# ------------------------------------------------------------------------------------------------------ tables and text


def test_a_kernel_without_columns_is_spread_over_categories() -> None:
    cases = {
        "SE": "SE(0, 2) * CAT(1)",
        "SE + LIN": "SE(0, 2) * CAT(1) + LIN(0, 2) + CAT(1)",
        "SE*LIN": "SE(0, 2) * LIN(0, 2) * CAT(1)",
        "SE + CAT": "SE(0, 2) + CAT(1)",
        "SE(0)": "SE(0)",
        "WN": "WN(0, 1, 2)",
        "C": "C",
        "CP(SE, LIN, on=0)": "CP(SE(0, 2) * CAT(1), LIN(0, 2) + CAT(1), on=0)",
        "NKN(SE + LIN, Linear2-Product1-Linear1)": "NKN(SE(0, 2) * CAT(1) + LIN(0, 2), Linear2-Product1-Linear1)",
    }
    for text, meant in cases.items():
        assert structure(bind(parse(text), 3, categories=[1])) == structure(parse(meant)), text
    assert bind(parse("SE + C"), 2, categories=[0, 1]) == parse("CAT(0) * CAT(1) + C")
    functional = KF(M32(), [1, 2], [0.5, 0.5])
    assert bind(functional, 2, categories=[1]) == KF(M32(0), [1, 2], [0.5, 0.5]) * CAT(1)


def test_the_search_puts_nothing_else_on_categories() -> None:
    bases = base_kernels(("SE", "C"), [0, 1, 2], {1: 2})
    assert bases == (SE(0), SE(2), C(), CAT(1))
    changes = [child for child in children(SE(0), bases, "+*r|", "full") if "C" in child.expression.text()[:2]]
    assert all("on=1" not in child.expression.text() for child in changes)
    kernels = {child.expression for child in children(CAT(1), bases, "+*", "full")}
    assert {CAT(1) + SE(0), CAT(1) * SE(0)} <= kernels
    assert CAT(1) + CAT(1) not in kernels
    three = base_kernels(("SE",), [0, 1], {1: 3})
    placed = ECAT(1, components=2)
    assert three == (SE(0), CAT(1), placed)
    assert not any("ECAT" in child.expression.text() for child in children(CAT(1) + SE(0), three, "+*r", "full"))
    assert SE(0) * placed in {child.expression for child in children(SE(0) * CAT(1), three, "+*r", "full")}


def test_random_features_refuse_categories() -> None:
    with pytest.raises(mercer.KernelError, match="CAT has no spectrum, so it has no random features"):
        spectrum_of("CAT")
    X, y = plant(30)
    with pytest.raises(mercer.KernelError, match="no random features"):
        mercer.GPRegressor("SE", inference=mercer.RandomFeatures(count=20), restarts=1).fit(X, y)


@pytest.mark.parametrize("kernel", ["surface", "kfo"])
def test_learners_without_a_place_for_them_get_zeros_and_ones(kernel: str) -> None:
    learner = mercer.model.fitted.LEARNERS[kernel]()
    assert not learner.takes_categories


# ------------------------------------------------------------------------------------------------------ what is found


@pytest.fixture(scope="module")
def found() -> mercer.GPRegressor:
    policy = SearchPolicy(first_parents=1, every_column=False)
    search = mercer.GrammarSearch(bases=["SE"], max_depth=3, restarts=2, average=False, policy=policy)
    return mercer.GPRegressor(search, random_state=0).fit(*plant(240))


def test_a_short_search_finds_the_category(found: mercer.GPRegressor) -> None:
    names = found.column_names_
    assert structure(canonical(found.kernel_)).text(names=names) == "CAT(operator) + SE(temp) * SE(speed) + SE(ph)"
    assert found.noise_**0.5 == pytest.approx(NOISE, abs=0.1)


def test_its_effects_are_right(found: mercer.GPRegressor) -> None:
    X, _ = plant(240)
    explanation = found.explain()
    effect = next(each for each in explanation.effects if each.column == "operator")
    average = X["operator"].map(EFFECTS).mean()
    assert [level.level for level in effect.levels] == ["c", "b", "a"]
    for level in effect.levels:
        assert level.mean == pytest.approx(EFFECTS[level.level] - average, abs=0.2)
        assert level.low < EFFECTS[level.level] - average < level.high
        assert level.high - level.low < 0.5
        assert level.rows == int((X["operator"] == level.level).sum())
    assert sum(level.rows * level.mean for level in effect.levels) == pytest.approx(0.0, abs=1e-8)
    claim = next(claim for claim in explanation.claims if claim.kind == "effect" and claim.subject == "operator")
    assert claim.value.levels == effect.levels
    assert effect.sentence.startswith("yield by operator: c is 1.")
    assert explanation.interactions == ("The effects of temp and speed depend on each other.",)
    assert any(each.sentence.startswith("A level for each operator.") for each in explanation.components)


def test_bands_of_categories_are_those_of_differences(found: mercer.GPRegressor) -> None:
    """The slow way: sample the function at all rows with each category in turn."""
    subject = subject_of(found.fitted_)
    X, _ = plant(240)
    every = pd.concat([X.head(10).assign(operator=level) for level in EFFECTS])
    drawn = found.sample_y(every, 3000, random_state=1, include_noise=False).reshape(3, 10, -1).mean(axis=1)
    shares = X["operator"].value_counts(normalize=True)[list(EFFECTS)].to_numpy()
    centred = drawn - shares @ drawn
    effect = next(each for each in found.explain().effects if each.column == "operator")
    for place, level in enumerate(EFFECTS):
        own = next(each for each in effect.levels if each.level == level)
        assert (own.high - own.low) / (2 * 1.96) == pytest.approx(float(centred[place].std()), rel=0.1)
        assert own.mean == pytest.approx(float(centred[place].mean()), abs=0.02)
    assert subject.columns[3].levels == tuple(EFFECTS)


def test_a_curve_for_each_category_is_told_as_one() -> None:
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"x": rng.uniform(0, 10, 90), "kind": rng.choice(["u", "v"], 90)})
    y = pd.Series(np.where(X["kind"] == "u", np.sin(X["x"]), -np.sin(X["x"])) + 0.05 * rng.normal(size=90), name="y")
    explanation = mercer.GPRegressor("SE", restarts=2, random_state=0).fit(X, y).explain()
    assert explanation.interactions == ("The effect of x differs between the values of kind.",)
    assert "different for each kind (correlation " in explanation.components[0].sentence
    assert explanation.components[0].title == "Interaction of x and kind"


def test_numbers_under_cat_are_categories() -> None:
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.uniform(0, 1, 60), rng.choice([1.0, 2.0, 5.0], 60)])
    y = X[:, 0] + (X[:, 1] == 2) + 0.05 * rng.normal(size=60)
    explanation = mercer.GPRegressor("LIN(0) + CAT(1)", restarts=1, random_state=0).fit(X, y).explain()
    effect = next(each for each in explanation.effects if each.column == "column 1")
    assert (effect.direction, effect.highest_at) == ("differs", "2")
    assert {level.level for level in effect.levels} == {"1", "2", "5"}


def test_networks_take_categories() -> None:
    X, y = plant(60)
    network = mercer.NeuralKernelNetwork(layers="Linear2-Product1-Linear1", restarts=1, max_iterations=5)
    model = mercer.GPRegressor(network, random_state=0).fit(X, y)
    assert {(leaf.symbol, leaf.columns) for leaf in model.kernel_.leaves()} == {
        ("RQ", (0, 1, 2)), ("SE", (0, 1, 2)), ("LIN", (0, 1, 2)), ("CAT", (3,)),
    }  # fmt: skip


def test_the_same_with_sparse_inference() -> None:
    X, y = plant(80)
    kernel = (
        "SE(ph, variance=fixed(2), lengthscale=fixed(1)) * CAT(operator, correlation=fixed(0.5), variance=fixed(1))"
        " + CAT(operator, variance=fixed(2))"
    )
    models = [
        mercer.GPRegressor(kernel, noise=0.5, restarts=1, random_state=0, inference=engine).fit(X, y)
        for engine in (mercer.Exact(), mercer.VFE(inducing=70))
    ]
    assert models[1].log_evidence_ == pytest.approx(models[0].log_evidence_, abs=0.5)
    assert_allclose(models[1].predict(X), models[0].predict(X), atol=0.1)
