"""What stands out in a series and its forecast: what comes beside what was, and the value that surprised most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mercer.forecast.calendar import Steps
from mercer.forecast.forecaster import Forecaster
from mercer.forecast.model import SeriesModel
from mercer.forecast.reading import Named
from mercer.kernels.domains import Array

LEVELS = (50, 80, 95)  # of the bands that are shown
STRIKING = 3.5  # standard deviations: about one value in two thousand is so far off by chance


@dataclass(frozen=True, eq=False)
class Outlook:
    """One series, its model, and the table of what comes."""

    named: Named
    model: SeriesModel
    ahead: pd.DataFrame  # mean, and the ends of the bands, by time

    @property
    def times(self) -> pd.Index:
        """The times of the values."""
        return self.named.calendar.times(self.named.series.places * self.named.series.season)

    @property
    def finest(self) -> float:
        """A hundredth of this is the last digit worth showing."""
        return find_finest(self.ahead)

    @property
    def positive(self) -> bool:
        """Whether changes can be given in per cent."""
        return bool(np.all(self.named.series.values > 0) and np.all(self.ahead["mean"] > 0))


@dataclass(frozen=True)
class ForecastChange:
    """What comes less what was: the next steps on average against the same steps of a season before, or the last value.

    `seasons` is how many of them lie between, 0 where there is no season to compare with. `share` is the change
    relative to what was, None where values are not all positive; `reach` half of the average 95 % band.
    """

    seasons: int
    steps: int
    before: float
    after: float
    reach: float
    share: float | None

    @property
    def strength(self) -> float:
        """The change in units of its own band."""
        return abs(self.after - self.before) / self.reach if self.reach > 0 else 0.0


@dataclass(frozen=True)
class Surprise:
    """The value that the others predict worst, in standard deviations of that prediction, on the scale of the model."""

    place: int
    value: float
    expected: float
    deviations: float


@dataclass(frozen=True)
class Finding:
    """What a row of the page says about a series."""

    name: str
    change: ForecastChange
    surprise: Surprise

    @property
    def unusual(self) -> bool:
        """Whether what comes differs by more than its uncertainty, or a value is far from what the others say."""
        return self.change.strength > 1.0 or abs(self.surprise.deviations) > STRIKING


def find_finest(ahead: pd.DataFrame) -> float:
    """Return ten times half the narrowest band of a table: a hundredth of it is the last digit worth showing."""
    return 5.0 * float((ahead["upper_95"] - ahead["lower_95"]).min())


def look_ahead(forecaster: Forecaster, found: pd.DataFrame) -> tuple[Outlook, ...]:
    """Pair every series with its part of what `predict` returned."""
    count = len(found) // len(forecaster.reading_.many)
    tables = [found.iloc[start : start + count] for start in range(0, len(found), count)]
    if forecaster.reading_.long:
        tables = [table.droplevel(0) for table in tables]
    pairs = zip(forecaster.reading_.many, tables, strict=True)
    return tuple(Outlook(named, forecaster.models_[named.name], table) for named, table in pairs)


def find(outlook: Outlook) -> Finding:
    """Find what stands out."""
    return Finding(outlook.named.name, compare(outlook), find_surprise(outlook.named, outlook.model))


def compare(outlook: Outlook) -> ForecastChange:
    """Compare what comes with what was."""
    series, mean = outlook.named.series, outlook.ahead["mean"].to_numpy()
    half = 0.5 * (outlook.ahead["upper_95"] - outlook.ahead["lower_95"]).to_numpy()
    season = round(series.season)
    ahead = outlook.named.ahead(len(mean))
    pairs = _season_before(series.places * series.season, season, ahead) if season > 1 else []
    if pairs:
        steps, rows = (np.array(each) for each in zip(*pairs, strict=True))
        before, after, reach = series.values[rows].mean(), mean[steps].mean(), half[steps].mean()
    else:
        before, after, reach = series.values[-1], mean[-1], half[-1]
    share = float(after / before - 1.0) if outlook.positive else None
    seasons = math.ceil(int(ahead[-1]) / season) if pairs else 0
    return ForecastChange(seasons, len(mean), float(before), float(after), float(reach), share)


def _season_before(places: Array, season: int, ahead: Steps) -> list[tuple[int, int]]:
    """Return (step to come, row) where the row lies whole seasons before the step; as few seasons as can be."""
    back = season * math.ceil(int(ahead[-1]) / season)
    rows = {round(place): row for row, place in enumerate(places)}
    wanted = [(step, round(places[-1]) + int(steps) - back) for step, steps in enumerate(ahead)]
    return [(step, rows[place]) for step, place in wanted if place in rows]


def find_surprise(named: Named, model: SeriesModel) -> Surprise:
    """Leave out every value in turn: e_i = a_i / P_ii with the deviation P_ii^-1/2, where P = A^-1 and a = P y.

    The heaviest member alone, on its scale (Rasmussen and Williams, section 5.4.2).
    """
    member = model.heaviest
    weights, diagonal = member.posterior.precision()
    deviations = weights / np.sqrt(diagonal)
    place = int(np.argmax(np.abs(deviations)))
    value = named.series.values[place]
    scaled = member.scale.forward(named.series.values[[place]]) - member.size * weights[place] / diagonal[place]
    return Surprise(place, float(value), float(member.scale.backward(scaled)[0]), float(deviations[place]))


def choose_unusual(findings: Sequence[Finding], most: int) -> list[int]:
    """Return the places of the most unusual: in turn by the change that is foreseen, and by past surprises."""
    by_change = sorted(range(len(findings)), key=lambda i: -findings[i].change.strength)
    by_surprise = sorted(range(len(findings)), key=lambda i: -abs(findings[i].surprise.deviations))
    turns = [place for pair in zip(by_change, by_surprise, strict=True) for place in pair]
    return list(dict.fromkeys(turns))[:most]


def tabulate(findings: Sequence[Finding], outlooks: Sequence[Outlook]) -> pd.DataFrame:
    """Return a row of findings for each series, in their order; a share is missing where values are not all above 0."""
    rows = []
    for finding, outlook in zip(findings, outlooks, strict=True):
        last, when = outlook.ahead.iloc[-1], outlook.times[finding.surprise.place]
        rows.append({
            "unique_id": finding.name, "values": len(outlook.times), "ds": outlook.ahead.index[-1],
            "mean": last["mean"], "lower_95": last["lower_95"], "upper_95": last["upper_95"],
            "change": finding.change.after - finding.change.before, "change_share": finding.change.share,
            "times_uncertainty": finding.change.strength, "largest_surprise": when,
            "surprise_deviations": finding.surprise.deviations, "unusual": finding.unusual,
        })  # fmt: skip
    return pd.DataFrame(rows)
