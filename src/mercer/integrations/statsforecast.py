"""A model for statsforecast: Mercer beside AutoARIMA and AutoETS in `StatsForecast(models=[...])`.

models = [mercer.integrations.statsforecast.Mercer(season_length=12), AutoETS(season_length=12)]

The model is a plain class with the methods that StatsForecast calls, so that it also serves without that package.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
import pandas as pd

from mercer.errors import InputError
from mercer.forecast.forecaster import Forecaster
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression

# StatsForecast gives a model plain arrays; how many steps a season has says what the steps are, and so which experience
# serves them.
STEPS = {1: "Y", 4: "Q", 7: "D", 12: "M", 24: "h", 52: "W"}


class Mercer:
    """Forecast series with priors that were learned from thousands of others: `mercer.Forecaster` for statsforecast.

    Parameters
    ----------
    season_length : int
        Steps in a season: 12 for months, 4 for quarters, 7 for days, 24 for hours, 1 where there is none.
    alias : str
        The name of the column of forecasts.
    kernel, priors, positive : as those of `mercer.Forecaster`

    Bands are Mercer's own; `prediction_intervals` of StatsForecast does not change them. Values within the sample are
    not offered.
    """

    uses_exog = True

    def __init__(
        self,
        season_length: int = 1,
        alias: str = "Mercer",
        *,
        kernel: str | Expression = "auto",
        priors: Any = "experience",
        positive: bool = False,
    ) -> None:
        self.season_length = season_length
        self.alias = alias
        self.kernel = kernel
        self.priors = priors
        self.positive = positive

    def __repr__(self) -> str:
        return self.alias

    def new(self) -> Mercer:
        """Return a copy, as StatsForecast makes one for each series."""
        return copy(self)

    def fit(self, y: Array, X: Array | None = None) -> Mercer:
        """Fit one series of values in order; X has a row of known causes for each."""
        values = np.asarray(y, dtype=float)
        season = min(int(self.season_length), max(1, len(values)))  # a series shorter than a season shows none
        step = STEPS.get(self.season_length)
        index = None if step is None else pd.period_range("2000-01-01", periods=len(values), freq=step)
        known = None if X is None or np.shape(X)[1] == 0 else pd.DataFrame(np.asarray(X, dtype=float))
        forecaster = Forecaster(self.kernel, season, priors=self.priors, positive=self.positive)
        self.model_ = forecaster.fit(pd.Series(values, index=index), known)
        return self

    def predict(self, h: int, X: Array | None = None, level: Sequence[float] | None = None) -> dict[str, Array]:
        """Return `mean`, and `lo-L` and `hi-L` for each level L in per cent, for the next h steps."""
        if not hasattr(self, "model_"):
            raise InputError("fit the model first: Mercer(season_length=12).fit(y).predict(h=12)")
        levels = sorted(level or ())
        known = X if self.model_.reading_.causes else None
        table = self.model_.predict(h, levels, None if known is None else pd.DataFrame(np.asarray(X, dtype=float)))
        found = {"mean": table["mean"].to_numpy()}
        found |= {f"lo-{each}": table[f"lower_{each:g}"].to_numpy() for each in reversed(levels)}
        return found | {f"hi-{each}": table[f"upper_{each:g}"].to_numpy() for each in levels}

    def forecast(
        self,
        y: Array,
        h: int,
        X: Array | None = None,
        X_future: Array | None = None,
        level: Sequence[float] | None = None,
        fitted: bool = False,
    ) -> dict[str, Array]:
        """Fit and predict in one go; nothing is kept."""
        if fitted:
            raise InputError("Mercer offers no values within the sample: leave fitted=True out")
        return self.new().fit(y, X).predict(h, X_future, level)
