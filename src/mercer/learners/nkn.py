"""`NeuralKernelNetwork`: the settings of a network to train, and what training returns."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np

from mercer.compute import fused
from mercer.compute.patterns import unit_patterns
from mercer.compute.program import compile_program
from mercer.errors import InputError, NumericalError, TooLargeError
from mercer.fitting.adam import adam
from mercer.fitting.clock import Progress, Report
from mercer.fitting.optimise import FAILED_VALUE, Fit, FitOptions, Problem, Run, concluded, optimise, prepare
from mercer.fitting.periodogram import periods
from mercer.fitting.starts import noise_start
from mercer.inference.contract import Data, Engine
from mercer.inference.likelihood import Gaussian
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression, Sum
from mercer.kernels.layers import Exponential, Linear, Multiply
from mercer.kernels.network import PAPER_LAYERS, Network, network, regression_network, time_series_network
from mercer.kernels.parameters import bind, values_of, with_values
from mercer.kernels.units import Units, to_scaled_units
from mercer.learners.averaging import Forecasts, forecast, forecast_tails, stacked_weights
from mercer.learners.contract import Candidate, Context, Learned, Learner, Step, Stopped, Weights, alone, checked_jobs
from mercer.learners.trials import run_parallel
from mercer.linalg.threads import one_thread

MOST_ROWS = 2000
STEPS = {"lbfgs": 200, "adam": 20_000}
CHOICES = {"selection": ("loo", "evidence"), "optimiser": tuple(STEPS), "priors": ("weak", None)}
ONE_COLUMN = "2*SE + 2*PER + 2*LIN + 2*RQ"
SEVERAL_COLUMNS = "2*RQ + 2*SE + 2*LIN"


@dataclass(frozen=True)
class NeuralKernelNetwork(Learner):
    """A neural kernel network (NKN, Sun et al. 2018) trained from several starts.

    Parameters
    ----------
    primitives : kernels to build from, as a text ("2*SE + LIN(0)", where 2* means two copies) or a list of kernels or
        texts. Columns by number or name, values in the units of the data. None: two SE, PER, LIN and RQ each for one
        column; for several, two RQ, SE and LIN each, with one lengthscale for each column.
    layers : as in the paper, "Linear8-Product4-Linear4-Product2-Linear1".
    activation : "Exp" or "Poly(c0, c1, ...)", put after every Product layer; None: none.
    complex : carry real and imaginary parts (always so where a primitive is EXPI).
    variances : fit the primitives' own variances too; with primitives=None exactly the paper's networks, of 111 and
        4 d + 85 parameters.
    restarts : starts, each drawn from the data; all are trained for a while, and the promising ones to the end.
    selection : the best start is that with the best "loo" (leave one out) or the best "evidence".
    optimiser : "lbfgs", or "adam" as in the paper: 20,000 steps, every start to its end.
    learning_rate : of Adam.
    priors : "weak" keeps weights that the data do not determine small; None: none, as in the paper.
    max_iterations : steps of the optimiser for each start; None: 200 (lbfgs) or 20,000 (adam).
    average : predict with all finished starts, weighted by how well they predict rows left out, not with the best
        alone. The kernel that is shown and explained stays the best one's.
    n_jobs : starts trained at the same time, through joblib. The result does not depend on it.
    """

    primitives: str | Sequence[Expression | str] | None = None
    layers: str = PAPER_LAYERS
    activation: str | None = None
    complex: bool = False
    variances: bool = False
    restarts: int = 8
    selection: Literal["loo", "evidence"] = "loo"
    optimiser: Literal["lbfgs", "adam"] = "lbfgs"
    learning_rate: float = 1e-3
    priors: Literal["weak"] | None = "weak"
    max_iterations: int | None = None
    average: bool = True
    n_jobs: int | None = None

    @classmethod
    def paper(cls, **changes: Any) -> NeuralKernelNetwork:
        """Return the settings of the paper (its parameters, one start, Adam, no priors), with your changes."""
        settings = cls(variances=True, restarts=1, selection="evidence", optimiser="adam", priors=None, average=False)
        return replace(settings, **changes)

    @property
    def most_rows(self) -> int:
        """How many rows it can be trained on."""
        return MOST_ROWS

    def scale_kernels(self, columns: list[int], names: list[str], units: Units) -> Learner:
        """Return the settings with primitives on column numbers and their values in scaled units."""
        if self.primitives is None:
            return self
        scaled = to_scaled_units(self.network(columns, len(units.scale), names), units)
        assert isinstance(scaled, Network)
        return replace(self, primitives=scaled.primitives)

    @property
    def keeps_noise(self) -> bool:
        """A known noise variance stays as it is."""
        return True

    def learn(self, context: Context) -> Learned:
        """Train on scaled data."""
        data = context.data
        if data.count > MOST_ROWS:
            raise TooLargeError(
                f"{data.count:,} rows are too many to train a neural kernel network on, which is done exactly, on at "
                f"most {MOST_ROWS:,} rows. In GPRegressor leave inference='auto': it trains on a sample and then fits "
                f"to all rows. Or give a random subset of the rows, such as table.sample({MOST_ROWS})."
            )
        plan = self._plan(context)
        network = self.network(context.columns, data.X.shape[1])
        training = Training(plan, network, data, context.engine, context.columns, context.report)
        training.run()
        return conclude(training, self.average)

    def network(
        self, columns: Sequence[int], dimensions: int | None = None, names: Sequence[str] | None = None
    ) -> Network:
        """Return the untrained network for these columns of a table with so many, which may have names."""
        dimensions = 1 + max(columns) if dimensions is None else dimensions
        primitives = self.primitives
        if primitives is None and self.variances:
            primitives = _paper_primitives(columns)
        elif primitives is None:
            primitives = ONE_COLUMN if len(columns) == 1 else SEVERAL_COLUMNS
        # None: where a primitive is complex
        built = network(primitives, self.layers, complex=self.complex or None, variances=self.variances)
        if self.activation is not None:
            self._check_activation(built)
            layers = [
                f"{layer.symbol}-{self.activation}" if isinstance(layer, Multiply) else layer.symbol
                for layer in built.layers
            ]
            built = network(built.primitives, "-".join(layers), complex=built.complex, variances=self.variances)
        bound = bind(built, dimensions, names, default=columns)
        assert isinstance(bound, Network)
        return bound

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        settings = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.primitives is not None and not isinstance(self.primitives, str):
            parts = network(self.primitives, "Linear1").primitives
            texts = (f"({part.text()})" if isinstance(part, Sum) else part.text() for part in parts)
            settings["primitives"] = " + ".join(texts)
        return settings

    def _check_activation(self, built: Network) -> None:
        kind = self.activation.strip().lower() if isinstance(self.activation, str) else ""
        if kind != "exp" and not (kind.startswith("poly") and "-" not in kind.partition(")")[2]):
            raise InputError(f"activation must be 'Exp', 'Poly(c0, c1, ...)' or None, not {self.activation!r:.80}")
        if not any(isinstance(layer, Multiply) for layer in built.layers):
            raise InputError(
                f"activation={self.activation!r} goes after every Product layer, but {built.architecture} has none: "
                f"write it among the layers, as in Linear4-{self.activation}-Linear1"
            )

    def _plan(self, context: Context) -> Plan:
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                listed = " or ".join(repr(each) for each in known)
                raise InputError(f"{name} must be {listed}, not {getattr(self, name)!r}")
        for name in ("complex", "variances", "average"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} must be True or False, not {getattr(self, name)!r}")
        iterations = STEPS[self.optimiser] if self.max_iterations is None else self.max_iterations
        for name, count in (("restarts", self.restarts), ("max_iterations", iterations)):
            if not isinstance(count, Integral) or isinstance(count, bool) or count < 1:
                raise InputError(f"{name} must be a whole number of at least 1, not {count!r}")
        rate = self.learning_rate
        if not isinstance(rate, Real) or not 0 < rate < 1:
            raise InputError(f"learning_rate must be a number between 0 and 1, not {rate!r}")
        if context.device != "cpu":
            from mercer.fitting.batched import available_device  # it loads PyTorch

            available_device(context.device)
        return Plan(
            restarts=int(self.restarts),
            selection=self.selection,
            rate=float(rate) if self.optimiser == "adam" else None,
            priors=self.priors == "weak",
            max_iterations=int(iterations),
            n_jobs=checked_jobs(self.n_jobs if self.n_jobs is not None else context.jobs) or 1,
            seed=context.seed,
            device=context.device,
            noise=context.noise,
        )


def _paper_primitives(columns: Sequence[int]) -> tuple[Expression, ...]:
    """The paper's, which count columns from 0, on the columns that vary."""
    paper = time_series_network() if len(columns) == 1 else regression_network(len(columns))

    def moved(leaf: Base) -> Base:
        return leaf if leaf.dims is None else replace(leaf, dims=tuple(columns[int(d)] for d in leaf.dims))

    return tuple(part.map_leaves(moved) for part in paper.primitives)


# Train one network from several starts: all run for a while, the promising ones to the end.
#
# A start depends on the seed and its number alone, and every lap of it runs on one BLAS thread: the result is the same
# whatever the number of jobs. On a device all starts of a lap are one batch.


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
        if not any("period" in [p.name for p in leaf.specs] for leaf in self.network.leaves()):
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
        return run_parallel(advance, work, self.plan.n_jobs)

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
            fit.expression, 0, Step("start", number=number + 1), None, evidence, fit.parameters, score, status, message,
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


# Where training begins: primitives drawn from the data, weights at random, the whole as large as the target.
#
# Lengthscales, periods and weights are drawn as for any network (`mercer.fitting.starts`: the copies of a primitive
# share the range of lengthscales and the peaks of the periodogram among them). A product of sums of random size can be
# far too large or too small for the target, so the last layer is scaled; and what goes into an Exp, before which a size
# of ten is already hopeless, is brought down first.


DRAWS = 12  # of which the best by evidence is a start
ROWS = 100  # to measure the size of a kernel on
LARGEST_EXPONENT = 2.0  # of a start: exp of more varies by orders of magnitude between the rows


def first_point(
    problem: Problem,
    number: int,
    rng: np.random.Generator,
    screen: Callable[[Problem, list[Array]], Sequence[float]] | None = None,
) -> Array:
    """Return where a start begins: middling values for the first, the best of some draws for the others."""
    starts = problem.starts
    if number == 0:
        return _point(problem, starts.typical(), noise_start(None))
    drawn = [_point(problem, starts.draw(rng), noise_start(rng)) for _ in range(DRAWS)]
    scores = screen(problem, drawn) if screen else [problem.objective.evidence(p, gradient=False).value for p in drawn]
    return drawn[int(np.argmax(scores))]


def _point(problem: Problem, values: Array, noise: float) -> Array:
    """The free vector, the network scaled so that its functions vary as much as the target (scaled: unit variance)."""
    network = with_values(problem.expression, values)
    assert isinstance(network, Network)
    X = problem.objective.data.X
    network = _calmed(network, X[np.linspace(0, len(X) - 1, min(ROWS, len(X))).astype(int)])
    values = values_of(network)
    size = _variance(problem, values)
    if math.isfinite(size) and size > 0:
        values = values_of(network.scaled(1.0 / size))
    free = problem.objective.layout.to_free(values)
    if problem.objective.fixed_noise is None:
        free = np.append(free, math.log(noise))
    return np.clip(free, problem.bounds[:, 0], problem.bounds[:, 1])


def _calmed(network: Network, rows: Array) -> Network:
    """Return the network with the Linear layer before each Exp scaled down where its exponents would be large."""
    for place, layer in enumerate(network.layers):
        if not isinstance(layer, Exponential):
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            before = unit_patterns(network, rows)[place].values  # the primitives are number 0
        below = [at for at in range(place) if isinstance(network.layers[at], Linear)][-1]
        between = network.layers[below + 1 : place]
        power = math.prod(each.step for each in between if isinstance(each, Multiply))
        factor = (LARGEST_EXPONENT / float(np.max(np.abs(before)))) ** (1.0 / power)
        if factor < 1.0:
            linears = list(network.linears)
            number = sum(isinstance(each, Linear) for each in network.layers[:below])
            linears[number] = linears[number].scaled(factor)
            network = network.with_linears(linears)
    return network


def _variance(problem: Problem, values: Array) -> float:
    """The expected variance over rows of a function of the kernel: mean of the diagonal less mean of the matrix."""
    X = problem.objective.data.X
    rows = np.linspace(0, len(X) - 1, min(ROWS, len(X))).astype(int)
    gram = fused.gram(problem.objective.program, values, X[rows])
    return float(np.mean(np.diagonal(gram)) - np.mean(gram))


# After training: the best start, and the weights of all that came to their end for averaging.

ROWS_TO_FORECAST = 40  # fewer give origins with nothing to learn from


def conclude(training: Training, average: bool) -> Learned:
    """Return the best network and, to average, the others with their weights."""
    fits = training.ranked()
    weights = alone()
    if average and len(fits) > 1:
        fits, weights = _weighted(training, fits)
    members = tuple(fits[: len(weights.within)])
    return Learned(fits[0], training.candidates(), members, weights, tuple(training.notes), training.stopped)


def _weighted(training: Training, ranked: list[Fit]) -> tuple[list[Fit], Weights]:
    """Weigh the networks so that their mixture predicts best: rows left out, and beyond the data the next stretch.

    Stacking (Yao et al. 2018): restarts of a network reach almost the same evidence with different functions, of which
    the mixture predicts better than any one.
    """
    jobs = 1 if training.stopped else training.plan.n_jobs  # Ctrl-C ends the workers of a terminal as well
    rest = (training.data, training.engine)
    try:
        found = dict(run_parallel(left_out, {i: (fit, *rest) for i, fit in enumerate(ranked)}, jobs))
    except KeyboardInterrupt:
        training.stopped = "request"
        training.notes.append("the weighing of the networks was stopped on request, so the best predicts alone")
        return ranked, alone()
    kept = [i for i in range(len(ranked)) if found[i] is not None]
    if len(kept) < 2 or kept[0] != 0:
        return ranked, alone()
    fits = [ranked[i] for i in kept]
    # a start that is sure of itself can be far ahead on the rows it was fitted to: the others keep their part
    within = tuple(map(float, stacked_weights([found[i] for i in kept], strength=1.0, hopeless=math.inf)))
    as_they_are = (1.0,) * len(kept)
    if len(training.columns) > 1 or training.data.count < ROWS_TO_FORECAST:
        return fits, Weights(within, within, as_they_are)
    column = training.columns[0]
    try:
        plan = training.plan
        work = {i: (fit, *rest, column, plan.priors, plan.noise is not None) for i, fit in enumerate(fits)}
        told = dict(run_parallel(forecast, work, jobs))
    except KeyboardInterrupt:
        training.stopped = "request"
        training.notes.append("forecasts were stopped on request, so the networks are weighed without them")
        return fits, Weights(within, within, as_they_are)
    forecasts = [told[i] for i in range(len(fits))]
    if not len(forecasts[0].error):
        return fits, Weights(within, within, as_they_are)
    widened = [each.widened() for each in forecasts]
    beyond = stacked_weights(widened)
    tails, widening = forecast_tails(widened, beyond), tuple(each.widening for each in forecasts)
    return fits, Weights(within, tuple(map(float, beyond)), widening, column, tails)


def left_out(fit: Fit, data: Data, engine: Engine) -> Forecasts | None:
    """Predict every row from the others; None where that cannot be computed."""
    try:
        with one_thread():
            posterior = engine.posterior(compile_program(fit.expression), fit.values, Gaussian(fit.noise), data)
            left = posterior.leave_one_out()
    except NumericalError:
        return None
    return Forecasts(data.y - left.mean, left.variance)
