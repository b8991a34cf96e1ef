"""
What does a kernel believe?
===========================

Before it sees data a kernel is a distribution over functions. Draws from it say more than its formula: what adding
does, what multiplying does, and what a change point does. Kernels are expressions: any of them can be written,
nested, evaluated and drawn from.
"""

import matplotlib.pyplot as plt
import numpy as np

import mercer
from mercer.kernels import CP, LIN, M12, PER, RQ, SE, components, structure

smooth = SE(0, variance=1, lengthscale=2)
wave = PER(0, variance=1, period=2, lengthscale=0.8)
line = LIN(0, variance=0.15, offset=5)
rough = M12(0, variance=1, lengthscale=1)
many = RQ(0, variance=1, lengthscale=1, alpha=0.2)
kernels = {
    "smooth plus wave": smooth + wave,
    "smooth times wave": smooth * wave,
    "wave times line": wave * line,
    "many scales": many,
    "rough plus line": rough + line,
    "smooth, then rough": CP(smooth, rough, on=0, location=5, width=0.2),
}

# %%
# A draw is :math:`L z` with :math:`K = L L^\top` and :math:`z` standard normal, here by eigenvalues, which no
# rounding upsets.


def draw(kernel, x, count, rng):
    """Return functions drawn from a kernel, one in each column."""
    values, vectors = np.linalg.eigh(kernel(x[:, None]))
    return vectors @ (np.sqrt(np.clip(values, 0, None))[:, None] * rng.normal(size=(len(x), count)))


rng, x = np.random.default_rng(1), np.linspace(0, 10, 400)
figure, grid = plt.subplots(2, 3, figsize=(7.8, 4.4), sharex=True)
for axes, (name, kernel) in zip(grid.ravel(), kernels.items(), strict=True):
    axes.plot(x, draw(kernel, x, 3, rng), linewidth=1.2)
    axes.set(title=f"{name}\n{structure(kernel)}", yticks=[])
    axes.title.set_fontsize(9)

# %%
# They are data: text that parses back, and sums of products whatever the nesting.

for kernel in kernels.values():
    assert mercer.parse(str(kernel)) == kernel
nested = (smooth + line) * (wave + rough)
print(structure(nested), "has", len(components(nested)), "components:")
for part in components(nested):
    print("  ", structure(part))
