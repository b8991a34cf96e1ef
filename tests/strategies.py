"""Hypothesis strategies: random bound kernels with all values set, and inputs for them.

Every base kernel of the registry is drawn, with values picked by the unit and the domain of each parameter, so a new
base kernel is tested as soon as it is registered. Deep kernels nest sums and products at least three levels. Networks
have one to three Linear-Product modules over base kernels, sums and products.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from mercer.kernels.blend import FEATURES, KINDS, ONE_COLUMN, Blend, blend
from mercer.kernels.domains import ParameterSpec, Positive, Share, Simplex
from mercer.kernels.expression import Base, Expression, build_base, product_of, sum_of
from mercer.kernels.functional import Functional
from mercer.kernels.leaf import LEAVES, REGISTRY, Leaf, positive_kernels
from mercer.kernels.network import Network, network

MAX_DIMENSIONS = 3
ANYWHERE = sorted(symbol for symbol, leaf in REGISTRY.items() if not leaf.coded)  # on numbers of any unit


def numbers(low: float, high: float) -> st.SearchStrategy[float]:
    """Numbers with few digits: failures are easier to read, and sums like x - x' come out exact or clearly not."""
    return st.integers(round(low * 64), round(high * 64)).map(lambda i: i / 64)


@st.composite
def parameter_values(draw: st.DrawFn, spec: ParameterSpec, size: int) -> list[float]:
    if isinstance(spec.domain, Simplex):
        shares = np.array([draw(numbers(0.25, 2)) for _ in range(size)])
        return list(shares / shares.sum())
    if isinstance(spec.domain, Positive):
        low, high = (0.25, 2.0) if spec.unit == "frequency" else (0.25, 4.0)
        return [draw(numbers(low, high)) for _ in range(size)]
    if isinstance(spec.domain, Share):
        return [draw(numbers(0.125, 0.875)) for _ in range(size)]
    # Off the lattice of the inputs: as a function of its origin a walk has a kink where a row lies.
    between = 1 / 128 if spec.name == "origin" else 0.0
    return [draw(numbers(-2, 2)) + between for _ in range(size)]


@st.composite
def base_kernels(draw: st.DrawFn, dimensions: int = MAX_DIMENSIONS, symbol: str | None = None) -> Base:
    """A base kernel on one to `dimensions` columns, all values set."""
    spec: Leaf = LEAVES[symbol or draw(st.sampled_from(ANYWHERE))]
    columns = st.lists(st.integers(0, dimensions - 1), min_size=1, max_size=dimensions, unique=True)
    dims = draw(columns)[: 1 if spec.coded else None] if spec.uses_inputs else []
    components = draw(st.integers(1, 3)) if spec.mixture else 1
    isotropic: bool | list[float] = spec.radial and len(dims) > 1 and draw(st.booleans())
    if isotropic and draw(st.booleans()):
        isotropic = [draw(numbers(0.5, 2)) for _ in dims]
    specs = spec.isotropic_parameters() if isotropic else spec.parameters
    values = {p.name: draw(parameter_values(p, p.size(len(dims), components))) for p in specs}
    return build_base(spec.symbol, *dims, components=components, isotropic=isotropic, **values)


@st.composite
def deep_kernels(draw: st.DrawFn, dimensions: int = MAX_DIMENSIONS, depth: int = 3) -> Expression:
    """Sums and products in turn, `depth` operators on the longest way from the root to a base kernel."""
    return draw(_nested(dimensions, depth, draw(st.booleans())))


@st.composite
def _nested(draw: st.DrawFn, dimensions: int, depth: int, adds: bool) -> Expression:
    if depth == 0:
        return draw(base_kernels(dimensions))
    parts = [draw(_nested(dimensions, depth - 1, not adds))]
    for _ in range(draw(st.integers(1, 2))):
        other_depth = draw(st.integers(0, min(depth - 1, 1)))
        parts.insert(draw(st.integers(0, len(parts))), draw(_nested(dimensions, other_depth, not adds)))
    return sum_of(parts) if adds else product_of(parts)


def kernels(dimensions: int = MAX_DIMENSIONS) -> st.SearchStrategy[Expression]:
    """Base kernels, flat sums and products, and deep ones."""
    return st.integers(0, 4).flatmap(lambda depth: deep_kernels(dimensions, depth))


@st.composite
def functionals(draw: st.DrawFn, dimensions: int = MAX_DIMENSIONS, definite: bool = True) -> Functional:
    """A functional with all values set, over a base kernel above zero or a product of two."""
    known = [symbol for symbol in positive_kernels() if symbol in ANYWHERE]
    plain = st.sampled_from(known).flatmap(lambda symbol: base_kernels(dimensions, symbol))
    inside = product_of(draw(st.lists(plain, min_size=1, max_size=2)))
    powers = tuple(sorted(draw(st.sets(st.integers(0, 20), min_size=1, max_size=4))))
    low = 0.0 if definite else -1.0
    weights = tuple(draw(numbers(low, 1)) for _ in powers[1:])
    return Functional(inside, powers, (draw(numbers(0.25, 1)), *weights))


@st.composite
def networks(draw: st.DrawFn, dimensions: int = MAX_DIMENSIONS, complex: bool = False, exp: bool = True) -> Network:
    """A network with all values set; some weights are zero."""
    layers = draw(_architectures(exp and not complex))
    small = "Exp" in layers  # exp soon leaves all bounds
    known = ["SUMI", "SE", "PER"] if small else ["SUMI", *ANYWHERE]
    if complex:
        known = ["EXPI", "SUMI", "SE", "LIN"]
    plain = st.sampled_from(known).flatmap(lambda symbol: base_kernels(dimensions, symbol))
    primitives: list[Expression] = draw(st.lists(plain, min_size=1, max_size=4))
    if draw(st.booleans()) and not small:
        primitives.append(draw(deep_kernels(dimensions, 1)))
    bare = network(primitives, layers, complex=complex or None)
    weight = st.one_of(st.just(0.0), numbers(0, 0.125 if small else 1))
    return bare.with_weights(
        [[draw(weight) for _ in range(one.width * one.inputs)] for one in bare.linears],
        [[draw(weight) for _ in range(one.width)] for one in bare.linears],
    )


@st.composite
def _architectures(draw: st.DrawFn, exp: bool) -> str:
    layers = []
    for module in range(draw(st.integers(1, 3))):
        width, step = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        layers += [f"Linear{width * step}", f"Product{width}"]
        if draw(st.integers(0, 3)) == 0:
            exps = ["Exp"] if exp and module == 0 else []
            layers.append(draw(st.sampled_from(["Poly(0.5, 1, 0.25)", "Poly(0, 0, 1)", *exps])))
    return "-".join([*layers, "Linear1"])


@st.composite
def inputs(
    draw: st.DrawFn, dimensions: int = MAX_DIMENSIONS, min_rows: int = 1, max_rows: int = 6
) -> NDArray[np.float64]:
    """Rows on a coarse grid, so that whole rows and single coordinates repeat now and then."""
    rows = draw(st.integers(min_rows, max_rows))
    entry = st.one_of(st.integers(-2, 2).map(float), numbers(-3, 3))
    return np.array([[draw(entry) for _ in range(dimensions)] for _ in range(rows)])


@st.composite
def blends(draw: st.DrawFn, dimensions: int = MAX_DIMENSIONS, kind: str | None = None, depth: int = 1) -> Blend:
    """A change surface with all values set, over kernels of that depth; now and then a regime without a kernel."""
    chosen = kind or draw(st.sampled_from(sorted(KINDS)))
    regimes = 2 if chosen == "CW" else draw(st.integers(2, 4))
    kernel = st.integers(0, depth).flatmap(lambda depth: deep_kernels(dimensions, depth))
    parts: list[Expression | None] = [draw(kernel) for _ in range(regimes)]
    if draw(st.booleans()):
        parts[draw(st.integers(0, regimes - 1))] = None
    columns = st.lists(st.integers(0, dimensions - 1), min_size=1, max_size=dimensions, unique=True)
    dims = [draw(st.integers(0, dimensions - 1))] if chosen in ONE_COLUMN else draw(columns)
    features = draw(st.integers(1, 3)) if chosen in FEATURES else 1
    components = 1 if chosen == "CW" else (regimes - 1) * features
    specs = KINDS[chosen]
    values = {p.name: draw(parameter_values(p, p.size(len(dims), components))) for p in specs}
    return blend(parts, chosen, features=features, on=dims, **values)
