"""Files of studies: saved, read by `mercer.load`, and refused where they are damaged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mercer
from mercer.optimise.loading import load

BOUNDS = {"a": (0.0, 1.0), "n": mercer.Integer(1, 5), "rate": mercer.Log(0.01, 1.0), "kind": ["x", "y"]}


def begun(kernel: Any = "auto") -> mercer.Optimizer:
    optimizer = mercer.Optimizer(BOUNDS, kernel, minimize=False, random_state=3)
    for _ in range(3):
        x = optimizer.ask()
        optimizer.tell(x, x["a"] + x["n"])
    optimizer.tell(optimizer.ask(), None)
    optimizer.ask(2)
    return optimizer


@pytest.mark.parametrize(
    "kernel", ["auto", "nkn", "search", "SE(0) + SE(1)", mercer.GrammarSearch(bases=("SE",), max_depth=1)]
)
def test_a_study_goes_on_from_its_file(tmp_path: Path, kernel: Any) -> None:
    optimizer = begun(kernel)
    optimizer.save(tmp_path / "study.mercer")
    again = mercer.load(tmp_path / "study.mercer")
    assert isinstance(again, mercer.Optimizer)
    assert again.trials_ == optimizer.trials_
    assert again.space == optimizer.space
    assert not again.minimize
    assert type(again.kernel) is type(optimizer.kernel)
    assert not isinstance(kernel, str) or again.kernel == kernel
    assert [each.x for each in again.suggestions_] == [each.x for each in optimizer.suggestions_]
    assert [each.reason for each in again.suggestions_] == [each.reason for each in optimizer.suggestions_]
    assert again.ask() == optimizer.ask()


def learned(kernel: Any, trials: int = 15) -> mercer.Optimizer:
    """A study that has learned something, and waits for the value of its last point."""
    optimizer = mercer.Optimizer([(0.0, 1.0), (0.0, 1.0), (0.0, 1.0)], kernel, random_state=1)
    for _ in range(trials):
        x = optimizer.ask()
        optimizer.tell(x, np.sin(5.0 * x[0]) + (x[1] - x[2]) ** 2)
    optimizer.ask()
    return optimizer


@pytest.mark.parametrize("kernel", ["auto", "SE(0) + M52(1, 2)", mercer.GrammarSearch(bases=("SE",), max_depth=1)])
def test_a_study_that_was_loaded_goes_on_as_if_it_had_never_stopped(tmp_path: Path, kernel: Any) -> None:
    optimizer = learned(kernel)
    optimizer.save(tmp_path / "current")
    again = mercer.load(tmp_path / "current")
    assert again.partitions_ == optimizer.partitions_ != []  # nothing is learned again
    for step in range(4):
        for each in (optimizer, again):
            each.tell(each.suggestions_[0].x, float(step))
        if step == 1:  # and so does one whose last value has taught nothing yet
            optimizer.save(tmp_path / "behind")
            again = mercer.load(tmp_path / "behind")
        np.testing.assert_array_equal(again.ask(), optimizer.ask())


def test_a_study_of_another_kernel_or_with_an_unreadable_belief_is_learned_again(tmp_path: Path) -> None:
    optimizer = learned("auto", 12)
    file = tmp_path / "study"
    optimizer.save(file)
    other = mercer.Optimizer(optimizer.space, "SE")
    other.resume(file)
    assert other.partitions_ == []
    belief = json.loads(file.read_text())["belief"]
    twice = belief["plain"] | {"fits": [[[[0], [0, 1, 2]], *belief["plain"]["fits"][0][1:]]]}
    wide = belief["plain"] | {"fits": [[*belief["plain"]["fits"][0][:2], [1e9] * 20, 0.0]]}
    family = belief["plain"] | {"fits": [[[[0, 1, 2]], "__import__('os')", *belief["plain"]["fits"][0][2:]]]}
    flat = belief["bent"] | {"target": [0.0, 1.0, 0.0, 0.0]}
    for spoilt in (None, 3, {}, {"plain": 1}, {"plain": twice}, {"plain": wide}, {"plain": family}, {"bent": flat},
                   {"seen": -1}, {"recent": ["x"]}):  # fmt: skip
        whole = belief | spoilt if spoilt and isinstance(spoilt, dict) else spoilt
        again = mercer.load(change(file, belief=whole))
        assert again.partitions_ == []
        assert again.trials_[0][1] == optimizer.trials_[0][1]
    assert len(again.ask()) == 3


def test_a_seed_of_numpy_is_saved(tmp_path: Path) -> None:
    optimizer = mercer.Optimizer([(0, 1)], random_state=np.int64(4))
    optimizer.save(tmp_path / "study")
    assert mercer.load(tmp_path / "study").random_state == 4


def change(path: Path, **entries: Any) -> Path:
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | entries))
    return path


BAD = {
    "version": ({"version": 9}, "newer Mercer"),
    "no version": ({"version": None}, "its version is None"),
    "format": ({"format": "other"}, "not a study"),
    "space": ({"space": {"names": []}}, "space cannot be read"),
    "short row": ({"trials": [[[0.5], 1.0, ""]]}, "5 finite numbers"),
    "text for a value": ({"trials": [[[0.5, 0.5, 0.5, 1, 0], "high", ""]]}, "is damaged"),
    "generator": ({"generator": {"bit_generator": "PCG64"}}, "is damaged"),
    "kernel": ({"kernel": "SE * ("}, "is damaged"),
    "direction": ({"minimize": "yes"}, "is damaged"),
    "purpose": ({"pending": [[[0.5, 0.5, 0.5, 1, 0], 1.0, 1.0, "fun", "random"]]}, "is damaged"),
    "pending": ({"pending": 3}, "is damaged"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_damaged_file_is_a_sentence(tmp_path: Path, case: str) -> None:
    entries, words = BAD[case]
    begun().save(tmp_path / "study")
    with pytest.raises(mercer.ModelFileError, match=words):
        load(change(tmp_path / "study", **entries))


def test_every_cut_off_file_is_a_sentence(tmp_path: Path) -> None:
    begun().save(tmp_path / "study")
    text = (tmp_path / "study").read_text()
    for end in range(1, len(text), 97):
        (tmp_path / "cut").write_text(text[:end])
        with pytest.raises(mercer.ModelFileError, match="cut off"):
            load(tmp_path / "cut")


def test_files_that_are_no_studies_keep_the_messages_of_models(tmp_path: Path) -> None:
    with pytest.raises(mercer.ModelFileError, match="there is no file"):
        load(tmp_path / "nothing")
    with pytest.raises(mercer.ModelFileError, match="is a folder"):
        load(tmp_path)
    (tmp_path / "text").write_text("hello")
    with pytest.raises(mercer.ModelFileError, match="not a Mercer model file"):
        load(tmp_path / "text")


def test_a_model_is_still_a_model(tmp_path: Path) -> None:
    x = np.linspace(0, 1, 8)[:, None]
    model = mercer.GPRegressor("SE", restarts=1).fit(x, np.sin(6 * x[:, 0]))
    model.save(tmp_path / "model.mercer")
    assert isinstance(mercer.load(tmp_path / "model.mercer"), mercer.GPRegressor)


def test_a_study_of_another_space_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "study"
    begun().save(path)
    kept = path.read_bytes()
    other = mercer.Optimizer(BOUNDS | {"a": (0.0, 2.0)}, minimize=False)
    with pytest.raises(mercer.InputError, match="another space: 'a' was 0 to 1 and is now 0 to 2"):
        other.resume(path)
    with pytest.raises(mercer.InputError, match="a study that maximises"):
        mercer.Optimizer(BOUNDS).resume(path)
    with pytest.raises(mercer.InputError, match="another space"):
        mercer.minimize(lambda x: 0.0, [(0, 1)], calls=3, checkpoint=path)
    assert path.read_bytes() == kept


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(mercer.InputError, match="cannot write"):
        begun().save(tmp_path / "no" / "such" / "folder")


def test_a_run_goes_on_from_its_checkpoint_and_evaluates_nothing_twice(tmp_path: Path) -> None:
    seen: list[float] = []

    def function(x: np.ndarray) -> float:
        seen.append(float(x[0]))
        return float(x[0] ** 2)

    mercer.minimize(function, [(-1, 1)], calls=4, random_state=0, checkpoint=tmp_path / "c")
    result = mercer.minimize(function, [(-1, 1)], calls=8, random_state=0, checkpoint=tmp_path / "c")
    assert result.nfev == 8
    assert len(seen) == len(set(seen)) == 8


def test_a_checkpoint_in_the_home_folder_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for calls in (3, 5):
        result = mercer.minimize(lambda x: float(x[0]), [(0, 1)], calls=calls, random_state=0, checkpoint="~/c")
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert result.nfev == len(mercer.load("~/c").trials_) == 5
    assert len(set(result.func_vals)) == 5


def test_one_run_at_a_time_writes_to_a_checkpoint(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    hold = f"from mercer.optimise.lock import hold; manager = hold({str(tmp_path / 'c')!r}); manager.__enter__()"
    script = f"{hold}; print('held', flush=True); input()"
    other = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(mercer.InputError, match="another run is writing to"):
            mercer.minimize(lambda x: 1 / 0, [(0, 1)], calls=3, checkpoint=tmp_path / "c")
    finally:
        other.kill()  # the lock ends with its process, even so
        other.communicate()
    assert mercer.minimize(lambda x: float(x[0]), [(0, 1)], calls=3, checkpoint=tmp_path / "c").nfev == 3
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
