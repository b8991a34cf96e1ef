"""Racing by successive halving: most of the cost of a search lies in candidates that cannot win.

All candidates climb the first rung, a few steps from several starts; the promising are promoted to the next ones, and
only those that could still win are fitted to the end. What a rung does depends on its arguments alone and runs on one
BLAS thread: it gives the same numbers, to rounding, anywhere.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mercer.fitting.minimise import Batch, screen, starting_points
from mercer.fitting.newton import descend
from mercer.fitting.problem import FitOptions, Problem, Run, prepare
from mercer.fitting.starts import Starts
from mercer.inference.contract import Data, Engine
from mercer.inference.likelihood import Gaussian
from mercer.kernels.algebra import structure
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.learners.contract import draw_some
from mercer.learners.trials import Attempt
from mercer.linalg.threads import one_thread

ALL_STARTS = 99


@dataclass(frozen=True)
class Rung:
    """How far candidates run, from how many of their starts, and which of them are promoted to it."""

    iterations: int  # steps from where they are
    starts: int
    margin: float  # by how much a score may be behind the best of the rung before
    at_least: int  # this many are promoted in any case
    sample: int | None = None  # where there are many rows, it runs on this many of them
    at_most: int | None = None  # of those within the margin this many of the best
    starts_margin: float = math.inf  # by how much the log evidence of a start may be behind the best of its candidate
    close: float = math.inf  # by how much a score may be behind, within the margin, beyond what it may still gain

    def without_limits(self) -> Rung:
        """Return the rung with everybody promoted to it, from as many starts."""
        return replace(self, margin=math.inf, at_most=None, starts_margin=math.inf, close=math.inf)

    def trim(self, attempt: Attempt | None) -> Attempt | None:
        """Return an attempt without the starts that are too far behind the best of them to go on.

        What counts in a score counts half as much in log evidence.
        """
        if attempt is None:
            return None
        best = min(run.value for run in attempt.runs)
        margins = [min(self.starts_margin, self.close / 2.0 + run.hope) for run in attempt.runs]
        kept = [run for run, margin in zip(attempt.runs, margins, strict=True) if run.value <= best + margin]
        return replace(attempt, runs=tuple(kept))


@dataclass(frozen=True)
class RacePolicy:
    """The rungs of a race, by the number of candidates and of rows."""

    first_steps: int = 3  # of all candidates, from every start that promises something after the first of them
    many_rows: int = 450  # above, the first rungs run on a sample: their cost grows with the cube of the rows
    sample: int = 300  # rows that show which could win
    largest_sample: int = 600  # of a long series, on which a search on fewer rows came before
    stretches: int = 4  # of neighbouring rows in a sample of a series: each shows some cycles of what is fast
    small_sample: int = 150  # rows of the first rung of a large level, enough to leave most of it behind
    large_level: int = 300  # candidates; several input columns make that many
    grown_starts: int = 2  # of each in a large level on many rows: a kernel of many parts begun afresh is slow
    # parts of a kernel that is begun afresh as well: of four and more, what was begun so was 100 and more behind in log
    # evidence after eight steps, at every level of four series
    afresh_parts: int = 3
    starts_margin: float = 10.0  # log evidence that a start may be behind the best of its candidate, and go on
    close: float = 6.0  # score that a candidate may be behind beyond what it may still gain, and be promoted
    close_at_first: float = 30.0  # the same after one step: what it promises is less certain
    close_on_sample: float = 15.0  # the same where it was seen on fewer rows than it is promoted to
    # Times what its next step promises, that a candidate may still gain: more steps follow. On gas production a winner
    # was 22 behind after five steps and promised 12.
    steps_ahead: float = 2.0

    def is_large(self, candidates: int, rows: int) -> bool:
        """Tell whether there are hundreds of candidates on many rows."""
        return candidates > self.large_level and rows > self.many_rows

    def rungs(
        self, race: bool, max_iterations: int, candidates: int, rows: int, finish: int = 3, series: bool = False
    ) -> tuple[Rung, ...]:
        """Return the rungs, of which `finish` candidates at least reach the last; without racing all of them do.

        Of some hundred rows of a series two thirds show as well as all of them who is promising. A sample says little
        about what is left when most is explained: those not far behind on it run a few steps on all rows. In a large
        level on many rows hundreds are level there, each with a part more that is of no use: only the first of them are
        promoted.
        """
        many, large = rows > self.many_rows, candidates > self.large_level
        sample = self.sample if many else None
        if many and series:
            sample = max(self.sample, min(rows // 2, self.largest_sample))
        part = 2 * rows // 3 if series and self.sample <= rows <= self.many_rows else sample
        same = part == sample  # the rows of the second rung
        first: tuple[Rung, ...] = (
            Rung(1, ALL_STARTS, math.inf, 0, part),
            Rung(self.first_steps - 1, ALL_STARTS, math.inf, 10, part, close=self.close_at_first),
        )
        if large:
            starts = self.grown_starts if many else ALL_STARTS
            first = (
                Rung(self.first_steps, starts, math.inf, 0, self.small_sample if many else None),
                Rung(self.first_steps, 3, 150.0, self.large_level // 4, sample),
            )
        rungs = (
            *first,
            Rung(2, 2, 40.0, 6, sample, None, self.starts_margin, self.close if same else self.close_on_sample),
            Rung(3, 2, 30.0, 6, sample, None, self.starts_margin, self.close),
            *((Rung(3, 1, 30.0, 6, close=self.close_on_sample),) if many else ()),
            Rung(10, 1, 8.0, finish + 1),  # a promise of next to nothing was wrong by 8 on wages: the margin decides
            Rung(max_iterations, 1, 4.0, finish),
        )
        if self.is_large(candidates, rows):
            half, some, few = self.large_level // 2, self.large_level // 4, self.large_level // 15
            slots = (None, half, some, some, few, None, None)
            rungs = tuple(replace(rung, at_most=most) for rung, most in zip(rungs, slots, strict=True))
        return rungs if race else tuple(rung.without_limits() for rung in rungs)

    def rungs_of_few(self, max_iterations: int) -> tuple[Rung, ...]:
        """Return the rungs of kernels of which none is left behind: all starts go a little way, the best to the end."""
        return Rung(6, ALL_STARTS, math.inf, 0), Rung(max_iterations, 2, math.inf, 0)

    def rungs_of_simpler(self, max_iterations: int) -> tuple[Rung, ...]:
        """Return the rungs of kernels with a part less than one that was fitted, each from its optimum."""
        return Rung(4, 1, math.inf, 0), Rung(max_iterations, 1, 4.0, 2)

    def draw(self, data: Data, count: int, seed: int) -> Data:
        """Return a sample of the rows, in their order, where there are many; all of them otherwise.

        Of a series half are drawn at random, which shows what is slow, and half are stretches of neighbouring rows,
        which show what is fast: of one row in seven hardly two lie within a week.
        """
        if data.count <= count:
            return data
        return draw_some(data, count, seed) if data.X.shape[1] > 1 else self._draw_stretches(data, count, seed)

    def _draw_stretches(self, data: Data, count: int, seed: int) -> Data:
        rng = np.random.default_rng(seed)
        order = np.argsort(data.X[:, 0], kind="stable")
        chosen = np.zeros(data.count, dtype=bool)
        length = count // (2 * self.stretches)
        for part in np.array_split(np.arange(data.count), self.stretches):  # one in each part of the series
            first = part[0] + rng.integers(0, max(1, len(part) - length + 1))
            chosen[first : first + length] = True
        rest = np.flatnonzero(~chosen)
        chosen[rng.choice(rest, count - int(chosen.sum()), replace=False)] = True
        return data.take(np.sort(order[chosen]))


def promote(scores: Sequence[float], rung: Rung, hopes: Sequence[float] = ()) -> list[int]:
    """Return who runs the rung, given the scores so far (smaller is better) and what each may still gain.

    After a few steps the winner may be far behind, and then its next step promises much: on four series with 27 levels
    it was never more than 4 behind beyond that. Others as far behind, which promise nothing, are at their end.
    """
    order = np.argsort(scores, kind="stable")
    if not len(order):
        return []
    margins = np.minimum(rung.margin, rung.close + np.array(hopes or [math.inf] * len(order)))
    limits = scores[order[0]] + margins
    near = [int(i) for rank, i in enumerate(order) if rank < rung.at_least or scores[i] <= limits[i]]
    return sorted(near[: rung.at_most])


# ------------------------------------------------------------------------------------------------------ one candidate


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
    afresh: bool = True  # some starts have nothing of the parent's optimum


def seed_for(seed: int, key: str) -> int:
    """Return a seed that depends on the candidate and not on when or where it is fitted."""
    return (seed * 1_000_003 + zlib.crc32(key.encode())) % 2**31


def advance(
    task: Task, attempt: Attempt | None, data: Data, engine: Engine, iterations: int, keep: int, last: bool,
    batch: Batch | None = None,
) -> Attempt:  # fmt: skip
    """Begin a candidate (attempt None) with `keep` starts or carry its `keep` best on; conclude it if `last`."""
    started = time.perf_counter()
    with one_thread():
        problem = prepare(task.expression, data, engine, task.options, task.peaks)
        if attempt is None:
            points, afresh, screened = _starting_points(problem, task, keep, batch)
            runs = descend(problem, [*points, *afresh], iterations, batch, task.options.until)
            runs[len(points) :] = [replace(run, afresh=True) for run in runs[len(points) :]]
        else:
            screened = attempt.screened
            runs = _continue(problem, attempt.runs[:keep], iterations, batch, task.options.until, anew=last)
        runs = rank(runs)
        fit = problem.conclude(runs, runs[0].point, screened) if last else None
    earlier = attempt.seconds if attempt is not None else 0.0
    return Attempt(tuple(runs), screened, earlier + time.perf_counter() - started, fit)


def rank(runs: Sequence[Run]) -> list[Run]:
    """Return the best first; then the best of the other kind, begun afresh or not; then the others.

    What begins at the parent's optimum leads at first, and after a few steps the two best are mostly of this kind. What
    begins afresh needs longer and may come to a better end.
    """
    best = sorted(runs, key=lambda run: run.value)
    first = [next(run for run in best if run.afresh == kind) for kind in {run.afresh for run in best}]
    first.sort(key=lambda run: run.value)
    return [*first, *(run for run in best if not any(run is leader for leader in first))]


def _starting_points(
    problem: Problem, task: Task, most: int, batch: Batch | None
) -> tuple[list[Array], list[Array], int]:
    """Half of the starts keep the parent's optimum and draw the new part; the others draw everything afresh.

    A parent fitted without the new part may have bent itself to do that part's work (a short lengthscale in place of a
    period), and its optimum is then a bad place to start. Where no more starts than those at the parent's optimum are
    wanted, they are all; so they are where the task says so, of a kernel of many parts.
    """
    if task.noise is None:
        points, screened = starting_points(problem, task.options, batch=batch)
        return points, [], screened
    half = replace(task.options, restarts=(task.options.restarts + 1) // 2)
    points, screened = starting_points(problem, half, task.noise, not task.replaced, batch)
    if most <= half.restarts or not task.afresh:
        return points[:most], [], screened
    starts = Starts(structure(task.expression), problem.layout, problem.data, task.own_peaks)
    afresh = replace(problem, starts=starts)
    wanted = task.options.restarts - half.restarts
    others = replace(task.options, restarts=max(2, wanted))
    more, also_screened = starting_points(afresh, others, batch=batch)
    if wanted == 1 and len(more) > 1:  # the typical one, or the best that was drawn
        more = [more[int(np.argmax(screen(afresh, more, batch, task.options.until)))]]
    return points, more[:wanted], screened + also_screened


def _continue(
    problem: Problem, runs: Sequence[Run], iterations: int, batch: Batch | None, until: float | None, anew: bool
) -> list[Run]:
    """Carry on the runs that are not at their end with what they know; one on other rows begins anew where it stands.

    All of them do where they are to begin `anew`: towards the end a curvature that was measured counts for most.
    Where time ends before all of them are on these rows, those that are count: values on other rows say nothing here.
    """
    result, rows = list(runs), problem.data.count
    going = [i for i, run in enumerate(runs) if not (run.converged and run.rows == rows)]
    memories = [runs[i].memory if runs[i].rows == rows and not anew else None for i in going]
    later_runs = descend(problem, [runs[i].point for i in going], iterations, batch, until, memories=memories)
    for i, later in zip(going, later_runs, strict=False):  # fewer where time ended
        result[i] = replace(later, evaluations=runs[i].evaluations + later.evaluations, afresh=runs[i].afresh)
    return [run for run in result if run.rows == rows]


def time_evaluation(kernel: Expression, data: Data, engine: Engine, most_rows: int) -> float:
    """Return about how many seconds the evidence of all rows and its gradient take, from some of the rows.

    Exact inference grows with the cube of the rows.
    """
    some = draw_some(data, most_rows, 0)
    problem = prepare(kernel, some, engine, FitOptions())
    point = problem.point(problem.starts.draw(None), Gaussian(0.1))
    with one_thread():
        problem.loss(point)  # the first takes memory, and may compile
        started = time.perf_counter()
        problem.loss(point)
        seconds = time.perf_counter() - started
    return float(seconds * (data.count / some.count) ** 3)
