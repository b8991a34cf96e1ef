"""How kernels grow: what is one step away, and lines of growth (METHODS 3).

    +   S -> S + B        for every base kernel B on every dimension
    *   S -> S * B
    r   B -> B'           a base kernel replaced by another
    j   CP(0, C) at first      the level of a series jumps, where it looks like that; not a step of its own
    |   S -> CP(S, S), CP(S, B), CP(B, S), CW(S, B)     a change point or a window along the column of B; on request

CKS applies + and * to the whole kernel only; the full grammar to every subexpression S of it (METHODS 3). What a step
leaves alone keeps its values, so that a child starts from its parent's optimum; the new part has none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Literal, NamedTuple

from mercer.errors import InputError, KernelError
from mercer.kernels.algebra import canonical, canonical_structure, size, subexpressions, substitute
from mercer.kernels.blend import Blend, blend
from mercer.kernels.expression import (
    Base,
    Expression,
    Parameter,
    Product,
    Sum,
    build_base,
    contains,
    product_of,
    sum_of,
)
from mercer.kernels.leaf import REGISTRY
from mercer.learners.contract import Candidate, Step
from mercer.learners.racing import Task

Grammar = Literal["full", "cks"]
OPERATORS = "+*rj|"
LEFT_BEHIND = "left behind in the race: it could not have won"
# Periods nearer than this may be one season that changes: so many cycles over the data, and so many times each other.
# Heights that turn seven times over the data spread a season over three or four cycles to both sides.
NEAR_CYCLES, NEAR_PERIOD = 4.0, 1.25
MOST_PLACES = 8  # categories that may each have a place of its own: with more the data seldom tell so much


@dataclass(frozen=True)
class Child:
    """A kernel one step away: the structure under which it is known, and how it came about."""

    expression: Expression
    key: Expression
    step: Step


class Entry(NamedTuple):
    """A kernel of a level: how it came about, the number of its parent, and how to fit it."""

    child: Child
    parent: int | None
    task: Task


Level = Sequence[tuple[Child, int | None]]  # kernels, each with the number of its parent


@dataclass
class GrowthLine:
    """A line of growth: its best kernel so far, and the numbers of all its candidates.

    `first` is added to the stages of its levels, which tell the attempts of a search apart in its journal.
    """

    first: int = 0
    best: int | None = None
    members: set[int] = field(default_factory=set)
    ended: bool = False


def has_periods(kernel: Expression) -> bool:
    """Tell whether some part of a kernel repeats, so that periods of the data are where it begins."""
    return contains(kernel, Blend) or any(leaf.spec.words.role == "wave" for leaf in kernel.leaves())


def base_kernels(
    symbols: Sequence[str], columns: Sequence[int], categories: Mapping[int, int] | None = None
) -> tuple[Base, ...]:
    """Return every base kernel on every column, without values; on columns of categories these are CAT and ECAT.

    ECAT takes the place of CAT where there are three categories or more: with two it is the same.
    """
    kernels: list[Base] = []
    categories = categories or {}
    numbers = [column for column in columns if column not in categories]
    for symbol in symbols:
        if symbol not in REGISTRY:
            raise KernelError(f"there is no base kernel '{symbol}'; there are {', '.join(REGISTRY)}")
        if REGISTRY[symbol].uses_inputs:
            kernels += [build_base(symbol, column) for column in numbers]
        else:
            kernels.append(build_base(symbol))
    labels = [column for column in columns if column in categories]
    kernels += [build_base("CAT", column) for column in labels]
    few = [column for column in labels if 2 < categories[column] <= MOST_PLACES]
    kernels += [build_base("ECAT", column, components=categories[column] - 1) for column in few]
    if not kernels:
        raise InputError("the search needs at least one base kernel and one input column")
    return tuple(kernels)


def leave_behind(candidate: Candidate, evidence: float, score: float) -> Candidate:
    """Return a kernel that was fitted to a sample as one left behind, with what its scores would come to."""
    failed = candidate.status == "failed"
    status, message = ("failed", candidate.message) if failed else ("raced out", LEFT_BEHIND)
    score = math.inf if failed else score
    return replace(candidate, log_evidence=evidence, score=score, status=status, message=message, fit=None)


def jump_of_level(column: int, place: float) -> Expression:
    """Return a kernel whose level is another one after a place, beside a level that all kernels have."""
    return blend([None, build_base("C")], "CP", on=column, location=place)


def usual_kernels(
    symbols: Sequence[str], column: int, seasons: Sequence[float], span: float, more: Sequence[Expression] = ()
) -> list[Expression]:
    """Return what most series consist of, of the kernels allowed: a line, a curve, seasons, what is short-lived.

    Seasons of near periods may be one whose height or phase wanders: waves of frequencies f - d to f + d add up to one
    of frequency f that changes over about 1 / (2 pi d). Then there are two kernels: one with the season that changes,
    SE * PER, which forecasts that it goes on changing, and one with all of them side by side.

    more : further parts that this series may have: each kernel comes without and with them.
    """
    groups = group_near(seasons, span)
    apart = [[build_base("PER", column, period=float(period))] for period in seasons]
    joined = [[*_wander(column, group), build_base("PER", column, period=_middle(group))] for group in groups]
    kernels = []
    for waves in [joined, apart] if len(groups) < len(seasons) else [apart]:
        usual = [[build_base("LIN", column)], [build_base("SE", column)], *waves, [build_base("M12", column)]]
        parts: list[Expression] = [product_of(part) for part in usual if all(leaf.symbol in symbols for leaf in part)]
        kernels += [sum_of(parts + further) for further in ([], list(more)) if len(parts + further) > 1]
    return list(dict.fromkeys(kernels))


def group_near(seasons: Sequence[float], span: float) -> list[list[float]]:
    """Return periods in groups: those of one group are so near that they may be one season that changes."""
    groups: list[list[float]] = []
    for period in sorted(seasons):
        last = groups[-1][-1] if groups else math.nan
        if span / last - span / period <= NEAR_CYCLES and period <= NEAR_PERIOD * last:
            groups[-1].append(period)
        else:
            groups.append([period])
    return groups


def _middle(group: Sequence[float]) -> float:
    """Return the period half-way between the frequencies of a group."""
    return 2.0 / (1.0 / group[0] + 1.0 / group[-1])


def _wander(column: int, group: Sequence[float]) -> list[Base]:
    """Return the factor by which a season of several near periods changes; none of one period."""
    if len(group) == 1:
        return []
    return [build_base("SE", column, lengthscale=1.0 / (math.pi * (1.0 / group[0] - 1.0 / group[-1])))]


def check_operators(operators: str) -> None:
    """Refuse operators that are not known or given twice."""
    unknown = set(operators) - set(OPERATORS)
    if unknown or len(set(operators)) != len(operators) or not operators:
        raise InputError(
            f"operators is a text of some of '{OPERATORS}' (add, multiply, replace, jump, change), not {operators!r}"
        )


def children(parent: Expression, bases: Sequence[Base], operators: str, grammar: Grammar) -> Iterator[Child]:
    """Yield the kernels one step away, each canonical structure once, in a fixed order."""
    seen = {canonical_structure(parent)}
    for expression, step in _steps(parent, bases, operators, grammar):
        simpler = canonical(expression)  # merged or swallowed factors: their parameters cannot be distinguished
        if size(simpler) < size(expression):
            expression = simpler
        key = canonical_structure(expression)
        if key not in seen:
            seen.add(key)
            yield Child(expression, key, step)


def _steps(
    parent: Expression, bases: Sequence[Base], operators: str, grammar: Grammar
) -> Iterator[tuple[Expression, Step]]:
    for path, part in subexpressions(parent):
        if "|" not in operators and _is_inside_jump(parent, path):
            continue
        # adding to a term is adding to the sum, which comes anyway; the same for factors and parts of a change
        outer = reduce(lambda node, number: node.children[number], path[:-1], parent) if path else None
        allowed = operators if not path or grammar == "full" else ""
        for base in bases:
            if base.spec.coded:
                if "r" in operators and isinstance(part, Base) and _may_be_placed(part, base, outer):
                    yield substitute(parent, path, inherit(part, base)), Step("replace", part, base)
                continue
            if "+" in allowed and not isinstance(outer, Sum):
                yield substitute(parent, path, sum_of([part, base])), Step("add", base)
            may_multiply = "|" in operators or not contains(part, Blend)  # a jump of the level stays what it is
            if "*" in allowed and not isinstance(outer, Product) and may_multiply:
                yield substitute(parent, path, product_of([part, base])), Step("multiply", base)
            along = base.dims is not None and not base.spec.categorical  # a constant has no column to go along
            if "|" in allowed and not isinstance(outer, Blend) and base.dims and along:
                on = base.dims[:1]
                yield substitute(parent, path, blend([part, part], "CP", on=on)), Step("change of parameters", part)
                yield substitute(parent, path, blend([part, base], "CP", on=on)), Step("change to", base)
                yield substitute(parent, path, blend([base, part], "CP", on=on)), Step("change from", base)
                yield substitute(parent, path, blend([part, base], "CW", on=on)), Step("window", base)
            if "r" in operators and isinstance(part, Base) and (part.symbol, part.dims) != (base.symbol, base.dims):
                yield substitute(parent, path, inherit(part, base)), Step("replace", part, base)


def inherit(old: Base, new: Base) -> Base:
    """Return the new base kernel with what it has in common with the old one.

    Its variance, and a lengthscale of one kind.
    """
    units = {spec.name: spec.unit for spec in old.specs}
    result = new
    for spec in new.specs:
        alike = spec.name == "variance" or (units.get(spec.name) == spec.unit and old.dims == new.dims)
        if alike and spec.name in units:
            result = result.with_parameter(Parameter(spec.name, old.parameter(spec.name).values))
    return result


def _is_inside_jump(parent: Expression, path: Sequence[int]) -> bool:
    """Tell whether the way to a node leads through a change."""
    node = parent
    for number in path:
        if isinstance(node, Blend):
            return True
        node = node.children[number]
    return False


def _may_be_placed(part: Base, base: Base, outer: Expression | None) -> bool:
    """Tell whether ECAT may take the place of a part: of CAT as a factor, as one value for each says no more."""
    return part.spec.has("correlation") and part.dims == base.dims and isinstance(outer, Product)
