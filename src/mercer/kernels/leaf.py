"""The base kernels: one `Leaf` record for each, with all there is to know of it apart from its numerical functions.

Those are registered in `mercer.compute.leaves`, so that this room needs no tensor library. Every base kernel is a
variance v times a unit function; in the formulas d = x - x' on one dimension, and r^2 = sum d^2 / l^2 over the chosen
ones (one lengthscale each, or one for all of them where the kernel is isotropic).

RW, IRW and IOU do not fall back to a mean: a random walk, its integral, and the integral of an Ornstein-Uhlenbeck
process (a trend whose slope fades). They are zero at their origin o, the first row unless it is given, and go to both
sides of it; with a = x - o and b = x' - o. The level and the slope at the origin are for C and LIN beside them.

EXPI and SUMI are units of a neural kernel network only (NKN 3.1 and appendix G). Appendix G multiplies by
exp(i (x + x').nu) and by its conjugate, which is 2 cos(nu.(x + x')). That is not a kernel, not even as a factor: on the
diagonal it is negative wherever cos(2 nu.x) is. With the stationary terms that complete the square it is one,
cos(nu.(x + x')) + cos(nu.(x - x')) = 2 cos(nu.x) cos(nu.x'): this is SUMI.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from mercer.errors import KernelError
from mercer.kernels.domains import (
    ParameterSpec,
    Positive,
    Real,
    Share,
    Simplex,
    UnitRule,
    line_in_other_units,
    walk_in_other_units,
)

# How a base kernel becomes nodes of a program: one node; none at all; envelopes times waves; one node for each column;
# a real and an imaginary part.
Form = Literal["node", "constant", "mixture", "per column", "complex"]
# What a component with this kernel is in words: something that varies around a mean, repeats, rises, wanders without a
# mean, is drawn anew, stays, or differs from one category to the other.
Role = Literal["fading", "wave", "trend", "walk", "noise", "constant", "levels"]


@dataclass(frozen=True)
class Words:
    """What is said of a component with this kernel; the report's list of kernels shows `summary`.

    rank : of the factors of a product the one with the lowest rank is the noun; the rougher, the lower.
    noun, varying, verb, over, scales, title : of a kernel that fades with the distance: "a smooth function", "varying
        over" a lengthscale; as a factor it "changes smoothly" the noun " over" a lengthscale.
    wanders : the "value" or the "slope" is a random walk; of a kernel with a mean where its lengthscale is beyond the
        data. "fading slope": the slope wanders around zero, and is forgotten over the lengthscale.
    correlation : k(r) / k(0) at a distance of r lengthscales, given alpha where the kernel has one (else 1).
    """

    summary: str
    role: Role
    rank: int
    noun: str = ""
    title: str = ""
    verb: str = ""
    varying: str = "varying over"
    over: str = " over"
    scales: str = ""
    wanders: Literal["", "value", "slope", "fading slope"] = ""
    correlation: Callable[[float, float], float] | None = None


@dataclass(frozen=True, eq=False)
class Leaf:
    """All about one base kernel but its numerical functions.

    stationary : k(x, x') depends on x - x' alone. log_form : above zero everywhere and one at distance zero; back ends
        compute its logarithm, so that a product of such kernels costs one exponential. radial : a function of
        sum d^2 / l^2, which may be isotropic. separable : on several columns the product of itself on each of them.
        white : zero unless x = x'. mixture : has components. merges : a product of several on the same columns is one
        of them, 1 / l^2 added up or the correlations multiplied. categorical : its columns may hold codes of
        categories, between which there are no distances. coded : it has a number for each category but the first, and
        acts on one column of codes 0, 1, 2, ... that are neither shifted nor scaled.
    outside_networks : empty, or what to use instead where it is not a kernel of its own.
    simpler : the symbol of a kernel with fewer parameters that is nearly the same. centred : of one that is the same
        without its mean.
    unit_rule : how its parameters follow a change of units where each one's unit is not enough.
    module : the module that registers a kernel from outside; it is imported where a copy is unpickled.
    """

    symbol: str
    name: str
    parameters: tuple[ParameterSpec, ...]
    formula: str
    tex: str
    words: Words
    stationary: bool = True
    log_form: bool = False
    radial: bool = False
    separable: bool = False
    white: bool = False
    mixture: bool = False
    merges: bool = False
    categorical: bool = False
    coded: bool = False
    uses_inputs: bool = True
    form: Form = "node"
    outside_networks: str = ""
    simpler: str = ""
    centred: str = ""
    unit_rule: UnitRule | None = None
    module: str = ""

    def __post_init__(self) -> None:
        if not self.parameters or self.parameters[0].name != "variance":
            raise KernelError(f"the first parameter of a base kernel is its variance; {self.symbol} has none there")
        if self.coded and not (self.mixture and self.categorical):
            raise KernelError(f"{self.symbol} is coded, so it is for categories and has components")
        if self.radial and "lengthscale" not in (p.name for p in self.parameters):
            raise KernelError(f"{self.symbol} is radial, so it needs a parameter 'lengthscale'")

    def isotropic_parameters(self) -> tuple[ParameterSpec, ...]:
        """Return the parameters with one lengthscale for all dimensions."""
        return tuple(replace(p, shape="one") if p.name == "lengthscale" else p for p in self.parameters)

    def has(self, name: str) -> bool:
        """Tell whether there is a parameter of that name."""
        return any(p.name == name for p in self.parameters)


VARIANCE = ParameterSpec("variance", Positive(), "one", "variance")
LENGTHSCALE = ParameterSpec("lengthscale", Positive(), "per dimension", "length")
PERIOD = ParameterSpec("period", Positive(), "per dimension", "length")
# The width of a bump within one period: a pure number, so it stays when the inputs change their unit.
ROUGHNESS = ParameterSpec("lengthscale", Positive(), "per dimension", "none")
ALPHA = ParameterSpec("alpha", Positive(), "one", "none", limits=(0.1, 300.0))
OFFSET = ParameterSpec("offset", Real(), "per dimension", "position")
# Only the ratio of the slopes: the variance carries their common size (identifiable, unlike one slope per dimension).
RELEVANCE = ParameterSpec("weights", Simplex(), "per dimension", "none")
ORIGIN = ParameterSpec("origin", Real(), "per dimension", "position", anchored=True)
FREQUENCY = ParameterSpec("frequency", Real(), "per dimension", "frequency")
# One for all pairs of categories. Below zero not all numbers of categories would give a kernel (it must not be below
# -1 / (K - 1) for K of them), and what a common level takes away makes up for it.
CORRELATION = ParameterSpec(
    "correlation", Share(), "per dimension", "none", typical=(0.2, 0.8), limits=(0.002, 0.998)
)  # fmt: skip
# Of all categories but the first, whose place is zero: only distances count.
PLACES = ParameterSpec("places", Real(), "per component", "none", limits=(-6.0, 6.0))
MIXTURE_WEIGHTS = ParameterSpec("weights", Simplex(), "per component", "none")
MIXTURE_FREQUENCY = ParameterSpec("frequency", Real(), "per component and dimension", "frequency")
MIXTURE_BANDWIDTH = ParameterSpec("bandwidth", Positive(), "per component and dimension", "frequency")

# ------------------------------------------------------------------------------------------------- radial kernels

SE = Leaf(
    "SE", "squared exponential", (VARIANCE, LENGTHSCALE),
    formula="v exp(−d² / 2l²)", tex=r"\sigma^2 \exp(-r^2 / 2)",
    log_form=True, radial=True, separable=True, merges=True,
    words=Words(
        "a smooth function", "fading", 100,
        noun="a smooth function", title="Smooth variation", verb="changes smoothly",
        correlation=lambda r, _: math.exp(-(r**2) / 2),
    ),
)  # fmt: skip

RQ = Leaf(
    "RQ", "rational quadratic", (VARIANCE, LENGTHSCALE, ALPHA),
    formula="v (1 + d² / 2αl²)^(−α)", tex=r"\sigma^2 (1 + r^2 / 2\alpha)^{-\alpha}",
    log_form=True, radial=True, simpler="SE",
    words=Words(
        "a function of many scales", "fading", 90,
        noun="a function", title="Variation on many scales", verb="changes on many scales",
        varying="varying on many scales, typically", over=", typically", scales=" on many scales",
        correlation=lambda r, alpha: (1 + r**2 / (2 * alpha)) ** -alpha,
    ),
)  # fmt: skip

M12 = Leaf(
    "M12", "Matern 1/2", (VARIANCE, LENGTHSCALE),
    formula="v exp(−d / l)", tex=r"\sigma^2 \exp(-r)",
    log_form=True, radial=True,
    words=Words(
        "a rough function", "fading", 60,
        noun="an erratic function", title="Erratic variation", verb="changes erratically",
        varying="its values forgotten over", over=", forgotten over", wanders="value",
        correlation=lambda r, _: math.exp(-r),
    ),
)  # fmt: skip

M32 = Leaf(
    "M32", "Matern 3/2", (VARIANCE, LENGTHSCALE),
    formula="v (1 + √3 d / l) exp(−√3 d / l)", tex=r"\sigma^2 (1 + \sqrt{3} r) \exp(-\sqrt{3} r)",
    log_form=True, radial=True,
    words=Words(
        "a function with one derivative", "fading", 70,
        noun="a moderately rough function", title="Moderately rough variation", verb="changes somewhat roughly",
        wanders="slope",
        correlation=lambda r, _: (1 + math.sqrt(3) * r) * math.exp(-math.sqrt(3) * r),
    ),
)  # fmt: skip

M52 = Leaf(
    "M52", "Matern 5/2", (VARIANCE, LENGTHSCALE),
    formula="v (1 + √5 d / l + 5d² / 3l²) exp(−√5 d / l)",
    tex=r"\sigma^2 (1 + \sqrt{5} r + 5 r^2 / 3) \exp(-\sqrt{5} r)",
    log_form=True, radial=True,
    words=Words(
        "a function with two derivatives", "fading", 80,
        noun="a fairly smooth function", title="Fairly smooth variation", verb="changes fairly smoothly",
        correlation=lambda r, _: (1 + math.sqrt(5) * r + 5 / 3 * r**2) * math.exp(-math.sqrt(5) * r),
    ),
)  # fmt: skip

# ---------------------------------------------------------------------------------------------------------- waves

PER = Leaf(
    "PER", "periodic", (VARIANCE, PERIOD, ROUGHNESS),
    formula="v exp(−2 sin²(π d / p) / l²)", tex=r"\sigma^2 \exp(-2 \sin^2(\pi d / p) / l^2)",
    log_form=True, separable=True, centred="CPER",
    words=Words("a periodic function", "wave", 10),
)  # fmt: skip

CPER = Leaf(
    "CPER", "centred periodic", (VARIANCE, PERIOD, ROUGHNESS),
    formula="v (exp(cos(2π d / p) / l²) − I₀(1/l²)) / (exp(1/l²) − I₀(1/l²))",
    tex=r"\sigma^2 \frac{\exp(\cos(2 \pi d / p) / l^2) - I_0(1 / l^2)}{\exp(1 / l^2) - I_0(1 / l^2)}",
    form="per column",
    words=Words("a periodic function around zero", "wave", 20),
)  # fmt: skip

COS = Leaf(
    "COS", "cosine", (VARIANCE, FREQUENCY),
    formula="v cos(2π f d), f the frequency", tex=r"\sigma^2 \cos(2 \pi f d)",
    words=Words("a pure wave", "wave", 30),
)  # fmt: skip

SM = Leaf(
    "SM", "spectral mixture", (VARIANCE, MIXTURE_WEIGHTS, MIXTURE_FREQUENCY, MIXTURE_BANDWIDTH),
    formula="v Σ w exp(−2π² b² d²) cos(2π f d), f the frequencies, b the bandwidths",
    tex=r"\sigma^2 \sum_q w_q \exp(-2 \pi^2 b_q^2 d^2) \cos(2 \pi f_q d)",
    mixture=True, form="mixture",
    words=Words("a mixture of fading waves", "wave", 40),
)  # fmt: skip

# -------------------------------------------------------------------------------------- lines, constants and noise

LIN = Leaf(
    "LIN", "linear", (VARIANCE, OFFSET, RELEVANCE),
    formula="v (x − c)(x′ − c), c the offset", tex=r"\sigma^2 (x - c)(x' - c)",
    stationary=False, unit_rule=line_in_other_units,
    words=Words("a linear function", "trend", 50),
)  # fmt: skip

C = Leaf(
    "C", "constant", (VARIANCE,),
    formula="v", tex=r"\sigma^2",
    uses_inputs=False, form="constant",
    words=Words("a constant", "constant", 110),
)  # fmt: skip

WN = Leaf(
    "WN", "white noise", (VARIANCE,),
    formula="v where x = x′, else 0", tex=r"\sigma^2 [x = x']",
    separable=True, white=True, categorical=True,
    words=Words("uncorrelated noise", "noise", 0),
)  # fmt: skip

# ----------------------------------------------------------------------------------------------------------- walks

RW = Leaf(
    "RW", "random walk", (VARIANCE, ORIGIN),
    formula="v (|a| + |b| − |a − b|) / 2, a = x − o, b = x′ − o, o the origin",
    tex=r"\sigma^2 (|a| + |b| - |a - b|) / 2",
    stationary=False, form="per column", unit_rule=walk_in_other_units(1),
    words=Words("a random walk: the level wanders", "walk", 55, wanders="value"),
)  # fmt: skip

IRW = Leaf(
    "IRW", "integrated random walk", (VARIANCE, ORIGIN),
    formula="v m² (3M − m) / 6, m and M the smaller and the larger of |x − o| and |x′ − o|; 0 across the origin o",
    tex=r"\sigma^2 m^2 (3 M - m) / 6",
    stationary=False, form="per column", unit_rule=walk_in_other_units(3),
    words=Words("an integrated random walk: the slope wanders", "walk", 57, wanders="slope"),
)  # fmt: skip

IOU = Leaf(
    "IOU", "integrated Ornstein-Uhlenbeck process", (VARIANCE, LENGTHSCALE, ORIGIN),
    formula="v l² (h(|a|/l) + h(|b|/l) − h(|a − b|/l)), h(t) = exp(−t) − 1 + t, a = x − o, b = x′ − o, o the origin",
    tex=r"\sigma^2 l^2 (h(|a|/l) + h(|b|/l) - h(|a - b|/l)), \; h(t) = e^{-t} - 1 + t",
    stationary=False, form="per column", unit_rule=walk_in_other_units(2),
    words=Words("a damped trend: the slope fades", "walk", 58, wanders="fading slope"),
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------ categories

CAT = Leaf(
    "CAT", "categories", (VARIANCE, CORRELATION),
    formula="v where x = x′, else v ρ, ρ the correlation", tex=r"\sigma^2 (\rho + (1 - \rho) [x = x'])",
    separable=True, merges=True, categorical=True, form="per column",
    words=Words("a value for each category", "levels", 105),
)  # fmt: skip

ECAT = Leaf(
    "ECAT", "categories at places", (VARIANCE, PLACES),
    formula="v exp(−(u − u′)² / 2), u the place of a category, 0 of the first",
    tex=r"\sigma^2 \exp(-(u_x - u_{x'})^2 / 2)",
    stationary=False, log_form=True, mixture=True, categorical=True, coded=True,
    words=Words("a value for each category, some more alike than others", "levels", 104),
)  # fmt: skip

# ------------------------------------------------------------------------------------------- primitives of networks

EXPI = Leaf(
    "EXPI", "complex wave", (VARIANCE, FREQUENCY),
    formula="v exp(2πi f d), f the frequency; the real part is taken at the end", tex=r"\sigma^2 e^{2 \pi i f d}",
    form="complex", outside_networks="use COS, its real part",
    words=Words("a complex wave", "wave", 120),
)  # fmt: skip

SUMI = Leaf(
    "SUMI", "standing wave", (VARIANCE, FREQUENCY, OFFSET),
    formula="v cos(2π f (x − c)) cos(2π f (x′ − c)), f the frequency, c the offset",
    tex=r"\sigma^2 \cos(2 \pi f (x - c)) \cos(2 \pi f (x' - c))",
    stationary=False, outside_networks="NKN(SUMI, Linear1) is one",
    words=Words("a standing wave", "wave", 130),
)  # fmt: skip


class Records(dict[str, Leaf]):
    """Base kernels by symbol; an unknown symbol is an error that names those there are."""

    def __missing__(self, symbol: str) -> Leaf:
        raise KernelError(f"there is no base kernel '{symbol}'; there are {', '.join(REGISTRY)}")


# All base kernels by symbol, and those that are kernels of their own: both are read, and only `add` and `remove` below
# change them.
OWN = (SE, PER, CPER, LIN, RQ, C, WN, M12, M32, M52, COS, SM, RW, IRW, IOU, CAT, ECAT, EXPI, SUMI)
LEAVES = Records({leaf.symbol: leaf for leaf in OWN})
REGISTRY: dict[str, Leaf] = {symbol: leaf for symbol, leaf in LEAVES.items() if not leaf.outside_networks}
RESERVED = ("NKN", "KF", "CP", "CW", "BLEND", "fixed")


def positive_kernels() -> Iterator[str]:
    """Yield the symbols of base kernels above zero everywhere and one at distance zero: those a functional may take."""
    return (symbol for symbol, leaf in REGISTRY.items() if leaf.log_form)


def add(leaf: Leaf) -> None:
    """Enter a base kernel from outside; `mercer.compute.leaves.register` does, together with its functions."""
    if leaf.symbol in LEAVES or leaf.symbol in RESERVED:
        raise KernelError(f"there is a kernel '{leaf.symbol}' already")
    if not leaf.symbol.isidentifier():
        raise KernelError(f"a symbol is a name such as WEN, not {leaf.symbol!r}")
    if leaf.form != "node" or leaf.mixture or not leaf.uses_inputs:
        raise KernelError(f"{leaf.symbol}: a base kernel from outside is one function of a pair of points")
    LEAVES[leaf.symbol] = REGISTRY[leaf.symbol] = leaf


def remove(symbol: str) -> None:
    """Take out a base kernel that was entered from outside."""
    if not LEAVES[symbol].module:
        raise KernelError(f"{symbol} belongs to Mercer and stays")
    del LEAVES[symbol], REGISTRY[symbol]
