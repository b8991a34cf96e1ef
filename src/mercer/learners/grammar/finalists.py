"""After the search: choose the winner among the finalists and weigh them for averaging."""

from __future__ import annotations

import math

import numpy as np

from mercer.errors import InputError
from mercer.kernels.domains import Array
from mercer.learners.contract import Candidate, Learned, Weights
from mercer.learners.grammar.forward import Forecasts, forecast, stacked_weights
from mercer.learners.grammar.parallel import in_parallel
from mercer.learners.grammar.search import Search

COUNT = 10
ROWS_TO_FORECAST = 40  # fewer give origins with nothing to learn from


def conclude(search: Search, average: bool, choice: str) -> Learned:
    """Return the winner and, to average, the finalists with their weights."""
    ranked = finalists(search)
    column = search.columns[0] if len(search.columns) == 1 and search.data.count >= ROWS_TO_FORECAST else None
    if choice == "forward" and column is None:
        raise InputError(
            f"finalists='forward' needs one input column to go along and at least {ROWS_TO_FORECAST} rows; "
            f"there are {len(search.columns)} columns and {search.data.count} rows"
        )
    forecasts = _forecasts(search, ranked, column) if column is not None and (average or choice == "forward") else None
    if choice == "forward" and forecasts is not None:
        first = int(np.argmax([f.score for f in forecasts]))
        order = [first, *(i for i in range(len(ranked)) if i != first)]
        ranked, forecasts = [ranked[i] for i in order], [forecasts[i] for i in order]
    if not average:
        ranked, weights = ranked[:1], Weights((1.0,), (1.0,))
    else:
        weights = _weights(ranked, forecasts, column)
    fits = tuple(c.fit for c in ranked if c.fit is not None)
    return Learned(fits[0], tuple(search.candidates), fits, weights, tuple(search.notes))


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


def _forecasts(search: Search, ranked: list[Candidate], column: int) -> list[Forecasts]:
    work = {i: (c.fit, search.data, search.engine, column) for i, c in enumerate(ranked)}
    done = dict(in_parallel(forecast, work, search.plan.n_jobs))
    return [done[i] for i in range(len(ranked))]


def _weights(ranked: list[Candidate], forecasts: list[Forecasts] | None, column: int | None) -> Weights:
    scores = np.array([c.score for c in ranked])
    within = _normalised(np.exp(-0.5 * (scores - scores.min())))
    if forecasts is None or not len(forecasts[0].log_density):
        return Weights(within, within)
    return Weights(within, _normalised(stacked_weights(forecasts, np.ones(len(ranked)))), column)


def _normalised(weights: Array) -> tuple[float, ...]:
    return tuple(float(w) for w in weights / weights.sum())
