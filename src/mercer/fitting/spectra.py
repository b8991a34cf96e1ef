"""What a grid of values shows along each of its axes: spectra, periods, noise, and spectral mixtures to start from.

Under a product kernel the covariance along one axis, averaged over all lines, is that axis' factor times a number. So
the mean periodogram of the lines is the factor's spectral density (blurred by the window), plus a floor of noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.inference.contract import Data
from mercer.kernels.domains import Array

ENOUGH_LINES = 8  # without a hole; with fewer, holes are bridged by straight lines
HALF_SEEN = 0.5
LEAST_WIDTH = 0.3  # of a step of the periodogram: a wave through the whole grid
ROUNDS = 100


@dataclass(frozen=True, eq=False)
class LineSpectrum:
    """Power at frequencies from zero to one half for each step of the axis, adding up to one."""

    frequency: Array
    power: Array

    @property
    def floor(self) -> float:
        """The share of the variance that white noise at the level of the fastest tenth would have."""
        count = max(1, len(self.power) // 10)
        return float(np.median(self.power[-count:])) * len(self.power)

    def periods(self, count: int) -> Array:
        """Return the periods of the highest peaks, strongest first."""
        inner = np.flatnonzero((self.power[1:-1] >= self.power[:-2]) & (self.power[1:-1] > self.power[2:])) + 1
        ranked = inner[np.argsort(-self.power[inner], kind="stable")][:count]
        return np.asarray(1.0 / self.frequency[ranked])


def line_spectra(data: Data) -> list[LineSpectrum]:
    """Return the mean spectrum of the lines along every axis, frequencies in cycles per unit of the inputs."""
    lattice = data.lattice
    assert lattice is not None
    grid = np.full(lattice.size, np.nan)
    grid[lattice.cells] = data.y - data.y.mean()
    grid = grid.reshape(lattice.shape)
    return [_spectrum(np.moveaxis(grid, d, -1).reshape(-1, n), lattice.axes[d]) for d, n in enumerate(lattice.shape)]


def _spectrum(lines: Array, axis: Array) -> LineSpectrum:
    n = len(axis)
    if n < 4:
        return LineSpectrum(np.array([0.0, 0.5 * n]), np.array([1.0, 0.0]))
    seen = ~np.isnan(lines)
    whole = seen.all(axis=1)
    if whole.sum() >= ENOUGH_LINES:
        lines = lines[whole]
    else:
        most = seen.mean(axis=1) >= min(HALF_SEEN, seen.mean(axis=1).max())
        lines = np.stack([np.interp(axis, axis[s], row[s]) for row, s in zip(lines[most], seen[most], strict=True)])
    step = float(np.ptp(axis)) / (n - 1)
    even = np.linspace(axis[0], axis[-1], n)
    if np.max(np.abs(axis - even)) > 1e-6 * step:
        lines = np.stack([np.interp(even, axis, row) for row in lines])
    window = np.hanning(n + 2)[1:-1]
    power = np.mean(np.abs(np.fft.rfft(lines * window, axis=1)) ** 2, axis=0)
    total = power.sum()
    power = power / total if total > 0 else np.full(len(power), 1.0 / len(power))
    return LineSpectrum(np.asarray(np.fft.rfftfreq(n, step), dtype=np.float64), power)


@dataclass(frozen=True, eq=False)
class Mixture:
    """Weights, frequencies and bandwidths of a spectral mixture."""

    weights: Array
    frequency: Array
    bandwidth: Array


def mixture_of(spectrum: LineSpectrum, components: int, rng: np.random.Generator, peaked: bool = True) -> Mixture:
    """Fit a mixture of Gaussians to a spectrum by expectation and maximisation, mirrored at zero.

    It begins at the highest peaks (`peaked`), a quarter of the components being wide ones anywhere, or at frequencies
    drawn by their power.
    """
    f, power = spectrum.frequency, np.maximum(spectrum.power - spectrum.floor / len(spectrum.power), 1e-12)
    power = power / power.sum()
    least = LEAST_WIDTH * f[1]
    top = np.argsort(-power, kind="stable")
    local = [i for i in top if power[i] >= power[max(0, i - 1)] and power[i] >= power[min(len(f) - 1, i + 1)]]
    count = components - components // 4 if peaked else 1
    centre = np.concatenate([f[local[:count]], rng.choice(f, components, p=power)])[:components]
    width = np.full(components, 3.0 * least)
    width[min(count, len(local)) :] = 0.1 * f[-1] if peaked else 6.0 * least
    weights = np.full(components, 1.0 / components)
    for _ in range(ROUNDS):
        sides = np.exp(-0.5 * ((f[:, None] - centre) / width) ** 2)
        sides += np.exp(-0.5 * ((f[:, None] + centre) / width) ** 2)
        share = weights * sides / width + 1e-300
        share *= (power / share.sum(axis=1))[:, None]
        total = share.sum(axis=0) + 1e-9
        weights = total / total.sum()
        centre = share.T @ f / total
        width = np.sqrt(np.einsum("fq,fq->q", share, (f[:, None] - centre) ** 2) / total + least**2)
    return Mixture(weights, centre, width)
