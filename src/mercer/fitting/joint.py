"""Fit parameters and inducing inputs together, by the gradient of the variational bound (Titsias 2009)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mercer.fitting.optimise import CORRECTIONS, FLAT, Problem, Run, ended
from mercer.inference.likelihood import Gaussian
from mercer.inference.vfe import FixedVFE
from mercer.kernels.domains import Array


def optimise_jointly(problem: Problem, engine: FixedVFE, point: Array, max_iterations: int) -> tuple[Run, FixedVFE]:
    """Run L-BFGS-B from one point and the engine's inducing inputs; return where both ended."""
    from scipy.optimize import minimize

    objective, shape, count = problem.objective, engine.Z.shape, len(point)

    def loss(both: Array) -> tuple[float, Array]:
        values, noise = objective.split(both[:count])
        moved = replace(engine, Z=both[count:].reshape(shape), moving=True)
        evidence = moved.evidence(objective.program, values, Gaussian(noise), objective.data)
        value, slope = objective.loss(both[:count], values, noise, evidence)
        by_points = np.zeros(shape) if evidence.by_points is None else -evidence.by_points
        return value, np.concatenate([slope, by_points.ravel()])

    bounds = [*map(tuple, problem.bounds), *[(None, None)] * engine.Z.size]
    result = minimize(
        loss, np.concatenate([point, engine.Z.ravel()]), jac=True, method="L-BFGS-B", bounds=bounds,
        options={"maxiter": max_iterations, "maxcor": CORRECTIONS, "ftol": problem.tolerance, "gtol": FLAT},
    )  # fmt: skip
    both = np.asarray(result.x)
    return ended(problem, both[:count], float(result.fun), result), replace(
        engine, Z=both[count:].reshape(shape).copy()
    )
