"""`KernelFunctional`: the settings of a search for a kernel without a formula, and what the search returns."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.errors import InputError, NumericalError
from mercer.fitting.clock import Progress, Report
from mercer.fitting.optimise import (
    CORRECTIONS,
    FLAT,
    Fit,
    FitOptions,
    Problem,
    Run,
    concluded,
    ended,
    fit,
    optimise,
    prepare,
    starting_points,
)
from mercer.fitting.ranges import may_repeat
from mercer.inference.contract import Data, Engine, log_density
from mercer.inference.likelihood import Gaussian
from mercer.kernels.algebra import structure
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression, product_of, sum_of
from mercer.kernels.functional import Functional
from mercer.kernels.parameters import Layout, bind, values_of
from mercer.kernels.text import parse
from mercer.learners.bayesian import (
    Acquisition,
    ObjectiveValue,
    Stop,
    SubspacePlan,
    evaluate_safely,
    find_best,
    search_subspaces,
    tune,
)
from mercer.learners.classes import LearnedForClasses
from mercer.learners.contract import Candidate, Context, Learned, Learner, Step, Stopped, Weights, alone
from mercer.learners.kernel_space import (
    MOST_COMPONENTS,
    RATE_LIMITS,
    RATES,
    Definite,
    Distance,
    KernelSpace,
    build_space,
    choose_grid,
)
from mercer.learners.kfo_classes import ENDED, ClassSearch, TimeIsUp, with_standard_kernels
from mercer.learners.margin import Labels
from mercer.linalg.threads import one_thread

HYPERKERNELS = {
    "matern-harmonic": ("M32",),
    "matern12-harmonic": ("M12",),
    "matern52-harmonic": ("M52",),
    "se-harmonic": ("SE",),
    "periodic-harmonic": ("PER",),
    "auto": ("M12", "M32", "SE"),
}
CHOICES: dict[str, tuple[Any, ...]] = {
    "hyperkernel": tuple(HYPERKERNELS),
    "definite": ("series", "clip", "flip", "spectrum"),
    "form": ("distance", "product"),
    "stop": ("budget", "regret"),
    "acquisition": ("ucb", "ei"),
    "distance": ("rkhs", "l2"),
}
OBJECTIVES = ("evidence", "loo", "cv")


@dataclass(frozen=True)
class KernelFunctional(Learner):
    """Kernel functional optimisation (KFO, Arun Kumar et al. 2021): Bayesian optimisation in a space of kernels.

    Parameters
    ----------
    hyperkernel : "matern-harmonic" is the paper's; also "matern12-", "matern52-", "se-" and "periodic-harmonic", which
        have another kernel inside. "auto" tries Matern 1/2, Matern 3/2 and SE inside, and for a single column that may
        repeat PER and SE*PER, and goes on with the best.
    grid : pairs on which the space of kernels is spanned; None: ten for each column, at least 40.
    components : coordinates of a kernel; None: all that are more than rounding, at most 16.
    subspaces, iterations, directions : S subspaces of so many random directions, T steps in each.
    objective : "evidence", "loo" (leave one out), "cv" (rows left out in folds), or your own function of the Gram
        matrix of the rows; larger is better. A point where it raises, or gives no finite number, is marked and avoided.
        For classes it is always "cv", or your own.
    definite : how a kernel is made positive definite: "clip" (weights alpha below zero become zero), "flip" (they lose
        their sign), "series" (the same for the weights of the power series; changes least), or, for classification
        only, "spectrum" (the eigenvalues of the Gram matrix are clipped).
    ard : one lengthscale for each column; False: one for all (of columns scaled to the same spread).
    form : "distance" a function of one distance, or "product" of one such function for each column.
    stop : "budget" takes all T steps, "regret" leaves a subspace when no gain worth having is to be expected there.
    acquisition : "ucb" with the paper's beta_t, or "ei" (expected improvement).
    distance : between kernels, "rkhs" or "l2".
    plus : kernels to add to the one found, such as "SE + M32 + LIN"; their variances are fitted with it (KFO-MKL). For
        classes anything but None adds SE, M32 and LIN, with weights tuned by cross-validation.
    average : predict with the best kernel for each kernel inside, weighted by how well they foresee rows left out.
    tuning : steps of Bayesian optimisation of the hyperkernel's own numbers.
    time_budget : seconds after which the best so far is taken.
    """

    hyperkernel: str = "auto"
    grid: int | None = None
    components: int | None = None
    subspaces: int = 5
    iterations: int = 20
    directions: int = 1
    objective: Literal["evidence", "loo", "cv"] | Callable[[Array], float] = "evidence"
    definite: Definite = "series"
    ard: bool = True
    stop: Stop = "budget"
    form: Literal["distance", "product"] = "distance"
    acquisition: Acquisition = "ucb"
    distance: Distance = "rkhs"
    plus: str | None = None
    average: bool = True
    tuning: int = 6
    time_budget: float | None = None

    def learn(self, context: Context) -> Learned:
        """Find a kernel for scaled data."""
        self.check()
        if self.definite == "spectrum":
            raise InputError(
                "definite='spectrum' is for classification: a Gaussian process needs a kernel that is positive "
                "definite at rows not yet seen. Use 'series', 'clip' or 'flip'."
            )
        return Regression(self, context.data, context.engine, context.columns, context.seed, context.report).run()

    def learn_classes(self, X: Array, labels: Labels, seed: int, report: Report | None = None) -> LearnedForClasses:
        """Find a kernel for a support vector machine, X being scaled and the labels 0, 1, ..."""
        self.check()
        search = ClassSearch(self, X, labels, seed, report)
        learned = search.run()
        if self.plus is None or search.stopped or search.chosen is None or callable(self.objective):
            return learned
        try:
            return with_standard_kernels(search, learned, search.chosen)
        except KeyboardInterrupt:
            stopped: Stopped = "request"
        except TimeIsUp:
            stopped = "time"
        notes = (ENDED[stopped], *learned.notes)
        return replace(learned, functional=learned.kernel, stopped=stopped, notes=notes)

    def plan(self) -> SubspacePlan:
        """Return how the search runs."""
        return SubspacePlan(
            self.subspaces, self.iterations, self.directions, self.acquisition, self.distance, self.stop
        )

    def grid_size(self, columns: int) -> int:
        """Return how many pairs the grid has (KFO A.5.1: at least ten for each column)."""
        return self.grid if self.grid is not None else max(40, 10 * columns)

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain data; a function of one's own becomes its name."""
        settings = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if not isinstance(self.objective, str):
            settings["objective"] = "evidence"  # a file holds no code
        return settings

    def check(self) -> None:
        """Refuse settings that mean nothing."""
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise InputError(f"{name} must be {' or '.join(map(repr, known))}, not {getattr(self, name)!r}")
        if not callable(self.objective) and self.objective not in OBJECTIVES:
            known_names = " or ".join(map(repr, OBJECTIVES))
            raise InputError(f"objective must be {known_names}, or a function of a Gram matrix, not {self.objective!r}")
        least = {"subspaces": 0, "iterations": 0, "directions": 1, "tuning": 0, "grid": 2, "components": 1}
        for name, low in least.items():
            value = getattr(self, name)
            if value is None and name in ("grid", "components"):
                continue
            if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
                raise InputError(f"{name} must be a whole number of at least {low}, not {value!r}")
        if self.components is not None and self.components > MOST_COMPONENTS:
            raise InputError(f"components must be at most {MOST_COMPONENTS}, not {self.components!r}")
        if self.time_budget is not None and not (isinstance(self.time_budget, Real) and self.time_budget > 0):
            raise InputError(f"time_budget must be None or a number of seconds above zero, not {self.time_budget!r}")
        if self.plus is not None:
            parse(self.plus)


# KFO for a Gaussian process: the kernel inside, the rate of the hyperkernel, the shape, then all rows.

ROWS = 400  # that the shape is sought on; parameters are then fitted to all
PAIRS = 64  # rows whose pairs the grid is taken from
STARTS, FIRST_STEPS, STEPS, LAST_STEPS = 3, 60, 10, 150
FINALISTS = 3


@dataclass(eq=False)
class Regression:
    """One run of the search."""

    settings: KernelFunctional
    data: Data
    engine: Engine
    columns: list[int]
    seed: int
    report: Report | None
    candidates: list[Candidate] = field(default_factory=list)
    stopped: Stopped = ""

    def __post_init__(self) -> None:
        self.started = time.perf_counter()
        rng = np.random.default_rng(self.seed)
        self.rng = rng
        chosen = np.sort(rng.choice(self.data.count, min(ROWS, self.data.count), replace=False))
        self.rows = self.data.take(chosen)
        self.fitter = Fitter(self.rows, self.engine, self.settings.ard, self.seed)
        plan = self.settings.plan()
        self.total = len(self.insides()) + self.settings.tuning + len(RATES)
        self.total += plan.subspaces * (plan.iterations + 4) + FINALISTS

    def run(self) -> Learned:
        """Do it all; Ctrl-C and the end of the time budget give the best so far."""
        try:
            space, lead = self.tune(self.first())
            self.shapes(space, lead)
        except KeyboardInterrupt:
            self.stopped = "request"
        except _TimeIsUp:
            self.stopped = "time"
        if not any(c.fit is not None for c in self.candidates):
            if self.stopped == "request":
                raise KeyboardInterrupt  # there is nothing yet to go on with
            problem = self.candidates[0].message if self.candidates else "it was stopped too early"
            raise NumericalError(f"no kernel could be fitted: {problem}")
        return self.conclude()

    # -------------------------------------------------------------------------------------------------------- stages

    def insides(self) -> list[Expression]:
        """Return the kernels that may be inside, on the columns in use."""
        names = list(HYPERKERNELS[self.settings.hyperkernel])
        alone = self.settings.hyperkernel == "auto" and len(self.columns) == 1
        if alone and may_repeat(self.data.X[:, self.columns[0]]):
            names += ["PER", "SE*PER"]
        return [bind(parse(name), self.data.X.shape[1], default=self.columns) for name in names]

    def first(self) -> Lead:
        """Fit each kernel that may be inside, as it is; return the best."""
        leads = []
        for inside in self.insides():
            found = self.fitter.first(self.of_shape(inside, ((1,), (1.0,))), STARTS, FIRST_STEPS)
            outcome = self.outcome_of(found)
            if self.keep(found, 0, Step("as it is", inside), outcome):
                leads.append(Lead(found, outcome.value))
        if not leads:
            raise NumericalError("none of the kernels inside could be fitted; try another hyperkernel or fewer columns")
        return max(leads, key=lambda lead: lead.value)

    def of_shape(self, inside: Expression, series: tuple[tuple[int, ...], tuple[float, ...]]) -> Expression:
        """Return the kernel of a shape: a function of the distance, or a product of one for each column."""
        if self.settings.form == "distance" or len(self.columns) == 1:
            return Functional(inside, *series)
        symbol = next(inside.leaves()).symbol
        parts = [bind(parse(f"{symbol}({d})"), self.data.X.shape[1]) for d in self.columns]
        return product_of([Functional(part, *series) for part in parts])

    def reshaped(self, known: Fit, series: tuple[tuple[int, ...], tuple[float, ...]]) -> Expression:
        """Return the kernel of a fit with another shape, its parameters unset."""
        return with_series(known.expression, series)

    def tune(self, lead: Lead) -> tuple[KernelSpace, Lead]:
        """Tune the rate h: the kernel kappa(., no distance) of the space is judged after a few steps of fitting."""
        grid = self.grid(lead.fit)
        size = self.settings.components

        def judged(point: Array) -> ObjectiveValue:
            space = build_space(grid, float(np.clip(point[0], *RATE_LIMITS)), size, self.seed)
            outcome, found = self.judge(space, space.first, lead.fit, 0, Step("tuning", words="tuning"))
            lead.take(found, outcome.value)
            return outcome

        first = [np.array([rate]) for rate in RATES] if self.settings.tuning else [np.array([0.6])]
        point, _ = find_best(tune(judged, 1, self.settings.tuning, self.rng, first))
        return build_space(grid, float(np.clip(point[0], *RATE_LIMITS)), size, self.seed), lead

    def shapes(self, space: KernelSpace, lead: Lead) -> None:
        """Search the subspaces, from the best kernel so far."""

        def evaluate(beta: Array, subspace: int, step: int) -> ObjectiveValue:
            where = f"subspace {subspace}, step {step}" if step else f"subspace {subspace}, at random"
            where = where if subspace else "where the search begins"
            how = Step("subspace", number=subspace, words=where)
            outcome, found = self.judge(space, beta, lead.fit, max(1, subspace), how)
            lead.take(found, outcome.value)
            return outcome

        seeds = [space.first, space.coordinates(_shape(lead.fit, space.grid))]
        search_subspaces(space, evaluate, self.settings.plan(), self.rng, seeds)

    # ------------------------------------------------------------------------------------------------------- judging

    def grid(self, known: Fit) -> Array:
        """Return the grid: values of the kernel inside at pairs of rows."""
        functional = _first_functional(known.expression)
        inside = functional.inside
        rows = self.rows.X[self.rng.choice(self.rows.count, min(PAIRS, self.rows.count), replace=False)]
        matrix = fused.gram(compile_program(inside), values_of(inside), rows)
        units = (matrix / matrix[0, 0])[np.triu_indices(len(rows), 1)]
        return choose_grid(units, self.settings.grid_size(len(self.columns)))

    def judge(
        self, space: KernelSpace, beta: Array, start: Fit, depth: int, step: Step
    ) -> tuple[ObjectiveValue, Fit | None]:
        """Fit a kernel of the space for a few steps and return its objective."""
        series = space.series(beta, self.settings.definite)
        if series is None:
            return ObjectiveValue(-math.inf, "no weight of the kernel is above zero"), None
        found = self.fitter.onward(self.reshaped(start, series), start, STEPS)
        outcome = self.outcome_of(found)
        return outcome, found if self.keep(found, depth, step, outcome) else None

    def outcome_of(self, found: Fit) -> ObjectiveValue:
        """Return the objective of a fit, or why there is none."""
        if found.status == "failed":
            return ObjectiveValue(-math.inf, found.message)
        return evaluate_safely(lambda: self.value_of(found))

    def value_of(self, found: Fit) -> float:
        """Return the objective of a fit, larger being better."""
        objective = self.settings.objective
        if objective == "evidence":
            return found.log_evidence
        if objective == "loo":
            return found.leave_one_out
        if objective == "cv":
            return self.fitter.held_out(found)
        assert callable(objective)
        return float(objective(self.fitter.gram(found)))

    def keep(self, found: Fit, depth: int, step: Step, outcome: ObjectiveValue) -> bool:
        """Add a row to the table of candidates; tell whether it can be used."""
        seconds = time.perf_counter() - self.started
        message, status = (found.message, found.status) if outcome.good else (outcome.problem, "failed")
        self.candidates.append(
            Candidate(
                expression=found.expression, depth=depth, step=step, parent=None, log_evidence=found.log_evidence,
                parameters=self.count(found), score=-2.0 * outcome.value, status=status, message=message,
                seconds=seconds, fit=found if outcome.good else None,
            )
        )  # fmt: skip
        self.tell(depth, seconds)
        if self.settings.time_budget is not None and seconds > self.settings.time_budget:
            raise _TimeIsUp
        return outcome.good

    def count(self, found: Fit) -> int:
        """Return how many numbers were fitted: those of the kernel, the noise, and the weights of the series."""
        return found.parameters + len(_first_functional(found.expression).weights) - 1

    def tell(self, depth: int, seconds: float) -> None:
        """Report progress."""
        if self.report is not None:
            best = min(self.candidates, key=lambda c: c.score)
            left = None if self.settings.time_budget is None else max(0.0, self.settings.time_budget - seconds)
            done = min(len(self.candidates), self.total)
            self.report(Progress(done, self.total, "kernels", best.expression, best.score, seconds, left, depth))

    # ------------------------------------------------------------------------------------------------------ the end

    def conclude(self) -> Learned:
        """Fit the best few to all rows, from where they are; the best of them by the objective is the result."""
        ranked = sorted((c for c in self.candidates if c.fit is not None), key=lambda c: c.score)
        whole = Fitter(self.data, self.engine, self.settings.ard, self.seed)
        finals: list[Fit] = []
        for candidate in _different(ranked)[: 1 if self.stopped else FINALISTS]:
            assert candidate.fit is not None
            try:
                found = whole.onward(candidate.expression, candidate.fit, LAST_STEPS)
            except KeyboardInterrupt:
                self.stopped = "request"
                if finals:
                    break
                found = whole.onward(candidate.expression, candidate.fit, 1)
            if found.status != "failed":
                finals.append(replace(found, parameters=self.count(found)))
        if not finals:
            raise NumericalError("the kernels found could not be fitted to all rows; try a larger noise or fewer rows")
        self.fitter = whole
        best = max(finals, key=lambda f: self.outcome_of(f).value)
        notes = [ENDED[self.stopped]] if self.stopped else []
        members = [best, *(f for f in finals if f is not best)]
        if self.settings.plus is not None or callable(self.settings.objective) or not self.settings.average:
            members = [best]
        if self.settings.plus is not None:
            alone, best = best, self.added(best)
            members = [best]
            told = (
                "explained no more and were left out" if best is alone else "were added, and all were fitted together"
            )
            notes.append(f"the kernels {self.settings.plus} {told}")
        if self.rows.count < self.data.count:
            notes.append(f"the shape of the kernel was sought on {self.rows.count} of the {self.data.count} rows")
        rows = self.rows.count if self.rows.count < self.data.count else None
        kept, weights = stacked(members, self.data, self.engine)
        settled = self.settings.objective != "evidence"
        return Learned(best, tuple(self.candidates), kept, weights, tuple(notes), self.stopped, rows, settled)

    def added(self, best: Fit) -> Fit:
        """Return the sum of the kernel found and others, all fitted (KFO-MKL); the kernel found where that is worse."""
        others = bind(parse(self.settings.plus or ""), self.data.X.shape[1], default=self.columns)
        options = FitOptions(restarts=2, max_iterations=LAST_STEPS, seed=self.seed)
        found = fit(sum_of([best.expression, others]), self.data, self.engine, options)
        if found.status == "interrupted":
            self.stopped = "request"
        if found.status == "failed" or found.log_evidence < best.log_evidence:
            return best
        return replace(found, parameters=self.count(found))


@dataclass(eq=False)
class Lead:
    """The best fit so far and its objective, which may be the user's own and costly: it is asked once for each fit."""

    fit: Fit
    value: float

    def take(self, found: Fit | None, value: float) -> None:
        """Keep a fit that is better."""
        if found is not None and value > self.value:
            self.fit, self.value = found, value


class _TimeIsUp(Exception):
    """The time budget is spent."""


def _first_functional(expression: Expression) -> Functional:
    if isinstance(expression, Functional):
        return expression
    return next(f for child in expression.children for f in [_first_functional(child)])


def with_series(expression: Expression, series: tuple[tuple[int, ...], tuple[float, ...]]) -> Expression:
    """Return the kernel with the series of all its functionals replaced; values stay, as a place to start from."""
    if isinstance(expression, Functional):
        return Functional(expression.inside, *series)
    return expression.with_children([with_series(child, series) for child in expression.children])


def _shape(known: Fit, at: Array) -> Array:
    """The shape of a kernel that was found, at values of the kernel inside."""
    functional = _first_functional(known.expression)
    return np.array([functional.shape(float(u)) for u in at])


def _different(ranked: list[Candidate]) -> list[Candidate]:
    """Return the best for each kernel inside: shapes of the same are much alike, and say nothing new."""
    kept: dict[str, Candidate] = {}
    for candidate in ranked:
        inside = structure(_first_functional(candidate.expression).inside).text()
        kept.setdefault(inside, candidate)
    return list(kept.values())


# The parameters of a functional while its shape is being sought: a few steps from where the last one was.

FOLDS = 5
FEW_VALUES = 0.5  # distinct values for each row: with fewer the target was recorded in steps


@dataclass(frozen=True, eq=False)
class Fitter:
    """Fits kernels to the same rows; without `ard` all lengthscales of a kernel are one number (in scaled units)."""

    data: Data
    engine: Engine
    ard: bool = True
    seed: int = 0

    def first(self, expression: Expression, restarts: int, iterations: int) -> Fit:
        """Fit a kernel from several starts."""
        with one_thread():
            options = FitOptions(restarts=restarts, seed=self.seed, priors=True)
            problem = self._problem(expression, options)
            points, screened = starting_points(problem, options)
            runs = [self._run(problem, point, iterations) for point in points]
            return concluded(problem, runs, points[0], screened)

    def onward(self, expression: Expression, fit: Fit, iterations: int) -> Fit:
        """Fit a kernel of the same parameters from the values of another."""
        with one_thread():
            problem = self._problem(expression, FitOptions(priors=True))
            point = np.append(problem.objective.layout.to_free(fit.values), math.log(fit.noise))
            run = self._run(problem, np.clip(point, problem.bounds[:, 0], problem.bounds[:, 1]), iterations)
            return concluded(problem, [run], run.point, 0)

    def _problem(self, expression: Expression, options: FitOptions) -> Problem:
        """Weak priors, and a noise no smaller than the rounding of the target, keep the evidence from running away."""
        problem = prepare(expression, self.data, self.engine, options)
        bounds = problem.bounds.copy()
        bounds[-1, 0] = max(bounds[-1, 0], math.log(max(rounding(self.data.y), 1e-300)))
        return replace(problem, bounds=bounds)

    def _run(self, problem: Problem, point: Array, iterations: int) -> Run:
        if self.ard:
            return optimise(problem, point, iterations)
        return _tied(problem, point, iterations)

    def gram(self, fit: Fit) -> Array:
        """Return the Gram matrix of the rows."""
        return fused.gram(compile_program(fit.expression), fit.values, self.data.X)

    def held_out(self, fit: Fit) -> float:
        """Return the log density of rows left out in folds, at the parameters of the fit."""
        folds = np.random.default_rng(self.seed).permutation(self.data.count) % FOLDS
        program, total = compile_program(fit.expression), 0.0
        for fold in range(FOLDS):
            out = folds == fold
            posterior = self.engine.posterior(program, fit.values, Gaussian(fit.noise), self.data.take(~out))
            found = posterior.predict(self.data.X[out])
            total += float(log_density(self.data.y[out] - found.mean, found.variance + fit.noise).sum())
        return total


def rounding(target: Array) -> float:
    """Return the variance that recording in steps adds, step^2 / 12, where the values repeat so often that they are so.

    A target of a few values (0 and 1, a grade) can be hit exactly, and the density there has no upper end.
    """
    values = np.unique(target)
    if len(values) < 2 or len(values) > FEW_VALUES * len(target):
        return 0.0
    return float(np.diff(values).min()) ** 2 / 12.0


def _tied(problem: Problem, point: Array, iterations: int) -> Run:
    """L-BFGS-B with one number for all lengthscales of a base kernel: gradients by them add up."""
    groups = _groups(problem.objective.layout, len(point))
    count = groups.max() + 1
    low, high = problem.bounds.T
    bounds = [(float(low[groups == g].max()), float(high[groups == g].min())) for g in range(count)]
    start = np.array([np.clip(point[groups == g].mean(), *bounds[g]) for g in range(count)])

    def loss(z: Array) -> tuple[float, Array]:
        value, gradient = problem.objective(z[groups])
        return value, np.bincount(groups, gradient, count).astype(np.float64)

    options = {"maxiter": iterations, "maxcor": CORRECTIONS, "ftol": problem.tolerance, "gtol": FLAT}
    result = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return ended(problem, np.asarray(result.x)[groups], float(result.fun), result)


def _groups(layout: Layout, size: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Number the entries of a free vector (and the noise); the lengthscales of one base kernel share a number."""
    numbers: list[int] = []
    for slot in layout.slots:
        if slot.fitted:
            many = slot.spec.domain.free_size(slot.size)
            first = numbers[-1] + 1 if numbers else 0
            numbers += [first] * many if slot.spec.unit == "length" else list(range(first, first + many))
    while len(numbers) < size:
        numbers.append(numbers[-1] + 1 if numbers else 0)
    return np.array(numbers, dtype=np.intp)


# Weights of several kernels for predictions: those that foresee rows left out best (stacking).

STACKING_STEPS = 200
FAINT = 0.02  # a weight below which a kernel is left out


def stacked(fits: Sequence[Fit], data: Data, engine: Engine) -> tuple[tuple[Fit, ...], Weights]:
    """Return the fits that count, the first of them always, and their weights."""
    if len(fits) == 1:
        return tuple(fits), alone()
    densities = []
    for each in fits:
        left = engine.posterior(
            compile_program(each.expression), each.values, Gaussian(each.noise), data
        ).leave_one_out()
        densities.append(log_density(data.y - left.mean, left.variance))
    weights = stacking_weights(np.array(densities))
    kept = [i for i, w in enumerate(weights) if w >= FAINT or i == 0]
    shares = np.maximum(weights[kept], 1e-6)
    total = tuple(float(w) for w in shares / shares.sum())
    return tuple(fits[i] for i in kept), Weights(total, total, (1.0,) * len(kept))


def stacking_weights(densities: Array) -> Array:
    """Return the weights that maximise sum_i log sum_m w_m p_mi, for log densities (members x rows), by EM."""
    weights = np.full(len(densities), 1.0 / len(densities))
    for _ in range(STACKING_STEPS):
        shares = densities + np.log(np.maximum(weights, 1e-300))[:, None]
        weights = np.exp(shares - logsumexp(shares, axis=0)).mean(axis=1)
    return weights
