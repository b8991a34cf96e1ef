"""Every kind of bad input, through the command line: exit code 2 and a message, or a note and a result."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mercer.cli.forecast import show
from tests.cli.conftest import Mercer, table, wave_text

LETTERS = "abcdefghijkl"
BAD_TABLES = {
    "empty file": ("", "y", ["empty"]),
    "blank lines only": ("\n\n\n", "y", ["empty"]),
    "header only": ("x,y\n", "y", ["no rows", "'x', 'y'"]),
    "one row": ("x,y\n1,2\n", "y", ["1 of 1", "'y'", "at least 2"]),
    "missing target": ("x,sales\n1,2\n2,3\n", "sale", ["no target column 'sale'", "Did you mean 'sales'"]),
    "text in a number column": (
        "x,y\n" + "".join(f"{'oops' if i == 6 else i},{i * i}\n" for i in range(12)), "y",
        ["'x'", "row 7", "'oops'", "not a number"],
    ),
    "hardly any input": ("x,y\n1,2\n,3\n,5\n", "y", ["Only 1 of 3 rows", "'x' has none in 2", "--exclude"]),
    "infinite input": ("x,y\n1,2\ninf,3\n4,5\n", "y", ["'x'", "1 infinite entry", "row 2"]),
    "infinite target": ("x,y\n1,2\n2,inf\n4,5\n", "y", ["'y'", "infinite", "row 2"]),
    "no target at all": ("x,y\n1,\n2,\n4,\n", "y", ["0 of 3", "'y'"]),
    "constant target": (
        "x,y\n1,5\n2,5\n4,5\n", "y",
        ["'y'", "no structure: the value does not vary", "the same (5) in all 3 rows", "nothing was written"],
    ),
    "constant inputs": ("x,y\n1,5\n1,6\n1,7\n", "y", ["No input column varies", "'x'"]),
    "target not numeric": (
        "x,city\n" + "".join(f"{i},{letter}\n" for i, letter in enumerate(LETTERS)), "city",
        ["'city' does not hold numbers", "Columns of numbers: 'x'"],
    ),
    "target of classes": (
        "x,kind\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(20)), "kind",
        ["'kind' does not hold numbers", "--task classification"],
    ),
    "ragged lines": ("x,y\n1,2\n2,3,4\n", "y", ["line 3"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_bad_table_ends_with_advice(mercer: Mercer, tmp_path: Path, case: str) -> None:
    content, target, words = BAD_TABLES[case]
    name = table(tmp_path / "data.csv", content)
    result = mercer("discover", name, "--target", target)
    assert result.code == 2
    assert result.out == ""
    for word in words:
        assert word in result.err
    as_json = mercer("discover", name, "--target", target, "--json")
    assert as_json.code == 2
    assert set(as_json.document) == {"error", "kind", "about"}
    assert as_json.document["error"] in result.err


BAD_OPTIONS = {
    "kernel that does not parse": (["--kernel", "SE * (LIN + "], "KernelSyntaxError", "\n  SE * (LIN + \n  "),
    "unknown base kernel": (["--kernel", "SE + XYZ"], "KernelSyntaxError", "\n       ^"),
    "kernel on a column that is not there": (["--kernel", "SE(z)"], "KernelError", "'z'"),
    "kernel on a dimension that is not there": (["--kernel", "SE(7)"], "KernelError", "7"),
    "inputs that are not there": (["--inputs", "x,q"], "InputError", "no input column 'q'"),
    "the target among the inputs": (["--inputs", "x,y"], "InputError", "'y' itself"),
    "no inputs": (["--inputs", ""], "InputError", "list of inputs is empty"),
    "unknown option": (["--colour", "red"], "UsageError", "--colour"),
    "seed that is no number": (["--seed", "one"], "UsageError", "--seed"),
    "seed of twenty digits": (["--seed", "12345678901234567890"], "UsageError", "--seed"),
    "time budget of nothing": (["--time-budget", "0"], "InputError", "greater than zero"),
    "time budget in words": (["--time-budget", "soon"], "UsageError", "--time-budget"),
    "negative depth": (["--depth", "-1"], "UsageError", "--depth"),
    "no jobs": (["--jobs", "0"], "UsageError", "--jobs"),
    "unknown base kernel to search with": (["--bases", "SE,FOO"], "InputError", "'FOO'. There are SE, PER"),
    "nothing to search with": (["--bases", ""], "InputError", "the list is empty"),
    "search options with a structure": (["--kernel", "SE", "--depth", "2"], "InputError", "--depth: only for a search"),
    "search options with a network": (["--kernel", "nkn", "--bases", "SE"], "InputError", "--bases: only for a search"),
    "regimes without a surface": (["--regimes", "3"], "InputError", "--regimes: only for --kernel surface"),
    "unknown operator": (["--operators", "+-"], "InputError", "operators is a text of some of"),
    "unknown way to choose": (["--finalists", "luck"], "InputError", "--finalists is score or forward"),
    "too few rows to forecast": (["--finalists", "forward", "--depth", "0"], "InputError", "at least 40 rows"),
    "checkpoint that is a file": (["--checkpoint", "data.csv"], "InputError", "checkpoint folder"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_a_bad_option_ends_with_advice(mercer: Mercer, tmp_path: Path, case: str) -> None:
    options, kind, words = BAD_OPTIONS[case]
    name = table(tmp_path / "data.csv", wave_text(12))
    result = mercer("discover", name, "--target", "y", "--json", *options)
    assert result.code == 2
    assert result.document["kind"] == kind
    assert words in result.document["error"]
    assert not (tmp_path / "mercer-out" / "model.mercer").exists()


@pytest.mark.parametrize(
    ("options", "about"),
    [(["--target", "z"], "--target"), (["--target", "y", "--inputs", "z"], "--inputs"), (["--target", "y"], None),
     (["--target", "y", "--type", "x=date"], "--type"), (["--target", "y", "--sheet", "1"], "--sheet"),
     (["--target", "y", "--header", "99"], "--header"), (["--target", "y", "--time-budget", "0"], "--time-budget")],
)  # fmt: skip
def test_an_error_names_what_it_is_about(mercer: Mercer, tmp_path: Path, options: list[str], about: str | None) -> None:
    name = table(tmp_path / "data.csv", wave_text(12))
    told = mercer("discover", name if about else "absent.csv", *options, "--json").document
    assert told["about"] == about


def test_missing_files_and_arguments(mercer: Mercer, tmp_path: Path) -> None:
    table(tmp_path / "sales.csv", wave_text(12))
    absent = mercer("discover", "sale.csv", "--target", "y")
    assert absent.code == 2
    assert "Did you mean 'sales.csv'" in absent.err
    assert mercer("discover", "sales.csv").code == 2
    assert mercer("predict", "model.mercer").code == 2
    assert mercer("nonsense").code == 2
    folder = mercer("discover", ".", "--target", "y")
    assert folder.code == 2
    assert "folder" in folder.err


def test_an_output_folder_that_cannot_be_written_is_found_before_the_work(mercer: Mercer, tmp_path: Path) -> None:
    name = table(tmp_path / "data.csv", wave_text(12))
    (tmp_path / "taken").write_text("a file in its place")
    result = mercer("discover", name, "--target", "y", "--out", "taken")
    assert result.code == 2
    assert "'taken'" in result.err
    assert "--out" in result.err
    below = mercer("demo", "--out", "taken/below")
    assert below.code == 2
    assert "cannot be" in below.err


# ------------------------------------------------------------------------------------------ a note, and a result


GIVEN = ("--kernel", "SE + SE*PER + LIN")


def discovered(mercer: Mercer, folder: Path, text: str, *options: str) -> dict:
    result = mercer("discover", table(folder / "data.csv", text), "--target", "y", "--json", *(options or GIVEN))
    assert result.code == 0, result.err or result.out
    return result.document["explanation"]


@pytest.mark.usefixtures("no_pictures")
def test_too_many_rows_for_memory(mercer: Mercer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mercer.inference.choose.available_memory", lambda: 10_000)
    given = table(tmp_path / "data.csv", wave_text(720))
    result = mercer("discover", given, "--target", "y", "--kernel", "LIN", "--out", tmp_path / "out", "--json")
    assert result.code == 0, result.err
    assert result.document["explanation"]["expression"] == "LIN"


@pytest.mark.usefixtures("no_pictures")
def test_missing_targets_are_left_out_and_counted(mercer: Mercer, tmp_path: Path) -> None:
    lines = wave_text(24).splitlines()
    lines[4] = lines[4].split(",")[0] + ","
    lines[9] = lines[9].split(",")[0] + ",NaN"
    explanation = discovered(mercer, tmp_path, "\n".join(lines))
    assert explanation["rows"] == 22
    assert "2 of 24 rows have no value in the target 'y' and were left out" in explanation["notes"]


def test_constant_column_is_ignored_with_a_note(mercer: Mercer, tmp_path: Path) -> None:
    lines = wave_text(20).splitlines()
    text = "\n".join([f"{lines[0]},site", *(f"{line},7" for line in lines[1:])])
    explanation = discovered(mercer, tmp_path, text)
    assert any("'site'" in note and "never change" in note for note in explanation["notes"])
    assert "site" not in explanation["kernel"]
    assert "PER(x" in explanation["kernel"]


@pytest.mark.usefixtures("no_pictures")
def test_duplicated_rows_are_counted(mercer: Mercer, tmp_path: Path) -> None:
    lines = wave_text(20).splitlines()
    explanation = discovered(mercer, tmp_path, "\n".join([*lines, lines[3], lines[4], lines[4]]), "--kernel", "SE")
    assert explanation["rows"] == 23
    assert any(note.startswith("3 rows are exact copies") for note in explanation["notes"])


@pytest.mark.usefixtures("no_pictures")
def test_unsorted_dates_with_gaps(mercer: Mercer, tmp_path: Path) -> None:
    months = pd.date_range("1990-01-01", periods=30, freq="MS")
    rows = [f"{month:%Y-%m-%d},{np.sin(i / 2) + i / 10:.4f}" for i, month in enumerate(months) if i not in (5, 6)]
    ordered = discovered(mercer, tmp_path, "\n".join(["month,y", *rows]), "--kernel", "SE + LIN")
    shuffled = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
    unsorted = discovered(mercer, tmp_path, "\n".join(["month,y", *shuffled]), "--kernel", "SE + LIN")
    assert any("2 of 30 expected months are missing" in note for note in ordered["notes"])
    assert any("not in time order" in note for note in unsorted["notes"])
    assert unsorted["scores"]["log_evidence"] == pytest.approx(ordered["scores"]["log_evidence"], abs=1e-3)
    assert ordered["inputs"] == [{"name": "month", "unit": "months", "low": "1990-01", "high": "1992-06"}]


@pytest.mark.parametrize("scale", [1e12, 1e-12])
def test_huge_and_tiny_values_give_the_rescaled_answer(
    mercer: Mercer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scale: float
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("mercer.cli.learn.write_results", lambda *given: {})
        plain = discovered(mercer, tmp_path, wave_text(24))
    scaled = discovered(mercer, tmp_path, wave_text(24, x_scale=scale, y_scale=scale))
    moved = 24 * np.log(scale)
    assert scaled["scores"]["log_evidence"] == pytest.approx(plain["scores"]["log_evidence"] - moved, abs=0.05)
    assert scaled["noise_std"] == pytest.approx(plain["noise_std"] * scale, rel=0.02)
    shares, scaled_shares = ([c["share"] for c in s["components"]] for s in (plain, scaled))
    assert scaled_shares == pytest.approx(shares, abs=0.02)


def test_more_columns_than_rows(mercer: Mercer, tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).normal(size=(8, 12))
    frame = pd.DataFrame(numbers, columns=list(LETTERS)).assign(y=numbers[:, 0] * 2 + 1)
    options = ("--depth", "0", "--bases", "LIN", "--jobs", "1")
    explanation = discovered(mercer, tmp_path, frame.to_csv(index=False), *options)
    assert explanation["rows"] == 8
    assert len(explanation["inputs"]) == 12


@pytest.mark.parametrize("text", ["x,y\n1,2\n2,4\n", "x,y\n1,2\n2,4\n3,5\n"])
def test_two_or_three_rows_give_a_guess(mercer: Mercer, tmp_path: Path, text: str) -> None:
    explanation = discovered(mercer, tmp_path, text, "--depth", "1", "--jobs", "1")
    assert explanation["rows"] == text.count("\n") - 1
    assert not explanation["structure"]["found"]
    assert "No structure can be learned from" in explanation["structure"]["sentence"]
    assert "too few rows" in explanation["residual_sentence"]


def test_rows_with_the_same_time_and_different_values(mercer: Mercer, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    text = "t,y\n" + "".join(f"{i // 2},{np.sin(i // 2 / 2) + 0.2 * rng.normal():.4f}\n" for i in range(40))
    explanation = discovered(mercer, tmp_path, text, "--depth", "0", "--jobs", "1")
    assert explanation["rows"] == 40
    assert 0.1 < explanation["noise_std"] < 0.4
    assert explanation["structure"]["found"]


def test_a_time_budget_too_short_for_one_kernel(mercer: Mercer, tmp_path: Path) -> None:
    explanation = discovered(mercer, tmp_path, wave_text(24), "--time-budget", "0.0001", "--jobs", "1")
    assert any("time budget of 0.0001 s was too short" in note for note in explanation["notes"])
    assert explanation["search"]["tried"] >= 1
    assert explanation["search"]["path"][-1]["depth"] == 0


# ---------------------------------------------------------------------------------------- model files and new tables


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from mercer.estimators import GPRegressor

    frame = pd.DataFrame({"x": np.arange(12.0), "shop": list("aabb" * 3)})
    path = tmp_path_factory.mktemp("model") / "model.mercer"
    GPRegressor("SE(x) + LIN", random_state=0, restarts=1).fit(frame, np.sin(frame["x"])).save(path)
    return path


def test_new_tables_that_do_not_fit(mercer: Mercer, tmp_path: Path, model_file: Path) -> None:
    cases = {
        "x\n1\n": ["'shop'", "no column"],
        "x,shop\nlow,a\n2,b\n": ["'x'", "'low'"],
        "x,shop,mean\n1,a,2\n": ["'mean'", "rename"],
        "x,shop\n": ["no rows"],
    }
    for content, words in cases.items():
        name = table(tmp_path / "new.csv", content)
        result = mercer("predict", str(model_file), name, "--out", "p.csv")
        assert result.code == 2
        assert all(word in result.err for word in words), result.err
        assert not (tmp_path / "p.csv").exists()


def test_a_category_that_was_not_in_the_data_is_predicted_with_a_note(
    mercer: Mercer, tmp_path: Path, model_file: Path
) -> None:
    name = table(tmp_path / "new.csv", "x,shop\n1,c\n")
    result = mercer("predict", str(model_file), name, "--out", "p.csv")
    assert result.code == 0
    assert all(word in result.out for word in ("'shop'", "'c'", "'a'", "wider band")), result.out
    assert np.isfinite(pd.read_csv(tmp_path / "p.csv")["mean"]).all()


def test_outputs_of_predict_that_cannot_be(mercer: Mercer, tmp_path: Path, model_file: Path) -> None:
    name = table(tmp_path / "new.csv", "x,shop\n1,a\n")
    (tmp_path / "file").write_text("")
    for out, word in (("p.xlsx", ".csv"), ("new.csv", "lost"), ("file/p.csv", "'file'")):
        result = mercer("predict", str(model_file), name, "--out", out)
        assert result.code == 2
        assert word in result.err


def test_model_files_that_cannot_be_read(mercer: Mercer, tmp_path: Path, model_file: Path) -> None:
    content = model_file.read_bytes()
    (tmp_path / "cut.mercer").write_bytes(content[: len(content) // 2])
    (tmp_path / "text.mercer").write_text("hello")
    (tmp_path / "newer.mercer").write_bytes(_with_version(content, 99))
    cases = {
        "absent.mercer": "no file",
        "cut.mercer": "damaged",
        "text.mercer": "not a Mercer model file",
        "newer.mercer": "newer Mercer",
        ".": "folder",
    }
    for name, word in cases.items():
        result = mercer("explain", name, "--json")
        assert result.code == 2
        assert result.document["kind"] == "ModelFileError"
        assert word in result.document["error"]


def _with_version(content: bytes, version: int) -> bytes:
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "model.json":
                data = json.dumps(json.loads(data) | {"version": version}).encode()
            new.writestr(name, data)
    return changed.getvalue()


# ------------------------------------------------------------------------------------------- options of the search


def test_a_score_that_is_none_or_useless(mercer: Mercer, tmp_path: Path) -> None:
    name = table(tmp_path / "data.csv", wave_text(24))
    wrong = mercer("discover", name, "--target", "y", "--score", "r2")
    assert wrong.code == 2
    assert "--score: there is no score 'r2'. There are auto, bic, aic, evidence, loo, heldout." in wrong.err
    given = mercer("discover", name, "--target", "y", "--kernel", "SE", "--score", "aic")
    assert given.code == 2
    assert "--score: only for a search" in given.err


def test_the_score_of_a_search(mercer: Mercer, tmp_path: Path) -> None:
    text = wave_text(24)
    explanation = discovered(mercer, tmp_path, text, "--depth", "0", "--jobs", "1", "--score", "HELDOUT")
    assert explanation["search"]["score"] == "held-out score"
    assert any("5 of 24 rows were held out" in note for note in explanation["notes"])


def test_a_blank_line_among_new_rows_is_told(mercer: Mercer, tmp_path: Path) -> None:
    assert mercer("discover", table(tmp_path / "d.csv", wave_text(24)), "--target", "y", "--kernel", "LIN").code == 0
    result = mercer("predict", "mercer-out/model.mercer", table(tmp_path / "n.csv", "x\n1\n\n3\n"), "--out", "p.csv")
    assert result.code == 0, result.err
    assert "note    1 blank line (the first is line 3) was skipped" in result.out
    assert len(pd.read_csv(tmp_path / "p.csv")) == 2


def test_what_a_missing_option_is_for_is_told(mercer: Mercer, tmp_path: Path) -> None:
    result = mercer("discover", table(tmp_path / "d.csv", wave_text(24)))
    assert result.code == 2
    assert "'--target'. It is for: the column to explain." in result.err


def test_rounding_in_a_forecast_is_shown_as_zero() -> None:
    rows = pd.DataFrame({"ds": pd.date_range("2020-01-01", periods=2), "mean": [5.0, 6.0], "lower_95": [-1.2e-18, 0.1]})
    assert "e-18" not in show(rows)
