"""Predictions of several fitted kernels, averaged: a mixture of Gaussians, given by its mean and variance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer.inference.contract import Posterior, Prediction
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression


@dataclass(frozen=True, eq=False)
class Member:
    """One kernel of a mixture with its noise variance and posterior (scaled units), and its two weights."""

    kernel: Expression
    noise: float
    within: float  # weight within the data
    beyond: float  # weight beyond its ends
    widening: float  # factor of its variances there
    posterior: Posterior


@dataclass(frozen=True, eq=False)
class Mixture:
    """Members, the first of which is the one explained; `column` is the one along which there is a beyond."""

    members: tuple[Member, ...]
    column: int | None
    ends: tuple[float, float]  # of the training rows along that column

    def is_beyond(self, X: Array) -> NDArray[np.bool_]:
        """Tell for each row whether it lies beyond the ends of the data."""
        if self.column is None:
            return np.zeros(len(X), dtype=bool)
        return np.asarray((X[:, self.column] < self.ends[0]) | (X[:, self.column] > self.ends[1]))

    def weights_at(self, X: Array) -> Array:
        """Return the weights, members x rows."""
        beyond = self.is_beyond(X)
        return np.array([np.where(beyond, member.beyond, member.within) for member in self.members])

    def widening_at(self, X: Array) -> Array:
        """Return the factors of the standard deviations, members x rows."""
        beyond = self.is_beyond(X)
        return np.array([np.where(beyond, member.widening**0.5, 1.0) for member in self.members])

    def predict(self, X: Array, include_noise: bool) -> Prediction:
        """Return mean sum_i w_i m_i and variance sum_i w_i (v_i + (m_i - mean)^2)."""
        weights = self.weights_at(X)
        parts = [member.posterior.predict(X) for member in self.members]
        means = np.array([part.mean for part in parts])
        spreads = np.array([p.variance + include_noise * m.noise for p, m in zip(parts, self.members, strict=True)])
        spreads = spreads * self.widening_at(X) ** 2
        mean = (weights * means).sum(axis=0)
        return Prediction(mean, (weights * (spreads + (means - mean) ** 2)).sum(axis=0))

    def predict_joint(self, X: Array, include_noise: bool) -> tuple[Array, Array]:
        """Return mean and full covariance; two rows with different weights share their geometric mean."""
        weights, widening = self.weights_at(X), self.widening_at(X)
        parts = [member.posterior.predict_joint(X) for member in self.members]
        mean = np.sum([w * own for w, (own, _) in zip(weights, parts, strict=True)], axis=0)
        covariance = np.zeros((len(X), len(X)))
        for weight, wide, member, (own, spread) in zip(weights, widening, self.members, parts, strict=True):
            root = np.sqrt(weight)
            spread = (spread + include_noise * member.noise * np.eye(len(X))) * np.outer(wide, wide)
            covariance += (spread + np.outer(own - mean, own - mean)) * np.outer(root, root)
        return mean, covariance

    def sample(self, X: Array, count: int, rng: np.random.Generator, include_noise: bool) -> Array:
        """Draw joint samples, each from one member: chosen by the weights beyond if any row lies there."""
        beyond = bool(self.is_beyond(X).any())
        chances = np.array([m.beyond if beyond else m.within for m in self.members])
        chosen = rng.choice(len(self.members), size=count, p=chances / chances.sum())
        samples, widening = np.empty((len(X), count)), self.widening_at(X)
        for number, member in enumerate(self.members):
            places = np.flatnonzero(chosen == number)
            if len(places):
                noise = member.noise if include_noise else 0.0
                mean = member.posterior.predict(X).mean[:, None]
                drawn = member.posterior.sample(X, len(places), rng, noise)
                samples[:, places] = mean + (drawn - mean) * widening[number][:, None]
        return samples
