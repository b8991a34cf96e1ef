"""
How a search finds its kernel
=============================

A search begins with base kernels, and grows what is best by adding, multiplying and replacing. Every kernel that it
tried is kept with its score and the reason why it went no further. So the way to the winner can be looked at.
"""

import matplotlib.pyplot as plt
import numpy as np

import mercer

table = mercer.datasets.airline()
search = mercer.GrammarSearch(bases=["SE", "PER", "LIN"], max_depth=4, restarts=2)
model = mercer.GPRegressor(search, random_state=0).fit(table[["month"]], table["passengers"])

depths = np.array([candidate.depth for candidate in model.candidates_])
scores = np.array([candidate.score for candidate in model.candidates_])
statuses = np.array([candidate.status for candidate in model.candidates_])
for depth in range(depths.max() + 1):
    here = np.flatnonzero((depths == depth) & np.isfinite(scores))
    best = model.candidates_[here[scores[here].argmin()]]
    kernel = mercer.kernels.structure(best.expression)
    print(f"step {depth}: {len(here):3} kernels, best BIC {best.score:7.1f}  {kernel}")

# %%
# Most kernels are left behind early: all run a little, the promising ones further. The best of each step is joined.

out = statuses == "raced out"
jitter = np.random.default_rng(0).uniform(-0.22, 0.22, len(depths))
figure, axes = plt.subplots(figsize=(7, 4))
axes.plot(depths[out] + jitter[out], scores[out], ".", color="0.7", label="left behind")
axes.plot(depths[~out] + jitter[~out], scores[~out], "o", color="C0", markersize=4, label="fitted to the end")
steps = np.arange(depths.max() + 1)
axes.plot(steps, [scores[depths == step].min() for step in steps], color="C1", label="the best of each step")
axes.set(xlabel="step of the search", ylabel="BIC (smaller is better)", xticks=steps, ylim=(None, 1800))
axes.legend()

# %%
# Predictions average the best of them, by evidence:

finalists = sorted(model.candidates_, key=lambda candidate: candidate.score)[:5]
for candidate in finalists:
    print(f"BIC {candidate.score:7.1f}  {mercer.kernels.structure(candidate.expression)}")
