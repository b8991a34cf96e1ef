"""Several inputs: what each does to the target with the others held, and which act together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mercer.explain.drift import LITTLE, change
from mercer.explain.phrases import Joint, by_rule
from mercer.explain.subject import Part, Subject
from mercer.explain.wording import Column
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base

STEPS = 41
EXCHANGED = 24  # rows whose columns are exchanged with each other
NO_PART, TOGETHER = 0.01, 0.02  # of a component's variance: less is no effect of a column, no interaction
SMALL = 0.001  # of the variance of the target: components below join nothing worth telling
MOST_COLUMNS = 8  # exchanged; with more the kernel alone is looked at
HARDLY = 0.05  # of the standard deviation of the target: smaller effects are not worth a direction


@dataclass(frozen=True)
class Effect:
    """How the mean moves along one column of the table, the others at their median or most common category.

    `direction` is "rises", "falls", "goes up and down", "differs" (categories) or "hardly matters"; the places of the
    lowest and highest mean are written as a reader would.
    """

    column: str
    size: float
    direction: str
    lowest_at: str
    highest_at: str


def effects(subject: Subject) -> list[Effect]:
    """Return the effect of every input that varies, the largest first; none of a single one that is a curve."""
    if subject.only_column is not None:
        return []
    return sorted((_effect(subject, name, places) for name, places in subject.table_columns.items()), key=_by_size)


def _by_size(effect: Effect) -> float:
    return -effect.size


def _effect(subject: Subject, name: str, places: tuple[int, ...]) -> Effect:
    rows, labels = _sweep(subject, places)
    mean = subject.units.y_scale * subject.posterior.predict(rows).mean
    size = float(np.ptp(mean))
    kind = _direction(mean, size, subject.columns[places[0]])
    if size < HARDLY * float(np.std(subject.observed)):
        kind = "hardly matters"
    return Effect(name, size, kind, labels[int(np.argmin(mean))], labels[int(np.argmax(mean))])


def _sweep(subject: Subject, places: tuple[int, ...]) -> tuple[Array, list[str]]:
    column = subject.columns[places[0]]
    if column.level is None:
        values = subject.in_user_units(places[0])
        grid = np.linspace(values.min(), values.max(), STEPS)
        return subject.rows_along(places[0], grid), [column.at(float(value)) for value in grid]
    rows = np.tile(subject.typical_row(), (len(places), 1))
    for row, chosen in enumerate(places):
        for d in places:
            rows[row, d] = subject.scaled(d, np.array([float(d == chosen)]))[0]
    return rows, [str(subject.columns[d].level) for d in places]


def _direction(mean: Array, size: float, column: Column) -> str:
    if column.level is not None:
        return "differs"
    steps = np.diff(mean)
    if np.all(steps >= -0.01 * size):
        return "rises"
    return "falls" if np.all(steps <= 0.01 * size) else "goes up and down"


# ----------------------------------------------------------------------------------------------------------- together


def joint(subject: Subject, part: Part) -> Joint:
    """Tell which columns of a component do nothing, and whether the effects of the others just add up.

    A product of kernels need not be an interaction: (a + u)(b + v) with u small beside a is a sum but for the term uv.
    So the mean of the component is looked at where each table column is exchanged between rows.
    """
    sets = _table_sets(subject, part)
    if not 1 < len(sets) <= MOST_COLUMNS:
        return by_rule(part.kernel, subject.columns)
    idle: list[int] = []
    apart = True
    for own in sets.values():
        alone, together = _exchanged(subject, part, own)
        if alone + together < NO_PART:
            idle += own
        apart = apart and together < TOGETHER
    return Joint(frozenset(idle), apart)


def _table_sets(subject: Subject, part: Part) -> dict[str, list[int]]:
    sets: dict[str, list[int]] = {}
    for d in part.columns:
        sets.setdefault(subject.columns[d].table_name, []).append(d)
    return sets


def _exchanged(subject: Subject, part: Part, own: list[int]) -> tuple[float, float]:
    """Return the shares of a component's variance that columns have by themselves, and together with the others."""
    X = subject.data.X
    rows = X[np.random.default_rng(0).permutation(len(X))[:EXCHANGED]]
    count = len(rows)
    mixed = np.tile(rows, (count, 1))  # row i * count + j has `own` from row i, the other columns from row j
    mixed[:, own] = np.repeat(rows[:, own], count, axis=0)
    mean = subject.part_at(part, mixed).mean.reshape(count, count)
    total = float(mean.var())
    if total == 0:
        return 0.0, 0.0
    by_own, by_others = mean.mean(axis=1), mean.mean(axis=0)
    rest = mean - by_own[:, None] - by_others[None, :] + mean.mean()
    return float(by_own.var()) / total, float(rest.var()) / total


def interactions(subject: Subject, joints: Sequence[Joint]) -> list[tuple[str, ...]]:
    """Return the sets of table columns that some component joins, each once; `joints` are those of the components."""
    found: list[tuple[str, ...]] = []
    observed = float(np.var(subject.observed))
    for part, together in zip(subject.parts, joints, strict=True):
        relevant = set(_relevant(subject, part)) - together.idle
        joined = tuple(dict.fromkeys(subject.columns[d].table_name for d in sorted(relevant)))
        if together.add_up or len(joined) < 2 or joined in found:
            continue
        if float(np.var(subject.part_at(part, subject.data.X).mean)) >= SMALL * observed:
            found.append(joined)
    return found


def _relevant(subject: Subject, part: Part) -> list[int]:
    """Return the columns of a component that matter: not those with a lengthscale far beyond their range.

    A linear kernel on several columns is a sum over them, and joins nothing.
    """
    if isinstance(part.kernel, Base) and part.kernel.symbol == "LIN":
        return []
    columns: set[int] = set()
    for leaf in part.kernel.leaves():
        for place, d in enumerate(leaf.columns):
            if leaf.symbol == "LIN" or change(leaf, place, subject.columns[d]) >= LITTLE:
                columns.add(d)
    return sorted(columns)
