"""
Twenty thousand rows
====================

Power of a wind turbine every ten minutes for months: too many rows to look at all pairs. Above 3,000 rows Mercer
looks at the data through inducing points; calls stay the same, and it says what it did. The data are made up after
the curve of a turbine: nothing below 3 m/s, full power from 12 m/s on.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import mercer

rng = np.random.default_rng(0)
count = 20_000
wind, air = rng.weibull(2.0, count) * 8, rng.normal(1.22, 0.04, count)  # m/s, kg/m³
share = np.clip((wind - 3) / 9, 0, 1)
power = np.minimum(2000 * share**2 * (3 - 2 * share) * air / 1.22, 2000) + 40 * rng.normal(size=count)
table = pd.DataFrame({"wind": wind, "air": air})

model = mercer.GPRegressor("SE", inference=mercer.VFE(inducing=150), restarts=2, max_iterations=60, random_state=0)
model.fit(table[:-1000], power[:-1000])
print(model.inference_.reason)
print(*model.notes_, sep="\n")
mean, std = model.predict(table[-1000:], return_std=True)
inside = np.mean(np.abs(mean - power[-1000:]) < 1.96 * std)
print(f"noise {model.noise_**0.5:.1f} kW (true 40.0); {inside:.1%} of 1,000 new rows inside the 95 % band")

# %%
# The curve of the turbine in light and in heavy air, and what is left in the errors.

line = np.linspace(0, 20, 200)
figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.5))
left.plot(wind[:3000], power[:3000], ".", color="0.75", markersize=1.5, zorder=0)
for density, colour in ((1.14, "C0"), (1.30, "C1")):
    curve, band = model.predict(pd.DataFrame({"wind": line, "air": density}), return_std=True, include_noise=False)
    left.plot(line, curve, color=colour, label=f"{density:.2f} kg/m³")
    left.fill_between(line, curve - 1.96 * band, curve + 1.96 * band, color=colour, alpha=0.3)
left.set(xlabel="wind, m/s", ylabel="power, kW", xlim=(0, 20), title="the curve, by the density of air")
left.legend(loc="lower right")
right.hist((power[-1000:] - mean) / std, 40, density=True, color="0.75")
normal = np.linspace(-4, 4, 200)
right.plot(normal, np.exp(-(normal**2) / 2) / np.sqrt(2 * np.pi))
right.set(xlabel="error / standard deviation", title="new rows against what was promised")
