"""Linear constraints on inputs: read them, find whether any point satisfies them, and sample the points that do.

An equality (the shares of a mixture add up to 1) leaves a flat set without volume: directions are projected onto it,
and points that left it by a step are pulled back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import LinearConstraint, linprog
from scipy.sparse import issparse

from mercer.errors import InputError
from mercer.kernels.domains import Array

TOLERANCE = 1e-9
LEAST_ROOM = 1e-6  # of the range of an input; less is an equality in disguise, and nothing can be sampled from it
PULLS = 30  # projections onto the equalities and the box in turn; rows that need more are few, and are left out
STARTS = 48  # legal points from which walks begin
WALKS = 250  # at the same time; more rows than that are taken from the same walks, some steps later
SOLVER = {"primal_feasibility_tolerance": 1e-10}


@dataclass(frozen=True)
class LinearConstraints:
    """lower <= matrix x <= upper, where x has one entry for each input, in the user's units."""

    matrix: tuple[tuple[float, ...], ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Polytope:
    """lower <= matrix x <= upper with x in [0, 1]; where `counts` is not 0, x is one of the multiples of 1/count."""

    matrix: Array
    lower: Array
    upper: Array
    counts: Array

    @property
    def whole(self) -> NDArray[np.bool_]:
        """Which columns have levels."""
        return self.counts > 0

    @property
    def equal(self) -> NDArray[np.bool_]:
        """Which constraints are equalities."""
        return np.asarray(self.lower == self.upper)

    @cached_property
    def correction(self) -> Array:
        """By what the columns without levels change, as little as can be, for a unit that an equality is missed by."""
        return np.asarray(np.linalg.pinv(np.where(self.whole, 0.0, self.matrix[self.equal])).T)

    def flatten(self, directions: Array) -> Array:
        """Return directions along the equalities, as near as columns without levels can make them."""
        return directions - directions @ self.matrix[self.equal].T @ self.correction

    def pull(self, rows: Array) -> Array:
        """Return rows moved onto the equalities and into the box, by projections in turn."""
        target = self.upper[self.equal]
        for _ in range(PULLS if len(target) else 0):
            rows = np.clip(rows - (rows @ self.matrix[self.equal].T - target) @ self.correction, 0.0, 1.0)
        return rows

    def contains(self, rows: Array) -> NDArray[np.bool_]:
        """Tell which rows satisfy the constraints; the box is not looked at."""
        found = rows @ self.matrix.T
        inside = (found >= self.lower - TOLERANCE) & (found <= self.upper + TOLERANCE)
        return np.asarray(inside.all(axis=1), dtype=bool)


def read_constraints(given: Any, inputs: int) -> LinearConstraints | None:
    """Read one LinearConstraint or several; rows without a finite bound are left out."""
    if given is None:
        return None
    several = [given] if isinstance(given, LinearConstraint) or not isinstance(given, Iterable) else list(given)
    matrix: list[tuple[float, ...]] = []
    lower: list[float] = []
    upper: list[float] = []
    for position, one in enumerate(several, start=1):
        where = "The constraint" if len(several) == 1 else f"Constraint {position}"
        for coefficients, low, high in _read_one(one, inputs, where):
            matrix.append(tuple(coefficients.tolist()))
            lower.append(low)
            upper.append(high)
    return LinearConstraints(tuple(matrix), tuple(lower), tuple(upper)) if matrix else None


def _read_one(given: Any, inputs: int, where: str) -> list[tuple[Array, float, float]]:
    if not isinstance(given, LinearConstraint):
        raise InputError(
            f"{where} must be a scipy.optimize.LinearConstraint, not {type(given).__name__}. "
            "Other constraints are not supported: return NaN from the function where they fail."
        )
    matrix = np.atleast_2d(_to_numbers(given.A.toarray() if issparse(given.A) else given.A, f"A of {where.lower()}"))
    if matrix.ndim != 2 or matrix.shape[1] != inputs:
        raise InputError(
            f"{where} has {matrix.shape[-1]} coefficients in a row, but there are {inputs} inputs. "
            "Give one coefficient for each input, 0 where it does not matter."
        )
    sides = [_to_numbers(side, f"a bound of {where.lower()}") for side in (given.lb, given.ub)]
    try:
        lower, upper = (np.broadcast_to(side.ravel(), len(matrix)) for side in sides)
    except ValueError:
        raise InputError(f"{where} has {len(matrix)} rows but another number of bounds. Give one of each.") from None
    if not np.isfinite(matrix).all() or np.isnan(lower).any() or np.isnan(upper).any():
        raise InputError(f"{where} holds a number that is NaN or infinite. Coefficients must be finite numbers.")
    rows = []
    for coefficients, low, high in zip(matrix, lower.tolist(), upper.tolist(), strict=True):
        if low == np.inf or high == -np.inf:
            raise InputError(
                f"{where} asks for {low:g} <= ... <= {high:g}, which no point satisfies. Correct lb or ub."
            )
        if low > high:
            raise InputError(f"{where} is reversed: {low:g} <= ... <= {high:g}. Exchange lb and ub.")
        if np.isfinite(low) or np.isfinite(high):
            rows.append((coefficients, low, high))
    return rows


def _to_numbers(given: ArrayLike, what: str) -> Array:
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{what} must hold numbers, not {given!r}.") from None


def find_centre(polytope: Polytope) -> Array:
    """Return the centre of a largest ball of legal points among the continuous columns; refuse an empty set.

    max r such that  lower + r |a| <= a'x <= upper - r |a|  for each row a (|a| over the continuous columns; 0 where
    the row is an equality), and r <= x <= 1 - r. Columns with levels take part as whole numbers.
    """
    size, whole = len(polytope.counts), polytope.whole
    sides, limits, norms = _one_sided(polytope)
    box = np.eye(size)[~whole]
    zeros, ones = np.zeros(len(box)), np.ones((len(box), 1))
    table = np.block([[sides, norms[:, None]], [box, ones], [-box, ones]])
    goal = np.append(np.zeros(size), -1.0)
    found = _solve(goal, table, np.concatenate([limits, zeros + 1.0, zeros]), polytope.counts)
    if found is None:
        raise InputError(
            "No point within the bounds satisfies the constraints. Widen the bounds, or relax a constraint."
        )
    if not whole.all() and found[-1] < LEAST_ROOM:
        raise InputError(
            "The constraints leave almost no room within the bounds. Relax a constraint, or give an input that they "
            "leave no choice for its one value in the function."
        )
    return polytope.pull(found[:size])


def find_starts(polytope: Polytope, centre: Array) -> Array:
    """Return legal points all over the set, the centre first: those nearest to random points of the box.

    min sum_i e_i such that  -e <= x - random <= e  (distances along the columns, so that the programme is linear).
    """
    rng = np.random.default_rng(0)
    size = len(centre)
    sides, limits, norms = _one_sided(polytope)
    margins = 1e-8 * norms
    eye = np.eye(size)
    table = np.block([[sides, np.zeros_like(sides)], [eye, -eye], [-eye, -eye]])
    goal = np.concatenate([np.zeros(size), np.ones(size)])
    starts = [centre]
    for target in rng.random((STARTS, size)):
        found = _solve(goal, table, np.concatenate([limits - margins, target, -target]), polytope.counts)
        if found is not None:
            starts.append(polytope.pull(np.clip(found[:size], 0.0, 1.0)))
    rows = np.array(starts)
    legal = polytope.contains(rows)
    legal[0] = True
    return rows[legal]


def _one_sided(polytope: Polytope) -> tuple[Array, Array, Array]:
    """The constraints as rows a'x <= limit, with |a| over the columns without levels; 0 for an equality."""
    high, low = np.isfinite(polytope.upper), np.isfinite(polytope.lower)
    sides = np.vstack([polytope.matrix[high], -polytope.matrix[low]])
    norms = np.linalg.norm(np.where(polytope.whole, 0.0, sides), axis=1)
    norms[np.concatenate([polytope.equal[high], polytope.equal[low]])] = 0.0
    return sides, np.concatenate([polytope.upper[high], -polytope.lower[low]]), norms


def _solve(goal: Array, table: Array, limits: Array, counts: Array) -> Array | None:
    """Minimise goal'x where table x <= limits and 0 <= x <= 1; the first columns have levels where counts say so."""
    padded = np.concatenate([counts, np.zeros(len(goal) - len(counts))])
    whole = padded > 0
    units = np.where(whole, 1.0 / np.maximum(padded, 1.0), 1.0)  # of x in one unit of the programme's variable
    lower, upper = np.zeros(len(goal)), np.where(whole, padded, 1.0)
    if whole.any():
        found = linprog(goal * units, table * units, limits, bounds=np.c_[lower, upper], integrality=whole.astype(int))
        if found.x is None:
            return None
        levels = np.round(found.x)
        lower, upper = np.where(whole, levels, lower), np.where(whole, levels, upper)
        limits = limits + TOLERANCE  # rows of whole numbers alone may hold exactly
    found = linprog(goal * units, table * units, limits, bounds=np.c_[lower, upper], method="highs", options=SOLVER)
    return None if found.x is None else np.asarray(found.x * units, dtype=np.float64)


def walk(polytope: Polytope, starts: Array, count: int, rng: np.random.Generator) -> Array:
    """Sample `count` legal rows uniformly by hit-and-run, many walks at a time.

    A step draws a direction and moves to a uniform point of the chord (Smith 1984). Directions are combinations of the
    differences of the starts, so that a thin set is walked along and not only across; single columns; and, where
    columns have levels, one or two of those by whole levels.
    """
    size, walks = len(polytope.counts), min(count, WALKS)
    if not walks:
        return np.empty((0, size))
    rows = starts[rng.integers(len(starts), size=walks)]
    if not polytope.whole.any():  # the set is convex: between starts lie legal points
        corners = starts[rng.integers(len(starts), size=(walks, 3))]
        rows = np.einsum("nc,ncd->nd", rng.dirichlet(np.ones(3), size=walks), corners)
    rows = _take_steps(polytope, starts, rows, 30 + 10 * size, rng)
    found = [rows]
    while len(found) * walks < count:
        rows = _take_steps(polytope, starts, rows, 5 + size, rng)
        found.append(rows)
    return np.concatenate(found)[:count]


def _take_steps(polytope: Polytope, starts: Array, rows: Array, steps: int, rng: np.random.Generator) -> Array:
    count, whole = len(rows), polytope.whole
    free = np.flatnonzero(~whole)
    spread = np.where(whole, 0.0, starts - starts.mean(axis=0))
    for _ in range(steps):
        if len(free):
            single = np.zeros_like(rows)
            single[np.arange(count), rng.choice(free, size=count)] = 1.0
            for proposed in (single, rng.standard_normal((count, len(starts))) @ spread):
                directions = polytope.flatten(proposed)
                low, high = _find_chord(polytope, rows, directions)
                moves = low + (high - low) * rng.random(count)
                rows = np.clip(rows + moves[:, None] * directions, 0.0, 1.0)
        if whole.any():
            rows = _move_levels(polytope, rows, rng)
    return rows


def _move_levels(polytope: Polytope, rows: Array, rng: np.random.Generator) -> Array:
    count, columns = len(rows), np.flatnonzero(polytope.whole)
    directions = np.zeros_like(rows)
    for _ in range(2):
        chosen = rng.choice(columns, size=count)
        directions[np.arange(count), chosen] = rng.choice([-1.0, 1.0], size=count) / polytope.counts[chosen]
    directions = polytope.flatten(directions)
    low, high = _find_chord(polytope, rows, directions)
    least, most = np.ceil(low - 1e-6), np.floor(high + 1e-6)
    moves = np.floor(least + (most - least + 1.0) * rng.random(count))
    moved = rows + np.clip(moves, least, most)[:, None] * directions
    counts = polytope.counts[columns]
    moved[:, columns] = np.clip(np.round(moved[:, columns] * counts), 0.0, counts) / counts
    return np.where(polytope.contains(moved)[:, None], moved, rows)


def _find_chord(polytope: Polytope, rows: Array, directions: Array) -> tuple[Array, Array]:
    """How far each row can go back and forth along its direction within the constraints and the box."""
    table = np.vstack([polytope.matrix, np.eye(rows.shape[1])])
    lower = np.concatenate([polytope.lower, np.zeros(rows.shape[1])])
    upper = np.concatenate([polytope.upper, np.ones(rows.shape[1])])
    here, rates = rows @ table.T, directions @ table.T
    still = np.abs(rates) <= 1e-12 * (np.abs(directions) @ np.abs(table.T))  # what cancels leaves rounding errors
    with np.errstate(divide="ignore", invalid="ignore"):
        to_lower, to_upper = (lower - here) / rates, (upper - here) / rates
    back = np.where(still, -np.inf, np.minimum(to_lower, to_upper)).max(axis=1)
    forth = np.where(still, np.inf, np.maximum(to_lower, to_upper)).min(axis=1)
    # A row beyond a border by a rounding error stays where it is; a direction of zeros has no chord.
    back, forth = np.minimum(back, 0.0), np.maximum(forth, 0.0)
    return np.where(np.isfinite(back), back, 0.0), np.where(np.isfinite(forth), forth, 0.0)
