"""
Fill the hole that a cloud left
===============================

A satellite sees the height of waves on a grid, a cloud hides a part, and some pixels are lost. On a grid the matrix
of all pairs of cells is a product of small ones, so that even a million cells are no problem. Fill the hole, go on
beyond the edge, and say how sure each cell is.
"""

import matplotlib.pyplot as plt
import numpy as np

import mercer

rng = np.random.default_rng(0)
north, east = np.arange(60.0), np.arange(80.0)  # kilometres
swell = np.cos(2 * np.pi * (east + 1.5 * np.sin(east / 9)) / 13) * np.exp(-((north[:, None] - 30) ** 2) / 800)
height = 2.0 + swell + 0.2 * np.sin(north / 6)[:, None] + 0.1 * rng.normal(size=(60, 80))
seen = height.copy()
seen[22:40, 30:52] = np.nan  # a cloud
seen[rng.random(seen.shape) < 0.05] = np.nan  # and pixels that were lost

model = mercer.GridRegressor(["SE", "SM2"], random_state=0).fit(seen, [north, east])
filled, std = model.fill(return_std=True)
missing = np.isnan(seen)
error = (filled - height)[missing]
print(f"{missing.sum()} of {seen.size} cells were missing; their error is {np.sqrt(np.mean(error**2)):.2f}, noise 0.10")
print(f"{np.mean(np.abs(error) < 1.96 * std[missing]):.0%} of them lie inside their 95 % bands")
for name, kernel in zip(("north", "east"), model.kernels_, strict=True):
    print(f"{name}: {kernel.text(digits=3)}")

# %%
# Beyond the eastern edge (dashed) the waves go on, and the band widens.

beyond, spread = model.predict({1: np.arange(110.0)}, return_std=True, include_noise=False)
print(f"30 km further east the band is {spread[30, 109] / spread[30, 40]:.0f} times as wide as in the hole")

figure, grid = plt.subplots(2, 2, figsize=(7.8, 5.0))
pictures = (seen, "what was seen"), (filled, "filled"), (beyond, "and beyond"), (spread, "standard deviation")
for axes, (values, title) in zip(grid.ravel(), pictures, strict=True):
    limits = {"norm": "log"} if values is spread else {"vmin": 0.5, "vmax": 3.5}
    shown = axes.imshow(values, origin="lower", cmap="magma" if values is spread else "viridis", **limits)
    if values.shape[1] > len(east):
        axes.axvline(len(east) - 0.5, color="white", linestyle="--")  # where the data ends
    axes.set(title=title, xlabel="east, km", ylabel="north, km")
    figure.colorbar(shown, ax=axes, shrink=0.8)
