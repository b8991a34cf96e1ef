"""
Which inputs act together in diabetes?
======================================

Ten measures of 442 patients, and how far the disease went in a year (Efron et al. 2004; it comes with scikit-learn).
Does the effect of one measure depend on another? ``PartitionSampler`` weighs all ways to part the inputs into groups
that act together, and gives each a probability. To keep it short, five measures and 200 patients.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import mercer

table = load_diabetes(as_frame=True, scaled=False)
names = {"bmi": "weight", "bp": "pressure", "s5": "fat", "s3": "hdl", "sex": "sex"}
inputs = table.data[list(names)].rename(columns=names)
rows = np.random.default_rng(0).permutation(len(inputs))[:200]

sampler = mercer.PartitionSampler(steps=40, burn_in=10, families=["SE"])
model = mercer.GPRegressor(sampler, random_state=0).fit(inputs.iloc[rows], table.target.iloc[rows].rename("progress"))
found = model.explain().partition
for sentence in found.sentences:
    print(sentence)

# %%
# The probability that two measures act together, for every pair; and what one does, the others at their average.

labels = list(found.inputs)
together = np.array(found.together)
np.fill_diagonal(together, np.nan)

figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.4), width_ratios=(1, 1.25))
shown = left.imshow(together, vmin=0, vmax=1, cmap="Blues")
for i, j in zip(*np.nonzero(np.isfinite(together)), strict=True):
    left.text(j, i, f"{together[i, j]:.0%}", ha="center", va="center", color="white" if together[i, j] > 0.6 else "0.2")
left.set(xticks=range(5), yticks=range(5), yticklabels=labels, title="act together")
left.set_xticklabels(labels, rotation=45, ha="right")
left.spines[:].set_visible(False)

middle = inputs.mean()
weight = np.linspace(inputs["weight"].min(), inputs["weight"].max(), 60)
line = inputs.iloc[[0] * 60].assign(**{name: middle[name] for name in labels}).assign(weight=weight)
mean, std = model.predict(line, return_std=True, include_noise=False)
right.plot(weight, mean)
right.fill_between(weight, mean - 1.96 * std, mean + 1.96 * std, alpha=0.25)
right.set(xlabel="body mass index", ylabel="progress", title="the rest at its average")
