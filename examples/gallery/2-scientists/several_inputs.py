"""
Rain, nitrogen and soil: what makes the yield of a field?
=========================================================

Sixty fields with rain, nitrogen and soil, one of which is a category. Which structure explains the yield best, and
what does each input do? The yields are made up: a bump over rain, a straight line over nitrogen, a step for each
soil.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import mercer

rng = np.random.default_rng(0)
rows = 60
fields = pd.DataFrame(
    {
        "rain": rng.uniform(200, 900, rows),  # mm in a season
        "nitrogen": rng.uniform(0, 200, rows),  # kg for each hectare
        "soil": rng.choice(["clay", "loam", "sand"], rows),
    }
)
truth = (
    2 + 4 * np.exp(-(((fields["rain"] - 550) / 120) ** 2))  # too little rain is bad, and so is too much
    + 0.012 * fields["nitrogen"]
    + fields["soil"].map({"clay": 0.0, "loam": 1.0, "sand": -1.5})
)  # fmt: skip
harvest = (truth + rng.normal(0, 0.3, rows)).rename("harvest")

# %%
# Three structures, compared by BIC (smaller is better):

STRUCTURES = {
    "one smooth function of everything": "SE",
    "straight lines": "LIN(rain) + LIN(nitrogen) + CAT(soil)",
    "a sum, one part for each column": "SE(rain) + LIN(nitrogen) + CAT(soil)",
}
models = {}
for words, kernel in STRUCTURES.items():
    models[words] = mercer.GPRegressor(kernel, random_state=0).fit(fields, harvest)
    print(f"BIC {models[words].bic_:7.1f}  {words}")
words, best = min(models.items(), key=lambda entry: entry[1].bic_)
print(f"\nbest: {words}; noise {best.noise_**0.5:.2f} (true 0.30)")

# %%
# What each input does, the others held: 100 kg of nitrogen, 550 mm of rain, loam.

usual = {"rain": 550.0, "nitrogen": 100.0, "soil": "loam"}
lines = {"rain": np.linspace(200, 900, 80), "nitrogen": np.linspace(0, 200, 80), "soil": ["clay", "loam", "sand"]}
figure, all_axes = plt.subplots(1, 3, figsize=(7.6, 3.0), sharey=True)
for axes, (name, line) in zip(all_axes, lines.items(), strict=True):
    mean, std = best.predict(pd.DataFrame({**usual, name: line}), return_std=True, include_noise=False)
    if name == "soil":
        axes.errorbar(line, mean, 1.96 * std, fmt="o", capsize=4)
        axes.set_xlim(-0.5, 2.5)
    else:
        axes.plot(line, mean)
        axes.fill_between(line, mean - 1.96 * std, mean + 1.96 * std, alpha=0.25)
    axes.set(title=name, xlabel={"rain": "mm in a season", "nitrogen": "kg for each hectare"}.get(name, ""))
all_axes[0].set_ylabel("tonnes for each hectare")

# %%
# In words:

for effect in best.explain().effects:
    print(effect.sentence)
