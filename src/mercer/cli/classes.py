"""The work of `discover --task classification`: a table in; a classifier, its explanation and its report out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mercer.cli.files import write_text
from mercer.cli.learn import FUNCTIONAL, Request, Steps, Task, carry_out, duplicate_notes, json_text, kernel_or_search
from mercer.cli.terminal import Terminal
from mercer.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from mercer.estimators.classifier import KernelSVC
    from mercer.explain.classes import ClassExplanation
    from mercer.tables.parquet_rows import ParquetRows

MOST_CLASSES = 50


def learn_classes_and_write(request: Request, read: Callable[[], Any], terminal: Terminal) -> None:
    """Do the whole command."""
    carry_out(Steps(_kernel, _task, _fitted, _write), request, read, terminal)


def _kernel(request: Request) -> Any:
    from mercer.estimators.class_kernels import NAMES

    if request.kernel in NAMES and request.kernel not in (FUNCTIONAL, "search", "nkn"):
        return kernel_or_search(replace(request, kernel="SE")) and request.kernel
    return kernel_or_search(request)


def _task(request: Request, table: pd.DataFrame | ParquetRows, kernel: Any, terminal: Terminal) -> Task:
    from mercer.tables import Encoding, describe_gaps, split_classes
    from mercer.tables.parquet_rows import ParquetRows

    if isinstance(table, ParquetRows):
        raise InputError("The table does not fit into memory, and classes can only be learned there. Take fewer rows.")
    split = split_classes(table, request.target, request.inputs)
    present = split.target.notna()
    inputs, target, missing = split.inputs[present], split.target[present], int((~present).sum())
    if missing:
        terminal.note(f"{missing} of {len(present)} rows have no class in '{request.target}' and were left out")
    kinds = target.nunique()
    if kinds < 2:
        raise InputError(
            f"The target column '{request.target}' has only one class in {len(target)} row(s): there is nothing to "
            "tell apart, and nothing was written. Choose another column with --target."
        )
    if kinds > MOST_CLASSES:
        raise InputError(
            f"The target column '{request.target}' has {kinds} different values, more than {MOST_CLASSES} classes. "
            "If it is a number, leave out --task; otherwise join rare classes."
        )
    encoding = Encoding.learn(inputs)
    matrix = encoding.apply(inputs)
    if not (matrix != matrix[0]).any():
        raise InputError("No input column varies, so nothing can be learned from them. Name others with --inputs.")
    for note in (*split.notes, *encoding.notes, *describe_gaps(inputs, encoding), *duplicate_notes(inputs, target)):
        terminal.note(note)
    return Task(inputs, target, kernel)


def _fitted(task: Task, request: Request, terminal: Terminal) -> KernelSVC:
    from mercer.estimators.classifier import KernelSVC
    from mercer.tables.parquet_rows import ParquetRows

    terminal.prepare_core()
    model = KernelSVC(kernel=task.kernel, random_state=request.seed)
    assert not isinstance(task.inputs, ParquetRows)
    columns = list(task.inputs.columns)
    names = None if len(columns) == 1 else tuple(str(name) for name in columns)
    with terminal.fitting([0.0], names) as progress:  # scores are errors: no units to put right
        model.fit(task.inputs, task.target, progress=progress)
    if model.stopped_ == "request":
        terminal.aside("stopped at your request; going on with the best so far")
    for note in model.notes_:
        terminal.note(note)
    model.fitted_ = replace(model.fitted_, notes=tuple(terminal.notes))
    return model


def _write(model: KernelSVC, explanation: ClassExplanation, folder: Path) -> dict[str, str]:
    from mercer.model.settings import candidates_to_plain
    from mercer.report.classes import write_class_report

    files = {
        "report": folder / "report.html",
        "model": folder / "model.mercer",
        "explanation": folder / "explanation.json",
    }
    model.save(files["model"])
    write_text(json_text(explanation.to_json()), files["explanation"])
    if model.candidates_:
        files["candidates"] = folder / "candidates.json"
        rows = candidates_to_plain(model.candidates_, model.column_names_)
        write_text(json_text({"format": "mercer-candidates", "version": 1, "candidates": rows}), files["candidates"])
    write_class_report(model.fitted_, files["report"], explanation)
    return {kind: str(path) for kind, path in files.items()}
