"""Model files: a zip archive of one JSON text and raw NumPy arrays. Reading one can never run code."""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from mercer.errors import InputError, MercerError, ModelFileError, TooLargeError
from mercer.estimators.stream_files import (
    Forgotten,
    moved_posteriors,
    points_moved,
    points_to_plain,
    posteriors_of,
    stream_to_plain,
    streamed_choice,
)
from mercer.fitting.optimise import AtBound
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
from mercer.model.fitted import Columns, FitScores, Fitted, Origin, TrainingRows, make_mixture, posteriors
from mercer.model.mixture import Member
from mercer.model.settings import candidates_from_plain, candidates_to_plain, choose_engine, from_plain, to_plain

if TYPE_CHECKING:
    from mercer.estimators.regressor import GPRegressor

FORMAT = "mercer-model"
VERSION = 2  # learned from a stream, or with inducing points that moved; other models are of version 1
SCORES = ("noise_", "log_evidence_", "bic_", "loo_", "jitter_")


def save(fitted: Fitted, path: str | Path) -> None:
    """Write a fitted model."""
    training, mixture, moved = fitted.training, fitted.mixture, points_moved(fitted.choice.engine)
    document = {
        "format": FORMAT,
        "version": 1 if training.source is None and not moved else VERSION,
        "options": _options(fitted.origin.options),
        "kernel": to_json(fitted.kernel),
        "members": [_member(member, training.units) for member in mixture.members],
        "time_column": mixture.column,
        "tails_beyond": mixture.tails_beyond,
        "scores": {
            "noise_": fitted.noise,
            "log_evidence_": fitted.scores.log_evidence,
            "bic_": fitted.scores.bic,
            "loo_": fitted.scores.leave_one_out,
            "jitter_": fitted.scores.jitter,
        },
        "parameters": fitted.scores.parameters,
        "status": fitted.status,
        "message": fitted.message,
        "at_bounds": [list(bound) for bound in fitted.at_bounds],
        "stopped": fitted.stopped,
        "level": training.level,
        **columns_to_plain(training.columns, training.units),
        "target": training.target_name,
        "notes": list(fitted.notes),
        "engine": name_to_keep(fitted.choice.engine),
        "distilled_from": fitted.origin.distilled_from,
        "fit_seconds": fitted.seconds,
        "candidates": candidates_to_plain(fitted.candidates),
    }
    arrays = {"X.npy": training.X, "y.npy": training.y}
    if training.source is not None:
        document["stream"], more = stream_to_plain(fitted)
        arrays |= more
    elif moved:
        document["moved"], more = True, points_to_plain(fitted)
        arrays |= more
    write_archive(document, arrays, path)


def columns_to_plain(columns: Columns, units: Units) -> dict[str, Any]:
    """Return the columns of a table and how they are scaled as JSON data."""
    return {
        "units": {"shift": units.shift, "scale": units.scale, "y_scale": units.y_scale},
        "features": None if columns.features is None else list(columns.features),
        "n_features": columns.count,
        "encoding": None if columns.learned is None else columns.learned.to_json(),
    }


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


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    options = {**given, "kernel": to_plain(given["kernel"]), "inference": engine_to_plain(given["inference"])}
    if not isinstance(given["random_state"], Integral):
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

    matrix, target = checked_arrays(arrays["X.npy"], arrays["y.npy"])
    options = dict(document["options"])
    known = set(GPRegressor().get_params())
    options["kernel"] = from_plain(options["kernel"])
    options["inference"] = engine_from_plain(options.get("inference", "auto"))
    model = GPRegressor(**{name: value for name, value in options.items() if name in known})
    columns = read_columns(document, matrix.shape[1])
    name_columns(model, columns)
    units = read_units(document["units"], matrix.shape[1])
    training = TrainingRows(
        matrix, target, units, finite(document["level"]), columns, text_or_none(document.get("target"))
    )
    scores = {name: float(document["scores"][name]) for name in SCORES}
    stopped = document.get("stopped", "")
    kernel = _kernel(document["kernel"], matrix.shape[1])
    origin = Origin(model.get_params(deep=False), text_or_none(document.get("distilled_from")))
    engine, count = document.get("engine"), len(target)
    structure = kernel if origin.given is not None or engine == "grid" else None
    if engine == "exact":  # also on a GPU, which may not be here
        choice = choose(count, Exact())
    else:
        choice = choose_engine(origin.kernel, model.inference, model.device, training.data, structure)
    kernels, weights = _members(document["members"], units)
    column = document["time_column"]
    if column is not None and (isinstance(column, bool) or column not in range(matrix.shape[1])):
        raise InputError("its column of time is not there")
    if document.get("stream") is not None:
        training = replace(training, source=Forgotten(int(document["stream"]["count"])))
        choice = streamed_choice(model.inference)
        known_posteriors: Sequence[Posterior] = posteriors_of(document["stream"], arrays, kernels, training.data)
    elif document.get("moved") is True:
        if not choice.engine.is_bound:  # there was less memory where it was learned
            choice = Choice(VFE(), "sparse variational inference, as where the model was learned")
        known_posteriors = moved_posteriors(arrays, kernels, training.data)
    else:
        known_posteriors = posteriors(kernels, [choice.engine] * len(kernels), training.data)
    tails = float(document.get("tails_beyond", 0.0))
    if not 0.0 <= tails < 0.5:
        raise InputError("the tails of its forecasts are not what they should be")
    share = Weights(weights[0], weights[1], weights[2], column, tails)
    seconds = document.get("fit_seconds")
    model.fitted_ = Fitted(
        training=training,
        choice=choice,
        kernel=kernel,
        noise=scores["noise_"],
        mixture=make_mixture(kernels, share, training.data, known_posteriors),
        scores=FitScores(
            scores["log_evidence_"], scores["bic_"], scores["loo_"], int(document["parameters"]), scores["jitter_"]
        ),
        status=str(document["status"]),
        message=str(document["message"]),
        origin=origin,
        candidates=candidates_from_plain(document.get("candidates", []), matrix.shape[1]),
        notes=tuple(str(note) for note in document.get("notes", ())),
        at_bounds=tuple(AtBound(*bound) for bound in document.get("at_bounds", ())),
        stopped=stopped if stopped in get_args(Stopped) else "",
        seconds=None if seconds is None else finite(seconds),
    )
    return model


def text_or_none(value: Any) -> str | None:
    """Return a text of a file, where there is one."""
    return None if value is None else str(value)


def read_columns(document: dict[str, Any], width: int) -> Columns:
    """Read `columns_to_plain` back, checking that it fits a matrix of so many columns."""
    from mercer.tables import Encoding

    names = None if document["features"] is None else tuple(str(n) for n in document["features"])
    encoding = None if document["encoding"] is None else Encoding.from_json(document["encoding"])
    columns = Columns(int(document["n_features"]), names, encoding)
    if len(columns.names) != width or (names is not None and len(names) != columns.count):
        raise InputError("its columns do not fit its data")
    return columns


def name_columns(model: Any, columns: Columns) -> None:
    """Give an estimator what scikit-learn checks later tables by."""
    model.n_features_in_ = columns.count
    if columns.features is not None:
        model.feature_names_in_ = np.array(columns.features, dtype=object)


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
