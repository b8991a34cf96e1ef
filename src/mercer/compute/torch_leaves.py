"""The leaves of the PyTorch back end: each base kernel over many pairs and candidates, forward and in reverse.

Forward takes the pairs on the columns of the leaf (d columns, M pairs) and its parameters, (B, d) each, and returns a
new (B, M) tensor. Reverse takes also the adjoint, (B, M), which it must not change, and returns the gradient by each
parameter, (B, d) each: the sum over pairs of adjoint * d(leaf)/d(parameter).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from mercer.compute.leaves import TORCH, Batched, batched_functions
from mercer.compute.program import LeafNode
from mercer.kernels.blend import Surface

# The least square that a root is taken of: the slope of sqrt stays finite there, and is multiplied by d^2 = 0.
SMALLEST_SQUARE = 1e-200


@dataclass(frozen=True)
class Pairs:
    """M pairs of points: `left` and `right` are (columns, M)."""

    left: Tensor
    right: Tensor

    @property
    def count(self) -> int:
        return self.left.shape[1]

    @cached_property
    def difference(self) -> Tensor:
        """x - x' in each column."""
        return self.left - self.right

    @cached_property
    def squares(self) -> Tensor:
        """(x - x')^2 in each column."""
        return self.difference.square()

    @cached_property
    def middle(self) -> Tensor:
        """The middle of the range of each column, (columns, 1)."""
        return (self.left.amin(1, keepdim=True) + self.left.amax(1, keepdim=True)) / 2

    @cached_property
    def _selections(self) -> dict[tuple[int, ...], Pairs]:
        return {}

    def on(self, dims: tuple[int, ...]) -> Pairs:
        """Return the pairs seen on some columns only; leaves on the same columns share what they work out."""
        if dims not in self._selections:
            sides = (torch.stack([side[d] for d in dims]) for side in (self.left, self.right))
            self._selections[dims] = Pairs(*sides)
        return self._selections[dims]


def multiply(parts: Sequence[Tensor | None], like: Tensor) -> Tensor:
    """Return the product of those that are not None, a new tensor or one of them; 1 where there are none."""
    result: Tensor | None = None
    for part in parts:
        if part is not None:
            result = part if result is None else result * part
    return like.new_ones(1, 1) if result is None else result


def _weigh(weights: Tensor, columns: Tensor) -> Tensor:
    """sum_d weights_d columns_d for every candidate and pair: (B, d), (d, M) -> (B, M)."""
    return weights * columns if len(columns) == 1 else weights @ columns


def _over_pairs(adjoint: Tensor, columns: Tensor) -> Tensor:
    """Sum over pairs of adjoint * columns: (B, M), (d, M) -> (B, d)."""
    return adjoint @ columns.T


def _scaled_square(x: Pairs, lengthscale: Tensor) -> Tensor:
    """r^2 = sum d^2 / l^2."""
    return _weigh(lengthscale**-2, x.squares)


def _by_lengthscale(x: Pairs, by_square: Tensor, lengthscale: Tensor) -> Tensor:
    """From the adjoint of r^2 to the gradient by l: d r^2 / dl = -2 d^2 / l^3."""
    return _over_pairs(by_square, x.squares) * (-2 * lengthscale**-3)


def _se(x: Pairs, lengthscale: Tensor) -> Tensor:
    """-r^2 / 2."""
    return _weigh(-0.5 * lengthscale**-2, x.squares)


def _se_reverse(x: Pairs, adjoint: Tensor, lengthscale: Tensor) -> tuple[Tensor, ...]:
    return (_over_pairs(adjoint, x.squares) * lengthscale**-3,)


def _rq(x: Pairs, lengthscale: Tensor, alpha: Tensor) -> Tensor:
    """-a log(1 + z), z = r^2 / 2a."""
    return _weigh(0.5 / alpha * lengthscale**-2, x.squares).log1p_().mul_(-alpha)


def _rq_reverse(x: Pairs, adjoint: Tensor, lengthscale: Tensor, alpha: Tensor) -> tuple[Tensor, ...]:
    """By z: -a / (1 + z). By a, l kept: -log(1 + z) + z / (1 + z), as dz/da = -z / a."""
    z = _weigh(0.5 / alpha * lengthscale**-2, x.squares)
    share = adjoint / (1 + z)
    by_lengthscale = _over_pairs(share, x.squares) * lengthscale**-3
    by_alpha = share.mul_(z).sum(1, keepdim=True) - z.log1p_().mul_(adjoint).sum(1, keepdim=True)
    return by_lengthscale, by_alpha


def _radius(x: Pairs, lengthscale: Tensor, factor: float) -> Tensor:
    """sqrt(factor) r, kept away from 0 by a hair."""
    return _scaled_square(x, lengthscale).mul_(factor).clamp_min_(SMALLEST_SQUARE).sqrt_()


def _m12(x: Pairs, lengthscale: Tensor) -> Tensor:
    """-r."""
    return -_radius(x, lengthscale, 1)


def _m12_reverse(x: Pairs, adjoint: Tensor, lengthscale: Tensor) -> tuple[Tensor, ...]:
    """By r^2: -1 / 2r."""
    return (_by_lengthscale(x, adjoint / _radius(x, lengthscale, 1).mul_(-2), lengthscale),)


def _m32(x: Pairs, lengthscale: Tensor) -> Tensor:
    """log(1 + u) - u, u = sqrt3 r."""
    u = _radius(x, lengthscale, 3)
    return u.log1p().sub_(u)


def _m32_reverse(x: Pairs, adjoint: Tensor, lengthscale: Tensor) -> tuple[Tensor, ...]:
    """By r^2: (-u / (1 + u)) (3 / 2u) = -1.5 / (1 + u)."""
    u = _radius(x, lengthscale, 3)
    return (_by_lengthscale(x, adjoint / u.add_(1).div_(-1.5), lengthscale),)


def _m52(x: Pairs, lengthscale: Tensor) -> Tensor:
    """log(1 + u + u^2 / 3) - u, u = sqrt5 r."""
    u = _radius(x, lengthscale, 5)
    return (u / 3).add_(1).mul_(u).log1p_().sub_(u)


def _m52_reverse(x: Pairs, adjoint: Tensor, lengthscale: Tensor) -> tuple[Tensor, ...]:
    """By r^2: (-(u / 3) (1 + u) / (1 + u + u^2 / 3)) (5 / 2u) = -(5 / 6) (1 + u) / (1 + u + u^2 / 3)."""
    u = _radius(x, lengthscale, 5)
    slope = (u + 1).div_((u / 3).add_(1).mul_(u).add_(1)).mul_(-5 / 6)
    return (_by_lengthscale(x, slope.mul_(adjoint), lengthscale),)


def _envelope(x: Pairs, bandwidth: Tensor) -> Tensor:
    """-2 pi^2 sum b^2 d^2."""
    return _weigh(-2 * math.pi**2 * bandwidth**2, x.squares)


def _envelope_reverse(x: Pairs, adjoint: Tensor, bandwidth: Tensor) -> tuple[Tensor, ...]:
    return (_over_pairs(adjoint, x.squares) * (-4 * math.pi**2 * bandwidth),)


def _angles(x: Pairs, period: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """t = 2 pi d / p, (B, M), column by column."""
    for d in range(len(x.difference)):
        one = slice(d, d + 1)
        yield one, (2 * math.pi / period[:, one]) * x.difference[one]


def _per(x: Pairs, period: Tensor, lengthscale: Tensor) -> Tensor:
    """Sum q (cos t - 1), q = 1 / l^2."""
    q = lengthscale**-2
    total = -q.sum(1, keepdim=True)
    for one, angle in _angles(x, period):
        total = torch.addcmul(total, angle.cos_(), q[:, one])
    return total


def _per_reverse(x: Pairs, adjoint: Tensor, period: Tensor, lengthscale: Tensor) -> tuple[Tensor, ...]:
    """By q: cos t - 1. By p: q sin t (2 pi d / p^2)."""
    by_q, by_period = torch.empty_like(lengthscale), torch.empty_like(period)
    for one, angle in _angles(x, period):
        by_q[:, one] = angle.cos().mul_(adjoint).sum(1, keepdim=True)
        by_period[:, one] = _over_pairs(angle.sin_().mul_(adjoint), x.difference[one])
    by_q -= adjoint.sum(1, keepdim=True)
    return by_period * (2 * math.pi * (lengthscale * period) ** -2), by_q * (-2 * lengthscale**-3)


def _cper(x: Pairs, period: Tensor, lengthscale: Tensor) -> Tensor:
    """(e - I0e(q)) / (1 - I0e(q)) = 1 + (e - 1) / h, e = exp(q (cos t - 1)), h = 1 - I0e(q), q = 1 / l^2."""
    return 1 + _per(x, period, lengthscale).expm1_() / _one_less_i0e(lengthscale**-2)


def _cper_reverse(x: Pairs, adjoint: Tensor, period: Tensor, lengthscale: Tensor) -> tuple[Tensor, ...]:
    """By the exponent of e: e / h, and on as PER. By q through h: -(e - 1) h' / h^2, h' = I0e(q) - I1e(q)."""
    q = lengthscale**-2
    h = _one_less_i0e(q)
    less = _per(x, period, lengthscale).expm1_()  # e - 1
    through_h = (less * adjoint).sum(1, keepdim=True) * (torch.special.i1e(q) - torch.special.i0e(q)) / h**2
    by_period, by_lengthscale = _per_reverse(x, less.add_(1).div_(h).mul_(adjoint), period, lengthscale)
    return by_period, by_lengthscale + through_h * (-2 * lengthscale**-3)


def _one_less_i0e(q: Tensor) -> Tensor:
    """1 - exp(-q) I0(q), to full precision also for small q, where it is nearly q.

    There it is (1 - exp(-q)) - exp(-q) (I0(q) - 1) with I0(q) - 1 = sum_k (q^2 / 4)^k / k!^2, k from 1.
    """
    small = q.clamp(max=1.0)
    quarter, series = small**2 / 4, torch.zeros_like(q)
    for k in range(10, 0, -1):
        series = (series + 1) * quarter / k**2
    return torch.where(q < 1, -torch.expm1(-small) - torch.exp(-small) * series, 1 - torch.special.i0e(q))


def _lin(x: Pairs, offset: Tensor, weights: Tensor) -> Tensor:
    """Sum w (x - c)(x' - c); each side takes sqrt(w), so that the matrix is symmetric to the last bit."""
    root = weights.sqrt()
    total: Tensor | None = None
    for d in range(len(x.left)):
        slope = root[:, d : d + 1]
        start = -slope * offset[:, d : d + 1]
        left, right = (torch.addcmul(start, slope, side[d]) for side in (x.left, x.right))
        total = left.mul_(right) if total is None else total.addcmul_(left, right)
    assert total is not None
    return total


def _lin_reverse(x: Pairs, adjoint: Tensor, offset: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
    """By c: -w (x + x' - 2c). By w: x x' - c (x + x') + c^2. All columns counted from the middle of the data."""
    left, right, c = x.left - x.middle, x.right - x.middle, offset - x.middle.T
    products, sums = _over_pairs(adjoint, left * right), _over_pairs(adjoint, left + right)
    total = adjoint.sum(1, keepdim=True)
    return weights * (2 * c * total - sums), products - c * sums + c**2 * total


def _cos(x: Pairs, frequency: Tensor) -> Tensor:
    """cos(2 pi f.d)."""
    return _weigh(2 * math.pi * frequency, x.difference).cos_()


def _cos_reverse(x: Pairs, adjoint: Tensor, frequency: Tensor) -> tuple[Tensor, ...]:
    sine = _weigh(2 * math.pi * frequency, x.difference).sin_()
    return (_over_pairs(sine.mul_(adjoint), x.difference) * (-2 * math.pi),)


def _sin(x: Pairs, frequency: Tensor) -> Tensor:
    """sin(2 pi f.d)."""
    return _weigh(2 * math.pi * frequency, x.difference).sin_()


def _sin_reverse(x: Pairs, adjoint: Tensor, frequency: Tensor) -> tuple[Tensor, ...]:
    cosine = _weigh(2 * math.pi * frequency, x.difference).cos_()
    return (_over_pairs(cosine.mul_(adjoint), x.difference) * (2 * math.pi),)


def _phases(x: Pairs, frequency: Tensor, offset: Tensor) -> tuple[Tensor, Tensor]:
    """2 pi f.(x - c) on both sides."""
    start = (frequency * offset).sum(1, keepdim=True)
    left, right = (_weigh(frequency, side).sub(start).mul_(2 * math.pi) for side in (x.left, x.right))
    return left, right


def _sumi(x: Pairs, frequency: Tensor, offset: Tensor) -> Tensor:
    """cos(2 pi f.(x - c)) cos(2 pi f.(x' - c))."""
    left, right = _phases(x, frequency, offset)
    return left.cos_() * right.cos_()


def _sumi_reverse(x: Pairs, adjoint: Tensor, frequency: Tensor, offset: Tensor) -> tuple[Tensor, ...]:
    """With phases s, t: by f -2 pi (sin s cos t (x - c) + cos s sin t (x' - c)); by c 2 pi f sin(s + t)."""
    s, t = _phases(x, frequency, offset)
    one, other = s.sin().mul_(t.cos()).mul_(adjoint), s.cos().mul_(t.sin()).mul_(adjoint)
    total = (one + other).sum(1, keepdim=True)
    by_frequency = _over_pairs(one, x.left) + _over_pairs(other, x.right) - total * offset
    return by_frequency * (-2 * math.pi), total * frequency * (2 * math.pi)


def _wn(x: Pairs) -> Tensor:
    """[x = x'], the same for all candidates: (1, M)."""
    return (x.left == x.right).all(0, keepdim=True).to(x.left.dtype)


def _wn_reverse(x: Pairs, adjoint: Tensor) -> tuple[Tensor, ...]:
    return ()


def _cat(x: Pairs, correlation: Tensor) -> Tensor:
    """1 where x = x', else the correlation."""
    same = (x.left == x.right).to(x.left.dtype)
    return correlation + (1 - correlation) * same


def _cat_reverse(x: Pairs, adjoint: Tensor, correlation: Tensor) -> tuple[Tensor, ...]:
    return (_over_pairs(adjoint, (x.left != x.right).to(x.left.dtype)),)


def _ecat(x: Pairs, places: Tensor) -> Tensor:
    """-(u - u')^2 / 2, u the places of the categories; see `ecat_forward` for values that are not known."""
    table = torch.cat([torch.zeros_like(places[:, :1]), places], 1)
    known = [(side[0] >= 0) & (side[0] <= places.shape[1]) & (side[0] == side[0].floor()) for side in (x.left, x.right)]
    left, right = (
        table[:, torch.where(found, side[0], 0.0).long()] * found.to(table.dtype)
        for found, side in zip(known, (x.left, x.right), strict=True)
    )
    apart = (~known[0]).to(table.dtype) + (~known[1]).to(table.dtype)
    return -0.5 * ((left - right).square() + apart) * (x.left[0] != x.right[0]).to(table.dtype)


def _from_origin(x: Pairs, origin: Tensor) -> tuple[Tensor, Tensor]:
    """a = x - o and b = x' - o on the one column, (B, M) each."""
    return x.left - origin, x.right - origin


def _rw(x: Pairs, origin: Tensor) -> Tensor:
    """(|a| + |b| - |a - b|) / 2."""
    a, b = _from_origin(x, origin)
    return (a.abs() + b.abs() - x.difference.abs()) / 2


def _rw_reverse(x: Pairs, adjoint: Tensor, origin: Tensor) -> tuple[Tensor, ...]:
    """By o: -(sgn a + sgn b) / 2."""
    a, b = _from_origin(x, origin)
    return ((a.sign() + b.sign()).mul_(adjoint).sum(1, keepdim=True) / -2,)


def _irw(x: Pairs, origin: Tensor) -> Tensor:
    """m^2 (3 M - m) / 6 where a and b have the same sign."""
    a, b = _from_origin(x, origin)
    least, most = torch.minimum(a.abs(), b.abs()), torch.maximum(a.abs(), b.abs())
    return torch.where(a * b > 0, least.square() * (3 * most - least) / 6, 0.0)


def _irw_reverse(x: Pairs, adjoint: Tensor, origin: Tensor) -> tuple[Tensor, ...]:
    """By o: -sgn(a) (m M - m^2 / 2 + m^2 / 2) = -sgn(a) m M = -sgn(a) a b."""
    a, b = _from_origin(x, origin)
    slope = torch.where(a * b > 0, a.sign() * a * b, 0.0)
    return (-(slope * adjoint).sum(1, keepdim=True),)


def _damp(u: Tensor) -> Tensor:
    """h(u) = exp(-u) - 1 + u, u >= 0; near zero by its series, which loses no digits."""
    small = u.clamp(max=0.5)
    series = torch.ones_like(u)
    for k in range(16, 2, -1):
        series = 1 - small / k * series
    return torch.where(u > 0.5, torch.exp(-u) - 1 + u, small.square() / 2 * series)


def _damped_by_length(u: Tensor) -> Tensor:
    """2 h(u) - u h'(u): the sum over k >= 3 of (-1)^(k-1) (k - 2) u^k / k!."""
    small = u.clamp(max=0.5)
    total, term = torch.zeros_like(u), small.square() / 2
    for k in range(3, 18):
        term = term * (-small / k)
        total = total - (k - 2) * term
    less = torch.expm1(-u)
    return torch.where(u > 0.5, 2 * (less + u) + u * less, total)


def _rise_by_length(u: Tensor) -> Tensor:
    """1 - (1 + u) exp(-u): the sum over k >= 2 of (-1)^k (k - 1) u^k / k!."""
    small = u.clamp(max=0.5)
    total, term = torch.zeros_like(u), -small
    for k in range(2, 18):
        term = term * (-small / k)
        total = total + (k - 1) * term
    return torch.where(u > 0.5, 1 - (1 + u) * torch.exp(-u), total)


def _sides(x: Pairs, lengthscale: Tensor, origin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Whether both are on one side of the origin, and the smaller and the larger distance from it over l."""
    a, b = _from_origin(x, origin)
    near, far = torch.minimum(a.abs(), b.abs()), torch.maximum(a.abs(), b.abs())
    return a * b > 0, near / lengthscale, far / lengthscale


def _iou(x: Pairs, lengthscale: Tensor, origin: Tensor) -> Tensor:
    """l^2 (2 h(m) + E(m) E(M - m)) on one side, else -l^2 E(m) E(M); m, M over l, E(u) = 1 - exp(-u)."""
    same, near, far = _sides(x, lengthscale, origin)
    together = 2 * _damp(near) + torch.expm1(-near) * torch.expm1(near - far)
    return torch.where(same, together, -torch.expm1(-near) * torch.expm1(-far)) * lengthscale**2


def _iou_reverse(x: Pairs, adjoint: Tensor, lengthscale: Tensor, origin: Tensor) -> tuple[Tensor, ...]:
    """By l, with P(u) = E(u) - u exp(-u): l (2 (2h - m h') + E(M - m) P(m) + E(m) P(M - m)), or -l (E(M) P(m) + ...).

    By o: -l (sgn a E(|a| / l) + sgn b E(|b| / l)).
    """
    same, near, far = _sides(x, lengthscale, origin)
    second = torch.where(same, far - near, far)
    both = torch.expm1(-second) * _rise_by_length(near) + torch.expm1(-near) * _rise_by_length(second)
    slope = torch.where(same, 2 * _damped_by_length(near) - both, both)
    by_length = (slope * adjoint).sum(1, keepdim=True) * lengthscale
    rising = sum(side.sign() * torch.expm1(-side.abs() / lengthscale) for side in _from_origin(x, origin))
    return by_length, (rising * adjoint).sum(1, keepdim=True) * lengthscale


TORCH |= {
    "RW": Batched(_rw, _rw_reverse),
    "IRW": Batched(_irw, _irw_reverse),
    "IOU": Batched(_iou, _iou_reverse),
    "SE": Batched(_se, _se_reverse),
    "RQ": Batched(_rq, _rq_reverse),
    "M12": Batched(_m12, _m12_reverse),
    "M32": Batched(_m32, _m32_reverse),
    "M52": Batched(_m52, _m52_reverse),
    "ENVELOPE": Batched(_envelope, _envelope_reverse),
    "PER": Batched(_per, _per_reverse),
    "CPER": Batched(_cper, _cper_reverse),
    "LIN": Batched(_lin, _lin_reverse),
    "COS": Batched(_cos, _cos_reverse),
    "WN": Batched(_wn, _wn_reverse),
    "CAT": Batched(_cat, _cat_reverse),
    "ECAT": Batched(_ecat),
    "SIN": Batched(_sin, _sin_reverse),
    "SUMI": Batched(_sumi, _sumi_reverse),
}


# ------------------------------------------------------------------------------------------------- leaves of programs


def leaf_values(node: LeafNode, pairs: Pairs, parameters: Sequence[Tensor]) -> Tensor:
    """Return a leaf's value or logarithm at all pairs, (B, M) or what broadcasts to it."""
    own = pairs.on(node.dims)
    if node.surface is None:
        return batched_functions(node.kind).forward(own, *parameters)
    left, right = (_share(node.surface, node.regime, side, parameters) for side in (own.left, own.right))
    return left * right


def leaf_gradient(node: LeafNode, pairs: Pairs, adjoint: Tensor, parameters: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return by each parameter the sum over pairs of adjoint * d(leaf)/d(parameter).

    Autograd works it out for gates (so it does not depend on what is written out in surfaces.py), and where a leaf from
    outside leaves it to it.
    """
    reverse = None if node.surface is not None else batched_functions(node.kind).reverse
    if reverse is not None:
        return reverse(pairs.on(node.dims), adjoint, *parameters)
    with torch.enable_grad():
        own = [parameter.detach().requires_grad_() for parameter in parameters]
        total = (leaf_values(node, pairs, own) * adjoint).sum()
        slopes = torch.autograd.grad(total, own, allow_unused=True) if own else ()
    return tuple(torch.zeros_like(p) if s is None else s for p, s in zip(own, slopes, strict=True))


# ------------------------------------------------------------------------------------------ change surfaces, for gates


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
    waves = weights[:, :, None] * features
    return waves.reshape(len(waves), surface.regimes - 1, surface.features, -1).sum(2)
