"""Kernels as text and JSON: known texts, and where an error points."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mercer.errors import KernelError, KernelSyntaxError
from mercer.kernels import (
    COS,
    LIN,
    PER,
    RQ,
    SE,
    SM,
    WN,
    C,
    Expression,
    bind,
    canonical,
    fixed,
    from_json,
    layout,
    parse,
    to_json,
    to_text,
)


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("SE", SE()),
        ("SE()", SE()),
        (" ( ( SE ) ) ", SE()),
        ("SE(0)*PER(0)+LIN(0)", SE(0) * PER(0) + LIN(0)),
        ("SE(0)*(PER(0)+LIN(0))", SE(0) * (PER(0) + LIN(0))),
        ("2.5 * LIN(year)", C(2.5) * LIN("year")),
        ("SE(0) + 1e-3", SE(0) + C(0.001)),
        ("SE(0)+2", SE(0) + C(2)),
        ("PER(0, period=fixed(12))", PER(0, period=fixed(12))),
        (
            "PER(0, 1, period=[1, 2.5], lengthscale=fixed([1, 2]))",
            PER(0, 1, period=[1, 2.5], lengthscale=fixed([1, 2])),
        ),
        ("LIN(0, offset=-3)", LIN(0, offset=-3)),
        ("LIN(0, offset=+3)", LIN(0, offset=3)),
        ("SM", SM()),
        ("SM3(0)", SM(0, components=3)),
        ('SE("temp °C", year)', SE("temp °C", "year")),
        ('SE("0")', SE("0")),
        ("SE(lengthscale, lengthscale=2)", SE("lengthscale", lengthscale=2)),
        ("SE(lengthscale=[1, 2])", SE(lengthscale=[1, 2])),
        ("\nSE(0)\n * RQ(1,\talpha=2)", SE(0) * RQ(1, alpha=2)),
    ],
)
def test_known_texts(text: str, kernel: Expression) -> None:
    assert parse(text) == kernel
    assert parse(to_text(kernel)) == kernel


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (SE(0) * PER(0, period=fixed(12)) + LIN("year"), "SE(0) * PER(0, period=fixed(12.0)) + LIN(year)"),
        (2.5 * SE(), "C(variance=2.5) * SE"),
        ((SE(0) + PER(0)) * LIN(0), "(SE(0) + PER(0)) * LIN(0)"),
        (SM(components=1), "SM1"),
        (SE("fixed", "a b"), 'SE("fixed", "a b")'),
        (COS(0, frequency=0.1), "COS(0, frequency=0.1)"),
        (LIN(weights=[1.0]), "LIN(weights=1.0)"),
        (LIN(0, weights=fixed(1)), "LIN(0, weights=fixed(1.0))"),
    ],
)  # fmt: skip
def test_known_printings(kernel: Expression, text: str) -> None:
    assert to_text(kernel) == str(kernel) == repr(kernel) == text
    assert parse(text) == kernel


def test_printing_can_round_and_use_column_names() -> None:
    kernel = SE(1, lengthscale=1 / 3) * PER(0, period=123456.789)
    assert kernel.text(digits=3, names=["year", "a b"]) == 'SE("a b", lengthscale=0.333) * PER(year, period=1.23e+05)'


@pytest.mark.parametrize(
    ("text", "problem", "position"),
    [
        ("", "expected a kernel", 0),
        ("   ", "expected a kernel", 3),
        ("SE +", "expected a kernel", 4),
        ("SE + * PER", "found '*'", 5),
        ("SE PER", "expected '+', '*' or the end, found 'PER'", 3),
        ("SE - PER", "found '-'", 3),
        ("XYZ(0)", "no base kernel 'XYZ'; there are SE, PER", 0),
        ("SE * se", "no base kernel 'se'", 5),
        ("(SE + PER", "expected ')' to close the parenthesis", 9),
        ("SE(0", "expected ')' to close SE(", 4),
        ("SE(0,)", "expected a dimension or a parameter of SE, found ')'", 5),
        ("SE(0, length=1)", "'length' is not a parameter of SE; it has variance, lengthscale", 6),
        ("SE(0, variance=1, variance=1)", "'variance' is given twice", 18),
        ("SE(lengthscale=1, 0)", "dimensions come before parameters", 18),
        ("SE(lengthscale=1, x)", "dimensions come before parameters", 18),
        ("SE(0, lengthscale=x)", "expected a number", 18),
        ("SE(0, lengthscale=[])", "expected a number", 19),
        ("SE(0, lengthscale=fixed 1)", "expected '(' after 'fixed'", 24),
        ("SE(0, lengthscale=fixed(fixed(1)))", "expected a number", 24),
        ("SE(0, lengthscale=[1, 2)", "expected ']' to close the list", 23),
        ("PER(0) + SE(0, lengthscale=-1)", "'lengthscale' must be a number greater than zero, not -1", 9),
        ("PER(0) + SE(0, lengthscale=1e999)", "not inf", 9),
        ("SE + 0", "greater than zero, not 0", 5),
        ("SE(0, 0)", "same dimension is given twice", 0),
        ("C(0)", "takes no dimension", 0),
        ("SM0", "cannot have 0 components", 0),
        ("SM99999", "cannot have 99999 components", 0),
        ("SE(0.5)", "expected a dimension or a parameter of SE, found '0.5'", 3),
        ("SE(-1)", "expected a dimension or a parameter of SE, found '-'", 3),
        ("SE @ PER", "'@' does not belong in a kernel", 3),
        ('SE("a)', "quotation mark is not closed", 3),
        ('SE("\\x")', "not a column name", 3),
        ("(" * 200 + "SE" + ")" * 200, "nest more than 100 deep", 101),
    ],
)
def test_a_syntax_error_points_at_the_place(text: str, problem: str, position: int) -> None:
    with pytest.raises(KernelSyntaxError) as caught:
        parse(text)
    assert problem in str(caught.value)
    assert caught.value.position == position
    assert str(caught.value).endswith(f"\n  {text}\n  {' ' * position}^")


@pytest.mark.parametrize("thing", [None, 3, b"SE", SE(0)])
def test_only_a_string_is_parsed(thing: Any) -> None:
    with pytest.raises(KernelError, match=type(thing).__name__):
        parse(thing)


def test_deep_kernels_pass_through_everything() -> None:
    kernel: Expression = SE(0)
    for _ in range(99):
        kernel = PER(0) * (WN(0) + kernel)
    assert parse(to_text(kernel)) == kernel
    assert from_json(json.loads(json.dumps(to_json(kernel)))) == kernel
    assert bind(kernel, 1) == kernel
    assert layout(kernel).n_values == 2 + 99 * 4
    assert hash(kernel) == hash(parse(to_text(kernel)))
    nested: Expression = SE(0, lengthscale=1.0)
    for _ in range(50):
        nested = LIN(0) * (C() + nested)
    assert canonical(canonical(nested)) == canonical(nested)


def kernel_document(kernel: Any, **changes: Any) -> Any:
    return {"format": "mercer-kernel", "version": 1, "kernel": kernel} | changes


def base_document(**changes: Any) -> Any:
    base = {"base": "SE", "dims": [0], "parameters": {"lengthscale": {"values": [2.0], "fixed": True}}}
    return kernel_document(base | changes)


def test_known_json() -> None:
    assert from_json(base_document()) == SE(0, lengthscale=fixed(2))
    assert to_json(SE(0, lengthscale=fixed(2))) == base_document()
    assert to_json(SM("x", components=2) + C())["kernel"] == {
        "sum": [{"base": "SM", "parameters": {}, "dims": ["x"], "components": 2}, {"base": "C", "parameters": {}}]
    }


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (None, "not a Mercer kernel"),
        ([], "not a Mercer kernel"),
        ({"version": 1}, "not a Mercer kernel"),
        (kernel_document({}, version=5), "version 5, this Mercer reads up to 4: update"),
        (kernel_document({}, version=None), "version is None"),
        (kernel_document({}, version=True), "version is True"),
        (kernel_document({}, version=0), "version is 0"),
        (kernel_document(None), "damaged"),
        (kernel_document("sum"), "damaged"),
        (kernel_document({}), "damaged: KeyError: 'parameters'"),
        (kernel_document({"sum": []}), "at least two"),
        (kernel_document({"sum": "SE"}), "expected a list, found 'SE'"),
        (kernel_document({"product": [1]}), "damaged"),
        (base_document(base="XYZ"), "no base kernel 'XYZ'"),
        (base_document(base=["SE"]), "damaged"),
        (base_document(dims="ab"), "expected a list, found 'ab'"),
        (base_document(dims=[[0]]), "column number"),
        (base_document(dims=[True]), "column number"),
        (base_document(components=2), "cannot have 2 components"),
        (base_document(components="1"), "cannot have '1' components"),
        (base_document(parameters={"period": {"values": [1], "fixed": False}}), "no parameter 'period'"),
        (base_document(parameters={"symbol": {"values": [1], "fixed": False}}), "damaged"),
        (base_document(parameters={"variance": {"values": "12", "fixed": False}}), "expected a list, found '12'"),
        (base_document(parameters={"variance": {"values": ["1"], "fixed": False}}), "number"),
        (base_document(parameters={"variance": {"values": [10**400], "fixed": False}}), "number"),
        (base_document(parameters={"variance": {"values": [float("nan")], "fixed": False}}), "greater than zero"),
        (base_document(parameters={"variance": {"values": [1], "fixed": "no"}}), "true or false, not 'no'"),
        (base_document(parameters={"variance": {"values": [1]}}), "damaged: KeyError: 'fixed'"),
        (base_document(parameters=[]), "damaged"),
    ],
)
def test_damaged_json_says_what_is_wrong(document: Any, problem: str) -> None:
    with pytest.raises(KernelError) as caught:
        from_json(document)
    assert problem in str(caught.value)


def test_json_that_nests_too_deep_is_refused() -> None:
    node: Any = {"base": "SE", "parameters": {}}
    for _ in range(5000):
        node = {"sum": [node]}
    with pytest.raises(KernelError, match="nests more than"):
        from_json(kernel_document(node))
