"""The page of the papers: numbers from files, rows that name what exists, and the runs of its items."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import (
    discovery,
    kfo,
    machine,
    optimise,
    paper_cells,
    papers,
    papers_age,
    papers_code,
    papers_unchanged,
    textures,
)
from benchmarks.functional_kernels import FunctionalKernel
from benchmarks.papers_row import Figure, Reading, Row, Source, cells
from benchmarks.papers_rows import ROWS
from benchmarks.splits import pca_split

from mercer.errors import InputError


def test_the_page_is_what_the_files_say() -> None:
    assert papers.problems() == []


@pytest.mark.parametrize("code", [None, "not kept"])
def test_measurements_without_the_state_of_the_code_are_counted(monkeypatch: pytest.MonkeyPatch, code: Any) -> None:
    kept = {"date": "2026-11-18 12:00 UTC", "machine": "a machine"}
    results = {"i1/0": kept | {"code": "abc"}, "i1/1": kept if code is None else kept | {"code": code}}
    monkeypatch.setattr(papers, "load", lambda file: {"results": results})
    row = Row("an-item", "NKN", "here", "it", sources=(cells("i1/*"),))
    assert papers.find_lacks(row) == ["code not kept of 1 of 2 measurements"]
    assert papers.circumstances(row).endswith("code abc (of 1 of 2 measurements not kept).")


def test_the_state_of_the_code_is_read_from_the_lines_of_a_description(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = machine.lines(machine.describe())
    monkeypatch.setattr(papers, "load", lambda file: [{"machine": lines}, {"machine": lines[:-1]}])
    source = Source("a.json", "[machine=*]|machine", ("[machine=*]|machine",), "[machine=*]|machine")
    assert papers.read_codes(source) == [machine.code()]
    assert papers.count_without_code([source]) == 1


def test_a_state_of_the_code_is_named_by_its_commit(tmp_path: Path) -> None:
    package, kept = tmp_path / "src" / "mercer", tmp_path / "codes.json"
    package.mkdir(parents=True)
    commits = [commit(tmp_path, day, **{"src/mercer/kernel": text}) for day, text in enumerate((DOUBLE, HALF), start=1)]
    codes = [machine.hash_code({Path("kernel.py"): text.encode()}) for text in (DOUBLE, HALF, "never = 1\n")]
    papers_code.keep_commits([*codes, "recorded by commit 1a2b3c4d"], kept, tmp_path)
    assert papers_code.read_commits(kept) == {codes[0]: commits[0][:8], codes[1]: commits[1][:8]}
    papers_code.keep_commits(codes, kept, tmp_path / "nothing")  # without git, what is known stays
    known = papers_code.read_commits(kept)
    said = papers_code.name_codes([codes[1], codes[2], codes[0], codes[1], "recorded by commit 1a2b3c4d"], known)
    assert said == (f"code of commit {commits[1][:8]}, {commits[0][:8]}, code {codes[2]}, recorded by commit 1a2b3c4d")


def test_every_cell_that_a_row_runs_exists() -> None:
    known = paper_cells.all_cells(Path())
    for row in ROWS:
        for figure in row.figures:
            if figure.mercer is not None and figure.mercer.file == "papers.json":
                pattern = figure.mercer.path.split("|")[1]
                assert any(papers.fnmatch.fnmatchcase(name, pattern) for name in known), pattern


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"figures": (Figure("RMSE", "1", Reading("nothing.json", "a")),)}, "nothing.json does not exist"),
        ({"parts": ("src/mercer/nothing.py",)}, "which does not exist"),
        ({"commands": ("python -m benchmarks.nothing",)}, "there is no benchmarks.nothing"),
        ({"figures": (), "library": ""}, "neither a number nor"),
        ({"commands": ()}, "no command"),
    ],
)
def test_rows_with_something_missing_are_found(change: dict[str, Any], problem: str) -> None:
    row = next(row for row in ROWS if row.item == "nkn-table-3")
    assert list(papers.row_problems(row)) == []
    assert any(problem in each for each in papers.row_problems(replace(row, **change)))


def test_a_printed_zero_is_compared_by_the_authors_logs() -> None:
    row = next(row for row in ROWS if row.item == "nkn-table-1")
    figure = next(figure for figure in row.figures if figure.what == "naval, NKN, RMSE")
    assert figure.mercer is not None
    ours = papers.average(figure.mercer)
    for logged, said in ((1.01 * ours, "1 of 1 (naval by the authors' logs)"), (0.99 * ours, "0 of 1")):
        one = replace(row, figures=(replace(figure, logged=logged),))
        assert papers.compare(one, ", NKN, RMSE", "lower").endswith(f": {said}")
    one = replace(row, figures=(replace(figure, logged=None),))
    assert papers.compare(one, ", NKN, RMSE", "lower").endswith(": 0 of 1; naval: 0.000 as printed")
    more = replace(one, figures=(*one.figures, replace(figure, mercer=None), replace(figure, mercer=None)))
    said = ": 0 of 1 measured; naval: 0.000 as printed, 3 in all"
    assert papers.compare(more, ", NKN, RMSE", "lower").endswith(said)


def test_numbers_are_read_from_dictionaries_and_lists() -> None:
    data = {"runs": [{"kernel": "SE", "best": [3.0, 1.0]}, {"kernel": "NKN", "best": [2.0, 0.5]}], "a/1": {"x": 4}}
    assert papers.find(data, "runs|[kernel=*]|best|[-1]") == [1.0, 0.5]
    assert papers.find(data, "runs|[kernel=NKN]|best|[0]") == [2.0]
    assert papers.find(data, "a/*|x") == [4]
    assert papers.find(data, "b|x") == []


def test_a_number_that_differs_from_its_file_is_found(tmp_path: Path) -> None:
    page, other = papers.PAGE.read_text(encoding="utf-8"), tmp_path / "papers.md"
    other.write_text(page.replace("| airline, NKN | 201 | ", "| airline, NKN | 201 | 1"), encoding="utf-8")
    assert any("differs from the files" in each for each in papers.problems(other))
    assert any("is not there" in each for each in papers.problems(tmp_path / "nothing.md"))


DOUBLE, HALF = "def double(x):\n    return 2 * x\n", "def half(x):\n    return x / 2\n"


def commit(folder: Path, day: int, **files: str) -> str:
    """Write some files, and return the commit, of that day of January."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    when = f"2026-01-{day:02d}T12:00:00+0000"
    who = {f"GIT_{role}_{what}": "a" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when, **who}
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "x"]):
        subprocess.run(["git", *command], cwd=folder, check=True, env={**os.environ, **dates})
    papers_age.git.cache_clear()
    return papers_age.git(folder, "rev-parse", "HEAD").strip()


def test_comments_and_moves_make_no_measurement_old(tmp_path: Path) -> None:
    """Each commit is a day later than the last; only what changes what a file does counts."""

    def day_after(day: int, **files: str) -> str:
        commit(tmp_path, day, **files)
        return papers_age.last_change.__wrapped__(("first.py",), tmp_path)[:10]

    assert day_after(1, first=DOUBLE, second=HALF) == "2026-01-01"
    assert day_after(2, first=HALF, second="") == "2026-01-02"  # double is gone
    assert day_after(3, first=f'"""What it is."""\nimport os\n\n{HALF}    # a comment\n') == "2026-01-02"
    assert day_after(4, second=DOUBLE, third="x = 1\n") == "2026-01-02"  # another file
    # moved here: as old as it was there, and what else that commit touched is no part of it
    assert day_after(5, first=f"{HALF}\n\n{DOUBLE}", second="", third="x = 2\n") == "2026-01-04"
    assert day_after(6, first=HALF.replace("2", "3") + DOUBLE) == "2026-01-06"
    assert papers_age.last_change(("first.py",), tmp_path / "..") == ""  # no repository


def test_a_change_before_and_after_which_a_cell_is_the_same_makes_cells_of_its_kind_no_older(tmp_path: Path) -> None:
    commits = [commit(tmp_path, day, first=text) for day, text in enumerate((DOUBLE, HALF, DOUBLE + HALF), start=1)]
    found = {"rmse": 0.1 + 0.2, "fits": [{"loo": 1.0}]}
    run = {"file": "nkn.json", "cell": "random/yacht/1/nkn", "before": commits[0], "after": commits[2]}

    def day_of(after: dict[str, Any], file: str = "nkn.json", pattern: str = "random/*/nkn") -> str:
        kept = tmp_path / "unchanged.json"
        kept.write_text(papers.json.dumps({"runs": [{**run, "found": [found, after]}]}))
        papers_unchanged.read.cache_clear()
        same = papers_unchanged.same_commits(file, pattern, kept, tmp_path)
        return papers_age.last_change.__wrapped__(("first.py",), tmp_path, same)[:10]

    assert day_of(found) == "2026-01-01"
    assert day_of({**found, "rmse": 0.3}) == "2026-01-03"  # another last digit
    assert day_of(found, file="kfo.json") == "2026-01-03"
    assert day_of(found, pattern="random/*/se") == "2026-01-03"
    # what a merge brings was known on its branch
    git = partial(subprocess.run, cwd=tmp_path, check=True, capture_output=True)
    git(["git", "checkout", "-q", "-b", "other", commits[0]])
    commit(tmp_path, 4, second=HALF)
    git(["git", "-c", "user.name=a", "-c", "user.email=a", "merge", "-q", "--no-edit", commits[2]])
    papers_age.git.cache_clear()
    assert day_of(found) == "2026-01-01"
    assert day_of({**found, "rmse": 0.3}) > "2026-01-03"
    papers_unchanged.read.cache_clear()


def test_times_are_left_out_of_what_is_compared() -> None:
    found = {"rmse": 1.0, "seconds": 3.0, "kfo": {"cpu_seconds": 2.0, "nll": 5.0}, "folds": [{"date": "x", "a": 1}]}
    assert papers_unchanged.without_times(found) == {"rmse": 1.0, "kfo": {"nll": 5.0}, "folds": [{"a": 1}]}


def test_the_commands_that_measure_a_cell_choose_it(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out.json"
    command_of = partial(papers_unchanged.command_of, data=data, out=out)
    assert command_of("kfo", "linear/line")[:6] == ["-m", "benchmarks.kfo", "--part", "linear", "--only", "line"]
    assert "--splits=1" in command_of("nkn", "random/yacht/1/se")
    chosen = ["01", "--jobs", "1", "--data", str(data), "--out", str(out)]
    assert command_of("discovery", "extrapolation/01-airline")[-7:] == chosen
    assert command_of("recovery", "recovery/SE(0)/10/0")[-2:] == ["recovery/SE(0)/10/0", str(out)]
    assert "--data" not in command_of("optimise", "michalewicz/mercer/0")


def test_a_run_of_an_optimiser_is_compared_by_all_that_it_tried(tmp_path: Path) -> None:
    def keep(*points: float) -> Any:
        record = {"points": [[each] for each in points], "values": [2.0, 1.0]}
        (tmp_path / "michalewicz--mercer--0.json").write_text(papers.json.dumps(record))
        return papers_unchanged.read_cell(tmp_path, "michalewicz/mercer/0")

    first = keep(0.1, 0.3)
    assert (first["best"], first["evaluations"]) == (1.0, 2)
    assert keep(0.1, 0.3) == first != keep(0.1, 0.1 + 0.2)


def test_a_fresh_run_of_one_part_of_functionals_keeps_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--fresh` used to begin with an empty file: classes, tables and times were lost with a run of the waves."""
    path, old = tmp_path / "kfo.json", "2026-01-01 00:00 UTC"
    fit = {"error": 0.1, "cv": 0.1, "C": 1.0, "cpu_seconds": 1.0}
    others = {
        "classification/wine/0/kfo": {"kfo": fit, "kernel": "SE", "date": old},
        "classification/wine/0/plain": {"plain": fit, "date": old},
    }
    line = {"LIN": {"share": 0.0, "log_density": 1.0, "kernel": "LIN"}}
    found = {"LIN": {**line["LIN"], "log_density": 2.0}}
    results = {**others, "linear/line": {**line, "date": old}}
    path.write_text(papers.json.dumps({"machines": {}, "results": results, "steps": kfo.STEPS}))
    monkeypatch.setattr(kfo, "linear", lambda: found)

    def run(*more: str) -> dict[str, Any]:
        given = ["--data", str(tmp_path), "--part", "linear", "--out", str(path), *more]
        monkeypatch.setattr("sys.argv", ["kfo", *given])
        kfo.main()
        return dict(papers.json.loads(path.read_text())["results"])

    assert run()["linear/line"]["LIN"]["log_density"] == 1.0  # measured already
    assert run("--older", "2025")["linear/line"]["LIN"]["log_density"] == 1.0
    assert run("--older", "2026-01-02")["linear/line"]["LIN"]["log_density"] == 2.0
    kept = run("--fresh")
    assert {name: kept[name] for name in others} == others
    assert kept["linear/line"]["date"] > old
    assert {"machine", "code"} <= set(kept["linear/line"])
    # another kernel was found: what was inside the one before is no longer its plain kernel
    done = kfo.keep(path, "classification/wine/0/kfo", {"kfo": fit, "kernel": "M32"}, {})
    assert "classification/wine/0/plain" not in done["results"]


def test_an_item_that_does_not_exist_lists_those_that_do() -> None:
    with pytest.raises(SystemExit, match=r"(?s)no item 'nkn-table-9'.*nkn-table-1 .*cs-scale"):
        papers.main(["--item", "nkn-table-9"])


def test_a_run_says_how_long_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "papers.json"
    assert paper_cells.run(["figure-6", "example-1"], tmp_path, path) == 0
    first = papers.json.loads(path.read_text())["results"]["figure-6"]
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
        papers.main(["--item", "kfo-figure-3"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == "kfo-figure-3 has no command: nothing to run\n"


def test_a_stopped_command_ends_with_all_that_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    assert papers.run_command([sys.executable, "-c", "raise SystemExit(3)"]) == 3
    begun: list[subprocess.Popen[bytes]] = []

    class Stopped(subprocess.Popen[bytes]):
        def wait(self, timeout: float | None = None) -> int:
            begun.append(self)
            if len(begun) == 1:
                raise KeyboardInterrupt
            return super().wait(timeout)

    monkeypatch.setattr(papers.subprocess, "Popen", Stopped)
    with pytest.raises(KeyboardInterrupt):
        papers.run_command([sys.executable, "-c", "import time; time.sleep(60)"])
    assert begun[0].returncode == -signal.SIGTERM


def stop(*_: Any) -> Any:
    """Do what Ctrl-C does."""
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("place", ["count_old", "describe_left", "run_command"])
def test_a_stop_anywhere_says_that_the_same_command_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    page = tmp_path / "papers.md"
    monkeypatch.setattr(papers, "PAGE", page)
    monkeypatch.setattr(papers, "keep_commits", list)
    monkeypatch.setattr(papers, "write_page", lambda: stop() or "the page")  # the second Ctrl-C
    monkeypatch.setattr(papers, place, stop)
    with pytest.raises(SystemExit) as ended:
        papers.main(["--item", "nkn-figure-7", "--older", "2999-01-01"])
    assert ended.value.code == papers.STOPPED
    assert capsys.readouterr().out.splitlines()[-1] == "stopped: the same command goes on"
    assert page.exists() == (place == "run_command")  # what was measured until then is on the page
    assert list(tmp_path.iterdir()) == [page] * page.exists()


def test_a_page_whose_writing_is_stopped_stays_as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / "papers.md"
    page.write_text("as it was", encoding="utf-8")
    monkeypatch.setattr(papers, "PAGE", page)
    monkeypatch.setattr(papers, "keep_commits", list)
    monkeypatch.setattr(papers, "write_page", stop)
    with pytest.raises(SystemExit, match="130"):
        papers.main(["--write"])
    assert page.read_text(encoding="utf-8") == "as it was"


@pytest.mark.parametrize("text", ["banana", "2026-13-45", "2026-1-5", "20260105", "2026-01-05 25:00", "9999", "2026"])
def test_what_is_no_date_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["", "--cells", "figure-6", "--older", text])
    for command in (paper_cells.main, partial(papers.main, ["--item", "kfo-figure-3", "--older", text])):
        with pytest.raises(SystemExit, match="2"):
            command()
        assert f"'{text}' is no date: give YYYY-MM-DD" in capsys.readouterr().err


def test_dates_and_none_are_read() -> None:
    for text in ("", "2026-01-05", "2024-02-29 23:59", machine.now().removesuffix(" UTC")):
        assert machine.read_date(text) == text


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_what_is_no_number_of_processes_is_refused(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        papers.main(["--item", "kfo-figure-3", f"--jobs={text}"])
    assert f"'{text}' is no number of processes: give 1 or more" in capsys.readouterr().err
    assert papers.read_count("16") == 16


def test_a_folder_without_what_a_row_reads_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(papers, "run_command", lambda command: pytest.fail(f"it runs {command}"))
    data = tmp_path / "data"
    series, table = papers.find_row("cks-extrapolation"), papers.find_row("nkn-table-3")
    with pytest.raises(SystemExit, match=f"cks-extrapolation needs data, and there is no {data}: give DATA=FOLDER"):
        papers.run(series, str(data), 1, "cpu")
    for folder in papers.FOLDERS[1:]:
        (data / folder).mkdir(parents=True)
    with pytest.raises(SystemExit, match=f"there is no {data}/timeseries: give"):
        papers.run(series, str(data), 1, "cpu")
    (data / "timeseries").mkdir()
    papers.check_data(series, data)
    with pytest.raises(SystemExit, match=f"nkn-table-3 needs data, and there is no {tmp_path}/reference.json: give"):
        papers.check_data(table, data)
    (tmp_path / "reference.json").touch()
    papers.check_data(table, data)


def test_rows_that_make_their_data_need_no_folder(tmp_path: Path) -> None:
    def is_run(row: Row) -> bool:
        try:
            papers.check_data(row, tmp_path / "data" / "nothing")
        except SystemExit:
            return False
        return True

    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "reference.json").touch()
    asked = [row for row in ROWS if any("{data}" in command for command in row.commands)]
    assert [row.item for row in asked if is_run(row)] == [
        "cks-table-1", "nkn-figure-1", "nkn-recovery", "kfo-table-4", "kfo-figure-6"
    ]  # fmt: skip


def test_a_run_ends_with_what_came_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(papers, "keep_page", lambda: None)
    row = papers.find_row("nkn-figure-7")
    for code, said in (
        (1, "failed with exit code 1, see above; mend that, and the same command goes on with what is left"),
        (
            0,
            "measured, and left is 5 of its measurements, missing or older than 2999-01-01: about 1 minute of one core",
        ),
    ):
        monkeypatch.setattr(papers, "run_command", lambda command, code=code: code)
        assert papers.run(row, str(tmp_path), 1, "cpu", older="2999-01-01") == code
        assert capsys.readouterr().out.splitlines()[-1].startswith(f"nkn-figure-7: {said}")


def test_a_row_says_what_it_lacks_and_measures_what_is_older() -> None:
    row = next(row for row in ROWS if row.item == "nkn-figure-7")
    said = "5 of its measurements, missing or older than 9999: about 1 minute of one core, likely less"
    assert papers.describe_left(row, "9999") == said
    assert papers.again(row, "benchmarks.paper_cells", "2027") == ["--older", "2027"]
    assert papers.again(row, "benchmarks.paper_figures", "2027") == []  # it draws, and keeps no measurement
    search = papers.find_row("skc-search")  # whose measurements are not counted one by one
    assert papers.describe_left(search, "9999") == "measured, 2 of 2 measurements older than 9999"
    known = papers.find_row("cks-table-1")
    assert papers.again(known, "benchmarks.discovery", "2027") == ["--older", "2027"]


def test_each_kind_of_measurement_is_made_again_for_a_date_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """That networks have changed makes no SVM, and no baseline written without Mercer, older."""
    changed = {"alpha-clip/*": "2026-03-01", "fkl-*": "2026-01-01"}
    monkeypatch.setattr(papers, "last_change_of", lambda row, source: changed.get(source.cells, "2025"))
    option, older = papers.again(papers.find_row("kfo-table-2"), "benchmarks.paper_cells", "")
    assert (option, older) == ("--older", "alpha-clip/*=2026-03-01,fkl-*=2026-01-01")
    assert machine.read_dates(older) == older
    measured = {"date": "2026-02-01 10:00 UTC"}
    assert not machine.is_kept(measured, older, "alpha-clip/yacht/0")
    assert machine.is_kept(measured, older, "fkl-shared/yacht/0")
    assert machine.is_kept(measured, older, "sm/yacht")
    assert not machine.is_kept(measured, "2026-03", "sm/yacht")
    surface = papers.again(papers.find_row("cs-known"), "benchmarks.surfaces", "")
    assert surface == ["--older", "2025"]  # parts, whose machine is described beside them
    with pytest.raises(argparse.ArgumentTypeError, match="is no date"):
        machine.read_dates("alpha-clip/*=2026-03-01,fkl-*=banana")


def test_a_row_that_is_whole_is_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> None:
    monkeypatch.setattr(papers, "run_command", lambda command: pytest.fail(f"it runs {command}"))
    assert papers.run(papers.find_row("nkn-figure-7"), str(tmp_path), 1, "cpu", older="2000") == 0
    assert "nothing is missing or older than 2000" in capsys.readouterr().out


def test_every_measurement_can_be_asked_for_again_by_its_date() -> None:
    for module in sorted(set(papers.MEASURED_BY.values())):
        source = (papers.ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
        assert '"--older"' in source, f"{module} measures nothing again"


def test_runs_of_optimisers_and_textures_are_chosen_by_their_dates(tmp_path: Path) -> None:
    jobs = [optimise.Job("styblinski", "mercer", run, 200) for run in (0, 77)]
    assert optimise.choose(jobs, tmp_path, "9999") == jobs
    assert optimise.choose(jobs, tmp_path, "2000") == jobs[1:]  # of which there is no summary
    old = tmp_path / jobs[1].file
    old.write_text(json.dumps({"machine": {"date": "2001"}, "values": [], "calls": 200}))
    assert optimise.choose(jobs[1:], tmp_path, "2002") == jobs[1:]
    assert not old.exists()
    kept = [{"picture": "pave", "kernel": "NKN", "seed": 0, "machine": {"date": "2026-01-01"}}]
    wanted = [textures.TextureRun("pave", "NKN", seed) for seed in (0, 1)]
    options = argparse.Namespace(runs=tmp_path, older="2026")
    assert textures.choose(wanted, kept, options) == wanted[1:]
    assert textures.choose(wanted, kept, argparse.Namespace(runs=tmp_path, older="2027")) == wanted


def test_searches_from_elsewhere_are_merged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    discovery.write({"machine": {"date": "2026"}, "results": {"recovery/A/1/0": {"bic": 1}, "b": {"bic": 2}}}, here)
    discovery.write({"machine": {"date": "2027"}, "results": {"recovery/A/1/0": {"bic": 3, "date": "2028"}}}, there)
    monkeypatch.setattr(sys, "argv", ["", "--data", str(tmp_path), "--merge", str(there), "--out", str(here)])
    discovery.main()  # without published numbers there is no report
    found = json.loads(here.read_text())["results"]
    assert found == {"recovery/A/1/0": {"bic": 3, "date": "2028"}, "b": {"bic": 2, "date": "2026"}}


def test_a_pca_split_takes_both_ends_and_refuses_few_rows() -> None:
    X = np.column_stack([np.arange(45.0), np.zeros(45)])
    assert list(np.flatnonzero(pca_split(X))) == [0, 1, 2, 42, 43, 44]
    with pytest.raises(InputError, match=r"10 rows are too few.*part=5\), or 30 rows"):
        pca_split(X[:10])
    assert pca_split(X[:10], part=5).sum() == 4
    with pytest.raises(InputError, match="all the same"):
        pca_split(np.ones((40, 2)))
    with pytest.raises(InputError, match=r"shape \(40, 2\) with 80 that are missing"):
        pca_split(np.full((40, 2), np.nan))
    with pytest.raises(InputError, match="part=0"):
        pca_split(X, part=0)


def test_bayes_by_backprop_learns_a_line() -> None:
    from benchmarks.bayes_by_backprop import BayesByBackprop

    X = np.random.default_rng(0).uniform(-1.0, 1.0, (60, 1))
    found = BayesByBackprop(steps=150).fit(X, 2.0 * X[:, 0]).score(X, 2.0 * X[:, 0])
    assert found["rmse"] < 0.6
    assert found["log_density"] > -1.5


def test_the_gradient_of_bayes_by_backprop_is_that_of_its_loss() -> None:
    from benchmarks.bayes_by_backprop import begin_layer, loss_and_slopes

    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((12, 2)), rng.standard_normal((12, 1))
    parameters = [np.array([-1.0]), *begin_layer(2, 5, rng), *begin_layer(5, 1, rng)]
    _, slopes = loss_and_slopes(parameters, X, y, 40, np.random.default_rng(2))
    for number, slope in enumerate(slopes):
        for place in np.ndindex(slope.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [each.copy() for each in parameters]
                moved[number][place] += step
                ends.append(loss_and_slopes(moved, X, y, 40, np.random.default_rng(2))[0])
            assert slope[place] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("kind", ["shared", "separate"])
def test_functional_kernel_learning_predicts_a_wave(kind: Any) -> None:
    x = np.linspace(0.0, 1.0, 40)[:, None]
    X, y = np.hstack([x, x[::-1]]), np.sin(9.0 * x[:, 0])
    model = FunctionalKernel(kind, rounds=6).fit(X[::2], y[::2])
    level = -0.5 * np.log(2.0 * np.pi * y.var()) - 0.5  # of a normal density with the target's own spread
    assert model.log_density(X[1::2], y[1::2]).mean() > level
