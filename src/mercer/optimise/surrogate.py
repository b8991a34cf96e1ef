"""What is believed about the function: a kernel with its values, conditioned on the trials, and its additive parts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mercer.compute import fused
from mercer.compute.program import Program, compile_program
from mercer.inference.contract import Data, Engine, Posterior, Prediction
from mercer.inference.exact import Exact, ExactPosterior
from mercer.inference.likelihood import Gaussian
from mercer.inference.vfe import FixedVFE, greedy, holds_points
from mercer.kernels.algebra import components
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression, sum_of
from mercer.kernels.parameters import values_of
from mercer.linalg.factor import Failure, factorise

STEP = 1e-6  # of inputs in [0, 1], for slopes by differences


@dataclass(frozen=True)
class ConditionPolicy:
    """How a model is conditioned on trials."""

    exact_rows: int = 1000  # more than these by inducing points
    inducing: int = 400
    candidates: int = 1000  # trials among which these are chosen: the best half, and others at random


def choose_rows(y: Array, most: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the rows to fit to: the best half, the others at random."""
    if len(y) <= most:
        return np.arange(len(y))
    order = np.argsort(y)
    half = most // 2
    return np.sort(np.concatenate([order[:half], rng.choice(order[half:], size=most - half, replace=False)]))


@dataclass(frozen=True, eq=False)
class SurrogatePart:
    """A summand of the function that no other summand shares an input with."""

    inputs: tuple[int, ...]
    columns: tuple[int, ...]
    program: Program
    values: Array


@dataclass(frozen=True, eq=False)
class FunctionModel:
    """A Gaussian process on encoded inputs, conditioned on the trials."""

    expression: Expression
    likelihood: Gaussian
    data: Data
    inputs: tuple[tuple[int, ...], ...]  # the columns of every input
    points: Array | None = None  # inducing points, where there are many trials; None: chosen among these
    policy: ConditionPolicy = field(default_factory=ConditionPolicy)

    @cached_property
    def program(self) -> Program:
        return compile_program(self.expression)

    @cached_property
    def values(self) -> Array:
        return values_of(self.expression)

    @cached_property
    def engine(self) -> Engine:
        """What conditions on the trials: exactly, or by inducing points where they are many."""
        policy = self.policy
        if self.data.count <= policy.exact_rows:
            return Exact()
        points = self.points
        if points is None:
            some = self.data.X[choose_rows(self.data.y, policy.candidates, np.random.default_rng(0))]
            points = some[greedy(self.program, self.values, some, policy.inducing)]
        return FixedVFE(points)

    @cached_property
    def posterior(self) -> Posterior:
        return self.engine.posterior(self.program, self.values, self.likelihood, self.data)

    @cached_property
    def parts(self) -> tuple[SurrogatePart, ...]:
        """The additive parts: summands of the kernel that share inputs, together."""
        owner = {column: i for i, columns in enumerate(self.inputs) for column in columns}
        parts: list[tuple[set[int], list[Expression]]] = []
        for term in components(self.expression):
            used, terms = {owner[c] for o in term.owners() for c in o.columns}, [term]
            apart = [part for part in parts if not part[0] & used]
            for others, more in (part for part in parts if part[0] & used):
                used, terms = used | others, more + terms
            parts = [*apart, (used, terms)]
        return tuple(self._part(tuple(sorted(used)), sum_of(terms)) for used, terms in parts if used)

    def _part(self, inputs: tuple[int, ...], kernel: Expression) -> SurrogatePart:
        columns = tuple(c for i in inputs for c in self.inputs[i])
        return SurrogatePart(inputs, columns, compile_program(kernel), values_of(kernel))

    def predict(self, rows: Array) -> Prediction:
        """Return mean and variance of the function at encoded rows."""
        return self.posterior.predict(rows)

    def keep_variance(self, rows: Array, others: Array) -> Array:
        """Return which share of the variance at each row would stay if the function were known at the others.

        1 - c' C^-1 c / v, all of the posterior, with the level's share.
        """
        found, count = self.posterior.project(np.vstack([rows, others]), joint=True), len(rows)
        off = 1.0 - found.pull
        joint = found.variance + self.posterior.fitted_level.variance * np.outer(off, off)
        variance, c = np.maximum(np.diag(joint)[:count], np.finfo(float).tiny), joint[count:, :count]
        known = np.einsum("ij,ij->j", c, np.linalg.lstsq(joint[count:, count:], c, rcond=1e-10)[0])
        return np.asarray(np.clip(1.0 - known / variance, 0.0, 1.0))

    def predict_part(self, part: SurrogatePart, rows: Array) -> Prediction:
        """Return mean and variance of one part."""
        return self.posterior.predict_part(part.program, part.values, rows)

    def sample(
        self, rows: Array, count: int, rng: np.random.Generator, part: SurrogatePart | None = None
    ) -> Array | None:
        """Draw functions, or one part of them, at rows jointly, a column each; None where the rows are too alike."""
        of_part = None if part is None else (part.program, part.values)
        found = self.posterior.project(rows, of_part, joint=True)
        joint = found.variance
        if part is None:
            off = 1.0 - found.pull
            joint = joint + self.posterior.fitted_level.variance * np.outer(off, off)
        factor = factorise(joint.copy, 1e-10)
        if isinstance(factor, Failure):
            return None
        mean = found.mean if part is not None else self.predict(rows).mean
        return np.asarray(mean[:, None] + factor.multiply(rng.standard_normal((len(rows), count))))

    def predict_slopes(self, rows: Array) -> tuple[Prediction, Array, Array]:
        """Return mean and variance with their gradients by the rows: exactly where the kernel allows it."""
        posterior = self.posterior
        if isinstance(posterior, ExactPosterior) and self.program.stationary and fused.can_move(self.program):
            return self._exact_slopes(posterior, rows)
        count, width = rows.shape
        steps = np.concatenate([rows[None] + STEP * sign * np.eye(width)[:, None] for sign in (1.0, -1.0)])
        around = self.predict(np.concatenate([rows, *steps]))
        mean, variance = (values.reshape(2 * width + 1, count) for values in (around.mean, around.variance))
        slopes = [(v[1 : width + 1] - v[width + 1 :]).T / (2.0 * STEP) for v in (mean, variance)]
        return Prediction(mean[0], variance[0]), slopes[0], slopes[1]

    def _exact_slopes(self, posterior: ExactPosterior, rows: Array) -> tuple[Prediction, Array, Array]:
        """d mean = alpha' dK and d variance = -2 (A^-1 k)' dK - 2 v (1 - k's) s' dK, v and s being the level's."""
        level, X = posterior.fitted_level, self.data.X
        cross = fused.cross(self.program, self.values, X, rows)
        solved, pull = posterior.factor.solve(cross), cross.T @ level.pull
        variance = fused.diagonal(self.program, self.values, rows) - np.einsum("ij,ij->j", cross, solved)
        variance = np.maximum(variance, 0.0) + level.variance * (1.0 - pull) ** 2
        weights = -2.0 * (solved + np.outer(level.pull, level.variance * (1.0 - pull)))
        each = np.outer(posterior.alpha, np.ones(len(rows)))
        _, by_mean = fused.contract_cross(self.program, self.values, X, rows, each, moving=True)
        _, by_variance = fused.contract_cross(self.program, self.values, X, rows, weights, moving=True)
        return Prediction(level.mean + cross.T @ posterior.alpha, variance), by_mean, by_variance


def extend(surrogate: FunctionModel, rows: Array, targets: Array) -> FunctionModel:
    """Return the surrogate as if these rows had been tried too, with the same parameters."""
    data = surrogate.data
    more = Data(np.vstack([data.X, rows]), np.append(data.y, targets), data.free_level)
    points = np.vstack([surrogate.engine.Z, rows]) if holds_points(surrogate.engine) else None
    return replace(surrogate, data=more, points=points)
