"""Tables as they are, through the command line: what is left out is said, and options decide otherwise."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mercer.cli.files import read_rows
from mercer.cli.learn import Request, prepare_rows
from mercer.cli.terminal import Terminal
from mercer.errors import InputError
from mercer.tables import ReadOptions
from tests.cli.conftest import Mercer, table, wave

LINES = [(f"{day:02}/{month:02}/19", f"{y:.2f}".replace(".", ",")) for (x, y), (month, day) in zip(
    wave(24), [(1 + i // 12, 1 + 2 * (i % 12)) for i in range(24)], strict=True)]  # fmt: skip


def prepared(folder: Path, text: str, **options):
    """Return inputs, target and notes, as `discover` learns from them."""
    file = folder / "data.csv"
    file.write_text(text)
    reading = {name: options.pop(name) for name in ("decimal", "day_first", "kinds") if name in options}
    request = Request("discover", "y", folder, **options)
    terminal = Terminal(as_json=False)
    inputs, target, _ = prepare_rows(request, read_rows(file, "y", ReadOptions(**reading)), terminal)
    return inputs, target, terminal.notes


def test_identifiers_constants_and_empty_columns_are_left_out_with_a_note(tmp_path: Path) -> None:
    ids = np.random.default_rng(0).permutation(np.arange(100, 124))
    rows = [f"{i},{ids[i]},K{ids[i]}x,7,,{i % 5},{'ab'[i % 2]},{i * i}" for i in range(24)]
    text = "\n".join(["x,customer_id,card,site,empty,level,shop,y", *rows])
    inputs, _, notes = prepared(tmp_path, text)
    assert list(inputs.columns) == ["x", "level", "shop"]
    assert any("'customer_id', 'card'" in note and "identifiers" in note for note in notes)
    assert any("'site'" in note and "never change" in note for note in notes)
    assert any("'empty'" in note and "no entries" in note for note in notes)
    inputs, _, _ = prepared(tmp_path, text, inputs=["x", "customer_id"])
    assert list(inputs.columns) == ["x", "customer_id"]
    inputs, _, notes = prepared(tmp_path, text, exclude=("x", "level"))
    assert list(inputs.columns) == ["shop"]
    assert "columns 'x', 'level': left out, as asked for" in notes
    with pytest.raises(InputError, match=r"No input column is left.*'card' hold identifiers"):
        prepared(tmp_path, text, exclude=("x", "level", "shop", "customer_id"))
    with pytest.raises(InputError, match=r"--exclude: .* Did you mean 'level'"):
        prepared(tmp_path, text, exclude=("levle",))


def test_a_number_in_every_row_is_no_identifier(tmp_path: Path) -> None:
    ids = np.random.default_rng(0).permutation(np.arange(100, 124))
    text = "\n".join(["income,row_id,y", *(f"{37 * ids[i]},{i},{i * i}" for i in range(24))])
    assert list(prepared(tmp_path, text)[0].columns) == ["income", "row_id"]  # one without such a name, one in order


def test_whole_numbers_that_are_each_there_once_in_no_order_are_identifiers(tmp_path: Path) -> None:
    runs = np.random.default_rng(0).permutation(np.arange(1, 25))
    text = "\n".join(["run,x,y", *(f"{runs[i]},{i % 7},{i * i}" for i in range(24))])
    inputs, _, notes = prepared(tmp_path, text)
    assert list(inputs.columns) == ["x"]
    assert any("'run'" in note and "identifiers" in note for note in notes)
    assert list(prepared(tmp_path, text, inputs=["run", "x"])[0].columns) == ["run", "x"]


def test_rows_that_lack_an_input_are_left_out_and_counted(tmp_path: Path) -> None:
    text = "a,b,y\n1,2,3\n2,n/a,4\n-,4,5\n4,6,7\n5,8,9\n"
    inputs, target, notes = prepared(tmp_path, text)
    assert inputs.a.tolist() == [1, 4, 5]
    assert target.tolist() == [3, 7, 9]
    assert "2 of 5 rows have no entry in 'a', 'b' and were left out (otherwise: --missing fail)" in notes
    with pytest.raises(InputError, match="'a' has 1 missing entry, in data row 3"):
        prepared(tmp_path, text, missing="fail")
    with pytest.raises(InputError, match="--missing is drop or fail"):
        prepared(tmp_path, text, missing="maybe")


@pytest.mark.usefixtures("no_pictures")
def test_a_german_table_by_standard_input(mercer: Mercer, monkeypatch: pytest.MonkeyPatch) -> None:
    content = "\n".join(["Umsatz 2019", "Datum;y", *(";".join(line) for line in LINES)]).encode("cp1252")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    result = mercer("discover", "-", "--target", "y", "--kernel", "SE + LIN", "--json")
    assert result.code == 0, result.err
    explanation = result.document["explanation"]
    assert explanation["rows"] == 24
    assert explanation["inputs"][0]["low"] == "2019-01-01"
    assert any("the day comes first" in note for note in explanation["notes"])


def test_an_undecided_table_names_its_options_and_a_model_remembers(mercer: Mercer, tmp_path: Path) -> None:
    text = "when;y\n" + "".join(f"{day:02}/03/19;{day * day % 7},5\n" for day in range(1, 13))
    name = table(tmp_path / "data.csv", text)
    refused = mercer("discover", name, "--target", "y", "--kernel", "SE")
    assert refused.code == 2
    assert "--day-first" in refused.err
    assert mercer("discover", name, "--target", "y", "--kernel", "SE", "--day-first").code == 0
    new = table(tmp_path / "new.csv", "when,note\n01/04/19,0012\n,b\n02/04/19,c\n")
    result = mercer("predict", "mercer-out/model.mercer", new, "--out", "p.csv")
    assert result.code == 0, result.err
    assert "1 row lacks an input and has no prediction" in result.out
    predicted = pd.read_csv(tmp_path / "p.csv", dtype=str)
    assert predicted.when.tolist()[::2] == ["2019-04-01", "2019-04-02"]
    assert predicted.note.tolist() == ["0012", "b", "c"]
    assert predicted["mean"].isna().tolist() == [False, True, False]
    strict = mercer("predict", "mercer-out/model.mercer", new, "--out", "p.csv", "--missing", "fail")
    assert strict.code == 2
    assert "data row 2" in strict.err


@pytest.mark.parametrize(
    "option",
    [("--type", "x"), ("--type", "x=colour"), ("--decimal", "x"), ("--separator", "ab"), ("--sheet", "2"),
     ("--header", "0"), ("--exclude", "z"), ("--encoding", "morse")],
)  # fmt: skip
def test_options_that_cannot_be(mercer: Mercer, tmp_path: Path, option: tuple[str, str]) -> None:
    if option[0] == "--sheet":
        pd.DataFrame({"x": [1.0, 2.0], "y": [1.0, 2.0]}).to_excel(tmp_path / "d.xlsx", index=False)
    else:
        table(tmp_path / "d.csv", "x,y\n1,2\n2,3\n")
    name = "d.xlsx" if option[0] == "--sheet" else "d.csv"
    result = mercer("discover", name, "--target", "y", *option)
    assert result.code == 2
    assert option[0] in result.err


def test_columns_are_left_out_of_a_parquet_file_with_dates(tmp_path: Path) -> None:
    file = tmp_path / "data.parquet"
    days = pd.date_range("2020-01-01", periods=12, freq="MS")
    pd.DataFrame({"month": days, "shop": list("abcdefghijkl"), "size": 1.0, "y": np.arange(12.0)}).to_parquet(file)
    options = ReadOptions(exclude=("shop",))
    request, terminal = Request("discover", "y", tmp_path, exclude=("shop",)), Terminal(as_json=False)
    inputs, _, _ = prepare_rows(request, read_rows(file, "y", options), terminal)
    assert list(inputs.columns) == ["month"]  # the size is constant
    streamed = read_rows(file, "y", ReadOptions(exclude=("shop", "month")), free_memory=0)
    assert streamed.names == ("size",)
