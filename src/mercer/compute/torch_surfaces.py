"""Change surfaces in PyTorch, over pairs and candidates: the gate s_i(x) s_i(x') as a leaf of the reference back end.

Its gradient is autograd's: independent of the one that is written out in surfaces.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mercer.compute.nodes import Leaf
from mercer.compute.torch_leaves import Pairs
from mercer.kernels.blend import Surface


def gate(leaf: Leaf, pairs: Pairs, parameters: Sequence[Tensor]) -> Tensor:
    """s_i(x) s_i(x') on the columns of the leaf, (B, M)."""
    assert leaf.surface is not None
    left, right = (_share(leaf.surface, leaf.regime, side, parameters) for side in (pairs.left, pairs.right))
    return left * right


def gate_reverse(leaf: Leaf, pairs: Pairs, adjoint: Tensor, parameters: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """By each parameter: the sum over pairs of adjoint * d(gate)/d(parameter)."""
    with torch.enable_grad():
        own = [parameter.detach().requires_grad_() for parameter in parameters]
        total = (gate(leaf, pairs, own) * adjoint).sum()
        slopes = torch.autograd.grad(total, own, allow_unused=True)
    return tuple(torch.zeros_like(p) if s is None else s for p, s in zip(own, slopes, strict=True))


def _share(surface: Surface, regime: int, x: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """s of one regime at points x (columns, M), (B, M)."""
    if surface.kind == "CP":
        location, width = parameters
        result = x.new_ones(len(location), x.shape[1])
        for k in range(min(regime + 1, surface.regimes - 1)):
            step = (x - location[:, k : k + 1]) / width[:, k : k + 1]
            result = result * torch.sigmoid(-step if k == regime else step)
        return result
    if surface.kind == "CW":
        start, duration, width = parameters
        inside = torch.sigmoid((x - start) / width) * torch.sigmoid((start + duration - x) / width)
        return inside if regime == 1 else 1 - inside
    functions = _functions(surface, x, parameters)
    everyone = torch.cat([torch.zeros_like(functions[:, :1]), functions], 1)
    return torch.softmax(everyone, 1)[:, regime]


def _functions(surface: Surface, x: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """w_2 ... w_r, (B, regimes - 1, M)."""
    count, columns = surface.components, len(x)
    if surface.kind == "linear":
        slope, bias = parameters
        return slope.reshape(-1, count, columns) @ x + bias[:, :, None]
    if surface.kind == "rks":
        weights, frequency, phase = parameters
        features = torch.cos(2 * torch.pi * (frequency.reshape(-1, count, columns) @ x) + phase[:, :, None])
    else:
        weights, centres, lengthscale = parameters
        away = (x - centres.reshape(-1, count, columns, 1)) / lengthscale[:, None, :, None]
        features = torch.exp(-0.5 * away.square().sum(2))
    return (weights[:, :, None] * features).unflatten(1, (surface.regimes - 1, surface.features)).sum(2)
