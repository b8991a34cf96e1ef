"""Is anything left in the residuals? Each check looks for one kind of pattern and comes with its p-value.

The residuals are one-step errors (`Subject.one_step_errors`): independent standard normal numbers if the model is
right. A p-value below `CLEAR` counts as something left; with five checks a perfect model is suspected in one case of
twenty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mercer.explain.claims import WITHIN_95, Claim, ClaimEvidence
from mercer.explain.subject import Subject
from mercer.explain.words import Narrator
from mercer.kernels.domains import Array

CLEAR = 0.01
FEWEST = 10  # rows below which nothing can be said
MOST_FOR_SHAPIRO = 5000

EVEN = 0.01  # of a step: how far rows may be off and still count as evenly spaced
KINDS = {
    "autocorrelation": "autocorrelation of errors", "period": "period in errors", "shape": "shape of errors",
    "spread": "spread of errors", "band": "band of errors",
}  # fmt: skip


@dataclass(frozen=True)
class Check:
    """One check: what was computed, its p-value, and where it was largest (a lag, a period, a row), if anywhere."""

    name: str  # autocorrelation, period, shape, spread, band
    statistic: float
    p_value: float
    place: float | None = None

    @property
    def clear(self) -> bool:
        """Nothing was found."""
        return not self.p_value < CLEAR


@dataclass(frozen=True)
class Residual:
    """A check with where it was made: along a column, or over rows without an order."""

    check: Check
    rows: int
    column: str | None = None
    distance: float | None = None  # along the column, between errors that are alike
    at: float | None = None  # the place of the largest error on it


@dataclass(frozen=True)
class ResidualCheck:
    """One check of the one-step errors; `clear` means that nothing was found."""

    name: str
    statistic: float
    p_value: float
    clear: bool
    sentence: str


def check_residuals(subject: Subject, narrator: Narrator) -> tuple[ResidualCheck, ...]:
    """Check the one-step errors of a model."""
    order, errors = subject.one_step_errors
    along = subject.order_column
    at = None if along is None else subject.in_user_units(along)[order]
    checks = residual_checks(errors, at, subject.posterior.predict(subject.data.X).mean[order])
    column = None if along is None else subject.columns[along].name
    found = []
    for check in checks:
        place, distance, worst = int(check.place or 0), None, None
        if at is not None and check.name == "autocorrelation":
            steps = np.diff(at)
            step = float(np.median(steps)) if len(steps) else 0.0
            if step > 0 and np.all(np.abs(steps - step) <= EVEN * step):  # else a number of rows is no distance
                distance = place * step
        if at is not None and check.name == "shape":
            worst = float(at[place])
        value = Residual(check, len(errors), column, distance, worst)
        evidence = ClaimEvidence(p_value=check.p_value, rows=len(errors))
        sentence = narrator.say(Claim(KINDS[check.name], subject.target, value, evidence=evidence))
        found.append(ResidualCheck(check.name, check.statistic, check.p_value, check.clear, sentence))
    return tuple(found)


def residual_checks(errors: Array, at: Array | None, fitted: Array) -> tuple[Check, ...]:
    """Check one-step errors; `at` are the places that order them (None: their order means nothing)."""
    if len(errors) < FEWEST or not np.isfinite(errors).all() or np.ptp(errors) == 0:
        return ()
    ordered = () if at is None else (autocorrelation(errors), period(errors, at))
    return (*ordered, shape(errors), spread(errors, fitted if at is None else at), band(errors))


def correlations(errors: Array, lags: int) -> Array:
    """Return the correlation of the errors with those 1, 2, ... places earlier."""
    centred = errors - errors.mean()
    total = float(centred @ centred)
    return np.array([float(centred[lag:] @ centred[:-lag]) / total for lag in range(1, lags + 1)])


def autocorrelation(errors: Array) -> Check:
    """Ljung-Box: n (n + 2) sum_k r_k^2 / (n - k) is chi-squared with as many degrees of freedom as lags."""
    from scipy.stats import chi2

    n = len(errors)
    lags = max(1, min(20, n // 5))
    found = correlations(errors, lags)
    statistic = n * (n + 2) * float(np.sum(found**2 / (n - np.arange(1, lags + 1))))
    largest = int(np.argmax(np.abs(found)))
    return Check("autocorrelation", float(found[largest]), float(chi2.sf(statistic, lags)), float(largest + 1))


def periodogram(errors: Array, at: Array) -> tuple[Array, Array]:
    """Return the periods at the Fourier frequencies, and the share of the variance that a wave of each explains."""
    from scipy.signal import lombscargle

    n = len(errors)
    span = float(np.ptp(at))
    if span <= 0 or n < 6:
        return np.empty(0), np.empty(0)
    frequency = np.arange(1, (n - 1) // 2 + 1) / (span * n / (n - 1))
    power = lombscargle(at - at.min(), errors - errors.mean(), 2 * np.pi * frequency, normalize=True)
    return 1.0 / frequency, np.clip(power, 0.0, 1.0)


def period(errors: Array, at: Array) -> Check:
    """The largest peak g of the periodogram: in white noise P(peak > g) = 1 - (1 - (1 - g)^((n - 3) / 2))^m.

    (1 - g)^((n - 3) / 2) is the chance at one of the m Fourier frequencies (Fisher 1929, Scargle 1982).
    """
    periods, power = periodogram(errors, at)
    if not len(power):
        return Check("period", 0.0, 1.0)
    best = int(np.argmax(power))
    at_one = max(1.0 - float(power[best]), 0.0) ** ((len(errors) - 3) / 2)
    p_value = -math.expm1(len(power) * math.log1p(-min(at_one, 1 - 1e-12)))
    return Check("period", float(power[best]), p_value, float(periods[best]))


def shape(errors: Array) -> Check:
    """Normality by Shapiro and Wilk (D'Agostino and Pearson for many rows); says how heavy the tails are."""
    from scipy import stats

    test = stats.shapiro if len(errors) <= MOST_FOR_SHAPIRO else stats.normaltest
    tails = float(stats.kurtosis(errors))
    return Check("shape", tails, float(test(errors).pvalue), float(np.argmax(np.abs(errors))))


def spread(errors: Array, along: Array) -> Check:
    """Spearman's correlation of the size of the errors with a column, or with the fitted value."""
    from scipy.stats import spearmanr

    if np.ptp(along) == 0:
        return Check("spread", 0.0, 1.0)
    found = spearmanr(np.abs(errors), along)
    return Check("spread", float(found.statistic), float(found.pvalue))


def band(errors: Array) -> Check:
    """How many errors lie inside their 95 % band, against the binomial distribution."""
    from scipy.stats import binomtest

    inside = int(np.sum(np.abs(errors) < WITHIN_95))
    return Check("band", inside / len(errors), float(binomtest(inside, len(errors), 0.95).pvalue), float(inside))
