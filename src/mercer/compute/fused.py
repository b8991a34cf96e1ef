"""The CPU back end: Gram, cross-Gram, diagonal and gradient contraction, compiled once for every structure.

Measured reason for its being: elementwise work, not the Cholesky, is what a kernel evaluation costs (docs/design.md).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mercer.compute import fused_sweep as sweep
from mercer.compute import surfaces
from mercer.compute.fused_leaves import SMALL_Q
from mercer.compute.leaves import Compiled, compiled_functions
from mercer.compute.program import Program
from mercer.compute.tape import Integers, Tape, build_tape
from mercer.kernels.domains import Array
from mercer.linalg.factor import Factor
from mercer.linalg.threads import SMALL, blas_threads

# Rows are dealt out in this many parts whatever the number of threads, so that sums are added in the same order.
PARTS = 8
FEW_VALUES = 4  # a sweep for the slopes of all of them takes as long as this many products (200 to 900 rows)
EVEN = 1e-11  # of a step: by how much evenly spaced points may be off (months in decimal years are, by 5e-12)


@dataclass(frozen=True)
class Points:
    """Inputs prepared for the fused path: stored by column, with what is worth knowing about their spacing."""

    columns: Array
    even: frozenset[int]  # columns that are evenly spaced, in order

    @property
    def count(self) -> int:
        return int(self.columns.shape[1])


def points(X: Array) -> Points:
    """Prepare inputs; do it once when many kernels are evaluated on the same rows.

    A column is evenly spaced where it is x_0 + i h to rounding, so that x_i - x_j depends on i - j alone.
    """
    columns, even = as_columns(X), []
    n = columns.shape[1]
    for number, column in enumerate(columns):
        if n < 3 or column[0] == column[-1]:
            continue
        step = (column[-1] - column[0]) / (n - 1)
        if abs(column[1] - column[0] - step) > 1e-6 * abs(step):  # most columns are settled here
            continue
        if np.max(np.abs(column - np.linspace(column[0], column[-1], n))) <= EVEN * abs(step):
            even.append(number)
    return Points(columns, frozenset(even))


def as_columns(X: Array) -> Array:
    """Store points column by column, so that a block of points is contiguous in each dimension."""
    return np.ascontiguousarray(np.asarray(X, dtype=np.float64).T)


class _Sweep(NamedTuple):
    """What a sweep needs: a tape with its numbers for one vector of values, which pairs, and parts of the rows.

    sides : columns and waves of the left-hand points and of the right-hand ones. lags : tables of tabled nodes.
    """

    tape: Tape
    values: Array
    coef: Array
    arrays: tuple[Array | Integers, ...]
    shape: int
    sides: tuple[Array, Array, Array, Array]
    lags: Array
    parts: list[tuple[int, int]]


def _prepare(
    program: Program, values: Array, shape: int, left: Array, right: Array, even: frozenset[int] = frozenset()
) -> _Sweep:
    """Prepare a sweep over points stored by column; `even`: the columns that are evenly spaced, in order."""
    tape = build_tape(program, len(program.columns) == 1 and program.columns <= even)
    values = program.widen(values) if program.ties else np.ascontiguousarray(values, dtype=np.float64)
    coef, weight = np.empty(tape.n_sums), np.empty(len(tape.edge_child))
    sweep.prepare(tape.nodes, tape.pool, tape.weight_start, tape.weight_pool, tape.constant, values, coef, weight)
    for place, lengthscale in tape.centred:
        coef[place : place + 3] = centred_constants(float(values[lengthscale]))
    for each in tape.external:
        coef[each.place] = each.functions.coefficients(*(values[where] for where in each.parameters))
    arrays = (tape.nodes, tape.pool, tape.edge_child, weight, coef, tape.slot)
    origin = right[:, 0].copy() if right.shape[1] else np.zeros(len(right))  # from which phases are measured
    tables: list[Array] = []
    for columns in (right,) if left is right else (right, left):
        table = np.empty((tape.n_waves, columns.shape[1]))
        if len(table):
            sweep.fill_waves(tape.nodes, tape.pool, values, columns, origin, table)
        for gates in tape.gates:
            held = surfaces.shares(gates.surface, values[gates.place], columns.T)
            table[list(gates.rows)] = held[list(gates.regimes)]
        tables.append(table)
    sides = (left, tables[-1], right, tables[0])
    lags, count = np.empty((tape.n_slots, right.shape[1])), left.shape[1]
    if len(lags):
        sweep.lag_tables(tape.lagged, *arrays, right, tables[0], lags)
    parts = [(0, count)]
    if count >= SMALL:  # parts of equal area
        shares = np.linspace(0, 1, PARTS + 1)
        edges = np.round(count * (np.sqrt(shares) if shape == sweep.TRIANGLE else shares)).astype(int)
        parts = list(pairwise(edges.tolist()))
    return _Sweep(tape, values, coef, arrays, shape, sides, lags, parts)


def centred_constants(lengthscale: float) -> tuple[float, float, float]:
    """Return q = 1/l^2, 1 - I0e(q) and d I0e / dq = I1e(q) - I0e(q) for CPER, without cancellation for small q."""
    from scipy.special import i0e, i1e

    q = lengthscale**-2
    # log I0(q) = q^2/4 - q^4/64 + q^6/576 - ...
    room = -math.expm1(-q + q * q / 4 - q**4 / 64 + q**6 / 576) if q < SMALL_Q else 1.0 - float(i0e(q))
    return q, room, float(i1e(q) - i0e(q))


_POOLS: dict[int, ThreadPoolExecutor] = {}
os.register_at_fork(after_in_child=_POOLS.clear)  # a forked process has none of its parent's threads


def _run(task: Callable[[int], None], parts: int) -> None:
    """Run the parts, on threads where there are several parts and several threads allowed.

    A thread that is free takes the next part, the calling one too: a helper that has to wait for a core (OpenBLAS
    leaves its own threads spinning for a while) holds up one part only.
    """
    helpers = min(blas_threads(), parts) - 1
    left = iter(range(parts))

    def take() -> None:
        for part in left:
            task(part)

    if helpers > 0 and helpers not in _POOLS:
        _POOLS[helpers] = ThreadPoolExecutor(helpers, thread_name_prefix="mercer")
    waiting = [_POOLS[helpers].submit(take) for _ in range(helpers)]
    take()
    for helper in waiting:
        helper.result()


def _fill(this: _Sweep, out: Array) -> Array:
    """Fill the matrix of the kernel at the pairs of a sweep."""
    arguments = (this.shape, this.tape.main, *this.arrays, this.lags, *this.sides, out)
    if len(this.parts) == 1:
        sweep.fill_rows(*this.parts[0], *arguments)
    else:
        _run(lambda part: sweep.fill_rows(*this.parts[part], *arguments), len(this.parts))
    return out


def _contract(
    program: Program, this: _Sweep, matrix: Array, left: Array, right: Array, moving: bool = False
) -> tuple[Array, Array]:
    """Return sum_ij (matrix + left right')_ij dK_ij / dvalues, and by the right-hand points if they are `moving`."""
    tape, parts, sides = this.tape, len(this.parts), this.sides
    sums = np.zeros((parts, tape.n_sums))
    lag_bar = np.zeros((parts, *this.lags.shape))
    by_left = np.zeros((parts, tape.n_gates, sides[0].shape[1]))
    by_right = by_left if sides[0] is sides[2] else np.zeros((parts, tape.n_gates, sides[2].shape[1]))
    moved = np.zeros((parts, *(sides[2].shape if moving else (0, 0))))

    def task(part: int) -> None:
        sweep.contract_rows(
            *this.parts[part], this.shape, tape.main, *this.arrays, this.lags, *sides, matrix, left, right, tape.shared,
            sums[part], tape.edge_place, lag_bar[part], by_left[part], by_right[part], moved[part],
        )  # fmt: skip

    if parts == 1:
        task(0)
    else:
        _run(task, parts)
    total = sums.sum(axis=0)
    if tape.n_slots:
        by_lag = lag_bar.sum(axis=0)
        sweep.contract_lags(tape.lagged, *this.arrays, *sides[2:], tape.shared, total, tape.edge_place, by_lag)
    gradient = np.zeros(len(this.values))
    sweep.gradient_of_sums(
        tape.nodes, tape.weight_start, tape.weight_pool, tape.constant, this.values, this.coef, total, tape.edge_place,
        gradient,
    )  # fmt: skip
    for each in tape.external:
        found = each.functions.finish(total[each.place], *(this.values[where] for where in each.parameters))
        for where, part in zip(each.parameters, found, strict=True):
            gradient[where] += part
    by_points = [(sides[0], by_left)] if by_left is by_right else [(sides[0], by_left), (sides[2], by_right)]
    for gates in tape.gates:
        for columns, by_point in by_points:
            by_shares = np.zeros((gates.surface.regimes, columns.shape[1]))
            by_shares[list(gates.regimes)] = by_point.sum(axis=0)[gates.first : gates.first + len(gates.rows)]
            by_surface = surfaces.pull_back(gates.surface, this.values[gates.place], columns.T, by_shares)
            gradient[gates.place] += by_surface
    return program.narrow(gradient), np.ascontiguousarray(moved.sum(axis=0).T)


# --------------------------------------------------------------------------------------------- all pairs of some points


def gram_lower(program: Program, values: Array, at: Points, out: Array | None = None) -> Array:
    """Return K with only its lower triangle (j <= i) filled, into `out` if given: what a factorisation reads."""
    matrix = np.empty((at.count, at.count)) if out is None else out
    return _fill(_prepare(program, values, sweep.TRIANGLE, at.columns, at.columns, at.even), matrix)


def gram(program: Program, values: Array, X: Array) -> Array:
    """Return the full symmetric Gram matrix."""
    lower = np.tril(gram_lower(program, values, points(X)))
    return lower + np.tril(lower, -1).T


def contract(program: Program, values: Array, at: Points, matrix: Array, vector: Array) -> Array:
    """Return sum_ij (matrix - vector vector')_ij dK_ij / dvalues for a symmetric matrix, of which j <= i is read."""
    this = _prepare(program, values, sweep.TRIANGLE, at.columns, at.columns, at.even)
    return _contract(program, this, matrix, -vector, vector)[0]


def contract_inverse(program: Program, values: Array, at: Points, factor: Factor, alpha: Array) -> tuple[Array, Array]:
    """Return sum_ij (a a' - A^-1)_ij / 2 dK_ij / dvalues and the diagonal of A^-1; the factor of A is lost."""
    this = _prepare(program, values, sweep.TRIANGLE, at.columns, at.columns, at.even)
    inverse = factor.into_inverse()
    return -0.5 * _contract(program, this, inverse, -alpha, alpha)[0], np.diagonal(inverse)


def slopes(program: Program, values: Array, at: Points, vector: Array) -> Array | None:
    """Return the derivatives of K v, a row for each point and a column for each value.

    None where products with K moved a little along each value are no slower: few values, tables of lags, which make
    them nearly free, and leaves whose sums are finished elsewhere.
    """
    tabled = len(program.columns) == 1 and program.columns <= at.even
    if tabled or len(values) < FEW_VALUES:
        return None
    this = _prepare(program, values, sweep.RECTANGLE, at.columns, at.columns)
    tape = this.tape
    if tape.n_gates or tape.external:
        return None
    found = np.zeros((at.count, len(this.values)))
    numbers = (tape.weight_start, tape.weight_pool, tape.constant, this.values)
    further = (vector, tape.shared, tape.n_sums, tape.edge_place, *numbers, found)

    def task(part: int) -> None:
        sweep.slope_rows(*this.parts[part], tape.main, *this.arrays, this.lags, *this.sides, *further)

    _run(task, len(this.parts))
    return program.narrow(found.T).T


# -------------------------------------------------------------------------------------------- rectangles and diagonals


def cross(program: Program, values: Array, X: Array, Z: Array, out: Array | None = None) -> Array:
    """Return k(X, Z), in `out` if given."""
    result = np.empty((len(X), len(Z))) if out is None else out
    return _fill(_prepare(program, values, sweep.RECTANGLE, as_columns(X), as_columns(Z)), result)


def contract_cross(
    program: Program, values: Array, X: Array, Z: Array, weights: Array, outer: tuple[Array, Array] | None = None,
    moving: bool = False,
) -> tuple[Array, Array]:  # fmt: skip
    """Return sum_ij (weights + u v')_ij d k(x_i, z_j) / d values, outer = (u, v), and by every z_j if `moving`."""
    vectors = (np.zeros(len(X)), np.zeros(len(Z))) if outer is None else outer
    matrix, left, right = (np.ascontiguousarray(each, dtype=np.float64) for each in (weights, *vectors))
    this = _prepare(program, values, sweep.RECTANGLE, as_columns(X), as_columns(Z))
    return _contract(program, this, matrix, left, right, moving)


def can_move(program: Program) -> bool:
    """Tell whether the gradient by points is known: that of a change surface is not."""
    functions = [compiled_functions(leaf.kind) for leaf in program.leaves]
    known = all(each.points is not None for each in functions if isinstance(each, Compiled))
    return known and all(leaf.surface is None for leaf in program.leaves)


def diagonal(program: Program, values: Array, X: Array) -> Array:
    """Return k(x, x) for every row."""
    columns = as_columns(X[:1] if program.stationary else X)  # one row stands for all
    found = _fill(_prepare(program, values, sweep.DIAGONAL, columns, columns), np.empty((columns.shape[1], 1)))[:, 0]
    return np.full(len(X), found[0]) if len(found) < len(X) else found


def contract_diagonal(program: Program, values: Array, X: Array, vector: Array) -> Array:
    """Return sum_i vector_i d k(x_i, x_i) / d values."""
    one = program.stationary and len(X) > 1  # one row stands for all
    columns, weights = as_columns(X[:1] if one else X), np.array([np.sum(vector)] if one else vector, dtype=np.float64)
    this, none = _prepare(program, values, sweep.DIAGONAL, columns, columns), np.zeros(len(weights))
    return _contract(program, this, weights[:, None], none, none)[0]
