"""The page of the papers: numbers from files, rows that name what exists, and the runs of its items."""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import discovery, kfo, machine, optimise, textures
from benchmarks.functional_kernels import FunctionalKernel
from benchmarks.papers import cells as paper_cells
from benchmarks.papers import code as papers_code
from benchmarks.papers import history as papers_age
from benchmarks.papers import read as papers_read
from benchmarks.papers import run as papers
from benchmarks.papers import unchanged as papers_unchanged
from benchmarks.papers.row import Figure, Reading, Row, Source, cells
from benchmarks.papers.rows import ROWS
from benchmarks.splits import pca_split

from mercer.errors import InputError


def test_the_page_is_what_the_files_say() -> None:
    assert papers.problems() == []


@pytest.mark.parametrize("code", [None, "not kept"])
def test_measurements_without_the_state_of_the_code_are_counted(monkeypatch: pytest.MonkeyPatch, code: Any) -> None:
    kept = {"date": "2026-11-18 12:00 UTC", "machine": "a machine"}
    results = {"i1/0": kept | {"code": "abc"}, "i1/1": kept if code is None else kept | {"code": code}}
    monkeypatch.setattr(papers_read, "load", lambda file: {"results": results})
    row = Row("an-item", "NKN", "here", "it", sources=(cells("i1/*"),))
    assert papers.find_lacks(row) == ["code not kept of 1 of 2 measurements"]
    assert papers.circumstances(row).endswith("code abc (of 1 of 2 measurements not kept).")


def test_the_state_of_the_code_is_read_from_the_lines_of_a_description(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = machine.lines(machine.describe())
    monkeypatch.setattr(papers_read, "load", lambda file: [{"machine": lines}, {"machine": lines[:-1]}])
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
                assert any(fnmatch.fnmatchcase(name, pattern) for name in known), pattern


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
    assert papers_read.find(data, "runs|[kernel=*]|best|[-1]") == [1.0, 0.5]
    assert papers_read.find(data, "runs|[kernel=NKN]|best|[0]") == [2.0]
    assert papers_read.find(data, "a/*|x") == [4]
    assert papers_read.find(data, "b|x") == []


def test_years_have_no_comma(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(papers_read, "load", lambda file: {"results": {"a/1": {"at": 1896.0}, "a/2": {"at": 1897.0}}})
    year = Reading("papers.json", "results|a/*|at", "year", 1)
    assert papers.read(year) == "1896.5 (2)"
    assert papers.read(replace(year, statistic="mean")) == "1,896.5 (2)"


def test_where_it_is_in_the_library_begins_a_sentence() -> None:
    assert papers.write_row(papers.find_row("kfo-figure-3"))[0].endswith("regret bounds. Nothing to run.")
    row = Row("a", "NKN", "here", "it", library="`Kernel.text()`")
    assert papers.write_row(row) == ["NKN, here: it. `Kernel.text()`."]


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


def test_without_the_whole_history_nothing_is_old(tmp_path: Path) -> None:
    """The commit at which a shallow clone is cut brings every file, and was taken for a change of all."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    (whole / "src" / "mercer").mkdir(parents=True)
    for day, text in enumerate((DOUBLE, HALF), start=1):
        commit(whole, day, **{"src/mercer/kernel": text})
    subprocess.run(["git", "clone", "-q", "--depth", "1", whole.as_uri(), str(cut)], check=True, capture_output=True)
    papers_age.git.cache_clear()
    part = ("src/mercer/kernel.py",)
    assert papers_age.last_change(part, whole) == "2026-01-02 12:00"
    assert papers_age.last_change(part, cut) == ""
    (tmp_path / "archive").mkdir()
    assert [papers_age.knows_age(each) for each in (whole, cut, tmp_path / "archive")] == [True, False, False]


def test_a_change_before_and_after_which_a_cell_is_the_same_makes_cells_of_its_kind_no_older(tmp_path: Path) -> None:
    commits = [commit(tmp_path, day, first=text) for day, text in enumerate((DOUBLE, HALF, DOUBLE + HALF), start=1)]
    found = {"rmse": 0.1 + 0.2, "fits": [{"loo": 1.0}]}
    run = {"file": "nkn.json", "cell": "random/yacht/1/nkn", "before": commits[0], "after": commits[2]}

    def day_of(after: dict[str, Any], file: str = "nkn.json", pattern: str = "random/*/nkn") -> str:
        kept = tmp_path / "unchanged.json"
        kept.write_text(json.dumps({"runs": [{**run, "found": [found, after]}]}))
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


def test_a_cell_that_differs_vetoes_the_commits_that_another_of_its_kind_clears(tmp_path: Path) -> None:
    """One equal cell cleared a range of commits for all of its kind, whatever the others said."""
    commits = [commit(tmp_path, day, first=text) for day, text in enumerate((DOUBLE, HALF, DOUBLE + HALF), start=1)]

    def entry(cell: str, before: int, after: int, *found: float, file: str = "nkn.json") -> dict[str, Any]:
        return {"file": file, "cell": cell, "before": commits[before], "after": commits[after], "found": list(found)}

    def same(*runs: dict[str, Any]) -> frozenset[str]:
        kept = tmp_path / "unchanged.json"
        kept.write_text(json.dumps({"runs": runs}))
        papers_unchanged.read.cache_clear()
        return papers_unchanged.same_commits("nkn.json", "random/*/nkn", kept, tmp_path)

    yacht, wine = "random/yacht/1/nkn", "random/wine/1/nkn"
    assert same(entry(yacht, 0, 2, 1.0, 1.0)) == set(commits[1:])
    assert same(entry(yacht, 0, 2, 1.0, 1.0), entry(wine, 0, 2, 1.0, 2.0)) == set()
    assert same(entry(wine, 1, 2, 1.0, 2.0), entry(yacht, 0, 2, 1.0, 1.0)) == {commits[1]}
    for other in (entry("random/wine/1/se", 0, 2, 1.0, 2.0), entry(wine, 0, 2, 1.0, 2.0, file="kfo.json")):
        assert same(entry(yacht, 0, 2, 1.0, 1.0), other) == set(commits[1:])  # another kind, another file
    replaced = (entry(wine, 0, 2, 1.0, 2.0), entry(wine, 0, 2, 1.0, 1.0))
    assert same(entry(yacht, 0, 2, 1.0, 1.0), *replaced) == set(commits[1:])
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
    assert command_of("papers", "i1/0")[:4] == ["-m", "benchmarks.papers.cells", "--cells", "i1/0"]
    assert command_of("papers", "i1/0", tree=tmp_path)[1] == "benchmarks.paper_cells"  # before it was moved


def test_a_run_of_an_optimiser_is_compared_by_all_that_it_tried(tmp_path: Path) -> None:
    def keep(*points: float) -> Any:
        record = {"points": [[each] for each in points], "values": [2.0, 1.0]}
        (tmp_path / "michalewicz--mercer--0.json").write_text(json.dumps(record))
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
    path.write_text(json.dumps({"machines": {}, "results": results, "steps": kfo.STEPS}))
    monkeypatch.setattr(kfo, "linear", lambda: found)

    def run(*more: str) -> dict[str, Any]:
        given = ["--data", str(tmp_path), "--part", "linear", "--out", str(path), *more]
        monkeypatch.setattr("sys.argv", ["kfo", *given])
        kfo.main()
        return dict(json.loads(path.read_text())["results"])

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
