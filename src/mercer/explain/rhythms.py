"""Rhythms that run through a series though no kernel that predicts has them as a season.

A flexible curve follows a season without knowing that it repeats, and a search that was cut short may have no kernel
for it. Under the kernel that has most weight the rows are N(level, A) with A = K + s2 I. Whitened by A = L L', waves
H = [cos, sin](2 pi j x / p), j = 1 .. J, explain

    S = |P L^-1 y|^2,  P the projection on L^-1 H beside the level and the waves that were found before,

of the sum of squares: the F-test of a regression by generalised least squares (Aitken 1936). It finds what goes on in
step over many cycles, which under the kernel would be a coincidence; a curve that wanders at random gives no alarm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from mercer.compute import fused
from mercer.explain.checks import periodogram
from mercer.explain.claims import Claim, ClaimEvidence
from mercer.explain.factors import is_seldom
from mercer.explain.gathering import Curves
from mercer.explain.subject import PredictingKernel, Subject
from mercer.explain.words import LIKELY
from mercer.fitting.calendar import rhythms_in
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression, build_base, sum_of
from mercer.linalg.factor import Factor, Failure, factorise

FEWEST = 40  # rows
MOST = 2000  # rows: the last ones, as a rhythm needs neighbours
MOST_RHYTHMS, PEAKS = 3, 6  # that are named; of the spectrum of errors, that are looked at beside the calendar
HARMONICS = 3
CLEAR = 1e-3  # the p-value, corrected for all periods that were tried, below which a rhythm is named
STEPS_IN_A_PERIOD = 2.5  # a shorter one cannot be told from others
NEARBY = np.linspace(-1.0, 1.0, 9)  # of the distance between two frequencies that the data can tell apart
SAME, SAME_HARMONIC = 0.1, 0.02  # periods that differ by a smaller share are one, or harmonics of one


@dataclass(frozen=True)
class Rhythm:
    """A period along a column, its name in a calendar, and its p-value were the kernel all there is."""

    column: str
    period: float
    rhythm: str | None
    p_value: float


@dataclass(frozen=True, eq=False)
class Whitened:
    """Rows along a column in units in which they are independent."""

    factor: Factor
    at: Array
    y: Array

    def test(self, period: float, known: Sequence[float]) -> float:
        """Return the p-value of the waves of a period beside a level and waves that are known."""
        from scipy.stats import f

        harmonics = max(1, min(HARMONICS, int(period / (2.0 * np.median(np.diff(np.unique(self.at)))))))
        beside = [np.ones((len(self.at), 1)), *(waves_of(self.at, each, HARMONICS) for each in known)]
        columns = np.column_stack([self.y, *beside, waves_of(self.at, period, harmonics)])
        white = self.factor.half_solve(columns)
        null, own = white[:, 1 : -2 * harmonics], white[:, -2 * harmonics :]
        basis = np.linalg.qr(null)[0]
        values, own = (each - basis @ (basis.T @ each) for each in (white[:, 0], own))
        fitted = own @ np.linalg.lstsq(own, values, rcond=None)[0]
        free = len(values) - white.shape[1] + 1
        left = float(np.sum((values - fitted) ** 2))
        if free < 1 or left <= 0:
            return 1.0
        return float(f.sf(float(fitted @ fitted) / (2 * harmonics) / (left / free), 2 * harmonics, free))


def waves_of(at: Array, period: float, harmonics: int) -> Array:
    """Return the cosines and sines of a period and its harmonics."""
    phase = 2.0 * np.pi * np.outer(at, np.arange(1, harmonics + 1)) / period
    return np.column_stack([np.cos(phase), np.sin(phase)])


def find_likeliest(subject: Subject) -> PredictingKernel:
    """Return the kernel that has most weight within the data."""
    return max(subject.heard, key=lambda each: each.within)


def find_rhythms(curves: Curves) -> list[Claim]:
    """Claim the rhythms of a series that no likely component has."""
    subject, place = curves.subject, curves.subject.only_column
    if place is None or len(subject.data.y) < FEWEST:
        return []
    whitened, column = whiten(subject, place), subject.columns[place]
    if whitened is None:
        return []
    seasons = [each.kind.period for each in curves.components if each.certainty >= LIKELY and each.kind.period]
    found, tried = list[Rhythm](), _list_periods(subject, place)
    for _ in range(MOST_RHYTHMS):
        taken = [*seasons, *(each.period for each in found)]
        left = [(period, times) for period, times in tried if not any(_is_same(period, own) for own in taken)]
        judged = [(whitened.test(period, taken) * times, period) for period, times in left]
        p, period = min(judged, default=(1.0, 0.0))
        if p >= CLEAR:
            break
        found.append(Rhythm(column.name, period, column.rhythm(period), p))
    evidence = [ClaimEvidence(p_value=each.p_value, rows=len(whitened.y)) for each in found]
    return [
        Claim("rhythm", subject.target, each, column.unit, evidence=own)
        for each, own in zip(found, evidence, strict=True)
    ]


def whiten(subject: Subject, place: int, without: Callable[[Expression], bool] | None = None) -> Whitened | None:
    """Return the rows along a column, the last ones of very many, with what whitens them under the likeliest kernel.

    without : summands of the kernel that are left out, as if nobody had thought of them.
    """
    kernel = find_likeliest(subject)
    rows = subject.data.take(np.argsort(subject.data.X[:, place], kind="stable")[-MOST:])
    program, values = kernel.program, kernel.values
    if without is not None:
        kept = [part.scaled for part in kernel.parts if not without(part.kernel)]
        rest = subject.part_of(sum_of(kept or [build_base("C", variance=1.0)]))  # a constant beside a level is nothing
        program, values = rest.program, rest.values
    factor = factorise(partial(fused.gram_lower, program, values, rows.at), kernel.noise)
    if isinstance(factor, Failure):
        return None
    at = rows.X[:, place] * subject.units.scale[place] + subject.units.shift[place]
    return Whitened(factor, np.asarray(at), rows.y)


def _list_periods(subject: Subject, place: int) -> list[tuple[float, float]]:
    """Return periods to be tried, each with how many like it could have been: those of the calendar are few.

    The others are the largest peaks of the spectrum of one-step errors, which is about flat under the kernel, and
    places nearby: out of half as many frequencies as there are rows.
    """
    column, step = subject.columns[place], subject.step_along(place)
    order, errors = subject.one_step_errors
    at = subject.in_user_units(place)[order]
    named = list(rhythms_in(column.unit).values())
    periods, power = periodogram(errors, at)
    frequencies = [
        1.0 / periods[best] + nearby / float(np.ptp(at)) for best in np.argsort(-power)[:PEAKS] for nearby in NEARBY
    ]
    tried = [(period, float(len(named) * HARMONICS)) for period in named]
    tried += [(1.0 / each, len(errors) / 2.0 * len(NEARBY)) for each in frequencies if each > 0]
    shown = [(period, times) for period, times in tried if period >= STEPS_IN_A_PERIOD * step]
    return [(period, times) for period, times in shown if not is_seldom(period, column)]


def _is_same(period: float, own: float) -> bool:
    """Whether a period is another one or a harmonic of it."""
    times = round(own / period)
    return times >= 1 and abs(own / (times * period) - 1.0) < (SAME if times == 1 else SAME_HARMONIC)
