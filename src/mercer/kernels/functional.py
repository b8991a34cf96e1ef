"""A kernel without a formula of its own: a learned function of another kernel's values (KFO, METHODS 8).

    K(x, x') = v sum_k w_k u(x, x')^(p_k),   u the unit function of the kernel inside, 0 < u <= 1, v its variance

A kernel of the hyper-RKHS of a harmonic hyperkernel on u is such a series: kappa(u, c) = (1 - h) / (1 - h c u) is
(1 - h) sum_n (h c)^n u^n, and K = sum_i alpha_i kappa(., c_i) adds such series up. Every power of u is a kernel, on any
number of columns; with no weight below zero so is their sum. With weights below zero it is one where its spectral
density is nowhere below zero, which can be told of powers of SE and PER. Elsewhere they make it a difference of two
kernels (Krein): no covariance, but an SVM can use it after the spectrum of its Gram matrix is clipped.

The cost of a pair of points is that of the kernel inside and of a few multiplications: the grid is long forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from mercer.errors import KernelError
from mercer.kernels.expression import Base, Expression, Product, Style, as_tuple, find_all, is_whole
from mercer.kernels.leaf import positive_kernels

if TYPE_CHECKING:
    from mercer.kernels.text import Parser

MOST_POWERS = 64
HIGHEST_POWER = 4096
DENSITY_STEPS = 400  # frequencies where a density is looked at, in even ratios
DENSITY_ROUNDING = 1e-6  # of what is added up there: weights are kept to eight digits


@dataclass(frozen=True, slots=True, repr=False)
class Functional(Expression):
    """A series of powers of a kernel above zero (a base kernel or a product of such); build it with `KF`.

    powers : whole numbers from 0, each once, in order. weights : one for each; `definite` tells whether it is a kernel.
    The variance and the lengthscales are those of the kernel inside.
    """

    inside: Expression
    powers: tuple[int, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        factors = self.inside.factors if isinstance(self.inside, Product) else (self.inside,)
        if not all(isinstance(f, Base) and f.spec.log_form for f in factors):
            raise KernelError(
                f"KF takes a kernel that is above zero everywhere ({', '.join(positive_kernels())}, or a product of "
                f"them), not {self.inside!r:.80}"
            )
        powers, weights = self.powers, self.weights
        fits = isinstance(powers, tuple) and isinstance(weights, tuple) and len(powers) == len(weights)
        if not fits or not 1 <= len(powers) <= MOST_POWERS:
            raise KernelError(
                f"KF has 1 to {MOST_POWERS} powers and as many weights, not {powers!r:.50}, {weights!r:.50}"
            )
        whole = all(is_whole(p) and 0 <= p <= HIGHEST_POWER for p in powers)
        if not whole or any(b <= a for a, b in pairwise(powers)):
            raise KernelError(
                f"powers of KF are whole numbers from 0 to {HIGHEST_POWER}, rising, not {list(powers)!r:.80}"
            )
        if not all(math.isfinite(w) for w in weights) or not any(weights):
            raise KernelError(f"the weights of KF are finite numbers, not all zero, not {list(weights)!r:.80}")

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.inside,)

    def with_children(self, children: Sequence[Expression]) -> Expression:
        (inside,) = children
        return replace(self, inside=inside)

    def find_carrier(self, start: int, held: set[int]) -> tuple[int, int | None]:
        return self.inside.find_carrier(start, held)

    def write(self, style: Style) -> str:
        weights = ", ".join(map(style.numbers, zip(self.weights)))
        powers = ", ".join(map(str, self.powers))
        return f"KF({self.inside.write(style)}, powers=[{powers}], weights=[{weights}])"

    def to_node(self) -> dict[str, Any]:
        data = {"inside": self.inside.to_node(), "powers": list(self.powers), "weights": list(self.weights)}
        return {"functional": data}

    @property
    def definite(self) -> bool:
        """Whether it is a kernel for sure, whatever its parameters are."""
        dimensions = count_dimensions(self.inside)
        return min(self.weights) >= 0.0 or (
            dimensions is not None and has_density(self.powers, self.weights, dimensions)
        )

    def shape(self, unit: float) -> float:
        """Return K / v where the kernel inside is `unit` times its variance."""
        return math.fsum(w * unit**p for w, p in zip(self.weights, self.powers, strict=True))


def functional(inside: Expression, powers: Sequence[float], weights: float | Sequence[float]) -> Functional:
    """Build a functional from what a user, a parser or a file gives."""
    if not isinstance(inside, Expression):
        raise KernelError(f"KF takes a kernel such as M32(0), not {inside!r:.80}")
    try:
        whole = tuple(int(p) if float(p).is_integer() else p for p in powers)
    except (TypeError, ValueError, OverflowError):
        raise KernelError(f"the powers of KF are a list of whole numbers, not {powers!r:.80}") from None
    return Functional(inside, whole, as_tuple(weights))  # type: ignore[arg-type]  # the node refuses fractions


def count_dimensions(inside: Expression) -> int | None:
    """Return in how many dimensions a kernel is SE of a distance; None where it is not.

    PER is: exp(-2 sin^2(pi (x - x') / p) / l^2) is SE between points of a circle in the plane. A product of such is SE
    of all their coordinates.
    """
    if isinstance(inside, Product):
        counts = [count_dimensions(factor) for factor in inside.factors]
        return sum(c for c in counts if c is not None) if None not in counts else None
    circles = {"SE": 1, "PER": 2}.get(inside.symbol) if isinstance(inside, Base) else None
    return circles * len(inside.dims) if circles and isinstance(inside, Base) and inside.dims else None


def has_density(powers: Sequence[int], weights: Sequence[float], dimensions: int) -> bool:
    """Tell whether a series of powers of SE has a spectral density that is nowhere below zero (Bochner).

    That of u^p is p^(-D/2) exp(-t / p), t half the squared frequency; what counts is the sum of them at any t, against
    the sum of their sizes there. The power zero is a constant, and has all of its density at frequency zero.
    """
    parts = [(p, w * p ** (-dimensions / 2)) for p, w in zip(powers, weights, strict=True) if p > 0]
    if any(w < 0 for p, w in zip(powers, weights, strict=True) if p == 0) or not parts:
        return False
    low, high = parts[0][0], parts[-1][0]
    steps = (low * 1e-3 * (1e6 * high / low) ** (i / DENSITY_STEPS) for i in range(DENSITY_STEPS + 1))
    for t in (0.0, *steps):
        terms = [a * math.exp(-t / p + t / high) for p, a in parts]  # the last one stays: none underflows with it
        if math.fsum(terms) < -DENSITY_ROUNDING * math.fsum(map(abs, terms)):
            return False
    return True


def is_definite(expression: Expression) -> bool:
    """Tell whether all functionals in a kernel are kernels for sure."""
    return all(each.definite for each in find_all(expression, Functional))


def parse_functional(parser: Parser, start: int) -> Expression:
    """Read what follows the word KF."""
    parser.expect("(", "after KF, then a kernel, powers and weights: KF(M32(0), powers=[1, 3], weights=[0.4, 0.6])")
    inside = parser.product()
    given: dict[str, tuple[float, ...]] = {}
    while parser.accept(","):
        before, name = parser.position, parser.keyword()
        if name not in ("powers", "weights") or name in given:
            raise parser.fail("expected powers=[...] and weights=[...], once each", before)
        given[name] = parser.numbers()
    parser.expect(")", "to close KF(")
    if len(given) != 2:
        raise parser.fail("KF needs powers=[...] and weights=[...]", start)
    return parser.check(lambda: functional(inside, given["powers"], given["weights"]), start)


def functional_from_node(data: Any, read: Callable[[Any], Expression]) -> Functional:
    """Read it back; where it does not fit, also with Python's errors, which the caller translates."""
    if not isinstance(data["powers"], list) or not isinstance(data["weights"], list):
        raise TypeError("powers and weights are lists")
    return functional(read(data["inside"]), data["powers"], data["weights"])
