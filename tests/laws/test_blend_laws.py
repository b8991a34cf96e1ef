"""Laws of change surfaces: text and JSON, canonical form, components, units, parameters."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mercer.errors import KernelError
from mercer.kernels import CP, CW, PER, SE, C, bind, from_json, parse, to_json
from mercer.kernels.algebra import canonical, canonical_structure, components, described_components, structure
from mercer.kernels.blend import Blend
from mercer.kernels.expression import Expression, contains, sum_of
from mercer.kernels.parameters import Units, layout, to_data_units, to_scaled_units, values_of, with_values
from tests.agree.slow_reference import slow_gram
from tests.laws.variations import assert_same_gram
from tests.strategies import blends, deep_kernels, inputs

Rows = NDArray[np.float64]
SETTINGS = settings(max_examples=40, deadline=None)


@st.composite
def with_blends(draw: st.DrawFn) -> Expression:
    """A change surface alone, among others, or inside another."""
    one = draw(blends(depth=2))
    how = draw(st.integers(0, 4))
    if how == 0:
        return one
    other = draw(deep_kernels(depth=1))
    if how == 1:
        return one + other
    if how == 2:
        return one * other
    if how == 3:
        return (one + other) * draw(blends(depth=0))
    return CP(one, other, on=0, location=0.5, width=0.25)


@SETTINGS
@given(with_blends())
def test_text_and_json_read_back(kernel: Expression) -> None:
    assert parse(kernel.text()) == kernel
    assert from_json(json.loads(json.dumps(to_json(kernel)))) == kernel
    assert parse(structure(kernel).text()) == structure(kernel)
    assert contains(kernel, Blend)


@SETTINGS
@given(with_blends(), inputs(max_rows=4))
def test_canonical_form_and_components_keep_the_gram_matrix(kernel: Expression, X: Rows) -> None:
    gram = slow_gram(kernel, X)
    assert_same_gram(slow_gram(canonical(kernel), X), gram, 1e-9)
    assert_same_gram(slow_gram(sum_of(components(kernel)), X), gram, 1e-9)
    assert_same_gram(slow_gram(sum_of(described_components(kernel)), X), gram, 1e-9)
    assert canonical(canonical(kernel)) == canonical(kernel)


def test_terms_that_a_scale_puts_in_another_order_are_sorted_again() -> None:
    """2.04 is written before 3.84, and 10.03 before 2.04."""
    regime = parse("LIN(0, variance=3.84375) + LIN(0, variance=0.78125)")
    kernel = CP(C(variance=0.25), regime, on=0, location=0.5, width=0.25) * C(variance=2.609375)
    assert canonical(canonical(kernel)) == canonical(kernel)


@pytest.mark.parametrize("text", ["CP(SE, PER)", "SE * CP(SE, LIN) + SE", "CW(CP(SE, C), PER * SE)"])
def test_the_canonical_form_has_no_parameters_that_the_kernel_has_not(text: str) -> None:
    """Taken apart, a change surface would have its location twice."""
    kernel = bind(parse(text), 1)
    assert layout(canonical_structure(kernel)).n_free == layout(kernel).n_free


@SETTINGS
@given(with_blends(), inputs(max_rows=4))
def test_units_carry_the_kernel_there_and_back(kernel: Expression, X: Rows) -> None:
    units = Units((0.5, -1.0, 3.0), (2.0, 0.25, 1.5), 3.0)
    scaled = (X - np.array(units.shift)) / np.array(units.scale)
    there = to_data_units(kernel, units)
    assert_same_gram(slow_gram(there, X), 9.0 * slow_gram(kernel, scaled), 1e-8)
    assert_same_gram(slow_gram(to_scaled_units(there, units), scaled), slow_gram(kernel, scaled), 1e-8)


@SETTINGS
@given(with_blends())
def test_values_go_out_and_in(kernel: Expression) -> None:
    values = values_of(kernel)
    assert with_values(kernel, values) == kernel
    shape = layout(kernel)
    free = shape.to_free(values)
    np.testing.assert_allclose(shape.from_free(free, values), values, rtol=1e-9, atol=1e-12)


def test_a_product_holds_one_scale_and_a_change_one_for_each_regime() -> None:
    fitted = layout(bind(parse("CP(SE, PER) * SE"), 1)).free_paths()
    assert sum(name.endswith("variance") for name in fitted) == 2
    fitted = layout(bind(parse("CP(SE, PER, LIN) + SE"), 1)).free_paths()
    assert sum(name.endswith("variance") for name in fitted) == 4


def test_components_name_where_each_holds() -> None:
    kernel = CP(SE(0, variance=1.0, lengthscale=2.0) + C(3.0), PER(0, variance=1.0, period=2.0, lengthscale=1.0), on=0)
    parts = components(kernel)
    assert [part.text() for part in parts] == [
        "CP(C(variance=3.0), 0, on=0)",
        "CP(SE(0, variance=1.0, lengthscale=2.0), 0, on=0)",
        "CP(0, PER(0, variance=1.0, period=2.0, lengthscale=1.0), on=0)",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("CP(SE)", "2 to 20 regimes"),
        ("CP(0, 0)", "0 for nothing"),
        ("CP(SE, PER, SE", "to close CP("),
        ("BLEND(SE, SE)", "expected the surface"),
        ("BLEND(linear3, SE, SE)", "expected the surface"),
        ("CP(SE, LIN, foo=3)", "not a parameter of CP"),
        ("CP(SE, LIN, width=1, width=1)", "given twice"),
        ("CP(SE, LIN, width=1, PER)", "kernels come before"),
        ("CP(SE, SE, location=[1, 2])", "takes 1 value(s)"),
        ("CP(SE, SE, width=-1)", "greater than zero"),
        ("CW(SE, SE, SE)", "two regimes"),
        ("CP(SE, SE, on=[0, 1])", "along one column"),
        ("BLEND(rks0, SE, SE)", "1 to 1000 features"),
    ],
)
def test_what_does_not_fit_is_told(text: str, problem: str) -> None:
    with pytest.raises(KernelError, match=problem.replace("(", r"\(").replace(")", r"\)")):
        parse(text)


def test_a_change_point_needs_one_column() -> None:
    with pytest.raises(KernelError, match="along one column"):
        bind(CP(SE(), SE()), 2)
    bound = bind(CP(SE(), SE(), on="year"), 2, names=["town", "year"])
    assert isinstance(bound, Blend)
    assert bound.surface.columns == (1,)
    assert CW(0, SE()).parts[0] is None


def test_damaged_json_is_told() -> None:
    data = to_json(CP(SE(), SE()))
    assert data["version"] == 3
    data["kernel"]["blend"]["parameters"] = {"width": {"values": "x", "fixed": False}}
    with pytest.raises(KernelError, match="damaged"):
        from_json(data)
