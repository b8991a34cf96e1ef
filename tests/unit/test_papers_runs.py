"""`make paper`: what a run is asked for, what it says, where it goes on, and what it refuses before it begins."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from benchmarks import machine, scale, surfaces, textures
from benchmarks.papers import cells as paper_cells
from benchmarks.papers import check, page, run, tasks
from benchmarks.papers import data as data_files
from benchmarks.papers import read as papers_read
from benchmarks.papers.files import RESULTS, ROOT, Place
from benchmarks.papers.history import NOT_KNOWN
from benchmarks.papers.row import Figure, Row, cell, cells
from benchmarks.papers.rows import ROWS


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Place:
    """Return a place with all results, where a run may keep what it wants."""
    folder = tmp_path / "kept"
    folder.mkdir()
    for file in RESULTS.iterdir():
        if file.name != "pictures.json":
            (folder / file.name).symlink_to(file)  # a file that is written takes the place of the link
    monkeypatch.setattr(page, "keep_commits", lambda codes, kept: None)
    return Place(folder, tmp_path / "papers.md")


def test_an_item_that_does_not_exist_lists_those_that_do() -> None:
    with pytest.raises(SystemExit, match=r"(?s)no item 'nkn-table-9'.*nkn-table-1 .*cs-scale"):
        run.main(["--item", "nkn-table-9"])


def test_a_run_says_how_long_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "papers.json"
    assert paper_cells.run(["figure-6", "example-1"], tmp_path, path) == 0
    first = json.loads(path.read_text())["results"]["figure-6"]
    assert first["difference"] < 1e-12
    assert {"date", "machine", "code"} <= set(first)
    capsys.readouterr()
    assert paper_cells.run(["figure-6"], tmp_path, path) == 0
    assert capsys.readouterr().out == ""  # nothing was left to do
    with pytest.raises(SystemExit, match=r"no cell fits nothing; there are .*bbb"):
        paper_cells.run(["nothing"], tmp_path, path)
    assert paper_cells.choose(paper_cells.all_cells(tmp_path), ["sm/y*", "i1/1", "i1/*"])[:3] == [
        "sm/yacht", "i1/1", "i1/0"
    ]  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        run.main(["--item", "kfo-figure-3"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == "kfo-figure-3 has no command: nothing to run\n"


def test_a_stopped_command_ends_with_all_that_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run.run_command([sys.executable, "-c", "raise SystemExit(3)"]) == 3
    begun: list[subprocess.Popen[bytes]] = []

    class Stopped(subprocess.Popen[bytes]):
        def wait(self, timeout: float | None = None) -> int:
            begun.append(self)
            if len(begun) == 1:
                raise KeyboardInterrupt
            return super().wait(timeout)

    monkeypatch.setattr(run.subprocess, "Popen", Stopped)
    with pytest.raises(KeyboardInterrupt):
        run.run_command([sys.executable, "-c", "import time; time.sleep(60)"])
    assert begun[0].returncode == -signal.SIGTERM


@pytest.fixture(autouse=True)
def stoppable() -> Iterator[None]:
    """Take Ctrl-C as a terminal's Python does, also where the tests run in the background, which may ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def stop(*_: Any) -> Any:
    """Do what Ctrl-C does."""
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("step", ["is_whole", "describe_left", "run_command"])
def test_a_stop_anywhere_says_that_the_same_command_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], place: Place, step: str
) -> None:
    monkeypatch.setattr(page, "write_page", lambda place: stop() or "the page")  # the second Ctrl-C
    monkeypatch.setattr(run, step, stop)
    with pytest.raises(SystemExit) as ended:
        run.main(["--item", "nkn-figure-7", "--older", machine.now().removesuffix(" UTC")], place)
    assert ended.value.code == run.STOPPED
    assert capsys.readouterr().out.splitlines()[-1] == "stopped: the same command goes on"
    assert place.page.exists() == (step == "run_command")  # what was measured until then is on the page
    assert list(tmp_path.glob("papers.*")) == [place.page] * place.page.exists()


def test_a_page_whose_writing_is_stopped_stays_as_it_was(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    place.page.write_text("as it was", encoding="utf-8")
    monkeypatch.setattr(page, "write_page", stop)
    with pytest.raises(SystemExit, match="130"):
        run.main(["--write"], place)
    assert place.page.read_text(encoding="utf-8") == "as it was"


@pytest.mark.parametrize("text", ["banana", "2026-13-45", "2026-1-5", "20260105", "2026-01-05 25:00", "9999", "2026"])
def test_what_is_no_date_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["", "--cells", "figure-6", "--older", text])
    for command in (paper_cells.main, partial(run.main, ["--item", "kfo-figure-3", "--older", text])):
        with pytest.raises(SystemExit, match="2"):
            command()
        assert f"'{text}' is no date: give YYYY-MM-DD" in capsys.readouterr().err


def test_dates_and_none_are_read() -> None:
    for text in ("", "2026-01-05", "2024-02-29 23:59", machine.now().removesuffix(" UTC")):
        assert machine.read_date(text) == text


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_what_is_no_number_of_processes_is_refused(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        run.main(["--item", "kfo-figure-3", f"--jobs={text}"])
    assert f"'{text}' is no number of processes: give 1 or more" in capsys.readouterr().err
    assert run.read_count("16") == 16


def fill(folder: Path, *names: str) -> None:
    """Make files of a data folder, with something in them."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x\n")


@pytest.mark.parametrize(
    "item",
    ["cs-coal", "cs-known", "cs-measles", "skc-brackets", "nkn-table-2", "nkn-figure-3", "cks-extrapolation",
     "nkn-figure-5"],
)  # fmt: skip
def test_a_folder_without_the_files_of_a_row_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, item: str
) -> None:
    """Its folders were enough: a trace came of the first file, or nothing was measured and the exit code was 0."""
    monkeypatch.setattr(run, "run_command", lambda command: pytest.fail(f"it runs {command}"))
    row, data = run.find_row(item), tmp_path / "data"
    needed = data_files.files_of_row(row)
    with pytest.raises(SystemExit, match=rf"{item} reads {len(needed)} files of .*{data}, but there is no such folder"):
        run.run(row, str(data), 1, "cpu")
    for folder in ("timeseries", "regression", "classification", "change", "textures"):
        (data / folder).mkdir(parents=True)
    with pytest.raises(SystemExit, match=rf"which lacks {', '.join(needed)} \(missing, or empty\)\. Give DATA=FOLDER"):
        run.run(row, str(data), 1, "cpu")
    fill(data, *needed)
    data_files.check_data(row, data)
    (data / needed[-1]).write_text("")
    with pytest.raises(SystemExit, match=f"which lacks {needed[-1]} "):
        data_files.check_data(row, data)


def test_rows_that_make_their_data_need_no_folder(tmp_path: Path) -> None:
    asked = [row for row in ROWS if any("{data}" in command for command in row.commands)]
    needless = [row.item for row in asked if not set(data_files.files_of_row(row)) - {data_files.PUBLISHED}]
    assert needless == ["cks-table-1", "nkn-figure-1", "nkn-recovery", "kfo-table-4", "kfo-figure-6"]


def test_what_a_cell_reads_is_known(tmp_path: Path) -> None:
    """One cell of each kind, without data: the file that it misses is one that its row asks for."""
    kinds = {name.split("/")[0]: (name, call) for name, call in reversed(paper_cells.all_cells(tmp_path).items())}
    made = {kind for kind, (name, _) in kinds.items() if not data_files.files_of_cell(name)}
    assert {"kernels", "features", "figure-6", "example-1", "i1", "i3", "waves"} == made
    for name, call in (kinds[kind] for kind in kinds if kind not in made):
        assert missed(call, tmp_path) in data_files.files_of_cell(name)


def test_what_other_benchmarks_read_is_known(tmp_path: Path) -> None:
    for part, needed in data_files.SURFACES.items():
        for name in needed[: 1 if part == "synthetic" else None]:  # whose second file is read after a fit
            assert missed(partial(surfaces.PARTS[part], tmp_path), tmp_path) == name
            fill(tmp_path, name)
    for row in ("skc-brackets", "skc-search"):
        (command,) = run.find_row(row).commands
        for name in data_files.files_of(shlex.split(command)):
            assert name in scale.FILES.values()
    for name in data_files.files_of(["python", "-m", "benchmarks.textures"]):
        assert missed(partial(textures.read_picture, tmp_path, Path(name).stem), tmp_path) == name


def missed(call: Any, folder: Path) -> str:
    """Return the file that a call does not find, by its path in the data folder."""
    with pytest.raises(FileNotFoundError) as error:
        call()
    return str(Path(error.value.filename).relative_to(folder))


def test_the_readme_names_every_file_that_a_row_reads() -> None:
    told = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8").split("## The data folder")[1]
    for row in ROWS:
        for name in data_files.files_of_row(row):
            assert f"`{Path(name).name}`" in told, f"{row.item} reads {name}"


def test_a_run_ends_with_what_came_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], place: Place
) -> None:
    monkeypatch.setattr(run, "keep_page", lambda place: None)
    row = run.find_row("nkn-figure-7")
    for code, said in (
        (1, "failed with exit code 1, see above; mend that, and the same command goes on with what is left"),
        (
            0,
            "measured, and left is 5 of its measurements, missing or older than 2999-01-01: about 1 minute of one core",
        ),
    ):
        monkeypatch.setattr(run, "run_command", lambda command, code=code: code)
        assert run.run(row, str(tmp_path), 1, "cpu", "2999-01-01", place) == code
        assert capsys.readouterr().out.splitlines()[-1].startswith(f"nkn-figure-7: {said}")


def test_a_row_says_what_it_lacks_and_measures_what_is_older() -> None:
    row = next(row for row in ROWS if row.item == "nkn-figure-7")
    said = "5 of its measurements, missing or older than 9999: about 1 minute of one core, likely less"
    assert run.describe_left(row, "9999") == said
    assert run.again(row, "benchmarks.papers.cells", "2027") == ["--older", "2027"]
    assert run.again(row, "benchmarks.papers.figures", "2027") == []  # it draws, and keeps no measurement
    changes = run.find_row("cs-known")  # whose measurements are not counted one by one
    assert run.describe_left(changes, "9999") == "measured, 1 of 1 measurements older than 9999"
    known = run.find_row("cks-table-1")
    assert run.again(known, "benchmarks.discovery", "2027") == ["--older", "2027"]


def test_each_kind_of_measurement_is_made_again_for_a_date_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """That networks have changed makes no SVM, and no baseline written without Mercer, older."""
    changed = {"alpha-clip/*": "2026-03-01", "fkl-*": "2026-01-01"}
    monkeypatch.setattr(run, "last_change_of", lambda row, source, place: changed.get(source.cells, "2025"))
    option, older = run.again(run.find_row("kfo-table-2"), "benchmarks.papers.cells", "")
    assert (option, older) == ("--older", "alpha-clip/*=2026-03-01,fkl-*=2026-01-01")
    assert machine.read_dates(older) == older
    measured = {"date": "2026-02-01 10:00 UTC"}
    assert not machine.is_kept(measured, older, "alpha-clip/yacht/0")
    assert machine.is_kept(measured, older, "fkl-shared/yacht/0")
    assert machine.is_kept(measured, older, "sm/yacht")
    assert not machine.is_kept(measured, "2026-03", "sm/yacht")
    surface = run.again(run.find_row("cs-known"), "benchmarks.surfaces", "")
    assert surface == ["--older", "2025"]  # parts, whose machine is described beside them
    with pytest.raises(argparse.ArgumentTypeError, match="is no date"):
        machine.read_dates("alpha-clip/*=2026-03-01,fkl-*=banana")


def test_a_row_that_is_whole_is_not_run(monkeypatch: pytest.MonkeyPatch, capsys: Any, place: Place) -> None:
    monkeypatch.setattr(run, "run_command", lambda command: pytest.fail(f"it runs {command}"))
    assert run.run(run.find_row("nkn-figure-7"), "", 1, "cpu", "2000", place) == 0
    assert "nothing is missing or older than 2000" in capsys.readouterr().out


def test_every_measurement_can_be_asked_for_again_by_its_date() -> None:
    for module in sorted(set(run.MEASURED_BY.values())):
        source = (ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
        assert '"--older"' in source, f"{module} measures nothing again"


# ---------------------------------------------------------------------------------------------------- dates and devices


@pytest.mark.parametrize("text", ["2999-01-01", "2999-01-01 12:00"])
def test_a_date_that_is_still_to_come_is_refused(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """What was just measured was older than that again: such a run never came to an end."""
    with pytest.raises(SystemExit, match="2"):
        run.main(["--item", "nkn-figure-7", "--older", text])
    said = capsys.readouterr().err
    assert f"'{text}' is still to come" in said
    today = machine.now().removesuffix(" UTC")
    assert f"give the time that it is now in UTC, '{today[:10]}" in said
    for known in (today, today[:10], "2026-01-05", ""):
        assert machine.read_past(known) == known


def test_dates_of_examples_are_not_to_come() -> None:
    pages = [page.INTRODUCTION, *((ROOT / name).read_text() for name in ("benchmarks/README.md", "Makefile"))]
    for text in pages:
        found = re.findall(r'OLDER="?(\d{4}-\d\d-\d\d)', text)
        assert found
        assert all(date <= check.latest() for date in found)


def test_a_device_that_is_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for device, said in (("tpu", "'tpu' is no device: give cpu or cuda"), ("cuda", "there is no GPU here")):
        with pytest.raises(SystemExit, match="2"):
            run.main(["--item", "kfo-figure-3", "--device", device])
        assert said in capsys.readouterr().err
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert run.read_device("cuda") == "cuda"
    assert run.read_device("cpu") == "cpu"


def test_what_was_timed_on_a_gpu_is_not_said_in_minutes_of_a_core() -> None:
    """Table 1 of NKN was "about 722 minutes of one core", by the seconds of a GPU."""
    table = run.find_row("nkn-table-1")
    wanted = list(tasks.find_tasks(table, "9999"))
    small = [task for task in wanted if task.device == "cpu"]
    assert {"random/naval/1/nkn", "random/wine/1/sm4"} <= {task.name for task in wanted if task not in small}
    said = run.describe_left(table, "9999")
    assert f"{len(small)} in {tasks.minutes_of(small)} of one core" in said
    assert said.endswith("timed on a GPU only: hours to days without one (DEVICE=cuda)")
    assert "kin8nm, naval, power_plant" in said
    assert run.describe_left(table, "9999", "cuda").endswith(" of a GPU")


def test_an_item_of_two_words_is_one_item() -> None:
    """It was "unrecognized arguments: kernels"."""
    command = ["make", "--no-print-directory", "-n", "-o", ".venv/.dev", "paper", "ITEM=cks kernels", "DEVICE=a b"]
    made = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    words = shlex.split(made.stdout.replace("\\\n", " "))
    assert words[words.index("--item") + 1] == "cks kernels"
    assert words[words.index("--device") + 1] == "a b"


# ------------------------------------------------------------------------------------------------------- after a run


def test_a_run_and_its_tasks_read_the_same_files() -> None:
    """The program is no second copy of a module, whose files would stay what they were before the run."""
    code = "import sys, benchmarks.papers.tasks; sys.exit('benchmarks.papers.run' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
    assert run.load is papers_read.load is tasks.load


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Place:
    """A place of its own, with five old measurements and a picture."""
    place = Place(tmp_path / "results", tmp_path / "papers.md")
    place.results.mkdir()
    monkeypatch.setattr(page, "write_page", lambda place: "the page\n")
    keep_cells(place, "2026-01-01 00:00 UTC")
    (place.results / "a.png").write_text("old")
    return place


def keep_cells(place: Place, date: str) -> None:
    circumstances = {"date": date, "machine": "a machine", "code": "abc"}
    cells_ = {f"i1/{seed}": {"rmse": 1.0, "cpu": 2.0, **circumstances} for seed in range(5)}
    (place.results / "papers.json").write_text(json.dumps({"results": cells_}))


DRAWN = Row(
    "a-row",
    "NKN",
    "here",
    "it",
    (Figure("RMSE", "", cell("i1/*", "rmse")),),
    (cells("i1/*"),),
    ("python -m benchmarks.papers.cells --cells 'i1/*'", "python -m benchmarks.papers.figures"),
    "seconds",
    picture="a.png",
)


def test_a_stop_before_the_picture_leaves_the_picture(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], own: Place
) -> None:
    """It was lost: the numbers were new, and nothing was missing."""
    older, begun = "2026-01-02", list[str]()

    def carry_out(command: list[str], draw: bool) -> int:
        begun.append(command[2])
        if command[2] == "benchmarks.papers.cells":
            keep_cells(own, machine.now())
        elif draw:
            (own.results / "a.png").write_text("new")
        else:
            raise KeyboardInterrupt
        return 0

    assert not run.is_whole(DRAWN, older, own)
    monkeypatch.setattr(run, "run_command", partial(carry_out, draw=False))
    with pytest.raises(KeyboardInterrupt):
        run.run(DRAWN, "", 1, "cpu", older, own)
    assert not run.is_whole(DRAWN, older, own)
    assert run.describe_left(DRAWN, older, place=own) == "the picture a.png, missing or older than the numbers"
    assert check.find_lacks(DRAWN, own) == ["a.png older than the numbers"]
    monkeypatch.setattr(run, "run_command", partial(carry_out, draw=True))
    assert run.run(DRAWN, "", 1, "cpu", older, own) == 0
    assert run.is_whole(DRAWN, older, own)
    assert capsys.readouterr().out.splitlines()[-1] == "a-row: measured; see docs/papers.md#a-row"
    run.run(DRAWN, "", 1, "cpu", older, own)
    assert len(begun) == 4  # the last run had nothing to do
    (own.results / "a.png").unlink()
    assert not run.is_whole(DRAWN, older, own)


def test_a_picture_that_no_command_draws_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], own: Place
) -> None:
    monkeypatch.setattr(run, "run_command", lambda command: keep_cells(own, machine.now()) or 0)
    assert run.run(DRAWN, "", 1, "cpu", "2026-01-02", own) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert said.startswith("a-row: measured, and left is the picture a.png, missing or older than the numbers (where")


def test_after_a_run_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], own: Place
) -> None:
    monkeypatch.setattr(run, "run_command", lambda command: keep_cells(own, machine.now()) or 0)
    assert run.run(replace(DRAWN, picture=""), "", 1, "cpu", "2026-01-02", own) == 0
    said = capsys.readouterr().out.splitlines()
    assert "5 of its measurements, missing or older than 2026-01-02: about 1 minute of one core" in said[2]
    assert said[-1] == "a-row: measured; see docs/papers.md#a-row"


def test_a_run_says_that_the_age_is_not_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], own: Place
) -> None:
    monkeypatch.setattr(run, "knows_age", lambda: False)
    assert run.run(DRAWN, "", 1, "cpu", place=own) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[2] == NOT_KNOWN
    assert said[3].startswith("what is left of it: nothing is missing; OLDER=DATE")
