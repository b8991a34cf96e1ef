"""Random features: how many there are, that draws are repeatable, which rows they work on, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ive

from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.compute.spectral import columns_of_part, draw_features
from mercer.compute.spectral_draws import log_bessel, log_bessel_slope
from mercer.errors import InputError, KernelError
from mercer.kernels import CPER, LIN, M32, PER, RQ, SE, WN, C, bind, components
from mercer.kernels.expression import Expression, build_base
from mercer.kernels.network import network
from mercer.kernels.parameters import values_of

TREND = LIN(0, 1, variance=0.7, offset=[0.5, -1], weights=[0.25, 0.75])
WAVE = PER(0, variance=1.2, period=1.3, lengthscale=0.8)
SMOOTH = SE(0, 1, variance=2, lengthscale=[0.6, 1.5])
X = np.random.default_rng(5).uniform(-2, 2, (7, 2))


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def gram(expression: Expression, rows: np.ndarray = X) -> np.ndarray:
    bound = bind(expression, rows.shape[1])
    return fused.gram(compile_program(bound), values_of(bound), rows)


@pytest.mark.parametrize("count", [2, 7, 64, 301])
def test_a_stationary_kernel_has_count_columns_less_one_where_it_is_odd(count: int) -> None:
    features = draw_features(SMOOTH, count, 2, rng())
    assert features.count == count // 2 * 2
    assert features.phi(X).shape == (7, features.count)


@pytest.mark.parametrize("count", [20, 33, 100, 257])
def test_several_summands_share_the_count(count: int) -> None:
    kernel = SMOOTH + TREND * WAVE + RQ(1, variance=0.1, lengthscale=1, alpha=1) + C(0.5) + TREND
    features = draw_features(kernel, count, 2, rng(), X)
    shares = [len(features.columns_of(number)) for number in range(len(features.atoms.summands))]
    assert count - 3 <= features.count <= count
    assert sum(shares) == features.count
    assert shares[3:] == [1, 2]
    assert min(shares) >= 1
    assert shares[0] > shares[2]


def test_kernels_of_few_products_are_exact() -> None:
    cosine = build_base("COS", 0, 1, variance=0.3, frequency=[0.2, 0.7])
    for kernel, columns in [(TREND, 2), (TREND * TREND, 4), (cosine, 2), (cosine * TREND, 4), (C(2.0), 1)]:
        features = draw_features(kernel, 50, 2, rng())
        assert features.count == columns
        assert_allclose(features.phi(X) @ features.phi(X).T, gram(kernel), rtol=1e-12, atol=1e-13)


def test_the_norm_of_stationary_features_is_the_variance_of_the_kernel() -> None:
    kernel = SMOOTH * WAVE + M32(1, variance=0.4, lengthscale=1) + CPER(0, variance=3, period=2, lengthscale=1.1)
    phi = draw_features(kernel, 90, 2, rng()).phi(X)
    assert_allclose((phi**2).sum(axis=1), 2 * 1.2 + 0.4 + 3)


def test_the_same_seed_gives_the_same_features_and_another_one_others() -> None:
    kernel = SMOOTH * (WAVE + TREND)
    one, same, other = (draw_features(kernel, 40, 2, rng(seed)).phi(X) for seed in (3, 3, 4))
    assert_array_equal(one, same)
    assert not np.allclose(one, other)


def test_features_of_new_rows_do_not_depend_on_the_others() -> None:
    features = draw_features(SMOOTH * TREND + WAVE, 40, 2, rng(), X)
    assert_allclose(features.phi(X[3:5]), features.phi(X)[3:5], rtol=1e-13)
    assert features.phi(X[:0]).shape == (0, features.count)


def test_a_wide_kernel_keeps_its_accuracy_far_from_zero() -> None:
    far = X + 1e9
    features = draw_features(SE(0, variance=1, lengthscale=1), 4000, 2, rng(), far)
    assert_allclose(features.phi(far) @ features.phi(far).T, gram(SE(0, variance=1, lengthscale=1), far), atol=0.1)


def test_white_noise_is_a_variance_and_not_a_feature() -> None:
    kernel = SMOOTH + WN(0, variance=0.3) + (TREND + WAVE) * WN(1, variance=0.5)
    features, plain = draw_features(kernel, 60, 2, rng()), draw_features(SMOOTH, 60, 2, rng())
    assert_allclose(features.phi(X), plain.phi(X))
    assert_allclose(features.noise(X), np.diag(gram(kernel)) - 2)
    assert not plain.has_noise
    assert_array_equal(plain.noise(X), np.zeros(7))
    only = draw_features(WN(0, variance=0.3), 60, 2, rng())
    assert_array_equal(only.phi(X), np.zeros((7, 1)))


def test_the_columns_of_all_components_are_those_of_the_kernel() -> None:
    kernel = bind(
        (TREND + WAVE * SMOOTH + C(0.3)) * SE(0, 1, variance=1, lengthscale=3) + C(1.5) + WN(0, variance=1), 2
    )
    features = draw_features(kernel + C(0.5), 90, 2, rng())
    found = [columns_of_part(features, compile_program(part), values_of(part)) for part in components(kernel + C(0.5))]
    assert all(columns is not None for columns in found)
    together = np.concatenate([columns for columns in found if columns is not None])
    assert_array_equal(np.sort(together), np.arange(features.count))


def test_a_part_that_is_not_one_of_the_kernels_has_no_columns() -> None:
    features = draw_features(SMOOTH + WAVE, 60, 2, rng())
    for other in (SE(0, variance=2, lengthscale=0.6), PER(0, variance=1, period=1.3, lengthscale=0.8), C(1.0)):
        assert columns_of_part(features, compile_program(bind(other, 2)), values_of(bind(other, 2))) is None


def test_equal_summands_have_columns_of_their_own() -> None:
    features = draw_features(WAVE + WAVE, 60, 2, rng())
    first = columns_of_part(features, compile_program(bind(WAVE, 2)), values_of(bind(WAVE, 2)))
    assert first is not None
    assert len(first) == 30


def test_what_cannot_be_drawn_is_refused_with_a_reason() -> None:
    with pytest.raises(KernelError, match="all its values set"):
        draw_features(SE(0), 10, 1, rng())
    with pytest.raises(InputError, match="at least 5"):
        draw_features(SMOOTH + WAVE + C(1.0), 4, 2, rng())
    complex_unit = build_base("EXPI", 0, variance=1, frequency=0.3)
    bare = network([complex_unit, SE(0, variance=1, lengthscale=1)], "Linear2-Product1-Linear1")
    with pytest.raises(KernelError, match=r"EXPI.*complex units"):
        draw_features(bare.with_weights([1.0, 1.0], [1.0, 1.0]), 10, 1, rng())


@pytest.mark.parametrize("q", [1e-6, 0.3, 50.0, 2e4, 1e6])
def test_bessel_weights_and_their_slopes(q: float) -> None:
    n, at = np.array([0.0, 1, 2, 5, 30, 300, 2000])[: 7 if q > 1e3 else 4], np.array(q)
    assert_allclose(log_bessel(n, at), np.log(ive(n, q)), rtol=1e-9, atol=1e-9)
    slope = (log_bessel(n, at * 1.0001) - log_bessel(n, at * 0.9999)) / (2e-4 * q)
    assert_allclose(log_bessel_slope(n, at), slope, rtol=1e-6)
