"""Distil a network: from its polynomial to the smallest ordinary expression that says as much (METHODS 6).

    1. Multiply the network out and fit the weights of its largest terms again, the terms themselves unchanged. Weights
       that are maximised together under a lower bound of zero are sparse: most terms turn out not to be needed.
    2. Drop the terms whose removal costs less evidence than their price in BIC, and fit what is left: the first
       ordinary expression.
    3. Simplify it step by step (`simplifying.py`), each time to the best of all kernels one step simpler, refitted from
       the optimum before; go on until even the best is far behind.
    4. Of everything tried, take the smallest whose BIC is within `CLOSE` of the best.

Every kernel tried is a candidate, as in a search. Ctrl-C and the end of the time budget return the best so far.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from mercer.compute.fused import cross
from mercer.compute.program import compile_program
from mercer.errors import KernelError, NumericalError
from mercer.fitting.clock import OutOfTimeError, Progress, Report
from mercer.fitting.optimise import Fit, FitOptions, Problem, concluded, optimise, prepare, starting_points
from mercer.inference.contract import Data, Engine
from mercer.inference.likelihood import Gaussian
from mercer.kernels.algebra import components, structure
from mercer.kernels.blend import Blend, Surface, under, within
from mercer.kernels.domains import Array, Positive
from mercer.kernels.expression import Base, Expression, Owner, Parameter, Product, build_base, product_of, sum_of
from mercer.kernels.layers import Exponential, Linear
from mercer.kernels.network import Network, has_network, networks_in
from mercer.kernels.parameters import fill_held, layout, values_of
from mercer.kernels.units import multiplied
from mercer.learners.contract import Candidate, Learned, Step, Stopped, alone
from mercer.learners.criteria import bic, penalty
from mercer.learners.simplify import simplifications
from mercer.learners.trials import run_parallel
from mercer.linalg.threads import one_thread

CLOSE = 2.0  # in BIC: "not worth a bare mention" (Kass and Raftery 1995)
FAR = 10.0  # behind the best: simplifying any further would not come back
MOST_SUMMANDS = 8  # of the first expression
SCREENED = 8  # iterations by which kernels one step simpler are compared
REFITTED = 2  # of them, the best, are fitted further
REFIT_ITERATIONS = 60  # the chosen one is fitted to its end afterwards
MANY, SAMPLE = 450, 300  # rows: with more, weights and screening go by a sample
VANISHED = 1e-5  # of the whole spread
WEIGHT_ITERATIONS = 100


def distil(
    network: Fit,
    data: Data,
    engine: Engine,
    *,
    noise: float | None = None,
    max_iterations: int = 200,
    time_budget: float | None = None,
    jobs: int = 1,
    report: Report | None = None,
) -> Learned:
    """Return the ordinary expression that a fitted kernel with a network comes to, all in scaled units.

    noise : a fixed noise variance, or None to fit it.
    """
    check_networks(network.expression)
    run = Distillation(network, data, engine, noise, max_iterations, time_budget, jobs, report)
    run.run()
    return run.conclude()


@dataclass
class Distillation:
    """One distillation; `run` fills `candidates`, of which the first is the network itself."""

    network: Fit
    data: Data
    engine: Engine
    noise: float | None
    max_iterations: int
    time_budget: float | None
    jobs: int
    report: Report | None
    candidates: list[Candidate] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stopped: Stopped = ""
    started: float = field(default_factory=time.perf_counter)

    def run(self) -> None:
        """Simplify until nothing is gained, or until told to stop."""
        self._add(self.network, 0, Step("network", words="the network"), None, 0.0)
        try:
            with one_thread():
                current = self._first_expression()
                depth = 2
                while (following := self._simplified(current, depth)) is not None:
                    current, depth = following, depth + 1
                self._polish()
        except (KeyboardInterrupt, OutOfTimeError) as cause:
            if not self._finished():  # there is no best so far to return
                if isinstance(cause, KeyboardInterrupt):
                    raise
                message = f"the time budget of {self.time_budget:g} s was spent before the first expression was fitted"
                raise NumericalError(f"{message}; allow more") from None
            self.stopped = "request" if isinstance(cause, KeyboardInterrupt) else "time"
            why = "on request" if self.stopped == "request" else f"after its time budget of {self.time_budget:g} s"
            self.notes.append(f"the distillation was stopped {why}; this is the best expression found until then")

    def conclude(self) -> Learned:
        """Return the smallest expression whose BIC is close to the best."""
        fit = self.candidates[self._chosen()].fit
        assert fit is not None
        return Learned(fit, tuple(self.candidates), (fit,), alone(), tuple(self.notes), self.stopped)

    @cached_property
    def sampled(self) -> Data:
        """Rows that tell which kernels are worth fitting to all."""
        if self.data.count <= MANY:
            return self.data
        rows = np.sort(np.random.default_rng(0).choice(self.data.count, SAMPLE, replace=False))
        return self.data.take(rows)

    # -------------------------------------------------------------------------------------------- the first expression

    def _first_expression(self) -> int:
        summands = expanded(self.network.expression, self.data.X)
        summands = self._needed(self._reweighed(summands))
        kernel = joined([summand.kernel for summand in merged_summands(summands)])
        began = time.perf_counter()
        fit = self._fitted(kernel, self.network.noise, self.max_iterations)
        words = f"the {len(summands)} terms that matter" if len(summands) > 1 else "the term that matters"
        step = Step("terms", number=len(summands), words=words)
        number = self._add(fit, 1, step, 0, time.perf_counter() - began)
        if fit.status == "failed":
            raise NumericalError(f"the terms of the network could not be fitted by themselves: {fit.message}")
        self._tell(1, 1, 1)
        return number

    def _reweighed(self, summands: Sequence[Summand]) -> list[Summand]:
        """Fit the weights of the summands, all else as it is; those that vanish are left out."""
        problem = self._weighing(summands)
        point = starting_points(problem, self._options(1), self.network.noise, neutral=False)[0][0]
        run = optimise(problem, point, WEIGHT_ITERATIONS)
        values, _ = problem.objective.split(run.point)
        weights = values[-1 - len(summands) : -1]
        changed = [
            Summand(multiplied(summand.kernel, float(weight)), summand.spread * float(weight))
            for summand, weight in zip(summands, weights, strict=True)
        ]
        total = math.fsum(summand.spread for summand in changed)
        return [summand for summand in changed if summand.spread > VANISHED * total]

    def _weighing(self, summands: Sequence[Summand]) -> Problem:
        """The fit of a single Linear layer over the summands: its weights are all there is to fit."""
        primitives = tuple(summand.kernel.map_owners(_all_fixed) for summand in summands)
        nothing = Parameter("bias", (0.0,), fixed=True)
        layer = Linear(1, len(summands)).with_values(1.0).with_parameter(nothing)
        return prepare(Network(primitives, (layer,)), self.sampled, self.engine, self._options(1))

    def _needed(self, summands: list[Summand]) -> list[Summand]:
        """Drop, one by one, the summand whose removal costs least, while that is less than its price in BIC."""
        rows, scale = self.data.count, self.data.count / self.sampled.count
        kept = list(summands)
        while len(kept) > 1:
            problem = self._weighing(kept)
            values = values_of(problem.expression)
            whole = self._evidence(problem, values)
            costs = []
            for place, summand in enumerate(kept):
                without = values.copy()
                without[place - 1 - len(kept)] = 0.0
                price = 0.5 * penalty(layout(within(summand.kernel)).n_free, rows)
                costs.append(scale * (whole - self._evidence(problem, without)) - price)
            least = int(np.argmin(costs))
            if costs[least] >= 0 and len(kept) <= MOST_SUMMANDS:
                break
            kept.pop(least)
            if len(kept) > 1:
                kept = self._reweighed(kept)
        return kept

    def _evidence(self, problem: Problem, values: Any) -> float:
        return self.engine.evidence(
            problem.objective.program, values, Gaussian(self.network.noise), self.sampled, False
        ).value

    # ------------------------------------------------------------------------------------------------------ simplifying

    def _simplified(self, parent: int, depth: int) -> int | None:
        """Try everything one step simpler; return the number of the best, or None where there is no point in going on.

        Kernels are compared after a few iterations (on a sample of many rows); the best of them are fitted further.
        """
        before = self.candidates[parent].fit
        assert before is not None
        steps = list(simplifications(before.expression, self.data.X))
        work = {i: (self, kernel, before.noise) for i, (kernel, _) in enumerate(steps)}
        screened: dict[int, tuple[Fit, float]] = {}
        for i, result in run_parallel(_screened, work, self.jobs):
            screened[i] = result
            self._tell(depth, len(screened), len(steps))
            self._check_time()
        order = sorted(screened, key=lambda i: self._expected_score(screened[i][0]))
        found: list[int] = []
        for rank, i in enumerate(order):
            fit, seconds = screened[i]
            if rank < REFITTED and fit.status != "failed":
                began = time.perf_counter()
                fit = self._fitted(fit.expression, fit.noise, min(REFIT_ITERATIONS, self.max_iterations))
                found.append(self._add(fit, depth, steps[i][1], parent, seconds + time.perf_counter() - began))
                self._check_time()
            else:
                self._add(fit, depth, steps[i][1], parent, seconds, raced_out=True)
        if not found:
            return None
        best = min(found, key=lambda number: self.candidates[number].score)
        leading = self.candidates[self._best()].score
        return best if self.candidates[best].score <= leading + FAR else None

    def screen(self, kernel: Expression, noise: float) -> tuple[Fit, float]:
        """Fit a kernel a little, on the sample; also return how long it took."""
        began = time.perf_counter()
        with one_thread():
            fit = self._fitted(kernel, noise, SCREENED, self.sampled)
        return fit, time.perf_counter() - began

    def _polish(self) -> None:
        """Fit the chosen one on, where it had not come to its end."""
        number = self._chosen()
        old = self.candidates[number]
        if old.fit is None or old.fit.status != "stopped":
            return
        began = time.perf_counter()
        fit = self._fitted(old.fit.expression, old.fit.noise, 5 * self.max_iterations)
        if fit.status != "failed" and fit.log_evidence >= old.fit.log_evidence:
            new = self._candidate(fit, old.depth, old.step, old.parent, old.seconds + time.perf_counter() - began)
            self.candidates[number] = new

    def _fitted(self, kernel: Expression, noise: float, iterations: int, data: Data | None = None) -> Fit:
        """Fit from the values that the kernel has."""
        options = self._options(iterations)
        problem = prepare(kernel, self.data if data is None else data, self.engine, options)
        points, screened = starting_points(problem, options, noise, neutral=False)
        run = optimise(problem, points[0], iterations)
        return concluded(problem, [run], points[0], screened)

    def _options(self, iterations: int) -> FitOptions:
        return FitOptions(restarts=1, max_iterations=iterations, noise=self.noise, tolerance=1e-9)

    # ------------------------------------------------------------------------------------------------------ bookkeeping

    def _score(self, log_evidence: float, parameters: int) -> float:
        return bic(log_evidence, parameters, self.data.count)

    def _expected_score(self, fit: Fit) -> float:
        """The BIC on all rows that one on the sample lets expect."""
        if fit.status == "failed":
            return math.inf
        return self._score(fit.log_evidence * self.data.count / self.sampled.count, fit.parameters)

    def _add(
        self, fit: Fit, depth: int, step: Step, parent: int | None, seconds: float, raced_out: bool = False
    ) -> int:
        self.candidates.append(self._candidate(fit, depth, step, parent, seconds, raced_out))
        return len(self.candidates) - 1

    def _candidate(
        self, fit: Fit, depth: int, step: Step, parent: int | None, seconds: float, raced_out: bool = False
    ) -> Candidate:
        failed = fit.status == "failed"
        score = math.inf if failed else self._score(fit.log_evidence, fit.parameters)
        kept: Fit | None = fit
        status, message, log_evidence = str(fit.status), fit.message, fit.log_evidence
        if raced_out:
            score, kept = self._expected_score(fit), None
            log_evidence *= self.data.count / self.sampled.count
            if not failed:
                status, message = "raced out", "left behind: other simplifications were more promising"
        return Candidate(
            fit.expression, depth, step, parent, log_evidence, fit.parameters, score, status, message, seconds, kept
        )

    def _finished(self) -> list[int]:
        return [
            number for number, c in enumerate(self.candidates)
            if c.fit is not None and math.isfinite(c.score) and not has_network(c.expression)
        ]  # fmt: skip

    def _best(self) -> int:
        return min(self._finished(), key=lambda number: self.candidates[number].score)

    def _chosen(self) -> int:
        limit = self.candidates[self._best()].score + CLOSE
        close = [number for number in self._finished() if self.candidates[number].score <= limit]
        return min(close, key=lambda number: (self.candidates[number].parameters, self.candidates[number].score))

    def _check_time(self) -> None:
        if self.time_budget is not None and time.perf_counter() - self.started > self.time_budget:
            raise OutOfTimeError

    def _tell(self, depth: int, done: int, total: int) -> None:
        if self.report is None:
            return
        best = self.candidates[self._best()] if self._finished() else self.candidates[0]
        elapsed = time.perf_counter() - self.started
        left = None if self.time_budget is None else max(0.0, self.time_budget - elapsed)
        self.report(Progress(done, total, "kernels", best.expression, best.score, elapsed, left, depth))


def _screened(run: Distillation, kernel: Expression, noise: float) -> tuple[Fit, float]:
    return run.screen(kernel, noise)


def _all_fixed(owner: Owner) -> Owner:
    return replace(owner, parameters=tuple(replace(p, fixed=p.values is not None) for p in owner.parameters))


# A kernel with networks, multiplied out: a sum of products of primitives, in the order of how much they matter.
#
# How much a summand matters is not told by its coefficient, which depends on the unit of a linear primitive, nor by its
# variance, most of which may be a constant. It is told by its *spread*: what the variance over the rows of a function
# drawn from it is expected to be, mean_i k(x_i, x_i) - mean_ij k(x_i, x_j). Spreads of summands add up.


SPREAD_ROWS = 100  # rows that tell the spread
KEPT = 40  # summands, the largest
NOTHING = 1e-9  # of the whole spread
ALIKE = 0.4  # by how much the logarithms of two values may differ in parts that are taken for one
SAME_PERIOD = 0.03


@dataclass(frozen=True, eq=False)
class Summand:
    """A product of base kernels with its values, and its spread over the rows."""

    kernel: Expression
    spread: float


def check_networks(expression: Expression) -> None:
    """Refuse kernels whose networks are no real polynomials, or that have none."""
    networks = list(networks_in(expression))
    if not networks:
        raise KernelError(
            f"there is nothing to distil: {structure(expression).text()} has no network; it is an expression already"
        )
    for network in networks:
        if any(isinstance(layer, Exponential) for layer in network.layers):
            raise KernelError(
                "a network with an Exp layer cannot be distilled: it is no polynomial, its series has no end; "
                "use Poly(c0, c1, ...) instead"
            )
        if network.complex:
            raise KernelError(
                "a complex network cannot be distilled: its terms are no kernels of their own; use COS in place of EXPI"
            )
        alone = next((leaf.symbol for leaf in network.leaves() if leaf.spec.outside_networks), None)
        if alone is not None:
            raise KernelError(f"a network with {alone} cannot be distilled: {alone} is no kernel outside a network")
        alone = next((leaf.symbol for leaf in network.leaves() if leaf.spec.outside_networks), None)
        if alone is not None:
            raise KernelError(f"a network with {alone} cannot be distilled: {alone} is no kernel outside a network")


def expanded(expression: Expression, X: Array) -> list[Summand]:
    """Multiply out every network of a bound, fitted kernel: the largest summands, each a product of base kernels.

    Under a change surface each of them stands under the surface by itself; `joined` puts them together again.
    """
    rows = X[np.linspace(0, len(X) - 1, min(len(X), SPREAD_ROWS)).astype(int)]
    found: list[Summand] = []
    waiting = list(components(expression.map_leaves(_with_free_variance)))
    while waiting:
        part = waiting.pop()
        inside = within(part)
        factors = inside.factors if isinstance(inside, Product) else (inside,)
        network = next((factor for factor in factors if isinstance(factor, Network)), None)
        if network is None:
            found.append(Summand(part, spread(_gram(part, rows))))
        else:
            waiting += _terms(network, [factor for factor in factors if factor is not network], part, rows)
    total = math.fsum(summand.spread for summand in found)
    found.sort(key=lambda summand: -summand.spread)
    return [summand for summand in found if summand.spread > NOTHING * total][:KEPT]


def joined(kernels: Sequence[Expression]) -> Expression:
    """Return the sum, with what stands under the same change surface under a single one."""
    changing: dict[Surface, list[Blend]] = {}
    for kernel in kernels:
        if isinstance(kernel, Blend):
            changing.setdefault(kernel.surface, []).append(kernel)
    terms = [kernel for kernel in kernels if not isinstance(kernel, Blend)]
    for surface, blends in changing.items():
        regimes = [
            [part for part in parts if part is not None] for parts in zip(*(b.parts for b in blends), strict=True)
        ]
        terms.append(Blend(tuple(joined(parts) if parts else None for parts in regimes), surface))
    return sum_of(terms)


def spread(gram: Array) -> float:
    """Return what the variance over the rows of a function drawn from a kernel is expected to be."""
    return float(np.mean(np.diag(gram)) - np.mean(gram))


def _with_free_variance(leaf: Base) -> Base:
    """In a product of its own, what a variance was fixed at in the network says nothing."""
    return leaf.with_parameter(replace(leaf.parameter("variance"), fixed=False))


def _gram(kernel: Expression, rows: Array) -> Array:
    return cross(compile_program(kernel), values_of(kernel), rows, rows)


def _terms(network: Network, others: Sequence[Expression], part: Expression, rows: Array) -> list[Expression]:
    """Return the largest terms of a network's polynomial, times the other factors of its part, in canonical form."""
    grams = [_gram(fill_held(primitive), rows) for primitive in network.primitives]
    beside = _gram(under(part, product_of(others) if others else build_base("C", variance=1.0)), rows)
    ranked = []
    for term in network.polynomial(None):
        gram = beside
        for one, power in zip(grams, term.powers, strict=True):
            gram = gram * one**power if power else gram
        ranked.append((term.coefficient * spread(gram), term))
    ranked.sort(key=lambda each: -each[0])
    least = NOTHING * math.fsum(size for size, _ in ranked)
    result: list[Expression] = []
    for size, term in ranked[:KEPT]:
        if size > least:
            chosen = [fill_held(network.primitives[i]) for i, power in enumerate(term.powers) for _ in range(power)]
            factors = [*chosen, *others] or [build_base("C", variance=1.0)]
            result += components(multiplied(product_of(factors), term.coefficient))
    return [each for kernel in result for each in components(under(part, merged_factors(kernel)))]


# ------------------------------------------------------------------------------------------------------ merging copies


def merged_factors(kernel: Expression) -> Expression:
    """Merge copies of one stationary base kernel in a product: exactly where they are powers, else nearly.

    PER(l)^2 is PER(l / sqrt2); RQ(l)^2 is RQ(l / sqrt2) at short distances. What is only nearly so is fitted later.
    """
    if not isinstance(kernel, Product) or not all(isinstance(factor, Base) for factor in kernel.factors):
        return kernel
    kept: list[Base] = []
    for factor in kernel.factors:
        assert isinstance(factor, Base)
        twin = next((place for place, other in enumerate(kept) if _mergeable(other, factor)), None)
        if twin is None:
            kept.append(factor)
        else:
            kept[twin] = _joined(kept[twin], factor)
    return product_of(kept)


def _mergeable(one: Base, other: Base) -> bool:
    if one.symbol != other.symbol or one.dims != other.dims or one.symbol not in ("PER", "RQ"):
        return False
    if one.symbol == "RQ":
        return True
    periods = [np.array(leaf.parameter("period").values) for leaf in (one, other)]
    return bool(np.all(np.abs(periods[0] / periods[1] - 1.0) < SAME_PERIOD))


def _joined(one: Base, other: Base) -> Base:
    lengths = [np.array(leaf.parameter("lengthscale").values) for leaf in (one, other)]
    joint = (lengths[0] ** -2.0 + lengths[1] ** -2.0) ** -0.5
    variances = [(leaf.parameter("variance").values or (1.0,))[0] for leaf in (one, other)]
    longer = one.with_parameter(Parameter("lengthscale", tuple(map(float, joint))))
    return longer.with_parameter(Parameter("variance", (variances[0] * variances[1],)))


def merged_summands(summands: Sequence[Summand]) -> list[Summand]:
    """Take summands of one structure with nearly the same values for one: the larger, with the spread of both."""
    kept: list[Summand] = []
    for summand in sorted(summands, key=lambda each: -each.spread):
        twin = next((place for place, other in enumerate(kept) if _alike(other.kernel, summand.kernel)), None)
        if twin is None:
            kept.append(summand)
        else:
            larger = kept[twin]
            both = larger.spread + summand.spread
            kept[twin] = Summand(multiplied(larger.kernel, both / larger.spread), both)
    return sorted(kept, key=lambda each: -each.spread)


def _alike(one: Expression, other: Expression) -> bool:
    if structure(one) != structure(other):
        return False
    values = [values_of(one), values_of(other)]
    for slot in layout(one).slots:
        if slot.spec.name != "variance" and isinstance(slot.spec.domain, Positive):
            limit = SAME_PERIOD if slot.spec.name == "period" else ALIKE
            if np.any(np.abs(np.log(values[0][slot.where] / values[1][slot.where])) > limit):
                return False
    return True
