"""A network multiplied out: the polynomial in its primitives that it is (NKN definition 2 and appendix I.4).

A unit is a dict from the powers of the primitives to a coefficient. Coefficients are never negative, so nothing
cancels: every term is a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from itertools import product as cartesian
from math import comb

from mercer.errors import KernelError
from mercer.kernels.expression import is_whole
from mercer.kernels.layers import Exponential, Linear, Multiply, Polynomial
from mercer.kernels.network import Network

MOST_TERMS = 50_000  # of the whole polynomial: some seconds

Powers = tuple[int, ...]
Unit = dict[Powers, float]


@dataclass(frozen=True, slots=True)
class PolynomialTerm:
    """coefficient * product of primitives to their powers; `name` says it in words such as SE[1]*PER^2."""

    coefficient: float
    powers: Powers
    name: str


def polynomial(network: Network, top: int | None = 20) -> tuple[PolynomialTerm, ...]:
    """Return the terms with the largest coefficients, largest first; `top` of None: all of them."""
    if top is not None and (not is_whole(top) or top < 1):
        raise KernelError(f"top must be None (all terms) or a whole number of at least 1, not {top!r}")
    count, highest = len(network.primitives), degree(network)
    if (terms := comb(count + highest, highest)) > MOST_TERMS:
        raise KernelError(
            f"the polynomial of {count} primitives up to degree {highest} has up to {terms:,} terms, more than "
            f"{MOST_TERMS:,}: look at single units instead, or take fewer primitives or layers"
        )
    unset = [linear.symbol for linear in network.linears if any(p.values is None for p in linear.parameters)]
    if unset:
        raise KernelError(f"the polynomial needs all weights and biases; without them: {', '.join(unset)}")
    units: list[Unit] = [{tuple(int(i == j) for i in range(count)): 1.0} for j in range(count)]
    one: Unit = {(0,) * count: 1.0}
    for layer in network.layers:
        if isinstance(layer, Linear):
            weights, bias = (parameter.values or () for parameter in layer.parameters)
            rows = [weights[row * layer.inputs : (row + 1) * layer.inputs] for row in range(layer.width)]
            units = [_add([*zip(row, units, strict=True), (b, one)]) for row, b in zip(rows, bias, strict=True)]
        elif isinstance(layer, Multiply):
            steps = range(0, len(units), layer.step)
            units = [reduce(_multiply, units[start : start + layer.step]) for start in steps]
        else:
            assert isinstance(layer, Polynomial)
            powers = [accumulate([one, *[unit] * (len(layer.coefficients) - 1)], _multiply) for unit in units]
            units = [_add(list(zip(layer.coefficients, each, strict=True))) for each in powers]
    ordered = sorted(units[0].items(), key=lambda item: (-item[1], sum(item[0]), item[0]))[:top]
    names, found = network.primitive_names(), []
    for powers_of, coefficient in ordered:
        factors = [f"{n}^{p}" if p > 1 else n for p, n in zip(powers_of, names, strict=True) if p > 0]
        found.append(PolynomialTerm(coefficient, powers_of, "*".join(factors) or "1"))
    return tuple(found)


def centre(
    terms: Iterable[PolynomialTerm], blocks: Sequence[Container[int]], moments: Callable[[Powers], tuple[float, float]]
) -> Unit:
    """Split every term by the analysis of variance, and return how much each part is expected to vary.

    A factor is its mean plus what varies: k0 k1 has a part in which both vary, one in which only k0 does, and so on.
    What varies keeps its powers. `blocks` are the primitives that vary together; `moments` are the mean and the
    variance of a product of primitives of one block.
    """
    parts: Unit = {term.powers: term.coefficient for term in terms}
    for block in blocks:
        split: Unit = {}
        for powers, coefficient in parts.items():
            inside = tuple(p if i in block else 0 for i, p in enumerate(powers))
            mean, variance = moments(inside) if any(inside) else (1.0, 0.0)
            outside = tuple(p - q for p, q in zip(powers, inside, strict=True))
            split[outside] = split.get(outside, 0.0) + coefficient * mean
            if variance > 0:
                split[powers] = split.get(powers, 0.0) + coefficient * variance
        parts = split
    return parts


def degree(network: Network) -> int:
    """Return the largest sum of powers that the layers can make."""
    result = 1
    for layer in network.layers:
        if isinstance(layer, Exponential):
            raise KernelError("a network with an Exp layer is no polynomial: its series has no end")
        if isinstance(layer, Multiply):
            result *= layer.step
        elif isinstance(layer, Polynomial):
            result *= len(layer.coefficients) - 1
    return result


def _add(parts: list[tuple[float, Unit]]) -> Unit:
    total: Unit = {}
    for factor, unit in parts:
        for powers, coefficient in unit.items() if factor else ():
            total[powers] = total.get(powers, 0.0) + factor * coefficient
    return total


def _multiply(one: Unit, other: Unit) -> Unit:
    result: Unit = {}
    for (p, a), (q, b) in cartesian(one.items(), other.items()):
        powers = tuple(map(int.__add__, p, q))
        result[powers] = result.get(powers, 0.0) + a * b
    return result
