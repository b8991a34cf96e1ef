"""The paper's 111-parameter network: how far is the evidence with its gradient from the factorisation alone?

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m benchmarks.nkn_speed

Measured as in benchmarks/speed.py: the candidate and the floor (LAPACK potrf + potri) in turn, medians, and the ratio
of medians; uneven rows, then evenly spaced ones. The target is a ratio of 5 at N = 1500. Only the public API is used.
"""

from __future__ import annotations

import argparse
import os

import numpy as np

import mercer
from benchmarks.speed import NOISE, REPEATS, Array, Candidate, time_cell
from mercer.kernels import LIN, NKN, PER, RQ, SE, Network, bind, layout

LAYERS = "Linear8-Product4-Linear4-Product2-Linear1"
TARGET = {1500: 5.0}
CASES = ("NKN 111, 1-D", "NKN 111, 1-D, evenly spaced")


def paper_network() -> Network:
    """Return `mercer.kernels.time_series_network` with values: 16 of the primitives and 95 of the layers."""
    rng = np.random.default_rng(0)
    lin, alpha = mercer.fixed(0.0), mercer.fixed(1.0)
    primitives = [
        *(SE(0, variance=1, lengthscale=length) for length in (0.5, 3.0)),
        *(PER(0, variance=1, period=period, lengthscale=1) for period in (2.0, 3.0)),
        *(LIN(0, variance=variance, offset=lin) for variance in (0.1, 1.0)),
        *(RQ(0, variance=1, lengthscale=length, alpha=alpha) for length in (0.7, 2.0)),
    ]
    sizes = ((64, 8), (16, 4), (2, 1))
    weights, bias = ([rng.uniform(0.02, 0.3, size[k]) for size in sizes] for k in (0, 1))
    return NKN(primitives, LAYERS, weights=weights, bias=bias, variances=True)


def make(case: str, X: Array, y: Array) -> Candidate:
    network = paper_network()
    return lambda: mercer.log_evidence(network, X, y, noise=NOISE, gradient=True)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[150, 500, 1500])
    arguments = parser.parse_args()
    print(f"{layout(bind(paper_network(), 1)).n_free} parameters; load {os.getloadavg()[0]:.1f}")
    for case in CASES:
        for n in arguments.sizes:
            cell = time_cell(make, case, n, REPEATS.get(n, 7))
            target = f" (target {TARGET[n]:g})" if n in TARGET else ""
            print(f"{case:30} N = {n:5}: floor {cell['floor']:8.2f} ms, evidence and gradient {cell['time']:8.2f} ms, "
                  f"ratio {cell['ratio']:.2f}{target}")  # fmt: skip


if __name__ == "__main__":
    main()
