"""Kernels for classes: families of kernels, their scores on folds, and weighted sums of standard kernels.

A family is a function of (relevance of the columns, typical distance) to a kernel. Both are found anew on the training
rows of each fold: relevances that have seen the rows left out make every kernel with them look better than it is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.errors import NumericalError
from mercer.fitting.minimise import fit
from mercer.fitting.problem import FitOptions
from mercer.inference.contract import Data, Engine
from mercer.inference.exact import Exact
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression, build_base, sum_of
from mercer.kernels.functional import is_definite
from mercer.kernels.parameters import bind, values_of
from mercer.learners.contract import Candidate, Context, Learner, Step, Stopped
from mercer.learners.margin import (
    COSTS,
    ClassScore,
    Fold,
    Labels,
    Spectrum,
    cross_validate,
    cross_validate_quickly,
    make_folds,
    repair_spectrum,
)

COMPARED_ROWS = 400  # that kernels are compared on: one eigendecomposition for each fold and kernel
FEW_ROWS = 250  # with fewer, the folds are drawn twice
DISTANCE_ROWS = 200  # whose distances tell the typical one
COST_ROWS = 1500  # that the cost is chosen on
RELEVANCE_ROWS = 300  # more are not needed to see which columns matter
RELEVANCE_CLASSES = 6  # the largest, of many
LEAST_RELEVANCE = 1e-4
MIXED_FACTORS = (0.2, 0.4, 0.8, 1.6)  # of the median distance: the lengthscales that are mixed
FAINT_SHARE = 0.02  # of the largest weight: kernels with less are left out
WEIGHING_ROWS = 800  # that weights are found on
UNEVENNESS = 0.5  # weight of EasyMKL's penalty on uneven points
RBF_FACTORS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)  # of the median distance
RBF_ROWS = 1500
LABEL_ROWS = 400  # that the parameters of a given kernel are fitted to
SEEN = "the kernel had seen the rows that were left out, so their error is too low: new rows will tell"
NUS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)


@dataclass(frozen=True, eq=False)
class LearnedForClasses:
    """A kernel (scaled units) and a cost for an SVM, how well they did on rows left out, and what was tried."""

    kernel: Expression | None  # None: a Gram matrix was given
    cost: float
    error: float
    candidates: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()
    stopped: Stopped = ""
    functional: Expression | None = None  # the one that was found, where others were added to it
    spectrum: Spectrum = "clip"  # what becomes of eigenvalues below zero of Gram matrices

    def on_columns(self, columns: Sequence[int]) -> LearnedForClasses:
        """Return what was learned on some columns for the whole table."""

        def move(kernel: Any) -> Any:
            return None if kernel is None else kernel.map_leaves(move_leaf)

        def move_leaf(leaf: Base) -> Base:
            return leaf if leaf.dims is None else replace(leaf, dims=tuple(columns[int(d)] for d in leaf.dims))

        candidates = tuple(replace(c, expression=move(c.expression)) for c in self.candidates)
        return replace(self, kernel=move(self.kernel), candidates=candidates, functional=move(self.functional))


# --------------------------------------------------------------------------------------------------- families, on folds


@dataclass(frozen=True, eq=False)
class ColumnScales:
    """What a family of kernels is scaled by: the relevance of each column (mean one), and the rows."""

    relevance: Array
    rows: Array

    def distance(self, strength: float) -> float:
        """Return the median distance between rows, each column weighed by relevance ** strength."""
        some = self.rows[:DISTANCE_ROWS] * self.relevance ** (strength / 2.0)
        squares = (some**2).sum(axis=1)
        between = squares[:, None] + squares[None, :] - 2.0 * some @ some.T
        above = np.sqrt(np.maximum(between[np.triu_indices(len(some), 1)], 0.0))
        above = above[above > 0]
        return float(np.median(above)) if len(above) else 1.0

    def lengthscales(self, strength: float, factor: float) -> list[float]:
        """Return a lengthscale for each column: `factor` of the median distance, shorter where it matters more."""
        base = factor * self.distance(strength)
        return [float(base * r ** (-strength / 2.0)) for r in self.relevance]

    def radial(self, symbol: str, strength: float, factor: float) -> Expression:
        """Return a base kernel of the distance with these lengthscales."""
        lengths = self.lengthscales(strength, factor)
        return build_base(symbol, *range(len(lengths)), variance=1.0, lengthscale=lengths)

    def linear(self) -> Expression:
        """Return the linear kernel, one on average over the rows."""
        count = len(self.relevance)
        weights = np.full(count, 1.0 / count)
        size = float(np.mean(self.rows**2 @ weights)) or 1.0
        return build_base("LIN", *range(count), variance=1.0 / size, offset=[0.0] * count, weights=list(weights))


Family = Callable[[ColumnScales], Expression]


def scale_columns(X: Array, labels: Labels, seed: int, ard: bool, engine: Engine | None = None) -> ColumnScales:
    """Return the scales of these rows; without `ard` all columns count the same."""
    return ColumnScales(fit_relevances(X, labels, seed, engine) if ard else np.ones(X.shape[1]), X)


def fit_relevances(X: Array, labels: Labels, seed: int = 0, engine: Engine | None = None) -> Array:
    """Return how much each column matters for telling the classes apart, one on average over those that vary.

    A Gaussian process with Matern 3/2 and a lengthscale for each column is fitted to each class against the rest (+1
    and -1) by its evidence, with weak priors; relevances 1 / l^2, scaled to a mean of one, are averaged over classes.
    """
    if len(X) > RELEVANCE_ROWS:
        chosen = np.random.default_rng(seed).choice(len(X), RELEVANCE_ROWS, replace=False)
        X, labels = X[chosen], labels[chosen]
    varying = np.flatnonzero(np.ptp(X, axis=0) > 1e-9)
    if not len(varying):
        return np.ones(X.shape[1])
    counts, total = np.bincount(labels), np.zeros(len(varying))
    most = 1 if len(counts) == 2 else RELEVANCE_CLASSES
    kernel, options = bind(build_base("M32"), len(varying)), FitOptions(restarts=1, max_iterations=30, priors=True)
    for each in [c for c in np.argsort(-counts, kind="stable") if counts[c]][:most]:
        target = np.where(labels == each, 1.0, -1.0)
        if np.ptp(target) == 0:
            continue
        found = fit(kernel, Data(X[:, varying], target, free_level=True), engine or Exact(), options)
        if found.status == "interrupted":
            raise KeyboardInterrupt  # a fit returns its best so far; the search that needs the relevances must stop
        if found.status != "failed":
            share = np.array(next(found.expression.leaves()).parameter("lengthscale").values) ** -2.0
            total += share / share.sum()
    result = np.full(X.shape[1], LEAST_RELEVANCE)
    mean_one = len(varying) * total / max(total.sum(), 1e-300)
    result[varying] = np.maximum(mean_one, LEAST_RELEVANCE) if total.any() else 1.0
    return result


@dataclass(frozen=True)
class Comparison:
    """How kernels are compared: folds, costs, the machines, and what becomes of eigenvalues below zero."""

    folds: int = 5
    costs: tuple[float, ...] = COSTS  # of SVMs; least-squares SVMs have finer ones
    by_svm: bool = False  # SVMs themselves compare many kernels, not least-squares SVMs, which are quicker
    spectrum: Spectrum = "clip"


USUAL_COMPARISON = Comparison()


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Rows to compare kernels on, their folds, and the column scales of each fold."""

    X: Array
    labels: Labels
    folds: tuple[Fold, ...]
    seed: int
    ard: bool = True
    engine: Engine | None = None  # for relevances; None: exact
    comparison: Comparison = USUAL_COMPARISON

    @staticmethod
    def draw(
        X: Array, labels: Labels, seed: int, ard: bool = True, most: int | None = COMPARED_ROWS, repeats: int = 2,
        engine: Engine | None = None, comparison: Comparison = USUAL_COMPARISON,
    ) -> CrossValidation:  # fmt: skip
        """Choose rows, with the classes in proportion where there are too many, and folds (several times of few)."""
        chosen = draw_rows(labels, len(labels) if most is None else most, seed)
        _, labels = np.unique(labels[chosen], return_inverse=True)
        folds = make_folds(labels, seed, repeats if len(labels) < FEW_ROWS else 1, comparison.folds)
        return CrossValidation(X[chosen], labels, tuple(folds), seed, ard, engine, comparison)

    @cached_property
    def scales(self) -> tuple[ColumnScales, ...]:
        """The column scales of each fold, from its training rows."""
        rows = [train for train, _ in self.folds]
        return tuple(scale_columns(self.X[r], self.labels[r], self.seed, self.ard, self.engine) for r in rows)

    def blocks(self, family: Family, number: int, repair: Spectrum | None = None) -> tuple[Array, Array]:
        """Return the two blocks of a fold."""
        train, out = self.folds[number]
        return evaluate_blocks(family(self.scales[number]), self.X[train], self.X[out], repair)

    def score(self, family: Family) -> ClassScore:
        """Return the score of a family of kernels, as a rule with least-squares SVMs, which is quick."""
        if self.comparison.by_svm:
            return self.score_by_svm(family)
        blocks, spectrum = partial(self.blocks, family), self.comparison.spectrum
        return cross_validate_quickly(blocks, self.labels, self.folds, spectrum=spectrum)

    def score_by_svm(self, family: Family, costs: Sequence[float] = (), nu: bool = False) -> ClassScore:
        """Return the score with the SVMs themselves; with `nu` the costs are those of nu-SVMs."""
        blocks = partial(self.blocks, family, repair=self.comparison.spectrum)
        return cross_validate(blocks, self.labels, self.folds, costs or self.comparison.costs, nu=nu)


def evaluate_blocks(
    kernel: Expression, rows: Array, new: Array, repair: Spectrum | None = "clip"
) -> tuple[Array, Array]:
    """Return k(rows, rows) and k(new, rows); `repair` the spectrum of a kernel that may be indefinite."""
    program, values = compile_program(kernel), values_of(kernel)
    within, across = fused.gram(program, values, rows), fused.cross(program, values, new, rows)
    if repair is None or is_definite(kernel):
        return within, across
    within, carried = repair_spectrum(within, repair)
    return within, across if carried is None else across @ carried


def draw_rows(labels: Labels, most: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return the numbers of at most `most` rows, of each class in proportion and at least two of it."""
    if len(labels) <= most:
        return np.arange(len(labels))
    rng = np.random.default_rng(seed)
    chosen = []
    for each in np.unique(labels):
        rows = np.flatnonzero(labels == each)
        count = min(len(rows), max(2, round(most * len(rows) / len(labels))))
        chosen.append(rng.choice(rows, count, replace=False))
    return np.sort(np.concatenate(chosen))


def make_candidate(
    kernel: Expression, score: ClassScore | None, depth: int, step: str, seconds: float, problem: str = ""
) -> Candidate:
    """Return a row of the table of candidates; the score is the error of rows left out and half their log loss."""
    message = f"error of rows left out {score.error:.4g}, cost {score.cost:g}" if score and not problem else problem
    return Candidate(
        expression=kernel, depth=depth, step=Step(step, words=step), parent=None, log_evidence=-math.inf, parameters=0,
        score=math.inf if score is None else -score.score, status="failed" if problem else "converged",
        message=message, seconds=seconds, fit=None,
    )  # fmt: skip


def choose_cost(
    kernel: Expression, X: Array, labels: Labels, seed: int, comparison: Comparison = USUAL_COMPARISON
) -> ClassScore:
    """Return the score of one kernel with its cost chosen on the rows, or on a sample of many."""
    folds = CrossValidation.draw(X, labels, seed, ard=False, most=COST_ROWS, repeats=1, comparison=comparison)
    return folds.score_by_svm(lambda scales: kernel)


def choose_nu(kernel: Expression, X: Array, labels: Labels, seed: int) -> float:
    """Return the nu of nu-SVM with the best cross-validated score."""
    folds = CrossValidation.draw(X, labels, seed, ard=False, most=RBF_ROWS, repeats=1)
    highest = highest_nu(folds.labels)
    feasible = [nu for nu in NUS if nu < 0.95 * highest] or [0.9 * highest]
    return folds.score_by_svm(lambda scales: kernel, feasible, nu=True).cost


def highest_nu(labels: Labels) -> float:
    """Return the largest nu that a nu-SVM can reach for every pair of classes."""
    counts = np.bincount(labels)
    return float(2.0 * counts.min() / (counts.min() + counts.max()))


# --------------------------------------------------------------------------------------------- one kernel, as usual


def learn_radial(X: Array, labels: Labels, seed: int) -> LearnedForClasses:
    """SVM-RBF: lengthscale and cost by cross-validation of the error; the log loss breaks ties."""
    started = time.perf_counter()
    folds = CrossValidation.draw(X, labels, seed, ard=False, most=RBF_ROWS)
    whole = scale_columns(X, labels, seed, ard=False)
    families = [partial(ColumnScales.radial, symbol="SE", strength=0.0, factor=factor) for factor in RBF_FACTORS]
    scores = [folds.score_by_svm(family) for family in families]
    seconds = time.perf_counter() - started
    candidates = tuple(
        make_candidate(family(whole), score, 0, "lengthscale", seconds)
        for family, score in zip(families, scores, strict=True)
    )
    best = min(range(len(scores)), key=lambda i: (scores[i].error, scores[i].loss))
    return LearnedForClasses(candidates[best].expression, scores[best].cost, scores[best].error, candidates)


def learn_linear(X: Array, labels: Labels, seed: int) -> LearnedForClasses:
    """Return the linear kernel with its cost."""
    linear = scale_columns(X, labels, seed, ard=False).linear()
    score = choose_cost(linear, X, labels, seed)
    return LearnedForClasses(linear, score.cost, score.error)


def learn_from_labels(
    kernel: Expression | Learner, X: Array, labels: Labels, columns: list[int], seed: int, report: Any
) -> LearnedForClasses:
    """Structure and parameters by the evidence of a Gaussian process on the labels (+1 and -1), the cost by folds.

    With several classes the labels are those of the class that parts the rows most evenly.
    """
    shares = np.bincount(labels) / len(labels)
    target = np.where(labels == int(np.argmax(shares * (1.0 - shares))), 1.0, -1.0)
    chosen = draw_rows(labels, LABEL_ROWS, seed)
    data = Data(X[chosen], target[chosen], free_level=True)
    candidates: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()
    stopped: Stopped = ""
    if isinstance(kernel, Learner):
        learned = kernel.learn(Context(data, Exact(), columns, seed, report=report))
        kernel, candidates, stopped = learned.fit.expression, learned.candidates, learned.stopped
        how = "the kernel was learned from the labels by the evidence of a Gaussian process"
        notes = (*learned.notes, how, SEEN)
    elif np.isnan(values_of(kernel)).any():
        options = FitOptions(restarts=3, max_iterations=100, priors=True, seed=seed)
        result = fit(kernel, data, Exact(), options, report)
        if result.status == "failed":
            raise NumericalError(f"the kernel could not be fitted to the labels: {result.message}")
        kernel, stopped = result.expression, "request" if result.status == "interrupted" else ""
        notes = ("parameters without a value were fitted to the labels by the evidence of a Gaussian process", SEEN)
    score = choose_cost(kernel, X, labels, seed)
    return LearnedForClasses(kernel, score.cost, score.error, candidates, notes, stopped)


# ----------------------------------------------------------------------------------------------------- multiple kernels


def mix(kernels: Sequence[Expression], weights: Array) -> Expression:
    """Return the weighted sum, the weights adding up to one, without faint parts."""
    shares = np.where(weights < FAINT_SHARE * weights.max(), 0.0, weights)
    shares = shares / shares.sum()
    return sum_of([k.multiply_by(float(w)) for k, w in zip(kernels, shares, strict=True) if w > 0])


def combine_kernels(X: Array, labels: Labels, seed: int, weights: str) -> LearnedForClasses:
    """Return a weighted sum of SE and Matern 3/2 of several lengthscales and the linear kernel, and its cost.

    uniform : equal weights. easy : after EasyMKL (Aiolli and Donini 2015), the weights that serve the hardest pair of
    points of the two convex hulls.
    """
    started = time.perf_counter()
    scales = scale_columns(X, labels, seed, ard=False)
    kernels = [scales.radial(symbol, 0.0, factor) for symbol in ("SE", "M32") for factor in MIXED_FACTORS]
    kernels.append(scales.linear())
    shares = np.ones(len(kernels))
    if weights == "easy":
        chosen = draw_rows(labels, WEIGHING_ROWS, seed)
        grams = [fused.gram(compile_program(k), values_of(k), X[chosen]) for k in kernels]
        shares = find_easy_weights(grams, labels[chosen])
    kernel = mix(kernels, shares)
    score = choose_cost(kernel, X, labels, seed)
    row = make_candidate(kernel, score, 0, f"{weights} weights", time.perf_counter() - started)
    return LearnedForClasses(kernel, score.cost, score.error, (row,))


def find_easy_weights(grams: Sequence[Array], labels: Labels, steps: int = 300) -> Array:
    """Return weights in proportion to g'Y K Y g, averaged over each class against the rest.

    g is a distribution over the rows of each class: min (1 - s) g'Y (sum of K) Y g + s |g|^2, by projected gradient.
    """
    classes, total, summed = np.unique(labels), np.zeros(len(grams)), np.mean(grams, axis=0)
    for each in classes[:1] if len(classes) == 2 else classes:
        sign = np.where(labels == each, 1.0, -1.0)
        quadratic = (1.0 - UNEVENNESS) * summed * np.outer(sign, sign) + UNEVENNESS * np.eye(len(sign))
        point = np.where(sign > 0, 1.0 / (sign > 0).sum(), 1.0 / (sign < 0).sum())
        step = 1.0 / np.abs(quadratic).sum(axis=1).max()
        for _ in range(steps):
            point = _project_onto_simplexes(point - step * (quadratic @ point), sign)
        signed = point * sign
        found = np.array([max(float(signed @ gram @ signed), 0.0) for gram in grams])
        total += found / (found.sum() or 1.0)
    return total / total.sum() if total.sum() > 0 else np.ones(len(grams)) / len(grams)


def _project_onto_simplexes(point: Array, sign: Array) -> Array:
    """Return the nearest point whose parts for the two classes are distributions."""
    result = np.empty_like(point)
    for side in (sign > 0, sign < 0):
        part = np.sort(point[side])[::-1]
        sums = np.cumsum(part) - 1.0
        last = int(np.flatnonzero(part - sums / np.arange(1, len(part) + 1) > 0)[-1])
        result[side] = np.maximum(point[side] - sums[last] / (last + 1), 0.0)
    return result


def prepare_mixtures(folds: CrossValidation, families: Sequence[Family]) -> Callable[[Array], ClassScore]:
    """Return a function from weights to the score of the weighted sum; each kernel is evaluated once for a fold."""
    blocks = [[folds.blocks(family, number) for family in families] for number in range(len(folds.folds))]

    def score(weights: Array) -> ClassScore:
        shares = weights / weights.sum()

        def mix_blocks(number: int) -> tuple[Array, Array]:
            within = sum(w * pair[0] for w, pair in zip(shares, blocks[number], strict=True))
            across = sum(w * pair[1] for w, pair in zip(shares, blocks[number], strict=True))
            return np.asarray(within), np.asarray(across)

        return cross_validate_quickly(mix_blocks, folds.labels, folds.folds)

    return score
