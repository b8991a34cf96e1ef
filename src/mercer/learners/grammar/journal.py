"""A journal of finished work: one JSON line for every lap of every candidate, on disk the moment it is done.

After a crash at any moment the same search reads its journal and does again nothing that was finished; numbers are
written so that they come back to the last bit. A line cut off by the crash is ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from mercer.errors import InputError
from mercer.fitting.optimise import AtBound, Fit, Run
from mercer.fitting.trail import Trail
from mercer.inference.bounds import Interval
from mercer.inference.contract import Data
from mercer.kernels.text import from_json, to_json
from mercer.learners.grammar.worker import State

VERSION = 4
Place = tuple[int, int, str]  # depth, lap, candidate


class Journal:
    """What was finished, by depth, lap and candidate; kept nowhere where there is no folder."""

    def __init__(self, folder: str | os.PathLike[str] | None, fingerprint: str) -> None:
        self._known: dict[Place, dict[str, Any]] = {}
        self._file: TextIO | None = None
        if folder is not None:
            self._open(Path(folder) / "journal.jsonl", fingerprint)

    @property
    def recovered(self) -> int:
        """How many finished laps an earlier run left."""
        return len(self._known)

    def get(self, place: Place) -> State | None:
        """Return what is known of a candidate after a lap."""
        entry = self._known.get(place)
        return None if entry is None else _state_from_json(entry)

    def put(self, place: Place, state: State) -> None:
        """Write down a finished lap."""
        depth, lap, key = place
        self._write({"depth": depth, "lap": lap, "key": key, **_state_to_json(state)})

    def _open(self, path: Path, fingerprint: str) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            end = self._read(path, fingerprint)
            self._file = path.open("r+" if end else "w", encoding="utf-8")
        except OSError as error:
            raise InputError(
                f"the checkpoint folder '{path.parent}' cannot be used: {error.strerror or error}; choose another"
            ) from None
        if end:
            self._file.seek(end)
            self._file.truncate()
        else:
            self._write({"format": "mercer-journal", "version": VERSION, "fingerprint": fingerprint})

    def _read(self, path: Path, fingerprint: str) -> int:
        """Read the whole lines that an earlier run left; return where they end."""
        end = 0
        for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
            try:
                entry = json.loads(line) if line.endswith(b"\n") else None
            except ValueError:
                entry = None
            if entry is None:
                break
            if end == 0 and entry.get("fingerprint") != fingerprint:
                raise InputError(
                    f"'{path}' belongs to a search on other data or with other settings; "
                    "give another checkpoint folder, or delete this one"
                )
            if end:
                self._known[entry["depth"], entry["lap"], entry["key"]] = entry
            end += len(line)
        return end

    def _write(self, entry: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())


def fingerprint(data: Data, settings: dict[str, Any], seed: int) -> str:
    """Return a text that is the same for the same data, settings and seed."""
    digest = hashlib.sha256()
    digest.update(np.ascontiguousarray(data.X).tobytes())
    digest.update(np.ascontiguousarray(data.y).tobytes())
    digest.update(json.dumps([settings, seed, VERSION], sort_keys=True, default=str).encode())
    return digest.hexdigest()


def fit_to_json(fit: Fit) -> dict[str, Any]:
    """Return a fit as plain JSON data."""
    return {**vars(fit), "expression": to_json(fit.expression), "values": fit.values.tolist()}


def fit_from_json(entry: dict[str, Any]) -> Fit:
    """Read a fit back."""
    bounds = tuple(AtBound(*bound) for bound in entry["at_bounds"])
    changed = {"expression": from_json(entry["expression"]), "values": np.array(entry["values"]), "at_bounds": bounds}
    return Fit(**{**entry, **changed})


def _state_to_json(state: State) -> dict[str, Any]:
    return {
        "runs": [_run_to_json(run, state.fit is None) for run in state.runs],
        "screened": state.screened,
        "seconds": state.seconds,
        "fit": None if state.fit is None else fit_to_json(state.fit),
        "interval": None if state.interval is None else [state.interval.lower, state.interval.upper],
        "inducing": state.inducing,
    }


def _state_from_json(entry: dict[str, Any]) -> State:
    runs = tuple(_run_from_json(run) for run in entry["runs"])
    fit = None if entry["fit"] is None else fit_from_json(entry["fit"])
    bounds = None if entry["interval"] is None else Interval(*entry["interval"])
    return State(runs, entry["screened"], entry["seconds"], fit, bounds, entry["inducing"])


def _run_to_json(run: Run, goes_on: bool) -> dict[str, Any]:
    """Return a run as plain data; its trail, where it may go on, in a form that is short."""
    trail = None
    if run.trail is not None and goes_on:
        trail = b64encode(np.column_stack([run.trail.values, run.trail.points, run.trail.slopes]).tobytes()).decode()
    return {**vars(run), "point": run.point.tolist(), "trail": trail}


def _run_from_json(entry: dict[str, Any]) -> Run:
    point, trail = np.array(entry["point"]), None
    if entry["trail"] is not None:
        walked = np.frombuffer(b64decode(entry["trail"])).reshape(-1, 1 + 2 * len(point))
        trail = Trail(walked[:, 1 : 1 + len(point)], walked[:, 0], walked[:, 1 + len(point) :])
    return Run(**{**entry, "point": point, "trail": trail})
