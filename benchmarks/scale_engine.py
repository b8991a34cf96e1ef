"""The engines for many rows: one evaluation at a million rows, against GPyTorch, on a GPU, and networks through them.

    python -m benchmarks.scale_engine --part million          # time, memory and growth from 10^4 to 10^6 rows
    python -m benchmarks.scale_engine --part peers            # against GPyTorch's SGPR, same run
    python -m benchmarks.scale_engine --part cuda             # on a machine with an NVIDIA GPU
    python -m benchmarks.scale_engine --part nkn --data FOLDER [--device cuda]

Results are printed, and kept in benchmarks/results/scale-engine-PART.json with the machine they were measured on.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import blas

from benchmarks.machine import describe, lines
from mercer.evaluate.program import compile_program
from mercer.inference.contract import Data
from mercer.inference.vfe import FixedVFE
from mercer.kernels import SE, bind
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import values_of

RESULTS = Path(__file__).parent / "results"
COLUMNS, POINTS, NOISE = 8, 500, 0.1
SIZES = (10_000, 31_623, 100_000, 316_228, 1_000_000)
PEER_ROWS = 10_000


def kernel(columns: int = COLUMNS) -> Expression:
    """The known kernel: SE with a lengthscale for each column, and a variance of one."""
    return bind(SE(variance=1.0, lengthscale=list(np.linspace(1.0, 3.0, columns))), columns)


def made_rows(count: int, seed: int = 0) -> Data:
    """Draw rows from the known kernel, to the accuracy of 2,000 random features, and add noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, COLUMNS))
    frequencies = rng.normal(size=(COLUMNS, 2000)) / np.linspace(1.0, 3.0, COLUMNS)[:, None]
    phases, weights = rng.uniform(0, 2 * np.pi, 2000), rng.normal(size=2000)
    y = np.empty(count)
    for first in range(0, count, 20_000):
        some = slice(first, first + 20_000)
        y[some] = np.cos(X[some] @ frequencies + phases) @ weights * np.sqrt(2 / 2000)
    return Data(X, y + np.sqrt(NOISE) * rng.normal(size=count), free_level=True)


def timed(work: Callable[[], Any], repeats: int) -> list[float]:
    """Return seconds of each of some runs, after one that does not count."""
    work()
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return seconds


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


# ------------------------------------------------------------------------------------------------------- one million


def product(points: np.ndarray, rows: int) -> float:
    """Return the seconds of Kuf Kfu alone, as a full m x N x m product in blocks of rows."""
    block = np.ascontiguousarray(np.random.default_rng(0).normal(size=(2000, len(points))))
    total = np.zeros((len(points), len(points)), order="F")

    def work() -> None:
        for _ in range(rows // len(block)):
            blas.dgemm(1.0, block.T, block, beta=1.0, c=total, overwrite_c=1)

    return statistics.median(timed(work, 3))


def million(arguments: argparse.Namespace) -> dict[str, Any]:
    """One evaluation of the bound and its gradient, from 10^4 to 10^6 rows, m = 500."""
    bound = kernel()
    program, values = compile_program(bound), values_of(bound)
    whole = made_rows(SIZES[-1])
    engine = FixedVFE(whole.X[np.random.default_rng(1).choice(len(whole.X), POINTS, replace=False)])
    before, found = peak_gigabytes(), []
    for rows in SIZES:
        data = Data(whole.X[:rows], whole.y[:rows], free_level=True)
        seconds = timed(lambda d=data: engine.evidence(program, values, NOISE, d), 5 if rows <= 100_000 else 2)
        found.append({"rows": rows, "seconds": statistics.median(seconds), "runs": seconds})
        print(f"{rows:>10,} rows   {found[-1]['seconds']:8.2f} s", flush=True)
    alone = product(engine.Z, SIZES[-1])
    slope = np.polyfit(np.log([f["rows"] for f in found]), np.log([f["seconds"] for f in found]), 1)[0]
    result = {
        "protocol": f"ARD SE on {COLUMNS} columns, m = {POINTS}, bound and gradient by all parameters; median of 5 "
        "runs (2 above 10^5 rows) after a warm-up; exponent by least squares on the logarithms",
        "evaluations": found,
        "product_seconds": alone,
        "times_the_product": found[-1]["seconds"] / alone,
        "exponent": float(slope),
        "peak_gigabytes_with_data": peak_gigabytes(),
        "gigabytes_before_the_first": before,
    }
    print(f"m x N x m product alone {alone:.2f} s: the evaluation takes {result['times_the_product']:.1f} times that")
    print(f"exponent {slope:.3f}; peak memory {result['peak_gigabytes_with_data']:.2f} GB ({before:.2f} GB before)")
    return result


# -------------------------------------------------------------------------------------------------------- peers


def sgpr(data: Data, Z: np.ndarray, joint: bool) -> Callable[[], float]:
    """GPyTorch's SGPR on the same rows, points and values: bound and gradient."""
    import gpytorch
    import torch

    X, y = torch.tensor(data.X), torch.tensor(data.y)

    class Model(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self, likelihood: Any) -> None:
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))
            self.covar_module = gpytorch.kernels.InducingPointKernel(
                base, inducing_points=torch.tensor(Z), likelihood=likelihood
            )
            self.covar_module.inducing_points.requires_grad_(joint)

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Model(likelihood).double()
    base = model.covar_module.base_kernel
    base.base_kernel.lengthscale = torch.linspace(1.0, 3.0, X.shape[1], dtype=torch.float64)
    base.outputscale, likelihood.noise = 1.0, NOISE
    model.train()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)

    def evaluate() -> float:
        model.zero_grad()
        value = objective(model(X), y)
        value.backward()
        return float(value) * len(y)

    return evaluate


def peers(arguments: argparse.Namespace) -> dict[str, Any]:
    """The bound and its gradient at N = 10,000, m = 500, against GPyTorch's SGPR, in turn."""
    import torch

    from mercer.linalg.threads import blas_threads

    torch.set_num_threads(blas_threads())
    bound = kernel()
    program, values = compile_program(bound), values_of(bound)
    data = made_rows(PEER_ROWS)
    Z = data.X[np.random.default_rng(1).choice(PEER_ROWS, POINTS, replace=False)]
    works: dict[str, Callable[[], float]] = {
        "mercer": lambda: FixedVFE(Z).evidence(program, values, NOISE, data).value,
        "gpytorch, points fixed": sgpr(data, Z, joint=False),
        "gpytorch, points moved": sgpr(data, Z, joint=True),
    }
    bounds = {name: work() for name, work in works.items()}
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(9):
        for name, work in works.items():
            started = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(s) for name, s in seconds.items()}
    ratios = {name: m / medians["mercer"] for name, m in medians.items()}
    for name in works:
        print(f"{name:24}  {1e3 * medians[name]:8.0f} ms   {ratios[name]:6.2f}   bound {bounds[name]:.2f}")
    return {
        "protocol": f"N = {PEER_ROWS:,}, m = {POINTS}, ARD SE on {COLUMNS} columns, float64, {blas_threads()} "
        "thread(s); bound and gradient by all parameters; medians of 9 runs in turn after a warm-up. GPyTorch has the "
        "constant at zero and a jitter of its own, hence another bound",
        "milliseconds": {name: 1e3 * m for name, m in medians.items()},
        "times_as_fast": ratios,
        "bounds": bounds,
    }


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {"million": million, "peers": peers}


def arguments_of(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", default="million,peers", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--data", default=None, help="folder with regression/ (for nkn)")
    parser.add_argument("--device", default="cpu")
    return parser.parse_args(given)


def main() -> None:
    arguments = arguments_of()
    RESULTS.mkdir(exist_ok=True)
    for name in arguments.part.split(","):
        machine = describe()
        print("\n".join([f"part        {name}", *lines(machine), ""]), flush=True)
        result = PARTS[name](arguments)
        print(f"\nprotocol    {result['protocol']}")
        file = RESULTS / f"scale-engine-{name}.json"
        file.write_text(json.dumps({"part": name, "machine": machine, **result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
