"""Runs programs of different structures side by side with PyTorch, as if they were one.

On a GPU the time of a small kernel matrix is the time of its launches, and a level of a search has some sixty
structures. But all are made of the same few parts. So the nodes of all programs, once for each candidate, are gathered
in groups that one launch serves: leaves of one kind on the same columns; terms, and sums, with as many parts and as
high above the leaves. How many launches there are then hardly depends on how many structures there are.

Shapes: B candidates, P the longest values vector, M pairs of points; every node of every candidate has a row in one
(nodes, M) tensor. Only for programs that are trees, as those of sums and products are (not those of networks): every
node has one parent, so that in reverse nothing is added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mercer.compute.leaves import forget_with
from mercer.compute.program import Affine, LeafNode, Program, Term
from mercer.compute.torch_leaves import Pairs, leaf_gradient, leaf_values, multiply

Indices = NDArray[np.int64]
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Leaves:
    """Leaves of one kind on the same columns; `places[k]` (n, d) are those of their k-th parameter, in flat values."""

    rows: slice
    example: LeafNode
    places: tuple[Tensor, ...]


@dataclass(frozen=True)
class Terms:
    """exp(sum of logs) * product of factors: rows of the parts, (n, number of them)."""

    rows: slice
    logs: Tensor
    factors: Tensor


@dataclass(frozen=True)
class Sums:
    """Sum of weight * child: rows of the children (n, c), and places (n, c, w) of the values that make up a weight."""

    rows: slice
    children: Tensor
    places: Tensor


@dataclass(frozen=True)
class Forest:
    """Groups in order of evaluation, the number of rows they take, and the row of each candidate's kernel."""

    groups: tuple[Leaves | Terms | Sums, ...]
    nodes: int
    roots: Tensor


@forget_with
@lru_cache(maxsize=4096)
def can_merge(program: Program) -> bool:
    """Return whether the program is a tree in which each value is read in one place, so that nothing is added up."""
    parts: list[int] = []
    places: list[int] = []
    if program.ties:
        return False
    for node in program.nodes:
        if isinstance(node, LeafNode):
            if node.surface is not None:  # the regimes of a change surface share its values
                return False
            sizes = zip(node.offsets, node.sizes, strict=True)
            places += [offset + i for offset, size in sizes for i in range(size)]
        elif isinstance(node, Term):
            parts += [*node.logs, *node.factors]
        elif node.constants:
            return False
        else:
            parts += node.children
            places += [place for weight in node.weights for place in weight]
    return len(set(parts)) == len(parts) == len(program.nodes) - 1 and len(set(places)) == len(places)


# ------------------------------------------------------------------------------------------------------------ planting


def plant(trees: Sequence[tuple[Program, int]], width: int, device: torch.device) -> Forest:
    """Lay out programs, each with a number of candidates; values are rows of `width`, the last of them one."""
    members: dict[Key, list[tuple[int, int]]] = {}
    for tree, (program, _) in enumerate(trees):
        for number, key in enumerate(_keys(program)):
            members.setdefault(key, []).append((tree, number))
    counts = [count for _, count in trees]
    starts = np.concatenate([[0], np.cumsum(counts)])
    first: dict[tuple[int, int], int] = {}
    groups: list[Leaves | Terms | Sums] = []
    total = 0

    def rows(tree: int, numbers: Sequence[int]) -> Indices:
        """The rows of some nodes of a tree, (candidates, nodes)."""
        return np.array([first[tree, n] for n in numbers], dtype=int) + np.arange(counts[tree])[:, None]

    def places(tree: int, columns: Indices) -> Indices:
        """Where columns of the values of each candidate of a tree are in the flat values: (candidates, *columns)."""
        candidates = np.arange(starts[tree], starts[tree + 1])
        return candidates.reshape(-1, *[1] * columns.ndim) * width + columns

    def send(parts: Iterable[Indices]) -> Tensor:
        return torch.as_tensor(np.concatenate(list(parts)), device=device)

    for key in sorted(members):
        begin = total
        for tree, number in members[key]:
            first[tree, number] = total
            total += counts[tree]
        span, nodes = slice(begin, total), [(tree, trees[tree][0].nodes[number]) for tree, number in members[key]]
        example = nodes[0][1]
        if isinstance(example, LeafNode):
            offsets = [(tree, node.offsets) for tree, node in nodes if isinstance(node, LeafNode)]
            blocks = (
                send(places(tree, starts_at[k] + np.arange(size)) for tree, starts_at in offsets)
                for k, size in enumerate(example.sizes)
            )
            groups.append(Leaves(span, example, tuple(blocks)))
        elif isinstance(example, Term):
            logs, factors = (send(rows(t, getattr(node, name)) for t, node in nodes) for name in ("logs", "factors"))
            groups.append(Terms(span, logs, factors))
        else:
            sums = [(tree, node) for tree, node in nodes if isinstance(node, Affine)]
            longest = max(len(weight) for _, node in sums for weight in node.weights)
            padded = [
                (tree, np.array([[*w, *[width - 1] * (longest - len(w))] for w in node.weights], dtype=int))
                for tree, node in sums
            ]
            children = send(rows(tree, node.children) for tree, node in sums)
            groups.append(Sums(span, children, send(places(tree, columns) for tree, columns in padded)))
    roots = send(rows(tree, [len(program.nodes) - 1])[:, 0] for tree, (program, _) in enumerate(trees))
    return Forest(tuple(groups), total, roots)


@lru_cache(maxsize=4096)
def _keys(program: Program) -> tuple[Key, ...]:
    """What group each node belongs to; sorted, parts come before what is made of them."""
    keys: list[Key] = []
    for node in program.nodes:
        if isinstance(node, LeafNode):
            keys.append((0, "leaf", node.kind, node.dims, node.count))
        elif isinstance(node, Term):
            height = 1 + max((keys[i][0] for i in (*node.logs, *node.factors)), default=0)
            keys.append((height, "term", len(node.logs), len(node.factors)))
        else:
            keys.append((1 + max(keys[i][0] for i in node.children), "sum", len(node.children)))
    return tuple(keys)


# ---------------------------------------------------------------------------------------------------------- the sweeps


def forward(forest: Forest, values: Tensor, pairs: Pairs) -> Tensor:
    """Return the values of all nodes, (nodes, M), for values (B, P + 1)."""
    flat, result = values.reshape(-1), values.new_empty(forest.nodes, pairs.count)
    for group in forest.groups:
        if isinstance(group, Leaves):
            result[group.rows] = leaf_values(group.example, pairs, [flat[places] for places in group.places])
        elif isinstance(group, Terms):
            result[group.rows] = multiply([_exponential(group, result), *_chosen(result, group.factors)], values)
        else:
            weights, total = flat[group.places].prod(2), result[group.rows]
            total.zero_()
            for i, child in enumerate(_chosen(result, group.children)):
                total.addcmul_(weights[:, i : i + 1], child)
    return result


def reverse(forest: Forest, values: Tensor, pairs: Pairs, nodes: Tensor, weights: Tensor) -> Tensor:
    """Return the sum over pairs of weights (B, M) times d(kernel)/d(values), (B, P + 1), given what `forward` did."""
    flat, gradient, adjoints = values.reshape(-1), torch.zeros_like(values).reshape(-1), torch.empty_like(nodes)
    adjoints[forest.roots] = weights
    for group in reversed(forest.groups):
        adjoint = adjoints[group.rows]
        if isinstance(group, Leaves):
            parts = leaf_gradient(group.example, pairs, adjoint, [flat[places] for places in group.places])
            for places, part in zip(group.places, parts, strict=True):
                gradient[places] = part
        elif isinstance(group, Terms):
            _into_terms(group, values, nodes, adjoint, adjoints)
        else:
            _into_sums(group, flat, nodes, adjoint, adjoints, gradient)
    return gradient.view_as(values)


def _into_terms(group: Terms, values: Tensor, nodes: Tensor, adjoint: Tensor, adjoints: Tensor) -> None:
    if group.logs.shape[1]:
        by_logarithm = adjoint * nodes[group.rows]  # the same for every log: d exp(s) = exp(s) ds
        for rows in group.logs.unbind(1):
            adjoints[rows] = by_logarithm
    if group.factors.shape[1]:
        parts = [_exponential(group, nodes), *_chosen(nodes, group.factors)]
        for i, rows in enumerate(group.factors.unbind(1), start=1):
            adjoints[rows] = adjoint * multiply(parts[:i] + parts[i + 1 :], values)


def _into_sums(group: Sums, flat: Tensor, nodes: Tensor, adjoint: Tensor, adjoints: Tensor, gradient: Tensor) -> None:
    factors = flat[group.places]
    weights = factors.prod(2)
    by_weight = torch.empty_like(weights)
    for i, rows in enumerate(group.children.unbind(1)):
        by_weight[:, i] = torch.linalg.vecdot(adjoint, nodes[rows])
        adjoints[rows] = weights[:, i : i + 1] * adjoint
    for k in range(factors.shape[2]):
        others = torch.cat([factors[:, :, :k], factors[:, :, k + 1 :]], 2).prod(2)
        gradient[group.places[:, :, k]] = by_weight * others


def _chosen(nodes: Tensor, rows: Tensor) -> list[Tensor]:
    return [nodes[some] for some in rows.unbind(1)]


def _exponential(group: Terms, nodes: Tensor) -> Tensor | None:
    """exp(sum of the log nodes); None where there are none."""
    total: Tensor | None = None
    for rows in group.logs.unbind(1):
        total = nodes[rows] if total is None else total.add_(nodes[rows])
    return None if total is None else total.exp_()
