"""Fit one candidate, in laps so that candidates can be raced: a few steps from several starts, then more for the best.

A lap depends on its arguments alone and runs on one BLAS thread: it gives the same numbers, to rounding, anywhere.
"""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass, replace

from mercer.fitting.optimise import Fit, FitOptions, Problem, Run, concluded, optimise, prepare, starting_points
from mercer.fitting.starts import Starts
from mercer.inference.contract import Data, Engine
from mercer.kernels.algebra import structure
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.linalg.threads import one_thread


@dataclass(frozen=True, eq=False)
class Task:
    """A kernel to fit: where its old parts stand, the noise of its parent, periods to try."""

    expression: Expression
    key: str
    noise: float | None
    peaks: dict[int, Array]  # periods that the parent leaves unexplained
    own_peaks: dict[int, Array]  # periods of the target itself
    options: FitOptions


@dataclass(frozen=True, eq=False)
class State:
    """Where the starts of a candidate are, best first; `fit` once they are at their end."""

    runs: tuple[Run, ...]
    screened: int
    seconds: float
    fit: Fit | None = None

    @property
    def log_evidence(self) -> float:
        """The best so far."""
        return -self.runs[0].value


def seed_for(seed: int, key: str) -> int:
    """Return a seed that depends on the candidate and not on when or where it is fitted."""
    return (seed * 1_000_003 + zlib.crc32(key.encode())) % 2**31


def advance(
    task: Task, state: State | None, data: Data, engine: Engine, iterations: int, keep: int, last: bool
) -> State:
    """Begin a candidate (state None) or carry its `keep` best starts on, by some iterations; conclude it if `last`."""
    started = time.perf_counter()
    with one_thread():
        problem = prepare(task.expression, data, engine, task.options, task.peaks)
        if state is None:
            points, screened = _points(problem, task)
            runs = [optimise(problem, point, iterations) for point in points]
        else:
            screened = state.screened
            runs = [_continued(problem, run, iterations) for run in state.runs[:keep]]
        runs.sort(key=lambda run: run.value)
        fit = concluded(problem, runs, runs[0].point, screened) if last else None
    earlier = state.seconds if state is not None else 0.0
    return State(tuple(runs), screened, earlier + time.perf_counter() - started, fit)


def _points(problem: Problem, task: Task) -> tuple[list[Array], int]:
    """Half of the starts keep the parent's optimum and draw the new part; the others draw everything afresh.

    A parent fitted without the new part may have bent itself to do that part's work (a short lengthscale in place of a
    period), and its optimum is then a bad place to start.
    """
    if task.noise is None:
        return starting_points(problem, task.options)
    half = replace(task.options, restarts=max(1, task.options.restarts // 2))
    points, screened = starting_points(problem, half, task.noise)
    layout, data = problem.objective.layout, problem.objective.data
    afresh = replace(problem, starts=Starts(structure(task.expression), layout, data, task.own_peaks))
    more, also_screened = starting_points(afresh, replace(task.options, restarts=task.options.restarts - half.restarts))
    return [*points, *more], screened + also_screened


def _continued(problem: Problem, run: Run, iterations: int) -> Run:
    if run.converged and run.rows == problem.objective.data.count:
        return run
    later = optimise(problem, run.point, iterations)
    return replace(later, evaluations=later.evaluations + run.evaluations)
