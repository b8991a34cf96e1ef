"""The page of a study: words, pictures and tables, from a study without trials to one with everything in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mercer

BOUNDS = {
    "heat & <light>": (20.0, 90.0), "dose": mercer.Log(0.01, 1.0), "steps": mercer.Integer(1, 6),
    "solvent": ["water", "a <b>very</b> long name of a solvent"],
}  # fmt: skip


def value(point: dict[str, Any]) -> float:
    heat, dose, steps, solvent = point.values()
    return float(
        -((heat - 60.0) ** 2) / 100.0 - np.log(dose) ** 2 * (1.0 + 0.3 * steps) + (2.0 if solvent == "water" else 0.0)
    )


def told(count: int, kernel: Any = "auto") -> mercer.Optimizer:
    optimizer = mercer.Optimizer(BOUNDS, kernel, minimize=False, random_state=0)
    for row in optimizer.space.sample(count, np.random.default_rng(1)):
        point = optimizer.space.decode(row)
        optimizer.tell(point, value(point))
    return optimizer


def write(optimizer: mercer.Optimizer, folder: Path) -> str:
    optimizer.report(folder / "page.html")
    return (folder / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_page_before_there_is_a_model(tmp_path: Path, count: int) -> None:
    optimizer = told(count)
    optimizer.ask(2)
    text = write(optimizer, tmp_path)
    assert "too early" in text
    assert "What to try next" in text
    assert ("Best so far" in text) == (count > 0)


def test_a_page_with_everything(tmp_path: Path) -> None:
    kernel = "SE(0) + SE(1)*SE(2) + SE(3, 4)"
    optimizer = told(25, kernel)
    optimizer.tell(optimizer.space.decode(optimizer.space.sample(1, np.random.default_rng(2))[0]), None)
    optimizer.ask(2)
    text = write(optimizer, tmp_path)
    for word in ("Where is the highest value?", "What to try next", "Best so far", "The effect of each part",
                 "All trials", "dose and steps", "solvent", "failed"):  # fmt: skip
        assert word in text
    assert "<b>very</b>" not in text
    assert "heat & <light>" not in text
    assert text.count("<svg") == 2 * 4  # the best so far and three parts, wide and narrow
    names = re.findall(r'\bid="([^"]+)"', text)
    assert len(names) == len(set(names))


def test_a_part_of_many_inputs_is_told_and_not_drawn(tmp_path: Path) -> None:
    text = write(told(15, "SE"), tmp_path)
    assert "an effect of 4 inputs is not drawn" in text


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(mercer.InputError, match="there is no folder"):
        told(1).report(tmp_path / "no" / "page.html")
