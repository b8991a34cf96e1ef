"""Is this state of the package as fast as another one? Both are timed in turn, and the best of five rounds counts.

    python -m benchmarks.speed_before --before ../older-checkout/src

Every round runs `benchmarks.speed` on Mercer alone, in fresh processes, once with each state, in alternating order.
Cells are the shortest milliseconds of one evaluation: a floor timed beside it would add its own noise to both states,
with two threads on two cores up to a hundredfold. Imports and the first call are seconds. Writes
benchmarks/results/speed-before.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks import machine
from benchmarks.speed import CASES, FIRST, REPEATS, ROOT, SIZES, environment

ALLOWED = 1.05  # after / before


def run_python(arguments: list[str], source: Path, threads: int) -> str:
    """Run Python with one state of the package; return what it printed."""
    variables = environment(threads) | {"PYTHONPATH": os.pathsep.join([str(source), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1]


def time_state(source: Path, threads: list[int], sizes: list[int]) -> dict[str, float]:
    """Return the figures of one state in one round."""
    found: dict[str, float] = {}
    for count in threads:
        order = {
            "library": "Mercer", "threads": count, "what": "time", "cases": list(CASES), "sizes": sizes,
            "repeats": {str(n): max(5, REPEATS[n] // 3) for n in sizes},
        }  # fmt: skip
        cells = json.loads(run_python(["-m", "benchmarks.speed", "--work", json.dumps(order)], source, count))
        for case, rows in cells.items():
            for n, cell in rows.items():
                found[f"{case}, N = {n}, {count} thread{'s' if count > 1 else ''}, ms"] = cell["least"]
    imported, first = map(float, run_python(["-c", FIRST], source, 1).split())
    return found | {"import mercer, s": imported, "first call, warm cache, s": first}


def main() -> None:
    """Time both states in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="the src folder of the other state")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    options = parser.parse_args()
    states = {"before": options.before.resolve(), "after": ROOT / "src"}
    best: dict[str, dict[str, float]] = {name: {} for name in states}
    for source in states.values():  # compiles, and fills the cache
        time_state(source, [1], [150])
    for number in range(options.rounds):
        for name in list(states) if number % 2 == 0 else list(states)[::-1]:
            for cell, value in time_state(states[name], options.threads, options.sizes).items():
                best[name][cell] = min(value, best[name].get(cell, value))
        print(f"round {number + 1} of {options.rounds}", flush=True)
    lines = ["# Speed before and after", "", "```", *machine.lines(machine.describe()), "```", ""]
    lines += [f"Best of {options.rounds} rounds, both states in turn: the shortest time of one evaluation.", ""]
    lines += ["| cell | before | after | after / before | |", "|---|---|---|---|---|"]
    for cell, before in best["before"].items():
        change = best["after"][cell] / before
        verdict = "met" if change <= ALLOWED else "slower"
        lines.append(f"| {cell} | {before:.3f} | {best['after'][cell]:.3f} | {change:.3f} | {verdict} |")
    text = "\n".join(lines) + "\n"
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "speed-before.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
