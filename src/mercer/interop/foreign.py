"""What reading a foreign kernel needs, whichever library it comes from.

A foreign kernel need not say how many columns it looks at. Where that makes a difference (`one_column`, `line`), the
number is asked for, or one is assumed with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from mercer.errors import KernelError, MercerWarning
from mercer.kernels.expression import Expression, build_base, product_of

MATERN = {0.5: "M12", 1.5: "M32", 2.5: "M52"}
HIGHEST_POWER = 20  # of a kernel: more factors than this are a slip


@dataclass(frozen=True)
class VisibleColumns:
    """The columns that a part looks at: their numbers, or None where it looks at all of them and none is known."""

    dims: tuple[int, ...] | None = None

    @classmethod
    def of(cls, columns: int | None) -> VisibleColumns:
        """Return all columns, by their number."""
        if columns is None:
            return cls()
        if not isinstance(columns, Integral) or isinstance(columns, bool) or columns < 1:
            raise KernelError(f"columns is the number of columns of the data, at least 1, not {columns!r}")
        return cls(tuple(range(int(columns))))

    def choose(self, part: str, columns: Sequence[int]) -> VisibleColumns:
        """Return some of the columns, by their numbers among these."""
        chosen = tuple(int(column) for column in columns)
        if self.dims is None:
            return VisibleColumns(chosen)
        if not all(0 <= column < len(self.dims) for column in chosen):
            raise KernelError(f"{part} acts on the columns {list(chosen)}, counted from 0, of {len(self.dims)}")
        return VisibleColumns(tuple(self.dims[column] for column in chosen))

    def check(self, part: str, kernel: Expression) -> Expression:
        """Return an expression that names its columns, all of which must be among these."""
        if self.dims is not None and self.dims != tuple(range(len(self.dims))):
            raise KernelError(f"{part} names its columns itself, and cannot stand inside a kernel on some of them")
        self.choose(part, sorted({column for leaf in kernel.leaves() for column in leaf.columns}))
        return kernel

    def radial(self, symbol: str, lengths: Sequence[float], **values: Any) -> Expression:
        """Return a radial kernel of variance one, with one length for all columns or one for each."""
        dims = tuple(range(len(lengths))) if self.dims is None and len(lengths) > 1 else self.dims
        if len(lengths) == 1:
            one = dims is not None and len(dims) == 1
            given: Any = {} if one else {"isotropic": True}
            return build_base(symbol, *(dims or ()), variance=1.0, lengthscale=float(lengths[0]), **given, **values)
        if dims is None or len(lengths) != len(dims):
            raise KernelError(f"{symbol} has {len(lengths)} lengthscales, which do not fit {len(dims or ())} columns")
        return build_base(symbol, *dims, variance=1.0, lengthscale=list(lengths), **values)

    def one_column(self, part: str) -> int:
        """Return the one column of a part that Mercer has on one column only."""
        if self.dims is None:
            warnings.warn(
                f"{part} does not say how many columns it acts on, and is read as a kernel on column 0: give "
                "columns=1 if that is the only one, or the number of columns of your data",
                MercerWarning,
                stacklevel=2,
            )
            return 0
        if len(self.dims) != 1:
            raise KernelError(
                f"{part} is a function of the distance over {len(self.dims)} columns, which Mercer has not: PER and "
                "COS act on each column by itself, as in PER(0) * PER(1)"
            )
        return self.dims[0]

    def line(self, part: str, slopes: Sequence[float]) -> Expression:
        """Return sum_d v_d x_d x'_d, given one v for all columns or one for each."""
        if self.dims is None:
            dims = tuple(range(len(slopes))) if len(slopes) > 1 else (self.one_column(part),)
        else:
            dims = self.dims
        sizes = np.array(slopes, dtype=float) * np.ones(len(dims))
        weights = (sizes / sizes.sum()).tolist()
        zeros = [0.0] * len(dims)
        return build_base("LIN", *dims, variance=float(sizes.sum()), offset=zeros, weights=weights)


def scale(kernel: Expression, factor: float, part: str) -> Expression:
    """Return a kernel times the value of a part."""
    return kernel.multiply_by(variance_of(factor, part))


def variance_of(value: float, part: str) -> float:
    """Return a value that is a variance in Mercer."""
    if not 0.0 < value < np.inf:
        raise KernelError(f"{part} of {value:g} is no variance, which is greater than zero: take the part out")
    return float(value)


def raise_to(kernel: Expression, exponent: float, part: str) -> Expression:
    """Return a kernel to a whole power."""
    if exponent != int(exponent) or not 1 <= exponent <= HIGHEST_POWER:
        powers = f"Mercer has whole powers from 1 to {HIGHEST_POWER}, as products"
        raise KernelError(f"{part} to the power of {exponent:g}: {powers}")
    return product_of([kernel] * int(exponent))


def refuse(library: str, part: Any, known: Sequence[str]) -> KernelError:
    """Return the error for a part that Mercer has not."""
    return KernelError(
        f"Mercer has no counterpart of {library}'s {type(part).__name__}: take it out, or write what it is with "
        f"mercer.parse. These are known: {', '.join(known)}"
    )
