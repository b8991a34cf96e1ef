"""Model files: a zip archive of one JSON text and raw NumPy arrays. Reading one can never run code.

Every kind of model has the same frame (format, version, kind, options, kernel, units, how the fit ended) and a reader
for what is its own. Files of version 0.1 (format versions 1 and 2) are read too.
"""

from __future__ import annotations

import io
import json
import math
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any, get_args

import numpy as np

from mercer.compute.backend import backend_for
from mercer.compute.program import compile_program
from mercer.errors import InputError, MercerError, ModelFileError, TooLargeError
from mercer.fitting.problem import AtBound
from mercer.inference.bounds import Interval
from mercer.inference.choose import Choice, choose, engine_from_plain, engine_to_plain, read_inference
from mercer.inference.contract import Data, Posterior, Sum
from mercer.inference.sparse import Statistics, model_of, solve
from mercer.inference.vfe import VFE, FixedVFE, VFEPosterior
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import Units, bind, to_data_units, to_scaled_units, values_of
from mercer.kernels.text import from_json, parse, to_json
from mercer.learners.contract import Candidate, DataFacts, Learner, Plan, Stopped, Verdict, Weights, read_step
from mercer.learners.margin import Spectrum
from mercer.linalg.factor import Failure
from mercer.model.classes import FittedClasses, LabelledRows, fit_machine, gram_of
from mercer.model.fitted import (
    CLASS_KERNELS,
    LEARNERS,
    Columns,
    FitScores,
    Fitted,
    Origin,
    TrainingRows,
    choose_engine,
    expression_or_learner,
    make_mixture,
    posteriors,
)  # fmt: skip
from mercer.model.grid import FittedGrid, GridInput, GridScale, condition, grid_engine, read_axes
from mercer.writing import whole_file

FORMAT = "mercer-model"
VERSION = 3
SCORES = ("noise_", "log_evidence_", "bic_", "loo_", "jitter_")
GRID_NUMBERS = ("noise_", "log_evidence_", "bic_", "fit_seconds_")
CLASS_KINDS = {"bool": bool, "int": np.int64, "float": np.float64, "text": object}

UNPACKED = 2**29  # bytes that any file may unpack to: with the copies that are made on the way, within 2 GB
RATIO = 4  # and of a larger one this multiple of its size; arrays beyond that are written as they are
FARTHEST = 1e6  # of scaled data from zero: it takes 10^12 rows to be there
Document = dict[str, Any]
Arrays = dict[str, Array]
Kernels = Sequence[tuple[Expression, float]]  # in scaled units, each with its noise
AnyFitted = Fitted | FittedClasses | FittedGrid


def save(fitted: AnyFitted, path: str | Path) -> None:
    """Write a fitted model of any kind."""
    writers: dict[type, tuple[str, Callable[[Any], tuple[Document, Arrays]]]] = {
        Fitted: ("regression", _write_regression),
        FittedClasses: ("classification", _write_classes),
        FittedGrid: ("grid", _write_grid),
    }
    kind, write = writers[type(fitted)]
    document, arrays = write(fitted)
    document = {"format": FORMAT, "version": VERSION, "kind": kind, **document}
    with whole_file(path, "choose a folder that can be written") as place:
        buffer, large = io.BytesIO(), sum(array.nbytes for array in arrays.values()) > UNPACKED // 2
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED if large else zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("model.json", json.dumps(document, indent=1))
            for name, array in arrays.items():
                content = io.BytesIO()
                np.save(content, array, allow_pickle=False)
                archive.writestr(f"{name}.npy", content.getvalue())
        place.write_bytes(buffer.getvalue())


def load(path: str | Path) -> AnyFitted:
    """Read a file that `save` wrote; its `options` are the parameters of the estimator that it was fitted by."""
    file = Path(path)
    document, arrays = _read_file(file)
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
        kind: Any = document.get("kind", document.get("task", "regression"))  # as versions 1 and 2 have it
        readers: dict[str, Callable[[Document, Arrays], AnyFitted]] = {
            "regression": _read_regression,
            "classification": _read_classes,
            "grid": _read_grid,
        }
        return readers[kind](document, arrays)
    except TooLargeError as error:
        raise ModelFileError(f"'{file}' cannot be used on this machine: {error}") from None
    except MercerError as error:
        raise ModelFileError(f"'{file}' is damaged: {error}") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ModelFileError(f"'{file}' is damaged: {type(error).__name__}: {error}") from None


def _read_file(file: Path) -> tuple[Document, Arrays]:
    try:
        with zipfile.ZipFile(file) as archive:
            _check_size(archive, file.stat().st_size)
            document = json.loads(archive.read("model.json"))
            names = [name for name in archive.namelist() if name.endswith(".npy")]
            arrays = {name.removesuffix(".npy"): _unpack(archive, name) for name in names}
            arrays["X"], arrays["y"]  # must be there
    except ModelFileError as error:
        raise ModelFileError(f"'{file}' {error}") from None
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


def _check_size(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse a file that unpacks to far more than it is: some megabytes could fill the memory of any machine."""
    unpacked = sum(entry.file_size for entry in archive.infolist())
    if unpacked > max(UNPACKED, RATIO * size):
        raise ModelFileError(
            f"would unpack from {size / 1e6:.3g} MB to {unpacked / 1e6:,.0f} MB: Mercer writes no such file, and it "
            "was not read"
        )


def _unpack(archive: zipfile.ZipFile, name: str) -> Array:
    """Read one array, which must be as long as its header says before any memory is taken for it."""
    with archive.open(name) as stream:
        version = np.lib.format.read_magic(stream)
        readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, by_column, dtype = readers[version](stream)
        length = math.prod(shape) * dtype.itemsize
        if dtype.hasobject or length != archive.getinfo(name).file_size - stream.tell():
            raise ModelFileError(f"is damaged: its array {name} is not as long as it says")
        content = bytearray(length)
        if stream.readinto(content) != length or stream.read(1):  # type: ignore[attr-defined]
            raise ModelFileError(f"is damaged: its array {name} was cut off")
        return np.frombuffer(content, dtype).reshape(shape, order="F" if by_column else "C")


# ------------------------------------------------------------------------------------------------ what all kinds share


def _options_to_plain(options: Mapping[str, Any], kernel: Any) -> Document:
    plain = {**options, "kernel": kernel}
    if "inference" in options:
        plain["inference"] = engine_to_plain(options["inference"])
    if "device" in options:
        plain["device"] = str(options["device"])
    if not isinstance(options["random_state"], Integral):
        plain["random_state"] = None
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in plain.items()}


def kernel_to_plain(kernel: Any) -> Any:
    """Return the `kernel` of an estimator as JSON data: a text, or the name and settings of a learner."""
    if not isinstance(kernel, Learner):
        return str(kernel)
    for name, learner in LEARNERS.items():
        if type(kernel) is learner:
            return {"learner": name, "settings": kernel.describe()}
    kind = type(kernel).__name__
    raise InputError(
        f"a model file cannot hold the learner {kind}, which has no name: give it one, before saving and before "
        f"loading, by mercer.model.fitted.LEARNERS['name'] = {kind}; or fit the kernel that it found, and save that"
    )


def read_kernel_setting(data: Any) -> str | Learner:
    """Read `kernel_to_plain` back, checking it."""
    if isinstance(data, str):
        expression_or_learner(data)
        return data
    name = data["learner"]
    if name not in LEARNERS:
        raise InputError(f"it was learned by {name!r}, and there is no learner of that name here; give it to LEARNERS")
    learner: Learner = LEARNERS[name].read(data["settings"])
    learner.check()
    return learner


def _read_options(document: Document, needed: Sequence[str]) -> Document:
    """Return the settings of the estimator, checked; its kernel is still as the file has it."""
    options = dict(document["options"])
    for name in (*needed, *options):
        value = options[name]
        if name in SETTINGS and not SETTINGS[name](value):
            raise InputError(f"its setting {name} is {value!r:.40}")
    return options


def _is_number(value: Any, low: float = -math.inf, high: float = math.inf) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


# What settings of an estimator may be in a file.
SETTINGS: dict[str, Callable[[Any], bool]] = {
    "noise": lambda value: value is None or (_is_number(value, 0.0) and math.isfinite(value)),
    "restarts": _is_count,
    "max_iterations": _is_count,
    "priors": lambda value: value in (None, "weak"),
    "device": lambda value: isinstance(value, str),
    "n_jobs": lambda value: value is None or (_is_number(value) and value != 0 and value == int(value)),
    "random_state": lambda value: value is None or (_is_number(value, 0, 2**32 - 1) and value == int(value)),
    "C": lambda value: value == "auto" or (_is_number(value, 0.0) and 0.0 < value < math.inf),
    "nu": lambda value: value in (None, "auto") or _is_number(value, 0.0, 1.0),
    "spectrum": lambda value: isinstance(value, str) and value in get_args(Spectrum),
}
REGRESSION = ("noise", "restarts", "priors", "max_iterations", "device", "n_jobs", "random_state")


def _read_units(entry: Document, columns: int) -> Units:
    shift, scale = (tuple(_finite(v) for v in entry[name]) for name in ("shift", "scale"))
    y_scale = _finite(entry["y_scale"])
    if len(shift) != columns or len(scale) != columns or min(*scale, y_scale) <= 0:
        raise InputError("its units do not fit its data")
    return Units(shift, scale, y_scale)


def _check_units(*scaled: Array) -> None:
    """Refuse data that the units are not those of: N numbers less their mean lie within sqrt(N) standard deviations."""
    if not all((np.abs(part) < FARTHEST).all() for part in scaled):
        raise InputError("its units do not fit its data")


def _columns_to_plain(columns: Columns) -> Document:
    return {
        "features": None if columns.features is None else list(columns.features),
        "n_features": columns.count,
        "encoding": None if columns.learned is None else columns.learned.to_json(),
    }


def _read_columns(document: Document, width: int) -> Columns:
    from mercer.tables import Encoding  # brings pandas

    count, features = int(document["n_features"]), document["features"]
    names = None if features is None else tuple(features)
    if not all(isinstance(name, str) for name in names or ()):
        raise InputError("the names of its columns are no texts")
    encoding = None if document["encoding"] is None else Encoding.from_json(document["encoding"])
    encoded = count if encoding is None else len(encoding.names)
    if encoded != width or (names is not None and len(names) != count):
        raise InputError("its columns do not fit its data")
    return Columns(count, names, encoding)


def _read_array(arrays: Arrays, name: str, *shape: int | None) -> Array:
    """Return an array of finite numbers of this shape; None where any length will do."""
    array = arrays[name]
    fits = array.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    if not fits or array.dtype != np.float64 or not np.isfinite(array).all():
        raise InputError(f"its array {name} is not what it should be")
    return array


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise InputError(f"it holds the number {number}")
    return number


# ----------------------------------------------------------------------------------------------------------- regression


def _write_regression(fitted: Fitted) -> tuple[Document, Arrays]:
    training, mixture, scores = fitted.training, fitted.mixture, fitted.scores
    options = fitted.origin.options
    values = (fitted.noise, scores.log_evidence, scores.bic, scores.leave_one_out, scores.jitter)
    members = [
        {
            "kernel": to_json(to_data_units(member.kernel, training.units)),
            "noise": member.noise * training.units.y_scale**2,
            "weights": [member.within, member.beyond, member.widening],
        }
        for member in mixture.members
    ]
    document = {
        "options": _options_to_plain(options, kernel_to_plain(options["kernel"])),
        "kernel": to_json(fitted.kernel),
        "members": members,
        "time_column": mixture.column,
        "tails_beyond": mixture.tails_beyond,
        "scores": dict(zip(SCORES, values, strict=True)),
        "parameters": scores.parameters,
        "status": fitted.status,
        "message": fitted.message,
        "at_bounds": [list(bound) for bound in fitted.at_bounds],
        "stopped": fitted.stopped,
        "units": asdict(training.units),
        "level": training.level,
        **_columns_to_plain(training.columns),
        "target": training.target_name,
        "notes": list(fitted.notes),
        "engine": engine_to_plain(fitted.choice.engine),
        "reason": fitted.choice.reason,
        "distilled_from": fitted.origin.distilled_from,
        "plan": _plan_to_plain(fitted.origin.plan),
        "fit_seconds": fitted.seconds,
        "candidates": candidates_to_plain(fitted.candidates),
    }
    arrays = {"X": training.X, "y": training.y}
    if training.source is not None:
        document["stream"], sums = _sums_to_plain(fitted)
        arrays |= sums
    elif fitted.choice.engine.saves_points:
        document["moved"] = True
        arrays |= {f"points{i}": posterior.solution.model.Z for i, posterior in _sparse_posteriors(fitted)}
    return document, arrays


def _read_regression(document: Document, arrays: Arrays) -> Fitted:
    matrix = _read_array(arrays, "X", None, None)
    target = _read_array(arrays, "y", len(matrix))
    options = _read_options(document, REGRESSION)
    options["kernel"] = read_kernel_setting(options["kernel"])
    options["inference"] = engine_from_plain(options.get("inference", "auto"))
    columns, units = _read_columns(document, matrix.shape[1]), _read_units(document["units"], matrix.shape[1])
    level, name = _finite(document["level"]), _text_or_none(document.get("target"))
    training = TrainingRows(matrix, target, units, level, columns, name)
    _check_units(training.data.X, training.data.y)
    noise, log_evidence, bic, leave_one_out, jitter = (float(document["scores"][score]) for score in SCORES)
    kernel = bind(from_json(document["kernel"]), matrix.shape[1])
    origin = Origin(options, _text_or_none(document.get("distilled_from")), _read_plan(document.get("plan")))
    choice = _read_choice(document, origin, kernel, training.data)
    kernels, weights = _read_members(document, units)
    if document.get("stream") is not None:
        training = replace(training, source=Forgotten(int(document["stream"]["count"])))
        known: Sequence[Posterior] = _read_sums(document["stream"], arrays, kernels, training.data)
    elif document.get("moved") is True:
        points = [_read_array(arrays, f"points{i}", None, matrix.shape[1]) for i in range(len(kernels))]
        known = posteriors(kernels, [FixedVFE(Z) for Z in points], training.data)  # others than it would choose
    else:
        known = posteriors(kernels, [choice.engine] * len(kernels), training.data)
    stopped, seconds = document.get("stopped", ""), document.get("fit_seconds")
    return Fitted(
        training=training,
        choice=choice,
        kernel=kernel,
        noise=noise,
        mixture=make_mixture(kernels, weights, training.data, known),
        scores=FitScores(log_evidence, bic, leave_one_out, int(document["parameters"]), jitter),
        status=str(document["status"]),
        message=str(document["message"]),
        origin=origin,
        at_bounds=_read_bounds(document),
        candidates=candidates_from_plain(document.get("candidates", []), matrix.shape[1]),
        notes=tuple(map(str, document.get("notes", ()))),
        stopped=stopped if stopped in get_args(Stopped) else "",
        seconds=None if seconds is None else _finite(seconds),
    )


def _plan_to_plain(plan: Plan | None) -> Document | None:
    """Return what was chosen by the data, and why, as JSON data."""
    if plan is None:
        return None
    return {**vars(plan), "kernel": kernel_to_plain(plan.kernel), "facts": asdict(plan.facts)}


def _read_plan(entry: Any) -> Plan | None:
    """Read `_plan_to_plain` back, checking it; earlier files have none."""
    if entry is None:
        return None
    kernel = expression_or_learner(read_kernel_setting(entry["kernel"]))
    seconds = None if entry["seconds"] is None else _finite(entry["seconds"])
    facts = DataFacts(**{**entry["facts"], "grid": tuple(map(int, entry["facts"]["grid"]))})
    return Plan(kernel, str(entry["learner"]), str(entry["reason"]), seconds, facts)


def _read_choice(document: Document, origin: Origin, kernel: Expression, data: Data) -> Choice:
    """Return the engine with the reason for it; where versions 1 and 2 do not keep it, it is chosen again."""
    kept, options = document.get("engine"), origin.options
    engine = engine_from_plain(kept or "auto")
    if not isinstance(engine, str):
        return choose(len(data.y), engine) if engine.exact else Choice(engine, str(document["reason"]))
    if document.get("stream") is not None:
        asked = read_inference(options["inference"])
        able = asked if asked is not None and asked.streams else VFE()
        return Choice(able, "sparse variational inference, by sums over parts")
    structure = kernel if origin.given is not None or kept == "grid" else None
    backend, asked = backend_for(options["device"]), read_inference(options["inference"])
    choice = choose_engine(origin.kernel, asked, backend, data, structure)
    if document.get("moved") is True and not choice.engine.is_bound:  # there was less memory where it was learned
        return Choice(VFE(), "sparse variational inference, as where the model was learned")
    return choice


def _read_bounds(document: Document) -> tuple[AtBound, ...]:
    """Return the parameters at bounds; versions 1 and 2 name them only in the message."""
    entries = document.get("at_bounds", [])
    if "at_bounds" not in document and document["status"] == "at a bound":
        entries = re.findall(r"([\w:.\[\]]+) at its (lower|upper) bound", str(document["message"]))
    return tuple(AtBound(str(path), "lower" if side == "lower" else "upper") for path, side in entries)


def _read_members(document: Document, units: Units) -> tuple[Kernels, Weights]:
    entries, columns = document["members"], len(units.shift)
    kernels = [
        (to_scaled_units(bind(from_json(entry["kernel"]), columns), units), _finite(entry["noise"]) / units.y_scale**2)
        for entry in entries
    ]
    within, beyond, widening = (tuple(_finite(entry["weights"][k]) for entry in entries) for k in (0, 1, 2))
    if not kernels or any(min(w) < 0 or abs(sum(w) - 1.0) > 1e-6 for w in (within, beyond)):
        raise InputError("the weights of its kernels do not add up to one")
    if min(widening) <= 0:
        raise InputError("the factors by which its bands are widened are not greater than zero")
    column = document["time_column"]
    if column is not None and (type(column) is not int or column not in range(columns)):
        raise InputError("its column of time is not there")
    tails = float(document.get("tails_beyond", 0.0))
    if not 0.0 <= tails < 0.5:
        raise InputError("the tails of its forecasts are not what they should be")
    return kernels, Weights(within, beyond, widening, column, tails)


# ------------------------------------------------------------------------------------------------------------- streams
# Not the rows of a stream are kept, but the sums over them that the posterior is made of.


@dataclass(frozen=True)
class Forgotten:
    """Rows that a saved model was learned from; they are not in its file."""

    count: int

    def add_up(self, work: Callable[[Array, Array], Sum], size: int) -> Sum:
        """Say that they are gone."""
        raise InputError(
            "this needs the rows that the model was learned from, and they are not in its file: they were read in "
            "parts. Fit the model again"
        )


def _sparse_posteriors(fitted: Fitted) -> list[tuple[int, VFEPosterior]]:
    found = enumerate(member.posterior for member in fitted.mixture.members)
    return [(number, posterior) for number, posterior in found if isinstance(posterior, VFEPosterior)]


def _sums_to_plain(fitted: Fitted) -> tuple[Document, Arrays]:
    arrays: Arrays = {}
    entries = []
    for number, posterior in _sparse_posteriors(fitted):
        sums = posterior.solution.sums
        arrays[f"points{number}"] = posterior.solution.model.Z
        arrays[f"gram{number}"] = np.tril(sums.gram)
        arrays[f"vectors{number}"] = np.stack([sums.by_target, sums.by_one])
        entries.append({"log_noise": sums.log_noise, "prior": sums.prior, "moments": list(map(float, sums.moments))})
    return {"count": fitted.training.count, "sums": entries}, arrays


def _read_sums(entry: Document, arrays: Arrays, kernels: Kernels, data: Data) -> list[Posterior]:
    found: list[Posterior] = []
    for number, (kernel, noise) in enumerate(kernels):
        Z = _read_array(arrays, f"points{number}", None, data.X.shape[1])
        gram = _read_array(arrays, f"gram{number}", len(Z), len(Z))
        vectors = _read_array(arrays, f"vectors{number}", 2, len(Z))
        plain = entry["sums"][number]
        sums = Statistics(
            int(entry["count"]), float(plain["log_noise"]), float(plain["prior"]),
            np.array([float(m) for m in plain["moments"]]), gram, vectors[0], vectors[1],
        )  # fmt: skip
        solution = solve(model_of(compile_program(kernel), values_of(kernel), noise, data, Z), data, sums=sums)
        if isinstance(solution, Failure):
            raise InputError(solution.reason)
        found.append(VFEPosterior(solution, data))
    return found


# ------------------------------------------------------------------------------------------------------------- classes


def _write_classes(fitted: FittedClasses) -> tuple[Document, Arrays]:
    if fitted.kernel is None:
        raise InputError("a model of a precomputed Gram matrix has no kernel to save; save the matrix yourself")
    training, kernel = fitted.training, fitted.options["kernel"]
    named = isinstance(kernel, str) and kernel in CLASS_KERNELS
    kind = {"b": "bool", "i": "int", "u": "int", "f": "float"}.get(training.classes.dtype.kind, "text")
    classes = [str(value) if kind == "text" else value.item() for value in training.classes]
    document = {
        "options": _options_to_plain(fitted.options, kernel if named else kernel_to_plain(kernel)),
        "kernel": to_json(fitted.kernel),
        "C": fitted.cost,
        "nu": fitted.nu,
        "error": fitted.error,
        "seed": fitted.seed,
        "classes": classes,
        "class_kind": kind,
        "units": asdict(training.units),
        **_columns_to_plain(training.columns),
        "target": training.target_name,
        "notes": list(fitted.notes),
        "stopped": fitted.stopped,
        "fit_seconds": fitted.seconds,
        "plan": _plan_to_plain(fitted.plan),
        "candidates": candidates_to_plain(fitted.candidates),
        "spectrum": fitted.spectrum,
    }
    return document, {"X": training.X, "y": training.labels.astype(np.float64)}


def _read_classes(document: Document, arrays: Arrays) -> FittedClasses:
    """Return the classifier of a file; its machine is fitted again to the rows."""
    options = _read_options(document, ("C", "nu", "random_state"))
    if options["kernel"] not in CLASS_KERNELS:
        options["kernel"] = read_kernel_setting(options["kernel"])
    rows = _read_array(arrays, "X", None, None)
    target = _read_array(arrays, "y", len(rows))
    classes = np.array(document["classes"], dtype=CLASS_KINDS[document["class_kind"]])
    if not np.array_equal(np.unique(target), np.arange(len(classes))):
        raise InputError("its classes do not fit its rows")
    columns, units = _read_columns(document, rows.shape[1]), _read_units(document["units"], rows.shape[1])
    labels, name = target.astype(np.intp), _text_or_none(document.get("target"))
    training = LabelledRows(rows, labels, classes, units, columns, name)
    _check_units(training.scaled_rows)
    kernel = bind(from_json(document["kernel"]), rows.shape[1])
    scaled_kernel = to_scaled_units(kernel, units)
    cost, nu = _finite(document["C"]), None if document["nu"] is None else _finite(document["nu"])
    spectrum = document.get("spectrum", "clip")
    if not SETTINGS["spectrum"](spectrum):
        raise InputError(f"its spectrum is {spectrum!r:.40}")
    gram, clip = gram_of(scaled_kernel, training, spectrum)
    seed = int(document["seed"])
    return FittedClasses(
        training=training,
        kernel=kernel,
        scaled_kernel=scaled_kernel,
        clip=clip,
        cost=cost,
        nu=nu,
        error=_finite(document["error"]),
        machine=fit_machine(gram, labels, cost, nu, seed),
        seed=seed,
        options=options,
        candidates=candidates_from_plain(document.get("candidates", []), rows.shape[1]),
        notes=tuple(map(str, document.get("notes", ()))),
        stopped=str(document.get("stopped", "")),
        seconds=_finite(document.get("fit_seconds", 0.0)),
        plan=_read_plan(document.get("plan")),
        spectrum=spectrum,
    )


# --------------------------------------------------------------------------------------------------------------- grids


def _write_grid(fitted: FittedGrid) -> tuple[Document, Arrays]:
    """Return the array as X, its coordinates one after the other as y."""
    grid, options = fitted.grid, fitted.options
    numbers = (fitted.noise, fitted.log_evidence, fitted.bic, fitted.seconds)
    document = {
        "options": _options_to_plain(options, _axis_kernels_to_plain(options["kernel"])),
        "kernel": to_json(fitted.kernel),
        "numbers": dict(zip(GRID_NUMBERS, numbers, strict=True)),
        "evidence_is": fitted.evidence_is,
        "parameters": fitted.parameters,
        "status": fitted.status,
        "message": fitted.message,
        "notes": list(fitted.notes),
        "units": asdict(fitted.scale.units),
        "level": fitted.scale.level,
        "names": None if grid.names is None else list(grid.names),
        "reason": fitted.choice.reason,
    }
    return document, {"X": grid.values, "y": np.concatenate(grid.coordinates)}


def _axis_kernels_to_plain(kernel: Any) -> Any:
    if isinstance(kernel, Mapping):
        return {"by axis": [[name, _axis_kernels_to_plain(part)] for name, part in kernel.items()]}
    if isinstance(kernel, list | tuple):
        return [_axis_kernels_to_plain(part) for part in kernel]
    return kernel.text() if isinstance(kernel, Expression) else kernel_to_plain(kernel)


def _read_grid(document: Document, arrays: Arrays) -> FittedGrid:
    values = arrays["X"]
    noise, log_evidence, bic, seconds = (float(document["numbers"][name]) for name in GRID_NUMBERS)
    options = _read_options(document, ("noise", "restarts", "max_iterations", "device", "random_state"))
    kernel_setting = options["kernel"]
    if isinstance(kernel_setting, dict) and "learner" in kernel_setting:
        options["kernel"] = read_kernel_setting(kernel_setting)
    elif isinstance(kernel_setting, dict):
        options["kernel"] = {name: str(part) for name, part in kernel_setting["by axis"]}
    elif isinstance(kernel_setting, list):
        options["kernel"] = [str(part) for part in kernel_setting]
    else:
        options["kernel"] = str(kernel_setting)
    if values.ndim < 1 or values.dtype != np.float64 or np.isinf(values).any() or np.isnan(values).all():
        raise InputError("its array is not what it should be")
    names = None if document["names"] is None else tuple(str(name) for name in document["names"])
    parts = np.split(arrays["y"], np.cumsum(values.shape)[:-1])
    grid = GridInput(values, read_axes(parts, values.shape, names), names)
    scale = GridScale(_read_units(document["units"], values.ndim), _finite(document["level"]))
    _check_units(scale.data(grid).X, scale.data(grid).y)
    kernel = bind(from_json(document["kernel"]), values.ndim)
    scaled_kernel, scaled_noise = to_scaled_units(kernel, scale.units), noise / scale.units.y_scale**2
    engine = grid_engine(options["device"])
    posterior = condition(engine, scaled_kernel, scaled_noise, scale.data(grid))
    exact = posterior.whole.cells.exact_within(engine.exact_work)  # what versions 1 and 2 do not keep
    return FittedGrid(
        grid=grid,
        scale=scale,
        choice=Choice(engine, str(document["reason"])),
        kernel=kernel,
        noise=noise,
        scaled_kernel=scaled_kernel,
        scaled_noise=scaled_noise,
        posterior=posterior,
        log_evidence=log_evidence,
        bic=bic,
        evidence_is=str(document.get("evidence_is", "exact" if exact else "eigenvalues")),
        parameters=int(document["parameters"]),
        status=str(document["status"]),
        message=str(document["message"]),
        options=options,
        notes=tuple(map(str, document.get("notes", ()))),
        seconds=seconds,
    )


# ---------------------------------------------------------------------------------------------------------- candidates


KEPT = ("depth", "parent", "parameters", "status", "message", "seconds")  # besides kernel and scores


def candidates_to_plain(candidates: Sequence[Candidate], names: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return every kernel that was tried as JSON data: with names for people, without for a file.

    A score that is not finite becomes null. Of a candidate that was judged by intervals there is also between what log
    evidence and score lie, and behind which interval it was left.
    """
    rows = []
    for candidate in candidates:
        row = {
            "kernel": candidate.expression.text(names=names),
            "score": _finite_or_none(candidate.score),
            "log_evidence": _finite_or_none(candidate.log_evidence),
            **{name: getattr(candidate, name) for name in KEPT},
            "step": candidate.step.to_plain() if names is None else candidate.step.text(names),
        }
        if candidate.criterion:
            row["criterion"] = candidate.criterion
        bounds, verdict = candidate.interval, candidate.verdict
        if bounds is not None:
            row["log_evidence_interval"] = [_finite_or_none(bounds.lower), _finite_or_none(bounds.upper)]
            row["score_interval"] = [_finite_or_none(end) for end in candidate.scores]
            row["inducing"] = candidate.inducing
            row["left_behind"] = None if verdict is None else {**asdict(verdict), "bar": _finite_or_none(verdict.bar)}
        rows.append(row)
    return rows


def candidates_from_plain(rows: Sequence[Any], columns: int) -> tuple[Candidate, ...]:
    """Read candidates back (kernels with column numbers), checking what later code relies on."""
    candidates = []
    for number, row in enumerate(rows):
        parent, reason = row["parent"], row.get("left_behind")
        if parent is not None and not 0 <= int(parent) < number:
            raise InputError(f"candidate {number} comes before its parent")
        if reason is not None and reason["kind"] not in ("separated", "places"):
            raise InputError(f"a candidate was left behind for an unknown reason {reason['kind']!r}")
        found = Candidate(
            bind(parse(row["kernel"]), columns), int(row["depth"]), read_step(row["step"]),
            parent=None if parent is None else int(parent), log_evidence=_or(-math.inf, row["log_evidence"]),
            parameters=int(row["parameters"]), score=_or(math.inf, row["score"]), status=str(row["status"]),
            message=str(row["message"]), seconds=float(row["seconds"]), fit=None,
            criterion=str(row.get("criterion", "")),
        )  # fmt: skip
        if "log_evidence_interval" in row:
            (lower, upper), inducing = row["log_evidence_interval"], row["inducing"]
            found = replace(
                found,
                interval=Interval(_or(-math.inf, lower), _or(math.inf, upper)),
                inducing=None if inducing is None else int(inducing),
                verdict=reason and Verdict(reason["kind"], int(reason["by"]), _or(math.inf, reason["bar"])),
            )
        candidates.append(found)
    return tuple(candidates)


def _or(default: float, value: Any) -> float:
    return default if value is None else float(value)


def _finite_or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
