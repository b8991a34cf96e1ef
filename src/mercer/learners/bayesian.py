"""The search: S random subspaces through the best kernel, T steps of Bayesian optimisation in each (KFO, algorithm 1).

A kernel of a subspace is K# + sum_i lambda_i k_i with lambda in [0, 1]^d and k_i drawn from the process over kernels.
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
from mercer.learners.contract import Stopped
from mercer.learners.kernel_space import Distance, KernelSpace
from mercer.linalg.factor import Factor, Failure, factorise

Stop = Literal["budget", "regret"]
ENDED: dict[Stopped, str] = {
    "request": "the search was stopped on request; this is the best kernel found until then",
    "time": "the time budget was spent before the search came to its end; this is the best kernel found until then",
}

FIRST = 4  # random kernels of each subspace before the surrogate chooses
ENOUGH = 0.02  # of the spread of the observations: a possible gain below it ends a subspace
ON_LINE = 129  # points of a line that are compared
IN_BOX = 1024  # of a subspace of several directions


@dataclass(frozen=True)
class Outcome:
    """What the objective gave: a number (larger is better), or why there is none."""

    value: float
    problem: str = ""

    @property
    def good(self) -> bool:
        """Whether there is a value."""
        return not self.problem


@dataclass(frozen=True, eq=False)
class Observation:
    """One kernel that was looked at: its coordinates, what came of it, and where it was found."""

    beta: Array
    outcome: Outcome
    subspace: int
    step: int


@dataclass(frozen=True)
class Plan:
    """How the search runs."""

    subspaces: int = 5
    iterations: int = 20
    directions: int = 1
    acquisition: Acquisition = "ucb"
    distance: Distance = "rkhs"
    stop: Stop = "budget"


Evaluate = Callable[[Array, int, int], Outcome]  # coordinates, subspace, step (0 of both: where the search begins)


def guarded(objective: Callable[[], float]) -> Outcome:
    """Call an objective; what it raises, and what is no finite number, is an outcome with a problem."""
    try:
        value = objective()
        number = float(value)
    except (KeyboardInterrupt, SystemExit):
        raise
    except Exception as error:  # it may be the user's own function
        return Outcome(-math.inf, f"{type(error).__name__}: {error}"[:200])
    if not math.isfinite(number):
        return Outcome(-math.inf, f"the objective gave {number}")
    return Outcome(number)


def search(
    space: KernelSpace, evaluate: Evaluate, plan: Plan, rng: np.random.Generator, seeds: Sequence[Array] = ()
) -> list[Observation]:  # fmt: skip
    """Return every kernel looked at."""
    found: list[Observation] = []

    def look(beta: Array, subspace: int, step: int) -> None:
        found.append(Observation(beta, evaluate(beta, subspace, step), subspace, step))

    for beta in seeds:
        look(beta, 0, 0)
    for subspace in range(1, plan.subspaces + 1):
        centre = _centre(space, found)
        basis = np.array([space.draw(rng) for _ in range(plan.directions)])
        for _ in range(FIRST):
            look(centre + rng.random(plan.directions) @ basis, subspace, 0)
        for step in range(1, plan.iterations + 1):
            box = _box(plan.directions, rng)
            points = centre + box @ basis
            model, best = _surrogate(space, found, plan)
            if model is None:
                chosen = points[rng.integers(len(points))]
            else:
                if plan.stop == "regret" and possible_gain(model, points, best) < ENOUGH * model.spread:
                    break
                chosen = points[int(np.argmax(acquired(model, points, best, step, plan.acquisition)))]
            look(chosen, subspace, step)
    return found


def _centre(space: KernelSpace, found: Sequence[Observation]) -> Array:
    """Return the best kernel so far (K#), as large as a typical draw: only its shape matters; zero where none is."""
    good = [o for o in found if o.outcome.good]
    if not good:
        return np.zeros(space.dimensions)
    beta = max(good, key=lambda o: o.outcome.value).beta
    return beta * math.sqrt(space.dimensions) / (float(np.linalg.norm(beta)) or 1.0)


def _box(directions: int, rng: np.random.Generator) -> Array:
    if directions == 1:
        return np.linspace(0.0, 1.0, ON_LINE)[:, None]
    return rng.random((IN_BOX, directions))


def _surrogate(space: KernelSpace, found: Sequence[Observation], plan: Plan):  # type: ignore[no-untyped-def]
    good = [o.outcome.value for o in found if o.outcome.good]
    if len(good) < 2:
        return None, -math.inf
    worst = min(good) - float(np.std(good))
    values = np.array([o.outcome.value if o.outcome.good else worst for o in found])
    model = surrogate(np.array([o.beta for o in found]), values, space.metric(plan.distance))
    return model, max(good)


def steadiest(space: KernelSpace, found: Sequence[Observation], plan: Plan) -> Observation | None:
    """Return the kernel with the best expected objective: a noisy one (cross-validation) favours the lucky."""
    good = [o for o in found if o.outcome.good]
    model, _ = _surrogate(space, found, plan)
    if model is None:
        return good[0] if good else None
    mean, _ = model.predict(np.array([o.beta for o in good]))
    return good[int(np.argmax(mean))]


# A Gaussian process over kernels, or over any points with a metric, and where to look next (KFO 3.2, appendix A.1).
#
#     k(K1, K2) = s^2 exp(-|K1 - K2|^2 / 2 l^2)                                                    (KFO 6)
#     u(K) = mean + sqrt(beta_t) std,   beta_t = 2 log(t^(2 + n/2) pi^2 / 3 delta)                 (KFO 2 and 3.2)
#
# n is the number of kernels observed so far, t the step. All observations stay in it, also those of earlier subspaces.


Acquisition = Literal["ucb", "ei"]

DELTA = 0.1
LENGTHS = np.geomspace(0.1, 10.0, 13)  # of the median distance between observations
NOISES = (1e-6, 1e-3, 1e-2, 1e-1, 0.5)  # shares of the variance of the observations


def printed_beta(step: int, observed: int, delta: float = DELTA) -> float:
    """Return beta_t as the paper prints it, 2 log(t^(2 + n/2) pi^2 / 3 delta), without overflow."""
    return 2.0 * ((2.0 + observed / 2.0) * math.log(max(step, 1)) + math.log(math.pi**2 / (3.0 * delta)))


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


def _squares(left: Array, right: Array, metric: Array) -> Array:
    root = np.sqrt(metric)
    difference = (left * root)[:, None, :] - (right * root)[None, :, :]
    return np.asarray((difference**2).sum(axis=2))


def surrogate(points: Array, values: Array, metric: Array) -> Surrogate:
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


def acquired(model: Surrogate, points: Array, best: float, step: int, kind: Acquisition) -> Array:
    """Return how much each point is worth looking at."""
    mean, std = model.predict(points)
    if kind == "ucb":
        return np.asarray(mean + math.sqrt(printed_beta(step, len(model.points))) * std)
    z = (mean - best) / std
    return np.asarray((mean - best) * ndtr(z) + std * np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi))


def possible_gain(model: Surrogate, points: Array, best: float) -> float:
    """Return by how much the best of the points may exceed the best observation: mean + 2 std, the simple regret."""
    mean, std = model.predict(points)
    return float((mean + 2.0 * std).max()) - best


# Standard Bayesian optimisation in a box (KFO, algorithm 2): how the hyperkernel's own numbers are tuned.

CANDIDATES = 512
RATES = (0.3, 0.6, 0.9)  # of the hyperkernel: tried before the others
RATE_LIMITS = (0.02, 0.98)


def tuned(
    evaluate: Callable[[Array], Outcome], dimensions: int, steps: int, rng: np.random.Generator,
    first: Sequence[Array] = (), acquisition: Acquisition = "ei",
) -> list[tuple[Array, Outcome]]:  # fmt: skip
    """Return the points of (0, 1]^dimensions that were tried with what came of them, `first` before the others."""
    tried = [(point, evaluate(point)) for point in map(np.asarray, first)]
    for step in range(1, steps + 1):
        candidates = 1.0 - rng.random((CANDIDATES, dimensions))  # (0, 1]
        good = [o.value for _, o in tried if o.good]
        if len(good) < 2:
            chosen = candidates[0]
        else:
            worst = min(good) - float(np.std(good))
            values = np.array([o.value if o.good else worst for _, o in tried])
            model = surrogate(np.array([p for p, _ in tried]), values, np.ones(dimensions))
            chosen = candidates[int(np.argmax(acquired(model, candidates, max(good), step, acquisition)))]
        tried.append((chosen, evaluate(chosen)))
    return tried


def best_of(tried: Sequence[tuple[Array, Outcome]]) -> tuple[Array, float]:
    """Return the best point and its value; minus infinity where none could be evaluated."""
    good = [(o.value, i) for i, (_, o) in enumerate(tried) if o.good]
    if not good:
        return tried[0][0], -math.inf
    value, place = max(good, key=lambda pair: (pair[0], -pair[1]))
    return tried[place][0], value


def steadiest_of(tried: Sequence[tuple[Array, Outcome]]) -> Array:
    """Return the point with the best expected value under the surrogate: of noisy values the best is often luck."""
    good = [(p, o.value) for p, o in tried if o.good]
    if not good:
        return tried[0][0]
    points, values = np.array([p for p, _ in good]), np.array([v for _, v in good])
    if len(good) < 3:
        return np.asarray(points[int(np.argmax(values))])
    mean, _ = surrogate(points, values, np.ones(points.shape[1])).predict(points)
    return np.asarray(points[int(np.argmax(mean))])
