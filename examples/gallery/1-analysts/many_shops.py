"""
Two dozen shops at once
=======================

A table with a row for each shop and month goes in as it is; a forecast for every shop comes out. The sales are made
up: a level, a season and a trend of its own for each shop, so that the next half year is known for all of them.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.dates import DateFormatter, YearLocator

import mercer

rng = np.random.default_rng(4)
months = pd.date_range("2019-01-01", periods=66, freq="MS")
tables = []
for number in range(24):
    level, growth, swing = rng.uniform(80, 400), rng.normal(0.002, 0.004), rng.uniform(0.05, 0.3)
    season = 1 + swing * np.sin(2 * np.pi * (np.arange(66) + rng.integers(12)) / 12)
    sales = level * np.exp(growth * np.arange(66)) * season * np.exp(0.05 * rng.normal(size=66))
    tables.append(pd.DataFrame({"unique_id": f"shop {number + 1:02}", "ds": months, "y": sales}))
table = pd.concat(tables, ignore_index=True)

known, coming = table[table["ds"] < months[60]], table[table["ds"] >= months[60]]
model = mercer.Forecaster().fit(known)
forecast = model.predict(6)
truth = coming.set_index(["unique_id", "ds"])["y"]
print(forecast.loc["shop 01"].round(0).astype(int).to_string())

# %%
# Six of the shops:

figure, grid = plt.subplots(2, 3, figsize=(7.5, 4.2), sharex=True)
for axes, shop in zip(grid.ravel(), model.series_, strict=False):
    here, band = known[known["unique_id"] == shop][-30:], forecast.loc[shop]
    axes.plot(here["ds"], here["y"], color="0.3")
    axes.fill_between(band.index, band["lower_95"], band["upper_95"], alpha=0.25, color="C0")
    axes.plot(band["mean"], color="C0")
    axes.plot(truth.loc[shop], "o", color="C1", markersize=3)
    axes.set(title=shop, ylim=(0, None))
    axes.xaxis.set_major_locator(YearLocator())
    axes.xaxis.set_major_formatter(DateFormatter("%Y"))

# %%
# Over all shops, how often was what came inside the bands, and how far off was the middle?

for level in (80, 95):
    inside = (forecast[f"lower_{level}"] <= truth) & (truth <= forecast[f"upper_{level}"])
    print(f"{inside.mean():.0%} of {len(truth)} values inside the {level} % band")
error = (abs(forecast["mean"] - truth) / truth).mean()
print(f"mean error {error:.1%}; the noise that nobody can foresee is about 4 %")
