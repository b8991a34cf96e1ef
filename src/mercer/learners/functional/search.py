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

from mercer.kernels.domains import Array
from mercer.learners.contract import Stopped
from mercer.learners.functional.space import Distance, KernelSpace
from mercer.learners.functional.surrogate import Acquisition, acquired, possible_gain, surrogate

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
