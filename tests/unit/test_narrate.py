"""The words of components, by rule."""

from __future__ import annotations

import re

import pytest

from mercer.explain.narrate import continuation, phrase, sentence, title
from mercer.explain.remarks import status_sentence
from mercer.explain.wording import Column, number, p_value, percent, roughly
from mercer.kernels import REGISTRY, canonical, components, parse

MONTH = Column("month", "months", 0.0, 143.0, lambda value: f"month {value:.0f}")
HEAT = Column("heat", None, 0.0, 30.0)
RAIN = Column("rain", None, 0.0, 100.0)
WIND = Column("wind", None, 0.0, 10.0)
DAY = Column("day", "days", 0.0, 400.0)
COLUMNS = (MONTH, HEAT, RAIN, WIND, DAY)

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
        "a periodic function of month with period 400 months, of which the data show only a part"
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
    "M12(1, lengthscale=3)": "a rough function of heat, varying over a lengthscale of 3.00",
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
    "COS(0, frequency=0.08333333)": "a pure wave in month with period 12.0 months",
    "COS(0, frequency=-0.0001)": "a pure wave in month with a period far longer than the data",
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
    several = "0, 1, 2, 3, 4" if dims else ""
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
    "SE(0, lengthscale=71) * PER(0, period=12, lengthscale=0.6)": "Changing pattern with period 12.0 months",
    "PER(0, period=12)": "Pattern with period 12.0 months",
    "LIN(0) * LIN(0)": "Quadratic trend",
    "LIN(0) * SE(0, lengthscale=20)": "Changing linear trend",
    "SE(0, lengthscale=8.1)": "Smooth variation over about 8 months",
    "SE(1, lengthscale=400)": "Slow change over about 400",
    "PER(0, period=12) * SE(1, lengthscale=3)": "Interaction of month and heat",
    "C(variance=9)": "Constant",
}


@pytest.mark.parametrize("text", TITLES)
def test_titles(text: str) -> None:
    assert title(canonical(parse(text)), COLUMNS) == TITLES[text]


def test_titles_name_the_input_where_there_are_several() -> None:
    assert title(parse("SE(1, lengthscale=3)"), COLUMNS, alone=False) == "Smooth variation in heat over about 3.00"
    assert title(parse("LIN(2)"), COLUMNS, alone=False) == "Linear trend in rain"


@pytest.mark.parametrize(
    ("text", "horizon", "words"),
    [
        ("SE(0, lengthscale=8)", 10.0, "Beyond the data it returns to zero; after about 10 months nothing"),
        ("SE(0, lengthscale=8)", 0.0, "Beyond the data it returns to zero; at once nothing of it is known any more."),
        ("SE(1, lengthscale=8)", 10.0, "after another 10.0 nothing of it is known any more."),
        ("SE(0, lengthscale=80)", 100.0, "after about 8 years (100 months) nothing"),
        ("PER(0, period=12)", None, "Beyond the data it goes on repeating."),
        ("PER(0, period=12) * LIN(0, offset=-10)", None, "Beyond the data it goes on repeating, with growing swings."),
        ("PER(0, period=12) * SE(0, lengthscale=900)", None, "its band stays narrow as far as one can look."),
        ("LIN(0)", None, "Beyond the data it goes on in a straight line."),
        ("LIN(0) * LIN(0)", None, "Beyond the data it goes on as a parabola."),
        ("WN(0)", 0.0, "Nothing of it can be foreseen."),
    ],
)
def test_beyond_the_data(text: str, horizon: float | None, words: str) -> None:
    assert words in continuation(canonical(parse(text)), COLUMNS, horizon)


def test_categories_make_differences() -> None:
    south = Column("shop=south", low=0.0, high=1.0, source="shop", level="south")
    told = sentence(parse("LIN(0)"), [south], slope=1.93)
    assert told == "A difference between shop=south and the others, shop=south being higher by 1.93."
    assert title(parse("SE(0)"), [south]) == "Difference of shop=south"
    assert phrase(parse("SE(0) * LIN(1)"), [south, HEAT]) == (
        "an interaction of shop=south and heat: a linear function of heat, multiplied by a difference between "
        "shop=south and the others"
    )


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
    assert [percent(share) for share in (0.0, 1e-6, 0.004, 0.0996, 0.84, 1.0)] == [
        "0.0 %", "< 0.1 %", "0.4 %", "10 %", "84 %", "100 %",
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
    kernel = parse("SE(0) + SE(0, 1) * PER(0)")
    message = "the optimum lies at a bound: 1:SE.lengthscale[1] at its upper bound, noise at its lower bound"
    words = status_sentence("at a bound", message, kernel, ["month", "heat"])
    assert "the lengthscale of SE(month, heat) for heat at its upper bound and noise at its lower bound" in words
    assert status_sentence("converged", "converged", kernel, ["month", "heat"]) == "The fit converged."
    assert "stopped on request" in status_sentence("interrupted", "stopped on request", kernel, ["month", "heat"])
