"""Inference with random features (METHODS 5): y = c + phi(x) w + noise, w standard normal, for any number of rows.

With Phi the N x m features and D the diagonal of noise variances (the noise, and white noise of the kernel),

    A = Phi Phi' + D,   B = I + Phi' D^-1 Phi,   A^-1 = D^-1 - D^-1 Phi B^-1 Phi' D^-1,   log|A| = log|B| + log|D|

(Woodbury and Sylvester; SKC, appendix F), and B^-1 is the covariance of w given y, u = B^-1 Phi' D^-1 (y - c) its mean.
Phi is formed in blocks of rows, again in each of two passes: memory is O(N + m^2 + block m), time O(N m^2).

The gradient goes through the features only, with what was drawn held fixed: d log p / d Phi = a u' - D^-1 Phi B^-1,
a = A^-1 (y - c), block by block, and from there on by `Features.slopes`. What is computed is the evidence of the model
with these features, an approximation that is neither a lower nor an upper bound.

The program is all that is needed: its nodes are the sums and products to draw from, and its values vector is where
gradients belong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import reduce
from numbers import Integral
from operator import add
from typing import ClassVar

import numpy as np

from mercer.compute import fused
from mercer.compute.program import Program
from mercer.compute.separate import without_white
from mercer.compute.spectral import Features, columns_of_part
from mercer.compute.spectral_draws import Source, draw_atoms
from mercer.errors import InputError, NumericalError
from mercer.inference.contract import Data, Engine, Evidence, Level, Part, Posterior, Projection, leave_out
from mercer.inference.likelihood import LOG_2_PI, Likelihood
from mercer.inference.sparse import mirror, slices
from mercer.kernels.domains import Array
from mercer.linalg.factor import Factor, Failure, factorise

BLOCK = 1024  # rows
TYPICAL_ROWS = 1000  # that are looked at to tell how large LIN is


@dataclass(frozen=True)
class RandomFeatures(Engine):
    """The engine of random features: at most `count` of them, drawn from `seed`, evenly spread (`stratified`) or not.

    Every call draws anew from the seed at the values it is given, and so depends on nothing but its arguments; but what
    is picked (integers of PER, parts of sums, shares of columns) changes in steps when the values do. For fitting take
    `hold(...)`: the same draws for all values, in which the evidence is smooth.
    """

    count: int = 300
    seed: int = 0
    stratified: bool = field(default=True, repr=False)
    block: int = field(default=BLOCK, repr=False)
    drawn: Features | None = field(default=None, repr=False, compare=False)

    name = "features"
    replaces_kernel = True
    saved: ClassVar = {"count": int, "seed": int}

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, Integral) or self.seed < 0:
            raise InputError(f"seed must be a whole number of at least 0, not {self.seed!r}")
        for name, what in (("count", "of random features"), ("block", "of rows worked on at a time")):
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, Integral) or given < 1:
                raise InputError(f"{name} is a number {what}, at least 1, not {given!r}")
            object.__setattr__(self, name, int(given))  # files and reasons tell it: no integer of NumPy

    def features(self, program: Program, values: Array, data: Data) -> Features:
        """Return the features that evidence and posterior are computed with."""
        if self.drawn is not None and self.drawn.program == program:
            return self.drawn.at(values)
        typical = data.X[:: max(1, data.count // TYPICAL_ROWS)]
        source = Source(np.random.default_rng(self.seed), self.stratified)
        return Features(draw_atoms(program, values, self.count, data.X.shape[1], source, typical), np.array(values))

    def hold(self, program: Program, values: Array, data: Data) -> RandomFeatures:
        """Return the engine that keeps, for this program, what is drawn at these values."""
        return replace(self, drawn=replace(self, drawn=None).features(program, values, data))

    def evidence(
        self, program: Program, values: Array, likelihood: Likelihood, data: Data, gradient: bool = True
    ) -> Evidence:
        """Return the log evidence of the model with these features and, if asked, its gradient."""
        features = self.features(program, values, data)
        solved = _solve(features, self.noise_of(likelihood), data, self.block)
        if isinstance(solved, Failure):
            return Evidence(-math.inf, failure=solved.reason)
        log_determinant = solved.factor.log_determinant() + float(np.log(solved.noise).sum())
        value = -0.5 * (solved.quadratic + log_determinant + data.count * LOG_2_PI)
        if not math.isfinite(value):
            return Evidence(-math.inf, failure="the evidence overflowed")
        if not gradient:
            return Evidence(value, jitter=solved.factor.jitter)
        inverse, precision, slopes = solved.inverse(), np.empty(data.count), []
        for rows in slices(data.count, self.block):
            X, variance = data.X[rows], solved.noise[rows]
            phi = features.phi(X)
            spread = phi @ inverse
            precision[rows] = (1.0 - np.einsum("ij,ij->i", spread, phi) / variance) / variance
            by_phi = np.outer(solved.alpha[rows], solved.weights) - spread / variance[:, None]
            slopes.append(features.slopes(X, phi, by_phi))
        by_noise = 0.5 * (solved.alpha**2 - precision)
        by_values = features.gradient(reduce(add, slopes)) + features.noise_gradient(data.X, by_noise)
        score = leave_out(data.y, solved.alpha, precision, solved.level).score(data.y)
        return Evidence(value, by_values, float(by_noise.sum()), score, solved.factor.jitter)

    def posterior(self, program: Program, values: Array, likelihood: Likelihood, data: Data) -> FeaturesPosterior:
        features = self.features(program, values, data)
        solved = _solve(features, self.noise_of(likelihood), data, self.block)
        if isinstance(solved, Failure):
            raise NumericalError(f"no posterior: {solved.reason}; try a larger noise or another kernel")
        return FeaturesPosterior(features, data, solved, self.block)


@dataclass(frozen=True, eq=False)
class FeatureSolution:
    """What follows from y and from a free level; the last two are zero where the level is not free."""

    factor: Factor  # of B
    noise: Array  # the diagonal of D
    weights: Array  # u
    alpha: Array  # a = A^-1 (y - c)
    quadratic: float  # (y - c)' a
    level: Level  # c with its variance and s = A^-1 1
    weights_pull: Array  # Phi's

    def inverse(self) -> Array:
        """Return B^-1 in full."""
        return mirror(Factor(self.factor.lower.copy(), 0.0).into_inverse())


def _solve(features: Features, noise: float, data: Data, block: int) -> FeatureSolution | Failure:
    """Build and factorise B, then solve for y and for the level."""
    variance = noise + features.noise(data.X)
    if not np.all(variance > 0):
        return Failure("inference with features needs noise greater than zero")
    m = features.count
    right = np.stack([data.y, np.ones(data.count)], axis=1)
    gram, projected = np.zeros((m, m)), np.zeros((m, 2))
    for rows in slices(data.count, block):
        phi = features.phi(data.X[rows])
        deviation = np.sqrt(variance[rows, None])
        phi /= deviation
        gram += phi.T @ phi  # numpy sees that it is symmetric, and does half the work
        projected += phi.T @ (right[rows] / deviation)
    factor = factorise(gram.copy, 1.0)
    if isinstance(factor, Failure):
        return factor
    solution = factor.solve(projected)
    residual = right.copy()
    for rows in slices(data.count, block):
        residual[rows] -= features.phi(data.X[rows]) @ solution
    level, weights_pull = Level(0.0, 0.0, np.zeros(data.count)), np.zeros(len(solution))
    weights, left = solution[:, 0], residual[:, 0]
    # r' A^-1 r = e' D^-1 e + u'u with e = r - Phi u: a sum of squares, so that nothing cancels
    if data.free_level:
        pull, weights_pull = residual[:, 1] / variance, solution[:, 1]
        spread = 1.0 / float(residual[:, 1] @ pull + weights_pull @ weights_pull)
        level = Level(spread * float(pull @ data.y), spread, pull)
        weights, left = weights - level.mean * weights_pull, left - level.mean * residual[:, 1]
    alpha = left / variance
    quadratic = float(left @ alpha + weights @ weights)
    return FeatureSolution(factor, variance, weights, alpha, quadratic, level, weights_pull)


@dataclass(frozen=True, eq=False)
class FeaturesPosterior(Posterior):
    """f = c + phi(x) w with w | y normal, mean u and covariance B^-1 (and what c adds to it).

    White noise of the kernel is new at every row: it adds to the variances and covariances with itself only.
    """

    features: Features
    data: Data
    solved: FeatureSolution
    block: int = BLOCK

    @property
    def jitter(self) -> float:
        """What was added to the diagonal of B: the prior variance of the weights is one over one plus this."""
        return self.solved.factor.jitter

    @property
    def fitted_level(self) -> Level:
        return self.solved.level

    @property
    def rows_at_a_time(self) -> int:
        return self.block

    def project(self, X: Array, part: Part = None, joint: bool = False) -> Projection:
        """Project from the columns of phi, for a summand from its own where it is one of the kernel's.

        The means of all such parts add up to the full mean. A part that the kernel does not hold as such (half of a
        periodic function, say) is predicted from its covariance with the training rows instead, as in exact inference.
        """
        phi, white = self.features.phi(X), self.features.noise(X)
        if part is not None:
            own = columns_of_part(self.features, *part)
            if own is None:
                return self._project_from_rows(*part, X)
            phi[:, np.setdiff1d(np.arange(phi.shape[1]), own)] = 0.0
            white = fused.diagonal(*part, X) - fused.diagonal(without_white(part[0]), part[1], X)
        variance = self._products(self.solved.factor.half_solve(phi.T), joint)
        return Projection(
            phi @ self.solved.weights, variance + (np.diag(white) if joint else white), phi @ self.solved.weights_pull
        )

    def sample(self, X: Array, count: int, rng: np.random.Generator, noise: float) -> Array:
        """Draw joint samples of f at the rows by drawing weights and level, plus independent noise."""
        factor, level = self.solved.factor, self.solved.level
        spread = factor.solve(factor.multiply(rng.standard_normal((self.features.count, count))))  # covariance B^-1
        shift = math.sqrt(level.variance) * rng.standard_normal(count)
        weights = self.solved.weights[:, None] + spread - np.outer(self.solved.weights_pull, shift)
        deviation = np.sqrt(noise + self.features.noise(X))
        result = np.empty((len(X), count))
        for rows in slices(len(X), self.block):
            white = deviation[rows, None] * rng.standard_normal((rows.stop - rows.start, count))
            result[rows] = level.mean + shift + self.features.phi(X[rows]) @ weights + white
        return result

    def _project_from_rows(self, program: Program, values: Array, X: Array) -> Projection:
        """K_j* a and K_j** - K_j* A^-1 K_j*' (METHODS 3), in one pass over the training rows for some new ones."""
        mean, pulled = np.zeros(len(X)), np.zeros(len(X))
        explained, projected = np.zeros(len(X)), np.zeros((self.features.count, len(X)))
        for rows in slices(self.data.count, self.block):
            cross = fused.cross(program, values, X, self.data.X[rows])
            weighted = cross / self.solved.noise[rows]
            mean += cross @ self.solved.alpha[rows]
            pulled += cross @ self.solved.level.pull[rows]
            explained += np.einsum("ij,ij->i", cross, weighted)
            projected += self.features.phi(self.data.X[rows]).T @ weighted.T
        half = self.solved.factor.half_solve(projected)
        variance = fused.diagonal(program, values, X) - explained + np.einsum("ij,ij->j", half, half)
        return Projection(mean, variance, pulled)

    def precision(self) -> tuple[Array, Array]:
        """Return both by Woodbury's formula."""
        inverse, precision = self.solved.inverse(), np.empty(self.data.count)
        for rows in slices(self.data.count, self.block):
            phi, variance = self.features.phi(self.data.X[rows]), self.solved.noise[rows]
            precision[rows] = (1.0 - np.einsum("ij,ij->i", phi @ inverse, phi) / variance) / variance
        return self.solved.alpha, precision
