"""
How many passengers next year?
==============================

Eleven years of monthly airline passengers are known, and the twelfth is asked for, with a band to plan with. The
twelfth year is known too, but the forecast does not see it.
"""

import matplotlib.pyplot as plt
import pandas as pd

import mercer

table = mercer.datasets.airline()
series = pd.Series(table["passengers"].to_numpy(), index=pd.DatetimeIndex(table["month"]), name="passengers")
past, future = series[:-12], series[-12:]

model = mercer.Forecaster().fit(past)
forecast = model.predict(12, levels=(80, 95))
print(forecast.round(0).astype(int).to_string())

# %%
# ``mean`` is the middle of the forecast; the 80 % band is for everyday planning, the 95 % band for what must not
# fail.

figure, axes = plt.subplots()
axes.plot(past[-60:], color="0.3", label="known")
axes.fill_between(forecast.index, forecast["lower_95"], forecast["upper_95"], alpha=0.15, color="C0", label="95 % band")
axes.fill_between(forecast.index, forecast["lower_80"], forecast["upper_80"], alpha=0.3, color="C0", label="80 % band")
axes.plot(forecast["mean"], color="C0", label="forecast")
axes.plot(future, "o", color="C1", markersize=4, label="what came")
axes.set(title="Passengers of the year 1960, foreseen at the end of 1959", ylabel="thousands a month")
axes.legend(loc="upper left")

# %%
# How good is it? The usual yardstick is "the same month of last year".

error = abs(forecast["mean"] - future).mean()
naive = abs(past[-12:].to_numpy() - future).mean()
inside = ((forecast["lower_95"] <= future) & (future <= forecast["upper_95"])).sum()
print(f"mean error {error:.1f} thousand, against {naive:.1f} for the same month of last year")
print(f"{inside} of 12 months inside the 95 % band")

# %%
# One year is one trial. ``backtest`` goes back to earlier origins and repeats the whole.

tested = model.backtest(folds=4, horizon=12)
print(tested.summary.loc[[1, 6, 12]].round(2).to_string())
