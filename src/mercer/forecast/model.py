"""One series -> fitted members with weights -> a forecast.

Every member is fitted from the mean of its prior by maximum a posteriori. Its weight is its weight by experience times
its evidence, by Laplace's approximation under the prior, to the power `TEMPER` and within bounds: the evidence of a
short series on another scale is decided by its first few values, and taken at its word it lets exponential growth win
too often.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from mercer.errors import NumericalError
from mercer.fitting.minimise import minimise, starting_points
from mercer.fitting.problem import FAILED_VALUE, FitOptions, Problem, prepare
from mercer.fitting.uncertainty import average_evidence
from mercer.forecast.calendar import Steps
from mercer.forecast.experience import Experience, Member
from mercer.forecast.mixture import Mixture, Part
from mercer.forecast.scales import Scale, scale_called
from mercer.inference.contract import Data, Posterior
from mercer.inference.exact import Exact
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression, sum_of
from mercer.kernels.parameters import bind, with_values
from mercer.kernels.text import parse
from mercer.linalg.threads import one_thread

TEMPER = 0.2  # of the evidence in the weights: .1 to .3 forecast alike on rolling origins
LOUDEST = 1.0  # log of the factor by which evidence can raise or lower a weight: with more, some series explode
STEPS = 60  # of L-BFGS-B: from the prior's mean most fits end after 20 to 40
RESTARTS = 4  # of a kernel that is given, for which nothing was learned
TOLERANCE = 1e-7  # of the objective: forecasts do not change by what lies below
LEAST_SPREAD = 1e-12  # of a series relative to its size: one that varies less is constant; rounding is far below
FAINT = 1e-3  # the share of its size that the spread of a constant series is taken for
EFFECT = "LIN({column}, offset=fixed(0))"  # of a known cause: a straight line, its slope with a prior around zero


@dataclass(frozen=True, eq=False)
class Series:
    """Values at places counted in seasons (in steps without a season); further columns are known causes."""

    places: Array  # (rows,)
    values: Array  # (rows,)
    causes: Array  # (rows, columns), each of about unit spread
    season: float  # steps in a season; 1 without one

    @property
    def inputs(self) -> Array:
        """All columns, the places first."""
        return np.column_stack([self.places, self.causes])

    def ahead(self, steps: Steps) -> Array:
        """Return the places of times so many steps after the last."""
        return np.asarray(self.places[-1] + steps / self.season)

    def since(self, count: int) -> Series:
        """Return the last rows alone."""
        places = self.places[-count:] - self.places[-count:][0]
        return replace(self, places=places, values=self.values[-count:], causes=self.causes[-count:])

    def until(self, count: int) -> Series:
        """Return the first rows alone."""
        return replace(self, places=self.places[:count], values=self.values[:count], causes=self.causes[:count])


@dataclass(frozen=True, eq=False)
class FittedMember:
    """A member with its optimum: the values are (scale(y) - shift) / size."""

    member: Member
    scale: Scale
    problem: Problem
    point: Array
    shift: float
    size: float
    evidence: float  # log evidence of the series as it is, averaged over the prior

    @property
    def kernel(self) -> Expression:
        """The kernel with its values, over places and the scaled target."""
        return with_values(self.problem.expression, self.problem.split(self.point)[0])

    @property
    def noise(self) -> float:
        """The noise variance of the scaled target."""
        return self.problem.split(self.point)[1].noise

    @property
    def posterior(self) -> Posterior:
        """The posterior given all rows."""
        values, likelihood = self.problem.split(self.point)
        return self.problem.engine.posterior(self.problem.program, values, likelihood, self.problem.data)

    def predict(self, inputs: Array) -> tuple[Array, Array]:
        """Return middle and standard deviation of observations on the member's scale."""
        found = self.posterior.predict(inputs)
        deviation = np.sqrt(np.maximum(found.variance, 0.0) + self.noise)
        return self.shift + self.size * found.mean, self.size * deviation


@dataclass(frozen=True, eq=False)
class SeriesModel:
    """What was fitted to one series."""

    series: Series
    experience: Experience
    members: tuple[FittedMember, ...]
    weights: Array

    @property
    def heaviest(self) -> FittedMember:
        """The member with the largest weight."""
        return self.members[int(np.argmax(self.weights))]

    def forecast(self, steps: Steps, causes: Array | None = None) -> Mixture:
        """Foresee what lies so many steps ahead; `causes` has a row for each where there are known causes."""
        places = self.series.ahead(steps)
        known = np.empty((len(steps), 0)) if causes is None else causes
        inputs, parts = np.column_stack([places, known]), []
        with one_thread():
            for fitted, weight in zip(self.members, self.weights, strict=True):
                parts.append(Part(fitted.scale, *fitted.predict(inputs), float(weight)))
        return mix(parts, self.experience, self.series.values, steps)


def mix(parts: Sequence[Part], experience: Experience, values: Array, ahead: Steps | None = None) -> Mixture:
    """Return the forecast of members fitted to these values, with the middle and the bands that experience says.

    ahead : how many steps each of the times is away; one, two, three without it.
    """
    steps = np.arange(1.0, len(parts[0].middle) + 1) if ahead is None else ahead.astype(float)
    positive = bool(np.all(values > 0))
    # Below zero the same bend goes the other way, and what is constant neither grows nor fades.
    lean = experience.lean if positive and np.ptp(values) > 0 else 0.0
    moved = []
    for part in parts:
        relative = part.scale.relative(part.deviation, float(values.mean())) if positive else None
        wider = experience.widen(steps, len(values), relative)
        moved.append(replace(part, middle=part.middle + lean * part.deviation, deviation=wider * part.deviation))
    bounded = all(part.scale.positive for part in parts)  # it was said that the target stays above zero
    return Mixture(tuple(moved), experience.freedom, 0.0 if bounded else find_floor(values))


def find_floor(values: Array) -> float:
    """Return zero for counts and the like: values that stay at zero more than once and never fall below."""
    return 0.0 if np.all(values >= 0) and np.sum(values == 0) > 1 else -math.inf


@lru_cache(maxsize=256)
def build_kernel(text: str, causes: int) -> Expression:
    """Return a member's kernel on column 0, and a line for each known cause."""
    lines = [parse(EFFECT.format(column=number)) for number in range(1, causes + 1)]
    return bind(sum_of([parse(text), *lines]), 1 + causes)


def fit_series(series: Series, experience: Experience) -> SeriesModel:
    """Fit every member whose scale allows the values, and weigh them."""
    fitted = []
    with one_thread():
        for member in experience.members:
            scale = scale_called(member.scale)
            if scale.allows(series.values):
                found = fit_member(series, member, scale)
                if found is not None:
                    fitted.append(found)
    if not fitted:
        raise NumericalError("no kernel could be fitted to the series: see whether its values are of a sensible size")
    weights = weigh([each.member for each in fitted], np.array([each.evidence for each in fitted]))
    return SeriesModel(series, experience, tuple(fitted), weights)


def weigh(members: Sequence[Member], evidence: Array) -> Array:
    """Return weights: those by experience times exp(L tanh(t (evidence - its median) / L)), t TEMPER, L LOUDEST."""
    said = LOUDEST * np.tanh(TEMPER * (evidence - np.median(evidence)) / LOUDEST)
    weights = np.array([each.weight for each in members]) * np.exp(said)
    return np.asarray(weights / weights.sum())


def fit_member(series: Series, member: Member, scale: Scale) -> FittedMember | None:
    """Fit one member by maximum a posteriori; None where that fails."""
    problem, shift, size = pose(series, member, scale)
    starts = None if member.prior.entries else starting_points(problem, FitOptions(restarts=RESTARTS))[0]
    point = find_optimum(problem, starts)
    if point is None:
        return None
    evidence = average_evidence(problem, point) - len(series.values) * math.log(size)
    evidence += float(scale.log_slope(series.values).sum())
    return FittedMember(member, scale, problem, point, shift, size, evidence)


def find_optimum(problem: Problem, starts: Sequence[Array] | None = None) -> Array | None:
    """Return the maximum a posteriori, from the prior's mean unless other starts are given; None where that fails."""
    assert problem.prior is not None
    runs = minimise(problem, [problem.clip(start) for start in starts or [problem.prior.centre]], STEPS)
    best = min(runs, key=lambda run: run.value)
    return None if best.value >= FAILED_VALUE else best.point


def pose(series: Series, member: Member, scale: Scale) -> tuple[Problem, float, float]:
    """Return the problem of a member, and the shift and size of the target on its scale."""
    target = scale.forward(series.values)
    shift, size = float(target.mean()), float(target.std())
    if not size > LEAST_SPREAD * max(abs(shift), 1e-300):
        size = FAINT * abs(shift) or 1.0
    kernel = build_kernel(member.kernel, series.causes.shape[1])
    data = Data(series.inputs, (target - shift) / size)
    options = FitOptions(priors=member.prior, tolerance=TOLERANCE)
    return prepare(kernel, data, Exact(), options), shift, size


def resume(series: Series, experience: Experience, points: Sequence[Array], weights: Array) -> SeriesModel:
    """Rebuild a model from what a file keeps: the optimum of every member that was fitted, in order."""
    scales = [(member, scale_called(member.scale)) for member in experience.members]
    able = [(member, scale) for member, scale in scales if scale.allows(series.values)]
    fitted = []
    for (member, scale), point in zip(able, points, strict=True):
        problem, shift, size = pose(series, member, scale)
        fitted.append(FittedMember(member, scale, problem, problem.clip(point), shift, size, math.nan))
    return SeriesModel(series, experience, tuple(fitted), weights)
