"""The work of `forecast`: a table of one series or many in, the next steps of each with bands out."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mercer.cli.files import prepare_table, write_table
from mercer.cli.terminal import Terminal, interrupt_once
from mercer.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from mercer.forecast.forecaster import Forecaster
    from mercer.tables import ReadOptions

LEVELS = (50, 80, 95)
SHOWN = 24  # rows in the terminal: two years of months
DIGITS = 4
PAGE, PICTURE = "report.html", "forecast.png"


@dataclass(frozen=True)
class ForecastRequest:
    """What the user asked for."""

    data: Path
    target: str
    horizon: int
    id: str | None = None
    time: str | None = None
    season: int | None = None
    positive: bool = False
    out: Path | None = None
    jobs: int = 1
    reading: ReadOptions | None = None


def forecast_and_write(request: ForecastRequest, terminal: Terminal) -> None:
    """Do the whole command; the output is tried before the long work."""
    from mercer.forecast.forecaster import Forecaster, read_horizon

    started = time.perf_counter()
    read_horizon(request.horizon)
    file = None if request.out is None else prepare_table(request.out, request.data)
    with terminal.working("reading the table"):
        table, request = read_long(request, terminal)
    terminal.prepare_core()
    with interrupt_once(), terminal.working("fitting"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are notes below
        model = Forecaster(season=request.season, positive=request.positive, n_jobs=request.jobs).fit(table)
        predicted = model.predict(request.horizon, LEVELS)
        found = predicted.reset_index()
    notes = [*terminal.notes, *model.notes_]
    files = {}
    if file is not None:
        write_table(found if request.id is None else found.rename(columns={"unique_id": request.id}), file)
        with terminal.working("writing the page"):
            files = {"forecast": str(request.out), **write_beside(file, model, predicted, request)}
    elapsed = time.perf_counter() - started
    lines = [say(model, found, request), "", show(found)]
    lines += [f"note    {note}" for note in notes] + [f"wrote   {path}" for path in files.values()]
    rows = found.assign(ds=found["ds"].astype(str)).to_dict("records")
    terminal.finish(
        "\n".join([*lines, f"done in {elapsed:.1f} s"]),
        {"command": "forecast", "rows": rows, "notes": notes, "files": files, "elapsed_seconds": elapsed},
    )


def write_beside(file: Path, model: Forecaster, predicted: pd.DataFrame, request: ForecastRequest) -> dict[str, str]:
    """Write the page and the picture into the folder of the table; return their places."""
    from mercer.forecast.findings import look_ahead
    from mercer.forecast.page import Forecasts, write_page, write_picture

    forecasts = Forecasts(model, look_ahead(model, predicted), request.target, request.time or "ds")
    findings = forecasts.findings() if len(forecasts.outlooks) > 1 else None
    page, picture = file.with_name(PAGE), file.with_name(PICTURE)
    write_page(forecasts, page, findings)
    write_picture(forecasts, picture, findings)
    return {"report": str(page), "picture": str(picture)}


def read_long(request: ForecastRequest, terminal: Terminal) -> tuple[pd.DataFrame, ForecastRequest]:
    """Return the table with unique_id (where ids were named), ds and y, and the request with its column of times."""
    import pandas as pd

    from mercer.tables import ReadOptions, read
    from mercer.tables.decisions import describe

    loaded = read(request.data, request.reading or ReadOptions())
    frame = loaded.frame
    terminal.notes += [describe(decision) for decision in loaded.decisions]
    for name in (request.target, request.id, request.time):
        if name is not None and name not in frame.columns:
            raise InputError(f"There is no column '{name}'; the columns are {', '.join(map(repr, frame.columns))}.")
    when = request.time or find_time(frame, request)
    columns = {"ds": frame[when].to_numpy(), "y": frame[request.target].to_numpy()}
    if request.id is not None:
        columns = {"unique_id": frame[request.id].astype(str).to_numpy(), **columns}
    return pd.DataFrame(columns), replace(request, time=when)


def find_time(frame: pd.DataFrame, request: ForecastRequest) -> str:
    """Return the only column of dates, or else of numbers, beside target and ids."""
    from mercer.tables.columns import holds_dates, holds_numbers

    others = [str(name) for name in frame.columns if name not in (request.target, request.id)]
    for holds in (holds_dates, holds_numbers):
        able = [name for name in others if holds(frame[name])]
        if len(able) == 1:
            return able[0]
        if len(able) > 1:
            raise InputError(f"Which column is the time: {', '.join(able)}? Say it with --time.")
    raise InputError(f"No column holds dates or numbers to be the time; there are {', '.join(others) or 'no others'}.")


def say(model: Forecaster, found: pd.DataFrame, request: ForecastRequest) -> str:
    """Say in a sentence what comes."""
    many = len(model.series_)
    if many > 1:
        return f"The next {request.horizon} steps of {request.target} in {many} series"
    last = found.iloc[-1]
    return (
        f"The next {request.horizon} steps of {request.target}: {last['mean']:.{DIGITS}g} at {_day(last['ds'])}, with "
        f"95 % probability between {last['lower_95']:.{DIGITS}g} and {last['upper_95']:.{DIGITS}g}"
    )


def _day(moment: object) -> str:
    return str(moment).removesuffix(" 00:00:00")


def show(found: pd.DataFrame) -> str:
    """Return the first rows as text."""
    shown = found.head(SHOWN).assign(ds=found["ds"].map(_day))
    text = shown.to_string(index=False, float_format=lambda value: f"{value:.{DIGITS}g}")
    more = len(found) - len(shown)
    return f"{text}\n... and {more} rows more" if more > 0 else text
