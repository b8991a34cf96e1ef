"""Laws of kernels and of their algebra, on random kernels up to four operators deep."""

from __future__ import annotations

import pickle
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mercer.kernels import REGISTRY
from mercer.kernels.algebra import (
    canonical,
    canonical_structure,
    components,
    size,
    structure,
    subexpressions,
    substitute,
)
from mercer.kernels.expression import Base, Expression, Product, Sum
from mercer.kernels.parameters import bind, fill_held
from tests.agree.slow_reference import slow_gram
from tests.laws.variations import assert_same_gram, mergers, partly_fixed, partly_set, redistributed, reordered
from tests.strategies import base_kernels, deep_kernels, inputs, kernels

SETTINGS = settings(max_examples=50, deadline=None)
FEW = settings(max_examples=25, deadline=None)
Rows = NDArray[np.float64]


def assert_is_kernel_matrix(gram: Rows) -> None:
    np.testing.assert_allclose(gram, gram.T, rtol=0, atol=1e-13 * np.trace(gram))
    assert np.linalg.eigvalsh(gram).min() >= -1e-9 * np.trace(gram)


@pytest.mark.parametrize("symbol", sorted(REGISTRY))
def test_every_base_kernel_is_positive_semi_definite(symbol: str) -> None:
    @FEW
    @given(base_kernels(symbol=symbol), inputs())
    def check(kernel: Base, X: Rows) -> None:
        assert_is_kernel_matrix(slow_gram(kernel, X))

    check()


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_every_kernel_is_positive_semi_definite(dimensions: int) -> None:
    @FEW
    @given(deep_kernels(dimensions), inputs(dimensions))
    def check(kernel: Expression, X: Rows) -> None:
        assert_is_kernel_matrix(slow_gram(kernel, X))

    check()


@FEW
@given(kernels(), kernels(), kernels(), inputs(max_rows=4))
def test_products_distribute_over_sums(a: Expression, b: Expression, c: Expression, X: Rows) -> None:
    A, B, C = (slow_gram(k, X) for k in (a, b, c))
    assert_same_gram(slow_gram((a + b) * c, X), (A + B) * C, 1e-10)
    assert_same_gram(slow_gram(a * c + b * c, X), (A + B) * C, 1e-10)
    assert_same_gram(slow_gram(a * (b + c), X), A * (B + C), 1e-10)
    assert_same_gram(slow_gram(((a + b) * c + a) * b, X), ((A + B) * C + A) * B, 1e-10)


@SETTINGS
@given(kernels(), kernels(), kernels())
def test_sums_and_products_are_flat_and_never_confused(a: Expression, b: Expression, c: Expression) -> None:
    assert (a + b) + c == a + (b + c)
    assert (a * b) * c == a * (b * c)
    assert isinstance((a + b) * c, Product)
    assert isinstance(a * b + c, Sum)
    for _, node in subexpressions((a + b) * c + a):
        assert not any(type(child) is type(node) for child in node.children)


@SETTINGS
@given(partly_fixed(), inputs(max_rows=4))
def test_canonical_form_keeps_the_gram(kernel: Expression, X: Rows) -> None:
    form, gram = canonical(kernel), slow_gram(kernel, X)
    assert_same_gram(slow_gram(form, X), gram, 1e-10)
    parts = [slow_gram(part, X) for part in components(kernel)]
    assert_same_gram(np.sum(parts, axis=0), gram, 1e-10)


@SETTINGS
@given(mergers(3))
def test_merging_keeps_the_gram_where_rows_share_some_coordinates(kernel: Expression) -> None:
    corners = np.indices((2, 2, 2)).reshape(3, -1).T
    assert_same_gram(slow_gram(canonical(kernel), corners), slow_gram(kernel, corners), 1e-10)


@SETTINGS
@given(st.one_of(partly_fixed(), partly_set()))
def test_canonical_form_is_a_sum_of_products_and_stays(kernel: Expression) -> None:
    form = canonical(kernel)
    assert canonical(form) == form
    for part in components(kernel):
        assert isinstance(part, Base) or all(isinstance(factor, Base) for factor in part.children)
    assert canonical_structure(form) == canonical_structure(kernel)


@SETTINGS
@given(partly_fixed(), st.data())
def test_canonical_form_does_not_depend_on_the_writing(kernel: Expression, data: st.DataObject) -> None:
    other = data.draw(reordered(redistributed(data.draw(reordered(kernel)))))
    assert canonical(other) == canonical(kernel)
    assert canonical_structure(other) == canonical_structure(kernel)


@SETTINGS
@given(partly_set())
def test_structure_has_no_values_and_stays(kernel: Expression) -> None:
    bare = structure(kernel)
    assert structure(bare) == bare
    assert size(bare) == size(kernel)
    for leaf in bare.leaves():
        for parameter, spec in zip(leaf.parameters, leaf.specs, strict=True):
            assert not parameter.fixed
            assert parameter.values is None or spec.domain.free_size(len(parameter.values)) == 0


@SETTINGS
@given(partly_set())
def test_every_node_can_be_replaced_by_itself(kernel: Expression) -> None:
    for path, node in subexpressions(kernel):
        assert substitute(kernel, path, node) == kernel
    assert kernel.map_leaves(lambda leaf: leaf) == kernel


@SETTINGS
@given(partly_set())
def test_equal_kernels_have_equal_hashes(kernel: Expression) -> None:
    copy = deepcopy(kernel)
    assert copy == kernel
    assert hash(copy) == hash(kernel)
    assert {kernel: 1}[copy] == 1
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert kernel + kernel != kernel
    assert kernel * kernel != kernel + kernel


@SETTINGS
@given(kernels())
def test_binding_a_bound_kernel_changes_nothing(kernel: Expression) -> None:
    assert bind(kernel, 3) == kernel
    assert fill_held(kernel) == kernel
