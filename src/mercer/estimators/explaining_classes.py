"""A fitted classifier -> its explanation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mercer.errors import InputError
from mercer.estimators.explaining import has_names, readable_columns, target_name
from mercer.estimators.inputs import encoding_of
from mercer.explain.classes import ClassExplanation, ColumnRelevance
from mercer.explain.functionals import explain_functionals
from mercer.explain.wording import Vocabulary, counted
from mercer.explain.words import Narrator
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression, Product

if TYPE_CHECKING:
    from mercer.estimators.classifier import KernelSVC

FOUND = {
    "kfo": "A kernel without a formula was sought by Bayesian optimisation; every kernel was judged on rows left out.",
    "rbf": "Lengthscale and cost were chosen by cross-validation.",
    "linear": "The cost was chosen by cross-validation.",
}


def class_explanation_of(model: KernelSVC) -> ClassExplanation:
    """Explain a fitted or loaded classifier."""
    if model._kernel is None or model.kernel_ is None:
        raise InputError("a precomputed Gram matrix leaves nothing to explain: give the rows and a kernel")
    encoding = encoding_of(model)
    columns = readable_columns(model, encoding)
    narrator = Narrator(Vocabulary(target_name(model), tuple(columns)))
    names = [column.name for column in columns] if has_names(model) else None
    counts = np.bincount(model._labels, minlength=len(model.classes_))
    known = model._left_out >= 0
    confusion = np.zeros((len(counts), len(counts)), dtype=int)
    np.add.at(confusion, (model._labels[known], model._left_out[known]), 1)
    shares = _shares(model._kernel, len(columns))
    tables: dict[str, float] = {}
    for column, share in zip(columns, shares, strict=True):
        tables[column.table_name] = tables.get(column.table_name, 0.0) + float(share)
    ranked = sorted(tables.items(), key=lambda pair: -pair[1]) if shares.any() else []
    name = model.kernel if isinstance(model.kernel, str) else type(model.kernel).__name__
    searched = "kfo" if name in ("kfo", "kfo-mkl", "KernelFunctional") else name
    found = FOUND.get(searched, f"The kernel '{name}' was used, its cost chosen by cross-validation.")
    if model.candidates_:
        found += f" {counted(len(model.candidates_), 'kernel')} tried."
    return ClassExplanation(
        target=target_name(model),
        rows=len(model._labels),
        table_columns=tuple(tables),
        classes=tuple(str(c) for c in model.classes_),
        counts=tuple(int(n) for n in counts),
        error=float(1.0 - np.trace(confusion) / max(1, confusion.sum())),
        error_of_most_common=float(1.0 - counts.max() / counts.sum()),
        confusion=tuple(tuple(int(n) for n in row) for row in confusion),
        relevance=tuple(ColumnRelevance(column, share) for column, share in ranked),
        functionals=explain_functionals(model.kernel_, columns, names, narrator),
        kernel=model.kernel_.text(4, names),
        kernel_exact=model.kernel_.text(None, names),
        cost=model.C_,
        nu=model.nu_,
        tried=len(model.candidates_),
        found_by=found,
        notes=tuple(model.notes_),
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
    names = {parameter.name: parameter.values for parameter in leaf.parameters}
    values = names.get("lengthscale") if leaf.symbol not in ("PER", "CPER") else None
    weights = None if not values else np.array(values) ** -2.0
    if leaf.symbol == "LIN":
        weights = np.array(names["weights"] or ())
    total = np.zeros(columns)
    if weights is not None and len(weights) == len(leaf.columns):
        total[list(leaf.columns)] += weights
    return total
