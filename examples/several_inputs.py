"""Several inputs, one of them a category: which structure explains the yield of a field best?

python examples/several_inputs.py
"""

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
harvest = truth + rng.normal(0, 0.3, rows)

STRUCTURES = {
    "one smooth function of everything": "SE",
    "straight lines": "LIN",
    "a sum, one part for each column": "SE(rain) + LIN(nitrogen) + CAT(soil)",
}

models = {}
for words, kernel in STRUCTURES.items():
    models[words] = mercer.GPRegressor(kernel, random_state=0).fit(fields, harvest)
    print(f"BIC {models[words].bic_:7.1f}  {words}")
words, best = min(models.items(), key=lambda entry: entry[1].bic_)

print(f"\nbest: {words}; noise {best.noise_**0.5:.2f} (true 0.30)")
print(*best.encoding_.notes)

# The soil alone: the same rain and nitrogen, three soils.
same = pd.DataFrame({"rain": 550.0, "nitrogen": 100.0, "soil": ["clay", "loam", "sand"]})
mean, std = best.predict(same, return_std=True, include_noise=False)
for soil, centre, spread in zip(same["soil"], mean, std, strict=True):
    print(f"{soil}: {centre:.2f} ± {1.96 * spread:.2f} tonnes for each hectare")
