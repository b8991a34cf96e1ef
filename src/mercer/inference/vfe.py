"""Sparse variational inference (VFE, also SGPR; Titsias 2009): a lower bound on the evidence by m inducing points.

    F = log N(y | c, Q + D) - tr(D^-1 (K0 - Q)) / 2,   Q = Kfu Kuu^-1 Kuf

K0, D, V, B, g and the level c are those of sparse.py; without white noise in the kernel K0 = K and D = noise I. The
gradient is a contraction of the adjoints of Kfu, Kuu and the diagonals with the derivatives of the kernel. With
a = (Q + D)^-1 (y - c) = D^-1 (y - c - Kfu g), and as Kuu^-1 Kuf a = g,

    of Kfu    D^-1 Kfu M + a g',                       M = Kuu^-1 - (Kuu + Phi)^-1 = L'^-1 (I - B^-1) L^-1
    of Kuu    -(L'^-1 (B - 2 I + B^-1) L^-1 + g g') / 2
    of K0_ii  -1 / (2 D_ii)
    of D_ii   (a_i^2 - 1 / D_ii + (K0_ii - k_i' M k_i) / D_ii^2) / 2,   k_i' a row of Kfu

The level is at its optimum and adds nothing. Two passes over blocks of rows: one for the sums, one for the gradient,
Kfu being computed again; memory O(m^2 + block m). Where N m numbers are few, V is kept instead, from which

    D^-1 Kfu M = D^-1/2 V' (I - B^-1) L^-1,   a = D^-1 (y - c) - D^-1/2 V' (L' g)

Nothing is differentiated through a factorisation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from numbers import Integral
from operator import add
from typing import Any, TypeGuard

import numpy as np
from scipy.linalg import blas

from mercer.compute import fused
from mercer.compute.backend import NUMBA, Backend
from mercer.compute.fused_points import can_move, contract_points
from mercer.compute.program import Program
from mercer.compute.separate import without_white
from mercer.errors import InputError, NumericalError
from mercer.inference.contract import Data, Engine, Evidence, Prediction, left_out_score
from mercer.inference.inducing import CANDIDATES, greedy
from mercer.inference.likelihood import Likelihood, gaussian_noise
from mercer.inference.sparse import (
    Adjoint,
    Model,
    Sensitivity,
    SparseSolution,
    Sweep,
    block_sensitivity,
    mirror,
    model_of,
    sandwich,
    slices,
    solve,
)  # fmt: skip
from mercer.kernels.domains import Array
from mercer.linalg import scratch
from mercer.linalg.factor import Factor, Failure, factorise
from mercer.linalg.threads import SMALL, one_thread

KEPT_NUMBERS = 25_000_000  # of V between the two passes: 200 MB


@dataclass(frozen=True)
class VFE(Engine):
    """Sparse variational inference with so many inducing points, chosen among the rows for the values at hand.

    Fits go through `hold(...)`, since points that are chosen anew by the values leave no gradient. With `joint` the
    points so chosen then move with the parameters, by the gradient of the bound; without, they stay while parameters
    move, and are chosen again where that ends. The sums over rows can be dealt to joblib's workers (`n_jobs`).
    `predicting`: so many points, more than those of the fit, for the final posterior, which is worked out once; where
    those that moved give the higher bound, they stay.
    """

    inducing: int = 500
    n_jobs: int | None = field(default=None, repr=False)
    device: str | Backend = field(default=NUMBA, repr=False)
    joint: bool = field(default=True, repr=False)
    predicting: int | None = field(default=None, repr=False)

    name = "vfe"
    is_bound = True
    streams = True
    accelerated = True

    @property
    def saves_points(self) -> bool:
        return self.joint or self.predicting is not None

    def __post_init__(self) -> None:
        for name, least in (("inducing", 1), ("predicting", self.inducing)):
            count = getattr(self, name)
            if count is None and name == "predicting":
                continue
            if isinstance(count, bool) or not isinstance(count, Integral) or count < least:
                raise InputError(f"{name} is a number of points, at least {least}, not {count!r}")
            object.__setattr__(self, name, int(count))  # files and reasons tell it: no integer of NumPy
        if not isinstance(self.joint, bool | np.bool_):
            raise InputError(f"joint is True (the points move with the parameters) or False, not {self.joint!r}")
        jobs = self.n_jobs
        if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, Integral) or jobs == 0):
            raise InputError(f"n_jobs must be None or 1 (one at a time), more, or -1 (all cores), not {jobs!r}")

    def hold(self, program: Program, values: Array, data: Data) -> FixedVFE:
        """Return the engine with the points that suit these values."""
        return self.sparing(program, values, data, 0.0)

    def hold_for_predictions(self, program: Program, values: Array, data: Data) -> FixedVFE | None:
        """Return the engine with the points of the final posterior, where these are more than those of the fit."""
        if self.predicting is None or data.source is not None:
            return None
        return replace(self, inducing=self.predicting, joint=False).hold(program, values, data)

    def to_plain(self) -> dict[str, Any]:
        """Return the engine as JSON data."""
        more = {} if self.predicting is None else {"predicting": self.predicting}
        return {"engine": self.name, "inducing": self.inducing, "joint": self.joint, **more}

    @classmethod
    def from_plain(cls, data: dict[str, Any]) -> VFE:
        """Read `to_plain` back."""
        more = int(data["predicting"]) if "predicting" in data else None
        return cls(inducing=int(data["inducing"]), joint=data.get("joint", True) is True, predicting=more)

    def sparing(
        self, program: Program, values: Array, data: Data, spare: float, candidates: int = CANDIDATES
    ) -> FixedVFE:
        """Return the engine with no more points than leave a mean variance of `spare` over, of so many rows at most."""
        rows = greedy(program, values, data.X, self.inducing, candidates=candidates, spare=spare)
        joint = self.joint and can_move(program)
        return FixedVFE(data.X[rows], None, self.n_jobs, self.device, joint=joint)

    def evidence(
        self, program: Program, values: Array, likelihood: Likelihood, data: Data, gradient: bool = True
    ) -> Evidence:
        """Return the lower bound on the log evidence and, if asked, its gradient with the points held."""
        return self.hold(program, values, data).evidence(program, values, likelihood, data, gradient)

    def posterior(self, program: Program, values: Array, likelihood: Likelihood, data: Data) -> VFEPosterior:
        """Return the posterior, which keeps m x m numbers and the data."""
        return self.hold(program, values, data).posterior(program, values, likelihood, data)


def is_sparse(engine: Engine | None) -> TypeGuard[VFE]:
    """Tell whether an engine bounds the evidence by inducing points that it chooses."""
    return engine is not None and engine.is_bound and not engine.held


def holds_points(engine: Engine | None) -> TypeGuard[FixedVFE]:
    """Tell whether an engine bounds the evidence by inducing points that it has."""
    return engine is not None and engine.is_bound and engine.held


@dataclass(frozen=True, eq=False)
class FixedVFE(Engine):
    """The sparse engine with inducing inputs Z (m x D), fixed for this object; `block` rows are worked on at a time.

    A fit may move the points where they are `joint` with the parameters; with `moving` a gradient has that by Z too.
    """

    Z: Array
    block: int | None = None
    n_jobs: int | None = None
    device: str | Backend = NUMBA
    joint: bool = False
    moving: bool = False

    name = "vfe"
    is_bound = True
    streams = True
    accelerated = True
    held = True

    @property
    def moves_points(self) -> bool:
        return self.joint

    @property
    def sweep(self) -> Sweep:
        """How to go over the rows."""
        return Sweep(self.block, self.n_jobs, self.backend)

    def evidence(
        self, program: Program, values: Array, likelihood: Likelihood, data: Data, gradient: bool = True
    ) -> Evidence:
        """Return the lower bound on the log evidence and, if asked, its gradient by values and noise."""
        model = model_of(program, values, gaussian_noise(likelihood, self.name), data, self.Z, self.backend)
        kept = _room(model, data, self.sweep) if gradient else None
        solution = solve(model, data, self.sweep, kept)
        if isinstance(solution, Failure):
            return Evidence(-math.inf, failure=solution.reason)
        if not math.isfinite(solution.bound):
            return Evidence(-math.inf, failure="the evidence overflowed")
        if not gradient:
            return Evidence(solution.bound, jitter=solution.jitter)
        by_values, by_noise, by_points = _gradient(solution, data, self.sweep, kept, self.moving)
        if not (math.isfinite(by_noise) and np.isfinite(by_values).all() and np.isfinite(by_points).all()):
            return Evidence(-math.inf, failure="the gradient of the evidence overflowed")
        moved = by_points if self.moving else None
        return Evidence(solution.bound, by_values, by_noise, jitter=solution.jitter, by_points=moved)

    def posterior(self, program: Program, values: Array, likelihood: Likelihood, data: Data) -> VFEPosterior:
        """Return the posterior, which keeps m x m numbers and the data."""
        solution = solve(
            model_of(program, values, gaussian_noise(likelihood, self.name), data, self.Z, self.backend),
            data,
            self.sweep,
        )
        if isinstance(solution, Failure):
            raise NumericalError(f"no posterior: {solution.reason}; try a larger noise or another kernel")
        return VFEPosterior(replace(solution, model=solution.model.here()), data, Sweep(self.block))


def _room(model: Model, data: Data, sweep: Sweep) -> Array | None:
    """Return memory to keep V in, if it is small and all of it is made here."""
    here = data.source is None and sweep == Sweep(sweep.block) and not model.has_white
    small = data.count * len(model.Z) <= KEPT_NUMBERS
    return scratch.rectangle(data.count, len(model.Z)) if here and small else None


def _gradient(
    solution: SparseSolution, data: Data, sweep: Sweep, kept: Array | None, moving: bool
) -> tuple[Array, float, Array]:
    """Return the gradients by values, by the noise and, if asked, by the inducing points."""
    model, sums = solution.model, solution.sums
    points, one = len(model.Z), np.eye(len(model.Z))
    inverse = mirror(Factor(solution.inner.lower.copy(), 0.0).into_inverse())  # B^-1
    total = _go_back(solution, one - inverse, data, sweep, kept, moving)
    square = sandwich(solution.inverse_root, mirror(sums.gram) - one + inverse)
    square += np.outer(solution.weights, solution.weights)
    at = fused.points(model.Z)
    by_values = total.by_values - 0.5 * fused.contract(model.smooth, model.values, at, square, np.zeros(points))
    by_points = total.by_points
    if moving:  # of Kuu a point is both a row and a column
        by_points = by_points - contract_points(model.smooth, model.values, model.Z, model.Z, square)
    if model.has_white:
        return by_values, total.by_noise, by_points
    freedom = sums.count - points + float(np.trace(inverse))  # noise tr (Q + noise I)^-1
    return by_values, 0.5 * (total.squares + (solution.trace - freedom) / model.noise), by_points


def _go_back(
    solution: SparseSolution, shrinkage: Array, data: Data, sweep: Sweep, kept: Array | None, moving: bool
) -> Sensitivity:
    """Go over the rows again; `shrinkage` is I - B^-1."""
    model, points = solution.model, len(solution.model.Z)
    if kept is not None:
        with one_thread(when=len(shrinkage) < SMALL):
            spread = blas.dtrmm(1.0, solution.inverse_root.T, shrinkage.T, lower=0).T
        adjoint, size = (
            Adjoint(spread, solution.half_weights, solution.level, solution.weights, moving),
            sweep.size(points),
        )
        room, parts = np.empty((min(size, data.count), points)), slices(data.count, size)
        return reduce(add, (block_sensitivity(model, adjoint, data.X[r], data.y[r], kept[r], room) for r in parts))
    spread = sandwich(solution.inverse_root, shrinkage)
    adjoint = Adjoint(spread, solution.weights, solution.level, solution.weights, moving)
    return sweep.add_up(data, partial(block_sensitivity, model, adjoint), points)


# ------------------------------------------------------------------------------------------------------- posterior


@dataclass(frozen=True, eq=False)
class VFEPosterior:
    """What is known about f after the data have been summarised at the inducing points: all goes through these.

        mean of f(x)       c + k_u' g
        variance of f(x)   k(x, x) - k_u' Kuu^-1 k_u + k_u' (Kuu + Phi)^-1 k_u + (1 - k_u' h)^2 var(c)

    with k_u = K0(Z, x) and the names of sparse.py. One summand j has K_j(Z, x) in place of k_u, k_j(x, x) in place of
    k(x, x), and no share of the level. White noise is new at every row: it adds to the variance, not to the mean.
    """

    solution: SparseSolution
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
        return self.sweep.add_up(self.data, alone._score, len(self.solution.model.Z))

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
