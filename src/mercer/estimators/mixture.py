"""Predictions of several fitted kernels, averaged: a mixture of Gaussians, given by its mean and variance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mercer.inference.contract import Posterior, Prediction
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression


@dataclass(frozen=True, eq=False)
class Member:
    """One kernel of the mixture with its noise variance, weight and posterior (scaled units)."""

    kernel: Expression
    noise: float
    weight: float
    posterior: Posterior


def mixed(members: Sequence[Member], X: Array, include_noise: bool) -> Prediction:
    """Return mean sum_i w_i m_i and variance sum_i w_i (v_i + m_i^2) - mean^2."""
    parts = [(member, member.posterior.predict(X)) for member in members]
    mean = np.sum([m.weight * p.mean for m, p in parts], axis=0)
    variance = np.sum(
        [m.weight * (p.variance + include_noise * m.noise + (p.mean - mean) ** 2) for m, p in parts], axis=0
    )
    return Prediction(mean, variance)


def mixed_joint(members: Sequence[Member], X: Array, include_noise: bool) -> tuple[Array, Array]:
    """Return mean and full covariance of the mixture."""
    parts = [(member, *member.posterior.predict_joint(X)) for member in members]
    mean = np.sum([m.weight * own for m, own, _ in parts], axis=0)
    covariance = np.zeros((len(X), len(X)))
    for member, own, spread in parts:
        covariance += member.weight * (spread + np.outer(own - mean, own - mean))
        covariance[np.diag_indices(len(X))] += member.weight * include_noise * member.noise
    return mean, covariance


def mixed_samples(
    members: Sequence[Member], X: Array, count: int, rng: np.random.Generator, include_noise: bool
) -> Array:
    """Draw joint samples: each from one member, chosen by weight."""
    chosen = rng.choice(len(members), size=count, p=[m.weight for m in members])
    samples = np.empty((len(X), count))
    for number, member in enumerate(members):
        places = np.flatnonzero(chosen == number)
        if len(places):
            noise = member.noise if include_noise else 0.0
            samples[:, places] = member.posterior.sample(X, len(places), rng, noise)
    return samples
