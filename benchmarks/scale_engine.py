"""The engines for many rows: one evaluation at a million rows, against GPyTorch, on a GPU, and networks through them.

    python -m benchmarks.scale_engine --part million          # time, memory and growth from 10^4 to 10^6 rows
    python -m benchmarks.scale_engine --part peers            # against GPyTorch's SGPR, same run
    python -m benchmarks.scale_engine --part cuda             # on a machine with an NVIDIA GPU
    python -m benchmarks.scale_engine --part fit              # an exact fit of 100,000 rows there, with predictions
    python -m benchmarks.scale_engine --part nkn --data FOLDER [--device cuda]
    python -m benchmarks.scale_engine --part choice           # inducing points against random features

Results are printed, and kept in benchmarks/results/scale-engine-PART.json with the machine they were measured on.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import blas

from benchmarks.machine import describe, lines
from benchmarks.scale_choice import choice
from mercer.compute.program import compile_program
from mercer.inference.contract import Data
from mercer.inference.likelihood import Gaussian
from mercer.inference.vfe import FixedVFE
from mercer.kernels import SE, bind
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import values_of

RESULTS = Path(__file__).parent / "results"
COLUMNS, POINTS, NOISE = 8, 500, 0.1
SIZES = (10_000, 31_623, 100_000, 316_228, 1_000_000)
PEER_ROWS = 10_000
FEATURES = 300


def kernel(columns: int = COLUMNS) -> Expression:
    """The known kernel: SE with a lengthscale for each column, and a variance of one."""
    return bind(SE(variance=1.0, lengthscale=list(np.linspace(1.0, 3.0, columns))), columns)


def made_rows(count: int, seed: int = 0) -> Data:
    """Draw rows from the known kernel, to the accuracy of 300 random features, and add noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, COLUMNS))
    frequencies = rng.normal(size=(COLUMNS, FEATURES)) / np.linspace(1.0, 3.0, COLUMNS)[:, None]
    phases, weights = rng.uniform(0, 2 * np.pi, FEATURES), rng.normal(size=FEATURES)
    y = np.empty(count)
    for first in range(0, count, 20_000):
        some = slice(first, first + 20_000)
        y[some] = np.cos(X[some] @ frequencies + phases) @ weights * np.sqrt(2 / FEATURES)
    return Data(X, y + np.sqrt(NOISE) * rng.normal(size=count), free_level=True)


def timed(
    work: Callable[[], Any], repeats: int, warm: bool = False, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Return seconds of each of some runs, after one that does not count unless all is warm already."""
    if not warm:
        work()
    seconds = []
    for _ in range(repeats):
        started = clock()
        work()
        seconds.append(clock() - started)
    return seconds


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


# ------------------------------------------------------------------------------------------------------- one million


def product(points: np.ndarray, rows: int, clock: Callable[[], float]) -> float:
    """Return the seconds of Kuf Kfu alone, as a full m x N x m product in blocks of rows."""
    block = np.ascontiguousarray(np.random.default_rng(0).normal(size=(2000, len(points))))
    total = np.zeros((len(points), len(points)), order="F")

    def work() -> None:
        for _ in range(rows // len(block)):
            blas.dgemm(1.0, block.T, block, beta=1.0, c=total, overwrite_c=1)

    return statistics.median(timed(work, 2, warm=True, clock=clock))


def million(arguments: argparse.Namespace) -> dict[str, Any]:
    """One evaluation of the bound and its gradient, from 10^4 to 10^6 rows, m = 500."""
    bound = kernel()
    program, values = compile_program(bound), values_of(bound)
    whole = made_rows(SIZES[-1])
    engine = FixedVFE(whole.X[np.random.default_rng(1).choice(len(whole.X), POINTS, replace=False)])
    clock = time.process_time if getattr(arguments, "cpu_time", False) else time.perf_counter
    before, found = peak_gigabytes(), []
    for rows in SIZES:
        data = Data(whole.X[:rows], whole.y[:rows], free_level=True)
        few = rows <= 100_000
        work = partial(engine.evidence, program, values, NOISE, data)
        seconds = timed(work, 5 if few else 2, warm=not few, clock=clock)
        found.append({"rows": rows, "seconds": statistics.median(seconds), "runs": seconds})
        print(f"{rows:>10,} rows   {found[-1]['seconds']:8.2f} s", flush=True)
    alone = product(engine.Z, SIZES[-1], clock)
    slope = np.polyfit(np.log([f["rows"] for f in found]), np.log([f["seconds"] for f in found]), 1)[0]
    result = {
        "protocol": f"ARD SE on {COLUMNS} columns, m = {POINTS}, bound and gradient by all parameters; median of 5 "
        "runs after a warm-up, of 2 above 10^5 rows; exponent by least squares on the logarithms; seconds of "
        + ("the processor, all threads together" if clock is time.process_time else "the clock"),
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
        "mercer": lambda: FixedVFE(Z).evidence(program, values, Gaussian(NOISE), data).value,
        "gpytorch, points fixed": sgpr(data, Z, joint=False),
        "gpytorch, points moved": sgpr(data, Z, joint=True),
    }
    bounds = {name: work() for name, work in works.items()}
    seconds: dict[str, list[float]] = {name: [] for name in works}
    clock = time.process_time if getattr(arguments, "cpu_time", False) else time.perf_counter
    for _ in range(9):
        for name, work in works.items():
            seconds[name] += timed(work, 1, warm=True, clock=clock)
    medians = {name: statistics.median(s) for name, s in seconds.items()}
    ratios = {name: m / medians["mercer"] for name, m in medians.items()}
    for name in works:
        print(f"{name:24}  {1e3 * medians[name]:8.0f} ms   {ratios[name]:6.2f}   bound {bounds[name]:.2f}")
    return {
        "protocol": f"N = {PEER_ROWS:,}, m = {POINTS}, ARD SE on {COLUMNS} columns, float64, {blas_threads()} "
        "thread(s); bound and gradient by all parameters; medians of 9 runs in turn after a warm-up. GPyTorch has the "
        "constant at zero and a jitter of its own, hence another bound; "
        + ("seconds of the processor" if clock is time.process_time else "seconds of the clock"),
        "milliseconds": {name: 1e3 * m for name, m in medians.items()},
        "times_as_fast": ratios,
        "bounds": bounds,
    }


# ------------------------------------------------------------------------------------------------------- on a GPU


def cuda(arguments: argparse.Namespace) -> dict[str, Any]:
    """Exact evidence and gradient in one matrix, and the sparse bound against this machine's CPU."""
    import torch

    from mercer.inference.exact import Exact

    small = getattr(arguments, "small", False)
    device = torch.device(arguments.device if small else "cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        print("there is no CUDA device here")
        return {"protocol": "not run: there is no CUDA device here"}
    sizes = (500, 1000) if small else (20_000, 40_000)
    bound = kernel()
    program, values = compile_program(bound), values_of(bound)
    exact = []
    for rows in sizes:
        data = made_rows(rows)
        seconds, peak = on_card(lambda d=data: Exact(str(device)).evidence(program, values, Gaussian(NOISE), d), device)
        floor, _ = on_card(lambda n=rows: cholesky_and_inverse(n, device), device)
        matrix = 8 * rows * rows
        exact.append(
            {"rows": rows, "seconds": seconds, "cholesky_and_inverse_seconds": floor, "peak_matrices": peak / matrix}
        )
        print(
            f"exact, {rows:,} rows: {seconds:.2f} s, {seconds / floor:.2f} times torch's Cholesky and inverse; "
            f"peak {peak / 1e9:.2f} GB = {peak / matrix:.2f} matrices of N x N", flush=True,
        )  # fmt: skip
    sparse = []
    for rows in (1000, 3000) if small else (10_000, 100_000, 1_000_000):
        data = made_rows(rows)
        Z = data.X[np.random.default_rng(1).choice(rows, POINTS, replace=False)]
        works = [FixedVFE(Z, device=str(device), moving=moving) for moving in (False, True)] + [FixedVFE(Z)]
        seconds = [
            on_card(lambda e=e, d=data: e.evidence(program, values, Gaussian(NOISE), d), device)[0] for e in works
        ]
        bounds = [engine.evidence(program, values, Gaussian(NOISE), data).value for engine in works]
        names = ("seconds", "seconds_with_points_moving", "cpu_seconds")
        sparse.append({"rows": rows, **dict(zip(names, seconds, strict=True)), "bounds": bounds})
        print(
            f"sparse, {rows:,} rows: {seconds[0]:.3f} s ({seconds[1]:.3f} s with the points moving), "
            f"{seconds[2] / seconds[0]:.1f} times as fast as the CPU ({seconds[2]:.2f} s); bounds {bounds}", flush=True,
        )  # fmt: skip
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    return {
        "protocol": f"{card}, PyTorch {torch.__version__}; ARD SE on {COLUMNS} columns, float64; evidence with "
        f"its gradient by all parameters; median of 3 after a warm-up; m = {POINTS} inducing points",
        "exact": exact,
        "sparse": sparse,
    }


def fit_exactly(arguments: argparse.Namespace) -> dict[str, Any]:
    """Predictions from 40,000 rows after a short fit, and a whole fit to 100,000, all by exact inference."""
    import mercer

    device = arguments.device if arguments.small else "cuda"
    few, many, new = (600, 1500, 200) if arguments.small else (40_000, 100_000, 2000)
    data = made_rows(many + new)
    X, y, X_new, y_new = data.X[:many], data.y[:many], data.X[many:], data.y[many:]
    settings: dict[str, Any] = {"inference": mercer.Exact(), "device": device, "random_state": 0}
    found: dict[str, Any] = {}
    for rows, iterations in ((few, 3), (many, 200)):
        started = time.perf_counter()
        model = mercer.GPRegressor("SE", max_iterations=iterations, **settings).fit(X[:rows], y[:rows])
        fitted = time.perf_counter() - started
        seconds = timed(lambda m=model: m.predict(X_new, return_std=True), 3)
        mean, std = model.predict(X_new, return_std=True)
        found[f"{rows} rows"] = {
            "max_iterations": iterations, "fit_seconds": fitted, "predict_seconds": seconds, "predicted": new,
            "rmse": float(np.sqrt(np.mean((mean - y_new) ** 2))), "noise": NOISE**0.5,
            "within_two_sd": float(np.mean(np.abs(mean - y_new) < 2 * std)), "log_evidence": model.log_evidence_,
            "fitted": str(model.kernel_), "reason": model.inference_.reason, "notes": list(model.notes_),
        }  # fmt: skip
        print(json.dumps({f"{rows} rows": found[f"{rows} rows"]}, indent=1), flush=True)
    return {
        "protocol": f"{COLUMNS} columns, float64, default settings; ARD SE fitted to all of the rows, from values "
        "fitted to a sample; three timings of the mean and standard deviation of new rows, after one more",
        **found,
    }


def on_card(work: Callable[[], Any], device: Any) -> tuple[float, int]:
    """Return the median of three runs in seconds, and the most memory taken on the card."""
    import torch

    if device.type != "cuda":
        return statistics.median(timed(work, 3)), 0

    def synchronised() -> None:
        work()
        torch.cuda.synchronize(device)

    synchronised()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    seconds = statistics.median(timed(synchronised, 3))
    return seconds, int(torch.cuda.max_memory_allocated(device))


def cholesky_and_inverse(rows: int, device: Any) -> None:
    """What cannot be avoided, as torch does it: of a matrix that is easy to make."""
    import torch

    A = torch.full((rows, rows), 0.5, dtype=torch.float64, device=device)
    A.diagonal().add_(1.0)
    torch.cholesky_inverse(torch.linalg.cholesky_ex(A)[0])


# ------------------------------------------------------------------------------- neural kernel networks at scale

PAPER_RMSE = {"kin8nm": 0.067, "naval": 0.000, "power_plant": 2.675}  # GP-NKN, table 1 of the paper
PAPER_DENSITY = {"kin8nm": 1.291, "naval": 9.916, "power_plant": -2.406}


def nkn(arguments: argparse.Namespace) -> dict[str, Any]:
    """The paper's three tables of more than 2,000 rows, random splits 1 to 3, beside its GP-NKN."""
    import pandas as pd

    import mercer
    from benchmarks.discovery import scores

    folder = Path(arguments.data) / "regression"
    stored = json.loads((folder / "splits_nkn.json").read_text())
    points, kernel_, splits = (getattr(arguments, name, None) for name in ("inducing", "kernel", "splits"))
    kernel_, splits = kernel_ or "nkn", (splits or "1,2,3").split(",")
    # what "auto" takes on the CPU, with so many points
    engine = "auto" if points is None else mercer.VFE(inducing=points, joint=False, predicting=2 * points)
    tables = [name for name in arguments.only.split(",") if name in PAPER_RMSE] or list(PAPER_RMSE)
    found = []
    for name in tables:
        rows = pd.read_csv(folder / f"{name}.csv")
        columns, target = list(rows.columns[:-1]), rows.columns[-1]
        for split in splits:
            out = np.isin(np.arange(len(rows)), stored[name]["random_test_rows"][split])
            started = time.perf_counter()
            model = mercer.GPRegressor(
                kernel_, inference=engine, device=arguments.device, n_jobs=1, random_state=0
            ).fit(rows[~out][columns], rows[~out][target])
            seconds = time.perf_counter() - started
            told = scores(model, rows[out][columns], rows[out][target].to_numpy(dtype=float))
            found.append(
                {"table": name, "split": int(split), "seconds": seconds, "reason": model.inference_.reason, **told}
            )
            print(
                f"{name:12} split {split}   rmse {told['rmse']:.6f} (paper {PAPER_RMSE[name]})   "
                f"log density {told['log_density']:.3f} (paper {PAPER_DENSITY[name]})   {seconds:.0f} s   "
                f"{model.inference_.reason}", flush=True,
            )  # fmt: skip
    means = {name: float(np.mean([f["rmse"] for f in found if f["table"] == name])) for name in tables}
    return {
        "protocol": "random splits of the paper's loader (10 % held out), default settings, seed 0, nothing chosen by "
        f"test rows; kernel {kernel_}, inference {engine}, device {arguments.device}",
        "found": found,
        "mean_rmse": means,
        "paper_rmse": PAPER_RMSE,
    }


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "million": million, "peers": peers, "cuda": cuda, "fit": fit_exactly, "nkn": nkn, "choice": choice,
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the parts need besides `--part`."""
    parser.add_argument("--data", default=None, help="folder with regression/ (for nkn)")
    parser.add_argument("--device", default="cpu", help="for nkn; cuda is always on cuda")
    parser.add_argument("--cpu-time", action="store_true", help="million, peers: of the processor")
    parser.add_argument("--small", action="store_true", help="for cuda and fit: to see that it runs, on --device")
    parser.add_argument("--only", default="", help="tables, for nkn of kin8nm, naval and power_plant; all")
    parser.add_argument("--splits", default="1,2,3", help="of each table (for nkn)")
    parser.add_argument("--kernel", default="nkn", help="another one to compare with (for nkn)")
    parser.add_argument(
        "--inducing", type=int, default=None, help="for nkn: so many inducing points, whatever the device"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", default="million,peers", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--name", default=None, help="of the file of results, where it is not the part's")
    add_arguments(parser)
    arguments = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    for name in arguments.part.split(","):
        machine = describe()
        print("\n".join([f"part        {name}", *lines(machine), ""]), flush=True)
        result = PARTS[name](arguments)
        print(f"\nprotocol    {result['protocol']}")
        file = RESULTS / f"scale-engine-{arguments.name or name}.json"
        file.write_text(json.dumps({"part": name, "machine": machine, **result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
