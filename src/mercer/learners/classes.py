"""Kernels for classes: what a learner of them returns, and how a family of kernels is judged on folds.

A family is a function of (relevance of the columns, typical distance) to a kernel. Both are found anew on the training
rows of each fold: relevances that have seen the rows left out make every kernel with them look better than it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.fitting.optimise import FitOptions, fit
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression, build_base, sum_of
from mercer.kernels.functional import is_definite
from mercer.kernels.parameters import bind, values_of
from mercer.kernels.units import multiplied
from mercer.learners.contract import Candidate, Step, Stopped
from mercer.learners.margin import (
    COSTS,
    Fold,
    Labels,
    Verdict,
    clipped_spectrum,
    cross_validated,
    folds_of,
    quickly_validated,
)

ROWS = 400  # that kernels are compared on
FEW = 250  # rows: with fewer, the folds are drawn twice
PAIRS = 200


@dataclass(frozen=True, eq=False)
class LearnedForClasses:
    """A kernel (scaled units) and a cost for an SVM, how well they did on rows left out, and what was tried."""

    kernel: Expression
    cost: float
    error: float
    candidates: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()
    stopped: Stopped = ""
    functional: Expression | None = None  # the one that was found, where others were added to it


@dataclass(frozen=True, eq=False)
class Sight:
    """What a family of kernels may look at: relevance of each column (mean one), and the rows."""

    relevance: Array
    rows: Array

    def distance(self, strength: float) -> float:
        """Return the median distance between rows, each column weighed by relevance ** strength."""
        some = self.rows[:PAIRS] * self.relevance ** (strength / 2.0)
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

    def linear(self, strength: float = 0.0) -> Expression:
        """Return the linear kernel, one on average over the rows."""
        weights = self.relevance**strength
        weights = weights / weights.sum()
        size = float(np.mean(self.rows**2 @ weights)) or 1.0
        count = len(weights)
        return build_base("LIN", *range(count), variance=1.0 / size, offset=[0.0] * count, weights=list(weights))


Family = Callable[[Sight], Expression]


@dataclass(frozen=True, eq=False)
class Trial:
    """Rows to compare kernels on, their folds, and what each fold may look at. `columns` are those that vary."""

    X: Array
    labels: Labels
    folds: tuple[Fold, ...]
    seed: int
    ard: bool = True

    @staticmethod
    def of(X: Array, labels: Labels, seed: int, ard: bool = True, most: int = ROWS, repeats: int = 2) -> Trial:
        """Choose rows, with the classes in proportion where there are too many, and folds (several times of few)."""
        chosen = sample_of(labels, most, seed)
        X, labels = X[chosen], labels[chosen]
        _, labels = np.unique(labels, return_inverse=True)
        repeats = repeats if len(labels) < FEW else 1
        return Trial(X, labels, tuple(folds_of(labels, seed, repeats)), seed, ard)

    @cached_property
    def sights(self) -> tuple[Sight, ...]:
        """What each fold may look at."""
        return tuple(sight_of(self.X[train], self.labels[train], self.seed, self.ard) for train, _ in self.folds)

    def blocks(self, family: Family, number: int) -> tuple[Array, Array]:
        """Return the two blocks of a fold."""
        train, out = self.folds[number]
        return raw_blocks(family(self.sights[number]), self.X[train], self.X[out])

    def judge(self, family: Family) -> Verdict:
        """Return the quick verdict on a family of kernels."""
        return quickly_validated(lambda number: self.blocks(family, number), self.labels, self.folds)

    def judge_slowly(self, family: Family, costs: Sequence[float] = COSTS) -> Verdict:
        """Return the verdict of SVMs themselves."""

        def blocks(number: int) -> tuple[Array, Array]:
            train, out = self.folds[number]
            return blocks_of(family(self.sights[number]), self.X[train], self.X[out])

        return cross_validated(blocks, self.labels, self.folds, costs)


def sight_of(X: Array, labels: Labels, seed: int, ard: bool) -> Sight:
    """Return what a kernel for these rows may look at."""
    return Sight(relevances(X, labels, seed) if ard else np.ones(X.shape[1]), X)


def raw_blocks(kernel: Expression, rows: Array, new: Array) -> tuple[Array, Array]:
    """Return k(rows, rows) and k(new, rows) as they are."""
    program, values = compile_program(kernel), values_of(kernel)
    return fused.gram(program, values, rows), fused.cross(program, values, new, rows)


def blocks_of(kernel: Expression, rows: Array, new: Array) -> tuple[Array, Array]:
    """Return k(rows, rows) and k(new, rows); of a kernel that may be indefinite with its spectrum clipped."""
    within, across = raw_blocks(kernel, rows, new)
    if is_definite(kernel):
        return within, across
    keep = clipped_spectrum(within)
    return keep @ within, across @ keep


def sample_of(labels: Labels, most: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return the numbers of at most so many rows, of each class in proportion and at least two of it."""
    if len(labels) <= most:
        return np.arange(len(labels))
    rng = np.random.default_rng(seed)
    chosen = []
    for each in np.unique(labels):
        rows = np.flatnonzero(labels == each)
        count = min(len(rows), max(2, round(most * len(rows) / len(labels))))
        chosen.append(rng.choice(rows, count, replace=False))
    return np.sort(np.concatenate(chosen))


def candidate_of(
    kernel: Expression, verdict: Verdict | None, depth: int, step: str, seconds: float, problem: str = ""
) -> Candidate:
    """Return a row of the table of candidates; the score is the error of rows left out and half their log loss."""
    infinite = float("inf")
    return Candidate(
        expression=kernel, depth=depth, step=Step(step, words=step), parent=None, log_evidence=-infinite, parameters=0,
        score=infinite if verdict is None else -verdict.score, status="failed" if problem else "converged",
        message=problem or f"error of rows left out {verdict.error:.4g}, cost {verdict.cost:g}" if verdict else problem,
        seconds=seconds, fit=None,
    )  # fmt: skip


MOST_FOR_COST = 1500  # rows


def with_cost(kernel: Expression, X: Array, labels: Labels, seed: int, around: float | None = None) -> Verdict:
    """Return the verdict on one kernel with its cost chosen on (at most so many of) the rows."""
    chosen = sample_of(labels, MOST_FOR_COST, seed)
    rows = X[chosen]
    _, few = np.unique(labels[chosen], return_inverse=True)
    folds = folds_of(few, seed)
    costs = COSTS if around is None else tuple(around * f for f in (0.1, 0.3, 1.0, 3.0, 10.0))

    def blocks(number: int) -> tuple[Array, Array]:
        train, out = folds[number]
        return blocks_of(kernel, rows[train], rows[out])

    return cross_validated(blocks, few, folds, costs)


def renewed(learned: LearnedForClasses, verdict: Verdict) -> LearnedForClasses:
    """Return what was learned with another cost."""
    return replace(learned, cost=verdict.cost, error=verdict.error)


# How much each column matters for telling classes apart: lengthscales of a Gaussian process on the labels.
#
# One process with Matern 3/2 and a lengthscale for each column is fitted to each class against the rest (labels +1 and
# -1) by its evidence, with weak priors; relevances 1 / l^2, scaled to a mean of one, are averaged over the classes.


RELEVANCE_ROWS = 300  # more are not needed to see which columns matter
CLASSES = 6  # the largest, of many
LEAST = 1e-4


def relevances(X: Array, labels: Labels, seed: int = 0) -> Array:
    """Return one number for each column, one on average over the columns that vary."""
    rng = np.random.default_rng(seed)
    if len(X) > RELEVANCE_ROWS:
        chosen = rng.choice(len(X), RELEVANCE_ROWS, replace=False)
        X, labels = X[chosen], labels[chosen]
    varying = np.flatnonzero(np.ptp(X, axis=0) > 1e-9)
    if not len(varying):
        return np.ones(X.shape[1])
    kernel = bind(build_base("M32"), len(varying))
    counts = np.bincount(labels)
    chosen_classes = [c for c in np.argsort(-counts, kind="stable") if counts[c]][: 1 if len(counts) == 2 else CLASSES]
    total = np.zeros(len(varying))
    options = FitOptions(restarts=1, max_iterations=30, priors=True)
    for each in chosen_classes:
        target = np.where(labels == each, 1.0, -1.0)
        if np.ptp(target) == 0:
            continue
        found = fit(kernel, Data(X[:, varying], target, free_level=True), Exact(), options)
        if found.status == "interrupted":
            raise KeyboardInterrupt  # the fit gives its best so far; whoever asked for relevances is to stop
        if found.status != "failed":
            share = np.array(next(found.expression.leaves()).parameter("lengthscale").values) ** -2.0
            total += share / share.sum()
    result = np.full(X.shape[1], LEAST)
    result[varying] = np.maximum(len(varying) * total / max(total.sum(), 1e-300), LEAST) if total.any() else 1.0
    return result


# Multiple kernel learning: weighted sums of kernels for a support vector machine.
#
# uniform : equal weights. easy : after EasyMKL (Aiolli and Donini 2015), the weights that serve the hardest pair of
# points of the two convex hulls. tuned : Bayesian optimisation of the weights in (0, 1] (KFO-MKL, appendix A.5.3).


FACTORS = (0.2, 0.4, 0.8, 1.6)  # of the median distance: the lengthscales that are mixed
FAINT = 0.02  # a share below which a kernel is left out
WEIGHING_ROWS = 800  # that weights are found on
MIXED = 0.5  # of EasyMKL's penalty on uneven points


def standard_kernels(sight: Sight) -> list[Expression]:
    """Return the kernels that are mixed: SE and Matern 3/2 of several lengthscales, and the linear one."""
    radial = [sight.radial(symbol, 0.0, factor) for symbol in ("SE", "M32") for factor in FACTORS]
    return [*radial, sight.linear()]


def mixture(kernels: Sequence[Expression], weights: Array) -> Expression:
    """Return the weighted sum, the weights adding up to one, without faint parts."""
    shares = np.where(weights < FAINT * weights.max(), 0.0, weights)
    shares = shares / shares.sum()
    return sum_of([multiplied(k, float(w)) for k, w in zip(kernels, shares, strict=True) if w > 0])


def multiple(X: Array, labels: Labels, seed: int, weights: str) -> LearnedForClasses:
    """Return the sum of standard kernels with "uniform" or "easy" weights, and its cost."""
    started = time.perf_counter()
    kernels = standard_kernels(sight_of(X, labels, seed, ard=False))
    shares = np.ones(len(kernels))
    if weights == "easy":
        chosen = sample_of(labels, WEIGHING_ROWS, seed)
        grams = [fused.gram(compile_program(k), values_of(k), X[chosen]) for k in kernels]
        shares = easy_weights(grams, labels[chosen])
    kernel = mixture(kernels, shares)
    verdict = with_cost(kernel, X, labels, seed)
    row = candidate_of(kernel, verdict, 0, f"{weights} weights", time.perf_counter() - started)
    return LearnedForClasses(kernel, verdict.cost, verdict.error, (row,))


def easy_weights(grams: Sequence[Array], labels: Labels, steps: int = 300) -> Array:
    """Return weights in proportion to g'Y K Y g, averaged over each class against the rest.

    g is a distribution over the rows of each class: min (1 - s) g'Y (sum of K) Y g + s |g|^2, by projected gradient.
    """
    classes = np.unique(labels)
    total = np.zeros(len(grams))
    summed = np.mean(grams, axis=0)
    for each in classes[:1] if len(classes) == 2 else classes:
        sign = np.where(labels == each, 1.0, -1.0)
        quadratic = (1.0 - MIXED) * summed * np.outer(sign, sign) + MIXED * np.eye(len(sign))
        point = np.where(sign > 0, 1.0 / (sign > 0).sum(), 1.0 / (sign < 0).sum())
        step = 1.0 / np.abs(quadratic).sum(axis=1).max()
        for _ in range(steps):
            point = _onto_simplexes(point - step * (quadratic @ point), sign)
        signed = point * sign
        found = np.array([max(float(signed @ gram @ signed), 0.0) for gram in grams])
        total += found / (found.sum() or 1.0)
    return total / total.sum() if total.sum() > 0 else np.ones(len(grams)) / len(grams)


def _onto_simplexes(point: Array, sign: Array) -> Array:
    """Return the nearest point whose parts for the two classes are distributions."""
    result = np.empty_like(point)
    for side in (sign > 0, sign < 0):
        part = np.sort(point[side])[::-1]
        sums = np.cumsum(part) - 1.0
        count = np.arange(1, len(part) + 1)
        last = int(np.flatnonzero(part - sums / count > 0)[-1])
        result[side] = np.maximum(point[side] - sums[last] / (last + 1), 0.0)
    return result


def judged_mixture(trial: Trial, families: Sequence[Family]):  # type: ignore[no-untyped-def]
    """Return a function from weights to the verdict on the weighted sum; each kernel is evaluated once for a fold."""
    blocks = [[trial.blocks(family, number) for family in families] for number in range(len(trial.folds))]

    def verdict(weights: Array) -> Verdict:
        shares = weights / weights.sum()

        def mixed(number: int) -> tuple[Array, Array]:
            within = sum(w * pair[0] for w, pair in zip(shares, blocks[number], strict=True))
            across = sum(w * pair[1] for w, pair in zip(shares, blocks[number], strict=True))
            return np.asarray(within), np.asarray(across)

        return quickly_validated(mixed, trial.labels, trial.folds)

    return verdict
