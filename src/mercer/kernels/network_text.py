"""Networks as text and as JSON; `mercer.kernels.text` calls these for the one node that needs more than a few lines.

    NKN(2*SE + PER(0, period=12), Linear4-Product2-Linear1, variances, weights1=[...], bias1=[...], weights2=[...])

First the primitives, where 2* means two copies; then the layers; then `complex` and `variances` where they hold, and
the weights (row by row) and biases of each Linear layer, counted from 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mercer.errors import KernelError
from mercer.kernels.expression import Expression, Fixed, Parameter, Sum, fixed
from mercer.kernels.layers import (
    Exponential,
    Layer,
    Linear,
    Polynomial,
    checked_coefficients,
    multiply,
)
from mercer.kernels.network import MOST_PRIMITIVES, Network

COPIES = 100  # at most, of one primitive


def network_text(network: Network, write: Callable[[Expression], str], values: Callable[[Parameter], str]) -> str:
    """Return the text of a network; `write` prints a part, `values` a parameter's values."""
    parts = [f"({write(p)})" if isinstance(p, Sum) else write(p) for p in network.primitives]
    arguments = [" + ".join(parts), network.architecture]
    arguments += ["complex"] * network.complex + ["variances"] * network.variances
    for number, linear in enumerate(network.linears, 1):
        arguments += [f"{p.name}{number}={values(p)}" for p in linear.parameters if p.values is not None]
    return f"NKN({', '.join(arguments)})"


def with_given(network: Network, given: dict[str, Fixed | tuple[float, ...]]) -> Network:
    """Return the network with the values of a text, `weights1`, `bias1` and so on."""
    known = [f"{name}{number}" for number in range(1, 1 + len(network.linears)) for name in ("weights", "bias")]
    for name in given:
        if name not in known:
            raise KernelError(f"'{name}' is not a parameter of this network; it has {', '.join(known)}")
    numbers = range(1, 1 + len(network.linears))
    return network.with_weights([given.get(f"weights{n}") for n in numbers], [given.get(f"bias{n}") for n in numbers])


def repeated(primitive: Expression, count: str) -> list[Expression]:
    """Return copies of a primitive; `count` is the number before the star, as it was written."""
    if not count.isdigit() or not 1 <= int(count[:9]) <= COPIES:
        raise KernelError(
            f"{count}* means so many copies of a primitive, a whole number from 1 to {COPIES}; "
            f"a constant factor is written C(variance={count})*..."
        )
    return [primitive] * int(count)


def network_node(network: Network, node: Callable[[Expression], dict[str, Any]]) -> dict[str, Any]:
    """Return a network as JSON data."""
    return {
        "network": {
            "primitives": [node(primitive) for primitive in network.primitives],
            "layers": [_layer_node(layer) for layer in network.layers],
            "complex": network.complex,
            "variances": network.variances,
        }
    }


def _layer_node(layer: Layer) -> dict[str, Any]:
    if isinstance(layer, Linear):
        given = {p.name: {"values": list(p.values), "fixed": p.fixed} for p in layer.parameters if p.values is not None}
        return {"linear": layer.width, "parameters": given}
    if isinstance(layer, Exponential):
        return {"exp": True}
    if isinstance(layer, Polynomial):
        return {"poly": list(layer.coefficients)}
    return {"product": layer.width}


def network_from_node(data: Any, read: Callable[[Any], Expression]) -> Network:
    """Read a network from JSON data; where it does not fit, also with Python's errors, which the caller translates."""
    primitives = [read(part) for part in _list(data["primitives"])[: MOST_PRIMITIVES + 1]]
    flags = [data["complex"], data["variances"]]
    if not all(isinstance(flag, bool) for flag in flags):
        raise TypeError(f"'complex' and 'variances' are true or false, not {flags!r:.80}")
    layers: list[Layer] = []
    inputs = len(primitives)
    for entry in _list(data["layers"]):
        layers.append(_layer_from(entry, inputs))
        inputs = layers[-1].width
    return Network(tuple(primitives), tuple(layers), *flags)


def _layer_from(entry: Any, inputs: int) -> Layer:
    if "linear" in entry:
        given = {name: _read_values(values) for name, values in entry["parameters"].items()}
        return Linear(_whole(entry["linear"]), inputs).with_values(**given)
    if "product" in entry:
        return multiply(_whole(entry["product"]), inputs, f"{inputs} units")
    if "poly" in entry:
        return Polynomial(inputs, checked_coefficients(_list(entry["poly"])))
    if entry.get("exp") is True:
        return Exponential(inputs)
    raise KeyError(f"unknown layer {entry!r:.80}")


def _read_values(entry: Any) -> Fixed | tuple[float, ...]:
    values = tuple(_list(entry["values"]))
    if not isinstance(entry["fixed"], bool):
        raise TypeError(f"'fixed' is true or false, not {entry['fixed']!r}")
    marked = fixed(values)
    return marked if entry["fixed"] else marked.values


def _whole(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= 1000:
        raise TypeError(f"a layer has 1 to 1000 units, not {value!r:.80}")
    return value


def _list(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise TypeError(f"expected a list, found {data!r:.80}")
    return data
