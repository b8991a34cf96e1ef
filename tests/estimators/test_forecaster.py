"""Forecasts of series: sensible ones of odd series, tables by date, files, and sentences for bad input."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import mercer
from mercer.errors import DataWarning, InputError, ModelFileError
from mercer.forecast.experience import from_json, packaged_priors
from mercer.forecast.mixture import Mixture, Part
from mercer.forecast.model import fit_series
from mercer.forecast.reading import read_series
from mercer.forecast.scales import SCALES, scale_called

RNG = np.random.default_rng(0)
QUARTERS = pd.Series(
    50 + 0.5 * np.arange(36) + np.tile([3.0, -1.0, 2.0, -4.0], 9) + 0.3 * RNG.normal(size=36),
    index=pd.period_range("2001Q1", periods=36, freq="Q"),
)
ODD = {
    "ten values": 5 + RNG.normal(size=10),
    "three values": np.array([1.0, 2.0, 4.0]),
    "two values": np.array([1.0, 2.0]),
    "a jump": np.concatenate([np.zeros(15), np.full(15, 10.0)]) + 0.1 * RNG.normal(size=30),
    "constant but for one": np.where(np.arange(30) == 11, 5.0, 2.0),
    "constant": np.full(12, 7.0),
    "zeros": np.zeros(12),
    "counts with zeros": RNG.poisson(0.4, 40).astype(float),
    "large with small noise": 1e9 + RNG.normal(size=30),
    "growing fast": np.exp(0.15 * np.arange(20) + 0.05 * RNG.normal(size=20)),
}


@pytest.fixture(scope="module")
def quarterly() -> mercer.Forecaster:
    return mercer.Forecaster().fit(QUARTERS)


@pytest.mark.parametrize("name", ODD)
def test_odd_series_have_sensible_forecasts(name: str) -> None:
    y = ODD[name]
    found = mercer.Forecaster().fit(y).predict(8)
    spread = float(y.std())
    assert np.all(np.isfinite(found.to_numpy()))
    assert found["mean"].max() <= y.max() + 5 * spread + 1e-6 * abs(y).max() + 1e-12
    assert found["mean"].min() >= y.min() - 5 * spread - 1e-6 * abs(y).max() - 1e-12
    assert (found["lower_95"] <= found["lower_80"]).all()
    assert (found["upper_80"] <= found["upper_95"]).all()


def test_one_season_of_months_is_enough_for_a_forecast() -> None:
    y = pd.Series(50 + 10 * np.sin(np.arange(12) * np.pi / 6), index=pd.date_range("2023-01-01", periods=12, freq="MS"))
    for season in (None, 12):  # not looked for unasked; taken at its word
        found = mercer.Forecaster(season=season).fit(y).predict(12)
        assert np.all(np.isfinite(found.to_numpy()))
        assert found["mean"].between(y.min() - 5 * y.std(), y.max() + 5 * y.std()).all()


def test_a_jump_is_kept_and_one_odd_value_is_not() -> None:
    jump = mercer.Forecaster().fit(ODD["a jump"]).predict(8)["mean"]
    assert jump.between(8.0, 12.0).all()
    odd = mercer.Forecaster().fit(ODD["constant but for one"]).predict(8)["mean"]
    assert odd.between(1.5, 2.5).all()
    large = mercer.Forecaster().fit(ODD["large with small noise"]).predict(8)
    assert ((large["mean"] - 1e9).abs() < 3).all()
    assert ((large["upper_95"] - large["lower_95"]).between(1, 40)).all()  # of noise 1, not of 1e9


def test_a_season_goes_on_and_dates_are_those_that_come_next(quarterly: mercer.Forecaster) -> None:
    found = quarterly.predict(8, levels=(50, 80, 95))
    assert list(found.index[:2]) == [pd.Timestamp("2010-01-01"), pd.Timestamp("2010-04-01")]
    assert list(found.columns) == ["mean", "lower_50", "upper_50", "lower_80", "upper_80", "lower_95", "upper_95"]
    truth = 50 + 0.5 * np.arange(36, 44) + np.tile([3.0, -1.0, 2.0, -4.0], 2)
    assert_allclose(found["mean"], truth, atol=1.5)
    quantiles = quarterly.predict_quantiles(8, (0.1, 0.5, 0.9))
    assert_allclose(quantiles["0.5"], found["mean"])
    assert_allclose(quantiles["0.1"], found["lower_80"])


def test_missing_steps_are_natural(quarterly: mercer.Forecaster) -> None:
    holes = QUARTERS.drop(QUARTERS.index[[5, 17, 18]])
    missing = QUARTERS.copy()
    missing.iloc[[5, 17, 18]] = np.nan
    found = mercer.Forecaster().fit(holes).predict(4)
    assert_allclose(found, mercer.Forecaster().fit(missing).predict(4))
    assert_allclose(found["mean"], quarterly.predict(4)["mean"], atol=1.0)
    assert list(found.index) == list(quarterly.predict(4).index)


def test_masked_values_are_missing() -> None:
    values = np.array([1, 2, 3, -99, 5, 6, 7, 8])
    masked = mercer.Forecaster().fit(np.ma.masked_equal(values, -99)).predict(2)
    pd.testing.assert_frame_equal(masked, mercer.Forecaster().fit(np.where(values < 0, np.nan, values)).predict(2))


def test_rows_that_are_left_out_are_counted() -> None:
    rng = np.random.default_rng(0)
    causes = pd.DataFrame({"price": rng.normal(size=20)})
    causes.loc[[3, 7], "price"] = np.nan
    with pytest.warns(DataWarning, match="2 rows have no value of a known cause and are left out"):
        mercer.Forecaster().fit(rng.normal(size=20), causes)
    long = pd.DataFrame({"unique_id": ["a"] * 9 + [None], "ds": np.arange(10), "y": rng.normal(size=10)})
    with pytest.warns(DataWarning, match="1 row has no unique_id and is left out"):
        assert mercer.Forecaster().fit(long).series_ == ("a",)


@pytest.mark.parametrize("first", ["2024-03-28", "2024-10-24"])
def test_hours_of_a_time_zone_go_on_across_a_clock_change(first: str, tmp_path: Path) -> None:
    times = pd.date_range(first, periods=96, freq="h", tz="Europe/Berlin")
    series = pd.Series(10 + np.sin(np.arange(96) * np.pi / 12), index=times)
    model = mercer.Forecaster().fit(series)
    assert model.notes_ == ()
    found = model.predict(2)
    assert list(found.index) == list(times[-1].tz_localize(None) + pd.to_timedelta([1, 2], "h"))
    model.save(tmp_path / "hours.mercer")
    kept = mercer.load(tmp_path / "hours.mercer")
    assert kept.reading_.many[0].calendar.offset == times[-1].utcoffset().total_seconds() / 60
    days = pd.Series(np.arange(20.0), index=pd.date_range(first, periods=20, tz="Europe/Berlin"))  # by midnights
    assert mercer.Forecaster().fit(days).predict(1).index[0] == pd.Timestamp(first) + pd.Timedelta(days=20)


def test_many_series_in_one_table() -> None:
    dates = pd.date_range("2020-01-01", periods=10, freq="YS")
    rows = [(name, date, level + i) for name, level in (("a", 0.0), ("b", 100.0)) for i, date in enumerate(dates)]
    rows += [("single", dates[0], 3.0)]
    table = pd.DataFrame(rows, columns=["unique_id", "ds", "y"])
    with pytest.warns(DataWarning, match="left out, because one value shows nothing of what comes: single"):
        model = mercer.Forecaster().fit(table.sample(frac=1, random_state=0))
    found = model.predict(3)
    assert found.index.names == ["unique_id", "ds"]
    assert sorted(model.series_) == ["a", "b"]
    assert_allclose(found.loc["b", "mean"] - found.loc["a", "mean"], 100.0, atol=6.0)
    assert found.loc["a"].index[0] == pd.Timestamp("2030-01-01")


def test_known_causes_act() -> None:
    rng = np.random.default_rng(3)
    promotion = (rng.random(48) < 0.3).astype(float)
    y = 20 + 8 * promotion + 0.3 * rng.normal(size=48)
    model = mercer.Forecaster(season=1).fit(y, pd.DataFrame({"promotion": promotion}))
    found = model.predict(2, X=pd.DataFrame({"promotion": [0.0, 1.0]}))["mean"].to_numpy()
    assert_allclose(found, [20.0, 28.0], atol=1.5)
    (effect,) = model.effects()
    assert effect.switch
    assert effect.relative
    assert effect.low < 0.4 < effect.high  # 8 of 20
    assert effect.high - effect.low < 0.1
    assert "promotion: 4" in effect.sentence
    assert "less its known causes" in model.explain().target
    with pytest.raises(InputError, match="give X with the columns promotion"):
        model.predict(2)
    with pytest.raises(InputError, match="lacks the column 'promotion'"):
        model.predict(2, X=pd.DataFrame({"price": [0.0, 1.0]}))
    with pytest.raises(InputError, match="X has 1 rows"):
        model.predict(2, X=pd.DataFrame({"promotion": [0.0]}))


def test_causes_go_to_the_values_of_their_dates() -> None:
    rng = np.random.default_rng(4)
    days = pd.date_range("2024-01-01", periods=40, name="ds")
    causes = pd.DataFrame({"promotion": (rng.random(40) < 0.3).astype(float)}, index=days)
    y = pd.Series(20 + 8 * causes["promotion"].to_numpy() + 0.3 * rng.normal(size=40), index=days)
    coming = pd.DataFrame({"promotion": [1.0, 0.0]}, index=days[-1] + pd.to_timedelta([2, 1], "D"))
    shuffled, named = causes.sample(frac=1, random_state=0), coming.rename_axis("ds").assign(unique_id=1)
    long = y.rename("y").reset_index().assign(unique_id=1)
    found = [
        mercer.Forecaster(season=1).fit(values, known).predict(2, X=future)["mean"].to_numpy()
        for values, known, future in (
            (y, causes, coming.sort_index().reset_index(drop=True)),  # in order
            (y, shuffled, coming),
            (y, pd.concat([shuffled, coming]), coming.set_axis(coming.index.to_period("D"))),
            (y, shuffled.reset_index(), coming.rename_axis("ds").reset_index()),
            (long, shuffled.reset_index().assign(unique_id="1"), named.reset_index()),
            (long, causes.reset_index(drop=True).sample(frac=1, random_state=0),
             named.set_index("unique_id", append=True)),
        )
    ]  # fmt: skip
    assert_allclose(found, [found[0]] * len(found))
    assert_allclose(found[0], [20.0, 28.0], atol=1.5)
    model = mercer.Forecaster(season=1).fit(y, causes)
    with pytest.raises(InputError, match="the future table lacks 2024-02-10"):
        model.predict(2, X=coming.set_axis(days[:2] + pd.Timedelta(days=60)))
    for known, said in (
        (causes.iloc[:-1], "X has no row for 2024-02-09, which y has: give both the same index"),
        (causes.reset_index()[:-1], "X has no row for 2024-02-09, which y has: give causes for every value"),
        (pd.concat([causes, causes[:1]]).reset_index(), "X has two rows for 2024-01-01: keep one"),
        (pd.concat([causes, causes], axis=1), "X has two columns 'promotion'"),
        (causes.replace(1.0, np.inf), "column 'promotion' holds a value that is not finite"),
        (causes.astype(object).replace(1.0, "yes"), "it holds 'yes'; write 1 where it is so and 0 where not"),
    ):
        with pytest.raises(InputError, match=said):
            mercer.Forecaster(season=1).fit(y, known)


def test_times_to_come_of_working_days_at_the_ends_of_months_are_days() -> None:
    ends = pd.date_range("2020-01-31", periods=24, freq="BME")
    found = mercer.Forecaster(season=1).fit(pd.Series(np.arange(24.0), index=ends)).predict(3)
    assert list(found.index) == [pd.Timestamp(day) for day in ("2022-01-31", "2022-02-28", "2022-03-31")]


def test_weekdays_that_never_occur_are_no_steps_to_come(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    days = pd.bdate_range("2024-01-01", periods=45, name="ds")  # to Friday 1 March
    y = pd.Series(np.tile([10.0, 12.0, 14.0, 16.0, 30.0], 9) + 0.2 * rng.normal(size=45), index=days)
    promotion = pd.DataFrame(
        {"promotion": (rng.random(48) < 0.3).astype(float)}, index=pd.bdate_range(days[0], periods=48)
    )
    said = "the data have no Saturdays and Sundays; the steps to come have none either"
    with pytest.warns(DataWarning, match=said):
        model = mercer.Forecaster().fit(y, promotion)
    assert model.notes_ == (said,)
    model.save(tmp_path / "f.json")
    for each in (model, mercer.load(tmp_path / "f.json")):
        found = each.predict(3, X=promotion[45:])["mean"]
        assert list(found.index) == list(promotion.index[45:])
        assert_allclose(found, [10.0, 12.0, 14.0], atol=1.0)
    tested = model.backtest(folds=2, horizon=6)
    assert list(tested.summary.index) == [1, 2, 3, 4, 5, 6]
    assert tested.table["y"].sub(tested.table["mean"]).abs().max() < 2.0
    with pytest.raises(InputError, match="lacks 2024-03-04, one of the 3 steps to come"):
        model.predict(3, X=promotion[46:])


def test_long_series_are_forecast_from_their_last_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mercer.forecast.reading.MOST_ROWS", 40)
    noise = np.random.default_rng(2).normal(size=60)
    y = pd.Series(np.tile([1.0, 2.0, 3.0, 2.0], 15) + 0.1 * noise, pd.date_range("2001-01-01", periods=60))
    with pytest.warns(DataWarning, match="the last 40 of 60 values are used: what lies further back"):
        long = mercer.Forecaster(season=4).fit(y)
    pd.testing.assert_frame_equal(long.predict(4), mercer.Forecaster(season=4).fit(y[20:]).predict(4))
    long_table = y.rename_axis("ds").rename("y").reset_index().assign(unique_id=np.repeat(["a", "b"], [50, 10]))
    with pytest.warns(DataWarning, match="the last 40 values of 1 of 2 series are used"):
        assert read_series(long_table, None, None).many[0].earlier == 10


@pytest.mark.parametrize(("step", "season"), [("30min", 48), ("15min", 96), ("7min", 1)])
def test_steps_of_minutes_have_days_as_seasons(step: str, season: int) -> None:
    times = pd.date_range("2024-03-25", periods=150, freq=step)
    assert read_series(pd.Series(np.arange(150.0), index=times), None, None).many[0].series.season == season


def test_numbers_that_may_be_dates_are_said() -> None:
    months = [202001 + 100 * (place // 12) + place % 12 for place in range(18)]
    with pytest.warns(DataWarning, match="times such as 202001 were read as plain numbers; if these are dates"):
        mercer.Forecaster(season=1).fit(pd.Series(np.arange(18.0), index=months))
    assert mercer.Forecaster(season=1).fit(pd.Series(np.arange(18.0), index=range(2001, 2019))).notes_ == ()


def test_files_keep_a_forecaster(quarterly: mercer.Forecaster, tmp_path: Path) -> None:
    quarterly.save(tmp_path / "f.json")
    again = mercer.load(tmp_path / "f.json")
    assert isinstance(again, mercer.Forecaster)
    assert_allclose(again.predict(5), quarterly.predict(5), rtol=1e-6)
    with pytest.raises(InputError, match="there is no folder"):
        quarterly.save(tmp_path / "none" / "f.json")
    with pytest.raises(InputError, match="it is a folder"):
        quarterly.save(tmp_path)
    (tmp_path / "g.json").write_text('{"format": "mercer forecaster", "version": 99}')
    with pytest.raises(ModelFileError, match="version 99"):
        mercer.load(tmp_path / "g.json")


def test_words_and_backtest(quarterly: mercer.Forecaster) -> None:
    said = " ".join(str(quarterly.explain()).split())
    assert "period" in said
    assert "priors learned from other series" in said
    found = quarterly.backtest(folds=2, horizon=4)
    assert list(found.summary.columns) == ["mae", "mase", "inside_80", "inside_95"]
    assert len(found.table) == 8
    assert found.summary["mase"].mean() < 1.0
    with pytest.warns(DataWarning, match="3 of 50 folds: of 36 values no more origins, 10 steps apart"):
        assert quarterly.backtest(folds=50, horizon=10).table["fold"].nunique() == 3
    few = pd.DataFrame(
        {"unique_id": ["long"] * 36 + ["short"] * 5, "ds": np.arange(41), "y": QUARTERS.to_numpy()[:1].repeat(41)}
    )
    few["y"] += np.arange(41) % 3
    with pytest.warns(DataWarning, match="left out, because they are too short for any fold: short"):
        mercer.Forecaster(season=1).fit(few).backtest(folds=1, horizon=4)
    errors, held = found.plot().axes
    assert_allclose(errors.lines[0].get_ydata(), found.summary["mae"])
    assert [line.get_label() for line in held.lines[:2]] == ["as many as should be", "inside the 80 % band"]
    assert_allclose(held.lines[1].get_ydata(), 100 * found.summary["inside_80"])


def test_a_kernel_that_is_given() -> None:
    y = np.tile([1.0, 2.0, 3.0, 2.0], 8) + 0.01 * np.random.default_rng(0).normal(size=32)
    found = mercer.Forecaster("C + PER(0, period=4)").fit(y).predict(4)
    assert_allclose(found["mean"], [1.0, 2.0, 3.0, 2.0], atol=0.1)


@pytest.mark.parametrize("horizon", [0, -3, "twelve", 2.5, True, None])
def test_a_horizon_is_a_number_of_steps(quarterly: mercer.Forecaster, horizon: object) -> None:
    with pytest.raises(InputError, match="the horizon is a number of steps"):
        quarterly.predict(horizon)


def test_of_many_series_those_with_zeros_are_left_out_where_all_must_be_positive(tmp_path: Path) -> None:
    values = np.concatenate([np.linspace(3, 9, 12), np.linspace(0, 5, 12)])
    long = pd.DataFrame({"unique_id": np.repeat(["above", "zero"], 12), "ds": np.tile(np.arange(12), 2), "y": values})
    with pytest.warns(DataWarning, match="left out, because positive is for values above zero: zero"):
        model = mercer.Forecaster(positive=True).fit(long)
    assert model.series_ == ("above",)
    assert model.predict(3).shape == (3, 5)
    model.save(tmp_path / "f.json")
    assert mercer.load(tmp_path / "f.json").positive is True
    with pytest.raises(InputError, match="positive is for values above zero, and series 'zero' has 0"):
        mercer.Forecaster(positive=True).fit(long[long["unique_id"] == "zero"])


def test_bad_input_costs_a_sentence(quarterly: mercer.Forecaster) -> None:
    dates = pd.to_datetime(["2020-01-01", "2020-02-01", "2020-02-01"])
    with pytest.raises(InputError, match="two values for 2020-02-01"):
        mercer.Forecaster().fit(pd.Series([1.0, 2.0, 3.0], index=dates))
    with pytest.raises(InputError, match="a season of 24 is longer than y, which spans 10 steps"):
        mercer.Forecaster(season=24).fit(np.arange(10.0))
    with pytest.raises(InputError, match="must hold numbers"):
        mercer.Forecaster().fit(["a", "b", "c"])
    with pytest.raises(InputError, match="not finite"):
        mercer.Forecaster().fit([1.0, np.inf, 2.0])
    with pytest.raises(InputError, match="no series with two values"):
        mercer.Forecaster().fit([1.0])
    with pytest.raises(InputError, match="between 1 and 100"):
        quarterly.predict(3, levels=(95, 120))
    with pytest.raises(InputError, match=r"write 80, not 0\.8"):
        quarterly.predict(3, levels=(0.8,))
    with pytest.raises(InputError, match=r"such as \(80, 95\), not 80"):
        quarterly.predict(3, levels=80)
    with pytest.raises(InputError, match=r"such as \(0.1, 0.5, 0.9\), not 0.5"):
        quarterly.predict_quantiles(3, 0.5)
    assert quarterly.predict(3, levels=np.array([80, 80])).shape == (3, 3)
    with pytest.raises(InputError, match="it holds dates"):
        mercer.Forecaster().fit(pd.Series(QUARTERS.index))
    levels = pd.MultiIndex.from_product([[1], [2, 3]], names=("store", "day"))
    with pytest.raises(InputError, match=r"index of several levels \(store, day\)"):
        mercer.Forecaster().fit(pd.Series([1.0, 2.0], index=levels))
    mixed = pd.DataFrame({"unique_id": [1, "1"] * 3, "ds": [0, 1, 2, 3, 4, 5], "y": np.arange(6.0)})
    assert mercer.Forecaster().fit(mixed).predict(2).shape == (2, 5)  # 1 and "1" are one series
    with pytest.raises(InputError, match=r"write 80, not 0\.8"):
        quarterly.backtest(folds=1, horizon=2, levels=(0.8,))
    with pytest.raises(InputError, match="columns unique_id, ds and y"):
        mercer.Forecaster().fit(pd.DataFrame({"date": [1, 2], "y": [1.0, 2.0]}))
    with pytest.raises(InputError, match="priors must be 'experience'"):
        mercer.Forecaster(priors="none.json").fit([1.0, 2.0, 3.0])
    with pytest.warns(DataWarning, match="steps are not even"):
        mercer.Forecaster().fit(pd.Series([1.0, 2.0, 1.5, 2.5], index=[0.0, 1.0, 2.5, 3.2]))


# ----------------------------------------------------------------------------------------------------------- mechanics


def test_quantiles_of_a_mixture_invert_its_probabilities() -> None:
    middle, deviation = np.array([1.0, 2.0]), np.array([0.3, 0.6])
    parts = (Part(SCALES["log"], middle, deviation, 0.4), Part(SCALES["level"], 3 * middle, deviation, 0.35),
             Part(SCALES["root"], middle, deviation, 0.25))  # fmt: skip
    mixture = Mixture(parts, 5.0)
    shares = np.array([0.01, 0.2, 0.5, 0.9, 0.99])
    assert_allclose(mixture.below(mixture.quantiles(shares)), np.repeat(shares[:, None], 2, 1), atol=1e-9)


def test_counts_with_zeros_have_no_bands_below_zero() -> None:
    counts = pd.Series(np.random.default_rng(0).poisson(0.4, size=40).astype(float))
    found = mercer.Forecaster().fit(counts).predict(6)
    assert found.to_numpy().min() == 0.0  # what lies below comes as zero
    assert np.all(found["upper_80"] >= 1.0)
    assert mercer.Forecaster().fit(counts - 0.5).predict(6)["lower_95"].max() < -0.5  # these may fall further
    level = Part(scale_called("level"), np.zeros(1), np.ones(1), 1.0)
    mixture = Mixture((level,), 30.0, floor=0.0)
    assert_allclose(mixture.below(np.array([[-0.1], [0.0]]))[:, 0], [0.0, 0.5])
    assert_allclose(mixture.quantiles((0.1, 0.5, 0.9))[:2, 0], 0.0, atol=1e-12)


def test_bands_that_pass_zero_do_not_stop_there_unless_it_is_a_bound() -> None:
    root, level = SCALES["root"], SCALES["level"]
    one = np.ones(1)
    mixture = Mixture((Part(root, one, 2 * one, 0.6), Part(level, 5 * one, 20 * one, 0.4)), 30.0)
    found = mixture.quantiles(np.linspace(0.02, 0.5, 25))[:, 0]
    assert np.all(np.diff(found) > 0)  # no two of them at zero
    assert found[0] < 0 < found[-1]
    falling = np.linspace(40.0, 2.0, 24) + np.tile([1.0, -1.0], 12)
    bounded = mercer.Forecaster(positive=True).fit(falling).predict(12, levels=(50, 80, 95))
    assert bounded.to_numpy().min() >= 0.0


@pytest.mark.parametrize("name", SCALES)
def test_scales_and_their_slopes(name: str) -> None:
    scale, y, step = SCALES[name], np.array([0.5, 2.0, 30.0]), 1e-6
    assert_allclose(scale.backward(scale.forward(y)), y)
    slopes = (scale.forward(y + step) - scale.forward(y - step)) / (2 * step)
    assert_allclose(np.log(slopes), scale.log_slope(y), atol=1e-6)


def test_evidence_does_not_depend_on_the_unit_of_the_target() -> None:
    series = read_series(QUARTERS, None, None).many[0].series
    experience = packaged_priors().of("quarter", seasonal=True)
    other = read_series(QUARTERS * 1000.0, None, None).many[0].series
    one, two = fit_series(series, experience), fit_series(other, experience)
    assert_allclose(one.weights, two.weights, atol=2e-3)
    assert_allclose(two.members[0].evidence - one.members[0].evidence, -36 * np.log(1000.0), rtol=1e-6)


def test_priors_are_learned_from_an_archive_and_kept_in_a_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    dates = pd.date_range("2000-01-01", periods=18, freq="YS")
    many = [pd.Series(50 + np.cumsum(rng.normal(size=18)), index=dates) for _ in range(6)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        priors = mercer.learn_priors(many)
    assert list(priors.steps) == ["year"]
    assert priors.steps["year"].series == 6
    learned = {path: centre for path, centre, _ in priors.steps["year"].members[0].prior.entries}
    assert learned["2:RW.variance"] > learned["1:LIN.variance"]  # walks are what there was
    priors.save(tmp_path / "priors.json")
    assert from_json((tmp_path / "priors.json").read_text()) == priors
    found = mercer.Forecaster(priors=str(tmp_path / "priors.json")).fit(many[0]).predict(3)
    assert_allclose(found["mean"], many[0].iloc[-1], atol=3.0)
    with pytest.raises(InputError, match="5 series of a kind or more"):
        mercer.learn_priors(many[:2])


def test_what_comes_with_the_package() -> None:
    priors = packaged_priors()
    assert {"month", "quarter", "year"} <= set(priors.steps)
    assert priors.sources
    assert all("training parts" in source for source in priors.sources)
    for each in priors.steps.values():
        assert_allclose(sum(member.weight for member in each.members), 1.0, atol=1e-2)
