"""How long a person looks at an empty screen: `python -m benchmarks.first_line`.

Starts `mercer discover FILE --target y` in a pseudo terminal, several times, and measures until the first line is drawn
and until the search has begun. Files of Python and Numba are warm after the first start, which does not count.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import select
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import machine

LIMIT = 2.0  # seconds, of the first line
PATIENCE = 120.0
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\n\s]")  # colours and moves of the cursor: nothing to be seen


def measure(command: list[str], later: str) -> tuple[float, float]:
    """Return after how many seconds anything was to be seen, and after how many these words; then end the command."""
    started = time.perf_counter()
    child, screen = pty.fork()
    if child == 0:
        os.execv(command[0], command)
    text, first = "", 0.0
    try:
        while time.perf_counter() - started < PATIENCE:
            if not select.select([screen], [], [], PATIENCE)[0]:
                break
            text += os.read(screen, 65536).decode(errors="replace")
            now = time.perf_counter() - started
            first = first or (now if CONTROL.sub("", text) else 0.0)
            if later in text:
                return first, now
    except OSError:  # it has ended
        pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(screen)
    raise SystemExit(f"'{later}' was not to be seen:\n{text[-2000:]}")


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_line", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        x = np.linspace(0.0, 10.0, 100)
        file = Path(folder) / "data.csv"
        np.savetxt(file, np.column_stack([x, np.sin(x)]), delimiter=",", header="x,y", comments="")
        command = [sys.executable, "-m", "mercer", "discover", str(file), "--target", "y", "--out", f"{folder}/out"]
        measure(command, "looking for a kernel")
        times = [measure(command, "looking for a kernel") for _ in range(options.repeats)]
    first, begun = (statistics.median(column) for column in zip(*times, strict=True))
    slowest = max(first for first, _ in times)
    print(f"first line: {first:.2f} s (median of {len(times)}; slowest {slowest:.2f}; at most {LIMIT})")
    print(f"the search begins: {begun:.2f} s")
    print(f"{machine.processor()}, {os.cpu_count()} cores, load average {machine.load()}")
    return 0 if first <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
