"""The picture that moves: numbers in the page from which its script switches parts on and off and tells values.

For one input of numbers or dates there is one curve, beyond the data too; for several inputs one along each, the others
at their median. Everything is computed here; the script only adds and draws. Numbers are thinned: a page stays small
whatever the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.explain import ComponentExplanation, Explanation
from mercer.kernels.domains import Array
from mercer.report.view import View, axis_values
from mercer.tables.columns import Categories, Column, DateColumn

MOST_PLACES = 400  # along a curve: a screen has hardly more pixels for them
MOST_ROWS = 800  # dots
MOST_INPUTS = 6  # curves along inputs, those with the largest effects
DIGITS = 6


def gather_numbers(view: View, explanation: Explanation) -> dict[str, Any] | None:
    """Return what the script needs; None where no input is made of numbers or dates, or nothing varies."""
    able = [column for column in view.varying if not isinstance(column, Categories)]
    parts = explanation.components
    if not able or not parts:
        return None
    if view.is_curve:
        curves = [_follow(view, explanation, able[0], parts)]
    else:
        size = {column: float(np.ptp(view.prediction(column, include_noise=False).mean)) for column in able}
        chosen = sorted(able, key=lambda column: -size[column])[:MOST_INPUTS]
        used = {column: [part for part in parts if column in view.find_columns(part.position)] for column in chosen}
        curves = [_follow(view, explanation, column, used[column]) for column in chosen if used[column]]
    titles = [{"title": part.title, "minor": part.minor} for part in parts]
    return {"target": view.target, "parts": titles, "curves": curves} if curves else None


def _follow(
    view: View, explanation: Explanation, column: Column, parts: tuple[ComponentExplanation, ...] | list[Any]
) -> dict[str, Any]:
    """Return the mean and its band along a column, each part that looks at it, and the rows."""
    numbers = view.sweep(column).rows[:, view.places(column)[0]]
    kept = np.linspace(0, len(numbers) - 1, min(MOST_PLACES, len(numbers))).round().astype(int)
    expected = view.prediction(column, include_noise=view.is_curve)
    means = {explanation.components.index(part): view.part(part.position, column).mean[kept] for part in parts}
    base = explanation.level
    if not view.is_curve:  # parts that do not look at this column add the same everywhere
        base = float(np.nanmean(expected.mean[kept] - np.sum(list(means.values()), axis=0)))
    found: dict[str, Any] = {
        "name": view.label(column),
        "dates": isinstance(column, DateColumn),
        "unit": column.timeline.unit if isinstance(column, DateColumn) else None,
        "observations": view.is_curve,  # the band is that of new ones; otherwise that of the function
        "x": axis_numbers(column, numbers[kept]),
        "mean": round_numbers(expected.mean[kept]),
        "reach": round_numbers(expected.reach[kept]),
        "base": round_numbers(np.array([base]))[0],
        "parts": [{"part": place, "y": round_numbers(mean)} for place, mean in means.items()],
    }
    if view.is_curve:
        rows = view.values(column)[:, 0]
        some = np.linspace(0, len(rows) - 1, min(MOST_ROWS, len(rows))).round().astype(int)
        found["points"] = {"x": axis_numbers(column, rows[some]), "y": round_numbers(view.observed[some])}
        found["last"] = axis_numbers(column, np.array([rows.max()]))[0]
    return found


def axis_numbers(column: Column, numbers: Array) -> list[Any]:
    """Return where numbers of a column are on an axis: dates as milliseconds since 1970."""
    found = axis_values(column, numbers)
    if isinstance(column, DateColumn):
        return [int(moment) for moment in found.astype("datetime64[ms]").astype(np.int64)]
    return round_numbers(found)


def round_numbers(values: Array) -> list[float | None]:
    """Return numbers with as many digits as a reader could want; null for none."""
    return [float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None for value in values]
