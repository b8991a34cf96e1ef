"""Distil a network: from its polynomial to the smallest ordinary expression that says as much (METHODS 6).

    1. Multiply the network out and fit the weights of its largest terms again, the terms themselves unchanged. Weights
       that are maximised together under a lower bound of zero are sparse: most terms turn out not to be needed.
    2. Drop the terms whose removal costs less evidence than their price in BIC, and fit what is left: the first
       ordinary expression.
    3. Simplify it step by step (`simplify.py`), each time to the best of all kernels one step simpler, refitted from
       the optimum before; go on until even the best is far behind.
    4. Of everything tried, take the smallest whose BIC is close to the best.

Every kernel tried is a candidate, as in a search. Ctrl-C and the end of the time budget return the best so far.

How much a term matters does not show in its coefficient, which depends on the unit of a linear primitive, nor in its
variance, most of which may be a constant. It shows in its *spread*: the expected variance over the rows of a function
drawn from it, mean_i k(x_i, x_i) - mean_ij k(x_i, x_j). Spreads of terms add up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.compute.fused import cross
from mercer.compute.program import compile_program
from mercer.errors import KernelError, NumericalError
from mercer.fitting.minimise import Clock, minimise, starting_points
from mercer.fitting.problem import Fit, FitOptions, Problem, prepare
from mercer.inference.contract import Data, Engine
from mercer.inference.likelihood import Gaussian
from mercer.kernels.algebra import components, structure
from mercer.kernels.blend import Blend, Surface, under, within
from mercer.kernels.domains import Array, Positive
from mercer.kernels.expression import Base, Expression, Parameter, Product, build_base, find_all, product_of, sum_of
from mercer.kernels.layers import Exponential, Linear
from mercer.kernels.network import Network
from mercer.kernels.parameters import fill_held, layout, values_of
from mercer.learners.contract import Candidate, Context, Learned, Step, draw_some, read_time_budget
from mercer.learners.criteria import bic, penalty
from mercer.learners.simplify import simplify
from mercer.learners.trials import Trials
from mercer.linalg.threads import one_thread


@dataclass(frozen=True)
class DistilPolicy:
    """How far a network is simplified, and how closely kernels are compared on the way."""

    close: float = 2.0  # in BIC: "not worth a bare mention" (Kass and Raftery 1995)
    far: float = 10.0  # behind the best: simplifying any further would not come back
    terms: int = 40  # of the polynomial, the largest, whose weights are fitted
    first_terms: int = 8  # of the first expression, at most
    vanished: float = 1e-5  # of the whole spread: terms with less are left out
    weight_iterations: int = 100
    screening_iterations: int = 8  # by which kernels one step simpler are compared
    refitted: int = 2  # of them, the best, are fitted further
    refit_iterations: int = 60  # the chosen one is fitted to its end afterwards
    many_rows: int = 450  # with more, weights and screening go by a sample
    sample: int = 300  # rows of it


def distil(network: Fit, context: Context, max_iterations: int = 200, time_budget: float | None = None) -> Learned:
    """Return the ordinary expression that a fitted kernel with a network comes to, all in scaled units."""
    clock = Clock(read_time_budget(time_budget))
    check_networks(network.expression)
    return Distillation(network, context, max_iterations, clock).run()


class Distillation:
    """One distillation; the first of its candidates is the network itself."""

    def __init__(self, network: Fit, context: Context, max_iterations: int, clock: Clock) -> None:
        self.network, self.context, self.max_iterations = network, context, max_iterations
        self.data, self.policy = context.data, context.policy(DistilPolicy)
        self.trials = Trials(context.report, clock, context.count_jobs())
        self.sample = self.data  # rows that tell which kernels are worth fitting to all
        if self.data.count > self.policy.many_rows:
            self.sample = draw_some(self.data, self.policy.sample, 0)

    def run(self) -> Learned:
        """Simplify until nothing is gained; return the smallest expression whose BIC is close to the best."""
        trials = self.trials
        self._add(self.network, 0, Step("network", words="the network"), None, 0.0)
        with trials.stopping(), one_thread():
            current: int | None = self._fit_terms()
            depth = 1
            while current is not None:
                depth += 1
                current = self._simplify(current, depth)
            self._polish()
        if trials.stopped and not self._usable():  # there is no best so far to return
            raise trials.failure("no expression could be fitted")
        trials.note_stop("distillation", "expression")
        return trials.conclude(trials.candidates[self._choose()].full_fit)

    # -------------------------------------------------------------------------------------------- the first expression

    def _fit_terms(self) -> int:
        """Fit the terms of the network that matter by themselves."""
        terms = self._drop(self._reweigh(expand(self.network.expression, self.data.X, self.policy.terms)))
        kernel = join([term.kernel for term in merge_terms(terms)])
        fit, seconds = self._fit(kernel, self.network.noise, self.max_iterations)
        words = f"the {len(terms)} terms that matter" if len(terms) > 1 else "the term that matters"
        number = self._add(fit, 1, Step("terms", number=len(terms), words=words), 0, seconds)
        if fit.status == "failed":
            raise NumericalError(f"the terms of the network could not be fitted by themselves: {fit.message}")
        self.trials.tell(1, 1, 1)
        return number

    def _reweigh(self, terms: Sequence[ExpandedTerm]) -> list[ExpandedTerm]:
        """Fit the weights of the terms, all else as it is; those that vanish are left out."""
        problem = self._prepare_weights(terms)
        point = starting_points(problem, self._options(1), self.network.noise, neutral=False)[0][0]
        run = minimise(problem, [point], self.policy.weight_iterations)[0]
        weights = problem.split(run.point)[0][-1 - len(terms) : -1]
        changed = [
            ExpandedTerm(term.kernel.multiply_by(float(weight)), term.spread * float(weight))
            for term, weight in zip(terms, weights, strict=True)
        ]
        total = math.fsum(term.spread for term in changed)
        return [term for term in changed if term.spread > self.policy.vanished * total]

    def _prepare_weights(self, terms: Sequence[ExpandedTerm]) -> Problem:
        """Return the fit of a single Linear layer over the terms: its weights are all there is to fit."""

        def fix(owner: Any) -> Any:
            return replace(owner, parameters=tuple(replace(p, fixed=p.values is not None) for p in owner.parameters))

        primitives = tuple(term.kernel.map_owners(fix) for term in terms)
        nothing = Parameter("bias", (0.0,), fixed=True)
        layer = Linear(1, len(terms)).with_values(1.0).with_parameter(nothing)
        return prepare(Network(primitives, (layer,)), self.sample, self.context.engine, self._options(1))

    def _drop(self, terms: list[ExpandedTerm]) -> list[ExpandedTerm]:
        """Drop, one by one, the term whose removal costs least, while that is less than its price in BIC."""
        rows, scale, kept = self.data.count, self.data.count / self.sample.count, list(terms)
        while len(kept) > 1:
            problem = self._prepare_weights(kept)
            values, costs = values_of(problem.expression), []
            whole = self._evidence(problem, values)
            for place, term in enumerate(kept):
                without = values.copy()
                without[place - 1 - len(kept)] = 0.0
                price = 0.5 * penalty(layout(within(term.kernel)).n_free, rows)
                costs.append(scale * (whole - self._evidence(problem, without)) - price)
            least = int(np.argmin(costs))
            if costs[least] >= 0 and len(kept) <= self.policy.first_terms:
                break
            kept.pop(least)
            if len(kept) > 1:
                kept = self._reweigh(kept)
        return kept

    def _evidence(self, problem: Problem, values: Array) -> float:
        program, likelihood = problem.program, Gaussian(self.network.noise)
        return self.context.engine.evidence(program, values, likelihood, self.sample, False).value

    # ------------------------------------------------------------------------------------------------------ simplifying

    def _simplify(self, parent: int, depth: int) -> int | None:
        """Try everything one step simpler; return the number of the best, or None where there is no point in going on.

        Kernels are compared after a few iterations (on a sample of many rows); the best of them are fitted further.
        """
        trials, policy = self.trials, self.policy
        before = trials.candidates[parent].full_fit
        steps = list(simplify(before.expression, self.data.X))
        rest = (before.noise, self.sample, self.context.engine, self._options(policy.screening_iterations))
        work = {i: (kernel, *rest) for i, (kernel, _) in enumerate(steps)}
        screened: dict[int, tuple[Fit, float]] = dict(trials.run(fit_from_values, work, depth))
        order = sorted(screened, key=lambda i: self._expected_score(screened[i][0]))
        found: list[int] = []
        for rank, i in enumerate(order):
            fit, seconds = screened[i]
            if rank < policy.refitted and fit.status != "failed":
                steps_left = min(policy.refit_iterations, self.max_iterations)
                fit, more = self._fit(fit.expression, fit.noise, steps_left)
                found.append(self._add(fit, depth, steps[i][1], parent, seconds + more))
                trials.clock.check()
            else:
                self._add(fit, depth, steps[i][1], parent, seconds, raced_out=True)
        if not found:
            return None
        best = min(found, key=self._score_of)
        leading = min(map(self._score_of, self._usable()))
        return best if self._score_of(best) <= leading + policy.far else None

    def _polish(self) -> None:
        """Fit the chosen one on, where it had not come to its end."""
        number = self._choose()
        old = self.trials.candidates[number]
        if old.fit is None or old.fit.status != "stopped":
            return
        fit, seconds = self._fit(old.fit.expression, old.fit.noise, 5 * self.max_iterations)
        if fit.status != "failed" and fit.log_evidence >= old.fit.log_evidence:
            score, seconds = bic(fit.log_evidence, fit.parameters, self.data.count), old.seconds + seconds
            new = replace(old, expression=fit.expression, log_evidence=fit.log_evidence, score=score, seconds=seconds)
            self.trials.candidates[number] = replace(new, status=fit.status, message=fit.message, fit=fit)

    def _fit(self, kernel: Expression, noise: float, iterations: int) -> tuple[Fit, float]:
        return fit_from_values(kernel, noise, self.data, self.context.engine, self._options(iterations))

    def _options(self, iterations: int) -> FitOptions:
        return FitOptions(restarts=1, max_iterations=iterations, noise=self.context.noise, tolerance=1e-9)

    # ------------------------------------------------------------------------------------------------------- candidates

    def _expected_score(self, fit: Fit) -> float:
        """Return the BIC on all rows that one on the sample lets expect."""
        if fit.status == "failed":
            return math.inf
        return bic(fit.log_evidence * self.data.count / self.sample.count, fit.parameters, self.data.count)

    def _add(
        self, fit: Fit, depth: int, step: Step, parent: int | None, seconds: float, raced_out: bool = False
    ) -> int:
        status, message, log_evidence = str(fit.status), fit.message, fit.log_evidence
        score = math.inf if status == "failed" else bic(log_evidence, fit.parameters, self.data.count)
        if raced_out:
            score = self._expected_score(fit)
            log_evidence *= self.data.count / self.sample.count
            if status != "failed":
                status, message = "raced out", "left behind: other simplifications were more promising"
        candidate = Candidate(
            fit.expression, depth, step, parent, log_evidence, fit.parameters, score, status, message, seconds,
            None if raced_out else fit,
        )  # fmt: skip
        first = depth < 2 and fit.status != "failed"  # the first expression leads, whatever the score of the network
        return self.trials.add(candidate, leads=True if first else None)

    def _usable(self) -> list[int]:
        return [number for number in self.trials.find_finished() if number > 0]  # the first is the network

    def _score_of(self, number: int) -> float:
        return self.trials.candidates[number].score

    def _choose(self) -> int:
        """Return the smallest of those close to the best."""
        limit = min(map(self._score_of, self._usable())) + self.policy.close
        close = [number for number in self._usable() if self._score_of(number) <= limit]
        return min(close, key=lambda number: (self.trials.candidates[number].parameters, self._score_of(number)))


def fit_from_values(
    kernel: Expression, noise: float, data: Data, engine: Engine, options: FitOptions
) -> tuple[Fit, float]:
    """Fit a kernel from the values that it has, here or in a worker; also return how long it took."""
    clock = Clock()
    with one_thread():
        problem = prepare(kernel, data, engine, options)
        points, screened = starting_points(problem, options, noise, neutral=False)
        runs = minimise(problem, points[:1], options.max_iterations)
        return problem.conclude(runs, points[0], screened), clock.seconds


# ------------------------------------------------------------------------------------------------------ multiplying out

SPREAD_ROWS = 100  # rows that tell the spread
NOTHING = 1e-9  # of the whole spread
ALIKE = 0.4  # by how much the logarithms of two values may differ in parts that are taken for one
SAME_PERIOD = 0.03


@dataclass(frozen=True, eq=False)
class ExpandedTerm:
    """A product of base kernels with its values, and its spread over the rows."""

    kernel: Expression
    spread: float


def check_networks(expression: Expression) -> None:
    """Refuse kernels whose networks are no real polynomials, or that have none."""
    networks = list(find_all(expression, Network))
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


def expand(expression: Expression, X: Array, most: int = 40) -> list[ExpandedTerm]:
    """Multiply out every network of a bound, fitted kernel: the `most` largest terms, each a product of base kernels.

    Under a change surface each of them stands under the surface by itself; `join` puts them together again.
    """
    rows = X[np.linspace(0, len(X) - 1, min(len(X), SPREAD_ROWS)).astype(int)]
    found: list[ExpandedTerm] = []
    # in a product of its own, what a variance was fixed at in the network says nothing
    free = expression.map_leaves(lambda leaf: leaf.with_parameter(replace(leaf.parameter("variance"), fixed=False)))
    waiting = list(components(free))
    while waiting:
        part = waiting.pop()
        inside = within(part)
        factors = inside.factors if isinstance(inside, Product) else (inside,)
        network = next((factor for factor in factors if isinstance(factor, Network)), None)
        if network is None:
            found.append(ExpandedTerm(part, spread(_gram(part, rows))))
        else:
            waiting += _terms(network, [factor for factor in factors if factor is not network], part, rows, most)
    total = math.fsum(term.spread for term in found)
    found.sort(key=lambda term: -term.spread)
    return [term for term in found if term.spread > NOTHING * total][:most]


def join(kernels: Sequence[Expression]) -> Expression:
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
        terms.append(Blend(tuple(join(parts) if parts else None for parts in regimes), surface))
    return sum_of(terms)


def spread(gram: Array) -> float:
    """Return what the variance over the rows of a function drawn from a kernel is expected to be."""
    return float(np.mean(np.diag(gram)) - np.mean(gram))


def _gram(kernel: Expression, rows: Array) -> Array:
    return cross(compile_program(kernel), values_of(kernel), rows, rows)


def _terms(
    network: Network, others: Sequence[Expression], part: Expression, rows: Array, most: int
) -> list[Expression]:
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
    for size, term in ranked[:most]:
        if size > least:
            chosen = [fill_held(network.primitives[i]) for i, power in enumerate(term.powers) for _ in range(power)]
            factors = [*chosen, *others] or [build_base("C", variance=1.0)]
            result += components(product_of(factors).multiply_by(term.coefficient))
    return [each for kernel in result for each in components(under(part, merge_factors(kernel)))]


# ------------------------------------------------------------------------------------------------------ merging copies


def merge_factors(kernel: Expression) -> Expression:
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
            continue
        one, both = kept[twin], (kept[twin], factor)
        lengths = [np.array(leaf.parameter("lengthscale").values) for leaf in both]
        joint = (lengths[0] ** -2.0 + lengths[1] ** -2.0) ** -0.5
        variance = math.prod((leaf.parameter("variance").values or (1.0,))[0] for leaf in both)
        longer = one.with_parameter(Parameter("lengthscale", tuple(map(float, joint))))
        kept[twin] = longer.with_parameter(Parameter("variance", (variance,)))
    return product_of(kept)


def _mergeable(one: Base, other: Base) -> bool:
    if one.symbol != other.symbol or one.dims != other.dims or one.symbol not in ("PER", "RQ"):
        return False
    if one.symbol == "RQ":
        return True
    periods = [np.array(leaf.parameter("period").values) for leaf in (one, other)]
    return bool(np.all(np.abs(periods[0] / periods[1] - 1.0) < SAME_PERIOD))


def merge_terms(terms: Sequence[ExpandedTerm]) -> list[ExpandedTerm]:
    """Take terms of one structure with nearly the same values for one: the larger, with the spread of both."""
    kept: list[ExpandedTerm] = []
    for term in sorted(terms, key=lambda each: -each.spread):
        twin = next((place for place, other in enumerate(kept) if _alike(other.kernel, term.kernel)), None)
        if twin is None:
            kept.append(term)
        else:
            larger = kept[twin]
            both = larger.spread + term.spread
            kept[twin] = ExpandedTerm(larger.kernel.multiply_by(both / larger.spread), both)
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
