"""What the factors of a summand do over the range of the data: hardly change, wander like a random walk, act together.

Only the kernel and the range of its columns are looked at, no rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mercer.explain.wording import Column
from mercer.kernels.blend import Blend, Surface
from mercer.kernels.expression import Base, Expression
from mercer.kernels.leaf import Role
from mercer.kernels.network import has_network

LITTLE = 0.33  # of its size: a factor that changes less over the data is next to constant (SE: three times their range)
SLOW = 0.2  # of the range of the data: a random walk may be drawn back so soon and still look like one


def change(leaf: Base, place: int, column: Column) -> float:
    """Return how much a factor differs between the two ends of one of its columns, in units of its own size.

    That is sqrt(2 - 2 k(range) / k(0)) for a factor that depends on distances; infinite where it is not known.
    """
    span = column.span
    if span is None:
        return math.inf
    if leaf.spec.words.role == "trend":
        offsets = leaf.parameter("offset").values
        if offsets is None or len(leaf.columns) > 1 or column.low is None:
            return math.inf
        return span / max(abs(column.low + span / 2 - offsets[0]), 1e-12 * span)
    left = correlation(leaf, place, span)
    return math.inf if left is None else math.sqrt(max(0.0, 2 - 2 * left))


def correlation(leaf: Base, place: int, distance: float) -> float | None:
    """Return what is left of the correlation of a fading factor after a distance along one of its columns."""
    law = leaf.spec.words.correlation
    lengths = None if law is None else leaf.lengthscales()
    if law is None or lengths is None:
        return None
    alphas = leaf.parameter("alpha").values if leaf.spec.has("alpha") else None
    return law(distance / lengths[min(place, len(lengths) - 1)], alphas[0] if alphas else 1.0)


def hardly_changes(leaf: Base, on: Sequence[Column]) -> bool:
    """Tell whether a factor is next to constant over the data."""
    return bool(on) and all(change(leaf, place, column) < LITTLE for place, column in enumerate(on))


def walks(leaf: Base, on: Sequence[Column]) -> bool:
    """Tell whether a rough factor has a lengthscale beyond the range of the data, and so is a random walk in them."""
    return leaf.spec.words.wanders == "value" and _is_long(leaf, on)


def slope_walks(leaf: Base, on: Sequence[Column]) -> bool:
    """Tell whether a factor with a rough slope does: its slope is then a random walk."""
    return leaf.spec.words.wanders == "slope" and _is_long(leaf, on)


def drawn_back_over(leaf: Base, on: Sequence[Column]) -> float | None:
    """Return the lengthscale of a rough factor that is not much shorter than the data, else None.

    A true random walk is often fitted like that: it stays near the average of its own values (Dickey and Fuller 1979).
    """
    length = _length(leaf, on)
    rough = leaf.spec.words.wanders == "value"
    return length if rough and length is not None and SLOW <= length / (on[0].span or 1.0) < 1 else None


def _is_long(leaf: Base, on: Sequence[Column]) -> bool:
    length = _length(leaf, on)
    return length is not None and length >= (on[0].span or math.inf)


def _length(leaf: Base, on: Sequence[Column]) -> float | None:
    lengths = None if leaf.spec.words.correlation is None else leaf.lengthscales()
    if lengths is None or len(on) != 1 or on[0].span is None or on[0].level is not None:
        return None
    return lengths[0]


# ------------------------------------------------------------------------------------------------------------- together


@dataclass(frozen=True)
class Joint:
    """How the columns of a product go together: `idle` ones do nothing, the effects of the others may just add up."""

    idle: frozenset[int] = frozenset()
    add_up: bool = False


def judge_by_rule(term: Expression, columns: Sequence[Column]) -> Joint:
    """Judge by the kernel alone: a factor that hardly changes over the data is idle, unless all of them are so."""
    if has_network(term):
        return Joint()
    groups = group_factors(term)
    on = {dims: [columns[d] for d in dims] for dims in groups}
    idle = [dims for dims, leaves in groups.items() if all(hardly_changes(leaf, on[dims]) for leaf in leaves)]
    if len(idle) == len(groups):
        return Joint(add_up=True)
    return Joint(frozenset(d for dims in idle for d in dims))


def nouns_first(term: Expression) -> list[Base]:
    """Return the base kernels of a summand, the noun first: a product is as rough as its roughest factor."""
    return sorted(term.leaves(), key=lambda leaf: leaf.spec.words.rank)


def role(leaf: Base) -> Role:
    """Return what a base kernel is in words."""
    return leaf.spec.words.role


def group_factors(term: Expression) -> dict[tuple[int, ...], list[Base]]:
    """Return the factors of a summand by the columns they look at, the noun of each group first."""
    groups: dict[tuple[int, ...], list[Base]] = {}
    for leaf in nouns_first(term):
        groups.setdefault(leaf.columns, []).append(leaf)
    return groups


def find_acting(term: Expression, columns: Sequence[Column], joint: Joint | None) -> dict[tuple[int, ...], list[Base]]:
    """Return the groups of factors that do something."""
    groups, idle = group_factors(term), (judge_by_rule(term, columns) if joint is None else joint).idle
    return {dims: leaves for dims, leaves in groups.items() if not dims or not idle.issuperset(dims)} or groups


def merge_factors(leaves: list[Base], on: Sequence[Column]) -> list[Base]:
    """Join factors that depend on distances in one column: as rough as the roughest, forgotten as soon as the first.

    Where none is forgotten within the data, only those that hardly change beside the roughest are left out. Lines whose
    zero is far away are left out, too: what they multiply is no trend.
    """
    if role(leaves[0]) == "trend" and all(hardly_changes(leaf, on) for leaf in leaves if role(leaf) == "trend"):
        leaves = [leaf for leaf in leaves if role(leaf) != "trend"] or leaves
    fading = [leaf for leaf in leaves if role(leaf) == "fading"]
    lengths = [leaf.lengthscales() for leaf in fading]
    if len(fading) < 2 or len(on) != 1 or any(values is None for values in lengths):
        return leaves
    shortest = min(values[0] for values in lengths if values is not None)
    if shortest >= (on[0].span or math.inf):
        return [leaf for leaf in leaves if leaf not in fading[1:] or not hardly_changes(leaf, on)]
    joined = fading[0].with_parameter(replace(fading[0].parameter("lengthscale"), values=(shortest,)))
    return [joined if leaf is fading[0] else leaf for leaf in leaves if leaf is fading[0] or leaf not in fading]


def drifts(term: Expression, columns: Sequence[Column]) -> bool:
    """Tell whether a factor of a summand is a random walk within the data."""
    groups = [(leaves, [columns[d] for d in dims]) for dims, leaves in group_factors(term).items()]
    return any(walks(leaf, on) for leaves, on in groups for leaf in merge_factors(leaves, on))


def alters(others: Sequence[Base], on: Sequence[Column]) -> bool:
    """Tell whether factors make a pattern change from one repetition to the next."""
    fading = [leaf for leaf in others if role(leaf) == "fading"]
    return any(walks(leaf, on) or not hardly_changes(leaf, on) for leaf in fading)


def find_bending(lines: list[Base], on: Sequence[Column]) -> list[Base]:
    """Return the factors LIN that matter within the data: not those whose zero is far away, as long as one is left."""
    return [line for line in lines if not hardly_changes(line, on)] or lines[:1]


@dataclass(frozen=True)
class Growth:
    """How lines scale what they multiply over the data; `zero` is where a single line passes it, if known."""

    kind: Literal["constant", "growing", "shrinking", "changing"]
    power: int
    zero: float | None = None


def find_growth(lines: list[Base], on: Sequence[Column]) -> Growth:
    """Tell how a line, or several, scales what it multiplies."""
    lines = find_bending(lines, on)
    power = len(lines)
    if power == 1 and hardly_changes(lines[0], on):
        return Growth("constant", 1)
    offsets = [line.parameter("offset").values for line in lines]
    known = [values[0] for values in offsets if values is not None]
    low, high = on[0].low, on[0].high
    if len(on) > 1 or len(known) < power or low is None or high is None:
        return Growth("growing", power)
    zero = known[0] if power == 1 else None
    if min(known) >= high:
        return Growth("shrinking", power, zero)
    return Growth("growing" if power == 1 or max(known) <= low else "changing", power, zero)


# ---------------------------------------------------------------------------------------------------------------- gates


def open_gates(term: Expression) -> tuple[Expression, tuple[tuple[Surface, int], ...]]:
    """Return what is inside the gates of a component, and the gates: surfaces with the regime, from outside in."""
    gates: list[tuple[Surface, int]] = []
    while isinstance(term, Blend):
        regime = next(i for i, part in enumerate(term.parts) if part is not None)
        gates.append((term.surface, regime))
        term = term.children[0]
    return term, tuple(gates)


def has_ended(surface: Surface, regime: int, columns: Sequence[Column]) -> bool:
    """Tell whether a regime holds no more at the end of the data: another change point, or the window's end, came."""
    value = {p.name: p.values for p in surface.parameters}
    if surface.kind == "CP":
        return regime < surface.regimes - 1
    if surface.kind == "CW" and regime == 1 and value["start"] is not None and value["duration"] is not None:
        end, width = value["start"][0] + value["duration"][0], (value["width"] or (0.0,))[0]
        high = columns[surface.columns[0]].high
        return high is not None and end + width < high
    return False
