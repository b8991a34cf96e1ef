"""Sums of products on a grid, with change surfaces: K = sum_i S_i (K_i1 x ... x K_iD) S_i (METHODS 9).

The summands share no eigenvectors, so there is nothing to decompose: A_MM a = y is solved by conjugate gradients on the
observed cells. Where few eigenvalues of the K_i are above the noise, these and the noise make a matrix P near A_MM: it
is the preconditioner, and Lanczos quadrature only has to find what log|P| and the trace of P^-1 dA miss (Wenger et al.
2022). Otherwise the preconditioner is sum_i S_i (K_i + noise)^-1 S_i, the inverse where every cell is of one regime
and no cell is missing. The log-determinant can also be bounded by Weyl's inequalities. Few cells are left to exact
inference (grid.py). Two SE kernels on 40 x 40 cells, noise 0.01, against dense: P takes the error of the evidence from
21 (standard deviation over probes) to 0.6, that of the gradient from 6 % to 0.7 %, and the steps from 57 to 4.

Products with factors on even axes go by FFT from `fft_from` cells on (14 ms for 43 at 1000 x 1000, on one core).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from mercer.compute import fused
from mercer.compute.program import LeafNode
from mercer.compute.separate import Summand
from mercer.compute.surfaces import pull_back, shares
from mercer.inference.contract import Data, Level, Part, Posterior, Projection
from mercer.inference.grid import UNDEFINED, Grid, GridEvidence
from mercer.inference.grid_product import BLOCK, Cells, OnGrid, cells_of, send
from mercer.inference.likelihood import LOG_2_PI
from mercer.kernels.domains import Array
from mercer.linalg.iterative import Solution, conjugate_gradients, lanczos_log_determinant
from mercer.linalg.operators import Kronecker, LowRank, Toeplitz, is_toeplitz, outer, spectrum, weyl_log_determinant

MOST_NUMBERS = 1 << 27  # that P may take: a GB
MISSED = 10.0  # times the noise: the largest eigenvalue that P may miss to be near
WORTH = 1.0  # times the noise: smaller eigenvalues are not worth a column of P
EXACT_LEFT_OUT = 2000  # rows whose precisions are worked out one by one
LEFT_OUT_PROBES = 64


@dataclass(frozen=True, eq=False)
class Piece:
    """One summand at its values: its factors along the axes, and s at the observed cells (None: ones)."""

    factors: tuple[Tensor, ...]
    gate: Tensor | None
    noise: float
    fft_from: int

    @cached_property
    def toeplitz(self) -> tuple[Toeplitz | None, ...]:
        """The factors for which an FFT is worth it."""
        return tuple(Toeplitz(f[0]) if len(f) >= self.fft_from and is_toeplitz(f) else None for f in self.factors)

    @cached_property
    def basis(self) -> Kronecker:
        return spectrum(self.factors, [is_toeplitz(f) for f in self.factors], self.noise)

    def times(self, grid: Tensor, left_out: int | None = None) -> Tensor:
        """Return K v for every grid of a batch; without the factor of one axis, if asked."""
        for d, (factor, quick) in enumerate(zip(self.factors, self.toeplitz, strict=True)):
            if d == left_out:
                continue
            lines = grid.movedim(d + 1, -1)
            lines = lines @ factor if quick is None else quick.times(lines)
            grid = lines.movedim(-1, d + 1)
        return grid

    def apply_gate(self, vectors: Tensor) -> Tensor:
        return vectors if self.gate is None else vectors * self.gate


@dataclass(frozen=True, eq=False)
class SumOperator:
    """A_MM = sum_i S_i K_i S_i + noise I over the observed cells."""

    cells: Cells
    pieces: tuple[Piece, ...]
    noise: float
    engine: Grid

    def times(self, vectors: Tensor) -> Tensor:
        """Return A_MM v for vectors (b, M)."""
        total = self.noise * vectors
        for piece in self.pieces:
            grids = piece.times(self.cells.spread(piece.apply_gate(vectors)))
            total += piece.apply_gate(self.cells.gather(grids))
        return total

    @cached_property
    def near(self) -> LowRank | None:
        """The matrix P of all eigenvalues that are worth it; None where they are too many."""
        spectra = [piece.basis.grid.flatten() for piece in self.pieces]
        every, count = torch.cat(spectra), len(self.cells.observed)
        most = min(self.engine.policy.most_rank, count, MOST_NUMBERS // count)
        rank = min(most, int((every > WORTH * self.noise).sum()))
        if rank == 0 or int((every > MISSED * self.noise).sum()) > most:
            return None
        chosen, columns, first = every.topk(rank).indices, [], 0
        places = torch.unravel_index(self.cells.observed, self.cells.shape)
        for piece, values in zip(self.pieces, spectra, strict=True):
            own = chosen[(chosen >= first) & (chosen < first + len(values))] - first
            first += len(values)
            # some eigenvectors of K_i, by their number on the grid, times s, at the observed cells
            column = values[own].sqrt().expand(count, -1)
            numbers = torch.unravel_index(own, self.cells.shape)
            for vectors, place, number in zip(piece.basis.vectors, places, numbers, strict=True):
                column = column * vectors[:, number][place]
            columns.append(column if piece.gate is None else column * piece.gate[:, None])
        return LowRank.of(torch.cat(columns, 1), self.noise)

    def precondition(self, vectors: Tensor) -> Tensor:
        """Return P^-1 v, or sum_i S_i (K_i + noise)^-1 S_i v where there is no P."""
        if self.near is not None:
            return self.near.solve(vectors)
        total = torch.zeros_like(vectors)
        for piece in self.pieces:
            grids = piece.basis.solve(self.cells.spread(piece.apply_gate(vectors)))
            total += piece.apply_gate(self.cells.gather(grids))
        return total

    def solve(self, right: Tensor) -> Solution:
        return conjugate_gradients(
            self.times, right,
            precondition=self.precondition, tolerance=self.engine.tolerance, most=self.engine.most_steps,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class GridSlopes:
    """A gradient by the factors of each piece (n_d x n_d, symmetric), by s at the observed cells, and by the noise."""

    factors: list[list[Tensor]]
    gates: list[Tensor]
    noise: float

    def plus(self, other: GridSlopes, times: float) -> GridSlopes:
        """Return this gradient plus a multiple of another."""
        factors = [
            [a + times * b for a, b in zip(mine, theirs, strict=True)]
            for mine, theirs in zip(self.factors, other.factors, strict=True)
        ]
        gates = [a + times * b for a, b in zip(self.gates, other.gates, strict=True)]
        return GridSlopes(factors, gates, self.noise + times * other.noise)


def slopes_between(operator: SumOperator, left: Tensor, right: Tensor) -> GridSlopes:
    """Return the gradient of sum_k u_k' A v_k."""
    cells, factors, gates = operator.cells, [], []
    for piece in operator.pieces:
        u, v = (cells.spread(piece.apply_gate(w)) for w in (left, right))
        own = []
        for d in range(len(piece.factors)):
            product = u.movedim(d + 1, 0).flatten(1) @ piece.times(v, left_out=d).movedim(d + 1, 0).flatten(1).mT
            own.append(0.5 * (product + product.mT))
        factors.append(own)
        gates.append((left * cells.gather(piece.times(v)) + right * cells.gather(piece.times(u))).sum(0))
    return GridSlopes(factors, gates, float((left * right).sum()))


def by_lanczos(operator: SumOperator) -> tuple[float, GridSlopes]:
    """Estimate log|A_MM| by Lanczos quadrature, and tr(A^-1 dA) by the same probes."""
    policy, count, near = operator.engine.policy, len(operator.cells.observed), operator.near
    signs = np.random.default_rng(operator.engine.seed).integers(0, 2, (policy.probes, count)) * 2.0 - 1.0
    probes = torch.as_tensor(signs, device=operator.cells.observed.device)
    solved = operator.solve(probes).x
    if near is None:
        value = lanczos_log_determinant(operator.times, probes, policy.steps).value
        return value, slopes_between(operator, solved / policy.probes, probes)
    rest = lanczos_log_determinant(lambda v: near.half(operator.times(near.half(v))), probes, policy.near_steps).value
    slopes = slopes_between(operator, (solved - near.solve(probes)) / policy.probes, probes)
    # and the gradient of tr(P^-1 A), P held: that of tr(A) / noise less w' A w for the directions of P, weighed
    slopes = slopes.plus(slopes_of_trace(operator), 1.0 / near.noise)
    left, right = (near.basis * near.excess).mT.contiguous(), near.basis.mT.contiguous()
    step = max(1, BLOCK // operator.cells.size)
    for first in range(0, len(right), step):
        some = slice(first, first + step)
        slopes = slopes.plus(slopes_between(operator, left[some], right[some]), -1.0)
    return near.log_determinant() + rest, slopes


def slopes_of_trace(operator: SumOperator) -> GridSlopes:
    """Return the gradient of tr(A) = sum over observed cells of sum_i s_i^2 K_i1 ... K_iD + noise."""
    cells, factors, gates = operator.cells, [], []
    count = len(cells.observed)
    for piece in operator.pieces:
        gate = piece.apply_gate(torch.ones(count, dtype=torch.float64, device=cells.observed.device))
        squares = cells.spread((gate**2)[None])[0]
        diagonals = [factor.diagonal() for factor in piece.factors]
        grids = [squares * outer(diagonals, left_out=d) for d in range(len(diagonals))]
        factors.append([torch.diag(grid.movedim(d, 0).flatten(1).sum(1)) for d, grid in enumerate(grids)])
        gates.append(2.0 * gate * cells.gather(outer(diagonals)[None])[0])
    return GridSlopes(factors, gates, float(count))


@torch.enable_grad()
def by_weyl(operator: SumOperator) -> tuple[float, GridSlopes]:
    """Bound log|A_MM| from above by Weyl's inequalities; eigenvalues of the observed block as in METHODS 7."""
    count, device = len(operator.cells.observed), operator.cells.observed.device
    share = count / operator.cells.size
    parts, known = [], []
    for piece in operator.pieces:
        values = [v.clone().requires_grad_() for v in piece.basis.values]
        gate = piece.apply_gate(torch.ones(count, dtype=torch.float64, device=device)).clone().requires_grad_()
        parts.append((gate, share * outer(values).flatten().topk(count).values))
        known.append((values, gate))
    noise = torch.tensor(operator.noise, dtype=torch.float64, device=device, requires_grad=True)
    bound = weyl_log_determinant(parts, noise)
    torch.autograd.backward(bound)

    def slope(tensor: Tensor) -> Tensor:
        return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad

    factors = [
        [(q * slope(v)) @ q.mT for q, v in zip(piece.basis.vectors, values, strict=True)]
        for piece, (values, _) in zip(operator.pieces, known, strict=True)
    ]
    return float(bound.detach()), GridSlopes(factors, [slope(gate) for _, gate in known], float(slope(noise)))


@dataclass(frozen=True, eq=False)
class SumProblem(OnGrid):
    """A sum of products taken apart."""

    summands: tuple[Summand, ...]

    def operator(self, values: Array, noise: float) -> SumOperator | None:
        """Evaluate the factors and the gates; None where they are not finite."""
        pieces = []
        for summand in self.summands:
            factors = tuple(self.grams(summand.parts, values, self.lattice.axes))
            if not all(bool(torch.isfinite(factor).all()) for factor in factors):
                return None
            gate = gate_at(summand.gates, values, self.data.X)
            sent = None if gate is None else send(gate, self.device)
            pieces.append(Piece(factors, sent, noise, self.engine.policy.fft_from))
        return SumOperator(cells_of(self.lattice, self.device), tuple(pieces), noise, self.engine)

    def contract_slopes(self, values: Array, slopes: GridSlopes) -> Array:
        """Return the gradient by the values from those by the factors and the gates."""
        total = np.zeros(len(values))
        for summand, factors, by_gate in zip(self.summands, slopes.factors, slopes.gates, strict=True):
            total += self.contract(summand.parts, values, factors)
            add_gate_gradient(summand.gates, values, self.data.X, by_gate.cpu().numpy(), total)
        return total

    @torch.no_grad()
    def evidence(self, values: Array, noise: float, gradient: bool) -> GridEvidence:
        """Return the log evidence, with its gradient if asked."""
        posterior = self.posterior(values, noise)
        if posterior is None:
            return GridEvidence(-math.inf, failure=UNDEFINED)
        operator, alpha = posterior.operator, posterior.alpha[None]
        how = "weyl" if self.engine.log_determinant == "weyl" else "lanczos"
        determinant, slopes = by_weyl(operator) if how == "weyl" else by_lanczos(operator)
        # y'A^-1 y as 2 a'y - a'A a: right to second order where conjugate gradients ended early
        target = send(self.data.y, self.device) - posterior.constant.mean
        quadratic = float(2.0 * (target @ posterior.alpha) - (alpha * operator.times(alpha)).sum())
        value = -0.5 * (quadratic + determinant + self.data.count * LOG_2_PI)
        if not math.isfinite(value):
            return GridEvidence(-math.inf, failure="the evidence overflowed", residual=posterior.residual)
        by_values = by_noise = None
        if gradient:
            total = slopes_between(operator, alpha, alpha).plus(slopes, -1.0)
            by_values, by_noise = 0.5 * self.contract_slopes(values, total), 0.5 * total.noise
        return GridEvidence(value, by_values, by_noise, residual=posterior.residual, log_determinant=how)

    @torch.no_grad()
    def posterior(self, values: Array, noise: float) -> SumPosterior | None:
        """Return the posterior; None where the factors are not finite."""
        operator = self.operator(values, noise)
        if operator is None:
            return None
        found = operator.solve(send(self.data.right_sides, self.device))
        alpha, level = self.data.fit_level(found.x.cpu().numpy())
        return SumPosterior(self.data, self, operator, values, send(alpha, self.device), level, found.residual)


def gate_at(gates: Sequence[LeafNode], values: Array, X: Array) -> Array | None:
    """Return the product of some gates' s at the rows; None where there are none."""
    if not gates:
        return None
    return np.asarray(np.prod([_share(gate, values, X) for gate in gates], axis=0))


def _share(gate: LeafNode, values: Array, X: Array) -> Array:
    assert gate.surface is not None
    return np.asarray(shares(gate.surface, _surface_values(gate, values), X)[gate.regime])


def _surface_values(gate: LeafNode, values: Array) -> Array:
    pairs = zip(gate.offsets, gate.sizes, strict=True)
    return np.concatenate([values[offset : offset + size] for offset, size in pairs])


def add_gate_gradient(gates: Sequence[LeafNode], values: Array, X: Array, by_gate: Array, total: Array) -> None:
    """Add the gradient by the values of the gates' surfaces, given that by the product of their s."""
    for number, gate in enumerate(gates):
        assert gate.surface is not None
        others = gate_at([*gates[:number], *gates[number + 1 :]], values, X)
        by_shares = np.zeros((gate.surface.regimes, len(X)))
        by_shares[gate.regime] = by_gate if others is None else by_gate * others
        slope = pull_back(gate.surface, _surface_values(gate, values), X, by_shares)
        first = 0
        for offset, size in zip(gate.offsets, gate.sizes, strict=True):
            total[offset : offset + size] += slope[first : first + size]
            first += size


# ------------------------------------------------------------------------------------------------------ posterior


@dataclass(frozen=True, eq=False)
class SumPosterior(Posterior):
    """f | y for a sum of products, `alpha` being A_MM^-1 (y - c) at the rows.

    Every variance takes a solution by conjugate gradients of its own.
    """

    data: Data
    problem: SumProblem
    operator: SumOperator
    values: Array
    alpha: Tensor
    constant: Level
    residual: float

    @property
    def fitted_level(self) -> Level:
        return self.constant

    @property
    def rows_at_a_time(self) -> int:
        return max(1, BLOCK // (4 * self.operator.cells.size))

    @torch.no_grad()
    def project(self, X: Array, part: Part = None, joint: bool = False) -> Projection:
        program, values = part or (self.problem.program, self.values)
        cross = torch.as_tensor(self.problem.engine.backend.cross(program, values, X, self.data.X))
        solved = self.operator.solve(cross).x
        known = cross @ solved.mT if joint else (cross * solved).sum(1)
        prior = (fused.gram if joint else fused.diagonal)(program, values, X)
        mean, pull = (cross @ self.alpha).cpu().numpy(), cross.cpu().numpy() @ self.constant.pull
        return Projection(mean, prior - known.cpu().numpy(), pull)

    @torch.no_grad()
    def precision(self) -> tuple[Array, Array]:
        """Return both; precisions by probes where rows are many."""
        count, operator, near = self.data.count, self.operator, None
        if count <= EXACT_LEFT_OUT:
            probes = torch.eye(count, dtype=torch.float64, device=self.alpha.device)
        else:
            signs = np.random.default_rng(0).integers(0, 2, (LEFT_OUT_PROBES, count)).astype(np.float64)
            probes, near = send(2.0 * signs - 1.0, self.alpha.device), operator.near
        total = torch.zeros_like(self.alpha)
        for some in torch.split(probes, self.rows_at_a_time):
            solved = operator.solve(some).x
            if near is not None:  # the probes then only find what P misses
                solved = solved - near.solve(some)
            total += (some * solved).sum(0)
        if count > EXACT_LEFT_OUT:
            total = total / LEFT_OUT_PROBES + (0.0 if near is None else near.inverse_diagonal)
        prior = fused.diagonal(self.problem.program, self.values, self.data.X) + operator.noise
        return self.alpha.cpu().numpy(), np.clip(total.cpu().numpy(), 1.0 / prior, 1.0 / operator.noise)
