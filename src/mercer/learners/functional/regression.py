"""KFO for a Gaussian process: the kernel inside, the rate of the hyperkernel, the shape, then all rows."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.errors import NumericalError
from mercer.fitting.clock import Progress, Report
from mercer.fitting.optimise import Fit, FitOptions, fit
from mercer.fitting.ranges import may_repeat
from mercer.inference.contract import Data, Engine
from mercer.kernels.algebra import structure
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression, product_of, sum_of
from mercer.kernels.functional import Functional
from mercer.kernels.parameters import bind, values_of
from mercer.kernels.text import parse
from mercer.learners.contract import Candidate, Learned, Stopped
from mercer.learners.functional.averaging import stacked
from mercer.learners.functional.fitting import Fitter
from mercer.learners.functional.search import ENDED, Outcome, guarded, search
from mercer.learners.functional.space import KernelSpace, grid_of_pairs, kernel_space
from mercer.learners.functional.tuning import RATE_LIMITS, RATES, best_of, tuned

if TYPE_CHECKING:
    from mercer.learners.functional.kernel_functional import KernelFunctional

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
        from mercer.learners.functional.kernel_functional import HYPERKERNELS

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
            if self.keep(found, 0, f"{inside.text()} as it is", outcome):
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

        def judged(point: Array) -> Outcome:
            space = kernel_space(grid, float(np.clip(point[0], *RATE_LIMITS)), size, self.seed)
            outcome, found = self.judge(space, space.first, lead.fit, 0, "tuning")
            lead.take(found, outcome.value)
            return outcome

        first = [np.array([rate]) for rate in RATES] if self.settings.tuning else [np.array([0.6])]
        point, _ = best_of(tuned(judged, 1, self.settings.tuning, self.rng, first))
        return kernel_space(grid, float(np.clip(point[0], *RATE_LIMITS)), size, self.seed), lead

    def shapes(self, space: KernelSpace, lead: Lead) -> None:
        """Search the subspaces, from the best kernel so far."""

        def evaluate(beta: Array, subspace: int, step: int) -> Outcome:
            where = f"subspace {subspace}, step {step}" if step else f"subspace {subspace}, at random"
            where = where if subspace else "where the search begins"
            outcome, found = self.judge(space, beta, lead.fit, max(1, subspace), where)
            lead.take(found, outcome.value)
            return outcome

        seeds = [space.first, space.coordinates(_shape(lead.fit, space.grid))]
        search(space, evaluate, self.settings.plan(), self.rng, seeds)

    # ------------------------------------------------------------------------------------------------------- judging

    def grid(self, known: Fit) -> Array:
        """Return the grid: values of the kernel inside at pairs of rows."""
        functional = _first_functional(known.expression)
        inside = functional.inside
        rows = self.rows.X[self.rng.choice(self.rows.count, min(PAIRS, self.rows.count), replace=False)]
        matrix = fused.gram(compile_program(inside), values_of(inside), rows)
        units = (matrix / matrix[0, 0])[np.triu_indices(len(rows), 1)]
        return grid_of_pairs(units, self.settings.grid_size(len(self.columns)))

    def judge(self, space: KernelSpace, beta: Array, start: Fit, depth: int, step: str) -> tuple[Outcome, Fit | None]:
        """Fit a kernel of the space for a few steps and return its objective."""
        series = space.series(beta, self.settings.definite)
        if series is None:
            return Outcome(-math.inf, "no weight of the kernel is above zero"), None
        found = self.fitter.onward(self.reshaped(start, series), start, STEPS)
        outcome = self.outcome_of(found)
        return outcome, found if self.keep(found, depth, step, outcome) else None

    def outcome_of(self, found: Fit) -> Outcome:
        """Return the objective of a fit, or why there is none."""
        if found.status == "failed":
            return Outcome(-math.inf, found.message)
        return guarded(lambda: self.value_of(found))

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

    def keep(self, found: Fit, depth: int, step: str, outcome: Outcome) -> bool:
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
