"""Predictions of several fitted kernels, averaged: a mixture of Gaussians, given by its mean and variance."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from mercer.inference.contract import Posterior, Prediction
from mercer.inference.likelihood import inverse_freedom, student_log_density
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.learners.contract import share_beyond


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
    tails_beyond: float = 0.0  # of errors there: one over the degrees of freedom of Student's t; 0: Gaussian
    seen: Array = field(default_factory=lambda: np.empty(0))  # the targets learned from, where they are at hand

    def beyond(self, X: Array) -> Array:
        """Return for each row by how much it lies beyond the data, from 0 to 1."""
        if self.column is None:
            return np.zeros(len(X))
        along, (low, high) = X[:, self.column], self.ends
        return share_beyond(np.maximum(low - along, along - high), high - low)

    def weights_at(self, X: Array) -> Array:
        """Return the weights, members x rows."""
        beyond = self.beyond(X)
        return np.array([member.within * (1.0 - beyond) + member.beyond * beyond for member in self.members])

    def widening_at(self, X: Array) -> Array:
        """Return the factors of the variances, members x rows."""
        beyond = self.beyond(X)
        return np.array([1.0 + (member.widening - 1.0) * beyond for member in self.members])

    def _each(self, X: Array, include_noise: bool) -> tuple[Array, Array]:
        """Return the means and the variances, members x rows."""
        means, spreads = [], []
        for member in self.members:
            found = member.posterior.predict(X)
            means.append(found.mean)
            spreads.append(found.variance + include_noise * member.noise)
        return np.array(means), np.array(spreads) * self.widening_at(X)

    def predict(self, X: Array, include_noise: bool) -> Prediction:
        """Return mean sum_i w_i m_i and variance sum_i w_i (v_i + (m_i - mean)^2)."""
        weights = self.weights_at(X)
        means, spreads = self._each(X, include_noise)
        mean = (weights * means).sum(axis=0)
        return Prediction(mean, (weights * (spreads + (means - mean) ** 2)).sum(axis=0))

    @cached_property
    def tails(self) -> float:
        """How heavy the tails of errors are, from each target that was learned from given all the others.

        One over the degrees of freedom of Student's t; 0 is a Gaussian.
        """
        if not len(self.seen):
            return 0.0
        left = [member.posterior.leave_one_out() for member in self.members]
        errors = np.array([self.seen - each.mean for each in left])
        variances = np.array([each.variance for each in left])
        weights = np.array([[member.within] for member in self.members])
        return inverse_freedom(
            lambda inverse: float(logsumexp(student_log_density(errors, variances, inverse), b=weights, axis=0).sum())
        )

    def log_density(self, X: Array, y: Array) -> Array:
        """Return log sum_i w_i p(y | m_i, v_i) for every row: what the mixture says, not its Gaussian summary.

        Each p is a Student's t with the tails of the errors within the data; beyond, with those of earlier forecasts.
        """
        means, spreads = self._each(X, include_noise=True)
        beyond = self.beyond(X)
        each = student_log_density(y - means, spreads, self.tails * (1.0 - beyond) + self.tails_beyond * beyond)
        return np.asarray(logsumexp(each, b=self.weights_at(X), axis=0))

    def predict_joint(self, X: Array, include_noise: bool) -> tuple[Array, Array]:
        """Return mean and full covariance; two rows with different weights share their geometric mean."""
        weights, widening = self.weights_at(X), np.sqrt(self.widening_at(X))
        parts = [member.posterior.predict_joint(X) for member in self.members]
        mean = np.sum([w * own for w, (own, _) in zip(weights, parts, strict=True)], axis=0)
        covariance = np.zeros((len(X), len(X)))
        for weight, wide, member, (own, spread) in zip(weights, widening, self.members, parts, strict=True):
            root = np.sqrt(weight)
            spread = (spread + include_noise * member.noise * np.eye(len(X))) * np.outer(wide, wide)
            covariance += (spread + np.outer(own - mean, own - mean)) * np.outer(root, root)
        return mean, covariance

    def sample(self, X: Array, count: int, rng: np.random.Generator, include_noise: bool) -> Array:
        """Draw joint samples, each from one member within the data and one beyond it, chosen by the weights there.

        One number chooses both, so that they are the same member as often as the order of the members allows; another
        says where the one gives way to the other.
        """
        beyond, chance = self.beyond(X)[:, None] > rng.random(count), rng.random(count)
        inner = _chosen([member.within for member in self.members], chance)
        outer = _chosen([member.beyond for member in self.members], chance)
        samples, widening = np.empty((len(X), count)), np.sqrt(self.widening_at(X))
        for number, member in enumerate(self.members):
            wanted = np.where(beyond, outer == number, inner == number)
            places = np.flatnonzero(wanted.any(axis=0))
            if len(places):
                noise = member.noise if include_noise else 0.0
                mean = member.posterior.predict(X).mean[:, None]
                drawn = mean + (member.posterior.sample(X, len(places), rng, noise) - mean) * widening[number][:, None]
                samples[:, places] = np.where(wanted[:, places], drawn, samples[:, places])
        return samples


def _chosen(weights: list[float], chance: Array) -> NDArray[np.intp]:
    """Return the member that each number between 0 and 1 falls to."""
    ends = np.cumsum(weights) / np.sum(weights)
    return np.minimum(np.searchsorted(ends, chance, side="right"), len(weights) - 1)
