"""Regressors whose policies are not the defaults: small samples and few rounds, so that tests are quick."""

from __future__ import annotations

from typing import Any

import mercer


def regressor_with(*policies: Any) -> type[mercer.GPRegressor]:
    """Return a GPRegressor that works by these policies."""

    class Regressor(mercer.GPRegressor):
        """The same estimator."""

    Regressor.policies = policies
    return Regressor
