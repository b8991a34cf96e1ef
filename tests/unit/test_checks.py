"""Residual checks: each finds what it looks for, and raises few false alarms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mercer.explain.checks import (
    CLEAR,
    KINDS,
    Check,
    Residual,
    ResidualCheck,
    autocorrelation,
    band,
    correlations,
    period,
    periodogram,
    residual_checks,
    shape,
    spread,
)
from mercer.explain.claims import Claim
from mercer.explain.wording import Column, Vocabulary
from mercer.explain.words import NOTHING_LEFT, TOO_FEW_TO_CHECK, residual_sentence, say

N = 120
AT = np.arange(float(N))
WHITE = np.random.default_rng(0).normal(size=N)
MONTH = Column("month", "months", 0.0, N - 1.0, lambda value: f"month {value:.0f}")


def said(check: Check, column: str | None = "month", distance: float | None = 1.0, at: float | None = 7.0) -> str:
    claim = Claim(KINDS[check.name], "sales", Residual(check, N, column, distance, at))
    return say(claim, Vocabulary("sales", (MONTH,)))


def test_white_noise_passes() -> None:
    checks = residual_checks(WHITE, AT, WHITE)
    assert [check.name for check in checks] == ["autocorrelation", "period", "shape", "spread", "band"]
    assert all(check.clear for check in checks)
    found = [ResidualCheck(each.name, each.statistic, each.p_value, each.clear, said(each)) for each in checks]
    assert residual_sentence(found) == NOTHING_LEFT


def test_few_rows_and_no_order() -> None:
    assert residual_checks(WHITE[:9], AT[:9], WHITE[:9]) == ()
    assert residual_sentence(()) == TOO_FEW_TO_CHECK
    assert [check.name for check in residual_checks(WHITE, None, AT)] == ["shape", "spread", "band"]


@pytest.mark.parametrize("even", [True, False])
def test_false_alarms_are_as_frequent_as_they_should_be(even: bool) -> None:
    rng = np.random.default_rng(1)
    alarms = {}
    for _ in range(300):
        at = AT[:80] if even else np.sort(rng.uniform(0, 10, 80))
        for check in residual_checks(rng.normal(size=80), at, at):
            alarms[check.name] = alarms.get(check.name, 0) + (check.p_value < 0.05)
    assert all(count <= 33 for count in alarms.values()), alarms  # 15 expected
    assert all(count >= 3 for name, count in alarms.items() if name != "band"), alarms  # a count of rows is coarse


def test_ljung_box_by_hand() -> None:
    errors = np.array([1.0, -0.5, 0.3, 0.8, -1.2, 0.1, 0.4, -0.9, 0.2, -0.3])
    centred = errors - errors.mean()
    by_hand = [float((centred[k:] * centred[:-k]).sum() / (centred**2).sum()) for k in (1, 2)]
    np.testing.assert_allclose(correlations(errors, 2), by_hand)
    q = 10 * 12 * (by_hand[0] ** 2 / 9 + by_hand[1] ** 2 / 8)
    assert autocorrelation(errors).p_value == pytest.approx(stats.chi2.sf(q, 2))


def test_neighbours_that_are_alike() -> None:
    errors = np.convolve(WHITE, [0.6, 0.6], mode="same")
    check = autocorrelation(errors)
    assert check.p_value < CLEAR
    assert check.place == 1
    assert said(check).startswith("Errors 1.00 months apart are alike: their correlation is 0.")
    assert "next to each other" in said(check, distance=None, at=None)


@pytest.mark.parametrize("at", [AT, np.sort(np.random.default_rng(2).uniform(0, N, N))])
def test_a_rhythm(at: np.ndarray) -> None:
    check = period(WHITE + 0.8 * np.sin(2 * np.pi * at / 12), at)
    assert check.p_value < CLEAR
    assert check.place == pytest.approx(12, rel=0.06)
    assert "A rhythm with period 12" in said(check) or "A rhythm with period 11" in said(check)


def test_shares_of_the_periodogram_add_up() -> None:
    _, power = periodogram(WHITE[:101], AT[:101])  # an odd number: no frequency is counted half
    assert power.sum() == pytest.approx(1.0, rel=1e-6)


def test_heavy_tails_and_skew() -> None:
    heavy = np.where(np.arange(N) % 30 == 7, 6.0, WHITE)
    assert shape(heavy).p_value < CLEAR
    assert said(shape(heavy)).startswith("Large errors are more frequent than a bell curve allows")
    assert "the largest is at month month 7" in said(shape(heavy))
    flat = np.linspace(-1.7, 1.7, N)
    assert said(shape(flat)).startswith("The errors do not follow a bell curve")


def test_errors_that_grow() -> None:
    check = spread(WHITE * np.linspace(0.2, 2.0, N), AT)
    assert check.p_value < CLEAR
    assert "The errors grow with month" in said(check)
    assert "the fitted value" in said(check, None, None, None)
    assert spread(WHITE, np.zeros(N)).clear


def test_bands_that_are_too_narrow_or_too_wide() -> None:
    assert said(band(2 * WHITE)).endswith("the band is too narrow.")
    assert said(band(0.2 * np.resize(WHITE, 400))).endswith("the band is too wide.")
    assert "95 %" in said(band(WHITE))
