"""The example that searches on a Dask cluster: two workers on this machine find what one process finds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="Dask is not installed: pip install distributed")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "dask_search.py"


def test_two_workers_find_what_one_process_finds(tmp_path: Path) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = {line[:14].strip(): line[14:] for line in done.stdout.splitlines()}
    assert told["workers"] == "2"
    assert int(told["tasks sent"]) > 0
    assert told["on Dask"] == told["one process"]
    assert "PER" in told["on Dask"]
