"""Model files of `GridRegressor`: the same archive of JSON and arrays (files.py), of the kind "grid"."""

from __future__ import annotations

from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.errors import InputError
from mercer.estimators.files import FORMAT, VERSION, write_archive
from mercer.estimators.grid_inputs import GridInput, as_data, checked_coordinates
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import bind
from mercer.kernels.text import from_json, to_json
from mercer.kernels.units import Units, to_scaled_units

if TYPE_CHECKING:
    from mercer.estimators.grid import GridRegressor

NUMBERS = ("noise_", "log_evidence_", "bic_", "fit_seconds_")


def save(model: GridRegressor, path: str | Path) -> None:
    """Write a fitted model: the array as X.npy, its coordinates one after the other as y.npy."""
    grid = model._grid
    document = {
        "format": FORMAT,
        "version": VERSION,
        "kind": "grid",
        "options": _options(model),
        "kernel": to_json(model.kernel_),
        "numbers": {name: float(getattr(model, name)) for name in NUMBERS},
        "parameters": model.n_parameters_,
        "status": model.status_,
        "message": model.message_,
        "notes": list(model.notes_),
        "units": {"shift": model._units.shift, "scale": model._units.scale, "y_scale": model._units.y_scale},
        "level": model._level,
        "names": None if grid.names is None else list(grid.names),
        "reason": model.inference_.reason,
    }
    write_archive(document, {"X.npy": grid.values, "y.npy": np.concatenate(grid.coordinates)}, path)


def _options(model: GridRegressor) -> dict[str, Any]:
    options = model.get_params(deep=False)
    options["kernel"] = _plain(model.kernel)
    if not isinstance(model.random_state, Integral):
        options["random_state"] = None
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}


def _plain(kernel: Any) -> Any:
    if isinstance(kernel, dict):
        return {"by axis": [[name, _plain(part)] for name, part in kernel.items()]}
    if isinstance(kernel, list | tuple):
        return [_plain(part) for part in kernel]
    return kernel.text() if isinstance(kernel, Expression) else str(kernel)


def _from_plain(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: str(part) for name, part in data["by axis"]}
    return [str(part) for part in data] if isinstance(data, list) else str(data)


def rebuilt(document: dict[str, Any], values: Array, coordinates: Array) -> GridRegressor:
    """Return the model that a file holds, checking what later code relies on."""
    from mercer.estimators.grid import GridRegressor
    from mercer.inference.choose import Choice

    options = dict(document["options"])
    options["kernel"] = _from_plain(options["kernel"])
    known = set(GridRegressor().get_params())
    model = GridRegressor(**{name: value for name, value in options.items() if name in known})
    if values.ndim < 1 or values.dtype != np.float64 or np.isinf(values).any() or np.isnan(values).all():
        raise InputError("its array is not what it should be")
    names = None if document["names"] is None else tuple(str(name) for name in document["names"])
    parts = np.split(coordinates, np.cumsum(values.shape)[:-1])
    model._grid = GridInput(values, checked_coordinates(parts, values.shape, names), names)
    model._template = None
    units = document["units"]
    shift, scale = (tuple(float(v) for v in units[name]) for name in ("shift", "scale"))
    model._units, model._level = Units(shift, scale, float(units["y_scale"])), float(document["level"])
    if len(shift) != values.ndim or len(scale) != values.ndim or min(*scale, model._units.y_scale) <= 0:
        raise InputError("its units do not fit its data")
    for name in NUMBERS:
        setattr(model, name, float(document["numbers"][name]))
    model.n_parameters_ = int(document["parameters"])
    model.status_, model.message_ = str(document["status"]), str(document["message"])
    model.notes_ = tuple(str(note) for note in document["notes"])
    model.kernel_ = bind(from_json(document["kernel"]), values.ndim)
    model.inference_ = Choice(model._engine, str(document["reason"]))
    scaled = to_scaled_units(model.kernel_, model._units)
    model._prepare(scaled, model.noise_ / model._units.y_scale**2, as_data(model._grid, model._units, model._level))
    return model
