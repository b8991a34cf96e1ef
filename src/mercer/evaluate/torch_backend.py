"""Runs a program with PyTorch: many candidates at once, on CPU or CUDA, in float64. The reference back end.

Shapes: B candidates (rows of `values`), N points, D columns, M pairs of points. A node is a (B, M) tensor, or one that
broadcasts to it. What depends on the inputs alone (differences, squares) is (D, M), shared by all candidates.

A Gram matrix is filled strip by strip: rows [first, last) against columns [0, last), the part right of the diagonal
mirrored. A strip is small enough for its temporaries to stay in the cache (CPU) or the L2 (CUDA), which bounds the
memory too: it does not grow with N^2 times the number of nodes.

Gradients come from a reverse sweep written by hand: `contract` visits the program backwards, strip by strip, and every
leaf turns its adjoint into sums over pairs. That takes a third of autograd's memory traffic and keeps nothing between
strips. `gram` is also differentiable by autograd, which the tests use to check the sweep.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from mercer.evaluate.program import LOG_KINDS, Affine, Leaf, LeafKind, Program, Term

# How many numbers a node holds at a time. CUDA: enough to keep the machine busy for longer than a launch takes.
BLOCK_CPU = 1 << 17
BLOCK_CUDA = 1 << 23
# Strips per matrix, unless they would be too large: eight visit 9/16 of the square instead of one half.
STRIPS = 8
# The least square that a root is taken of: the slope of sqrt stays finite there, and is multiplied by d^2 = 0.
SMALLEST_SQUARE = 1e-200


# ------------------------------------------------------------------------------------------------------- entry points


def gram(program: Program, values: Tensor, X: Tensor) -> Tensor:
    """Return K(X, X): (N, N) for values (P,), or (B, N, N) for values (B, P)."""
    batch = torch.atleast_2d(values)
    n = len(X)
    result = X.new_empty(len(batch), n, n)
    for strip, pairs in _strips(X, len(batch)):
        rows, width = strip.stop - strip.start, strip.stop
        for some in _candidates(len(batch), rows * width, X):
            block = _forward(program, batch[some], pairs).view(-1, rows, width)
            result[some, strip, :width] = block
            if strip.start:
                result[some, : strip.start, strip] = block[..., : strip.start].mT
    return result if values.ndim == 2 else result[0]


def cross(program: Program, values: Tensor, X: Tensor, Z: Tensor) -> Tensor:
    """Return K(X, Z): (N, M) for values (P,), or (B, N, M) for values (B, P)."""
    batch = torch.atleast_2d(values)
    result = X.new_empty(len(batch), len(X), len(Z))
    rows = max(1, _block(X) // max(1, len(Z)))
    for first in range(0, len(X), rows):
        strip = slice(first, min(first + rows, len(X)))
        pairs = _all_pairs(X[strip], Z)
        for some in _candidates(len(batch), pairs.count, X):
            result[some, strip] = _forward(program, batch[some], pairs).view(-1, strip.stop - first, len(Z))
    return result if values.ndim == 2 else result[0]


def diagonal(program: Program, values: Tensor, X: Tensor) -> Tensor:
    """Return k(x, x) for every row of X: (N,) for values (P,), or (B, N) for values (B, P)."""
    columns = X.T.contiguous()
    result = _forward(program, torch.atleast_2d(values), Pairs(columns, columns))
    return result if values.ndim == 2 else result[0]


@torch.no_grad()
def contract(program: Program, values: Tensor, X: Tensor, weights: Tensor) -> Tensor:
    """Return sum_ij weights_ij dK_ij / dvalues, shaped as `values`; `weights` (B, N, N) or (N, N) must be symmetric."""
    batch = torch.atleast_2d(values)
    square = weights.expand(len(batch), len(X), len(X))
    gradient = torch.zeros_like(batch)
    for strip, pairs in _strips(X, len(batch)):
        rows, width = strip.stop - strip.start, strip.stop
        for some in _candidates(len(batch), rows * width, X):
            block = square[some, strip, :width].clone(memory_format=torch.contiguous_format)
            block[..., : strip.start] *= 2  # for the mirror images
            gradient[some] += _reverse(program, batch[some], pairs, block.view(-1, rows * width))
    return gradient if values.ndim == 2 else gradient[0]


# --------------------------------------------------------------------------------------------------- pairs and strips


@dataclass(frozen=True)
class Pairs:
    """M pairs of points: `left` and `right` are (columns, M)."""

    left: Tensor
    right: Tensor

    @property
    def count(self) -> int:
        """The number of pairs."""
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


def _all_pairs(X: Tensor, Z: Tensor) -> Pairs:
    shape = (X.shape[1], len(X), len(Z))
    return Pairs(X.T[:, :, None].expand(shape).flatten(1), Z.T[:, None, :].expand(shape).flatten(1))


def _block(X: Tensor) -> int:
    return BLOCK_CUDA if X.is_cuda else BLOCK_CPU


def _strips(X: Tensor, batch: int) -> Iterator[tuple[slice, Pairs]]:
    """Yield row ranges [first, last) with the pairs of these rows and the columns [0, last)."""
    n = len(X)
    whole = batch * n * n <= _block(X) // STRIPS  # so little that fewer launches count for more than fewer pairs
    rows = n if whole else max(1, min(-(-n // STRIPS), _block(X) // n))
    for first in range(0, n, rows):
        last = min(first + rows, n)
        yield slice(first, last), _all_pairs(X[first:last], X[:last])


def _candidates(batch: int, pairs: int, X: Tensor) -> Iterator[slice]:
    """Split the batch so that a node of one part fits the block."""
    step = max(1, _block(X) // max(1, pairs))
    for first in range(0, batch, step):
        yield slice(first, min(first + step, batch))


# --------------------------------------------------------------------------------------------------------- the sweeps


@dataclass
class _Tape:
    """Values of the nodes, and exp(sum of logs) of the terms; logarithmic leaves are worked out inside their terms."""

    values: dict[int, Tensor]
    exponentials: dict[int, Tensor | None]


def _forward(program: Program, values: Tensor, pairs: Pairs) -> Tensor:
    """Return the kernel of every pair, (B, M)."""
    tape = _Tape({}, {})
    for number in range(len(program.nodes)):
        _evaluate(program, number, values, pairs, tape)
        for done in _last_uses(program)[number]:
            tape.values.pop(done, None)
        tape.exponentials.clear()
    return tape.values[len(program.nodes) - 1].expand(len(values), pairs.count)


def _evaluate(program: Program, number: int, values: Tensor, pairs: Pairs, tape: _Tape) -> None:
    node = program.nodes[number]
    if isinstance(node, Leaf):
        if node.kind not in LOG_KINDS:
            forward, _ = LEAVES[node.kind]
            tape.values[number] = forward(pairs.on(node.dims), *_parameters(node, values))
    elif isinstance(node, Term):
        tape.exponentials[number] = exponential = _exponential(program, node, values, pairs)
        tape.values[number] = _product(exponential, [tape.values[i] for i in node.factors], values)
    else:
        total: Tensor | None = None
        for child, places in zip(node.children, node.weights, strict=True):
            value, weight = tape.values[child], _weight(values, places)
            total = weight * value.expand(-1, pairs.count) if total is None else total.addcmul_(weight, value)
        assert total is not None, "an Affine has at least one child"
        tape.values[number] = total


def _exponential(program: Program, term: Term, values: Tensor, pairs: Pairs) -> Tensor | None:
    """exp(sum of the log leaves); None where there are none."""
    total: Tensor | None = None
    for number in term.logs:
        leaf = program.nodes[number]
        assert isinstance(leaf, Leaf), "only leaves give logarithms"
        forward, _ = LEAVES[leaf.kind]
        logarithm = forward(pairs.on(leaf.dims), *_parameters(leaf, values))
        total = logarithm if total is None else total.add_(logarithm)
    return None if total is None else total.exp_()


def _product(first: Tensor | None, factors: Sequence[Tensor], values: Tensor) -> Tensor:
    parts = ([] if first is None else [first]) + list(factors)
    if not parts:
        return values.new_ones(1, 1)
    result = parts[0]
    for part in parts[1:]:
        result = result * part
    return result


def _reverse(program: Program, values: Tensor, pairs: Pairs, weights: Tensor) -> Tensor:
    """Return the sum over pairs of weights (B, M) times d(kernel)/d(values), (B, P).

    An adjoint is kept as a number for each candidate and a (B, M) array: the weights of sums multiply only the former.
    """
    root = len(program.nodes) - 1
    tape = _Tape({}, {})
    for number in range(root + isinstance(program.nodes[root], Term)):  # nobody asks for the value of a root sum
        _evaluate(program, number, values, pairs, tape)
    gradient = torch.zeros_like(values)
    adjoints = {root: (torch.ones_like(values[:, :1]), weights)}
    for number in reversed(range(root + 1)):
        if number in adjoints:
            _pull_back(program, number, values, pairs, tape, adjoints, gradient)
        tape.values.pop(number, None)
        tape.exponentials.pop(number, None)
    return gradient


Adjoints = dict[int, tuple[Tensor, Tensor]]


def _pull_back(
    program: Program, number: int, values: Tensor, pairs: Pairs, tape: _Tape, adjoints: Adjoints, gradient: Tensor
) -> None:
    """Pass the adjoint of one node on to its parts and its parameters."""
    node = program.nodes[number]
    scale, array = adjoints.pop(number)
    if isinstance(node, Leaf):
        _add_leaf_gradient(node, values, pairs, scale, array, gradient)
    elif isinstance(node, Term):
        exponential = tape.exponentials[number]
        if node.logs:
            by_logarithm = array * tape.values[number]  # the same for every log: d exp(s) = exp(s) ds
            for log in node.logs:
                leaf = program.nodes[log]
                assert isinstance(leaf, Leaf)
                _add_leaf_gradient(leaf, values, pairs, scale, by_logarithm, gradient)
        for i, factor in enumerate(node.factors):
            others = [tape.values[other] for k, other in enumerate(node.factors) if k != i]
            _add_adjoint(adjoints, factor, scale, array * _product(exponential, others, values))
    else:
        for child, places in zip(node.children, node.weights, strict=True):
            by_weight = scale * (array * tape.values[child]).sum(1, keepdim=True)
            for i, place in enumerate(places):
                gradient[:, place : place + 1] += by_weight * _weight(values, places[:i] + places[i + 1 :])
            _add_adjoint(adjoints, child, scale * _weight(values, places), array)


def _add_adjoint(adjoints: Adjoints, number: int, scale: Tensor, array: Tensor) -> None:
    if number in adjoints:  # a node with several uses: from here on one array
        old_scale, old_array = adjoints[number]
        scale, array = torch.ones_like(scale), (old_scale * old_array).addcmul_(scale, array)
    adjoints[number] = scale, array


def _add_leaf_gradient(
    leaf: Leaf, values: Tensor, pairs: Pairs, scale: Tensor, array: Tensor, gradient: Tensor
) -> None:
    _, reverse = LEAVES[leaf.kind]
    parameters = _parameters(leaf, values)
    parts = reverse(pairs.on(leaf.dims), array, *parameters)
    for offset, part in zip(leaf.offsets, parts, strict=True):
        gradient[:, offset : offset + part.shape[1]] += scale * part


def _parameters(leaf: Leaf, values: Tensor) -> list[Tensor]:
    """The parameter blocks of a leaf, (B, number of its columns) each; alpha of RQ is (B, 1)."""
    sizes = (len(leaf.dims), 1) if leaf.kind is LeafKind.RQ else (len(leaf.dims),) * len(leaf.offsets)
    return [values[:, offset : offset + size] for offset, size in zip(leaf.offsets, sizes, strict=True)]


def _weight(values: Tensor, places: tuple[int, ...]) -> Tensor:
    """The product of some values of each candidate, (B, 1)."""
    if not places:
        return torch.ones_like(values[:, :1])
    return math.prod((values[:, i : i + 1] for i in places[1:]), start=values[:, places[0] : places[0] + 1])


@lru_cache(maxsize=4096)
def _last_uses(program: Program) -> tuple[tuple[int, ...], ...]:
    """For each node, the nodes that are not needed after it."""
    last: dict[int, int] = {}
    for number, node in enumerate(program.nodes):
        parts = node.factors if isinstance(node, Term) else node.children if isinstance(node, Affine) else ()
        last.update(dict.fromkeys(parts, number))
    done: list[list[int]] = [[] for _ in program.nodes]
    for part, number in last.items():
        done[number].append(part)
    return tuple(map(tuple, done))


# --------------------------------------------------------------------------------------------------------- the leaves
#
# Forward takes the pairs on the columns of the leaf (d columns, M pairs) and its parameters, (B, d) each, and returns a
# new (B, M) tensor. Reverse takes also the adjoint, (B, M), which it must not change, and returns the gradient by each
# parameter, (B, d) each: the sum over pairs of adjoint * d(leaf)/d(parameter).


def _weighted(weights: Tensor, columns: Tensor) -> Tensor:
    """sum_d weights_d columns_d for every candidate and pair: (B, d), (d, M) -> (B, M)."""
    return weights * columns if len(columns) == 1 else weights @ columns


def _over_pairs(adjoint: Tensor, columns: Tensor) -> Tensor:
    """Sum over pairs of adjoint * columns: (B, M), (d, M) -> (B, d)."""
    return adjoint @ columns.T


def _scaled_square(x: Pairs, lengthscale: Tensor) -> Tensor:
    """r^2 = sum d^2 / l^2."""
    return _weighted(lengthscale**-2, x.squares)


def _by_lengthscale(x: Pairs, by_square: Tensor, lengthscale: Tensor) -> Tensor:
    """From the adjoint of r^2 to the gradient by l: d r^2 / dl = -2 d^2 / l^3."""
    return _over_pairs(by_square, x.squares) * (-2 * lengthscale**-3)


def _se(x: Pairs, lengthscale: Tensor) -> Tensor:
    """-r^2 / 2."""
    return _weighted(-0.5 * lengthscale**-2, x.squares)


def _se_reverse(x: Pairs, adjoint: Tensor, lengthscale: Tensor) -> tuple[Tensor, ...]:
    return (_over_pairs(adjoint, x.squares) * lengthscale**-3,)


def _rq(x: Pairs, lengthscale: Tensor, alpha: Tensor) -> Tensor:
    """-a log(1 + z), z = r^2 / 2a."""
    return _weighted(0.5 / alpha * lengthscale**-2, x.squares).log1p_().mul_(-alpha)


def _rq_reverse(x: Pairs, adjoint: Tensor, lengthscale: Tensor, alpha: Tensor) -> tuple[Tensor, ...]:
    """By z: -a / (1 + z). By a, l kept: -log(1 + z) + z / (1 + z), as dz/da = -z / a."""
    z = _weighted(0.5 / alpha * lengthscale**-2, x.squares)
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
    return _weighted(-2 * math.pi**2 * bandwidth**2, x.squares)


def _envelope_reverse(x: Pairs, adjoint: Tensor, bandwidth: Tensor) -> tuple[Tensor, ...]:
    return (_over_pairs(adjoint, x.squares) * (-4 * math.pi**2 * bandwidth),)


def _angles(x: Pairs, period: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """pi d / p, (B, M), column by column."""
    for d in range(len(x.difference)):
        one = slice(d, d + 1)
        yield one, (math.pi / period[:, one]) * x.difference[one]


def _per(x: Pairs, period: Tensor, lengthscale: Tensor) -> Tensor:
    """-2 sum sin^2(pi d / p) / l^2, the same as -sum (1 - cos(2 pi d / p)) / l^2 without its cancellation."""
    total: Tensor | None = None
    for one, angle in _angles(x, period):
        part = angle.sin_().square_().mul_(-2 * lengthscale[:, one] ** -2)
        total = part if total is None else total.add_(part)
    assert total is not None
    return total


def _per_reverse(x: Pairs, adjoint: Tensor, period: Tensor, lengthscale: Tensor) -> tuple[Tensor, ...]:
    """By l: 4 sin^2 / l^3. By p: 4 pi d sin cos / (l p)^2."""
    by_period, by_lengthscale = torch.empty_like(period), torch.empty_like(lengthscale)
    for one, angle in _angles(x, period):
        sine = angle.sin()
        common = adjoint * sine
        by_lengthscale[:, one] = sine.mul_(common).sum(1, keepdim=True) * 4 * lengthscale[:, one] ** -3
        turn = _over_pairs(angle.cos_().mul_(common), x.difference[one])
        by_period[:, one] = turn * (4 * math.pi) * (lengthscale[:, one] * period[:, one]) ** -2
    return by_period, by_lengthscale


def _cper(x: Pairs, period: Tensor, lengthscale: Tensor) -> Tensor:
    """(e - I0e(q)) / (1 - I0e(q)) = 1 + (e - 1) / (1 - I0e(q)), e = exp(-2 q sin^2(pi d / p)), q = 1 / l^2."""
    [(_, angle)] = _angles(x, period)
    q = lengthscale**-2
    return angle.sin_().square_().mul_(-2 * q).expm1_().div(_one_less_i0e(q)).add_(1)


def _cper_reverse(x: Pairs, adjoint: Tensor, period: Tensor, lengthscale: Tensor) -> tuple[Tensor, ...]:
    """By q: (-2 e sin^2 - (e - 1) h' / h) / h, h = 1 - I0e(q), h' = I0e - I1e. By p: 4 pi q d e sin cos / h p^2."""
    [(_, angle)] = _angles(x, period)
    q = lengthscale**-2
    h = _one_less_i0e(q)
    slope = (torch.special.i0e(q) - torch.special.i1e(q)) / h
    sine = angle.sin()
    less = sine.square().mul_(-2 * q).expm1_()  # e - 1
    turn = _over_pairs(angle.cos_().mul_(sine).mul_(less + 1).mul_(adjoint), x.difference)
    by_q = sine.square_().mul_(-2).mul_(less + 1).sub_(less * slope).mul_(adjoint).sum(1, keepdim=True) / h
    return turn * (4 * math.pi) * q / (h * period**2), by_q * (-2 * lengthscale**-3)


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
    """Sum w (x - c)(x' - c)."""
    total: Tensor | None = None
    for d in range(len(x.left)):
        one = slice(d, d + 1)
        part = (x.left[one] - offset[:, one]).mul_(x.right[one] - offset[:, one]).mul_(weights[:, one])
        total = part if total is None else total.add_(part)
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
    return _weighted(2 * math.pi * frequency, x.difference).cos_()


def _cos_reverse(x: Pairs, adjoint: Tensor, frequency: Tensor) -> tuple[Tensor, ...]:
    sine = _weighted(2 * math.pi * frequency, x.difference).sin_()
    return (_over_pairs(sine.mul_(adjoint), x.difference) * (-2 * math.pi),)


def _wn(x: Pairs) -> Tensor:
    """[x = x'], the same for all candidates: (1, M)."""
    return (x.left == x.right).all(0, keepdim=True).to(x.left.dtype)


def _wn_reverse(x: Pairs, adjoint: Tensor) -> tuple[Tensor, ...]:
    return ()


LEAVES: dict[LeafKind, tuple[Callable[..., Tensor], Callable[..., tuple[Tensor, ...]]]] = {
    LeafKind.SE: (_se, _se_reverse),
    LeafKind.RQ: (_rq, _rq_reverse),
    LeafKind.M12: (_m12, _m12_reverse),
    LeafKind.M32: (_m32, _m32_reverse),
    LeafKind.M52: (_m52, _m52_reverse),
    LeafKind.ENVELOPE: (_envelope, _envelope_reverse),
    LeafKind.PER: (_per, _per_reverse),
    LeafKind.CPER: (_cper, _cper_reverse),
    LeafKind.LIN: (_lin, _lin_reverse),
    LeafKind.COS: (_cos, _cos_reverse),
    LeafKind.WN: (_wn, _wn_reverse),
}
