"""Fitting: known truths are found, the same seed gives the same result, and a status always comes back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from mercer.compute.program import Program, compile_program
from mercer.fitting.minimise import Progress, fit, starting_points
from mercer.fitting.problem import Fit, FitOptions, prepare
from mercer.inference.contract import Data, Engine, Evidence
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.kernels import LIN, PER, RQ, SE, C, Expression, bind, fixed
from mercer.kernels.parameters import values_of

Array = NDArray[np.float64]
QUICK = FitOptions(restarts=2, max_iterations=60)


def drawn_from(expression: Expression, noise: float, n: int, seed: int = 0) -> Data:
    """Rows of unit spread and a target drawn from the kernel itself."""
    rng = np.random.default_rng(seed)
    X = np.linspace(-1.7, 1.7, n)[:, None]
    bound = bind(expression, 1)
    posterior = Exact().posterior(
        compile_program(bound), values_of(bound), Gaussian(1.0), Data(X[:1] + 1e6, np.zeros(1))
    )
    return Data(X, posterior.sample(X, 1, rng, noise)[:, 0])


def season(n: int = 80, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    x = np.linspace(-1.7, 1.7, n)
    y = np.sin(2 * np.pi * x / 0.5) + 0.4 * x + 0.1 * rng.normal(size=n)
    return Data(x[:, None], (y - y.mean()) / y.std())


def fitted(expression: Expression, data: Data, options: FitOptions = QUICK, engine: Any = None) -> Fit:
    return fit(bind(expression, data.X.shape[1]), data, engine or Exact(), options)


def parameter(result: Fit, leaf: int, name: str) -> float:
    value = list(result.expression.leaves())[leaf].value(name)
    assert isinstance(value, float)
    return value


# ------------------------------------------------------------------------------------------------------ known truths


def test_a_lengthscale_and_a_noise_are_recovered() -> None:
    data = drawn_from(SE(0, variance=1, lengthscale=0.15), 0.04, 250)
    result = fitted(SE(0), data, FitOptions(restarts=3))
    assert result.status == "converged"
    assert parameter(result, 0, "lengthscale") == pytest.approx(0.15, rel=0.25)
    assert result.noise == pytest.approx(0.04, rel=0.3)
    assert result.parameters == 3
    assert result.evaluations > 10


def test_a_period_is_recovered() -> None:
    data = season()
    result = fitted(SE(0) * PER(0) + LIN(0), data, FitOptions(restarts=4))
    assert parameter(result, 1, "period") == pytest.approx(0.5, rel=0.02)
    assert result.noise < 0.05


def test_the_fit_is_a_maximum_of_the_evidence() -> None:
    data = season()
    result = fitted(SE(0), data)
    program = compile_program(result.expression)
    assert result.log_evidence == pytest.approx(
        Exact().evidence(program, values_of(result.expression), Gaussian(result.noise), data).value
    )
    rng = np.random.default_rng(0)
    for _ in range(20):
        values = values_of(result.expression) * np.exp(0.05 * rng.normal(size=2))
        noise = result.noise * math.exp(0.05 * rng.normal())
        assert Exact().evidence(program, values, Gaussian(noise), data, False).value <= result.log_evidence + 1e-6


def test_more_restarts_are_never_worse() -> None:
    data = season()
    scores = [fitted(SE(0) * PER(0), data, FitOptions(restarts=r, seed=4)).log_evidence for r in (1, 3)]
    assert scores[1] >= scores[0] - 1e-9


# --------------------------------------------------------------------------------------------------- reproducibility


@pytest.mark.parametrize("even", [True, False])
def test_the_same_seed_gives_the_same_bits_whatever_the_number_of_jobs(even: bool) -> None:
    data = season(60)
    if not even:
        order = np.random.default_rng(0).permutation(60)
        data = Data(data.X[order], data.y[order])
    expression = SE(0) * PER(0) + RQ(0)
    results = [
        fitted(expression, data, FitOptions(restarts=3, max_iterations=25, n_jobs=jobs, seed=11))
        for jobs in (None, 1, 2, 2)
    ]
    for other in results[1:]:
        assert other.expression == results[0].expression
        assert other.noise == results[0].noise
        assert other.log_evidence == results[0].log_evidence
        assert (other.status, other.message, other.evaluations) == (
            results[0].status,
            results[0].message,
            results[0].evaluations,
        )


def test_other_seeds_try_other_starts() -> None:
    problem = prepare(bind(SE(0) * PER(0), 1), season(), Exact(), QUICK)
    one, other = (starting_points(problem, FitOptions(restarts=3, seed=seed))[0] for seed in (0, 1))
    assert_array_equal(one[0], other[0])  # the typical start does not depend on the seed
    assert not np.array_equal(one[1], other[1])


def test_starts_are_the_best_of_many_draws() -> None:
    problem = prepare(bind(SE(0), 1), season(), Exact(), QUICK)
    points, tried = starting_points(problem, FitOptions(restarts=3))
    assert tried == 2 * FitOptions().draws
    scores = [problem.evidence(p).value for p in points]
    assert scores[1] >= scores[2]
    assert len(points) == 3


# -------------------------------------------------------------------------------------------- given and fixed values


class Recorder(Engine):
    """The exact engine, remembering what it was asked, stopping or failing when told to."""

    name = "recorder"

    def __init__(self, stop_at: int | None = None, fail: str | None = None) -> None:
        self.asked: list[tuple[Array, float]] = []
        self.stop_at, self.fail = stop_at, fail

    def evidence(
        self, program: Program, values: Array, likelihood: Gaussian, data: Data, gradient: bool = True
    ) -> Evidence:
        self.asked.append((values.copy(), likelihood.noise))
        if self.stop_at is not None and len(self.asked) >= self.stop_at:
            self.stop_at = None
            raise KeyboardInterrupt
        if self.fail is not None:
            return Evidence(-math.inf, failure=self.fail)
        return Exact().evidence(program, values, likelihood, data, gradient)

    def posterior(self, *arguments: Any) -> Any:
        return Exact().posterior(*arguments)


def test_given_values_are_where_the_search_begins() -> None:
    engine = Recorder()
    fitted(SE(0, variance=0.7, lengthscale=0.33), season(), FitOptions(restarts=1), engine)
    assert_allclose(engine.asked[0][0], [0.7, 0.33])
    engine = Recorder()
    fitted(SE(0, lengthscale=0.33), season(), FitOptions(restarts=3), engine)
    assert all(values[1] == pytest.approx(0.33) for values, _ in engine.asked[: 2 * FitOptions().draws])


def test_fixed_values_and_a_fixed_noise_do_not_move() -> None:
    engine = Recorder()
    expression = SE(0, lengthscale=fixed(0.4)) * PER(0, period=fixed(0.5), lengthscale=1.0)
    result = fitted(expression, season(), FitOptions(restarts=2, noise=0.02), engine)
    assert result.noise == 0.02
    assert {noise for _, noise in engine.asked} == {0.02}
    assert {values[1] for values, _ in engine.asked} == {0.4}
    assert {values[3] for values, _ in engine.asked} == {0.5}
    assert parameter(result, 0, "lengthscale") == 0.4
    assert parameter(result, 1, "lengthscale") != 1.0
    assert next(result.expression.leaves()).parameter("lengthscale").fixed
    assert result.parameters == 2


def test_nothing_to_fit_is_an_evaluation() -> None:
    expression = SE(0, variance=fixed(1), lengthscale=fixed(0.4))
    result = fitted(expression, season(), FitOptions(noise=0.1))
    assert result.status == "converged"
    assert result.parameters == 0
    assert np.isfinite(result.log_evidence)
    assert np.isfinite(result.leave_one_out)


def test_only_the_noise_to_fit() -> None:
    expression = SE(0, variance=fixed(1), lengthscale=fixed(0.1))
    result = fitted(expression, season())
    assert result.parameters == 1
    assert 0 < result.noise < 0.1


# -------------------------------------------------------------------------------------------------------------- status


def test_a_parameter_at_its_bound_is_named() -> None:
    """A straight line through an SE: the longer the lengthscale, the better, without end."""
    x = np.linspace(-1.7, 1.7, 30)
    result = fitted(SE(0, variance=fixed(1.0)) + C(), Data(x[:, None], np.ones(30)), FitOptions(noise=0.1))
    assert result.status == "at a bound"
    assert "0:SE.lengthscale at its upper bound" in result.message
    exact = Data(x[:, None], x)
    result = fitted(LIN(0), exact, FitOptions(restarts=2))
    assert result.status == "at a bound"
    assert "noise at its lower bound" in result.message


def test_too_few_iterations_are_said() -> None:
    result = fitted(SE(0) * PER(0) + RQ(0), season(), FitOptions(restarts=1, max_iterations=2))
    assert result.status == "stopped"
    assert "more iterations" in result.message


def test_a_failure_carries_its_reason() -> None:
    result = fitted(SE(0), season(), QUICK, Recorder(fail="the kernel gave infinite or undefined values"))
    assert result.status == "failed"
    assert result.message == "the kernel gave infinite or undefined values"
    assert result.log_evidence == -math.inf


def test_starts_that_fail_do_not_spoil_the_others() -> None:
    class Partly(Recorder):
        def evidence(
            self, program: Program, values: Array, likelihood: Gaussian, data: Data, gradient: bool = True
        ) -> Evidence:
            if values[1] > 0.3:
                return Evidence(-math.inf, failure="too long")
            return super().evidence(program, values, likelihood, data, gradient)

    result = fitted(SE(0), season(), FitOptions(restarts=4), Partly())
    assert result.status != "failed"
    assert parameter(result, 0, "lengthscale") <= 0.3


def test_progress_is_reported_after_every_start() -> None:
    calls: list[Progress] = []
    expression = bind(SE(0), 1)
    result = fit(expression, season(), Exact(), FitOptions(restarts=3), calls.append)
    assert [(call.done, call.total) for call in calls] == [(1, 3), (2, 3), (3, 3)]
    best = [-0.5 * call.score for call in calls]
    assert best == sorted(best)
    assert best[-1] == pytest.approx(result.log_evidence)


# -------------------------------------------------------------------------------------------------------- interruption


def evaluations_of_one_start() -> int:
    engine = Recorder()
    fitted(SE(0), season(), FitOptions(restarts=1), engine)
    return len(engine.asked) - 1  # the last is for the result


def test_an_interruption_keeps_the_best_of_the_finished_starts() -> None:
    first = fitted(SE(0), season(), FitOptions(restarts=1))
    options = FitOptions(restarts=3)
    engine = Recorder(stop_at=2 * FitOptions().draws + evaluations_of_one_start() + 2)
    result = fitted(SE(0), season(), options, engine)
    assert result.status == "interrupted"
    assert result.log_evidence == pytest.approx(first.log_evidence)
    assert result.expression == first.expression


def test_an_interruption_before_any_start_is_finished_still_gives_a_kernel() -> None:
    result = fitted(SE(0), season(), FitOptions(restarts=1), Recorder(stop_at=3))
    assert result.status == "interrupted"
    assert not np.isnan(values_of(result.expression)).any()
    assert np.isfinite(result.log_evidence)


# -------------------------------------------------------------------------------------------------------------- priors


def test_weak_priors_pull_only_what_the_data_do_not_determine() -> None:
    x = np.linspace(-1.7, 1.7, 40)
    rng = np.random.default_rng(0)
    noise_only = Data(x[:, None], 0.3 * rng.normal(size=40))
    free, held = (fitted(SE(0), noise_only, FitOptions(restarts=3, priors=p, noise=1.0)) for p in (False, True))
    assert parameter(free, 0, "variance") < 1e-5
    assert parameter(held, 0, "variance") > 1e-3
    assert held.status == "converged"
    assert held.log_evidence <= free.log_evidence + 1e-9
    data = drawn_from(SE(0, variance=1, lengthscale=0.15), 0.04, 150)
    loose, tight = (fitted(SE(0), data, FitOptions(restarts=2, priors=p)) for p in (False, True))
    assert parameter(tight, 0, "lengthscale") == pytest.approx(parameter(loose, 0, "lengthscale"), rel=0.1)


def test_the_log_evidence_of_a_fit_with_priors_leaves_the_prior_out() -> None:
    data = season()
    result = fitted(SE(0), data, FitOptions(restarts=1, priors=True))
    found = Exact().evidence(
        compile_program(result.expression), values_of(result.expression), Gaussian(result.noise), data
    )
    assert result.log_evidence == pytest.approx(found.value)
    assert result.leave_one_out == found.leave_one_out
