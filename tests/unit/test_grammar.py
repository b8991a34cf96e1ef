"""The grammar search: what it tries, how it races, and that it survives."""

from __future__ import annotations

import gc
import json
import math
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import mercer
from mercer.errors import InputError
from mercer.fitting.minimise import Progress
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.kernels import SE, bind, parse
from mercer.kernels.algebra import canonical_structure, structure
from mercer.learners import grammar as search_module
from mercer.learners.averaging import ForecastErrors, stack_weights, stretches
from mercer.learners.contract import Context, Learned, Step
from mercer.learners.grammar import GrammarSearch, Search
from mercer.learners.growth import Child, GrowthLine, base_kernels, children
from tests.fuzz.disks import limited_files

BASES = base_kernels(["SE", "PER", "LIN", "RQ"], [0])


def season(rows: int = 60, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    x = np.linspace(-1.7, 1.7, rows)
    y = np.sin(2 * math.pi * x / 0.5) + 0.6 * x + 0.1 * rng.standard_normal(rows)
    return Data(x[:, None], (y - y.mean()) / y.std())


def learned(data: Data, jobs: int | None = None, report=None, **settings):
    return GrammarSearch(**settings).learn(Context(data, Exact(), [0], 0, jobs, report))


# ------------------------------------------------------------------------------------------------------- the grammar


def structures(text: str, grammar: str, operators: str = "+*r") -> set[str]:
    return {str(child.key) for child in children(bind(parse(text), 1), BASES, operators, grammar)}


def test_the_children_of_a_base_kernel():
    found = structures("SE(0)", "full")
    assert {"LIN(0) + SE(0)", "PER(0) * SE(0)", "SE(0) + SE(0)", "RQ(0)", "PER(0)"} <= found
    assert "SE(0)" not in found  # itself, and SE * SE which is an SE


def test_the_full_grammar_reaches_subexpressions_that_the_plain_one_does_not():
    text = "SE(0)*PER(0) + LIN(0)"
    inner = str(canonical_structure(parse("SE(0)*(PER(0) + LIN(0)) + LIN(0)")))
    assert inner in structures(text, "full")
    assert inner not in structures(text, "cks")
    assert structures(text, "cks") < structures(text, "full")


def test_operators_are_the_users_choice():
    assert all("*" not in key for key in structures("SE(0)", "full", "+"))
    assert structures("SE(0)", "full", "r") == {"PER(0)", "LIN(0)", "RQ(0)"}
    with pytest.raises(InputError, match=r"\+\*r"):
        GrammarSearch(operators="+x").learn(Context(season(), Exact(), [0]))


def test_a_child_keeps_its_parents_values_and_leaves_the_new_part_open():
    parent = bind(SE(0, variance=2.0, lengthscale=3.0), 1)
    child = next(c for c in children(parent, BASES, "*", "full") if "PER" in str(c.key))
    first, second = child.expression.leaves()
    assert first == parent.with_parameter(first.parameter("variance"))
    assert second.parameter("period").values is None


def test_no_period_is_looked_for_where_the_values_cannot_show_one():
    few = learned(Data(np.array([[-1.0], [0.0], [1.0]]), np.array([-1.0, 0.2, 0.8])), max_depth=1)
    assert not any("PER" in c.expression.text() for c in few.candidates)
    yes_or_no = np.tile([-1.0, 1.0], 30)[:, None]
    table = Data(np.hstack([yes_or_no, season().X]), season().y)
    found = GrammarSearch(max_depth=0).learn(Context(table, Exact(), [0, 1]))
    assert {leaf.columns for c in found.candidates for leaf in c.expression.leaves() if leaf.symbol == "PER"} == {(1,)}


# ------------------------------------------------------------------------------------------------------- the search


def test_it_finds_the_period_and_counts_every_structure_once():
    found = learned(season(), max_depth=2)
    periods = [leaf.value("period") for leaf in found.fit.expression.leaves() if leaf.symbol == "PER"]
    assert any(p == pytest.approx(0.5, rel=0.02) for p in periods)
    keys = [str(canonical_structure(c.expression)) for c in found.candidates]
    assert len(keys) == len(set(keys))
    assert sum(found.weights.within) == pytest.approx(1.0)
    assert sum(found.weights.beyond) == pytest.approx(1.0)


def test_the_same_winner_for_any_number_of_jobs():
    alone, together = learned(season(40), max_depth=1), learned(season(40), jobs=2, max_depth=1)
    assert structure(alone.fit.expression) == structure(together.fit.expression)
    # to rounding: sums in another process may fall differently onto vector registers
    np.testing.assert_allclose(alone.fit.values, together.fit.values, rtol=1e-6)
    np.testing.assert_allclose(alone.weights.beyond, together.weights.beyond, rtol=1e-2)


def test_an_interruption_returns_the_best_so_far(monkeypatch: pytest.MonkeyPatch):
    calls = []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) > 6:
            raise KeyboardInterrupt
        return original(*arguments)

    original = search_module.advance
    monkeypatch.setattr(search_module, "advance", interrupted)
    found = learned(season(40))
    assert found.fit.status in ("converged", "at a bound", "stopped")
    assert found.stopped == "request"


def test_a_time_budget_too_short_still_gives_a_base_kernel():
    found = learned(season(40), time_budget=1e-6)
    assert len(list(found.fit.expression.leaves())) == 1
    assert any("budget" in note for note in found.notes)


def test_a_candidate_that_fails_is_a_row_with_a_reason():
    class Fragile(Exact):
        def evidence(self, program, values, likelihood, data, gradient=True):
            if any(getattr(node, "kind", None) == "PER" for node in program.nodes):
                from mercer.inference.contract import Evidence

                return Evidence(-math.inf, failure="broken on purpose")
            return super().evidence(program, values, likelihood, data, gradient)

    found = GrammarSearch(max_depth=1).learn(Context(season(40), Fragile(), [0]))
    failed = [c for c in found.candidates if c.status == "failed"]
    assert failed
    assert all(c.message for c in failed)
    assert not any(leaf.symbol == "PER" for leaf in found.fit.expression.leaves())


@pytest.mark.parametrize(
    "settings", [{"score": "r2"}, {"grammar": "x"}, {"time_budget": -1}, {"restarts": 0}, {"n_jobs": 0}]
)
def test_bad_settings_say_what_is_allowed(settings):
    with pytest.raises(InputError):
        learned(season(), **settings)


# ----------------------------------------------------------------------------------------------------------- survival


def count_fits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    fits: list[int] = []
    original = search_module.advance

    def counted(*arguments):
        fits.append(1)
        return original(*arguments)

    monkeypatch.setattr(search_module, "advance", counted)
    return fits


def test_a_finished_journal_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first = learned(season(40), max_depth=1, checkpoint=tmp_path)
    fits = count_fits(monkeypatch)
    second = learned(season(40), max_depth=1, checkpoint=tmp_path)
    assert not fits
    assert second.fit.expression == first.fit.expression  # read back, not fitted: to the last bit


def test_a_journal_cut_off_anywhere_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first = learned(season(40), max_depth=1, checkpoint=tmp_path)
    file = tmp_path / "journal.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * 0.6)])
    kept = file.read_bytes().count(b"\n") - 1
    fits = count_fits(monkeypatch)
    second = learned(season(40), max_depth=1, checkpoint=tmp_path)
    assert structure(second.fit.expression) == structure(first.fit.expression)
    np.testing.assert_allclose(second.fit.values, first.fit.values, rtol=1e-6)
    assert len(fits) == whole.count(b"\n") - 1 - kept


def test_a_full_disk_costs_the_checkpoint_and_not_the_search(tmp_path: Path):
    whole = learned(season(40), max_depth=0, checkpoint=tmp_path / "whole")
    size = (tmp_path / "whole" / "journal.jsonl").stat().st_size
    with limited_files(size // 2):
        found = learned(season(40), max_depth=0, checkpoint=tmp_path / "full")
    assert found.fit.expression == whole.fit.expression
    assert any("checkpoint could not be written (File too large)" in note for note in found.notes)
    assert not any("checkpoint" in note for note in whole.notes)
    again = learned(season(40), max_depth=0, checkpoint=tmp_path / "full")  # there is room again
    assert structure(again.fit.expression) == structure(whole.fit.expression)
    assert (tmp_path / "full" / "journal.jsonl").read_bytes().count(b"\n") == len(
        (tmp_path / "whole" / "journal.jsonl").read_text().splitlines()
    )
    with limited_files(0), pytest.raises(InputError, match=r"checkpoint folder.*cannot be used: File too large"):
        learned(season(40), max_depth=0, checkpoint=tmp_path / "none")


def test_a_journal_of_anything_is_refused_or_begun_anew(tmp_path: Path):
    file = tmp_path / "journal.jsonl"
    for content in ("[]\n", "3\n", '"a"\n', "{}\n"):
        file.write_text(content)
        with pytest.raises(InputError, match="other data"):
            learned(season(40), max_depth=0, checkpoint=tmp_path)
    file.unlink()
    first = learned(season(40), max_depth=0, checkpoint=tmp_path)
    head, *lines = file.read_text().splitlines()
    for damaged in ("[]", json.dumps({**json.loads(lines[0]), "runs": 5})):
        file.write_text("\n".join([head, damaged, *lines]) + "\n")
        assert learned(season(40), max_depth=0, checkpoint=tmp_path).fit.expression == first.fit.expression


def test_no_file_stays_open_when_a_search_ends(tmp_path: Path):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        learned(season(40), max_depth=0, checkpoint=tmp_path)
        gc.collect()
    assert not [each for each in seen if "journal.jsonl" in str(each.message)]


def test_a_journal_of_other_data_is_refused(tmp_path: Path):
    learned(season(40), max_depth=0, checkpoint=tmp_path)
    with pytest.raises(InputError, match="other data"):
        learned(season(41), max_depth=0, checkpoint=tmp_path)


SCRIPT = """
import sys
sys.path.insert(0, {root!r})
from tests.unit.test_grammar import learned, season
learned(season(40), max_depth=2, checkpoint={folder!r})
print("finished")
"""


def test_it_goes_on_after_a_kill(tmp_path: Path):
    script = SCRIPT.format(root=str(Path(__file__).parents[2]), folder=str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    journal = tmp_path / "journal.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and (not journal.exists() or journal.read_bytes().count(b"\n") < 8):
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = [json.loads(line) for line in journal.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")][1:]
    assert done
    again = learned(season(40), max_depth=2, checkpoint=tmp_path)
    lines = [json.loads(line) for line in journal.read_text().splitlines()][1:]
    assert lines[: len(done)] == done  # nothing finished was written, or fitted, a second time
    assert len({(e["stage"], e["rung"], e["candidate"]) for e in lines}) == len(lines)
    whole = learned(season(40), max_depth=2)
    assert structure(again.fit.expression) == structure(whole.fit.expression)
    np.testing.assert_allclose(again.fit.values, whole.fit.values, rtol=1e-6)


# -------------------------------------------------------------------------------------------- forecasts and averaging


def test_origins_see_only_what_came_before():
    column = np.random.default_rng(0).permutation(np.arange(90.0))
    for before, after in stretches(column):
        assert column[before].max() < column[after].min()


def test_stacking_prefers_the_better_forecaster():
    rng = np.random.default_rng(0)
    good, bad = rng.normal(-0.5, 0.2, 40), rng.normal(-2.0, 0.2, 40)
    weights = stack_weights([ForecastErrors(bad, np.ones_like(bad)), ForecastErrors(good, np.ones_like(good))])
    assert weights[1] > 0.9
    assert weights.sum() == pytest.approx(1.0)


def test_averaged_predictions_are_those_of_the_mixture():
    data = season(50)
    model = mercer.GPRegressor(GrammarSearch(max_depth=1), random_state=0).fit(data.X, data.y)
    rows = np.array([[-1.0], [0.3], [3.0]])
    weights = model.fitted_.mixture.weights_at(
        (rows - np.array(model.fitted_.units.shift)) / np.array(model.fitted_.units.scale)
    )
    means, variances = [], []
    for member in model.fitted_.mixture.members:
        text = str(member.kernel)
        alone = (
            Exact()
            .posterior(*_program(text), Gaussian(member.noise), model.fitted_.training.data)
            .predict((rows - np.array(model.fitted_.units.shift)) / np.array(model.fitted_.units.scale))
        )
        means.append(alone.mean)
        variances.append(alone.variance + member.noise)
    mean = np.sum(weights * means, axis=0)
    outside = rows[:, 0] > data.X.max()  # and none lies before the first row
    widening = np.array([np.where(outside, member.widening, 1.0) for member in model.fitted_.mixture.members])
    assert widening.max() > 1
    variance = np.sum(weights * (widening * np.array(variances) + np.square(means)), axis=0) - mean**2
    got_mean, got_std = model.predict(rows, return_std=True)
    scale = model.fitted_.units.y_scale
    np.testing.assert_allclose(got_mean, model.fitted_.training.level + scale * mean, rtol=1e-9)
    np.testing.assert_allclose(got_std, scale * np.sqrt(variance), rtol=1e-7)
    _, covariance = model.predict(rows, return_cov=True)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), got_std, rtol=1e-7)


def _program(text: str):
    from mercer.compute.program import compile_program
    from mercer.kernels.parameters import values_of

    kernel = bind(parse(text), 1)
    return compile_program(kernel), values_of(kernel)


def test_a_learner_is_saved_and_loaded(tmp_path: Path):
    data = season(40)
    model = mercer.GPRegressor(GrammarSearch(max_depth=1, bases=("SE", "PER")), random_state=0).fit(data.X, data.y)
    model.save(tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    assert again.kernel == GrammarSearch(max_depth=1, bases=["SE", "PER"])
    rows = np.linspace(-2, 4, 9)[:, None]
    np.testing.assert_allclose(again.predict(rows), model.predict(rows), rtol=1e-9)


# ------------------------------------------------------------------------------------------------------ simplification


def test_a_winner_is_made_simpler_with_the_users_bases_only():
    rng = np.random.default_rng(0)
    x = np.linspace(-1.7, 1.7, 60)[:, None]
    data = Data(x, np.sin(3 * x[:, 0]) + 0.1 * rng.standard_normal(60), free_level=True)
    smooth = mercer.GPRegressor(GrammarSearch(bases=("RQ", "SE"), average=False), random_state=0).fit(x, data.y)
    assert {leaf.symbol for leaf in smooth.kernel_.leaves()} == {"SE"}  # RQ with a large alpha is one number too many
    rational = mercer.GPRegressor(GrammarSearch(bases=("RQ",), average=False), random_state=0).fit(x, data.y)
    assert {leaf.symbol for c in rational.candidates_ for leaf in c.expression.leaves()} <= {"RQ", "C"}


def test_every_structure_has_one_row_and_parents_lead_to_a_base_kernel():
    data = season(60)
    model = mercer.GPRegressor(GrammarSearch(average=False), random_state=0).fit(data.X, data.y)
    keys = [canonical_structure(candidate.expression) for candidate in model.candidates_]
    assert len(set(keys)) == len(keys)
    for candidate in model.candidates_:
        steps = 0
        while candidate.parent is not None:
            candidate, steps = model.candidates_[candidate.parent], steps + 1
            assert steps < 50
        assert candidate.depth == 0


def simplified(stop: int, folder: Path) -> Learned:
    """Simplify a kernel two of whose parts may be joined in two ways, and do no more of a search.

    stop : the number of the report at which Ctrl-C is pressed.
    """
    x = np.arange(60.0)
    noise = 0.1 * np.random.default_rng(0).standard_normal(60)
    y = np.exp(-x / 40) * np.sin(x / 1.5) + np.sin(x / 3) + noise
    data = Data(((x - x.mean()) / x.std())[:, None], (y - y.mean()) / y.std(), free_level=True)
    reports: list[Progress] = []

    def report(state: Progress) -> None:
        reports.append(state)
        if len(reports) == stop + 1:  # the first is for the kernel that is given
            raise KeyboardInterrupt

    given = parse("SE(0)*PER(0) + SE(0)*PER(0)")
    learner = GrammarSearch(restarts=2, average=False, checkpoint=folder)
    search = Search(learner, Context(data, Exact(), [0], report=report))
    line = GrowthLine()
    search.race(line, 0, 0, [(Child(given, canonical_structure(given), Step("other", words="given")), None)])
    with search.trials.stopping():
        search.race(line, 1, -1, search.find_simpler(search.trials.best))
    return search.conclude()


def test_simplification_can_be_stopped_and_gone_on_with(tmp_path):
    whole = simplified(-1, tmp_path / "whole")
    again = simplified(-1, tmp_path / "whole")
    for stop in (8, 12):
        first = simplified(stop, tmp_path / str(stop))
        assert first.stopped == "request"
        assert any(c.status == "not finished" for c in first.candidates)
        resumed = simplified(-1, tmp_path / str(stop))
        assert min(c.score for c in resumed.candidates) == pytest.approx(min(c.score for c in whole.candidates))
    assert min(c.score for c in again.candidates) == pytest.approx(min(c.score for c in whole.candidates))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"bases": "SE,PER"}, "list of base kernels"),
        ({"bases": None}, "list of base kernels"),
        ({"max_depth": 1.5}, "max_depth must be a whole number"),
        ({"max_depth": -1}, "at least 0"),
        ({"restarts": "4"}, "restarts must be a whole number"),
        ({"time_budget": "5"}, "time_budget must be a number of seconds"),
        ({"average": "no"}, "average must be True or False"),
        ({"checkpoint": 5}, "path of a folder"),
    ],
)
def test_settings_that_cannot_be_meant(settings, words):
    with pytest.raises(InputError, match=words):
        learned(season(20), **settings)
