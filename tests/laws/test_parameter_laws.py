"""Laws of the flat vectors, and of which variances count as parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import approx_fprime

from mercer.kernels import layout
from mercer.kernels.domains import Domain, NonNegative, Positive, Real, Simplex
from mercer.kernels.expression import Base, Expression, Parameter, Product, Sum, build_base
from mercer.kernels.parameters import fill_held, held_correlations, held_variances, values_of, with_values
from tests.agree.slow_reference import slow_gram
from tests.laws.variations import partly_fixed
from tests.strategies import deep_kernels, inputs

Array = NDArray[np.float64]
SETTINGS = settings(max_examples=50, deadline=None)
DOMAINS = [Real(), Positive(), NonNegative(), Simplex()]


@st.composite
def with_some_unset(draw: st.DrawFn) -> Expression:
    """A bound kernel, some of its parameters without values."""

    def some(leaf: Base) -> Expression:
        for parameter, spec in zip(leaf.parameters, leaf.specs, strict=True):
            if spec.domain.free_size(len(parameter.values or ())) and draw(st.booleans()):
                leaf = leaf.with_parameter(Parameter(parameter.name))
        return leaf

    return draw(partly_fixed()).map_leaves(some)


@SETTINGS
@given(partly_fixed())
def test_values_and_free_vector_go_back_and_forth(kernel: Expression) -> None:
    plan, values = layout(kernel), values_of(kernel)
    assert with_values(kernel, values) == kernel
    assert len(values) == plan.n_values
    free = plan.to_free(values)
    assert len(free) == plan.n_free == len(plan.free_paths()) == len(set(plan.free_paths()))
    np.testing.assert_allclose(plan.from_free(free, values), values, rtol=1e-13)
    np.testing.assert_allclose(plan.to_free(plan.from_free(free + 0.5, values)), free + 0.5, rtol=1e-12, atol=1e-13)
    moved, kept = plan.from_free(free + 0.5, values), np.ones(len(values), dtype=bool)
    for slot in plan.slots:
        if slot.fitted:
            kept[slot.where] = False
    assert np.array_equal(moved[kept], values[kept])


@SETTINGS
@given(with_some_unset())
def test_unset_values_stay_unset(kernel: Expression) -> None:
    again = with_values(kernel, values_of(kernel))
    held = {"variance": (held_variances(kernel), 1.0), "correlation": (held_correlations(kernel), 0.0)}
    for number, (leaf, other) in enumerate(zip(kernel.leaves(), again.leaves(), strict=True)):
        for one, two in zip(leaf.parameters, other.parameters, strict=True):
            numbers, value = held.get(one.name, ((), None))
            redundant = number in numbers and one.values is None
            assert two == (replace(one, values=(value,)) if redundant else one)
    assert np.array_equal(values_of(again), values_of(kernel), equal_nan=True)
    assert np.array_equal(values_of(fill_held(kernel)), values_of(kernel), equal_nan=True)


@SETTINGS
@given(partly_fixed(), st.integers(0, 2**32 - 1))
def test_layout_pullback_is_the_chain_rule(kernel: Expression, seed: int) -> None:
    plan, values = layout(kernel), values_of(kernel)
    gradient = np.random.default_rng(seed).normal(size=plan.n_values)
    expected = approx_fprime(plan.to_free(values), lambda free: gradient @ plan.from_free(free, values), 1e-7)
    np.testing.assert_allclose(plan.pullback(values, gradient), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda d: type(d).__name__)
def test_domains_map_both_ways(domain: Domain) -> None:
    @SETTINGS
    @given(st.lists(st.floats(-20, 20), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
    def check(numbers: list[float], seed: int) -> None:
        free = np.array(numbers)
        size = len(free) + (1 if isinstance(domain, Simplex) else 0)
        assert domain.free_size(size) == len(free)
        values = domain.from_free(free)
        assert domain.contains(values)
        np.testing.assert_allclose(domain.to_free(values), free, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(domain.from_free(domain.to_free(values)), values, rtol=1e-12, atol=1e-13)
        gradient = np.random.default_rng(seed).normal(size=size)
        mild = np.clip(free, -3, 3)
        step = 1e-6 * np.eye(len(mild))
        slopes = [gradient @ (domain.from_free(mild + h) - domain.from_free(mild - h)) / 2e-6 for h in step]
        np.testing.assert_allclose(domain.pullback(domain.from_free(mild), gradient), slopes, rtol=1e-6, atol=1e-7)

    check()


# ------------------------------------------------------------------------------------------ which variances count

SYMBOLS = ("SE", "PER", "RQ", "M12", "M32", "M52", "COS", "CPER", "LIN")


def generic(kernel: Expression, rng: np.random.Generator) -> Expression:
    """The same structure over base kernels without special relations (constants, noise and many lines have some)."""
    lines = 0

    def drawn(leaf: Base) -> Base:
        nonlocal lines
        symbol = str(rng.choice(SYMBOLS if lines < 2 else SYMBOLS[:-1]))
        lines += symbol == "LIN"
        variance = leaf.parameter("variance")
        values = {"variance": float(rng.uniform(0.5, 2)), "lengthscale": rng.uniform(0.4, 1.5), "alpha": 0.7}
        values |= {"period": rng.uniform(0.7, 3), "frequency": rng.uniform(0.1, 2), "offset": rng.normal()}
        column = int(rng.integers(2))
        built = build_base(symbol, column)
        for name in {p.name for p in built.parameters} & set(values):
            built = built.with_parameter(Parameter(name, (float(values[name]),)))
        return built.with_parameter(replace(built.parameter("variance"), fixed=variance.fixed))

    return kernel.map_leaves(drawn)


def variance_slopes(kernel: Expression, leaves: list[int], X: Array) -> Array:
    """Return d Gram / d log variance, one row for each leaf: exact, as a kernel is linear in each variance."""
    plan, values, gram = layout(kernel), values_of(kernel), slow_gram(kernel, X)
    rows = []
    for slot in plan.slots:
        if slot.spec.name == "variance" and slot.leaf in leaves:
            doubled = values.copy()
            doubled[slot.where] *= 2
            rows.append((slow_gram(with_values(kernel, doubled), X) - gram)[np.triu_indices(len(X))])
    return np.array(rows)


def rank(slopes: Array) -> int:
    if not len(slopes):
        return 0
    scaled = slopes / np.linalg.norm(slopes, axis=1, keepdims=True)
    return int(np.sum(np.linalg.svd(scaled, compute_uv=False) > 1e-9))


@settings(max_examples=30, deadline=None)
@given(deep_kernels(2), st.data(), st.integers(0, 2**32 - 1))
def test_counted_variances_are_all_and_only_those_that_matter(
    kernel: Expression, data: st.DataObject, seed: int
) -> None:
    fixed = data.draw(st.integers(0, 3)) == 0

    def maybe_fixed(leaf: Base) -> Base:
        return leaf.with_parameter(replace(leaf.parameter("variance"), fixed=fixed and data.draw(st.booleans())))

    rng = np.random.default_rng(seed)
    kernel = generic(kernel.map_leaves(maybe_fixed), rng)
    X = rng.uniform(-2, 2, size=(12, 2))
    free = [i for i, leaf in enumerate(kernel.leaves()) if not leaf.parameter("variance").fixed]
    counted = [s.leaf for s in layout(kernel).slots if s.spec.name == "variance" and s.fitted]
    assert rank(variance_slopes(kernel, counted, X)) == len(counted)
    assert rank(variance_slopes(kernel, free, X)) == len(counted)


def is_pinned(kernel: Expression) -> bool:
    if isinstance(kernel, Sum):
        return any(map(is_pinned, kernel.terms))
    if isinstance(kernel, Product):
        return all(map(is_pinned, kernel.factors))
    return next(kernel.leaves()).parameter("variance").fixed


@SETTINGS
@given(partly_fixed(), inputs(max_rows=3), st.floats(1e-3, 1e3))
def test_any_scale_is_reached_by_fitted_parameters_alone(kernel: Expression, X: Array, factor: float) -> None:
    plan, values = layout(kernel), values_of(kernel)
    scaled = values_of(kernel.multiply_by(factor))
    reached = plan.from_free(plan.to_free(scaled), values)
    if is_pinned(kernel):
        return
    np.testing.assert_allclose(reached, scaled, rtol=1e-12)
    gram = slow_gram(kernel, X)
    np.testing.assert_allclose(
        slow_gram(with_values(kernel, reached), X), factor * gram, atol=1e-10 * factor * np.diag(gram).max()
    )
