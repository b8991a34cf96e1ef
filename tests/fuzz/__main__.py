"""Run the parts one after the other, print what they found, and write a report.

    python -m tests.fuzz                                  all of it: some twenty minutes on a core
    python -m tests.fuzz --only kernels models            some parts
    python -m tests.fuzz --only arrays --count 100        fewer cases, or more
    python -m tests.fuzz --seed 7                         other cases
    python -m tests.fuzz --report benchmarks/results/fuzz.md

The numbers of each part are kept beside the report (fuzz.json), so that parts can be run at different times.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import machine

from tests.fuzz import arrays, disks, kernels, kills, models, tables
from tests.fuzz.judging import Record

COUNTS = {"kernels": 20_000, "models": 5_000, "arrays": 2_000, "tables": 1_000, "disks": 160, "kills": 100}
WORDS = {
    "kernels": "kernel texts, read, written, read again, and evaluated",
    "models": "model files and studies, loaded and used",
    "arrays": "pairs of arrays, given to estimators, kernels and features",
    "tables": "tables for `mercer discover --kernel SE`",
    "disks": "writings by commands, `save` and checkpoints with too little room",
    "kills": "SIGKILL in searches and optimisations with a checkpoint (some end before the signal)",
}


HEAD = """# Bad input at random

`make fuzz` (tests/fuzz). Seeds are fixed. A finding is anything but a result whose numbers are numbers, or an error of
Mercer's own that is a sentence: another exception, another exit code than 0 or 2, a NaN without a word, more than 2 GB,
half a file, work that was finished and is lost.

| part | cases | findings | how they ended | seconds | peak memory, GB | seed | date |
|---|---|---|---|---|---|---|---|"""


def run_part(part: str, count: int, seed: int) -> Record:
    """Do one part."""
    record, rng = Record(part, seed), np.random.default_rng([seed, *map(ord, part)])
    runs: dict[str, Any] = {"kernels": kernels.run, "arrays": arrays.run}
    if part in runs:
        runs[part](record, count, rng)
    else:
        with tempfile.TemporaryDirectory(prefix="mercer-fuzz-") as folder:
            {"models": models, "tables": tables, "disks": disks, "kills": kills}[part].run(
                record, count, rng, Path(folder)
            )
    record.conclude()
    return record


def write_report(file: Path, results: dict[str, Any]) -> None:
    """Write the numbers of all parts that have been run."""
    lines = [HEAD]
    for part in COUNTS:
        if part in results:
            one = results[part]
            ended = ", ".join(f"{name} {count:,}" for name, count in one["outcomes"].items())
            lines.append(
                f"| {WORDS[part]} | {one['count']:,} | {len(one['findings'])} | {ended} | {one['seconds']:.0f} | "
                f"{one['memory GB']:.2f} | {one['seed']} | {one['date']} |"
            )
    for part, one in results.items():
        for each in one["findings"]:
            lines += ["", f"- {part} {each['number']}: {each['case']}: {each['what']}"]
    lines += ["", *machine.lines(machine.describe()), ""]
    file.write_text("\n".join(lines), encoding="utf-8")


def main() -> int:
    """Read the arguments and do it."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(COUNTS), default=list(COUNTS))
    parser.add_argument("--count", type=int, help="cases of each part")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--report", type=Path, help="where to write the numbers, as .md; beside it they are kept as .json"
    )
    options = parser.parse_args()
    kept = None if options.report is None else options.report.with_suffix(".json")
    results: dict[str, Any] = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
    found = 0
    for part in options.only:
        print(f"{part}, seed {options.seed} ...", flush=True)
        record = run_part(part, options.count or COUNTS[part], options.seed)
        plain = record.to_plain() | {"date": machine.describe()["date"]}
        print(
            f"  {plain['count']:,} cases, {len(record.findings)} findings, {plain['seconds']:.0f} s, "
            f"{plain['memory GB']} GB, {plain['outcomes']}"
        )
        for each in record.findings:
            print(f"  finding {each['number']}: {each['case']}\n    {each['what']}\n{each['where']}", flush=True)
        found += len(record.findings)
        results[part] = plain
        if kept is not None:
            kept.write_text(json.dumps(results, indent=1) + "\n")
            write_report(options.report, results)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
