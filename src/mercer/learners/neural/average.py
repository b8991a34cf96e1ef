"""After training: the best start, and the weights of all that came to their end for averaging."""

from __future__ import annotations

import math

from mercer.compute.program import compile_program
from mercer.errors import NumericalError
from mercer.fitting.optimise import Fit
from mercer.inference.contract import Data, Engine
from mercer.inference.likelihood import Gaussian
from mercer.learners.contract import Learned, Weights, alone
from mercer.learners.forward import Forecasts, forecast, forecast_tails, stacked_weights
from mercer.learners.neural.training import Training
from mercer.learners.parallel import in_parallel
from mercer.linalg.threads import one_thread

ROWS_TO_FORECAST = 40  # fewer give origins with nothing to learn from


def conclude(training: Training, average: bool) -> Learned:
    """Return the best network and, to average, the others with their weights."""
    fits = training.ranked()
    weights = alone()
    if average and len(fits) > 1:
        fits, weights = _weighted(training, fits)
    members = tuple(fits[: len(weights.within)])
    return Learned(fits[0], training.candidates(), members, weights, tuple(training.notes), training.stopped)


def _weighted(training: Training, ranked: list[Fit]) -> tuple[list[Fit], Weights]:
    """Weigh the networks so that their mixture predicts best: rows left out, and beyond the data the next stretch.

    Stacking (Yao et al. 2018): restarts of a network reach almost the same evidence with different functions, of which
    the mixture predicts better than any one.
    """
    jobs = 1 if training.stopped else training.plan.n_jobs  # Ctrl-C ends the workers of a terminal as well
    rest = (training.data, training.engine)
    try:
        found = dict(in_parallel(left_out, {i: (fit, *rest) for i, fit in enumerate(ranked)}, jobs))
    except KeyboardInterrupt:
        training.stopped = "request"
        training.notes.append("the weighing of the networks was stopped on request, so the best predicts alone")
        return ranked, alone()
    kept = [i for i in range(len(ranked)) if found[i] is not None]
    if len(kept) < 2 or kept[0] != 0:
        return ranked, alone()
    fits = [ranked[i] for i in kept]
    # a start that is sure of itself can be far ahead on the rows it was fitted to: the others keep their part
    within = tuple(map(float, stacked_weights([found[i] for i in kept], strength=1.0, hopeless=math.inf)))
    as_they_are = (1.0,) * len(kept)
    if len(training.columns) > 1 or training.data.count < ROWS_TO_FORECAST:
        return fits, Weights(within, within, as_they_are)
    column = training.columns[0]
    try:
        plan = training.plan
        work = {i: (fit, *rest, column, plan.priors, plan.noise is not None) for i, fit in enumerate(fits)}
        told = dict(in_parallel(forecast, work, jobs))
    except KeyboardInterrupt:
        training.stopped = "request"
        training.notes.append("forecasts were stopped on request, so the networks are weighed without them")
        return fits, Weights(within, within, as_they_are)
    forecasts = [told[i] for i in range(len(fits))]
    if not len(forecasts[0].error):
        return fits, Weights(within, within, as_they_are)
    widened = [each.widened() for each in forecasts]
    beyond = stacked_weights(widened)
    tails, widening = forecast_tails(widened, beyond), tuple(each.widening for each in forecasts)
    return fits, Weights(within, tuple(map(float, beyond)), widening, column, tails)


def left_out(fit: Fit, data: Data, engine: Engine) -> Forecasts | None:
    """Predict every row from the others; None where that cannot be computed."""
    try:
        with one_thread():
            posterior = engine.posterior(compile_program(fit.expression), fit.values, Gaussian(fit.noise), data)
            left = posterior.leave_one_out()
    except NumericalError:
        return None
    return Forecasts(data.y - left.mean, left.variance)
