"""Work meant for a GPU, here on tensors of the CPU: equal to the CPU's own; and what happens where memory is short."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import mercer
from mercer.compute import fused
from mercer.compute.accelerator import TorchBackend
from mercer.compute.program import compile_program
from mercer.errors import InputError
from mercer.inference.bounds import BoundPolicy, interval
from mercer.inference.choose import ChoicePolicy, choose
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.inference.sparse import RowSweep
from mercer.inference.vfe import VFE, FixedVFE
from mercer.kernels import bind, parse
from mercer.kernels.parameters import values_of
from mercer.learners.many_rows import ManyRowsPolicy
from mercer.linalg.device import DeviceFactor, factorise_on_device
from mercer.linalg.factor import Failure
from tests.policies import regressor_with

KERNELS = [
    "SE(variance=1.2, lengthscale=0.7) + LIN(1, variance=0.3, offset=0.2)",
    "M32(0, variance=1, lengthscale=1) * PER(1, variance=1, period=1.3, lengthscale=0.9) + C(variance=0.4)",
    "RQ(variance=1, lengthscale=1, alpha=0.7) + LIN(0, variance=0.5, offset=0) * WN(0, variance=0.2)",
]


def rows(count: int = 60) -> Data:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (count, 2))
    return Data(X, np.sin(3 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=count) + 3, free_level=True)


def ready(text: str):
    expression = bind(parse(text), 2)
    return compile_program(expression), values_of(expression)


# ------------------------------------------------------------------------------------------------------ factorisation


@pytest.mark.parametrize("strip", [1, 7, 16, 40, 64])
def test_the_factor_in_place_is_the_factor(strip: int) -> None:
    rng = np.random.default_rng(1)
    root = rng.normal(size=(40, 40))
    matrix = root @ root.T
    garbage = np.tril(matrix) + np.triu(np.full((40, 40), 1e9), 1)  # above the diagonal nothing is read
    made = torch.tensor(garbage)
    factor = factorise_on_device(lambda: made, 0.5, strip)
    assert isinstance(factor, DeviceFactor)
    assert factor.lower.data_ptr() == made.data_ptr()
    whole = matrix + 0.5 * np.eye(40)
    assert_allclose(np.tril(factor.lower.numpy()), np.linalg.cholesky(whole), rtol=1e-9, atol=1e-10)
    assert factor.log_determinant() == pytest.approx(np.linalg.slogdet(whole)[1])
    right = rng.normal(size=(40, 3))
    assert_allclose(factor.solve(right), np.linalg.solve(whole, right), rtol=1e-7)
    assert_allclose(factor.solve(right[:, 0]), np.linalg.solve(whole, right[:, 0]), rtol=1e-7)
    assert_allclose(factor.half_solve(right), np.linalg.solve(np.linalg.cholesky(whole), right), rtol=1e-7)
    inverse = np.linalg.inv(whole)
    assert_allclose(factor.inverse_diagonal(), np.diag(inverse), rtol=1e-7)
    for columns, part in factor.inverse_strips():
        assert_allclose(part.numpy(), inverse[columns.start :, columns], rtol=1e-6, atol=1e-9)


def test_jitter_is_added_and_told_and_a_failure_is_a_value() -> None:
    ones = np.ones((30, 30))
    factor = factorise_on_device(lambda: torch.tensor(ones), 0.0, 8)
    assert isinstance(factor, DeviceFactor)
    assert factor.jitter > 0
    assert isinstance(factorise_on_device(lambda: torch.tensor(-ones), 0.0, 8), Failure)
    assert isinstance(factorise_on_device(lambda: torch.tensor(ones * np.nan), 0.0, 8), Failure)


# --------------------------------------------------------------------------------------------------- engine = engine


@pytest.mark.parametrize("text", KERNELS)
@pytest.mark.parametrize("strip", [16, 2048])
def test_exact_inference_is_the_same(text: str, strip: int) -> None:
    data, new = rows(), np.random.default_rng(2).uniform(-3, 3, (9, 2))
    program, values = ready(text)
    here, there = (
        Exact().evidence(program, values, Gaussian(0.1), data),
        Exact(TorchBackend("cpu:0", strip)).evidence(program, values, Gaussian(0.1), data),
    )
    assert there.value == pytest.approx(here.value, rel=1e-10)
    assert_allclose(there.gradient, here.gradient, rtol=1e-7, atol=1e-7)
    assert there.noise_gradient == pytest.approx(here.noise_gradient, rel=1e-7)
    assert there.leave_one_out == pytest.approx(here.leave_one_out, rel=1e-8)
    one, other = (
        Exact().posterior(program, values, Gaussian(0.1), data),
        Exact(TorchBackend("cpu:0", strip)).posterior(program, values, Gaussian(0.1), data),
    )
    for a, b in (
        (one.predict(new), other.predict(new)),
        (one.leave_one_out(), other.leave_one_out()),
        (one.level, other.level),
    ):
        assert_allclose(b.mean, a.mean, rtol=1e-7)
        assert_allclose(b.variance, a.variance, rtol=1e-6)
    assert_allclose(other.predict_joint(new)[1], one.predict_joint(new)[1], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("text", KERNELS)
def test_sparse_blocks_are_the_same(text: str) -> None:
    data, Z = rows(), np.random.default_rng(3).uniform(-2, 2, (6, 2))
    program, values = ready(text)
    here = FixedVFE(Z, 17, moving=True).evidence(program, values, Gaussian(0.1), data)
    there = FixedVFE(Z, 17, device="cpu:0", moving=True).evidence(program, values, Gaussian(0.1), data)
    assert there.value == pytest.approx(here.value, rel=1e-10)
    assert_allclose(there.gradient, here.gradient, rtol=1e-6, atol=1e-6)
    assert there.noise_gradient == pytest.approx(here.noise_gradient, rel=1e-6)
    assert_allclose(there.by_points, here.by_points, rtol=1e-5, atol=1e-6)


# --------------------------------------------------------------------------------------------------- memory is short


@dataclass(frozen=True)
class Card(TorchBackend):
    """A "cuda" that is the CPU, with 10 GB of memory, and too little of it for what is in `short`."""

    device: str = "cuda"
    memory: int | None = 10**10
    most_rows: float = float("inf")  # of a rectangle
    short: set[str] = field(default_factory=set, compare=False)
    sizes: list[int] = field(default_factory=list, compare=False)  # rows of every rectangle
    error: str = "CUDA out of memory. Tried to allocate 2.00 TiB"

    def __post_init__(self) -> None:
        pass

    @property
    def where(self) -> torch.device:
        return torch.device("cpu")

    def free_memory(self) -> int | None:
        return self.memory

    def need(self, what: str) -> None:
        if what in self.short:
            raise RuntimeError(self.error)

    def gram_lower(self, *given: Any) -> Any:
        self.need("gram")
        return super().gram_lower(*given)

    def cross(self, program: Any, values: Any, X: Any, Z: Any, out: Any = None) -> Any:
        self.need("cross")
        self.sizes.append(len(X))
        if len(X) > self.most_rows:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return super().cross(program, values, X, Z, out)

    def strips(self, *given: Any) -> Any:
        self.need("strips")
        return super().strips(*given)

    def send(self, array: Any) -> Any:
        self.need("anything")
        return super().send(array)


def test_what_an_error_means() -> None:
    is_out_of_memory = TorchBackend("cpu:0").is_out_of_memory
    assert is_out_of_memory(torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 12.00 GiB"))
    assert is_out_of_memory(RuntimeError("cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling ..."))
    assert not is_out_of_memory(RuntimeError("shapes do not match"))
    assert not is_out_of_memory(ValueError("out of memory"))


def test_a_block_that_does_not_fit_is_cut_in_two() -> None:
    data, Z = rows(1200), rows().X[:6]
    program, values = ready(KERNELS[0])
    whole, card = FixedVFE(Z).evidence(program, values, Gaussian(0.1), data), Card(most_rows=400)
    found = FixedVFE(Z, device=card).evidence(program, values, Gaussian(0.1), data)
    assert found.value == pytest.approx(whole.value, rel=1e-9)
    assert_allclose(found.gradient, whole.gradient, rtol=1e-6)
    assert card.sizes[:3] == [1200, 600, 300]


@pytest.mark.parametrize("kernel", KERNELS)
def test_both_bounds_are_those_of_the_cpu(kernel: str) -> None:
    data, Z = rows(300), rows().X[:6]
    here = interval(*ready(kernel), 0.1, data, Z, BoundPolicy(5))
    there = interval(*ready(kernel), 0.1, data, Z, BoundPolicy(5), FixedVFE(Z, device="cpu:0").sweep)
    assert here.width > 1  # so few points that products with all pairs are needed
    assert (there.lower, there.upper) == pytest.approx((here.lower, here.upper), rel=1e-9)
    sweeps = RowSweep(), RowSweep(backend=TorchBackend("cpu:0"))
    close = [interval(*ready(kernel), 0.1, data, Z, BoundPolicy(5, traces=True), sweep) for sweep in sweeps]
    assert close[0].width < here.width
    assert (close[1].lower, close[1].upper) == pytest.approx((close[0].lower, close[0].upper), rel=1e-9)


def test_a_product_that_does_not_fit_is_cut_in_two() -> None:
    data, vector = rows(700), np.random.default_rng(1).normal(size=700)
    program, values = ready(KERNELS[0])
    card = Card(most_rows=200)
    found = card.times(program, values, data.X, vector)
    assert_allclose(found, fused.gram(program, values, data.X) @ vector, rtol=1e-9, atol=1e-9)
    assert min(card.sizes) < 200 < max(card.sizes)


def test_traces_that_do_not_fit_on_a_device_are_worked_out_here() -> None:
    data, Z = rows(300), rows().X[:6]
    here = interval(*ready(KERNELS[0]), 0.1, data, Z, BoundPolicy(None, traces=True))
    sweep = RowSweep(backend=Card(short={"strips"}))
    found = interval(*ready(KERNELS[0]), 0.1, data, Z, BoundPolicy(None), sweep)
    assert found.width > here.width
    there = interval(*ready(KERNELS[0]), 0.1, data, Z, BoundPolicy(None, traces=True), sweep)
    assert (there.lower, there.upper) == pytest.approx((here.lower, here.upper), rel=1e-9)


QUICK = ManyRowsPolicy(sample=100, rounds=1, iterations=4)
Quick = regressor_with(QUICK)
FEW = ChoicePolicy(exact_rows=200)


def test_an_interval_that_does_not_fit_on_a_card_is_worked_out_here() -> None:
    data, card = rows(250), Card()
    model = Quick("SE + LIN(1)", inference=mercer.VFE(inducing=20), device=card, random_state=0)
    model.fit(data.X, data.y)
    expected = model.evidence_interval()
    card.short.add("cross")
    assert model.evidence_interval() == pytest.approx(expected, rel=1e-9)


def fitted(policy: ChoicePolicy = FEW, **settings: object) -> mercer.GPRegressor:
    data = rows(250)
    settings = {"device": Card(), **settings}
    return regressor_with(QUICK, policy)("SE(0) + LIN(1)", restarts=1, random_state=0, **settings).fit(data.X, data.y)


def test_exact_inference_on_the_card_where_it_fits(tmp_path) -> None:
    model = fitted()
    assert model.inference_.engine == Exact(Card())
    assert "exact inference on cuda: 250 rows need" in model.inference_.reason
    data = rows(250)
    here = Quick("SE(0) + LIN(1)", inference=mercer.Exact(), restarts=1, random_state=0).fit(data.X, data.y)
    assert model.log_evidence_ == pytest.approx(here.log_evidence_, abs=0.5)
    model.save(tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    assert again.inference_.engine == Exact()
    assert_allclose(again.predict(data.X[:9]), model.predict(data.X[:9]), rtol=1e-6)


def test_exact_inference_on_very_many_rows_takes_few_well_scaled_steps() -> None:
    data, settings = rows(250), {"restarts": 1, "random_state": 0, "device": Card(), "inference": mercer.Exact()}
    long = regressor_with(ManyRowsPolicy(sample=60), FEW)("SE + LIN(1)", **settings).fit(data.X, data.y)
    few = ManyRowsPolicy(sample=60, nearer=40, growth=2, scaled_rows=200, scaled_iterations=5)
    scaled = regressor_with(few, FEW)("SE + LIN(1)", **settings).fit(data.X, data.y)
    assert scaled.log_evidence_ == pytest.approx(long.log_evidence_, abs=0.1)


def test_the_choice_goes_by_the_memory_of_the_card() -> None:
    card, large = Card(), Card(memory=10**12)
    assert choose(20_000, backend=card, policy=FEW).engine == Exact(card)
    too_large = choose(40_000, backend=card, policy=FEW)
    assert too_large.engine == VFE(device=card)
    assert "16.6 GB of 10 GB on cuda" in too_large.reason
    assert choose(60_000, backend=large, policy=FEW).engine == VFE(device=large)  # it would fit, and take too long
    assert choose(60_000, Exact(), backend=large, policy=FEW).engine == Exact(large)
    assert choose(60_000, VFE(100), backend=large, policy=FEW).engine == VFE(100, device=large)
    assert choose(150, backend=large, policy=FEW).engine == Exact()


def test_out_of_memory_never_reaches_the_user() -> None:
    card = Card(short={"gram"})
    model = fitted(device=card)
    assert model.inference_.engine == VFE(device=card)
    assert "exact inference was tried for 250 rows, and cuda ran out of memory" in model.inference_.reason
    model = fitted(device=Card(short={"gram", "cross"}))
    assert model.inference_.engine == VFE()
    assert "on the CPU: cuda ran out of memory" in model.inference_.reason
    assert model.inference_.reason in model.notes_
    assert np.isfinite(model.log_evidence_)


def test_few_rows_that_do_not_fit_go_to_the_cpu() -> None:
    card = Card(short={"anything"}, error="CUDA error: out of memory")
    model = fitted(ChoicePolicy(exact_rows=1000), device=card)
    assert model.inference_.engine == Exact()
    assert "on the CPU: cuda ran out of memory" in model.inference_.reason


def test_other_errors_are_not_swallowed() -> None:
    with pytest.raises(RuntimeError, match="shapes do not match"):
        fitted(device=Card(short={"gram"}, error="shapes do not match"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
@pytest.mark.parametrize("count", [50, 250])
def test_cuda_where_there_is_none(count: int) -> None:
    data, few = rows(count), ChoicePolicy(exact_rows=100)
    for kernel in ("SE", "search", "nkn"):
        with pytest.raises(InputError, match="finds no CUDA device here"):
            regressor_with(QUICK, few)(kernel, device="cuda").fit(data.X, data.y)
    with pytest.raises(InputError, match="there is no device 'gpu'"):
        Quick("SE", device="gpu").fit(data.X, data.y)
