"""Change surfaces: both back ends against the slow reference; gradients against finite differences and each other."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from numpy.typing import NDArray

from mercer.compute import fused, surfaces, torch_backend
from mercer.compute.program import compile_program
from mercer.compute.spectral import draw_features
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.inference.vfe import VFE
from mercer.kernels import bind, parse
from mercer.kernels.blend import KINDS, Blend
from mercer.kernels.parameters import values_of
from tests.agree.agreement import assert_back_ends_agree, relative
from tests.agree.slow_reference import slow_gram, slow_shares
from tests.strategies import blends, inputs

Rows = NDArray[np.float64]
FEW = settings(max_examples=25, deadline=None)
rng = np.random.default_rng(3)
EVEN, UNEVEN = np.linspace(0.0, 3.0, 19)[:, None], np.sort(rng.uniform(0, 3, (19, 1)), axis=0)
PLANE = rng.uniform(0, 2, (15, 2))

ONE_COLUMN = (
    "CP(SE, PER, location=1.2, width=0.2)",
    "CP(SE*LIN, 0, PER + C, location=[0.7, 1.9], width=[0.1, 0.4]) + M32",
    "CW(SE + LIN, PER, start=0.5, duration=1.4, width=0.1)",
    "CP(CW(SE, RQ, start=0.2, duration=0.9, width=0.2), SE, location=1.5, width=0.3) * PER",
    "BLEND(linear, SE, PER, LIN, slope=[2, -3], bias=[1, 0.5])",
    "BLEND(rks3, SE, PER, amplitude=[1, -2, 0.5], frequency=[0.2, 0.4, -0.3], phase=[0, 1, 2])",
    "BLEND(gp3, SE, WN + C, weights=[2, -2, 1], centres=[0, 1.5, 3], lengthscale=0.7)",
)
PLANES = (
    "BLEND(linear, SE, PER(0), SE(1), slope=[2, -3, 1, 1], bias=[1, 0.5])",
    "BLEND(rks2, SE, PER(1), 0, amplitude=[1, -2, 0.5, 1], frequency=[0.2, 0.4, -0.3, 1, 0.2, 0.1, 0.7, 0.8],"
    " phase=[0, 1, 2, 3]) * SE(0)",
    "BLEND(gp2, SE, LIN, weights=[2, -2], centres=[0, 1.5, 1, 0.5], lengthscale=[0.7, 0.4])",
    "CP(SE, LIN(0), on=1, location=1, width=0.3)",
)


def filled(text: str, columns: int) -> Blend:
    """The kernel with middling values where it has none."""
    from tests.agree.test_network import filled as middling

    return middling(parse(text), columns)  # type: ignore[return-value]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_both_back_ends_equal_the_slow_reference(kind: str) -> None:
    @FEW
    @given(blends(kind=kind), inputs(max_rows=5), inputs(max_rows=4))
    def check(kernel: Blend, X: Rows, Z: Rows) -> None:
        gram = assert_back_ends_agree(kernel, X, Z)
        assert np.linalg.eigvalsh(gram).min() >= -1e-9 * max(1.0, np.trace(gram))

    check()


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_shares_add_up_to_one(kind: str) -> None:
    @FEW
    @given(blends(kind=kind), inputs())
    def check(kernel: Blend, X: Rows) -> None:
        own = kernel.surface
        s = surfaces.shares(own, surfaces.values_in(own), X)
        np.testing.assert_allclose(s.T, [slow_shares(own, row) for row in X.tolist()], rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(s.sum(axis=0), 1.0, rtol=1e-12)
        assert np.all(s >= 0)

    check()


CASES = [(t, EVEN) for t in ONE_COLUMN] + [(t, UNEVEN) for t in ONE_COLUMN] + [(t, PLANE) for t in PLANES]


@pytest.mark.parametrize(("text", "X"), CASES)
def test_gradients_agree(text: str, X: Rows) -> None:
    kernel = filled(text, X.shape[1])
    program, values = compile_program(kernel), values_of(kernel)
    assert relative(fused.gram(program, values, X), slow_gram(kernel, X)) < 1e-11
    noise = np.random.default_rng(2).normal(size=(len(X), len(X)))
    weights, vector = noise + noise.T, noise[0].copy()
    whole = weights - np.outer(vector, vector)
    by_fused = fused.contract(program, values, fused.points(X), weights, vector)
    by_torch = torch_backend.contract(program, *(torch.from_numpy(a) for a in (values, X, whole))).numpy()
    assert relative(by_fused, by_torch) < 1e-9
    slopes = differences(lambda v: float(np.sum(whole * fused.gram(program, v, X))), values)
    assert relative(by_fused, slopes) < 1e-6


@pytest.mark.parametrize(("text", "X"), [(ONE_COLUMN[1], UNEVEN), *((t, PLANE) for t in PLANES)])
def test_gradients_of_rectangles_and_diagonals_agree(text: str, X: Rows) -> None:
    kernel = filled(text, X.shape[1])
    program, values, Z = compile_program(kernel), values_of(kernel), X[::3] + 0.05
    weights, vector = rng.normal(size=(len(X), len(Z))), rng.normal(size=len(X))
    by_cross, _ = fused.contract_cross(program, values, X, Z, weights)
    slopes = differences(lambda v: float(np.sum(weights * fused.cross(program, v, X, Z))), values)
    assert relative(by_cross, slopes) < 1e-6
    by_diagonal = fused.contract_diagonal(program, values, X, vector)
    slopes = differences(lambda v: float(vector @ fused.diagonal(program, v, X)), values)
    assert relative(by_diagonal, slopes) < 1e-6


def differences(function: object, values: Rows) -> Rows:
    """Central differences of a function of the values."""
    assert callable(function)
    result = np.empty(len(values))
    for place in range(len(values)):
        step = 1e-6 * max(1.0, abs(values[place]))
        up, down = values.copy(), values.copy()
        up[place] += step
        down[place] -= step
        result[place] = (function(up) - function(down)) / (2 * step)
    return result


@pytest.mark.parametrize("text", [ONE_COLUMN[0], ONE_COLUMN[2], ONE_COLUMN[5]])
def test_exact_and_sparse_inference_agree_with_every_row_an_inducing_point(text: str) -> None:
    kernel = bind(filled(text, 1), 1)
    data = Data(UNEVEN, np.sin(3 * UNEVEN[:, 0]))
    program, values = compile_program(kernel), values_of(kernel)
    exact = Exact().evidence(program, values, Gaussian(0.1), data)
    sparse = VFE(inducing=len(UNEVEN)).evidence(program, values, Gaussian(0.1), data)
    assert sparse.value == pytest.approx(exact.value, abs=1e-4)
    np.testing.assert_allclose(sparse.gradient, exact.gradient, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("text", ["CP(SE, PER, location=1.2, width=0.2)", ONE_COLUMN[5]])
def test_random_features_approach_the_kernel(text: str) -> None:
    kernel = filled(text, 1)
    features = draw_features(kernel, 4000, 1, np.random.default_rng(0), rows=UNEVEN, stratified=True)
    phi = features.phi(UNEVEN)
    assert np.abs(phi @ phi.T - slow_gram(kernel, UNEVEN)).max() < 0.05
