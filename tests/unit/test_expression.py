"""Building kernels: what is accepted, what is refused and how, and that nothing can be changed afterwards."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import mercer.kernels
from mercer.errors import KernelError
from mercer.kernels import LIN, PER, REGISTRY, SE, SM, WN, Base, C, Expression, Fixed, Product, Sum, fixed
from mercer.kernels.expression import Parameter, as_expression, build_base, product_of, sum_of

loose: Any = mercer.kernels  # for arguments whose type is wrong, or only convertible, on purpose


def test_plus_and_times_build_sums_and_products() -> None:
    assert (SE(0) + PER(0)) * LIN(0) == Product((Sum((SE(0), PER(0))), LIN(0)))
    assert SE(0) * PER(0) + LIN(0) == Sum((Product((SE(0), PER(0))), LIN(0)))
    assert sum_of([SE(0)]) == product_of([SE(0)]) == SE(0)


@pytest.mark.parametrize("number", [2, 2.0, np.float64(2), np.float32(2), np.int64(2), Fraction(2)])
def test_a_number_is_a_constant_kernel(number: Any) -> None:
    assert number * SE(0) == C(2) * SE(0)
    assert SE(0) * number == SE(0) * C(2)
    assert number + SE(0) == C(2) + SE(0)
    assert SE(0) + number == SE(0) + C(2)
    assert type((number * SE(0)).children[0].value("variance")) is float


@pytest.mark.parametrize("other", [True, np.True_, "SE", None, [1.0], np.array([1.0, 2.0]), 1j])
def test_other_things_cannot_be_combined(other: Any) -> None:
    for combine in (lambda: SE(0) + other, lambda: other * SE(0), lambda: as_expression(other)):
        with pytest.raises(KernelError, match=r"cannot combine a kernel with .*give a kernel or a number"):
            combine()


@pytest.mark.parametrize("number", [0, -1, 0.0, -0.5, float("nan"), float("inf"), np.float64("nan"), 10**400])
def test_a_constant_is_positive_and_finite(number: float) -> None:
    with pytest.raises(KernelError, match="number"):
        number * SE(0)


def test_values_are_plain_floats_whatever_was_given() -> None:
    kernel = loose.SM(
        0, 1, components=np.int64(2), frequency=np.array([[1, 2], [3, 4]]), weights=(np.float32(0.5), 0.5)
    )
    assert kernel.value("frequency") == (1.0, 2.0, 3.0, 4.0)
    assert all(type(v) is float for p in kernel.parameters for v in p.values or ())
    assert type(kernel.components) is int
    assert SE(0, lengthscale=10**30).value("lengthscale") == 1e30


def test_dimensions_are_plain_whatever_was_given() -> None:
    assert loose.SE(np.int64(1)) == SE(1)
    assert loose.SE(np.str_("x")) == SE("x")
    assert [type(d) for d in loose.SE(np.int32(1), np.str_("x")).dims or ()] == [int, str]


def test_one_value_stands_for_every_dimension() -> None:
    assert SE(0, 1, lengthscale=3).value("lengthscale") == (3.0, 3.0)
    assert SE(lengthscale=3).value("lengthscale") == 3.0
    assert SE(0).value("lengthscale") is None


def test_a_single_weight_is_one() -> None:
    assert LIN(0).value("weights") == 1.0
    assert SM(0, components=1).value("weights") == 1.0
    assert LIN().value("weights") is None
    assert LIN(0, 1).value("weights") is None


def test_fixed_marks_a_parameter() -> None:
    assert PER(0, period=fixed(12)).parameter("period") == Parameter("period", (12.0,), True)
    assert SE(0, 1, lengthscale=fixed([1, 2])) == SE(0, 1, lengthscale=Fixed((1, 2)))
    assert SE(0, 1, lengthscale=fixed(1)).parameter("lengthscale").fixed


@pytest.mark.parametrize(
    ("build", "parts"),
    [
        (lambda: build_base("XYZ"), ["'XYZ'", *REGISTRY]),
        (lambda: build_base("SE", 0, period=1), ["SE", "'period'", "variance, lengthscale"]),
        (lambda: loose.SE(0).parameter("period"), ["SE", "'period'", "variance, lengthscale"]),
        (lambda: build_base("C", 0), ["C does not look at the inputs", "(0,)"]),
        (lambda: loose.SE(-1), ["column number from 0 or a column name", "-1"]),
        (lambda: loose.SE(1.0), ["column number from 0 or a column name", "1.0"]),
        (lambda: loose.SE(True), ["column number from 0 or a column name", "True"]),
        (lambda: loose.SE(None), ["column number from 0 or a column name", "None"]),
        (lambda: loose.SE(0, 1, 0), ["same dimension", "(0, 1, 0)"]),
        (lambda: loose.SE("x", "x"), ["same dimension", "('x', 'x')"]),
        (lambda: loose.SE(0, lengthscale=-2), ["'lengthscale'", "greater than zero", "-2"]),
        (lambda: loose.SE(0, lengthscale=fixed(0)), ["'lengthscale'", "greater than zero", "0"]),
        (lambda: loose.SE(0, variance=float("nan")), ["'variance'", "greater than zero", "nan"]),
        (lambda: loose.LIN(0, offset=float("inf")), ["'offset'", "finite", "inf"]),
        (lambda: loose.LIN(0, 1, weights=[0.5, 0.6]), ["'weights'", "add up to one", "[0.5, 0.6]"]),
        (lambda: loose.SE(0, 1, lengthscale=[1, 2, 3]), ["'lengthscale'", "2 value", "3 given"]),
        (lambda: loose.SM(0, components=3, weights=1), ["'weights'", "3 value", "1 given"]),
        (lambda: loose.SE(0, lengthscale="long"), ["number", "'long'"]),
        (lambda: loose.SE(0, lengthscale="3"), ["number", "'3'"]),
        (lambda: loose.SE(0, lengthscale=True), ["number", "True"]),
        (lambda: loose.SE(0, lengthscale=[[1], [2, 3]]), ["number", "[[1], [2, 3]]"]),
        (lambda: loose.SE(lengthscale=[]), ["number", "[]"]),
        (lambda: loose.SE(0, lengthscale=loose.fixed("x")), ["number", "'x'"]),
        (lambda: loose.SE(0, lengthscale=1j), ["number", "1j"]),
        (lambda: loose.SM(0, components=0), ["SM cannot have 0 components", "whole number from 1"]),
        (lambda: loose.SM(0, components=2.0), ["SM cannot have 2.0 components", "whole number from 1"]),
        (lambda: loose.SM(0, components=10**6), ["SM cannot have 1000000 components", "whole number from 1"]),
        (lambda: build_base("SE", components=2), ["SE cannot have 2 components", "SM"]),
        (lambda: loose.Sum((SE(0),)), ["at least two", "'+'"]),
        (lambda: loose.Sum((SE(0) + PER(0), WN(0))), ["none itself a Sum", "'+'"]),
        (lambda: loose.Product((SE(0), 2.0)), ["at least two kernels", "'*'"]),
        (lambda: sum_of([]), ["at least two", "'+'"]),
    ],
)
def test_a_refusal_names_what_was_given_and_what_to_try(build: Any, parts: list[str]) -> None:
    with pytest.raises(KernelError) as caught:
        build()
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize("kernel", [SE(0), SE(0) + PER(0), SE(0) * PER(0), SE(0).parameters[0], fixed(1)])
def test_nothing_can_be_changed(kernel: Any) -> None:
    for name in (*type(kernel).__slots__, "something_new"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(kernel, name, 1)
    assert not hasattr(kernel, "__dict__")


def test_kernels_are_keys() -> None:
    seen = {SE(0): "a", SE(0) + PER(0): "b", SE(0) * PER(0): "c", SE(0, lengthscale=1): "d"}
    assert seen[SE(0)] == "a"
    assert seen[SE(0) + PER(0)] == "b"
    assert seen[SE(0) * PER(0)] == "c"
    assert SE(0, lengthscale=1.0) in seen
    assert SE(0, lengthscale=fixed(1)) not in seen
    assert SE(1) not in seen


def test_columns_are_known_once_bound() -> None:
    assert SE(0, 2).columns == (0, 2)
    assert C().columns == ()
    for unbound in (SE(), SE("x"), SE(0, "x"), WN()):
        with pytest.raises(KernelError, match="bind"):
            _ = unbound.columns


def test_every_constructor_is_the_registry_entry() -> None:
    for symbol, spec in REGISTRY.items():
        kernel = getattr(loose, symbol)()
        assert isinstance(kernel, Base)
        assert kernel == build_base(symbol)
        assert [p.name for p in kernel.parameters] == [p.name for p in spec.parameters]
        assert kernel.spec.parameters[0].name == "variance"


def test_nesting_has_a_limit_that_says_so() -> None:
    def nested(levels: int) -> Expression:
        return (nested(levels - 1) + PER(0)) * LIN(0) if levels else SE(0)

    assert nested(90) is not None
    with pytest.raises(KernelError, match="nest at most"):
        nested(150)
