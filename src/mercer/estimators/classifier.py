"""`KernelSVC`: a support vector machine whose kernel is learned, in scikit-learn's conventions."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d

from mercer.errors import DataWarning, InputError, NumericalError
from mercer.estimators import inputs
from mercer.estimators.inputs import EstimatorSettings, Shown
from mercer.explain.classes import ClassExplanation, explain_classes
from mercer.fitting.minimise import fit
from mercer.fitting.problem import FitOptions
from mercer.inference.choose import check_memory
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression
from mercer.kernels.parameters import Units, bind, to_data_units, to_scaled_units, values_of
from mercer.learners.classes import (
    ColumnScales,
    CrossValidation,
    LearnedForClasses,
    choose_cost,
    combine_kernels,
    draw_rows,
    evaluate_blocks,
    make_candidate,
    scale_columns,
)
from mercer.learners.contract import Candidate, Context, Learner, Stopped
from mercer.learners.kfo import KernelFunctional
from mercer.learners.margin import ClassScore, Labels, cross_validate, make_folds, split_gram
from mercer.model import archive
from mercer.model.classes import FittedClasses, LabelledRows, fit_machine, gram_of
from mercer.model.fitted import CLASS_KERNELS, LEARNERS, candidate_in_data_units, expression_or_learner

MIXED = "SE + M32 + LIN"
RBF_FACTORS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)  # of the median distance
RBF_ROWS = 1500
LABEL_ROWS = 400  # that the parameters of a given kernel are fitted to
SEEN = "the kernel had seen the rows that were left out, so their error is too low: new rows will tell"
NUS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
SYMMETRIC = 1e-8  # of the largest entry: by how much a Gram matrix may differ from its transpose


class KernelSVC(EstimatorSettings, ClassifierMixin, BaseEstimator):
    """Support vector classification with a kernel that is found on the training rows.

    Parameters
    ----------
    kernel : str, Expression or learner
        "kfo" or a `mercer.KernelFunctional`: a kernel without a formula, found by cross-validation; "kfo-mkl": that and
        SE, Matern 3/2 and LIN, with weights. "search" and "nkn" (or their learners), and an expression with parameters
        to be found such as "M32" or "SM4", are fitted to the labels by the evidence of a Gaussian process. "mkl" and
        "mkl-uniform" mix standard kernels, "rbf" and "linear" are the usual ones. With "precomputed" X is a Gram
        matrix.
    C : "auto" or float
        The cost of a row on the wrong side; "auto" chooses it by cross-validation on the training rows.
    nu : None, "auto" or float
        For a nu-SVM in place of a C-SVM, which has no C.
    random_state : int, RandomState or None
        Seed of folds, samples and the search.

    Attributes
    ----------
    classes_ : the classes, in order.
    kernel_ : Expression, the kernel in the units of the data (None for "precomputed").
    C_, nu_ : the cost (or nu) that is used.
    error_ : share of rows misclassified when left out, with this kernel and cost, on the training rows.
    functional_ : with "kfo-mkl", the functional before other kernels were added to it; else None.
    candidates_ : every kernel that was tried, with its cross-validated score.
    stopped_, notes_, fit_seconds_ : as in `GPRegressor`.
    """

    def __init__(
        self,
        kernel: str | Expression | Learner = "kfo",
        *,
        C: str | float = "auto",
        nu: str | float | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.nu = nu
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is_gram
        return tags

    # ------------------------------------------------------------------------------------------------------- fitting

    fitted_: FittedClasses
    classes_ = Shown(lambda fitted: fitted.training.classes)
    kernel_ = Shown(lambda fitted: fitted.kernel)
    C_ = Shown(lambda fitted: fitted.cost)
    nu_ = Shown(lambda fitted: fitted.nu)
    error_ = Shown(lambda fitted: fitted.error)
    functional_ = Shown(lambda fitted: fitted.functional)
    candidates_ = Shown(lambda fitted: fitted.candidates)
    stopped_ = Shown(lambda fitted: fitted.stopped)
    notes_ = Shown(lambda fitted: fitted.notes)
    fit_seconds_ = Shown(lambda fitted: fitted.seconds)
    target_name_ = Shown(lambda fitted: fitted.training.target_name)
    encoding_ = Shown(lambda fitted: fitted.columns.learned)
    X_train_ = Shown(lambda fitted: fitted.training.X)
    column_names_ = Shown(lambda fitted: fitted.columns.names)

    def fit(self, X: Any, y: Any, progress: Any = None) -> KernelSVC:
        """Find the kernel and the cost, and fit the machine. `progress(state)` is called after every kernel tried."""
        started = time.perf_counter()
        kernel, given = self.kernel, self._is_gram
        if not (isinstance(kernel, str) and (given or kernel in CLASS_KERNELS)):
            kernel = expression_or_learner(kernel)
        cost = _read_cost("C", self.C, np.inf)
        nu = None if self.nu is None else _read_cost("nu", self.nu, 1.0)
        if cost is not None and self.nu is not None:
            raise InputError(f"C={self.C!r} and nu={self.nu!r} were given: a nu-SVM has no C. Give one of them")
        matrix, columns = inputs.read_table(self, X)
        matrix, target = self._read_labels(matrix, y)
        check_memory(len(matrix))
        classes, labels = np.unique(target, return_inverse=True)
        _check_classes(classes, labels)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if given:
            _check_gram(matrix)
        units = Units((0.0,) * len(matrix), (1.0,) * len(matrix)) if given else _scaling(matrix)
        training = LabelledRows(matrix, labels, classes, units, columns, inputs.target_name(y))
        learned = None if given else _learn(kernel, training, seed, progress)
        scaled_kernel = None if learned is None else learned.kernel
        gram, clip = gram_of(scaled_kernel, training)
        if learned is None:
            folds = make_folds(labels, seed)
            score = cross_validate(split_gram(gram, folds), labels, folds)
            told = "the Gram matrix has eigenvalues below zero; they were clipped"
            notes: tuple[str, ...] = () if clip is None else (told,)
        else:
            score, notes = ClassScore(learned.cost, learned.error, math.nan), learned.notes
        if self.nu is not None and nu is None:
            nu = _choose_nu(scaled_kernel, training, seed)
        highest = _highest_nu(labels)
        if nu is not None and nu > highest:
            raise InputError(f"nu={nu:g} is too high for classes so uneven: give up to {highest:.3g}, or 'auto'")
        cost = float(score.cost) if cost is None else cost
        functional = None if learned is None else learned.functional
        self.fitted_ = FittedClasses(
            training=training,
            kernel=None if scaled_kernel is None else to_data_units(scaled_kernel, units),
            scaled_kernel=scaled_kernel,
            clip=clip,
            cost=cost,
            nu=nu,
            error=score.error,
            machine=fit_machine(gram, labels, cost, nu, seed),
            seed=seed,
            options=self.get_params(deep=False),
            functional=None if functional is None else to_data_units(functional, units),
            candidates=tuple(candidate_in_data_units(c, units, 0) for c in (learned.candidates if learned else ())),
            notes=notes,
            stopped=learned.stopped if learned else "",
            seconds=time.perf_counter() - started,
        )
        return self

    @property
    def _is_gram(self) -> bool:
        """Whether X is a Gram matrix."""
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _read_labels(self, matrix: Array, y: Any) -> tuple[Array, Any]:
        if y is None:
            raise InputError("This KernelSVC requires y to be passed, but the target y is None")
        target = column_or_1d(check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False), warn=True)
        if len(target) != len(matrix):
            raise InputError(f"X has {len(matrix)} rows and y has {len(target)}: they must agree")
        missing = np.array([value is None or value != value for value in target], dtype=bool)  # NaN is not itself
        if missing.any() and self._is_gram:
            raise InputError("with a precomputed Gram matrix every row needs a class; leave out the rows without one")
        if missing.any():
            told = f"{int(missing.sum())} of {len(target)} rows have no class and were left out"
            warnings.warn(told, DataWarning, stacklevel=3)
            matrix, target = matrix[~missing], target[~missing]
        try:
            check_classification_targets(target)
        except ValueError as error:
            raise InputError(f"{error} Use GPRegressor for a target that is a number.") from None
        if target.dtype.kind == "O" and len({type(value) for value in target}) > 1:
            target = np.array([str(value) for value in target], dtype=object)
        return matrix, target

    # ---------------------------------------------------------------------------------------------------- predicting

    def _rows(self, X: Any) -> Array:
        """Return new rows as numbers, in the units of the data."""
        check_is_fitted(self)
        return inputs.read_rows(self, X, self.fitted_.columns)

    def decision_function(self, X: Any) -> Array:
        """Return the margin of each row; with several classes one for each, the largest being the prediction."""
        rows = self._rows(X)
        return self.fitted_.margins(rows)

    def predict(self, X: Any) -> Any:
        """Return the class of each row."""
        rows = self._rows(X)
        return self.fitted_.predict(rows)

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, calibrated on margins of training rows left out."""
        rows = self._rows(X)
        return self.fitted_.probabilities(rows)

    def explain(self) -> ClassExplanation:
        """Return what was learned as plain data and words: `print` it, or see `to_json`."""
        check_is_fitted(self)
        return explain_classes(self.fitted_)

    def report(self, path: str | Path) -> None:
        """Write the explanation with its pictures to one HTML file that needs nothing else."""
        from mercer.report.classes import write_class_report  # Matplotlib and Jinja take a moment to import

        check_is_fitted(self)
        write_class_report(self.fitted_, path)

    def save(self, path: str | Path) -> None:
        """Write the model to a file of JSON and raw arrays; `mercer.load` reads it."""
        check_is_fitted(self)
        archive.save(self.fitted_, path)


# ---------------------------------------------------------------------------------------------------- finding a kernel


def _learn(kernel: Any, training: LabelledRows, seed: int, report: Any) -> LearnedForClasses:
    """Find a kernel (scaled units) and a cost on the training rows."""
    columns = inputs.find_varying(np.ptp(training.X, axis=0) > 0, training.columns.names)
    if isinstance(kernel, str) and kernel in LEARNERS:
        kernel = LEARNERS[kernel]()
    elif kernel == "kfo-mkl":
        kernel = KernelFunctional(plus=MIXED)
    if isinstance(kernel, Expression | Learner) and not isinstance(kernel, KernelFunctional):
        return _learn_from_labels(kernel, training, columns, seed, report)
    X, labels = training.scaled[:, columns], training.labels
    if isinstance(kernel, KernelFunctional):
        data = Data(X, labels.astype(np.float64))
        found = kernel.learn_classes(Context(data, Exact(), list(range(len(columns))), seed, report=report))
    elif kernel == "rbf":
        found = _choose_lengthscale(X, labels, seed)
    elif kernel == "linear":
        linear = scale_columns(X, labels, seed, ard=False).linear()
        score = choose_cost(linear, X, labels, seed)
        found = LearnedForClasses(linear, score.cost, score.error)
    else:
        found = combine_kernels(X, labels, seed, "easy" if kernel == "mkl" else "uniform")
    return _spread_over_columns(found, columns)


def _choose_lengthscale(X: Array, labels: Labels, seed: int) -> LearnedForClasses:
    """SVM-RBF: lengthscale and cost by cross-validation of the error; the log loss breaks ties."""
    started = time.perf_counter()
    folds = CrossValidation.draw(X, labels, seed, ard=False, most=RBF_ROWS)
    whole = scale_columns(X, labels, seed, ard=False)
    scores = [folds.score_by_svm(partial(_radial, factor=factor)) for factor in RBF_FACTORS]
    seconds = time.perf_counter() - started
    candidates = tuple(
        make_candidate(_radial(whole, factor), score, 0, "lengthscale", seconds)
        for factor, score in zip(RBF_FACTORS, scores, strict=True)
    )
    best = min(range(len(scores)), key=lambda i: (scores[i].error, scores[i].loss))
    return LearnedForClasses(candidates[best].expression, scores[best].cost, scores[best].error, candidates)


def _radial(scales: ColumnScales, factor: float) -> Expression:
    return scales.radial("SE", 0.0, factor)


def _learn_from_labels(
    kernel: Expression | Learner, training: LabelledRows, columns: list[int], seed: int, report: Any
) -> LearnedForClasses:
    """Structure and parameters by the evidence of a Gaussian process on the labels (+1 and -1), the cost by folds.

    With several classes the labels are those of the class that parts the rows most evenly.
    """
    X, labels, names, units = training.scaled, training.labels, training.columns.names, training.units
    shares = np.bincount(labels) / len(labels)
    target = np.where(labels == int(np.argmax(shares * (1.0 - shares))), 1.0, -1.0)
    chosen = draw_rows(labels, LABEL_ROWS, seed)
    data = Data(X[chosen], target[chosen], free_level=True)
    candidates: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()
    stopped: Stopped = ""
    if isinstance(kernel, Expression):
        bound = to_scaled_units(bind(kernel, X.shape[1], names, default=columns), units)
        if np.isnan(values_of(bound)).any():
            options = FitOptions(restarts=3, max_iterations=100, priors=True, seed=seed)
            result = fit(bound, data, Exact(), options, report)
            if result.status == "failed":
                raise NumericalError(f"the kernel could not be fitted to the labels: {result.message}")
            bound, stopped = result.expression, "request" if result.status == "interrupted" else ""
            notes = ("parameters without a value were fitted to the labels by the evidence of a Gaussian process", SEEN)
    else:
        scaled = kernel.scale_kernels(columns, names, units)
        learned = scaled.learn(Context(data, Exact(), columns, seed, report=report))
        bound, candidates, stopped = learned.fit.expression, learned.candidates, learned.stopped
        how = "the kernel was learned from the labels by the evidence of a Gaussian process"
        notes = (*learned.notes, how, SEEN)
    score = choose_cost(bound, X, labels, seed)
    return LearnedForClasses(bound, score.cost, score.error, candidates, notes, stopped)


def _spread_over_columns(learned: LearnedForClasses, columns: list[int]) -> LearnedForClasses:
    """Return what was learned on some columns for the whole table."""

    def move_leaf(leaf: Base) -> Base:
        return leaf if leaf.dims is None else replace(leaf, dims=tuple(columns[int(d)] for d in leaf.dims))

    candidates = tuple(replace(c, expression=c.expression.map_leaves(move_leaf)) for c in learned.candidates)
    functional = None if learned.functional is None else learned.functional.map_leaves(move_leaf)
    return replace(learned, kernel=learned.kernel.map_leaves(move_leaf), candidates=candidates, functional=functional)


def _choose_nu(kernel: Expression | None, training: LabelledRows, seed: int) -> float:
    """Return the nu of nu-SVM with the best cross-validated score."""
    if kernel is None:
        raise InputError("nu='auto' is not offered for a precomputed Gram matrix: give a number")
    known, chosen = kernel, draw_rows(training.labels, RBF_ROWS, seed)
    _, few = np.unique(training.labels[chosen], return_inverse=True)
    rows, folds = training.scaled[chosen], make_folds(few, seed)
    highest = _highest_nu(few)
    feasible = [nu for nu in NUS if nu < 0.95 * highest] or [0.9 * highest]

    def blocks(number: int) -> tuple[Array, Array]:
        train, out = folds[number]
        return evaluate_blocks(known, rows[train], rows[out])

    return cross_validate(blocks, few, folds, feasible, nu=True).cost


def _highest_nu(labels: Labels) -> float:
    """Return the largest nu that a nu-SVM can reach for every pair of classes."""
    counts = np.bincount(labels)
    return float(2.0 * counts.min() / (counts.min() + counts.max()))


# ------------------------------------------------------------------------------------------------------------- checks


def _read_cost(name: str, value: Any, highest: float) -> float | None:
    """Return a number for C or nu, or None for "auto"."""
    if isinstance(value, str) and value == "auto":
        return None
    if isinstance(value, int | float | np.number) and not isinstance(value, bool) and 0 < float(value) <= highest:
        return float(value)
    limit = f" up to {highest:g}" if np.isfinite(highest) else ""
    raise InputError(f"{name} must be 'auto' or a number above zero{limit}, not {value!r}")


def _check_gram(gram: Array) -> None:
    """Refuse what is no Gram matrix."""
    if gram.shape[0] != gram.shape[1]:
        size = f"{gram.shape[0]} x {gram.shape[1]}"
        raise InputError(f"a precomputed Gram matrix should be a square matrix, not {size}")
    off = float(np.abs(gram - gram.T).max())
    if off > SYMMETRIC * float(np.abs(gram).max() or 1.0):
        raise InputError(
            f"the Gram matrix is not symmetric: entries differ from their mirror image by up to {off:.3g}. "
            "A kernel gives k(x, z) = k(z, x); if yours does not, use (G + G.T) / 2."
        )


def _check_classes(classes: Any, labels: Labels) -> None:
    if len(classes) < 2:
        shown = repr(classes[0]) if len(classes) else "none"
        raise InputError(
            f"there is only one class ({shown}) in the {len(labels)} rows: a classifier needs two classes or more. "
            "Check that the target is the column you mean."
        )
    if not make_folds(labels, 0):
        raise InputError(
            f"n_samples={len(labels)}: too few rows of a class to check a kernel on rows left out; give more data"
        )
    counts = np.bincount(labels)
    single = [str(classes[c]) for c in np.flatnonzero(counts == 1)]
    if single:
        shown = ", ".join(map(repr, single[:5])) + (" and more" if len(single) > 5 else "")
        told = "they cannot be checked on rows left out, and will hardly be predicted"
        warnings.warn(f"class(es) {shown} have one member each: {told}", DataWarning, stacklevel=3)


def _scaling(X: Array) -> Units:
    """Centre and scale to unit spread; a constant column keeps its unit."""
    largest = np.abs(X).max(axis=0)
    largest = np.where(largest > 0, largest, 1.0)  # squares of numbers near the ends of the range are none
    shift, spread = (X / largest).mean(axis=0) * largest, (X / largest).std(axis=0) * largest
    scale = np.where((spread > 0) & (np.ptp(X, axis=0) > 0), spread, 1.0)
    if not (np.isfinite(scale).all() and np.isfinite(shift).all()):
        raise InputError("the numbers are too large to be scaled: change their unit (by a factor of 1000, say)")
    return Units(tuple(map(float, shift)), tuple(map(float, scale)))
