"""How much more the next trials are likely to gain: what the last ones gained, and what the model sees below the best.

Best values fall about with the logarithm of the number of trials, whatever the function: after t trials, n more gain

    R = b log(1 + n / t),   b = mean of (best(s) - best(t)) / log(t / s) over some s < t

The model sees G(t) = E[f(best) - min f] in samples of the function. In hindsight, given the first half of the trials
only, it sees G(t / 2): where that was too much or too little, so it may be now, and G is scaled by R / G(t / 2).

The record goes on falling where the minimum is reached already; the model knows nothing of what it has not seen, and is
low by a factor of three or so where much is left. Both are forecasts of one positive number, each right within some
factor: their geometric mean is what is expected.
"""

from __future__ import annotations

import math

import numpy as np

from mercer.kernels.domains import Array
from mercer.optimise.models import Belief
from mercer.optimise.space import Space, find_best
from mercer.optimise.surrogate import FunctionModel, SurrogatePart, choose_rows

TRIALS = 100  # that the gain is expected of
FEWEST = 10  # trials that hindsight needs
SAMPLES = 64
POINTS = 300  # of every group, or of all inputs jointly
MOST_ROWS = 400
SINCE = (0.4, 0.5, 0.6, 0.7, 0.8)  # shares of the trials from which on the last gains are measured
TRUST = 0.1  # weight of what the model foresaw in hindsight beside what was gained: no gain so far is not none for ever


def expect_gain(
    model: Belief, space: Space, X: Array, y: Array, rng: np.random.Generator, noisy: bool = False
) -> float:
    """Return how much the next hundred trials are expected to gain, in units of y, the trials being in their order.

    The least of noisy values falls with the noise: in place of them counts what the model expects at the trials.
    """
    seen, half = see_gain(model, space, X, y, rng, noisy), len(y) // 2
    before = see_gain(model, space, X[:half], y[:half], rng, noisy) if half >= FEWEST else 0.0
    if before <= 0.0:
        return seen
    values = model.target.backward(model.draw(X, y, None).predict(X).mean) if noisy else y
    allowed = space.allows(X)
    made = extrapolate_record(values[allowed] if allowed.any() else values)
    scaled = seen * (made + TRUST * before) / (before + TRUST * before)
    return math.sqrt(made * scaled) if made > 0.0 else scaled


def extrapolate_record(y: Array) -> float:
    """Return what the next trials gain if best values go on falling with the logarithm of the number of trials."""
    count, best = len(y), np.minimum.accumulate(y)
    starts = {max(1, round(share * count)) for share in SINCE} - {count}
    slopes = [(best[start - 1] - best[-1]) / math.log(count / start) for start in starts]
    return float(np.mean(slopes)) * math.log(1.0 + TRIALS / count) if slopes else 0.0


def see_gain(model: Belief, space: Space, X: Array, y: Array, rng: np.random.Generator, noisy: bool = False) -> float:
    """Return E[f(best) - min f] in units of y, each additive part sampled on its own where no constraint ties them.

    The parts of one function are correlated given the data; differences from the best trial hardly are, as the unknown
    level of each part cancels in them.
    """
    rows = choose_rows(y, MOST_ROWS, rng)
    X, y = X[rows], y[rows]
    surrogate = model.draw(X, y, None)
    best = X[find_best(space, X, surrogate.predict(X).mean if noisy else y)]
    total = np.zeros(SAMPLES)
    for part in surrogate.parts if space.constraints is None else (None,):
        total += _sample_gain(surrogate, part, _candidates(space, part, X, y, best, rng), rng)
    value = float(surrogate.predict(best[None]).mean[0])
    reached = model.target.backward(value - total)
    return max(0.0, float(np.mean(model.target.backward(np.array(value)) - reached)))


def _candidates(
    space: Space, part: SurrogatePart | None, X: Array, y: Array, best: Array, rng: np.random.Generator
) -> Array:
    """Return rows that differ from the best one in the inputs of a part, or in all; the best one comes first."""
    drawn = space.sample(POINTS, rng)
    near = X[np.argsort(y)[:10]]
    local = near[rng.integers(len(near), size=POINTS // 2)] + 0.1 * rng.standard_normal((POINTS // 2, X.shape[1]))
    local = space.legalise(local)
    drawn[: len(local)] = local
    columns = slice(None) if part is None else list(part.columns)
    rows = np.tile(best, (POINTS, 1))
    rows[1:, columns] = drawn[1:, columns]
    return np.asarray(rows)


def _sample_gain(surrogate: FunctionModel, part: SurrogatePart | None, rows: Array, rng: np.random.Generator) -> Array:
    """Draw f, or its part f_g, at rows given the trials; return f(first) - min f of every draw."""
    drawn = surrogate.sample(rows, SAMPLES, rng, part)
    return np.zeros(SAMPLES) if drawn is None else np.asarray(drawn[0] - drawn.min(axis=0))
