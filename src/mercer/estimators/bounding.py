"""Between what the exact log evidence of a fitted estimator lies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mercer.errors import InputError
from mercer.evaluate.program import compile_program
from mercer.inference.bounds import closest
from mercer.inference.features import RandomFeatures
from mercer.inference.vfe import VFE
from mercer.kernels.parameters import values_of

if TYPE_CHECKING:
    from mercer.estimators.regressor import GPRegressor


def interval_of(model: GPRegressor) -> tuple[float, float]:
    """Return both ends, for the target in its own units."""
    engine, member, data = model.inference_.engine, model._mixture.members[0], model._scaled_data()
    if isinstance(engine, RandomFeatures):
        raise InputError(
            "random features put another kernel in the place of this one, which says nothing certain about its "
            "evidence; use inference=mercer.VFE() for an interval"
        )
    if not isinstance(engine, VFE):
        return model.log_evidence_, model.log_evidence_
    program, values = compile_program(member.kernel), values_of(member.kernel)
    found, _ = closest(program, values, member.noise, data, engine.holding(program, values, data), engine)
    shift = data.count * math.log(model._units.y_scale)
    return max(found.lower - shift, model.log_evidence_), max(found.upper - shift, model.log_evidence_)
