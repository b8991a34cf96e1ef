"""Exact inference by one Cholesky factorisation (METHODS 2), for as many rows as N x N numbers fit in memory.

    log p(y) = -y' A^-1 y / 2 - log|A| / 2 - N log(2 pi) / 2,   A = K + noise I
    d log p / d theta = -sum_ij G_ij dK_ij / d theta,   G = (A^-1 - a a') / 2,   a = A^-1 y

With a free level c the target is c + f and y stands for y - c above, c = 1'A^-1 y / 1'A^-1 1 being the most likely one:
a = P y with P = A^-1 - s s' / 1's, s = A^-1 1. As c is at its optimum it adds nothing to the gradient. Predictions
then carry the uncertainty of c: + (1 - K* s)^2 / 1's (universal kriging; Rasmussen & Williams 2006, 2.7, flat prior).

The gradient is a contraction of G with dK/dtheta: nothing is differentiated through the factorisation, and evidence
plus gradient need one N x N matrix in all: Gram, then its factor, then the inverse (on a device, strips of it).

The average information is the mean of the observed and the expected curvature of -log p(y), less terms in the second
derivatives of K (Gilmour, Thompson and Cullis 1995). It needs products with vectors only, and is never negative:

    I_ij = v_i' A^-1 v_j / 2,    v_i = (dA / dt_i) a;  noise a  for the log noise
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from mercer.compute.backend import NUMBA, Backend, FactorLike
from mercer.compute.program import Program
from mercer.errors import NumericalError
from mercer.inference.contract import Data, Engine, Evidence, Level, Move, Part, Posterior, Projection, leave_out
from mercer.inference.likelihood import LOG_2_PI, Likelihood
from mercer.kernels.domains import Array
from mercer.linalg.factor import Failure


@dataclass(frozen=True)
class Exact(Engine):
    """The exact engine: for as many rows as one N x N matrix fits on a device."""

    device: str | Backend = field(default=NUMBA, repr=False)

    name = "exact"
    exact = True
    has_information = True
    accelerated = True

    @property
    def many_rows(self) -> bool:
        return self.backend.batches

    def evidence(
        self, program: Program, values: Array, likelihood: Likelihood, data: Data, gradient: bool = True
    ) -> Evidence:
        """Return the log evidence and, if asked, its gradient and the leave-one-out score (free of charge then)."""
        noise, backend = self.noise_of(likelihood), self.backend
        at, memory = backend.prepare(data), backend.scratch(data.count, data.count)  # nothing of it outlives this call
        factor = backend.factorise(partial(backend.gram_lower, program, values, at, memory), noise)
        if isinstance(factor, Failure):
            return Evidence(-math.inf, failure=factor.reason)
        alpha, level = data.fit_level(factor.solve(data.right_sides.T).T)
        value = -0.5 * (float(data.y @ alpha) + factor.log_determinant() + data.count * LOG_2_PI)
        if not math.isfinite(value):
            return Evidence(-math.inf, failure="the evidence overflowed")
        if not gradient:
            return Evidence(value, jitter=factor.jitter)
        by_values, precision = backend.contract_inverse(program, values, at, factor, alpha)
        by_noise = -0.5 * float(precision.sum() - alpha @ alpha)
        if not (math.isfinite(by_noise) and np.isfinite(by_values).all()):
            return Evidence(-math.inf, failure="the gradient of the evidence overflowed")
        left_out = leave_out(data.y, alpha, precision, level).score(data.y)
        return Evidence(value, by_values, by_noise, left_out, factor.jitter)

    def information(
        self, program: Program, values: Array, likelihood: Likelihood, data: Data, moves: Sequence[Move]
    ) -> Array | None:
        """Return the average information along the moves and, last, along the log noise."""
        noise, backend = self.noise_of(likelihood), self.backend
        at = backend.prepare(data)
        factor = backend.factorise(partial(backend.gram_lower, program, values, at), noise)
        if isinstance(factor, Failure):
            return None
        alpha, _ = data.fit_level(factor.solve(data.right_sides.T).T)
        along = np.column_stack([self._slopes(program, values, at, alpha, moves), noise * alpha])
        if not np.isfinite(along).all():
            return None
        half = backend.fetch(factor.half_solve(backend.send(along)))
        return np.asarray(0.5 * half.T @ half)

    def _slopes(self, program: Program, values: Array, at: Any, alpha: Array, moves: Sequence[Move]) -> Array:
        """Return d (K a) along every move: from all slopes at once, or by products with K where it has moved."""
        by_values = self.backend.slopes(program, values, at, alpha)
        if by_values is not None:
            directions = [(move.values - values) / move.size for move in moves]
            return by_values @ np.array(directions).reshape(-1, len(values)).T
        here = self.backend.multiply(program, values, at, alpha)
        slopes = np.empty((len(alpha), len(moves)))
        for number, move in enumerate(moves):
            slopes[:, number] = (self.backend.multiply(program, move.values, at, alpha) - here) / move.size
        return slopes

    def posterior(self, program: Program, values: Array, likelihood: Likelihood, data: Data) -> ExactPosterior:
        noise, backend = self.noise_of(likelihood), self.backend
        factor = backend.factorise(partial(backend.gram_lower, program, values, backend.prepare(data)), noise)
        if isinstance(factor, Failure):
            raise NumericalError(f"no posterior: {factor.reason}; try a larger noise or another kernel")
        solved = data.fit_level(factor.solve(data.right_sides.T).T)
        return ExactPosterior(program, values, data, factor, *solved, backend)


@dataclass(frozen=True, eq=False)
class ExactPosterior(Posterior):
    """f | y is Gaussian with mean c + K* a and covariance K** - K* A^-1 K*' (and what c adds to it)."""

    program: Program
    values: Array
    data: Data
    factor: FactorLike
    alpha: Array
    constant: Level
    backend: Backend

    @property
    def rows_at_a_time(self) -> int:
        return max(1, 2 * self.backend.block_numbers // max(1, self.data.count))

    @property
    def fitted_level(self) -> Level:
        return self.constant

    @property
    def jitter(self) -> float:
        return self.factor.jitter

    @property
    def row_weights(self) -> Array | None:
        return self.alpha

    def project(self, X: Array, part: Part = None, joint: bool = False) -> Projection:
        program, values = part or (self.program, self.values)
        backend = self.backend  # N numbers for each row: they stay where the factor is
        cross = backend.cross(program, values, X, self.data.X)
        mean, pull = cross @ backend.send(self.alpha), cross @ backend.send(self.constant.pull)
        prior = (backend.gram if joint else backend.diagonal)(program, values, X)
        variance = prior - self._products(self.factor.half_solve(cross.T), joint)
        return Projection(backend.fetch(mean), backend.fetch(variance), backend.fetch(pull))

    def precision(self) -> tuple[Array, Array]:
        return self.alpha, self.factor.inverse_diagonal()
