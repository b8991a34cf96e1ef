"""Which periods does a series show? Peaks of the Lomb-Scargle periodogram, for rows in any order and with gaps."""

from __future__ import annotations

import numpy as np

from mercer.kernels.domains import Array

LARGEST = 2000  # rows looked at; more add time, not peaks


def typical_gap(column: Array) -> float:
    """Return the median distance between neighbouring distinct values (0 if there is only one)."""
    distinct = np.unique(column)
    return float(np.median(np.diff(distinct))) if len(distinct) > 1 else 0.0


def periods(column: Array, y: Array, count: int) -> Array:
    """Return up to `count` periods, strongest first, of y against the column, a straight line taken out first."""
    from scipy.signal import lombscargle  # half a second to import: only where a period is looked for

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
    highest = 0.5 / gap
    lowest = 1.0 / span  # one full cycle
    steps = int(min(6000, max(50, 5 * span * (highest - lowest))))
    frequency = np.linspace(lowest, highest, steps)
    power = lombscargle(column - column[0], rest, 2 * np.pi * frequency)
    inner = np.flatnonzero((power[1:-1] >= power[:-2]) & (power[1:-1] > power[2:])) + 1
    ends = [i for i, j in ((0, 1), (steps - 1, steps - 2)) if power[i] > power[j]]
    peaks = np.concatenate([inner, np.array(ends, dtype=int)])
    strongest = peaks[np.argsort(-power[peaks], kind="stable")][:count]
    return 1.0 / frequency[strongest]
