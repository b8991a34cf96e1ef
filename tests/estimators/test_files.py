"""Model files: a faithful round trip, and nothing but `ModelFileError` from a file that is not one."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import mercer
from mercer import GPRegressor, GrammarSearch, InputError, ModelFileError
from mercer.kernels import LIN, PER, SE, fixed
from mercer.model.fitted import LEARNERS

Array = NDArray[np.float64]
NEW = np.linspace(-3, 60, 17)[:, None]


def series() -> tuple[Array, Array]:
    x = np.arange(40.0)
    return x[:, None], 5 + np.sin(x / 2) + 0.05 * x + 0.1 * np.cos(97 * x)


@pytest.fixture(scope="module")
def model() -> GPRegressor:
    return GPRegressor("SE*PER + LIN", restarts=2, random_state=3).fit(*series())


@pytest.fixture(scope="module")
def file(model: GPRegressor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "series.mercer"
    model.save(path)
    return path


def parts_of(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(path: Path, parts: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def with_document(file: Path, path: Path, document: Any) -> Path:
    return written(path, parts_of(file) | {"model.json": json.dumps(document).encode()})


def saved_array(array: Any, allow_pickle: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


# ---------------------------------------------------------------------------------------------------------- round trip


def check_same(model: GPRegressor, other: GPRegressor, rows: Any) -> None:
    for one, two in zip(model.predict(rows, return_std=True), other.predict(rows, return_std=True), strict=True):
        assert_allclose(two, one, rtol=1e-10, atol=1e-9 * model.fitted_.units.y_scale)
    for part, twin in zip(model.decompose(rows), other.decompose(rows), strict=True):
        assert_allclose(twin.mean, part.mean, rtol=1e-8, atol=1e-6 * model.fitted_.units.y_scale)
    assert other.kernel_ == model.kernel_
    scores = ("noise_", "log_evidence_", "bic_", "loo_", "jitter_", "n_parameters_")
    for name in (*scores, "status_", "message_", "stopped_"):
        assert getattr(other, name) == getattr(model, name)


def test_a_model_comes_back_as_it_was(model: GPRegressor, file: Path) -> None:
    other = mercer.load(file)
    check_same(model, other, NEW)
    assert other.get_params() == model.get_params()
    assert other.n_features_in_ == 1
    assert_allclose(other.sample_y(NEW, 3, random_state=1), model.sample_y(NEW, 3, random_state=1), rtol=1e-6)
    assert_allclose(other.leave_one_out()[0], model.leave_one_out()[0], rtol=1e-9)
    assert isinstance(mercer.load(str(file)), GPRegressor)


def test_a_loaded_model_can_be_saved_and_fitted_again(file: Path, tmp_path: Path) -> None:
    other = mercer.load(file)
    other.save(tmp_path / "again.mercer")
    check_same(other, mercer.load(tmp_path / "again.mercer"), NEW)
    assert parts_of(file)["X.npy"] == parts_of(tmp_path / "again.mercer")["X.npy"]
    assert np.isfinite(other.fit(*series()).log_evidence_)


def test_expressions_options_and_numpy_numbers_are_kept(tmp_path: Path) -> None:
    kernel = SE(0, lengthscale=fixed(7.0)) * PER(0, period=12.566) + LIN(0)
    options: dict[str, Any] = {
        "noise": np.float64(0.01), "restarts": np.int64(1), "priors": "weak", "max_iterations": np.int32(150),
        "n_jobs": 1, "random_state": np.int64(4),
    }  # fmt: skip
    model = GPRegressor(kernel, **options).fit(*series())
    model.save(tmp_path / "m.mercer")
    other = mercer.load(tmp_path / "m.mercer")
    check_same(model, other, NEW)
    assert mercer.parse(str(other.kernel)) == kernel
    kept = other.get_params()
    assert {name: kept[name] for name in options} == options
    assert next(other.kernel_.leaves()).parameter("lengthscale").fixed


def test_tables_with_dates_and_categories_come_back(tmp_path: Path) -> None:
    table = pd.DataFrame({"when": pd.date_range("2001-01-01", periods=40, freq="MS"), "kind": ["a", "b"] * 20})
    model = GPRegressor("SE(when) + SE", restarts=1, random_state=0).fit(table, series()[1])
    model.save(tmp_path / "m.mercer")
    other = mercer.load(tmp_path / "m.mercer")
    check_same(model, other, table.iloc[:7])
    assert list(other.feature_names_in_) == ["when", "kind"]
    assert list(other.column_names_) == list(model.column_names_)


def test_columns_that_were_ignored_stay_ignored(tmp_path: Path) -> None:
    X, y = series()
    wide = np.column_stack([np.full(40, 7.0), X[:, 0]])
    with pytest.warns(mercer.DataWarning, match="never change"):
        model = GPRegressor("SE", restarts=1, random_state=0).fit(wide, y)
    model.save(tmp_path / "m.mercer")
    check_same(model, mercer.load(tmp_path / "m.mercer"), wide)


@pytest.mark.parametrize("size", [1e12, 1e-12])
def test_very_large_and_very_small_units_come_back(size: float, tmp_path: Path) -> None:
    X, y = series()
    model = GPRegressor("SE*PER + LIN", restarts=1, random_state=0).fit(X * size, y * size)
    model.save(tmp_path / "m.mercer")
    check_same(model, mercer.load(tmp_path / "m.mercer"), NEW * size)


def test_a_file_holds_text_and_numbers_only(file: Path) -> None:
    parts = parts_of(file)
    assert set(parts) == {"model.json", "X.npy", "y.npy"}
    document = json.loads(parts["model.json"])
    assert document["format"] == "mercer-model"
    assert document["version"] == 3
    for name in ("X.npy", "y.npy"):
        assert np.load(io.BytesIO(parts[name]), allow_pickle=False).dtype == np.float64


# ---------------------------------------------------------------------------------------------- files from strangers


class Trap:
    """Unpickling this would leave a file behind."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.mark),))


def test_a_pickle_inside_an_array_is_refused(file: Path, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    trap = np.array([Trap(mark)], dtype=object)
    for content in (saved_array(trap, allow_pickle=True), pickle.dumps(Trap(mark))):
        bad = written(tmp_path / "bad.mercer", parts_of(file) | {"X.npy": content})
        with pytest.raises(mercer.ModelFileError, match=r"damaged"):
            mercer.load(bad)
    (tmp_path / "whole.mercer").write_bytes(pickle.dumps(Trap(mark)))
    with pytest.raises(mercer.ModelFileError):
        mercer.load(tmp_path / "whole.mercer")
    assert not mark.exists()


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_a_truncated_file(file: Path, tmp_path: Path, share: float) -> None:
    whole = file.read_bytes()
    (tmp_path / "cut.mercer").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(mercer.ModelFileError, match=r"cut\.mercer"):
        mercer.load(tmp_path / "cut.mercer")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_flipped_bytes(file: Path, tmp_path: Path, data: st.DataObject) -> None:
    """Checksums find nearly all of them; whatever passes must still load as a model or say that it is damaged."""
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "bent.mercer").write_bytes(bytes(content))
    load_or_refuse(tmp_path / "bent.mercer")


def load_or_refuse(path: Path) -> None:
    try:
        model = mercer.load(path)
    except mercer.ModelFileError as error:
        assert path.name in str(error)  # noqa: PT017
        return
    assert model.predict(np.zeros((2, model.n_features_in_))).shape == (2,)


def test_a_newer_file_says_so(file: Path, tmp_path: Path) -> None:
    document = json.loads(parts_of(file)["model.json"]) | {"version": 99, "kernel": {"something": "new"}}
    with pytest.raises(mercer.ModelFileError, match=r"newer.*99"):
        mercer.load(with_document(file, tmp_path / "new.mercer", document))


@pytest.mark.parametrize("version", [None, "1", 1.5, -1, 0, True, []])
def test_a_version_that_is_none(file: Path, tmp_path: Path, version: Any) -> None:
    document = json.loads(parts_of(file)["model.json"]) | {"version": version}
    with pytest.raises(mercer.ModelFileError):
        mercer.load(with_document(file, tmp_path / "odd.mercer", document))


def test_other_files(file: Path, tmp_path: Path) -> None:
    (tmp_path / "text.mercer").write_text("SE*PER + LIN")
    with zipfile.ZipFile(tmp_path / "other.mercer", "w") as archive:
        archive.writestr("readme.txt", "not a model")
    with_document(file, tmp_path / "list.mercer", [1, 2])
    with_document(file, tmp_path / "format.mercer", {"format": "another", "version": 1})
    written(tmp_path / "json.mercer", parts_of(file) | {"model.json": b"{not json"})
    written(tmp_path / "deep.mercer", parts_of(file) | {"model.json": b"[" * 100_000})
    for name in ("text", "other", "list", "format", "json", "deep"):
        with pytest.raises(mercer.ModelFileError, match=f"{name}.mercer"):
            mercer.load(tmp_path / f"{name}.mercer")
    with pytest.raises(mercer.ModelFileError, match=r"no file.*absent\.mercer"):
        mercer.load(tmp_path / "absent.mercer")
    with pytest.raises(mercer.ModelFileError, match="folder"):
        mercer.load(tmp_path)


@pytest.mark.parametrize(
    "arrays",
    [
        {"X.npy": saved_array(np.zeros(40))},
        {"X.npy": saved_array(np.zeros((39, 1)))},
        {"X.npy": saved_array(np.full((40, 1), np.nan))},
        {"X.npy": saved_array(np.zeros((40, 1), dtype=np.int64))},
        {"X.npy": saved_array(np.zeros((40, 2)))},
        {"X.npy": saved_array(np.zeros((40, 0)))},
        {"X.npy": saved_array(np.array("text"))},
        {"y.npy": saved_array(np.full(40, np.inf))},
        {"y.npy": saved_array(np.zeros((40, 1)))},
        {"y.npy": saved_array(np.zeros(40, dtype=complex))},
        {"y.npy": b""},
        {"y.npy": saved_array(np.zeros(40))[:200]},
        {"X.npy": saved_array(np.zeros((0, 1))), "y.npy": saved_array(np.zeros(0))},
    ],
)
def test_arrays_that_do_not_fit(file: Path, tmp_path: Path, arrays: dict[str, bytes]) -> None:
    with pytest.raises(mercer.ModelFileError, match=r"odd\.mercer"):
        mercer.load(written(tmp_path / "odd.mercer", parts_of(file) | arrays))


def test_a_file_that_would_fill_the_memory_is_not_unpacked(file: Path, tmp_path: Path) -> None:
    """A directory that promises three gigabytes; and an array whose header promises as much."""
    path = written(tmp_path / "large.mercer", parts_of(file))
    content = bytearray(path.read_bytes())
    place = content.find(b"PK\x01\x02")
    content[place + 24 : place + 28] = (3 * 10**9).to_bytes(4, "little")
    path.write_bytes(bytes(content))
    with pytest.raises(ModelFileError, match=r"large\.mercer' would unpack from .* MB to 3,0\d\d MB"):
        mercer.load(path)
    buffer = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (3 * 10**8, 1)}
    np.lib.format.write_array_header_1_0(buffer, header)
    path = written(tmp_path / "long.mercer", parts_of(file) | {"X.npy": buffer.getvalue() + bytes(800)})
    with pytest.raises(ModelFileError, match=r"array X\.npy is not as long as it says"):
        mercer.load(path)


DAMAGED = {
    "restarts": "six", "noise": -1.0, "priors": "strong", "n_jobs": 0, "random_state": -4, "max_iterations": True,
    "device": 3,
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_settings_are_checked_when_they_are_read(file: Path, tmp_path: Path, name: str) -> None:
    document = json.loads(parts_of(file)["model.json"])
    document["options"][name] = DAMAGED[name]
    with pytest.raises(ModelFileError, match=f"damaged: its setting {name} is"):
        mercer.load(with_document(file, tmp_path / "m.mercer", document))
    del document["options"][name]
    with pytest.raises(ModelFileError, match="damaged"):
        mercer.load(with_document(file, tmp_path / "m.mercer", document))


@pytest.mark.parametrize(("name", "value"), [("bases", 5), ("time_budget", "long"), ("operators", "?"), ("race", 1)])
def test_settings_of_a_learner_are_checked_when_they_are_read(
    file: Path, tmp_path: Path, name: str, value: Any
) -> None:
    document = json.loads(parts_of(file)["model.json"])
    document["options"]["kernel"] = {"learner": "search", "settings": {name: value}}
    with pytest.raises(ModelFileError, match="damaged"):
        mercer.load(with_document(file, tmp_path / "m.mercer", document))


def test_units_and_columns_that_are_not_those_of_the_data(file: Path, tmp_path: Path) -> None:
    document = json.loads(parts_of(file)["model.json"])
    for change in ({"time_column": 0.0}, {"level": 1e200}, {"units": document["units"] | {"scale": [1e-60]}}):
        with pytest.raises(ModelFileError, match="damaged"):
            mercer.load(with_document(file, tmp_path / "m.mercer", document | change))


# Anything that JSON can hold, numbers at the ends of their range among it.
ENDS = [10**400, -(10**30), 1e308, 1e-308, 1e200, 1e-200, float("inf"), float("-inf"), float("nan"), 0, -1, 10**9]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from(ENDS),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.sampled_from(["SE", "LIN + PER", "SE(7)", "cuda", "weak", "\x00", "SE(" * 50]),
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3), max_leaves=6)  # fmt: skip  # noqa: E501


def places_in(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in items:
        found += places_in(child, (*path, key))
    return found


def changed(document: Any, data: st.DataObject) -> Any:
    """One place of the document replaced, dropped or doubled."""
    document = json.loads(json.dumps(document))
    *way, last = data.draw(st.sampled_from(places_in(document)))
    parent = document
    for key in way:
        parent = parent[key]
    action = data.draw(st.sampled_from(["replace", "replace", "replace", "drop", "double"]))
    if action == "drop":
        del parent[last]
    elif action == "double" and isinstance(parent, list):
        parent.append(parent[last])
    else:
        parent[last] = data.draw(VALUES)
    return document


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize("end", [*ENDS, None, "text", [], {}, [[]], True], ids=lambda end: repr(end)[:9])
def test_every_place_of_the_document_with_a_value_it_cannot_have(file: Path, tmp_path: Path, end: Any) -> None:
    """Infinite numbers, whole numbers beyond any float, wrong kinds of value: in each place in turn."""
    document = json.loads(parts_of(file)["model.json"])
    for *way, last in places_in(document):
        copy = json.loads(json.dumps(document))
        parent = copy
        for key in way:
            parent = parent[key]
        parent[last] = end
        load_or_refuse(with_document(file, tmp_path / "changed.mercer", copy))


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_document_loads_or_is_refused(file: Path, tmp_path: Path, data: st.DataObject) -> None:
    document = changed(json.loads(parts_of(file)["model.json"]), data)
    load_or_refuse(with_document(file, tmp_path / "changed.mercer", document))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_encoding_is_refused_or_works(tmp_path: Path, mixed: Path, data: st.DataObject) -> None:
    document = json.loads(parts_of(mixed)["model.json"])
    encoding = changed(document["encoding"], data)
    path = with_document(mixed, tmp_path / "changed.mercer", document | {"encoding": encoding})
    try:
        model = mercer.load(path)
        model.predict(pd.DataFrame({"when": pd.date_range("2001-01-01", periods=4, freq="MS"), "kind": list("abab")}))
    except mercer.InputError:  # at loading, or because the table does not fit the changed encoding
        pass


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = pd.DataFrame({"when": pd.date_range("2001-01-01", periods=40, freq="MS"), "kind": ["a", "b"] * 20})
    path = tmp_path_factory.mktemp("models") / "mixed.mercer"
    GPRegressor("SE", restarts=1, random_state=0).fit(table, series()[1]).save(path)
    return path


# ------------------------------------------------------------------------------------------------------------- writing


def test_a_place_that_cannot_be_written(model: GPRegressor, tmp_path: Path) -> None:
    for place in (tmp_path / "absent" / "m.mercer", tmp_path):
        with pytest.raises(mercer.InputError, match="cannot write"):
            model.save(place)


def test_a_model_that_is_not_fitted_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not fitted"):
        GPRegressor().save(tmp_path / "m.mercer")
    assert not (tmp_path / "m.mercer").exists()


def test_a_failed_writing_leaves_the_old_file(
    model: GPRegressor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.mercer"
    model.save(path)
    before = path.read_bytes()

    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(mercer.InputError, match="No space left"):
        model.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@dataclass(frozen=True)
class Patient(GrammarSearch):
    """A learner from outside."""


@dataclass(frozen=True)
class Careful(mercer.Exact):
    """An engine from outside."""


def test_learners_and_engines_from_outside_are_named_or_refused(tmp_path: Path) -> None:
    learner = Patient(bases=("SE", "LIN"), max_depth=0, restarts=1, average=False)
    model = GPRegressor(learner, random_state=0).fit(*series())
    with pytest.raises(InputError, match=r"the learner Patient, which has no name.*LEARNERS\['name'\] = Patient"):
        model.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())
    LEARNERS["patient"] = Patient
    try:
        model.save(tmp_path / "m")
        again = mercer.load(tmp_path / "m").kernel
        assert (type(again), again.max_depth) == (Patient, 0)
    finally:
        del LEARNERS["patient"]
    with pytest.raises(ModelFileError, match="it was learned by 'patient', and there is no learner of that name here"):
        mercer.load(tmp_path / "m")
    model = GPRegressor("SE", inference=Careful(), restarts=1, random_state=0).fit(*series())
    with pytest.raises(InputError, match="Careful is not among the engines that files name"):
        model.save(tmp_path / "n")
