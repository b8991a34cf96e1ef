"""KFO-MKL: a weighted sum of the functional that was found and SE, Matern 3/2 and LIN (KFO, appendix A.5.3)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.learners.classes import Family, LearnedForClasses, Sight, candidate_of, with_cost
from mercer.learners.functional.classes import FACTORS, ClassSearch, Form
from mercer.learners.functional.search import Outcome
from mercer.learners.functional.tuning import steadiest_of, tuned
from mercer.learners.margin import Verdict
from mercer.learners.multiple import judged_mixture, mixture
from mercer.linalg.threads import one_thread

STEPS = 12


def with_standard_kernels(search: ClassSearch, learned: LearnedForClasses, chosen: Form) -> LearnedForClasses:
    """Add SE, Matern 3/2 and LIN to what a search found, with weights tuned by cross-validation."""
    with one_thread():
        families: list[Family] = [chosen.kernel, _best_radial(search, "SE"), _best_radial(search, "M32"), _linear]
        verdict = judged_mixture(search.trial, families)
        verdicts: dict[bytes, Verdict] = {}

        def judged(weights: Array) -> Outcome:
            verdicts[weights.tobytes()] = verdict(weights)
            return Outcome(verdicts[weights.tobytes()].score)

        low = 1e-3
        first = [np.full(4, low) + np.eye(4)[i] * (1.0 - low) for i in range(4)]
        first += [np.ones(4), np.array([1.0, low, low, 0.3]), np.array([1.0, 0.5, 0.5, 0.2])]
        tried = tuned(judged, 4, STEPS, search.rng, first)
        weights = steadiest_of(tried)

        def mixed(sight: Sight) -> Expression:
            return mixture([family(sight) for family in families], weights)

        trial = search.last_trial()
        if trial.judge_slowly(mixed).score < trial.judge_slowly(chosen.kernel).score:
            return replace(learned, functional=learned.kernel)  # the others add nothing
        kernel = mixed(search.whole)
        final = with_cost(kernel, search.X, search.labels, search.seed)
    row = candidate_of(kernel, verdicts[weights.tobytes()], 1, "weights of the sum", learned.candidates[-1].seconds)
    return replace(
        learned, kernel=kernel, cost=final.cost, error=final.error, candidates=(*learned.candidates, row),
        functional=learned.kernel,
    )  # fmt: skip


def _best_radial(search: ClassSearch, symbol: str) -> Family:
    """The best plain kernel of a kind among those tried, and some tried now where there are few."""
    best = search.best()
    forms = [Form(symbol, best.strength, best.factor * r) for r in (0.5, 1.0, 2.0)]
    forms += [Form(symbol, 0.0, factor) for factor in FACTORS[1:-1]]
    for form in forms:
        if form not in search.verdicts:
            search.judge(form, "part of a sum")
    known = [form for form in search.verdicts if form == Form(symbol, form.strength, form.factor)]
    chosen = max(known, key=lambda form: search.verdicts[form].score)
    return lambda sight: sight.radial(symbol, chosen.strength, chosen.factor)


def _linear(sight: Sight) -> Expression:
    return sight.linear()
