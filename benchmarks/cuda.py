"""How far is the batched evidence from the factorisations that it cannot do without, and what does a search gain?

    python -m benchmarks.cuda                                  # on a machine with an NVIDIA GPU
    python -m benchmarks.cuda --device cpu --batch 4 --size 64   # to see that it runs
    python -m benchmarks.cuda --part search --jobs 2 16          # the search, against that machine's CPU cores

Needs torch, numpy and scipy only (the search: all that Mercer needs); Mercer need not be installed.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch

try:
    import mercer  # noqa: F401
except ImportError:
    # Not installed, or without scikit-learn, which the package's front page imports: the rooms used here need neither.
    for name in [name for name in sys.modules if name.split(".")[0] == "mercer"]:
        del sys.modules[name]
    sys.modules["mercer"] = ModuleType("mercer")
    sys.modules["mercer"].__path__ = [str(Path(__file__).resolve().parents[1] / "src" / "mercer")]

from mercer.compute.program import compile_program
from mercer.inference.batches import batched_log_evidence
from mercer.kernels import LIN, PER, RQ, SE, Expression, bind, layout

KERNELS: dict[str, tuple[Expression, int]] = {
    "ARD SE, 8-D": (SE(), 8),
    "eight leaves, 1-D": (SE(0) * PER(0) + LIN(0) * RQ(0) + SE(0) * LIN(0) + PER(0) * RQ(0), 1),
}


def random_values(expression: Expression, batch: int, device: torch.device) -> torch.Tensor:
    """Candidates as a search would draw them: log-normal around one, offsets normal around zero."""
    columns = []
    for slot in layout(expression).slots:
        noise = torch.randn(batch, slot.size, dtype=torch.float64, device=device)
        if slot.spec.name == "offset":
            columns.append(noise)
        elif slot.spec.name == "weights":
            columns.append(torch.full_like(noise, 1 / slot.size))
        else:
            columns.append(torch.exp(0.5 * noise))
    return torch.cat(columns, dim=1)


def factorisations(batch: int, size: int, device: torch.device) -> Callable[[], object]:
    root = torch.randn(batch, size, size, dtype=torch.float64, device=device)
    spd = torch.baddbmm(torch.eye(size, dtype=torch.float64, device=device), root, root.mT, beta=size)
    return lambda: torch.cholesky_inverse(torch.linalg.cholesky_ex(spd)[0])


def evidence(
    expression: Expression, dimensions: int, batch: int, size: int, device: torch.device, gradient: bool
) -> Callable[[], object]:
    program = compile_program(expression)
    X = torch.rand(size, dimensions, dtype=torch.float64, device=device) * 10
    y = torch.sin(X.sum(1)) + 0.1 * torch.randn(size, dtype=torch.float64, device=device)
    values = random_values(expression, batch, device)
    noise = torch.full((batch,), 0.1, dtype=torch.float64, device=device)
    return lambda: batched_log_evidence(program, values, noise, X, y, gradient=gradient)


def time_one(work: Callable[[], object], device: torch.device) -> float:
    if device.type == "cuda":
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize(device)
        first.record()
        work()
        last.record()
        torch.cuda.synchronize(device)
        return float(first.elapsed_time(last))
    start = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - start)


def measure(work: Callable[[], object], device: torch.device, repeats: int) -> tuple[float, float]:
    """Return the median in milliseconds and the peak memory in GB over what was allocated before."""
    for _ in range(3):
        work()
    before = 0
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
    median = statistics.median(time_one(work, device) for _ in range(repeats))
    peak = torch.cuda.max_memory_allocated(device) - before if device.type == "cuda" else 0
    return median, peak / 1e9


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda", description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("evidence", "search"), default="evidence")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=256, help="candidates evaluated at once")
    parser.add_argument("--size", type=int, default=512, help="rows of data")
    parser.add_argument("--repeats", type=int, default=20, help="timed runs, after three that are not")
    parser.add_argument("--jobs", type=int, nargs="+", default=[2, 16], help="search: processes on the CPU")
    parser.add_argument("--rows", type=int, default=1000, help="search: rows of the synthetic series")
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    device = torch.device(arguments.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit(
            "No CUDA device here: run this on a machine with an NVIDIA GPU, or try --device cpu --batch 4 --size 64"
        )
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    print(f"machine   {name}; PyTorch {torch.__version__}, {torch.get_num_threads()} CPU thread(s)")
    if arguments.part == "evidence":
        run_evidence(device, arguments.batch, arguments.size, arguments.repeats)
    else:
        from benchmarks import cuda_search

        cuda_search.run(arguments.device, arguments.jobs, arguments.rows)


def run_evidence(device: torch.device, batch: int, size: int, repeats: int) -> None:
    print(f"protocol  B = {batch} candidates, N = {size}, float64; median of {repeats} runs after 3 warm-ups")
    torch.manual_seed(0)

    floor, peak = measure(factorisations(batch, size, device), device, repeats)
    print(f"\n{'':36}{'ms':>10}{'ratio':>8}{'peak GB':>10}")
    print(f"{'cholesky_ex + cholesky_inverse':36}{floor:10.2f}{1.0:8.2f}{peak:10.2f}")

    for title, (kernel, dimensions) in KERNELS.items():
        expression = bind(kernel, dimensions)
        for gradient, what in ((False, "value"), (True, "value, gradient")):
            median, peak = measure(evidence(expression, dimensions, batch, size, device, gradient), device, repeats)
            print(f"{f'{title}: {what}':36}{median:10.2f}{median / floor:8.2f}{peak:10.2f}")


if __name__ == "__main__":
    main()
