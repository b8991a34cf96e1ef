"""
Tune a classifier in thirty trials
==================================

Four settings of a support vector machine for handwritten digits, judged by cross-validation: each trial is a training
run, and training runs are what takes time. ``mercer.minimize`` learns from the trials so far where to try next.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer

warnings.simplefilter("ignore", ConvergenceWarning)  # hopeless settings are cut short
X, y = load_digits(return_X_y=True)
X, y = X[:400] / 16.0, y[:400]


def error(point):
    """The share of digits misread, in three folds."""
    machine = SVC(C=point["C"], gamma=point["gamma"], kernel=point["kernel"], max_iter=3000)
    return 1 - cross_val_score(make_pipeline(PCA(point["parts"]), machine), X, y, cv=3).mean()


bounds = {
    "C": mercer.Log(1e-2, 1e4),
    "gamma": mercer.Log(1e-5, 1e1),
    "parts": mercer.Integer(2, 60),
    "kernel": ["rbf", "poly", "sigmoid"],
}
result = mercer.minimize(error, bounds, calls=30, random_state=0)
print(f"error {result.fun:.3f} with C = {result.x['C']:.3g}, gamma = {result.x['gamma']:.3g}, ", end="")
print(f"{result.x['parts']} parts, kernel {result.x['kernel']}")
# %%
# To compare with: settings drawn at random, sixty of them, of which runs of thirty are drawn again and again.

rng = np.random.default_rng(0)
values = []
for _ in range(60):
    settings = {"C": 10 ** rng.uniform(-2, 4), "gamma": 10 ** rng.uniform(-5, 1), "parts": int(rng.integers(2, 61))}
    values.append(error(settings | {"kernel": rng.choice(["rbf", "poly", "sigmoid"])}))
random_runs = np.array([np.minimum.accumulate(rng.permutation(values)[:30]) for _ in range(300)])

figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.6))
tried = np.array([(point["gamma"], point["C"]) for point in result.x_iters])
points = left.scatter(*tried.T, c=np.clip(result.func_vals, None, 0.5), cmap="viridis_r", s=28)
left.plot(result.x["gamma"], result.x["C"], "*", color="C1", markersize=13)
left.set(xscale="log", yscale="log", xlabel="gamma", ylabel="C", title="where it tried (star: the best)")
figure.colorbar(points, ax=left, label="error, cut at 0.5")
trials = np.arange(1, 31)
right.fill_between(trials, *np.quantile(random_runs, (0.1, 0.9), axis=0), color="0.85", label="at random, 10 to 90 %")
right.plot(trials, np.median(random_runs, axis=0), color="0.5", label="at random, median")
right.plot(trials, np.minimum.accumulate(result.func_vals), color="C0", label="mercer.minimize")
right.set(xlabel="trial", ylabel="best error so far", ylim=(0.05, 0.3), title="what was gained")
right.legend()

# %%
# What it learned on the way:

print(result.optimizer.explain())
