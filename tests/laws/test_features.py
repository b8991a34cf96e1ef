"""Laws of random features: unbiased for every sum and product, and an error that falls as one over the root of m."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from mercer.compute import fused
from mercer.compute.leaves import SPECTRA
from mercer.compute.program import compile_program
from mercer.compute.spectral import Features, draw_features
from mercer.kernels import LIN, M12, M52, PER, RQ, SE, C, bind
from mercer.kernels.domains import ParameterSpec, Positive, Simplex
from mercer.kernels.expression import Base, Expression, build_base, product_of, sum_of
from mercer.kernels.leaf import LEAVES, REGISTRY
from mercer.kernels.network import network
from mercer.kernels.parameters import values_of

Array = NDArray[np.float64]
SYMBOLS = sorted(symbol for symbol in REGISTRY if symbol == "C" or symbol in SPECTRA)  # the others refuse
DRAWS = 400


def random_values(spec: ParameterSpec, size: int, rng: np.random.Generator) -> list[float]:
    if isinstance(spec.domain, Simplex):
        shares = rng.uniform(0.25, 2, size)
        return list(shares / shares.sum())
    if isinstance(spec.domain, Positive):
        return list(np.exp(rng.uniform(np.log(0.4), np.log(2.5), size)))
    return list(rng.uniform(-1, 1, size))


def random_base(symbol: str, dimensions: int, rng: np.random.Generator) -> Base:
    spec = LEAVES[symbol]
    dims = rng.permutation(dimensions)[: rng.integers(1, dimensions + 1)] if spec.uses_inputs else []
    components = int(rng.integers(1, 4)) if spec.mixture else 1
    values = {p.name: random_values(p, p.size(len(dims), components), rng) for p in spec.parameters}
    return build_base(symbol, *map(int, dims), components=components, **values)


def random_kernel(number: int) -> tuple[Expression, int]:
    """Each base kernel in turn, on 1 to 3 columns: alone, then within sums and products of others."""
    rng = np.random.default_rng(1000 + number)
    dimensions = 1 + number % 3
    one, two, three, four = (random_base(str(s), dimensions, rng) for s in rng.choice(SYMBOLS, 4))
    mine = random_base(SYMBOLS[number % len(SYMBOLS)], dimensions, rng)
    shapes: list[Expression] = [
        mine,
        sum_of([product_of([mine, one]), two]),
        sum_of([product_of([sum_of([mine, one]), sum_of([two, product_of([three, four])])]), mine]),
    ]
    return shapes[number // len(SYMBOLS)], dimensions


def small_network(layers: str) -> Expression:
    rng = np.random.default_rng(4)
    primitives = [
        random_base(symbol, 2, rng) for symbol in ("SE", "PER", "SUMI", "LIN" if "Exp" not in layers else "RQ")
    ]
    bare = network(primitives, layers)
    top = 0.25 if "Exp" in layers else 0.8
    return bare.with_weights(
        [rng.uniform(0, top, one.width * one.inputs) for one in bare.linears],
        [rng.uniform(0, top, one.width) for one in bare.linears],
    )


def gram(expression: Expression, X: Array) -> Array:
    bound = bind(expression, X.shape[1])
    return fused.gram(compile_program(bound), values_of(bound), X)


def product(features: Features, X: Array) -> Array:
    phi = features.phi(X)
    return phi @ phi.T + np.diag(features.noise(X))


def deviations(found: Array, truth: Array) -> float:
    """Return the largest distance of the mean over draws from the truth, in standard errors."""
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found)) + 1e-12 * np.abs(truth).max()
    return float(np.max(np.abs(found.mean(axis=0) - truth) / error))


@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize("number", range(3 * len(SYMBOLS)))
def test_features_are_unbiased(number: int, stratified: bool) -> None:
    expression, dimensions = random_kernel(number)
    rng = np.random.default_rng(number)
    X = rng.uniform(-1.5, 1.5, (5, dimensions))
    found = np.stack([product(draw_features(expression, 48, dimensions, rng, X, stratified), X) for _ in range(DRAWS)])
    assert deviations(found, gram(expression, X)) < 4


@pytest.mark.parametrize(
    "layers", ["Linear4-Product2-Linear1", "Linear6-Product3-Linear4-Product2-Linear1", "Linear2-Exp-Linear1",
               "Linear4-Product2-Poly(0.5, 1, 0.25)-Linear1"],
)  # fmt: skip
def test_features_of_networks_are_unbiased(layers: str) -> None:
    expression, rng = small_network(layers), np.random.default_rng(7)
    X = rng.uniform(-1, 1, (5, 2))
    found = np.stack([product(draw_features(expression, 300, 2, rng, X), X) for _ in range(DRAWS)])
    assert deviations(found, gram(expression, X)) < 4


@pytest.mark.parametrize("symbol", [s for s in SYMBOLS if s not in ("C", "LIN", "WN", "COS")])
def test_draws_at_one_value_are_unbiased_at_another(symbol: str) -> None:
    rng = np.random.default_rng(SYMBOLS.index(symbol))
    one, slope = random_base(symbol, 2, rng), random_base("LIN", 2, rng)
    expression = bind(product_of([sum_of([one, C(0.5)]), slope]), 2)
    X, values = rng.uniform(-1.5, 1.5, (5, 2)), values_of(expression)
    changed = values * rng.uniform(0.85, 1.2, len(values))
    found = np.stack([product(draw_features(expression, 48, 2, rng).at(changed), X) for _ in range(DRAWS)])
    assert deviations(found, fused.gram(compile_program(expression), changed, X)) < 4


STATIONARY = SE(0, 1, variance=1, lengthscale=[0.5, 1]) * PER(0, variance=1, period=1.2, lengthscale=0.7)
RATES = [
    SE(0, variance=1, lengthscale=0.5),
    PER(0, variance=1, period=1.2, lengthscale=0.7),
    RQ(0, 1, variance=2, lengthscale=0.5, alpha=0.7) + M12(1, variance=0.5, lengthscale=1),
    STATIONARY + M52(0, variance=1, lengthscale=0.4),
    LIN(0, 1, variance=1, offset=[0.5, 0], weights=[0.5, 0.5]) * STATIONARY + C(0.3),
    (STATIONARY + LIN(1, variance=1, offset=0.3)) * (M52(0, variance=1, lengthscale=1) + LIN(0, variance=1, offset=0)),
]


@pytest.mark.parametrize("expression", RATES, ids=str)
def test_the_error_falls_as_one_over_the_root_of_the_count(expression: Expression) -> None:
    rng = np.random.default_rng(2)
    X = rng.uniform(-1.5, 1.5, (12, 2))
    truth, counts = gram(expression, X), 2 ** np.arange(6, 13)
    errors = []
    for count in counts:
        squares = [
            np.mean((product(draw_features(expression, int(count), 2, rng, X), X) - truth) ** 2) for _ in range(40)
        ]
        errors.append(np.sqrt(np.mean(squares)))
    slope = np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert -0.6 < slope < -0.4


@pytest.mark.parametrize("number", range(0, 3 * len(SYMBOLS), 2))
def test_the_gradient_of_features_is_that_of_differences(number: int) -> None:
    expression, dimensions = random_kernel(number)
    rng = np.random.default_rng(number)
    X = rng.uniform(-1.5, 1.5, (6, dimensions))
    features = draw_features(expression, 40, dimensions, rng, X)
    values, weights = features.values, rng.normal(size=(6, features.count))
    found = features.gradient(features.slopes(X, features.phi(X), weights))
    for place in range(len(values)):
        step = 1e-5 * max(abs(values[place]), 0.01)
        up, down = values.copy(), values.copy()
        up[place] += step
        down[place] -= step
        slope = np.sum(weights * (features.at(up).phi(X) - features.at(down).phi(X))) / (2 * step)
        assert_allclose(found[place], slope, rtol=1e-4, atol=1e-6)


def test_stratified_draws_have_less_error() -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(-1.5, 1.5, (12, 2))
    for expression in RATES[:4]:
        truth = gram(expression, X)
        errors = [
            np.mean([(product(draw_features(expression, 200, 2, rng, X, way), X) - truth) ** 2 for _ in range(30)])
            for way in (False, True)
        ]
        assert errors[1] < 0.9 * errors[0]


@pytest.mark.parametrize("symbol", ["PER", "CPER"])
@pytest.mark.parametrize("lengthscale", [1e-5, 1e-3, 0.05, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("stratified", [False, True])
def test_periodic_features_hold_at_extreme_lengthscales(symbol: str, lengthscale: float, stratified: bool) -> None:
    expression = build_base(symbol, 0, variance=1, period=1, lengthscale=lengthscale)
    X = np.array([[0.0], [1e-6], [lengthscale / 20], [0.25], [3.0]])
    features = draw_features(expression, 4000, 1, np.random.default_rng(0), X, stratified)
    assert_allclose(product(features, X), gram(expression, X), atol=0.1)
