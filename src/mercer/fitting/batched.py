"""Fits one kernel structure from many starts at once: every step of every start is one batched evaluation.

Each start runs its own L-BFGS-B (BoTorch's batched port of SciPy's); those that still need a value and gradient are
evaluated together on the device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from mercer.compute.accelerator import TorchBackend, torch_backend
from mercer.compute.backend import Backend
from mercer.compute.program import Program, compile_program
from mercer.errors import InputError
from mercer.fitting.optimise import Fit, FitOptions, Run, concluded, prepare, starting_points
from mercer.inference.batches import batched_log_evidence
from mercer.inference.contract import Data, Engine
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import Layout, layout, values_of, with_values


def fit_on_device(expression: Expression, data: Data, engine: Engine, options: FitOptions, backend: Backend) -> Fit:
    """Fit a bound expression as `mercer.fitting.optimise.fit` does, all starts at once on a device."""
    if options.priors or options.noise is not None:
        raise InputError("on a GPU the noise is fitted and there are no priors: use device='cpu' for these options")
    problem = prepare(expression, data, engine, options)
    points, screened = starting_points(problem, options)
    known = with_values(expression, problem.objective.known)
    ends = fit_batch(
        known, data.X, data.y, np.stack(points), problem.bounds, backend, options.max_iterations, data.free_level
    )
    runs = [
        Run(end.free, -end.log_evidence, end.status, end.status == "converged", options.max_iterations, data.count)
        for end in ends
        if np.isfinite(end.log_evidence)
    ]
    return concluded(problem, runs, points[0], screened)


class BatchFit(NamedTuple):
    """Where one start ended; the last entry of `free` is the logarithm of the noise variance."""

    free: Array
    log_evidence: float
    status: str


def fit_batch(
    expression: Expression,
    X: Array,
    y: Array,
    starts_free: Array,
    bounds: Array,
    device: str | Backend = "cpu:0",
    max_iterations: int = 200,
    free_level: bool = False,
) -> list[BatchFit]:
    """Maximise the log evidence from every row of `starts_free` (S, n_free + 1), within `bounds` (n_free + 1, 2)."""
    optimise = batched_optimiser()
    starts, limits = np.asarray(starts_free, dtype=float), [(float(low), float(high)) for low, high in bounds]
    objective = _Objective(expression, X, y, starts, torch_backend(device), free_level)
    if starts.ndim != 2 or starts.shape[1] != objective.layout.n_free + 1:
        raise InputError(
            f"a start for {expression.text(digits=4)} is {objective.layout.n_free} free parameters and the logarithm "
            f"of the noise variance; the array of starts has shape {starts.shape}"
        )
    if not len(starts):
        return []
    _, _, results = optimise(objective, starts, bounds=limits, maxiter=max_iterations, pass_batch_indices=True)
    # Not result.x and result.fun: after a line search that failed these two need not belong together.
    best = zip(objective.best, objective.least, results, strict=True)
    return [BatchFit(free, -float(loss), _status(loss, result, max_iterations)) for free, loss, result in best]


def _status(loss: float, result: Any, max_iterations: int) -> str:
    if not np.isfinite(loss):
        return "failed: the covariance matrix at the start cannot be factorised, even with jitter"
    if result.success:
        return "converged"
    reason = f"after {max_iterations} iterations" if result.status == 1 else "where no step gave a better value"
    return f"stopped {reason}"


def batched_optimiser() -> Callable[..., Any]:
    """Return BoTorch's L-BFGS-B for many starts, or say that it is missing."""
    try:
        from botorch.optim.batched_lbfgs_b import fmin_l_bfgs_b_batched
    except ImportError as error:
        raise InputError(
            f'fitting all starts at once needs BoTorch 0.16 or later ({error}): pip install "mercer[cuda]"'
        ) from None
    return fmin_l_bfgs_b_batched


class _Objective:
    """Minus the log evidence and its gradient, for the rows of a matrix of free vectors."""

    def __init__(
        self, expression: Expression, X: Array, y: Array, starts: Array, backend: TorchBackend, free_level: bool
    ) -> None:
        self.layout: Layout = layout(expression)
        self.program: Program = compile_program(expression)
        self.values = values_of(expression)
        self.X, self.y, self.memory = backend.send(X), backend.send(y), backend.batch_memory
        self.free_level = free_level
        # Of each start, so far
        self.best, self.least = starts.copy(), np.full(len(starts), np.inf)
        self.worst = np.full(len(starts), -np.inf)

    def __call__(self, free: Array, batch_indices: list[int]) -> tuple[Array, Array]:
        values = np.stack([self.layout.from_free(row[:-1], self.values) for row in free])
        noise = np.exp(free[:, -1])
        evidence = batched_log_evidence(
            self.program, self._tensor(values), self._tensor(noise), self.X, self.y,
            free_level=self.free_level, memory=self.memory,
        )
        assert evidence.gradient is not None
        assert evidence.noise_gradient is not None
        by_values, by_noise = evidence.gradient.cpu().numpy(), evidence.noise_gradient.cpu().numpy()
        by_free = [self.layout.pullback(v, g) for v, g in zip(values, by_values, strict=True)]
        gradient = -np.column_stack([np.stack(by_free), by_noise * noise])
        return self._noted(-evidence.value.cpu().numpy(), free, np.asarray(batch_indices)), gradient

    def _tensor(self, array: Array) -> torch.Tensor:
        return torch.as_tensor(array, device=self.X.device)

    def _noted(self, loss: Array, free: Array, starts: Array) -> Array:
        """Keep the best; replace failures by a number above the worst: the line search interpolates between values."""
        better = loss < self.least[starts]
        self.best[starts[better]], self.least[starts[better]] = free[better], loss[better]
        failed = ~np.isfinite(loss)
        self.worst[starts[~failed]] = np.maximum(self.worst[starts[~failed]], loss[~failed])
        known = np.where(np.isfinite(self.worst[starts]), self.worst[starts], 0.0)
        return np.where(failed, known + 10 + np.abs(known), loss)
