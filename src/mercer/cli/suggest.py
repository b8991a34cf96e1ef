"""The work of `suggest`: a table of experiments in, the next ones to do out, with what was found so far."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mercer.cli.files import prepare_file, prepare_table, write_table
from mercer.cli.terminal import Terminal, interrupt_once
from mercer.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from mercer.optimise.optimizer import Optimizer
    from mercer.optimise.space import Space
    from mercer.tables import ReadOptions

ADDED = ("purpose", "expected", "spread")  # columns of the output beside those of the table
FAILED = "failed"
SEMICOLONS = ("separator", "semicolon")  # between fields: 1.234 may be a decimal or not
LEAST = 2  # trials with a value
FINE = 1000  # a suggested number is rounded to this many parts of its range, or more finely


@dataclass(frozen=True)
class SuggestRequest:
    """What the user asked for."""

    trials: Path
    target: str
    out: Path
    bounds: Sequence[str] = ()
    inputs: Sequence[str] | None = None
    count: int = 1
    maximize: bool = False
    kernel: str = "auto"
    report: Path | None = None
    seed: int = 0
    reading: ReadOptions | None = None
    exclude: tuple[str, ...] = ()
    acquisition: str = "auto"


def suggest_and_write(request: SuggestRequest, terminal: Terminal) -> None:
    """Do the whole command; bounds, table and output are tried before the long work."""
    started = time.perf_counter()
    file = prepare_table(request.out, request.trials)
    page = None if request.report is None else prepare_file(request.report, request.trials, request.out)
    with terminal.working("reading the trials"):
        table, words = read_trials(request, terminal)
        names = choose_inputs(table, request)
        optimizer = begin_study(table, words, names, request, terminal)
    terminal.prepare_core()
    with interrupt_once(), terminal.working("learning what matters"):
        optimizer.finish_search()  # the next call begins anew, and would not go on with it
        optimizer.ask(request.count)
        new = optimizer.suggestions_[-request.count :]
        found = optimizer.explain(request.target)
        next_ones = tabulate(table, names, optimizer.space, new)
        if page is not None:
            optimizer.report(page, request.target, command=write_command(request))
    write_table(next_ones, file)
    elapsed = time.perf_counter() - started
    files = {"suggestions": str(request.out)} | ({} if page is None else {"report": str(request.report)})
    notes = "".join(f"note    {note}\n" for note in terminal.notes)
    wrote = "".join(f"wrote   {path}\n" for path in files.values())
    terminal.finish(
        f"{found.to_text(terminal.width)}\n{notes}{wrote}done in {elapsed:.1f} s",
        {
            "command": "suggest", "explanation": found.to_json(), "notes": terminal.notes, "files": files,
            "elapsed_seconds": elapsed,
        },
    )  # fmt: skip


def write_command(request: SuggestRequest) -> str:
    """Return the command that does the same again."""
    from mercer.tables import ReadOptions

    def join(names: Sequence[str]) -> str:
        return ",".join(f'"{name}"' if "," in name else name for name in names)

    read = request.reading or ReadOptions()
    given: list[tuple[str, object]] = [("--target", request.target), ("--maximize", request.maximize)]
    given += [("--bounds", bounds) for bounds in request.bounds]
    given += [("--inputs", join(request.inputs or ())), ("--exclude", join(request.exclude))]
    given += [("--count", request.count if request.count > 1 else None)]
    given += [("--kernel", None if request.kernel == "auto" else request.kernel)]
    given += [("--acquisition", None if request.acquisition == "auto" else request.acquisition)]
    given += [("--seed", request.seed or None)]
    given += [("--sheet", read.sheet), ("--encoding", read.encoding), ("--separator", read.separator)]
    given += [("--header", read.header), ("--keep-rows", read.keep_rows), ("--decimal", read.decimal)]
    given += [("--day-first", read.day_first), ("--month-first", read.day_first is False)]
    given += [("--type", f"{name}={kind}") for name, kind in read.kinds]
    given += [("--out", request.out), ("--report", request.report)]
    words = ["mercer", "suggest", str(request.trials)]
    for option, value in given:
        if value not in (None, "", False):
            words += [option] if value is True else [option, str(value)]
    return shlex.join(words)


def read_trials(request: SuggestRequest, terminal: Terminal) -> tuple[pd.DataFrame, dict[int, str]]:
    """Return the table, and the texts that stand in place of a number in the target, by row: these trials failed."""
    from mercer.tables import ReadOptions, read
    from mercer.tables.decisions import describe
    from mercer.tables.kinds import type_columns
    from mercer.tables.selection import exclude_columns

    target = request.target
    # whole numbers such as 2019 are settings, not dates
    options = replace(request.reading or ReadOptions(), digits=False, exclude=(*request.exclude, target))
    if request.inputs is not None:
        options = replace(options, columns=(*request.inputs, *ADDED))
    loaded = read(request.trials, options)
    table, words = loaded.frame, dict[int, str]()
    decisions = [*loaded.decisions, *exclude_columns(table, target, request.exclude)[1]]
    if target in table.columns:
        words = find_words(table[target])
        blank = table[target].astype(object)
        blank.iloc[list(words)] = None
        commas = any(decision.kind == "decimal" for decision in decisions)
        semicolons = options.separator == ";" or any((one.kind, one.value) == SEMICOLONS for one in decisions)
        found = replace(options, decimal=options.decimal or ("," if commas else None)).for_columns(point=not semicolons)
        values, more = type_columns(blank.infer_objects().to_frame(), found)
        table = table.assign(**{target: values[target]})
        decisions += [decision for decision in more if decision.kind != "missing"]  # noted as failed, or as waiting
    for decision in decisions:
        terminal.note(describe(decision))
    return table, words


def find_words(column: pd.Series) -> dict[int, str]:
    """Return the texts of a column of numbers that are none, by row; in one without a plain number, only "failed"."""
    from mercer.tables.kinds import MARKS_AMONG_NUMBERS
    from mercer.tables.numerals import take_apart

    texts = {row: str(entry).strip() for row, entry in enumerate(column) if isinstance(entry, str)}
    texts = {row: text for row, text in texts.items() if text and text.lower() not in MARKS_AMONG_NUMBERS}
    words = {row: text for row, text in texts.items() if take_apart(text) is None}
    stored = any(not isinstance(entry, str) for entry in column.dropna())
    if stored or len(words) < len(texts):
        return words
    return {row: text for row, text in words.items() if text.lower() == FAILED}  # the rest may have a unit


def choose_inputs(table: pd.DataFrame, request: SuggestRequest) -> list[str]:
    """Return the columns that are varied: those asked for, or all but the target and what an earlier call added."""
    from mercer.tables.names import quote, refuse_unknown_target, suggest

    columns = [str(name) for name in table.columns]
    refuse_unknown_target(request.target, columns)
    ours = [name for name in ADDED if name in columns]
    if ours and len(ours) < len(ADDED):
        raise InputError(
            f"'{request.trials.name}' has a column {quote(ours)}, under which suggestions are written; rename it first."
        )
    others = [name for name in columns if name not in (request.target, *ours, *request.exclude)]
    chosen = others if request.inputs is None else list(request.inputs)
    for name in chosen:
        if name not in others:
            raise InputError(f"There is no input column '{name}'; there are {quote(others)}.{suggest(name, others)}")
    if not chosen:
        raise InputError(f"'{request.trials.name}' has no input column beside the target '{request.target}'.")
    return chosen


def begin_study(
    table: pd.DataFrame, words: dict[int, str], names: Sequence[str], request: SuggestRequest, terminal: Terminal
) -> Optimizer:
    """Read the bounds and tell all rows; a row that cannot be read is an error that names it and the column."""
    import numpy as np

    from mercer.optimise.bounds_text import range_of_column, read_bounds_text
    from mercer.optimise.optimizer import Optimizer
    from mercer.optimise.space import read_space
    from mercer.tables.columns import refuse_missing, to_texts
    from mercer.tables.names import quote, suggest

    given: dict[str, Any] = {}
    for text in request.bounds:
        name, bounds = read_bounds_text(text)
        if name not in names:
            raise InputError(
                f"--bounds {text}: there is no input '{name}'; there are {quote(names)}.{suggest(name, names)}"
            )
        if name in given:
            raise InputError(f"--bounds {text}: '{name}' has bounds already. Give them once.")
        given[name] = bounds
    for name in names:
        refuse_missing(name, to_texts(table[name]) == "")
        if name not in given:
            given[name], note = range_of_column(name, table[name])
            terminal.note(note)
    space = read_space({name: given[name] for name in names})
    values = read_target(table[request.target])
    if int(np.isfinite(values).sum()) < LEAST:
        raise InputError(
            f"'{request.trials.name}' has {int(np.isfinite(values).sum())} of the {LEAST} trials with a value of "
            f"'{request.target}' that are needed. Do the first experiments anywhere within the bounds."
        )
    # Rows that were added draw other random numbers: nothing is suggested twice.
    seed = int(np.random.SeedSequence([request.seed, len(table)]).generate_state(1)[0])
    optimizer = Optimizer(
        space, request.kernel, minimize=not request.maximize, random_state=seed, acquisition=request.acquisition
    )
    points = read_points(table, space)
    waiting = _find_waiting(table, values) - set(words)
    for row, (point, value) in enumerate(zip(points, values.tolist(), strict=True), start=1):
        try:
            if row - 1 in waiting:
                optimizer.wait_for(point)
            else:
                optimizer.tell(point, value)
        except InputError as error:
            raise InputError(f"'{request.trials.name}', data row {row}: {error}") from None
    if waiting:
        terminal.note(f"suggestions without a value yet, {_list_rows(waiting)}, count as being tried")
    failed = set(np.flatnonzero(~np.isfinite(values)).tolist()) - waiting
    for note in _note_failed(request.target, failed, words):
        terminal.note(note)
    if len(set(values[np.isfinite(values)].tolist())) == 1:
        terminal.note(f"all values of '{request.target}' are equal: nothing can be learned yet, so points are random")
    return optimizer


def _note_failed(target: str, failed: set[int], words: dict[int, str]) -> list[str]:
    """Return sentences that name the trials that failed."""
    from mercer.tables.names import quote

    other = {row: text for row, text in words.items() if text.lower() != FAILED}
    plain, end = failed - set(other), "taken as failed, and avoided"
    notes = [f"no value of '{target}' in {_list_rows(plain)}: {end}"] if plain else []
    if other:
        texts = quote(dict.fromkeys(other.values()))
        notes.append(f"no number of '{target}' in {_list_rows(other)} ({texts}): {end}")
    return notes


def _find_waiting(table: pd.DataFrame, values: Any) -> set[int]:
    """Rows that an earlier call suggested and nobody has done yet: without a value, and with a purpose."""
    import numpy as np

    from mercer.tables.columns import to_texts

    if not set(ADDED) <= set(table.columns):
        return set()
    target_empty = ~np.isfinite(values)
    return set(np.flatnonzero(target_empty & (to_texts(table["purpose"]) != "")).tolist())


def _list_rows(rows: Any) -> str:
    from mercer.tables.names import list_names

    return f"data row{'s' if len(rows) > 1 else ''} {list_names(str(row + 1) for row in sorted(rows))}"


def read_target(column: pd.Series) -> Any:
    """Return the values; NaN where the trial failed."""
    import numpy as np

    from mercer.tables.columns import holds_numbers, parse_numbers, refuse_unreadable, to_numbers, to_texts

    if holds_numbers(column):
        values = to_numbers(column)
    else:
        texts = to_texts(column)
        values = parse_numbers(texts)
        advice = "The target holds the numbers to optimise; leave the cell empty where a trial failed."
        refuse_unreadable(column.name, texts, np.isnan(values) & (texts != ""), "number", advice)
    return np.where(np.isfinite(values), values, np.nan)


def read_points(table: pd.DataFrame, space: Space) -> list[dict[str, Any]]:
    """Return every row as a point."""
    from mercer.optimise.space import Category
    from mercer.tables.columns import refuse_missing, to_finite_numbers, to_texts

    columns: dict[str, list[Any]] = {}
    for name, one in zip(space.names, space.inputs, strict=True):
        if isinstance(one, Category):
            texts = to_texts(table[name])
            refuse_missing(name, texts == "")
            columns[name] = list(texts)
        else:
            columns[name] = to_finite_numbers(table[name], "Correct it, or drop the row.").tolist()
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def tabulate(table: pd.DataFrame, names: Sequence[str], space: Space, new: Sequence[Any]) -> pd.DataFrame:
    """Return suggestions under the columns of the table, the target and other columns empty."""
    import pandas as pd

    rows = []
    for each in new:
        cells = {name: round_value(each.x[name], one) for name, one in zip(space.names, space.inputs, strict=True)}
        expected, spread = each.mean, each.spread
        if spread:  # written as finely as it is known
            digits = 2 - math.floor(math.log10(spread))
            expected, spread = round(expected, digits), round(spread, digits)
        rows.append(cells | {"purpose": each.purpose, "expected": expected, "spread": spread})
    columns = [str(name) for name in table.columns if name not in ADDED]
    return pd.DataFrame(rows).reindex(columns=[*columns, *ADDED])


def round_value(value: Any, one: Any) -> Any:
    """Write a suggested number no more finely than anybody can set it; whole numbers and choices stay."""
    from mercer.optimise.space import Log, Range

    if not isinstance(one, Range | Log):
        return value
    width = one.high - one.low if isinstance(one, Range) else value
    rounded = round(value, math.ceil(math.log10(FINE / width)))
    return min(max(rounded, one.low), one.high)
