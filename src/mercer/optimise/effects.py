"""What each additive part of the function does: its posterior at some rows, and its share of the variance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mercer.inference.exact import Exact
from mercer.kernels.domains import Array
from mercer.linalg.factor import Failure, factorise
from mercer.optimise.models import Belief
from mercer.optimise.space import Space
from mercer.optimise.surrogate import FunctionModel, SurrogatePart, choose_rows

MOST_TRIALS = 400  # that the parts are looked at with: the best half, and others at random
ROWS, SAMPLES = 100, 200
WITHIN = (2.5, 97.5)  # per cent


@dataclass(frozen=True)
class VarianceShare:
    """A share of the variance of the function over its whole space, and the interval that holds it with 95 %."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Shares:
    """How much each part makes up, and how much would vary with each input alone, the others held (total effect)."""

    parts: tuple[VarianceShare, ...]
    inputs: dict[int, VarianceShare]


def look_closely(model: Belief, X: Array, y: Array) -> FunctionModel:
    """Return the most probable surrogate of the values as they are, exact, given the trials or a choice of them."""
    rows = choose_rows(y, MOST_TRIALS, np.random.default_rng(0))
    return model.on_values().draw(X[rows], y[rows], None)


def is_beyond_noise(surrogate: FunctionModel) -> bool:
    """Tell whether the inputs explain the values better than noise alone does.

    log p(y | model) - log p(y | a level and noise) must exceed log(n) / 2 for each input, as BIC prices a lengthscale:
    on values that are noise a fit gains some evidence with every lengthscale.
    """
    data = surrogate.data
    found = Exact().evidence(surrogate.program, surrogate.values, surrogate.likelihood, data, gradient=False)
    variance = float(np.var(data.y))
    if found.failure or variance <= 0.0:
        return True  # nothing can be said against it
    noise_alone = -0.5 * data.count * (1.0 + math.log(2.0 * math.pi * variance))
    return bool(found.value - noise_alone > 0.5 * len(surrogate.inputs) * math.log(data.count))


def predict_jointly(surrogate: FunctionModel, part: SurrogatePart, rows: Array) -> tuple[Array, Array]:
    """Return mean and covariance of one part at rows: k* a and k** - k* A^-1 k*' + v (k* s)(k* s)', of the level."""
    mean, covariance, pull = surrogate.posterior.project(rows, (part.program, part.values), joint=True)
    return mean, covariance + surrogate.posterior.fitted_level.variance * np.outer(pull, pull)


def measure_shares(surrogate: FunctionModel, space: Space) -> Shares:
    """Draw every part at random rows; V_g = Var f_g, and T_i = E[(f(x) - f(x with another x_i))^2] / 2 (Jansen)."""
    rng = np.random.default_rng(0)
    parts, base, other = surrogate.parts, space.sample(ROWS, rng), space.sample(ROWS, rng)
    whole, single = [], {}
    for part in parts:
        rows = [base]
        for i in part.inputs:
            moved = base.copy()
            columns = list(space.columns[i])
            moved[:, columns] = other[:, columns]
            rows.append(moved)
        drawn = _draw(surrogate, part, np.concatenate(rows), rng).reshape(len(rows), ROWS, SAMPLES)
        whole.append(drawn[0].var(axis=0))
        for place, i in enumerate(part.inputs, start=1):
            alone = len(part.inputs) == 1  # the same number then, and it must not differ by chance
            single[i] = whole[-1] if alone else 0.5 * ((drawn[0] - drawn[place]) ** 2).mean(axis=0)
    total = np.sum(whole, axis=0) if whole else np.ones(SAMPLES)
    total = np.maximum(total, np.finfo(float).tiny)
    found = {i: _summarise(single[i] / total) for i in single}
    nothing = VarianceShare(0.0, 0.0, 0.0)
    return Shares(
        tuple(_summarise(variance / total) for variance in whole),
        {i: found.get(i, nothing) for i in range(len(space.names))},
    )


def _draw(surrogate: FunctionModel, part: SurrogatePart, rows: Array, rng: np.random.Generator) -> Array:
    mean, covariance = predict_jointly(surrogate, part, rows)
    factor = factorise(covariance.copy, 1e-8)
    if isinstance(factor, Failure):
        return np.repeat(mean[:, None], SAMPLES, axis=1)
    return np.asarray(mean[:, None] + factor.multiply(rng.standard_normal((len(rows), SAMPLES))))


def _summarise(shares: Array) -> VarianceShare:
    low, high = np.percentile(shares, WITHIN)
    return VarianceShare(min(1.0, float(shares.mean())), min(1.0, float(low)), min(1.0, float(high)))
