"""Ctrl-C during `mercer discover`, sent as a shell or `timeout` would: what was found so far is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import mercer as library
from mercer.cli.terminal import defer_interrupt, interrupt_once
from tests.cli.conftest import Mercer, table, wave_text

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """A suite run in the background inherits a SIGINT that is ignored; here it is to be heard."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def started(folder: Path, *options: str) -> subprocess.Popen[str]:
    """A search in a process group of its own, without a terminal, once some kernels are finished."""
    library.datasets.airline().to_csv(folder / "flights.csv", index=False)
    command = [str(Path(sys.executable).parent / "mercer"), "discover", "flights.csv", "--target", "passengers"]
    process = subprocess.Popen(
        [*command, "--checkpoint", "work", "--out", "out", "--json", *options], cwd=folder, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    journal, deadline = folder / "work" / "journal.jsonl", time.monotonic() + 120
    while time.monotonic() < deadline and (not journal.exists() or journal.read_bytes().count(b"\n") < 7):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    return process


@pytest.mark.parametrize(("jobs", "to_group", "times"), [("1", False, 2), ("2", False, 1), ("2", True, 2)])
def test_the_best_so_far_is_written(tmp_path: Path, jobs: str, to_group: bool, times: int) -> None:
    process = started(tmp_path, "--jobs", jobs)
    try:
        for _ in range(times):  # `timeout` tells the process, then its group
            (os.killpg if to_group else os.kill)(process.pid, signal.SIGINT)
            time.sleep(0.3)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "stopped at your request" in err
    assert "Traceback" not in err
    explanation = json.loads(out)["explanation"]
    assert any("stopped on request" in note for note in explanation["notes"])
    assert explanation["components"]
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"report.html", "model.mercer", "explanation.json", "candidates.json"} <= written
    assert library.load(tmp_path / "out" / "model.mercer").stopped_ == "request"


def test_a_search_stopped_by_time_is_not_said_to_be_stopped_by_the_user(mercer: Mercer, tmp_path: Path) -> None:
    name = table(tmp_path / "data.csv", wave_text(24))
    result = mercer("discover", name, "--target", "y", "--jobs", "1", "--time-budget", "0.001")
    assert result.code == 0, result.err
    assert "at your request" not in result.err
    assert library.load(tmp_path / "mercer-out" / "model.mercer").stopped_ == "time"


def test_signals_in_quick_succession_interrupt_once() -> None:
    before = signal.getsignal(signal.SIGINT)
    interrupted = 0
    with interrupt_once():
        for _ in range(3):
            try:
                press()
                time.sleep(0.01)
            except KeyboardInterrupt:
                interrupted += 1
    assert interrupted == 1
    assert signal.getsignal(signal.SIGINT) is before


def test_a_signal_during_compilation_waits_for_its_end() -> None:
    steps: list[str] = []

    def compiled() -> None:
        with defer_interrupt(lambda: steps.append("told")):
            press()
            time.sleep(0.01)
            steps.append("compiled")

    with pytest.raises(KeyboardInterrupt):
        compiled()
    assert steps == ["told", "compiled"]
    steps.clear()

    def impatient() -> None:
        with defer_interrupt(lambda: steps.append("told"), grace=0.0):
            press()
            press()
            time.sleep(0.01)
            steps.append("compiled")

    with pytest.raises(KeyboardInterrupt):
        impatient()
    assert steps == ["told"]


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupt_once():
            press()
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
