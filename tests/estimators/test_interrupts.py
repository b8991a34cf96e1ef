"""Ctrl-C, whenever it comes, gives the best so far, and the model says so. Several jobs give what one gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from joblib import parallel_config, register_parallel_backend
from joblib.parallel import ThreadingBackend
from tests.policies import regressor_with

import mercer
from mercer import ChangeSurface, GPRegressor, GrammarSearch, KernelFunctional, NeuralKernelNetwork
from mercer.compute.accelerator import TorchBackend
from mercer.fitting.minimise import Progress
from mercer.learners.grammar import SearchPolicy
from mercer.learners.many_rows import ManyRowsPolicy

SEARCH = GrammarSearch(bases=("SE", "LIN"), max_depth=1, restarts=2)
SURFACE = ChangeSurface(kernel="SE", draws=3, kernel_draws=2, restarts=2, max_iterations=20)
SHAPE = KernelFunctional(subspaces=0, tuning=0, average=False)
NETWORK = NeuralKernelNetwork("SE + LIN", "Linear2-Product1-Linear1", restarts=3, max_iterations=20)


def wave(rows: int = 40) -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(float(rows))
    return x[:, None], np.sin(x / 3) + 0.1 * np.cos(97 * x)


def interrupted(model: GPRegressor) -> GPRegressor:
    """Fit, with Ctrl-C at the first report."""

    def stop(state: object) -> None:
        raise KeyboardInterrupt

    return model.fit(*wave(), progress=stop)


@pytest.mark.filterwarnings("ignore:the fit")
@pytest.mark.parametrize("learner", [SEARCH, SURFACE, SHAPE, NETWORK], ids=lambda each: type(each).__name__)
def test_ctrl_c_at_the_first_report_keeps_what_is_fitted(learner: Any) -> None:
    model = interrupted(GPRegressor(learner, random_state=0))
    assert model.stopped_ == "request"
    assert len(model.candidates_) == 1
    assert any("stopped on request" in note for note in model.notes_)
    assert np.isfinite(model.predict(wave()[0])).all()


@pytest.mark.filterwarnings("ignore:the fit")
def test_ctrl_c_in_the_first_rung_of_a_race_keeps_the_best_that_has_begun() -> None:
    model = interrupted(regressor_with(SearchPolicy(bases=1))(SEARCH, random_state=0))
    assert model.stopped_ == "request"
    assert len(model.candidates_) == 1


@pytest.mark.filterwarnings("ignore:the fit")
def test_ctrl_c_at_the_first_report_of_a_search_by_intervals() -> None:
    model = interrupted(regressor_with(ManyRowsPolicy(sample=30))(SEARCH, inference=mercer.VFE(15), random_state=0))
    assert model.stopped_ == "request"
    assert len(model.candidates_) == 1


@pytest.mark.filterwarnings("ignore:the fit")
def test_an_interrupted_surface_says_what_was_fitted() -> None:
    model = interrupted(GPRegressor(SURFACE, random_state=0))
    assert any("stopped on request" in note and "1 of 2 regimes" in note for note in model.notes_)
    told = " ".join(str(model.explain()).split())
    assert "1 to 1 regimes" not in told
    assert "one kernel with one regime was fitted" in told


@pytest.mark.filterwarnings("ignore:the fit")
def test_an_interrupted_surface_is_the_best_of_what_was_fitted() -> None:
    """Where no kernel is given, several are tried for one regime: not the first of them but the best is kept."""

    def stop(state: object) -> None:
        seen.append(state)
        if len(seen) == 4:
            raise KeyboardInterrupt

    seen: list[object] = []
    model = GPRegressor(ChangeSurface(restarts=2), random_state=0).fit(*wave(), progress=stop)
    tried = model.candidates_
    assert len(tried) == 4
    assert model.kernel_ == min(tried, key=lambda c: c.score).expression != tried[0].expression


@pytest.mark.parametrize("more", [{}, {"n_jobs": 2}, {"device": TorchBackend("cpu:0")}], ids=str)
def test_given_kernels_report_and_keep_the_best_whatever_runs_them(more: dict[str, Any]) -> None:
    whole = GPRegressor("SE*PER", restarts=3, random_state=0, **more)
    seen: list[Progress] = []
    whole.fit(*wave(), progress=seen.append)
    assert len(seen) > 1
    assert [state.score for state in seen] == sorted((state.score for state in seen), reverse=True)
    with pytest.warns(mercer.FitWarning, match="the fit was interrupted: stopped on request"):
        stopped = interrupted(GPRegressor("SE*PER", restarts=3, random_state=0, **more))
    assert stopped.stopped_ == "request"
    assert stopped.status_ == "interrupted"
    assert stopped.log_evidence_ <= whole.log_evidence_ + 1e-6
    assert np.isfinite(stopped.predict(wave()[0])).all()


# ------------------------------------------------------------------------------------------------------- several jobs


class Noting(ThreadingBackend):
    """Threads, and a note of how many were asked for."""

    asked: list[int] = []  # noqa: RUF012

    def configure(self, n_jobs: int = 1, parallel: Any = None, **settings: Any) -> int:
        self.asked.append(n_jobs)
        return int(super().configure(n_jobs, parallel, **settings))


@pytest.mark.filterwarnings("ignore:the fit")
@pytest.mark.parametrize("learner", [SURFACE, SHAPE, NETWORK, SEARCH], ids=lambda each: type(each).__name__)
def test_every_learner_honours_jobs_and_finds_the_same(learner: Any) -> None:
    register_parallel_backend("noting", Noting)
    Noting.asked.clear()
    alone = GPRegressor(learner, random_state=0).fit(*wave())
    assert not Noting.asked
    with parallel_config("noting"):
        together = GPRegressor(learner, n_jobs=2, random_state=0).fit(*wave())
    assert set(Noting.asked) == {2}
    assert [c.expression for c in together.candidates_] == [c.expression for c in alone.candidates_]
    assert together.kernel_ == alone.kernel_


# --------------------------------------------------------------------------------------- few rows with few points


def test_what_is_said_of_sparse_inference_on_few_rows_is_true() -> None:
    search = replace(SEARCH, score="bic")  # exact inference on so few rows would go by the evidence under priors
    model = GPRegressor(search, inference=mercer.VFE(10), random_state=0).fit(*wave())
    told = str(model.explain()) + " ".join(model.notes_)
    assert "too many" not in told
    assert "drawn at random" not in told
    exact = GPRegressor(search, random_state=0).fit(*wave())
    assert model.kernel_.text(digits=1) == exact.kernel_.text(digits=1)
