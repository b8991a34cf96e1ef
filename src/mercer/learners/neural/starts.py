"""Where training begins: primitives drawn from the data, weights at random, the whole as large as the target.

Lengthscales, periods and weights are drawn as for any network (`mercer.fitting.starts`: the copies of a primitive share
the range of lengthscales and the peaks of the periodogram among them). A product of sums of random size can be far too
large or too small for the target, so the last layer is scaled; and what goes into an Exp, before which a size of ten is
already hopeless, is brought down first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from mercer.compute import fused
from mercer.compute.patterns import unit_patterns
from mercer.fitting.optimise import Problem
from mercer.fitting.starts import noise_start
from mercer.kernels.domains import Array
from mercer.kernels.layers import Exponential, Linear, Multiply
from mercer.kernels.network import Network
from mercer.kernels.parameters import values_of, with_values

DRAWS = 12  # of which the best by evidence is a start
ROWS = 100  # to measure the size of a kernel on
LARGEST_EXPONENT = 2.0  # of a start: exp of more varies by orders of magnitude between the rows


def first_point(
    problem: Problem,
    number: int,
    rng: np.random.Generator,
    screen: Callable[[Problem, list[Array]], Sequence[float]] | None = None,
) -> Array:
    """Return where a start begins: middling values for the first, the best of some draws for the others."""
    starts = problem.starts
    if number == 0:
        return _point(problem, starts.typical(), noise_start(None))
    drawn = [_point(problem, starts.draw(rng), noise_start(rng)) for _ in range(DRAWS)]
    scores = screen(problem, drawn) if screen else [problem.objective.evidence(p, gradient=False).value for p in drawn]
    return drawn[int(np.argmax(scores))]


def _point(problem: Problem, values: Array, noise: float) -> Array:
    """The free vector, the network scaled so that its functions vary as much as the target (scaled: unit variance)."""
    network = with_values(problem.expression, values)
    assert isinstance(network, Network)
    X = problem.objective.data.X
    network = _calmed(network, X[np.linspace(0, len(X) - 1, min(ROWS, len(X))).astype(int)])
    values = values_of(network)
    size = _variance(problem, values)
    if math.isfinite(size) and size > 0:
        values = values_of(network.scaled(1.0 / size))
    free = problem.objective.layout.to_free(values)
    if problem.objective.fixed_noise is None:
        free = np.append(free, math.log(noise))
    return np.clip(free, problem.bounds[:, 0], problem.bounds[:, 1])


def _calmed(network: Network, rows: Array) -> Network:
    """Return the network with the Linear layer before each Exp scaled down where its exponents would be large."""
    for place, layer in enumerate(network.layers):
        if not isinstance(layer, Exponential):
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            before = unit_patterns(network, rows)[place].values  # the primitives are number 0
        below = [at for at in range(place) if isinstance(network.layers[at], Linear)][-1]
        between = network.layers[below + 1 : place]
        power = math.prod(each.step for each in between if isinstance(each, Multiply))
        factor = (LARGEST_EXPONENT / float(np.max(np.abs(before)))) ** (1.0 / power)
        if factor < 1.0:
            linears = list(network.linears)
            number = sum(isinstance(each, Linear) for each in network.layers[:below])
            linears[number] = linears[number].scaled(factor)
            network = network.with_linears(linears)
    return network


def _variance(problem: Problem, values: Array) -> float:
    """The expected variance over rows of a function of the kernel: mean of the diagonal less mean of the matrix."""
    X = problem.objective.data.X
    rows = np.linspace(0, len(X) - 1, min(ROWS, len(X))).astype(int)
    gram = fused.gram(problem.objective.program, values, X[rows])
    return float(np.mean(np.diagonal(gram)) - np.mean(gram))
