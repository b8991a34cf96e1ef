"""The search: grow the best kernel step by step until the score no longer improves (METHODS 3).

At each depth the children of the best kernel so far are raced: a few steps for all of them, to the end for those that
could still win. A candidate that fails numerically is a row with a reason, never the end of the search.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from mercer.errors import InputError
from mercer.fitting.optimise import Fit, FitOptions
from mercer.fitting.periodogram import periods
from mercer.inference.contract import Data, Engine
from mercer.kernels.domains import Array
from mercer.kernels.expression import Base, Expression
from mercer.learners.contract import Candidate, Learned, Report, SearchProgress
from mercer.learners.grammar.operators import Child, Grammar, base_kernels, checked_operators, children
from mercer.learners.grammar.worker import Begun, Task, begin, finish, seed_for

Score = Literal["bic", "aic", "loo"]

RACE_ITERATIONS = 12
MARGIN = 12.0  # how far behind in score (after the short run) a candidate may lie and still be finished
AT_LEAST = 6  # candidates finished at every depth, whatever their distance
PEAKS = 4
IMPROVEMENT = 0.1  # a deeper kernel must beat the best by this much


@dataclass(frozen=True)
class GrammarSearch:
    """Compositional kernel search."""

    bases: Sequence[str] = ("SE", "PER", "LIN", "RQ")
    operators: str = "+*r"
    grammar: Grammar = "full"
    score: Score = "bic"
    max_depth: int | None = None
    time_budget: float | None = None
    restarts: int = 3
    n_jobs: int | None = None
    race: bool = True
    checkpoint: str | None = None
    average: bool = True
    max_iterations: int = 200

    def learn(self, data: Data, engine: Engine, columns: list[int], seed: int, report: Report | None) -> Learned:
        """Search on scaled data."""
        return _Search(self, data, engine, columns, seed, report).run()

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def score_of(kind: Score, fit: Fit, rows: int) -> float:
    """Return the score, smaller is better: BIC = -2 log p + p log N, AIC = -2 log p + 2 p, or -2 LOO."""
    if kind == "bic":
        return -2.0 * fit.log_evidence + fit.parameters * math.log(rows)
    if kind == "aic":
        return -2.0 * fit.log_evidence + 2.0 * fit.parameters
    if kind == "loo":
        return -2.0 * fit.leave_one_out
    raise InputError(f"score is 'bic', 'aic' or 'loo', not {kind!r}")


@dataclass
class _Search:
    settings: GrammarSearch
    data: Data
    engine: Engine
    columns: list[int]
    seed: int
    report: Report | None
    candidates: list[Candidate] = field(default_factory=list)
    tried: set[Expression] = field(default_factory=set)
    best: int | None = None
    started: float = field(default_factory=time.perf_counter)
    notes: list[str] = field(default_factory=list)

    def run(self) -> Learned:
        operators = checked_operators(self.settings.operators)
        bases = base_kernels(self.settings.bases, self.columns)
        try:
            self.level(0, [Child(base, base, base.text()) for base in bases], None)
            depth = 0
            while self.goes_on(depth):
                depth += 1
                before = self.best
                assert before is not None
                parent = self.candidates[before]
                assert parent.fit is not None
                new = [
                    child
                    for child in children(parent.fit.expression, bases, operators, self.settings.grammar)
                    if child.key not in self.tried
                ]
                self.level(depth, new, before)
                if self.best == before:
                    break
        except KeyboardInterrupt:
            self.notes.append("the search was stopped on request; this is the best kernel found until then")
        return self.learned()

    def goes_on(self, depth: int) -> bool:
        if self.best is None or (self.settings.max_depth is not None and depth >= self.settings.max_depth):
            return False
        return not self.out_of_time()

    def out_of_time(self) -> bool:
        budget = self.settings.time_budget
        return budget is not None and time.perf_counter() - self.started > budget

    # ------------------------------------------------------------------------------------------------ one depth

    def level(self, depth: int, new: list[Child], parent: int | None) -> None:
        """Fit the candidates of one depth and take the best."""
        parent_fit = self.candidates[parent].fit if parent is not None else None
        peaks = self.peaks(parent_fit)
        tasks = [self.task(child, parent_fit, peaks) for child in new]
        self.tried.update(child.key for child in new)
        iterations = RACE_ITERATIONS if self.settings.race else self.settings.max_iterations
        begun = self.parallel(begin, [(task, self.data, self.engine, iterations) for task in tasks], depth)
        chosen = self.promising(tasks, begun, parent)
        finished = self.parallel(
            finish, [(tasks[i], begun[i], self.data, self.engine, 2) for i in chosen], depth
        )
        results = dict(zip(chosen, finished, strict=True))
        for i, child in enumerate(new):
            if i in results:
                self.add(child, depth, parent, *results[i])
            else:
                self.add_raced_out(child, depth, parent, tasks[i], begun[i])

    def task(self, child: Child, parent: Fit | None, peaks: dict[int, Array]) -> Task:
        key = child.key.text()
        options = FitOptions(
            restarts=self.settings.restarts + (parent is None),
            max_iterations=self.settings.max_iterations,
            seed=seed_for(self.seed, key),
        )
        return Task(child.expression, key, None if parent is None else parent.noise, peaks, options)

    def peaks(self, parent: Fit | None) -> dict[int, Array]:
        """Periods worth trying: peaks of what the parent leaves unexplained (one row left out at a time), then of y."""
        found = {}
        for column in self.columns:
            own = periods(self.data.X[:, column], self.data.y, PEAKS)
            if parent is not None:
                left = self.residuals(parent)
                own = np.concatenate([periods(self.data.X[:, column], left, PEAKS), own[:2]])
            if len(own):
                found[column] = own
        return found

    def residuals(self, fit: Fit) -> Array:
        from mercer.evaluate.program import compile_program

        posterior = self.engine.posterior(compile_program(fit.expression), fit.values, fit.noise, self.data)
        return self.data.y - posterior.leave_one_out().mean

    def promising(self, tasks: list[Task], begun: list[Begun], parent: int | None) -> list[int]:
        """Choose the candidates to finish: those near the best after the short run, and always a few."""
        provisional = [self.provisional(task, b) for task, b in zip(tasks, begun, strict=True)]
        order = np.argsort(provisional, kind="stable")
        if not self.settings.race or parent is None:
            return [int(i) for i in range(len(tasks))]
        limit = provisional[order[0]] + MARGIN if len(order) else math.inf
        return sorted(int(i) for rank, i in enumerate(order) if rank < AT_LEAST or provisional[i] <= limit)

    def provisional(self, task: Task, begun: Begun) -> float:
        from mercer.kernels.parameters import layout

        count = layout(task.expression).n_free + 1
        return 2.0 * begun.value + (count * math.log(self.data.count) if self.settings.score == "bic" else 2.0 * count)

    # ---------------------------------------------------------------------------------------------- bookkeeping

    def add(self, child: Child, depth: int, parent: int | None, fit: Fit, seconds: float) -> None:
        score = score_of(self.settings.score, fit, self.data.count) if fit.status != "failed" else math.inf
        self.candidates.append(
            Candidate(
                fit.expression, depth, child.step, parent, fit.log_evidence, fit.parameters, score,
                fit.status, fit.message, seconds, fit,
            )
        )  # fmt: skip
        best = self.candidates[self.best].score if self.best is not None else math.inf
        if score < best - (IMPROVEMENT if depth else 0.0) and math.isfinite(score):
            self.best = len(self.candidates) - 1

    def add_raced_out(self, child: Child, depth: int, parent: int | None, task: Task, begun: Begun) -> None:
        score = self.provisional(task, begun)
        message = f"not finished: score {score:.1f} after {RACE_ITERATIONS} iterations was too far behind"
        self.candidates.append(
            Candidate(
                child.expression, depth, child.step, parent, -begun.value, 0, score, "raced out", message,
                begun.seconds, None,
            )
        )  # fmt: skip

    def parallel(self, function: Any, arguments: list[tuple[Any, ...]], depth: int) -> list[Any]:
        jobs = self.settings.n_jobs or 1
        results: list[Any] = []
        for result in _results(function, arguments, jobs):
            results.append(result)
            self.tell(depth, len(results), len(arguments))
        return results

    def tell(self, depth: int, done: int, total: int) -> None:
        if self.report is None:
            return
        best = self.candidates[self.best] if self.best is not None else None
        elapsed = time.perf_counter() - self.started
        left = None if self.settings.time_budget is None else max(0.0, self.settings.time_budget - elapsed)
        text = best.expression.text(digits=3) if best is not None else ""
        score = best.score if best is not None else math.inf
        self.report(SearchProgress(depth, done, total, text, score, elapsed, left))

    def learned(self) -> Learned:
        assert self.best is not None
        winner = self.candidates[self.best].fit
        assert winner is not None
        ranked = sorted((c for c in self.candidates if c.fit is not None and math.isfinite(c.score)), key=lambda c: c.score)
        finalists = tuple(c.fit for c in ranked[:10] if c.fit is not None)
        scores = np.array([c.score for c in ranked[:10]])
        weights = np.exp(-0.5 * (scores - scores.min()))
        return Learned(
            winner, tuple(self.candidates), finalists, tuple(weights / weights.sum()), tuple(self.notes)
        )


def _results(function: Any, arguments: list[tuple[Any, ...]], jobs: int) -> Iterable[Any]:
    if jobs == 1 or len(arguments) < 2:
        return (function(*a) for a in arguments)
    from joblib import Parallel, delayed

    return Parallel(n_jobs=jobs, return_as="generator")(delayed(function)(*a) for a in arguments)


__all__ = ["Base", "GrammarSearch", "score_of"]
