"""Where a fit begins and how far it may go: periodogram, ranges, starts, weak priors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from mercer.fitting.periods import LARGEST, _lomb_scargle, periods, shortest_period, typical_gap
from mercer.fitting.problem import FitOptions, prepare
from mercer.fitting.starts import Frame, Starts, free_bounds, noise_start, weak_prior
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.kernels import COS, LIN, PER, REGISTRY, RQ, SE, SM, Expression, bind, fixed, layout, parse

Array = NDArray[np.float64]


def wave(n: int = 120, period: float = 0.7, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-1.7, 1.7, n))
    return Data(x[:, None], np.sin(2 * np.pi * x / period) + 0.5 * x + 0.1 * rng.normal(size=n))


def starts_for(expression: Expression, data: Data) -> Starts:
    bound = bind(expression, data.X.shape[1])
    return Starts(bound, layout(bound), data)


# --------------------------------------------------------------------------------------------------------- periodogram


@pytest.mark.parametrize("period", [0.2, 0.7, 1.5])
def test_the_strongest_peak_is_the_period(period: float) -> None:
    data = wave(period=period)
    assert periods(data.X[:, 0], data.y, 3)[0] == pytest.approx(period, rel=0.05)


def test_two_periods_are_both_found_whatever_the_order_of_rows() -> None:
    data = wave(200, 0.5)
    y = data.y + 0.8 * np.sin(2 * np.pi * data.X[:, 0] / 0.13)
    order = np.random.default_rng(1).permutation(200)
    for rows in (slice(None), order):
        found = periods(data.X[rows, 0], y[rows], 6)
        assert min(abs(found - 0.5)) < 0.03
        assert min(abs(found - 0.13)) < 0.005


@pytest.mark.parametrize(
    ("column", "y"),
    [
        (np.zeros(20), np.arange(20.0)),
        (np.arange(4.0), np.ones(4)),
        (np.arange(20.0), 3 + 2 * np.arange(20.0)),
        (np.arange(20.0), np.zeros(20)),
        (np.repeat([0.0, 1.0], 10), np.ones(20)),
    ],
)
def test_no_period_where_there_is_none(column: Array, y: Array) -> None:
    found = periods(column, y, 3)
    assert np.isfinite(found).all()
    assert (found > 0).all()


def test_a_long_series_is_looked_at_in_part() -> None:
    x = np.arange(3.0 * LARGEST)
    assert periods(x, np.sin(2 * np.pi * x / 30), 1)[0] == pytest.approx(30, rel=0.01)


@pytest.mark.parametrize(("count", "steps"), [(5, 50), (6, 2), (90, 977), (200, 2500)])
def test_the_power_of_waves_is_that_of_scipy(count: int, steps: int) -> None:
    from scipy.signal import lombscargle

    rng = np.random.default_rng(count)
    column = rng.uniform(0, 7, count) if count != 90 else np.arange(90.0)
    y, frequency = np.sin(4 * column) + rng.normal(size=count), np.linspace(0.15, 20 if count != 90 else 0.49, steps)
    slow = lombscargle(column - column[0], y, 2 * np.pi * frequency)
    np.testing.assert_allclose(_lomb_scargle(column - column[0], y, frequency), slow, rtol=1e-6, atol=1e-8)


def test_typical_gap() -> None:
    assert typical_gap(np.array([0.0, 1.0, 1.0, 2.0, 10.0])) == 1.0
    assert typical_gap(np.ones(5)) == 0.0


# -------------------------------------------------------------------------------------------------------------- starts


def test_a_given_value_is_where_every_start_begins() -> None:
    starts = starts_for(SE(0, lengthscale=0.123) * PER(0, period=fixed(0.4)) + RQ(0, alpha=3.0), wave())
    slots = {slot.path: slot.where for slot in starts.layout.slots}
    rng = np.random.default_rng(0)
    for values in (starts.typical(), starts.draw(rng), starts.draw(rng)):
        assert values[slots["0:SE.lengthscale"]] == 0.123
        assert values[slots["1:PER.period"]] == 0.4
        assert values[slots["2:RQ.alpha"]] == 3.0
    assert not starts.complete
    assert starts_for(SE(0, lengthscale=1, variance=1), wave()).complete


def test_the_typical_start_takes_the_strongest_period_then_the_next() -> None:
    data = wave(200, 0.5)
    y = data.y + 0.8 * np.sin(2 * np.pi * data.X[:, 0] / 0.13)
    starts = starts_for(PER(0) + PER(0), Data(data.X, y))
    slots = {slot.path: slot.where for slot in starts.layout.slots}
    values = starts.typical()
    assert values[slots["0:PER.period"]] == pytest.approx(0.5, rel=0.05)
    assert values[slots["1:PER.period"]] == pytest.approx(0.13, rel=0.05)


def test_periods_given_from_outside_are_tried() -> None:
    bound = bind(PER(0), 1)
    starts = Starts(bound, layout(bound), wave(), {0: np.array([0.31])})
    assert starts.typical()[1] == pytest.approx(0.31)


@pytest.mark.parametrize("symbol", sorted(REGISTRY))
@pytest.mark.parametrize("dimensions", [1, 3])
def test_every_draw_lies_within_the_bounds_and_is_reproducible(symbol: str, dimensions: int) -> None:
    rng = np.random.default_rng(5)
    data = Data(rng.normal(size=(40, dimensions)), rng.normal(size=40))
    starts = starts_for(parse(f"{symbol}3(0)" if REGISTRY[symbol].coded else symbol), data)
    bounds = free_bounds(starts.expression, starts.layout, starts.frame)
    assert bounds.shape == (starts.layout.n_free, 2)
    assert (bounds[:, 0] < bounds[:, 1]).all()
    one, other = (np.random.default_rng(3) for _ in range(2))
    for _ in range(20):
        values = starts.draw(one)
        assert np.isfinite(values).all()
        free = starts.layout.to_free(values)
        assert (free >= bounds[:, 0] - 1e-9).all()
        assert (free <= bounds[:, 1] + 1e-9).all()
        assert_array_equal(values, starts.draw(other))
    assert_array_equal(starts.typical(), starts.typical())


def test_draws_differ_and_spread() -> None:
    starts, rng = starts_for(SE(0), wave()), np.random.default_rng(0)
    lengths = [starts.draw(rng)[1] for _ in range(200)]
    assert min(lengths) < 0.1
    assert max(lengths) > 2
    noises = [noise_start(rng) for _ in range(200)]
    assert 0.003 <= min(noises) < 0.01
    assert 0.2 < max(noises) <= 0.5
    assert noise_start(None) == noise_start(None)


def test_constant_columns_and_repeated_rows_have_a_frame() -> None:
    frame = Frame.of(np.column_stack([np.ones(5), [0.0, 0.0, 1.0, 1.0, 3.0]]))
    assert frame.span == (1.0, 3.0)
    assert frame.gap == (1.0, 1.5)
    assert frame.low == (1.0, 0.0)


def test_a_mixture_starts_at_the_peaks() -> None:
    starts = starts_for(SM(0, components=3), wave(200, 0.5))
    where = next(slot.where for slot in starts.layout.slots if slot.spec.name == "frequency")
    assert starts.typical()[where][0] == pytest.approx(2.0, rel=0.05)


# -------------------------------------------------------------------------------------------------------------- priors


def test_the_weak_prior_is_highest_at_its_centre_and_has_the_right_slope() -> None:
    data = wave()
    bound = bind(SE(0) * PER(0) + LIN(0) + SM(0, components=2), 1)
    shape = layout(bound)
    prior = weak_prior(bound, shape, Frame.of(data.X))
    assert len(prior.centre) == len(prior.spread) == shape.n_free + 1
    top, slope = prior.log_density(prior.centre)
    assert top == 0
    assert_allclose(slope, 0)
    point = prior.centre + np.linspace(-1, 1, len(prior.centre))
    value, slope = prior.log_density(point)
    assert value < 0
    for i in range(len(point)):
        step = np.zeros(len(point))
        step[i] = 1e-6
        ends = [prior.log_density(point + sign * step)[0] for sign in (1, -1)]
        assert_allclose(slope[i], (ends[0] - ends[1]) / 2e-6, atol=1e-6)
    places = [i for i, path in enumerate(shape.free_paths()) if "offset" in path or "frequency" in path]
    assert np.isinf(prior.spread[places]).all()


def test_waves_are_not_faster_than_the_rows_can_show() -> None:
    x = np.linspace(-1.7, 1.7, 60)[:, None]
    expression = bind(COS(0), 1)
    bounds = free_bounds(expression, layout(expression), Frame.of(x))
    frequency = bounds[list(layout(expression).free_paths()).index("0:COS.frequency")]
    assert frequency == pytest.approx([-0.5 / (3.4 / 59), 0.5 / (3.4 / 59)])


# --------------------------------------------------------------------------------------------- what counts as a period


def test_a_growing_pattern_of_overtones_is_found_at_its_period() -> None:
    x = np.sort(np.random.default_rng(0).uniform(0, 10, 250))
    angle = 2 * np.pi * x / 2.5
    y = (x - 3) * (0.3 * np.sin(angle) + np.cos(2 * angle + 1) + 0.4 * np.sin(3 * angle))
    found = periods(x, y + 0.3 * np.random.default_rng(1).standard_normal(250), 4)
    assert found[0] == pytest.approx(2.5, rel=0.03)


def test_three_gaps_make_a_period_where_rows_are_even_and_ten_where_they_are_scattered() -> None:
    days = np.cumsum([0, *([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] * 5)]).astype(float)
    assert shortest_period(days) == pytest.approx(93)
    with_gaps = np.delete(np.arange(100.0), [5, 17, 18, 60])
    assert shortest_period(with_gaps) == pytest.approx(3)
    half = np.sort(np.random.default_rng(0).choice(200, 100, replace=False)).astype(float)
    assert shortest_period(half) == pytest.approx(3)
    scattered = np.random.default_rng(0).uniform(0, 10, 300)
    assert shortest_period(scattered) == pytest.approx(10 * np.ptp(scattered) / 299)
    written = np.unique(np.round(scattered, 4))  # to four digits: no grid that rows could show a period of
    assert shortest_period(written) == pytest.approx(10 * np.ptp(written) / (len(written) - 1))
    twice = np.round(np.random.default_rng(1).uniform(6, 24, 72), 1)  # some values are there twice, most never
    assert shortest_period(twice) == pytest.approx(10 * np.ptp(twice) / (len(np.unique(twice)) - 1))
    stores = np.repeat(np.arange(24.0), 5)  # five rows of every month
    assert shortest_period(stores) == pytest.approx(3)


def test_periods_are_those_that_the_data_show_unless_given() -> None:
    data = wave()
    span = np.ptp(data.X[:, 0])
    free = prepare(bind(PER(0), 1), data, Exact(), FitOptions())
    longest = np.exp(free.bounds[free.layout.free_paths().index("0:PER.period"), 1])
    assert longest == pytest.approx(span / 1.5)
    given = prepare(bind(PER(0, period=4 * span), 1), data, Exact(), FitOptions())
    assert np.exp(given.bounds[given.layout.free_paths().index("0:PER.period"), 1]) == pytest.approx(4 * span)


def test_every_period_has_its_turn() -> None:
    starts = starts_for(PER(0), wave())
    place = next(slot.where for slot in starts.layout.slots if slot.spec.name == "period")
    tried = [float(starts.typical(turn)[place][0]) for turn in range(starts.turns)]
    assert starts.turns > 1
    assert len(set(tried)) == starts.turns
    assert starts_for(SE(0), wave()).turns == 0


def test_a_period_is_found_from_its_overtones_alone() -> None:
    x = np.arange(0.0, 14.0, 1 / 12)
    y = sum(np.cos(2 * math.pi * x * k + k) for k in (2, 3, 4)) + 0.3 * np.random.default_rng(0).normal(size=len(x))
    assert periods(x, y, 4)[0] == pytest.approx(1.0, rel=0.02)


def test_unrelated_waves_have_no_common_period() -> None:
    x = np.arange(0.0, 40.0, 0.1)
    y = 2 * np.cos(2 * math.pi * x / 3.1) + np.cos(2 * math.pi * x / 1.27)
    assert periods(x, y, 4)[0] == pytest.approx(3.1, rel=0.03)
