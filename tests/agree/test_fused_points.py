"""Gradients by the right-hand points of a rectangle = finite differences, for every kernel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from mercer.compute import fused
from mercer.compute.fused import contract_cross
from mercer.compute.program import Program, compile_program
from mercer.inference.contract import Data
from mercer.inference.vfe import VFE
from mercer.kernels import REGISTRY, Expression, bind, parse
from mercer.kernels.parameters import values_of
from tests.strategies import base_kernels, deep_kernels

ROWS = np.random.default_rng(0).uniform(-2, 2, (9, 3))
POINTS = np.random.default_rng(1).uniform(-2, 2, (4, 3))


def check(program: Program, values: np.ndarray, X: np.ndarray = ROWS, Z: np.ndarray = POINTS) -> None:
    rng = np.random.default_rng(2)
    matrix, left, right = rng.normal(size=(len(X), len(Z))), rng.normal(size=len(X)), rng.normal(size=len(Z))
    weights = matrix + np.outer(left, right)

    def value(moved: np.ndarray) -> float:
        return float((weights * fused.cross(program, values, X, moved)).sum())

    expected, step = np.empty_like(Z), 1e-6
    for place in np.ndindex(Z.shape):
        ahead, behind = Z.copy(), Z.copy()
        ahead[place], behind[place] = Z[place] + step, Z[place] - step
        expected[place] = (value(ahead) - value(behind)) / (2 * step)
    found = contract_cross(program, values, X, Z, matrix, (left, right), moving=True)[1]
    assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * (1 + np.abs(expected).max()))


@pytest.mark.parametrize("symbol", sorted(set(REGISTRY) - {"EXPI", "SUMI"}))
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_base_kernels(symbol: str, data: st.DataObject) -> None:
    expression = data.draw(base_kernels(symbol=symbol))
    check(compile_program(expression), values_of(expression))


@settings(max_examples=15, deadline=None)
@given(expression=deep_kernels())
def test_sums_and_products(expression: Expression) -> None:
    check(compile_program(expression), values_of(expression))


@pytest.mark.parametrize(
    "text", ["NKN(SE + PER + LIN + RQ, Linear4-Product2-Linear1)", "NKN(EXPI + SUMI + M32, Linear2-Product2-Linear1)"]
)
def test_networks(text: str) -> None:
    network = bind(parse(text), 3)
    values = values_of(network)
    check(
        compile_program(network),
        np.where(np.isnan(values), np.random.default_rng(3).uniform(0.4, 1, len(values)), values),
    )


def test_many_rows_are_dealt_out() -> None:
    expression = bind(parse("SE(variance=1, lengthscale=1) * LIN(0, variance=1, offset=0.3)"), 3)
    rng = np.random.default_rng(4)
    X, matrix = rng.normal(size=(700, 3)), rng.normal(size=(700, 4))
    program, values = compile_program(expression), values_of(expression)
    whole = contract_cross(program, values, X, POINTS, matrix, moving=True)[1]
    parts = [
        contract_cross(program, values, X[rows], POINTS, matrix[rows], moving=True)[1]
        for rows in (slice(0, 100), slice(100, 700))
    ]
    assert_allclose(whole, sum(parts), rtol=1e-10)


def test_points_under_a_change_surface_stay() -> None:
    expression = bind(
        parse("CP(SE(variance=1, lengthscale=1), LIN(variance=1, offset=0), location=0.1, width=0.2, on=0)"), 3
    )
    data = Data(ROWS, np.sin(ROWS[:, 0]))
    held = VFE(inducing=4).hold(compile_program(expression), values_of(expression), data)
    assert not held.joint
    plain = bind(parse("SE(variance=1, lengthscale=1)"), 3)
    assert VFE(inducing=4).hold(compile_program(plain), values_of(plain), data).joint
