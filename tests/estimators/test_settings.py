"""A setting is honoured, or refused with a sentence; `set_params` and `GridSearchCV` reach those of a learner."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from tests.policies import regressor_with

import mercer
from mercer import (
    ChangeSurface,
    GPRegressor,
    GrammarSearch,
    GridRegressor,
    InputError,
    KernelFunctional,
    KernelSVC,
    NeuralKernelNetwork,
    PartitionSampler,
)
from mercer.compute.accelerator import TorchBackend
from mercer.fitting.minimise import Progress
from mercer.inference.choose import ChoicePolicy
from mercer.learners.many_rows import ManyRowsPolicy

LEARNERS: dict[str, Any] = {
    "search": GrammarSearch, "nkn": NeuralKernelNetwork, "surface": ChangeSurface, "kfo": KernelFunctional,
    "partition": PartitionSampler,
}  # fmt: skip


def wave(rows: int = 40) -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(float(rows))
    return x[:, None], np.sin(x / 3) + 0.1 * np.cos(97 * x)


# ----------------------------------------------------------------------------------- settings of kernels that are given


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize(("setting", "value"), [("restarts", 2), ("max_iterations", 50), ("priors", "weak")])
def test_settings_of_given_kernels_are_refused_with_a_learner(name: str, setting: str, value: Any) -> None:
    kind = LEARNERS[name]
    has_it = setting in kind.__dataclass_fields__
    where = rf"kernel=mercer\.{kind.__name__}\({setting}={value!r}\)" if has_it else "has no such setting"
    for kernel in (name, kind()):
        with pytest.raises(InputError, match=rf"{setting}={value!r} is for kernels that are given.*{where}"):
            GPRegressor(kernel, **{setting: value}).fit(*wave())


@pytest.mark.parametrize("name", ["search", "surface", "kfo"])
def test_a_known_noise_is_refused_by_learners_that_fit_it(name: str) -> None:
    with pytest.raises(InputError, match="cannot keep a known one: leave noise=None"):
        GPRegressor(name, noise=0.1).fit(*wave())


@pytest.mark.parametrize("kernel", ["surface", "kfo", "partition"])
def test_a_device_is_refused_by_learners_that_work_on_the_cpu(kernel: str) -> None:
    with pytest.raises(InputError, match=r"works on the CPU.*leave device='cpu'"):
        GPRegressor(kernel, device=TorchBackend("cpu:0")).fit(*wave())


@pytest.mark.parametrize("setting", [{"priors": "weak"}, {"noise": 0.1}])
@pytest.mark.parametrize("device", ["cpu", TorchBackend("cpu:0")], ids=str)
def test_given_kernels_honour_priors_and_noise_or_say_where_they_do(setting: dict[str, Any], device: Any) -> None:
    plain = GPRegressor("SE + LIN", restarts=2, random_state=0, device=device)
    try:
        model = clone(plain).set_params(**setting).fit(*wave())
    except InputError as error:
        assert "device='cpu'" in str(error)  # noqa: PT017
        return
    assert model.kernel_ != plain.fit(*wave()).kernel_
    assert "noise" not in setting or model.noise_ == pytest.approx(0.1)


@pytest.mark.filterwarnings("ignore:the fit stopped")
@pytest.mark.parametrize("inference", ["auto", mercer.VFE(inducing=20), mercer.RandomFeatures(count=50)], ids=repr)
def test_few_steps_are_few_whatever_the_engine(inference: Any) -> None:
    """With three steps a fit is far from where it would end."""
    X, y = wave(200)
    short, long = (
        GPRegressor("SE*PER + LIN", restarts=1, max_iterations=most, inference=inference, random_state=0).fit(X, y)
        for most in (3, 200)
    )
    assert short.log_evidence_ < long.log_evidence_ - 1.0


def test_restarts_are_that_many() -> None:
    seen: list[Progress] = []
    GPRegressor("SE*PER", restarts=3, random_state=0).fit(*wave(), progress=seen.append)
    assert seen[-1].done == seen[-1].total == 3


def test_an_svm_has_a_cost_or_a_nu() -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(InputError, match=r"C=1\.0 and nu=0\.2 were given.*Give one"):
        KernelSVC("linear", C=1.0, nu=0.2).fit(X, X[:, 0] > 0)


# --------------------------------------------------------------------------------------------- settings of the learner


def test_set_params_puts_a_changed_learner_in_place() -> None:
    learner = GrammarSearch()
    model = GPRegressor(learner)
    assert model.set_params(kernel__max_depth=2, n_jobs=1) is model
    assert model.kernel == GrammarSearch(max_depth=2)
    assert model.n_jobs == 1
    assert learner == GrammarSearch()
    assert model.get_params()["kernel__max_depth"] == 2
    assert "kernel__max_depth" not in model.get_params(deep=False)
    assert clone(model).get_params() == model.get_params()
    model.set_params(kernel=NeuralKernelNetwork(), kernel__restarts=3)
    assert model.kernel == NeuralKernelNetwork(restarts=3)


@pytest.mark.parametrize("kind", [GPRegressor, KernelSVC])
def test_a_learner_by_name_has_no_settings_to_set(kind: Any) -> None:
    model = kind("search")
    with pytest.raises(InputError, match=r"kernel=mercer\.GrammarSearch\(max_depth=2\)"):
        model.set_params(kernel__max_depth=2)
    assert model.kernel == "search"


def test_names_that_no_learner_has() -> None:
    with pytest.raises(InputError, match="GrammarSearch has no setting 'max_dept'; it has bases, operators"):
        GPRegressor(GrammarSearch()).set_params(kernel__max_dept=2)
    with pytest.raises(InputError, match=r"kernel__max_depth is for a learner, as in kernel=mercer\.GrammarSearch\(\)"):
        GPRegressor("SE").set_params(kernel__max_depth=2)
    for text in ("SM6", "nkn", "search"):  # which learn nothing there
        with pytest.raises(InputError, match=r"has no setting 'max_depth': give kernel as a whole") as caught:
            GridRegressor(text).set_params(kernel__max_depth=2)
        assert "mercer." not in str(caught.value)
    with pytest.raises(ValueError, match="Invalid parameter 'max_depth'"):
        GPRegressor(GrammarSearch()).set_params(max_depth=2)


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_is_reached(name: str) -> None:
    kind = LEARNERS[name]
    deep = GPRegressor(kind()).get_params()
    settings = {each.removeprefix("kernel__"): deep[each] for each in deep if each.startswith("kernel__")}
    assert kind(**settings) == kind()
    assert set(settings) == set(kind.__dataclass_fields__)


def test_grid_search_tries_settings_of_a_learner() -> None:
    X, y = wave(30)
    search = GrammarSearch(bases=("SE", "LIN"), max_depth=0, restarts=1, average=False)
    found = GridSearchCV(GPRegressor(search, random_state=0), {"kernel__bases": [("LIN",), ("SE",)]}, cv=2).fit(X, y)
    assert len(found.cv_results_["params"]) == 2
    assert found.best_estimator_.kernel.bases == found.best_params_["kernel__bases"]


def test_grid_search_tries_settings_of_a_classifiers_learner() -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    search = GrammarSearch(bases=("SE",), max_depth=0, restarts=1, average=False)
    found = GridSearchCV(KernelSVC(search, random_state=0), {"kernel__bases": [("LIN",), ("SE",)]}, cv=2)
    assert found.fit(X, X[:, 0] > 0).best_estimator_.kernel.bases in (("LIN",), ("SE",))


# ------------------------------------------------------------------------------------- engines, feature maps, progress


def test_set_params_puts_a_changed_engine_in_place() -> None:
    engine = mercer.VFE(inducing=30)
    model = GPRegressor("SE", inference=engine).set_params(inference__inducing=20, restarts=1)
    assert model.inference == mercer.VFE(inducing=20)
    assert engine == mercer.VFE(inducing=30)
    assert model.get_params()["inference__inducing"] == 20
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(InputError, match="VFE has no setting 'points'; it has inducing"):
        model.set_params(inference__points=20)
    with pytest.raises(InputError, match=r"inference is 'auto'.*mercer\.VFE\(\)"):
        GPRegressor("SE").set_params(inference__inducing=20)


@pytest.mark.parametrize("kernel", ["SE(variance=1, lengthscale=1)", mercer.parse("SE(variance=1, lengthscale=1)")])
def test_the_kernel_of_a_feature_map_is_given_as_a_whole(kernel: Any) -> None:
    model = mercer.FeatureMap(kernel)
    with pytest.raises(InputError, match=r"kernel is .*has no setting 'variance': give kernel as a whole"):
        model.set_params(kernel__variance=2.0)
    assert model.set_params(count=7).count == 7


def test_progress_that_cannot_be_called() -> None:
    X, y = wave()
    for model in (GPRegressor("SE"), KernelSVC("rbf"), GridRegressor("SE")):
        with pytest.raises(InputError, match=r"progress must be True.*a function.*not 3"):
            model.fit(X, y, progress=3)
    with pytest.raises(InputError, match=r"progress must be True.*a function.*not 3"):
        GPRegressor("SE", restarts=1, random_state=0).fit(X, y).distil(progress=3)


def test_policies_have_one_way_in() -> None:
    policy = ChoicePolicy(exact_rows=30)
    with pytest.raises(InputError, match="inference must be 'auto'"):
        GPRegressor("SE", inference=policy).fit(*wave())
    few = regressor_with(policy, ManyRowsPolicy(sample=20, rounds=1, iterations=2))
    assert few("SE", restarts=1, random_state=0).fit(*wave()).inference_.engine.name == "vfe"
