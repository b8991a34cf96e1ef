"""`mercer suggest`: the next experiments, run again with the new rows; bad input is a message and exit code 2."""

from __future__ import annotations

import html
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mercer.optimise.optimizer import Optimizer
from tests.cli.conftest import Mercer, table

BOUNDS = ["--bounds", "temperature=20:90", "--bounds", "solvent=a,b,c"]
FEW = "temperature,solvent,comment,yield\n30,a,,10.5\n70,b,cold day,22\n55,c,,18\n"


def value(temperature: float, solvent: str) -> float:
    return 40.0 - ((temperature - 60.0) / 10.0) ** 2 + {"a": 0.0, "b": 3.0, "c": 1.0}[solvent]


def many(count: int = 14) -> str:
    rng = np.random.default_rng(0)
    rows = [(rng.uniform(20, 90), rng.choice(["a", "b", "c"])) for _ in range(count)]
    return "temperature,solvent,yield\n" + "".join(f"{t:.2f},{s},{value(t, s):.3f}\n" for t, s in rows)


def test_the_next_experiments_are_written(mercer: Mercer, tmp_path: Path) -> None:
    name = table(tmp_path / "trials.csv", many())
    result = mercer("suggest", name, "--target", "yield", "--maximize", *BOUNDS, "--count", "2", "--out", "next.csv",
                    "--report", "page.html")  # fmt: skip
    assert result.code == 0, result.err
    new = pd.read_csv("next.csv")
    assert list(new.columns) == ["temperature", "solvent", "yield", "purpose", "expected", "spread"]
    assert len(new) == 2
    assert new["yield"].isna().all()
    assert new["temperature"].between(20, 90).all()
    assert set(new["solvent"]) <= {"a", "b", "c"}
    assert set(new["purpose"]) <= {"improve", "explore"}
    assert new[["expected", "spread"]].notna().all(axis=None)
    for word in ("The highest yield so far is", "Next 2:", "wrote   next.csv", "wrote   page.html"):
        assert word in result.out
    assert "Where is the highest yield?" in Path("page.html").read_text(encoding="utf-8")


def test_how_they_are_chosen_can_be_chosen(mercer: Mercer, tmp_path: Path) -> None:
    name = table(tmp_path / "trials.csv", many())
    arguments = ["suggest", name, "--target", "yield", *BOUNDS, "--out", "next.csv", "--report", "page.html"]
    result = mercer(*arguments, "--acquisition", "thompson")
    assert result.code == 0, result.err
    assert "chosen (acquisition 'thompson'): the minimum of a function drawn" in " ".join(result.out.split())
    assert "--acquisition thompson" in Path("page.html").read_text(encoding="utf-8")  # in the command that goes on
    wrong = mercer(*arguments, "--acquisition", "ucb")
    assert wrong.code == 2
    said = " ".join(wrong.err.split())
    assert "acquisition must be one of 'auto', 'improvement', 'thompson', 'bound', not 'ucb'" in said


def test_first_experiments_are_random_and_never_the_same(mercer: Mercer, tmp_path: Path) -> None:
    name = table(tmp_path / "trials.csv", FEW)
    arguments = ["suggest", name, "--target", "yield", *BOUNDS, "--inputs", "temperature,solvent", "--out", "next.csv"]
    assert mercer(*arguments, "--count", "2").code == 0
    first = pd.read_csv("next.csv")
    assert list(first.columns) == ["temperature", "solvent", "comment", "yield", "purpose", "expected", "spread"]
    assert first["purpose"].tolist() == ["first", "first"]
    assert mercer(*arguments, "--count", "2", "--random-state", "0").code == 0
    assert pd.read_csv("next.csv").equals(first)
    done = first.assign(**{"yield": [1.0, 2.0]})
    pd.concat([pd.read_csv("trials.csv"), done]).to_csv("trials.csv", index=False)
    assert mercer(*arguments, "--count", "2").code == 0
    assert not set(pd.read_csv("next.csv")["temperature"]) & set(first["temperature"])


def test_suggestions_that_nobody_has_done_are_waited_for(mercer: Mercer, tmp_path: Path) -> None:
    name = table(tmp_path / "trials.csv", FEW)
    arguments = ["suggest", name, "--target", "yield", *BOUNDS, "--inputs", "temperature,solvent", "--out", "next.csv"]
    assert mercer(*arguments).code == 0
    pd.concat([pd.read_csv("trials.csv"), pd.read_csv("next.csv")]).to_csv("trials.csv", index=False)
    result = mercer(*arguments, "--json")
    assert result.code == 0, result.out
    assert result.document["explanation"]["failed"] == 0
    assert "data row 4, count as being tried" in " ".join(result.document["notes"])
    assert [each["purpose"] for each in result.document["explanation"]["suggestions"]] == ["waiting", "first"]


def test_an_empty_target_is_a_failed_trial(mercer: Mercer, tmp_path: Path) -> None:
    name = table(tmp_path / "trials.csv", "x,y\n1,2\n2,n/a\n3,failed\n4,1\n9,5\n")
    result = mercer("suggest", name, "--target", "y", "--bounds", "x=0:10", "--out", "next.csv", "--json")
    assert result.code == 0, result.out
    assert result.document["explanation"]["failed"] == 2
    assert result.document["notes"] == ["no value of 'y' in data rows 2, 3: taken as failed, and avoided"]


def test_a_text_in_the_target_is_a_failed_trial(mercer: Mercer, tmp_path: Path) -> None:
    name = table(tmp_path / "trials.csv", "x,y\n1,2\n2,broken\n3,failed\n4,1\n9,5\n8,lost\n")
    result = mercer("suggest", name, "--target", "y", "--bounds", "x=0:10", "--out", "next.csv", "--json")
    assert result.code == 0, result.out
    assert result.document["explanation"]["failed"] == 3
    assert result.document["notes"] == [
        "no value of 'y' in data row 3: taken as failed, and avoided",
        "no number of 'y' in data rows 2, 6 ('broken', 'lost'): taken as failed, and avoided",
    ]


@pytest.mark.parametrize(
    ("content", "best"),
    [("x;y\n1,5;2,25\n2,5;failed\n4;1,75\n9;5\n", 1.75), ("x,y\n1,2 kg\n2,failed\n4,1.5 kg\n9,5 kg\n", 1.5)],
)
def test_the_target_is_read_as_any_column(mercer: Mercer, tmp_path: Path, content: str, best: float) -> None:
    name = table(tmp_path / "trials.csv", content)
    result = mercer("suggest", name, "--target", "y", "--bounds", "x=0:10", "--out", "next.csv", "--json")
    assert result.code == 0, result.out
    assert (result.document["explanation"]["best"]["y"], result.document["explanation"]["failed"]) == (best, 1)


def test_a_suggestion_that_failed_is_a_failed_trial(mercer: Mercer, tmp_path: Path) -> None:
    rows = "60.5,b,failed,improve,50,1\n40.5,a,,improve,49,1\n"
    head, *lines = many(12).splitlines()
    given = "\n".join([f"{head},purpose,expected,spread", *(f"{line},,," for line in lines), rows])
    name = table(tmp_path / "trials.csv", given)
    result = mercer("suggest", name, "--target", "yield", "--maximize", *BOUNDS, "--out", "next.csv")
    assert result.code == 0, result.out
    for words in ("1 trial failed;", "in data row 13: taken as failed", "data row 14, count as being tried"):
        assert words in result.out
    for words in ("read as missing", "by somebody else"):
        assert words not in " ".join(result.out.split())


def test_the_page_shows_the_command_that_goes_on(mercer: Mercer, tmp_path: Path) -> None:
    name = table(tmp_path / "trials.csv", FEW)
    result = mercer("suggest", name, "--target", "yield", *BOUNDS, "--exclude", "comment", "--count", "2", "--out",
                    "next.csv", "--report", "my page.html")  # fmt: skip
    assert result.code == 0, result.err
    assert "comment" in pd.read_csv("next.csv").columns
    page = html.unescape(Path("my page.html").read_text(encoding="utf-8"))
    assert (
        f"mercer suggest {name} --target yield --bounds temperature=20:90 --bounds solvent=a,b,c --exclude comment "
        "--count 2 --out next.csv --report 'my page.html'"
    ) in page
    assert "study.mercer" not in page


def test_a_column_that_is_not_varied_need_not_be_readable(mercer: Mercer, tmp_path: Path) -> None:
    name = table(tmp_path / "trials.csv", "x,odd,y\n1,1,2\n2,2,3\n3,three,4\n4,4,5\n5,5,6\n")
    arguments = ["suggest", name, "--target", "y", "--bounds", "x=0:10", "--out", "next.csv"]
    refused = mercer(*arguments)
    assert refused.code == 2
    assert "--exclude" in refused.err
    for option in (["--exclude", "odd"], ["--inputs", "x"]):
        assert mercer(*arguments, *option).code == 0


def test_what_is_unusual_is_a_note(mercer: Mercer, tmp_path: Path) -> None:
    name = table(tmp_path / "trials.csv", "x,n,kind,y\n1,1,red,5\n2,3,blue,5\n12,2,red,5\n")
    result = mercer("suggest", name, "--target", "y", "--bounds", "x=0:10", "--out", "next.csv")
    assert result.code == 0, result.err
    for word in ("column 'n' has no bounds: its range, 1 to 3", "its values 'blue', 'red' are the choices",
                 "all values of 'y' are equal", "'x' = 12 lies outside its bounds"):  # fmt: skip
        assert word in result.out


BAD = {
    "no such target": (FEW, ["--target", "yeild"], ["no target column 'yeild'", "Did you mean 'yield'"]),
    "unknown category": (FEW.replace(",b,", ",d,"), [], ["data row 2", "'solvent' has no choice 'd'"]),
    "text in a number column": (FEW.replace("70,", "hot,"), [], ["'temperature', data row 2", "'hot' is not a number"]),
    "numbers in the target that can be read in two ways": (
        "temperature;solvent;yield\n30;a;1.234\n40;b;2.345\n50;a;bad\n", [], ["'yield'", "--decimal"],
    ),
    "no number in the target": (
        FEW.replace("10.5", "good").replace("22", "bad").replace("18", "12 kg"), [],
        ["'yield', data row 1", "'good' is not a number"],
    ),
    "a gap in a column without bounds": (
        "temperature,solvent,dose,yield\n30,a,x,1\n40,b,,2\n", [], ["'dose' has 1 missing entry, in data row 2"],
    ),
    "one text in a column without bounds": (
        "temperature,solvent,dose,yield\n30,a,x,1\n40,b,x,2\n", [], ["--bounds dose=a,b", "(--exclude dose)"],
    ),
    "equal bounds": (FEW, ["--bounds", "comment=1:1"], ["Give a range, or leave the input out.\n"]),
    "a logarithm of zero": (FEW, ["--bounds", "comment=0:1:log"], ["or bounds that are a plain range"]),
    "missing input": (FEW.replace("70,", ","), [], ["'temperature' has 1 missing entry", "data row 2"]),
    "one trial": ("temperature,solvent,yield\n30,a,1\n", [], ["has 1 of the 2 trials with a value of 'yield'"]),
    "no value": ("temperature,solvent,yield\n30,a,\n40,b,\n", [], ["has 0 of the 2 trials"]),
    "reversed bounds": (FEW, ["--bounds", "comment=9:1"], ["bounds of 'comment' are reversed"]),
    "bounds of nothing": (FEW, ["--bounds", "pressure=1:2"], ["no input 'pressure'"]),
    "bounds twice": (FEW, ["--bounds", "temperature=1:2"], ["'temperature' has bounds already"]),
    "bounds without an end": (FEW, ["--bounds", "temperature="], ["are not complete"]),
    "unknown input": (FEW, ["--inputs", "temperatur"], ["no input column 'temperatur'", "Did you mean"]),
    "a column of ours": (FEW.replace("comment", "spread"), [], ["has a column 'spread'", "rename"]),
    "only the target": ("yield\n1\n2\n", [], ["no input column beside the target"]),
    "a fraction of a whole number": (
        FEW.replace("30,", "30.5,"), ["--inputs", "temperature", "--bounds", "temperature=1:99:integer"],
        ["data row 1", "whole number"],
    ),
    "no kernel": (FEW, ["--kernel", "SE * ("], ["SE * ("]),
    "nothing to suggest": (FEW, ["--count", "0"], ["--count"]),
    "output over the input": (FEW, ["--out", "trials.csv"], ["would be lost"]),
    "page in place of the table": (FEW, ["--report", "trials.csv"], ["would be lost"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_a_sentence_and_nothing_is_lost(mercer: Mercer, tmp_path: Path, case: str) -> None:
    content, options, told = BAD[case]
    name = table(tmp_path / "trials.csv", content)
    given = [] if any(word.startswith("temperature=") and ":99" in word for word in options) else BOUNDS
    names = ["--inputs", "temperature,solvent"] if "--inputs" not in options and "comment" in content else []
    if any(word.startswith("comment=") for word in options) or "spread" in content:
        names = []
    if "only the target" in case:
        given = []
    arguments = ["--target", "yield", "--out", "next.csv", *given, *names, *options]
    result = mercer("suggest", name, *arguments)
    assert result.code == 2, result.out
    for word in told:
        assert word in result.err
    assert (tmp_path / "trials.csv").read_text() == content
    assert not (tmp_path / "next.csv").exists()


def test_a_study_is_not_a_model(mercer: Mercer, tmp_path: Path) -> None:
    Optimizer([(0, 1)]).save(tmp_path / "study.mercer")
    table(tmp_path / "new.csv", "x\n1\n")
    for command in (["explain", "study.mercer"], ["predict", "study.mercer", "new.csv", "--out", "out.csv"]):
        result = mercer(*command)
        assert result.code == 2
        assert "holds a study" in result.err
