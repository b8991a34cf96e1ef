"""Sentences that were seen and false, each on small data where the truth is known: trends, periods and shapes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import mercer
from mercer.explain.answers import find_seasons
from mercer.explain.components import find_horizon
from mercer.explain.gathering import Curves, gather
from mercer.explain.subject import subject_of
from mercer.explain.wording import Column
from tests.unit.truth_models import COUNT, MONTHS, NOISE, fit, flat

pytestmark = pytest.mark.filterwarnings("ignore::mercer.MercerWarning")


# ------------------------------------------------------------------------------------------------ trends and rates


def test_a_trend_is_not_denied_beside_a_clear_rise() -> None:
    y = 0.05 * COUNT + 0.3 * NOISE
    search = mercer.GrammarSearch(bases=("SE", "LIN"), max_depth=1, restarts=1)
    model = mercer.GPRegressor(search, random_state=0).fit(MONTHS, pd.Series(y, name="sales"))
    explanation = model.explain()
    assert explanation.rate.clear
    assert explanation.rate.low < 0.05 < explanation.rate.high
    assert not any(absence.what == "trend" for absence in explanation.not_found)
    assert "Over the data sales rises by 0." in flat(model)
    assert "a year on average (95 % between" in flat(model)


@pytest.mark.parametrize("kernel", ["LIN", "SE", "LIN + PER(0, period=12)"])
def test_rates_hold_as_often_as_they_say(kernel: str) -> None:
    """A slope of 0.02 in noise: the 95 % interval holds it, whatever the kernel."""
    inside = 0
    for seed in range(12):
        noise = np.random.default_rng(seed).normal(size=72)
        rate = fit(kernel, MONTHS, 0.1 * COUNT + noise).explain().rate
        inside += rate is None or rate.low <= 0.1 <= rate.high
    assert inside >= 10


def test_a_season_is_told_by_the_calendar() -> None:
    y = 10.0 * np.cos(2 * np.pi * (COUNT - 6) / 12) + 0.05 * COUNT + NOISE  # July is at the top, January at the bottom
    explanation = fit("LIN + PER(0, period=fixed(12.02))", MONTHS, y).explain()
    (season,) = explanation.seasons
    assert (season.rhythm, season.top[0], season.bottom[0]) == ("yearly", "July", "January")
    assert season.low < 20.0 < season.high
    assert not season.growing
    sentence = next(answer.sentence for answer in explanation.answers if answer.question == "season")
    assert sentence.startswith("Yearly pattern: ")
    assert [answer.question for answer in explanation.answers] == ["trend", "season", "next", "certain", "unusual"]


def test_what_is_unusual_is_named_by_its_date() -> None:
    y = 0.5 * COUNT + 0.3 * NOISE
    y[40] += 5.0
    explanation = fit("LIN", MONTHS, y).explain()
    (row,) = explanation.unusual.rows
    assert (row.row, row.at) == (40, "2013-05")
    assert row.expected == pytest.approx(20.0, abs=1.0)
    assert "2013-05 (" in explanation.answers[-1].sentence
    calm = fit("LIN", MONTHS, 0.5 * COUNT + 0.3 * NOISE).explain()
    assert calm.unusual.rows == ()


# --------------------------------------------------------------------------------------------------------- periods


@pytest.mark.parametrize("times", [2, 3, 4])
def test_a_pattern_that_repeats_within_its_period_has_a_shorter_one(times: int) -> None:
    minutes = pd.DataFrame({"time": pd.date_range("2020-01-01", periods=150, freq="29min")})
    at = 29.0 * np.arange(150.0)
    y = np.sin(2 * np.pi * at / 377) + 0.1 * np.random.default_rng(0).normal(size=150)
    kernel = f"PER(0, variance=fixed(1), period=fixed({377 * times}), lengthscale=fixed({1.5 / times}))"
    (season,) = find_seasons(Curves(subject_of(fit(kernel, minutes, y, noise=0.01).fitted_)))
    assert season.value.period == pytest.approx(377, rel=0.01)


def test_a_season_that_may_be_chance_is_called_so() -> None:
    y = 5.0 * np.sin(2 * np.pi * COUNT / 12) + NOISE
    kernel = "PER(0, period=fixed(12)) + PER(0, variance=fixed(0.3), period=fixed(17.3), lengthscale=fixed(1))"
    explanation = fit(kernel, MONTHS, y).explain()
    seasons = {round(season.period, 1): season for season in explanation.seasons}
    assert seasons[12.0].p_value < 1e-6
    assert seasons[17.3].p_value >= 0.01
    (doubted,) = (each for each in explanation.components if each.p_value is not None and each.p_value >= 0.01)
    assert "It may be chance" in doubted.sentence
    assert explanation.structure.sentence.startswith("One component")


@pytest.mark.parametrize(("period", "is_season"), [(32.8, False), (24.0, True)])
def test_a_wave_that_the_data_show_seldom_is_no_season(period: float, is_season: bool) -> None:
    """2.2 times in the data, 12 months being the truth; three times is enough."""
    y = 3.0 * np.sin(2 * np.pi * COUNT / period) + 5.0 * np.sin(2 * np.pi * COUNT / 12) + NOISE
    kernel = f"PER(0, period=fixed(12)) + PER(0, period=fixed({period}), lengthscale=fixed(1))"
    found = [round(season.period, 1) for season in fit(kernel, MONTHS, y).explain().seasons]
    assert (period in found) == is_season


def test_a_curve_that_follows_a_season_is_said_to_repeat() -> None:
    """A smooth function fits any season; that it goes on in step is no coincidence. A walk has no such rhythm."""
    season = fit("SE(0, lengthscale=fixed(2.5))", MONTHS, 4.0 * np.sin(2 * np.pi * COUNT / 12) + NOISE)
    (claim,) = (claim for claim in season.explain().claims if claim.kind == "rhythm")
    assert claim.value.rhythm == "yearly"
    assert not any(absence.what == "period" for absence in season.explain().not_found)
    for seed in range(3):
        walk = np.cumsum(np.random.default_rng(seed).normal(size=72)) + 0.2 * NOISE
        assert not any(claim.kind == "rhythm" for claim in fit("M12", MONTHS, walk).explain().claims)


def test_a_curve_through_every_row_of_few_is_a_guess() -> None:
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"x": np.arange(20.0)})
    kernel = "PER(0, period=fixed(3.7), lengthscale=fixed(0.2)) + LIN + SE(0, lengthscale=fixed(9))"
    explanation = fit(kernel, X, rng.normal(size=20), noise=1e-6).explain()
    assert {claim.kind for claim in explanation.claims} & {"too few rows", "noise alone"}
    assert explanation.extrapolation is None or not explanation.structure.found


def test_a_rate_counts_the_line_within_a_season_that_grows() -> None:
    """LIN * PER has a line beside the season, as PER has a mean."""
    y = 0.5 * COUNT + (1.0 + 0.05 * COUNT) * 3.0 * np.sin(2 * np.pi * COUNT / 12) + 0.5 * NOISE
    rate = fit("LIN * PER(0, period=fixed(12))", MONTHS, y).explain().rate
    assert rate is not None
    assert rate.low < 0.5 < rate.high
    assert rate.high - rate.low < 0.2


def test_what_fades_within_its_period_is_no_season() -> None:
    kernel = "PER(0, variance=fixed(1), period=fixed(12), lengthscale=fixed(1)) * SE(0, lengthscale=fixed(5))"
    (component,) = gather(subject_of(fit(kernel, MONTHS, NOISE, noise=0.1).fitted_))
    assert component.kind.name == "variation"


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (1440.0, "minutes", "24.0 hours"), (377.0, "minutes", "6.28 hours"), (90.0, "minutes", "90.0 minutes"),
        (96.0, "hours", "4.00 days"), (12.0, "months", "12.0 months"), (7200.0, "seconds", "2.00 hours"),
    ],
)  # fmt: skip
def test_lengths_are_told_in_the_unit_that_suits_them(value: float, unit: str, words: str) -> None:
    assert Column("time", unit).length(value) == words


@pytest.mark.parametrize(
    ("period", "unit", "words"),
    [(12.0, "months", "yearly"), (365.0, "days", "yearly"), (7.0, "days", "weekly"), (24.0, "hours", "daily"),
     (1440.0, "minutes", "daily"), (11.0, "months", None), (12.0, None, None)],
)  # fmt: skip
def test_seasons_have_the_names_of_the_calendar(period: float, unit: str | None, words: str | None) -> None:
    assert Column("time", unit).rhythm(period) == words


# ---------------------------------------------------------------------------------------------------------- shapes


def test_a_jump_is_no_sine() -> None:
    y = np.where(COUNT % 24 < 12, 5.0, -5.0) + 0.1 * NOISE
    kernel = "PER(0, variance=fixed(1e6), period=fixed(24), lengthscale=fixed(2.5))"
    (component,) = fit(kernel, MONTHS, y, noise=0.01).explain().components
    assert "sinusoidal" not in component.sentence
    sine = fit(kernel, MONTHS, 5.0 * np.sin(2 * np.pi * COUNT / 24) + 0.1 * NOISE, noise=0.01).explain().components[0]
    assert "a nearly sinusoidal function" in sine.sentence.lower()


def test_a_jump_is_no_random_walk() -> None:
    y = np.where(COUNT < 40, 0.0, 9.0) + 0.1 * NOISE
    (component,) = (
        fit("M12(0, variance=fixed(200), lengthscale=fixed(400))", MONTHS, y, noise=0.01).explain().components
    )
    assert component.title == "Jump near 2013-05"
    assert component.sentence.startswith("A jump up by 8.")
    walk = np.cumsum(NOISE)
    (component,) = (
        fit("M12(0, variance=fixed(200), lengthscale=fixed(400))", MONTHS, walk, noise=0.01).explain().components
    )
    assert component.title == "Random walk"


def test_a_season_that_does_not_grow_is_not_said_to() -> None:
    y = 5.0 * np.sin(2 * np.pi * COUNT / 12) + 0.3 * NOISE
    kernel = "LIN(0, variance=fixed(0.001), offset=fixed(-150)) * PER(0, period=fixed(12), lengthscale=fixed(1))"
    (component,) = fit(kernel, MONTHS, y, noise=0.1).explain().components
    assert "growing" not in component.sentence
    assert "with almost constant amplitude" in component.sentence


def test_a_wave_longer_than_the_data_is_a_slow_curve() -> None:
    jump = np.where(COUNT < 40, 0.0, 9.0) + 0.1 * NOISE
    (component,) = fit("PER(0, period=fixed(90), lengthscale=fixed(2.5))", MONTHS, jump).explain().components
    assert component.title == "Slow change"
    assert component.sentence.startswith("A slow curve of month, like a part of a wave with period 90.0 months")


def test_a_part_that_stays_somewhere_is_not_said_to_play_no_part() -> None:
    jump = np.where(COUNT < 40, 0.0, 20.0) + 0.3 * NOISE
    kernel = "CP(C(variance=fixed(400)), C(variance=fixed(400)), location=fixed(39.5), width=fixed(0.5))"
    explanation = fit(kernel, MONTHS, jump, noise=0.1).explain()
    (ended,) = [component for component in explanation.components if "until about" in component.sentence]
    assert abs(ended.mean[-1]) > 1.0  # around its average over the data
    assert "It has ended before the end of the data; beyond it, it stays" in ended.continuation
    assert "its average over the data" in ended.continuation


def test_bands_beyond_are_judged_where_rows_would_be() -> None:
    """A period of one step: known at the months, and nothing is known between them."""
    kernel = "LIN(0) + PER(0, variance=fixed(400), period=fixed(1), lengthscale=fixed(0.2))"
    model = fit(kernel, MONTHS, COUNT + 0.3 * NOISE, noise=0.1)
    horizon = find_horizon(subject_of(model.fitted_), 0)
    assert horizon.distance is None or horizon.distance >= 1.0
    assert "Right after" not in flat(model)


def test_times_are_told_by_the_clock_of_the_file() -> None:
    times = [f"2024-05-01 {8 + minute // 60:02d}:{minute % 60:02d}:00+02:00" for minute in range(51, 51 + 60 * 3, 5)]
    model = fit("LIN", pd.DataFrame({"time": times}), np.arange(len(times)) + NOISE[: len(times)])
    assert model.explain().inputs[0].low == "2024-05-01 08:51"
