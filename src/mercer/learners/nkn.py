"""`NeuralKernelNetwork`: a network of kernels (NKN, Sun et al. 2018), trained from several starts.

All starts run for a while, the promising ones to the end. A start depends on the seed and its number alone, and every
rung of it runs on one BLAS thread: the result is the same whatever the number of jobs. Where the back end makes
batches, all starts of a rung are one.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np

from mercer.compute import fused
from mercer.compute.evaluate import unit_patterns
from mercer.errors import InputError, TooLargeError
from mercer.fitting.minimise import Batch, adam, is_past, minimise, run_batched, run_parallel, screen
from mercer.fitting.periods import periods
from mercer.fitting.problem import FAILED_VALUE, Fit, FitOptions, Problem, Run, prepare
from mercer.fitting.starts import noise_start
from mercer.inference.contract import Data, Engine
from mercer.inference.likelihood import Gaussian
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression, Parameter, Sum, build_base
from mercer.kernels.layers import Exponential, Linear, Multiply
from mercer.kernels.network import PAPER_LAYERS, Network, network, regression_network, time_series_network
from mercer.kernels.parameters import Units, bind, to_scaled_units, values_of, with_values
from mercer.kernels.text import parse_primitives
from mercer.learners.averaging import ForecastErrors, forecast, leave_out, stack_weights, weigh_forecasts
from mercer.learners.contract import (
    Candidate,
    Context,
    Learned,
    Learner,
    Step,
    Weights,
    change_settings,
    draw_some,
    read_time_budget,
)
from mercer.learners.trials import Trials
from mercer.linalg.threads import one_thread

STEPS = {"lbfgs": 200, "adam": 20_000}
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
    lengthscales : where those of primitives on several columns begin. "range": drawn over the range of each column.
        "distances": at parts of the median distance of two rows in each column, as in the code of Sun et al., the same
        in every start; shorter than the range says where a few rows lie far out.
    restarts : starts, each drawn from the data; all are trained for a while, and the promising ones to the end.
    selection : the best start is that with the best "loo" (leave one out) or the best "evidence".
    optimiser : "lbfgs", or "adam" as in the paper: 20,000 steps, every start to its end.
    learning_rate : of Adam.
    priors : "weak" keeps weights that the data do not determine small; None: none, as in the paper.
    max_iterations : steps of the optimiser for each start; None: 200 (lbfgs) or 20,000 (adam).
    average : predict with all finished starts, weighted by how well they predict rows left out, not with the best
        alone. The kernel that is shown and explained stays the best one's.
    n_jobs : starts trained at the same time, through joblib. The result does not depend on it.
    time_budget : seconds after which the best so far is returned.
    """

    primitives: str | Sequence[Expression | str] | None = None
    layers: str = PAPER_LAYERS
    activation: str | None = None
    complex: bool = False
    variances: bool = False
    lengthscales: Literal["range", "distances"] = "range"
    restarts: int = 8
    selection: Literal["loo", "evidence"] = "loo"
    optimiser: Literal["lbfgs", "adam"] = "lbfgs"
    learning_rate: float = 1e-3
    priors: Literal["weak"] | None = "weak"
    max_iterations: int | None = None
    average: bool = True
    n_jobs: int | None = None
    time_budget: float | None = None

    most_rows = 2000  # trained exactly, with a gradient of some hundred numbers for each start
    keeps_noise = True
    makes_batches = True
    takes_categories = True

    @classmethod
    def paper(cls, **changes: Any) -> NeuralKernelNetwork:
        """Return the settings of NKN section 5 and appendix J as printed, with your changes.

        Linear8-Product4-Linear4-Product2-Linear1 on two SE, PER, LIN and RQ for one column (J.1) or on two RQ, SE and
        LIN with a lengthscale for each of d columns (J.2); one start, 20,000 steps of Adam at 0.001, the evidence
        alone. For two columns J.1 has the primitives of one column: give them by name. J.3:
        `paper(primitives="SE(0) + SE(1) + ...", optimiser="lbfgs", max_iterations=None)`.

        111 parameters (J.1) and 4 d + 85 (J.2), without the noise: as Table 4 counts, LIN has its variance alone and RQ
        no alpha. So LIN's offset is held at the mean of each column, its column weights at 1 / d of standardised
        columns, and RQ's alpha at 1, which the paper does not print. Primitives given by name have all of these
        fitted, unless they hold them: "RQ(alpha=fixed(1))".

        Different from the paper on purpose: RQ has the exponent -alpha (the paper prints 1 / alpha, which is no
        kernel); columns and target are standardised; the start, which it does not print, is middling for the data
        (lengthscales="distances" is nearer to the authors' code); of all steps of Adam the one with the highest
        evidence counts, not the last; and the level of the target is fitted with the network. Of more
        than 2,000 rows the paper trains on all with VFE, Mercer on a sample exactly and then on all with VFE.
        """
        settings = cls(variances=True, restarts=1, selection="evidence", optimiser="adam", priors=None, average=False)
        return change_settings(settings, changes)

    def scale_kernels(
        self, columns: list[int], names: list[str], units: Units, categories: Collection[int] = ()
    ) -> Learner:
        """Return the settings with primitives on column numbers and their values in scaled units."""
        if self.primitives is None:
            return self
        scaled = to_scaled_units(self.network(columns, len(units.scale), names, categories), units)
        assert isinstance(scaled, Network)
        return replace(self, primitives=scaled.primitives)

    def learn(self, context: Context) -> Learned:
        """Train on scaled data."""
        rows, most = context.data.count, self.most_rows
        if most is not None and rows > most:
            raise TooLargeError(
                f"{rows:,} rows are too many to train a neural kernel network on, which is done exactly, on at "
                f"most {most:,} rows. In GPRegressor leave inference='auto': it trains on a sample and then fits "
                f"to all rows. Or give a random subset of the rows, such as table.sample({most})."
            )
        self.check()
        return Training(self, context).run()

    def network(
        self,
        columns: Sequence[int],
        dimensions: int | None = None,
        names: Sequence[str] | None = None,
        categories: Collection[int] = (),
    ) -> Network:
        """Return the untrained network for some columns of a table, whose columns may have names."""
        dimensions = 1 + max(columns) if dimensions is None else dimensions
        primitives = self.primitives
        if primitives is None:
            numbers = [c for c in columns if c not in categories]
            levels = [build_base("CAT", c) for c in columns if c in categories]
            primitives = [*self._usual_primitives(numbers), *levels]
        # None: where a primitive is complex
        built = network(primitives, self.layers, complex=self.complex or None, variances=self.variances)
        if self.activation is not None:
            kind = self.activation.strip().lower() if isinstance(self.activation, str) else ""
            if kind != "exp" and not (kind.startswith("poly") and "-" not in kind.partition(")")[2]):
                raise InputError(f"activation must be 'Exp', 'Poly(c0, c1, ...)' or None, not {self.activation!r:.80}")
            if not any(isinstance(layer, Multiply) for layer in built.layers):
                raise InputError(
                    f"activation={self.activation!r} goes after every Product layer, but {built.architecture} has "
                    f"none: write it among the layers, as in Linear4-{self.activation}-Linear1"
                )
            symbols = [(layer.symbol, isinstance(layer, Multiply)) for layer in built.layers]
            layers = [f"{symbol}-{self.activation}" if after else symbol for symbol, after in symbols]
            built = network(built.primitives, "-".join(layers), complex=built.complex, variances=self.variances)
        bound = bind(built, dimensions, names, default=columns, categories=categories)
        assert isinstance(bound, Network)
        return bound

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        settings = super().describe()
        if self.primitives is not None and not isinstance(self.primitives, str):
            parts = network(self.primitives, "Linear1").primitives
            texts = (f"({part.text()})" if isinstance(part, Sum) else part.text() for part in parts)
            settings["primitives"] = " + ".join(texts)
        return settings

    def _usual_primitives(self, columns: Sequence[int]) -> Sequence[Expression]:
        """Return those for some columns of numbers where none are given."""
        if not columns:
            return ()
        if not self.variances:
            return parse_primitives(ONE_COLUMN if len(columns) == 1 else SEVERAL_COLUMNS)
        paper = time_series_network() if len(columns) == 1 else regression_network(len(columns))
        # the paper's primitives count columns from 0: they move to the columns that vary
        return [part.map_leaves(partial(_move, columns=columns)) for part in paper.primitives]

    @property
    def seconds_allowed(self) -> float | None:
        """The time budget."""
        return read_time_budget(self.time_budget)

    @property
    def iterations(self) -> int:
        """The steps of the optimiser for each start."""
        return STEPS[self.optimiser] if self.max_iterations is None else self.max_iterations

    def check(self) -> None:
        """Refuse settings that make no sense."""
        self.check_choices(
            selection=("loo", "evidence"), optimiser=tuple(STEPS), priors=("weak", None),
            lengthscales=("range", "distances"),
        )  # fmt: skip
        self.check_flags("complex", "variances", "average")
        self.check_counts(restarts=1, max_iterations=1, optional=("max_iterations",))
        read_time_budget(self.time_budget)
        rate = self.learning_rate
        if not isinstance(rate, Real) or not 0 < rate < 1:
            raise InputError(f"learning_rate must be a number between 0 and 1, not {rate!r}")


def _move(leaf: Base, columns: Sequence[int]) -> Base:
    return leaf if leaf.dims is None else replace(leaf, dims=tuple(columns[int(d)] for d in leaf.dims))


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
    kept_share: float = 0.15  # of a time budget, for the weights of an average and the posteriors of its members


class TrainingRung(NamedTuple):
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

    def first_point(
        self, problem: Problem, number: int, batch: Batch | None = None, until: float | None = None
    ) -> Array:
        """Return where a start begins: middling values for the first, the best of some draws for the others."""
        starts, rng = problem.starts, np.random.default_rng([self.seed, 2, number])
        if number == 0:
            return _scaled_point(problem, starts.typical(), noise_start(None))
        drawn = [_scaled_point(problem, starts.draw(rng), noise_start(rng)) for _ in range(self.draws)]
        return drawn[int(np.argmax(screen(problem, drawn, batch, until)))]


class StartState(NamedTuple):
    """Where a start is."""

    run: Run
    fit: Fit
    seconds: float


class Training:
    """One training of a network."""

    def __init__(self, settings: NeuralKernelNetwork, context: Context) -> None:
        self.settings, self.context = settings, context
        self.data, self.policy = context.data, context.policy(TrainingPolicy)
        self.sample = draw_some(self.data, self.policy.sample, [context.seed, 1])
        clock = context.start_clock(settings.seconds_allowed, self.policy.kept_share)
        self.trials = Trials(context.report, clock, context.count_jobs(settings.n_jobs), counted="starts")
        network = settings.network(context.columns, self.data.X.shape[1], categories=context.categories)
        if settings.lengthscales == "distances":
            network = begin_at_distances(network, self.data.X)
        repeats = any(p.name == "period" for leaf in network.leaves() for p in leaf.specs)
        numbers = [c for c in context.columns if c not in context.categories]
        found = {c: periods(self.data.X[:, c], self.data.y, self.policy.peaks) for c in numbers if repeats}
        self.task = NetworkTask(
            network, context.engine, context.seed,
            rate=float(settings.learning_rate) if settings.optimiser == "adam" else None,
            priors=settings.priors == "weak", noise=context.noise, draws=self.policy.draws,
            peaks={column: peaks for column, peaks in found.items() if len(peaks)},
        )  # fmt: skip
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
        trials.note_stop("training", "network")
        ended = (self.states[i].fit for i in sorted(self.finished))
        fits, weights = sorted((fit for fit in ended if fit.status != "failed"), key=self._score), Weights()
        if not fits:
            best = self.states[min(self.states, key=self._order)].run
            with one_thread():  # it may have seen only a sample of the rows until now
                fits = [self.task.problem(self.data).conclude([best], best.point, 0)]
        if self.settings.average and len(fits) > 1:
            fits, weights = self._weigh(fits)
        return trials.conclude(fits[0], fits[: len(weights.within)], weights)

    def _train(self) -> None:
        rungs = plan_rungs(self.settings, self.data.count, self.policy)
        running, states = list(range(self.settings.restarts)), self.states
        for number, rung in enumerate(rungs):
            running = sorted(sorted(running, key=self._order)[: rung.starts])
            self.finished = set()
            for done, (i, state) in enumerate(self._advance(running, rung), 1):
                states[i] = state
                if number == len(rungs) - 1:
                    self.finished.add(i)
                rows = max(state.run.rows for state in states.values())  # the best of those that have seen the most
                best = min((i for i in states if states[i].run.rows == rows), key=lambda i: self._score(states[i].fit))
                leader = replace(self._candidate(best, states[best]), score=self._score(states[best].fit))
                self.trials.tell(done, len(running), rung=number, best=leader)
                self.trials.clock.check()

    def _order(self, number: int) -> tuple[float, int]:
        """Compare starts by what was minimised, for each row."""
        state = self.states.get(number)
        return 0.0 if state is None else state.run.value / state.run.rows, number

    def _advance(self, running: list[int], rung: TrainingRung) -> Iterator[tuple[int, StartState]]:
        data, states = self.sample if rung.sample else self.data, self.states
        until = self.trials.clock.until
        if self.context.backend.batches:
            work: dict[int, Any] = {0: lambda by: advance(self.task, running, states, data, rung.iterations, until, by)}
            for _, reached in run_batched(work, data, self.context.backend):
                yield from zip(running, reached, strict=True)
            return
        known = {i: {i: states[i]} if i in states else {} for i in running}
        work = {i: (self.task, [i], known[i], data, rung.iterations, until) for i in running}
        for i, reached in run_parallel(advance, work, self.trials.jobs):
            yield i, reached[0]

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
                why = "the time was spent" if self.trials.stopped == "time" else "stopped on request"
                status, message = "interrupted", f"{why} before it was at its end"
        if state.run.rows < self.data.count:  # a score of some rows cannot be compared with those of all
            score, evidence = math.inf, evidence * self.data.count / state.run.rows
        return Candidate(
            fit.expression, 0, Step("start", number=number + 1), None, evidence, fit.parameters, score, status, message,
            state.seconds, fit,
        )  # fmt: skip

    def _weigh(self, ranked: list[Fit]) -> tuple[list[Fit], Weights]:
        """Weigh the networks so that their mixture predicts best: rows left out, and beyond the data the next stretch.

        Stacking (Yao et al. 2018): restarts of a network reach almost the same evidence with different functions, of
        which the mixture predicts better than any one.
        """
        trials, task, columns = self.trials, self.task, self.context.columns
        jobs = 1 if trials.stopped else trials.jobs  # Ctrl-C ends the workers of a terminal as well
        found: dict[int, ForecastErrors | None] = {}
        with trials.stopping():
            found = dict(run_parallel(leave_out, {i: (f, self.data, task.engine) for i, f in enumerate(ranked)}, jobs))
        if not found:
            trials.notes.append("the weighing of the networks was stopped on request, so the best predicts alone")
        usable = [(fit, left) for i, fit in enumerate(ranked) if (left := found.get(i)) is not None]
        if len(usable) < 2 or usable[0][0] is not ranked[0]:
            return ranked, Weights()
        fits = [fit for fit, _ in usable]
        # a start that is sure of itself can be far ahead on the rows it was fitted to: the others keep their part
        shares = stack_weights([left for _, left in usable], strength=1.0, hopeless=math.inf)
        within = tuple(map(float, shares))
        everywhere = Weights(within, within, (1.0,) * len(fits))
        if len(columns) > 1 or self.data.count < self.policy.forecast_rows or is_past(trials.clock.until):
            return fits, everywhere
        rest = (self.data, task.engine, columns[0], task.priors, task.noise is not None)
        ahead: dict[int, ForecastErrors] = {}
        with trials.stopping():
            ahead = dict(run_parallel(forecast, {i: (fit, *rest) for i, fit in enumerate(fits)}, jobs))
        if not ahead:
            trials.notes.append("forecasts were stopped on request, so the networks are weighed without them")
        if not ahead or not len(ahead[0].error):
            return fits, everywhere
        return fits, weigh_forecasts(shares, [ahead[i] for i in range(len(fits))], columns[0])


def advance(
    task: NetworkTask, numbers: list[int], states: dict[int, StartState], data: Data, iterations: int,
    until: float | None = None, batch: Batch | None = None,
) -> list[StartState]:  # fmt: skip
    """Draw starts, or take them up where they stood, and go on by some iterations; a batch evaluates them together.

    Once it is `until` (by `time.time()`), they end where they are.
    """
    started = time.perf_counter()
    with one_thread(when=batch is None):
        problem = task.problem(data)
        points = [states[i].run.point if i in states else task.first_point(problem, i, batch, until) for i in numbers]
        if task.rate is None:
            runs = minimise(problem, points, iterations, batch=batch, until=until)
        else:
            runs = adam(problem, points, iterations, task.rate, batch, until)
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

NEAREST, FARTHEST = 1 / 6, 2 / 3  # lengthscales of the first and the last copy of a primitive, in typical distances
DISTANCE_ROWS = 2000  # that distances are measured between
SHORTEST_DISTANCE = 1e-6  # in units of a column's spread: below it most rows share a value
SIZE_ROWS = 100  # to measure the size of a kernel on
LARGEST_EXPONENT = 2.0  # of a start: exp of more varies by orders of magnitude between the rows


def typical_distances(X: Array) -> Array:
    """Return the median of |x_d - x_d'| over pairs of rows in each column d times sqrt(D), D columns.

    Distances grow with the number of columns. A column in which most rows share a value has a unit in its place. As in
    the code of Sun et al.; of many rows some are taken.
    """
    rows = X if len(X) <= DISTANCE_ROWS else np.random.default_rng(0).choice(X, DISTANCE_ROWS, replace=False)
    apart = np.array([np.median(np.abs(column[:, None] - column)) for column in rows.T]) * X.shape[1] ** 0.5
    return np.where(apart < SHORTEST_DISTANCE, 1.0, apart)


def begin_at_distances(network: Network, X: Array) -> Network:
    """Return the network with lengthscales for its primitives on several columns, where they have none.

    As in the code of Sun et al. the copies of SE go from 1/6 to 2/3 of the typical distances, and those of a kernel
    with a shape of its own (RQ) begin in the middle, at 1/3.
    """
    copies = Counter((leaf.symbol, leaf.dims) for leaf in network.leaves())
    distances = {leaf.columns: typical_distances(X[:, list(leaf.columns)]) for leaf in network.leaves() if leaf.columns}
    seen = Counter[object]()

    def begin(leaf: Base) -> Base:
        sizes = {s.name: size for s, size in zip(leaf.specs, leaf.sizes, strict=True) if s.unit == "length"}
        if len(leaf.columns) < 2 or sizes.get("lengthscale") != len(leaf.columns):
            return leaf
        if leaf.parameter("lengthscale").values is not None:
            return leaf
        kind = (leaf.symbol, leaf.dims)
        place, last = seen[kind], copies[kind] - 1
        seen[kind] += 1
        alike = last == 0 or any(s.name == "alpha" for s in leaf.specs)
        part = NEAREST * (FARTHEST / NEAREST) ** (0.5 if alike else place / last)
        return leaf.with_parameter(Parameter("lengthscale", tuple((part * distances[leaf.columns]).tolist())))

    begun = network.map_leaves(begin)
    assert isinstance(begun, Network)
    return begun


def _scaled_point(problem: Problem, values: Array, noise: float) -> Array:
    """Return the free vector, the network scaled so that its functions vary as much as the target (unit variance)."""
    X = problem.data.X
    network = with_values(problem.expression, values)
    assert isinstance(network, Network)
    rows = X[np.linspace(0, len(X) - 1, min(SIZE_ROWS, len(X))).astype(int)]
    network = _limit_exponents(network, rows)
    gram = fused.gram(problem.program, values_of(network), rows)
    size = float(np.mean(np.diagonal(gram)) - np.mean(gram))  # the expected variance over rows of a function of it
    network = network.multiply_by(1.0 / size) if 0 < size < math.inf else network
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
            linears[number] = linears[number].multiply_by(factor)
            network = network.with_linears(linears)
    return network
