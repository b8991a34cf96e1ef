"""
Counts that cannot fall below zero
==================================

The Hudson's Bay Company wrote down how many lynx were trapped each year from 1821 to 1934 (Elton and Nicholson 1942).
The numbers rise and fall by a factor of a hundred within ten years. A band that is as wide downwards as upwards would
promise fewer than no animals.
"""

import matplotlib.pyplot as plt
import numpy as np

import mercer

TRAPPED = """
269 321 585 871 1475 2821 3928 5943 4950 2577 523 98 184 279 409 2285 2685 3409 1824 409 151 45 68 213 546
1033 2129 2536 957 361 377 225 360 731 1638 2725 2871 2119 684 299 236 245 552 1623 3311 6721 4254 687 255 473
358 784 1594 1676 2251 1426 756 299 201 229 469 736 2042 2811 4431 2511 389 73 39 49 59 188 377 1292 4031 3495
587 105 153 387 758 1307 3465 6991 6313 3794 1836 345 382 808 1388 2713 3800 3091 2985 3790 674 81 80 108 229
399 1132 2432 3574 2935 1537 529 485 662 1000 1590 2657 3396
"""
lynx = np.array(TRAPPED.split(), dtype=float)
years = np.arange(1821, 1821 + len(lynx))
past, future = lynx[:-10], lynx[-10:]

# %%
# A cycle of about ten years that never quite repeats is ``PER*SE``, a periodic function whose shape changes. On the
# scale of logarithms it is a plain wave, and the way back makes every band positive.

kernel = "PER(0, period=10)*SE + M12"
model = mercer.GPRegressor(kernel, random_state=0).fit(years[:-10, None], np.log(past))
mean, std = model.predict(years[-10:, None], return_std=True)
low, middle, high = (np.exp(mean + reach * std) for reach in (-1.96, 0, 1.96))

plain = mercer.GPRegressor(kernel, random_state=0).fit(years[:-10, None], past)
plain_mean, plain_std = plain.predict(years[-10:, None], return_std=True)

figure, both = plt.subplots(1, 2, figsize=(7.5, 3.6), sharey=True)
bands = ((low, middle, high), (plain_mean - 1.96 * plain_std, plain_mean, plain_mean + 1.96 * plain_std))
for axes, (lower, centre, upper), title in zip(both, bands, ("on logarithms", "as it is"), strict=True):
    axes.plot(years[-40:-10], past[-30:], color="0.3")
    axes.fill_between(years[-10:], lower, upper, alpha=0.25, color="C0")
    axes.plot(years[-10:], centre, color="C0")
    axes.plot(years[-10:], future, "o", color="C1", markersize=4)
    axes.axhline(0, color="0.6", linewidth=0.8)
    axes.set(title=title, xlabel="year", ylim=(-3000, 12000))
both[0].set_ylabel("lynx trapped")

# %%
# Which one to believe? Both can say how probable they thought what came (on the same scale: a density of the
# logarithm is one of the count after division by the count).

on_logarithms = model.log_density(years[-10:, None], np.log(future)) - np.log(future)
as_it_is = plain.log_density(years[-10:, None], future)
season = next(leaf for leaf in model.kernel_.leaves() if leaf.symbol == "PER")
print(f"period {season.value('period'):.1f} years")
print(f"log density of the ten years: {on_logarithms.sum():.1f} on logarithms, {as_it_is.sum():.1f} as it is")
print(f"lowest end of a band: {low.min():.0f} animals on logarithms, {bands[1][0].min():.0f} as it is")
