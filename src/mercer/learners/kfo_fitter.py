"""Fitting the parameters of kernels with a functional in them: weak priors, and weights of a series improved as one.

What `kfo.py` searches over are shapes; what belongs to a shape, its lengthscales, noise and the weights of its powers
or bands, is fitted here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import nnls

from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.fitting.minimise import minimise, starting_points
from mercer.fitting.problem import Evaluations, Fit, FitOptions, Problem, Run, prepare
from mercer.inference.contract import Data, Engine
from mercer.inference.likelihood import Gaussian
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression, Sum, find_all, sum_of
from mercer.kernels.functional import Functional
from mercer.kernels.parameters import layout, values_of, with_values
from mercer.learners.averaging import log_density
from mercer.learners.kernel_space import LADDER, Series, add_series
from mercer.linalg.threads import one_thread

FOLDS = 5
FIRST_WEIGHT = 1e-2  # of a power that a shape has not: enough for its gradient to be felt
STRETCH_ROWS = 60  # whose pairs tell which powers of a longer kernel are a shorter one
FAINT_POWER = 1e-4  # of the sum of the weights: powers with less are left out
POWERS: tuple[Series, ...] = tuple(((p,), (1.0,)) for p in LADDER[1:])
NEARLY_ONE = 3.0  # ranges of the rows: the lengthscale of an SE that hardly changes what it multiplies
FEW_VALUES = 0.5  # distinct values for each row: with fewer the target was recorded in steps


@dataclass(frozen=True, eq=False)
class Fitter:
    """Fits kernels to the same rows; without `ard` all lengthscales of a kernel are one number (in scaled units)."""

    data: Data
    engine: Engine
    ard: bool = True
    seed: int = 0

    def fit(self, expression: Expression, restarts: int, iterations: int) -> Fit:
        """Fit a kernel from several starts."""
        with one_thread():
            options = FitOptions(restarts=restarts, seed=self.seed, priors=True)
            problem = self._problem(expression, options)
            points, screened = starting_points(problem, options)
            runs = [self._run(problem, point, iterations) for point in points]
            return problem.conclude(runs, points[0], screened)

    def continue_fit(self, expression: Expression, fit: Fit, iterations: int) -> Fit:
        """Fit a kernel of the same parameters from the values of another."""
        with one_thread():
            problem = self._problem(expression, FitOptions(priors=True))
            run = self._run(problem, problem.point(fit.values, fit.likelihood), iterations)
            return problem.conclude([run], run.point, 0)

    def _problem(self, expression: Expression, options: FitOptions) -> Problem:
        """Weak priors, and a noise no smaller than the rounding of the target, keep the evidence from running away."""
        problem = prepare(expression, self.data, self.engine, options)
        bounds = problem.bounds.copy()
        bounds[-1, 0] = max(bounds[-1, 0], math.log(max(rounding_variance(self.data.y), 1e-300)))
        return replace(problem, bounds=bounds)

    def _run(self, problem: Problem, point: Array, iterations: int) -> Run:
        if self.ard:
            return minimise(problem, [point], iterations)[0]
        return _minimise_tied(problem, point, iterations)

    def improve_weights(self, fit: Fit, iterations: int, terms: Sequence[Series] = POWERS) -> Fit:
        """Return a fit with more evidence by other weights of its one functional: of powers, or of bands.

        Each has a variance of its own for this; everything else but the noise stays as it is.
        """
        term, functional = first_term(fit.expression), next(find_all(fit.expression, Functional))
        known = dict(zip(functional.powers, functional.weights, strict=True))
        sizes = np.array([known.get(powers[0], 0.0) for powers, _ in terms])
        if max(len(powers) for powers, _ in terms) > 1:
            sizes = self._write(functional, functional.inside, terms)
        first = np.maximum(sizes, FIRST_WEIGHT)
        parts = [
            with_series(term, (powers, tuple(float(w * size) for w in weights)))
            for (powers, weights), size in zip(terms, first, strict=True)
        ]
        rest = fit.expression.children[1:] if isinstance(fit.expression, Sum) else ()
        with one_thread():
            # no priors: they would keep every power alive
            problem = self._problem(sum_of([*parts, *rest]), FitOptions(priors=False))
            point = problem.point(values_of(problem.expression), fit.likelihood)
            free = [path.endswith(".variance") for path in problem.layout.free_paths()]
            bounds = np.where(np.array([*free, True])[:, None], problem.bounds, point[:, None])
            run = minimise(replace(problem, bounds=bounds), [point], iterations)[0]
        found, noise = problem.split(run.point)
        carrier, size = _carrier(fit.expression), len(values_of(term))
        sizes = np.array([w * found[i * size + carrier] for i, w in enumerate(first)])
        values = np.append(found[:size], found[len(parts) * size :])
        values[carrier] = sizes.sum()
        series = add_series(terms, sizes, FAINT_POWER)
        expression = with_values(with_series(fit.expression, series), values)
        return replace(fit, expression=expression, values=values, noise=noise.noise)

    def stretch(self, fit: Fit, factor: float, terms: Sequence[Series] = POWERS) -> Fit:
        """Return nearly the same kernel with longer lengthscales, as powers, so that longer ones can join, or bands."""
        functional, values = next(find_all(fit.expression, Functional)), fit.values.copy()
        end = len(list(first_term(fit.expression).leaves()))  # a functional is the last factor of its term
        inside = range(end - len(list(functional.leaves())), end)
        for slot in layout(fit.expression).slots:
            if slot.leaf in inside and slot.spec.name == "lengthscale":
                values[slot.where] *= factor
        longer = next(find_all(with_values(fit.expression, values), Functional)).inside
        series = add_series(terms, self._write(functional, longer, terms), FAINT_POWER)
        return replace(fit, expression=with_values(with_series(fit.expression, series), values), values=values)

    def _write(self, functional: Functional, inside: Expression, terms: Sequence[Series]) -> Array:
        """Return how much of each term, a series of the kernel inside, makes up a functional between the rows."""
        some = self.data.X[:: max(1, self.data.count // STRETCH_ROWS)]
        old, new = (_unit_values(each, some) for each in (functional.inside, inside))
        wanted = np.array([functional.shape(float(u)) for u in old])
        basis = [(new[:, None] ** np.array(powers)) @ np.array(weights) for powers, weights in terms]
        return np.asarray(nnls(np.column_stack(basis), wanted)[0])

    def continue_in_product(self, fit: Fit, expression: Expression, iterations: int) -> Fit:
        """Fit a product of a kernel and SE, which is nearly one, from the values of the kernel alone."""
        own = {(slot.spec.name, slot.spec.unit): fit.values[slot.where] for slot in layout(fit.expression).slots}
        values, span = values_of(expression), np.ptp(self.data.X, axis=0)[list(next(expression.leaves()).columns)]
        for slot in (slot for slot in layout(expression).slots if slot.fitted):
            key = slot.spec.name, slot.spec.unit
            values[slot.where] = own[key] if key in own else NEARLY_ONE * span
        return self.continue_fit(expression, replace(fit, expression=expression, values=values), iterations)

    def score_held_out(self, fit: Fit) -> float:
        """Return the log density of rows left out in folds, at the parameters of the fit."""
        folds = np.random.default_rng(self.seed).permutation(self.data.count) % FOLDS
        program, total = compile_program(fit.expression), 0.0
        for fold in range(FOLDS):
            out = folds == fold
            posterior = self.engine.posterior(program, fit.values, Gaussian(fit.noise), self.data.take(~out))
            found = posterior.predict(self.data.X[out])
            total += float(log_density(self.data.y[out] - found.mean, found.variance + fit.noise).sum())
        return total


def with_series(expression: Expression, series: Series) -> Expression:
    """Return the kernel with the series of all its functionals replaced; values stay, as a place to start from."""
    if isinstance(expression, Functional):
        return Functional(expression.inside, *series)
    return expression.with_children([with_series(child, series) for child in expression.children])


def first_term(expression: Expression) -> Expression:
    """Return what has the functional in it: a linear kernel beside it comes last."""
    return expression.children[0] if isinstance(expression, Sum) else expression


def _carrier(expression: Expression) -> int:
    """Return the place of the variance of the functional, which comes first in a kernel."""
    return next(slot.offset for slot in layout(expression).slots if slot.fitted and slot.spec.name == "variance")


def _unit_values(inside: Expression, X: Array) -> Array:
    """Return the values of a kernel between all rows, one at no distance."""
    matrix = fused.gram(compile_program(inside), values_of(inside), X)
    return np.asarray((matrix / matrix[0, 0])[np.triu_indices(len(X))])


def rounding_variance(target: Array) -> float:
    """Return the variance that recording in steps adds, step^2 / 12, where the values repeat so often that they are so.

    A target of a few values (0 and 1, a grade) can be hit exactly, and the density there has no upper end.
    """
    values = np.unique(target)
    if len(values) < 2 or len(values) > FEW_VALUES * len(target):
        return 0.0
    return float(np.diff(values).min()) ** 2 / 12.0


@dataclass(frozen=True, eq=False)
class _Tied:
    """A problem with one number for all lengthscales of a base kernel: gradients by them add up."""

    problem: Problem
    groups: np.ndarray[tuple[int], np.dtype[np.intp]]
    bounds: Array
    tolerance: float
    data: Data

    def loss(self, point: Array, record: Evaluations | None = None) -> tuple[float, Array]:
        value, gradient = self.problem.loss(point[self.groups])
        return value, np.bincount(self.groups, gradient, len(point)).astype(np.float64)


def _minimise_tied(problem: Problem, point: Array, iterations: int) -> Run:
    """Minimise with one number for the lengthscales of each base kernel; the others, the noise last, are free."""
    numbers: list[int] = []
    for slot in problem.layout.slots:
        if slot.fitted:
            many, first = slot.spec.domain.free_size(slot.size), numbers[-1] + 1 if numbers else 0
            numbers += [first] * many if slot.spec.unit == "length" else list(range(first, first + many))
    while len(numbers) < len(point):
        numbers.append(numbers[-1] + 1 if numbers else 0)
    groups = np.array(numbers, dtype=np.intp)
    low, high = problem.bounds.T
    own = [groups == g for g in range(groups.max() + 1)]
    bounds = np.array([(low[mine].max(), high[mine].min()) for mine in own])
    start = np.clip([point[mine].mean() for mine in own], bounds[:, 0], bounds[:, 1])
    run = minimise(_Tied(problem, groups, bounds, problem.tolerance, problem.data), [start], iterations)[0]
    return replace(run, point=run.point[groups], trail=None)
