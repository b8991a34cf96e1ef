"""The command `mercer`: what the user types, and how it ends.

Commands import what they need when they run, so that `mercer --help` is quick.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mercer.cli.terminal import Terminal, write
from mercer.errors import InputError, MercerError, NumericalError

USER, BUG, INTERRUPTED = 2, 1, 130
REPORT_AT = "the project's issue tracker"

app = typer.Typer(
    help="Learns the kernel of a Gaussian process from data, and explains what it learned.",
    add_completion=False,
    rich_markup_mode=None,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
OutFolder = Annotated[Path, typer.Option("--out", help="Folder for the report, the model and the other results.")]
TimeBudget = Annotated[
    float | None,
    typer.Option(
        "--time-budget", help="Seconds after which a search takes the best kernel so far: 600 by default; inf: no end."
    ),
]
Depth = Annotated[int | None, typer.Option("--depth", min=0, help="Most steps from a single base kernel.")]
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, help="Kernels fitted at a time; all cores by default.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the random starts; same seed, same result.")]


def run(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process: 0 good, 2 the user's input, 1 a bug, 130 Ctrl-C."""
    sys.exit(execute(sys.argv[1:] if arguments is None else arguments))


def execute(arguments: Sequence[str], terminal: Terminal | None = None) -> int:
    """Run one command and return its exit code; nothing escapes as an exception."""
    terminal = terminal or Terminal("--json" in arguments)
    try:
        command = typer.main.get_command(app)
        code = command.main(list(arguments), prog_name="mercer", standalone_mode=False, obj=terminal)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        return int(code or 0)
    except (KeyboardInterrupt, typer.Abort):
        return report_failure(explain_failure(KeyboardInterrupt()), terminal.as_json, [])
    except BaseException as error:  # the last resort of a program that never shows a stack trace
        return report_failure(explain_failure(error), terminal.as_json, terminal.notes)


@dataclass(frozen=True)
class ExitMessage:
    """A sentence or two, the kind of error, and the exit code."""

    message: str
    kind: str
    code: int


def explain_failure(error: BaseException) -> ExitMessage:
    """Turn an exception into a message for the user."""
    if isinstance(error, KeyboardInterrupt):
        return ExitMessage("stopped before there was a result; nothing was written", "Interrupted", INTERRUPTED)
    if isinstance(error, NumericalError):
        return ExitMessage(f"{error}{_advise(str(error))}", type(error).__name__, USER)
    if isinstance(error, MercerError):
        return ExitMessage(str(error), type(error).__name__, USER)
    if isinstance(error, MemoryError):
        return ExitMessage("There is not enough memory for this. Use fewer rows or columns.", "TooLargeError", USER)
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # typer's own, whichever click it carries
        return ExitMessage(f"{error.format_message()}{_point_to_help(error)}", "UsageError", USER)
    return ExitMessage(_describe_bug(error), "Bug", BUG)


def report_failure(failure: ExitMessage, as_json: bool, notes: list[str]) -> int:
    """Write the failure where it belongs, and return the exit code."""
    if as_json:
        write(json.dumps({"error": failure.message, "kind": failure.kind}))
    elif failure.code == INTERRUPTED:
        print(failure.message, file=sys.stderr)
    else:
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
        print(f"error: {failure.message}", file=sys.stderr)
    return failure.code


def _advise(message: str) -> str:
    return "" if "try" in message else "; try another kernel, or look for rows that are (almost) copies of each other"


def _point_to_help(error: BaseException) -> str:
    context = getattr(error, "ctx", None)
    return "" if context is None else f"\nSee '{context.command_path} --help'."


def _describe_bug(error: BaseException) -> str:
    text = "".join(traceback.format_exception(error))
    summary = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    try:
        with tempfile.NamedTemporaryFile("w", prefix="mercer-crash-", suffix=".txt", delete=False) as file:
            file.write(f"arguments: {sys.argv}\n\n{text}")
            kept = f"The details are in {Path(file.name)}"
    except OSError:
        kept = "The details could not be written to a file"
    return f"This is a bug in Mercer ({summary}). {kept}; please send them to {REPORT_AT}."


def _version(wanted: bool) -> None:
    if wanted:
        from mercer import __version__

        write(f"mercer {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Learns the kernel of a Gaussian process from data, and explains what it learned."""
    if context.invoked_subcommand is None:
        write(context.get_help())


@app.command()
def demo(
    context: typer.Context,
    out: OutFolder = Path("mercer-demo"),
    time_budget: TimeBudget = None,
    depth: Depth = None,
    jobs: Jobs = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Show what Mercer does, on 144 months of airline passengers."""
    from mercer.cli.learn import Request, learn_and_write
    from mercer.datasets import airline

    request = Request("demo", "passengers", out, seed=seed, time_budget=time_budget, depth=depth, jobs=jobs)
    learn_and_write(request, airline, context.obj)


@app.command()
def discover(  # noqa: PLR0913  # typer makes an option of every parameter
    context: typer.Context,
    data: Annotated[Path, typer.Argument(help="A table: CSV or Parquet.", show_default=False)],
    target: Annotated[str, typer.Option("--target", help="The column to explain.", show_default=False)],
    inputs: Annotated[
        str | None, typer.Option("--inputs", help="Columns to explain it by, as a,b; all others by default.")
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(
            "--kernel",
            help="'search' for a structure (the default), 'nkn' (a network), 'surface' (changes), "
            "'kfo' (a kernel without a formula, the default for classes), or say 'SE*PER + LIN'.",
        ),
    ] = None,
    task: Annotated[
        str, typer.Option("--task", help="regression: the target is a number; classification: it is a class.")
    ] = "regression",
    regimes: Annotated[
        int | None, typer.Option("--regimes", min=2, help="With --kernel surface: how many regimes (2).")
    ] = None,
    operators: Annotated[
        str | None, typer.Option("--operators", help="Of a search: +*r (the default), +*r| with changes and windows.")
    ] = None,
    bases: Annotated[
        str | None, typer.Option("--bases", help="Base kernels to search with, as SE,PER,LIN,RQ,M12 (the default).")
    ] = None,
    score: Annotated[
        str | None, typer.Option("--score", help="What a search goes by: bic (the default), aic, loo or heldout.")
    ] = None,
    finalists: Annotated[
        str | None,
        typer.Option("--finalists", help="Who wins of the best: by score (the default) or forward (to forecast)."),
    ] = None,
    time_budget: TimeBudget = None,
    depth: Depth = None,
    jobs: Jobs = None,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", help="Folder to keep finished work in; the same call goes on there.")
    ] = None,
    out: OutFolder = Path("mercer-out"),
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Find out what explains one column of a table; write a report, the model, and every kernel tried."""
    from mercer.cli.files import read_rows
    from mercer.cli.learn import FUNCTIONAL, SEARCH, Request, learn_and_write

    if task not in ("regression", "classification"):
        raise InputError(f"--task is regression or classification, not '{task}'.")
    classes, columns = task == "classification", _split_names(inputs)
    request = Request(
        "discover", target, out, inputs=columns, kernel=kernel or (FUNCTIONAL if classes else SEARCH), classes=classes,
        bases=_split_names(bases), score=score, finalists=finalists, time_budget=time_budget, depth=depth, jobs=jobs,
        checkpoint=checkpoint, seed=seed, operators=operators, regimes=regimes,
    )  # fmt: skip
    learn_and_write(request, lambda: read_rows(data, target, columns), context.obj)


def _split_names(names: str | None) -> list[str] | None:
    """As in a CSV file: a name with a comma in it stands in quotation marks."""
    return None if names is None else [name.strip() for name in next(csv.reader([names], skipinitialspace=True))]


@app.command()
def predict(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="A model file written by Mercer.", show_default=False)],
    new: Annotated[Path, typer.Argument(help="A table with the model's input columns.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="Where to write: .csv or .parquet.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Predict at new rows: NEW with mean, std, lower_95, upper_95 of new observations, or class and its probability."""
    started = time.perf_counter()
    from mercer.cli.files import prepare_table, write_table
    from mercer.cli.predict import predict_table

    terminal: Terminal = context.obj
    file = prepare_table(out, new, model)
    table = predict_table(model, new, terminal)
    write_table(table, file)
    elapsed = time.perf_counter() - started
    notes = "".join(f"note    {note}\n" for note in terminal.notes)
    added = "mean, std, lower_95 and upper_95" if "lower_95" in table.columns else "class and probability"
    terminal.finish(
        f"{notes}wrote   {out}: {len(table):,} rows with {added}\ndone in {elapsed:.1f} s",
        {
            "command": "predict", "rows": len(table), "columns": list(table.columns), "notes": terminal.notes,
            "files": {"predictions": str(out)}, "elapsed_seconds": elapsed,
        },
    )  # fmt: skip


@app.command()
def explain(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="A model file written by Mercer.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Say in words what a model file holds."""
    started = time.perf_counter()
    from mercer.cli.predict import load_table_model

    terminal: Terminal = context.obj
    terminal.prepare_core()
    with terminal.working("reading the model"):
        explanation = load_table_model(model).explain()
    terminal.finish(
        explanation.to_text(terminal.width),
        {"command": "explain", "explanation": explanation.to_json(), "elapsed_seconds": time.perf_counter() - started},
    )


@app.command()
def fill(  # noqa: PLR0913  # typer makes an option of every parameter
    context: typer.Context,
    source: Annotated[Path, typer.Argument(metavar="IN", help="A grid: .npy, .png or .nc.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="Where to write: as IN, or .npy.", show_default=False)],
    mask: Annotated[
        Path | None, typer.Option("--mask", help="Cells to fill: .npy or .png of the same shape, not zero there.")
    ] = None,
    kernel: Annotated[
        str, typer.Option("--kernel", help="For every axis, say 'SE' or 'nkn'; or one for each, say 'SE; PER*SE'.")
    ] = "SM6",
    variable: Annotated[str | None, typer.Option("--variable", help="Which array of a NetCDF file.")] = None,
    bands: Annotated[bool, typer.Option(help="Also write standard deviations: OUT-std.npy, or a variable.")] = True,
    model: Annotated[Path | None, typer.Option("--model", help="Also write the model to this file.")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Fill the holes of a grid: NaN in an array, transparent pixels of a picture, missing values in NetCDF."""
    from mercer.cli.fill import FillRequest, fill_and_write

    fill_and_write(FillRequest(source, out, kernel, mask, variable, bands, model, seed), context.obj)
