"""Mercer learns the kernel of a Gaussian process from data, and explains what it learned."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# OpenBLAS's threads spin for 2^26 ticks after each call and take the second core from what comes next; after 2^20
# (a third of a millisecond) they sleep (docs/design.md, Threads). Read when SciPy's BLAS is loaded, so it comes first.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")

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
    NumericalWarning,
    TooLargeError,
)

if TYPE_CHECKING:
    from mercer.estimators import Component, GPRegressor, GridRegressor, KernelSVC
    from mercer.estimators.feature_map import FeatureMap
    from mercer.forecast.forecaster import Forecaster
    from mercer.forecast.learning import learn_priors
    from mercer.inference.evidence import log_evidence
    from mercer.inference.exact import Exact
    from mercer.inference.features import RandomFeatures
    from mercer.inference.grid import Grid
    from mercer.inference.vfe import VFE
    from mercer.interop.targets import from_gpytorch, from_sklearn
    from mercer.kernels import Expression, fixed, parse
    from mercer.learners.auto import AutoKernel
    from mercer.learners.grammar import GrammarSearch
    from mercer.learners.kfo import KernelFunctional
    from mercer.learners.nkn import NeuralKernelNetwork
    from mercer.learners.partition_sampler import PartitionSampler
    from mercer.learners.surface import ChangeSurface
    from mercer.optimise.loading import load
    from mercer.optimise.optimizer import Optimizer, minimize
    from mercer.optimise.space import Integer, Log
    from mercer.tables.parquet_rows import ParquetRows

__version__ = "0.1.0"

__all__ = [
    "VFE", "AutoKernel", "ChangeSurface", "Component", "DataWarning", "Exact", "Expression", "FeatureMap", "FitWarning",
    "Forecaster",
    "GPRegressor", "GrammarSearch", "Grid", "GridRegressor", "InputError", "Integer", "KernelError",
    "KernelFunctional", "KernelSVC", "KernelSyntaxError", "Log", "MercerError", "MercerWarning", "ModelFileError",
    "NeuralKernelNetwork", "NumericalError", "NumericalWarning", "Optimizer", "ParquetRows", "PartitionSampler",
    "RandomFeatures", "TooLargeError", "fixed", "from_gpytorch", "from_sklearn", "learn_priors", "load", "log_evidence",
    "minimize", "parse",
]  # fmt: skip

# Imported when first asked for: `mercer --help` should not wait for scikit-learn and Numba.
_NAMES = {
    "mercer.estimators": ("Component", "GPRegressor", "GridRegressor", "KernelSVC"),
    "mercer.estimators.feature_map": ("FeatureMap",),
    "mercer.forecast.forecaster": ("Forecaster",),
    "mercer.forecast.learning": ("learn_priors",),
    "mercer.inference.evidence": ("log_evidence",),
    "mercer.inference.exact": ("Exact",),
    "mercer.inference.features": ("RandomFeatures",),
    "mercer.inference.grid": ("Grid",),
    "mercer.inference.vfe": ("VFE",),
    "mercer.interop.targets": ("from_gpytorch", "from_sklearn"),
    "mercer.kernels": ("Expression", "fixed", "parse"),
    "mercer.learners.auto": ("AutoKernel",),
    "mercer.learners.grammar": ("GrammarSearch",),
    "mercer.learners.kfo": ("KernelFunctional",),
    "mercer.learners.nkn": ("NeuralKernelNetwork",),
    "mercer.learners.partition_sampler": ("PartitionSampler",),
    "mercer.learners.surface": ("ChangeSurface",),
    "mercer.optimise.loading": ("load",),
    "mercer.optimise.optimizer": ("Optimizer", "minimize"),
    "mercer.optimise.space": ("Integer", "Log"),
    "mercer.tables.parquet_rows": ("ParquetRows",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
_ROOMS = ("datasets", "integrations", "kernels")


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"mercer.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'mercer' has no attribute '{name}'")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
