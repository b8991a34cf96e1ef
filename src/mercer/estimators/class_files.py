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
    columns_to_plain,
    finite,
    name_columns,
    read_columns,
    read_units,
    text_or_none,
    write_archive,
)
from mercer.kernels.domains import Array
from mercer.kernels.parameters import bind
from mercer.kernels.text import from_json, to_json
from mercer.kernels.units import to_scaled_units
from mercer.model.classes import FittedClasses, LabelledRows, fit_machine, gram_of
from mercer.model.settings import candidates_from_plain, candidates_to_plain, from_plain, to_plain

if TYPE_CHECKING:
    from mercer.estimators.classifier import KernelSVC

TASK = "classification"


def save(fitted: FittedClasses, path: str | Path) -> None:
    """Write a fitted classifier."""
    from mercer.estimators.class_kernels import NAMES

    if fitted.kernel is None:
        raise InputError("a model of a precomputed Gram matrix has no kernel to save; save the matrix yourself")
    options, training = fitted.options, fitted.training
    kernel, seed = options["kernel"], options["random_state"]
    plain = kernel if isinstance(kernel, str) and kernel in NAMES else to_plain(kernel)
    classes, kind = _classes_to_plain(training.classes)
    document = {
        "format": FORMAT, "version": VERSION, "task": TASK,
        "options": {
            "kernel": plain, "C": options["C"], "nu": options["nu"],
            "random_state": int(seed) if isinstance(seed, Integral) else None,
        },
        "kernel": to_json(fitted.kernel), "C": fitted.cost, "nu": fitted.nu, "error": fitted.error,
        "seed": fitted.seed, "classes": classes, "class_kind": kind,
        **columns_to_plain(training.columns, training.units),
        "target": training.target_name, "notes": list(fitted.notes), "stopped": fitted.stopped,
        "fit_seconds": fitted.seconds, "candidates": candidates_to_plain(fitted.candidates),
    }  # fmt: skip
    write_archive(document, {"X.npy": training.X, "y.npy": training.labels.astype(np.float64)}, path)


def _classes_to_plain(classes: Any) -> tuple[list[Any], str]:
    kind = {"b": "bool", "i": "int", "u": "int", "f": "float"}.get(classes.dtype.kind, "text")
    if kind == "text":
        return [str(value) for value in classes], kind
    return [value.item() for value in classes], kind


def rebuilt(document: dict[str, Any], matrix: Array, target: Array) -> KernelSVC:
    """Return the classifier of a file, its machine fitted again to the rows; the caller translates errors."""
    from mercer.estimators.class_kernels import NAMES
    from mercer.estimators.classifier import KernelSVC

    options = dict(document["options"])
    if options["kernel"] not in NAMES:
        options["kernel"] = from_plain(options["kernel"])
    model = KernelSVC(**{name: options[name] for name in ("kernel", "C", "nu", "random_state")})
    rows, target = checked_arrays(matrix, target)
    kinds = {"bool": bool, "int": np.int64, "float": np.float64, "text": object}
    classes = np.array(document["classes"], dtype=kinds[document["class_kind"]])
    if not np.array_equal(np.unique(target), np.arange(len(classes))):
        raise InputError("its classes do not fit its rows")
    columns = read_columns(document, rows.shape[1])
    name_columns(model, columns)
    units, labels = read_units(document["units"], rows.shape[1]), target.astype(np.intp)
    training = LabelledRows(rows, labels, classes, units, columns, text_or_none(document.get("target")))
    kernel = bind(from_json(document["kernel"]), rows.shape[1])
    scaled_kernel = to_scaled_units(kernel, units)
    cost, nu = finite(document["C"]), None if document["nu"] is None else finite(document["nu"])
    gram, clip = gram_of(scaled_kernel, training)
    seed = int(document["seed"])
    model.fitted_ = FittedClasses(
        training=training,
        kernel=kernel,
        scaled_kernel=scaled_kernel,
        clip=clip,
        cost=cost,
        nu=nu,
        error=finite(document["error"]),
        machine=fit_machine(gram, labels, cost, nu, seed),
        seed=seed,
        options=model.get_params(deep=False),
        candidates=candidates_from_plain(document.get("candidates", []), rows.shape[1]),
        notes=tuple(str(note) for note in document.get("notes", ())),
        stopped=str(document.get("stopped", "")),
        seconds=finite(document.get("fit_seconds", 0.0)),
    )
    return model
