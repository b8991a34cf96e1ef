"""Between what the exact log evidence of a fitted estimator lies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mercer.compute.program import compile_program
from mercer.errors import InputError
from mercer.inference.bounds import Interval, closest
from mercer.inference.contract import Data
from mercer.inference.vfe import VFE, is_sparse
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import values_of

if TYPE_CHECKING:
    from mercer.estimators.regressor import GPRegressor


def interval_of(model: GPRegressor) -> tuple[float, float]:
    """Return both ends, for the target in its own units."""
    engine, member, data = model.inference_.engine, model._mixture.members[0], model._scaled_data()
    if engine.replaces_kernel:
        raise InputError(
            "random features put another kernel in the place of this one, which says nothing certain about its "
            "evidence; use inference=mercer.VFE() for an interval"
        )
    if not is_sparse(engine):
        return model.log_evidence_, model.log_evidence_
    found = _found(engine, member.kernel, member.noise, data)
    shift = data.count * math.log(model._units.y_scale)
    return max(found.lower - shift, model.log_evidence_), max(found.upper - shift, model.log_evidence_)


def _found(engine: VFE, kernel: Expression, noise: float, data: Data) -> Interval:
    """Return the interval; on the CPU where a GPU has too little memory for it."""
    program, values = compile_program(kernel), values_of(kernel)

    def here() -> Interval:
        return closest(program, values, noise, data, engine.hold(program, values, data), engine)[0]

    if engine.device == "cpu":
        return here()
    from mercer.linalg.device import unless_short  # loads PyTorch

    return unless_short(here) or _found(engine.on("cpu"), kernel, noise, data)
