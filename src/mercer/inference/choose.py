"""Choose an engine for the data at hand and say why."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from mercer.compute.backend import NUMBA, Backend
from mercer.compute.program import Program
from mercer.compute.separate import separate, summands
from mercer.errors import InputError, TooLargeError
from mercer.inference.contract import Data, Engine
from mercer.inference.exact import Exact
from mercer.inference.features import RandomFeatures
from mercer.inference.grid import Grid
from mercer.inference.lattice import MOST_MISSING, find_lattice
from mercer.inference.vfe import VFE

ENGINES: tuple[type[Engine], ...] = (Exact, VFE, RandomFeatures, Grid)  # those that files name
GRID = Grid()
NEGLIGIBLE = 10_000_000  # bytes beside any memory: how much there is need not be said


@dataclass(frozen=True)
class ChoicePolicy:
    """When to choose which engine, where the user leaves it to Mercer."""

    exact_rows: int = 3000  # an evaluation takes under a second up to here on two cores, and grows with the cube
    moderate_rows: int = 20_000  # up to which more can be done for a single kernel
    more_points: int = 2000  # inducing points there, for a learner of one large kernel and for final posteriors
    matrices: float = 2.5  # N x N alive at once: the Gram or its factor, and blocks and copies while predicting
    device_matrices: float = 1.3  # on a GPU one matrix and strips of it
    device_rows: int = 50_000  # up to which an evaluation takes seconds on a large GPU
    longest_axis: int = 2000  # of a grid: its eigenvectors take seconds
    surface_rows: int = 6000  # on a grid with a change surface: an evaluation, by iteration, takes a second or so
    memory: int | None = None  # bytes that may be taken; None: as many as the system has free
    grid: Grid = GRID  # the engine for rows that form one


DEFAULT = ChoicePolicy()


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
    rows: int, inference: Engine | None = None,
    *, backend: Backend = NUMBA, learner_rows: int | None = None, policy: ChoicePolicy = DEFAULT,
) -> Choice:  # fmt: skip
    """Return the engine that the user insists on, or the one for this many rows.

    Exact inference up to `exact_rows` rows, on a GPU as many as fit there; above, sparse variational inference.
    `learner_rows`: what a learner can be trained on exactly, where that is less. Such a learner ends with one kernel or
    a few, of many parameters, where a search compares hundreds: it can afford more inducing points, and needs them.
    """
    if inference is not None and inference.backend != NUMBA:  # the user says where
        backend = inference.backend
    exact_rows = policy.exact_rows if learner_rows is None else min(policy.exact_rows, learner_rows)
    if backend.batches:
        found = _choose_on_device(rows, inference, backend, exact_rows, policy)
        if found is not None:
            return found
    elif inference is None and rows > exact_rows:
        # up to a moderate number of rows more points, for one kernel and for predictions; of fewer rows fewer
        points = min(policy.more_points, rows // 3)
        if rows > policy.moderate_rows:
            engine = VFE()
        elif learner_rows is not None:  # few steps with many points where they are: moving them takes as long again
            engine = VFE(inducing=points, joint=False, predicting=2 * points)
        else:
            engine = VFE(predicting=max(VFE.inducing, points))
        return _choose_sparse(engine, rows, "and long")
    if isinstance(inference, VFE) and rows <= inference.inducing:
        why = f"exact inference: {rows:,} rows are no more than {inference.inducing:,} inducing points"
        return Choice(exact_for_few(backend), why)
    if inference is not None and not isinstance(inference, Exact):
        return Choice(inference, f"{inference!r}, as asked for")
    try:
        return _choose_exact(rows, backend, policy)
    except TooLargeError:
        if inference is not None:
            raise
        return _choose_sparse(VFE(), rows, "more than once, and so much memory is not free")


def _choose_sparse(engine: VFE, rows: int, why: str) -> Choice:
    """Choose sparse inference, as exact inference would take a matrix."""
    more = "" if engine.predicting is None else f" ({engine.predicting:,} for predictions)"
    return Choice(
        engine,
        f"sparse variational inference with {engine.inducing} inducing points{more}: exact inference would take "
        f"{_size(8 * rows * rows)} for a matrix of all pairs of {rows:,} rows, {why}",
    )


def _choose_on_device(
    rows: int, inference: Engine | None, backend: Backend, exact_rows: int, policy: ChoicePolicy
) -> Choice | None:
    """Return what is to be done on a GPU; None where nothing is: few rows, or an engine that does not work there."""
    if isinstance(inference, VFE) and rows > inference.inducing:
        return Choice(inference.on(backend), f"{inference!r} on {backend}, as asked for")
    if rows <= exact_rows or not (inference is None or isinstance(inference, Exact)):
        return None
    free, needed = backend.free_memory(), int(policy.device_matrices * 8 * rows * rows)
    room = f"{rows:,} rows need {_size(needed)}" + ("" if free is None else f" of {_size(free)} on {backend}")
    if (free is None or needed <= free) and (inference is not None or rows <= policy.device_rows):
        return Choice(Exact(backend), f"exact inference on {backend}: {room}")
    if inference is not None:  # on the CPU then, if it fits there
        return None
    engine = VFE(device=backend)
    sparse = f"sparse variational inference on {backend} with {engine.inducing} inducing points"
    return Choice(engine, f"{sparse}: for exact inference {room}")


def fall_back(choice: Choice, rows: int, backend: Backend) -> tuple[Choice, Backend]:
    """Return the next engine, and its back end, where one ran out of a GPU's memory."""
    engine, short = choice.engine, f"{backend} ran out of memory"
    if engine.exact and engine.backend.batches:
        sparse = VFE(device=backend)
        what = f"sparse variational inference with {sparse.inducing} inducing points on {backend}: exact inference was"
        return Choice(sparse, f"{what} tried for {rows:,} rows, and {short}"), backend
    if isinstance(engine, VFE):
        return Choice(engine.on(NUMBA), f"{engine!r} on the CPU: {short}"), NUMBA
    there = choose(rows, engine.on(NUMBA))
    return Choice(there.engine, f"{there.reason}, on the CPU: {short}"), NUMBA


def choose_for_scattered(inference: Engine | None, data: Data) -> Choice | None:
    """Return exact inference where a grid is asked for and few rows are scattered over one; many are refused."""
    lattice = data.lattice if isinstance(inference, Grid) else None
    if not isinstance(inference, Grid) or lattice is None or not lattice.mostly_holes:
        return None
    if inference.leaves_to_exact(data):
        holes = f"{data.count:,} rows fill less than half of the {lattice.size:,} cells of their grid"
        return Choice(Exact(), f"exact inference: {holes}, and are few enough")
    inference.check_filled(lattice)
    return None


def choose_grid(program: Program, data: Data, policy: ChoicePolicy = DEFAULT) -> Choice | None:
    """Return grid inference where the rows are many and form a grid and the kernel is a product over its columns.

    Or a change surface between such products, up to `surface_rows` rows.
    """
    rows, columns = data.X.shape
    if rows <= policy.exact_rows or columns < 2:
        return None
    product = separate(program, columns) is not None
    changes = rows <= policy.surface_rows and any(summand.gates for summand in summands(program, columns) or ())
    if not product and not changes:
        return None
    lattice = find_lattice(data.X, most_cells=rows / (1.0 - MOST_MISSING))
    if lattice is None or max(lattice.shape) > policy.longest_axis or min(lattice.shape) < 2:
        return None
    shape, holes = " x ".join(f"{n:,}" for n in lattice.shape), len(lattice.holes)
    missing = f" but for {holes:,} cells" if holes else ""
    return Choice(
        policy.grid,
        f"grid inference: the {rows:,} rows form a grid of {shape}{missing}, and the kernel is "
        + ("a product over columns" if product else "a change between products over columns"),
    )


def read_inference(inference: Any) -> Engine | None:
    """Return the engine that the user asks for, None for "auto"."""
    if isinstance(inference, str) and inference == "auto":
        return None
    if isinstance(inference, Engine):
        return inference
    raise InputError(
        f"inference must be 'auto', mercer.Exact(), mercer.VFE(inducing=...), "
        f"mercer.RandomFeatures(count=...) or mercer.Grid(), not {inference!r}"
    )


def engine_to_plain(inference: str | Engine) -> Any:
    """Return what an estimator's `inference` says as JSON data."""
    if isinstance(inference, str):
        return inference
    if type(inference) not in ENGINES:
        raise InputError(
            f"a model file cannot hold {inference!r}: {type(inference).__name__} is not among the engines that files "
            "name, mercer.inference.choose.ENGINES"
        )
    return inference.to_plain()


def engine_from_plain(data: Any) -> str | Engine:
    """Read `engine_to_plain` back, checking it."""
    if isinstance(data, str):  # version 0.1 wrote exact inference as a word
        return Exact() if data == Exact.name else "auto"
    return {each.name: each for each in ENGINES}[data["engine"]].from_plain(data)


def check_memory(rows: int, policy: ChoicePolicy = DEFAULT) -> None:
    """Raise TooLargeError where a matrix of all pairs of rows would not fit."""
    _choose_exact(rows, NUMBA, policy)


def exact_for_few(backend: Backend) -> Exact:
    """Return exact inference for few rows: on the CPU where a back end is made for many candidates at once."""
    return Exact() if backend.batches else Exact(backend)


def _choose_exact(rows: int, backend: Backend, policy: ChoicePolicy) -> Choice:
    """Choose exact inference where its matrices fit in memory; otherwise say how much it would need."""
    needed = int(policy.matrices * 8 * rows * rows)
    memory = available_memory() if policy.memory is None else policy.memory
    if needed > memory:
        fitting = int((memory / (8 * policy.matrices)) ** 0.5)
        raise TooLargeError(
            f"{rows:,} rows are too many for exact inference: it would need {_size(needed)} of memory and "
            f"{_size(memory)} are free. Use at most about {fitting:,} rows (a random subset often does), "
            "sparse inference (inference=mercer.VFE()), or a machine with more memory."
        )
    whole = "memory" if policy.memory is None and needed < NEGLIGIBLE else _size(memory)
    return Choice(exact_for_few(backend), f"exact inference: {rows:,} rows need {_size(needed)} of {whole}")


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"
