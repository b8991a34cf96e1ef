"""The kernel that each unit of a network is, on given points: what the plots of NKN appendix I.3 show.

A few hundred points, so plain NumPy over whole matrices; fitting goes through programs instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.compute.fused import cross
from mercer.compute.program import compile_program
from mercer.errors import KernelError
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression
from mercer.kernels.layers import Exponential, Layer, Linear, Multiply
from mercer.kernels.network import Network
from mercer.kernels.parameters import bind, values_of

ALONE = (Linear(1, 1).with_values(1.0, 0.0),)  # a network that is its one primitive


@dataclass(frozen=True, eq=False)
class LayerPattern:
    """The units of one layer: its name, a name for each unit, and values (units, rows of X, rows of Z)."""

    layer: str
    names: tuple[str, ...]
    values: NDArray[Any]  # complex where the network is


def unit_patterns(network: Network, X: Array, Z: Array | None = None) -> tuple[LayerPattern, ...]:
    """Return k_u(x, z) for every unit u, layer by layer from the primitives; Z is X where it is not given.

    With one row in Z this is each unit against the distance from that row. All parameters need a value.
    """
    left = np.asarray(X, dtype=np.float64)
    right = left if Z is None else np.asarray(Z, dtype=np.float64)
    bound = bind(network, left.shape[1])
    assert isinstance(bound, Network)
    if np.isnan(values_of(bound)).any():
        raise KernelError("the patterns of a network need a value for every parameter: fit it first")
    units = np.stack([_primitive(part, left, right) for part in bound.primitives])
    result = [LayerPattern("primitives", network.primitive_names(), units)]
    for layer in bound.layers:
        units = _applied(layer, units)
        names = tuple(f"{layer.symbol}[{unit}]" for unit in range(1, layer.width + 1))
        result.append(LayerPattern(layer.symbol, names, units))
    return tuple(result)


def _primitive(primitive: Expression, X: Array, Z: Array) -> NDArray[Any]:
    if isinstance(primitive, Base) and primitive.spec.form == "complex":
        columns = list(primitive.columns)
        variance, frequency = (np.array(parameter.values) for parameter in primitive.parameters)
        phase = (X[:, columns] @ frequency)[:, None] - (Z[:, columns] @ frequency)[None, :]
        return np.asarray(variance[0] * np.exp(2j * np.pi * phase))
    alone = Network((primitive,), ALONE)
    return cross(compile_program(alone), values_of(alone), X, Z)


def _applied(layer: Layer, units: NDArray[Any]) -> NDArray[Any]:
    if isinstance(layer, Linear):
        weights, bias = (np.array(parameter.values) for parameter in layer.parameters)
        return np.tensordot(weights.reshape(layer.width, layer.inputs), units, axes=1) + bias[:, None, None]
    if isinstance(layer, Multiply):
        return np.asarray(units.reshape(layer.width, layer.step, *units.shape[1:]).prod(axis=1))
    if isinstance(layer, Exponential):
        return np.asarray(np.exp(units))
    return np.asarray(np.polynomial.polynomial.polyval(units, layer.coefficients))
