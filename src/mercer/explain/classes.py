"""A fitted classifier in plain data and plain words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.errors import InputError
from mercer.explain.claims import plain
from mercer.explain.functionals import FunctionalExplanation, explain_functionals
from mercer.explain.search import ChosenLearner, tell_choice
from mercer.explain.subject import readable_columns
from mercer.explain.wording import Column, Vocabulary, list_names, percent, wrap, write_count
from mercer.explain.words import Narrator
from mercer.kernels.domains import Array
from mercer.learners.margin import make_folds, train_machine
from mercer.model.classes import FittedClasses, gram_of

MOST_COLUMNS = 12  # that are drawn one by one
ALIKE = 0.5  # of the largest cost: columns that cost less to shuffle do not count the same
NO_COST = 0.01  # of the rows
SHUFFLES, MOST_SHUFFLED = 3, 1000  # times, and rows
CLEARLY = 2.0  # standard errors: a smaller cost may be chance, and counts as none
EQUAL = 1.3  # times its fair share: less, and no column stands out


@dataclass(frozen=True)
class ColumnRelevance:
    """How much a column counts: its share of what it costs to shuffle columns, one by one, between rows left out."""

    column: str
    share: float


@dataclass(frozen=True)
class ColumnCost:
    """By how much more often rows left out are put into a wrong class when a column is shuffled between them."""

    column: str
    cost: float
    error: float = 0.0  # its standard error

    @property
    def clear(self) -> float:
        """The cost, or zero where it may be chance or is next to nothing."""
        return self.cost if self.cost >= max(NO_COST, CLEARLY * self.error) else 0.0

    @property
    def in_doubt(self) -> bool:
        """Whether the cost is more than next to nothing, and may yet be chance."""
        return self.cost >= NO_COST and not self.clear


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
    chosen: ChosenLearner | None = None  # where the learner was left to Mercer

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        """Return the explanation for a notebook."""
        from mercer.explain.notebook import class_explanation_to_html

        return class_explanation_to_html(self)

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
        """Which columns count, by what it costs to shuffle them between rows left out."""
        if not self.costs:
            return ""
        if not self.relevance:
            return "No single column is needed: shuffling any one of them puts hardly more rows into a wrong class."
        top, costs = self.relevance[0], {each.column: each.cost for each in self.costs}
        if len(costs) > 1 and top.share * len(costs) < EQUAL and min(costs.values()) >= ALIKE * max(costs.values()):
            return "All columns count about the same."
        large = [each for each in self.relevance[:3] if each.share > 0.05] or [top]
        others = [f"{each.column} ({percent(costs[each.column])})" for each in large[1:]]
        idle = [each.column for each in self.costs if each.cost < NO_COST]
        text = (
            f"What counts most: {top.column}; shuffled between rows left out, it puts "
            f"{percent(costs[top.column])} more of them into a wrong class."
        )
        text += f" Then {list_names(others)}." if others else ""
        text += f" Next to nothing comes from {list_names(idle[:5])}." if idle else ""
        doubtful = [each.column for each in self.costs if each.in_doubt]
        if not doubtful:
            return text
        return f"{text} These rows are too few to tell whether {' or '.join(doubtful[:5])} counts."

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
        shown += [("kernel", self.kernel), ("machine", f"Support vector machine, {strength}.")]
        shown += [("chosen", "" if self.chosen is None else self.chosen.sentence), ("fit", self.found_by)]
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
    names = [column.name for column in columns] if fitted.columns.has_names else None
    labels, left_out = training.labels, fitted.machine.left_out
    counts = np.bincount(labels, minlength=len(training.classes))
    known = left_out >= 0
    confusion = np.zeros((len(counts), len(counts)), dtype=int)
    np.add.at(confusion, (labels[known], left_out[known]), 1)
    tables = _places(columns)
    varying = {name: places for name, places in tables.items() if np.ptp(training.X[:, places], axis=0).any()}
    costs = _shuffle(fitted, varying)
    plan = fitted.plan
    given = fitted.options["kernel"] if plan is None else plan.kernel
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
        relevance=share_costs(costs),
        functionals=explain_functionals(kernel, columns, names, narrator),
        kernel=kernel.text(4, names),
        kernel_exact=kernel.text(None, names),
        cost=fitted.cost,
        nu=fitted.nu,
        tried=len(fitted.candidates),
        found_by=found,
        notes=fitted.notes,
        costs=costs,
        chosen=None if plan is None else tell_choice(plan, narrator, fitted.seconds),
    )


def share_costs(costs: Sequence[ColumnCost]) -> tuple[ColumnRelevance, ...]:
    """Return the shares of the columns that count or do not; those in doubt have none. Empty where no column counts."""
    total = sum(each.clear for each in costs)
    if total <= 0.0:
        return ()
    return tuple(ColumnRelevance(each.column, each.clear / total) for each in costs if not each.in_doubt)


def _places(columns: Sequence[Column]) -> dict[str, list[int]]:
    """Return the encoded columns of every column of the table."""
    found: dict[str, list[int]] = {}
    for place, column in enumerate(columns):
        found.setdefault(column.table_name, []).append(place)
    return found


def _shuffle(fitted: FittedClasses, tables: dict[str, list[int]]) -> tuple[ColumnCost, ...]:
    """Shuffle every column of the table between rows left out, and see how many more are put into a wrong class.

    Breiman 2001. Rows that a machine has learned from would not do: it may know them by columns that mean nothing.
    """
    rng, training, labels = np.random.default_rng(0), fitted.training, fitted.training.labels
    chosen = rng.permutation(len(labels))[:MOST_SHUFFLED]
    gram, _ = gram_of(fitted.scaled_kernel, training, fitted.spectrum)
    more = {name: list[Array]() for name in tables}  # of every row: how often it is wrong, less whether it was before
    for train, out in make_folds(labels[chosen], fitted.seed):
        known, left = chosen[train], chosen[out]
        try:
            machine = train_machine(gram[np.ix_(known, known)], labels[known], fitted.cost, fitted.nu)
        except ValueError:
            continue
        wrong = machine.predict(gram[np.ix_(left, known)]) != labels[left]
        for name, places in tables.items():
            often = np.zeros(len(left))
            for _ in range(SHUFFLES):
                shuffled = training.X[left].copy()
                shuffled[:, places] = training.X[rng.permutation(left)][:, places]
                often += (machine.predict(fitted.cross(shuffled)[:, known]) != labels[left]) / SHUFFLES
            more[name].append(often - wrong)
    found = []
    for name, each in more.items():
        rows = np.concatenate(each) if each else np.zeros(1)
        found.append(ColumnCost(name, float(rows.mean()), float(rows.std() / np.sqrt(len(rows)))))
    return tuple(sorted(found, key=lambda cost: -cost.cost))
