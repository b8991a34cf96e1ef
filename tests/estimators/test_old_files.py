"""Files that earlier versions wrote: they load, predict what they did, and can be explained, saved and used.

scripts/write_model_files.py made the files and the predictions with the version that the folder is named after.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import mercer

FIXTURES = Path(__file__).parent.parent / "fixtures"
FILES = sorted(FIXTURES.glob("version-*/*.mercer"))
KINDS = {
    "change-point", "change-surface", "classes", "distilled", "exact", "functional", "functional-classes", "grid",
    "known-noise", "network", "plane-surface", "random-features", "search", "sparse", "stream", "table",
}  # fmt: skip


def name(file: Path) -> str:
    return f"{file.parent.name}/{file.stem}"


every_file = pytest.mark.parametrize("file", FILES, ids=name)


def expected(file: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((file.parent / "expected.json").read_text())["files"][file.stem]
    return record


def rows_of(record: dict[str, Any]) -> Any:
    rows = record["rows"]
    if not isinstance(rows, dict):
        return np.array(rows)
    table = pd.DataFrame(rows)
    return table.assign(when=pd.to_datetime(table["when"])) if "when" in table else table


def check_close(found: Any, wanted: Any) -> None:
    wanted = np.array(wanted)
    assert_allclose(found, wanted, rtol=1e-8, atol=1e-8 * np.abs(wanted).max())


def check_as_recorded(model: Any, record: dict[str, Any]) -> None:
    assert str(model.kernel_) == record["kernel"]
    if isinstance(model, mercer.KernelSVC):
        rows = rows_of(record)
        check_close(model.decision_function(rows), record["decision"])
        assert list(model.predict(rows)) == record["classes"]
        assert model.error_ == record["error"]
        return
    if isinstance(model, mercer.GridRegressor):
        mean, std = model.fill(return_std=True)
    else:
        mean, std = model.predict(rows_of(record), return_std=True)
        assert len(model.candidates_) == record["candidates"]
    check_close(mean, record["mean"])
    check_close(std, record["std"])
    for score in ("log_evidence", "bic", "noise"):
        assert getattr(model, f"{score}_") == record[score]


def test_there_is_a_file_of_each_kind() -> None:
    assert {file.stem for file in FILES} == KINDS


@every_file
def test_an_old_file_predicts_what_it_did(file: Path) -> None:
    check_as_recorded(mercer.load(file), expected(file))


@every_file
def test_an_old_file_written_again_predicts_the_same(file: Path, tmp_path: Path) -> None:
    mercer.load(file).save(tmp_path / "again.mercer")
    check_as_recorded(mercer.load(tmp_path / "again.mercer"), expected(file))


@pytest.mark.parametrize("file", [file for file in FILES if file.stem != "grid"], ids=name)
def test_an_old_file_can_be_explained(file: Path) -> None:
    model = mercer.load(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        explanation = model.explain()
    assert len(str(explanation)) > 200
    assert json.loads(json.dumps(explanation.to_json()))["format"].startswith("mercer-")


@pytest.mark.parametrize(
    ("stem", "named"),
    [
        ("search", "the lengthscale of PER(column 0) at its upper bound"),
        ("change-point", "the variance of C() at its lower bound"),
        ("table", "the variance of SE(size) at its lower bound"),
    ],
)
def test_an_old_file_names_the_parameter_at_a_bound(stem: str, named: str) -> None:
    """Version 0.1 wrote it as a part of the message only."""
    outcome = mercer.load(FIXTURES / "version-0.1" / f"{stem}.mercer").explain().outcome
    assert outcome.status == "at a bound"
    assert named in outcome.sentence
