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
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from mercer.cli.terminal import Terminal, write
from mercer.errors import InputError, MercerError, NumericalError, Subject

USER, BUG, INTERRUPTED = 2, 1, 130
REPORT_AT = "the project's issue tracker"
# What an error is about, as the user typed it, where the option is not called as in the library.
OPTIONS: dict[Subject, str] = {"file": "file", "kinds": "--type", "series": "--id"}

app = typer.Typer(
    help="Learns the kernel of a Gaussian process from data, and explains what it learned.",
    add_completion=False,
    rich_markup_mode=None,
)

AsJson = Annotated[bool, Option("--json", help="Print one JSON document instead of text.")]
OutFolder = Annotated[Path, Option(help="Folder for the report, the model and the other results.")]
SECONDS = "Seconds that it may take: 120 where Mercer chooses (300 from 5,000 rows on), 600 of a search; inf: no end."
TimeBudget = Annotated[float | None, Option(help=SECONDS)]
Depth = Annotated[int | None, Option(min=0, help="Most steps from a single base kernel.")]
Jobs = Annotated[int | None, Option(min=1, help="Kernels fitted at a time; all cores by default.")]
Seed = Annotated[int, Option(min=0, max=2**32 - 1, help="Seed of the random starts; same seed, same result.")]
Inputs = Annotated[str | None, Option(help="Columns to explain it by, as a,b; all others by default.")]
Missing = Annotated[str, Option(help="Rows that lack an input: drop leaves them out, fail refuses the table.")]
# How a file is read. All of it is found out and noted; these say otherwise.
Sheet = Annotated[str | None, Option(help="Of a workbook: the sheet, by its name or number. The first by default.")]
Encoded = Annotated[str | None, Option("--encoding", help="The file's characters, as utf-8 or cp1252.")]
Separator = Annotated[str | None, Option(help="Between fields: one character, or the word tab.")]
Header = Annotated[int | None, Option(min=1, help="The line of the column names, from 1.")]
KeepRows = Annotated[bool, Option("--keep-rows", help="Keep rows that look like units, totals or footnotes.")]
Decimal = Annotated[str | None, Option(help="The decimal mark: a point or a comma.")]
DayFirst = Annotated[bool | None, Option("--day-first/--month-first", help="How to read dates such as 01/02/2019.")]
FirstYear = Annotated[
    int | None, Option(min=1, max=9900, help="The first year that years of two digits stand for, as 1950.")
]
Marks = Annotated[str | None, Option("--na", help="More entries that stand for a missing one, as -999,n.d.")]
Types = Annotated[
    list[str] | None, Option("--type", help="Kind of a column, as year=number, code=text, when=date; may be repeated.")
]
ModelFile = Annotated[Path, Argument(help="A model file written by Mercer.", show_default=False)]


def run(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process: 0 good, 2 the user's input, 1 a bug, 130 Ctrl-C."""
    sys.exit(execute(sys.argv[1:] if arguments is None else arguments))


def execute(arguments: Sequence[str], terminal: Terminal | None = None) -> int:
    """Run one command and return its exit code; nothing escapes as an exception."""
    terminal = terminal or Terminal("--json" in arguments)
    about: Subject | None = None
    try:
        command = typer.main.get_command(app)
        code = command.main(list(arguments), prog_name="mercer", standalone_mode=False, obj=terminal)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        return int(code or 0)
    except (KeyboardInterrupt, typer.Abort):
        message, kind, code = terminal.stopped, "Interrupted", INTERRUPTED
    except BaseException as error:  # the last resort of a program that never shows a stack trace
        message, kind, code = explain_failure(error)
        about = error.about if isinstance(error, InputError) else None
    if terminal.as_json:
        option = None if about is None else OPTIONS.get(about, f"--{about.replace('_', '-')}")
        write(json.dumps({"error": message, "kind": kind, "about": option}))
    elif code == INTERRUPTED:
        print(message, file=sys.stderr)
    else:
        print(*(f"note: {note}" for note in terminal.notes), f"error: {message}", sep="\n", file=sys.stderr)
    return code


def explain_failure(error: BaseException) -> tuple[str, str, int]:
    """Return a sentence or two for the user, the kind of error, and the exit code."""
    kind = type(error).__name__
    if isinstance(error, NumericalError) and "try" not in str(error):
        return f"{error}; try another kernel, or look for rows that are (almost) copies of each other", kind, USER
    if isinstance(error, MercerError):
        return str(error), kind, USER
    if isinstance(error, MemoryError):
        return "There is not enough memory for this. Use fewer rows or columns.", "TooLargeError", USER
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # typer's own, whichever click it carries
        context = getattr(error, "ctx", None)
        see = "" if context is None else f"\nSee '{context.command_path} --help'."
        missing = getattr(error, "param", None) if type(error).__name__ == "MissingParameter" else None
        what = getattr(missing, "help", None)
        means = f" It is for: {what[:1].lower()}{what[1:]}" if what else ""
        said = error.format_message().replace(": Value error, ", ": ")  # the parser's words before ours
        return f"{said}{means}{see}", "UsageError", USER
    text = "".join(traceback.format_exception(error))
    summary = f"{kind}: {error}".splitlines()[0][:200]
    try:
        with tempfile.NamedTemporaryFile("w", prefix="mercer-crash-", suffix=".txt", delete=False) as file:
            file.write(f"arguments: {sys.argv}\n\n{text}")
            kept = f"The details are in {Path(file.name)}"
    except OSError:
        kept = "The details could not be written to a file"
    return f"This is a bug in Mercer ({summary}). {kept}; please send them to {REPORT_AT}.", "Bug", BUG


def _version(wanted: bool) -> None:
    if wanted:
        from mercer import __version__

        write(f"mercer {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
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
    terminal: Terminal = context.obj
    with terminal.starting():
        from mercer.cli.learn import Request, learn_and_write
        from mercer.datasets import airline
        from mercer.tables import LoadedTable

    request = Request("demo", "passengers", out, seed=seed, time_budget=time_budget, depth=depth, jobs=jobs)
    learn_and_write(request, lambda: LoadedTable(airline(), ()), terminal)


@app.command()
def discover(  # noqa: PLR0913  # typer makes an option of every parameter
    context: typer.Context,
    data: Annotated[
        Path, Argument(help="A table: CSV, Excel (.xlsx) or Parquet; - is standard input.", show_default=False)
    ],
    target: Annotated[str, Option(help="The column to explain.", show_default=False)],
    inputs: Inputs = None,
    exclude: Annotated[str | None, Option(help="Columns to leave out, as a,b.")] = None,
    missing: Missing = "drop",
    kernel: Annotated[
        str | None,
        Option(
            help="'auto' chooses by the data (the default), 'search' for a structure, 'nkn' (a network), 'surface' "
            "(changes), 'partition' (what acts together), 'kfo' (a kernel without a formula), or say 'SE*PER + LIN'.",
        ),
    ] = None,
    task: Annotated[
        str, Option(help="regression: the target is a number; classification: it is a class.")
    ] = "regression",
    regimes: Annotated[int | None, Option(min=2, help="With --kernel surface: how many regimes (2).")] = None,
    operators: Annotated[
        str | None, Option(help="Of a search: +*r (the default), +*r| with changes and windows.")
    ] = None,
    bases: Annotated[
        str | None, Option(help="Base kernels to search with, as SE,PER,LIN,RQ,M12 (the default).")
    ] = None,
    score: Annotated[
        str | None, Option(help="What a search goes by: auto (the default), evidence, bic, aic, loo or heldout.")
    ] = None,
    finalists: Annotated[
        str | None, Option(help="Who wins of the best: by score (the default) or forward (to forecast).")
    ] = None,
    time_budget: TimeBudget = None,
    depth: Depth = None,
    jobs: Jobs = None,
    checkpoint: Annotated[
        Path | None, Option(help="Folder to keep finished work in; the same call goes on there.")
    ] = None,
    sheet: Sheet = None,
    encoding: Encoded = None,
    separator: Separator = None,
    header: Header = None,
    keep_rows: KeepRows = False,
    decimal: Decimal = None,
    day_first: DayFirst = None,
    first_year: FirstYear = None,
    na: Marks = None,
    types: Types = None,
    out: OutFolder = Path("mercer-out"),
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Find out what explains one column of a table, and what comes next along dates; write a report and the model."""
    terminal: Terminal = context.obj
    with terminal.starting():
        from mercer.cli.files import read_rows
        from mercer.cli.learn import Request, learn_and_write
        from mercer.tables import ReadOptions

    if task not in ("regression", "classification"):
        raise InputError(f"--task is regression or classification, not '{task}'.")
    classes, columns, excluded = task == "classification", _split_names(inputs), tuple(_split_names(exclude) or ())
    options = ReadOptions(
        sheet, encoding, separator, header, keep_rows, decimal, day_first, _split_types(types), _split_marks(na),
        first_year=first_year, columns=None if columns is None else (*columns, target), exclude=excluded,
        numbers=(target,),
    )  # fmt: skip
    request = Request(
        "discover", target, out, inputs=columns, kernel=kernel, classes=classes,
        bases=_split_names(bases), score=score, finalists=finalists, time_budget=time_budget, depth=depth, jobs=jobs,
        checkpoint=checkpoint, seed=seed, operators=operators, regimes=regimes, exclude=excluded, missing=missing,
    )  # fmt: skip
    learn_and_write(request, lambda: read_rows(data, target, options), terminal)


def _split_names(names: str | None) -> list[str] | None:
    """As in a CSV file: a name with a comma in it stands in quotation marks."""
    return None if names is None else [name.strip() for name in next(csv.reader([names], skipinitialspace=True))]


def _split_marks(marks: str | None) -> tuple[str, ...]:
    return tuple(_split_names(marks) or ())


def _read_steps(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(f"the horizon is a number of steps from 1 on, such as 12, not {text!r:.60}") from None


def _split_types(types: Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    pairs = [text.rpartition("=") for text in types or ()]
    for name, mark, kind in pairs:
        if not (name and mark):
            raise InputError(f"--type is a column and its kind, as year=number, not '{kind}'.")
    return tuple((name.strip(), kind.strip().lower()) for name, _, kind in pairs)


@app.command()
def predict(  # noqa: PLR0913  # typer makes an option of every parameter
    context: typer.Context,
    model: ModelFile,
    new: Annotated[Path, Argument(help="A table with the model's input columns.", show_default=False)],
    out: Annotated[Path, Option(help="Where to write: .csv or .parquet.", show_default=False)],
    missing: Annotated[
        str, Option(help="Rows that lack an input: drop predicts nothing there, fail refuses.")
    ] = "drop",
    sheet: Sheet = None,
    encoding: Encoded = None,
    separator: Separator = None,
    header: Header = None,
    keep_rows: KeepRows = False,
    decimal: Decimal = None,
    day_first: DayFirst = None,
    first_year: FirstYear = None,
    na: Marks = None,
    types: Types = None,
    as_json: AsJson = False,
) -> None:
    """Predict at new rows: NEW with mean, std, lower_95, upper_95 of new observations, or class and its probability."""
    started, terminal = time.perf_counter(), context.obj
    with terminal.starting():
        from mercer.cli.files import prepare_table, write_table
        from mercer.cli.predict import predict_table
        from mercer.tables import ReadOptions

    file = prepare_table(out, new, model)
    options = ReadOptions(
        sheet, encoding, separator, header, keep_rows, decimal, day_first, _split_types(types), _split_marks(na),
        first_year=first_year,
    )  # fmt: skip
    table = predict_table(model, new, terminal, options, missing)
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
    model: ModelFile,
    as_json: AsJson = False,
) -> None:
    """Say in words what a model file holds."""
    started, terminal = time.perf_counter(), context.obj
    with terminal.starting():
        from mercer.cli.predict import load_table_model

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
    source: Annotated[Path, Argument(metavar="IN", help="A grid: .npy, .png or .nc.", show_default=False)],
    out: Annotated[Path, Option(help="Where to write: as IN, or .npy.", show_default=False)],
    mask: Annotated[Path | None, Option(help="Cells to fill: .npy or .png of the same shape, not zero there.")] = None,
    kernel: Annotated[
        str, Option(help="For every axis, say 'SE' or 'nkn'; or one for each, say 'SE; PER*SE'.")
    ] = "SM6",
    variable: Annotated[str | None, Option(help="Which array of a NetCDF file.")] = None,
    bands: Annotated[bool, Option(help="Also write standard deviations: OUT-std.npy, or a variable.")] = True,
    model: Annotated[Path | None, Option(help="Also write the model to this file.")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Fill the holes of a grid: NaN in an array, transparent pixels of a picture, missing values in NetCDF."""
    terminal: Terminal = context.obj
    with terminal.starting():
        from mercer.cli.fill import FillRequest, fill_and_write

    fill_and_write(FillRequest(source, out, kernel, mask, variable, bands, model, seed), terminal)


@app.command()
def forecast(  # noqa: PLR0913  # typer makes an option of every parameter
    context: typer.Context,
    data: Annotated[Path, Argument(help="One series or many: CSV, Excel or Parquet.", show_default=False)],
    target: Annotated[str, Option(help="The column to forecast.", show_default=False)],
    horizon: Annotated[
        int, Option(parser=_read_steps, metavar="INTEGER", help="How many steps to foresee, in the steps of the data.")
    ],
    id_column: Annotated[str | None, Option("--id", help="The column that says which series a row belongs to.")] = None,
    time_column: Annotated[str | None, Option("--time", help="The column of dates; found by default.")] = None,
    season: Annotated[int | None, Option(min=1, help="Steps in a season; by the kind of step by default.")] = None,
    positive: Annotated[bool, Option("--positive", help="The target cannot fall to zero or below.")] = False,
    causes: Annotated[str | None, Option(help="Columns of known causes, as price,promotion; needs --future.")] = None,
    future: Annotated[Path | None, Option(help="A table with the causes of the steps to come, by date.")] = None,
    holidays: Annotated[str | None, Option(help="A country whose holidays count, as DE, or a part, as DE-BY.")] = None,
    out: Annotated[
        Path | None, Option(help="Also write the forecasts here (.csv or .parquet), a page and a picture beside them.")
    ] = None,
    jobs: Annotated[int, Option(min=1, help="Series fitted at the same time.")] = 1,
    sheet: Sheet = None,
    encoding: Encoded = None,
    separator: Separator = None,
    header: Header = None,
    keep_rows: KeepRows = False,
    decimal: Decimal = None,
    day_first: DayFirst = None,
    first_year: FirstYear = None,
    na: Marks = None,
    types: Types = None,
    as_json: AsJson = False,
) -> None:
    """Forecast the next steps of one series or many, with bands of 50, 80 and 95 %."""
    from mercer.cli.forecast import ForecastRequest, forecast_and_write
    from mercer.tables import ReadOptions

    options = ReadOptions(
        sheet, encoding, separator, header, keep_rows, decimal, day_first, _split_types(types), _split_marks(na),
        first_year=first_year,
    )  # fmt: skip
    request = ForecastRequest(
        data, target, horizon, id_column, time_column, season, positive, out, jobs, options,
        causes=tuple(_split_names(causes) or ()), future=future, holidays=holidays,
    )  # fmt: skip
    forecast_and_write(request, context.obj)


@app.command()
def suggest(  # noqa: PLR0913  # typer makes an option of every parameter
    context: typer.Context,
    trials: Annotated[Path, Argument(help="The experiments done so far: CSV, Excel or Parquet.", show_default=False)],
    target: Annotated[
        str,
        Option(
            help="The column to optimise. A row where it is empty, or holds a text, is a trial that failed: "
            "it is kept, and places like it are avoided.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, Option(help="Where to write the next ones: .csv or .parquet.", show_default=False)],
    bounds: Annotated[
        list[str] | None,
        Option(
            help="Of one input, as temperature=20:90, stirring=1:10:integer, dose=0.01:1:log or solvent=a,b,c; "
            "may be repeated. An input without bounds has the range of its column.",
        ),
    ] = None,
    inputs: Annotated[str | None, Option(help="Columns to vary, as a,b; all others by default.")] = None,
    exclude: Annotated[str | None, Option(help="Columns to leave out, as a,b.")] = None,
    count: Annotated[int, Option(min=1, help="How many experiments to suggest, to be done at the same time.")] = 1,
    maximize: Annotated[bool, Option("--maximize/--minimize", help="Look for the highest or lowest value.")] = False,
    kernel: Annotated[
        str, Option(help="'auto' (which inputs act together is learned), 'nkn', 'search', or 'SE(time) + SE(dose)'.")
    ] = "auto",
    acquisition: Annotated[
        str,
        Option(
            help="How the next ones are chosen: 'auto', 'bound', 'thompson' (both by group where inputs act in small "
            "groups) or 'improvement'."
        ),
    ] = "auto",
    report: Annotated[Path | None, Option(help="Also write a page with pictures to this file.")] = None,
    sheet: Sheet = None,
    encoding: Encoded = None,
    separator: Separator = None,
    header: Header = None,
    keep_rows: KeepRows = False,
    decimal: Decimal = None,
    day_first: DayFirst = None,
    first_year: FirstYear = None,
    na: Marks = None,
    types: Types = None,
    seed: Annotated[
        int, Option("--seed", "--random-state", min=0, max=2**32 - 1, help="Seed; same seed, same result.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Suggest the next experiments from those done so far. With their results added, run it again to go on."""
    terminal: Terminal = context.obj
    with terminal.starting():
        from mercer.cli.suggest import SuggestRequest, suggest_and_write
        from mercer.tables import ReadOptions

    options = ReadOptions(
        sheet, encoding, separator, header, keep_rows, decimal, day_first, _split_types(types), _split_marks(na),
        first_year=first_year,
    )  # fmt: skip
    request = SuggestRequest(
        trials, target, out, bounds or (), _split_names(inputs), count, maximize, kernel, report, seed, options,
        tuple(_split_names(exclude) or ()), acquisition,
    )  # fmt: skip
    suggest_and_write(request, terminal)


@app.command(name="app")
def serve_pages(
    context: typer.Context,
    folder: Annotated[Path | None, Option(help="Where its files lie; a folder of your user by default.")] = None,
    port: Annotated[int | None, Option(min=1, max=65535, help="Of the address; the last one, or a free one.")] = None,
    browser: Annotated[bool, Option("--browser/--no-browser", help="Open the page in your browser.")] = True,
    keep: Annotated[bool, Option("--keep", help="Keep the files at the end; they go after a day.")] = False,
) -> None:
    """Open a page in the browser: drop a table, read what explains it. For this machine alone."""
    terminal: Terminal = context.obj
    try:
        from mercer.app.serving import serve
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "anyio"):
            raise
        raise InputError(f"`mercer app` needs the package {error.name}: pip install starlette uvicorn.") from None
    serve(folder, port, browser, keep, terminal.aside)
