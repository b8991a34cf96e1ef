"""Work meant for a GPU, here on tensors of the CPU: equal to the CPU's own; and what happens where memory is short."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import mercer
from mercer.compute import fused
from mercer.compute.program import compile_program
from mercer.errors import InputError
from mercer.inference import choose as choose_module
from mercer.inference import device_blocks, exact_device
from mercer.inference.bounds import interval
from mercer.inference.choose import choose
from mercer.inference.contract import Data
from mercer.inference.device_exact import DeviceExact
from mercer.inference.exact import Exact
from mercer.inference.exact_device import Where, evidence_on, posterior_on
from mercer.inference.likelihood import Gaussian
from mercer.inference.rows import Sweep
from mercer.inference.sparse import block_statistics, model_of
from mercer.inference.vfe import VFE, FixedVFE
from mercer.kernels import bind, parse
from mercer.kernels.parameters import values_of
from mercer.learners.many_rows import ManyRowsPolicy
from mercer.linalg import device as device_module
from mercer.linalg.device import DeviceFactor, factorise_on_device, is_out_of_memory
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
        evidence_on(Where("cpu", strip), program, values, 0.1, data, True),
    )
    assert there.value == pytest.approx(here.value, rel=1e-10)
    assert_allclose(there.gradient, here.gradient, rtol=1e-7, atol=1e-7)
    assert there.noise_gradient == pytest.approx(here.noise_gradient, rel=1e-7)
    assert there.leave_one_out == pytest.approx(here.leave_one_out, rel=1e-8)
    one, other = (
        Exact().posterior(program, values, Gaussian(0.1), data),
        posterior_on(Where("cpu", strip), program, values, 0.1, data),
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
def test_sparse_blocks_are_the_same(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, Z = rows(), np.random.default_rng(3).uniform(-2, 2, (6, 2))
    program, values = ready(text)
    here = FixedVFE(Z, 17, moving=True).evidence(program, values, Gaussian(0.1), data)
    there = FixedVFE(Z, 17, device="cpu:0", moving=True).evidence(program, values, Gaussian(0.1), data)
    assert there.value == pytest.approx(here.value, rel=1e-10)
    assert_allclose(there.gradient, here.gradient, rtol=1e-6, atol=1e-6)
    assert there.noise_gradient == pytest.approx(here.noise_gradient, rel=1e-6)
    assert_allclose(there.by_points, here.by_points, rtol=1e-5, atol=1e-6)


# --------------------------------------------------------------------------------------------------- memory is short


def test_what_an_error_means() -> None:
    assert is_out_of_memory(torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 12.00 GiB"))
    assert is_out_of_memory(RuntimeError("cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling ..."))
    assert not is_out_of_memory(RuntimeError("shapes do not match"))
    assert not is_out_of_memory(ValueError("out of memory"))


def with_room_for(most: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let blocks of more rows than `most` not fit; return the list that the rows of every block go into."""
    sizes: list[int] = []
    cross = device_blocks.cross

    def short(program, values, X, Z):
        sizes.append(len(X))
        if len(X) > most:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return cross(program, values, X, Z)

    monkeypatch.setattr(device_blocks, "cross", short)
    return sizes


def test_a_block_that_does_not_fit_is_cut_in_two(monkeypatch: pytest.MonkeyPatch) -> None:
    data, Z = rows(1200), rows().X[:6]
    program, values = ready(KERNELS[0])
    whole = FixedVFE(Z).evidence(program, values, Gaussian(0.1), data)
    sizes = with_room_for(400, monkeypatch)
    found = FixedVFE(Z, device="cpu:0").evidence(program, values, Gaussian(0.1), data)
    assert found.value == pytest.approx(whole.value, rel=1e-9)
    assert_allclose(found.gradient, whole.gradient, rtol=1e-6)
    assert sizes[:3] == [1200, 600, 300]


@pytest.mark.parametrize("kernel", KERNELS)
def test_both_bounds_are_those_of_the_cpu(kernel: str) -> None:
    data, Z = rows(300), rows().X[:6]
    here = interval(*ready(kernel), 0.1, data, Z, 5)
    there = interval(*ready(kernel), 0.1, data, Z, 5, sweep=FixedVFE(Z, device="cpu:0").sweep)
    assert here.width > 1  # so few points that products with all pairs are needed
    assert (there.lower, there.upper) == pytest.approx((here.lower, here.upper), rel=1e-9)
    close = [interval(*ready(kernel), 0.1, data, Z, 5, sweep=Sweep(device=d), traces=True) for d in ("cpu", "cpu:0")]
    assert close[0].width < here.width
    assert (close[1].lower, close[1].upper) == pytest.approx((close[0].lower, close[0].upper), rel=1e-9)


def test_a_product_that_does_not_fit_is_cut_in_two(monkeypatch: pytest.MonkeyPatch) -> None:
    data, vector = rows(700), np.random.default_rng(1).normal(size=700)
    program, values = ready(KERNELS[0])
    model = model_of(program, values, 0.1, data, data.X[:3])
    sizes = with_room_for(200, monkeypatch)
    found = device_blocks.device_product("cpu", model, data.X, vector)
    assert_allclose(found, fused.gram(program, values, data.X) @ vector, rtol=1e-9, atol=1e-9)
    assert min(sizes) < 200 < max(sizes)


def test_traces_that_do_not_fit_on_a_device_are_worked_out_here(monkeypatch: pytest.MonkeyPatch) -> None:
    data, Z = rows(300), rows().X[:6]
    here = interval(*ready(KERNELS[0]), 0.1, data, Z, None, traces=True)

    def short(device: str, array: np.ndarray) -> torch.Tensor:
        if array.ndim == 2 and len(array) == len(Z):  # V and W
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return torch.as_tensor(np.ascontiguousarray(array))

    found = interval(*ready(KERNELS[0]), 0.1, data, Z, None, sweep=Sweep(device="cpu:0"))
    assert found.width > here.width
    monkeypatch.setattr(device_blocks, "device_statistics", lambda device, *given: partial(block_statistics, *given))
    monkeypatch.setattr(device_blocks, "sent", short)
    there = interval(*ready(KERNELS[0]), 0.1, data, Z, None, sweep=Sweep(device="cpu:0"), traces=True)
    assert (there.lower, there.upper) == pytest.approx((here.lower, here.upper), rel=1e-9)


Quick = regressor_with(ManyRowsPolicy(sample=100, rounds=1, iterations=4))


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose "cuda" is the CPU, with 10 GB of memory."""
    import mercer.fitting.batched as batched  # before anything is replaced: it would keep what it finds

    for module in (device_module, exact_device, device_blocks, batched):
        monkeypatch.setattr(module, "available_device", lambda device: torch.device("cpu"))
    monkeypatch.setattr(device_module, "free_memory", lambda device: 10**10)
    monkeypatch.setattr(choose_module, "EXACT_ROWS", 200)


def test_an_interval_that_does_not_fit_on_a_card_is_worked_out_here(
    card: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = rows(250)
    model = Quick("SE + LIN(1)", inference=mercer.VFE(inducing=20), device="cuda", random_state=0)
    model.fit(data.X, data.y)
    expected = model.evidence_interval()

    def short(*given: object) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 TiB")

    monkeypatch.setattr(device_blocks, "_statistics", short)
    assert model.evidence_interval() == pytest.approx(expected, rel=1e-9)


def fitted(**settings: object) -> mercer.GPRegressor:
    data = rows(250)
    return Quick("SE(0) + LIN(1)", device="cuda", restarts=1, random_state=0, **settings).fit(data.X, data.y)


def test_exact_inference_on_the_card_where_it_fits(card: None, tmp_path) -> None:
    model = fitted()
    assert model.inference_.engine == DeviceExact("cuda")
    assert "exact inference on cuda: 250 rows need" in model.inference_.reason
    data = rows(250)
    here = Quick("SE(0) + LIN(1)", inference=mercer.Exact(), restarts=1, random_state=0).fit(data.X, data.y)
    assert model.log_evidence_ == pytest.approx(here.log_evidence_, abs=0.5)
    model.save(tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    assert again.inference_.engine == Exact()
    assert_allclose(again.predict(data.X[:9]), model.predict(data.X[:9]), rtol=1e-6)


def test_the_choice_goes_by_the_memory_of_the_card(card: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose(20_000, device="cuda").engine == DeviceExact("cuda")
    too_large = choose(40_000, device="cuda")
    assert too_large.engine == VFE(device="cuda")
    assert "16.6 GB of 10 GB on cuda" in too_large.reason
    monkeypatch.setattr(device_module, "free_memory", lambda device: 10**12)
    assert choose(60_000, device="cuda").engine == VFE(device="cuda")  # it would fit, and take too long
    assert choose(60_000, Exact(), device="cuda").engine == DeviceExact("cuda")
    assert choose(60_000, VFE(100), device="cuda").engine == VFE(100, device="cuda")
    assert choose(150, device="cuda").engine == Exact()


def test_out_of_memory_never_reaches_the_user(card: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*_: object) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 TiB")

    monkeypatch.setattr(exact_device, "_filled", short)
    model = fitted()
    assert model.inference_.engine == VFE(device="cuda")
    assert "exact inference was tried for 250 rows, and cuda ran out of memory" in model.inference_.reason
    monkeypatch.setattr(device_blocks, "_block", short)
    model = fitted()
    assert model.inference_.engine == VFE()
    assert "on the CPU: cuda ran out of memory" in model.inference_.reason
    assert model.inference_.reason in model.notes_
    assert np.isfinite(model.log_evidence_)


def test_few_rows_that_do_not_fit_go_to_the_cpu(card: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import mercer.fitting.batched as batched

    def short(*_: object, **__: object) -> None:
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(batched, "batched_log_evidence", short)
    monkeypatch.setattr(choose_module, "EXACT_ROWS", 1000)
    model = fitted()
    assert model.inference_.engine == Exact()
    assert "on the CPU: cuda ran out of memory" in model.inference_.reason


def test_other_errors_are_not_swallowed(card: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(exact_device, "_filled", wrong)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        fitted()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
@pytest.mark.parametrize("count", [50, 250])
def test_cuda_where_there_is_none(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose_module, "EXACT_ROWS", 100)
    data = rows(count)
    for kernel in ("SE", "search", "nkn"):
        with pytest.raises(InputError, match="finds no CUDA device here"):
            Quick(kernel, device="cuda").fit(data.X, data.y)
    with pytest.raises(InputError, match="there is no device 'gpu'"):
        Quick("SE", device="gpu").fit(data.X, data.y)
