"""A `FittedClasses` -> its explanation."""

from __future__ import annotations

import numpy as np

from mercer.errors import InputError
from mercer.explain.classes import ClassExplanation, ColumnRelevance
from mercer.explain.fitted import readable_columns
from mercer.explain.functionals import explain_functionals
from mercer.explain.wording import Vocabulary, counted
from mercer.explain.words import Narrator
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression, Product
from mercer.model.classes import FittedClasses

FOUND = {
    "kfo": "A kernel without a formula was sought by Bayesian optimisation; every kernel was judged on rows left out.",
    "rbf": "Lengthscale and cost were chosen by cross-validation.",
    "linear": "The cost was chosen by cross-validation.",
}


def explain_classes(fitted: FittedClasses) -> ClassExplanation:
    """Explain a fitted or loaded classifier."""
    training, kernel = fitted.training, fitted.kernel
    if fitted.scaled_kernel is None or kernel is None:
        raise InputError("a precomputed Gram matrix leaves nothing to explain: give the rows and a kernel")
    columns = readable_columns(fitted.columns, training.X)
    narrator = Narrator(Vocabulary(training.target_name or "the target", tuple(columns)))
    names = [column.name for column in columns] if fitted.columns.named else None
    labels, left_out = training.labels, fitted.machine.left_out
    counts = np.bincount(labels, minlength=len(training.classes))
    known = left_out >= 0
    confusion = np.zeros((len(counts), len(counts)), dtype=int)
    np.add.at(confusion, (labels[known], left_out[known]), 1)
    shares = _shares(fitted.scaled_kernel, len(columns))
    tables: dict[str, float] = {}
    for column, share in zip(columns, shares, strict=True):
        tables[column.table_name] = tables.get(column.table_name, 0.0) + float(share)
    ranked = sorted(tables.items(), key=lambda pair: -pair[1]) if shares.any() else []
    given = fitted.options["kernel"]
    name = given if isinstance(given, str) else type(given).__name__
    searched = "kfo" if name in ("kfo", "kfo-mkl", "KernelFunctional") else name
    found = FOUND.get(searched, f"The kernel '{name}' was used, its cost chosen by cross-validation.")
    if fitted.candidates:
        found += f" {counted(len(fitted.candidates), 'kernel')} tried."
    return ClassExplanation(
        target=training.target_name or "the target",
        rows=len(labels),
        table_columns=tuple(tables),
        classes=tuple(str(c) for c in training.classes),
        counts=tuple(int(n) for n in counts),
        error=float(1.0 - np.trace(confusion) / max(1, confusion.sum())),
        error_of_most_common=float(1.0 - counts.max() / counts.sum()),
        confusion=tuple(tuple(int(n) for n in row) for row in confusion),
        relevance=tuple(ColumnRelevance(column, share) for column, share in ranked),
        functionals=explain_functionals(kernel, columns, names, narrator),
        kernel=kernel.text(4, names),
        kernel_exact=kernel.text(None, names),
        cost=fitted.cost,
        nu=fitted.nu,
        tried=len(fitted.candidates),
        found_by=found,
        notes=fitted.notes,
    )


def _shares(kernel: Expression, columns: int) -> Array:
    """Return the share of each column in squared distances, 1 / l^2 in scaled units, averaged over the kernels added.

    Lengthscales of the factors of a product are compared with each other: SE(0)*SE(1) is SE(0, 1).
    """
    if isinstance(kernel, Base):
        total = _weights(kernel, columns)
    elif isinstance(kernel, Product):
        total = np.sum([_weights(leaf, columns) for leaf in kernel.leaves()], axis=0)
    else:
        total = np.sum([_shares(child, columns) for child in kernel.children], axis=0)
    return total / total.sum() if total.sum() > 0 else total


def _weights(leaf: Base, columns: int) -> Array:
    """Return how much a base kernel weighs each column: 1 / l^2, or the weights of a linear one."""
    values = leaf.lengthscales() if leaf.spec.radial else None
    weights = None if not values else np.array(values) ** -2.0
    if leaf.spec.words.role == "trend":
        weights = np.array(leaf.parameter("weights").values or ())
    total = np.zeros(columns)
    if weights is not None and len(weights) == len(leaf.columns):
        total[list(leaf.columns)] += weights
    return total
