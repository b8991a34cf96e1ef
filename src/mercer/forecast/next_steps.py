"""The next steps of a table that was explained: what `mercer forecast` says of a column of dates and its target.

They come from experience, as all forecasts do, and not from the kernel that was found: that one explains the data,
these average kernels with priors learned from other series, and were measured on thousands of them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mercer.errors import MercerError
from mercer.forecast.findings import LEVELS, look_ahead
from mercer.forecast.forecaster import Forecaster
from mercer.forecast.page import list_steps
from mercer.forecast.words import tell_last
from mercer.model.fitted import Fitted
from mercer.tables.columns import DateColumn

RECENT = 200  # values that are looked at: a fit of as many takes half a second, and older ones hardly matter
LEAST = 4  # values from which anything is said
HORIZONS = {"month": 12, "quarter": 8, "year": 5, "week": 13, "day": 14, "hour": 24}  # steps: what fits on a screen
OTHERWISE = 10


@dataclass(frozen=True, eq=False)
class NextSteps:
    """What comes: as a table (`ds`, `mean`, ends of the bands), as rows for a page, in a sentence, and its origin."""

    table: pd.DataFrame
    rows: list[dict[str, Any]]
    sentence: str
    origin: str


def foresee(fitted: Fitted) -> NextSteps | None:
    """Return the next steps where the only input is a column of dates, each of them once; else None."""
    columns = fitted.columns.encoding.columns
    if len(columns) != 1 or not isinstance(columns[0], DateColumn):
        return None
    numbers = fitted.training.X[:, 0]
    order = np.argsort(numbers)[-RECENT:]
    if len(order) < LEAST or np.any(np.diff(numbers[order]) == 0):
        return None
    dates = pd.DatetimeIndex(columns[0].timeline.moments(numbers[order]))
    values = pd.Series(fitted.training.y[order], index=dates)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of steps that are not even: the notes of the table say it already
            forecaster = Forecaster().fit(values)
    except MercerError:  # a table without a forecast is still a table that was explained
        return None
    calendar = forecaster.reading_.many[0].calendar
    predicted = forecaster.predict(HORIZONS.get(calendar.kind, OTHERWISE), LEVELS)
    outlook = look_ahead(forecaster, predicted)[0]
    counted = f"the last {len(order)} values" if len(order) < len(numbers) else f"all {len(order)} values"
    origin = (
        f"From {counted}, by averaging kernels with priors learned from other series, as mercer forecast does: not by "
        "the kernel above, which explains the data"
    )
    target = fitted.training.target_name or "the target"
    return NextSteps(predicted.reset_index(), list_steps(outlook), tell_last(outlook, target), origin)
