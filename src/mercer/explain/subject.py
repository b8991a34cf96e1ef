"""What is explained: a fitted kernel with its data in the scaled units of the fit, and the way back to the user's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from mercer.compute import fused
from mercer.compute.program import Program, compile_program
from mercer.explain.categories import mark_levels
from mercer.explain.claims import MAD, WITHIN_95
from mercer.explain.wording import Column, Vocabulary
from mercer.fitting.periods import typical_gap
from mercer.inference.contract import Data, Engine, Posterior, Prediction
from mercer.kernels.algebra import described_components, structure
from mercer.kernels.blend import Surface
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression, build_base
from mercer.kernels.parameters import Units, to_data_units, values_of
from mercer.linalg.factor import Failure, factorise
from mercer.model.fitted import Columns, Fitted, KernelMixture

MOST_TO_CHECK = 3000  # rows
SHOWN_DIGITS = 4
ALONE = 0.99  # of the weight, within the data and beyond: a kernel with more is described as if it predicted alone
HEARD = 0.01  # of the weight: a kernel with less is not spoken of
NEIGHBOURS = 200  # rows next to each other that are compared
UNLIKE = 0.2  # the correlation of a row with any other below which what they have of a summand is noise
WITHIN = 0.95  # of the errors are within their band
TOO_FEW = 2.6  # standard errors: with fewer the band is too narrow (p < .01)
LEAST_SIZE = 1e-6  # of the largest variance of a summand: a regime has less where another one holds


@dataclass(frozen=True, eq=False)
class KernelPart:
    """One summand of the kernel: in the user's units, and ready to be evaluated in scaled ones."""

    kernel: Expression
    scaled: Expression
    program: Program
    values: Array
    text: str  # with rounded numbers
    exact: str

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """The encoded columns that it looks at."""
        return tuple(sorted({d for owner in self.kernel.owners() for d in owner.columns}))


_NOISY: WeakKeyDictionary[KernelPart, bool] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class PredictingKernel:
    """One of the kernels that predict: its summands, its posterior and noise (scaled), and its weights."""

    parts: tuple[KernelPart, ...]
    program: Program
    values: Array
    posterior: Posterior
    noise: float
    within: float = 1.0
    beyond: float = 1.0
    widening: float = 1.0


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
    mixture: KernelMixture  # predicts, where several kernels are averaged
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
        return tuple(self.part_of(term) for term in described_components(self.kernel))

    def part_of(self, scaled: Expression) -> KernelPart:
        """Return a kernel in scaled units as a summand."""
        kernel = to_data_units(scaled, self.units)
        texts = kernel.text(SHOWN_DIGITS, self.names), kernel.text(None, self.names)
        return KernelPart(kernel, scaled, compile_program(scaled), values_of(scaled), *texts)

    @cached_property
    def whole(self) -> KernelPart:
        """The whole kernel."""
        texts = self.fitted.text(SHOWN_DIGITS, self.names), self.fitted.text(None, self.names)
        return KernelPart(self.fitted, self.kernel, compile_program(self.kernel), values_of(self.kernel), *texts)

    @cached_property
    def kernels(self) -> tuple[PredictingKernel, ...]:
        """All kernels that predict, the one that was chosen first; it alone where the others have next to no weight."""
        first, *others = self.mixture.members
        whole, weights = (self.whole.program, self.whole.values), (first.within, first.beyond, first.widening)
        own = PredictingKernel(self.parts, *whole, self.posterior, self.noise, *weights)
        least = first.within if self.mixture.column is None else min(first.within, first.beyond)
        if not others or least >= ALONE:
            return (replace(own, within=1.0, beyond=1.0),)
        return (own, *(
            PredictingKernel(
                tuple(self.part_of(term) for term in described_components(m.kernel)), compile_program(m.kernel),
                values_of(m.kernel), m.posterior, m.noise, m.within,
                m.within if self.mixture.column is None else m.beyond, m.widening,
            )
            for m in others
        ))  # fmt: skip

    @property
    def alone(self) -> bool:
        """Whether one kernel predicts."""
        return len(self.kernels) == 1

    @property
    def heard(self) -> tuple[PredictingKernel, ...]:
        """The kernels that have a say, within the data or beyond."""
        return tuple(each for each in self.kernels if max(each.within, each.beyond) >= HEARD) or self.kernels[:1]

    @cached_property
    def noise_variance(self) -> float:
        """The variance of the noise in the user's units, that of an average by the weights within the data.

        No more than the data themselves vary: a fit that was stopped at once may have any number for it.
        """
        weights = sum(each.within for each in self.kernels)
        own = self.units.y_scale**2 * sum(each.within * self.noise_of(each) for each in self.kernels) / weights
        own *= self.widening**2
        return min(own, self.variance) if self.variance > 0 else own

    @cached_property
    def widening(self) -> float:
        """By how much errors are larger than their bands, where clearly too few of them are within; else one.

        A fit that was stopped at once has any number for its noise, mostly one that is too small.
        """
        errors = np.abs(self.one_step_errors[1])
        few = WITHIN * len(errors) - int(np.sum(errors < WITHIN_95))
        if few <= TOO_FEW * math.sqrt(len(errors) * WITHIN * (1.0 - WITHIN)):
            return 1.0
        return max(1.0, MAD * float(np.median(errors)))

    def noise_of(self, kernel: PredictingKernel) -> float:
        """Return the scaled variance of all that is noise to the rows: that of a kernel, and of such summands."""
        quick = [part for part in kernel.parts if self.is_noise(part)]
        return kernel.noise + sum(float(fused.diagonal(p.program, p.values, self._neighbours).mean()) for p in quick)

    def is_noise(self, part: KernelPart) -> bool:
        """Whether a summand along the only input fades before the next row: M12 over a fifth of a step is noise."""
        if part not in _NOISY:
            roles = {leaf.spec.words.role for leaf in part.kernel.leaves()}
            fades = "fading" in roles and roles <= {"fading", "trend", "constant", "noise"}
            own = fades and part.columns == (self.only_column,)
            holds = self.sizes_of(part)[1] if own else np.zeros(1, dtype=bool)
            enough = own and holds.sum() > 1
            _NOISY[part] = bool(enough and self.correlate_rows(part).max(axis=1)[holds].mean() < UNLIKE)
        return _NOISY[part]

    def sizes_of(self, part: KernelPart) -> tuple[Array, NDArray[np.bool_]]:
        """Return the variance of a summand at the neighbours, and at which of them it has any: where a regime holds."""
        sizes = fused.diagonal(part.program, part.values, self._neighbours)
        return sizes, sizes > LEAST_SIZE * sizes.max()

    def correlate_rows(self, part: KernelPart) -> Array:
        """Return how a summand correlates rows that are neighbours along the only input; 0 of a row with itself."""
        covariance = fused.cross(part.program, part.values, self._neighbours, self._neighbours)
        size = np.sqrt(np.maximum(np.diagonal(covariance), 1e-300))
        correlation = np.abs(covariance) / np.outer(size, size)
        np.fill_diagonal(correlation, 0.0)
        return np.asarray(correlation)

    @cached_property
    def _neighbours(self) -> Array:
        """Scaled rows next to each other along the column that orders them, from the middle."""
        order = np.argsort(self.data.X[:, self.order_column or 0], kind="stable")
        first = max(0, (len(order) - NEIGHBOURS) // 2)
        return np.asarray(self.data.X[order[first : first + NEIGHBOURS]])

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

    def mean_at(self, rows: Array) -> Array:
        """Return the mean that is predicted at scaled rows, scaled, less the level that is taken out beforehand."""
        beyond, total = self.mixture.beyond(rows), sum(each.within for each in self.kernels)
        mean = np.zeros(len(rows))
        for each in self.kernels:
            weight = each.within / total * (1.0 - beyond) + each.beyond * beyond
            if weight.max() > 0:
                own = summand_mean(each.posterior, each.program, each.values, rows)
                mean += weight * (float(each.posterior.level.mean[0]) + own)
        return mean

    def part_at(self, part: KernelPart, rows: Array) -> Prediction:
        """Return the posterior of a summand at scaled rows, in the user's units."""
        found = self.posterior.predict_part(part.program, part.values, rows)
        return Prediction(self.units.y_scale * found.mean, self.units.y_scale**2 * found.variance)

    def step_along(self, column: int) -> float:
        """Return the usual distance between neighbouring places on a column, in the user's units; 0: there is one."""
        return typical_gap(self.in_user_units(column))

    @cached_property
    def one_step_errors(self) -> tuple[NDArray[np.intp], Array]:
        """Return the order of the rows, and in it the error of each predicted from those before, in units of its band.

        With A = L L' in that order these are L^-1 y: independent standard normal numbers if the model is right, which
        residuals and leave-one-out errors are not. The prediction of an average is the mean of those of its kernels,
        its variance sum_m w_m (v_m + (m_m - m)^2). Of very many rows some are drawn, as A is a matrix of all pairs.
        """
        along = self.order_column
        X, y = self.data.X, self.data.y
        order = np.arange(len(y)) if along is None else np.argsort(X[:, along], kind="stable")
        if len(y) > MOST_TO_CHECK:
            order = order[np.sort(np.random.default_rng(0).choice(len(y), MOST_TO_CHECK, replace=False))]
        data, found, weights = self.data.take(order), [], []
        for kernel in self.heard:
            factor = factorise(partial(fused.gram_lower, kernel.program, kernel.values, data.at), kernel.noise)
            if isinstance(factor, Failure) or kernel.within <= 0:
                continue
            unit = factor.half_solve(data.y - kernel.posterior.level.mean)
            std = np.diagonal(factor.lower)
            found.append((data.y - unit * std, std**2))
            weights.append(kernel.within)
        if not found:
            left = self.left_out
            return order, ((y - left.mean) / np.sqrt(left.variance))[order]
        ahead = average(np.array(weights)[:, None], *map(np.array, zip(*found, strict=True)))
        return order, (data.y - ahead.mean) / np.sqrt(ahead.variance)

    @cached_property
    def freedom(self) -> float:
        """How many rows are left to tell noise by: n less the effective numbers of the curve.

        n - tr K A^-1 = s2 tr A^-1 with A = K + s2 I, and 1 / (A^-1)_ii is the variance of a row that is left out; of an
        average by the weights. A curve that passes through every row leaves none.
        """
        left = [
            self.noise_of(each) * float(np.sum(1.0 / each.posterior.leave_one_out().variance)) for each in self.heard
        ]
        weights = np.array([each.within for each in self.heard])
        return float(weights @ left / weights.sum()) if weights.sum() > 0 else left[0]

    @cached_property
    def left_out(self) -> Prediction:
        """Every row from all the others, by all kernels that predict (scaled)."""
        left = [each.posterior.leave_one_out() for each in self.heard]
        weights = np.array([[each.within] for each in self.heard])
        if not float(weights.sum()) > 0:
            return left[0]
        return average(weights, np.array([each.mean for each in left]), np.array([each.variance for each in left]))


def summand_mean(posterior: Posterior, program: Program, values: Array, rows: Array) -> Array:
    """Return the mean of a summand at scaled rows, scaled: K_j a without any variance, where the engine has an a."""
    weights = posterior.row_weights
    if weights is None:
        return posterior.predict_part(program, values, rows).mean
    mean, step = np.empty(len(rows)), max(1, 4_000_000 // max(1, len(weights)))  # 32 MB at a time
    for start in range(0, len(rows), step):
        mean[start : start + step] = (
            fused.cross(program, values, rows[start : start + step], posterior.data.X) @ weights
        )
    return mean


def average(weights: Array, means: Array, variances: Array) -> Prediction:
    """Return mean sum_m w_m m_m and variance sum_m w_m (v_m + (m_m - mean)^2), with weights that add up to one."""
    weights = weights / weights.sum(axis=0)
    mean = (weights * means).sum(axis=0)
    return Prediction(mean, (weights * (variances + (means - mean) ** 2)).sum(axis=0))


_SUBJECTS: WeakKeyDictionary[Fitted, Subject] = WeakKeyDictionary()  # the explanation and all pictures share one


def subject_of(fitted: Fitted) -> Subject:
    """Return the winner with its data."""
    if fitted not in _SUBJECTS:
        first, training = fitted.winner, fitted.training
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
            named=fitted.columns.has_names,
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
            shown = name if table.has_names else f"column {name}"
            source, level = each.name if table.has_names else shown, levels[place] if levels and not coded else None
            moment = None if unit is None else partial(_find_moment, each)
            ends = float(low[d]), float(high[d])
            found = Column(shown, unit, *ends, show, source, level, bool(whole[d]), moment=moment)
            if coded:
                found = replace(found, levels=levels, codes=tuple(map(float, range(len(levels)))))
            columns.append(found)
    return columns


def _find_moment(column: Any, value: float) -> np.datetime64:
    """Return the date of a number, of a column of dates."""
    moment: np.datetime64 = column.timeline.moments([round(value, 9)])[0]
    return moment


@lru_cache(maxsize=4096)  # of all kernels that a search tried
def structure_text(kernel: Expression, names: tuple[str, ...] | None, columns: int) -> str:
    """Return a kernel without its numbers; without columns, too, where there is only one."""
    bare = structure(kernel)
    if columns > 1:
        return bare.text(names=names)
    nowhere = bare.map_leaves(lambda leaf: build_base(leaf.symbol, components=leaf.components))
    return nowhere.map_owners(lambda owner: replace(owner, dims=None) if isinstance(owner, Surface) else owner).text()
