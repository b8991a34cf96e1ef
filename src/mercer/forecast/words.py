"""What was found in a series, in words: those of a fitted kernel, for the member with the largest weight."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from mercer.estimators.regressor import GPRegressor
from mercer.explain.explanation import Explanation, explain
from mercer.forecast.model import SeriesModel
from mercer.forecast.reading import Named
from mercer.kernels.algebra import structure
from mercer.kernels.expression import Base, Expression, Sum, sum_of
from mercer.kernels.parameters import Units, to_data_units
from mercer.model.fitted import Origin

TARGETS = {"level": "{name}", "root": "the square root of {name}", "log": "the logarithm of {name}"}


def explain_series(named: Named, model: SeriesModel) -> Explanation:
    """Explain the heaviest member: its kernel in the units of the dates, its values and noise as they are."""
    member, series, calendar = model.heaviest, named.series, named.calendar
    lengths = (calendar.step * series.season, *named.spreads)
    units = Units((calendar.first, *named.centres), lengths, member.size)
    kernel = _without_constant(to_data_units(member.kernel, units)).map_owners(_fix)
    target = TARGETS[member.scale.name].format(name=named.name or "y")
    columns: dict[Any, Any] = {"ds": calendar.times(series.places * series.season)}
    causes = series.causes * named.spreads + named.centres
    columns |= {f"cause {number + 1}": column for number, column in enumerate(causes.T)}
    regressor = GPRegressor(kernel, noise=member.noise * member.size**2, restarts=1, random_state=0)
    values = pd.Series(member.scale.forward(series.values), name=target)
    regressor.fit(pd.DataFrame(columns), values)
    share = float(np.max(model.weights))
    note = (
        f"forecasts average {len(model.members)} kernels on up to three scales by evidence; this is the one with the "
        f"largest weight ({share:.0%}), with priors learned from other series"
    )
    fitted = regressor.fitted_
    origin = Origin({**fitted.origin.options, "kernel": structure(kernel).text()})  # its values were found, not given
    return explain(replace(fitted, origin=origin, notes=(*fitted.notes, note)))


def _without_constant(kernel: Expression) -> Expression:
    """Return the kernel without a constant: a fitted model has a level of its own."""
    terms = kernel.terms if isinstance(kernel, Sum) else (kernel,)
    kept = [term for term in terms if not (isinstance(term, Base) and term.spec.words.role == "constant")]
    return sum_of(kept) if kept else kernel


def _fix(owner: Any) -> Any:
    for parameter in owner.parameters:
        if parameter.values is not None:
            owner = owner.with_parameter(replace(parameter, fixed=True))
    return owner
