"""Columns of categories in an explanation: how much each category is above or below the average, and in which words.

The effect of category c is what the mean would be on average over the rows if all of them were c, less the average over
the categories as often as they occur. With f at rows X_c that have been given category c:

    e_c = mean f(X_c) - sum_k w_k mean f(X_k),   w_k the share of rows of category k

It is linear in f, so that its band follows from the joint posterior of f at those rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.explain.claims import WITHIN_95, Claim
from mercer.explain.wording import LISTED, Column, Vocabulary, list_names, name_columns, number
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression

if TYPE_CHECKING:
    from mercer.explain.subject import Subject

MOST_ROWS, AVERAGED = 600, 60  # rows of a joint posterior in all, and for each category
MOST_VALUES = 50  # of a column of numbers under CAT: more are not looked at one by one


@dataclass(frozen=True)
class LevelEffect:
    """By how much the target is higher for one category than on average, with its 95 % band; `rows` have it."""

    level: str
    mean: float
    low: float
    high: float
    rows: int


def mark_levels(columns: Sequence[Column], kernel: Expression, X: Array) -> Iterator[Column]:
    """Yield the columns as a reader knows them; numbers that a kernel takes for categories are categories."""
    coded = {d for leaf in kernel.leaves() if leaf.spec.words.role == "levels" for d in leaf.columns}
    for d, column in enumerate(columns):
        values = np.unique(X[:, d]) if d in coded and not column.is_category else np.empty(0)
        if 0 < len(values) <= MOST_VALUES:
            column = replace(column, levels=tuple(map(column.at, values)), codes=tuple(map(float, values)))
        yield column


def rows_by_level(subject: Subject, places: Sequence[int]) -> tuple[list[str], Array]:
    """Return the categories of a column, and its encoded columns (scaled) for each: one of codes, or zeros and ones."""
    columns = [subject.columns[d] for d in places]
    if columns[0].levels:
        return list(columns[0].levels), subject.scale(places[0], np.array(columns[0].codes))[:, None]
    encoded = [subject.scale(d, row) for d, row in zip(places, np.eye(len(places)), strict=True)]
    return [str(each.level) for each in columns], np.stack(encoded, axis=1)


def measure_levels(subject: Subject, places: Sequence[int]) -> tuple[LevelEffect, ...]:
    """Return the effect of each category of a column, the largest first; see above."""
    labels, encoded = rows_by_level(subject, places)
    X, own = subject.data.X, list(places)
    at = np.abs(X[:, own][:, None, :] - encoded[None]).sum(axis=2).argmin(axis=1)
    counts = np.bincount(at, minlength=len(labels))
    each = max(1, min(AVERAGED, MOST_ROWS // len(labels), len(X)))
    chosen = X[np.linspace(0, len(X) - 1, each).astype(int)]
    rows = np.tile(chosen, (len(labels), 1))
    rows[:, own] = np.repeat(encoded, each, axis=0)
    mean, covariance = subject.mixture.predict_joint(rows, include_noise=False)
    average = np.kron(np.eye(len(labels)), np.full((1, each), 1.0 / each))
    centred = (np.eye(len(labels)) - np.tile(counts / counts.sum(), (len(labels), 1))) @ average
    effects = subject.units.y_scale * (centred @ mean)
    variances = np.maximum(np.einsum("ij,jk,ik->i", centred, covariance, centred), 0.0)
    reach = WITHIN_95 * subject.units.y_scale * np.sqrt(variances)
    found = [
        LevelEffect(label, float(e), float(e - r), float(e + r), int(n))
        for label, e, r, n in zip(labels, effects, reach, counts, strict=True)
    ]
    return tuple(sorted(found, key=lambda effect: -effect.mean))


@dataclass(frozen=True)
class Pair:
    """Two categories by number (None: any two), and how alike what a kernel multiplies is for them."""

    categories: tuple[int, int] | None
    correlation: float


def correlate_pairs(leaf: Base, place: int = 0) -> list[Pair] | None:
    """Return the correlations of a kernel of categories, the largest first; None where they are not known."""
    if leaf.spec.has("correlation"):
        shared = leaf.parameter("correlation").values
        return None if shared is None else [Pair(None, shared[min(place, len(shared) - 1)])]
    others = leaf.parameter("places").values
    if others is None:
        return None
    at = np.array([0.0, *others])
    pairs = [Pair((i, j), float(np.exp(-0.5 * (at[i] - at[j]) ** 2))) for i, j in combinations(range(len(at)), 2)]
    return sorted(pairs, key=lambda pair: -pair.correlation)


# ---------------------------------------------------------------------------------------------------------------- words


def say_pairs(leaf: Base, column: Column) -> str:
    """Say how alike the categories are: any two, or the two most alike and the two least."""
    pairs = correlate_pairs(leaf)
    if pairs is None:
        return ""
    if pairs[0].categories is None:
        return f"correlation {number(pairs[0].correlation)} between any two"
    most, least = (
        f"{list_names([column.at(float(code)) for code in pair.categories or ()])} ({number(pair.correlation)})"
        for pair in (pairs[0], pairs[-1])
    )
    return f"most alike {most}" if len(pairs) == 1 else f"most alike are {most}, least {least}"


def say_levels(effect: Any, target: str) -> str:
    """Say how much higher or lower the target is for each category: the highest and the lowest of many."""
    levels: Sequence[LevelEffect] = effect.levels
    shown = [_say_level(level, first=place == 0) for place, level in enumerate(levels)]
    if len(levels) > 2 * LISTED + 1:
        between = len(levels) - 2 * LISTED
        shown = [*shown[:LISTED], f"{between} others are in between", *shown[-LISTED:]]
    return f"{target} by {effect.column}: {'; '.join(shown)}."


def _say_level(level: LevelEffect, first: bool) -> str:
    average = "the average" if first else "it"
    if level.low < 0 < level.high:
        return f"{level.level} is near {average} ({number(level.low)} to {number(level.high)} from it)"
    side = "higher" if level.mean > 0 else "lower"
    ends = sorted((abs(level.low), abs(level.high)))
    than = f" than {average}" if first else ""
    band = f"{'95 % band ' if first else ''}{number(ends[0])} to {number(ends[1])}"
    return f"{level.level} is {number(abs(level.mean))} {side}{than} ({band})"


def say_interaction(claim: Claim, vocabulary: Vocabulary, sure: str = "") -> str:
    """Say that the effects of inputs depend on each other; of numbers and categories which differs between which.

    `sure` is how sure that is, where it needs saying.
    """
    kinds = {column.table_name: column.is_category for column in vocabulary.columns}
    levels = [name for name in claim.value if kinds.get(name)]
    others = [Column(name) for name in claim.value if not kinds.get(name)]
    if not levels or not others:
        return f"The effects of {name_columns([Column(name) for name in claim.value])} depend on each other{sure}."
    verb = "effect of {} differs" if len(others) == 1 else "joint effect of {} differs"
    return f"The {verb.format(name_columns(others))} between the values of {list_names(levels)}{sure}."
