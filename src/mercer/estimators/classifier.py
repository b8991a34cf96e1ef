"""`KernelSVC`: a support vector machine whose kernel is learned, in scikit-learn's conventions."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d

from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.errors import DataWarning, InputError
from mercer.estimators import inputs
from mercer.estimators.class_kernels import best_nu, checked_cost, checked_kernel, highest_nu, learned_kernel
from mercer.estimators.kernels import in_data_units
from mercer.explain.classes import ClassExplanation
from mercer.inference.choose import fits_in_memory
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.functional import is_definite
from mercer.kernels.parameters import values_of
from mercer.kernels.units import Units, to_data_units
from mercer.learners.contract import Learner
from mercer.learners.margin import (
    Labels,
    clipped_spectrum,
    cross_validated,
    decisions,
    folds_of,
    from_gram,
    machine,
    sharpness,
)

SYMMETRIC = 1e-8  # of the largest entry: by how much a Gram matrix may differ from its transpose


class KernelSVC(ClassifierMixin, BaseEstimator):
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
        For a nu-SVM in place of a C-SVM.
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

    def fit(self, X: Any, y: Any, progress: Any = None) -> KernelSVC:
        """Find the kernel and the cost, and fit the machine. `progress(state)` is called after every kernel tried."""
        started = time.perf_counter()
        kernel = checked_kernel(self.kernel)
        cost = checked_cost("C", self.C, np.inf)
        nu = None if self.nu is None else checked_cost("nu", self.nu, 1.0)
        matrix = inputs.checked_inputs(self, X, reset=True)
        matrix, target = self._with_labels(matrix, y)
        fits_in_memory(len(matrix))
        self.classes_, labels = np.unique(target, return_inverse=True)
        self._check_classes(labels)
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._labels = labels
        if kernel == "precomputed":
            self._keep_gram(matrix)
        else:
            self._learn(kernel, matrix, labels, progress)
        gram = self._gram()
        self.C_ = cost if cost is not None else self._found_cost(gram)
        self.nu_: float | None = nu
        if self.nu is not None and nu is None:
            self.nu_ = self._found_nu(gram)
        highest = highest_nu(labels)
        if self.nu_ is not None and self.nu_ > highest:
            raise InputError(f"nu={self.nu_:g} is too high for classes so uneven: give up to {highest:.3g}, or 'auto'")
        self._machine = machine(self.C_, self.nu_).fit(gram, labels)
        self._calibrate(gram)
        name = getattr(y, "name", None)
        self.target_name_ = None if name is None else str(name)
        self.fit_seconds_ = time.perf_counter() - started
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

    def _check_classes(self, labels: Labels) -> None:
        if len(self.classes_) < 2:
            shown = repr(self.classes_[0]) if len(self.classes_) else "none"
            raise InputError(
                f"there is only one class ({shown}) in the {len(labels)} rows: a classifier needs two classes or more. "
                "Check that the target is the column you mean."
            )
        if not folds_of(labels, 0):
            raise InputError(
                f"n_samples={len(labels)}: too few rows of a class to check a kernel on rows left out; give more data"
            )
        counts = np.bincount(labels)
        single = [str(self.classes_[c]) for c in np.flatnonzero(counts == 1)]
        if single:
            shown = ", ".join(map(repr, single[:5])) + (" and more" if len(single) > 5 else "")
            warnings.warn(
                f"class(es) {shown} have one member each: they cannot be checked on rows left out, and will hardly be "
                "predicted",
                DataWarning,
                stacklevel=3,
            )

    def _learn(self, kernel: Any, matrix: Array, labels: Labels, progress: Any) -> None:
        names = inputs.column_names(self, matrix.shape[1])
        columns = inputs.varying_columns(matrix, names) or list(range(matrix.shape[1]))
        self._units = _scaling(matrix)
        self._train = matrix
        rows = self._scaled(matrix)
        learned = learned_kernel(kernel, rows, labels, columns, names, self._units, self._seed, progress)
        self._keep(learned)

    def _keep(self, learned: Any) -> None:
        self._kernel: Expression | None = learned.kernel
        self.kernel_: Expression | None = to_data_units(learned.kernel, self._units)
        found = learned.functional
        self.functional_: Expression | None = None if found is None else to_data_units(found, self._units)
        self._cost, self.error_ = learned.cost, learned.error
        self.candidates_ = tuple(in_data_units(c, self._units, 0) for c in learned.candidates)
        self.notes_ = learned.notes
        self.stopped_ = learned.stopped

    def _keep_gram(self, gram: Array) -> None:
        if gram.shape[0] != gram.shape[1]:
            size = f"{gram.shape[0]} x {gram.shape[1]}"
            raise InputError(f"a precomputed Gram matrix should be a square matrix, not {size}")
        off = float(np.abs(gram - gram.T).max())
        if off > SYMMETRIC * float(np.abs(gram).max() or 1.0):
            raise InputError(
                f"the Gram matrix is not symmetric: entries differ from their mirror image by up to {off:.3g}. "
                "A kernel gives k(x, z) = k(z, x); if yours does not, use (G + G.T) / 2."
            )
        self._train, self._kernel, self.kernel_, self.functional_ = gram, None, None, None
        self._units = Units((0.0,) * len(gram), (1.0,) * len(gram))
        self.candidates_, self.notes_, self.stopped_ = (), (), ""

    def _gram(self) -> Array:
        """Return the Gram matrix of the training rows, positive semi-definite; `_clip` is what makes it so."""
        self._clip: Array | None = None
        if self._kernel is None:
            gram = self._train
            if float(np.linalg.eigvalsh(gram)[0]) < -1e-8 * float(np.abs(gram).max() or 1.0):
                self._clip = clipped_spectrum(gram)
                self.notes_ = ("the Gram matrix has eigenvalues below zero; they were clipped",)
        else:
            gram = fused.gram(compile_program(self._kernel), values_of(self._kernel), self._scaled(self._train))
            if not is_definite(self._kernel):
                self._clip = clipped_spectrum(gram)
        return gram if self._clip is None else self._clip @ gram

    def _found_cost(self, gram: Array) -> float:
        if self._kernel is not None:
            return float(self._cost)
        folds = folds_of(self._labels, self._seed)
        verdict = cross_validated(from_gram(gram, folds), self._labels, folds)
        self.error_ = verdict.error
        return verdict.cost

    def _found_nu(self, gram: Array) -> float:
        if self._kernel is None:
            raise InputError("nu='auto' is not offered for a precomputed Gram matrix: give a number")
        return best_nu(self._kernel, self._scaled(self._train), self._labels, self._seed)

    def _calibrate(self, gram: Array) -> None:
        """Find the temperature that turns margins into probabilities, on rows left out.

        One number, not a slope and an offset for each class as Platt has them: the most probable class then is the one
        that is predicted.
        """
        classes = len(self.classes_)
        margins, truth = [], []
        self._left_out = np.full(len(self._labels), -1)  # what each row was taken for when it was left out
        for train, out in folds_of(self._labels, self._seed):
            fitted = machine(self.C_, self.nu_)
            try:
                fitted.fit(gram[np.ix_(train, train)], self._labels[train])
            except ValueError:
                continue
            margins.append(decisions(fitted, gram[np.ix_(out, train)], classes))
            truth.append(self._labels[out])
            self._left_out[out] = margins[-1].argmax(axis=1)
        self._sharpness = 1.0 if not margins else sharpness(np.concatenate(margins), np.concatenate(truth))

    # ---------------------------------------------------------------------------------------------------- predicting

    def _scaled(self, matrix: Array) -> Array:
        return (matrix - np.array(self._units.shift)) / np.array(self._units.scale)

    def _cross(self, X: Any) -> Array:
        check_is_fitted(self)
        matrix = inputs.checked_inputs(self, X, reset=False)
        if self._kernel is None:
            cross = matrix
        else:
            program, values = compile_program(self._kernel), values_of(self._kernel)
            cross = fused.cross(program, values, self._scaled(matrix), self._scaled(self._train))
        return cross if self._clip is None else cross @ self._clip

    def decision_function(self, X: Any) -> Array:
        """Return the margin of each row; with several classes one for each, the largest being the prediction."""
        cross = self._cross(X)
        return np.asarray(self._machine.decision_function(cross))

    def predict(self, X: Any) -> Any:
        """Return the class of each row."""
        check_is_fitted(self)
        return self.classes_[self._machine.predict(self._cross(X))]

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, calibrated on margins of training rows left out."""
        cross = self._cross(X)
        margins = self._sharpness * decisions(self._machine, cross, len(self.classes_))
        shifted = np.exp(margins - margins.max(axis=1, keepdims=True))
        return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))

    @property
    def X_train_(self) -> Array:
        """The rows that were learned from, encoded as numbers."""
        check_is_fitted(self)
        return self._train

    @property
    def column_names_(self) -> list[str]:
        """The names of the columns that kernel dimensions refer to."""
        check_is_fitted(self)
        return inputs.column_names(self, self._train.shape[1])

    def explain(self) -> ClassExplanation:
        """Return what was learned as plain data and words: `print` it, or see `to_json`."""
        from mercer.estimators.explaining_classes import class_explanation_of

        check_is_fitted(self)
        return class_explanation_of(self)

    def report(self, path: str | Path) -> None:
        """Write the explanation with its pictures to one HTML file that needs nothing else."""
        from mercer.report.classes import write_class_report  # the room above: a shortcut for users

        check_is_fitted(self)
        write_class_report(self, path)

    def save(self, path: str | Path) -> None:
        """Write the model to a file of JSON and raw arrays; `mercer.load` reads it."""
        from mercer.estimators.class_files import save

        check_is_fitted(self)
        save(self, path)


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
