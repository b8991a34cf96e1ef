"""Scores of a fit: smaller is better."""

from __future__ import annotations

import math
from typing import Literal

from mercer.fitting.optimise import Fit

Score = Literal["bic", "aic", "loo"]
SCORES: tuple[Score, ...] = ("bic", "aic", "loo")


def score_of(kind: Score, fit: Fit, rows: int) -> float:
    """Return BIC = -2 log p + p log N, AIC = -2 log p + 2 p, or minus twice the leave-one-out score."""
    if kind == "bic":
        return -2.0 * fit.log_evidence + fit.parameters * math.log(rows)
    if kind == "aic":
        return -2.0 * fit.log_evidence + 2.0 * fit.parameters
    return -2.0 * fit.leave_one_out
