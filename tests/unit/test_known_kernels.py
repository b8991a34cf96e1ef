"""Whether a search found a known kernel: by what the kernel is as a function, however it is written."""

from __future__ import annotations

import pytest
from benchmarks.known_kernels import recovered

from mercer.kernels import bind, parse


@pytest.mark.parametrize(
    ("found", "truth", "same"),
    [
        ("SE(0, 1)", "SE(0)*SE(1)", True),
        ("SE(1, 2) + SE(0)*SE(1)", "SE(0)*SE(1) + SE(1)*SE(2)", True),
        ("RQ(0, 1)", "SE(0)*SE(1)", False),  # on several columns no product
        ("SE(0)", "SE(0)*SE(1)", False),
        ("SE(0)", "", False),
        ("CPER(0) + SE(0)", "SE(0) + PER(0)", True),  # a constant less, which the level has
        ("CPER(0)*LIN(0)", "LIN(0)*PER(0)", False),  # a line less
    ],
)
def test_a_kernel_on_several_columns_is_the_product_that_it_is(found: str, truth: str, same: bool):
    assert recovered(bind(parse(found), 3), truth) is same
