"""A search on a long series begins on a sample, with the usual parts of a series, and ends on all rows."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.kernels.algebra import structure
from mercer.learners.contract import Context, Learned
from mercer.learners.grammar import GrammarSearch
from mercer.learners.racing import RacePolicy

FEW = (RacePolicy(many_rows=100, sample=90),)  # so that 150 rows are many
PERIOD = 0.16


def series() -> Data:
    rng = np.random.default_rng(0)
    x = np.linspace(-1.7, 1.7, 150)
    y = np.sin(2 * np.pi * x / PERIOD) + 0.15 * np.cumsum(rng.normal(size=150)) + 0.2 * rng.normal(size=150)
    return Data(x[:, None], (y - y.mean()) / y.std(), free_level=True)


def searched(**settings: Any) -> Learned:
    learner = GrammarSearch(bases=("SE", "PER", "M12"), max_depth=2, average=False, **settings)
    return learner.learn(Context(series(), Exact(), [0], policies=FEW))


@lru_cache(maxsize=1)
def found() -> Learned:
    return searched()


def test_it_finds_the_season_beside_a_walk_and_scores_it_on_all_rows() -> None:
    waves = [leaf for leaf in found().fit.expression.leaves() if leaf.symbol in ("PER", "CPER")]
    periods = [wave.parameter("period").values for wave in waves]
    assert any(values == pytest.approx((PERIOD,), rel=0.02) for values in periods)
    assert found().fit.rows == series().count
    assert any(candidate.step.kind == "usual parts" for candidate in found().candidates)


def test_each_structure_has_one_row_and_fits_are_those_to_all_rows() -> None:
    candidates = found().candidates
    assert len({structure(c.expression) for c in candidates}) == len(candidates)
    assert all(c.fit.rows == series().count for c in candidates if c.fit is not None)
    assert all(c.parent is None or 0 <= c.parent < len(candidates) for c in candidates)
    finished = [c for c in candidates if c.fit is not None]
    assert min(finished, key=lambda c: c.score).fit is found().fit


def test_it_goes_on_where_it_was_cut_off(tmp_path: Path) -> None:
    first = searched(checkpoint=tmp_path)
    journal = tmp_path / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[: len(lines) // 2]))
    again = searched(checkpoint=tmp_path, n_jobs=2)
    assert again.fit.expression == first.fit.expression == found().fit.expression
