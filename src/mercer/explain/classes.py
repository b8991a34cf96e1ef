"""A fitted classifier in plain data and plain words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mercer.explain.claims import plain
from mercer.explain.functionals import FunctionalExplanation
from mercer.explain.wording import counted, listed, percent, wrap

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
        by = listed(list(names)) if len(names) <= 3 else f"{len(names)} columns"
        return f"{self.target} told by {by}, from {counted(self.rows, 'row')}"

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
        pairs = [
            (self.confusion[i][j], self.classes[i], self.classes[j])
            for i in range(len(self.classes))
            for j in range(len(self.classes))
            if i != j
        ]
        if not pairs or max(pairs)[0] == 0:
            return "No row was put into a wrong class when it was left out."
        count, one, other = max(pairs)
        return f"Most often '{one}' was taken for '{other}': {counted(count, 'row')}."

    @property
    def relevance_sentence(self) -> str:
        """Which columns count."""
        if not self.relevance:
            return ""
        top = self.relevance[0]
        if top.share * len(self.relevance) < EQUAL:
            return "All columns count about the same."
        named = [f"{each.column} ({percent(each.share)})" for each in self.relevance[:3] if each.share > 0.05] or [
            f"{top.column} ({percent(top.share)})"
        ]
        idle = [each.column for each in self.relevance if each.share < 0.1 / len(self.relevance)]
        text = f"What counts most: {listed(named)}."
        return f"{text} Next to nothing comes from {listed(idle[:5])}." if idle else text

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
