"""Kernel functional optimisation (KFO) for a Gaussian process: `KernelFunctional` and its search.

First the kernel inside, then the rate of the hyperkernel, then the shape, all on some rows; then the best on all rows,
unless it gains less over the kernel inside as it is than BIC asks for one number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.errors import InputError, NumericalError
from mercer.fitting.minimise import fit, run_parallel
from mercer.fitting.problem import Fit, FitOptions
from mercer.fitting.starts import may_repeat
from mercer.inference.contract import Data, Engine
from mercer.kernels.algebra import structure
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression, Product, Sum, contains, find_all, product_of, sum_of
from mercer.kernels.functional import Functional, count_dimensions
from mercer.kernels.parameters import bind, layout, values_of
from mercer.kernels.text import parse
from mercer.learners.averaging import leave_out, stack_weights
from mercer.learners.bayesian import ObjectiveValue, SubspacePlan, evaluate_safely, find_best, search_subspaces, tune
from mercer.learners.classes import LearnedForClasses
from mercer.learners.contract import (
    Candidate,
    Context,
    Learned,
    Learner,
    Step,
    Weights,
    change_settings,
    read_time_budget,
)
from mercer.learners.criteria import bic
from mercer.learners.hyperkernels import WORTH_NOTING, Hyperkernel, OwnSpace, span_own
from mercer.learners.kernel_space import (
    MOST_COMPONENTS,
    PLAIN,
    RATES,
    SPECTRA,
    Definite,
    KernelSpace,
    build_at,
    choose_grid,
    make_bands,
)
from mercer.learners.kfo_classes import ClassPolicy, ClassSearch
from mercer.learners.kfo_fitter import Fitter, first_term, with_series
from mercer.learners.margin import PAPER_COSTS
from mercer.learners.trials import Trials

HYPERKERNELS = {
    "matern-harmonic": ("M32",),
    "matern12-harmonic": ("M12",),
    "matern52-harmonic": ("M52",),
    "se-harmonic": ("SE",),
    "periodic-harmonic": ("PER",),
    "matern-linear": ("M32",),  # kappa + l l', l being the linear kernel: not stationary
    "auto": ("M12", "M32", "SE"),
}
CHOICES: dict[str, tuple[Any, ...]] = {
    "definite": ("series", "clip", "flip", *SPECTRA),
    "start": ("known", "zero"),
    "tuning_acquisition": ("ei", "ucb"),
    "form": ("distance", "product"),
    "stop": ("budget", "regret"),
    "acquisition": ("ucb", "ei"),
    "distance": ("rkhs", "l2"),
}
OBJECTIVES = ("evidence", "loo", "cv")
OWN = "own"  # what a file calls a hyperkernel that it does not hold
GRID_ROWS = 64  # whose pairs the grid of the space is taken from


@dataclass(frozen=True)
class FunctionalPolicy:
    """How many rows and steps a search for a shape takes."""

    rows: int | None = 400  # that the shape is sought on (None: all): every shape is a fit; the best then see all rows
    starts: int = 3  # of each kernel that may be inside
    first_steps: int = 60  # of L-BFGS-B from each of them
    steps: int = 10  # for each shape, from where the best is: shapes are much alike
    weight_steps: int = 40  # for the weights of the best shape, along their gradient
    stretches: tuple[float, ...] = (1.0, 3.0, 1.0)  # of the lengthscales before each round: powers only shorten them
    bands: int = 6  # of frequencies, tried last, where weights of either sign are sure to make a kernel; 0: none
    band_rounds: int = 3  # of their weights, and then of the parameters
    last_steps: int = 150  # of the best, with all rows
    finalists: int = 3  # kernels, with different kernels inside, that are fitted to all rows
    compares: bool = True  # the best with the kernel inside as it is, which may predict as well
    kept_share: float = 0.1  # of a time budget, for the fit of the best to all rows, or the last machine


@dataclass(frozen=True)
class KernelFunctional(Learner):
    """Kernel functional optimisation (KFO, Arun Kumar et al. 2021): Bayesian optimisation in a space of kernels.

    Parameters
    ----------
    hyperkernel : "matern-harmonic" is the paper's; also "matern12-", "matern52-", "se-" and "periodic-harmonic", which
        have another kernel inside. "matern-linear" is the paper's and a linear kernel, which is not stationary. "auto"
        tries Matern 1/2, Matern 3/2 and SE inside, and for a single column that may repeat PER and SE*PER, goes on with
        the best, and tries a linear kernel alone and beside it. For classes the linear kernel is left to `plus`.
        Or your own, for regression: a function kappa(x, x', z, z') of rows, the last axis their columns (with mean 0
        and spread 1), x and x' of shape (n, 1, D), z and z' (1, m, D), that returns (n, m). It is written as powers of
        SE, Matern 3/2 or Matern 1/2 and a linear kernel: the model is saved without it.
    grid : pairs on which the space of kernels is spanned; None: ten for each column, at least 40.
    components : coordinates of a kernel; None: all that are more than rounding, at most 16.
    subspaces, iterations, directions : S subspaces of that many random directions, T steps in each; with no subspace
        the kernel inside is taken as it is.
    objective : "evidence", "loo" (leave one out), "cv" (rows left out in folds), or your own function of the Gram
        matrix of the rows; larger is better. A point where it raises, or gives no finite number, is marked and avoided.
        For classes it is always "cv", or your own.
    definite : how a kernel is made positive definite: "clip" (weights alpha below zero become zero), "flip" (they lose
        their sign), "series" (the same for the weights of the power series; changes least), or, for classification
        only, by the eigenvalues of the Gram matrix: "spectrum" (those below zero become zero), "spectrum-flip" (they
        lose their sign), "spectrum-shift" (all become larger by as much as the lowest is below zero).
    ard : one lengthscale for each column; False: one for all (of columns scaled to the same spread).
    form : "distance" a function of one distance, or "product" of one such function for each column.
    stop : "budget" takes all T steps, "regret" leaves a subspace when no gain worth having is to be expected there.
    acquisition : "ucb" with the paper's beta_t, or "ei" (expected improvement).
    distance : between kernels, "rkhs" or "l2".
    plus : kernels to add to the one found, such as "SE + M32 + LIN"; their variances are fitted with it (KFO-MKL). For
        classes anything but None adds SE, M32 and LIN, with weights tuned by cross-validation.
    average : predict with the best kernel for each kernel inside, weighted by how well they predict rows left out.
    tuning, tuning_acquisition : steps of Bayesian optimisation of the hyperkernel's own numbers, by "ei" or "ucb".
    start : "known": the first kernel of the space, and the kernel inside, are known when the subspaces are searched;
        "zero": nothing is, as in Algorithm 1, and the best of one subspace enters the next at its own size.
    time_budget : seconds after which the best so far is taken.
    policy, class_policy : rows, steps and comparisons, for regression and for classes; None: those of the estimator,
        or the defaults.
    """

    hyperkernel: str | Hyperkernel = "auto"
    grid: int | None = None
    components: int | None = None
    subspaces: int = 5
    iterations: int = 20
    directions: int = 1
    objective: Literal["evidence", "loo", "cv"] | Callable[[Array], float] = "evidence"
    definite: Definite = "series"
    ard: bool = True
    stop: Literal["budget", "regret"] = "budget"
    form: Literal["distance", "product"] = "distance"
    acquisition: Literal["ucb", "ei"] = "ucb"
    distance: Literal["rkhs", "l2"] = "rkhs"
    plus: str | None = None
    average: bool = True
    tuning: int = 6
    tuning_acquisition: Literal["ei", "ucb"] = "ei"
    start: Literal["known", "zero"] = "known"
    time_budget: float | None = None
    policy: FunctionalPolicy | None = None
    class_policy: ClassPolicy | None = None

    policy_kinds = (("policy", FunctionalPolicy), ("class_policy", ClassPolicy))
    letters = (("S", "subspaces"), ("T", "iterations"), ("d", "directions"), ("N_g", "grid"))

    @classmethod
    def paper(cls, *, classes: bool = False, **changes: Any) -> KernelFunctional:
        """Return the settings of KFO sections 3 to 5 and appendix A.5 as printed, with your changes.

        The Matern harmonic hyperkernel of one distance on a grid of ten pairs for each column (40 at least). A subspace
        is a line K# + lambda k, lambda in [0, 1]: K# is the best kernel so far, zero at first, and k one kernel drawn
        at random (d = 1, as in 4.3; Algorithm 1 draws d of them, `directions`). S = 5 subspaces (`subspaces`), on each
        four values of lambda at random and then T = 20 by GP-UCB (`iterations`), with the printed beta_t. For
        regression the objective is the evidence, and weights alpha below zero become zero. `classes`: C-SVMs, 10-fold
        cross-validation of the training rows, C from 10^-3 to 10^3, and the spectrum of the Gram matrix is clipped.
        No comparison with other kernels, no averaging, no weights along a gradient. With four rows of a class:
        `paper(classes=True, class_policy=replace(KernelFunctional.paper(classes=True).class_policy, folds=4))`.

        Different from the paper on purpose. The objective never sees test rows (the paper minimises the test error),
        and half the log loss of the rows left out is added to their error, in which ties are many. beta_t is that of
        section 3.2, as A.1.1 prints another. Columns and target are standardised.

        The grid is not evenly spaced (A.3): the hyperkernel depends on pairs of rows by the values of the kernel inside
        alone, and the grid has quantiles of these, with one for no distance. The functions kappa(., pair) are written
        as powers of the kernel inside. A constant is left out of every kernel, which a Gaussian process has as its
        level and an SVM as its bias, and the rest is scaled to one at no distance.

        h is tuned by Bayesian optimisation, GP-UCB too, but before the subspaces and between 0.02 and 0.98. The
        lengthscale is not searched in (0, 1]: for regression it is fitted by evidence for every kernel, in ten steps,
        with variance and noise and under weak priors; for classes cross-validation of the kernel inside chooses it.
        The surrogate takes its lengthscale and noise from a grid and its variance from the observations, and compares
        129 values of lambda. For regression on more rows than exact inference takes (3,000 without a GPU) the kernel
        is learned from a sample, and fitted to all.

        Not printed: N', the components, of which all above rounding are kept, at most 16; delta of beta_t, 0.1; how
        long the hyperkernel is tuned, 6 steps after 3 values of h; how many values of lambda are random, but for
        Table 3, which has four.
        """
        alone = FunctionalPolicy(rows=None, stretches=(), bands=0, finalists=1, compares=False)
        svms = ClassPolicy(
            folds=10, fewer_folds=False, costs=PAPER_COSTS, by_svm=True, repeats=1, compared_rows=None, compares=False
        )
        settings = cls(
            "matern-harmonic", definite="spectrum" if classes else "clip", ard=False, average=False,
            tuning_acquisition="ucb", start="zero", policy=alone, class_policy=svms,
        )  # fmt: skip
        return change_settings(settings, changes, "classes")

    def learn(self, context: Context) -> Learned:
        """Find a kernel for scaled data."""
        self._check_whole()
        if self.definite in SPECTRA:
            raise InputError(
                f"definite={self.definite!r} is for classification: a Gaussian process needs a kernel that is positive "
                "definite at rows not yet seen. Use 'series', 'clip' or 'flip'."
            )
        return FunctionalSearch(self, context).run()

    def learn_classes(self, context: Context) -> LearnedForClasses:
        """Find a kernel for a support vector machine on scaled rows, whose targets are the classes 0, 1, ..."""
        self._check_whole()
        if callable(self.hyperkernel):
            raise InputError("a hyperkernel of your own is for regression; for classes name one, such as 'auto'")
        policy = self.policy or context.policy(FunctionalPolicy)
        clock = context.start_clock(self.seconds_allowed, policy.kept_share)
        return ClassSearch(self, context, Trials(context.report, clock)).run()

    @property
    def seconds_allowed(self) -> float | None:
        """The time budget."""
        return read_time_budget(self.time_budget)

    @property
    def insides(self) -> tuple[str, ...]:
        """The kernels that may be inside; a hyperkernel of one's own tells when it is asked."""
        return HYPERKERNELS[self.hyperkernel] if isinstance(self.hyperkernel, str) else ()

    @property
    def has_linear(self) -> bool:
        """Whether a linear kernel is in the space; "auto" leaves it out where it is not known what is asked for."""
        return self.hyperkernel == "matern-linear" or (self.hyperkernel == "auto" and not callable(self.objective))

    def plan(self) -> SubspacePlan:
        """Return how the search runs."""
        return SubspacePlan(
            self.subspaces, self.iterations, self.directions, self.acquisition, self.distance, self.stop,
            keeps_size=self.start == "zero",
        )  # fmt: skip

    def draw_grid(self, inside: Expression, X: Array, columns: int, rng: np.random.Generator) -> Array:
        """Return the grid: values of the kernel inside at pairs of rows, ten for each column or more (KFO A.5.1)."""
        rows = X[rng.choice(len(X), min(GRID_ROWS, len(X)), replace=False)]
        matrix = fused.gram(compile_program(inside), values_of(inside), rows)
        return choose_grid((matrix / matrix[0, 0])[np.triu_indices(len(rows), 1)], self.count_grid(columns))

    def count_grid(self, columns: int) -> int:
        """Return how many pairs the grid has."""
        return self.grid if self.grid is not None else max(40, 10 * columns)

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain data; a file holds no code, so functions of one's own are left out."""
        objective, hyperkernel = (x if isinstance(x, str) else None for x in (self.objective, self.hyperkernel))
        return {**super().describe(), "objective": objective or "evidence", "hyperkernel": hyperkernel or OWN}

    def _check_whole(self) -> None:
        """Refuse settings that nothing can be learned with."""
        if self.hyperkernel == OWN:
            raise InputError("hyperkernel='own' stands for a function that the file does not hold: give it again")
        self.check()

    def check(self) -> None:
        """Refuse settings that mean nothing."""
        self.check_choices(**CHOICES)
        self.check_flags("ard", "average")
        self.check_policies()
        if callable(self.hyperkernel) and self.form != "distance":
            raise InputError("a hyperkernel of your own takes all columns together: it goes with form='distance'")
        if not callable(self.hyperkernel) and self.hyperkernel not in (*HYPERKERNELS, OWN):
            names = " or ".join(map(repr, HYPERKERNELS))
            raise InputError(f"hyperkernel must be {names}, or a function of four rows, not {self.hyperkernel!r}")
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


class FunctionalSearch:
    """One run of the search. The best so far is the incumbent of `trials`."""

    def __init__(self, settings: KernelFunctional, context: Context) -> None:
        self.settings, self.context = settings, context
        self.policy = settings.policy or context.policy(FunctionalPolicy)
        clock = context.start_clock(settings.seconds_allowed, self.policy.kept_share)
        self.trials = Trials(context.report, clock, context.count_jobs())
        self.data, self.columns = context.data, context.columns
        self.rng = np.random.default_rng(context.seed)
        count = min(self.policy.rows or self.data.count, self.data.count)
        self.rows = self.data.take(np.sort(self.rng.choice(self.data.count, count, replace=False)))
        self.fitter = Fitter(self.rows, context.engine, settings.ard, context.seed)
        names, self.has_linear = list(settings.insides), settings.has_linear
        self.own: OwnSpace | None = None
        self.start: Fit | None = None  # of shapes of a hyperkernel of one's own, whose lengthscales are not the lead's
        if callable(settings.hyperkernel):
            count = settings.count_grid(len(self.columns))
            chosen = self.rows.X[:, self.columns]
            self.own = span_own(settings.hyperkernel, chosen, count, settings.components, self.rng)
            names = [] if self.own.inside is None else [next(self.own.inside.leaves()).symbol]
            self.has_linear = self.own.linear
        alone = settings.hyperkernel == "auto" and len(self.columns) == 1
        if alone and may_repeat(self.data.X[:, self.columns[0]]):
            names += ["PER", "SE*PER"]
        self.insides = [self._bind(name) for name in names]
        plan = settings.plan()
        self.total = len(names) + 2 * self.has_linear + settings.tuning + len(RATES) + len(self.policy.stretches)
        self.total += plan.subspaces * (plan.iterations + 4) + self.policy.finalists + self.policy.band_rounds

    def run(self) -> Learned:
        """Return the best kernel; Ctrl-C and the end of the time budget give the best so far."""
        with self.trials.stopping():
            self._fit_insides()
            if self.has_linear:
                self._fit_linear()
            if contains(self.lead.expression, Functional) and self.settings.subspaces:
                self._search_shapes(self._tune_rate() if self.own is None else self._begin_own(self.own))
                self._improve_weights()
                self._search_bands()
        if self.trials.best is None:
            raise self.trials.failure("no kernel could be fitted")
        return self._conclude()

    @property
    def lead(self) -> Fit:
        """The best fit so far."""
        assert self.trials.incumbent is not None
        return self.trials.incumbent.full_fit

    # -------------------------------------------------------------------------------------------------------- stages

    def _bind(self, text: str) -> Expression:
        return bind(parse(text), self.data.X.shape[1], default=self.columns)

    def _fit_insides(self) -> None:
        """Fit each kernel that may be inside, as it is: as a function of the distance, or a product over columns."""
        policy, work = self.policy, {}
        for i, inside in enumerate(self.insides):
            plain: Expression = Functional(inside, *PLAIN)
            if isinstance(inside, Product):
                plain = product_of([*inside.factors[:-1], Functional(inside.factors[-1], *PLAIN)])
            if self.settings.form == "product" and len(self.columns) > 1:
                symbol = next(inside.leaves()).symbol
                parts = [bind(parse(f"{symbol}({d})"), self.data.X.shape[1]) for d in self.columns]
                plain = product_of([Functional(part, *PLAIN) for part in parts])
            work[i] = plain, policy.starts, policy.first_steps
        if self.has_linear:
            work[len(work)] = self._bind("LIN"), policy.starts, policy.first_steps
        alone: dict[str, Fit] = {}
        for i, found in run_parallel(self.fitter.fit, work, self.trials.jobs, ordered=True):
            inside = [*self.insides, self._bind("LIN")][i]
            alone[structure(inside).text()] = found
            if isinstance(inside, Product):
                found = self._fit_from_factor(found, inside, alone)
            self._add(found, 0, Step("as it is", inside))
        if self.trials.best is None:
            raise NumericalError("none of the kernels inside could be fitted; try another hyperkernel or fewer columns")

    def _fit_from_factor(self, found: Fit, inside: Product, alone: Mapping[str, Fit]) -> Fit:
        """Return the better of a fit of SE*PER and one from PER alone: a period is found more easily there."""
        factor = alone.get(structure(inside.factors[-1]).text())
        if factor is None or factor.status == "failed":
            return found
        other = self.fitter.continue_in_product(factor, found.expression, self.policy.first_steps)
        return max((found, other), key=lambda fit: -math.inf if fit.status == "failed" else fit.log_evidence)

    def _fit_linear(self) -> None:
        """Fit the linear kernel beside the best of the others."""
        policy, linear = self.policy, self._bind("LIN")
        others = [c for c in self.trials.candidates if c.fit is not None and contains(c.expression, Functional)]
        if others:
            both = sum_of([min(others, key=lambda c: c.score).expression, linear])
            self._add(self.fitter.fit(both, policy.starts, policy.first_steps), 0, Step("add", linear))

    def _begin_own(self, own: OwnSpace) -> KernelSpace:
        """Fit the first kernel of a hyperkernel of one's own, from the lengthscales that it is written with."""
        if own.off > WORTH_NOTING:
            self.trials.notes.append(f"the hyperkernel was written as kernels with formulas to within {own.off:.0%}")
        assert own.inside is not None
        lengths, values = next(own.inside.leaves()).value("lengthscale"), self.lead.values.copy()
        slots = layout(self.lead.expression).slots
        values[next(slot.where for slot in slots if slot.spec.unit == "length")] = lengths
        self.start = replace(self.lead, values=values)
        self._score_shape(own.space, own.space.first, 0, Step("tuning", words="first kernel of the hyperkernel"))
        return own.space

    def _tune_rate(self) -> KernelSpace:
        """Tune the rate h: the kernel kappa(., no distance) of the space is scored after a few steps of fitting."""
        settings, inside = self.settings, next(find_all(self.lead.expression, Functional)).inside
        grid = settings.draw_grid(inside, self.rows.X, len(self.columns), self.rng)

        def score(point: Array) -> ObjectiveValue:
            space = build_at(point, grid, settings.components, self.context.seed)
            return self._score_shape(space, space.first, 0, Step("tuning", words="tuning"))

        first = [np.array([rate]) for rate in RATES] if settings.tuning else [np.array([0.6])]
        best, _ = find_best(tune(score, 1, settings.tuning, self.rng, first, settings.tuning_acquisition))
        return build_at(best, grid, settings.components, self.context.seed)

    def _search_shapes(self, space: KernelSpace) -> None:
        """Search the subspaces, from the best kernel so far."""

        def evaluate(beta: Array, subspace: int, step: int) -> ObjectiveValue:
            words = f"subspace {subspace}, step {step}" if step else f"subspace {subspace}, at random"
            words = words if subspace else "where the search begins"
            return self._score_shape(space, beta, max(1, subspace), Step("subspace", number=subspace, words=words))

        functional = next(find_all(self.lead.expression, Functional))
        found = np.array([functional.shape(float(u)) for u in space.grid])
        known = [space.first, space.coordinates(found)] if self.settings.start == "known" else []
        search_subspaces(space, evaluate, self.settings.plan(), self.rng, known)

    def _improve_weights(self) -> None:
        """Improve the weights of the best shape along the gradient of the evidence, and the parameters with them."""
        policy = self.policy
        if callable(self.settings.objective) or len(list(find_all(self.lead.expression, Functional))) > 1:
            return  # another objective; or a product over columns, whose functions all have the same weights
        for number, stretch in enumerate(policy.stretches, 1):
            start = self.lead if stretch == 1.0 else self.fitter.stretch(self.lead, stretch)
            improved = self.fitter.improve_weights(start, policy.weight_steps)
            found = self.fitter.continue_fit(improved.expression, improved, 2 * policy.steps)
            self._add(found, 1, Step("weights", number=number, words=f"weights along their gradient, {number}"))

    def _search_bands(self) -> None:
        """Try weights of either sign, where it is known that they make a kernel: bands of frequencies."""
        policy, functionals = self.policy, list(find_all(self.lead.expression, Functional))
        dimensions = count_dimensions(functionals[0].inside)
        if callable(self.settings.objective) or len(functionals) > 1 or dimensions is None or not policy.bands:
            return
        bands = make_bands(policy.bands, dimensions)
        highest = bands[0][0][-1]  # u^(highest / n) is the last band; plain kernels begin in the middle of them
        factor = math.sqrt(highest / (policy.bands // 2) / _middle_power(functionals[0]))
        fit = self.fitter.stretch(self.lead, factor, bands)
        for number in range(1, policy.band_rounds + 1):
            improved = self.fitter.improve_weights(fit, policy.weight_steps, bands)
            fit = self.fitter.continue_fit(improved.expression, improved, 2 * policy.steps)
            self._add(fit, 1, Step("weights", number=number, words=f"bands of frequencies, {number}"))
            if fit.status == "failed":
                return

    # ------------------------------------------------------------------------------------------------------- scoring

    def _score_shape(self, space: KernelSpace, beta: Array, depth: int, step: Step) -> ObjectiveValue:
        """Fit a kernel of the space for a few steps from the best so far and return its objective."""
        series, lead = space.series(beta, self.settings.definite), self.start or self.lead
        if series is None:
            return ObjectiveValue(-math.inf, "no weight of the kernel is above zero")
        found = self.fitter.continue_fit(with_series(lead.expression, series), lead, self.policy.steps)
        if self.start is not None and found.status != "failed":
            self.start = max((self.start, found), key=lambda fit: fit.log_evidence)
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
        return evaluate_safely(
            lambda: found.log_evidence - self._price(found) if objective == "evidence" else found.leave_one_out
        )

    def _price(self, found: Fit) -> float:
        """Return what a linear kernel beside a functional must gain in log evidence: the price of BIC."""
        both = contains(found.expression, Functional) and isinstance(found.expression, Sum)
        linear = found.expression.children[-1] if both else None
        return 0.0 if linear is None else 0.5 * bic(0.0, layout(linear).n_free, self.fitter.data.count)

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
        others = [f for f in finals if f is not best]
        if not trials.stopped and self.policy.compares:
            best = self._compare_with_plain(best)
        members = [best, *others]
        if callable(settings.objective) or not settings.average or not contains(best.expression, Functional):
            members = [best]  # a straight line goes on beyond the data, where the others return to an average
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
        best, members = unwrap(best), [unwrap(member) for member in members]
        kept, weights = stack(members, self.data, self.context.engine)
        return trials.conclude(best, kept, weights, rows=rows, settled=settings.objective != "evidence")

    def _fit_to_all(self) -> list[Fit]:
        trials, policy = self.trials, self.policy
        best: dict[str, Fit] = {}  # for each kernel inside: shapes of the same are much alike, and say nothing new
        ranked = sorted(trials.candidates, key=lambda c: c.score)
        if not policy.compares:  # what the subspaces gave, also where the kernel inside is better as it is
            ranked = [c for c in ranked if c.depth > 0 and c.fit is not None] or ranked
        for candidate in ranked:
            if candidate.fit is not None:
                best.setdefault(_plain_text(candidate.expression), candidate.fit)
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

    def _compare_with_plain(self, best: Fit) -> Fit:
        """Return the kernel inside as it is where the best shape is hardly better in any respect; say what it gains."""
        notes, name = self.trials.notes, _name_inside(best.expression)
        if not name:
            notes.append("a linear kernel alone explains the data best: no functional is in the kernel")
            options = FitOptions(seed=self.context.seed)  # as if it had been given
            found = fit(structure(best.expression), self.data, self.context.engine, options)
            return best if found.status == "failed" else found
        if is_plain(best.expression):
            notes.append(f"no function of {name} was found that does better than {name} itself")
        if is_plain(best.expression) or callable(self.settings.objective):
            return best
        same = [c for c in self.trials.candidates if _plain_text(c.expression) == _plain_text(best.expression)]
        start = next(c.full_fit for c in same if c.fit is not None and is_plain(c.expression))
        plain = self.fitter.continue_fit(start.expression, start, self.policy.last_steps)
        left = [leave_out(each, self.data, self.context.engine) for each in (best, plain) if each.status != "failed"]
        if len(left) < 2 or left[0] is None or left[1] is None:
            return best
        gains = left[0].log_density - left[1].log_density
        gain, more = float(gains.sum()), self._evaluate(best).value - self._evaluate(plain).value
        result = f"log density {gain:+.2f}, higher at {int((gains > 0).sum())} of {len(gains)} rows"
        better = f"rows left out one at a time {'better' if gain > 0 else 'no better'} than {name} itself ({result})"
        if more > self._price_of_shape():
            notes.append(f"the functional explains the data better, by {more:.2f}, and predicts {better}")
            return best
        notes.append(f"a functional gains only {more:.2f}, and predicts {better}: the kernel is {name}")
        return replace(plain, parameters=_count_parameters(plain))

    def _price_of_shape(self) -> float:
        """Return what a functional must gain: in log evidence the price of BIC for one number, which it has at least.

        Its weights are fitted to the same rows as what it predicts of them when one is left out, which flatters it.
        """
        return 0.5 * math.log(self.data.count) if self.settings.objective == "evidence" else 0.0

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


def _count_parameters(found: Fit) -> int:
    """Return how many numbers were fitted: those of the kernel, the noise, and the weights of the series."""
    functional = next(find_all(found.expression, Functional), None)
    return found.parameters + (0 if functional is None else len(functional.weights) - 1)


def _middle_power(functional: Functional) -> int:
    """Return the power up to which there is half of the weight, none being below zero."""
    share = np.cumsum(functional.weights) / sum(functional.weights)
    return functional.powers[int(np.argmax(share >= 0.5))]


def _plain_text(expression: Expression) -> str:
    """Return the kernel as text, whatever its series and values are."""
    return structure(with_series(expression, PLAIN)).text()


def _name_inside(expression: Expression) -> str:
    """Return the symbols of the kernel inside the functional, and of its factors; nothing where there is none."""
    functionals = list(find_all(expression, Functional))
    named = first_term(expression) if len(functionals) == 1 else functionals[0] if functionals else None
    return "" if named is None else "*".join(leaf.symbol for leaf in named.leaves())


def is_plain(expression: Expression) -> bool:
    """Tell whether no functional in a kernel is anything else than the kernel inside."""
    return all((f.powers, f.weights) == PLAIN for f in find_all(expression, Functional))


def unwrap(fit: Fit) -> Fit:
    """Return a fit with the kernels inside in the place of functionals that are no more than that."""

    def open_plain(expression: Expression) -> Expression:
        if isinstance(expression, Functional):
            return expression.inside if is_plain(expression) else expression
        return expression.with_children([open_plain(child) for child in expression.children])

    return replace(fit, expression=open_plain(fit.expression))


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
