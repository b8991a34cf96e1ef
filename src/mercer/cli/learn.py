"""The work of `discover` and `demo`: a table in; a model, its explanation and its report out."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mercer.cli.files import prepared_folder, write_text
from mercer.cli.interruption import heard_once
from mercer.cli.terminal import Terminal
from mercer.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from mercer.estimators import GPRegressor
    from mercer.explain import Explanation
    from mercer.tables.parquet_rows import ParquetRows

SEARCH = "search"
NETWORK = "nkn"
SURFACE = "surface"
FUNCTIONAL = "kfo"
MOST_SECONDS = 600.0  # of a search, where the user does not say: a person waits for it


@dataclass(frozen=True)
class Request:
    """What the user asked for; `inputs` None means all other columns, `jobs` None all cores."""

    command: str
    target: str
    out: Path
    inputs: list[str] | None = None
    kernel: str = SEARCH
    bases: list[str] | None = None
    score: str | None = None
    finalists: str | None = None
    time_budget: float | None = None
    depth: int | None = None
    jobs: int | None = None
    checkpoint: Path | None = None
    seed: int = 0
    operators: str | None = None
    regimes: int | None = None


@dataclass(frozen=True)
class Task:
    """What to learn: a table's inputs and target (all rows have one), and the kernel or the search.

    Rows that do not fit into memory are a stream, which knows its target.
    """

    inputs: pd.DataFrame | ParquetRows
    target: pd.Series | None
    kernel: Any


@dataclass(frozen=True)
class Steps:
    """What a command that learns is made of; the kernel comes first, so that a wrong option is told at once."""

    kernel: Callable[[Request], Any]
    task: Callable[[Request, Any, Any, Terminal], Task]
    fitted: Callable[[Task, Request, Terminal], Any]
    write: Callable[[Any, Any, Path], dict[str, str]]


def learn_and_write(request: Request, read: Callable[[], pd.DataFrame | ParquetRows], terminal: Terminal) -> None:
    """Do the whole command."""
    carry_out(Steps(kernel_or_search, prepared_task, fitted_model, write_results), request, read, terminal)


def carry_out(steps: Steps, request: Request, read: Callable[[], Any], terminal: Terminal) -> None:
    """Learn, explain and write; options and the output folder are tried before the long work."""
    started = time.perf_counter()
    kernel = steps.kernel(request)
    folder = prepared_folder(request.out)
    with terminal.working("reading the data"):
        task = steps.task(request, read(), kernel, terminal)
    with heard_once():
        model = steps.fitted(task, request, terminal)
        with terminal.working("explaining"):
            explanation = model.explain()
            files = steps.write(model, explanation, folder)
    elapsed = time.perf_counter() - started
    listing = "\n".join(f"wrote     {path}" for path in files.values())
    terminal.finish(
        f"{explanation.to_text(terminal.width)}\n{listing}\ndone in {elapsed:.1f} s",
        {"command": request.command, "explanation": explanation.to_json(), "files": files, "elapsed_seconds": elapsed},
    )


def kernel_or_search(request: Request) -> Any:
    """Return the structure that the user gave, or the learner with the user's settings, checked."""
    from mercer.kernels import REGISTRY, parse
    from mercer.learners.criteria import CRITERIA
    from mercer.learners.grammar.grammar_search import GrammarSearch
    from mercer.learners.grammar.operators import checked_operators
    from mercer.learners.kfo import KernelFunctional
    from mercer.learners.nkn import NeuralKernelNetwork

    settings: dict[str, Any] = {
        "--bases": request.bases, "--time-budget": request.time_budget, "--depth": request.depth,
        "--checkpoint": request.checkpoint, "--score": request.score, "--finalists": request.finalists,
        "--operators": request.operators,
    }  # fmt: skip
    if request.regimes is not None and request.kernel != SURFACE:
        raise InputError("--regimes: only for --kernel surface, which learns where one regime gives way to another.")
    if request.kernel != SEARCH:
        kept = ("--time-budget",) if request.kernel == FUNCTIONAL else ()
        useless = [option for option, value in settings.items() if value is not None and option not in kept]
        if useless:
            raise InputError(f"{', '.join(useless)}: only for a search. Leave out --kernel to search for a structure.")
        if request.kernel == NETWORK:
            return NeuralKernelNetwork()
        if request.kernel == SURFACE:
            from mercer.learners.surface import ChangeSurface

            return ChangeSurface() if request.regimes is None else ChangeSurface(regimes=request.regimes)
        if request.kernel == FUNCTIONAL:
            return KernelFunctional(time_budget=_seconds(request.time_budget))
        parse(request.kernel)
        return request.kernel
    budget = MOST_SECONDS if request.time_budget is None else _seconds(request.time_budget)
    bases = [name.upper() for name in request.bases] if request.bases is not None else None
    unknown = [name for name in bases or () if name not in REGISTRY]
    if unknown or bases == []:
        wrong = f"there is no base kernel {', '.join(map(repr, unknown))}" if unknown else "the list is empty"
        raise InputError(f"--bases: {wrong}. There are {', '.join(REGISTRY)}.")
    score = "bic" if request.score is None else request.score.lower()
    if score not in CRITERIA:
        raise InputError(f"--score: there is no score {request.score!r}. There are {', '.join(CRITERIA)}.")
    if request.finalists not in (None, "score", "forward"):
        raise InputError(f"--finalists is score or forward, not {request.finalists!r}.")
    search = GrammarSearch(score=score, max_depth=request.depth, time_budget=budget, checkpoint=request.checkpoint)
    if request.operators is not None:
        search = replace(search, operators=checked_operators(request.operators))
    chosen: dict[str, Any] = {"finalists": request.finalists, "bases": tuple(bases) if bases is not None else None}
    return replace(search, **{name: value for name, value in chosen.items() if value is not None})


def _seconds(budget: float | None) -> float | None:
    if budget is not None and not budget > 0:
        raise InputError(f"--time-budget is a number of seconds greater than zero, not {budget:g}.")
    return None if budget == math.inf else budget


def prepared_task(request: Request, table: pd.DataFrame | ParquetRows, kernel: Any, terminal: Terminal) -> Task:
    """Part a table into inputs and target, checking all that can be checked before the fit; notes are kept."""
    from mercer.tables import Encoding, describe_gaps, split_target
    from mercer.tables.parquet_rows import ParquetRows

    if isinstance(table, ParquetRows):
        terminal.note(f"the table does not fit into memory: its {table.total:,} rows are read in parts")
        return Task(table, None, kernel)
    split = split_target(table, request.target, request.inputs)
    inputs, target = _with_target(split.inputs, split.target, terminal)
    encoding = Encoding.learn(inputs)
    matrix = encoding.apply(inputs)
    if not (matrix != matrix[0]).any():
        raise InputError(
            f"No input column varies ({', '.join(map(repr, inputs.columns))}), so nothing can be learned from them. "
            "Name other columns with --inputs."
        )
    for note in (*split.notes, *encoding.notes, *describe_gaps(inputs, encoding), *duplicate_notes(inputs, target)):
        terminal.note(note)
    return Task(inputs, target, kernel)


def _with_target(inputs: pd.DataFrame, target: pd.Series, terminal: Terminal) -> tuple[pd.DataFrame, pd.Series]:
    from mercer.explain.words import CONSTANT

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
            f"The target column '{target.name}' has {CONSTANT}. It is the same ({values.iloc[0]:g}) in all "
            f"{len(values)} rows: there is nothing to learn, and nothing was written. "
            "Choose another column with --target."
        )
    return inputs[present], values


def duplicate_notes(inputs: pd.DataFrame, target: pd.Series) -> list[str]:
    """Say how many rows are copies of others."""
    count = int(inputs.assign(**{"\0target": target}).duplicated().sum())
    if not count:
        return []
    what = "1 row is an exact copy of another" if count == 1 else f"{count} rows are exact copies of others"
    return [f"{what}; they are kept and count as repeated measurements"]


def fitted_model(task: Task, request: Request, terminal: Terminal) -> GPRegressor:
    """Fit the model, with progress; Ctrl-C keeps the best so far."""
    from mercer.estimators import GPRegressor

    terminal.prepare_core()
    searching = not isinstance(task.kernel, str)
    jobs = -1 if request.jobs is None and searching else request.jobs
    model = GPRegressor(kernel=task.kernel, random_state=request.seed, n_jobs=jobs)
    names = _encoded_names(task.inputs)
    target = None if task.target is None else task.target.to_numpy()
    with terminal.fitting(target, names if len(names) > 1 else None) as progress:
        model.fit(task.inputs, task.target, progress=progress)
    if model.stopped_ == "request":
        terminal.aside("stopped at your request; going on with the best so far")
    for note in model.notes_:
        terminal.note(note)
    model.fitted_ = replace(model.fitted_, notes=tuple(terminal.notes))
    return model


def _encoded_names(inputs: pd.DataFrame | ParquetRows) -> tuple[str, ...]:
    from mercer.tables import Encoding
    from mercer.tables.parquet_rows import ParquetRows

    return inputs.names if isinstance(inputs, ParquetRows) else Encoding.learn(inputs).names


def write_results(model: GPRegressor, explanation: Explanation, folder: Path) -> dict[str, str]:
    """Write everything; return the paths by kind, the report first."""
    from mercer.report import write_report
    from mercer.report.plots import components_figure, fit_figure, save_figure
    from mercer.report.view import Sight

    files = {
        "report": folder / "report.html",
        "model": folder / "model.mercer",
        "explanation": folder / "explanation.json",
        "fit": folder / "fit.png",
        "components": folder / "components.png",
    }
    model.save(files["model"])
    write_text(json_text(explanation.to_json()), files["explanation"])
    if model.candidates_:
        files["candidates"] = folder / "candidates.json"
        write_text(json_text(candidates_document(model)), files["candidates"])
    sight = Sight(model.fitted_)
    write_report(sight, files["report"], explanation)
    save_figure(fit_figure(sight), files["fit"])
    save_figure(components_figure(sight, explanation), files["components"])
    return {kind: str(path) for kind, path in files.items()}


def candidates_document(model: GPRegressor) -> dict[str, Any]:
    """Return every kernel that was tried, as plain data; `winner` and `parent` count from 0 in the list."""
    from mercer.explain.search import winner_of
    from mercer.model.settings import candidates_to_plain

    return {
        "format": "mercer-candidates",
        "version": 1,
        "winner": winner_of(model.candidates_, model.kernel_),
        "candidates": candidates_to_plain(model.candidates_, model.column_names_),
    }


def json_text(document: dict[str, Any]) -> str:
    """Return a document as the text of a file."""
    return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
