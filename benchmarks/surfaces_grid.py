"""Large grids: one evaluation on up to 1000 x 1000 cells. Textures are in benchmarks/textures.py.

    python -m benchmarks.surfaces_grid [--device cuda]

This is the part `grid` of `python -m benchmarks.surfaces`, too.

n x n cells, 5 % missing at random, one evaluation of the evidence with its gradient, in a process of its own for each
size, so that the memory is that of the evaluation; the least of three repeats, in seconds on the wall and of all
processors together. The cost exponent is the slope of log processor seconds (on a GPU: of log seconds) by log cells
from the smallest grid on.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from mercer.inference.likelihood import Gaussian

SIZES = (250, 500, 1000)
REPEATS = 3
MISSING = 0.05
GRID_KERNELS = {
    "SE": "SE(0, lengthscale=15) * SE(1, lengthscale=20)",
    "M32 * SM4": "M32(0, lengthscale=30) * SM4(1, weights=[0.25, 0.25, 0.25, 0.25], "
    "frequency=[0.01, 0.02, 0.03, 0.05], bandwidth=0.01)",
}
GRID_LIMITS = {"seconds": 60.0, "GB": 4.0, "exponent": 1.6}


# ---------------------------------------------------------------------------------------------------------- large grids


def one_evaluation(size: int, kernel: str, device: str) -> dict[str, Any]:
    """Evaluate evidence and gradient once on size x size cells; the first, small one loads libraries."""
    from mercer.compute.program import compile_program
    from mercer.inference.contract import Data
    from mercer.inference.grid import Grid, GridEvidence
    from mercer.kernels import bind, parse
    from mercer.kernels.parameters import values_of

    bound = bind(parse(GRID_KERNELS[kernel]), 2)
    values = values_of(bound)
    values, program = np.where(np.isnan(values), 1.0, values), compile_program(bound)
    for n in (40, size):
        data = _cells(n, Data)
        assert data.lattice is not None
        before, walls, works = _memory(device), [], []
        for _ in range(REPEATS):
            started, working = time.perf_counter(), time.process_time()
            found = Grid(device=device).evidence(program, values, Gaussian(0.01), data)
            walls.append(time.perf_counter() - started)
            works.append(time.process_time() - working)
    assert isinstance(found, GridEvidence)
    return {
        "cells": size * size, "kernel": kernel, "device": device, "GB": _memory(device),
        "seconds": min(walls), "processor seconds": min(works),
        "GB before": before, "iterations": found.iterations, "residual": found.residual,
        "log determinant": found.log_determinant,
    }  # fmt: skip


def _cells(n: int, data: Any) -> Any:
    rng = np.random.default_rng(0)
    grid = np.stack([a.ravel() for a in np.meshgrid(np.arange(float(n)), np.arange(float(n)), indexing="ij")], 1)
    X = grid[rng.random(n * n) >= MISSING]
    return data(X, np.sin(X[:, 0] / 20) * np.cos(X[:, 1] / 30) + 0.1 * rng.standard_normal(len(X)), True)


def _memory(device: str) -> float:
    """Return the most gigabytes in use so far: of the process, or on the GPU."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.max_memory_allocated() / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def grids(device: str = "cpu", sizes: Sequence[int] = SIZES) -> dict[str, Any]:
    """Every kernel and size, each in a process of its own."""
    lines = [
        f"Evidence and gradient, {MISSING:.0%} of the cells missing, {device}; asked at a million cells: at most "
        f"{GRID_LIMITS['seconds']:.0f} s and {GRID_LIMITS['GB']:.0f} GB, exponent at most {GRID_LIMITS['exponent']}.",
        "",
        "| kernel | cells | seconds | processor seconds | GB | steps | residual | exponent |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows = []
    for kernel in GRID_KERNELS:
        first = None
        for size in sizes:
            command = [sys.executable, "-m", "benchmarks.surfaces_grid", "--one", "--device", device]
            asked = [*command, "--size", str(size), "--kernel", kernel]
            row = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
            if first is not None:
                of = "processor seconds" if device == "cpu" else "seconds"
                row["exponent"] = math.log(row[of] / first[of]) / math.log(row["cells"] / first["cells"])
            first = first or row
            rows.append(row)
            lines.append(
                f"| {kernel} | {row['cells']:,} | {row['seconds']:.2f} | {row['processor seconds']:.2f} "
                f"| {row['GB']:.2f} | {row['iterations']} | {row['residual']:.0e} | {_two(row.get('exponent'))} |"
            )
            print(lines[-1], flush=True)
    return {"rows": rows, "markdown": "\n".join(lines)}


def _two(number: float | None) -> str:
    return "" if number is None else f"{number:.2f}"


PARTS: dict[str, Callable[[Path], dict[str, Any]]] = {"grid": lambda data: grids()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", action="store_true", help="one evaluation, with --size and --kernel")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--kernel", default="SE")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one_evaluation(options.size, options.kernel, options.device)))
        return
    print("\n".join(machine.lines(machine.describe())))
    print(grids(options.device, options.sizes)["markdown"])


if __name__ == "__main__":
    main()
