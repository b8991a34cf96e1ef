"""Many rows: learn from a sample of them, exactly; then fit to all of them, with an engine that can.

A structure shows in some hundred rows, and so do the rough values of its parameters. What all rows add, sharper values
and predictions that know every row, takes a few dozen evaluations of the large engine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mercer.compute.program import compile_program
from mercer.fitting.minimise import Clock, is_past, minimise, minimise_scaled
from mercer.fitting.problem import Evaluations, Fit, FitOptions, Problem, Run, prepare
from mercer.inference.bounds import BoundPolicy, Interval, closest, interval
from mercer.inference.choose import DEFAULT as CHOICE
from mercer.inference.contract import Data, Engine
from mercer.inference.exact import Exact
from mercer.inference.lattice import MOST_MISSING, find_lattice
from mercer.inference.vfe import VFE, FixedVFE, holds_points, is_sparse
from mercer.kernels.domains import Array
from mercer.kernels.expression import contains
from mercer.kernels.network import Network
from mercer.learners.contract import Candidate, Learned, Learner, WholeData, draw_some, draw_with_neighbours
from mercer.learners.criteria import bic


@dataclass(frozen=True)
class ManyRowsPolicy:
    """How much of the work is done on a sample, and how long the fit to all rows goes on."""

    sample: int = 800  # rows to learn from: a structure shows in some hundred
    rounds: int = 3  # of fitting to all rows, what the engine holds (inducing points, draws) chosen anew for each
    iterations: int = 25  # of each round; twice as many where each costs little: moderately many rows, no network
    nearer: int = 2500  # rows of a first round before those on all rows, for exact inference and networks
    nearer_iterations: int = 100
    growth: int = 8  # times as many rows for the next round of exact inference, as long as twice that is not all
    scaled_rows: int = 50_000  # of exact inference on more rows an evaluation takes long: few, well-scaled steps
    scaled_iterations: int = 8
    margin: float = 20.0  # BIC that a kernel may be behind the best after its first round
    least_gain: float = 1e-4  # share of the log evidence: a round that gains less is the last
    too_few: float = 0.01  # nats for each row that more inducing points gain: then those of a fit are too few
    interval_rows: int = 100_000  # rows up to which every kernel of a search gets an interval on all of them
    kept_share: float = 0.35  # of a time budget that a learner leaves for the fits to all rows
    fitting_share: float = 0.6  # of the time left then in which parameters move; then come last points and intervals
    # times as long as choosing points and one evidence: the posterior and rows left out come after these
    passes: float = 1.5
    members: int = 3  # of an average that are fitted to all rows
    least_weight: float = 0.001  # of a member that is worth the time


NEGLIGIBLE_GAIN = 1e-7  # share of the log evidence, a hundredth of 100,000: no verdict turns on less
BLOCK_CELLS = 16  # of a block of neighbours in a sample of a grid


def draw_sample(data: Data, seed: int, policy: ManyRowsPolicy) -> Data:
    """Return the rows to learn from, in their order; half of them as neighbours where rows have some.

    Of a grid of several axes half are blocks of cells; of a table with a column whose values repeat, half share values.

    Single cells of a large grid lie far apart: they show where things change, but nothing that is smaller than the gaps
    between them.
    """
    if data.count <= policy.sample:
        return data
    rng = np.random.default_rng(seed)
    lattice = find_lattice(data.X, most_cells=data.count / (1.0 - MOST_MISSING))
    if lattice is None or sum(n > 1 for n in lattice.shape) < 2:
        return draw_with_neighbours(data, policy.sample, rng)
    side = max(2, round(BLOCK_CELLS ** (1.0 / sum(n > 1 for n in lattice.shape))))
    places = [place // side for place in np.unravel_index(lattice.cells, lattice.shape)]
    _, block = np.unique(np.stack(places), axis=1, return_inverse=True)
    turn = rng.permutation(int(block.max()) + 1)
    chosen = np.zeros(data.count, dtype=bool)
    chosen[np.argsort(turn[block.ravel()], kind="stable")[: policy.sample // 2]] = True
    others = np.flatnonzero(~chosen)
    chosen[rng.choice(others, policy.sample - int(chosen.sum()), replace=False)] = True
    return data.take(chosen)


def whole_of(learner: Learner, data: Data, engine: Engine, policy: ManyRowsPolicy) -> WholeData | None:
    """Return all rows, where a learner can judge by intervals on them what it tries on a sample.

    Where the sample is all of the rows, the exact evidence says more than any interval.
    """
    bounded = data.source is None and policy.sample < data.count <= policy.interval_rows
    return WholeData(data, engine) if is_sparse(engine) and bounded and learner.by_intervals else None


@dataclass(frozen=True, eq=False)
class AllRows:
    """Fits kernels that were fitted to a sample to all rows, from where they are.

    `options.max_iterations` is the most that all rounds of a kernel may take together. Where the time ends, the first
    kernel has begun in any case, and what was reached counts.
    """

    data: Data
    engine: Engine
    options: FitOptions
    policy: ManyRowsPolicy = ManyRowsPolicy()
    clock: Clock = field(default_factory=Clock)  # of the whole fit; `options.until` is when parameters stop to move

    def set_time(self) -> AllRows:
        """Return the same with a time at which parameters stop to move, where there is a budget."""
        left = self.clock.seconds_left
        if left is None:
            return self
        return replace(self, options=replace(self.options, until=time.time() + self.policy.fitting_share * left))

    def fit(self, fits: dict[int, Fit], settled: bool = False) -> dict[int, Fit]:
        """Fit kernels to all rows: all begin, the leaders go on.

        The first of them too where it is the winner whatever its evidence (`settled`).
        Ctrl-C ends the rounds; what was reached so far counts.
        """
        now, going, held = dict(fits), list(fits), set[int]()
        try:
            for i, fit in fits.items():
                if is_past(self.options.until) and i != going[0]:
                    continue
                found = self.settle(fit)
                if found is None:
                    found = self.begin(fit)
                else:
                    held.add(i)
                now[i] = fit if found.status == "failed" else found
            # evidence grows with the rows: on some of them a parameter has its share of the price only
            share = max(self.first_rows(fit) for fit in fits.values()) / self.data.count
            begun = {i: fit for i, fit in now.items() if fit is not fits[i]}
            scores = {i: bic(fit.log_evidence, share * fit.parameters, self.data.count) for i, fit in begun.items()}
            leaders = [i for i in scores if scores[i] <= min(scores.values()) + self.policy.margin]
            going = list(dict.fromkeys([*going[:1], *leaders])) if settled else leaders or going[:1]
            for i in going:
                if not is_past(self.options.until) and i not in held:
                    now[i] = self.finish(now[i])
        except KeyboardInterrupt:
            going = [i for i in going if now[i] is not fits[i]] or going[:1]
            stopped = "stopped on request while it was fitted to all rows"
            now.update({i: replace(now[i], status="interrupted", message=stopped) for i in going})
        return {i: now[i] if i in held else self.score(now[i]) for i in going}

    def settle(self, fit: Fit) -> Fit | None:
        """Return the fit at values from some of the rows, scored on all of them, where that is all that can be done.

        A rough kernel needs more inducing points than a fit to all rows can move parameters with: steps on the bound
        from too few of them would make it smooth. The points of the final posterior, which is worked out once, may be
        enough for it. None where few points are enough, and of networks, which are fitted to some rows exactly first.
        """
        engine, policy, rows = self.engine, self.policy, self.data
        if contains(fit.expression, Network):
            return None
        if not is_sparse(engine) or engine.predicting is None or rows.source is not None or rows.count <= policy.nearer:
            return None
        few = engine.hold(compile_program(fit.expression), fit.values, rows)
        found = few.evidence(compile_program(fit.expression), fit.values, fit.likelihood, rows, gradient=False)
        scored = self.score(replace(fit, held=None))
        if not scored.log_evidence > found.value + policy.too_few * rows.count:
            return None
        some = draw_with_neighbours(rows, policy.nearer, self.options.seed)
        exact = Exact(engine.backend)
        near = self.carry_on(fit, some, exact, policy.nearer_iterations, self.options.max_iterations)
        if near.status == "failed":
            return scored
        moved = self.score(replace(near, rows=rows.count))
        return moved if moved.status != "failed" and moved.log_evidence > scored.log_evidence else scored

    def begin(self, fit: Fit) -> Fit:
        """Take the first round, on some of the rows where those come first."""
        if not self.some_first(fit):
            return self._round(fit, self.options.max_iterations)
        some, iterations, left = self.first_rows(fit), self.policy.nearer_iterations, self.options.max_iterations
        engine = Exact(self.engine.backend) if is_sparse(self.engine) else self.engine
        found = self.carry_on(fit, draw_some(self.data, some, self.options.seed), engine, iterations, left)
        while engine is self.engine and 2 * self.policy.growth * some <= self.data.count and found.status != "failed":
            some, iterations = self.policy.growth * some, self.policy.iterations
            found = self.carry_on(found, draw_some(self.data, some, self.options.seed), engine, iterations, left)
        return found

    def some_first(self, fit: Fit) -> bool:
        """Tell whether the first round is exact, on some of the rows.

        Exact inference costs as the cube of the rows. And inducing points hold a network, with its many parameters,
        near what it was like when they were chosen: it gets them near its end.
        """
        if self.engine.is_bound:
            return (
                contains(fit.expression, Network) and self.data.source is None and self.data.count > self.policy.nearer
            )
        return self.engine.exact

    def first_rows(self, fit: Fit) -> int:
        """Return how many rows the first round is on; up to twice as many as those are few for exact inference."""
        few = self.policy.nearer if self.engine.is_bound else 2 * self.policy.nearer
        return self.policy.nearer if self.some_first(fit) and self.data.count > few else self.data.count

    def finish(self, fit: Fit) -> Fit:
        """Take the other rounds; after one on some of the rows there is one more."""
        best, each = fit, self._iterations(fit)
        left = self.options.max_iterations - (0 if self.some_first(fit) else each)
        for _ in range(1 if self.some_first(fit) else self.policy.rounds - 1):
            if left <= 0:
                break
            if is_past(self.options.until):
                break
            found = self._round(best, left)
            left -= each
            if found.status == "failed":
                break
            gain, best = found.log_evidence - best.log_evidence, found
            if gain < self.policy.least_gain * abs(found.log_evidence):
                break
        return best

    def _iterations(self, fit: Fit) -> int:
        """Return the steps of a round; twice as many where each costs little."""
        dear = self.data.count > CHOICE.moderate_rows or (self.engine.is_bound and self.some_first(fit))
        return self.policy.iterations * (1 if dear else 2)

    def _round(self, fit: Fit, allowed: int) -> Fit:
        held = fit.held or self.engine.hold(compile_program(fit.expression), fit.values, self.data)
        return self.carry_on(fit, self.data, held, self._iterations(fit), allowed)

    def carry_on(self, fit: Fit, data: Data, engine: Engine, steps: int, allowed: int) -> Fit:
        """Carry a fit on with other rows and another engine, by some steps, or as many as the user still allows."""
        iterations = min(steps, allowed)
        problem = prepare(fit.expression, data, engine, self.options)
        point = problem.point(fit.values, fit.likelihood)
        if problem.noise is None and engine.is_bound:
            point = settle_noise(problem, point)
        held = None
        if holds_points(engine) and engine.moves_points:
            run, held = minimise_jointly(problem, engine, point, iterations, self.options.until)
            problem = replace(problem, engine=held)
        elif engine.exact and data.count > self.policy.scaled_rows:
            run = self._minimise_scaled(problem, point, min(iterations, self.policy.scaled_iterations))
        else:
            run = minimise(problem, [point], iterations, until=self.options.until)[0]
        # a round ends after a few steps: that is no failure to converge, but it is one where the user allowed no more
        run = replace(run, converged=run.converged or (steps <= allowed and not run.out_of_time))
        return replace(problem.conclude([run], run.point, fit.evaluations), held=held)

    def _minimise_scaled(self, problem: Problem, point: Array, iterations: int) -> Run:
        """Minimise in steps of what the data leave uncertain, so that few evaluations are enough.

        The scale of a number is 1 / sqrt(its curvature), from slopes on a small part of the rows, where one evaluation
        takes a thousandth of the time: curvatures grow in proportion to the rows.
        """
        rows, shift = min(problem.data.count, self.policy.growth * self.policy.nearer), 1e-3
        part = replace(problem, data=draw_some(problem.data, rows, self.options.seed))
        slope = part.loss(point)[1]
        ahead = [part.loss(point + shift * unit)[1] for unit in np.eye(len(point))]
        curvature = np.maximum(np.diagonal(np.stack(ahead) - slope) / shift, 1.0) * (problem.data.count / rows)
        return minimise_scaled(problem, point, 1.0 / np.sqrt(curvature), iterations, NEGLIGIBLE_GAIN)

    def _hold_more(self, fit: Fit) -> Engine | None:
        """Return the points of the final posterior; those of the fit where a time budget leaves too little for more."""
        engine, program, data = self.engine, compile_program(fit.expression), self.data
        limited = self.clock.budget is not None and data.source is None
        if limited and is_sparse(engine) and engine.predicting is not None:
            started = self.clock.seconds
            few = fit.held or engine.hold(program, fit.values, data)
            few.evidence(program, fit.values, fit.likelihood, data, gradient=False)
            needed = (engine.predicting / engine.inducing) ** 2 * self.policy.passes * (self.clock.seconds - started)
            if needed > (self.clock.seconds_left or 0.0):
                return few
        return engine.hold_for_predictions(program, fit.values, data)

    def score(self, fit: Fit) -> Fit:
        """Return the fit with the scores of the engine that will predict, which chooses what it holds itself."""
        if self.engine.exact and fit.rows == self.data.count:
            return fit  # they are these already
        data, program, likelihood = self.data, compile_program(fit.expression), fit.likelihood
        engines = [fit.held or self.engine]
        more = self._hold_more(fit)
        if more is not None:
            # points that moved to where they are needed can be worth more than many more among the rows
            engines = [more] if fit.held in (None, more) else [more, fit.held]
        found = [(one, one.evidence(program, fit.values, likelihood, data, gradient=False)) for one in engines]
        engine, evidence = max(found, key=lambda pair: pair[1].value)
        if engine.held:
            fit = replace(fit, held=engine)
        if evidence.failure is not None:
            return replace(fit, status="failed", message=evidence.failure)
        left_out = engine.posterior(program, fit.values, likelihood, data).left_out_score()
        return replace(fit, log_evidence=evidence.value, leave_one_out=left_out, jitter=evidence.jitter)


def settle_noise(problem: Problem, point: Array) -> Array:
    """Return the point with its noise doubled as long as that helps.

    A bound from few inducing points takes what they miss for noise. From a point of exact inference its slope towards
    a kernel of nothing but noise is steep, and a quasi-Newton step follows it to the end; with enough noise it is not.
    """
    best, most = point, problem.bounds[-1, 1]
    value = problem.evidence(best).value
    while best[-1] < most:
        trial = best.copy()
        trial[-1] = min(most, best[-1] + math.log(2.0))
        found = problem.evidence(trial).value
        if not found > value:
            break
        best, value = trial, found
    return best


@dataclass(frozen=True, eq=False)
class _Jointly:
    """A problem whose inducing points move too, by the gradient of the variational bound (Titsias 2009)."""

    problem: Problem
    engine: FixedVFE
    bounds: Array
    tolerance: float
    data: Data

    def loss(self, point: Array, record: Evaluations | None = None) -> tuple[float, Array]:
        problem, count = self.problem, len(self.problem.bounds)
        values, likelihood = problem.split(point[:count])
        moved = replace(self.engine, Z=point[count:].reshape(self.engine.Z.shape), moving=True)
        evidence = moved.evidence(problem.program, values, likelihood, problem.data)
        value, slope = problem.grade(point[:count], values, likelihood.noise, evidence)
        by_points = np.zeros(self.engine.Z.shape) if evidence.by_points is None else -evidence.by_points
        return value, np.concatenate([slope, by_points.ravel()])


def minimise_jointly(
    problem: Problem, engine: FixedVFE, point: Array, iterations: int, until: float | None = None
) -> tuple[Run, FixedVFE]:
    """Minimise from one point and the engine's inducing inputs; return where both ended."""
    count, anywhere = len(point), np.tile([-np.inf, np.inf], (engine.Z.size, 1))
    both = _Jointly(problem, engine, np.vstack([problem.bounds, anywhere]), problem.tolerance, problem.data)
    run = minimise(both, [np.concatenate([point, engine.Z.ravel()])], iterations, until=until)[0]
    moved = replace(engine, Z=run.point[count:].reshape(engine.Z.shape).copy())
    return replace(run, point=run.point[:count]), moved


def fit_to_all(learned: Learned, all_rows: AllRows) -> Learned:
    """Fit what was learned from a sample to all rows: the winner, and those with the largest weights in an average.

    Whichever of these is then best (of two bounds, certain of more) is the winner, unless that is settled.
    """
    all_rows = all_rows.set_time()
    data, engine, policy = all_rows.data, all_rows.engine, all_rows.policy
    within = learned.weights.within
    by_intervals = engine.is_bound and any(c.interval is not None for c in learned.candidates)
    order = np.argsort([-w for w in within], kind="stable")
    unclear = find_unclear(learned)  # of these the last fit decides
    worth = [int(i) for i in order if i != 0 and not (by_intervals and within[i] < policy.least_weight)]
    worth = [*(i for i in unclear if i not in worth), *worth] if by_intervals else worth
    alone = engine.is_bound and contains(learned.fit.expression, Network)  # each takes minutes
    chosen = [0, *worth][: 1 if alone else policy.members]
    fits = all_rows.fit({i: learned.members[i] for i in chosen}, learned.settled)
    kept = [i for i in fits if fits[i].status != "failed"] or [next(iter(fits))]
    score = {i: bic(fits[i].log_evidence, fits[i].parameters, data.count) for i in kept}
    kept.sort(key=lambda i: (learned.settled and i != 0, score[i]))
    members = tuple(fits[i] for i in kept)
    interrupted = any(fit.status == "interrupted" for fit in members)
    if is_sparse(engine) and by_intervals:
        renewed = {id(learned.members[i]): fits[i] for i in kept}
        candidates, patient = _narrow_all(learned.candidates, renewed, all_rows)
        interrupted = interrupted or not patient
    else:  # scores stay those of the sample, like the others'
        winner, kernel = learned.members[kept[0]], members[0].expression
        candidates = tuple(replace(c, expression=kernel) if c.fit is winner else c for c in learned.candidates)
    shares = np.exp(-0.5 * (np.array([score[i] for i in kept]) - min(score.values())))
    beyond = np.array([learned.weights.beyond[i] for i in kept])
    if learned.weights.column is None or not beyond.sum() > 0:
        beyond = shares
    rows = learned.rows or (policy.sample if policy.sample < data.count else None)
    weights = replace(
        learned.weights, within=tuple(map(float, shares / shares.sum())),
        beyond=tuple(map(float, beyond / beyond.sum())), widening=tuple(learned.weights.widening[i] for i in kept),
    )  # fmt: skip
    return replace(
        learned, fit=members[0], candidates=candidates, members=members, weights=weights,
        notes=(*learned.notes, _note(learned, all_rows, by_intervals, kept[0] != 0)),
        stopped="request" if interrupted else learned.stopped, rows=None if by_intervals else rows,
    )  # fmt: skip


def find_unclear(learned: Learned) -> list[int]:
    """Return the members whose intervals say that they may be better than the winner, the most likely first."""
    ends = {id(c.fit): c.scores for c in learned.candidates if c.fit is not None and c.interval is not None}
    winner = ends.get(id(learned.members[0]))
    found = [i for i, fit in enumerate(learned.members) if i and winner and ends.get(id(fit), winner)[0] < winner[1]]
    return sorted(found, key=lambda i: ends[id(learned.members[i])][0])


def _narrow_all(
    candidates: Sequence[Candidate], renewed: dict[int, Fit], all_rows: AllRows
) -> tuple[tuple[Candidate, ...], bool]:
    """Return the rows, those of kernels that were fitted to all rows renewed; Ctrl-C ends the wait for close intervals.

    So does the time budget, where there is no time for one more as long as the last. Also return whether Ctrl-C did
    not. `renewed` goes by the identity of a candidate's fit.
    """
    rows, patient, longest = list(candidates), True, 0.0
    data, engine, clock = all_rows.data, all_rows.engine, all_rows.clock
    assert is_sparse(engine)
    for place, candidate in enumerate(candidates):
        fit = renewed.get(id(candidate.fit))
        if fit is not None:
            left, started = clock.seconds_left, clock.seconds
            in_time = left is None or left > longest
            try:
                rows[place] = narrow(candidate, fit, data, engine, patient and in_time)
            except KeyboardInterrupt:
                patient = False
                rows[place] = narrow(candidate, fit, data, engine, patient)
            longest = max(longest, clock.seconds - started)
    return tuple(rows), patient


def narrow(candidate: Candidate, fit: Fit, data: Data, engine: VFE, patient: bool = True) -> Candidate:
    """Return the row of a kernel with its values for all rows, and its interval as close as it can be had.

    Without patience by one pass over the rows. What the fit reached counts.
    """
    program = compile_program(fit.expression)
    held = (fit.held or engine).hold(program, fit.values, data)
    assert holds_points(held)
    if patient:
        found, points = closest(program, fit.values, fit.noise, data, held, engine)
    else:
        found = interval(program, fit.values, fit.noise, data, held.Z, BoundPolicy(steps=None), held.sweep)
        points = len(held.Z)
    found = Interval(max(found.lower, fit.log_evidence), max(found.upper, fit.log_evidence))
    now = replace(candidate, expression=fit.expression, status=fit.status, message=fit.message, interval=found)
    now = replace(now, score=candidate.score_at(found.lower), log_evidence=found.lower, inducing=points)
    verdict = now.verdict  # of values that it no longer has: it stands where it is true of these too
    return now if verdict is None or now.scores[0] >= verdict.bar else replace(now, verdict=None)


def _note(learned: Learned, all_rows: AllRows, by_intervals: bool, overtaken: bool) -> str:
    """Say from which rows the structure and the parameters come."""
    rows, sample = all_rows.data.count, all_rows.policy.sample
    if by_intervals:
        return (
            f"sparse inference on {rows:,} rows does not compute the exact evidence of a kernel: each has an interval "
            f"from all rows that the exact value lies in ({sample:,} of them gave first values)"
        )
    what = "the structure was learned from" if learned.candidates else "first values were found with"
    note = f"{what} {sample:,} of the {rows:,} rows, drawn at random; the parameters were then fitted to all of them"
    best = "on those rows"
    if rows <= sample:
        note = f"{what} all {rows:,} rows by exact inference; the parameters were then fitted by {all_rows.engine!r}"
        best = "by exact inference"
    return f"{note}, where the winner overtook the kernel that was best {best}" if overtaken else note
