"""A search that is judged by rows held out: the score, the split, the refit, and that it survives."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import mercer
from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.errors import InputError
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.kernels.algebra import structure
from mercer.kernels.parameters import values_of
from mercer.learners import finalists
from mercer.learners import grammar as search_module
from mercer.learners.contract import Learned
from mercer.learners.criteria import HELD_OUT
from tests.unit.test_grammar import count_fits, learned, season


@pytest.fixture(scope="module")
def found() -> Learned:
    return learned(season(100), score="heldout", max_depth=2)


def test_a_fifth_is_held_out_the_same_for_every_candidate_and_seed():
    data = season(60)
    kept, out = HELD_OUT.divide(data, 3)
    assert (kept.count, out.count) == (48, 12)
    assert np.all(np.diff(kept.X[:, 0]) > 0)
    np.testing.assert_array_equal(np.sort(np.concatenate([kept.X, out.X])[:, 0]), data.X[:, 0])
    np.testing.assert_array_equal(HELD_OUT.divide(data, 3)[1].X, out.X)
    assert not np.array_equal(HELD_OUT.divide(data, 4)[1].X, out.X)


def test_the_score_is_the_held_out_density_scaled_up_to_all_rows(found: Learned):
    kept, out = HELD_OUT.divide(season(100), 0)
    fit = found.fit
    program, X = compile_program(fit.expression), np.vstack([kept.X, out.X])
    joint = fused.gram(program, fit.values, X) + fit.noise * np.eye(100)
    # conditional mean and variance of each held-out row, from the joint covariance alone
    weights = np.linalg.solve(joint[:80, :80], joint[:80, 80:])
    mean = weights.T @ kept.y
    variance = np.diag(joint)[80:] - np.einsum("ij,ij->j", weights, joint[:80, 80:])
    density = -0.5 * (np.log(2 * math.pi * variance) + (out.y - mean) ** 2 / variance)
    assert HELD_OUT.score_held_out(fit, kept, out, Exact()) == pytest.approx(-2 * 100 / 20 * density.sum(), rel=1e-6)


def test_a_worse_kernel_has_a_larger_score(found: Learned):
    kept, out = HELD_OUT.divide(season(100), 0)
    loud = replace(found.fit, noise=25.0 * found.fit.noise)
    assert (
        HELD_OUT.score_held_out(loud, kept, out, Exact()) > HELD_OUT.score_held_out(found.fit, kept, out, Exact()) + 2.0
    )


def test_it_finds_the_period(found: Learned):
    periods = [leaf.value("period") for leaf in found.fit.expression.leaves() if leaf.symbol in ("PER", "CPER")]
    assert any(p == pytest.approx(0.5, rel=0.02) for p in periods)
    assert any("20 of 100 rows were held out" in note for note in found.notes)


def test_the_winner_has_the_best_score_and_is_fitted_to_all_rows(found: Learned):
    data, fit = season(100), found.fit
    winner = next(c for c in found.candidates if c.fit is fit)
    assert winner.expression == fit.expression
    # one with more parameters must gain more than a trifle
    level = [c.score for c in found.candidates if c.depth == winner.depth and c.parameters <= winner.parameters]
    assert winner.score == min(level)
    evidence = Exact().evidence(compile_program(fit.expression), values_of(fit.expression), Gaussian(fit.noise), data)
    assert fit.log_evidence == pytest.approx(evidence.value, abs=1e-6)
    assert abs(evidence.noise_gradient * fit.noise) < 0.05  # an optimum of all rows, not of four fifths
    for member in found.members:
        again = Exact().evidence(
            compile_program(member.expression), member.values, Gaussian(member.noise), data, gradient=False
        )
        assert member.log_evidence == pytest.approx(again.value, abs=1e-6)


def test_candidates_left_behind_have_no_score(found: Learned):
    left = [c for c in found.candidates if c.status == "raced out"]
    assert left
    assert all(c.score == math.inf for c in left)


def test_noise_stays_a_single_kernel():
    noise = Data(season(60).X, np.random.default_rng(5).standard_normal(60))
    assert len(list(learned(noise, score="heldout").fit.expression.leaves())) == 1


def test_the_same_winner_for_any_number_of_jobs():
    alone = learned(season(40), score="heldout", max_depth=1)
    together = learned(season(40), jobs=2, score="heldout", max_depth=1)
    assert structure(alone.fit.expression) == structure(together.fit.expression)
    # rounding differs between processes, and at a flat optimum that shows in the values
    np.testing.assert_allclose(alone.fit.values, together.fit.values, rtol=1e-4)


def test_a_journal_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first = learned(season(40), score="heldout", max_depth=1, checkpoint=tmp_path)
    file = tmp_path / "journal.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-3]))
    fits = count_fits(monkeypatch)
    second = learned(season(40), score="heldout", max_depth=1, checkpoint=tmp_path)
    assert len(fits) == 3
    assert structure(second.fit.expression) == structure(first.fit.expression)
    np.testing.assert_allclose(second.fit.values, first.fit.values, rtol=1e-6)
    with pytest.raises(InputError, match="other settings"):
        learned(season(40), max_depth=1, checkpoint=tmp_path)


def test_few_rows_are_refused_with_advice():
    with pytest.raises(InputError, match="at least 10; there are 9: choose another score"):
        learned(season(9), score="heldout")


def test_a_level_that_only_held_out_rows_have_is_no_trouble():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.arange(40.0), np.zeros(40)])
    y = np.sin(X[:, 0] / 3) + 0.1 * rng.standard_normal(40)
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    _, out = HELD_OUT.divide(Data(X, y), seed)
    X[int(out.X[0, 0]), 1] = 1.0
    search = mercer.GrammarSearch(score="heldout", bases=("SE", "LIN"), max_depth=1)
    model = mercer.GPRegressor(search, random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


def test_explained_and_in_the_units_of_the_data():
    data = season(60)
    search = mercer.GrammarSearch(score="heldout", bases=("SE", "PER"), max_depth=1)
    plain = mercer.GPRegressor(search, random_state=0).fit(data.X, data.y)
    large = mercer.GPRegressor(search, random_state=0).fit(data.X, 1000.0 * data.y)
    told = plain.explain()
    assert told.search is not None
    assert told.search.score == "held-out score"
    scores = [np.array([c.score for c in model.candidates_ if math.isfinite(c.score)]) for model in (plain, large)]
    np.testing.assert_allclose(scores[1] - scores[0], 2 * 60 * math.log(1000.0), rtol=1e-3)


@pytest.mark.parametrize(("module", "place"), [(finalists, "refit"), (search_module, "forecast")])
def test_ctrl_c_while_finalists_are_fitted_keeps_the_winner(
    module: ModuleType, place: str, monkeypatch: pytest.MonkeyPatch
):
    original, calls = getattr(module, place), []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(module, place, interrupted)
    found = learned(season(50), score="heldout", max_depth=1)
    assert found.stopped == "request"
    assert math.isfinite(found.fit.log_evidence)
    assert any("stopped" in note for note in found.notes)


def test_how_a_search_ended_is_a_field(monkeypatch: pytest.MonkeyPatch):
    assert learned(season(40), max_depth=0).stopped == ""
    assert learned(season(40), time_budget=1e-6).stopped == "time"

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(search_module, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):  # nothing was finished: there is nothing to return
        learned(season(40))
