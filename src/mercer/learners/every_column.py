"""Where a search on several columns begins: kernels on every column at once, and one that adds the columns up.

A table of ten columns has fifty base kernels on one column each. None of them predicts much, and it takes many steps to
join as many columns as matter. A kernel on all of them, with one lengthscale each (automatic relevance determination),
predicts well after one fit. That fit comes before anything else, so that a search that is stopped has an answer which
is no worse; on many rows its first steps are on some of them, where they cost little. The grammar then grows from the
best of these kernels as it does from the best base kernels on one column (`Search.run`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mercer.kernels.expression import Base, Expression, build_base, sum_of
from mercer.kernels.leaf import REGISTRY
from mercer.learners.racing import ALL_STARTS, Rung


@dataclass(frozen=True)
class EveryColumnPolicy:
    """How kernels on all columns are fitted before the search."""

    some: int = 300  # rows on which all starts take their first steps, where there are many
    nearer: int = 1000  # rows of the next ones: an evaluation costs a thirtieth of that on 3,000
    steps: int = 25  # on each of these
    starts: int = 2  # that go on to more rows
    margin: float = 60.0  # score that one may be behind the best on some rows, and go on to more
    last_margin: float = 20.0  # the same before the last steps, on all rows
    finish: int = 2  # at least this many are fitted to the end

    def rungs(self, rows: int, few: int, iterations: int) -> tuple[Rung, ...]:
        """Return the rungs: on `few` rows and fewer all starts run to the end at once."""
        if rows <= few:
            return (Rung(iterations, ALL_STARTS, math.inf, 0),)
        on_more = (Rung(self.steps, self.starts, self.margin, self.finish, self.nearer),)
        return (
            Rung(self.steps, ALL_STARTS, math.inf, 0, self.some),
            *(on_more if rows > 2 * self.nearer else ()),
            Rung(iterations, 1, self.last_margin, self.finish),
        )


def kernels_on_every_column(symbols: Sequence[str], columns: Sequence[int]) -> list[Base]:
    """Return the base kernels that can be on several columns, on all of them: first those with lengthscales."""
    if not columns:
        return []
    usable = [s for s in symbols if REGISTRY[s].radial]
    lines = [s for s in symbols if REGISTRY[s].words.role == "trend"]
    return [build_base(symbol, *columns) for symbol in (*usable, *lines)]


def kernel_on_each_column(
    symbols: Sequence[str], columns: Sequence[int], others: Sequence[Expression] = ()
) -> Expression | None:
    """Return the sum of the first base kernel with a lengthscale on each column alone, and of the others.

    None where no base kernel has a lengthscale.
    """
    usable = [s for s in symbols if REGISTRY[s].radial]
    return sum_of([*(build_base(usable[0], column) for column in columns), *others]) if usable else None


def find_on(kernel: Expression, columns: Sequence[int]) -> Base | None:
    """Return the base kernel of an expression that is on just these columns."""
    return next((leaf for leaf in kernel.leaves() if leaf.columns == tuple(columns)), None)
