"""The parameters of a functional while its shape is being sought: a few steps from where the last one was."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.fitting.optimise import (
    CORRECTIONS,
    FLAT,
    Fit,
    FitOptions,
    Problem,
    Run,
    concluded,
    ended,
    optimise,
    prepare,
    starting_points,
)
from mercer.inference.contract import Data, Engine, log_density
from mercer.inference.likelihood import Gaussian
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import Layout
from mercer.linalg.threads import one_thread

FOLDS = 5
FEW_VALUES = 0.5  # distinct values for each row: with fewer the target was recorded in steps


@dataclass(frozen=True, eq=False)
class Fitter:
    """Fits kernels to the same rows; without `ard` all lengthscales of a kernel are one number (in scaled units)."""

    data: Data
    engine: Engine
    ard: bool = True
    seed: int = 0

    def first(self, expression: Expression, restarts: int, iterations: int) -> Fit:
        """Fit a kernel from several starts."""
        with one_thread():
            options = FitOptions(restarts=restarts, seed=self.seed, priors=True)
            problem = self._problem(expression, options)
            points, screened = starting_points(problem, options)
            runs = [self._run(problem, point, iterations) for point in points]
            return concluded(problem, runs, points[0], screened)

    def onward(self, expression: Expression, fit: Fit, iterations: int) -> Fit:
        """Fit a kernel of the same parameters from the values of another."""
        with one_thread():
            problem = self._problem(expression, FitOptions(priors=True))
            point = np.append(problem.objective.layout.to_free(fit.values), math.log(fit.noise))
            run = self._run(problem, np.clip(point, problem.bounds[:, 0], problem.bounds[:, 1]), iterations)
            return concluded(problem, [run], run.point, 0)

    def _problem(self, expression: Expression, options: FitOptions) -> Problem:
        """Weak priors, and a noise no smaller than the rounding of the target, keep the evidence from running away."""
        problem = prepare(expression, self.data, self.engine, options)
        bounds = problem.bounds.copy()
        bounds[-1, 0] = max(bounds[-1, 0], math.log(max(rounding(self.data.y), 1e-300)))
        return replace(problem, bounds=bounds)

    def _run(self, problem: Problem, point: Array, iterations: int) -> Run:
        if self.ard:
            return optimise(problem, point, iterations)
        return _tied(problem, point, iterations)

    def gram(self, fit: Fit) -> Array:
        """Return the Gram matrix of the rows."""
        return fused.gram(compile_program(fit.expression), fit.values, self.data.X)

    def held_out(self, fit: Fit) -> float:
        """Return the log density of rows left out in folds, at the parameters of the fit."""
        folds = np.random.default_rng(self.seed).permutation(self.data.count) % FOLDS
        program, total = compile_program(fit.expression), 0.0
        for fold in range(FOLDS):
            out = folds == fold
            posterior = self.engine.posterior(program, fit.values, Gaussian(fit.noise), self.data.take(~out))
            found = posterior.predict(self.data.X[out])
            total += float(log_density(self.data.y[out] - found.mean, found.variance + fit.noise).sum())
        return total


def rounding(target: Array) -> float:
    """Return the variance that recording in steps adds, step^2 / 12, where the values repeat so often that they are so.

    A target of a few values (0 and 1, a grade) can be hit exactly, and the density there has no upper end.
    """
    values = np.unique(target)
    if len(values) < 2 or len(values) > FEW_VALUES * len(target):
        return 0.0
    return float(np.diff(values).min()) ** 2 / 12.0


def _tied(problem: Problem, point: Array, iterations: int) -> Run:
    """L-BFGS-B with one number for all lengthscales of a base kernel: gradients by them add up."""
    groups = _groups(problem.objective.layout, len(point))
    count = groups.max() + 1
    low, high = problem.bounds.T
    bounds = [(float(low[groups == g].max()), float(high[groups == g].min())) for g in range(count)]
    start = np.array([np.clip(point[groups == g].mean(), *bounds[g]) for g in range(count)])

    def loss(z: Array) -> tuple[float, Array]:
        value, gradient = problem.objective(z[groups])
        return value, np.bincount(groups, gradient, count).astype(np.float64)

    options = {"maxiter": iterations, "maxcor": CORRECTIONS, "ftol": problem.tolerance, "gtol": FLAT}
    result = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return ended(problem, np.asarray(result.x)[groups], float(result.fun), result)


def _groups(layout: Layout, size: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Number the entries of a free vector (and the noise); the lengthscales of one base kernel share a number."""
    numbers: list[int] = []
    for slot in layout.slots:
        if slot.fitted:
            many = slot.spec.domain.free_size(slot.size)
            first = numbers[-1] + 1 if numbers else 0
            numbers += [first] * many if slot.spec.unit == "length" else list(range(first, first + many))
    while len(numbers) < size:
        numbers.append(numbers[-1] + 1 if numbers else 0)
    return np.array(numbers, dtype=np.intp)
