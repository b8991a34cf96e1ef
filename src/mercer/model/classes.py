"""`FittedClasses`: everything that a fitted classifier knows, as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.functional import is_definite
from mercer.kernels.parameters import Units, values_of
from mercer.learners.contract import Candidate, Plan
from mercer.learners.margin import (
    Labels,
    Spectrum,
    compute_margins,
    fit_sharpness,
    make_folds,
    repair_spectrum,
    train_machine,
)
from mercer.model.fitted import Columns, let_overflow, refuse_undefined

NEGATIVE = 1e-8  # of the largest entry: an eigenvalue below minus this is one below zero


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """The rows that were learned from, encoded as numbers, with the number of each one's class; or a Gram matrix."""

    X: Array
    labels: Labels
    classes: NDArray[Any]
    units: Units
    columns: Columns
    target_name: str | None = None

    def scale(self, X: Array) -> Array:
        """Return rows in scaled units."""
        return np.asarray((X - np.array(self.units.shift)) / np.array(self.units.scale))

    @property
    def scaled_rows(self) -> Array:
        """The rows in scaled units."""
        return self.scale(self.X)


@dataclass(frozen=True, eq=False)
class Machine:
    """A support vector machine with what turns its margins into probabilities."""

    fitted: Any
    sharpness: float  # one over the temperature of the probabilities
    left_out: NDArray[np.intp]  # the class that each row was taken for when it was left out; -1 where it never was


@dataclass(frozen=True, eq=False)
class FittedClasses:
    """A fitted classifier; `kernel` is None where a Gram matrix was given, `scaled_kernel` is it in scaled units."""

    training: LabelledRows
    kernel: Expression | None
    scaled_kernel: Expression | None
    clip: Array | None  # what makes the Gram matrix positive semi-definite
    cost: float
    nu: float | None
    error: float
    machine: Machine
    seed: int
    options: Mapping[str, Any]  # the estimator's parameters, as the user gave them
    functional: Expression | None = None
    candidates: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()
    stopped: str = ""
    seconds: float = 0.0
    plan: Plan | None = None  # where the learner was chosen by the data
    spectrum: Spectrum = "clip"  # what became of eigenvalues below zero

    @property
    def columns(self) -> Columns:
        """The columns of the user's table."""
        return self.training.columns

    def cross(self, X: Array) -> Array:
        """Return the kernel between new rows (a matrix in the units of the data) and those learned from."""
        found = X
        if self.scaled_kernel is not None:
            program, values = compile_program(self.scaled_kernel), values_of(self.scaled_kernel)
            with let_overflow():
                found = fused.cross(program, values, self.training.scale(X), self.training.scaled_rows)
            refuse_undefined(X, self.training.X, self.columns.names, found)
        return found if self.clip is None else found @ self.clip

    def margins(self, X: Array) -> Array:
        """Return the margin of each row; with several classes one for each."""
        return np.asarray(self.machine.fitted.decision_function(self.cross(X)))

    def predict(self, X: Array) -> NDArray[Any]:
        """Return the class of each row."""
        found: NDArray[Any] = self.training.classes[self.machine.fitted.predict(self.cross(X))]
        return found

    def probabilities(self, X: Array) -> Array:
        """Return the probability of each class, rows x classes."""
        found = compute_margins(self.machine.fitted, self.cross(X), len(self.training.classes))
        margins = self.machine.sharpness * found
        shifted = np.exp(margins - margins.max(axis=1, keepdims=True))
        return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def gram_of(
    kernel: Expression | None, training: LabelledRows, spectrum: Spectrum = "clip"
) -> tuple[Array, Array | None]:
    """Return a positive semi-definite Gram matrix of the training rows, and what carries rows not seen along."""
    if kernel is None:
        gram = training.X
        definite = float(np.linalg.eigvalsh(gram)[0]) >= -NEGATIVE * float(np.abs(gram).max() or 1.0)
    else:
        gram = fused.gram(compile_program(kernel), values_of(kernel), training.scaled_rows)
        definite = is_definite(kernel)
    return (gram, None) if definite else repair_spectrum(gram, spectrum)


def fit_machine(gram: Array, labels: Labels, cost: float, nu: float | None, seed: int) -> Machine:
    """Fit the machine, and find the temperature that turns margins into probabilities, on rows left out.

    One number, not a slope and an offset for each class as Platt has them: the most probable class then is the one
    that is predicted.
    """
    fitted = train_machine(gram, labels, cost, nu)
    classes = int(labels.max()) + 1
    margins, truth = [], []
    left_out = np.full(len(labels), -1)
    for train, out in make_folds(labels, seed):
        try:
            other = train_machine(gram[np.ix_(train, train)], labels[train], cost, nu)
        except ValueError:
            continue
        margins.append(compute_margins(other, gram[np.ix_(out, train)], classes))
        truth.append(labels[out])
        left_out[out] = margins[-1].argmax(axis=1)
    sharp = 1.0 if not margins else fit_sharpness(np.concatenate(margins), np.concatenate(truth))
    return Machine(fitted, sharp, left_out)
