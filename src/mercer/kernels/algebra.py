"""Algebra of kernels: expansion into a sum of products, canonical form, structure, subexpressions.

All of it keeps the Gram matrix: products distribute over sums, constants are absorbed into variances, SE factors on the
same dimensions merge (exponents add), white noise swallows stationary factors on its dimensions, and order is fixed.
Numbers are combined in a way that does not depend on their order (sorted, or by `fsum`), so that kernels that differ
only in the order of their parts have the same canonical form to the last digit.

Networks and change surfaces are taken as a whole: their parts share weights or a surface, which a sum would write out
as several that are fitted apart. Only what a report shows (`components`) takes a change surface apart, into what each
summand of each regime gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product as cartesian
from operator import methodcaller

from scipy.special import i0e

from mercer.kernels.blend import Blend
from mercer.kernels.expression import (
    Base,
    Expression,
    Parameter,
    Product,
    Style,
    Sum,
    broadcast,
    build_base,
    contains,
    product_of,
    sum_of,
)
from mercer.kernels.functional import Functional
from mercer.kernels.network import Network
from mercer.kernels.parameters import fill_held

Whole = Network | Blend | Functional  # taken as a whole: its sums and products stay inside
Term = tuple[Base | Whole, ...]
Path = tuple[int, ...]

BARE, EXACT, UNSCALED = Style(values=False), Style(), Style(variances=False)
FLAT = 2.0  # the lengthscale of PER from which its mean is more than four fifths of it


def canonical(expression: Expression) -> Expression:
    """Return the sum of products that is equal to the expression, in a fixed order."""
    return sum_of(list(map(product_of, _terms(expression))))


def components(expression: Expression) -> tuple[Expression, ...]:
    """Return the summands of the canonical form, change surfaces taken apart: what a report shows one by one.

    s_i(x) (a + b)(x, x') c(x, x') s_i(x') of all regimes i: one component for a c and one for b c in each.
    """
    parts: list[Expression] = []
    for term in _terms(expression):
        whole = next((factor for factor in term if isinstance(factor, Blend)), None)
        if whole is None:
            parts.append(product_of(term))
            continue
        others = [factor for factor in term if factor is not whole]
        for regime, part in enumerate(whole.parts):
            if part is not None:
                parts += [whole.only(regime, inside) for inside in components(product_of([part, *others]))]
    return tuple(parts)


def _terms(expression: Expression) -> list[Term]:
    terms = _merge_sum(list(map(_simplify, _expand(fill_held(expression)))))
    return sorted(terms, key=_order)


def split_mean(leaf: Base) -> tuple[Base, Base] | None:
    """Return a constant and a kernel without a mean that add up to one of one column with values, if there are any.

    PER = m + (1 - m) CPER with m = I0e(1 / l^2) (METHODS 1).
    """
    values = {p.name: p.values for p in leaf.parameters}
    if not leaf.spec.centred or None in values.values() or len(values["lengthscale"] or ()) != 1:
        return None
    (variance,), (length,) = values["variance"] or (), values["lengthscale"] or ()
    mean, wave = float(i0e(length**-2)), build_base(leaf.spec.centred, *(leaf.dims or ()))
    for parameter in leaf.parameters:
        wave = wave.with_parameter(parameter)
    return build_base("C", variance=variance * mean), wave.multiply_by(1.0 - mean)


def described_components(expression: Expression) -> tuple[Expression, ...]:
    """Return the summands as they are described: a nearly flat PER among factors is split into its mean and a wave.

    LIN * PER with a long lengthscale is a trend with a small wave on it, and to call it a wave would hide the trend.
    """

    def split(leaf: Base) -> Expression:
        parts = split_mean(leaf)
        flat = parts is not None and (leaf.parameter("lengthscale").values or (0.0,))[0] >= FLAT
        return sum_of(parts) if parts is not None and flat else leaf

    terms = components(expression)
    whole = [size(term) == 1 or contains(term, Network) or contains(term, Functional) for term in terms]
    return components(sum_of([t if alone else t.map_leaves(split) for t, alone in zip(terms, whole, strict=True)]))


def structure(expression: Expression) -> Expression:
    """Return the expression without its values, for comparing what two kernels are rather than where they stand."""
    return expression.map_owners(methodcaller("without_values"))


def canonical_structure(expression: Expression) -> Expression:
    """Return the key under which equal kernels are fitted once: the canonical form without values."""
    return sum_of(list(map(product_of, _terms(structure(expression)))))


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


def _expand(expression: Expression) -> list[Term]:
    if isinstance(expression, Base | Network | Functional):
        return [(expression,)]
    if isinstance(expression, Blend):
        return [(expression.with_children([canonical(part) for part in expression.children]),)]
    parts = [_expand(child) for child in expression.children]
    if isinstance(expression, Sum):
        return [term for part in parts for term in part]
    assert isinstance(expression, Product)
    return [tuple(leaf for term in choice for leaf in term) for choice in cartesian(*parts)]


def _order(term: Term) -> tuple[str, str]:
    return " * ".join([leaf.write(BARE) for leaf in term]), " * ".join([leaf.write(EXACT) for leaf in term])


def _simplify(term: Term) -> Term:
    """Absorb constants, merge SE factors, let white noise swallow, sort, and put the whole variance on the first."""
    wholes = sorted((part for part in term if not isinstance(part, Base)), key=lambda whole: _order((whole,)))
    bases = tuple(part for part in term if isinstance(part, Base))
    if wholes:
        return _simplify_wholes(wholes, bases)
    variance = _join(bases, "variance", lambda values: (math.prod(sorted(v for (v,) in values)),))
    factors = [_order_dims(leaf) for leaf in bases if leaf.spec.form != "constant"]
    factors = _merge_factors(_swallow(factors)) or [bases[0]]
    factors.sort(key=lambda leaf: (leaf.write(BARE), leaf.write(UNSCALED)))
    rest = Parameter("variance", None if variance.values is None else (1.0,), variance.fixed)
    return (factors[0].with_parameter(variance), *(leaf.with_parameter(rest) for leaf in factors[1:]))


def _simplify_wholes(wholes: list[Whole], bases: tuple[Base, ...]) -> Term:
    """The first of them carries the scale of a product: base kernels beside it have variance one."""
    others = [leaf for leaf in _simplify(bases) if isinstance(leaf, Base)] if bases else []
    scale = others[0].parameter("variance") if others else Parameter("variance", (1.0,))
    first = wholes[0]
    unset = isinstance(first, Blend) and any(leaf.parameter("variance").values is None for leaf in first.leaves())
    if scale.values is not None and unset:  # nowhere to put it yet
        return (*wholes, *others)
    if scale.values is not None:
        carrier = first.multiply_by(scale.values[0])
        assert isinstance(carrier, Whole)
        if isinstance(carrier, Blend):  # terms that differ only in their numbers may change places
            carrier = carrier.with_children([canonical(part) for part in carrier.children])
        wholes = sorted([carrier, *wholes[1:]], key=lambda whole: _order((whole,)))
        others = [leaf.with_parameter(Parameter("variance", (1.0,), scale.fixed)) for leaf in others]
    return (*wholes, *(leaf for leaf in others if leaf.spec.form != "constant"))


def _order_dims(leaf: Base) -> Base:
    """SE(1, 0) is SE(0, 1) with its lengthscales exchanged."""
    dims = leaf.dims or ()
    order = sorted(range(len(dims)), key=lambda i: _dim_order(dims[i]))
    if order == list(range(len(dims))):
        return leaf
    parameters = []
    for parameter, spec in zip(leaf.parameters, leaf.specs, strict=True):
        values = parameter.values
        if values is not None and "dimension" in spec.shape:
            values = tuple(values[row + i] for row in range(0, len(values), len(dims)) for i in order)
        parameters.append(replace(parameter, values=values))
    ratios = tuple(leaf.ratios[i] for i in order) if leaf.ratios else ()
    return replace(leaf, dims=tuple(dims[i] for i in order), parameters=tuple(parameters), ratios=ratios)


def _dim_order(dim: int | str) -> tuple[int, str]:
    return (-1, dim) if isinstance(dim, str) else (dim, "")


def _join(
    leaves: Sequence[Base], name: str, combine: Callable[[list[tuple[float, ...]]], tuple[float, ...]]
) -> Parameter:
    """Return one parameter for that of several kernels: unset where one of them is, fixed where all are."""
    parameters = [leaf.parameter(name) for leaf in leaves]
    values = [p.values for p in parameters if p.values is not None]
    if len(values) < len(parameters):
        return Parameter(name)
    return Parameter(name, combine(values), all(p.fixed for p in parameters))


def _merge_factors(factors: list[Base]) -> list[Base]:
    """SE(l1) SE(l2) = SE(l) with 1/l^2 = 1/l1^2 + 1/l2^2 in each dimension; correlations of CAT are multiplied."""
    groups: dict[object, list[Base]] = {}
    for leaf in factors:
        if leaf.spec.merges:
            groups.setdefault((leaf.symbol, leaf.dims, leaf.isotropic, leaf.ratios), []).append(leaf)
    merged = [leaf for leaf in factors if not leaf.spec.merges]
    for group in groups.values():
        joint = group[0]
        if len(group) > 1 and joint.spec.has("correlation"):
            joint = joint.with_parameter(_join(group, "correlation", partial(_joint_correlations, joint)))
        elif len(group) > 1:
            joint = joint.with_parameter(_join(group, "lengthscale", partial(_joint_lengths, joint)))
        merged.append(joint)
    return merged


def _joint_correlations(leaf: Base, given: list[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(math.prod(sorted(each)) for each in _by_column(leaf, "correlation", given))


def _by_column(leaf: Base, name: str, given: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """Return the values of a parameter of several kernels, column by column."""
    spec, count = next(s for s in leaf.specs if s.name == name), max(map(len, given))
    return list(zip(*(broadcast(leaf.symbol, spec, values, count) for values in given), strict=True))


def _joint_lengths(leaf: Base, given: list[tuple[float, ...]]) -> tuple[float, ...]:
    columns = _by_column(leaf, "lengthscale", given)
    shortest = [(min(lengths), lengths) for lengths in columns]  # taken out of the root, so that no square overflows
    return tuple(s / math.sqrt(math.fsum((s / length) ** 2 for length in lengths)) for s, lengths in shortest)


def _swallow(factors: list[Base]) -> list[Base]:
    """Where x = x' on its dimensions white noise is one, and elsewhere zero: stationary factors there add nothing."""
    noises = [leaf for leaf in factors if leaf.spec.white]
    if not noises:
        return factors
    covered = {d for noise in noises for d in noise.dims or ()}
    everywhere = any(noise.dims is None for noise in noises)
    noise = replace(noises[0], dims=None if everywhere else tuple(sorted(covered, key=_dim_order)))
    kept = [noise]
    for leaf in factors:
        inside = everywhere or (leaf.dims is not None and covered.issuperset(leaf.dims))
        if not (leaf.spec.white or (leaf.spec.stationary and inside)):
            kept.append(leaf)
    return kept


def _merge_sum(terms: list[Term]) -> list[Term]:
    """Add up constants, and white noises and categories on the same dimensions: they are one component each."""
    groups: dict[object, list[Base]] = {}
    merged: list[Term] = []
    for term in terms:
        only = term[0]
        if len(term) == 1 and isinstance(only, Base) and _adds_up(only):
            groups.setdefault((only.symbol, only.dims), []).append(only)
        else:
            merged.append(term)
    for group in groups.values():
        total = _join(group, "variance", lambda values: (math.fsum(v for (v,) in values),))
        joint = group[0].with_parameter(total)
        if len(group) > 1 and joint.spec.has("correlation"):
            joint = joint.with_parameter(_mean_correlation(group, total))
        merged.append((joint,))
    return merged


def _adds_up(leaf: Base) -> bool:
    """Tell whether a sum of several is one of them: of categories on a single column."""
    alone = leaf.spec.has("correlation") and leaf.dims is not None and len(leaf.dims) == 1
    return leaf.spec.white or leaf.spec.form == "constant" or alone


def _mean_correlation(group: Sequence[Base], total: Parameter) -> Parameter:
    """v1 r1 + v2 r2 = (v1 + v2) r between different categories."""
    joint = _join(group, "correlation", lambda values: values[0])
    if joint.values is None or total.values is None:
        return Parameter("correlation")
    given = [(leaf.parameter("variance").values, leaf.parameter("correlation").values) for leaf in group]
    common = math.fsum(v[0] * r[0] for v, r in given if v is not None and r is not None)
    return replace(joint, values=(min(common / total.values[0], max(r[0] for _, r in given if r is not None)),))
