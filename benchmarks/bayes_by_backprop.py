"""Bayes by Backprop (Blundell et al. 2015), the Bayesian neural network of the NKN paper's Table 1 (BBB).

One hidden layer of 50 rectified units (NKN J.2). Every weight has a Gaussian posterior N(m, s^2), s = softplus(r), and
a standard normal prior; one noise variance for all rows is learned with them. The bound

    sum_n E log N(y_n | f_w(x_n), noise) - KL(q(w) || p(w))

is maximised by Adam on one draw of the weights a step (local reparameterisation: the draw is of the activations of each
row). Inputs and target are standardised by the training rows; predictions are a mixture over 100 draws.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

Array = np.ndarray[Any, Any]
Tensor = torch.Tensor

UNITS = 50
STEPS = 20_000  # as many as the paper trains its other models for
RATE = 1e-2
BATCH = 500
DRAWS = 100


class _Layer:
    def __init__(self, inputs: int, outputs: int, rng: np.random.Generator) -> None:
        scale = 1.0 / math.sqrt(inputs)
        shape = (inputs + 1, outputs)  # the last row is the bias
        self.mean = torch.from_numpy(scale * rng.standard_normal(shape)).requires_grad_()
        self.raw = torch.full(shape, -4.0, dtype=torch.float64, requires_grad=True)

    @property
    def spread(self) -> Tensor:
        return torch.nn.functional.softplus(self.raw)

    def __call__(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        """Return one draw of the activations of every row."""
        full = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
        mean, variance = full @ self.mean, (full**2) @ (self.spread**2)
        # NumPy draws normal numbers three times as fast
        return mean + variance.sqrt() * torch.from_numpy(rng.standard_normal(tuple(mean.shape)))

    def divergence(self) -> Tensor:
        """Return KL(q || N(0, 1)), summed over the weights."""
        variance = self.spread**2
        return 0.5 * (variance + self.mean**2 - 1.0 - variance.log()).sum()


class BayesByBackprop:
    """A Bayesian network; `fit`, then `score` on rows not seen."""

    def __init__(self, steps: int = STEPS, seed: int = 0) -> None:
        self.steps, self.rng = steps, np.random.default_rng(seed)

    def fit(self, X: Array, y: Array) -> BayesByBackprop:
        """Train on rows in their own units."""
        self.centre, self.scale = X.mean(axis=0), np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
        self.level, self.spread = float(y.mean()), float(y.std()) or 1.0
        inputs, target = self._inputs(X), torch.tensor((y - self.level) / self.spread)[:, None]
        self.layers = [_Layer(X.shape[1], UNITS, self.rng), _Layer(UNITS, 1, self.rng)]
        self.noise = torch.tensor(math.log(0.1), dtype=torch.float64, requires_grad=True)
        parameters = [self.noise, *(p for layer in self.layers for p in (layer.mean, layer.raw))]
        optimiser = torch.optim.Adam(parameters, lr=RATE, fused=True)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.steps)
        for _ in range(self.steps):
            rows = torch.from_numpy(self.rng.integers(len(inputs), size=min(BATCH, len(inputs))))
            optimiser.zero_grad()
            error = target[rows] - self._function(inputs[rows])
            log_density = -0.5 * (error**2 / self.noise.exp() + self.noise + math.log(2.0 * math.pi)).sum()
            share = len(inputs) / len(rows)
            loss = (sum(layer.divergence() for layer in self.layers) - share * log_density) / len(inputs)
            loss.backward()
            optimiser.step()
            schedule.step()
        return self

    def score(self, X: Array, y: Array) -> dict[str, float]:
        """Return RMSE and mean log density of rows not seen, in the units of the target."""
        with torch.no_grad():
            inputs = self._inputs(X)
            drawn = torch.cat([self._function(inputs) for _ in range(DRAWS)], dim=1).numpy()
        means, variance = self.level + self.spread * drawn, self.spread**2 * float(self.noise.detach().exp())
        logs = -0.5 * ((y[:, None] - means) ** 2 / variance + math.log(2.0 * math.pi * variance))
        top = logs.max(axis=1)
        density = top + np.log(np.exp(logs - top[:, None]).mean(axis=1))
        rmse = float(np.sqrt(np.mean((y - means.mean(axis=1)) ** 2)))
        return {"rmse": rmse, "log_density": float(density.mean())}

    def _inputs(self, X: Array) -> Tensor:
        return torch.tensor((X - self.centre) / self.scale, dtype=torch.float64)

    def _function(self, x: Tensor) -> Tensor:
        first, second = self.layers
        return second(torch.relu(first(x, self.rng)), self.rng)
