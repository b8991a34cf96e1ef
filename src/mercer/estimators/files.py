"""Model files: a zip archive of one JSON text and raw NumPy arrays. Reading one can never run code."""

from __future__ import annotations

import io
import json
import math
import zipfile
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from mercer.errors import InputError, MercerError, ModelFileError, TooLargeError
from mercer.estimators.kernels import (
    candidates_from_plain,
    candidates_to_plain,
    expression_or_learner,
    from_plain,
    to_plain,
)
from mercer.estimators.learning import chosen_engine
from mercer.estimators.stream_files import (
    Forgotten,
    moved_posteriors,
    points_moved,
    points_to_plain,
    posteriors_of,
    stream_to_plain,
    streamed_choice,
)  # fmt: skip
from mercer.inference.choose import Choice, choose, engine_from_plain, engine_to_plain, name_to_keep
from mercer.inference.contract import Posterior
from mercer.inference.exact import Exact
from mercer.inference.vfe import VFE
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import bind
from mercer.kernels.text import from_json, to_json
from mercer.kernels.units import Units, to_data_units, to_scaled_units
from mercer.learners.contract import Stopped, Weights

if TYPE_CHECKING:
    from mercer.estimators.mixture import Member
    from mercer.estimators.regressor import GPRegressor

FORMAT = "mercer-model"
VERSION = 2  # learned from a stream, or with inducing points that moved; other models are of version 1
SCORES = ("noise_", "log_evidence_", "bic_", "loo_", "jitter_")


def save(model: GPRegressor, path: str | Path) -> None:
    """Write a fitted model."""
    matrix, target = model._train
    document = {
        "format": FORMAT,
        "version": 1 if model._source is None and not points_moved(model) else VERSION,
        "options": _options(model),
        "kernel": to_json(model.kernel_),
        "members": [_member(member, model._units) for member in model._mixture.members],
        "time_column": model._mixture.column,
        "tails_beyond": model._mixture.tails_beyond,
        "scores": {name: getattr(model, name) for name in SCORES},
        "parameters": model.n_parameters_,
        "status": model.status_,
        "message": model.message_,
        "stopped": model.stopped_,
        "units": {"shift": model._units.shift, "scale": model._units.scale, "y_scale": model._units.y_scale},
        "level": model._level,
        "features": [str(n) for n in model.feature_names_in_] if hasattr(model, "feature_names_in_") else None,
        "n_features": model.n_features_in_,
        "encoding": model.encoding_.to_json() if model.encoding_ is not None else None,
        "target": getattr(model, "target_name_", None),
        "notes": list(getattr(model, "notes_", ())),
        "engine": name_to_keep(model.inference_.engine),
        "distilled_from": getattr(model, "distilled_from_", None),
        "fit_seconds": getattr(model, "fit_seconds_", None),
        "candidates": candidates_to_plain(model.candidates_),
    }
    arrays = {"X.npy": matrix, "y.npy": target}
    if model._source is not None:
        document["stream"], more = stream_to_plain(model)
        arrays |= more
    elif points_moved(model):
        document["moved"], more = True, points_to_plain(model)
        arrays |= more
    write_archive(document, arrays, path)


def write_archive(document: dict[str, Any], arrays: dict[str, Array], path: str | Path) -> None:
    """Write the JSON text and the arrays of a model."""
    buffer = io.BytesIO()
    target_path = Path(path).resolve()
    unfinished = target_path.with_name(target_path.name + ".part")
    try:
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("model.json", json.dumps(document, indent=1))
            for name, array in arrays.items():
                archive.writestr(name, _array_bytes(array))
        unfinished.write_bytes(buffer.getvalue())
        unfinished.replace(target_path)  # an older file stays whole until the new one is
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise InputError(
            f"cannot write the model to '{target_path}': {error.strerror or error}; choose a folder that can be written"
        ) from None


def _array_bytes(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _options(model: GPRegressor) -> dict[str, Any]:
    options = model.get_params(deep=False)
    options["kernel"] = to_plain(model.kernel)
    options["inference"] = engine_to_plain(model.inference)
    if not isinstance(model.random_state, Integral):
        options["random_state"] = None
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}


def load(path: str | Path) -> Any:
    """Read a model file written by `GPRegressor.save`, `GridRegressor.save` or `KernelSVC.save`; returns the model."""
    file = Path(path)
    document, arrays = _read(file)
    if document.get("format") != FORMAT:
        raise ModelFileError(f"'{file}' is not a Mercer model file")
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise ModelFileError(f"'{file}' is damaged: its version is {version!r:.20}; save the model again")
    if version > VERSION:
        raise ModelFileError(
            f"'{file}' was written by a newer Mercer (version {version}, this one reads up to {VERSION}): update it"
        )
    try:
        if document.get("kind") == "grid":
            from mercer.estimators.grid_files import rebuilt

            return rebuilt(document, arrays["X.npy"], arrays["y.npy"])
        if document.get("task") == "classification":
            from mercer.estimators.class_files import rebuilt as classifier

            return classifier(document, arrays["X.npy"], arrays["y.npy"])
        return _rebuilt(document, arrays)
    except TooLargeError as error:
        raise ModelFileError(f"'{file}' cannot be used on this machine: {error}") from None
    except MercerError as error:
        raise ModelFileError(f"'{file}' is damaged: {error}") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ModelFileError(f"'{file}' is damaged: {type(error).__name__}: {error}") from None


def _read(file: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    try:
        with zipfile.ZipFile(file) as archive:
            document = json.loads(archive.read("model.json"))
            arrays = {
                name: np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
                for name in archive.namelist()
                if name.endswith(".npy")
            }
            arrays["X.npy"], arrays["y.npy"]  # must be there
    except FileNotFoundError:
        raise ModelFileError(f"there is no file '{file}'") from None
    except IsADirectoryError:
        raise ModelFileError(f"'{file}' is a folder, not a model file") from None
    except PermissionError:
        raise ModelFileError(f"'{file}' cannot be read: permission denied") from None
    except zipfile.BadZipFile:
        raise ModelFileError(f"'{file}' is not a Mercer model file, or it is damaged; save the model again") from None
    except Exception as error:  # a damaged archive can fail in many ways, none of which may reach the user as a crash
        raise ModelFileError(f"'{file}' is damaged ({type(error).__name__}: {error}); save the model again") from None
    if not isinstance(document, dict):
        raise ModelFileError(f"'{file}' is not a Mercer model file")
    return document, arrays


def _rebuilt(document: dict[str, Any], arrays: dict[str, Array]) -> GPRegressor:
    from mercer.estimators.regressor import GPRegressor

    matrix, target = arrays["X.npy"], arrays["y.npy"]
    options = dict(document["options"])
    known = set(GPRegressor().get_params())
    options["kernel"] = from_plain(options["kernel"])
    options["inference"] = engine_from_plain(options.get("inference", "auto"))
    model = GPRegressor(**{name: value for name, value in options.items() if name in known})
    model._train, model._source = checked_arrays(matrix, target), None
    restore_columns(model, document)
    model._units = read_units(document["units"], matrix.shape[1])
    model._level = finite(document["level"])
    for name in SCORES:
        setattr(model, name, float(document["scores"][name]))
    model.n_parameters_ = int(document["parameters"])
    model.status_, model.message_ = str(document["status"]), str(document["message"])
    stopped = document.get("stopped", "")
    model.stopped_ = stopped if stopped in get_args(Stopped) else ""
    model.target_name_ = None if document.get("target") is None else str(document["target"])
    if document.get("fit_seconds") is not None:
        model.fit_seconds_ = finite(document["fit_seconds"])
    model.notes_ = tuple(str(note) for note in document.get("notes", ()))
    source = document.get("distilled_from")
    model.distilled_from_ = None if source is None else str(source)
    model.kernel_ = _kernel(document["kernel"], matrix.shape[1])
    given = isinstance(expression_or_learner(model.kernel), Expression) or document.get("engine") == "grid"
    by_itself = document.get("engine") == "exact"  # also on a GPU, which may not be here
    structure = model.kernel_ if given else None
    model.inference_ = choose(len(target), Exact()) if by_itself else chosen_engine(model, structure)
    model.candidates_ = candidates_from_plain(document.get("candidates", []), matrix.shape[1])
    kernels, weights = _members(document["members"], model._units)
    column = document["time_column"]
    if column is not None and (isinstance(column, bool) or column not in range(matrix.shape[1])):
        raise InputError("its column of time is not there")
    posteriors: list[Posterior] = []
    if document.get("stream") is not None:
        model._source, model.inference_ = Forgotten(int(document["stream"]["count"])), streamed_choice(model)
        posteriors = posteriors_of(document["stream"], arrays, kernels, model._scaled_data())
    elif document.get("moved") is True:
        if not model.inference_.engine.is_bound:  # there was less memory where it was learned
            model.inference_ = Choice(VFE(), "sparse variational inference, as where the model was learned")
        posteriors = moved_posteriors(arrays, kernels, model._scaled_data())
    tails = float(document.get("tails_beyond", 0.0))
    if not 0.0 <= tails < 0.5:
        raise InputError("the tails of its forecasts are not what they should be")
    model._prepare(kernels, Weights(weights[0], weights[1], weights[2], column, tails), posteriors)
    return model


def restore_columns(model: GPRegressor, document: dict[str, Any]) -> None:
    """Give a model the columns of its table back."""
    model.n_features_in_ = int(document["n_features"])
    if document["features"] is not None:
        model.feature_names_in_ = np.array([str(n) for n in document["features"]], dtype=object)
    model.encoding_ = None
    if document["encoding"] is not None:
        from mercer.tables import Encoding

        model.encoding_ = Encoding.from_json(document["encoding"])
    columns = model.n_features_in_ if model.encoding_ is None else len(model.encoding_.names)
    features = model.n_features_in_ if document["features"] is None else len(model.feature_names_in_)
    if columns != model._train[0].shape[1] or features != model.n_features_in_:
        raise InputError("its columns do not fit its data")


def read_units(entry: dict[str, Any], columns: int) -> Units:
    """Read units back, checking them."""
    shift, scale = (tuple(finite(v) for v in entry[name]) for name in ("shift", "scale"))
    y_scale = finite(entry["y_scale"])
    if len(shift) != columns or len(scale) != columns or min(*scale, y_scale) <= 0:
        raise InputError("its units do not fit its data")
    return Units(shift, scale, y_scale)


def checked_arrays(matrix: Array, target: Array) -> tuple[Array, Array]:
    """Return the training rows of a file if they can be such."""
    fits = matrix.ndim == 2 and target.shape == (len(matrix),) and matrix.dtype == target.dtype == np.float64
    if not fits or not np.isfinite(matrix).all() or not np.isfinite(target).all():
        raise InputError("its arrays are not what they should be")
    return matrix, target


def _kernel(data: Any, columns: int) -> Expression:
    return bind(from_json(data), columns)


def _member(member: Member, units: Units) -> dict[str, Any]:
    kernel = to_json(to_data_units(member.kernel, units))
    weights = [member.within, member.beyond, member.widening]
    return {"kernel": kernel, "noise": member.noise * units.y_scale**2, "weights": weights}


def _members(
    entries: list[dict[str, Any]], units: Units
) -> tuple[list[tuple[Expression, float]], list[tuple[float, ...]]]:
    kernels = [
        (to_scaled_units(_kernel(entry["kernel"], len(units.shift)), units), finite(entry["noise"]) / units.y_scale**2)
        for entry in entries
    ]
    within, beyond, widening = (tuple(finite(entry["weights"][k]) for entry in entries) for k in (0, 1, 2))
    if not kernels or any(min(w) < 0 or abs(sum(w) - 1.0) > 1e-6 for w in (within, beyond)):
        raise InputError("the weights of its kernels do not add up to one")
    if min(widening) <= 0:
        raise InputError("the factors by which its bands are widened are not greater than zero")
    return kernels, [within, beyond, widening]


def finite(value: Any) -> float:
    """Return a number of a file if it is one."""
    number = float(value)
    if not math.isfinite(number):
        raise InputError(f"it holds the number {number}")
    return number
