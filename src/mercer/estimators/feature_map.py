"""`FeatureMap`: a kernel as random features, for anything in scikit-learn that is linear in its inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mercer.compute.evaluate import bind_with_values
from mercer.compute.spectral import draw_features
from mercer.errors import InputError, KernelError
from mercer.estimators.inputs import NestedSettings, check_count, read_rows, read_seed, read_table
from mercer.kernels import Expression, parse
from mercer.kernels.domains import Array

ROWS = 2000  # of the inputs: enough to tell how large LIN is


class FeatureMap(NestedSettings, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Turn rows into features phi: phi(x).phi(z) is an unbiased estimate of k(x, z), with an error of 1 / sqrt(count).

    kernel : text or expression
        With all its values set, in the units of the data: `"SE(0, variance=1, lengthscale=2)"`, or the `kernel_` of a
        fitted model. White noise has no features: it is left out.
    count : int
        Columns of the result, at most. A wave takes two, its cosine and its sine, so that of an odd count one may be
        left over; an exact kernel such as LIN needs fewer.
    random_state : None, int or RandomState

    Attributes: `kernel_`, the kernel on the columns of the data; `features_`, what was drawn; `n_features_in_`, and
    `feature_names_in_` for a table.
    """

    def __init__(self, kernel: str | Expression, count: int = 300, random_state: Any = None) -> None:
        self.kernel = kernel
        self.count = count
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> FeatureMap:
        """Draw the features; of X only the columns matter, and how large they are."""
        check_count("count", self.count)
        expression = parse(self.kernel) if isinstance(self.kernel, str) else self.kernel
        if not isinstance(expression, Expression):
            raise KernelError(
                f"kernel must be a text such as 'SE(variance=1, lengthscale=2)' or a kernel, not {self.kernel!r:.80}"
            )
        rows, self._columns = read_table(self, X, one_hot=True)
        names = self._columns.names if self._columns.has_names else None
        self.kernel_ = bind_with_values(expression, rows.shape[1], names)
        rng = np.random.default_rng(read_seed(self.random_state))
        some = rows if len(rows) <= ROWS else rows[rng.choice(len(rows), ROWS, replace=False)]
        self.features_ = draw_features(self.kernel_, int(self.count), rows.shape[1], rng, some)
        self._n_features_out = self.features_.count
        return self

    def transform(self, X: Any) -> Array:
        """Return phi(x) of every row, (rows, features)."""
        check_is_fitted(self)
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.features_.phi(read_rows(self, X, self._columns))
        if not np.isfinite(found).all():
            row = int(np.flatnonzero(~np.isfinite(found).all(axis=1))[0]) + 1
            raise InputError(f"the features of row {row} are no numbers: its numbers are too large. Change their unit")
        return found
