"""`GridRegressor`: a Gaussian process over an n-dimensional array with missing cells."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mercer.compute.program import compile_program
from mercer.compute.separate import separate
from mercer.errors import DataWarning, FitWarning, InputError, KernelError, NumericalError
from mercer.estimators.inputs import Estimator, Shown, ShownFit, check_progress, read_fit_options
from mercer.fitting.grid import GridFitPolicy, fit_grid
from mercer.inference.choose import Choice
from mercer.kernels.algebra import structure
from mercer.kernels.categories import check_codes
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression, Product, product_of
from mercer.kernels.network import time_series_network
from mercer.kernels.parameters import bind, to_data_units, to_scaled_units
from mercer.kernels.text import parse
from mercer.learners.contract import Learner
from mercer.learners.criteria import bic
from mercer.learners.nkn import NeuralKernelNetwork
from mercer.model.fitted import LEARNERS
from mercer.model.grid import FittedGrid, GridInput, GridScale, by_axis, condition, grid_engine, read_axes, read_grid


class GridRegressor(ShownFit, Estimator, BaseEstimator):
    """A Gaussian process over the cells of an array, NaN where a cell is missing: fills holes, extends the edges.

    The kernel is a product of one kernel for each axis, which lets the work grow as N sum(n_d) for N cells with n_d
    along axis d, and not as N^3.

    Parameters
    ----------
    kernel : str or Expression, or a list or dict of them, or a NeuralKernelNetwork
        One kernel for all axes (without dimensions: "SM6", "SE*PER + LIN", "nkn" for a network on each axis), a list
        with one for each axis, a dict by axis name or number (axes not named get "SE"), or a whole kernel with
        dimensions that is such a product ("SE(0)*PER(1)"). A `mercer.NeuralKernelNetwork` puts its network on each
        axis and brings its own `restarts`, `max_iterations` and `priors`; the best start is kept, none are averaged.
    noise : float or None
        A known noise variance, or None to fit it.
    restarts : int
        How many starting points are tried.
    max_iterations : int
        Quasi-Newton steps with all cells.
    device : str
        "cpu" or "cuda".
    random_state : int, RandomState or None
        Seed of the starts.

    Attributes
    ----------
    kernel_, kernels_ : the fitted kernel and its factors, one for each axis, in the units of the coordinates.
    noise_ : float, the noise variance in squared units of the values.
    log_evidence_, bic_ : float, log p(values) and BIC; `evidence_is_` says "exact" or by which approximation.
    residual_ : float, what conjugate gradients left over, relative (0 where the answer is exact).
    status_, message_, notes_, fit_seconds_ : how the fit ended and why, remarks, how long it took.
    stopped_ : "request" where Ctrl-C ended the fit early, else "".
    inference_ : Choice, the engine and the reason for it.
    coordinates_, axis_names_, shape_, n_missing_ : what was learned from.
    """

    def __init__(
        self,
        kernel: Any = "SM6",
        *,
        noise: float | None = None,
        restarts: int = 3,
        max_iterations: int = 60,
        device: str = "cpu",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.noise = noise
        self.restarts = restarts
        self.max_iterations = max_iterations
        self.device = device
        self.random_state = random_state

    # ------------------------------------------------------------------------------------------------------- fitting

    fitted_: FittedGrid
    shown_by = "fitted_grid_to_html"
    kernels_ = Shown(lambda fitted: _factors(fitted.kernel, fitted.grid.values.ndim))
    log_evidence_ = Shown(lambda fitted: fitted.log_evidence)
    bic_ = Shown(lambda fitted: fitted.bic)
    n_parameters_ = Shown(lambda fitted: fitted.parameters)
    evidence_is_ = Shown(lambda fitted: fitted.evidence_is)
    stopped_ = Shown(lambda fitted: "request" if fitted.status == "interrupted" else "")
    residual_ = Shown(lambda fitted: fitted.posterior.solved.completed.residual)
    coordinates_ = Shown(lambda fitted: fitted.grid.coordinates)
    axis_names_ = Shown(lambda fitted: fitted.grid.names)
    shape_ = Shown(lambda fitted: fitted.grid.values.shape)
    n_missing_ = Shown(lambda fitted: int(np.isnan(fitted.grid.values).sum()))
    _template: Any = None  # the DataArray that was learned from: results are dressed like it

    def fit(self, array: Any, coordinates: Any = None, progress: Any = None) -> GridRegressor:
        """Fit the kernel to an array (numpy, nested lists, masked, xarray), NaN where a cell is missing.

        `coordinates`: one vector for each axis, or a dict by name; without them 0, 1, 2, ... or those of the DataArray.
        `progress(state)` is called with a `mercer.fitting.minimise.Progress` after each step; `progress=True` shows a
        bar, in a notebook too.
        """
        if progress is True:
            from mercer.report.progress import fit_with_bar  # brings rich

            model: GridRegressor = fit_with_bar(self.fit, array, coordinates)
            return model
        started = time.perf_counter()
        check_progress(progress)
        grid = read_grid(array, coordinates)
        self._template = array if grid.names is not None else None
        scale = GridScale.learn(grid)
        data = scale.data(grid)
        lattice = data.lattice
        assert lattice is not None
        notes = _find_empty_slices(grid.values.shape, lattice.shape)
        for note in notes:
            warnings.warn(note, DataWarning, stacklevel=2)
        axes = [d for d, n in enumerate(lattice.shape) if n > 1]
        learner = self._read_learner()
        whole = _whole_kernel(self.kernel, grid, axes) if learner is None else _network(learner, grid, axes)
        if separate(compile_program(structure(whole)), grid.values.ndim) is None:
            raise KernelError(
                f"{whole.text(digits=4)} is not a product of one kernel for each axis: give one kernel for all axes, a "
                "list with one for each, or a product such as SE(0)*PER(1). Sums over axes and change surfaces: "
                "GPRegressor(kernel, inference=mercer.Grid()), with one row for each cell"
            )
        engine, options = grid_engine(self.device), read_fit_options(self, scale.units, zero_noise=False)
        if learner is not None:
            own = {"restarts": learner.restarts, "max_iterations": learner.iterations}
            options = replace(options, **own, priors=learner.priors is not None)
        bound = to_scaled_units(whole, scale.units)
        result, chosen = fit_grid(bound, data, engine, options, progress, self._policy(GridFitPolicy))
        if result.status == "failed":
            raise NumericalError(f"the fit failed: {result.message}; try another kernel or a larger noise")
        if result.status == "interrupted":
            warnings.warn(f"the fit was interrupted: {result.message}", FitWarning, stacklevel=2)
        shape = " x ".join(f"{n:,}" for n in lattice.shape)
        missing = f"{len(lattice.holes):,} of them missing" if len(lattice.holes) else "none of them missing: exact"
        log_evidence = result.log_evidence - data.count * math.log(scale.units.y_scale)
        posterior = condition(engine, result.expression, result.noise, data)
        few = engine.leaves_to_exact(data) and lattice.mostly_holes
        exact = few or posterior.whole.cells.exact_within(engine.exact_work)
        self.fitted_ = FittedGrid(
            grid=grid,
            scale=scale,
            choice=Choice(engine, f"grid inference: {lattice.size:,} cells ({shape}), {missing}"),
            kernel=to_data_units(result.expression, scale.units),
            noise=result.noise * scale.units.y_scale**2,
            scaled_kernel=result.expression,
            scaled_noise=result.noise,
            posterior=posterior,
            log_evidence=log_evidence,
            bic=bic(log_evidence, result.parameters, data.count),
            evidence_is="exact" if exact else "eigenvalues",
            parameters=result.parameters,
            status=result.status,
            message=result.message,
            options=self.get_params(deep=False),
            notes=(*notes, chosen) if chosen else notes,
            seconds=time.perf_counter() - started,
        )
        return self

    def _read_learner(self) -> NeuralKernelNetwork | None:
        """Return the learner of the kernel, if it is one that grids have, its settings checked."""
        learner = self.kernel
        if isinstance(learner, str) and learner in LEARNERS and learner != "nkn":
            learner = LEARNERS[learner]()
        if not isinstance(learner, Learner):
            return None
        name = type(learner).__name__
        if not isinstance(learner, NeuralKernelNetwork):
            raise KernelError(
                f"{name} does not learn on grids: give a kernel, 'nkn' or a mercer.NeuralKernelNetwork; or use "
                "GPRegressor, with one row for each cell"
            )
        learner.check()
        for setting, parameter in signature(GridRegressor).parameters.items():
            value = getattr(self, setting)
            if setting in ("restarts", "max_iterations") and value != parameter.default:
                own = f"kernel=mercer.{name}({setting}={value!r})"
                raise InputError(f"{setting} is for kernels that are given, and here {name} learns; give {own}")
        if learner.optimiser != "lbfgs" or learner.n_jobs not in (None, 1):
            raise InputError(f"on a grid {name} has optimiser='lbfgs' and one job; leave both at their defaults")
        return learner

    # ---------------------------------------------------------------------------------------------------- predicting

    def predict(self, coordinates: Any = None, return_std: bool = False, include_noise: bool = True) -> Any:
        """Return the mean on the grid, or on another one beside or beyond it, and with `return_std` its spread.

        `coordinates`: one vector for each axis, or a dict by name for the axes that differ. The standard deviation
        includes the noise, as a band for new observations must; `include_noise=False` leaves it out.
        """
        check_is_fitted(self)
        axes = self.coordinates_
        if isinstance(coordinates, Mapping):  # the others stay
            known = self.axis_names_ or range(len(axes))
            coordinates = {**dict(zip(known, axes, strict=True)), **coordinates}
        if coordinates is not None:
            axes = read_axes(coordinates, None, self.axis_names_, axes=len(self.shape_))
        mean = self._dress(self.fitted_.predict(axes), axes)
        return (mean, self._dress(self.fitted_.spread(axes, include_noise), axes)) if return_std else mean

    def fill(self, array: Any = None, return_std: bool = False, include_noise: bool = True) -> Any:
        """Return the array with its missing cells filled in, and with `return_std` their standard deviations (else 0).

        With another `array` of the same shape (another channel of an image, another day) that one is filled, by the
        kernel that was fitted.
        """
        check_is_fitted(self)
        grid = self.fitted_.grid
        if array is not None:
            if np.shape(array) != self.shape_:
                raise InputError(f"the model is for arrays of shape {self.shape_}, this one has {np.shape(array)}")
            grid = read_grid(array, self.coordinates_)
        filled, std = self.fitted_.fill(grid, return_std, include_noise)
        dressed = self._dress(filled, self.coordinates_)
        return (dressed, self._dress(std, self.coordinates_)) if return_std else dressed

    def _dress(self, values: Array, axes: tuple[Array, ...]) -> Any:
        """Return a DataArray where one was given, its coordinates kept where they are the same."""
        if self._template is None:
            return values
        if axes is self.coordinates_:
            return self._template.copy(data=values)
        import xarray

        coords: dict[str, Any] = dict(zip(self.axis_names_ or (), axes, strict=True))
        for name, axis in coords.items():  # dates where it has dates
            old = self._template.coords.get(name)
            if old is not None and old.dtype.kind == "M":
                coords[name] = np.datetime64("1970-01-01", "ns") + np.round(axis * 86400e9).astype("timedelta64[ns]")
        return xarray.DataArray(values, dims=self.axis_names_, coords=coords, name=self._template.name)


def _find_empty_slices(given: tuple[int, ...], used: tuple[int, ...]) -> tuple[str, ...]:
    """Return a note where whole slices of the grid hold no value; along a single axis every hole is one."""
    gone = [f"{n - m} along axis {d}" for d, (n, m) in enumerate(zip(given, used, strict=True)) if n > m]
    if not gone or sum(n > 1 for n in used) <= 1:
        return ()
    return (f"whole slices of the grid hold no value ({', '.join(gone)}); they are predicted all the same",)


def _network(learner: NeuralKernelNetwork, grid: GridInput, axes: Sequence[int]) -> Expression:
    """Return the product of a learner's network on each axis."""
    count, names = grid.values.ndim, None if grid.names is None else list(grid.names)
    return product_of([_on_axis(learner.network([d], count, names), d) for d in axes])


def _on_axis(kernel: Expression, axis: int) -> Expression:
    """Return a bound kernel, or refuse one that looks at other axes."""
    strange = [leaf for leaf in kernel.leaves() if leaf.dims not in (None, (axis,))]
    if strange:
        raise KernelError(
            f"the kernel of axis {axis} acts on other axes, {strange[0].text(digits=4)}: give it without dimensions, "
            "as in 'SE'"
        )
    return kernel


def _whole_kernel(kernel: Any, grid: GridInput, axes: Sequence[int]) -> Expression:
    """Return the product over the axes of what the user gave."""
    count, names = grid.values.ndim, grid.names
    if isinstance(kernel, Mapping):
        parts = by_axis(kernel, names or range(count), "SE", KernelError)
    elif isinstance(kernel, list | tuple):
        parts = list(kernel)
        if len(parts) != count:
            raise KernelError(f"{len(parts)} kernels were given for {count} axes: give one for each, or one for all")
    else:
        single = _expression(kernel)
        if any(leaf.dims is not None for leaf in single.leaves()):
            return _without_codes(bind(single, count, names), names or list(map(str, range(count))))
        parts = [single] * count
    bound = [_on_axis(bind(_expression(parts[d]), count, names, default=[d]), d) for d in axes]
    return _without_codes(product_of(bound), names or list(map(str, range(count))))


def _without_codes(bound: Expression, names: Sequence[str]) -> Expression:
    """Return the kernel; one with a number for each category is refused, as the places along an axis are no codes."""
    check_codes(
        bound, {}, names or [str(c) for c in range(1 + max(c for leaf in bound.leaves() for c in leaf.columns))]
    )
    return bound


def _expression(kernel: Any) -> Expression:
    if isinstance(kernel, str):
        return time_series_network() if kernel == "nkn" else parse(kernel)
    if isinstance(kernel, Expression):
        return kernel
    raise KernelError(
        f"the kernel of an axis is a text such as 'SE*PER + LIN', an expression, or 'nkn', not {kernel!r:.60}"
    )


def _factors(kernel: Expression, count: int) -> tuple[Expression | None, ...]:
    """Return the factors of a product by axis; None for an axis that has none of its own."""
    parts = kernel.factors if isinstance(kernel, Product) else (kernel,)
    found: list[list[Expression]] = [[] for _ in range(count)]
    for part in parts:
        columns = {d for leaf in part.leaves() for d in leaf.dims or ()}
        place = next((d for d in columns if isinstance(d, int)), 0) if len(columns) <= 1 else None
        if place is not None:
            found[place].append(part)
    return tuple(product_of(group) if group else None for group in found)
