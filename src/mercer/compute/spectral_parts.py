"""Which columns of the features belong to a part of the kernel, given as a program of its own.

The parts that a report shows are the summands of the kernel's canonical form: its numbers stand in other places, SE
factors are merged and constants added up. So summands are compared by what they compute, not by how they are written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mercer.compute.nodes import Affine, Leaf, LeafKind, Term
from mercer.compute.program import Program
from mercer.compute.spectral import Features
from mercer.compute.spectral_draws import Summand, multiplied_out
from mercer.compute.spectral_waves import Indices
from mercer.kernels.domains import Array

CLOSE = 1e-9  # relative difference of numbers that have been multiplied in another order


@dataclass(frozen=True, order=True)
class Signature:
    """What a product computes: words for its structure, then its numbers."""

    words: tuple[str, ...]
    numbers: tuple[float, ...]

    def agrees(self, other: Signature) -> bool:
        """Tell whether both are the same to rounding."""
        return self.words == other.words and bool(np.allclose(self.numbers, other.numbers, rtol=CLOSE, atol=0.0))


def columns_of_part(features: Features, program: Program, values: Array) -> Indices | None:
    """Return the columns of a part; None where some summand of it is not one of the kernel's."""
    own = [_signature(features.program, features.values, each) for each in features.atoms.summands]
    found: set[int] = set()
    for summand in multiplied_out(program):
        if any(_is_white(program, node) for node in summand.nodes):
            continue  # it has no columns
        same = _same(own, _signature(program, values, summand), found)
        if not same:
            return None
        found.update(same)
    columns = [features.columns_of(number) for number in sorted(found)]
    return np.concatenate([np.empty(0, dtype=np.intp), *columns])


def _same(own: list[Signature], wanted: Signature, taken: set[int]) -> list[int]:
    """Return the first summand that agrees and is not taken yet, or all constants where it is their sum."""
    free = [number for number in range(len(own)) if number not in taken]
    alike = [number for number in free if own[number].agrees(wanted)][:1]
    constants = [number for number in free if not own[number].words]
    if alike or wanted.words or not np.isclose(sum(own[n].numbers[0] for n in constants), wanted.numbers[0], CLOSE, 0):
        return alike
    return constants


def _is_white(program: Program, number: int) -> bool:
    node = program.nodes[number]
    return isinstance(node, Leaf) and node.kind is LeafKind.WN


def _signature(program: Program, values: Array, summand: Summand) -> Signature:
    """The signature of a summand: its factors, then its coefficient."""
    factors = _joined(program, values, summand.nodes)
    coefficient = summand.constant * float(np.prod(values[list(summand.weights)]))
    return Signature(factors.words, (*factors.numbers, coefficient))


def _joined(program: Program, values: Array, nodes: Iterable[int]) -> Signature:
    """The signature of a product: SE factors on the same columns are one, 1 / l^2 added up."""
    merged: dict[tuple[int, ...], Array] = {}
    parts: list[Signature] = []
    for number in nodes:
        node = program.nodes[number]
        if isinstance(node, Leaf) and node.kind is LeafKind.SE:
            order = np.argsort(node.dims)
            dims = tuple(sorted(node.dims))
            lengths = values[node.offsets[0] : node.offsets[0] + len(dims)][order]
            merged[dims] = merged.get(dims, np.zeros(len(dims))) + lengths**-2.0
        else:
            parts.append(_node_signature(program, values, number))
    parts += [Signature((f"SE{dims}",), tuple(map(float, squares))) for dims, squares in merged.items()]
    parts.sort()
    return Signature(tuple(w for part in parts for w in part.words), tuple(n for part in parts for n in part.numbers))


def _node_signature(program: Program, values: Array, number: int) -> Signature:
    node = program.nodes[number]
    if isinstance(node, Leaf):
        order = np.argsort(node.dims)
        numbers: list[float] = []
        for place, start in enumerate(node.offsets):
            if node.kind is LeafKind.RQ and place == 1:
                numbers.append(float(values[start]))
            else:
                numbers += map(float, values[start : start + len(order)][order])
        return Signature((f"{node.kind.name}{tuple(sorted(node.dims))}",), tuple(numbers))
    if isinstance(node, Term):
        logs = [_node_signature(program, values, n) for n in node.logs]
        rest = _joined(program, values, node.factors)
        parts = [*sorted(logs), rest]
    else:
        parts = sorted(_weighted_parts(program, values, node))
    words = tuple(w for part in parts for w in part.words)
    return Signature((type(node).__name__, *words, "end"), tuple(n for part in parts for n in part.numbers))


def _weighted_parts(program: Program, values: Array, node: Affine) -> list[Signature]:
    constants = node.constants or (1.0,) * len(node.children)
    result = []
    for child, places, constant in zip(node.children, node.weights, constants, strict=True):
        part = _node_signature(program, values, child)
        result.append(Signature(part.words, (*part.numbers, constant * float(np.prod(values[list(places)])))))
    return result
