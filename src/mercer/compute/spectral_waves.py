"""The random part of each leaf: the frequency of a wave, or a factor of the inputs.

A stationary unit kernel is k(d) = E cos(v.d) with v drawn from its spectrum (Bochner; METHODS 5):

    SE                v = z / l,  z standard normal            ENVELOPE   v = 2 pi b z
    RQ                v = z sqrt(g) / l,  g gamma with shape a and rate a
    M12, M32, M52     v = t / l,  t Student with 1, 3, 5 degrees of freedom (on all columns together)
    PER               v = 2 pi n / p,  n an integer with probability I_n(q) exp(-q), q = 1 / l^2, in each column
    CPER              the same without n = 0, over 1 - I_0(q) exp(-q)
    COS               v = +-2 pi f

PER here is exp(-2 sin^2(pi d / p) / l^2) = exp(q (cos t - 1)), so that the weights are those of Solin & Sarkka (2014)
with the same l. Two leaves are not stationary, and multiply the waves by a function of one point:

    LIN   x_j - c_j for a column j drawn with some probability       SUMI   cos(2 pi f.(x - c))

What is drawn does not depend on the parameters, except for the integers n: those are weighed by their weight over the
probability that they were drawn with, so that features are smooth in every parameter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, gammaln, ive, ndtri, stdtrit

from mercer.compute import surfaces
from mercer.compute.fused_leaves import centred_constants
from mercer.compute.nodes import Leaf, LeafKind
from mercer.kernels.blend import Surface
from mercer.kernels.domains import Array

Indices = NDArray[np.intp]

TWO_PI = 2.0 * math.pi
FREEDOM = {LeafKind.M12: 1, LeafKind.M32: 3, LeafKind.M52: 5}
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
        return np.searchsorted(edges, self.uniforms(count) * edges[-1], side="right")


@dataclass(frozen=True, eq=False)
class Wave:
    """A stationary leaf in some atoms: what was drawn for each of them, (atoms, columns of the leaf)."""

    leaf: Leaf
    atoms: Indices
    base: Array
    quantile: Array  # of the gamma number of RQ; empty for the others
    log_drawn: Array  # log of the probability of the integers; for the others, of density drawn from over density

    @property
    def cells(self) -> tuple[Indices, Indices]:
        """Where its frequencies are in a matrix of atoms and columns of the data."""
        return self.atoms[:, None], np.array(self.leaf.dims, dtype=np.intp)

    def frequency(self, values: Array) -> Array:
        """Return v for each atom on the columns of the leaf."""
        kind, first = self.leaf.kind, self._parameter(values, 0)
        if kind in (LeafKind.COS, LeafKind.ENVELOPE):
            return TWO_PI * first * self.base
        if kind in (LeafKind.PER, LeafKind.CPER):
            return TWO_PI * self.base / first
        return self._scaled(values) / first

    def log_weight(self, values: Array) -> Array:
        """Return the log of how much likelier, under the leaf's own law, what was drawn is than it was to be drawn."""
        if self.leaf.kind not in (LeafKind.PER, LeafKind.CPER):
            return -self.log_drawn
        return integer_log_weight(self.leaf.kind, self.base, self._parameter(values, 1)) - self.log_drawn

    def pull_back(self, values: Array, by_frequency: Array, by_log_weight: Array, gradient: Array) -> None:
        """Add to the gradient by values what follows from those by frequency and by log weight."""
        kind, first = self.leaf.kind, self._parameter(values, 0)
        where = self._where(0)
        if kind in (LeafKind.COS, LeafKind.ENVELOPE):
            gradient[where] += TWO_PI * np.einsum(
                "ij,ij->j", by_frequency, np.broadcast_to(self.base, by_frequency.shape)
            )
            return
        gradient[where] -= np.einsum("ij,ij->j", by_frequency, self.frequency(values)) / first
        if kind is LeafKind.RQ:
            by_root = np.einsum("ij,ij->i", by_frequency, self.base / first)
            gradient[self.leaf.offsets[1]] += float(by_root @ self._root_by_alpha(values))
        elif kind in (LeafKind.PER, LeafKind.CPER):
            by_length = _log_weight_by_length(kind, self.base, self._parameter(values, 1))
            gradient[self._where(1)] += by_log_weight @ by_length

    def _scaled(self, values: Array) -> Array:
        if self.leaf.kind is not LeafKind.RQ:
            return self.base
        return self.base * _gamma_root(self.quantile, float(values[self.leaf.offsets[1]]))[:, None]

    def _root_by_alpha(self, values: Array) -> Array:
        alpha = float(values[self.leaf.offsets[1]])
        step = ALPHA_STEP * alpha
        return (_gamma_root(self.quantile, alpha + step) - _gamma_root(self.quantile, alpha - step)) / (2 * step)

    def _where(self, number: int) -> slice:
        return slice(self.leaf.offsets[number], self.leaf.offsets[number] + len(self.leaf.dims))

    def _parameter(self, values: Array, number: int) -> Array:
        return values[self._where(number)]


def draw_wave(leaf: Leaf, values: Array, atoms: Indices, source: Source) -> Wave:
    """Draw the random part of a stationary leaf for some atoms."""
    count, columns, none = len(atoms), len(leaf.dims), np.zeros(len(atoms))
    if leaf.kind is LeafKind.COS:
        return Wave(leaf, atoms, source.signs(count)[:, None], none, none)
    if leaf.kind in (LeafKind.PER, LeafKind.CPER):
        lengths = values[leaf.offsets[1] : leaf.offsets[1] + columns]
        drawn = [_draw_integers(leaf.kind, float(length), count, source) for length in lengths]
        integers, log_drawn = np.stack([n for n, _ in drawn], axis=1), np.sum([p for _, p in drawn], axis=0)
        return Wave(leaf, atoms, integers, none, log_drawn)
    if columns == 1:
        base, log_drawn = _draw_wide(FREEDOM.get(leaf.kind), count, source)
        quantile = source.uniforms(count) if leaf.kind is LeafKind.RQ else none
        return Wave(leaf, atoms, base[:, None], quantile, log_drawn)
    base = source.normals((count, columns))
    if leaf.kind is LeafKind.RQ:
        return Wave(leaf, atoms, base, source.uniforms(count), none)
    if leaf.kind in FREEDOM:
        base /= _gamma_root(source.uniforms(count), FREEDOM[leaf.kind] / 2)[:, None]
    return Wave(leaf, atoms, base, none, none)


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


def _draw_integers(kind: LeafKind, lengthscale: float, count: int, source: Source) -> tuple[Array, Array]:
    """Draw n from a table of |n| that ends where the probabilities do (12 deviations); return log probabilities too."""
    q = min(lengthscale**-2, LARGEST_Q)
    sizes = np.arange(40.0 + math.ceil(12 * math.sqrt(q)))
    weights = np.exp(_log_bessel(sizes, np.array(q)) * (0.5 if source.stratified else 1.0))
    weights[0] *= 0.5 if kind is LeafKind.PER else 0.0
    chosen = source.picks(weights, count)
    probability = weights[chosen] / weights.sum() * np.where(chosen == 0, 1.0, 0.5)
    return sizes[chosen] * source.signs(count), np.log(probability)


def integer_log_weight(kind: LeafKind, integers: Array, lengths: Array) -> Array:
    """Return the log of prod_d I_n(q_d) exp(-q_d), over 1 - I_0(q) exp(-q) for CPER."""
    result = _log_bessel(np.abs(integers), lengths**-2.0).sum(axis=1)
    if kind is LeafKind.CPER:
        result = result - sum(math.log(centred_constants(float(length))[1]) for length in lengths)
    return np.asarray(result)


def _log_weight_by_length(kind: LeafKind, integers: Array, lengths: Array) -> Array:
    """The slope of the log weight by each lengthscale, dq/dl = -2 / l^3."""
    by_q = _log_bessel_slope(np.abs(integers), lengths**-2.0)
    if kind is LeafKind.CPER:
        constants = np.array([centred_constants(float(length)) for length in lengths])
        by_q = by_q + constants[:, 2] / constants[:, 1]
    return np.asarray(by_q * (-2 * lengths**-3.0))


def _log_bessel(n: Array, q: Array) -> Array:
    """log(I_n(q) exp(-q)).

    For large q by Debye's expansion, r^2 = n^2 + q^2 (Abramowitz & Stegun 9.7.7; its error is of the order of 1 / q^2):
    I_n(q) = exp(r - n asinh(n / q)) / sqrt(2 pi r) (1 + 1 / 8r - 5 n^2 / 24 r^3).
    """
    r = np.hypot(n, q)
    large = n**2 / (r + q) - n * np.arcsinh(n / q) - 0.5 * np.log(TWO_PI * r)
    large += np.log1p(0.125 / r - 5 * n**2 / (24 * r**3))
    with np.errstate(divide="ignore"):
        return np.where(q > LARGE_Q, large, np.log(ive(n, np.minimum(q, LARGE_Q))))


def _log_bessel_slope(n: Array, q: Array) -> Array:
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

    leaf: Leaf
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
class Share:
    """A gate in some atoms: the factor s_i(x) of one regime of a change surface, the same for all of them."""

    leaf: Leaf
    atoms: Indices

    def _surface(self) -> tuple[Surface, slice]:
        assert self.leaf.surface is not None
        start = self.leaf.offsets[0]
        return self.leaf.surface, slice(start, start + sum(surfaces.sizes(self.leaf.surface)))

    def at(self, X: Array, values: Array) -> Array:
        """Return the factor at each row, (rows, 1)."""
        surface, place = self._surface()
        return surfaces.shares(surface, values[place], X)[self.leaf.regime][:, None]

    def pull_back(self, X: Array, values: Array, by_factor: Array, gradient: Array) -> None:
        """Add to the gradient by values what follows from that by the factor."""
        surface, place = self._surface()
        by_shares = np.zeros((surface.regimes, len(X)))
        by_shares[self.leaf.regime] = by_factor.sum(axis=1)
        gradient[place] += surfaces.pull_back(surface, values[place], X, by_shares)


Factor = Slope | Standing | Share
