"""Drawing the atoms of random features by walking a program (see spectral.py for what an atom is).

A stationary unit kernel is k(d) = E cos(v.d) with v drawn from its spectrum (Bochner; METHODS 5):

    SE                v = z / l,  z standard normal            ENVELOPE   v = 2 pi b z
    RQ                v = z sqrt(g) / l,  g gamma with shape a and rate a
    M12, M32, M52     v = t / l,  t Student with 1, 3, 5 degrees of freedom (on all columns together)
    PER               v = 2 pi n / p,  n an integer with probability I_n(q) exp(-q), q = 1 / l^2, in each column
    CPER              the same without n = 0, over 1 - I_0(q) exp(-q)
    COS               v = +-2 pi f

PER here is exp(-2 sin^2(pi d / p) / l^2) = exp(q (cos t - 1)), so that the weights are those of Solin & Sarkka (2014)
with the same l. Three leaves are not stationary, and multiply the waves by a function of one point:

    LIN   x_j - c_j for a column j drawn with some probability       SUMI   cos(2 pi f.(x - c))       GATE   s_i(x)

What is drawn does not depend on the parameters, except for the integers n: those are weighed by their weight over the
probability that they were drawn with, so that features are smooth in every parameter.

The kernel is first multiplied out into its summands, and each has columns of its own, so that the parts of a model can
be distinguished. Which gets how many of the `count` columns:

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
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import product as cartesian

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, gammaln, ive, ndtri, stdtrit

from mercer.compute import surfaces
from mercer.compute.fused import centred_constants
from mercer.compute.leaves import SPECTRA, forget_with, spectrum_of
from mercer.compute.program import Affine, LeafNode, Node, Program, Term
from mercer.errors import InputError, KernelError
from mercer.kernels.blend import Surface
from mercer.kernels.domains import Array

Indices = NDArray[np.intp]

MOST_SUMMANDS = 64
LARGEST_EXPONENT = 700.0
TWO_PI = 2.0 * math.pi
LARGE_Q = 1e4  # from where on Bessel functions are expanded
LARGEST_Q = 1e10  # for drawing the integers of PER; beyond it they are weighed
WIDER = 1.7  # times as wide as its own law is the one that stratified normal numbers of one column are drawn from
TINY = 2e-16
ALPHA_STEP = 1e-5  # relative, of the central difference of the gamma quantile by its shape


@dataclass(frozen=True, eq=False)
class Source:
    """Random numbers, all made of uniform ones: independent, or stratified (one in each of `count` equal intervals).

    Stratified numbers are each uniform as well, so that features stay unbiased; but they fill the spectrum evenly. And
    leaves on one column then draw from a wider law, and weigh: normal numbers WIDER, Student and integer ones from the
    root of their law. Drawn as they are likely, weak high frequencies would be too rare for data with little noise, and
    the evidence far too low. On several columns the weights would multiply. Signs are apart: v and -v are one feature.
    """

    rng: np.random.Generator
    stratified: bool = False

    def uniforms(self, count: int) -> Array:
        """Return numbers strictly between zero and one."""
        result = self.rng.uniform(size=count)
        if self.stratified:
            result = (self.rng.permutation(count) + result) / count
        return np.clip(result, TINY, 1.0 - TINY)

    def signs(self, count: int) -> Array:
        """Return -1 or 1, independent."""
        return self.rng.choice([-1.0, 1.0], count)

    def normals(self, shape: tuple[int, int]) -> Array:
        """Return standard normal numbers."""
        columns = [ndtri(0.5 * self.uniforms(shape[0])) * self.signs(shape[0]) for _ in range(shape[1])]
        return np.stack(columns, axis=1)

    def picks(self, weights: Array, count: int) -> Indices:
        """Return places, drawn in proportion to their weights."""
        edges = np.cumsum(weights)
        return np.asarray(np.searchsorted(edges, self.uniforms(count) * edges[-1], side="right"))


@dataclass(frozen=True, eq=False)
class Wave:
    """A stationary leaf in some atoms: v = turn base p^power on each of its columns, p its first parameter.

    base : what was drawn, (atoms, columns of the leaf). log_drawn : log of the probability of integers; for the others,
        of density drawn from over density. turn, power : 1 / p for a lengthscale, 2 pi / p for a period, 2 pi p for a
        frequency.
    quantile : of RQ: those of the gamma numbers g whose roots multiply the base. centred : of PER (False) and CPER
        (True), which weigh integers.
    """

    leaf: LeafNode
    atoms: Indices
    base: Array
    log_drawn: Array
    turn: float = 1.0
    power: float = -1.0
    quantile: Array | None = None
    centred: bool | None = None

    @property
    def cells(self) -> tuple[Indices, Indices]:
        """Where its frequencies are in a matrix of atoms and columns of the data."""
        return self.atoms[:, None], np.array(self.leaf.dims, dtype=np.intp)

    def where(self, number: int) -> slice:
        """Return the place of a parameter among the values."""
        return slice(self.leaf.offsets[number], self.leaf.offsets[number] + self.leaf.sizes[number])

    def _base(self, values: Array) -> Array:
        if self.quantile is None:
            return self.base
        return self.base * _gamma_root(self.quantile, float(values[self.leaf.offsets[1]]))[:, None]

    def frequency(self, values: Array) -> Array:
        """Return v for each atom on the columns of the leaf."""
        return np.asarray(self.turn * self._base(values) * values[self.where(0)] ** self.power)

    def log_weight(self, values: Array) -> Array:
        """Return the log of how much likelier, under the leaf's own law, what was drawn is than it was to be drawn.

        For integers that law is prod_d I_n(q_d) exp(-q_d), q = 1 / l^2, over 1 - I_0(q) exp(-q) for CPER.
        """
        if self.centred is None:
            return -self.log_drawn
        lengths = values[self.where(1)]
        result = log_bessel(np.abs(self.base), lengths**-2.0).sum(axis=1)
        if self.centred:
            result -= sum(math.log(centred_constants(float(length))[1]) for length in lengths)
        return np.asarray(result - self.log_drawn)

    def pull_back(self, values: Array, by_frequency: Array, by_log_weight: Array, gradient: Array) -> None:
        """Add to the gradient by values what follows from those by frequency and by log weight."""
        first = values[self.where(0)]
        by_power = (by_frequency * self._base(values)).sum(axis=0)
        gradient[self.where(0)] += self.turn * self.power * first ** (self.power - 1.0) * by_power
        if self.quantile is not None:
            alpha = float(values[self.leaf.offsets[1]])
            by_root = np.einsum("ij,ij->i", by_frequency, self.base / first)
            step = ALPHA_STEP * alpha
            up, down = (_gamma_root(self.quantile, alpha + side) for side in (step, -step))
            gradient[self.leaf.offsets[1]] += float(by_root @ (up - down)) / (2 * step)
        if self.centred is not None:
            lengths = values[self.where(1)]
            by_q = log_bessel_slope(np.abs(self.base), lengths**-2.0)
            if self.centred:
                constants = np.array([centred_constants(float(length)) for length in lengths])
                by_q = by_q + constants[:, 2] / constants[:, 1]
            gradient[self.where(1)] += by_log_weight @ (by_q * (-2 * lengths**-3.0))  # dq / dl = -2 / l^3


def _draw_wide(freedom: int | None, count: int, source: Source) -> tuple[Array, Array]:
    """Draw normal or Student numbers from a law with wider tails; return them and log(density drawn from / density)."""
    size = source.uniforms(count)
    signs = source.signs(count)
    if freedom is None:
        wide = WIDER if source.stratified else 1.0
        plain = ndtri(0.5 * size)
        return wide * plain * signs, 0.5 * plain**2 * (wide**2 - 1) - math.log(wide)
    if not source.stratified:
        return stdtrit(freedom, 0.5 * size) * signs, np.zeros(count)
    other = max(0.5, (freedom - 1) / 2)  # the root of the density is a Student law again
    wide = math.sqrt(freedom / other)
    plain = stdtrit(other, 0.5 * size)
    return wide * plain * signs, _log_student(plain, other) - math.log(wide) - _log_student(wide * plain, freedom)


def _log_student(t: Array, freedom: float) -> Array:
    half = 0.5 * (freedom + 1)
    constant = gammaln(half) - gammaln(0.5 * freedom) - 0.5 * math.log(freedom * math.pi)
    return np.asarray(constant - half * np.log1p(t**2 / freedom))


def _gamma_root(quantile: Array, alpha: float) -> Array:
    """sqrt(g) of the gamma number with shape and rate alpha at these quantiles."""
    return np.asarray(np.sqrt(gammaincinv(alpha, quantile) / alpha))


def log_bessel(n: Array, q: Array) -> Array:
    """log(I_n(q) exp(-q)).

    For large q by Debye's expansion, r^2 = n^2 + q^2 (Abramowitz & Stegun 9.7.7; its error is of the order of 1 / q^2):
    I_n(q) = exp(r - n asinh(n / q)) / sqrt(2 pi r) (1 + 1 / 8r - 5 n^2 / 24 r^3).
    """
    r = np.hypot(n, q)
    large = n**2 / (r + q) - n * np.arcsinh(n / q) - 0.5 * np.log(TWO_PI * r)
    large += np.log1p(0.125 / r - 5 * n**2 / (24 * r**3))
    with np.errstate(divide="ignore"):
        return np.where(q > LARGE_Q, large, np.log(ive(n, np.minimum(q, LARGE_Q))))


def log_bessel_slope(n: Array, q: Array) -> Array:
    """d log(I_n(q) exp(-q)) / dq = (I_n-1 + I_n+1) / 2 I_n - 1; zero where I_n is."""
    r, small = np.hypot(n, q), np.minimum(q, LARGE_Q)
    large = n**2 / (q * (r + q)) - 0.5 * q / r**2 - 0.125 * q / r**3 + 0.625 * n**2 * q / r**5
    weight = ive(n, small)
    some = np.where(weight > 0, weight, 1.0)
    exact = np.where(weight > 0, (ive(np.abs(n - 1), small) + ive(n + 1, small)) / (2 * some) - 1, 0.0)
    return np.where(q > LARGE_Q, large, exact)


@dataclass(frozen=True, eq=False)
class Slope:
    """LIN in some atoms: the factor x_j - c_j, with the column j and the place of its offset for each atom."""

    atoms: Indices
    column: Indices
    place: Indices

    def at(self, X: Array, values: Array) -> Array:
        """Return the factor at each row, (rows, atoms)."""
        return X[:, self.column] - values[self.place]

    def pull_back(self, X: Array, values: Array, by_factor: Array, gradient: Array) -> None:
        """Add to the gradient by values what follows from that by the factor."""
        np.subtract.at(gradient, self.place, by_factor.sum(axis=0))


@dataclass(frozen=True, eq=False)
class Standing:
    """SUMI in some atoms: the factor cos(2 pi f.(x - c)), the same for all of them."""

    leaf: LeafNode
    atoms: Indices

    def _angle(self, X: Array, values: Array) -> tuple[Array, Array, Array]:
        f, c = (values[start : start + len(self.leaf.dims)] for start in self.leaf.offsets)
        from_offset = X[:, list(self.leaf.dims)] - c
        return TWO_PI * from_offset @ f, from_offset, f

    def at(self, X: Array, values: Array) -> Array:
        """Return the factor at each row, (rows, 1)."""
        return np.cos(self._angle(X, values)[0])[:, None]

    def pull_back(self, X: Array, values: Array, by_factor: Array, gradient: Array) -> None:
        """Add to the gradient by values what follows from that by the factor."""
        angle, from_offset, f = self._angle(X, values)
        by_angle = -TWO_PI * np.sin(angle) * by_factor.sum(axis=1)
        start, offset = self.leaf.offsets
        gradient[start : start + len(f)] += by_angle @ from_offset
        gradient[offset : offset + len(f)] -= by_angle.sum() * f


@dataclass(frozen=True, eq=False)
class GateShare:
    """A gate in some atoms: the factor s_i(x) of one regime of a change surface, the same for all of them."""

    leaf: LeafNode
    atoms: Indices

    def _surface(self) -> tuple[Surface, slice]:
        assert self.leaf.surface is not None
        start = self.leaf.offsets[0]
        return self.leaf.surface, slice(start, start + sum(self.leaf.surface.sizes))

    def at(self, X: Array, values: Array) -> Array:
        """Return the factor at each row, (rows, 1)."""
        surface, place = self._surface()
        return np.asarray(surfaces.shares(surface, values[place], X)[self.leaf.regime][:, None])

    def pull_back(self, X: Array, values: Array, by_factor: Array, gradient: Array) -> None:
        """Add to the gradient by values what follows from that by the factor."""
        surface, place = self._surface()
        by_shares = np.zeros((surface.regimes, len(X)))
        by_shares[self.leaf.regime] = by_factor.sum(axis=1)
        gradient[place] += surfaces.pull_back(surface, values[place], X, by_shares)


Factor = Slope | Standing | GateShare


# ------------------------------------------------------------------------------------------------ spectra of the leaves


def _draw_scaled(
    walk: Walk, leaf: LeafNode, atoms: Indices, freedom: int | None = None, rate: bool = False, gamma: bool = False
) -> None:
    """Draw normal numbers, or Student ones with this many degrees of freedom, for a lengthscale or a frequency."""
    source, count = walk.source, len(atoms)
    if len(leaf.dims) == 1:
        column, log_drawn = _draw_wide(freedom, count, source)
        base = column[:, None]
    else:
        base, log_drawn = source.normals((count, len(leaf.dims))), np.zeros(count)
        if freedom is not None:
            base /= _gamma_root(source.uniforms(count), freedom / 2)[:, None]
    quantile = source.uniforms(count) if gamma else None
    turn, power = (TWO_PI, 1.0) if rate else (1.0, -1.0)
    walk.waves.append(Wave(leaf, atoms, base, log_drawn, turn, power, quantile))


def _draw_line(walk: Walk, leaf: LeafNode, atoms: Indices) -> None:
    signs = walk.source.signs(len(atoms))[:, None]
    walk.waves.append(Wave(leaf, atoms, signs, np.zeros(len(atoms)), TWO_PI, 1.0))


def _draw_harmonics(walk: Walk, leaf: LeafNode, atoms: Indices, centred: bool) -> None:
    """Draw n from a table of |n| that ends where the probabilities do (12 deviations)."""
    source, integers, log_drawn = walk.source, [], np.zeros(len(atoms))
    for length in walk.values[leaf.offsets[1] : leaf.offsets[1] + len(leaf.dims)]:
        q = min(float(length) ** -2, LARGEST_Q)
        sizes = np.arange(40.0 + math.ceil(12 * math.sqrt(q)))
        weights = np.exp(log_bessel(sizes, np.array(q)) * (0.5 if source.stratified else 1.0))
        weights[0] *= 0.0 if centred else 0.5
        chosen = source.picks(weights, len(atoms))
        log_drawn += np.log(weights[chosen] / weights.sum() * np.where(chosen == 0, 1.0, 0.5))
        integers.append(sizes[chosen] * source.signs(len(atoms)))
    base = np.stack(integers, axis=1)
    walk.waves.append(Wave(leaf, atoms, base, log_drawn, TWO_PI, -1.0, centred=centred))


def _draw_slopes(walk: Walk, leaf: LeafNode, atoms: Indices) -> None:
    shares = walk.slopes(leaf)
    chosen = walk.source.picks(shares, len(atoms))
    walk.slope(leaf, atoms, chosen, shares[chosen] / shares.sum())


def _take_slopes(walk: Walk, leaf: LeafNode, atoms: Indices, numbers: Indices) -> None:
    several = len(leaf.dims)
    walk.slope(leaf, atoms, numbers % several, np.full(len(atoms), 1.0 / several))


def _draw_factor(walk: Walk, leaf: LeafNode, atoms: Indices, kind: type[Standing] | type[GateShare]) -> None:
    walk.factors.append(kind(leaf, atoms))


def _draw_nothing(walk: Walk, leaf: LeafNode, atoms: Indices) -> None:
    raise KernelError(f"{leaf.kind} has no random features")  # of size zero: nobody asks


def _refuse_complex(walk: Walk, leaf: LeafNode) -> float:
    raise KernelError("there are no random features for networks of complex units (EXPI): use COS instead")


@dataclass(frozen=True, eq=False)
class Spectrum:
    """How the random part of a leaf is drawn: `draw(walk, leaf, atoms)` adds a wave or a factor to the walk.

    size : k(x, x) of the leaf at a typical row, or what finds it. choices : of a leaf that is a finite sum of products,
    how many; None: it is drawn. waves : False where it is a function of one point, without a wave. take : `take(walk,
    leaf, atoms, numbers)` takes the choices by number, one for each atom, where all are taken; there is one for each
    column.
    """

    draw: Callable[[Walk, LeafNode, Indices], None]
    size: float | Callable[[Walk, LeafNode], float] = 1.0
    choices: Callable[[LeafNode], int] | None = None
    waves: bool = True
    take: Callable[[Walk, LeafNode, Indices, Indices], None] | None = None


SPECTRA |= {
    "SE": Spectrum(_draw_scaled),
    "RQ": Spectrum(partial(_draw_scaled, gamma=True)),
    "M12": Spectrum(partial(_draw_scaled, freedom=1)),
    "M32": Spectrum(partial(_draw_scaled, freedom=3)),
    "M52": Spectrum(partial(_draw_scaled, freedom=5)),
    "ENVELOPE": Spectrum(partial(_draw_scaled, rate=True)),
    "PER": Spectrum(partial(_draw_harmonics, centred=False)),
    "CPER": Spectrum(partial(_draw_harmonics, centred=True)),
    "COS": Spectrum(_draw_line, choices=lambda leaf: 1),
    "LIN": Spectrum(
        _draw_slopes,
        lambda walk, leaf: float(walk.slopes(leaf).sum()),
        lambda leaf: len(leaf.dims),
        waves=False,
        take=_take_slopes,
    ),
    "SUMI": Spectrum(partial(_draw_factor, kind=Standing), 0.5, lambda leaf: 1, waves=False),
    "GATE": Spectrum(partial(_draw_factor, kind=GateShare), 0.5, lambda leaf: 1, waves=False),
    "WN": Spectrum(_draw_nothing, 0.0),
    "SIN": Spectrum(_draw_nothing, _refuse_complex),
}


# ------------------------------------------------------------------------------------------------------------ walking


@dataclass(frozen=True)
class Monomial:
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
    summands: tuple[Monomial, ...]
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
    walk = Walk(program, program.widen(values), source, rows)
    summands = multiply_out(program)
    sizes = [
        each.constant * float(np.prod(walk.values[list(each.weights)])) * math.prod(walk.sizes[n] for n in each.nodes)
        for each in summands
    ]
    for number, columns in enumerate(_columns(program, summands, sizes, count)):
        if columns > 0:
            walk.draw_summand(number, summands[number], columns)
    if not walk.summand_of:  # a kernel of white noise alone has one atom, of amplitude zero
        walk.summand_of, walk.wave_of = [-1], [False]
        walk.constants.append((np.zeros(1, dtype=np.intp), np.array([-np.inf])))
    log_constant = np.zeros(len(walk.summand_of))
    for atoms, logs in walk.constants:
        log_constant[atoms] += logs
    waving, none = np.array(walk.wave_of), [np.empty(0, dtype=np.intp)]
    origin = np.zeros(dimensions) if rows is None or not len(rows) else np.mean(rows, axis=0)
    return Atoms(
        program, summands, origin, np.array(walk.summand_of, dtype=np.intp), log_constant,
        np.concatenate(none + walk.weighed), np.concatenate(none + walk.weights), tuple(walk.waves),
        tuple(walk.factors), np.flatnonzero(waving), np.flatnonzero(~waving),
    )  # fmt: skip


@forget_with
@lru_cache(maxsize=1024)
def multiply_out(program: Program) -> tuple[Monomial, ...]:
    """Return the summands of a program; a part with too many of them, or under an Exp, stays as it is."""
    found: list[tuple[Monomial, ...]] = []
    for number, node in enumerate(program.nodes):
        parts: list[Monomial] | None = None
        if isinstance(node, Affine):
            parts = [
                Monomial((*part.weights, *weights), part.constant * constant, part.nodes)
                for child, weights, constant in node.edges
                for part in found[child]
            ]
        elif isinstance(node, Term) and all(is_log_leaf(program.nodes[n]) for n in node.logs):
            choices = [found[n] for n in (*node.logs, *node.factors)]
            if math.prod(map(len, choices)) <= MOST_SUMMANDS:
                parts = [
                    Monomial(
                        tuple(place for factor in choice for place in factor.weights),
                        math.prod(factor.constant for factor in choice),
                        tuple(node for factor in choice for node in factor.nodes),
                    )
                    for choice in cartesian(*choices)
                ]
        fits = parts is not None and len(parts) <= MOST_SUMMANDS
        found.append(tuple(parts) if parts is not None and fits else (Monomial((), 1.0, (number,)),))
    return found[-1]


def is_log_leaf(node: Node) -> bool:
    """Tell whether a node is a leaf that gives its logarithm."""
    return isinstance(node, LeafNode) and node.flags.log_form


def _has_wave(program: Program, summand: Monomial) -> bool:
    nodes = (program.nodes[number] for number in summand.nodes)
    return any(not isinstance(node, LeafNode) or spectrum_of(node.kind).waves for node in nodes)


def _finite_atoms(program: Program, summand: Monomial) -> int | None:
    """Return how many products a summand is the sum of; None where waves are drawn."""
    total, waves = 1, 0
    for leaf in (program.nodes[number] for number in summand.nodes):
        choices = spectrum_of(leaf.kind).choices if isinstance(leaf, LeafNode) else None
        if choices is None or not isinstance(leaf, LeafNode):
            return None
        total, waves = total * choices(leaf), waves + spectrum_of(leaf.kind).waves
    return total if waves <= 1 else None


def _columns(program: Program, summands: tuple[Monomial, ...], sizes: list[float], count: int) -> list[int]:
    """Return the columns due to each summand (see the rules above)."""
    columns = [2 if _has_wave(program, summand) else 1 for summand in summands]  # of one atom
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
class Walk:
    """Draws atoms and gathers what they are made of; sizes : k(x, x) of each node at a typical row."""

    program: Program
    values: Array
    source: Source
    rows: Array | None
    sizes: list[float] = field(default_factory=list)
    waves: list[Wave] = field(default_factory=list)
    factors: list[Factor] = field(default_factory=list)
    weighed: list[Indices] = field(default_factory=list)
    weights: list[Indices] = field(default_factory=list)
    constants: list[tuple[Indices, Array]] = field(default_factory=list)
    summand_of: list[int] = field(default_factory=list)
    wave_of: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        nodes, sizes = self.program.nodes, self.sizes
        for node in nodes:
            if isinstance(node, LeafNode):
                size = spectrum_of(node.kind).size
                sizes.append(size if isinstance(size, float) else size(self, node))
            elif isinstance(node, Term):
                powers = (sizes[n] for n in node.logs if not is_log_leaf(nodes[n]))
                exponentials = (math.exp(min(power, LARGEST_EXPONENT)) for power in powers)
                sizes.append(math.prod(exponentials) * math.prod(sizes[n] for n in node.factors))
            else:
                sizes.append(float(self._shares(node).sum()))

    def slopes(self, leaf: LeafNode) -> Array:
        """w_d times the mean of (x_d - c_d)^2 over the rows, for each column of LIN."""
        offset, weight = (self.values[start : start + len(leaf.dims)] for start in leaf.offsets)
        if self.rows is None or not len(self.rows):
            return weight
        squares = np.mean((self.rows[:, list(leaf.dims)] - offset) ** 2, axis=0)
        return np.asarray(weight * np.where(squares > 0, squares, 1.0))

    def _shares(self, node: Affine) -> Array:
        """Weight times size of each part of a sum."""
        if min(node.multipliers, default=0.0) < 0:
            raise KernelError("there are no random features for networks of complex units (EXPI): use COS instead")
        return np.array([c * np.prod(self.values[list(w)]) * self.sizes[child] for child, w, c in node.edges])

    def draw_summand(self, number: int, summand: Monomial, columns: int) -> None:
        """Draw the atoms of one summand: as many as its columns hold."""
        waving = _has_wave(self.program, summand)
        count = columns // 2 if waving else columns
        finite = _finite_atoms(self.program, summand)
        atoms = np.arange(len(self.summand_of), len(self.summand_of) + count)
        self.summand_of += [number] * count
        self.wave_of += [waving] * count
        self._multiply(atoms, summand.constant / count, summand.weights)
        step = 1  # in a finite summand, with as many atoms as products, atoms run through all choices of columns
        for node in summand.nodes:
            leaf = self.program.nodes[node]
            take = spectrum_of(leaf.kind).take if isinstance(leaf, LeafNode) and finite == count else None
            if isinstance(leaf, LeafNode) and take is not None:
                take(self, leaf, atoms, np.arange(count) // step)
                step *= len(leaf.dims)
            else:
                self._draw(node, atoms)

    def _draw(self, number: int, atoms: Indices) -> None:
        """Multiply a node into the atoms."""
        node = self.program.nodes[number]
        if not len(atoms):
            return
        if isinstance(node, LeafNode):
            spectrum_of(node.kind).draw(self, node, atoms)
        elif isinstance(node, Term):
            for child in node.logs:
                if is_log_leaf(self.program.nodes[child]):
                    self._draw(child, atoms)
                else:
                    self._draw_exp(child, atoms)
            for child in node.factors:
                self._draw(child, atoms)
        else:
            shares = self._shares(node)
            shares = shares / shares.sum()
            chosen = self.source.picks(shares, len(atoms))
            for place, child in enumerate(node.children):
                those = atoms[chosen == place]
                if len(those):
                    self._multiply(those, node.multipliers[place] / shares[place], node.weights[place])
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

    def slope(self, leaf: LeafNode, atoms: Indices, chosen: Indices, probability: Array) -> None:
        """Multiply the column of LIN chosen for each atom into it."""
        offset, weight = leaf.offsets
        self.factors.append(Slope(atoms, np.array(leaf.dims, dtype=np.intp)[chosen], offset + chosen))
        self.weighed.append(atoms)
        self.weights.append(weight + chosen)
        self.constants.append((atoms, -np.log(probability)))

    def _multiply(self, atoms: Indices, constant: float, places: tuple[int, ...]) -> None:
        """Multiply a constant, and the values at some places, into the atoms."""
        self.constants.append((atoms, np.full(len(atoms), math.log(constant))))
        for place in places:
            self.weighed.append(atoms)
            self.weights.append(np.full(len(atoms), place))
