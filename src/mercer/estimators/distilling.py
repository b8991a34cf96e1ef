"""From a model with a network in its kernel to one with the ordinary expression that it comes to."""

from __future__ import annotations

import math
import time
from numbers import Real
from typing import TYPE_CHECKING, Any

from mercer.errors import InputError
from mercer.explain.wording import listed
from mercer.explain.words import distilled_note, network_phrase
from mercer.fitting.optimise import Fit
from mercer.kernels.algebra import structure
from mercer.kernels.network import networks_in
from mercer.kernels.parameters import values_of
from mercer.learners.contract import checked_jobs
from mercer.learners.distil import distil

if TYPE_CHECKING:
    from mercer.estimators.regressor import GPRegressor

# What the new model has in common with the old one: its data and how they were read.
DATA = ("_train", "_source", "_units", "_level", "inference_")
NAMES = ("encoding_", "n_features_in_", "feature_names_in_", "target_name_")


def distilled(model: GPRegressor, time_budget: float | None, progress: Any) -> GPRegressor:
    """Return a new fitted model with an ordinary kernel."""
    if time_budget is not None and not (isinstance(time_budget, Real) and time_budget > 0):
        raise InputError(f"time_budget must be a number of seconds greater than zero, not {time_budget!r}")
    if model._source is not None:
        raise InputError("a network that was learned from a stream cannot be distilled: fit it to a table in memory")
    started = time.perf_counter()
    learned = distil(
        _fit_of(model),
        model._scaled_data(),
        model.inference_.engine,
        noise=None if model.noise is None else float(model.noise) / model._units.y_scale**2,
        max_iterations=model.max_iterations,
        time_budget=time_budget,
        jobs=checked_jobs(model.n_jobs) or 1,
        report=progress,
    )
    seconds = time.perf_counter() - started
    new = type(model)(**model.get_params(deep=False))
    for name in (*DATA, *NAMES):
        if hasattr(model, name):
            setattr(new, name, getattr(model, name))
    new._keep(learned)
    if not math.isfinite(new.loo_):  # engines that are not exact do not work it out with every fit
        new.loo_ = new._mixture.members[0].posterior.left_out_score() - _log_scale(new)
    new.kernel = structure(new.kernel_).text()  # fitting the new model to other data fits this structure
    new.distilled_from_ = listed([network_phrase(network) for network in networks_in(model.kernel_)])
    new.fit_seconds_ = seconds
    told = distilled_note(seconds, _scores(model), _scores(new))
    new.notes_ = (told, *learned.notes)
    return new


def _scores(model: GPRegressor) -> tuple[float, float, int]:
    return model.log_evidence_, model.loo_, model.n_parameters_


def _log_scale(model: GPRegressor) -> float:
    """By how much log densities of all rows are larger in scaled units."""
    return len(model._train[1]) * math.log(model._units.y_scale)


def _fit_of(model: GPRegressor) -> Fit:
    """Return the model's kernel as it was fitted, in scaled units."""
    first, shift = model._mixture.members[0], _log_scale(model)
    return Fit(
        expression=first.kernel,
        noise=first.noise,
        log_evidence=model.log_evidence_ + shift,
        leave_one_out=model.loo_ + shift,
        parameters=model.n_parameters_,
        jitter=model.jitter_ / model._units.y_scale**2,
        status=model.status_,  # type: ignore[arg-type]
        message=model.message_,
        evaluations=0,
        values=values_of(first.kernel),
    )
