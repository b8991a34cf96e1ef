"""The page of the papers: numbers from files, rows that name what exists, and what other benchmarks measure for it."""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import discovery, kfo, machine, optimise, textures
from benchmarks.functional_kernels import FunctionalKernel
from benchmarks.papers import cells as paper_cells
from benchmarks.papers import check, page
from benchmarks.papers import read as papers_read
from benchmarks.papers.files import HERE, Place
from benchmarks.papers.row import Figure, Reading, Row, Source, cells
from benchmarks.papers.rows import ROWS
from benchmarks.papers.run import find_row
from benchmarks.splits import pca_split

from mercer.errors import InputError


def test_the_page_is_what_the_files_say() -> None:
    assert check.problems() == []


@pytest.mark.parametrize("code", [None, "not kept"])
def test_measurements_without_the_state_of_the_code_are_counted(tmp_path: Path, code: Any) -> None:
    kept = {"date": "2026-11-18 12:00 UTC", "machine": "a machine"}
    results = {"i1/0": kept | {"code": "abc"}, "i1/1": kept if code is None else kept | {"code": code}}
    (tmp_path / "papers.json").write_text(json.dumps({"results": results}))
    row = Row("an-item", "NKN", "here", "it", sources=(cells("i1/*"),))
    assert check.find_lacks(row, Place(tmp_path)) == ["code not kept of 1 of 2 measurements"]
    assert page.circumstances(row, Place(tmp_path)).endswith("code abc (of 1 of 2 measurements not kept).")


def test_the_state_of_the_code_is_read_from_the_lines_of_a_description(tmp_path: Path) -> None:
    lines = machine.lines(machine.describe())
    (tmp_path / "a.json").write_text(json.dumps([{"machine": lines}, {"machine": lines[:-1]}]))
    source = Source("a.json", "[machine=*]|machine", ("[machine=*]|machine",), "[machine=*]|machine")
    assert papers_read.read_codes(source, Place(tmp_path)) == [machine.code()]
    assert papers_read.count_without_code([source], Place(tmp_path)) == 1


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
    assert list(check.row_problems(row)) == []
    assert any(problem in each for each in check.row_problems(replace(row, **change)))


def test_a_printed_zero_is_compared_by_the_authors_logs() -> None:
    row = next(row for row in ROWS if row.item == "nkn-table-1")
    figure = next(figure for figure in row.figures if figure.what == "naval, NKN, RMSE")
    assert figure.mercer is not None
    ours = papers_read.average(figure.mercer)
    for logged, said in ((1.01 * ours, "1 of 1 (naval by the authors' logs)"), (0.99 * ours, "0 of 1")):
        one = replace(row, figures=(replace(figure, logged=logged),))
        assert page.compare(one, ", NKN, RMSE", "lower").endswith(f": {said}")
    one = replace(row, figures=(replace(figure, logged=None),))
    assert page.compare(one, ", NKN, RMSE", "lower").endswith(": 0 of 1; naval: 0.000 as printed")
    more = replace(one, figures=(*one.figures, replace(figure, mercer=None), replace(figure, mercer=None)))
    said = ": 0 of 1 measured; naval: 0.000 as printed, 3 in all"
    assert page.compare(more, ", NKN, RMSE", "lower").endswith(said)


def test_numbers_are_read_from_dictionaries_and_lists() -> None:
    data = {"runs": [{"kernel": "SE", "best": [3.0, 1.0]}, {"kernel": "NKN", "best": [2.0, 0.5]}], "a/1": {"x": 4}}
    assert papers_read.find(data, "runs|[kernel=*]|best|[-1]") == [1.0, 0.5]
    assert papers_read.find(data, "runs|[kernel=NKN]|best|[0]") == [2.0]
    assert papers_read.find(data, "a/*|x") == [4]
    assert papers_read.find(data, "b|x") == []


def test_years_have_no_comma(tmp_path: Path) -> None:
    (tmp_path / "papers.json").write_text(json.dumps({"results": {"a/1": {"at": 1896.0}, "a/2": {"at": 1897.0}}}))
    year = Reading("papers.json", "results|a/*|at", "year", 1)
    assert page.read(year, Place(tmp_path)) == "1896.5 (2)"
    assert page.read(replace(year, statistic="mean"), Place(tmp_path)) == "1,896.5 (2)"


def test_where_it_is_in_the_library_begins_a_sentence() -> None:
    assert page.write_row(find_row("kfo-figure-3"))[0].endswith("regret bounds. Nothing to run.")
    row = Row("a", "NKN", "here", "it", library="`Kernel.text()`")
    assert page.write_row(row) == ["NKN, here: it. `Kernel.text()`."]


def test_a_number_that_differs_from_its_file_is_found(tmp_path: Path) -> None:
    text, other = HERE.page.read_text(encoding="utf-8"), tmp_path / "papers.md"
    other.write_text(text.replace("| airline, NKN | 201 | ", "| airline, NKN | 201 | 1"), encoding="utf-8")
    assert any("differs from the files" in each for each in check.problems(Place(page=other)))
    assert any("is not there" in each for each in check.problems(Place(page=tmp_path / "nothing.md")))


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
    found = BayesByBackprop(steps=150, more=0).fit(X, 2.0 * X[:, 0]).score(X, 2.0 * X[:, 0])
    assert found["rmse"] < 0.6
    assert found["log_density"] > -1.5


@pytest.mark.parametrize(("noises", "best"), [((0.1, 1e-6), 0), ((1e-6, 0.1), 1)])
def test_bayes_by_backprop_keeps_the_start_with_the_highest_bound(noises: tuple[float, float], best: int) -> None:
    from benchmarks.bayes_by_backprop import BayesByBackprop

    X = np.random.default_rng(0).uniform(-1.0, 1.0, (60, 1))
    y = 2.0 * X[:, 0]
    model = BayesByBackprop(steps=150, more=10, noises=noises).fit(X, y)
    found = model.score(X, y)
    assert int(np.argmax(found["bounds"])) == best
    noise = float(np.exp(model.parameters[0][0]))
    assert found["log_density"] > -1.5
    assert noise > 1e-4  # the other one's is below


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
