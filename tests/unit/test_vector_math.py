"""exp, log and log1p for vector registers are within 4 units in the last place of numpy's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mercer.compute import vector_math as vm

Array = NDArray[np.float64]
SMALLEST, LARGEST = float(np.finfo(float).tiny), float(np.finfo(float).max)
MANY = settings(max_examples=300, deadline=None)


def units_apart(found: Array, expected: Array) -> float:
    return float(np.max(np.abs(found - expected) / np.spacing(np.abs(expected)), initial=0.0))


def compare(function: Callable[[float], float], reference: Callable[[Array], Array], points: Array) -> None:
    found = np.array([function(x) for x in points])
    assert units_apart(found, reference(points)) <= 4


@MANY
@given(st.floats(-708, 709))
def test_exp(x: float) -> None:
    compare(vm.exp, np.exp, np.array([x]))


@MANY
@given(st.floats(SMALLEST, LARGEST))
def test_log(x: float) -> None:
    compare(vm.log, np.log, np.array([x]))


@MANY
@given(st.floats(0, 1e300))
def test_log1p(x: float) -> None:
    compare(vm.log1p, np.log1p, np.array([x]))


def test_exp_on_dense_grids() -> None:
    compare(vm.exp, np.exp, np.linspace(-708, 709, 20_011))
    compare(vm.exp, np.exp, np.linspace(-1, 1, 20_011))
    halves = np.log(2) * (np.arange(-1000, 1000) + 0.5)  # where the nearest power of two changes
    compare(vm.exp, np.exp, np.concatenate([halves, np.nextafter(halves, 1e9), np.nextafter(halves, -1e9)]))


def test_log_on_dense_grids() -> None:
    compare(vm.log, np.log, np.exp(np.linspace(-708, 709, 20_011)))
    compare(vm.log, np.log, np.linspace(0.5, 2, 20_011))
    compare(vm.log, np.log, 1 + np.linspace(-1e-6, 1e-6, 4_001))
    corners = np.sqrt(0.5) * 2.0 ** np.arange(-1000, 1000)  # where the exponent changes
    compare(vm.log, np.log, np.concatenate([corners, np.nextafter(corners, 1e308), np.nextafter(corners, 0)]))


def test_log1p_on_dense_grids() -> None:
    compare(vm.log1p, np.log1p, np.exp(np.linspace(-700, 690, 20_011)))
    compare(vm.log1p, np.log1p, np.linspace(0, 3, 20_011))


def test_exact_values() -> None:
    assert vm.exp(0.0) == 1.0
    assert vm.log(1.0) == 0.0
    assert vm.log1p(0.0) == 0.0
    assert vm.log1p(1e-300) == 1e-300


@pytest.mark.parametrize(("x", "nearer"), [(-1e9, -708.0), (-709.0, -708.0), (-np.inf, -708.0), (1e9, 709.0)])
def test_exp_stops_at_its_ends(x: float, nearer: float) -> None:
    assert vm.exp(x) == vm.exp(nearer)


def test_exp_is_monotone_where_powers_change() -> None:
    x = np.linspace(-5, 5, 50_001)
    found = np.array([vm.exp(v) for v in x])
    assert (np.diff(found) > 0).all()
