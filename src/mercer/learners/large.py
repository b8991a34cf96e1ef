"""Many rows: learn from a sample of them, exactly; then fit to all of them, with an engine that can.

A structure shows in some hundred rows, and so do the rough values of its parameters. What all rows add, sharper values
and predictions that know every row, takes a few dozen evaluations of the large engine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mercer.compute.program import compile_program
from mercer.fitting.joint import optimise_jointly
from mercer.fitting.optimise import Fit, FitOptions, concluded, optimise, prepare, with_settled_noise
from mercer.inference.bounds import BoundPolicy, Interval, closest, interval
from mercer.inference.choose import DEFAULT as CHOICE
from mercer.inference.contract import Data, Engine
from mercer.inference.exact import Exact
from mercer.inference.lattice import MOST_MISSING, Lattice, find_lattice
from mercer.inference.likelihood import Gaussian
from mercer.inference.vfe import VFE, holds_points, is_sparse
from mercer.kernels.network import has_network
from mercer.learners.contract import Candidate, Context, Learned, Learner, Weights, Whole
from mercer.learners.criteria import bic

SAMPLE = 800  # rows to learn from
BLOCK_CELLS = 16  # of a block of neighbours in it
ROUNDS = 3  # of fitting to all rows, what the engine holds (inducing points, random draws) chosen anew for each
ITERATIONS = 25  # of each round; twice as many where each costs little: not many rows, no network
NEARER, NEARER_ITERATIONS = 2500, 100  # rows and iterations before those on all rows: exact inference, networks
MARGIN = 20.0  # by how much a kernel may be behind the best in BIC after its first round
ENOUGH = 1e-4  # of the log evidence: a round that gains less is the last
INTERVALS = 100_000  # rows up to which every kernel of a search gets an interval on all of them
MEMBERS = 3  # of an average that are fitted to all rows
WORTH = 0.001  # the weight below which that is not worth the time


def sampled(data: Data, seed: int) -> Data:
    """Return the rows to learn from, in their order; of a grid of several axes half of them as blocks of neighbours.

    Single cells of a large grid lie far apart: they show where things change, but nothing that is smaller than the gaps
    between them.
    """
    if data.count <= SAMPLE:
        return data
    rng = np.random.default_rng(seed)
    lattice = find_lattice(data.X, most_cells=data.count / (1.0 - MOST_MISSING))
    if lattice is None or sum(n > 1 for n in lattice.shape) < 2:
        return data.take(np.sort(rng.choice(data.count, SAMPLE, replace=False)))
    chosen = np.zeros(data.count, dtype=bool)
    chosen[_in_blocks(lattice, SAMPLE // 2, rng)] = True
    others = np.flatnonzero(~chosen)
    chosen[rng.choice(others, SAMPLE - int(chosen.sum()), replace=False)] = True
    return data.take(chosen)


def _in_blocks(lattice: Lattice, count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the numbers of so many rows that fill blocks of the grid, drawn at random."""
    side = max(2, round(BLOCK_CELLS ** (1.0 / sum(n > 1 for n in lattice.shape))))
    places = [place // side for place in np.unravel_index(lattice.cells, lattice.shape)]
    _, block = np.unique(np.stack(places), axis=1, return_inverse=True)
    turn = rng.permutation(int(block.max()) + 1)
    return np.argsort(turn[block.ravel()], kind="stable")[:count]


def learn(learner: Learner, context: Context, data: Data, large: Engine | None) -> Learned:
    """Let a learner learn; where its rows are a sample of the data and it can, with intervals on all of them."""
    if is_sparse(large) and data.source is None and data.count <= INTERVALS and learner.by_intervals:
        context = replace(context, whole=Whole(data, large))
    return learner.learn(context)


def fitted_to_all(
    fits: dict[int, Fit], data: Data, engine: Engine, options: FitOptions, settled: bool = False
) -> dict[int, Fit]:
    """Fit kernels that were fitted to a sample to all rows, from where they are: all begin, the leaders go on.

    The first of them too where it is the winner whatever its evidence (`settled`).
    Ctrl-C ends the rounds; what was reached so far counts.
    """
    now, going = dict(fits), list(fits)
    try:
        for i, fit in fits.items():
            found = _begun(fit, data, engine, options)
            now[i] = fit if found.status == "failed" else found
        # evidence grows with the rows: on some of them a parameter has its share of the price only
        share = max(_first_rows(fit, data, engine) for fit in fits.values()) / data.count
        begun = {i: fit for i, fit in now.items() if fit is not fits[i]}
        scores = {i: bic(fit.log_evidence, share * fit.parameters, data.count) for i, fit in begun.items()}
        leaders = [i for i in scores if scores[i] <= min(scores.values()) + MARGIN]
        going = list(dict.fromkeys([*going[:1], *leaders])) if settled else leaders or going[:1]
        for i in going:
            now[i] = _ended(now[i], data, engine, options)
    except KeyboardInterrupt:
        going = [i for i in going if now[i] is not fits[i]] or going[:1]
        stopped = "stopped on request while it was fitted to all rows"
        now.update({i: replace(now[i], status="interrupted", message=stopped) for i in going})
    return {i: _scored(now[i], data, engine) for i in going}


def _begun(fit: Fit, data: Data, engine: Engine, options: FitOptions) -> Fit:
    """Take the first round, on some of the rows where those come first."""
    if not _some_first(fit, data, engine):
        return _round(fit, data, engine, options)
    some = _first_rows(fit, data, engine)
    if is_sparse(engine):
        engine = Exact(engine.backend)
    if some < data.count:
        data = data.take(np.sort(np.random.default_rng(options.seed).choice(data.count, some, replace=False)))
    return _continued(fit, data, engine, options, NEARER_ITERATIONS)


def _some_first(fit: Fit, data: Data, engine: Engine) -> bool:
    """Tell whether the first round is exact, on some of the rows.

    Exact inference costs as the cube of the rows. And inducing points hold a network, with its many parameters, near
    what it was like when they were chosen: it gets them near its end.
    """
    if engine.is_bound:
        return has_network(fit.expression) and data.source is None and data.count > NEARER
    return engine.exact


def _first_rows(fit: Fit, data: Data, engine: Engine) -> int:
    """Return how many rows the first round is on; up to twice as many as those of it are few for exact inference."""
    few = NEARER if engine.is_bound else 2 * NEARER
    return NEARER if _some_first(fit, data, engine) and data.count > few else data.count


def _ended(fit: Fit, data: Data, engine: Engine, options: FitOptions) -> Fit:
    """Take the other rounds; after one on some of the rows there is one more."""
    best = fit
    for _ in range(1 if _some_first(fit, data, engine) else ROUNDS - 1):
        found = _round(best, data, engine, options)
        if found.status == "failed":
            break
        gain, best = found.log_evidence - best.log_evidence, found
        if gain < ENOUGH * abs(found.log_evidence):
            break
    return best


def _round(fit: Fit, data: Data, engine: Engine, options: FitOptions) -> Fit:
    held = fit.held or engine.hold(compile_program(fit.expression), fit.values, data)
    dear = data.count > CHOICE.moderate_rows or (engine.is_bound and _some_first(fit, data, engine))
    return _continued(fit, data, held, options, ITERATIONS * (1 if dear else 2))


def _continued(fit: Fit, data: Data, engine: Engine, options: FitOptions, iterations: int) -> Fit:
    """Carry a fit on with other rows and another engine, with the user's settings."""
    problem = prepare(fit.expression, data, engine, options)
    point = problem.objective.layout.to_free(fit.values)
    if options.noise is None:
        point = np.append(point, math.log(fit.noise))
    point = np.clip(point, problem.bounds[:, 0], problem.bounds[:, 1])
    if options.noise is None:
        point = with_settled_noise(problem, point)
    held = None
    if holds_points(engine) and engine.moves_points:
        run, held = optimise_jointly(problem, engine, point, iterations)
        problem = replace(problem, objective=replace(problem.objective, engine=held))
    else:
        run = optimise(problem, point, iterations)
    # a round ends after a few steps; that there are few of them is no failure to converge
    return replace(concluded(problem, [replace(run, converged=True)], run.point, fit.evaluations), held=held)


def _scored(fit: Fit, data: Data, engine: Engine) -> Fit:
    """Return the fit with the scores of the engine that will predict: what it holds is chosen by it, not by a round."""
    program = compile_program(fit.expression)
    engines = [fit.held or engine]
    more = engine.hold_for_predictions(program, fit.values, data)
    if more is not None:
        # points that moved to where they are needed can be worth more than many more among the rows
        engines = [more] if fit.held is None else [more, fit.held]
    found = [(one, one.evidence(program, fit.values, Gaussian(fit.noise), data, gradient=False)) for one in engines]
    engine, evidence = max(found, key=lambda pair: pair[1].value)
    if engine.held:
        fit = replace(fit, held=engine)
    if evidence.failure is not None:
        return replace(fit, status="failed", message=evidence.failure)
    score = engine.posterior(program, fit.values, Gaussian(fit.noise), data).left_out_score()
    return replace(fit, log_evidence=evidence.value, leave_one_out=score, jitter=evidence.jitter)


def learned_from_all(learned: Learned, data: Data, engine: Engine, options: FitOptions) -> Learned:
    """Fit what was learned from a sample to all rows: the winner, and those with the largest weights in an average.

    Whichever of these is then best (of two bounds, certain of more) is the winner, unless that is settled.
    """
    by_intervals = engine.is_bound and any(c.interval is not None for c in learned.candidates)
    order = np.argsort([-w for w in learned.weights.within], kind="stable")
    worth = [int(i) for i in order if i != 0 and not (by_intervals and learned.weights.within[i] < WORTH)]
    alone = engine.is_bound and has_network(learned.fit.expression)  # each takes minutes
    chosen = [0, *worth][: 1 if alone else MEMBERS]
    fits = fitted_to_all({i: learned.members[i] for i in chosen}, data, engine, options, learned.settled)
    kept = [i for i in fits if fits[i].status != "failed"] or [next(iter(fits))]
    score = {i: bic(fits[i].log_evidence, fits[i].parameters, data.count) for i in kept}
    kept.sort(key=lambda i: (learned.settled and i != 0, score[i]))
    scores = np.array([score[i] for i in kept])
    within = np.exp(-0.5 * (scores - scores.min()))
    beyond = np.array([learned.weights.beyond[i] for i in kept])
    if learned.weights.column is None or not beyond.sum() > 0:
        beyond = within
    weights = Weights(
        tuple(map(float, within / within.sum())),
        tuple(map(float, beyond / beyond.sum())),
        tuple(learned.weights.widening[i] for i in kept),
        learned.weights.column,
        learned.weights.tails,
    )
    members = tuple(fits[i] for i in kept)
    interrupted = any(fit.status == "interrupted" for fit in members)
    if is_sparse(engine) and by_intervals:
        renewed = {id(learned.members[i]): fits[i] for i in kept}
        candidates, patient = _all_narrowed(learned.candidates, renewed, data, engine)
        interrupted = interrupted or not patient
    else:
        candidates = tuple(_renewed(c, learned.members[kept[0]], members[0]) for c in learned.candidates)
    return replace(
        learned,
        fit=members[0],
        candidates=candidates,
        members=members,
        weights=weights,
        notes=(*learned.notes, _note(learned, data, by_intervals, kept[0] != 0)),
        stopped="request" if interrupted else learned.stopped,
        rows=None if by_intervals else min(SAMPLE, data.count),
    )


def _all_narrowed(
    candidates: Sequence[Candidate], renewed: dict[int, Fit], data: Data, engine: VFE
) -> tuple[tuple[Candidate, ...], bool]:
    """Return the rows, those of kernels that were fitted to all rows renewed; Ctrl-C ends the wait for close intervals.

    Also return whether there was time. `renewed` goes by the identity of a candidate's fit.
    """
    rows, patient = [], True
    for candidate in candidates:
        row, fit = candidate, renewed.get(id(candidate.fit))
        if fit is not None:
            try:
                row = _narrowed(candidate, fit, data, engine, patient)
            except KeyboardInterrupt:
                patient = False
                row = _narrowed(candidate, fit, data, engine, patient)
        rows.append(row)
    return tuple(rows), patient


def _narrowed(candidate: Candidate, fit: Fit, data: Data, engine: VFE, patient: bool = True) -> Candidate:
    """Return the row of a kernel with its values for all rows, and its interval as close as it can be had."""
    found, points = _closely(fit, data, engine, patient)
    now = replace(candidate, expression=fit.expression, status=fit.status, message=fit.message, interval=found)
    now = replace(now, score=candidate.score_at(found.lower), log_evidence=found.lower, inducing=points)
    verdict = now.verdict  # of values that it no longer has: it stands where it is true of these too
    return now if verdict is None or now.scores[0] >= verdict.bar else replace(now, verdict=None)


def _closely(fit: Fit, data: Data, engine: VFE, patient: bool = True) -> tuple[Interval, int]:
    """Return between what the exact log evidence lies, and by how many inducing points; what the fit reached counts.

    Without patience by one pass over the rows.
    """
    program = compile_program(fit.expression)
    held = (fit.held or engine).hold(program, fit.values, data)
    assert holds_points(held)
    if patient:
        found, points = closest(program, fit.values, fit.noise, data, held, engine)
    else:
        found = interval(program, fit.values, fit.noise, data, held.Z, BoundPolicy(steps=None), held.sweep)
        points = len(held.Z)
    return Interval(max(found.lower, fit.log_evidence), max(found.upper, fit.log_evidence)), points


def _renewed(candidate: Candidate, old: Fit, new: Fit) -> Candidate:
    """Return the row of the winner with its values for all rows; scores stay those of the sample, like the others'."""
    return replace(candidate, expression=new.expression) if candidate.fit is old else candidate


def _note(learned: Learned, data: Data, by_intervals: bool, overtaken: bool) -> str:
    if by_intervals:
        return (
            f"{data.count:,} rows are too many for the exact evidence of every kernel: each has an interval "
            f"from all rows that the exact value lies in ({min(SAMPLE, data.count):,} of them gave first values)"
        )
    what = "the structure was learned from" if learned.candidates else "first values were found with"
    return (
        f"{what} {min(SAMPLE, data.count):,} of the {data.count:,} rows, drawn at random; "
        "the parameters were then fitted to all of them"
        + (", where the winner overtook the kernel that was best on those rows" if overtaken else "")
    )
