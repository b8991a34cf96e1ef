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
from operator import attrgetter

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
NONE = np.empty((0, 0))  # in place of tables by lag
EVEN = 1e-11  # of a step: by how much evenly spaced points may be off (months in decimal years are, by 5e-12)


@dataclass(frozen=True)
class Points:
    """Inputs prepared for the fused path: stored by column, with what is worth knowing about their spacing."""

    columns: Array
    even: frozenset[int]  # columns that are evenly spaced, in order

    @property
    def count(self) -> int:
        """Number of rows."""
        return int(self.columns.shape[1])

    @property
    def origin(self) -> Array:
        """The first point, from which phases are measured."""
        return self.columns[:, 0].copy()


def points(X: Array) -> Points:
    """Prepare inputs; do it once when many kernels are evaluated on the same rows."""
    columns, even = as_columns(X), []
    for number, column in enumerate(columns):
        if _evenly_spaced(column):
            even.append(number)
    return Points(columns, frozenset(even))


def as_columns(X: Array) -> Array:
    """Store points column by column, so that a block of points is contiguous in each dimension."""
    return np.ascontiguousarray(np.asarray(X, dtype=np.float64).T)


def _evenly_spaced(column: Array) -> bool:
    """Tell whether a column is x_0 + i h to rounding, so that x_i - x_j depends on i - j alone."""
    n = len(column)
    if n < 3 or column[0] == column[-1]:
        return False
    step = (column[-1] - column[0]) / (n - 1)
    if abs(column[1] - column[0] - step) > 1e-6 * abs(step):  # most columns are settled here
        return False
    ideal = np.linspace(column[0], column[-1], n)
    return bool(np.max(np.abs(column - ideal)) <= EVEN * abs(step))


@dataclass(frozen=True)
class _Ready:
    """A tape with its numbers for one vector of values."""

    tape: Tape
    values: Array
    coef: Array
    weight: Array

    @property
    def arrays(self) -> tuple[Array | Integers, ...]:
        tape = self.tape
        return (tape.nodes, tape.pool, tape.edge_child, self.weight, self.coef, tape.slot)


def _ready(program: Program, values: Array, even: bool) -> _Ready:
    tape = build_tape(program, even)
    values = np.ascontiguousarray(values, dtype=np.float64)
    if program.ties:
        values = program.widen(values)
    coef, weight = np.empty(tape.n_sums), np.empty(len(tape.edge_child))
    sweep.prepare(tape.nodes, tape.pool, tape.weight_start, tape.weight_pool, tape.constant, values, coef, weight)
    for place, lengthscale in tape.centred:
        coef[place : place + 3] = centred_constants(float(values[lengthscale]))
    for each in tape.external:
        coef[each.place] = each.functions.coefficients(*(values[where] for where in each.parameters))
    return _Ready(tape, values, coef, weight)


def centred_constants(lengthscale: float) -> tuple[float, float, float]:
    """Return q = 1/l^2, 1 - I0e(q) and d I0e / dq = I1e(q) - I0e(q) for CPER, without cancellation for small q."""
    from scipy.special import i0e, i1e

    q = lengthscale**-2
    # log I0(q) = q^2/4 - q^4/64 + q^6/576 - ...
    room = -math.expm1(-q + q * q / 4 - q**4 / 64 + q**6 / 576) if q < SMALL_Q else 1.0 - float(i0e(q))
    return q, room, float(i1e(q) - i0e(q))


def _waves(ready: _Ready, columns: Array, origin: Array) -> Array:
    table = np.empty((ready.tape.n_waves, columns.shape[1]))
    if len(table):
        sweep.fill_waves(ready.tape.nodes, ready.tape.pool, ready.values, columns, origin, table)
    for gates in ready.tape.gates:
        own = ready.values[gates.offset : gates.offset + sum(gates.surface.sizes)]
        table[list(gates.rows)] = surfaces.shares(gates.surface, own, columns.T)[list(gates.regimes)]
    return table


def add_gates(ready: _Ready, columns: Array, by_point: Array, gradient: Array) -> None:
    """Add to a gradient by values what follows from that by the gates at the points, (gates, points)."""
    for gates in ready.tape.gates:
        place = slice(gates.offset, gates.offset + sum(gates.surface.sizes))
        by_shares = np.zeros((gates.surface.regimes, columns.shape[1]))
        by_shares[list(gates.regimes)] = by_point[gates.first : gates.first + len(gates.rows)]
        gradient[place] += surfaces.pull_back(gates.surface, ready.values[place], columns.T, by_shares)


def _is_even(program: Program, at: Points) -> bool:
    used = set[int]().union(*map(attrgetter("dims"), program.leaves))
    return len(used) == 1 and used <= at.even


def _lags(tape: Tape, arrays: tuple[Array | Integers, ...], columns: Array, table: Array) -> Array:
    lags = np.empty((tape.n_slots, columns.shape[1]))
    if len(lags):
        sweep.lag_tables(tape.lagged, *arrays, columns, table, lags)
    return lags


def _triangle_parts(count: int) -> list[tuple[int, int]]:
    """Split the rows of a triangle into parts of equal area."""
    if count < SMALL:
        return [(0, count)]
    edges = np.round(count * np.sqrt(np.linspace(0, 1, PARTS + 1))).astype(int)
    return [(int(a), int(b)) for a, b in pairwise(edges)]


_POOLS: dict[int, ThreadPoolExecutor] = {}
os.register_at_fork(after_in_child=_POOLS.clear)  # a forked process has none of its parent's threads


def _run(task: Callable[[int], None], parts: int) -> None:
    """Run the parts, on threads where there are several parts and several threads allowed.

    Whoever is free takes the next part, the calling thread too: a helper that has to wait for a core (OpenBLAS leaves
    its own threads spinning for a while) holds up one part only.
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


def gram_lower(program: Program, values: Array, at: Points, out: Array | None = None) -> Array:
    """Return K with only its lower triangle (j <= i) filled, into `out` if given: what a factorisation reads."""
    ready = _ready(program, values, _is_even(program, at))
    table = _waves(ready, at.columns, at.origin)
    parts, arrays = _triangle_parts(at.count), ready.arrays
    lags = _lags(ready.tape, arrays, at.columns, table)
    matrix = np.empty((at.count, at.count)) if out is None else out

    def task(part: int) -> None:
        sweep.gram_rows(*parts[part], ready.tape.main, *arrays, lags, at.columns, table, matrix)

    if len(parts) == 1:
        task(0)
    else:
        _run(task, len(parts))
    return matrix


def gram(program: Program, values: Array, X: Array) -> Array:
    """Return the full symmetric Gram matrix."""
    lower = np.tril(gram_lower(program, values, points(X)))
    return lower + np.tril(lower, -1).T


def cross(program: Program, values: Array, X: Array, Z: Array, out: Array | None = None) -> Array:
    """Return k(X, Z), in `out` if given."""
    ready, sides = _rectangle(program, values, X, Z)
    result = np.empty((len(X), len(Z))) if out is None else out
    parts, arrays = _row_parts(len(X)), ready.arrays

    def task(part: int) -> None:
        sweep.cross_rows(*parts[part], ready.tape.main, *arrays, NONE, *sides, result)

    if len(parts) == 1:
        task(0)
    else:
        _run(task, len(parts))
    return result


def _rectangle(program: Program, values: Array, X: Array, Z: Array) -> tuple[_Ready, tuple[Array, Array, Array, Array]]:
    """Return a tape with its numbers, and the columns and waves of both sides."""
    ready = _ready(program, values, even=False)
    left, right = as_columns(X), as_columns(Z)
    origin = right[:, 0].copy() if right.shape[1] else np.zeros(len(right))
    return ready, (left, _waves(ready, left, origin), right, _waves(ready, right, origin))


def _row_parts(rows: int) -> list[tuple[int, int]]:
    """Split rows into parts; how many depends on nothing but the number of rows."""
    edges = [int(edge) for edge in np.linspace(0, rows, PARTS + 1 if rows >= SMALL else 2)]
    return list(pairwise(edges))


def diagonal(program: Program, values: Array, X: Array) -> Array:
    """Return k(x, x) for every row."""
    if program.stationary and len(X) > 1:
        return np.full(len(X), diagonal(program, values, X[:1])[0])
    ready = _ready(program, values, even=False)
    columns = as_columns(X)
    out = np.empty(columns.shape[1])
    if len(out):
        table = _waves(ready, columns, columns[:, 0].copy())
        sweep.diagonal_entries(ready.tape.main, *ready.arrays, NONE, columns, table, out)
    return out


def contract(program: Program, values: Array, at: Points, matrix: Array, vector: Array) -> Array:
    """Return sum_ij (matrix - vector vector')_ij dK_ij / dvalues for a symmetric matrix, of which j <= i is read."""
    ready = _ready(program, values, _is_even(program, at))
    tape = ready.tape
    table = _waves(ready, at.columns, at.origin)
    parts, arrays = _triangle_parts(at.count), ready.arrays
    lags = _lags(tape, arrays, at.columns, table)
    sums = np.zeros((len(parts), tape.n_sums))
    lag_bar = np.zeros((len(parts), tape.n_slots, at.count))
    by_point = np.zeros((len(parts), tape.n_gates, at.count))

    def task(part: int) -> None:
        sweep.contract_rows(
            *parts[part], tape.main, *arrays, lags, at.columns, table,
            matrix, vector, tape.shared, sums[part], tape.edge_place, lag_bar[part], by_point[part],
        )  # fmt: skip

    if len(parts) == 1:
        task(0)
    else:
        _run(task, len(parts))
    total = sums.sum(axis=0)
    if tape.n_slots:
        sweep.contract_lags(
            tape.lagged, *ready.arrays, at.columns, table, tape.shared, total, tape.edge_place, lag_bar.sum(axis=0)
        )
    gradient = by_values(ready, total)
    add_gates(ready, at.columns, by_point.sum(axis=0), gradient)
    return program.narrow(gradient)


def by_values(ready: _Ready, sums: Array) -> Array:
    """Turn sums over all pairs into a gradient by values."""
    tape, gradient = ready.tape, np.zeros(len(ready.values))
    sweep.gradient_of_sums(
        tape.nodes, tape.weight_start, tape.weight_pool, tape.constant, ready.values, ready.coef, sums,
        tape.edge_place, gradient,
    )  # fmt: skip
    for each in tape.external:
        parts = each.functions.finish(sums[each.place], *(ready.values[where] for where in each.parameters))
        for where, part in zip(each.parameters, parts, strict=True):
            gradient[where] += part
    return gradient


# ---------------------------------------------------------------- rectangles and diagonals, for sparse inference


def contract_cross(
    program: Program,
    values: Array,
    X: Array,
    Z: Array,
    matrix: Array,
    left: Array | None = None,
    right: Array | None = None,
) -> Array:
    """Return sum_ij (matrix + left right')_ij d k(x_i, z_j) / d values; without the vectors the matrix stands alone."""
    ready, sides = _rectangle(program, values, X, Z)
    tape, parts, weights = ready.tape, _row_parts(len(X)), _weights(matrix, left, right)
    sums = np.zeros((len(parts), tape.n_sums))
    by_left, by_right = (np.zeros((len(parts), tape.n_gates, len(side))) for side in (X, Z))

    def task(part: int) -> None:
        sweep.cross_contract_rows(
            *parts[part], tape.main, *ready.arrays, NONE, *sides, *weights,
            tape.shared, sums[part], tape.edge_place, by_left[part], by_right[part],
        )  # fmt: skip

    _run(task, len(parts))
    gradient = by_values(ready, sums.sum(axis=0))
    add_gates(ready, sides[0], by_left.sum(axis=0), gradient)
    add_gates(ready, sides[2], by_right.sum(axis=0), gradient)
    return program.narrow(gradient)


def contract_diagonal(program: Program, values: Array, X: Array, vector: Array) -> Array:
    """Return sum_i vector_i d k(x_i, x_i) / d values."""
    if program.stationary and len(X) > 1:
        return contract_diagonal(program, values, X[:1], np.array([np.sum(vector)]))
    ready, (columns, table, _, _) = _rectangle(program, values, X, X)
    tape, parts = ready.tape, _row_parts(len(X))
    vector = np.ascontiguousarray(vector, dtype=np.float64)
    sums, by_point = np.zeros((len(parts), tape.n_sums)), np.zeros((len(parts), tape.n_gates, len(X)))

    def task(part: int) -> None:
        sweep.diagonal_contract_rows(
            *parts[part], tape.main, *ready.arrays, NONE, columns, table, vector,
            tape.shared, sums[part], tape.edge_place, by_point[part],
        )  # fmt: skip

    _run(task, len(parts))
    gradient = by_values(ready, sums.sum(axis=0))
    add_gates(ready, columns, by_point.sum(axis=0), gradient)
    return program.narrow(gradient)


def can_move(program: Program) -> bool:
    """Tell whether the gradient by points is known: that of a change surface is not."""
    functions = [compiled_functions(leaf.kind) for leaf in program.leaves]
    known = all(each.points is not None for each in functions if isinstance(each, Compiled))
    return known and all(leaf.surface is None for leaf in program.leaves)


def contract_points(
    program: Program,
    values: Array,
    X: Array,
    Z: Array,
    matrix: Array,
    left: Array | None = None,
    right: Array | None = None,
) -> Array:
    """Return sum_i (matrix + left right')_ij d k(x_i, z_j) / d z_j, m x D: where inducing points should go."""
    ready, sides = _rectangle(program, values, X, Z)
    tape, parts, weights = ready.tape, _row_parts(len(X)), _weights(matrix, left, right)
    moved = np.zeros((len(parts), *sides[2].shape))

    def task(part: int) -> None:
        sweep.points_rows(
            *parts[part], tape.main, *ready.arrays, NONE, ready.values, *sides, *weights,
            tape.shared, np.zeros(tape.n_sums), tape.edge_place, moved[part],
        )  # fmt: skip

    _run(task, len(parts))
    return np.ascontiguousarray(moved.sum(axis=0).T)


def _weights(matrix: Array, left: Array | None, right: Array | None) -> tuple[Array, Array, Array]:
    """The weights of pairs, matrix + left right'."""
    vectors = [np.zeros(n) if v is None else v for v, n in zip((left, right), matrix.shape, strict=True)]
    one, other = (np.ascontiguousarray(v, dtype=np.float64) for v in vectors)
    return np.ascontiguousarray(matrix, dtype=np.float64), one, other


def contract_inverse(program: Program, values: Array, at: Points, factor: Factor, alpha: Array) -> tuple[Array, Array]:
    """Return sum_ij (a a' - A^-1)_ij / 2 dK_ij / dvalues and the diagonal of A^-1; the factor of A is lost."""
    inverse = factor.into_inverse()
    return -0.5 * contract(program, values, at, inverse, alpha), np.diagonal(inverse)
