"""The layers of a neural kernel network, in the paper's notation: "Linear8-Product4-Linear4-Product2-Linear1".

    LinearK    K units, each a non-negative combination of all units before it, plus a bias (NKN 3.1)
    ProductM   M units, each the product of a group of neighbours before it; the groups are of equal size
    Exp        exp of every unit
    Poly(c0, c1, ...)   c0 + c1 z + c2 z^2 + ... of every unit z, no coefficient below zero

All of them make kernels of kernels: sums and products of kernels with non-negative weights are kernels, and so are
limits of those (exp).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.errors import KernelError
from mercer.kernels.domains import NonNegative, ParameterSpec
from mercer.kernels.expression import Given, Owner, Parameter, check_parameter, read_given

WIDEST = 1000  # units of a layer; a slip such as Linear80000000 is an error and not a memory of gigabytes

# Row by row: the weights of the first unit on all its inputs, then those of the second, ...
WEIGHTS = ParameterSpec("weights", NonNegative(), "per component and dimension", "none")
BIAS = ParameterSpec("bias", NonNegative(), "per component", "none")


@dataclass(frozen=True, slots=True)
class Linear(Owner):
    """`width` units; weights (width x inputs) and biases. The units before it take the place of columns."""

    width: int
    inputs: int
    parameters: tuple[Parameter, ...] = (Parameter("weights"), Parameter("bias"))

    @property
    def symbol(self) -> str:
        return f"Linear{self.width}"

    @property
    def specs(self) -> tuple[ParameterSpec, ...]:
        return WEIGHTS, BIAS

    @property
    def dims(self) -> tuple[int, ...]:
        return tuple(range(self.inputs))

    @property
    def components(self) -> int:
        return self.width

    @property
    def columns(self) -> tuple[int, ...]:
        return ()  # it does not look at the inputs itself

    def text(self, digits: int | None = None) -> str:
        return self.symbol

    def with_values(self, weights: Given = None, bias: Given = None) -> Linear:
        """Return the layer with weights and biases checked and set; one number stands for all."""
        given = zip(self.specs, (weights, bias), strict=True)
        return replace(self, parameters=tuple(check_parameter(self, spec, values) for spec, values in given))

    def without_values(self) -> Linear:
        """Return the layer with its weights and biases still to be found."""
        return Linear(self.width, self.inputs)

    def multiply_by(self, factor: float) -> Linear:
        """Return the layer with all that is set multiplied."""
        for p in self.parameters:
            if p.values is not None:
                self = self.with_parameter(replace(p, values=tuple(v * factor for v in p.values)))
        return self

    def to_node(self) -> dict[str, Any]:
        return {"linear": self.width, "parameters": self.to_given()}


@dataclass(frozen=True, slots=True)
class Multiply:
    """`width` units, each the product of `step` neighbours: unit m of the units m step, ..., (m + 1) step - 1."""

    width: int
    step: int

    @property
    def symbol(self) -> str:
        return f"Product{self.width}"

    @property
    def inputs(self) -> int:
        return self.width * self.step

    def to_node(self) -> dict[str, Any]:
        return {"product": self.width}


@dataclass(frozen=True, slots=True)
class Exponential:
    """exp of every unit."""

    width: int

    @property
    def symbol(self) -> str:
        return "Exp"

    @property
    def inputs(self) -> int:
        return self.width

    def to_node(self) -> dict[str, Any]:
        return {"exp": True}


@dataclass(frozen=True, slots=True)
class Polynomial:
    """coefficients[0] + coefficients[1] z + ... of every unit z."""

    width: int
    coefficients: tuple[float, ...]

    @property
    def symbol(self) -> str:
        return f"Poly({', '.join(map(repr, self.coefficients))})"

    @property
    def inputs(self) -> int:
        return self.width

    def to_node(self) -> dict[str, Any]:
        return {"poly": list(self.coefficients)}


Layer = Linear | Multiply | Exponential | Polynomial

_NAME = re.compile(r"(?P<kind>[A-Za-z]+)\s*(?P<width>\d*)\s*(?:\((?P<inside>[^()]*)\))?")
_ONE = r"[A-Za-z]+\s*\d*\s*(?:\([^()]*\))?"
LAYERS = re.compile(rf"\s*{_ONE}(?:\s*-\s*{_ONE})*")
EXAMPLE = "write them as in Linear8-Product4-Linear4-Product2-Linear1"


def layers_from(text: Any, inputs: int) -> tuple[Layer, ...]:
    """Read layers from text over this many primitives, without weights."""
    if not isinstance(text, str) or LAYERS.fullmatch(text.rstrip()) is None:
        raise KernelError(f"cannot read the layers {text!r:.80}: {EXAMPLE}")
    layers: list[Layer] = []
    for match in _NAME.finditer(text):
        kind, width, inside = match["kind"].lower(), match["width"], match["inside"]
        if kind == "exp" and not width and inside is None:
            layers.append(Exponential(inputs))
        elif kind == "poly" and not width and inside is not None:
            try:
                numbers = [float(part) for part in inside.split(",")]
            except ValueError:
                advice = "give the coefficients, lowest power first, as in Poly(0, 1, 0.5)"
                raise KernelError(f"Poly({inside}): {advice}") from None
            layers.append(Polynomial(inputs, check_coefficients(numbers)))
        elif kind not in ("linear", "product") or not width or inside is not None:
            raise KernelError(f"there is no layer '{match[0]}': there are LinearK, ProductM, Exp and Poly(c0, c1, ...)")
        elif len(width) > 9 or not 1 <= int(width) <= WIDEST:
            raise KernelError(f"{match[0]}: a layer has 1 to {WIDEST} units")
        elif kind == "linear":
            layers.append(Linear(int(width), inputs))
        else:
            before = layers[-1].symbol if layers else f"{inputs} primitive{'s' if inputs != 1 else ''}"
            layers.append(multiply(int(width), inputs, before))
        inputs = layers[-1].width
    return check_layers(layers)


def multiply(width: int, inputs: int, before: str) -> Multiply:
    """Return the Product layer that turns this many inputs into this many units."""
    if inputs % width == 0:
        return Multiply(width, inputs // width)
    divisors = [d for d in range(1, inputs + 1) if inputs % d == 0]
    nearest = min(divisors, key=lambda d: (abs(d - width), -d))
    raise KernelError(
        f"Product{width} after {before}: {inputs} is not divisible by {width}; "
        f"use Linear{-(-inputs // width) * width} or Product{nearest}"
    )


def check_coefficients(numbers: Iterable[float]) -> tuple[float, ...]:
    """Return the coefficients of an activation if it keeps kernels kernels."""
    coefficients = tuple(map(float, numbers))
    shown = ", ".join(f"{c:g}" for c in coefficients)
    if not any(coefficients[1:]) and len(coefficients) > 1:
        raise KernelError(f"Poly({shown}) is a constant: give a coefficient above zero of some power of the unit")
    if not 2 <= len(coefficients) <= 20 or not NonNegative().contains(np.asarray(coefficients)):
        raise KernelError(f"Poly({shown}): an activation has 2 to 20 coefficients, none below zero, to stay a kernel")
    return coefficients


def check_layers(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Return the layers if they begin and end as a network must."""
    if not layers or not isinstance(layers[0], Linear):
        first = layers[0].symbol if layers else "nothing"
        raise KernelError(f"a network begins with a Linear layer, not with {first}: its weights scale the primitives")
    last = layers[-1]
    if not isinstance(last, Linear) or last.width != 1:
        raise KernelError(f"a network ends with Linear1, which carries its scale, not with {last.symbol}: add -Linear1")
    return tuple(layers)


def layer_from_node(entry: Any, inputs: int) -> Layer:
    """Read a layer from JSON data; the caller translates Python's errors."""
    if "linear" in entry:
        given = {name: read_given(values) for name, values in entry["parameters"].items()}
        return Linear(_whole(entry["linear"]), inputs).with_values(**given)
    if "product" in entry:
        return multiply(_whole(entry["product"]), inputs, f"{inputs} units")
    if "poly" in entry:
        return Polynomial(inputs, check_coefficients(entry["poly"]))
    if entry.get("exp") is True:
        return Exponential(inputs)
    raise KeyError(f"unknown layer {entry!r:.80}")


def _whole(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= WIDEST:
        raise TypeError(f"a layer has 1 to {WIDEST} units, not {value!r:.80}")
    return value
