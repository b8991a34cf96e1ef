"""The factors of a summand, as records: what each does over the range of its columns, and what they do together.

Does it hardly change, wander like a random walk, repeat? Only the kernel and the range of its columns are looked at, no
rows (METHODS 3). The words for it are in `phrases.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Literal

from mercer.explain.categories import correlate_pairs
from mercer.explain.wording import Column
from mercer.kernels.blend import Blend, Surface
from mercer.kernels.expression import Base, Expression, contains
from mercer.kernels.leaf import Role, Words
from mercer.kernels.network import Network

LASTING = ("fading", "walk")  # roles of what has a value that lasts for a while, or for good
LITTLE = 0.33  # of its size: a factor that changes less over the data is next to constant (SE: three times their range)
SLOW = 0.2  # of the range of the data: a random walk drawn back over this length still looks like one
SELDOM = 2.5  # cycles: of a wave that the data show fewer times nobody knows that it repeats
SELDOM_BY_CALENDAR = 1.5  # but years, weeks and days do repeat
FEW_CYCLES = 3.0  # a pattern that the data show fewer times may not be one that repeats


@dataclass(frozen=True)
class KernelFactor:
    """A base kernel as a factor of a summand.

    lengths : the lengthscales of one that fades with the distance, or whose slope does. changes : by how much it
        differs between the two ends of each column, in units of its own size; infinite where that is not known.
    walks : it is rough and its lengthscale is beyond the data, so that it is a random walk in them; slope_walks : so is
        its slope. pull : the lengthscale of a rough one that is not much shorter than the data. A true random walk is
        often fitted like that: it stays near the average of its own values (Dickey and Fuller 1979).
    slope_fades : its slope is forgotten over the lengthscale.
    """

    leaf: Base
    on: tuple[Column, ...]
    role: Role
    words: Words
    lengths: tuple[float, ...] | None
    changes: tuple[float, ...]
    hardly_changes: bool
    walks: bool
    slope_walks: bool
    pull: float | None
    slope_fades: bool = False


@lru_cache(maxsize=4096)
def read_factor(leaf: Base, on: tuple[Column, ...]) -> KernelFactor:
    """Find out what a base kernel does over the range of its columns."""
    words = leaf.spec.words
    lengths = leaf.lengthscales() if words.role in LASTING and leaf.spec.has("lengthscale") else None
    changes = tuple(change(leaf, place, column) for place, column in enumerate(on))
    relative = None  # its only lengthscale, in units of the range of the data
    if lengths is not None and words.correlation is not None and len(on) == 1 and not on[0].is_category and on[0].span:
        relative = lengths[0] / on[0].span
    beyond = words.role == "walk" or (relative is not None and relative >= 1)
    slow = words.wanders == "value" and relative is not None and SLOW <= relative < 1
    return KernelFactor(
        leaf=leaf,
        on=on,
        role=words.role,
        words=words,
        lengths=lengths,
        changes=changes,
        hardly_changes=bool(on) and max(changes) < LITTLE,
        walks=words.wanders == "value" and beyond,
        slope_walks=words.wanders == "slope" and beyond,
        pull=lengths[0] if slow and lengths is not None else None,
        slope_fades=words.wanders == "fading slope",
    )


def change(leaf: Base, place: int, column: Column) -> float:
    """Return how much a factor differs between the two ends of one of its columns, in units of its own size.

    That is sqrt(2 - 2 k(range) / k(0)) for a factor that depends on distances; infinite where it is not known.
    """
    span = column.span
    if leaf.spec.words.role == "levels":
        pairs = correlate_pairs(leaf, place)
        return math.inf if pairs is None else math.sqrt(max(0.0, 2 - 2 * min(pair.correlation for pair in pairs)))
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


# ------------------------------------------------------------------------------------------------------------- together


@dataclass(frozen=True)
class Joint:
    """How the columns of a product go together: `idle` ones do nothing, the effects of the others may just add up.

    Where not all of them do, those of some columns may: they are `apart`. `together`: the largest variance, in the
    user's units, that a column has only together with the others, where it was worked out.
    """

    idle: frozenset[int] = frozenset()
    add_up: bool = False
    apart: frozenset[int] = frozenset()
    together: float = 0.0


Groups = dict[tuple[int, ...], list[KernelFactor]]  # factors by the columns they look at


def read_factors(term: Expression, columns: Sequence[Column]) -> list[KernelFactor]:
    """Return the factors of a summand, the noun first: a product is as rough as its roughest factor."""
    found = [read_factor(leaf, tuple([columns[d] for d in leaf.columns])) for leaf in term.leaves()]
    return sorted(found, key=attrgetter("words.rank"))


def group_factors(term: Expression, columns: Sequence[Column]) -> Groups:
    """Return the factors of a summand by the columns they look at, the noun of each group first."""
    groups: Groups = {}
    for factor in read_factors(term, columns):
        groups.setdefault(factor.leaf.columns, []).append(factor)
    return groups


def judge_by_rule(term: Expression, columns: Sequence[Column]) -> Joint:
    """Judge by the kernel alone: a factor that hardly changes over the data is idle, unless all of them are."""
    if contains(term, Network):
        return Joint()
    groups = group_factors(term, columns)
    idle = [dims for dims, factors in groups.items() if all(factor.hardly_changes for factor in factors)]
    if len(idle) == len(groups):
        return Joint(add_up=True)
    return Joint(frozenset(d for dims in idle for d in dims))


def find_acting(groups: Groups, joint: Joint) -> Groups:
    """Return the groups of factors that do something."""
    return {dims: own for dims, own in groups.items() if not dims or not joint.idle.issuperset(dims)} or groups


def merge_factors(factors: list[KernelFactor]) -> list[KernelFactor]:
    """Join factors that depend on distances in one column: as rough as the roughest, forgotten as soon as the first.

    Where none is forgotten within the data, only those that hardly change beside the roughest are left out. Lines whose
    zero is far away are left out, too: what they multiply is no trend.
    """
    if factors[0].role == "trend" and all([factor.hardly_changes for factor in factors if factor.role == "trend"]):
        factors = [factor for factor in factors if factor.role != "trend"] or factors
    fading = [factor for factor in factors if factor.role == "fading"]
    lengths = [factor.lengths[0] for factor in fading if factor.lengths is not None]
    if len(fading) < 2 or len(fading[0].on) != 1 or len(lengths) < len(fading):
        return factors
    first, shortest = fading[0], min(lengths)
    if shortest >= (first.on[0].span or math.inf):
        return [factor for factor in factors if factor not in fading[1:] or not factor.hardly_changes]
    parameter = replace(first.leaf.parameter("lengthscale"), values=(shortest,))
    joined = read_factor(first.leaf.with_parameter(parameter), first.on)
    return [joined if factor is first else factor for factor in factors if factor is first or factor not in fading]


def drifts(term: Expression, columns: Sequence[Column]) -> bool:
    """Say whether a factor of a summand is a random walk within the data, and no line that it bends with it."""
    groups = [merge_factors(factors) for factors in group_factors(term, columns).values()]
    bends = [any(each.role == "trend" and not each.hardly_changes for each in factors) for factors in groups]
    return any(any(each.walks for each in own) and not line for own, line in zip(groups, bends, strict=True))


def alters(factors: Sequence[KernelFactor]) -> bool:
    """Say whether factors make a pattern change from one repetition to the next."""
    return any([factor.walks or not factor.hardly_changes for factor in factors if factor.role in LASTING])


def find_bending(factors: Sequence[KernelFactor]) -> list[KernelFactor]:
    """Return the lines that matter within the data: not those whose zero is far away, as long as one is left."""
    lines = [factor for factor in factors if factor.role == "trend"]
    return [line for line in lines if not line.hardly_changes] or lines[:1]


@dataclass(frozen=True)
class Growth:
    """How lines scale what they multiply over the data; `zero` is where a single line passes it, if known."""

    kind: Literal["constant", "growing", "shrinking", "changing"]
    power: int
    zero: float | None = None


def find_growth(factors: Sequence[KernelFactor]) -> Growth:
    """Find how a line among the factors, or several, scales the others; constant where there is none."""
    lines = find_bending(factors)
    power = len(lines)
    if not lines or (power == 1 and lines[0].hardly_changes):
        return Growth("constant", power)
    offsets = [line.leaf.parameter("offset").values for line in lines]
    known = [values[0] for values in offsets if values is not None]
    low, high = lines[0].on[0].low, lines[0].on[0].high
    if len(lines[0].on) > 1 or len(known) < power or low is None or high is None:
        return Growth("growing", power)
    zero = known[0] if power == 1 else None
    if min(known) >= high:
        return Growth("shrinking", power, zero)
    return Growth("growing" if max(known) <= low else "changing", power, zero)


# ---------------------------------------------------------------------------------------------------------------- waves


def is_seldom(period: float, column: Column) -> bool:
    """Whether the data show a period too few times to know that it repeats."""
    least = SELDOM if column.rhythm(period) is None else SELDOM_BY_CALENDAR
    return column.span is not None and column.span < least * period


def find_wave_period(factor: KernelFactor) -> float | None:
    """Return the period of what repeats along one column, where it has one that is known."""
    leaf = factor.leaf
    if factor.role != "wave" or leaf.spec.mixture or len(factor.on) != 1:
        return None
    if leaf.spec.has("period"):
        return (leaf.parameter("period").values or (None,))[0]
    frequencies = leaf.parameter("frequency").values if leaf.spec.has("frequency") else None
    return 1.0 / abs(frequencies[0]) if frequencies and frequencies[0] else None


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
    """Say whether a regime has ended before the data do: at a change point, or at the end of its window."""
    value = {p.name: p.values for p in surface.parameters}
    if surface.kind == "CP":
        return regime < surface.regimes - 1
    if surface.kind == "CW" and regime == 1 and value["start"] is not None and value["duration"] is not None:
        end, width = value["start"][0] + value["duration"][0], (value["width"] or (0.0,))[0]
        high = columns[surface.columns[0]].high
        return high is not None and end + width < high
    return False
