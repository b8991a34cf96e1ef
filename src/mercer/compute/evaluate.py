"""Kernels as functions of arrays: k(X), k(X, Z), k.diagonal(X), and what each unit of a network is.

For looking at kernels; fitting goes through programs and engines instead. All values must be set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.compute.separate import without_white
from mercer.errors import InputError, KernelError
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression
from mercer.kernels.layers import Exponential, Layer, Linear, Multiply
from mercer.kernels.network import Network
from mercer.kernels.parameters import bind, layout, values_of


def gram(expression: Expression, X: Any, Z: Any = None) -> Array:
    """Return k(X, Z), or k(X, X) where there is no Z or it is X itself.

    White noise has no part in k(X, Z): it is drawn anew for each table of rows.
    """
    rows, names = read_rows(X)
    bound = bind_with_values(expression, rows.shape[1], names)
    program, values = compile_program(bound), values_of(bound)
    if Z is None or Z is X:
        return fused.gram(program, values, rows) if len(rows) else np.empty((0, 0))
    others, _ = read_rows(Z, names)
    if others.shape[1] != rows.shape[1]:
        raise InputError(f"X has {rows.shape[1]} columns and Z has {others.shape[1]}: give the same columns in both")
    return fused.cross(without_white(program), values, rows, others)


def diagonal(expression: Expression, X: Any) -> Array:
    """Return k(x, x) for every row."""
    rows, names = read_rows(X)
    bound = bind_with_values(expression, rows.shape[1], names)
    return fused.diagonal(compile_program(bound), values_of(bound), rows)


def bind_with_values(expression: Expression, dimensions: int, names: list[str] | None = None) -> Expression:
    """Return the kernel on the columns of a table, refusing one whose parameters have no value."""
    bound = bind(expression, dimensions, names)
    values = values_of(bound)
    unset = [slot.path.partition(":")[2] for slot in layout(bound).slots if np.isnan(values[slot.where]).any()]
    if unset:
        raise KernelError(
            f"{expression.text(digits=4)} has no value for {', '.join(dict.fromkeys(unset))}: give one, as in "
            "SE(0, variance=1, lengthscale=2), or take the kernel_ of a fitted model"
        )
    return bound


def read_rows(X: Any, names: list[str] | None = None) -> tuple[Array, list[str] | None]:
    """Return rows of numbers, and the names of their columns where X is a table; `names` puts columns in order."""
    own = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    if own is not None and names is not None and own != names:
        missing = [name for name in names if name not in own]
        if missing:
            raise InputError(f"Z has no column {', '.join(missing)}; it has {', '.join(own)}")
        X = X[[X.columns[own.index(name)] for name in names]]
    try:
        rows = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("a kernel is evaluated at numbers: X has other cells, such as texts or dates") from None
    if rows.ndim != 2:
        raise InputError(f"give X as rows and columns, not in {rows.ndim} dimensions: X.reshape(-1, 1) is one column")
    if not np.isfinite(rows).all():
        raise InputError("a kernel is evaluated at finite numbers: X has missing or infinite cells")
    return rows, own if own is not None else names


# ----------------------------------------------------------------------- the units of a network (NKN appendix I.3)


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
    return fused.cross(compile_program(alone), values_of(alone), X, Z)


def _applied(layer: Layer, units: NDArray[Any]) -> NDArray[Any]:
    if isinstance(layer, Linear):
        weights, bias = (np.array(parameter.values) for parameter in layer.parameters)
        table = weights.reshape(layer.width, layer.inputs)
        return np.asarray(np.tensordot(table, units, axes=1) + bias[:, None, None])
    if isinstance(layer, Multiply):
        return np.asarray(units.reshape(layer.width, layer.step, *units.shape[1:]).prod(axis=1))
    if isinstance(layer, Exponential):
        return np.asarray(np.exp(units))
    return np.asarray(np.polynomial.polynomial.polyval(units, layer.coefficients))
