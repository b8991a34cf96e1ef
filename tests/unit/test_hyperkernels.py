"""Hyperkernels of one's own, the one with a linear kernel, and what a model says of the functional it found."""

from __future__ import annotations

import time

import numpy as np
import pytest

import mercer
from mercer import KernelFunctional
from mercer.errors import InputError
from mercer.inference.contract import Data
from mercer.inference.exact import Exact
from mercer.kernels import bind, parse
from mercer.kernels.expression import contains, find_all
from mercer.kernels.functional import Functional
from mercer.learners.hyperkernels import span_own
from mercer.learners.kernel_space import LADDER, PLAIN
from mercer.learners.kfo_fitter import Fitter

QUICK = {"subspaces": 1, "iterations": 1, "tuning": 0}


def line(a, b):
    return (a * b).mean(axis=-1)


def bell(a, b, length=1.0):
    return np.exp(-0.5 * ((a - b) ** 2).sum(axis=-1) / length**2)


def example_7(x, x_, z, z_):
    return line(x, x_) * line(z, z_) + bell(x, x_) * bell(z, z_)


def rows(count: int = 40, columns: int = 1) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, columns))


def fit_line(learner) -> mercer.GPRegressor:
    x = np.linspace(-1.0, 1.0, 21)[:, None]
    return mercer.GPRegressor(learner, random_state=0).fit(x, 0.5 * x[:, 0])


@pytest.mark.parametrize("hyperkernel", ["auto", "matern-linear", example_7], ids=["auto", "matern-linear", "own"])
def test_a_linear_kernel_is_within_reach(hyperkernel) -> None:
    at = np.linspace(-10.0, 10.0, 100)[:, None]
    found, linear, stationary = (
        float(fit_line(kernel).log_density(at, 0.5 * at[:, 0]).sum())
        for kernel in (
            KernelFunctional(hyperkernel=hyperkernel, **QUICK),
            "LIN",
            KernelFunctional(hyperkernel="matern-harmonic", **QUICK),
        )
    )
    assert found > linear - 0.01
    assert stationary < linear - 100.0


def test_a_hyperkernel_is_written_as_kernels() -> None:
    """kappa(., pair) of SE and a linear kernel, exactly; the lengthscale is the hyperkernel's own."""
    X = rows(60, 2)
    own = span_own(example_7, X, 40, None, np.random.default_rng(1))
    assert own.linear
    assert own.inside is not None
    assert next(own.inside.leaves()).symbol == "SE"
    assert own.off < 0.01
    assert own.space.dimensions == 2  # that is all there is in it
    far = span_own(lambda x, x_, z, z_: bell(x, x_, 0.5) * bell(z, z_, 0.5), X, 40, None, np.random.default_rng(1))
    assert not far.linear
    u = np.linspace(0.01, 1.0, 50)
    written = (u[:, None] ** np.array(LADDER)) @ far.space.ladder[:, -1]
    length = next(far.inside.leaves()).value("lengthscale")[0]
    np.testing.assert_allclose(written, u ** ((length / 0.5) ** 2), atol=0.02)  # SE of 0.5 as powers of a longer SE
    flat = span_own(lambda x, x_, z, z_: line(x, x_) * line(z, z_), X, 40, None, np.random.default_rng(1))
    assert flat.inside is None


def fail(x, x_, z, z_):
    raise ValueError("no such thing")


def dawdle(x, x_, z, z_):
    time.sleep(0.3)
    return example_7(x, x_, z, z_)


@pytest.mark.parametrize(
    ("hyperkernel", "words"),
    [
        (lambda x, x_, z, z_: bell(x, x_) * bell(z, z_) + bell(x, z), "not symmetric"),
        (lambda x, x_, z, z_: bell(x, x_) * (1.0 + 0.1 * z[..., 0]), "not symmetric"),
        (lambda x, x_, z, z_: bell(x, x_) / line(z, z_ - z_), "not finite"),
        (lambda x, x_, z, z_: bell(x, x_) + bell(z, z_), "not positive definite"),
        (lambda x, x_, z, z_: 0.0 * bell(x, x_) * bell(z, z_), "not positive definite"),
        (lambda x, x_, z, z_: np.cos(9 * (x - x_)[..., 0]) * np.cos(9 * (z - z_)[..., 0]), "only to within"),
        (lambda x, x_, z, z_: 1.0, "must return an array of shape"),
        (lambda x, z: bell(x, z), "failed on x and x'"),
        (fail, "ValueError: no such thing"),
        (dawdle, "is slow: .* s for the"),
    ],
    ids=["pair", "order", "finite", "sum", "zero", "waves", "shape", "arguments", "raises", "slow"],
)  # fmt: skip
def test_a_hyperkernel_that_will_not_do_is_refused_with_a_sentence(hyperkernel, words) -> None:
    x = rows()
    with pytest.raises(InputError, match=words), np.errstate(all="ignore"):
        mercer.GPRegressor(KernelFunctional(hyperkernel=hyperkernel, grid=200, **QUICK)).fit(x, x[:, 0])


def test_a_file_holds_no_code_and_predicts_the_same(tmp_path) -> None:
    x = rows(40)
    y = np.sin(2.0 * x[:, 0]) + x[:, 0]
    model = mercer.GPRegressor(KernelFunctional(hyperkernel=example_7, **QUICK), random_state=0).fit(x, y)
    model.save(tmp_path / "m.mercer")
    loaded = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_allclose(loaded.predict(x), model.predict(x))
    with pytest.raises(InputError, match="give it again"):
        loaded.fit(x, y)
    with pytest.raises(InputError, match="for regression"):
        mercer.KernelSVC(KernelFunctional(hyperkernel=example_7)).fit(x, (y > 0).astype(int))


def test_weights_follow_their_gradient_to_a_kernel_that_the_random_shapes_miss() -> None:
    """A function of two scales, drawn: the evidence of the best shape exceeds that of every random one."""
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0.0, 10.0, 120))[:, None]
    squares = (x - x.T) ** 2
    covariance = np.exp(-0.5 * squares / 9.0) + 0.05 * np.exp(-0.5 * squares / 0.09) + 1e-4 * np.eye(120)
    y = np.linalg.cholesky(covariance) @ rng.normal(size=120)
    model = mercer.GPRegressor(KernelFunctional(hyperkernel="se-harmonic", **QUICK), random_state=0).fit(x, y)
    improved = [c for c in model.candidates_ if c.step.kind == "weights"]
    others = [c for c in model.candidates_ if c.step.kind != "weights"]
    assert max(c.log_evidence for c in improved) > max(c.log_evidence for c in others) + 1.0
    assert contains(model.kernel_, Functional)
    assert any("explains the data better" in note or "better than SE itself" in note for note in model.notes_)


def test_a_model_says_where_the_kernel_inside_is_all_there_is() -> None:
    """Its kernel is then the kernel inside, in its own words."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 10.0, 40)[:, None]
    model = mercer.GPRegressor(KernelFunctional(subspaces=0), random_state=0).fit(x, np.sin(x[:, 0]))
    assert not contains(model.kernel_, Functional)
    assert any("was found that does better than" in note for note in model.notes_)
    told = str(model.explain())
    assert "without a formula was" in " ".join(told.split())
    assert "shape" not in told


def test_a_linear_kernel_beside_a_functional_must_earn_its_parameters() -> None:
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 10.0, 80))[:, None]
    wave = np.sin(3.0 * x[:, 0]) + 0.1 * rng.normal(size=80)
    learner = KernelFunctional(hyperkernel="matern-linear", **QUICK)
    targets = (wave + 2.0 * x[:, 0], wave)
    rising, level = (mercer.GPRegressor(learner, random_state=0).fit(x, y).kernel_ for y in targets)
    assert [leaf.symbol for leaf in rising.leaves()] == ["M32", "LIN"]
    assert [leaf.symbol for leaf in level.leaves()] == ["M32"]


def test_a_kernel_is_the_same_as_powers_of_a_longer_one() -> None:
    x = np.linspace(0.0, 1.0, 30)[:, None]
    fitter = Fitter(Data(x, np.sin(9.0 * x[:, 0])), Exact())
    plain = fitter.fit(Functional(bind(parse("SE(0)"), 1), *PLAIN), 1, 20)
    longer = fitter.stretch(plain, 2.0)
    (functional,) = find_all(longer.expression, Functional)
    assert functional.powers == (4,)  # SE of l is SE of 2 l to the fourth
    again = fitter.continue_fit(longer.expression, longer, 0)
    np.testing.assert_allclose(again.log_evidence, plain.log_evidence, rtol=1e-3)
