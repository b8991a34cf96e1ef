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
from mercer.interop.foreign import MATERN, Seen, raise_to, refuse
from mercer.interop.gpytorch_model import ExpressionKernel
from mercer.kernels.expression import Expression, build_base, product_of, sum_of


def read_kernel(kernel: Any, columns: int | None = None) -> Expression:
    """Return the expression of a kernel, for data with this many columns."""
    if isinstance(kernel, gpytorch.models.ExactGP) or not isinstance(kernel, stock.Kernel):
        raise KernelError(
            f"from_gpytorch reads a kernel of gpytorch.kernels, not {type(kernel).__name__}: of a model give its "
            "covar_module"
        )
    return _read(kernel, Seen.of(columns))


def _read(kernel: Any, seen: Seen) -> Expression:
    if len(kernel.batch_shape):
        raise KernelError(f"{type(kernel).__name__} has a batch of {tuple(kernel.batch_shape)}: give one kernel of it")
    if kernel.active_dims is not None:
        chosen = tuple(int(c) for c in kernel.active_dims)
        seen = Seen(chosen if seen.dims is None else tuple(seen.dims[c] for c in chosen))
    return _read_seen(kernel, seen)


def _read_seen(kernel: Any, seen: Seen) -> Expression:
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


def _scaled(kernel: Any, seen: Seen) -> Expression:
    """The kernel inside; its `active_dims` are also those of the ScaleKernel, and are applied once, there."""
    return _read_seen(kernel.base_kernel, seen).multiply_by(_number(kernel.outputscale))


def _matern(kernel: Any, seen: Seen) -> Expression:
    return seen.radial(MATERN[float(kernel.nu)], _numbers(kernel.lengthscale))


def _periodic(kernel: Any, seen: Seen) -> Expression:
    periods, lengths = _numbers(kernel.period_length), [math.sqrt(each) for each in _numbers(kernel.lengthscale)]
    dims = seen.dims
    if dims is None:  # a single value stands for all columns, in Mercer as there
        dims = tuple(range(len(periods))) if len(periods) > 1 else ()
    size = max(len(dims), 1)
    period, lengthscale = (values * size if len(values) == 1 else values for values in (periods, lengths))
    return build_base("PER", *dims, variance=1.0, period=period, lengthscale=lengthscale)


def _cosine(kernel: Any, seen: Seen) -> Expression:
    column = seen.one_column("CosineKernel")
    return build_base("COS", column, variance=1.0, frequency=0.5 / _number(kernel.period_length))


def _mixture(kernel: Any, seen: Seen) -> Expression:
    """On one column: on several GPyTorch multiplies waves, and Mercer's are of the distance along a direction."""
    column = seen.one_column("SpectralMixtureKernel")
    if kernel.ard_num_dims not in (None, 1):
        raise KernelError("SpectralMixtureKernel on several columns is a product of waves, which Mercer's SM is not")
    weights = _numbers(kernel.mixture_weights)
    total = sum(weights)
    return build_base(
        "SM", column, components=len(weights), variance=total, weights=[each / total for each in weights],
        frequency=_numbers(kernel.mixture_means), bandwidth=_numbers(kernel.mixture_scales),
    )  # fmt: skip


def _polynomial(kernel: Any, seen: Seen) -> Expression:
    line = seen.line("PolynomialKernel", [1.0])
    return raise_to(sum_of([build_base("C", variance=_number(kernel.offset)), line]), kernel.power, "PolynomialKernel")


def _expression(kernel: Any, seen: Seen) -> Expression:
    if kernel.active_dims is not None:
        raise KernelError("an ExpressionKernel names its columns: leave active_dims")
    return kernel.expression  # type: ignore[no-any-return]


READERS: dict[type, Callable[[Any, Seen], Expression]] = {
    stock.AdditiveKernel: lambda kernel, seen: sum_of([_read(each, seen) for each in kernel.kernels]),
    stock.ProductKernel: lambda kernel, seen: product_of([_read(each, seen) for each in kernel.kernels]),
    stock.ScaleKernel: _scaled,
    stock.ConstantKernel: lambda kernel, seen: build_base("C", variance=_number(kernel.constant)),
    stock.RBFKernel: lambda kernel, seen: seen.radial("SE", _numbers(kernel.lengthscale)),
    stock.MaternKernel: _matern,
    stock.RQKernel: lambda kernel, seen: seen.radial("RQ", _numbers(kernel.lengthscale), alpha=_number(kernel.alpha)),
    stock.PeriodicKernel: _periodic,
    stock.CosineKernel: _cosine,
    stock.LinearKernel: lambda kernel, seen: seen.line("LinearKernel", _numbers(kernel.variance)),
    stock.PolynomialKernel: _polynomial,
    stock.SpectralMixtureKernel: _mixture,
    ExpressionKernel: _expression,
}
