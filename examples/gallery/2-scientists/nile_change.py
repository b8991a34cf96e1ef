"""
When did the Nile change?
=========================

A hundred years of the Nile's flow at Aswan: about 1898 it became less. When exactly, how sure is that, and what holds
before and after? A change surface along time with a constant in each regime says so.
"""

import matplotlib.pyplot as plt

import mercer

table = mercer.datasets.nile()
learner = mercer.ChangeSurface(regimes=2, kernel="C")
model = mercer.GPRegressor(learner, random_state=0).fit(table[["year"]], table["flow"])

change = model.change_
for crossing in change.crossings:
    print(f"change at {crossing.at:.1f}, with 95 % probability between {crossing.low:.0f} and {crossing.high:.0f}")
for regime in change.regimes:
    print(f"{regime.where}: {regime.rows} years, {regime.average:.0f} on average")

# %%
# Is there a change at all? One regime is fitted too, and the smaller BIC wins.

for one in change.evidence:
    print(f"{one.regimes} regime(s): BIC {one.bic:.1f}")

# %%
# The curve with its band, and below how far the second regime holds in each year.

mean, std = model.predict(table[["year"]], return_std=True, include_noise=False)
share, spread = change.shares(table[["year"]])[:, 1], change.shares_std(table[["year"]])[:, 1]
(crossing,) = change.crossings

figure, (above, below) = plt.subplots(2, 1, figsize=(7, 4.6), sharex=True, height_ratios=(2.2, 1))
above.plot(table["year"], table["flow"], "o", color="0.45", markersize=3)
above.plot(table["year"], mean, color="C0")
above.fill_between(table["year"], mean - 1.96 * std, mean + 1.96 * std, color="C0", alpha=0.25)
above.axvspan(crossing.low, crossing.high, color="C1", alpha=0.2, linewidth=0)
above.set(ylabel="flow, 10⁸ m³", title="The flow of the Nile, and when it changed (95 % interval shaded)")
below.plot(table["year"], share, color="C1")
below.fill_between(table["year"], share - 1.96 * spread, share + 1.96 * spread, color="C1", alpha=0.25)
below.set(xlabel="year", ylabel="share", ylim=(-0.05, 1.05))
