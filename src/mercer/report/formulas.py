"""The formulas of the base kernels, for a page: v variance, l lengthscale, p period, d = x − x′."""

from __future__ import annotations

FORMULAS = {
    "SE": "v exp(−d² / 2l²)",
    "PER": "v exp(−2 sin²(π d / p) / l²)",
    "CPER": "v (exp(cos(2π d / p) / l²) − I₀(1/l²)) / (exp(1/l²) − I₀(1/l²))",
    "LIN": "v (x − c)(x′ − c), c the offset",
    "RQ": "v (1 + d² / 2αl²)^(−α)",
    "C": "v",
    "WN": "v where x = x′, else 0",
    "M12": "v exp(−d / l)",
    "M32": "v (1 + √3 d / l) exp(−√3 d / l)",
    "M52": "v (1 + √5 d / l + 5d² / 3l²) exp(−√5 d / l)",
    "COS": "v cos(2π f d), f the frequency",
    "SM": "v Σ w exp(−2π² b² d²) cos(2π f d), f the frequencies, b the bandwidths",
    "EXPI": "v exp(2πi f d), f the frequency; the real part is taken at the end",
    "SUMI": "v cos(2π f (x − c)) cos(2π f (x′ − c)), f the frequency, c the offset",
}
