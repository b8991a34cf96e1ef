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
from dataclasses import dataclass, field, fields, replace
from functools import partial, reduce
from numbers import Integral
from operator import add
from typing import ClassVar, TypeGuard

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from mercer.compute import fused
from mercer.compute.backend import NUMBA, Backend
from mercer.compute.program import Program
from mercer.compute.separate import without_white
from mercer.errors import InputError, NumericalError
from mercer.inference.contract import Data, Engine, Evidence, Level, Part, Posterior, Prediction, Projection, leave_out
from mercer.inference.likelihood import Likelihood
from mercer.inference.sparse import Model, RowSweep, SparseSolution, mirror, model_of, sandwich, slices, solve
from mercer.kernels.domains import Array
from mercer.linalg.factor import Factor, Failure
from mercer.linalg.threads import SMALL, one_thread

CANDIDATES = 20_000  # above this many rows a random subset of them is looked at for points
NEGLIGIBLE = 1e-10  # of the largest variance: what is left is rounding, and more points would only harm
KEPT_NUMBERS = 25_000_000  # of V between the two passes: 200 MB


@dataclass(frozen=True)
class VFE(Engine):
    """Sparse variational inference with this many inducing points, chosen among the rows for the values at hand.

    Fits go through `hold(...)`, since points that are chosen anew by the values leave no gradient. With `joint` the
    points so chosen then move with the parameters, by the gradient of the bound; without, they stay while parameters
    move, and are chosen again where that ends. The sums over rows can be dealt to joblib's workers (`n_jobs`).
    `predicting`: this many points, more than those of the fit, for the final posterior, which is worked out once; where
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
    saved: ClassVar = {"inducing": int, "joint": bool, "predicting": int}

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
        return self.sparing(program, values, data, 0.0)

    def hold_for_predictions(self, program: Program, values: Array, data: Data) -> FixedVFE | None:
        """Return the engine with the points of the final posterior, where these are more than those of the fit."""
        if self.predicting is None or data.source is not None:
            return None
        return replace(self, inducing=self.predicting, joint=False).hold(program, values, data)

    def sparing(
        self, program: Program, values: Array, data: Data, spare: float, candidates: int = CANDIDATES
    ) -> FixedVFE:
        """Return the engine with just enough points, among `candidates` rows, to leave a mean variance of `spare`."""
        rows = greedy(program, values, data.X, self.inducing, candidates=candidates, spare=spare)
        joint = self.joint and fused.can_move(program)
        return FixedVFE(data.X[rows], None, self.n_jobs, self.device, joint=joint)

    def evidence(
        self, program: Program, values: Array, likelihood: Likelihood, data: Data, gradient: bool = True
    ) -> Evidence:
        """Return the lower bound on the log evidence and, if asked, its gradient with the points held."""
        return self.hold(program, values, data).evidence(program, values, likelihood, data, gradient)

    def posterior(self, program: Program, values: Array, likelihood: Likelihood, data: Data) -> VFEPosterior:
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
    def sweep(self) -> RowSweep:
        return RowSweep(self.block, self.n_jobs, self.backend)

    def evidence(
        self, program: Program, values: Array, likelihood: Likelihood, data: Data, gradient: bool = True
    ) -> Evidence:
        """Return the lower bound on the log evidence and, if asked, its gradient by values and noise."""
        model = model_of(program, values, self.noise_of(likelihood), data, self.Z, self.backend)
        kept, numbers = None, data.count * len(self.Z)
        here = data.source is None and self.sweep == RowSweep(self.block) and not model.has_white
        if gradient and here and numbers <= KEPT_NUMBERS:  # V is small, and all of it is made here
            kept = NUMBA.scratch(data.count, len(self.Z))
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
        model = model_of(program, values, self.noise_of(likelihood), data, self.Z, self.backend)
        solution = solve(model, data, self.sweep)
        if isinstance(solution, Failure):
            raise NumericalError(f"no posterior: {solution.reason}; try a larger noise or another kernel")
        return VFEPosterior(replace(solution, model=solution.model.here()), data, RowSweep(self.block))


@dataclass(frozen=True, eq=False)
class Adjoint:
    """What the second pass of a gradient needs from the first."""

    spread: Array  # M; where V is kept (I - B^-1) L^-1
    weights: Array  # g; where V is kept L' g
    level: float
    of_kernel: Array  # g
    moving: bool = False  # whether the gradient by the inducing points is wanted too


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """What some rows add to the gradient by values, to a'a, to that by noise (where rows have their own), and by Z."""

    by_values: Array
    squares: float
    by_noise: float
    by_points: Array  # empty where it was not asked for

    def __add__(self, other: Sensitivity) -> Sensitivity:
        return Sensitivity(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def block_sensitivity(
    model: Model, adjoint: Adjoint, X: Array, y: Array, kept: Array | None = None, room: Array | None = None
) -> Sensitivity:
    """Contract the adjoints of one block of rows with the derivatives of the kernel.

    `kept` is V' of these rows; `room` is memory for as many numbers, used block after block: fresh memory costs a page
    fault for every 4 kB, a tenth of the product that fills it.
    """
    backend = model.backend
    X = backend.send(X)
    noise = model.noises(X)
    cross = model.cross(X) if kept is None else kept
    unit = 1.0 if kept is None else math.sqrt(model.noise)  # of what stands in place of Kfu
    residual = (backend.send(y) - adjoint.level - unit * (cross @ backend.send(adjoint.weights))) / noise  # a
    scale = 1.0 if model.has_white else unit / model.noise
    spread = backend.product(cross, adjoint.spread, scale, room)  # Kfu M, or D^-1 Kfu M where D is noise I
    by_values, by_noise = np.zeros(len(model.values)), 0.0
    if model.has_white:
        known = (spread * cross).sum(1)
        by_rows = 0.5 * (residual**2 - 1.0 / noise + (model.prior(X) - known) / noise**2)
        by_noise = float(by_rows.sum())
        by_values += backend.contract_diagonal(model.whole, model.values, X, by_rows)
        by_values -= backend.contract_diagonal(model.smooth, model.values, X, by_rows)
        spread /= noise[:, None]
    by_kernel, by_points = backend.contract_cross(
        model.smooth, model.values, X, model.Z, spread, (residual, adjoint.of_kernel), adjoint.moving
    )
    by_values += by_kernel - backend.contract_diagonal(model.smooth, model.values, X, 0.5 / noise)
    return Sensitivity(by_values, float(residual @ residual), by_noise, by_points)


def _gradient(
    solution: SparseSolution, data: Data, sweep: RowSweep, kept: Array | None, moving: bool
) -> tuple[Array, float, Array]:
    """Return the gradients by values, by the noise and, if asked, by the inducing points."""
    model, sums = solution.model, solution.sums
    points, one = len(model.Z), np.eye(len(model.Z))
    inverse = mirror(Factor(solution.inner.lower.copy(), 0.0).into_inverse())  # B^-1
    if kept is None:
        spread = sandwich(solution.inverse_root, one - inverse)
        adjoint = Adjoint(spread, solution.weights, solution.level, solution.weights, moving)
        total = sweep.add_up(data, partial(block_sensitivity, model, adjoint), points)
    else:
        with one_thread(when=points < SMALL):
            spread = blas.dtrmm(1.0, solution.inverse_root.T, (one - inverse).T, lower=0).T
        adjoint, size = (
            Adjoint(spread, solution.half_weights, solution.level, solution.weights, moving),
            sweep.size(points),
        )
        room, parts = np.empty((min(size, data.count), points)), slices(data.count, size)
        total = reduce(add, (block_sensitivity(model, adjoint, data.X[r], data.y[r], kept[r], room) for r in parts))
    square = sandwich(solution.inverse_root, mirror(sums.gram) - one + inverse)
    square += np.outer(solution.weights, solution.weights)
    at = fused.points(model.Z)
    by_values = total.by_values - 0.5 * fused.contract(model.smooth, model.values, at, square, np.zeros(points))
    by_points = total.by_points
    if moving:  # of Kuu a point is both a row and a column
        _, by_kernel = fused.contract_cross(model.smooth, model.values, model.Z, model.Z, square, moving=True)
        by_points = by_points - by_kernel
    if model.has_white:
        return by_values, total.by_noise, by_points
    freedom = sums.count - points + float(np.trace(inverse))  # noise tr (Q + noise I)^-1
    return by_values, 0.5 * (total.squares + (sums.trace - freedom) / model.noise), by_points


# ------------------------------------------------------------------------------------------------------- posterior


@dataclass(frozen=True, eq=False)
class VFEPosterior(Posterior):
    """What is known about f after the data have been summarised at the inducing points: all goes through these.

        mean of f(x)       c + k_u' g
        variance of f(x)   k(x, x) - k_u' Kuu^-1 k_u + k_u' (Kuu + Phi)^-1 k_u + (1 - k_u' h)^2 var(c)

    with k_u = K0(Z, x) and the names of sparse.py. One summand j has K_j(Z, x) in place of k_u, k_j(x, x) in place of
    k(x, x), and no share of the level. White noise is new at every row: it adds to the variance, not to the mean.
    """

    solution: SparseSolution
    data: Data
    sweep: RowSweep = field(default_factory=RowSweep)

    @property
    def jitter(self) -> float:
        return self.solution.jitter

    @property
    def fitted_level(self) -> Level:
        return Level(self.solution.level, self.solution.level_variance, np.empty(0))

    @property
    def rows_at_a_time(self) -> int:
        return self.sweep.size(len(self.solution.model.Z))

    def project(self, X: Array, part: Part = None, joint: bool = False) -> Projection:
        program, values = part or (self.solution.model.whole, self.solution.model.values)
        cross, half, inner = self._through_points(program, values, X)
        prior = (fused.gram if joint else fused.diagonal)(program, values, X)
        variance = prior - (self._products(half, joint) - self._products(inner, joint))
        return Projection(cross @ self.solution.weights, variance, cross @ self.solution.pull)

    def _through_points(self, program: Program, values: Array, X: Array) -> tuple[Array, Array, Array]:
        """Return K*u, L^-1 Ku* and B^-1/2 L^-1 Ku*."""
        smooth = without_white(program, self.solution.model.white)
        cross = fused.cross(smooth, values, X, self.solution.model.Z)
        half = self.solution.factor.half_solve(cross.T)
        return cross, half, self.solution.inner.half_solve(half)

    def precision(self) -> tuple[Array, Array]:
        """Return both under y ~ N(c, Q + D): (Q + D)^-1_ii = (1 - k_i' (Kuu + Phi)^-1 k_i / D_ii) / D_ii."""
        return self._precision(self.data.X, self.data.y)[:2]

    def _precision(self, X: Array, y: Array) -> tuple[Array, Array, Array]:
        solution, model = self.solution, self.solution.model
        cross, _, inner = self._through_points(model.whole, model.values, X)
        noise = model.noises(X)
        precision = (1.0 - np.einsum("ij,ij->j", inner, inner) / noise) / noise
        return (y - solution.level - cross @ solution.weights) / noise, precision, (1.0 - cross @ solution.pull) / noise

    def leave_one_out(self) -> Prediction:
        """Return mean and variance of y at each row in memory given all others, Z kept."""
        blocks = slices(len(self.data.y), self.rows_at_a_time)
        parts = [self.leave_some_out(self.data.X[rows], self.data.y[rows]) for rows in blocks]
        return Prediction(np.concatenate([p.mean for p in parts]), np.concatenate([p.variance for p in parts]))

    def leave_some_out(self, X: Array, y: Array) -> Prediction:
        """Return the same for some of the rows."""
        alpha, precision, pull = self._precision(X, y)
        return leave_out(y, alpha, precision, replace(self.fitted_level, pull=pull))

    def left_out_score(self) -> float:
        """Return the sum of leave-one-out log densities over all rows, those of a source too."""
        if self.data.source is None:
            return super().left_out_score()
        alone = replace(self, data=self.data.sample)  # to be sent to the rows, without them
        return self.sweep.add_up(self.data, alone.score_some, len(self.solution.model.Z))

    def score_some(self, X: Array, y: Array) -> float:
        """Return the same for some of the rows."""
        return self.leave_some_out(X, y).score(y)


# -------------------------------------------------------------------------------------------------- where points go
# Greedy choice by conditional variance (Burt, Rasmussen & van der Wilk 2020, 4.2.2) is Cholesky with pivoting: the row
# chosen next has the largest k(x, x) - k(x, S) k(S, S)^-1 k(S, x), S being the rows chosen before. It makes the trace
# tr(K - Q) small, which is what the variational bound loses.


def greedy(
    program: Program, values: Array, X: Array, count: int,
    *, seed: int = 0, candidates: int = CANDIDATES, spare: float = 0.0,
) -> NDArray[np.int64]:  # fmt: skip
    """Return the numbers of at most `count` rows, no two of them alike, in the order in which they were chosen.

    Fewer are returned where the residual variance everywhere falls below a negligible share of the largest variance, or
    where its mean falls to `spare`: what points leave over is known after each of them, so that none need be tried in
    vain. White noise inside the kernel is left out of account. O(N m^2) time and O(N m) memory for N candidates.
    """
    program, rows = without_white(program), np.arange(len(X))
    if len(X) > candidates:
        rows = np.sort(np.random.default_rng(seed).choice(len(X), candidates, replace=False))
    _, first = np.unique(X[rows], axis=0, return_index=True)
    rows = rows[np.sort(first)]
    X, count = X[rows], max(1, min(count, len(rows)))
    left = fused.diagonal(program, values, X)  # residual variances
    least = NEGLIGIBLE * float(np.max(left))
    lower = np.empty((count, len(X)))  # lower[t] is column t of the factor
    chosen: list[int] = []
    for t in range(count):
        pivot = int(np.argmax(left))
        if not left[pivot] > least and chosen:
            break
        column = fused.cross(program, values, X[pivot : pivot + 1], X)[0]  # k is symmetric; one long row is faster
        column -= lower[:t, pivot] @ lower[:t]
        chosen.append(pivot)
        if not left[pivot] > 0.0:  # a kernel that is zero everywhere: any row will do
            break
        lower[t] = column / np.sqrt(left[pivot])
        left -= lower[t] ** 2
        left[pivot] = 0.0
        if left.mean() <= spare:
            break
    return rows[chosen]
