"""
Where on the field does it become wet?
======================================

Probes of soil over a field of a hectare: on one side of an unknown border the measured values wave with the drains,
on the other they hardly vary. Where is the border? A change surface over two columns learns it together with what
holds on either side. The data are made up, so the true border is known.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import mercer

rng = np.random.default_rng(3)
field = pd.DataFrame(rng.uniform(0, 100, (220, 2)), columns=["east", "north"])  # metres
border = 45 + 18 * np.sin(field["north"] / 22)
wet = (field["east"] > border).to_numpy()
moisture = np.where(wet, 30 + 4 * np.sin(field["east"] / 5), 15 + 0.03 * field["north"]) + 0.6 * rng.normal(size=220)

learner = mercer.ChangeSurface(regimes=2, kernel="SE", surface="rks")
model = mercer.GPRegressor(learner, random_state=0).fit(field, moisture)
shares = model.change_.shares(field)
print(f"{np.mean((shares[:, 1] > 0.5) == wet):.0%} of the probes are put on their true side of the border")
print(f"preferred: {model.change_.preferred} regimes")

# %%
# The learned share of the wet side, its border at one half, and the true one.

line = np.linspace(0, 100, 61)
places = pd.DataFrame([(east, north) for north in line for east in line], columns=["east", "north"])
share = model.change_.shares(places)[:, 1].reshape(61, 61)
unsure = model.change_.shares_std(places)[:, 1].reshape(61, 61)

figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.7), sharey=True)
shown = left.pcolormesh(line, line, share, vmin=0, vmax=1, cmap="cividis", rasterized=True)
left.scatter(field["east"], field["north"], c=np.where(wet, "white", "black"), s=5)
left.set(title="share of the wet regime", xlabel="east, m", ylabel="north, m")
figure.colorbar(shown, ax=left, shrink=0.85)
doubt = right.pcolormesh(line, line, unsure, vmin=0, cmap="magma", rasterized=True)
right.contour(line, line, share, levels=[0.5], colors="white")
right.plot(45 + 18 * np.sin(line / 22), line, "--", color="C5")
right.set(title="doubt (dashed: the true border)", xlabel="east, m")
figure.colorbar(doubt, ax=right, shrink=0.85)
