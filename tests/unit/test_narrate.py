"""The words of components, by rule."""

from __future__ import annotations

import re

import pytest

from mercer.explain.claims import Claim
from mercer.explain.components import ComponentFacts
from mercer.explain.explanation import Ending, name_bounds
from mercer.explain.factors import Joint
from mercer.explain.phrases import continuation, distinct, phrase, title
from mercer.explain.wording import Column, Vocabulary, number, p_value, percent, resolve, roughly
from mercer.explain.words import say
from mercer.fitting.problem import AtBound
from mercer.kernels import REGISTRY, Expression, canonical, components, parse

MONTH = Column("month", "months", 0.0, 143.0, lambda value: f"month {value:.0f}")
HEAT = Column("heat", None, 0.0, 30.0)
RAIN = Column("rain", None, 0.0, 100.0)
WIND = Column("wind", None, 0.0, 10.0)
DAY = Column("day", "days", 0.0, 400.0)
COLUMNS = (MONTH, HEAT, RAIN, WIND, DAY)


def sentence(term: Expression, columns: tuple[Column, ...], slope: float | None = None) -> str:
    return say(Claim("component", "sales", ComponentFacts(term, None, slope)), Vocabulary("sales", columns))


EXPECTED = {
    "SE(0, lengthscale=71) * PER(0, period=12, lengthscale=0.6) * LIN(0, offset=-10)": (
        "an approximately periodic function of month with period 12.0 months whose shape changes smoothly over about "
        "6 years (lengthscale 71.0 months), with amplitude growing linearly away from month -10"
    ),
    "CPER(0, period=12, lengthscale=0.6) * SE(0, lengthscale=900)": (
        "a periodic function of month with period 12.0 months whose shape hardly changes within the data "
        "(lengthscale 900 months)"
    ),
    "PER(0, period=400, lengthscale=0.6)": (
        "a slow curve of month, like a part of a wave with period 400 months, of which the data show only a part"
    ),
    "PER(0, period=12, lengthscale=3)": "a nearly sinusoidal function of month with period 12.0 months",
    "PER(0, 1, period=[12, 5])": (
        "a periodic function of month and heat with periods 12.0 months in month and 5.00 in heat"
    ),
    "PER(0, period=12) * PER(0, period=40)": (
        "a periodic function of month with period 12.0 months modulated by a periodic function of month with period "
        "40.0 months"
    ),
    "SE(0, lengthscale=8.12)": "a smooth function of month, varying over about 8 months (lengthscale 8.12 months)",
    "SE(1, lengthscale=400)": "a smooth function of heat, almost straight within the data (lengthscale 400)",
    "RQ(4, lengthscale=9, alpha=0.2)": (
        "a function of day, varying on many scales, typically about 9 days (lengthscale 9.00 days)"
    ),
    "M12(1, lengthscale=3)": "an erratic function of heat, its values forgotten over a lengthscale of 3.00",
    "M12(0, variance=58, lengthscale=196)": (
        "a function of month that wanders like a random walk, by about 0.768 in a month: where it is now is the best "
        "guess for where it goes"
    ),
    "M12(1, variance=8, lengthscale=3000)": (
        "a function of heat that wanders like a random walk, by about 0.399 over all the data: where it is now is the "
        "best guess for where it goes"
    ),
    "M12(0, lengthscale=60)": (
        "a function of month that wanders like a random walk, slowly drawn back over about 5 years (lengthscale 60.0 "
        "months)"
    ),
    "M12(0, lengthscale=900) * PER(0, period=12)": (
        "an approximately periodic function of month with period 12.0 months whose shape drifts like a random walk, by "
        "about 54 % over the data"
    ),
    "M12(0, lengthscale=9) * PER(0, period=12)": (
        "an approximately periodic function of month with period 12.0 months whose shape changes erratically, "
        "forgotten over about 9 months (lengthscale 9.00 months)"
    ),
    "M12(0, lengthscale=2000) * LIN(0, offset=-50) * LIN(0, offset=-90)": (
        "a quadratic function of month whose size drifts like a random walk, by about 37 % over the data"
    ),
    "M12(0, lengthscale=150) * LIN(0, offset=3)": "a linear function of month whose slope drifts like a random walk",
    "M12(0, lengthscale=900) * SE(0, lengthscale=5)": (
        "an erratic function of month, its values forgotten over about 5 months (lengthscale 5.00 months)"
    ),
    "M12(0, lengthscale=2000) * SE(0, lengthscale=900) * LIN(0, offset=3)": (
        "a linear function of month whose slope drifts like a random walk, by about 37 % over the data"
    ),
    "M12(0, lengthscale=2000) * SE(0, lengthscale=200) * LIN(0, offset=3)": (
        "a linear function of month whose slope drifts like a random walk, by about 37 % over the data, and changes "
        "smoothly over about 17 years (lengthscale 200 months)"
    ),
    "M12(0, lengthscale=9) * LIN(0, offset=-2000)": (
        "an erratic function of month, its values forgotten over about 9 months (lengthscale 9.00 months)"
    ),
    "M32(4, lengthscale=500)": (
        "a function of day whose slope wanders like a random walk: its last direction is the best guess"
    ),
    "M32(4, lengthscale=90)": "a moderately rough function of day, varying over about 3 months (lengthscale 90.0 days)",
    "M52(4, lengthscale=0.3)": "a fairly smooth function of day, varying over about 7 hours (lengthscale 0.300 days)",
    "LIN(0, offset=3)": "a linear function of month",
    "LIN(0, offset=3) * LIN(0, offset=9)": "a quadratic function of month",
    "LIN(0) * LIN(0) * LIN(0) * LIN(0)": "a polynomial of degree 4 in month",
    "LIN(0, offset=3) * SE(0, lengthscale=20)": (
        "a linear function of month whose slope changes smoothly over about 20 months (lengthscale 20.0 months)"
    ),
    "LIN(1, 2, 3, weights=[0.9, 0.05, 0.05])": "a linear function of heat, rain and wind, steepest in heat and rain",
    "PER(0, period=12) * LIN(0, offset=200)": (
        "a periodic function of month with period 12.0 months with amplitude shrinking linearly towards month 200"
    ),
    "PER(0, period=12) * LIN(0, offset=-2000)": (
        "a periodic function of month with period 12.0 months with almost constant amplitude"
    ),
    "PER(0, period=12) * LIN(0, offset=900)": (
        "a periodic function of month with period 12.0 months with almost constant amplitude"
    ),
    "PER(0, period=12) * LIN(0, offset=150) * LIN(0, offset=160)": (
        "a periodic function of month with period 12.0 months with amplitude shrinking quadratically with month"
    ),
    "LIN(0, offset=3) * LIN(0, offset=-2000)": "a linear function of month",
    "COS(0, frequency=0.08333333)": "a pure wave in month with period 12.0 months",
    "COS(0, frequency=-0.0001)": (
        "a slow curve of month, like a part of a wave with period 10,000 months, of which the data show only a part"
    ),
    "SM2(0, weights=[0.3, 0.7], frequency=[0.001, 0.0833333], bandwidth=[0.01, 0.001])": (
        "a mixture of 2 fading waves in month: one with period 12.0 months, fading over about 13 years (lengthscale "
        "159 months) (70 %); a smooth part varying over about 16 months (lengthscale 15.9 months) (30 %)"
    ),
    "WN(0, variance=4)": "uncorrelated noise, drawn anew for every value of month, of standard deviation 2.00",
    "C(variance=9)": "a constant, of standard deviation 3.00",
    "SE(0, 1, 2, 3, 4, lengthscale=[20, 8, 1000, 3, 3000])": (
        "a smooth function of 5 inputs, most sensitive to month (lengthscale 20.0 months), heat (lengthscale 8.00) and "
        "wind (lengthscale 3.00) and hardly depending on day and rain"
    ),
    "PER(0, period=12) * SE(1, lengthscale=3)": (
        "an interaction of month and heat: a periodic function of month with period 12.0 months, multiplied by a "
        "smooth function of heat, varying over a lengthscale of 3.00"
    ),
    "PER(0, period=12) * SE(1, lengthscale=3000)": (
        "a periodic function of month with period 12.0 months, hardly changing with heat"
    ),
    "SE(1, lengthscale=3) * LIN(2, offset=-500)": (
        "a smooth function of heat, varying over a lengthscale of 3.00, hardly changing with rain"
    ),
    "SE(1, lengthscale=3) * M12(2, lengthscale=9000)": (
        "a smooth function of heat, varying over a lengthscale of 3.00, hardly changing with rain"
    ),
    "SE(1, lengthscale=3) * M12(2, lengthscale=500)": (
        "an interaction of heat and rain: a function of rain that wanders like a random walk, multiplied by a smooth "
        "function of heat, varying over a lengthscale of 3.00"
    ),
    "LIN(1, offset=-500) * LIN(2, offset=-900)": "a linear function of heat, plus a linear function of rain",
    "PER(0) * SE(0) * LIN(0)": (
        "an approximately periodic function of month whose shape changes smoothly, with amplitude growing linearly "
        "with month"
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", EXPECTED)
def test_each_rule(text: str) -> None:
    assert phrase(canonical(parse(text)), COLUMNS) == EXPECTED[text]


@pytest.mark.parametrize("symbol", REGISTRY)
def test_every_base_kernel_has_words_alone_and_in_products(symbol: str) -> None:
    """Whatever the registry holds: on one column, on several, times anything, with values and without."""
    dims = "0" if REGISTRY[symbol].uses_inputs else ""
    several = "0, 1, 2, 3, 4" if dims and not REGISTRY[symbol].coded else dims
    kernels = [f"{symbol}({dims})", f"{symbol}({several})"]
    kernels += [f"{symbol}({dims}) * {other}({'1' if REGISTRY[other].uses_inputs else ''})" for other in REGISTRY]
    kernels += [f"{symbol}({dims}) * {other}({'0' if REGISTRY[other].uses_inputs else ''})" for other in REGISTRY]
    for kernel in kernels:
        for term in components(parse(kernel)):
            words = sentence(term, COLUMNS)
            assert words.endswith(".")
            assert words[0].isupper()
            beyond = [continuation(term, COLUMNS, horizon) for horizon in (3.0, None)]
            for told in (words, title(term, COLUMNS), *beyond):
                assert not re.search(r"\s\s|\s[,.]|None|nan", told), told


TITLES = {
    "SE(0, lengthscale=71) * PER(0, period=12, lengthscale=0.6)": "Changing yearly pattern",
    "PER(0, period=12)": "Yearly pattern",
    "LIN(0) * LIN(0)": "Quadratic trend",
    "LIN(0) * SE(0, lengthscale=20)": "Changing linear trend",
    "SE(0, lengthscale=8.1)": "Smooth variation over about 8 months",
    "SE(1, lengthscale=400)": "Slow change over about 400",
    "PER(0, period=12) * SE(1, lengthscale=3)": "Interaction of month and heat",
    "C(variance=9)": "Constant",
    "M12(0, lengthscale=9)": "Erratic variation over about 9 months",
    "M12(0, lengthscale=60)": "Random walk, drawn back over about 5 years",
    "M12(0, lengthscale=200)": "Random walk",
    "M32(0, lengthscale=200)": "Wandering trend",
    "M12(0, lengthscale=200) * PER(0, period=12)": "Drifting yearly pattern",
    "M12(0, lengthscale=200) * PER(0, period=12) * LIN(0, offset=-9)": ("Growing and drifting yearly pattern"),
    "M12(0, lengthscale=200) * LIN(0) * LIN(0)": "Drifting quadratic trend",
    "M12(0, lengthscale=200) * LIN(0, offset=-2000)": "Random walk",
    "PER(0, period=12) * SE(1, lengthscale=3000)": "Yearly pattern",
    "LIN(1, offset=-500) * LIN(2, offset=-900)": "Effects of heat and rain",
}


@pytest.mark.parametrize("text", TITLES)
def test_titles(text: str) -> None:
    assert title(canonical(parse(text)), COLUMNS) == TITLES[text]


def test_no_two_titles_are_alike() -> None:
    def told(*texts: str, shares: tuple[float, ...] = (0.5, 0.2)) -> list[str]:
        terms = [canonical(parse(text)) for text in texts]
        return distinct([title(term, COLUMNS) for term in terms], terms, COLUMNS, shares)

    assert told("PER(0, period=12)", "PER(0, period=12) * PER(0, period=40)") == [
        "Yearly pattern", "Yearly pattern, modulated with period 40.0 months",
    ]  # fmt: skip
    changing = [f"PER(0, period=12) * SE(0, lengthscale={length})" for length in (20, 71)]
    assert told(*changing) == [
        "Changing yearly pattern, over about 20 months",
        "Changing yearly pattern, over about 6 years",
    ]
    assert told("LIN(0, offset=3)", "LIN(0, offset=9)") == [
        "Linear trend (50 % of the variance)", "Linear trend (20 % of the variance)",
    ]  # fmt: skip
    assert told("LIN(0, offset=3)", "LIN(0, offset=9)", shares=(0.2, 0.2)) == ["Linear trend (1)", "Linear trend (2)"]
    assert told("LIN(0)", "PER(0, period=12)") == ["Linear trend", "Yearly pattern"]


def test_titles_name_the_input_where_there_are_several() -> None:
    assert title(parse("SE(1, lengthscale=3)"), COLUMNS, alone=False) == "Smooth variation in heat over about 3.00"
    assert title(parse("LIN(2)"), COLUMNS, alone=False) == "Linear trend in rain"


@pytest.mark.parametrize(
    ("text", "horizon", "words"),
    [
        ("SE(0, lengthscale=8)", 10.0, "Beyond the data it returns to zero; after about 10 months nothing"),
        ("SE(1, lengthscale=8)", 10.0, "after another 10.0 nothing of it is known any more."),
        ("SE(0, lengthscale=80)", 100.0, "after about 8 years (100 months) nothing"),
        ("PER(0, period=12)", None, "Beyond the data it goes on repeating."),
        ("PER(0, period=12) * LIN(0, offset=-10)", None, "Beyond the data it goes on repeating, with growing swings."),
        ("PER(0, period=12) * SE(0, lengthscale=900)", None, "its band stays narrow as far as one can look."),
        ("LIN(0)", None, "Beyond the data it goes on in a straight line."),
        ("LIN(0) * LIN(0)", None, "Beyond the data it goes on as a parabola."),
        ("WN(0)", 0.0, "Nothing of it can be foreseen."),
        ("M12(0, lengthscale=9)", 7.0, "Beyond the data it returns to zero; after about 7 months nothing"),
        ("M12(0, lengthscale=60)", 50.0, "Beyond the data it slowly returns to zero; after about 4 years"),
        ("M12(0, lengthscale=200)", 166.0, "grows like the square root of the distance; after about 14 years"),
        ("M12(0, lengthscale=2000)", 1660.0, "its last value remains the best guess, and its band grows like the"),
        ("M12(0, lengthscale=2000)", 1660.0, "square root of the distance: there is no average to return to."),
        ("M12(0, lengthscale=2000)", None, "there is no average to return to."),
        ("M12(0, lengthscale=2000) * LIN(0) * LIN(0)", None, "as a parabola, and its band grows at least like"),
        ("M12(0, lengthscale=2000) * PER(0, period=12)", None, "goes on repeating, and its band grows at least like"),
        ("M32(0, lengthscale=200)", 150.0, "it goes on in its last direction, less and less surely; after"),
        ("PER(0, period=12) * SE(0, lengthscale=3)", 4.0, "it fades before it has repeated once; after about 4 months"),
    ],
)  # fmt: skip
def test_beyond_the_data(text: str, horizon: float | None, words: str) -> None:
    assert words in continuation(canonical(parse(text)), COLUMNS, horizon)


@pytest.mark.parametrize("text", ["SE(0, lengthscale=8)", "PER(0, period=12)", "LIN(0)", "M12(0, lengthscale=900)"])
def test_what_the_data_do_not_determine_does_not_go_on(text: str) -> None:
    told = continuation(canonical(parse(text)), COLUMNS, 0.0)
    assert told == "Nothing of it can be foreseen: even at the end of the data it is hardly known."


def test_categories_make_differences() -> None:
    south = Column("shop=south", low=0.0, high=1.0, source="shop", level="south")
    told = sentence(parse("LIN(0)"), (south,), slope=1.93)
    assert told == "A difference between shop=south and the others, shop=south being higher by 1.93."
    assert title(parse("SE(0)"), [south]) == "Difference of shop=south"
    assert phrase(parse("SE(0) * LIN(1)"), [south, HEAT]) == (
        "an interaction of shop=south and heat: a linear function of heat, multiplied by a difference between "
        "shop=south and the others"
    )


def test_effects_that_add_up_are_no_interaction() -> None:
    product = parse("SE(1, lengthscale=3) * LIN(2, offset=3)")
    assert phrase(product, COLUMNS).startswith("an interaction of heat and rain: a linear function of rain, multiplied")
    told = phrase(product, COLUMNS, Joint(add_up=True))
    assert told == "a linear function of rain, plus a smooth function of heat, varying over a lengthscale of 3.00"
    assert title(product, COLUMNS, joint=Joint(add_up=True)) == "Effects of heat and rain"
    idle = Joint(frozenset({2}))
    assert phrase(product, COLUMNS, idle).endswith(
        "of heat, varying over a lengthscale of 3.00, hardly changing with rain"
    )
    assert title(product, COLUMNS, alone=False, joint=idle) == "Smooth variation in heat over about 3.00"
    shops = [Column(f"shop={level}", low=0.0, high=1.0, source="shop", level=level) for level in ("east", "south")]
    assert phrase(parse("LIN(0) * LIN(1)"), shops) == "a difference between the values of shop"
    assert title(parse("LIN(0) * LIN(1)"), shops) == "Difference of shop"


def test_places_are_written_as_finely_as_the_data_ask_for() -> None:
    year = Column("year", None, 1962.0, 1976.9)
    assert [year.at(value) for value in (1979.93, 1980.0, 0.0)] == ["1979.9", "1980", "0"]
    assert year.length(0.108) == "0.108"
    assert [resolve(value, 1.96) for value in (1361.058, 0.5)] == ["1,361.06", "0.500"]
    assert [resolve(value, 1317.0) for value in (1031.7, 374.0, 1690.6)] == ["1,030", "374", "1,690"]
    assert [resolve(12.3, span) for span in (None, 0.0, 1e-30)] == ["12.3"] * 3
    assert [resolve(1e9 + end, 0.4) for end in (0.1, 0.5)] == ["1,000,000,000.100", "1,000,000,000.500"]
    assert [resolve(5e20 + end, 4e17) for end in (1e17, 5e17)] == ["5.00100e20", "5.00500e20"]


def test_p_values() -> None:
    assert [p_value(p) for p in (1e-9, 0.0123, 0.456)] == ["p < 0.001", "p = 0.012", "p = 0.46"]


def test_slope_of_a_line() -> None:
    line = parse("LIN(0, offset=3)")
    assert sentence(line, COLUMNS, slope=2.634) == "A linear function of month, rising by 2.63 per month."
    falling = sentence(parse("LIN(1, offset=3)"), COLUMNS, slope=-0.5)
    assert falling == "A linear function of heat, falling by 0.500 for every unit of heat."


@pytest.mark.parametrize(
    ("value", "text"),
    [(12.0, "12.0"), (0.64, "0.640"), (240.65, "241"), (1234.5, "1,230"), (1.23e-7, "1.23e-7"), (-2e12, "-2.00e12"),
     (0, "0"), (999.6, "1,000"), (0.00123, "0.00123")],
)  # fmt: skip
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_percentages() -> None:
    assert [percent(share) for share in (-1e-9, 0.0, 1e-6, 0.004, 0.0996, 0.84, 1.0)] == [
        "0.0 %", "0.0 %", "< 0.1 %", "0.4 %", "10 %", "84 %", "100 %",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(71, "months", "about 6 years"), (8.1, "months", "about 8 months"), (20, "months", "about 20 months"),
     (400, "days", "about 13 months"), (36, "hours", "about 36 hours"), (50, "hours", "about 2.1 days"),
     (1000, "seconds", "about 17 minutes"), (130, "weeks", "about 2.5 years"), (0.2, "years", "about 2.4 months"),
     (5000, "years", "about 5,000 years")],
)  # fmt: skip
def test_lengths_of_time_in_a_fitting_unit(value: float, unit: str, text: str) -> None:
    assert roughly(value, unit) == text


def test_status_names_parameters_by_kernel_and_column() -> None:
    def told(status: str, kernel: str, *reached: AtBound) -> str:
        ending = Ending("stopped on request", name_bounds(parse(kernel), reached))
        return say(Claim("fit", status, ending), Vocabulary("sales", (MONTH, HEAT)))

    kernel = "SE(0) + SE(0, 1) * PER(0)"
    words = told("at a bound", kernel, AtBound("1:SE.lengthscale[1]", "upper"), AtBound("noise", "lower"))
    assert "the lengthscale of SE(month, heat) for heat at its upper bound and noise at its lower bound" in words
    copies = told("at a bound", "PER(0) * PER(0)", AtBound("0:PER.period", "lower"), AtBound("1:PER.period", "lower"))
    assert copies.count("the period of PER(month) at its lower bound") == 1
    assert told("converged", kernel) == "The fit converged."
    assert "stopped on request" in told("interrupted", kernel)
