"""A fitted classifier in plain data and plain words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.errors import InputError
from mercer.explain.claims import plain
from mercer.explain.functionals import FunctionalExplanation, explain_functionals
from mercer.explain.subject import readable_columns
from mercer.explain.wording import Column, Vocabulary, list_names, percent, wrap, write_count
from mercer.explain.words import Narrator
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression, Product
from mercer.model.classes import FittedClasses

MOST_COLUMNS = 12  # that are drawn one by one
ALIKE = 0.5  # of the largest cost: columns that cost less to shuffle do not count the same
NO_COST = 0.01  # of the rows
SHUFFLES, MOST_SHUFFLED = 3, 500  # times, and rows
EQUAL = 1.3  # times its fair share: less, and no column stands out


@dataclass(frozen=True)
class ColumnRelevance:
    """How much a column counts in the kernel: the share of squared distances (in scaled units) that it weighs."""

    column: str
    share: float


@dataclass(frozen=True)
class ColumnCost:
    """By how much more often rows are put into a wrong class when a column is shuffled between them."""

    column: str
    cost: float


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
    costs: tuple[ColumnCost, ...] = ()

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
        """Which columns count: by what they weigh in the kernel, and by what it costs to shuffle them."""
        if not self.relevance:
            return ""
        top, costs = self.relevance[0], {each.column: each.cost for each in self.costs}
        if top.share * len(self.relevance) < EQUAL:
            most = max(self.costs, key=lambda each: each.cost)
            if min(costs.values()) >= ALIKE * most.cost:
                return "All columns count about the same."
            return (
                f"All columns weigh about the same in the kernel, but not in what follows from them: shuffling "
                f"{most.column} puts {percent(most.cost)} more of the rows into a wrong class, shuffling "
                f"{min(self.costs, key=lambda each: each.cost).column} {percent(max(0.0, min(costs.values())))}."
            )
        large = [each for each in self.relevance[:3] if each.share > 0.05] or [top]
        named = [f"{each.column} ({percent(each.share)})" for each in large]
        small = [each.column for each in self.relevance if each.share < 0.1 / len(self.relevance)]
        idle = [name for name in small if costs.get(name, 0.0) < NO_COST]
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
    varying = [name for name, places in _places(columns).items() if np.ptp(training.X[:, places], axis=0).any()]
    given = fitted.options["kernel"]
    name = given if isinstance(given, str) else type(given).__name__
    searched = "kfo" if name in ("kfo", "kfo-mkl", "KernelFunctional") else name
    found = FOUND.get(searched, f"The kernel '{name}' was used, its cost chosen by cross-validation.")
    if fitted.candidates:
        found += f" {write_count(len(fitted.candidates), 'kernel')} tried."
    return ClassExplanation(
        target=training.target_name or "the target",
        rows=len(labels),
        table_columns=tuple(varying or tables),
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
        costs=_shuffle(fitted, {name: places for name, places in _places(columns).items() if name in varying}),
    )


def _places(columns: Sequence[Column]) -> dict[str, list[int]]:
    """Return the encoded columns of every column of the table."""
    found: dict[str, list[int]] = {}
    for place, column in enumerate(columns):
        found.setdefault(column.table_name, []).append(place)
    return found


def _shuffle(fitted: FittedClasses, tables: dict[str, list[int]]) -> tuple[ColumnCost, ...]:
    """Shuffle every column of the table between rows, and see how many more are put into a wrong class."""
    rng, training = np.random.default_rng(0), fitted.training
    chosen = rng.permutation(len(training.X))[:MOST_SHUFFLED]
    X, truth = training.X[chosen], training.classes[training.labels[chosen]]
    wrong, found = float(np.mean(fitted.predict(X) != truth)), []
    for name, places in tables.items():
        costs = []
        for _ in range(SHUFFLES):
            shuffled = X.copy()
            shuffled[:, places] = X[rng.permutation(len(X))][:, places]
            costs.append(float(np.mean(fitted.predict(shuffled) != truth)) - wrong)
        found.append(ColumnCost(name, float(np.mean(costs))))
    return tuple(sorted(found, key=lambda each: -each.cost))


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
