"""What can be done to a random kernel without changing it, and what can be left out of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from mercer.kernels.algebra import subexpressions, substitute
from mercer.kernels.expression import Base, Expression, Parameter, Product, Sum, product_of, sum_of
from tests.strategies import base_kernels, kernels

ODD_NAMES = (
    "x",
    "temp °C",
    'say "hi"',
    "a\\b",
    "two\nlines",
    "fixed",
    "0",
    "",
    "größe",
    "éa",
    "SE",
    "lengthscale",
    "a,b)",
)


def change_parameters(expression: Expression, change: Callable[[Parameter], Parameter]) -> Expression:
    return expression.map_leaves(lambda leaf: replace(leaf, parameters=tuple(map(change, leaf.parameters))))


@st.composite
def partly_fixed(draw: st.DrawFn, dimensions: int = 3) -> Expression:
    """A bound kernel with all values set, many or few or none of them fixed."""
    kernel = draw(st.one_of(kernels(dimensions), mergers(dimensions)))
    few = draw(st.integers(0, 4))
    return change_parameters(kernel, lambda p: _uneven(replace(p, fixed=draw(st.integers(0, few)) > 2 * few // 3)))


@st.composite
def mergers(draw: st.DrawFn, dimensions: int) -> Expression:
    """A product of base kernels that canonical form merges, plus something: they rarely meet otherwise."""
    symbols = st.sampled_from(("SE", "SE", "WN", "C", "LIN", "PER"))
    factors = draw(st.lists(symbols.flatmap(lambda s: base_kernels(dimensions, s)), min_size=2, max_size=4))
    return product_of(factors) + draw(kernels(dimensions)) if draw(st.booleans()) else product_of(factors)


def _uneven(parameter: Parameter) -> Parameter:
    """Variances and lengthscales with all digits, so that the order of rounding matters."""
    if parameter.name not in ("variance", "lengthscale") or parameter.values is None:
        return parameter
    return replace(parameter, values=tuple(v * 0.7 for v in parameter.values))


@st.composite
def partly_set(draw: st.DrawFn) -> Expression:
    """Any kernel that a user may write: values unset, set or fixed, dimensions by number, by name or left open."""
    names = draw(st.sampled_from((ODD_NAMES, None)))
    open_sizes = {draw(st.integers(1, 3))}  # leaves left open are all on the same columns

    def some_values(leaf: Base) -> Expression:
        dims: Sequence[int | str] | None = leaf.dims
        if dims is not None and (names is not None or len(dims) in open_sizes) and draw(st.booleans()):
            dims = None if names is None else draw(st.permutations(names))[: len(dims)]
        parameters = [_left_out(leaf, i) if draw(st.booleans()) else p for i, p in enumerate(leaf.parameters)]
        return replace(leaf, dims=None if dims is None else tuple(dims), parameters=tuple(parameters))

    return draw(partly_fixed()).map_leaves(some_values)


def _left_out(leaf: Base, place: int) -> Parameter:
    parameter, spec = leaf.parameters[place], leaf.specs[place]
    return parameter if spec.domain.free_size(len(parameter.values or ())) == 0 else Parameter(parameter.name)


@st.composite
def reordered(draw: st.DrawFn, expression: Expression) -> Expression:
    """The same kernel with terms, factors and dimensions in another order."""
    if isinstance(expression, Base):
        return draw(_dims_reordered(expression))
    children = [draw(reordered(child)) for child in draw(st.permutations(expression.children))]
    return expression.with_children(children)


@st.composite
def _dims_reordered(draw: st.DrawFn, leaf: Base) -> Base:
    if leaf.dims is None:
        return leaf
    order = draw(st.permutations(range(len(leaf.dims))))
    parameters = []
    for parameter, spec in zip(leaf.parameters, leaf.specs, strict=True):
        if "dimension" in spec.shape and parameter.values is not None:
            table = np.array(parameter.values).reshape(-1, len(order))[:, order]
            parameter = replace(parameter, values=tuple(map(float, table.ravel())))
        parameters.append(parameter)
    ratios = tuple(leaf.ratios[i] for i in order) if leaf.ratios else ()
    return replace(leaf, dims=tuple(leaf.dims[i] for i in order), parameters=tuple(parameters), ratios=ratios)


def redistributed(expression: Expression) -> Expression:
    """One product over a sum, the first that is found, multiplied out."""
    for path, node in subexpressions(expression):
        if isinstance(node, Product):
            for place, factor in enumerate(node.factors):
                if isinstance(factor, Sum):
                    before, after = node.factors[:place], node.factors[place + 1 :]
                    return substitute(
                        expression, path, sum_of([product_of([*before, term, *after]) for term in factor.terms])
                    )
    return expression


def assert_same_gram(one: NDArray[np.float64], other: NDArray[np.float64], tolerance: float, tiny: float = 0) -> None:
    """Equal relative to the largest variance: every summand is positive semi-definite, so nothing else is larger."""
    np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * np.max(np.diag(other)) + tiny)
