"""The benchmark of Bayesian optimisation: its functions are what they say, runs go on from files, tables count."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import optimise, optimise_report
from benchmarks.machine import describe
from benchmarks.optimise_functions import (
    FIRST,
    FUNCTIONS,
    MICHALEWICZ_LEAST,
    compute_michalewicz,
    draw_rotation,
    make_function,
)
from benchmarks.optimise_methods import METHODS, suits
from benchmarks.optimise_paper import improve
from scipy.optimize import minimize

KNOWN = [name for name in FUNCTIONS if make_function(name, 0).where is not None]


@pytest.mark.parametrize("name", KNOWN)
def test_the_minimum_is_where_it_is_said_to_be(name: str) -> None:
    function = make_function(name, 2)
    assert function.where is not None
    where = np.array(function.where)
    assert function.evaluate(where.tolist()) == pytest.approx(function.minimum, abs=1e-6)
    box = [(each.low, each.high) for each in function.inputs.values()]  # type: ignore[union-attr]
    assert all(low < value < high for value, (low, high) in zip(where, box, strict=True))
    found = minimize(lambda x: function.evaluate(list(x)), where, method="L-BFGS-B", bounds=box)
    assert found.fun >= function.minimum - 1e-9
    rng = np.random.default_rng(0)
    assert min(function.evaluate(function.draw(rng.random(len(box)))) for _ in range(200)) > function.minimum


def test_the_minimum_of_michalewicz_is_the_sum_of_its_parts() -> None:
    grid, total = np.linspace(0.0, math.pi, 200_001), 0.0
    for rank in range(1, 11):
        total += float((-np.sin(grid) * np.sin(rank * grid**2 / np.pi) ** 20).min())
    assert total == pytest.approx(MICHALEWICZ_LEAST, abs=1e-6)
    assert compute_michalewicz(np.full(10, math.pi / 2)) == pytest.approx(
        -sum(math.sin(rank * math.pi / 4) ** 20 for rank in range(1, 11))
    )


@pytest.mark.parametrize("run", range(10))
def test_rotations_have_small_groups_and_a_minimum_inside_away_from_the_centre(run: int) -> None:
    groups, rotation = draw_rotation(run)
    assert sorted(column for group in groups for column in group) == list(range(10))
    assert max(map(len, groups)) <= 3
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(10), atol=1e-12)
    function, centred = make_function("rotated", run), make_function("rotated-centred", run)
    where = np.abs(function.where or ())
    assert np.all((where >= 1.0) & (where < 5.0))
    middle = [each.draw(0.5) for each in centred.inputs.values()]
    assert centred.evaluate(middle) == pytest.approx(function.minimum)


@pytest.mark.parametrize("run", [0, 3])
def test_the_groups_are_those_over_which_the_function_is_a_sum(run: int) -> None:
    function, rng = make_function("rotated", run), np.random.default_rng(0)
    a, b = (np.array(function.draw(rng.random(10))) for _ in range(2))
    assert function.groups is not None
    total = function.evaluate(a.tolist())
    for group in function.groups:
        moved = a.copy()
        moved[list(group)] = b[list(group)]
        total += function.evaluate(moved.tolist()) - function.evaluate(a.tolist())
    assert total == pytest.approx(function.evaluate(b.tolist()))


def test_inputs_go_to_places_and_back() -> None:
    function = make_function("boosting", 0)
    for point in function.first_points(4):
        for each, value in zip(function.inputs.values(), point, strict=True):
            assert each.value(each.place(value)) == pytest.approx(value)
    assert function.first_points(4) == function.first_points(4)
    assert len(function.first_points(0)) == FIRST


@pytest.mark.parametrize("name", ["svc", "boosting"])
def test_hyperparameters_are_scored(name: str) -> None:
    point = {
        "svc": [10.0, 0.01, "rbf"],
        "boosting": [0.1, 10, 2, 5, 0.8, "huber"],
    }[name]
    assert 0.0 < make_function(name, 0).evaluate(point) < 100.0


# ---------------------------------------------------------------------------------------------------------------- runs


def test_a_run_goes_on_from_its_file(tmp_path: Path) -> None:
    whole = optimise.carry_out(optimise.Job("branin", "random", 1, 30), tmp_path / "whole")
    optimise.carry_out(optimise.Job("branin", "random", 1, 17), tmp_path)
    job = optimise.Job("branin", "random", 1, 30)
    assert not optimise.is_complete(job, tmp_path)
    record = optimise.carry_out(job, tmp_path)
    assert optimise.is_complete(job, tmp_path)
    assert record["points"] == whole["points"]
    assert record["values"] == whole["values"]
    assert record["points"][:FIRST] == make_function("branin", 1).first_points(1)
    assert len(record["ask"]) == len(record["tell"]) == 30


def test_a_run_without_time_stops_with_its_file_written(tmp_path: Path) -> None:
    job = optimise.Job("branin", "random", 0, 30)
    assert optimise.carry_out(job, tmp_path, until=0.0)["values"] == []
    assert not optimise.is_complete(job, tmp_path)
    assert len(optimise.carry_out(job, tmp_path)["values"]) == 30


def test_a_file_that_cannot_be_read_is_begun_again(tmp_path: Path) -> None:
    job = optimise.Job("branin", "random", 0, 12)
    (tmp_path / job.file).write_text('{"values": [')
    assert not optimise.is_complete(job, tmp_path)
    assert len(optimise.carry_out(job, tmp_path)["values"]) == 12


def test_complete_runs_are_not_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--functions", "branin", "--methods", "random", "--runs", "2", "--calls", "12", "--out", str(tmp_path)]
    optimise.main(given)
    optimise.main(given)
    out = capsys.readouterr().out
    assert "2 runs, 2 of them to do" in out
    assert "2 runs, 0 of them to do" in out
    assert (tmp_path / "optimise.md").exists()


def test_the_first_run_of_everything_comes_first() -> None:
    jobs = optimise.plan(["mercer", "random", "paper-rbf"], ["styblinski", "branin"], "usual", 200)
    assert [job.run for job in jobs] == sorted(job.run for job in jobs)
    assert sum(job.method == "mercer" for job in jobs) == 20
    assert sum(job.method == "random" for job in jobs) == 10
    assert not [job for job in jobs if job.method == "paper-rbf" and job.function == "branin"]
    assert not suits("botorch-additive", "boosting")
    assert optimise.parse_runs("0,3-4") == [0, 3, 4]


@pytest.mark.parametrize("method", ["paper-rbf", "paper-mcmc-rbf", "paper-oracle"])
def test_the_paper_s_variants_run(method: str, tmp_path: Path) -> None:
    record = optimise.carry_out(optimise.Job("rotated", method, 0, 12), tmp_path)
    assert len(record["values"]) == 12
    assert all(-5.0 <= value <= 5.0 for value in record["points"][-1])
    if "mcmc" in method:
        columns = [column for group in record["facts"]["stands at"] for column in group]
        assert sorted(columns) == list(range(10))


def test_expected_improvement_is_the_mean_gain() -> None:
    rng = np.random.default_rng(0)
    drawn = np.maximum(0.3 - (0.5 + 0.4 * rng.standard_normal(400_000)), 0.0).mean()
    assert improve(np.array([0.5]), np.array([0.16]), 0.3)[0] == pytest.approx(drawn, rel=0.02)


# -------------------------------------------------------------------------------------------------------------- tables


def make_record(function: str, method: str, run: int, values: list[float], **more: Any) -> dict[str, Any]:
    return {
        "function": function, "method": method, "run": run, "values": values, "calls": len(values), "points": [],
        "ask": [0.2 if method == "mercer" else 1.0] * len(values), "tell": [0.0] * len(values), "evaluate": 0.0,
        "facts": {}, "machine": describe(), **more,
    }  # fmt: skip


def write_runs(folder: Path, records: list[dict[str, Any]]) -> None:
    for record in records:
        job = optimise.Job(record["function"], record["method"], record["run"], record["calls"])
        (folder / job.file).write_text(json.dumps(record))


def test_the_table_says_what_was_reached(tmp_path: Path) -> None:
    groups = [{"groups": [[i] for i in range(10)], "probability": 0.75}]
    wrong = [{"groups": [[0, 1], *([i] for i in range(2, 10))], "probability": 0.5}]
    records = [
        make_record(
            "styblinski", "mercer", run, [-200.0] * 100 + [-386.0] * 50 + [-391.0] * 50,
            facts={"partitions": wrong if run == 9 else groups},
            **{"facts at look": {"expected gain": 191.0 * 2}},
        )
        for run in range(10)
    ]  # fmt: skip
    records += [make_record("styblinski", "botorch", 0, [-200.0, -210.0] * 100)]
    for method, least in (("mercer", 0.5), ("botorch", 0.401), ("optuna-gp", 1.0), ("random", 2.0)):
        records.append(make_record("branin", method, 0, [100.0, *([50.0, 150.0] * 49), *([least] * 101)]))
    write_runs(tmp_path, records)
    (tmp_path / "styblinski--random--0.json").write_text(json.dumps({**records[0], "calls": 300}))  # not complete
    seconds = {"200": {"mercer": [0.2], "botorch": [1.0]}, "2000": {"mercer": [1.5]}}
    (tmp_path / "ask.json").write_text(json.dumps({"machine": describe(), "seconds": seconds}))
    text = optimise_report.write_report(tmp_path, tmp_path / "table.md")
    assert "| styblinski | 120 | 10 | -386 | -385 | yes |" in text
    assert "| styblinski | 200 | 10 | -391 | -390 | yes |" in text
    assert "| michalewicz | 200 | 0 |  | -8 | not measured |" in text
    assert "published NKN" in text
    assert "| styblinski | mercer | 9 of 10 | 0.725 | 90% | yes |" in text
    assert "no worse on 0 of 1 functions" in text
    assert "within a factor of two on 1 of 1 (asked: all 8)" in text
    assert "mercer / botorch at 200 points: 0.2 (asked: at most 0.5): yes" in text
    assert "mercer at 2000 points: 1.5 s (asked: at most 1 s on 2 cores): **no**" in text
    assert "median factor by which it is off: 2 (asked: at most 3): yes" in text
    kept = json.loads((tmp_path / "table.json").read_text())
    assert len(kept) == len(records)


def test_regrets_below_a_thousandth_of_the_spread_are_equal() -> None:
    assert optimise_report.judge(0.09, [0.0001, 0.5], floor=0.1) == (True, True)
    assert optimise_report.judge(0.15, [0.0001, 0.5], floor=0.1) == (False, True)
    assert optimise_report.judge(0.25, [0.0001, 0.5], floor=0.1) == (False, False)
    assert optimise_report.judge(math.nan, [0.1, 0.5], floor=0.1) == (None, None)
    assert optimise_report.judge(0.1, [0.1, math.nan], floor=0.1) == (None, None)


def test_published_curves_begin_after_the_random_points() -> None:
    curve = optimise_report.PUBLISHED["styblinski"]["NKN"]
    assert optimise_report.interpolate(curve, 10) == curve[0]
    assert optimise_report.interpolate(curve, 210) == curve[-1]


def test_every_method_has_a_name_in_the_protocol() -> None:
    families = {name if name.startswith(("botorch", "optuna", "mercer")) else name.split("-")[0] for name in METHODS}
    for family in families - {"random"}:
        assert f"`{family}" in optimise_report.PROTOCOL
