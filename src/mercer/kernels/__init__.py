"""What a kernel is: immutable expressions over base kernels, as objects, text or JSON."""

from __future__ import annotations

from collections.abc import Sequence

from mercer.kernels.algebra import canonical, components, structure
from mercer.kernels.blend import Blend, Surface, blend
from mercer.kernels.expression import Base, Expression, Fixed, Product, Sum, build_base, fixed
from mercer.kernels.functional import Functional, functional
from mercer.kernels.layers import Layer, Values
from mercer.kernels.leaf import REGISTRY, Leaf, ParameterSpec, Words
from mercer.kernels.network import Network, network, regression_network, time_series_network
from mercer.kernels.parameters import bind, layout
from mercer.kernels.polynomial import PolynomialTerm
from mercer.kernels.text import from_json, parse, to_json, to_text

Value = float | Sequence[float] | Fixed | None


def SE(
    *dims: int | str, variance: Value = None, lengthscale: Value = None, isotropic: bool | Sequence[float] = False
) -> Base:
    """Squared exponential: v exp(-sum_d (x_d - x'_d)^2 / 2 l_d^2). Smooth."""
    return build_base("SE", *dims, isotropic=isotropic, variance=variance, lengthscale=lengthscale)


def PER(*dims: int | str, variance: Value = None, period: Value = None, lengthscale: Value = None) -> Base:
    """Periodic: v exp(-2 sum_d sin^2(pi (x_d - x'_d) / p_d) / l_d^2). Repeats with period p."""
    return build_base("PER", *dims, variance=variance, period=period, lengthscale=lengthscale)


def CPER(*dims: int | str, variance: Value = None, period: Value = None, lengthscale: Value = None) -> Base:
    """Centred periodic: PER less its mean over a period, so that it leaves the level to others (METHODS 1)."""
    return build_base("CPER", *dims, variance=variance, period=period, lengthscale=lengthscale)


def LIN(*dims: int | str, variance: Value = None, offset: Value = None, weights: Value = None) -> Base:
    """Linear: v sum_d w_d (x_d - c_d)(x'_d - c_d), the weights w adding up to one. A linear trend."""
    return build_base("LIN", *dims, variance=variance, offset=offset, weights=weights)


def RQ(
    *dims: int | str,
    variance: Value = None,
    lengthscale: Value = None,
    alpha: Value = None,
    isotropic: bool | Sequence[float] = False,
) -> Base:
    """Rational quadratic: v (1 + sum_d (x_d - x'_d)^2 / 2 a l_d^2)^(-a). Smooth on many scales."""
    return build_base("RQ", *dims, isotropic=isotropic, variance=variance, lengthscale=lengthscale, alpha=alpha)


def C(variance: Value = None) -> Base:
    """Constant: v."""
    return build_base("C", variance=variance)


def WN(*dims: int | str, variance: Value = None) -> Base:
    """White noise: v where x = x' on the dimensions, else 0."""
    return build_base("WN", *dims, variance=variance)


def M12(
    *dims: int | str, variance: Value = None, lengthscale: Value = None, isotropic: bool | Sequence[float] = False
) -> Base:
    """Matern 1/2: v exp(-r), r^2 = sum_d (x_d - x'_d)^2 / l_d^2. Continuous, rough."""
    return build_base("M12", *dims, isotropic=isotropic, variance=variance, lengthscale=lengthscale)


def M32(
    *dims: int | str, variance: Value = None, lengthscale: Value = None, isotropic: bool | Sequence[float] = False
) -> Base:
    """Matern 3/2: v (1 + sqrt3 r) exp(-sqrt3 r)."""
    return build_base("M32", *dims, isotropic=isotropic, variance=variance, lengthscale=lengthscale)


def M52(
    *dims: int | str, variance: Value = None, lengthscale: Value = None, isotropic: bool | Sequence[float] = False
) -> Base:
    """Matern 5/2: v (1 + sqrt5 r + 5 r^2 / 3) exp(-sqrt5 r)."""
    return build_base("M52", *dims, isotropic=isotropic, variance=variance, lengthscale=lengthscale)


def COS(*dims: int | str, variance: Value = None, frequency: Value = None) -> Base:
    """Cosine: v cos(2 pi sum_d f_d (x_d - x'_d)). A pure wave."""
    return build_base("COS", *dims, variance=variance, frequency=frequency)


def SM(
    *dims: int | str,
    components: int = 4,
    variance: Value = None,
    weights: Value = None,
    frequency: Value = None,
    bandwidth: Value = None,
) -> Base:
    """Spectral mixture: v sum_q w_q exp(-2 pi^2 sum_d b_qd^2 (x_d - x'_d)^2) cos(2 pi sum_d f_qd (x_d - x'_d))."""
    return build_base(
        "SM",
        *dims,
        components=components,
        variance=variance,
        weights=weights,
        frequency=frequency,
        bandwidth=bandwidth,
    )


def EXPI(*dims: int | str, variance: Value = None, frequency: Value = None) -> Base:
    """Complex wave: v exp(2 pi i sum_d f_d (x_d - x'_d)). A primitive of complex networks only."""
    return build_base("EXPI", *dims, variance=variance, frequency=frequency)


def SUMI(*dims: int | str, variance: Value = None, frequency: Value = None, offset: Value = None) -> Base:
    """Standing wave: v cos(2 pi sum_d f_d (x_d - c_d)) cos(2 pi sum_d f_d (x'_d - c_d)). For networks only."""
    return build_base("SUMI", *dims, variance=variance, frequency=frequency, offset=offset)


def NKN(
    primitives: str | Sequence[Expression | str],
    layers: str | Sequence[Layer],
    *,
    weights: Sequence[Values] | None = None,
    bias: Sequence[Values] | None = None,
    complex: bool | None = None,
    variances: bool = False,
) -> Network:
    """Neural kernel network: `layers` such as "Linear4-Product2-Linear1" over `primitives` such as "2*SE + LIN".

    weights, bias : one entry for each Linear layer: its numbers row by row, one number for all, or None (to be found).
    complex : carry real and imaginary parts; None: where a primitive is complex (EXPI).
    variances : fit the primitives' own variances too, as the paper does.
    """
    bare = network(primitives, layers, complex=complex, variances=variances)
    return bare if weights is None and bias is None else bare.with_weights(weights, bias)


def CP(*kernels: Expression | float, on: int | str | None = None, location: Value = None, width: Value = None) -> Blend:
    """Change point: kernels[0] before, kernels[1] after, ... along one column, 0 for nothing; see `kernels.blend`."""
    return blend(kernels, "CP", on=() if on is None else on, location=location, width=width)


def CW(
    outside: Expression | float,
    inside: Expression | float,
    *,
    on: int | str | None = None,
    start: Value = None,
    duration: Value = None,
    width: Value = None,
) -> Blend:
    """Change window: another kernel from `start` for a `duration` along one column; 0 for nothing."""
    columns = () if on is None else on
    return blend([outside, inside], "CW", on=columns, start=start, duration=duration, width=width)


def KF(inside: Expression, powers: Sequence[int], weights: float | Sequence[float]) -> Functional:
    """Functional: v sum_k w_k u^(p_k), u = inside / v. A learned function of another kernel's values.

    inside : a kernel above zero everywhere, such as M32(0, 1), PER(0) or SE(0)*PER(0); it carries the variance v.
    powers, weights : of the series; with no weight below zero it is a kernel.
    """
    return functional(inside, powers, weights)


__all__ = [
    "COS",
    "CP",
    "CPER",
    "CW",
    "EXPI",
    "KF",
    "LIN",
    "M12",
    "M32",
    "M52",
    "NKN",
    "PER",
    "REGISTRY",
    "RQ",
    "SE",
    "SM",
    "SUMI",
    "WN",
    "Base",
    "Blend",
    "C",
    "Expression",
    "Fixed",
    "Functional",
    "Leaf",
    "Network",
    "ParameterSpec",
    "PolynomialTerm",
    "Product",
    "Sum",
    "Surface",
    "Words",
    "bind",
    "blend",
    "canonical",
    "components",
    "fixed",
    "from_json",
    "layout",
    "parse",
    "regression_network",
    "structure",
    "time_series_network",
    "to_json",
    "to_text",
]
