"""The fused back end = the slow reference = PyTorch; its contraction = autograd = finite differences; threads agree."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from mercer.compute import compiling, fused, torch_backend
from mercer.compute import fused_sweep as sweep
from mercer.compute.program import Affine, LeafNode, Program, Term, compile_program
from mercer.kernels import COS, CPER, LIN, M12, M52, PER, REGISTRY, RQ, SE, SM, WN, C, Expression, bind
from mercer.kernels.parameters import values_of
from mercer.linalg.threads import blas_threads
from tests.agree.slow_reference import difference, slow_gram
from tests.strategies import base_kernels, deep_kernels, inputs, numbers

Array = NDArray[np.float64]
FEW = settings(max_examples=30, deadline=None)
EDGES = [1, 2, 255, 256, 257, 513]

# Every base kernel, products of logs and of plain factors, a sum inside a product, LIN among stationary factors.
LARGE = bind(
    (SE(0, variance=1.5, lengthscale=0.8) + LIN(0, variance=0.3, offset=0.4))
    * (PER(0, variance=1, period=1.3, lengthscale=0.9) * RQ(0, variance=1, lengthscale=2, alpha=0.7) + C(0.2))
    + CPER(0, variance=1, period=0.7, lengthscale=1) * LIN(0, variance=1, offset=-1) * COS(0, variance=1, frequency=0.3)
    + SM(0, components=2, variance=1, weights=[0.4, 0.6], frequency=[0.2, 1.1], bandwidth=[0.1, 0.3])
    + M12(0, variance=0.4, lengthscale=1.7) * WN(0, variance=0.5)
    + M52(0, variance=0.2, lengthscale=0.6),
    1,
)  # fmt: skip


def assert_close(actual: Array | torch.Tensor, expected: Array, size: float = 0.0) -> None:
    """To 1e-10 of each entry, or 1e-12 of the largest (or of `size`) where large numbers cancel to nearly zero.

    What is below 1e-300 counts as zero: the exponential stops at exp(-708).
    """
    scale = max(size, float(np.max(np.abs(expected), initial=0.0)))
    assert_allclose(np.asarray(actual), expected, rtol=1e-10, atol=1e-12 * scale + 1e-300)


def tensor(array: Array) -> torch.Tensor:
    return torch.as_tensor(np.asarray(array, dtype=np.float64))


def check_values(expression: Expression, X: Array, Z: Array) -> None:
    program, values = compile_program(expression), values_of(expression)
    gram, cross = slow_gram(expression, X), slow_gram(expression, X, Z)
    size = float(np.max(np.diag(gram)))
    assert_close(fused.gram(program, values, X), gram)
    assert_close(fused.cross(program, values, X, Z), cross, size)
    assert_close(fused.diagonal(program, values, X), np.diag(gram))
    assert_close(torch_backend.gram(program, tensor(values), tensor(X)), gram)
    assert_close(torch_backend.cross(program, tensor(values), tensor(X), tensor(Z)), cross, size)


def weights_for(n: int) -> tuple[Array, Array]:
    """A symmetric matrix and a vector, as the inverse and the solution are in the evidence."""
    rng = np.random.default_rng(n)
    matrix = rng.normal(size=(n, n))
    return matrix + matrix.T, rng.normal(size=n)


def lower_only(matrix: Array) -> Array:
    """Nobody may read above the diagonal."""
    return np.where(np.tri(len(matrix), dtype=bool), matrix, np.nan)


def autograd(program: Program, values: Array, X: Array, weights: Array) -> Array:
    leaf = tensor(values).clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad((tensor(weights) * torch_backend.gram(program, leaf, tensor(X))).sum(), leaf)
    return np.asarray(gradient)


def check_contraction(program: Program, values: Array, at: fused.Points) -> None:
    """Against autograd, and slopes of the contracted Gram by differences."""
    X = at.columns.T.copy()
    matrix, vector = weights_for(len(X))
    weights = matrix - np.outer(vector, vector)
    found = fused.contract(program, values, at, lower_only(matrix), vector)
    size = np.abs(weights).sum() * (np.abs(fused.gram(program, values, X)).max() + 1e-6)
    assert_allclose(found, autograd(program, values, X, weights), rtol=1e-9, atol=1e-12 * size)

    def total(i: int, step: float) -> float:
        moved = values.copy()
        moved[i] += step
        return float((weights * fused.gram(program, moved, X)).sum())

    for i in range(len(values)):
        step = 2e-5 * max(abs(values[i]), 0.1)
        assert_allclose(found[i], difference(partial(total, i), step), rtol=1e-5, atol=1e-8 * size)


def general(at: fused.Points) -> fused.Points:
    """The same points, not known to be evenly spaced."""
    return fused.Points(at.columns, frozenset())


def check_even_path(program: Program, values: Array, X: Array) -> None:
    at = fused.points(X)
    assert at.even == {0}
    lower = np.tril(fused.gram_lower(program, values, at))
    assert_close(lower, np.tril(fused.gram_lower(program, values, general(at))))
    order = np.random.default_rng(0).permutation(len(X))
    assert_close((lower + np.tril(lower, -1).T)[np.ix_(order, order)], fused.gram(program, values, X[order]))
    matrix, vector = weights_for(len(X))
    by_lag = fused.contract(program, values, at, lower_only(matrix), vector)
    by_pair = fused.contract(program, values, general(at), lower_only(matrix), vector)
    size = np.abs(matrix - np.outer(vector, vector)).sum() * np.abs(lower).max()
    assert_allclose(by_lag, by_pair, rtol=1e-9, atol=1e-12 * size)


# ----------------------------------------------------------------------------------------------------- random kernels


@pytest.mark.parametrize("symbol", sorted(REGISTRY))
@FEW
@given(data=st.data())
def test_base_kernels_equal_the_slow_reference(symbol: str, data: st.DataObject) -> None:
    check_values(data.draw(base_kernels(symbol=symbol)), data.draw(inputs()), data.draw(inputs()))


@settings(max_examples=60, deadline=None)
@given(expression=deep_kernels(), X=inputs(), Z=inputs())
def test_deep_kernels_equal_the_slow_reference(expression: Expression, X: Array, Z: Array) -> None:
    check_values(expression, X, Z)


@pytest.mark.parametrize("symbol", sorted(REGISTRY))
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_contraction_of_base_kernels(symbol: str, data: st.DataObject) -> None:
    expression, X = data.draw(base_kernels(symbol=symbol)), data.draw(inputs())
    check_contraction(compile_program(expression), values_of(expression), fused.points(X))


@FEW
@given(expression=deep_kernels(), X=inputs())
def test_contraction_of_deep_kernels(expression: Expression, X: Array) -> None:
    check_contraction(compile_program(expression), values_of(expression), fused.points(X))


# --------------------------------------------------------------------------------------------- evenly spaced inputs


@settings(max_examples=60, deadline=None)
@given(expression=deep_kernels(1), rows=st.integers(3, 9), start=numbers(-3, 3), step=numbers(0.25, 1))
def test_evenly_spaced_inputs_take_the_table_and_agree(
    expression: Expression, rows: int, start: float, step: float
) -> None:
    X = start + step * np.arange(rows, dtype=np.float64)[:, None]
    check_even_path(compile_program(expression), values_of(expression), X)
    check_even_path(compile_program(expression), values_of(expression), X[::-1])
    assert_close(fused.gram(compile_program(expression), values_of(expression), X), slow_gram(expression, X))


@settings(max_examples=15, deadline=None)
@given(expression=deep_kernels(1), rows=st.integers(3, 6))
def test_contraction_by_lag_equals_autograd(expression: Expression, rows: int) -> None:
    check_contraction(
        compile_program(expression), values_of(expression), fused.points(0.5 * np.arange(rows, dtype=float)[:, None])
    )


@pytest.mark.parametrize("n", [n for n in EDGES if n > 2])
def test_evenly_spaced_inputs_around_block_edges(n: int) -> None:
    check_even_path(compile_program(LARGE), values_of(LARGE), np.linspace(1949, 1961, n)[:, None])


def test_repeated_and_single_inputs_are_not_evenly_spaced() -> None:
    for column in ([0.0, 0.0, 1.0, 1.0, 2.0, 2.0], [3.0, 3.0, 3.0], [1.0], [1.0, 2.0], [0.0, 1.0, 2.0, 2.0]):
        X = np.array(column)[:, None]
        assert not fused.points(X).even
        check_values(LARGE, X, X[:1])


def test_only_the_columns_that_the_kernel_uses_must_be_evenly_spaced() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=40), np.arange(40) / 4, np.arange(40) * 2.0])
    assert fused.points(X).even == {1, 2}
    one = SE(1, variance=1, lengthscale=2) * LIN(1, variance=1, offset=3)
    both = PER(2, variance=1, period=7, lengthscale=1)
    for kernel in (one, one + both, one * SE(0, variance=1, lengthscale=1)):
        check_values(bind(kernel, 3), X, X[:2])


@pytest.mark.parametrize("wobble", [1e-3, 1e-5, 1e-7, 1e-9])
def test_nearly_even_spacing_far_from_zero_is_not_taken_for_even(wobble: float) -> None:
    """A column around 1e12 has steps that rounding leaves whole; the spacing must be even compared with the step."""
    rng = np.random.default_rng(0)
    step = max(1.0, 2e-4 / wobble)
    X = (1e12 + step * (np.arange(30) + wobble * rng.uniform(-1, 1, 30)))[:, None]
    expression = bind(SE(0, variance=1, lengthscale=2 * step) * PER(0, variance=1, period=5 * step, lengthscale=1), 1)
    assert_close(fused.gram(compile_program(expression), values_of(expression), X), slow_gram(expression, X))


def test_a_monthly_series_in_decimal_years_takes_the_table_after_scaling() -> None:
    years = 1949 + np.arange(144) / 12
    assert fused.points(((years - years.mean()) / years.std())[:, None]).even == {0}


# ------------------------------------------------------------------------------------------- sizes, shapes, threads


@pytest.mark.parametrize("n", EDGES)
def test_sizes_around_block_edges(n: int) -> None:
    X = np.random.default_rng(n).uniform(0, 6, size=(n, 1))
    X[n // 2] = X[0]
    program, values = compile_program(LARGE), values_of(LARGE)
    assert_close(fused.gram(program, values, X), np.asarray(torch_backend.gram(program, tensor(values), tensor(X))))
    Z = X[: max(1, n // 3)]
    for A, B in ((X, Z), (Z, X)):
        expected = torch_backend.cross(program, tensor(values), tensor(A), tensor(B))
        assert_close(fused.cross(program, values, A, B), np.asarray(expected))
    assert_close(fused.diagonal(program, values, X), np.diag(fused.gram(program, values, X)))
    matrix, vector = weights_for(n)
    weights = matrix - np.outer(vector, vector)
    found = fused.contract(program, values, fused.points(X), lower_only(matrix), vector)
    expected = torch_backend.contract(program, tensor(values), tensor(X), tensor(weights))
    assert_allclose(found, np.asarray(expected), rtol=1e-8, atol=1e-10 * np.abs(weights).sum())


def test_no_rows_give_empty_matrices() -> None:
    program, values = compile_program(LARGE), values_of(LARGE)
    none, some = np.empty((0, 1)), np.ones((3, 1))
    assert fused.cross(program, values, none, some).shape == (0, 3)
    assert fused.cross(program, values, some, none).shape == (3, 0)
    assert fused.diagonal(program, values, none).shape == (0,)


@pytest.mark.parametrize("even", [False, True])
def test_one_and_two_threads_give_the_same_bits(even: bool) -> None:
    n = 700
    X = np.linspace(0, 6, n)[:, None] if even else np.random.default_rng(0).uniform(0, 6, size=(n, 1))
    program, values, at = compile_program(LARGE), values_of(LARGE), fused.points(X)
    matrix, vector = weights_for(n)
    results: list[tuple[Array, ...]] = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            assert blas_threads() == threads
            results.append(
                (
                    np.tril(fused.gram_lower(program, values, at)),
                    fused.cross(program, values, X, X[:300]),
                    fused.contract(program, values, at, matrix, vector),
                )
            )
    for one, two in zip(*results, strict=True):
        assert_array_equal(one, two)


# ------------------------------------------------------------------------------------------------- particular values


@pytest.mark.parametrize("lengthscale", [0.05, 0.3, 1.0, 3.0, 4.4, 4.5, 100.0, 1e4])
def test_centred_periodic_from_sharp_to_nearly_a_cosine(lengthscale: float) -> None:
    expression = bind(CPER(0, variance=1.0, period=1.5, lengthscale=lengthscale), 1)
    X = np.array([0.0, 0.07, 0.3, 0.8, 1.1, 1.93, 2.6, 3.17, 4.0])[:, None]
    check_values(expression, X, X[:2])
    check_contraction(compile_program(expression), values_of(expression), fused.points(X))


@pytest.mark.parametrize("far", [0.0, 1e3, 1e6])
def test_waves_far_from_zero(far: float) -> None:
    """Phases are measured from the first point: only the differences count."""
    X = far + np.arange(0, 20, 0.375)[:, None]
    for kernel in (PER(0, variance=1, period=1.5, lengthscale=0.5), COS(0, variance=1, frequency=0.75)):
        check_values(bind(kernel, 1), X, X[:3])


def test_far_points_are_independent_but_never_undefined() -> None:
    expression = bind(SE(0, variance=1, lengthscale=1) + RQ(0, variance=1, lengthscale=1, alpha=2), 1)
    K = fused.gram(compile_program(expression), values_of(expression), np.array([[0.0], [1e8], [-1e8]]))
    assert_allclose(K, 2 * np.eye(3), atol=1e-30)


def test_a_network_reuses_its_nodes() -> None:
    """Nodes with several parents, in a program written by hand, on both paths: (a + 2k)^2 (x x') and the like."""
    nodes = (
        LeafNode("SE", (0,), (0,)),
        LeafNode("COS", (0,), (1,)),
        LeafNode("LIN", (0,), (4, 5)),
        Term((0,), (1,)),
        Term((), ()),
        Affine((3, 4, 3), ((2,), (3, 3), ())),
        Term((0, 0), (5, 5, 2, 3)),
        Term((), (2, 2)),
        Affine((6, 5, 7, 2), ((2, 3), (), (3,), (2,))),
    )
    program = Program(nodes, 6)
    values = np.array([0.7, 0.3, 2.0, 1.5, 0.4, 0.8])
    X = np.linspace(0, 3, 9)[:, None]
    d, x = X - X.T, X - 0.4
    lin = 0.8 * x * x.T
    se = np.exp(-0.5 * d**2 / 0.49)
    k = se * np.cos(2 * math.pi * 0.3 * d)
    inner = 3 * k + 1.5**2
    at = fused.points(X)
    for points in (at, general(at)):
        lower = fused.gram_lower(program, values, points)
        expected = 3 * se**2 * inner**2 * lin * k + inner + 1.5 * lin**2 + 2 * lin
        assert_close(np.tril(lower), np.tril(expected))
        check_contraction(program, values, points)


def test_inputs_may_be_strided_views_of_any_number_type() -> None:
    table: Any = np.arange(24).reshape(8, 3)
    kernels: list[Callable[..., Expression]] = [SE, M12]
    for kernel in kernels:
        expression = bind(kernel(0, variance=1, lengthscale=3), 1)
        program, values = compile_program(expression), values_of(expression)
        expected = slow_gram(expression, table[::2, 1:2].astype(float))
        assert_close(fused.gram(program, values, table[::2, 1:2]), expected)
        assert_close(fused.gram(program, values, np.asfortranarray(table)[::2, 1:2]), expected)


def test_compiled_code_on_disk_is_keyed_by_every_file_compiled_into_it() -> None:
    """Numba itself looks at a function's own file only: a changed leaf would leave the sweeps as they were."""
    dispatcher = sweep.fill_rows
    key = dispatcher._cache._index_key((), dispatcher.targetctx.codegen())
    assert compiling.SOURCES in key


GRADIENT = """
import numpy as np
from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.kernels import COS, LIN, PER, SE, bind
from mercer.kernels.parameters import values_of

kernel = SE(0, variance=1, lengthscale=0.7) + PER(0, variance=1, period=1.3, lengthscale=0.9)
kernel += COS(0, variance=1, frequency=0.3) * LIN(0, variance=0.3, offset=0.4)
expression, rng = bind(kernel, 1), np.random.default_rng(0)
X, matrix, vector = 10 * rng.random((300, 1)), rng.normal(size=(300, 300)), rng.normal(size=300)
print(fused.contract(compile_program(expression), values_of(expression), fused.points(X), matrix, vector).tobytes())
"""


def test_the_run_that_compiles_has_the_digits_of_later_runs(tmp_path: Path) -> None:
    """Numba runs other copies of the leaves in the process that compiled them than in one that loads the sweep."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    command = partial(subprocess.check_output, [sys.executable, "-c", GRADIENT], env=environment)
    first, later = command(), command()
    assert first == later
