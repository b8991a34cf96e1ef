"""Choose an engine for the data at hand and say why."""

from __future__ import annotations

import os
from dataclasses import dataclass

from mercer.errors import TooLargeError
from mercer.inference.contract import Engine
from mercer.inference.exact import Exact

# Matrices of N x N doubles alive at once: the Gram or its factor, and blocks and copies while predicting.
MATRICES = 2.5
ALWAYS_THERE = 10_000_000  # bytes


@dataclass(frozen=True)
class Choice:
    """An engine and the reason for it."""

    engine: Engine
    reason: str


def available_memory() -> int:
    """Return the bytes of memory that could be taken now."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass  # not Linux
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def choose(rows: int, memory: int | None = None) -> Choice:
    """Choose exact inference where its matrices fit in memory; otherwise say how much it would need."""
    needed = int(MATRICES * 8 * rows * rows)
    if memory is None and needed < ALWAYS_THERE:  # asking the system would cost more than the answer is worth
        return Choice(Exact(), f"exact inference: {rows:,} rows need {_size(needed)} of memory")
    memory = available_memory() if memory is None else memory
    if needed > memory:
        fitting = int((memory / (8 * MATRICES)) ** 0.5)
        raise TooLargeError(
            f"{rows:,} rows are too many for exact inference: it would need {_size(needed)} of memory and "
            f"{_size(memory)} are free. Use at most about {fitting:,} rows (a random subset often does), "
            "or a machine with more memory."
        )
    return Choice(Exact(), f"exact inference: {rows:,} rows need {_size(needed)} of {_size(memory)}")


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"
