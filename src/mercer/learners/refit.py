"""Fit a finished kernel again, to other rows: from its optimum on, which is near the new one."""

from __future__ import annotations

import math

import numpy as np

from mercer.fitting.optimise import Fit, FitOptions, Problem, Run, concluded, optimise, prepare
from mercer.inference.contract import Data, Engine
from mercer.linalg.threads import one_thread


def resumed(
    fit: Fit, data: Data, engine: Engine, iterations: int, priors: bool = False, known_noise: bool = False
) -> tuple[Problem, Run]:
    """Return the problem of fitting the kernel to the rows, and where the optimiser came from the old optimum."""
    options = FitOptions(priors=priors, noise=fit.noise if known_noise else None)
    problem = prepare(fit.expression, data, engine, options)
    point = problem.objective.layout.to_free(fit.values)
    if not known_noise:
        point = np.append(point, math.log(fit.noise))
    return problem, optimise(problem, np.clip(point, problem.bounds[:, 0], problem.bounds[:, 1]), iterations)


def refitted(fit: Fit, data: Data, engine: Engine, iterations: int) -> Fit:
    """Return the kernel fitted to all of the rows."""
    with one_thread():
        problem, run = resumed(fit, data, engine, iterations)
        return concluded(problem, [run], run.point, fit.evaluations)
