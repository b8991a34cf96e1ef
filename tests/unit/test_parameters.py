"""Binding to columns, the flat vector, and how many parameters a kernel has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from mercer.errors import KernelError
from mercer.kernels import COS, CPER, LIN, M12, PER, RQ, SE, SM, WN, C, Expression, bind, fixed, layout, parse
from mercer.kernels.parameters import fill_held, held_variances, values_of, with_values


def fitted_variances(kernel: Expression) -> list[int]:
    return [s.leaf for s in layout(kernel).slots if s.spec.name == "variance" and s.fitted]


# ----------------------------------------------------------------------------------------------------------- binding


def test_binding_makes_dimensions_explicit() -> None:
    assert bind(SE(lengthscale=2), 3) == SE(0, 1, 2, lengthscale=2)
    assert bind(SE("b") * PER(0), 2, ["a", "b"]) == SE(1) * PER(0)
    assert bind(SE("b", "a", lengthscale=[1, 2]), 2, ["a", "b"]) == SE(1, 0, lengthscale=[1, 2])
    assert bind(C(2) + WN(), 2) == C(2) + WN(0, 1)
    assert bind(LIN(), 1) == LIN(0)
    assert bind(SM(components=2, frequency=1), 2) == SM(0, 1, components=2, frequency=[1, 1, 1, 1])


@pytest.mark.parametrize("names", [["a", "b"], ("a", "b"), pd.Index(["a", "b"]), np.array(["a", "b"])])
def test_names_may_be_any_sequence(names: Any) -> None:
    two: Any = np.int64(2)
    bound = bind(SE("b"), two, names)
    assert bound == SE(1)
    assert type(next(bound.leaves()).columns[0]) is int


def test_a_bound_kernel_prints_with_names_and_binds_again() -> None:
    names = ["year", "a b"]
    bound = bind(SE("a b", lengthscale=2) * PER("year"), 2, names)
    text = bound.text(names=names)
    assert text == 'SE("a b", lengthscale=2.0) * PER(year)'
    assert bind(parse(text), 2, names) == bound


@pytest.mark.parametrize(
    ("kernel", "dimensions", "names", "parts"),
    [
        (SE(3), 2, None, ["SE(3)", "dimension 3", "0 to 1"]),
        (SE(1), 1, None, ["SE(1)", "dimension 1", "only 0"]),
        (SE("z"), 2, ["a", "b"], ["SE(z)", "'z'", "a, b"]),
        (SE("z"), 2, None, ["SE(z)", "'z'", "no column names", "table"]),
        (SE(0, "a"), 2, ["a", "b"], ["SE(0, a)", "same column twice"]),
        (SE("a"), 2, ["a", "a"], ["SE(a)", "[0, 1]", "column number"]),
        (SE(lengthscale=[1, 2]), 3, None, ["'lengthscale'", "3 value", "2 given"]),
        (LIN(weights=[0.5, 0.5]), 3, None, ["'weights'", "3 value", "2 given"]),
        (SE(), 0, None, ["at least one column", "0"]),
    ],
)
def test_a_refusal_to_bind_says_what_the_data_has(
    kernel: Expression, dimensions: int, names: list[str] | None, parts: list[str]
) -> None:
    with pytest.raises(KernelError) as caught:
        bind(kernel, dimensions, names)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize("read", [layout, values_of, lambda k: with_values(k, np.ones(2))])
def test_an_unbound_kernel_has_no_layout(read: Any) -> None:
    for kernel in (SE(), WN(), PER(0) * LIN()):
        with pytest.raises(KernelError, match="bind"):
            read(kernel)


# ------------------------------------------------------------------------------------------------------------ counts


@pytest.mark.parametrize(
    ("kernel", "variances", "parameters"),
    [
        (SE(0), [0], 2),
        (SE(0) * PER(0), [0], 4),
        (SE(0) + PER(0), [0, 1], 5),
        ((SE(0) + PER(0)) * (LIN(0) + RQ(0)), [0, 1, 3], 9),
        (SE(0) * PER(0) * LIN(0), [0], 5),
        (SE(0) * (PER(0) + LIN(0)), [0, 2], 6),
        (C() * SE(0), [0], 2),
        (2 * SE(0), [0], 2),
        ((C() + SE(0)) * (C() + PER(0)), [0, 1, 3], 6),
        (((SE(0) + PER(0)) * LIN(0) + RQ(0)) * (M12(0) + COS(0)), [0, 1, 3, 5], 12),
        (SE(0, variance=fixed(1)), [], 1),
        (SE(0, variance=fixed(1)) * PER(0), [1], 4),
        (SE(0, variance=fixed(1)) * PER(0, variance=fixed(2)), [], 3),
        ((SE(0, variance=fixed(1)) + PER(0)) * LIN(0), [1, 2], 6),
        ((SE(0, variance=fixed(1)) + PER(0)) * (LIN(0, variance=fixed(1)) + RQ(0)), [1, 3], 8),
        ((SE(0, variance=fixed(1)) + PER(0)) * (LIN(0) + RQ(0)), [1, 2, 3], 9),
        (SE(0, 1), [0], 3),
        (LIN(0, 1), [0], 4),
        (SM(0, 1, components=3), [0], 1 + 2 + 6 + 6),
        (CPER(0, period=fixed(12)), [0], 2),
        (WN(0) + C(), [0, 1], 2),
    ],
    ids=str,
)
def test_known_counts(kernel: Expression, variances: list[int], parameters: int) -> None:
    assert fitted_variances(kernel) == variances
    assert layout(kernel).n_free == parameters == len(layout(kernel).free_paths())


def test_held_variances_are_their_value_or_one() -> None:
    kernel = SE(0) * PER(0) * RQ(0, variance=3)
    assert held_variances(kernel) == {1, 2}
    values = values_of(kernel)
    variances = [values[s.offset] for s in layout(kernel).slots if s.spec.name == "variance"]
    assert np.isnan(variances[0])
    assert variances[1:] == [1.0, 3.0]


def test_held_variances_are_written_out_only_where_the_scale_is_known() -> None:
    known, open_ = SE(0, variance=2) * LIN(0), SE(0) * LIN(0, variance=2)
    assert fill_held(known) == SE(0, variance=2) * LIN(0, variance=1)
    assert fill_held(open_) == open_
    assert fill_held(known + open_) == SE(0, variance=2) * LIN(0, variance=1) + open_
    assert fill_held(SE(0) * PER(0)) == SE(0) * PER(0)


# ------------------------------------------------------------------------------------------------------- flat vector


def test_paths_name_the_free_vector() -> None:
    kernel = SE(0, 1) * LIN(0, 1, offset=fixed(0)) + SM(0, components=2)
    assert layout(kernel).free_paths() == (
        "0:SE.variance",
        "0:SE.lengthscale[0]",
        "0:SE.lengthscale[1]",
        "1:LIN.weights[0]",
        "2:SM.variance",
        "2:SM.weights[0]",
        "2:SM.frequency[0]",
        "2:SM.frequency[1]",
        "2:SM.bandwidth[0]",
        "2:SM.bandwidth[1]",
    )


def test_values_lie_leaf_by_leaf_in_registry_order() -> None:
    kernel = PER(0, variance=1, period=2, lengthscale=3) + LIN(0, variance=4, offset=-5)
    assert values_of(kernel).tolist() == [1, 2, 3, 4, -5, 1]
    changed = with_values(kernel, np.array([6.0, 7, 8, 9, 10, 1]))
    assert changed == PER(0, variance=6, period=7, lengthscale=8) + LIN(0, variance=9, offset=10)
    assert with_values(SE(0), values_of(SE(0))) == SE(0)


def test_fixed_values_stay_fixed() -> None:
    kernel = PER(0, variance=1, period=fixed(2), lengthscale=3)
    assert with_values(kernel, values_of(kernel)) == kernel
    plan = layout(kernel)
    assert plan.from_free(np.zeros(2), values_of(kernel)).tolist() == [1, 2, 1]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_vector_of_the_wrong_length_is_refused(count: int) -> None:
    with pytest.raises(KernelError, match=f"2 values, {count} given"):
        with_values(SE(0), np.ones(count))


def test_a_column_of_categories_stands_for_its_levels() -> None:
    names = ["x", "colour=blue", "colour=red"]
    assert bind(parse("SE(colour) + LIN(x)"), 3, names) == bind(parse("SE(1, 2) + LIN(0)"), 3)
