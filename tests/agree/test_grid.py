"""Inference on a grid = exact inference on the same rows; gradients = finite differences; CUDA's path = the CPU's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from mercer.compute import fused
from mercer.compute.program import Program, compile_program
from mercer.compute.separate import separate
from mercer.errors import InputError, KernelError
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.inference.grid import Grid, GridEvidence, GridPolicy
from mercer.inference.lattice import find_lattice
from mercer.inference.likelihood import Gaussian
from mercer.kernels import Expression, bind, parse
from mercer.kernels.parameters import values_of
from tests.strategies import base_kernels

Array = NDArray[np.float64]
AXES = (np.arange(8.0), np.array([0.0, 0.4, 1.1, 1.7, 3.0, 3.2]), np.linspace(-1, 1, 5))
KERNELS = (
    "SE(0, lengthscale=2) * PER(1, period=3, lengthscale=1) * M12(2, lengthscale=0.5)",
    "SE(0, 1, 2, lengthscale=[2, 1, 0.4], variance=1.7)",
    "(SE(0, lengthscale=2) + 0.3 * LIN(0, offset=2)) * RQ(1, lengthscale=1, alpha=2)"
    " * SM2(2, weights=[0.4, 0.6], frequency=[1, 2], bandwidth=[0.3, 0.2])",
    "NKN(SE(0) + PER(0) + LIN(0), Linear4-Product2-Linear1) * M32(1, lengthscale=2)",
)
HOLES = ("none", "few", "many", "a block")


def ready(text: str, columns: int = 3) -> tuple[Program, Array]:
    expression = bind(parse(text), columns)
    values = values_of(expression)
    return compile_program(expression), np.where(np.isnan(values), 0.7, values)


def cells(axes: tuple[Array, ...] = AXES) -> Array:
    return np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], 1)


def problem(holes: str, free_level: bool = True, axes: tuple[Array, ...] = AXES, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    X = cells(axes)
    keep = np.ones(len(X), dtype=bool)
    if holes == "a block":
        keep = (np.abs(X[:, 0] - 3.5) > 2.6) | (np.abs(X[:, 1] - axes[1].mean()) > 0.3 * np.ptp(axes[1]))
    elif holes != "none":
        keep[rng.permutation(len(X))[: len(X) // (40 if holes == "few" else 3)]] = False
    y = np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=len(X)) + 3
    return Data(X[keep], y[keep], free_level)


# ------------------------------------------------------------------------------------------------- taking kernels apart


@pytest.mark.parametrize("text", KERNELS)
def test_the_parts_multiply_to_the_kernel(text: str) -> None:
    program, values = ready(text)
    X = np.random.default_rng(0).uniform(-1, 3, (6, 3))
    parts = separate(program, 3)
    assert parts is not None
    product = np.prod([fused.gram(part, values, X[:, d : d + 1]) for d, part in enumerate(parts)], axis=0)
    assert_allclose(product, fused.gram(program, values, X), rtol=1e-12)


@given(st.data(), st.lists(st.integers(1, 2), min_size=1, max_size=3))
@settings(max_examples=50, deadline=None)
def test_products_of_sums_on_one_column_each_come_apart(data: st.DataObject, sizes: list[int]) -> None:
    """Whatever base kernels: a product over columns of sums of products within one."""
    factors: list[Expression] = []
    for column, size in enumerate(sizes):
        terms = [data.draw(base_kernels(1)) * data.draw(base_kernels(1)) for _ in range(size)]
        here = sum(terms[1:], start=terms[0])
        factors.append(here.map_leaves(lambda leaf, c=column: parse(str(leaf).replace("(0", f"({c}"))))
    whole = bind(factors[0] if len(factors) == 1 else np.prod(factors), 3)  # type: ignore[arg-type]
    program, values = compile_program(whole), values_of(whole)
    X = data.draw(st.just(np.random.default_rng(1).integers(-2, 3, (5, 3)).astype(float)))
    parts = separate(program, 3)
    assert parts is not None
    product = np.prod([fused.gram(part, values, X[:, d : d + 1]) for d, part in enumerate(parts)], axis=0)
    assert_allclose(product, fused.gram(program, values, X), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "text", ["(SE(0) + SE(1))*SE(0)", "RQ(0, 1)", "M32(0, 1, 2)", "LIN(0, 1)", "SM2(0, 1)", "SE(0) + RQ(0, 1)"]
)
def test_what_is_no_product_over_columns_is_refused(text: str) -> None:
    program, values = ready(text)
    assert separate(program, 3) is None
    with pytest.raises(KernelError, match=r"product of one kernel for each column"):
        Grid().evidence(program, values, Gaussian(0.1), problem("none"))


# ------------------------------------------------------------------------------------------------------------ evidence


@pytest.mark.parametrize("free_level", [False, True])
@pytest.mark.parametrize("holes", HOLES)
@pytest.mark.parametrize("text", KERNELS)
def test_exact_where_holes_are_few(text: str, holes: str, free_level: bool) -> None:
    program, values = ready(text)
    data = problem(holes, free_level)
    found, exact = (
        Grid().evidence(program, values, Gaussian(0.1), data),
        Exact().evidence(program, values, Gaussian(0.1), data),
    )
    assert isinstance(found, GridEvidence)
    assert found.log_determinant == "exact"
    assert exact.gradient is not None
    assert_allclose(found.value, exact.value, rtol=1e-10)
    assert_allclose(found.gradient, exact.gradient, rtol=1e-7, atol=1e-8)
    assert_allclose(found.noise_gradient, exact.noise_gradient, rtol=1e-8)


@pytest.mark.parametrize("holes", ["few", "many", "a block"])
def test_iterated_evidence_is_near_exact(holes: str) -> None:
    """The quadratic term is exact to the tolerance; the determinant by scaled eigenvalues is off by some per cent."""
    axes = (np.arange(20.0), np.arange(18.0) / 6)
    program, values = ready("SE(0, lengthscale=2) * SE(1, lengthscale=0.5)", 2)
    data = problem(holes, axes=axes)
    exact = Exact().evidence(program, values, Gaussian(0.1), data)
    rough = Grid(exact_work=0, tolerance=1e-8).evidence(program, values, Gaussian(0.1), data)
    probed = Grid(exact_work=0, tolerance=1e-8, log_determinant="lanczos").evidence(
        program, values, Gaussian(0.1), data
    )
    assert isinstance(rough, GridEvidence)
    assert rough.log_determinant == "eigenvalues"
    assert 0 < rough.residual <= 1e-8
    assert 0 < rough.iterations < 100
    missing = 360 - data.count
    assert abs(rough.value - exact.value) < 0.3 * missing
    assert abs(probed.value - exact.value) < 0.1 * missing
    assert_allclose(probed.gradient, exact.gradient, rtol=0.1, atol=0.03 * np.abs(exact.gradient).max())


@pytest.mark.parametrize("holes", HOLES)
@pytest.mark.parametrize("text", [KERNELS[0], KERNELS[3]])
def test_gradients_are_those_of_the_value(text: str, holes: str) -> None:
    program, values = ready(text)
    data, engine = problem(holes), Grid(exact_work=0, tolerance=1e-11)
    found = engine.evidence(program, values, Gaussian(0.1), data)
    for i in range(len(values)):
        step = np.zeros(len(values))
        step[i] = 1e-5 * values[i]
        above, below = (engine.evidence(program, values + s * step, Gaussian(0.1), data, False).value for s in (1, -1))
        assert_allclose(found.gradient[i], (above - below) / (2 * step[i]), rtol=1e-5, atol=1e-5)
    above, below = (engine.evidence(program, values, Gaussian(0.1 + s * 1e-6), data, False).value for s in (1, -1))
    assert_allclose(found.noise_gradient, (above - below) / 2e-6, rtol=1e-6)


@pytest.mark.parametrize("noise", [0.1, 1e-3])
def test_exact_where_most_cells_are_holes(noise: float) -> None:
    """Scattered rows are a grid of hardly any cells, whose eigenvalues say little about the few that are seen."""
    rng = np.random.default_rng(0)
    data = Data(rng.normal(size=(50, 2)), rng.normal(size=50), free_level=True)
    program, values = ready("SE(0, 1)", columns=2)
    exact = Exact().evidence(program, values, Gaussian(noise), data)
    found = Grid().evidence(program, values, Gaussian(noise), data)
    assert_allclose(found.value, exact.value, rtol=1e-6)
    assert_allclose(found.gradient, exact.gradient, rtol=1e-6, atol=1e-6)
    with pytest.raises(InputError, match=r"50 rows fill hardly any of the 2,500 cells.*mercer\.Exact\(\).*mercer\.VFE"):
        Grid(exact_cells=40).evidence(program, values, Gaussian(noise), data)


def test_an_early_end_of_conjugate_gradients_bounds_the_evidence() -> None:
    program, values = ready(KERNELS[0])
    data = problem("a block")
    values_found = [
        Grid(exact_work=0, tolerance=1e-12, most_steps=steps).evidence(program, values, Gaussian(0.01), data).value
        for steps in (1, 3, 10, 100)
    ]
    assert np.all(np.diff(values_found) >= -1e-9)


def test_the_path_of_other_devices_gives_the_same() -> None:
    """On CUDA the factors are evaluated by PyTorch: run that code here, on CPU tensors."""
    program, values = ready(KERNELS[2])
    data = problem("many")
    expected = Grid().evidence(program, values, Gaussian(0.1), data)
    posterior = Grid().posterior(program, values, Gaussian(0.1), data)
    found = Grid(device="cpu:0").evidence(program, values, Gaussian(0.1), data)
    other = Grid(device="cpu:0").posterior(program, values, Gaussian(0.1), data)
    assert_allclose(other.at_holes().mean, posterior.at_holes().mean, rtol=1e-9)
    assert_allclose(other.variance_on(AXES), posterior.variance_on(AXES), atol=1e-10)
    assert_allclose(found.value, expected.value, rtol=1e-12)
    assert_allclose(found.gradient, expected.gradient, rtol=1e-9)


def test_a_kernel_that_overflows_is_a_failure_and_not_an_exception() -> None:
    program, values = ready("SE(0, variance=1e308) * SE(1, variance=1e308)")
    found = Grid().evidence(program, values, Gaussian(0.1), problem("none"))
    assert found.failure is not None
    assert found.value == -np.inf


# ----------------------------------------------------------------------------------------------------------- posterior


@pytest.mark.parametrize("exact_work", [1e12, 0.0])
@pytest.mark.parametrize("holes", HOLES)
@pytest.mark.parametrize("free_level", [False, True])
def test_the_posterior_is_that_of_exact_inference(holes: str, free_level: bool, exact_work: float) -> None:
    engine = Grid(tolerance=1e-9, policy=GridPolicy(posterior_work=exact_work))
    program, values = ready(KERNELS[2])
    data = problem(holes, free_level)
    found, exact = (e.posterior(program, values, Gaussian(0.1), data) for e in (engine, Exact()))
    X = np.random.default_rng(3).uniform(-1, 4, (7, 3))
    for mine, theirs in ((found.predict(X), exact.predict(X)), (found.level, exact.level)):
        assert_allclose(mine.mean, theirs.mean, atol=1e-6)
        assert_allclose(mine.variance, theirs.variance, atol=1e-6)
    for mine, theirs in zip(found.predict_joint(X), exact.predict_joint(X), strict=True):
        assert_allclose(mine, theirs, atol=1e-6)
    part, part_values = ready("SE(0, lengthscale=2) * RQ(1, lengthscale=1, alpha=2)")
    assert_allclose(
        found.predict_part(part, part_values, X).variance, exact.predict_part(part, part_values, X).variance, atol=1e-6
    )
    axes = (np.array([0.5, 9.0]), AXES[1][:3], np.array([0.0, 1.3]))
    whole = exact.predict(cells(axes))
    assert_allclose(found.mean_on(axes).ravel(), whole.mean, atol=1e-6)
    assert_allclose(found.variance_on(axes).ravel(), whole.variance, atol=1e-6)
    if holes != "none":
        assert data.lattice is not None
        missing = exact.predict(cells()[data.lattice.holes])
        assert_allclose(found.at_holes().mean, missing.mean, atol=1e-6)
        assert_allclose(found.at_holes().variance, missing.variance, atol=1e-6)
    left, right = found.leave_one_out(), exact.leave_one_out()
    off = np.abs(left.variance / right.variance - 1)
    assert off.max() < 1e-6 if holes == "none" or exact_work else np.median(off) < 0.1  # by draws


def test_variances_by_draws() -> None:
    program, values = ready("SE(0, lengthscale=2) * SE(1, lengthscale=1)", 2)
    axes = (np.arange(9.0), np.arange(8.0))
    data = problem("many", axes=axes)
    posterior = Grid().posterior(program, values, Gaussian(0.1), data)
    exact = posterior.variance_on(axes)
    engine = Grid(policy=GridPolicy(variance_work=0.0))
    drawn = engine.posterior(program, values, Gaussian(0.1), data).variance_on(axes)
    assert not np.array_equal(drawn, exact)
    assert abs(np.log(drawn / exact)).max() < 1.0  # each is a chi-square of 64 degrees of freedom
    assert abs(np.log(drawn / exact).mean()) < 0.1


def test_draws_have_the_moments_of_the_posterior() -> None:
    program, values = ready("SE(0, lengthscale=2) * SE(1, lengthscale=1)", 2)
    axes = (np.arange(6.0), np.arange(5.0))
    data = problem("many", axes=axes)
    posterior = Grid().posterior(program, values, Gaussian(0.1), data)
    new = (np.array([0.0, 2.5, 7.0]), np.array([1.0, 6.0]))
    draws = np.concatenate(list(posterior.draws_on(new, 4000, np.random.default_rng(0))))
    mean, covariance = posterior.predict_joint(cells(new))
    flat = draws.reshape(4000, -1)
    assert_allclose(flat.mean(0), mean, atol=0.06)
    without_level = np.cov(flat.T)
    unsure = np.sqrt(posterior.solved.level_variance)
    assert_allclose(without_level, covariance, atol=0.08 + unsure**2)
    assert posterior.sample(cells(new), 3, np.random.default_rng(0), 0.1).shape == (6, 3)


# ------------------------------------------------------------------------------------------------------------- lattice


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_lattices_are_found_in_any_order_of_rows(shape: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = cells(tuple(np.sort(rng.normal(size=n)) for n in shape))
    keep = rng.permutation(len(X))[: max(1, len(X) - 2)]
    lattice = find_lattice(X[keep])
    assert lattice is not None
    rebuilt = np.stack([g.ravel() for g in np.meshgrid(*lattice.axes, indexing="ij")], 1)[lattice.cells]
    assert_allclose(rebuilt, X[keep])
    assert len(lattice.holes) + len(keep) == lattice.size


def test_two_rows_in_one_cell_are_no_grid() -> None:
    X = np.vstack([cells(AXES[:2]), [[0.0, 0.4]]])
    assert find_lattice(X) is None
    program, values = ready("SE(0) * SE(1)", 2)
    with pytest.raises(InputError, match="do not form a grid"):
        Grid().evidence(program, values, Gaussian(0.1), Data(X, np.ones(len(X))))
    assert find_lattice(np.random.default_rng(0).normal(size=(50, 3)), most_cells=1000) is None


@pytest.mark.parametrize(
    ("setting", "value"),
    [("tolerance", "a"), ("tolerance", None), ("tolerance", 2), ("exact_work", -1), ("exact_work", "a"),
     ("seed", "a"), ("most_steps", 0), ("most_steps", True), ("exact_cells", 1.5), ("log_determinant", "a")],
)  # fmt: skip
def test_settings_that_mean_nothing(setting: str, value: object) -> None:
    with pytest.raises(InputError, match=rf"^{setting} .*{value!r}$"):
        Grid(**{setting: value})
