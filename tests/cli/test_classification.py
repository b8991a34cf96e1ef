"""`mercer discover --task classification`, `--kernel kfo`, and prediction with a classifier."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mercer.cli.main import execute


@pytest.fixture
def flowers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 60)
    table = pd.DataFrame({
        "length": rng.normal(size=60) + 3 * kind, "width": rng.normal(size=60),
        "colour": rng.choice(["red", "blue"], 60),
        "species": np.array(["rose", "tulip"])[kind], "good": kind.astype(bool), "one": "same",
        "size": rng.normal(size=60),
    })  # fmt: skip
    table.loc[0, "species"] = None
    table.to_csv("flowers.csv", index=False)
    return tmp_path


def test_discover_predict_and_explain(flowers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["discover", "flowers.csv", "--target", "species", "--inputs", "length,width,colour"]
    assert execute([*arguments, "--task", "classification", "--kernel", "rbf", "--out", "out"]) == 0
    out = capsys.readouterr().out
    assert "species explained by length, width and colour" in out
    assert "1 of 60 rows have no class" in out
    page = (flowers / "out" / "report.html").read_text()
    assert "What is mixed up" in page
    assert "rose" in page
    explanation = json.loads((flowers / "out" / "explanation.json").read_text())
    assert explanation["classes"] == ["rose", "tulip"]
    assert explanation["error"] < 0.3
    assert explanation["relevance"][0]["share"] > 0
    assert execute(["predict", "out/model.mercer", "flowers.csv", "--out", "p.csv"]) == 0
    found = pd.read_csv("p.csv")
    assert set(found["class"]) == {"rose", "tulip"}
    np.testing.assert_allclose(found["probability_rose"] + found["probability_tulip"], 1.0)
    capsys.readouterr()
    assert execute(["explain", "out/model.mercer"]) == 0
    assert "rose (" in capsys.readouterr().out
    assert execute(["predict", "out/model.mercer", "p.csv", "--out", "q.csv"]) == 2
    assert "already has a column" in capsys.readouterr().err


def test_kfo_is_the_default_for_classes_and_time_ends_it(flowers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["discover", "flowers.csv", "--target", "good", "--inputs", "length,width", "--task", "classification"]
    assert execute([*arguments, "--time-budget", "0.5", "--out", "out", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["explanation"]["classes"] == ["False", "True"]
    steps = {candidate["step"] for candidate in json.loads(Path(told["files"]["candidates"]).read_text())["candidates"]}
    assert steps & {"scale", "tuning"}  # of the kernel inside; half a second may end before a functional is tried


def test_kfo_for_a_number(flowers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["discover", "flowers.csv", "--target", "length", "--inputs", "width,size", "--kernel", "kfo"]
    assert execute([*arguments, "--time-budget", "0.5", "--out", "out"]) == 0
    assert "No structure found" in capsys.readouterr().out  # it is pure noise; the time may not do to say so
    assert "KF(" in (flowers / "out" / "candidates.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target", "one", "--task", "classification"], "only one class"),
        (["--target", "size", "--task", "classification"], "fractions"),
        (["--target", "species", "--task", "guess"], "--task is regression or classification"),
        (["--target", "spices", "--task", "classification"], "no target column"),
        (["--target", "species", "--task", "classification", "--depth", "2"], "only for a search"),
        (["--target", "length", "--kernel", "kfo", "--time-budget", "-1"], "greater than zero"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[1:]),
)
def test_bad_input(flowers: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    assert execute(["discover", "flowers.csv", *arguments]) == 2
    assert words in capsys.readouterr().err
