"""A forecaster for sktime: Mercer in its pipelines, tuning and evaluation.

forecaster = mercer.integrations.sktime.MercerForecaster().fit(y, fh=[1, 2, 3])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from mercer.errors import InputError
from mercer.forecast.forecaster import Forecaster
from mercer.forecast.future import NEAR, count_steps
from mercer.forecast.reading import open_all_days
from mercer.kernels.expression import Expression

try:
    from sktime.forecasting.base import BaseForecaster
except ImportError:
    raise ImportError("mercer.integrations.sktime needs the package sktime: pip install sktime") from None


class MercerForecaster(BaseForecaster):
    """Forecast a series with priors that were learned from thousands of others: `mercer.Forecaster` for sktime.

    Parameters
    ----------
    kernel, season, priors, positive, holidays : as those of `mercer.Forecaster`

    The columns of X are known causes; `predict` needs those of the steps that are asked for. `forecaster_` is the
    fitted `mercer.Forecaster`, with `explain`, `effects`, `report` and `save`.

    Examples
    --------
    >>> from mercer.integrations.sktime import MercerForecaster
    >>> from sktime.datasets import load_airline
    >>> forecaster = MercerForecaster().fit(load_airline(), fh=[1, 2, 3])
    >>> forecaster.predict().round(-2).astype(int).tolist()
    [400, 400, 500]
    """

    _tags: ClassVar[dict[str, Any]] = {
        "authors": ["mercer"],
        "maintainers": ["mercer"],
        "capability:multivariate": False,
        "capability:exogenous": True,
        "capability:insample": False,
        "capability:pred_int": True,
        "capability:pred_int:insample": False,
        "capability:missing_values": True,
        "capability:categorical_in_X": False,
        "y_inner_mtype": "pd.Series",
        "X_inner_mtype": "pd.DataFrame",
        "requires-fh-in-fit": False,
    }

    def __init__(
        self,
        kernel: str | Expression = "auto",
        season: int | None = None,
        priors: Any = "experience",
        positive: bool = False,
        holidays: str | None = None,
    ) -> None:
        self.kernel = kernel
        self.season = season
        self.priors = priors
        self.positive = positive
        self.holidays = holidays
        super().__init__()

    def _fit(self, y: pd.Series, X: pd.DataFrame | None, fh: Any) -> MercerForecaster:
        settings = {"priors": self.priors, "positive": self.positive, "holidays": self.holidays}
        known = None if X is None or X.shape[1] == 0 else X.set_axis(list(map(str, X.columns)), axis=1)
        self.forecaster_ = Forecaster(self.kernel, self.season, **settings).fit(y, known)
        self.forecaster_.reading_ = open_all_days(self.forecaster_.reading_)  # sktime says which days it wants
        return self

    def _predict(self, fh: Any, X: pd.DataFrame | None) -> pd.Series:
        found = self._look_ahead(fh, X, (0.5,))
        return pd.Series(found[0], index=fh.to_absolute_index(self.cutoff), name=self._y_name())

    def _predict_quantiles(self, fh: Any, X: pd.DataFrame | None, alpha: Sequence[float]) -> pd.DataFrame:
        found = self._look_ahead(fh, X, tuple(alpha))
        columns = pd.MultiIndex.from_product([self._get_varnames(), alpha])
        return pd.DataFrame(found.T, index=fh.to_absolute_index(self.cutoff), columns=columns)

    def _y_name(self) -> Any:
        name = self._get_varnames()[0]
        return None if name == 0 else name

    def _look_ahead(self, fh: Any, X: pd.DataFrame | None, shares: tuple[float, ...]) -> np.ndarray:
        """Return quantiles (shares x steps asked for)."""
        steps = self._count_steps(fh)
        causes = self.forecaster_.reading_.given_causes
        future = self._causes_until(X, fh, steps, causes) if causes else None
        horizon = int(steps.max())
        return self.forecaster_.predict_quantiles(horizon, shares, future).to_numpy().T[:, steps - 1]

    def _count_steps(self, fh: Any) -> np.ndarray:
        """Return how many of the series' own steps lie between its last value and what is asked for."""
        named = self.forecaster_.reading_.many[0]
        asked = pd.Series(fh.to_absolute_index(self.cutoff))
        steps = count_steps(asked, named, "") - named.series.places[-1] * named.series.season
        if np.any(np.abs(steps - np.rint(steps)) > NEAR):
            raise InputError(f"the series goes in steps of {named.calendar.words}; times between are not foreseen")
        if np.any(np.rint(steps) < 1):
            raise InputError("the horizon lies before the end of the series: only what comes is foreseen")
        return np.asarray(np.rint(steps), dtype=int)

    def _causes_until(self, X: Any, fh: Any, steps: np.ndarray, causes: tuple[str, ...]) -> pd.DataFrame:
        """Return a row of causes for every step up to the last; those of steps that are not asked for are not read."""
        if X is None:
            raise InputError(f"give X with the columns {', '.join(causes)} for the steps to come")
        asked = X.set_axis(list(map(str, X.columns)), axis=1).reindex(fh.to_absolute_index(self.cutoff))
        missing = [name for name in causes if name not in asked.columns]
        if missing:
            raise InputError(f"X lacks the column {missing[0]!r}, which the series was fitted with")
        rows = pd.DataFrame(0.0, index=np.arange(1, int(steps.max()) + 1), columns=list(causes))
        rows.loc[steps] = asked[list(causes)].to_numpy(dtype=float)
        return rows

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return settings for sktime's tests."""
        return [{}, {"kernel": "C + RW(0)", "season": 1}]
