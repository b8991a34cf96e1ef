"""scikit-learn estimators: validate, call, keep what was found as `fitted_`, and show it as attributes."""

from pathlib import Path

from mercer.estimators.classifier import KernelSVC
from mercer.estimators.grid import GridRegressor
from mercer.estimators.inputs import restore
from mercer.estimators.regressor import GPRegressor
from mercer.model import archive
from mercer.model.classes import FittedClasses
from mercer.model.fitted import Component, Fitted

__all__ = ["Component", "GPRegressor", "GridRegressor", "KernelSVC", "load"]


def load(path: str | Path) -> GPRegressor | GridRegressor | KernelSVC:
    """Read a model file written by `GPRegressor.save`, `GridRegressor.save` or `KernelSVC.save`; returns the model."""
    fitted = archive.load(path)
    if isinstance(fitted, Fitted):
        return restore(GPRegressor, fitted.origin.options, fitted)
    if isinstance(fitted, FittedClasses):
        return restore(KernelSVC, fitted.options, fitted)
    return restore(GridRegressor, fitted.options, fitted)
