"""Drawing the atoms of random features by walking a program (see spectral.py for what an atom is).

The kernel is first multiplied out into its summands, and each has columns of its own, so that the parts of a model can
be told apart. Who gets how many of the `count` columns:

  1. A summand of LIN, SUMI and C factors and at most one COS is a finite sum of products: where its products need no
     more than an equal share, count // summands, they are all taken, and the summand is exact.
  2. The others share the rest in proportion to their size, k(x, x) at a typical row: an atom with a wave takes two
     columns, one without takes one, and every summand has at least one atom.

So the number of columns is `count`, or fewer by one for each summand with waves, or as few as an exact kernel needs.
Inside a summand atoms are independent draws: a sum or a network that is not multiplied out (it would have more than
MOST_SUMMANDS terms) picks a part in proportion to weight times size; LIN picks a column; exp(u) = sum_j u^j / j! picks
the power j from a Poisson law. Whatever was picked with probability p has its amplitude divided by p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product as cartesian

import numpy as np

from mercer.compute.nodes import LOG_KINDS, Affine, Leaf, LeafKind, Node, Term
from mercer.compute.program import Program
from mercer.compute.spectral_waves import Factor, Indices, Share, Slope, Source, Standing, Wave, draw_wave
from mercer.errors import InputError, KernelError
from mercer.kernels.domains import Array

MOST_SUMMANDS = 64
LARGEST_EXPONENT = 700.0
FLAT_KINDS = (LeafKind.LIN, LeafKind.SUMI, LeafKind.GATE)


@dataclass(frozen=True)
class Summand:
    """One summand: the product of some values, a constant and some nodes (leaves, or parts not multiplied out)."""

    weights: tuple[int, ...]
    constant: float
    nodes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Atoms:
    """What was drawn. Atom by atom: its summand, and the log of the constant part of a / M.

    weighed, weights : pairs of an atom and the place of a value that multiplies its amplitude a.
    waving, still : the atoms with a wave, and without.
    """

    program: Program
    summands: tuple[Summand, ...]
    origin: Array
    summand_of: Indices
    log_constant: Array
    weighed: Indices
    weights: Indices
    waves: tuple[Wave, ...]
    factors: tuple[Factor, ...]
    waving: Indices
    still: Indices


def draw_atoms(
    program: Program, values: Array, count: int, dimensions: int, source: Source, rows: Array | None
) -> Atoms:
    """Draw the atoms of at most `count` columns."""
    if dimensions < program.dimensions:
        raise InputError(f"the kernel needs {program.dimensions} columns, not {dimensions}")
    walk = _Walk(program, np.asarray(values, dtype=np.float64), source, rows)
    summands = multiplied_out(program)
    sizes = [walk.size_of(summand) for summand in summands]
    due = _columns(program, summands, sizes, count)
    for number, summand in enumerate(summands):
        if due[number] > 0:
            walk.draw_summand(number, summand, due[number])
    origin = np.zeros(dimensions) if rows is None or not len(rows) else np.mean(rows, axis=0)
    return walk.atoms(summands, origin)


@lru_cache(maxsize=1024)
def multiplied_out(program: Program) -> tuple[Summand, ...]:
    """Return the summands of a program; a part with too many of them, or under an Exp, stays as it is."""
    found: list[tuple[Summand, ...]] = []
    for number, node in enumerate(program.nodes):
        itself = (Summand((), 1.0, (number,)),)
        parts: list[Summand] | None = None
        if isinstance(node, Affine):
            constants = node.constants or (1.0,) * len(node.children)
            parts = [
                Summand((*part.weights, *weights), part.constant * constant, part.nodes)
                for child, weights, constant in zip(node.children, node.weights, constants, strict=True)
                for part in found[child]
            ]
        elif isinstance(node, Term) and all(_is_log_leaf(program.nodes[n]) for n in node.logs):
            choices = [found[n] for n in (*node.logs, *node.factors)]
            if math.prod(map(len, choices)) <= MOST_SUMMANDS:
                parts = [_product(choice) for choice in cartesian(*choices)]
        found.append(itself if parts is None or len(parts) > MOST_SUMMANDS else tuple(parts))
    return found[-1]


def _product(parts: tuple[Summand, ...]) -> Summand:
    return Summand(
        tuple(place for part in parts for place in part.weights),
        math.prod(part.constant for part in parts),
        tuple(node for part in parts for node in part.nodes),
    )


def _is_log_leaf(node: Node) -> bool:
    return isinstance(node, Leaf) and node.kind in LOG_KINDS


@lru_cache(maxsize=1024)
def _has_wave(program: Program, number: int) -> bool:
    node = program.nodes[number]
    return not isinstance(node, Leaf) or node.kind not in FLAT_KINDS


def _finite_atoms(program: Program, summand: Summand) -> int | None:
    """Return how many products a summand is the sum of; None where waves are drawn."""
    leaves = [program.nodes[number] for number in summand.nodes]
    kinds = [leaf.kind if isinstance(leaf, Leaf) else None for leaf in leaves]
    if kinds.count(LeafKind.COS) > 1 or any(kind not in (*FLAT_KINDS, LeafKind.COS) for kind in kinds):
        return None
    return math.prod(len(leaf.dims) for leaf in leaves if isinstance(leaf, Leaf) and leaf.kind is LeafKind.LIN)


def _columns(program: Program, summands: tuple[Summand, ...], sizes: list[float], count: int) -> list[int]:
    """Return the columns due to each summand (see the rules above)."""
    columns = [2 if any(_has_wave(program, n) for n in s.nodes) else 1 for s in summands]  # of one atom
    alive = [number for number, size in enumerate(sizes) if size > 0]
    due = [0] * len(summands)
    share = count // max(1, len(alive))
    for number in alive:
        finite = _finite_atoms(program, summands[number])
        if finite is not None and finite * columns[number] <= share:
            due[number] = finite * columns[number]
    rest = [number for number in alive if not due[number]]
    left = count - sum(due)
    if left < sum(columns[number] for number in rest):
        least = count - left + sum(columns[number] for number in rest)
        raise InputError(f"{count} features are too few for a kernel of {len(alive)} summands: give at least {least}")
    total = sum(sizes[number] for number in rest)
    for number in sorted(rest, key=lambda n: sizes[n]):  # small ones first: what their least costs, the larger bear
        fair = left * sizes[number] / total if total > 0 else left
        due[number] = max(1, round(fair / columns[number])) * columns[number]
        later = sum(columns[n] for n in rest if not due[n])
        due[number] = min(due[number], (left - later) // columns[number] * columns[number])
        left, total = left - due[number], total - sizes[number]
    return due


@dataclass
class _Walk:
    """Draws atoms and gathers what they are made of."""

    program: Program
    values: Array
    source: Source
    rows: Array | None
    waves: list[Wave] = field(default_factory=list)
    factors: list[Factor] = field(default_factory=list)
    weighed: list[Indices] = field(default_factory=list)
    weights: list[Indices] = field(default_factory=list)
    constants: list[tuple[Indices, Array]] = field(default_factory=list)
    summand_of: list[int] = field(default_factory=list)
    wave_of: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sizes: list[float] = []
        for node in self.program.nodes:
            self.sizes.append(self._size(node))

    # ------------------------------------------------------------------------------------------- sizes at a typical row

    def size_of(self, summand: Summand) -> float:
        parts = (self.sizes[n] for n in summand.nodes)
        return summand.constant * float(np.prod(self.values[list(summand.weights)])) * math.prod(parts)

    def _size(self, node: Node) -> float:
        if isinstance(node, Leaf):
            return self._leaf_size(node)
        if isinstance(node, Term):
            logs = (1.0 if _is_log_leaf(self.program.nodes[n]) else self._exp(self.sizes[n]) for n in node.logs)
            return math.prod(logs) * math.prod(self.sizes[n] for n in node.factors)
        return float(self._shares(node).sum())

    def _leaf_size(self, leaf: Leaf) -> float:
        if leaf.kind is LeafKind.SIN:
            raise KernelError("there are no random features for networks of complex units (EXPI): use COS instead")
        if leaf.kind is LeafKind.LIN:
            return float(self._slopes(leaf).sum())
        return {LeafKind.WN: 0.0, LeafKind.SUMI: 0.5, LeafKind.GATE: 0.5}.get(leaf.kind, 1.0)

    @staticmethod
    def _exp(size: float) -> float:
        return math.exp(min(size, LARGEST_EXPONENT))

    def _slopes(self, leaf: Leaf) -> Array:
        """w_d times the mean of (x_d - c_d)^2 over the rows, for each column of LIN."""
        offset, weight = (self.values[start : start + len(leaf.dims)] for start in leaf.offsets)
        if self.rows is None or not len(self.rows):
            return weight
        squares = np.mean((self.rows[:, list(leaf.dims)] - offset) ** 2, axis=0)
        return np.asarray(weight * np.where(squares > 0, squares, 1.0))

    def _shares(self, node: Affine) -> Array:
        """Weight times size of each part of a sum."""
        constants = node.constants or (1.0,) * len(node.children)
        if min(constants, default=0.0) < 0:
            raise KernelError("there are no random features for networks of complex units (EXPI): use COS instead")
        products = [
            constant * np.prod(self.values[list(w)]) for w, constant in zip(node.weights, constants, strict=True)
        ]
        return np.array([p * self.sizes[child] for p, child in zip(products, node.children, strict=True)])

    # --------------------------------------------------------------------------------------------------------- drawing

    def draw_summand(self, number: int, summand: Summand, columns: int) -> None:
        """Draw the atoms of one summand: as many as its columns hold."""
        waving = any(_has_wave(self.program, n) for n in summand.nodes)
        count = columns // 2 if waving else columns
        finite = _finite_atoms(self.program, summand)
        atoms = np.arange(len(self.summand_of), len(self.summand_of) + count)
        self.summand_of += [number] * count
        self.wave_of += [waving] * count
        self._multiply(atoms, summand.constant / count)
        for place in summand.weights:
            self._weigh(atoms, np.full(count, place))
        step = 1  # in a finite summand, with as many atoms as products, atoms run through all choices of columns
        for node in summand.nodes:
            leaf = self.program.nodes[node]
            if finite == count and isinstance(leaf, Leaf) and leaf.kind is LeafKind.LIN:
                self._slope(
                    leaf, atoms, np.arange(count) // step % len(leaf.dims), np.full(count, 1.0 / len(leaf.dims))
                )
                step *= len(leaf.dims)
            else:
                self._draw(node, atoms)

    def _draw(self, number: int, atoms: Indices) -> None:
        """Multiply a node into the atoms."""
        node = self.program.nodes[number]
        if not len(atoms):
            return
        if isinstance(node, Affine):
            self._draw_part(node, atoms)
        elif isinstance(node, Term):
            for child in node.logs:
                if _is_log_leaf(self.program.nodes[child]):
                    self._draw(child, atoms)
                else:
                    self._draw_exp(child, atoms)
            for child in node.factors:
                self._draw(child, atoms)
        elif node.kind is LeafKind.LIN:
            shares = self._slopes(node)
            chosen = self.source.picks(shares, len(atoms))
            self._slope(node, atoms, chosen, shares[chosen] / shares.sum())
        elif node.kind is LeafKind.SUMI:
            self.factors.append(Standing(node, atoms))
        elif node.kind is LeafKind.GATE:
            self.factors.append(Share(node, atoms))
        else:
            self.waves.append(draw_wave(node, self.values, atoms, self.source))

    def _draw_part(self, node: Affine, atoms: Indices) -> None:
        shares = self._shares(node)
        shares = shares / shares.sum()
        chosen = self.source.picks(shares, len(atoms))
        constants = node.constants or (1.0,) * len(node.children)
        for place, child in enumerate(node.children):
            those = atoms[chosen == place]
            if len(those):
                self._multiply(those, constants[place] / shares[place])
                for weight in node.weights[place]:
                    self._weigh(those, np.full(len(those), weight))
                self._draw(child, those)

    def _draw_exp(self, child: int, atoms: Indices) -> None:
        """exp(u): the power j has probability s^j exp(-s) / j!, s the size of u, and the weight exp(s) / s^j."""
        size = min(self.sizes[child], LARGEST_EXPONENT)
        if size == 0:
            return
        powers = self.source.rng.poisson(size, len(atoms))
        self.constants.append((atoms, np.asarray(size - powers * math.log(size), dtype=np.float64)))
        for power in range(1, int(powers.max()) + 1):
            self._draw(child, atoms[powers >= power])

    def _slope(self, leaf: Leaf, atoms: Indices, chosen: Indices, probability: Array) -> None:
        offset, weight = leaf.offsets
        self.factors.append(Slope(atoms, np.array(leaf.dims, dtype=np.intp)[chosen], offset + chosen))
        self._weigh(atoms, weight + chosen)
        self.constants.append((atoms, -np.log(probability)))

    def _weigh(self, atoms: Indices, places: Indices) -> None:
        self.weighed.append(atoms)
        self.weights.append(places)

    def _multiply(self, atoms: Indices, constant: float) -> None:
        self.constants.append((atoms, np.full(len(atoms), math.log(constant))))

    def atoms(self, summands: tuple[Summand, ...], origin: Array) -> Atoms:
        """Return all that was drawn; a kernel of white noise alone has one atom, of amplitude zero."""
        if not self.summand_of:
            self.summand_of, self.wave_of = [-1], [False]
            self.constants.append((np.zeros(1, dtype=np.intp), np.array([-np.inf])))
        log_constant = np.zeros(len(self.summand_of))
        for atoms, logs in self.constants:
            log_constant[atoms] += logs
        waving = np.array(self.wave_of)
        none = [np.empty(0, dtype=np.intp)]
        return Atoms(
            self.program, summands, origin, np.array(self.summand_of, dtype=np.intp), log_constant,
            np.concatenate(none + self.weighed), np.concatenate(none + self.weights), tuple(self.waves),
            tuple(self.factors), np.flatnonzero(waving), np.flatnonzero(~waving),
        )  # fmt: skip
