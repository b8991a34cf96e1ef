"""What a learner tries: candidates, the time it may take, why it stopped, what is reported, and a journal of it.

A learner keeps its own idea of what to try next; the bookkeeping is here, once:

    trials = Trials(context.report, Clock(time_budget), jobs)
    with trials.stopping():                                   # Ctrl-C and the end of the budget: `trials.stopped`
        for number, attempt in trials.run(advance, work):     # here, in other threads, or as one batch on a device
            trials.add(candidate)
    if trials.best is None:
        raise trials.failure("the search found no kernel")
    return trials.conclude(fit)
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mercer.compute.backend import NUMBA, Backend
from mercer.errors import InputError, MercerError, NumericalError
from mercer.fitting.minimise import Clock, OutOfTimeError, Progress, Report, Work, run_batched, run_parallel
from mercer.fitting.problem import AtBound, Fit, Memory, Run, Trail
from mercer.inference.bounds import Interval
from mercer.inference.contract import Data
from mercer.kernels.algebra import structure
from mercer.kernels.text import from_json, to_json
from mercer.learners.contract import Candidate, Learned, Stopped, Weights

VERSION = 6
Key = tuple[int, int, str]  # stage, rung, candidate


@dataclass(frozen=True, eq=False)
class Attempt:
    """Where the starts of a candidate are, the best first; `fit` once they are at their end.

    In a search by intervals: where its log evidence lies on all rows, by this many inducing points.
    """

    runs: tuple[Run, ...]
    screened: int  # points that were evaluated to choose the starts
    seconds: float
    fit: Fit | None = None
    interval: Interval | None = None
    inducing: int | None = None

    @property
    def log_evidence(self) -> float:
        """The best so far."""
        return -self.runs[0].value

    @property
    def hope(self) -> float:
        """The log evidence that it may still gain, by what its starts know about the next step; infinite: not known."""
        return max(run.hope - (run.value - self.runs[0].value) for run in self.runs)

    @property
    def out_of_time(self) -> bool:
        """Whether the end of the time ended a run: with more of it, it would have come further."""
        return any(run.out_of_time for run in self.runs)


@dataclass(eq=False)
class Trials:
    """Candidates in the order in which they were tried, and the clock that they are tried by."""

    report: Report | None = None
    clock: Clock = field(default_factory=Clock)
    jobs: int = 1
    counted: Literal["kernels", "starts", "steps"] = "kernels"  # what progress counts
    backend: Backend = NUMBA  # where functions that can run as one batch do so
    journal: Journal | None = None
    candidates: list[Candidate] = field(default_factory=list)
    best: int | None = None  # the number of the incumbent
    notes: list[str] = field(default_factory=list)
    stopped: Stopped = ""

    @property
    def incumbent(self) -> Candidate | None:
        """The best candidate so far."""
        return None if self.best is None else self.candidates[self.best]

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """Let Ctrl-C and the end of the time budget end what is done inside; `stopped` says which of them did."""
        try:
            yield
        except KeyboardInterrupt:
            self.stopped = "request"
        except OutOfTimeError:
            self.stopped = "time"

    def add(self, candidate: Candidate, leads: bool | None = None) -> int:
        """Write a candidate down and return its number; it `leads` (None) where no score is better than its own."""
        self.candidates.append(candidate)
        number, incumbent = len(self.candidates) - 1, self.incumbent
        if leads is None:
            usable = candidate.fit is not None and math.isfinite(candidate.score)
            leads = usable and (incumbent is None or candidate.score < incumbent.score)
        if leads:
            self.best = number
        return number

    def note_stop(self, what: str, found: str) -> None:
        """Add a note where the work was stopped."""
        if self.stopped:
            budget, kept = self.clock.budget or 0.0, self.clock.reserve
            less = f", less {kept:.2g} s for what comes after it," if kept > 0.1 * budget else ""
            why = f"the time budget of {budget:g} s{less} was spent before the {what} had ended"
            if self.stopped == "request":
                why = f"the {what} was stopped on request"
            self.notes.append(f"{why}; this is the best {found} found until then")

    def conclude(self, fit: Fit, members: Sequence[Fit] = (), weights: Weights | None = None, **more: Any) -> Learned:
        """Return what was learned: the fit alone, or with the members of an average, and all that was tried."""
        kept = tuple(members) or (fit,)
        if self.journal is not None and self.journal.failure is not None:
            self.notes.append(
                f"the checkpoint could not be written ({self.journal.failure}): a search that goes on from it does "
                "some of the work again"
            )
        candidates, notes = tuple(self.candidates), tuple(self.notes)
        return Learned(fit, candidates, kept, weights or Weights(), notes, self.stopped, **more)

    def find_finished(self) -> list[int]:
        """Return the numbers of the candidates that have a fit and a score."""
        return [i for i, c in enumerate(self.candidates) if c.fit is not None and math.isfinite(c.score)]

    def tell(self, done: int, total: int, depth: int = 0, rung: int = 0, best: Candidate | None = None) -> None:
        """Report how far the work is."""
        if self.report is None:
            return
        best = best or self.incumbent
        kernel, score = (None, math.inf) if best is None else (best.expression, best.score)
        noise, clock = None if best is None or best.fit is None else best.fit.noise, self.clock
        times = clock.seconds, clock.seconds_left
        self.report(Progress(done, total, self.counted, kernel, score, *times, depth, rung, noise=noise))

    def failure(self, what: str) -> BaseException:
        """Return what to raise where nothing was found: Ctrl-C goes on, otherwise an error with all reasons."""
        if self.stopped == "request":  # there is no best so far to return
            return KeyboardInterrupt()
        reasons = "; ".join(sorted({c.message for c in self.candidates})) or "nothing was finished in time"
        return NumericalError(f"{what}: {reasons}")

    def run(
        self, function: Callable[..., Any], work: Work, depth: int = 0, rung: int = 0, stage: int = 0,
        batched: bool = False,
    ) -> Iterator[tuple[int, Any]]:  # fmt: skip
        """Yield (number, function(*arguments)) for all the work, reporting each; the end of the budget ends it.

        stage : under which, with the rung, the journal keeps attempts; what it holds is not done again.
        batched : the function takes, last, what evaluates points on a device, where all the work is one batch.
        """
        known, keys = {}, {}
        if self.journal is not None:
            keys = {i: (stage, rung, structure(arguments[0].expression).text()) for i, arguments in work.items()}
            known = self.journal.find(keys)
        yield from known.items()
        count, todo = len(known), {i: arguments for i, arguments in work.items() if i not in known}
        here = False
        if self.backend.batches and batched:
            results: Iterable[tuple[int, Any]] = run_on_device(function, todo, self.backend)
        elif self.jobs != 1 and len(todo) > 1:
            # threads: the work is in compiled code that releases Python's lock, and processes take seconds to begin
            results = run_parallel(function, todo, self.jobs, prefer="threads")
        else:
            results, here = todo.items(), True
        for i, given in results:
            result = function(*given) if here else given
            count += 1
            if self.journal is not None and not result.out_of_time:
                self.journal.put(keys[i], result)
            yield i, result  # before the report, which may be where Ctrl-C is raised
            self.tell(count, len(work), depth, rung)
            self.clock.check()


def run_on_device(
    function: Callable[..., Attempt], work: Work, backend: Backend, memory: int | None = None
) -> Iterator[tuple[int, Attempt]]:
    """Yield (number, function(*arguments, batch)) for all the work, whose points are evaluated in one batch.

    The data of all candidates are the same: the third argument.
    """
    if not work:
        return
    clock, data = Clock(), next(iter(work.values()))[2]
    jobs = {i: partial(function, *arguments) for i, arguments in work.items()}
    for number, reached in run_batched(jobs, data, backend, memory):
        earlier = work[number][1].seconds if work[number][1] is not None else 0.0
        yield number, replace(reached, seconds=earlier + clock.seconds / len(work))  # they all waited for each other


# ------------------------------------------------------------------------------------------------------------ journal
# One JSON line for every rung of every candidate, on disk the moment it is done. After a crash at any moment the same
# search reads its journal and does again nothing that was finished; numbers are written so that they come back to the
# last bit. A line cut off by the crash is ignored.


class Journal:
    """Finished attempts by stage, rung and candidate, in a folder."""

    def __init__(self, folder: str | os.PathLike[str], fingerprint: str) -> None:
        self._known: dict[Key, dict[str, Any]] = {}
        self._path = path = Path(folder).expanduser() / "journal.jsonl"
        self.failure: str | None = None  # why something could not be written
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._end = self._read(path, fingerprint)
            path.touch()
            if self._end == 0:
                self._write({"format": "mercer-journal", "version": VERSION, "fingerprint": fingerprint})
        except OSError as error:
            raise InputError(
                f"the checkpoint folder '{path.parent}' cannot be used: {error.strerror or error}; choose another"
            ) from None

    def find(self, keys: Mapping[int, Key]) -> dict[int, Attempt]:
        """Return the attempts that are known, by number."""
        return {i: _read_attempt(self._known[key]) for i, key in keys.items() if key in self._known}

    def put(self, key: Key, attempt: Attempt) -> None:
        """Write down a finished rung of a candidate; the trail of a run that may go on is in a short form.

        Where that is not possible, on a full disk for instance, the search goes on, and `failure` says why.
        """
        stage, rung, candidate = key
        fit, bounds, runs = attempt.fit, attempt.interval, []
        for run in attempt.runs:
            trail = None
            if run.trail is not None and fit is None:
                walked = np.column_stack([run.trail.values, run.trail.points, run.trail.slopes])
                trail = b64encode(walked.tobytes()).decode()
            memory = None if run.memory is None or fit is not None else list(map(_to_plain, run.memory))
            runs.append({**vars(run), "point": run.point.tolist(), "trail": trail, "memory": memory})
        entry = {**vars(attempt), "runs": runs, "interval": None if bounds is None else [bounds.lower, bounds.upper]}
        if fit is not None:
            entry["fit"] = {**vars(fit), "expression": to_json(fit.expression), "values": fit.values.tolist()}
        try:
            self._write({"stage": stage, "rung": rung, "candidate": candidate, **entry})
        except OSError as error:
            self.failure = str(error.strerror or error)

    def _read(self, path: Path, fingerprint: str) -> int:
        """Read the whole lines that an earlier run left; return where they end."""
        end = 0
        for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
            try:
                entry = json.loads(line) if line.endswith(b"\n") else None
                if end and entry is not None:
                    _read_attempt(entry)  # refuses what is none
                    self._known[entry["stage"], entry["rung"], entry["candidate"]] = entry
            except (ValueError, TypeError, KeyError, RecursionError, MercerError):
                entry = None
            if entry is None:
                break
            if end == 0 and not (isinstance(entry, dict) and entry.get("fingerprint") == fingerprint):
                raise InputError(
                    f"'{path}' belongs to a search on other data or with other settings; "
                    "give another checkpoint folder, or delete this one"
                )
            end += len(line)
        return end

    def _write(self, entry: dict[str, Any]) -> None:
        line = (json.dumps(entry) + "\n").encode()
        with self._path.open("r+b") as file:  # for one line: nothing is left open when a search ends
            file.truncate(self._end)  # of a line that did not fit there may be a piece
            file.seek(self._end)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self._end += len(line)


def fingerprint(data: Data, settings: dict[str, Any], seed: int) -> str:
    """Return a text that is the same for the same data, settings and seed."""
    digest = hashlib.sha256()
    digest.update(np.ascontiguousarray(data.X).tobytes())
    digest.update(np.ascontiguousarray(data.y).tobytes())
    digest.update(json.dumps([settings, seed, VERSION], sort_keys=True, default=str).encode())
    return digest.hexdigest()


def _to_plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _read_attempt(entry: dict[str, Any]) -> Attempt:
    fit, runs = entry["fit"], []
    if fit is not None:
        bounds = tuple(AtBound(*bound) for bound in fit["at_bounds"])
        kernel, values = from_json(fit["expression"]), np.array(fit["values"])
        fit = Fit(**{**fit, "expression": kernel, "values": values, "at_bounds": bounds})
    for run in entry["runs"]:
        point, trail = np.array(run["point"]), None
        if run["trail"] is not None:
            walked = np.frombuffer(b64decode(run["trail"])).reshape(-1, 1 + 2 * len(point))
            trail = Trail(walked[:, 1 : 1 + len(point)], walked[:, 0], walked[:, 1 + len(point) :])
        known = None if run["memory"] is None else Memory(*run["memory"])
        if known is not None:
            known = known._replace(slope=np.array(known.slope), curvature=np.array(known.curvature))
        runs.append(Run(**{**run, "point": point, "trail": trail, "memory": known}))
    found = None if entry["interval"] is None else Interval(*entry["interval"])
    return Attempt(tuple(runs), entry["screened"], entry["seconds"], fit, found, entry["inducing"])
