"""Fit one candidate, in laps so that candidates can be raced: a few steps from several starts, then more for the best.

A lap depends on its arguments alone and runs on one BLAS thread: it gives the same numbers, to rounding, anywhere.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mercer.fitting.optimise import Fit, FitOptions, Problem, Run, concluded, optimise, prepare, starting_points
from mercer.fitting.starts import Starts
from mercer.fitting.trail import Trail
from mercer.inference.bounds import Interval
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
    replaced: bool  # a part of the parent gave way to the new one
    peaks: dict[int, Array]  # periods for the new part: those that the parent, without what was replaced, leaves over
    own_peaks: dict[int, Array]  # periods of the target itself
    options: FitOptions


@dataclass(frozen=True, eq=False)
class State:
    """Where the starts of a candidate are, in the order of `ranked`; `fit` once they are at their end.

    In a search by intervals: where its log evidence lies on all rows, by so many inducing points.
    """

    runs: tuple[Run, ...]
    screened: int
    seconds: float
    fit: Fit | None = None
    interval: Interval | None = None
    inducing: int | None = None

    @property
    def log_evidence(self) -> float:
        """The best so far."""
        return -self.runs[0].value


def seed_for(seed: int, key: str) -> int:
    """Return a seed that depends on the candidate and not on when or where it is fitted."""
    return (seed * 1_000_003 + zlib.crc32(key.encode())) % 2**31


class Descent(Protocol):
    """How a problem is evaluated and optimised from several points."""

    def screen(self, problem: Problem, points: Sequence[Array]) -> Sequence[float]:
        """Return the log evidence at every point."""

    def descend(
        self, problem: Problem, points: Sequence[Array], iterations: int, trails: Sequence[Trail | None] = ()
    ) -> list[Run]:
        """Optimise from every point, along its trail where it has one, by so many iterations in all."""


class OneByOne:
    """On the CPU, one point after the other."""

    def screen(self, problem: Problem, points: Sequence[Array]) -> list[float]:
        """Return the log evidence at every point."""
        return [problem.objective.evidence(point, gradient=False).value for point in points]

    def descend(
        self, problem: Problem, points: Sequence[Array], iterations: int, trails: Sequence[Trail | None] = ()
    ) -> list[Run]:
        """Optimise from every point."""
        known = trails or [None] * len(points)
        return [optimise(problem, point, iterations, trail) for point, trail in zip(points, known, strict=True)]


def advance(
    task: Task,
    state: State | None,
    data: Data,
    engine: Engine,
    iterations: int,
    keep: int,
    last: bool,
    by: Descent = OneByOne(),  # noqa: B008  (it has no state)
) -> State:
    """Begin a candidate (state None) with `keep` starts or carry its `keep` best on; conclude it if `last`."""
    started = time.perf_counter()
    with one_thread():
        problem = prepare(task.expression, data, engine, task.options, task.peaks)
        if state is None:
            points, afresh, screened = _points(problem, task, by, keep)
            runs = [*by.descend(problem, [*points, *afresh], iterations)]
            runs[len(points) :] = [replace(run, afresh=True) for run in runs[len(points) :]]
        else:
            screened = state.screened
            runs = _continued(problem, state.runs[:keep], iterations, by)
        runs = ranked(runs)
        fit = concluded(problem, runs, runs[0].point, screened) if last else None
    earlier = state.seconds if state is not None else 0.0
    return State(tuple(runs), screened, earlier + time.perf_counter() - started, fit)


def ranked(runs: Sequence[Run]) -> list[Run]:
    """Return the best first; then the best of the other kind, begun afresh or not; then the others.

    What begins at the parent's optimum leads at first, and after a few steps the two best are mostly of this kind. What
    begins afresh needs longer and may come to a better end.
    """
    best = sorted(runs, key=lambda run: run.value)
    first = [next(run for run in best if run.afresh == kind) for kind in {run.afresh for run in best}]
    first.sort(key=lambda run: run.value)
    return [*first, *(run for run in best if not any(run is leader for leader in first))]


def _points(problem: Problem, task: Task, by: Descent, most: int) -> tuple[list[Array], list[Array], int]:
    """Half of the starts keep the parent's optimum and draw the new part; the others draw everything afresh.

    A parent fitted without the new part may have bent itself to do that part's work (a short lengthscale in place of a
    period), and its optimum is then a bad place to start. Where no more starts than those at the parent's optimum are
    wanted, they are all.
    """
    if task.noise is None:
        points, screened = starting_points(problem, task.options, screen=by.screen)
        return points, [], screened
    half = replace(task.options, restarts=max(1, task.options.restarts // 2))
    points, screened = starting_points(problem, half, task.noise, by.screen, neutral=not task.replaced)
    if most <= half.restarts:
        return points[:most], [], screened
    layout, data = problem.objective.layout, problem.objective.data
    afresh = replace(problem, starts=Starts(structure(task.expression), layout, data, task.own_peaks))
    others = replace(task.options, restarts=task.options.restarts - half.restarts)
    more, also_screened = starting_points(afresh, others, screen=by.screen)
    return points, more, screened + also_screened


def _continued(problem: Problem, runs: Sequence[Run], iterations: int, by: Descent) -> list[Run]:
    """Carry on the runs that are not at their end; one on other rows begins anew where it stands."""
    result, rows = list(runs), problem.objective.data.count
    going = [i for i, run in enumerate(runs) if not (run.converged and run.rows == rows)]
    if going:
        trails = [runs[i].trail if runs[i].rows == rows else None for i in going]
        points = [runs[i].point if trail is None else trail.start for i, trail in zip(going, trails, strict=True)]
        for i, trail, later in zip(going, trails, by.descend(problem, points, iterations, trails), strict=True):
            earlier = runs[i].evaluations if trail is None else 0
            result[i] = replace(later, evaluations=earlier + later.evaluations, afresh=runs[i].afresh)
    return result
