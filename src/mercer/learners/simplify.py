"""What is one step simpler than a kernel, or as simple and easier to read.

A summand or a factor less, copies of a factor taken out of a sum, RQ -> SE, a base kernel on fewer columns, the period
of a calendar in place of one that was fitted; a season without its mean, which the level of the target has already.

Values stay where they are, so that a simpler kernel starts from the optimum of the one it came from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from types import MappingProxyType

import numpy as np

from mercer.compute.fused import diagonal
from mercer.compute.program import compile_program
from mercer.kernels.algebra import canonical, size, split_mean, structure, subexpressions, substitute
from mercer.kernels.blend import Blend
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression, Parameter, Product, Sum, build_base, product_of, sum_of
from mercer.kernels.parameters import fill_held, layout, values_of
from mercer.learners.contract import Step

NEAR = 0.1  # of a period of the calendar: a fitted one so near may be that
SAME = 0.02  # of it: so near, two or three fitted periods are that
IDLE = 0.3  # of a lengthscale: a column whose whole range is less changes next to nothing

Simpler = tuple[Expression, Step]
Rhythms = Mapping[int, tuple[float, ...]]
NONE: Rhythms = MappingProxyType({})


def simplify(kernel: Expression, X: Array, rhythms: Rhythms = NONE) -> Iterator[Simpler]:
    """Yield the kernels one step simpler than a bound kernel with values, each structure once.

    `rhythms` are periods by column that are known beforehand.
    """
    free = layout(kernel).n_free
    for path, leaf in subexpressions(kernel):
        if isinstance(leaf, Base) and (known := _hold_period(leaf, rhythms)) is not None:
            yield substitute(kernel, path, known), Step("calendar", structure(leaf))
    seen: set[Expression] = set()
    for expression, step in _steps(kernel, X):
        shorter = canonical(expression)  # where factors merge there are parameters that cannot be distinguished
        simpler = shorter if size(shorter) < size(expression) else fill_held(expression)
        key = structure(simpler)
        if key not in seen and layout(simpler).n_free < free:
            seen.add(key)
            yield simpler, step


def _steps(kernel: Expression, X: Array) -> Iterator[Simpler]:
    for path, node in subexpressions(kernel):
        if isinstance(node, Sum):
            for place, term in enumerate(node.terms):
                rest = sum_of([*node.terms[:place], *node.terms[place + 1 :]])
                yield substitute(kernel, path, rest), Step("remove", structure(term))
            for new, shared in _share_factors(node):
                yield substitute(kernel, path, new), Step("share", shared)
        elif isinstance(node, Product):
            for place, factor in enumerate(node.factors):
                others = product_of([*node.factors[:place], *node.factors[place + 1 :]])
                # what the factor multiplied them by, on average: without it they keep their size
                filled, size = fill_held(factor), 1.0
                if not np.isnan(values := values_of(filled)).any():
                    size = float(np.mean(diagonal(compile_program(filled), values, X))) or 1.0
                yield substitute(kernel, path, others.multiply_by(size)), Step("divide", structure(factor))
        elif isinstance(node, Blend):
            for part in node.children:
                yield substitute(kernel, path, part), Step("everywhere", structure(part))
        elif isinstance(node, Base):
            for new, step in _simpler_base(node, X):
                yield substitute(kernel, path, new), step


def _simpler_base(leaf: Base, X: Array) -> Iterator[tuple[Base, Step]]:
    if simpler := leaf.spec.simpler:
        bare = build_base(simpler, *(leaf.dims or ()))
        smooth = replace(bare, isotropic=leaf.isotropic, ratios=leaf.ratios)
        for spec in smooth.specs:
            smooth = smooth.with_parameter(leaf.parameter(spec.name))
        yield smooth, Step("replace", structure(leaf), words=f"{structure(leaf).text()} -> {simpler}")
    linear = leaf.spec.words.role == "trend"
    if not (leaf.spec.radial or linear) or leaf.isotropic or len(leaf.columns) < 2:
        return
    # how much the kernel changes along each of its columns over the data
    span = np.ptp(X[:, list(leaf.columns)], axis=0)
    values = np.array(leaf.parameter("weights" if linear else "lengthscale").values)
    relevance = values * span**2 if linear else span / values
    order = [int(place) for place in np.argsort(relevance, kind="stable")]
    idle = [place for place in order[:-1] if relevance[place] < IDLE]
    for count in _counts_to_drop(len(idle)):
        dropped = tuple(order[:count])
        columns = tuple(leaf.columns[place] for place in sorted(dropped))
        yield _on_fewer_columns(leaf, dropped), Step("fewer columns", leaf, columns=columns)


def centre(kernel: Expression, rhythms: Rhythms = NONE) -> Iterator[Simpler]:
    """Yield the kernel with one base kernel in place of which there is one without its mean, once for each.

    A wave is PER only where its variance is many times its own height: CPER says the same with one number less to be
    large, and as a summand leaves the level to the level. Where its period may be one of the calendar, also with that.
    """
    for path, leaf in subexpressions(kernel):
        for own in (leaf, _hold_period(leaf, rhythms)) if isinstance(leaf, Base) else ():
            parts = None if own is None else split_mean(own)
            if parts is not None:
                yield substitute(kernel, path, parts[1]), Step("replace", structure(leaf), structure(parts[1]))


def _hold_period(leaf: Base, rhythms: Rhythms) -> Base | None:
    """Return a kernel with the period of the calendar that its own is near, held there; None where there is none.

    At even steps a pattern of 7 steps is one of 3.5 steps too, whose phases are all different before the seventh: where
    two or three periods are a known one, it is meant.
    """
    period = next((p for p in leaf.parameters if p.name == "period"), None)
    if period is None or period.values is None or period.fixed or len(leaf.columns) != 1:
        return None
    own, known = period.values[0], rhythms.get(leaf.columns[0], ())
    near = [(abs(times * own / rhythm - 1.0), rhythm, times) for rhythm in known for times in (1, 2, 3)]
    found = [(off, rhythm) for off, rhythm, times in near if off < (NEAR if times == 1 else SAME)]
    return leaf.with_parameter(Parameter("period", (min(found)[1],), fixed=True)) if found else None


def _counts_to_drop(idle: int) -> list[int]:
    """Return how many of the least relevant columns to leave out: one, all that look idle, or all but 1, 2, 4, ...

    A column of a long lengthscale may have a weak, almost linear effect that pays for itself. Were it left out with
    those that do nothing, their parameters would pay for it.
    """
    kept = [0, *(2**power for power in range(idle.bit_length()))]
    return sorted({1, *(idle - few for few in kept if few < idle)})


def _on_fewer_columns(leaf: Base, dropped: tuple[int, ...]) -> Base:
    kept = [place for place in range(len(leaf.columns)) if place not in dropped]
    result = replace(leaf, dims=tuple(leaf.columns[place] for place in kept))
    share = 1.0
    for parameter, spec in zip(leaf.parameters, leaf.specs, strict=True):
        if "dimension" in spec.shape and parameter.values is not None:
            values = [parameter.values[place] for place in kept]
            if spec.name == "weights":  # they add up to one
                share = sum(values) or 1.0
                values = [value / share for value in values]
            result = result.with_parameter(replace(parameter, values=tuple(values)))
    return result.multiply_by(share)


def _share_factors(node: Sum) -> Iterator[tuple[Expression, Expression]]:
    """Two summands with a factor of the same kind: A*B + A'*C -> A*(B + C), where A' is given up."""
    for one, other in combinations(range(len(node.terms)), 2):
        parts = [
            list(term.factors) if isinstance(term, Product) else [term] for term in (node.terms[one], node.terms[other])
        ]
        for factor in parts[0]:
            twin = next((each for each in parts[1] if structure(each) == structure(factor)), None)
            if not isinstance(factor, Base) or factor.spec.words.role in ("constant", "noise") or twin is None:
                continue
            inside = sum_of([_rest(parts[0], factor), _rest(parts[1], twin)])
            joined = product_of([factor.with_parameter(Parameter("variance", (1.0,))), inside])
            others = [term for place, term in enumerate(node.terms) if place not in (one, other)]
            yield sum_of([*others, joined]), structure(factor)


def _rest(factors: list[Expression], out: Expression) -> Expression:
    """The other factors, with the variance of the one that is taken out."""
    assert isinstance(out, Base)
    variance = (out.parameter("variance").values or (1.0,))[0]
    others = [factor for factor in factors if factor is not out]
    return product_of(others).multiply_by(variance) if others else build_base("C", variance=variance)
