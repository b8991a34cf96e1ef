"""Rows that are not in memory: Parquet read in parts; equal to a table in memory; damage told in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.policies import regressor_with

import mercer
from mercer.errors import InputError, ModelFileError
from mercer.estimators.streams import StreamPolicy, scan
from mercer.inference.likelihood import Gaussian
from mercer.inference.vfe import VFE
from mercer.learners.many_rows import ManyRowsPolicy
from mercer.tables.reading import read_table

ENGINE = VFE(inducing=25)
# Streams are streams from 200 rows on, and fits are short.
Regressor = regressor_with(ManyRowsPolicy(rounds=2, iterations=6), StreamPolicy(sample=200))
KERNEL = "SE(a) + LIN(b)"


def table(rows: int = 900, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.uniform(0, 10, rows), "b": rng.uniform(0, 10, rows)})
    frame["y"] = np.sin(frame["a"]) + 0.2 * frame["b"] + 0.1 * rng.normal(size=rows)
    return frame


def written(frame: pd.DataFrame, file: Path, group: int = 128) -> Path:
    frame.to_parquet(file, index=False, row_group_size=group)
    return file


def test_the_scan_is_that_of_the_whole_table_and_the_sample_is_of_its_rows() -> None:
    values = table(700).to_numpy()
    parts = [scan(part[:, :-1], part[:, -1], 200) for part in np.array_split(values, 6)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    assert total.count == 700
    np.testing.assert_allclose(total.mean, values.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(total.squares / 700, values.var(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(total.least, values.min(axis=0))
    np.testing.assert_array_equal(total.most, values.max(axis=0))
    assert len(total.rows) == 200
    places = [np.flatnonzero((values == row).all(axis=1)) for row in total.rows]
    assert all(len(p) == 1 for p in places)
    assert (np.diff(np.ravel(places)) > 0).all()  # in their order, none twice


def test_the_sample_favours_no_part() -> None:
    parts = [
        scan(np.full((1000, 1), float(k)) + np.random.default_rng(k).random((1000, 1)), np.zeros(1000), 200)
        for k in range(8)
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    counts = np.bincount(total.rows[:, 0].astype(int), minlength=8)
    assert counts.sum() == 200
    assert counts.min() > 8  # 25 are expected of each; four standard deviations below are 7


def test_a_stream_gives_the_evidence_and_posterior_of_the_table(tmp_path: Path) -> None:
    """At the same values and points: the sums over parts are those over the whole."""
    frame = table()
    rows = mercer.ParquetRows(written(frame, tmp_path / "rows.parquet"), target="y")
    streamed = Regressor(KERNEL, inference=ENGINE, restarts=2, random_state=0).fit(rows)
    assert streamed.inference_.engine == ENGINE
    assert "900 rows" in streamed.inference_.reason
    assert streamed.X_train_.shape == (200, 2)
    member = streamed.fitted_.mixture.members[0]
    data = streamed.fitted_.training.data
    assert data.count == 900
    from mercer.compute.program import compile_program
    from mercer.inference.contract import Data
    from mercer.inference.vfe import FixedVFE
    from mercer.kernels.parameters import values_of

    shift, scale = np.array(streamed.fitted_.units.shift), np.array(streamed.fitted_.units.scale)
    whole = Data(
        (frame[["a", "b"]].to_numpy() - shift) / scale,
        (frame["y"].to_numpy() - streamed.fitted_.training.level) / streamed.fitted_.units.y_scale,
        True,
    )
    program, values = compile_program(member.kernel), values_of(member.kernel)
    engine = FixedVFE(member.posterior.solution.model.Z, block=70)
    for gradient in (False, True):
        one, other = (engine.evidence(program, values, Gaussian(member.noise), d, gradient) for d in (data, whole))
        assert one.value == pytest.approx(other.value, rel=1e-10)
    np.testing.assert_allclose(one.gradient, other.gradient, rtol=1e-7, atol=1e-6)
    assert one.noise_gradient == pytest.approx(other.noise_gradient, abs=1e-6)
    new = whole.X[:20]
    exactly = engine.posterior(program, values, Gaussian(member.noise), whole)
    np.testing.assert_allclose(member.posterior.predict(new).mean, exactly.predict(new).mean, rtol=1e-8)
    assert streamed.loo_ == pytest.approx(
        exactly.left_out_score() - 900 * np.log(streamed.fitted_.units.y_scale), rel=1e-9
    )


def test_a_stream_predicts_as_well_as_the_table(tmp_path: Path) -> None:
    frame, new = table(), table(100, seed=1)
    rows = mercer.ParquetRows(written(frame, tmp_path / "rows.parquet"), target="y")
    streamed = Regressor(KERNEL, inference=ENGINE, restarts=2, random_state=0).fit(rows)
    whole = Regressor(KERNEL, inference=ENGINE, restarts=2, random_state=0).fit(frame[["a", "b"]], frame["y"])
    truth = np.sin(new["a"]) + 0.2 * new["b"]
    errors = [np.sqrt(np.mean((m.predict(new[["a", "b"]]) - truth) ** 2)) for m in (streamed, whole)]
    assert errors[0] < 0.05
    assert errors[0] < 1.3 * errors[1]
    assert streamed.target_name_ == "y"
    assert list(streamed.feature_names_in_) == ["a", "b"]
    assert any("read in parts" in note for note in streamed.notes_)
    assert streamed.explain().to_json()["expression"]


def test_a_saved_stream_predicts_the_same_without_its_rows(tmp_path: Path) -> None:
    file = written(table(), tmp_path / "rows.parquet")
    model = Regressor(KERNEL, inference=ENGINE, restarts=2, random_state=0).fit(mercer.ParquetRows(file, target="y"))
    model.save(tmp_path / "model.mercer")
    file.unlink()
    again = mercer.load(tmp_path / "model.mercer")
    new = table(30, seed=2)[["a", "b"]]
    for one, other in zip(model.predict(new, return_std=True), again.predict(new, return_std=True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert again.bic_ == model.bic_
    assert again.explain().expression == model.explain().expression
    with pytest.raises(InputError, match="not in its file"):
        again.fitted_.mixture.members[0].posterior.left_out_score()


def test_few_rows_are_simply_read(tmp_path: Path) -> None:
    frame = table(60)
    rows = mercer.ParquetRows(written(frame, tmp_path / "rows.parquet"), target="y", inputs=["a"])
    model = Regressor("SE", random_state=0).fit(rows)
    assert model.inference_.engine == mercer.Exact()
    whole = Regressor("SE", random_state=0).fit(frame[["a"]], frame["y"])
    assert model.log_evidence_ == pytest.approx(whole.log_evidence_, rel=1e-9)


def test_several_files_and_folders_are_one_stream(tmp_path: Path) -> None:
    frame = table()
    parts = tmp_path / "parts"
    parts.mkdir()
    for number, part in enumerate(np.array_split(np.arange(900), 4)):
        written(frame.iloc[part], parts / f"part-{number}.parquet")
    one = mercer.ParquetRows(written(frame, tmp_path / "rows.parquet"), target="y")
    for several in (mercer.ParquetRows(parts, target="y"), mercer.ParquetRows(sorted(parts.iterdir()), target="y")):
        gathered = np.concatenate([np.column_stack(block) for block in several.blocks(77)])
        np.testing.assert_array_equal(gathered, np.concatenate([np.column_stack(b) for b in one.blocks(1000)]))


def test_rows_without_a_target_are_left_out(tmp_path: Path) -> None:
    frame = table(300)
    frame.loc[::3, "y"] = np.nan
    rows = mercer.ParquetRows(written(frame, tmp_path / "rows.parquet"), target="y")
    with pytest.warns(mercer.DataWarning, match="100 of 300 rows"):
        model = Regressor("LIN", random_state=0).fit(rows)
    assert len(model.y_train_) == 200


# -------------------------------------------------------------------------------------------------------- bad input


def refused(rows: mercer.ParquetRows, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Regressor(KERNEL).fit(rows)


def test_columns_that_change_halfway(tmp_path: Path) -> None:
    written(table(300), tmp_path / "1.parquet")
    written(table(300).rename(columns={"b": "c"}), tmp_path / "2.parquet")
    refused(mercer.ParquetRows(tmp_path, target="y"), r"'2.parquet' has no column 'b', unlike '1.parquet'")
    written(table(300).astype({"b": str}), tmp_path / "2.parquet")
    refused(mercer.ParquetRows(tmp_path, target="y"), "column 'b' of '2.parquet' holds .*string")


def test_columns_in_another_order_are_the_same_columns(tmp_path: Path) -> None:
    written(table(50), tmp_path / "1.parquet")
    written(table(50)[["y", "b", "a"]], tmp_path / "2.parquet")
    one, other = mercer.ParquetRows(tmp_path, target="y").blocks(100)
    np.testing.assert_array_equal(one[0], other[0])


def test_a_file_that_was_cut_off(tmp_path: Path) -> None:
    file = written(table(3000), tmp_path / "rows.parquet")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    refused(mercer.ParquetRows(file, target="y"), "cannot be read as a Parquet file")


def test_a_file_that_is_damaged_inside(tmp_path: Path) -> None:
    file = written(table(3000), tmp_path / "rows.parquet", group=500)
    broken = bytearray(file.read_bytes())
    middle = len(broken) // 2
    broken[middle : middle + 4000] = bytes(4000)
    file.write_bytes(bytes(broken))
    refused(mercer.ParquetRows(file, target="y"), "cannot be read from row|holds|infinite")


def test_a_checksum_that_is_wrong(tmp_path: Path) -> None:
    """Zeros inside a page of numbers are numbers too; only a checksum tells."""
    path = tmp_path / "zeros.parquet"
    settings = {"write_page_checksum": True, "compression": None, "use_dictionary": False}
    pd.DataFrame(np.random.default_rng(0).normal(size=(5000, 3)), columns=["a", "b", "y"]).to_parquet(path, **settings)
    whole = bytearray(path.read_bytes())
    whole[20_000:20_800] = bytes(800)
    path.write_bytes(whole)
    refused(mercer.ParquetRows(path, target="y"), "damaged")
    with pytest.raises(InputError, match="damaged"):
        read_table(path)


def test_numbers_that_are_none(tmp_path: Path) -> None:
    frame = table(300)
    frame.loc[217, "b"] = np.inf
    refused(
        mercer.ParquetRows(written(frame, tmp_path / "rows.parquet"), target="y"), "row 218: column 'b' holds infinity"
    )
    frame.loc[217, "b"] = np.nan
    refused(
        mercer.ParquetRows(written(frame, tmp_path / "rows.parquet"), target="y"), r"row 218: column 'b' holds nothing"
    )
    frame["b"], frame.loc[5, "y"] = 1.0, np.inf
    refused(mercer.ParquetRows(written(frame, tmp_path / "rows.parquet"), target="y"), "row 6: the target is infinite")


def test_names_that_are_not_there(tmp_path: Path) -> None:
    file = written(table(30), tmp_path / "rows.parquet")
    refused(mercer.ParquetRows(file, target="z"), "no target column 'z'; the columns are")
    refused(mercer.ParquetRows(file, target="y", inputs=["a", "q"]), "has no column 'q'")
    refused(mercer.ParquetRows(tmp_path / "none.parquet", target="y"), "There is no file")
    (tmp_path / "empty").mkdir()
    refused(mercer.ParquetRows(tmp_path / "empty", target="y"), "no Parquet file")
    with pytest.raises(InputError, match="without y"):
        Regressor(KERNEL).fit(mercer.ParquetRows(file, target="y"), np.zeros(30))


def test_only_sparse_inference_works_in_parts(tmp_path: Path) -> None:
    rows = mercer.ParquetRows(written(table(30), tmp_path / "rows.parquet"), target="y")
    for engine in (mercer.Exact(), mercer.RandomFeatures()):
        with pytest.raises(InputError, match="need sparse inference"):
            Regressor(KERNEL, inference=engine).fit(rows)


def test_a_file_that_changes_meanwhile(tmp_path: Path) -> None:
    file = written(table(), tmp_path / "rows.parquet")

    def change(*_: Any) -> None:
        """Write another row while the sample is learned from."""
        written(table(901), file)

    model = Regressor(KERNEL, inference=ENGINE, restarts=1)
    with pytest.raises(InputError, match="there were 900 rows and now there are 901"):
        model.fit(mercer.ParquetRows(file, target="y"), progress=change)


def test_a_damaged_model_file(tmp_path: Path) -> None:
    import zipfile

    rows = mercer.ParquetRows(written(table(), tmp_path / "rows.parquet"), target="y")
    Regressor(KERNEL, inference=ENGINE, restarts=2, random_state=0).fit(rows).save(tmp_path / "model.mercer")
    with zipfile.ZipFile(tmp_path / "model.mercer") as old, zipfile.ZipFile(tmp_path / "less.mercer", "w") as new:
        for name in old.namelist():
            if name != "gram0.npy":
                new.writestr(name, old.read(name))
    with pytest.raises(ModelFileError, match="damaged"):
        mercer.load(tmp_path / "less.mercer")


def test_few_rows_of_a_stream_choose_as_a_table_does(tmp_path: Path) -> None:
    """A network is trained exactly on no more than its own number of rows, wherever they come from."""
    few = regressor_with(ManyRowsPolicy(sample=60, rounds=1, iterations=2))
    frame = table(150)

    class SmallNetwork(mercer.NeuralKernelNetwork):
        most_rows = 100

    network = SmallNetwork(primitives="SE + LIN", layers="Linear2-Linear1", restarts=1, average=False)
    in_parts = few(network, random_state=0)
    in_parts.fit(mercer.ParquetRows(written(frame, tmp_path / "few.parquet"), target="y"))
    whole = few(network, random_state=0).fit(frame[["a", "b"]], frame["y"])
    assert in_parts.inference_ == whole.inference_
    assert isinstance(in_parts.inference_.engine, VFE)
