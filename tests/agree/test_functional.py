"""Functionals: both back ends against the slow reference, gradients against differences, laws of kernels."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import mercer
from mercer.compute import fused, torch_backend
from mercer.compute.program import LeafNode, compile_program
from mercer.errors import KernelError
from mercer.kernels import KF, LIN, M32, PER, SE, Functional, bind, canonical, from_json, parse, to_json
from mercer.kernels.parameters import Units, to_data_units, to_scaled_units, values_of
from tests.agree.agreement import assert_back_ends_agree
from tests.strategies import base_kernels, functionals, inputs

Rows = NDArray[np.float64]
FEW = settings(max_examples=25, deadline=None)
EVEN, UNEVEN = np.linspace(0.0, 3.0, 17)[:, None], np.sort(np.random.default_rng(1).uniform(0, 3, (17, 1)), axis=0)


@FEW
@given(functionals(definite=False), base_kernels(), inputs(max_rows=5), inputs(max_rows=5))
def test_both_back_ends_equal_the_slow_reference(functional, other, X: Rows, Z: Rows) -> None:
    for kernel in (functional, functional * other + functional):
        assert_back_ends_agree(kernel, X, Z)


@pytest.mark.parametrize("X", [EVEN, UNEVEN], ids=["evenly spaced", "not"])
@pytest.mark.parametrize("inside", ["SE", "M12", "M32", "M52", "RQ", "PER", "SE*PER"])
def test_gradients_equal_finite_differences(inside: str, X: Rows) -> None:
    kernel = bind(parse(f"KF({inside}, powers=[1, 3, 8], weights=[0.2, 0.5, 0.3]) * LIN(0, offset=0.4, variance=1)"), 1)
    values = values_of(kernel)
    values = np.where(np.isnan(values), 0.8, values)
    program = compile_program(kernel)
    weights = np.random.default_rng(0).normal(size=(len(X), len(X)))
    weights = weights + weights.T
    by_fused = fused.contract(program, values, fused.points(X), weights, np.zeros(len(X)))
    by_torch = torch_backend.contract(program, *(torch.from_numpy(a) for a in (values, X, weights))).numpy()
    differences = np.empty(len(values))
    for place in range(len(values)):
        step = np.zeros(len(values))
        step[place] = 1e-6
        up, down = (fused.gram(program, values + sign * step, X) for sign in (1, -1))
        differences[place] = (weights * (up - down)).sum() / 2e-6
    np.testing.assert_allclose(by_fused, differences, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(by_torch, by_fused, rtol=1e-9, atol=1e-9)


@FEW
@given(functionals(), inputs(max_rows=8))
def test_with_no_weight_below_zero_it_is_a_kernel(functional: Functional, X: Rows) -> None:
    gram = fused.gram(compile_program(functional), values_of(functional), X)
    assert np.linalg.eigvalsh(gram)[0] >= -1e-9 * max(1.0, float(np.abs(gram).max()))
    assert functional.definite


@FEW
@given(functionals(definite=False), base_kernels())
def test_text_and_json_are_read_back(functional: Functional, other) -> None:
    for kernel in (functional, other * functional + other):
        assert parse(str(kernel)) == kernel
        assert from_json(json.loads(json.dumps(to_json(kernel)))) == kernel


@FEW
@given(functionals(dimensions=2), inputs(max_rows=5, dimensions=2), st.floats(0.2, 5.0))
def test_units_go_there_and_back(functional: Functional, X: Rows, scale: float) -> None:
    units = Units((0.3, -1.0), (scale, 2.0), 1.7)
    kernel = functional * SE(0, variance=0.7, lengthscale=1.1)
    data = to_data_units(kernel, units)
    scaled = (X - np.array(units.shift)) / np.array(units.scale)
    expected = 1.7**2 * fused.gram(compile_program(kernel), values_of(kernel), scaled)
    np.testing.assert_allclose(fused.gram(compile_program(data), values_of(data), X), expected, rtol=1e-8, atol=1e-10)
    back = to_scaled_units(data, units)
    gram = fused.gram(compile_program(back), values_of(back), scaled)
    np.testing.assert_allclose(1.7**2 * gram, expected, rtol=1e-8, atol=1e-10)


@FEW
@given(functionals(dimensions=2), base_kernels(dimensions=2), inputs(max_rows=5, dimensions=2))
def test_the_canonical_form_is_the_same_kernel(functional: Functional, other, X: Rows) -> None:
    kernel = (functional + other) * (other + 2.0)
    same = canonical(kernel)
    one, two = (fused.gram(compile_program(k), values_of(k), X) for k in (kernel, same))
    np.testing.assert_allclose(two, one, rtol=1e-9, atol=1e-12 * max(1.0, float(np.abs(one).max())))


def test_the_cost_of_a_pair_does_not_grow_with_the_powers() -> None:
    """One leaf, and a multiplication for each doubling of the power."""
    low = compile_program(bind(KF(M32(), [1], [1.0]), 3))
    high = compile_program(bind(KF(M32(), [1, 256], [0.5, 0.5]), 3))
    assert sum(isinstance(node, LeafNode) for node in high.nodes) == 1
    assert len(high.nodes) <= len(low.nodes) + 8


def test_what_is_no_functional_is_refused() -> None:
    for inside, powers, weights in (
        (LIN(0), [1], [1.0]), (SE(0) + M32(0), [1], [1.0]), (SE(0), [2, 1], [1.0, 1.0]), (SE(0), [1, 1], [0.5, 0.5]),
        (SE(0), [-1], [1.0]), (SE(0), [1.5], [1.0]), (SE(0), [1], [0.0]), (SE(0), [1], [np.nan]),
        (SE(0), [1], [1.0, 2.0]), (SE(0), [], []), ("SE", [1], [1.0]), (SE(0), 3, [1.0]),
    ):  # fmt: skip
        with pytest.raises(KernelError):
            KF(inside, powers, weights)
    for text in ("KF", "KF(SE)", "KF(SE, powers=[1])", "KF(SE, powers=[1], weights=[1], powers=[1])", "KF(SE, p=1)"):
        with pytest.raises(KernelError, match=r"KF|powers"):
            parse(text)
    with pytest.raises(KernelError, match="damaged"):
        from_json({"format": "mercer-kernel", "version": 2, "kernel": {"functional": {"inside": None}}})


def test_a_functional_is_fitted_added_and_saved(tmp_path) -> None:
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 10, (60, 1)), axis=0)
    y = np.sin(X[:, 0]) + 0.3 * X[:, 0] + 0.05 * rng.normal(size=60)
    model = mercer.GPRegressor(KF(M32(0), [1, 4], [0.3, 0.7]) + LIN(0), restarts=2, random_state=0).fit(X, y)
    assert isinstance(next(t for t in model.kernel_.children if isinstance(t, Functional)), Functional)
    assert model.score(X, y) > 0.99
    model.save(tmp_path / "m.mercer")
    np.testing.assert_allclose(mercer.load(tmp_path / "m.mercer").predict(X), model.predict(X), rtol=1e-9)
    assert "function" in str(model.explain())


def test_inside_a_product_the_functional_carries_the_variance() -> None:
    kernel = bind(KF(PER(0), [1, 2], [0.5, 0.5]) * SE(0), 1)
    paths = mercer.kernels.layout(kernel).free_paths()
    assert sum("variance" in path for path in paths) == 1
