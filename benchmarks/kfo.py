"""Kernel functional optimisation against the papers' tables, and against other kernels on the same rows.

    python -m benchmarks.kfo --data FOLDER [--part classification,regression,...] [--only sonar,yacht] [--splits 0-9]
                             [--workers 14] [--minutes 9]

Default settings but for the number of steps (printed), one seed, everything tuned inside the training part. What was
measured is not measured again unless it is older than `--older`, or with `--fresh`; all that a run does not measure
stays in the file. A run that was stopped, by hand or by `--minutes`, goes on where it was. Each fit has one thread,
`--workers` of them run at a time; a fit that fails is named and does not stop the others. Results and protocol:
benchmarks/results/kfo.json and kfo.md; every result has its date, machine and state of the code.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config
from sklearn.model_selection import train_test_split

import mercer
from benchmarks import nkn
from benchmarks.machine import NEVER, circumstances, describe, is_kept
from mercer.kernels import parse
from mercer.kernels.expression import Expression, contains
from mercer.kernels.functional import Functional

RESULTS = Path(__file__).parent / "results"
PARTS = ("classification", "regression", "synthetic", "linear", "seconds")
CLASSES = (
    "hayes-roth", "wine", "sonar", "seeds", "glass", "heart", "ecoli", "ionosphere", "wdbc", "credit", "biodeg",
    "contraceptive", "car", "phoneme",
)  # fmt: skip
TABLES = ("fertility", "yacht", "slump", "boston", "auto", "airfoil")
TIMED = ("sonar", "heart", "glass", "credit")
WAVES = ("triangular_NZ", "triangular_Z", "gaussian_mixture", "sinc")
STEPS = {"subspaces": 5, "iterations": 10}
PLAIN = {"subspaces": 0}  # the same without a search for a shape: the kernels inside as they are
SEED = 0
FOLDS = 5
CHECKED_FROM = 10  # the first split that nothing was chosen by
FOLDED = 2  # seeds of each wave that are also divided into folds
BASELINES: dict[str, dict[str, Any]] = {
    "rbf": {"kernel": "rbf"}, "c-linear": {"kernel": "linear"}, "nu-linear": {"kernel": "linear", "nu": "auto"},
    "mkl-uniform": {"kernel": "mkl-uniform"}, "mkl-easy": {"kernel": "mkl"}, "sm": {"kernel": "SM2"},
    "ard-matern": {"kernel": "M32"},
}  # fmt: skip


def numbers_of(path: Path) -> np.ndarray:
    """Return the rows of a table of numbers; an empty cell is NaN."""
    with path.open(newline="", encoding="utf-8") as file:
        _, *rows = csv.reader(file)
    return np.array([[float(cell) if cell else np.nan for cell in row] for row in rows])


# ---------------------------------------------------------------------------------------------------- classification


def class_rows(folder: Path, name: str, split: int) -> tuple[Any, Any, Any, Any]:
    table = numbers_of(folder / "classification" / f"{name}.csv")
    inputs, target = table[:, :-1], table[:, -1].astype(int)
    return tuple(train_test_split(inputs, target, test_size=0.2, stratify=target, random_state=split))


def classification(folder: Path, name: str, split: int, methods: str) -> dict[str, Any]:
    """One split: the test error of the functional, of the sum with standard kernels, and of the baselines."""
    train, test, labels, truth = class_rows(folder, name, split)
    found: dict[str, Any] = {}

    def kept(method: str, model: mercer.KernelSVC, started: float) -> None:
        wrong = float(np.mean(model.predict(test) != truth))
        took = time.process_time() - started  # of a processor: several fits share the machine
        found[method] = {"error": wrong, "cv": model.error_, "C": model.C_, "cpu_seconds": took}

    if methods == "kfo":
        started = time.process_time()
        settings = mercer.KernelFunctional(plus="SE + M32 + LIN", **STEPS)
        both = mercer.KernelSVC(settings, random_state=SEED).fit(train, labels)
        kept("kfo-mkl", both, started)
        alone = mercer.KernelSVC(both.functional_, random_state=SEED).fit(train, labels)
        kept("kfo", alone, started)
        found["kernel"] = both.functional_.text(digits=3)
        found["sum"] = both.kernel_.text(digits=3)
        return found
    for method, options in BASELINES.items():
        started = time.process_time()
        kept(method, mercer.KernelSVC(random_state=SEED, **options).fit(train, labels), started)
    return found


def plain_inside(folder: Path, name: str, split: int, kernel: str) -> dict[str, Any]:
    """One split: the test error of the kernel inside a functional, at the same lengthscales."""
    train, test, labels, truth = class_rows(folder, name, split)
    model = mercer.KernelSVC(open_functionals(parse(kernel)), random_state=SEED).fit(train, labels)
    return {"plain": {"error": float(np.mean(model.predict(test) != truth)), "cv": model.error_, "C": model.C_}}


def open_functionals(kernel: Expression) -> Expression:
    if isinstance(kernel, Functional):
        return kernel.inside
    return kernel.with_children([open_functionals(child) for child in kernel.children])


def is_shaped(kernel: str) -> bool:
    """Tell whether a kernel, as text, has a functional that is more than the kernel inside."""
    return "KF(" in kernel and "powers=[1], weights=[1]" not in kernel


def seconds(folder: Path, name: str) -> dict[str, Any]:
    """The time of a whole fit with S = T = 5."""
    train, test, labels, truth = class_rows(folder, name, 0)
    started, worked = time.perf_counter(), time.process_time()
    settings = mercer.KernelFunctional(subspaces=5, iterations=5)
    model = mercer.KernelSVC(settings, random_state=SEED).fit(train, labels)
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - worked,  # less, on a busy machine
        "rows": len(train),
        "error": float(np.mean(model.predict(test) != truth)),
    }


# -------------------------------------------------------------------------------------------------------- regression


def filled(rows: np.ndarray) -> np.ndarray:
    """Fill a hole with what comes next in its column, as the paper's code does."""
    rows = rows.copy()
    for row in reversed(range(len(rows) - 1)):
        rows[row] = np.where(np.isnan(rows[row]), rows[row + 1], rows[row])
    return rows


def regression(folder: Path, name: str, split: int, methods: str) -> dict[str, Any]:
    """One split: summed negative log density of the test rows, min-max scaled over all rows as in the paper's code."""
    rows = filled(numbers_of(folder / "regression" / f"{name}.csv"))
    rows = (rows - rows.min(axis=0)) / np.where(np.ptp(rows, axis=0) > 0, np.ptp(rows, axis=0), 1.0)
    X, Z, y, t = train_test_split(rows[:, :-1], rows[:, -1], test_size=0.2, random_state=split)
    found: dict[str, Any] = {}
    kernels: dict[str, Any] = {"ard-matern": "M32", "ard-se": "SE"}
    if methods == "kfo":
        kernels = {"kfo": mercer.KernelFunctional(**STEPS), "plain": mercer.KernelFunctional(**PLAIN)}
    for method, kernel in kernels.items():
        started = time.process_time()
        model = mercer.GPRegressor(kernel, random_state=SEED).fit(X, y)
        mean = model.predict(Z)
        found[method] = {
            "nll": -float(model.log_density(Z, t).sum()),
            "rmse": float(np.sqrt(np.mean((mean - t) ** 2))),
            "log_evidence": model.log_evidence_,
            "cpu_seconds": time.process_time() - started,
        }
        if method == "kfo":
            found["kernel"], found["notes"] = model.kernel_.text(digits=3), list(model.notes_)
    return found


# --------------------------------------------------------------------------------------------------------- synthetic


def triangle(x: np.ndarray, period: float) -> np.ndarray:
    """A wave between 0 and 1."""
    phase = (x / period) % 1.0
    return 1.0 - np.abs(2.0 * phase - 1.0)


def wave(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training rows and values, held-out rows and truth; noise of variance 0.001 as the paper has for sinc."""
    rng = np.random.default_rng(seed)
    if name.startswith("triangular"):
        x, gap = np.linspace(0.0, 10.0, 121), (5.75, 7.25) if name.endswith("NZ") else (5.25, 8.25)
        y = triangle(x, 1.5) if name.endswith("NZ") else 2.0 * triangle(x, 1.5) - 1.0
    elif name == "gaussian_mixture":
        x, gap = np.linspace(0.0, 1.0, 81), (0.55, 0.7)
        # a tenth of the widths printed: with those there would be one flat bump
        parts = zip((0.166, 0.5, 0.833), (0.04, 0.09, 0.06), strict=True)
        y = np.sum([np.exp(-0.5 * ((x - m) / s) ** 2) for m, s in parts], axis=0)
    else:
        x, gap = np.linspace(-15.0, 15.0, 121), (3.0, 6.0)
        y = np.sinc(x + 10) + np.sinc(x) + np.sinc(x - 10)
    out = (x > gap[0]) & (x < gap[1])
    noisy = y + np.sqrt(0.001) * rng.standard_normal(len(x))
    return x[~out, None], noisy[~out], x[out, None], y[out]


def synthetic(name: str, seed: int, methods: str) -> dict[str, Any]:
    """Maximum log evidence, error in the held-out stretch, and log density of the rows left out in folds."""
    X, y, Z, truth = wave(name, seed)
    found: dict[str, Any] = {}
    kernels: dict[str, Any] = {"SE": "SE", "Mat3/2": "M32", "MKL": "SE + M32 + LIN"}
    if methods == "kfo":
        kernels = {"kfo": mercer.KernelFunctional(**STEPS), "plain": mercer.KernelFunctional(**PLAIN)}
    for method, kernel in kernels.items():
        model = mercer.GPRegressor(kernel, random_state=SEED).fit(X, y)
        error = float(np.sqrt(np.mean((model.predict(Z) - truth) ** 2)))
        found[method] = {"log_evidence": model.log_evidence_, "rmse": error}
        if method == "kfo":
            found["kernel"], found["notes"] = model.kernel_.text(digits=3), list(model.notes_)
        if methods == "kfo" and seed < FOLDED:
            found[method]["folds"] = [left_out(kernel, X, y, fold) for fold in range(FOLDS)]
    return found


def left_out(kernel: mercer.KernelFunctional, X: np.ndarray, y: np.ndarray, fold: int) -> dict[str, Any]:
    """Search again without the rows of a fold; return their summed log density, and whether there is a shape."""
    out = np.random.default_rng(SEED).permutation(len(y)) % FOLDS == fold
    model = mercer.GPRegressor(kernel, random_state=SEED).fit(X[~out], y[~out])
    density = float(model.log_density(X[out], y[out]).sum())
    return {"log_density": density, "shaped": contains(model.kernel_, Functional)}


def example_7(x: np.ndarray, x_: np.ndarray, z: np.ndarray, z_: np.ndarray) -> np.ndarray:
    """Return sum_i k_i(x, x') k_i(z, z') with k_i linear and squared exponential (Ong et al., Example 7)."""

    def line(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray((a * b).sum(axis=-1))

    def bell(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(-0.5 * ((a - b) ** 2).sum(axis=-1)))

    return line(x, x_) * line(z, z_) + bell(x, x_) * bell(z, z_)


def linear() -> dict[str, Any]:
    """y = 0.5 x seen on [-1, 1]: largest error of the mean there, and the log density of 500 points of [-10, 10]."""
    X = np.linspace(-1.0, 1.0, 41)[:, None]
    at, far = np.linspace(-1.0, 1.0, 401)[:, None], np.linspace(-10.0, 10.0, 500)[:, None]
    kernels: dict[str, Any] = {"LIN": "LIN", "kfo": mercer.KernelFunctional(**STEPS)}
    for hyperkernel in ("matern-harmonic", "matern-linear", example_7):
        name = hyperkernel if isinstance(hyperkernel, str) else "own (Example 7)"
        kernels[name] = mercer.KernelFunctional(hyperkernel=hyperkernel, **STEPS)
    found: dict[str, Any] = {}
    for name, kernel in kernels.items():
        model = mercer.GPRegressor(kernel, random_state=SEED).fit(X, 0.5 * X[:, 0])
        found[name] = {
            "share": float(np.abs(model.predict(at) - 0.5 * at[:, 0]).max() / 0.5),
            "log_density": float(model.log_density(far, 0.5 * far[:, 0]).sum()),
            "kernel": model.kernel_.text(digits=3),
        }
    return found


# --------------------------------------------------------------------------------------------------------------- all


def between(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def jobs_of(arguments: argparse.Namespace, results: dict[str, Any]) -> dict[str, Callable[[], dict[str, Any]]]:
    """Return what to run: name -> call without arguments. What is inside a functional is run after it was found.

    Splits come before sets, so that all sets grow together; the largest sets of a split come first, so that at the end
    no worker waits for one of them.
    """
    folder, parts = Path(arguments.data), arguments.part.split(",")
    only = arguments.only.split(",") if arguments.only else []
    work: dict[str, Callable[[], dict[str, Any]]] = {}

    def add(name: str, call: Callable[..., dict[str, Any]], *given: Any) -> None:
        if name.split("/")[0] in parts and (not only or name.split("/")[1] in only):
            work[name] = partial(call, *given)

    for name in TIMED:
        add(f"seconds/{name}", seconds, folder, name)
    for split in between(arguments.splits):
        for name in reversed(TABLES):
            for methods in ("kfo", "baselines"):
                add(f"regression/{name}/{split}/{methods}", regression, folder, name, split, methods)
        for name in reversed(CLASSES):
            for methods in ("kfo", "baselines"):
                add(f"classification/{name}/{split}/{methods}", classification, folder, name, split, methods)
            kernel = results.get(f"classification/{name}/{split}/kfo", {}).get("kernel", "")
            if is_shaped(kernel):
                add(f"classification/{name}/{split}/plain", plain_inside, folder, name, split, kernel)
        for name in WAVES:
            for methods in ("kfo", "baselines"):
                add(f"synthetic/{name}/{split}/{methods}", synthetic, name, split, methods)
    add("linear/line", linear)
    return work


def carried_out(name: str, call: Callable[[], dict[str, Any]], until: float) -> tuple[str, dict[str, Any] | None]:
    """Return what a fit gave, a reason where it failed, or None where there is no time left to begin."""
    if time.time() > until:
        return name, None
    warnings.simplefilter("ignore")
    try:
        return name, call() | circumstances()
    except Exception as error:  # one fit of hundreds: the others are worth having
        return name, {"failed": f"{type(error).__name__}: {error}"[:300]}


def in_turn(work: dict[str, Callable[[], dict[str, Any]]], workers: int, until: float) -> Iterator[tuple[str, Any]]:
    """Yield results as they come. Seconds are measured first, with nothing else running."""
    for name in [name for name in work if name.startswith("seconds/")]:
        yield carried_out(name, work[name], until)
    calls = [delayed(carried_out)(n, call, until) for n, call in work.items() if not n.startswith("seconds/")]
    if workers == 1:
        yield from (function(*given) for function, given, _ in calls)
        return
    with parallel_config("loky", n_jobs=workers, inner_max_num_threads=1):  # of BLAS, OpenMP (Torch) and Numba
        yield from Parallel(return_as="generator_unordered", batch_size=1)(calls)


def keep(path: Path, name: str, result: dict[str, Any], machine: dict[str, Any]) -> dict[str, Any]:
    """Add a result to the file as it is now, and return the file: whatever else it has stays."""

    def change(done: dict[str, Any]) -> None:
        part, split = name.split("/")[0], name.split("/")[2] if name.count("/") > 1 else "0"
        apart = int(split) >= CHECKED_FROM  # splits that nothing was chosen by are apart from the others
        results = done.setdefault("untouched", {}) if apart else done["results"]
        results[name] = result
        if name.endswith("/kfo"):  # what was inside the kernel that was found before
            results.pop(f"{name.removesuffix('kfo')}plain", None)
        done["machines"][f"{part}, splits from {CHECKED_FROM} on" if apart else part] = machine
        done["steps"] = STEPS

    return nkn.keep(path, change)


def arguments_given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="the folder with classification/ and regression/")
    parser.add_argument("--part", default=",".join(PARTS), help="some of %(default)s")
    parser.add_argument("--only", default="", help="names of sets, such as sonar,yacht")
    parser.add_argument("--splits", default="0-9")
    parser.add_argument("--workers", type=int, default=1, help="fits at a time (their seconds then say little)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no fit after so many")
    parser.add_argument("--out", type=Path, default=RESULTS / "kfo.json")
    parser.add_argument("--reference", type=Path, help="published numbers; default: reference.json beside the data")
    parser.add_argument("--older", default="", help="measure again what was measured before this date")
    parser.add_argument("--fresh", action="store_true", help="measure again what was measured")
    arguments = parser.parse_args()
    unknown = set(arguments.part.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"--part has no {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return arguments


def choose_work(arguments: argparse.Namespace, done: dict[str, Any]) -> dict[str, Callable[[], dict[str, Any]]]:
    """Return what is asked for and not there yet, or older than it may be."""
    if done.get("steps", STEPS) != STEPS:
        raise SystemExit(f"{arguments.out} was measured with {done['steps']}, not {STEPS}: give another --out")
    older = NEVER if arguments.fresh else arguments.older
    known = {n: r for n, r in (done["results"] | done.get("untouched", {})).items() if is_kept(r, older, n)}
    return {name: call for name, call in jobs_of(arguments, known).items() if name not in known}


def main() -> None:
    until = time.time()
    arguments = arguments_given()
    until += 60.0 * arguments.minutes
    done = nkn.read(arguments.out)
    machine, failed, left = describe(), 0, 0
    for name, result in in_turn(choose_work(arguments, done), arguments.workers, until):
        if result is None:
            left += 1
        elif "failed" in result:
            failed += 1
            print(name, result["failed"], flush=True)
        else:
            done = keep(arguments.out, name, result, machine)
            print(name, json.dumps(result)[:300], flush=True)
    from benchmarks.kfo_report import write_report

    reference = arguments.reference or Path(arguments.data).parent / "reference.json"
    published = json.loads(reference.read_text()) if reference.exists() else {}
    print(write_report(done, published, arguments.out.with_suffix(".md")))
    if failed or left:
        raise SystemExit(f"{failed} fits failed, for {left} there was no time; the same command tries them again")


if __name__ == "__main__":
    main()
