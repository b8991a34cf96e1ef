"""Is anything left in the residuals? Each check looks for one kind of pattern and comes with its p-value.

The residuals are one-step errors (`Subject.one_step_errors`): independent standard normal numbers if the model is
right. A p-value below `CLEAR` counts as something left, one below `DOUBT` as a doubt; with five checks a perfect model
is suspected in one case of twenty.

The errors are also held against every input and every product of two: by their linear correlation, by that with
polynomials of an input, and by the distance correlation (Szekely, Rizzo and Bakirov 2007), which is zero for
independent variables only, with its p-value from permutations. What the errors do not depend on cannot be missing from
the model, if there are rows enough to see it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mercer.explain.claims import WITHIN_95, Claim, ClaimEvidence
from mercer.explain.subject import Subject
from mercer.explain.words import Narrator
from mercer.kernels.domains import Array

CLEAR, DOUBT = 0.01, 0.05
MOST_FOR_DISTANCES = 250  # rows: the distance correlation looks at all pairs
PERMUTATIONS, MORE_PERMUTATIONS = 199, 999  # more where the first say that it is close
MOST_PAIRS = 66  # products of two inputs: of 12 inputs
SMALL_EFFECT = 0.05  # of the variance of the target: what is denied must be smaller
SEEN = 15.0  # rows times the share of a variance: (2.6 + 1.3)^2, seen at p = 0.01 in nine cases of ten
OFF, MOST_OFF = 1.5, 1 / 3  # times a standard deviation of noise; of the weight of kernels that are off by more
CURVED = 5  # the degree of polynomials that errors are held against
FEWEST = 10  # rows below which nothing can be said
SEEN_OF_ANY_SHAPE = 30.0  # the same where it may bend, and is one of many inputs or pairs that were looked at
FEWEST_FOR_SHAPE = 50  # rows: of fewer a test sees only shapes that are far from a bell curve
MOST_OF_NOISE = 0.5  # times the noise: what varies less from row to row hardly changes what is called noise
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

    @property
    def doubtful(self) -> bool:
        """Something may be there."""
        return CLEAR <= self.p_value < DOUBT


@dataclass(frozen=True)
class Dependence:
    """How errors go with an input, or with the product of two: correlations, and a p-value for all that was tried."""

    columns: tuple[str, ...]
    linear: float
    distance: float | None
    p_value: float

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
    enough: bool = True  # rows to see what is small


@dataclass(frozen=True)
class ResidualCheck:
    """One check of the one-step errors; `clear`: nothing was found; `doubtful`: something may be there."""

    name: str
    statistic: float
    p_value: float
    clear: bool
    sentence: str
    doubtful: bool = False


def check_residuals(
    subject: Subject, dependences: Sequence[Dependence], narrator: Narrator
) -> tuple[ResidualCheck, ...]:
    """Check the one-step errors of a model, also against what they depend on."""
    order, errors = subject.one_step_errors
    along = subject.order_column
    at = None if along is None else subject.in_user_units(along)[order]
    checks = residual_checks(errors, at, subject.mean_at(subject.data.X[order]))
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
        enough = can_see(subject) and (check.name != "shape" or len(errors) >= FEWEST_FOR_SHAPE)
        value = Residual(check, len(errors), column, distance, worst, enough)
        evidence = ClaimEvidence(p_value=check.p_value, rows=len(errors))
        sentence = narrator.say(Claim(KINDS[check.name], subject.target, value, evidence=evidence))
        doubtful, numbers = check.doubtful, (check.statistic, check.p_value)
        found.append(ResidualCheck(check.name, *numbers, check.clear and not doubtful, sentence, doubtful))
    return (*found, *_check_inputs(subject, dependences, narrator)) if found else ()


def _check_inputs(subject: Subject, dependences: Sequence[Dependence], narrator: Narrator) -> list[ResidualCheck]:
    """Say which inputs the errors depend on, or that they depend on none; nothing of a single one."""
    if not dependences or len(subject.table_columns) < 2:
        return []
    rows, found = len(subject.one_step_errors[1]), []
    for each in dependences:
        if not each.clear:
            evidence = ClaimEvidence(p_value=each.p_value, rows=rows)
            sentence = narrator.say(Claim("errors depend", subject.target, each, evidence=evidence))
            found.append(ResidualCheck("inputs", each.linear, each.p_value, False, sentence))
    if found:
        return found
    least = min(dependences, key=lambda each: each.p_value)
    evidence, doubtful = ClaimEvidence(p_value=least.p_value, rows=rows), least.p_value < DOUBT
    if not doubtful and not can_see(subject):
        return []
    kind = "errors may depend" if doubtful else "errors independent"
    sentence = narrator.say(Claim(kind, subject.target, least, evidence=evidence))
    return [ResidualCheck("inputs", least.linear, least.p_value, not doubtful, sentence, doubtful)]


def can_see(subject: Subject, noise_share: float | None = None, seen: float = SEEN) -> bool:
    """Whether there are rows enough for the checks to see what is `SMALL_EFFECT` of the variance, in so much noise."""
    noise = subject.noise_variance / subject.variance if noise_share is None else noise_share
    return bool(len(subject.one_step_errors[1]) * SMALL_EFFECT / max(noise, SMALL_EFFECT) >= seen)


def can_tell_noise(subject: Subject) -> bool:
    """Whether the rows tell noise from what changes from one row to the next: in most kernels, and in all about alike.

    With c of the variance of both in a summand that correlates rows by r1 and r2 one and two steps apart, errors have
    c r1 and c r2 where noise alone leaves none: c r2 must be more than correlations of so many rows are by chance.
    """
    least, doubtful = WITHIN_95 / math.sqrt(len(subject.data.y)), 0.0
    for kernel in subject.heard:
        noise = subject.noise_of(kernel)
        for part in kernel.parts:
            roles = {leaf.spec.words.role for leaf in part.kernel.leaves()}
            if roles != {"fading"} or part.columns != (subject.only_column,) or subject.is_noise(part):
                continue
            sizes, holds = subject.sizes_of(part)
            apart = np.diagonal(subject.correlate_rows(part), 2)[holds[:-2] & holds[2:]]
            variance = float(sizes.max())
            if not len(apart):
                continue
            if variance > MOST_OF_NOISE * noise and float(apart.mean()) * variance / (variance + noise) < least:
                doubtful += kernel.within
                break
    total, known = sum(each.within for each in subject.heard), subject.noise_variance / subject.units.y_scale**2
    off = sum(each.within for each in subject.heard if _is_off(subject.noise_of(each) * subject.widening**2, known))
    return doubtful <= 0.5 * total and off <= MOST_OFF * total


def _is_off(noise: float, known: float) -> bool:
    """Whether a kernel has clearly more or less noise than the average of all."""
    return abs(math.log(max(noise, 1e-12) / max(known, 1e-12))) > 2.0 * math.log(OFF)


def find_dependences(subject: Subject) -> tuple[Dependence, ...]:
    """Hold the errors against every input, then against the products of two, with p-values for all of a sort."""
    order, errors = subject.one_step_errors
    tables = list(subject.table_columns.items())
    if len(errors) < FEWEST or not np.isfinite(errors).all() or np.ptp(errors) == 0:
        return ()
    X, rng = subject.data.X[order], np.random.default_rng(0)
    found = []
    for name, places in tables:
        inputs = X[:, places]
        if subject.columns[places[0]].levels:  # codes of categories: how far they are apart means nothing
            inputs = (inputs == np.unique(inputs)).astype(float)
        linear, p_linear = linear_dependence(errors, inputs)
        distance, p_distance = distance_dependence(errors, inputs, rng)
        tried = [p_linear, p_distance, linear_dependence(errors, bend(inputs))[1]]
        found.append(Dependence((name,), linear, distance, min(1.0, len(tried) * len(tables) * min(tried))))
    numbers = [(name, places[0]) for name, places in tables if not subject.columns[places[0]].is_category]
    pairs = [(one, other) for i, one in enumerate(numbers) for other in numbers[i + 1 :]][:MOST_PAIRS]
    for (one, a), (other, b) in pairs:
        product = (X[:, a] - X[:, a].mean()) * (X[:, b] - X[:, b].mean())
        linear, p_linear = linear_dependence(errors, product[:, None])
        found.append(Dependence((one, other), linear, None, min(1.0, len(pairs) * p_linear)))
    return tuple(found)


def linear_dependence(errors: Array, inputs: Array) -> tuple[float, float]:
    """Return the correlation of errors with their least-squares fit by an input, and the p-value of its F-test."""
    from scipy.stats import f

    design = np.column_stack([inputs, np.ones(len(errors))])
    solution, _, rank, _ = np.linalg.lstsq(design, errors, rcond=None)
    left, centred = errors - design @ solution, errors - errors.mean()
    whole, free = float(centred @ centred), len(errors) - int(rank)
    share = 1.0 - float(left @ left) / whole
    if rank < 2 or free < 1 or share <= 0:
        return 0.0, 1.0
    sign = math.copysign(1.0, solution[0]) if inputs.shape[1] == 1 else 1.0
    ratio = share / (rank - 1) / max((1.0 - share) / free, 1e-300)
    return sign * math.sqrt(share), float(f.sf(ratio, rank - 1, free))


def bend(inputs: Array) -> Array:
    """Return polynomials of one column, by the ranks of its values: a wave along it is no line; of several themselves.

    The distance correlation hardly sees what goes up and down more than once.
    """
    from scipy.stats import rankdata

    if inputs.shape[1] != 1:
        return inputs
    ranks = rankdata(inputs[:, 0])
    degree = min(CURVED, len(np.unique(ranks)) - 1)
    return np.polynomial.legendre.legvander(2.0 * ranks / (len(ranks) + 1.0) - 1.0, degree)[:, 1:]


def distance_dependence(errors: Array, inputs: Array, rng: np.random.Generator) -> tuple[float, float]:
    """Return the distance correlation of errors with an input, and how often permuted errors have a larger one."""
    from scipy.stats import gamma

    chosen = np.arange(len(errors))
    if len(errors) > MOST_FOR_DISTANCES:
        chosen = rng.choice(len(errors), MOST_FOR_DISTANCES, replace=False)
    one, other = (_centred_distances(values[chosen]) for values in (errors[:, None], inputs))
    sizes = math.sqrt(float((one * one).sum()) * float((other * other).sum()))
    if sizes <= 0:
        return 0.0, 1.0
    own, permuted = float((one * other).sum()), list[float]()
    for many in (PERMUTATIONS, MORE_PERMUTATIONS):
        while len(permuted) < many:
            places = rng.permutation(len(chosen))
            permuted.append(float((one[places][:, places] * other).sum()))
        larger = sum(each >= own for each in permuted)
        if larger > 1:
            break
    p_value = (larger + 1) / (len(permuted) + 1)
    mean, variance = float(np.mean(permuted)), float(np.var(permuted))
    if not larger and variance > 0:  # far out in the tail, which is about that of a gamma distribution
        p_value = min(p_value, float(gamma.sf(own, mean**2 / variance, scale=variance / mean)))
    return math.sqrt(max(own, 0.0) / sizes), p_value


def _centred_distances(values: Array) -> Array:
    """Return |a - b| for all pairs of rows, less the means of rows and columns."""
    from scipy.spatial.distance import cdist

    found = cdist(values, values)
    return np.asarray(found - found.mean(axis=0) - found.mean(axis=1)[:, None] + found.mean())


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
