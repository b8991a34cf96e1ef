"""A whole level of a search as one batch gives what its candidates give one by one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import mercer
from mercer.compute.accelerator import TorchBackend
from mercer.compute.backend import NUMBA, Backend
from mercer.compute.forest import can_merge
from mercer.compute.program import Affine, LeafNode, Program, Term, compile_program
from mercer.errors import InputError
from mercer.fitting.minimise import run_together
from mercer.fitting.problem import FitOptions, prepare
from mercer.inference import batches
from mercer.inference.batches import Candidates, LevelEvidence
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.kernels import bind, parse
from mercer.kernels.algebra import structure
from mercer.learners import trials
from mercer.learners.contract import Context, Learned
from mercer.learners.grammar import GrammarSearch
from mercer.learners.racing import advance
from mercer.learners.trials import Attempt, run_on_device

CPU = TorchBackend("cpu:0")
TEXTS = (
    "SE", "SE(0) * PER(0) + LIN(1)", "(SE(0) + LIN(0)) * PER(1) * (RQ(0) + C)", "WN(0) + CPER(0) * COS(1) * LIN(0)",
    "RQ + C", "SM(0) + LIN * LIN(0)", "C", "((M12(0) + LIN(1)) * M32(1) + C) * M52(0)",
    "CP(SE, LIN(0), on=1) + BLEND(rks3, C, SE(0))",
)  # fmt: skip


def mixed_parts(data: Data) -> list[Candidates]:
    rng = np.random.default_rng(1)
    parts = []
    for count, text in enumerate(TEXTS, start=1):
        expression = bind(parse(text), data.X.shape[1])
        starts = prepare(expression, data, Exact(), FitOptions()).starts
        values = np.stack([starts.draw(rng) for _ in range(1 + count % 3)])
        parts.append(Candidates(compile_program(expression), values, np.exp(rng.normal(-2.0, 0.5, len(values)))))
    return parts


def two_columns(free_level: bool = False) -> Data:
    rng = np.random.default_rng(0)
    return Data(rng.uniform(-1.7, 1.7, (30, 2)), 0.3 + rng.standard_normal(30), free_level)


@pytest.mark.parametrize("free_level", [False, True])
@pytest.mark.parametrize("room", [None, 1, 3])
def test_mixed_structures_equal_the_exact_engine(free_level: bool, room: int | None) -> None:
    """Also when the memory has room for one or three candidates at a time, and for a few pairs of points only."""
    data = two_columns(free_level)
    memory = None if room is None else 8 * batches.MATRICES * data.count**2 * room
    parts = mixed_parts(data)
    for part, rows in zip(parts, LevelEvidence(data, CPU, memory)(parts), strict=True):
        for values, noise, found in zip(part.values, part.noise, rows, strict=True):
            expected = Exact().evidence(part.program, values, Gaussian(float(noise)), data)
            assert found.gradient is not None
            assert expected.gradient is not None
            assert_allclose(found.value, expected.value, rtol=1e-9)
            assert_allclose(found.gradient, expected.gradient, rtol=1e-6, atol=1e-7)
            assert found.noise_gradient == pytest.approx(expected.noise_gradient, rel=1e-6)


def test_values_alone_and_structures_that_cannot_be_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    data = two_columns(free_level=True)
    parts = mixed_parts(data)
    merged = LevelEvidence(data, CPU)(parts, gradient=False)
    monkeypatch.setattr(batches, "can_merge", lambda program: len(program.nodes) % 2 == 0)
    mixed = LevelEvidence(data, CPU)(parts, gradient=False)
    for some, others in zip(merged, mixed, strict=True):
        assert_allclose([e.value for e in some], [e.value for e in others], rtol=1e-9)
        assert all(e.gradient is None and e.noise_gradient is None for e in [*some, *others])


def test_only_trees_are_merged() -> None:
    leaf, term = LeafNode("SE", (0,), (1,)), Term((0,), ())
    mergeable = {text: can_merge(part.program) for text, part in zip(TEXTS, mixed_parts(two_columns()), strict=True)}
    assert [text for text, merged in mergeable.items() if not merged] == [TEXTS[-1]]  # regimes share their surface
    assert can_merge(Program((leaf, term, Affine((1,), ((0,),))), 2))
    assert not can_merge(Program((leaf, term, Affine((1, 1), ((0,), (2,)))), 3))  # a node with two parents
    assert not can_merge(Program((leaf, term, Affine((1,), ((0, 1),))), 2))  # a value read twice


def test_a_failure_leaves_its_neighbours_alone() -> None:
    data = two_columns()
    parts = mixed_parts(data)
    broken = parts[1]._replace(values=np.full_like(parts[1].values, np.nan))
    rows, before = LevelEvidence(data, CPU)([parts[0], broken, *parts[2:]]), LevelEvidence(data, CPU)(parts)
    assert all(e.failure and e.value == -np.inf and e.gradient is None for e in rows[1])
    for i in (0, *range(2, len(parts))):
        assert_allclose([e.value for e in rows[i]], [e.value for e in before[i]], rtol=1e-12)


# ---------------------------------------------------------------------------------------------------------- the search


def season(rows: int = 50) -> Data:
    rng = np.random.default_rng(0)
    x = np.linspace(-1.7, 1.7, rows)
    y = np.sin(2 * np.pi * x / 0.5) + 0.6 * x + 0.1 * rng.standard_normal(rows)
    return Data(x[:, None], (y - y.mean()) / y.std(), free_level=True)


def searched(data: Data, backend: Backend = NUMBA, **settings: Any) -> Learned:
    return GrammarSearch(average=False, **settings).learn(Context(data, Exact(), [0], backend=backend))


Work = dict[int, tuple[Any, ...]]


def watch_batches(monkeypatch: pytest.MonkeyPatch, also: Callable[[Work], None]) -> None:
    def run(function: Callable[..., Attempt], work: Work, backend: Backend) -> Iterator[tuple[int, Attempt]]:
        also(work)
        return run_on_device(function, work, backend)

    monkeypatch.setattr(trials, "run_on_device", run)


def test_rungs_end_where_candidates_end_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly all: where a line search meets a covariance that is nearly singular, rounding decides on the next step."""
    differences = []

    def compared(work: Work) -> None:
        together = dict(run_on_device(advance, work, CPU))
        for i, arguments in work.items():
            alone = advance(*arguments)
            assert len(alone.runs) == len(together[i].runs)
            assert alone.screened == together[i].screened
            assert (alone.fit is None) == (together[i].fit is None)
            differences.append(abs(alone.log_evidence - together[i].log_evidence))

    watch_batches(monkeypatch, compared)
    searched(season(), CPU, max_depth=1)
    assert len(differences) > 20
    assert np.mean(np.array(differences) < 1e-3) > 0.8


def test_the_same_winner_as_on_the_cpu() -> None:
    alone = searched(season(), max_depth=2)
    together = searched(season(), CPU, max_depth=2)
    assert structure(together.fit.expression) == structure(alone.fit.expression)
    assert together.fit.log_evidence == pytest.approx(alone.fit.log_evidence, abs=1e-3)
    assert all(c.seconds > 0 for c in together.candidates)


def test_a_journal_of_batches_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = searched(season(), CPU, max_depth=1, checkpoint=tmp_path)
    sizes: list[int] = []
    watch_batches(monkeypatch, lambda work: sizes.append(len(work)))
    second = searched(season(), CPU, max_depth=1, checkpoint=tmp_path)
    assert not any(sizes)
    assert second.fit.expression == first.fit.expression


def test_candidates_that_fail_in_a_batch_are_rows_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    original = LevelEvidence.__call__

    def broken(self: LevelEvidence, parts: list[Candidates], gradient: bool = True) -> Any:
        with_period = [any(getattr(node, "kind", "") == "PER" for node in part.program.nodes) for part in parts]
        nowhere = [
            part._replace(values=part.values * np.nan) if bad else part
            for part, bad in zip(parts, with_period, strict=True)
        ]
        return original(self, nowhere, gradient)

    monkeypatch.setattr(LevelEvidence, "__call__", broken)
    found = searched(season(), CPU, max_depth=1)
    failed = [c for c in found.candidates if c.status == "failed"]
    assert failed
    assert all(c.message for c in failed)
    assert not any(leaf.spec.words.role == "wave" for leaf in found.fit.expression.leaves())


def test_a_time_budget_ends_a_batch() -> None:
    found = searched(season(), CPU, time_budget=1e-6)
    assert found.stopped == "time"
    assert found.fit.status != "failed"


@pytest.mark.parametrize("settings", [{}, {"priors": "weak"}, {"noise": 0.02}, {"priors": "weak", "noise": 0.02}])
def test_a_given_kernel_is_fitted_as_on_the_cpu(settings: dict[str, Any]) -> None:
    """All starts at once, with priors and a known noise where they are asked for."""
    data = season()
    models = [
        mercer.GPRegressor("SE + PER", device=device, random_state=0, restarts=3, **settings).fit(data.X, data.y)
        for device in ("cpu", "cpu:0")
    ]
    assert models[1].log_evidence_ == pytest.approx(models[0].log_evidence_, abs=1e-3)
    assert models[1].noise_ == pytest.approx(models[0].noise_, rel=1e-3)


def test_a_search_without_cuda_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    data = season()
    with pytest.raises(InputError, match="device='cpu'"):
        mercer.GPRegressor("search", device="cuda").fit(data.X, data.y)


# ------------------------------------------------------------------------------------------------------ the rendezvous


def test_questions_are_answered_run_together() -> None:
    asked: list[list[int]] = []

    def answers(questions: list[int]) -> list[int]:
        asked.append(questions)
        return [10 * question for question in questions]

    def job(count: int) -> Callable[[Callable[[int], int]], int]:
        return lambda ask: sum(ask(i) for i in range(count))

    assert dict(run_together({count: job(count) for count in (0, 1, 3)}, answers)) == {0: 0, 1: 0, 3: 30}
    assert asked == [[0, 0], [1], [2]]


def test_an_error_ends_all_jobs() -> None:
    def endless(ask: Callable[[int], int]) -> None:
        while True:
            ask(0)

    def broken(ask: Callable[[int], int]) -> None:
        raise ValueError("on purpose")

    before = threading.active_count()
    with pytest.raises(ValueError, match="on purpose"):
        dict(run_together({0: endless, 1: broken}, lambda questions: questions))
    with pytest.raises(KeyboardInterrupt):
        dict(run_together({0: endless, 1: endless}, interrupted))
    for thread in threading.enumerate()[before:]:
        thread.join(timeout=10)
    assert threading.active_count() == before


def interrupted(questions: list[int]) -> list[int]:
    raise KeyboardInterrupt
