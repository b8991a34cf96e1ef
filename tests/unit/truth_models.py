"""Small models whose explanations are read: of six years of months, and averages with weights that are given."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pandas as pd

import mercer
from mercer.inference.exact import Exact
from mercer.learners.contract import Weights
from mercer.model.fitted import make_mixture, posteriors

MONTHS = pd.DataFrame({"month": pd.date_range("2010-01-01", periods=72, freq="MS")})
COUNT = np.arange(72.0)
NOISE = np.random.default_rng(0).normal(size=72)
TREND_AND_SEASON = 0.5 * COUNT + 4.0 * np.sin(2 * np.pi * COUNT / 12) + 0.3 * NOISE


def fit(kernel: str, X: pd.DataFrame, y: object, noise: float | None = None) -> mercer.GPRegressor:
    target = pd.Series(np.asarray(y, dtype=float), name="sales")
    return mercer.GPRegressor(kernel, noise=noise, restarts=1, random_state=0).fit(X, target)


def flat(model: mercer.GPRegressor) -> str:
    return " ".join(model.explain().to_text(10_000).split())


def averaged(
    kernels: list[str], weights: Weights, y: np.ndarray, X: pd.DataFrame = MONTHS, noises: tuple[float, ...] = ()
) -> mercer.GPRegressor:
    """A model whose predictions average kernels with weights, and variances of the noise, that are given."""
    given = noises or (None,) * len(kernels)
    models = [fit(kernel, X, y, noise) for kernel, noise in zip(kernels, given, strict=True)]
    first, data = models[0].fitted_, models[0].fitted_.training.data
    members = [(model.fitted_.winner.kernel, model.fitted_.winner.noise) for model in models]
    known = posteriors(members, [Exact()] * len(members), data)
    model = copy.copy(models[0])
    model.fitted_ = replace(first, mixture=make_mixture(members, weights, data, known))
    return model
