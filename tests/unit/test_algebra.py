"""Known canonical forms, and the pieces of an expression."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.compute.fused import gram
from mercer.compute.program import compile_program
from mercer.errors import KernelError
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
    components,
    fixed,
    parse,
    structure,
)
from mercer.kernels.algebra import canonical_structure, described_components, size, subexpressions, substitute
from mercer.kernels.parameters import values_of


@pytest.mark.parametrize(
    ("kernel", "form"),
    [
        (SE(0), SE(0)),
        (SE(0) + PER(0), PER(0) + SE(0)),
        ((SE(0) + PER(0)) * LIN(0), LIN(0) * PER(0) + LIN(0) * SE(0)),
        (SE(0) * (PER(0) + LIN(0) * (RQ(0) + COS(0))), parse("COS(0)*LIN(0)*SE(0) + LIN(0)*RQ(0)*SE(0)+PER(0)*SE(0)")),
        (C(2) * SE(0, variance=3), SE(0, variance=6)),
        (C(2) * C(3), C(6)),
        (C(2) + C(3) + SE(0), C(5) + SE(0)),
        (C(2) * (C(3) + SE(0, variance=1)), C(6) + SE(0, variance=2)),
        (C() * SE(0, variance=3), SE(0)),
        (SE(0, lengthscale=3) * SE(0, lengthscale=4), SE(0, lengthscale=2.4)),
        (SE(0) * SE(1), SE(0) * SE(1)),
        (SE(1, 0, lengthscale=[1, 2]), SE(0, 1, lengthscale=[2, 1])),
        (SE("b", 2, "a", 10), SE("a", "b", 2, 10)),
        (LIN(1, 0, offset=[3, 4], weights=[0.25, 0.75]), LIN(0, 1, offset=[4, 3], weights=[0.75, 0.25])),
        (SM(1, 0, components=2, frequency=[1, 2, 3, 4]), SM(0, 1, components=2, frequency=[2, 1, 4, 3])),
        (WN(0) * SE(0) * PER(0), WN(0)),
        (WN(0) * SE(1), SE(1) * WN(0)),
        (WN(0) * SE(0, 1), SE(0, 1) * WN(0)),
        (WN(0) * LIN(0), LIN(0) * WN(0)),
        (WN(1) * WN(0) * SE(0, 1), WN(0, 1)),
        (WN() * WN(0) * SE(3), WN()),
        (WN(0, variance=2) + WN(0, variance=3), WN(0, variance=5)),
        (WN(0, 1, variance=2) + WN(1, 0, variance=3), WN(0, 1, variance=5)),
        (WN(0) + WN(1), WN(0) + WN(1)),
        (SE(0) + SE(0), SE(0) + SE(0)),
        (C(fixed(2)) * SE(0, variance=fixed(3)), SE(0, variance=fixed(6))),
        (C(fixed(2)) * SE(0, variance=3), SE(0, variance=6)),
        (SE(0, variance=2) * PER(0), PER(0, variance=2) * SE(0, variance=1)),
        (SE(lengthscale=3) * SE(lengthscale=[4, 4]), SE(lengthscale=[2.4, 2.4])),
    ],
    ids=str,
)  # fmt: skip
def test_known_forms(kernel: Expression, form: Expression) -> None:
    assert canonical(kernel).text(digits=14) == form.text(digits=14)
    assert canonical(form).text(digits=14) == form.text(digits=14)


def test_rounding_does_not_depend_on_the_order() -> None:
    values = (0.1, 0.2, 0.3, 0.7)
    products = {canonical(parse(" * ".join(f"SE(0, variance={v}, lengthscale={v})" for v in order)))
                for order in (values, values[::-1], (0.3, 0.1, 0.7, 0.2))}  # fmt: skip
    sums = {canonical(parse(" + ".join(map(str, order)))) for order in (values, values[::-1], (0.3, 0.1, 0.7, 0.2))}
    assert len(products) == len(sums) == 1


@pytest.mark.parametrize("length", [1e-200, 1e200])
def test_extreme_lengthscales_merge(length: float) -> None:
    merged = canonical(SE(0, lengthscale=length) * SE(0, lengthscale=length))
    assert merged.text(digits=8) == SE(0, lengthscale=length / 2**0.5).text(digits=8)


def test_lengthscales_of_different_numbers_of_columns_do_not_merge() -> None:
    with pytest.raises(KernelError, match="3 value"):
        canonical(SE(lengthscale=[1, 2]) * SE(lengthscale=[1, 2, 3]))


def test_structure_forgets_values_but_not_what_has_no_choice() -> None:
    assert structure(SE(0, lengthscale=fixed(2)) * LIN(0, offset=1)) == SE(0) * LIN(0)
    assert structure(SM("x", components=2, frequency=1)) == SM("x", components=2)
    assert canonical_structure(2 * SE(0) + 3 * SE(0)) == SE(0) + SE(0)


def test_components_are_the_summands() -> None:
    assert components((SE(0) + PER(0)) * LIN(0)) == (LIN(0) * PER(0), LIN(0) * SE(0))
    assert components(SE(0)) == (SE(0),)


def test_subexpressions_and_substitution() -> None:
    kernel = (SE(0) + PER(0)) * LIN(0)
    assert dict(subexpressions(kernel)) == {
        (): kernel,
        (0,): SE(0) + PER(0),
        (0, 0): SE(0),
        (0, 1): PER(0),
        (1,): LIN(0),
    }
    assert substitute(kernel, (0, 1), RQ(0)) == (SE(0) + RQ(0)) * LIN(0)
    assert substitute(kernel, (0,), SE(0) * RQ(0)) == SE(0) * RQ(0) * LIN(0)
    assert substitute(kernel, (0, 0), RQ(0) + WN(0)) == (RQ(0) + WN(0) + PER(0)) * LIN(0)
    assert substitute(kernel, (), RQ(0)) == RQ(0)
    assert size(kernel) == 3


def test_a_nearly_flat_factor_is_told_as_its_mean_and_a_wave():
    wave = "PER(0, variance=3, period=0.7, lengthscale=5)"
    kernel = bind(parse(f"LIN(0, variance=2, offset=1) * {wave} + SE(0, variance=1, lengthscale=2)"), 1)
    told = described_components(kernel)
    assert [structure(term).text() for term in told] == ["CPER(0) * LIN(0)", "LIN(0)", "SE(0)"]
    X = np.random.default_rng(0).uniform(-3, 3, (20, 1))
    grams = [gram(compile_program(term), values_of(term), X) for term in told]
    np.testing.assert_allclose(sum(grams), gram(compile_program(kernel), values_of(kernel), X), atol=1e-12)
    alone = bind(parse(wave), 1)
    assert described_components(alone) == (alone,)
