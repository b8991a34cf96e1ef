"""Weights of several kernels for predictions: those that foresee rows left out best (stacking)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from mercer.compute.program import compile_program
from mercer.fitting.optimise import Fit
from mercer.inference.contract import Data, Engine, log_density
from mercer.inference.likelihood import Gaussian
from mercer.kernels.domains import Array
from mercer.learners.contract import Weights, alone

STEPS = 200
FAINT = 0.02  # a weight below which a kernel is left out


def stacked(fits: Sequence[Fit], data: Data, engine: Engine) -> tuple[tuple[Fit, ...], Weights]:
    """Return the fits that count, the first of them always, and their weights."""
    if len(fits) == 1:
        return tuple(fits), alone()
    densities = []
    for each in fits:
        left = engine.posterior(
            compile_program(each.expression), each.values, Gaussian(each.noise), data
        ).leave_one_out()
        densities.append(log_density(data.y - left.mean, left.variance))
    weights = stacking_weights(np.array(densities))
    kept = [i for i, w in enumerate(weights) if w >= FAINT or i == 0]
    shares = np.maximum(weights[kept], 1e-6)
    total = tuple(float(w) for w in shares / shares.sum())
    return tuple(fits[i] for i in kept), Weights(total, total, (1.0,) * len(kept))


def stacking_weights(densities: Array) -> Array:
    """Return the weights that maximise sum_i log sum_m w_m p_mi, for log densities (members x rows), by EM."""
    weights = np.full(len(densities), 1.0 / len(densities))
    for _ in range(STEPS):
        shares = densities + np.log(np.maximum(weights, 1e-300))[:, None]
        weights = np.exp(shares - logsumexp(shares, axis=0)).mean(axis=1)
    return weights
