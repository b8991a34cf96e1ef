"""
A network of kernels, and what it comes to
==========================================

A neural kernel network (Sun et al. 2018) weighs base kernels, multiplies them and weighs the products again; all
weights are trained at once. It is a kernel, and it can be read: written out, it is a polynomial in its base kernels,
and the terms that matter make an ordinary expression.
"""

import matplotlib.pyplot as plt
import numpy as np

import mercer

table = mercer.datasets.airline()
months, passengers = np.arange(144.0)[:, None], table["passengers"].to_numpy(dtype=float)
past, future = slice(None, 120), slice(120, None)

learner = mercer.NeuralKernelNetwork(
    primitives="2*SE + PER + LIN", layers="Linear4-Product2-Linear1", restarts=3, max_iterations=80
)
network = mercer.GPRegressor(learner, random_state=0).fit(months[past], passengers[past])
(seen,) = network.explain().networks
print(f"{network.kernel_.architecture}: {network.n_parameters_} parameters, {seen.count} terms")

# %%
# The terms by the share of the curve that each accounts for, and the expression that the network is distilled into.

distilled = network.distil()
print("distilled:", mercer.kernels.structure(distilled.kernel_), f"with {distilled.n_parameters_} parameters")
print(f"BIC {network.bic_:.0f} of the network, {distilled.bic_:.0f} of the expression")

figure, (left, right) = plt.subplots(1, 2, figsize=(7.8, 3.7), width_ratios=(1.5, 1))
left.plot(months[past], passengers[past], ".", color="0.3")
for name, model, colour in (("network", network, "C0"), ("distilled", distilled, "C1")):
    mean, std = model.predict(months[96:], return_std=True)
    left.plot(months[96:], mean, color=colour, label=name)
    left.fill_between(months[96:, 0], mean - 1.96 * std, mean + 1.96 * std, color=colour, alpha=0.15)
    error = abs(model.predict(months[future]) - passengers[future]).mean()
    print(f"{name}: mean error {error:.0f} in the two years kept aside")
left.plot(months[future], passengers[future], "o", color="C2", markersize=3, label="what came")
left.set(xlim=(84, 144), xlabel="month", ylabel="thousand passengers")
left.legend()
largest = seen.terms[:6][::-1]
right.barh([term.name for term in largest], [term.share for term in largest], color="C0")
right.set(xlabel="share of the curve", title="the largest terms")
right.tick_params(axis="y", labelsize=8)
