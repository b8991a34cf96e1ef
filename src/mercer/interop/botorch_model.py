"""A fitted model as a BoTorch `Model`: `posterior(X)` over batches of rows in the units of the data, with gradients.

An average of kernels is a mixture; its posterior here is the Gaussian with the mixture's mean and covariance, as
`GPRegressor.predict(return_cov=True)` gives them:

    mean = sum_i w_i m_i,    cov = sum_i sqrt(w_i w_i') (S_i + (m_i - mean)(m_i - mean)')

with weights that go from those within the data to those beyond it, and S_i widened there.
"""

from __future__ import annotations

from typing import Any

import torch
from botorch.models.model import Model
from botorch.posteriors.gpytorch import GPyTorchPosterior
from torch import Tensor

from mercer.errors import InputError
from mercer.interop.exporting import Ends, Exported, read_table
from mercer.interop.gpytorch_model import MercerGP, normal, read_tensor

LEAST_WEIGHT = 1e-200  # a root of zero has no slope


class MercerModel(Model):
    """The members of a fitted model and their weights, ready for acquisition functions."""

    def __init__(self, exported: Exported) -> None:
        super().__init__()
        self.members = torch.nn.ModuleList(MercerGP(alone, exported.columns) for alone in exported.members)
        weights = [[alone.within, alone.beyond, alone.widening] for alone in exported.members]
        self.register_buffer("weights", torch.tensor(weights, dtype=torch.float64))
        self.ends, self.columns = exported.ends, exported.columns
        self.eval()

    @property
    def num_outputs(self) -> int:
        """One target."""
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        """None of its own."""
        return torch.Size([])

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: Any = None,
    ) -> Any:
        """Return the posterior at rows X, (..., q, columns); with `observation_noise` that of new observations."""
        if output_indices not in (None, [0]):
            raise InputError(f"this model has one output, number 0, not {output_indices}")
        if isinstance(observation_noise, Tensor):
            raise InputError("the noise of this model is the one that was learned: observation_noise is True or False")
        rows = read_tensor(X, self.columns)
        posterior = GPyTorchPosterior(normal(*self.predict_joint(rows, observation_noise)))
        return posterior if posterior_transform is None else posterior_transform(posterior)

    def predict_joint(self, X: Tensor, include_noise: bool) -> tuple[Tensor, Tensor]:
        """Return mean (..., q) and covariance (..., q, q) of the mixture."""
        share = share_beyond(self.ends, X)
        own: Any
        parts: list[Any] = []
        for own, (within, beyond, widening) in zip(self.members, self.weights, strict=True):
            mean, covariance = own.predict_joint(X)
            if include_noise:
                covariance = covariance + own.likelihood.noise * torch.eye(X.shape[-2], dtype=X.dtype, device=X.device)
            wide = (1.0 + (widening - 1.0) * share).sqrt().unsqueeze(-1)
            weight = within * (1.0 - share) + beyond * share
            parts.append((weight, mean, covariance * wide * wide.mT))
        if len(parts) == 1:
            return parts[0][1], parts[0][2]
        total = sum(weight * mean for weight, mean, _ in parts)
        spread = 0.0
        for weight, mean, covariance in parts:
            root, away = weight.clamp_min(LEAST_WEIGHT).sqrt().unsqueeze(-1), (mean - total).unsqueeze(-1)
            spread = spread + (covariance + away * away.mT) * root * root.mT
        assert isinstance(total, Tensor)
        assert isinstance(spread, Tensor)
        return total, spread

    def encode(self, table: Any) -> Tensor:
        """Return a table like the one that was learned from as the rows of numbers that the model takes."""
        return torch.tensor(read_table(table, self.columns))

    def subset_output(self, idcs: list[int]) -> Any:
        """Return this model for its one output."""
        if list(idcs) not in ([0], [-1]):
            raise InputError(f"this model has one output, number 0, not {idcs}")
        return self

    def condition_on_observations(self, X: Any, Y: Any, **kwargs: Any) -> Any:
        """Refused: see `MercerGP.get_fantasy_model`."""
        raise InputError(
            "an exported model cannot be conditioned on new rows: fit Mercer's own to all of them and export it again"
        )

    def fantasize(self, X: Any, *args: Any, **kwargs: Any) -> Any:
        """Refused, as acquisition functions that look ahead (KnowledgeGradient) need it."""
        raise InputError(
            "an exported model makes no fantasies, which acquisition functions that look ahead need: take one that "
            "does not, such as LogExpectedImprovement or UpperConfidenceBound"
        )


def share_beyond(ends: Ends, X: Tensor) -> Tensor:
    """Return for each row by how much it lies beyond the data, from 0 to 1 (`share_beyond` of the learners)."""
    if ends.column is None:
        return X.new_zeros(X.shape[:-1])
    along = X[..., ends.column]
    distance = torch.maximum(ends.low - along, along - ends.high)
    return (distance / ends.fade).clamp(0.0, 1.0) if ends.fade > 0 else (distance > 0).to(X.dtype)
