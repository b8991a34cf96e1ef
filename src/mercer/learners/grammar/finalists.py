"""After the search: choose the winner among the finalists and weigh them for averaging."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.errors import InputError, NumericalError
from mercer.inference.contract import Data
from mercer.kernels.domains import Array
from mercer.learners.contract import Candidate, Learned, Weights, alone
from mercer.learners.criteria import BIC
from mercer.learners.forward import Forecasts, forecast, forecast_tails, stacked_weights
from mercer.learners.grammar.search import Search
from mercer.learners.parallel import in_parallel
from mercer.learners.refit import refitted

COUNT = 10
UNLIKELY = 1e-3  # a weight by evidence below which a kernel that swings between the rows is not forecast with
ROWS_TO_FORECAST = 40  # fewer give origins with nothing to learn from


def conclude(search: Search, data: Data, average: bool, choice: str) -> Learned:
    """Return the winner and, to average, the finalists with their weights; `data` are all rows."""
    ranked = finalists(search)
    column = search.columns[0] if len(search.columns) == 1 and data.count >= ROWS_TO_FORECAST else None
    if choice == "forward" and column is None:
        raise InputError(
            f"finalists='forward' needs one input column to go along and at least {ROWS_TO_FORECAST} rows; "
            f"there are {len(search.columns)} columns and {data.count} rows"
        )
    if search.held_out is not None:
        ranked = _fitted_to_all(search, ranked, data)
    forecasts = None
    if column is not None and (average or choice == "forward"):
        forecasts = _forecasts(search, ranked, data, column)
    if choice == "forward" and forecasts is not None:
        first = int(np.argmax([f.score for f in forecasts]))
        order = [first, *(i for i in range(len(ranked)) if i != first)]
        ranked, forecasts = [ranked[i] for i in order], [forecasts[i] for i in order]
    if not average:
        ranked, weights = ranked[:1], alone()
    else:
        weights = _weights(ranked, search.share, forecasts, column)
    fits = tuple(c.fit for c in ranked if c.fit is not None)
    settled = choice == "forward" or search.plan.criterion is not BIC
    notes = tuple(search.notes)
    return Learned(fits[0], tuple(search.candidates), fits, weights, notes, search.stopped, settled=settled)


def finalists(search: Search) -> list[Candidate]:
    """Return the best by score, the winner first, and the best of every depth: simple kernels often forecast well."""
    finished = [c for c in search.candidates if c.fit is not None and math.isfinite(c.score)]
    assert search.best is not None
    winner = search.candidates[search.best]
    ranked = [winner, *sorted((c for c in finished if c is not winner), key=lambda c: c.score)]
    chosen = ranked[:COUNT]
    for depth in sorted({c.depth for c in finished}):
        best = next(c for c in ranked if c.depth == depth)
        if best not in chosen:
            chosen.append(best)
    return chosen


def _fitted_to_all(search: Search, ranked: list[Candidate], data: Data) -> list[Candidate]:
    """Fit the finalists to all rows, from where they are; each keeps the score that it was chosen by."""
    assert search.held_out is not None
    told = "its parameters were then fitted to all of them"
    try:
        fits = _for_each(search, ranked, refitted, data, search.engine, search.plan.max_iterations)
    except KeyboardInterrupt:
        search.stopped, told = "request", "its parameters hardly moved then, because the fit to all of them was stopped"
        ranked = ranked[:1]
        fits = [refitted(c.fit, data, search.engine, 1) for c in ranked if c.fit is not None]
    search.notes.append(f"{search.held_out.count} of {data.count} rows were held out to choose the kernel; {told}")
    kept = []
    for old, fit in zip(ranked, fits, strict=True):
        if fit.status != "failed":
            kept.append(replace(old, expression=fit.expression, status=fit.status, message=fit.message, fit=fit))
            search.candidates[search.candidates.index(old)] = kept[-1]
    if not kept:
        raise NumericalError(f"no finalist could be fitted to all rows: {fits[0].message}; try another score")
    return kept


def _forecasts(search: Search, ranked: list[Candidate], data: Data, column: int) -> list[Forecasts] | None:
    """Let the finalists forecast; None where the user would not wait for it."""
    try:
        return _for_each(search, ranked, forecast, data, search.engine, column)
    except KeyboardInterrupt:
        search.stopped = "request"
        search.notes.append("the finalists' forecasts were stopped on request, so the kernels are weighed without them")
        return None


def _for_each(search: Search, ranked: list[Candidate], function: Callable[..., Any], *arguments: Any) -> list[Any]:
    work = {i: (c.fit, *arguments) for i, c in enumerate(ranked)}
    jobs = 1 if search.stopped == "request" else search.plan.n_jobs  # Ctrl-C ends the workers of a terminal as well
    done = dict(in_parallel(function, work, jobs))
    return [done[i] for i in range(len(ranked))]


def _weights(ranked: list[Candidate], share: float, forecasts: list[Forecasts] | None, column: int | None) -> Weights:
    scores = np.array([c.score for c in ranked])
    within = _normalised(np.exp(-0.5 * share * (scores - scores.min())))
    as_they_are = (1.0,) * len(ranked)
    if forecasts is None or not len(forecasts[0].error):
        return Weights(within, within, as_they_are)
    # A period of a few steps can fit every row by chance, and swing between them: the evidence must speak for it.
    trusted = [not f.wild or weight > UNLIKELY for f, weight in zip(forecasts, within, strict=True)]
    beyond, widened = np.zeros(len(ranked)), [f.widened() for f in forecasts]
    beyond[trusted] = stacked_weights([f for f, good in zip(widened, trusted, strict=True) if good])
    tails = forecast_tails(widened, beyond)
    return Weights(within, _normalised(beyond), tuple(f.widening for f in forecasts), column, tails)


def _normalised(weights: Array) -> tuple[float, ...]:
    return tuple(float(w) for w in weights / weights.sum())
