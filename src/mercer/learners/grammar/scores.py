"""Scores of a fit: smaller is better."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from mercer.compute.program import compile_program
from mercer.errors import InputError, NumericalError
from mercer.fitting.optimise import Fit
from mercer.inference.contract import Data, Engine
from mercer.linalg.threads import one_thread

Score = Literal["bic", "aic", "loo", "heldout"]
SCORES: tuple[Score, ...] = ("bic", "aic", "loo", "heldout")

HELD_OUT = 0.2  # of the rows
ROWS_TO_HOLD_OUT = 10  # fewer leave too little to learn from, and to judge by


def score_of(kind: Score, fit: Fit, rows: int) -> float:
    """Return BIC = -2 log p + p log N, AIC = -2 log p + 2 p, or minus twice the leave-one-out score."""
    if kind == "bic":
        return -2.0 * fit.log_evidence + fit.parameters * math.log(rows)
    if kind == "aic":
        return -2.0 * fit.log_evidence + 2.0 * fit.parameters
    return -2.0 * fit.leave_one_out


def held_out_score(fit: Fit, learned_from: Data, held_out: Data, engine: Engine) -> float:
    """Return -2 N mean_i log N(y_i; m_i, v_i + s2) over the held-out rows, predicted from the others.

    N counts all rows, so that it is as large as minus twice the leave-one-out score and moves with the unit of the
    target as the other scores do.
    """
    try:
        with one_thread():
            posterior = engine.posterior(compile_program(fit.expression), fit.values, fit.noise, learned_from)
            found = posterior.predict(held_out.X)
    except NumericalError:
        return math.inf
    variance = found.variance + fit.noise
    density = -0.5 * (np.log(2.0 * math.pi * variance) + (held_out.y - found.mean) ** 2 / variance)
    return -2.0 * (learned_from.count + held_out.count) * float(density.mean())


def parted(data: Data, seed: int) -> tuple[Data, Data]:
    """Return the rows to learn from and those held out, drawn at random, both in their order."""
    if data.count < ROWS_TO_HOLD_OUT:
        raise InputError(
            f"score='heldout' holds a fifth of the rows out and needs at least {ROWS_TO_HOLD_OUT}; there are "
            f"{data.count}: choose another score"
        )
    out = np.zeros(data.count, dtype=bool)
    chosen = np.random.default_rng([seed, 1]).choice(data.count, round(HELD_OUT * data.count), replace=False)
    out[chosen] = True
    return data.take(~out), data.take(out)
