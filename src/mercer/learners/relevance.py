"""How much each column matters for telling classes apart: lengthscales of a Gaussian process on the labels.

One process with Matern 3/2 and a lengthscale for each column is fitted to each class against the rest (labels +1 and
-1) by its evidence, with weak priors; relevances 1 / l^2, scaled to a mean of one, are averaged over the classes.
"""

from __future__ import annotations

import numpy as np

from mercer.fitting.optimise import FitOptions, fit
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.kernels.domains import Array
from mercer.kernels.expression import build_base
from mercer.kernels.parameters import bind
from mercer.learners.margin import Labels

ROWS = 300  # more are not needed to see which columns matter
CLASSES = 6  # the largest, of many
LEAST = 1e-4


def relevances(X: Array, labels: Labels, seed: int = 0) -> Array:
    """Return one number for each column, one on average over the columns that vary."""
    rng = np.random.default_rng(seed)
    if len(X) > ROWS:
        chosen = rng.choice(len(X), ROWS, replace=False)
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
