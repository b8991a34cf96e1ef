"""
What does a promotion bring, and a holiday?
===========================================

Daily visitors of a museum: a rhythm of the week, a slow drift, a reduced ticket every now and then, and public
holidays. Causes whose future is known are columns of ``X``. The data are made up, so the truth is known: the reduced
ticket brings 25 % more, a holiday 40 % less.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import mercer

rng = np.random.default_rng(1)
days = pd.date_range("2024-01-01", periods=280, freq="D")
week = np.array([0.7, 0.8, 0.85, 0.9, 1.0, 1.5, 1.4])[days.day_of_week]
reduced = np.repeat(rng.random(56) < 0.25, 5).astype(float)
holiday = days.strftime("%m-%d").isin(["01-01", "03-29", "04-01", "05-01", "05-09", "05-20", "10-03"]).astype(float)
drift = np.exp(0.1 * np.sin(np.arange(280) / 60))
visitors = 300 * week * drift * 1.25**reduced * 0.6**holiday * np.exp(0.04 * rng.normal(size=280))

series = pd.Series(visitors, index=days)
causes = pd.DataFrame({"reduced ticket": reduced, "holiday": holiday}, index=days)
model = mercer.Forecaster().fit(series[:-21], causes[:-21])
forecast = model.predict(21, X=causes[-21:])

# %%
# What each cause does, with the interval that holds it with 95 %:

effects = model.effects()
for effect in effects:
    print(effect.sentence)

# %%
# The next three weeks, for which tickets and holidays are known:

figure, axes = plt.subplots()
axes.plot(series[-63:-21], color="0.3", label="known")
axes.fill_between(forecast.index, forecast["lower_95"], forecast["upper_95"], alpha=0.25, color="C0", label="95 % band")
axes.plot(forecast["mean"], color="C0", label="forecast")
axes.plot(series[-21:], "o", color="C1", markersize=4, label="what came")
for day in days[-63:][reduced[-63:] > 0]:
    axes.axvspan(day - pd.Timedelta("12h"), day + pd.Timedelta("12h"), color="C4", alpha=0.15, linewidth=0)
axes.set(title="Visitors a day; shaded: reduced tickets", ylim=(0, None))
axes.legend(loc="lower left", ncols=4)
figure.autofmt_xdate()

inside = (forecast["lower_95"] <= series[-21:]) & (series[-21:] <= forecast["upper_95"])
print(f"{inside.sum()} of 21 days inside the 95 % band")
