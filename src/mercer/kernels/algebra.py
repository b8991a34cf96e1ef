"""Algebra of kernels: expansion into a sum of products, canonical form, structure, subexpressions.

All of it keeps the Gram matrix: products distribute over sums, constants are absorbed into variances, SE factors on the
same dimensions merge (exponents add), white noise swallows stationary factors on its dimensions, and order is fixed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product as cartesian

from mercer.kernels.expression import Base, Expression, Parameter, Product, Sum, product_of, sum_of
from mercer.kernels.text import to_text

Term = tuple[Base, ...]
Path = tuple[int, ...]


def canonical(expression: Expression) -> Expression:
    """Return the sum of products that is equal to the expression, in a fixed order."""
    return sum_of(components(expression))


def components(expression: Expression) -> tuple[Expression, ...]:
    """Return the summands of the canonical form: what a report shows one by one."""
    terms = _merge_sum([_simplified(term) for term in _expanded(expression)])
    return tuple(product_of(term) for term in sorted(terms, key=_order))


def structure(expression: Expression) -> Expression:
    """Return the expression without its values, for comparing what two kernels are rather than where they stand."""
    return expression.map_leaves(
        lambda leaf: replace(leaf, parameters=tuple(Parameter(p.name) for p in leaf.parameters))
    )


def canonical_structure(expression: Expression) -> Expression:
    """Return the key under which equal kernels are fitted once: the canonical form without values."""
    return canonical(structure(expression))


def size(expression: Expression) -> int:
    """Return the number of base kernels."""
    return sum(1 for _ in expression.leaves())


def subexpressions(expression: Expression, path: Path = ()) -> Iterator[tuple[Path, Expression]]:
    """Yield every node with its path from the root (child numbers), the root first."""
    yield path, expression
    for number, child in enumerate(expression.children):
        yield from subexpressions(child, (*path, number))


def substitute(expression: Expression, path: Path, new: Expression) -> Expression:
    """Return the expression with the node at `path` replaced."""
    if not path:
        return new
    children = list(expression.children)
    children[path[0]] = substitute(children[path[0]], path[1:], new)
    return expression.with_children(children)


def _expanded(expression: Expression) -> list[Term]:
    if isinstance(expression, Base):
        return [(expression,)]
    parts = [_expanded(child) for child in expression.children]
    if isinstance(expression, Sum):
        return [term for part in parts for term in part]
    assert isinstance(expression, Product)
    return [tuple(leaf for term in choice for leaf in term) for choice in cartesian(*parts)]


def _order(term: Term) -> tuple[str, str]:
    return " * ".join(to_text(structure(leaf)) for leaf in term), " * ".join(map(to_text, term))


def _simplified(term: Term) -> Term:
    """Absorb constants, merge SE factors, let white noise swallow, sort, and put the whole variance on the first."""
    variance = _product_of_variances(term)
    factors = [leaf for leaf in term if leaf.symbol != "C"]
    factors = _merge_se(_swallow(factors)) or [term[0]]
    factors.sort(key=lambda leaf: _order((_with_variance(leaf, Parameter("variance")),)))
    rest = Parameter("variance", None if variance.values is None else (1.0,), variance.fixed)
    return (_with_variance(factors[0], variance), *(_with_variance(leaf, rest) for leaf in factors[1:]))


def _product_of_variances(term: Term) -> Parameter:
    total, is_fixed = 1.0, True
    for leaf in term:
        parameter = leaf.parameter("variance")
        if parameter.values is None:
            return Parameter("variance")
        total *= parameter.values[0]
        is_fixed = is_fixed and parameter.fixed
    return Parameter("variance", (total,), is_fixed)


def _with_variance(leaf: Base, variance: Parameter) -> Base:
    return leaf.with_parameter(variance)


def _merge_se(factors: list[Base]) -> list[Base]:
    """SE(l1) SE(l2) = SE(l) with 1/l^2 = 1/l1^2 + 1/l2^2 in each dimension."""
    merged: dict[object, Base] = {}
    others: list[Base] = []
    for leaf in factors:
        if leaf.symbol != "SE":
            others.append(leaf)
            continue
        key = None if leaf.dims is None else frozenset(leaf.dims)
        merged[key] = _combined_se(merged[key], leaf) if key in merged else leaf
    return others + list(merged.values())


def _combined_se(a: Base, b: Base) -> Base:
    first, second = a.parameter("lengthscale"), b.parameter("lengthscale")
    if first.values is None or second.values is None or len(first.values) != len(second.values):
        return a.with_parameter(Parameter("lengthscale"))
    by_dim = dict(zip(b.dims, second.values, strict=True)) if b.dims is not None else None
    other = second.values if by_dim is None or a.dims is None else tuple(by_dim[d] for d in a.dims)
    values = tuple((u**-2 + v**-2) ** -0.5 for u, v in zip(first.values, other, strict=True))
    return a.with_parameter(Parameter("lengthscale", values, first.fixed and second.fixed))


def _swallow(factors: list[Base]) -> list[Base]:
    """Where x = x' on its dimensions white noise is one, and elsewhere zero: stationary factors there add nothing."""
    noises = [leaf for leaf in factors if leaf.symbol == "WN"]
    if not noises:
        return factors
    if any(noise.dims is None for noise in noises):
        noise = next(noise for noise in noises if noise.dims is None)
        covered = None
    else:
        dims = tuple(sorted({d for noise in noises for d in noise.dims or ()}, key=str))
        noise, covered = replace(noises[0], dims=dims), set(dims)

    def swallowed(leaf: Base) -> bool:
        inside = covered is None or (leaf.dims is not None and set(leaf.dims) <= covered)
        return leaf.symbol == "WN" or (leaf.spec.stationary and inside)

    return [noise, *(leaf for leaf in factors if not swallowed(leaf))]


def _merge_sum(terms: list[Term]) -> list[Term]:
    """Add up constants, and white noises on the same dimensions: they are one component each."""
    merged: dict[object, Term] = {}
    others: list[Term] = []
    for term in terms:
        leaf = term[0]
        if len(term) > 1 or leaf.symbol not in ("C", "WN"):
            others.append(term)
            continue
        key = (leaf.symbol, None if leaf.dims is None else frozenset(leaf.dims))
        merged[key] = (_added(merged[key][0], leaf),) if key in merged else term
    return others + list(merged.values())


def _added(a: Base, b: Base) -> Base:
    first, second = a.parameter("variance"), b.parameter("variance")
    if first.values is None or second.values is None:
        return a.with_parameter(Parameter("variance"))
    total = (first.values[0] + second.values[0],)
    return a.with_parameter(Parameter("variance", total, first.fixed and second.fixed))
