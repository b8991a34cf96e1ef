"""The figures of the benchmark of forecasts, by hand on small cases; and priors that were learned, in a fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.forecast import SHARES, forecast_naive, read_rows, score
from benchmarks.forecast_data import Entry, draw
from benchmarks.forecast_learn import priors_without
from numpy.testing import assert_allclose

from mercer.errors import KernelError
from mercer.fitting.problem import FitOptions, prepare
from mercer.fitting.starts import LearnedPrior
from mercer.forecast.experience import from_json
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.kernels import bind, parse


def test_scores_by_hand() -> None:
    entry = Entry("a", np.array([0.0, 2.0, 0.0, 2.0]), np.array([1.0, 3.0]))
    quantiles = np.repeat(np.linspace(0.0, 2.0, len(SHARES))[:, None], 2, axis=1)  # the middle is 1, the ends 0 and 2
    found = score([entry], {"a": {"quantiles": quantiles.tolist(), "seconds": 0.5}}, season=1)
    assert_allclose(found["mase"], np.mean([0.0, 2.0]) / 2.0)
    losses = 0.0
    for share, value in zip(SHARES[1:10], quantiles[1:10, 0], strict=True):
        for y in (1.0, 3.0):
            losses += share * (y - value) if y > value else (1 - share) * (value - y)
    assert_allclose(found["wql"], 2 * losses / (9 * 4.0))
    assert_allclose([found["inside80"], found["inside95"], found["far"]], [0.5, 0.5, 0.0])


def test_the_naive_forecast_repeats_the_last_season() -> None:
    found = forecast_naive(np.array([9.0, 1.0, 2.0, 3.0]), 5, 3)
    assert_allclose(found[5], [1.0, 2.0, 3.0, 1.0, 2.0])


def test_a_line_cut_short_is_run_again(tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_text(json.dumps({"name": "a"}) + '\n{"name": "b", "qua')
    assert list(read_rows(tmp_path / "f.jsonl")) == ["a"]


def test_draws_do_not_depend_on_how_often_they_are_made() -> None:
    many = [Entry(str(i), np.zeros(1), np.zeros(1)) for i in range(30)]
    assert [e.name for e in draw(many, 5)] == [e.name for e in draw(many, 5)]
    assert len(draw(many, None)) == 30


@pytest.mark.parametrize("collection", ["M1", "M3", "Tourism"])
def test_priors_for_a_competition_were_learned_without_it(collection: str) -> None:
    priors = from_json(priors_without(collection).read_text())
    assert priors.sources
    assert not any(source.startswith(f"{collection} ") for source in priors.sources)


def test_a_learned_prior_takes_the_place_of_the_weak_one() -> None:
    data = Data(np.linspace(0, 1, 12)[:, None], np.sin(np.arange(12.0)))
    kernel = bind(parse("RW + M12"), 1)
    options = FitOptions(priors=LearnedPrior((("0:RW.variance", -2.0, 0.5), ("noise", -4.0, 0.25))))
    weak = prepare(kernel, data, Exact(), FitOptions(priors=True)).prior
    learned = prepare(kernel, data, Exact(), options).prior
    assert weak is not None
    assert learned is not None
    assert_allclose(learned.centre, [-2.0, *weak.centre[1:3], -4.0])
    assert_allclose(learned.spread, [0.5, *weak.spread[1:3], 0.25])
    with pytest.raises(KernelError, match="does not fit"):
        prepare(kernel, data, Exact(), FitOptions(priors=LearnedPrior((("3:SE.variance", 0.0, 1.0),))))
