"""What a series shows before anything is fitted: its periods, and where it changes. Rows in any order and with gaps.

Two views: peaks of the Lomb-Scargle periodogram, and periods whose waves and overtones together leave least over. The
second finds a pattern whose strongest wave is an overtone, or whose size changes along the way, which the first splits
into several peaks, none of them at the period.

Where does something change? Every place along a column is asked how much better two halves are described apart than
together: by their own level and spread, and by their own roughness (the spread of steps from row to row). The peaks are
where a change point or a window is tried first.
"""

from __future__ import annotations

import math
from itertools import islice, pairwise, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.domains import Array

EVEN, MOSTLY = 0.1, 0.8  # months are evenly spaced, and so are days without Sundays
SPARSEST = 20.0  # steps between rows on average: rows further apart do not show what repeats within a few steps
LARGEST = 2000  # rows looked at; more add time, not peaks
OVERTONES = 4  # the period itself among them
CYCLES = (1.5, 40.0)  # of patterns looked for in the second view; with more of them the first view sees them clearly
ROWS = 500  # looked at in the second view
AT_A_TIME = 16  # periods of the second view that are fitted together: 2 MB, what a cache holds
PATTERNS = 4
NEARLY = 1.05
MUCH_BETTER = 0.8
STRONGEST, AT_LEAST, TOLERANCE = 5, 3, 0.06  # waves looked at for a common period; how many must share it; cycles off
LEAST_ROWS = 5  # on either side of a change that is worth trying
CLEAR_STEP = 10.0  # of twice the log likelihood, beyond what the best of all places gains by chance
PLACES = 6  # where something may change
NEAR = 3  # rows whose median is the level there
LEAST_FOR_SEASONS = 60  # rows; fewer show one pattern at most, which `periods` finds
SLOW = 12  # of all rows: what is slower than this part of them is taken out of the first view of seasons
BESIDE, SHARP = 1.25, 1.7  # a season takes out this many times as much as periods so much longer and shorter do
SAME = 0.5  # cycles over the whole span: periods nearer to each other cannot be distinguished


def typical_gap(column: Array) -> float:
    """Return the median distance between neighbouring distinct values (0 if there is only one)."""
    distinct = np.unique(column)
    return float(np.median(np.diff(distinct))) if len(distinct) > 1 else 0.0


def shortest_period(column: Array) -> float:
    """Return the shortest period worth looking for: of three gaps between evenly spaced values, of ten where they are
    scattered, since with fewer rows to a cycle some wave always fits their noise.
    """
    distinct = np.unique(column)
    gaps, repeated = np.diff(distinct), len(distinct) < len(column)
    if not len(gaps):
        return 0.0
    for unit in np.quantile(gaps, (0.5, 0.1, 0.02, 0.0)):  # a few rows of a grid are still on the grid
        steps = gaps / unit
        on_grid = np.mean(np.abs(steps - np.round(steps)) < EVEN) > MOSTLY
        # Numbers written to some digits are on a grid too: a fine one, or one on which they meet each other by chance.
        by_chance = np.mean(steps) > SPARSEST or (repeated and np.median(steps) > 1.0 + EVEN)
        if on_grid and not by_chance:
            return 3.0 * float(unit)
    return 10.0 * float(np.mean(gaps))


def periods(column: Array, y: Array, count: int) -> Array:
    """Return up to `count` periods, most promising first, of y against the column, a straight line taken out first."""
    if len(column) > LARGEST:
        keep = np.sort(np.argsort(column)[:LARGEST])
        column, y = column[keep], y[keep]
    span, gap = float(np.ptp(column)), typical_gap(column)
    if span <= 0 or gap <= 0 or len(column) < 5:
        return np.empty(0)
    slope = np.polyfit(column, y, 1)
    rest = y - np.polyval(slope, column)
    if not np.any(np.abs(rest) > 1e-12 * (np.abs(y).max() + 1e-300)):
        return np.empty(0)
    waves = _waves(column, rest, gap)
    patterns = _patterns(column, rest, gap)
    # the two strongest waves, then patterns and waves in turn; before all others a pattern that fits much better
    much = False
    if len(patterns) and len(waves):
        much = _left_over(column, rest, patterns[0]) < MUCH_BETTER * _left_over(column, rest, waves[0])
    merged = [*_common(waves[:STRONGEST], span), *patterns[:much], *waves[:2], *in_turn(patterns[much:], waves[2:])]
    distinct = (p for i, p in enumerate(merged) if all(abs(span / p - span / q) > SAME for q in merged[:i]))
    return np.array(list(islice(distinct, count)))  # thousands of peaks are never compared with each other


def seasons(column: Array, y: Array, count: int) -> Array:
    """Return up to `count` periods of patterns that repeat, each found in what those before it leave over.

    A slow movement fills the slow end of a periodogram and hides what is fast: patterns are looked for beside a moving
    average first, then in all of y. One that takes out no more than the best of N would by chance is none: of N sums of
    k squares of noise the largest is about k + 2 sqrt(k log N) + 2 log N (Laurent and Massart 2000). Nor is one that
    takes out hardly more than periods beside it, as all slow periods of a walk do.
    """
    order = np.argsort(column, kind="stable")
    x, rest = column[order], y[order] - np.polyval(np.polyfit(column, y, 1), column[order])
    n, span, found = len(x), float(np.ptp(x)), list[float]()
    if n < LEAST_FOR_SEASONS or span <= 0:
        return np.empty(0)
    numbers = 4 * OVERTONES
    chance = (numbers + 2.0 * math.sqrt(numbers * math.log(n)) + 2.0 * math.log(n)) / n
    views = [rest - _moving_average(rest, n // SLOW), rest]
    for view in (0, 0, 1, 1):
        left = views[view]
        period = next(iter(periods(x, left, 1)), math.nan)
        if len(found) == count or not (math.isfinite(period) and span >= AT_LEAST * period):
            continue
        share, beside = (
            max(1.0 - _left_over(x, left, factor * period) / float(left @ left) for factor in factors)
            for factors in ((1.0,), (1.0 / BESIDE, BESIDE))
        )
        if share > max(chance, SHARP * beside) and all(abs(span / period - span / other) > 2 * SAME for other in found):
            found.append(float(period))
            views = [each - _pattern(x, each, period) for each in views]
        else:
            views[view] = left - _pattern(x, left, period)
    return np.array(found)


def _moving_average(values: Array, width: int) -> Array:
    window = np.ones(2 * (width // 2) + 1)
    return np.asarray(np.convolve(values, window, "same") / np.convolve(np.ones(len(values)), window, "same"))


def _common(waves: Array, span: float) -> list[float]:
    """Return the period of which several of the strongest waves are overtones, if there is one.

    What a rough kernel cannot predict from the neighbours is mostly fast: of a yearly pattern it leaves the overtones,
    a half, a third, a quarter of a year, and hardly the year.
    """
    best: list[float] = []
    shared = AT_LEAST
    for wave in waves:
        for times in range(2, OVERTONES + 2):
            ratio = times * wave / waves
            whole = np.round(ratio)
            agree = (np.abs(ratio - whole) < TOLERANCE) & (whole > 0) & (whole <= OVERTONES + 2)
            if len(set(whole[agree])) >= shared and CYCLES[0] * times * wave < span:
                best, shared = [float(np.mean((whole * waves)[agree]))], len(set(whole[agree])) + 1
    return best


def _waves(column: Array, rest: Array, gap: float) -> Array:
    """Periods at the peaks of the Lomb-Scargle periodogram, strongest first."""
    span = float(np.ptp(column))
    lowest = 1.0 / span  # one full cycle
    highest = max(0.5 / gap, 1.0 / shortest_period(column))  # of a few days of many, a week can still be seen
    steps = int(min(20_000, max(50, 5 * span * (highest - lowest))))
    frequency = np.linspace(lowest, highest, steps)
    power = _lomb_scargle(column - column[0], rest, frequency)
    inner = np.flatnonzero((power[1:-1] >= power[:-2]) & (power[1:-1] > power[2:])) + 1
    ends = [i for i, j in ((0, 1), (steps - 1, steps - 2)) if power[i] > power[j]]
    peaks = np.concatenate([inner, np.array(ends, dtype=int)])
    return np.asarray(1.0 / frequency[peaks[np.argsort(-power[peaks], kind="stable")]])


def _lomb_scargle(column: Array, rest: Array, frequency: Array) -> Array:
    """Return the power of waves of evenly spaced frequencies (Lomb 1976; Scargle 1982), as SciPy's `lombscargle` does.

    With Y = sum y exp(iwt), R = sum exp(2iwt) and the phase of R taken out of Y, the two squares are divided by
    (N + |R|) / 2 and (N - |R|) / 2. As exp(i(v + w)t) = exp(ivt) exp(iwt), sums for all frequencies are one product of
    matrices with the roots of their number as sides: some 30 times as fast as a sine and a cosine for each.
    """
    side = math.isqrt(len(frequency) - 1) + 1
    step = frequency[1] - frequency[0]
    time = 2j * np.pi * column
    fine = np.exp(np.outer(step * np.arange(side), time))
    coarse = np.exp(np.outer(frequency[0] + side * step * np.arange(-(-len(frequency) // side)), time))
    sums = ((coarse * rest) @ fine.T).ravel()[: len(frequency)]
    twice = (coarse**2 @ (fine**2).T).ravel()[: len(frequency)]
    turned, size = sums * np.exp(-0.5j * np.angle(twice)), np.abs(twice)
    tiny = np.finfo(float).eps * len(column)
    along, across = 0.5 * (len(column) + size), np.maximum(0.5 * (len(column) - size), tiny)
    return np.asarray(0.5 * (turned.real**2 / along + turned.imag**2 / across))


def _patterns(column: Array, rest: Array, gap: float) -> Array:
    """Periods whose waves and overtones leave less over than those beside them, least first."""
    chosen = np.linspace(0, len(column) - 1, min(ROWS, len(column))).astype(int)
    column, rest, span = column[chosen], rest[chosen], float(np.ptp(column))
    highest = min(CYCLES[1], span / (2 * OVERTONES * gap))
    cycles = np.arange(CYCLES[0], highest, 0.2 / OVERTONES)
    if len(cycles) < 3 or len(column) <= 2 * (4 * OVERTONES + 2):
        return np.empty(0)
    left = _left_over_by_each(column, rest, span / cycles)
    dips = np.flatnonzero((left[1:-1] <= left[:-2]) & (left[1:-1] < left[2:])) + 1
    found = []
    for i in dips[np.argsort(left[dips], kind="stable")][:PATTERNS]:
        # a pattern also repeats after two or three of its periods: the shortest that does nearly as well
        shorter = (span / cycles[i] / k for k in (4, 3, 2))
        alike = (period for period in shorter if _left_over(column, rest, period) < NEARLY * left[i])
        found.append(next(alike, span / cycles[i]))
    return np.array(found)


def _left_over(column: Array, rest: Array, period: float) -> float:
    """Sum of squares left by waves of the period and its overtones, with sizes that may change along the column."""
    return float(_left_over_by_each(column, rest, np.array([period]))[0])


def _left_over_by_each(column: Array, rest: Array, tried: Array) -> Array:
    """Return the same for many periods, some at a time: what they need then fits into the cache."""
    left = np.full(len(tried), float(rest @ rest))
    for first in range(0, len(tried), AT_A_TIME):
        some = slice(first, first + AT_A_TIME)
        basis, numbers = _fit_patterns(column, rest, tried[some])
        left[some] -= np.einsum("pb,pb->p", rest @ basis, numbers)
    return left


def _pattern(column: Array, rest: Array, period: float) -> Array:
    """Return the part of some values that repeats with a period."""
    basis, numbers = _fit_patterns(column, rest, np.array([period]))
    return np.asarray(basis[0] @ numbers[0])


def _fit_patterns(column: Array, rest: Array, tried: Array) -> tuple[Array, Array]:
    """Return, for each period, its waves and overtones, with sizes that may change along the column, and the sizes."""
    turn = np.exp(2j * np.pi / tried[:, None] * column)[..., None]
    overtones = np.cumprod(np.broadcast_to(turn, (*turn.shape[:2], OVERTONES)), axis=-1)
    waves = np.concatenate([np.ones(turn.shape), overtones.real, overtones.imag], axis=-1)
    basis = np.concatenate([waves, waves * ((column[:, None] - column.mean()) / np.ptp(column))], axis=-1)
    # Normal equations: a fifth of the time of a singular value decomposition; the ridge is far below any noise.
    square = basis.mT @ basis + 1e-9 * len(rest) * np.eye(basis.shape[-1])
    return basis, np.linalg.solve(square, (rest @ basis)[..., None])[..., 0]


def in_turn(first: Array, second: Array) -> Array:
    """Return one of each in turn, then what the longer one has left, each period once."""
    pairs = zip_longest(first, second)
    return np.array(list(dict.fromkeys(period for pair in pairs for period in pair if period is not None)))


def change_places(column: Array, y: Array, periods: Array | None = None) -> Array:
    """Return places along a column where rows before and after differ most, the strongest first.

    Without the strongest of some periods too: a season hides a change of level, and is cheap to take out.
    """
    order = np.argsort(column, kind="stable")
    x, target = column[order], y[order]
    gains = [_gain(target), _gain(np.diff(target, prepend=target[0]), centred=False)]
    if periods is not None and len(periods) and len(x) > 4 * LEAST_ROWS:
        angle = 2.0 * np.pi * x / periods[0]  # a wave and its first overtones
        waves = [np.ones_like(x), *(wave(k * angle) for k in (1, 2, 3) for wave in (np.cos, np.sin))]
        design = np.stack(waves, axis=1)
        gains.insert(0, _gain(target - design @ np.linalg.lstsq(design, target, rcond=None)[0]))
    apart = max(LEAST_ROWS, len(x) // 20)
    ranked = [[float(0.5 * (x[p - 1] + x[p])) for p in _highest(gain, apart)] for gain in gains]
    places = list(dict.fromkeys(one for turn in zip_longest(*ranked) for one in turn if one is not None))
    return np.array(places[:PLACES] if places else [float(x[0] + x[-1]) / 2])


def find_step(column: Array, y: Array, period: float | None = None) -> float | None:
    """Return the place of a jump of the level; None where a smooth curve of more numbers leaves less over.

    A level that jumps is compared with a cubic, a line that jumps with one power more, each beside waves of a period
    where one is known.
    """
    order = np.argsort(column, kind="stable")
    x, target, span = column[order], y[order], float(np.ptp(column))
    if len(x) < 4 * LEAST_ROWS or span <= 0:
        return None
    waves = np.empty((len(x), 0))
    if period is not None and len(x) > 8 * LEAST_ROWS:
        angle = 2.0 * np.pi * x / period
        waves = np.stack([wave(k * angle) for k in (1, 2, 3) for wave in (np.cos, np.sin)], axis=1)
    powers = np.vander(2.0 * (x - x[0]) / span - 1.0, 5, increasing=True)
    for numbers in (1, 2):
        found = _fit_step(x, target, np.hstack([powers[:, :numbers], waves]))
        smooth = np.hstack([powers[:, : numbers + 3], waves])
        curved = target - smooth @ np.linalg.lstsq(smooth, target, rcond=None)[0]
        if found is not None and found[1] < float(curved @ curved):
            return found[0]
    return None


def _fit_step(x: Array, target: Array, beside: Array) -> tuple[float, float] | None:
    """Return where a step beside other regressors leaves least over, and how much; None where it takes out too little.

    With r what the others leave of y, a step h takes out (h'r)^2 / |h - Ph|^2; of noise the best of n places some
    2 log n of its variance.
    """
    n, side = len(x), max(LEAST_ROWS, len(x) // 20)
    basis = np.linalg.qr(beside)[0]
    rest = target - basis @ (basis.T @ target)
    inner = np.arange(side, n - side + 1)  # the first row after the step
    inner = inner[x[inner] > x[inner - 1]]
    if not len(inner):
        return None
    after, known = np.cumsum(rest[::-1])[::-1][inner], np.cumsum(basis[::-1], axis=0)[::-1][inner]
    gain = after**2 / np.maximum(n - inner - np.sum(known**2, axis=1), 1e-9)
    best, total = inner[int(np.argmax(gain))], float(rest @ rest)
    left = max(total - float(gain.max()), 1e-12 * total)
    clear = total > 0 and n * math.log(total / left) > CLEAR_STEP + 2.0 * math.log(n)
    return (float(x[best - 1 : best + 1].mean()), left) if clear else None


def _gain(values: Array, centred: bool = True) -> Array:
    """Return for every split how much a Gaussian for each part gains over one for all: log likelihood."""
    n = len(values)
    count = np.arange(1, n + 1)
    sums, squares = np.cumsum(values), np.cumsum(values**2)

    def variance(total: Array, square: Array, rows: NDArray[Any]) -> Array:
        spread = square / rows - (total / rows) ** 2 if centred else square / rows
        return np.asarray(np.maximum(spread, 1e-8))

    gain = np.full(n, -np.inf)
    inner = np.arange(LEAST_ROWS, n - LEAST_ROWS + 1)  # the first row of the second part
    if len(inner):
        before = variance(sums[inner - 1], squares[inner - 1], count[inner - 1])
        rest = n - inner
        after = variance(sums[-1] - sums[inner - 1], squares[-1] - squares[inner - 1], rest)
        whole = variance(sums[-1:], squares[-1:], np.array([n]))
        gain[inner] = 0.5 * (n * np.log(whole) - inner * np.log(before) - rest * np.log(after))
    return gain


def _highest(gain: Array, apart: int) -> list[int]:
    """Return the highest entries that are some rows apart from each other."""
    chosen: list[int] = []
    for place in np.argsort(-gain, kind="stable"):
        if not np.isfinite(gain[place]) or len(chosen) == PLACES:
            break
        if all(abs(int(place) - other) >= apart for other in chosen):
            chosen.append(int(place))
    return chosen


def spread_rows(X: Array, count: int) -> Array:
    """Return rows far from each other: each is the one farthest from those before it, the first near the middle."""
    scaled = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    chosen = [int(np.argmin((scaled**2).sum(axis=1)))]
    distance = ((scaled - scaled[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < count:
        chosen.append(int(np.argmax(distance)))
        distance = np.minimum(distance, ((scaled - scaled[chosen[-1]]) ** 2).sum(axis=1))
    return np.asarray(X[chosen])


def group_levels(X: Array, y: Array, count: int) -> NDArray[np.intp]:
    """Return for every row which of some levels the target has there; the median of near rows stands for a row.

    Sorted levels are cut where that takes most out of their squares, one cut after the other.
    """
    scaled = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    distance = ((scaled[:, None, :] - scaled) ** 2).sum(axis=2)
    level = np.median(y[np.argsort(distance, axis=1, kind="stable")[:, :NEAR]], axis=1)
    ordered = np.sort(level)
    sums, cuts = np.concatenate([[0.0], np.cumsum(ordered - ordered.mean())]), [0, len(y)]
    while len(cuts) <= count:
        gains = np.full(len(y) + 1, -np.inf)
        for low, high in pairwise(cuts):
            inner = np.arange(low + 1, high)
            left, right = sums[inner] - sums[low], sums[high] - sums[inner]
            gains[inner] = left**2 / (inner - low) + right**2 / (high - inner) - (left + right) ** 2 / (high - low)
        cuts = sorted([*cuts, int(np.argmax(gains))])
    return np.searchsorted(ordered[cuts[1:-1]], level, side="right")
