"""The batched evidence = SciPy's normal density; its gradient = finite differences; its fits = SciPy's L-BFGS-B."""

from __future__ import annotations

import builtins
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from mercer.compute.backend import backend_for
from mercer.compute.program import compile_program
from mercer.errors import InputError
from mercer.fitting.minimise import Batch, minimise, run_batched
from mercer.fitting.problem import Fit, FitOptions, Run, prepare
from mercer.inference.batches import BatchedEvidence, Candidates, LevelEvidence, batched_log_evidence
from mercer.inference.contract import Data, Evidence
from mercer.inference.exact import Exact
from mercer.kernels import LIN, PER, RQ, SE, Expression, bind, fixed, layout
from mercer.kernels.parameters import values_of, with_values
from tests.agree.slow_reference import slow_gram
from tests.strategies import deep_kernels, inputs

Array = NDArray[np.float64]
EIGHT = bind(SE(0) * PER(0) + LIN(0) * RQ(0) + SE(0) * LIN(0) + PER(0) * RQ(0), 1)


def tensor(array: Any) -> torch.Tensor:
    return torch.as_tensor(np.asarray(array), dtype=torch.float64)


def evidence_of(
    expression: Expression, values: Array, noise: Array, X: Array, y: Array, **options: Any
) -> BatchedEvidence:
    program = compile_program(expression)
    return batched_log_evidence(program, tensor(values), tensor(noise), tensor(X), tensor(y), **options)


def eight_leaf_problem(batch: int, n: int = 12) -> tuple[Array, Array, Array, Array]:
    random = np.random.default_rng(3)
    values = np.exp(0.4 * random.normal(size=(batch, len(values_of(EIGHT)))))
    X = np.sort(random.uniform(0, 4, size=(n, 1)), axis=0)
    return values, np.exp(random.normal(-1, 0.5, size=batch)), X, random.normal(size=n)


def test_value_and_gradient_of_a_batch() -> None:
    values, noise, X, y = eight_leaf_problem(batch=3)
    found = evidence_of(EIGHT, values, noise, X, y)
    assert found.gradient is not None
    assert found.noise_gradient is not None
    for row in range(3):
        K = slow_gram(with_values(EIGHT, values[row]), X) + noise[row] * np.eye(len(X))
        assert_allclose(float(found.value[row]), multivariate_normal(np.zeros(len(X)), K).logpdf(y), rtol=1e-10)
    for i in range(values.shape[1]):
        step = np.zeros_like(values)
        step[:, i] = 1e-5
        ends = [evidence_of(EIGHT, values + s * step, noise, X, y).value for s in (1, -1)]
        assert_allclose(found.gradient[:, i], (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-7)
    ends = [evidence_of(EIGHT, values, noise + s * 1e-6, X, y).value for s in (1, -1)]
    assert_allclose(found.noise_gradient, (ends[0] - ends[1]) / 2e-6, rtol=1e-5)
    assert not found.failed.any()
    assert not found.jitter.any()


@settings(max_examples=20, deadline=None)
@given(expression=deep_kernels(), X=inputs(min_rows=2, max_rows=5))
def test_deep_kernels_equal_scipy(expression: Expression, X: Array) -> None:
    y = np.cos(np.arange(len(X)))
    K = slow_gram(expression, X)
    noise = 0.1 * float(np.mean(np.diag(K))) + 0.01
    found = evidence_of(expression, values_of(expression)[None], np.array([noise]), X, y)
    expected = multivariate_normal(np.zeros(len(X)), K + noise * np.eye(len(X)), allow_singular=True).logpdf(y)
    assert_allclose(float(found.value[0]), expected, rtol=1e-8, atol=1e-8)


def test_cutting_the_batch_changes_nothing() -> None:
    values, noise, X, y = eight_leaf_problem(batch=5)
    whole = evidence_of(EIGHT, values, noise, X, y)
    cut = evidence_of(EIGHT, values, noise, X, y, memory=8 * 5 * 12**2 * 2)
    singles = [evidence_of(EIGHT, values[i : i + 1], noise[i : i + 1], X, y) for i in range(5)]
    for name in ("value", "gradient", "noise_gradient", "jitter", "failed"):
        assert_allclose(getattr(cut, name), getattr(whole, name), rtol=1e-9)
        assert_allclose(torch.cat([getattr(one, name) for one in singles]), getattr(whole, name), rtol=1e-9)
    value_only = evidence_of(EIGHT, values, noise, X, y, gradient=False, memory=8 * 5 * 12**2 * 2)
    assert_allclose(value_only.value, whole.value, rtol=1e-12)
    assert value_only.gradient is None
    assert value_only.noise_gradient is None


def test_a_failed_candidate_is_a_flagged_row() -> None:
    expression = bind(SE(0), 1)
    X, y = np.zeros((6, 1)), np.ones(6)
    values = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [math.nan, 1.0]])
    noise = np.array([0.1, 0.0, -0.5, 0.1])  # fine, singular, hopeless, not a number
    found = evidence_of(expression, values, noise, X, y)
    assert found.failed.tolist() == [False, False, True, True]
    assert torch.isfinite(found.value).tolist() == [True, True, False, False]
    assert found.value[2:].tolist() == [-math.inf, -math.inf]
    assert found.gradient is not None
    assert found.noise_gradient is not None
    assert not found.gradient[2:].any()
    assert not found.noise_gradient[2:].any()
    assert found.jitter[0] == 0
    assert found.jitter[1] == pytest.approx(1e-10, rel=1e-6)
    alone = evidence_of(expression, values[:1], noise[:1], X, y)
    assert_allclose(found.value[:1], alone.value)


def fit_problem() -> tuple[Expression, Array, Array, Array, Array]:
    random = np.random.default_rng(0)
    expression = bind(SE(0) * PER(0, period=fixed(2.0)) + LIN(0), 1)
    X = np.linspace(0, 6, 30)[:, None]
    y = np.sin(math.pi * X[:, 0]) + 0.3 * X[:, 0] + 0.1 * random.normal(size=30)
    n = layout(expression).n_free + 1
    starts = random.uniform(-1, 1, size=(4, n))
    return expression, X, y - y.mean(), starts, np.tile([-5.0, 5.0], (n, 1))


def fit_batch(
    expression: Expression, X: Array, y: Array, starts: Array, bounds: Array, device: str = "cpu:0", most: int = 200
) -> list[tuple[Run, Fit]]:
    """Fit from all starts at once; return each run and what is concluded from it."""
    backend = backend_for(device)
    problem = replace(prepare(expression, Data(X, y), Exact(), FitOptions()), bounds=bounds)

    def job(batch: Batch) -> list[Run]:
        return minimise(problem, list(starts), most, batch=batch)

    ((_, runs),) = run_batched({0: job}, problem.data, backend)
    return [(run, problem.conclude([run], run.point, 0)) for run in runs]


def test_fits_end_where_scipy_does() -> None:
    expression, X, y, starts, bounds = fit_problem()
    plan, template = layout(expression), values_of(expression)

    def loss(free: Array) -> tuple[float, Array]:
        values, noise = plan.from_free(free[:-1], template), math.exp(free[-1])
        found = evidence_of(expression, values[None], np.array([noise]), X, y)
        assert found.gradient is not None
        assert found.noise_gradient is not None
        by_free = plan.pullback(values, found.gradient[0].numpy())
        return -float(found.value[0]), -np.append(by_free, float(found.noise_gradient[0]) * noise)

    for (run, fit), start in zip(fit_batch(expression, X, y, starts, bounds, "cpu:0"), starts, strict=True):
        alone = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B")
        assert -run.value == pytest.approx(-alone.fun, abs=1e-4)
        assert -run.value == pytest.approx(-loss(run.point)[0], abs=1e-8)
        assert run.converged
        assert fit.status in ("converged", "at a bound")


def test_fit_reports_limits_and_failures() -> None:
    expression, X, y, starts, bounds = fit_problem()
    assert {fit.status for _, fit in fit_batch(expression, X, y, starts, bounds, most=2)} == {"stopped"}
    assert fit_batch(expression, X, y, starts[:0], bounds) == []
    ((_, fit),) = fit_batch(expression, X, np.full(30, math.nan), starts[:1], bounds)
    assert fit.log_evidence == -np.inf
    assert fit.status == "failed"


def test_a_fit_survives_failures_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a wall where every candidate fails, a fit still improves on its start and ends on this side."""
    expression, X, y, starts, bounds = fit_problem()
    wall, met = math.exp(-2.0), []

    original = LevelEvidence.__call__

    def with_wall(self: LevelEvidence, parts: list[Candidates], gradient: bool = True) -> list[list[Evidence]]:
        met.extend(bool((part.noise < wall).any()) for part in parts)
        behind = [part._replace(noise=np.where(part.noise < wall, -1e9, part.noise)) for part in parts]
        return original(self, behind, gradient)

    monkeypatch.setattr(LevelEvidence, "__call__", with_wall)
    before = [-run.value for run, _ in fit_batch(expression, X, y, starts, bounds, most=1)]
    for (run, _), start in zip(fit_batch(expression, X, y, starts, bounds), before, strict=True):
        assert start < -run.value < np.inf
        assert run.point[-1] >= -2.0
    assert any(met)


def test_wrong_starts_and_missing_devices_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    expression, X, y, starts, bounds = fit_problem()
    with pytest.raises(InputError, match="free parameters"):
        fit_batch(expression, X, y, starts[:, 1:], bounds)
    with pytest.raises(InputError, match="no device 'gpu'"):
        fit_batch(expression, X, y, starts, bounds, "gpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="device='cpu'"):
        fit_batch(expression, X, y, starts, bounds, "cuda")
    real_import = builtins.__import__

    def no_botorch(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("botorch"):
            raise ImportError(f"No module named '{name}'")
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_botorch)
    with pytest.raises(InputError, match=r"BoTorch 0\.16 or later.*pip install"):
        fit_batch(expression, X, y, starts, bounds)
