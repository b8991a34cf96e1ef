"""`KernelSVC`: a support vector machine whose kernel is learned, in scikit-learn's conventions."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from mercer.errors import DataWarning, InputError
from mercer.estimators import inputs
from mercer.estimators.inputs import Shown, TableEstimator
from mercer.explain.classes import ClassExplanation, explain_classes
from mercer.inference.choose import check_memory
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.kernels.categories import check_codes
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import Units, bind, to_data_units, to_scaled_units
from mercer.learners.classes import (
    LearnedForClasses,
    choose_nu,
    combine_kernels,
    highest_nu,
    learn_from_labels,
    learn_linear,
    learn_radial,
)
from mercer.learners.contract import Context, DataFacts, Learner
from mercer.learners.grammar import SearchPolicy
from mercer.learners.kfo import KernelFunctional
from mercer.learners.margin import Labels, Spectrum, cross_validate, make_folds, note_unsettled, split_gram
from mercer.model.classes import FittedClasses, LabelledRows, fit_machine, gram_of
from mercer.model.fitted import CLASS_KERNELS, candidate_in_data_units, expression_or_learner

MIXED = "SE + M32 + LIN"
USUAL = ("rbf", "linear", "mkl", "mkl-uniform")
REPAIRED: dict[Spectrum, str] = {"clip": "clipped", "flip": "flipped", "shift": "shifted"}
SYMMETRIC = 1e-8  # of the largest entry: by how much a Gram matrix may differ from its transpose


class KernelSVC(TableEstimator, ClassifierMixin, BaseEstimator):
    """Support vector classification with a kernel that is found on the training rows.

    Parameters
    ----------
    kernel : str, Expression or learner
        "auto" or a `mercer.AutoKernel` chooses by the data, and says why and how long it takes at most.
        "kfo" or a `mercer.KernelFunctional`: a kernel without a formula, found by cross-validation; "kfo-mkl": that and
        SE, Matern 3/2 and LIN, with weights. "search" and "nkn" (or their learners), and an expression with parameters
        to be found such as "M32" or "SM4", are fitted to the labels by the evidence of a Gaussian process. "mkl" and
        "mkl-uniform" mix standard kernels, "rbf" and "linear" are the usual ones. With "precomputed" X is a Gram
        matrix.
    C : "auto" or float
        The cost of a row on the wrong side; "auto" chooses it by cross-validation on the training rows.
    nu : None, "auto" or float
        For a nu-SVM in place of a C-SVM, which has no C.
    spectrum : "clip", "flip" or "shift"
        What becomes of eigenvalues below zero where a Gram matrix, or a kernel that was given, is indefinite: they
        become zero, lose their sign, or all grow by as much as the lowest is below zero. `KernelFunctional` has
        `definite` for what it finds.
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
        spectrum: Spectrum = "clip",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.nu = nu
        self.spectrum = spectrum
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is_gram
        return tags

    # ------------------------------------------------------------------------------------------------------- fitting

    fitted_: FittedClasses
    shown_by = "fitted_classes_to_html"
    with_settings: ClassVar = {"kernel": inputs.A_LEARNER}
    classes_ = Shown(lambda fitted: fitted.training.classes)
    C_ = Shown(lambda fitted: fitted.cost)
    nu_ = Shown(lambda fitted: fitted.nu)
    error_ = Shown(lambda fitted: fitted.error)
    functional_ = Shown(lambda fitted: fitted.functional)

    def fit(self, X: Any, y: Any, progress: Any = None) -> KernelSVC:
        """Find the kernel and the cost, and fit the machine.

        `progress(state)` is called after every kernel tried; `progress=True` shows a bar, in a notebook too.
        """
        if progress is True:
            from mercer.report.progress import fit_with_bar  # brings rich

            model: KernelSVC = fit_with_bar(self.fit, X, y)
            return model
        started = time.perf_counter()
        inputs.check_progress(progress)
        given = self._is_gram
        kernel: Any = self.kernel
        if isinstance(kernel, str) and kernel == "kfo-mkl":
            kernel = KernelFunctional(plus=MIXED)
        elif not given and not (isinstance(kernel, str) and kernel in USUAL):
            kernel = expression_or_learner(kernel, CLASS_KERNELS)
        cost = _read_cost("C", self.C, np.inf)
        nu = None if self.nu is None else _read_cost("nu", self.nu, 1.0)
        if cost is not None and self.nu is not None:
            raise InputError(f"C={self.C!r} and nu={self.nu!r} were given: a nu-SVM has no C. Give one of them")
        if self.spectrum not in REPAIRED:
            raise InputError(f"spectrum must be {' or '.join(map(repr, REPAIRED))}, not {self.spectrum!r}")
        matrix, columns = inputs.read_table(self, X, one_hot=True)
        matrix, target = self._read_labels(matrix, y)
        check_memory(len(matrix))
        classes, labels = np.unique(target, return_inverse=True)
        _check_classes(classes, labels)
        seed = inputs.read_seed(self.random_state)
        if given:
            _check_gram(matrix)
        units = Units((0.0,) * len(matrix), (1.0,) * len(matrix)) if given else _scaling(matrix)
        training = LabelledRows(matrix, labels, classes, units, columns, inputs.target_name(y))
        plan = kernel.choose(_read_facts(training), self.policies) if isinstance(kernel, Learner) else None
        if plan is not None:
            kernel, started = plan.kernel, started + inputs.announce(plan, training, progress)
        if given:
            gram, clip = gram_of(None, training, self.spectrum)
            folds = make_folds(labels, seed)
            score = cross_validate(split_gram(gram, folds), labels, folds)
            below = f"the Gram matrix has eigenvalues below zero; they were {REPAIRED[self.spectrum]}"
            notes = () if gram is training.X else (below,)
            learned = LearnedForClasses(None, score.cost, score.error, notes=notes, spectrum=self.spectrum)
        else:
            learned = _learn(kernel, training, seed, progress, self._policy(SearchPolicy).seconds_after)
            if not isinstance(kernel, KernelFunctional):
                learned = replace(learned, spectrum=self.spectrum)
            gram, clip = gram_of(learned.kernel, training, learned.spectrum)
        nu = self._find_nu(nu, learned.kernel, training, seed)
        cost = float(learned.cost) if cost is None else cost
        found, functional = learned.kernel, learned.functional
        machine = fit_machine(gram, labels, cost, nu, seed)
        self.fitted_ = FittedClasses(
            training=training,
            kernel=None if found is None else to_data_units(found, units),
            scaled_kernel=found,
            clip=clip,
            cost=cost,
            nu=nu,
            error=learned.error,
            machine=machine,
            seed=seed,
            options=self.get_params(deep=False),
            functional=None if functional is None else to_data_units(functional, units),
            candidates=tuple(candidate_in_data_units(candidate, units, 0) for candidate in learned.candidates),
            notes=(*learned.notes, *note_unsettled(machine.fitted, cost if nu is None else None)),
            stopped=learned.stopped,
            seconds=time.perf_counter() - started,
            plan=plan,
            spectrum=learned.spectrum,
        )
        return self

    def _find_nu(self, nu: float | None, kernel: Expression | None, training: LabelledRows, seed: int) -> float | None:
        """Return the nu that was given, or choose one where that was asked; None for a C-SVM."""
        if self.nu is not None and nu is None:
            if kernel is None:
                raise InputError("nu='auto' is not offered for a precomputed Gram matrix: give a number")
            nu = choose_nu(kernel, training.scaled_rows, training.labels, seed)
        highest = highest_nu(training.labels)
        if nu is not None and nu > highest:
            raise InputError(f"nu={nu:g} is too high for classes so uneven: give up to {highest:.3g}, or 'auto'")
        return nu

    @property
    def _is_gram(self) -> bool:
        """Whether X is a Gram matrix."""
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _read_labels(self, matrix: Array, y: Any) -> tuple[Array, Any]:
        target = inputs.read_column(self, y, len(matrix))
        missing = np.array([value is None or value != value for value in target], dtype=bool)  # NaN is not itself
        if missing.any() and self._is_gram:
            raise InputError("with a precomputed Gram matrix every row needs a class; leave out the rows without one")
        if missing.any():
            note = f"{int(missing.sum())} of {len(target)} rows have no class and were left out"
            warnings.warn(note, DataWarning, stacklevel=3)
            matrix, target = matrix[~missing], target[~missing]
        if target.dtype.kind == "O" and len({type(value) for value in target}) > 1:  # which have no order
            target = np.array([str(value) for value in target], dtype=object)
        try:
            check_classification_targets(target)
        except (TypeError, ValueError) as error:
            raise InputError(f"{error} Use GPRegressor for a target that is a number.") from None
        return matrix, target

    # ---------------------------------------------------------------------------------------------------- predicting

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


# ---------------------------------------------------------------------------------------------------- finding a kernel


def _learn(kernel: Any, training: LabelledRows, seed: int, report: Any, kept: float) -> LearnedForClasses:
    """Find a kernel (scaled units) and a cost on the training rows; `kept`: seconds of a budget that others need."""
    names, units, labels = training.columns.names, training.units, training.labels
    columns = inputs.find_varying(np.ptp(training.X, axis=0) > 0, names)
    if isinstance(kernel, Expression):
        known = bind(kernel, len(names), names, default=columns)
        check_codes(known, {}, names)
        bound = to_scaled_units(known, units)
        return learn_from_labels(bound, training.scaled_rows, labels, columns, seed, report)
    if isinstance(kernel, Learner) and not isinstance(kernel, KernelFunctional):
        scaled = kernel.scale_kernels(columns, names, units)
        return learn_from_labels(scaled, training.scaled_rows, labels, columns, seed, report)
    X = training.scaled_rows[:, columns]
    if kernel == "rbf":
        found = learn_radial(X, labels, seed)
    elif kernel == "linear":
        found = learn_linear(X, labels, seed)
    elif isinstance(kernel, KernelFunctional):
        data = Data(X, labels.astype(np.float64))
        context = Context(data, Exact(), list(range(len(columns))), seed, report=report, kept_seconds=kept)
        found = kernel.learn_classes(context)
    else:
        found = combine_kernels(X, labels, seed, "easy" if kernel == "mkl" else "uniform")
    return found.on_columns(columns)


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
        shown = f"'{classes[0]}'" if len(classes) else "none"
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
        note = "they cannot be checked on rows left out, and will hardly be predicted"
        warnings.warn(f"class(es) {shown} have one member each: {note}", DataWarning, stacklevel=3)


def _read_facts(training: LabelledRows) -> DataFacts:
    """Return what the choice of a learner goes by."""
    distinct = [len(np.unique(column)) for column in training.X.T]
    varying = [count for count in distinct if count > 1]
    return DataFacts(len(training.X), len(varying), distinct=max(distinct), classes=len(training.classes))


def _scaling(X: Array) -> Units:
    """Centre and scale to unit spread; a constant column keeps its unit."""
    return inputs.units_from(*inputs.measure(X), X.min(axis=0) < X.max(axis=0), 1.0)
