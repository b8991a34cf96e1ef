"""A kernel of scikit-learn as a Mercer expression with its values, by the table `READERS`.

Bounds are not read: the values are where a fit begins. WhiteKernel becomes WN: the same matrix where no two rows are
equal.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as stock

from mercer.errors import KernelError
from mercer.interop.foreign import MATERN, VisibleColumns, raise_to, refuse, scale, variance_of
from mercer.interop.sklearn_kernels import ExpressionKernel, OnColumns
from mercer.kernels.expression import Expression, build_base, product_of, sum_of
from mercer.kernels.text import parse


def read_kernel(kernel: Any, columns: int | None = None) -> Expression:
    """Return the expression of a kernel, for data with this many columns."""
    if not isinstance(kernel, stock.Kernel):
        raise KernelError(
            f"from_sklearn reads a kernel of sklearn.gaussian_process.kernels, not {type(kernel).__name__}: of a "
            "fitted regressor give its kernel_"
        )
    return _read(kernel, VisibleColumns.of(_count_columns(kernel) if columns is None else columns))


def _count_columns(kernel: Any) -> int | None:
    """Return the number of columns where a part has a length for each, which it has for all columns."""
    parts = [getattr(kernel, name) for name in ("k1", "k2") if hasattr(kernel, name)]
    if type(kernel) is stock.Exponentiation:
        parts = [kernel.kernel]
    own = np.size(getattr(kernel, "length_scale", 1.0))
    return own if own > 1 else next((count for part in parts if (count := _count_columns(part))), None)


def _read(kernel: Any, seen: VisibleColumns) -> Expression:
    for kind, reader in READERS.items():
        if type(kernel) is kind:
            return reader(kernel, seen)
    raise refuse("scikit-learn", kernel, [kind.__name__ for kind in READERS])


def _product(kernel: Any, seen: VisibleColumns) -> Expression:
    """A constant factor becomes the variance of the other one."""
    for one, other in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
        if type(one) is stock.ConstantKernel:
            return scale(_read(other, seen), float(one.constant_value), "ConstantKernel")
    return product_of([_read(kernel.k1, seen), _read(kernel.k2, seen)])


def _matern(kernel: Any, seen: VisibleColumns) -> Expression:
    symbol = "SE" if kernel.nu == inf else MATERN.get(float(kernel.nu))
    if symbol is None:
        raise KernelError(f"Mercer has Matern kernels of nu = 0.5, 1.5, 2.5 and inf, not of {kernel.nu:g}")
    return seen.radial(symbol, np.atleast_1d(kernel.length_scale).tolist())


def _periodic(kernel: Any, seen: VisibleColumns) -> Expression:
    column = seen.one_column("ExpSineSquared")
    return build_base(
        "PER", column, variance=1.0, period=float(kernel.periodicity), lengthscale=float(kernel.length_scale)
    )


def _dot(kernel: Any, seen: VisibleColumns) -> Expression:
    line = seen.line("DotProduct", [1.0])
    return line if kernel.sigma_0 == 0 else sum_of([build_base("C", variance=float(kernel.sigma_0) ** 2), line])


def _on_columns(kernel: Any, seen: VisibleColumns) -> Expression:
    return _read(kernel.kernel, seen.choose("OnColumns", kernel.columns))


def _white(kernel: Any, seen: VisibleColumns) -> Expression:
    return build_base("WN", *(seen.dims or ()), variance=variance_of(float(kernel.noise_level), "WhiteKernel"))


def _constant(kernel: Any, seen: VisibleColumns) -> Expression:
    return build_base("C", variance=variance_of(float(kernel.constant_value), "ConstantKernel"))


READERS: dict[type, Callable[[Any, VisibleColumns], Expression]] = {
    stock.Sum: lambda kernel, seen: sum_of([_read(kernel.k1, seen), _read(kernel.k2, seen)]),
    stock.Product: _product,
    stock.Exponentiation: lambda kernel, seen: raise_to(_read(kernel.kernel, seen), kernel.exponent, "Exponentiation"),
    stock.ConstantKernel: _constant,
    stock.WhiteKernel: _white,
    stock.RBF: lambda kernel, seen: seen.radial("SE", np.atleast_1d(kernel.length_scale).tolist()),
    stock.Matern: _matern,
    stock.RationalQuadratic: lambda kernel, seen: seen.radial(
        "RQ", [float(kernel.length_scale)], alpha=float(kernel.alpha)
    ),
    stock.ExpSineSquared: _periodic,
    stock.DotProduct: _dot,
    OnColumns: _on_columns,
    ExpressionKernel: lambda kernel, seen: seen.check("ExpressionKernel", parse(kernel.expression)),
}
