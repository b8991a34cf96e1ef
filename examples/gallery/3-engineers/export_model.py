"""
Learn here, run there
=====================

A model is learned in Mercer and shall run in a service that has never heard of it: as a file for ONNX, as a model of
scikit-learn or of GPyTorch. Are the predictions the same?
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
import torch

import mercer

table = mercer.datasets.airline()
months = np.arange(144.0)[:, None]
model = mercer.GPRegressor("SE*PER(0, period=12) + LIN + M12", random_state=0).fit(months, table["passengers"])
ahead = np.linspace(100, 168, 273)[:, None]
mean, std = model.predict(ahead, return_std=True)

regressor = model.to_sklearn()
process = model.to_gpytorch()
path = Path(tempfile.mkdtemp()) / "passengers.onnx"
model.to_onnx(path)
session = onnxruntime.InferenceSession(str(path))

observed = process.likelihood(process(torch.tensor(ahead)))
others = {
    "scikit-learn": regressor.predict(ahead, return_std=True),
    "GPyTorch": (observed.mean.detach().numpy(), observed.stddev.detach().numpy()),
    "ONNX": tuple(np.ravel(found) for found in session.run(["mean", "std"], {"X": ahead})),
}
for name, (its_mean, its_std) in others.items():
    print(f"{name:13} mean within {abs(its_mean - mean).max():.1e}, standard deviation within ", end="")
    print(f"{abs(its_std - std).max():.1e}")
print(f"the file: {path.stat().st_size / 1024:.0f} kB")

# %%
# Differences are those of rounding, far below anything that can be seen.

figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.4), width_ratios=(1.3, 1))
left.plot(months[90:, 0], table["passengers"][90:], ".", color="0.3")
left.plot(ahead, mean)
left.fill_between(ahead[:, 0], mean - 1.96 * std, mean + 1.96 * std, alpha=0.25)
left.set(xlabel="month", ylabel="thousand passengers", title="the model")
for name, (its_mean, _) in others.items():
    right.semilogy(ahead, np.maximum(abs(its_mean - mean), 1e-16), label=name, linewidth=1)
right.set(xlabel="month", title="difference of the means", ylim=(1e-16, 1e-4))
right.legend()
