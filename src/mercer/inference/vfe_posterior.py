"""The posterior of sparse variational inference: everything about f goes through the inducing points.

    mean of f(x)       c + k_u' g
    variance of f(x)   k(x, x) - k_u' Kuu^-1 k_u + k_u' (Kuu + Phi)^-1 k_u + (1 - k_u' h)^2 var(c)

with k_u = K0(Z, x) and the names of sparse.py. One summand j has K_j(Z, x) in place of k_u, k_j(x, x) in place of
k(x, x), and no share of the level. White noise is new at every row: it adds to the variance and nothing to the mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from mercer.compute import fused
from mercer.compute.program import Program
from mercer.compute.separate import without_white
from mercer.errors import NumericalError
from mercer.inference.contract import Data, Prediction, left_out_score
from mercer.inference.rows import Sweep, slices, summed
from mercer.inference.sparse import Solution
from mercer.kernels.domains import Array
from mercer.linalg.factor import Failure, factorise


@dataclass(frozen=True, eq=False)
class VFEPosterior:
    """What is known about f after the data have been summarised at the inducing points."""

    solution: Solution
    data: Data
    sweep: Sweep = field(default_factory=Sweep)

    @property
    def jitter(self) -> float:
        """What the factorisations added."""
        return self.solution.jitter

    @property
    def level(self) -> Prediction:
        """The fitted constant and its variance."""
        return Prediction(np.array([self.solution.level]), np.array([self.solution.level_variance]))

    def predict(self, X: Array) -> Prediction:
        """Return mean and variance of f at each row."""
        model = self.solution.model
        found = self._predicted(model.whole, model.values, X, share=1.0)
        return Prediction(self.solution.level + found.mean, found.variance)

    def predict_part(self, program: Program, values: Array, X: Array) -> Prediction:
        """Return mean and variance of one summand, given by its own program."""
        return self._predicted(program, values, X, share=0.0)

    def _predicted(self, program: Program, values: Array, X: Array, share: float) -> Prediction:
        """Predict in blocks of rows; `share` of the level belongs to what is predicted."""
        solution, mean, variance = self.solution, np.empty(len(X)), np.empty(len(X))
        for rows in slices(len(X), self.sweep.size(len(solution.model.Z))):
            cross, half, inner = self._projected(program, values, X[rows])
            mean[rows] = cross @ solution.weights
            lost = np.einsum("ij,ij->j", half, half) - np.einsum("ij,ij->j", inner, inner)
            variance[rows] = np.maximum(fused.diagonal(program, values, X[rows]) - lost, 0.0)
            variance[rows] += solution.level_variance * (share - cross @ solution.pull) ** 2
        return Prediction(mean, variance)

    def _projected(self, program: Program, values: Array, X: Array) -> tuple[Array, Array, Array]:
        """Return K*u, L^-1 Ku* and B^-1/2 L^-1 Ku*."""
        smooth = without_white(program, self.solution.model.white)
        cross = fused.cross(smooth, values, X, self.solution.model.Z)
        half = self.solution.factor.half_solve(cross.T)
        return cross, half, self.solution.inner.half_solve(half)

    def predict_joint(self, X: Array) -> tuple[Array, Array]:
        """Return mean and full covariance of f at the rows."""
        solution, model = self.solution, self.solution.model
        cross, half, inner = self._projected(model.whole, model.values, X)
        covariance = fused.gram(model.whole, model.values, X) - half.T @ half + inner.T @ inner
        if self.data.free_level:
            unsure = 1.0 - cross @ solution.pull
            covariance += solution.level_variance * np.outer(unsure, unsure)
        return solution.level + cross @ solution.weights, 0.5 * (covariance + covariance.T)

    def sample(self, X: Array, count: int, rng: np.random.Generator, noise: float) -> Array:
        """Draw joint samples of f at the rows, plus independent noise of the given variance."""
        mean, covariance = self.predict_joint(X)
        factor = factorise(covariance.copy, noise)
        if isinstance(factor, Failure):
            raise NumericalError(f"no samples: {factor.reason}; ask for fewer or more distinct rows")
        return mean[:, None] + factor.multiply(rng.standard_normal((len(X), count)))

    def leave_one_out(self) -> Prediction:
        """Return mean and variance of y at each row in memory given all others, under y ~ N(c, Q + D) with Z kept.

        mean_i = y_i - a_i / P_ii, var_i = 1 / P_ii, P = (Q + D)^-1 - var(c) s s', s = (Q + D)^-1 1, and
        (Q + D)^-1_ii = (1 - k_i' (Kuu + Phi)^-1 k_i / D_ii) / D_ii.
        """
        data = self.data
        mean, variance = np.empty(len(data.y)), np.empty(len(data.y))
        for rows in slices(len(data.y), self.sweep.size(len(self.solution.model.Z))):
            found = self._left_out(data.X[rows], data.y[rows])
            mean[rows], variance[rows] = found.mean, found.variance
        return Prediction(mean, variance)

    def left_out_score(self) -> float:
        """Return the sum of leave-one-out log densities over all rows, those of a source too."""
        if self.data.source is None:
            return left_out_score(self.leave_one_out(), self.data.y)
        alone = replace(self, data=self.data.sample)  # to be sent to the rows, without them
        return summed(self.data, alone._score, self.sweep.size(len(self.solution.model.Z)))

    def _score(self, X: Array, y: Array) -> float:
        return left_out_score(self._left_out(X, y), y)

    def _left_out(self, X: Array, y: Array) -> Prediction:
        solution, model = self.solution, self.solution.model
        cross, _, inner = self._projected(model.whole, model.values, X)
        noise = model.noises(X)
        residual = (y - solution.level - cross @ solution.weights) / noise
        pull = (1.0 - cross @ solution.pull) / noise
        precision = (1.0 - np.einsum("ij,ij->j", inner, inner) / noise) / noise
        precision -= solution.level_variance * pull**2
        return Prediction(y - residual / precision, 1.0 / precision)
