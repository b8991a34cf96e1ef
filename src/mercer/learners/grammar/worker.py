"""Fit one candidate, in two stages so that candidates can be raced: a short run from several starts, then to the end.

A stage depends on nothing but its arguments, runs on one BLAS thread and gives the same numbers in any process.
"""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass, replace

from threadpoolctl import threadpool_limits

from mercer.fitting.optimise import Fit, FitOptions, Run, concluded, optimise, prepare, starting_points
from mercer.inference.contract import Data, Engine
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression


@dataclass(frozen=True, eq=False)
class Task:
    """A kernel to fit: where its old parts stand, the noise of its parent, periods to try."""

    expression: Expression
    key: str
    noise: float | None
    peaks: dict[int, Array] | None
    options: FitOptions


@dataclass(frozen=True, eq=False)
class Begun:
    """Where the short runs of a candidate ended, best first."""

    runs: tuple[Run, ...]
    screened: int
    seconds: float

    @property
    def value(self) -> float:
        """Best objective so far (minus log evidence)."""
        return self.runs[0].value


def seed_for(seed: int, key: str) -> int:
    """Return a seed that depends on the candidate and not on when or where it is fitted."""
    return (seed * 1_000_003 + zlib.crc32(key.encode())) % 2**31


def begin(task: Task, data: Data, engine: Engine, iterations: int) -> Begun:
    """Run every start of a candidate for a few iterations."""
    started = time.perf_counter()
    with threadpool_limits(1):
        problem = prepare(task.expression, data, engine, task.options, task.peaks)
        points, screened = starting_points(problem, task.options, task.noise)
        runs = sorted((optimise(problem, point, iterations) for point in points), key=lambda run: run.value)
    return Begun(tuple(runs), screened, time.perf_counter() - started)


def finish(task: Task, begun: Begun, data: Data, engine: Engine, keep: int) -> tuple[Fit, float]:
    """Run the best starts of a candidate to the end; return the fit and the seconds of both stages."""
    started = time.perf_counter()
    with threadpool_limits(1):
        problem = prepare(task.expression, data, engine, task.options, task.peaks)
        runs = []
        for earlier in begun.runs[:keep]:
            if earlier.converged:
                runs.append(earlier)
                continue
            later = optimise(problem, earlier.point, task.options.max_iterations)
            runs.append(replace(later, evaluations=later.evaluations + earlier.evaluations))
        fit = concluded(problem, runs, begun.runs[0].point, begun.screened)
    return fit, begun.seconds + time.perf_counter() - started
