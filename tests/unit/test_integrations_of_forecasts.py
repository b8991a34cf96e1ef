"""Forecasts inside sktime and statsforecast; skipped where the package is absent."""

import importlib
import pickle

import numpy as np
import pandas as pd
import pytest

import mercer
from mercer.errors import InputError
from mercer.integrations.statsforecast import Mercer


def monthly(count: int = 48) -> pd.Series:
    """A rising season of twelve."""
    steps, draw = np.arange(count), np.random.default_rng(0)
    values = 100 + steps + 20 * np.sin(2 * np.pi * steps / 12) + draw.normal(size=count)
    return pd.Series(values, index=pd.period_range("2015-01", periods=count, freq="M"), name="sales")


def test_a_model_for_statsforecast_gives_the_forecast_of_forecaster():
    y = monthly()
    found = Mercer(season_length=12).forecast(y.to_numpy(), 6, level=[95, 80])
    plain = mercer.Forecaster().fit(y).predict(6)
    assert list(found) == ["mean", "lo-95", "lo-80", "hi-80", "hi-95"]
    np.testing.assert_allclose(found["mean"], plain["mean"], rtol=1e-6)
    np.testing.assert_allclose(found["lo-95"], plain["lower_95"], rtol=1e-6)


def test_a_series_shorter_than_a_season_is_forecast_without_one():
    found = Mercer(season_length=12).forecast(np.array([3.0, 4.0, 5.0, 5.5, 6.0]), 3)
    assert np.all(np.isfinite(found["mean"]))


def test_a_model_for_statsforecast_uses_known_causes():
    price = np.random.default_rng(1).integers(0, 2, size=46).astype(float)[:, None]
    y = 50 + 0.3 * np.arange(40) - 10 * price[:40, 0]
    model = Mercer(season_length=4).fit(y, price[:40])
    dear, cheap = (model.predict(6, np.full((6, 1), each))["mean"] for each in (1.0, 0.0))
    assert np.all(np.abs(cheap - dear - 10) < 2)


def test_what_is_not_offered_is_said():
    with pytest.raises(InputError, match="fit the model first"):
        Mercer().predict(3)
    with pytest.raises(InputError, match="within the sample"):
        Mercer().forecast(np.arange(10.0), 3, fitted=True)


def test_stats_forecast_takes_the_model():
    package = pytest.importorskip("statsforecast")
    y = monthly()
    table = pd.DataFrame({"unique_id": "a", "ds": y.index.to_timestamp(), "y": y.to_numpy()})
    found = package.StatsForecast(models=[Mercer(season_length=12)], freq="MS").forecast(df=table, h=4, level=[80])
    assert {"Mercer", "Mercer-lo-80", "Mercer-hi-80"} <= set(found.columns)
    np.testing.assert_allclose(found["Mercer"], mercer.Forecaster().fit(y).predict(4)["mean"], rtol=1e-5)


def test_without_sktime_the_module_says_what_to_install():
    if importlib.util.find_spec("sktime") is not None:
        pytest.skip("sktime is installed")
    with pytest.raises(ImportError, match="pip install sktime"):
        mercer.integrations.sktime  # noqa: B018


def test_sktime_gets_quantiles_of_the_steps_asked_for():
    pytest.importorskip("sktime")
    from mercer.integrations.sktime import MercerForecaster

    y = monthly()
    forecaster = MercerForecaster().fit(y)
    found = forecaster.predict_quantiles(fh=[1, 3, 6], alpha=[0.1, 0.5])
    plain = mercer.Forecaster().fit(y).predict_quantiles(6, [0.1, 0.5])
    np.testing.assert_allclose(found.to_numpy(), plain.to_numpy()[[0, 2, 5]], rtol=1e-6)
    assert list(found.index.astype(str)) == ["2019-01", "2019-03", "2019-06"]


def test_sktime_counts_from_the_cutoff_after_missing_values_and_updates():
    pytest.importorskip("sktime")
    from mercer.integrations.sktime import MercerForecaster

    y = monthly()
    ends = y.copy()
    ends.iloc[-2:] = np.nan
    after = MercerForecaster().fit(ends).predict(fh=[1])
    plain = mercer.Forecaster().fit(y.iloc[:-2]).predict(3)["mean"]
    np.testing.assert_allclose(after.to_numpy(), plain.to_numpy()[2:], rtol=1e-6)
    updated = MercerForecaster().fit(y.iloc[:-2])
    updated.update(y.iloc[-2:], update_params=False)
    np.testing.assert_allclose(updated.predict(fh=[1]).to_numpy(), plain.to_numpy()[2:], rtol=1e-6)


def test_sktime_passes_known_causes_by_their_index():
    pytest.importorskip("sktime")
    from mercer.integrations.sktime import MercerForecaster

    y = monthly()
    price = pd.DataFrame({"price": np.random.default_rng(1).normal(size=54)},
                         index=pd.period_range("2015-01", periods=54, freq="M"))  # fmt: skip
    y = y + 15 * price["price"].iloc[:48]
    forecaster = MercerForecaster().fit(y, X=price.iloc[:48])
    some = forecaster.predict(fh=[2, 5], X=price.iloc[[49, 52]])
    every = forecaster.predict(fh=np.arange(1, 7), X=price.iloc[48:])
    np.testing.assert_allclose(some.to_numpy(), every.to_numpy()[[1, 4]], rtol=1e-9)


def test_a_fitted_forecaster_can_be_pickled():
    model = mercer.Forecaster().fit(monthly(24))
    again = pickle.loads(pickle.dumps(model))
    pd.testing.assert_frame_equal(again.predict(3), model.predict(3))
