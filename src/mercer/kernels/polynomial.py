"""A network multiplied out: the polynomial in its primitives that it is (NKN definition 2 and appendix I.4).

A unit is a dict from the powers of the primitives to a coefficient. Coefficients are never negative, so nothing
cancels: every term is a kernel of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from numbers import Integral

from mercer.errors import KernelError
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
    if top is not None and (not isinstance(top, Integral) or isinstance(top, bool) or top < 1):
        raise KernelError(f"top must be None (all terms) or a whole number of at least 1, not {top!r}")
    _check_size(network)
    count = len(network.primitives)
    units: list[Unit] = [{tuple(int(i == j) for i in range(count)): 1.0} for j in range(count)]
    nothing: Powers = (0,) * count
    for layer in network.layers:
        if isinstance(layer, Linear):
            units = _linear(units, layer, nothing)
        elif isinstance(layer, Multiply):
            steps = range(0, len(units), layer.step)
            units = [_product(units[start : start + layer.step], nothing) for start in steps]
        else:
            assert isinstance(layer, Polynomial)
            units = [_activated(unit, layer, nothing) for unit in units]
    names = network.primitive_names()
    ordered = sorted(units[0].items(), key=lambda item: (-item[1], sum(item[0]), item[0]))[:top]
    return tuple(PolynomialTerm(coefficient, powers, _name(powers, names)) for powers, coefficient in ordered)


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


def _check_size(network: Network) -> None:
    count, highest = len(network.primitives), degree(network)
    terms = comb(count + highest, highest)
    if terms > MOST_TERMS:
        raise KernelError(
            f"the polynomial of {count} primitives up to degree {highest} has up to {terms:,} terms, more than "
            f"{MOST_TERMS:,}: look at single units instead, or take fewer primitives or layers"
        )
    unset = [linear.symbol for linear in network.linears if any(p.values is None for p in linear.parameters)]
    if unset:
        raise KernelError(f"the polynomial needs all weights and biases; without them: {', '.join(unset)}")


def _linear(units: list[Unit], layer: Linear, nothing: Powers) -> list[Unit]:
    weights, bias = (parameter.values or () for parameter in layer.parameters)
    result: list[Unit] = []
    for row in range(layer.width):
        total: Unit = {nothing: bias[row]} if bias[row] else {}
        for weight, unit in zip(weights[row * layer.inputs : (row + 1) * layer.inputs], units, strict=True):
            _add(total, unit, weight)
        result.append(total)
    return result


def _add(total: Unit, unit: Unit, factor: float) -> None:
    if factor:
        for powers, coefficient in unit.items():
            total[powers] = total.get(powers, 0.0) + factor * coefficient


def _product(units: list[Unit], nothing: Powers) -> Unit:
    result: Unit = {nothing: 1.0}
    for unit in units:
        longer: Unit = {}
        for one, a in result.items():
            for other, b in unit.items():
                powers = tuple(map(int.__add__, one, other))
                longer[powers] = longer.get(powers, 0.0) + a * b
        result = longer
    return result


def _activated(unit: Unit, layer: Polynomial, nothing: Powers) -> Unit:
    total: Unit = {}
    power: Unit = {nothing: 1.0}
    for number, coefficient in enumerate(layer.coefficients):
        power = _product([power, unit], nothing) if number else power
        _add(total, power, coefficient)
    return total


def _name(powers: Powers, names: tuple[str, ...]) -> str:
    factors = (
        name if power == 1 else f"{name}^{power}" for power, name in zip(powers, names, strict=True) if power > 0
    )
    return "*".join(factors) or "1"
