"""Networks: both back ends against the slow reference, and gradients against finite differences and autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import mercer
from mercer.compute import fused, torch_backend
from mercer.compute.program import compile_program
from mercer.kernels import NKN, Expression, bind, layout, parse
from mercer.kernels.domains import Simplex
from mercer.kernels.network import Network
from mercer.kernels.parameters import values_of, with_values
from tests.agree.agreement import assert_back_ends_agree, relative
from tests.agree.slow_reference import slow_gram
from tests.strategies import inputs, networks

Rows = NDArray[np.float64]
FEW = settings(max_examples=25, deadline=None)
ANY = st.booleans().flatmap(lambda complex: networks(complex=complex))
EVEN, UNEVEN = np.linspace(0.0, 3.0, 17)[:, None], np.sort(np.random.default_rng(1).uniform(0, 3, (17, 1)), axis=0)

ONE_COLUMN = (
    "NKN(2*SE + 2*PER + 2*LIN + 2*RQ, Linear8-Product4-Linear4-Product2-Linear1, variances)",
    "NKN(2*EXPI + SE + SUMI, Linear4-Product2-Linear4-Product2-Linear1)",
    "NKN(EXPI + LIN + PER, Linear3-Product1-Poly(0.5, 1, 0.3)-Linear1)",
    "NKN(SE + LIN + PER, Linear4-Product2-Exp-Linear3-Poly(0, 0, 2)-Linear1)",
    "NKN(SE*LIN + (CPER + SM2) + C, Linear4-Product2-Linear1) * RQ + M32",
    "NKN(NKN(SE + LIN, Linear2-Product1-Linear1) + PER, Linear2-Product1-Linear1)",
)


def filled(kernel: Expression, columns: int, seed: int = 0) -> Expression:
    """The kernel with middling random values."""
    bound, rng = bind(kernel, columns), np.random.default_rng(seed)
    values = values_of(bound)
    for slot in layout(bound).slots:
        if np.isnan(values[slot.where]).any():
            drawn = rng.uniform(0.5, 1.0, slot.size)
            values[slot.where] = drawn / drawn.sum() if isinstance(slot.spec.domain, Simplex) else drawn
    return with_values(bound, values)


@FEW
@given(ANY, inputs(max_rows=5), inputs(max_rows=5))
def test_both_back_ends_equal_the_slow_reference(network: Network, X: Rows, Z: Rows) -> None:
    assert_back_ends_agree(network, X, Z)


@pytest.mark.parametrize("spacing", ["even", "uneven"])
@pytest.mark.parametrize("text", ONE_COLUMN)
def test_gradients_agree(text: str, spacing: str) -> None:
    X = EVEN if spacing == "even" else UNEVEN
    kernel = filled(parse(text), 1)
    program, values = compile_program(kernel), values_of(kernel)
    assert relative(fused.gram(program, values, X), slow_gram(kernel, X)) < 1e-11
    noise = np.random.default_rng(2).normal(size=(len(X), len(X)))
    weights, vector = noise + noise.T, noise[0].copy()
    whole = weights - np.outer(vector, vector)
    by_fused = fused.contract(program, values, fused.points(X), weights, vector)

    def total(point: Rows) -> float:
        return float(np.sum(whole * fused.gram(program, point, X)))

    steps = 1e-6 * np.eye(len(values))
    by_differences = np.array([(total(values + step) - total(values - step)) / 2e-6 for step in steps])
    assert relative(by_fused, by_differences) < 1e-7
    tensors = [torch.from_numpy(a) for a in (values, X, whole)]
    assert relative(np.asarray(torch_backend.contract(program, *tensors)), by_fused) < 1e-11
    variable = tensors[0].clone().requires_grad_()
    (torch_backend.gram(program, variable, tensors[1]) * tensors[2]).sum().backward()
    assert relative(variable.grad.numpy(), by_fused) < 1e-11


@FEW
@given(ANY, inputs(min_rows=2, max_rows=5))
def test_back_ends_agree_on_gradients_also_at_zero_weights(network: Network, X: Rows) -> None:
    program, values = compile_program(network), values_of(network)
    weights = np.cos(np.add.outer(np.arange(len(X)), np.arange(len(X))))
    by_fused = fused.contract(program, values, fused.points(X), weights, np.zeros(len(X)))
    by_torch = torch_backend.contract(program, *(torch.from_numpy(a) for a in (values, X, weights)))
    assert np.isfinite(by_fused).all()
    largest = max(1.0, float(np.abs(by_fused).max()))
    np.testing.assert_allclose(by_torch / largest, by_fused / largest, rtol=1e-9, atol=1e-9)


def test_several_columns_and_many_candidates() -> None:
    X = np.random.default_rng(3).normal(size=(12, 3))
    kernel = filled(parse("NKN(2*SE + LIN + RQ(0) + SUMI(1, 2) + EXPI, Linear6-Product2-Linear1)"), 3)
    program, values = compile_program(kernel), values_of(kernel)
    assert relative(fused.gram(program, values, X), slow_gram(kernel, X)) < 1e-12
    batch = np.stack([values, 0.7 * values, 1.2 * values])
    together = torch_backend.gram(program, torch.from_numpy(batch), torch.from_numpy(X)).numpy()
    for one, gram in zip(batch, together, strict=True):
        assert relative(gram, fused.gram(program, one, X)) < 1e-12


def test_the_evidence_names_weights_and_biases() -> None:
    rng = np.random.default_rng(0)
    kernel = filled(NKN("SE + LIN", "Linear2-Product1-Linear1"), 1)
    value, gradient = mercer.log_evidence(kernel, EVEN, rng.normal(size=17), noise=0.1, gradient=True)
    assert np.isfinite(value)
    assert np.shape(gradient["2:Linear2.weights"]) == (4,)
    assert np.shape(gradient["2:Linear2.bias"]) == (2,)
    assert np.isfinite(gradient["3:Linear1.bias"])
