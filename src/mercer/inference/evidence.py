"""`log_evidence`: the evidence of a given kernel on given data, with its gradient by every parameter."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from mercer.compute.evaluate import read_numbers
from mercer.compute.program import compile_program
from mercer.errors import InputError, KernelError, NumericalError, NumericalWarning
from mercer.inference.choose import check_memory
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import bind, layout, values_of
from mercer.kernels.text import parse

Gradient = dict[str, float | Array]
MANY_ROWS = 500  # matrices of fewer rows fit anywhere


@overload
def log_evidence(
    expression: Expression | str, X: ArrayLike, y: ArrayLike, *, noise: float, gradient: Literal[False] = False,
    names: Sequence[str] | None = None,
) -> float: ...  # fmt: skip
@overload
def log_evidence(
    expression: Expression | str, X: ArrayLike, y: ArrayLike, *, noise: float, gradient: Literal[True],
    names: Sequence[str] | None = None,
) -> tuple[float, Gradient]: ...  # fmt: skip
def log_evidence(
    expression: Expression | str,
    X: ArrayLike,
    y: ArrayLike,
    *,
    noise: float,
    gradient: bool = False,
    names: Sequence[str] | None = None,
) -> float | tuple[float, Gradient]:
    """Return log N(y | 0, K + noise I) and, if asked, its gradient by every parameter and by the noise variance.

    The target is taken as it is (centre it yourself if you want to); `noise` is a variance; every parameter of the
    kernel needs a value. Gradients are by the parameters themselves, in a dict from paths such as "0:SE.lengthscale"
    (the leaf's number, its symbol, the parameter) and "noise"; they are numbers, or arrays where a parameter has
    several values.
    """
    inputs, target = read_numbers(X, "X"), read_numbers(y, "y")
    if inputs.ndim == 1:
        inputs = inputs[:, None]
    if inputs.ndim != 2 or target.ndim != 1 or len(inputs) != len(target) or not len(target):
        raise InputError(
            f"X must be rows x columns and y one number a row; their shapes are {inputs.shape} and {target.shape}"
        )
    if not (np.isfinite(inputs).all() and np.isfinite(target).all()):
        raise InputError("X and y must be finite: drop or fill in the rows with NaN or infinity")
    if not (isinstance(noise, Real) and np.isfinite(noise) and noise >= 0):
        raise InputError(f"noise is a variance, a finite number not below zero; {noise!r:.60} was given")
    if isinstance(expression, str):
        expression = parse(expression)
    bound = bind(expression, inputs.shape[1], names)
    values = values_of(bound)
    shape = layout(bound)
    if np.isnan(values).any():
        unset = [slot.path for slot in shape.slots if np.isnan(values[slot.where]).any()]
        raise KernelError(f"the evidence needs a value for every parameter; without one: {', '.join(unset)}")
    if len(target) > MANY_ROWS:
        check_memory(len(target))
    evidence = Exact().evidence(compile_program(bound), values, Gaussian(float(noise)), Data(inputs, target), gradient)
    if evidence.failure is not None:
        raise NumericalError(f"no evidence: {evidence.failure}; try a larger noise")
    if evidence.jitter > 0:
        warnings.warn(
            f"{evidence.jitter:.2g} was added to the diagonal of the covariance matrix to factorise it, as if the "
            f"noise were {noise + evidence.jitter:.2g}; a larger noise needs no such help",
            NumericalWarning,
            stacklevel=2,
        )
    if not gradient:
        return evidence.value
    assert evidence.gradient is not None
    assert evidence.noise_gradient is not None
    by_path: Gradient = {slot.path: evidence.gradient[slot.where] for slot in shape.slots}
    single = {slot.path: float(evidence.gradient[slot.offset]) for slot in shape.slots if slot.size == 1}
    return evidence.value, by_path | single | {"noise": evidence.noise_gradient}
