"""Choose an engine for the data at hand and say why."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mercer.compute.program import Program
from mercer.compute.separate import separated, summands
from mercer.errors import InputError, TooLargeError
from mercer.inference.contract import Data, Engine
from mercer.inference.device_exact import DeviceExact
from mercer.inference.exact import Exact
from mercer.inference.features import RandomFeatures
from mercer.inference.grid import Grid
from mercer.inference.lattice import MOST_MISSING, find_lattice
from mercer.inference.vfe import VFE

# Matrices of N x N doubles alive at once: the Gram or its factor, and blocks and copies while predicting.
MATRICES = 2.5
ENGINES = (Exact, VFE, RandomFeatures, Grid)
SETTINGS = (VFE, RandomFeatures, Grid)  # engines that have some
ALWAYS_THERE = 10_000_000  # bytes
LONGEST_AXIS = 2000  # of a grid: its eigenvectors take seconds
SURFACE_ROWS = 6000  # on a grid with a change surface: an evaluation, by iteration, takes a second or so
EXACT_ROWS = 3000  # an evaluation takes under a second up to here on two cores, and grows with the cube
MODERATE = 20_000  # rows up to which more can be done for a single kernel
MORE_POINTS = 2000  # inducing points there for a learner of one large kernel, and for the final posterior of others
# On a GPU one matrix and strips of it; up to so many rows an evaluation takes seconds on a large one.
MATRICES_ON_DEVICE = 1.3
EXACT_ROWS_ON_DEVICE = 50_000


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


def choose(
    rows: int,
    inference: Engine | None = None,
    memory: int | None = None,
    device: str = "cpu",
    learner_rows: int | None = None,
) -> Choice:
    """Return the engine that the user insists on, or the one for so many rows.

    Exact inference up to `EXACT_ROWS` rows, on a GPU as many as fit there; above, sparse variational inference.
    `learner_rows`: what a learner can be trained on exactly, where that is less. Such a learner ends with one kernel or
    a few, of many parameters, where a search compares hundreds: it can afford more inducing points, and needs them.
    """
    exact_rows = EXACT_ROWS if learner_rows is None else min(EXACT_ROWS, learner_rows)
    if device != "cpu":
        found = _on_device(rows, inference, device, exact_rows)
        if found is not None:
            return found
    if inference is None and rows > exact_rows and device == "cpu":
        return _sparse(_sparse_engine(rows, learner_rows is not None), rows, "and long")
    if isinstance(inference, VFE) and rows <= inference.inducing:
        return Choice(
            Exact(), f"exact inference: {rows:,} rows are no more than {inference.inducing:,} inducing points"
        )
    if inference is not None and not isinstance(inference, Exact):
        return Choice(inference, f"{inference!r}, as asked for")
    try:
        return _exact(rows, memory)
    except TooLargeError:
        if inference is not None:
            raise
        return _sparse(VFE(), rows, "more than once, and so much memory is not free")


def _sparse_engine(rows: int, one_kernel: bool) -> VFE:
    """Return how many points: up to a moderate number of rows more of them, for one kernel and for predictions."""
    if rows > MODERATE:
        return VFE()
    points = min(MORE_POINTS, rows // 3)  # of fewer rows fewer are enough
    if one_kernel:  # few steps with many points where they are: moving them would take as long again
        return VFE(inducing=points, joint=False, predicting=2 * points)
    return VFE(predicting=max(VFE.inducing, points))


def _sparse(engine: VFE, rows: int, why: str) -> Choice:
    """Choose sparse inference, as exact inference would take a matrix."""
    more = "" if engine.predicting is None else f" ({engine.predicting:,} for predictions)"
    return Choice(
        engine,
        f"sparse variational inference with {engine.inducing} inducing points{more}: exact inference would take "
        f"{_size(8 * rows * rows)} for a matrix of all pairs of {rows:,} rows, {why}",
    )


def _on_device(rows: int, inference: Engine | None, device: str, exact_rows: int) -> Choice | None:
    """Return what is to be done on a GPU; None where nothing is: few rows, or an engine that does not work there."""
    from mercer.linalg.device import available_device, free_memory  # brings PyTorch with it

    free = free_memory(available_device(device))
    if isinstance(inference, VFE) and rows > inference.inducing:
        return Choice(replace(inference, device=device), f"{inference!r} on {device}, as asked for")
    if rows <= exact_rows or not (inference is None or isinstance(inference, Exact)):
        return None
    needed = int(MATRICES_ON_DEVICE * 8 * rows * rows)
    told = f"{rows:,} rows need {_size(needed)}" + ("" if free is None else f" of {_size(free)} on {device}")
    if (free is None or needed <= free) and (inference is not None or rows <= EXACT_ROWS_ON_DEVICE):
        return Choice(DeviceExact(device), f"exact inference on {device}: {told}")
    if inference is not None:  # on the CPU then, if it fits there
        return None
    engine = VFE(device=device)
    sparse = f"sparse variational inference on {device} with {engine.inducing} inducing points"
    return Choice(engine, f"{sparse}: for exact inference {told}")


def fallen_back(choice: Choice, rows: int, device: str) -> tuple[Choice, str]:
    """Return the next engine, and its device, where one ran out of a GPU's memory."""
    engine, short = choice.engine, f"{device} ran out of memory"
    if isinstance(engine, DeviceExact):
        sparse = VFE(device=device)
        told = f"sparse variational inference with {sparse.inducing} inducing points on {device}: exact inference was"
        return Choice(sparse, f"{told} tried for {rows:,} rows, and {short}"), device
    if isinstance(engine, VFE):
        return Choice(replace(engine, device="cpu"), f"{replace(engine, device='cpu')!r} on the CPU: {short}"), "cpu"
    there = choose(rows, engine)
    return Choice(there.engine, f"{there.reason}, on the CPU: {short}"), "cpu"


def choose_grid(program: Program, data: Data, device: str = "cpu") -> Choice | None:
    """Return grid inference where the rows are many and form a grid and the kernel is a product over its columns.

    Or a change surface between such products, up to `SURFACE_ROWS` rows.
    """
    rows, columns = data.X.shape
    if rows <= EXACT_ROWS or columns < 2:
        return None
    product = separated(program, columns) is not None
    if not product and not (rows <= SURFACE_ROWS and _is_change_of_products(program, columns)):
        return None
    lattice = find_lattice(data.X, most_cells=rows / (1.0 - MOST_MISSING))
    if lattice is None or max(lattice.shape) > LONGEST_AXIS or min(lattice.shape) < 2:
        return None
    shape, holes = " x ".join(f"{n:,}" for n in lattice.shape), len(lattice.holes)
    missing = f" but for {holes:,} cells" if holes else ""
    return Choice(
        Grid(device=device),
        f"grid inference: the {rows:,} rows form a grid of {shape}{missing}, and the kernel is "
        + ("a product over columns" if product else "a change between products over columns"),
    )


def _is_change_of_products(program: Program, columns: int) -> bool:
    return any(summand.gates for summand in summands(program, columns) or ())


def asked_engine(inference: Any) -> Engine | None:
    """Return the engine that the user asks for, None for "auto"."""
    if isinstance(inference, str) and inference == "auto":
        return None
    if isinstance(inference, ENGINES):
        return inference
    raise InputError(
        f"inference must be 'auto', mercer.Exact(), mercer.VFE(inducing=...), "
        f"mercer.RandomFeatures(count=...) or mercer.Grid(), not {inference!r}"
    )


def engine_to_plain(inference: Any) -> Any:
    """Return what an estimator's `inference` says as JSON data."""
    return inference.to_plain() if isinstance(inference, ENGINES) else "auto"


def engine_from_plain(data: Any) -> str | Engine:
    """Read `engine_to_plain` back, checking it."""
    if isinstance(data, dict):
        readers: dict[str, Callable[[dict[str, Any]], Engine]] = {each.name: each.from_plain for each in SETTINGS}
        return readers[data["engine"]](data)
    return Exact() if data == "exact" else "auto"


def name_to_keep(engine: Engine) -> str | None:
    """Name the engine where the rows and the kernel alone may not lead to it again: memory had its part in it."""
    return engine.name if engine.exact or isinstance(engine, Grid) else None


def exact_on(device: str) -> Engine:
    """Return exact inference on a device."""
    return Exact() if device == "cpu" else DeviceExact(device)


def fits_in_memory(rows: int) -> None:
    """Raise TooLargeError where a matrix of all pairs of rows would not fit."""
    _exact(rows, None)


def _exact(rows: int, memory: int | None) -> Choice:
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
            "sparse inference (inference=mercer.VFE()), or a machine with more memory."
        )
    return Choice(Exact(), f"exact inference: {rows:,} rows need {_size(needed)} of {_size(memory)}")


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"
