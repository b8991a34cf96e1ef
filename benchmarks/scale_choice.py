"""Inducing points or random features? Both on the same rows, with the kernel that made them, for few and many columns.

    python -m benchmarks.scale_engine --part choice

Smooth and rough functions of 1 to 32 columns, drawn from SE with a known lengthscale; no fitting: what is compared is
how well an engine predicts the function at rows it has not seen, and the time of an evidence with its gradient.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import mercer
from mercer.compute.program import compile_program
from mercer.inference.contract import Data
from mercer.inference.likelihood import Gaussian
from mercer.kernels import SE, bind
from mercer.kernels.parameters import values_of

ROWS, NEW_ROWS, NOISE = 20_000, 2000, 0.1
WAVES = 4000  # of a drawn function: so many make it Gaussian for all that 20,000 rows can tell
FUNCTIONS = ((1, 0.05), (2, 0.3), (4, 0.7), (8, 1.5), (8, 3.0), (16, 2.5), (16, 5.0), (32, 4.0), (32, 8.0))
ENGINES = (
    mercer.VFE(inducing=500),
    mercer.RandomFeatures(count=300),
    mercer.RandomFeatures(count=1000),
    mercer.RandomFeatures(count=2000),
)


def drawn(columns: int, lengthscale: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return standard normal rows, and a function of them with variance one."""
    X = rng.normal(size=(ROWS + NEW_ROWS, columns))
    frequencies = rng.normal(size=(columns, WAVES)) / lengthscale
    phases, weights = rng.uniform(0, 2 * np.pi, WAVES), rng.normal(size=WAVES)
    blocks = [np.cos(X[i : i + 2000] @ frequencies + phases) @ weights for i in range(0, len(X), 2000)]
    return X, np.concatenate(blocks) * np.sqrt(2 / WAVES)


def choice(arguments: argparse.Namespace) -> dict[str, Any]:
    """Error and time of each engine for each function."""
    rng = np.random.default_rng(0)
    found = []
    for columns, lengthscale in FUNCTIONS:
        X, function = drawn(columns, lengthscale, rng)
        y = function[:ROWS] + np.sqrt(NOISE) * rng.normal(size=ROWS)
        data = Data(X[:ROWS], y, free_level=True)
        kernel = bind(SE(*range(columns), variance=1.0, lengthscale=lengthscale), columns)
        program, values = compile_program(kernel), values_of(kernel)
        for engine in ENGINES:
            held = engine.hold(program, values, data)
            started = time.process_time()
            held.evidence(program, values, Gaussian(NOISE), data)
            seconds = time.process_time() - started
            mean = held.posterior(program, values, Gaussian(NOISE), data).predict(X[ROWS:]).mean
            error = float(np.sqrt(np.mean((mean - function[ROWS:]) ** 2)))
            found.append({"columns": columns, "lengthscale": lengthscale, "engine": repr(engine), "rmse": error,
                          "cpu_seconds": seconds})  # fmt: skip
            print(
                f"{columns:3} columns, lengthscale {lengthscale:4}   {engine!r:36} {error:.3f} {seconds:6.1f} s",
                flush=True,
            )
    return {
        "protocol": f"{ROWS:,} rows, noise variance {NOISE}, {NEW_ROWS:,} new rows; RMSE against the function without "
        "noise (its variance is one); seconds of the processor for one evidence with its gradient; seed 0",
        "found": found,
    }
