"""`Forecaster`: what comes next in one series or in thousands, with bands, in scikit-learn's manner."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mercer.errors import DataWarning, InputError
from mercer.explain.explanation import Explanation
from mercer.fitting.starts import LearnedPrior
from mercer.forecast.effects import Effect, find_effects
from mercer.forecast.experience import Experience, Member, read_priors
from mercer.forecast.future import coming_times, read_future
from mercer.forecast.model import SeriesModel, fit_series
from mercer.forecast.reading import Named, Reading, keep_positive, list_some, read_series
from mercer.forecast.scales import scale_called
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.writing import check_place

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_STEPS = 100_000  # of a horizon: a slip such as 1e9 is an error and not a memory of gigabytes
BANDS = (80, 95)


class Forecaster(BaseEstimator):
    """Forecast short series with priors that were learned from thousands of others.

    Parameters
    ----------
    kernel : "auto", str or Expression
        "auto" averages compositions of level, trend, season and noise on three scales of the target (as it is, square
        root, logarithm), by evidence. A kernel that is given is fitted with weak priors instead, over time in steps.
    season : int or None
        Steps in a season; None: 12 for months, 4 for quarters, 7 for days, 24 for hours, where the series shows it.
    random_state : int or None
        Kept for scikit-learn's manners: nothing is drawn at random.
    priors : "experience", what `mercer.learn_priors` returned, or the path of a file of it
    positive : bool
        The target cannot fall to zero or below: only scales for positive values are used.
    holidays : str or None
        A country such as "DE", or a part of one such as "DE-BY": its public holidays are known causes of days, weeks
        and hours (needs the package `holidays`).
    n_jobs : int or None
        Series fitted at the same time (joblib). The result does not depend on it.

    Attributes
    ----------
    series_ : tuple of str, the names of the series. notes_ : tuple of str, remarks on the data.
    models_ : dict of the fitted members with their weights, by name of the series.
    """

    def __init__(
        self,
        kernel: str | Expression = "auto",
        season: int | None = None,
        random_state: int | None = None,
        *,
        priors: Any = "experience",
        positive: bool = False,
        holidays: str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.season = season
        self.random_state = random_state
        self.priors = priors
        self.positive = positive
        self.holidays = holidays
        self.n_jobs = n_jobs

    def fit(self, y: Any, X: Any = None, *, progress: Callable[[int, int], None] | None = None) -> Forecaster:
        """Fit every series: a pandas Series, an array, or a table with the columns unique_id, ds and y.

        X has a row of known causes for every value; `predict` then needs those of the steps to come. Steps may be
        missing, and times uneven. `progress` is called with how many series are fitted, and how many there are.
        """
        season = self.season if self._automatic else 1  # a kernel that is given counts in steps
        reading = read_series(y, X, season, self.holidays)
        if self.positive and self._automatic:
            reading = keep_positive(reading)
        experiences = [self._experience(named) for named in reading.many]
        found: Iterable[SeriesModel]
        if self.n_jobs in (None, 1) or len(reading.many) == 1:
            found = (fit_series(n.series, e) for n, e in zip(reading.many, experiences, strict=True))
        else:
            from joblib import Parallel, delayed

            work = (delayed(fit_series)(n.series, e) for n, e in zip(reading.many, experiences, strict=True))
            found = Parallel(n_jobs=self.n_jobs, return_as="generator")(work)
        models = []
        for model in found:
            models.append(model)
            if progress is not None:
                progress(len(models), len(reading.many))
        self.reading_ = reading
        self.models_ = {named.name: model for named, model in zip(reading.many, models, strict=True)}
        return self

    @property
    def _automatic(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "auto"

    def _experience(self, named: Named) -> Experience:
        """Return the members for a series: those of experience, or the kernel that was given."""
        if self._automatic:
            found = read_priors(self.priors).of(named.calendar.kind, named.series.season > 1)
            kept = tuple(m for m in found.members if scale_called(m.scale).positive or not self.positive)
            return replace(found, members=kept)
        text = self.kernel.text() if isinstance(self.kernel, Expression) else str(self.kernel)
        return Experience((Member("level", text, LearnedPrior(())),))

    @property
    def series_(self) -> tuple[str, ...]:
        """The names of the series."""
        check_is_fitted(self)
        return tuple(self.models_)

    @property
    def notes_(self) -> tuple[str, ...]:
        """Remarks on the data."""
        check_is_fitted(self)
        return self.reading_.notes

    # ---------------------------------------------------------------------------------------------------- predicting

    def predict(self, horizon: int, levels: Sequence[float] = BANDS, X: Any = None) -> pd.DataFrame:
        """Return a row for each of the next steps: `mean`, and `lower_L`, `upper_L` for each level L in per cent.

        `mean` is the middle of the forecast: half of what can come lies below it. Of many series the rows have the
        index (unique_id, ds). X has the known causes of the steps to come: with their dates in the column ds (and
        unique_id), or in order, series by series.
        """
        levels = read_levels(levels)
        shares = [0.5] + [side for level in levels for side in (0.5 - level / 200, 0.5 + level / 200)]
        names = ["mean"] + [f"{side}_{level:g}" for level in levels for side in ("lower", "upper")]
        return self._table(horizon, shares, names, X)

    def predict_quantiles(self, horizon: int, levels: Sequence[float], X: Any = None) -> pd.DataFrame:
        """Return a column for each quantile, such as 0.1, 0.5 and 0.9, at each of the next steps."""
        asked = "quantiles lie between 0 and 1, such as (0.1, 0.5, 0.9)"
        levels = read_list(levels, asked)
        for level in levels:
            if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
                raise InputError(f"{asked}, not {level!r:.60}")
        return self._table(horizon, list(levels), [f"{level:g}" for level in levels], X)

    def _table(self, horizon: int, shares: list[float], names: list[str], X: Any) -> pd.DataFrame:
        check_is_fitted(self)
        count = read_horizon(horizon)
        causes = read_future(X, self.reading_, count)
        tables = []
        for place, named in enumerate(self.reading_.many):
            own = None if causes is None else (causes[place] - named.centres) / named.spreads
            values = self.models_[named.name].forecast(named.ahead(count), own).quantiles(shares)
            tables.append(pd.DataFrame(values.T, index=coming_times(named, count), columns=names))
        if not self.reading_.long:
            return tables[0]
        return pd.concat(tables, keys=self.series_, names=["unique_id", "ds"])

    # ---------------------------------------------------------------------------------------------------- explaining

    def explain(self, name: str | None = None) -> Explanation:
        """Return in words what was found in a series: of the member with the largest weight, on its scale."""
        from mercer.forecast.words import explain_series

        check_is_fitted(self)
        named, model = self._one(name)
        return explain_series(named, model, causes=self.reading_.causes)

    def effects(self, name: str | None = None) -> tuple[Effect, ...]:
        """Return what each known cause does to a series; `sentence` of each says it in words."""
        check_is_fitted(self)
        return find_effects(*self._one(name), self.reading_.causes)

    def _one(self, name: str | None) -> tuple[Named, SeriesModel]:
        """Return a series with its model; its name may be left out where there is only one."""
        names = self.series_
        if name is None and len(names) > 1:
            raise InputError(f"there are {len(names)} series: name one, such as {names[0]!r}")
        chosen = names[0] if name is None else str(name)
        if chosen not in names:
            raise InputError(f"there is no series {chosen!r}; there are {', '.join(names[:5])}")
        return self.reading_.many[names.index(chosen)], self.models_[chosen]

    def backtest(self, folds: int = 5, horizon: int = 12, levels: Sequence[float] = BANDS) -> Backtest:
        """Forecast from earlier origins, one fold `horizon` steps before the other, and compare with what came.

        Every fold is fitted anew to what was known then, with the same priors. Series that are too short for a fold are
        left out of it.
        """
        check_is_fitted(self)
        count = read_horizon(horizon)
        if isinstance(folds, bool) or not isinstance(folds, int) or folds < 1:
            raise InputError(f"folds is a number of earlier origins such as 5, not {folds!r:.60}")
        return run_backtest(self.reading_, self.models_, folds, count, read_levels(levels))

    def report(self, path: str | Path, horizon: int = 12, X: Any = None, target: str = "y") -> None:
        """Write one HTML page that needs nothing else: picture, table of what comes, and sentences.

        Of many series: what was found in each, and pictures of the unusual ones. `target` is the name of the values.
        """
        from mercer.forecast.page import Forecasts, write_page

        check_is_fitted(self)
        write_page(Forecasts.of(self, horizon, X, target), path)

    def save(self, path: str | Path) -> None:
        """Write the forecaster to a file that `mercer.load` reads."""
        from mercer.forecast.files import write_forecaster

        check_is_fitted(self)
        write_forecaster(self, path)


def read_horizon(horizon: Any) -> int:
    """Read a number of steps."""
    if isinstance(horizon, bool) or not isinstance(horizon, int | np.integer) or not 1 <= horizon <= MOST_STEPS:
        raise InputError(f"the horizon is a number of steps from 1 to {MOST_STEPS}, such as 12, not {horizon!r:.60}")
    return int(horizon)


def read_levels(levels: Sequence[float]) -> tuple[float, ...]:
    """Read bands in per cent; a share such as 0.8 is refused, as a band of 0.8 % is never meant."""
    asked = "levels are in per cent, between 1 and 100, such as (80, 95)"
    levels = read_list(levels, asked)
    for level in levels:
        if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 100:
            raise InputError(f"{asked}, not {level!r:.60}")
        if level < 1:
            raise InputError(f"levels are in per cent: write {100 * level:g}, not {level:g}")
    return levels


def read_list(levels: Any, asked: str) -> tuple[Any, ...]:
    """Read some levels, each once; NumPy's numbers become Python's."""
    if isinstance(levels, str) or not isinstance(levels, Iterable):
        raise InputError(f"{asked}, not {levels!r:.60}")
    return tuple(dict.fromkeys(each.item() if isinstance(each, np.generic) else each for each in levels))


# ------------------------------------------------------------------------------------------------------------ backtest


@dataclass(frozen=True, eq=False)
class Backtest:
    """Forecasts from earlier origins beside what came.

    table : a row for each series, fold and step: unique_id, fold, step, ds, y, mean, lower and upper ends.
    summary : by step the mean absolute error, that in units of the seasonal naive method's error (mase), and the share
        of values inside each band.
    """

    table: pd.DataFrame
    summary: pd.DataFrame

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw the errors by step, and how often the bands held beside how often they should; write it to a file."""
        from mercer.forecast.pictures import backtest_figure
        from mercer.report.plots import save_figure

        if path is not None:
            check_place(Path(path))
        figure = backtest_figure(self.summary)
        if path is not None:
            save_figure(figure, path)
        return figure


def run_backtest(
    reading: Reading, models: dict[str, SeriesModel], folds: int, horizon: int, levels: tuple[float, ...]
) -> Backtest:
    """Fit to what was known at each origin, and compare."""
    rows: list[dict[str, Any]] = []
    least = 0
    for named in reading.many:
        series, experience = named.series, models[named.name].experience
        naive = naive_error(series.values, int(series.season))
        for fold in range(folds, 0, -1):
            count = len(series.values) - fold * horizon
            least = max(4, math.ceil(1.5 * series.season) if series.season > 1 else 0)
            if count < least:
                continue
            before = fit_series(series.until(count), experience)
            after = slice(count, count + horizon)
            found = [side for level in levels for side in (0.5 - level / 200, 0.5 + level / 200)]
            steps = np.rint((series.places[after] - series.places[count - 1]) * series.season).astype(int)
            steps = np.maximum(steps, 1)
            ahead = named.calendar.ahead(float(series.places[count - 1] * series.season), int(steps.max()))
            ahead = ahead[ahead <= steps.max()]
            numbers = np.searchsorted(ahead, steps)  # weekdays that the data never have are no steps
            causes = _spread_causes(series.causes[after], numbers, len(ahead))
            values = before.forecast(ahead, causes).quantiles([0.5, *found])[:, numbers]
            times = named.calendar.times(series.places[after] * series.season)
            for place, step in enumerate(numbers + 1):
                row = {"unique_id": named.name, "fold": folds - fold + 1, "step": int(step), "ds": times[place]}
                row |= {"y": series.values[after][place], "mean": values[0, place], "scale": naive}
                for number, level in enumerate(levels):
                    row[f"lower_{level:g}"], row[f"upper_{level:g}"] = values[1 + 2 * number : 3 + 2 * number, place]
                rows.append(row)
    if not rows:
        raise InputError(
            f"no series is long enough for {folds} folds of {horizon} steps: ask for fewer or shorter ones"
        )
    table = pd.DataFrame(rows)
    tested = set(table["unique_id"])
    if left_out := [named.name for named in reading.many if named.name not in tested]:
        warnings.warn(
            f"left out, because they are too short for any fold: {list_some(left_out)}", DataWarning, stacklevel=3
        )
    there = table["fold"].nunique()
    if there < folds:
        longest = max(len(named.series.values) for named in reading.many)
        warnings.warn(
            f"{there} of {folds} folds: of {longest} values no more origins, {horizon} steps apart, leave the {least} "
            "before them that a fit needs",
            DataWarning,
            stacklevel=3,
        )
    return Backtest(table.drop(columns="scale"), _summarise(table, levels))


def _spread_causes(causes: Array, places: NDArray[np.intp], count: int) -> Array:
    """Return a row of causes for each of so many steps; those of missing steps are never read."""
    result = np.zeros((count, causes.shape[1]))
    result[places] = causes
    return result


def naive_error(values: Array, season: int) -> float:
    """Return the mean absolute error of the seasonal naive method, one season ahead."""
    season = season if len(values) > season else 1
    found = float(np.mean(np.abs(values[season:] - values[:-season])))
    return found or math.nan


def _summarise(table: pd.DataFrame, levels: tuple[float, ...]) -> pd.DataFrame:
    error = (table["y"] - table["mean"]).abs()
    columns = {"mae": error, "mase": error / table["scale"]}
    for level in levels:
        inside = (table["y"] >= table[f"lower_{level:g}"]) & (table["y"] <= table[f"upper_{level:g}"])
        columns[f"inside_{level:g}"] = inside.astype(float)
    return pd.DataFrame(columns).groupby(table["step"]).mean()
