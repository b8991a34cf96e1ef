"""Change surfaces: where a fit begins, how far it may go, and weak priors; all in scaled units.

Where does something change? Every place along a column is asked how much better two halves are described apart than
together: by their own level and spread, and by their own roughness (the spread of steps from row to row). The peaks are
where a change point or a window is tried first.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.blend import Surface
from mercer.kernels.domains import Array

LEAST = 5  # rows on either side of a change that is worth trying
PLACES = 6
WIDEST = 0.25  # of the range: the width of a change (from a tenth to nine tenths it takes 4.4 times that)
STEEPEST = 0.1  # of the typical gap: a sharper change looks the same
LARGEST = 30.0  # of w(x): beyond it a share is 0 or 1 to rounding
WEIGHT = 4.0  # spread of a feature's weight: some of them together take a share from 0 to 1
FASTEST = 3.0  # waves of a surface over the range of the data


def change_places(column: Array, y: Array, periods: Array | None = None) -> Array:
    """Return places along a column where rows before and after differ most, the strongest first.

    Without the strongest of some periods too: a season hides a change of level, and is cheap to take out.
    """
    order = np.argsort(column, kind="stable")
    x, target = column[order], y[order]
    gains = [_gain(target), _gain(np.diff(target, prepend=target[0]), centred=False)]
    if periods is not None and len(periods) and len(x) > 4 * LEAST:
        gains.insert(0, _gain(target - _season(x, target, float(periods[0]))))
    apart = max(LEAST, len(x) // 20)
    ranked = [[float(0.5 * (x[p - 1] + x[p])) for p in _peaks(gain, apart)] for gain in gains]
    places = list(dict.fromkeys(one for turn in zip_longest(*ranked) for one in turn if one is not None))
    return np.array(places[:PLACES] if places else [float(x[0] + x[-1]) / 2])


def _season(x: Array, y: Array, period: float) -> Array:
    """Return the wave of that period and its first overtones that is nearest to y."""
    angle = 2.0 * np.pi * x / period
    waves = [np.ones_like(x), *(wave(k * angle) for k in (1, 2, 3) for wave in (np.cos, np.sin))]
    design = np.stack(waves, axis=1)
    return np.asarray(design @ np.linalg.lstsq(design, y, rcond=None)[0])


def _gain(values: Array, centred: bool = True) -> Array:
    """Return for every split how much a Gaussian for each part gains over one for all: log likelihood."""
    n = len(values)
    count = np.arange(1, n + 1)
    sums, squares = np.cumsum(values), np.cumsum(values**2)

    def variance(total: Array, square: Array, rows: NDArray[Any]) -> Array:
        spread = square / rows - (total / rows) ** 2 if centred else square / rows
        return np.maximum(spread, 1e-8)

    gain = np.full(n, -np.inf)
    inner = np.arange(LEAST, n - LEAST + 1)  # the first row of the second part
    if len(inner):
        before = variance(sums[inner - 1], squares[inner - 1], count[inner - 1])
        rest = n - inner
        after = variance(sums[-1] - sums[inner - 1], squares[-1] - squares[inner - 1], rest)
        whole = variance(sums[-1:], squares[-1:], np.array([n]))
        gain[inner] = 0.5 * (n * np.log(whole) - inner * np.log(before) - rest * np.log(after))
    return gain


def _peaks(gain: Array, apart: int) -> list[int]:
    """Return the highest entries that are some rows apart from each other."""
    chosen: list[int] = []
    for place in np.argsort(-gain, kind="stable"):
        if not np.isfinite(gain[place]) or len(chosen) == PLACES:
            break
        if all(abs(int(place) - other) >= apart for other in chosen):
            chosen.append(int(place))
    return chosen


def surface_start(
    name: str, surface: Surface, X: Array, places: Array, span: Array, gap: Array, rng: np.random.Generator | None
) -> Array:
    """Return a start for one parameter of a surface; None for `rng`: the typical one. Sizes as in the values vector."""
    size = next(s.size(len(span), surface.components) for s in surface.specs if s.name == name)
    draw = rng or np.random.default_rng(0)
    low = X.min(axis=0)
    if name == "location":
        return _locations(size, places, float(low[0]), float(span[0]), rng)
    if name == "start":
        return np.array([places.min() if rng is None else draw.choice(places)])
    if name == "duration":
        usual = np.ptp(places) if rng is None and len(places) > 1 else span[0] * draw.uniform(0.05, 0.6)
        return np.array([max(float(usual), 2.0 * float(gap[0]))])
    if name == "width":
        return np.tile(_log_uniform(rng, np.minimum(0.5 * gap, 0.01 * span), 0.1 * span), size)
    if name == "slope":
        return np.tile(4.0 / span, size // len(span)) if rng is None else draw.normal(size=size) * np.tile(
            8.0 / span, size // len(span)
        )  # fmt: skip
    if name == "frequency":  # Herlands et al., Algorithm 2: N(0, Lambda^-1 / 4 pi^2), Lambda = (range / 2)^2
        scale = np.tile(1.0 / (np.pi * span), size // len(span))
        return draw.normal(size=size) * scale
    if name == "phase":
        return draw.uniform(0.0, 2.0 * np.pi, size)
    if name == "amplitude":  # N(0, sigma_0 / m), sigma_0 the spread of the target: one
        return draw.normal(size=size) / np.sqrt(surface.features)
    if name == "centres":
        chosen = spread_rows(X, surface.features)
        return np.tile(chosen.ravel(), surface.regimes - 1)
    if name == "lengthscale":
        return span * (0.5 if rng is None else draw.uniform(0.35, 1.0))  # as smooth as those of Algorithm 2
    if name == "weights":  # so that a share reaches from near 0 to near 1
        return 2.0 * draw.normal(size=size)
    return draw.normal(size=size)  # bias


def _locations(count: int, places: Array, low: float, span: float, rng: np.random.Generator | None) -> Array:
    """As many places as there are changes, in order; at random some of the time, so that none is missed."""
    if rng is not None and (len(places) < count or rng.random() < 0.3):
        return np.sort(low + span * rng.uniform(0.05, 0.95, count))
    if len(places) < count:
        return low + span * np.arange(1, count + 1) / (count + 1)
    if rng is None:
        return np.sort(places[:count])
    weights = 0.6 ** np.arange(len(places))
    return np.sort(rng.choice(places, count, replace=False, p=weights / weights.sum()))


def spread_rows(X: Array, count: int) -> Array:
    """Return rows far from each other: each is the one farthest from those before it, the first near the middle."""
    scaled = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    chosen = [int(np.argmin((scaled**2).sum(axis=1)))]
    distance = ((scaled - scaled[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < count:
        chosen.append(int(np.argmax(distance)))
        distance = np.minimum(distance, ((scaled - scaled[chosen[-1]]) ** 2).sum(axis=1))
    return np.asarray(X[chosen])


def _log_uniform(rng: np.random.Generator | None, low: Array, high: Array) -> Array:
    position = 0.3 if rng is None else rng.uniform(size=len(low))
    return np.asarray(low * (high / low) ** position)


def surface_bounds(name: str, surface: Surface, size: int, low: Array, span: Array, gap: Array) -> Array:
    """Return low and high (size x 2) of a parameter's values."""
    repeats = size // len(span) if size % len(span) == 0 else 1
    if name in ("location", "start", "centres"):
        return np.tile(np.column_stack([low, low + span]), (repeats, 1))
    if name == "width":
        return np.tile(np.column_stack([STEEPEST * gap, WIDEST * span]), (repeats, 1))
    if name == "duration":
        return np.column_stack([gap, span])
    if name == "lengthscale":
        return np.column_stack([0.2 * span, 2.0 * span])
    if name in ("slope", "frequency"):
        fastest = np.tile((1.0 / (STEEPEST * gap)) if name == "slope" else FASTEST / span, repeats)
        return np.column_stack([-fastest, fastest])
    if name == "bias":  # it moves the surface across the data, wherever that lies
        most = LARGEST + float(np.max(np.maximum(np.abs(low), np.abs(low + span)) / (STEEPEST * gap)))
        return np.tile([-most, most], (size, 1))
    return np.tile([-LARGEST, LARGEST], (size, 1))


def surface_prior(name: str, surface: Surface, count: int, span: Array) -> tuple[list[float], list[float]]:
    """Return centre and spread of a weak Gaussian prior on the free numbers of a parameter; infinite: no opinion."""
    repeats = count // len(span) if count % len(span) == 0 else 1
    if name in ("width", "duration", "lengthscale"):
        share = {"width": 0.02, "duration": 0.3, "lengthscale": 0.5}[name]
        return [float(np.log(share * s)) for s in span] * repeats, [2.0] * count
    if name in ("amplitude", "weights"):
        return [0.0] * count, [WEIGHT] * count
    if name == "frequency":  # that of Algorithm 2, from which it is drawn
        return [0.0] * count, [float(1.0 / (np.pi * s)) for s in span] * repeats
    return [0.0] * count, [np.inf] * count
