"""The registry of base kernels: what each one is called, which parameters it has, and what it says.

The formulas themselves are evaluated in `mercer.compute`. Every base kernel is variance times a unit function; with
d = x - x' on one dimension and sums over the chosen dimensions where there are several (METHODS: one lengthscale each):

    SE    exp(-d^2 / 2 l^2)                                    M12  exp(-r), r^2 = sum d^2 / l^2
    PER   exp(-2 sin^2(pi d / p) / l^2)                        M32  (1 + sqrt3 r) exp(-sqrt3 r)
    CPER  PER less its mean over a period, scaled to 1 at 0    M52  (1 + sqrt5 r + 5 r^2 / 3) exp(-sqrt5 r)
    LIN   sum_d w_d (x_d - c_d)(x'_d - c_d)                    COS  cos(2 pi f.d)
    RQ    (1 + r^2 / 2a)^(-a)                                  WN   [x = x']
    C     1
    SM    sum_q w_q exp(-2 pi^2 sum_d b_qd^2 d^2) cos(2 pi f_q.d)

Two more are units of a neural kernel network only (NKN 3.1 and appendix G):

    EXPI  exp(2 pi i f.d), complex                             SUMI  cos(2 pi f.(x - c)) cos(2 pi f.(x' - c))

Appendix G multiplies by exp(i (x + x').nu) and by its conjugate, which is 2 cos(nu.(x + x')). That is not a kernel, not
even as a factor: on the diagonal it is negative wherever cos(2 nu.x) is. With the stationary terms that complete the
square it is one, cos(nu.(x + x')) + cos(nu.(x - x')) = 2 cos(nu.x) cos(nu.x'): this is SUMI.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mercer.kernels.domains import Domain, Positive, Real, Simplex

Shape = Literal["one", "per dimension", "per component", "per component and dimension"]
Unit = Literal["variance", "length", "frequency", "position", "none"]


@dataclass(frozen=True)
class ParameterSpec:
    """Name, domain, shape and physical unit of one parameter."""

    name: str
    domain: Domain
    shape: Shape
    unit: Unit

    def size(self, dimensions: int, components: int) -> int:
        """Return how many values the parameter has on this many dimensions and components."""
        return {
            "one": 1,
            "per dimension": dimensions,
            "per component": components,
            "per component and dimension": components * dimensions,
        }[self.shape]


@dataclass(frozen=True)
class BaseSpec:
    """What a base kernel is, apart from its formula."""

    symbol: str
    name: str
    parameters: tuple[ParameterSpec, ...]
    stationary: bool
    spectral: bool
    words: str
    uses_inputs: bool = True
    mixture: bool = False


VARIANCE = ParameterSpec("variance", Positive(), "one", "variance")
LENGTHSCALE = ParameterSpec("lengthscale", Positive(), "per dimension", "length")
PERIOD = ParameterSpec("period", Positive(), "per dimension", "length")
# The width of a bump within one period: a pure number, so it stays when the inputs change their unit.
ROUGHNESS = ParameterSpec("lengthscale", Positive(), "per dimension", "none")
ALPHA = ParameterSpec("alpha", Positive(), "one", "none")
OFFSET = ParameterSpec("offset", Real(), "per dimension", "position")
# Only the ratio of the slopes: the variance carries their common size (identifiable, unlike one slope per dimension).
RELEVANCE = ParameterSpec("weights", Simplex(), "per dimension", "none")
FREQUENCY = ParameterSpec("frequency", Real(), "per dimension", "frequency")
MIXTURE_WEIGHTS = ParameterSpec("weights", Simplex(), "per component", "none")
MIXTURE_FREQUENCY = ParameterSpec("frequency", Real(), "per component and dimension", "frequency")
MIXTURE_BANDWIDTH = ParameterSpec("bandwidth", Positive(), "per component and dimension", "frequency")

_SPECS = (
    BaseSpec("SE", "squared exponential", (VARIANCE, LENGTHSCALE), True, True, "a smooth function"),
    BaseSpec("PER", "periodic", (VARIANCE, PERIOD, ROUGHNESS), True, True, "a periodic function"),
    BaseSpec("CPER", "centred periodic", (VARIANCE, PERIOD, ROUGHNESS), True, True, "a periodic function around zero"),
    BaseSpec("LIN", "linear", (VARIANCE, OFFSET, RELEVANCE), False, False, "a linear function"),
    BaseSpec("RQ", "rational quadratic", (VARIANCE, LENGTHSCALE, ALPHA), True, True, "a function of many scales"),
    BaseSpec("C", "constant", (VARIANCE,), True, False, "a constant", uses_inputs=False),
    BaseSpec("WN", "white noise", (VARIANCE,), True, False, "uncorrelated noise"),
    BaseSpec("M12", "Matern 1/2", (VARIANCE, LENGTHSCALE), True, True, "a rough function"),
    BaseSpec("M32", "Matern 3/2", (VARIANCE, LENGTHSCALE), True, True, "a function with one derivative"),
    BaseSpec("M52", "Matern 5/2", (VARIANCE, LENGTHSCALE), True, True, "a function with two derivatives"),
    BaseSpec("COS", "cosine", (VARIANCE, FREQUENCY), True, True, "a pure wave"),
    BaseSpec(
        "SM",
        "spectral mixture",
        (VARIANCE, MIXTURE_WEIGHTS, MIXTURE_FREQUENCY, MIXTURE_BANDWIDTH),
        True,
        True,
        "a mixture of fading waves",
        mixture=True,
    ),
)

REGISTRY: dict[str, BaseSpec] = {spec.symbol: spec for spec in _SPECS}

_NETWORK_SPECS = (
    BaseSpec("EXPI", "complex wave", (VARIANCE, FREQUENCY), True, True, "a complex wave"),
    BaseSpec("SUMI", "standing wave", (VARIANCE, FREQUENCY, OFFSET), False, False, "a standing wave"),
)
NETWORK_ONLY: dict[str, BaseSpec] = {spec.symbol: spec for spec in _NETWORK_SPECS}
SPECS = REGISTRY | NETWORK_ONLY
