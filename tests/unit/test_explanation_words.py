"""What an explanation says fits what the model does: interactions, small components, and what lies beyond the data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import mercer
from mercer.explain.claims import Claim
from mercer.explain.components import Horizon, find_horizon, part_horizon
from mercer.explain.factors import drifts
from mercer.explain.gathering import gather
from mercer.explain.subject import subject_of
from mercer.explain.wording import Column, Vocabulary
from mercer.explain.words import say
from mercer.kernels import canonical, parse
from mercer.report.html import report_html
from mercer.report.view import View

pytestmark = pytest.mark.filterwarnings("ignore::mercer.MercerWarning")

RNG = np.random.default_rng(1)
TABLE = pd.DataFrame({"heat": RNG.uniform(0, 30, 60), "wind": RNG.uniform(0, 10, 60)})
WAVE = np.sin(TABLE["heat"] / 4)
NOISE = RNG.normal(0, 0.05, 60)
SMOOTH = "SE(heat, variance=fixed(1), lengthscale=fixed(7))"


def told(kernel: str, X: pd.DataFrame, y: np.ndarray | pd.Series, noise: float = 0.01) -> mercer.Explanation:
    target = pd.Series(np.asarray(y), name="energy")
    return mercer.GPRegressor(kernel, noise=noise, restarts=1, random_state=0).fit(X, target).explain()


# --------------------------------------------------------------------------------------------------------- interactions


@pytest.mark.parametrize(
    "idle",
    [
        "SE(wind, variance=fixed(1), lengthscale=fixed(900))",
        "M12(wind, variance=fixed(1), lengthscale=fixed(900))",
        "LIN(wind, variance=fixed(0.001), offset=fixed(-45))",
    ],
)
def test_an_idle_factor_makes_no_interaction(idle: str) -> None:
    explanation = told(f"{SMOOTH} * {idle}", TABLE, WAVE + NOISE)
    assert explanation.interactions == ("Every input acts by itself: their effects add up.",)
    (component,) = explanation.components
    assert component.title == "Smooth variation in heat over about 7.00"
    assert component.sentence.endswith("varying over a lengthscale of 7.00, hardly changing with wind.")


@pytest.mark.parametrize("strength", [0.0, 0.6])
def test_a_small_interaction_that_rows_can_show_is_not_denied(strength: float) -> None:
    """It is less than a hundredth of the variance, but a third of the noise, and there are 300 rows."""
    rng = np.random.default_rng(1)
    a, b = rng.uniform(-1, 1, (2, 300))
    y = 5 * a + b + strength * a * b + rng.normal(0, 0.3, 300)
    lines = " + ".join(f"LIN({name}, variance=fixed(1), offset=fixed(0))" for name in "ab")
    kernel = f"{lines} + SE(a, b, variance=fixed(0.1), lengthscale=fixed([2, 2]))"
    explanation = told(kernel, pd.DataFrame({"a": a, "b": b}), y, noise=0.09)
    assert ("acts by itself" in " ".join(explanation.interactions)) == (strength == 0.0)


def test_a_real_interaction_is_told() -> None:
    factor = "LIN(wind, variance=fixed(0.1), offset=fixed(0))"
    explanation = told(f"{SMOOTH} * {factor}", TABLE, WAVE * TABLE["wind"] / 5 + NOISE)
    assert explanation.interactions == ("The effects of heat and wind depend on each other.",)
    assert explanation.components[0].title == "Interaction of heat and wind"


def test_a_product_that_is_a_sum_is_told_as_one() -> None:
    """(5 + a)(5 + b) is 25 + 5 a + 5 b but for a small rest."""
    shops = pd.DataFrame({"shop": RNG.choice(["north", "south"], 60), "size": RNG.choice(["small", "large"], 60)})
    y = 2.0 * (shops["shop"] == "south") + 1.0 * (shops["size"] == "large") + NOISE
    nearly = "CAT({}, variance=fixed({}), correlation=fixed(0.99))"
    kernel = f"{nearly.format('shop', 100)} * {nearly.format('size', 1)}"
    explanation = told(kernel, shops, y)
    assert explanation.interactions == ("Every input acts by itself: their effects add up.",)
    assert explanation.components[0].sentence == "A level for each shop, plus a level for each size."


def test_a_single_column_of_categories_has_an_effect() -> None:
    shops = pd.DataFrame({"shop": np.resize(["north", "south", "east"], 60)})
    y = 2.0 * (shops["shop"] == "south") + NOISE
    model = mercer.GPRegressor("LIN", random_state=0, restarts=1).fit(shops, y.rename("sales"))
    explanation = model.explain()
    (effect,) = explanation.effects
    assert (effect.column, effect.direction, effect.highest_at) == ("shop", "differs", "south")
    assert effect.size == pytest.approx(2.0, abs=0.1)
    assert explanation.interactions == ()
    assert "sales by shop: south is 1.33 higher than the average (95 % band" in " ".join(str(explanation).split())
    assert "What each input does" in report_html(model.fitted_)


# ----------------------------------------------------------------------------------------------------- small components


@pytest.fixture(scope="module")
def uneven() -> mercer.GPRegressor:
    x = np.linspace(0, 10, 60)
    main = "SE(0, variance=fixed(1), lengthscale=fixed(2))"
    tiny = [f"SE(0, variance=fixed(1e-9), lengthscale=fixed({length}))" for length in (0.3, 0.5)]
    kernel = f"{tiny[0]} + {main} + {tiny[1]}"
    y = pd.Series(np.sin(x) + NOISE, name="load")
    return mercer.GPRegressor(kernel, noise=0.0025, restarts=1, random_state=0).fit(pd.DataFrame({"x": x}), y)


def test_components_too_small_to_matter_share_one_line(uneven: mercer.GPRegressor) -> None:
    explanation = uneven.explain()
    assert [component.minor for component in explanation.components] == [False, True, True]
    text = " ".join(explanation.to_text().split())
    assert "One component makes up load;" in text
    assert "And 2 components too small to matter within the data: smooth variation over about 0." in text
    assert text.count("A smooth function of x") == 1
    document = explanation.to_json()
    assert len(document["components"]) == 3
    assert all(len(component["mean"]) == 60 and component["sentence"] for component in document["components"])
    page = report_html(uneven.fitted_, explanation)
    assert page.count('<div class="component">') == 1
    assert "And 2 components too small to matter" in page


def test_no_line_ends_between_a_number_and_its_sign(uneven: mercer.GPRegressor) -> None:
    explanation = uneven.explain()
    starts = [line.split()[:1] for width in range(40, 90) for line in explanation.to_text(width).splitlines()]
    assert ["%"] not in starts


def test_where_all_is_small_nothing_is_hidden() -> None:
    x = pd.DataFrame({"x": np.linspace(0, 10, 60)})
    explanation = told("WN(x, variance=fixed(1e-6))", x, np.random.default_rng(2).normal(size=60), noise=1.0)
    assert [component.minor for component in explanation.components] == [False]
    assert explanation.minor_sentence == ""


def test_titles_in_an_explanation_are_distinct() -> None:
    x = pd.DataFrame({"x": np.linspace(0, 10, 60)})
    line = "LIN(x, variance=fixed(1), offset=fixed({}))"
    explanation = told(f"{line.format(2)} + {line.format(8)}", x, x["x"] + NOISE)
    titles = [component.title for component in explanation.components]
    assert len(set(titles)) == 2
    assert all(title.startswith("Linear trend (") for title in titles)


# ------------------------------------------------------------------------------------------------------ beyond the data


def walk(lengthscale: float, rows: int = 80) -> mercer.GPRegressor:
    x = pd.DataFrame({"day": np.arange(float(rows))})
    y = pd.Series(np.cumsum(np.random.default_rng(4).normal(size=rows)) + 0.3 * x["day"], name="price")
    kernel = f"M12(day, variance=fixed({lengthscale / 2}), lengthscale=fixed({lengthscale}))"
    return mercer.GPRegressor(kernel, noise=0.01, restarts=1, random_state=0).fit(x, y)


def test_a_random_walk_does_not_return_to_the_average() -> None:
    explanation = walk(2000.0).explain()
    assert "starts from the last value, not from the average" in explanation.extrapolation.sentence
    assert "than their average would" not in explanation.extrapolation.sentence
    assert explanation.components[0].title == "Random walk"
    assert "there is no average to return to" in explanation.components[0].continuation
    forgetful = walk(2.0).explain()
    assert "random walk" not in forgetful.extrapolation.sentence
    assert "returns to its average" in forgetful.components[0].continuation


def test_the_band_of_a_random_walk_is_drawn_without_the_constant_it_shares_with_the_level() -> None:
    view = View(walk(2000.0).fitted_)
    band = view.part(0, view.varying[0])
    inside = (view.sweep(view.varying[0]).at > 0) & (view.sweep(view.varying[0]).at < 79)
    assert band.reach[inside].max() < 2.0  # the standard deviation of one step is 1


def test_a_random_walk_that_another_factor_cuts_short_is_none() -> None:
    columns = [Column("x", None, 0.0, 10.0)]
    kernel = "M12(0, lengthscale=500) * SE(0, lengthscale={})"
    assert drifts(canonical(parse(kernel.format(50))), columns)
    assert not drifts(canonical(parse(kernel.format(2))), columns)


def test_a_trend_is_not_said_to_end_in_the_average() -> None:
    names = Vocabulary("flow", (Column("year", None, 1900.0, 2000.0),))
    known = [Horizon(30.0, returns=True), Horizon(30.0, returns=False), Horizon(0.0, returns=True, below=True)]
    returning, going, below = (say(Claim("horizon", "year", horizon), names) for horizon in known)
    assert returning.endswith("no more than their average would.")
    assert going.startswith("More than 30.0 above year 2000 the band is as wide")
    assert going.endswith("a prediction is little more than a hint.")
    assert "below year 1900" in below
    assert find_horizon(subject_of(walk(2000.0).fitted_), 0).returns is False


def test_less_than_a_step_is_nothing() -> None:
    subject = subject_of(walk(0.5).fitted_)
    assert part_horizon(subject, gather(subject)[0].members[0]) == 0.0


@pytest.mark.parametrize("symbol", ["M12", "SE"])
def test_a_constant_shared_with_the_level_does_not_make_a_component_unknown(symbol: str) -> None:
    x = np.linspace(0, 10, 40)
    kernel = f"{symbol}(0, variance=fixed(400), lengthscale=fixed(60))"
    model = mercer.GPRegressor(kernel, noise=1e-4, restarts=1, random_state=0).fit(x[:, None], 0.1 * x + 0.01 * x**2)
    subject = subject_of(model.fitted_)
    horizon = part_horizon(subject, gather(subject)[0].members[0])
    assert horizon is None or horizon > 10


def test_a_wave_is_known_again_after_a_gap_in_its_cycle() -> None:
    """Only half of each cycle was seen: beyond the data the other half is unknown, but not all that follows."""
    x = np.concatenate([np.linspace(0, 0.45, 12) + cycle for cycle in range(5)])
    y = np.sin(2 * np.pi * x)
    kernel = "PER(0, variance=fixed(1), period=fixed(1), lengthscale=fixed(0.15))"
    model = mercer.GPRegressor(kernel, noise=1e-4, restarts=1, random_state=0).fit(x[:, None], y)
    subject = subject_of(model.fitted_)
    horizon = part_horizon(subject, gather(subject)[0].members[0])
    assert horizon is None or horizon > 10
