"""Files of a `KernelSVC`: the same kind of archive as other models. The machine is fitted again when it is read."""

from __future__ import annotations

from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.errors import InputError
from mercer.estimators.files import (
    FORMAT,
    VERSION,
    checked_arrays,
    finite,
    read_units,
    restore_columns,
    write_archive,
)
from mercer.estimators.kernels import candidates_from_plain, candidates_to_plain, from_plain, to_plain
from mercer.kernels.domains import Array
from mercer.kernels.parameters import bind
from mercer.kernels.text import from_json, to_json
from mercer.kernels.units import to_scaled_units

if TYPE_CHECKING:
    from mercer.estimators.classifier import KernelSVC

TASK = "classification"


def save(model: KernelSVC, path: str | Path) -> None:
    """Write a fitted classifier."""
    from mercer.estimators.class_kernels import NAMES

    if model._kernel is None:
        raise InputError("a model of a precomputed Gram matrix has no kernel to save; save the matrix yourself")
    assert model.kernel_ is not None
    plain = model.kernel if isinstance(model.kernel, str) and model.kernel in NAMES else to_plain(model.kernel)
    seed = int(model.random_state) if isinstance(model.random_state, Integral) else None
    classes, kind = _classes_to_plain(model.classes_)
    document = {
        "format": FORMAT, "version": VERSION, "task": TASK,
        "options": {"kernel": plain, "C": model.C, "nu": model.nu, "random_state": seed},
        "kernel": to_json(model.kernel_), "C": model.C_, "nu": model.nu_, "error": model.error_, "seed": model._seed,
        "classes": classes, "class_kind": kind,
        "units": {"shift": model._units.shift, "scale": model._units.scale, "y_scale": 1.0},
        "features": [str(n) for n in model.feature_names_in_] if hasattr(model, "feature_names_in_") else None,
        "n_features": model.n_features_in_,
        "encoding": model.encoding_.to_json() if model.encoding_ is not None else None,
        "target": model.target_name_, "notes": list(model.notes_), "stopped": model.stopped_,
        "fit_seconds": model.fit_seconds_, "candidates": candidates_to_plain(model.candidates_),
    }  # fmt: skip
    write_archive(document, {"X.npy": model._train, "y.npy": model._labels.astype(np.float64)}, path)


def _classes_to_plain(classes: Any) -> tuple[list[Any], str]:
    kind = {"b": "bool", "i": "int", "u": "int", "f": "float"}.get(classes.dtype.kind, "text")
    if kind == "text":
        return [str(value) for value in classes], kind
    return [value.item() for value in classes], kind


def rebuilt(document: dict[str, Any], matrix: Array, target: Array) -> KernelSVC:
    """Return the classifier of a file, its machine fitted again to the rows; the caller translates errors."""
    from mercer.estimators.class_kernels import NAMES
    from mercer.estimators.classifier import KernelSVC
    from mercer.learners.margin import machine

    options = dict(document["options"])
    if options["kernel"] not in NAMES:
        options["kernel"] = from_plain(options["kernel"])
    model = KernelSVC(**{name: options[name] for name in ("kernel", "C", "nu", "random_state")})
    rows, labels = checked_arrays(matrix, target)
    kinds = {"bool": bool, "int": np.int64, "float": np.float64, "text": object}
    model.classes_ = np.array(document["classes"], dtype=kinds[document["class_kind"]])
    model._labels = labels.astype(np.intp)
    if not np.array_equal(np.unique(labels), np.arange(len(model.classes_))):
        raise InputError("its classes do not fit its rows")
    model._train = (rows,)  # type: ignore[assignment]  # whose columns restore_columns counts
    restore_columns(model, document)
    model._train = rows
    model._units = read_units(document["units"], rows.shape[1])
    model.kernel_ = bind(from_json(document["kernel"]), rows.shape[1])
    model.functional_ = None
    model._kernel = to_scaled_units(model.kernel_, model._units)
    model.C_, model._cost = finite(document["C"]), finite(document["C"])
    model.nu_ = None if document["nu"] is None else finite(document["nu"])
    model.error_, model._seed = finite(document["error"]), int(document["seed"])
    model.notes_ = tuple(str(note) for note in document.get("notes", ()))
    model.stopped_ = str(document.get("stopped", ""))
    model.target_name_ = None if document.get("target") is None else str(document["target"])
    model.fit_seconds_ = finite(document.get("fit_seconds", 0.0))
    model.candidates_ = candidates_from_plain(document.get("candidates", []), rows.shape[1])
    gram = model._gram()
    model._machine = machine(model.C_, model.nu_).fit(gram, model._labels)
    model._calibrate(gram)
    return model
