"""Checks on what the user gives: arrays or tables in, finite numbers out, or an error that names the column."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from inspect import signature
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeGuard, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer.errors import DataWarning, InputError
from mercer.fitting.problem import FitOptions
from mercer.inference.choose import Choice
from mercer.kernels.domains import Array
from mercer.kernels.parameters import Units
from mercer.learners.contract import Learner
from mercer.model.fitted import LEARNERS, Columns, TrainingRows

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Value = TypeVar("Value")
Model = TypeVar("Model")
Policy = TypeVar("Policy")
NESTED = "kernel__"  # before the name of a learner's setting


class EstimatorSettings:
    """Lets `get_params` and `set_params` of an estimator reach the settings of a learner, as `kernel__max_depth`.

    Learners do not change: a copy with the new setting takes the place of the old one.
    """

    kernel: Any
    policies: ClassVar[tuple[Any, ...]] = ()  # in place of the defaults, in a subclass: (RacePolicy(sample=100),)

    def _policy(self, kind: Callable[[], Policy]) -> Policy:
        """Return the policy of a kind: the one that was given, or its defaults."""
        return next((each for each in self.policies if type(each) is kind), kind())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, with `deep` those of a learner too."""
        own: dict[str, Any] = super().get_params(deep=False)  # type: ignore[misc]
        if deep:
            own |= {f"{NESTED}{name}": value for name, value in learner_settings(self.kernel).items()}
        return own

    def set_params(self, **params: Any) -> Self:
        """Set parameters; those of a learner are called `kernel__` and its own name."""
        nested = {name.removeprefix(NESTED): value for name, value in params.items() if name.startswith(NESTED)}
        super().set_params(**{name: value for name, value in params.items() if not name.startswith(NESTED)})  # type: ignore[misc]
        if nested:
            self.kernel = change_learner(self.kernel, nested)
        return self


def learner_settings(kernel: Any) -> dict[str, Any]:
    """Return the settings of a learner by name; none of anything else."""
    return {f.name: getattr(kernel, f.name) for f in fields(kernel)} if _has_settings(kernel) else {}


def change_learner(kernel: Any, changes: dict[str, Any]) -> Learner:
    """Return a learner with some of its settings changed."""
    given = ", ".join(f"{name}={value!r}" for name, value in changes.items())
    if isinstance(kernel, str) and kernel in LEARNERS:
        learner = LEARNERS[kernel].__name__
        raise InputError(
            f"kernel is the text {kernel!r}, which has no settings: give kernel=mercer.{learner}({given}), and later "
            f"set_params reaches them as {NESTED}{next(iter(changes))}"
        )
    if not _has_settings(kernel):
        raise InputError(
            f"kernel is {kernel!r:.60}: {given} can only be set for a learner ({', '.join(map(repr, LEARNERS))})"
        )
    known = learner_settings(kernel)
    unknown = [name for name in changes if name not in known]
    if unknown:
        raise InputError(f"{type(kernel).__name__} has no setting {unknown[0]!r}; it has {', '.join(known)}")
    return cast("Learner", replace(kernel, **changes))


def _has_settings(kernel: Any) -> TypeGuard[DataclassInstance]:
    return isinstance(kernel, Learner) and is_dataclass(kernel)


class Shown(Generic[Value]):
    """An attribute of a fitted estimator that is read from its `fitted_`."""

    def __init__(self, read: Callable[[Any], Value]) -> None:
        self.read = read

    def __get__(self, estimator: Any, owner: Any = None) -> Value:
        if estimator is None:
            return self  # type: ignore[return-value]  # the class is asked: it has the descriptor
        check_is_fitted(estimator)
        return self.read(estimator.fitted_)

    def __set__(self, estimator: Any, value: Any) -> None:
        raise AttributeError("what a fit found cannot be assigned; see `fitted_`, whose fields `replace` can change")


class ShownFit:
    """What the fit of one kernel found, of any estimator whose `fitted_` has it."""

    kernel_ = Shown(lambda fitted: fitted.kernel)
    noise_ = Shown(lambda fitted: fitted.noise)
    status_ = Shown(lambda fitted: fitted.status)
    message_ = Shown(lambda fitted: fitted.message)
    stopped_ = Shown(lambda fitted: fitted.stopped)
    inference_ = Shown(lambda fitted: fitted.choice)
    notes_ = Shown(lambda fitted: fitted.notes)
    fit_seconds_ = Shown(lambda fitted: fitted.seconds)


def read_fit_options(estimator: Any, units: Units, zero_noise: bool, **others: Any) -> FitOptions:
    """Return the settings of an estimator that every fit of one kernel has, checked; `zero_noise`: it may be zero."""
    for name in ("restarts", "max_iterations"):
        value = getattr(estimator, name)
        if not isinstance(value, int | np.integer) or value < 1:
            raise InputError(f"{name} must be a whole number of at least 1, not {value!r}")
    known, least = estimator.noise, "not below zero" if zero_noise else "greater than zero"
    number = float(known) if isinstance(known, Real) else math.nan
    if known is not None and not (math.isfinite(number) and (number > 0 or (number == 0 and zero_noise))):
        raise InputError(f"noise must be None (fit it) or a variance {least}, not {known!r}")
    return FitOptions(
        restarts=estimator.restarts,
        max_iterations=estimator.max_iterations,
        noise=None if known is None else float(known) / units.y_scale**2,
        seed=int(check_random_state(estimator.random_state).randint(2**31 - 1)),
        **others,
    )


def restore(kind: Callable[..., Model], options: Mapping[str, Any], fitted: Any) -> Model:
    """Return a fitted estimator from what a file holds; options that it does not have are passed over."""
    known = signature(kind).parameters
    model = kind(**{name: value for name, value in options.items() if name in known})
    vars(model)["fitted_"] = fitted
    columns = getattr(fitted, "columns", None)
    if columns is not None:  # what scikit-learn checks later tables by
        name_columns(model, columns)
    return model


def name_columns(estimator: Any, columns: Columns) -> None:
    """Give an estimator what scikit-learn checks later tables by."""
    estimator.n_features_in_ = columns.count
    if columns.features is not None:
        estimator.feature_names_in_ = np.array(columns.features, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def is_streamed(X: Any) -> bool:
    """Tell whether X is read or worked on in parts: `mercer.ParquetRows`, or a collection of Dask."""
    return type(X).__name__ == "ParquetRows" or is_dask(X)


def is_dask(value: Any) -> bool:
    """Tell whether this is a collection of Dask."""
    return type(value).__module__.split(".")[0] in ("dask", "dask_expr")


def is_mixed_table(X: Any) -> bool:
    """Tell whether X is a pandas table with dates, categories or text: those columns are encoded as numbers."""
    dtypes = getattr(X, "dtypes", None)
    return hasattr(X, "columns") and dtypes is not None and any(d.kind not in "biuf" for d in dtypes)


@dataclass(frozen=True, eq=False)
class Reading:
    """What a fit begins with: the rows, the columns that vary, and for a stream the engine."""

    rows: TrainingRows
    varying: list[int]
    choice: Choice | None = None
    notes: tuple[str, ...] = ()


def read_training(estimator: Any, X: Any, y: Any) -> Reading:
    """Return the rows of a table in memory that have a target, with how they are scaled."""
    matrix, columns = read_table(estimator, X)
    matrix, target = drop_missing_targets(matrix, read_target(y, len(matrix)))
    varying = find_varying(np.ptp(matrix, axis=0) > 0, columns.names)
    if np.ptp(target) == 0:
        raise InputError(f"the target is the same ({target[0]:g}) in all {len(target)} rows: there is nothing to learn")
    units, level = scaling(matrix, target)
    rows = TrainingRows(matrix, target, units, level, columns, target_name(y))
    return Reading(rows, varying)


def target_name(y: Any) -> str | None:
    """Return the name of a target that has one."""
    name = getattr(y, "name", None)
    return None if name is None else str(name)


def scaling(X: Array, y: Array) -> tuple[Units, float]:
    """Centre and scale to unit spread; a constant column keeps its unit."""
    shift, spread = X.mean(axis=0), X.std(axis=0)
    return units_from(shift, np.where(np.ptp(X, axis=0) > 0, spread, 0.0), float(y.std())), float(y.mean())


def units_from(shift: Array, spread: Array, y_scale: float) -> Units:
    """Return units of unit spread; a column that has none keeps its own."""
    scale = np.where(spread > 0, spread, 1.0)
    if not (math.isfinite(y_scale) and y_scale > 0 and np.isfinite(scale).all() and np.isfinite(shift).all()):
        raise InputError(
            "the numbers are too large or too small to be scaled: change their unit (by a factor of 1000, say)"
        )
    return Units(tuple(map(float, shift)), tuple(map(float, scale)), y_scale)


def read_table(estimator: Any, X: Any) -> tuple[Array, Columns]:
    """Return X as a finite float64 matrix with its columns; dates and categories are encoded as numbers."""
    if is_mixed_table(X):
        from mercer.tables import Encoding

        validate_data(estimator, X, reset=True, skip_check_array=True)
        encoding = Encoding.learn(X)
        return np.asarray(encoding.apply(X)), Columns(estimator.n_features_in_, _features(estimator), encoding)
    matrix = _numbers(estimator, X, reset=True)
    columns = Columns(estimator.n_features_in_, _features(estimator))
    _require_finite(matrix, columns.names)
    return matrix, columns


def read_rows(estimator: Any, X: Any, columns: Columns) -> Array:
    """Return new rows as the matrix that a fitted estimator needs."""
    if columns.learned is not None and hasattr(X, "columns"):
        validate_data(estimator, X, reset=False, skip_check_array=True)
        return columns.encode(X)
    matrix = _numbers(estimator, X, reset=False)
    _require_finite(matrix, columns.names)
    return matrix


def _features(estimator: Any) -> tuple[str, ...] | None:
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else tuple(map(str, names))


def _numbers(estimator: Any, X: Any, reset: bool) -> Array:
    try:
        return np.asarray(validate_data(estimator, X, reset=reset, dtype=np.float64, ensure_all_finite=False))
    except ValueError as error:
        if "could not convert" in str(error):
            _refuse_text(X)
        raise


def _refuse_text(X: Any) -> None:
    """Say where the first entry is that is not a number."""
    rows = np.asarray(X, dtype=object)
    names = getattr(X, "columns", range(rows.shape[1]))
    for column, name in enumerate(names):
        for row, entry in enumerate(rows[:, column]):
            try:
                float(entry)
            except (TypeError, ValueError):
                raise InputError(
                    f"column '{name}', row {row + 1}: {entry!r} is not a number; correct it, leave the column out, or "
                    "give a pandas table, whose columns of dates and categories are understood"
                ) from None


def _require_finite(matrix: Array, names: list[str]) -> None:
    bad = ~np.isfinite(matrix)
    if bad.any():
        column = int(np.flatnonzero(bad.any(axis=0))[0])
        rows = np.flatnonzero(bad[:, column])
        kind = "NaN" if np.isnan(matrix[rows[0], column]) else "infinity"
        raise InputError(
            f"Input X contains {kind} in column '{names[column]}' ({len(rows)} such entries, the first in row "
            f"{rows[0] + 1}); drop these rows or fill them in"
        )


def read_target(y: Any, rows: int) -> Array:
    """Return y as a float64 vector, NaN allowed (those rows are dropped later), infinity not."""
    if y is None:
        raise InputError("This GPRegressor requires y to be passed, but the target y is None")
    target = column_or_1d(check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False), warn=True)
    if target.dtype.kind in "mM":
        raise InputError(f"the target must hold numbers, not dates or durations; its first entry is {target[0]}")
    try:
        target = np.asarray(target, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"the target must hold numbers; its first entry is {target[0]!r}") from None
    if len(target) != rows:
        raise InputError(f"X has {rows} rows and y has {len(target)}: they must agree")
    if np.isinf(target).any():
        row = int(np.flatnonzero(np.isinf(target))[0]) + 1
        raise InputError(f"Input y contains infinity (first in row {row}); drop these rows")
    return np.asarray(target)


def drop_missing_targets(X: Array, y: Array) -> tuple[Array, Array]:
    """Drop the rows whose target is NaN, and say how many."""
    missing = np.isnan(y)
    if missing.any():
        warnings.warn(
            f"{int(missing.sum())} of {len(y)} rows have no target value (NaN) and were left out",
            DataWarning,
            stacklevel=4,
        )
        X, y = X[~missing], y[~missing]
    if len(y) < 2:
        raise InputError(
            f"n_samples={len(y)}: at least 2 rows with a target are needed to learn anything; give more data"
        )
    return X, y


def find_varying(varying: NDArray[np.bool_], names: list[str]) -> list[int]:
    """Return the columns that vary, with a warning about those that do not; where none does, all."""
    if not varying.all():
        constant = ", ".join(f"'{names[d]}'" for d in np.flatnonzero(~varying))
        warnings.warn(
            f"column(s) {constant} never change and were ignored: they carry no information", DataWarning, stacklevel=4
        )
    return [int(d) for d in np.flatnonzero(varying)] or list(range(len(names)))
