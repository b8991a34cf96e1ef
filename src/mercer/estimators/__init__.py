"""scikit-learn estimators: validate, scale, call, store."""

from mercer.estimators.files import load
from mercer.estimators.grid import GridRegressor
from mercer.estimators.regressor import GPRegressor
from mercer.model.fitted import Component

__all__ = ["Component", "GPRegressor", "GridRegressor", "load"]
