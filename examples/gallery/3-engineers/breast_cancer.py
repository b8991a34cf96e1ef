"""
Benign or malignant, and how sure?
==================================

Thirty measures of 569 samples of tissue (Wolberg et al. 1995; it comes with scikit-learn). A support vector machine
needs a kernel; ``KernelSVC`` finds one on the training rows, and its probabilities are calibrated on rows left out. A
third of the samples is kept aside to judge.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import mercer

table = load_breast_cancer(as_frame=True)
kind = table.target.map({0: "malignant", 1: "benign"})
inside, aside, y_inside, y_aside = train_test_split(table.data, kind, test_size=1 / 3, random_state=0, stratify=kind)

learner = mercer.KernelFunctional(subspaces=1, iterations=4, tuning=2)  # "kfo" searches longer
models = {
    "linear": mercer.KernelSVC("linear", random_state=0),
    "usual (SE)": mercer.KernelSVC("rbf", random_state=0),
    "found": mercer.KernelSVC(learner, random_state=0),
}
for name, model in models.items():
    model.fit(inside, y_inside)
    wrong = 1 - model.score(aside, y_aside)
    print(f"{name:12} {wrong:.1%} of the samples kept aside are wrong; it expected {model.error_:.1%}")

# %%
# The probabilities: among samples that are called malignant with 10 %, one in ten should be. Few are in doubt.

model = models["found"]
chance = model.predict_proba(aside)[:, list(model.classes_).index("malignant")]
truth = (y_aside == "malignant").to_numpy()

figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.5))
bins = np.linspace(0, 1, 21)
left.hist([chance[~truth], chance[truth]], bins, stacked=True, color=["C0", "C1"], label=["benign", "malignant"])
left.set(xlabel="probability of malignant", ylabel="samples kept aside", yscale="symlog", title="how sure it is")
left.legend()
thresholds = np.linspace(0.02, 0.9, 60)
missed = [np.mean(chance[truth] < limit) for limit in thresholds]
alarms = [np.mean(chance[~truth] >= limit) for limit in thresholds]
right.plot(thresholds, missed, color="C1", label="malignant, missed")
right.plot(thresholds, alarms, color="C0", label="benign, called back")
right.set(xlabel="called back from this probability on", ylabel="share", title="what a threshold costs", ylim=(0, None))
right.legend()

for limit in (0.5, 0.2, 0.1):
    print(f"from {limit:.0%} on: {np.sum(chance[truth] < limit)} of {truth.sum()} malignant missed, ", end="")
    print(f"{np.sum(chance[~truth] >= limit)} of {(~truth).sum()} benign called back")
