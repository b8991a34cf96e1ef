"""What estimators have in common: settings, and checks on what the user gives.

Arrays or tables in, finite numbers out, or an error that names the column.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib import import_module
from inspect import signature
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import check_array, check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer.errors import DataWarning, InputError, InputTypeError
from mercer.explain.search import ChosenLearner, tell_choice
from mercer.explain.wording import Vocabulary
from mercer.explain.words import Narrator
from mercer.fitting.calendar import rhythms_in
from mercer.fitting.minimise import Clock, Progress
from mercer.fitting.problem import FitOptions
from mercer.inference.choose import Choice
from mercer.inference.contract import Engine
from mercer.inference.lattice import MOST_MISSING, find_lattice
from mercer.kernels.algebra import size, structure
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import SMALLEST_SQUARE, Units
from mercer.learners.contract import DataFacts, Learner, Plan
from mercer.model import archive
from mercer.model.fitted import LEARNERS, Columns, TrainingRows

Value = TypeVar("Value")
Model = TypeVar("Model")
Policy = TypeVar("Policy")
A_LEARNER = "a learner, as in kernel=mercer.GrammarSearch()"


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

    noise_ = Shown(lambda fitted: fitted.noise)
    status_ = Shown(lambda fitted: fitted.status)
    message_ = Shown(lambda fitted: fitted.message)
    inference_ = Shown(lambda fitted: fitted.choice)


class NestedSettings:
    """Lets `get_params` and `set_params` reach the settings of a learner or an engine.

    They are called `kernel__max_depth` or `inference__inducing`. Learners and engines do not change: a copy with the
    new setting takes the place of the old one.
    """

    with_settings: ClassVar[Mapping[str, str]] = {}  # the parameters that may have some, and as what

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, with `deep` those of a learner and an engine too."""
        own: dict[str, Any] = super().get_params(deep=False)  # type: ignore[misc]
        parts = own.items() if deep else ()
        return own | {f"{name}__{key}": value for name, part in parts for key, value in settings_of(part).items()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters; those of a learner are called `kernel__` and its own name, of an engine `inference__`."""
        known, own = self.get_params(deep=False), dict(params)
        nested: dict[str, dict[str, Any]] = {}
        for name in params:
            outer, divider, inner = name.partition("__")
            if divider and outer in known:
                nested.setdefault(outer, {})[inner] = own.pop(name)
        super().set_params(**own)  # type: ignore[misc]
        for name, changes in nested.items():
            setattr(self, name, change_settings(name, getattr(self, name), changes, self.with_settings.get(name)))
        return self


class Estimator(NestedSettings):
    """What estimators that keep a `fitted_` have in common."""

    fitted_: Any
    kernel_ = Shown(lambda fitted: fitted.kernel)
    stopped_ = Shown(lambda fitted: fitted.stopped)
    notes_ = Shown(lambda fitted: fitted.notes)
    fit_seconds_ = Shown(lambda fitted: fitted.seconds)
    shown_by: ClassVar[str] = ""  # the function of explain/notebook.py that shows a fitted one
    policies: ClassVar[tuple[Any, ...]] = ()  # in place of the defaults, in a subclass: (RacePolicy(sample=100),)

    def _policy(self, kind: Callable[[], Policy]) -> Policy:
        """Return the policy of a kind: the one that was given, or its defaults."""
        return next((each for each in self.policies if type(each) is kind), kind())

    def _repr_html_inner(self) -> str:
        """Return what a notebook shows: what was learned; before, the settings as scikit-learn shows them."""
        return self._write_html() or str(super()._repr_html_inner())  # type: ignore[misc]

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """Return the same for a Jupyter kernel, beside the text."""
        shown: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        own = self._write_html()
        return {**shown, "text/html": own} if own else shown

    def _write_html(self) -> str:
        """Return a fitted model as mathematics and words; nothing where there is none."""
        if not self.shown_by or not hasattr(self, "fitted_"):
            return ""
        return str(getattr(import_module("mercer.explain.notebook"), self.shown_by)(type(self).__name__, self.fitted_))

    def save(self, path: str | Path) -> None:
        """Write the model to a file of JSON and raw arrays, reading which never runs code; `mercer.load` reads it."""
        check_is_fitted(self)
        archive.save(self.fitted_, path)


class TableEstimator(Estimator):
    """What estimators for tables have in common."""

    candidates_ = Shown(lambda fitted: fitted.candidates)
    target_name_ = Shown(lambda fitted: fitted.training.target_name)
    encoding_ = Shown(lambda fitted: fitted.columns.learned)
    X_train_ = Shown(lambda fitted: fitted.training.X)
    column_names_ = Shown(lambda fitted: fitted.columns.names)

    def _rows(self, X: Any) -> Array:
        """Return new rows as numbers, in the units of the data."""
        check_is_fitted(self)
        return read_rows(self, X, self.fitted_.columns)


def settings_of(part: Any) -> dict[str, Any]:
    """Return the settings of a learner or an engine by name; none of anything else."""
    has_some = isinstance(part, Learner | Engine) and is_dataclass(part)
    return {each.name: getattr(part, each.name) for each in fields(part)} if has_some else {}


def change_settings(name: str, part: Any, changes: dict[str, Any], able: str | None) -> Any:
    """Return the learner or engine of a parameter with some of its settings changed; `able`: what would have some."""
    given, first = ", ".join(f"{key}={value!r}" for key, value in changes.items()), next(iter(changes))
    if able == A_LEARNER and isinstance(part, str) and part in LEARNERS:
        raise InputError(
            f"{name} is the text {part!r}, which has no settings: give {name}=mercer.{LEARNERS[part].__name__}"
            f"({given}), and later set_params reaches them as {name}__{first}"
        )
    known = settings_of(part)
    if not known:
        where = f"{name}__{first} is for {able}" if able else f"give {name} as a whole, by set_params({name}=...)"
        raise InputError(f"{name} is {part!r:.60}, which has no setting {first!r}: {where}")
    unknown = [key for key in changes if key not in known]
    if unknown:
        raise InputError(f"{type(part).__name__} has no setting {unknown[0]!r}; it has {', '.join(known)}")
    return replace(part, **changes)


def read_fit_options(estimator: Any, units: Units, zero_noise: bool, **others: Any) -> FitOptions:
    """Return the settings of an estimator that every fit of one kernel has, checked; `zero_noise`: it may be zero."""
    for name in ("restarts", "max_iterations"):
        check_count(name, getattr(estimator, name))
    known, least = estimator.noise, "not below zero" if zero_noise else "greater than zero"
    number = float(known) if isinstance(known, Real) and not isinstance(known, bool) else math.nan
    if known is not None and not (math.isfinite(number) and (number > 0 or (number == 0 and zero_noise))):
        raise InputError(f"noise must be None (fit it) or a variance {least}, not {known!r}")
    return FitOptions(
        restarts=estimator.restarts,
        max_iterations=estimator.max_iterations,
        noise=None if known is None else float(known) / units.y_scale**2,
        seed=read_seed(estimator.random_state),
        **others,
    )


def check_count(name: str, value: Any) -> None:
    """Refuse what is no whole number of at least one."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1, not {value!r}")


def read_seed(random_state: Any) -> int:
    """Return a seed for what is drawn, from what scikit-learn allows as `random_state`."""
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError:
        raise InputError(
            f"random_state must be None, a whole number from 0 to 2**32 - 1, or a RandomState, not {random_state!r}"
        ) from None


def check_progress(progress: Any) -> None:
    """Refuse what cannot be called."""
    if progress is not None and not callable(progress):
        raise InputError(
            f"progress must be True (a bar), a function that is given the state of the fit, or None, not {progress!r}"
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


def is_dask(value: Any) -> bool:
    """Tell whether this is a collection of Dask."""
    return type(value).__module__.split(".")[0] in ("dask", "dask_expr")


@dataclass(frozen=True, eq=False)
class FitInput:
    """What a fit begins with: the rows, the columns that vary, and for a stream the engine."""

    rows: TrainingRows
    varying: list[int]
    choice: Choice | None = None
    notes: tuple[str, ...] = ()

    @property
    def rhythms(self) -> dict[int, tuple[float, ...]]:
        """The periods of the calendar along columns of dates that vary, in scaled units."""
        learned, scale = self.rows.columns.learned, self.rows.units.scale
        units = () if learned is None else learned.units
        return {
            place: tuple(period / scale[place] for period in rhythms_in(unit).values())
            for place, unit in enumerate(units)
            if unit is not None and place in self.varying
        }


def read_training(estimator: Any, X: Any, y: Any, one_hot: bool = False) -> FitInput:
    """Return the rows of a table in memory that have a target, with how they are scaled to unit spread.

    Codes of categories stay what they are.
    """
    matrix, columns = read_table(estimator, X, one_hot)
    target = read_target(estimator, y, len(matrix))
    missing = np.isnan(target)
    if missing.any():
        note = f"{int(missing.sum())} of {len(target)} rows have no target value (NaN) and were left out"
        warnings.warn(note, DataWarning, stacklevel=3)
        matrix, target = matrix[~missing], target[~missing]
    check_variation(len(target), target)
    varies = matrix.min(axis=0) < matrix.max(axis=0)
    varying = find_varying(varies, columns.names)
    level, y_scale = (float(moment[0]) for moment in measure(target[:, None]))
    coded = np.isin(np.arange(matrix.shape[1]), list(columns.categories))
    shift, spread = measure(matrix)
    for place in np.flatnonzero(varies & ~coded):
        _refuse_extreme(f"column '{columns.names[place]}'", float(spread[place]))
    _refuse_extreme("the target", y_scale)
    units = units_from(np.where(coded, 0.0, shift), spread, varies & ~coded, y_scale).with_squares()
    return FitInput(TrainingRows(matrix, target, units, level, columns, target_name(y)), varying)


def _refuse_extreme(what: str, spread: float) -> None:
    """Refuse numbers whose squares are none, and say by what to multiply them."""
    if not SMALLEST_SQUARE <= spread <= 1.0 / SMALLEST_SQUARE:
        power = math.floor(math.log10(spread)) if 0.0 < spread < math.inf else (308 if spread else -308)
        raise InputError(
            f"{what} varies by about 1e{power:+d}: such numbers are too large or too small to be scaled. Give them in "
            f"another unit, as multiplied by 1e{-power:+d}"
        )


def read_facts(reading: FitInput) -> DataFacts:
    """Return what the choice of a learner goes by."""
    rows, varying = reading.rows, reading.varying
    columns, X = rows.columns, rows.X[:, varying]
    coded = [place for place in varying if place in columns.categories]
    numbers = [place for place in varying if place not in columns.categories]
    units = () if columns.learned is None else columns.learned.units  # dates alone have one
    lattice = find_lattice(X, most_cells=len(X) / (1.0 - MOST_MISSING)) if len(varying) > 1 and not coded else None
    shape = () if lattice is None or rows.source is not None or min(lattice.shape) < 2 else lattice.shape
    return DataFacts(
        rows.count,
        len(varying),
        len(coded),
        sum(place in varying and unit is not None for place, unit in enumerate(units)),
        max((len(np.unique(rows.X[:, place])) for place in numbers), default=0),
        shape,
        in_parts=rows.source is not None,
    )


def describe_plan(plan: Plan, target: str | None) -> ChosenLearner:
    """Return what was chosen, in words too."""
    return tell_choice(plan, Narrator(Vocabulary(target or "the target", ())))


def announce(plan: Plan, rows: Any, progress: Any) -> float:
    """Say what was chosen before the work begins, and return the seconds that do not count for it.

    On a machine where it has never run, the numerical core is compiled first, so that the learner has its time.
    """
    from mercer.inference.core import compile_core, core_is_compiled

    if progress is not None:
        sentence = describe_plan(plan, rows.target_name).sentence
        progress(Progress(0, 1, "kernels", seconds_left=plan.seconds, announcement=sentence))
    if core_is_compiled():
        return 0.0
    clock = Clock()
    compile_core()
    return clock.seconds


def measure(matrix: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of each column, also where squares of its numbers are none.

    They are worked out in units of a power of two, which costs no digit.
    """
    unit = np.ldexp(1.0, np.frexp(np.abs(matrix).max(axis=0))[1] - 1)
    with np.errstate(over="ignore"):  # of numbers that are refused for their size
        return (matrix / unit).mean(axis=0) * unit, (matrix / unit).std(axis=0) * unit


def check_variation(count: int, target: Any) -> None:
    """Refuse to learn from this many rows where their targets, or the least and the largest, do not differ."""
    if count < 2:
        raise InputError(
            f"n_samples={count}: at least 2 rows with a target are needed to learn anything; give more data"
        )
    if np.min(target) == np.max(target):
        raise InputError(f"the target is the same ({target[0]:g}) in all {count} rows: there is nothing to learn")


def target_name(y: Any) -> str | None:
    """Return the name of a target that has one."""
    name = getattr(y, "name", None)
    return None if name is None else str(name)


def units_from(shift: Array, spread: Array, varies: NDArray[np.bool_], y_scale: float) -> Units:
    """Return units of unit spread; a column that does not vary keeps its own."""
    scale = np.where(varies, spread, 1.0)
    return Units(tuple(map(float, shift)), tuple(map(float, scale)), y_scale)


def read_table(estimator: Any, X: Any, one_hot: bool = False) -> tuple[Array, Columns]:
    """Return X as a finite float64 matrix with its columns; dates, categories and texts are encoded as numbers.

    one_hot : categories as zeros and ones, one column for each.
    """
    _check_table(X)
    X = _fill_sparse(X)
    dtypes = getattr(X, "dtypes", None)
    if hasattr(X, "columns") and dtypes is not None and any(d.kind not in "biuf" for d in dtypes):
        from mercer.tables import Encoding

        _check_names(estimator, X, reset=True)
        encoding = Encoding.learn(X, one_hot)
        return np.asarray(encoding.apply(X)), replace(_columns(estimator), learned=encoding)
    matrix = _numbers(estimator, X, reset=True)
    return matrix, _columns(estimator)


def read_rows(estimator: Any, X: Any, columns: Columns) -> Array:
    """Return new rows as the matrix that a fitted estimator needs."""
    _check_table(X)
    X = _fill_sparse(X)
    if columns.learned is not None and hasattr(X, "columns"):
        _check_names(estimator, X, reset=False)
        return columns.encode(X)
    return _numbers(estimator, X, reset=False)


def _check_table(X: Any) -> None:
    """Refuse what has no rows and columns, and columns that cannot be distinguished."""
    _check_container(X, "X")
    if _is_single(X):
        raise InputError(
            f"X must be a table or an array of rows and columns, not {X!r:.60}: give a pandas DataFrame, or numbers "
            "such as [[1.0], [2.0]]"
        )
    if not (hasattr(X, "columns") and hasattr(X, "dtypes")):
        return
    names = Counter(map(str, X.columns))
    if not names:
        raise InputError("the table X has no columns: give at least one to learn from")
    name, count = names.most_common(1)[0]
    if count > 1:
        raise InputError(f"{count} columns of X are called '{name}': give each a name of its own, or drop one")


def _fill_sparse(X: Any) -> Any:
    """Return a pandas table with its sparse columns written out."""
    columns = getattr(getattr(X, "dtypes", None), "items", dict[Any, Any]().items)()
    thin = {name: kind.subtype for name, kind in columns if hasattr(kind, "fill_value")}
    return X.astype(thin) if thin else X


def _check_names(estimator: Any, X: Any, reset: bool) -> None:
    """See that a table has the columns of the one that was learned from, or (`reset`) remember them."""
    try:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    except (TypeError, ValueError) as error:
        raise _as_input_error(error) from None


def _check_container(given: Any, name: str) -> None:
    """Refuse sparse matrices, complex numbers and tensors that NumPy cannot read."""
    if issparse(given):
        raise InputError(f"{name} is a sparse matrix, and a dense one is needed: give {name}.toarray()")
    if getattr(given, "requires_grad", False) is True:
        raise InputError(f"{name} is a tensor with gradients, which are not followed: give {name}.detach()")
    if getattr(getattr(given, "device", None), "type", "cpu") != "cpu":
        raise InputError(f"{name} is on another device: give {name}.cpu()")
    if str(getattr(given, "dtype", "")) == "torch.bfloat16":
        raise InputError(f"{name} is a tensor of bfloat16, which NumPy does not know: give {name}.double()")
    if getattr(getattr(given, "dtype", None), "kind", "") == "c":
        raise InputError(f"Complex data not supported: give the real and the imaginary part of {name} on their own")


def _is_single(given: Any) -> bool:
    """Tell whether this is one thing, where a list of them is needed."""
    return given is None or isinstance(given, Mapping) or np.isscalar(given) or getattr(given, "ndim", None) == 0


def _columns(estimator: Any) -> Columns:
    """Return the columns that scikit-learn has seen."""
    names = getattr(estimator, "feature_names_in_", None)
    return Columns(estimator.n_features_in_, None if names is None else tuple(map(str, names)))


def _numbers(estimator: Any, X: Any, reset: bool) -> Array:
    """Return X as a finite matrix; otherwise say where the first entry is that is not a finite number."""
    if np.ma.is_masked(X):
        count = int(np.ma.getmaskarray(X).sum())
        raise InputError(f"X is a masked array with {count} masked entries; drop these rows or fill them in")
    try:
        matrix = np.asarray(validate_data(estimator, X, reset=reset, dtype=np.float64, ensure_all_finite=False))
    except (TypeError, ValueError, OverflowError) as error:
        _refuse_cells(X)
        raise _as_input_error(error) from None
    bad = ~np.isfinite(matrix)
    if bad.any():
        column = int(np.flatnonzero(bad.any(axis=0))[0])
        places = np.flatnonzero(bad[:, column])
        kind = "NaN" if np.isnan(matrix[places[0], column]) else "infinity"
        found = "one such entry," if len(places) == 1 else f"{len(places)} such entries, the first"
        raise InputError(
            f"Input X contains {kind} in column '{_columns(estimator).names[column]}' ({found} in row "
            f"{places[0] + 1}); drop these rows or fill them in"
        )
    return matrix


def _refuse_cells(X: Any) -> None:
    """Refuse the first cell that is no number, if there is one."""
    try:
        rows = np.asarray(X, dtype=object)
    except (TypeError, ValueError):  # rows of different lengths
        return
    if rows.ndim < 2:
        raise InputError(
            f"Expected 2D array: X must have rows and columns, as in [[1.0], [2.0]], not {rows.ndim} dimension. "
            "Reshape your data: X.reshape(-1, 1) is one column"
        )
    for column, name in enumerate(getattr(X, "columns", range(rows.shape[1])) if rows.ndim == 2 else ()):
        for row, entry in enumerate(rows[:, column]):
            reason = _why_no_number(entry)
            if reason is not None:
                kind = InputTypeError if isinstance(reason, TypeError) else InputError
                raise kind(
                    f"column '{name}', row {row + 1}: {entry!r:.80} is not a number ({reason!s:.80}); correct it, "
                    "leave the column out, or give a pandas table, whose columns of dates and categories are understood"
                )


def _why_no_number(entry: Any) -> Exception | None:
    """Return what Python says of an entry that is no number."""
    try:
        float(entry)
    except (TypeError, ValueError, OverflowError) as error:
        return error
    return None


def _as_input_error(error: Exception) -> InputError:
    """Return what scikit-learn says of an argument as an error of the user's."""
    return (InputTypeError if isinstance(error, TypeError) else InputError)(str(error))


def read_column(estimator: Any, y: Any, rows: int) -> NDArray[Any]:
    """Return y as a vector with an entry for each row."""
    if y is None:
        raise InputError(f"This {type(estimator).__name__} requires y to be passed, but the target y is None")
    if _is_single(y):
        raise InputError(f"y must hold one value for each of the {rows} rows, not {y!r:.60} alone")
    if np.ma.is_masked(y):
        raise InputError("y is a masked array with masked entries; drop these rows")
    _check_container(y, "y")
    try:
        target = column_or_1d(check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False), warn=True)
    except (TypeError, ValueError, OverflowError) as error:
        raise _as_input_error(error) from None
    if len(target) != rows:
        raise InputError(f"X has {rows} rows and y has {len(target)}: give one value of y for each row")
    return np.asarray(target)


def read_target(estimator: Any, y: Any, rows: int) -> Array:
    """Return y as a float64 vector, NaN allowed (those rows are dropped later), infinity not."""
    if np.ma.is_masked(y) and y.dtype.kind in "biuf":
        y = np.ma.filled(y.astype(np.float64), np.nan)
    given = read_column(estimator, y, rows)
    if given.dtype.kind in "mM":
        raise InputError(f"the target must hold numbers, not dates or durations; its first entry is {given[0]}")
    try:
        target = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        row = next((row for row, entry in enumerate(given) if _why_no_number(entry) is not None), 0)
        first = f"row {row + 1} holds {given[row]!r:.80}"
        raise InputError(f"the target must hold numbers; {first}. For classes use mercer.KernelSVC") from None
    if np.isinf(target).any():
        row = int(np.flatnonzero(np.isinf(target))[0]) + 1
        raise InputError(f"Input y contains infinity (first in row {row}); drop these rows")
    return target


def find_varying(varying: NDArray[np.bool_], names: list[str]) -> list[int]:
    """Return the columns that vary, with a warning about those that do not; where none does, all."""
    if not varying.all():
        constant = ", ".join(f"'{names[d]}'" for d in np.flatnonzero(~varying))
        warnings.warn(
            f"column(s) {constant} never change and were ignored: they carry no information", DataWarning, stacklevel=4
        )
    return [int(d) for d in np.flatnonzero(varying)] or list(range(len(names)))


def note_categories(given: Expression, bound: Expression, names: Sequence[str]) -> tuple[str, ...]:
    """Return a note where a kernel was spread over categories that it does not name."""
    if size(given) == size(bound):
        return ()
    shown = structure(bound).text(names=names)
    return (f"the kernel names no column of categories: {structure(given).text()} was taken to mean {shown}",)
