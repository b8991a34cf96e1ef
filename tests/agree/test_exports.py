"""What other libraries predict from exported models is what Mercer predicts; `make bench-interop` tries 500 of each."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mercer.interop.onnx_graph import LEAVES as IN_ONNX
from mercer.kernels.expression import Base, build_base, product_of, sum_of
from mercer.kernels.leaf import REGISTRY
from mercer.kernels.parameters import Units
from tests.exports import TARGETS, WITH_AVERAGES, Case, cases, make_model, worst_difference
from tests.strategies import base_kernels, numbers

FEW = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("target", TARGETS)
@FEW
@given(data=st.data())
def test_an_exported_model_predicts_the_same(target, data):
    if target == "ONNX":
        pytest.importorskip("onnxruntime")
    case = data.draw(cases(averages=target in WITH_AVERAGES))
    assert worst_difference(case, TARGETS[target](case)) <= case.tolerance


@FEW
@given(case=cases(averages=True))
def test_the_joint_posterior_in_botorch_is_that_of_the_average(case: Case):
    found = case.model.to_botorch().posterior(torch.as_tensor(case.rows))
    mean, covariance = case.model.predict(case.rows, return_cov=True, include_noise=False)
    got, scale = found.distribution.covariance_matrix.detach().numpy(), max(case.prior, float(covariance.max()))
    assert np.abs(got - covariance).max() <= case.tolerance * scale
    assert np.abs(found.mean.detach().numpy().ravel() - mean).max() <= case.tolerance * np.sqrt(scale)


@pytest.mark.parametrize("symbol", sorted(REGISTRY))
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_posteriors_in_botorch_have_gradients_by_the_rows(symbol, data):
    kernel = data.draw(base_kernels(2, symbol))
    Z = np.array([[-1.0, 0.3], [-0.2, -1.1], [0.6, 0.8], [1.3, 0.1]])
    model = make_model([kernel], [0.1], Z, np.array([0.5, -0.3, 1.0, -1.2])).to_botorch()
    x = torch.tensor(model.members[0].train_inputs[0][:1].numpy() + np.array([[2.13, 0.0057]]))[None].requires_grad_()

    def moments(rows):
        posterior = model.posterior(rows)
        return posterior.mean / 40.0, posterior.variance / 40.0**2

    assert torch.autograd.gradcheck(moments, (x,), eps=1e-6, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_categories_are_exported(target, data):
    """Codes of categories, one of which (7) was never seen."""
    codes = np.array([0.0, 1.0, 2.0, 0.0, 1.0, 3.0])
    kernel = product_of([data.draw(base_kernels(1, "SE")), data.draw(placed_categories())])
    kernel = sum_of([kernel, build_base("CAT", 1, variance=0.5, correlation=0.25)])
    Z = np.column_stack([np.linspace(-1, 1, 6), codes])
    units = Units((5.0, 0.0), (3.0, 1.0), 2.0)
    model = make_model([kernel], [0.1], Z, np.sin(np.arange(6.0)), units=units)
    rows = np.column_stack([np.linspace(2, 9, 6), [3.0, 2.0, 0.0, 7.0, 1.0, 7.0]])
    case = Case(model, rows)
    assert worst_difference(case, TARGETS[target](case)) <= case.tolerance


@st.composite
def placed_categories(draw: st.DrawFn) -> Base:
    return build_base("ECAT", 1, components=3, variance=1.0, places=[draw(numbers(-2, 2)) for _ in range(3)])


def test_every_base_kernel_has_an_entry_in_the_table_for_onnx():
    parts = {"C": None, "SM": "ENVELOPE"}  # no leaf of its own; leaves of its parts
    wanted = {parts.get(symbol, symbol) for symbol in REGISTRY} - {None}
    assert wanted <= set(IN_ONNX)
