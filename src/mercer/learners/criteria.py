"""What kernels are compared by: BIC, AIC, evidence under priors, rows left out, rows held out. Smaller is better.

    BIC = -2 log p(y) + p log N      AIC = -2 log p(y) + 2 p      evidence: -2 log of the average of p(y) over priors

Where priors hold the parameters, p log N counts numbers that are known already. Laplace's approximation does not: log
joint density at the optimum + p/2 log 2 pi - log|H| / 2 (`average_evidence`).

Nowhere else does a number of parameters have a price.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mercer.compute.program import compile_program
from mercer.errors import InputError, NumericalError
from mercer.fitting.problem import Fit
from mercer.inference.contract import Data, Engine
from mercer.linalg.threads import one_thread

LEAST_ROWS_TO_HOLD_OUT = 10  # fewer leave too little to learn from, and to judge by


def penalty(parameters: float, rows: float) -> float:
    """Return p log N, what parameters cost in BIC."""
    return parameters * math.log(rows)


def bic(log_evidence: float, parameters: float, rows: float) -> float:
    """Return BIC = -2 log p + p log N."""
    return BIC.score(log_evidence, parameters, rows)


@dataclass(frozen=True)
class Criterion:
    """A score: minus twice a log density, plus the price of the parameters where the density is the evidence."""

    name: str  # as in GrammarSearch(score="bic")
    label: str  # as in sentences
    penalty: Callable[[float, float], float] | None = None  # (parameters, rows); None: rows left or held out judge
    held_out: float = 0.0  # share of the rows that judge kernels fitted to the others

    @property
    def by_evidence(self) -> bool:
        """Whether the score follows from the evidence, so that bounds on one are bounds on the other."""
        return self.penalty is not None

    @property
    def while_racing(self) -> Criterion:
        """The criterion for fits that are not finished: rows left out, and curvatures, can only judge those that are.

        Where priors hold the parameters BIC asks too much for each, but AIC asks too little of a few rows.
        """
        if self.by_evidence:
            return self
        return BIC if self is EVIDENCE else AIC

    def score(self, log_density: float, parameters: float, rows: float) -> float:
        """Return the score of a log density: of all rows, or of rows left out."""
        price = 0.0 if self.penalty is None else self.penalty(parameters, rows)
        return -2.0 * log_density + price

    def score_fit(self, fit: Fit, rows: int) -> float:
        """Return the score of a fit to all rows; infinite where it failed."""
        if fit.status == "failed":
            return math.inf
        return self.score(fit.log_evidence if self.by_evidence else fit.leave_one_out, fit.parameters, rows)

    def score_held_out(self, fit: Fit, learned_from: Data, held_out: Data, engine: Engine) -> float:
        """Return -2 N mean_i log N(y_i; m_i, v_i + s2) over the held-out rows, predicted from the others.

        N counts all rows, so that it is as large as minus twice the leave-one-out score and moves with the unit of the
        target as the other scores do.
        """
        if fit.status == "failed":
            return math.inf
        try:
            with one_thread():
                posterior = engine.posterior(compile_program(fit.expression), fit.values, fit.likelihood, learned_from)
                found = posterior.predict(held_out.X)
        except NumericalError:
            return math.inf
        variance = found.variance + fit.noise
        density = -0.5 * (np.log(2.0 * math.pi * variance) + (held_out.y - found.mean) ** 2 / variance)
        rows = learned_from.count + held_out.count
        return self.score(rows * float(density.mean()), fit.parameters, rows)

    def divide(self, data: Data, seed: int) -> tuple[Data, Data | None]:
        """Return the rows to learn from and those held out, drawn at random, both in their order."""
        if not self.held_out:
            return data, None
        if data.count < LEAST_ROWS_TO_HOLD_OUT:
            raise InputError(
                f"score='{self.name}' holds a fifth of the rows out and needs at least {LEAST_ROWS_TO_HOLD_OUT}; "
                f"there are {data.count}: choose another score"
            )
        out = np.zeros(data.count, dtype=bool)
        chosen = np.random.default_rng([seed, 1]).choice(data.count, round(self.held_out * data.count), replace=False)
        out[chosen] = True
        return data.take(~out), data.take(out)


BIC = Criterion("bic", "BIC", penalty)
AIC = Criterion("aic", "AIC", lambda parameters, rows: 2.0 * parameters)
LEAVE_ONE_OUT = Criterion("loo", "leave-one-out score")
HELD_OUT = Criterion("heldout", "held-out score", held_out=0.2)
EVIDENCE = Criterion("evidence", "-2 log evidence under the priors")  # of `average_evidence`, which has the price in it

CRITERIA: dict[str, Criterion] = {c.name: c for c in (BIC, AIC, EVIDENCE, LEAVE_ONE_OUT, HELD_OUT)}


def criterion(name: str) -> Criterion:
    """Return the criterion of that name."""
    if name not in CRITERIA:
        raise InputError(f"score must be one of {', '.join(CRITERIA)}, not {name!r}")
    return CRITERIA[name]
