"""Sentences that were seen and false, each on small data where the truth is known: rates, noise and effects."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import mercer
from mercer.explain.claims import Claim
from mercer.explain.components import Horizon, find_horizon, stays_wide
from mercer.explain.gathering import Curves, gather, share_out
from mercer.explain.jumps import find_jumps
from mercer.explain.subject import subject_of
from mercer.explain.wording import Column, Vocabulary, resolve
from mercer.explain.words import say
from mercer.learners.contract import Weights
from tests.unit.truth_models import COUNT, MONTHS, NOISE, TREND_AND_SEASON, averaged, fit, flat

pytestmark = pytest.mark.filterwarnings("ignore::mercer.MercerWarning")


# --------------------------------------------------------------------------------------------- rates and noise


def test_no_rate_where_errors_show_a_pattern() -> None:
    season = 5.0 * np.sin(2 * np.pi * COUNT / 12)
    explanation = fit("LIN", MONTHS, 0.5 * COUNT + season + 0.1 * NOISE).explain()
    assert any(not check.clear for check in explanation.checks)
    assert explanation.rate is None


def test_no_rate_where_a_season_follows_the_trend() -> None:
    """A period that is slightly off, seen at whole rows, goes through its cycle only once: that is no season."""
    kernel = "PER(0, period=fixed(11.9), lengthscale=fixed(0.1))"
    explanation = fit(kernel, MONTHS, 0.5 * COUNT + 0.3 * NOISE, noise=0.05).explain()
    assert explanation.rate is None


def test_a_clear_line_through_a_few_rows_is_not_called_noise() -> None:
    """A search on eight rows doubts what a regression shows: r = .97."""
    members = [120.0, 126.0, 137.0, 139.0, 150.0, 149.0, 160.0, 171.0]
    years = pd.DataFrame({"year": np.arange(8.0)})
    explanation = mercer.GPRegressor(mercer.GrammarSearch(), random_state=0).fit(years, members).explain()
    assert explanation.structure.found
    assert not {claim.kind for claim in explanation.claims} & {"nothing found yet", "noise alone"}


@pytest.mark.parametrize(("offset", "kind"), [(15.0, "slow change"), (-4000.0, "random walk")])
def test_a_line_whose_slope_wanders_is_no_random_walk(offset: float, kind: str) -> None:
    """LIN * M12 is a line within the data where its zero is near them; far from it, it is the M12 that is seen."""
    weeks = pd.DataFrame({"week": np.arange(30.0)})
    kernel = f"LIN(0, variance=1, offset=fixed({offset})) * M12(0, lengthscale=fixed(600))"
    model = mercer.GPRegressor(kernel, random_state=0).fit(weeks, 50.0 - np.arange(30.0) + np.tile([1.5, -1.5], 15))
    (component,) = gather(subject_of(model.fitted_))
    assert component.kind.name == kind


def test_only_doubts_that_there_are_are_given() -> None:
    for size in (0.25, 0.35, 0.45):
        explanation = fit("LIN", MONTHS, size * COUNT / 20.0 + NOISE).explain()
        for claim in (claim for claim in explanation.claims if claim.kind == "nothing found yet"):
            assert claim.value.doubts
            assert "cut short" not in claim.value.doubts
            assert "the search was cut short" not in explanation.structure.sentence


def test_columns_written_to_some_digits_show_no_tiny_periods() -> None:
    """Numbers to four digits lie on a grid of 0.0001, on which no row repeats another: of noise nothing is found."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(np.round(rng.normal(size=(120, 2)), 4), columns=["a", "b"])
    search = mercer.GrammarSearch(bases=("SE", "PER"), max_depth=1)
    model = mercer.GPRegressor(search, random_state=0).fit(rows, rng.normal(size=120))
    found = [leaf for c in model.candidates_ for leaf in c.expression.leaves() if leaf.symbol == "PER"]
    periods = [leaf.parameter("period").values[0] for leaf in found if leaf.parameter("period").values]
    assert periods
    assert min(periods) > 0.1
    assert not model.explain().structure.found


def test_a_weekly_pattern_beside_another_input_does_not_depend_on_it() -> None:
    """Two years of days: between a few places along them a week cannot be seen."""
    rng = np.random.default_rng(2)
    days, promo = pd.date_range("2022-01-01", periods=500), (rng.random(500) < 0.3).astype(float)
    sales = 50.0 * (np.arange(500) % 7 < 2) + 40.0 * promo + rng.normal(0.0, 8.0, 500)
    kernel = "PER(date, period=fixed(7)) + SE(promo)"
    rows = pd.DataFrame({"date": days, "promo": promo})
    model = mercer.GPRegressor(kernel, random_state=0, restarts=1).fit(rows, sales)
    assert "depends on others" not in {effect.direction for effect in model.explain().effects}


def test_what_is_somewhat_better_than_noise_is_not_called_noise() -> None:
    """Between clear structure and none there is a doubt, and it is said."""
    kinds = set()
    for size in (0.0, 0.25, 0.35, 0.45, 0.6, 3.0):
        explanation = fit("LIN", MONTHS, size * COUNT / 20.0 + NOISE).explain()
        said = {claim.kind for claim in explanation.claims} & {"components", "nothing found yet", "noise alone"}
        kinds |= said
        if explanation.structure.gain > 0 and not explanation.structure.found:
            assert said == {"nothing found yet"}
    assert kinds == {"nothing found yet", "components"}
    many = pd.DataFrame({"x": np.arange(400.0)})
    claims = fit("LIN", many, np.random.default_rng(0).normal(size=400)).explain().claims
    assert "noise alone" in {claim.kind for claim in claims}


def test_noise_is_no_more_than_the_data_vary() -> None:
    explanation = fit("SE(0, lengthscale=fixed(5))", MONTHS, NOISE, noise=10.0).explain()
    assert explanation.noise_share <= 1.0
    assert explanation.noise_std**2 == pytest.approx(explanation.noise_share * np.var(NOISE), rel=1e-6)


def test_what_fades_before_the_next_row_is_noise() -> None:
    """M12 over a fifth of a step was short-lived variation, and noise was a tenth of what it is."""
    season = 4.0 * np.sin(2 * np.pi * COUNT / 12) + NOISE
    explanation = fit("PER(0, period=fixed(12)) + M12(0, lengthscale=fixed(0.3))", MONTHS, season, noise=1e-5).explain()
    assert explanation.structure.found
    assert explanation.noise_std == pytest.approx(float(NOISE.std()), rel=0.2)
    assert "One component makes up sales" in explanation.structure.sentence
    assert "noise from row to row" not in explanation.minor_sentence
    (quick,) = [each for each in explanation.components if each.noise]
    assert quick.minor
    weights = Weights((0.6, 0.4), (0.6, 0.4), (1.0, 1.0), None)
    kernels = ["CPER(0, period=fixed(12)) + M12(0, lengthscale=fixed(0.3))", "CPER(0, period=fixed(12))"]
    assert [each.kind.name for each in gather(subject_of(averaged(kernels, weights, season).fitted_))[:1]] == ["season"]
    text = flat(averaged(kernels, weights, season))
    assert "variation" not in text.split("beyond")[0]


def test_noise_that_looks_like_what_changes_from_row_to_row_is_not_known() -> None:
    """So few rows do not tell a rough curve over about a step from noise."""
    season = 4.0 * np.sin(2 * np.pi * COUNT / 12) + NOISE
    text = "PER(0, period=fixed(12)) + M12(0, variance=fixed(0.8), lengthscale=fixed(0.9))"
    explanation = fit(text, MONTHS, season, noise=0.2).explain()
    assert "cannot be told" in explanation.structure.sentence
    assert not any(claim.kind in ("noise", "unexplained") for claim in explanation.claims)


def test_noise_that_kernels_do_not_agree_about_is_not_known() -> None:
    """Three quarters of the weight took most of the noise for a rough curve: half of it was said, as if known."""
    rough, smooth = "M12(0, lengthscale=fixed(2.9))", "SE(0, lengthscale=fixed(8))"
    y = 1.2 * np.sin(COUNT / 8.0) + 0.7 * NOISE
    for weight, known in ((0.7, False), (0.2, True)):
        weights = Weights((weight, 1.0 - weight), (weight, 1.0 - weight), (1.0, 1.0), None)
        claims = averaged([rough, smooth], weights, y, noises=(0.05, 0.5)).explain().claims
        assert any(claim.kind in ("noise", "unexplained") for claim in claims) == known


def test_a_band_that_is_too_narrow_does_not_say_what_the_noise_is() -> None:
    """A fit that was stopped at once has any number for its noise."""
    model = fit("SE(0, variance=fixed(4), lengthscale=fixed(12))", MONTHS, 2.0 * np.sin(COUNT / 9) + NOISE, noise=0.09)
    assert model.explain().noise_std == pytest.approx(float(NOISE.std()), rel=0.25)


def test_few_rows_are_not_called_noise() -> None:
    assert "noise alone" not in {claim.kind for claim in fit("LIN", MONTHS, NOISE).explain().claims}


def test_a_season_near_one_of_the_calendar_has_its_period() -> None:
    month = Column("month", "months", low=0.0, high=71.0)
    assert month.by_calendar(11.9) == 12.0
    assert month.by_calendar(11.0) == 11.0
    assert replace(month, high=2000.0).by_calendar(11.9) == 11.9


def test_constants_are_no_causes() -> None:
    X = pd.DataFrame({"Datum": np.arange(30.0), "Größe": 7.5})
    explanation = fit("SE", X, np.sin(X["Datum"] / 4.0)).explain()
    assert explanation.headline == "sales explained by Datum, from 30 rows"


def test_shares_add_up_where_components_cancel() -> None:
    """71 + 44 + 1.9 = 117 %: two curves that lean against each other have more variance than their sum."""
    one, noise = np.linspace(-3.0, 3.0, 72), 0.05
    shares = share_out([one, -0.6 * one + np.sin(COUNT)], 0.4 * one + np.sin(COUNT), noise)
    assert sum(shares) + noise == pytest.approx(1.0)
    assert min(shares) >= 0.0


def test_few_rows_are_said_to_see_little() -> None:
    rows, many = MONTHS.iloc[:24], 600
    days = pd.DataFrame({"day": pd.date_range("2010-01-01", periods=many, freq="D")})
    y = np.random.default_rng(1).normal(size=many)
    for X, told in ((rows, True), (days, False)):
        checks = fit("LIN", X, 0.1 * np.arange(len(X)) + y[: len(X)]).explain().checks
        text = " ".join(check.sentence for check in checks)
        assert ("as far as so few rows can tell" in text) == told


def test_waves_of_near_periods_are_one_that_changes() -> None:
    at = np.arange(0.0, 150.0, 0.5)
    noise = 0.5 * np.random.default_rng(3).standard_normal(len(at))
    slowly, often = (3.0 * np.cos(2 * np.pi * at / 17) * np.cos(2 * np.pi * at / beat + 0.4) for beat in (220, 50))
    x = pd.DataFrame({"x": at})
    kernel = "PER(0, period={}, lengthscale=3) + PER(0, period={}, lengthscale=3)"
    one = fit(kernel.format(15.8, 18.4), x, slowly + noise)
    (season,) = one.explain().seasons
    assert season.between == pytest.approx((15.8, 18.4), abs=0.2)
    assert season.between[0] < season.period < season.between[1]
    drawn = slowly[at > at.max() - 17]
    assert season.low < np.ptp(drawn) < season.high
    assert "Pattern with a period between 15.8 and 18.4, which changes as it goes" in flat(one)
    assert "cannot be told from one in between" in one.explain().components[0].sentence
    two = fit(kernel.format(12.7, 25.8), x, often + noise).explain()  # seen to swell and fade six times
    assert [round(each.period) for each in two.seasons] in ([13, 26], [26, 13])
    assert {each.between for each in two.seasons} == {None}


def test_a_season_that_drifts_is_no_random_walk() -> None:
    wave = np.cumsum(0.15 * NOISE) + 3.0
    text = flat(
        fit("PER(0, period=fixed(12)) * M12(0, lengthscale=fixed(400))", MONTHS, wave * np.sin(COUNT * np.pi / 6))
    )
    assert "whose shape drifts like a random walk" in text
    assert "a forecast starts from the last value" not in text


def test_places_of_forecasts_differ() -> None:
    at = np.arange(0.0, 300.0, 0.5)
    model = fit("SE(0, lengthscale=fixed(40))", pd.DataFrame({"x": at}), np.sin(at / 40))
    (following,) = (claim.value for claim in model.explain().claims if claim.kind == "next values")
    assert [each.at for each in following] == ["300", "300.5", "301"]


def test_what_a_kernel_on_all_inputs_has_over_is_no_interaction() -> None:
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.uniform(0, 1, (120, 2)), columns=["heat", "feed"])
    X["site"] = rng.choice(["north", "south", "west"], 120)
    sites = X["site"].map({"north": 0.0, "south": 0.5, "west": 1.0})
    y = np.sin(6 * X["heat"]) + 2.0 * X["feed"] + sites + rng.normal(0, 0.8, 120)
    kernel = "SE(heat, feed, lengthscale=fixed([0.2, 0.3])) * CAT(site, correlation=fixed(0.7))"
    assert "interaction" not in {claim.kind for claim in fit(kernel, X, y).explain().claims}
    joined = fit(kernel, X, y + 8.0 * (X["heat"] - 0.5) * (X["feed"] - 0.5)).explain()
    (claim,) = (claim for claim in joined.claims if claim.kind == "interaction")
    assert claim.value == ("heat", "feed")


def test_a_band_that_is_wide_in_places_before_it_stays_so_is_said_to_be() -> None:
    vocabulary = Vocabulary("sales", (Column("x", low=0.0, high=306.0),))
    claim = Claim("horizon", "x", Horizon(28.5, returns=False, first=21.5))
    assert say(claim, vocabulary).startswith("More than 28.5 above x 306 the band is as wide")
    assert say(claim, vocabulary).endswith("In places it is so from 21.5 on.")


@pytest.mark.parametrize("kernel", ["SE", "M12", "LIN + SE"])
def test_a_jump_of_the_level_is_told_and_no_trend(kernel: str) -> None:
    at, noise = np.arange(150.0), np.random.default_rng(0).standard_normal(150)
    weeks = pd.DataFrame({"week": pd.date_range("2020-01-06", periods=150, freq="7D")})
    explanation = fit(kernel, weeks, np.where(at >= 88, 8.0, 0.0) + noise).explain()
    (jump,) = (claim.value for claim in explanation.claims if claim.kind == "jump")
    assert jump.at == pytest.approx(88.0)
    assert jump.low < 8.0 < jump.high
    asked = {answer.question: answer.sentence for answer in explanation.answers}
    assert asked["change"].startswith("The level of sales jumps up by ")
    assert "at 2021-09-13 (95 % between" in asked["change"]
    assert "trend" not in asked
    assert explanation.unusual.rows == ()


def test_the_height_of_a_season_is_known_no_better_than_a_regression_knows_it() -> None:
    """A lengthscale that rules overtones out, as if it were known, made the interval too narrow."""
    x, rng = np.arange(96.0), np.random.default_rng(5)
    wave = np.sin(2 * np.pi * x / 12) + 0.25 * np.sin(4 * np.pi * x / 12 + 1.0)
    y = wave + 0.5 * rng.normal(size=96)
    (season,) = fit("PER(0, period=fixed(12), lengthscale=fixed(20))", pd.DataFrame({"month": x}), y).explain().seasons
    waves = np.column_stack([f(2 * np.pi * k * x / 12) for k in (1, 2, 3) for f in (np.cos, np.sin)] + [np.ones(96)])
    fitted = waves @ np.linalg.lstsq(waves, y, rcond=None)[0]
    top, bottom = (int(pick(fitted[-12:])) - 12 for pick in (np.argmax, np.argmin))
    known = np.linalg.inv(waves.T @ waves)
    away = waves[top] - waves[bottom]
    least = 2 * 1.96 * np.std(y - fitted) * np.sqrt(away @ known @ away)
    assert season.high - season.low > 0.8 * least
    assert season.low < np.ptp(wave[-12:]) < season.high


def test_a_season_that_changes_as_it_goes_has_no_single_period() -> None:
    """It was said to have the period of its kernel, 23.3 hours of a day that wanders."""
    x = np.arange(160.0)
    y = np.sin(2 * np.pi * x / 11 + np.sin(x / 18)) + 0.1 * np.random.default_rng(2).normal(size=160)
    wandering = "SE(0, lengthscale=fixed({})) * PER(0, period=fixed(11), lengthscale=fixed(2))"
    (season,) = fit(wandering.format(20), pd.DataFrame({"x": x}), y).explain().seasons
    wander = 1.96 / (2 * np.pi * 20.0)
    assert season.between == pytest.approx((1 / (1 / 11 + wander), 1 / (1 / 11 - wander)), rel=1e-3)
    (steady,) = fit(wandering.format(500), pd.DataFrame({"x": x}), np.sin(2 * np.pi * x / 11)).explain().seasons
    assert steady.between is None


def test_a_band_that_a_cycle_narrows_again_is_not_called_wide_from_there_on() -> None:
    """Half of the places were enough, and forecasts beyond the horizon had bands that were narrower."""
    assert stays_wide(np.array([True] * 9 + [False] + [True] * 10))
    assert not stays_wide(np.array([True, True, False] * 10))


def test_few_rows_left_do_not_tell_the_noise() -> None:
    """A rough curve through all rows but a few said a third of the noise, as if that were known."""
    x = np.arange(30.0)
    explanation = fit(
        "M12(0, lengthscale=fixed(6))", pd.DataFrame({"x": x}), np.sin(x / 5) + 0.3 * NOISE[:30]
    ).explain()
    assert any(claim.kind == "noise not known" for claim in explanation.claims)


def test_walks_outliers_bends_and_seasons_are_no_jumps() -> None:
    rng, at = np.random.default_rng(1), np.arange(150.0)
    x, noise = pd.DataFrame({"x": at}), rng.standard_normal(150)
    curves = [np.cumsum(noise), noise + 12.0 * (at == 70), noise + 9.0 * np.isin(at, (70, 71)),
              noise + 0.2 * np.maximum(at - 80, 0.0), noise + 4.0 * np.sin(at / 3)]  # fmt: skip
    for y in curves:
        for kernel in ("M12", "LIN + PER"):
            assert find_jumps(Curves(subject_of(fit(kernel, x, y).fitted_))) == []


def test_a_wave_that_follows_a_slow_curve_is_no_season() -> None:
    rng = np.random.default_rng(11)
    quarters = pd.DataFrame({"quarter": pd.date_range("1990-01-01", periods=120, freq="QS")})
    walk = 200.0 + np.cumsum(np.cumsum(0.15 * rng.standard_normal(120))) + 2.0 * rng.standard_normal(120)
    kernel = "PER(0, period=fixed(11.96), lengthscale=fixed(0.17))"
    explanation = fit(kernel, quarters, walk).explain()
    assert explanation.seasons == ()
    assert "with which it does not repeat" in explanation.components[0].sentence
    yearly = fit(kernel, quarters, 8.0 * np.sin(np.arange(120) * np.pi / 2) + rng.standard_normal(120)).explain()
    assert len(yearly.seasons) == 1


def test_effects_are_one_component_however_kernels_write_them() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(0, 1, (100, 2)), columns=["heat", "feed"])
    y = 2.0 * X["heat"] - X["feed"] + rng.normal(0, 0.1, 100)
    kernels = ["SE(heat, feed)", "SE(heat) + SE(feed)", "SE(heat)"]
    weights = Weights((0.6, 0.3, 0.1), (0.6, 0.3, 0.1), (1.0, 1.0, 1.0), None)
    found = gather(subject_of(averaged(kernels, weights, y.to_numpy(), X).fitted_))
    names = {each.kind.columns: len(each.members) for each in found}
    assert names == {("heat", "feed"): 2, ("heat",): 1}  # the last kernel knows nothing of feed


def test_the_order_of_inputs_is_not_that_of_their_ranges() -> None:
    claim = Claim("what matters most", "sales", (("heat", 62.3), ("feed", 83.6)))
    text = say(claim, Vocabulary("sales", (Column("heat"), Column("feed"))))
    assert text == "Differences in sales go most with heat, then with feed."


def test_rounding_is_written_as_zero() -> None:
    assert resolve(-1.2e-18, 15.3) == "0"
    assert resolve(0.002, 15.3) == "0.00200"


def test_from_the_horizon_on_bands_stay_wide() -> None:
    model = fit("SE(0, variance=fixed(20), lengthscale=fixed(6))", MONTHS, 3.0 * np.sin(COUNT / 6) + 0.1 * NOISE)
    subject = subject_of(model.fitted_)
    horizon = find_horizon(subject, 0)
    assert horizon.distance is not None
    steps = np.arange(1.0, 200.0)
    rows = subject.rows_along(0, COUNT.max() + steps)
    wide = np.sqrt(subject.mixture.predict(rows, include_noise=True).variance) >= np.std(subject.data.y)
    assert wide[steps >= horizon.distance].all()
    assert not wide[steps < horizon.distance].any()


def test_few_rows_do_not_deny_that_one_stands_out() -> None:
    odd = TREND_AND_SEASON.copy()
    odd[30] += 1.6
    unusual = fit("LIN + PER(0, period=fixed(12))", MONTHS, odd).explain().unusual
    assert unusual is not None
    assert unusual.doubtful is not None
    assert unusual.doubtful.at == "2012-07"
    assert not unusual.rows
    claim = Claim("unusual rows", "sales", replace(unusual, column="x"))
    text = say(claim, Vocabulary("sales", (Column("x", low=0.0, high=71.0),)))
    assert "clearly stands out" in text
    assert "nearest to it: x 2012-07 (" in text
    few = fit("M12(0, lengthscale=fixed(6))", MONTHS[:20], odd[:20], noise=1e-4).explain().unusual
    assert few is None or not few.enough


def test_seasons_of_near_periods_in_one_kernel_are_one_of_the_calendar_that_changes() -> None:
    """12.27 and 11.66 months were "yearly, with a period of 12.3 months"."""
    at = np.arange(240.0)
    X = pd.DataFrame({"month": pd.date_range("1990-01-01", periods=240, freq="MS")})
    y = np.sin(2 * np.pi * at / 12.4) + np.sin(2 * np.pi * at / 11.6) + 0.1 * np.random.default_rng(0).normal(size=240)
    kernels = ["CPER(0, period=fixed(12.4)) + CPER(0, period=fixed(11.6))", "CPER(0, period=fixed(12.4))"]
    model = averaged(kernels, Weights((0.9, 0.1), (0.9, 0.1), (1.0, 1.0), None), y, X)
    (season,) = model.explain().seasons
    assert season.period == 12.0
    assert season.between == pytest.approx((11.6, 12.4))
    assert "periods of 11.6 months to 12.4 months cannot be told" in flat(model)


def test_what_adds_up_is_not_said_to_depend_on_others() -> None:
    """A kernel on all inputs joined nothing, and an input with little effect in the middle was said to depend."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.uniform(-1, 1, (120, 2)), columns=["heat", "feed"])
    y = 3.0 * X["heat"] + np.where(X["feed"].abs() < 0.8, 0.0, np.sign(X["feed"])) + 0.3 * rng.normal(size=120)
    weights = Weights((0.7, 0.3), (0.7, 0.3), (1.0, 1.0), None)
    known = averaged(["LIN(heat) * LIN(feed)", "SE(heat) + SE(feed)"], weights, y.to_numpy(), X).explain()
    joined = [
        claim for claim in known.claims if claim.kind == "effect" and claim.value.direction == "depends on others"
    ]
    assert all(claim.certainty < 0.99 for claim in joined)
    added = fit("SE(heat) + SE(feed)", X, y).explain()
    assert "depends on others" not in {effect.direction for effect in added.effects}


def test_the_size_of_an_effect_that_is_hardly_known_has_an_interval() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(0, 1, (60, 2)), columns=["heat", "feed"])
    y = 2.0 * X["heat"] + X["feed"] + rng.normal(0, 0.6, 60)
    model = fit("LIN(heat) + LIN(feed)", X, y)
    effects = {effect.column: effect for effect in model.explain().effects}
    for name, true in (("heat", 2.0), ("feed", 1.0)):
        assert effects[name].low < true < effects[name].high
    assert "(95 % between" in effects["heat"].sentence
    sure = fit("LIN(heat) + LIN(feed)", X, 2.0 * X["heat"] + X["feed"] + rng.normal(0, 0.05, 60)).explain().effects
    assert all("95 %" not in effect.sentence for effect in sure)


def test_of_noise_no_pattern_is_said_to_go_on() -> None:
    explanation = fit("SE(0, variance=fixed(0.05), lengthscale=fixed(20))", MONTHS, NOISE).explain()
    assert not explanation.structure.found
    assert explanation.extrapolation is not None
    assert explanation.extrapolation.sentence == ""
    assert "horizon" not in {claim.kind for claim in explanation.claims}


def test_effects_of_kernels_that_differ_in_small_inputs_are_one_component() -> None:
    """ "What 4 inputs do by themselves" stood beside the same of 3 and of 5, each of some of the kernels."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(0, 1, (80, 3)), columns=["heat", "feed", "load"])
    y = 2.0 * X["heat"] - X["feed"] + 0.4 * X["load"] + rng.normal(0, 0.1, 80)
    kernels = ["LIN(heat, feed)", "LIN(heat, feed, load)"]
    found = gather(subject_of(averaged(kernels, Weights((0.7, 0.3), (0.7, 0.3), (1.0, 1.0), None), y, X).fitted_))
    assert [each.kind.columns for each in found] == [("heat", "feed")]
    assert found[0].certainty == pytest.approx(1.0)


def test_that_an_input_hardly_matters_needs_rows_that_would_show_a_curve() -> None:
    """A wave of 7 % of the variance in 95 rows was denied, as a line of 5 % would have been seen."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.uniform(0, 1, (400, 2)), columns=["heat", "feed"])
    y = 2.0 * X["heat"] + rng.normal(0, 0.5, 400)
    said = [fit("LIN(heat)", X[:rows], y[:rows]).explain().effects[-1] for rows in (200, 400)]
    assert [each.direction for each in said] == ["not in the model", "hardly matters"]


def test_that_nothing_is_left_over_needs_rows_that_would_show_a_pattern_of_any_shape() -> None:
    """7 % of a walk was left over of 205 rows with 38 % noise, and a line of 5 % would have been seen."""
    x = np.arange(600.0)
    for seed in range(3):
        y = x / 300.0 + np.random.default_rng(seed).normal(0, 0.55, 600)  # 150 rows would show a line, 300 a curve
        few, many = (fit("LIN", pd.DataFrame({"x": x[::step]}), y[::step]).explain() for step in (3, 1))
        assert "nothing left over" not in {claim.kind for claim in few.claims}
        if all(check.clear for check in many.checks):
            assert "nothing left over" in {claim.kind for claim in many.claims}
        if all(check.clear for check in few.checks):
            assert "too few rows for them to see what is small" in few.residual_sentence


def test_a_regime_of_few_rows_is_no_noise() -> None:
    """Where another regime holds a summand has no variance, and rows do not correlate there: that says nothing."""
    x = np.arange(300.0)
    rows = pd.DataFrame({"x": x})
    y = np.where(x < 30, 8.0 * np.sin(x / 5.0), 0.05 * x) + np.random.default_rng(0).normal(0.0, 0.3, 300)
    kernel = "CP(SE(0, lengthscale=fixed(5)), LIN, on=0, location=fixed(29.5), width=fixed(0.1))"
    subject = subject_of(mercer.GPRegressor(kernel, restarts=1, random_state=0).fit(rows, y).fitted_)
    assert not any(subject.is_noise(part) for each in subject.kernels for part in each.parts)
