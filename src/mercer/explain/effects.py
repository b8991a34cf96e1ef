"""Several inputs: what each does to the target with the others held, and which act together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.explain.narrate import LONG
from mercer.explain.subject import Part, Subject
from mercer.explain.wording import Column
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base

STEPS = 41
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
    """Return the effect of every input that varies, the largest first; none where there is only one input."""
    if len(subject.table_columns) < 2:
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


def interactions(subject: Subject) -> list[tuple[str, ...]]:
    """Return the sets of table columns that some component joins, each once."""
    found: list[tuple[str, ...]] = []
    for part in subject.parts:
        joined = tuple(dict.fromkeys(subject.columns[d].table_name for d in _relevant(subject, part)))
        if len(joined) > 1 and joined not in found:
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
        lengths = leaf.parameter("lengthscale").values if leaf.symbol in ("SE", "RQ", "M12", "M32", "M52") else None
        for i, d in enumerate(leaf.columns):
            span = subject.columns[d].span
            if lengths is None or span is None or lengths[min(i, len(lengths) - 1)] <= LONG * span:
                columns.add(d)
    return sorted(columns)
