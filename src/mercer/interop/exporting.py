"""What every export begins with: a `Fitted` as plain numbers in the units of the data, or a sentence why not.

A target is given the kernel, the noise, the level and the rows of each member, and how members share the weight, and
nothing of Mercer's engines. What it computes from these is written once for each target, from the one flat program of
the kernel (`mercer.compute.program`), so that sums, products, networks, change surfaces and functionals come along.

    mean      c + K* a,                                  a = A^-1 (y - c),   A = K + (noise + jitter) I
    variance  K** - K* A^-1 K*' + (1 - K* s)^2 / 1's,    s = A^-1 1          (Rasmussen & Williams 2006, 2.7)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.compute.backend import NUMBA
from mercer.compute.program import compile_program
from mercer.errors import InputError, NumericalError
from mercer.inference.choose import available_memory
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import to_data_units, values_of
from mercer.learners.contract import FADE
from mercer.linalg.factor import Factor, Failure, factorise
from mercer.model.fitted import Columns, Fitted, MixtureMember


@dataclass(frozen=True, eq=False)
class Alone:
    """One kernel with all that its predictions need, in the units of the data, and its weights in an average."""

    kernel: Expression
    noise: float
    jitter: float  # on the diagonal, beside the noise
    level: float
    X: Array
    y: Array
    within: float = 1.0
    beyond: float = 1.0
    widening: float = 1.0

    def solve(self) -> ExactSolution:
        """Factorise A and solve for what predictions need."""
        program, values = compile_program(self.kernel), values_of(self.kernel)
        factor = factorise(lambda: NUMBA.gram(program, values, self.X), self.noise + self.jitter)
        if isinstance(factor, Failure):
            raise NumericalError(f"this model cannot be exported: {factor.reason}; fit it with a larger noise")
        lower = np.tril(factor.lower)
        alpha, pull = factor.solve(np.stack([self.y - self.level, np.ones(len(self.y))]).T).T
        return ExactSolution(lower, factor, alpha, pull, 1.0 / float(pull.sum()))


@dataclass(frozen=True, eq=False)
class ExactSolution:
    """L of A = L L', a = A^-1 (y - c), s = A^-1 1, and the variance of the level, 1 / 1's."""

    lower: Array
    factor: Factor
    alpha: Array
    pull: Array
    level_variance: float


@dataclass(frozen=True)
class Ends:
    """Where a forecast begins: beyond `low` and `high` on one column (None: nowhere), fully so after `fade`."""

    column: int | None = None
    low: float = 0.0
    high: float = 0.0

    @property
    def fade(self) -> float:
        """The distance from an end at which a row is wholly beyond."""
        return FADE * (self.high - self.low)


@dataclass(frozen=True, eq=False)
class Exported:
    """The members of a model, the first of which is the one explained; the columns that rows have."""

    members: tuple[Alone, ...]
    ends: Ends
    columns: Columns

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the matrix of numbers that the exported model is given."""
        return tuple(self.columns.names)


def export_all(fitted: Fitted, target: str) -> Exported:
    """Return all members; `target` is named in the sentence that refuses what cannot be exported."""
    _check_engine(fitted, target)
    training, mixture = fitted.training, fitted.mixture
    column = mixture.column
    ends = Ends()
    if column is not None:
        along = training.X[:, column]
        ends = Ends(column, float(along.min()), float(along.max()))
    return Exported(tuple(_alone(fitted, member) for member in mixture.members), ends, training.columns)


def export_one(fitted: Fitted, target: str, member: str | None) -> Exported:
    """Return the one member of a model; of an average the first, where that is asked for by member="best"."""
    if member not in (None, "best"):
        raise InputError(f"member is None or 'best', not {member!r}: 'best' exports the best kernel of an average")
    members = fitted.mixture.members
    if member is None and len(members) > 1:
        raise InputError(
            f"this model averages {len(members)} kernels, and {target} holds one Gaussian process: member='best' "
            "exports the best kernel alone (its predictions are not those of the average), and to_botorch() and "
            "to_onnx() export the average"
        )
    if member is None and fitted.mixture.column is not None and members[0].widening != 1.0:
        raise InputError(
            f"this model widens its bands beyond the data by what earlier forecasts missed, which {target} cannot "
            "hold: member='best' exports the Gaussian process without that, and to_botorch() and to_onnx() export all"
        )
    _check_engine(fitted, target)
    return Exported((_alone(fitted, members[0], weighed=False),), Ends(), fitted.columns)


def _alone(fitted: Fitted, member: MixtureMember, weighed: bool = True) -> Alone:
    training, scale = fitted.training, fitted.units.y_scale
    level = training.level + scale * member.posterior.fitted_level.mean
    weights = (member.within, member.beyond, member.widening) if weighed else (1.0, 1.0, 1.0)
    return Alone(
        to_data_units(member.kernel, fitted.units), member.noise * scale**2, member.posterior.jitter * scale**2,
        float(level), training.X, training.y, *weights,
    )  # fmt: skip


def _check_engine(fitted: Fitted, target: str) -> None:
    """Refuse what exact inference from rows in memory does not give."""
    training, engine = fitted.training, fitted.choice.engine
    if training.source is not None:
        raise InputError(
            f"this model was fitted to a stream of {training.count:,} rows, which {target} cannot hold: fit it to a "
            "table in memory, of some thousand of them, with inference=mercer.Exact()"
        )
    if not engine.exact:
        raise InputError(
            f"this model was fitted with inference={engine!r}, which {target} cannot hold: fit it with "
            "inference=mercer.Exact(), to fewer rows where these are too many"
        )
    if 24 * training.count**2 > available_memory():
        raise InputError(
            f"an export of {training.count:,} rows takes {24e-9 * training.count**2:,.0f} GB of memory, more than is "
            "free: fit the model to fewer rows"
        )


def read_table(table: Any, columns: Columns | None) -> Array:
    """Return a table like the one that was learned from, or a matrix, as rows of finite numbers."""
    try:
        rows = np.asarray(table, dtype=np.float64) if columns is None else columns.encode(table)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"rows are numbers, and dates or categories only where these were learned: {error}") from None
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise InputError("rows are a table of finite numbers: rows and columns, none missing")
    if columns is not None:
        check_columns(rows.shape[1], columns.names)
    return rows


def check_columns(count: int, names: Sequence[str]) -> None:
    """Refuse rows with another number of columns than were learned from."""
    if count != len(names):
        columns = "column" if len(names) == 1 else "columns"
        raise InputError(f"rows have {len(names)} {columns} ({', '.join(names)}), and these have {count}")
