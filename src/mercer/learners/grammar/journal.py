"""A journal of finished work: one JSON line for every stage of every candidate, on disk the moment it is done.

After a crash at any moment the same search reads its journal and does again nothing that was finished; numbers are
written so that they come back to the last bit. A line cut off by the crash is ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from mercer.errors import InputError
from mercer.fitting.optimise import Fit, Run
from mercer.inference.contract import Data
from mercer.kernels.text import from_json, to_json
from mercer.learners.grammar.worker import Begun

VERSION = 1


class Journal:
    """What was finished, by stage, depth and candidate; kept in memory alone where there is no folder."""

    def __init__(self, folder: str | os.PathLike[str] | None, fingerprint: str) -> None:
        self._known: dict[tuple[str, int, str], dict[str, Any]] = {}
        self._file: TextIO | None = None
        self.recovered = 0
        if folder is None:
            return
        path = Path(folder) / "journal.jsonl"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            usable = self._read(path, fingerprint)
            self._file = path.open("r+" if usable else "w", encoding="utf-8")
        except OSError as error:
            raise InputError(
                f"the checkpoint folder '{folder}' cannot be used: {error.strerror or error}; choose another folder"
            ) from None
        if usable:
            self._file.seek(usable)
            self._file.truncate()
        else:
            self._write({"format": "mercer-journal", "version": VERSION, "fingerprint": fingerprint})

    def _read(self, path: Path, fingerprint: str) -> int:
        """Read the whole lines of an earlier run; return where they end."""
        if not path.exists() or path.stat().st_size == 0:
            return 0
        end = 0
        for number, line in enumerate(path.read_bytes().splitlines(keepends=True)):
            try:
                entry = json.loads(line)
            except ValueError:
                break
            if not line.endswith(b"\n"):
                break
            if number == 0 and entry.get("fingerprint") != fingerprint:
                raise InputError(
                    f"'{path}' belongs to a search on other data or with other settings; "
                    "give another checkpoint folder, or delete this one"
                )
            if number:
                self._known[entry["stage"], entry["depth"], entry["key"]] = entry
            end += len(line)
        self.recovered = len(self._known)
        return end

    def _write(self, entry: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def begun(self, depth: int, key: str) -> Begun | None:
        """Return the short runs of a candidate, if they were done."""
        entry = self._known.get(("begin", depth, key))
        return None if entry is None else Begun(tuple(map(_run, entry["runs"])), entry["screened"], entry["seconds"])

    def finished(self, depth: int, key: str) -> tuple[Fit, float] | None:
        """Return the fit of a candidate, if it was finished."""
        entry = self._known.get(("finish", depth, key))
        return None if entry is None else (fit_from_json(entry["fit"]), entry["seconds"])

    def put_begun(self, depth: int, key: str, begun: Begun) -> None:
        """Write down the short runs of a candidate."""
        runs = [{**vars(run), "point": run.point.tolist()} for run in begun.runs]
        self._write(
            {"stage": "begin", "depth": depth, "key": key, "runs": runs, "screened": begun.screened,
             "seconds": begun.seconds}
        )  # fmt: skip

    def put_finished(self, depth: int, key: str, fit: Fit, seconds: float) -> None:
        """Write down a finished candidate."""
        self._write({"stage": "finish", "depth": depth, "key": key, "fit": fit_to_json(fit), "seconds": seconds})


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
    return Fit(**{**entry, "expression": from_json(entry["expression"]), "values": np.array(entry["values"])})


def _run(entry: dict[str, Any]) -> Run:
    return Run(**{**entry, "point": np.array(entry["point"])})
