"""Change points and windows in the search for a structure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import mercer
from mercer.errors import InputError
from mercer.explain.phrases import where_phrase
from mercer.explain.wording import Column
from mercer.kernels import bind, parse
from mercer.kernels.algebra import structure
from mercer.kernels.blend import Blend, Surface
from mercer.kernels.expression import contains
from mercer.learners.growth import base_kernels, check_operators, children
from mercer.learners.simplify import simplify


def test_changes_come_on_request_only() -> None:
    bases = base_kernels(["SE", "C"], [0])
    parent = bind(parse("SE"), 1)
    plain = {child.expression.text() for child in children(parent, bases, "+*r", "full")}
    more = {child.expression.text() for child in children(parent, bases, "+*r|", "full")}
    assert not any("CP" in text or "CW" in text for text in plain)
    assert more - plain == {"CP(SE(0), SE(0), on=0)", "CW(SE(0), SE(0), on=0)"}
    check_operators("|")
    with pytest.raises(InputError, match="change"):
        check_operators("+?")


def test_changes_are_made_on_every_part() -> None:
    parent = bind(parse("SE + LIN"), 1)
    texts = {c.expression.text() for c in children(parent, base_kernels(["PER"], [0]), "|", "full")}
    assert "CP(SE(0), PER(0), on=0) + LIN(0)" in texts
    assert "CP(PER(0), SE(0) + LIN(0), on=0)" in texts
    assert "SE(0) + CW(LIN(0), PER(0), on=0)" in texts


def test_what_was_known_stays() -> None:
    parent = bind(parse("SE(0, variance=2, lengthscale=3)"), 1)
    (both,) = [
        c for c in children(parent, base_kernels(["PER"], [0]), "|", "cks") if c.step.kind == "change of parameters"
    ]
    assert both.expression.text() == (
        "CP(SE(0, variance=2.0, lengthscale=3.0), SE(0, variance=2.0, lengthscale=3.0), on=0)"
    )


def test_a_change_can_be_taken_out_again() -> None:
    kernel = bind(parse("CP(SE(0, variance=1, lengthscale=1), C(variance=2), on=0, location=0, width=1)"), 1)
    simpler = {structure(expression).text() for expression, _ in simplify(kernel, np.zeros((3, 1)))}
    assert {"SE(0)", "C"} <= simpler


def test_a_search_finds_a_window_and_tells_of_it() -> None:
    months = pd.date_range("2000-01-01", periods=96, freq="MS")
    inside = (months >= "2003-01-01") & (months < "2005-01-01")
    y = pd.Series(np.where(inside, 6.0, 0.0) + 0.3 * np.random.default_rng(0).normal(size=96), name="load")
    search = mercer.GrammarSearch(bases=("C", "LIN"), operators="+|", max_depth=1, average=False, restarts=2)
    model = mercer.GPRegressor(search, random_state=0).fit(pd.DataFrame({"month": months}), y)
    assert contains(model.kernel_, Blend)
    told = model.explain()
    assert told.change is not None
    assert model.change_ is not None
    table = pd.DataFrame({"month": months})
    assert np.array_equal(model.change_.shares(table)[:, 1] > 0.5, inside)
    assert any("between about 2002-12 and 2004-12" in sentence for sentence in told.change.sentences)


@pytest.mark.parametrize(
    ("kernel", "told"),
    [
        ("CP(PER, LIN, location=1892.7, width=0.1)", ["until about 1893", "from about 1893 on"]),
        ("CW(PER, SE, start=1644.6, duration=70.2, width=0.1)", ["except between about 1645", "between about 1645"]),
    ],
)
def test_years_are_told_without_fractions(kernel: str, told: list[str]) -> None:
    bound = bind(parse(kernel), 1)
    assert isinstance(bound, Blend)
    years = Column("year", low=1610.0, high=1700.0, whole=True)
    said = [where_phrase(bound.surface, regime, [years]) for regime in (0, 1)]
    assert all(phrase.startswith(start) for phrase, start in zip(said, told, strict=True))
    assert "1892.7" in where_phrase(parsed_change(), 0, [replace(years, whole=False)])


def parsed_change() -> Surface:
    bound = bind(parse("CP(PER, LIN, location=1892.7, width=0.1)"), 1)
    assert isinstance(bound, Blend)
    return bound.surface
