"""Mercer learns the kernel of a Gaussian process from data, and explains what it learned."""

from mercer.errors import (
    DataWarning,
    FitWarning,
    InputError,
    KernelError,
    KernelSyntaxError,
    MercerError,
    MercerWarning,
    ModelFileError,
    NumericalError,
    TooLargeError,
)
from mercer.estimators import Component, GPRegressor, load
from mercer.inference.evidence import log_evidence
from mercer.kernels import Expression, fixed, parse

__version__ = "0.1.0"

__all__ = [
    "Component",
    "DataWarning",
    "Expression",
    "FitWarning",
    "GPRegressor",
    "InputError",
    "KernelError",
    "KernelSyntaxError",
    "MercerError",
    "MercerWarning",
    "ModelFileError",
    "NumericalError",
    "TooLargeError",
    "fixed",
    "load",
    "log_evidence",
    "parse",
]
