"""The work of `forecast`: a table of one series or many in, the next steps of each with bands out."""

from __future__ import annotations

import math
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
DIGITS, MOST_DIGITS = 4, 12  # of a number: more where bands are narrow beside their level, up to where rounding begins
PAGE, PICTURE, FINDINGS = "report.html", "forecast.png", "{stem}-findings{suffix}"


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
    causes: tuple[str, ...] = ()
    future: Path | None = None
    holidays: str | None = None


def forecast_and_write(request: ForecastRequest, terminal: Terminal) -> None:
    """Do the whole command; the output is tried before the long work."""
    from mercer.forecast.forecaster import Forecaster, read_horizon

    started = time.perf_counter()
    read_horizon(request.horizon)
    file = None if request.out is None else prepare_table(request.out, request.data)
    with terminal.working("reading the table"):
        table, causes, request = read_long(request, terminal)
        future = read_steps_to_come(request, table, causes)
    terminal.prepare_core()
    with interrupt_once(), terminal.counting("fitting", "series") as count, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are notes below
        model = Forecaster(
            season=request.season, positive=request.positive, holidays=request.holidays, n_jobs=request.jobs
        ).fit(table, causes, progress=count)
        predicted = model.predict(request.horizon, LEVELS, future)
        found = predicted.reset_index()
    notes = [*terminal.notes, *model.notes_, *note_clock(model), *note_bands_below_zero(model, found, request.target)]
    files = {}
    if file is not None:
        write_table(found if request.id is None else found.rename(columns={"unique_id": request.id}), file)
        with terminal.working("writing the page"):
            beside = write_beside(file, model, predicted, request, prefix=f"{file.stem}-")
            files = {"forecast": str(request.out), **beside}
    elapsed = time.perf_counter() - started
    kind = model.reading_.many[0].calendar.kind
    lines = [say(model, found, request), "", show(found.rename(columns={"unique_id": request.id}), kind)]
    effects = [] if len(model.series_) > 1 else [effect.sentence for effect in model.effects()]
    lines += [f"cause   {sentence}" for sentence in effects]
    lines += [f"note    {note}" for note in notes] + [f"wrote   {path}" for path in files.values()]
    rows = found.assign(ds=found["ds"].astype(str)).to_dict("records")
    terminal.finish(
        "\n".join([*lines, f"done in {elapsed:.1f} s"]),
        {
            "command": "forecast",
            "rows": rows,
            "effects": effects,
            "notes": notes,
            "files": files,
            "elapsed_seconds": elapsed,
        },
    )


def note_clock(model: Forecaster) -> list[str]:
    """Say by which clock times are shown that were given with offsets from UTC."""
    found = (named.calendar.offset for named in model.reading_.many)
    offsets = sorted({offset for offset in found if offset is not None})
    if not offsets:
        return []
    clocks = " or ".join(f"UTC{'-' if each < 0 else '+'}{abs(each) // 60:02d}:{abs(each) % 60:02d}" for each in offsets)
    return [f"steps are counted in elapsed time; times to come are shown by the clock of the last row, {clocks}"]


def note_bands_below_zero(model: Forecaster, found: pd.DataFrame, target: str) -> list[str]:
    """Say how bands stay above zero, where all values do and bands do not."""
    above = all((named.series.values > 0).all() for named in model.reading_.many)
    if not above or not (found["lower_95"] < 0).any():
        return []
    return [f"all values of {target} are above zero and some bands pass it; where it cannot, say --positive"]


def write_beside(
    file: Path, model: Forecaster, predicted: pd.DataFrame, request: ForecastRequest, prefix: str = ""
) -> dict[str, str]:
    """Write the page, the picture and of many series the findings into the table's folder; return their places.

    A prefix after the table lets tables in one folder keep their own page and picture.
    """
    from mercer.forecast.findings import look_ahead, tabulate
    from mercer.forecast.page import Forecasts, write_page, write_picture

    forecasts = Forecasts(model, look_ahead(model, predicted), request.target, request.time or "ds")
    findings = forecasts.findings() if len(forecasts.outlooks) > 1 else None
    page, picture = (file.with_name(prefix + name) for name in (PAGE, PICTURE))
    write_page(forecasts, page, findings)
    write_picture(forecasts, picture, findings)
    files = {"report": str(page), "picture": str(picture)}
    if findings is not None:
        table = tabulate(findings, forecasts.outlooks).rename(columns={"unique_id": request.id})
        place = file.with_name(FINDINGS.format(stem=file.stem, suffix=file.suffix))
        write_table(table, prepare_table(place, request.data))
        files["findings"] = str(place)
    return files


def read_long(
    request: ForecastRequest, terminal: Terminal
) -> tuple[pd.DataFrame | pd.Series, pd.DataFrame | None, ForecastRequest]:
    """Return a series, or unique_id, ds and y where ids were named; known causes; the request with its times."""
    import pandas as pd

    from mercer.tables import ReadOptions, read
    from mercer.tables.decisions import describe

    loaded = read(request.data, request.reading or ReadOptions())
    frame = loaded.frame
    terminal.notes += [describe(decision) for decision in loaded.decisions]
    for name in (request.target, request.id, request.time, *request.causes):
        if name is not None and name not in frame.columns:
            raise InputError(f"There is no column '{name}'; the columns are {', '.join(map(repr, frame.columns))}.")
    when = request.time or find_time(frame, request)
    refuse_two_parts(request, when)
    refuse_other_times(frame[when])
    frame = leave_out_unplaced(frame, [name for name in (when, request.id) if name is not None], terminal)
    times, values = frame[when].to_numpy(), frame[request.target].to_numpy()
    causes = frame[list(request.causes)] if request.causes else None
    request = replace(request, time=when)
    if request.id is not None:
        ids = frame[request.id].astype(str).to_numpy()
        return pd.DataFrame({"unique_id": ids, "ds": times, "y": values}), causes, request
    if (found := find_ids(frame, request, when)) is not None:
        raise InputError(f"Some times occur twice: are these many series? Then say --id {found}.", about="series")
    return pd.Series(values, index=times, name=request.target), causes, request


def refuse_two_parts(request: ForecastRequest, when: str) -> None:
    """Refuse a column that is named for two things, such as the target as its own cause."""
    parts = [("target", request.target), ("time", when), ("id", request.id)]
    parts += [("causes", name) for name in request.causes]
    taken: dict[str, str] = {}
    for part, name in parts:
        if name is not None and taken.get(name) == part:
            raise InputError(f"Column '{name}' is named twice in --{part}; once is enough.")
        if name is not None and name in taken:
            raise InputError(f"Column '{name}' is named as --{taken[name]} and as --{part}; it can be one of them.")
        if name is not None:
            taken[name] = part


def leave_out_unplaced(frame: pd.DataFrame, names: list[str], terminal: Terminal) -> pd.DataFrame:
    """Leave out rows without a time, or without the name of their series, with a note of how many."""
    for name in names:
        lacking = frame[name].isna() | (frame[name].astype(str).str.strip() == "")
        count = int(lacking.sum())
        if count:
            rows = "1 row has" if count == 1 else f"{count} rows have"
            terminal.notes.append(f"{rows} no '{name}' and {'is' if count == 1 else 'are'} left out")
            frame = frame[~lacking].reset_index(drop=True)
    return frame


def read_steps_to_come(
    request: ForecastRequest, table: pd.DataFrame | pd.Series, causes: pd.DataFrame | None
) -> pd.DataFrame | None:
    """Read the table of known causes to come, and see that it fits, before the long work."""
    if causes is None or request.future is None:
        if request.causes:
            raise InputError("--causes needs their values of the steps to come: give a table with --future.")
        if request.future is not None:
            raise InputError("--future is for known causes: say with --causes which columns of the data they are.")
        return None
    from mercer.forecast.future import read_future
    from mercer.forecast.reading import read_series
    from mercer.tables import ReadOptions, read

    frame = read(request.future, request.reading or ReadOptions()).frame
    names = {str(request.time): "ds"}
    if request.id is not None:
        names[request.id] = "unique_id"
    for name in (*names, *request.causes):
        if name not in frame.columns:
            there = ", ".join(map(repr, frame.columns))
            raise InputError(f"The future table lacks the column '{name}'; it has {there}.")
    future = frame[[*names, *request.causes]].rename(columns=names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read_future(future, read_series(table, causes, request.season, request.holidays), request.horizon)
    return future


def find_time(frame: pd.DataFrame, request: ForecastRequest) -> str:
    """Return the only column of dates, or else of numbers, beside target and ids."""
    from mercer.tables.columns import holds_numbers

    taken = (request.target, request.id, *request.causes)
    others = [str(name) for name in frame.columns if name not in taken]
    for holds in (holds_times, holds_numbers):
        able = [name for name in others if holds(frame[name])]
        if len(able) == 1:
            return able[0]
        if len(able) > 1:
            raise InputError(f"Which column is the time: {', '.join(able)}? Say it with --time.", about="time")
    there = ", ".join(others) or "no others"
    raise InputError(f"No column holds dates or numbers to be the time; there are {there}.", about="time")


def holds_times(column: pd.Series) -> bool:
    """Tell whether a column holds dates; those with the offsets of summer and winter are texts in a table."""
    from mercer.tables.columns import DateColumn, holds_dates, holds_numbers, recognise

    if holds_dates(column) or holds_numbers(column):
        return holds_dates(column)
    try:
        return isinstance(recognise(column)[0], DateColumn)
    except InputError:  # neither dates nor categories
        return False


def refuse_other_times(column: pd.Series) -> None:
    """Refuse a column of times that holds neither dates nor numbers, with the first that is none."""
    from mercer.tables.columns import holds_numbers
    from mercer.tables.dates import parse_dates

    if holds_numbers(column) or holds_times(column):
        return
    texts = column.dropna().astype(str)
    unread = texts[[str(moment) == "NaT" for moment in parse_dates(texts.to_numpy(dtype=object), day_first=False).wall]]
    shown = (unread if len(unread) else texts).iloc[0]
    raise InputError(
        f"Column '{column.name}' holds {shown!r:.60}, which is no date; write dates as 2024-01-31 (or 2024-01), "
        "or name another column with --time.",
        about="time",
    )


def find_ids(frame: pd.DataFrame, request: ForecastRequest, when: str) -> str | None:
    """Return the column that tells apart rows of the same time; None where no time occurs twice, or no column does."""
    if not frame[when].dropna().duplicated().any():
        return None
    others = [str(name) for name in frame.columns if name not in (request.target, when, *request.causes)]
    return next((name for name in others if not frame.duplicated([when, name]).any()), None)


def say(model: Forecaster, found: pd.DataFrame, request: ForecastRequest) -> str:
    """Say in a sentence what comes."""
    many = len(model.series_)
    if many > 1:
        return f"The next {request.horizon} steps of {request.target} in {many} series"
    last, time = found.iloc[-1], found["ds"].iloc[-1]  # a row turns whole numbers into others
    digits = count_digits(last["lower_95"], last["upper_95"])
    mean, lower, upper = (write_plainly(last[name], digits) for name in ("mean", "lower_95", "upper_95"))
    when = _day(time, model.reading_.many[0].calendar.kind, _has_hours(found))
    return (
        f"The next {request.horizon} steps of {request.target}: {mean} at {when}, with 95 % probability "
        f"between {lower} and {upper}"
    )


def count_digits(lower: float, upper: float) -> int:
    """Return how many digits tell the ends of a band apart, so that 1e9 with noise 1 is more than one number."""
    width, largest = upper - lower, max(abs(lower), abs(upper))
    if not (width > 0 and math.isfinite(largest)):
        return DIGITS
    return min(max(DIGITS, math.ceil(math.log10(largest / width)) + 2), MOST_DIGITS)


def write_plainly(value: float, digits: int) -> str:
    """Write a number with so many digits, without an exponent where people need none."""
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:.15g}" if 1e-4 <= abs(rounded) < 1e15 else f"{rounded:.{digits}g}"


def _has_hours(found: pd.DataFrame) -> bool:
    """Tell whether a step of a table has an hour, so that midnight is shown too."""
    return any(len(_day(moment)) > len("2024-01-31") for moment in found["ds"])


def _day(moment: object, kind: str = "none", timed: bool = False) -> str:
    """Write a time: of days with their weekday, of hours (or where others have one) with the hour even at midnight."""
    text = str(moment) if timed or kind == "hour" else str(moment).removesuffix(" 00:00:00")
    name = getattr(moment, "day_name", None)
    return f"{name()[:3]} {text}" if kind in ("day", "hour") and name is not None else text


def show(found: pd.DataFrame, kind: str = "none") -> str:
    """Return the first rows as text, with enough digits in each to tell its bands apart."""
    shown = found.head(SHOWN)
    numbers = shown.select_dtypes("number").drop(columns="ds", errors="ignore")
    least = 1e-12 * float(numbers.abs().to_numpy().max(initial=0.0))  # less is rounding
    digits = [count_digits(min(row), max(row)) for row in numbers.to_numpy()]
    columns = {
        str(name): [
            write_plainly(0.0 if abs(value) < least else value, count)
            for value, count in zip(column, digits, strict=True)
        ]
        for name, column in numbers.items()
    }
    shown = shown.assign(**columns, ds=[_day(moment, kind, _has_hours(found)) for moment in shown["ds"]])
    text = shown.to_string(index=False)
    more = len(found) - len(shown)
    return f"{text}\n... and {more} rows more" if more > 0 else text
