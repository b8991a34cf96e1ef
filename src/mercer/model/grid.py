"""Arrays with coordinates, checked or refused with the first offending cell, and `FittedGrid`: what was fitted to one.

A `FittedGrid` is to `GridRegressor` what a `Fitted` is to `GPRegressor`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from mercer.compute.program import compile_program
from mercer.errors import InputError, TooLargeError
from mercer.inference.choose import Choice
from mercer.inference.contract import Data, Engine
from mercer.inference.grid import Grid, GridPolicy
from mercer.inference.likelihood import Gaussian
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import Units, values_of
from mercer.model.fitted import let_overflow

if TYPE_CHECKING:
    from mercer.inference.grid_product import GridPosterior  # it loads PyTorch

EVIDENCE_TOLERANCE = 1e-3  # of conjugate gradients, relative
EVIDENCE_STEPS = 600  # of them: a large hole and little noise take 400, and an early end gives wrong slopes
EXACT_CELLS = 1000  # seen, where most are missing: exact inference then takes a tenth of a second for an evaluation
LONGEST = 5000  # cells along one axis: its eigenvectors take a quarter of a minute


@dataclass(frozen=True, eq=False)
class GridInput:
    """Values with NaN for missing cells, the coordinates along each axis, and the axes' names where they have some."""

    values: Array
    coordinates: tuple[Array, ...]
    names: tuple[str, ...] | None = None

    @property
    def seen(self) -> Array:
        """The values that are not missing."""
        return self.values[~np.isnan(self.values)]


@dataclass(frozen=True, eq=False)
class GridScale:
    """How coordinates and values are scaled to unit spread; `level` is taken out of the values first."""

    units: Units
    level: float

    @classmethod
    def learn(cls, grid: GridInput) -> GridScale:
        """Return the scaling that suits a grid."""
        shift = tuple(float(axis.mean()) for axis in grid.coordinates)
        scale = tuple(float(axis.std()) if len(axis) > 1 else 1.0 for axis in grid.coordinates)
        return cls(Units(shift, scale, float(grid.seen.std())).with_squares(), float(grid.seen.mean()))

    def axes(self, coordinates: Sequence[Array]) -> list[Array]:
        """Return the coordinates of all axes in scaled units."""
        units = self.units
        return [(axis - units.shift[d]) / units.scale[d] for d, axis in enumerate(coordinates)]

    def data(self, grid: GridInput) -> Data:
        """Return the cells that hold a value as rows, scaled."""
        places = np.nonzero(~np.isnan(grid.values))
        columns = [axis[place] for axis, place in zip(self.axes(grid.coordinates), places, strict=True)]
        return Data(np.stack(columns, axis=1), (grid.values[places] - self.level) / self.units.y_scale, free_level=True)

    def values(self, mean: Array) -> Array:
        """Return scaled values in the units of the data."""
        return self.level + self.units.y_scale * mean


@dataclass(frozen=True, eq=False)
class FittedGrid:
    """A kernel fitted to an array; `scaled_kernel`, `scaled_noise` and `posterior` are in scaled units."""

    grid: GridInput
    scale: GridScale
    choice: Choice  # of the engine, with its reason
    kernel: Expression
    noise: float
    scaled_kernel: Expression
    scaled_noise: float
    posterior: GridPosterior
    log_evidence: float
    bic: float
    evidence_is: str  # "exact", or by what its log-determinant was approximated
    parameters: int
    status: str
    message: str
    options: Mapping[str, Any]  # the estimator's parameters, as the user gave them
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    def predict(self, coordinates: Sequence[Array]) -> Array:
        """Return the mean at all pairs of coordinates."""
        with let_overflow():
            mean = self.scale.values(self.posterior.mean_on(self.scale.axes(coordinates)))
        return self._check_defined(mean, coordinates)

    def spread(self, coordinates: Sequence[Array], include_noise: bool) -> Array:
        """Return the standard deviation there."""
        with let_overflow():
            variance = self.posterior.variance_on(self.scale.axes(coordinates))
            std = self._std(variance, include_noise, self.scale.units.y_scale)
        return self._check_defined(std, coordinates)

    def _check_defined(self, found: Array, coordinates: Sequence[Array]) -> Array:
        """Return what was found, refusing coordinates that lie so far from the grid that it is no number."""
        undefined = ~np.isfinite(found)
        if undefined.any():
            place = np.argwhere(undefined)[0]
            at = ", ".join(f"{axis[i]:g}" for axis, i in zip(coordinates, place, strict=True))
            raise InputError(
                f"the prediction at {at} is no number, and so in {int(undefined.sum())} of {found.size} cells: it lies "
                "too far from the grid. Leave such coordinates out, or correct them"
            )
        return found

    def fill(self, grid: GridInput, with_spread: bool, include_noise: bool) -> tuple[Array, Array]:
        """Return a grid of the same shape with its missing cells filled in, and their standard deviations (else 0)."""
        scale, posterior = self.scale, self.posterior
        if grid is not self.grid:
            units = replace(scale.units, y_scale=float(grid.seen.std()))
            scale = GridScale(units, float(grid.seen.mean()))
            posterior = condition(self.choice.engine, self.scaled_kernel, self.scaled_noise, scale.data(grid))
        with let_overflow():
            return self._fill(grid, scale, posterior, with_spread, include_noise)

    def _fill(
        self, grid: GridInput, scale: GridScale, posterior: GridPosterior, with_spread: bool, include_noise: bool
    ) -> tuple[Array, Array]:
        missing, filled, std = np.isnan(grid.values), grid.values.copy(), np.zeros(grid.values.shape)
        if not missing.any():
            return filled, std
        inside, inner = scale.axes(grid.coordinates), posterior.problem.lattice
        filled[missing] = scale.values(posterior.mean_on(inside)[missing])
        if with_spread and inner.shape == missing.shape:  # no slice is empty: by the engine's own way
            found = np.zeros(inner.size)
            found[inner.holes] = posterior.at_holes().variance
            back = np.ix_(*(np.argsort(np.argsort(axis)) for axis in inside))  # of falling coordinates
            variance = found.reshape(inner.shape)[back]
        elif with_spread:
            variance = posterior.variance_on(inside)
        if with_spread:
            std[missing] = self._std(variance[missing], include_noise, scale.units.y_scale)
        return self._check_defined(filled, grid.coordinates), self._check_defined(std, grid.coordinates)

    def _std(self, variance: Array, include_noise: bool, y_scale: float) -> Array:
        return np.asarray(y_scale * np.sqrt(variance + (self.scaled_noise if include_noise else 0.0)))


def grid_engine(device: str) -> Grid:
    """Return the engine for arrays, which are grids however few of their cells hold a value."""
    policy = GridPolicy(cells_per_row=math.inf)
    return Grid(
        tolerance=EVIDENCE_TOLERANCE,
        device=device,
        most_steps=EVIDENCE_STEPS,
        policy=policy,
        exact_cells=EXACT_CELLS,
    )


def condition(engine: Engine, kernel: Expression, noise: float, data: Data) -> GridPosterior:
    """Return the posterior of a product kernel (scaled units) on a grid, however many cells are missing."""
    on_grid = replace(cast(Grid, engine), exact_cells=0)
    posterior = on_grid.posterior(compile_program(kernel), values_of(kernel), Gaussian(noise), data)
    return cast("GridPosterior", posterior)  # of one product: checked before the fit


def by_axis(given: Mapping[Any, Any], grid_axes: Sequence[Any], otherwise: Any, error: type[InputError]) -> list[Any]:
    """Return what a mapping holds for every axis, or what it is otherwise; a name that no axis has is an error."""
    unknown = [name for name in given if name not in grid_axes]
    if unknown:
        raise error(f"there is no axis {unknown[0]!r}; there are {', '.join(map(repr, grid_axes))}")
    return [given.get(name, otherwise) for name in grid_axes]


def read_grid(array: Any, coordinates: Any) -> GridInput:
    """Return what the user gave: an array, nested lists, a masked array or an xarray.DataArray."""
    names = tuple(map(str, array.dims)) if hasattr(array, "dims") and hasattr(array, "coords") else None
    if np.isscalar(array) or array is None:
        raise InputError(f"a grid is an array with at least one axis, such as a matrix; {array!r:.60} was given")
    values = _numbers(array.values if names is not None else array)
    if np.isinf(values).any():
        place = _place(np.argwhere(np.isinf(values))[0])
        raise InputError(f"cell {place} is infinite; give NaN for a missing cell")
    if coordinates is None and names is not None:
        coordinates = {n: array.coords[n].values for n in names if n in array.coords}
    axes = read_axes(coordinates, values.shape, names)
    for d, n in enumerate(values.shape):
        if n > LONGEST:
            raise TooLargeError(
                f"axis {d} has {n:,} cells; at most {LONGEST:,} along one axis can be decomposed. Cut the grid into "
                "pieces, take every second cell, or for a series use GPRegressor with inference=mercer.VFE()"
            )
    seen = values[~np.isnan(values)]
    if len(seen) < 2:
        raise InputError(
            f"{len(seen)} of the {values.size:,} cells hold a value (the others are NaN): at least 2 are needed"
        )
    if np.ptp(seen) == 0:
        raise InputError(f"all {len(seen):,} cells hold the same value ({seen[0]:g}): there is nothing to learn")
    return GridInput(values, axes, names)


def _numbers(array: Any) -> Array:
    if isinstance(array, np.ma.MaskedArray):
        return np.asarray(np.ma.filled(array.astype(np.float64), np.nan))
    if isinstance(array, list | tuple):
        _check_lengths(array)
    if getattr(array, "requires_grad", False) is True:
        raise InputError("the grid is a tensor with gradients, which are not followed: give it with .detach()")
    found = np.asarray(array)
    if found.dtype.kind in "US":  # a list with a text in it: all cells became texts
        found = np.asarray(array, dtype=object)
    if found.dtype.kind in "biuf":
        return found.astype(np.float64)
    if found.dtype.kind == "c":
        raise InputError("the cells hold complex numbers; fill the real and the imaginary part one by one")
    result = np.full(found.shape, np.nan)
    for place in np.ndindex(found.shape):
        cell = found[place]
        try:
            result[place] = np.nan if cell is None else float(cell)
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"cell {_place(place)} holds {cell!r:.40}, which is not a number") from None
    return result


def _check_lengths(nested: Sequence[Any], path: tuple[int, ...] = ()) -> None:
    """Refuse nested lists that are no grid."""
    lengths = [len(part) if isinstance(part, list | tuple | np.ndarray) else None for part in nested]
    for number, part in enumerate(nested):
        here = (*path, number)
        if lengths[number] != lengths[0]:
            old, new = ("is a single number" if n is None else f"has {n} cells" for n in (lengths[0], lengths[number]))
            first = _place((*path, 0))
            raise InputError(
                f"this is not a grid: {_place(here)} {new} and {first} {old}. Every row must have the same "
                "number of cells (NaN where one is missing); for scattered points use GPRegressor"
            )
        if isinstance(part, list | tuple):
            _check_lengths(part, here)


def read_axes(
    coordinates: Any, shape: tuple[int, ...] | None, names: tuple[str, ...] | None, axes: int | None = None
) -> tuple[Array, ...]:
    """Return one increasing or decreasing vector of numbers for each axis; without any: 0, 1, 2, ...

    With `shape` they must fit it. A mapping goes by name; dates become days since 1970.
    """
    count = len(shape) if shape is not None else int(axes or 0)
    if coordinates is None or isinstance(coordinates, Mapping):
        parts = by_axis(coordinates or {}, names or range(count), None, InputError)
    elif np.isscalar(coordinates):
        raise InputError(f"coordinates are one vector for each axis, or a dict by name, not {coordinates!r:.60}")
    else:
        parts = list(coordinates)
    if len(parts) != count:
        raise InputError(f"{len(parts)} coordinate vectors were given for {count} axes: give one for each")
    result = []
    for d, part in enumerate(parts):
        label = f"axis {d}" if names is None else f"axis '{names[d]}'"
        if part is None:
            if shape is None:
                raise InputError(f"the coordinates of {label} are missing")
            result.append(np.arange(float(shape[d])))
            continue
        result.append(_vector(part, label, None if shape is None else shape[d]))
    return tuple(result)


def _vector(part: Any, label: str, cells: int | None) -> Array:
    found = np.asarray(part)
    if found.dtype.kind == "M":
        found = (found - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")
    try:
        vector = found.astype(np.float64)
    except (TypeError, ValueError):
        first = found.flat[0]
        raise InputError(f"the coordinates of {label} must be numbers or dates; the first is {first!r}") from None
    if vector.ndim != 1 or not len(vector) or not np.isfinite(vector).all():
        raise InputError(f"the coordinates of {label} must be a vector of finite numbers, not of shape {found.shape}")
    if cells is not None and len(vector) != cells:
        raise InputError(f"{label} has {cells} cells and {len(vector)} coordinates: they must agree")
    steps = np.diff(vector)
    if len(steps) and not (np.all(steps > 0) or np.all(steps < 0)):
        up = np.sign(steps[np.flatnonzero(steps)[0]]) if np.any(steps) else 1.0
        place = int(np.flatnonzero(np.sign(steps) != up)[0]) + 1
        raise InputError(
            f"this is not a grid: along {label} coordinate {place} ({vector[place]:g}) does not go on from the one "
            f"before ({vector[place - 1]:g}). Coordinates must all rise or all fall; sort them, or use GPRegressor"
        )
    return vector


def _place(index: Sequence[int] | Array) -> str:
    return "(" + ", ".join(str(int(i)) for i in index) + ")"
