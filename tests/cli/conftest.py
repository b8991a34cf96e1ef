"""The command line in this process: `mercer("discover", ...)` gives what a shell would see."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mercer.cli.main import execute
from mercer.cli.terminal import Terminal


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        return json.loads(self.out)


Mercer = Callable[..., Result]


@pytest.fixture
def mercer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Mercer:
    """Run a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: str, terminal: Terminal | None = None) -> Result:
        capsys.readouterr()
        code = execute(arguments, terminal)
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return Result(code, out, err)

    return run


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than all the rest; where nothing about the picture is new, it is left out."""
    monkeypatch.setattr("mercer.cli.learn.write_results", lambda *given: {})


def table(path: Path, text: str) -> str:
    path.write_text(text)
    return path.name


def wave(rows: int = 24, x_scale: float = 1.0, y_scale: float = 1.0) -> list[tuple[float, float]]:
    """A line with a wave of period 6 on it."""
    return [(x_scale * i, y_scale * (0.3 * i + math.sin(2 * math.pi * i / 6) + 0.1 * (i % 3))) for i in range(rows)]


def wave_text(rows: int = 24, x_scale: float = 1.0, y_scale: float = 1.0) -> str:
    return "x,y\n" + "".join(f"{x!r},{y!r}\n" for x, y in wave(rows, x_scale, y_scale))
