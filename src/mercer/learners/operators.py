"""The grammar: which kernels are one step away from a given one.

    +   S -> S + B        for every base kernel B on every dimension
    *   S -> S * B
    r   B -> B'           a base kernel replaced by another
    |   S -> CP(S, S), CP(S, B), CP(B, S), CW(S, B)     a change point or a window along the column of B; on request

CKS applies + and * to the whole kernel only; the full grammar to every subexpression S of it (METHODS 3). What a step
leaves alone keeps its values, so that a child starts from its parent's optimum; the new part has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from mercer.errors import InputError, KernelError
from mercer.kernels.algebra import canonical, canonical_structure, size, subexpressions, substitute
from mercer.kernels.blend import Blend, blend
from mercer.kernels.expression import Base, Expression, Parameter, Product, Sum, build_base, product_of, sum_of
from mercer.kernels.leaf import REGISTRY
from mercer.learners.contract import Step

Grammar = Literal["full", "cks"]
OPERATORS = "+*r|"


@dataclass(frozen=True)
class Child:
    """A kernel one step away: the structure under which it is known, and how it came about."""

    expression: Expression
    key: Expression
    step: Step


def base_kernels(symbols: Sequence[str], columns: Sequence[int]) -> tuple[Base, ...]:
    """Return every base kernel on every column, without values."""
    kernels: list[Base] = []
    for symbol in symbols:
        if symbol not in REGISTRY:
            raise KernelError(f"there is no base kernel '{symbol}'; there are {', '.join(REGISTRY)}")
        if REGISTRY[symbol].uses_inputs:
            kernels += [build_base(symbol, column) for column in columns]
        else:
            kernels.append(build_base(symbol))
    if not kernels:
        raise InputError("the search needs at least one base kernel and one input column")
    return tuple(kernels)


def check_operators(operators: str) -> None:
    """Refuse operators that are not known or given twice."""
    unknown = set(operators) - set(OPERATORS)
    if unknown or len(set(operators)) != len(operators) or not operators:
        raise InputError(
            f"operators is a text of some of '{OPERATORS}' (add, multiply, replace, change), not {operators!r}"
        )


def children(parent: Expression, bases: Sequence[Base], operators: str, grammar: Grammar) -> Iterator[Child]:
    """Yield the kernels one step away, each canonical structure once, in a fixed order."""
    seen = {canonical_structure(parent)}
    for expression, step in _steps(parent, bases, operators, grammar):
        simpler = canonical(expression)  # merged SE factors and swallowed ones are parameters that cannot be told apart
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
        at_root = not path
        for base in bases:
            if "+" in operators and (at_root or grammar == "full") and not _inside(parent, path, Sum):
                yield substitute(parent, path, sum_of([part, base])), Step("add", base)
            if "*" in operators and (at_root or grammar == "full") and not _inside(parent, path, Product):
                yield substitute(parent, path, product_of([part, base])), Step("multiply", base)
            if "|" in operators and (at_root or grammar == "full") and not _inside(parent, path, Blend):
                for change, step in _changes(part, base):
                    yield substitute(parent, path, change), step
            if "r" in operators and isinstance(part, Base) and (part.symbol, part.dims) != (base.symbol, base.dims):
                yield substitute(parent, path, _replacement(part, base)), Step("replace", part, base)


def _changes(part: Expression, base: Base) -> Iterator[tuple[Expression, Step]]:
    """Change points and windows along the column of a base kernel; a constant has none."""
    if not base.dims:
        return
    on = base.dims[:1]
    yield blend([part, part], "CP", on=on), Step("change of parameters", part)
    yield blend([part, base], "CP", on=on), Step("change to", base)
    yield blend([base, part], "CP", on=on), Step("change from", base)
    yield blend([part, base], "CW", on=on), Step("window", base)


def _inside(parent: Expression, path: tuple[int, ...], kind: type[Expression]) -> bool:
    """Tell whether the node's own parent is of this kind: adding to a term is adding to the sum, which comes anyway."""
    if not path:
        return False
    node = parent
    for number in path[:-1]:
        node = node.children[number]
    return isinstance(node, kind)


def _replacement(old: Base, new: Base) -> Base:
    """The new base kernel keeps what it has in common with the old one: its variance, and a lengthscale of one kind."""
    units = {spec.name: spec.unit for spec in old.specs}
    result = new
    for spec in new.specs:
        alike = spec.name == "variance" or (units.get(spec.name) == spec.unit and old.dims == new.dims)
        if alike and spec.name in units:
            result = result.with_parameter(Parameter(spec.name, old.parameter(spec.name).values))
    return result
