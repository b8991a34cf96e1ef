"""What the processes of the server do: read a table, search, forecast, predict. Plain data in, plain data
and files out.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd

from mercer.app.live import Live, Picture
from mercer.cli.files import read_rows, write_table
from mercer.cli.forecast import LEVELS, ForecastRequest, read_long, write_beside
from mercer.cli.learn import (
    FUNCTIONAL,
    SEARCH,
    Request,
    choose_kernel,
    prepare_rows,
    remember_day_order,
    write_results,
)  # fmt: skip
from mercer.cli.main import explain_failure
from mercer.cli.predict import WITHIN_95, load_table_model
from mercer.cli.terminal import Terminal
from mercer.errors import InputError
from mercer.estimators import GPRegressor, KernelSVC
from mercer.explain import explain
from mercer.explain.classes import explain_classes
from mercer.explain.wording import number as write_number
from mercer.forecast.findings import compare, look_ahead
from mercer.forecast.forecaster import Forecaster
from mercer.forecast.next_steps import foresee
from mercer.forecast.page import list_steps
from mercer.forecast.words import tell_change, tell_last
from mercer.learners.auto import AutoKernel
from mercer.model.classes import FittedClasses
from mercer.model.fitted import Fitted
from mercer.report.html import QUESTIONS, fit_caption
from mercer.report.plots import fit_figure, save_figure
from mercer.tables import ReadOptions, read
from mercer.tables.columns import Categories, Column, DateColumn, holds_dates, holds_numbers
from mercer.tables.decisions import WORDS, Decision
from mercer.tables.names import quote
from mercer.tables.reading import WORKBOOK_EXTENSIONS
from mercer.tables.workbook import EXCEL_ERRORS
from mercer.writing import write_text

Arguments = dict[str, Any]
Answer = dict[str, Any]
Task = Callable[[Arguments], Answer]
SHOWN_ROWS, SHOWN_TEXT = 6, 40
MOST_LEVELS = 50  # of a column of texts that may be classes
PHONE, PHONE_DENSITY = 580, 160  # pixels of a picture for a phone, and of an inch of it: finer than its screen
FORMULA = ("=", "+", "-", "@", "\t", "\r", "|", "%")  # a cell that begins so may be run by a spreadsheet program
FIELDS = {  # the field of the form by which a decision can be corrected
    "encoding": "encoding", "separator": "separator", "sheet": "sheet", "titles": "header", "comments": "keep_rows",
    "units": "keep_rows", "totals": "keep_rows", "footnotes": "keep_rows", "repeated names": "keep_rows",
    "decimal": "decimal", "thousands": "decimal", "day order": "day_first", "currency": "kinds", "per cent": "kinds",
    "unit": "kinds", "clock": "kinds", "flags": "kinds", "minus": "kinds", "missing": "kinds", "years": "kinds",
    "dates from digits": "kinds", "dates from day numbers": "kinds", "seasons": "kinds",
    "codes": "kinds", "excluded": "kinds",
}  # fmt: skip


def load_core() -> None:
    """Load the compiled core, which takes a moment; on a new machine it is compiled here, once."""
    rows = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": [0.0, 1.0, 0.0, 1.0]})
    model = GPRegressor("SE + PER", restarts=1, max_iterations=2, random_state=0)
    model.fit(rows[["x"]], rows["y"]).predict(rows[["x"]])


def run_task(task: Task, arguments: Arguments) -> Answer:
    """Do a task; an error becomes a sentence."""
    try:
        return task(arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the server goes on, whatever a file does to us
        return explain_error(error)


def explain_error(error: BaseException) -> Answer:
    """Return an error as plain data: a sentence, and what it is about."""
    sentence, kind, _ = explain_failure(error)
    return {"problem": sentence, "kind": kind, "about": error.about if isinstance(error, InputError) else None}


def read_options(plain: Arguments, **more: Any) -> ReadOptions:
    """Return what the user says about a file; unknown settings are passed over."""
    known = {each.name for each in fields(ReadOptions)}
    given = {name: value for name, value in plain.items() if name in known and value is not None}
    kinds = tuple((str(name), str(kind)) for name, kind in given.pop("kinds", {}).items())
    return ReadOptions(**given | {"exclude": tuple(given.get("exclude", ())), "kinds": kinds} | more)


# ------------------------------------------------------------------------------------------------------------- reading


def read_table(arguments: Arguments) -> Answer:
    """Read a file; write how it was read, and a first picture, to `reading.json` beside it."""
    file, options = Path(arguments["file"]), read_options(arguments["options"], name=arguments["title"])
    try:
        loaded = read(file, options)
        frame, excluded = leave_out(loaded.frame, options.exclude)
    except InputError as error:
        return explain_error(error) | {"names": list_names(file, options), "sheets": list_sheets(file)}
    columns = [describe_column(frame[name]) for name in frame.columns]
    target = guess_target(columns)
    reading = {
        "rows": len(frame),
        "columns": columns,
        "excluded": list(excluded),
        "notes": [describe_decision(each) for each in (*loaded.decisions, *note_excluded(excluded))],
        "shown": [[_show(value) for value in row] for row in frame.head(SHOWN_ROWS).itertuples(index=False)],
        "sheets": list_sheets(file),
        "target": target,
        "picture": draw_table(frame, columns, target),
    }
    write_text(json.dumps(reading, allow_nan=False), file.with_name("reading.json"))
    return {"rows": len(frame), "columns": len(columns)}


def leave_out(frame: pd.DataFrame, names: Sequence[str]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the table without some columns, and which of them it had."""
    excluded = tuple(name for name in names if name in frame.columns)
    if len(excluded) == len(frame.columns):
        raise InputError("All columns are left out. Keep at least one.", about="kinds")
    return frame.drop(columns=list(excluded)), excluded


def note_excluded(names: tuple[str, ...]) -> list[Decision]:
    """Return what was left out as a decision."""
    return [Decision("excluded", columns=names)] if names else []


def list_names(file: Path, options: ReadOptions) -> list[str]:
    """Return the columns of a table of which one cannot be read, so that it can be left out; none where none can."""
    try:
        return list(map(str, read(file, replace(options, columns=(), kinds=())).frame.columns))
    except InputError:
        return []


def list_sheets(file: Path) -> list[str]:
    """Return the names of the sheets of a workbook; a damaged one is refused by the reader, with a sentence."""
    if file.suffix not in WORKBOOK_EXTENSIONS:
        return []
    import openpyxl

    try:
        return [str(name) for name in openpyxl.load_workbook(file, read_only=True).sheetnames]
    except EXCEL_ERRORS:
        return []


def describe_decision(decision: Decision) -> dict[str, str]:
    """Return a decision in words, and the field that decides otherwise."""
    return {"text": WORDS[decision.kind](decision), "field": FIELDS.get(decision.kind, "")}


def describe_column(column: pd.Series) -> dict[str, Any]:
    """Return what a person needs to know to choose a column."""
    kind = "date" if holds_dates(column) else "number" if holds_numbers(column) else "text"
    present = column.dropna()
    return {
        "name": str(column.name), "kind": kind, "missing": int(column.isna().sum()),
        "different": int(present.astype(str).nunique() if kind == "text" else present.nunique()),
        "example": _show(present.iloc[0]) if len(present) else "",
    }  # fmt: skip


def guess_target(columns: Sequence[dict[str, Any]]) -> str | None:
    """Return the last column of numbers that vary, else the last of classes."""
    numbers = [each["name"] for each in columns if each["kind"] == "number" and each["different"] > 2]
    classes = [each["name"] for each in columns if 1 < each["different"] <= MOST_LEVELS]
    return next(iter((*reversed(numbers), *reversed(classes))), None)


def draw_table(frame: pd.DataFrame, columns: Sequence[dict[str, Any]], target: str | None) -> dict[str, Any] | None:
    """Return the first picture: the guessed target along the only column of dates, or else the first of numbers."""
    kinds = {each["name"]: each["kind"] for each in columns}
    others = [name for name in kinds if name != target]
    dates, numbers = ([name for name in others if kinds[name] == kind] for kind in ("date", "number"))
    if target is None or kinds[target] != "number" or not (dates or numbers):
        return None
    along = dates[0] if dates else numbers[0]
    rows = frame[[along, target]].dropna()
    if len(rows) < 2 or rows[target].nunique() < 2 or rows[along].nunique() < 2:
        return None
    try:
        return Picture.of(rows[[along]], rows[target].astype(float)).draw(None, None) | {"ends": None}
    except InputError:  # numbers too large to be drawn; what they are is said when they are to be learned from
        return None


def _show(value: Any) -> str:
    if value is None or value is pd.NaT or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    text = str(value).removesuffix(" 00:00:00")
    return text if len(text) <= SHOWN_TEXT else f"{text[: SHOWN_TEXT - 1]}…"


# ----------------------------------------------------------------------------------------------------------- searching


def read_request(arguments: Arguments) -> tuple[Request, Any]:
    """Return what is to be learned, and the table with the columns that are needed for it."""
    folder, target, classes = Path(arguments["folder"]), str(arguments["target"]), bool(arguments["classes"])
    request = Request(
        "discover", target, folder, inputs=list(arguments["inputs"]) or None, classes=classes,
        time_budget=arguments["seconds"], kernel=FUNCTIONAL if classes else None,
    )  # fmt: skip
    used = {"columns": (*arguments["inputs"], target), "exclude": (), "numbers": (target,)}
    options = read_options(arguments["options"], name=arguments["title"], **used)
    return request, read_rows(Path(arguments["file"]), target, options)


def choose_learner(request: Request, inputs: Any, values: Any) -> Request:
    """Return the request with the learner that `mercer discover` would choose; a search keeps what it has finished."""
    automatic = GPRegressor(AutoKernel(time_budget=request.time_budget))
    learner = automatic.plan(inputs, values).learner
    return replace(request, kernel=learner, checkpoint=request.out / "checkpoint" if learner == SEARCH else None)


def check(arguments: Arguments) -> Answer:
    """See whether anything can be learned; what cannot is an error."""
    request, table = read_request(arguments)
    prepare_rows(request, table, Terminal(as_json=False))
    return {}


def learn(arguments: Arguments) -> Answer:
    """Search, explain and write everything into the model's folder, as `mercer discover` does."""
    started = time.perf_counter()
    folder, classes = Path(arguments["folder"]), bool(arguments["classes"])
    live, terminal = Live(folder / "progress.json"), Terminal(as_json=False)
    live.tell(stage="reading")
    request, table = read_request(arguments)
    inputs, values, names = prepare_rows(request, table, terminal)
    kernel = choose_kernel(request if classes else choose_learner(request, inputs, values))
    model: GPRegressor | KernelSVC
    if classes:
        model = KernelSVC(kernel=kernel, random_state=request.seed)
        live.tell(stage="searching")
    else:
        model = GPRegressor(kernel=kernel, random_state=request.seed, n_jobs=arguments["jobs"])
        if isinstance(inputs, pd.DataFrame) and values is not None:
            live.show(inputs, values, names)
    with terminal.working(""):
        with stop_once():
            fitted: Fitted | FittedClasses = model.fit(inputs, values, progress=live.report).fitted_
        for note in fitted.notes:
            terminal.note(note)
        fitted = remember_day_order(replace(fitted, notes=tuple(terminal.notes)), table)
        live.tell(stage="explaining")
        explanation = explain_classes(fitted) if isinstance(fitted, FittedClasses) else explain(fitted)
        steps = None if isinstance(fitted, FittedClasses) else foresee(fitted)
        write_results(fitted, explanation, folder, steps)
        if isinstance(fitted, Fitted):
            save_figure(fit_figure(fitted, width=PHONE, density=PHONE_DENSITY), folder / "fit-narrow.png")
    seconds = time.perf_counter() - started
    return {"result": summarise(fitted, explanation) | {"seconds": seconds, "stopped": fitted.stopped}}


@contextmanager
def stop_once() -> Iterator[None]:
    """Let the first "stop" inside interrupt; those that follow, there and afterwards, must not lose what was found."""
    stopped = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def summarise(fitted: Fitted | FittedClasses, explanation: Any) -> dict[str, Any]:
    """Return what the page of a model shows."""
    shared = {
        "headline": explanation.headline, "rows": explanation.rows, "notes": list(explanation.notes),
        "tried": len(fitted.candidates), "kernel": explanation.kernel,
        "fields": [describe_field(column, fitted.training.X, place) for place, column in locate_columns(fitted)],
    }  # fmt: skip
    if isinstance(fitted, FittedClasses):
        more = f"{explanation.relevance_sentence} {explanation.confusion_sentence}".strip()
        return shared | {
            "lead": explanation.error_sentence, "more": more, "answers": [], "parts": [],
            "scores": {"error": explanation.error}, "caption": "",
        }  # fmt: skip
    scores = explanation.scores
    return shared | {
        "kernel": explanation.expression,
        "lead": explanation.structure.sentence,
        "answers": [{"question": QUESTIONS[each.question], "sentence": each.sentence} for each in explanation.answers],
        "parts": [{"share": each.share, "sentence": each.sentence} for each in explanation.main_components]
        + [{"share": explanation.noise_share, "sentence": explanation.noise_sentence}],
        "scores": {
            "log_evidence": scores.log_evidence, "bic": scores.bic, "leave_one_out": scores.leave_one_out,
            "parameters": scores.parameters, "noise": explanation.noise_std,
        },
        "caption": fit_caption(explanation),
    }  # fmt: skip


def locate_columns(fitted: Fitted | FittedClasses) -> list[tuple[int, Any]]:
    """Return the columns of the table that a model learned from, each with the place of its first number."""
    found, place = [], 0
    for column in fitted.columns.encoding.columns:
        found.append((place, column))
        place += len(column.encoded_names)
    return found


def describe_field(column: Any, X: Any, place: int) -> dict[str, Any]:
    """Return what a field for values of a column needs: its kind, a value to begin with, and its categories."""
    if isinstance(column, Categories):
        return {"name": column.name, "kind": "text", "levels": list(column.levels), "example": column.levels[0]}
    numbers = X[:, place]
    if isinstance(column, DateColumn):
        return {"name": column.name, "kind": "date", "example": column.timeline.text(float(numbers.max()))}
    return {"name": column.name, "kind": "number", "example": f"{float(np.median(numbers)):.4g}"}


# ------------------------------------------------------------------------------------------- forecasts and predictions


def forecast(arguments: Arguments) -> Answer:
    """Forecast the next steps as `mercer forecast` does; write table and page into the folder that is named."""
    folder, terminal = Path(arguments["folder"]), Terminal(as_json=False)
    request = ForecastRequest(
        Path(arguments["file"]), str(arguments["target"]), int(arguments["steps"]), arguments["series"],
        arguments["time"], reading=read_options(arguments["options"], name=arguments["title"]),
    )  # fmt: skip
    table, _, request = read_long(request, terminal)
    with terminal.working(""):
        model = Forecaster().fit(table)
        predicted = model.predict(request.horizon, LEVELS)
    found = predicted.reset_index()
    folder.mkdir(exist_ok=True)
    named = found if request.id is None else found.rename(columns={"unique_id": request.id})
    write_table(neutralise(named), folder / "forecast.csv")
    write_beside(folder / "forecast.csv", model, predicted, request)
    outlooks = look_ahead(model, predicted)
    first, target = outlooks[0], request.target
    sentences = [tell_last(first, target), tell_change(first, compare(first), target)] if len(outlooks) == 1 else []
    return {
        "forecast": {
            "steps": request.horizon, "series": len(outlooks), "sentences": sentences,
            "rows": list_steps(first) if len(outlooks) == 1 else [],
            "notes": [*terminal.notes, *model.notes_], "target": target,
        }
    }  # fmt: skip


def predict(arguments: Arguments) -> Answer:
    """Predict at the values that were typed; a value that cannot be read is a problem of its own column."""
    model = load_table_model(Path(arguments["model"]))
    values: dict[str, str] = arguments["values"]
    encoding = model.fitted_.columns.encoding
    frame = pd.DataFrame({column.name: [values.get(column.name, "")] for column in encoding.columns}, dtype=object)
    problems = {}
    for column in encoding.columns:
        try:
            column.encode(frame[column.name])
        except InputError:
            problems[column.name] = explain_value(column, values.get(column.name, ""))
    if problems:
        return {"problems": problems}
    notes = Terminal(as_json=False)
    with notes.working(""):
        if isinstance(model, GPRegressor):
            mean, std = (float(each[0]) for each in model.predict(frame, return_std=True))
            ends = mean - WITHIN_95 * std, mean + WITHIN_95 * std
            prediction = {"expected": write_number(mean), "low": write_number(ends[0]), "high": write_number(ends[1])}
            row = frame.assign(mean=mean, std=std, lower_95=ends[0], upper_95=ends[1])
        else:
            chances = model.predict_proba(frame)[0]
            chance = f"{100 * float(chances.max()):.0f}\u00a0%"
            prediction = {"expected": str(model.predict(frame)[0]), "chance": chance}
            row = frame.assign(**{"class": prediction["expected"]}).assign(probability=float(chances.max()))
    return {"prediction": prediction | {"notes": notes.notes, "cells": neutralise(row).to_csv(index=False)}}


def explain_value(column: Column, typed: str) -> str:
    """Say what is wrong with a single value, which has neither a row nor a table."""
    if not typed.strip():
        return "Give a value."
    wrong = f"“{typed[:SHOWN_TEXT]}” is not a {'category' if isinstance(column, Categories) else column.kind}"
    if isinstance(column, Categories):
        return f"{wrong} that Mercer learned from. There are {quote(column.levels)}."
    if isinstance(column, DateColumn):
        order = "day" if column.day_first else "month"
        return f"{wrong}. Write dates as 1949-01-31; in dates such as 01/02/1950 the {order} comes first."
    return f"{wrong}. Write numbers as 1234.5."


def neutralise(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table no cell of which a spreadsheet program would run: such texts begin with an apostrophe."""

    def calm(value: Any) -> Any:
        return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value

    texts = [name for name in table.columns if not (holds_numbers(table[name]) or holds_dates(table[name]))]
    return table.assign(**{name: table[name].map(calm) for name in texts}).rename(columns=calm)


TASKS: dict[str, Task] = {"read": read_table, "check": check, "learn": learn, "forecast": forecast, "predict": predict}
