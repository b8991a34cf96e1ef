"""How sure a fit is of its parameters: profiles of the evidence, draws from their posterior, averages over a prior.

A place of change is judged by its profile: it is set to one value after the other, all else is optimised a little, and
the evidences, exponentiated, are its posterior under a flat prior. A sharp change makes the evidence a staircase, for
which no curvature holds. The weights of a smooth surface are drawn from their posterior. Where priors hold many
numbers, the evidence averaged over them says what a kernel is worth: a number that the data leave open costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mercer.compute.program import compile_program
from mercer.fitting.minimise import minimise
from mercer.fitting.problem import FAILED_VALUE, FitOptions, Problem, prepare
from mercer.inference.contract import Data, Engine
from mercer.inference.likelihood import Gaussian
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import values_of
from mercer.linalg.threads import one_thread

STEPS = 8  # of the optimisation of all else, from where it was beside
PLACES = 41  # of a profile
COARSE = 60  # places of a first look, with all else as it is
DEEP = 12.0  # log evidence below the best: what lies deeper has no weight
PROFILED = 250  # rows up to which all else is optimised
DRAWS, BURN_IN = 60, 15
TURNS = 30  # around one ellipse
ASIDE = 1e-4  # of a prior's spread: how far from an optimum its curvature is taken


@dataclass(frozen=True, eq=False)
class Profile:
    """The posterior of one value: places, weights that add up to one, and all values there."""

    places: Array
    weights: Array
    values: tuple[Array, ...]
    noises: Array

    def interval(self, mass: float = 0.95) -> tuple[float, float]:
        """Return the places between which that much of the weight lies, as much on one side as on the other."""
        ends = np.concatenate([[0.0], np.cumsum(self.weights)])
        low, high = np.interp([(1.0 - mass) / 2.0, (1.0 + mass) / 2.0], ends, _edges(self.places))
        return float(low), float(high)


def profile(
    expression: Expression, noise: float, data: Data, engine: Engine, place: int, stops: Array | None = None
) -> Profile:
    """Return the profile of one fitted value (its place in the values vector) of a kernel that has all its values.

    stops : values beside which the evidence may jump, such as the rows of the data along a column: places between them
        are looked at.
    """
    with one_thread(when=data.count < 1000):
        problem = prepare(expression, data, engine, FitOptions())
        best, free = problem.point(problem.known, Gaussian(noise)), _free_number(problem, place)
        low, high = problem.bounds[free]
        coarse = np.linspace(low, high, COARSE)  # over the whole range, at most one between two stops
        if stops is not None and len(stops) > 2:
            ordered = np.unique(stops)
            between = 0.5 * (ordered[1:] + ordered[:-1])
            between = between[(between > low) & (between < high)]
            coarse = between if 3 < len(between) <= COARSE else coarse
        coarse = np.unique(np.append(coarse, best[free]))
        rough = np.array([_loss(problem, best, free, at) for at in coarse])
        near = np.flatnonzero(rough <= rough.min() + DEEP)  # where the weight lies
        inside = coarse[max(0, near[0] - 1) : near[-1] + 2]
        finer = np.linspace(inside[0], inside[-1], PLACES) if len(inside) < PLACES // 2 else inside
        around = np.unique(np.append(finer, best[free]))
        points, losses = _walk(problem, best, free, around, STEPS if data.count <= PROFILED else 0)
    values, likelihoods = zip(*(problem.split(point) for point in points), strict=True)
    at = np.array([v[place] for v in values])
    weights = np.exp(np.min(losses) - losses) * np.diff(_edges(at))
    return Profile(at, weights / weights.sum(), tuple(values), np.array([each.noise for each in likelihoods]))


def _edges(places: Array) -> Array:
    """Return the ends of the cells around places in order."""
    if len(places) == 1:
        return np.asarray(places[0] + np.array([-0.5, 0.5]) * max(1e-9, abs(places[0]) * 1e-9))
    middle = 0.5 * (places[1:] + places[:-1])
    return np.concatenate([[2 * places[0] - middle[0]], middle, [2 * places[-1] - middle[-1]]])


def _free_number(problem: Problem, place: int) -> int:
    """Return the number of a value in the free vector; its domain gives one free number for each value."""
    position = 0
    for slot in problem.layout.slots:
        if slot.offset <= place < slot.offset + slot.size:
            if not slot.fitted:
                raise ValueError(f"{slot.path} is not fitted")
            return position + place - slot.offset
        if slot.fitted:
            position += slot.spec.domain.free_size(slot.size)
    raise ValueError(f"there is no value {place}")


def _loss(problem: Problem, best: Array, free: int, place: float) -> float:
    point = best.copy()
    point[free] = place
    evidence = problem.evidence(point, gradient=False)
    return FAILED_VALUE if evidence.failure else -evidence.value


def _walk(problem: Problem, best: Array, free: int, places: Array, steps: int) -> tuple[list[Array], Array]:
    """Walk from the optimum to either side, all else optimised from where it was beside."""
    start = int(np.argmin(np.abs(places - best[free])))
    points: list[Array] = [best] * len(places)
    losses = np.empty(len(places))
    for side in (range(start, len(places)), range(start, -1, -1)):
        point = best
        for number in side:
            point = point.copy()
            point[free] = places[number]
            if steps:
                bounds = problem.bounds.copy()
                bounds[free] = places[number]
                run = minimise(replace(problem, bounds=bounds), [point], steps)[0]
                point, losses[number] = run.point, run.value
            else:
                losses[number] = _loss(problem, point, free, places[number])
            points[number] = point
    return points, losses


def slice_draws(
    expression: Expression,
    noise: float,
    data: Data,
    engine: Engine,
    places: Sequence[int],
    spread: Array,
    seed: int = 0,
) -> list[Array]:
    """Draw values vectors that differ in some real values, by their posterior under N(0, spread^2), all else held.

    Elliptical slice sampling (Murray, Adams and MacKay 2010): every draw goes from the last one around an ellipse
    through a draw from the prior, to the first place tried whose evidence passes a random share of the last one's. No
    curvature would do: where a share is 0 or 1 the evidence is flat, until it is not.
    """
    rng, chosen = np.random.default_rng(seed), list(places)
    program, values, drawn = compile_program(expression), values_of(expression), []
    with one_thread(when=data.count < 1000):
        height = engine.evidence(program, values, Gaussian(noise), data, gradient=False).value
        for number in range(BURN_IN + DRAWS):
            floor, other = height + math.log(rng.random()), spread * rng.normal(size=len(chosen))
            angle = rng.uniform(0.0, 2.0 * math.pi)
            low, high = angle - 2.0 * math.pi, angle
            for _ in range(TURNS):
                new = values.copy()
                new[chosen] = values[chosen] * math.cos(angle) + other * math.sin(angle)
                found = engine.evidence(program, new, Gaussian(noise), data, False)
                if found.failure is None and found.value > floor:
                    values, height = new, found.value
                    break
                low, high = (angle, high) if angle < 0 else (low, angle)
                angle = rng.uniform(low, high)
            if number >= BURN_IN:
                drawn.append(values)
    return drawn


def measure_spread(problem: Problem) -> Array:
    """Return the spread of the prior on each number; without an opinion one is as likely anywhere within its bounds.

    A phase within one turn. The spread is then that of the Gaussian which is as high as the flat density.
    """
    assert problem.prior is not None
    names = [s.spec.name for s in problem.layout.slots if s.fitted for _ in range(s.spec.domain.free_size(s.size))]
    names += ["noise"] * (problem.noise is None)
    width = np.where(np.array(names) == "phase", 2.0 * math.pi, np.ptp(problem.bounds, axis=1))
    return np.where(np.isfinite(problem.prior.spread), problem.prior.spread, width / math.sqrt(2.0 * math.pi))


def average_evidence(problem: Problem, point: Array) -> float:
    """Return the log evidence averaged over the prior of all fitted numbers: Laplace's approximation at an optimum.

        log p(y | point) - z'z / 2 - log|I + S H S| / 2,    z = (point - centre) / spread,  S = diag(spread)

    H is the curvature of -log p(y | point). Where it is negative the data say less than the prior does: it counts as
    none.
    """
    assert problem.prior is not None
    plain, spread = replace(problem, prior=None), measure_spread(problem)
    value, slope = plain.loss(point)
    curvature = np.empty((len(point), len(point)))
    for number, step in enumerate(ASIDE * spread):
        beside = point.copy()
        beside[number] += step if point[number] + step <= problem.bounds[number, 1] else -step
        height, other = plain.loss(beside)
        if height >= FAILED_VALUE:
            return -math.inf
        curvature[number] = (other - slope) / (beside[number] - point[number])
    learned = np.linalg.eigvalsh(0.5 * spread[:, None] * (curvature + curvature.T) * spread)
    return problem.prior.log_density(point)[0] - value - 0.5 * float(np.log1p(np.maximum(learned, 0.0)).sum())
