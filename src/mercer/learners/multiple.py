"""Multiple kernel learning: weighted sums of kernels for a support vector machine.

uniform : equal weights. easy : after EasyMKL (Aiolli and Donini 2015), the weights that serve the hardest pair of
points of the two convex hulls. tuned : Bayesian optimisation of the weights in (0, 1] (KFO-MKL, appendix A.5.3).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression, sum_of
from mercer.kernels.parameters import values_of
from mercer.kernels.units import multiplied
from mercer.learners.classes import (
    Family,
    LearnedForClasses,
    Sight,
    Trial,
    candidate_of,
    sample_of,
    sight_of,
    with_cost,
)
from mercer.learners.margin import Labels, Verdict, quickly_validated

FACTORS = (0.2, 0.4, 0.8, 1.6)  # of the median distance: the lengthscales that are mixed
FAINT = 0.02  # a share below which a kernel is left out
ROWS = 800  # that weights are found on
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
        chosen = sample_of(labels, ROWS, seed)
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
