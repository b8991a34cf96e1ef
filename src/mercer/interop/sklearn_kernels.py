"""A Mercer expression as a kernel of scikit-learn: stock kernels where they say the same, our own where they do not.

SE, RQ, M12, M32, M52, PER and C have stock counterparts (`STOCK`, by symbol), on some of the columns by `OnColumns`.
Everything else (LIN has an offset, WN knows equal rows, CPER, COS and SM are unknown there, networks and change
surfaces too) is an `ExpressionKernel`, which Mercer evaluates; its values stay when a scikit-learn model is fitted
again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add, mul
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    ExpSineSquared,
    Hyperparameter,
    Kernel,
    Matern,
    RationalQuadratic,
)

from mercer.compute import fused
from mercer.compute.evaluate import bind_with_values
from mercer.compute.program import Program, compile_program
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression, Product, Sum
from mercer.kernels.parameters import values_of
from mercer.kernels.text import parse

REACH = 1e5  # scikit-learn's own bounds are this factor around one; ours are so around each value


class OnColumns(Kernel):
    """A kernel that sees some columns of the rows only."""

    def __init__(self, kernel: Any, columns: Any) -> None:
        self.kernel = kernel
        self.columns = columns

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, with those of the kernel inside."""
        inside = {f"kernel__{name}": value for name, value in self.kernel.get_params().items()} if deep else {}
        return {"kernel": self.kernel, "columns": self.columns, **inside}

    @property
    def hyperparameters(self) -> list[Any]:
        """Those of the kernel inside."""
        return [Hyperparameter(f"kernel__{h.name}", *h[1:4]) for h in self.kernel.hyperparameters]

    @property
    def theta(self) -> Array:
        """The logarithms of what is fitted."""
        return np.asarray(self.kernel.theta)

    @theta.setter
    def theta(self, theta: Array) -> None:
        self.kernel.theta = theta

    @property
    def bounds(self) -> Array:
        """The bounds of theta."""
        return np.asarray(self.kernel.bounds)

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, OnColumns) and self.kernel == other.kernel
        return same and list(self.columns) == list(other.columns)  # type: ignore[attr-defined]

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return the kernel of X and Y, and if asked its gradient."""
        return self.kernel(self._see(X), None if Y is None else self._see(Y), eval_gradient)

    def diag(self, X: Any) -> Array:
        """Return k(x, x) for each row."""
        return np.asarray(self.kernel.diag(self._see(X)))

    def is_stationary(self) -> bool:
        """Whether the kernel depends on x - x' alone."""
        return bool(self.kernel.is_stationary())

    def _see(self, X: Any) -> Array:
        return np.asarray(X, dtype=np.float64)[:, list(self.columns)]

    def __repr__(self) -> str:
        return f"OnColumns({self.kernel!r}, {list(self.columns)})"


class ExpressionKernel(Kernel):
    """A Mercer expression, given as its text with all values; nothing of it is fitted by scikit-learn."""

    def __init__(self, expression: str) -> None:
        self.expression = expression

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return the kernel of X and Y, and if asked its gradient, which has no entries."""
        rows = np.asarray(X, dtype=np.float64)
        program, values = self._compile(rows)
        if Y is None:
            matrix = fused.gram(program, values, rows)
        else:
            matrix = fused.cross(program, values, rows, np.asarray(Y, dtype=np.float64))
        return (matrix, np.empty((*matrix.shape, 0))) if eval_gradient else matrix

    def diag(self, X: Any) -> Array:
        """Return k(x, x) for each row."""
        rows = np.asarray(X, dtype=np.float64)
        return fused.diagonal(*self._compile(rows), rows)

    def is_stationary(self) -> bool:
        """Whether the kernel depends on x - x' alone."""
        return all(leaf.spec.stationary for leaf in parse(self.expression).leaves())

    def _compile(self, rows: Array) -> tuple[Program, Array]:
        bound = bind_with_values(parse(self.expression), rows.shape[1])
        return compile_program(bound), values_of(bound)

    def __repr__(self) -> str:
        return f"ExpressionKernel('{parse(self.expression).text(digits=4)}')"


# -------------------------------------------------------------------------------------------------------- translation


def to_sklearn_kernel(expression: Expression, columns: int) -> Any:
    """Return the kernel of scikit-learn that a bound expression is, for rows of this many columns."""
    if isinstance(expression, Sum):
        return reduce(add, (to_sklearn_kernel(term, columns) for term in expression.terms))
    if isinstance(expression, Product):
        return reduce(mul, (to_sklearn_kernel(factor, columns) for factor in expression.factors))
    stock = STOCK[expression.symbol](expression) if isinstance(expression, Base) and _has_stock(expression) else None
    if stock is None or not isinstance(expression, Base):
        return ExpressionKernel(expression.text())
    seen = expression.columns
    if seen and seen != tuple(range(columns)):
        stock = OnColumns(stock, list(seen))
    return _scale_stock(expression, stock)


def _scale_stock(leaf: Base, stock: Any) -> Any:
    """The variance times the stock kernel; the constant kernel is its variance alone."""
    variance = float(leaf.parameters[0].values[0])  # type: ignore[index]
    constant = ConstantKernel(variance, _bounds(leaf, "variance"))
    if leaf.spec.form == "constant":
        return constant
    return stock if variance == 1.0 else constant * stock


def _has_stock(leaf: Base) -> bool:
    """Whether the stock kernel says the same on the columns of a leaf: two of them know one column, or one length."""
    if leaf.symbol == "PER":
        return len(leaf.columns) == 1
    if leaf.symbol == "RQ":
        return len(leaf.columns) == 1 or (leaf.isotropic and not leaf.ratios)
    return leaf.symbol in STOCK


def _bounds(leaf: Base, name: str) -> Any:
    """Bounds around the value, unless it is fixed."""
    parameter = leaf.parameter(name)
    if parameter.fixed or parameter.values is None:
        return "fixed"
    bounds = [(value / REACH, value * REACH) for value in parameter.values]
    return bounds[0] if len(bounds) == 1 else bounds


def _number(leaf: Base, name: str) -> float:
    value = leaf.value(name)
    assert isinstance(value, float), "one value"
    return value


def _length(leaf: Base) -> dict[str, Any]:
    """The lengthscale, one for each column or one for all of them."""
    if leaf.isotropic and leaf.ratios:
        values = np.array(leaf.lengthscales())
        return {"length_scale": values, "length_scale_bounds": "fixed"}  # one free number could not keep their ratios
    value = leaf.value("lengthscale")
    length = np.array(value) if isinstance(value, tuple) else value
    return {"length_scale": length, "length_scale_bounds": _bounds(leaf, "lengthscale")}


def _matern(nu: float) -> Callable[[Base], Any]:
    return lambda leaf: Matern(nu=nu, **_length(leaf))


STOCK: dict[str, Callable[[Base], Any]] = {
    "C": lambda leaf: ConstantKernel(1.0),
    "SE": lambda leaf: RBF(**_length(leaf)),
    "M12": _matern(0.5),
    "M32": _matern(1.5),
    "M52": _matern(2.5),
    "RQ": lambda leaf: RationalQuadratic(
        alpha=_number(leaf, "alpha"), alpha_bounds=_bounds(leaf, "alpha"), **_length(leaf)
    ),
    "PER": lambda leaf: ExpSineSquared(
        periodicity=_number(leaf, "period"), periodicity_bounds=_bounds(leaf, "period"), **_length(leaf)
    ),
}
