"""How far is the evidence with its gradient from the factorisation that it cannot do without, and what do peers reach?

    python -m benchmarks.speed            # everything: about half an hour; writes benchmarks/results/speed.{json,md}
    python -m benchmarks.speed --quick    # N = 150 and 500, few repeats

Each library runs in processes of its own, one for each number of threads. There the candidate and the floor (LAPACK
potrf + potri at the same N) are timed in turn, so that both see the same machine; figures are medians, and ratios are
ratios of medians. Only the public `mercer.log_evidence` is used.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from benchmarks import machine

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]
SIZES, QUICK_SIZES = (150, 500, 1500, 3000), (150, 500)
REPEATS = {150: 101, 500: 41, 1500: 15, 3000: 7}
PATIENCE = 60.0  # seconds for one cell, after which no further repeat is begun
MEMORY_SIZE, MEMORY_TARGET = 3000, 4.0
IMPORT_TARGET = FIRST_TARGET = 1.5
POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
FIRST = """
import time
start = time.perf_counter()
import mercer
imported = time.perf_counter()
from benchmarks.speed import CASES, problem
X, y = problem("eight leaves, 1-D", 150)
before = time.perf_counter()
mercer.log_evidence(CASES["eight leaves, 1-D"], X, y, noise=0.1, gradient=True)
print(imported - start, time.perf_counter() - before)
"""

Result = dict[str, Any]
Array: TypeAlias = "NDArray[np.float64]"
Candidate = Callable[[], float]  # evaluates value and gradient, returns the value
Make = Callable[[str, Array, Array], Candidate]

NOISE = 0.1
EIGHT = (
    "SE(0, variance=1, lengthscale=1)*PER(0, variance=1, period=2, lengthscale=1)"
    " + LIN(0, variance=1, offset=0)*RQ(0, variance=1, lengthscale=1, alpha=1)"
    " + SE(0, variance=1, lengthscale=2)*LIN(0, variance=1, offset=0)"
    " + PER(0, variance=1, period=3, lengthscale=1)*RQ(0, variance=1, lengthscale=2, alpha=1)"
)
CASES = {
    "ARD SE, 8-D": "SE(variance=1, lengthscale=3)",
    "eight leaves, 1-D": EIGHT,
    "eight leaves, 1-D, evenly spaced": EIGHT,
}
TARGETS = {  # the largest ratio to the floor
    "ARD SE, 8-D": {150: 3.5, 500: 2.0, 1500: 1.6, 3000: 1.6},
    "eight leaves, 1-D": {150: 9.0, 500: 5.0, 1500: 3.0, 3000: 3.0},
}


def problem(case: str, n: int) -> tuple[Array, Array]:
    import numpy as np

    rng = np.random.default_rng(n)
    if "8-D" in case:
        X = rng.normal(size=(n, 8))
    else:
        X = np.linspace(0, 10, n)[:, None] if "evenly" in case else rng.uniform(0, 10, size=(n, 1))
    return X, np.sin(X.sum(axis=1)) + NOISE**0.5 * rng.normal(size=n)


def floor_for(n: int) -> Callable[[], float]:
    """Return a function that gives the seconds of potrf + potri in place; copying the matrix back is not counted."""
    import numpy as np
    from scipy.linalg import lapack

    root = np.random.default_rng(0).normal(size=(n, n))
    matrix = np.asfortranarray(root @ root.T + n * np.eye(n))
    place = np.empty_like(matrix)

    def timed() -> float:
        np.copyto(place, matrix)
        start = time.perf_counter()
        factor, _ = lapack.dpotrf(place, lower=1, clean=0, overwrite_a=1)
        lapack.dpotri(factor, lower=1, overwrite_c=1)
        return time.perf_counter() - start

    return timed


# -------------------------------------------------------------------------------------------------------- libraries


def mercer_itself() -> Make:
    import mercer

    def make(case: str, X: Array, y: Array) -> Candidate:
        expression = mercer.parse(CASES[case])
        return lambda: mercer.log_evidence(expression, X, y, noise=NOISE, gradient=True)[0]

    return make


def gpytorch() -> Make:
    """ExactMarginalLogLikelihood by Cholesky, backwards through it by autograd."""
    import gpytorch as gp
    import torch
    from gpytorch.kernels import LinearKernel, PeriodicKernel, RBFKernel, RQKernel, ScaleKernel

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.set_default_dtype(torch.float64)

    def kernel(case: str) -> Any:
        if "8-D" in case:
            return ScaleKernel(RBFKernel(ard_num_dims=8).initialize(lengthscale=3.0)).initialize(outputscale=1.0)
        se, rq = (lambda l, k=k: k().initialize(lengthscale=l) for k in (RBFKernel, RQKernel))
        per = [PeriodicKernel().initialize(period_length=p, lengthscale=1.0) for p in (2.0, 3.0)]
        lin = [LinearKernel().initialize(variance=1.0) for _ in range(2)]
        for one in (first := rq(1.0)), (second := rq(2.0)):
            one.initialize(alpha=1.0)
        products = (se(1.0) * per[0], lin[0] * first, se(2.0) * lin[1], per[1] * second)
        one, *others = (ScaleKernel(product).initialize(outputscale=1.0) for product in products)
        for other in others:
            one = one + other
        return one

    class Model(gp.models.ExactGP):
        def __init__(self, X: Any, y: Any, likelihood: Any, covariance: Any) -> None:
            super().__init__(X, y, likelihood)
            self.mean, self.covariance = gp.means.ZeroMean(), covariance

        def forward(self, X: Any) -> Any:
            return gp.distributions.MultivariateNormal(self.mean(X), self.covariance(X))

    def make(case: str, X: Array, y: Array) -> Candidate:
        inputs, target = torch.tensor(X), torch.tensor(y)
        likelihood = gp.likelihoods.GaussianLikelihood().initialize(noise=NOISE)
        model = Model(inputs, target, likelihood, kernel(case)).train()
        evidence = gp.mlls.ExactMarginalLogLikelihood(likelihood, model)

        def candidate() -> float:
            model.zero_grad()
            exact = gp.settings.fast_computations(False, False, False)
            with exact, gp.settings.max_cholesky_size(100_000):
                value = evidence(model(inputs), target) * len(y)
                value.backward()
            return float(value)

        return candidate

    return make


def scikit_learn() -> Make:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel
    from sklearn.gaussian_process.kernels import ExpSineSquared as Per
    from sklearn.gaussian_process.kernels import RationalQuadratic as Rq

    def kernel(case: str) -> Any:
        if "8-D" in case:
            return ConstantKernel(1.0) * RBF([3.0] * 8) + WhiteKernel(NOISE)
        lin = [DotProduct(0.0, "fixed") for _ in range(2)]
        products = (RBF(1.0) * Per(1.0, 2.0), lin[0] * Rq(1.0, 1.0), RBF(2.0) * lin[1], Per(1.0, 3.0) * Rq(2.0, 1.0))
        total = WhiteKernel(NOISE)
        for product in products:
            total = total + ConstantKernel(1.0) * product
        return total

    def make(case: str, X: Array, y: Array) -> Candidate:
        model = GaussianProcessRegressor(kernel(case), alpha=1e-10, optimizer=None).fit(X, y)
        theta = model.kernel_.theta
        return lambda: float(model.log_marginal_likelihood(theta, eval_gradient=True, clone_kernel=False)[0])

    return make


def gpy() -> Make:
    import GPy
    import numpy as np

    def kernel(case: str) -> Any:
        k = GPy.kern
        if "8-D" in case:
            return k.RBF(8, lengthscale=np.full(8, 3.0), ARD=True)
        per = [k.StdPeriodic(1, period=p, lengthscale=0.5) for p in (2.0, 3.0)]  # its lengthscale is half of ours
        rq = [k.RatQuad(1, lengthscale=l, power=1.0) for l in (1.0, 2.0)]
        first, second = (k.RBF(1, lengthscale=l) for l in (1.0, 2.0))
        return first * per[0] + k.Linear(1) * rq[0] + second * k.Linear(1) + per[1] * rq[1]

    def make(case: str, X: Array, y: Array) -> Candidate:
        model = GPy.models.GPRegression(X, y[:, None], kernel(case), noise_var=NOISE)
        points = [model.optimizer_array.copy(), model.optimizer_array + 1e-9]  # GPy remembers what it computed last

        def candidate() -> float:
            points.reverse()
            model.optimizer_array = points[0]
            model.objective_function_gradients()
            return float(model.log_likelihood())

        return candidate

    return make


LIBRARIES: dict[str, Callable[[], Make]] = {
    "Mercer": mercer_itself,
    "GPyTorch": gpytorch,
    "scikit-learn": scikit_learn,
    "GPy": gpy,
}


# ------------------------------------------------------------------------------------- inside a process of one library


def work(order: Result) -> Result:
    """Do what the parent asked for, in this process with its own thread pools."""
    from threadpoolctl import threadpool_limits

    try:
        make = LIBRARIES[order["library"]]()
    except ImportError as error:
        return {"absent": f"{type(error).__name__}: {error}"}
    with threadpool_limits(order["threads"]):
        if order["what"] == "memory":
            return {case: peak_matrices(make, case, order["size"]) for case in order["cases"]}
        return {
            case: {str(n): time_cell(make, case, n, order["repeats"][str(n)]) for n in order["sizes"]}
            for case in order["cases"]
        }


def time_cell(make: Make, case: str, n: int, repeats: int) -> Result:
    """Time floor and candidate in turn; return medians in milliseconds and the evidence, which all must agree on."""
    candidate, floor = make(case, *problem(case, n)), floor_for(n)
    evidence = candidate()
    candidate(), floor()
    times: tuple[list[float], list[float]] = ([], [])
    begun = time.perf_counter()
    while len(times[0]) < repeats and (len(times[0]) < 2 or time.perf_counter() - begun < PATIENCE):
        times[0].append(floor())
        start = time.perf_counter()
        candidate()
        times[1].append(time.perf_counter() - start)
    floor_ms, own_ms = (1e3 * statistics.median(t) for t in times)
    return {
        "floor": floor_ms, "time": own_ms, "least": 1e3 * min(times[1]), "ratio": own_ms / floor_ms,
        "repeats": len(times[0]), "value": evidence,
    }  # fmt: skip


def peak_matrices(make: Make, case: str, n: int) -> float:
    """Return the peak of resident memory over its start, in matrices of n x n doubles."""
    make(case, *problem(case, 200))()  # code and thread pools are loaded before the start is measured
    candidate = make(case, *problem(case, n))
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    except OSError:
        return float("nan")
    before = status_kb("VmRSS")
    candidate()
    return 1024 * (status_kb("VmHWM") - before) / (8 * n * n)


def status_kb(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


# ------------------------------------------------------------------------------------------------------ in the parent


def environment(threads: int) -> dict[str, str]:
    return os.environ | {name: str(threads) for name in POOLS}


def in_process(library: str, threads: int, **order: Any) -> Result:
    """Run `work` in a fresh process; a library that fails is a remark in the table and not the end of the run."""
    order |= {"library": library, "threads": threads}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.speed", "--work", json.dumps(order)],
        cwd=ROOT, env=environment(threads), capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        return {"absent": f"failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def seconds_of(code: str, threads: int) -> tuple[float, str]:
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment(threads), capture_output=True, text=True, check=True
    )
    return time.perf_counter() - start, done.stdout


def measure_imports(repeats: int) -> Result:
    """Fresh processes in turn: nothing, torch, mercer and its two main names; then a first evaluation, cache warm."""
    codes = {
        "python": "pass",
        "torch": "import torch",
        "mercer": "import mercer; mercer.GPRegressor, mercer.log_evidence",
    }
    times: dict[str, list[float]] = {name: [] for name in codes}
    seconds_of(FIRST, 1)
    firsts = []
    for _ in range(repeats):
        for name, code in codes.items():
            times[name].append(seconds_of(code, 1)[0])
        firsts.append(float(seconds_of(FIRST, 1)[1].split()[1]))
    medians = {name: statistics.median(values) for name, values in times.items()}
    return medians | {"first": statistics.median(firsts), "more than torch": medians["mercer"] - medians["torch"]}


def run(arguments: argparse.Namespace) -> Result:
    sizes = arguments.sizes or (QUICK_SIZES if arguments.quick else SIZES)
    repeats = {str(n): min(5, REPEATS[n]) if arguments.quick else REPEATS[n] for n in sizes}
    cells: dict[str, Result] = {}
    for threads in arguments.threads:
        cells[str(threads)] = {}
        for library in arguments.libraries:
            print(f"timing {library}, {threads} thread(s) ...", flush=True)
            cases = [case for case in CASES if library == "Mercer" or case in TARGETS]
            cells[str(threads)][library] = in_process(
                library, threads, what="time", cases=cases, sizes=sizes, repeats=repeats
            )
    memory_size = 500 if arguments.quick else MEMORY_SIZE
    memory: dict[str, Result] = {library: {} for library in arguments.libraries}
    for library in arguments.libraries:
        print(f"memory of {library} ...", flush=True)
        for case in TARGETS:  # each in a process of its own: memory that the first left behind would hide the second's
            memory[library] |= in_process(library, 1, what="memory", cases=[case], size=memory_size)
    print("imports ...", flush=True)
    imports = measure_imports(1 if arguments.quick else 5)
    return {"cells": cells, "memory": memory, "memory size": memory_size, "imports": imports, "sizes": list(sizes)}


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=str(__doc__).splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="N = 150 and 500 with few repeats")
    parser.add_argument("--sizes", type=int, nargs="+", choices=SIZES, help="numbers of rows, if not the usual ones")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--libraries", nargs="+", choices=list(LIBRARIES), default=list(LIBRARIES))
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--work", type=json.loads, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    if arguments.work is not None:
        print(json.dumps(work(arguments.work)))
        return
    description = machine.describe()
    print("\n".join(machine.lines(description)))
    if description["load average"] > 0.3:
        print(
            "            other work is running on this machine: the figures will be noisy, with two threads most of all"
        )
    from benchmarks.speed_report import report

    results = run(arguments)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "speed.json").write_text(json.dumps({"machine": description} | results, indent=1) + "\n")
    text = report(description, results)
    (arguments.out / "speed.md").write_text(text)
    print(f"\n{text}\nwritten to {arguments.out}/speed.json and speed.md")


if __name__ == "__main__":
    main()
