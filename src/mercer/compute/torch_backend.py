"""Runs a program with PyTorch: many candidates at once, on CPU or CUDA, in float64. The reference back end.

Shapes: B candidates (rows of `values`), N points, D columns, M pairs of points. A node is a (B, M) tensor, or one that
broadcasts to it. What depends on the inputs alone (differences, squares) is (D, M), shared by all candidates.

A Gram matrix is filled strip by strip: rows [first, last) against columns [0, last), the part right of the diagonal
mirrored. Strips, and the candidates taken at a time, are small enough for the temporaries to stay in the cache of a CPU
and to bound the memory: it does not grow with N^2 times the number of nodes.

Gradients come from a reverse sweep written by hand: `contract` visits the program backwards, strip by strip, and every
leaf turns its adjoint into sums over pairs. It keeps nothing between strips, and takes a fifth (ARD SE) to a half
(eight leaves) of the time of autograd through `gram`, which also works: the tests use it to check the sweep.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from mercer.compute.program import LeafNode, Program, Term, parts_of
from mercer.compute.torch_leaves import Pairs, leaf_gradient, leaf_values, multiply

# How many numbers a node holds at a time: few enough for the cache of a CPU, or enough to keep a GPU busy for longer
# than the launches take.
BLOCK = {"cpu": 1 << 17, "cuda": 1 << 24}
# Strips per matrix, unless they would be too large: of n strips the part (n + 1) / 2n of the square is visited.
STRIPS = {"cpu": 8, "cuda": 4}
# Pairs at a time of one candidate on many rows: every column of the inputs takes several numbers for each pair.
PAIRS = {"cpu": 1 << 17, "cuda": 1 << 22}


# ------------------------------------------------------------------------------------------------------- entry points


def gram(program: Program, values: Tensor, X: Tensor, *, lower_only: bool = False) -> Tensor:
    """Return K(X, X): (N, N) for values (P,), or (B, N, N) for values (B, P).

    With `lower_only` the upper triangle means nothing: enough for a Cholesky factorisation.
    """
    batch = _widen(program, values)
    n = len(X)
    result = X.new_zeros(len(batch), n, n) if lower_only else X.new_empty(len(batch), n, n)
    for strip, pairs in _strips(X, len(batch)):
        rows, width = strip.stop - strip.start, strip.stop
        for some in _candidates(len(batch), rows * width, X):
            block = _forward(program, batch[some], pairs).view(-1, rows, width)
            result[some, strip, :width] = block
            if strip.start and not lower_only:
                result[some, : strip.start, strip] = block[..., : strip.start].mT
    return result if values.ndim == 2 else result[0]


def cross(program: Program, values: Tensor, X: Tensor, Z: Tensor) -> Tensor:
    """Return K(X, Z): (N, M) for values (P,), or (B, N, M) for values (B, P)."""
    batch = _widen(program, values)
    result = X.new_empty(len(batch), len(X), len(Z))
    for strip in _row_strips(X, Z):
        first = strip.start
        pairs = _all_pairs(X[strip], Z)
        for some in _candidates(len(batch), pairs.count, X):
            result[some, strip] = _forward(program, batch[some], pairs).view(-1, strip.stop - first, len(Z))
    return result if values.ndim == 2 else result[0]


def diagonal(program: Program, values: Tensor, X: Tensor) -> Tensor:
    """Return k(x, x) for every row of X: (N,) for values (P,), or (B, N) for values (B, P)."""
    return pairwise(program, values, X, X)


def pairwise(program: Program, values: Tensor, X: Tensor, Z: Tensor) -> Tensor:
    """Return k(x_i, z_i), row by row of X and Z: (N,) for values (P,), or (B, N) for values (B, P)."""
    left = X.T.contiguous()
    right = left if Z is X else Z.T.contiguous()
    result = _forward(program, _widen(program, values), Pairs(left, right))
    return result if values.ndim == 2 else result[0]


@torch.no_grad()
def contract(program: Program, values: Tensor, X: Tensor, weights: Tensor) -> Tensor:
    """Return sum_ij weights_ij dK_ij / dvalues, shaped as `values`; `weights` (B, N, N) or (N, N) must be symmetric."""
    batch = _widen(program, values)
    square = weights.expand(len(batch), len(X), len(X))
    gradient = torch.zeros_like(batch)
    for strip, pairs in _strips(X, len(batch)):
        counts = X.new_ones(strip.stop)
        counts[: strip.start] = 2  # for the mirror images
        for some in _candidates(len(batch), pairs.count, X):
            block = (square[some, strip, : strip.stop] * counts).reshape(-1, pairs.count)
            gradient[some] += _reverse(program, batch[some], pairs, block)
    gradient = _narrow(program, gradient)
    return gradient if values.ndim == 2 else gradient[0]


@torch.no_grad()
def contract_cross(program: Program, values: Tensor, X: Tensor, Z: Tensor, weights: Tensor) -> Tensor:
    """Return sum_ij weights_ij d k(x_i, z_j) / d values for one candidate, values (P,)."""
    batch = _widen(program, values)
    gradient = torch.zeros_like(batch)
    for strip in _row_strips(X, Z):
        gradient += _reverse(program, batch, _all_pairs(X[strip], Z), weights[strip].reshape(1, -1))
    return _narrow(program, gradient)[0]


@torch.no_grad()
def contract_diagonal(program: Program, values: Tensor, X: Tensor, vector: Tensor) -> Tensor:
    """Return sum_i vector_i d k(x_i, x_i) / d values for one candidate, values (P,)."""
    columns = X.T.contiguous()
    batch = _widen(program, values)
    return _narrow(program, _reverse(program, batch, Pairs(columns, columns), vector[None]))[0]


def _widen(program: Program, values: Tensor) -> Tensor:
    """Return the values of each candidate, (B, P), with the program's further entries (see program.py)."""
    values = values[None] if values.ndim == 1 else values
    if not program.ties:
        return values
    ratios = values.new_tensor([tie.ratio for tie in program.ties])
    return torch.cat([values, values[:, [tie.source for tie in program.ties]] * ratios], 1)


def _narrow(program: Program, gradient: Tensor) -> Tensor:
    """Return the gradient by the values, given that by the wider ones."""
    result = gradient[:, : program.n_values]
    for place, (source, ratio) in enumerate(program.ties, program.n_values):
        result[:, source] += ratio * gradient[:, place]
    return result


# --------------------------------------------------------------------------------------------------- pairs and strips


def _row_strips(X: Tensor, Z: Tensor) -> Iterator[slice]:
    rows = max(1, PAIRS[X.device.type] // max(1, len(Z)))
    return (slice(first, min(first + rows, len(X))) for first in range(0, len(X), rows))


def _all_pairs(X: Tensor, Z: Tensor) -> Pairs:
    shape = (X.shape[1], len(X), len(Z))
    return Pairs(X.T[:, :, None].expand(shape).flatten(1), Z.T[:, None, :].expand(shape).flatten(1))


def _strips(X: Tensor, batch: int) -> Iterator[tuple[slice, Pairs]]:
    """Yield row ranges [first, last) with the pairs of these rows and the columns [0, last)."""
    n, block = len(X), BLOCK[X.device.type]
    # Strips of less than a quarter of a block are not worth it: there fewer launches save more than fewer pairs.
    count = max(1, min(STRIPS[X.device.type], 4 * batch * n * n // block))
    rows = max(1, min(-(-n // count), block // max(1, n)))
    for first in range(0, n, rows):
        last = min(first + rows, n)
        yield slice(first, last), _all_pairs(X[first:last], X[:last])


def _candidates(batch: int, pairs: int, X: Tensor) -> Iterator[slice]:
    """Split the batch so that a node of one part fits the block."""
    step = max(1, BLOCK[X.device.type] // max(1, pairs))
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
    tape = _evaluate(program, values, pairs, len(program.nodes), keep=False)
    return tape.values[len(program.nodes) - 1].expand(len(values), pairs.count)


def _evaluate(program: Program, values: Tensor, pairs: Pairs, count: int, keep: bool) -> _Tape:
    """Run the first nodes of a program; unless they are to be kept, values go after their last use."""
    tape = _Tape({}, {})
    for number, node in enumerate(program.nodes[:count]):
        total: Tensor | None = None
        if isinstance(node, LeafNode):
            if not node.flags.log_form:
                tape.values[number] = leaf_values(node, pairs, _parameters(node, values))
        elif isinstance(node, Term):
            for log in node.logs:  # leaves, or the unit that an Exp unit takes
                below = program.nodes[log]
                if isinstance(below, LeafNode):
                    logarithm = leaf_values(below, pairs, _parameters(below, values))
                else:
                    logarithm = tape.values[log].clone()
                total = logarithm if total is None else total.add_(logarithm)
            tape.exponentials[number] = exponential = None if total is None else total.exp_()
            tape.values[number] = multiply([exponential, *(tape.values[i] for i in node.factors)], values)
        else:
            for child, places, constant in node.edges:
                value, weight = tape.values[child], _weight(values, places, constant)
                total = weight * value.expand(-1, pairs.count) if total is None else total.addcmul_(weight, value)
            assert total is not None, "an Affine has at least one child"
            tape.values[number] = total
        if not keep:
            for done in _last_uses(program)[number]:
                tape.values.pop(done, None)
            tape.exponentials.clear()
    return tape


def _reverse(program: Program, values: Tensor, pairs: Pairs, weights: Tensor) -> Tensor:
    """Return the sum over pairs of weights (B, M) times d(kernel)/d(values), (B, P)."""
    root = len(program.nodes) - 1
    needed = root + isinstance(program.nodes[root], Term)  # nobody asks for the value of a root sum
    tape = _evaluate(program, values, pairs, needed, keep=True)
    gradient = torch.zeros_like(values)
    adjoints = {root: _Adjoint(torch.ones_like(values[:, :1]), weights)}
    for number in reversed(range(root + 1)):
        if number in adjoints:
            _pull_back(program, number, values, pairs, tape, adjoints, gradient)
        tape.values.pop(number, None)
        tape.exponentials.pop(number, None)
    return gradient


class _Adjoint(NamedTuple):
    """`scale` (B, 1) times `array` (B, M): the weights of sums multiply only the former.

    `times_value` is the array times the node's value, where a sum had to work it out anyway.
    """

    scale: Tensor
    array: Tensor
    times_value: Tensor | None = None


Adjoints = dict[int, _Adjoint]


def _pull_back(
    program: Program, number: int, values: Tensor, pairs: Pairs, tape: _Tape, adjoints: Adjoints, gradient: Tensor
) -> None:
    """Pass the adjoint of one node on to its parts and its parameters."""
    node = program.nodes[number]
    scale, array, times_value = adjoints.pop(number)
    if isinstance(node, LeafNode):
        _add_leaf_gradient(node, values, pairs, scale, array, gradient)
    elif isinstance(node, Term):
        exponential = tape.exponentials[number]
        if node.logs:
            # The same for every log: d exp(s) = exp(s) ds
            by_logarithm = array * tape.values[number] if times_value is None else times_value
            for log in node.logs:
                below = program.nodes[log]
                if isinstance(below, LeafNode):
                    _add_leaf_gradient(below, values, pairs, scale, by_logarithm, gradient)
                else:
                    _add_adjoint(adjoints, log, _Adjoint(scale, by_logarithm))
        for i, factor in enumerate(node.factors):
            others = [tape.values[other] for k, other in enumerate(node.factors) if k != i]
            _add_adjoint(adjoints, factor, _Adjoint(scale, array * multiply([exponential, *others], values)))
    else:
        for child, places, constant in node.edges:
            times_child = array * tape.values[child]
            by_weight = scale * times_child.sum(1, keepdim=True)
            for i, place in enumerate(places):
                gradient[:, place : place + 1] += by_weight * _weight(values, places[:i] + places[i + 1 :], constant)
            _add_adjoint(adjoints, child, _Adjoint(scale * _weight(values, places, constant), array, times_child))


def _add_adjoint(adjoints: Adjoints, number: int, new: _Adjoint) -> None:
    if number in adjoints:  # a node with several uses: from here on one array
        old = adjoints[number]
        new = _Adjoint(torch.ones_like(new.scale), (old.scale * old.array).addcmul_(new.scale, new.array))
    adjoints[number] = new


def _add_leaf_gradient(
    leaf: LeafNode, values: Tensor, pairs: Pairs, scale: Tensor, array: Tensor, gradient: Tensor
) -> None:
    parts = leaf_gradient(leaf, pairs, array, _parameters(leaf, values))
    for offset, part in zip(leaf.offsets, parts, strict=True):
        gradient[:, offset : offset + part.shape[1]] += scale * part


def _parameters(leaf: LeafNode, values: Tensor) -> list[Tensor]:
    """The parameter blocks of a leaf, (B, number of its columns) each; alpha of RQ is (B, 1), a surface has its own."""
    return [values[:, offset : offset + size] for offset, size in zip(leaf.offsets, leaf.sizes, strict=True)]


def _weight(values: Tensor, places: tuple[int, ...], constant: float) -> Tensor:
    """The product of a constant and some values of each candidate, (B, 1)."""
    if not places:
        return torch.full_like(values[:, :1], constant)
    product = math.prod((values[:, i : i + 1] for i in places[1:]), start=values[:, places[0] : places[0] + 1])
    return product if constant == 1.0 else product * constant


@lru_cache(maxsize=4096)
def _last_uses(program: Program) -> tuple[tuple[int, ...], ...]:
    """For each node, the nodes that are not needed after it."""
    last: dict[int, int] = {}
    for number, node in enumerate(program.nodes):
        last.update(dict.fromkeys(parts_of(node), number))
    done: list[list[int]] = [[] for _ in program.nodes]
    for part, number in last.items():
        done[number].append(part)
    return tuple(map(tuple, done))
