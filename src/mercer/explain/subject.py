"""What is explained: a fitted kernel with its data in the scaled units of the fit, and the way back to the user's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from mercer.compute import fused
from mercer.compute.program import Program, compile_program
from mercer.explain.categories import mark_levels
from mercer.explain.wording import Column, Vocabulary
from mercer.inference.contract import Data, Engine, Posterior, Prediction
from mercer.kernels.algebra import described_components, structure
from mercer.kernels.blend import Surface
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression, build_base
from mercer.kernels.parameters import Units, to_data_units, values_of
from mercer.linalg.factor import Failure, factorise
from mercer.model.fitted import Columns, Fitted, Mixture

MOST_TO_CHECK = 3000  # rows
SHOWN_DIGITS = 4


@dataclass(frozen=True, eq=False)
class KernelPart:
    """One summand of the kernel: in the user's units, and ready to be evaluated in scaled ones."""

    kernel: Expression
    program: Program
    values: Array
    text: str  # with rounded numbers
    exact: str

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """The encoded columns that it looks at."""
        return tuple(sorted({d for owner in self.kernel.owners() for d in owner.columns}))


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted model. `kernel`, `noise` and `data` are scaled; `columns` are the encoded ones."""

    target: str
    columns: tuple[Column, ...]
    fitted: Expression  # the kernel in the user's units
    kernel: Expression
    noise: float
    data: Data
    engine: Engine
    posterior: Posterior
    units: Units
    level: float
    mixture: Mixture  # predicts, where several kernels are averaged
    named: bool = True  # the columns have names; otherwise kernels number them

    @cached_property
    def names(self) -> tuple[str, ...] | None:
        """The names by which a kernel's text calls columns."""
        return tuple(column.name for column in self.columns) if self.named else None

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """What a reader calls things."""
        return Vocabulary(self.target, self.columns)

    @cached_property
    def parts(self) -> tuple[KernelPart, ...]:
        """The summands of the canonical form, in its order."""
        found = []
        for term in described_components(self.kernel):
            kernel, program, values = to_data_units(term, self.units), compile_program(term), values_of(term)
            texts = kernel.text(SHOWN_DIGITS, self.names), kernel.text(None, self.names)
            found.append(KernelPart(kernel, program, values, *texts))
        return tuple(found)

    @cached_property
    def whole(self) -> KernelPart:
        """The whole kernel."""
        texts = self.fitted.text(SHOWN_DIGITS, self.names), self.fitted.text(None, self.names)
        return KernelPart(self.fitted, compile_program(self.kernel), values_of(self.kernel), *texts)

    @cached_property
    def table_columns(self) -> dict[str, tuple[int, ...]]:
        """The columns of the user's table that vary, each with its encoded columns."""
        groups: dict[str, tuple[int, ...]] = {}
        for d, column in enumerate(self.columns):
            groups[column.table_name] = (*groups.get(column.table_name, ()), d)
        varies = np.ptp(self.data.X, axis=0) > 0
        return {name: places for name, places in groups.items() if varies[list(places)].any()}

    @cached_property
    def only_column(self) -> int | None:
        """The one input, if there is one only and it is not one of categories."""
        if len(self.table_columns) != 1:
            return None
        (places,) = self.table_columns.values()
        return None if self.columns[places[0]].is_category else places[0]

    @cached_property
    def order_column(self) -> int | None:
        """The column that puts the rows in order: the only input, or the only one of dates."""
        if self.only_column is not None:
            return self.only_column
        dates = [d for places in self.table_columns.values() for d in places if self.columns[d].unit is not None]
        return dates[0] if len(dates) == 1 else None

    # ----------------------------------------------------------------------------------------------------------- rows

    def scale(self, column: int, values: Array) -> Array:
        """Return places on a column, given in the user's units, in scaled ones."""
        return (values - self.units.shift[column]) / self.units.scale[column]

    def in_user_units(self, column: int) -> Array:
        """Return a column of the training rows in the user's units."""
        return np.asarray(self.data.X[:, column] * self.units.scale[column] + self.units.shift[column])

    def typical_row(self) -> Array:
        """Return a scaled row with the median of every number and the most common category of the others."""
        row = np.median(self.data.X, axis=0)
        for d, column in enumerate(self.columns):
            if column.levels:
                values, counts = np.unique(self.data.X[:, d], return_counts=True)
                row[d] = values[counts.argmax()]
        for places in self.table_columns.values():
            if self.columns[places[0]].level is not None:
                chosen = places[int(self.data.X[:, places].sum(axis=0).argmax())]
                row[list(places)] = self.data.X[:, places].min(axis=0)
                row[chosen] = self.data.X[:, chosen].max()
        return np.asarray(row)

    def rows_along(self, column: int, values: Array) -> Array:
        """Return scaled rows that differ in one column only, given in the user's units; the others are typical."""
        rows = np.tile(self.typical_row(), (len(values), 1))
        rows[:, column] = self.scale(column, values)
        return rows

    # ---------------------------------------------------------------------------------------------------------- values

    @property
    def fitted_level(self) -> float:
        """The constant to which the components are added, in the user's units."""
        return self.level + self.units.y_scale * float(self.posterior.level.mean[0])

    @property
    def targets(self) -> Array:
        """The target in the user's units."""
        return self.level + self.units.y_scale * self.data.y

    @cached_property
    def variance(self) -> float:
        """The variance of the target; not a number where it does not vary."""
        return float(np.var(self.targets)) or math.nan

    def predict(self, rows: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation of new observations at scaled rows, in the user's units."""
        found = self.mixture.predict(rows, include_noise=True)
        return self.level + self.units.y_scale * found.mean, self.units.y_scale * np.sqrt(found.variance)

    def part_at(self, part: KernelPart, rows: Array) -> Prediction:
        """Return the posterior of a summand at scaled rows, in the user's units."""
        found = self.posterior.predict_part(part.program, part.values, rows)
        return Prediction(self.units.y_scale * found.mean, self.units.y_scale**2 * found.variance)

    @cached_property
    def one_step_errors(self) -> tuple[NDArray[np.intp], Array]:
        """Return the order of the rows, and in it the error of each predicted from those before, in units of its band.

        With A = L L' in that order these are L^-1 y: independent standard normal numbers if the model is right, which
        residuals and leave-one-out errors are not. Of very many rows some are drawn, as A is a matrix of all pairs.
        """
        along = self.order_column
        X, y = self.data.X, self.data.y
        order = np.arange(len(y)) if along is None else np.argsort(X[:, along], kind="stable")
        if len(y) > MOST_TO_CHECK:
            order = order[np.sort(np.random.default_rng(0).choice(len(y), MOST_TO_CHECK, replace=False))]
        data = self.data.take(order)
        program, values = self.whole.program, self.whole.values
        factor = factorise(lambda: fused.gram_lower(program, values, data.at), self.noise)
        if not isinstance(factor, Failure):
            return order, factor.half_solve(data.y - self.posterior.level.mean)
        left = self.posterior.leave_one_out()
        return order, ((y - left.mean) / np.sqrt(left.variance))[order]


_SUBJECTS: WeakKeyDictionary[Fitted, Subject] = WeakKeyDictionary()  # the explanation and all pictures share one


def subject_of(fitted: Fitted) -> Subject:
    """Return the winner with its data."""
    if fitted not in _SUBJECTS:
        first, training = fitted.explained, fitted.training
        _SUBJECTS[fitted] = Subject(
            target=training.target_name or "the target",
            columns=tuple(mark_levels(readable_columns(fitted.columns, training.X), fitted.kernel, training.X)),
            fitted=fitted.kernel,
            kernel=first.kernel,
            noise=first.noise,
            data=training.data.sample,
            engine=fitted.choice.engine,
            posterior=first.posterior,
            units=training.units,
            level=training.level,
            mixture=fitted.mixture,
            named=fitted.columns.named,
        )
    return _SUBJECTS[fitted]


def readable_columns(table: Columns, X: Array) -> list[Column]:
    """Return the encoded columns as a reader knows them; X are the rows that were learned from."""
    low, high = X.min(axis=0), X.max(axis=0)
    whole = (np.round(X) == X).all(axis=0)
    encoding = table.encoding
    columns: list[Column] = []
    for each in encoding.columns:
        levels: tuple[str, ...] = getattr(each, "levels", ())
        for place, (name, unit) in enumerate(zip(each.encoded_names, each.units, strict=True)):
            d = len(columns)
            coded = d in table.categories
            written = unit is not None or coded
            show: Callable[[float], str] | None = partial(encoding.describe_value, name) if written else None
            shown = name if table.named else f"column {name}"
            source, level = each.name if table.named else shown, levels[place] if levels and not coded else None
            found = Column(shown, unit, float(low[d]), float(high[d]), show, source, level, bool(whole[d]))
            if coded:
                found = replace(found, levels=levels, codes=tuple(map(float, range(len(levels)))))
            columns.append(found)
    return columns


@lru_cache(maxsize=4096)  # of all kernels that a search tried
def structure_text(kernel: Expression, names: tuple[str, ...] | None, columns: int) -> str:
    """Return a kernel without its numbers; without columns, too, where there is only one."""
    bare = structure(kernel)
    if columns > 1:
        return bare.text(names=names)
    nowhere = bare.map_leaves(lambda leaf: build_base(leaf.symbol, components=leaf.components))
    return nowhere.map_owners(lambda owner: replace(owner, dims=None) if isinstance(owner, Surface) else owner).text()
