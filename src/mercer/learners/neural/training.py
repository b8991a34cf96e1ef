"""Train one network from several starts: all run for a while, the promising ones to the end.

A start depends on the seed and its number alone, and every lap of it runs on one BLAS thread: the result is the same
whatever the number of jobs. On a device all starts of a lap are one batch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from mercer.errors import NumericalError
from mercer.fitting.adam import adam
from mercer.fitting.clock import Progress, Report
from mercer.fitting.optimise import FAILED_VALUE, Fit, FitOptions, Problem, Run, concluded, optimise, prepare
from mercer.fitting.periodogram import periods
from mercer.inference.contract import Data, Engine
from mercer.kernels.domains import Array
from mercer.kernels.network import Network
from mercer.learners.contract import Candidate, Stopped
from mercer.learners.neural.starts import first_point
from mercer.learners.parallel import in_parallel
from mercer.linalg.threads import one_thread

PEAKS = 6
MANY = 500  # rows: with more, the first lap runs on a sample
SAMPLE = 400
FIRST_LAP = 40  # iterations
GO_ON = (0.5, 0.375)  # share of the starts that go on to the end; with many rows, where each costs more


@dataclass(frozen=True)
class Plan:
    """How to train: the settings of `NeuralKernelNetwork` that the loop needs."""

    restarts: int
    selection: Literal["loo", "evidence"]
    rate: float | None  # of Adam; None: L-BFGS
    priors: bool
    max_iterations: int
    n_jobs: int
    seed: int
    device: str = "cpu"
    noise: float | None = None  # a known variance (scaled); None: it is fitted


@dataclass(frozen=True, eq=False)
class Task:
    """What training from any start needs, here or in a worker."""

    network: Network
    engine: Engine
    peaks: dict[int, Array]
    plan: Plan

    def problem(self, data: Data) -> Problem:
        """Set up the fit to some rows."""
        options = FitOptions(priors=self.plan.priors, noise=self.plan.noise, tolerance=1e-9)
        return prepare(self.network, data, self.engine, options, self.peaks)


@dataclass(frozen=True, eq=False)
class State:
    """Where a start is."""

    run: Run
    fit: Fit
    seconds: float


@dataclass(frozen=True)
class Lap:
    """How far the starts run, how many of them, and on which rows."""

    iterations: int
    starts: int
    sample: bool = False


def laps(plan: Plan, rows: int) -> tuple[Lap, ...]:
    """Return the laps; Adam and a single start have one."""
    if plan.rate is not None or plan.restarts == 1 or plan.max_iterations <= FIRST_LAP:
        return (Lap(plan.max_iterations, plan.restarts),)
    many = rows > MANY
    last = max(1, round(GO_ON[many] * plan.restarts))
    return Lap(FIRST_LAP, plan.restarts, sample=many), Lap(plan.max_iterations, last)


@dataclass
class Training:
    """One training; `run` leaves the states of all starts that came anywhere in `states`."""

    plan: Plan
    network: Network
    data: Data
    engine: Engine
    columns: list[int]
    report: Report | None
    states: dict[int, State] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    stopped: Stopped = ""
    started: float = field(default_factory=time.perf_counter)

    def run(self) -> None:
        """Train until all starts that may go on are at their end, or until told to stop."""
        course = laps(self.plan, self.data.count)
        running = list(range(self.plan.restarts))
        try:
            for number, lap in enumerate(course):
                order = sorted(running, key=lambda i: (self._value(i), i))
                running = sorted(order[: lap.starts])
                data = self.sampled if lap.sample else self.data
                self.finished = set()
                for done, (i, state) in enumerate(self._advanced(running, data, lap.iterations), 1):
                    self.states[i] = state
                    if number == len(course) - 1:
                        self.finished.add(i)
                    self._tell(number, done, len(running))
        except KeyboardInterrupt:
            if not self.states:  # there is no best so far to return
                raise
            self.stopped = "request"
            self.notes.append("the training was stopped on request; this is the best network found until then")
        if not any(state.fit.status != "failed" for state in self.states.values()):
            reasons = "; ".join(sorted({state.fit.message for state in self.states.values()}))
            raise NumericalError(f"no start of the network could be fitted: {reasons}; try other primitives")

    def _value(self, number: int) -> float:
        """What was minimised, for each row."""
        state = self.states.get(number)
        return 0.0 if state is None else state.run.value / state.run.rows

    @property
    def task(self) -> Task:
        """What every start needs."""
        return Task(self.network, self.engine, self.peaks, self.plan)

    @cached_property
    def peaks(self) -> dict[int, Array]:
        """Periods of the target, by column."""
        if not any("period" in [p.name for p in leaf.spec.parameters] for leaf in self.network.leaves()):
            return {}
        found = {column: periods(self.data.X[:, column], self.data.y, PEAKS) for column in self.columns}
        return {column: peaks for column, peaks in found.items() if len(peaks)}

    @cached_property
    def sampled(self) -> Data:
        """The rows of the first lap, where there are many: it only has to tell which starts are promising."""
        rng = np.random.default_rng([self.plan.seed, 1])
        return self.data.take(np.sort(rng.choice(self.data.count, SAMPLE, replace=False)))

    def _advanced(self, running: list[int], data: Data, iterations: int) -> Iterator[tuple[int, State]]:
        if self.plan.device != "cpu":
            return self._in_one_batch(running, data, iterations)
        work = {i: (self.task, i, self.states.get(i), data, iterations) for i in running}
        return in_parallel(advance, work, self.plan.n_jobs)

    def _in_one_batch(self, running: list[int], data: Data, iterations: int) -> Iterator[tuple[int, State]]:
        from mercer.fitting.level import OnDevice, on_device  # it loads PyTorch

        def job(by: OnDevice) -> list[State]:
            return advance_all(self.task, running, self.states, data, iterations, by)

        for _, reached in on_device({0: job}, data, self.plan.device):
            yield from zip(running, reached, strict=True)

    # ---------------------------------------------------------------------------------------------- bookkeeping

    def score(self, fit: Fit) -> float:
        """Minus twice the leave-one-out score or the log evidence: smaller is better."""
        if fit.status == "failed":
            return math.inf
        return -2.0 * (fit.leave_one_out if self.plan.selection == "loo" else fit.log_evidence)

    def ranked(self) -> list[Fit]:
        """Return the fits of the starts that came to their end (of the best, where none did), best first."""
        ended = [self.states[i].fit for i in sorted(self.finished)]
        usable = sorted((fit for fit in ended if fit.status != "failed"), key=self.score)
        if usable:
            return usable
        best = self.states[min(self.states, key=lambda i: (self._value(i), i))]
        with one_thread():  # it may have seen only a sample of the rows until now
            return [concluded(self.task.problem(self.data), [best.run], best.run.point, 0)]

    def candidates(self) -> tuple[Candidate, ...]:
        """Return one row for each start."""
        return tuple(self._candidate(i, state) for i, state in sorted(self.states.items()))

    def _candidate(self, number: int, state: State) -> Candidate:
        fit, score = state.fit, self.score(state.fit)
        status, message, evidence = str(fit.status), fit.message, fit.log_evidence
        if number not in self.finished and status != "failed":
            status, message = "raced out", "left behind: other starts were more promising"
            if self.stopped:
                status, message = "interrupted", "stopped on request before it was at its end"
        if state.run.rows < self.data.count:  # a score of some rows cannot be compared with those of all
            score, evidence = math.inf, evidence * self.data.count / state.run.rows
        return Candidate(
            fit.expression, 0, f"start {number + 1}", None, evidence, fit.parameters, score, status, message,
            state.seconds, fit,
        )  # fmt: skip

    def _tell(self, lap: int, done: int, total: int) -> None:
        if self.report is None:
            return
        rows = max(state.run.rows for state in self.states.values())
        best = min((state.fit for state in self.states.values() if state.run.rows == rows), key=self.score)
        elapsed = time.perf_counter() - self.started
        self.report(Progress(done, total, "starts", best.expression, self.score(best), elapsed, rung=lap))


def advance(task: Task, number: int, state: State | None, data: Data, iterations: int) -> State:
    """Draw a start (state None), or take up where it stood, and go on by some iterations."""
    started = time.perf_counter()
    with one_thread():
        problem = task.problem(data)
        point = _first(task, problem, number) if state is None else state.run.point
        rate = task.plan.rate
        run = optimise(problem, point, iterations) if rate is None else adam(problem, [point], iterations, rate)[0]
        return _reached(problem, run, state, time.perf_counter() - started)


def advance_all(
    task: Task, numbers: list[int], states: dict[int, State], data: Data, iterations: int, by: Any
) -> list[State]:
    """Do as `advance` for several starts at once; `by` is a `mercer.fitting.level.OnDevice`."""
    started = time.perf_counter()
    problem = task.problem(data)
    points = [states[i].run.point if i in states else _first(task, problem, i, by.screen) for i in numbers]
    rate = task.plan.rate
    if rate is None:
        runs = by.descend(problem, points, iterations)
    else:
        runs = adam(problem, points, iterations, rate, lambda free: by.losses(problem, free))
    share = (time.perf_counter() - started) / len(numbers)  # they all waited for each other
    return [_reached(problem, run, states.get(i), share) for i, run in zip(numbers, runs, strict=True)]


def _first(
    task: Task, problem: Problem, number: int, screen: Callable[[Problem, list[Array]], Any] | None = None
) -> Array:
    return first_point(problem, number, np.random.default_rng([task.plan.seed, 2, number]), screen)


def _reached(problem: Problem, run: Run, before: State | None, seconds: float) -> State:
    if before is not None:
        run = replace(run, evaluations=run.evaluations + before.run.evaluations)
        seconds += before.seconds
    fit = concluded(problem, [run] if run.value < FAILED_VALUE else [], run.point, 0)
    return State(run, fit, seconds)
