"""Text and JSON give back the same kernel; whatever is damaged is answered by an error that points at it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mercer.errors import KernelError, KernelSyntaxError
from mercer.kernels import REGISTRY, from_json, parse, structure, to_json, to_text
from mercer.kernels.algebra import canonical
from mercer.kernels.expression import Expression, build_base
from tests.laws.variations import partly_set

SETTINGS = settings(max_examples=60, deadline=None)
FUZZ = settings(max_examples=150, deadline=None)

WORDS = (*REGISTRY, "SM3", "SM0", "fixed", "variance", "lengthscale", "x", "nan", "inf", "größe")
MARKS = ("(", ")", "[", "]", "+", "-", "*", ",", "=", '"', "\\", '"a b"', '"\\x"', " ", "\n", "\x1f", "%")
NUMBERS = ("0", "1", "12", "2.5", "1e999", "-1", ".5", "1.", "9" * 30, "1e-320", "٣")
TOKENS = st.lists(st.sampled_from(WORDS + MARKS + NUMBERS), max_size=14).map("".join)
JUNK = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from((10**400, -1, 0, 10**9)),
        st.floats(),
        st.text(max_size=3),
        st.sampled_from(("sum", "product", "base", "SE", "SM")),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ("sum", "product", "base", "dims", "components", "parameters", "values", "fixed", "symbol")
            ),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=5,
)


def reads_back(kernel: Expression) -> bool:
    return parse(to_text(kernel)) == kernel and from_json(json.loads(json.dumps(to_json(kernel)))) == kernel


@SETTINGS
@given(partly_set())
def test_a_kernel_reads_back_exactly(kernel: Expression) -> None:
    assert reads_back(kernel)
    assert reads_back(structure(kernel))
    assert reads_back(canonical(kernel))
    assert str(kernel) == repr(kernel) == to_text(kernel)


@SETTINGS
@given(
    st.lists(st.text(), min_size=1, max_size=3, unique=True),
    st.floats(min_value=0, exclude_min=True, allow_infinity=False),
    st.floats(allow_infinity=False, allow_nan=False),
)
def test_any_column_name_and_any_number_reads_back(names: list[str], positive: float, real: float) -> None:
    kernel = build_base("SE", *names, variance=positive) * build_base("LIN", *names, offset=real)
    assert reads_back(kernel)


def check_parse(text: str) -> None:
    try:
        kernel = parse(text)
    except KernelSyntaxError as refused:
        problem = refused  # any other exception fails the test
    else:
        assert reads_back(kernel)
        return
    assert problem.problem
    assert 0 <= problem.position <= len(text)


@FUZZ
@given(st.one_of(st.text(max_size=30), TOKENS))
@example("(" * 5000)
@example("SE(lengthscale=" + "fixed(" * 5000)
@example("SE(" + "9" * 5000 + ")")
@example("SM" + "9" * 5000)
@example("SM999999999(frequency=1)")
@example('SE("\\x")')
@example('SE("a')
@example("9" * 5000)
@example("")
@example("SE(٣)")
def test_any_text_parses_or_is_a_syntax_error(text: str) -> None:
    check_parse(text)


@FUZZ
@given(partly_set().map(to_text), st.data())
def test_a_damaged_kernel_text_parses_or_is_a_syntax_error(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 4)))
    check_parse(text[:start] + data.draw(TOKENS) + text[end:])


@FUZZ
@given(partly_set().map(to_json), st.data())
def test_damaged_json_is_read_or_is_a_kernel_error(document: dict[str, Any], data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        damage(document, data)
    check_json(document)


@FUZZ
@given(JUNK)
def test_any_json_is_read_or_is_a_kernel_error(junk: Any) -> None:
    check_json(junk)
    check_json({"format": "mercer-kernel", "version": 1, "kernel": junk})


def check_json(document: Any) -> None:
    try:
        kernel = from_json(document)
    except KernelError:  # any other exception fails the test
        return
    assert reads_back(kernel)


def damage(document: dict[str, Any], data: st.DataObject) -> None:
    """Replace, remove or move one entry, at any depth."""
    place: Any = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or data.draw(st.integers(0, 3)) == 0:
            break
        place = place[key]
    action = data.draw(st.sampled_from(("replace", "remove", "rename")))
    value = place.pop(key) if action != "replace" else None
    if action == "replace":
        place[key] = data.draw(JUNK)
    elif action == "rename" and isinstance(place, dict):
        place[data.draw(st.text(max_size=4))] = value
