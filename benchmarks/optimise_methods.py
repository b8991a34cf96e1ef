"""The optimisers that `benchmarks.optimise` compares, each as ask and tell.

A method is begun with a function (its inputs; the true groups only for the oracle) and the number of the run, which
seeds everything it draws. A package that is not installed is said to be missing, and the method is left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from benchmarks.optimise_functions import FIRST, PAPER, Choice, Function, Input, Integer, Log

RESTARTS, RAW = 10, 512  # of BoTorch's maximisation, as in its tutorials


class Method(Protocol):
    """What proposes points."""

    def ask(self) -> list[Any]:
        """Return the point to evaluate next."""

    def tell(self, point: list[Any], value: float) -> None:
        """Take a value."""

    def facts(self) -> dict[str, Any]:
        """Return what is worth keeping of the state: written with the results, and given back to `resume`."""

    def resume(self, facts: dict[str, Any]) -> None:
        """Take up the facts of a run that was stopped, once all its values were told."""


class Recorded:
    """Keeps what was told; most methods need no more."""

    def __init__(self, function: Function, run: int) -> None:
        self.function, self.run = function, run
        self.points: list[list[Any]] = []
        self.values: list[float] = []

    @property
    def inputs(self) -> list[Input]:
        return list(self.function.inputs.values())

    def tell(self, point: list[Any], value: float) -> None:
        self.points.append(point)
        self.values.append(value)

    def places(self) -> np.ndarray:
        """Return the points as places from 0 to 1, categories as numbers."""
        return np.array([[i.place(v) for i, v in zip(self.inputs, point, strict=True)] for point in self.points])

    def point(self, places: Any) -> list[Any]:
        """Return the point at some places."""
        return [each.value(float(place)) for each, place in zip(self.inputs, places, strict=True)]

    def facts(self) -> dict[str, Any]:
        return {}

    def resume(self, facts: dict[str, Any]) -> None:
        pass


class Random(Recorded):
    """Uniform points."""

    def ask(self) -> list[Any]:
        rng = np.random.default_rng([self.run, 2, len(self.values)])
        return self.function.draw(rng.random(len(self.inputs)))


# ------------------------------------------------------------------------------------------------------------- BoTorch


class BoTorch(Recorded):
    """SingleTaskGP and LogExpectedImprovement with BoTorch's defaults, inputs on [0, 1].

    Categories have one column each, of zeros and ones, and are gone through one by one (`optimize_acqf_mixed`); whole
    numbers are rounded. MixedSingleTaskGP would take 5 to 15 s to fit where this takes half a second.
    """

    def __init__(self, function: Function, run: int) -> None:
        super().__init__(function, run)
        import torch

        torch.set_num_threads(1)
        self.torch, self.failures = torch, 0

    def ask(self) -> list[Any]:
        from botorch.acquisition import LogExpectedImprovement
        from botorch.exceptions.errors import ModelFittingError
        from botorch.fit import fit_gpytorch_mll
        from gpytorch.mlls import ExactMarginalLogLikelihood

        torch = self.torch
        torch.manual_seed(1_000_000 * self.run + len(self.values))
        X = torch.tensor(np.hstack([self.encode(k, column) for k, column in enumerate(self.places().T)]))
        Y = -torch.tensor(self.values, dtype=torch.double)[:, None]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = self.model(X, Y)
            try:
                fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            except ModelFittingError:
                self.failures += 1  # goes on with the parameters that it has
            found = self.maximise(LogExpectedImprovement(model, best_f=Y.max()), X.shape[1])
        return self.decode(found.detach().numpy().ravel())

    def model(self, X: Any, Y: Any) -> Any:
        from botorch.models import SingleTaskGP

        return SingleTaskGP(X, Y)

    def encode(self, number: int, column: np.ndarray) -> np.ndarray:
        """Return the columns that an input has in the model."""
        each = self.inputs[number]
        return np.eye(len(each.options))[column.astype(int)] if isinstance(each, Choice) else column[:, None]

    def decode(self, row: np.ndarray) -> list[Any]:
        """Return the point of a row of the model."""
        places, start = [], 0
        for each in self.inputs:
            width = len(each.options) if isinstance(each, Choice) else 1
            places.append(float(np.argmax(row[start : start + width])) if width > 1 else row[start])
            start += width
        return self.point(places)

    def maximise(self, acquisition: Any, width: int) -> Any:
        from botorch.optim import optimize_acqf, optimize_acqf_mixed

        bounds = self.torch.tensor([[0.0] * width, [1.0] * width], dtype=self.torch.double)
        options: dict[str, Any] = {"q": 1, "num_restarts": RESTARTS, "raw_samples": RAW}
        combinations, start = [{}], 0
        for each in self.inputs:
            count = len(each.options) if isinstance(each, Choice) else 1
            if count > 1:
                rows = [dict(enumerate(row, start)) for row in np.eye(count).tolist()]
                combinations = [{**one, **row} for one in combinations for row in rows]
            start += count
        if len(combinations) == 1:
            return optimize_acqf(acquisition, bounds, **options)[0]
        return optimize_acqf_mixed(acquisition, bounds, fixed_features_list=combinations, **options)[0]

    def facts(self) -> dict[str, Any]:
        return {"failed fits": self.failures}

    def resume(self, facts: dict[str, Any]) -> None:
        self.failures = facts.get("failed fits", 0)


class BoTorchAdditive(BoTorch):
    """OrthogonalAdditiveGP: one function for each input, added up; otherwise the same."""

    def model(self, X: Any, Y: Any) -> Any:
        from botorch.models.additive_gp import OrthogonalAdditiveGP

        return OrthogonalAdditiveGP(X, Y)


# -------------------------------------------------------------------------------------------------------------- Optuna


class Optuna(Recorded):
    """A study with one of Optuna's samplers; points that were not asked for are added as finished trials."""

    sampler = "TPESampler"

    def __init__(self, function: Function, run: int) -> None:
        super().__init__(function, run)
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.filterwarnings("ignore", module="optuna")
        self.optuna, self.trial = optuna, None
        self.study = optuna.create_study(sampler=self.make_sampler(run))
        self.space = {name: self.distribution(each) for name, each in function.inputs.items()}

    def make_sampler(self, seed: int) -> Any:
        return getattr(self.optuna.samplers, self.sampler)(seed=seed)

    def resume(self, facts: dict[str, Any]) -> None:
        """Draw other numbers than at the beginning."""
        self.study.sampler = self.make_sampler(self.run + 1000 * len(self.values))

    def distribution(self, each: Input) -> Any:
        known = self.optuna.distributions
        if isinstance(each, Choice):
            return known.CategoricalDistribution(each.options)
        if isinstance(each, Integer):
            return known.IntDistribution(each.low, each.high)
        return known.FloatDistribution(each.low, each.high, log=isinstance(each, Log))

    def ask(self) -> list[Any]:
        self.trial = self.study.ask(self.space)
        return [self.trial.params[name] for name in self.space]

    def tell(self, point: list[Any], value: float) -> None:
        super().tell(point, value)
        if self.trial is not None:
            self.study.tell(self.trial, value)
            self.trial = None
            return
        params = dict(zip(self.space, point, strict=True))
        self.study.add_trial(self.optuna.trial.create_trial(params=params, distributions=self.space, value=value))


class OptunaGP(Optuna):
    """Optuna's Gaussian process."""

    sampler = "GPSampler"

    def __init__(self, function: Function, run: int) -> None:
        super().__init__(function, run)
        import torch

        torch.set_num_threads(1)


# -------------------------------------------------------------------------------------------------------------- Mercer


class Mercer(Recorded):
    """`mercer.Optimizer` with default settings."""

    kernel = "auto"

    def __init__(self, function: Function, run: int) -> None:
        super().__init__(function, run)
        import mercer

        self.optimizer = mercer.Optimizer(self.bounds(), kernel=self.kernel, random_state=run)

    def bounds(self) -> Any:
        """Return pairs where every input is real, otherwise a dict."""
        import mercer

        if self.function.plain:
            return [(each.low, each.high) for each in self.inputs]
        bounds: dict[str, Any] = {}
        for name, each in self.function.inputs.items():
            if isinstance(each, Choice):
                bounds[name] = list(each.options)
            elif isinstance(each, Integer | Log):
                bounds[name] = getattr(mercer, type(each).__name__)(each.low, each.high)
            else:
                bounds[name] = (each.low, each.high)
        return bounds

    def ask(self) -> list[Any]:
        asked = self.optimizer.ask()
        if (isinstance(asked, list) and len(asked) == 1) or np.ndim(asked) == 2:
            asked = asked[0]
        if isinstance(asked, dict):
            return [asked[name] for name in self.function.inputs]
        return [float(value) for value in asked]

    def tell(self, point: list[Any], value: float) -> None:
        super().tell(point, value)
        given = (
            np.array(point, dtype=float) if self.function.plain else dict(zip(self.function.inputs, point, strict=True))
        )
        self.optimizer.tell(given, value)

    def facts(self) -> dict[str, Any]:
        """Return the partitions that it believes in, the further gain that it expects, and its words."""
        found: dict[str, Any] = {}
        gain = getattr(self.optimizer, "expected_gain_", None)
        if gain is not None:
            found["expected gain"] = float(gain)
        partitions = getattr(self.optimizer, "partitions_", None)
        if partitions:
            found["partitions"] = [
                {"groups": [[int(i) for i in group] for group in groups], "probability": float(share)}
                for groups, share in list(partitions)[:5]
            ]
        return found

    def words(self) -> str:
        """Return what the optimiser says about the function."""
        return str(self.optimizer.explain())


class MercerNetwork(Mercer):
    """The same with the paper's network as kernel."""

    kernel = "nkn"


# ----------------------------------------------------------------------------------------------------------------- all


def _paper(name: str) -> Callable[[Function, int], Method]:
    def begin(function: Function, run: int) -> Method:
        from benchmarks.optimise_paper import begin_paper

        return begin_paper(name, function, run)

    return begin


METHODS: dict[str, Callable[[Function, int], Method]] = {
    "mercer": Mercer, "botorch": BoTorch, "optuna-gp": OptunaGP, "optuna-tpe": Optuna, "random": Random,
    "mercer-nkn": MercerNetwork, "botorch-additive": BoTorchAdditive,
    **{name: _paper(name) for name in (
        "paper-rbf", "paper-ard", "paper-2rbf", "paper-nkn", "paper-oracle", "paper-small-nkn", "paper-mcmc-rbf",
        "paper-mcmc-2rbf", "paper-mcmc-nkn",
    )},
}  # fmt: skip
NEEDS = {"botorch": "botorch", "optuna": "optuna"}
RUNS = {"mercer": 10, "mercer-nkn": 5, "botorch-additive": 1}  # of the others: 5
CALLS = {"botorch-additive": 120}  # it takes some 10 s for each step at 100 points, 20 s at 200


def find_missing(name: str) -> str | None:
    """Return why a method cannot run here, or None."""
    package = NEEDS.get(name.split("-")[0])
    if package is not None and find_spec(package) is None:
        return f"{package} is not installed"
    if name.startswith("mercer"):
        import mercer

        if not hasattr(mercer, "Optimizer"):
            return "this version of Mercer has no Optimizer"
    return None


def suits(method: str, function: str) -> bool:
    """Tell whether a method is measured on a function: the paper's variants only on the paper's functions."""
    if method.startswith("paper") or method == "mercer-nkn":
        return function in PAPER
    if method == "botorch-additive":
        return function in PAPER[:3]
    return True


__all__ = ["CALLS", "FIRST", "METHODS", "RUNS", "Method", "find_missing", "suits"]
