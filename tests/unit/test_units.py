"""Known conversions between data units and scaled units."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.errors import KernelError
from mercer.kernels import COS, CPER, LIN, PER, RQ, SE, SM, WN, C, Expression, fixed, layout
from mercer.kernels.parameters import Units, to_data_units, to_scaled_units

UNITS = Units(shift=(100.0, 0.0), scale=(10.0, 0.5), y_scale=3.0)


@pytest.mark.parametrize(
    ("scaled", "data"),
    [
        (SE(0, variance=1, lengthscale=2), SE(0, variance=9, lengthscale=20)),
        (SE(1, 0, variance=1, lengthscale=[2, 3]), SE(1, 0, variance=9, lengthscale=[1, 30])),
        (PER(0, variance=1, period=2, lengthscale=3), PER(0, variance=9, period=20, lengthscale=3)),
        (CPER(1, variance=1, period=fixed(2), lengthscale=3), CPER(1, variance=9, period=fixed(1), lengthscale=3)),
        (RQ(0, variance=1, lengthscale=2, alpha=3), RQ(0, variance=9, lengthscale=20, alpha=3)),
        (COS(0, variance=1, frequency=2), COS(0, variance=9, frequency=0.2)),
        (C(2) + WN(0, variance=1), C(18) + WN(0, variance=9)),
        (LIN(0, variance=100, offset=2), LIN(0, variance=9, offset=120)),
        (LIN(0, variance=fixed(100), offset=2), LIN(0, variance=fixed(9), offset=120)),
        (
            SM(0, components=2, variance=1, weights=[0.5, 0.5], frequency=[1, 2], bandwidth=[3, 4]),
            SM(0, components=2, variance=9, weights=[0.5, 0.5], frequency=[0.1, 0.2], bandwidth=[0.3, 0.4]),
        ),
        (SE(0) + PER(0, period=2), SE(0) + PER(0, period=20)),
    ],
    ids=str,
)
def test_known_conversions(scaled: Expression, data: Expression) -> None:
    assert to_data_units(scaled, UNITS).text(digits=12) == data.text(digits=12)
    assert to_scaled_units(data, UNITS).text(digits=12) == scaled.text(digits=12)


def test_a_product_keeps_one_variance() -> None:
    kernel = to_data_units(SE(0, variance=2, lengthscale=1) * LIN(0, variance=1, offset=0), UNITS)
    assert kernel == SE(0, variance=18 / 100, lengthscale=10) * LIN(0, variance=1, offset=100)


def test_a_factor_goes_where_the_scale_is_free() -> None:
    pinned = SE(0, variance=fixed(1)) + PER(0, variance=1)
    assert (pinned * LIN(0, variance=1)).multiply_by(2) == pinned * LIN(0, variance=2)
    assert pinned.multiply_by(2) == SE(0, variance=fixed(2)) + PER(0, variance=2)


def test_an_unset_held_variance_is_one_in_the_units_it_came_from() -> None:
    explicit = to_data_units(SE(0, variance=2, lengthscale=1) * LIN(0, variance=1, offset=0), UNITS)
    assert to_data_units(SE(0, variance=2, lengthscale=1) * LIN(0, offset=0), UNITS) == explicit


def test_weights_of_a_line_follow_their_columns() -> None:
    kernel = to_data_units(LIN(0, 1, variance=1, offset=0, weights=[0.5, 0.5]), UNITS)
    total = 0.5 / 100 + 0.5 / 0.25
    leaf = next(kernel.leaves())
    np.testing.assert_allclose(leaf.parameter("weights").values or (), [0.5 / 100 / total, 0.5 / 0.25 / total])
    np.testing.assert_allclose(leaf.parameter("variance").values or (), [9 * total])


def test_numpy_scalars_do_not_leak_into_a_kernel() -> None:
    units = Units(tuple(np.array([100.0])), tuple(np.array([10.0])), np.float64(3))
    kernel = SE(0, variance=1, lengthscale=2) * LIN(0, variance=1, offset=2)
    for converted in (to_data_units(kernel, units), to_scaled_units(kernel, units), kernel.multiply_by(np.float64(2))):
        assert "np." not in str(converted)


def test_fixed_parameters_stay_fixed() -> None:
    kernel = SE(0, variance=fixed(1), lengthscale=fixed(2)) * PER(0, variance=2, period=fixed(1), lengthscale=1)
    converted = to_data_units(kernel, UNITS)
    assert converted == SE(0, variance=fixed(1), lengthscale=fixed(20)) * PER(
        0, variance=18, period=fixed(10), lengthscale=1
    )
    assert layout(converted).free_paths() == layout(kernel).free_paths()


@pytest.mark.parametrize("kernel", [SE(lengthscale=1), SE("x", lengthscale=1), WN(variance=1)])
def test_an_unbound_kernel_is_refused(kernel: Expression) -> None:
    with pytest.raises(KernelError, match="bind"):
        to_data_units(kernel, UNITS)
