"""The next steps of a table that was explained: its dates to come in the table that `mercer forecast` shows.

They come from the kernels that are explained, as the sentences and the picture do: one date has one forecast. `mercer
forecast` forecasts from experience with other series instead, and explains less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from mercer.forecast.calendar import Times, make_calendar
from mercer.forecast.findings import LEVELS
from mercer.forecast.page import list_rows
from mercer.model.fitted import Fitted
from mercer.tables.columns import DateColumn

LEAST = 4  # values from which anything is said
HORIZONS = {"month": 12, "quarter": 8, "year": 5, "week": 13, "day": 14, "hour": 24}  # steps: what fits on a screen
OTHERWISE = 10
ORIGIN = "By the kernels that are explained here"


@dataclass(frozen=True, eq=False)
class NextSteps:
    """What comes: as a table (`ds`, `mean`, ends of the bands), as rows for a page, and where it comes from."""

    table: pd.DataFrame
    rows: list[dict[str, Any]]
    origin: str = ORIGIN


def foresee(fitted: Fitted) -> NextSteps | None:
    """Return the next steps where the only input is a column of dates, each of them once; else None."""
    columns = fitted.columns.encoding.columns
    if len(columns) != 1 or not isinstance(columns[0], DateColumn):
        return None
    numbers = np.sort(fitted.training.X[:, 0])
    if len(numbers) < LEAST or np.any(np.diff(numbers) == 0):
        return None
    calendar = make_calendar(Times(numbers, columns[0].timeline))
    horizon = HORIZONS.get(calendar.kind, OTHERWISE)
    last = float((numbers[-1] - calendar.first) / calendar.step)
    places = np.asarray(last + calendar.ahead(last, horizon), dtype=float)
    mean, std = fitted.predict((calendar.first + calendar.step * places)[:, None])
    ahead = {"mean": mean}
    for level in LEVELS:
        reach = float(ndtri(0.5 + level / 200.0)) * std
        ahead |= {f"lower_{level}": mean - reach, f"upper_{level}": mean + reach}
    table = pd.DataFrame(ahead, index=pd.Index(calendar.times(places), name="ds"))
    return NextSteps(table.reset_index(), list_rows(table, calendar))
