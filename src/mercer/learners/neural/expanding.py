"""A kernel with networks, multiplied out: a sum of products of primitives, in the order of how much they matter.

How much a summand matters is not told by its coefficient, which depends on the unit of a linear primitive, nor by its
variance, most of which may be a constant. It is told by its *spread*: what the variance over the rows of a function
drawn from it is expected to be, mean_i k(x_i, x_i) - mean_ij k(x_i, x_j). Spreads of summands add up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mercer.compute.fused import cross
from mercer.compute.program import compile_program
from mercer.errors import KernelError
from mercer.kernels.algebra import components, structure
from mercer.kernels.blend import Blend, Surface, under, within
from mercer.kernels.domains import Array, Positive
from mercer.kernels.expression import Base, Expression, Parameter, Product, build_base, product_of, sum_of
from mercer.kernels.layers import Exponential
from mercer.kernels.network import Network, networks_in
from mercer.kernels.parameters import fill_held, layout, values_of
from mercer.kernels.units import multiplied

SPREAD_ROWS = 100  # rows that tell the spread
KEPT = 40  # summands, the largest
NOTHING = 1e-9  # of the whole spread
ALIKE = 0.4  # by how much the logarithms of two values may differ in parts that are taken for one
SAME_PERIOD = 0.03


@dataclass(frozen=True, eq=False)
class Summand:
    """A product of base kernels with its values, and its spread over the rows."""

    kernel: Expression
    spread: float


def check_networks(expression: Expression) -> None:
    """Refuse kernels whose networks are no real polynomials, or that have none."""
    networks = list(networks_in(expression))
    if not networks:
        raise KernelError(
            f"there is nothing to distil: {structure(expression).text()} has no network; it is an expression already"
        )
    for network in networks:
        if any(isinstance(layer, Exponential) for layer in network.layers):
            raise KernelError(
                "a network with an Exp layer cannot be distilled: it is no polynomial, its series has no end; "
                "use Poly(c0, c1, ...) instead"
            )
        if any(leaf.symbol == "SUMI" for leaf in network.leaves()):
            raise KernelError("a network with SUMI cannot be distilled: SUMI is no kernel outside a network")
        if network.complex:
            raise KernelError(
                "a complex network cannot be distilled: its terms are no kernels of their own; use COS in place of EXPI"
            )


def expanded(expression: Expression, X: Array) -> list[Summand]:
    """Multiply out every network of a bound, fitted kernel: the largest summands, each a product of base kernels.

    Under a change surface each of them stands under the surface by itself; `joined` puts them together again.
    """
    rows = X[np.linspace(0, len(X) - 1, min(len(X), SPREAD_ROWS)).astype(int)]
    found: list[Summand] = []
    waiting = list(components(expression.map_leaves(_with_free_variance)))
    while waiting:
        part = waiting.pop()
        inside = within(part)
        factors = inside.factors if isinstance(inside, Product) else (inside,)
        network = next((factor for factor in factors if isinstance(factor, Network)), None)
        if network is None:
            found.append(Summand(part, spread(_gram(part, rows))))
        else:
            waiting += _terms(network, [factor for factor in factors if factor is not network], part, rows)
    total = math.fsum(summand.spread for summand in found)
    found.sort(key=lambda summand: -summand.spread)
    return [summand for summand in found if summand.spread > NOTHING * total][:KEPT]


def joined(kernels: Sequence[Expression]) -> Expression:
    """Return the sum, with what stands under the same change surface under a single one."""
    changing: dict[Surface, list[Blend]] = {}
    for kernel in kernels:
        if isinstance(kernel, Blend):
            changing.setdefault(kernel.surface, []).append(kernel)
    terms = [kernel for kernel in kernels if not isinstance(kernel, Blend)]
    for surface, blends in changing.items():
        regimes = [
            [part for part in parts if part is not None] for parts in zip(*(b.parts for b in blends), strict=True)
        ]
        terms.append(Blend(tuple(joined(parts) if parts else None for parts in regimes), surface))
    return sum_of(terms)


def spread(gram: Array) -> float:
    """Return what the variance over the rows of a function drawn from a kernel is expected to be."""
    return float(np.mean(np.diag(gram)) - np.mean(gram))


def _with_free_variance(leaf: Base) -> Base:
    """In a product of its own, what a variance was fixed at in the network says nothing."""
    return leaf.with_parameter(replace(leaf.parameter("variance"), fixed=False))


def _gram(kernel: Expression, rows: Array) -> Array:
    return cross(compile_program(kernel), values_of(kernel), rows, rows)


def _terms(network: Network, others: Sequence[Expression], part: Expression, rows: Array) -> list[Expression]:
    """Return the largest terms of a network's polynomial, times the other factors of its part, in canonical form."""
    grams = [_gram(fill_held(primitive), rows) for primitive in network.primitives]
    beside = _gram(under(part, product_of(others) if others else build_base("C", variance=1.0)), rows)
    ranked = []
    for term in network.polynomial(None):
        gram = beside
        for one, power in zip(grams, term.powers, strict=True):
            gram = gram * one**power if power else gram
        ranked.append((term.coefficient * spread(gram), term))
    ranked.sort(key=lambda each: -each[0])
    least = NOTHING * math.fsum(size for size, _ in ranked)
    result: list[Expression] = []
    for size, term in ranked[:KEPT]:
        if size > least:
            chosen = [fill_held(network.primitives[i]) for i, power in enumerate(term.powers) for _ in range(power)]
            factors = [*chosen, *others] or [build_base("C", variance=1.0)]
            result += components(multiplied(product_of(factors), term.coefficient))
    return [each for kernel in result for each in components(under(part, merged_factors(kernel)))]


# ------------------------------------------------------------------------------------------------------ merging copies


def merged_factors(kernel: Expression) -> Expression:
    """Merge copies of one stationary base kernel in a product: exactly where they are powers, else nearly.

    PER(l)^2 is PER(l / sqrt2); RQ(l)^2 is RQ(l / sqrt2) at short distances. What is only nearly so is fitted later.
    """
    if not isinstance(kernel, Product) or not all(isinstance(factor, Base) for factor in kernel.factors):
        return kernel
    kept: list[Base] = []
    for factor in kernel.factors:
        assert isinstance(factor, Base)
        twin = next((place for place, other in enumerate(kept) if _mergeable(other, factor)), None)
        if twin is None:
            kept.append(factor)
        else:
            kept[twin] = _joined(kept[twin], factor)
    return product_of(kept)


def _mergeable(one: Base, other: Base) -> bool:
    if one.symbol != other.symbol or one.dims != other.dims or one.symbol not in ("PER", "RQ"):
        return False
    if one.symbol == "RQ":
        return True
    periods = [np.array(leaf.parameter("period").values) for leaf in (one, other)]
    return bool(np.all(np.abs(periods[0] / periods[1] - 1.0) < SAME_PERIOD))


def _joined(one: Base, other: Base) -> Base:
    lengths = [np.array(leaf.parameter("lengthscale").values) for leaf in (one, other)]
    joint = (lengths[0] ** -2.0 + lengths[1] ** -2.0) ** -0.5
    variances = [(leaf.parameter("variance").values or (1.0,))[0] for leaf in (one, other)]
    longer = one.with_parameter(Parameter("lengthscale", tuple(map(float, joint))))
    return longer.with_parameter(Parameter("variance", (variances[0] * variances[1],)))


def merged_summands(summands: Sequence[Summand]) -> list[Summand]:
    """Take summands of one structure with nearly the same values for one: the larger, with the spread of both."""
    kept: list[Summand] = []
    for summand in sorted(summands, key=lambda each: -each.spread):
        twin = next((place for place, other in enumerate(kept) if _alike(other.kernel, summand.kernel)), None)
        if twin is None:
            kept.append(summand)
        else:
            larger = kept[twin]
            both = larger.spread + summand.spread
            kept[twin] = Summand(multiplied(larger.kernel, both / larger.spread), both)
    return sorted(kept, key=lambda each: -each.spread)


def _alike(one: Expression, other: Expression) -> bool:
    if structure(one) != structure(other):
        return False
    values = [values_of(one), values_of(other)]
    for slot in layout(one).slots:
        if slot.spec.name != "variance" and isinstance(slot.spec.domain, Positive):
            limit = SAME_PERIOD if slot.spec.name == "period" else ALIKE
            if np.any(np.abs(np.log(values[0][slot.where] / values[1][slot.where])) > limit):
                return False
    return True
