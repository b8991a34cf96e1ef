"""How much more is likely to be gained: the least value that samples of the function have, below the best trial."""

from __future__ import annotations

import numpy as np

from mercer.compute import fused
from mercer.inference.exact import Exact
from mercer.kernels.domains import Array
from mercer.linalg.factor import Failure, factorise
from mercer.optimise.models import Belief, choose_rows
from mercer.optimise.space import Space
from mercer.optimise.surrogate import FunctionModel, Part

SAMPLES = 64
POINTS = 300  # of every group, or of all inputs jointly
MOST_ROWS = 400


def expect_gain(model: Belief, space: Space, X: Array, y: Array, rng: np.random.Generator) -> float:
    """Return E[f(best) - min f] in units of y, each additive part sampled on its own.

    The parts of one function are correlated given the data; differences from the best trial hardly are, as the unknown
    level of each part cancels in them.
    """
    rows = choose_rows(y, MOST_ROWS, rng)
    X, y = X[rows], y[rows]
    surrogate = model.draw(X, y, None)
    surrogate = FunctionModel(surrogate.expression, surrogate.likelihood, surrogate.data, surrogate.inputs, Exact())
    best = X[int(np.argmin(y))]
    total = np.zeros(SAMPLES)
    for part in surrogate.parts:
        total += _sample_gain(surrogate, part, _candidates(space, part, X, y, best, rng), rng)
    value = float(surrogate.predict(best[None]).mean[0])
    reached = model.target.backward(value - total)
    return max(0.0, float(np.mean(model.target.backward(np.array(value)) - reached)))


def _candidates(space: Space, part: Part, X: Array, y: Array, best: Array, rng: np.random.Generator) -> Array:
    """Return rows that differ from the best one in the inputs of a part; the best one comes first."""
    columns = list(part.columns)
    rows = np.tile(best, (POINTS, 1))
    drawn = space.sample(POINTS, rng)
    near = X[np.argsort(y)[:10]]
    local = near[rng.integers(len(near), size=POINTS // 2)] + 0.1 * rng.standard_normal((POINTS // 2, X.shape[1]))
    drawn[: POINTS // 2] = space.snap(local)
    rows[1:, columns] = drawn[1:, columns]
    return np.asarray(rows)


def _sample_gain(surrogate: FunctionModel, part: Part, rows: Array, rng: np.random.Generator) -> Array:
    """Draw f_g at rows given the trials; return f_g(first) - min f_g of every draw."""
    posterior = Exact().posterior(surrogate.program, surrogate.values, surrogate.likelihood, surrogate.data)
    cross = fused.cross(part.program, part.values, rows, surrogate.data.X)
    half = posterior.factor.half_solve(cross.T)
    covariance = fused.gram(part.program, part.values, rows) - half.T @ half
    factor = factorise(covariance.copy, 1e-10)
    if isinstance(factor, Failure):
        return np.zeros(SAMPLES)
    drawn = (cross @ posterior.alpha)[:, None] + factor.multiply(rng.standard_normal((len(rows), SAMPLES)))
    return np.asarray(drawn[0] - drawn.min(axis=0))
