"""Sums of products on a grid, with change surfaces and without = exact inference; gradients = finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.compute.separate import separate, summands
from mercer.inference import grid_sum
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.inference.grid import Grid, GridEvidence, GridPolicy
from mercer.inference.grid_sum import gate_at
from mercer.inference.likelihood import Gaussian
from mercer.kernels import bind, parse
from mercer.kernels.parameters import values_of

Array = NDArray[np.float64]
AXES = (np.arange(12.0), np.array([0.0, 0.5, 1.1, 1.7, 2.6, 3.0, 3.3, 4.0]))
KERNELS = (
    "SE(0, lengthscale=3, variance=1) * SE(1, lengthscale=1, variance=1)"
    " + PER(0, period=4.3, lengthscale=1, variance=0.5) * M32(1, lengthscale=2, variance=1)",
    "SE(0, lengthscale=3, variance=1) + RQ(1, lengthscale=1, alpha=1, variance=0.7)",
    "CP(SE(0, lengthscale=3, variance=1) * SE(1, lengthscale=1, variance=1),"
    " SE(0, lengthscale=1, variance=2) * M12(1, lengthscale=2, variance=1), on=0, location=6, width=0.7)",
)


def ready(text: str) -> tuple[object, Array]:
    bound = bind(parse(text), 2)
    values = values_of(bound)
    assert not np.isnan(values).any()
    return compile_program(bound), values


def lanczos(**settings: object) -> Grid:
    """The engine that iterates with few cells too."""
    return Grid(log_determinant="lanczos", **settings)  # type: ignore[arg-type]


def problem(missing: int = 20, free_level: bool = True) -> Data:
    rng = np.random.default_rng(0)
    X = np.stack([g.ravel() for g in np.meshgrid(*AXES, indexing="ij")], 1)
    keep = np.sort(rng.permutation(len(X))[missing:])
    y = np.sin(X[:, 0] / 2) + X[:, 1] + 0.3 * rng.normal(size=len(X)) + 5
    return Data(X[keep], y[keep], free_level)


@pytest.mark.parametrize("text", KERNELS)
def test_summands_add_up_to_the_kernel(text: str) -> None:
    program, values = ready(text)
    assert separate(program, 2) is None
    parts = summands(program, 2)
    assert parts is not None
    X = problem().X[:15]
    total = np.zeros((15, 15))
    for summand in parts:
        term = np.prod([fused.gram(p, values, X[:, d : d + 1]) for d, p in enumerate(summand.parts)], axis=0)
        gate = gate_at(summand.gates, values, X)
        total += term if gate is None else gate[:, None] * term * gate
    assert_allclose(total, fused.gram(program, values, X), rtol=1e-10)


@pytest.mark.parametrize("free_level", [False, True])
@pytest.mark.parametrize("text", KERNELS)
def test_lanczos_evidence_is_near_exact(text: str, free_level: bool) -> None:
    program, values = ready(text)
    data = problem(free_level=free_level)
    exact = Exact().evidence(program, values, Gaussian(0.1), data)
    found = lanczos(tolerance=1e-9, most_steps=500).evidence(program, values, Gaussian(0.1), data)
    assert isinstance(found, GridEvidence)
    assert found.log_determinant == "lanczos"
    assert found.residual <= 1e-9
    assert abs(found.value - exact.value) < 0.02 * data.count


@pytest.mark.parametrize("text", KERNELS)
def test_few_cells_are_left_to_exact_inference(text: str) -> None:
    program, values = ready(text)
    data = problem()
    exact, found = (e.evidence(program, values, Gaussian(0.1), data) for e in (Exact(), Grid()))
    assert isinstance(found, GridEvidence)
    assert found.log_determinant == "exact"
    assert found.value == exact.value
    assert_allclose(found.gradient, exact.gradient)
    X = data.X[:3] + 0.1
    pair = [e.posterior(program, values, Gaussian(0.1), data).predict(X).variance for e in (Exact(), Grid())]
    assert_allclose(*pair)


def test_what_is_near_leaves_little_to_the_probes() -> None:
    """Smooth kernels: a matrix of few directions and noise takes most of the log-determinant and of its gradient."""
    axes = (np.linspace(0, 1, 25), np.linspace(0, 1, 20))
    X = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], 1)
    X = X[np.random.default_rng(0).random(len(X)) > 0.05]
    data = Data(X, np.sin(6 * X[:, 0]) + X[:, 1], True)
    program, values = ready(
        "CP(SE(0, 1, variance=0.4, lengthscale=[0.3, 0.4]), SE(0, 1, variance=1, lengthscale=[0.1, 0.2]),"
        " on=0, location=0.5, width=0.05)"
    )
    exact = Exact().evidence(program, values, Gaussian(0.05), data)
    errors = []
    for rank in (GridPolicy.most_rank, 0):
        policy = GridPolicy(most_rank=rank)
        found = [lanczos(seed=seed, policy=policy).evidence(program, values, Gaussian(0.05), data) for seed in range(4)]
        assert isinstance(found[0], GridEvidence)
        by_value = max(abs(one.value - exact.value) for one in found)
        errors.append((by_value, max(float(np.abs(one.gradient - exact.gradient).max()) for one in found)))
    assert errors[0][0] < 0.5 < errors[1][0]
    assert errors[0][1] < 0.2 * errors[1][1]


@pytest.mark.parametrize("text", KERNELS)
def test_the_gradient_of_the_trace(text: str) -> None:
    program, values = ready(text)
    data = problem()
    summed = lanczos().problem(program, data)
    assert isinstance(summed, grid_sum.SumProblem)
    operator = summed.operator(values, 0.1)
    assert operator is not None
    found = summed.contract_slopes(values, grid_sum.slopes_of_trace(operator))
    for i in range(len(values)):
        step = np.zeros(len(values))
        step[i] = 1e-6 * max(1.0, abs(values[i]))
        above, below = (fused.diagonal(program, values + s * step, data.X).sum() for s in (1, -1))
        assert_allclose(found[i], (above - below) / (2 * step[i]), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("rank", [0, GridPolicy.most_rank])
@pytest.mark.parametrize("text", KERNELS)
def test_everything_but_the_probes_is_exact(text: str, rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every unit vector (scaled) in place of random probes the estimates are the numbers themselves."""
    program, values = ready(text)
    data = problem()
    count = data.count

    class AllOnes:
        def integers(self, low: int, high: int, shape: tuple[int, int]) -> Array:
            return (1.0 + np.sqrt(count) * np.eye(count)) / 2.0

    policy = GridPolicy(probes=count, steps=count, near_steps=count, most_rank=rank)
    monkeypatch.setattr(grid_sum.np.random, "default_rng", lambda seed: AllOnes())
    found = lanczos(tolerance=1e-12, most_steps=2000, policy=policy).evidence(program, values, Gaussian(0.1), data)
    exact = Exact().evidence(program, values, Gaussian(0.1), data)
    assert_allclose(found.value, exact.value, rtol=1e-7)
    assert_allclose(found.gradient, exact.gradient, rtol=1e-5, atol=1e-5)
    assert_allclose(found.noise_gradient, exact.noise_gradient, rtol=1e-6)


@pytest.mark.parametrize("text", KERNELS)
def test_weyl_bounds_the_evidence_and_its_gradient_is_its_own(text: str) -> None:
    program, values = ready(text)
    data = problem(missing=0)
    engine = Grid(tolerance=1e-11, most_steps=2000, log_determinant="weyl")
    found = engine.evidence(program, values, Gaussian(0.1), data)
    assert isinstance(found, GridEvidence)
    assert found.log_determinant == "weyl"
    assert found.value <= Exact().evidence(program, values, Gaussian(0.1), data).value + 1e-6
    for i in range(len(values)):
        step = np.zeros(len(values))
        step[i] = 1e-6 * max(1.0, abs(values[i]))
        above, below = (engine.evidence(program, values + s * step, Gaussian(0.1), data, False).value for s in (1, -1))
        assert_allclose(found.gradient[i], (above - below) / (2 * step[i]), rtol=2e-4, atol=2e-4)
    above, below = (engine.evidence(program, values, Gaussian(0.1 + s * 1e-7), data, False).value for s in (1, -1))
    assert_allclose(found.noise_gradient, (above - below) / 2e-7, rtol=1e-4)


@pytest.mark.parametrize("text", KERNELS)
def test_the_posterior_is_that_of_exact_inference(text: str) -> None:
    program, values = ready(text)
    data = problem()
    found, exact = (e.posterior(program, values, Gaussian(0.1), data) for e in (lanczos(tolerance=1e-8), Exact()))
    X = np.random.default_rng(1).uniform(0, 5, (6, 2))
    for mine, theirs in ((found.predict(X), exact.predict(X)), (found.level, exact.level)):
        assert_allclose(mine.mean, theirs.mean, atol=1e-5)
        assert_allclose(mine.variance, theirs.variance, atol=1e-5)
    for mine, theirs in zip(found.predict_joint(X), exact.predict_joint(X), strict=True):
        assert_allclose(mine, theirs, atol=1e-5)
    assert_allclose(found.leave_one_out().variance, exact.leave_one_out().variance, rtol=1e-4)
    assert found.sample(X, 2, np.random.default_rng(0), 0.1).shape == (6, 2)


def test_even_axes_go_by_fft() -> None:
    program, values = ready(KERNELS[0])
    data = problem()
    expected = lanczos(tolerance=1e-10).evidence(program, values, Gaussian(0.1), data)
    found = lanczos(tolerance=1e-10, policy=GridPolicy(fft_from=2)).evidence(program, values, Gaussian(0.1), data)
    assert_allclose(found.value, expected.value, rtol=1e-9)
    assert_allclose(found.gradient, expected.gradient, rtol=1e-6, atol=1e-8)
