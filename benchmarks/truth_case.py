"""One explanation beside the truth: what `truth_checks.py` judges.

Nothing of Mercer's code is used: an explanation is the JSON document that a user gets.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype

from benchmarks.truth_data import Array, KnownSet, Season, Truth
from benchmarks.truth_kernels import Leaf, read_leaves

DAYS = {
    "seconds": 1 / 86400, "minutes": 1 / 1440, "hours": 1 / 24, "days": 1.0, "weeks": 7.0, "months": 30.4369,
    "quarters": 91.3106, "years": 365.2425,
}  # fmt: skip
PERIOD_TOLERANCE = 0.015  # relative; wider where the data cannot say it so closely
CYCLES_TOLERANCE = 0.2  # of a cycle over the whole range
HARMONICS = 6  # a season of 12 months may be said as one of 12 and one of 6, 4, 3, ...
SMALLEST = 0.05  # of the variance: an absence may be claimed below it
TRUE, FALSE, UNJUDGED = "true", "false", "not judged"
PLAIN, ABSENCE, INTERVAL, TEST, ITSELF = "plain", "absence", "interval", "test", "about itself"
CHANCE = "probability"


@dataclass(frozen=True)
class Verdict:
    """What was said, and whether it holds; `why` names the truth, or why it cannot be judged."""

    kind: str
    sort: str
    outcome: str
    why: str
    statement: str = ""
    level: float | None = None  # the probability with which it should hold

    @property
    def plain(self) -> bool:
        return self.sort in (PLAIN, ABSENCE)


@dataclass(frozen=True, eq=False)
class Case:
    """A data set with its truth, and what was said about it."""

    known: KnownSet
    record: dict[str, Any]

    @property
    def truth(self) -> Truth:
        return self.known.truth

    @property
    def explanation(self) -> dict[str, Any]:
        found: dict[str, Any] = self.record["explanation"]
        return found

    @cached_property
    def claims(self) -> list[dict[str, Any]]:
        return list(self.explanation.get("claims", ()) if self.known.classes else self.explanation["claims"])

    def sentence(self, place: int) -> str:
        texts = self.record.get("sentences") or ()
        return texts[place] if place < len(texts) else ""

    def of_kind(self, *kinds: str) -> list[dict[str, Any]]:
        return [claim for claim in self.claims if claim["kind"] in kinds]

    @cached_property
    def disclaimed(self) -> bool:
        """Whether what is listed is called a guess, or no better than noise."""
        return bool(self.of_kind("noise alone", "nothing found yet", "too few rows"))

    # --------------------------------------------------------------------------------------------------------- the data

    @cached_property
    def values(self) -> Array:
        return self.known.values

    @cached_property
    def spread(self) -> float:
        return float(self.values.std()) or 1.0

    @cached_property
    def noise(self) -> float:
        """The standard deviation of the noise, as far as it is known; else that of the values."""
        return self.truth.noise_std if self.truth.noise_std is not None else self.spread

    def error(self, numbers: float) -> float:
        """How well a mean can be known where so many numbers are fitted to the rows."""
        return self.noise * float(np.sqrt(numbers / max(1, self.truth.rows)))

    @cached_property
    def missed(self) -> float | None:
        """The share of the variance by which the mean that predicts is off the noise-free values at the rows."""
        seen = self.record.get("seen") or {}
        if not self.truth.signal or "mean" not in seen:
            return None
        off = np.array(seen["mean"]) - np.array(self.truth.signal)
        return float(off.var()) / self.spread**2

    @cached_property
    def left(self) -> float | None:
        """The share of the variance that is still in what is left over, though it is no noise.

        The covariance of what is left over with what was missed: a fit that is too close misses something too, but
        leaves none of it over.
        """
        seen = self.record.get("seen") or {}
        if not self.truth.signal or "mean" not in seen:
            return None
        mean = np.array(seen["mean"])
        over, missed = self.values - mean, np.array(self.truth.signal) - mean
        return max(0.0, float(np.mean((over - over.mean()) * (missed - missed.mean())))) / self.spread**2

    # ------------------------------------------------------------------------------------------------ columns and units

    @cached_property
    def encoded(self) -> tuple[str, ...]:
        return tuple(str(each["name"]) for each in self.explanation.get("inputs", ()))

    def table_name(self, encoded: str) -> str:
        """Return the column of the table: "site" of "site=north"."""
        names = set(self.known.frame.columns)
        return encoded if encoded in names else encoded.split("=")[0]

    @cached_property
    def unit(self) -> str | None:
        """The unit in which kernels say lengths on the column of a series."""
        for each in self.explanation.get("inputs", ()):
            if each["name"] == self.truth.column:
                return each["unit"]  # type: ignore[no-any-return]
        return None

    def in_true_unit(self, length: float, unit: str | None) -> float:
        """Return a length on the column of a series in the unit of the truth."""
        own = self.truth.unit
        return length if unit == own or unit is None or own is None else length * DAYS[unit] / DAYS[own]

    # ---------------------------------------------------------------------------------------------------------- kernels

    def leaves(self, text: str) -> list[Leaf]:
        return read_leaves(text, self.encoded)

    def columns_of(self, leaves: list[Leaf]) -> set[str]:
        return {self.table_name(column) for leaf in leaves for column in leaf.columns}

    @cached_property
    def by_position(self) -> dict[int, dict[str, Any]]:
        return {int(each["position"]): each for each in self.explanation.get("components", ())}

    def component(self, claim: dict[str, Any]) -> dict[str, Any] | None:
        places = claim["evidence"]["components"]
        return self.by_position.get(places[0]) if places else None

    def season_of(self, period: float) -> Season | None:
        """Return the season that a period names, itself or a harmonic of it."""
        for k in range(1, HARMONICS + 1):
            for season in self.truth.seasons:
                if (k == 1 or season.shapes > 1) and self.same_period(period, season, k):
                    return season
        return None

    @cached_property
    def says_unsteady(self) -> bool:
        """Whether a season that does not repeat is said to be one."""
        said = [self.in_true_unit(float(each["value"]["period"]), each["unit"]) for each in self.of_kind("season")]
        return any(season is not None and not season.repeats for season in map(self.season_of, said))

    def season_said(self, period: float, between: list[float] | None) -> Season | None:
        """Return the season that is named by a period, or by two that one which changes is said to be between."""
        if between is None:
            return self.season_of(period)
        low, high = between
        for season in self.truth.seasons:
            inside = low <= season.period <= high or any(self.same_period(end, season) for end in between)
            if inside and (season.drifts or season.grows):
                return season
        return None

    def said_between(self, claim: dict[str, Any]) -> list[float] | None:
        """Return the periods that a season is said to be between, in the unit of the truth."""
        between = claim["value"].get("between")
        unit = claim["unit"] or self.unit
        return None if between is None else [self.in_true_unit(float(each), unit) for each in between]

    def same_period(self, period: float, season: Season, k: int = 1) -> bool:
        """Whether a period is that of a season (or a harmonic), as closely as it can be known from the rows.

        The frequency of a sine of amplitude A in noise of standard deviation s has a standard error of
        sqrt(6) s / (pi A T sqrt(N)) over a time T (Bretthorst 1988). One that drifts is known to a part of a cycle.
        """
        span = max(self.truth.span, 1e-12)
        amplitude = max(np.sqrt(2.0 * season.share) * self.spread, 1e-12)
        error = np.sqrt(6.0) * self.noise / (np.pi * amplitude * span * np.sqrt(max(1, self.truth.rows)))
        near = max(PERIOD_TOLERANCE, 5.0 * error * season.period)
        if season.drifts or season.grows:
            near = max(near, CYCLES_TOLERANCE * season.period / span)
        return bool(abs(period * k / season.period - 1.0) <= near)


def positions(case: Case) -> Array:
    """Return the places of the rows of a series in the unit of the truth."""
    column = case.known.frame[case.truth.column]
    if is_numeric_dtype(column):
        return column.to_numpy(dtype=float)
    if not is_datetime64_any_dtype(column):  # as text, and complete
        return case.truth.first + case.truth.step * np.arange(len(column))
    days = (column - column.iloc[0]).dt.total_seconds().to_numpy() / 86400
    return case.truth.first + case.in_true_unit(1.0, "days") * days
