"""Is everything true that `discover` says? On data sets whose truth is known: `make bench-truth`.

    python -m benchmarks.truth --quick [--jobs 2]            # 60 sets of all kinds
    python -m benchmarks.truth [--jobs 16] [--data FOLDER]   # 400 known, those seen to go wrong, and real ones
    python -m benchmarks.truth --only season-03,walk-00      # some; --judge does not run anything
    python -m benchmarks.truth --draw 7 [--quick]            # other sets of the same kinds, that nobody has looked at

Each set goes the way of `mercer discover FILE --time-budget 20` (one job, one thread, seed 0): a CSV file is written,
read and prepared by the command's own functions, learned from and explained; only the report is not drawn. Where rich
(which the command's terminal needs) is not installed, the table is read by `mercer.tables` and given to the estimator,
and the record says so. Every set is a file in `results/truth-runs`: a run that was stopped goes on; files of another
state of the code are made anew. Then every claim is judged (`truth_checks.py`, `truth_whole.py`) and `results/truth.md`
written (`truth_report.py`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import machine
from benchmarks.truth_data import PER_DRAW, Entry, KnownSet, list_known, make_known
from benchmarks.truth_real import list_real, make_real
from benchmarks.truth_report import judge_record, write_report
from benchmarks.truth_seen import FAMILY, list_seen, make_seen

RESULTS = Path(__file__).parent / "results"
RUNS = RESULTS / "truth-runs"
BUDGET = 20.0  # seconds of search for each set
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
QUICK_OF_EACH = {"classes": 1}  # sets of a family; two of those not named: 60 with those seen
DIGITS = 7
PATIENCE = 60  # times the budget: then a run is given up


class Notes:
    """Stands in for the terminal: keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


# -------------------------------------------------------------------------------------------------------------- one set


def discover(known: KnownSet, budget: float) -> tuple[Any, Any, list[str], str]:
    """Learn as the command does; return the model, its explanation, the notes, and which way the table went."""
    from mercer.estimators import GPRegressor, KernelSVC
    from mercer.explain import explain
    from mercer.explain.classes import explain_classes

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "table.csv"
        known.frame.to_csv(file, index=False)
        kernel, inputs, target, notes, way = prepare(known, file, budget)
    if known.classes:
        classes = KernelSVC(kernel=kernel, random_state=0).fit(inputs, target)
        return classes, explain_classes(classes.fitted_), notes, way
    model = GPRegressor(kernel=kernel, random_state=0, n_jobs=1).fit(inputs, target)
    fitted = replace(model.fitted_, notes=(*notes, *model.fitted_.notes))
    return model, explain(fitted), list(fitted.notes), way


def prepare(known: KnownSet, file: Path, budget: float) -> tuple[Any, Any, Any, list[str], str]:
    """Read the file and choose the learner by the command's own functions, or without them where rich is missing."""
    from mercer import GrammarSearch, KernelFunctional
    from mercer.tables import ReadOptions, read

    try:
        from mercer.cli.files import read_rows
        from mercer.cli.learn import FUNCTIONAL, SEARCH, Request, choose_kernel, prepare_rows
    except ImportError:
        frame = read(file, ReadOptions(numbers=(known.target,))).frame
        kernel = KernelFunctional(time_budget=budget) if known.classes else GrammarSearch(time_budget=budget)
        return kernel, frame.drop(columns=known.target), frame[known.target], [], "tables and estimators"
    request = Request(
        "discover", known.target, file.parent, kernel=FUNCTIONAL if known.classes else SEARCH, classes=known.classes,
        time_budget=budget, jobs=1,
    )  # fmt: skip
    terminal: Any = Notes()
    rows = read_rows(file, known.target, ReadOptions(numbers=(known.target,)))
    inputs, target, _ = prepare_rows(request, rows, terminal)
    return choose_kernel(request), inputs, target, terminal.notes, "the command's functions"


def say_all(explanation: Any, fitted: Any) -> list[str]:
    """Put every claim into words, for people who read the report."""
    from mercer.explain.subject import subject_of
    from mercer.explain.words import say

    vocabulary, texts = subject_of(fitted).vocabulary, []
    for claim in explanation.claims:
        try:
            texts.append(say(claim, vocabulary))
        except Exception:  # words are only shown
            texts.append("")
    return texts


def predict(model: Any, known: KnownSet) -> dict[str, Any]:
    """Predict the rows that were seen and those that were not; both are read as one file, so that dates are alike."""
    from mercer.tables import ReadOptions, read

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "table.csv"
        pd.concat([known.frame, known.unseen]).to_csv(file, index=False)
        rows = read(file, ReadOptions(numbers=(known.target,))).frame.drop(columns=known.target)
    parts = {"seen": rows.iloc[: len(known.frame)], "unseen": rows.iloc[len(known.frame) :]}
    found: dict[str, Any] = {}
    for name, part in parts.items():
        if not len(part):
            found[name] = None
        elif known.classes:
            found[name] = {"labels": [str(label) for label in model.predict(part)]}
        else:
            mean, std = model.predict(part, return_std=True)
            found[name] = {"mean": shorten(mean), "std": shorten(std)}
    return found


def shorten(values: Any) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]


def carry_out(known: KnownSet, budget: float) -> dict[str, Any]:
    """Run one set; return what was said, and what is predicted for rows seen and unseen."""
    warnings.simplefilter("ignore")
    started, used = time.perf_counter(), time.process_time()
    try:
        model, explanation, notes, way = discover(known, budget)
    except Exception as error:  # the run goes on without it, and the report lists it
        return {"failed": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
    record = {
        "seconds": round(time.perf_counter() - started, 2),
        "processor_seconds": round(time.process_time() - used, 2),
        "way": way,
        "notes": notes,
        "explanation": explanation.to_json(),
        "text": explanation.to_text(),
        "sentences": [] if known.classes else say_all(explanation, model.fitted_),
    }
    for component in record["explanation"].get("components", ()):
        component["mean"] = shorten(component["mean"])
        component.pop("std", None)
    try:
        record |= predict(model, known)
    except Exception as error:
        record["prediction_failed"] = f"{type(error).__name__}: {error}"
    return record


# ------------------------------------------------------------------------------------------------------------- all sets


def list_entries(quick: bool, data: Path | None, draw: int = 0) -> list[Entry]:
    """Return the sets to run: in quick mode some of every family; those seen to go wrong are with the first draw."""
    known, seen = list_known(draw), list_seen() if draw == 0 else []
    if quick:
        few = [e for e in known if e.seed % PER_DRAW < QUICK_OF_EACH.get(e.family.split("-")[0], 2)]
        return [*few, *seen]
    return [*known, *seen, *(list_real(data) if draw == 0 else [])]


def make(entry: Entry, data: Path | None) -> KnownSet:
    """Make a data set of any kind."""
    if entry.family.startswith("real"):
        return make_real(entry, data)
    return make_seen(entry) if entry.family == FAMILY else make_known(entry)


def state_of_code() -> str:
    """Return a fingerprint of Mercer's sources and of the data sets."""
    import mercer

    folder, own = Path(mercer.__file__).parent, Path(__file__).parent
    files = [*sorted(folder.rglob("*.py")), *sorted(own.glob("truth_data.py")), *sorted(own.glob("truth_seen.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def read_record(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found


def work(entry: Entry, data: Path | None, folder: Path, budget: float, state: str) -> None:
    """Run a set and write its file, in one go."""
    known = make(entry, data)
    record = carry_out(known, budget)
    own = {"name": entry.name, "family": entry.family, "budget": budget, "state": state, "machine": machine.describe()}
    write_record(record | own, folder / f"{entry.name}.json")


def write_record(record: dict[str, Any], path: Path) -> None:
    beside = path.with_suffix(f".{os.getpid()}.part")
    beside.write_text(json.dumps(record), encoding="utf-8")
    os.replace(beside, path)


def compile_core() -> None:
    """Compile what Numba compiles once, before the clock of any budget runs."""
    import mercer

    x = np.linspace(0.0, 1.0, 40)
    X, y = np.column_stack([x, x**2]), np.sin(6.0 * x)
    for kernel in ("SE*PER(0) + LIN", "RQ + M12"):
        mercer.GPRegressor(kernel, restarts=1, max_iterations=2, random_state=0).fit(X, y).predict(X, return_std=True)


def run_all(entries: list[Entry], data: Path | None, arguments: argparse.Namespace) -> None:
    """Run what has no file of this state of the code, `jobs` at a time; none is begun after so many minutes."""
    folder, budget, jobs, keep = arguments.runs, arguments.budget, arguments.jobs, arguments.keep
    until = time.monotonic() + 60.0 * arguments.minutes
    folder.mkdir(parents=True, exist_ok=True)
    state = state_of_code()
    waiting = []
    for entry in entries:
        record = read_record(folder / f"{entry.name}.json")
        if record is None or (not keep and (record["state"], record["budget"]) != (state, budget)):
            waiting.append(entry)
    # In no order of kinds: whenever it stops, some of all are there.
    waiting.sort(key=lambda entry: hashlib.sha256(entry.name.encode()).digest())
    print(f"{len(entries) - len(waiting)} sets are there, {len(waiting)} to run, {jobs} at a time", file=sys.stderr)
    if not waiting:
        return
    compile_core()

    def start(entry: Entry) -> str:
        """Run one set in a process of its own: what it takes it gives back, and it can be stopped."""
        if time.monotonic() > until:
            return f"{entry.name} not begun"
        own = [sys.executable, "-W", "ignore", "-m", "benchmarks.truth", "--one", entry.name, "--state", state]
        own += ["--runs", str(folder), "--budget", str(budget), *(["--data", str(data)] if data else [])]
        own += ["--draw", str(arguments.draw)]
        began = time.perf_counter()
        try:
            done = subprocess.run(own, capture_output=True, text=True, timeout=PATIENCE * budget, check=False)
            problem = "" if done.returncode == 0 else f"exit code {done.returncode}: {done.stderr[-500:]}"
        except subprocess.TimeoutExpired:
            problem = f"not done after {PATIENCE * budget:.0f} s"
        if problem:
            failed = {"failed": problem, "budget": budget, "state": state, "machine": machine.describe()}
            write_record(failed | {"name": entry.name, "family": entry.family}, folder / f"{entry.name}.json")
        return f"{entry.name} {time.perf_counter() - began:.0f} s {problem}"

    with ThreadPoolExecutor(jobs) as pool:
        for number, future in enumerate(as_completed([pool.submit(start, entry) for entry in waiting]), 1):
            print(f"{number}/{len(waiting)} {future.result()}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="60 sets of all kinds")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--data", type=Path, help="a folder with timeseries/ and regression/, for more real sets")
    parser.add_argument("--draw", type=int, default=0, help="0: the 400 sets; other numbers: 400 others each")
    parser.add_argument("--only", help="some sets by name, or by the beginning of it, as season-03,walk")
    parser.add_argument("--runs", type=Path, default=RUNS, help="where the file of each set is")
    parser.add_argument("--out", type=Path, default=RESULTS / "truth.md")
    parser.add_argument("--budget", type=float, default=BUDGET)
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin no set later than this")
    parser.add_argument("--judge", action="store_true", help="run nothing; judge the files that are there")
    parser.add_argument("--keep", action="store_true", help="keep files of another state of the code")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # a set that is run in this process
    parser.add_argument("--state", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.environ.update(dict.fromkeys(THREADS, "1"))
    data = arguments.data.resolve() if arguments.data else None
    if arguments.one:
        entry = next(entry for entry in list_entries(False, data, arguments.draw) if entry.name == arguments.one)
        work(entry, data, arguments.runs, arguments.budget, arguments.state)
        return
    entries = list_entries(arguments.quick, data, arguments.draw)
    if arguments.only:
        beginnings = tuple(arguments.only.split(","))
        entries = [e for e in list_entries(False, data, arguments.draw) if e.name.startswith(beginnings)]
    if not arguments.judge:
        run_all(entries, data, arguments)
    judged, state = [], state_of_code()
    for entry in entries:
        record = read_record(arguments.runs / f"{entry.name}.json")
        if record is not None and (arguments.judge or arguments.keep or record["state"] == state):
            judged.append(judge_record(make(entry, data), record))
    command = (
        "python -m benchmarks.truth"
        + (" --quick" if arguments.quick else "")
        + (f" --draw {arguments.draw}" if arguments.draw else "")
        + (" --data FOLDER" if data else "")
    )
    print(f"{len(judged)} of {len(entries)} sets are judged", file=sys.stderr)
    print(write_report(judged, arguments.out, command))


if __name__ == "__main__":
    main()
