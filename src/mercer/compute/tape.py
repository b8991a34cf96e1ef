"""Program -> integer arrays that the compiled sweeps run over.

Node codes are those of built-in leaves plus EXTERNAL (a leaf from outside), EXP (exponential of a sum of nodes; of
none: one), PRODUCT and AFFINE. Where the inputs are evenly spaced, a stationary node takes only N different values:
such nodes are *tabled* by lag and the sweep over pairs looks them up instead of computing them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mercer.compute.compiling import address_of
from mercer.compute.fused_leaves import CPER, ECAT
from mercer.compute.leaves import BuiltIn, Compiled, compiled_functions, forget_with
from mercer.compute.program import Affine, LeafNode, Program, Term
from mercer.kernels.blend import Surface

EXTERNAL, EXP, PRODUCT, AFFINE = 19, 20, 21, 22
# Columns of the tape: code, first list in the pool (start, end), parameter offsets (the second of ECAT: how many places
# there are), place of coefficients and sums, first row of the wave table; of a leaf from outside the number of its
# coefficients in place of the second offset, and the addresses of its functions.
CODE, START, END, FIRST, SECOND, PLACE, WAVE, FORWARD, REVERSE, POINTS = range(10)
COUNT = SECOND

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Gates:
    """The gates of one change surface: the place of its values, and for each gate its regime and row of the table."""

    surface: Surface
    place: slice
    first: int  # number of its first gate among all
    regimes: tuple[int, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class External:
    """A leaf from outside: its functions, the place of its coefficients and sums, and where its parameters are."""

    functions: Compiled
    place: slice
    parameters: tuple[slice, ...]


@dataclass(frozen=True)
class Tape:
    """A program as arrays. For AFFINE nodes START:END are edges; `edge_child` and the weights belong to edges."""

    nodes: Integers
    pool: Integers
    edge_child: Integers
    weight_start: Integers  # weights of edge e: product of values[weight_pool[weight_start[e]:weight_start[e + 1]]]
    weight_pool: Integers
    constant: NDArray[np.float64]  # of each edge: multiplies its weight
    shared: NDArray[np.bool_]  # nodes with several parents: their sensitivities add up
    slot: Integers  # row of the lag table for tabled nodes, else -1
    main: Integers  # nodes to run for every pair
    lagged: Integers  # nodes to run once for every lag
    n_sums: int  # leaf sums, then one for each edge
    edge_place: int
    n_waves: int
    n_slots: int
    centred: tuple[tuple[int, int], ...]  # (place of coefficients, offset of the lengthscale) of each CPER leaf
    gates: tuple[Gates, ...]
    n_gates: int
    external: tuple[External, ...]


@forget_with
@lru_cache(maxsize=4096)
def build_tape(program: Program, even: bool) -> Tape:
    """Lay a program out; `even` says that the one column in use is evenly spaced."""
    builder = _Builder(program, even)
    return builder.tape()


class _Builder:
    def __init__(self, program: Program, even: bool) -> None:
        self.rows: list[list[int]] = []
        self.pool: list[int] = []
        self.edge_child: list[int] = []
        self.edge_weights: list[tuple[int, ...]] = []
        self.edge_constants: list[float] = []
        self.children: list[list[int]] = []
        self.stationary: list[bool] = []
        self.sums = self.waves = 0
        self.even = even
        self.number: dict[int, int] = {}
        self.centred: list[tuple[int, int]] = []
        self.gates: list[Gates] = []
        self.external: list[External] = []
        for index, node in enumerate(program.nodes):
            if isinstance(node, LeafNode):
                self.number[index] = self.leaf(node)
            elif isinstance(node, Term):
                self.number[index] = self.term(node)
            else:
                self.number[index] = self.affine(node)

    def add(self, code: int, children: list[int], items: list[int], *, stationary: bool, edges: bool = False) -> int:
        start = len(self.edge_child) if edges else len(self.pool)
        (self.edge_child if edges else self.pool).extend(items)
        self.rows.append([code, start, start + len(items), 0, 0, 0, 0, 0, 0, 0])
        self.children.append(children)
        self.stationary.append(stationary)
        return len(self.rows) - 1

    def leaf(self, leaf: LeafNode) -> int:
        functions, count = compiled_functions(leaf.kind), len(leaf.dims)
        if not isinstance(functions, BuiltIn):
            return self.from_outside(leaf, functions)
        node = self.add(functions.code, [], list(leaf.dims), stationary=leaf.flags.stationary)
        first, second = (*leaf.offsets, 0, 0)[:2]
        if functions.code == ECAT:
            second = count = leaf.count
        self.rows[node][FIRST:FORWARD] = [first, second, self.sums, self.waves]
        if functions.code == CPER:
            self.centred.append((self.sums, second))
        if leaf.surface is not None:
            self.rows[node][SECOND] = self.gate(leaf)
        self.sums += functions.sums(count)
        self.waves += functions.rows(count)
        return node

    def from_outside(self, leaf: LeafNode, functions: Compiled) -> int:
        """Add a leaf from outside, and return its number; a first call of its coefficients tells how many there are."""
        node = self.add(EXTERNAL, [], list(leaf.dims), stationary=leaf.flags.stationary)
        size = len(functions.coefficients(*(np.ones(size) for size in leaf.sizes)))
        parameters = tuple(slice(start, start + n) for start, n in zip(leaf.offsets, leaf.sizes, strict=True))
        self.external.append(External(functions, slice(self.sums, self.sums + size), parameters))
        addresses = [address_of(functions, name) for name in ("forward", "reverse", "points")]
        self.rows[node][SECOND:] = [size, self.sums, 0, *addresses]
        self.sums += size
        return node

    def gate(self, leaf: LeafNode) -> int:
        """Note a gate with its surface, and return its number."""
        assert leaf.surface is not None
        number = self.n_gates
        known = self.gates[-1] if self.gates else None
        if known is None or known.place.start != leaf.offsets[0]:
            place = slice(leaf.offsets[0], leaf.offsets[0] + sum(leaf.sizes))
            known = Gates(leaf.surface, place, number, (), ())
            self.gates.append(known)
        rows = (*known.rows, self.waves)
        self.gates[-1] = replace(known, regimes=(*known.regimes, leaf.regime), rows=rows)
        return number

    @property
    def n_gates(self) -> int:
        """How many gates there are so far."""
        return sum(len(gates.rows) for gates in self.gates)

    def term(self, term: Term) -> int:
        logs = [self.number[n] for n in term.logs]
        factors = [self.number[n] for n in term.factors]
        if logs or not factors:
            factors.append(self.add(EXP, logs, logs, stationary=all(self.stationary[n] for n in logs)))
        steady = [n for n in factors if self.stationary[n]]
        if self.even and 1 < len(steady) < len(factors):  # keep the stationary part together, to be tabled as one
            factors = [n for n in factors if not self.stationary[n]]
            factors.append(self.add(PRODUCT, steady, steady, stationary=True))
        if len(factors) == 1:
            return factors[0]
        return self.add(PRODUCT, factors, factors, stationary=all(self.stationary[n] for n in factors))

    def affine(self, affine: Affine) -> int:
        children = [self.number[n] for n in affine.children]
        self.edge_weights.extend(affine.weights)
        self.edge_constants.extend(affine.multipliers)
        steady = all(self.stationary[n] for n in children)
        return self.add(AFFINE, children, children, stationary=steady, edges=True)

    def tape(self) -> Tape:
        count = len(self.rows)
        parents: list[list[int]] = [[] for _ in range(count)]
        for node, children in enumerate(self.children):
            for child in children:
                parents[child].append(node)
        slot = np.full(count, -1, dtype=np.int64)
        main, lagged, slots = list(range(count)), [], 0
        if self.even:
            lagged = [n for n in range(count) if self.stationary[n]]
            for n in lagged:
                if not parents[n] or any(not self.stationary[p] for p in parents[n]):
                    slot[n], slots = slots, slots + 1
            main = [n for n in range(count) if slot[n] >= 0 or not self.stationary[n]]
        starts = np.cumsum([0, *(len(w) for w in self.edge_weights)])
        return Tape(
            nodes=np.array(self.rows, dtype=np.int64),
            pool=np.array(self.pool, dtype=np.int64),
            edge_child=np.array(self.edge_child, dtype=np.int64),
            weight_start=starts.astype(np.int64),
            weight_pool=np.array([i for w in self.edge_weights for i in w], dtype=np.int64),
            constant=np.array(self.edge_constants, dtype=np.float64),
            shared=np.array([len(p) > 1 for p in parents]),
            slot=slot,
            main=np.array(main, dtype=np.int64),
            lagged=np.array(lagged, dtype=np.int64),
            n_sums=self.sums + len(self.edge_child),
            edge_place=self.sums,
            n_waves=self.waves,
            n_slots=slots,
            centred=tuple(self.centred),
            gates=tuple(self.gates),
            n_gates=self.n_gates,
            external=tuple(self.external),
        )
