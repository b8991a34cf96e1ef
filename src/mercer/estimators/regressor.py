"""`GPRegressor`: Gaussian-process regression with a kernel given as an expression, in scikit-learn's conventions."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mercer.compute.program import compile_program
from mercer.errors import InputError
from mercer.estimators import inputs
from mercer.estimators.kernels import in_data_units
from mercer.estimators.learning import chosen_engine, known_structure, learn_where_it_fits, scaling
from mercer.estimators.mixture import Member, Mixture
from mercer.explain import Explanation
from mercer.explain.changes import Change
from mercer.inference.choose import Choice, fits_in_memory
from mercer.inference.contract import Data, Engine, Posterior, Source
from mercer.inference.likelihood import Gaussian
from mercer.kernels.algebra import told_components
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import values_of
from mercer.kernels.units import to_data_units
from mercer.learners.contract import Learned, Learner, Stopped, Weights
from mercer.learners.criteria import bic


@dataclass(frozen=True, eq=False)
class Component:
    """One summand of the kernel: its expression (None for the constant level) and its posterior at some rows."""

    kernel: Expression | None
    mean: Array
    std: Array


class GPRegressor(RegressorMixin, BaseEstimator):
    """Gaussian-process regression with a kernel expression whose parameters are fitted to the data.

    Parameters
    ----------
    kernel : str, Expression or learner
        "search" or a `mercer.GrammarSearch` finds the structure; "nkn" or a `mercer.NeuralKernelNetwork` trains a
        network of kernels; "surface" or a `mercer.ChangeSurface` learns where behaviour changes. Otherwise the
        structure is given, such as
        "SE*PER + LIN" or `SE(0)*PER(0, period=12) + LIN(1)`. Base kernels with a dimension (a column number or name)
        act on it, those without on all columns, one lengthscale each. Values given are where the fit begins;
        `fixed(...)` ones stay.
    noise : float or None
        A known noise variance of y, for kernels that are given and networks, or None to fit it.
    restarts : int
        How many starting points are optimised (chosen among twelve times as many draws).
    priors : None or "weak"
        Weak priors keep parameters that the data do not determine at middling values.
    max_iterations : int
        Quasi-Newton steps for each start.
    inference : "auto" or an engine
        "auto" takes exact inference up to 3,000 rows; above, grid inference where the rows form a grid and the kernel
        is a product over its columns, else sparse variational inference. `mercer.Exact()`, `mercer.Grid()`,
        `mercer.VFE(inducing=500)` or `mercer.RandomFeatures(count=300)` to insist. Where it is not exact, the structure
        and first values are learned from a sample of the rows, exactly, and then fitted to all of them.
    device : str
        "cpu", or "cuda" to fit all starts at once on a GPU; in a search, those of all kernels of a level. Above 3,000
        rows the engine works there too: exact where one matrix of all pairs fits, sparse otherwise. Where the memory
        of the GPU is not enough the next engine takes over, and `inference_.reason` says so.
    n_jobs : int or None
        Starts optimised at the same time (joblib). The result does not depend on it.
    random_state : int, RandomState or None
        Seed of the starts.

    Attributes
    ----------
    kernel_ : Expression, the fitted kernel in the units of the data.
    noise_ : float, the noise variance in squared units of y.
    log_evidence_, bic_, loo_ : float, log p(y), BIC = -2 log p + p log N (smaller is better), and the sum of
        leave-one-out log densities, all for y in its own units.
    status_, message_ : str, how the fit ended ("converged", "at a bound", "stopped", "interrupted") and why.
    jitter_ : float, what was added to the diagonal of the covariance to factorise it, in squared units of y.
    inference_ : Choice, the engine and the reason for it.
    candidates_ : tuple of every kernel that a search tried, in the units of the data; empty where one was given.
    distilled_from_ : the network that `distil` made this model from, in words, or None.
    stopped_ : "request" where Ctrl-C ended the fit or the search early, "time" where the time budget did, else "".
    target_name_, fit_seconds_, notes_ : the name of y where it has one, how long the fit took, remarks on it.
    """

    def __init__(
        self,
        kernel: str | Expression | Learner = "SE",
        *,
        noise: float | None = None,
        restarts: int = 6,
        priors: str | None = None,
        max_iterations: int = 200,
        inference: str | Engine = "auto",
        device: str = "cpu",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.noise = noise
        self.restarts = restarts
        self.priors = priors
        self.max_iterations = max_iterations
        self.inference = inference
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------------------------------------------------- fitting

    _source: Source | None  # all rows, where the training rows are a sample of them
    notes_: tuple[str, ...]
    distilled_from_: str | None

    def fit(self, X: Any, y: Any = None, progress: Any = None) -> GPRegressor:
        """Fit the kernel: its parameters where the structure is given, otherwise the structure too.

        Rows beyond memory: X is a `mercer.ParquetRows` (without y), or X and y are a Dask dataframe and its column, or
        Dask arrays.

        `progress(state)` is called with a `mercer.fitting.clock.Progress` after every start, for a learner after every
        candidate.
        """
        started = time.perf_counter()
        if inputs.is_streamed(X):
            from mercer.estimators.streaming import fit_stream

            return fit_stream(self, X, y, progress)
        matrix = inputs.checked_inputs(self, X, reset=True)
        target = inputs.checked_target(y, len(matrix))
        matrix, target = inputs.without_missing_targets(matrix, target)
        names = inputs.column_names(self, matrix.shape[1])
        varying = inputs.varying_columns(matrix, names)
        if np.ptp(target) == 0:
            raise InputError(
                f"the target is the same ({target[0]:g}) in all {len(target)} rows: there is nothing to learn"
            )
        columns = varying or list(range(matrix.shape[1]))
        self._units, self._level = scaling(matrix, target)
        self._train, self._source = (matrix, target), None
        self.inference_: Choice = chosen_engine(self, known_structure(self, names, columns))
        learn_where_it_fits(self, names, columns, progress)
        name = getattr(y, "name", None)
        self.target_name_ = None if name is None else str(name)
        self.fit_seconds_ = time.perf_counter() - started
        return self

    def _scaled_data(self) -> Data:
        matrix, target = self._train
        shift, scale = np.array(self._units.shift), np.array(self._units.scale)
        inputs_, target_ = (matrix - shift) / scale, (target - self._level) / self._units.y_scale
        return Data(inputs_, target_, free_level=True, source=self._source)

    def _keep(self, learned: Learned) -> None:
        """Store what was learned, in the user's units."""
        result = learned.fit
        rows = len(self._train[1]) if self._source is None else self._source.count
        scale = self._units.y_scale
        self.candidates_ = tuple(in_data_units(c, self._units, learned.rows or rows) for c in learned.candidates)
        self.notes_ = learned.notes
        self.stopped_: Stopped = learned.stopped
        self.kernel_ = to_data_units(result.expression, self._units)
        self.noise_ = result.noise * scale**2
        self.log_evidence_ = result.log_evidence - rows * math.log(scale)
        self.loo_ = result.leave_one_out - rows * math.log(scale)
        self.bic_ = bic(self.log_evidence_, result.parameters, rows)
        self.n_parameters_ = result.parameters
        self.jitter_ = result.jitter * scale**2
        self.status_: str = result.status
        self.message_ = result.message
        known = []
        if any(f.held is not None for f in learned.members):
            data, engine = self._scaled_data(), self.inference_.engine
            programs = [compile_program(f.expression) for f in learned.members]
            known = [
                (f.held or engine).posterior(program, f.values, Gaussian(f.noise), data)
                for f, program in zip(learned.members, programs, strict=True)
            ]
        self._prepare([(f.expression, f.noise) for f in learned.members], learned.weights, known)

    def _prepare(
        self, kernels: Sequence[tuple[Expression, float]], weights: Weights, known: Sequence[Posterior] = ()
    ) -> None:
        """Factorise once, for all predictions; the first kernel (with its noise) is the one explained.

        Posteriors may be `known`: of a stream, which may be gone, or with inducing points that were moved.
        """
        data, engine = self._scaled_data(), self.inference_.engine
        posteriors = known or [
            engine.posterior(compile_program(k), values_of(k), Gaussian(noise), data) for k, noise in kernels
        ]
        members = tuple(
            Member(k, noise, within, beyond, wide, posterior)
            for (k, noise), (within, beyond, wide), posterior in zip(
                kernels, weights.of_each(), posteriors, strict=True
            )
        )
        self._change: Change | None = None  # worked out when asked for
        along = data.X[:, weights.column or 0]
        seen = data.y if data.source is None else np.empty(0)
        ends = (float(along.min()), float(along.max()))
        self._mixture = Mixture(members, weights.column, ends, weights.tails, seen)

    # ---------------------------------------------------------------------------------------------------- predicting

    def _scaled_inputs(self, X: Any) -> Array:
        check_is_fitted(self)
        matrix = inputs.checked_inputs(self, X, reset=False)
        return (matrix - np.array(self._units.shift)) / np.array(self._units.scale)

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, include_noise: bool = True) -> Any:
        """Return the mean of y at new rows and, if asked, its standard deviation or covariance.

        Both include the noise, as a band for new observations must; `include_noise=False` gives the band of the
        underlying function instead.
        """
        if return_std and return_cov:
            raise InputError("ask for return_std or return_cov, not both")
        rows, scale = self._scaled_inputs(X), self._units.y_scale
        if return_cov:
            fits_in_memory(len(rows))
            mean, covariance = self._mixture.predict_joint(rows, include_noise)
            return self._level + scale * mean, scale**2 * covariance
        prediction = self._mixture.predict(rows, include_noise)
        mean = self._level + scale * prediction.mean
        return (mean, scale * np.sqrt(prediction.variance)) if return_std else mean

    def log_density(self, X: Any, y: Any) -> Array:
        """Return the log predictive density of each value of y at its row: the larger, the better it was foreseen.

        Where kernels are averaged this is the density of the mixture, sum_i w_i p(y | m_i, v_i). Each p has the mean
        and variance of its kernel's prediction and the tails of the errors that are made when each row learned from is
        predicted from the others: Student's t where they are clearly heavy, else a Gaussian. Beyond the data in time,
        it has the tails of the errors of earlier forecasts.
        """
        rows, scale = self._scaled_inputs(X), self._units.y_scale
        target = np.asarray(y, dtype=np.float64).ravel()
        if len(target) != len(rows):
            raise InputError(f"there are {len(rows)} rows of inputs and {len(target)} values of y")
        return self._mixture.log_density(rows, (target - self._level) / scale) - np.log(scale)

    def decompose(self, X: Any = None) -> list[Component]:
        """Return the posterior of every summand of the kernel (in canonical form) at the rows, then the constant level.

        The means add up to `predict(X)` (of the winner alone, where several kernels are averaged). Without X, at the
        rows that were learned from.
        """
        check_is_fitted(self)
        rows, scale = self._scaled_data().X if X is None else self._scaled_inputs(X), self._units.y_scale
        parts: list[Component] = []
        explained = self._mixture.members[0]
        for term in told_components(explained.kernel):
            part = explained.posterior.predict_part(compile_program(term), values_of(term), rows)
            kernel = to_data_units(term, self._units)
            parts.append(Component(kernel, scale * part.mean, scale * np.sqrt(part.variance)))
        level = explained.posterior.level
        mean, std = self._level + scale * float(level.mean[0]), scale * float(np.sqrt(level.variance[0]))
        parts.append(Component(None, np.full(len(rows), mean), np.full(len(rows), std)))
        return parts

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0, include_noise: bool = True) -> Array:
        """Draw joint samples of y (or of the function without noise) at the rows: an array rows x n_samples."""
        rows = self._scaled_inputs(X)
        if n_samples < 1:
            raise InputError(f"n_samples must be at least 1, not {n_samples!r}")
        fits_in_memory(len(rows))
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
        return self._level + self._units.y_scale * self._mixture.sample(rows, n_samples, rng, include_noise)

    def leave_one_out(self) -> tuple[Array, Array]:
        """Return mean and standard deviation of every training target given all the others."""
        check_is_fitted(self)
        left = self._mixture.members[0].posterior.leave_one_out()
        scale = self._units.y_scale
        return self._level + scale * left.mean, scale * np.sqrt(left.variance)

    def evidence_interval(self) -> tuple[float, float]:
        """Return between what the exact log evidence of the fitted kernel lies: twice the same with exact inference.

        With sparse inference `log_evidence_` is a lower bound; where the interval is wide, more inducing points than
        the engine's make it narrower, as far as a minute or so goes. The upper end takes some products with the matrix
        of all pairs of rows (in blocks); beyond 30,000 rows none, and it may be loose.
        """
        from mercer.estimators.bounding import interval_of

        check_is_fitted(self)
        return interval_of(self)

    # ---------------------------------------------------------------------------------------------------- explaining

    def distil(self, *, time_budget: float | None = None, progress: Any = None) -> GPRegressor:
        """Return a new model whose kernel is the ordinary expression that this one's network comes to.

        The network's polynomial is reduced to the terms that matter, and these are simplified step by step, refitting
        the parameters; the result is the smallest expression whose BIC is within 2 of the best found. Every kernel
        tried is in `candidates_`. `progress(state)` is called as for a search; Ctrl-C and the end of `time_budget`
        (seconds) give the best so far.
        """
        from mercer.estimators.distilling import distilled

        check_is_fitted(self)
        return distilled(self, time_budget, progress)

    def explain(self) -> Explanation:
        """Return what was learned as plain data and words: `print` it, or see `to_json`."""
        from mercer.estimators.explaining import explanation_of

        check_is_fitted(self)
        return explanation_of(self)

    @property
    def change_(self) -> Change | None:
        """Where behaviour changes: regimes, crossings with intervals, shares at rows; None without a change surface."""
        from mercer.estimators.explaining import subject_of
        from mercer.explain.changes import change_of
        from mercer.kernels.blend import has_blend

        check_is_fitted(self)
        if not has_blend(self.kernel_):
            return None
        if self._change is None:
            found = change_of(subject_of(self), self.candidates_)
            encode = partial(inputs.checked_inputs, self, reset=False)
            self._change = None if found is None else replace(found, encode=encode)
        return self._change

    def report(self, path: str | Path) -> None:
        """Write the explanation with its pictures to one HTML file that needs nothing else."""
        from mercer.report import write_report  # the room above: a shortcut for users, imported only here

        check_is_fitted(self)
        write_report(self, path)

    # --------------------------------------------------------------------------------------------------------- files

    def save(self, path: str | Path) -> None:
        """Write the model to a file of JSON and raw arrays; `mercer.load` reads it."""
        from mercer.estimators.files import save

        check_is_fitted(self)
        save(self, path)

    @property
    def X_train_(self) -> Array:
        """The rows that were learned from, encoded as numbers; of a stream, a random sample."""
        check_is_fitted(self)
        return self._train[0]

    @property
    def y_train_(self) -> Array:
        """Their targets."""
        check_is_fitted(self)
        return self._train[1]

    @property
    def column_names_(self) -> Sequence[str]:
        """The names of the columns that kernel dimensions refer to."""
        check_is_fitted(self)
        return inputs.column_names(self, len(self._units.shift))
