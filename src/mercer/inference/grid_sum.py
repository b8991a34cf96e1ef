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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from mercer.compute import fused
from mercer.compute.program import LeafNode, Program
from mercer.compute.separate import Summand, summands
from mercer.compute.surfaces import pull_back, shares
from mercer.errors import KernelError
from mercer.inference.contract import Data, Level, Posterior, Project, Projection
from mercer.inference.grid_product import BLOCK, DEFAULT, Cells, GridPolicy, GridProblem, cells_of, is_toeplitz, sent
from mercer.kernels.domains import Array
from mercer.linalg.iterative import Solution, conjugate_gradients, lanczos_log_determinant
from mercer.linalg.operators import Kronecker, LowRank, Toeplitz, outer, spectrum, weyl_log_determinant

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
    policy: GridPolicy

    def times(self, vectors: Tensor) -> Tensor:
        """Return A_MM v for vectors (b, M)."""
        total = self.noise * vectors
        for piece in self.pieces:
            total += piece.apply_gate(self.image(piece, piece.apply_gate(vectors)))
        return total

    def image(self, piece: Piece, vectors: Tensor) -> Tensor:
        grids = piece.times(self.cells.spread(vectors, self.cells.observed))
        return self.cells.gather(grids, self.cells.observed)

    @cached_property
    def near(self) -> LowRank | None:
        """The matrix P of all eigenvalues that are worth it; None where they are too many."""
        spectra = [piece.basis.grid.flatten() for piece in self.pieces]
        every, count = torch.cat(spectra), len(self.cells.observed)
        most = min(self.policy.most_rank, count, MOST_NUMBERS // count)
        if int((every > MISSED * self.noise).sum()) > most:
            return None
        rank = min(most, int((every > WORTH * self.noise).sum()))
        if rank == 0:
            return None
        chosen = every.topk(rank).indices
        columns, first = [], 0
        for piece, values in zip(self.pieces, spectra, strict=True):
            own = chosen[(chosen >= first) & (chosen < first + len(values))] - first
            columns.append(self._eigenvectors(piece, own) * values[own].sqrt())
            first += len(values)
        return LowRank.of(torch.cat(columns, 1), self.noise)

    def _eigenvectors(self, piece: Piece, chosen: Tensor) -> Tensor:
        """Some eigenvectors of K_i, by their number on the grid, times s, at the observed cells; (M, len(chosen))."""
        places = torch.unravel_index(self.cells.observed, self.cells.shape)
        numbers = torch.unravel_index(chosen, self.cells.shape)
        found = torch.ones(len(places[0]), len(chosen), dtype=torch.float64, device=chosen.device)
        for vectors, place, number in zip(piece.basis.vectors, places, numbers, strict=True):
            found *= vectors[:, number][place]
        return found if piece.gate is None else found * piece.gate[:, None]

    def precondition(self, vectors: Tensor) -> Tensor:
        """Return P^-1 v, or sum_i S_i (K_i + noise)^-1 S_i v where there is no P."""
        if self.near is not None:
            return self.near.solve(vectors)
        total = torch.zeros_like(vectors)
        for piece in self.pieces:
            grids = piece.basis.solve(self.cells.spread(piece.apply_gate(vectors), self.cells.observed))
            total += piece.apply_gate(self.cells.gather(grids, self.cells.observed))
        return total

    def solve(self, right: Tensor, tolerance: float, most: int) -> Solution:
        return conjugate_gradients(self.times, right, precondition=self.precondition, tolerance=tolerance, most=most)


@dataclass(frozen=True, eq=False)
class GridSlopes:
    """A gradient by the factors of each piece (n_d x n_d, symmetric), by s at the observed cells, and by the noise."""

    factors: list[list[Tensor]]
    gates: list[Tensor]
    noise: float

    def times(self, number: float) -> GridSlopes:
        """Return a multiple of this gradient."""
        factors = [[number * a for a in mine] for mine in self.factors]
        return GridSlopes(factors, [number * a for a in self.gates], number * self.noise)

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
    factors, gates = [], []
    for piece in operator.pieces:
        u, v = (operator.cells.spread(piece.apply_gate(w), operator.cells.observed) for w in (left, right))
        own = []
        for d in range(len(piece.factors)):
            product = u.movedim(d + 1, 0).flatten(1) @ piece.times(v, left_out=d).movedim(d + 1, 0).flatten(1).mT
            own.append(0.5 * (product + product.mT))
        factors.append(own)
        seen = operator.cells.observed
        by_gate = left * operator.cells.gather(piece.times(v), seen)
        by_gate += right * operator.cells.gather(piece.times(u), seen)
        gates.append(by_gate.sum(0))
    return GridSlopes(factors, gates, float((left * right).sum()))


def by_lanczos(operator: SumOperator, tolerance: float, most: int, seed: int) -> tuple[float, GridSlopes]:
    """Estimate log|A_MM| by Lanczos quadrature, and tr(A^-1 dA) by the same probes."""
    policy, count = operator.policy, len(operator.cells.observed)
    signs = np.random.default_rng(seed).integers(0, 2, (policy.probes, count)) * 2.0 - 1.0
    probes = torch.as_tensor(signs, device=operator.cells.observed.device)
    solved, near = operator.solve(probes, tolerance, most).x, operator.near
    if near is None:
        value = lanczos_log_determinant(operator.times, probes, policy.steps).value
        return value, slopes_between(operator, solved / policy.probes, probes)
    rest = lanczos_log_determinant(lambda v: near.half(operator.times(near.half(v))), probes, policy.near_steps).value
    slopes = slopes_between(operator, (solved - near.solve(probes)) / policy.probes, probes)
    return near.log_determinant() + rest, slopes.plus(slopes_near(operator, near), 1.0)


def slopes_near(operator: SumOperator, near: LowRank) -> GridSlopes:
    """Return the gradient of tr(P^-1 A), P held: that of tr(A) / noise less w' A w for the directions of P, weighed."""
    total = slopes_of_trace(operator).times(1.0 / near.noise)
    left, right = (near.basis * near.excess).mT.contiguous(), near.basis.mT.contiguous()
    step = max(1, BLOCK // operator.cells.size)
    for first in range(0, len(right), step):
        some = slice(first, first + step)
        total = total.plus(slopes_between(operator, left[some], right[some]), -1.0)
    return total


def slopes_of_trace(operator: SumOperator) -> GridSlopes:
    """Return the gradient of tr(A) = sum over observed cells of sum_i s_i^2 K_i1 ... K_iD + noise."""
    cells, factors, gates = operator.cells, [], []
    count = len(cells.observed)
    for piece in operator.pieces:
        ones = torch.ones(count, dtype=torch.float64, device=cells.observed.device)
        gate = ones if piece.gate is None else piece.gate
        squares = cells.spread((gate**2)[None], cells.observed)[0]
        diagonals = [factor.diagonal() for factor in piece.factors]
        own = []
        for d in range(len(diagonals)):
            others = outer([torch.ones_like(v) if k == d else v for k, v in enumerate(diagonals)])
            own.append(torch.diag((squares * others).movedim(d, 0).flatten(1).sum(1)))
        factors.append(own)
        gates.append(2.0 * gate * cells.gather(outer(diagonals)[None], cells.observed)[0])
    return GridSlopes(factors, gates, float(count))


@torch.enable_grad()
def by_weyl(operator: SumOperator) -> tuple[float, GridSlopes]:
    """Bound log|A_MM| from above by Weyl's inequalities; eigenvalues of the observed block as in METHODS 7."""
    count = len(operator.cells.observed)
    share = count / operator.cells.size
    parts, known = [], []
    for piece in operator.pieces:
        values = [v.clone().requires_grad_() for v in piece.basis.values]
        gate = torch.ones(count, dtype=values[0].dtype, device=values[0].device) if piece.gate is None else piece.gate
        gate = gate.clone().requires_grad_()
        parts.append((gate, share * outer(values).flatten().topk(count).values))
        known.append((values, gate))
    noise = torch.tensor(operator.noise, dtype=torch.float64, device=parts[0][0].device, requires_grad=True)
    bound = weyl_log_determinant(parts, noise)
    torch.autograd.backward(bound)
    factors = [
        [(q * _slope(v)) @ q.mT for q, v in zip(piece.basis.vectors, values, strict=True)]
        for piece, (values, _) in zip(operator.pieces, known, strict=True)
    ]
    return float(bound.detach()), GridSlopes(factors, [_slope(gate) for _, gate in known], float(_slope(noise)))


def _slope(tensor: Tensor) -> Tensor:
    return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad


@dataclass(frozen=True, eq=False)
class SumProblem:
    """A sum of products taken apart, on data that form a grid."""

    summands: tuple[Summand, ...]
    plain: GridProblem  # for the factors: its own parts are those of the first summand
    data: Data
    policy: GridPolicy = DEFAULT

    def operator(self, values: Array, noise: float) -> SumOperator | None:
        """Evaluate the factors and the gates; None where they are not finite."""
        pieces = tuple(self.piece(summand, values, noise) for summand in self.summands)
        finite = all(bool(torch.isfinite(f).all()) for piece in pieces for f in piece.factors)
        return (
            SumOperator(cells_of(self.plain.lattice, self.plain.device), pieces, noise, self.policy) if finite else None
        )

    def piece(self, summand: Summand, values: Array, noise: float) -> Piece:
        pairs = zip(summand.parts, self.plain.lattice.axes, strict=True)
        grams = [self.plain.gram(part, values, axis) for part, axis in pairs]
        gate = gate_at(summand.gates, values, self.data.X)
        return Piece(tuple(grams), None if gate is None else sent(gate, self.plain.device), noise, self.policy.fft_from)

    def contract(self, values: Array, slopes: GridSlopes) -> Array:
        total = np.zeros(len(values))
        for summand, factors, by_gate in zip(self.summands, slopes.factors, slopes.gates, strict=True):
            total += self.plain.contract_parts(summand.parts, values, factors)
            add_gate_gradient(summand.gates, values, self.data.X, by_gate.cpu().numpy(), total)
        return total


def gate_at(gates: Sequence[LeafNode], values: Array, X: Array) -> Array | None:
    """Return the product of some gates' s at the rows; None where there are none."""
    if not gates:
        return None
    return np.asarray(np.prod([_share(gate, values, X) for gate in gates], axis=0))


def _share(gate: LeafNode, values: Array, X: Array) -> Array:
    assert gate.surface is not None
    return np.asarray(shares(gate.surface, _surface_values(gate, values), X)[gate.regime])


def _surface_values(gate: LeafNode, values: Array) -> Array:
    assert gate.surface is not None
    pairs = zip(gate.offsets, gate.sizes, strict=True)
    return np.concatenate([values[offset : offset + size] for offset, size in pairs])


def add_gate_gradient(gates: Sequence[LeafNode], values: Array, X: Array, by_gate: Array, total: Array) -> None:
    """Add the gradient by the values of the gates' surfaces, given that by the product of their s."""
    for number, gate in enumerate(gates):
        assert gate.surface is not None
        others = [_share(other, values, X) for k, other in enumerate(gates) if k != number]
        by_shares = np.zeros((gate.surface.regimes, len(X)))
        by_shares[gate.regime] = by_gate * np.prod(others, axis=0) if others else by_gate
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
    tolerance: float
    most: int

    @property
    def fitted_level(self) -> Level:
        return self.constant

    @property
    def rows_at_a_time(self) -> int:
        return max(1, BLOCK // (4 * self.operator.cells.size))

    def projector(self, program: Program | None, values: Array, columns: int) -> Project:
        if program is None:
            return partial(self._project, self.problem.summands, self.values)
        parts = summands(program, columns)
        if parts is None:
            raise KernelError("a summand of a kernel on a grid must be a product of one kernel for each column")
        return partial(self._project, parts, values)

    @torch.no_grad()
    def _project(self, parts: Sequence[Summand], values: Array, X: Array) -> Projection:
        cross = self._cross(parts, values, X)
        solved = self.operator.solve(cross, self.tolerance, self.most).x
        variance = _diagonal(parts, values, X) - (cross * solved).sum(1).cpu().numpy()
        return Projection((cross @ self.alpha).cpu().numpy(), variance, cross.cpu().numpy() @ self.constant.pull)

    @torch.no_grad()
    def project_joint(self, X: Array) -> Projection:
        cross = self._cross(self.problem.summands, self.values, X)
        solved = self.operator.solve(cross, self.tolerance, self.most).x
        covariance = _gram(self.problem.summands, self.values, X) - (cross @ solved.mT).cpu().numpy()
        return Projection((cross @ self.alpha).cpu().numpy(), covariance, cross.cpu().numpy() @ self.constant.pull)

    @torch.no_grad()
    def precision(self) -> tuple[Array, Array]:
        """Return both; precisions by probes where rows are many."""
        count, device = self.data.count, self.alpha.device
        if count <= EXACT_LEFT_OUT:
            probes = torch.eye(count, dtype=torch.float64, device=device)
        else:
            signs = np.random.default_rng(0).integers(0, 2, (LEFT_OUT_PROBES, count)).astype(np.float64)
            probes = sent(2.0 * signs - 1.0, device)
        total, step = torch.zeros(count, dtype=torch.float64, device=device), self.rows_at_a_time
        for first in range(0, len(probes), step):
            some = probes[first : first + step]
            solved, near = self.operator.solve(some, self.tolerance, self.most).x, self.operator.near
            if near is not None and count > EXACT_LEFT_OUT:  # the probes then only find what P misses
                solved = solved - near.solve(some)
            total += (some * solved).sum(0)
        if count > EXACT_LEFT_OUT:
            known = 0.0 if self.operator.near is None else self.operator.near.inverse_diagonal
            total = known + total / LEFT_OUT_PROBES
        prior = _diagonal(self.problem.summands, self.values, self.data.X) + self.operator.noise
        return self.alpha.cpu().numpy(), np.clip(total.cpu().numpy(), 1.0 / prior, 1.0 / self.operator.noise)

    def _cross(self, parts: Sequence[Summand], values: Array, X: Array) -> Tensor:
        """k(X, rows), (len(X), M)."""
        plain = self.problem.plain
        places = np.unravel_index(plain.lattice.cells, plain.lattice.shape)
        total = torch.zeros(len(X), len(self.alpha), dtype=torch.float64, device=plain.device)
        for summand in parts:
            product: Tensor | None = None
            for d, part in enumerate(summand.parts):
                lines = plain.cross(part, values, X[:, d], plain.lattice.axes[d])
                columns = lines[:, torch.as_tensor(places[d], device=plain.device)]
                product = columns if product is None else product.mul_(columns)
            assert product is not None
            here, there = (gate_at(summand.gates, values, rows) for rows in (X, self.data.X))
            if here is not None and there is not None:
                product = product * sent(here, plain.device)[:, None] * sent(there, plain.device)
            total += product
        return total


def _diagonal(parts: Sequence[Summand], values: Array, X: Array) -> Array:
    total = np.zeros(len(X))
    for summand in parts:
        product = np.prod([fused.diagonal(p, values, X[:, d : d + 1]) for d, p in enumerate(summand.parts)], axis=0)
        gate = gate_at(summand.gates, values, X)
        total += product if gate is None else gate**2 * product
    return total


def _gram(parts: Sequence[Summand], values: Array, X: Array) -> Array:
    total = np.zeros((len(X), len(X)))
    for summand in parts:
        product = np.prod([fused.gram(p, values, X[:, d : d + 1]) for d, p in enumerate(summand.parts)], axis=0)
        gate = gate_at(summand.gates, values, X)
        total += product if gate is None else gate[:, None] * product * gate
    return total
