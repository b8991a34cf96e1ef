"""KFO for support vector machines: relevance and scale, the rate of the hyperkernel, the shape (KFO 5.2).

The objective is cross-validated on the training rows (mercer.learners.margin); a user's own function of the Gram matrix
may take its place. As cross-validation is noisy, the kernel returned is the one with the best expected score under the
surrogate, not the luckiest.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.errors import InputError
from mercer.fitting.clock import Progress, Report
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression, build_base, product_of
from mercer.kernels.functional import Functional
from mercer.kernels.parameters import values_of
from mercer.learners.bayesian import (
    ObjectiveValue,
    choose_steadiest,
    evaluate_safely,
    find_steadiest,
    search_subspaces,
    tune,
)
from mercer.learners.classes import (
    Family,
    LearnedForClasses,
    Sight,
    Trial,
    blocks_of,
    candidate_of,
    judged_mixture,
    mixture,
    sight_of,
    with_cost,
)
from mercer.learners.contract import Candidate, Stopped
from mercer.learners.kernel_space import RATE_LIMITS, RATES, KernelSpace, build_space, choose_grid
from mercer.learners.margin import Labels, Verdict
from mercer.linalg.threads import one_thread

if TYPE_CHECKING:
    from mercer.learners.kfo import KernelFunctional

ENDED: dict[Stopped, str] = {
    "request": "the search was stopped on request; this is the best kernel found until then",
    "time": "the time budget was spent before the search came to its end; this is the best kernel found until then",
}

Series = tuple[tuple[int, ...], tuple[float, ...]]
PLAIN: Series = ((1,), (1.0,))
STRENGTHS = (0.0, 0.5, 1.0)  # of relevance: 0 is one lengthscale for all columns
FACTORS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)  # of the median distance
FINALISTS, FINAL_ROWS, FINAL_REPEATS = 6, 1200, 3
USUAL = FACTORS[2:]
SPAN = math.log(FACTORS[-1] / FACTORS[0])


@dataclass(frozen=True)
class Form:
    """A kernel of the family: what is inside, how much relevance counts, its lengthscale, and its shape."""

    symbol: str
    strength: float
    factor: float
    series: Series = PLAIN
    product: bool = False  # of one function for each column, in place of a function of one distance

    def kernel(self, sight: Sight) -> Expression:
        """Return the kernel for what may be looked at."""
        if not self.product:
            return Functional(sight.radial(self.symbol, self.strength, self.factor), *self.series)
        lengths = enumerate(sight.lengthscales(self.strength, self.factor))
        insides = [build_base(self.symbol, column, variance=1.0, lengthscale=length) for column, length in lengths]
        return product_of([Functional(inside, *self.series) for inside in insides])


@dataclass(eq=False)
class ClassSearch:
    """One run of the search."""

    settings: KernelFunctional
    X: Array
    labels: Labels
    seed: int
    report: Report | None = None
    candidates: list[Candidate] = field(default_factory=list)
    verdicts: dict[Form, Verdict] = field(default_factory=dict)
    stopped: Stopped = ""

    def __post_init__(self) -> None:
        self.chosen: Form | None = None
        self._last: Trial | None = None
        self.started = time.perf_counter()
        self.rng = np.random.default_rng(self.seed)
        self.trial = Trial.of(self.X, self.labels, self.seed, self.settings.ard)
        self.whole = sight_of(self.X, self.labels, self.seed, self.settings.ard)
        plan = self.settings.plan()
        self.total = 34 + 2 * self.settings.tuning + len(RATES) + plan.subspaces * (plan.iterations + 4)

    def run(self) -> LearnedForClasses:
        """Do it all; Ctrl-C and the end of the time budget give the best so far."""
        chosen: Form | None = None
        try:
            plain = self.scales()
            chosen = self.shapes(plain)
        except KeyboardInterrupt:
            self.stopped = "request"
        except TimeIsUp:
            self.stopped = "time"
        if not self.verdicts:
            if self.stopped == "request":
                raise KeyboardInterrupt  # there is nothing yet to go on with
            problem = self.candidates[0].message if self.candidates else "it was stopped too early"
            raise InputError(f"no kernel could be judged: {problem}")
        if chosen is None:
            chosen = max(self.verdicts, key=lambda form: self.verdicts[form].score)
        if not self.stopped and not callable(self.settings.objective):
            try:
                chosen = self.final(chosen)
            except KeyboardInterrupt:
                self.stopped = "request"
            except TimeIsUp:
                self.stopped = "time"
        self.chosen = chosen
        kernel = chosen.kernel(self.whole)
        verdict = with_cost(kernel, self.X, self.labels, self.seed)
        notes = [ENDED[self.stopped]] if self.stopped else []
        if len(self.trial.labels) < len(self.labels):
            notes.append(f"kernels were compared on {len(self.trial.labels)} of the {len(self.labels)} rows")
        tried = tuple(self.candidates)
        return LearnedForClasses(kernel, verdict.cost, verdict.error, tried, tuple(notes), self.stopped)

    # -------------------------------------------------------------------------------------------------------- stages

    def insides(self) -> list[str]:
        """Return the kernels that may be inside, Matern 3/2 first."""
        from mercer.learners.kfo import HYPERKERNELS

        names = [name for name in HYPERKERNELS[self.settings.hyperkernel] if name != "PER"]
        if not names:
            raise InputError("a periodic hyperkernel is for regression; for classes use 'auto' or 'matern-harmonic'")
        return sorted(names, key=lambda name: name != "M32")

    def scales(self) -> Form:
        """Find the kernel inside, the lengthscale and how much relevance counts: a coarse grid, then tuning."""
        names = self.insides()
        strengths = STRENGTHS if self.settings.ard else STRENGTHS[:1]
        for strength in strengths:
            for factor in FACTORS:
                self.judge(self.form(names[0], strength, factor), "scale")
        best = self.best()
        for name in names[1:]:
            for ratio in (0.5, 1.0, 2.0):
                self.judge(self.form(name, best.strength, best.factor * ratio), "kernel inside")
        best = self.best()

        def judged(point: Array) -> ObjectiveValue:
            strength = float(point[0]) if self.settings.ard else 0.0
            factor = FACTORS[0] * math.exp(SPAN * float(point[1]))
            return self.judge(self.form(best.symbol, round(strength, 3), float(f"{factor:.4g}")), "tuning")

        alike = [form for form in self.verdicts if form.symbol == best.symbol]
        first = [np.array([f.strength, math.log(f.factor / FACTORS[0]) / SPAN]) for f in alike]
        known = {tuple(p): ObjectiveValue(self.verdicts[f].score) for p, f in zip(first, alike, strict=True)}
        tune(lambda p: known.get(tuple(p)) or judged(p), 2, self.settings.tuning, self.rng, first)
        return self.best()

    def shapes(self, plain: Form) -> Form | None:
        """Search the space of shapes at the lengthscale found."""
        space = self.tuned_space(plain)
        seeds = [space.first, space.coordinates(space.grid)]  # the second is u itself
        forms: dict[bytes, Form] = {}

        def evaluate(beta: Array, subspace: int, step: int) -> ObjectiveValue:
            return self.shaped(plain, space, beta, "shape", forms)

        observations = search_subspaces(space, evaluate, self.settings.plan(), self.rng, seeds)
        chosen = choose_steadiest(space, observations, self.settings.plan())
        return None if chosen is None else forms.get(chosen.beta.tobytes())

    def tuned_space(self, plain: Form) -> KernelSpace:
        """Tune the rate h of the hyperkernel: the first kernel of each space is judged."""
        grid = self.grid(plain)

        def space_of(point: Array) -> KernelSpace:
            return build_space(grid, float(np.clip(point[0], *RATE_LIMITS)), self.settings.components, self.seed)

        def judged(point: Array) -> ObjectiveValue:
            space = space_of(point)
            return self.shaped(plain, space, space.first, "rate")

        return space_of(find_steadiest(tune(judged, 1, self.settings.tuning, self.rng, [np.array([r]) for r in RATES])))

    def shaped(
        self, plain: Form, space: KernelSpace, beta: Array, step: str, forms: dict[bytes, Form] | None = None
    ) -> ObjectiveValue:
        """Judge a kernel of a space."""
        series = space.series(beta, self.settings.definite)
        if series is None:
            return ObjectiveValue(-math.inf, "no weight of the kernel is above zero")
        form = replace(plain, series=series)
        if forms is not None:
            forms[beta.tobytes()] = form
        return self.judge(form, step)

    def final(self, steady: Form) -> Form:
        """Judge the last few with SVMs on more rows and on other folds; the best of them is taken.

        The last few: the steadiest, the best of all, the best plain one for each kernel inside and each strength, and
        the usual ones, SE with one lengthscale for all columns: least-squares SVMs rank those otherwise than SVMs do.
        """
        usual = [self.form("SE", 0.0, factor) for factor in USUAL if "SE" in self.insides()]
        for form in usual:
            if form not in self.verdicts:
                self.judge(form, "usual")
        ranked = sorted(self.verdicts, key=lambda form: -self.verdicts[form].score)
        kinds: dict[object, Form] = {}
        for form in ranked:
            if form.series == PLAIN:
                kinds.setdefault(form.symbol, form)
                kinds.setdefault(round(2.0 * form.strength), form)
        last = list(dict.fromkeys([*list(dict.fromkeys([steady, ranked[0], *kinds.values()]))[:FINALISTS], *usual]))
        with one_thread():
            verdicts = {form: self.last_trial().judge_slowly(form.kernel) for form in last}
        return max(last, key=lambda form: verdicts[form].score)

    def last_trial(self) -> Trial:
        """Return other folds, of more rows, for the last few."""
        if self._last is None:
            seed = self.seed + 1000
            self._last = Trial.of(self.X, self.labels, seed, self.settings.ard, FINAL_ROWS, FINAL_REPEATS)
        return self._last

    # ------------------------------------------------------------------------------------------------------- judging

    def grid(self, plain: Form) -> Array:
        """Return the grid: values of the kernel inside at pairs of rows."""
        inside = self.whole.radial(plain.symbol, plain.strength, plain.factor)
        rows = self.X[self.rng.choice(len(self.X), min(64, len(self.X)), replace=False)]
        matrix = fused.gram(compile_program(inside), values_of(inside), rows)
        return choose_grid(matrix[np.triu_indices(len(rows), 1)], self.settings.grid_size(self.X.shape[1]))

    def form(self, symbol: str, strength: float, factor: float) -> Form:
        """Return a kernel of the family as it is, without a shape."""
        return Form(symbol, strength, factor, product=self.settings.form == "product" and self.X.shape[1] > 1)

    def judge(self, form: Form, step: str) -> ObjectiveValue:
        """Cross-validate a kernel, or ask the user's own objective about its Gram matrix."""
        objective = self.settings.objective
        verdicts: list[Verdict] = []

        def score() -> float:
            if callable(objective):
                kernel = form.kernel(self.whole)
                gram, _ = blocks_of(kernel, self.X, self.X[:1])
                value = float(objective(gram))
                verdicts.append(Verdict(1.0, -value, 0.0))
                return value
            verdicts.append(self.trial.judge(form.kernel))
            return verdicts[0].score

        with one_thread():  # matrices of a few hundred rows
            outcome = evaluate_safely(score)
        verdict = verdicts[0] if outcome.good else None
        if verdict is not None:
            self.verdicts[form] = verdict
        self.keep(form, verdict, step, outcome)
        return outcome

    def best(self) -> Form:
        """Return the best so far."""
        if not self.verdicts:
            raise InputError(f"no kernel could be judged: {self.candidates[0].message}")
        return max(self.verdicts, key=lambda form: self.verdicts[form].score)

    def keep(self, form: Form, verdict: Verdict | None, step: str, outcome: ObjectiveValue) -> None:
        """Add a row to the table, report, and see to the time."""
        seconds = time.perf_counter() - self.started
        kernel = form.kernel(self.whole)
        self.candidates.append(candidate_of(kernel, verdict, 0, step, seconds, outcome.problem))
        if self.report is not None and self.verdicts:
            best = self.best()
            self.report(
                Progress(
                    min(len(self.candidates), self.total), self.total, "kernels", best.kernel(self.whole),
                    -self.verdicts[best].score, seconds,
                )
            )  # fmt: skip
        if self.settings.time_budget is not None and seconds > self.settings.time_budget:
            raise TimeIsUp


class TimeIsUp(Exception):
    """The time budget is spent."""


# KFO-MKL: a weighted sum of the functional that was found and SE, Matern 3/2 and LIN (KFO, appendix A.5.3).

STEPS = 12


def with_standard_kernels(search: ClassSearch, learned: LearnedForClasses, chosen: Form) -> LearnedForClasses:
    """Add SE, Matern 3/2 and LIN to what a search found, with weights tuned by cross-validation."""
    with one_thread():
        families: list[Family] = [chosen.kernel, _best_radial(search, "SE"), _best_radial(search, "M32"), _linear]
        verdict = judged_mixture(search.trial, families)
        verdicts: dict[bytes, Verdict] = {}

        def judged(weights: Array) -> ObjectiveValue:
            verdicts[weights.tobytes()] = verdict(weights)
            return ObjectiveValue(verdicts[weights.tobytes()].score)

        low = 1e-3
        first = [np.full(4, low) + np.eye(4)[i] * (1.0 - low) for i in range(4)]
        first += [np.ones(4), np.array([1.0, low, low, 0.3]), np.array([1.0, 0.5, 0.5, 0.2])]
        tried = tune(judged, 4, STEPS, search.rng, first)
        weights = find_steadiest(tried)

        def mixed(sight: Sight) -> Expression:
            return mixture([family(sight) for family in families], weights)

        trial = search.last_trial()
        if trial.judge_slowly(mixed).score < trial.judge_slowly(chosen.kernel).score:
            return replace(learned, functional=learned.kernel)  # the others add nothing
        kernel = mixed(search.whole)
        final = with_cost(kernel, search.X, search.labels, search.seed)
    row = candidate_of(kernel, verdicts[weights.tobytes()], 1, "weights of the sum", learned.candidates[-1].seconds)
    return replace(
        learned, kernel=kernel, cost=final.cost, error=final.error, candidates=(*learned.candidates, row),
        functional=learned.kernel,
    )  # fmt: skip


def _best_radial(search: ClassSearch, symbol: str) -> Family:
    """The best plain kernel of a kind among those tried, and some tried now where there are few."""
    best = search.best()
    forms = [Form(symbol, best.strength, best.factor * r) for r in (0.5, 1.0, 2.0)]
    forms += [Form(symbol, 0.0, factor) for factor in FACTORS[1:-1]]
    for form in forms:
        if form not in search.verdicts:
            search.judge(form, "part of a sum")
    known = [form for form in search.verdicts if form == Form(symbol, form.strength, form.factor)]
    chosen = max(known, key=lambda form: search.verdicts[form].score)
    return lambda sight: sight.radial(symbol, chosen.strength, chosen.factor)


def _linear(sight: Sight) -> Expression:
    return sight.linear()
