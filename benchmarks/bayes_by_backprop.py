"""Bayes by Backprop (Blundell et al. 2015), the Bayesian neural network of the NKN paper's Table 1 (BBB).

One hidden layer of 50 rectified units (NKN J.2). Every weight has a Gaussian posterior N(m, s^2), s = softplus(r), and
a standard normal prior; one noise variance for all rows is learned with them. The bound

    sum_n E log N(y_n | f_w(x_n), noise) - KL(q(w) || p(w))

is maximised by Adam on one draw of the weights a step (local reparameterisation: the draw is of the activations of each
row). Inputs and target are standardised by the training rows; predictions are a mixture over 100 draws. The gradient is
written out: these matrices are so small that automatic differentiation takes three times as long.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

UNITS = 50
STEPS = 20_000  # as many as the paper trains its other models for
RATE = 1e-2  # of Adam; it falls to zero along a cosine
DECAYS = (0.9, 0.999)  # of Adam's two averages
BATCH = 500
DRAWS = 100


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


class BayesByBackprop:
    """A Bayesian network; `fit`, then `score` on rows not seen."""

    def __init__(self, steps: int = STEPS, seed: int = 0) -> None:
        self.steps, self.rng = steps, np.random.default_rng(seed)

    def fit(self, X: Array, y: Array) -> BayesByBackprop:
        """Train on rows in their own units."""
        self.centre, self.scale = X.mean(axis=0), np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
        self.level, self.spread = float(y.mean()), float(y.std()) or 1.0
        inputs, target = self._inputs(X), ((y - self.level) / self.spread)[:, None]
        rows, rng = len(inputs), self.rng
        parameters = [np.array([math.log(0.1)]), *begin_layer(X.shape[1], UNITS, rng), *begin_layer(UNITS, 1, rng)]
        averages = [(np.zeros_like(each), np.zeros_like(each)) for each in parameters]
        for step in range(self.steps):
            batch = rng.integers(rows, size=min(BATCH, rows))
            _, slopes = loss_and_slopes(parameters, inputs[batch], target[batch], rows, rng)
            rate = 0.5 * RATE * (1.0 + math.cos(math.pi * step / self.steps))
            for each, slope, (first, second) in zip(parameters, slopes, averages, strict=True):
                first += (1.0 - DECAYS[0]) * (slope - first)
                second += (1.0 - DECAYS[1]) * (slope**2 - second)
                size = np.sqrt(second / (1.0 - DECAYS[1] ** (step + 1))) + 1e-8
                each -= rate * first / (1.0 - DECAYS[0] ** (step + 1)) / size
        self.parameters = parameters
        return self

    def score(self, X: Array, y: Array) -> dict[str, float]:
        """Return RMSE and mean log density of rows not seen, in the units of the target."""
        inputs = self._inputs(X)
        drawn = np.column_stack([self._draw(inputs) for _ in range(DRAWS)])
        means, variance = self.level + self.spread * drawn, self.spread**2 * math.exp(float(self.parameters[0][0]))
        logs = -0.5 * ((y[:, None] - means) ** 2 / variance + math.log(2.0 * math.pi * variance))
        top = logs.max(axis=1)
        density = top + np.log(np.exp(logs - top[:, None]).mean(axis=1))
        rmse = float(np.sqrt(np.mean((y - means.mean(axis=1)) ** 2)))
        return {"rmse": rmse, "log_density": float(density.mean())}

    def _inputs(self, X: Array) -> Array:
        return np.asarray((X - self.centre) / self.scale)

    def _draw(self, inputs: Array) -> Array:
        _, mean_1, raw_1, mean_2, raw_2 = self.parameters
        hidden = np.maximum(draw_layer(inputs, mean_1, raw_1, self.rng).values, 0.0)
        return draw_layer(hidden, mean_2, raw_2, self.rng).values
