"""Kernels as functions of arrays: k(X), k(X, Z), k.diagonal(X), and what each unit of a network is.

For looking at kernels; fitting goes through programs and engines instead. All values must be set.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from numbers import Real as RealNumber
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.compute import fused
from mercer.compute.program import Program, compile_program
from mercer.compute.separate import without_white
from mercer.errors import InputError, KernelError, TooLargeError
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression
from mercer.kernels.layers import Exponential, Linear, Multiply
from mercer.kernels.network import Network
from mercer.kernels.parameters import bind, layout, values_of


def gram(expression: Expression, X: Any, Z: Any = None) -> Array:
    """Return k(X, Z), or k(X, X) where there is no Z or it is X itself.

    White noise has no part in k(X, Z): it is drawn anew for each table of rows.
    """
    bound, rows = bind_to_rows(expression, X)
    program, values = compile_program(bound), values_of(bound)
    alone = Z is None or Z is X
    others = rows if alone else read_rows(Z, "Z", program, X)
    if others.shape[1] != rows.shape[1]:
        raise InputError(f"X has {rows.shape[1]} columns and Z has {others.shape[1]}: give the same columns in both")
    try:
        if 8 * len(rows) * len(others) > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
            raise MemoryError  # a system that promises more than it has would end the process later
        if alone:
            return _require_numbers(fused.gram(program, values, rows)) if len(rows) else np.empty((0, 0))
        return _require_numbers(fused.cross(without_white(program), values, rows, others))
    except MemoryError:
        size = 8e-9 * len(rows) * len(others)
        raise TooLargeError(
            f"a matrix of {len(rows):,} x {len(others):,} numbers takes {size:,.0f} GB, more than there is: ask for "
            "some rows at a time, as in kernel(X[:1000], X), or for kernel.diagonal(X)"
        ) from None


def diagonal(expression: Expression, X: Any) -> Array:
    """Return k(x, x) for every row."""
    bound, rows = bind_to_rows(expression, X)
    return _require_numbers(fused.diagonal(compile_program(bound), values_of(bound), rows))


def _require_numbers(found: Array) -> Array:
    """Return values of a kernel, refusing those that are none."""
    if not np.isfinite(found).all():
        raise InputError(
            "the kernel has values that are no numbers at these rows: they, or its parameters, are too large or too "
            "small. Change their unit"
        )
    return found


def bind_to_rows(expression: Expression, X: Any) -> tuple[Expression, Array]:
    """Return the kernel on the columns of a table or an array, and its rows."""
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    rows = None if names else read_rows(X, "X")
    bound = bind_with_values(expression, len(names or ()) if rows is None else rows.shape[1], names)
    return bound, read_rows(X, "X", compile_program(bound)) if rows is None else rows


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


def read_rows(given: Any, name: str, program: Program | None = None, like: Any = None) -> Array:
    """Return rows of numbers; of a table only the columns that the program reads, and zero in place of the others.

    name : what it is called in sentences. like : what has the same columns, perhaps in another order.
    """
    if given is None or np.isscalar(given):
        raise InputError(
            f"a kernel is called with rows of numbers, as in kernel([[1.0], [2.0]]), and {name} is {given!r:.60}"
        )
    if like is not None and hasattr(given, "columns") != hasattr(like, "columns"):
        raise InputError("one of X and Z is a table with named columns, the other not: give two tables, or two arrays")
    if hasattr(given, "columns") and program is not None:
        own = [str(column) for column in given.columns]
        names = own if like is None else [str(column) for column in like.columns]
        missing = [column for column in names if column not in own]
        if missing:
            raise InputError(f"{name} has no column {', '.join(missing)}; it has {', '.join(own)}")
        cells = np.zeros((len(given), len(names)))
        for column in {d for leaf in program.leaves for d in leaf.dims}:
            place = column if own == names else own.index(names[column])
            values = given.iloc[:, place] if hasattr(given, "iloc") else given[own[place]]
            cells[:, column] = read_numbers(values, name)
    else:
        cells = read_numbers(given, name)
    if cells.ndim != 2:
        raise InputError(
            f"give {name} as rows and columns, not in {cells.ndim} dimensions: {name}.reshape(-1, 1) is one column"
        )
    if not np.isfinite(cells).all():
        raise InputError(f"a kernel is evaluated at finite numbers: {name} has missing or infinite cells")
    return cells


def read_numbers(given: Any, name: str) -> Array:
    """Return cells as numbers, None as one that is missing; NumPy would take dates, texts and complex ones for some."""
    if np.ma.is_masked(given):
        raise InputError(f"a kernel is evaluated at finite numbers: {name} has masked cells")
    if getattr(given, "requires_grad", False) is True:
        raise InputError(f"{name} is a tensor with gradients, which are not followed: give {name}.detach()")
    try:
        cells = np.asarray(given)
        numbers = cells.dtype.kind in "biuf"
        if cells.dtype.kind == "O":
            numbers = all(cell is None or isinstance(cell, RealNumber) for cell in cells.flat)
        if numbers:
            return np.asarray(cells, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(f"a kernel is evaluated at numbers: {name} has other cells, such as texts or dates")


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
    units = np.stack([_evaluate_primitive(part, left, right) for part in bound.primitives])
    result = [LayerPattern("primitives", network.primitive_names(), units)]
    for layer in bound.layers:
        if isinstance(layer, Linear):
            weights, bias = (np.array(parameter.values) for parameter in layer.parameters)
            table = weights.reshape(layer.width, layer.inputs)
            units = np.tensordot(table, units, axes=1) + bias[:, None, None]
        elif isinstance(layer, Multiply):
            units = units.reshape(layer.width, layer.step, *units.shape[1:]).prod(axis=1)
        elif isinstance(layer, Exponential):
            units = np.exp(units)
        else:
            units = np.polynomial.polynomial.polyval(units, layer.coefficients)
        names = tuple(f"{layer.symbol}[{unit}]" for unit in range(1, layer.width + 1))
        result.append(LayerPattern(layer.symbol, names, units))
    return tuple(result)


def _evaluate_primitive(primitive: Expression, X: Array, Z: Array) -> NDArray[Any]:
    if isinstance(primitive, Base) and primitive.spec.form == "complex":
        columns = list(primitive.columns)
        variance, frequency = (np.array(parameter.values) for parameter in primitive.parameters)
        phase = (X[:, columns] @ frequency)[:, None] - (Z[:, columns] @ frequency)[None, :]
        return np.asarray(variance[0] * np.exp(2j * np.pi * phase))
    alone = Network((primitive,), ALONE)
    return fused.cross(compile_program(alone), values_of(alone), X, Z)
