"""`GPRegressor`: Gaussian-process regression with a kernel given as an expression, in scikit-learn's conventions."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from mercer.compute.backend import Backend, backend_for
from mercer.errors import FitWarning, InputError, NumericalError
from mercer.estimators import inputs
from mercer.estimators.inputs import FitInput, Shown, ShownFit, TableEstimator, settings_of
from mercer.explain.changes import Change, change_in
from mercer.explain.explanation import Explanation, explain
from mercer.explain.search import ChosenLearner
from mercer.fitting.minimise import Clock, fit
from mercer.inference.choose import ChoicePolicy, check_memory, exact_for_few, fall_back, read_inference
from mercer.inference.contract import Engine
from mercer.kernels.algebra import structure
from mercer.kernels.categories import check_codes
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression, find_all
from mercer.kernels.network import Network
from mercer.kernels.parameters import bind, to_scaled_units
from mercer.learners.contract import Context, Learned, Learner, Plan, learned_alone, read_jobs
from mercer.learners.grammar import SearchPolicy
from mercer.learners.many_rows import AllRows, ManyRowsPolicy, draw_sample, fit_to_all, whole_of
from mercer.model.fitted import (
    Component,
    Fitted,
    Origin,
    choose_engine,
    expression_or_learner,
    make_fitted,
)  # fmt: skip
from mercer.report import write_report

GIVEN_KERNELS = ("restarts", "priors", "max_iterations")  # settings of these: a learner has its own


class GPRegressor(ShownFit, TableEstimator, RegressorMixin, BaseEstimator):
    """Gaussian-process regression with a kernel expression whose parameters are fitted to the data.

    Parameters
    ----------
    kernel : str, Expression or learner
        "auto" or a `mercer.AutoKernel` chooses one of the following by the data, says why, and how long it takes at
        most (`plan`). "search" or a `mercer.GrammarSearch` finds the structure; "nkn" or a
        `mercer.NeuralKernelNetwork` trains a network of kernels; "surface" or a `mercer.ChangeSurface` learns where
        behaviour changes; "partition" or a `mercer.PartitionSampler` which inputs act together; "kfo" or a
        `mercer.KernelFunctional` finds a kernel without a formula. Otherwise the structure is given, such as
        "SE*PER + LIN" or `SE(0)*PER(0, period=12) + LIN(1)`. Base kernels with a dimension (a column number or name)
        act on it, those without on all columns, one lengthscale each. Values given are where the fit begins;
        `fixed(...)` ones stay.
    noise : float or None
        A known noise variance of y, for kernels that are given, networks and partitions, or None to fit it.
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

    def __init__(  # noqa: PLR0913  # each is a setting, by keyword, as scikit-learn has them
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

    fitted_: Fitted
    shown_by = "fitted_to_html"
    with_settings: ClassVar = {"kernel": inputs.A_LEARNER, "inference": "an engine, as in inference=mercer.VFE()"}
    log_evidence_ = Shown(lambda fitted: fitted.scores.log_evidence)
    bic_ = Shown(lambda fitted: fitted.scores.bic)
    loo_ = Shown(lambda fitted: fitted.scores.leave_one_out)
    n_parameters_ = Shown(lambda fitted: fitted.scores.parameters)
    jitter_ = Shown(lambda fitted: fitted.scores.jitter)
    distilled_from_ = Shown(lambda fitted: fitted.origin.distilled_from)
    y_train_ = Shown(lambda fitted: fitted.training.y)

    def fit(self, X: Any, y: Any = None, progress: Any = None) -> GPRegressor:
        """Fit the kernel: its parameters where the structure is given, otherwise the structure too.

        Rows beyond memory: X is a `mercer.ParquetRows` (without y), or X and y are a Dask dataframe and its column, or
        Dask arrays.

        `progress(state)` is called with a `mercer.fitting.minimise.Progress` after every start (on a GPU, where all
        run at once, every step), for a learner after every candidate. `progress=True` shows a bar, in a notebook too.
        """
        if progress is True:
            from mercer.report.progress import fit_with_bar  # brings rich

            model: GPRegressor = fit_with_bar(self.fit, X, y)
            return model
        started = time.perf_counter()
        inputs.check_progress(progress)
        kernel, known = expression_or_learner(self.kernel), None  # known: the structure that will be fitted, if any is
        reading = self._read(X, y, kernel)
        rows, varying, names = reading.rows, reading.varying, reading.rows.columns.names
        plan = self._choose(kernel, reading)
        if plan is not None:
            kernel, started = plan.kernel, started + inputs.announce(plan, rows, progress)
        categories = rows.columns.categories
        spread: tuple[str, ...] = ()
        if isinstance(kernel, Expression):
            known = bind(kernel, rows.X.shape[1], names, default=varying, categories=categories)
            check_codes(known, categories, names)
            spread = inputs.note_categories(kernel, known, names)
            kernel = to_scaled_units(known, rows.units)
        else:
            kernel = kernel.scale_kernels(varying, names, rows.units, categories)
            known = kernel.foresee(varying, rows.X.shape[1])
        backend = asked = backend_for(self.device)
        engine, policy = read_inference(self.inference), self._policy(ChoicePolicy)
        choice = reading.choice or choose_engine(kernel, engine, backend, rows.data, known, policy)
        origin = Origin(self.get_params(deep=False), plan=plan)
        while True:  # where a GPU runs out of memory, with the next engine
            try:
                learned = self._learn(kernel, reading, choice.engine, progress, backend)
                fitted = make_fitted(learned, rows, choice, origin)
                break
            except RuntimeError as error:
                if not backend.is_out_of_memory(error):
                    raise
            backend.release_memory()
            choice, backend = fall_back(choice, rows.count, backend)
        notes = (*fitted.notes, *(() if backend == asked else (choice.reason,)), *spread, *reading.notes)
        self.fitted_ = replace(fitted, notes=notes, seconds=time.perf_counter() - started)
        return self

    def _read(self, X: Any, y: Any, kernel: Expression | Learner) -> FitInput:
        """Read the rows to learn from: a table in memory, or one that is read in parts."""
        if type(X).__name__ == "ParquetRows" or inputs.is_dask(X):
            from mercer.estimators.streams import StreamPolicy, read_stream  # brings pandas

            return read_stream(self, X, y, self._policy(StreamPolicy))
        return inputs.read_training(self, X, y, isinstance(kernel, Learner) and not kernel.takes_categories)

    def _choose(self, kernel: Expression | Learner, reading: FitInput) -> Plan | None:
        """Choose the learner by the data, where that was left to Mercer."""
        return None if isinstance(kernel, Expression) else kernel.choose(inputs.read_facts(reading), self.policies)

    def plan(self, X: Any, y: Any = None) -> ChosenLearner:
        """Say which learner `kernel="auto"` would choose for such data, why, and how long it may take at most.

        Nothing is learned. `str()` of it is a sentence; `seconds`, `learner`, `reason` and `facts` are it as data.
        """
        kernel = expression_or_learner(self.kernel)
        apart: GPRegressor = clone(self)
        reading = apart._read(X, y, kernel)
        plan = self._choose(kernel, reading)
        if plan is None:
            raise InputError(
                f"kernel={self.kernel!r:.60} leaves nothing to choose: a plan is made for GPRegressor(kernel='auto')"
            )
        return inputs.describe_plan(plan, reading.rows.target_name)

    def _learn(
        self, kernel: Expression | Learner, reading: FitInput, engine: Engine, progress: Any, backend: Backend
    ) -> Learned:
        """Learn with one engine: from all rows where it is exact, else from a sample first."""
        if self.priors not in (None, "weak"):
            raise InputError(f"priors must be None or 'weak', not {self.priors!r}")
        own: Any = {"priors": self.priors == "weak", "n_jobs": read_jobs(self.n_jobs)}
        options, data = inputs.read_fit_options(self, reading.rows.units, zero_noise=True, **own), reading.rows.data
        many, few, clock = self._policy(ManyRowsPolicy), exact_for_few(backend), Clock()
        rows = draw_sample(data.sample, options.seed, many) if engine.many_rows else data
        if isinstance(kernel, Expression):
            result = fit(kernel, rows, few, options, progress, backend)
            if result.status == "failed":
                raise NumericalError(f"the fit failed: {result.message}; try another kernel or a larger noise")
            if result.status in ("stopped", "interrupted"):
                how = "was interrupted" if result.status == "interrupted" else "stopped"
                warnings.warn(f"the fit {how}: {result.message}", FitWarning, stacklevel=3)
            learned = learned_alone(result)
        else:
            self._check_learner(kernel, engine, backend)
            after = self._policy(SearchPolicy).seconds_after
            clock = Clock(kernel.seconds_allowed, reserve=after)
            whole = whole_of(kernel, data, engine, many) if engine.many_rows else None
            context = Context(
                data=rows,
                engine=few,
                columns=reading.varying,
                categories={c: n for c, n in reading.rows.columns.categories.items() if c in reading.varying},
                rhythms=reading.rhythms,
                seed=options.seed,
                jobs=options.n_jobs,
                report=progress,
                backend=backend,
                noise=options.noise,
                whole=whole,
                kept_share=many.kept_share if engine.many_rows else 0.0,
                kept_seconds=after,
                policies=self.policies,
            )
            learned = kernel.learn(context)
        return fit_to_all(learned, AllRows(data, engine, options, many, clock)) if engine.many_rows else learned

    def _check_learner(self, learner: Learner, engine: Engine, backend: Backend) -> None:
        """Refuse settings that this learner does not honour: those of given kernels, a known noise, a device."""
        name, own = type(learner).__name__, settings_of(learner)
        for setting, parameter in signature(GPRegressor).parameters.items():
            value = getattr(self, setting)
            if setting in GIVEN_KERNELS and value != parameter.default:
                where = (
                    f"give it to the learner: kernel=mercer.{name}({setting}={value!r})"
                    if setting in own
                    else f"{name} has no such setting: leave it at {parameter.default!r}"
                )
                raise InputError(f"{setting}={value!r} is for kernels that are given, and here {name} learns; {where}")
        if self.noise is not None and not learner.keeps_noise:
            raise InputError(
                f"{name} fits the noise and cannot keep a known one: leave noise=None. Kernels that are given, "
                "networks and partitions keep it: learn the structure first, then give it as `kernel` with `noise`"
            )
        if backend.batches and not learner.makes_batches and not engine.many_rows:
            raise InputError(f"{name} works on the CPU, and device={self.device!r} was given: leave device='cpu'")

    # ---------------------------------------------------------------------------------------------------- predicting

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, include_noise: bool = True) -> Any:
        """Return the mean of y at new rows and, if asked, its standard deviation or covariance.

        Both include the noise, as a band for new observations must; `include_noise=False` gives the band of the
        underlying function instead.
        """
        if return_std and return_cov:
            raise InputError("ask for return_std or return_cov, not both")
        rows = self._rows(X)
        if return_cov:
            check_memory(len(rows))
            return self.fitted_.predict_joint(rows, include_noise)
        mean, std = self.fitted_.predict(rows, include_noise)
        return (mean, std) if return_std else mean

    def log_density(self, X: Any, y: Any) -> Array:
        """Return the log predictive density of each value of y at its row: the larger, the better it was foreseen.

        Where kernels are averaged this is the density of the mixture, sum_i w_i p(y | m_i, v_i). Each p has the mean
        and variance of its kernel's prediction and the tails of the errors that are made when each row learned from is
        predicted from the others: Student's t where they are clearly heavy, else a Gaussian. Beyond the data in time,
        it has the tails of the errors of earlier forecasts.
        """
        rows = self._rows(X)
        return self.fitted_.log_density(rows, inputs.read_target(self, y, len(rows)))

    def decompose(self, X: Any = None) -> list[Component]:
        """Return the posterior of every summand of the kernel (in canonical form) at the rows, then the constant level.

        The means add up to `predict(X)` (of the winner alone, where several kernels are averaged). Without X, at the
        rows that were learned from.
        """
        check_is_fitted(self)
        return self.fitted_.decompose(None if X is None else self._rows(X))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0, include_noise: bool = True) -> Array:
        """Draw joint samples of y (or of the function without noise) at the rows: an array rows x n_samples."""
        rows = self._rows(X)
        inputs.check_count("n_samples", n_samples)
        check_memory(len(rows))
        rng = np.random.default_rng(inputs.read_seed(random_state))
        return self.fitted_.sample(rows, n_samples, rng, include_noise)

    def leave_one_out(self) -> tuple[Array, Array]:
        """Return mean and standard deviation of every training target given all the others."""
        check_is_fitted(self)
        return self.fitted_.leave_one_out()

    def evidence_interval(self) -> tuple[float, float]:
        """Return between what the exact log evidence of the fitted kernel lies: twice the same with exact inference.

        With sparse inference `log_evidence_` is a lower bound; where the interval is wide, more inducing points than
        the engine's make it narrower, as far as a minute or so goes. The upper end takes some products with the matrix
        of all pairs of rows (in blocks); beyond 30,000 rows none, and it may be loose.
        """
        check_is_fitted(self)
        return self.fitted_.evidence_interval()

    # ---------------------------------------------------------------------------------------------------- explaining

    def distil(self, *, time_budget: float | None = None, progress: Any = None) -> GPRegressor:
        """Return a new model whose kernel is the ordinary expression that this one's network comes to.

        The network's polynomial is reduced to the terms that matter, and these are simplified step by step, refitting
        the parameters; the result is the smallest expression whose BIC is within 2 of the best found. Every kernel
        tried is in `candidates_`. `progress(state)` is called as for a search; Ctrl-C and the end of `time_budget`
        (seconds) give the best so far.
        """
        from mercer.explain.network_words import distilled_note, network_phrase
        from mercer.explain.wording import list_names
        from mercer.learners.distil import distil

        check_is_fitted(self)
        old = self.fitted_
        if old.training.source is not None:
            raise InputError(
                "a network that was learned from a stream cannot be distilled: fit it to a table in memory"
            )
        inputs.check_progress(progress)
        started = time.perf_counter()
        context = Context(
            old.training.data, old.choice.engine, [], jobs=self.n_jobs, report=progress, policies=self.policies,
            noise=None if self.noise is None else float(self.noise) / old.units.y_scale**2,
        )  # fmt: skip
        learned = distil(old.as_fit(), context, self.max_iterations, time_budget)
        seconds = time.perf_counter() - started
        found = make_fitted(learned, old.training, old.choice, old.origin)
        if not math.isfinite(found.scores.leave_one_out):  # engines that are not exact work it out when asked
            left = found.winner.posterior.left_out_score() - found.training.log_scale
            found = replace(found, scores=replace(found.scores, leave_one_out=left))
        scores = [(each.log_evidence, each.leave_one_out, each.parameters) for each in (old.scores, found.scores)]
        source = list_names([network_phrase(network) for network in find_all(old.kernel, Network)])
        text = structure(found.kernel).text()  # fitting the new model to other data fits this structure
        options = {**self.get_params(deep=False), "kernel": text}
        notes = (distilled_note(seconds, *scores), *learned.notes)
        found = replace(found, origin=Origin(options, source), notes=notes, seconds=seconds)
        return inputs.restore(type(self), options, found)

    def explain(self) -> Explanation:
        """Return what was learned as plain data and words: `print` it, or see `to_json`."""
        check_is_fitted(self)
        return explain(self.fitted_)

    @property
    def change_(self) -> Change | None:
        """Where behaviour changes: regimes, crossings with intervals, shares at rows; None without a change surface."""
        check_is_fitted(self)
        found = change_in(self.fitted_)
        return None if found is None else replace(found, encode=self._rows)

    # ----------------------------------------------------------------------------------------------- other libraries

    def to_sklearn(self, fitted: bool = True, member: str | None = None) -> Any:
        """Return the model as a fitted GaussianProcessRegressor of scikit-learn; `fitted=False`: its kernel and noise.

        Of an average of kernels only `member="best"` can be had: the best of them, alone.
        """
        from mercer.interop.targets import to_sklearn

        check_is_fitted(self)
        return to_sklearn(self.fitted_, fitted, member)

    def to_gpytorch(self, member: str | None = None) -> Any:
        """Return the model as a GPyTorch ExactGP in eval mode, in float64 and the units of the data.

        `model(x)` is the function, `model.likelihood(model(x))` a new observation. Of an average of kernels only
        `member="best"` can be had: the best of them, alone.
        """
        from mercer.interop.targets import to_gpytorch

        check_is_fitted(self)
        return to_gpytorch(self.fitted_, member)

    def to_botorch(self) -> Any:
        """Return the model as a BoTorch model: `posterior(X)` over batches of rows in the units of the data.

        Of an average of kernels the posterior is the Gaussian with the mean and covariance of the mixture.
        """
        from mercer.interop.targets import to_botorch

        check_is_fitted(self)
        return to_botorch(self.fitted_)

    def to_onnx(self, path: str | Path) -> None:
        """Write the model to an ONNX file that computes `mean`, `std` and `std_of_function` from rows `X` (float64)."""
        from mercer.interop.targets import to_onnx

        check_is_fitted(self)
        to_onnx(self.fitted_, path)

    def plot(self, width: int = 900) -> Any:
        """Draw the fit and return its Matplotlib axes.

        With one input: data, mean and the band that holds 95 % of new observations, in one `Axes`. With several: an
        array of them, rows left out against their predictions first, then the effect of each input with the others
        at their median or most common category.
        """
        from mercer.report.notebook import plot_fit

        check_is_fitted(self)
        return plot_fit(self.fitted_, width)

    def plot_components(self, width: int = 900) -> Array:
        """Draw every component with its 95 % band and return an array of Matplotlib axes, one for each."""
        from mercer.report.notebook import plot_components

        check_is_fitted(self)
        return plot_components(self.fitted_, width)

    def report(self, path: str | Path) -> None:
        """Write the explanation with its pictures to one HTML file that needs nothing else."""
        check_is_fitted(self)
        write_report(self.fitted_, path)
