"""The work of `discover` and `demo`: a table in; a fitted model, its summary and its pictures out."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mercer.cli.describe import summary_of
from mercer.cli.files import prepared_folder, write_text
from mercer.cli.terminal import Terminal
from mercer.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from mercer.estimators import GPRegressor
    from mercer.explain import Summary

# Structures that suit most data of their kind.
ONE_COLUMN = "SE + SE*PER + LIN"
SEVERAL_COLUMNS = "SE + LIN"
ROWS_FOR_A_PERIOD = 8


@dataclass(frozen=True)
class Request:
    """What the user asked for; `inputs` None means all other columns, `kernel` None a default for the data."""

    command: str
    target: str
    inputs: list[str] | None
    kernel: str | None
    out: Path
    seed: int


@dataclass(frozen=True)
class Task:
    """What to learn: a table's inputs and target (all rows have one), and the kernel."""

    inputs: pd.DataFrame
    target: pd.Series
    kernel: str


def learn_and_write(request: Request, read: Callable[[], pd.DataFrame], terminal: Terminal) -> None:
    """Do the whole command; the output folder is tried before the long work."""
    started = time.perf_counter()
    folder = prepared_folder(request.out)
    with terminal.working("reading the data"):
        task = prepared_task(request, read(), terminal)
    model = fitted_model(task, request.seed, terminal)
    summary = summary_of(model, terminal.notes)
    files = write_results(task, model, summary, folder, terminal)
    elapsed = time.perf_counter() - started
    listing = "\n".join(f"wrote   {path}" for path in files.values())
    terminal.finish(
        f"{summary.to_text(terminal.width)}\n{listing}\ndone in {elapsed:.1f} s",
        {"command": request.command, "summary": summary.to_json(), "files": files, "elapsed_seconds": elapsed},
    )


def prepared_task(request: Request, table: pd.DataFrame, terminal: Terminal) -> Task:
    """Part a table into inputs and target, checking all that can be checked before the fit; notes are kept."""
    from mercer.kernels import parse
    from mercer.tables import Encoding, describe_gaps, split_target

    if request.kernel is not None:
        parse(request.kernel)
    split = split_target(table, request.target, request.inputs)
    inputs, target = _with_target(split.inputs, split.target, terminal)
    encoding = Encoding.learn(inputs)
    matrix = encoding.apply(inputs)
    varying = int((matrix != matrix[0]).any(axis=0).sum())
    if varying == 0:
        raise InputError(
            f"No input column varies ({', '.join(map(repr, inputs.columns))}), so nothing can be learned from them. "
            "Name other columns with --inputs."
        )
    for note in (*split.notes, *encoding.notes, *describe_gaps(inputs, encoding), *_duplicates(inputs, target)):
        terminal.note(note)
    periodic = varying == 1 and len(inputs) >= ROWS_FOR_A_PERIOD
    return Task(inputs, target, request.kernel or (ONE_COLUMN if periodic else SEVERAL_COLUMNS))


def _with_target(inputs: pd.DataFrame, target: pd.Series, terminal: Terminal) -> tuple[pd.DataFrame, pd.Series]:
    present = target.notna()
    values, missing = target[present], int((~present).sum())
    if len(values) < 2:
        raise InputError(
            f"Only {len(values)} of {len(target)} row(s) have a value in the target column '{target.name}'; "
            "at least 2 are needed to learn anything. Give more data."
        )
    if missing:
        terminal.note(f"{missing} of {len(target)} rows have no value in the target '{target.name}' and were left out")
    if values.min() == values.max():
        raise InputError(
            f"The target column '{target.name}' is the same ({values.iloc[0]:g}) in all {len(values)} rows: "
            "there is nothing to learn. Choose another column with --target."
        )
    return inputs[present], values


def _duplicates(inputs: pd.DataFrame, target: pd.Series) -> list[str]:
    count = int(inputs.assign(**{"\0target": target}).duplicated().sum())
    if not count:
        return []
    what = "1 row is an exact copy of another" if count == 1 else f"{count} rows are exact copies of others"
    return [f"{what}; they are kept and count as repeated measurements"]


def fitted_model(task: Task, seed: int, terminal: Terminal) -> GPRegressor:
    """Fit the model, with progress; Ctrl-C keeps the best fit so far."""
    from mercer.estimators import GPRegressor

    terminal.announce_compilation()
    model = GPRegressor(kernel=task.kernel, random_state=seed)
    with terminal.working("fitting the kernel") as progress:
        model.fit(task.inputs, task.target, progress=progress)
    if model.status_ == "interrupted":
        terminal.aside("stopped at your request; going on with the best fit so far")
    model.target_name_ = str(task.target.name)
    model.notes_ = tuple(terminal.notes)
    return model


def write_results(task: Task, model: GPRegressor, summary: Summary, folder: Path, terminal: Terminal) -> dict[str, str]:
    """Write the model, its summary and the pictures; return their paths by kind."""
    from mercer.report.plots import components_figure, fit_figure, save_figure

    files = {
        "fit": folder / "fit.png",
        "components": folder / "components.png",
        "model": folder / "model.mercer",
        "summary": folder / "summary.json",
    }
    with terminal.working("drawing"):
        model.save(files["model"])
        write_text(json.dumps(summary.to_json(), indent=1, allow_nan=False) + "\n", files["summary"])
        save_figure(fit_figure(model, task.inputs, task.target), files["fit"])
        save_figure(components_figure(model, task.inputs, task.target, summary), files["components"])
    return {kind: str(path) for kind, path in files.items()}
