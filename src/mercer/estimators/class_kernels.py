"""What the `kernel` of a `KernelSVC` may be, and how it is found: a text, an expression, a learner or a name."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mercer.errors import InputError, NumericalError
from mercer.fitting.minimise import fit
from mercer.fitting.problem import FitOptions
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression
from mercer.kernels.parameters import bind, values_of
from mercer.kernels.units import Units, to_scaled_units
from mercer.learners.classes import (
    ColumnScales,
    CrossValidation,
    LearnedForClasses,
    choose_cost,
    combine_kernels,
    draw_rows,
    evaluate_blocks,
    make_candidate,
    scale_columns,
)
from mercer.learners.contract import Candidate, Context, Stopped
from mercer.learners.kfo import KernelFunctional
from mercer.learners.margin import COSTS, Labels, cross_validate, make_folds
from mercer.model.settings import CLASS_KERNELS, LEARNERS, expression_or_learner

MIXED = "SE + M32 + LIN"
RBF_FACTORS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)  # of the median distance
RBF_ROWS = 1500
LABEL_ROWS = 400  # that the parameters of a given kernel are fitted to
SEEN = "the kernel had seen the rows that were left out, so their error is too low: new rows will tell"
NUS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)


def checked_kernel(kernel: Any) -> Any:
    """Return what the user means: a name, an expression or a learner."""
    if isinstance(kernel, str) and (kernel in CLASS_KERNELS or kernel == "precomputed"):
        return kernel
    return expression_or_learner(kernel)


def learned_kernel(
    kernel: Any, X: Array, labels: Labels, columns: list[int], names: list[str], units: Units, seed: int, report: Any
) -> LearnedForClasses:
    """Find a kernel (scaled units) and a cost on the training rows."""
    if kernel == "kfo":
        kernel = KernelFunctional()
    elif kernel == "kfo-mkl":
        kernel = KernelFunctional(plus=MIXED)
    if isinstance(kernel, KernelFunctional):
        data = Data(X[:, columns], labels.astype(np.float64))
        context = Context(data, Exact(), list(range(len(columns))), seed, report=report)
        return _on_columns(kernel.learn_classes(context), columns)
    if kernel in ("mkl", "mkl-uniform"):
        weights = "easy" if kernel == "mkl" else "uniform"
        return _on_columns(combine_kernels(X[:, columns], labels, seed, weights), columns)
    if kernel == "rbf":
        return _on_columns(_rbf(X[:, columns], labels, seed), columns)
    if kernel == "linear":
        linear = scale_columns(X[:, columns], labels, seed, ard=False).linear()
        verdict = choose_cost(linear, X[:, columns], labels, seed)
        return _on_columns(LearnedForClasses(linear, verdict.cost, verdict.error), columns)
    if isinstance(kernel, str):
        kernel = LEARNERS[kernel]()
    return _from_labels(kernel, X, labels, columns, names, units, seed, report)


def _rbf(X: Array, labels: Labels, seed: int) -> LearnedForClasses:
    """SVM-RBF: lengthscale and cost by cross-validation of the error; the log loss breaks ties."""
    started = time.perf_counter()
    folds = CrossValidation.draw(X, labels, seed, ard=False, most=RBF_ROWS)
    whole = scale_columns(X, labels, seed, ard=False)
    found = []
    for factor in RBF_FACTORS:
        verdict = folds.score_by_svm(partial(_squared_exponential, factor=factor))
        found.append((verdict.error, verdict.loss, factor, verdict))
    candidates = [
        make_candidate(whole.radial("SE", 0.0, f), v, 0, "lengthscale", time.perf_counter() - started)
        for _, _, f, v in found
    ]
    _, _, factor, verdict = min(found, key=lambda row: row[:2])
    return LearnedForClasses(whole.radial("SE", 0.0, factor), verdict.cost, verdict.error, tuple(candidates))


def _squared_exponential(scales: ColumnScales, factor: float) -> Expression:
    return scales.radial("SE", 0.0, factor)


def _from_labels(
    kernel: Any, X: Array, labels: Labels, columns: list[int], names: list[str], units: Units, seed: int, report: Any
) -> LearnedForClasses:
    """Structure and parameters by the evidence of a Gaussian process on the labels (+1 and -1), the cost by folds.

    With several classes the labels are those of the class that parts the rows most evenly.
    """
    target = _most_even(labels)
    chosen = draw_rows(labels, LABEL_ROWS, seed)
    data = Data(X[chosen], target[chosen], free_level=True)
    candidates: tuple[Candidate, ...] = ()
    notes: list[str] = []
    stopped: Stopped = ""
    if isinstance(kernel, Expression):
        bound = to_scaled_units(bind(kernel, X.shape[1], names, default=columns), units)
        if np.isnan(values_of(bound)).any():
            options = FitOptions(restarts=3, max_iterations=100, priors=True, seed=seed)
            result = fit(bound, data, Exact(), options, report)
            if result.status == "failed":
                raise NumericalError(f"the kernel could not be fitted to the labels: {result.message}")
            bound, stopped = result.expression, "request" if result.status == "interrupted" else ""
            notes.append("parameters without a value were fitted to the labels by the evidence of a Gaussian process")
            notes.append(SEEN)
    else:
        scaled = kernel.scale_kernels(columns, names, units)
        learned = scaled.learn(Context(data, Exact(), columns, seed, report=report))
        bound, candidates, stopped = learned.fit.expression, learned.candidates, learned.stopped
        notes += [*learned.notes, "the kernel was learned from the labels by the evidence of a Gaussian process", SEEN]
    verdict = choose_cost(bound, X, labels, seed)
    return LearnedForClasses(bound, verdict.cost, verdict.error, candidates, tuple(notes), stopped)


def _most_even(labels: Labels) -> Array:
    shares = np.bincount(labels) / len(labels)
    return np.where(labels == int(np.argmax(shares * (1.0 - shares))), 1.0, -1.0)


def best_nu(kernel: Expression, X: Array, labels: Labels, seed: int) -> float:
    """Return the nu of nu-SVM with the best cross-validated score."""
    chosen = draw_rows(labels, RBF_ROWS, seed)
    _, few = np.unique(labels[chosen], return_inverse=True)
    rows, folds = X[chosen], make_folds(few, seed)
    highest = highest_nu(few)
    feasible = [nu for nu in NUS if nu < 0.95 * highest] or [0.9 * highest]

    def blocks(number: int) -> tuple[Array, Array]:
        train, out = folds[number]
        return evaluate_blocks(kernel, rows[train], rows[out])

    return cross_validate(blocks, few, folds, feasible, nu=True).cost


def highest_nu(labels: Labels) -> float:
    """Return the largest nu that a nu-SVM can reach for every pair of classes."""
    counts = np.bincount(labels)
    return float(2.0 * counts.min() / (counts.min() + counts.max()))


def _on_columns(learned: LearnedForClasses, columns: list[int]) -> LearnedForClasses:
    """Return what was learned on some columns for the whole table."""

    def on_table(leaf: Base) -> Base:
        return leaf if leaf.dims is None else replace(leaf, dims=tuple(columns[int(d)] for d in leaf.dims))

    def moved(kernel: Expression) -> Expression:
        return kernel.map_leaves(on_table)

    candidates = tuple(replace(c, expression=moved(c.expression)) for c in learned.candidates)
    functional = None if learned.functional is None else moved(learned.functional)
    return replace(learned, kernel=moved(learned.kernel), candidates=candidates, functional=functional)


def checked_cost(name: str, value: Any, highest: float) -> float | None:
    """Return a number for C or nu, or None for "auto"."""
    if isinstance(value, str) and value == "auto":
        return None
    if isinstance(value, int | float | np.number) and not isinstance(value, bool) and 0 < float(value) <= highest:
        return float(value)
    limit = f" up to {highest:g}" if np.isfinite(highest) else ""
    raise InputError(f"{name} must be 'auto' or a number above zero{limit}, not {value!r}")


__all__ = ["COSTS", "best_nu", "checked_cost", "checked_kernel", "learned_kernel"]
