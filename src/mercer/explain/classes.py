"""A fitted classifier in plain data and plain words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.errors import InputError
from mercer.explain.claims import plain
from mercer.explain.functionals import FunctionalExplanation, explain_functionals
from mercer.explain.subject import readable_columns
from mercer.explain.wording import Vocabulary, list_names, percent, wrap, write_count
from mercer.explain.words import Narrator
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression, Product
from mercer.model.classes import FittedClasses

MOST_COLUMNS = 12  # that are drawn one by one
EQUAL = 1.3  # times its fair share: less, and no column stands out


@dataclass(frozen=True)
class ColumnRelevance:
    """How much a column counts in the kernel: the share of squared distances (in scaled units) that it weighs."""

    column: str
    share: float


@dataclass(frozen=True)
class ClassExplanation:
    """What was learned. `confusion[i][j]`: rows of class i that were taken for class j when they were left out."""

    target: str
    rows: int
    table_columns: tuple[str, ...]
    classes: tuple[str, ...]
    counts: tuple[int, ...]
    error: float
    error_of_most_common: float
    confusion: tuple[tuple[int, ...], ...]
    relevance: tuple[ColumnRelevance, ...]
    functionals: tuple[FunctionalExplanation, ...]
    kernel: str
    kernel_exact: str
    cost: float
    nu: float | None
    tried: int
    found_by: str
    notes: tuple[str, ...]

    def __str__(self) -> str:
        return self.to_text()

    @property
    def headline(self) -> str:
        """What was modelled."""
        names = self.table_columns
        by = list_names(list(names)) if len(names) <= 3 else f"{len(names)} columns"
        return f"{self.target} explained by {by}, from {write_count(self.rows, 'row')}"

    @property
    def error_sentence(self) -> str:
        """How good it is."""
        return (
            f"Of the rows left out, {percent(self.error)} are put into the wrong one of {len(self.classes)} classes; "
            f"always saying the most common class would be wrong for {percent(self.error_of_most_common)}."
        )

    @property
    def confusion_sentence(self) -> str:
        """Which classes are mixed up most."""
        pairs = []
        for i, one in enumerate(self.classes):
            pairs += [(self.confusion[i][j], one, other) for j, other in enumerate(self.classes) if i != j]
        count, one, other = max(pairs, default=(0, "", ""))
        if count == 0:
            return "No row was put into a wrong class when it was left out."
        return f"Most often '{one}' was taken for '{other}': {write_count(count, 'row')}."

    @property
    def relevance_sentence(self) -> str:
        """Which columns count."""
        if not self.relevance:
            return ""
        top = self.relevance[0]
        if top.share * len(self.relevance) < EQUAL:
            return "All columns count about the same."
        large = [each for each in self.relevance[:3] if each.share > 0.05] or [top]
        named = [f"{each.column} ({percent(each.share)})" for each in large]
        idle = [each.column for each in self.relevance if each.share < 0.1 / len(self.relevance)]
        text = f"What counts most: {list_names(named)}."
        return f"{text} Next to nothing comes from {list_names(idle[:5])}." if idle else text

    def to_json(self) -> dict[str, Any]:
        """Return JSON types only."""
        return {"format": "mercer-class-explanation", "version": 1, **plain(self)}

    def to_text(self, width: int = 88) -> str:
        """Return the explanation for a terminal of that width."""
        lines = [*wrap(self.headline, "", width), "", *wrap(self.error_sentence, "", width), ""]
        shown = [("classes", ", ".join(f"{c} ({n})" for c, n in zip(self.classes, self.counts, strict=True)))]
        shown += [("mixed up", self.confusion_sentence), ("inputs", self.relevance_sentence)]
        shown += [("shape", functional.sentence) for functional in self.functionals]
        strength = f"cost C = {self.cost:g}" if self.nu is None else f"nu = {self.nu:g}"
        shown += [("kernel", self.kernel), ("machine", f"Support vector machine, {strength}."), ("fit", self.found_by)]
        shown += [("note", note) for note in self.notes]
        for label, text in shown:
            if text:
                lines += wrap(text, f"{label:<10}", width)
        return "\n".join(lines)


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
        found += f" {write_count(len(fitted.candidates), 'kernel')} tried."
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
