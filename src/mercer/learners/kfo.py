"""Kernel functional optimisation (KFO) for a Gaussian process: `KernelFunctional` and its search.

First the kernel inside, then the rate of the hyperkernel, then the shape, all on some rows; then the best on all rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.errors import InputError, NumericalError
from mercer.fitting.minimise import Clock, fit, minimise, run_parallel, starting_points
from mercer.fitting.problem import Evaluations, Fit, FitOptions, Problem, Run, prepare
from mercer.fitting.starts import may_repeat
from mercer.inference.contract import Data, Engine
from mercer.inference.likelihood import Gaussian
from mercer.kernels.algebra import structure
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression, find_all, product_of, sum_of
from mercer.kernels.functional import Functional
from mercer.kernels.parameters import bind, values_of
from mercer.kernels.text import parse
from mercer.learners.averaging import leave_out, log_density, stack_weights
from mercer.learners.bayesian import ObjectiveValue, SubspacePlan, evaluate_safely, find_best, search_subspaces, tune
from mercer.learners.classes import LearnedForClasses
from mercer.learners.contract import Candidate, Context, Learned, Learner, Step, Weights, read_time_budget
from mercer.learners.kernel_space import MOST_COMPONENTS, PLAIN, RATES, KernelSpace, Series, build_at, choose_grid
from mercer.learners.kfo_classes import ClassSearch
from mercer.learners.trials import Trials
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
GRID_ROWS = 64  # whose pairs the grid of the space is taken from


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
    subspaces, iterations, directions : S subspaces of that many random directions, T steps in each.
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
    average : predict with the best kernel for each kernel inside, weighted by how well they predict rows left out.
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
    definite: Literal["series", "clip", "flip", "spectrum"] = "series"
    ard: bool = True
    stop: Literal["budget", "regret"] = "budget"
    form: Literal["distance", "product"] = "distance"
    acquisition: Literal["ucb", "ei"] = "ucb"
    distance: Literal["rkhs", "l2"] = "rkhs"
    plus: str | None = None
    average: bool = True
    tuning: int = 6
    time_budget: float | None = None

    def learn(self, context: Context) -> Learned:
        """Find a kernel for scaled data."""
        self._check()
        if self.definite == "spectrum":
            raise InputError(
                "definite='spectrum' is for classification: a Gaussian process needs a kernel that is positive "
                "definite at rows not yet seen. Use 'series', 'clip' or 'flip'."
            )
        return FunctionalSearch(self, context).run()

    def learn_classes(self, context: Context) -> LearnedForClasses:
        """Find a kernel for a support vector machine on scaled rows, whose targets are the classes 0, 1, ..."""
        self._check()
        return ClassSearch(self, context, Trials(context.report, Clock(self.time_budget))).run()

    @property
    def insides(self) -> tuple[str, ...]:
        """The kernels that may be inside."""
        return HYPERKERNELS[self.hyperkernel]

    def plan(self) -> SubspacePlan:
        """Return how the search runs."""
        return SubspacePlan(
            self.subspaces, self.iterations, self.directions, self.acquisition, self.distance, self.stop
        )

    def draw_grid(self, inside: Expression, X: Array, columns: int, rng: np.random.Generator) -> Array:
        """Return the grid: values of the kernel inside at pairs of rows, ten for each column or more (KFO A.5.1)."""
        rows = X[rng.choice(len(X), min(GRID_ROWS, len(X)), replace=False)]
        matrix = fused.gram(compile_program(inside), values_of(inside), rows)
        count = self.grid if self.grid is not None else max(40, 10 * columns)
        return choose_grid((matrix / matrix[0, 0])[np.triu_indices(len(rows), 1)], count)

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain data; a file holds no code, so a function of one's own is left out."""
        return {**super().describe(), "objective": self.objective if isinstance(self.objective, str) else "evidence"}

    def _check(self) -> None:
        """Refuse settings that mean nothing."""
        self.check_choices(**CHOICES)
        self.check_flags("ard", "average")
        if not callable(self.objective) and self.objective not in OBJECTIVES:
            known_names = " or ".join(map(repr, OBJECTIVES))
            raise InputError(f"objective must be {known_names}, or a function of a Gram matrix, not {self.objective!r}")
        least = {"subspaces": 0, "iterations": 0, "directions": 1, "tuning": 0, "grid": 2, "components": 1}
        self.check_counts(**least, optional=("grid", "components"))
        if self.components is not None and self.components > MOST_COMPONENTS:
            raise InputError(f"components must be at most {MOST_COMPONENTS}, not {self.components!r}")
        read_time_budget(self.time_budget)
        if self.plus is not None:
            parse(self.plus)


@dataclass(frozen=True)
class FunctionalPolicy:
    """How many rows and steps a search for a shape takes."""

    rows: int = 400  # that the shape is sought on: every shape is a fit; the best are then fitted to all rows
    starts: int = 3  # of each kernel that may be inside
    first_steps: int = 60  # of L-BFGS-B from each of them
    steps: int = 10  # for each shape, from where the best is: shapes are much alike
    last_steps: int = 150  # of the best, with all rows
    finalists: int = 3  # kernels, with different kernels inside, that are fitted to all rows


class FunctionalSearch:
    """One run of the search. The best so far is the incumbent of `trials`."""

    def __init__(self, settings: KernelFunctional, context: Context) -> None:
        self.settings, self.context, self.policy = settings, context, context.policy(FunctionalPolicy)
        self.trials = Trials(context.report, Clock(settings.time_budget), context.count_jobs())
        self.data, self.columns = context.data, context.columns
        self.rng = np.random.default_rng(context.seed)
        count = min(self.policy.rows, self.data.count)
        self.rows = self.data.take(np.sort(self.rng.choice(self.data.count, count, replace=False)))
        self.fitter = Fitter(self.rows, context.engine, settings.ard, context.seed)
        names = list(settings.insides)
        alone = settings.hyperkernel == "auto" and len(self.columns) == 1
        if alone and may_repeat(self.data.X[:, self.columns[0]]):
            names += ["PER", "SE*PER"]
        self.insides = [bind(parse(name), self.data.X.shape[1], default=self.columns) for name in names]
        plan = settings.plan()
        self.total = len(names) + settings.tuning + len(RATES)
        self.total += plan.subspaces * (plan.iterations + 4) + self.policy.finalists

    def run(self) -> Learned:
        """Return the best kernel; Ctrl-C and the end of the time budget give the best so far."""
        with self.trials.stopping():
            self._fit_insides()
            self._search_shapes(self._tune_rate())
        if self.trials.best is None:
            raise self.trials.failure("no kernel could be fitted")
        return self._conclude()

    @property
    def lead(self) -> Fit:
        """The best fit so far."""
        assert self.trials.incumbent is not None
        return self.trials.incumbent.full_fit

    # -------------------------------------------------------------------------------------------------------- stages

    def _fit_insides(self) -> None:
        """Fit each kernel that may be inside, as it is: as a function of the distance, or a product over columns."""
        policy, work = self.policy, {}
        for i, inside in enumerate(self.insides):
            plain: Expression = Functional(inside, *PLAIN)
            if self.settings.form == "product" and len(self.columns) > 1:
                symbol = next(inside.leaves()).symbol
                parts = [bind(parse(f"{symbol}({d})"), self.data.X.shape[1]) for d in self.columns]
                plain = product_of([Functional(part, *PLAIN) for part in parts])
            work[i] = plain, policy.starts, policy.first_steps
        for i, found in run_parallel(self.fitter.fit, work, self.trials.jobs, ordered=True):
            self._add(found, 0, Step("as it is", self.insides[i]))
        if self.trials.best is None:
            raise NumericalError("none of the kernels inside could be fitted; try another hyperkernel or fewer columns")

    def _tune_rate(self) -> KernelSpace:
        """Tune the rate h: the kernel kappa(., no distance) of the space is scored after a few steps of fitting."""
        settings, inside = self.settings, next(find_all(self.lead.expression, Functional)).inside
        grid = settings.draw_grid(inside, self.rows.X, len(self.columns), self.rng)

        def score(point: Array) -> ObjectiveValue:
            space = build_at(point, grid, settings.components, self.context.seed)
            return self._score_shape(space, space.first, 0, Step("tuning", words="tuning"))

        first = [np.array([rate]) for rate in RATES] if settings.tuning else [np.array([0.6])]
        best, _ = find_best(tune(score, 1, settings.tuning, self.rng, first))
        return build_at(best, grid, settings.components, self.context.seed)

    def _search_shapes(self, space: KernelSpace) -> None:
        """Search the subspaces, from the best kernel so far."""

        def evaluate(beta: Array, subspace: int, step: int) -> ObjectiveValue:
            words = f"subspace {subspace}, step {step}" if step else f"subspace {subspace}, at random"
            words = words if subspace else "where the search begins"
            return self._score_shape(space, beta, max(1, subspace), Step("subspace", number=subspace, words=words))

        functional = next(find_all(self.lead.expression, Functional))
        found = np.array([functional.shape(float(u)) for u in space.grid])
        search_subspaces(space, evaluate, self.settings.plan(), self.rng, [space.first, space.coordinates(found)])

    # ------------------------------------------------------------------------------------------------------- scoring

    def _score_shape(self, space: KernelSpace, beta: Array, depth: int, step: Step) -> ObjectiveValue:
        """Fit a kernel of the space for a few steps from the best so far and return its objective."""
        series = space.series(beta, self.settings.definite)
        if series is None:
            return ObjectiveValue(-math.inf, "no weight of the kernel is above zero")
        lead = self.lead
        found = self.fitter.continue_fit(_with_series(lead.expression, series), lead, self.policy.steps)
        return self._add(found, depth, step)

    def _evaluate(self, found: Fit) -> ObjectiveValue:
        """Return the objective of a fit, larger being better, or why there is none."""
        if found.status == "failed":
            return ObjectiveValue(-math.inf, found.message)
        objective = self.settings.objective
        if callable(objective):
            gram = fused.gram(compile_program(found.expression), found.values, self.fitter.data.X)
            return evaluate_safely(lambda: objective(gram))
        if objective == "cv":
            return evaluate_safely(lambda: self.fitter.score_held_out(found))
        return evaluate_safely(lambda: found.log_evidence if objective == "evidence" else found.leave_one_out)

    def _add(self, found: Fit, depth: int, step: Step) -> ObjectiveValue:
        """Add a fit to the table of candidates, report and check the time; return its objective."""
        # the objective may be the user's own and costly: it is asked once for each fit
        trials, outcome = self.trials, self._evaluate(found)
        message, status = (found.message, found.status) if outcome.good else (outcome.problem, "failed")
        trials.add(
            Candidate(
                expression=found.expression, depth=depth, step=step, parent=None, log_evidence=found.log_evidence,
                parameters=_count_parameters(found), score=-2.0 * outcome.value, status=status, message=message,
                seconds=trials.clock.seconds, fit=found if outcome.good else None,
            )
        )  # fmt: skip
        trials.tell(min(len(trials.candidates), self.total), self.total, depth)
        trials.clock.check()
        return outcome

    # ------------------------------------------------------------------------------------------------------ the end

    def _conclude(self) -> Learned:
        """Fit the best few to all rows, from where they are; the best of them by the objective is the result."""
        trials, settings = self.trials, self.settings
        finals = self._fit_to_all()
        best = max(finals, key=lambda f: self._evaluate(f).value)
        members = [best, *(f for f in finals if f is not best)]
        if callable(settings.objective) or not settings.average:
            members = [best]
        trials.note_stop("search", "kernel")
        if settings.plus is not None:
            found, best = best, self._add_kernels(best, settings.plus)
            members = [best]
            end = "explained no more and were left out" if best is found else "were added, and all were fitted together"
            trials.notes.append(f"the kernels {settings.plus} {end}")
        rows = None
        if self.rows.count < self.data.count:
            rows = self.rows.count
            trials.notes.append(f"the shape of the kernel was sought on {rows} of the {self.data.count} rows")
        kept, weights = stack(members, self.data, self.context.engine)
        return trials.conclude(best, kept, weights, rows=rows, settled=settings.objective != "evidence")

    def _fit_to_all(self) -> list[Fit]:
        trials, policy = self.trials, self.policy
        best: dict[str, Fit] = {}  # for each kernel inside: shapes of the same are much alike, and say nothing new
        for candidate in sorted(trials.candidates, key=lambda c: c.score):
            if candidate.fit is not None:
                inside = structure(next(find_all(candidate.expression, Functional)).inside).text()
                best.setdefault(inside, candidate.fit)
        chosen = list(best.values())[: 1 if trials.stopped else policy.finalists]
        self.fitter = replace(self.fitter, data=self.data)
        work = {i: (fit.expression, fit, policy.last_steps) for i, fit in enumerate(chosen)}
        finals: list[Fit] = []
        with trials.stopping():
            for _, found in run_parallel(self.fitter.continue_fit, work, trials.jobs, ordered=True):
                finals.append(found)
        if not finals:
            finals = [self.fitter.continue_fit(chosen[0].expression, chosen[0], 1)]
        finals = [replace(f, parameters=_count_parameters(f)) for f in finals if f.status != "failed"]
        if not finals:
            raise NumericalError("the kernels found could not be fitted to all rows; try a larger noise or fewer rows")
        return finals

    def _add_kernels(self, best: Fit, plus: str) -> Fit:
        """Return the sum of the kernel found and others, all fitted (KFO-MKL); the kernel found where that is worse."""
        others = bind(parse(plus), self.data.X.shape[1], default=self.columns)
        options = FitOptions(2, max_iterations=self.policy.last_steps, seed=self.context.seed, n_jobs=self.trials.jobs)
        found = fit(sum_of([best.expression, others]), self.data, self.context.engine, options)
        if found.status == "interrupted":
            self.trials.stopped = "request"
        if found.status == "failed" or found.log_evidence < best.log_evidence:
            return best
        return replace(found, parameters=_count_parameters(found))


def _with_series(expression: Expression, series: Series) -> Expression:
    """Return the kernel with the series of all its functionals replaced; values stay, as a place to start from."""
    if isinstance(expression, Functional):
        return Functional(expression.inside, *series)
    return expression.with_children([_with_series(child, series) for child in expression.children])


def _count_parameters(found: Fit) -> int:
    """Return how many numbers were fitted: those of the kernel, the noise, and the weights of the series."""
    return found.parameters + len(next(find_all(found.expression, Functional)).weights) - 1


# ----------------------------------------------------------------------------------- parameters of a functional

FOLDS = 5
FEW_VALUES = 0.5  # distinct values for each row: with fewer the target was recorded in steps


@dataclass(frozen=True, eq=False)
class Fitter:
    """Fits kernels to the same rows; without `ard` all lengthscales of a kernel are one number (in scaled units)."""

    data: Data
    engine: Engine
    ard: bool = True
    seed: int = 0

    def fit(self, expression: Expression, restarts: int, iterations: int) -> Fit:
        """Fit a kernel from several starts."""
        with one_thread():
            options = FitOptions(restarts=restarts, seed=self.seed, priors=True)
            problem = self._problem(expression, options)
            points, screened = starting_points(problem, options)
            runs = [self._run(problem, point, iterations) for point in points]
            return problem.conclude(runs, points[0], screened)

    def continue_fit(self, expression: Expression, fit: Fit, iterations: int) -> Fit:
        """Fit a kernel of the same parameters from the values of another."""
        with one_thread():
            problem = self._problem(expression, FitOptions(priors=True))
            run = self._run(problem, problem.point(fit.values, fit.likelihood), iterations)
            return problem.conclude([run], run.point, 0)

    def _problem(self, expression: Expression, options: FitOptions) -> Problem:
        """Weak priors, and a noise no smaller than the rounding of the target, keep the evidence from running away."""
        problem = prepare(expression, self.data, self.engine, options)
        bounds = problem.bounds.copy()
        bounds[-1, 0] = max(bounds[-1, 0], math.log(max(rounding_variance(self.data.y), 1e-300)))
        return replace(problem, bounds=bounds)

    def _run(self, problem: Problem, point: Array, iterations: int) -> Run:
        if self.ard:
            return minimise(problem, [point], iterations)[0]
        return _minimise_tied(problem, point, iterations)

    def score_held_out(self, fit: Fit) -> float:
        """Return the log density of rows left out in folds, at the parameters of the fit."""
        folds = np.random.default_rng(self.seed).permutation(self.data.count) % FOLDS
        program, total = compile_program(fit.expression), 0.0
        for fold in range(FOLDS):
            out = folds == fold
            posterior = self.engine.posterior(program, fit.values, Gaussian(fit.noise), self.data.take(~out))
            found = posterior.predict(self.data.X[out])
            total += float(log_density(self.data.y[out] - found.mean, found.variance + fit.noise).sum())
        return total


def rounding_variance(target: Array) -> float:
    """Return the variance that recording in steps adds, step^2 / 12, where the values repeat so often that they are so.

    A target of a few values (0 and 1, a grade) can be hit exactly, and the density there has no upper end.
    """
    values = np.unique(target)
    if len(values) < 2 or len(values) > FEW_VALUES * len(target):
        return 0.0
    return float(np.diff(values).min()) ** 2 / 12.0


@dataclass(frozen=True, eq=False)
class _Tied:
    """A problem with one number for all lengthscales of a base kernel: gradients by them add up."""

    problem: Problem
    groups: np.ndarray[tuple[int], np.dtype[np.intp]]
    bounds: Array
    tolerance: float
    data: Data

    def loss(self, point: Array, record: Evaluations | None = None) -> tuple[float, Array]:
        value, gradient = self.problem.loss(point[self.groups])
        return value, np.bincount(self.groups, gradient, len(point)).astype(np.float64)


def _minimise_tied(problem: Problem, point: Array, iterations: int) -> Run:
    """Minimise with one number for the lengthscales of each base kernel; the others, the noise last, are free."""
    numbers: list[int] = []
    for slot in problem.layout.slots:
        if slot.fitted:
            many, first = slot.spec.domain.free_size(slot.size), numbers[-1] + 1 if numbers else 0
            numbers += [first] * many if slot.spec.unit == "length" else list(range(first, first + many))
    while len(numbers) < len(point):
        numbers.append(numbers[-1] + 1 if numbers else 0)
    groups = np.array(numbers, dtype=np.intp)
    low, high = problem.bounds.T
    own = [groups == g for g in range(groups.max() + 1)]
    bounds = np.array([(low[mine].max(), high[mine].min()) for mine in own])
    start = np.clip([point[mine].mean() for mine in own], bounds[:, 0], bounds[:, 1])
    run = minimise(_Tied(problem, groups, bounds, problem.tolerance, problem.data), [start], iterations)[0]
    return replace(run, point=run.point[groups], trail=None)


# ------------------------------------------------------------------------------------------------------------ averaging

FAINT = 0.02  # a weight below which a kernel is left out
NO_PRIOR = 1e-12  # of stacking: the data alone speak


def stack(fits: Sequence[Fit], data: Data, engine: Engine) -> tuple[tuple[Fit, ...], Weights]:
    """Return the fits that count, the first of them always, and weights by which they predict rows left out best."""
    if len(fits) == 1:
        return tuple(fits), Weights()
    left = [leave_out(each, data, engine) for each in fits]
    usable = [(each, out) for each, out in zip(fits, left, strict=True) if out is not None]
    weights = stack_weights([out for _, out in usable], strength=NO_PRIOR, hopeless=math.inf)
    kept = [(each, w) for (each, _), w in zip(usable, weights, strict=True) if w >= FAINT or each is fits[0]]
    shares = np.maximum([w for _, w in kept], 1e-6)
    total = tuple(float(w) for w in shares / shares.sum())
    return tuple(each for each, _ in kept), Weights(total, total, (1.0,) * len(kept))
