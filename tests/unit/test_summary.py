"""The summary: plain data, JSON and text."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest

from mercer.explain import Column, Outcome, Scores, Summary, summarise
from mercer.kernels import Expression, parse


@dataclass(frozen=True)
class Part:
    kernel: Expression | None
    mean: np.ndarray
    std: np.ndarray


X = np.column_stack([np.arange(10.0), np.linspace(0, 1, 10)])
LINE, WIGGLE = 2.0 * (X[:, 0] - 4.5), np.sin(X[:, 0])


def build(**changes: object) -> Summary:
    kernel = parse("LIN(0, variance=4.123456789, offset=1) + SE(1, variance=1, lengthscale=0.5)")
    parts = [
        Part(parse("LIN(0, variance=4.123456789, offset=1)"), LINE, np.linspace(0.1, 0.2, 10)),
        Part(parse("SE(1, variance=1, lengthscale=0.5)"), WIGGLE, np.full(10, 0.3)),
        Part(None, np.full(10, 7.0), np.zeros(10)),
    ]
    plain: dict = {
        "target": "sales",
        "columns": [Column("year", "years", 0.0, 9.0, lambda v: f"{1990 + v:.0f}"), Column("price", None, 0.0, 1.0)],
        "kernel": kernel,
        "parts": parts,
        "inputs": X,
        "observed": 7.0 + LINE + WIGGLE,
        "noise_variance": 0.25,
        "scores": Scores(-12.5, 40.25, -13.0, 5),
        "outcome": Outcome("Given.", "converged", "converged", 0.0),
        "notes": ["a note"],
    }
    return summarise(**(plain | changes))


def test_plain_data() -> None:
    summary = build()
    variance = float(np.var(LINE + WIGGLE))
    assert summary.rows == 10
    assert summary.level == 7.0
    assert [c.position for c in summary.components] == [0, 1]
    assert [c.share for c in summary.components] == pytest.approx([np.var(LINE) / variance, np.var(WIGGLE) / variance])
    assert (summary.components[0].std_low, summary.components[0].std_high) == (0.1, 0.2)
    assert summary.components[0].sentence == "A linear function of year, rising by 2.00 per year."
    assert summary.components[0].kernel == "LIN(year, variance=4.123, offset=1)"
    assert "4.123456789" in summary.kernel_exact
    assert (summary.noise_std, summary.noise_share) == (0.5, pytest.approx(0.25 / variance))
    assert (summary.inputs[0].low, summary.inputs[0].high, summary.inputs[1].high) == ("1990", "1999", "1.00")


def test_the_largest_component_comes_first_and_keeps_its_position() -> None:
    swapped = build(parts=[
        Part(parse("SE(1, variance=1, lengthscale=0.5)"), WIGGLE, np.full(10, 0.3)),
        Part(parse("LIN(0, variance=4, offset=1)"), LINE, np.full(10, 0.1)),
        Part(None, np.full(10, 7.0), np.zeros(10)),
    ])  # fmt: skip
    assert [c.position for c in swapped.components] == [1, 0]


def test_json_has_json_types_only() -> None:
    document = build(scores=Scores(-12.5, 40.25, -math.inf, 5)).to_json()
    again = json.loads(json.dumps(document, allow_nan=False))
    assert again == document
    assert again["format"] == "mercer-summary"
    assert again["scores"]["leave_one_out"] is None
    assert again["notes"] == ["a note"]
    assert again["outcome"]["status"] == "converged"


def test_text_is_wrapped_and_complete() -> None:
    text = build().to_text(width=50)
    assert max(map(len, text.splitlines())) <= 50
    flat = " ".join(text.split())
    for words in (
        "sales explained by year and price, from 10 rows",
        "A linear function of year, rising by 2.00 per year.",
        "Noise of standard deviation 0.500.",
        "log evidence -12.50, BIC 40.25 (5 parameters), leave-one-out -13.00",
        "Given. The fit converged.",
        "note a note",
    ):
        assert words in flat
