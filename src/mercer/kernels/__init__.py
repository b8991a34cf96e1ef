"""What a kernel is: immutable expressions over base kernels, as objects, text or JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter as Argument
from inspect import Signature

from mercer.kernels.algebra import canonical, components, structure
from mercer.kernels.blend import Blend, Surface, blend
from mercer.kernels.domains import ParameterSpec
from mercer.kernels.expression import Base, Expression, Fixed, Given, Product, Sum, build_base, fixed
from mercer.kernels.functional import Functional, functional
from mercer.kernels.layers import Layer
from mercer.kernels.leaf import LEAVES, REGISTRY, Leaf, Words
from mercer.kernels.network import Network, network, regression_network, time_series_network
from mercer.kernels.parameters import bind, layout
from mercer.kernels.polynomial import PolynomialTerm
from mercer.kernels.text import from_json, parse, to_json, to_text


def constructor(symbol: str) -> Callable[..., Base]:
    """Return the function that builds a base kernel, `SE(0, lengthscale=2)`; its arguments follow from the record."""
    leaf = LEAVES[symbol]

    def build(*dims: int | str, **values: Given) -> Base:
        return build_base(symbol, *dims, **values)  # type: ignore[arg-type]

    names = ["components"] * leaf.mixture + ["isotropic"] * leaf.radial + [p.name for p in leaf.parameters]
    arguments = [Argument(name, Argument.KEYWORD_ONLY, default=None) for name in names]
    build.__signature__ = Signature([Argument("dims", Argument.VAR_POSITIONAL), *arguments])  # type: ignore[attr-defined]
    build.__name__ = build.__qualname__ = symbol
    build.__doc__ = f"Build {leaf.words.summary} ({leaf.name}): {leaf.formula}."
    return build


SE, RQ, M12, M32, M52 = map(constructor, ("SE", "RQ", "M12", "M32", "M52"))
PER, CPER, COS, SM = map(constructor, ("PER", "CPER", "COS", "SM"))
LIN, WN, CAT, ECAT, EXPI, SUMI = map(constructor, ("LIN", "WN", "CAT", "ECAT", "EXPI", "SUMI"))
RW, IRW, IOU = map(constructor, ("RW", "IRW", "IOU"))


def C(variance: Given = None) -> Base:
    """Build a constant kernel."""
    return build_base("C", variance=variance)


def NKN(
    primitives: str | Sequence[Expression | str],
    layers: str | Sequence[Layer],
    *,
    weights: Sequence[Given] | None = None,
    bias: Sequence[Given] | None = None,
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


def CP(*kernels: Expression | float, on: int | str | None = None, location: Given = None, width: Given = None) -> Blend:
    """Change point: kernels[0] before, kernels[1] after, ... along one column, 0 for nothing; see `kernels.blend`."""
    return blend(kernels, "CP", on=() if on is None else on, location=location, width=width)


def CW(
    outside: Expression | float,
    inside: Expression | float,
    *,
    on: int | str | None = None,
    start: Given = None,
    duration: Given = None,
    width: Given = None,
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
    "CAT", "COS", "CP", "CPER", "CW", "ECAT", "EXPI", "IOU", "IRW", "KF", "LIN", "M12", "M32", "M52", "NKN", "PER",
    "REGISTRY", "RQ", "RW", "SE", "SM", "SUMI", "WN", "Base", "Blend", "C", "Expression", "Fixed", "Functional", "Leaf",
    "Network", "ParameterSpec", "PolynomialTerm", "Product", "Sum", "Surface", "Words", "bind", "blend", "canonical",
    "components", "constructor", "fixed", "from_json", "layout", "parse", "regression_network", "structure",
    "time_series_network", "to_json", "to_text",
]  # fmt: skip
