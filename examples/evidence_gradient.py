"""The log evidence of a given kernel and its gradient, checked against finite differences.

python examples/evidence_gradient.py
"""

import numpy as np

import mercer
from mercer.kernels import LIN, PER, RQ, SE, Expression

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(0, 10, size=(200, 1)), axis=0)
y = np.sin(2 * X[:, 0]) + 0.2 * X[:, 0] + 0.2 * rng.normal(size=200)
VALUES = {"se": 2.0, "period": 3.1, "shape": 1.2, "line": 0.5, "rq": 0.7, "alpha": 1.5}
PATHS = {
    "se": "0:SE.lengthscale",
    "period": "1:PER.period",
    "shape": "1:PER.lengthscale",
    "line": "2:LIN.variance",
    "rq": "3:RQ.lengthscale",
    "alpha": "3:RQ.alpha",
}


def kernel(values: dict[str, float]) -> Expression:
    season = SE(0, variance=1.0, lengthscale=values["se"]) * PER(
        0, variance=1.0, period=values["period"], lengthscale=values["shape"]
    )
    line = LIN(0, variance=values["line"], offset=0.0)
    return season + line * RQ(0, variance=1.0, lengthscale=values["rq"], alpha=values["alpha"])


value, gradient = mercer.log_evidence(kernel(VALUES), X, y, noise=0.04, gradient=True)
print(f"log evidence {value:.6f}\n")
print(f"{'parameter':20}{'gradient':>14}{'difference':>14}{'relative error':>17}")
for name, path in PATHS.items():
    step = 1e-5 * VALUES[name]
    up, down = (
        mercer.log_evidence(kernel(VALUES | {name: VALUES[name] + sign * step}), X, y, noise=0.04) for sign in (1, -1)
    )
    difference = (up - down) / (2 * step)
    error = abs(difference - gradient[path]) / abs(difference)
    assert error < 1e-5
    print(f"{path:20}{gradient[path]:14.6f}{difference:14.6f}{error:17.1e}")
