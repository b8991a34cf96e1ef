"""Laws of neural kernel networks: every unit is a kernel, and whatever is done to a network keeps what it says."""

from __future__ import annotations

import json
import pickle
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mercer.compute.evaluate import unit_patterns
from mercer.kernels import from_json, layout, parse, structure, to_json
from mercer.kernels.algebra import canonical, components, subexpressions, substitute
from mercer.kernels.expression import Expression
from mercer.kernels.network import Network
from mercer.kernels.parameters import Units, bind, to_data_units, to_scaled_units, values_of, with_values
from mercer.kernels.polynomial import degree
from tests.agree.slow_reference import slow_gram, slow_kernel, slow_units
from tests.laws.variations import assert_same_gram
from tests.strategies import inputs, kernels, networks

Rows = NDArray[np.float64]
SETTINGS = settings(max_examples=40, deadline=None)
FEW = settings(max_examples=20, deadline=None)
ANY = st.booleans().flatmap(lambda complex: networks(complex=complex))
UNITS = Units((3.0, -1.0, 50.0), (2.0, 0.5, 20.0), 7.0)


def unit_grams(network: Network, X: Rows) -> list[NDArray[np.complex128]]:
    """The matrix of every unit of every layer, (N, N, units)."""
    pairs = [[slow_units(network, x, z) for z in X.tolist()] for x in X.tolist()]
    return [np.array([[pair[layer] for pair in row] for row in pairs]) for layer in range(len(pairs[0][0]))]


@pytest.mark.parametrize("complex", [False, True])
def test_every_unit_is_a_kernel(complex: bool) -> None:
    @SETTINGS
    @given(networks(complex=complex), inputs())
    def check(network: Network, X: Rows) -> None:
        for layer in unit_grams(network, X):
            for unit in np.moveaxis(layer, 2, 0):
                size = np.trace(unit).real + 1e-300
                np.testing.assert_allclose(unit / size, unit.conj().T / size, rtol=0, atol=1e-13)
                assert np.linalg.eigvalsh(unit).min() >= -1e-9 * size
                assert np.linalg.eigvalsh(unit.real).min() >= -1e-9 * size

    check()


@FEW
@given(ANY, inputs(max_rows=4), inputs(max_rows=4))
def test_patterns_are_the_units(network: Network, X: Rows, Z: Rows) -> None:
    patterns = unit_patterns(network, X, Z)
    assert [len(p.names) for p in patterns] == [len(p.values) for p in patterns]
    for layer, pattern in enumerate(patterns[1:]):
        for place, values in enumerate(pattern.values):
            alone = network.unit(layer, place)
            np.testing.assert_allclose(unit_patterns(alone, X, Z)[-1].values[0], values, rtol=1e-12)
    for i, x in enumerate(X.tolist()):
        for j, z in enumerate(Z.tolist()):
            for pattern, expected in zip(patterns, slow_units(network, x, z), strict=True):
                np.testing.assert_allclose(pattern.values[:, i, j], expected, rtol=1e-9, atol=1e-10)


@FEW
@given(st.booleans().flatmap(lambda complex: networks(complex=complex, exp=False)), inputs(max_rows=3))
def test_the_polynomial_is_the_network(network: Network, X: Rows) -> None:
    if comb(len(network.primitives) + degree(network), degree(network)) > 5000:
        return  # some seconds each
    terms = network.polynomial(top=None)
    assert [t.coefficient for t in terms] == sorted((t.coefficient for t in terms), reverse=True)
    assert network.polynomial(top=3) == terms[:3]
    for x in X.tolist():
        for z in X.tolist():
            units = slow_units(network, x, z)
            total = sum(t.coefficient * np.prod(np.power(units[0], t.powers)) for t in terms)
            np.testing.assert_allclose(total, units[-1][0], rtol=1e-8, atol=1e-9)


@SETTINGS
@given(ANY)
def test_text_and_json_read_back(network: Network) -> None:
    for kernel in (network, structure(network)):
        assert parse(str(kernel)) == kernel
        assert from_json(json.loads(json.dumps(to_json(kernel)))) == kernel
        assert pickle.loads(pickle.dumps(kernel)) == kernel
        assert hash(parse(str(kernel))) == hash(kernel)


@FEW
@given(ANY, kernels(), kernels())
def test_networks_live_inside_other_kernels(network: Network, a: Expression, b: Expression) -> None:
    kernel = (network + a) * b
    assert parse(str(kernel)) == kernel
    assert from_json(json.loads(json.dumps(to_json(kernel)))) == kernel
    bound = bind(kernel, 3)
    values = values_of(bound)
    assert with_values(bound, values) == bound
    assert len(values) == layout(bound).n_values
    for path, node in subexpressions(kernel):
        assert substitute(kernel, path, node) == kernel


@FEW
@given(ANY, kernels(), inputs(max_rows=4))
def test_canonical_form_takes_a_network_as_a_whole(network: Network, other: Expression, X: Rows) -> None:
    kernel = (other + 2.5) * network + other
    form, gram = canonical(kernel), slow_gram(kernel, X)
    tiny = 1e-12 * max(1.0, float(np.abs(gram).max()))
    assert_same_gram(slow_gram(form, X), gram, 1e-10, tiny)
    assert_same_gram(np.sum([slow_gram(part, X) for part in components(kernel)], axis=0), gram, 1e-10, tiny)
    assert canonical(form) == form
    assert components(network) == (network,)


@FEW
@given(ANY, kernels(), inputs(max_rows=4))
def test_units_change_and_back(network: Network, other: Expression, Z: Rows) -> None:
    for kernel in (network, network * other, network + other):
        X = Z * np.array(UNITS.scale) + np.array(UNITS.shift)
        converted = to_data_units(kernel, UNITS)
        expected = UNITS.y_scale**2 * slow_gram(kernel, Z)
        tiny = 1e-11 * max(1.0, float(np.abs(expected).max()))
        assert_same_gram(slow_gram(converted, X), expected, 1e-9, tiny)
        assert_same_gram(slow_gram(to_scaled_units(converted, UNITS), Z), slow_gram(kernel, Z), 1e-9, tiny)
        assert layout(converted).n_free == layout(bind(kernel, 3)).n_free


@FEW
@given(ANY)
def test_the_free_vector_gives_the_values_back(network: Network) -> None:
    shape, values = layout(network), values_of(network)
    free = shape.to_free(values)
    assert len(free) == shape.n_free == len(shape.free_paths())
    np.testing.assert_allclose(shape.from_free(free, values), values, rtol=1e-12, atol=0)


@FEW
@given(ANY, inputs(max_rows=1))
def test_a_scaled_network_is_a_multiple(network: Network, X: Rows) -> None:
    x = X[0].tolist()
    one, other = slow_kernel(network, x, x), slow_kernel(network.multiply_by(3.0), x, x)
    np.testing.assert_allclose(other, 3.0 * one, rtol=1e-12)
