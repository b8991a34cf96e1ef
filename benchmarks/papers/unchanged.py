"""Changes of the code that do nothing to what a row measures: one of its cells, before and after, digit by digit.

    python -m benchmarks.papers.unchanged --data FOLDER --before COMMIT --after COMMIT --cells nkn:random/yacht/1/nkn

A measurement is old once a part that it runs has changed (history.py), also where the change only made it quicker
or tidier. This runs cells of the same kind with the code of both commits, on one machine, and keeps what they found in
benchmarks/results/unchanged.json. Where all numbers but times are the same, to the last digit, no commit in between
makes a source of that kind old. Where one differs, the entry stays and has the last word: no other cell of that kind
clears any of these commits.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import nkn
from benchmarks.machine import now, processor
from benchmarks.papers.files import HERE, ROOT, read_json
from benchmarks.papers.history import git

# one draw of a known kernel, which no option of the benchmark chooses
RECOVERY = """
import argparse, json, sys
from pathlib import Path
from benchmarks import discovery
cell, out = sys.argv[1:]
settings = argparse.Namespace(data=Path(), part="recovery", only="", jobs=1, device="cpu", budget=None)
Path(out).write_text(json.dumps({"results": {cell: discovery.jobs_of(settings)[cell]()}}))
"""
# what may differ between two runs of the same code
TIMES = {"seconds", "cpu", "cpu_seconds", "date", "machine", "code", "jobs", "cores"}


def same_commits(file: str, pattern: str, kept: Path = HERE.unchanged, root: Path = ROOT) -> frozenset[str]:
    """Return the commits that were shown to do nothing to cells of a kind: its pattern in a file of results.

    Which commit made a cell differ is not known, so that all between its two are vetoed. A run of the same cell with
    the same commits replaces the one before.
    """
    runs = {
        (run["cell"], run["before"], run["after"]): run
        for run in read(kept)
        if run["file"] == file and fnmatch.fnmatchcase(run["cell"], pattern)
    }
    same, changed = set[str](), set[str]()
    for run in runs.values():
        between = git(root, "log", "--format=%H", f"{run['before']}..{run['after']}").split()
        (same if run["found"][0] == run["found"][1] else changed).update(between)
    return frozenset(same - changed)


@functools.cache
def read(path: Path) -> tuple[dict[str, Any], ...]:
    return tuple((read_json(path) or {"runs": ()})["runs"])


def without_times(found: Any) -> Any:
    """Return what a cell found, without what differs from run to run."""
    if isinstance(found, dict):
        return {key: without_times(value) for key, value in found.items() if key not in TIMES}
    return [without_times(each) for each in found] if isinstance(found, list) else found


def command_of(file: str, cell: str, data: Path, out: Path, tree: Path = ROOT) -> list[str]:
    """Return what Python is given to measure a cell into a file, as the benchmarks in a folder take it."""
    if file == "recovery":
        return ["-c", RECOVERY, cell, str(out)]
    if file == "optimise":
        function, method, run = cell.split("/")
        which = ["--functions", function, "--methods", method, "--runs", f"{run}-{run}"]
        return ["-m", "benchmarks.optimise", *which, "--out", str(out)]
    return ["-m", *options_of(file, cell, tree), "--data", str(data), "--out", str(out)]


def options_of(file: str, cell: str, tree: Path) -> list[str]:
    """Return the benchmark that measures a cell, and the options that choose it."""
    if file == "papers":
        moved = (tree / "benchmarks" / "papers" / "cells.py").exists()  # it was benchmarks/paper_cells.py
        return ["benchmarks.papers.cells" if moved else "benchmarks.paper_cells", "--cells", cell]
    part, name, *rest = cell.split("/")
    splits = [f"--splits={rest[0]}"] if rest and rest[0].isdigit() else []
    only = name[:2] if name[:2].isdigit() else name  # series are asked for by their numbers
    if file == "discovery":
        return ["benchmarks.discovery", "--part", part, "--only", only, "--jobs", "1"]
    if file == "kfo":
        return ["benchmarks.kfo", "--part", part, "--only", only, *splits]
    if part == "recovery":  # no option chooses one of its draws
        return ["benchmarks.nkn", "--part", part, "--jobs", "1"]
    if part == "seconds":
        return ["benchmarks.nkn", "--part", part, "--only", nkn.SHORT[name][:2], "--jobs", "1"]
    return ["benchmarks.nkn", "--part", part, "--only", only, *splits, "--methods", rest[-1], "--jobs", "1"]


def measure(commit: str, cells: list[tuple[str, str]], data: Path) -> list[Any]:
    """Return what some cells find with the code of a commit."""
    with tempfile.TemporaryDirectory() as folder:
        tree, found = Path(folder) / "tree", []
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), commit], cwd=ROOT, check=True)
        try:
            paths = os.pathsep.join([str(tree / "src"), str(tree)])
            environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
            for file, cell in cells:
                (tree / "benchmarks" / "results" / f"{file}.json").unlink(missing_ok=True)  # nothing is measured yet
                out = Path(folder) / (file if file == "optimise" else f"{file}.json")
                command = [sys.executable, "-W", "ignore", *command_of(file, cell, data, out, tree)]
                ended = subprocess.run(command, cwd=tree, check=False, env=environment, stdout=subprocess.DEVNULL)
                if ended.returncode:
                    raise SystemExit(f"{file}:{cell} could not be measured with the code of {commit[:8]}, see above")
                found.append(without_times(read_cell(out, cell)))
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=False)
    return found


def read_cell(out: Path, cell: str) -> Any:
    """Return what a cell found: from a file of results, or a folder with one file for each run of an optimiser."""
    if out.is_dir():
        record = json.loads((out / f"{cell.replace('/', '--')}.json").read_text())
        return shorten(record["points"], record["values"])
    results = json.loads(out.read_text())["results"]
    if cell not in results:
        raise SystemExit(f"{out.name} has no cell {cell}; it has {', '.join(list(results)[:5])} ...")
    return results[cell]


def shorten(points: list[Any], values: list[float]) -> dict[str, Any]:
    """Return the best value of a run of an optimiser, and a digest of all that it tried and found."""
    digest = hashlib.sha256(json.dumps([points, values]).encode()).hexdigest()
    return {"best": min(values), "evaluations": len(values), "sha256": digest}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--before", required=True, help="the commit that a change is compared with")
    parser.add_argument("--after", default="HEAD")
    files = "nkn, kfo, papers, discovery, recovery or optimise"
    parser.add_argument("--cells", nargs="+", required=True, help=f"{files}, and a cell of it")
    given = parser.parse_args()
    commits = [git(ROOT, "rev-parse", "--verify", f"{each}^{{commit}}").strip() for each in (given.before, given.after)]
    if "" in commits:
        parser.error(f"--before {given.before} and --after {given.after}: one of them is no commit")
    cells = [(file, cell) for file, _, cell in (each.partition(":") for each in given.cells)]
    both = zip(*(measure(commit, cells, given.data.resolve()) for commit in commits), strict=True)
    runs = list(read(HERE.unchanged))
    for (file, cell), found in zip(cells, both, strict=True):
        print(file, cell, "the same" if found[0] == found[1] else f"differs: {json.dumps(found)[:600]}", flush=True)
        run = {"file": f"{file}.json", "cell": cell, "before": commits[0], "after": commits[1], "found": list(found)}
        same = {key: run[key] for key in ("file", "cell", "before", "after")}
        runs = [each for each in runs if any(each[key] != value for key, value in same.items())]
        runs.append(run | {"date": now(), "machine": processor()})
    HERE.unchanged.write_text(json.dumps({"runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
