"""A fitted model as a GPyTorch `ExactGP`: float64, the units of the data, gradients by inputs and by parameters.

The kernel runs as Mercer's own program on PyTorch, leaf by leaf with the functions that Mercer fits with on a GPU: what
GPyTorch computes is Mercer's kernel by construction, whatever the expression. (GPyTorch's own RBF works out distances
as x'x + z'z - 2x'z, which loses digits where the inputs are far from zero.) Each parameter is its exported value v
times exp(raw), or v + s raw where it may be negative (s its size), so that at raw = 0 it is that value to the last bit.

In train mode the model is an ordinary ExactGP, to be trained further; in eval mode its predictions are Mercer's,
with what the level of the data adds to the variance (exporting.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gpytorch
import numpy as np
import torch
from gpytorch.distributions import MultivariateNormal
from linear_operator import to_linear_operator
from torch import Tensor

from mercer.compute import torch_backend
from mercer.compute.program import compile_program
from mercer.errors import InputError, NumericalError
from mercer.interop.exporting import Alone, Exported, check_columns, read_table
from mercer.kernels.domains import Array, Domain, NonNegative, Positive, Real, Share, Simplex
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import Slot, layout, values_of, with_values
from mercer.linalg.device import factorise_on_device
from mercer.linalg.factor import Failure
from mercer.model.fitted import Columns


def _move(start: Tensor, step: Tensor, raw: Tensor) -> Tensor:
    return start + step * raw


def _grow(start: Tensor, step: Tensor, raw: Tensor) -> Tensor:
    return start * raw.exp()


def _share(start: Tensor, step: Tensor, raw: Tensor) -> Tensor:
    parts = start * raw.exp()
    return parts / parts.sum()


def _odds(start: Tensor, step: Tensor, raw: Tensor) -> Tensor:
    """start / (1 - start) times exp(raw), as a share."""
    grown = start * raw.exp()
    return grown / (1.0 - start + grown)


# How a parameter is found from the value that was exported, a step and a free number; a domain without an entry is an
# error.
FROM_RAW = {Real: _move, Positive: _grow, NonNegative: _grow, Share: _odds, Simplex: _share}


class GPyTorchKernel(gpytorch.kernels.Kernel):
    """A Mercer expression as a GPyTorch kernel; its free parameters are `raw_<number>_<symbol>_<name>`.

    spread : the size of each column of the data, the step of what is counted along it (an offset, a frequency).
    """

    def __init__(self, expression: Expression, spread: Array | None = None) -> None:
        super().__init__()
        self.bound = expression
        self.program = compile_program(expression)
        values = torch.as_tensor(values_of(expression), dtype=torch.float64)
        if values.isnan().any():
            raise InputError(f"{expression.text(digits=4)} has parameters without a value: give them, or fit it first")
        self.slots = layout(expression).slots
        self.register_buffer("start", values)
        self.register_buffer("step", torch.as_tensor(_steps(expression, self.slots, spread), dtype=torch.float64))
        for slot in self.slots:
            _transform_of(slot.spec.domain)
            if slot.fitted:
                zeros = torch.zeros(slot.size, dtype=torch.float64)
                self.register_parameter(_raw_name(slot), torch.nn.Parameter(zeros))

    @property
    def is_stationary(self) -> bool:
        """Whether k(x, x') depends on x - x' alone."""
        return self.program.stationary

    @property
    def values(self) -> Tensor:
        """The parameters as they are now, in the order of Mercer's values vector."""
        parts = []
        for slot in self.slots:
            own, step = self.start[slot.where], self.step[slot.where]
            raw = getattr(self, _raw_name(slot)) if slot.fitted else None
            parts.append(own if raw is None else _transform_of(slot.spec.domain)(own, step, raw))
        return torch.cat(parts)

    @property
    def expression(self) -> Expression:
        """The Mercer expression with the parameters as they are now."""
        return with_values(self.bound, self.values.detach().cpu().numpy())

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, last_dim_is_batch: bool = False, **_: Any) -> Tensor:
        """Return k(x1, x2), (..., n, m), or its diagonal."""
        if last_dim_is_batch:
            raise InputError("a Mercer kernel names its columns: they cannot be taken as a batch (last_dim_is_batch)")
        if diag:
            return self._pairs(x1, x2)
        if x2.ndim == 2:  # rows of all batches against the same rows
            flat = x1.reshape(-1, x1.shape[-1])
            found = torch_backend.cross(self.program, self.values, flat, x2)
            return found.reshape(*x1.shape[:-1], len(x2))
        return self._pairs(x1.unsqueeze(-2), x2.unsqueeze(-3))

    def _pairs(self, x1: Tensor, x2: Tensor) -> Tensor:
        shape = np.broadcast_shapes(tuple(x1.shape), tuple(x2.shape))
        flat = (x.expand(shape).reshape(-1, shape[-1]) for x in (x1, x2))
        return torch_backend.pairwise(self.program, self.values, *flat).reshape(shape[:-1])

    def extra_repr(self) -> str:
        """Return the expression as text."""
        return self.expression.text(digits=4)


def _raw_name(slot: Slot) -> str:
    return f"raw_{slot.leaf}_{slot.symbol}_{slot.spec.name}"


def _steps(expression: Expression, slots: Sequence[Slot], spread: Array | None) -> Array:
    """Return for each value by how much it changes with its free number, where that is added."""
    steps, owners = np.ones(sum(slot.size for slot in slots)), tuple(expression.owners())
    for slot in slots:
        if spread is not None and "dimension" in slot.spec.shape and slot.spec.unit in ("position", "frequency"):
            own = spread[list(owners[slot.leaf].columns)]
            steps[slot.where] = np.resize(own if slot.spec.unit == "position" else 1.0 / own, slot.size)
    return steps


def _transform_of(domain: Domain) -> Any:
    if type(domain) not in FROM_RAW:
        raise InputError(f"parameters that are {domain.describe()} cannot be exported to GPyTorch yet")
    return FROM_RAW[type(domain)]


class PlainNormal(MultivariateNormal):
    """GPyTorch's normal distribution, whose variances may be small: GPyTorch rounds those below 1e-10 up."""

    @property
    def variance(self) -> Tensor:
        """The variances, not below zero."""
        diagonal: Tensor = self.lazy_covariance_matrix.diagonal(dim1=-1, dim2=-2)
        return diagonal.expand(self.batch_shape + self.event_shape).clamp_min(0.0)


def normal(mean: Tensor, covariance: Tensor) -> PlainNormal:
    """Return the distribution; its covariance is factorised only when somebody draws from it."""
    return PlainNormal(mean, to_linear_operator(covariance))


def read_tensor(x: Any, columns: Columns) -> Tensor:
    """Return rows, (..., rows, columns), as a tensor in float64; of one column they may come without it."""
    if hasattr(x, "columns"):
        raise InputError("rows are a tensor of numbers, not a table: give encode(table), which makes one")
    try:
        rows = torch.as_tensor(x, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"rows are a tensor of numbers: {error}") from None
    rows = rows.unsqueeze(-1) if rows.ndim == 1 else rows
    check_columns(rows.shape[-1] if rows.ndim else 0, columns.names)
    return rows


class MercerGP(gpytorch.models.ExactGP):
    """One kernel with its rows: `model(x)` is the function, `model.likelihood(model(x))` a new observation.

    In eval mode nothing is differentiated through the factorisation: gradients by x are exact, gradients by parameters
    are those of train mode (ExactMarginalLogLikelihood).
    """

    def __init__(self, alone: Alone, columns: Columns) -> None:
        noise = gpytorch.constraints.GreaterThan(0.0, transform=torch.exp, inv_transform=torch.log)
        likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=noise).double()
        super().__init__(torch.tensor(alone.X), torch.tensor(alone.y), likelihood)
        likelihood.raw_noise.data.fill_(torch.tensor(alone.noise, dtype=torch.float64).log())
        self.mean_module = gpytorch.means.ConstantMean().double()
        self.mean_module.constant.data.fill_(alone.level)
        spread = alone.X.std(axis=0)
        self.covar_module = GPyTorchKernel(alone.kernel, np.where(spread > 0, spread, 1.0))
        self.columns = columns
        self.jitter = alone.jitter
        self._solved: tuple[Tensor, Tensor, Tensor] | None = None
        self.eval()

    def forward(self, x: Tensor) -> MultivariateNormal:
        """Return the process before the data (train mode)."""
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))

    def __call__(self, *args: Any, **kwargs: Any) -> MultivariateNormal:
        """Return the process given the data at rows x, (..., rows, columns); in train mode the prior at its rows."""
        if self.training or gpytorch.settings.prior_mode.on():
            return super().__call__(*args, **kwargs)
        return normal(*self.predict_joint(*args))

    def predict_joint(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean (..., n) and covariance (..., n, n) of the function at rows in the units of the data."""
        x = read_tensor(x, self.columns)
        lower, alpha, pull = self._solve()
        level = self.mean_module.constant.detach()
        cross = self.covar_module.forward(x, self.train_inputs[0])
        flat = cross.reshape(-1, cross.shape[-1])
        half = torch.linalg.solve_triangular(lower, flat.mT, upper=False).mT.reshape(cross.shape)
        left = (1.0 - cross @ pull).unsqueeze(-1)
        prior = self.covar_module.forward(x, x)
        return level + cross @ alpha, prior - half @ half.mT + left @ left.mT / pull.sum()

    def _solve(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return L, A^-1 (y - c) and A^-1 1, worked out once for the parameters as they are."""
        if self._solved is None:
            with torch.no_grad():
                X, y, kernel = self.train_inputs[0], self.train_targets, self.covar_module
                diagonal = float(self.likelihood.noise) + self.jitter
                values = kernel.values
                factor = factorise_on_device(lambda: torch_backend.gram(kernel.program, values, X), diagonal)
                if isinstance(factor, Failure):
                    raise NumericalError(f"no predictions: {factor.reason}; try a larger noise")
                sides = torch.stack([y - self.mean_module.constant, torch.ones_like(y)], 1)
                alpha, pull = factor.backward(factor.forward(sides)).mT.contiguous()
                self._solved = torch.tril(factor.lower), alpha, pull
        return self._solved

    def encode(self, table: Any) -> Tensor:
        """Return a table like the one that was learned from as the rows of numbers that the model takes."""
        return torch.tensor(read_table(table, self.columns))

    def get_fantasy_model(self, inputs: Any, targets: Any, **kwargs: Any) -> Any:
        """Refused: new rows are given to a copy of the model, by set_train_data(inputs, targets, strict=False)."""
        raise InputError(
            "an exported model makes no fantasies: copy it, and give it all rows by "
            "set_train_data(inputs, targets, strict=False)"
        )

    # whatever changes what was worked out
    def train(self, mode: bool = True) -> Any:
        """Switch to training, or (False) to predicting."""
        self._solved = None
        return super().train(mode)

    def set_train_data(self, inputs: Any = None, targets: Any = None, strict: bool = True) -> None:
        """Give the model other rows."""
        self._solved = None
        super().set_train_data(inputs, targets, strict)

    def _apply(self, fn: Any) -> Any:
        """Move to another device; another precision is refused, in which the covariance could not be factorised."""
        if fn(torch.zeros(1, dtype=torch.float64)).dtype != torch.float64:
            raise InputError("an exported model computes in float64, and takes rows of any precision: leave it there")
        self._solved = None
        return super()._apply(fn)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Read parameters back."""
        self._solved = None
        return super().load_state_dict(*args, **kwargs)


def make_gpytorch(exported: Exported) -> MercerGP:
    """Return the first member as a GPyTorch model in eval mode."""
    return MercerGP(exported.members[0], exported.columns)
