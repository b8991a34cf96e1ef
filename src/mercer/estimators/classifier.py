"""`KernelSVC`: a support vector machine whose kernel is learned, in scikit-learn's conventions."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d

from mercer.errors import DataWarning, InputError
from mercer.estimators import inputs
from mercer.estimators.class_kernels import best_nu, checked_cost, checked_kernel, highest_nu, learned_kernel
from mercer.estimators.inputs import Shown
from mercer.explain.classes import ClassExplanation, explain_classes
from mercer.inference.choose import check_memory
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.units import Units, to_data_units
from mercer.learners.classes import LearnedForClasses
from mercer.learners.contract import Learner
from mercer.learners.margin import ClassScore, Labels, cross_validate, make_folds, split_gram
from mercer.model import archive
from mercer.model.classes import FittedClasses, LabelledRows, fit_machine, gram_of
from mercer.model.fitted import candidate_in_data_units
from mercer.model.settings import LearnerSettings

SYMMETRIC = 1e-8  # of the largest entry: by how much a Gram matrix may differ from its transpose


class KernelSVC(LearnerSettings, ClassifierMixin, BaseEstimator):
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
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
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
        kernel = checked_kernel(self.kernel)
        cost = checked_cost("C", self.C, np.inf)
        nu = None if self.nu is None else checked_cost("nu", self.nu, 1.0)
        if cost is not None and self.nu is not None:
            raise InputError(f"C={self.C!r} and nu={self.nu!r} were given: a nu-SVM has no C. Give one of them")
        matrix, columns = inputs.read_table(self, X)
        matrix, target = self._with_labels(matrix, y)
        check_memory(len(matrix))
        classes, labels = np.unique(target, return_inverse=True)
        _check_classes(classes, labels)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        given = kernel == "precomputed"
        if given:
            _check_gram(matrix)
        units = Units((0.0,) * len(matrix), (1.0,) * len(matrix)) if given else _scaling(matrix)
        training = LabelledRows(matrix, labels, classes, units, columns, inputs.target_name(y))
        learned = None if given else _learn(kernel, training, seed, progress)
        scaled_kernel = None if learned is None else learned.kernel
        gram, clip = gram_of(scaled_kernel, training)
        best = _cross_validate_gram(gram, labels, seed) if learned is None else learned
        if self.nu is not None and nu is None:
            nu = _best_nu(scaled_kernel, training, seed)
        highest = highest_nu(labels)
        if nu is not None and nu > highest:
            raise InputError(f"nu={nu:g} is too high for classes so uneven: give up to {highest:.3g}, or 'auto'")
        cost = float(best.cost) if cost is None else cost
        fitted = FittedClasses(
            training=training,
            kernel=None if scaled_kernel is None else to_data_units(scaled_kernel, units),
            scaled_kernel=scaled_kernel,
            clip=clip,
            cost=cost,
            nu=nu,
            error=best.error,
            machine=fit_machine(gram, labels, cost, nu, seed),
            seed=seed,
            options=self.get_params(deep=False),
            notes=("the Gram matrix has eigenvalues below zero; they were clipped",)
            if given and clip is not None
            else (),
        )
        if learned is not None:
            fitted = replace(
                fitted,
                functional=None if learned.functional is None else to_data_units(learned.functional, units),
                candidates=tuple(candidate_in_data_units(c, units, 0) for c in learned.candidates),
                notes=learned.notes,
                stopped=learned.stopped,
            )
        self.fitted_ = replace(fitted, seconds=time.perf_counter() - started)
        return self

    def _with_labels(self, matrix: Array, y: Any) -> tuple[Array, Any]:
        if y is None:
            raise InputError("This KernelSVC requires y to be passed, but the target y is None")
        target = column_or_1d(check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False), warn=True)
        if len(target) != len(matrix):
            raise InputError(f"X has {len(matrix)} rows and y has {len(target)}: they must agree")
        missing = np.array([_is_missing(value) for value in target], dtype=bool)
        if missing.any() and not (isinstance(self.kernel, str) and self.kernel == "precomputed"):
            warnings.warn(
                f"{int(missing.sum())} of {len(target)} rows have no class and were left out", DataWarning, stacklevel=3
            )
            matrix, target = matrix[~missing], target[~missing]
        elif missing.any():
            raise InputError("with a precomputed Gram matrix every row needs a class; leave out the rows without one")
        try:
            check_classification_targets(target)
        except ValueError as error:
            raise InputError(f"{error} Use GPRegressor for a target that is a number.") from None
        if target.dtype.kind == "O":
            kinds = {type(value) for value in target}
            if len(kinds) > 1:
                target = np.array([str(value) for value in target], dtype=object)
        return matrix, target

    # ---------------------------------------------------------------------------------------------------- predicting

    def _rows(self, X: Any) -> Array:
        """Return new rows as numbers, in the units of the data."""
        check_is_fitted(self)
        return inputs.read_rows(self, X, self.fitted_.columns)

    def decision_function(self, X: Any) -> Array:
        """Return the margin of each row; with several classes one for each, the largest being the prediction."""
        return self.fitted_.margins(self._rows(X))

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


def _learn(kernel: Any, training: LabelledRows, seed: int, progress: Any) -> LearnedForClasses:
    """Find a kernel (scaled units) and a cost."""
    names = training.columns.names
    columns = inputs.find_varying(np.ptp(training.X, axis=0) > 0, names)
    rows = training.scale(training.X)
    return learned_kernel(kernel, rows, training.labels, columns, names, training.units, seed, progress)


def _cross_validate_gram(gram: Array, labels: Labels, seed: int) -> ClassScore:
    """Choose the cost for a precomputed Gram matrix."""
    folds = make_folds(labels, seed)
    return cross_validate(split_gram(gram, folds), labels, folds)


def _best_nu(kernel: Expression | None, training: LabelledRows, seed: int) -> float:
    if kernel is None:
        raise InputError("nu='auto' is not offered for a precomputed Gram matrix: give a number")
    return best_nu(kernel, training.scale(training.X), training.labels, seed)


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
        warnings.warn(
            f"class(es) {shown} have one member each: they cannot be checked on rows left out, and will hardly be "
            "predicted",
            DataWarning,
            stacklevel=3,
        )


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float | np.floating) and bool(np.isnan(value)))


def _scaling(X: Array) -> Units:
    """Centre and scale to unit spread; a constant column keeps its unit."""
    largest = np.abs(X).max(axis=0)
    largest = np.where(largest > 0, largest, 1.0)  # squares of numbers near the ends of the range are none
    shift, spread = (X / largest).mean(axis=0) * largest, (X / largest).std(axis=0) * largest
    scale = np.where((spread > 0) & (np.ptp(X, axis=0) > 0), spread, 1.0)
    if not (np.isfinite(scale).all() and np.isfinite(shift).all()):
        raise InputError("the numbers are too large to be scaled: change their unit (by a factor of 1000, say)")
    return Units(tuple(map(float, shift)), tuple(map(float, scale)))
