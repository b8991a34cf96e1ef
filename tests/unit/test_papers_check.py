"""What the check of the papers' page refuses: numbers without proof, broken files; and what it only prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.papers import check, run
from benchmarks.papers.check import AGAIN, find_lacks, row_problems
from benchmarks.papers.files import Place
from benchmarks.papers.history import NOT_KNOWN
from benchmarks.papers.row import Figure, Reading, Row, Source, cell, cells, described

KEPT = {"rmse": 1.0, "date": "2026-01-01 12:00 UTC", "machine": "a machine", "code": "abc"}
ROW = Row(
    "an-item",
    "NKN",
    "here",
    "it",
    (Figure("RMSE", "1", cell("bbb/*", "rmse")),),
    (cells("bbb/*"),),
    ("python -m benchmarks.papers.cells --cells 'bbb/*'",),
    "seconds",
    ("src/mercer/kernels/leaf.py",),
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Return a folder of results of its own."""
    return Place(tmp_path)


def keep(place: Place, *cells_: dict[str, Any]) -> None:
    found = {f"bbb/{number}": each for number, each in enumerate(cells_)}
    (place.results / "papers.json").write_text(json.dumps({"results": found}))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"date": None}, "has no date"),
        ({"date": "banana"}, "has no date"),
        ({"date": "2026-13-45 12:00 UTC"}, "has no date"),
        ({"date": "2999-01-01 12:00 UTC"}, "has the date 2999-01-01 12:00, which is still to come"),
        ({"machine": None}, "has no machine"),
        ({"code": None}, "has no state of the code"),
        ({"code": ""}, "has no state of the code"),
        (
            {"date": None, "machine": None, "code": None},
            "has no date, no machine, no state of the code",
        ),
    ],
)
def test_a_cell_without_proof_is_named(place: Place, change: dict[str, Any], said: str) -> None:
    """Others of its row had what one cell lacked, and that was enough."""
    one = {key: value for key, value in (KEPT | change).items() if value is not None}
    keep(place, KEPT, one, KEPT)
    assert list(row_problems(ROW, place)) == [f"papers.json bbb/1 {said}: {AGAIN}"]


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_named(place: Place, number: float) -> None:
    keep(place, KEPT, KEPT | {"rmse": number})
    (problem,) = row_problems(ROW, place)
    assert problem.startswith(f"papers.json bbb/1 rmse is {number}, no finite number: {AGAIN}")


def test_proof_that_is_whole_is_no_problem(place: Place) -> None:
    keep(place, KEPT, KEPT | {"code": "not kept"}, KEPT | {"rmse": None})
    assert list(row_problems(ROW, place)) == []
    assert "code not kept of 1 of 3 measurements" in find_lacks(ROW, place)


def test_measurements_without_a_date_are_counted_like_the_others(place: Place) -> None:
    """The states of the code were one more than the dates: "code not kept of -1 of 2"."""
    keep(place, KEPT, {key: value for key, value in KEPT.items() if key != "date"})
    assert not any("code not kept" in each for each in find_lacks(ROW, place))


def test_a_number_of_no_source_is_named(place: Place) -> None:
    keep(place, KEPT)
    row = Row(**{**ROW.__dict__, "sources": (cells("sm/*"),)})
    assert list(row_problems(row, place)) == [
        "papers.json bbb/0 rmse is of no source of the row: nothing says when it was measured"
    ]


def test_descriptions_of_machines_are_read_as_they_are_kept(place: Place) -> None:
    """A description is a dictionary beside the numbers, or lines in an entry of a list."""
    machine = {"date": KEPT["date"], "processor": "a processor", "code": "abc"}
    (place.results / "scale.json").write_text(json.dumps({"brackets": {"solar": {"bic": [1.0], "machine": machine}}}))
    lines = [["date        2026-01-01 12:00 UTC", "processor   a processor", "code        abc"], ["processor   b"]]
    entries = [{"method": "mercer", "best": [1.0], "machine": each} for each in lines]
    (place.results / "optimise.json").write_text(json.dumps(entries))
    path = "[method=mercer]|machine"
    figures = (
        Figure("bound", "", Reading("scale.json", "brackets|solar|bic|[0]")),
        Figure("best", "", Reading("optimise.json", "[method=mercer]|best|[-1]")),
    )
    sources = (described("scale.json", "brackets|*"), Source("optimise.json", path, (path,), path))
    row = Row(**{**ROW.__dict__, "figures": figures, "sources": sources})
    assert list(row_problems(row, place)) == [f"optimise.json [1] has no date, no state of the code: {AGAIN}"]


def test_a_file_that_is_no_json_is_said_in_a_sentence(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    (place.results / "papers.json").write_text('{"results": ')
    with pytest.raises(SystemExit) as ended:
        run.main(["--check"], place)
    assert ended.value.code == 1
    (said,) = (line for line in capsys.readouterr().out.splitlines() if "JSON" in line)
    assert said.startswith("papers.json is no JSON (Expecting value: line 1 column 13")
    assert said.endswith(f"take the last one back by git checkout {place.results / 'papers.json'}")
    for asked in ([], ["--item", "nkn-figure-7"]):
        with pytest.raises(SystemExit, match=r"papers\.json is no JSON"):
            run.main(asked, place)


def test_what_is_old_or_missing_is_printed_and_no_mistake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: Place
) -> None:
    monkeypatch.setattr(check, "problems", lambda place: [])
    for known in (True, False):
        for module in (check, run):
            monkeypatch.setattr(module, "knows_age", lambda known=known: known)
        with pytest.raises(SystemExit) as ended:
            run.main(["--check"], place)
        assert ended.value.code == 0
        said = capsys.readouterr().out.splitlines()
        assert "nkn-table-1: not measured" in said
        assert (NOT_KNOWN in said) == (not known)
        with pytest.raises(SystemExit):
            run.main([], place)
        assert (NOT_KNOWN in capsys.readouterr().out) == (not known)
    monkeypatch.setattr(check, "problems", lambda place: ["a problem"])
    with pytest.raises(SystemExit) as ended:
        run.main(["--check"], place)
    assert ended.value.code == 1
