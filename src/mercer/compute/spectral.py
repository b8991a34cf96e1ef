"""Random features: phi(x) with E[phi(x).phi(z)] = k(x, z) for every sum and product of base kernels (METHODS 5).

    k(x, z) = E[ a g(x) g(z) cos(v.(x - z)) ]

An *atom* is one draw of the amplitude a, the factor g of the inputs (LIN, SUMI) and the frequency v. It gives two
columns, sqrt(a / M) g(x) cos(v.x) and sqrt(a / M) g(x) sin(v.x), M atoms in all: their products add up to the cosine of
the difference. (SKC, appendix C, prints cos(v.x + b) / sqrt(m), which is half the kernel.) Atoms are drawn by walking
the program of the kernel (spectral_draws.py): a product multiplies a and g and adds independent v; a sum picks one of
its parts with a probability and divides a by it; a network does both, layer by layer.

White noise has no part in it: WN links no two different rows, so that no features of use can stand for it. What holds
WN as a factor is left out of phi and given as `Features.noise(X)`, a variance for each row, to be added to that of the
noise. Rows that are equal on the columns of WN share its value under the kernel, and do not here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mercer.compute import fused
from mercer.compute.program import Affine, LeafNode, Program, Term, compile_program
from mercer.compute.separate import white_columns, without_white
from mercer.compute.spectral_draws import Atoms, Indices, Monomial, Source, draw_atoms, multiplied_out
from mercer.errors import KernelError
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.leaf import LEAVES
from mercer.kernels.parameters import bind, values_of

CLOSE = 1e-9  # relative difference of numbers that have been multiplied in another order
STEP = 1e-4  # relative, of central differences of the diagonal of WN's part; exact for variances and one offset


@dataclass(frozen=True, eq=False)
class Slopes:
    """The gradient of something by the parts of the features: frequencies, log amplitudes, and values directly."""

    by_frequency: Array
    by_log: Array
    by_values: Array

    def __add__(self, other: Slopes) -> Slopes:
        return Slopes(
            self.by_frequency + other.by_frequency, self.by_log + other.by_log, self.by_values + other.by_values
        )


@dataclass(frozen=True, eq=False)
class Features:
    """Features at given parameter values; the same draws at other values are `at(values)`, smooth in the values.

    Columns: cos of the atoms with a wave, sin of the same, then the atoms without one.
    """

    atoms: Atoms
    values: Array

    @property
    def count(self) -> int:
        """The number of columns."""
        return len(self._column_atom)

    @property
    def program(self) -> Program:
        """The kernel that the features are of."""
        return self.atoms.program

    @property
    def has_noise(self) -> bool:
        """Whether there is white noise in the kernel."""
        return bool(white_columns(self.program))

    def at(self, values: Array) -> Features:
        """Return the same draws at other parameter values.

        Still unbiased, but far from where they were drawn the integers of PER and the parts of sums are not picked as
        often as they should be, and their weights vary much. A part of weight zero when drawn is never picked.
        """
        return Features(self.atoms, np.asarray(values, dtype=np.float64))

    def phi(self, X: Array) -> Array:
        """Return the features of each row, (rows, count)."""
        X = np.asarray(X, dtype=np.float64)
        waving, still = self.atoms.waving, self.atoms.still
        size = self._size(X)
        angle = (X - self.atoms.origin) @ self._frequency[waving].T
        out = np.empty((len(X), self.count))
        np.cos(angle, out=out[:, : len(waving)])
        np.sin(angle, out=out[:, len(waving) : 2 * len(waving)])
        out[:, : len(waving)] *= size[:, waving]
        out[:, len(waving) : 2 * len(waving)] *= size[:, waving]
        out[:, 2 * len(waving) :] = size[:, still]
        return out

    def noise(self, X: Array) -> Array:
        """Return the variance that white noise adds at each row: k(x, x) less that of the kernel without WN."""
        if not self.has_noise:
            return np.zeros(len(X))
        return self._noise_at(self.values, np.asarray(X, dtype=np.float64))

    def noise_gradient(self, X: Array, weights: Array) -> Array:
        """Return the gradient by values of weights.noise(X)."""
        gradient = np.zeros(len(self.values))
        if self.has_noise:
            for place, value in enumerate(self.values):
                step = STEP * (abs(value) or 1.0)
                up, down = self.values.copy(), self.values.copy()
                up[place] += step
                down[place] -= step
                gradient[place] = weights @ (self._noise_at(up, X) - self._noise_at(down, X)) / (2 * step)
        return gradient

    def columns_of(self, summand: int) -> Indices:
        """Return the columns of one summand, numbered as in `atoms.summands`."""
        return np.flatnonzero(self.atoms.summand_of[self._column_atom] == summand)

    def slopes(self, X: Array, phi: Array, by_phi: Array) -> Slopes:
        """Turn the gradient of something by phi at a block of rows into that by the parts of the features."""
        waving, total = self.atoms.waving, len(self.atoms.summand_of)
        cos, sin = slice(0, len(waving)), slice(len(waving), 2 * len(waving))
        by_frequency = np.zeros((total, X.shape[1]))
        by_angle = by_phi[:, sin] * phi[:, cos] - by_phi[:, cos] * phi[:, sin]
        by_frequency[waving] = by_angle.T @ (X - self.atoms.origin)
        by_column = 0.5 * np.einsum("ij,ij->j", by_phi, phi)
        by_log = np.zeros(total)
        np.add.at(by_log, self._column_atom, by_column)
        by_values = np.zeros(len(self._wide))
        if self.atoms.factors:
            self._factor_slopes(X, by_phi, by_values)
        return Slopes(by_frequency, by_log, by_values)

    def gradient(self, slopes: Slopes) -> Array:
        """Return the gradient by values."""
        result, atoms = slopes.by_values.copy(), self.atoms
        weights = slopes.by_log[atoms.weighed]
        result += np.bincount(atoms.weights, weights / self._wide[atoms.weights], len(result))
        for wave in atoms.waves:
            by_frequency = slopes.by_frequency[wave.cells]
            wave.pull_back(self._wide, by_frequency, slopes.by_log[wave.atoms], result)
        return self.program.narrow(result)

    @cached_property
    def _wide(self) -> Array:
        """The values with the further entries of the program, to which its leaves point."""
        return self.program.widen(self.values)

    @cached_property
    def _column_atom(self) -> Indices:
        return np.concatenate([self.atoms.waving, self.atoms.waving, self.atoms.still])

    @cached_property
    def _frequency(self) -> Array:
        """v of each atom, (atoms, dimensions)."""
        result = np.zeros((len(self.atoms.summand_of), len(self.atoms.origin)))
        for wave in self.atoms.waves:
            result[wave.cells] += wave.frequency(self._wide)
        return result

    @cached_property
    def _amplitude(self) -> Array:
        """sqrt(a / M) of each atom."""
        atoms = self.atoms
        with np.errstate(divide="ignore"):
            log_values = np.log(self._wide[atoms.weights])
        result = atoms.log_constant + np.bincount(atoms.weighed, log_values, len(atoms.log_constant))
        for wave in atoms.waves:
            result[wave.atoms] += wave.log_weight(self._wide)
        return np.exp(0.5 * result)

    def _size(self, X: Array) -> Array:
        """The amplitude times the factors of the inputs, (rows, atoms)."""
        if not self.atoms.factors:
            return np.broadcast_to(self._amplitude, (len(X), len(self._amplitude)))
        result = np.tile(self._amplitude, (len(X), 1))
        for factor in self.atoms.factors:
            result[:, factor.atoms] *= factor.at(X, self._wide)
        return result

    def _factor_slopes(self, X: Array, by_phi: Array, by_values: Array) -> None:
        """By a factor: that by the features, times all else that is in them (nothing is divided: it may be zero)."""
        waving, still = self.atoms.waving, self.atoms.still
        angle = (X - self.atoms.origin) @ self._frequency[waving].T
        by_size = np.empty((len(X), len(self._amplitude)))
        by_size[:, waving] = by_phi[:, : len(waving)] * np.cos(angle)
        by_size[:, waving] += by_phi[:, len(waving) : 2 * len(waving)] * np.sin(angle)
        by_size[:, still] = by_phi[:, 2 * len(waving) :]
        by_size *= self._amplitude
        for one in self.atoms.factors:
            others = by_size[:, one.atoms]
            for other in self.atoms.factors:
                if other is not one:
                    others *= _on(other.at(X, self._wide), other.atoms, one.atoms)
            one.pull_back(X, self._wide, others, by_values)

    def _noise_at(self, values: Array, X: Array) -> Array:
        whole, smooth = (fused.diagonal(p, values, X) for p in (self.program, without_white(self.program)))
        return np.asarray(whole - smooth)


def _on(factor: Array, has: Indices, wanted: Indices) -> Array:
    """Return a factor of the atoms `has` at the atoms `wanted`, one where they have it not."""
    place = np.searchsorted(has, wanted)
    place[place == len(has)] = 0
    there = has[place] == wanted
    column = place if factor.shape[1] > 1 else np.zeros_like(place)
    return np.where(there, factor[:, column], 1.0)


def draw_features(
    expression: Expression,
    count: int,
    dimensions: int,
    rng: np.random.Generator,
    rows: Array | None = None,
    stratified: bool = False,
) -> Features:
    """Draw at most `count` features of a kernel with all values set, for tables with this many columns.

    rows : some of the inputs; they tell how large LIN is, and so how many features are its due.
    stratified : spread the draws evenly over the spectrum and its tails (see `Source`): unbiased, with much less error.
    """
    bound = bind(expression, dimensions)
    values = values_of(bound)
    if np.isnan(values).any():
        raise KernelError(f"features need a kernel with all its values set, not {bound.text(digits=4)}")
    try:
        return draw_program_features(compile_program(bound), values, count, dimensions, rng, rows, stratified)
    except KernelError as error:
        raise KernelError(f"{bound.text(digits=4)}: {error}") from None


def draw_program_features(
    program: Program,
    values: Array,
    count: int,
    dimensions: int,
    rng: np.random.Generator,
    rows: Array | None = None,
    stratified: bool = False,
) -> Features:
    """Draw the features of a compiled kernel."""
    atoms = draw_atoms(program, values, count, dimensions, Source(rng, stratified), rows)
    return Features(atoms, np.array(values, dtype=np.float64))


# ----------------------------------------------------------------------------------- which columns belong to a part
#
# The parts that a report shows are the summands of the kernel's canonical form: its numbers stand in other places, SE
# factors are merged and constants added up. So summands are compared by what they compute, not by how they are written.


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
    mine, values = features.program.widen(features.values), program.widen(values)
    own = [_signature(features.program, mine, each) for each in features.atoms.summands]
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
    return isinstance(node, LeafNode) and node.flags.white


def _signature(program: Program, values: Array, summand: Monomial) -> Signature:
    """The signature of a summand: its factors, then its coefficient."""
    factors = _joined(program, values, summand.nodes)
    coefficient = summand.constant * float(np.prod(values[list(summand.weights)]))
    return Signature(factors.words, (*factors.numbers, coefficient))


def _joined(program: Program, values: Array, nodes: Iterable[int]) -> Signature:
    """The signature of a product: SE factors on the same columns are one, 1 / l^2 added up."""
    merged: dict[tuple[str, tuple[int, ...]], Array] = {}
    parts: list[Signature] = []
    for number in nodes:
        node = program.nodes[number]
        if isinstance(node, LeafNode) and node.kind in LEAVES and LEAVES[node.kind].merges:
            order = np.argsort(node.dims)
            dims = tuple(sorted(node.dims))
            lengths = values[node.offsets[0] : node.offsets[0] + len(dims)][order]
            merged[node.kind, dims] = merged.get((node.kind, dims), np.zeros(len(dims))) + lengths**-2.0
        else:
            parts.append(_node_signature(program, values, number))
    parts += [Signature((f"{kind}{dims}",), tuple(map(float, s))) for (kind, dims), s in merged.items()]
    parts.sort()
    return Signature(tuple(w for part in parts for w in part.words), tuple(n for part in parts for n in part.numbers))


def _node_signature(program: Program, values: Array, number: int) -> Signature:
    node = program.nodes[number]
    if isinstance(node, LeafNode):
        order = np.argsort(node.dims)
        numbers: list[float] = []
        for start, size in zip(node.offsets, node.sizes, strict=True):
            block = values[start : start + size]
            numbers += map(float, block[order] if size == len(order) else block)
        return Signature((f"{node.kind}{tuple(sorted(node.dims))}",), tuple(numbers))
    if isinstance(node, Term):
        logs = [_node_signature(program, values, n) for n in node.logs]
        rest = _joined(program, values, node.factors)
        parts = [*sorted(logs), rest]
    else:
        parts = sorted(_weighted_parts(program, values, node))
    words = tuple(w for part in parts for w in part.words)
    return Signature((type(node).__name__, *words, "end"), tuple(n for part in parts for n in part.numbers))


def _weighted_parts(program: Program, values: Array, node: Affine) -> list[Signature]:
    result = []
    for child, places, constant in zip(node.children, node.weights, node.multipliers, strict=True):
        part = _node_signature(program, values, child)
        result.append(Signature(part.words, (*part.numbers, constant * float(np.prod(values[list(places)])))))
    return result
