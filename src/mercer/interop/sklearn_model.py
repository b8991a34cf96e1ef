"""A fitted model as a GaussianProcessRegressor of scikit-learn, with a level that is free.

scikit-learn takes the mean of y out and forgets it; Mercer fits the constant with everything else, and its uncertainty
widens the bands (exporting.py). So this is a subclass that solves for the level, too. The noise is a WhiteKernel in
`kernel_`, as scikit-learn has it: the standard deviation of `predict` is that of a new observation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel

from mercer.errors import InputError, NumericalError
from mercer.inference.likelihood import LOG_2_PI
from mercer.interop.exporting import Exported, read_table
from mercer.interop.sklearn_kernels import REACH, to_sklearn_kernel
from mercer.kernels.domains import Array
from mercer.linalg.factor import Failure, factorise
from mercer.model.fitted import Columns


class LevelRegressor(GaussianProcessRegressor):
    """scikit-learn's regressor around a constant that is fitted with everything else.

    columns : how a table becomes rows of numbers; None: they are numbers.
    level_, level_variance_ : the constant, and its variance.

    `fit` keeps the kernel's values, unless an optimizer is given: `set_params(optimizer="fmin_l_bfgs_b")`.
    """

    def __init__(  # noqa: PLR0913
        self, kernel: Any = None, *, alpha: Any = 1e-10, optimizer: Any = None, n_restarts_optimizer: int = 0,
        normalize_y: bool = False, copy_X_train: bool = True, n_targets: Any = None, random_state: Any = None,
        columns: Columns | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            kernel, alpha=alpha, optimizer=optimizer, n_restarts_optimizer=n_restarts_optimizer,
            normalize_y=normalize_y, copy_X_train=copy_X_train, n_targets=n_targets, random_state=random_state,
        )  # fmt: skip
        self.columns = columns

    def fit(self, X: Any, y: Any) -> LevelRegressor:
        """Fit to other rows."""
        target = np.asarray(y, dtype=np.float64)
        if target.ndim != 1:
            raise InputError(f"y is one column of numbers, not {target.ndim} dimensions")
        if self.normalize_y:
            raise InputError("the level of y is fitted here: leave normalize_y=False")
        self.columns_ = self.columns or name_columns(X)
        super().fit(read_table(X, self.columns_), target - target.mean())
        return self.settle(np.asarray(self.X_train_), target)

    def settle(self, X: Array, y: Array) -> LevelRegressor:
        """Solve for the level and for what predictions need, with `kernel_` as it is."""
        factor = factorise(lambda: self.kernel_(X), float(self.alpha))
        if isinstance(factor, Failure):
            raise NumericalError(f"no predictions: {factor.reason}; try a larger noise")
        middle = y.mean()
        (solved, self.pull_) = factor.solve(np.stack([y - middle, np.ones(len(y))]).T).T
        self.level_variance_ = 1.0 / float(self.pull_.sum())
        above = self.level_variance_ * float(self.pull_ @ (y - middle))
        self.level_ = float(middle + above)
        self.X_train_, self.y_train_ = X, y - self.level_
        self.L_, self.alpha_ = np.tril(factor.lower), solved - above * self.pull_
        self.log_marginal_likelihood_value_ = -0.5 * float(
            self.y_train_ @ self.alpha_ + factor.log_determinant() + len(y) * LOG_2_PI
        )
        return self

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Return the mean of y and, if asked, the standard deviation or covariance of new observations."""
        if return_std and return_cov:
            raise InputError("ask for return_std or return_cov, not both")
        if not hasattr(self, "level_"):  # not fitted: scikit-learn then predicts from the kernel alone
            return super().predict(X, return_std=return_std, return_cov=return_cov)
        rows = self._read(X)
        cross = self.kernel_(rows, self.X_train_)
        mean = self.level_ + cross @ self.alpha_
        if not (return_std or return_cov):
            return mean
        half, left = solve_triangular(self.L_, cross.T, lower=True), 1.0 - cross @ self.pull_
        if return_cov:
            return mean, self.kernel_(rows) - half.T @ half + self.level_variance_ * np.outer(left, left)
        variance = np.maximum(self.kernel_.diag(rows) - (half**2).sum(axis=0), 0.0)
        return mean, np.sqrt(variance + self.level_variance_ * left**2)

    def _read(self, X: Any) -> Array:
        return read_table(X, self.columns_)


def name_columns(X: Any) -> Columns:
    """Return the columns of a table or a matrix of numbers, with the names that it has."""
    names = tuple(getattr(X, "columns", ()))
    count = np.shape(X)[-1] if np.ndim(X) else 0
    return Columns(count, names if names and all(isinstance(name, str) for name in names) else None)


def make_kernel(exported: Exported) -> Any:
    """Return the kernel of the first member with its noise."""
    alone = exported.members[0]
    kernel = to_sklearn_kernel(alone.kernel, alone.X.shape[1])
    return kernel + WhiteKernel(alone.noise, (alone.noise / REACH, alone.noise * REACH)) if alone.noise else kernel


def make_sklearn(exported: Exported) -> LevelRegressor:
    """Return the first member as a fitted regressor."""
    alone = exported.members[0]
    columns = exported.columns
    model = LevelRegressor(make_kernel(exported), alpha=alone.jitter, columns=columns if columns.has_names else None)
    model.kernel_ = clone(model.kernel)
    model.n_features_in_ = alone.X.shape[1]
    model.columns_ = columns
    return model.settle(alone.X, alone.y)
