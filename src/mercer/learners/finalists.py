"""The finalists of a search: which kernels are averaged or carried on to more rows, and their fits to all rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mercer.errors import NumericalError
from mercer.fitting.minimise import run_parallel
from mercer.inference.contract import Data, Engine
from mercer.learners.averaging import refit, weigh
from mercer.learners.contract import Candidate
from mercer.learners.trials import Trials


def choose_finalists(trials: Trials, most: int) -> list[Candidate]:
    """Return the best by score, the winner first, and the best of every depth: simple ones may forecast well."""
    winner, finished = trials.incumbent, [trials.candidates[i] for i in trials.find_finished()]
    assert winner is not None
    ranked = [winner, *sorted((c for c in finished if c is not winner), key=lambda c: c.score)]
    chosen = ranked[:most]
    for depth in sorted({c.depth for c in finished}):
        best = next(c for c in ranked if c.depth == depth)
        if best not in chosen:
            chosen.append(best)
    return chosen


def find_carried(trials: Trials, most: int) -> list[Candidate]:
    """Return the best finished kernels of a search on a sample, the best first, and then those that led to it."""
    candidates = trials.candidates
    ranked = sorted(trials.find_finished(), key=lambda i: candidates[i].score)
    chosen, parent = ranked[:most], ranked[0] if ranked else None
    while parent is not None:
        parent = candidates[parent].parent
        if parent in ranked and parent not in chosen:
            chosen.append(parent)
    return [candidates[i] for i in chosen]


def leave_out_negligible(ranked: list[Candidate], share: float, least: float) -> list[Candidate]:
    """Return the winner, those whose weight could be seen in a prediction, and those that may be better.

    `share` of a score counts in the weights; a weight below `least` changes no prediction.
    """
    within, certain = weigh([share * c.score for c in ranked], None, None).within, ranked[0].score
    kept = [c for c, w in zip(ranked, within, strict=True) if w >= least or c.scores[0] < certain < c.scores[1]]
    return ranked[:1] + [c for c in kept if c is not ranked[0]]


def fit_to_all(
    ranked: list[Candidate], trials: Trials, data: Data, engine: Engine, iterations: int, held_out: int
) -> list[Candidate]:
    """Fit the finalists to all rows, from where they are; each keeps the score that it was chosen by."""
    how = "its parameters were then fitted to all of them"
    try:
        fits = run_all(refit, [(c.full_fit, data, engine, iterations) for c in ranked], trials)
    except KeyboardInterrupt:
        trials.stopped = "request"
        how = "its parameters hardly moved then, because the fit to all of them was stopped"
        ranked = ranked[:1]
        fits = [refit(c.fit, data, engine, 1) for c in ranked if c.fit is not None]
    trials.notes.append(f"{held_out} of {data.count} rows were held out to choose the kernel; {how}")
    kept = []
    for old, fit in zip(ranked, fits, strict=True):
        if fit.status != "failed":
            kept.append(replace(old, expression=fit.expression, status=fit.status, message=fit.message, fit=fit))
            trials.candidates[trials.candidates.index(old)] = kept[-1]
    if not kept:
        raise NumericalError(f"no finalist could be fitted to all rows: {fits[0].message}; try another score")
    return kept


def run_all(function: Callable[..., Any], work: Sequence[tuple[Any, ...]], trials: Trials) -> list[Any]:
    """Return function(*arguments) of all the work in order, on as many threads as the search has jobs."""
    jobs = 1 if trials.stopped == "request" else trials.jobs
    done = dict(run_parallel(function, dict(enumerate(work)), jobs, prefer="threads"))
    return [done[i] for i in range(len(work))]
