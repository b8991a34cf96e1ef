"""The one L-BFGS-B: from one start or several, on the CPU or in batches on a device, along trails of earlier runs.

The same seed gives the same result whatever the number of jobs: every start is drawn before any is run, each is
optimised on its own, and ties are broken by the order of the starts.

On a device each structure keeps its own L-BFGS-B (BoTorch's batched port of SciPy's), so that a run takes the steps
that it would take alone on the CPU; what all starts of all structures need next is evaluated together.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from queue import Queue, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import numpy as np

from mercer.compute.backend import NUMBA, Backend
from mercer.errors import InputError
from mercer.fitting.problem import FAILED_VALUE, Evaluations, Fit, FitOptions, Problem, Run, Trail, prepare
from mercer.fitting.starts import LearnedPrior, noise_start
from mercer.inference.contract import Data, Engine, Evidence
from mercer.inference.likelihood import Gaussian
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.linalg.threads import one_thread

if TYPE_CHECKING:
    from mercer.inference.batches import Candidates

ONE_THREAD_BELOW = 1000  # rows of a fit: below, a second BLAS thread gains little and on a busy machine loses much
CORRECTIONS = 20  # steps that L-BFGS-B remembers
FLAT = 1e-4  # a run ends where no slope of the objective is steeper
Work = dict[int, tuple[Any, ...]]  # the arguments of a function for each of many calls
Question = TypeVar("Question")
Answer = TypeVar("Answer")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Progress:
    """How far a fit or a search is."""

    done: int
    total: int
    counted: Literal["kernels", "starts", "steps"]  # what `done` and `total` count
    best: Expression | None = None  # the best kernel so far, in scaled units
    score: float = math.inf  # of the best so far: smaller is better
    seconds: float = 0.0
    seconds_left: float | None = None  # of the time budget; None: there is none
    depth: int = 0  # steps of a search from a base kernel
    rung: int = 0  # of a race
    announcement: str = ""  # what is about to be done, in words, where that was chosen
    noise: float | None = None  # variance beside the best so far, in scaled units; None: not known


Report = Callable[[Progress], None]


class OutOfTimeError(Exception):
    """The time budget is spent: the search that set it returns the best so far."""


@dataclass(frozen=True)
class Clock:
    """Measures time from when it was made, against a budget if there is one."""

    budget: float | None = None  # seconds
    started: float = field(default_factory=time.perf_counter)
    reserve: float = 0.0  # seconds at the end of the budget that are kept for what comes after

    @property
    def seconds(self) -> float:
        """The time since the start."""
        return time.perf_counter() - self.started

    @property
    def seconds_left(self) -> float | None:
        """What is left of the budget, less what is kept."""
        return None if self.budget is None else max(0.0, self.budget - self.reserve - self.seconds)

    @property
    def until(self) -> float | None:
        """When the budget, less what is kept, will be spent, by `time.time()`: other processes know that clock too."""
        left = self.seconds_left
        return None if left is None else time.time() + left

    def check(self) -> None:
        """Raise `OutOfTimeError` once the budget, less what is kept, is spent."""
        if self.budget is not None and self.seconds > self.budget - self.reserve:
            raise OutOfTimeError


class Minimisable(Protocol):
    """What is minimised: `Problem`, or one with more numbers.

    `bounds`: low and high of every number, infinite where there is none; `tolerance`: what share a step must gain.
    """

    @property
    def bounds(self) -> Array: ...
    @property
    def tolerance(self) -> float: ...
    @property
    def data(self) -> Data: ...
    def loss(self, point: Array, record: Evaluations | None = None) -> tuple[float, Array]:
        """Return the value at a point and its gradient."""


def minimise(
    problem: Minimisable, points: Sequence[Array], iterations: int,
    records: Sequence[Evaluations] = (), batch: Batch | None = None, until: float | None = None,
) -> list[Run]:  # fmt: skip
    """Run L-BFGS-B from every point, by this many iterations in all; a record of a run spares what it has evaluated.

    Once it is `until` (by `time.time()`), the run at hand ends at the best point that it has seen, and no other begins:
    of several points the first has a run in any case.
    """
    rows, records = problem.data.count, records or [Evaluations() for _ in points]
    for point in points:
        if len(point) != len(problem.bounds):
            raise InputError(f"a start has {len(problem.bounds)} free parameters here, not {len(point)}")
    if not len(problem.bounds):
        return [Run(point, problem.loss(point)[0], "nothing to fit", True, 1, rows) for point in points]
    if batch is not None:
        assert isinstance(problem, Problem)
        return batch.minimise(problem, points, iterations, records, until)
    from scipy.optimize import minimize

    limits = {"maxiter": iterations, "maxcor": CORRECTIONS, "ftol": problem.tolerance, "gtol": FLAT}
    runs: list[Run] = []
    for point, record in zip(points, records, strict=True):
        if runs and is_past(until):
            break
        watch = _Deadline(problem, until)
        try:
            result = minimize(
                problem.loss if until is None else watch.loss, point, args=(record,), jac=True, method="L-BFGS-B",
                bounds=problem.bounds, callback=record.after_step, options=limits,
            )  # fmt: skip
        except OutOfTimeError:
            runs.append(watch.end(record))
            break
        runs.append(_end(np.asarray(result.x), float(result.fun), result, record, rows))
    return runs


def is_past(until: float | None) -> bool:
    """Tell whether it is later than that, by `time.time()`."""
    return until is not None and time.time() >= until


class _Deadline:
    """Evaluates a problem until the time is spent, and remembers the best point; one evaluation comes in any case."""

    def __init__(self, problem: Minimisable, until: float | None) -> None:
        self.problem, self.until = problem, until
        self.point, self.value, self.count = np.empty(0), math.inf, 0

    def loss(self, point: Array, record: Evaluations) -> tuple[float, Array]:
        if self.count and is_past(self.until):
            raise OutOfTimeError
        value, slope = self.problem.loss(point, record)
        self.count += 1
        if value < self.value or not len(self.point):
            self.point, self.value = point.copy(), value
        return value, slope

    def end(self, record: Evaluations) -> Run:
        """Return where the run stands; an earlier one of the same trail may have come further than it was followed."""
        point, value, trail = self.point, self.value, record.trail()
        if trail is not None and trail.best[1] < value:
            point, value = trail.best
        return cut_off(point, value, self.count, self.problem.data.count, trail)


def cut_off(point: Array, value: float, evaluations: int, rows: int, trail: Trail | None) -> Run:
    """Return a run that the end of the time ended."""
    value = min(value, FAILED_VALUE)
    return Run(point, value, "the time was spent", False, evaluations, rows, trail=trail, out_of_time=True)


def minimise_scaled(
    problem: Problem, point: Array, scale: Array, iterations: int, tolerance: float | None = None
) -> Run:
    """Run L-BFGS-B from a point with every number in units of its scale: alike in size, they take fewer steps."""
    scaled = _Scaled(problem, scale, problem.tolerance if tolerance is None else tolerance)
    run = minimise(scaled, [point / scale], iterations)[0]
    return replace(run, point=problem.clip(run.point * scale), trail=None)


@dataclass(frozen=True, eq=False)
class _Scaled:
    """A problem with every number in units of its scale."""

    problem: Problem
    scale: Array
    tolerance: float

    @property
    def bounds(self) -> Array:
        return self.problem.bounds / self.scale[:, None]

    @property
    def data(self) -> Data:
        return self.problem.data

    def loss(self, point: Array, record: Evaluations | None = None) -> tuple[float, Array]:
        value, gradient = self.problem.loss(point * self.scale)
        return value, gradient * self.scale


def _end(point: Array, value: float, result: Any, record: Evaluations, rows: int) -> Run:
    # scipy reports an abnormal line search where no progress is possible at machine precision: good enough if it moved
    converged = bool(result.success) or "ABNORMAL" in str(result.message)
    return Run(point, value, str(result.message), converged, int(result.nfev), rows, trail=record.trail())


def screen(
    problem: Problem, points: Sequence[Array], batch: Batch | None = None, until: float | None = None
) -> list[float]:
    """Return the log evidence at every point; of those that there was no time for, minus infinity."""
    if batch is not None:
        return [evidence.value for evidence in batch.evidence(problem, points, gradient=False)[2]]
    found: list[float] = []
    for point in points:
        if is_past(until):
            return [*found, *[-math.inf] * (len(points) - len(found))]
        values, likelihood = problem.split(point)
        found.append(problem.engine.evidence(problem.program, values, likelihood, problem.data, False).value)
    return found


def starting_points(
    problem: Problem, options: FitOptions, noise: float | None = None, neutral: bool = True, batch: Batch | None = None
) -> tuple[list[Array], int]:
    """Draw many starts, keep the typical one and the best of the others by evidence; also return how many were tried.

    The first draws try one period after the other with everything else typical, so that none is missed by chance.

    `noise` is the noise variance of a kernel that this one grew from: the first start is then the one nearest to it,
    unless `neutral` is False.
    """
    rng, starts = np.random.default_rng(options.seed), problem.starts
    usual = Gaussian(noise_start(None) if noise is None else noise)
    first = problem.point(starts.neutral() if noise is not None and neutral else starts.draw(None), usual)
    wanted = max(1, options.restarts) - 1
    if wanted == 0 or (starts.complete and problem.noise is not None):
        return [first], 0
    drawn = []
    for turn in range(starts.turns):
        drawn.append(problem.point(starts.draw(None, turn=turn), usual))
    for _ in range(max(wanted * options.draws - len(drawn), wanted * options.draws // 2)):
        values = starts.draw(rng)
        drawn.append(problem.point(values, Gaussian(noise_start(rng)) if noise is None else usual))
    if isinstance(options.priors, LearnedPrior):  # what was learned of the parts that have no values yet
        drawn.insert(0, _at_centre(problem, first))
    drawn = [p for p in drawn if not np.array_equal(p, first)]
    if not drawn:
        return [first], 0
    found = np.array(screen(problem, drawn, batch, options.until))
    if problem.prior is not None:
        found += [problem.prior.log_density(point)[0] for point in drawn]
    order = np.argsort(-found, kind="stable")
    return [first, *(drawn[i] for i in order[:wanted])], len(drawn)


def _at_centre(problem: Problem, first: Array) -> Array:
    """Return a start with all numbers that are not given at the centre of their prior."""
    assert problem.prior is not None
    unset = np.isnan(problem.layout.to_free(problem.starts.known))
    unset = np.append(unset, [False] * (len(first) - len(unset)))  # the noise is that of the other starts
    known = np.isfinite(problem.prior.spread)
    return problem.clip(np.where(unset & known, problem.prior.centre, first))


def fit(
    expression: Expression, data: Data, engine: Engine, options: FitOptions,
    progress: Report | None = None, backend: Backend = NUMBA,
) -> Fit:  # fmt: skip
    """Fit a bound expression (scaled units); values given in it are where every start begins.

    A back end with batches fits all starts at once. Ctrl-C keeps what is finished.
    """
    if backend.batches:
        return _fit_as_batch(prepare(expression, data, engine, options), options, progress, backend)
    with one_thread(when=data.count < ONE_THREAD_BELOW):
        problem = prepare(expression, data, engine, options)
        points, screened = starting_points(problem, options)
        more: tuple[Any, ...] = (options.max_iterations, (), None, options.until)
        work: Work = {number: (problem, [point], *more) for number, point in enumerate(points)}
        found: dict[int, Run] = {}
        clock, interrupted = Clock(), False
        try:
            # Threads: the work is in compiled code that releases Python's lock.
            for number, (run,) in run_parallel(minimise, work, options.n_jobs or 1, prefer="threads"):
                found[number] = run
                if progress is not None:
                    score = 2.0 * min(each.value for each in found.values())
                    progress(Progress(len(found), len(points), "starts", score=score, seconds=clock.seconds))
                if is_past(options.until):
                    break
        except KeyboardInterrupt:
            interrupted = True
        return problem.conclude([found[i] for i in sorted(found)], points[0], screened, interrupted)


def _fit_as_batch(problem: Problem, options: FitOptions, progress: Report | None, backend: Backend) -> Fit:
    """Fit all starts at once. They end together: Ctrl-C keeps the best point that any of them has seen."""
    clock, records, rounds = Clock(), list[Evaluations](), 0
    points, screened, most = list[Array](), 0, options.max_iterations

    def fit_all(batch: Batch) -> list[Run]:
        nonlocal points, screened
        points, screened = starting_points(problem, options, batch=batch)
        records.extend(Evaluations() for _ in points)
        return minimise(problem, points, most, records, batch)

    def trails() -> list[Trail]:
        return [trail for record in records if (trail := record.trail()) is not None]

    def report() -> None:
        nonlocal rounds
        if progress is not None and (seen := trails()):
            rounds += 1
            score = 2.0 * min(trail.best[1] for trail in seen)
            progress(Progress(min(rounds, most), most, "steps", score=score, seconds=clock.seconds))

    try:
        runs, interrupted = next(run_batched({0: fit_all}, problem.data, backend, report=report))[1], False
    except KeyboardInterrupt:
        rows, interrupted = problem.data.count, True
        runs = [Run(*trail.best, "interrupted", False, len(trail.values), rows) for trail in trails()]
        if not runs:
            raise
    return problem.conclude(runs, points[0], screened, interrupted)


def adam(
    problem: Problem, points: Sequence[Array], steps: int, rate: float, batch: Batch | None = None,
    until: float | None = None,
) -> list[Run]:  # fmt: skip
    """Take this many steps of Adam (Kingma & Ba 2015) from every point; each returns where it was lowest.

    The optimiser of the NKN paper, for comparison: plain gradient steps of about one size each, thousands where a
    quasi-Newton method needs a hundred. The bounds of the search hold here too. Once it is `until` they end.
    """
    keep_mean, keep_square, small = 0.9, 0.999, 1e-8
    here = np.stack(points).astype(float)
    lowest, best = np.full(len(here), np.inf), here.copy()
    mean, square = np.zeros_like(here), np.zeros_like(here)
    for step in range(1, steps + 1):
        found = [problem.loss(point) for point in here] if batch is None else batch.losses(problem, here)
        values, slopes = np.array([value for value, _ in found]), np.stack([slope for _, slope in found])
        better = values < lowest
        lowest[better], best[better] = values[better], here[better]
        mean = keep_mean * mean + (1 - keep_mean) * slopes
        square = keep_square * square + (1 - keep_square) * slopes**2
        direction = mean / (1 - keep_mean**step) / (np.sqrt(square / (1 - keep_square**step)) + small)
        here = np.clip(here - rate * direction, problem.bounds[:, 0], problem.bounds[:, 1])
        if is_past(until):
            break
    rows, cut, said = problem.data.count, step < steps, f"{step} steps of Adam"
    return [
        Run(point, min(float(value), FAILED_VALUE), said, False, step, rows, out_of_time=cut)
        for point, value in zip(best, lowest, strict=True)
    ]


# ------------------------------------------------------------------------------------------------- several at a time


def run_parallel(
    function: Callable[..., Any], work: Work, jobs: int, ordered: bool = False, prefer: str | None = None
) -> Iterator[tuple[int, Any]]:
    """Yield (number, function(*arguments)) for all the work, in any order unless it is to be `ordered`.

    More than one job goes through joblib, whose registered back ends (Dask, Ray) reach other machines; without one, in
    processes, or in threads where joblib is to `prefer` them.
    """
    if jobs == 1 or len(work) < 2:
        for number, arguments in work.items():
            yield number, function(*arguments)
        return
    from joblib import Parallel, delayed
    from joblib.parallel import get_active_backend

    backend, _ = get_active_backend(prefer=prefer)
    kind = "generator" if ordered else "generator_unordered"
    pool = Parallel(n_jobs=jobs, prefer=prefer, return_as=kind if backend.supports_return_generator else "list")
    results = pool(delayed(_call)(function, number, arguments) for number, arguments in work.items())
    try:
        for result in results:  # noqa: UP028 (yield from would close it outside of what follows)
            yield result
    finally:
        if not isinstance(results, list):
            with warnings.catch_warnings():  # to stop early, for lack of time, leaves work undone on purpose
                warnings.filterwarnings("ignore", message=".* still being processed by the workers")
                results.close()


def _call(function: Callable[..., Any], number: int, arguments: tuple[Any, ...]) -> tuple[int, Any]:
    return number, function(*arguments)


# ------------------------------------------------------------------------------------------------------------ batches


@dataclass(frozen=True)
class Batch:
    """Evaluates the points of one problem together with those of all others that run at the same time."""

    ask: Callable[[tuple[Candidates, bool]], list[Evidence]]

    def evidence(
        self, problem: Problem, points: Sequence[Array] | Array, gradient: bool
    ) -> tuple[list[Array], list[float], list[Evidence]]:
        """Return the values, the noise variances and the evidence at every point."""
        from mercer.inference.batches import Candidates  # it loads PyTorch

        split = [problem.split(point) for point in points]
        values, noise = [values for values, _ in split], [likelihood.noise for _, likelihood in split]
        return values, noise, self.ask((Candidates(problem.program, np.stack(values), np.array(noise)), gradient))

    def losses(self, problem: Problem, points: Sequence[Array] | Array) -> list[tuple[float, Array]]:
        """Return what is minimised, and its slope, at every point."""
        found = zip(points, *self.evidence(problem, points, gradient=True), strict=True)
        return [problem.grade(*each) for each in found]

    def minimise(
        self, problem: Problem, points: Sequence[Array], iterations: int, records: Sequence[Evaluations],
        until: float | None = None,
    ) -> list[Run]:  # fmt: skip
        """Run L-BFGS-B from every point, as `minimise` does from each; they end together where the time does."""
        if not points:
            return []

        def losses(free: Array, batch_indices: list[int]) -> tuple[Array, Array]:
            found = [records[i].find(point) for i, point in zip(batch_indices, free, strict=True)]
            new = [k for k, known in enumerate(found) if known is None]
            if new:
                if is_past(until) and all(record.trail() is not None for record in records):
                    raise OutOfTimeError
                for k, (value, slope) in zip(new, self.losses(problem, free[new]), strict=True):
                    found[k] = records[batch_indices[k]].note(free[k], float(value), slope)
            values, slopes = zip(*(known for known in found if known is not None), strict=True)
            return np.array(values), np.stack(slopes)

        try:
            _, _, results = batched_optimiser()(
                losses, np.stack(points), bounds=[(float(low), float(high)) for low, high in problem.bounds],
                maxcor=CORRECTIONS, factr=None, ftol=problem.tolerance, pgtol=FLAT, maxiter=iterations,
                pass_batch_indices=True,
            )  # fmt: skip
        except OutOfTimeError:
            trails = [trail for record in records if (trail := record.trail()) is not None]
            return [cut_off(*trail.best, len(trail.values), problem.data.count, trail) for trail in trails]
        runs = []
        for record, result in zip(records, results, strict=True):
            trail = record.trail()
            assert trail is not None
            # Not result.x and result.fun: after a line search that failed these two need not belong together.
            runs.append(_end(*trail.best, result, record, problem.data.count))
        return runs


def batched_optimiser() -> Callable[..., Any]:
    """Return BoTorch's L-BFGS-B for many starts, or say that it is missing."""
    try:
        from botorch.optim.batched_lbfgs_b import fmin_l_bfgs_b_batched
    except ImportError as error:
        raise InputError(
            f'fitting all starts at once needs BoTorch 0.16 or later ({error}): pip install "botorch>=0.16"'
        ) from None
    found: Callable[..., Any] = fmin_l_bfgs_b_batched
    return found


def run_batched(
    jobs: Mapping[int, Callable[[Batch], Result]], data: Data, backend: Backend, memory: int | None = None,
    report: Callable[[], None] | None = None,
) -> Iterator[tuple[int, Result]]:  # fmt: skip
    """Run jobs that fit structures to the same data by a `Batch`; yield (number, result) as they end.

    `report` is called, here, before each evaluation of a batch, while all jobs wait.
    """
    from mercer.compute.accelerator import torch_backend  # it loads PyTorch
    from mercer.inference.batches import LevelEvidence

    evaluate = LevelEvidence(data, torch_backend(backend), memory)
    batched_optimiser()  # missing: say so before anything starts

    def answer(questions: list[tuple[Candidates, bool]]) -> list[list[Evidence]]:
        found: dict[int, list[Evidence]] = {}
        if report is not None:
            report()
        for gradient in (False, True):
            asked = [i for i, question in enumerate(questions) if question[1] == gradient]
            if asked:
                found.update(zip(asked, evaluate([questions[i][0] for i in asked], gradient), strict=True))
        return [found[i] for i in range(len(questions))]

    def start(number: int, ask: Callable[[Any], Any]) -> Result:
        return jobs[number](Batch(ask))

    return run_together({number: partial(start, number) for number in jobs}, answer)


class _StopError(Exception):
    """Nobody will answer any more; internal to this file."""


@dataclass(frozen=True)
class _End:
    result: Any = None
    error: BaseException | None = None


def run_together(
    jobs: Mapping[int, Callable[[Callable[[Question], Answer]], Result]],
    answer: Callable[[list[Question]], list[Answer]],
) -> Iterator[tuple[int, Result]]:
    """Run jobs, each given a function to ask with; when all of them wait, their questions are answered together.

    Yields (number, result) as they end. An error of a job or of `answer` ends them all and is raised here; so does
    closing the iterator. Every job has a thread of its own, which only saves writing it as a state machine: hardly two
    of them run at the same time.
    """
    inbox: Queue[tuple[int, Any]] = Queue()
    replies: dict[int, SimpleQueue[Any]] = {number: SimpleQueue() for number in jobs}
    running = set(jobs)

    def ask(number: int, question: Question) -> Any:
        inbox.put((number, question))
        reply = replies[number].get()
        if isinstance(reply, _StopError):
            raise reply
        return reply

    def work(number: int) -> None:
        try:
            inbox.put((number, _End(result=jobs[number](partial(ask, number)))))
        except BaseException as error:  # raised again where the result is awaited
            inbox.put((number, _End(error=error)))

    for number in jobs:
        Thread(target=work, args=(number,), daemon=True).start()
    try:
        while running:
            waiting: dict[int, Question] = {}
            while len(waiting) < len(running):
                number, message = inbox.get()
                if not isinstance(message, _End):
                    waiting[number] = message
                    continue
                running.discard(number)
                if message.error is not None:
                    raise message.error
                yield number, message.result
            order = sorted(waiting)  # the same batch whatever the order in which threads happen to ask
            if order:
                for number, reply in zip(order, answer([waiting[i] for i in order]), strict=True):
                    replies[number].put(reply)
    finally:
        for number in running:
            replies[number].put(_StopError())
