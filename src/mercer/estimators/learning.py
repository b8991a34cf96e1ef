"""How `GPRegressor` learns: which engine, from which rows, and what happens where a GPU's memory is not enough."""

from __future__ import annotations

import math
import warnings
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from mercer.compute.program import compile_program
from mercer.errors import FitWarning, InputError, NumericalError
from mercer.estimators.kernels import expression_or_learner
from mercer.fitting.optimise import Fit, FitOptions, fit
from mercer.inference.choose import Choice, asked_engine, choose, choose_grid, fallen_back
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import bind
from mercer.kernels.units import Units, to_scaled_units
from mercer.learners.contract import Context, Learner, checked_jobs, learned_alone
from mercer.learners.large import learn, learned_from_all, sampled

if TYPE_CHECKING:
    from mercer.estimators.regressor import GPRegressor


def known_structure(model: GPRegressor, names: list[str], columns: list[int]) -> Expression | None:
    """Return the kernel that will be fitted where that is known beforehand: it may be one for grids."""
    kernel, dimensions = expression_or_learner(model.kernel), model._train[0].shape[1]
    if isinstance(kernel, Expression):
        return bind(kernel, dimensions, names, default=columns)
    return kernel.scale_kernels(columns, names, model._units).foresee(columns, dimensions)


def chosen_engine(model: GPRegressor, given: Expression | None) -> Choice:
    """Choose the engine; a kernel that is given may be one for grids."""
    asked = asked_engine(model.inference)
    found = None
    if asked is None and given is not None and model.device == "cpu":
        found = choose_grid(compile_program(given), model._scaled_data())
    learner = expression_or_learner(model.kernel)
    most = learner.most_rows if isinstance(learner, Learner) else None
    return found or choose(len(model._train[1]), asked, device=model.device, learner_rows=most)


def learn_where_it_fits(model: GPRegressor, names: list[str], columns: list[int], progress: Any) -> None:
    """Learn from the data at hand; where a GPU runs out of memory, with the next engine, and say so."""
    device = model.device
    while True:
        try:
            _learn(model, names, columns, progress, device)
            break
        except RuntimeError as error:
            from mercer.linalg.device import give_memory_back, is_out_of_memory  # loads PyTorch

            if device == "cpu" or not is_out_of_memory(error):
                raise
        give_memory_back()
        model.inference_, device = fallen_back(model.inference_, model._scaled_data().count, device)
    if device != model.device:
        model.notes_ = (*model.notes_, model.inference_.reason)


def _learn(model: GPRegressor, names: list[str], columns: list[int], progress: Any, device: str) -> None:
    """Learn from the data at hand with the engine that was chosen."""
    kernel = expression_or_learner(model.kernel)
    options, data, engine = _options(model), model._scaled_data(), model.inference_.engine
    large = engine if engine.many_rows else None
    rows = data if large is None else sampled(data.sample, options.seed)
    if isinstance(kernel, Expression):
        bound = to_scaled_units(bind(kernel, data.X.shape[1], names, default=columns), model._units)
        learned = learned_alone(_fitted(bound, rows, options, progress, device))
    else:
        _check_noise(kernel, options)
        kernel = kernel.scale_kernels(columns, names, model._units)
        context = Context(rows, Exact(), columns, options.seed, model.n_jobs, progress, device, options.noise)
        learned = learn(kernel, context, data, large)
    model._keep(learned if large is None else learned_from_all(learned, data, large, options))
    model.distilled_from_ = None


def _options(model: GPRegressor) -> FitOptions:
    for name, least in (("restarts", 1), ("max_iterations", 1)):
        value = getattr(model, name)
        if not isinstance(value, int | np.integer) or value < least:
            raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")
    if model.priors not in (None, "weak"):
        raise InputError(f"priors must be None or 'weak', not {model.priors!r}")
    noise = None
    if model.noise is not None:
        if not (isinstance(model.noise, Real) and np.isfinite(model.noise) and model.noise >= 0):
            raise InputError(f"noise must be None (fit it) or a variance not below zero, not {model.noise!r}")
        noise = float(model.noise) / model._units.y_scale**2
    seed = int(check_random_state(model.random_state).randint(2**31 - 1))
    return FitOptions(
        restarts=model.restarts,
        max_iterations=model.max_iterations,
        priors=model.priors == "weak",
        noise=noise,
        n_jobs=checked_jobs(model.n_jobs),
        seed=seed,
    )


def _check_noise(learner: Learner, options: FitOptions) -> None:
    """Refuse a known noise for a learner that can only fit it."""
    if options.noise is not None and not learner.keeps_noise:
        raise InputError(
            f"{type(learner).__name__} fits the noise and cannot keep a known one: leave noise=None. Kernels that are "
            "given and networks keep it: learn the structure first, then give it as `kernel` together with `noise`"
        )


def _fitted(expression: Expression, data: Data, options: FitOptions, progress: Any, device: str) -> Fit:
    if device == "cpu":
        result = fit(expression, data, Exact(), options, progress)
    else:
        from mercer.fitting.batched import fit_on_device

        result = fit_on_device(expression, data, Exact(), options, device)
    if result.status == "failed":
        raise NumericalError(f"the fit failed: {result.message}; try another kernel or a larger noise")
    if result.status in ("stopped", "interrupted"):
        warnings.warn(f"the fit {result.status}: {result.message}", FitWarning, stacklevel=5)
    return result


def scaling(X: Array, y: Array) -> tuple[Units, float]:
    """Centre and scale to unit spread; a constant column keeps its unit."""
    shift, spread = X.mean(axis=0), X.std(axis=0)
    scale = np.where((spread > 0) & (np.ptp(X, axis=0) > 0), spread, 1.0)
    level, y_scale = float(y.mean()), float(y.std())
    if not (math.isfinite(y_scale) and y_scale > 0 and np.isfinite(scale).all() and np.isfinite(shift).all()):
        raise InputError(
            "the numbers are too large or too small to be scaled: change their unit (by a factor of 1000, say)"
        )
    return Units(tuple(map(float, shift)), tuple(map(float, scale)), y_scale), level
