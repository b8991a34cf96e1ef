"""`NeuralKernelNetwork`: a network of kernels (NKN, Sun et al. 2018), trained from several starts.

All starts run for a while, the promising ones to the end. A start depends on the seed and its number alone, and every
rung of it runs on one BLAS thread: the result is the same whatever the number of jobs. Where the back end makes
batches, all starts of a rung are one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Any, Literal

import numpy as np

from mercer.compute import fused
from mercer.compute.evaluate import unit_patterns
from mercer.errors import InputError, TooLargeError
from mercer.fitting.minimise import Batch, adam, minimise, run_batched, screen
from mercer.fitting.periods import periods
from mercer.fitting.problem import FAILED_VALUE, Fit, FitOptions, Problem, Run, prepare
from mercer.fitting.starts import noise_start
from mercer.inference.contract import Data, Engine
from mercer.inference.likelihood import Gaussian
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression, Sum
from mercer.kernels.layers import Exponential, Linear, Multiply
from mercer.kernels.network import PAPER_LAYERS, Network, network, regression_network, time_series_network
from mercer.kernels.parameters import bind, values_of, with_values
from mercer.kernels.units import Units, to_scaled_units
from mercer.learners.averaging import Forecasts, forecast, forecast_tails, leave_out, stacked_weights
from mercer.learners.contract import (
    Candidate,
    Context,
    Learned,
    Learner,
    Step,
    Weights,
    alone,
    check_choices,
    check_counts,
    checked_jobs,
)
from mercer.learners.trials import Trials, run_parallel
from mercer.linalg.threads import one_thread

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
        """How many rows it can be trained on: exactly, with a gradient of some hundred numbers for each start."""
        return 2000

    @property
    def keeps_noise(self) -> bool:
        """A known noise variance stays as it is."""
        return True

    def scale_kernels(self, columns: list[int], names: list[str], units: Units) -> Learner:
        """Return the settings with primitives on column numbers and their values in scaled units."""
        if self.primitives is None:
            return self
        scaled = to_scaled_units(self.network(columns, len(units.scale), names), units)
        assert isinstance(scaled, Network)
        return replace(self, primitives=scaled.primitives)

    @property
    def makes_batches(self) -> bool:
        """Starts of all kernels are one batch on a GPU."""
        return True

    def learn(self, context: Context) -> Learned:
        """Train on scaled data."""
        rows, most = context.data.count, self.most_rows
        if rows > most:
            raise TooLargeError(
                f"{rows:,} rows are too many to train a neural kernel network on, which is done exactly, on at "
                f"most {most:,} rows. In GPRegressor leave inference='auto': it trains on a sample and then fits "
                f"to all rows. Or give a random subset of the rows, such as table.sample({most})."
            )
        self._check()
        return Training(self, context).run()

    def network(
        self, columns: Sequence[int], dimensions: int | None = None, names: Sequence[str] | None = None
    ) -> Network:
        """Return the untrained network for some columns of a table, whose columns may have names."""
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

    @property
    def iterations(self) -> int:
        """The steps of the optimiser for each start."""
        return STEPS[self.optimiser] if self.max_iterations is None else self.max_iterations

    def _check(self) -> None:
        check_choices(self, CHOICES)
        for name in ("complex", "variances", "average"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} must be True or False, not {getattr(self, name)!r}")
        check_counts(self, {"restarts": 1, "max_iterations": 1}, optional=("max_iterations",))
        rate = self.learning_rate
        if not isinstance(rate, Real) or not 0 < rate < 1:
            raise InputError(f"learning_rate must be a number between 0 and 1, not {rate!r}")


def _paper_primitives(columns: Sequence[int]) -> tuple[Expression, ...]:
    """The paper's, which count columns from 0, on the columns that vary."""
    paper = time_series_network() if len(columns) == 1 else regression_network(len(columns))

    def move(leaf: Base) -> Base:
        return leaf if leaf.dims is None else replace(leaf, dims=tuple(columns[int(d)] for d in leaf.dims))

    return tuple(part.map_leaves(move) for part in paper.primitives)


# ------------------------------------------------------------------------------------------------------------- training


@dataclass(frozen=True)
class TrainingPolicy:
    """How starts are drawn, and which of them are trained to the end."""

    draws: int = 12  # of which the best by evidence is a start
    peaks: int = 6  # of the periodogram: periods to start from
    many_rows: int = 500  # with more, the first rung runs on a sample: it only has to tell which starts are promising
    sample: int = 400  # rows of it
    first_iterations: int = 40  # of the first rung: after them the order of the starts seldom changes
    promoted: float = 0.5  # share of the starts that go on to the end
    promoted_of_many: float = 0.375  # the same where rows are many, and each start costs more
    forecast_rows: int = 40  # fewer give origins of forecasts with nothing to learn from


@dataclass(frozen=True)
class TrainingRung:
    """How far the starts run, how many of them, and on which rows."""

    iterations: int
    starts: int
    sample: bool = False


def plan_rungs(settings: NeuralKernelNetwork, rows: int, policy: TrainingPolicy) -> tuple[TrainingRung, ...]:
    """Return the rungs; Adam and a single start have one."""
    starts, iterations = settings.restarts, settings.iterations
    if settings.optimiser == "adam" or starts == 1 or iterations <= policy.first_iterations:
        return (TrainingRung(iterations, starts),)
    many = rows > policy.many_rows
    last = max(1, round((policy.promoted_of_many if many else policy.promoted) * starts))
    return TrainingRung(policy.first_iterations, starts, sample=many), TrainingRung(iterations, last)


@dataclass(frozen=True, eq=False)
class NetworkTask:
    """What training from any start needs, here or in a worker."""

    network: Network
    engine: Engine
    seed: int = 0
    rate: float | None = None  # of Adam; None: L-BFGS
    priors: bool = True
    noise: float | None = None  # a known variance (scaled); None: it is fitted
    draws: int = 12
    peaks: dict[int, Array] = field(default_factory=dict)  # periods of the target, by column

    def problem(self, data: Data) -> Problem:
        """Set up the fit to some rows."""
        options = FitOptions(priors=self.priors, noise=self.noise, tolerance=1e-9)
        return prepare(self.network, data, self.engine, options, self.peaks)

    def first_point(self, problem: Problem, number: int, batch: Batch | None = None) -> Array:
        """Return where a start begins: middling values for the first, the best of some draws for the others."""
        starts, rng = problem.starts, np.random.default_rng([self.seed, 2, number])
        if number == 0:
            return _scaled_point(problem, starts.typical(), noise_start(None))
        drawn = [_scaled_point(problem, starts.draw(rng), noise_start(rng)) for _ in range(self.draws)]
        return drawn[int(np.argmax(screen(problem, drawn, batch)))]


@dataclass(frozen=True, eq=False)
class StartState:
    """Where a start is."""

    run: Run
    fit: Fit
    seconds: float

    @property
    def value(self) -> float:
        """What was minimised, for each row."""
        return self.run.value / self.run.rows


@dataclass(eq=False)
class Training:
    """One training of a network."""

    settings: NeuralKernelNetwork
    context: Context

    def __post_init__(self) -> None:
        settings, context = self.settings, self.context
        self.data, self.policy = context.data, context.policy(TrainingPolicy)
        jobs = checked_jobs(settings.n_jobs if settings.n_jobs is not None else context.jobs) or 1
        self.trials = Trials(context.report, jobs=jobs, counted="starts")
        self.task = NetworkTask(
            network=settings.network(context.columns, self.data.X.shape[1]),
            engine=context.engine,
            seed=context.seed,
            rate=float(settings.learning_rate) if settings.optimiser == "adam" else None,
            priors=settings.priors == "weak",
            noise=context.noise,
            draws=self.policy.draws,
        )
        self.task = replace(self.task, peaks=self._find_peaks())
        self.states: dict[int, StartState] = {}
        self.finished: set[int] = set()

    def run(self) -> Learned:
        """Train until all starts that go on are at their end; return the best and, to average, the others."""
        trials = self.trials
        with trials.stopping():
            self._train()
        for number, state in sorted(self.states.items()):
            trials.add(self._candidate(number, state))
        if not any(state.fit.status != "failed" for state in self.states.values()):
            raise trials.failure("no start of the network could be fitted; try other primitives")
        if trials.stopped:
            trials.notes.append("the training was stopped on request; this is the best network found until then")
        fits, weights = self._rank(), alone()
        if self.settings.average and len(fits) > 1:
            fits, weights = self._weigh(fits)
        members = tuple(fits[: len(weights.within)])
        return Learned(fits[0], tuple(trials.candidates), members, weights, tuple(trials.notes), trials.stopped)

    def _train(self) -> None:
        rungs = plan_rungs(self.settings, self.data.count, self.policy)
        running = list(range(self.settings.restarts))
        for number, rung in enumerate(rungs):
            running = sorted(sorted(running, key=self._order)[: rung.starts])
            self.finished = set()
            for done, (i, state) in enumerate(self._advance(running, rung), 1):
                self.states[i] = state
                if number == len(rungs) - 1:
                    self.finished.add(i)
                self.trials.tell(done, len(running), rung=number, best=self._leader())

    def _order(self, number: int) -> tuple[float, int]:
        return self.states[number].value if number in self.states else 0.0, number

    def _leader(self) -> Candidate:
        """Return the best of the starts that have seen the most rows."""
        rows = max(state.run.rows for state in self.states.values())
        level = [i for i, state in self.states.items() if state.run.rows == rows]
        best = min(level, key=lambda i: self._score(self.states[i].fit))
        return replace(self._candidate(best, self.states[best]), score=self._score(self.states[best].fit))

    def _advance(self, running: list[int], rung: TrainingRung) -> Iterator[tuple[int, StartState]]:
        data, states = self._sample if rung.sample else self.data, self.states
        if self.context.backend.batches:
            work: dict[int, Any] = {0: lambda by: advance(self.task, running, states, data, rung.iterations, by)}
            for _, reached in run_batched(work, data, self.context.backend):
                yield from zip(running, reached, strict=True)
            return
        known = {i: {i: states[i]} if i in states else {} for i in running}
        work = {i: (self.task, [i], known[i], data, rung.iterations) for i in running}
        for i, reached in run_parallel(advance, work, self.trials.jobs):
            yield i, reached[0]

    def _find_peaks(self) -> dict[int, Array]:
        """Return the periods of the target, by column."""
        if not any("period" in [p.name for p in leaf.specs] for leaf in self.task.network.leaves()):
            return {}
        data, count = self.data, self.policy.peaks
        found = {column: periods(data.X[:, column], data.y, count) for column in self.context.columns}
        return {column: peaks for column, peaks in found.items() if len(peaks)}

    @cached_property
    def _sample(self) -> Data:
        rng = np.random.default_rng([self.context.seed, 1])
        return self.data.take(np.sort(rng.choice(self.data.count, self.policy.sample, replace=False)))

    def _score(self, fit: Fit) -> float:
        """Minus twice the leave-one-out score or the log evidence: smaller is better."""
        if fit.status == "failed":
            return math.inf
        return -2.0 * (fit.leave_one_out if self.settings.selection == "loo" else fit.log_evidence)

    def _candidate(self, number: int, state: StartState) -> Candidate:
        fit, score = state.fit, self._score(state.fit)
        status, message, evidence = str(fit.status), fit.message, fit.log_evidence
        if number not in self.finished and status != "failed":
            status, message = "raced out", "left behind: other starts were more promising"
            if self.trials.stopped:
                status, message = "interrupted", "stopped on request before it was at its end"
        if state.run.rows < self.data.count:  # a score of some rows cannot be compared with those of all
            score, evidence = math.inf, evidence * self.data.count / state.run.rows
        return Candidate(
            fit.expression, 0, Step("start", number=number + 1), None, evidence, fit.parameters, score, status, message,
            state.seconds, fit,
        )  # fmt: skip

    def _rank(self) -> list[Fit]:
        """Return the fits of the starts that came to their end (of the best, where none did), best first."""
        ended = [self.states[i].fit for i in sorted(self.finished)]
        usable = sorted((fit for fit in ended if fit.status != "failed"), key=self._score)
        if usable:
            return usable
        best = self.states[min(self.states, key=self._order)]
        with one_thread():  # it may have seen only a sample of the rows until now
            return [self.task.problem(self.data).conclude([best.run], best.run.point, 0)]

    def _weigh(self, ranked: list[Fit]) -> tuple[list[Fit], Weights]:
        """Weigh the networks so that their mixture predicts best: rows left out, and beyond the data the next stretch.

        Stacking (Yao et al. 2018): restarts of a network reach almost the same evidence with different functions, of
        which the mixture predicts better than any one.
        """
        trials, task, columns = self.trials, self.task, self.context.columns
        jobs = 1 if trials.stopped else trials.jobs  # Ctrl-C ends the workers of a terminal as well
        found: dict[int, Forecasts | None] = {}
        with trials.stopping():
            found = dict(run_parallel(leave_out, {i: (f, self.data, task.engine) for i, f in enumerate(ranked)}, jobs))
        if not found:
            trials.notes.append("the weighing of the networks was stopped on request, so the best predicts alone")
        usable = [(fit, left) for i, fit in enumerate(ranked) if (left := found.get(i)) is not None]
        if len(usable) < 2 or usable[0][0] is not ranked[0]:
            return ranked, alone()
        fits = [fit for fit, _ in usable]
        # a start that is sure of itself can be far ahead on the rows it was fitted to: the others keep their part
        shares = stacked_weights([left for _, left in usable], strength=1.0, hopeless=math.inf)
        within = tuple(map(float, shares))
        everywhere = Weights(within, within, (1.0,) * len(fits))
        if len(columns) > 1 or self.data.count < self.policy.forecast_rows:
            return fits, everywhere
        rest = (self.data, task.engine, columns[0], task.priors, task.noise is not None)
        ahead: dict[int, Forecasts] = {}
        with trials.stopping():
            ahead = dict(run_parallel(forecast, {i: (fit, *rest) for i, fit in enumerate(fits)}, jobs))
        if not ahead:
            trials.notes.append("forecasts were stopped on request, so the networks are weighed without them")
        if not ahead or not len(ahead[0].error):
            return fits, everywhere
        forecasts = [ahead[i] for i in range(len(fits))]
        widened = [each.widen() for each in forecasts]
        beyond = stacked_weights(widened)
        tails, widening = forecast_tails(widened, beyond), tuple(each.widening for each in forecasts)
        return fits, Weights(within, tuple(map(float, beyond)), widening, columns[0], tails)


def advance(
    task: NetworkTask, numbers: list[int], states: dict[int, StartState], data: Data, iterations: int,
    batch: Batch | None = None,
) -> list[StartState]:  # fmt: skip
    """Draw starts, or take them up where they stood, and go on by some iterations; a batch evaluates them together."""
    started = time.perf_counter()
    with one_thread(when=batch is None):
        problem = task.problem(data)
        points = [states[i].run.point if i in states else task.first_point(problem, i, batch) for i in numbers]
        if task.rate is None:
            runs = minimise(problem, points, iterations, batch=batch)
        else:
            runs = adam(problem, points, iterations, task.rate, batch)
        fits = [problem.conclude([run] if run.value < FAILED_VALUE else [], run.point, 0) for run in runs]
    share = (time.perf_counter() - started) / len(numbers)  # they all waited for each other
    reached = []
    for i, run, fit in zip(numbers, runs, fits, strict=True):
        before = states.get(i)
        evaluations, seconds = (0, 0.0) if before is None else (before.run.evaluations, before.seconds)
        reached.append(StartState(replace(run, evaluations=run.evaluations + evaluations), fit, seconds + share))
    return reached


# --------------------------------------------------------------------------------------------------------------- starts
# Lengthscales, periods and weights are drawn as for any network (`mercer.fitting.starts`: the copies of a primitive
# share the range of lengthscales and the peaks of the periodogram among them). A product of sums of random size can be
# far too large or too small for the target, so the last layer is scaled; and what goes into an Exp, before which a size
# of ten is already hopeless, is brought down first.

SIZE_ROWS = 100  # to measure the size of a kernel on
LARGEST_EXPONENT = 2.0  # of a start: exp of more varies by orders of magnitude between the rows


def _scaled_point(problem: Problem, values: Array, noise: float) -> Array:
    """Return the free vector, the network scaled so that its functions vary as much as the target (unit variance)."""
    X = problem.data.X
    network = with_values(problem.expression, values)
    assert isinstance(network, Network)
    rows = X[np.linspace(0, len(X) - 1, min(SIZE_ROWS, len(X))).astype(int)]
    network = _limit_exponents(network, rows)
    gram = fused.gram(problem.program, values_of(network), rows)
    size = float(np.mean(np.diagonal(gram)) - np.mean(gram))  # the expected variance over rows of a function of it
    network = network.multiplied(1.0 / size) if 0 < size < math.inf else network
    return problem.point(values_of(network), Gaussian(noise))


def _limit_exponents(network: Network, rows: Array) -> Network:
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
            linears[number] = linears[number].multiplied(factor)
            network = network.with_linears(linears)
    return network
