"""Jumps of the level of a series, whatever the kernels make of them.

Kernels that do not jump follow a jump by a curve, and then speak of a random walk or a trend. Under the kernel that has
most weight, less its own jumps, the rows are N(level, A). A step h(x) = 1 from some place on, whitened by A = L L' like
the rows, is tested as the waves of `rhythms.py` are, by generalised least squares: its size is b = h'My / h'Mh, with
variance 1 / h'Mh, where M = A^-1 less what the level and the rows on both sides of the step explain. These two rows are
left out so that a single wrong one is no jump; what is left is whether the level is another one after it. A kernel that
does not suit the rows calls much a coincidence: where it does not jump itself, lines through the rows on both sides
must not meet either, and no step from row to row may be like it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mercer.explain.claims import MAD, WITHIN_95, Claim, ClaimEvidence
from mercer.explain.gathering import Curves, classify
from mercer.explain.rhythms import Whitened, find_likeliest, whiten
from mercer.explain.subject import Subject
from mercer.kernels.blend import Blend, is_jump
from mercer.kernels.domains import Array
from mercer.kernels.expression import find_all

FEWEST, SIDE = 30, 5  # rows in all, and on each side of a jump
AROUND, APART_ROWS = 60, 2  # rows on both sides of a known jump that are looked at; apart so few it is at one of them
LOOKED_AT = 40  # places where the level differs most from one side to the other
CLEAR = 1e-4  # the p-value, corrected for all places, below which a jump is named
BESIDE, APART = 12, 4.0  # rows on each side through which lines go; standard errors by which these miss each other
STEPS_OUT = 4.0  # times the usual step from row to row: a walk has none larger
OF_SPREAD = 1.0  # of the spread of the data: a smaller jump is not what they are about


@dataclass(frozen=True)
class LevelJump:
    """A jump of the level from a place on: its size, a 95 % interval, and its p-value were the kernel all there is."""

    column: str
    at: float
    size: float
    low: float
    high: float
    p_value: float
    by_curve: bool = True  # no kernel of much weight jumps there
    between: tuple[float, float] | None = None  # the rows between which it is (95 %), where they are some apart


def find_jumps(curves: Curves) -> list[Claim]:
    """Claim the largest jump of a series, where there is one that its kernel would call a coincidence."""
    from scipy.stats import norm

    subject, place = curves.subject, curves.subject.only_column
    if place is None or len(subject.data.y) < FEWEST:
        return []
    white, column = whiten(subject, place, without=is_jump), subject.columns[place]
    if white is None:
        return []
    known, ends = _find_known(subject, white)
    found = [(abs(size) / spread, row, size, spread) for row, size, spread in _measure(white, known)]
    times, row, size, spread = max(found, default=(0.0, 0, 0.0, 0.0))
    p = float(min(1.0, 2.0 * norm.sf(times) * len(white.y)))
    if p >= CLEAR or (known is None and abs(size) < OF_SPREAD * float(np.std(white.y))):
        return []
    if known is None:
        steps = np.abs(np.diff(white.y))  # to a row, from the one before
        row = max(range(row - 2, row + 3), key=lambda each: float(steps[each - 1]))
        if steps[row - 1] < STEPS_OUT * MAD * float(np.median(steps)) or not _are_apart(white, row):
            return []
    scale = subject.units.y_scale
    low, high = (scale * (size + sign * WITHIN_95 * spread) for sign in (-1.0, 1.0))
    value = LevelJump(column.name, float(white.at[row]), scale * size, low, high, p, known is None, ends)
    return [Claim("jump", subject.target, value, column.unit, 0.95, ClaimEvidence(p_value=p, rows=len(white.y)))]


def _find_known(subject: Subject, white: Whitened) -> tuple[int | None, tuple[float, float] | None]:
    """Return the row from which on the level is another one where the likeliest kernel jumps, and how well it is known.

    None where it does not jump; and where the place is known to a row or two.
    """
    kernel = find_likeliest(subject)
    for part in kernel.parts:
        if is_jump(part.kernel) and classify(subject, kernel, part).name == "jump":
            surface = next(find_all(part.kernel, Blend)).surface
            row = int(np.searchsorted(white.at, (surface.parameter("location").values or (0.0,))[0], side="right"))
            if SIDE <= row <= len(white.at) - SIDE:
                return _find_place(white, row)
    return None, None


def _find_place(white: Whitened, near: int) -> tuple[int, tuple[float, float] | None]:
    """Return the likeliest row near one, and between which rows the jump is with 95 % probability, any being as likely.

    A step takes (h'My)^2 / h'Mh out of the sum of squares, and exp of half of it is its likelihood.
    """
    count = len(white.y)
    rows = np.arange(max(SIDE, near - AROUND), min(count - SIDE, near + AROUND) + 1)
    steps = (np.arange(count)[:, None] >= rows).astype(float)
    solved = white.factor.half_solve(np.column_stack([white.y, np.ones(count), steps]))
    level = solved[:, 1] / np.linalg.norm(solved[:, 1])
    rest = solved - np.outer(level, level @ solved)
    y, own = rest[:, 0], rest[:, 2:]
    gain = (own.T @ y) ** 2 / np.maximum(np.sum(own**2, axis=0), 1e-300)
    chances = np.exp(0.5 * (gain - gain.max()))
    ends = np.searchsorted(np.cumsum(chances) / chances.sum(), [0.025, 0.975])
    low, high = (int(rows[min(end, len(rows) - 1)]) for end in ends)
    known = high - low <= APART_ROWS
    return int(rows[np.argmax(gain)]), None if known else (float(white.at[low]), float(white.at[high]))


def _measure(white: Whitened, known: int | None) -> Iterator[tuple[int, float, float]]:
    """Yield rows from which on the level may be another one, the size of the jump and its standard deviation."""
    count = len(white.y)
    for row in _find_places(white.y) if known is None else [known]:
        step, sides = (np.arange(count) >= row).astype(float), np.zeros((count, 2))
        sides[row - 1, 0] = sides[row, 1] = 1.0
        solved = white.factor.half_solve(np.column_stack([white.y, np.ones(count), sides, step]))
        basis = np.linalg.qr(solved[:, 1:4])[0]
        y, own = (each - basis @ (basis.T @ each) for each in (solved[:, 0], solved[:, 4]))
        information = float(own @ own)
        if information > 0:
            yield row, float(own @ y) / information, information**-0.5


def _are_apart(white: Whitened, row: int) -> bool:
    """Whether lines through the rows before and after a place clearly miss each other half-way between the two."""
    middle, gap, known, left, free = float(white.at[row - 1 : row + 1].mean()), 0.0, 0.0, 0.0, 0
    for sign, side in ((-1.0, slice(max(0, row - BESIDE), row)), (1.0, slice(row, row + BESIDE))):
        line = np.column_stack([np.ones(len(white.at[side])), white.at[side] - middle])
        fitted = np.linalg.lstsq(line, white.y[side], rcond=None)[0]
        gap, known = gap + sign * float(fitted[0]), known + float(np.linalg.pinv(line.T @ line)[0, 0])
        left, free = left + float(np.sum((white.y[side] - line @ fitted) ** 2)), free + len(line) - 2
    return bool(abs(gap) > APART * (left / free * known) ** 0.5)


def _find_places(y: Array) -> list[int]:
    """Return rows before and after which the average differs most, over as many rows as a side must have."""
    sums = np.concatenate([[0.0], np.cumsum(y)])
    rows = np.arange(SIDE, len(y) - SIDE + 1)
    apart = np.abs(sums[rows + SIDE] - 2.0 * sums[rows] + sums[rows - SIDE])
    return [int(rows[each]) for each in np.argsort(-apart, kind="stable")[:LOOKED_AT]]
