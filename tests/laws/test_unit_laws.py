"""A kernel carried to other units is the same kernel: k(x, x') = y_scale^2 k_scaled((x - shift) / scale, ...)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mercer.kernels import REGISTRY, layout
from mercer.kernels.algebra import structure
from mercer.kernels.expression import Base, Expression, Parameter
from mercer.kernels.parameters import Units, to_data_units, to_scaled_units
from tests.agree.slow_reference import slow_gram
from tests.laws.variations import assert_same_gram, partly_fixed
from tests.strategies import ANYWHERE, base_kernels, inputs, kernels

Rows = NDArray[np.float64]
SETTINGS = settings(max_examples=60, deadline=None)
FEW = settings(max_examples=15, deadline=None)
DIMENSIONS = 3

SCALES = st.floats(0.01, 100)
UNITS = st.builds(
    Units,
    st.tuples(*[st.floats(-100, 100)] * DIMENSIONS),
    st.tuples(*[SCALES] * DIMENSIONS),
    st.one_of(SCALES, SCALES.map(np.float64)),
)


def with_one_scale(kernel: Expression, units: Units) -> Units:
    """Units in which all columns have one scale, where the kernel has one lengthscale for several: see below."""
    isotropic = any(leaf.isotropic for leaf in kernel.leaves())
    return replace(units, scale=units.scale[:1] * DIMENSIONS) if isotropic else units


def check_units(kernel: Expression, Z: Rows, units: Units) -> None:
    units = with_one_scale(kernel, units)
    X = Z * np.array(units.scale) + np.array(units.shift)
    factor = float(units.y_scale) ** 2
    converted = to_data_units(kernel, units)
    expected = factor * slow_gram(kernel, (X - np.array(units.shift)) / np.array(units.scale))
    assert_same_gram(slow_gram(converted, X), expected, 1e-9, tiny=1e-12 * factor)
    back = to_scaled_units(converted, units)
    assert_same_gram(slow_gram(back, Z), slow_gram(kernel, Z), 1e-9, tiny=1e-12)
    for changed in (converted, back):
        assert structure(changed) == structure(kernel)
        assert layout(changed).n_free == layout(kernel).n_free
        assert layout(changed).free_paths() == layout(kernel).free_paths()
        assert all(type(v) is float for leaf in changed.leaves() for p in leaf.parameters for v in p.values or ())


@pytest.mark.parametrize("symbol", ANYWHERE)  # codes of categories have no units
def test_every_base_kernel_keeps_its_gram_in_other_units(symbol: str) -> None:
    @FEW
    @given(base_kernels(symbol=symbol), inputs(max_rows=4), UNITS)
    def check(kernel: Expression, Z: Rows, units: Units) -> None:
        check_units(kernel, Z, units)

    check()


@SETTINGS
@given(partly_fixed(), inputs(max_rows=4), UNITS)
def test_every_kernel_keeps_its_gram_in_other_units(kernel: Expression, Z: Rows, units: Units) -> None:
    check_units(kernel, Z, units)


@SETTINGS
@given(partly_fixed(), inputs(max_rows=4), SCALES)
def test_multiplying_into_the_variances_multiplies_the_gram(kernel: Expression, X: Rows, factor: float) -> None:
    assert_same_gram(slow_gram(kernel.multiply_by(factor), X), factor * slow_gram(kernel, X), 1e-12)


@SETTINGS
@given(kernels(), UNITS)
def test_a_kernel_without_values_stays_without(kernel: Expression, units: Units) -> None:
    assert to_data_units(structure(kernel), with_one_scale(kernel, units)) == structure(kernel)


@pytest.mark.parametrize("symbol", sorted(symbol for symbol, leaf in REGISTRY.items() if leaf.radial))
def test_one_lengthscale_for_all_stays_one_number_whatever_the_scales(symbol: str) -> None:
    """Columns that are scaled differently: the ratios of their lengthscales are kept, and go away on the way back."""

    @FEW
    @given(base_kernels(symbol=symbol), inputs(max_rows=4), UNITS)
    def check(leaf: Base, Z: Rows, units: Units) -> None:
        kernel = replace(leaf, isotropic=True, ratios=(), dims=(0, 2), parameters=_with_one_length(leaf))
        converted = to_data_units(kernel, units)
        X = Z * np.array(units.scale) + np.array(units.shift)
        expected = float(units.y_scale) ** 2 * slow_gram(kernel, (X - np.array(units.shift)) / np.array(units.scale))
        assert_same_gram(slow_gram(converted, X), expected, 1e-9, tiny=1e-12 * float(units.y_scale) ** 2)
        assert layout(converted).free_paths() == layout(kernel).free_paths()
        back = to_scaled_units(converted, units)
        assert structure(back) == structure(kernel)
        assert "isotropic=True" in back.text()
        assert_same_gram(slow_gram(back, Z), slow_gram(kernel, Z), 1e-9, tiny=1e-12)
        assert to_scaled_units(to_data_units(structure(kernel), units), units) == structure(kernel)

    check()


def _with_one_length(leaf: Base) -> tuple[Parameter, ...]:
    return tuple(replace(p, values=(p.values or ())[:1]) if p.name == "lengthscale" else p for p in leaf.parameters)
