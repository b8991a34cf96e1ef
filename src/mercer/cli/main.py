"""The command `mercer`: what the user types, and how it ends.

Commands import what they need when they run, so that `mercer --help` is quick.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from mercer.cli.failures import explain_failure, report_failure
from mercer.cli.terminal import Terminal, write

DEMO_KERNEL = "LIN*CPER*SE + SE + LIN"

app = typer.Typer(
    help="Learns the kernel of a Gaussian process from data, and explains what it learned.",
    add_completion=False,
    rich_markup_mode=None,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
OutFolder = Annotated[Path, typer.Option("--out", help="Folder for the pictures, the model and the summary.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the random starts; same seed, same result.")]


def run(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process: 0 good, 2 the user's input, 1 a bug, 130 Ctrl-C."""
    sys.exit(execute(sys.argv[1:] if arguments is None else arguments))


def execute(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; nothing escapes as an exception."""
    as_json = "--json" in arguments
    terminal = Terminal(as_json)
    try:
        command = typer.main.get_command(app)
        code = command.main(list(arguments), prog_name="mercer", standalone_mode=False, obj=terminal)
        return _interrupted(terminal) if code == 130 else int(code or 0)
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted(terminal)
    except BaseException as error:  # the last resort of a program that never shows a stack trace
        return report_failure(explain_failure(error), as_json, terminal.notes)


def _interrupted(terminal: Terminal) -> int:
    return report_failure(explain_failure(KeyboardInterrupt()), terminal.as_json, [])


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
def demo(context: typer.Context, out: OutFolder = Path("mercer-demo"), seed: Seed = 0, as_json: AsJson = False) -> None:
    """Show what Mercer does, on 144 months of airline passengers."""
    from mercer.cli.learn import Request, learn_and_write
    from mercer.datasets import airline

    learn_and_write(Request("demo", "passengers", None, DEMO_KERNEL, out, seed), airline, context.obj)


@app.command()
def discover(
    context: typer.Context,
    data: Annotated[Path, typer.Argument(help="A table: CSV or Parquet.", show_default=False)],
    target: Annotated[str, typer.Option("--target", help="The column to explain.", show_default=False)],
    inputs: Annotated[
        str | None, typer.Option("--inputs", help="Columns to explain it by, as a,b; all others by default.")
    ] = None,
    kernel: Annotated[
        str | None, typer.Option("--kernel", help="The structure, as 'SE*PER + LIN'; a sensible one by default.")
    ] = None,
    out: OutFolder = Path("mercer-out"),
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Learn a model of one column of a table, explain it, and write pictures and a model file."""
    from mercer.cli.learn import Request, learn_and_write

    def read() -> Any:
        from mercer.tables import read_table

        return read_table(data)

    # As in a CSV file: a name with a comma in it stands in quotation marks.
    chosen = None if inputs is None else [name.strip() for name in next(csv.reader([inputs], skipinitialspace=True))]
    learn_and_write(Request("discover", target, chosen, kernel, out, seed), read, context.obj)


@app.command()
def predict(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="A model file written by Mercer.", show_default=False)],
    new: Annotated[Path, typer.Argument(help="A table with the model's input columns.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="Where to write: .csv or .parquet.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Predict at new rows: the table NEW with columns mean, std, lower_95 and upper_95 (for new observations)."""
    started = time.perf_counter()
    from mercer.cli.files import prepared_table, write_table
    from mercer.cli.predicting import with_predictions

    terminal: Terminal = context.obj
    file = prepared_table(out, new, model)
    table = with_predictions(model, new, terminal)
    write_table(table, file)
    elapsed = time.perf_counter() - started
    notes = "".join(f"note    {note}\n" for note in terminal.notes)
    terminal.finish(
        f"{notes}wrote   {out}: {len(table):,} rows with mean, std, lower_95 and upper_95\ndone in {elapsed:.1f} s",
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
    from mercer.cli.describe import summary_of
    from mercer.estimators import load

    terminal: Terminal = context.obj
    terminal.announce_compilation()
    with terminal.working("reading the model"):
        fitted = load(model)
        summary = summary_of(fitted, getattr(fitted, "notes_", ()))
    terminal.finish(
        summary.to_text(terminal.width),
        {"command": "explain", "summary": summary.to_json(), "elapsed_seconds": time.perf_counter() - started},
    )
