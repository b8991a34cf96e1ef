"""Where results lie, and their files, each read once: one that is no JSON is named in a sentence."""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"


@dataclass(frozen=True)
class Place:
    """Where results lie, and the page that is written from them."""

    results: Path = RESULTS
    page: Path = ROOT / "docs" / "papers.md"

    @property
    def codes(self) -> Path:
        """The commits of states of the code (history.py)."""
        return self.results / "codes.json"

    @property
    def unchanged(self) -> Path:
        """Cells with the code before and after a change (unchanged.py)."""
        return self.results / "unchanged.json"

    @property
    def pictures(self) -> Path:
        """When pictures were drawn (pictures.py)."""
        return self.results / "pictures.json"


HERE = Place()


class BrokenFileError(Exception):
    """A file of results that cannot be read; its text says which, why and what to do."""


@functools.cache
def load(file: str, place: Place = HERE) -> Any:
    """Return a file of results; None where there is none."""
    return read_json(place.results / file)


def read_json(path: Path) -> Any:
    """Return what a file holds; None where there is none."""
    if not path.exists():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # no JSON, or no UTF-8
        raise BrokenFileError(
            f"{path.name} is no JSON ({error}): mend it, or take the last one back by git checkout {path}"
        ) from error


def write_json(path: Path, content: Any) -> None:
    """Write a file in one go: whoever reads meanwhile finds the one before."""
    beside = path.with_suffix(f".{os.getpid()}")
    beside.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    beside.replace(path)
