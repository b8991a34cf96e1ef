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

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from mercer.compute import fused
from mercer.compute.program import Affine, LeafNode, Program, Term, compile_program
from mercer.compute.separate import white_columns, without_white
from mercer.compute.spectral_draws import Atoms, Indices, Monomial, Source, draw_atoms, is_log_leaf, multiply_out
from mercer.errors import KernelError
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
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
        return len(self._column_atom)

    @property
    def program(self) -> Program:
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
        return self._noise_at(self.values, X) if self.has_noise else np.zeros(len(X))

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
        by_log = np.zeros(total)
        np.add.at(by_log, self._column_atom, 0.5 * np.einsum("ij,ij->j", by_phi, phi))
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
            by_one = by_size.copy()
            for other in self.atoms.factors:
                if other is not one:
                    by_one[:, other.atoms] *= other.at(X, self._wide)
            one.pull_back(X, self._wide, by_one[:, one.atoms], by_values)

    def _noise_at(self, values: Array, X: Array) -> Array:
        whole, smooth = (fused.diagonal(p, values, X) for p in (self.program, without_white(self.program)))
        return np.asarray(whole - smooth)


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
        atoms = draw_atoms(compile_program(bound), values, count, dimensions, Source(rng, stratified), rows)
    except KernelError as error:
        raise KernelError(f"{bound.text(digits=4)}: {error}") from None
    return Features(atoms, values)


# ----------------------------------------------------------------------------------- which columns belong to a part


def columns_of_part(features: Features, program: Program, values: Array) -> Indices | None:
    """Return the columns of a part; None where some summand of it is not one of the kernel's.

    The parts that a report shows are the summands of the kernel's canonical form: its numbers stand in other places, SE
    factors are merged and constants added up. So summands are compared by what they compute, not by how they are
    written: at pairs of points near to each other and far apart.
    """
    rng, distances = np.random.default_rng(0), np.logspace(-5, 4, 28)
    points = features.atoms.origin + rng.standard_normal((len(distances), len(features.atoms.origin)))
    moved = points + distances[:, None] * rng.standard_normal(points.shape)
    own = [_evaluate(features.program, features.values, each, points, moved) for each in features.atoms.summands]
    constants = {n for n, summand in enumerate(features.atoms.summands) if not summand.nodes}
    found: set[int] = set()
    for summand in multiply_out(program):
        nodes = [program.nodes[number] for number in summand.nodes]
        if any(isinstance(node, LeafNode) and node.flags.white for node in nodes):
            continue  # it has no columns
        wanted = _evaluate(program, values, summand, points, moved)
        agree = partial(np.allclose, wanted, rtol=CLOSE, atol=1e-3 * CLOSE * np.abs(wanted).max())
        same = [n for n, each in enumerate(own) if n not in found and agree(each)]
        left = constants - found
        if same:
            found.add(same[0])
        elif left and not nodes and agree(np.sum([own[n] for n in left], axis=0)):
            found |= left
        else:
            return None
    columns = [features.columns_of(number) for number in sorted(found)]
    return np.concatenate([np.empty(0, dtype=np.intp), *columns])


def _evaluate(program: Program, values: Array, summand: Monomial, X: Array, Z: Array) -> Array:
    """Return the cross-Gram matrix of one summand of a program."""
    logs = tuple(n for n in summand.nodes if is_log_leaf(program.nodes[n]))
    factors = tuple(n for n in summand.nodes if not is_log_leaf(program.nodes[n]))
    last = len(program.nodes)
    nodes = (*program.nodes, Term(logs, factors), Affine((last,), (summand.weights,), (summand.constant,)))
    return fused.cross(Program(nodes, program.n_values, program.ties), values, X, Z)
