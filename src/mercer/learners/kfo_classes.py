"""KFO for support vector machines: relevance and scale, the rate of the hyperkernel, the shape (KFO 5.2).

The objective is cross-validated on the training rows (mercer.learners.margin); a user's own function of the Gram matrix
may take its place. As cross-validation is noisy, the kernel returned is the one with the best expected score under the
surrogate, not the luckiest. KFO-MKL adds SE, Matern 3/2 and LIN to it, in a weighted sum (appendix A.5.3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np

from mercer.errors import InputError
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression, build_base, product_of
from mercer.kernels.functional import Functional
from mercer.learners import bayesian, classes
from mercer.learners.bayesian import ObjectiveValue, evaluate_safely, find_steadiest, tune
from mercer.learners.contract import Context
from mercer.learners.kernel_space import PLAIN, RATES, KernelSpace, Series, build_at
from mercer.learners.margin import COSTS, ClassScore, Spectrum, refuse_few_members
from mercer.learners.trials import Trials
from mercer.linalg.threads import one_thread

if TYPE_CHECKING:
    from mercer.learners.kfo import KernelFunctional

REPAIRS: dict[str, Spectrum] = {"spectrum": "clip", "spectrum-flip": "flip", "spectrum-shift": "shift"}


@dataclass(frozen=True)
class ClassPolicy:
    """What is tried before and after the shapes."""

    strengths: tuple[float, ...] = (0.0, 0.5, 1.0)  # of relevance: 0 is one lengthscale for all columns
    factors: tuple[float, ...] = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)  # of the median distance; tuning goes on between them
    usual: tuple[float, ...] = (0.4, 0.8, 1.6, 3.2)  # factors of the SE kernels that are always among the last few
    finalists: int = 6  # kernels that SVMs themselves compare: a fit for each fold and cost
    final_rows: int = 1200  # that they are compared on
    final_repeats: int = 3  # of the folds, where rows are few
    mixing_steps: int = 12  # of Bayesian optimisation of the weights of a sum
    compared_rows: int | None = classes.COMPARED_ROWS  # that kernels are compared on; None: all
    folds: int = 5  # of cross-validation
    repeats: int = 2  # of the folds, where rows are few: errors come in whole rows
    fewer_folds: bool = True  # where a class has fewer members; otherwise that is refused
    costs: tuple[float, ...] = COSTS  # that SVMs are tried with
    by_svm: bool = False  # SVMs themselves compare the shapes: least-squares SVMs are quicker, and rank them alike
    compares: bool = True  # the last few, with the usual kernels among them; otherwise the best of all is taken

    def __post_init__(self) -> None:
        for name, least in (("folds", 2), ("repeats", 1)):
            count = getattr(self, name)
            if not isinstance(count, Integral) or isinstance(count, bool) or count < least:
                raise InputError(f"{name} of ClassPolicy must be a whole number of at least {least}, not {count!r}")
        given = self.costs.tolist() if hasattr(self.costs, "tolist") else self.costs  # an array's own, as plain numbers
        costs: tuple[float, ...] = tuple(given) if isinstance(given, Sequence) else ()
        if not costs or not all(isinstance(cost, Real) and 0.0 < cost < math.inf for cost in costs):
            raise InputError(f"costs of ClassPolicy must be numbers above zero, such as {COSTS}, not {self.costs!r}")
        object.__setattr__(self, "costs", costs)


@dataclass(frozen=True)
class FunctionalForm:
    """A kernel of the family: what is inside, how much relevance counts, its lengthscale, and its shape."""

    symbol: str
    strength: float
    factor: float
    series: Series = PLAIN
    product: bool = False  # of one function for each column, in place of a function of one distance

    def kernel(self, scales: classes.ColumnScales) -> Expression:
        """Return the kernel at these scales; without a shape it is the kernel inside."""
        insides = [scales.radial(self.symbol, self.strength, self.factor)]
        if self.product:
            lengths = enumerate(scales.lengthscales(self.strength, self.factor))
            insides = [build_base(self.symbol, column, variance=1.0, lengthscale=length) for column, length in lengths]
        return product_of([each if self.series == PLAIN else Functional(each, *self.series) for each in insides])


@dataclass(eq=False)
class ClassSearch:
    """One run of the search. `context.data.y` holds the classes, 0, 1, ..."""

    settings: KernelFunctional
    context: Context
    trials: Trials
    scores: dict[FunctionalForm, ClassScore] = field(default_factory=dict)

    def __post_init__(self) -> None:
        data, seed = self.context.data, self.context.seed
        policy = self.policy = self.settings.class_policy or self.context.policy(ClassPolicy)
        self.X, self.labels, self.engine = data.X, data.y.astype(np.intp), self.context.engine
        self.rng = np.random.default_rng(seed)
        ard = self.settings.ard
        if not policy.fewer_folds:
            refuse_few_members(self.labels, policy.folds)
        self.spectrum: Spectrum = REPAIRS.get(self.settings.definite, "clip")
        self.comparison = classes.Comparison(policy.folds, policy.costs, policy.by_svm, self.spectrum)
        self.folds = classes.CrossValidation.draw(
            self.X, self.labels, seed, ard, policy.compared_rows, policy.repeats, self.engine, self.comparison
        )
        self.scales = classes.scale_columns(self.X, self.labels, seed, ard, self.engine)
        plan = self.settings.plan()
        self.total = 34 + 2 * self.settings.tuning + len(RATES) + plan.subspaces * (plan.iterations + 4)

    def run(self) -> classes.LearnedForClasses:
        """Return the best kernel; Ctrl-C and the end of the time budget give the best so far."""
        trials, own_objective = self.trials, callable(self.settings.objective)
        chosen: FunctionalForm | None = None
        with trials.stopping():
            chosen = self._search_shapes(self._search_scales())
        if not self.scores and trials.stopped == "request":
            raise KeyboardInterrupt  # there is nothing yet to go on with
        chosen = chosen or self._best()
        if not trials.stopped and not own_objective and self.policy.compares:
            with trials.stopping():
                chosen = self._choose_finalist(chosen)
        kernel = chosen.kernel(self.scales)
        score = classes.choose_cost(kernel, self.X, self.labels, self.context.seed, self.comparison)
        trials.note_stop("search", "kernel")
        compared, rows = len(self.folds.labels), len(self.labels)
        if compared < rows:
            trials.notes.append(f"kernels were compared on {compared} of the {rows} rows")
        tried, notes = tuple(trials.candidates), tuple(trials.notes)
        learned = classes.LearnedForClasses(
            kernel, score.cost, score.error, tried, notes, trials.stopped, spectrum=self.spectrum
        )
        if self.settings.plus is None or trials.stopped or own_objective:
            return learned
        with trials.stopping():
            return self._add_standard_kernels(learned, chosen)
        trials.note_stop("search", "kernel")
        return replace(learned, functional=kernel, stopped=trials.stopped, notes=tuple(trials.notes))

    # -------------------------------------------------------------------------------------------------------- stages

    @cached_property
    def _insides(self) -> list[str]:
        """The kernels that may be inside, Matern 3/2 first."""
        names = [name for name in self.settings.insides if name != "PER"]
        if not names:
            raise InputError("a periodic hyperkernel is for regression; for classes use 'auto' or 'matern-harmonic'")
        return sorted(names, key=lambda name: name != "M32")

    def _search_scales(self) -> FunctionalForm:
        """Find the kernel inside, the lengthscale and how much relevance counts: a coarse grid, then tuning."""
        first, *others = self._insides
        ard, factors = self.settings.ard, self.policy.factors
        span = math.log(factors[-1] / factors[0])
        for strength in self.policy.strengths if ard else (0.0,):
            for factor in factors:
                self._score(self._form(first, strength, factor), "scale")
        best = self._best()
        for name in others:
            for ratio in (0.5, 1.0, 2.0):
                self._score(self._form(name, best.strength, best.factor * ratio), "kernel inside")
        best = self._best()

        def score(point: Array) -> ObjectiveValue:
            strength = float(point[0]) if ard else 0.0
            factor = factors[0] * math.exp(span * float(point[1]))
            return self._score(self._form(best.symbol, round(strength, 3), float(f"{factor:.4g}")), "tuning")

        known = {
            (f.strength, math.log(f.factor / factors[0]) / span): ObjectiveValue(self.scores[f].score)
            for f in self.scores
            if f.symbol == best.symbol
        }
        first_points = [np.array(point) for point in known]
        steps, by = self.settings.tuning, self.settings.tuning_acquisition
        tune(lambda p: known.get((p[0], p[1])) or score(p), 2, steps, self.rng, first_points, by)
        return self._best()

    def _search_shapes(self, plain: FunctionalForm) -> FunctionalForm | None:
        """Search the space of shapes at the lengthscale found; return the steadiest."""
        forms: dict[bytes, FunctionalForm] = {}
        inside = self.scales.radial(plain.symbol, plain.strength, plain.factor)
        settings, seed = self.settings, self.context.seed
        grid = settings.draw_grid(inside, self.X, self.X.shape[1], self.rng)

        def score_shape(space: KernelSpace, beta: Array, step: str) -> ObjectiveValue:
            series = space.series(beta, settings.definite)
            if series is None:
                return ObjectiveValue(-math.inf, "no weight of the kernel is above zero")
            form = forms[beta.tobytes()] = replace(plain, series=series)
            return self._score(form, step)

        def score_rate(point: Array) -> ObjectiveValue:  # by the first kernel of the space
            space = build_at(point, grid, settings.components, seed)
            return score_shape(space, space.first, "rate")

        rates = [np.array([rate]) for rate in RATES]
        rate = find_steadiest(tune(score_rate, 1, settings.tuning, self.rng, rates, settings.tuning_acquisition))
        space = build_at(rate, grid, settings.components, seed)
        found = bayesian.search_subspaces(
            space,
            lambda beta, subspace, step: score_shape(space, beta, "shape"),
            settings.plan(),
            self.rng,
            # the second is u itself
            [space.first, space.coordinates(space.grid)] if settings.start == "known" else [],
        )
        if not self.policy.compares:  # as printed: the best that was observed
            best = max((o for o in found if o.outcome.good), key=lambda o: o.outcome.value, default=None)
            return None if best is None else forms.get(best.beta.tobytes())
        chosen = bayesian.choose_steadiest(space, found, settings.plan())
        return None if chosen is None else forms.get(chosen.beta.tobytes())

    def _choose_finalist(self, steady: FunctionalForm) -> FunctionalForm:
        """Score the last few with SVMs on more rows and on other folds, and return the best of them.

        The last few: the steadiest, the best of all, the best plain one for each kernel inside and each strength, and
        the usual ones, SE with one lengthscale for all columns: least-squares SVMs rank those otherwise than SVMs do.
        """
        usual = [self._form("SE", 0.0, factor) for factor in self.policy.usual if "SE" in self._insides]
        for form in usual:
            if form not in self.scores:
                self._score(form, "usual")
        ranked = sorted(self.scores, key=lambda form: -self.scores[form].score)
        kinds: dict[object, FunctionalForm] = {}
        for form in ranked:
            if form.series == PLAIN:
                kinds.setdefault(form.symbol, form)
                kinds.setdefault(round(2.0 * form.strength), form)
        leading = list(dict.fromkeys([steady, ranked[0], *kinds.values()]))[: self.policy.finalists]
        with one_thread():
            final = {form: self._final_folds.score_by_svm(form.kernel) for form in dict.fromkeys([*leading, *usual])}
        self._note_plain(final)
        return max(final, key=lambda form: final[form].score)

    def _note_plain(self, final: dict[FunctionalForm, ClassScore]) -> None:
        """Say whether the best function of a kernel does better on rows left out than the best kernel as it is."""
        plain, shaped = (
            max((f for f in final if (f.series == PLAIN) is is_plain), key=lambda f: final[f].score, default=None)
            for is_plain in (True, False)
        )
        if plain is None:
            return
        if shaped is None:
            self.trials.notes.append("no function of a kernel did as well as the kernels themselves: it is one of them")
            return
        errors = f"error {100 * final[shaped].error:.1f} % against {100 * final[plain].error:.1f} %"
        losses = f"log loss {final[shaped].loss:.3f} against {final[plain].loss:.3f}"
        better = final[shaped].score > final[plain].score
        verdict = "better than" if better else "no better than"
        end = "" if better else f": {plain.symbol} is the kernel"
        self.trials.notes.append(
            f"a functional tells rows left out apart {verdict} {plain.symbol} itself ({errors}, {losses}){end}"
        )

    @cached_property
    def _final_folds(self) -> classes.CrossValidation:
        """Other folds, of more rows, for the last few."""
        policy, seed = self.policy, self.context.seed + 1000
        return classes.CrossValidation.draw(
            self.X, self.labels, seed, self.settings.ard, policy.final_rows, policy.final_repeats, self.engine,
            self.comparison,
        )  # fmt: skip

    # --------------------------------------------------------------------------------------- sums with other kernels

    def _add_standard_kernels(
        self, learned: classes.LearnedForClasses, chosen: FunctionalForm
    ) -> classes.LearnedForClasses:
        """Add SE, Matern 3/2 and LIN to what was found, with weights tuned by cross-validation."""
        with one_thread():
            families: list[classes.Family] = [chosen.kernel, self._best_radial("SE"), self._best_radial("M32")]
            families.append(classes.ColumnScales.linear)
            score_mixture = classes.prepare_mixtures(self.folds, families)
            scores: dict[bytes, ClassScore] = {}

            def score(weights: Array) -> ObjectiveValue:
                scores[weights.tobytes()] = score_mixture(weights)
                return ObjectiveValue(scores[weights.tobytes()].score)

            low = 1e-3
            first = [np.full(4, low) + np.eye(4)[i] * (1.0 - low) for i in range(4)]
            first += [np.ones(4), np.array([1.0, low, low, 0.3]), np.array([1.0, 0.5, 0.5, 0.2])]
            weights = find_steadiest(tune(score, 4, self.policy.mixing_steps, self.rng, first))

            def mix_families(scales: classes.ColumnScales) -> Expression:
                return classes.mix([family(scales) for family in families], weights)

            folds = self._final_folds
            if folds.score_by_svm(mix_families).score < folds.score_by_svm(chosen.kernel).score:
                return replace(learned, functional=learned.kernel)  # the others add nothing
            kernel = mix_families(self.scales)
            final = classes.choose_cost(kernel, self.X, self.labels, self.context.seed, self.comparison)
        seconds = learned.candidates[-1].seconds
        row = classes.make_candidate(kernel, scores[weights.tobytes()], 1, "weights of the sum", seconds)
        return replace(
            learned, kernel=kernel, cost=final.cost, error=final.error, candidates=(*learned.candidates, row),
            functional=learned.kernel,
        )  # fmt: skip

    def _best_radial(self, symbol: str) -> classes.Family:
        """The best plain kernel of a kind among those tried, and some tried now where there are few."""
        best = self._best()
        forms = [FunctionalForm(symbol, best.strength, best.factor * r) for r in (0.5, 1.0, 2.0)]
        forms += [FunctionalForm(symbol, 0.0, factor) for factor in self.policy.factors[1:-1]]
        for form in forms:
            if form not in self.scores:
                self._score(form, "part of a sum")
        known = [form for form in self.scores if form == FunctionalForm(symbol, form.strength, form.factor)]
        chosen = max(known, key=lambda form: self.scores[form].score)
        return lambda scales: scales.radial(symbol, chosen.strength, chosen.factor)

    # ------------------------------------------------------------------------------------------------------- scoring

    def _form(self, symbol: str, strength: float, factor: float) -> FunctionalForm:
        """Return a kernel of the family as it is, without a shape."""
        product = self.settings.form == "product" and self.X.shape[1] > 1
        return FunctionalForm(symbol, strength, factor, product=product)

    def _score(self, form: FunctionalForm, step: str) -> ObjectiveValue:
        """Cross-validate a kernel, or ask the user's own objective about its Gram matrix, and add it to the table."""
        scores: list[ClassScore] = []

        def score() -> float:
            objective = self.settings.objective
            if not callable(objective):
                # a search often comes back to a kernel, K# above all, and the folds are the same: so is the score
                known = self.scores.get(form)
                scores.append(self.folds.score(form.kernel) if known is None else known)
                return scores[0].score
            gram, _ = classes.evaluate_blocks(form.kernel(self.scales), self.X, self.X[:1], self.spectrum)
            value = float(objective(gram))
            scores.append(ClassScore(1.0, -value, 0.0))
            return value

        with one_thread():  # matrices of a few hundred rows
            outcome = evaluate_safely(score)
        if outcome.good:
            self.scores[form] = scores[0]
        trials, known = self.trials, scores[0] if outcome.good else None
        row = classes.make_candidate(form.kernel(self.scales), known, 0, step, trials.clock.seconds, outcome.problem)
        incumbent = trials.incumbent
        trials.add(row, leads=outcome.good and (incumbent is None or row.score < incumbent.score))
        if self.scores:
            trials.tell(min(len(trials.candidates), self.total), self.total)
        trials.clock.check()
        return outcome

    def _best(self) -> FunctionalForm:
        """Return the best so far."""
        if not self.scores:
            tried = self.trials.candidates
            problem = tried[0].message if tried else "it was stopped too early"
            raise InputError(f"no kernel could be judged: {problem}")
        return max(self.scores, key=lambda form: self.scores[form].score)
