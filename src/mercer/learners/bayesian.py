"""Bayesian optimisation: of a kernel in random subspaces of a space of kernels, and of a few numbers in a box.

A Gaussian process over kernels (or over points with a metric) says where to look next (KFO 3.2, appendix A.1):

    k(K1, K2) = s^2 exp(-|K1 - K2|^2 / 2 l^2)                                                    (KFO 6)
    u(K) = mean + sqrt(beta_t) std,   beta_t = 2 log(t^(2 + n/2) pi^2 / 3 delta)                 (KFO 2 and 3.2)

n is the number of kernels observed so far, t the step. All observations stay in it, also those of earlier subspaces.
What cannot be evaluated (the objective raises, or gives no finite number) is kept with a reason; the surrogate sees the
worst value there, so that the neighbourhood is avoided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtr

from mercer.kernels.domains import Array
from mercer.learners.kernel_space import Distance, KernelSpace
from mercer.linalg.factor import Factor, Failure, factorise

Acquisition = Literal["ucb", "ei"]
Stop = Literal["budget", "regret"]

CONFIDENCE = 0.1  # delta of beta_t, of which the paper says that it lies between 0 and 1
LENGTHS = np.geomspace(0.1, 10.0, 13)  # of the median distance between observations
NOISES = (1e-6, 1e-3, 1e-2, 1e-1, 0.5)  # shares of the variance of the observations
BOX_POINTS = 512  # points of a box that are compared at every step


@dataclass(frozen=True)
class ObjectiveValue:
    """What an objective gave: a number (larger is better), or why there is none."""

    value: float
    problem: str = ""

    @property
    def good(self) -> bool:
        """Whether there is a value."""
        return not self.problem


def evaluate_safely(objective: Callable[[], float]) -> ObjectiveValue:
    """Call an objective; what it raises, and what is no finite number, becomes a value with a problem."""
    try:
        number = float(objective())
    except (KeyboardInterrupt, SystemExit):
        raise
    except Exception as error:  # it may be the user's own function
        return ObjectiveValue(-math.inf, f"{type(error).__name__}: {error}"[:200])
    if not math.isfinite(number):
        return ObjectiveValue(-math.inf, f"the objective gave {number}")
    return ObjectiveValue(number)


# -------------------------------------------------------------------------------------------------------- the surrogate


@dataclass(frozen=True, eq=False)
class Surrogate:
    """Posterior of the objective over points (rows), after its lengthscale and noise were chosen by evidence."""

    points: Array
    metric: Array
    length: float
    noise: float
    factor: Factor
    weights: Array
    level: float
    spread: float

    def predict(self, points: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation of the objective (without noise)."""
        cross = np.exp(-_squares(points, self.points, self.metric) / (2.0 * self.length**2))
        half = self.factor.half_solve(cross.T)
        variance = np.maximum(1.0 - np.einsum("ij,ij->j", half, half), 1e-12)
        return self.level + self.spread * (cross @ self.weights), self.spread * np.sqrt(variance)

    def acquire(self, points: Array, best: float, step: int, kind: Acquisition) -> Array:
        """Return how much each point is worth looking at."""
        mean, std = self.predict(points)
        if kind == "ucb":
            return np.asarray(mean + math.sqrt(ucb_weight(step, len(self.points))) * std)
        z = (mean - best) / std
        return np.asarray((mean - best) * ndtr(z) + std * np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi))

    def possible_gain(self, points: Array, best: float) -> float:
        """Return by how much the best of the points may exceed the best observation: mean + 2 std less that."""
        mean, std = self.predict(points)
        return float((mean + 2.0 * std).max()) - best


def ucb_weight(step: int, observed: int, delta: float = CONFIDENCE) -> float:
    """Return beta_t as the paper prints it, 2 log(t^(2 + n/2) pi^2 / 3 delta), without overflow."""
    return 2.0 * ((2.0 + observed / 2.0) * math.log(max(step, 1)) + math.log(math.pi**2 / (3.0 * delta)))


def fit_surrogate(points: Array, values: Array, metric: Array) -> Surrogate:
    """Fit the process to what was observed; the lengthscale and the noise maximise the evidence on a small grid."""
    level, spread = float(values.mean()), float(values.std()) or 1.0
    target = (values - level) / spread
    squares = _squares(points, points, metric)
    typical = math.sqrt(float(np.median(squares[squares > 0]))) if (squares > 0).any() else 1.0
    best: tuple[float, float, float, Factor] | None = None
    for length in LENGTHS * typical:
        matrix = np.exp(-squares / (2.0 * length**2))
        for noise in NOISES:
            factor = factorise(matrix.copy, noise)
            if isinstance(factor, Failure):
                continue
            fit = -0.5 * float(target @ factor.solve(target)) - 0.5 * factor.log_determinant()
            if best is None or fit > best[0]:
                best = (fit, float(length), noise, factor)
    assert best is not None, "a Gram matrix with half its variance as noise can be factorised"
    _, length, noise, factor = best
    return Surrogate(points, metric, length, noise, factor, factor.solve(target), level, spread)


def _squares(left: Array, right: Array, metric: Array) -> Array:
    root = np.sqrt(metric)
    difference = (left * root)[:, None, :] - (right * root)[None, :, :]
    return np.asarray((difference**2).sum(axis=2))


def _learn(points: Sequence[Array], values: Sequence[ObjectiveValue], metric: Array) -> tuple[Surrogate | None, float]:
    """Return the surrogate of all observations and the best of them; None where fewer than two have a value."""
    good = [v.value for v in values if v.good]
    if len(good) < 2:
        return None, -math.inf
    worst = min(good) - float(np.std(good))
    filled = np.array([v.value if v.good else worst for v in values])
    return fit_surrogate(np.array(points), filled, metric), max(good)


# ----------------------------------------------------------------------------------- kernels, in subspaces (KFO alg. 1)


@dataclass(frozen=True)
class SubspacePlan:
    """How the search runs: S random subspaces through the best kernel, T steps of Bayesian optimisation in each."""

    subspaces: int = 5
    iterations: int = 20
    directions: int = 1
    acquisition: Acquisition = "ucb"
    distance: Distance = "rkhs"
    stop: Stop = "budget"
    keeps_size: bool = False  # of the best kernel, as printed; otherwise it is made as large as a typical draw
    random_kernels: int = 4  # of each subspace before the surrogate chooses: enough to tell its slope
    least_gain: float = 0.02  # of the spread of the observations: "regret" leaves a subspace that promises less
    line_points: int = 129  # of a line that are compared: finer than any lengthscale of the surrogate
    box_points: int = 1024  # of a subspace of several directions, drawn anew at every step


@dataclass(frozen=True, eq=False)
class Observation:
    """One kernel that was evaluated: its coordinates, its value, where it was found and by how many observations."""

    beta: Array
    outcome: ObjectiveValue
    subspace: int  # 0: where the search begins
    step: int  # 0: drawn at random
    observed: int = 0  # kernels that the surrogate knew when it chose this one; 0: it did not choose it


Evaluate = Callable[[Array, int, int], ObjectiveValue]  # coordinates, subspace, step


def search_subspaces(
    space: KernelSpace, evaluate: Evaluate, plan: SubspacePlan, rng: np.random.Generator, seeds: Sequence[Array] = ()
) -> list[Observation]:
    """Return every kernel that was evaluated.

    A kernel of a subspace is K# + sum_i lambda_i k_i with lambda in [0, 1]^d and k_i drawn from the process over
    kernels, K# being the best so far.
    """
    found: list[Observation] = []

    def observe(beta: Array, subspace: int, step: int, observed: int = 0) -> None:
        found.append(Observation(beta, evaluate(beta, subspace, step), subspace, step, observed))

    for beta in seeds:
        observe(beta, 0, 0)
    for subspace in range(1, plan.subspaces + 1):
        # through the best kernel so far (K#), as large as a typical draw, as only its shape matters; zero where none is
        good = [o for o in found if o.outcome.good]
        centre = np.zeros(space.dimensions)
        if good:
            beta = max(good, key=lambda o: o.outcome.value).beta
            size = 1.0 if plan.keeps_size else math.sqrt(space.dimensions) / (float(np.linalg.norm(beta)) or 1.0)
            centre = size * beta
        basis = np.array([space.draw(rng) for _ in range(plan.directions)])
        for _ in range(plan.random_kernels):
            observe(centre + rng.random(plan.directions) @ basis, subspace, 0)
        for step in range(1, plan.iterations + 1):
            box = np.linspace(0.0, 1.0, plan.line_points)[:, None]
            if plan.directions > 1:
                box = rng.random((plan.box_points, plan.directions))
            points = centre + box @ basis
            model, best = _learn_observations(space, found, plan)
            if model is None:
                observe(points[rng.integers(len(points))], subspace, step)
                continue
            if plan.stop == "regret" and model.possible_gain(points, best) < plan.least_gain * model.spread:
                break
            chosen = points[int(np.argmax(model.acquire(points, best, step, plan.acquisition)))]
            observe(chosen, subspace, step, len(model.points))
    return found


def _learn_observations(
    space: KernelSpace, found: Sequence[Observation], plan: SubspacePlan
) -> tuple[Surrogate | None, float]:
    return _learn([o.beta for o in found], [o.outcome for o in found], space.metric(plan.distance))


def choose_steadiest(space: KernelSpace, found: Sequence[Observation], plan: SubspacePlan) -> Observation | None:
    """Return the kernel with the best expected objective: a noisy one (cross-validation) favours the lucky."""
    good = [o for o in found if o.outcome.good]
    model, _ = _learn_observations(space, found, plan)
    if model is None:
        return good[0] if good else None
    mean, _ = model.predict(np.array([o.beta for o in good]))
    return good[int(np.argmax(mean))]


# -------------------------------------------------------------------------------------- numbers, in a box (KFO alg. 2)

Tried = list[tuple[Array, ObjectiveValue]]


def tune(
    evaluate: Callable[[Array], ObjectiveValue], dimensions: int, steps: int, rng: np.random.Generator,
    first: Sequence[Array] = (), acquisition: Acquisition = "ei",
) -> Tried:  # fmt: skip
    """Return the points of (0, 1]^dimensions that were tried with what came of them, `first` before the others."""
    tried = [(point, evaluate(point)) for point in map(np.asarray, first)]
    for step in range(1, steps + 1):
        points = 1.0 - rng.random((BOX_POINTS, dimensions))  # (0, 1]
        model, best = _learn([p for p, _ in tried], [v for _, v in tried], np.ones(dimensions))
        place = 0 if model is None else int(np.argmax(model.acquire(points, best, step, acquisition)))
        tried.append((points[place], evaluate(points[place])))
    return tried


def find_best(tried: Tried) -> tuple[Array, float]:
    """Return the best point and its value; minus infinity where none could be evaluated."""
    good = [(v.value, -i) for i, (_, v) in enumerate(tried) if v.good]
    value, place = max(good, default=(-math.inf, 0))
    return tried[-place][0], value


def find_steadiest(tried: Tried) -> Array:
    """Return the point with the best expected value under the surrogate: of noisy values the best is often luck."""
    good = [(p, v.value) for p, v in tried if v.good]
    if not good:
        return tried[0][0]
    points, values = np.array([p for p, _ in good]), np.array([v for _, v in good])
    if len(good) >= 3:
        values, _ = fit_surrogate(points, values, np.ones(points.shape[1])).predict(points)
    return np.asarray(points[int(np.argmax(values))])
