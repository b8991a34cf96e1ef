"""A kernel of GPyTorch as a Mercer expression with its values, by the table `READERS`.

GPyTorch's PeriodicKernel is exp(-2 sum_d sin^2(pi d / p) / l), with l where Mercer's PER has l^2; its CosineKernel is
cos(pi |d| / p), a COS of frequency 1 / 2p.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gpytorch
from gpytorch import kernels as stock

from mercer.errors import KernelError
from mercer.interop.foreign import MATERN, VisibleColumns, raise_to, refuse, scale
from mercer.interop.gpytorch_model import GPyTorchKernel
from mercer.kernels.expression import Expression, build_base, product_of, sum_of


def read_kernel(kernel: Any, columns: int | None = None) -> Expression:
    """Return the expression of a kernel, for data with this many columns."""
    if isinstance(kernel, gpytorch.models.ExactGP) or not isinstance(kernel, stock.Kernel):
        raise KernelError(
            f"from_gpytorch reads a kernel of gpytorch.kernels, not {type(kernel).__name__}: of a model give its "
            "covar_module"
        )
    return _read(kernel, VisibleColumns.of(_count_columns(kernel) if columns is None else columns))


def _count_columns(kernel: Any) -> int | None:
    """Return the number of columns where a part that looks at all of them has a length or a slope for each."""
    if kernel.active_dims is not None:
        return None
    parts = (stock.AdditiveKernel, stock.ProductKernel, stock.ScaleKernel)
    counts = [_count_columns(each) for each in kernel.sub_kernels()] if type(kernel) in parts else []
    return kernel.ard_num_dims or next((count for count in counts if count), None)


def _read(kernel: Any, seen: VisibleColumns) -> Expression:
    if len(kernel.batch_shape):
        raise KernelError(f"{type(kernel).__name__} has a batch of {tuple(kernel.batch_shape)}: give one kernel of it")
    if kernel.active_dims is not None:
        seen = seen.choose(type(kernel).__name__, kernel.active_dims)
    return _read_seen(kernel, seen)


def _read_seen(kernel: Any, seen: VisibleColumns) -> Expression:
    """Read a kernel whose `active_dims` were chosen already."""
    for kind, reader in READERS.items():
        if type(kernel) is kind:
            return reader(kernel, seen)
    raise refuse("GPyTorch", kernel, [kind.__name__ for kind in READERS])


def _numbers(tensor: Any) -> list[float]:
    return [float(number) for number in tensor.detach().double().reshape(-1)]


def _number(tensor: Any) -> float:
    (number,) = _numbers(tensor)
    return number


def _scale_kernel(kernel: Any, seen: VisibleColumns) -> Expression:
    """The kernel inside; its `active_dims` are also those of the ScaleKernel, and are applied once, there."""
    return scale(_read_seen(kernel.base_kernel, seen), _number(kernel.outputscale), "ScaleKernel")


def _matern(kernel: Any, seen: VisibleColumns) -> Expression:
    return seen.radial(MATERN[float(kernel.nu)], _numbers(kernel.lengthscale))


def _periodic(kernel: Any, seen: VisibleColumns) -> Expression:
    periods, lengths = _numbers(kernel.period_length), [math.sqrt(each) for each in _numbers(kernel.lengthscale)]
    dims = seen.dims
    if dims is None:  # a single value stands for all columns, in Mercer as there
        dims = tuple(range(len(periods))) if len(periods) > 1 else ()
    size = max(len(dims), 1)
    period, lengthscale = (values * size if len(values) == 1 else values for values in (periods, lengths))
    return build_base("PER", *dims, variance=1.0, period=period, lengthscale=lengthscale)


def _cosine(kernel: Any, seen: VisibleColumns) -> Expression:
    column = seen.one_column("CosineKernel")
    return build_base("COS", column, variance=1.0, frequency=0.5 / _number(kernel.period_length))


def _mixture(kernel: Any, seen: VisibleColumns) -> Expression:
    """On one column: on several GPyTorch multiplies waves, and Mercer's are of the distance along a direction."""
    if kernel.ard_num_dims not in (None, 1):
        raise KernelError("SpectralMixtureKernel on several columns is a product of waves, which Mercer's SM is not")
    column = seen.one_column("SpectralMixtureKernel")
    weights = _numbers(kernel.mixture_weights)
    total = sum(weights)
    return build_base(
        "SM", column, components=len(weights), variance=total, weights=[each / total for each in weights],
        frequency=_numbers(kernel.mixture_means), bandwidth=_numbers(kernel.mixture_scales),
    )  # fmt: skip


def _polynomial(kernel: Any, seen: VisibleColumns) -> Expression:
    line = seen.line("PolynomialKernel", [1.0])
    return raise_to(sum_of([build_base("C", variance=_number(kernel.offset)), line]), kernel.power, "PolynomialKernel")


READERS: dict[type, Callable[[Any, VisibleColumns], Expression]] = {
    stock.AdditiveKernel: lambda kernel, seen: sum_of([_read(each, seen) for each in kernel.kernels]),
    stock.ProductKernel: lambda kernel, seen: product_of([_read(each, seen) for each in kernel.kernels]),
    stock.ScaleKernel: _scale_kernel,
    stock.ConstantKernel: lambda kernel, seen: build_base("C", variance=_number(kernel.constant)),
    stock.RBFKernel: lambda kernel, seen: seen.radial("SE", _numbers(kernel.lengthscale)),
    stock.MaternKernel: _matern,
    stock.RQKernel: lambda kernel, seen: seen.radial("RQ", _numbers(kernel.lengthscale), alpha=_number(kernel.alpha)),
    stock.PeriodicKernel: _periodic,
    stock.CosineKernel: _cosine,
    stock.LinearKernel: lambda kernel, seen: seen.line("LinearKernel", _numbers(kernel.variance)),
    stock.PolynomialKernel: _polynomial,
    stock.SpectralMixtureKernel: _mixture,
    GPyTorchKernel: lambda kernel, seen: seen.check("GPyTorchKernel", kernel.expression),
}
