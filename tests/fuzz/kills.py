"""SIGKILL at random moments of a search and of an optimisation that keep a checkpoint.

Each runs in a child of this process (which has imported and compiled everything), is killed, and is begun again with
the same checkpoint until it ends. What was finished before a kill is there after it, is not done again, and the result
is that of a run that nobody disturbed.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import mercer
from mercer import GPRegressor, GrammarSearch
from tests.fuzz.judging import FindingError, Record

Rng = np.random.Generator
X = np.linspace(0.0, 10.0, 24)[:, None]
Y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 0]
CALLS = 14


def run(record: Record, count: int, rng: Rng, folder: Path) -> None:
    """Kill so many times, one half of them in searches, the other in optimisations."""
    _run_way(record, "search", search, count // 2, rng, folder)
    _run_way(record, "minimise", minimise, count - count // 2, rng, folder)


def _run_way(record: Record, name: str, way: Callable[[Path], Any], wanted: int, rng: Rng, folder: Path) -> None:
    began = time.perf_counter()
    reference = way(folder / f"{name}-whole")
    whole, attempts = time.perf_counter() - began, 2 * wanted
    for attempt in range(attempts):
        kills: list[float] = []
        moments = [float(moment) for moment in rng.uniform(0.0, whole, min(wanted, 12))]
        disturb = partial(kill_until_done, way, folder / f"{name}-{attempt}", reference, moments, kills)
        record.judge(attempt, f"{name} {attempt}", disturb)
        record.outcomes["killed"] += len(kills)
        wanted -= len(kills)
        if wanted <= 0:
            return


def kill_until_done(
    way: Callable[[Path], Any], place: Path, reference: Any, moments: list[float], kills: list[float]
) -> str:
    """Kill a run at these moments, each after it was begun again, and let it end."""
    kept: list[bytes] = []
    for moment in moments:
        child = multiprocessing.get_context("fork").Process(target=way, args=(place,))
        child.start()
        child.join(moment)
        if not child.is_alive():
            break
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        kills.append(moment)
        now = read_finished(place)
        if now[: len(kept)] != kept:
            raise FindingError(f"of {len(kept)} finished parts not all are there after a kill")
        kept = now
    result = way(place)
    if read_finished(place)[: len(kept)] != kept:
        raise FindingError("a finished part was done again")
    if result != reference:
        raise FindingError(f"{result!r:.120} in place of {reference!r:.120}")
    return "the same result"


def read_finished(place: Path) -> list[bytes]:
    """Return what a checkpoint holds, part by part: whole lines of a journal, or the trials of a study."""
    journal, study = place / "journal.jsonl", place / "study"
    if journal.exists():
        return [line for line in journal.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    if study.exists():
        return [json.dumps(trial).encode() for trial in json.loads(study.read_text())["trials"]]
    return []


def search(place: Path) -> Any:
    """Search with a checkpoint; return what was found."""
    learner = GrammarSearch(bases=("SE", "LIN", "PER"), max_depth=1, restarts=1, max_iterations=25, checkpoint=place)
    model = GPRegressor(learner, random_state=0, n_jobs=1).fit(X, Y)
    return model.kernel_.text(), model.log_evidence_, tuple(model.predict(X[:3]))


def minimise(place: Path) -> Any:
    """Minimise with a checkpoint; return every point."""
    place.mkdir(exist_ok=True)
    result = mercer.minimize(
        lambda x: float((x[0] - 0.3) ** 2 + np.sin(5 * x[1])), [(0.0, 1.0), (0.0, 2.0)], calls=CALLS, random_state=0,
        checkpoint=place / "study",
    )  # fmt: skip
    return tuple(tuple(x) for x in result.x_iters), result.fun
