"""The kernel of one pair of points, straight from the formulas, one number at a time: what every back end must equal.

It walks the expression itself and knows nothing of programs, tensors or gradients. Slow on purpose.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.kernels.blend import Blend, Surface
from mercer.kernels.expression import Base, Expression, Product, Sum
from mercer.kernels.functional import Functional
from mercer.kernels.layers import Exponential, Layer, Linear, Multiply
from mercer.kernels.network import Network

# Formulas of base kernels that tests add from outside the package.
OUTSIDE: dict[str, Callable[[dict[str, list[float]], list[float], list[float]], float]] = {}


def slow_gram(expression: Expression, X: ArrayLike, Z: ArrayLike | None = None) -> NDArray[np.float64]:
    left = np.asarray(X, dtype=float)
    right = left if Z is None else np.asarray(Z, dtype=float)
    return np.array([[slow_kernel(expression, x, z) for z in right.tolist()] for x in left.tolist()])


def slow_kernel(expression: Expression, x: Sequence[float], z: Sequence[float]) -> float:
    if isinstance(expression, Sum):
        return math.fsum(slow_kernel(term, x, z) for term in expression.terms)
    if isinstance(expression, Product):
        return math.prod(slow_kernel(factor, x, z) for factor in expression.factors)
    if isinstance(expression, Network):
        return slow_units(expression, x, z)[-1][0].real
    if isinstance(expression, Blend):
        s, t = (slow_shares(expression.surface, point) for point in (x, z))
        kernels = (0.0 if part is None else slow_kernel(part, x, z) for part in expression.parts)
        return math.fsum(a * k * b for a, k, b in zip(s, kernels, t, strict=True))
    if isinstance(expression, Functional):
        inside = slow_kernel(expression.inside, x, z)
        variance = slow_kernel(expression.inside, x, x)  # every kernel inside is one at distance zero
        series = zip(expression.weights, expression.powers, strict=True)
        return variance * math.fsum(w * (inside / variance) ** p for w, p in series)
    assert isinstance(expression, Base)
    parameters = {p.name: list(p.values or ()) for p in expression.parameters}
    if expression.isotropic:
        ratios = expression.ratios or (1.0,) * len(expression.dims or ())
        parameters["lengthscale"] = [parameters["lengthscale"][0] * ratio for ratio in ratios]
    dims = [d for d in expression.dims or () if isinstance(d, int)]
    xs, zs = [x[d] for d in dims], [z[d] for d in dims]
    return parameters["variance"][0] * _unit(expression.symbol, parameters, xs, zs)


def slow_shares(surface: Surface, point: Sequence[float]) -> list[float]:
    """How much each regime holds at a point (METHODS 9)."""
    p = {parameter.name: list(parameter.values or ()) for parameter in surface.parameters}
    x = [point[d] for d in surface.columns]
    n, regimes = len(x), surface.regimes
    if surface.kind == "CP":
        passed = [_logistic((x[0] - p["location"][k]) / p["width"][k]) for k in range(regimes - 1)]
        return [math.prod(passed[:i]) * (1 - passed[i] if i < regimes - 1 else 1.0) for i in range(regimes)]
    if surface.kind == "CW":
        start, duration, width = p["start"][0], p["duration"][0], p["width"][0]
        inside = _logistic((x[0] - start) / width) * _logistic((start + duration - x[0]) / width)
        return [1 - inside, inside]
    functions = [0.0]
    for i in range(regimes - 1):
        if surface.kind == "linear":
            functions.append(_dot(p["slope"][i * n : (i + 1) * n], x) + p["bias"][i])
            continue
        total = 0.0
        for j in range(i * surface.features, (i + 1) * surface.features):
            if surface.kind == "rks":
                wave = math.cos(2 * math.pi * _dot(p["frequency"][j * n : (j + 1) * n], x) + p["phase"][j])
                total += p["amplitude"][j] * wave
            else:
                away = zip(x, p["centres"][j * n : (j + 1) * n], p["lengthscale"], strict=True)
                total += p["weights"][j] * math.exp(-sum((a - c) ** 2 / (2 * l**2) for a, c, l in away))
        functions.append(total)
    most = max(functions)
    whole = sum(math.exp(w - most) for w in functions)
    return [math.exp(w - most) / whole for w in functions]


def _logistic(t: float) -> float:
    return 1 / (1 + math.exp(-t)) if t > 0 else math.exp(t) / (1 + math.exp(t))


def slow_units(network: Network, x: Sequence[float], z: Sequence[float]) -> list[list[complex]]:
    """Every unit of every layer, the primitives first."""
    layers = [[_primitive(part, x, z) for part in network.primitives]]
    for layer in network.layers:
        layers.append(_slow_layer(layer, layers[-1]))
    return layers


def _slow_layer(layer: Layer, below: list[complex]) -> list[complex]:
    if isinstance(layer, Linear):
        weights, bias = (list(p.values or ()) for p in layer.parameters)
        n = layer.inputs
        return [_dot_complex(weights[u * n : (u + 1) * n], below) + bias[u] for u in range(layer.width)]
    if isinstance(layer, Multiply):
        return [math.prod(below[u * layer.step : (u + 1) * layer.step], start=1 + 0j) for u in range(layer.width)]
    if isinstance(layer, Exponential):
        return [cmath.exp(u) for u in below]
    return [sum((c * u**power for power, c in enumerate(layer.coefficients)), start=0j) for u in below]


def _primitive(part: Expression, x: Sequence[float], z: Sequence[float]) -> complex:
    if not isinstance(part, Base) or part.symbol not in ("EXPI", "SUMI"):
        return complex(slow_kernel(part, x, z))
    p = {parameter.name: list(parameter.values or ()) for parameter in part.parameters}
    xs, zs = ([point[d] for d in part.columns] for point in (x, z))
    if part.symbol == "EXPI":
        tau = [a - b for a, b in zip(xs, zs, strict=True)]
        return p["variance"][0] * cmath.exp(2j * math.pi * _dot(p["frequency"], tau))
    sides = (math.cos(2 * math.pi * sum(map(_phase, p["frequency"], side, p["offset"]))) for side in (xs, zs))
    return complex(p["variance"][0] * math.prod(sides))


def _phase(frequency: float, x: float, offset: float) -> float:
    return frequency * (x - offset)


def _dot_complex(a: list[float], b: list[complex]) -> complex:
    return sum((ai * bi for ai, bi in zip(a, b, strict=True)), start=0j)


def _unit(symbol: str, p: dict[str, list[float]], xs: list[float], zs: list[float]) -> float:
    """The base kernel of variance one (METHODS 1)."""
    if symbol in OUTSIDE:
        return OUTSIDE[symbol](p, xs, zs)
    if symbol == "C":
        return 1.0
    if symbol == "WN":
        return float(xs == zs)
    if symbol == "CAT":
        return math.prod(1.0 if x == z else rho for x, z, rho in zip(xs, zs, p["correlation"], strict=True))
    if symbol == "ECAT":
        if xs == zs:
            return 1.0
        places = [0.0, *p["places"]]
        at = [places[int(x)] if x in range(len(places)) else None for x in (xs[0], zs[0])]
        u, w = (0.0 if place is None else place for place in at)
        return math.exp(-((u - w) ** 2 + sum(place is None for place in at)) / 2)
    if symbol == "LIN":
        terms = zip(p["weights"], p["offset"], xs, zs, strict=True)
        return sum(w * (x - c) * (z - c) for w, c, x, z in terms)
    if symbol in WALKS:
        lengths = p.get("lengthscale", [1.0] * len(xs))
        from_origin = [(x - o, z - o) for x, z, o in zip(xs, zs, p["origin"], strict=True)]
        return math.prod(WALKS[symbol](a, b, l) for (a, b), l in zip(from_origin, lengths, strict=True))
    d = [x - z for x, z in zip(xs, zs, strict=True)]
    if symbol == "COS":
        return math.cos(2 * math.pi * _dot(p["frequency"], d))
    if symbol == "SM":
        return _mixture(p, d)
    if symbol in ("PER", "CPER"):
        one = _periodic if symbol == "PER" else _centred_periodic
        return math.prod(map(one, d, p["period"], p["lengthscale"]))
    square = sum((di / li) ** 2 for di, li in zip(d, p["lengthscale"], strict=True))
    if symbol == "SE":
        return math.exp(-square / 2)
    if symbol == "RQ":
        alpha = p["alpha"][0]
        return (1 + square / (2 * alpha)) ** -alpha
    r = math.sqrt(square)
    if symbol == "M12":
        return math.exp(-r)
    if symbol == "M32":
        return (1 + math.sqrt(3) * r) * math.exp(-math.sqrt(3) * r)
    if symbol == "M52":
        return (1 + math.sqrt(5) * r + 5 * square / 3) * math.exp(-math.sqrt(5) * r)
    raise NotImplementedError(f"write the formula of {symbol} here, beside its entry in the registry")


def _walk(a: float, b: float, _: float) -> float:
    return min(abs(a), abs(b)) if a * b > 0 else 0.0


def _integrated_walk(a: float, b: float, _: float) -> float:
    m, apart = min(abs(a), abs(b)), abs(a - b)
    return m**3 / 3 + apart * m**2 / 2 if a * b > 0 else 0.0


def _damped_trend(a: float, b: float, l: float) -> float:
    """The double integral of exp(-|u - w| / l) over 0..a and 0..b: over the square up to the nearer, and beyond it."""
    near, far = sorted((abs(a) / l, abs(b) / l))
    if a * b <= 0:
        return -(l**2) * math.expm1(-near) * math.expm1(-far)
    if near > 1:  # the series has terms that are larger than its sum, and would lose digits
        square = 2 * (near + math.expm1(-near))
    else:
        square = 2 * math.fsum((-near) ** k / math.factorial(k) for k in range(2, 30))
    return l**2 * (square + math.expm1(-near) * math.expm1(near - far))


WALKS = {"RW": _walk, "IRW": _integrated_walk, "IOU": _damped_trend}


def _periodic(d: float, period: float, lengthscale: float) -> float:
    return math.exp(-2 * math.sin(math.pi * d / period) ** 2 / lengthscale**2)


def _centred_periodic(d: float, period: float, lengthscale: float) -> float:
    """PER less its mean over a period, over one less that mean: here 1 - (1 - PER) / (1 - mean), to lose no digits."""
    below_one = -math.expm1(-2 * math.sin(math.pi * d / period) ** 2 / lengthscale**2)
    return 1 - below_one / _one_less_mean(lengthscale)


@lru_cache
def _one_less_mean(lengthscale: float) -> float:
    """1 - I0(q) exp(-q), q = 1 / l^2, as the mean over equal steps of a period: exact to rounding for these many."""
    steps = 100 + math.ceil(20 / lengthscale)
    return (
        -math.fsum(math.expm1(-2 * math.sin(math.pi * i / steps) ** 2 / lengthscale**2) for i in range(steps)) / steps
    )


def _mixture(p: dict[str, list[float]], d: list[float]) -> float:
    total, n = 0.0, len(d)
    for q, weight in enumerate(p["weights"]):
        frequency, bandwidth = p["frequency"][q * n : (q + 1) * n], p["bandwidth"][q * n : (q + 1) * n]
        fading = sum((b * di) ** 2 for b, di in zip(bandwidth, d, strict=True))
        total += weight * math.exp(-2 * math.pi**2 * fading) * math.cos(2 * math.pi * _dot(frequency, d))
    return total


def _dot(a: list[float], b: list[float]) -> float:
    return sum(ai * bi for ai, bi in zip(a, b, strict=True))


def difference(function: Callable[[float], float], step: float) -> float:
    """The slope at zero with an error of order step^8: periodic kernels change some hundred times over a period."""
    across = [function(k * step) - function(-k * step) for k in (1, 2, 3, 4)]
    return float(np.dot([4 / 5, -1 / 5, 4 / 105, -1 / 280], across)) / step
