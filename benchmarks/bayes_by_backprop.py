"""Bayes by Backprop (Blundell et al. 2015), the Bayesian neural network of the NKN paper's Table 1 (BBB).

One hidden layer of 50 rectified units (NKN J.2). Every weight has a Gaussian posterior N(m, s^2), s = softplus(r), and
a standard normal prior; one noise variance for all rows is learned with them. The bound

    sum_n E log N(y_n | f_w(x_n), noise) - KL(q(w) || p(w))

is maximised by Adam on one draw of the weights a step (local reparameterisation: the draw is of the activations of each
row). Inputs and target are standardised by the training rows; predictions are a mixture over 100 draws. The gradient is
written out: these matrices are so small that automatic differentiation takes three times as long.

The bound has poor maxima. Begun with a noise variance of .1, most fits of energy end at a noise variance of .015 and a
bound of 0.0 for each training row, and three times as many steps do not leave that; begun with .01 they end at .0025
and 0.7. Fits of noisy tables (boston, concrete, wine) end slightly better from .1. So there are three starts, and the
one with the highest bound on the training rows is trained on.

Blundell et al. have a mixture of two normal densities as prior, draw the weights once for all rows of a minibatch, and
estimate the divergence by these draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

UNITS = 50
STEPS = 10_000  # of each start: enough to tell a poor maximum
MORE_STEPS = 30_000  # of the best: the tables with thousands of rows still gain by them
RATE = 1e-2  # of Adam; it falls to zero along a cosine, from anew for the best
DECAYS = (0.9, 0.999)  # of Adam's two averages
BATCH = 500
DRAWS = 100
NOISES = (0.1, 0.03, 0.01)  # a start from each: the variance of the noise, in that of the target
BOUND_DRAWS = 20  # on all training rows: the error of a bound is at most .006 for each row, of yacht, which has fewest


@dataclass(frozen=True, eq=False)
class Draw:
    """One draw of a layer's activations, and what its gradient needs."""

    inputs: Array
    mean: Array
    spread: Array
    noise: Array
    deviation: Array  # of each activation: sqrt((x^2) (s^2))
    values: Array

    def back(self, slope: Array) -> tuple[Array, Array, Array]:
        """Return the slopes of a loss in the means, the spreads and the inputs, from that in the activations."""
        along = slope * self.noise / (2.0 * self.deviation)  # in the variances of the activations
        squared = self.spread**2
        to_spread = 2.0 * self.spread * ((self.inputs**2).T @ along)
        return self.inputs.T @ slope, to_spread, slope @ self.mean.T + 2.0 * self.inputs * (along @ squared.T)


def draw_layer(inputs: Array, mean: Array, raw: Array, rng: np.random.Generator) -> Draw:
    """Return one draw of the activations of every row; the last row of the weights is the bias."""
    full, spread = np.column_stack([inputs, np.ones(len(inputs))]), np.logaddexp(0.0, raw)
    deviation = np.sqrt((full**2) @ spread**2)
    noise = rng.standard_normal(deviation.shape)
    return Draw(full, mean, spread, noise, deviation, full @ mean + deviation * noise)


def loss_and_slopes(
    parameters: list[Array], inputs: Array, target: Array, rows: int, rng: np.random.Generator
) -> tuple[float, list[Array]]:
    """Return minus the bound for each of `rows` training rows, on a batch of them, and its gradient.

    `parameters`: log of the noise variance, then means and raw spreads of the two layers.
    """
    log_noise, mean_1, raw_1, mean_2, raw_2 = parameters
    first = draw_layer(inputs, mean_1, raw_1, rng)
    second = draw_layer(np.maximum(first.values, 0.0), mean_2, raw_2, rng)
    error, count, precision = target - second.values, len(inputs), math.exp(-float(log_noise[0]))
    squares = precision * float((error**2).sum())
    log_density = -0.5 * (squares + count * (float(log_noise[0]) + math.log(2.0 * math.pi)))
    divergence = sum(
        0.5 * float((draw.spread**2 + draw.mean**2 - 1.0 - 2.0 * np.log(draw.spread)).sum()) for draw in (first, second)
    )
    to_mean_2, to_spread_2, to_hidden = second.back(-precision * error / count)
    to_mean_1, to_spread_1, _ = first.back(to_hidden[:, :-1] * (first.values > 0.0))
    slopes = [np.array([0.5 * (count - squares) / count])]
    for draw, raw, to_mean, to_spread in (
        (first, raw_1, to_mean_1, to_spread_1),
        (second, raw_2, to_mean_2, to_spread_2),
    ):
        slopes.append(to_mean + draw.mean / rows)
        slopes.append((to_spread + (draw.spread - 1.0 / draw.spread) / rows) / (1.0 + np.exp(-raw)))
    return divergence / rows - log_density / count, slopes


def begin_layer(inputs: int, outputs: int, rng: np.random.Generator) -> list[Array]:
    """Return means and raw spreads to begin with."""
    shape = (inputs + 1, outputs)
    return [rng.standard_normal(shape) / math.sqrt(inputs), np.full(shape, -4.0)]


def train(parameters: list[Array], inputs: Array, target: Array, steps: int, rng: np.random.Generator) -> None:
    """Take steps of Adam, in place."""
    rows = len(inputs)
    averages = [(np.zeros_like(each), np.zeros_like(each)) for each in parameters]
    for step in range(steps):
        batch = rng.integers(rows, size=min(BATCH, rows))
        _, slopes = loss_and_slopes(parameters, inputs[batch], target[batch], rows, rng)
        rate = 0.5 * RATE * (1.0 + math.cos(math.pi * step / steps))
        for each, slope, (first, second) in zip(parameters, slopes, averages, strict=True):
            first += (1.0 - DECAYS[0]) * (slope - first)
            second += (1.0 - DECAYS[1]) * (slope**2 - second)
            size = np.sqrt(second / (1.0 - DECAYS[1] ** (step + 1))) + 1e-8
            each -= rate * first / (1.0 - DECAYS[0] ** (step + 1)) / size


def bound_of(parameters: list[Array], inputs: Array, target: Array, rng: np.random.Generator) -> float:
    """Return the bound for each training row, on all of them."""
    rows = len(inputs)
    return -float(np.mean([loss_and_slopes(parameters, inputs, target, rows, rng)[0] for _ in range(BOUND_DRAWS)]))


class BayesByBackprop:
    """A Bayesian network; `fit`, then `score` on rows not seen."""

    def __init__(
        self, steps: int = STEPS, more: int = MORE_STEPS, seed: int = 0, noises: Sequence[float] = NOISES
    ) -> None:
        self.steps, self.more, self.noises = steps, more, noises
        self.rng = np.random.default_rng(seed)

    def fit(self, X: Array, y: Array) -> BayesByBackprop:
        """Train on rows in their own units from each start, and go on with the one of the highest bound."""
        self.centre, self.scale = X.mean(axis=0), np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
        self.level, self.spread = float(y.mean()), float(y.std()) or 1.0
        inputs, target = self._inputs(X), ((y - self.level) / self.spread)[:, None]
        starts, self.bounds = [], []
        for noise in self.noises:
            layers = [*begin_layer(X.shape[1], UNITS, self.rng), *begin_layer(UNITS, 1, self.rng)]
            starts.append([np.array([math.log(noise)]), *layers])
            train(starts[-1], inputs, target, self.steps, self.rng)
            self.bounds.append(bound_of(starts[-1], inputs, target, self.rng))
        self.parameters = starts[int(np.argmax(self.bounds))]
        train(self.parameters, inputs, target, self.more, self.rng)
        return self

    def score(self, X: Array, y: Array) -> dict[str, Any]:
        """Return RMSE and mean log density of rows not seen, in the units of the target, and the starts' bounds."""
        inputs = self._inputs(X)
        drawn = np.column_stack([self._draw(inputs) for _ in range(DRAWS)])
        means, variance = self.level + self.spread * drawn, self.spread**2 * math.exp(float(self.parameters[0][0]))
        logs = -0.5 * ((y[:, None] - means) ** 2 / variance + math.log(2.0 * math.pi * variance))
        top = logs.max(axis=1)
        density = top + np.log(np.exp(logs - top[:, None]).mean(axis=1))
        rmse = float(np.sqrt(np.mean((y - means.mean(axis=1)) ** 2)))
        return {"rmse": rmse, "log_density": float(density.mean()), "bounds": self.bounds}

    def _inputs(self, X: Array) -> Array:
        return np.asarray((X - self.centre) / self.scale)

    def _draw(self, inputs: Array) -> Array:
        _, mean_1, raw_1, mean_2, raw_2 = self.parameters
        hidden = np.maximum(draw_layer(inputs, mean_1, raw_1, self.rng).values, 0.0)
        return draw_layer(hidden, mean_2, raw_2, self.rng).values
