"""Random fitted models, and what each exported form of them predicts: for tests/agree and `make bench-interop`.

A `Case` is a model whose kernel and noise are given, not fitted: rows in odd units, some of the new rows equal to rows
learned from, one beyond the data, and for averages several members with weights that change there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from numpy.typing import NDArray

import mercer
from mercer.errors import NumericalError
from mercer.estimators.inputs import restore
from mercer.fitting.problem import Fit
from mercer.inference.choose import Choice
from mercer.inference.contract import Engine
from mercer.inference.exact import Exact
from mercer.kernels.expression import Expression, build_base, product_of, sum_of
from mercer.kernels.parameters import Units, values_of
from mercer.learners.contract import Learned, Weights
from mercer.model.fitted import Columns, Origin, TrainingRows, make_fitted
from tests.strategies import MAX_DIMENSIONS, blends, functionals, inputs, kernels, networks, numbers

Array = NDArray[np.float64]
UNITS = Units((1950.0, -3.0, 0.0), (12.0, 0.01, 1.0), 40.0)
LEVEL = 700.0
CODES = (0.0, 1.0, 2.0, 3.0, 7.0)  # of four categories, and of one that is not known


@dataclass(frozen=True)
class Case:
    model: mercer.GPRegressor
    rows: Array  # new ones, in the units of the data
    kind: str = "expression"

    @property
    def prior(self) -> float:
        """The largest variance before the data."""
        fitted = self.model.fitted_
        rows = np.concatenate([fitted.training.scale(self.rows), fitted.training.data.X])
        largest = max(float(member.kernel.diagonal(rows).max()) + member.noise for member in fitted.mixture.members)
        return largest * fitted.units.y_scale**2

    @property
    def condition(self) -> float:
        """The worst condition number of A."""
        fitted = self.model.fitted_
        X, found = fitted.training.data.X, 1.0
        for member in fitted.mixture.members:
            matrix = member.kernel(X) + (member.noise + member.posterior.jitter) * np.eye(len(X))
            found = max(found, float(np.linalg.cond(matrix)))
        return found

    @property
    def tolerance(self) -> float:
        """Of the prior's scale: 1e-8 up to a condition number of 1e6, then 1e-14 times that number."""
        condition = self.condition
        return 1e-8 if condition < 1e6 else 1e-14 * condition


def make_model(
    members: list[Expression], noises: list[float], Z: Array, t: Array,
    weights: Weights | None = None, engine: Engine | None = None, units: Units = UNITS,
) -> mercer.GPRegressor:  # fmt: skip
    """Return a model with these kernels and noises, for rows and targets in scaled units."""
    fits = tuple(
        Fit(kernel, noise, 0.0, 0.0, 1, 0.0, "converged", "", 0, values_of(kernel))
        for kernel, noise in zip(members, noises, strict=True)
    )
    X = np.array(units.shift[: Z.shape[1]]) + np.array(units.scale[: Z.shape[1]]) * Z
    own = Units(units.shift[: Z.shape[1]], units.scale[: Z.shape[1]], units.y_scale)
    training = TrainingRows(X, LEVEL + own.y_scale * t, own, LEVEL, Columns(Z.shape[1]))
    options = {"kernel": members[0], "noise": None}
    choice = Choice(engine or Exact(), "as asked for")
    learned = Learned(fits[0], (), fits, weights or Weights())
    return restore(mercer.GPRegressor, options, make_fitted(learned, training, choice, Origin(options)))


def expressions() -> st.SearchStrategy[tuple[str, Expression]]:
    """Every kind of expression; more than half of them base kernels, sums and products."""
    plain = kernels().map(lambda kernel: ("expression", kernel))
    rest = st.one_of(
        networks().map(lambda one: ("network", one)),
        networks(complex=True).map(lambda one: ("complex network", one)),
        blends().map(lambda one: ("change surface", one)),
        functionals().map(lambda one: ("functional", one)),
        categories().map(lambda one: ("categories", one)),
    )
    return st.integers(0, 6).flatmap(lambda number: plain if number < 4 else rest)


@st.composite
def categories(draw: st.DrawFn) -> Expression:
    """A kernel of the codes in the last column (`CODES`), with another kernel as a factor or a summand."""
    share, places = draw(numbers(0.125, 0.875)), [draw(numbers(-2, 2)) for _ in CODES[2:]]
    alike = build_base("CAT", MAX_DIMENSIONS - 1, variance=0.5, correlation=share)
    apart = build_base("ECAT", MAX_DIMENSIONS - 1, components=len(places), variance=2.0, places=places)
    parts = [draw(st.sampled_from([alike, apart])), draw(kernels())]
    return sum_of(parts) if draw(st.booleans()) else product_of(parts)


@st.composite
def cases(draw: st.DrawFn, averages: bool = False) -> Case:
    """A model and new rows; now and then nearly or wholly without noise. With `averages` of one to three members."""
    kind, kernel = draw(expressions())
    more = draw(st.lists(kernels(), max_size=2)) if averages else []
    members = [kernel, *more]
    noises = [draw(st.sampled_from([1.0, 0.1, 1e-3, 1e-6, 0.0])) for _ in members]
    Z = draw(inputs(MAX_DIMENSIONS, 3, 10))
    far = draw(inputs(MAX_DIMENSIONS, 1, 4))
    far[0, 0] += draw(st.sampled_from([0.0, 0.1, 20.0]))
    if kind == "categories":
        Z[:, -1] = [draw(st.sampled_from(CODES[:-1])) for _ in Z]
        far[:, -1] = [draw(st.sampled_from(CODES)) for _ in far]
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    size = np.sqrt(max(float(kernel.diagonal(Z).mean()), 1e-3))
    assume(np.isfinite(size) and size < 1e6)
    weights = None
    if averages:
        within, beyond = (np.array([draw(numbers(0, 1)) for _ in members]) + 0.01 for _ in range(2))
        widening = tuple(draw(st.sampled_from([1.0, 1.5, 4.0])) for _ in members)
        weights = Weights(tuple(within / within.sum()), tuple(beyond / beyond.sum()), widening, 0)
    try:
        model = make_model(members, noises, Z, size * rng.standard_normal(len(Z)), weights)
    except NumericalError:
        assume(False)
    rows = np.concatenate([model.fitted_.training.X[:2], np.array(UNITS.shift) + np.array(UNITS.scale) * far])
    mean, std = model.predict(rows, return_std=True)
    assume(np.isfinite(mean).all() and np.isfinite(std).all())
    return Case(model, rows, kind if len(members) == 1 else "average")


# ---------------------------------------------------------------------------------- what each form predicts: mean, var


def by_sklearn(case: Case) -> tuple[Array, Array]:
    mean, std = case.model.to_sklearn().predict(case.rows, return_std=True)
    return mean, std**2


def by_gpytorch(case: Case) -> tuple[Array, Array]:
    import torch

    exported = case.model.to_gpytorch()
    with torch.no_grad():
        found = exported.likelihood(exported(torch.as_tensor(case.rows)))
        return found.mean.numpy(), found.variance.numpy()


def by_botorch(case: Case) -> tuple[Array, Array]:
    import torch

    with torch.no_grad():
        batch = torch.as_tensor(case.rows)[:, None]
        found = case.model.to_botorch().posterior(batch, observation_noise=True)
        return found.mean.numpy().ravel(), found.variance.numpy().ravel()


def by_onnx(case: Case) -> tuple[Array, Array]:
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        case.model.to_onnx(path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(path), options)
        mean, std, _ = session.run(None, {"X": case.rows})
    return mean, std**2


TARGETS: dict[str, Callable[[Case], tuple[Array, Array]]] = {
    "scikit-learn": by_sklearn, "GPyTorch": by_gpytorch, "BoTorch": by_botorch, "ONNX": by_onnx,
}  # fmt: skip
WITH_AVERAGES = ("BoTorch", "ONNX")


def worst_difference(case: Case, found: tuple[Any, Any]) -> float:
    """The largest difference in means and variances, of the prior's scale and of its variance.

    Of an average, whose members may lie far apart, of its own variance where that is larger.
    """
    mean, std = case.model.predict(case.rows, return_std=True)
    prior = case.prior if case.kind != "average" else max(case.prior, float((std**2).max()))
    return float(max(np.abs(found[0] - mean).max() / np.sqrt(prior), np.abs(found[1] - std**2).max() / prior))
