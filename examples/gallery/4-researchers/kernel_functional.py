"""
A kernel without a formula
==========================

Kernel functional optimisation (Arun Kumar et al. 2021) looks for a kernel in a space of functions: a series :math:`K
= v \\sum_k w_k u^{p_k}` of a base kernel :math:`u`. How does what it finds differ from the kernels of textbooks? The
signal is a triangular wave, which none of them is made for.
"""

import matplotlib.pyplot as plt
import numpy as np

import mercer

rng = np.random.default_rng(0)
x = np.linspace(0, 9, 100)[:, None]
y = np.abs(x[:, 0] % 1.5 - 0.75) + 0.02 * rng.normal(size=100)
new = np.linspace(9, 13.5, 200)[:, None]
truth = np.abs(new[:, 0] % 1.5 - 0.75)

learner = mercer.KernelFunctional(subspaces=2, iterations=4)
found = mercer.GPRegressor(learner, random_state=0).fit(x, y)
periodic = mercer.GPRegressor("PER", random_state=0).fit(x, y)
print(found.kernel_.text(digits=2))
print(*found.notes_, sep="\n")

# %%
# The forecasts, and the shape of each kernel over the distance.

figure, (left, right) = plt.subplots(1, 2, figsize=(7.8, 3.5), width_ratios=(1.5, 1))
left.plot(x[60:], y[60:], ".", color="0.3")
left.plot(new, truth, color="C2", linewidth=1, label="truth")
distance = np.linspace(0, 3, 300)[:, None]
for name, model, colour in (("found", found, "C0"), ("periodic", periodic, "C1")):
    mean, std = model.predict(new, return_std=True)
    left.plot(new, mean, color=colour, label=name)
    left.fill_between(new[:, 0], mean - 1.96 * std, mean + 1.96 * std, color=colour, alpha=0.15)
    shape = model.kernel_(distance, distance[:1])[:, 0]
    right.plot(distance, shape / shape[0], color=colour, label=name)
    print(f"{name}: error {np.sqrt(np.mean((mean - truth) ** 2)):.3f}, log evidence {model.log_evidence_:.1f}")
left.set(xlabel="x", title="three periods ahead", ylim=(-0.2, 1.1))
left.legend(ncols=3, loc="upper right")
right.set(xlabel="distance", title="k(distance) / k(0)", ylim=(0, 1.05))
right.legend(loc="lower right")

# %%
# What was found is wider at its foot and sharper at its top, as the corners ask. Both forecast well here: a
# functional is worth a few units of log evidence over the kernel inside it, and where it is not, Mercer drops it and
# says so.
