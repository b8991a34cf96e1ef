"""Exports and imports: what is refused and how, what users do with an exported model, and foreign kernels read here."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import textwrap
import warnings
from dataclasses import replace

import gpytorch
import numpy as np
import pandas as pd
import pytest
import torch
from gpytorch import kernels as gk
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk

import mercer
from mercer.compute.leaves import Batched, Compiled, register, unregister
from mercer.compute.program import compile_program
from mercer.errors import InputError, KernelError, MercerWarning
from mercer.estimators.inputs import restore
from mercer.inference.exact import Exact
from mercer.inference.likelihood import Gaussian
from mercer.interop.sklearn_kernels import ExpressionKernel, OnColumns
from mercer.kernels import parse
from mercer.kernels.domains import Positive
from mercer.kernels.leaf import SE, Leaf
from mercer.kernels.parameters import bind, values_of
from mercer.learners.contract import Weights
from tests.exports import make_model

Z = np.linspace(-1.5, 1.5, 12)[:, None] * np.array([[1.0, -0.5]]) + np.sin(np.arange(24.0)).reshape(12, 2)
T = np.cos(3 * Z[:, 0]) + Z[:, 1]
TEXT = (
    "SE(0, variance=1, lengthscale=0.7) * PER(0, variance=1, period=1.3, lengthscale=1.5)"
    " + LIN(1, variance=0.5, offset=1)"
)


def bound(text: str, columns: int = 2):
    return bind(parse(text), columns)


@pytest.fixture(scope="module")
def model() -> mercer.GPRegressor:
    return make_model([bound(TEXT)], [0.05], Z, T)


def averaged(widening: tuple[float, ...] = (1.5, 2.0), count: int = 2) -> mercer.GPRegressor:
    kernels = [bound(TEXT), bound("M32(0, variance=2, lengthscale=[1])")][:count]
    weights = Weights((0.7, 0.3)[:count], (0.2, 0.8)[:count], widening[:count], 0)
    return make_model(kernels, [0.05, 0.1][:count], Z, T, weights)


def rows_of(model: mercer.GPRegressor) -> np.ndarray:
    return model.fitted_.training.X[:4] + np.array([3.0, 0.001])


# ------------------------------------------------------------------------------------------------------- scikit-learn


def test_a_regressor_of_sklearn_is_cloned_pickled_drawn_from_and_fitted_again(model):
    exported = model.to_sklearn()
    rows = rows_of(model)
    mean, covariance = model.predict(rows, return_cov=True)
    X, y = model.fitted_.training.X, model.fitted_.training.y
    for same in (exported, pickle.loads(pickle.dumps(exported)), clone(exported).fit(X, y)):
        found = same.predict(rows, return_cov=True)
        np.testing.assert_allclose(found[0], mean, rtol=1e-9)
        np.testing.assert_allclose(found[1], covariance, rtol=1e-7, atol=1e-7 * covariance.max())
    assert exported.sample_y(rows, 3).shape == (4, 3)
    trained = clone(exported).set_params(optimizer="fmin_l_bfgs_b").fit(X, y)
    assert trained.log_marginal_likelihood_value_ > exported.log_marginal_likelihood_value_


def test_the_evidence_is_the_same(model):
    training, member = model.fitted_.training, model.fitted_.winner
    program, values = compile_program(member.kernel), values_of(member.kernel)
    evidence = Exact().evidence(program, values, Gaussian(member.noise), training.data).value - training.log_scale
    found = model.to_sklearn().log_marginal_likelihood_value_
    assert found == pytest.approx(evidence, rel=1e-9)
    exported = model.to_gpytorch()
    exported.train()
    with torch.no_grad():
        total = gpytorch.mlls.ExactMarginalLogLikelihood(exported.likelihood, exported)(
            exported(*exported.train_inputs), exported.train_targets
        )
    assert float(total) * len(Z) == pytest.approx(found, rel=1e-9)


def test_stock_kernels_stand_where_they_say_the_same(model):
    kernel = model.to_sklearn(fitted=False)
    shown = repr(kernel)
    assert "RBF(" in shown
    assert "ExpSineSquared(" in shown
    assert "ExpressionKernel('LIN(1" in shown
    assert "WhiteKernel(" in shown
    assert clone(kernel) == kernel
    assert kernel.theta.shape == kernel.bounds[:, 0].shape == (5,)  # variance, two lengths, a period, the noise
    assert not kernel.is_stationary()


def test_gradients_of_kernels_on_some_columns_are_those_of_the_kernel_inside():
    kernel = OnColumns(2.0 * sk.RBF(0.5), [1])
    K, gradient = kernel(Z, eval_gradient=True)
    for place, step in enumerate(np.eye(2) * 1e-6):
        moved = kernel.clone_with_theta(kernel.theta + step)
        np.testing.assert_allclose((moved(Z) - K) / 1e-6, gradient[..., place], atol=1e-5)
    assert OnColumns(sk.RBF(0.5), [1]) != kernel


def test_tables_are_encoded_as_they_were_learned():
    months = pd.date_range("2001-01-01", periods=30, freq="MS")
    table = pd.DataFrame({"month": months, "shop": ["a", "b", "c"] * 10, "price": np.arange(30.0) % 7})
    learned = mercer.GPRegressor("SE(price) + LIN(month)", restarts=1, max_iterations=3).fit(table, np.arange(30.0))
    new = table.iloc[3:9]
    mean, std = learned.predict(new, return_std=True)
    found = learned.to_sklearn().predict(new, return_std=True)
    np.testing.assert_allclose(found, (mean, std), rtol=1e-6)
    exported = learned.to_botorch()
    posterior = exported.posterior(exported.encode(new))
    np.testing.assert_allclose(posterior.mean.detach().numpy().ravel(), mean, rtol=1e-6)


def test_columns_are_found_by_their_names():
    """A table in another order is the same table: numbers go to the columns that they belong to."""
    table = pd.DataFrame({"a": Z[:, 0], "b": 10 * Z[:, 1]})
    learned = mercer.GPRegressor("SE", restarts=1, max_iterations=3, noise=0.1).fit(table, T)
    turned, expected = table[["b", "a"]].assign(c="x")[:4], learned.predict(table[:4])
    exported = learned.to_sklearn()
    np.testing.assert_allclose(exported.predict(turned), expected, rtol=1e-8)
    np.testing.assert_allclose(clone(exported).fit(turned.assign(a=0.0), T[:4]).predict(turned[:0]), [])
    np.testing.assert_array_equal(learned.to_botorch().encode(turned).numpy(), table[:4].to_numpy())
    with pytest.raises(InputError, match="no column 'a'; it has 'z', 'b'"):
        exported.predict(table.rename(columns={"a": "z"}))


def test_a_clone_for_sklearn_still_reads_dates_and_categories():
    months = pd.date_range("2001-01-01", periods=12, freq="MS")
    table = pd.DataFrame({"month": months, "shop": ["a", "b", "c"] * 4})
    text = "SE(month, variance=1, lengthscale=3) * CAT(shop, variance=1, correlation=0.5)"
    learned = mercer.GPRegressor(text, restarts=1, max_iterations=1, noise=0.1).fit(table, T)
    again = clone(learned.to_sklearn()).fit(table, T)
    np.testing.assert_allclose(again.predict(table), learned.predict(table), rtol=1e-6)
    with pytest.raises(InputError, match="numbers, and dates or categories only where"):
        make_model([bound(TEXT)], [0.05], Z, T).to_sklearn().fit(table.to_numpy(), T)
    with pytest.raises(InputError, match="leave normalize_y=False"):
        again.set_params(normalize_y=True).fit(table, T)


def test_rows_may_be_arrays_and_tables_are_refused_with_what_to_do(model):
    rows = rows_of(model)
    for exported in (model.to_gpytorch(), model.to_botorch().posterior):
        np.testing.assert_allclose(exported(rows).mean.detach().numpy().ravel(), model.predict(rows), rtol=1e-9)
        with pytest.raises(InputError, match=r"give encode\(table\)"):
            exported(pd.DataFrame(rows))
        with pytest.raises(InputError, match="a tensor of numbers"):
            exported([["a", "b"]])


def test_an_onnx_file_says_how_its_rows_are_made(tmp_path):
    onnx = pytest.importorskip("onnx")
    table = pd.DataFrame({"price, $": Z[:, 0], "shop": ["a", "b", "c"] * 4})
    learned = mercer.GPRegressor("LIN(0)*CAT(shop)", restarts=1, max_iterations=1, noise=0.1).fit(table, T)
    learned.to_onnx(tmp_path / "model.onnx")
    found = {prop.key: prop.value for prop in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert json.loads(found["columns"]) == ["price, $", "shop"]
    assert json.loads(found["encoding"])[1] == {"kind": "codes", "name": "shop", "levels": ["a", "b", "c"]}


def test_rows_that_do_not_fit_are_refused(model):
    exported = model.to_sklearn()
    with pytest.raises(InputError, match=r"2 columns .* these have 3"):
        exported.predict(np.zeros((2, 3)))
    with pytest.raises(InputError, match="finite numbers"):
        exported.predict(np.full((2, 2), np.nan))
    with pytest.raises(InputError, match=r"2 columns .* these have 3"):
        model.to_gpytorch()(torch.zeros(2, 3))


# ------------------------------------------------------------------------------------------------- GPyTorch and BoTorch


def test_a_model_of_gpytorch_can_be_trained_further_and_predicts_with_what_it_learned(model):
    exported = model.to_gpytorch()
    assert not exported.training
    start = exported.covar_module.expression
    rows = torch.as_tensor(rows_of(model))
    before = exported(rows).mean.detach()
    exported.train()
    loss = gpytorch.mlls.ExactMarginalLogLikelihood(exported.likelihood, exported)
    optimiser = torch.optim.Adam(exported.parameters(), lr=0.05)
    values = []
    for _ in range(5):
        optimiser.zero_grad()
        found = -loss(exported(*exported.train_inputs), exported.train_targets)
        found.backward()
        optimiser.step()
        values.append(float(found.detach()))
    exported.eval()
    assert values[-1] < values[0]
    assert exported.covar_module.expression != start
    assert not torch.allclose(exported(rows).mean, before)
    alone = make_model([bound(TEXT)], [0.05], Z, T).to_gpytorch()
    state = exported.state_dict()
    alone.load_state_dict(state)
    assert torch.allclose(alone(rows).mean, exported(rows).mean)


def test_posteriors_of_botorch_have_batches_samples_and_small_variances(model):
    exported = model.to_botorch()
    rows = torch.as_tensor(rows_of(model)).reshape(2, 1, 2, 2)
    posterior = exported.posterior(rows)
    assert posterior.mean.shape == posterior.variance.shape == (2, 1, 2, 1)
    assert posterior.rsample(torch.Size([3])).shape == (3, 2, 1, 2, 1)
    noisy = exported.posterior(rows, observation_noise=True)
    assert torch.allclose(noisy.variance - posterior.variance, torch.tensor(model.noise_, dtype=torch.float64))
    small = make_model([bound("SE(0, variance=1, lengthscale=1)")], [0.0], Z[:3], T[:3] / 1e9)
    at = torch.as_tensor(small.fitted_.training.X)
    assert float(small.to_botorch().posterior(at).variance.detach().max()) < 1e-10  # GPyTorch would say 1e-10


def test_acquisition_functions_of_botorch_are_optimised(model):
    from botorch.acquisition import LogExpectedImprovement
    from botorch.optim import optimize_acqf

    X = torch.as_tensor(model.fitted_.training.X)
    bounds = torch.stack([X.amin(0), X.amax(0)])
    exported = averaged().to_botorch()
    acquisition = LogExpectedImprovement(exported, best_f=float(model.fitted_.training.y.max()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best, value = optimize_acqf(acquisition, bounds, q=1, num_restarts=2, raw_samples=8, options={"maxiter": 10})
    assert ((bounds[0] <= best) & (best <= bounds[1])).all()
    assert torch.isfinite(value)


@pytest.mark.parametrize("target", ["to_gpytorch", "to_botorch"])
def test_exported_models_stay_in_double_precision(model, target):
    exported = getattr(model, target)()
    rows = torch.as_tensor(rows_of(model))
    predict = exported if target == "to_gpytorch" else exported.posterior
    before = predict(rows).mean
    with pytest.raises(InputError, match="computes in float64"):
        exported.float()
    assert torch.equal(predict(rows).mean, before)
    exported.double().to("cpu")
    assert predict(rows.float()).mean.dtype == torch.float64


def test_what_botorch_may_ask_and_gets_refused(model):
    exported = model.to_botorch()
    rows = torch.as_tensor(rows_of(model))
    with pytest.raises(InputError, match="one output"):
        exported.posterior(rows, output_indices=[1])
    with pytest.raises(InputError, match="True or False"):
        exported.posterior(rows, observation_noise=torch.ones(4, 1))
    with pytest.raises(InputError, match="set_train_data"):
        model.to_gpytorch().get_fantasy_model(rows, rows[:, 0])
    with pytest.raises(InputError, match="fit Mercer's own"):
        exported.condition_on_observations(rows, rows[:, :1])
    with pytest.raises(InputError, match="LogExpectedImprovement"):
        exported.fantasize(rows, None)
    assert exported.subset_output([0]) is exported
    with pytest.raises(InputError, match="one output"):
        exported.subset_output([1])


# -------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("target", ["to_sklearn", "to_gpytorch"])
def test_averages_go_to_one_process_only_as_their_best_member(target):
    both = averaged()
    with pytest.raises(InputError, match=r"averages 2 kernels.*member='best'"):
        getattr(both, target)()
    with pytest.raises(InputError, match="None or 'best', not 'first'"):
        getattr(both, target)(member="first")
    widened = averaged(count=1)
    with pytest.raises(InputError, match=r"widens its bands.*member='best'"):
        getattr(widened, target)()
    best, alone = getattr(both, target)(member="best"), make_model([bound(TEXT)], [0.05], Z, T)
    rows = rows_of(both)
    found = best.predict(rows) if target == "to_sklearn" else best(torch.as_tensor(rows)).mean.detach().numpy()
    np.testing.assert_allclose(found, alone.predict(rows), rtol=1e-9)


@pytest.mark.parametrize("target", ["to_sklearn", "to_gpytorch", "to_botorch", "to_onnx"])
def test_engines_that_a_target_has_not_are_named(target, tmp_path):
    given = (tmp_path / "model.onnx",) if target == "to_onnx" else ()
    sparse = make_model([bound(TEXT)], [0.05], Z, T, engine=mercer.VFE(inducing=5))
    with pytest.raises(InputError, match=r"with inference=VFE\(.*mercer\.Exact\(\)"):
        getattr(sparse, target)(*given)
    features = make_model([bound("SE(0, variance=1, lengthscale=1)")], [0.05], Z, T, engine=mercer.RandomFeatures(9))
    with pytest.raises(InputError, match=r"with inference=RandomFeatures\(.*mercer\.Exact\(\)"):
        getattr(features, target)(*given)
    with pytest.raises(Exception, match="not fitted"):
        getattr(mercer.GPRegressor(), target)(*given)


class Rows:
    """Rows somewhere else."""

    count = 300


def test_a_model_fitted_to_a_stream_is_refused(model):
    training = replace(model.fitted_.training, source=Rows())
    streamed = restore(mercer.GPRegressor, {}, replace(model.fitted_, training=training))
    with pytest.raises(InputError, match=r"a stream of 300 rows.*a table in memory"):
        streamed.to_botorch()


@pytest.mark.parametrize("path", ["missing-folder/model.onnx", ".", "null\0byte"])
def test_an_onnx_path_that_cannot_be_written_is_a_sentence(model, tmp_path, path):
    with pytest.raises(InputError, match=r"cannot write .*folder that exists"):
        model.to_onnx(tmp_path / path)


def test_a_leaf_from_outside_is_refused_by_onnx_and_right_elsewhere(tmp_path):
    def never(*_):
        raise NotImplementedError

    record = Leaf("OUT", "from outside", SE.parameters, "v", "v", SE.words, module="tests.unit.test_interop")
    register(record, Compiled(never, never, never, never), Batched(lambda pairs, length: pairs.squares[:1] * 0 + 1.0))
    try:
        kernel = bound("OUT(0, variance=2, lengthscale=1)")
        assert isinstance(record.parameters[1].domain, Positive)
        from mercer.interop.gpytorch_model import GPyTorchKernel as InTorch
        from mercer.interop.onnx_graph import Graph, RowPairs, write_program

        x = torch.zeros(2, 2, dtype=torch.float64)
        assert torch.equal(InTorch(kernel).forward(x, x), torch.full((2, 2), 2.0, dtype=torch.float64))
        graph = Graph()
        with pytest.raises(InputError, match="OUT cannot be exported to ONNX"):
            write_program(RowPairs(graph, ["a", "b"], ["a", "b"]), compile_program(kernel), values_of(kernel))
    finally:
        unregister("OUT")


@pytest.mark.parametrize(
    ("package", "call"),
    [
        ("gpytorch", "model.to_gpytorch()"),
        ("gpytorch", "mercer.from_gpytorch(None)"),
        ("botorch", "model.to_botorch()"),
        ("onnx", "model.to_onnx('model.onnx')"),
    ],
)
def test_a_missing_library_is_named(package, call, model, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)  # what an import of a missing package finds
    with pytest.raises(ImportError, match=f"needs the package {package}: pip install {package}"):
        eval(call, {"mercer": mercer, "model": model})


def test_none_of_the_libraries_is_imported_before_it_is_asked_for():
    code = """
        import sys, mercer
        import mercer.interop.targets
        mercer.GPRegressor, mercer.from_sklearn, mercer.from_gpytorch
        print([name for name in ("gpytorch", "botorch", "onnx") if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


# ------------------------------------------------------------------------------------------------------ foreign kernels


SKLEARN = [
    (2.5 * sk.RBF(0.7) + sk.ConstantKernel(0.3), 2),
    (sk.RBF([0.7, 2.0]) * sk.Matern(1.3, nu=1.5), 2),
    (sk.Matern(1.3, nu=0.5) + sk.Matern(0.4, nu=2.5) + sk.Matern(1.0, nu=np.inf), 2),
    (sk.RationalQuadratic(0.8, 2.0) ** 2, 2),
    (3.0 * sk.ExpSineSquared(0.9, 1.7) + sk.DotProduct(0.5), 1),
    (sk.DotProduct(0.0) + sk.DotProduct(1.5), 2),
    (sk.WhiteKernel(0.2) + sk.RBF(0.5), 2),
    (OnColumns(2.0 * sk.ExpSineSquared(0.9, 1.7), [1]) + ExpressionKernel("COS(0, variance=2, frequency=0.4)"), 2),
]


@pytest.mark.parametrize(("kernel", "columns"), SKLEARN)
def test_kernels_of_sklearn_are_read_with_their_values(kernel, columns):
    rows = Z[:, :columns]
    np.testing.assert_allclose(mercer.from_sklearn(kernel, columns=columns)(rows), kernel(rows), atol=1e-12)


def test_what_was_exported_is_read_back(model):
    back = mercer.from_sklearn(model.to_sklearn(fitted=False), columns=2)
    X = model.fitted_.training.X
    noise = model.noise_ * np.eye(len(X))
    np.testing.assert_allclose(back(X), model.kernel_(X) + noise, rtol=1e-9, atol=1e-9)
    assert mercer.from_gpytorch(model.to_gpytorch().covar_module) == model.kernel_


def scaled(kernel: gk.Kernel, scale: float, **values: float) -> gk.Kernel:
    whole = gk.ScaleKernel(kernel).double()
    whole.outputscale = scale
    for name, value in values.items():
        setattr(kernel, name, torch.as_tensor(value, dtype=torch.float64))
    return whole


def mixture() -> gk.Kernel:
    kernel = gk.SpectralMixtureKernel(num_mixtures=2).double()
    kernel.mixture_weights = torch.tensor([0.5, 1.5]).double()
    kernel.mixture_means = torch.tensor([0.4, 0.9]).double().reshape(2, 1, 1)
    kernel.mixture_scales = torch.tensor([0.1, 0.3]).double().reshape(2, 1, 1)
    return kernel


GPYTORCH = [
    (scaled(gk.RBFKernel(), 2.0, lengthscale=0.7) + scaled(gk.MaternKernel(nu=1.5), 0.5, lengthscale=1.2), 2),
    (scaled(gk.MaternKernel(nu=2.5, ard_num_dims=2), 2.0, lengthscale=[0.7, 1.9]), 2),
    (scaled(gk.RQKernel(active_dims=[1]), 2.0, lengthscale=0.7, alpha=1.5), 2),
    (scaled(gk.PeriodicKernel(), 2.0, lengthscale=0.7, period_length=1.4), 2),
    (scaled(gk.PeriodicKernel(ard_num_dims=2), 2.0, lengthscale=[0.7, 0.5], period_length=[1.4, 2.0]), 2),
    (scaled(gk.CosineKernel(), 2.0, period_length=1.4), 1),
    (scaled(gk.LinearKernel(), 2.0, variance=0.7), 2),
    (scaled(gk.LinearKernel(ard_num_dims=2), 2.0, variance=[[0.7, 0.2]]), 2),
    (scaled(gk.PolynomialKernel(power=3), 2.0, offset=0.7), 2),
    (scaled(gk.RBFKernel(active_dims=[0]) * gk.RBFKernel(active_dims=[1]), 3.0), 2),
    (gk.ConstantKernel().double() + mixture(), 1),
]


@pytest.mark.parametrize(("kernel", "columns"), GPYTORCH)
def test_kernels_of_gpytorch_are_read_with_their_values(kernel, columns):
    rows = Z[:, :columns]
    with torch.no_grad():
        expected = kernel.double()(torch.as_tensor(rows)).to_dense().numpy()
    np.testing.assert_allclose(mercer.from_gpytorch(kernel, columns=columns)(rows), expected, atol=1e-7)


def test_foreign_parts_that_mercer_has_not_are_named():
    with pytest.raises(KernelError, match="no counterpart of scikit-learn's PairwiseKernel"):
        mercer.from_sklearn(sk.RBF() + sk.PairwiseKernel(metric="laplacian"))
    with pytest.raises(KernelError, match=r"nu = 0.5, 1.5, 2.5 and inf, not of 0.7"):
        mercer.from_sklearn(sk.Matern(nu=0.7))
    with pytest.raises(KernelError, match=r"to the power of 0.5"):
        mercer.from_sklearn(sk.RBF() ** 0.5)
    with pytest.raises(KernelError, match="distance over 2 columns"):
        mercer.from_sklearn(sk.ExpSineSquared(), columns=2)
    with pytest.raises(KernelError, match="not GPRegressor: of a fitted"):
        mercer.from_sklearn(mercer.GPRegressor())
    with pytest.raises(KernelError, match="no counterpart of GPyTorch's PiecewisePolynomialKernel"):
        mercer.from_gpytorch(gk.RBFKernel() * gk.PiecewisePolynomialKernel())
    with pytest.raises(KernelError, match="a batch of"):
        mercer.from_gpytorch(gk.RBFKernel(batch_shape=torch.Size([2])))
    with pytest.raises(KernelError, match="covar_module"):
        mercer.from_gpytorch("RBF")
    with pytest.raises(KernelError, match="at least 1"):
        mercer.from_sklearn(sk.RBF(), columns=0)
    with pytest.raises(KernelError, match=r"at least 1, not 2\.5"):
        mercer.from_sklearn(sk.RBF(), columns=2.5)
    for zero in (sk.ConstantKernel(0.0) * sk.RBF(), sk.ConstantKernel(-1.0), sk.WhiteKernel(0.0) + sk.RBF()):
        with pytest.raises(KernelError, match=r"Kernel of -?[01] is no variance"):
            mercer.from_sklearn(zero)
    for far in (OnColumns(sk.RBF(), [2]), ExpressionKernel("SE(2, variance=1, lengthscale=1)")):
        with pytest.raises(KernelError, match=r"acts on the columns \[2\], counted from 0, of 2"):
            mercer.from_sklearn(far, columns=2)
    with pytest.raises(KernelError, match=r"RBFKernel acts on the columns \[2\]"):
        mercer.from_gpytorch(gk.RBFKernel(active_dims=[2]), columns=2)
    with pytest.raises(KernelError, match="a product of waves"):
        mercer.from_gpytorch(gk.SpectralMixtureKernel(num_mixtures=2, ard_num_dims=2), columns=2)


@pytest.mark.parametrize(("kernel", "reader"), [(sk.RBF(), "from_sklearn"), (gk.RBFKernel(), "from_gpytorch")])
def test_a_foreign_kernel_that_is_given_as_it_is_is_told_what_reads_it(kernel, reader):
    with pytest.raises(KernelError, match=rf"mercer\.{reader}\(kernel\) reads it"):
        mercer.GPRegressor(kernel).fit(Z, T)


def test_the_number_of_columns_is_that_of_a_part_with_a_length_for_each():
    rows, lengths = Z[:, :2], torch.tensor([[0.5, 2.0]], dtype=torch.float64)
    dot = sk.DotProduct(1.0) * sk.RBF([0.5, 2.0]) + sk.Matern([1.0, 2.0], nu=0.5) ** 2
    line = gk.LinearKernel().double() + scaled(gk.RBFKernel(ard_num_dims=2), 2.0, lengthscale=lengths)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error")
        np.testing.assert_allclose(mercer.from_sklearn(dot)(rows), dot(rows), atol=1e-12)
        expected = line(torch.as_tensor(rows)).to_dense().numpy()
        np.testing.assert_allclose(mercer.from_gpytorch(line)(rows), expected, atol=1e-7)


def test_where_the_number_of_columns_matters_one_is_assumed_with_a_word():
    with pytest.warns(MercerWarning, match=r"column 0.*columns=1"):
        kernel = mercer.from_sklearn(sk.ExpSineSquared())
    assert kernel == parse("PER(0, variance=1, period=1, lengthscale=1)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mercer.from_sklearn(sk.RBF(2.0)) == parse("SE(isotropic=True, variance=1, lengthscale=2)")
