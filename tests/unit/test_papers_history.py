"""What is old by git, which commit has a state of the code, and which changes do nothing to a measurement."""

from __future__ import annotations

import json
import os
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.papers import history, unchanged

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
    history.git.cache_clear()
    return history.git(folder, "rev-parse", "HEAD").strip()


def test_a_state_of_the_code_is_named_by_its_commit(tmp_path: Path) -> None:
    package, kept = tmp_path / "src" / "mercer", tmp_path / "codes.json"
    package.mkdir(parents=True)
    commits = [commit(tmp_path, day, **{"src/mercer/kernel": text}) for day, text in enumerate((DOUBLE, HALF), start=1)]
    codes = [machine.hash_code({Path("kernel.py"): text.encode()}) for text in (DOUBLE, HALF, "never = 1\n")]
    history.keep_commits([*codes, "recorded by commit 1a2b3c4d"], kept, tmp_path)
    assert history.read_commits(kept) == {codes[0]: commits[0][:8], codes[1]: commits[1][:8]}
    history.keep_commits(codes, kept, tmp_path / "nothing")  # without git, what is known stays
    known = history.read_commits(kept)
    said = history.name_codes([codes[1], codes[2], codes[0], codes[1], "recorded by commit 1a2b3c4d"], known)
    assert said == (f"code of commit {commits[1][:8]}, {commits[0][:8]}, code {codes[2]}, recorded by commit 1a2b3c4d")


def test_comments_and_moves_make_no_measurement_old(tmp_path: Path) -> None:
    """Each commit is a day later than the last; only what changes what a file does counts."""

    def day_after(day: int, **files: str) -> str:
        commit(tmp_path, day, **files)
        return history.last_change.__wrapped__(("first.py",), tmp_path)[:10]

    assert day_after(1, first=DOUBLE, second=HALF) == "2026-01-01"
    assert day_after(2, first=HALF, second="") == "2026-01-02"  # double is gone
    assert day_after(3, first=f'"""What it is."""\nimport os\n\n{HALF}    # a comment\n') == "2026-01-02"
    assert day_after(4, second=DOUBLE, third="x = 1\n") == "2026-01-02"  # another file
    # moved here: as old as it was there, and what else that commit touched is no part of it
    assert day_after(5, first=f"{HALF}\n\n{DOUBLE}", second="", third="x = 2\n") == "2026-01-04"
    assert day_after(6, first=HALF.replace("2", "3") + DOUBLE) == "2026-01-06"
    assert history.last_change(("first.py",), tmp_path / "..") == ""  # no repository


def test_without_the_whole_history_nothing_is_old(tmp_path: Path) -> None:
    """The commit at which a shallow clone is cut brings every file, and was taken for a change of all."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    (whole / "src" / "mercer").mkdir(parents=True)
    for day, text in enumerate((DOUBLE, HALF), start=1):
        commit(whole, day, **{"src/mercer/kernel": text})
    subprocess.run(["git", "clone", "-q", "--depth", "1", whole.as_uri(), str(cut)], check=True, capture_output=True)
    history.git.cache_clear()
    part = ("src/mercer/kernel.py",)
    assert history.last_change(part, whole) == "2026-01-02 12:00"
    assert history.last_change(part, cut) == ""
    (tmp_path / "archive").mkdir()
    assert [history.knows_age(each) for each in (whole, cut, tmp_path / "archive")] == [True, False, False]


def test_a_change_before_and_after_which_a_cell_is_the_same_makes_cells_of_its_kind_no_older(tmp_path: Path) -> None:
    commits = [commit(tmp_path, day, first=text) for day, text in enumerate((DOUBLE, HALF, DOUBLE + HALF), start=1)]
    found = {"rmse": 0.1 + 0.2, "fits": [{"loo": 1.0}]}
    run = {"file": "nkn.json", "cell": "random/yacht/1/nkn", "before": commits[0], "after": commits[2]}

    def day_of(after: dict[str, Any], file: str = "nkn.json", pattern: str = "random/*/nkn") -> str:
        kept = tmp_path / "unchanged.json"
        kept.write_text(json.dumps({"runs": [{**run, "found": [found, after]}]}))
        unchanged.read.cache_clear()
        same = unchanged.same_commits(file, pattern, kept, tmp_path)
        return history.last_change.__wrapped__(("first.py",), tmp_path, same)[:10]

    assert day_of(found) == "2026-01-01"
    assert day_of({**found, "rmse": 0.3}) == "2026-01-03"  # another last digit
    assert day_of(found, file="kfo.json") == "2026-01-03"
    assert day_of(found, pattern="random/*/se") == "2026-01-03"
    # what a merge brings was known on its branch
    git = partial(subprocess.run, cwd=tmp_path, check=True, capture_output=True)
    git(["git", "checkout", "-q", "-b", "other", commits[0]])
    commit(tmp_path, 4, second=HALF)
    git(["git", "-c", "user.name=a", "-c", "user.email=a", "merge", "-q", "--no-edit", commits[2]])
    history.git.cache_clear()
    assert day_of(found) == "2026-01-01"
    assert day_of({**found, "rmse": 0.3}) > "2026-01-03"
    unchanged.read.cache_clear()


def test_a_cell_that_differs_vetoes_the_commits_that_another_of_its_kind_clears(tmp_path: Path) -> None:
    """One equal cell cleared a range of commits for all of its kind, whatever the others said."""
    commits = [commit(tmp_path, day, first=text) for day, text in enumerate((DOUBLE, HALF, DOUBLE + HALF), start=1)]

    def entry(cell: str, before: int, after: int, *found: float, file: str = "nkn.json") -> dict[str, Any]:
        return {"file": file, "cell": cell, "before": commits[before], "after": commits[after], "found": list(found)}

    def same(*runs: dict[str, Any]) -> frozenset[str]:
        kept = tmp_path / "unchanged.json"
        kept.write_text(json.dumps({"runs": runs}))
        unchanged.read.cache_clear()
        return unchanged.same_commits("nkn.json", "random/*/nkn", kept, tmp_path)

    yacht, wine = "random/yacht/1/nkn", "random/wine/1/nkn"
    assert same(entry(yacht, 0, 2, 1.0, 1.0)) == set(commits[1:])
    assert same(entry(yacht, 0, 2, 1.0, 1.0), entry(wine, 0, 2, 1.0, 2.0)) == set()
    assert same(entry(wine, 1, 2, 1.0, 2.0), entry(yacht, 0, 2, 1.0, 1.0)) == {commits[1]}
    for other in (entry("random/wine/1/se", 0, 2, 1.0, 2.0), entry(wine, 0, 2, 1.0, 2.0, file="kfo.json")):
        assert same(entry(yacht, 0, 2, 1.0, 1.0), other) == set(commits[1:])  # another kind, another file
    replaced = (entry(wine, 0, 2, 1.0, 2.0), entry(wine, 0, 2, 1.0, 1.0))
    assert same(entry(yacht, 0, 2, 1.0, 1.0), *replaced) == set(commits[1:])
    unchanged.read.cache_clear()


def test_times_are_left_out_of_what_is_compared() -> None:
    found = {"rmse": 1.0, "seconds": 3.0, "kfo": {"cpu_seconds": 2.0, "nll": 5.0}, "folds": [{"date": "x", "a": 1}]}
    assert unchanged.without_times(found) == {"rmse": 1.0, "kfo": {"nll": 5.0}, "folds": [{"a": 1}]}


def test_the_commands_that_measure_a_cell_choose_it(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out.json"
    command_of = partial(unchanged.command_of, data=data, out=out)
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
        return unchanged.read_cell(tmp_path, "michalewicz/mercer/0")

    first = keep(0.1, 0.3)
    assert (first["best"], first["evaluations"]) == (1.0, 2)
    assert keep(0.1, 0.3) == first != keep(0.1, 0.1 + 0.2)
